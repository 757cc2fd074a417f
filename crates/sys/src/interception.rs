//! Calls of the kernel that another process answers in place of the kernel: seccomp user notification.
//!
//! A process installs a [`Filter`] in itself right before it executes a program. The file calls of that program and of
//! everything that it starts then wait until the holder of the [`Listener`] answers: with the kernel's own work, a
//! number, an error, or a descriptor in place of the file that a path names. An answer with a descriptor has no race: the
//! kernel does not look at the path. Nothing may be *allowed* because of what stands in the memory of the caller, which
//! can change it after it was read.
#![expect(
    unsafe_code,
    reason = "seccomp, its listener and the memory of another process have no safe wrapper in rustix"
)]

use std::{
    ffi::c_void,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::OnceLock,
    thread,
};

use rustix::{
    cmsg_space,
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
};

use super::{
    clock,
    metadata::Form,
    process::{self, Pid},
};

/// Longest path that the kernel takes, its NUL included.
pub const PATH_BYTES: usize = 4096;
/// What stands for the working directory of a caller in place of a descriptor.
pub const WORKING_DIRECTORY: i32 = libc::AT_FDCWD;
/// The pieces in which memory of another process is read: none of them crosses the end of a page.
const PAGE_BYTES: u64 = 4096;

const NEW_LISTENER: libc::c_ulong = 1 << 3;
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;
const SYNC_WAKE_UP: u64 = 1;
const CONTINUE: u32 = 1;
const ADDFD_SEND: u32 = 1 << 1;
const SET_MODE_FILTER: libc::c_uint = 1;
const GET_NOTIF_SIZES: libc::c_uint = 3;

const IOCTL_RECEIVE: u64 = 0xc050_2100;
const IOCTL_SEND: u64 = 0xc018_2101;
const IOCTL_ID_VALID: u64 = 0x4008_2102;
const IOCTL_ADDFD: u64 = 0x4018_2103;
const IOCTL_SET_FLAGS: u64 = 0x4008_2104;

/// `struct seccomp_data` of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Data {
    number: i32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif` of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    data: Data,
}

/// `struct seccomp_notif_resp` of the kernel.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd` of the kernel.
#[repr(C)]
struct Added {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

/// `struct seccomp_notif_sizes` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Sizes {
    notification: u16,
    response: u16,
    data: u16,
}

/// What a caller wants of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To open a path.
    Open {
        /// The directory that a relative path begins at, as the caller numbers it.
        directory: i32,
        /// Where the path lies in its memory.
        path: u64,
        /// Flags, where they are an argument.
        flags: Flags,
    },
    /// To change the content or the name of what is at a path.
    Change {
        /// As for [`Wish::Open`].
        directory: i32,
        /// As for [`Wish::Open`].
        path: u64,
    },
    /// To give what is at one path another.
    Rename {
        /// Directory and path as it is.
        from: (i32, u64),
        /// Directory and path as it is to be.
        to: (i32, u64),
    },
    /// To know its working directory.
    WorkingDirectory {
        /// Where the text goes.
        buffer: u64,
        /// Room there, in bytes.
        size: u64,
    },
    /// To know where a link leads.
    ReadLink {
        /// As for [`Wish::Open`].
        directory: i32,
        /// As for [`Wish::Open`].
        path: u64,
        /// Where the text goes.
        buffer: u64,
        /// Room there, in bytes.
        size: u64,
    },
    /// To know what is at a path.
    Look {
        /// As for [`Wish::Open`].
        directory: i32,
        /// As for [`Wish::Open`].
        path: u64,
        /// Whether a link at its end is followed.
        follows: bool,
        /// What is to be written.
        form: Form,
        /// Where it goes, in the memory of the caller.
        buffer: u64,
    },
    /// To know whether what is at a path may be read, written or executed.
    Reach {
        /// As for [`Wish::Open`].
        directory: i32,
        /// As for [`Wish::Open`].
        path: u64,
        /// Which of it, as `access` numbers them.
        mode: u64,
    },
    /// To make what is at a path its working directory.
    Enter {
        /// Where the path lies in its memory.
        path: u64,
    },
    /// To make what it has open its working directory.
    EnterOpen,
    /// To start another process that has its working directory, or another parent. Other processes, and threads of its own,
    /// it starts without asking: an interrupted question would fail, and nobody expects that of `fork`.
    Clone {
        /// Whether both have one working directory from then on.
        shares_directory: bool,
        /// Whether its own parent becomes that of the other one too.
        shares_parent: bool,
    },
    /// To become the parent of what its descendants leave behind.
    Adopt,
    /// To become the program at a path.
    Execute {
        /// As for [`Wish::Open`].
        directory: i32,
        /// As for [`Wish::Open`].
        path: u64,
    },
}

/// Where the flags of an opening are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flags {
    /// These, as `open` numbers them.
    Are(u64),
    /// In the first eight bytes of a structure in the memory of the caller.
    At(u64),
}

/// One call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    id: u64,
    /// The thread that waits.
    pub pid: Pid,
    /// What it wants; `None` for nothing that a filter of this version stops.
    pub wish: Option<Wish>,
}

/// The architecture of this program, as the kernel numbers it; other ones have other numbers of calls.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// The calls that wait for an answer.
#[cfg(target_arch = "x86_64")]
const STOPPED: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_open,
    libc::SYS_openat2,
    libc::SYS_creat,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_truncate,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_open_tree,
    libc::SYS_name_to_handle_at,
    process::CLONE,
    libc::SYS_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const STOPPED: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_truncate,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_open_tree,
    libc::SYS_name_to_handle_at,
    process::CLONE,
    libc::SYS_prctl,
];

/// Those of them that ask about an open file, and not about a path, with this very flag in this argument.
const OF_OPEN_FILES: &[(i64, u32)] = &[(libc::SYS_newfstatat, 3), (libc::SYS_statx, 2)];

impl Wish {
    fn of(data: &Data) -> Option<Self> {
        const HERE: i32 = WORKING_DIRECTORY;
        let [a, b, c, d, statx, _] = data.arguments;
        // The kernel looks at the lower half of these arguments only.
        let directory = |argument: u64| {
            let [b0, b1, b2, b3, ..] = argument.to_le_bytes();
            i32::from_le_bytes([b0, b1, b2, b3])
        };
        let follows = |flags: u64| directory(flags) & libc::AT_SYMLINK_NOFOLLOW == 0;
        Some(match i64::from(data.number) {
            libc::SYS_openat => Self::Open {
                directory: directory(a),
                path: b,
                flags: Flags::Are(c),
            },
            libc::SYS_openat2 => Self::Open {
                directory: directory(a),
                path: b,
                flags: Flags::At(c),
            },
            libc::SYS_getcwd => Self::WorkingDirectory { buffer: a, size: b },
            libc::SYS_readlinkat => Self::ReadLink {
                directory: directory(a),
                path: b,
                buffer: c,
                size: d,
            },
            libc::SYS_truncate => Self::Change {
                directory: HERE,
                path: a,
            },
            libc::SYS_unlinkat => Self::Change {
                directory: directory(a),
                path: b,
            },
            libc::SYS_renameat | libc::SYS_renameat2 => Self::Rename {
                from: (directory(a), b),
                to: (directory(c), d),
            },
            libc::SYS_newfstatat => Self::Look {
                directory: directory(a),
                path: b,
                follows: follows(d),
                form: Form::Stat,
                buffer: c,
            },
            libc::SYS_statx => Self::Look {
                directory: directory(a),
                path: b,
                follows: follows(c),
                form: Form::Statx,
                buffer: statx,
            },
            libc::SYS_faccessat | libc::SYS_faccessat2 => Self::Reach {
                directory: directory(a),
                path: b,
                mode: c,
            },
            libc::SYS_chdir => Self::Enter { path: a },
            libc::SYS_fchdir => Self::EnterOpen,
            // As good as opened with `O_PATH`.
            libc::SYS_open_tree | libc::SYS_name_to_handle_at => Self::Open {
                directory: directory(a),
                path: b,
                flags: Flags::Are(u64::from(libc::O_PATH.unsigned_abs())),
            },
            process::CLONE => Self::Clone {
                shares_directory: directory(a) & libc::CLONE_FS != 0,
                shares_parent: directory(a) & libc::CLONE_PARENT != 0,
            },
            libc::SYS_prctl => Self::Adopt,
            process::EXECVE => Self::Execute {
                directory: HERE,
                path: a,
            },
            process::EXECVEAT => Self::Execute {
                directory: directory(a),
                path: b,
            },
            number => return Self::of_old(number, data.arguments),
        })
    }

    /// The calls that only older architectures have.
    #[cfg(target_arch = "x86_64")]
    const fn of_old(number: i64, [a, b, c, _, _, _]: [u64; 6]) -> Option<Self> {
        const HERE: i32 = WORKING_DIRECTORY;
        Some(match number {
            libc::SYS_open => Self::Open {
                directory: HERE,
                path: a,
                flags: Flags::Are(b),
            },
            libc::SYS_creat | libc::SYS_unlink => Self::Change {
                directory: HERE,
                path: a,
            },
            libc::SYS_rename => Self::Rename {
                from: (HERE, a),
                to: (HERE, b),
            },
            libc::SYS_readlink => Self::ReadLink {
                directory: HERE,
                path: a,
                buffer: b,
                size: c,
            },
            libc::SYS_stat | libc::SYS_lstat => Self::Look {
                directory: HERE,
                path: a,
                follows: number == libc::SYS_stat,
                form: Form::Stat,
                buffer: b,
            },
            libc::SYS_access => Self::Reach {
                directory: HERE,
                path: a,
                mode: b,
            },
            _ => return None,
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    const fn of_old(_number: i64, _arguments: [u64; 6]) -> Option<Self> {
        None
    }
}

/// What else a filter does for a program that is held to rules of [`super::landlock`]: what those do not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeptCalls {
    /// Which files are executed. A file without a name can have no rule, so there is none that could be executed; and who
    /// holds the listener hears of every execution but the first, and lets it through.
    pub starts: bool,
    /// To which TCP ports connections are made: neither by the first packet of data, nor by protocols that turn into TCP.
    pub connects: bool,
}

impl KeptCalls {
    const NONE: Self = Self {
        starts: false,
        connects: false,
    };
}

/// What makes the calls of a program wait, ready for the kernel.
#[derive(Debug)]
pub struct Filter {
    program: Vec<libc::sock_filter>,
    /// What is installed where nobody listens, or can: the same without calls that wait. `None` where that would not do.
    quiet: Option<Vec<libc::sock_filter>>,
    /// The mark of the execution that is not asked about.
    mark: u64,
}

/// Whose calls wait.
#[derive(Debug, Clone, Copy)]
struct Stopping<'a> {
    /// These calls of files.
    files: &'a [i64],
    /// Executions.
    executions: bool,
}

const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const REFUSE: u32 = 0x0005_0000;
const MISSING: u32 = REFUSE | libc::ENOSYS.unsigned_abs();
const STOP: u32 = 0x7fc0_0000;
const ALLOW: u32 = 0x7fff_0000;
/// Where the arguments begin in `struct seccomp_data`. The lower half of each comes first.
const ARGUMENTS: u32 = 16;

const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn number(call: i64) -> Option<u32> {
    u32::try_from(call).ok()
}

impl Filter {
    /// Translates the list; `None` for an architecture whose numbers are not known here.
    ///
    /// Calls of another architecture (32-bit programs on a 64-bit machine) and of the ring that opens files without a
    /// call do not exist for the program: they would get past it. Nor does `clone3`, which says in memory what it starts:
    /// libraries then use `clone`.
    pub fn new() -> Option<Self> {
        Self::of(STOPPED, KeptCalls::NONE)
    }

    /// For a program that is held to rules, with or without scripts of which it must read what was checked. Calls of another
    /// architecture do not exist for it either.
    pub fn keeping(kept: KeptCalls, has_scripts: bool) -> Option<Self> {
        Self::of(if has_scripts { STOPPED } else { &[] }, kept)
    }

    /// The first execution has a mark that no program can know: of what a process was, nothing is left when it is executed.
    fn of(files: &[i64], kept: KeptCalls) -> Option<Self> {
        let mut mark = [0; 8];
        clock::Ids::secret_bytes(&clock::SystemIds, &mut mark);
        let mark = u64::from_ne_bytes(mark);
        let build = |executions| Self::translated(Stopping { files, executions }, kept, mark);
        Some(Self {
            program: build(kept.starts)?,
            quiet: files.is_empty().then(|| build(false)).flatten(),
            mark,
        })
    }

    /// The mark that the execution of the program itself must have as its sixth argument, which the kernel does not look at.
    pub const fn mark(&self) -> u64 {
        self.mark
    }

    fn translated(stopping: Stopping<'_>, kept: KeptCalls, mark: u64) -> Option<Vec<libc::sock_filter>> {
        const X32: u32 = 0x4000_0000;
        const SHARES: u32 = (libc::CLONE_FS | libc::CLONE_PARENT).unsigned_abs();
        let Stopping {
            files: stopped,
            executions,
        } = stopping;
        let mut program = vec![
            instruction(LOAD_WORD, 0, 0, 4),
            instruction(JUMP_IF_EQUAL, 1, 0, ARCHITECTURE?),
            instruction(RETURN, 0, 0, MISSING),
            instruction(LOAD_WORD, 0, 0, 0),
            instruction(JUMP_IF_AT_LEAST, 0, 1, X32),
            instruction(RETURN, 0, 0, MISSING),
        ];
        // It opens files, and sends, without a call.
        if !stopped.is_empty() || kept.connects {
            program.extend([
                instruction(JUMP_IF_EQUAL, 0, 1, number(libc::SYS_io_uring_setup)?),
                instruction(RETURN, 0, 0, MISSING),
            ]);
        }
        if kept.starts {
            program.extend(of_starts(executions, mark)?);
        }
        if kept.connects {
            program.extend(of_connections()?);
        }
        let of_open_files = OF_OPEN_FILES.iter().filter(|(call, _)| stopped.contains(call));
        for (call, argument) in of_open_files {
            program.extend([
                instruction(JUMP_IF_EQUAL, 0, 4, number(*call)?),
                // The lower half of the argument.
                instruction(LOAD_WORD, 0, 0, ARGUMENTS + 8 * argument),
                instruction(JUMP_IF_EQUAL, 0, 1, libc::AT_EMPTY_PATH.unsigned_abs()),
                instruction(RETURN, 0, 0, ALLOW),
                instruction(RETURN, 0, 0, STOP),
            ]);
        }
        if stopped.contains(&process::CLONE) {
            program.extend([
                instruction(JUMP_IF_EQUAL, 0, 1, number(process::CLONE3)?),
                instruction(RETURN, 0, 0, MISSING),
                instruction(JUMP_IF_EQUAL, 0, 5, number(process::CLONE)?),
                instruction(LOAD_WORD, 0, 0, ARGUMENTS),
                instruction(JUMP_IF_ANY_BIT, 1, 0, libc::CLONE_THREAD.unsigned_abs()),
                instruction(JUMP_IF_ANY_BIT, 1, 0, SHARES),
                instruction(RETURN, 0, 0, ALLOW),
                instruction(RETURN, 0, 0, STOP),
                instruction(JUMP_IF_EQUAL, 0, 4, number(libc::SYS_prctl)?),
                instruction(LOAD_WORD, 0, 0, ARGUMENTS),
                instruction(JUMP_IF_EQUAL, 1, 0, libc::PR_SET_CHILD_SUBREAPER.unsigned_abs()),
                instruction(RETURN, 0, 0, ALLOW),
                instruction(RETURN, 0, 0, STOP),
            ]);
        }
        for (at, call) in stopped.iter().enumerate() {
            // Past the rest of the list and the permission.
            let behind = u8::try_from(stopped.len() - at).ok()?;
            program.push(instruction(JUMP_IF_EQUAL, behind, 0, number(*call)?));
        }
        program.push(instruction(RETURN, 0, 0, ALLOW));
        program.push(instruction(RETURN, 0, 0, STOP));
        Some(program)
    }

    /// Puts it into this thread and what that becomes, and hands the listener over `to`, with `tag` as the only byte.
    ///
    /// Without `to`, and where another listener is there already, no call waits; a filter that needs answers cannot be installed then. A thread without privilege gains none by what it executes from then on. Safe to call
    /// between `clone` and `exec`: allocates nothing.
    ///
    /// # Errors
    /// What the kernel answers; then the thread must not execute anything.
    pub fn install(&self, to: Option<BorrowedFd<'_>>, tag: u8) -> Result<(), Errno> {
        let Some(to) = to else {
            return self.install_quietly(Errno::NOSYS);
        };
        let listener = match self.listen() {
            // Neither privileged nor without a way to become it.
            Err(Errno::ACCESS) => {
                rustix::thread::set_no_new_privs(true)?;
                self.listen()
            }
            listener => listener,
        };
        let listener = match listener {
            Ok(listener) => listener,
            Err(errno) => return self.install_quietly(errno),
        };
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [listener.as_fd()];
        if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(Errno::INVAL);
        }
        rustix::net::sendmsg(to, &[IoSlice::new(&[tag])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// `otherwise` is the error where calls must wait.
    fn install_quietly(&self, otherwise: Errno) -> Result<(), Errno> {
        let quiet = self.quiet.as_deref().ok_or(otherwise)?;
        match seccomp(quiet, 0) {
            Err(Errno::ACCESS) => {
                rustix::thread::set_no_new_privs(true)?;
                seccomp(quiet, 0)?;
            }
            done => drop(done?),
        }
        Ok(())
    }

    fn listen(&self) -> Result<OwnedFd, Errno> {
        let listener = match seccomp(&self.program, NEW_LISTENER | WAIT_KILLABLE) {
            // A kernel that lets a waiting call be interrupted: it begins anew then.
            Err(Errno::INVAL) => seccomp(&self.program, NEW_LISTENER),
            listener => listener,
        };
        let number = i32::try_from(listener?).map_err(|_no_descriptor| Errno::IO)?;
        // SAFETY: the kernel just made this descriptor, close-on-exec, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }
}

fn seccomp(program: &[libc::sock_filter], flags: libc::c_ulong) -> Result<i64, Errno> {
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len()).map_err(|_too_long| Errno::TOOBIG)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, whose length is right and whose instructions have the kernel's form.
    done(unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const program) })
}

/// Executions and files without a name, for a filter that has loaded the number of the call.
fn of_starts(are_heard: bool, mark: u64) -> Option<Vec<libc::sock_filter>> {
    /// `MFD_NOEXEC_SEAL`: it can never be executed.
    const NEVER_EXECUTED: u32 = 8;
    let (low, high) = (
        u32::try_from(mark & 0xffff_ffff).ok()?,
        u32::try_from(mark >> 32).ok()?,
    );
    let otherwise = if are_heard { STOP } else { ALLOW };
    let (execve, execveat) = (number(process::EXECVE)?, number(process::EXECVEAT)?);
    Some(vec![
        instruction(JUMP_IF_EQUAL, 0, 4, number(libc::SYS_memfd_create)?),
        instruction(LOAD_WORD, 0, 0, ARGUMENTS + 8),
        instruction(JUMP_IF_ANY_BIT, 1, 0, NEVER_EXECUTED),
        instruction(RETURN, 0, 0, REFUSE | libc::EPERM.unsigned_abs()),
        instruction(RETURN, 0, 0, ALLOW),
        instruction(JUMP_IF_EQUAL, 1, 0, execve),
        instruction(JUMP_IF_EQUAL, 0, 11, execveat),
        // That of the program itself.
        instruction(LOAD_WORD, 0, 0, ARGUMENTS + 8 * 5),
        instruction(JUMP_IF_EQUAL, 0, 3, low),
        instruction(LOAD_WORD, 0, 0, ARGUMENTS + 8 * 5 + 4),
        instruction(JUMP_IF_EQUAL, 0, 1, high),
        instruction(RETURN, 0, 0, ALLOW),
        // What is only open was never looked at by its name.
        instruction(LOAD_WORD, 0, 0, 0),
        instruction(JUMP_IF_EQUAL, 3, 0, execve),
        instruction(LOAD_WORD, 0, 0, ARGUMENTS + 8 * 4),
        instruction(JUMP_IF_ANY_BIT, 0, 1, libc::AT_EMPTY_PATH.unsigned_abs()),
        instruction(RETURN, 0, 0, REFUSE | libc::EPERM.unsigned_abs()),
        instruction(RETURN, 0, 0, otherwise),
    ])
}

/// Ways to a TCP port past the call that is checked, for a filter that has loaded the number of the call. Programs know
/// the answers from kernels that do not have these ways.
fn of_connections() -> Option<Vec<libc::sock_filter>> {
    const FAST_OPEN: u32 = 0x2000_0000;
    const NO_FAST_OPEN: u32 = REFUSE | libc::EOPNOTSUPP.unsigned_abs();
    const NO_PROTOCOL: u32 = REFUSE | libc::EPROTONOSUPPORT.unsigned_abs();
    const MPTCP: u32 = 262;
    const SMC: u32 = 256;
    const AF_SMC: u32 = 43;
    let mut program = vec![
        instruction(JUMP_IF_EQUAL, 0, 7, number(libc::SYS_socket)?),
        instruction(LOAD_WORD, 0, 0, ARGUMENTS),
        instruction(JUMP_IF_EQUAL, 3, 0, AF_SMC),
        instruction(LOAD_WORD, 0, 0, ARGUMENTS + 8 * 2),
        instruction(JUMP_IF_EQUAL, 1, 0, MPTCP),
        instruction(JUMP_IF_EQUAL, 0, 1, SMC),
        instruction(RETURN, 0, 0, NO_PROTOCOL),
        instruction(RETURN, 0, 0, ALLOW),
    ];
    for (call, argument) in [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ] {
        program.extend([
            instruction(JUMP_IF_EQUAL, 0, 4, number(call)?),
            instruction(LOAD_WORD, 0, 0, ARGUMENTS + 8 * argument),
            instruction(JUMP_IF_ANY_BIT, 0, 1, FAST_OPEN),
            instruction(RETURN, 0, 0, NO_FAST_OPEN),
            instruction(RETURN, 0, 0, ALLOW),
        ]);
    }
    Some(program)
}

/// Whether this kernel lets a call be answered with a descriptor, and lets this program ask for it.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        // In a thread of its own: a filter is for the rest of a thread's life.
        has_our_sizes()
            && reads_descendants()
            && thread::spawn(answers_with_descriptors).join().unwrap_or(false)
    })
}

fn has_our_sizes() -> bool {
    let mut sizes = Sizes::default();
    // SAFETY: the kernel writes the three numbers.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, GET_NOTIF_SIZES, 0_u64, &raw mut sizes) };
    result == 0
        && usize::from(sizes.notification) == size_of::<Notification>()
        && usize::from(sizes.response) == size_of::<Response>()
        && usize::from(sizes.data) == size_of::<Data>()
}

/// Whether the system leaves a process the memory of its descendants.
fn reads_descendants() -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    scope.map_or(true, |scope| matches!(scope.trim(), "0" | "1"))
}

/// In a thread of its own.
fn answers_with_descriptors() -> bool {
    // Nothing that this thread still does may wait for an answer.
    let Some(filter) = Filter::keeping(KeptCalls::NONE, false) else {
        return false;
    };
    if rustix::thread::set_no_new_privs(true).is_err() {
        return false;
    }
    let Ok(listener) = filter.listen() else {
        return false;
    };
    let added = Added {
        id: u64::MAX,
        flags: ADDFD_SEND,
        source: 0,
        target: 0,
        target_flags: 0,
    };
    // No such call waits; a kernel that does not know the flag says so before it looks.
    control(listener.as_fd(), IOCTL_ADDFD, (&raw const added).cast()) == Err(Errno::NOENT)
}

/// The end at which the calls of one program, and of what it starts, are answered.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Takes over what [`Filter::install`] handed over.
    pub fn new(descriptor: OwnedFd) -> Self {
        // Faster where the kernel knows it, and nothing else.
        control(
            descriptor.as_fd(),
            IOCTL_SET_FLAGS,
            std::ptr::without_provenance(usize::try_from(SYNC_WAKE_UP).unwrap_or(0)),
        )
        .unwrap_or(());
        Self(descriptor)
    }

    /// The next call that waits. To be called when the descriptor is readable.
    ///
    /// # Errors
    /// `NOENT` when the call was given up meanwhile; otherwise what the kernel answers.
    pub fn receive(&self) -> Result<Call, Errno> {
        let mut notification = Notification::default();
        control(
            self.0.as_fd(),
            IOCTL_RECEIVE,
            (&raw mut notification).cast_const().cast(),
        )?;
        let Notification {
            id,
            pid,
            flags: _,
            data,
        } = notification;
        let is_ours = ARCHITECTURE == Some(data.architecture);
        Ok(Call {
            id,
            pid: Pid::try_from(pid).map_err(|_no_process| Errno::SRCH)?,
            wish: is_ours.then(|| Wish::of(&data)).flatten(),
        })
    }

    /// Whether the call still waits: what was read from its memory and from its directory in `/proc` was of this caller.
    pub fn still_waits(&self, call: &Call) -> bool {
        control(self.0.as_fd(), IOCTL_ID_VALID, (&raw const call.id).cast()).is_ok()
    }

    /// Lets the kernel do what it would have done.
    pub fn let_through(&self, call: &Call) {
        self.send(call, 0, 0, CONTINUE);
    }

    /// The call comes to this number.
    pub fn answer(&self, call: &Call, value: i64) {
        self.send(call, value, 0, 0);
    }

    /// The call fails with this error.
    pub fn refuse(&self, call: &Call, errno: Errno) {
        self.send(call, 0, -errno.raw_os_error(), 0);
    }

    /// The call comes to a new descriptor of the caller for what is open here.
    pub fn answer_with(&self, call: &Call, file: BorrowedFd<'_>, closes_on_exec: CloseOnExec) {
        let added = Added {
            id: call.id,
            flags: ADDFD_SEND,
            source: file.as_raw_fd().unsigned_abs(),
            target: 0,
            target_flags: match closes_on_exec {
                CloseOnExec::Yes => libc::O_CLOEXEC.unsigned_abs(),
                CloseOnExec::No => 0,
            },
        };
        match control(self.0.as_fd(), IOCTL_ADDFD, (&raw const added).cast()) {
            // Given up meanwhile: nobody waits.
            Ok(()) | Err(Errno::NOENT) => {}
            // The limits of the caller, in most cases.
            Err(errno) => self.refuse(call, errno),
        }
    }

    fn send(&self, call: &Call, value: i64, error: i32, flags: u32) {
        let response = Response {
            id: call.id,
            value,
            error,
            flags,
        };
        // It fails only where nobody waits any more.
        control(self.0.as_fd(), IOCTL_SEND, (&raw const response).cast()).unwrap_or(());
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether a descriptor stays open in what its owner executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseOnExec {
    /// It is closed there.
    Yes,
    /// It stays open there.
    No,
}

/// Reads a text that ends with NUL from the memory of a process; what comes back is without it.
///
/// # Errors
/// `NAMETOOLONG` when there is no NUL in a buffer of that size, `PERM` for memory that is not to be looked at;
/// otherwise what the kernel answers.
pub fn read_text(pid: Pid, address: u64, buffer: &mut [u8; PATH_BYTES]) -> Result<usize, Errno> {
    let mut length = 0;
    loop {
        let from = address.wrapping_add(length as u64);
        let to_page_end = usize::try_from(PAGE_BYTES - from % PAGE_BYTES).unwrap_or(PATH_BYTES);
        let rest = buffer.get_mut(length..).unwrap_or_default();
        let room = rest.len().min(to_page_end);
        let piece = rest.get_mut(..room).filter(|piece| !piece.is_empty());
        let piece = piece.ok_or(Errno::NAMETOOLONG)?;
        let read = read_memory(pid, from, piece)?;
        let piece = piece
            .get(..read)
            .filter(|piece| !piece.is_empty())
            .ok_or(Errno::FAULT)?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            return Ok(length + end);
        }
        length += read;
    }
}

/// Reads memory of a process.
///
/// # Errors
/// What the kernel answers.
pub fn read_memory(pid: Pid, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::without_provenance_mut::<c_void>(usize::try_from(address).unwrap_or(0)),
        iov_len: into.len(),
    };
    // SAFETY: the local buffer is valid for writing its length; the remote address is only looked up in that process.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(done(i64::try_from(read).unwrap_or(-1))?).map_err(|_negative| Errno::IO)
}

fn done(result: i64) -> Result<i64, Errno> {
    if result < 0 {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS))
    } else {
        Ok(result)
    }
}

fn control(listener: BorrowedFd<'_>, request: u64, argument: *const c_void) -> Result<(), Errno> {
    // SAFETY: every caller passes the structure (or the number) that the kernel takes for this request.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, listener.as_raw_fd(), request, argument) };
    done(result).map(|_zero| ())
}

const _: () = assert!(size_of::<Notification>() == 80 && size_of::<Response>() == 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_across_pages_and_never_past_their_end() {
        let own = process::own_id();
        let mut buffer = [0; PATH_BYTES];
        let mut text = vec![b'x'; 3 * 4096];
        text[4000] = 0;
        for from in [0, 10, 3999, 4000] {
            let address = text.as_ptr() as u64 + from;
            let length = read_text(own, address, &mut buffer).unwrap();
            assert_eq!(length as u64, 4000 - from);
        }
        let address = text.as_ptr() as u64 + 4001;
        assert_eq!(read_text(own, address, &mut buffer), Err(Errno::NAMETOOLONG));
        assert_eq!(read_text(own, 8, &mut buffer), Err(Errno::FAULT));
    }

    #[test]
    fn every_call_that_waits_is_understood() {
        for call in STOPPED {
            let data = Data {
                number: i32::try_from(*call).unwrap(),
                ..Data::default()
            };
            assert!(Wish::of(&data).is_some(), "{call}");
        }
    }

    #[test]
    fn a_thread_that_asks_whether_it_is_possible_goes_on() {
        assert_eq!(is_available(), is_available());
        assert!(std::fs::read("/proc/self/stat").is_ok());
    }
}
