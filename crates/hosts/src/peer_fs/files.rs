//! Access to files as the commands' account sees them: directly, or by way of the file broker.

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, Stat},
    io::Errno,
};

use countersign_domain::FileIdentity;
use countersign_sys::fs::open_regular;

use super::{
    Remote, View, direct,
    error::{Blind, FileAccessError},
    opened::Directory,
};

/// The files that commands see.
#[derive(Debug, Clone, Default)]
pub enum Files {
    /// As this process sees them: commands run under its own account.
    #[default]
    Direct,
    /// As another account sees them.
    Remote(Arc<Remote>),
}

impl Files {
    /// What one analysis sees.
    pub(crate) fn view(&self) -> View {
        match self {
            Self::Direct => View::Direct,
            Self::Remote(remote) => View::of(Arc::clone(remote)),
        }
    }

    /// Whether nothing can be seen at the moment.
    pub fn is_blind(&self) -> bool {
        match self {
            Self::Direct => false,
            Self::Remote(remote) => !remote.is_connected(),
        }
    }

    /// The home directory of the account that commands run as, where it is not the server's.
    pub fn account_home(&self) -> Option<&Path> {
        match self {
            Self::Direct => None,
            Self::Remote(remote) => Some(remote.home()),
        }
    }

    /// A directory, as it is now.
    ///
    /// # Errors
    /// [`FileAccessError`]; `NotADirectory` for anything else.
    pub fn directory(&self, path: &Path) -> Result<Directory, FileAccessError> {
        match self {
            Self::Direct => Ok(direct::directory(path)?),
            Self::Remote(remote) => {
                let opened = remote.open_path(path)?;
                if !opened.stat.is_directory {
                    return Err(Errno::NOTDIR.into());
                }
                Ok(Directory {
                    path: opened.real.into(),
                    dev: opened.stat.dev,
                    ino: opened.stat.ino,
                })
            }
        }
    }

    /// Makes a directory and those above it, mode 0700. One that is there stays as it is.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn make_directory(&self, path: &Path) -> Result<(), FileAccessError> {
        match self {
            Self::Direct => Ok(direct::make_directory(path)?),
            Self::Remote(remote) => remote.make_directory(path),
        }
    }

    /// Opens a directory as a place to start in, which can be handed on and no more.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn open_directory(&self, path: &Path) -> Result<OwnedFd, FileAccessError> {
        match self {
            Self::Direct => Ok(open_path(path, OFlags::DIRECTORY)?),
            Self::Remote(remote) => {
                let opened = remote.open_path(path)?;
                if opened.stat.is_directory {
                    Ok(opened.descriptor)
                } else {
                    Err(Errno::NOTDIR.into())
                }
            }
        }
    }

    /// Opens a program so that it can be started from the descriptor. Whether it can be executed shows then.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn open_program(&self, path: &Path) -> Result<OwnedFd, FileAccessError> {
        match self {
            Self::Direct => Ok(open_path(path, OFlags::empty())?),
            Self::Remote(remote) => Ok(remote.open_path(path)?.descriptor),
        }
    }

    /// Opens a regular file for reading, links followed. Nothing else is ever opened or waited for.
    ///
    /// # Errors
    /// `InvalidInput` for anything but a regular file, `NotConnected` when nothing can be seen, else what opening says.
    pub fn open_regular(&self, path: &Path) -> io::Result<File> {
        match self {
            Self::Direct => open_regular(&path.canonicalize()?),
            Self::Remote(remote) => Ok(remote.open_regular(path)?),
        }
    }

    /// The real path of something that is there.
    ///
    /// # Errors
    /// [`FileAccessError`].
    pub fn real(&self, path: &Path) -> Result<PathBuf, FileAccessError> {
        match self {
            Self::Direct => Ok(path.canonicalize()?),
            Self::Remote(remote) => Ok(remote.open_path(path)?.real.into()),
        }
    }

    /// Whether the file at this path, no link, is the very one that was judged, with its content untouched.
    ///
    /// # Errors
    /// [`Blind`].
    pub fn is_unchanged(&self, identity: &FileIdentity) -> Result<bool, Blind> {
        match self {
            Self::Direct => {
                let stat = rustix::fs::statat(CWD, identity.path.as_str(), AtFlags::SYMLINK_NOFOLLOW);
                Ok(stat.is_ok_and(|stat| is_identical(identity, &stat)))
            }
            Self::Remote(remote) => match remote.open_path(Path::new(&identity.path)) {
                // The real path is that of the link's target if there is a link by now.
                Ok(opened) => Ok(opened.identity().as_ref() == Some(identity)),
                Err(FileAccessError::Refused(_)) => Ok(false),
                Err(FileAccessError::Blind(blind)) => Err(blind),
            },
        }
    }
}

/// Whether what was opened is the very file that was judged, with its content untouched.
fn is_identical(identity: &FileIdentity, stat: &Stat) -> bool {
    let FileIdentity {
        path: _,
        dev,
        ino,
        size,
        mtime_ns,
        ctime_ns,
    } = identity;
    let nanoseconds = |seconds: i64, rest: u64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    (*dev, *ino) == (stat.st_dev, stat.st_ino)
        && i128::from(*size) == i128::from(stat.st_size)
        && *mtime_ns == nanoseconds(stat.st_mtime, stat.st_mtime_nsec)
        && *ctime_ns == nanoseconds(stat.st_ctime, stat.st_ctime_nsec)
}

fn open_path(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())
}
