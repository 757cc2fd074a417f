//! File systems that are mounted for nobody else: made or cloned without a place, then put into one.
//!
//! One call of the kernel per function. What is put where is `countersign_runner`'s business.
#![expect(unsafe_code, reason = "mount_setattr has no safe wrapper in rustix")]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags},
};

/// What programs cannot do on a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes(MountAttrFlags);

impl Attributes {
    /// No rights by way of a program's file, no devices.
    pub const PLAIN: Self = Self(MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV));

    /// The same, and nothing can be written.
    pub const READ_ONLY: Self = Self(Self::PLAIN.0.union(MountAttrFlags::MOUNT_ATTR_RDONLY));

    /// No rights by way of a program's file, and no programs, but devices.
    pub const DEVICES: Self =
        Self(MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NOEXEC));

    /// The same attributes, and no program can be executed.
    #[must_use]
    pub const fn without_programs(self) -> Self {
        Self(self.0.union(MountAttrFlags::MOUNT_ATTR_NOEXEC))
    }
}

/// Makes a file system that lies nowhere yet.
///
/// # Errors
/// What the kernel answers.
pub fn make(kind: &CStr, options: &[(&CStr, &CStr)], attributes: Attributes) -> Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        rustix::mount::fsconfig_set_string(&context, *name, *value)?;
    }
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes.0)
}

/// Another mount of what is at a path, with everything mounted below. Links are not followed.
///
/// # Errors
/// What the kernel answers.
pub fn clone(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    rustix::mount::open_tree(CWD, path, flags)
}

/// Another mount of what was opened, with everything mounted below.
///
/// # Errors
/// What the kernel answers: what was opened in another mount namespace is refused.
pub fn clone_open(opened: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(opened, c"", flags)
}

/// `struct mount_attr` of the kernel.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Gives a mount, and everything mounted below, attributes that nobody in the namespace it goes to can take away. With a user
/// namespace, files belong to other accounts there than on disk, as its map says.
///
/// # Errors
/// What the kernel answers: a file system that cannot map accounts is `INVAL`.
pub fn restrict(
    mount: BorrowedFd<'_>,
    attributes: Attributes,
    accounts: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    const RECURSIVE: i32 = 0x8000;
    set(mount, attributes, accounts, RECURSIVE)
}

/// The same for one mount and nothing below.
///
/// # Errors
/// What the kernel answers.
pub fn restrict_alone(mount: BorrowedFd<'_>, attributes: Attributes) -> Result<(), Errno> {
    set(mount, attributes, None, 0)
}

fn set(
    mount: BorrowedFd<'_>,
    attributes: Attributes,
    accounts: Option<BorrowedFd<'_>>,
    flags: i32,
) -> Result<(), Errno> {
    const MAP_ACCOUNTS: u64 = 0x0010_0000;
    let namespace = accounts.map(|namespace| u64::from(namespace.as_raw_fd().unsigned_abs()));
    let structure = MountAttributes {
        set: u64::from(attributes.0.bits()) | namespace.map_or(0, |_| MAP_ACCOUNTS),
        clear: 0,
        propagation: 0,
        user_namespace: namespace.unwrap_or(0),
    };
    // SAFETY: both descriptors are open, the path ends with NUL, and the structure is the one the kernel knows by this size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            &raw const structure,
            size_of::<MountAttributes>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS))
    }
}

/// Puts a mount onto what was opened.
///
/// # Errors
/// What the kernel answers.
pub fn put(mount: BorrowedFd<'_>, onto: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, c"", onto, c"", flags)
}

/// Puts a mount onto an entry of a directory. A link is not followed.
///
/// # Errors
/// What the kernel answers.
pub fn put_at(mount: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    rustix::mount::move_mount(
        mount,
        c"",
        directory,
        name,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

/// Puts a mount over the root of this process, which goes on seeing what is below.
///
/// # Errors
/// What the kernel answers.
pub fn put_over_root(mount: BorrowedFd<'_>) -> Result<(), Errno> {
    put_at(mount, CWD, c"/")
}

/// Makes a mount the root of every process in this namespace that had the old one, which is gone afterwards.
///
/// # Errors
/// What the kernel answers.
pub fn make_root(mount: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::process::fchdir(mount)?;
    rustix::process::pivot_root(c".", c".")?;
    // It lies over the new one, at the same place.
    rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
    rustix::process::chdir(c"/")
}

/// Opens what a path means below a directory that is taken for the root, links included.
///
/// # Errors
/// What the kernel answers.
pub fn open_below(root: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(
        root,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Opens a path on which no link lies.
///
/// # Errors
/// What the kernel answers; `LOOP` for a link.
pub fn open_without_links(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// The directory in which this process stands, in the mount namespace that it has by now.
///
/// # Errors
/// What the kernel answers.
pub fn clone_here() -> Result<OwnedFd, Errno> {
    clone(c".")
}

/// A descriptor of an entry, for callers who look at it first.
///
/// # Errors
/// What the kernel answers.
pub fn open_entry(directory: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}
