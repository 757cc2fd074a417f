//! What one analysis sees: every answer is asked for once, and an access that failed is not forgotten.

use std::{
    collections::HashMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use countersign_domain::FileIdentity;
use countersign_policy::command::{DirectoryTrust, Listing};
use countersign_sys::{fs::open_regular, process::monotonic};

use super::{
    Blind, FileAccessError, Remote, direct,
    opened::OpenedPath,
    wire::{self, Request},
};

/// So many paths are remembered; a command with more is only slower.
const MAX_SEEN: usize = 10_000;

/// How long the requests of one analysis may take together. Nothing that a command says may hold a server up for long.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The files that one analysis sees.
#[derive(Debug)]
pub(crate) enum View {
    /// With the server's own rights.
    Direct,
    /// With those of another account.
    Remote(Box<RemoteView>),
}

/// What was seen with the rights of another account.
#[derive(Debug)]
pub(crate) struct RemoteView {
    remote: Arc<Remote>,
    seen: Mutex<LookupCache>,
    is_blind: AtomicBool,
}

#[derive(Debug, Default)]
struct LookupCache {
    objects: HashMap<String, Option<CachedPath>>,
    directories: HashMap<String, DirectoryTrust>,
    spent: Duration,
}

/// The part of an [`OpenedPath`] that is remembered.
#[derive(Debug, Clone)]
struct CachedPath {
    real: String,
    identity: Option<FileIdentity>,
}

impl View {
    pub(super) fn of(remote: Arc<Remote>) -> Self {
        Self::Remote(Box::new(RemoteView {
            remote,
            seen: Mutex::default(),
            is_blind: AtomicBool::new(false),
        }))
    }

    /// Whether an access failed because there was no file broker: then nothing that was concluded may be used.
    pub(crate) fn is_blind(&self) -> bool {
        match self {
            Self::Direct => false,
            Self::Remote(view) => view.is_blind.load(Ordering::Relaxed),
        }
    }

    /// The first executable regular file of a name that is one component.
    pub(crate) fn search(&self, directories: &[PathBuf], name: &str) -> Option<PathBuf> {
        match self {
            Self::Direct => direct::search(directories, name),
            Self::Remote(view) => view.search(directories, name),
        }
    }

    /// The real path of anything that exists.
    pub(crate) fn real(&self, path: &str) -> Option<String> {
        match self {
            Self::Direct => direct::real(path),
            Self::Remote(view) => view.find(path).map(|cached| cached.real),
        }
    }

    /// What identifies the executable file that a path leads to.
    pub(crate) fn inspect(&self, path: &str) -> Option<FileIdentity> {
        match self {
            Self::Direct => direct::inspect(path),
            Self::Remote(view) => view.find(path)?.identity,
        }
    }

    /// What identifies the executable file that would be started from a path. Directly that is nothing if the path is a
    /// link: following it costs every run more. The file broker follows them anyway.
    pub(crate) fn identity(&self, path: &str) -> Option<FileIdentity> {
        match self {
            Self::Direct => direct::identity(path),
            Self::Remote(view) => view.find(path)?.identity,
        }
    }

    /// Whether a path leads each process to a place of its own; yes when that cannot be seen.
    pub(crate) fn depends_on_process(&self, path: &str) -> bool {
        let path = Path::new(path);
        match self {
            Self::Direct => direct::depends_on_process(path),
            Self::Remote(view) => view.ask(|remote| remote.depends_on_process(path)).unwrap_or(true),
        }
    }

    /// What is in a directory. With the rights of another account nothing is listed.
    pub(crate) fn list(&self, directory: &str) -> Listing {
        match self {
            Self::Direct => direct::list(directory),
            Self::Remote(_) => Listing::Unknown,
        }
    }

    /// Who may change what a directory holds.
    pub(crate) fn trust(&self, directory: &str) -> DirectoryTrust {
        match self {
            Self::Direct => direct::trust(directory),
            Self::Remote(view) => view.trust(directory),
        }
    }

    /// A regular file, links followed.
    pub(crate) fn open_regular(&self, path: &Path) -> io::Result<File> {
        match self {
            Self::Direct => open_regular(&path.canonicalize()?),
            Self::Remote(view) => Ok(view.ask(|remote| remote.open_regular(path))?),
        }
    }
}

impl RemoteView {
    fn search(&self, directories: &[PathBuf], name: &str) -> Option<PathBuf> {
        for (first, group) in wire::groups(directories) {
            let request = Request::Search {
                name: wire::raw(name),
                directories: group,
            };
            let Ok((opened, index)) = self.ask(|remote| remote.ask_for_path(&request)) else {
                continue;
            };
            let file = directories.get(first + index)?.join(name);
            // It says that it found one; whether that is so it does not decide.
            opened.identity()?;
            self.remember(&file.to_string_lossy(), Some(opened));
            return Some(file);
        }
        None
    }

    fn find(&self, path: &str) -> Option<CachedPath> {
        if let Some(known) = self.seen(|seen| seen.objects.get(path).cloned()) {
            return known;
        }
        let opened = self.ask(|remote| remote.open_path(Path::new(path))).ok();
        self.remember(path, opened)
    }

    fn remember(&self, path: &str, opened: Option<OpenedPath>) -> Option<CachedPath> {
        let directory = opened.as_ref().and_then(|opened| opened.directory.clone());
        let cached = opened.map(|opened| CachedPath {
            identity: opened.identity(),
            real: opened.real,
        });
        self.seen(|seen| {
            if seen.objects.len() < MAX_SEEN {
                seen.objects.insert(path.to_owned(), cached.clone());
                seen.directories.extend(directory);
            }
        });
        cached
    }

    fn trust(&self, directory: &str) -> DirectoryTrust {
        if let Some(known) = self.seen(|seen| seen.directories.get(directory).copied()) {
            return known;
        }
        let opened = self.ask(|remote| remote.open_path(Path::new(directory)));
        let trust = opened.map_or(DirectoryTrust::Foreign, |opened| self.remote.trust(&opened));
        self.seen(|seen| {
            if seen.directories.len() < MAX_SEEN {
                seen.directories.insert(directory.to_owned(), trust);
            }
        });
        trust
    }

    fn ask<T>(
        &self,
        request: impl FnOnce(&Remote) -> Result<T, FileAccessError>,
    ) -> Result<T, FileAccessError> {
        if self.is_blind.load(Ordering::Relaxed) || self.seen(|seen| seen.spent) > TIMEOUT {
            self.is_blind.store(true, Ordering::Relaxed);
            return Err(Blind.into());
        }
        let began = monotonic();
        let answered = request(&self.remote);
        self.seen(|seen| seen.spent += monotonic().saturating_sub(began));
        if matches!(answered, Err(FileAccessError::Blind(_))) {
            self.is_blind.store(true, Ordering::Relaxed);
        }
        answered
    }

    fn seen<T>(&self, use_it: impl FnOnce(&mut LookupCache) -> T) -> T {
        use_it(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
