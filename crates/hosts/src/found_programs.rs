//! Programs that were found by their names, remembered with everything that was looked at for them.
//!
//! A path is never believed: what is remembered is used again only while each directory of the PATH and each file is the
//! very same, unchanged. Where that cannot be known, a name is looked for anew. Should a file system hide a change, an older
//! program is named than is there, and starting the other one is refused.

use std::{
    collections::{HashMap, VecDeque},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use countersign_domain::UnixMillis;
use countersign_policy::command::Inspected;
use countersign_sys::fs::FileStamp;

use crate::shebang_cache::stamp_of;

/// Different PATHs that are remembered.
const MAX_PATHS: usize = 16;
/// Names that are remembered of one of them.
const MAX_NAMES: usize = 512;

/// Programs of names, by the PATH in which they were looked for.
#[derive(Debug, Default)]
pub struct FoundPrograms(Mutex<VecDeque<Known>>);

#[derive(Debug)]
struct Known {
    directories: Vec<PathBuf>,
    /// The directories as they were.
    stamps: Stamps,
    programs: HashMap<String, Found>,
}

/// Directories of a PATH at one moment; `None` for one that is not there.
type Stamps = Vec<Option<FileStamp>>;

/// A program where it was found, and its file.
pub(crate) type Program = (String, Inspected);

/// What there was of a name.
#[derive(Debug, Clone)]
enum Found {
    Program(Program),
    Nothing,
}

/// What is remembered, for one look at the machine.
#[derive(Debug)]
pub(crate) struct Remembered {
    found: Arc<FoundPrograms>,
    now: UnixMillis,
    /// The directories, looked at once. `None` where they changed so lately that another change could look the same.
    stamps: OnceLock<Option<Stamps>>,
}

impl Remembered {
    pub(crate) const fn new(found: Arc<FoundPrograms>, now: UnixMillis) -> Self {
        Self {
            found,
            now,
            stamps: OnceLock::new(),
        }
    }

    /// The program of this name in the directories; `look` looks for it.
    pub(crate) fn find(
        &self,
        directories: &[PathBuf],
        name: &str,
        look: impl FnOnce() -> Option<Program>,
    ) -> Option<Program> {
        let stamps = self.stamps.get_or_init(|| stamps_at(directories, self.now));
        let Some(stamps) = stamps else {
            return look();
        };
        match self.found.get(directories, stamps, name) {
            Some(Found::Program(program)) if is_still_there(&program) => return Some(program),
            Some(Found::Nothing) => return None,
            Some(Found::Program(_)) | None => {}
        }
        let found = look();
        if is_found_by_the_directories_alone(directories, name, found.as_ref(), self.now) {
            let found = found.clone().map_or(Found::Nothing, Found::Program);
            self.found.insert(directories, stamps, name, found);
        }
        found
    }
}

impl FoundPrograms {
    fn get(&self, directories: &[PathBuf], stamps: &Stamps, name: &str) -> Option<Found> {
        let all = self.lock();
        let known = all.iter().find(|known| known.is_of(directories, stamps))?;
        known.programs.get(name).cloned()
    }

    fn insert(&self, directories: &[PathBuf], stamps: &Stamps, name: &str, found: Found) {
        let mut all = self.lock();
        let at = all.iter().position(|known| known.directories == directories);
        let known = at.and_then(|at| all.remove(at));
        let mut known = known
            .filter(|known| known.stamps == *stamps && known.programs.len() < MAX_NAMES)
            .unwrap_or_else(|| Known {
                directories: directories.to_vec(),
                stamps: stamps.clone(),
                programs: HashMap::new(),
            });
        known.programs.insert(name.to_owned(), found);
        all.push_front(known);
        all.truncate(MAX_PATHS);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn is_of(&self, directories: &[PathBuf], stamps: &Stamps) -> bool {
        self.directories == directories && self.stamps == *stamps
    }
}

fn stamps_at(directories: &[PathBuf], now: UnixMillis) -> Option<Stamps> {
    let stamp = |directory: &PathBuf| match fs::metadata(directory) {
        Ok(metadata) => {
            let stamp = FileStamp::from_metadata(&metadata);
            stamp.is_stable(now.get()).then_some(Some(stamp))
        }
        Err(_unseen) => Some(None),
    };
    directories.iter().map(stamp).collect()
}

/// Whether the path still leads to the very same file, which still has its real path.
fn is_still_there((path, inspected): &Program) -> bool {
    let expected = stamp_of(&inspected.identity);
    let is_it = |found: std::io::Result<fs::Metadata>| {
        found.is_ok_and(|it| FileStamp::from_metadata(&it) == expected)
    };
    is_it(fs::metadata(path)) && (*path == inspected.real || is_it(fs::symlink_metadata(&inspected.real)))
}

/// Whether a change of what was found shows in a directory of the PATH or in the file. A file that may not be executed, or a
/// link that leads nowhere, becomes a program without a trace in its directory.
fn is_found_by_the_directories_alone(
    directories: &[PathBuf],
    name: &str,
    found: Option<&Program>,
    now: UnixMillis,
) -> bool {
    let is_stable = found.is_none_or(|(_path, inspected)| stamp_of(&inspected.identity).is_stable(now.get()));
    let at = found.map(|(path, _)| Path::new(path));
    let mut before = directories
        .iter()
        .map(|directory| directory.join(name))
        .take_while(|candidate| {
            at.is_none_or(|at| at.as_os_str().as_bytes() != candidate.as_os_str().as_bytes())
        });
    let is_absent = |candidate: PathBuf| {
        fs::symlink_metadata(candidate).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    is_stable && before.all(is_absent)
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        io::Write as _,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use countersign_policy::command::PathLookup as _;

    use super::*;
    use crate::{path_lookup::SystemLookup, peer_fs::Files};

    /// So late that nothing that was written before can look the same.
    const LATER: UnixMillis = UnixMillis::new(i64::MAX / 2_000_000);

    struct Stage {
        root: tempfile::TempDir,
        found: Arc<FoundPrograms>,
        path: Vec<PathBuf>,
    }

    impl Stage {
        /// `tool` is in the second directory, and by a link over another one `linked`.
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let place = root.path().canonicalize().unwrap();
            for directory in ["a", "b", "chain", "real"] {
                fs::create_dir(place.join(directory)).unwrap();
            }
            let stage = Self {
                path: ["a", "b", "absent"].map(|name| place.join(name)).to_vec(),
                root,
                found: Arc::default(),
            };
            stage.program("b/tool");
            stage.program("real/one");
            stage.program("real/two");
            symlink("../real/one", stage.at("chain/linked")).unwrap();
            symlink("../chain/linked", stage.at("b/linked")).unwrap();
            stage
        }

        fn at(&self, name: &str) -> PathBuf {
            self.root.path().canonicalize().unwrap().join(name)
        }

        fn program(&self, name: &str) {
            drop(fs::File::create(self.at(name)).unwrap());
            self.mode(name, 0o755);
        }

        fn mode(&self, name: &str, mode: u32) {
            fs::set_permissions(self.at(name), fs::Permissions::from_mode(mode)).unwrap();
        }

        /// What is found of a name at this time, and whether it was looked for.
        #[track_caller]
        fn find(&self, name: &str, now: UnixMillis) -> bool {
            let lookup = SystemLookup::new(self.path.clone(), String::new(), &Files::Direct);
            let looked = Cell::new(false);
            let found = Remembered::new(Arc::clone(&self.found), now).find(&self.path, name, || {
                looked.set(true);
                lookup.find(name)
            });
            assert_eq!(found, lookup.find(name), "{name}");
            looked.get()
        }
    }

    #[test]
    fn a_name_is_looked_for_once() {
        let stage = Stage::new();
        for name in ["tool", "linked", "none"] {
            assert!(stage.find(name, LATER), "{name}");
            assert!(!stage.find(name, LATER), "{name}");
        }
        // Directories and files that are so new that a change could look the same are not believed.
        let stage = Stage::new();
        let now = UnixMillis::new(0);
        assert!(stage.find("tool", now) && stage.find("tool", now));
    }

    #[test]
    fn every_change_is_seen() {
        type Change = fn(&Stage);
        let changes: &[(&str, &str, Change)] = &[
            ("tool", "another one before it", |stage| stage.program("a/tool")),
            ("tool", "it is gone", |stage| {
                fs::remove_file(stage.at("b/tool")).unwrap();
            }),
            ("tool", "another one in its place", |stage| {
                stage.program("b/new");
                fs::rename(stage.at("b/new"), stage.at("b/tool")).unwrap();
            }),
            ("tool", "other content", |stage| {
                fs::File::create(stage.at("b/tool"))
                    .unwrap()
                    .write_all(b"x")
                    .unwrap();
            }),
            ("tool", "no program any more", |stage| stage.mode("b/tool", 0o644)),
            ("tool", "another directory in place of its own", |stage| {
                fs::rename(stage.at("b"), stage.at("old")).unwrap();
                fs::create_dir(stage.at("b")).unwrap();
                stage.program("b/tool");
            }),
            ("linked", "its link leads elsewhere", |stage| {
                fs::remove_file(stage.at("b/linked")).unwrap();
                symlink("../real/two", stage.at("b/linked")).unwrap();
            }),
            ("linked", "a link behind it leads elsewhere", |stage| {
                fs::remove_file(stage.at("chain/linked")).unwrap();
                symlink("../real/two", stage.at("chain/linked")).unwrap();
            }),
            ("linked", "its file has another name", |stage| {
                fs::rename(stage.at("real/one"), stage.at("real/three")).unwrap();
                fs::remove_file(stage.at("chain/linked")).unwrap();
                symlink("../real/three", stage.at("chain/linked")).unwrap();
            }),
            ("linked", "the directory of its file has another name", |stage| {
                fs::rename(stage.at("real"), stage.at("moved")).unwrap();
                fs::remove_file(stage.at("chain/linked")).unwrap();
                symlink("../moved/one", stage.at("chain/linked")).unwrap();
            }),
            ("none", "there is one", |stage| stage.program("b/none")),
            ("none", "there is one in a new directory", |stage| {
                fs::create_dir(stage.at("absent")).unwrap();
                stage.program("absent/none");
            }),
        ];
        for (name, what, change) in changes {
            let stage = Stage::new();
            stage.find(name, LATER);
            assert!(!stage.find(name, LATER), "{what}");
            change(&stage);
            assert!(stage.find(name, LATER), "{what}");
        }
    }

    #[test]
    fn what_leaves_no_trace_is_looked_for_each_time() {
        let stage = Stage::new();
        stage.program("a/tool");
        stage.mode("a/tool", 0o644);
        symlink("../nowhere", stage.at("a/none")).unwrap();
        for name in ["tool", "none"] {
            assert!(stage.find(name, LATER) && stage.find(name, LATER), "{name}");
        }
        stage.mode("a/tool", 0o755);
        stage.program("nowhere");
        for name in ["tool", "none"] {
            stage.find(name, LATER);
        }
    }

    #[test]
    fn no_more_is_remembered_than_has_its_place() {
        let stage = Stage::new();
        for at in 0..=MAX_NAMES {
            stage.find(&format!("none{at}"), LATER);
        }
        for at in 0..=MAX_PATHS {
            let path = vec![stage.at(&format!("path{at}"))];
            Remembered::new(Arc::clone(&stage.found), LATER).find(&path, "none", || None);
        }
        let all = stage.found.lock();
        assert_eq!(all.len(), MAX_PATHS);
        assert!(all.iter().all(|known| known.programs.len() <= MAX_NAMES));
    }
}
