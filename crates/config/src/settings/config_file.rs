//! Changing `openclaw.json` on disk: one writer at a time, the text before kept, the new one whole or not at all.
//!
//! What a new text says is decided elsewhere ([`super::config_edit`]); this owns how it gets into its place. The
//! server and the command line without a server both write through here. Entry point: [`ConfigFile::hold`].

use std::{
    ffi::OsString,
    fs, io,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::PathBuf,
    time::Duration,
};

use rustix::fs::{FlockOperation, Mode, OFlags};
use sha2::{Digest as _, Sha256};

use countersign_domain::hex;
use countersign_sys::{
    fs::{PRIVATE_FILE, Staged, replace_file},
    wait,
};

use super::{
    Problem, StateDir,
    source_file::{self, MAX_BYTES},
};

/// How long a writer waits for another one.
const TIMEOUT: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(5);
/// What a file that group or others could read keeps of its mode.
const READABLE: u32 = 0o044;
const STAGED_SUFFIX: &str = ".new";

/// `openclaw.json` cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// Another program is changing it; trying again later may help.
    #[error("another program is changing openclaw.json")]
    Locked,
    /// It is a link, and replacing it would leave what it leads to as it is.
    #[error("openclaw.json is a link; change the file that it leads to")]
    Link,
    /// It is not ours to read, or no text.
    #[error("openclaw.json: {0}")]
    Unusable(Problem),
    /// The new text is longer than any server would read.
    #[error("openclaw.json would have {0} bytes, and at most {MAX_BYTES} are read")]
    TooLarge(usize),
    /// A file operation failed.
    #[error("openclaw.json cannot be written")]
    Io(#[from] io::Error),
}

/// The hash by which a content of the file is named: SHA-256 in hex; with `missing:` before it without a file.
pub fn content_hash(text: Option<&str>) -> String {
    let hash = hex(&Sha256::digest(text.unwrap_or_default()));
    match text {
        Some(_) => hash,
        None => format!("missing:{hash}"),
    }
}

/// The file as it is, kept from other writers of ours for as long as this lives.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    text: Option<String>,
    hash: String,
    mode: u32,
    _lock: OwnedFd,
}

/// A new text, safely on disk beside its place. Dropping it leaves the file as it is.
#[derive(Debug)]
#[must_use]
pub struct StagedConfig {
    staged: Staged,
    hash: String,
}

impl ConfigFile {
    /// Waits a bounded time for other writers and reads the file. Blocks the thread. The state directory must be
    /// there.
    ///
    /// # Errors
    /// [`ConfigFileError`]; nothing was changed.
    pub fn hold(state_dir: &StateDir) -> Result<Self, ConfigFileError> {
        let lock = lock(state_dir)?;
        let path = state_dir.config();
        let mode = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => return Err(ConfigFileError::Link),
            Ok(metadata) => PRIVATE_FILE | (metadata.mode() & READABLE),
            Err(error) if error.kind() == io::ErrorKind::NotFound => PRIVATE_FILE,
            Err(error) => return Err(error.into()),
        };
        let text = source_file::read(&path).map_err(ConfigFileError::Unusable)?.text;
        Ok(Self {
            hash: content_hash(text.as_deref()),
            path,
            text,
            mode,
            _lock: lock,
        })
    }

    /// Its text; `None` when there is no file.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// What names its content.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Writes a new text beside the file, and the present one to `openclaw.json.bak`.
    ///
    /// # Errors
    /// [`ConfigFileError`]; the file is as it was.
    pub fn stage(&self, text: &str) -> Result<StagedConfig, ConfigFileError> {
        if text.len() > MAX_BYTES {
            return Err(ConfigFileError::TooLarge(text.len()));
        }
        // The lock keeps others of ours away, so what has this name was left by one that died.
        let temporary = self.beside(STAGED_SUFFIX);
        match fs::remove_file(self.path.with_file_name(&temporary)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        let staged = Staged::create(&self.path, &temporary, text.as_bytes(), self.mode)?;
        if let Some(before) = &self.text {
            let kept = self.path.with_file_name(self.beside(".bak"));
            replace_file(&kept, before.as_bytes(), self.mode)?;
        }
        Ok(StagedConfig {
            staged,
            hash: content_hash(Some(text)),
        })
    }

    fn beside(&self, suffix: &str) -> OsString {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(suffix);
        name
    }
}

impl StagedConfig {
    /// What names the new content.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Puts it in its place.
    ///
    /// # Errors
    /// [`ConfigFileError::Io`]; the file is as it was.
    pub fn commit(self) -> Result<(), ConfigFileError> {
        Ok(self.staged.commit()?)
    }
}

/// The lock is one of the directory that is ours alone, so that it needs no file and ends with its holder.
fn lock(state_dir: &StateDir) -> Result<OwnedFd, ConfigFileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory =
        rustix::fs::open(state_dir.countersign(), flags, Mode::empty()).map_err(io::Error::from)?;
    let looks = TIMEOUT.as_millis() / LOOK.as_millis();
    for _look in 0..looks {
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(directory),
            Err(rustix::io::Errno::WOULDBLOCK) => wait::pause(LOOK),
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
    Err(ConfigFileError::Locked)
}
