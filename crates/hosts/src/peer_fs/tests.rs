//! Answers of a process that is honest, and of one that is not.

use std::{
    fs::{File, Permissions},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{CWD, FileType, Mode, OFlags};

use countersign_policy::command::DirectoryTrust;
use countersign_sys::socket;

use super::{
    Blind, FileAccessError, Files, Remote, View, process,
    wire::{Answer, MAX_REQUEST_BYTES, Request, raw},
};

fn remote(socket: OwnedFd) -> Arc<Remote> {
    let remote = Remote::new(rustix::process::geteuid().as_raw(), "/home/agent".into());
    remote.connect(socket).unwrap();
    Arc::new(remote)
}

/// One that answers truly, with the rights of this test.
fn honest() -> Arc<Remote> {
    let (ours, theirs) = socket::frame_pair().unwrap();
    std::thread::spawn(move || process::serve(theirs.as_fd()));
    remote(ours)
}

/// One that gives this answer to the first question, of any kind, and then hangs up.
fn liar(answer: impl AsRef<[u8]>, descriptors: &[OwnedFd]) -> Arc<Remote> {
    let (ours, theirs) = socket::frame_pair().unwrap();
    let descriptors_of: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    // The answer waits in the socket until the other end asks.
    socket::send_frame(theirs.as_fd(), answer.as_ref(), &descriptors_of).unwrap();
    let remote = remote(ours);
    std::thread::spawn(move || {
        let mut request = vec![0; MAX_REQUEST_BYTES];
        drop(socket::receive_frame(theirs.as_fd(), &mut request));
    });
    remote
}

fn found(index: u32) -> Vec<u8> {
    Answer::Found { index }.encode()
}

fn path_of(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (name, mode) in [("bin", 0o755), ("shared", 0o777), ("bin/tool.d", 0o755)] {
            std::fs::create_dir(tree.path(name)).unwrap();
            std::fs::set_permissions(tree.path(name), Permissions::from_mode(mode)).unwrap();
        }
        for (name, mode) in [("bin/tool", 0o755), ("bin/data", 0o644), ("shared/tool", 0o755)] {
            drop(File::create(tree.path(name)).unwrap());
            std::fs::set_permissions(tree.path(name), Permissions::from_mode(mode)).unwrap();
        }
        for (target, name) in [
            ("bin/tool", "shared/link"),
            ("gone", "shared/dangling"),
            ("shared/loop", "shared/loop"),
            ("bin", "directory"),
        ] {
            symlink(tree.path(target), tree.path(name)).unwrap();
        }
        symlink("/proc/self/fd", tree.path("descriptors")).unwrap();
        rustix::fs::mknodat(
            CWD,
            tree.path("bin/fifo"),
            FileType::Fifo,
            Mode::from_raw_mode(0o755),
            0,
        )
        .unwrap();
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }
}

#[test]
fn a_broker_with_the_same_rights_sees_the_same() {
    let tree = Tree::new();
    let files = Files::Remote(honest());
    let (direct, remote) = (View::Direct, files.view());
    // Other tests of this process open and close descriptors all the while: one of our own, and one past the last.
    let own = File::open(tree.path("bin/tool")).unwrap();
    let descriptors = [own.as_raw_fd(), i32::MAX].map(|number| format!("descriptors/{number}"));
    let names = [
        "",
        "bin",
        "bin/tool",
        "bin/data",
        "bin/fifo",
        "bin/tool.d",
        "shared",
        "shared/tool",
        "shared/link",
        "shared/dangling",
        "shared/loop",
        "shared/loop/x",
        "directory",
        "directory/tool",
        "directory/../bin/tool",
        "bin/tool/x",
        "none",
        "descriptors/0",
        "bin/./tool",
    ];
    let outside = [
        "/",
        "/bin",
        "/bin/sh",
        "/proc/self/cwd",
        "/dev/stdin",
        "/dev/null",
        "relative",
        "",
    ];
    let names = names.into_iter().chain(descriptors.iter().map(String::as_str));
    for path in names
        .map(|name| tree.text(name))
        .collect::<Vec<_>>()
        .iter()
        .map(String::as_str)
        .chain(outside)
    {
        // Both are this process, so even what depends on the process is the same, but for descriptors.
        if !path.contains("descriptors") && path != "/dev/stdin" && path.starts_with('/') {
            assert_eq!(remote.real(path), direct.real(path), "{path}");
        }
        if path.starts_with('/') {
            assert_eq!(remote.inspect(path), direct.inspect(path), "{path}");
            assert_eq!(remote.identity(path), direct.inspect(path), "{path}");
            assert_eq!(remote.trust(path), direct.trust(path), "{path}");
            assert_eq!(
                remote.depends_on_process(path),
                direct.depends_on_process(path),
                "{path}"
            );
            assert_eq!(
                remote.open_regular(Path::new(path)).map(drop).is_ok(),
                direct.open_regular(Path::new(path)).map(drop).is_ok(),
                "{path}"
            );
        }
        let (seen, expected) = (
            files.directory(Path::new(path)),
            Files::Direct.directory(Path::new(path)),
        );
        if path.starts_with('/') {
            assert_eq!(seen.ok(), expected.ok(), "{path}");
        }
    }
    let directories = [tree.path("none"), tree.path("shared"), tree.path("bin")];
    for name in [
        "tool", "link", "dangling", "loop", "data", "fifo", "tool.d", "none",
    ] {
        assert_eq!(
            remote.search(&directories, name),
            direct.search(&directories, name),
            "{name}"
        );
    }
    assert!(!remote.is_blind());
}

#[test]
fn a_run_path_of_any_length_is_searched_in_order() {
    let tree = Tree::new();
    let long = |number: usize| PathBuf::from(format!("/{number}/{}", "x".repeat(3000)));
    let mut directories: Vec<PathBuf> = (0..30).map(long).collect();
    directories.insert(20, tree.path("bin"));
    directories.push(tree.path("shared"));
    let view = Files::Remote(honest()).view();
    assert_eq!(view.search(&directories, "tool"), Some(tree.path("bin/tool")));
    assert_eq!(view.search(&directories, "link"), Some(tree.path("shared/link")));
    assert_eq!(view.search(&directories, "none"), None);
    assert!(!view.is_blind());
}

#[test]
fn what_does_not_read_ends_the_connection() {
    for answer in [&b"x"[..], b"", b"\x01\x02", &[1; 40]] {
        let remote = liar(answer, &[]);
        assert!(
            matches!(
                remote.open_path(Path::new("/")),
                Err(FileAccessError::Blind(Blind))
            ),
            "{answer:?}"
        );
        assert!(!remote.is_connected());
        assert!(matches!(
            remote.open_path(Path::new("/")),
            Err(FileAccessError::Blind(Blind))
        ));
    }
}

#[test]
fn an_answer_to_another_question_is_none() {
    let remote = liar(Answer::Truth(true).encode(), &[]);
    assert!(matches!(
        remote.open_path(Path::new("/")),
        Err(FileAccessError::Refused(_))
    ));
    let remote = liar(found(0), &[]);
    assert!(matches!(
        remote.open_path(Path::new("/")),
        Err(FileAccessError::Refused(_))
    ));
    let remote = liar(found(0), &[path_of(Path::new("/"))]);
    assert!(remote.depends_on_process(Path::new("/")).is_err());
    let view = Files::Remote(liar(found(0), &[])).view();
    assert!(view.depends_on_process("/"), "what is not known counts as yes");
}

#[test]
fn the_kernel_names_what_was_opened_and_not_the_answer() {
    let tree = Tree::new();
    let other = liar(found(0), &[path_of(&tree.path("shared/tool"))]);
    let view = Files::Remote(other).view();
    let identity = view.inspect(&tree.text("bin/tool")).unwrap();
    assert_eq!(identity.path, tree.text("shared/tool"));
    // It is not the file at the path that was judged.
    let other = liar(found(0), &[path_of(&tree.path("shared/tool"))]);
    let judged = View::Direct.identity(&tree.text("bin/tool")).unwrap();
    assert_eq!(Files::Remote(other).is_unchanged(&judged), Ok(false));
    let same = liar(found(0), &[path_of(&tree.path("bin/tool"))]);
    assert_eq!(Files::Remote(same).is_unchanged(&judged), Ok(true));
}

#[test]
fn what_has_no_name_is_not_there() {
    let tree = Tree::new();
    let removed = path_of(&tree.path("bin/tool"));
    let directory = path_of(&tree.path("bin/tool.d"));
    std::fs::remove_file(tree.path("bin/tool")).unwrap();
    std::fs::remove_dir(tree.path("bin/tool.d")).unwrap();
    let renamed = tree.path("shared/tool");
    std::fs::hard_link(&renamed, tree.path("shared/second")).unwrap();
    let still_linked = path_of(&renamed);
    std::fs::remove_file(&renamed).unwrap();
    let (pipe, _write_end) = rustix::pipe::pipe().unwrap();
    let memory = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    for descriptor in [removed, directory, still_linked, pipe, memory] {
        let view = Files::Remote(liar(found(0), &[descriptor])).view();
        assert_eq!(view.real("/x"), None);
        assert!(!view.is_blind());
    }
}

#[test]
fn a_program_that_was_found_must_be_one() {
    let tree = Tree::new();
    let directories = [tree.path("bin"), tree.path("shared")];
    for (index, path) in [
        (0, "bin/data"),
        (0, "bin"),
        (0, "bin/fifo"),
        (2, "bin/tool"),
        (u32::MAX, "bin/tool"),
    ] {
        let view = Files::Remote(liar(found(index), &[path_of(&tree.path(path))])).view();
        assert_eq!(view.search(&directories, "tool"), None, "{index} {path}");
    }
}

#[test]
fn a_directory_is_believed_only_to_hold_what_lies_in_it() {
    let tree = Tree::new();
    let shared = tree.text("shared");
    // Offered as the directory of a file in `shared`: one that is beyond doubt.
    for directory in ["bin", ""] {
        let both = vec![path_of(&tree.path("shared/tool")), path_of(&tree.path(directory))];
        let remote = liar(found(0), &both);
        let (opened, _index) = remote
            .ask_for_path(&Request::Open(raw(&tree.path("shared/tool"))))
            .unwrap();
        assert_eq!(opened.directory, None);
    }
    let both = vec![path_of(&tree.path("shared/tool")), path_of(&tree.path("shared"))];
    let remote = liar(found(0), &both);
    let (opened, _index) = remote
        .ask_for_path(&Request::Open(raw(&tree.path("shared/tool"))))
        .unwrap();
    assert_eq!(opened.directory, Some((shared, DirectoryTrust::Foreign)));
}

#[test]
fn only_regular_files_are_read() {
    let tree = Tree::new();
    let fifo = rustix::fs::open(
        tree.path("bin/fifo"),
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .unwrap();
    let directory = File::open(tree.path("bin")).unwrap().into();
    for descriptor in [fifo, directory] {
        let files = Files::Remote(liar(found(0), &[descriptor]));
        let error = files.open_regular(Path::new("/x")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn more_descriptors_than_any_answer_has_end_the_connection_or_are_closed() {
    let tree = Tree::new();
    let many: Vec<_> = (0..8).map(|_| path_of(&tree.path("bin/tool"))).collect();
    let remote = liar(found(0), &many);
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let opened = remote.open_path(&tree.path("bin/tool")).unwrap();
    assert_eq!(opened.real, tree.text("bin/tool"));
    drop(opened);
    // Other tests open and close files meanwhile, but not that many at once on purpose.
    let after = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(after < before + 8, "{before} then {after}");
}

#[test]
fn nothing_is_asked_about_what_is_no_path() {
    let view = Files::Remote(honest()).view();
    for path in ["", "relative", "/a\0b"] {
        assert_eq!((view.real(path), view.inspect(path)), (None, None), "{path:?}");
    }
    assert!(view.depends_on_process("/a\0b"));
    assert!(!view.is_blind());
}

#[test]
fn the_process_ends_when_it_is_asked_nonsense() {
    let (ours, theirs) = socket::frame_pair().unwrap();
    let serving = std::thread::spawn(move || process::serve(theirs.as_fd()));
    socket::send_frame(ours.as_fd(), b"nonsense", &[]).unwrap();
    assert!(serving.join().unwrap().is_err());
}

#[test]
fn what_was_seen_is_not_asked_again() {
    let tree = Tree::new();
    let remote = liar(
        found(0),
        &[path_of(&tree.path("bin/tool")), path_of(&tree.path("bin"))],
    );
    let view = Files::Remote(remote).view();
    let path = tree.text("bin/tool");
    assert_eq!(
        view.search(&[tree.path("bin")], "tool"),
        Some(tree.path("bin/tool"))
    );
    // The liar has nothing more to say.
    assert_eq!(view.real(&path), Some(path.clone()));
    assert_eq!(
        view.inspect(&path).unwrap().ino,
        std::fs::metadata(&path).unwrap().ino()
    );
    assert_eq!(view.trust(&tree.text("bin")), DirectoryTrust::Ours);
    assert!(!view.is_blind());
    assert_eq!(view.real("/"), None);
    assert!(view.is_blind());
}
