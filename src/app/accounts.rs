//! The two accounts of a server that root starts: the server's own, and the one that commands run as
//! (`docs/decisions/0005-separate-user.md`).
//!
//! This runs while the process has one thread and still is root. So it must never follow a link, or believe an owner, that
//! another account could have put in the way. It yields two accounts that have nothing in common and a state directory that
//! is the server's alone. [`super::prepare`] calls it.

use std::{
    ffi::CStr,
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid},
    io::Errno,
};

use countersign_config::settings::StateDir;
use countersign_runner::UnitProblem;
use countersign_sys::account::{Account, Identity};

/// Where the state is when nobody names a directory.
pub(super) const DEFAULT_STATE_DIR: &str = "/var/lib/countersign";

/// The account that the package makes for the server.
const SERVER_ACCOUNT: &str = "countersign";

/// Files beside `countersign/` that the server writes.
const SHARED_FILES: [&str; 3] = ["openclaw.json", "openclaw.json.bak", "exec-approvals.json"];

/// Directories in `countersign/` that are not the server's alone.
const OPEN_DIRECTORIES: [&CStr; 2] = [c"attach", c"sandboxes"];

/// How deep `countersign/` is: `output/RUN`.
const DEPTH: u8 = 3;

/// The commands' account makes the sockets of supervisors here, and reaches the directory by a descriptor only.
/// Anything that is made here gets the server's group, and nobody but its maker and the server takes it away.
const ATTACH_MODE: u32 = 0o3773;

#[derive(Debug)]
pub(super) struct Accounts {
    /// Under whom commands run.
    pub(super) commands: Account,
    /// Under whom the server runs; `None` when there is nobody but root.
    pub(super) server: Option<Account>,
    /// How the commands' account was named.
    pub(super) wanted: String,
}

/// Commands cannot be run under the account that is wanted.
#[derive(Debug, thiserror::Error)]
pub enum AccountProblem {
    /// There is none of that name.
    #[error("exec.run_as: there is no account {0}")]
    Unknown(String),
    /// The named account is root's.
    #[error("exec.run_as: {0} is root; commands need an account of their own")]
    Root(String),
    /// It is the server's.
    #[error("exec.run_as: {0} is the account of the server; commands need another one")]
    Same(Account),
    /// The accounts of this machine cannot be read.
    #[error("exec.run_as: the accounts of this machine cannot be read")]
    Table(#[source] io::Error),
    /// Only root can start something under another account, and there is nobody to ask.
    #[error(
        "exec.run_as: only root can start commands under another account, and no runner's unit does it for this server"
    )]
    NoUnit {
        /// Whom commands run as.
        account: String,
        /// Why there is no unit.
        #[source]
        source: Box<UnitProblem>,
    },
    /// It was changed between the first look at the settings and the second.
    #[error("exec.run_as: the settings changed while the server started")]
    Changed,
    /// Something of the state directory belongs to another account.
    #[error("{path} belongs to {owner}; it must be root's or the server's")]
    Owner {
        /// The state directory or something in it.
        path: PathBuf,
        /// The owner in words, such as `user 1000`.
        owner: String,
    },
    /// Another account could put another directory there.
    #[error("{0} can be replaced by others than root and the server")]
    Replaceable(PathBuf),
    /// A link or something else lies where a directory or a file of the server should.
    #[error("{0} is a link, or not what should be there")]
    Misplaced(PathBuf),
    /// The state directory cannot be prepared.
    #[error("{path} cannot be prepared")]
    Io {
        /// What could not be opened, made or changed.
        path: PathBuf,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
    /// The kernel does not let this process change its account.
    #[error("the account cannot be changed")]
    Change(#[source] io::Error),
}

fn io_at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> AccountProblem {
    let path = path.to_owned();
    move |source| AccountProblem::Io {
        path,
        source: source.into(),
    }
}

impl Accounts {
    /// Finds both accounts, and makes the state directory the server's.
    ///
    /// # Errors
    /// [`AccountProblem`].
    pub(super) fn resolve(wanted: &str, state_dir: &StateDir) -> Result<Self, AccountProblem> {
        let commands = account_of_commands(wanted)?;
        let root = state_dir.root();
        let directory = make_directory(root)?;
        let stat = rustix::fs::fstat(&directory).map_err(io_at(root))?;
        let server = server_account(&stat, &commands, root)?;
        let accounts = Self {
            commands,
            server,
            wanted: wanted.to_owned(),
        };
        accounts.check_ways_to(root)?;
        accounts.hand_over(&directory, state_dir)?;
        Ok(accounts)
    }

    /// As whom the server reads and writes.
    pub(super) fn server_identity(&self) -> Result<Identity, AccountProblem> {
        match &self.server {
            Some(server) => Ok(server.identity.clone()),
            None => Identity::of_this_process().map_err(AccountProblem::Change),
        }
    }

    /// Whether this account may own what the server relies on.
    fn is_trusted(&self, uid: u32) -> bool {
        uid == 0
            || self
                .server
                .as_ref()
                .is_some_and(|server| server.identity.uid == uid)
    }

    /// Nobody else can put another directory where the state directory is.
    fn check_ways_to(&self, root: &Path) -> Result<(), AccountProblem> {
        let real = fs::canonicalize(root).map_err(io_at(root))?;
        for above in real.ancestors().skip(1) {
            let metadata = fs::metadata(above).map_err(io_at(above))?;
            let is_closed = metadata.mode() & 0o022 == 0 || metadata.mode() & 0o1000 != 0;
            if !self.is_trusted(metadata.uid()) || !is_closed {
                return Err(AccountProblem::Replaceable(above.to_owned()));
            }
        }
        Ok(())
    }

    fn hand_over(&self, directory: &OwnedFd, state_dir: &StateDir) -> Result<(), AccountProblem> {
        for name in SHARED_FILES {
            let path = state_dir.root().join(name);
            match open_entry(directory.as_fd(), name, &path)? {
                None => {}
                Some((file, stat)) if is_plain(&stat) => self.give(&file, &stat, &path)?,
                Some(_) => return Err(AccountProblem::Misplaced(path)),
            }
        }
        let own = make_directory_in(directory.as_fd(), c"countersign", &state_dir.countersign())?;
        self.hand_over_directory(&own, &state_dir.countersign(), DEPTH)?;
        // Last: up to here nobody but root can change what is below.
        self.give_directory(directory, state_dir.root())
    }

    /// Children first, so that the directory is root's as long as root works in it.
    fn hand_over_directory(&self, directory: &OwnedFd, path: &Path, depth: u8) -> Result<(), AccountProblem> {
        for entry in Dir::read_from(directory).map_err(io_at(path))? {
            let entry = entry.map_err(io_at(path))?;
            let name = entry.file_name();
            let is_open_place = OPEN_DIRECTORIES.contains(&name) && depth == DEPTH;
            if name == c"." || name == c".." || is_open_place {
                continue;
            }
            let path = path.join(name.to_string_lossy().as_ref());
            let Some((found, stat)) = open_entry(directory.as_fd(), name, &path)? else {
                continue;
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if depth > 0 => {
                    let below = open_directory(directory.as_fd(), name).map_err(io_at(&path))?;
                    self.hand_over_directory(&below, &path, depth - 1)?;
                }
                FileType::RegularFile if is_plain(&stat) => self.give(&found, &stat, &path)?,
                // The next server replaces the sockets of an earlier one; a link stays with the account that made it.
                FileType::Socket | FileType::Symlink => {}
                FileType::Directory
                | FileType::RegularFile
                | FileType::Fifo
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => return Err(AccountProblem::Misplaced(path)),
            }
        }
        self.give_directory(directory, path)
    }

    /// Gives the server a file of root's. One of anybody else was put there.
    fn give(&self, file: &OwnedFd, stat: &Stat, path: &Path) -> Result<(), AccountProblem> {
        if !self.is_trusted(stat.st_uid) {
            return Err(AccountProblem::Owner {
                path: path.to_owned(),
                owner: self.describe(stat.st_uid),
            });
        }
        let Some(server) = &self.server else { return Ok(()) };
        if stat.st_uid == server.identity.uid {
            return Ok(());
        }
        let (uid, gid) = (
            Uid::from_raw(server.identity.uid),
            Gid::from_raw(server.identity.gid),
        );
        rustix::fs::chownat(file, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH).map_err(io_at(path))
    }

    fn give_directory(&self, directory: &OwnedFd, path: &Path) -> Result<(), AccountProblem> {
        let stat = rustix::fs::fstat(directory).map_err(io_at(path))?;
        if stat.st_mode & 0o7777 != Mode::RWXU.as_raw_mode() {
            rustix::fs::fchmod(directory, Mode::RWXU).map_err(io_at(path))?;
        }
        self.give(directory, &stat, path)
    }

    fn describe(&self, uid: u32) -> String {
        if uid == self.commands.identity.uid {
            format!("{}, whom commands run as", self.commands)
        } else {
            format!("user {uid}")
        }
    }
}

fn account_of_commands(wanted: &str) -> Result<Account, AccountProblem> {
    let commands = Account::named(wanted)
        .map_err(AccountProblem::Table)?
        .ok_or_else(|| AccountProblem::Unknown(wanted.to_owned()))?;
    if commands.identity.uid == 0 {
        return Err(AccountProblem::Root(wanted.to_owned()));
    }
    Ok(commands)
}

/// The account of the commands of a server that is not root: any but its own and root's.
///
/// # Errors
/// [`AccountProblem`].
pub(super) fn other_account(wanted: &str) -> Result<Account, AccountProblem> {
    let commands = account_of_commands(wanted)?;
    if commands.identity.uid == rustix::process::geteuid().as_raw() {
        return Err(AccountProblem::Same(commands));
    }
    Ok(commands)
}

/// The owner of a state directory that is there; else the account of the package; else nobody but root.
fn server_account(
    directory: &Stat,
    commands: &Account,
    path: &Path,
) -> Result<Option<Account>, AccountProblem> {
    let (owner, group) = (directory.st_uid, directory.st_gid);
    if owner == commands.identity.uid {
        return Err(AccountProblem::Owner {
            path: path.to_owned(),
            owner: format!("{commands}, whom commands run as"),
        });
    }
    let server = if owner == 0 {
        Account::named(SERVER_ACCOUNT).map_err(AccountProblem::Table)?
    } else {
        Some(Account::of_uid(owner, group).map_err(AccountProblem::Table)?)
    };
    match server {
        Some(server) if server.identity.uid == commands.identity.uid => Err(AccountProblem::Same(server)),
        // The name stands for root here: there is nobody but root.
        Some(server) if server.identity.uid == 0 => Ok(None),
        server => Ok(server),
    }
}

/// Opens the state directory, made if it is not there. It itself is never a link.
fn make_directory(path: &Path) -> Result<OwnedFd, AccountProblem> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(AccountProblem::Misplaced(path.to_owned()));
    };
    if !parent.exists() {
        check_lowest(parent)?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(parent)
            .map_err(io_at(parent))?;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent_directory = rustix::fs::open(parent, flags, Mode::empty()).map_err(io_at(parent))?;
    let name = std::ffi::CString::new(name.as_encoded_bytes())
        .map_err(|_nul| AccountProblem::Misplaced(path.to_owned()))?;
    make_directory_in(parent_directory.as_fd(), &name, path)
}

/// Root makes directories only where root alone says what is there.
fn check_lowest(missing: &Path) -> Result<(), AccountProblem> {
    let lowest = missing
        .ancestors()
        .find(|above| above.exists())
        .unwrap_or_else(|| Path::new("/"));
    let real = fs::canonicalize(lowest).map_err(io_at(lowest))?;
    for above in real.ancestors() {
        let metadata = fs::metadata(above).map_err(io_at(above))?;
        if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
            return Err(AccountProblem::Replaceable(above.to_owned()));
        }
    }
    Ok(())
}

fn make_directory_in(parent: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<OwnedFd, AccountProblem> {
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(io_at(path)(error)),
    }
    open_directory(parent, name).map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR => AccountProblem::Misplaced(path.to_owned()),
        error => io_at(path)(error),
    })
}

fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// What lies there, held so that it cannot become something else; `None` when nothing does.
fn open_entry(
    directory: BorrowedFd<'_>,
    name: impl rustix::path::Arg,
    path: &Path,
) -> Result<Option<(OwnedFd, Stat)>, AccountProblem> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(found) => {
            let stat = rustix::fs::fstat(&found).map_err(io_at(path))?;
            Ok(Some((found, stat)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(io_at(path)(error)),
    }
}

/// A file with one name. Another name could be one that means something elsewhere.
fn is_plain(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1
}

/// Makes the place where supervisors of another account wait for a server. To be called with the server's rights.
pub(super) fn make_attach(state_dir: &StateDir) -> Result<(), AccountProblem> {
    let path = state_dir.attach();
    let directory = match rustix::fs::mkdir(&path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(CWD, &path, flags, Mode::empty())
        }
        Err(error) => Err(error),
    };
    let directory = directory.map_err(io_at(&path))?;
    let stat = rustix::fs::fstat(&directory).map_err(io_at(&path))?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(AccountProblem::Owner {
            path,
            owner: format!("user {}", stat.st_uid),
        });
    }
    rustix::fs::fchmod(&directory, Mode::from_raw_mode(ATTACH_MODE)).map_err(io_at(&path))
}
