//! The system calls behind an access, with the rights of the process that makes them.

use std::{
    ffi::{OsStr, OsString},
    fs::Metadata,
    io,
    os::fd::OwnedFd,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{Dir, Mode, OFlags},
    io::Errno,
};

use countersign_domain::FileIdentity;
use countersign_policy::command::{DirectoryTrust, Listing, MAX_NAMES};

use super::opened::{Directory, OpenedPath, nanoseconds};

/// Links below `/proc` that lead each process somewhere else.
const PER_PROCESS: [&str; 2] = ["cwd", "fd"];
/// As many as Linux follows; a path with more leads nowhere.
const MAX_LINKS: usize = 40;

/// The first executable regular file of that name.
pub(super) fn search(directories: &[PathBuf], name: &str) -> Option<PathBuf> {
    directories
        .iter()
        .map(|directory| directory.join(name))
        .find(|file| std::fs::metadata(file).is_ok_and(|metadata| is_executable(&metadata)))
}

/// The real path of anything that exists, if it is text.
pub(super) fn real(path: &str) -> Option<String> {
    match open(Path::new(path)).ok()? {
        Found::Opened(opened) => Some(opened.real),
        Found::Named(real, _) => real.into_os_string().into_string().ok(),
    }
}

/// What identifies the executable file that a path leads to, links followed.
pub(super) fn inspect(path: &str) -> Option<FileIdentity> {
    match open(Path::new(path)).ok()? {
        Found::Opened(opened) => opened.identity(),
        Found::Named(real, _) => identity(real.to_str()?),
    }
}

/// What is in a directory, whose real path is that of the descriptor that is read. The names cannot be known where one is no text.
pub(super) fn list(directory: &str) -> Listing {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::empty()) {
        Ok(descriptor) => names_of(descriptor).unwrap_or(Listing::Unknown),
        Err(Errno::NOENT | Errno::NOTDIR) => Listing::NotThere,
        Err(_) => Listing::Unknown,
    }
}

fn names_of(descriptor: OwnedFd) -> Option<Listing> {
    let entries = Dir::read_from(&descriptor).ok()?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.ok()?;
        let name = entry.file_name().to_str().ok()?;
        if matches!(name, "." | "..") {
            continue;
        }
        if names.len() == MAX_NAMES {
            return None;
        }
        names.push(name.to_owned());
    }
    let real = OpenedPath::of(descriptor).ok()?.real;
    Some(Listing::Names { real, names })
}

/// A directory, as it is now.
pub(super) fn directory(path: &Path) -> io::Result<Directory> {
    let (path, dev, ino, is_directory) = match open(path)? {
        Found::Opened(OpenedPath { real, stat, .. }) => (real.into(), stat.dev, stat.ino, stat.is_directory),
        Found::Named(real, metadata) => (real, metadata.dev(), metadata.ino(), metadata.is_dir()),
    };
    if is_directory {
        Ok(Directory { path, dev, ino })
    } else {
        Err(Errno::NOTDIR.into())
    }
}

/// What a path led to.
enum Found {
    /// By a descriptor: two calls, no matter how long the path is.
    Opened(OpenedPath),
    /// By its name: there is no descriptor left, or it does not give a name that is not UTF-8, or that ends like that of a
    /// deleted file.
    Named(PathBuf, Metadata),
}

fn open(path: &Path) -> io::Result<Found> {
    match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(descriptor) => {
            if let Ok(opened) = OpenedPath::of(descriptor) {
                return Ok(Found::Opened(opened));
            }
        }
        // No descriptor is left, which says nothing about the path.
        Err(Errno::MFILE | Errno::NFILE) => {}
        Err(error) => return Err(error.into()),
    }
    let real = std::fs::canonicalize(path)?;
    let metadata = std::fs::symlink_metadata(&real)?;
    Ok(Found::Named(real, metadata))
}

/// What identifies the executable file at a real path at this moment; `None` when there is none, also when
/// `path` is a link by now.
pub(super) fn identity(path: &str) -> Option<FileIdentity> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if !is_executable(&metadata) {
        return None;
    }
    Some(FileIdentity {
        path: path.to_owned(),
        dev: metadata.dev(),
        ino: metadata.ino(),
        size: metadata.size(),
        mtime_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        ctime_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// Who may change what a directory holds.
pub(super) fn trust(directory: &str) -> DirectoryTrust {
    let is_trusted = std::fs::metadata(directory).is_ok_and(|metadata| {
        metadata.is_dir()
            && may_be_trusted(
                metadata.uid(),
                metadata.mode(),
                rustix::process::geteuid().as_raw(),
            )
    });
    if is_trusted {
        DirectoryTrust::Ours
    } else {
        DirectoryTrust::Foreign
    }
}

/// Whether nobody but root and `account` may write to what has this owner and mode (P3).
pub(super) const fn may_be_trusted(owner: u32, mode: u32, account: u32) -> bool {
    (owner == 0 || owner == account) && mode & 0o022 == 0
}

/// Whether a path leads another process to another place than us.
pub(super) fn depends_on_process(path: &Path) -> bool {
    let mut at = PathBuf::from("/");
    let mut ahead: Vec<OsString> = components_of(path);
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        at.push(&part);
        if at.starts_with("/proc") && PER_PROCESS.iter().any(|name| part == *name) {
            // `/dev/stdin` and its like are what the command was given.
            let is_standard = part == "fd" && matches!(&ahead[..], [last] if is_standard_stream(last));
            return !is_standard;
        }
        let Ok(target) = std::fs::read_link(&at) else {
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return false;
        }
        if target.is_absolute() {
            at = PathBuf::from("/");
        } else {
            at.pop();
        }
        ahead.extend(components_of(&target));
    }
    false
}

/// Makes a directory and those above it, for nobody else to enter.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn is_executable(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

fn is_standard_stream(name: &OsStr) -> bool {
    ["0", "1", "2"].iter().any(|standard| name == *standard)
}

/// The parts of a path, last one first, without what means nothing.
fn components_of(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::{ffi::OsStringExt as _, fs::symlink},
    };

    use super::*;

    /// What is found by a descriptor is what following the names finds, for names that a descriptor does not give too.
    #[test]
    fn a_path_leads_where_its_names_lead() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let raw = OsString::from_vec(b"not-utf8-\xff".to_vec());
        fs::create_dir_all(at("a/b")).unwrap();
        fs::create_dir(at("gone (deleted)")).unwrap();
        fs::create_dir(folder.path().join(&raw)).unwrap();
        symlink("a/b", at("link")).unwrap();
        symlink("link", at("link to link")).unwrap();
        symlink(&raw, at("link to raw")).unwrap();
        symlink("round", at("round")).unwrap();
        fs::copy("/bin/true", at("a/program")).unwrap();

        let names = [
            "a/b",
            "a/../a/./b",
            "link",
            "link to link",
            "gone (deleted)",
            "link to raw",
            "a/program",
            "round",
            "nothing",
        ];
        for name in names {
            let path = at(name);
            let followed = fs::canonicalize(&path).ok();
            let text = path.to_str().unwrap();
            let as_text = followed
                .clone()
                .and_then(|path| path.into_os_string().into_string().ok());
            assert_eq!(real(text), as_text, "{name}");
            let (place, metadata) = match (directory(&path), &followed) {
                (Ok(found), Some(followed)) => (found, fs::metadata(followed).unwrap()),
                (Err(error), Some(_)) => {
                    assert_eq!((name, error.kind()), ("a/program", io::ErrorKind::NotADirectory));
                    assert_eq!(inspect(text), identity(&as_text.unwrap()));
                    continue;
                }
                (found, None) => {
                    let there = fs::metadata(&path).unwrap_err();
                    assert_eq!(found.unwrap_err().raw_os_error(), there.raw_os_error(), "{name}");
                    continue;
                }
            };
            assert_eq!(Some(place.path), followed, "{name}");
            assert_eq!((place.dev, place.ino), (metadata.dev(), metadata.ino()), "{name}");
            assert_eq!(inspect(text), None, "{name} is no program");
        }
    }
}
