//! The place where confined commands run: a user and a mount namespace in which some directories are covered.
//!
//! It is made once, by a process of its own that is this program in another hidden mode: it must own the user
//! namespace, and neither the server nor the runner may live in one. The process sends back two descriptors, which
//! keep the namespaces alive, and ends. Supervisors put commands inside (`sys::namespace`).
//!
//! The caller of [`Confinement::make`] decides what is covered; this module does exactly that or fails. It covers
//! directories, never single files: replacing a file from outside takes its cover away. A file can be fixed where it
//! is, as long as it is not replaced outside.

use std::{
    ffi::{CString, OsStr, OsString},
    fmt, fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use countersign_sys::{
    hooks,
    namespace::{self, Confines},
    process::{self, Spawn},
    socket::{self, Received},
};

/// The word that makes this program the maker. Not for people.
pub(super) const MODE: &str = "__confine";

/// How long the maker may take, on a machine with much else to do.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Longest account of a failure.
const MAX_ANSWER_BYTES: usize = 8192;

/// Largest file that is copied.
const MAX_COPY_BYTES: u64 = 1024 * 1024;

/// A directory that is covered with an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    /// Absolute path of the directory.
    pub at: PathBuf,
    /// Whether commands may write there, into memory that goes with the server.
    pub writable: bool,
    /// Directories and files below that stay as they are.
    pub keep: Vec<PathBuf>,
    /// Files below that are there as copies, which belong to the account.
    pub copies: Vec<PathBuf>,
    /// Symbolic links below that are there again.
    pub links: Vec<PathBuf>,
    /// Empty directories below, for covers that come after.
    pub places: Vec<PathBuf>,
}

impl Mask {
    /// Nothing below is left, and nothing can be written.
    pub const fn over(at: PathBuf) -> Self {
        Self {
            at,
            writable: false,
            keep: Vec::new(),
            copies: Vec::new(),
            links: Vec::new(),
            places: Vec::new(),
        }
    }
}

/// What differs inside from outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfinementPlan {
    /// Directories that cannot be moved or removed inside, outer ones first. Each is mounted on itself, so that a move
    /// from one of them to another copies.
    pub pinned: Vec<PathBuf>,
    /// Files that can be neither written, moved nor removed inside. Mounted on themselves, like directories.
    pub fixed: Vec<PathBuf>,
    /// Covered directories, in this order.
    pub masks: Vec<Mask>,
    /// Mounts that cannot be written inside.
    pub read_only: Vec<PathBuf>,
}

/// There is no such place.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The maker could not be started or did not answer.
    #[error("the maker of the namespaces does not answer")]
    NoAnswer(#[source] io::Error),
    /// The kernel, or what guards it, refuses.
    #[error("{0}")]
    Refused(String),
}

/// The two namespaces. They last as long as this, and as anything that still runs in them.
#[derive(Debug)]
pub struct Confinement {
    user: OwnedFd,
    mounts: OwnedFd,
}

impl Confinement {
    /// Makes the namespaces, with the program that has the maker in it.
    ///
    /// # Errors
    /// [`ConfineError`]; then nothing is left.
    pub fn make(program: &Path, plan: &ConfinementPlan) -> Result<Self, ConfineError> {
        let (ours, theirs) = socket::frame_pair().map_err(ConfineError::NoAnswer)?;
        let arguments = plan.to_arguments();
        let arguments: Vec<&OsStr> = [OsStr::new("countersign-confine"), OsStr::new(MODE)]
            .into_iter()
            .chain(arguments.iter().map(OsString::as_os_str))
            .collect();
        let environment = hooks::left_away();
        let environment: Vec<(&OsStr, &OsStr)> = environment
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .collect();
        let maker = process::spawn(&Spawn {
            program,
            arguments: &arguments,
            environment: &environment,
            output: None,
            descriptors: &[theirs.as_fd()],
        })
        .map_err(ConfineError::NoAnswer)?;
        drop(theirs);
        let answer = answer(ours.as_fd());
        // One that hangs is of no use to anybody; one that answered has ended by itself.
        process::signal_process(maker.pid(), rustix::process::Signal::KILL);
        maker.wait().map_err(ConfineError::NoAnswer)?;
        answer
    }

    /// What a runner is given.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        let Self { user, mounts } = self;
        [user.as_fd(), mounts.as_fd()]
    }
}

fn answer(socket: BorrowedFd<'_>) -> Result<Confinement, ConfineError> {
    let none = || ConfineError::NoAnswer(io::ErrorKind::UnexpectedEof.into());
    rustix::io::ioctl_fionbio(socket, false).map_err(|error| ConfineError::NoAnswer(error.into()))?;
    socket::set_receive_timeout(socket, Some(TIMEOUT)).map_err(ConfineError::NoAnswer)?;
    let mut text = vec![0; MAX_ANSWER_BYTES];
    match socket::receive_frame(socket, &mut text).map_err(ConfineError::NoAnswer)? {
        Received::Frame(length, descriptors) => match <[OwnedFd; 2]>::try_from(descriptors) {
            Ok([user, mounts]) => Ok(Confinement { user, mounts }),
            Err(_none) => {
                let text = text.get(..length).unwrap_or_default();
                Err(ConfineError::Refused(String::from_utf8_lossy(text).into_owned()))
            }
        },
        Received::Cut | Received::Closed | Received::Nothing => Err(none()),
    }
}

const PIN: &str = "pin";
const FIX: &str = "fix";
const COVER: &str = "cover";
const COVER_WRITABLE: &str = "cover-writable";
const KEEP: &str = "keep";
const COPY: &str = "copy";
const LINK: &str = "link";
const PLACE: &str = "place";
const READ_ONLY: &str = "read-only";

impl ConfinementPlan {
    /// Pairs of a word and a path.
    fn to_arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let mut say = |word: &str, path: &Path| arguments.extend([word.into(), path.into()]);
        let Self {
            pinned,
            fixed,
            masks,
            read_only,
        } = self;
        for path in pinned {
            say(PIN, path);
        }
        for path in fixed {
            say(FIX, path);
        }
        for mask in masks {
            let Mask {
                at,
                writable,
                keep,
                copies,
                links,
                places,
            } = mask;
            say(if *writable { COVER_WRITABLE } else { COVER }, at);
            for (word, paths) in [(KEEP, keep), (COPY, copies), (LINK, links), (PLACE, places)] {
                for path in paths {
                    say(word, path);
                }
            }
        }
        for path in read_only {
            say(READ_ONLY, path);
        }
        arguments
    }

    /// `None` for anything that [`Self::to_arguments`] does not say.
    fn of_arguments(arguments: &[OsString]) -> Option<Self> {
        let mut plan = Self::default();
        let pairs = arguments.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return None;
        }
        for pair in pairs {
            let [word, path] = pair else { return None };
            let path = PathBuf::from(path);
            if !path.is_absolute() {
                return None;
            }
            match word.to_str()? {
                PIN => plan.pinned.push(path),
                FIX => plan.fixed.push(path),
                word @ (COVER | COVER_WRITABLE) => plan.masks.push(Mask {
                    writable: word == COVER_WRITABLE,
                    ..Mask::over(path)
                }),
                KEEP => plan.masks.last_mut()?.keep.push(path),
                COPY => plan.masks.last_mut()?.copies.push(path),
                LINK => plan.masks.last_mut()?.links.push(path),
                PLACE => plan.masks.last_mut()?.places.push(path),
                READ_ONLY => plan.read_only.push(path),
                _ => return None,
            }
        }
        Some(plan)
    }
}

/// A step that failed.
struct Failure {
    what: String,
    error: io::Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
    let what = what.into();
    move |error| Failure { what, error }
}

fn failed_at(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    failed(format!("{what} {}", path.display()))
}

/// The maker: makes the namespaces, sends them to the process that started it, and ends.
pub(super) fn main(arguments: &[OsString]) -> ! {
    let made = process::inherited_descriptors(3).map(|[socket]| {
        let made = make(arguments);
        let sent = match &made {
            Ok(namespaces) => {
                let descriptors = namespaces.each_ref().map(AsFd::as_fd);
                socket::send_frame(socket.as_fd(), b"made", &descriptors)
            }
            Err(failure) => {
                let text = failure.to_string();
                let end = text.floor_char_boundary(MAX_ANSWER_BYTES);
                let text = text.get(..end).unwrap_or_default();
                socket::send_frame(socket.as_fd(), text.as_bytes(), &[])
            }
        };
        made.is_ok() && sent.is_ok()
    });
    process::exit_now(i32::from(!made.unwrap_or(false)))
}

fn make(arguments: &[OsString]) -> Result<[OwnedFd; 2], Failure> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let plan = ConfinementPlan::of_arguments(arguments)
        .ok_or_else(|| failed("the plan of the namespaces does not read")(invalid()))?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    namespace::unshare().map_err(failed("user namespaces are not available"))?;
    namespace::map_account(uid.as_raw(), gid.as_raw())
        .map_err(failed("the account cannot be mapped into a user namespace"))?;
    // Any process of the account could take hold of this process while it makes the place, but not from here on. This
    // cannot come earlier: from here on the files of the map belong to root.
    process::forbid_dumping().map_err(failed("the maker cannot be protected"))?;
    namespace::keep_mounts_to_ourselves().map_err(failed("mounts cannot be made private"))?;
    if !hooks::protection_off("pins") {
        for path in &plan.pinned {
            pin(path).map_err(failed_at("cannot pin", path))?;
        }
        // Within what was pinned: a later mount covers an earlier one.
        for path in &plan.fixed {
            pin(path).map_err(failed_at("cannot pin", path))?;
            make_read_only(path).map_err(failed_at("cannot write-protect", path))?;
        }
    }
    if !hooks::protection_off("masks") {
        for mask in &plan.masks {
            cover(mask)?;
        }
    }
    for path in &plan.read_only {
        make_read_only(path).map_err(failed_at("cannot write-protect", path))?;
    }
    Confines::of_this_process().map_err(failed("the namespaces cannot be held"))
}

/// A process that sees a mount can neither rename nor remove its mount point.
fn pin(path: &Path) -> io::Result<()> {
    let held = namespace::hold(path)?;
    namespace::put(held.as_fd(), path)
}

fn cover(mask: &Mask) -> Result<(), Failure> {
    let Mask {
        at,
        writable,
        keep,
        copies,
        links,
        places,
    } = mask;
    let before = identity(at).map_err(failed_at("cannot look at", at))?;
    // What is to stay is held before its path is covered.
    let mut kept = Vec::with_capacity(keep.len());
    for path in keep {
        let is_directory = fs::symlink_metadata(path).map(|meta| meta.is_dir());
        let is_directory = is_directory.map_err(failed_at("cannot look at", path))?;
        let held = namespace::hold(path).map_err(failed_at("cannot keep", path))?;
        kept.push((path, is_directory, held));
    }
    let mut contents = Vec::with_capacity(copies.len());
    for path in copies {
        contents.push((path, read(path).map_err(failed_at("cannot copy", path))?));
    }
    let mut targets = Vec::with_capacity(links.len());
    for path in links {
        targets.push((path, fs::read_link(path).map_err(failed_at("cannot copy", path))?));
    }

    let mode = if *writable {
        c"mode=0700,size=16m,nr_inodes=4096"
    } else {
        c"mode=0755,size=16m,nr_inodes=8192"
    };
    namespace::cover(at, mode).map_err(failed_at("cannot cover", at))?;
    if identity(at).map_err(failed_at("cannot look at", at))? == before {
        return Err(failed_at("not covered:", at)(io::ErrorKind::Other.into()));
    }
    for (path, is_directory, held) in kept {
        make_place(path, is_directory).map_err(failed_at("cannot make a place for", path))?;
        namespace::put(held.as_fd(), path).map_err(failed_at("cannot put back", path))?;
    }
    for (path, content) in contents {
        make_place(path, false).map_err(failed_at("cannot make a place for", path))?;
        fill(path, &content).map_err(failed_at("cannot copy", path))?;
    }
    for (path, target) in targets {
        std::os::unix::fs::symlink(target, path).map_err(failed_at("cannot copy", path))?;
    }
    for path in places {
        make_place(path, true).map_err(failed_at("cannot make a place for", path))?;
    }
    if *writable {
        Ok(())
    } else {
        make_read_only(at).map_err(failed_at("cannot write-protect", at))
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > MAX_COPY_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    fs::read(path)
}

/// An empty directory or file to put something onto, and the directories above it.
fn make_place(path: &Path, is_directory: bool) -> io::Result<()> {
    let mut directories = fs::DirBuilder::new();
    directories.recursive(true).mode(0o755);
    if is_directory {
        return directories.create(path);
    }
    if let Some(parent) = path.parent() {
        directories.create(parent)?;
    }
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .open(path)?;
    Ok(())
}

fn fill(path: &Path, content: &[u8]) -> io::Result<()> {
    use io::Write as _;
    fs::OpenOptions::new().write(true).open(path)?.write_all(content)
}

fn make_read_only(path: &Path) -> io::Result<()> {
    namespace::make_read_only(&CString::new(path.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_back_whole_or_not_at_all() {
        let plan = ConfinementPlan {
            pinned: vec!["/c".into(), "/c/d".into()],
            fixed: vec!["/c/d/program".into()],
            masks: vec![
                Mask {
                    writable: true,
                    ..Mask::over("/a b".into())
                },
                Mask {
                    keep: vec!["/c/d".into(), "/c/e".into()],
                    copies: vec!["/c/f".into()],
                    links: vec!["/c/g".into()],
                    places: vec!["/c/h/i".into()],
                    ..Mask::over("/c".into())
                },
            ],
            read_only: vec!["/sys/fs/cgroup".into()],
        };
        let arguments = plan.to_arguments();
        assert_eq!(ConfinementPlan::of_arguments(&arguments), Some(plan));
        let foreign: &[&[&str]] = &[&["cover"], &["keep", "/x"], &["cover", "x"], &["uncover", "/x"]];
        for words in foreign {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            assert_eq!(ConfinementPlan::of_arguments(&words), None, "{words:?}");
        }
    }
}
