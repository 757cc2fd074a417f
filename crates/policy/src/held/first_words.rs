//! The words of a shell text that stand where a command begins, as far as they can be seen.
//!
//! No parser: it follows quotes, substitutions, here-documents and the shell's reserved words well enough to see what a text
//! starts. What it misreads makes a person be asked, or is left to the kernel.

use std::collections::BTreeSet;

use countersign_domain::deciding;

use super::STARTERS;

/// Substitutions in substitutions that are looked into.
const MAX_DEPTH: usize = 32;

/// The literal words of a text that are started, each once.
#[derive(Debug, Default)]
pub(super) struct FirstWords {
    /// Where a command begins: programs, words of the shell and its builtins; without functions of the text itself.
    pub(super) commands: BTreeSet<String>,
    /// Behind a program that starts what its words say: programs alone.
    pub(super) started: BTreeSet<String>,
    /// The commands of git, each with the word behind it or an empty one.
    pub(super) of_git: Vec<(String, String)>,
    /// The first word that names a file which decides what programs start.
    pub(super) deciding: Option<String>,
}

/// The literal words of a text that are started.
pub(super) fn of(text: &str) -> FirstWords {
    let mut scanner = Scanner {
        rest: text,
        bodies: Vec::new(),
        found: FirstWords::default(),
        functions: BTreeSet::new(),
        depth: 0,
    };
    while !scanner.rest.is_empty() {
        scanner.list();
        // A bracket that closes nothing.
        scanner.take();
    }
    let Scanner {
        mut found, functions, ..
    } = scanner;
    found.commands.retain(|word| !functions.contains(word));
    found
}

struct Scanner<'a> {
    rest: &'a str,
    /// Here-documents whose bodies begin at the next line: their delimiters, and whether tabs before these are passed over.
    bodies: Vec<(String, bool)>,
    found: FirstWords,
    functions: BTreeSet<String>,
    depth: usize,
}

/// A word.
struct Word {
    /// Without its quotes.
    text: String,
    /// Whether the shell puts nothing in.
    is_literal: bool,
    is_quoted: bool,
}

/// Options of `env`, `timeout` and `xargs` whose next word is their value.
const OPTIONS_WITH_VALUES: [&str; 11] = ["-C", "-E", "-I", "-L", "-P", "-a", "-d", "-k", "-n", "-s", "-u"];

/// Options of `git` whose next word is their value.
const GIT_OPTIONS_WITH_VALUES: [&str; 6] = [
    "--exec-path",
    "--git-dir",
    "--namespace",
    "--work-tree",
    "-C",
    "-c",
];

/// What the next word is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Command,
    Argument,
    /// Behind a program that starts what its words say: its own options and values, then the command.
    Started,
    /// The value of such an option.
    Value,
    /// Behind `git`: its own options, then its command.
    Git,
    /// The value of such an option.
    GitValue,
    /// Behind the command of git.
    GitWord,
    /// What follows `for`, `case` or `function`.
    Name(Of),
    /// A pattern of `case`.
    Pattern,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Loop,
    Case,
    Function,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Up to the bracket that closes it, or to the end.
    fn list(&mut self) {
        let mut expected = Expected::Command;
        let mut cases = 0_usize;
        loop {
            match self.peek() {
                Some(')') if expected == Expected::Pattern => {
                    self.take();
                    expected = Expected::Command;
                }
                None | Some(')') => return,
                Some('\n') => {
                    self.take();
                    self.skip_bodies();
                    expected = after_line(expected);
                }
                Some(' ' | '\t' | '\r') => drop(self.take()),
                Some('#') => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = self.rest.get(end..).unwrap_or_default();
                }
                Some('\\') if self.rest.starts_with("\\\n") => drop((self.take(), self.take())),
                Some(';') => {
                    let ends_case = self.eat(";;&") || self.eat(";;") || self.eat(";&");
                    if !ends_case {
                        self.take();
                    }
                    expected = if ends_case && cases > 0 {
                        Expected::Pattern
                    } else {
                        Expected::Command
                    };
                }
                Some('|') if expected == Expected::Pattern => drop(self.take()),
                Some('&') if self.rest.starts_with("&>") => {
                    self.take();
                    self.redirection();
                }
                Some('&' | '|') => {
                    self.take();
                    expected = Expected::Command;
                }
                Some('(') if self.rest.starts_with("((") => self.arithmetic(),
                Some('(') if expected == Expected::Pattern => drop(self.take()),
                Some('(') => {
                    self.take();
                    self.inner_list();
                    expected = Expected::Argument;
                }
                Some('<' | '>') => self.redirection(),
                Some(_) => expected = self.next_word(expected, &mut cases),
            }
        }
    }

    fn next_word(&mut self, expected: Expected, cases: &mut usize) -> Expected {
        let word = self.word();
        match expected {
            Expected::Argument => {
                // An array of `declare`, or a pattern like `!(a|b)`.
                if is_assignment(&word.text) || word.text.ends_with(['?', '*', '+', '@', '!']) {
                    self.skip_array();
                }
                Expected::Argument
            }
            Expected::Name(Of::Loop) => Expected::Argument,
            Expected::Pattern if word.text == "esac" && !word.is_quoted => {
                *cases = cases.saturating_sub(1);
                Expected::Argument
            }
            Expected::Pattern => Expected::Pattern,
            Expected::Name(Of::Function) => {
                self.functions.insert(word.text);
                self.eat("()");
                Expected::Command
            }
            Expected::Name(Of::Case) if word.text == "in" && !word.is_quoted => {
                *cases += 1;
                Expected::Pattern
            }
            Expected::Name(Of::Case) => Expected::Name(Of::Case),
            Expected::Command => self.command_word(word, cases),
            Expected::Value => Expected::Started,
            Expected::GitValue => Expected::Git,
            Expected::Git if GIT_OPTIONS_WITH_VALUES.contains(&word.text.as_str()) => Expected::GitValue,
            Expected::Git if word.text.starts_with('-') => Expected::Git,
            Expected::Git => {
                let command = if word.is_literal { word.text } else { String::new() };
                self.found.of_git.push((command, String::new()));
                Expected::GitWord
            }
            Expected::GitWord => {
                if let Some((_, behind)) = self.found.of_git.last_mut() {
                    // What is not seen is no word that is known.
                    *behind = if word.is_literal && !word.text.is_empty() {
                        word.text
                    } else {
                        "?".to_owned()
                    };
                }
                Expected::Argument
            }
            Expected::Started if OPTIONS_WITH_VALUES.contains(&word.text.as_str()) => Expected::Value,
            Expected::Started if is_of_starter(&word) => Expected::Started,
            Expected::Started => {
                if word.is_literal {
                    let is_starter = STARTERS.contains(&word.text.as_str());
                    let is_git = is_git(&word.text);
                    self.found.started.insert(word.text);
                    if is_starter {
                        return Expected::Started;
                    }
                    if is_git {
                        return Expected::Git;
                    }
                }
                Expected::Argument
            }
        }
    }

    fn command_word(&mut self, word: Word, cases: &mut usize) -> Expected {
        // The number of a descriptor, or the variable that gets one.
        let is_number = word.text.chars().all(|character| character.is_ascii_digit())
            || (word.text.starts_with('{') && word.text.ends_with('}') && word.text.len() > 2);
        if is_number && matches!(self.peek(), Some('<' | '>')) {
            return Expected::Command;
        }
        if word.is_quoted || !word.is_literal {
            if is_assignment(&word.text) {
                self.skip_array();
                return Expected::Command;
            }
            if word.is_literal {
                self.found.commands.insert(word.text);
            }
            return Expected::Argument;
        }
        match word.text.as_str() {
            "if" | "then" | "else" | "elif" | "do" | "while" | "until" | "!" | "{" | "time" | "command"
            | "exec" | "builtin" | "coproc" => Expected::Command,
            "fi" | "done" | "}" => Expected::Argument,
            "esac" => {
                *cases = cases.saturating_sub(1);
                Expected::Argument
            }
            "for" | "select" => Expected::Name(Of::Loop),
            "case" => Expected::Name(Of::Case),
            "function" => Expected::Name(Of::Function),
            "[[" => {
                self.condition();
                Expected::Argument
            }
            text if is_assignment(text) => {
                self.skip_array();
                Expected::Command
            }
            // An option of `exec` or `command`, or nothing.
            text if text.is_empty() || text.starts_with('-') => Expected::Command,
            text => {
                let is_function = self.rest.trim_start_matches([' ', '\t']).starts_with("()");
                if is_function {
                    self.functions.insert(text.to_owned());
                    self.rest = self.rest.trim_start_matches([' ', '\t']);
                    self.eat("()");
                    return Expected::Command;
                }
                let is_starter = STARTERS.contains(&text);
                let is_git = is_git(text);
                self.found.commands.insert(word.text);
                if is_starter {
                    Expected::Started
                } else if is_git {
                    Expected::Git
                } else {
                    Expected::Argument
                }
            }
        }
    }

    /// The elements of `name=(…)`.
    fn skip_array(&mut self) {
        if !self.eat("(") {
            return;
        }
        loop {
            match self.peek() {
                None => return,
                Some(')') => {
                    self.take();
                    return;
                }
                Some(' ' | '\t' | '\r' | '\n' | '(' | '<' | '>' | '|' | '&' | ';') => drop(self.take()),
                Some(_) => drop(self.word()),
            }
        }
    }

    /// Behind `[[`, up to and with `]]`.
    fn condition(&mut self) {
        loop {
            match self.peek() {
                None => return,
                Some(' ' | '\t' | '\r' | '\n' | '(' | ')' | '<' | '>' | '|' | '&' | ';') => drop(self.take()),
                Some(_) => {
                    if self.word().text == "]]" {
                        return;
                    }
                }
            }
        }
    }

    /// Behind an opening bracket, up to and with the one that closes it.
    fn inner_list(&mut self) {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.rest = "";
        } else {
            self.list();
        }
        self.depth -= 1;
        self.eat(")");
    }

    /// At `((`, up to and with `))`.
    fn arithmetic(&mut self) {
        let mut open = 0_usize;
        while let Some(character) = self.peek() {
            match character {
                '(' => open += 1,
                ')' => open = open.saturating_sub(1),
                '$' if self.rest.starts_with("$(") && !self.rest.starts_with("$((") => {
                    self.rest = self.rest.get(2..).unwrap_or_default();
                    self.inner_list();
                    continue;
                }
                _ => {}
            }
            self.take();
            if open == 0 {
                return;
            }
        }
    }

    fn redirection(&mut self) {
        if self.eat("<<<") {
        } else if self.rest.starts_with("<<") {
            let strips = self.rest.starts_with("<<-");
            self.rest = self.rest.get(if strips { 3 } else { 2 }..).unwrap_or_default();
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            let delimiter = self.word();
            self.bodies.push((delimiter.text, strips));
            return;
        } else if self.eat("<(") || self.eat(">(") {
            self.inner_list();
            return;
        } else {
            while matches!(self.peek(), Some('<' | '>' | '&' | '|')) {
                self.take();
            }
        }
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        if self.rest.starts_with("<(") || self.rest.starts_with(">(") {
            self.redirection();
        } else if !matches!(self.peek(), None | Some('\n' | ';' | ')' | '|' | '&')) {
            self.word();
        }
    }

    fn skip_bodies(&mut self) {
        for (delimiter, strips) in std::mem::take(&mut self.bodies) {
            while !self.rest.is_empty() {
                let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
                self.rest = rest;
                let line = if strips {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                if line == delimiter {
                    break;
                }
            }
        }
    }

    /// The word that begins here. Takes at least one character, unless nothing is left.
    fn word(&mut self) -> Word {
        let mut word = Word {
            text: String::new(),
            is_literal: true,
            is_quoted: false,
        };
        let before = self.rest.len();
        while let Some(character) = self.peek() {
            match character {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\'' => {
                    self.take();
                    word.is_quoted = true;
                    let end = self.rest.find('\'').unwrap_or(self.rest.len());
                    word.text.push_str(self.rest.get(..end).unwrap_or_default());
                    self.rest = self.rest.get(end..).unwrap_or_default();
                    self.take();
                }
                '"' => {
                    self.take();
                    word.is_quoted = true;
                    self.double_quoted(&mut word);
                }
                '\\' => {
                    self.take();
                    match self.take() {
                        Some('\n') | None => {}
                        Some(escaped) => {
                            word.is_quoted = true;
                            word.text.push(escaped);
                        }
                    }
                }
                '$' | '`' => self.expansion(&mut word),
                '*' | '?' | '~' => {
                    word.is_literal &= character == '~';
                    word.text.push(character);
                    self.take();
                }
                other => {
                    word.text.push(other);
                    self.take();
                }
            }
        }
        if self.rest.len() == before {
            self.take();
            word.is_literal = false;
        }
        if self.found.deciding.is_none() && deciding(&word.text).is_some() {
            self.found.deciding = Some(word.text.clone());
        }
        word
    }

    fn double_quoted(&mut self, word: &mut Word) {
        while let Some(character) = self.peek() {
            match character {
                '"' => {
                    self.take();
                    return;
                }
                '\\' => {
                    self.take();
                    word.text.extend(self.take());
                }
                '$' | '`' => self.expansion(word),
                other => {
                    word.text.push(other);
                    self.take();
                }
            }
        }
    }

    /// At `$` or a backtick.
    fn expansion(&mut self, word: &mut Word) {
        word.is_literal = false;
        if self.rest.starts_with("$((") {
            self.take();
            self.arithmetic();
        } else if self.eat("$(") {
            self.inner_list();
        } else if self.eat("${") {
            self.parameter();
        } else if self.eat("$'") {
            self.ansi_quoted();
        } else if self.eat("`") {
            let end = self.rest.find('`').unwrap_or(self.rest.len());
            let inner = self.rest.get(..end).unwrap_or_default();
            if self.depth < MAX_DEPTH {
                let mut scanner = Scanner {
                    rest: inner,
                    bodies: Vec::new(),
                    found: FirstWords::default(),
                    functions: BTreeSet::new(),
                    depth: self.depth + 1,
                };
                scanner.list();
                self.found.commands.append(&mut scanner.found.commands);
                self.found.started.append(&mut scanner.found.started);
                self.found.of_git.append(&mut scanner.found.of_git);
            }
            self.rest = self.rest.get(end..).unwrap_or_default();
            self.take();
        } else {
            self.take();
            // `$#`, `$(` apart: what follows may look like something else.
            if matches!(self.peek(), Some('#' | '?' | '!' | '$' | '@' | '*' | '-')) {
                self.take();
            }
        }
    }

    /// Behind `${`, up to and with the brace that closes it.
    fn parameter(&mut self) {
        let mut ignored = Word {
            text: String::new(),
            is_literal: false,
            is_quoted: false,
        };
        while let Some(character) = self.peek() {
            match character {
                '}' => {
                    self.take();
                    return;
                }
                '\\' => drop((self.take(), self.take())),
                '\'' => {
                    self.take();
                    if let Some(end) = self.rest.find('\'') {
                        self.rest = self.rest.get(end + 1..).unwrap_or_default();
                    }
                }
                '"' => {
                    self.take();
                    self.double_quoted(&mut ignored);
                }
                '$' | '`' => self.expansion(&mut ignored),
                _ => drop(self.take()),
            }
        }
    }

    fn ansi_quoted(&mut self) {
        while let Some(character) = self.take() {
            match character {
                '\\' => drop(self.take()),
                '\'' => return,
                _ => {}
            }
        }
    }
}

fn is_git(word: &str) -> bool {
    word == "git" || word.ends_with("/git")
}

const fn after_line(expected: Expected) -> Expected {
    match expected {
        Expected::Pattern | Expected::Name(Of::Case) => expected,
        Expected::Command
        | Expected::Argument
        | Expected::Started
        | Expected::Value
        | Expected::Git
        | Expected::GitValue
        | Expected::GitWord
        | Expected::Name(Of::Loop | Of::Function) => Expected::Command,
    }
}

/// Whether a word is one of a starter's own: an option, a number or a time, a value in quotes, a variable, what `xargs` replaces.
fn is_of_starter(word: &Word) -> bool {
    let digits = word.text.trim_start_matches(['+', '-']);
    digits.starts_with(|first: char| first.is_ascii_digit())
        || word.text.is_empty()
        || word.is_quoted
        || word.text.starts_with('-')
        || word.text == "{}"
        || is_assignment(&word.text)
}

fn is_assignment(text: &str) -> bool {
    let Some((name, _)) = text.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .chars()
            .all(|character| character == '_' || character.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::{FirstWords, of};

    #[test]
    fn words_where_a_command_begins_are_seen() {
        for (text, expected) in [
            ("for f in *.c; do wc -l \"$f\"; done | sort", &["sort", "wc"][..]),
            (
                "if grep -q x f; then echo a; elif test -f b; then cat b; else ls; fi",
                &["cat", "echo", "grep", "ls", "test"],
            ),
            (
                "n=$(wc -l < f) && echo \"$n $(head -1 f)\"",
                &["echo", "head", "wc"],
            ),
            (
                "cat <<EOF | wc -c\nrm -rf /\n$(id)\nEOF\nsort f",
                &["cat", "sort", "wc"],
            ),
            ("cat <<-'EOF'\n\ttouch m\n\tEOF\nls", &["cat", "ls"]),
            (
                "case $x in a|b) cat f;; (c) ls ;; *) echo no; esac; touch m",
                &["cat", "echo", "ls", "touch"],
            ),
            (
                "count() { wc -l \"$1\"; }; count f; function other { ls; }; other",
                &["ls", "wc"],
            ),
            (
                "while read -r l; do printf '%s\\n' \"$l\"; done < f > out 2>&1",
                &["printf", "read"],
            ),
            ("[[ $a == b* && -n $(id) ]] && touch m", &["id", "touch"]),
            (
                "declare -a l=(1 2 $(id)); ls !(data|docs); coproc cat f",
                &["cat", "declare", "id", "ls"],
            ),
            (
                "(( i++ < 3 )) || cat f; echo $(( $(wc -l < f) + 1 ))",
                &["cat", "echo", "wc"],
            ),
            (
                "A=1 B=\"$C\" env; a=(x y \"$(id -u)\") ; ls \"${a[@]}\"",
                &["env", "id", "ls"],
            ),
            ("diff <(sort a) <(sort b) # touch", &["diff", "sort"]),
            (
                "{ cat a; ls; } > o; (cd x && tar c .) & wait",
                &["cat", "cd", "ls", "tar", "wait"],
            ),
            (
                "! grep x f; time sort f; exec -a n touch m",
                &["grep", "n", "sort"],
            ),
            ("x=`touch m`; $cmd a; \"$x\" b; ${y:-touch} c", &["touch"]),
            ("echo 'a; rm' \"b; rm\" c\\;rm $'d\\'; rm'", &["echo"]),
            ("cat a \\\n  b; ls &> o; ls >& o; ls >| o", &["cat", "ls"]),
            ("echo ${#a} ${a%)} ${a:-'}'} $# ; ls", &["echo", "ls"]),
            ("for ((i=0;i<3;i++)); do echo $i; done", &["echo"]),
            ("'touch' m; to\"uch\" m", &["touch"]),
            (
                "timeout -k 1 5s grep x f | xargs -d '\\n' -I {} -n 2 touch {}; nice -n 5 env A=1 ls",
                &["env", "grep", "ls", "nice", "timeout", "touch", "xargs"],
            ),
            // What is quoted may be a value, and what follows it the command.
            (
                "ls | xargs; xargs | cat; nohup \"$x\" touch; nohup $x rm",
                &["cat", "ls", "nohup", "touch", "xargs"],
            ),
            ("exec 3<>f && ls >&3; 2> e cat f; exec {x}> o", &["cat", "ls"]),
        ] {
            let FirstWords {
                mut commands,
                started,
                of_git: _,
                deciding: _,
            } = of(text);
            commands.extend(started);
            let found: Vec<String> = commands.into_iter().collect();
            assert_eq!(found, expected, "{text}");
        }
        let FirstWords {
            commands,
            started,
            of_git: _,
            deciding: _,
        } = of("echo x | xargs echo; env -i test x; f() { ls; }; nice f");
        assert_eq!(
            commands.into_iter().collect::<Vec<_>>(),
            ["echo", "env", "ls", "nice", "xargs"]
        );
        assert_eq!(started.into_iter().collect::<Vec<_>>(), ["echo", "f", "test"]);
    }

    #[test]
    fn commands_of_git_are_seen() {
        for (text, expected) in [
            (
                "git log --oneline | head; git push",
                &[("log", "--oneline"), ("push", "")][..],
            ),
            (
                "git -C d -c a=b --no-pager show 'x y' && git branch -D x",
                &[("show", "x y"), ("branch", "-D")],
            ),
            (
                "echo \"$(git remote -v)\" `git tag`",
                &[("remote", "-v"), ("tag", "")],
            ),
            (
                "timeout 5 git fetch origin; ls | xargs /usr/bin/git add",
                &[("fetch", "origin"), ("add", "")],
            ),
            ("git \"$x\" y; git stash $y; git", &[("", "y"), ("stash", "?")]),
            (
                "for b in a b; do git checkout $b\ngit status\ndone",
                &[("checkout", "?"), ("status", "")],
            ),
        ] {
            let found = of(text).of_git;
            let found: Vec<_> = found
                .iter()
                .map(|(one, other)| (one.as_str(), other.as_str()))
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn any_text_comes_to_an_end() {
        for text in [
            ")))",
            "((",
            "$(",
            "${",
            "`",
            "'",
            "\"",
            "<<",
            "<<<",
            "<<EOF",
            "case",
            "case x in",
            "[[",
            "a=(",
            "\\",
            "$",
            "&>",
            "for",
            "function",
            "\u{301}(",
            "((((((((",
            "<(<(<(",
            "x\n\n)\n;;",
        ] {
            of(text);
            of(&text.repeat(500));
        }
    }
}
