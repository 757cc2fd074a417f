//! Where programs write and connect, and what the kernel cannot keep.

use std::{
    fs,
    io::Read as _,
    net::{Ipv4Addr, TcpListener},
};

use countersign_domain::{Bound, NotKept, WritePlace};
use countersign_hosts::gateway::{StartError, Unkept};

use crate::support::write_file;

use super::fixture::{Scene, connecting, starting, unkept, writing};

/// Ways to change a file that lies outside, which `$1` is.
const CHANGES: &[&str] = &[
    "echo new > \"$1/file\"",
    "echo new >> \"$1/file\"",
    ": > \"$1/file\"",
    "truncate -s 1 \"$1/file\"",
    "cp new \"$1/file\"",
    "mv new \"$1/file\"",
    "ln -f new \"$1/file\"",
    "ln -sf /nowhere \"$1/file\"",
    "rm \"$1/file\"",
    "rm -r \"$1\"",
    "mv \"$1/file\" here",
    "ln \"$1/file\" here && echo new > here",
    "ln -s \"$1/file\" there && echo new > there",
    "mkdir \"$1/file.d\"; mkfifo \"$1/fifo\"; touch \"$1/more\"",
];

#[tokio::test]
async fn what_lies_outside_is_not_written() {
    let scene = Scene::new();
    // On the file system of the workspace: a hard link across two fails without any limits.
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().to_str().unwrap();
    let fresh = || {
        drop(fs::remove_dir_all(outside.path()));
        fs::create_dir(outside.path()).unwrap();
        write_file(&outside.path().join("file"), "old");
        write_file(&scene.file("new"), "new");
        for name in ["here", "there"] {
            drop(fs::remove_file(scene.file(name)));
        }
    };
    let is_old = || {
        let names = fs::read_dir(outside.path()).map_or(0, Iterator::count);
        let file = fs::symlink_metadata(outside.path().join("file"));
        let text = fs::read_to_string(outside.path().join("file"));
        names == 1 && file.is_ok_and(|file| file.is_file()) && text.is_ok_and(|text| text == "old")
    };
    for change in CHANGES {
        let argv = ["sh", "-c", change, "sh", path];
        fresh();
        let (report, _) = scene
            .run(scene.spec(&argv, writing(&[WritePlace::Workspace])))
            .await;
        assert!(is_old(), "{change}: {}", String::from_utf8_lossy(&report.stderr));
        fresh();
        scene.run(unkept(scene.spec(&argv, writing(&[])))).await;
        assert!(!is_old(), "{change}");
        // Where the entry names the place it is done.
        fresh();
        let places = [WritePlace::Workspace, WritePlace::Path(path.to_owned())];
        let needs_parent = change.starts_with("rm -r");
        scene.run(scene.spec(&argv, writing(&places))).await;
        assert!(!is_old() || needs_parent, "{change}");
    }
}

#[tokio::test]
async fn the_workspace_and_its_devices_are_written() {
    let scene = Scene::new();
    let text = "mkdir -p a/b c && echo x > a/b/f && mv a/b/f c/f && ln c/f a/g && rm a/g && echo y >> c/f && \
                : > /dev/null && echo out && mktemp > /dev/null && cat c/f | cat";
    let places = [WritePlace::Workspace, WritePlace::Tmp];
    let (report, _) = scene.run(scene.spec(&["sh", "-c", text], writing(&places))).await;
    let said = String::from_utf8_lossy(&report.stderr);
    assert_eq!(report.out(), "out\nx\ny\n", "{said}");
    // Without limits of what is written, what is executed stands in nobody's way.
    let (report, _) = scene
        .run(scene.spec(
            &[
                "sh",
                "-c",
                "mkdir d e && echo x > d/f && mv d/f e/f && ln e/f d/g && cat d/g",
            ],
            starting(&["mkdir", "mv", "ln", "cat"]),
        ))
        .await;
    assert_eq!(report.out(), "x\n", "{}", String::from_utf8_lossy(&report.stderr));
}

#[tokio::test]
async fn a_place_that_a_link_leads_to_is_not_written() {
    let scene = Scene::new();
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    std::os::unix::fs::symlink(outside.path(), scene.file("link")).unwrap();
    let place = WritePlace::Path(scene.file("link").to_str().unwrap().to_owned());
    scene
        .run(scene.spec(&["sh", "-c", "echo x > link/f"], writing(&[place])))
        .await;
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// Connects by the usual call, with the first data, and by protocols that turn into TCP.
const CONNECTS: &str = r#"
import socket, sys
port = int(sys.argv[1])
def tried(name, run):
    try: run(); print(name, "connected")
    except OSError as error: print(name, "refused")
def plain():
    s = socket.socket(); s.connect(("127.0.0.1", port)); s.send(b"x")
def fast():
    s = socket.socket(); s.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port))
def fast_message():
    s = socket.socket(); s.sendmsg([b"x"], [], socket.MSG_FASTOPEN, ("127.0.0.1", port))
def multipath():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.connect(("127.0.0.1", port)); s.send(b"x")
def mapped():
    s = socket.socket(socket.AF_INET6); s.connect(("::ffff:127.0.0.1", port)); s.send(b"x")
for f in (plain, fast, fast_message, multipath, mapped): tried(f.__name__, f)
"#;

#[tokio::test]
async fn only_named_ports_are_reached() {
    let scene = Scene::new();
    let [listener, other] = [(), ()].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let [port, other_port] = [&listener, &other].map(|listener| listener.local_addr().unwrap().port());
    let text = port.to_string();
    let argv = ["/usr/bin/python3", "-c", CONNECTS, &text];
    let (report, _) = scene.run(scene.spec(&argv, connecting(&[other_port]))).await;
    let said = String::from_utf8_lossy(&report.stderr);
    assert_eq!(
        report.out().matches("refused").count(),
        5,
        "{} {said}",
        report.out()
    );
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a connection was made");
    let (report, _) = scene.run(scene.spec(&argv, connecting(&[port]))).await;
    assert!(report.out().contains("plain connected"), "{}", report.out());
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(false).unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    let (report, _) = scene.run(unkept(scene.spec(&argv, connecting(&[])))).await;
    assert!(report.out().matches("connected").count() >= 3, "{}", report.out());
}

#[tokio::test]
async fn what_the_record_cannot_mean_is_refused() {
    let scene = Scene::new();
    let refused = async |spec| {
        let error = scene.refused(spec).await;
        let StartError::Unkept { why, .. } = error else {
            panic!("{error}");
        };
        why
    };
    // A text for a shell.
    let mut spec = scene.server.script("echo a");
    spec.confinement = scene.spec(&["sh"], starting(&[])).confinement;
    assert_eq!(refused(spec).await, Unkept::NotJudged);
    // Kept and not kept at once.
    let mut spec = scene.spec(&["sh", "-c", ":"], starting(&[]));
    spec.confinement.not_kept = Some(NotKept::GainsPrivileges);
    assert_eq!(refused(spec).await, Unkept::Contradiction);
    // Limits of more programs than there are.
    let mut spec = scene.spec(&["sh", "-c", ":"], starting(&[]));
    spec.confinement
        .programs
        .extend(spec.confinement.programs.clone());
    assert_eq!(refused(spec).await, Unkept::Contradiction);
    // A program that would lose what it is for.
    let tool = scene.script("tool", "#!/bin/sh\n");
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    assert_eq!(
        refused(scene.spec(&[&tool], starting(&[]))).await,
        Unkept::GainsPrivileges
    );
    // A program whose file nobody judged.
    let mut spec = scene.spec(&["sh", "-c", ":"], starting(&[]));
    spec.executables.clear();
    if let Bound::Exec { identity, .. } = &mut spec.bound {
        *identity = None;
    }
    assert_eq!(refused(spec).await, Unkept::NotJudged);
}
