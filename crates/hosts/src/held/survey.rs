//! What a held text does not change in a workspace: the files that decide what programs start, and the directories over them.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use countersign_domain::{deciding, may_hold_deciding};

use super::Fixed;
use crate::sandbox::Unusable;

/// Entries of a workspace that are looked at; a larger one is not held to.
const MAX_ENTRIES: usize = 50_000;
const MAX_DEPTH: usize = 64;
const MAX_FIXED: usize = 512;
/// How often it is looked through again because a directory went meanwhile.
const MAX_TRIES: usize = 8;

/// Looks for them in every directory, outer ones first. Nothing below one that counts as a whole is looked at.
///
/// # Errors
/// [`Unusable`] for what cannot be covered: a link of such a name, a file with another name besides, too many.
pub(crate) fn survey(workspace: &Path) -> Result<Vec<Fixed>, Unusable> {
    for _ in 0..MAX_TRIES {
        if let Some(found) = look_through(workspace)? {
            return Ok(found);
        }
    }
    Err(refuse(
        workspace,
        "its directories change while it is looked through",
    ))
}

fn refuse(path: &Path, why: &str) -> Unusable {
    Unusable(format!("{}: {why}", path.display()))
}

/// Looks once. `None` where something went meanwhile: it may stand in a directory that was looked at before.
fn look_through(workspace: &Path) -> Result<Option<Vec<Fixed>>, Unusable> {
    let mut fixed: BTreeMap<PathBuf, Fixed> = BTreeMap::new();
    let mut waiting = vec![(workspace.to_owned(), 0_usize)];
    let mut entries = 0_usize;
    while let Some((directory, depth)) = waiting.pop() {
        let listed = match fs::read_dir(&directory) {
            Ok(listed) => listed,
            Err(error) if has_gone(&error) && depth > 0 => return Ok(None),
            Err(error) => return Err(refuse(&directory, &error.to_string())),
        };
        for entry in listed {
            let entry = entry.map_err(|error| refuse(&directory, &error.to_string()))?;
            entries += 1;
            let path = entry.path();
            if entries > MAX_ENTRIES || depth >= MAX_DEPTH {
                return Err(refuse(workspace, "it has too many files to be looked through"));
            }
            let kind = entry
                .file_type()
                .map_err(|error| refuse(&path, &error.to_string()))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if deciding(&name).is_none() && !may_hold_deciding(&name) {
                if kind.is_dir() {
                    waiting.push((path, depth + 1));
                }
                continue;
            }
            if !kind.is_dir() && !kind.is_file() {
                return Err(refuse(
                    &path,
                    "a link of this name can lead to a file that is written",
                ));
            }
            let over = directory.ancestors().take_while(|over| *over != workspace);
            let places = over.map(|over| (over, false)).chain([(path.as_path(), true)]);
            for (place, decides) in places {
                if fixed.contains_key(place) {
                    continue;
                }
                let found = match fs::symlink_metadata(place) {
                    Ok(found) => found,
                    Err(error) if has_gone(&error) => return Ok(None),
                    Err(error) => return Err(refuse(place, &error.to_string())),
                };
                if decides && found.is_file() && found.nlink() > 1 {
                    return Err(refuse(
                        place,
                        "this file has another name, by which it could be written",
                    ));
                }
                let item = Fixed {
                    path: place.to_owned(),
                    inode: (found.dev(), found.ino()),
                    decides,
                };
                fixed.insert(place.to_owned(), item);
            }
            if fixed.len() > MAX_FIXED {
                return Err(refuse(workspace, "it has too many files that decide what starts"));
            }
        }
    }
    Ok(Some(fixed.into_values().collect()))
}

/// Whether a file, or a directory on the way to it, is not there any more.
fn has_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::survey;

    #[test]
    fn what_decides_is_found_wherever_it_lies() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for directory in ["a/.git/hooks", "b/.cargo", "c/d/.config/app", "src", "docs"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        for file in ["a/.git/config", "a/.gitignore", "src/.npmrc", "src/x", "docs/y"] {
            fs::File::create(at(file)).unwrap();
        }
        let found = survey(place.path()).unwrap();
        let found: Vec<_> = found.into_iter().map(|one| (one.path, one.decides)).collect();
        let expected = [
            ("a", false),
            ("a/.git", true),
            ("b", false),
            ("b/.cargo", true),
            ("c", false),
            ("c/d", false),
            ("c/d/.config", true),
            ("src", false),
            ("src/.npmrc", true),
        ];
        assert_eq!(found, expected.map(|(name, decides)| (at(name), decides)));
        fs::hard_link(at("src/.npmrc"), at("src/other")).unwrap();
        assert!(survey(place.path()).unwrap_err().0.contains("another name"));
        fs::remove_file(at("src/other")).unwrap();
        symlink("x", at("src/.bashrc")).unwrap();
        assert!(survey(place.path()).unwrap_err().0.contains("a link"));
    }
}
