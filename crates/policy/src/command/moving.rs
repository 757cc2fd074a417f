//! What a program does before it reads a file by its name or starts another: it may stand in another directory by then,
//! or see other files. A word behind it then names no file of the directory that the call begins in.
//!
//! The options of wrappers are lists of what is known to move nothing. Anything that is not on them counts as moving.
//! Entry point: [`moves`].

use super::{
    delegation,
    names::{self, NameClass, without_version},
    operands::MAKES,
    paths,
};

/// How the words behind a program lose their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// They are looked for in another directory, or that is not known.
    Directory,
    /// They are looked for among other files: of a mount namespace, a root, a container or a machine.
    View,
    /// `make` chooses its file when it starts, and may make it anew.
    Makefile,
}

/// Programs that start others where other files are, no matter what their options are.
const VIEWS: &[&str] = &[
    "nsenter",
    "chroot",
    "bwrap",
    "firejail",
    "proot",
    "fakechroot",
    "systemd-run",
    "systemd-nspawn",
    "run0",
    "machinectl",
    "ip",
    "pivot_root",
    "switch_root",
    "schroot",
    "docker",
    "podman",
    "nerdctl",
    "buildah",
    "kubectl",
    "oc",
    "lxc",
    "lxc-attach",
    "lxc-execute",
    "incus",
    "distrobox",
    "toolbox",
    "flatpak",
    "flatpak-spawn",
    "snap",
    "vagrant",
    "wsl",
    "ssh",
    "mosh",
    "rsh",
    "adb",
];

/// Programs that read code, and start what it says in their own directory.
const FILTERS: &[&str] = &[
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "original-awk",
    "sed",
    "gsed",
    "jq",
    "dc",
    "psql",
    "sqlite",
    "sqlite3",
];

/// Interpreters that may be told to change directory first: their letters, and how their long options begin.
const MOVING: &[(&[&str], &str, &[&str])] = &[
    (&["ruby", "jruby", "truffleruby", "irb"], "CX", &[]),
    (&["fish"], "C", &["--in"]),
    (
        &["bun", "deno", "ts-node", "ts-node-esm", "tsx"],
        "",
        &["--cw", "--di"],
    ),
];

/// The options of one wrapper that move nothing.
#[derive(Debug, Default)]
struct Known {
    programs: &'static [&'static str],
    /// Letters of options without a value.
    flags: &'static str,
    /// Letters of options with one.
    valued: &'static str,
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
    /// Words of its own before the program.
    operands: usize,
}

const NONE: Known = Known {
    programs: &[],
    flags: "",
    valued: "",
    long: &[],
    long_valued: &[],
    operands: 0,
};

const KNOWN: &[Known] = &[
    Known {
        programs: &["env"],
        flags: "i0v",
        valued: "u",
        long: &["ignore-environment", "null", "debug"],
        long_valued: &["unset"],
        ..NONE
    },
    Known {
        programs: &["time"],
        flags: "apvq",
        valued: "of",
        ..NONE
    },
    Known {
        programs: &["nice"],
        valued: "n",
        long_valued: &["adjustment"],
        ..NONE
    },
    Known {
        programs: &["stdbuf"],
        valued: "ioe",
        long_valued: &["input", "output", "error"],
        ..NONE
    },
    Known {
        programs: &["timeout"],
        flags: "fpv",
        valued: "ks",
        long: &["foreground", "preserve-status", "verbose"],
        long_valued: &["kill-after", "signal"],
        operands: 1,
    },
    Known {
        programs: &["setsid"],
        flags: "cfw",
        long: &["ctty", "fork", "wait"],
        ..NONE
    },
    Known {
        programs: &["ionice"],
        flags: "t",
        valued: "cn",
        long: &["ignore"],
        long_valued: &["class", "classdata"],
        ..NONE
    },
    Known {
        programs: &["taskset"],
        flags: "ac",
        long: &["all-tasks", "cpu-list"],
        operands: 1,
        ..NONE
    },
    Known {
        programs: &["chrt"],
        flags: "abfiorR",
        valued: "TPD",
        operands: 1,
        ..NONE
    },
    Known {
        programs: &["flock"],
        flags: "sxenuoFv",
        valued: "wE",
        long: &[
            "shared",
            "exclusive",
            "nonblock",
            "nb",
            "unlock",
            "close",
            "no-fork",
            "verbose",
        ],
        long_valued: &["wait", "timeout", "conflict-exit-code"],
        operands: 1,
    },
    Known {
        programs: &["xargs"],
        flags: "0rtpxo",
        valued: "adEILnPs",
        long: &[
            "null",
            "no-run-if-empty",
            "verbose",
            "interactive",
            "exit",
            "open-tty",
        ],
        long_valued: &[
            "arg-file",
            "delimiter",
            "max-args",
            "max-procs",
            "max-lines",
            "max-chars",
        ],
        ..NONE
    },
    Known {
        programs: &["strace"],
        flags: "fFqtTvyi",
        valued: "oesaIOPS",
        ..NONE
    },
    Known {
        programs: &["sudo"],
        flags: "AbEHnPSk",
        valued: "ugp",
        long: &["non-interactive", "set-home"],
        long_valued: &["user", "group"],
        ..NONE
    },
    Known {
        programs: &["doas"],
        flags: "n",
        valued: "u",
        ..NONE
    },
    Known {
        programs: &["runuser"],
        valued: "ugG",
        long_valued: &["user", "group", "supp-group"],
        ..NONE
    },
    Known {
        programs: &["setpriv"],
        long: &[
            "clear-groups",
            "keep-groups",
            "init-groups",
            "no-new-privs",
            "nnp",
        ],
        long_valued: &[
            "reuid",
            "regid",
            "ruid",
            "euid",
            "rgid",
            "egid",
            "groups",
            "inh-caps",
            "ambient-caps",
            "bounding-set",
            "securebits",
            "pdeathsig",
        ],
        ..NONE
    },
    Known {
        programs: &["script"],
        flags: "qefa",
        valued: "cIOBTE",
        ..NONE
    },
    Known {
        programs: &["watch"],
        flags: "bcegtxdp",
        valued: "n",
        ..NONE
    },
    Known {
        programs: &["setarch", "linux32", "linux64", "i386", "x86_64"],
        flags: "vRFZLXBIST3",
        ..NONE
    },
    Known {
        programs: &["vi", "vim", "nvim", "view", "vimdiff", "ex"],
        flags: "esENnR",
        valued: "Sui",
        ..NONE
    },
    // Of its namespaces only these leave the files alone.
    Known {
        programs: &["unshare"],
        flags: "frUunic",
        long: &[
            "fork",
            "map-root-user",
            "map-current-user",
            "user",
            "uts",
            "net",
            "ipc",
        ],
        ..NONE
    },
];

/// How the words behind a program lose their meaning, if they do. `names` are all that it may be called by.
pub fn moves(names: &[&str], words: &[String]) -> Option<Moves> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    of_program(names, &words)
}

fn of_program(names: &[&str], words: &[&str]) -> Option<Moves> {
    let is = |programs: &[&str]| {
        names
            .iter()
            .any(|name| programs.contains(name) || programs.contains(&without_version(name)))
    };
    if is(VIEWS) {
        return Some(Moves::View);
    }
    if is(MAKES) {
        return Some(Moves::Makefile);
    }
    let known = KNOWN.iter().find(|known| is(known.programs));
    match NameClass::of_all(names.iter().copied()) {
        NameClass::Multiplexer => of_inner(words),
        NameClass::Wrapper | NameClass::Carrier | NameClass::RefusedBuiltin => {
            let otherwise = if is(&["unshare"]) {
                Moves::View
            } else {
                Moves::Directory
            };
            match known {
                Some(known) => known.behind(words).map_or(Some(otherwise), of_inner),
                None => of_unlisted(words),
            }
        }
        NameClass::Program | NameClass::PayloadShell | NameClass::OtherShell => {
            let is_moving = MOVING
                .iter()
                .any(|(programs, letters, long)| is(programs) && has_option(words, letters, long));
            let is_still = is(FILTERS)
                || names.iter().any(|name| names::runs_scripts(name))
                || (is(&["find", "gfind"])
                    && !words.iter().any(|word| matches!(*word, "-execdir" | "-okdir")))
                || known.is_some_and(|known| known.covers(words))
                || !delegation::delegates(names, words);
            (is_moving || !is_still).then_some(Moves::Directory)
        }
    }
}

/// A command in the words of another.
fn of_inner(words: &[&str]) -> Option<Moves> {
    match words.split_first() {
        Some((program, _)) if program.starts_with('-') => Some(Moves::Directory),
        Some((program, rest)) => of_program(&[paths::base_name(program)], rest),
        None => None,
    }
}

/// Behind a wrapper whose options are not known: up to the first word that is known to start or read something.
fn of_unlisted(words: &[&str]) -> Option<Moves> {
    for (at, word) in words.iter().enumerate() {
        if word.starts_with('-') {
            return Some(Moves::Directory);
        }
        let name = paths::base_name(word);
        let starts = NameClass::of(name) != NameClass::Program
            || names::runs_scripts(name)
            || VIEWS.contains(&name)
            || MAKES.contains(&name);
        if starts {
            return of_inner(words.get(at..).unwrap_or_default());
        }
    }
    None
}

impl Known {
    /// The command behind its options and operands; `None` if one of them is not known.
    fn behind<'a, 'w>(&self, words: &'a [&'w str]) -> Option<&'a [&'w str]> {
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            if *word == "--" {
                rest = after;
                break;
            }
            if !word.starts_with('-') {
                break;
            }
            let values = usize::from(self.takes_value(word)?);
            rest = after.get(values..)?;
        }
        rest = rest.get(self.operands..).unwrap_or_default();
        let assignments = rest
            .iter()
            .take_while(|word| self.programs.contains(&"env") && word.contains('='));
        rest.get(assignments.count()..)
    }

    /// Whether every option is known, wherever it stands.
    fn covers(&self, words: &[&str]) -> bool {
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.as_bytes().first() {
                Some(b'+') => return false,
                Some(b'-') => match self.takes_value(word) {
                    Some(true) => drop(rest.next()),
                    Some(false) => {}
                    None => return false,
                },
                Some(_) | None => {}
            }
        }
        true
    }

    /// Whether the next word belongs to an option; `None` if it is not known.
    fn takes_value(&self, option: &str) -> Option<bool> {
        if let Some(long) = option.strip_prefix("--") {
            return match long.split_once('=') {
                Some((name, _)) => self.long_valued.contains(&name).then_some(false),
                None if self.long.contains(&long) => Some(false),
                None => self.long_valued.contains(&long).then_some(true),
            };
        }
        let letters = option.strip_prefix('-')?;
        for (at, letter) in letters.char_indices() {
            if self.valued.contains(letter) {
                return Some(at + letter.len_utf8() == letters.len());
            }
            if !self.flags.contains(letter) {
                return None;
            }
        }
        Some(false)
    }
}

/// Whether one of these letters stands in a cluster, or a long option begins so.
fn has_option(words: &[&str], letters: &str, long: &[&str]) -> bool {
    words.iter().any(|word| {
        let is_cluster = word.starts_with('-') && !word.starts_with("--");
        (is_cluster && word.contains(|letter| letters.contains(letter)))
            || long.iter().any(|begin| word.starts_with(begin))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<Moves>) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert_eq!(moves(&[&words[0]], &words[1..]), expected, "{line}");
    }

    #[test]
    fn whatever_may_change_the_directory_does() {
        for line in [
            "env -C sub sh s.sh",
            "env -Csub sh s.sh",
            "env -iC sub sh s.sh",
            "env --chdir=sub sh s.sh",
            "env --chd sub sh s.sh",
            "env -u sh -C sub sh s.sh",
            "env -u env -Csub sh s.sh",
            "env -S 'x' sh s.sh",
            "env -C sub env -C ../sub sh s.sh",
            "nice -n 5 env -C sub sh s.sh",
            "timeout -v 5 env -C sub sh s.sh",
            "flock -n f env -C sub sh s.sh",
            "setpriv env -C sub sh s.sh",
            "busybox env -C sub sh s.sh",
            "start-stop-daemon -S -d sub -x /bin/sh -- s.sh",
            "start-stop-daemon --chdir sub --exec /bin/sh -- s.sh",
            "sudo -D sub sh s.sh",
            "sudo --chdir=sub sh s.sh",
            "sudo -u bob -R sub sh s.sh",
            "sudo -i sh s.sh",
            "find sub -execdir sh s.sh ;",
            "ruby -r json -C sub s.rb",
            "ruby -Xsub s.rb",
            "bun --cwd sub s.js",
            "vim -es -S x -c cd",
            "vim +cd -S x",
            "git -C sub -c core.pager=./s.sh log",
            "faketime --exclude-monotonic x sh s.sh",
        ] {
            check(line, Some(Moves::Directory));
        }
    }

    #[test]
    fn whatever_sees_other_files_does() {
        for line in [
            "unshare -m sh x",
            "unshare -rm sh x",
            "unshare --mount sh x",
            "unshare --mou sh x",
            "unshare -fp --mount-proc sh x",
            "unshare --wd=sub sh x",
            "unshare -R sub sh x",
            "nsenter -t 1 -a sh x",
            "chroot / sh x",
            "bwrap --bind / / sh x",
            "systemd-run sh x",
            "ip netns exec n sh x",
            "firejail sh x",
            "setsid unshare -m sh x",
            "env unshare -m sh x",
            "busybox chroot / sh x",
            "docker run i sh x",
            "ssh h sh x",
        ] {
            check(line, Some(Moves::View));
        }
        for line in ["make", "gmake -s", "make -C sub", "nice make", "env make -f x"] {
            check(line, Some(Moves::Makefile));
        }
    }

    #[test]
    fn what_stays_where_it_is_moves_nothing() {
        for line in [
            "sh s.sh -C sub",
            "python3 setup.py --prefix=/usr --root x",
            "python3 -X dev a.py",
            "env -i sh s.sh",
            "env -u B A=1 sh s.sh",
            "env",
            "nice -n 5 sh s.sh",
            "timeout -k 5 --signal TERM 10 sh s.sh",
            "flock -n f sh s.sh -C",
            "flock -w5 f sh s.sh",
            "setsid -w sh s.sh",
            "xargs -0 -n 1 sh s.sh",
            "sudo -u bob sh s.sh",
            "setpriv --reuid=1 --clear-groups sh s.sh",
            "unshare -r sh x",
            "strace -f -o f sh x",
            "script -qc sh /dev/null",
            "catchsegv sh x -C y",
            "busybox sh x",
            "find . -exec python3 a.py {} ;",
            "awk -f a.awk",
            "jq -C -f a.jq",
            "vim -es -S a/../x",
            "ruby -r json s.rb",
            "cat -C x",
        ] {
            check(line, None);
        }
    }
}
