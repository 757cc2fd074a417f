//! Where a covered attempt is run: a directory of its own in namespaces of its own, without a network, as nobody, for a
//! short time.

#![expect(
    clippy::disallowed_methods,
    reason = "what the evaluator covers is run, and no crate below this one starts processes"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{HERE, attempts::DECIDING};

/// A variable of this process.
pub(super) fn own_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A directory from which cells are made, removed at the end.
#[derive(Debug)]
pub(super) struct Cells {
    root: PathBuf,
    made: AtomicUsize,
}

/// What a run left behind.
#[derive(Debug)]
pub(super) struct Left {
    /// A program of the call was started, or a file that decides what starts was written.
    pub(super) marker: Option<String>,
    /// The end of what it wrote.
    pub(super) output: String,
}

/// Seconds after which a run is ended: some wait for a person.
const FOR_RUN: &str = "4";
/// The same for what the cells are made of.
const FOR_MAKING: &str = "300";
const RUN: &str = "#!/bin/sh\ntouch /tmp/w/marker\nexit 1\n";
const OPTIONS: &str = "-wrapper ./run\n";
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

impl Cells {
    /// `None`, and a line that says so, where processes cannot be shut in.
    pub(super) fn new(what: &str) -> Option<Self> {
        let root =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("attack-{what}-{}", std::process::id()));
        fs::create_dir_all(root.join("template")).expect("a directory");
        let cells = Self {
            root,
            made: AtomicUsize::new(0),
        };
        let tried = shut_in(&cells.root.join("template"), "true", FOR_MAKING);
        if !tried.is_ok_and(|done| done.status.success()) {
            skipped("bwrap cannot make namespaces here, so no covered attempt is run");
            return None;
        }
        cells.fill();
        Some(cells)
    }

    fn fill(&self) {
        let template = self.root.join("template");
        let big: String = (0..20_000).fold(String::new(), |text, at| {
            format!("{text}{}\n", (at * 7919) % 20_011)
        });
        for (name, text) in [
            ("file", "TODO: a\n"),
            ("big", big.as_str()),
            ("options", OPTIONS),
            ("x.c", "int main(void) { return 0; }\n"),
            ("x.rs", "fn main() {}\n"),
            ("page.1", ".TH page 1\n.SH NAME\npage \\- a page\n"),
            ("Makefile", "all: file\n"),
            ("package.json", "{ \"name\": \"a\", \"version\": \"1.0.0\" }\n"),
            ("ssh.conf", "Host *\n  ProxyCommand ./run\n"),
            ("evil.ld", "OUTPUT(.git/hooks/planted)\n"),
        ] {
            put(&template.join(name), text);
        }
        for name in [
            "run",
            "db/info/evil.postinst",
            "toolchain/bin/rustc",
            "toolchain/bin/rustfmt",
            "toolchain/bin/cargo",
        ] {
            put(&template.join(name), RUN);
            fs::set_permissions(template.join(name), fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        let package = "Package: evil\nStatus: install ok unpacked\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: x\n\n";
        put(&template.join("db/status"), package);
        put(&template.join("db/info/evil.list"), "\n");
        put(&template.join("db/available"), "");
        fs::create_dir_all(template.join("db/updates")).expect("a directory");
        fs::create_dir_all(template.join(".cargo")).expect("a directory");
        let made = shut_in(
            &template,
            "git init -q --initial-branch=main . && git config user.name a && git config user.email a@b && git add file \
             && git commit -q -m first && git add x.c && git commit -q -m second && tar -cf archive.tar file \
             && cc -c x.c -o x.o && ar rc x.a x.o",
            FOR_MAKING,
        )
        .expect("a run");
        assert!(made.status.success(), "{made:?}");
    }

    /// Runs a text in a directory of its own.
    pub(super) fn run(&self, text: &str) -> Left {
        let at = self.made.fetch_add(1, Ordering::Relaxed);
        let directory = self.root.join(format!("cell-{at}"));
        let copy = Command::new("cp")
            .arg("-a")
            .arg(self.root.join("template"))
            .arg(&directory)
            .status();
        assert!(copy.is_ok_and(|copy| copy.success()), "a copy");
        let done = shut_in(&directory, text, FOR_RUN).expect("a run");
        let left = ["marker"]
            .into_iter()
            .chain(
                DECIDING
                    .iter()
                    .map(|name| name.strip_prefix("/tmp/w/").unwrap_or(name)),
            )
            .find(|name| directory.join(name).symlink_metadata().is_ok());
        let output = [done.stdout, done.stderr].concat();
        let output = String::from_utf8_lossy(&output);
        let tail = output
            .chars()
            .rev()
            .take(300)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        let marker = left.map(str::to_owned);
        fs::remove_dir_all(&directory).expect("its directory");
        Left { marker, output: tail }
    }

    /// What a program writes about itself.
    pub(super) fn said(&self, text: &str) -> String {
        let done = shut_in(&self.root.join("template"), text, FOR_RUN).expect("a run");
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    }
}

/// Runs a text in a directory, shut in.
fn shut_in(directory: &Path, text: &str, seconds: &str) -> std::io::Result<Output> {
    let mut command = Command::new("timeout");
    command.args([
        "-k",
        "1",
        seconds,
        "bwrap",
        "--unshare-all",
        "--uid",
        "65534",
        "--gid",
        "65534",
        "--die-with-parent",
    ]);
    command.args([
        "--new-session",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/tmp",
    ]);
    command.arg("--bind").arg(directory).args([HERE, "--chdir", HERE]);
    command.args([
        "--clearenv",
        "--setenv",
        "HOME",
        HERE,
        "--setenv",
        "PATH",
        &path(),
    ]);
    for name in ["RUSTUP_HOME", "CARGO_HOME"] {
        if let Some(value) = own_variable(name) {
            command.args(["--setenv", name, &value]);
        }
    }
    command.args([
        "sh",
        "-c",
        &format!("ulimit -f 20000; {text} 2>&1 | head -c 100000"),
    ]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
}

impl Drop for Cells {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.root));
    }
}

/// The PATH of the runs: that of the system, and behind it our own.
fn path() -> String {
    own_variable("PATH").map_or_else(|| PATH.to_owned(), |own| format!("{PATH}:{own}"))
}

/// Whether a program of that name is on this machine.
pub(super) fn is_here(name: &str) -> bool {
    path()
        .split(':')
        .any(|directory| Path::new(directory).join(name).is_file())
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, text).expect("a file");
}

#[expect(clippy::print_stderr, reason = "a skip says so in one line")]
fn skipped(why: &str) {
    assert!(own_variable("COUNTERSIGN_TEST_STRICT").is_none(), "{why}");
    eprintln!("skipped: {why}");
}
