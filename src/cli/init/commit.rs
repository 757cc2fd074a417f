//! Puts several files in place, all or none.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use countersign_sys::fs::create_private_file;

/// The files could not be put in place; none of them is.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .path.display())]
pub(super) struct CommitError {
    /// The file at which it failed.
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

/// A file to be put in place.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewFile<'a> {
    pub(super) path: &'a Path,
    /// What it will say.
    pub(super) text: &'a str,
    /// What it says now; `None` where there is no file.
    pub(super) replaces: Option<&'a str>,
}

/// Writes every text beside its place first and then moves all into place; what was moved is taken back when a later one
/// fails. A file that appears or changes meanwhile is not overwritten.
pub(super) fn commit(files: &[NewFile<'_>], suffix: &str) -> Result<(), CommitError> {
    commit_with(files, suffix, |from, to, flags| {
        renameat_with(CWD, from, CWD, to, flags).map_err(io::Error::from)
    })
}

fn commit_with(
    files: &[NewFile<'_>],
    suffix: &str,
    mut place: impl FnMut(&Path, &Path, RenameFlags) -> io::Result<()>,
) -> Result<(), CommitError> {
    let failed_at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| CommitError { path, source }
    };
    let mut staged = Staged::default();
    for file in files {
        let temporary = temporary(file.path, suffix);
        create_private_file(&temporary, file.text.as_bytes()).map_err(failed_at(file.path))?;
        staged.0.push(temporary);
    }
    let mut placed = Placed::default();
    for (file, temporary) in files.iter().zip(&staged.0) {
        let flags = match file.replaces {
            Some(_) => RenameFlags::EXCHANGE,
            None => RenameFlags::NOREPLACE,
        };
        place(temporary, file.path, flags).map_err(failed_at(file.path))?;
        placed
            .0
            .push((file.path.to_path_buf(), file.replaces.map(|_| temporary.clone())));
        if let Some(expected) = file.replaces {
            let replaced = fs::read(temporary).map_err(failed_at(file.path))?;
            if replaced != expected.as_bytes() {
                return Err(failed_at(file.path)(io::Error::other("it changed meanwhile")));
            }
        }
    }
    for file in files {
        sync_directory(file.path).map_err(failed_at(file.path))?;
    }
    placed.0.clear();
    Ok(())
}

/// Texts beside their places, removed when this is dropped; those that were moved away are gone already.
#[derive(Debug, Default)]
struct Staged(Vec<PathBuf>);

impl Drop for Staged {
    fn drop(&mut self) {
        for path in self.0.drain(..).rev() {
            drop(fs::remove_file(path));
        }
    }
}

/// Files in place, each with where the one lies that was there before. All is as it was when this is dropped.
#[derive(Debug, Default)]
struct Placed(Vec<(PathBuf, Option<PathBuf>)>);

impl Drop for Placed {
    fn drop(&mut self) {
        for (path, before) in self.0.drain(..).rev() {
            drop(match before {
                Some(before) => fs::rename(before, path),
                None => fs::remove_file(path),
            });
        }
    }
}

fn temporary(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn new<'a>(path: &'a Path, text: &'a str) -> NewFile<'a> {
        NewFile {
            path,
            text,
            replaces: None,
        }
    }

    fn instead<'a>(path: &'a Path, text: &'a str, replaces: &'a str) -> NewFile<'a> {
        NewFile {
            path,
            text,
            replaces: Some(replaces),
        }
    }

    #[test]
    fn all_files_are_placed_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        commit(&[new(&a, "1"), new(&b, "2")], "tmp").unwrap();
        assert_eq!(names_in(folder.path()), ["a", "b"]);
        assert_eq!(fs::read_to_string(&b).unwrap(), "2");
        assert_eq!(fs::metadata(&a).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_failure_at_any_file_leaves_none() {
        for failing in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
            let files: Vec<_> = paths.iter().map(|path| new(path, "text")).collect();
            let mut moves = 0;
            let outcome = commit_with(&files, "tmp", |from, to, _flags| {
                moves += 1;
                if moves > failing {
                    Err(io::Error::other("disk full"))
                } else {
                    fs::rename(from, to)
                }
            });
            assert_eq!(outcome.unwrap_err().path, paths[failing], "failing at {failing}");
            assert_eq!(names_in(folder.path()), [""; 0], "failing at {failing}");
        }
    }

    #[test]
    fn a_file_that_appeared_meanwhile_is_kept_and_the_others_are_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        create_private_file(&b, b"theirs").unwrap();
        let failure = commit(&[new(&a, "1"), new(&b, "2")], "tmp").unwrap_err();
        assert_eq!(failure.path, b);
        assert_eq!(names_in(folder.path()), ["b"]);
        assert_eq!(fs::read_to_string(&b).unwrap(), "theirs");
    }

    #[test]
    fn what_is_replaced_must_be_what_was_seen_and_comes_back_when_a_later_one_fails() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        create_private_file(&a, b"before").unwrap();
        let failure = commit(&[instead(&a, "1", "seen")], "tmp").unwrap_err();
        assert_eq!(
            failure.to_string(),
            format!("{}: it changed meanwhile", a.display())
        );
        assert_eq!(fs::read_to_string(&a).unwrap(), "before");

        create_private_file(&b, b"theirs").unwrap();
        commit(&[instead(&a, "1", "before"), new(&b, "2")], "tmp").unwrap_err();
        assert_eq!(fs::read_to_string(&a).unwrap(), "before");
        assert_eq!(names_in(folder.path()), ["a", "b"]);

        commit(&[instead(&a, "1", "before"), instead(&b, "2", "theirs")], "tmp").unwrap();
        assert_eq!(names_in(folder.path()), ["a", "b"]);
        assert_eq!(fs::read_to_string(&a).unwrap(), "1");
    }

    #[test]
    fn a_text_that_cannot_be_staged_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("missing/b"));
        let failure = commit(&[new(&a, "1"), new(&b, "2")], "tmp").unwrap_err();
        assert_eq!(failure.path, b);
        assert_eq!(names_in(folder.path()), [""; 0]);
    }
}
