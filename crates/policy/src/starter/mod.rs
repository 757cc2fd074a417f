//! Starter sets: entries for what agents do all day, by which nothing is installed, published or thrown away
//! (`docs/starter-sets.md`).
//!
//! An entry names its arguments as a positive list of subcommands, options and plain words. Rule D1 says nothing about such
//! an entry, so a list has no option that names a program, a plug-in, a file of settings or a file to be written, and no word
//! begins with a dash. Entry point: [`StarterSet::entries`].

mod rows;

use countersign_domain::vocabulary;
use serde_json::{Value, json};

vocabulary! {
    /// Entries for one kind of work.
    pub enum StarterSet(
        "git-read, git-commit, github-read, files-read, files-write, search, rust, node, python, go, make, \
         run-code or docker-read"
    ) {
        /// Looking at a repository.
        GitRead = "git-read",
        /// Adding and committing, and changing branches.
        GitCommit = "git-commit",
        /// Looking at GitHub.
        GithubRead = "github-read",
        /// Looking at files.
        FilesRead = "files-read",
        /// Making, copying and moving files of the working directory.
        FilesWrite = "files-write",
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
        /// Running files of the working directory.
        RunCode = "run-code",
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
    /// No other program, and it writes below the working directory alone.
    NothingAndWritesHere,
    /// These alone.
    These(&'static [&'static str]),
    /// What its profile says.
    Judged,
    /// What the default says: these run code of the workspace.
    Default,
}

/// The arguments that an entry covers.
#[derive(Debug, Clone, Copy)]
enum Arguments {
    Any,
    /// One of the beginnings, and then any of the words, in any number and order. A form has blanks between its words, and
    /// in it [`OPEN`] stands for others. The only beginning may be empty.
    Listed(&'static [&'static str], &'static [&'static str]),
    /// An expression over the arguments, each with a NUL behind it.
    Expression(&'static str),
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

/// Characters of the tables that stand for words of a kind.
const OPEN: &[(char, &str)] = &[
    ('*', WORD),
    ('#', "[0-9]+"),
    (
        '&',
        "(?:all|build|test|tests|check|lint|fmt|format|typecheck|unit|vet)(?::[A-Za-z0-9_\\-]+)*",
    ),
    // Any text, for programs to which it is data.
    ('…', "[^\0\\-@][^\0]*"),
    // Text that an old npm may hand to a shell in double quotes.
    ('“', "[A-Za-z0-9_][A-Za-z0-9_ ./:,()#+\\-]*"),
    // The owner and the name of a repository, and no host.
    ('§', "[A-Za-z0-9_][A-Za-z0-9_.\\-]*/[A-Za-z0-9_][A-Za-z0-9_.\\-]*"),
];

impl StarterSet {
    /// What it lets pass, for a list of the sets.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::GitRead => "git status, log, diff and the like",
            Self::GitCommit => "git add, commit, switch, stash",
            Self::GithubRead => "gh, to list and to view",
            Self::FilesRead => "cat, ls, head, wc, jq and the like",
            Self::FilesWrite => "mkdir, touch, cp, mv in the working directory",
            Self::Search => "grep, rg, find",
            Self::Rust => "cargo build, check, test, clippy, fmt",
            Self::Node => "tests and checks of npm, pnpm and yarn",
            Self::Python => "pytest, ruff, mypy",
            Self::Go => "go build, test, vet, fmt",
            Self::Make => "make build, test, check, lint",
            Self::RunCode => "runs code of the working directory",
            Self::DockerRead => "docker ps, images, logs",
        }
    }

    /// The entries of the set.
    pub fn entries(self) -> Vec<StarterEntry> {
        let entries = rows::rows(self).iter().flat_map(|row| {
            row.programs.iter().map(move |program| StarterEntry {
                pattern: program,
                arg_pattern: match row.arguments {
                    Arguments::Any => None,
                    Arguments::Listed(beginnings, words) => Some(expression(beginnings, words)),
                    Arguments::Expression(expression) => Some(expression.to_owned()),
                },
                confine: match row.starts {
                    MayStart::Nothing => Some(json!({ "starts": [] })),
                    MayStart::NothingAndWritesHere => Some(json!({ "starts": [], "writes": ["workspace"] })),
                    MayStart::These(programs) => Some(json!({ "starts": programs })),
                    MayStart::Judged => Some(json!({ "starts": "judged" })),
                    MayStart::Default => None,
                },
                allows: row.allows,
            })
        });
        entries.collect()
    }

    /// Whether a set has an entry for a program of this name that limits neither its arguments nor where it writes.
    pub fn trusts_any_arguments(program: &str) -> bool {
        let mut rows = Self::ALL.iter().flat_map(|set| rows::rows(*set));
        rows.any(|row| {
            matches!(
                (row.arguments, row.starts),
                (Arguments::Any, MayStart::Nothing | MayStart::Judged)
            ) && row.programs.contains(&program)
        })
    }
}

/// The expression for one of the beginnings and any of the words. A NUL is behind each argument, so that one with a blank in it
/// does not pass for two.
fn expression(beginnings: &[&str], words: &[&str]) -> String {
    let forms = |texts: &[&str]| {
        let all: Vec<String> = texts.iter().map(|text| form(text)).collect();
        all.join("|")
    };
    let (first, rest) = (forms(beginnings), forms(words));
    match (beginnings, words) {
        ([""], _) => format!("^(?:\0\0|(?:(?:{rest})\0)+)$"),
        (_, []) => format!("^(?:{first})\0$"),
        _ => format!("^(?:{first})(?:\0(?:{rest}))*\0$"),
    }
}

/// A form of the tables as an expression.
fn form(text: &str) -> String {
    let mut expression = String::new();
    for character in text.chars() {
        match OPEN.iter().find(|(symbol, _)| *symbol == character) {
            Some((_, open)) => expression.push_str(open),
            None if character == ' ' => expression.push('\0'),
            None if matches!(character, '+' | '(' | ')' | '$' | '.' | '{' | '}') => {
                expression.push('\\');
                expression.push(character);
            }
            None => expression.push(character),
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
                // To `rg` it is what it looks for.
                let is_text = entry.pattern == "rg" && option == "@file";
                assert_eq!(
                    pattern.matches(&[option]),
                    if is_text {
                        ArgumentMatch::Yes
                    } else {
                        ArgumentMatch::No
                    },
                    "{option} {entry:?}"
                );
            }
        }
    }

    #[test]
    fn no_other_blank_passes_for_the_end_of_a_word() {
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

    /// Words apart, so that one may have blanks in it.
    #[track_caller]
    fn check(set: StarterSet, program: &str, covered: &[&[&str]], asked: &[&[&str]]) {
        let covers = |words: &[&str]| {
            set.entries().iter().any(|entry| {
                let covers = |pattern: &String| {
                    ArgumentPattern::parse(pattern).unwrap().matches(words) == ArgumentMatch::Yes
                };
                entry.pattern == program && entry.arg_pattern.as_ref().is_none_or(covers)
            })
        };
        for words in covered {
            assert!(covers(words), "{program} {words:?}");
        }
        for words in asked {
            assert!(!covers(words), "{program} {words:?}");
        }
    }

    #[test]
    fn sed_awk_and_jq_only_print() {
        let set = StarterSet::FilesRead;
        check(
            set,
            "sed",
            &[
                &["-n", "1p", "f"],
                &["-n", "10,20p;30,$p", "a", "b"],
                &["-n", "/## a [Bb]/,/^  }/p", "f"],
                &["-n", "/a\\.b(/,+4p; /c/p", "f"],
                &["-nE", "/a|b/p"],
                &["-n", "$p", "f"],
            ],
            &[
                &["-i", "s/a/b/", "f"],
                &["-n", "1w marker", "f"],
                &["-n", "1p;w marker", "f"],
                &["-n", "/a/w x/p", "f"],
                &["-n", "/a/e id/p", "f"],
                &["-n", "1e", "f"],
                &["-n", "s/a/id/ep", "f"],
                &["-n", "/a\\/w x/p", "f"],
                &["-n", "/a\\n/p", "f"],
                &["-n", "/a\n/p", "f"],
                &["-n", "1p\nw x", "f"],
                &["-n", "1p", "-i", "f"],
                &["-n", "1p", "--in-place", "f"],
                &["-n", "-f", "f"],
                &["-n", "1{p;r /etc/passwd", "f"],
                &["-n", "1p }", "f"],
                &["-n", "\\%a%w x%p", "f"],
                &["1p", "f"],
                &["-n", "1p w x"],
            ],
        );
        check(
            set,
            "awk",
            &[
                &["{print $1}"],
                &["-F,", "{print $1, $NF}", "f"],
                &["-F", ":", "{ print $2 \" x \" $3 }", "/etc/passwd"],
                &["{print NR, $0}", "f"],
            ],
            &[
                &["BEGIN{system(\"id\")}"],
                &["{print | \"sh\"}"],
                &["{print > \"f\"}"],
                &["{print $1 >> \"f\"}"],
                &["{print \"a\" > \"f\"}"],
                &["{print \"\\\"\" | \"sh\" \"\"}"],
                &["{\"id\" | getline}"],
                &["{getline x < \"/etc/passwd\"; print x}"],
                &["BEGIN{ARGV[1]=\"/etc/\" \"passwd\";ARGC=2}{print $0}"],
                &["-f", "p.awk"],
                &["-i", "inplace", "{print $1}", "f"],
                &["-l", "ordchr", "{print $1}"],
                &["{print $1}", "-f", "p.awk"],
                &["{print $1}", "RS=x", "f"],
                &["{print $1}", "/inet/tcp/0/h/80"],
                &["-v", "x=1", "{print $1}"],
                &["{print $1}; {print | \"sh\"}"],
                &["{print $(system(\"id\"))}"],
                &["@load \"x\""],
            ],
        );
        check(
            set,
            "jq",
            &[
                &["."],
                &["-r", ".a[] | select(.b == \"c\")", "f.json"],
                &["-rc", "{a: .b, c: (.d // \"x\")}"],
            ],
            &[
                &["import \"/x\" as $x; ."],
                &["include \"x\"; ."],
                &["\"\\u002fx\""],
                &["-f", "f"],
                &["-rf", "f"],
                &["-L", "x", "."],
                &["--from-file", "f"],
                &["--slurpfile", "a", "f", "."],
                &[".", "-f", "x"],
                &["@file"],
                &["--args", "."],
            ],
        );
    }

    #[test]
    fn git_commits_and_changes_branches_without_code_and_loss() {
        check(
            StarterSet::GitCommit,
            "git",
            &[
                &["add", "-A"],
                &["add", ".", "src/a.rs"],
                &["commit", "-m", "a message\n\nwith $(id) and `x`"],
                &["commit", "-q", "-am", "x"],
                &["commit", "-F", "-"],
                &["switch", "-c", "feature/x"],
                &["switch", "main"],
                &["checkout", "-b", "x", "origin/main"],
                &["stash", "pop", "stash@{0}"],
                &["restore", "--staged", "a", "b"],
            ],
            &[
                &["-c", "core.hooksPath=x", "commit", "-m", "x"],
                &["commit"],
                &["commit", "--amend", "-m", "x", "-c", "HEAD"],
                &["commit", "-m", "-x"],
                &["commit", "-F", "/etc/passwd"],
                &["commit", "-t", "f", "-m", "x"],
                &["commit", "--no-verify", "-m", "x"],
                &["commit", "-S", "-m", "x"],
                &["commit", "--author=x", "-m", "x", "--edit"],
                &["checkout", "src/a.rs"],
                &["checkout", "main"],
                &["checkout", "master"],
                &["checkout", "develop"],
                &["checkout", "--", "a"],
                &["checkout", "."],
                &["restore", "a"],
                &["restore", "--staged", "--worktree", "a"],
                &["restore", "--staged", "-W", "a"],
                &["reset", "--hard"],
                &["reset", "HEAD~1"],
                &["stash", "drop"],
                &["stash", "clear"],
                &["branch", "-D", "x"],
                &["clean", "-fd"],
                &["push"],
                &["rm", "a"],
                &["mv", "a", ".git/hooks/x"],
                &["switch", "--discard-changes", "x"],
                &["switch", "-f", "x"],
                &["add", "--pathspec-from-file=x"],
                &["add", "-e"],
                &["add", "-p"],
                &["-C", "a", "-c", "x=y", "add", "."],
                &["-C", "/srv/a", "commit", "-m", "x"],
            ],
        );
    }

    #[test]
    fn gh_reads_one_repository_of_the_host_that_is_signed_in_to() {
        check(
            StarterSet::GithubRead,
            "gh",
            &[
                &[
                    "pr",
                    "view",
                    "12",
                    "--repo",
                    "a/b",
                    "--json",
                    "title,body",
                    "-q",
                    ".title + \" x\"",
                ],
                &["run", "view", "3", "--log-failed"],
                &["pr", "diff", "1", "--color=never"],
            ],
            &[
                &["pr", "view", "12", "--repo", "evil.test/a/b"],
                &["pr", "view", "https://evil.test/a/b/pull/1"],
                &["pr", "view", "12", "--web"],
                &["pr", "view", "-R", "-x/y"],
                &["pr", "checkout", "12"],
                &["pr", "merge", "12"],
                &["pr", "create"],
                &["api", "user"],
                &["repo", "clone", "a/b"],
                &["repo", "view", "https://evil.test/a/b"],
                &["auth", "token"],
                &["auth", "status", "--show-token"],
                &["auth", "status", "-t"],
                &["extension", "install", "a/b"],
                &["alias", "set", "x", "y"],
                &["run", "download", "3"],
                &["issue", "list", "--web"],
            ],
        );
    }

    #[test]
    fn npm_gets_names_of_tests_and_no_options_that_name_code() {
        check(
            StarterSet::Node,
            "npm",
            &[
                &["test", "--", "test/a.test.ts", "-t", "should do x, and (y)"],
                &["run", "test:offline", "--", "--run", "a.ts", "--reporter=verbose"],
            ],
            &[
                &["test", "--script-shell=./x"],
                &["test", "--", "--config=x"],
                &["test", "--", "-t", "$(id)"],
                &["test", "--", "-t", "`id`"],
                &["test", "--", "-t", "\";id;\""],
                &["test", "--", "a\nid"],
                &["test", "--", "--reporter=./x"],
                &["test", "--", "--globalSetup=x"],
                &["run", "deploy", "--", "a"],
                &["install"],
                &["exec", "x"],
            ],
        );
    }

    #[test]
    fn only_files_below_the_directory_are_run() {
        let set = StarterSet::RunCode;
        check(
            set,
            "python",
            &[&["a.py"], &["-u", "./sub/a_b.py", "--x", "any text; $(id)", ""]],
            &[
                &["/tmp/a.py"],
                &["../a.py"],
                &["a/../../b.py"],
                &[".venv/a.py"],
                &["-c", "import os"],
                &["-m", "x"],
                &["-"],
                &[],
                &["-i", "a.py"],
                &["-X", "x", "a.py"],
                &["a"],
                &["-u", "-c", "x.py"],
            ],
        );
        check(
            set,
            "node",
            &[&["a.mjs", "-e", "x"]],
            &[
                &["-e", "x.js"],
                &["-r", "./a.js", "b.js"],
                &["--import=./a.mjs", "b.mjs"],
                &["/tmp/a.js"],
            ],
        );
        check(
            set,
            "cargo",
            &[
                &["run"],
                &["run", "--release", "--bin", "x", "--", "--any", "thing"],
            ],
            &[
                &["run", "--config", "x"],
                &["run", "--manifest-path", "x"],
                &["run", "--config=x", "--", "a"],
                &["run", "-Zx"],
                &["+nightly", "run"],
            ],
        );
    }

    #[test]
    fn uv_and_ruff_run_what_checks() {
        check(
            StarterSet::Python,
            "uv",
            &[
                &["run", "ruff", "check", "src/"],
                &["run", "ruff", "check", "src/a.py", "--fix"],
                &["run", "ruff", "check", "--fix", "."],
                &["run", "ruff", "format", "src/"],
                &["run", "pytest", "-xvs", "tests", "-k", "a or b"],
            ],
            &[
                &["run", "python", "x.py"],
                &["run", "ruff", "check", "../src/", "--fix"],
                &["run", "ruff", "check", "--fix", "--unsafe-fixes"],
                &["run", "ruff", "check", "--fix", "/srv/other/x.py"],
                &["run", "ruff", "format", "--config", "x"],
                &["run", "ruff", "format", "~/x.py"],
                &["run", "--with", "x", "ruff", "check"],
                &["run", "ruff", "check", "--config", "x"],
                &["run", "--env-file", "x", "pytest"],
                &["run", "pytest", "-p", "evil"],
                &["run", "pytest", "--rootdir=/x"],
                &["run", "pytest", "-c", "x.ini"],
                &["pip", "install", "x"],
                &["tool", "run", "x"],
            ],
        );
        check(
            StarterSet::Go,
            "go",
            &[
                &["test", "-v", "-run", "TestA|TestB", "./..."],
                &["build", "-o", "/dev/null"],
            ],
            &[
                &["build", "-o", ".git/hooks/pre-commit"],
                &["build", "-o", "../x"],
                &["build", "-o", "x", "."],
                &["build", "-o", "/usr/local/bin/x"],
                &["test", "-exec", "x"],
                &["test", "-run", "-exec=x"],
                &["build", "-toolexec=x"],
                &["run", "."],
                &["list", "-m", "all"],
                &["list", "-m"],
            ],
        );
        for python in ["python", "python3"] {
            check(
                StarterSet::Python,
                python,
                &[
                    &["-m", "unittest", "-v", "a.b"],
                    &["-m", "django", "test", "a", "--failfast"],
                ],
                &[
                    &["-m", "django", "test", "--settings=evil"],
                    &["-m", "django", "test", "--settings", "evil", "--pythonpath=x"],
                    &["-m", "unittest", "--settings=evil"],
                    &["-m", "compileall", "/etc"],
                    &["-m", "compileall"],
                ],
            );
        }
        check(
            StarterSet::Python,
            "pip",
            &[&["list", "--outdated"], &["show", "x", "-f"], &["show", "x", "y"]],
            &[
                &["list", "-f", "http://evil.test"],
                &["list", "-f"],
                &["freeze", "-f", "x"],
            ],
        );
    }

    #[test]
    fn formatters_change_files_below_and_nothing_else() {
        check(
            StarterSet::Python,
            "ruff",
            &[
                &["check", "--fix", "src/a.py", "./b/", "c.d/n.ipynb"],
                &["check", "--select", "E,F401", "--fix"],
                &["format"],
            ],
            &[
                &["check", "--fix", "src/../../x.py"],
                &["check", "--fix", ".hidden/x.py"],
                &["check", "--fix", "@options"],
                &["format", "package.json"],
                &["format", "env"],
                &["check", "--fix", "a.py.txt"],
                &["check", "--fix", "--output-file=x"],
                &["check", "--fix-only"],
                &["format", "--cache-dir=x"],
                &["format", "--stdin-filename", "x"],
            ],
        );
        check(
            StarterSet::Go,
            "gofmt",
            &[&["-w", "."], &["-s", "-w", "a.go", "pkg/b/c_test.go", "pkg/"]],
            &[
                &["-w"],
                &["-w", "../x.go"],
                &["-w", "/srv/x.go"],
                &["-d", "-w", "x.go"],
                &["-r", "a -> b", "-w", "x.go"],
                &["-w", "-cpuprofile", "x", "y.go"],
                &["-w", "x.go", "-cpuprofile=x"],
            ],
        );
        check(
            StarterSet::RunCode,
            "go",
            &[
                &["run", "."],
                &["run", "-race", "./cmd/x", "--any", "thing", "a.go"],
                &["run", "main.go"],
                &["build", "-o", "tool"],
                &["build", "-v", "-o", "./tool", "."],
                &["build", "-o", "tool", "./cmd/...", "./...", "./x/y"],
            ],
            &[
                &["run", "example.org/x@latest"],
                &["run", "./../x"],
                &["run", "/srv/x.go"],
                &["run", "main.go", "/srv/x.go"],
                &["run", "-exec", "x", "."],
                &["run", "-exec=x", "."],
                &["run", "-toolexec=x", "."],
                &["run", "./x@latest"],
                &["build", "-o", "../tool"],
                &["build", "-o", "bin/tool"],
                &["build", "-o", ".profile"],
                &["build", "-o", "main.go"],
                &["build", "-o", "tool", "-toolexec=x"],
                &["build", "-o", "tool", "/srv/x"],
                &["build", "-o", "tool", "cmd/addr2line"],
                &["build", "-o", "tool", "./../x"],
            ],
        );
    }

    #[test]
    fn rg_names_no_program() {
        check(
            StarterSet::Search,
            "rg",
            &[
                &["x"],
                &["-n", "fn a\\(b, c\\)", "src"],
                &["-nA3", "-e", "x", "-g*.rs", "--glob", "!target", "."],
                &["--files"],
                &["-z", "x", "--type=rust", "--pre-glob", "*.gz"],
                &["-l", "@app", "--", "."],
            ],
            &[
                &["--pre", "gzip", "x", "."],
                &["--pre=gzip", "x", "."],
                &["x", ".", "--pre", "gzip"],
                &["-n", "x", "--hostname-bin", "zstd"],
                &["--hostname-bin=zstd", "x"],
                &["-e", "--pre", "gzip", "x"],
                &["x", "--", "--pre"],
                &["--no-such-option", "x"],
                &["--pr", "x"],
            ],
        );
    }

    /// A word for each part of a form.
    fn words_of(form: &str) -> Vec<String> {
        let fill = |part: &str| {
            part.chars()
                .map(|character| match character {
                    '*' | '…' | '“' => "a".to_owned(),
                    '#' => "3".to_owned(),
                    '&' => "test".to_owned(),
                    '§' => "a/b".to_owned(),
                    character => character.to_string(),
                })
                .collect()
        };
        form.split(' ')
            .filter(|part| !part.is_empty())
            .map(fill)
            .collect()
    }

    #[test]
    fn no_two_words_are_joined_to_one() {
        let mut joined_pairs = 0;
        for row in ALL.iter().flat_map(|set| rows::rows(*set)) {
            let Arguments::Listed(beginnings, forms) = row.arguments else {
                continue;
            };
            let pattern = ArgumentPattern::parse(&expression(beginnings, forms)).unwrap();
            let matches = |words: &[String]| {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                pattern.matches(&words) == ArgumentMatch::Yes
            };
            // A part of a form that is any text may have blanks in it.
            let texts: Vec<ArgumentPattern> = beginnings
                .iter()
                .chain(forms)
                .flat_map(|form| form.split(' '))
                .filter(|part| part.contains(['…', '“']))
                .map(|part| ArgumentPattern::parse(&format!("^{}\0$", form(part))).unwrap())
                .collect();
            let is_text = |word: &str| {
                texts
                    .iter()
                    .any(|text| text.matches(&[word]) == ArgumentMatch::Yes)
            };
            for beginning in beginnings {
                for form in forms.iter().chain(&[""]) {
                    let words: Vec<String> = words_of(beginning)
                        .into_iter()
                        .chain(words_of(form))
                        .chain(words_of(forms.first().unwrap_or(&"")))
                        .collect();
                    assert!(matches(&words), "{words:?}");
                    for at in 1..words.len() {
                        let mut joined = words.clone();
                        let second = joined.remove(at);
                        let word = format!("{} {second}", joined[at - 1]);
                        joined[at - 1].clone_from(&word);
                        joined_pairs += 1;
                        let is_free = at > words_of(beginning).len() || beginning.contains(['…', '“']);
                        assert!(
                            !matches(&joined) || (is_free && is_text(&word)),
                            "{:?} {joined:?}",
                            row.programs
                        );
                    }
                }
            }
        }
        assert!(joined_pairs > 1_000, "{joined_pairs}");
    }
}
