//! User and mount namespaces, and what a process gives up on its way into them.
//!
//! One call of the kernel per function. What is hidden where is decided elsewhere; the order of steps is
//! `countersign_runner`'s. `Confines::enter` is the only part that runs between `clone` and `exec`, so it neither
//! allocates nor locks.
#![expect(
    unsafe_code,
    reason = "unshare and mount_setattr have no safe wrapper in rustix"
)]

use std::{
    ffi::{CStr, CString},
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags},
    thread::{CapabilitySet, CapabilitySets, LinkNameSpaceType, UnshareFlags},
};

use super::{hooks, landlock};

/// Makes this process the owner of new user and mount namespaces, in which it has every capability.
///
/// # Errors
/// What the kernel answers: without user namespaces, or where they are forbidden, a refusal.
pub fn unshare() -> io::Result<()> {
    // SAFETY: the table of descriptors stays shared as it was, which is the one thing that can go wrong.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }?;
    Ok(())
}

/// In the new user namespace this account, and it alone, has a name: its own.
///
/// # Errors
/// What the kernel answers.
pub fn map_account(uid: u32, gid: u32) -> io::Result<()> {
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
    write("/proc/self/gid_map", &format!("{gid} {gid} 1"))
}

/// One write: these files take their whole content at once or not at all.
fn write(path: &str, text: &str) -> io::Result<()> {
    use io::Write as _;
    fs::File::options()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

/// From now on what is mounted here stays here, while file systems that the machine unmounts go here, too.
///
/// # Errors
/// What the kernel answers.
pub fn keep_mounts_to_ourselves() -> io::Result<()> {
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", flags)?)
}

/// Covers a directory with an empty file system of at most 16 MiB.
///
/// # Errors
/// What the kernel answers.
pub fn cover(directory: &Path, mode: &CStr) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount(
        "countersign",
        directory,
        "tmpfs",
        flags,
        mode,
    )?)
}

/// Holds what is at a path, with everything mounted below, so that it can be put somewhere once its path is covered.
///
/// # Errors
/// What the kernel answers.
pub fn hold(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(rustix::mount::open_tree(CWD, path, flags)?)
}

/// Puts back what [`hold`] held.
///
/// # Errors
/// What the kernel answers.
pub fn put(held: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(held, "", CWD, path, flags)?)
}

/// `struct mount_attr` of the kernel.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// What is mounted at a path, and nothing below it, cannot be written any more.
///
/// # Errors
/// What the kernel answers.
pub fn make_read_only(path: &CStr) -> io::Result<()> {
    const READ_ONLY: u64 = 1;
    let attributes = MountAttributes {
        set: READ_ONLY,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    // SAFETY: the path ends with NUL, the structure is the one the kernel knows by this size, and both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            0,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    done(result)
}

/// Whether Landlock can keep signals and abstract sockets inside.
pub fn has_scopes() -> bool {
    landlock::version() >= landlock::SCOPES_SINCE
}

fn done(result: i64) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// What commands are put into.
#[derive(Debug)]
pub struct Confines {
    /// The user namespace.
    pub user: OwnedFd,
    /// The mount namespace, which belongs to it.
    pub mounts: OwnedFd,
    /// What keeps signals and abstract sockets inside, where the kernel can.
    pub scopes: Option<OwnedFd>,
}

impl Confines {
    /// The namespaces of this process.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn of_this_process() -> io::Result<[OwnedFd; 2]> {
        let open = |path: &str| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        Ok([open("/proc/self/ns/user")?, open("/proc/self/ns/mnt")?])
    }

    /// Puts this process inside for good, in the directory that has this path there if it is the very one that was
    /// opened outside. To be called between `clone` and `exec`.
    ///
    /// The outer descriptor itself must not become the working directory: `..` would lead out of it into the
    /// mounts of the machine, where nothing is hidden.
    ///
    /// What is masked is so for this process and its descendants alone, in a mount namespace of their own.
    pub(super) fn enter(
        &self,
        directory: BorrowedFd<'_>,
        path: &CStr,
        masked: &[CString],
    ) -> Result<(), Errno> {
        let Self { user, mounts, scopes } = self;
        // The user namespace first: it gives the right to enter the other one.
        rustix::thread::move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        rustix::thread::move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let inside = rustix::fs::open(path, flags, Mode::empty())?;
        let (judged, found) = (rustix::fs::fstat(directory)?, rustix::fs::fstat(&inside)?);
        if (judged.st_dev, judged.st_ino) != (found.st_dev, found.st_ino) {
            return Err(Errno::STALE);
        }
        mask(masked)?;
        // By the path once more: the directory that is open belongs to the namespace before.
        let inside = if masked.is_empty() {
            inside
        } else {
            open_again(path, &found)?
        };
        rustix::process::fchdir(&inside)?;
        drop_capabilities()?;
        rustix::thread::set_no_new_privs(true)?;
        match scopes {
            None => Ok(()),
            Some(_) if hooks::protection_off("landlock-scopes") => Ok(()),
            Some(scopes) => landlock::restrict(scopes.as_fd()),
        }
    }
}

/// What lies over a masked file: it is empty, nobody can execute it, and what is written to it is gone.
const NOTHING: &CStr = c"/dev/null";

/// Puts [`NOTHING`] over each file, in a mount namespace of this process's own. To be called inside of the confines, with the
/// right to mount, between `clone` and `exec`.
fn mask(files: &[CString]) -> Result<(), Errno> {
    if files.is_empty() || hooks::protection_off("children") {
        return Ok(());
    }
    // SAFETY: the table of descriptors stays shared as it was, which is the one thing that can go wrong.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    for file in files {
        rustix::mount::mount_bind(NOTHING, file.as_c_str())?;
    }
    Ok(())
}

/// The directory at a path, if it is the one that was found there.
fn open_again(path: &CStr, found: &rustix::fs::Stat) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let inside = rustix::fs::open(path, flags, Mode::empty())?;
    let again = rustix::fs::fstat(&inside)?;
    if (again.st_dev, again.st_ino) == (found.st_dev, found.st_ino) {
        Ok(inside)
    } else {
        Err(Errno::STALE)
    }
}

/// Every capability in every set. Of the set of what could ever be had, last: taking out of it is a privilege, too.
pub(super) fn drop_capabilities() -> Result<(), Errno> {
    rustix::thread::clear_ambient_capability_set()?;
    drop_bounding_set()?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)
}

/// No program that this process or a descendant executes gives it a capability any more.
pub(super) fn drop_bounding_set() -> Result<(), Errno> {
    for number in 0..u64::BITS {
        match rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(
            1 << number,
        )) {
            Ok(()) => {}
            // Past the last one that this kernel has.
            Err(Errno::INVAL) if number > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
