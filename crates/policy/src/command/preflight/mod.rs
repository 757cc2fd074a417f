//! A look at a script before it runs (`docs/spec/exec-tool.md#7-script-preflight`): an agent that writes programs by
//! way of a shell's here-documents leaves pieces of that shell in them, which fail late and far from their cause.
//!
//! Two kinds are looked for: `$UPPER_CASE` where a program expects code, and a shell command as the first statement of
//! a JavaScript file. Neither is a matter of security, and a script with one is refused, so a doubt counts for the
//! script: the tokenisers know strings, comments, templates and regular expressions well enough not to look into them,
//! and stay silent where only a whole parser could tell. Pure and linear. Entry points: [`script_of`] says what a
//! command runs, [`check`] looks at the text.

mod javascript;
mod python;

use std::fmt;

use crate::command::names;

/// Larger files are not looked at (`docs/spec/exec-tool.md#7-script-preflight`).
pub const MAX_SCRIPT_BYTES: u64 = 512 * 1024;

/// So much of a name is shown.
const MAX_SHOWN_CHARS: usize = 40;

/// What a script is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `python3 file.py`.
    Python,
    /// `node file.js`.
    JavaScript,
}

/// A piece of a shell in a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its line, from 1 on.
    pub line: usize,
    pub(crate) kind: LeftoverKind,
}

/// What of a shell was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeftoverKind {
    /// `$NAME` where code is expected; the name without the dollar.
    Variable(String),
    /// The first statement is this shell command.
    Command(String),
}

impl Leftover {
    /// In words, about a file; [`line_of`] reads the line back.
    pub fn describe(&self, file: &str) -> String {
        format!("line {} of {file}: {}", self.line, self.kind)
    }
}

impl fmt::Display for LeftoverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(
                f,
                "${name} is a shell's variable, and code is expected there; read it from the environment"
            ),
            Self::Command(name) => write!(f, "{name} begins a shell command, and code is expected there"),
        }
    }
}

/// The line in what [`Leftover::describe`] wrote.
pub fn line_of(description: &str) -> Option<usize> {
    let (line, _) = description.strip_prefix("line ")?.split_once(" of ")?;
    line.parse().ok()
}

/// The first piece of a shell in a script.
pub fn check(language: Language, text: &[u8]) -> Option<Leftover> {
    match language {
        Language::Python => python::check(text),
        Language::JavaScript => javascript::check(text),
    }
}

/// The script that a program with these arguments runs, if it is one that is looked at.
pub fn script_of<'a>(
    program: &str,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Option<(Language, &'a str)> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let language = match names::without_version(name) {
        "python" => Language::Python,
        "node" | "nodejs" => Language::JavaScript,
        _ => return None,
    };
    let (with_value, without_file, endings): (&[&str], &[&str], &[&str]) = match language {
        Language::Python => (
            &["-W", "-X", "--check-hash-based-pycs"],
            &["-c", "-m", "-"],
            &[".py"],
        ),
        Language::JavaScript => (
            &[
                "-r",
                "--require",
                "--import",
                "--loader",
                "--experimental-loader",
                "-C",
                "--conditions",
            ],
            &["-e", "--eval", "-p", "--print", "-pe", "-", "--test", "--run"],
            &[".js", ".mjs", ".cjs"],
        ),
    };
    let mut arguments = arguments.into_iter();
    loop {
        let argument = arguments.next()?;
        if argument == "--" {
            break;
        }
        if without_file.contains(&argument) {
            return None;
        }
        if with_value.contains(&argument) {
            arguments.next()?;
        } else if !argument.starts_with('-') {
            return is_script(argument, endings).then_some((language, argument));
        }
    }
    let argument = arguments.next()?;
    is_script(argument, endings).then_some((language, argument))
}

fn is_script(argument: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| argument.ends_with(ending))
}

/// The script that a text runs first which nobody could take apart (a redirection is enough for that), if it begins
/// plainly enough to tell.
pub fn script_of_text(text: &str) -> Option<(Language, &str)> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-/=+,:@%".contains(character);
    let mut words = text
        .split_whitespace()
        .take_while(|word| word.chars().all(is_plain));
    let program = words.next()?;
    script_of(program, words)
}

/// Whether a text may run a script that is looked at; false only if it cannot.
pub fn may_concern(text: &str) -> bool {
    text.contains("python") || text.contains("node")
}

/// A name of a shell variable: upper case with at least two characters, one of them a letter, and nothing else joined
/// to it.
fn variable_name(text: &[u8]) -> Option<&[u8]> {
    let length = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | 0x80..))
        .count();
    let name = text.get(..length)?;
    let is_upper = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let is_name = name.len() >= 2
        && name.iter().all(is_upper)
        && name.iter().any(u8::is_ascii_uppercase)
        && !name.first()?.is_ascii_digit();
    is_name.then_some(name)
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name)
        .chars()
        .take(MAX_SHOWN_CHARS)
        .collect()
}

/// Counts lines as a text is gone through once, from its beginning to its end.
struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// The line of a place that is not before the one asked for last.
    fn of(&mut self, place: usize) -> usize {
        let passed = self.text.get(self.at..place).unwrap_or_default();
        self.line += passed.split(|byte| *byte == b'\n').count() - 1;
        self.at = self.at.max(place);
        self.line
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn script<'a>(words: &'a [&'a str]) -> Option<(Language, &'a str)> {
        script_of(words[0], words[1..].iter().copied())
    }

    #[test]
    fn what_a_command_runs_is_its_first_operand_behind_options() {
        for (words, file) in [
            (&["python3", "a.py"][..], "a.py"),
            (&["python", "-u", "-W", "ignore", "d/a.py", "b.py"], "d/a.py"),
            (&["/usr/bin/python3.12", "-X", "dev", "--", "a.py"], "a.py"),
            (&["node", "--inspect", "-r", "x.js", "a.js"], "a.js"),
            (&["nodejs", "a.mjs"], "a.mjs"),
            (
                &["node", "--enable-source-maps", "/w/a.cjs", "--port"],
                "/w/a.cjs",
            ),
        ] {
            assert_eq!(script(words).map(|(_, file)| file), Some(file), "{words:?}");
        }
        for words in [
            &["python3"][..],
            &["python3", "-c", "a.py"],
            &["python3", "-m", "a.py"],
            &["python3", "-", "a.py"],
            &["python3", "tool", "a.py"],
            &["node", "-e", "x", "a.js"],
            &["node", "-r", "a.js"],
            &["node", "a.json"],
            &["ruby", "a.py"],
            &["node", "a.py"],
            &["python3", "a.js"],
        ] {
            assert_eq!(script(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_text_that_begins_plainly_is_understood_that_far() {
        let of = |text| script_of_text(text).map(|(_, file)| file);
        assert_eq!(of("python3 -u a.py > out 2>&1"), Some("a.py"));
        assert_eq!(of("node d/a.js $X"), Some("d/a.js"));
        assert_eq!(of("cd x && python3 a.py"), None);
        assert_eq!(of("python3 \"$X\" a.py"), None);
        assert_eq!(of("python3 $(x) a.py"), None);
    }

    #[test]
    fn the_line_is_read_back_and_only_from_our_own_words() {
        let leftover = Leftover {
            line: 47,
            kind: LeftoverKind::Variable("HOME".to_owned()),
        };
        assert_eq!(line_of(&leftover.describe("a line 3 of b.py")), Some(47));
        assert_eq!(line_of("denied"), None);
    }

    /// Every file of the corpus begins with a comment that says what is to be found in it: `preflight: ok`, or
    /// `preflight: LINE NAME`.
    #[test]
    fn the_corpus_is_judged_as_it_says() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/preflight");
        let mut verdicts = [0, 0];
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let language = match path.extension().and_then(|ending| ending.to_str()) {
                Some("py") => Language::Python,
                Some("js") => Language::JavaScript,
                _ => panic!("{}", path.display()),
            };
            let text = std::fs::read(&path).unwrap();
            let head = String::from_utf8_lossy(&text);
            let expected = head
                .lines()
                .find_map(|line| {
                    line.split_once("preflight: ")
                        .map(|(_, expected)| expected.trim())
                })
                .unwrap_or_else(|| panic!("{} says nothing", path.display()))
                .to_owned();
            let found = check(language, &text).map_or_else(
                || "ok".to_owned(),
                |found| match found.kind {
                    LeftoverKind::Variable(name) => format!("{} ${name}", found.line),
                    LeftoverKind::Command(name) => format!("{} {name}", found.line),
                },
            );
            verdicts[usize::from(found == "ok")] += 1;
            assert_eq!(found, expected, "{}", path.display());
        }
        assert!(verdicts.iter().all(|count| *count >= 8), "{verdicts:?}");
    }

    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("\"".to_owned()),
            Just("'".to_owned()),
            Just("`".to_owned()),
            Just("\"\"\"".to_owned()),
            Just("${".to_owned()),
            Just("}".to_owned()),
            Just("{".to_owned()),
            Just("f\"".to_owned()),
            Just("/".to_owned()),
            Just("/*".to_owned()),
            Just("*/".to_owned()),
            Just("#".to_owned()),
            Just("//".to_owned()),
            Just("\\".to_owned()),
            Just("\n".to_owned()),
            Just("$HOME".to_owned()),
            Just("if (x) ".to_owned()),
            Just("[".to_owned()),
            Just("]".to_owned()),
            Just(":".to_owned()),
            "[a-z $A-Z0-9(){}=;ä]{0,6}",
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_it_finds_is_there(text in pieces()) {
            for language in [Language::Python, Language::JavaScript] {
                if let Some(found) = check(language, text.as_bytes()) {
                    let line = text.split('\n').nth(found.line - 1).unwrap();
                    let what = match found.kind {
                        LeftoverKind::Variable(name) | LeftoverKind::Command(name) => name,
                    };
                    prop_assert!(line.contains(&what), "{line:?} {what}");
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for language in [Language::Python, Language::JavaScript] {
                drop(check(language, &bytes));
            }
        }

        #[test]
        fn a_string_hides_whatever_it_holds(content in "[a-zA-Z0-9_$ {}()/*#;:=.]{0,30}") {
            // Of a template and an f-string only what stands between braces is code.
            for quoted in [format!("x = '{content}'\n"), format!("x = \"{content}\"\n")] {
                prop_assert_eq!(check(Language::Python, quoted.as_bytes()), None);
                prop_assert_eq!(check(Language::JavaScript, quoted.as_bytes()), None);
            }
            let tripled = format!("x = r\"\"\"{content}\"\"\"\n");
            prop_assert_eq!(check(Language::Python, tripled.as_bytes()), None);
            let formatted = format!("x = f'{content}'\n");
            prop_assert_eq!(check(Language::Python, formatted.as_bytes()), None);
        }
    }

    /// Deep nesting and never-ending strings cost no more than their length: each is gone through in a moment, and none
    /// takes stack.
    #[test]
    fn hostile_texts_end() {
        let many = 400 * 1024;
        for piece in [
            "`${", "f'{", "/", "/[", "(/", "a/", "{", "\"\"\"", "$A", "/*", "<!--", "\\\n", "x\n/",
        ] {
            let text = piece.repeat(many / piece.len());
            for language in [Language::Python, Language::JavaScript] {
                drop(check(language, text.as_bytes()));
            }
        }
    }
}
