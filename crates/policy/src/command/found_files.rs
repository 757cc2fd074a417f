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
        let (starts, expression) = split(arguments)?;
        let begins = arguments.len() - expression.len();
        let before = arguments.get(begins..action)?;
        let behind = arguments.get(end..).unwrap_or_default();
        if before.iter().chain(behind).any(|word| *word == "-") {
            return None;
        }
        Some(Self {
            action,
            end,
            starts,
            kind: kind_of(before, behind),
        })
    }
}

/// The names that a call of `find` prints for `xargs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrintedNames<'a> {
    /// Where it begins to look.
    pub(crate) starts: Vec<&'a str>,
    /// What is found.
    pub(crate) kind: FoundKind,
    /// How they are printed.
    pub(crate) end: PrintedEnd,
}

/// The end of an expression that prints names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrintedEnd {
    /// There is no action.
    None,
    /// `-print`, as the last word.
    Lines,
    /// `-print0`, as the last word.
    Nul,
}

impl<'a> PrintedNames<'a> {
    /// Reads the arguments of `find`. `None` where it prints anything else, or more than once.
    pub(crate) fn read(arguments: &[&'a str]) -> Option<Self> {
        const ACTIONS: &[&str] = &[
            "-delete",
            "-fls",
            "-ls",
            "-ok",
            "-okdir",
            "-quit",
            "-exec",
            "-execdir",
            "-",
            "-version",
            "--version",
            "-help",
            "--help",
        ];
        let (starts, expression) = split(arguments)?;
        let (end, before) = match expression.split_last() {
            Some((&"-print", before)) => (PrintedEnd::Lines, before),
            Some((&"-print0", before)) => (PrintedEnd::Nul, before),
            Some(_) | None => (PrintedEnd::None, expression),
        };
        let is_action =
            |word: &&str| word.starts_with("-print") || word.starts_with("-fprint") || ACTIONS.contains(word);
        // The last word may be the value of a test.
        let is_value = end != PrintedEnd::None && before.last().is_some_and(|word| word.starts_with('-'));
        // Without an action all alternatives together are one expression.
        let has_alternatives = end == PrintedEnd::None && has_alternatives(before);
        // Of a word that is put behind it, it would make something else.
        let takes_more = end == PrintedEnd::None && before.last().is_some_and(|word| may_take_more(word));
        if before.iter().any(is_action) || is_value || has_alternatives || takes_more {
            return None;
        }
        let kind = kind_of(before, &[]);
        Some(Self { starts, kind, end })
    }
}

/// How many of the words behind `xargs` are its own, where it does nothing with the names that it reads but to append them, and
/// whether it takes them apart at NUL.
pub(crate) fn words_of_xargs(arguments: &[&str]) -> Option<(usize, bool)> {
    let mut taken = 0;
    let mut is_nul = false;
    while let Some(word) = arguments.get(taken) {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        taken += match *word {
            "-r" | "--no-run-if-empty" => 1,
            "-0" | "--null" => {
                is_nul = true;
                1
            }
            "-n" if arguments.get(taken + 1).is_some_and(|count| is_number(count)) => 2,
            word if word.strip_prefix("-n").is_some_and(is_number) => 1,
            word if word.is_empty() || word.starts_with('-') => return None,
            _ => return Some((taken, is_nul)),
        };
    }
    None
}

/// The places where `find` begins to look, and its expression. `None` where that is not certain.
fn split<'a, 'w>(arguments: &'w [&'a str]) -> Option<(Vec<&'a str>, &'w [&'a str])> {
    let options = arguments.iter().take_while(|word| **word == "-P").count();
    let rest = arguments.get(options..)?;
    // An option of another kind.
    let is_other = |word: &&str| matches!(*word, "-H" | "-L" | "-D" | "--" | "-") || word.starts_with("-O");
    // To `find` it is a file, where it reads like a part of the expression.
    let is_odd = |word: &&str| word.starts_with([',', ')']);
    let begins_expression = |word: &str| word.starts_with('-') || matches!(word, "(" | "!");
    let starts: Vec<&str> = rest
        .iter()
        .copied()
        .take_while(|word| !begins_expression(word))
        .collect();
    let expression = rest.get(starts.len()..)?;
    (!rest.first().is_some_and(is_other) && !starts.iter().any(is_odd)).then_some((starts, expression))
}

impl FoundKind {
    /// Whether a command may be told the name of any file of that kind. `names` are all that its program goes by, `own` are
    /// its words before the name.
    pub(crate) fn suits(self, names: &[&str], own: &[&str]) -> bool {
        let is_one = |list: &[&str]| names.iter().all(|name| list.contains(name));
        let is_known = |table: &[(&[&str], Options)]| {
            let mut rows = table.iter();
            rows.any(|(programs, options)| is_one(programs) && options.are_all(own))
        };
        // It shows a link itself, then.
        let has = |letters: &[char]| {
            let mut clusters = own
                .iter()
                .filter(|word| word.starts_with('-') && !word.starts_with("--"));
            clusters.any(|word| word.contains(letters))
        };
        let shows_links = || is_one(&["ls"]) && (has(&['d']) || (has(&['l']) && !has(&['C', 'x', '1'])));
        !names.is_empty()
            && (is_one(NAMERS)
                || ((self >= Self::NoLink || shows_links()) && is_known(LOOKERS))
                || (self == Self::Regular && (is_one(READERS) || is_known(COUNTERS))))
    }
}

/// Whether an expression has alternatives outside of parentheses, or may have.
fn has_alternatives(expression: &[&str]) -> bool {
    let mut depth = 0_u32;
    let mut before = "";
    for word in expression {
        // It may be the value of a test.
        let may_be_value = before.starts_with('-') && !is_operator(before);
        match *word {
            "(" | ")" if may_be_value => return true,
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            "-o" | "-or" | "," if depth == 0 => return true,
            _ => {}
        }
        before = word;
    }
    false
}

/// Whether the last word of an expression may belong to what comes behind it.
fn may_take_more(last: &str) -> bool {
    const ALONE: &[&str] = &[
        "-daystart",
        "-depth",
        "-empty",
        "-executable",
        "-false",
        "-mount",
        "-nogroup",
        "-noleaf",
        "-nouser",
        "-prune",
        "-readable",
        "-true",
        "-writable",
        "-xdev",
    ];
    let is_number = |word: &str| {
        word.trim_start_matches('-')
            .starts_with(|first: char| first.is_ascii_digit())
    };
    is_operator(last) || last == "," || (last.starts_with('-') && !ALONE.contains(&last) && !is_number(last))
}

fn is_operator(word: &str) -> bool {
    matches!(word, "!" | "-not" | "-a" | "-and" | "-o" | "-or" | "(")
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
    use super::{
        FoundKind::{Any, NoLink, Regular},
        *,
    };

    fn read(text: &str) -> Option<(String, Vec<&str>, FoundKind)> {
        let words: Vec<&str> = text.split(' ').collect();
        let found = FoundFiles::read(&words)?;
        let own = words.get(found.action + 1..found.end)?.join(" ");
        Some((own, found.starts, found.kind))
    }

    #[test]
    fn a_command_that_gets_one_file_or_many_is_read() {
        for (text, own, starts, kind) in [
            (". -type f -exec grep x {} ;", "grep x {}", &["."][..], Regular),
            ("a b -name x -exec wc -l {} +", "wc -l {}", &["a", "b"], Any),
            ("-P -type f -exec cat {} +", "cat {}", &[], Regular),
            (
                ". -type f ( -name a -o -name b ) -exec cat {} +",
                "cat {}",
                &["."],
                Regular,
            ),
            (". ! -name x -type f -exec cat {} +", "cat {}", &["."], Regular),
            (
                ". -path ./x -prune -o -type f -exec cat {} +",
                "cat {}",
                &["."],
                Regular,
            ),
            (". -type d -exec ls {} ;", "ls {}", &["."], NoLink),
            ("(x !y -type f,d -exec ls {} ;", "ls {}", &["(x", "!y"], NoLink),
            (". -exec ls {} ; -print", "ls {}", &["."], Any),
            (". -type f -exec grep + {} +", "grep + {}", &["."], Regular),
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
            assert_eq!(read(text).map(|(_, _, kind)| kind), Some(Any), "{text}");
        }
    }

    #[test]
    fn only_what_is_known_is_told_any_name() {
        let suits = |kind: FoundKind, line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            kind.suits(&words[..1], &words[1..])
        };
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
            (Any, "ls -dC"),
            (Any, "ls -l -a"),
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
            "ls --color=never",
            "ls -lC",
            "ls -lx",
            "ls -l1",
            "ls -l -C",
            "ls -x -la --color=never",
            "ls -lL",
            "ls -dH",
            "du -s",
            "stat",
            "readlink -f",
        ] {
            assert!(!suits(Any, line), "{line}");
        }
        assert!(!Regular.suits(&["grep", "rm"], &[]) && !Regular.suits(&[], &[]));
    }

    #[test]
    fn names_are_printed_once_and_in_the_end() {
        for (text, kind, end) in [
            (". -type f", Regular, PrintedEnd::None),
            (". -type f -mtime -5", Regular, PrintedEnd::None),
            (". -type f -empty", Regular, PrintedEnd::None),
            ("a b -name x", Any, PrintedEnd::None),
            (". -path ./x -prune -o -type f -print", Regular, PrintedEnd::Lines),
            (". -type d -print0", NoLink, PrintedEnd::Nul),
            (".", Any, PrintedEnd::None),
            (
                ". ( -name a -o -name b ) -type f -print",
                Regular,
                PrintedEnd::Lines,
            ),
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            let read = PrintedNames::read(&words).map(|read| (read.kind, read.end));
            assert_eq!(read, Some((kind, end)), "{text}");
        }
        for text in [
            ". -type f -printf /x",
            ". -type f -print -print",
            ". -type f -print -o -type l",
            ". -type f -ls",
            ". -name -print",
            ". -name a -o -type f",
            ". ( -name a ) -o -type f",
            ". -name ( -o -type f -name )",
            ". -type f , -type l",
            ". -type f -fprint x",
            ". -type f -delete",
            ". -type f -exec x ;",
            "-L . -type f",
            "- -type f",
            ". -type f !",
            ". -type f -not",
            ". -type f -a",
            ". -type f -and",
            ". -type f (",
            ". -type f ( -o",
            ". -type f ( -name x ,",
            ". -type f -name",
            ". -type f -newer",
            ". -type f -version",
            ". -type f --version",
            ". -type f -help",
            ". --help -type f -print",
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(PrintedNames::read(&words), None, "{text}");
        }
    }

    #[test]
    fn only_plain_options_of_xargs_are_known() {
        let words = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            words_of_xargs(&words)
        };
        for (text, expected) in [
            ("grep -l x", (0, false)),
            ("-r -n 5 grep", (3, false)),
            ("-0 grep -i", (1, true)),
            ("-n1 --null cat", (2, true)),
        ] {
            assert_eq!(words(text), Some(expected), "{text}");
        }
        for text in [
            "-I {} cat {}",
            "-a list cat",
            "-d x cat",
            "-i cat",
            "-0",
            "-P 4 cat",
            "-E x cat",
            "-n x cat",
            "-n",
            "-- cat",
            "-L 1 cat",
            "-0r cat",
            "-t cat",
            "-p cat",
            "",
        ] {
            assert_eq!(words(text), None, "{text}");
        }
    }
}
