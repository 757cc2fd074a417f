//! A machine with other files than this one, for one server: directories of the test lie over those of the machine,
//! in a mount namespace that nobody else is in.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::support::{Invocation, Scratch, ServerBuilder, write_file_mode};

use super::{ACCOUNT, give};

/// What lies over what.
#[derive(Debug)]
pub(super) struct Machine {
    scratch: Scratch,
    covers: Vec<(PathBuf, PathBuf)>,
}

impl Machine {
    pub(super) fn new() -> Self {
        let scratch = Scratch::new();
        scratch.dir("home");
        give(&scratch.path());
        Self {
            scratch,
            covers: Vec::new(),
        }
    }

    /// A place for files that only root can change, but everybody can read.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// A directory that belongs to root.
    pub(super) fn dir(&self, name: &str) -> PathBuf {
        self.scratch.dir(name)
    }

    /// A file of root that everybody may read.
    pub(super) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.join(name);
        write_file_mode(&path, content, 0o644);
        path
    }

    /// The home directory of the account.
    pub(super) fn home(&self) -> PathBuf {
        self.join("home")
    }

    /// Puts a file or directory over another one.
    pub(super) fn put(&mut self, what: &Path, over: &Path) {
        self.covers.push((what.to_owned(), over.to_owned()));
    }

    /// The toolchain that builds the tests, where every account can read it: it often lies in root's home.
    pub(super) fn put_toolchain(&mut self) -> PathBuf {
        let cargo = Path::new(env!("CARGO"));
        let toolchain = cargo
            .ancestors()
            .nth(2)
            .expect("cargo lies in bin/ of a toolchain");
        let place = self.dir("toolchain");
        self.put(toolchain, &place);
        place
    }

    /// Lets the account have a home directory and a shell on this machine, and returns its name.
    pub(super) fn put_account(&mut self) -> String {
        let accounts = fs::read_to_string("/etc/passwd").expect("the accounts");
        let uid = ACCOUNT.to_string();
        let mut name = None;
        let changed = accounts.lines().map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields.as_slice() {
                [account, _, number, ..] if *number == uid => {
                    name = Some((*account).to_owned());
                    format!("{account}:x:{uid}:{uid}::{}:/bin/sh\n", self.home().display())
                }
                _ => format!("{line}\n"),
            }
        });
        let changed: String = changed.collect();
        let file = self.file("passwd", &changed);
        self.put(&file, Path::new("/etc/passwd"));
        name.expect("every system has this account")
    }

    fn script(&self) -> String {
        let mounts = self
            .covers
            .iter()
            .map(|(what, over)| format!("mount --bind '{}' '{}'\n", what.display(), over.display()));
        format!("set -e\n{}exec \"$@\"\n", mounts.collect::<String>())
    }

    /// A server on this machine; call it last.
    pub(super) fn with(&self, builder: ServerBuilder) -> ServerBuilder {
        let home = self.home();
        builder
            .env("HOME", &home.to_string_lossy())
            .behind("unshare", &["--mount", "sh", "-c", &self.script(), "sh"])
    }

    /// A program of root on this machine, which does not see what listens in `/run`.
    pub(super) fn with_program(&self, program: Invocation) -> Invocation {
        let script = format!(
            "set -e\nmount -t tmpfs none /run\nmkdir -m 0755 /run/sshd\n{}",
            self.script()
        );
        program.behind("unshare", &["--mount", "sh", "-c", &script, "sh"])
    }
}
