//! What one analysis sees: every answer is asked for once, and a look that failed is not forgotten.

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

use super::{
    Blind, LookError, Remote, direct,
    remote::Sight,
    wire::{self, Request},
};
use crate::{
    command::DirectoryTrust,
    domain::FileIdentity,
    sys::{fs::open_regular, process::monotonic},
};

/// So many paths are remembered; a command with more is only slower.
const MAX_SEEN: usize = 10_000;

/// How long the looks of one analysis may take together. Nothing that a command says may hold a server up for long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The files that one analysis sees.
#[derive(Debug)]
pub(in crate::hosts) enum View {
    /// With the server's own rights.
    Direct,
    /// With those of another account.
    Remote(Box<RemoteView>),
}

/// What was seen with the rights of another account.
#[derive(Debug)]
pub(in crate::hosts) struct RemoteView {
    remote: Arc<Remote>,
    seen: Mutex<Seen>,
    is_blind: AtomicBool,
}

#[derive(Debug, Default)]
struct Seen {
    objects: HashMap<String, Option<Seeing>>,
    directories: HashMap<String, DirectoryTrust>,
    spent: Duration,
}

/// The part of a sight that is remembered.
#[derive(Debug, Clone)]
struct Seeing {
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

    /// Whether a look failed because nobody looked: then all that was concluded is worth nothing.
    pub(in crate::hosts) fn is_blind(&self) -> bool {
        match self {
            Self::Direct => false,
            Self::Remote(view) => view.is_blind.load(Ordering::Relaxed),
        }
    }

    /// The first executable regular file of a name that is one component.
    pub(in crate::hosts) fn search(&self, directories: &[PathBuf], name: &str) -> Option<PathBuf> {
        match self {
            Self::Direct => direct::search(directories, name),
            Self::Remote(view) => view.search(directories, name),
        }
    }

    /// The real path of anything that exists.
    pub(in crate::hosts) fn real(&self, path: &str) -> Option<String> {
        match self {
            Self::Direct => direct::real(path),
            Self::Remote(view) => view.look(path).map(|seeing| seeing.real),
        }
    }

    /// What identifies the executable file that a path leads to.
    pub(in crate::hosts) fn inspect(&self, path: &str) -> Option<FileIdentity> {
        match self {
            Self::Direct => direct::identity(&direct::real(path)?),
            Self::Remote(view) => view.look(path)?.identity,
        }
    }

    /// What identifies the executable file that would be started from a path. Directly that is nothing if the path is a
    /// link: following it costs every run more. With other eyes the links were followed anyway.
    pub(in crate::hosts) fn identity(&self, path: &str) -> Option<FileIdentity> {
        match self {
            Self::Direct => direct::identity(path),
            Self::Remote(view) => view.look(path)?.identity,
        }
    }

    /// Whether a path leads each process to a place of its own; yes when that cannot be seen.
    pub(in crate::hosts) fn depends_on_process(&self, path: &str) -> bool {
        let path = Path::new(path);
        match self {
            Self::Direct => direct::depends_on_process(path),
            Self::Remote(view) => view.ask(|remote| remote.depends_on_process(path)).unwrap_or(true),
        }
    }

    /// Who may change what a directory holds.
    pub(in crate::hosts) fn trust(&self, directory: &str) -> DirectoryTrust {
        match self {
            Self::Direct => direct::trust(directory),
            Self::Remote(view) => view.trust(directory),
        }
    }

    /// A regular file, links followed.
    pub(in crate::hosts) fn open_regular(&self, path: &Path) -> io::Result<File> {
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
                name: name.as_ref(),
                directories: group,
            };
            let Ok((sight, index)) = self.ask(|remote| remote.ask_for_sight(&request)) else {
                continue;
            };
            let file = directories.get(first + index)?.join(name);
            // It says that it found one; whether that is so it does not decide.
            sight.identity()?;
            self.remember(&file.to_string_lossy(), Some(sight));
            return Some(file);
        }
        None
    }

    fn look(&self, path: &str) -> Option<Seeing> {
        if let Some(known) = self.seen(|seen| seen.objects.get(path).cloned()) {
            return known;
        }
        let sight = self.ask(|remote| remote.look(Path::new(path))).ok();
        self.remember(path, sight)
    }

    fn remember(&self, path: &str, sight: Option<Sight>) -> Option<Seeing> {
        let directory = sight.as_ref().and_then(|sight| sight.directory.clone());
        let seeing = sight.map(|sight| Seeing {
            identity: sight.identity(),
            real: sight.real,
        });
        self.seen(|seen| {
            if seen.objects.len() < MAX_SEEN {
                seen.objects.insert(path.to_owned(), seeing.clone());
                seen.directories.extend(directory);
            }
        });
        seeing
    }

    fn trust(&self, directory: &str) -> DirectoryTrust {
        if let Some(known) = self.seen(|seen| seen.directories.get(directory).copied()) {
            return known;
        }
        let sight = self.ask(|remote| remote.look(Path::new(directory)));
        let trust = sight.map_or(DirectoryTrust::Foreign, |sight| self.remote.trust(&sight));
        self.seen(|seen| {
            if seen.directories.len() < MAX_SEEN {
                seen.directories.insert(directory.to_owned(), trust);
            }
        });
        trust
    }

    fn ask<T>(&self, look: impl FnOnce(&Remote) -> Result<T, LookError>) -> Result<T, LookError> {
        if self.is_blind.load(Ordering::Relaxed) || self.seen(|seen| seen.spent) > PATIENCE {
            self.is_blind.store(true, Ordering::Relaxed);
            return Err(Blind.into());
        }
        let began = monotonic();
        let looked = look(&self.remote);
        self.seen(|seen| seen.spent += monotonic().saturating_sub(began));
        if matches!(looked, Err(LookError::Blind(_))) {
            self.is_blind.store(true, Ordering::Relaxed);
        }
        looked
    }

    fn seen<T>(&self, use_it: impl FnOnce(&mut Seen) -> T) -> T {
        use_it(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
