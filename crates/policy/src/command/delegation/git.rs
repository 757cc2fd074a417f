//! What git starts: helpers that its options, its configuration and addresses name.

use std::ops::Range;

use super::long_name;
use super::rules::{NONE, Rule};

/// The rules for what stands behind git's subcommand.
pub(super) const RULES: &[Rule] = &[
    Rule {
        long: &["upload-pack", "receive-pack"],
        ..NONE
    },
    Rule {
        subcommands: &[
            "push",
            "fetch",
            "pull",
            "archive",
            "ls-remote",
            "fetch-pack",
            "send-pack",
        ],
        long: &["exec"],
        ..NONE
    },
    Rule {
        subcommands: &["clone", "ls-remote"],
        short: "u",
        ..NONE
    },
    Rule {
        subcommands: &["clone"],
        short: "c",
        long: &["config", "template"],
        ..NONE
    },
    Rule {
        subcommands: &["init", "init-db"],
        long: &["template"],
        ..NONE
    },
    Rule {
        subcommands: &["bisect"],
        words: &["run", "view", "visualize"],
        ..NONE
    },
    Rule {
        subcommands: &["rebase"],
        short: "x",
        long: &["exec"],
        ..NONE
    },
    Rule {
        subcommands: &["submodule", "submodule--helper"],
        words: &["foreach"],
        ..NONE
    },
    Rule {
        subcommands: &["grep"],
        short: "O",
        long: &["open-files-in-pager"],
        ..NONE
    },
    Rule {
        subcommands: &["difftool"],
        short: "x",
        long: &["extcmd"],
        ..NONE
    },
];

/// Git subcommands that start what their arguments, their input, the repository or its configuration names.
const DELEGATING: &[&str] = &[
    "citool",
    "cvsserver",
    "daemon",
    "mergetool",
    "filter-branch",
    "for-each-repo",
    "gui",
    "hook",
    "http-backend",
    "instaweb",
    "maintenance",
    "merge-index",
    "p4",
    "remote-ext",
    "send-email",
    "shell",
    "svn",
    "web--browse",
];

/// Keys that `git config` may write besides: habits of a person that name no program.
const HARMLESS_WRITES: &[&str] = &[
    "branch.autosetuprebase",
    "commit.verbose",
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.longpaths",
    "diff.algorithm",
    "diff.renames",
    "fetch.prune",
    "init.defaultbranch",
    "merge.conflictstyle",
    "pull.ff",
    "pull.rebase",
    "push.autosetupremote",
    "push.default",
    "rebase.autosquash",
    "rebase.autostash",
    "rerere.enabled",
];

/// Options of `git config` that take the next word as their value.
const CONFIG_VALUE_OPTIONS: &[&str] = &[
    "-f",
    "--file",
    "--blob",
    "--type",
    "--default",
    "--comment",
    "--url",
    "--value",
];

/// Options of `git config` that only read.
const CONFIG_READS: &[&str] = &[
    "--get",
    "--get-all",
    "--get-regexp",
    "--get-urlmatch",
    "--list",
    "-l",
];

/// Keys of `git -c` that only change how things look or who is named.
const HARMLESS_KEYS: &[&str] = &["user.name", "user.email", "core.quotepath", "core.abbrev"];
const HARMLESS_SECTIONS: &[&str] = &["color.", "advice.", "log."];
const HARMLESS_SETTINGS: &[&str] = &["commit.gpgsign=false", "tag.gpgsign=false"];

/// Options of git itself that take the next word as their value.
const VALUE_OPTIONS: &[&str] = &[
    "-C",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--attr-source",
    "--super-prefix",
    "--shallow-file",
];

/// Whether git is told to start something.
pub(super) fn starts_another(arguments: &[&str]) -> bool {
    if arguments.iter().any(|word| word.contains("ext::")) {
        return true;
    }
    let mut at = 0;
    while let Some(option) = arguments.get(at).filter(|word| word.starts_with('-')) {
        let hands_over = match *option {
            "-c" => !arguments
                .get(at + 1)
                .is_some_and(|setting| is_harmless_setting(setting)),
            option => {
                option.starts_with("-c")
                    || option.starts_with("--config-env")
                    || option.starts_with("--exec-path=")
            }
        };
        if hands_over {
            return true;
        }
        at += if *option == "-c" || VALUE_OPTIONS.contains(option) {
            2
        } else {
            1
        };
    }
    let rest = arguments.get(at + 1..).unwrap_or_default();
    arguments
        .get(at)
        .is_some_and(|subcommand| subcommand_starts_another(subcommand, rest))
}

/// Where the words begin, and end, that are programs or text for a shell: the settings before the subcommand, and
/// everything behind one that is told to start something.
pub(super) fn handed(arguments: &[&str]) -> Range<usize> {
    let mut settings: Option<Range<usize>> = None;
    let mut at = 0;
    while let Some(option) = arguments.get(at).filter(|word| word.starts_with('-')) {
        let behind = at
            + if *option == "-c" || VALUE_OPTIONS.contains(option) {
                2
            } else {
                1
            };
        if option.starts_with("-c") || option.starts_with("--config-env") || option.starts_with("--exec-path")
        {
            settings = Some(settings.map_or(at, |settings| settings.start)..behind);
        }
        at = behind;
    }
    let rest = arguments.get(at + 1..).unwrap_or_default();
    let subcommand = arguments.get(at);
    if subcommand.is_some_and(|subcommand| subcommand_starts_another(subcommand, rest)) {
        return settings.map_or(at, |settings| settings.start)..arguments.len();
    }
    settings.unwrap_or(0..arguments.len())
}

/// Whether one subcommand is told to start something, by the arguments behind it.
pub(super) fn subcommand_starts_another(subcommand: &str, rest: &[&str]) -> bool {
    DELEGATING.contains(&subcommand)
        || (subcommand == "config" && config_starts_another(rest))
        || RULES
            .iter()
            .filter(|rule| rule.subcommands.is_empty() || rule.subcommands.contains(&subcommand))
            .any(|rule| rule.is_in(rest))
}

/// What is written to git's configuration has the power of `-c`, moving a section too, and an editor is a program.
fn config_starts_another(arguments: &[&str]) -> bool {
    let edits = |word: &&str| {
        *word == "-e"
            || long_name(word)
                .is_some_and(|name| "edit".starts_with(name) || "rename-section".starts_with(name))
    };
    if arguments.iter().any(edits) {
        return true;
    }
    // Behind the first operand an option is none.
    let mut first = 0;
    while let Some(option) = arguments.get(first).filter(|word| word.starts_with('-')) {
        if CONFIG_READS.contains(option) {
            return false;
        }
        first += if CONFIG_VALUE_OPTIONS.contains(option) {
            2
        } else {
            1
        };
    }
    let operands: Vec<&str> = arguments
        .iter()
        .skip(first)
        .filter(|word| !word.starts_with('-'))
        .copied()
        .collect();
    let written = match operands.as_slice() {
        ["edit" | "rename-section", ..] => return true,
        ["get" | "list" | "unset" | "remove-section", ..] => return false,
        ["set", written @ ..] | written => written,
    };
    // One operand is a question. Of more the last is a value, and any of the others may be the key.
    let Some((_, keys)) = written.split_last() else {
        return false;
    };
    keys.iter()
        .any(|key| !is_harmless_setting(key) && !HARMLESS_WRITES.contains(&key.to_ascii_lowercase().as_str()))
}

/// Git compares sections and keys without case.
fn is_harmless_setting(setting: &str) -> bool {
    let key = setting.split_once('=').map_or(setting, |(key, _)| key);
    let key = key.to_ascii_lowercase();
    HARMLESS_KEYS.contains(&key.as_str())
        || HARMLESS_SECTIONS.iter().any(|section| key.starts_with(section))
        || HARMLESS_SETTINGS.contains(&setting.to_ascii_lowercase().as_str())
}
