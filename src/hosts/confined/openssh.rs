//! What OpenSSH includes from its system configuration.
//!
//! It insists that an included file belongs to root or to the account. In a namespace of one account root's files
//! belong to nobody, so without copies of them every `git push` over ssh would end with "Bad owner or permissions".

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::runner::confine::Mask;

/// The system configuration itself, which is exempt.
const CONFIG: &str = "/etc/ssh/ssh_config";

/// Relative patterns are below it.
const HOME: &str = "/etc/ssh";

/// A directory that holds more than this is not there for configuration alone.
const MAX_FILES: usize = 64;
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// How deep files may include each other, as in OpenSSH.
const MAX_DEPTH: u8 = 16;

/// Directories of included files, each to be replaced by copies that belong to the account.
pub(super) fn masks() -> Vec<Mask> {
    let mut directories = BTreeSet::new();
    follow(Path::new(CONFIG), 0, &mut directories);
    directories
        .into_iter()
        .filter_map(|directory| mask(&directory))
        .collect()
}

fn follow(file: &Path, depth: u8, directories: &mut BTreeSet<PathBuf>) {
    if depth > MAX_DEPTH {
        return;
    }
    let Ok(text) = fs::read_to_string(file) else {
        return;
    };
    for pattern in includes(&text) {
        let Some(directory) = pattern.parent().filter(|directory| is_literal(directory)) else {
            continue;
        };
        let Ok(directory) = directory.canonicalize() else {
            continue;
        };
        if !directories.insert(directory.clone()) {
            continue;
        }
        for included in files(&directory).unwrap_or_default() {
            follow(&included, depth + 1, directories);
        }
    }
}

fn is_literal(path: &Path) -> bool {
    !path.to_string_lossy().contains(['*', '?', '[', '%', '$'])
}

/// The patterns of `Include` lines, made absolute.
fn includes(text: &str) -> Vec<PathBuf> {
    let patterns = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let (keyword, rest) = line.split_at_checked("Include".len())?;
        let rest = rest.strip_prefix(|c: char| c.is_ascii_whitespace() || c == '=')?;
        keyword.eq_ignore_ascii_case("Include").then_some(rest)
    });
    patterns
        .flat_map(|rest| rest.split(|c: char| c.is_ascii_whitespace() || c == '='))
        .map(|pattern| pattern.trim_matches('"'))
        .filter(|pattern| !pattern.is_empty() && !pattern.starts_with('~'))
        .map(|pattern| Path::new(HOME).join(pattern))
        .collect()
}

/// The files of a directory, if nothing else is in it and all are small and can be read.
fn files(directory: &Path) -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).ok()? {
        let path = entry.ok()?.path();
        // Links are followed: what counts is the file that they lead to.
        let meta = fs::metadata(&path).ok()?;
        let is_readable = fs::File::open(&path).is_ok();
        if !meta.is_file() || meta.len() > MAX_FILE_BYTES || !is_readable || files.len() >= MAX_FILES {
            return None;
        }
        files.push(path);
    }
    files.sort();
    Some(files)
}

fn mask(directory: &Path) -> Option<Mask> {
    // Where the keys of the machine and the exempt file itself lie nothing is replaced.
    let copies = files(directory).filter(|files| !files.is_empty() && directory != Path::new(HOME))?;
    Some(Mask {
        copies,
        ..Mask::over(directory.to_path_buf())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn include_lines_are_found_as_openssh_finds_them() {
        let text = "# Include /no\nInclude /etc/ssh/ssh_config.d/*.conf\n  include=crypto \"/a/b\"\nIncluded x\n\
                    Host *\n\tInclude ~/mine\n";
        assert_eq!(
            includes(text),
            [
                Path::new("/etc/ssh/ssh_config.d/*.conf"),
                Path::new("/etc/ssh/crypto"),
                Path::new("/a/b"),
            ]
        );
    }

    #[test]
    fn a_directory_is_replaced_only_if_it_holds_small_files_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(mask(path), None);
        std::os::unix::fs::symlink("/etc/passwd", path.join("b.conf")).unwrap();
        fs::File::create(path.join("a.conf")).unwrap();
        let copies = mask(path).map(|mask| mask.copies);
        assert_eq!(copies, Some(vec![path.join("a.conf"), path.join("b.conf")]));
        fs::create_dir(path.join("more")).unwrap();
        assert_eq!(mask(path), None);
    }
}
