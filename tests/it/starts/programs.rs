//! Which files can be executed.

use std::fs;

use countersign_domain::{ProgramLimits, Startable, StepJoin};
use countersign_hosts::gateway::{Mismatch, StartError};

use super::fixture::{Scene, program, startable, starting, unkept};

/// Programs that start others by what stands in their arguments.
const DELEGATORS: &[&[&str]] = &[
    &["find", ".", "-maxdepth", "0", "-exec", "touch", "m", ";"],
    &["awk", "BEGIN { system(\"touch m\") }"],
    &["git", "-c", "alias.x=!touch m", "x"],
    &["git", "-c", "core.fsmonitor=touch m; false", "status"],
    &["/usr/bin/python3", "-c", "import os; os.system('touch m')"],
    &["/usr/bin/perl", "-e", "system 'touch', 'm'"],
    &["env", "touch", "m"],
    &["nice", "env", "touch", "m"],
    &["xargs", "-a", "/dev/null", "touch", "m"],
];

#[tokio::test]
async fn what_is_not_in_the_set_is_not_executed() {
    let scene = Scene::new();
    scene
        .server
        .run(scene.spec(&["git", "init", "-q", "."], ProgramLimits::default()))
        .await;
    for argv in DELEGATORS {
        let (report, marked) = scene.run(scene.spec(argv, starting(&[]))).await;
        assert!(!marked, "{argv:?}: {}", String::from_utf8_lossy(&report.stderr));
        // The control: without the limits it is done,
        let (_, marked) = scene.run(unkept(scene.spec(argv, starting(&[])))).await;
        assert!(marked, "{argv:?}");
        // and with what it needs as well.
        let (report, marked) = scene
            .run(scene.spec(argv, starting(&["sh", "env", "touch"])))
            .await;
        assert!(marked, "{argv:?}: {}", String::from_utf8_lossy(&report.stderr));
    }
}

#[tokio::test]
async fn a_program_needs_nothing_but_itself() {
    let scene = Scene::new();
    let script = scene.script("tool", "#!/bin/sh\necho script\n");
    let through = scene.script("through", &format!("#!{script}\n"));
    for (argv, out) in [
        (&["echo", "a"][..], "a\n"),
        (&["/bin/busybox", "echo", "static"], "static\n"),
        (&[&script], "script\n"),
        (&[&through], "script\n"),
        (
            &[
                "node",
                "-e",
                "let n = 0; for (let i = 0; i < 1e5; i++) n += i; console.log(n)",
            ],
            "4999950000\n",
        ),
        (&["/usr/bin/python3", "-c", "print(1)"], "1\n"),
    ] {
        let (report, _) = scene.run(scene.spec(argv, starting(&[]))).await;
        let said = String::from_utf8_lossy(&report.stderr);
        assert_eq!(
            (report.out(), report.exit().code),
            (out, Some(0)),
            "{argv:?}: {said}"
        );
    }
}

/// What has no name has no rule that could forbid it: it is not made.
/// Says which way led there.
const NAMELESS: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
# What root may look into beyond every other account is not what is tried here.
libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
def tried(what, run):
    pid = os.fork()
    if pid == 0:
        try: run()
        except OSError: pass
        os._exit(1)
    os.waitpid(pid, 0)
    if os.path.exists("m"): print(what); os.remove("m")
argv = ["touch", "m"]
data = open("/usr/bin/touch", "rb").read()
def memory(flags):
    fd = libc.memfd_create(b"x", flags)
    if fd < 0: raise OSError()
    os.write(fd, data)
    return fd
def by_path(flags):
    os.execv("/proc/self/fd/%d" % memory(flags), argv)
def by_descriptor(fd):
    words = (ctypes.c_char_p * 3)(b"touch", b"m", None)
    none = (ctypes.c_char_p * 1)(None)
    libc.syscall(322, fd, b"", words, none, 0x1000)
for flags in (0, 0x10, 8):
    tried("path", lambda: by_path(flags))
    tried("descriptor", lambda: by_descriptor(memory(flags)))
tried("open file", lambda: by_descriptor(os.open("/usr/bin/touch", os.O_RDONLY)))
tried("its link", lambda: os.execv("/proc/self/fd/%d" % os.open("/usr/bin/touch", os.O_RDONLY), argv))
def copied(directory, flags=0):
    path = directory + "/copy"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o755)
    os.write(fd, data); os.close(fd)
    os.execv(path, argv)
tried("a copy", lambda: copied("."))
def unnamed():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o755)
    os.write(fd, data)
    ro = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY)
    os.close(fd)
    os.execv("/proc/self/fd/%d" % ro, argv)
tried("an unnamed file", unnamed)
def shared():
    import mmap
    m = mmap.mmap(-1, len(data), flags=mmap.MAP_SHARED)
    m.write(data)
    for name in os.listdir("/proc/self/map_files"):
        try:
            if "zero" in os.readlink("/proc/self/map_files/" + name):
                os.execv("/proc/self/map_files/" + name, argv)
        except OSError: pass
tried("shared memory", shared)
def detached():
    libc.unshare(0x10000000 | 0x00020000)
    fs = libc.syscall(430, b"tmpfs", 0)
    libc.syscall(431, fs, 6, None, None, 0)
    mount = libc.syscall(432, fs, 0, 0)
    if mount < 0: raise OSError()
    fd = os.open("x", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=mount)
    os.write(fd, data); os.close(fd)
    os.fchdir(mount)
    os.execv("./x", argv)
tried("a detached mount", detached)
def mounted():
    libc.unshare(0x10000000 | 0x00020000)
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) != 0: raise OSError()
    copied("/tmp")
tried("a mount", mounted)
def bound():
    libc.unshare(0x10000000 | 0x00020000)
    if libc.mount(b"/usr/bin/touch", b"/usr/bin/env", None, 4096, None) != 0: raise OSError()
    os.execv("/usr/bin/env", argv)
tried("a bind mount", bound)
def rooted():
    libc.unshare(0x10000000)
    os.chroot("/usr")
    os.execv("/bin/touch", argv)
tried("another root", rooted)
print("tried")
"#;

#[tokio::test]
async fn nothing_without_a_name_is_executed() {
    let scene = Scene::new();
    let argv = ["/usr/bin/python3", "-c", NAMELESS];
    let (report, marked) = scene.run(scene.spec(&argv, starting(&[]))).await;
    let said = String::from_utf8_lossy(&report.stderr).into_owned();
    assert_eq!((report.out(), marked), ("tried\n", false), "{said}");
    let (report, _) = scene.run(unkept(scene.spec(&argv, starting(&[])))).await;
    let out = report.out();
    for way in ["path", "descriptor", "a copy", "an unnamed file", "open file"] {
        assert!(out.lines().any(|line| line == way), "{way}: {out}");
    }
}

/// With its own marks for an execution, as many as a program likes.
const GUESSED: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None)
fd = os.open("/usr/bin/env", os.O_RDONLY)
words = (ctypes.c_char_p * 3)(b"env", b"true", None)
none = (ctypes.c_char_p * 1)(None)
refused = 0
for mark in (0, 1, -1, 1 << 63, 0x1000):
    for high in (0, 1 << 32):
        libc.syscall(322, ctypes.c_long(fd | high), b"", words, none, ctypes.c_long(0x1000 | high), ctypes.c_long(mark))
        refused += 1
print(refused)
"#;

#[tokio::test]
async fn an_open_file_is_executed_once_by_the_supervisor_alone() {
    let scene = Scene::new();
    let argv = ["/usr/bin/python3", "-c", GUESSED];
    let limits = starting(&["env", "true"]);
    let (report, _) = scene.run(scene.spec(&argv, limits)).await;
    assert_eq!(report.out(), "10\n");
}

#[tokio::test]
async fn a_file_that_takes_the_place_of_one_in_the_set_is_not_executed() {
    let scene = Scene::new();
    let helper = scene.script("helper", "#!/bin/sh\necho one\n");
    let set = || ProgramLimits {
        starts: Some(vec![
            startable(&helper),
            startable("sh"),
            startable("mv"),
            startable("cp"),
        ]),
        ..ProgramLimits::default()
    };
    scene.script("other", "#!/bin/sh\ntouch m\n");
    let (report, _) = scene.run(scene.spec(&["sh", "-c", "./helper"], set())).await;
    assert_eq!(
        report.out(),
        "one\n",
        "{}",
        String::from_utf8_lossy(&report.stderr)
    );
    // While it runs: renamed over it, by the run itself.
    let swap = "mv helper kept; cp other helper; ./helper";
    let (report, marked) = scene.run(scene.spec(&["sh", "-c", swap], set())).await;
    assert_eq!((report.exit().code, marked), (Some(126), false));
    // The file that was judged is found by its other name, and nothing else.
    let (report, _) = scene
        .run(scene.spec(&["sh", "-c", "mv kept helper; ./helper"], {
            let mut limits = set();
            let kept = scene.file("kept");
            limits.starts = Some(vec![
                startable(kept.to_str().unwrap()),
                startable("sh"),
                startable("mv"),
            ]);
            limits
        }))
        .await;
    assert_eq!(
        report.out(),
        "one\n",
        "{}",
        String::from_utf8_lossy(&report.stderr)
    );
    // Before it starts: another content, and another file.
    let spec = scene.spec(&["sh", "-c", "./helper"], set());
    scene.script("helper", "#!/bin/sh\ntouch m\n");
    assert_mismatch(&scene.refused(spec).await);
    let spec = scene.spec(&["sh", "-c", "./helper"], set());
    scene.script("new", "#!/bin/sh\ntouch m\n");
    fs::rename(scene.file("new"), scene.file("helper")).unwrap();
    assert_mismatch(&scene.refused(spec).await);
}

#[track_caller]
fn assert_mismatch(error: &StartError) {
    let is_mismatch = matches!(
        error,
        StartError::BindingMismatch {
            what: Mismatch::Executable,
            ..
        }
    );
    assert!(is_mismatch, "{error}");
}

#[tokio::test]
async fn a_directory_in_the_set_is_that_directory() {
    let scene = Scene::new();
    let below = scene.file("parts");
    fs::create_dir(&below).unwrap();
    scene.script("parts/a", "#!/bin/sh\necho part\n");
    fs::copy("/usr/bin/touch", scene.file("parts/touch")).unwrap();
    let set = || ProgramLimits {
        starts: Some(vec![
            Startable::Below(fs::canonicalize(&below).unwrap().to_str().unwrap().to_owned()),
            startable("sh"),
            startable("mv"),
        ]),
        ..ProgramLimits::default()
    };
    let (report, marked) = scene
        .run(scene.spec(&["sh", "-c", "parts/a; parts/touch m"], set()))
        .await;
    assert_eq!((report.out(), marked), ("part\n", true));
    // What is moved into it from elsewhere would be allowed more than before.
    scene.script("evil", "#!/bin/sh\ntouch m\n");
    let moved = "mv evil parts/evil; parts/evil";
    let (report, _) = scene.run(scene.spec(&["sh", "-c", moved], set())).await;
    let said = String::from_utf8_lossy(&report.stderr);
    assert!(
        said.contains("ermission denied") || said.contains("cross-device"),
        "{said}"
    );
    // By a link it is none.
    std::os::unix::fs::symlink(&below, scene.file("link")).unwrap();
    let mut limits = set();
    limits.starts = Some(vec![Startable::Below(
        scene.file("link").to_str().unwrap().to_owned(),
    )]);
    assert_mismatch(&scene.refused(scene.spec(&["sh", "-c", "true"], limits)).await);
}

#[tokio::test]
async fn each_program_of_a_plan_has_its_own_limits() {
    let scene = Scene::new();
    let touch = &["env", "touch", "m"][..];
    let cat = &["cat"][..];
    let steps = [
        (StepJoin::Sequence, touch, starting(&[])),
        (StepJoin::Sequence, &["echo", "a"][..], ProgramLimits::default()),
        (StepJoin::Pipe, cat, starting(&[])),
    ];
    let (report, marked) = scene.run(scene.plan(&steps)).await;
    assert_eq!((report.out(), marked), ("a\n", false));
    let steps = [
        (StepJoin::Sequence, &["env", "true"][..], starting(&["true"])),
        (StepJoin::And, touch, starting(&["touch"])),
    ];
    let (report, marked) = scene.run(scene.plan(&steps)).await;
    assert!(marked, "{}", String::from_utf8_lossy(&report.stderr));
    // Fewer limits than programs are no record of ours.
    let mut spec = scene.plan(&steps);
    spec.confinement.programs.pop();
    assert!(matches!(scene.refused(spec).await, StartError::Unkept { .. }));
}

#[tokio::test]
async fn a_set_that_is_used_again_is_the_same_set() {
    let scene = Scene::new();
    let helper = scene.script("helper", "#!/bin/sh\necho one\n");
    for _ in 0..3 {
        let (report, _) = scene
            .run(scene.spec(&["env", &helper], starting(&[&helper])))
            .await;
        assert_eq!(report.out(), "one\n");
    }
    // Another file at its path is another set.
    scene.script("new", "#!/bin/sh\necho two\n");
    fs::rename(scene.file("new"), scene.file("helper")).unwrap();
    let (report, _) = scene
        .run(scene.spec(&["env", &helper], starting(&[&helper])))
        .await;
    assert_eq!(report.out(), "two\n");
    assert_eq!(program(&helper).path, helper);
}
