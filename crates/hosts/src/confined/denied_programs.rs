//! The programs that deny rules with `children` mask: every file of the machine that a pattern means, looked for where programs
//! lie (`docs/spec/approvals-store.md#3-fields`).
//!
//! A name is looked for in the directories of the PATH of the run and in those of the system; a path, and a pattern with
//! wildcards behind a directory, in that directory. What is found is the real path: a link to it leads there, too. A hard link
//! or a copy of another name is another program.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use countersign_policy::{
    allowlist::means_file,
    pattern::{ExecutablePattern, InertPattern, PatternCache},
};

/// Where programs of the system lie, besides the PATH.
const SYSTEM: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/games",
    "/usr/local/bin",
    "/usr/local/games",
    "/usr/local/sbin",
    "/usr/sbin",
];

/// Programs that the rules of one run may mask.
const MAX_PROGRAMS: usize = 256;
/// Directories that are looked through for one run, and names in all of them.
const MAX_DIRECTORIES: usize = 128;
const MAX_NAMES: usize = 65_536;

/// Why not all programs that a rule means can be masked. Then the run does not start.
#[derive(Debug, thiserror::Error)]
pub enum Unmasked {
    /// There are too many.
    #[error(
        "deny rules with children match more than {MAX_PROGRAMS} programs; {pattern} is the last one that was looked for"
    )]
    TooMany {
        /// The pattern that was one too many.
        pattern: String,
    },
    /// There is too much to look through.
    #[error(
        "the directories of the PATH hold too many files to look for programs of deny rules with children"
    )]
    TooMuch,
    /// The pattern is none.
    #[error("a deny rule with children cannot be kept: {pattern}: {why}")]
    Pattern {
        /// The pattern as the rule has it.
        pattern: String,
        /// What is wrong with it.
        why: InertPattern,
    },
    /// A directory cannot be looked through.
    #[error("cannot look through {path} for programs of deny rules with children")]
    Unreadable {
        /// The directory or file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// The real paths of all programs that the patterns mean, for a run with this PATH.
///
/// # Errors
/// [`Unmasked`].
pub(crate) fn find(patterns: &[String], path: &OsStr) -> Result<BTreeSet<PathBuf>, Unmasked> {
    let mut search = Search {
        cache: PatternCache::default(),
        followed: BTreeMap::new(),
        found: BTreeSet::new(),
        names: 0,
    };
    let mut directories: Vec<PathBuf> = std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .collect();
    directories.extend(SYSTEM.iter().map(PathBuf::from));
    let mut parsed = Vec::with_capacity(patterns.len());
    for text in patterns {
        // `~/` was put in before.
        let pattern = ExecutablePattern::parse(text, "").map_err(|why| Unmasked::Pattern {
            pattern: text.clone(),
            why,
        })?;
        if let ExecutablePattern::File(path) | ExecutablePattern::Glob { directory: path, .. } = &pattern
            && let Some(real) = there(fs::canonicalize(path), Path::new(path))?
        {
            search
                .followed
                .insert(path.clone(), real.to_string_lossy().into_owned());
        }
        match &pattern {
            ExecutablePattern::File(file) => {
                directories.extend(Path::new(file).parent().map(Path::to_path_buf));
            }
            ExecutablePattern::Glob { directory, .. } if !directory.is_empty() => {
                directories.push(PathBuf::from(directory));
            }
            ExecutablePattern::Any | ExecutablePattern::Name(_) | ExecutablePattern::Glob { .. } => {}
        }
        parsed.push((text, pattern));
    }
    let mut seen = BTreeSet::new();
    for directory in directories {
        // `/bin` may be a link to `/usr/bin`. Both spellings of a path are one then.
        let Some(real) = there(directory.canonicalize(), &directory)? else {
            continue;
        };
        let is_new = seen.insert((directory.clone(), real));
        if seen.len() > MAX_DIRECTORIES {
            return Err(Unmasked::TooMuch);
        }
        if is_new {
            search.look_through(&directory, &parsed)?;
        }
    }
    Ok(search.found)
}

struct Search {
    cache: PatternCache,
    /// Where paths in patterns lead.
    followed: BTreeMap<String, String>,
    found: BTreeSet<PathBuf>,
    names: usize,
}

impl Search {
    fn look_through(
        &mut self,
        directory: &Path,
        patterns: &[(&String, ExecutablePattern)],
    ) -> Result<(), Unmasked> {
        let unreadable = |source| Unmasked::Unreadable {
            path: directory.to_path_buf(),
            source,
        };
        let Some(entries) = there(fs::read_dir(directory), directory)? else {
            return Ok(());
        };
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            self.names += 1;
            if self.names > MAX_NAMES {
                return Err(Unmasked::TooMuch);
            }
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir()
                || kind.is_socket()
                || kind.is_fifo()
                || kind.is_char_device()
                || kind.is_block_device()
            {
                continue;
            }
            let path = entry.path();
            let real = if kind.is_symlink() {
                match there(path.canonicalize(), &path)? {
                    Some(real) => real,
                    None => continue,
                }
            } else {
                path.clone()
            };
            let meant = patterns
                .iter()
                .find(|(_text, pattern)| self.means(pattern, &path, &real));
            if let Some((text, _pattern)) = meant {
                self.add(path.canonicalize(), text)?;
            }
        }
        Ok(())
    }

    fn means(&self, pattern: &ExecutablePattern, path: &Path, real: &Path) -> bool {
        let (path, real) = (path.to_string_lossy(), real.to_string_lossy());
        let follow = |path: &str| self.followed.get(path).cloned();
        means_file(pattern, (&path, &real), &self.cache, follow)
    }

    fn add(&mut self, real: io::Result<PathBuf>, text: &str) -> Result<(), Unmasked> {
        let Some(real) = there(real, Path::new(text))? else {
            return Ok(());
        };
        let Some(meta) = there(fs::metadata(&real), &real)? else {
            return Ok(());
        };
        if meta.is_file() && meta.permissions().mode() & 0o111 != 0 {
            self.found.insert(real);
        }
        if self.found.len() > MAX_PROGRAMS {
            return Err(Unmasked::TooMany {
                pattern: text.to_owned(),
            });
        }
        Ok(())
    }
}

/// What is there; `None` for nothing. Where this account may not look, its commands may not either.
fn there<T>(found: io::Result<T>, path: &Path) -> Result<Option<T>, Unmasked> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(None),
            Some(_) | None => Err(Unmasked::Unreadable {
                path: path.to_path_buf(),
                source: error,
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn program(path: &Path, mode: u32) {
        fs::File::create(path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn names(patterns: &[&str], directory: &Path) -> Vec<String> {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let found = find(&patterns, directory.as_os_str()).unwrap();
        let below = found.iter().filter_map(|path| path.strip_prefix(directory).ok());
        below.map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn every_file_that_a_pattern_means_is_found_by_its_real_path() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let bin = place.join("bin");
        fs::create_dir_all(place.join("lib")).unwrap();
        fs::create_dir(&bin).unwrap();
        program(&bin.join("zqx"), 0o755);
        program(&bin.join("zqx-data"), 0o644);
        program(&bin.join("zqy"), 0o755);
        program(&place.join("lib/zqx.real"), 0o755);
        program(&place.join("lib/busybox"), 0o755);
        symlink("../lib/zqx.real", bin.join("zql")).unwrap();
        symlink("../lib/busybox", bin.join("zqapplet")).unwrap();
        symlink("nowhere", bin.join("zqgone")).unwrap();
        let look = |pattern: &str| {
            let patterns = [pattern.to_owned()];
            let found = find(&patterns, bin.as_os_str()).unwrap();
            let below = found.iter().filter_map(|path| path.strip_prefix(&place).ok());
            below.map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        let at = |path: &str| place.join(path).display().to_string();
        for (pattern, expected) in [
            ("zqx", &["bin/zqx"][..]),
            ("ZQX", &["bin/zqx"]),
            ("**/zqy", &["bin/zqy"]),
            ("zq?", &["bin/zqx", "bin/zqy", "lib/zqx.real"]),
            ("zqx*", &["bin/zqx", "lib/zqx.real"]),
            // A link, by its own name and by that of its file.
            ("zql", &["lib/zqx.real"]),
            ("zqx.real", &["lib/zqx.real"]),
            // One of several programs of a file: the others stay.
            ("zqapplet", &[]),
            ("zqgone", &[]),
            ("zq-none", &[]),
        ] {
            assert_eq!(look(pattern), expected, "{pattern}");
        }
        assert_eq!(look(&at("lib/zqx.real")), ["lib/zqx.real"]);
        assert_eq!(look(&at("lib/zq*")), ["lib/zqx.real"]);
        assert_eq!(look(&at("bin/zql")), ["lib/zqx.real"]);
        assert_eq!(names(&["zqx", "zqy"], &bin), ["zqx", "zqy"]);
    }

    #[test]
    fn too_many_are_an_error_and_not_a_selection() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..=MAX_PROGRAMS {
            program(&place.path().join(format!("zqmany{number}")), 0o755);
        }
        let look = |pattern: &str| find(&[pattern.to_owned()], place.path().as_os_str());
        assert!(matches!(look("zqmany*"), Err(Unmasked::TooMany { .. })));
        assert_eq!(look("zqmany1?").unwrap().len(), 10);
        assert!(matches!(look("a/b"), Err(Unmasked::Pattern { .. })));
    }

    #[test]
    fn a_pattern_of_the_system_is_found_without_a_path() {
        let found = find(&["sh".to_owned()], OsStr::new("")).unwrap();
        let real = Path::new("/bin/sh").canonicalize().unwrap();
        assert!(found.contains(&real), "{found:?}");
    }
}
