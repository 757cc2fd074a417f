//! The ledger's file, and whether it is still where it was opened.
//!
//! An open database goes on taking writes after its file was deleted, and nobody would ever read them. So what begins
//! something looks here first.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file as it was when it was opened.
#[derive(Debug)]
pub(super) struct LedgerFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl LedgerFile {
    /// Of a file that was just opened.
    pub(super) fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            identity: identity(path),
        }
    }

    /// Whether the same file is there.
    pub(super) fn is_there(&self) -> bool {
        self.identity.is_some() && identity(&self.path) == self.identity
    }
}

/// Where the ledger lies.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) path: PathBuf,
    pub(super) ledger_file: Arc<LedgerFile>,
    pub(super) audit_key: PathBuf,
    pub(super) audit_head: PathBuf,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sys::fs::create_private_file;

    #[test]
    fn a_file_that_was_deleted_moved_or_replaced_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("a"), folder.path().join("b"));
        create_private_file(&path, b"x").unwrap();
        let file = LedgerFile::of(&path);
        assert!(file.is_there());
        fs::rename(&path, &elsewhere).unwrap();
        assert!(!file.is_there());
        create_private_file(&path, b"x").unwrap();
        assert!(!file.is_there());
        fs::rename(&elsewhere, &path).unwrap();
        assert!(file.is_there());
        fs::remove_file(&path).unwrap();
        assert!(!file.is_there());
    }
}
