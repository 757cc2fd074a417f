//! The shebang cache: how executable files begin, as programs of the machine or as scripts with an interpreter line.
//!
//! It remembers a beginning under the identity of its file, and must never answer for a file that changed since, or that is
//! so fresh that a change could look the same. What an interpreter line means is in [`countersign_policy::command::hashbang`].

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _},
    path::Path,
    sync::{Mutex, PoisonError},
};

use countersign_domain::{FileIdentity, UnixMillis};
use countersign_policy::command::hashbang::{HEAD_BYTES, Head};
use countersign_sys::fs::FileStamp;

/// Files that are remembered. More than the programs that anybody uses at a time.
const MAX_KNOWN: usize = 1024;

/// Remembers how files began, so that a program that is run again and again is read once.
#[derive(Debug, Default)]
pub struct ShebangCache(Mutex<HashMap<FileIdentity, Head>>);

impl ShebangCache {
    /// How the file of this identity begins; `None` when it cannot be read, or is another one by now. `open` opens
    /// regular files only.
    pub fn of(
        &self,
        identity: &FileIdentity,
        now: UnixMillis,
        open: impl Fn(&Path) -> io::Result<File>,
    ) -> Option<Head> {
        if let Some(known) = self.known().get(identity) {
            return Some(known.clone());
        }
        let (head, stamp) = read(open(Path::new(&identity.path)).ok()?)?;
        if stamp != stamp_of(identity) {
            return None;
        }
        if stamp.is_stable(now.get()) {
            let mut known = self.known();
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
            known.insert(identity.clone(), head.clone());
        }
        Some(head)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<FileIdentity, Head>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stamp of a file of this identity.
pub(crate) fn stamp_of(identity: &FileIdentity) -> FileStamp {
    let FileIdentity {
        path: _,
        dev,
        ino,
        size,
        mtime_ns,
        ctime_ns,
    } = *identity;
    FileStamp {
        dev,
        ino,
        size,
        mtime_ns,
        ctime_ns,
    }
}

/// How an open file begins, and what it is.
pub(crate) fn read(file: File) -> Option<(Head, FileStamp)> {
    let stamp = FileStamp::from_metadata(&file.metadata().ok()?);
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    let length = u64::try_from(HEAD_BYTES).unwrap_or(u64::MAX);
    file.take(length).read_to_end(&mut bytes).ok()?;
    Some((Head::of(&bytes), stamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_policy::command::PathLookup as _;
    use countersign_sys::fs::open_regular;

    use crate::{path_lookup::SystemLookup, peer_fs::Files};

    #[test]
    fn what_is_remembered_is_of_one_file_at_one_time() {
        use std::{io::Write as _, os::unix::fs::PermissionsExt as _};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tool");
        let path_text = path.to_str().unwrap();
        let lookup = SystemLookup::new([], String::new(), &Files::Direct);
        let write = |text: &str| {
            File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            lookup.inspect(path_text).unwrap().identity
        };
        let shebangs = ShebangCache::default();
        // So late that nothing that was written before can look the same.
        let later = UnixMillis::new(i64::MAX / 2_000_000);
        let script = write("#!/bin/sh\n");
        assert!(matches!(
            shebangs.of(&script, later, open_regular),
            Some(Head::Script(Some(_)))
        ));
        let other = write("\x7fELF");
        assert_eq!(shebangs.of(&other, later, open_regular), Some(Head::Program));
        // Known, though it is gone.
        assert!(matches!(
            shebangs.of(&script, later, open_regular),
            Some(Head::Script(Some(_)))
        ));
        // Not known, and not what is there.
        assert_eq!(ShebangCache::default().of(&script, later, open_regular), None);
        // Too fresh to be believed later.
        let fresh = ShebangCache::default();
        assert_eq!(
            fresh.of(&other, UnixMillis::new(0), open_regular),
            Some(Head::Program)
        );
        write("#!/bin/sh\n");
        assert_eq!(fresh.of(&other, later, open_regular), None);
    }
}
