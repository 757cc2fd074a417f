//! Programs that run what is typed into them.
//!
//! Deny rules and people see the words of a command. What a program like these starts later stands in none of them.

use super::program;
use crate::command::{
    inline_eval::{self, InlineEval},
    names::NameClass,
    paths, shell,
};

/// Programs that start others by commands which they read, from a pipe as well as from a terminal.
const READERS: &[&str] = &[
    "dc", "ed", "evim", "ex", "expect", "ftp", "gdb", "ghci", "gnuplot", "gview", "gvim", "irb", "isql",
    "lftp", "lldb", "m4", "mail", "mailx", "mariadb", "maxima", "mutt", "mysql", "ncftp", "nvim", "octave",
    "psql", "red", "rview", "rvim", "sdiff", "sftp", "sqlite", "sqlite3", "tclsh", "telnet", "tftp", "vi",
    "view", "vim", "vimdiff",
];

/// Programs that page, edit or ask at a terminal, where a key is enough to start another program.
const AT_TERMINAL: &[&str] = &[
    "apropos",
    "apt",
    "apt-get",
    "apt-listchanges",
    "aptitude",
    "bat",
    "batcat",
    "crontab",
    "delta",
    "dpkg",
    "elinks",
    "emacs",
    "fzf",
    "gh",
    "git",
    "hg",
    "info",
    "jed",
    "jmacs",
    "joe",
    "journalctl",
    "jpico",
    "jstar",
    "kak",
    "kubectl",
    "less",
    "lesspipe",
    "links",
    "loginctl",
    "lv",
    "lynx",
    "man",
    "mc",
    "mcedit",
    "micro",
    "more",
    "most",
    "nano",
    "ncdu",
    "ne",
    "nnn",
    "pager",
    "pg",
    "pico",
    "ranger",
    "rjoe",
    "rnano",
    "ssh",
    "sudoedit",
    "svn",
    "systemctl",
    "tig",
    "timedatectl",
    "vifm",
    "vipw",
    "visudo",
    "w3m",
    "watch",
    "whatis",
    "zless",
    "zmore",
];

/// Whether what comes to a program through a pipe are commands that may start others.
pub(crate) fn reads_commands(names: &[&str]) -> bool {
    // The number of `m4` is no version.
    names
        .iter()
        .any(|name| READERS.contains(name) || READERS.contains(&program(name)))
}

/// Whether a program may start others by what is typed into it. `names` are all that it may be called by.
pub fn runs_what_is_typed(names: &[&str], arguments: &[&str], at_terminal: bool) -> bool {
    let is_one = |list: &[&str]| {
        names.iter().any(|name| {
            let name = program(name);
            list.contains(&name) || (name.starts_with("git-") && list.contains(&"git"))
        })
    };
    runs_its_input(names, arguments)
        || (at_terminal && is_one(AT_TERMINAL) && !pages_nothing(names, arguments))
        || names
            .iter()
            .any(|name| matches!(NameClass::of(name), NameClass::Carrier | NameClass::Multiplexer))
}

/// Words of a program that starts another one in which that one is looked for.
const MOST_WORDS: usize = 16;

/// Whether a program takes what comes to it through a pipe as commands or code. `names` are all that it may be called by.
pub fn runs_its_input(names: &[&str], arguments: &[&str]) -> bool {
    reads_commands(names)
        || matches!(
            inline_eval::inline_eval(names, arguments),
            Some(InlineEval::StandardInput)
        )
        || names.iter().any(|name| match NameClass::of(name) {
            NameClass::PayloadShell => shell::reads_input(arguments, true),
            NameClass::OtherShell => shell::reads_input(arguments, false),
            // `sudo sh`: one of its words may be a program that gets the pipe.
            NameClass::Carrier => arguments.iter().enumerate().take(MOST_WORDS).any(|(at, word)| {
                let name = paths::base_name(word);
                let behind = arguments.get(at + 1..).unwrap_or_default();
                NameClass::of(name) != NameClass::Carrier && runs_its_input(&[name], behind)
            }),
            NameClass::Multiplexer | NameClass::Program | NameClass::Wrapper | NameClass::RefusedBuiltin => {
                false
            }
        })
}

/// `git --version` and its like. A git without its pager still starts an editor.
fn pages_nothing(names: &[&str], arguments: &[&str]) -> bool {
    let is_information = matches!(arguments, ["--version"]);
    let is_git = names.iter().all(|name| program(name) == "git");
    let reads_only = || {
        let [first, subcommand, ..] = arguments else {
            return false;
        };
        matches!(*first, "--no-pager" | "-P")
            && matches!(
                *subcommand,
                "blame"
                    | "describe"
                    | "diff"
                    | "log"
                    | "ls-files"
                    | "ls-tree"
                    | "rev-parse"
                    | "shortlog"
                    | "show"
                    | "status"
            )
    };
    is_information || (is_git && reads_only())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, on_pipe: bool, at_terminal: bool) {
        let words: Vec<&str> = line.split(' ').collect();
        let found = |terminal| runs_what_is_typed(&[words[0]], &words[1..], terminal);
        assert_eq!((found(false), found(true)), (on_pipe, at_terminal), "{line}");
    }

    #[test]
    fn what_only_takes_arguments_from_a_pipe_does_not_run_its_input() {
        for (line, runs) in [
            ("sh", true),
            ("python3 -", true),
            ("xargs rm", false),
            ("sudo -u www sh", true),
            ("sudo tee f", false),
            ("sudo sudo sh", true),
            ("sudo sh f", false),
            ("cat", false),
            ("sh f", false),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(runs_its_input(&[words[0]], &words[1..]), runs, "{line}");
        }
    }

    #[test]
    fn readers_run_what_comes_from_a_pipe_and_pagers_what_is_typed() {
        for line in [
            "ed",
            "vim.tiny f",
            "sqlite3 :memory:",
            "psql",
            "python3",
            "python3 -i",
            "bash",
            "sh -s",
            "gdb x",
            "m4",
            "sdiff -o c a b",
        ] {
            check(line, true, true);
        }
        for line in [
            "git show",
            "git --no-pager commit",
            "git-log",
            "man ls",
            "less f",
            "nano f",
            "systemctl status",
        ] {
            check(line, false, true);
        }
        for line in [
            "cat",
            "git --no-pager log -p",
            "git --version",
            "npm run dev",
            "make",
            "grep x f",
        ] {
            check(line, false, false);
        }
    }
}
