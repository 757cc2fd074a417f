//! Starter sets: entries for what agents do all day, by which nothing is installed, published or thrown away
//! (`docs/starter-sets.md`).
//!
//! An entry names its arguments as a positive list of subcommands, options and plain words. Rule D1 says nothing about such
//! an entry, so a list has no option that names a program, a plug-in, a file of settings or a file to be written, and no word
//! begins with a dash. Entry point: [`StarterSet::entries`].

use countersign_domain::vocabulary;
use serde_json::{Value, json};

vocabulary! {
    /// Entries for one kind of work.
    pub enum StarterSet("git-read, files-read, search, rust, node, python, go, make or docker-read") {
        /// Looking at a repository.
        GitRead = "git-read",
        /// Looking at files.
        FilesRead = "files-read",
        /// Finding files and text.
        Search = "search",
        /// Building and testing with cargo.
        Rust = "rust",
        /// Testing with npm, pnpm and yarn.
        Node = "node",
        /// Testing and checking Python.
        Python = "python",
        /// Building and testing with go.
        Go = "go",
        /// Building and testing with make.
        Make = "make",
        /// Looking at containers.
        DockerRead = "docker-read",
    }
}

/// One entry of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StarterEntry {
    /// The name of the program.
    pub pattern: &'static str,
    /// A regular expression over the arguments; `None` for any arguments that rule D1 knows.
    pub arg_pattern: Option<String>,
    /// The member `confine`; `None` for the default.
    pub confine: Option<Value>,
    /// What it lets pass, in words.
    pub allows: &'static str,
}

/// What a program may start.
#[derive(Debug, Clone, Copy)]
enum MayStart {
    /// No other program.
    Nothing,
    /// What its profile says.
    Judged,
    /// What the default says: these run code of the workspace.
    Default,
}

/// The arguments that an entry covers.
#[derive(Debug, Clone, Copy)]
enum Arguments {
    Any,
    /// One of the beginnings, and then any of the words, in any number and order. In both `*` is a plain word, `#` a
    /// number, and `&` one of [`TARGETS`]. The only beginning may be empty.
    Listed(&'static [&'static str], &'static [&'static str]),
}

/// Programs with the same arguments, and what they do.
struct Row {
    programs: &'static [&'static str],
    arguments: Arguments,
    starts: MayStart,
    allows: &'static str,
}

/// A word that no program takes for an option, nor for a file of options (`@FILE`).
const WORD: &str = r"[A-Za-z0-9_./~^{}*?:,%=][A-Za-z0-9_./@~^{}*?:,+%=\-]*";

const GIT_LOOKS: &[&str] = &[
    "*",
    "--",
    "-#",
    "-n",
    "-n#",
    "-p",
    "-s",
    "-u",
    "-U#",
    "-w",
    "-b",
    "-M",
    "-C",
    "-i",
    "-v",
    "--patch",
    "--no-patch",
    "--stat",
    "--shortstat",
    "--numstat",
    "--summary",
    "--name-only",
    "--name-status",
    "--oneline",
    "--graph",
    "--all",
    "--branches",
    "--tags",
    "--remotes",
    "--decorate",
    "--no-decorate",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--cached",
    "--staged",
    "--merges",
    "--no-merges",
    "--first-parent",
    "--reverse",
    "--follow",
    "--abbrev-commit",
    "--word-diff",
    "--ignore-all-space",
    "--ignore-space-change",
    "--exit-code",
    "--quiet",
    "--check",
    "--date=*",
    "--format=*",
    "--pretty=*",
    "--pretty",
    "--max-count=#",
    "--since=*",
    "--until=*",
    "--after=*",
    "--before=*",
    "--author=*",
    "--grep=*",
    "--diff-filter=*",
    "--unified=#",
    "--color=never",
    "-S",
    "-G",
    "-L",
];

const CARGO: &[&str] = &[
    "*",
    "--",
    "-q",
    "--quiet",
    "-v",
    "-vv",
    "--verbose",
    "-r",
    "--release",
    "--workspace",
    "--all",
    "--all-targets",
    "--all-features",
    "--no-default-features",
    "-F",
    "--features",
    "--features=*",
    "-p",
    "--package",
    "--package=*",
    "--exclude",
    "--lib",
    "--bin",
    "--bins",
    "--test",
    "--tests",
    "--example",
    "--examples",
    "--benches",
    "--doc",
    "--no-run",
    "--no-fail-fast",
    "--no-deps",
    "--locked",
    "--offline",
    "--frozen",
    "--keep-going",
    "-j",
    "-j#",
    "--jobs",
    "--message-format=short",
    "--message-format=json",
    "--color=never",
    "--nocapture",
    "--no-capture",
    "--test-threads=#",
    "--ignored",
    "--include-ignored",
    "--exact",
    "--list",
    "--skip",
    "--check",
    "-D",
    "-W",
    "-A",
];

const GO: &[&str] = &[
    "*",
    "-v",
    "-race",
    "-short",
    "-cover",
    "-failfast",
    "-json",
    "-m",
    "-run",
    "-run=*",
    "-count=#",
    "-timeout",
    "-timeout=*",
    "-bench",
    "-bench=*",
    "-benchmem",
    "-p",
    "-p=#",
    "-parallel",
    "-parallel=#",
    "-tags",
    "-tags=*",
    "-trimpath",
    "-l",
    "-d",
    "-s",
];

const PYTEST: &[&str] = &[
    "*",
    "-q",
    "-qq",
    "-v",
    "-vv",
    "-vvv",
    "-x",
    "-s",
    "-l",
    "-k",
    "-m",
    "-rA",
    "-ra",
    "-rf",
    "-rs",
    "--lf",
    "--ff",
    "--sw",
    "--last-failed",
    "--failed-first",
    "--exitfirst",
    "--quiet",
    "--verbose",
    "--co",
    "--collect-only",
    "--maxfail=#",
    "--tb=*",
    "--durations=#",
    "--no-header",
    "--no-summary",
    "--disable-warnings",
    "--color=no",
    "--cov",
    "--cov=*",
    "--no-cov",
    "--strict-markers",
];

const DOCKER: &[&str] = &[
    "*",
    "-a",
    "-q",
    "-s",
    "-n",
    "-t",
    "-l",
    "--all",
    "--quiet",
    "--latest",
    "--size",
    "--no-trunc",
    "--tail",
    "--tail=*",
    "--since",
    "--since=*",
    "--timestamps",
    "--filter",
    "--filter=*",
    "--format",
    "--format=*",
    "--no-stream",
    "--digests",
];

/// Names of targets and scripts that build and check.
const TARGETS: &[&str] = &[
    "all",
    "build",
    "test",
    "tests",
    "check",
    "lint",
    "fmt",
    "format",
    "typecheck",
    "unit",
    "vet",
];

const GIT: &[&str] = &["git"];

fn rows(set: StarterSet) -> &'static [Row] {
    match set {
        StarterSet::GitRead => &[
            Row {
                programs: GIT,
                arguments: Arguments::Listed(
                    &["status"],
                    &[
                        "*",
                        "--",
                        "-s",
                        "-b",
                        "-sb",
                        "-v",
                        "-u",
                        "-uno",
                        "-uall",
                        "-z",
                        "--short",
                        "--branch",
                        "--long",
                        "--porcelain",
                        "--porcelain=*",
                        "--ignored",
                        "--untracked-files=*",
                        "--show-stash",
                    ],
                ),
                starts: MayStart::Nothing,
                allows: "status",
            },
            Row {
                programs: GIT,
                arguments: Arguments::Listed(
                    &[
                        "log",
                        "show",
                        "diff",
                        "--no-pager log",
                        "--no-pager show",
                        "--no-pager diff",
                    ],
                    GIT_LOOKS,
                ),
                starts: MayStart::Nothing,
                allows: "log, show, diff",
            },
            Row {
                programs: GIT,
                arguments: Arguments::Listed(
                    &[
                        "blame",
                        "ls-files",
                        "ls-tree",
                        "rev-parse",
                        "merge-base",
                        "describe",
                        "grep",
                        "rev-list",
                        "check-ignore",
                    ],
                    &[
                        "*",
                        "--",
                        "-#",
                        "-r",
                        "-n",
                        "-i",
                        "-l",
                        "-w",
                        "-e",
                        "-E",
                        "-F",
                        "-s",
                        "-o",
                        "-d",
                        "-v",
                        "-t",
                        "-L",
                        "-z",
                        "--short",
                        "--verify",
                        "--quiet",
                        "--abbrev-ref",
                        "--show-toplevel",
                        "--git-dir",
                        "--is-inside-work-tree",
                        "--show-current",
                        "--others",
                        "--cached",
                        "--modified",
                        "--deleted",
                        "--exclude-standard",
                        "--name-only",
                        "--count",
                        "--all",
                        "--tags",
                        "--always",
                        "--dirty",
                        "--max-count=#",
                        "--is-ancestor",
                        "--stage",
                        "--line-number",
                        "--ignore-case",
                        "--files-with-matches",
                    ],
                ),
                starts: MayStart::Nothing,
                allows: "blame, grep, ls-files, ls-tree, rev-parse, rev-list, merge-base, describe, check-ignore",
            },
            Row {
                programs: GIT,
                arguments: Arguments::Listed(
                    &[
                        "branch",
                        "remote",
                        "tag",
                        "tag -l",
                        "tag -l *",
                        "tag --list",
                        "tag --list *",
                        "stash list",
                        "stash show",
                        "worktree list",
                        "reflog",
                        "reflog show",
                        "config --get *",
                        "config --list",
                        "config -l",
                        "remote get-url *",
                        "remote show -n *",
                    ],
                    &[
                        "-v",
                        "-vv",
                        "-a",
                        "-r",
                        "-p",
                        "-l",
                        "--all",
                        "--list",
                        "--show-current",
                        "--stat",
                        "--no-color",
                    ],
                ),
                starts: MayStart::Nothing,
                allows: "lists of branches, tags, remotes, stashes, worktrees; single settings",
            },
            Row {
                programs: GIT,
                arguments: Arguments::Listed(&["--version"], &[]),
                starts: MayStart::Nothing,
                allows: "--version",
            },
        ],
        StarterSet::FilesRead => &[
            Row {
                programs: &[
                    "basename",
                    "cat",
                    "cmp",
                    "cut",
                    "df",
                    "diff",
                    "dirname",
                    "du",
                    "echo",
                    "head",
                    "id",
                    "ls",
                    "md5sum",
                    "nl",
                    "od",
                    "printf",
                    "pwd",
                    "readlink",
                    "realpath",
                    "rev",
                    "sha256sum",
                    "stat",
                    "tac",
                    "tail",
                    "tr",
                    "uname",
                    "wc",
                    "which",
                    "whoami",
                ],
                arguments: Arguments::Any,
                starts: MayStart::Nothing,
                allows: "any arguments",
            },
            Row {
                programs: &["sort"],
                arguments: Arguments::Listed(
                    &[""],
                    &[
                        "*",
                        "-n",
                        "-r",
                        "-u",
                        "-rn",
                        "-nr",
                        "-h",
                        "-rh",
                        "-hr",
                        "-V",
                        "-f",
                        "-k",
                        "-k#",
                        "-k#n",
                        "-k#nr",
                        "-k#rn",
                        "-k#,#",
                        "-t",
                        "-t:",
                        "-t,",
                        "--numeric-sort",
                        "--reverse",
                        "--unique",
                    ],
                ),
                starts: MayStart::Nothing,
                allows: "to the output, never into a file",
            },
            Row {
                programs: &["sed"],
                arguments: Arguments::Listed(&["-n #p", "-n #,#p", "-n #,$p"], &["*"]),
                starts: MayStart::Nothing,
                allows: "-n with lines to print",
            },
            Row {
                programs: &["file"],
                arguments: Arguments::Listed(&[""], &["*", "-b", "-i", "-L", "--brief", "--mime-type"]),
                starts: MayStart::Nothing,
                allows: "names of files",
            },
            Row {
                programs: &["tree"],
                arguments: Arguments::Listed(
                    &[""],
                    &[
                        "*",
                        "-a",
                        "-d",
                        "-f",
                        "-L",
                        "-I",
                        "-P",
                        "--dirsfirst",
                        "--noreport",
                    ],
                ),
                starts: MayStart::Nothing,
                allows: "to the output, never into a file",
            },
            Row {
                programs: &["date"],
                arguments: Arguments::Listed(&[""], &["-u", "-I", "-Iseconds", "+*"]),
                starts: MayStart::Nothing,
                allows: "to show the time",
            },
        ],
        StarterSet::Search => &[
            Row {
                programs: &["grep", "egrep", "fgrep", "rg"],
                arguments: Arguments::Any,
                starts: MayStart::Judged,
                allows: "any arguments",
            },
            Row {
                programs: &["find"],
                arguments: Arguments::Listed(
                    &[""],
                    &[
                        "*",
                        "-name",
                        "-iname",
                        "-path",
                        "-ipath",
                        "-wholename",
                        "-regex",
                        "-iregex",
                        "-type",
                        "-maxdepth",
                        "-mindepth",
                        "-size",
                        "-mtime",
                        "-mmin",
                        "-newer",
                        "-newermt",
                        "-empty",
                        "-prune",
                        "-print",
                        "-print0",
                        "-not",
                        "!",
                        "-o",
                        "-or",
                        "-a",
                        "-and",
                        "(",
                        ")",
                        "-L",
                        "-H",
                        "-P",
                        "-xdev",
                        "-mount",
                        "-executable",
                        "-#",
                        "+#",
                        "-ls",
                        "-perm",
                        "-user",
                        "-depth",
                    ],
                ),
                starts: MayStart::Nothing,
                allows: "tests and -print, without -exec, -delete and files to write",
            },
        ],
        StarterSet::Rust => &[Row {
            programs: &["cargo"],
            arguments: Arguments::Listed(
                &[
                    "build",
                    "b",
                    "check",
                    "c",
                    "test",
                    "t",
                    "clippy",
                    "fmt",
                    "doc",
                    "tree",
                    "metadata",
                    "bench",
                    "--version",
                    "-V",
                    "nextest run",
                ],
                CARGO,
            ),
            starts: MayStart::Default,
            allows: "build, check, test, clippy, fmt, doc, tree, metadata, bench, nextest run",
        }],
        StarterSet::Node => &[
            Row {
                programs: &["npm", "pnpm", "yarn"],
                arguments: Arguments::Listed(&["test", "run &"], &["-s", "--silent"]),
                starts: MayStart::Default,
                allows: "test and scripts that build and check",
            },
            Row {
                programs: &["npm", "pnpm"],
                arguments: Arguments::Listed(
                    &["ls", "list"],
                    &["*", "--all", "--depth=#", "--json", "--parseable"],
                ),
                starts: MayStart::Default,
                allows: "lists of packages",
            },
            Row {
                programs: &["npm", "pnpm", "yarn", "node"],
                arguments: Arguments::Listed(&["--version", "-v"], &[]),
                starts: MayStart::Default,
                allows: "--version",
            },
            Row {
                programs: &["tsc"],
                arguments: Arguments::Listed(
                    &["--noEmit"],
                    &["--pretty", "false", "--skipLibCheck", "--strict"],
                ),
                starts: MayStart::Default,
                allows: "--noEmit",
            },
        ],
        StarterSet::Python => &[
            Row {
                programs: &["pytest"],
                arguments: Arguments::Listed(&[""], PYTEST),
                starts: MayStart::Default,
                allows: "tests",
            },
            Row {
                programs: &["python", "python3"],
                arguments: Arguments::Listed(&["-m pytest"], PYTEST),
                starts: MayStart::Default,
                allows: "-m pytest",
            },
            Row {
                programs: &["python", "python3", "pip", "pip3"],
                arguments: Arguments::Listed(&["--version", "-V"], &[]),
                starts: MayStart::Default,
                allows: "--version",
            },
            Row {
                programs: &["pip", "pip3"],
                arguments: Arguments::Listed(
                    &["list", "freeze", "check", "show *"],
                    &["*", "-f", "--format=*", "--outdated"],
                ),
                starts: MayStart::Default,
                allows: "list, show, freeze, check",
            },
            Row {
                programs: &["ruff"],
                arguments: Arguments::Listed(
                    &["check", "format --check", "format --diff"],
                    &["*", "-q", "--diff", "--no-cache"],
                ),
                starts: MayStart::Default,
                allows: "check, and format without changes",
            },
            Row {
                programs: &["mypy"],
                arguments: Arguments::Listed(
                    &[""],
                    &[
                        "*",
                        "--strict",
                        "--pretty",
                        "--no-error-summary",
                        "--show-error-codes",
                    ],
                ),
                starts: MayStart::Default,
                allows: "names of files",
            },
        ],
        StarterSet::Go => &[
            Row {
                programs: &["go"],
                arguments: Arguments::Listed(&["build", "test", "vet", "list", "fmt", "version"], GO),
                starts: MayStart::Default,
                allows: "build, test, vet, list, fmt, version",
            },
            Row {
                programs: &["go"],
                arguments: Arguments::Listed(
                    &["env", "mod verify", "mod graph"],
                    &["GOOS", "GOARCH", "GOPATH", "GOROOT", "GOMOD"],
                ),
                starts: MayStart::Default,
                allows: "env to read, mod verify, mod graph",
            },
            Row {
                programs: &["gofmt"],
                arguments: Arguments::Listed(&["-l", "-d"], &["*", "-s", "-l", "-d"]),
                starts: MayStart::Default,
                allows: "-l and -d",
            },
        ],
        StarterSet::Make => &[Row {
            programs: &["make", "gmake"],
            arguments: Arguments::Listed(&[""], &["&", "-j", "-j#", "-k", "-s", "-n"]),
            starts: MayStart::Default,
            allows: "targets that build and check",
        }],
        StarterSet::DockerRead => &[Row {
            programs: &["docker"],
            arguments: Arguments::Listed(
                &[
                    "ps",
                    "images",
                    "version",
                    "info",
                    "logs",
                    "inspect",
                    "top",
                    "port",
                    "stats --no-stream",
                    "image ls",
                    "container ls",
                    "volume ls",
                    "network ls",
                    "compose ps",
                    "compose logs",
                    "--version",
                ],
                DOCKER,
            ),
            starts: MayStart::Default,
            allows: "ps, images, logs, inspect, info, version, top, port, lists",
        }],
    }
}

impl StarterSet {
    /// The entries of the set.
    pub fn entries(self) -> Vec<StarterEntry> {
        let entries = rows(self).iter().flat_map(|row| {
            row.programs.iter().map(move |program| StarterEntry {
                pattern: program,
                arg_pattern: match row.arguments {
                    Arguments::Any => None,
                    Arguments::Listed(beginnings, words) => Some(expression(beginnings, words)),
                },
                confine: match row.starts {
                    MayStart::Nothing => Some(json!({ "starts": [] })),
                    MayStart::Judged => Some(json!({ "starts": "judged" })),
                    MayStart::Default => None,
                },
                allows: row.allows,
            })
        });
        entries.collect()
    }
}

/// The expression for one of the beginnings and any of the words.
fn expression(beginnings: &[&str], words: &[&str]) -> String {
    let forms = |texts: &[&str]| texts.iter().map(|text| form(text)).collect::<Vec<_>>().join("|");
    let (first, rest) = (forms(beginnings), forms(words));
    match (beginnings, words) {
        // The first word has no space before it.
        ([""], _) => format!("^(?:(?:{rest})(?: (?:{rest}))*)?$"),
        (_, []) => format!("^(?:{first})$"),
        _ => format!("^(?:{first})(?: (?:{rest}))*$"),
    }
}

/// A form of the tables as an expression.
fn form(text: &str) -> String {
    let mut expression = String::new();
    for character in text.chars() {
        match character {
            '*' => expression.push_str(WORD),
            '#' => expression.push_str("[0-9]+"),
            '&' => {
                expression.push_str("(?:");
                expression.push_str(&TARGETS.join("|"));
                expression.push_str(")(?::[A-Za-z0-9_\\-]+)*");
            }
            '+' | '(' | ')' | '$' | '.' => {
                expression.push('\\');
                expression.push(character);
            }
            plain => expression.push(plain),
        }
    }
    expression
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        confine::ConfineRule,
        pattern::{ArgumentMatch, ArgumentPattern},
    };

    const ALL: &[StarterSet] = StarterSet::ALL;

    /// Whether an entry of a set covers the words of a command, as far as the expression says.
    fn covers(set: StarterSet, command: &str) -> bool {
        let mut words = command.split(' ');
        let program = words.next().unwrap();
        let arguments: Vec<&str> = words.collect();
        set.entries().iter().any(|entry| {
            entry.pattern == program
                && entry.arg_pattern.as_ref().is_none_or(|pattern| {
                    ArgumentPattern::parse(pattern).unwrap().matches(&arguments) == ArgumentMatch::Yes
                })
        })
    }

    #[test]
    fn every_entry_can_be_stored() {
        for set in ALL {
            let entries = set.entries();
            assert!(!entries.is_empty());
            for entry in entries {
                if let Some(pattern) = &entry.arg_pattern {
                    ArgumentPattern::parse(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
                }
                let understood = entry.confine.as_ref().map(ConfineRule::read);
                assert!(
                    understood.is_none_or(|rule| rule.problem().is_none()),
                    "{entry:?}"
                );
            }
        }
    }

    /// Without arguments in the entry rule D1 and the kernel keep the program to what it is known to start.
    #[test]
    fn any_arguments_are_for_programs_that_are_kept() {
        for entry in ALL.iter().flat_map(|set| set.entries()) {
            if entry.arg_pattern.is_none() {
                assert!(entry.confine.is_some(), "{entry:?}");
                assert!(
                    crate::command::helpers::starts_are_all(entry.pattern),
                    "{entry:?}"
                );
            }
        }
    }

    #[test]
    fn no_list_takes_any_option() {
        for entry in ALL.iter().flat_map(|set| set.entries()) {
            let Some(pattern) = &entry.arg_pattern else {
                continue;
            };
            let pattern = ArgumentPattern::parse(pattern).unwrap();
            for option in [
                "-Z",
                "--config",
                "--config=x",
                "-x=y",
                "--output=f",
                "--exec=x",
                "@file",
            ] {
                assert_eq!(
                    pattern.matches(&[option]),
                    ArgumentMatch::No,
                    "{option} {entry:?}"
                );
            }
        }
    }

    #[test]
    fn words_are_joined_and_still_told_apart() {
        assert!(covers(StarterSet::GitRead, "git status"));
        assert!(covers(StarterSet::GitRead, "git log --oneline -5"));
        for hidden in [
            "git status\n-c",
            "git status ",
            "git  status",
            "git log HEAD --output=x",
            "git log\t--output",
        ] {
            assert!(!covers(StarterSet::GitRead, hidden), "{hidden:?}");
        }
    }
}
