//! The working directory of a gateway run: found, checked, and pinned by device and inode.

use std::path::{Path, PathBuf};

use super::peer_fs::{Blind, Directory, FileAccessError, Files};

/// A directory that existed when it was looked at, with what tells it from another of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workdir {
    /// Its real path; of a sandbox or a node, the path that it has there.
    pub path: PathBuf,
    /// The number of its device; 0 in a sandbox, on a node, and for a workspace that is missing.
    pub dev: u64,
    /// The number of its inode; 0 where the device is 0 too.
    pub ino: u64,
}

/// The working directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkdirError {
    /// Neither absolute nor below the home directory.
    #[error("the working directory must be absolute or begin with ~/")]
    Relative,
    /// It is not there, or it cannot be entered.
    #[error("the working directory does not exist or cannot be entered")]
    Missing(#[source] std::io::Error),
    /// It is something else.
    #[error("the working directory is not a directory")]
    NotADirectory,
    /// Its path is not UTF-8, which no record could show.
    #[error("the working directory's path is not valid UTF-8")]
    NotText,
    /// The directory cannot be seen at the moment.
    #[error(transparent)]
    Blind(#[from] Blind),
}

impl WorkdirError {
    /// Whether there is nothing of that name.
    fn is_absence(&self) -> bool {
        matches!(self, Self::Missing(error) if error.kind() == std::io::ErrorKind::NotFound)
    }
}

impl From<FileAccessError> for WorkdirError {
    fn from(error: FileAccessError) -> Self {
        match error {
            FileAccessError::Refused(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                Self::NotADirectory
            }
            FileAccessError::Refused(error) => Self::Missing(error),
            FileAccessError::Blind(blind) => Self::Blind(blind),
        }
    }
}

/// Where a call starts that names no directory and whose agent has no workspace of its own: `workspace` in the state
/// directory. A command under another account than the server's cannot enter that, so there it is
/// `.countersign/workspace` in the account's home directory; where that cannot be made, calls start in `/`.
pub fn default_workspace(in_state: &Path, account_home: Option<&Path>) -> PathBuf {
    account_home.map_or_else(|| in_state.to_owned(), |home| home.join(".countersign/workspace"))
}

impl Workdir {
    /// The directory that a call named.
    ///
    /// # Errors
    /// [`WorkdirError`] unless it is an existing directory.
    pub fn named(text: &str, home: &Path, files: &Files) -> Result<Self, WorkdirError> {
        let path = match text.strip_prefix('~') {
            Some("") => home.to_owned(),
            Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
            _ => PathBuf::from(text),
        };
        if path.is_absolute() {
            Self::at(&path, files)
        } else {
            Err(WorkdirError::Relative)
        }
    }

    /// An agent's workspace, created 0700 when it is missing.
    ///
    /// # Errors
    /// [`WorkdirError`] when it cannot be created or is no directory.
    pub fn workspace(path: &Path, files: &Files) -> Result<Self, WorkdirError> {
        match Self::at(path, files) {
            Err(error) if error.is_absence() => {
                files.make_directory(path)?;
                Self::at(path, files)
            }
            found => found,
        }
    }

    /// The same without creating it: a missing one is taken for what it would be, with no device and inode yet.
    ///
    /// # Errors
    /// [`WorkdirError`] when it is there and cannot be used.
    pub fn future_workspace(path: &Path, files: &Files) -> Result<Self, WorkdirError> {
        match Self::at(path, files) {
            Err(error) if error.is_absence() => Ok(Self {
                path: path.to_owned(),
                dev: 0,
                ino: 0,
            }),
            found => found,
        }
    }

    /// A directory in a sandbox, by the name that it has there. It is looked at when it is entered.
    pub const fn inside(path: PathBuf) -> Self {
        Self { path, dev: 0, ino: 0 }
    }

    /// Looks at a directory as it is now.
    ///
    /// # Errors
    /// [`WorkdirError`] unless it is an existing directory with a UTF-8 path.
    pub fn at(path: &Path, files: &Files) -> Result<Self, WorkdirError> {
        let Directory { path, dev, ino } = files.directory(path)?;
        if path.to_str().is_none() {
            return Err(WorkdirError::NotText);
        }
        Ok(Self { path, dev, ino })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_existing_directories_are_taken() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("d")).unwrap();
        let real = home.path().canonicalize().unwrap();
        assert_eq!(
            Workdir::named("~/d", home.path(), &Files::Direct).unwrap().path,
            real.join("d")
        );
        assert_eq!(
            Workdir::named("~", home.path(), &Files::Direct).unwrap().path,
            real
        );
        assert!(matches!(
            Workdir::named("d", home.path(), &Files::Direct),
            Err(WorkdirError::Relative)
        ));
        assert!(matches!(
            Workdir::named("~other/d", home.path(), &Files::Direct),
            Err(WorkdirError::Relative)
        ));
        assert!(matches!(
            Workdir::named("~/nothing", home.path(), &Files::Direct),
            Err(WorkdirError::Missing(_))
        ));
        assert!(matches!(
            Workdir::named("/bin/sh", home.path(), &Files::Direct),
            Err(WorkdirError::NotADirectory)
        ));
    }
}
