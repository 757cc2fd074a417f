//! What OpenSSH includes from elsewhere into its configuration, the system's and the account's.
//!
//! It insists that an included file belongs to root or to the account. In a namespace of one account root's files
//! belong to nobody, so without copies of them every `git push` over ssh would end with "Bad owner or permissions".

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use countersign_runner::confine::Mask;

/// The system configuration itself, which is exempt.
const CONFIG: &str = "/etc/ssh/ssh_config";

/// Relative patterns in it, and in what it includes, are below this.
const HOME: &str = "/etc/ssh";

/// The account's configuration, and what relative patterns in it are below; both in its home directory.
const OWN_CONFIG: &str = ".ssh/config";
const OWN_HOME: &str = ".ssh";

/// A directory that holds more than this is not there for configuration alone.
const MAX_FILES: usize = 64;
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// How deep files may include each other, as in OpenSSH.
const MAX_DEPTH: u8 = 16;

/// Directories of included files, each to be replaced by copies that belong to the account. Those that belong to it
/// anyway, and may change, stay.
pub(super) fn masks(uid: u32, home: Option<&Path>) -> Vec<Mask> {
    let mut directories = BTreeSet::new();
    let system = Base {
        relative: Path::new(HOME),
        home,
    };
    follow(Path::new(CONFIG), &system, 0, &mut directories);
    if let Some(home) = home {
        let relative = home.join(OWN_HOME);
        let own = Base {
            relative: &relative,
            home: Some(home),
        };
        follow(&home.join(OWN_CONFIG), &own, 0, &mut directories);
    }
    directories
        .into_iter()
        .filter_map(|directory| mask(&directory, uid))
        .collect()
}

/// What patterns that are not absolute start from.
struct Base<'a> {
    relative: &'a Path,
    home: Option<&'a Path>,
}

fn follow(file: &Path, base: &Base<'_>, depth: u8, directories: &mut BTreeSet<PathBuf>) {
    if depth > MAX_DEPTH {
        return;
    }
    let Ok(text) = fs::read_to_string(file) else {
        return;
    };
    for pattern in includes(&text, base) {
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
            follow(&included, base, depth + 1, directories);
        }
    }
}

fn is_literal(path: &Path) -> bool {
    !path.to_string_lossy().contains(['*', '?', '[', '%', '$'])
}

/// The patterns of `Include` lines, made absolute.
fn includes(text: &str, base: &Base<'_>) -> Vec<PathBuf> {
    let patterns = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let (keyword, rest) = line.split_at_checked("Include".len())?;
        let rest = rest.strip_prefix(|c: char| c.is_ascii_whitespace() || c == '=')?;
        keyword.eq_ignore_ascii_case("Include").then_some(rest)
    });
    patterns
        .flat_map(|rest| rest.split(|c: char| c.is_ascii_whitespace() || c == '='))
        .map(|pattern| pattern.trim_matches('"'))
        .filter(|pattern| !pattern.is_empty())
        .filter_map(|pattern| match pattern.strip_prefix("~/") {
            Some(below) => Some(base.home?.join(below)),
            // Of another user.
            None if pattern.starts_with('~') => None,
            None => Some(base.relative.join(pattern)),
        })
        .collect()
}

/// The files of a directory, if nothing else is in it and all are small and can be read.
fn files(directory: &Path) -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).ok()? {
        let path = entry.ok()?.path();
        // Links are followed to the file that they lead to.
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

fn mask(directory: &Path, uid: u32) -> Option<Mask> {
    if fs::metadata(directory).ok()?.uid() == uid {
        return None;
    }
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
                    Host *\n\tInclude ~/mine ~root/theirs\n";
        let found = |home| {
            let relative = Path::new("/etc/ssh");
            includes(text, &Base { relative, home })
        };
        let of_the_system = ["/etc/ssh/ssh_config.d/*.conf", "/etc/ssh/crypto", "/a/b"].map(PathBuf::from);
        assert_eq!(found(None), of_the_system);
        let with_home = [of_the_system.as_slice(), &[PathBuf::from("/home/a/mine")]].concat();
        assert_eq!(found(Some(Path::new("/home/a"))), with_home);
    }

    #[test]
    fn a_directory_is_replaced_only_if_it_holds_small_files_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let owner = fs::metadata(path).unwrap().uid();
        let foreign = |path: &Path| mask(path, owner + 1);
        assert_eq!(foreign(path), None);
        std::os::unix::fs::symlink("/etc/passwd", path.join("b.conf")).unwrap();
        fs::File::create(path.join("a.conf")).unwrap();
        let copies = foreign(path).map(|mask| mask.copies);
        assert_eq!(copies, Some(vec![path.join("a.conf"), path.join("b.conf")]));
        assert_eq!(mask(path, owner), None, "the account may change it");
        fs::create_dir(path.join("more")).unwrap();
        assert_eq!(foreign(path), None);
    }
}
