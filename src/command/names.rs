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
];

/// Binaries that hold many programs, shells among them (S3).
const MULTIPLEXERS: &[&str] = &["busybox", "toybox"];

/// What a name stands for, strictest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameClass {
    /// Nothing special is known.
    Program,
    /// A transparent wrapper (W1).
    Wrapper,
    /// A shell whose payload is understood.
    PayloadShell,
    /// Any other shell.
    OtherShell,
    /// A program that runs another.
    Carrier,
    /// A refused builtin.
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
    pub fn of(name: &str) -> Self {
        let name = name.strip_suffix(".exe").unwrap_or(name);
        let unversioned = without_version(name);
        if MULTIPLEXERS.contains(&unversioned) || name.starts_with("busybox") || name.starts_with("toybox") {
            Self::Multiplexer
        } else if let Some(class) = BY_NAME.get(name) {
            *class
        } else if is_loader(name) {
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
    pub fn of_all<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        names.into_iter().map(Self::of).max().unwrap_or(Self::Program)
    }
}

/// Whether a name is a dynamic loader's, which runs any file given to it: `ld(-linux*|-musl*)?.so*`.
fn is_loader(name: &str) -> bool {
    name.strip_prefix("ld").is_some_and(|rest| {
        rest.starts_with(".so")
            || ((rest.starts_with("-linux") || rest.starts_with("-musl")) && rest.contains(".so"))
    })
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
];

/// Whether a program, by its path, runs the script that is its first operand.
pub fn runs_scripts(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_shell = matches!(
        NameClass::of(name),
        NameClass::PayloadShell | NameClass::OtherShell
    );
    is_shell || SCRIPT_RUNNERS.contains(&without_version(name))
}

/// A name without a version behind it: `bash-5.2` is `bash`, `python3.12` is `python`.
pub fn without_version(name: &str) -> &str {
    let stripped = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    let stripped = if stripped.len() < name.len() {
        stripped.trim_end_matches('-')
    } else {
        stripped
    };
    if stripped.is_empty() { name } else { stripped }
}

/// Whether words are a builtin that is safe without an entry (B1). `cd` is apart.
pub fn is_safe_builtin(words: &[&str]) -> bool {
    match words {
        ["true" | "false" | ":"] => true,
        ["pwd", options @ ..] => options.iter().all(|option| matches!(*option, "-L" | "-P")),
        _ => false,
    }
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
            (".", NameClass::RefusedBuiltin),
            ("eval", NameClass::RefusedBuiltin),
            ("busybox", NameClass::Multiplexer),
            ("busybox.static", NameClass::Multiplexer),
        ] {
            assert_eq!(NameClass::of(name), expected, "{name}");
        }
        assert_eq!(NameClass::of_all(["rg", "rg", "busybox"]), NameClass::Multiplexer);
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
