//! What `find -exec` runs for the files that it finds (G16), in the part in which that is certain from the words.

/// To these a regular file is data whatever its name is. None of their options writes one, and none makes a list of names of it.
const READERS: &[&str] = &[
    "cat", "cut", "egrep", "fgrep", "grep", "head", "nl", "od", "rev", "sum", "tac", "tail",
];

/// These read it with some of their options: `--check` and `--files0-from` would take names from it.
const COUNTERS: &[(&[&str], Options)] = &[
    (
        &[
            "b2sum",
            "cksum",
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
        ],
        Options {
            letters: "btz",
            long: &["--binary", "--tag", "--text", "--zero"],
            valued: &[],
        },
    ),
    (
        &["wc"],
        Options {
            letters: "cmlLw",
            long: &["--bytes", "--chars", "--lines", "--max-line-length", "--words"],
            valued: &[],
        },
    ),
];

/// These say something of a file, or list a directory, with these options. Without them they may look behind a link.
const LOOKERS: &[(&[&str], Options)] = &[
    (
        &["ls"],
        Options {
            letters: "1ACFRSadghilnoprstux",
            long: &["--color=never"],
            valued: &[],
        },
    ),
    (
        &["du"],
        Options {
            letters: "abchkms",
            long: &[],
            valued: &["-d"],
        },
    ),
    (
        &["stat"],
        Options {
            letters: "t",
            long: &[],
            valued: &["-c", "--format"],
        },
    ),
    (
        &["readlink", "realpath"],
        Options {
            letters: "efmns",
            long: &[],
            valued: &[],
        },
    ),
];

/// To these a name is text.
const NAMERS: &[&str] = &["basename", "dirname", "echo"];

/// Options of which it is known what they do, written out.
#[derive(Debug)]
struct Options {
    letters: &'static str,
    long: &'static [&'static str],
    /// Those that take the next word.
    valued: &'static [&'static str],
}

impl Options {
    /// Whether words are options of these and nothing else.
    fn are_all(&self, words: &[&str]) -> bool {
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if self.valued.contains(word) {
                match rest.next() {
                    Some(value) if !value.starts_with('-') => continue,
                    Some(_) | None => return false,
                }
            }
            let letters = word.strip_prefix('-').unwrap_or_default();
            let is_cluster =
                !letters.is_empty() && letters.chars().all(|letter| self.letters.contains(letter));
            if !is_cluster && !self.long.contains(word) {
                return false;
            }
        }
        true
    }
}

/// What everything is that `find` finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FoundKind {
    /// Anything.
    Any,
    /// A regular file or a directory, so that no link leads elsewhere.
    NoLink,
    /// A regular file.
    Regular,
}

/// The command that a call of `find` runs, by the places of its words among the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFiles<'a> {
    /// `-exec`.
    pub(crate) action: usize,
    /// `;`, or `+`.
    pub(crate) end: usize,
    /// Where it begins to look; empty for the directory in which it runs.
    pub(crate) starts: Vec<&'a str>,
    /// What is told to the command. `find` itself follows no link.
    pub(crate) kind: FoundKind,
}

impl<'a> FoundFiles<'a> {
    /// Reads the arguments of `find`. `None` without a command, and where it is not certain what that gets: `{}` stands once, as
    /// its last word.
    pub(crate) fn read(arguments: &[&'a str]) -> Option<Self> {
        let mut actions = arguments.iter().enumerate().filter(|(_, word)| **word == "-exec");
        let (action, _) = actions.next().filter(|_| actions.clone().next().is_none())?;
        let end = (action + 1..arguments.len()).find(|at| match arguments.get(*at) {
            Some(&";") => true,
            Some(&"+") => arguments.get(*at - 1) == Some(&"{}"),
            _ => false,
        })?;
        let (last, own) = arguments.get(action + 1..end)?.split_last()?;
        let is_certain = *last == "{}"
            && own.first().is_some_and(|program| !program.starts_with('-'))
            && !own.iter().any(|word| word.contains("{}"));
        if !is_certain {
            return None;
        }
        let options = arguments.iter().take_while(|word| **word == "-P").count();
        // An option of another kind, or a file that reads like a part of the expression.
        let is_other = |word: &&str| {
            matches!(*word, "-H" | "-L" | "-D" | "--" | "-")
                || word.starts_with("-O")
                || word.starts_with([',', ')'])
        };
        if arguments.get(options).is_some_and(is_other) {
            return None;
        }
        let begins_expression = |word: &str| word.starts_with('-') || matches!(word, "(" | ")" | "!" | ",");
        let starts: Vec<&str> = arguments
            .iter()
            .skip(options)
            .copied()
            .take_while(|word| !begins_expression(word))
            .collect();
        let expression = arguments.get(options + starts.len()..action)?;
        let behind = arguments.get(end..).unwrap_or_default();
        // To `find` it is a file, and then all names that it finds begin with a dash.
        let is_file = |word: &&str| *word == "-";
        let is_odd = |start: &&str| start.starts_with([',', ')']);
        if starts.iter().any(is_odd) || expression.iter().chain(behind).any(|word| is_file(word)) {
            return None;
        }
        Some(Self {
            action,
            end,
            starts,
            kind: kind_of(expression, behind),
        })
    }

    /// Whether the command may be told the name of any file that is found. `names` are all that its program goes by, `own` are
    /// its words before the name.
    pub(crate) fn suits(&self, names: &[&str], own: &[&str]) -> bool {
        let is_one = |list: &[&str]| names.iter().all(|name| list.contains(name));
        let is_known = |table: &[(&[&str], Options)]| {
            let mut rows = table.iter();
            rows.any(|(programs, options)| is_one(programs) && options.are_all(own))
        };
        // It shows a link itself, then.
        let shows_links = || own.iter().any(|word| word.contains(['d', 'l'])) && is_one(&["ls"]);
        !names.is_empty()
            && (is_one(NAMERS)
                || ((self.kind >= FoundKind::NoLink || shows_links()) && is_known(LOOKERS))
                || (self.kind == FoundKind::Regular && (is_one(READERS) || is_known(COUNTERS))))
    }
}

/// What an expression lets through to what stands between its two parts.
fn kind_of(before: &[&str], behind: &[&str]) -> FoundKind {
    let mut words = before.iter().chain(behind);
    if words.any(|word| matches!(*word, "-L" | "-H" | "-follow")) {
        return FoundKind::Any;
    }
    demanded(before).unwrap_or(FoundKind::Any)
}

/// What a `-type` outside of parentheses and behind the last alternative there demands before an action.
fn demanded(expression: &[&str]) -> Option<FoundKind> {
    let is_operator = |word: &str| matches!(word, "!" | "-not" | "-a" | "-and" | "-o" | "-or" | "(");
    let mut depth = 0_u32;
    let mut kind = FoundKind::Any;
    for (at, word) in expression.iter().enumerate() {
        let before = at
            .checked_sub(1)
            .and_then(|before| expression.get(before))
            .copied();
        // It may be the value of a test.
        let may_be_value = before.is_some_and(|before| before.starts_with('-') && !is_operator(before));
        match *word {
            "(" | ")" if may_be_value => return None,
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            // The action is a part of what follows.
            "-o" | "-or" | "," if depth == 0 => kind = FoundKind::Any,
            "-type" if depth == 0 && !matches!(before, Some("!" | "-not")) => {
                kind = kind.max(match expression.get(at + 1) {
                    Some(&"f") => FoundKind::Regular,
                    Some(&("d" | "d,f" | "f,d")) => FoundKind::NoLink,
                    Some(_) | None => FoundKind::Any,
                });
            }
            _ => {}
        }
    }
    (depth == 0).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Vec<&str>, FoundKind)> {
        let words: Vec<&str> = text.split(' ').collect();
        let found = FoundFiles::read(&words)?;
        let own = words.get(found.action + 1..found.end)?.join(" ");
        Some((own, found.starts, found.kind))
    }

    #[test]
    fn a_command_that_gets_one_file_or_many_is_read() {
        for (text, own, starts, kind) in [
            (
                ". -type f -exec grep x {} ;",
                "grep x {}",
                &["."][..],
                FoundKind::Regular,
            ),
            (
                "a b -name x -exec wc -l {} +",
                "wc -l {}",
                &["a", "b"],
                FoundKind::Any,
            ),
            ("-P -type f -exec cat {} +", "cat {}", &[], FoundKind::Regular),
            (
                ". -type f ( -name a -o -name b ) -exec cat {} +",
                "cat {}",
                &["."],
                FoundKind::Regular,
            ),
            (
                ". ! -name x -type f -exec cat {} +",
                "cat {}",
                &["."],
                FoundKind::Regular,
            ),
            (
                ". -path ./x -prune -o -type f -exec cat {} +",
                "cat {}",
                &["."],
                FoundKind::Regular,
            ),
            (". -type d -exec ls {} ;", "ls {}", &["."], FoundKind::NoLink),
            (
                "(x !y -type f,d -exec ls {} ;",
                "ls {}",
                &["(x", "!y"],
                FoundKind::NoLink,
            ),
            (". -exec ls {} ; -print", "ls {}", &["."], FoundKind::Any),
            (
                ". -type f -exec grep + {} +",
                "grep + {}",
                &["."],
                FoundKind::Regular,
            ),
        ] {
            let expected = Some((own.to_owned(), starts.to_vec(), kind));
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_certain_is_not_read() {
        for text in [
            ". -name x",
            ". -exec cat {}",
            ". -exec {} ;",
            ". -exec ;",
            ". -exec cat x ;",
            ". -exec cat {} x ;",
            ". -exec cat x{} ;",
            ". -exec cat x{} {} ;",
            ". -exec cat {} {} ;",
            ". -exec -x {} ;",
            ". -exec cat {} ; -exec cat {} ;",
            ". -execdir cat {} ;",
            ". -ok cat {} ;",
            "-L . -type f -exec cat {} ;",
            "-H . -type f -exec cat {} ;",
            "-P -L . -type f -exec cat {} ;",
            "-O3 -L . -type f -exec cat {} ;",
            "-D exec -L . -type f -exec cat {} ;",
            "-- . -type f -exec cat {} ;",
            "- -type f -exec cat {} ;",
            ". -type f - -exec cat {} ;",
            ". -type f -exec cat {} ; -",
            ") -type f -exec cat {} ;",
            ",x -type f -exec cat {} ;",
            ". )x -type f -exec cat {} ;",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn what_may_be_a_link_is_no_regular_file() {
        for text in [
            ". -exec cat {} ;",
            ". -type l -exec cat {} ;",
            ". ! -type f -exec cat {} ;",
            ". -not -type f -exec cat {} ;",
            ". -type f -o -name x -exec cat {} ;",
            ". -type f , -name x -exec cat {} ;",
            ". ( -type f -o -name x ) -exec cat {} ;",
            ". -type f -name ( -o -name ) -exec cat {} ;",
            ". -follow -type f -exec cat {} ;",
            ". -type f -exec cat {} ; -follow",
            ". -exec cat {} ; -type f",
            ". -type f,l -exec cat {} ;",
            ". -xtype f -exec cat {} ;",
        ] {
            assert_eq!(
                read(text).map(|(_, _, kind)| kind),
                Some(FoundKind::Any),
                "{text}"
            );
        }
    }

    #[test]
    fn only_what_is_known_is_told_any_name() {
        let words = ["-type", "f", "-exec", "x", "{}", ";"];
        let regular = FoundFiles::read(&words).unwrap();
        let with = |kind| FoundFiles {
            kind,
            ..regular.clone()
        };
        let suits = |kind, line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            with(kind).suits(&words[..1], &words[1..])
        };
        use FoundKind::{Any, NoLink, Regular};
        for (kind, line) in [
            (Regular, "grep -f"),
            (Regular, "cat -n"),
            (Regular, "wc -lc --words"),
            (Regular, "sha256sum -b"),
            (Regular, "ls -L"),
            (Regular, "du -L"),
            (NoLink, "ls"),
            (NoLink, "ls -la -R"),
            (NoLink, "du -sh -d 1"),
            (NoLink, "stat -c %s"),
            (NoLink, "readlink -f"),
            (Any, "ls -ld"),
            (Any, "echo x"),
            (Any, "basename"),
        ] {
            let is_following = matches!(line, "ls -L" | "du -L");
            assert_eq!(suits(kind, line), !is_following, "{kind:?} {line}");
        }
        for line in [
            "rm",
            "sh",
            "sed",
            "sort",
            "tee",
            "du --files0-from",
            "du --files0",
            "du -X",
            "du -sX",
            "du --exclude-from",
            "du -d -X",
            "wc --files0-from",
            "wc --f",
            "wc -l --files0",
            "md5sum -c",
            "md5sum --check",
            "md5sum -bc",
            "sha256sum --c",
            "cksum --check",
            "stat -L -c",
            "stat -c --printf",
        ] {
            assert!(!suits(Regular, line), "{line}");
        }
        for line in [
            "cat",
            "wc -l",
            "ls",
            "ls -a",
            "ls -lL",
            "ls -dH",
            "du -s",
            "stat",
            "readlink -f",
        ] {
            assert!(!suits(Any, line), "{line}");
        }
        assert!(!regular.suits(&["grep", "rm"], &[]) && !regular.suits(&[], &[]));
    }
}
