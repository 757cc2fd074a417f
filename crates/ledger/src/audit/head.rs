//! The sealed head: a small file beside the ledger that knows how far the chain had come.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use countersign_domain::UnixMillis;
use countersign_sys::faults::{WriteAt, fail_at};

use crate::{error::LedgerError, keys::Keys};

use super::chain::ChainHead;

/// The file of the sealed head.
#[derive(Debug)]
pub(crate) struct HeadFile(PathBuf);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Sealed {
    pub(super) seq: i64,
    pub(super) hash: String,
    pub(super) at_ms: i64,
    mac: String,
}

/// Why the head could not be written; the chain goes on without it and the next second tries again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    #[error("the ledger could not be synced")]
    Ledger(#[from] LedgerError),
    #[error("the head could not be replaced")]
    File(#[from] io::Error),
}

impl From<Errno> for SealError {
    fn from(errno: Errno) -> Self {
        Self::File(errno.into())
    }
}

impl HeadFile {
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Replaces the head. The caller has made the records up to it safe against power loss.
    pub(crate) fn seal(&self, head: &ChainHead, now: UnixMillis, keys: &Keys) -> Result<(), SealError> {
        let mac = keys.mac(&sealed_text(head.seq, &head.hash, now.get()));
        let sealed = Sealed {
            seq: head.seq,
            hash: head.hash.clone(),
            at_ms: now.get(),
            mac,
        };
        let text = serde_json::to_vec(&sealed).expect("plain data is JSON");
        let folder = self.0.parent().unwrap_or_else(|| Path::new("/"));
        // Made with mode 0600 by its library.
        fail_at("audit.create-head")?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        WriteAt::new("audit.write-head", &mut file).write_all(&text)?;
        fail_at("audit.sync-head")?;
        file.as_file().sync_all()?;
        fail_at("audit.rename-head")?;
        file.persist(&self.0).map_err(|refused| refused.error)?;
        fail_at("audit.sync-directory")?;
        File::open(folder)?.sync_all()?;
        Ok(())
    }

    /// The head as it is, `None` without a file or with one that is no head of ours.
    pub(super) fn load(&self) -> io::Result<Option<Sealed>> {
        let mut text = String::new();
        match File::open(&self.0) {
            Ok(file) => file.take(4096).read_to_string(&mut text).map(drop)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(serde_json::from_str(&text).ok())
    }

    /// Whether there is a file at all.
    pub(crate) fn exists(&self) -> bool {
        self.0.exists()
    }

    /// The head that a new record must follow. A sealed head beyond what is stored means that records were cut
    /// off: the chain goes on after it, so that the cut shows for ever instead of being written over.
    pub(crate) fn resume(&self, stored: ChainHead, keys: &Keys) -> io::Result<ChainHead> {
        let sealed = self.load()?.filter(|sealed| sealed.is_genuine(keys));
        Ok(match sealed {
            Some(sealed) if sealed.seq >= stored.seq => ChainHead {
                seq: sealed.seq,
                hash: sealed.hash,
            },
            _ => stored,
        })
    }
}

impl Sealed {
    pub(super) fn is_genuine(&self, keys: &Keys) -> bool {
        keys.is_mac(&sealed_text(self.seq, &self.hash, self.at_ms), &self.mac)
    }
}

fn sealed_text(seq: i64, hash: &str, at: i64) -> String {
    format!("countersign audit head\n{seq}\n{hash}\n{at}")
}
