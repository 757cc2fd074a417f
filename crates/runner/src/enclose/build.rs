//! The first process inside: it builds the root that all of them have, and then does nothing but reap.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    event::{PollFd, PollFlags},
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
    process::Signal,
};

use countersign_sys::{
    enclosure,
    mounts::{self, Attributes},
    process::{self, ChildSignals, Reaped},
};

use super::{
    Enclosed, Obstacle, Piece, Source,
    obstacle::{At as _, Failure},
    say,
};

/// Files in the root itself: those of the sandbox, and places.
const ROOT_OPTIONS: [(&CStr, &CStr); 3] = [(c"mode", c"0755"), (c"size", c"4m"), (c"nr_inodes", c"4096")];

/// Memory that programs share by name.
const SHARED_OPTIONS: [(&CStr, &CStr); 3] = [(c"mode", c"01777"), (c"size", c"64m"), (c"nr_inodes", c"4096")];

const TERMINAL_OPTIONS: [(&CStr, &CStr); 2] = [(c"ptmxmode", c"0666"), (c"mode", c"0620")];

const DEVICES: [&CStr; 6] = [c"null", c"zero", c"full", c"random", c"urandom", c"tty"];

const DEVICE_LINKS: [(&CStr, &CStr); 5] = [
    (c"fd", c"/proc/self/fd"),
    (c"stdin", c"/proc/self/fd/0"),
    (c"stdout", c"/proc/self/fd/1"),
    (c"stderr", c"/proc/self/fd/2"),
    (c"ptmx", c"pts/ptmx"),
];

/// Files of `/proc` that tell of the machine or of its keys, and would do so to everybody, or do things to it.
const COVERED_FILES: [&CStr; 10] = [
    c"kcore",
    c"keys",
    c"key-users",
    c"kallsyms",
    c"kmsg",
    c"latency_stats",
    c"sched_debug",
    c"sysrq-trigger",
    c"timer_list",
    c"timer_stats",
];

/// Directories of `/proc` that do.
const COVERED_DIRECTORIES: [&CStr; 3] = [c"acpi", c"asound", c"scsi"];

/// Binds that were made while this still was root, by the place of their piece.
pub(super) type Held = Vec<(usize, OwnedFd)>;

/// Never returns. `built` hears how it went; once `life` is closed and nobody else is left, it is over.
pub(super) fn first_process(enclosed: &Enclosed, held: Held, built: &OwnedFd, life: &OwnedFd) -> ! {
    match prepare(enclosed, held) {
        Ok(signals) => {
            say(built, Ok(process::own_id()));
            let kept = [life.as_fd(), signals.as_fd()];
            if process::close_all_but(3, kept.into_iter()).is_ok() {
                reap(&signals, life);
            }
        }
        Err(failure) => say(built, Err(failure)),
    }
    // Every process that is left dies with this one.
    process::exit_now(0)
}

fn prepare(enclosed: &Enclosed, held: Held) -> Result<ChildSignals, Failure> {
    // The supervisor is the parent. Should it be gone already, `life` is closed.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Obstacle::Process)?;
    rustix::process::umask(Mode::empty());
    build(enclosed, held)?;
    rustix::thread::set_name(c"init").at(Obstacle::Process)?;
    enclosure::give_up_rights().at(Obstacle::Process)?;
    ChildSignals::open().at(Obstacle::Process)
}

/// Takes those that end off the kernel's list until the command has ended and nobody is left.
fn reap(signals: &ChildSignals, life: &OwnedFd) {
    let mut is_over = false;
    loop {
        signals.clear();
        loop {
            match process::reap() {
                Ok(Reaped::Child(..)) => {}
                Ok(Reaped::NoChildren) if is_over => return,
                Ok(Reaped::NoneEnded | Reaped::NoChildren) => break,
                Err(_) => return,
            }
        }
        let mut waited = vec![PollFd::new(signals, PollFlags::IN)];
        if !is_over {
            waited.push(PollFd::new(life, PollFlags::IN));
        }
        if process::poll(&mut waited, None).is_err() {
            return;
        }
        is_over = is_over || waited.get(1).is_some_and(|life| !life.revents().is_empty());
    }
}

/// The root that is being built.
struct Root {
    mount: OwnedFd,
}

fn build(enclosed: &Enclosed, held: Held) -> Result<(), Failure> {
    let mount = mounts::make(c"tmpfs", &ROOT_OPTIONS, Attributes::PLAIN).at(Obstacle::Root)?;
    // Everything of the machine can still be named: this process goes on seeing what is below.
    mounts::put_over_root(mount.as_fd()).at(Obstacle::Root)?;
    let root = Root { mount };
    let mut held = held.into_iter().peekable();
    for (at, piece) in enclosed.pieces.iter().enumerate() {
        let mount = held.next_if(|(of, _)| *of == at).map(|(_, mount)| mount);
        root.add(piece, mount)?;
    }
    root.add_processes()?;
    root.add_devices()?;
    if !enclosed.writable_root {
        root.make_read_only()?;
    }
    mounts::make_root(root.mount.as_fd()).at(Obstacle::Enter)
}

impl Root {
    fn add(&self, piece: &Piece, held: Option<OwnedFd>) -> Result<(), Failure> {
        match piece {
            Piece::Mirror(path) => self.mirror(path, Attributes::READ_ONLY),
            Piece::Shown(path) => self.mirror(path, Attributes::READ_ONLY.without_programs()),
            Piece::Bind {
                source,
                inside,
                writable,
                executable,
            } => {
                let obstacle = match source {
                    Source::Workspace => Obstacle::Workspace,
                    Source::Path(_) => Obstacle::Bind,
                    Source::Itself(..) => Obstacle::Itself,
                };
                let mount = match held {
                    Some(mount) => mount,
                    None => plain_bind(source, attributes(*writable, *executable)).at(obstacle)?,
                };
                if let Source::Itself(_, inode) = source {
                    return self.cover(&mount, inside, *inode).at(obstacle);
                }
                let is_directory = is_directory(mount.as_fd()).at(obstacle)?;
                self.put(&mount, inside, is_directory).at(obstacle)
            }
            Piece::Memory {
                inside,
                bytes,
                files,
                mode,
                executable,
            } => self
                .add_memory(inside, [*bytes, *files], *mode, *executable)
                .at(Obstacle::Memory),
            Piece::File { inside, content } => self.add_file(inside, content).at(Obstacle::File),
        }
    }

    fn mirror(&self, path: &CStr, attributes: Attributes) -> Result<(), Failure> {
        let found = match rustix::fs::lstat(path) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
            Err(errno) => return Err(errno).at(Obstacle::System),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {
                let target = rustix::fs::readlink(path, Vec::new()).at(Obstacle::System)?;
                let (parent, name) = self.parent(path).at(Obstacle::System)?;
                rustix::fs::symlinkat(&target, parent, &name).at(Obstacle::System)
            }
            kind @ (FileType::Directory | FileType::RegularFile) => {
                let mount = mounts::clone(path).at(Obstacle::System)?;
                mounts::restrict(mount.as_fd(), attributes, None).at(Obstacle::System)?;
                self.put(&mount, path, kind == FileType::Directory)
                    .at(Obstacle::System)
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(()),
        }
    }

    fn add_memory(
        &self,
        inside: &CStr,
        [bytes, files]: [u64; 2],
        mode: u32,
        executable: bool,
    ) -> Result<(), Errno> {
        let text = |text: String| CString::new(text).map_err(|_nul| Errno::INVAL);
        let (mode, size, inodes) = (
            text(format!("{mode:o}"))?,
            text(bytes.to_string())?,
            text(files.to_string())?,
        );
        let options: [(&CStr, &CStr); 3] = [(c"mode", &mode), (c"size", &size), (c"nr_inodes", &inodes)];
        let attributes = if executable {
            Attributes::PLAIN
        } else {
            Attributes::PLAIN.without_programs()
        };
        let mount = mounts::make(c"tmpfs", &options, attributes)?;
        self.put(&mount, inside, true)
    }

    fn add_file(&self, inside: &CStr, content: &[u8]) -> Result<(), Errno> {
        let (parent, name) = self.parent(inside)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(parent, &name, flags, Mode::from_raw_mode(0o644))?;
        let mut rest = content;
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest)?;
            rest = rest.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    fn add_processes(&self) -> Result<(), Failure> {
        let attributes = Attributes::READ_ONLY.without_programs();
        let processes = mounts::make(c"proc", &[], attributes).at(Obstacle::Processes)?;
        self.put(&processes, c"/proc", true).at(Obstacle::Processes)?;
        // There is no other empty directory that could lie over the others.
        let empty = self.directory(c"/sys").at(Obstacle::Processes)?;
        for name in COVERED_FILES {
            let cover = mounts::clone(c"/dev/null").at(Obstacle::Devices)?;
            cover_entry(&cover, processes.as_fd(), name).at(Obstacle::Processes)?;
        }
        for name in COVERED_DIRECTORIES {
            let cover = mounts::clone_open(empty.as_fd()).at(Obstacle::Processes)?;
            mounts::restrict(cover.as_fd(), Attributes::READ_ONLY, None).at(Obstacle::Processes)?;
            cover_entry(&cover, processes.as_fd(), name).at(Obstacle::Processes)?;
        }
        Ok(())
    }

    fn add_devices(&self) -> Result<(), Failure> {
        let directory = self.directory(c"/dev").at(Obstacle::Devices)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        for name in DEVICES {
            let path = CString::new([b"/dev/".as_slice(), name.to_bytes()].concat())
                .map_err(|_nul| Errno::INVAL)
                .at(Obstacle::Devices)?;
            let device = mounts::clone(&path).at(Obstacle::Devices)?;
            rustix::fs::openat(&directory, name, flags, Mode::from_raw_mode(0o666)).at(Obstacle::Devices)?;
            mounts::put_at(device.as_fd(), directory.as_fd(), name).at(Obstacle::Devices)?;
        }
        for (name, target) in DEVICE_LINKS {
            rustix::fs::symlinkat(target, &directory, name).at(Obstacle::Devices)?;
        }
        let terminals =
            mounts::make(c"devpts", &TERMINAL_OPTIONS, Attributes::DEVICES).at(Obstacle::Devices)?;
        self.put(&terminals, c"/dev/pts", true).at(Obstacle::Devices)?;
        let shared = mounts::make(c"tmpfs", &SHARED_OPTIONS, Attributes::PLAIN.without_programs());
        self.put(&shared.at(Obstacle::Devices)?, c"/dev/shm", true)
            .at(Obstacle::Devices)
    }

    /// The root itself; what is mounted below stays as it is.
    fn make_read_only(&self) -> Result<(), Failure> {
        mounts::restrict_alone(self.mount.as_fd(), Attributes::READ_ONLY).at(Obstacle::Root)
    }

    /// Puts a mount at a path, for which there is a place afterwards.
    fn put(&self, mount: &OwnedFd, path: &CStr, is_directory: bool) -> Result<(), Errno> {
        if is_directory {
            return mounts::put(mount.as_fd(), self.directory(path)?.as_fd());
        }
        let (parent, name) = self.parent(path)?;
        match mounts::open_entry(&parent, &name) {
            Ok(_there) => {}
            Err(Errno::NOENT) => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                rustix::fs::openat(&parent, &name, flags, Mode::from_raw_mode(0o644))?;
            }
            Err(errno) => return Err(errno),
        }
        mounts::put_at(mount.as_fd(), parent.as_fd(), &name)
    }

    /// Puts a mount over what has this inode at a path. The mount goes where that goes, so it is looked at and covered by one
    /// descriptor.
    fn cover(&self, mount: &OwnedFd, path: &CStr, inode: (u64, u64)) -> Result<(), Errno> {
        let there = mounts::open_below(self.mount.as_fd(), path)?;
        expect_inode(there.as_fd(), inode)?;
        mounts::put(mount.as_fd(), there.as_fd())
    }

    /// The directory above a path, and the last part of the path.
    fn parent(&self, path: &CStr) -> Result<(OwnedFd, CString), Errno> {
        let bytes = path.to_bytes();
        let at = bytes.iter().rposition(|byte| *byte == b'/').ok_or(Errno::INVAL)?;
        let (above, name) = bytes.split_at_checked(at + 1).ok_or(Errno::INVAL)?;
        if name.is_empty() || name == b".." || name == b"." {
            return Err(Errno::INVAL);
        }
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_nul| Errno::INVAL);
        Ok((self.directory(&text(above)?)?, text(name)?))
    }

    /// A directory below the root, made if it is not there, with links taken as they are meant inside.
    fn directory(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        let mut so_far: Vec<u8> = vec![b'/'];
        let open = |so_far: &[u8]| -> Result<OwnedFd, Errno> {
            let text = CString::new(so_far).map_err(|_nul| Errno::INVAL)?;
            mounts::open_below(self.mount.as_fd(), &text)
        };
        let mut place = open(&so_far)?;
        let parts = path.to_bytes().split(|byte| *byte == b'/');
        for part in parts.filter(|part| !part.is_empty()) {
            if part == b".." || part == b"." {
                return Err(Errno::INVAL);
            }
            so_far.extend(part);
            place = match open(&so_far) {
                Ok(there) => there,
                Err(Errno::NOENT) => {
                    let name = CString::new(part).map_err(|_nul| Errno::INVAL)?;
                    rustix::fs::mkdirat(&place, &name, Mode::from_raw_mode(0o755))?;
                    open(&so_far)?
                }
                Err(errno) => return Err(errno),
            };
            so_far.push(b'/');
        }
        Ok(place)
    }
}

fn is_directory(opened: BorrowedFd<'_>) -> Result<bool, Errno> {
    let stat = rustix::fs::statat(opened, c"", AtFlags::EMPTY_PATH)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Whether this was opened, by its device and inode.
fn expect_inode(opened: BorrowedFd<'_>, inode: (u64, u64)) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(opened)?;
    if (stat.st_dev, stat.st_ino) == inode {
        Ok(())
    } else {
        Err(Errno::STALE)
    }
}

/// What is not there need not be covered.
fn cover_entry(cover: &OwnedFd, directory: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match mounts::put_at(cover.as_fd(), directory, name) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// A bind for an account that stays the same.
fn plain_bind(source: &Source, attributes: Attributes) -> Result<OwnedFd, Errno> {
    let mount = match source {
        Source::Workspace => mounts::clone_here()?,
        Source::Path(path) => mounts::clone_open(mounts::open_without_links(path)?.as_fd())?,
        Source::Itself(path, inode) => {
            let opened = mounts::open_without_links(path)?;
            expect_inode(opened.as_fd(), *inode)?;
            mounts::clone_open(opened.as_fd())?
        }
    };
    mounts::restrict(mount.as_fd(), attributes, None)?;
    Ok(mount)
}

pub(super) const fn attributes(writable: bool, executable: bool) -> Attributes {
    let attributes = if writable {
        Attributes::PLAIN
    } else {
        Attributes::READ_ONLY
    };
    if executable {
        attributes
    } else {
        attributes.without_programs()
    }
}
