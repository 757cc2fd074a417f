//! Disks of the tests.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    thread,
};

use super::{Invocation, is_root, run_program, skip};

/// A small file system of its own, unmounted with it.
#[derive(Debug)]
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where that is not possible: then the test is skipped.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        Self::mount_with(at, "size=12m")
    }

    /// The same of another size.
    pub(crate) fn mount_with(at: &Path, size: &str) -> Option<Self> {
        if !is_root() {
            skip("mounting a small disk needs root");
            return None;
        }
        let options = [
            "-t",
            "tmpfs",
            "-o",
            &format!("{size},mode=0700"),
            "countersign-test",
        ];
        let mounted = run_program(&Invocation::new("mount").args(&options).arg(at));
        if mounted.code != Some(0) {
            skip("a small disk cannot be mounted here");
            return None;
        }
        Some(Self(at.to_owned()))
    }

    /// Takes all the room that is left, to the last byte.
    pub(crate) fn fill(&self) {
        let mut filler = File::create(self.filler()).expect("a file on the small disk");
        for size in [1 << 20, 1 << 12, 1] {
            while filler.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    /// Takes all the room but so many bytes.
    pub(crate) fn fill_but(&self, bytes: u64) {
        self.fill();
        let filler = File::options()
            .write(true)
            .open(self.filler())
            .expect("the filler");
        let taken = filler.metadata().expect("its size").len();
        filler
            .set_len(taken.saturating_sub(bytes))
            .expect("a shorter filler");
    }

    pub(crate) fn make_room(&self) {
        fs::remove_file(self.filler()).expect("removing the filler");
    }

    /// Makes it read-only, or writable again.
    pub(crate) fn remount(&self, mode: &str) {
        let options = ["-o", &format!("remount,{mode}")];
        let done = run_program(&Invocation::new("mount").args(&options).arg(&self.0));
        assert_eq!(done.code, Some(0), "{done:?}");
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = run_program(&Invocation::new("umount").arg("--lazy").arg(&self.0));
        assert!(unmounted.code == Some(0) || thread::panicking(), "{unmounted:?}");
    }
}
