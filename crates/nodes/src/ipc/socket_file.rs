//! Where the socket lies, and that it lies there by right (`docs/spec/ipc.md#2-path-directory-modes`).
//!
//! The process that hosts it holds `<path>.lifecycle.lock`. Only the holder of that lock may remove a leftover, and
//! only a socket of ours at which nobody answers. A directory that another user may write, or that hangs below one, is
//! no place for it: it is refused and never changed.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            ffi::OsStrExt as _,
            fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};

use countersign_domain::UnixMillis;
use countersign_sys::{
    clock::Clock,
    fs::{PrivateDirError, ensure_private_dir, is_ours, writable_by_others},
};

/// The longest path that a socket address of Linux holds, its NUL left out.
const MAX_PATH_BYTES: usize = 107;
/// How many connections wait in the kernel until they are accepted. The kernel refuses a client beyond them, which then
/// concludes that nobody is at home. At least a burst of the rate limit must find room.
const BACKLOG: i32 = 1024;

/// Why the socket is not hosted or not used.
#[derive(Debug, thiserror::Error)]
pub enum SocketFileError {
    /// It does not fit into an address.
    #[error(
        "the path of the approvals socket has {0} bytes, and no more than {MAX_PATH_BYTES} fit into a socket address"
    )]
    TooLong(usize),
    /// It is not absolute.
    #[error("the path of the approvals socket is not absolute")]
    Relative,
    /// Its directory is not ours alone.
    #[error("the directory of the approvals socket is not ours alone")]
    Directory(#[source] PrivateDirError),
    /// Its directory belongs to another user, or another user could exchange what is in it.
    #[error("{}, where the approvals socket lies, belongs to another account or may be changed by one", .0.display())]
    Exposed(PathBuf),
    /// Another user could exchange a directory above it.
    #[error("{} above the approvals socket may be changed by another account", .0.display())]
    Ancestor(PathBuf),
    /// Something that is no socket of ours is in the way.
    #[error("{} is in the way: it is not a socket of this account", .0.display())]
    InTheWay(PathBuf),
    /// The lock file is not one of ours.
    #[error("{} is not a lock file of this account alone", .0.display())]
    ForeignLock(PathBuf),
    /// Another process hosts it.
    #[error("another program hosts the approvals socket")]
    Hosted,
    /// There is no socket.
    #[error("nobody hosts the approvals socket")]
    Missing,
    /// The system refused to open, make or look at something.
    #[error("{} cannot be used", path.display())]
    Io {
        /// The socket, its lock file, or a directory above them.
        path: PathBuf,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
}

impl SocketFileError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// Where the socket is: as the document names it, with `~` expanded, else beside the document.
pub fn socket_path(named: Option<&str>, document: &Path, home: Option<&Path>) -> PathBuf {
    match (named.map(str::trim).filter(|named| !named.is_empty()), home) {
        (Some("~"), Some(home)) => home.to_owned(),
        (Some(named), home) => match (named.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_) | None, _) => PathBuf::from(named),
        },
        (None, _) => document.with_file_name("exec-approvals.sock"),
    }
}

/// A socket that is ours to host. Dropping it removes it, if it is still the one that was bound.
#[derive(Debug)]
#[must_use]
pub struct Hosted {
    path: PathBuf,
    bound: (u64, u64),
    since: UnixMillis,
    /// Held until the socket is gone.
    _lock: File,
}

impl Hosted {
    /// Takes the lock and listens.
    ///
    /// # Errors
    /// [`SocketFileError::Hosted`] when another process does; else what stands against the place.
    pub fn bind(path: &Path, clock: &dyn Clock) -> Result<(Self, OwnedFd), SocketFileError> {
        let address = address_of(path)?;
        let directory = path.parent().ok_or(SocketFileError::Relative)?;
        ensure_private_dir(directory).map_err(SocketFileError::Directory)?;
        expect_safe_ancestors(directory)?;
        let lock = take_lock(&lock_path(path))?;
        // The earlier host answers no more, and this one answers nobody yet.
        let since = clock.wall();
        clear_the_way(path, &address)?;
        let failed = SocketFileError::io(path);
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .map_err(|error| failed(error.into()))?;
        // The file takes its mode from the socket, so there is no moment in which it is open to others, and the umask of
        // the process, which other threads rely on, stays as it is.
        let private = Mode::RUSR | Mode::WUSR;
        rustix::fs::fchmod(&socket, private).map_err(|error| failed(error.into()))?;
        rustix::net::bind(&socket, &address).map_err(|error| failed(error.into()))?;
        let metadata = fs::symlink_metadata(path).map_err(&failed)?;
        let hosted = Self {
            path: path.to_owned(),
            bound: (metadata.dev(), metadata.ino()),
            since,
            _lock: lock,
        };
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(&failed)?;
        rustix::net::listen(&socket, BACKLOG).map_err(|error| failed(error.into()))?;
        Ok((hosted, socket))
    }

    /// The path as given to [`Hosted::bind`]; links in it are not resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it still lies where it was made. Nobody finds it otherwise.
    pub fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.bound)
    }

    /// Since when nobody else hosts it.
    pub const fn since(&self) -> UnixMillis {
        self.since
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        if self.is_in_place()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "the approvals socket could not be removed");
        }
    }
}

/// Looks at a socket that another process hosts, before anything is sent there: it is ours, and only we can have put it
/// there. Gives its device and inode.
///
/// # Errors
/// [`SocketFileError`] says why nothing may be sent.
pub(super) fn inspect(path: &Path) -> Result<(u64, u64), SocketFileError> {
    address_of(path)?;
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(SocketFileError::Missing),
        metadata => metadata.map_err(SocketFileError::io(path))?,
    };
    if !metadata.file_type().is_socket() || !is_ours(&metadata) {
        return Err(SocketFileError::InTheWay(path.to_owned()));
    }
    let directory = path.parent().ok_or(SocketFileError::Relative)?;
    let around = fs::metadata(directory).map_err(SocketFileError::io(directory))?;
    if !is_ours(&around) || writable_by_others(&around) {
        return Err(SocketFileError::Exposed(directory.to_owned()));
    }
    expect_safe_ancestors(directory)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Looks whether the socket could be hosted or used, and changes nothing. Where, and why not, in words.
///
/// # Errors
/// What stands against it.
pub fn check_socket_path(
    named: Option<&str>,
    document: &Path,
    home: Option<&Path>,
) -> Result<(), (PathBuf, String)> {
    let path = socket_path(named, document, home);
    let looked = || {
        address_of(&path)?;
        let directory = path.parent().ok_or(SocketFileError::Relative)?;
        match fs::metadata(directory) {
            // It is still to be made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(SocketFileError::io(directory)(error)),
            Ok(around) if !is_ours(&around) || writable_by_others(&around) => {
                return Err(SocketFileError::Exposed(directory.to_owned()));
            }
            Ok(_private) => {}
        }
        expect_safe_ancestors(directory)?;
        match fs::symlink_metadata(&path) {
            Ok(metadata) if !metadata.file_type().is_socket() || !is_ours(&metadata) => {
                return Err(SocketFileError::InTheWay(path.clone()));
            }
            Ok(_) | Err(_) => {}
        }
        match fs::symlink_metadata(lock_path(&path)) {
            Ok(metadata) if !is_private_lock(&metadata) => {
                Err(SocketFileError::ForeignLock(lock_path(&path)))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    };
    looked().map_err(|error| (path.clone(), error.to_string()))
}

#[expect(clippy::verbose_bit_mask, reason = "a mode is read in octal")]
fn is_private_lock(metadata: &fs::Metadata) -> bool {
    metadata.is_file() && is_ours(metadata) && metadata.nlink() == 1 && metadata.mode() & 0o077 == 0
}

fn address_of(path: &Path) -> Result<SocketAddrUnix, SocketFileError> {
    if !path.is_absolute() {
        return Err(SocketFileError::Relative);
    }
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MAX_PATH_BYTES {
        return Err(SocketFileError::TooLong(bytes.len()));
    }
    SocketAddrUnix::new(path).map_err(|error| SocketFileError::io(path)(error.into()))
}

/// Every directory above, as the path really goes: owned by us or root, and writable by nobody else unless it is sticky.
fn expect_safe_ancestors(directory: &Path) -> Result<(), SocketFileError> {
    let real = fs::canonicalize(directory).map_err(SocketFileError::io(directory))?;
    for ancestor in real.ancestors().skip(1) {
        let metadata = fs::symlink_metadata(ancestor).map_err(SocketFileError::io(ancestor))?;
        let is_of_ours = is_ours(&metadata) || metadata.uid() == 0;
        let is_sticky = metadata.mode() & 0o1000 != 0;
        if !is_of_ours || (writable_by_others(&metadata) && !is_sticky) {
            return Err(SocketFileError::Ancestor(ancestor.to_owned()));
        }
    }
    Ok(())
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lifecycle.lock");
    name.into()
}

/// Takes the lock, without waiting. It stays where it is when the server ends: a lock that is removed could be held by
/// two, one of them on a file that nobody else finds any more.
fn take_lock(path: &Path) -> Result<File, SocketFileError> {
    let foreign = || SocketFileError::ForeignLock(path.to_owned());
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)
        .map_err(|error| {
            // A link, a directory, a socket.
            let is_foreign = error.kind() == io::ErrorKind::PermissionDenied
                || [Errno::LOOP, Errno::ISDIR, Errno::NXIO]
                    .iter()
                    .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
            if is_foreign {
                foreign()
            } else {
                SocketFileError::io(path)(error)
            }
        })?;
    let metadata = file.metadata().map_err(SocketFileError::io(path))?;
    if !is_private_lock(&metadata) {
        return Err(foreign());
    }
    match rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(SocketFileError::Hosted),
        Err(error) => return Err(SocketFileError::io(path)(error.into())),
    }
    // What is locked must be what the next one will find.
    let there = fs::symlink_metadata(path).map_err(SocketFileError::io(path))?;
    if (there.dev(), there.ino()) != (metadata.dev(), metadata.ino()) {
        return Err(foreign());
    }
    Ok(file)
}

/// Removes what an earlier host left. The lock is held.
fn clear_the_way(path: &Path, address: &SocketAddrUnix) -> Result<(), SocketFileError> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(SocketFileError::io(path))?,
    };
    if !metadata.file_type().is_socket() || !is_ours(&metadata) {
        return Err(SocketFileError::InTheWay(path.to_owned()));
    }
    if is_answered(address).map_err(SocketFileError::io(path))? {
        // A program that knows nothing of the lock.
        return Err(SocketFileError::Hosted);
    }
    fs::remove_file(path).map_err(SocketFileError::io(path))
}

/// Whether a process listens there. A queue that is full has an owner, too.
fn is_answered(address: &SocketAddrUnix) -> io::Result<bool> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    match rustix::net::connect(&socket, address) {
        // The last: it is a socket of another kind, and in use.
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS | Errno::PROTOTYPE) => Ok(true),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sys::clock::SystemClock;

    fn scratch() -> tempfile::TempDir {
        tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in("/tmp")
            .unwrap()
    }

    fn bind(path: &Path) -> Result<(Hosted, OwnedFd), SocketFileError> {
        Hosted::bind(path, &SystemClock)
    }

    #[track_caller]
    fn refused(path: &Path) -> SocketFileError {
        bind(path).map(drop).unwrap_err()
    }

    #[test]
    fn one_hosts_it_and_leaves_nothing_but_the_lock() {
        let scratch = scratch();
        let path = scratch.path().join("made/s.sock");
        let (hosted, _listener) = bind(&path).unwrap();
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert_eq!(metadata.mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777,
            0o700
        );
        assert!(matches!(refused(&path), SocketFileError::Hosted));
        assert!(inspect(&path).is_ok());
        drop(hosted);
        assert!(!path.exists() && lock_path(&path).exists());
        assert!(matches!(inspect(&path).unwrap_err(), SocketFileError::Missing));
        drop(bind(&path).unwrap());
    }

    #[test]
    fn a_leftover_is_removed_and_nothing_else_is() {
        let scratch = scratch();
        let path = scratch.path().join("s.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(bind(&path).unwrap());
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(refused(&path), SocketFileError::Hosted));
        drop(listener);
        fs::remove_file(&path).unwrap();
        File::create(&path).unwrap();
        assert!(matches!(refused(&path), SocketFileError::InTheWay(_)));
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        let target = scratch.path().join("target.sock");
        let _target = std::os::unix::net::UnixListener::bind(&target).unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(matches!(refused(&path), SocketFileError::InTheWay(_)));
        assert!(matches!(
            inspect(&path).unwrap_err(),
            SocketFileError::InTheWay(_)
        ));
        assert!(target.exists());
    }

    #[test]
    fn a_socket_that_took_the_place_of_ours_stays() {
        let scratch = scratch();
        let path = scratch.path().join("s.sock");
        let (hosted, _listener) = bind(&path).unwrap();
        fs::rename(&path, scratch.path().join("moved.sock")).unwrap();
        let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(hosted);
        assert!(path.exists());
    }

    #[test]
    fn a_lock_that_is_not_ours_alone_is_none() {
        let scratch = scratch();
        let path = scratch.path().join("s.sock");
        let lock = lock_path(&path);
        let other = scratch.path().join("other");
        File::create(&other).unwrap();
        std::os::unix::fs::symlink(&other, &lock).unwrap();
        assert!(matches!(refused(&path), SocketFileError::ForeignLock(_)));
        fs::remove_file(&lock).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(&other, &lock).unwrap();
        assert!(matches!(refused(&path), SocketFileError::ForeignLock(_)));
        fs::remove_file(&lock).unwrap();
        fs::create_dir(&lock).unwrap();
        assert!(matches!(refused(&path), SocketFileError::ForeignLock(_)));
        fs::remove_dir(&lock).unwrap();
        File::create(&lock).unwrap();
        fs::set_permissions(&lock, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(refused(&path), SocketFileError::ForeignLock(_)));
        assert!(!path.exists());
    }

    #[test]
    fn a_place_that_others_can_change_is_refused_and_stays_as_it_is() {
        let scratch = scratch();
        let loose = scratch.path().join("loose");
        fs::create_dir(&loose).unwrap();
        fs::set_permissions(&loose, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(refused(&loose.join("s")), SocketFileError::Directory(_)));
        let below = loose.join("below");
        fs::create_dir(&below).unwrap();
        fs::set_permissions(&below, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(matches!(refused(&below.join("s")), SocketFileError::Ancestor(_)));
        assert_eq!(fs::metadata(&loose).unwrap().mode() & 0o777, 0o777);
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&below, &link).unwrap();
        assert!(matches!(refused(&link.join("s")), SocketFileError::Ancestor(_)));
    }

    #[test]
    fn a_refusal_names_the_directory_that_is_at_fault() {
        let scratch = scratch();
        let loose = scratch.path().join("loose");
        let below = loose.join("below");
        fs::create_dir_all(&below).unwrap();
        fs::set_permissions(&loose, fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(&below, fs::Permissions::from_mode(0o700)).unwrap();
        let why = |directory: &Path| {
            let named = directory.join("s");
            check_socket_path(named.to_str(), Path::new("/d"), None)
                .unwrap_err()
                .1
        };
        let loose = loose.canonicalize().unwrap();
        assert_eq!(
            why(&loose),
            format!(
                "{}, where the approvals socket lies, belongs to another account or may be changed by one",
                loose.display()
            )
        );
        assert_eq!(
            why(&below),
            format!(
                "{} above the approvals socket may be changed by another account",
                loose.display()
            )
        );
    }

    #[test]
    fn a_path_that_does_not_fit_is_not_cut() {
        let scratch = scratch();
        let room = MAX_PATH_BYTES - scratch.path().as_os_str().len() - 1;
        drop(bind(&scratch.path().join("x".repeat(room))).unwrap());
        assert!(matches!(
            refused(&scratch.path().join("x".repeat(room + 1))),
            SocketFileError::TooLong(108)
        ));
        assert!(matches!(
            refused(Path::new("relative/s")),
            SocketFileError::Relative
        ));
    }

    #[test]
    fn the_document_names_the_socket_or_it_lies_beside_it() {
        let document = Path::new("/d/exec-approvals.json");
        let at = |named: Option<&str>| socket_path(named, document, Some(Path::new("/home/u")));
        assert_eq!(at(None), Path::new("/d/exec-approvals.sock"));
        assert_eq!(at(Some("  ")), Path::new("/d/exec-approvals.sock"));
        assert_eq!(at(Some(" ~/x/s ")), Path::new("/home/u/x/s"));
        assert_eq!(at(Some("/run/s")), Path::new("/run/s"));
        assert_eq!(at(Some("~other/s")), Path::new("~other/s"));
    }
}
