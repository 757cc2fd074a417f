//! Which calls of the kernel a command of a sandbox cannot make.
//!
//! The list names what is forbidden: what namespaces, mounts and missing capabilities keep from a command anyway, and
//! what has let programs out of such places before. A number that is newer than this list, or of another calling
//! convention, does not exist for a command.
#![expect(unsafe_code, reason = "seccomp has no safe wrapper in rustix")]

use std::{collections::BTreeMap, io};

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

use super::process::{CLONE, CLONE3};

/// The first number of a call that was not thought about.
const FIRST_UNKNOWN: u32 = 463;

/// A call of the kernel: its name, which may have `SYS_` before it, and its number.
type Call = (&'static str, i64);

/// Calls by their names.
macro_rules! calls {
    ($($call:ident),* $(,)?) => { &[$((stringify!($call), libc::$call)),*] };
}

/// Refused with `EPERM` for any arguments.
const REFUSED: &[Call] = calls![
    SYS_acct,
    SYS_add_key,
    SYS_bpf,
    SYS_chroot,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_fanotify_init,
    SYS_fanotify_mark,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_get_mempolicy,
    SYS_init_module,
    SYS_kcmp,
    SYS_kexec_file_load,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_lookup_dcookie,
    SYS_mbind,
    SYS_migrate_pages,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_move_pages,
    SYS_name_to_handle_at,
    SYS_nfsservctl,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_pidfd_getfd,
    SYS_pivot_root,
    SYS_process_madvise,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_reboot,
    SYS_request_key,
    SYS_set_mempolicy,
    SYS_set_mempolicy_home_node,
    SYS_setdomainname,
    SYS_sethostname,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_umount2,
    SYS_unshare,
    SYS_userfaultfd,
    SYS_vhangup,
];

/// Do not exist: programs have other ways to the same, which can be looked into.
const MISSING: &[Call] = &[
    ("clone3", CLONE3),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("io_uring_register", libc::SYS_io_uring_register),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("openat2", libc::SYS_openat2),
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[Call] = calls![
    SYS__sysctl,
    SYS_ioperm,
    SYS_iopl,
    SYS_modify_ldt,
    SYS_sysfs,
    SYS_uselib,
    SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[Call] = &[];

/// The calls that take the mode of a file, and which argument it is. Rights of the owner by way of the file are refused
/// in each: a file of a sandbox may belong to root outside.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    // fchmodat2, which libc does not name on every platform.
    (452, 2),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
];

#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(i64, u8)] = &[
    (libc::SYS_chmod, 1),
    (libc::SYS_creat, 1),
    (libc::SYS_mkdir, 1),
    (libc::SYS_mknod, 1),
];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(i64, u8)] = &[];

/// The calls that open a file: which argument holds the flags, and which the mode of a file that is made.
#[cfg(target_arch = "x86_64")]
const OPENS: &[(i64, u8, u8)] = &[(libc::SYS_openat, 2, 3), (libc::SYS_open, 1, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS: &[(i64, u8, u8)] = &[(libc::SYS_openat, 2, 3)];

/// The calls that make devices, and which argument holds the kind.
#[cfg(target_arch = "x86_64")]
const DEVICES: &[(i64, u8)] = &[(libc::SYS_mknodat, 2), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const DEVICES: &[(i64, u8)] = &[(libc::SYS_mknodat, 2)];

/// Rights that a file gives to anyone who runs it.
pub const RIGHTS: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Flags with which opening makes a file.
pub const MAKING: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// Namespaces that `clone` could make.
pub const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWTIME,
];

/// Families of sockets that there are.
pub const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Personalities that there are: the usual one, and the question which it is.
pub const PERSONALITIES: [u64; 2] = [0, 0xffff_ffff];

/// Requests that type into a terminal in place of its user, who may be another person; the second one is for consoles.
pub const TYPING: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// The names of the calls that do not exist.
pub fn missing() -> impl Iterator<Item = &'static str> {
    names(MISSING)
}

/// The names of the calls that are refused for any arguments.
pub fn refused() -> impl Iterator<Item = &'static str> {
    names(REFUSED).chain(names(REFUSED_HERE))
}

fn names(calls: &'static [Call]) -> impl Iterator<Item = &'static str> {
    calls
        .iter()
        .map(|(name, _)| name.strip_prefix("SYS_").unwrap_or(name))
}

/// The tables, ready for the kernel.
#[derive(Debug)]
pub struct Filters([BpfProgram; 2]);

impl Filters {
    /// Translates the lists; `None` for a processor that the translation does not know.
    pub fn new() -> Option<Self> {
        Self::refusing(refusals()?)
    }

    /// The same where only certain files can be executed: no memory file, since even one that can never be executed can be
    /// mapped by a loader, and no socket, not even one that has a name in a directory.
    pub fn of_held_texts() -> Option<Self> {
        let mut rules = refusals()?;
        rules.insert(libc::SYS_socket, Vec::new());
        rules.insert(libc::SYS_memfd_create, Vec::new());
        rules.insert(libc::SYS_memfd_secret, Vec::new());
        Self::refusing(rules)
    }

    fn refusing(rules: Rules) -> Option<Self> {
        let refused = filter(rules, libc::EPERM)?;
        let missing: Rules = MISSING.iter().map(|(_, call)| (*call, Vec::new())).collect();
        Some(Self([unknown_calls(filter(missing, libc::ENOSYS)?), refused]))
    }

    /// Refuses them to this process and what it becomes. Needs `no_new_privs`.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn apply(&self) -> Result<(), Errno> {
        self.0.iter().try_for_each(|program| apply(program))
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(rules: Rules, errno: i32) -> Option<BpfProgram> {
    let architecture = std::env::consts::ARCH.try_into().ok()?;
    let action = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, action, architecture)
        .ok()?
        .try_into()
        .ok()
}

fn refusals() -> Option<Rules> {
    let mut rules = Rules::new();
    for (_, call) in REFUSED.iter().chain(REFUSED_HERE) {
        rules.insert(*call, Vec::new());
    }
    for (call, argument) in MODES.iter().chain(MODES_HERE) {
        let bits = RIGHTS.map(|bit| any(&[has_bit(*argument, bit.into())?]));
        rules.insert(*call, bits.into_iter().collect::<Option<_>>()?);
    }
    for (call, flags, mode) in OPENS {
        let mut of_call = Vec::new();
        for made in MAKING {
            for bit in RIGHTS {
                of_call.push(any(&[
                    has_bit(*flags, u64::from(made.unsigned_abs()))?,
                    has_bit(*mode, bit.into())?,
                ])?);
            }
        }
        rules.insert(*call, of_call);
    }
    // Pipes and sockets with names are made by the same calls as devices.
    for (call, mode) in DEVICES {
        for kind in [libc::S_IFCHR, libc::S_IFBLK] {
            let made = condition(*mode, SeccompCmpOp::MaskedEq(libc::S_IFMT.into()), kind.into())?;
            rules.entry(*call).or_default().push(any(&[made])?);
        }
    }
    let namespaces = NAMESPACES.map(|flag| any(&[has_bit(0, u64::from(flag.unsigned_abs()))?]));
    rules.insert(CLONE, namespaces.into_iter().collect::<Option<_>>()?);
    // Of the kernel's own channels the one that names interfaces and addresses, which programs ask for their own.
    let netlink = u64::from(libc::AF_NETLINK.unsigned_abs());
    let other_channel = any(&[
        is(0, netlink)?,
        is_not(2, u64::from(libc::NETLINK_ROUTE.unsigned_abs()))?,
    ])?;
    rules.insert(libc::SYS_socket, vec![other_family()?, other_channel]);
    rules.insert(libc::SYS_socketpair, vec![other_family()?]);
    let usual = PERSONALITIES.map(|value| is_not(0, value));
    let usual: Option<Vec<_>> = usual.into_iter().collect();
    rules.insert(libc::SYS_personality, vec![any(&usual?)?]);
    let typed = TYPING.map(|request| any(&[is(1, request)?]));
    rules.insert(libc::SYS_ioctl, typed.into_iter().collect::<Option<_>>()?);
    Some(rules)
}

fn other_family() -> Option<SeccompRule> {
    let families = FAMILIES.map(|family| is_not(0, u64::from(family.unsigned_abs())));
    let families: Option<Vec<_>> = families.into_iter().collect();
    any(&families?)
}

/// A rule that counts when all of these hold.
fn any(conditions: &[SeccompCondition]) -> Option<SeccompRule> {
    SeccompRule::new(conditions.to_vec()).ok()
}

fn has_bit(argument: u8, bit: u64) -> Option<SeccompCondition> {
    condition(argument, SeccompCmpOp::MaskedEq(bit), bit)
}

fn is(argument: u8, value: u64) -> Option<SeccompCondition> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: u64) -> Option<SeccompCondition> {
    condition(argument, SeccompCmpOp::Ne, value)
}

/// The kernel looks at the lower half of these arguments only, and so does the filter.
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Option<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).ok()
}

/// Puts in front: numbers past the list do not exist, and so neither do those of the x32 calling convention, which are
/// the same calls with a high bit.
fn unknown_calls(program: BpfProgram) -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ERRNO: u32 = 0x0005_0000;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let mut whole = vec![
        instruction(LOAD_WORD, 0, 0, 0),
        instruction(JUMP_IF_AT_LEAST, 0, 1, FIRST_UNKNOWN),
        instruction(RETURN, 0, 0, ERRNO | libc::ENOSYS.unsigned_abs()),
    ];
    whole.extend(program);
    whole
}

fn apply(program: &[sock_filter]) -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len()).map_err(|_too_long| Errno::TOOBIG)?,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    let no_flags: libc::c_ulong = 0;
    // SAFETY: the kernel copies the program, whose length is right and whose instructions have the kernel's form.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            no_flags,
            &raw const program,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_can_be_translated_and_fit() {
        for Filters(programs) in [Filters::new().unwrap(), Filters::of_held_texts().unwrap()] {
            for program in programs {
                assert!(program.len() < 4096, "{}", program.len());
            }
        }
    }

    #[test]
    fn no_call_is_in_two_lists() {
        let mut all: Vec<i64> = REFUSED
            .iter()
            .chain(MISSING)
            .chain(REFUSED_HERE)
            .map(|(_, call)| *call)
            .collect();
        all.extend(MODES.iter().chain(MODES_HERE).map(|(call, _)| *call));
        all.extend(OPENS.iter().map(|(call, _, _)| *call));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|call| *call < i64::from(FIRST_UNKNOWN)));
    }
}
