//! JavaScript: `$NAME` may be a name like any other there, so one that the file declares or that names a member is no
//! leftover.

use std::collections::HashSet;

use super::{Leftover, LeftoverKind, Lines, shown, variable_name};

/// Programs that scripts begin with when they were meant for a shell, in lower case.
const COMMANDS: &[&str] = &[
    "bash", "bun", "cat", "cd", "chmod", "cp", "curl", "deno", "echo", "git", "ls", "mkdir", "mv", "node",
    "nodejs", "npm", "npx", "pip", "pip3", "pnpm", "python", "python3", "rm", "sh", "source", "sudo",
    "touch", "wget", "yarn", "zsh",
];

/// Words that end the text of a here-document, and stay in the file when that goes wrong.
const DELIMITERS: &[&str] = &["NODE", "EOF"];

/// Words behind which a value follows, so that a slash begins a regular expression.
const BEFORE_VALUE: &[&str] = &[
    "await",
    "case",
    "delete",
    "do",
    "else",
    "extends",
    "in",
    "instanceof",
    "new",
    "of",
    "return",
    "throw",
    "typeof",
    "void",
    "yield",
];

/// Words whose parentheses a statement follows.
const BEFORE_STATEMENT: &[&str] = &["if", "for", "while", "with"];

/// Words that declare the name behind them.
const DECLARING: &[&str] = &["class", "const", "function", "import", "let", "var"];

/// The first piece of a shell.
pub(super) fn check(text: &[u8]) -> Option<Leftover> {
    first_statement(text).or_else(|| Reader::new(text).read())
}

/// A shell command as the first statement.
fn first_statement(text: &[u8]) -> Option<Leftover> {
    let start = skip_blank_and_comments(text);
    let rest = text.get(start..)?;
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let length = line.iter().take_while(|byte| is_name_byte(**byte)).count();
    let (word, behind) = line.split_at_checked(length)?;
    let name = std::str::from_utf8(word).ok()?;
    let behind_blanks = behind.trim_ascii_start();
    let is_alone = behind_blanks.is_empty();
    let has_blank = behind_blanks.len() < behind.len();
    let goes_on = has_blank && begins_word(behind_blanks);
    let is_command = COMMANDS.contains(&name.to_ascii_lowercase().as_str()) && goes_on;
    let is_leftover = is_command || (DELIMITERS.contains(&name) && (is_alone || goes_on));
    is_leftover.then(|| Leftover {
        line: Lines::new(text).of(start),
        kind: LeftoverKind::Command(shown(word)),
    })
}

/// Whether what follows a name and a blank is another word of a shell command, and cannot go on an expression.
fn begins_word(text: &[u8]) -> bool {
    match text {
        // `in`, `of`, `instanceof` and `as` are operators.
        [first, ..] if is_name_byte(*first) || matches!(first, b'"' | b'\'') => {
            let length = text.iter().take_while(|byte| is_name_byte(**byte)).count();
            let word = text.get(..length).unwrap_or_default();
            !matches!(word, b"in" | b"of" | b"instanceof" | b"as")
        }
        // An operator has a blank behind it as it has one before; an option and a path do not.
        [b'-', second, ..] => second.is_ascii_alphanumeric() || *second == b'-',
        [b'/', second, ..] => second.is_ascii_alphanumeric(),
        [b'.', second, ..] => matches!(second, b'.' | b'/'),
        [b'~', b'/', ..] | [b'<', b'<', ..] => true,
        _ => false,
    }
}

fn skip_blank_and_comments(text: &[u8]) -> usize {
    let mut at = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    if text.get(at..).is_some_and(|rest| rest.starts_with(b"#!")) {
        at += line_length(text.get(at..).unwrap_or_default());
    }
    while let Some(rest) = text.get(at..) {
        at += match rest {
            [b' ' | b'\t' | b'\r' | b'\n', ..] => 1,
            [b'/', b'/', ..] => line_length(rest),
            [b'/', b'*', ..] => comment_length(rest),
            _ => break,
        };
    }
    at
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn comment_length(rest: &[u8]) -> usize {
    let end = rest.windows(2).skip(2).position(|two| two == b"*/");
    end.map_or(rest.len(), |end| end + 4)
}

/// A bracket that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// A parenthesis; whether a statement follows it.
    Parenthesis {
        of_statement: bool,
    },
    Bracket,
    Block,
    /// Braces around an object, or perhaps around statements.
    Object {
        is_sure: bool,
    },
    /// `${` of a template.
    Substitution,
}

/// What the last token was, as far as it says what a slash means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Operator,
    /// A value ended: a slash divides.
    Value,
    /// Only a whole parser could tell.
    Unsure,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    open: Vec<Open>,
    before: Before,
    /// The last word, if it was the last token.
    word: &'a [u8],
    /// The last byte of code that is no blank, if no word.
    sign: u8,
    /// Nothing is believed before this place, and no slash is looked at twice.
    silent_until: usize,
    found: Vec<(usize, &'a [u8])>,
    declared: HashSet<&'a [u8]>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8]) -> Self {
        let is_program = text.starts_with(b"#!");
        Self {
            text,
            at: if is_program { line_length(text) } else { 0 },
            open: Vec::new(),
            before: Before::Operator,
            word: b"",
            sign: b';',
            silent_until: 0,
            found: Vec::new(),
            declared: HashSet::new(),
        }
    }

    fn read(mut self) -> Option<Leftover> {
        while let Some(rest) = self.text.get(self.at..).filter(|rest| !rest.is_empty()) {
            self.at += self.token(rest);
        }
        let declared = &self.declared;
        let (place, name) = self.found.iter().find(|(_, name)| !declared.contains(name))?;
        Some(Leftover {
            line: Lines::new(self.text).of(*place),
            kind: LeftoverKind::Variable(shown(name)),
        })
    }

    /// Takes one token; returns its length.
    fn token(&mut self, rest: &'a [u8]) -> usize {
        match rest {
            [] | [b' ' | b'\t' | b'\r' | b'\n', ..] => 1,
            [b'/', b'/', ..] => line_length(rest),
            [b'/', b'*', ..] => comment_length(rest),
            [quote @ (b'\'' | b'"'), ..] => {
                self.value();
                string_length(rest, *quote)
            }
            [b'`', ..] => self.template(rest, 1),
            [b'/', ..] => self.slash(rest),
            [b'$', b'{', behind @ ..] => {
                if let Some(name) = variable_name(behind) {
                    self.note(name);
                }
                self.value();
                1
            }
            [first, ..] if is_name_byte(*first) => self.name(rest),
            [b'+', b'+', ..] | [b'-', b'-', ..] => {
                self.value();
                2
            }
            [sign, ..] => self.sign(*sign, rest),
        }
    }

    fn value(&mut self) {
        (self.before, self.word, self.sign) = (Before::Value, b"", b'v');
    }

    fn note(&mut self, name: &'a [u8]) {
        if self.at >= self.silent_until {
            self.found.push((self.at, name));
        }
    }

    fn name(&mut self, rest: &'a [u8]) -> usize {
        let length = rest.iter().take_while(|byte| is_name_byte(**byte)).count();
        let word = rest.get(..length).unwrap_or_default();
        let is_member = self.word.is_empty() && self.sign == b'.';
        let name = word
            .strip_prefix(b"$")
            .filter(|name| variable_name(name) == Some(name));
        if let Some(name) = name {
            let behind = rest.get(length..).unwrap_or_default().trim_ascii_start();
            let is_key = matches!(behind, [b':', ..])
                && self.word.is_empty()
                && matches!(self.sign, b'{' | b',')
                && matches!(self.open.last(), Some(Open::Object { .. }));
            let is_assigned =
                matches!(behind, [b'=', next, ..] if !matches!(next, b'=')) || behind.starts_with(b"=>");
            let is_declared = std::str::from_utf8(self.word).is_ok_and(|word| DECLARING.contains(&word));
            if is_assigned || is_declared {
                self.declared.insert(name);
            } else if !is_member && !is_key {
                self.note(name);
            }
        }
        let takes_value =
            !is_member && std::str::from_utf8(word).is_ok_and(|word| BEFORE_VALUE.contains(&word));
        self.before = if takes_value {
            Before::Operator
        } else {
            Before::Value
        };
        (self.word, self.sign) = (word, b'w');
        length
    }

    fn sign(&mut self, sign: u8, rest: &'a [u8]) -> usize {
        let word = std::str::from_utf8(self.word).unwrap_or_default();
        self.before = match sign {
            b'(' => {
                let of_statement = BEFORE_STATEMENT.contains(&word);
                self.open.push(Open::Parenthesis { of_statement });
                Before::Operator
            }
            b'[' => {
                self.open.push(Open::Bracket);
                Before::Operator
            }
            b'{' => {
                self.open.push(self.braces());
                Before::Operator
            }
            b')' | b']' | b'}' => match self.open.pop() {
                Some(Open::Substitution) if sign == b'}' => return self.template(rest, 1),
                Some(Open::Parenthesis { of_statement: true } | Open::Block) => Before::Operator,
                Some(
                    Open::Parenthesis { of_statement: false }
                    | Open::Bracket
                    | Open::Object { is_sure: true },
                ) => Before::Value,
                Some(Open::Object { is_sure: false } | Open::Substitution) | None => Before::Unsure,
            },
            _ => Before::Operator,
        };
        (self.word, self.sign) = (b"", sign);
        1
    }

    /// What braces surround that open here.
    fn braces(&self) -> Open {
        if !self.word.is_empty() {
            let is_value_next = self.before == Before::Operator && !matches!(self.word, b"else" | b"do");
            // `return {` holds an object, `class X {`, `try {` and `else {` hold statements.
            return if is_value_next {
                Open::Object { is_sure: true }
            } else {
                Open::Block
            };
        }
        match self.sign {
            // The last is the body of an arrow function, or something greater than an object.
            b')' | b';' | b'{' | b'}' | b'>' => Open::Block,
            // A case, a label, or a member.
            b':' => Open::Object { is_sure: false },
            _ => Open::Object { is_sure: true },
        }
    }

    fn slash(&mut self, rest: &'a [u8]) -> usize {
        let is_silent = self.at < self.silent_until;
        let length = match self.before {
            Before::Operator if !is_silent => regex_length(rest),
            Before::Value | Before::Operator | Before::Unsure => None,
        };
        if length.is_none() && self.before != Before::Value && !is_silent {
            // Nothing in this line is believed, and what follows is read as if it divided.
            self.silent_until = self.at + line_length(rest);
        }
        match length {
            Some(length) => {
                self.value();
                length
            }
            None => self.sign(b'/', rest),
        }
    }

    /// The text of a template from behind its backtick or the brace of a substitution, to the next of either.
    fn template(&mut self, rest: &'a [u8], from: usize) -> usize {
        let mut at = from;
        loop {
            match rest.get(at..).unwrap_or_default() {
                [b'\\', _, ..] => at += 2,
                [b'`', ..] => {
                    self.value();
                    return at + 1;
                }
                [b'$', b'{', ..] => {
                    self.open.push(Open::Substitution);
                    (self.before, self.word, self.sign) = (Before::Operator, b"", b'(');
                    return at + 2;
                }
                [] => return rest.len(),
                _ => at += 1,
            }
        }
    }
}

/// The length of a string, which ends with its line at the latest.
fn string_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    loop {
        match rest.get(at..).unwrap_or_default() {
            [b'\\', b'\r', b'\n', ..] => at += 3,
            [b'\\', _, ..] => at += 2,
            [byte, ..] if *byte == quote => return at + 1,
            [b'\n', ..] => return at,
            [] => return rest.len(),
            _ => at += 1,
        }
    }
}

/// The length of a regular expression with its flags; `None` when it does not end in its line.
fn regex_length(rest: &[u8]) -> Option<usize> {
    let mut at = 1;
    let mut in_class = false;
    loop {
        match rest.get(at..)? {
            [b'\n', ..] | [b'\\', b'\n', ..] | [] => return None,
            [b'\\', _, ..] => at += 1,
            [b'[', ..] => in_class = true,
            [b']', ..] => in_class = false,
            [b'/', flags @ ..] if !in_class => {
                let flags = flags.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
                return Some(at + 1 + flags);
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(text: &str, expected: Option<(usize, &str)>) {
        let found = check(text.as_bytes());
        let found = found.as_ref().map(|found| match &found.kind {
            LeftoverKind::Variable(name) | LeftoverKind::Command(name) => (found.line, name.as_str()),
        });
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_variable_where_code_is_expected_is_found() {
        finds("const x = 1;\nfetch($API_URL);", Some((2, "API_URL")));
        finds("const x = ${TOKEN};", Some((1, "TOKEN")));
        finds("const x = a / 2; y($HOME) / 3", Some((1, "HOME")));
        finds("const s = `a ${b} c`; log($HOME)", Some((1, "HOME")));
        finds("x = /'/; y = $HOME", Some((1, "HOME")));
        finds("if (x) /'/.test(y); z($HOME)", Some((1, "HOME")));
        finds("log(`${$HOME}`)", Some((1, "HOME")));
        finds("x = 'open\ny = $HOME", Some((2, "HOME")));
        finds("#!/usr/bin/env node\nx($HOME)", Some((2, "HOME")));
    }

    #[test]
    fn strings_comments_templates_and_regexes_hide_it() {
        for text in [
            "// $HOME\n/* $HOME */",
            "x = '$HOME' + \"a\\\"$HOME\"",
            "x = `$HOME ${a + `$HOME`} $HOME`",
            "x = `\\${HOME} \\` $HOME`",
            "x = /\\$HOME/.test(y)",
            "x = y.replace(/[/]$HOME/g, '')",
            "if (a) /$HOME/.test(b)",
            "while (i--) /$HOME/.exec(b)",
            "function f() {}\n/$HOME/.test(x)",
            "return /$HOME/",
            "x = { a: 1 }\ny = x ? /$HOME/ : 1",
            "switch (x) { case 1: {} /$HOME/.test(y) }",
            "const f = () => {}\n/$HOME/.test(x)",
            "x = `${ {a: '}'}.a }$HOME`",
        ] {
            finds(text, None);
        }
    }

    #[test]
    fn a_name_that_the_file_has_itself_is_its_own() {
        for text in [
            "const $EL = get(); use($EL)",
            "let a = 1;\nuse($LATE);\nvar $LATE = 2",
            "$CACHE = {}; $CACHE.x = 1",
            "list.map($IT => $IT.x)",
            "x = { $SET: 1, $INC: 2 }",
            "x.$HOME = 1; y = x.$HOME + x?.$HOME",
            "use($el, $, $1, $$, $A)",
        ] {
            finds(text, None);
        }
        finds("if ($HOME == 1) {}", Some((1, "HOME")));
    }

    #[test]
    fn a_shell_command_as_the_first_statement_is_found() {
        for (text, expected) in [
            ("NODE\nconst x = 1", (1, "NODE")),
            ("// note\n\nnode script.js", (2 + 1, "node")),
            ("npm install express", (1, "npm")),
            ("cd /tmp", (1, "cd")),
            ("cd ..", (1, "cd")),
            ("node ./x.js", (1, "node")),
            ("node <<'NODE'", (1, "node")),
            ("ls -la", (1, "ls")),
            ("echo \"x\"", (1, "echo")),
            ("#!/bin/sh\ncurl https://x", (2, "curl")),
        ] {
            finds(text, Some(expected));
        }
        for text in [
            "node.start()",
            "node = 1",
            "cat(x)",
            "rm in object",
            "echo - 1",
            "ls / 2",
            "echo`x`",
            "const node = 1\nnode\ncd\n",
            "NODE = 1",
            "NODE.x",
            "'use strict'\nx",
            "nodes here",
        ] {
            finds(text, None);
        }
    }
}
