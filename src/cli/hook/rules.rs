//! The rules of Claude Code about commands of its shell tool, applied to a command as the agent wrote it. Pure.
//!
//! Claude Code compares them with the command that a hook puts in place of the agent's, which none of them names. What
//! denies or asks there has to do so here. Where its own reading is not documented the wider one counts: these rules
//! only ever forbid.

use countersign_policy::command;

/// Payloads in payloads deeper than this are compared as text only.
const DEPTH: usize = 4;
/// Programs that start another one, with words of their own before it.
const WRAPPERS: [&str; 17] = [
    "builtin", "command", "doas", "env", "exec", "ionice", "nice", "nohup", "noglob", "setsid", "stdbuf",
    "sudo", "time", "timeout", "unshare", "watch", "xargs",
];
/// How many words wrappers may have of their own, and those that they wrap.
const WRAPPERS_WORDS: usize = 64;
/// Programs whose `-c` takes a command.
const SHELLS: [&str; 7] = ["ash", "bash", "dash", "fish", "ksh", "sh", "zsh"];
/// Words of the shell that come before a command.
const KEYWORDS: [&str; 10] = [
    "!", "coproc", "do", "elif", "else", "if", "then", "time", "until", "while",
];

/// What a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    /// Every call of the tool.
    Everything,
    /// Commands of one of these forms, or a member of the tool's input with a value of this form.
    Matching {
        commands: Vec<Pattern>,
        member: Option<(String, Pattern)>,
    },
}

/// A rule that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has no closing parenthesis")]
pub(super) struct Unclosed;

/// A text in which `*` stands for anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<String>);

/// What a rule is compared with.
#[derive(Debug)]
pub(super) struct Forms(Vec<String>);

impl Rule {
    /// Reads a rule; `None` when it is about another tool.
    ///
    /// # Errors
    /// [`Unclosed`] when it is about this one and not complete.
    pub(super) fn parse(text: &str, tool: &str) -> Result<Option<Self>, Unclosed> {
        let text = text.trim();
        let (name, rest) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => (name.trim(), Some(rest)),
        };
        if !Pattern::new(name).matches(tool) {
            return Ok(None);
        }
        let Some(rest) = rest else {
            return Ok(Some(Self::Everything));
        };
        let inner = rest.strip_suffix(')').ok_or(Unclosed)?;
        let inner = inner.replace("\\(", "(").replace("\\)", ")");
        let inner = inner.trim();
        if matches!(inner, "" | "*" | ":*") {
            return Ok(Some(Self::Everything));
        }
        Ok(Some(Self::Matching {
            commands: commands(inner),
            member: member(inner),
        }))
    }

    /// Whether the rule is about a call. `input` tells the members of the tool's input as text.
    pub(super) fn matches(&self, forms: &Forms, input: impl Fn(&str) -> Option<String>) -> bool {
        match self {
            Self::Everything => true,
            Self::Matching { commands, member } => {
                let is_named =
                    |(name, value): &(String, Pattern)| input(name).is_some_and(|text| value.matches(&text));
                member.as_ref().is_some_and(is_named)
                    || forms
                        .0
                        .iter()
                        .any(|form| commands.iter().any(|pattern| pattern.matches(form)))
            }
        }
    }
}

/// `git push`, `git push:*`, `git push *`, `git * main`.
fn commands(inner: &str) -> Vec<Pattern> {
    let beginning = inner.strip_suffix(":*").or_else(|| inner.strip_suffix(" *"));
    match beginning.map(str::trim_end) {
        // A word of it ends where the beginning ends, unless that is no word: `Bash(git log --:*)`.
        Some(beginning) if beginning.ends_with(|last: char| last.is_alphanumeric()) => {
            vec![Pattern::new(beginning), Pattern::new(&format!("{beginning} *"))]
        }
        Some(beginning) => vec![Pattern::new(&format!("{beginning}*"))],
        None => vec![Pattern::new(inner)],
    }
}

fn member(inner: &str) -> Option<(String, Pattern)> {
    let (name, value) = inner.split_once(':')?;
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && name != "command").then(|| (name.to_owned(), Pattern::new(value.trim())))
}

impl Pattern {
    fn new(text: &str) -> Self {
        let mut pieces = vec![String::new()];
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let literal = match (character, characters.peek()) {
                ('\\', Some('*' | '\\')) => characters.next(),
                ('*', _) => None,
                (other, _) => Some(other),
            };
            match (literal, pieces.last_mut()) {
                (Some(literal), Some(piece)) => piece.push(literal),
                (None, _) | (_, None) => pieces.push(String::new()),
            }
        }
        Self(pieces)
    }

    /// Whether it is all of `text`.
    fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.0.split_first() else {
            return false;
        };
        let Some((last, middle)) = rest.split_last() else {
            return text == first;
        };
        let inner = text.strip_prefix(first.as_str());
        let Some(mut inner) = inner.and_then(|inner| inner.strip_suffix(last.as_str())) else {
            return false;
        };
        for piece in middle {
            let Some((_before, after)) = inner.split_once(piece.as_str()) else {
                return false;
            };
            inner = after;
        }
        true
    }
}

impl Forms {
    /// The command, each of its parts, and what wrappers and shells in it start.
    pub(super) fn of(command: &str) -> Self {
        let mut forms = Self(Vec::new());
        forms.add_text(command, DEPTH);
        forms
    }

    fn add_text(&mut self, text: &str, depth: usize) {
        self.add(text);
        let Some(depth) = depth.checked_sub(1) else { return };
        let Ok(list) = command::parse(text) else {
            return self.add_pieces(text, depth);
        };
        for segment in list.segments() {
            let from = segment
                .words
                .first()
                .map_or(segment.span.start, |word| word.span.start);
            for (start, end) in [(segment.span.start, segment.span.end), (from, segment.span.end)] {
                self.add(slice(text, start, end));
            }
            let words: Vec<&str> = segment.words.iter().map(|word| word.value.as_str()).collect();
            self.add_words(&words, depth);
        }
    }

    /// Text that is outside of the grammar, cut wherever a command could begin, also inside of quotes.
    fn add_pieces(&mut self, text: &str, depth: usize) {
        const CUTS: &str = ";&|\n\r(){}<>`";
        let mut is_target = false;
        for piece in text.split_inclusive(|character| CUTS.contains(character)) {
            let end = piece
                .chars()
                .next_back()
                .filter(|character| CUTS.contains(*character));
            let piece = piece.trim_end_matches(|character| CUTS.contains(character));
            let bare: String = piece
                .chars()
                .filter(|character| !matches!(character, '\'' | '"' | '\\'))
                .collect();
            for piece in [piece, bare.as_str()] {
                self.add(piece);
                let words: Vec<&str> = piece.split_whitespace().collect();
                self.add_words(behind_keywords(&words), depth);
                if is_target {
                    // The first word is the file of a redirection.
                    self.add_words(behind_keywords(words.get(1..).unwrap_or_default()), depth);
                }
            }
            is_target = matches!(end, Some('<' | '>'));
        }
    }

    fn add_words(&mut self, words: &[&str], depth: usize) {
        let Some((program, arguments)) = words.split_first() else {
            return;
        };
        self.add(&words.join(" "));
        let name = program.rsplit('/').next().unwrap_or(program);
        if name != *program {
            // The program by its name alone.
            self.add(&format!("{name} {}", arguments.join(" ")));
        }
        if SHELLS.contains(&name) {
            for payload in arguments {
                self.add_text(payload, depth);
            }
        } else if name == "eval" {
            self.add_text(&arguments.join(" "), depth);
        } else if WRAPPERS.contains(&name) {
            // Whichever word is the wrapped program.
            for start in 0..arguments.len().min(WRAPPERS_WORDS) {
                self.add_inner(arguments.get(start..).unwrap_or_default(), depth);
            }
        }
    }

    fn add_inner(&mut self, words: &[&str], depth: usize) {
        let is_wrapper = words
            .first()
            .is_some_and(|word| WRAPPERS.contains(&word.rsplit('/').next().unwrap_or(word)));
        if is_wrapper {
            // What it wraps is among the words that are tried in any case.
            self.add(&words.join(" "));
        } else {
            self.add_words(words, depth);
        }
    }

    fn add(&mut self, form: &str) {
        let form = form.trim();
        if !form.is_empty() && self.0.last().is_none_or(|last| last != form) {
            self.0.push(form.to_owned());
        }
    }
}

fn behind_keywords<'a, 'b>(words: &'a [&'b str]) -> &'a [&'b str] {
    let begins = |word: &&&str| KEYWORDS.contains(*word) || is_assignment(word);
    let start = words.iter().take_while(begins).count();
    words.get(start..).unwrap_or_default()
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _value)| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn slice(text: &str, start: u32, end: u32) -> &str {
    let (start, end) = (usize::try_from(start), usize::try_from(end));
    let range = start.ok().zip(end.ok());
    range
        .and_then(|(start, end)| text.get(start..end))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(rule: &str, command: &str) -> bool {
        let rule = Rule::parse(rule, "Bash").unwrap();
        rule.is_some_and(|rule| {
            rule.matches(&Forms::of(command), |name| {
                (name == "run_in_background").then(|| "true".to_owned())
            })
        })
    }

    #[test]
    fn rules_are_about_the_commands_that_they_name() {
        for (rule, command) in [
            ("Bash", "ls"),
            ("Bash(*)", "ls"),
            ("B*", "ls"),
            ("*", "ls"),
            ("Bash(npm run build)", "npm run build"),
            ("Bash(touch:*)", "touch"),
            ("Bash(touch:*)", "touch a b"),
            ("Bash(touch *)", "touch"),
            ("Bash(touch *)", "touch a"),
            ("Bash(ls*)", "lsof"),
            ("Bash(git * main)", "git push origin main"),
            ("Bash(* install)", "pnpm install"),
            ("Bash(git log --:*)", "git log --oneline"),
            ("Bash(echo \\*)", "echo *"),
            ("Bash(echo \\(a\\))", "echo '(a)'"),
            ("Bash(run_in_background:true)", "ls"),
            ("Bash(curl * | bash)", "curl https://x | bash"),
        ] {
            assert!(matches(rule, command), "{rule}: {command}");
        }
        for (rule, command) in [
            ("Read", "ls"),
            ("Edit(*)", "ls"),
            ("BashOutput", "ls"),
            ("Bash(npm run build)", "npm run build2"),
            ("Bash(touch:*)", "touchy a"),
            ("Bash(touch *)", "touchy a"),
            ("Bash(touch:*)", "echo touch a"),
            ("Bash(touch:*)", "echo 'a; touch b'"),
            ("Bash(git * main)", "git push origin main2"),
            ("Bash(echo \\*)", "echo a"),
            ("Bash(run_in_background:false)", "ls"),
            ("Bash(a*b*c)", "acb"),
            ("Bash(aa*aa)", "aaa"),
        ] {
            assert!(!matches(rule, command), "{rule}: {command}");
        }
        assert_eq!(Rule::parse("Bash(touch", "Bash"), Err(Unclosed));
        assert_eq!(Rule::parse("Read(touch", "Bash"), Ok(None));
    }

    #[test]
    fn each_part_of_a_command_is_compared() {
        for command in [
            "ls && touch a",
            "ls || touch a",
            "ls; touch a",
            "ls\ntouch a",
            "ls | touch a",
            "ls & touch a",
            "A=b touch a",
            "'touch' a",
            "t\"ou\"ch a",
            "touch   a",
            "/usr/bin/touch a",
            "timeout 5 touch a",
            "timeout -k 1 5 nice -n 3 touch a",
            "env A=b touch a",
            "sudo -u x touch a",
            "find . | xargs -n 1 touch",
            "sh -c 'touch a'",
            "bash -lc 'ls && touch a'",
            "sh -c \"sh -c 'touch a'\"",
            "eval 'touch a'",
            "echo $(touch a)",
            "echo `touch a`",
            "(cd b && touch a)",
            "{ touch a; }",
            "for f in a b; do touch $f; done",
            "if true; then touch a; fi",
            "while touch a; do :; done",
            "! touch a",
            "cat <(touch a)",
            "> b touch a",
            "touch a > b",
            "touch \"$A\"",
            "A=$(id) touch a",
            "\\touch $a",
            "cat <<EOF\n$(touch a)\nEOF",
        ] {
            assert!(matches("Bash(touch:*)", command), "{command}");
        }
    }

    #[test]
    fn a_large_command_has_few_forms() {
        let forms = Forms::of(&"nice ".repeat(200));
        assert!(forms.0.len() < 200, "{}", forms.0.len());
    }
}
