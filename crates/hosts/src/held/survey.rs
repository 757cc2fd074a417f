//! The files of a workspace that decide what programs start, which a held text does not change.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use countersign_domain::{deciding, may_hold_deciding};

use super::Deciding;
use crate::sandbox::Unusable;

/// Entries of a workspace that are looked at; a larger one is not held to.
const MAX_ENTRIES: usize = 50_000;
const MAX_DEPTH: usize = 64;
const MAX_FOUND: usize = 512;

/// Looks for them in every directory. Nothing below one that counts as a whole is looked at.
///
/// # Errors
/// [`Unusable`] for what cannot be covered: a link of such a name, a file with another name besides, too many.
pub(crate) fn survey(workspace: &Path) -> Result<Deciding, Unusable> {
    let refuse = |path: &Path, why: &str| Unusable(format!("{}: {why}", path.display()));
    let mut found: Vec<PathBuf> = Vec::new();
    let mut waiting = vec![(workspace.to_owned(), 0_usize)];
    let mut entries = 0_usize;
    while let Some((directory, depth)) = waiting.pop() {
        let listed = match fs::read_dir(&directory) {
            Ok(listed) => listed,
            // Removed meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && depth > 0 => continue,
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
            let counts = deciding(&name).is_some() || may_hold_deciding(&name);
            if !counts {
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
            if kind.is_file() && fs::symlink_metadata(&path).is_ok_and(|found| found.nlink() > 1) {
                return Err(refuse(
                    &path,
                    "this file has another name, by which it could be written",
                ));
            }
            found.push(path);
            if found.len() > MAX_FOUND {
                return Err(refuse(workspace, "it has too many files that decide what starts"));
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::survey;

    #[test]
    fn what_decides_is_found_wherever_it_lies() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for directory in ["a/.git/hooks", "b/.cargo", "c/.config/app", "src"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        for file in ["a/.git/config", "a/.gitignore", "src/.npmrc", "src/x"] {
            fs::File::create(at(file)).unwrap();
        }
        let found = survey(place.path()).unwrap();
        assert_eq!(
            found,
            [at("a/.git"), at("b/.cargo"), at("c/.config"), at("src/.npmrc")]
        );
        fs::hard_link(at("src/.npmrc"), at("src/other")).unwrap();
        assert!(survey(place.path()).unwrap_err().0.contains("another name"));
        fs::remove_file(at("src/other")).unwrap();
        symlink("x", at("src/.bashrc")).unwrap();
        assert!(survey(place.path()).unwrap_err().0.contains("a link"));
    }
}
