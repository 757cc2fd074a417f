//! Which calls of the kernel a container can make, in the words that engines understand. Pure.
//!
//! The decisions are those for the built-in sandbox ([`system_calls`]), written the other way round: as what is allowed. A
//! runtime translates names, and one that it does not know is a call that nobody can make. What a runtime answers to
//! numbers that are newer than its names is up to it; both answers that there are refuse.
//!
//! A condition compares some bits of one argument. Two conditions on the same argument would be taken for
//! alternatives, so a rule never has them.

use serde_json::{Value, json};

use countersign_sys::system_calls::{self, FAMILIES, MAKING, NAMESPACES, PERSONALITIES, RIGHTS, TYPING};

/// What the kernel looks at of an argument that is an `int`. Comparing all 64 bits would let the same number pass with
/// others above it.
const WORD: u64 = 0xffff_ffff;

/// Allowed with any argument. Names that a processor has not got count for nothing there.
const ALLOWED: &[&str] = &[
    // Files.
    "access",
    "cachestat",
    "chdir",
    "chown",
    "close",
    "close_range",
    "copy_file_range",
    "dup",
    "dup2",
    "dup3",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fchdir",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futimesat",
    "getcwd",
    "getdents",
    "getdents64",
    "getxattr",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "listmount",
    "listxattr",
    "llistxattr",
    "lremovexattr",
    "lseek",
    "lsetxattr",
    "lstat",
    "memfd_create",
    "newfstatat",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sendfile",
    "setxattr",
    "splice",
    "stat",
    "statfs",
    "statmount",
    "statx",
    "symlink",
    "symlinkat",
    "sync",
    "sync_file_range",
    "syncfs",
    "tee",
    "truncate",
    "umask",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vmsplice",
    "write",
    "writev",
    // Memory.
    "brk",
    "madvise",
    "map_shadow_stack",
    "membarrier",
    "memfd_secret",
    "mincore",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mprotect",
    "mremap",
    "mseal",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "process_mrelease",
    "remap_file_pages",
    // Processes and who they are.
    "arch_prctl",
    "capget",
    "capset",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "fork",
    "get_thread_area",
    "getcpu",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "gettid",
    "getuid",
    "ioprio_get",
    "ioprio_set",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "lsm_get_self_attr",
    "lsm_list_modules",
    "pidfd_open",
    "prctl",
    "prlimit64",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_getscheduler",
    "sched_rr_get_interval",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "sched_yield",
    "seccomp",
    "set_thread_area",
    "set_tid_address",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setpgid",
    "setpriority",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setrlimit",
    "setsid",
    "setuid",
    "sysinfo",
    "times",
    "uname",
    "vfork",
    "wait4",
    "waitid",
    // Signals and waiting.
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd",
    "eventfd2",
    "futex",
    "futex_requeue",
    "futex_wait",
    "futex_waitv",
    "futex_wake",
    "get_robust_list",
    "io_cancel",
    "io_destroy",
    "io_getevents",
    "io_pgetevents",
    "io_setup",
    "io_submit",
    "kill",
    "pause",
    "pidfd_send_signal",
    "poll",
    "ppoll",
    "pselect6",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "select",
    "set_robust_list",
    "sigaltstack",
    "signalfd",
    "signalfd4",
    "tgkill",
    "tkill",
    // Time.
    "adjtimex",
    "alarm",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "getitimer",
    "gettimeofday",
    "nanosleep",
    "setitimer",
    "time",
    "timer_create",
    "timer_delete",
    "timer_getoverrun",
    "timer_gettime",
    "timer_settime",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    // Between processes, and the network.
    "accept",
    "accept4",
    "bind",
    "connect",
    "getpeername",
    "getrandom",
    "getsockname",
    "getsockopt",
    "listen",
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "pipe",
    "pipe2",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    "shutdown",
];

/// The calls that take the mode of a file, and which argument it is.
const MODES: [(&str, u8); 7] = [
    ("chmod", 1),
    ("creat", 1),
    ("fchmod", 1),
    ("fchmodat", 2),
    ("fchmodat2", 2),
    ("mkdir", 1),
    ("mkdirat", 2),
];

/// The calls that make files by their kind, and which argument holds kind and mode.
const NODES: [(&str, u8); 2] = [("mknod", 1), ("mknodat", 2)];

/// Kinds that can be made by them: none, which is a file, a file, a pipe with a name, a socket.
const KINDS: [u32; 4] = [0, libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK];

/// The calls that open a file: which argument holds the flags, and which the mode of a file that is made.
const OPENS: [(&str, u8, u8); 2] = [("open", 1, 2), ("openat", 2, 3)];

/// The profile as text for the engine.
pub(super) fn profile() -> String {
    // The conventions of other processors, and of 32 bits, end a process that calls by them.
    let architectures = ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]
        .map(|name| json!({ "architecture": name, "subArchitectures": [] }));
    let mut calls: Vec<Value> = rules().iter().map(Rule::describe).collect();
    calls.push(json!({ "names": ALLOWED, "action": "SCMP_ACT_ALLOW" }));
    let missing: Vec<&str> = system_calls::missing().collect();
    calls.push(json!({ "names": missing, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS }));
    json!({ "defaultAction": "SCMP_ACT_ERRNO", "archMap": architectures, "syscalls": calls }).to_string()
}

/// Allows a call where all conditions hold. A call is allowed by any of its rules.
#[derive(Debug)]
struct Rule {
    call: &'static str,
    conditions: Vec<Condition>,
}

/// These bits of an argument have this value.
#[derive(Debug, Clone, Copy)]
struct Condition {
    argument: u8,
    mask: u64,
    value: u64,
}

impl Rule {
    fn describe(&self) -> Value {
        let conditions: Vec<Value> = self
            .conditions
            .iter()
            .map(|condition| {
                let Condition {
                    argument,
                    mask,
                    value,
                } = condition;
                json!({ "index": argument, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ" })
            })
            .collect();
        json!({ "names": [self.call], "action": "SCMP_ACT_ALLOW", "args": conditions })
    }
}

fn rules() -> Vec<Rule> {
    let rights = RIGHTS.iter().fold(0, |all, bit| all | u64::from(*bit));
    let making = any_of(&MAKING);
    let mut rules = Vec::new();
    let mut allow = |call, conditions: &[Condition]| {
        let conditions = conditions.to_vec();
        rules.push(Rule { call, conditions });
    };
    for (call, mode) in MODES {
        allow(call, &[none(mode, rights)]);
    }
    for (call, mode) in NODES {
        for kind in KINDS {
            let mask = u64::from(libc::S_IFMT) | rights;
            allow(call, &[masked(mode, mask, u64::from(kind))]);
        }
    }
    for (call, flags, mode) in OPENS {
        allow(call, &[none(flags, making)]);
        allow(call, &[none(mode, rights)]);
    }
    allow("clone", &[none(0, any_of(&NAMESPACES))]);
    for family in FAMILIES {
        let is_family = masked(0, WORD, number(family));
        allow("socketpair", &[is_family]);
        if family == libc::AF_NETLINK {
            // Of the kernel's own channels the one that names interfaces and addresses.
            let routes = masked(2, WORD, number(libc::NETLINK_ROUTE));
            allow("socket", &[is_family, routes]);
        } else {
            allow("socket", &[is_family]);
        }
    }
    for personality in PERSONALITIES {
        allow("personality", &[masked(0, WORD, personality)]);
    }
    for other in all_but(1, &TYPING) {
        allow("ioctl", &[other]);
    }
    rules
}

/// Conditions of which one holds for each number of 32 bits but these. There is no condition that says so: a number is
/// another one when one of the bits that these have in common differs, or those that they have not in common
/// together, of which there may be only few.
fn all_but(argument: u8, excluded: &[u64]) -> Vec<Condition> {
    let set = excluded.iter().fold(WORD, |all, value| all & value);
    let differing = excluded.iter().fold(0, |all, value| all | value) & !set;
    let bits = (0..u32::BITS).map(|bit| 1_u64 << bit);
    let mut conditions: Vec<Condition> = bits
        .filter(|bit| differing & bit == 0)
        .map(|bit| masked(argument, bit, bit & !set))
        .collect();
    // Every choice among the differing bits, counted down from all of them.
    let mut chosen = differing;
    loop {
        if !excluded.contains(&(set | chosen)) {
            conditions.push(masked(argument, WORD, set | chosen));
        }
        if chosen == 0 {
            return conditions;
        }
        chosen = (chosen - 1) & differing;
    }
}

fn masked(argument: u8, mask: u64, value: u64) -> Condition {
    Condition {
        argument,
        mask,
        value,
    }
}

/// None of these bits is set.
fn none(argument: u8, bits: u64) -> Condition {
    masked(argument, bits, 0)
}

fn any_of(flags: &[libc::c_int]) -> u64 {
    flags.iter().fold(0, |all, flag| all | number(*flag))
}

fn number(constant: libc::c_int) -> u64 {
    u64::from(constant.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whether a call with these as its first arguments is allowed.
    fn allows(call: &str, arguments: &[u64]) -> bool {
        let holds = |condition: &Condition| {
            let argument = arguments.get(usize::from(condition.argument)).copied();
            argument.unwrap_or(0) & condition.mask == condition.value
        };
        ALLOWED.contains(&call)
            || rules()
                .iter()
                .any(|rule| rule.call == call && rule.conditions.iter().all(holds))
    }

    #[test]
    fn what_the_builtin_sandbox_refuses_is_in_no_rule() {
        let mut named: BTreeSet<&str> = BTreeSet::new();
        for name in ALLOWED {
            assert!(named.insert(name), "{name} is named twice");
        }
        for rule in rules() {
            assert!(!ALLOWED.contains(&rule.call), "{} is allowed anyway", rule.call);
            named.insert(rule.call);
        }
        assert!(system_calls::refused().any(|name| name == "ptrace"));
        assert!(system_calls::missing().any(|name| name == "io_uring_setup"));
        for name in system_calls::refused().chain(system_calls::missing()) {
            assert!(!named.contains(name), "{name}");
        }
    }

    #[test]
    fn a_rule_has_one_condition_on_an_argument_at_most() {
        let profile: Value = serde_json::from_str(&profile()).unwrap();
        let calls = profile["syscalls"].as_array().unwrap();
        let mut count = 0;
        for call in calls {
            let conditions = call["args"].as_array().cloned().unwrap_or_default();
            let arguments: BTreeSet<u64> = conditions
                .iter()
                .map(|condition| condition["index"].as_u64().unwrap())
                .collect();
            assert_eq!(arguments.len(), conditions.len(), "{call}");
            count += conditions.len();
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn the_profile_says_what_happens_to_the_rest() {
        let profile: Value = serde_json::from_str(&profile()).unwrap();
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        let missing = profile["syscalls"].as_array().unwrap().last().unwrap();
        assert_eq!(
            *missing,
            json!({
                "names": ["clone3", "io_uring_enter", "io_uring_register", "io_uring_setup", "openat2"],
                "action": "SCMP_ACT_ERRNO", "errnoRet": 38,
            })
        );
    }

    #[test]
    fn arguments_decide_as_they_do_in_the_builtin_sandbox() {
        let creating = number(libc::O_CREAT | libc::O_WRONLY);
        let nameless = number(libc::O_TMPFILE | libc::O_WRONLY);
        let (thread, user) = (0x003d_0f00, number(libc::CLONE_NEWUSER) | 0x11);
        for (call, arguments, is_allowed) in [
            ("read", &[0, 0, 0][..], true),
            ("ptrace", &[16, 1], false),
            ("chmod", &[0, 0o755], true),
            ("chmod", &[0, 0o4755], false),
            ("fchmodat", &[0, 0, 0o2755], false),
            ("mkdir", &[0, 0o1777], true),
            ("mkdirat", &[0, 0, 0o2777], false),
            ("mknod", &[0, 0o010_644], true),
            ("mknodat", &[0, 0, 0o140_600], true),
            ("mknodat", &[0, 0, 0o104_755], false),
            ("mknodat", &[0, 0, 0o020_600], false),
            ("mknodat", &[0, 0, 0o060_600], false),
            ("open", &[0, creating, 0o644], true),
            ("openat", &[0, 0, creating, 0o4755], false),
            ("openat", &[0, 0, nameless, 0o6755], false),
            ("openat", &[0, 0, nameless, 0o755], true),
            // When no file is made, the mode is what the register happens to hold.
            ("openat", &[0, 0, number(libc::O_DIRECTORY), u64::MAX], true),
            ("clone", &[thread], true),
            ("clone", &[17], true),
            ("clone", &[user], false),
            ("clone", &[user | (1 << 40)], false),
            ("socket", &[1, 1, 0], true),
            ("socket", &[2 | (7 << 32), 1, 6], true),
            ("socket", &[10, 2, 0], true),
            ("socket", &[16, 3, 0], true),
            ("socket", &[16, 3, 9], false),
            ("socket", &[16, 3, 9 | (1 << 32)], false),
            ("socket", &[17, 3, 0], false),
            ("socket", &[40, 1, 0], false),
            ("socketpair", &[1, 1, 0], true),
            ("socketpair", &[40, 1, 0], false),
            ("personality", &[0], true),
            ("personality", &[0xffff_ffff], true),
            ("personality", &[u64::MAX], true),
            ("personality", &[0x0004_0000], false),
        ] {
            assert_eq!(allows(call, arguments), is_allowed, "{call} {arguments:x?}");
        }
    }

    #[test]
    fn every_number_is_told_from_the_excluded_ones() {
        for excluded in [&TYPING[..], &[0], &[0xffff_ffff, 0xffff_fff0], &[1, 2, 4, 7]] {
            let conditions = all_but(1, excluded);
            let holds = |value: u64| {
                conditions
                    .iter()
                    .any(|condition| value & condition.mask == condition.value)
            };
            for value in excluded {
                for high in [0, 1 << 32, 1 << 63, 0xffff_ffff << 32] {
                    assert!(!holds(value | high), "{value:x} {high:x} {excluded:x?}");
                }
                for bit in 0..32 {
                    let neighbour = value ^ (1 << bit);
                    assert_eq!(holds(neighbour), !excluded.contains(&neighbour), "{neighbour:x}");
                }
            }
            // A walk through all numbers in long steps.
            for step in 0..100_000_u64 {
                let value = (step * 2_654_435_761) & WORD;
                assert_eq!(holds(value), !excluded.contains(&value), "{value:x}");
            }
        }
    }
}
