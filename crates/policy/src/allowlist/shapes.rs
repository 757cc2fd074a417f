//! Shapes of arguments that an answer can remember: `git push origin *` (A1).
//!
//! A shape is proposed for subcommands where the open word is data for the program: a branch, a name, a message. Rule D1 says
//! nothing about an entry that names its arguments, so a row is a positive list. A word that stands in no list makes no
//! shape. An open word is one word of known characters: none begins with `-`, `+`, `:` or `@`, none is an address, and none has
//! `::` in it where that names a transport. Entry point: [`shape_of`].

use std::sync::LazyLock;

use regex::Regex;

/// Open words of one shape; more make no shape.
const MAX_OPEN: usize = 4;
/// Longer words make no shape: they say little to a person.
const MAX_WORD: usize = 100;

/// The form of the arguments of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// A regular expression over the arguments, joined by NUL so that no word reaches into another.
    pub(super) arg_pattern: String,
    /// The same for people, with the name of the program.
    pub(super) words: String,
}

/// What an open word may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// None is open.
    Nothing,
    /// The name of a branch, a tag or a commit.
    Reference,
    /// A file of the working directory or below it.
    File,
    /// The name of a test, a package or a feature.
    Name,
    /// The name of a script, a container or an image, without an address.
    Label,
}

/// Subcommands with the same arguments.
#[derive(Debug)]
struct Row {
    /// The program's name, and others that its file has.
    names: &'static [&'static str],
    /// The first words.
    subcommands: &'static [&'static [&'static str]],
    /// Options that stand for themselves and take no value. They are kept as they are.
    options: &'static [&'static str],
    /// Options whose next word is text that the program only stores.
    texts: &'static [&'static str],
    /// So many words behind the subcommand are kept as they are: the name of a remote.
    fixed: usize,
    open: Open,
}

const ROWS: &[Row] = &[
    Row {
        names: &["git"],
        subcommands: &[&["push"]],
        options: &[
            "-u",
            "--set-upstream",
            "-q",
            "--quiet",
            "-v",
            "--verbose",
            "-n",
            "--dry-run",
        ],
        texts: &[],
        fixed: 1,
        open: Open::Reference,
    },
    Row {
        names: &["git"],
        subcommands: &[&["fetch"]],
        options: &[
            "-q",
            "--quiet",
            "-v",
            "--verbose",
            "-n",
            "--no-tags",
            "-t",
            "--tags",
            "-p",
            "--prune",
        ],
        texts: &[],
        fixed: 1,
        open: Open::Reference,
    },
    Row {
        names: &["git"],
        subcommands: &[&["pull"]],
        options: &[
            "-q",
            "--quiet",
            "-v",
            "--verbose",
            "--ff-only",
            "--no-rebase",
            "--rebase",
            "--no-edit",
            "--no-tags",
            "-p",
            "--prune",
        ],
        texts: &[],
        fixed: 1,
        open: Open::Reference,
    },
    Row {
        names: &["git"],
        // Without `-b` it takes files too, and throws away what was written in them.
        subcommands: &[&["checkout", "-b"]],
        options: &["-q", "--quiet"],
        texts: &[],
        fixed: 0,
        open: Open::Reference,
    },
    Row {
        names: &["git"],
        subcommands: &[&["switch"]],
        options: &["-q", "--quiet", "-c", "--create"],
        texts: &[],
        fixed: 0,
        open: Open::Reference,
    },
    Row {
        names: &["git"],
        subcommands: &[&["add"]],
        options: &["-v", "--verbose", "-n", "--dry-run", "--"],
        texts: &[],
        fixed: 0,
        open: Open::File,
    },
    Row {
        names: &["git"],
        subcommands: &[&["commit"]],
        options: &["-a", "--all", "-q", "--quiet", "-s", "--signoff"],
        texts: &["-m", "-am", "-qm"],
        fixed: 0,
        open: Open::Nothing,
    },
    Row {
        names: &["cargo"],
        subcommands: &[
            &["build"],
            &["check"],
            &["test"],
            &["clippy"],
            &["nextest", "run"],
        ],
        options: &[
            "-q",
            "--quiet",
            "-v",
            "--verbose",
            "-r",
            "--release",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--no-default-features",
            "--features",
            "-p",
            "--package",
            "--lib",
            "--bin",
            "--bins",
            "--test",
            "--tests",
            "--example",
            "--examples",
            "--no-run",
            "--no-fail-fast",
            "--locked",
            "--offline",
            "--",
            "--nocapture",
            "--exact",
            "--ignored",
        ],
        texts: &[],
        fixed: 0,
        open: Open::Name,
    },
    Row {
        names: &["npm", "npm-cli.js"],
        subcommands: &[&["run"], &["run-script"]],
        options: &["-s", "--silent"],
        texts: &[],
        fixed: 0,
        open: Open::Label,
    },
    Row {
        names: &["docker"],
        subcommands: &[&["logs"]],
        options: &["-f", "--follow", "-t", "--timestamps"],
        texts: &[],
        fixed: 0,
        open: Open::Label,
    },
    Row {
        names: &["docker"],
        subcommands: &[&["inspect"], &["start"], &["stop"], &["restart"], &["port"]],
        options: &[],
        texts: &[],
        fixed: 0,
        open: Open::Label,
    },
];

impl Open {
    /// The first character, then the others.
    const fn class(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Reference => Some(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.\-]*)*"),
            // No part is `.` or `..`: that would be the directory itself, or one above it.
            Self::File => Some(r"\.?[A-Za-z0-9_][A-Za-z0-9_.\-]*(?:/\.?[A-Za-z0-9_][A-Za-z0-9_.\-]*)*"),
            Self::Name => Some(r"[A-Za-z0-9_][A-Za-z0-9_\-]*(?:::[A-Za-z0-9_\-]+)*"),
            Self::Label => Some(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*(?::[A-Za-z0-9_.\-]+)*"),
        }
    }

    /// Whether a word is one of these, so that the shape covers the command that it is made of.
    fn takes(self, word: &str) -> bool {
        static CLASSES: LazyLock<Vec<(Open, Regex)>> = LazyLock::new(|| {
            let all = [Open::Reference, Open::File, Open::Name, Open::Label];
            let words = all.map(|open| (open, open.class().unwrap_or_default()));
            let expression = |class| Regex::new(&format!("^(?:{class})$")).expect("a class is an expression");
            words.map(|(open, class)| (open, expression(class))).into()
        });
        let class = CLASSES.iter().find(|(open, _)| *open == self);
        class.is_some_and(|(_, expression)| expression.is_match(word))
    }
}

/// The shape of the arguments of a program, which has these names; `None` where no row has one.
pub(super) fn shape_of(names: &[&str], arguments: &[&str]) -> Option<Shape> {
    ROWS.iter().find_map(|row| row.shape(names, arguments))
}

impl Row {
    fn shape(&self, names: &[&str], arguments: &[&str]) -> Option<Shape> {
        let program = self.names.first()?;
        if names.is_empty() || names.iter().any(|name| !self.names.contains(name)) {
            return None;
        }
        let subcommand = self
            .subcommands
            .iter()
            .find(|subcommand| arguments.starts_with(subcommand))?;
        let mut drawing = Drawing::of(program);
        for word in *subcommand {
            drawing.keep(word);
        }
        let mut rest = arguments.get(subcommand.len()..)?.iter();
        let (mut kept, mut open) = (0, 0);
        while let Some(word) = rest.next() {
            if self.options.contains(word) {
                drawing.keep(word);
            } else if self.texts.contains(word) {
                let text = rest.next()?;
                if text.is_empty() || text.starts_with('-') || text.contains('\0') {
                    return None;
                }
                drawing.keep(word);
                drawing.open("[^\0\\-][^\0]*");
                open += 1;
            } else if word.len() > MAX_WORD {
                return None;
            } else if kept < self.fixed {
                // The name of a remote, never an address or a path.
                if !Open::Reference.takes(word) || word.contains('/') {
                    return None;
                }
                drawing.keep(word);
                kept += 1;
            } else if self.open.takes(word) {
                drawing.open(self.open.class()?);
                open += 1;
            } else {
                return None;
            }
        }
        (1..=MAX_OPEN).contains(&open).then(|| drawing.end())
    }
}

/// A shape as it is drawn, word by word.
struct Drawing {
    expression: String,
    words: String,
}

impl Drawing {
    fn of(program: &str) -> Self {
        Self {
            expression: "^".to_owned(),
            words: program.to_owned(),
        }
    }

    fn keep(&mut self, word: &str) {
        for character in word.chars() {
            if character == '.' {
                self.expression.push('\\');
            }
            self.expression.push(character);
        }
        self.expression.push('\0');
        self.words.push(' ');
        self.words.push_str(word);
    }

    fn open(&mut self, class: &str) {
        self.expression.push_str(class);
        self.expression.push('\0');
        self.words.push_str(" *");
    }

    fn end(mut self) -> Shape {
        self.expression.push('$');
        Shape {
            arg_pattern: self.expression,
            words: self.words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{ArgumentMatch, ArgumentPattern};

    fn shape(command: &[&str]) -> Option<Shape> {
        shape_of(&command[..1], &command[1..])
    }

    fn covers(shape: &Shape, arguments: &[&str]) -> bool {
        let pattern = ArgumentPattern::parse(&shape.arg_pattern).unwrap();
        pattern.matches(arguments) == ArgumentMatch::Yes
    }

    /// The shape of a command has these words, covers that command and the harmless twin, and none of the attacks.
    #[track_caller]
    fn check(command: &[&str], words: &str, twin: &[&str], attacks: &[&[&str]]) {
        let shape = shape(command).unwrap_or_else(|| panic!("{command:?} has no shape"));
        assert_eq!(shape.words, words);
        assert!(covers(&shape, &command[1..]), "{command:?} {shape:?}");
        assert!(covers(&shape, twin), "{twin:?} {shape:?}");
        let anywhere: &[&[&str]] = &[
            &["-x"],
            &["--exec=id"],
            &["--upload-pack=id"],
            &["--receive-pack=id"],
            &["--config", "x"],
            &["+x"],
            &[":x"],
            &["@file"],
            &["ext::sh -c id"],
            &["https://evil.example/x"],
            &["git@evil.example:x"],
            &["file:///tmp/x"],
            &["/etc/passwd"],
            &["x y"],
            &["x\n-y"],
            &["$(id)"],
            &[""],
        ];
        let own: Vec<&str> = command[1..].to_vec();
        let (last, before) = own.split_last().unwrap();
        let is_text = words.contains("-m *") || words.contains("-am *");
        for attack in anywhere {
            // One word more, and another word in the place of the open one.
            let longer: Vec<&str> = own.iter().chain(*attack).copied().collect();
            assert!(!covers(&shape, &longer), "{longer:?} {shape:?}");
            let other: Vec<&str> = before.iter().chain(*attack).copied().collect();
            let is_option = attack[0].is_empty() || attack[0].starts_with('-');
            // Any text that is no option is a message.
            assert!(
                (is_text && !is_option) || !covers(&shape, &other),
                "{other:?} {shape:?}"
            );
            let first: Vec<&str> = attack.iter().chain(&own).copied().collect();
            assert!(!covers(&shape, &first), "{first:?} {shape:?}");
        }
        let joined = own.join(" ");
        assert!(!covers(&shape, &[joined.as_str()]), "{shape:?}");
        assert!(!covers(&shape, before), "{last} {shape:?}");
        for attack in attacks {
            assert!(!covers(&shape, attack), "{attack:?} {shape:?}");
        }
    }

    #[test]
    fn git_push_names_its_remote_and_no_force() {
        check(
            &["git", "push", "origin", "main"],
            "git push origin *",
            &["push", "origin", "feature/x-1"],
            &[
                &["push", "evil", "main"],
                &["push", "origin", "+main"],
                &["push", "origin", ":main"],
                &["push", "origin", "main:other"],
                &["push", "origin", "--delete"],
                &["push", "origin", "-f"],
                &["push", "--force", "origin", "main"],
                &["push", "--receive-pack=id", "origin", "main"],
                &["push", "origin", "main", "other"],
                &["-c", "core.sshCommand=id", "push", "origin", "main"],
                &["push", "origin"],
                &["push", "origin\0x", "main"],
            ],
        );
        check(
            &["git", "push", "-u", "origin", "topic"],
            "git push -u origin *",
            &["push", "-u", "origin", "other"],
            &[&["push", "-f", "origin", "other"], &["push", "origin", "other"]],
        );
        for none in [
            &["git", "push"][..],
            &["git", "push", "origin"],
            &["git", "push", "https://evil.example/x", "main"],
            &["git", "push", "../other", "main"],
            &["git", "push", "ext::sh -c id", "main"],
            &["git", "push", "origin", "+main"],
            &["git", "push", "origin", ":main"],
            &["git", "push", "--force", "origin", "main"],
            &["git", "push", "--mirror", "origin", "main"],
            &["git", "push", "--repo=x", "origin", "main"],
            &["git", "push", "--recei=id", "origin", "main"],
            &["git", "-c", "x=y", "push", "origin", "main"],
            &["git", "-C", "/x", "push", "origin", "main"],
            &["git", "config", "user.name", "x"],
            &["hub", "push", "origin", "main"],
        ] {
            assert_eq!(shape(none), None, "{none:?}");
        }
    }

    #[test]
    fn git_fetch_checkout_and_add_take_names() {
        check(
            &["git", "fetch", "origin", "main"],
            "git fetch origin *",
            &["fetch", "origin", "v1.2"],
            &[
                &["fetch", "origin", "+refs/heads/x:refs/heads/main"],
                &["fetch", "--upload-pack=id", "origin", "main"],
                &["fetch", "-u", "origin", "main"],
            ],
        );
        check(
            &["git", "pull", "--ff-only", "origin", "main"],
            "git pull --ff-only origin *",
            &["pull", "--ff-only", "origin", "feature/x"],
            &[
                &["pull", "origin", "feature/x"],
                &["pull", "--rebase", "origin", "feature/x"],
                &["pull", "--ff-only", "evil", "main"],
                &["pull", "--ff-only", "--upload-pack=id", "origin", "main"],
                &["pull", "--ff-only", "-s", "ours", "origin", "main"],
                &["pull", "--ff-only", "origin", "+main:main"],
            ],
        );
        for none in [
            &["git", "pull"][..],
            &["git", "pull", "origin"],
            &["git", "pull", "../other", "main"],
            &["git", "pull", "-s", "evil", "origin", "main"],
            &["git", "pull", "--rebase=merges", "origin", "main"],
        ] {
            assert_eq!(shape(none), None, "{none:?}");
        }
        check(
            &["git", "checkout", "-b", "topic"],
            "git checkout -b *",
            &["checkout", "-b", "other"],
            &[
                &["checkout", "-f", "other"],
                &["checkout", "-b", "--orphan"],
                &["checkout", "other"],
            ],
        );
        check(
            &["git", "add", "src/main.rs"],
            "git add *",
            &["add", ".gitignore"],
            &[
                &["add", "."],
                &["add", ".."],
                &["add", "../x"],
                &["add", "src/../../x"],
                &["add", "./x"],
                &["add", "-f"],
                &["add", "--chmod=+x"],
                &["add", "--pathspec-from-file=x"],
                &["add", ":/"],
            ],
        );
        assert_eq!(shape(&["git", "checkout", "--conflict=x", "a"]), None);
        assert_eq!(shape(&["git", "checkout", "README.md"]), None);
        assert_eq!(shape(&["git", "add", ".."]), None);
        assert_eq!(shape(&["git", "add", "-A"]), None);
    }

    #[test]
    fn a_message_of_git_commit_is_one_word_of_text() {
        check(
            &["git", "commit", "-m", "Fix: a bug"],
            "git commit -m *",
            &["commit", "-m", "Another\n\nwith a body; $(id) `id`"],
            &[
                &["commit", "-m", "x", "--amend"],
                &["commit", "-m", "x", "file"],
                &["commit", "-F", "/etc/passwd"],
                &["commit", "-m", "--template=x"],
                &["commit", "--no-verify", "-m", "x"],
                &["commit", "-m"],
                &["commit", "-m", ""],
            ],
        );
        assert_eq!(shape(&["git", "commit", "-m", "-x"]), None);
        assert_eq!(shape(&["git", "commit", "-m", "x", "--author=y"]), None);
        assert_eq!(shape(&["git", "commit"]), None);
    }

    #[test]
    fn cargo_takes_names_of_tests_and_packages() {
        check(
            &["cargo", "test", "-p", "core", "parser::tests"],
            "cargo test -p * *",
            &["test", "-p", "other", "lexer"],
            &[
                &["test", "-p", "core", "--config=x"],
                &["test", "--manifest-path", "x", "parser"],
                &["+nightly", "test", "-p", "core", "parser"],
                &["test", "-p", "core", "-Zx"],
                &["run", "-p", "core", "x"],
                &["test", "-p", "path+file:///x", "x"],
            ],
        );
        check(
            &["cargo", "nextest", "run", "parser"],
            "cargo nextest run *",
            &["nextest", "run", "lexer"],
            &[&["nextest", "archive", "x"], &["nextest", "run", "--config-file"]],
        );
        for none in [
            &["cargo", "build", "--config", "x"][..],
            &["cargo", "build"],
            &["cargo", "run", "x"],
            &["cargo", "install", "x"],
            &["cargo", "test", "--target-dir", "x"],
        ] {
            assert_eq!(shape(none), None, "{none:?}");
        }
    }

    #[test]
    fn npm_and_docker_take_names() {
        check(
            &["npm", "run", "build"],
            "npm run *",
            &["run", "test:unit"],
            &[
                &["run", "build", "--", "x"],
                &["run", "--prefix", "/tmp"],
                &["run", "--script-shell=id", "build"],
                &["exec", "x"],
                &["install", "x"],
            ],
        );
        check(
            &["docker", "logs", "-f", "web"],
            "docker logs -f *",
            &["logs", "-f", "db.1"],
            &[
                &["-H", "tcp://evil", "logs", "-f", "web"],
                &["exec", "web", "id"],
                &["run", "web"],
                &["logs", "--details", "web"],
                &["rm", "-f", "web"],
            ],
        );
        for none in [
            &["npm", "run"][..],
            &["npm", "install", "x"],
            &["docker", "run", "x"],
            &["docker", "exec", "x", "id"],
            &["docker", "rm", "x"],
            &["docker", "inspect", "--format={{x}}", "y"],
            &["docker", "inspect", "-f", "x", "y"],
            &["docker", "stop", "-t", "9", "y"],
            &["docker", "top", "y", "aux"],
        ] {
            assert_eq!(shape(none), None, "{none:?}");
        }
    }

    #[test]
    fn every_row_draws_an_expression_that_can_be_stored() {
        for row in ROWS {
            for subcommand in row.subcommands {
                let mut words: Vec<&str> = subcommand.to_vec();
                words.extend(vec!["x"; row.fixed]);
                if row.open == Open::Nothing {
                    words.push(row.texts[0]);
                }
                words.push("y");
                let shape = row.shape(row.names, &words).unwrap_or_else(|| panic!("{row:?}"));
                assert!(covers(&shape, &words), "{row:?}");
                assert!(shape.arg_pattern.len() < 4_096);
            }
        }
        let many: Vec<&str> = ["git", "add"]
            .into_iter()
            .chain(vec!["x"; MAX_OPEN + 1])
            .collect();
        assert_eq!(shape(&many), None);
        let long = "x".repeat(MAX_WORD + 1);
        assert_eq!(shape(&["git", "add", &long]), None);
    }
}
