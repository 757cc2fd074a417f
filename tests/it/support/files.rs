//! Files of the tests.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::{Invocation, run_program};

/// A directory of one test, removed with it.
#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("countersign-it-")
            .tempdir()
            .expect("a temporary directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).expect("mode of the directory");
        Self(directory)
    }

    /// Its path, without symbolic links.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().canonicalize().expect("the directory exists")
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Makes a directory below it.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        fs::create_dir_all(&path).expect("a directory of the test");
        path
    }

    /// Every plain file below it.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.path()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a directory of the test") {
                let entry = entry.expect("an entry of a directory");
                let kind = entry.file_type().expect("the type of an entry");
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    files.push(entry.path());
                }
            }
        }
        files
    }

    /// Makes a real git checkout with two commits, odd file names among its files.
    pub(crate) fn git_checkout(&self) -> PathBuf {
        let checkout = self.dir("checkout");
        write_file(
            &checkout.join("README.md"),
            "# A project\n\nneedle in the readme\n",
        );
        write_file(
            &checkout.join("src/main.py"),
            "import sys\n\nprint('args', sys.argv[1:])\n",
        );
        write_file(&checkout.join("src/words.txt"), "pear\napple\nfig\napple\n");
        write_file(&checkout.join("docs/grüße an alle.txt"), "needle: Grüße\n");
        write_file(&checkout.join("docs/名前.txt"), "漢字\n");
        write_file(&checkout.join("-dash.txt"), "dash\n");
        self.git(&checkout, &["init", "--quiet", "--initial-branch=main"]);
        self.git(&checkout, &["add", "--all"]);
        self.git(&checkout, &["commit", "--quiet", "--message=First"]);
        write_file(&checkout.join("src/words.txt"), "pear\napple\nfig\napple\nplum\n");
        self.git(
            &checkout,
            &["commit", "--quiet", "--all", "--message=Second: plum"],
        );
        checkout
    }

    /// Runs git there, as a person with no settings.
    pub(crate) fn git(&self, checkout: &Path, arguments: &[&str]) {
        let identity = [
            "-c",
            "user.name=Tester",
            "-c",
            "user.email=tester@example.test",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "core.quotePath=true",
        ];
        let invocation = Invocation::new("git")
            .args(&identity)
            .args(arguments)
            .cwd(checkout)
            .env("HOME", self.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
            .env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z");
        let done = run_program(&invocation);
        assert_eq!(done.code, Some(0), "git {arguments:?}: {}", done.stderr);
    }
}

/// Writes a file, its directories too, readable for all.
pub(crate) fn write_file(path: &Path, content: impl AsRef<[u8]>) {
    write_file_mode(path, content, 0o644);
}

/// Writes a file in place with a mode.
pub(crate) fn write_file_mode(path: &Path, content: impl AsRef<[u8]>, mode: u32) {
    fs::create_dir_all(path.parent().expect("a file has a parent")).expect("the parent directory");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.write_all(content.as_ref()).expect("writing a test's file");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("the mode of a test's file");
}

/// Puts a file in place at once, so that a watcher sees the old content or the new one and nothing in between.
pub(crate) fn replace_file_mode(path: &Path, content: impl AsRef<[u8]>, mode: u32) {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    write_file_mode(beside, content, mode);
    fs::rename(beside, path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The lines of a file; none when it is missing.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// SHA-256 of some bytes, lower-case hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Lines as one text.
pub(crate) fn joined_lines(lines: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    text
}
