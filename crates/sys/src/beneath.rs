//! Files found from a directory on, without leaving it, and changed without a moment in which they are half of anything.
//!
//! A [`ResolvedPath`] is an open directory and a name in it. Its path may mean something else a moment later: what is done
//! there is done there, and never through a link of that name.

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::{Path, PathBuf},
    rc::Rc,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat},
    io::Errno,
};

/// As many links in a row as Linux follows.
const MAX_LINKS: usize = 40;
/// Bits of a mode by which a file is a program, or more than that.
const CAN_BE_EXECUTED: u32 = 0o7111;
/// A look-up that a rename elsewhere disturbed is tried again so often.
const ATTEMPTS: usize = 16;

/// How far a look-up may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupScope {
    /// Not out of the directory, by no link.
    Beneath,
    /// Where links, `..` and absolute paths lead.
    Anywhere,
}

/// What becomes of a link that a path ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// The path names the file that the link leads to.
    Followed,
    /// The link itself is the file that the path names.
    Meant,
}

/// Why a path was not resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The path leads out of the directory.
    #[error("the path leads out of the directory")]
    Outside,
    /// What should be a directory is something else.
    #[error("a part of the path is not a directory")]
    NotADirectory,
    /// A link at the end of the path leads to no file.
    #[error("the link leads to no file")]
    Dangling,
    /// Something else is in the way.
    #[error("the path cannot be followed")]
    System(#[source] Errno),
}

/// A directory from which files are found.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    scope: LookupScope,
}

/// Where a file is or would be.
#[derive(Debug, Clone)]
pub struct ResolvedPath {
    /// The deepest directory of its path that is there.
    pub directory: Rc<OwnedFd>,
    /// Device and inode of that directory.
    pub identity: (u64, u64),
    /// Directories that are to be made in it.
    pub missing: Vec<OsString>,
    /// The file's name in the last of them.
    pub name: OsString,
}

/// What a directory says of one of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What kind of file it is.
    pub kind: FileType,
    /// Device of its file system; with `ino` it tells one file from all others.
    pub dev: u64,
    /// Inode of the file.
    pub ino: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Permission bits (`0o7777`), without the kind.
    pub mode: u32,
    /// Ids of user and group.
    pub owner: (u32, u32),
}

impl Root {
    /// The directory that a path leads to from the working directory.
    ///
    /// # Errors
    /// What opening it says.
    pub fn open(path: &Path, scope: LookupScope) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            directory: rustix::fs::open(path, flags, Mode::empty())?,
            scope,
        })
    }

    /// A directory in it, which is left as little.
    ///
    /// # Errors
    /// [`NotFound`]
    pub fn below(&self, path: &Path) -> Result<Self, NotFound> {
        Ok(Self {
            directory: self.directory(path)?,
            scope: self.scope,
        })
    }

    /// Opens a regular file to read it. It opens nothing else that is there, and waits for nothing.
    ///
    /// # Errors
    /// [`NotFound`]
    pub fn open_regular(&self, path: &Path) -> Result<File, NotFound> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let resolved = self.find(path, LastLink::Followed)?;
        if !resolved.missing.is_empty() {
            return Err(NotFound::System(Errno::NOENT));
        }
        // A device may do something when it is opened.
        match entry(&*resolved.directory, &resolved.name) {
            Ok(Some(found)) if found.kind == FileType::RegularFile => {}
            Ok(Some(_)) => return Err(NotFound::System(Errno::INVAL)),
            Ok(None) => return Err(NotFound::System(Errno::NOENT)),
            Err(errno) => return Err(NotFound::System(errno)),
        }
        let name = Path::new(&resolved.name);
        let file = rustix::fs::openat(
            &*resolved.directory,
            name,
            flags | OFlags::NOFOLLOW,
            Mode::empty(),
        )
        .map_err(NotFound::System)?;
        let stat = rustix::fs::fstat(&file).map_err(NotFound::System)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            Ok(file.into())
        } else {
            Err(NotFound::System(Errno::INVAL))
        }
    }

    /// Resolves the path of a file. `path` has a last part that is a name; an absolute one is found only where paths may lead
    /// anywhere.
    ///
    /// # Errors
    /// [`NotFound`]
    pub fn find(&self, path: &Path, last: LastLink) -> Result<ResolvedPath, NotFound> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let resolved = self.resolve(&path)?;
            if last == LastLink::Meant || !resolved.missing.is_empty() {
                return Ok(resolved);
            }
            match entry(&*resolved.directory, &resolved.name) {
                Ok(Some(found)) if found.kind == FileType::Symlink => {}
                Ok(_) => return Ok(resolved),
                Err(errno) => return Err(NotFound::System(errno)),
            }
            let link = rustix::fs::readlinkat(&*resolved.directory, &resolved.name, Vec::new())
                .map_err(NotFound::System)?;
            let target = PathBuf::from(OsString::from_vec(link.into_bytes()));
            // Joined as it stands: what `..` behind a link means is for the kernel to say.
            path = path.parent().unwrap_or_else(|| Path::new("")).join(target);
        }
        Err(NotFound::System(Errno::LOOP))
    }

    fn resolve(&self, path: &Path) -> Result<ResolvedPath, NotFound> {
        if path.is_absolute() && self.scope == LookupScope::Beneath {
            return Err(NotFound::Outside);
        }
        let bytes = path.as_os_str().as_bytes();
        let (above, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (
                bytes.get(..=at).unwrap_or_default(),
                bytes.get(at + 1..).unwrap_or_default(),
            ),
            None => (b".".as_slice(), bytes),
        };
        if matches!(name, b"" | b"." | b"..") {
            return Err(NotFound::Dangling);
        }
        let mut above = Path::new(OsStr::from_bytes(above)).to_owned();
        let mut missing = Vec::new();
        let directory = loop {
            match self.directory(&above) {
                Err(NotFound::System(Errno::NOENT)) => {}
                found => break found?,
            }
            // One that is not there cannot be gone up from.
            let Some(part) = above.file_name().map(OsStr::to_owned) else {
                return Err(NotFound::System(Errno::NOENT));
            };
            missing.insert(0, part);
            above = match above.parent() {
                Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
                Some(parent) => parent.to_owned(),
                None => return Err(NotFound::System(Errno::NOENT)),
            };
        };
        let stat = rustix::fs::fstat(&directory).map_err(NotFound::System)?;
        Ok(ResolvedPath {
            directory: Rc::new(directory),
            identity: (stat.st_dev, stat.st_ino),
            missing,
            name: OsStr::from_bytes(name).to_owned(),
        })
    }

    fn directory(&self, path: &Path) -> Result<OwnedFd, NotFound> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let beneath = match self.scope {
            LookupScope::Beneath => ResolveFlags::BENEATH,
            LookupScope::Anywhere => ResolveFlags::empty(),
        };
        let resolve = beneath | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..ATTEMPTS {
            match rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), resolve) {
                Ok(directory) => return Ok(directory),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::XDEV) => return Err(NotFound::Outside),
                Err(Errno::NOTDIR) => return Err(NotFound::NotADirectory),
                Err(errno) => return Err(NotFound::System(errno)),
            }
        }
        Err(NotFound::System(Errno::AGAIN))
    }
}

impl ResolvedPath {
    /// Its path as this process sees it.
    ///
    /// # Errors
    /// When `/proc` does not say.
    pub fn real_path(&self) -> Result<PathBuf, Errno> {
        let link = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        let path = rustix::fs::readlinkat(CWD, link, Vec::new())?;
        let mut path = PathBuf::from(OsString::from_vec(path.into_bytes()));
        path.extend(&self.missing);
        path.push(&self.name);
        Ok(path)
    }
}

/// Opens a regular file below a directory to read it, by way of no link and no mount. What has another name as well, or is
/// anything else, is not opened.
///
/// # Errors
/// What the kernel answers; `PERM` for a file of several names, `INVAL` for what is no regular file.
pub fn open_to_read(directory: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    open_single(directory.as_fd(), path, OFlags::RDONLY)
}

/// Opens a regular file below a directory in the same way, to write behind what it holds; it is made where it is not there.
/// One that could be executed is not opened.
///
/// # Errors
/// As [`open_to_read`]; `ACCESS` for a program.
pub fn open_to_append(directory: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    open_or_make(directory.as_fd(), path, OFlags::WRONLY | OFlags::APPEND)
}

/// The same to write in place of what the file holds, which is gone from then on. It is looked at before that.
///
/// # Errors
/// As [`open_to_append`].
pub fn open_to_replace(directory: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    let file = open_or_make(directory.as_fd(), path, OFlags::WRONLY)?;
    rustix::fs::ftruncate(&file, 0)?;
    Ok(file)
}

/// Opens a regular file below a directory in the same way to read it, if it belongs to the account of this process.
///
/// # Errors
/// As [`open_to_read`]; `PERM` for a file of another account.
pub fn open_own_to_read(directory: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    let file = open_single(directory.as_fd(), path, OFlags::RDONLY)?;
    if rustix::fs::fstat(&file)?.st_uid == rustix::process::geteuid().as_raw() {
        Ok(file)
    } else {
        Err(Errno::PERM)
    }
}

/// A file that was made. As long as it is held, no other one gets its device and inode; it is neither read nor written by that.
#[derive(Debug)]
pub struct MadeFile(OwnedFd);

/// Makes a regular file below a directory, by way of no link and no mount, to write it.
///
/// # Errors
/// What the kernel answers; `EXIST` where anything has that name.
pub fn make(directory: impl AsFd, path: &str) -> Result<(OwnedFd, MadeFile), Errno> {
    let directory = directory.as_fd();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = open_without_links(directory, path, flags, Mode::from_raw_mode(0o666))?;
    let made = MadeFile(open_without_links(directory, path, OFlags::PATH, Mode::empty())?);
    if made.is(&rustix::fs::fstat(&file)?)? {
        Ok((file, made))
    } else {
        Err(Errno::EXIST)
    }
}

impl MadeFile {
    fn is(&self, stat: &Stat) -> Result<bool, Errno> {
        let made = rustix::fs::fstat(&self.0)?;
        Ok((made.st_dev, made.st_ino) == (stat.st_dev, stat.st_ino))
    }
}

/// Opens a file that was made to write it again: behind what it holds, or in place of that.
///
/// # Errors
/// As [`open_to_append`]; `EXIST` where another file has its name by now.
pub fn open_made(directory: impl AsFd, path: &str, made: &MadeFile, appends: bool) -> Result<OwnedFd, Errno> {
    let append = if appends { OFlags::APPEND } else { OFlags::empty() };
    let file = open_single(directory.as_fd(), path, OFlags::WRONLY | append)?;
    let stat = rustix::fs::fstat(&file)?;
    if !made.is(&stat)? {
        return Err(Errno::EXIST);
    }
    if stat.st_mode & CAN_BE_EXECUTED != 0 {
        return Err(Errno::ACCESS);
    }
    if !appends {
        rustix::fs::ftruncate(&file, 0)?;
    }
    Ok(file)
}

fn open_or_make(directory: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    for _ in 0..ATTEMPTS {
        let new = open_without_links(
            directory,
            path,
            flags | OFlags::CREATE | OFlags::EXCL,
            Mode::from_raw_mode(0o666),
        );
        match new {
            Err(Errno::EXIST) => {}
            made => return made,
        }
        match open_single(directory, path, flags) {
            // It went meanwhile.
            Err(Errno::NOENT) => {}
            Ok(file) => {
                let mode = rustix::fs::fstat(&file)?.st_mode;
                return if mode & CAN_BE_EXECUTED == 0 {
                    Ok(file)
                } else {
                    Err(Errno::ACCESS)
                };
            }
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::AGAIN)
}

/// Opens a regular file with one name. It waits for nothing: neither for the other end of a pipe nor for a device.
fn open_single(directory: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    // A device may do something when it is opened.
    let named = open_without_links(directory, path, OFlags::PATH, Mode::empty())?;
    expect_single(&named)?;
    let opening = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open_without_links(directory, path, opening, Mode::empty())?;
    expect_single(&file)?;
    rustix::fs::fcntl_setfl(&file, flags & OFlags::APPEND)?;
    Ok(file)
}

fn expect_single(file: &OwnedFd) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_nlink == 1 => Ok(()),
        FileType::RegularFile if stat.st_nlink == 0 => Err(Errno::NOENT),
        FileType::RegularFile => Err(Errno::PERM),
        FileType::Directory => Err(Errno::ISDIR),
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Err(Errno::INVAL),
    }
}

fn open_without_links(
    directory: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    for _ in 0..ATTEMPTS {
        match rustix::fs::openat2(directory, path, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// What a directory says of a name; `None` when it has none of that name.
///
/// # Errors
/// What the kernel answers.
pub fn entry(directory: impl AsFd, name: &OsStr) -> Result<Option<Entry>, Errno> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Entry::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

impl Entry {
    fn of(stat: &Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            dev: stat.st_dev,
            ino: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ns: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
            mode: stat.st_mode & 0o7777,
            owner: (stat.st_uid, stat.st_gid),
        }
    }

    /// The same for an open file.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn of_open(file: impl AsFd) -> Result<Self, Errno> {
        Ok(Self::of(&rustix::fs::fstat(file)?))
    }

    /// Whether it is the same file with the same content. A rename changes nothing of that.
    pub fn is_same_content(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.size, self.mtime_ns, self.kind)
            == (other.dev, other.ino, other.size, other.mtime_ns, other.kind)
    }
}

/// How names are exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renames {
    /// In one step of the kernel.
    AtOnce,
    /// By hard links, where the file system knows no better: still never a moment without the one or the other.
    ByLinks,
}

impl Renames {
    /// Gives a file another name that nothing has yet, in this or another directory of the file system.
    ///
    /// # Errors
    /// `EXIST` when something has that name.
    pub fn move_new(self, from: (impl AsFd, &OsStr), to: (impl AsFd, &OsStr)) -> Result<(), Errno> {
        let ((from_directory, from), (to_directory, to)) = (from, to);
        if self == Self::AtOnce {
            let moved =
                rustix::fs::renameat_with(&from_directory, from, &to_directory, to, RenameFlags::NOREPLACE);
            if moved != Err(Errno::INVAL) {
                return moved;
            }
        }
        rustix::fs::linkat(&from_directory, from, &to_directory, to, AtFlags::empty())?;
        rustix::fs::unlinkat(&from_directory, from, AtFlags::empty())
    }

    /// Exchanges two files of a directory. `spare` is a name that nothing has.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn exchange(
        self,
        directory: impl AsFd,
        one: &OsStr,
        other: &OsStr,
        spare: &OsStr,
    ) -> Result<(), Errno> {
        if self == Self::AtOnce {
            let exchanged =
                rustix::fs::renameat_with(&directory, one, &directory, other, RenameFlags::EXCHANGE);
            if exchanged != Err(Errno::INVAL) {
                return exchanged;
            }
        }
        rustix::fs::linkat(&directory, other, &directory, spare, AtFlags::empty())?;
        rustix::fs::renameat(&directory, one, &directory, other)?;
        rustix::fs::renameat(&directory, spare, &directory, one)
    }
}

/// Opens a directory so that its names can be listed.
///
/// # Errors
/// What the kernel answers.
pub fn list(directory: impl AsFd) -> Result<rustix::fs::Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    rustix::fs::Dir::new(opened)
}

/// The name as the kernel's calls take it, for one that comes from a listing.
pub fn name_of(name: &std::ffi::CStr) -> OsString {
    OsString::from_vec(CString::from(name).into_bytes())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{Read as _, Write as _},
        os::unix::fs::symlink,
    };

    use super::*;

    fn tree() -> tempfile::TempDir {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        File::create(root.join("a/file")).unwrap();
        File::create(outside.path().join("secret")).unwrap();
        for (link, target) in [
            ("inside", "a"),
            ("up", ".."),
            ("a/b/back", "../../a"),
            ("a/b/link", "../file"),
            ("leaves", "../secret"),
            ("a/again", "again"),
            ("nowhere", "nothing"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        symlink(root.join("a"), root.join("absolute")).unwrap();
        outside
    }

    #[test]
    fn paths_stay_beneath_or_are_refused() {
        let outside = tree();
        let root = Root::open(&outside.path().join("root"), LookupScope::Beneath).unwrap();
        let real = outside.path().canonicalize().unwrap().join("root");
        let find = |path: &str, last| {
            root.find(Path::new(path), last)
                .map(|resolved| {
                    resolved
                        .real_path()
                        .unwrap()
                        .strip_prefix(&real)
                        .unwrap()
                        .to_owned()
                })
                .map(|path| path.to_str().unwrap().to_owned())
        };
        for (path, found) in [
            ("a/file", "a/file"),
            ("inside/file", "a/file"),
            ("a/b/back/b/back/file", "a/file"),
            ("a/b/link", "a/file"),
            ("nowhere", "nothing"),
            ("new/deep/file", "new/deep/file"),
        ] {
            assert_eq!(find(path, LastLink::Followed), Ok(found.to_owned()), "{path}");
        }
        assert_eq!(find("leaves", LastLink::Meant), Ok("leaves".to_owned()));
        for path in ["leaves", "up/secret", "/etc/passwd", "absolute/file", "../secret"] {
            assert_eq!(find(path, LastLink::Followed), Err(NotFound::Outside), "{path}");
        }
        assert_eq!(find("a/file/x", LastLink::Followed), Err(NotFound::NotADirectory));
        for circle in ["a/again", "a/again/x"] {
            assert_eq!(
                find(circle, LastLink::Followed),
                Err(NotFound::System(Errno::LOOP)),
                "{circle}"
            );
        }
        // The deepest directory that is there, no matter what the rest would be.
        let resolved = root.find(Path::new("a/x/y/z"), LastLink::Meant).unwrap();
        assert_eq!(resolved.missing, ["x", "y"]);
    }

    #[test]
    fn only_files_are_opened_and_only_beneath() {
        use std::io::{Read as _, Write as _};
        let outside = tree();
        let path = outside.path().join("root");
        let mut file = File::create(path.join("a/file")).unwrap();
        file.write_all(b"content").unwrap();
        rustix::fs::mknodat(CWD, path.join("a/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let root = Root::open(&path, LookupScope::Beneath).unwrap();
        for (directory, name) in [("a", "file"), ("a/b", "back/file"), (".", "inside/file")] {
            let found = root
                .below(Path::new(directory))
                .map(|below| below.open_regular(Path::new(name)));
            // From a directory on, what lies beside it is outside.
            if directory == "a/b" {
                assert!(matches!(found, Ok(Err(NotFound::Outside))), "{found:?}");
                continue;
            }
            let mut text = String::new();
            found.unwrap().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "content");
        }
        let refused = |path: &str| root.open_regular(Path::new(path)).unwrap_err();
        assert_eq!(refused("leaves"), NotFound::Outside);
        // Nobody writes to it, so opening it would wait.
        assert_eq!(refused("a/pipe"), NotFound::System(Errno::INVAL));
        assert_eq!(refused("a/b"), NotFound::System(Errno::INVAL));
        assert_eq!(refused("a/none"), NotFound::System(Errno::NOENT));
        assert_eq!(refused("new/deep"), NotFound::System(Errno::NOENT));
        assert!(root.below(Path::new("up")).is_err());
    }

    #[test]
    fn where_paths_may_lead_anywhere_they_do_but_not_by_way_of_a_process() {
        let outside = tree();
        let root = Root::open(&outside.path().join("root"), LookupScope::Anywhere).unwrap();
        for path in ["leaves", "up/secret", "absolute/file"] {
            assert!(root.find(Path::new(path), LastLink::Followed).is_ok(), "{path}");
        }
        let secret = outside.path().join("secret");
        assert!(root.find(&secret, LastLink::Meant).is_ok());
        assert!(matches!(
            root.find(Path::new("/proc/self/cwd/file"), LastLink::Meant),
            Err(NotFound::System(Errno::LOOP))
        ));
    }

    #[test]
    fn both_ways_of_exchanging_do_the_same() {
        for renames in [Renames::AtOnce, Renames::ByLinks] {
            let resolved = tempfile::tempdir().unwrap();
            let at = |name: &str| resolved.path().join(name);
            for name in ["one", "other"] {
                crate::fs::create_passing_file(&at(name), name.as_bytes()).unwrap();
            }
            let directory = File::open(resolved.path()).unwrap();
            let name = OsStr::new;
            renames
                .exchange(&directory, name("one"), name("other"), name("spare"))
                .unwrap();
            assert_eq!(fs::read_to_string(at("one")).unwrap(), "other");
            assert_eq!(fs::read_to_string(at("other")).unwrap(), "one");
            let to = |to: &'static str| renames.move_new((&directory, name("one")), (&directory, name(to)));
            assert_eq!(to("other"), Err(Errno::EXIST));
            assert_eq!(to("third"), Ok(()));
            let mut names: Vec<_> = fs::read_dir(resolved.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            assert_eq!(names, ["other", "third"]);
        }
    }

    fn opened() -> (tempfile::TempDir, OwnedFd) {
        let outside = tree();
        let root = outside.path().join("root");
        let linked = outside.path().join("linked");
        for path in [&root.join("a/file"), &root.join("a/program"), &linked] {
            File::create(path).unwrap().write_all(b"old").unwrap();
        }
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        fs::set_permissions(root.join("a/program"), mode).unwrap();
        fs::hard_link(linked, root.join("a/linked")).unwrap();
        rustix::fs::mknodat(CWD, root.join("a/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let directory = File::open(&root).unwrap();
        (outside, directory.into())
    }

    #[test]
    fn only_plain_files_of_one_name_are_opened() {
        let (outside, directory) = opened();
        let at = |path: &str| outside.path().join("root").join(path);
        let mut read = String::new();
        File::from(open_to_read(&directory, "a/file").unwrap())
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, "old");
        let appended = open_to_append(&directory, "a/file").unwrap();
        File::from(appended).write_all(b" new").unwrap();
        assert_eq!(fs::read_to_string(at("a/file")).unwrap(), "old new");
        let replaced = open_to_replace(&directory, "a/file").unwrap();
        assert_eq!(fs::read_to_string(at("a/file")).unwrap(), "");
        File::from(replaced).write_all(b"x").unwrap();
        for (path, made) in [("a/made", true), ("inside/made", false), ("none/made", false)] {
            assert_eq!(open_to_append(&directory, path).is_ok(), made, "{path}");
            assert_eq!(open_to_read(&directory, path).is_ok(), made, "{path}");
        }
        for (path, errno) in [
            ("a/b/link", Errno::LOOP),
            ("inside/file", Errno::LOOP),
            ("nowhere", Errno::LOOP),
            ("leaves", Errno::LOOP),
            ("../secret", Errno::XDEV),
            ("/etc/passwd", Errno::XDEV),
            ("a/linked", Errno::PERM),
            ("a/pipe", Errno::INVAL),
            ("a/b", Errno::ISDIR),
            ("a/file/x", Errno::NOTDIR),
        ] {
            assert_eq!(open_to_read(&directory, path).unwrap_err(), errno, "{path}");
            assert_eq!(open_to_append(&directory, path).unwrap_err(), errno, "{path}");
            assert_eq!(open_to_replace(&directory, path).unwrap_err(), errno, "{path}");
        }
        assert!(open_to_read(&directory, "a/program").is_ok());
        assert_eq!(
            open_to_append(&directory, "a/program").unwrap_err(),
            Errno::ACCESS
        );
        assert_eq!(
            open_to_replace(&directory, "a/program").unwrap_err(),
            Errno::ACCESS
        );
        for path in ["a/linked", "a/program"] {
            assert_eq!(fs::read_to_string(at(path)).unwrap(), "old", "{path}");
        }
        assert!(!at("nothing").exists());
    }
}
