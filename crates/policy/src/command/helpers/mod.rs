//! Helper profiles: which programs a known program starts in its ordinary work, without code of the workspace.
//!
//! A profile never has a shell or an interpreter in it, nor a program that starts what its arguments say: a program that could
//! start one of those could start anything. What a profile lacks a person adds to an entry (`confine.starts`).
//!
//! A program has no profile where its ordinary work needs more than that: it runs code of the workspace (`make`, `npm`), goes
//! through a shell (`tar` for a compressed archive, `man` for a page), or is itself a wrapper, a shell or an interpreter.
//! `docs/starts.md` lists both.

mod table;

use self::table::PROFILES;
use super::names::without_version;

/// What one program, or several that are alike, start.
#[derive(Debug)]
struct Profile {
    /// Base names of the programs.
    programs: &'static [&'static str],
    /// What they start, in the form of `starts` of an entry: names that are looked up on the PATH, absolute paths, and
    /// `DIRECTORY/**`. What is not there on a machine is passed over.
    starts: &'static [&'static str],
    beyond: Beyond,
}

/// What arguments can make a program do that is no start of a program, so that keeping its starts does not keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    /// No such thing is known.
    Nothing,
    /// It loads native code, is configured by a file of the call, or writes a file that decides what starts later.
    Arguments,
}

/// What a program of this base name starts; `None` where that is not known. An empty list is a program that starts none.
///
/// A version behind a hyphen (`gcc-12`) and the machine before a name (`x86_64-linux-gnu-gcc`) are no part of it.
pub fn starts_of(name: &str) -> Option<&'static [&'static str]> {
    profile_of(name).map(|profile| profile.starts)
}

/// Whether to start others is all that a program of this base name does in the forms that rule D1 finds. Where it is not, that
/// rule has to count beside what the kernel keeps. Files that its words name to be written are another matter
/// (`delegation::Reading::outputs`). `false` without a profile.
pub fn starts_are_all(name: &str) -> bool {
    profile_of(name).is_some_and(|profile| profile.beyond == Beyond::Nothing)
}

fn profile_of(name: &str) -> Option<&'static Profile> {
    let named = |name: &str| PROFILES.iter().find(|profile| profile.programs.contains(&name));
    named(name).or_else(|| named(plain(name)))
}

/// A name without the machine before it and the version behind it.
fn plain(name: &str) -> &str {
    let own = name.rsplit_once('-').map_or(name, |(own, version)| {
        let is_version = !version.is_empty() && without_version(version) == version && is_number(version);
        if is_version { own } else { name }
    });
    without_machine(own)
}

/// `12`, `14.2`.
fn is_number(version: &str) -> bool {
    version
        .split('.')
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Machines that names of compilers and their like begin with.
const MACHINES: &[&str] = &[
    "aarch64",
    "arm",
    "armv7l",
    "i386",
    "i486",
    "i586",
    "i686",
    "loongarch64",
    "powerpc64le",
    "ppc64le",
    "riscv64",
    "s390x",
    "x86_64",
];

/// The last part of a machine's name: `x86_64-linux-gnu`, `x86_64-redhat-linux`, `x86_64-alpine-linux-musl`.
const LAST_OF_MACHINE: &[&str] = &[
    "gnu",
    "gnueabi",
    "gnueabihf",
    "gnux32",
    "linux",
    "musl",
    "musleabi",
    "musleabihf",
];

fn without_machine(name: &str) -> &str {
    let is_machine = name
        .split_once('-')
        .is_some_and(|(first, _)| MACHINES.contains(&first));
    if !is_machine {
        return name;
    }
    let mut own = name;
    let mut rest = name;
    while let Some((part, behind)) = rest.split_once('-') {
        if LAST_OF_MACHINE.contains(&part) {
            own = behind;
        }
        rest = behind;
    }
    own
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt::Write as _};

    use super::*;
    use crate::command::names::{NameClass, runs_scripts};

    /// Programs whose ordinary work runs code of the workspace or goes through a shell, and those that act through something
    /// that no process of theirs is.
    const WITHOUT: &[&str] = &[
        "ansible",
        "apt",
        "apt-get",
        "at",
        "bash",
        "busybox",
        "bzgrep",
        "cargo",
        "cmake",
        "composer",
        "crontab",
        "ctags",
        "dash",
        "deno",
        "docker",
        "dpkg",
        "emacs",
        "env",
        "ex",
        "gdb",
        "gh",
        "go",
        "gradle",
        "helm",
        "just",
        "kubectl",
        "ldd",
        "make",
        "man",
        "mvn",
        "ninja",
        "nice",
        "node",
        "nohup",
        "npm",
        "npx",
        "nroff",
        "nvim",
        "perl",
        "pip",
        "pip3",
        "pnpm",
        "podman",
        "pytest",
        "python",
        "python3",
        "python3.12",
        "ruby",
        "rustc",
        "scp",
        "sftp",
        "sh",
        "ssh",
        "strace",
        "stdbuf",
        "sudo",
        "systemctl",
        "tar",
        "terraform",
        "time",
        "timeout",
        "tox",
        "uv",
        "vi",
        "vim",
        "vim.basic",
        "xargs",
        "xzgrep",
        "yarn",
        "zgrep",
        "zless",
        "zsh",
    ];

    #[test]
    fn no_profile_starts_what_could_start_anything() {
        for profile in PROFILES {
            for started in profile.starts {
                let name = started.rsplit('/').next().unwrap_or(started);
                if let Some(directory) = started.strip_suffix("/**") {
                    assert!(
                        directory.starts_with("/usr/") && directory.matches('/').count() >= 3,
                        "{started} is wide"
                    );
                    continue;
                }
                assert_eq!(NameClass::of(name), NameClass::Program, "{started}");
                assert!(!runs_scripts(name), "{started}");
                assert!(!WITHOUT.contains(&name) || name == "ssh", "{started}");
            }
        }
    }

    #[test]
    fn a_program_has_one_profile_and_lists_are_sorted() {
        let mut seen = BTreeSet::new();
        for profile in PROFILES {
            assert!(profile.programs.is_sorted(), "{:?}", profile.programs);
            assert!(profile.starts.is_sorted(), "{:?}", profile.programs);
            let distinct: BTreeSet<_> = profile.starts.iter().collect();
            assert_eq!(distinct.len(), profile.starts.len(), "{:?}", profile.starts);
            for program in profile.programs {
                assert!(seen.insert(program), "{program} twice");
                assert_eq!(NameClass::of(program), NameClass::Program, "{program}");
                assert!(!runs_scripts(program), "{program}");
            }
        }
    }

    #[test]
    fn what_runs_other_code_has_no_profile() {
        for name in WITHOUT {
            assert_eq!(starts_of(name), None, "{name}");
            assert!(!starts_are_all(name), "{name}");
        }
    }

    #[test]
    fn every_name_of_a_program_is_known() {
        for (name, like) in [
            ("gcc-12", "gcc"),
            ("x86_64-linux-gnu-gcc-12", "gcc"),
            ("x86_64-redhat-linux-gcc", "gcc"),
            ("x86_64-pc-linux-gnu-gcc-14.2.1", "gcc"),
            ("aarch64-alpine-linux-musl-g++", "g++"),
            ("arm-linux-gnueabihf-ld.bfd", "ld.bfd"),
            ("clang++-14", "clang++"),
            ("clang-14", "clang"),
            ("fdfind", "fd"),
            ("batcat", "bat"),
            ("mawk", "awk"),
            ("original-awk", "awk"),
            ("which.debianutils", "which"),
        ] {
            assert!(starts_of(like).is_some(), "{like}");
            assert_eq!(starts_of(name), starts_of(like), "{name}");
        }
        // No version is without its hyphen, and no other word is one.
        for name in [
            "gcc-x",
            "gcc-",
            "-12",
            "",
            "git-",
            "x86_64-linux-gnu-",
            "x86_64-linux-gnu-sh",
            "linux-gnu-gcc",
            "cat.sh",
            "python3-git",
        ] {
            assert_eq!(starts_of(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_known_is_as_it_was_seen() {
        for (name, started, other) in [
            ("cat", None, Some("less")),
            ("diff3", Some("diff"), Some("sort")),
            ("gcc", Some("as"), Some("make")),
            ("git", Some("ssh"), Some("sh")),
            ("gpg", Some("gpg-agent"), Some("ssh")),
            ("groff", Some("troff"), Some("less")),
            ("gunzip", Some("gzip"), Some("sh")),
            ("install", Some("strip"), Some("ld")),
            ("rg", Some("xz"), Some("less")),
            ("rsync", Some("ssh"), Some("git")),
        ] {
            let starts = starts_of(name).unwrap_or_else(|| panic!("{name} has no profile"));
            assert!(started.is_none_or(|program| starts.contains(&program)), "{name}");
            assert!(other.is_none_or(|program| !starts.contains(&program)), "{name}");
        }
    }

    #[test]
    fn the_documentation_lists_every_profile() {
        let code = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let mut rows = String::new();
        for Profile {
            programs,
            starts,
            beyond,
        } in PROFILES
        {
            let starts = if starts.is_empty() {
                "none".to_owned()
            } else {
                code(starts)
            };
            let text = match beyond {
                Beyond::Nothing => "",
                Beyond::Arguments => "yes",
            };
            writeln!(rows, "| {} | {starts} | {text} |", code(programs)).expect("a string takes it");
        }
        let page = include_str!("../../../../../docs/starts.md");
        assert!(
            page.contains(&rows),
            "docs/starts.md has to have these rows:\n{rows}"
        );
        let (_, without) = page
            .split_once("## Programs without a profile")
            .expect("the page says which have none");
        for name in WITHOUT {
            assert!(
                without.contains(&format!("`{name}`")),
                "docs/starts.md: {name} has no profile"
            );
        }
    }

    #[test]
    fn what_loads_code_or_is_configured_is_not_only_starts() {
        for name in [
            "gawk",
            "gcc",
            "git",
            "ld",
            "nm",
            "openssl",
            "sqlite3",
            "curl",
            "ssh-keygen",
        ] {
            assert!(!starts_are_all(name), "{name}");
        }
        for name in ["cat", "fd", "rg", "sort", "diff3"] {
            assert!(starts_are_all(name), "{name}");
        }
    }
}
