//! Names that are more than a program: carriers, shells, multiplexers, builtins (W2, S1, S3, B1).

use std::{collections::HashMap, sync::LazyLock};

/// Programs whose purpose is to run another (W2).
const CARRIERS: &[&str] = &[
    "sudo",
    "doas",
    "su",
    "sudoedit",
    "pkexec",
    "runuser",
    "gosu",
    "su-exec",
    "chroot",
    "unshare",
    "nsenter",
    "setpriv",
    "bwrap",
    "firejail",
    "proot",
    "systemd-run",
    "systemd-nspawn",
    "setsid",
    "ionice",
    "taskset",
    "chrt",
    "numactl",
    "setarch",
    "linux32",
    "linux64",
    "i386",
    "x86_64",
    "cpulimit",
    "catchsegv",
    "eatmydata",
    "watch",
    "script",
    "unbuffer",
    "xvfb-run",
    "torify",
    "torsocks",
    "proxychains",
    "proxychains4",
    "flock",
    "strace",
    "ltrace",
    "gdb",
    "valgrind",
    "perf",
    "expect",
    "screen",
    "tmux",
    "at",
    "batch",
    "entr",
    "dbus-run-session",
    "dbus-launch",
    "ssh-agent",
    "logsave",
    "run-parts",
    "start-stop-daemon",
    "daemonize",
    "debconf",
    "faketime",
    "fakeroot",
    "prlimit",
    "choom",
    "sg",
    "newgrp",
    "runcon",
    "capsh",
    "tini",
    "dumb-init",
    "chpst",
    "softlimit",
    "sotruss",
    "setuidgid",
    "rlwrap",
    "direnv",
    "parallel",
    "sem",
    "xargs",
    "npx",
    "pnpx",
    "bunx",
    "uvx",
    "pipx",
    "aa-exec",
    "cgexec",
    "chronic",
    "coresched",
    "envdir",
    "envuidgid",
    "execlineb",
    "fakechroot",
    "gdbserver",
    "hyperfine",
    "ifne",
    "lckdo",
    "lldb",
    "mispipe",
    "pee",
    "pipesz",
    "rr",
    "run0",
    "s6-applyuidgid",
    "s6-envdir",
    "s6-setsid",
    "s6-setuidgid",
    "s6-softlimit",
    "s6-sudo",
    "sshpass",
    "systemd-cat",
    "systemd-inhibit",
    "uclampset",
    "watchexec",
    "xterm",
];

/// What distributions write behind or before the name of a program that is built or packaged in another way.
const FLAVOURS_BEHIND: &[&str] = &["-static", "-rs", ".ws", ".distrib"];
const FLAVOURS_BEFORE: &[&str] = &["gnu", "g"];
/// The carriers among what has a flavour before its name; all wrappers may have one.
const GNU_CARRIERS: &[&str] = &["chroot", "parallel", "runcon", "xargs"];

/// Binaries that are many programs, and run the one that their first argument names when they are called by their own
/// name.
pub(super) const BOXES: &[&str] = &[
    "coreutils",
    "gnu-coreutils",
    "uutils",
    "uu-coreutils",
    "sbase-box",
    "ubase-box",
];

/// Emulators of other machines that run any file given to them are named after the machine; these are something else.
const NO_EMULATORS: &[&str] = &[
    "qemu-edid",
    "qemu-ga",
    "qemu-img",
    "qemu-io",
    "qemu-keymap",
    "qemu-nbd",
    "qemu-pr-helper",
    "qemu-storage-daemon",
];

/// Builtins that change or reach around the shell; a file of such a name is never what was meant (W2, G9).
const REFUSED_BUILTINS: &[&str] = &[
    "exec",
    "builtin",
    "eval",
    "source",
    ".",
    "alias",
    "unalias",
    "export",
    "declare",
    "typeset",
    "local",
    "readonly",
    "unset",
    "set",
    "shopt",
    "trap",
    "enable",
    "hash",
    "type",
    "let",
    "read",
    "mapfile",
    "readarray",
    "coproc",
    "caller",
    "compgen",
    "complete",
    "compopt",
    "dirs",
    "pushd",
    "popd",
    "disown",
    "fc",
    "bg",
    "fg",
    "jobs",
    "logout",
    "return",
    "shift",
    "suspend",
    "times",
    "ulimit",
    "umask",
    "wait",
    "bind",
    "exit",
    "break",
    "continue",
    "getopts",
    "history",
    "chdir",
];

/// Shells whose `-c` payload is understood (S1).
const PAYLOAD_SHELLS: &[&str] = &["sh", "bash", "dash"];

/// Shells that read start-up files or another language (S1).
const OTHER_SHELLS: &[&str] = &[
    "zsh",
    "fish",
    "ksh",
    "mksh",
    "yash",
    "csh",
    "tcsh",
    "nu",
    "elvish",
    "xonsh",
    "osh",
    "rbash",
    "pwsh",
    "powershell",
    "cmd",
    "ash",
    "hush",
    "lksh",
    "oksh",
    "pdksh",
    "rksh",
    "rzsh",
    "sash",
    "ysh",
    "bsd-csh",
    "es",
    "mrsh",
    "murex",
    "nushell",
    "oil",
    "posh",
    "rc",
];

/// Binaries that hold many programs, shells among them (S3).
const MULTIPLEXERS: &[&str] = &["busybox", "toybox"];

/// What a name stands for, strictest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameClass {
    /// Nothing special is known.
    Program,
    /// A transparent wrapper (W1).
    Wrapper,
    /// A shell whose payload is understood.
    PayloadShell,
    OtherShell,
    /// A program that runs another.
    Carrier,
    RefusedBuiltin,
    /// Many programs in one.
    Multiplexer,
}

/// The two long tables. Every name of every segment is looked up, so they are not searched one by one; where both
/// have a name, the builtin is what a shell runs.
static BY_NAME: LazyLock<HashMap<&str, NameClass>> = LazyLock::new(|| {
    let carriers = CARRIERS.iter().map(|name| (*name, NameClass::Carrier));
    let builtins = REFUSED_BUILTINS
        .iter()
        .map(|name| (*name, NameClass::RefusedBuiltin));
    carriers.chain(builtins).collect()
});

impl NameClass {
    /// The class of one base name.
    pub(crate) fn of(name: &str) -> Self {
        let name = name.strip_suffix(".exe").unwrap_or(name);
        if let Some(plain) = plain_name(name) {
            // What such a build accepts beyond the plain one is not known.
            return match Self::of(plain) {
                Self::PayloadShell | Self::OtherShell => Self::OtherShell,
                Self::Wrapper | Self::Carrier => Self::Carrier,
                class @ (Self::Program | Self::RefusedBuiltin | Self::Multiplexer) => class,
            };
        }
        let unversioned = without_version(name);
        if MULTIPLEXERS.contains(&unversioned) || name.starts_with("busybox") || name.starts_with("toybox") {
            Self::Multiplexer
        } else if let Some(class) = BY_NAME.get(name) {
            *class
        } else if is_loader(name) || is_emulator(name) || CARRIERS.contains(&unversioned) {
            Self::Carrier
        } else if OTHER_SHELLS.contains(&unversioned) {
            Self::OtherShell
        } else if PAYLOAD_SHELLS.contains(&name) {
            Self::PayloadShell
        } else if PAYLOAD_SHELLS.contains(&unversioned) {
            Self::OtherShell
        } else if super::wrapper::Wrapper::named(name).is_some() {
            Self::Wrapper
        } else {
            Self::Program
        }
    }

    /// The strictest class among several names of one file.
    pub(crate) fn of_all<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut is_box = true;
        let class = names
            .into_iter()
            .inspect(|name| is_box &= BOXES.contains(name))
            .map(Self::of)
            .max();
        match class {
            Some(Self::Program) if is_box => Self::Carrier,
            Some(class) => class,
            None => Self::Program,
        }
    }
}

/// The name without the flavour that a distribution gave it, if that is one of a program that is known here.
fn plain_name(name: &str) -> Option<&str> {
    let behind = FLAVOURS_BEHIND
        .iter()
        .find_map(|flavour| name.strip_suffix(flavour));
    let before = || {
        FLAVOURS_BEFORE
            .iter()
            .filter_map(|flavour| name.strip_prefix(flavour))
            .find(|plain| super::wrapper::Wrapper::named(plain).is_some() || GNU_CARRIERS.contains(plain))
    };
    behind
        .or_else(before)
        .filter(|plain| !plain.is_empty() && !BY_NAME.contains_key(name))
}

/// Whether a name is a dynamic loader's, which runs any file given to it: `ld(-linux*|-musl*)?.so*`, and what older
/// and other systems call theirs.
fn is_loader(name: &str) -> bool {
    let is_ld = |rest: &str| {
        let rest = rest.trim_start_matches(|character: char| character.is_ascii_digit());
        rest.starts_with(".so") || (rest.starts_with('-') && rest.contains(".so"))
    };
    name.strip_prefix("ld").is_some_and(is_ld) || (name.starts_with("libc.musl-") && name.contains(".so"))
}

/// Whether a name is that of an emulator which runs a program of another machine (`qemu-aarch64`).
fn is_emulator(name: &str) -> bool {
    name.starts_with("qemu-") && !name.starts_with("qemu-system-") && !NO_EMULATORS.contains(&name)
}

/// Interpreters whose first operand is a script. (Filters such as awk and sed name data there.)
const SCRIPT_RUNNERS: &[&str] = &[
    "python",
    "pypy",
    "node",
    "deno",
    "bun",
    "tsx",
    "ts-node",
    "jiti",
    "ruby",
    "perl",
    "php",
    "lua",
    "luajit",
    "groovy",
    "raku",
    "R",
    "Rscript",
    "julia",
    "elixir",
    "osascript",
    "nodejs",
    "ts-node-esm",
    "micropython",
    "graalpy",
    "jython",
    "ipython",
    "jruby",
    "irb",
    "tclsh",
    "wish",
    "expect",
    "java",
    "scala",
    "kotlin",
    "runghc",
    "guile",
    "racket",
    "clojure",
    "clj",
    "iex",
    "escript",
    "ocaml",
    "sbcl",
];

/// Whether a program, by its path, runs the script that is its first operand.
pub(crate) fn runs_scripts(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_shell = matches!(
        NameClass::of(name),
        NameClass::PayloadShell | NameClass::OtherShell
    );
    is_shell || SCRIPT_RUNNERS.contains(&without_version(name))
}

/// A name without a version behind it: `bash-5.2` is `bash`, `python3.12` is `python`.
pub(crate) fn without_version(name: &str) -> &str {
    let stripped = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    let stripped = if stripped.len() < name.len() {
        stripped.trim_end_matches(['-', '_'])
    } else {
        stripped
    };
    if stripped.is_empty() { name } else { stripped }
}

/// Whether words are a builtin that is safe without an entry (B1). `cd` is apart.
pub(crate) fn is_safe_builtin(words: &[&str]) -> bool {
    match words {
        ["true" | "false" | ":"] => true,
        ["pwd", options @ ..] => options.iter().all(|option| matches!(*option, "-L" | "-P")),
        _ => false,
    }
}

/// Whether a shell of the `sh` family may know the name by itself, so that no file has to be there.
pub fn may_be_builtin(name: &str) -> bool {
    const OTHERS: [&str; 14] = [
        ":", "[", "cd", "chdir", "command", "echo", "false", "help", "history", "kill", "printf", "pwd",
        "test", "true",
    ];
    OTHERS.contains(&name) || NameClass::of(name) == NameClass::RefusedBuiltin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_class() {
        for (name, expected) in [
            ("rg", NameClass::Program),
            ("env", NameClass::Wrapper),
            ("bash", NameClass::PayloadShell),
            ("bash-5.2", NameClass::OtherShell),
            ("ksh93", NameClass::OtherShell),
            ("powershell.exe", NameClass::OtherShell),
            ("sudo", NameClass::Carrier),
            ("logsave", NameClass::Carrier),
            ("ld-linux-x86-64.so.2", NameClass::Carrier),
            ("ld-musl-x86_64.so.1", NameClass::Carrier),
            ("ld.so", NameClass::Carrier),
            ("ldd", NameClass::Program),
            ("ld", NameClass::Program),
            ("ld.bfd", NameClass::Program),
            ("ld-2.31.so", NameClass::Carrier),
            ("ld64.so.2", NameClass::Carrier),
            ("libc.musl-x86_64.so.1", NameClass::Carrier),
            ("perf_6.1", NameClass::Carrier),
            ("x86_64", NameClass::Carrier),
            ("x86_64-linux-gnu-gcc-12", NameClass::Program),
            ("sudo-rs", NameClass::Carrier),
            ("sudo.ws", NameClass::Carrier),
            ("tini-static", NameClass::Carrier),
            ("bash-static", NameClass::OtherShell),
            ("zsh-static", NameClass::OtherShell),
            ("sh.distrib", NameClass::OtherShell),
            ("busybox-static", NameClass::Multiplexer),
            ("gtimeout", NameClass::Carrier),
            ("gnuenv", NameClass::Carrier),
            ("gxargs", NameClass::Carrier),
            ("gsed", NameClass::Program),
            ("gperf", NameClass::Program),
            ("git", NameClass::Program),
            ("rustc", NameClass::Program),
            ("qemu-aarch64-static", NameClass::Carrier),
            ("qemu-img", NameClass::Program),
            ("qemu-system-x86_64", NameClass::Program),
            ("systemd-cat", NameClass::Carrier),
            ("posh", NameClass::OtherShell),
            (".", NameClass::RefusedBuiltin),
            ("eval", NameClass::RefusedBuiltin),
            ("busybox", NameClass::Multiplexer),
            ("busybox.static", NameClass::Multiplexer),
        ] {
            assert_eq!(NameClass::of(name), expected, "{name}");
        }
        assert_eq!(NameClass::of_all(["rg", "rg", "busybox"]), NameClass::Multiplexer);
        // By its own name it runs any of its programs, by another only that one.
        assert_eq!(
            NameClass::of_all(["coreutils", "coreutils", "coreutils"]),
            NameClass::Carrier
        );
        assert_eq!(NameClass::of_all(["ls", "ls", "coreutils"]), NameClass::Program);
    }

    #[test]
    fn only_plain_builtins_are_safe() {
        assert!(is_safe_builtin(&["true"]));
        assert!(is_safe_builtin(&["pwd", "-P"]));
        assert!(!is_safe_builtin(&["true", "x"]));
        assert!(!is_safe_builtin(&["pwd", "-x"]));
        assert!(!is_safe_builtin(&["cd", "x"]));
    }
}
