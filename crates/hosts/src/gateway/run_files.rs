//! What the server keeps of a run beside the ledger, and how it stays what the run may have.
//!
//! Under another account the supervisor writes to files that the server made: it could write more than it was told
//! to, and only the server can take an empty one away.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::fs::{FileType, Mode, OFlags};

use countersign_runner::{
    Sweeper,
    output::spool,
    run_file::{self, Fence, RunFileState},
};

/// Where the exact output and the record of a run go.
#[derive(Debug, Clone)]
pub(super) struct RunFiles {
    pub(super) run_file: PathBuf,
    /// The spool, when the server made it for a supervisor of another account.
    pub(super) made_spool: Option<MadeSpool>,
    pub(super) sweeper: Sweeper,
}

/// A spool that the server made.
#[derive(Debug, Clone)]
pub(super) struct MadeSpool {
    pub(super) path: PathBuf,
    /// The length that no supervisor of ours goes beyond.
    pub(super) most: u64,
}

impl RunFiles {
    /// What the run's file says.
    pub(super) fn state(&self) -> io::Result<RunFileState> {
        run_file::inspect(&self.run_file).map(|inspected| inspected.state)
    }

    /// Kills what a supervisor that died left of the run. The fence is one of this boot.
    pub(super) async fn sweep(&self, fence: &Fence) {
        self.sweeper.sweep(fence).await;
    }

    /// Takes a spool away in which nothing is, as long as nobody will write to it.
    pub(super) fn tidy(&self) {
        let Some(MadeSpool { path, .. }) = &self.made_spool else {
            return;
        };
        let is_empty = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.len() == 0);
        if is_empty && let Err(error) = fs::remove_file(path) {
            tracing::debug!(%error, "an empty spool stays");
        }
    }

    /// Cuts off what no supervisor of ours would have written.
    pub(super) fn cut(&self) {
        let Some(MadeSpool { path, most }) = &self.made_spool else {
            return;
        };
        if let Err(error) = cut(path, *most) {
            tracing::error!(%error, "a spool cannot be held to its limit");
        }
    }
}

/// The most that a spool of this many bytes of output can take.
pub(super) const fn most(max_bytes: u64) -> u64 {
    max_bytes
        .saturating_mul(spool::FRAMED_BYTE as u64)
        .saturating_add(spool::MAX_ASIDE_BYTES as u64)
}

fn cut(path: &Path, most: u64) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    let length = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if FileType::from_raw_mode(stat.st_mode).is_file() && length > most {
        tracing::warn!("a spool was written beyond its limit and is cut");
        rustix::fs::ftruncate(&file, most)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::OutputStream;

    #[test]
    fn only_what_no_supervisor_writes_is_cut_off() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for _ in 0..100 {
            spool::append(&mut file, OutputStream::Stdout, b"x").unwrap();
        }
        let length = || fs::metadata(file.path()).unwrap().len();
        cut(file.path(), most(1)).unwrap();
        assert_eq!(length(), 600);
        file.as_file().set_len(most(1) + 1).unwrap();
        cut(file.path(), most(1)).unwrap();
        assert_eq!(length(), most(1));
        cut(Path::new("/nonexistent/spool"), 1).unwrap();
    }

    #[test]
    fn a_link_in_place_of_a_spool_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = tempfile::NamedTempFile::new().unwrap();
        target.as_file().set_len(1000).unwrap();
        let link = folder.path().join("run");
        std::os::unix::fs::symlink(target.path(), &link).unwrap();
        cut(&link, 1).unwrap_err();
        assert_eq!(fs::metadata(target.path()).unwrap().len(), 1000);
    }
}
