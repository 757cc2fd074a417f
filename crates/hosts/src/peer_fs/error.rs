//! Why a file was not reached: the kernel refused, or nobody could look.

use std::io;

use rustix::io::Errno;

/// The files cannot be seen at the moment. Nothing may be concluded from it, least of all that something is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("files cannot be seen as the commands' account at the moment")]
pub struct Blind;

/// Why a file was not reached.
#[derive(Debug, thiserror::Error)]
pub enum FileAccessError {
    /// The kernel refused; `NotFound` means that the file is not there.
    #[error(transparent)]
    Refused(#[from] io::Error),
    /// Nothing could be looked at, so the file may well be there.
    #[error(transparent)]
    Blind(#[from] Blind),
}

impl From<Errno> for FileAccessError {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno.into())
    }
}

impl From<FileAccessError> for io::Error {
    fn from(error: FileAccessError) -> Self {
        match error {
            FileAccessError::Refused(error) => error,
            FileAccessError::Blind(blind) => Self::new(io::ErrorKind::NotConnected, blind),
        }
    }
}
