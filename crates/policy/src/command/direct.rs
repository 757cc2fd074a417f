//! Whether the host shell would do nothing for a text but find its one program and become it. Such a program can be
//! started without the shell (`docs/spec/command-analysis.md#x2`).
//!
//! [`start_of`] decides, from the text, the shell and the environment alone. It looks at no file: the program is looked
//! for when it starts, as the shell would do it, and where that fails the shell is started after all. [`DirectStart::of`]
//! is what starts. All that is not known to be the same without the shell is left to the shell.

use std::{borrow::Cow, ffi::OsStr, os::unix::ffi::OsStrExt as _};

use countersign_domain::{DirectStarts, TextStart};

use super::{
    names::may_be_builtin,
    parser::{is_keyword, parse},
    syntax::{Part, WordClass},
};
use crate::gate::Verdict;

/// A shell whose start is known in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellKind {
    /// `bash`, also as `sh`: it becomes the program of a simple command.
    Bash,
    /// `dash`, also as `sh`: many versions start a program in a process of its own and tell of its end in their own way.
    Dash,
}

/// What the choice depends on besides text and environment.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// `[exec] direct`.
    pub setting: DirectStarts,
    /// What the gate says.
    pub verdict: Verdict,
    /// The host shell, if it is one that is known.
    pub shell: Option<ShellKind>,
    /// Whether the run is bound to what scripts hold.
    pub binds_scripts: bool,
}

/// How a text is started, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenStart {
    /// The word that runs show as `start`.
    pub way: TextStart,
    /// Why, for people.
    pub detail: Cow<'static, str>,
}

/// Chooses how a text is started.
pub fn start_of<'v>(
    text: &str,
    circumstances: &Circumstances,
    variables: impl Iterator<Item = (&'v OsStr, &'v OsStr)> + Clone,
) -> ChosenStart {
    let needed = match *circumstances {
        Circumstances {
            setting: DirectStarts::Off,
            ..
        } => Some(NeedsShell::Setting),
        Circumstances {
            verdict: Verdict::Ask(_) | Verdict::Deny(_),
            ..
        } => Some(NeedsShell::Answer),
        Circumstances {
            binds_scripts: true, ..
        } => Some(NeedsShell::Scripts),
        Circumstances { shell: None, .. } => Some(NeedsShell::UnknownShell),
        Circumstances {
            shell: Some(shell), ..
        } => DirectStart::of(text, shell, variables).err(),
    };
    needed.map_or(
        ChosenStart {
            way: TextStart::Direct,
            detail: Cow::Borrowed("the shell would only find the program, and is started where that fails"),
        },
        |why| ChosenStart {
            way: TextStart::Shell,
            detail: why.detail(),
        },
    )
}

/// Why a text is left to the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeedsShell {
    /// `[exec] direct` is `off`.
    Setting,
    /// A person is asked, or was: the answer covers the shell.
    Answer,
    /// Scripts are bound.
    Scripts,
    /// It is another shell, or is called like one that restricts or sets itself up.
    UnknownShell,
    /// The shell stays beside the program and reports its end.
    StayingShell,
    /// It is not one simple command of literal words.
    NotSimple,
    /// It is not all ASCII, of which every locale makes the same.
    NotAscii,
    /// Its first word is one that a shell may know by itself.
    OwnWord(String),
    /// The shell acts on this variable, or passes on another value.
    Variable(String),
    /// The PATH has entries that are no absolute directories.
    Path,
}

impl NeedsShell {
    fn detail(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Setting => "exec.direct is off",
            Self::Answer => "an answer covers the text and the shell that reads it",
            Self::Scripts => "a script of the command is bound",
            Self::UnknownShell => "the host shell is not bash",
            Self::StayingShell => {
                "dash stays beside the program and reports its end itself; bash becomes the program"
            }
            Self::NotSimple => "the text is not one simple command of literal words",
            Self::NotAscii => "the text has other characters than ASCII",
            Self::OwnWord(word) => {
                return Cow::Owned(format!("the shell may know the word {word} by itself"));
            }
            Self::Variable(name) => return Cow::Owned(format!("the shell would act on the variable {name}")),
            Self::Path => "the PATH does not consist of absolute directories",
        })
    }
}

/// A program that is started without the shell that would find it. The default is none: it has no place where it may be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectStart {
    /// All arguments, `argv[0]` included.
    pub words: Vec<String>,
    /// Where it may be, in the order in which the shell looks. The first of them that is there is the program.
    pub candidates: Vec<Vec<u8>>,
    /// The variables that the shell would set for it, besides `_`.
    pub assignments: Vec<(&'static str, &'static str)>,
}

impl DirectStart {
    /// What a text starts in an environment without the shell.
    ///
    /// # Errors
    /// Why it needs the shell.
    pub fn of<'v>(
        text: &str,
        shell: ShellKind,
        variables: impl Iterator<Item = (&'v OsStr, &'v OsStr)> + Clone,
    ) -> Result<Self, NeedsShell> {
        match shell {
            ShellKind::Bash => {}
            ShellKind::Dash => return Err(NeedsShell::StayingShell),
        }
        let words = simple_words(text)?;
        let assignments = expect_inert(variables.clone())?;
        let name = words.first().map_or("", String::as_str);
        Ok(Self {
            candidates: candidates(name, variables)?,
            words,
            assignments,
        })
    }
}

/// The words of a text that is one simple command, with nothing in it that a shell would read as anything else.
fn simple_words(text: &str) -> Result<Vec<String>, NeedsShell> {
    if !text.is_ascii() {
        return Err(NeedsShell::NotAscii);
    }
    let list = parse(text).map_err(|_outside| NeedsShell::NotSimple)?;
    let [item] = list.items.as_slice() else {
        return Err(NeedsShell::NotSimple);
    };
    let [Part::Segment(segment)] = item.pipeline.as_slice() else {
        return Err(NeedsShell::NotSimple);
    };
    let is_blank = |text: &str| text.bytes().all(|byte| matches!(byte, b' ' | b'\t'));
    let around = text
        .split_at_checked(usize::try_from(segment.span.start).unwrap_or(usize::MAX))
        .zip(text.split_at_checked(usize::try_from(segment.span.end).unwrap_or(usize::MAX)));
    let Some(((before, _), (_, after))) = around else {
        return Err(NeedsShell::NotSimple);
    };
    let is_plain = segment.assignments.is_empty()
        && segment.words.iter().all(|word| word.class == WordClass::Literal)
        // An end of line ends a command; what comes behind it is read anew, and bash starts the program in a process of
        // its own where there is more.
        && is_blank(before)
        && is_blank(after.strip_suffix('\n').unwrap_or(after))
        && !text.contains("\\\n");
    if !is_plain {
        return Err(NeedsShell::NotSimple);
    }
    let words: Vec<String> = segment.words.iter().map(|word| word.value.clone()).collect();
    match words.first() {
        Some(name) if is_name_of_a_file(name) => Ok(words),
        Some(name) => Err(NeedsShell::OwnWord(name.clone())),
        None => Err(NeedsShell::NotSimple),
    }
}

/// Whether a first word can only mean a file: no builtin, no keyword, no job, no assignment of any kind.
fn is_name_of_a_file(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./+-,:@".contains(&byte);
    let begins_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./".contains(byte);
    name.as_bytes().first().is_some_and(begins_plain)
        && name.bytes().all(is_plain)
        && name != "time"
        && !is_keyword(name)
        && !may_be_builtin(name)
}

/// Where a shell looks for a program.
fn candidates<'v>(
    name: &str,
    mut variables: impl Iterator<Item = (&'v OsStr, &'v OsStr)>,
) -> Result<Vec<Vec<u8>>, NeedsShell> {
    if name.contains('/') {
        return Ok(vec![name.as_bytes().to_vec()]);
    }
    let (_, path) = variables
        .find(|(variable, _)| *variable == "PATH")
        .ok_or(NeedsShell::Path)?;
    path.as_bytes()
        .split(|byte| *byte == b':')
        .map(|directory| {
            if !directory.starts_with(b"/") {
                return Err(NeedsShell::Path);
            }
            let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
            Ok([directory, slash, name.as_bytes()].concat())
        })
        .collect()
}

/// Variables on which bash acts at its start, or which it does not pass on as they are, and some that are its own.
const ACTED_ON: &[&str] = &[
    "CHILD_MAX",
    "COMP_WORDBREAKS",
    "COPROC",
    "DIRSTACK",
    "ENV",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "EXECIGNORE",
    "FUNCNAME",
    "FUNCNEST",
    "GROUPS",
    "HISTCMD",
    "IFS",
    "LINENO",
    "MAPFILE",
    "OLDPWD",
    "OPTARG",
    "OPTERR",
    "OPTIND",
    "PIPESTATUS",
    "POSIXLY_CORRECT",
    "POSIX_PEDANTIC",
    "PPID",
    "PS1",
    "PS2",
    "PS4",
    "PWD",
    "RANDOM",
    "SECONDS",
    "SHELLOPTS",
    "SRANDOM",
    "SSH2_CLIENT",
    "SSH_CLIENT",
    "UID",
];

/// Values of `LC_ALL` that every machine has. Of others bash says on standard error if it has not.
const LOCALES: &[&str] = &["", "C", "POSIX", "C.UTF-8", "C.utf8"];

/// Checks that bash would leave the environment as it is, but for what it sets: that is returned.
fn expect_inert<'v>(
    variables: impl Iterator<Item = (&'v OsStr, &'v OsStr)>,
) -> Result<Vec<(&'static str, &'static str)>, NeedsShell> {
    let mut has_level = false;
    for (name, value) in variables {
        let known = name.to_str().filter(|name| is_identifier(name));
        let is_inert = known.is_some_and(|known| match known {
            "SHLVL" => {
                has_level = true;
                is_level(value)
            }
            "LC_ALL" => LOCALES.iter().any(|locale| value == *locale),
            known => !known.starts_with("BASH") && !ACTED_ON.contains(&known),
        });
        if !is_inert {
            return Err(NeedsShell::Variable(name.to_string_lossy().into_owned()));
        }
    }
    // It counts itself, and takes that back when it becomes the program.
    Ok(if has_level {
        Vec::new()
    } else {
        vec![("SHLVL", "0")]
    })
}

fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && bytes.all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

/// Whether bash passes a `SHLVL` on as it is: a number as it would write it, and not so high that it warns.
fn is_level(value: &OsStr) -> bool {
    const HIGHEST: u16 = 998;
    value
        .to_str()
        .and_then(|text| text.parse::<u16>().ok().filter(|level| level.to_string() == text))
        .is_some_and(|level| level <= HIGHEST)
}

#[cfg(test)]
mod tests {
    use countersign_domain::Reason;

    use super::*;

    fn variables<'v>(
        given: &'v [(&'v str, &'v str)],
    ) -> impl Iterator<Item = (&'v OsStr, &'v OsStr)> + Clone {
        let path = [("PATH", "/usr/bin:/bin/")];
        path.into_iter()
            .chain(given.iter().copied())
            .map(|(name, value)| (OsStr::new(name), OsStr::new(value)))
    }

    fn words(text: &str) -> Option<String> {
        let direct = DirectStart::of(text, ShellKind::Bash, variables(&[])).ok()?;
        Some(direct.words.join("|"))
    }

    #[test]
    fn one_simple_command_of_literal_words_needs_no_shell() {
        for (text, expected) in [
            ("/bin/true", "/bin/true"),
            ("git status", "git|status"),
            (" \tgit  'a b' \"c d\" e\\ f \n", "git|a b|c d|e f"),
            ("git commit -m 'one\ntwo'", "git|commit|-m|one\ntwo"),
            ("./run x=1 -- --y", "./run|x=1|--|--y"),
            ("'git' ''", "git|"),
            ("g++ a", "g++|a"),
        ] {
            assert_eq!(words(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_left_to_the_shell() {
        for text in [
            "",
            "''",
            "a; b",
            "a;",
            "a && b",
            "a | b",
            "a &",
            "a > b",
            "a < b",
            "a 2>&1",
            "a # b",
            "# a",
            "a\nb",
            "\na",
            "a\n\n",
            "a \\\n b",
            "X=1 a",
            "X=1",
            "X+=1 a",
            "X[0]=1 a",
            "a $X",
            "a \"$X\"",
            "a `b`",
            "a $(b)",
            "a *",
            "a ?",
            "a [b]",
            "a {b,c}",
            "a ~",
            "a ~/b",
            "~/a",
            "(a)",
            "{ a; }",
            "! a",
            "%1",
            "-x a",
            "+x a",
            "= a",
            "true",
            "echo a",
            "[ a ]",
            "'echo' a",
            "\\echo a",
            "test a",
            "time a",
            "'if' a",
            "cd /",
            ". a",
            ": a",
            "exec a",
            "a() { b; }",
            "caf\u{e9}",
            "a '\u{e9}'",
            "a\u{7}b",
            "a\0b",
        ] {
            assert_eq!(words(text), None, "{text:?}");
        }
        assert_eq!(words(&format!("a {}", "b".repeat(10_000))), None);
    }

    #[test]
    fn a_program_is_looked_for_where_the_shell_looks() {
        let of = |text: &str| {
            let direct = DirectStart::of(text, ShellKind::Bash, variables(&[])).unwrap();
            let paths = direct.candidates.iter().map(|path| String::from_utf8_lossy(path));
            paths.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("git"), "/usr/bin/git /bin/git");
        assert_eq!(of("./git"), "./git");
        assert_eq!(of("/opt/x/git"), "/opt/x/git");
        for path in ["", ":/bin", "/bin:", "bin", "/bin::/usr/bin", "/bin:."] {
            let only = [(OsStr::new("PATH"), OsStr::new(path))];
            let direct = DirectStart::of("git", ShellKind::Bash, only.into_iter());
            assert_eq!(direct, Err(NeedsShell::Path), "{path:?}");
        }
        let none = DirectStart::of("git", ShellKind::Bash, std::iter::empty());
        assert_eq!(none, Err(NeedsShell::Path));
    }

    #[test]
    fn what_a_shell_sets_is_set_and_what_it_acts_on_is_left_to_it() {
        let of = |name: &str, value: &str| {
            let direct = DirectStart::of("git", ShellKind::Bash, variables(&[(name, value)]));
            direct.map(|direct| direct.assignments)
        };
        assert_eq!(of("HOME", "/x"), Ok(vec![("SHLVL", "0")]));
        for level in ["0", "1", "998"] {
            assert_eq!(of("SHLVL", level), Ok(Vec::new()), "{level}");
        }
        for level in ["", "01", "+1", " 1", "-1", "999", "70000", "x"] {
            assert!(of("SHLVL", level).is_err(), "{level}");
        }
        assert!(of("LC_ALL", "C.UTF-8").is_ok());
        assert!(of("LC_ALL", "de_DE.UTF-8").is_err());
        for name in [
            "BASH_ENV",
            "BASH_FUNC_git%%",
            "BASHOPTS",
            "ENV",
            "SHELLOPTS",
            "POSIXLY_CORRECT",
            "SSH_CLIENT",
            "SSH2_CLIENT",
            "IFS",
            "PWD",
            "OLDPWD",
            "a-b",
            "1a",
            "",
        ] {
            let needs = NeedsShell::Variable(name.to_owned());
            assert_eq!(of(name, "x"), Err(needs), "{name}");
        }
    }

    #[test]
    fn everything_that_the_choice_depends_on_can_ask_for_the_shell() {
        let free = Circumstances {
            setting: DirectStarts::Auto,
            verdict: Verdict::Run,
            shell: Some(ShellKind::Bash),
            binds_scripts: false,
        };
        let way = |text, circumstances: Circumstances| start_of(text, &circumstances, variables(&[])).way;
        assert_eq!(way("git status", free), TextStart::Direct);
        assert_eq!(way("git status; x", free), TextStart::Shell);
        for hindered in [
            Circumstances {
                setting: DirectStarts::Off,
                ..free
            },
            Circumstances {
                verdict: Verdict::Deny(Reason::SecurityDeny),
                ..free
            },
            Circumstances { shell: None, ..free },
            Circumstances {
                shell: Some(ShellKind::Dash),
                ..free
            },
            Circumstances {
                binds_scripts: true,
                ..free
            },
        ] {
            assert_eq!(way("git status", hindered), TextStart::Shell, "{hindered:?}");
        }
    }
}
