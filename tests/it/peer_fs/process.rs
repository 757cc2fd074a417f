//! The process, and a home directory that is its account's alone.

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, PermissionsExt, chown},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use countersign_hosts::{
    path_lookup::SystemLookup,
    peer_fs::{Files, Remote},
};
use countersign_sys::{
    process::{Ended, Spawn, SpawnedProcess, signal_process, spawn},
    socket,
};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{is_root, program, skip};

/// An account that owns nothing and has no name.
const SOMEBODY: u32 = 61_234;

/// A uid with a closed home directory, and beside it a directory that everybody may enter.
pub(crate) struct Account {
    pub(crate) uid: u32,
    place: TempDir,
}

impl Account {
    /// `None`, and a word why, without the right to become somebody else.
    pub(crate) fn new() -> Option<Self> {
        if !is_root() {
            skip("only root can start a process under another uid");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let account = Self { uid: SOMEBODY, place };
        account.directory("home", account.uid, 0o700);
        Some(account)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }

    pub(crate) fn directory(&self, name: &str, owner: u32, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        set(&path, owner, mode);
        path
    }

    pub(crate) fn file(&self, name: &str, owner: u32, mode: u32, content: &str) -> PathBuf {
        let path = self.path(name);
        std::io::Write::write_all(&mut File::create(&path).unwrap(), content.as_bytes()).unwrap();
        set(&path, owner, mode);
        path
    }

    /// Inode number of a file of the account, as root sees it.
    pub(crate) fn inode(&self, name: &str) -> u64 {
        fs::symlink_metadata(self.path(name)).unwrap().ino()
    }

    pub(crate) fn broker(&self) -> FileBroker {
        FileBroker::open(self.uid, self.path("home"))
    }
}

fn set(path: &Path, owner: u32, mode: u32) {
    chown(path, Some(owner), Some(owner)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A running process and the server's end of it.
pub(crate) struct FileBroker {
    pub(crate) remote: Arc<Remote>,
    process: Option<SpawnedProcess>,
}

impl FileBroker {
    fn open(uid: u32, home: PathBuf) -> Self {
        let mut broker = Self {
            remote: Arc::new(Remote::new(uid, home)),
            process: None,
        };
        broker.again(uid, &[]);
        broker
    }

    /// Ends the process and starts another one for the same view, behind `wrapper`.
    pub(crate) fn again(&mut self, uid: u32, wrapper: &[&str]) {
        self.end();
        let (ours, theirs) = socket::frame_pair().unwrap();
        let (user, group) = (format!("--reuid={uid}"), format!("--regid={uid}"));
        let setpriv = program("setpriv").expect("setpriv is part of the system");
        let words_of_setpriv = [
            setpriv.to_str().unwrap(),
            user.as_str(),
            group.as_str(),
            "--clear-groups",
            "/proc/self/fd/4",
            "__eyes",
        ];
        // By descriptor: the account may not be able to enter the directory of the build.
        let own = File::open(env!("CARGO_BIN_EXE_countersign")).unwrap();
        let words: Vec<&str> = wrapper.iter().copied().chain(words_of_setpriv).collect();
        let arguments: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let process = spawn(&Spawn {
            program: Path::new(words[0]),
            arguments: &arguments,
            environment: &[],
            output: None,
            descriptors: &[theirs.as_fd(), own.as_fd()],
        });
        self.process = Some(process.unwrap());
        self.remote.connect(ours).unwrap();
    }

    pub(crate) fn files(&self) -> Files {
        Files::Remote(Arc::clone(&self.remote))
    }

    pub(crate) fn lookup(&self, path: &[PathBuf]) -> SystemLookup {
        let home = self.remote.home().to_str().unwrap().to_owned();
        SystemLookup::new(path.to_vec(), home, &self.files())
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.as_ref().expect("running").pid()
    }

    pub(crate) fn stop(&self) {
        signal_process(self.pid(), Signal::STOP);
    }

    /// How it ends by itself.
    pub(crate) fn ended(mut self) -> Ended {
        self.process.take().expect("running").wait().unwrap()
    }

    fn end(&mut self) {
        if let Some(process) = self.process.take() {
            signal_process(process.pid(), Signal::KILL);
            process.wait().unwrap();
        }
    }
}

impl Drop for FileBroker {
    fn drop(&mut self) {
        self.end();
    }
}
