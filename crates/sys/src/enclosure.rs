//! Namespaces of every kind for one run, and what their first processes give up.
//!
//! One concern of the kernel per function; their order is `countersign_runner`'s business.
#![expect(
    unsafe_code,
    reason = "unshare, interface flags, resource limits by number and seccomp have no safe wrapper in rustix"
)]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Gid, Mode, OFlags, Uid},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType},
    thread::UnshareFlags,
};

use super::{landlock, namespace, system_calls::Filters};

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS)
}

/// Gives up root for an account that owns nothing. For a process with one thread.
///
/// # Errors
/// What the kernel answers.
pub fn become_nobody(uid: u32, gid: u32) -> Result<(), Errno> {
    rustix::thread::set_thread_groups(&[])?;
    let gid = Gid::from_raw(gid);
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    let uid = Uid::from_raw(uid);
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

/// Makes new namespaces of every kind for this process, and for its children a new space of process numbers. In the
/// new user namespace it has every capability.
///
/// # Errors
/// What the kernel answers: without user namespaces, or where they are forbidden, a refusal.
pub fn unshare() -> Result<(), Errno> {
    let flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    // SAFETY: the table of descriptors stays shared as it was, which is the one thing that can go wrong.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// In the new user namespace the account of this process, and it alone, has a name: another number. While this process
/// cannot be dumped, the files behind this belong to root.
///
/// # Errors
/// What the kernel answers.
pub fn map_account(own: (u32, u32), inside: (u32, u32)) -> Result<(), Errno> {
    write(c"/proc/self/setgroups", b"deny")?;
    write(
        c"/proc/self/uid_map",
        format!("{} {} 1", inside.0, own.0).as_bytes(),
    )?;
    write(
        c"/proc/self/gid_map",
        format!("{} {} 1", inside.1, own.1).as_bytes(),
    )
}

/// A user namespace that is good for one thing: files of one account belong to another one on a mount that it maps.
///
/// # Errors
/// What the kernel answers.
pub fn account_map(owner: (u32, u32), instead: (u32, u32)) -> io::Result<OwnedFd> {
    use super::process::{Forked, exit_now, fork, wait_for};
    let (ready, made) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (stay, go) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match fork()? {
        Forked::Child => {
            drop((ready, go));
            // SAFETY: as in `unshare`.
            let code = match unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) } {
                Ok(()) => {
                    rustix::io::write(&made, &[1]).unwrap_or(0);
                    // Until the parent has what it wants, or is gone.
                    rustix::io::read(&stay, &mut [0; 1]).unwrap_or(0);
                    0
                }
                Err(_) => 1,
            };
            exit_now(code)
        }
        Forked::Parent(pid) => {
            drop((made, stay));
            let namespace = if rustix::io::read(&ready, &mut [0; 1]) == Ok(1) {
                name_accounts(pid, owner, instead)
            } else {
                Err(Errno::PERM)
            };
            drop(go);
            wait_for(pid)?;
            Ok(namespace?)
        }
    }
}

fn name_accounts(pid: i32, owner: (u32, u32), instead: (u32, u32)) -> Result<OwnedFd, Errno> {
    write(
        format!("/proc/{pid}/uid_map"),
        format!("{} {} 1", owner.0, instead.0).as_bytes(),
    )?;
    write(
        format!("/proc/{pid}/gid_map"),
        format!("{} {} 1", owner.1, instead.1).as_bytes(),
    )?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/{pid}/ns/user"), flags, Mode::empty())
}

/// One write: these files take their whole content at once or not at all.
fn write(path: impl rustix::path::Arg, text: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    if rustix::io::write(&file, text)? == text.len() {
        Ok(())
    } else {
        Err(Errno::IO)
    }
}

/// Nobody in this user namespace makes another one. Before `/proc` of the machine is out of reach.
///
/// # Errors
/// What the kernel answers.
pub fn forbid_user_namespaces() -> Result<(), Errno> {
    write(c"/proc/sys/user/max_user_namespaces", b"0")
}

/// The name of the machine, inside.
///
/// # Errors
/// What the kernel answers.
pub fn set_host_name(name: &CStr) -> Result<(), Errno> {
    rustix::system::sethostname(name.to_bytes())
}

/// Makes the loopback addresses work in this network namespace.
///
/// # Errors
/// What the kernel answers.
pub fn bring_loopback_up() -> Result<(), Errno> {
    #[repr(C)]
    struct Request {
        name: [u8; libc::IFNAMSIZ],
        flags: libc::c_short,
        rest: [u8; 22],
    }
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut name = [0; libc::IFNAMSIZ];
    if let Some([l, o]) = name.get_mut(..2) {
        (*l, *o) = (b'l', b'o');
    }
    let up = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(1);
    let request = Request {
        name,
        flags: up,
        rest: [0; 22],
    };
    // SAFETY: the structure is as long as the kernel's, is only read, and outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// A limit of what this process and its children use, as the kernel numbers them. Nobody raises it again: it is never
/// above what this process may have.
///
/// # Errors
/// What the kernel answers.
pub fn set_limit(resource: u8, soft: u64, hard: u64) -> Result<(), Errno> {
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is valid for writing; a number that is no limit is refused.
    if unsafe { libc::getrlimit(libc::c_uint::from(resource), &raw mut now) } != 0 {
        return Err(last_error());
    }
    let hard = hard.min(now.rlim_max);
    let limit = libc::rlimit {
        rlim_cur: soft.min(hard),
        rlim_max: hard,
    };
    // SAFETY: the structure is only read.
    if unsafe { libc::setrlimit(libc::c_uint::from(resource), &raw const limit) } != 0 {
        return Err(last_error());
    }
    Ok(())
}

/// What a command of a sandbox gives up right before it is executed.
#[derive(Debug, Clone, Copy)]
pub struct Surrender<'a> {
    /// Signals and abstract sockets stay inside, where the kernel can.
    pub scopes: Option<BorrowedFd<'a>>,
    /// Which calls of the kernel are refused.
    pub filters: &'a Filters,
}

impl Surrender<'_> {
    /// Gives it up for good, the filters last: they may refuse what comes before.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn give_up(&self) -> Result<(), Errno> {
        let Self { scopes, filters } = self;
        give_up_rights()?;
        if let Some(scopes) = scopes {
            landlock::restrict(scopes.as_fd())?;
        }
        filters.apply()
    }
}

/// No capability, and none by way of a program.
///
/// # Errors
/// What the kernel answers.
pub fn give_up_rights() -> Result<(), Errno> {
    namespace::drop_capabilities()?;
    rustix::thread::set_no_new_privs(true)
}
