//! The directories whose libraries programs load, and what else lies in them.
//!
//! The kernel must let the loader of programs be executed, and that maps any file given to it. So nothing but libraries can be
//! mapped as a program: every other place is mounted without programs, and so is each program that lies among the libraries.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use super::elf::{Kind, kind_of};
use crate::sandbox::Unusable;

/// Where distributions have directories of libraries, beside `*-linux-gnu`.
const DIRECTORIES: [&str; 4] = ["/usr/lib32", "/usr/lib64", "/lib32", "/lib64"];
const PARENTS: [&str; 2] = ["/lib", "/usr/lib"];
/// More entries than a usual system has there, and more programs among them.
const MAX_ENTRIES: usize = 50_000;
const MAX_BARRED: usize = 512;
const MAX_DEPTH: usize = 16;

/// What is known of the libraries of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Libraries {
    /// Real paths of directories; none lies in another.
    pub(super) directories: Vec<PathBuf>,
    /// Programs in these, which can be neither executed nor mapped.
    pub(super) barred: Vec<PathBuf>,
}

/// Directories that were looked through, with their last change.
type Seen = Vec<(PathBuf, Option<SystemTime>)>;

static KNOWN: Mutex<Option<(Seen, Libraries)>> = Mutex::new(None);

/// Looks through them once, and again when one of them has changed.
pub(super) fn of_this_machine() -> Result<Libraries, Unusable> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((seen, libraries)) = &*known
        && seen
            .iter()
            .all(|(directory, changed)| change_of(directory) == *changed)
    {
        return Ok(libraries.clone());
    }
    *known = None;
    let found = look_through(directories());
    let (seen, libraries) = found.map_err(|why| Unusable(format!("the libraries of the system: {why}")))?;
    *known = Some((seen, libraries.clone()));
    Ok(libraries)
}

fn change_of(directory: &Path) -> Option<SystemTime> {
    fs::metadata(directory).ok()?.modified().ok()
}

fn directories() -> Vec<PathBuf> {
    let of_parent = |parent: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.contains("-linux-gnu") || name.contains("-linux-musl") {
                Some(entry.path())
            } else {
                name.starts_with("python3.")
                    .then(|| entry.path().join("lib-dynload"))
            }
        });
        found.collect()
    };
    let named = DIRECTORIES.iter().map(PathBuf::from);
    let mut real: Vec<PathBuf> = named
        .chain(PARENTS.iter().flat_map(|parent| of_parent(Path::new(parent))))
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.is_dir())
        .collect();
    real.sort();
    real.dedup();
    let all = real.clone();
    real.retain(|path| !all.iter().any(|other| other != path && path.starts_with(other)));
    real
}

fn look_through(directories: Vec<PathBuf>) -> Result<(Seen, Libraries), String> {
    let (mut seen, mut barred) = (Seen::new(), Vec::new());
    let mut waiting: Vec<(PathBuf, usize)> = directories.iter().map(|path| (path.clone(), 0)).collect();
    let mut entries = 0_usize;
    while let Some((directory, depth)) = waiting.pop() {
        seen.push((directory.clone(), change_of(&directory)));
        let found = match fs::read_dir(&directory) {
            Ok(found) => found,
            // What this account cannot list, it can still name.
            Err(error) => return Err(format!("{}: {error}", directory.display())),
        };
        for entry in found {
            let entry = entry.map_err(|error| error.to_string())?;
            entries += 1;
            if entries > MAX_ENTRIES || depth > MAX_DEPTH {
                return Err("there are too many files".to_owned());
            }
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            let path = entry.path();
            if kind.is_dir() {
                waiting.push((path, depth + 1));
            } else if kind.is_file()
                && !is_library(&path)
                && is_program(&path).map_err(|error| error.to_string())?
            {
                barred.push(path);
            }
        }
    }
    if barred.len() > MAX_BARRED {
        return Err("there are too many programs among them".to_owned());
    }
    barred.sort();
    Ok((seen, Libraries { directories, barred }))
}

/// By its name: what the loader is asked to load has `.so` in it. Some of them can be started, and say who they are.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".so") || name.contains(".so.")
}

fn is_program(path: &Path) -> io::Result<bool> {
    match File::open(path) {
        Ok(file) => Ok(matches!(kind_of(&file), Kind::Program(_))),
        // What cannot be read cannot be mapped either.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Libraries, look_through, of_this_machine};

    #[test]
    fn programs_among_libraries_are_found() {
        let place = tempfile::tempdir().unwrap();
        let sub = place.path().join("a/b");
        fs::create_dir_all(&sub).unwrap();
        let own = std::env::current_exe().unwrap();
        for name in ["helper", "libx.so", "libx.so.1"] {
            fs::copy(&own, sub.join(name)).unwrap();
        }
        fs::File::create(sub.join("text")).unwrap();
        let (_, found) = look_through(vec![place.path().to_owned()]).unwrap();
        let expected = Libraries {
            directories: vec![place.path().to_owned()],
            barred: vec![sub.join("helper")],
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn this_machine_has_some() {
        let found = of_this_machine().unwrap();
        assert!(!found.directories.is_empty());
        assert_eq!(of_this_machine().unwrap(), found);
    }
}
