//! Files of runs that have ended, which later runs use again.
//!
//! Making a file and deleting it are the dearest that a run asks of a file system: beside files that were deleted lately,
//! one without a journal takes up to a millisecond for it. A file of another name costs a hundredth of that. What it said is
//! written over, since to cut it off would free its block ([`run_file::clear`]).
//!
//! * Only the file of a run whose end is on record is taken, and only once no supervisor has it open.
//! * The last [`KEPT`] stay as they are. By then the ledger's log has gone round and was synced, so the end is on disk
//!   before the file forgets it. What a loss of power makes of a name and a content that do not belong together, the
//!   launch id in the file tells (`docs/decisions/0009-exactly-once.md`, step 5).

use std::{
    collections::VecDeque,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::{
    fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags},
    io::Errno,
};

use countersign_domain::RunId;
use countersign_runner::run_file;
use countersign_sys::faults;

/// How many ended runs keep their files. The ledger's log goes round with every thousandth page, and a run writes eleven.
/// Tests have few runs, and are to use files again.
const KEPT: usize = if cfg!(feature = "test-hooks") { 2 } else { 128 };
/// How many are remembered. Those beyond stay until their runs are forgotten.
const CAPACITY: usize = 1_024;

/// The runs, in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct SpentFiles(Mutex<VecDeque<RunId>>);

impl SpentFiles {
    /// The end of this run is on record.
    pub(super) fn add(&self, run_id: RunId) {
        let mut runs = self.runs();
        if runs.len() >= CAPACITY {
            runs.pop_front();
        }
        runs.push_back(run_id);
    }

    /// Makes a file that is no longer needed the cleared file of this run. `None` when there is none, or it did not become
    /// that: where the run has a file already, nothing changes.
    pub(super) fn reuse(&self, directory: &Path, run_id: &RunId) -> Option<OwnedFd> {
        let spent = {
            let mut runs = self.runs();
            if runs.len() <= KEPT {
                return None;
            }
            runs.pop_front()?
        };
        let made = rename_spent(&directory.join(spent.as_str()), &directory.join(run_id.as_str()));
        if made.as_ref().is_err_and(|errno| *errno == Errno::WOULDBLOCK) {
            // Its supervisor is slow to let it go: a later run takes it.
            self.add(spent);
        }
        made.ok()
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<RunId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clears a file and gives it another name that nothing has yet.
fn rename_spent(from: &Path, to: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    faults::fail_at("run-file.open-spent")?;
    let file = rustix::fs::open(from, flags, Mode::empty())?;
    // The supervisor gets this very lock with the descriptor. No other can hold it then, and write to the file.
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    faults::fail_at("run-file.empty-spent")?;
    run_file::clear(file.as_fd())?;
    faults::fail_at("run-file.rename-spent")?;
    rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use countersign_runner::run_file::{RunFileState, Voided};

    use super::*;

    fn run(number: usize) -> RunId {
        RunId::parse(format!("run-{number}")).unwrap()
    }

    fn write(path: &Path, text: &str) {
        countersign_sys::fs::create_private_file(path, text.as_bytes()).unwrap();
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// More ended runs than are kept: as many as are given, from 0 on.
    fn ended(directory: &Path, more: usize) -> SpentFiles {
        let spent = SpentFiles::default();
        for number in 0..KEPT + more {
            write(&directory.join(run(number).as_str()), "an end");
            spent.add(run(number));
        }
        spent
    }

    #[test]
    fn the_oldest_file_beyond_those_that_are_kept_becomes_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let spent = ended(folder.path(), 1);
        let before = names(folder.path()).len();
        let file = spent.reuse(folder.path(), &run(9_000)).unwrap();
        assert_eq!(names(folder.path()).len(), before);
        assert!(!folder.path().join("run-0").exists());
        let state = || run_file::inspect(&folder.path().join("run-9000")).unwrap().state;
        assert_eq!(state(), RunFileState::Empty);
        assert_eq!(fs::read(folder.path().join("run-1")).unwrap(), b"an end");
        drop(file);
        let voided = run_file::void(&folder.path().join("run-9000")).unwrap();
        assert_eq!((voided, state()), (Voided::Done, RunFileState::Void));
        assert!(spent.reuse(folder.path(), &run(9_001)).is_none());
    }

    #[test]
    fn a_file_that_a_supervisor_holds_stays() {
        let folder = tempfile::tempdir().unwrap();
        let spent = ended(folder.path(), 2);
        let held = fs::File::open(folder.path().join("run-0")).unwrap();
        rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(spent.reuse(folder.path(), &run(9_000)).is_none());
        assert_eq!(fs::read(folder.path().join("run-0")).unwrap(), b"an end");
        assert!(spent.reuse(folder.path(), &run(9_000)).is_some());
        assert!(!folder.path().join("run-1").exists());
        // Once it is let go, it is used like any other.
        drop(held);
        for number in 0..=KEPT {
            let ended = run(1_000 + number);
            write(&folder.path().join(ended.as_str()), "an end");
            spent.add(ended);
            assert!(spent.reuse(folder.path(), &run(9_001 + number)).is_some());
        }
        assert!(!folder.path().join("run-0").exists());
    }

    #[test]
    fn a_run_that_has_a_file_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let spent = ended(folder.path(), 1);
        write(&folder.path().join("run-9000"), "started");
        assert!(spent.reuse(folder.path(), &run(9_000)).is_none());
        assert_eq!(fs::read(folder.path().join("run-9000")).unwrap(), b"started");
    }

    #[test]
    fn a_file_that_is_gone_or_a_link_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let spent = ended(folder.path(), 2);
        fs::remove_file(folder.path().join("run-0")).unwrap();
        fs::rename(folder.path().join("run-1"), folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", folder.path().join("run-1")).unwrap();
        for _ in 0..2 {
            assert!(spent.reuse(folder.path(), &run(9_000)).is_none());
        }
        assert_eq!(fs::read(folder.path().join("elsewhere")).unwrap(), b"an end");
    }

    #[test]
    fn no_more_are_remembered_than_the_bound() {
        let spent = SpentFiles::default();
        for number in 0..CAPACITY + 5 {
            spent.add(run(number));
        }
        assert_eq!(spent.runs().len(), CAPACITY);
        assert_eq!(spent.runs().front(), Some(&run(5)));
    }
}
