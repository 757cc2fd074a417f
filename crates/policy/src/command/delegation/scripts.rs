//! The texts of sed and awk, as far as they can be read: a text that starts nothing and whose files are known. A file of code
//! is a script, as it is for any interpreter.

use crate::command::paths;

/// The files that a call of sed writes, if its scripts start nothing.
pub(super) fn sed(words: &[&str]) -> Option<Vec<String>> {
    let mut scripts = Vec::new();
    let mut has_file = false;
    let mut operands = Vec::new();
    // With what is put behind the name of the file as it was.
    let mut in_place = None;
    let mut are_operands = false;
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if are_operands || word == "-" || !word.starts_with('-') {
            operands.push(word);
        } else if word == "--" {
            are_operands = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long
                .split_once('=')
                .map_or((long, None), |(name, value)| (name, Some(value)));
            match name {
                "expression" => scripts.push(value.or_else(|| words.next())?),
                "file" => {
                    has_file = true;
                    value
                        .or_else(|| words.next())
                        .filter(|file| is_script_file(file))?;
                }
                "in-place" => in_place = Some(value.unwrap_or_default()),
                "line-length" => {
                    value.or_else(|| words.next())?;
                }
                "binary" | "quiet" | "silent" | "debug" | "follow-symlinks" | "null-data" | "posix"
                | "regexp-extended" | "sandbox" | "separate" | "unbuffered" | "help" | "version"
                | "zero-terminated" => {}
                _ => return None,
            }
        } else {
            let letters = word.get(1..)?;
            for (at, letter) in letters.char_indices() {
                let rest = letters.get(at + letter.len_utf8()..)?;
                match letter {
                    'n' | 'r' | 'E' | 's' | 'u' | 'z' | 'a' | 'b' => continue,
                    'i' => in_place = Some(rest),
                    'e' => scripts.push(if rest.is_empty() { words.next()? } else { rest }),
                    'f' => {
                        has_file = true;
                        let file = if rest.is_empty() { words.next()? } else { rest };
                        if !is_script_file(file) {
                            return None;
                        }
                    }
                    'l' => {
                        if rest.is_empty() {
                            words.next()?;
                        }
                    }
                    _ => return None,
                }
                break;
            }
        }
    }
    let mut files = operands.iter();
    if scripts.is_empty() && !has_file {
        let first = files.next();
        scripts.extend(first);
        // For some, an empty word behind `-i` is its value.
        if first.is_some_and(|script| script.is_empty()) {
            scripts.extend(files.next());
        }
    }
    let mut outputs = Vec::new();
    for script in scripts {
        outputs.extend(sed_script(script)?);
    }
    if let Some(suffix) = in_place {
        // With a star or a slash it is more than that.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
        if !suffix.bytes().all(is_plain) {
            return None;
        }
        for file in files {
            outputs.push((*file).to_owned());
            if !suffix.is_empty() {
                outputs.push(format!("{file}{suffix}"));
            }
        }
    }
    Some(outputs)
}

/// Whether code comes from a file, as for any interpreter, and not from somewhere else. It may start in any directory.
fn is_script_file(file: &str) -> bool {
    let path = paths::normalise(file);
    let is_number = paths::base_name(&path).bytes().all(|byte| byte.is_ascii_digit());
    !file.starts_with('-')
        && !is_number
        && !path
            .split('/')
            .any(|part| matches!(part, "dev" | "proc" | "fd" | "stdin"))
}

/// The files that a script of sed writes, if it is understood and starts nothing. In brackets a delimiter is a character
/// for some and the end for others: both readings have to be plain, or such that sed takes none of the script.
fn sed_script(script: &str) -> Option<Vec<String>> {
    let mut outputs = read_sed_script(script, true)?;
    if script.contains('[') {
        outputs.extend(read_sed_script(script, false)?);
        outputs.dedup();
    }
    Some(outputs)
}

/// Whether no sed knows a command or a flag of that name. Scripts are read to their end before any of it is done.
fn is_refused(character: char) -> bool {
    character.is_ascii_punctuation() && !"{}=:;#".contains(character)
}

fn read_sed_script(script: &str, has_brackets: bool) -> Option<Vec<String>> {
    let mut reader = Script {
        rest: script,
        has_brackets,
    };
    let mut outputs = Vec::new();
    loop {
        reader.skip(|c| c.is_whitespace() || c == ';');
        if reader.rest.is_empty() {
            return Some(outputs);
        }
        reader.addresses()?;
        let command = reader.next()?;
        match command {
            '{' => {}
            '}' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => {
                reader.end()?;
            }
            'l' | 'L' | 'q' | 'Q' => {
                reader.skip(|c| c == ' ' || c.is_ascii_digit());
                reader.end()?;
            }
            ':' | 'b' | 't' | 'T' => reader.label()?,
            // Text up to a line that does not end in a backslash.
            'a' | 'i' | 'c' => reader.text()?,
            // A comment, or the name of a file to read.
            '#' | 'r' | 'R' => {
                reader.line();
            }
            'w' => outputs.push(reader.line().trim().to_owned()),
            'y' => {
                let delimiter = reader.next()?;
                reader.part(delimiter)?;
                reader.part(delimiter)?;
                reader.end()?;
            }
            's' => {
                let delimiter = reader.next().filter(|c| *c != '\n' && *c != '\\')?;
                reader.pattern(delimiter)?;
                reader.part(delimiter)?;
                loop {
                    match reader.rest.chars().next() {
                        Some(flag)
                            if matches!(flag, 'g' | 'p' | 'i' | 'I' | 'm' | 'M') || flag.is_ascii_digit() =>
                        {
                            reader.next();
                        }
                        Some('w') => {
                            reader.next();
                            outputs.push(reader.line().trim().to_owned());
                            break;
                        }
                        Some(flag) if is_refused(flag) => return Some(outputs),
                        _ => {
                            reader.end()?;
                            break;
                        }
                    }
                }
            }
            refused if is_refused(refused) => return Some(outputs),
            // `e` starts what it is told, `W` and what is newer are unknown.
            _ => return None,
        }
    }
}

struct Script<'a> {
    rest: &'a str,
    /// Whether a delimiter in brackets is a character.
    has_brackets: bool,
}

impl<'a> Script<'a> {
    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next()?;
        self.rest = characters.as_str();
        Some(next)
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(is_skipped);
    }

    /// The rest of the line, without its end.
    fn line(&mut self) -> &'a str {
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        line
    }

    /// Lines, up to one that does not end in a backslash. A doubled one is read in two ways.
    fn text(&mut self) -> Option<()> {
        loop {
            let line = self.line();
            match line.len() - line.trim_end_matches('\\').len() {
                0 => return Some(()),
                1 if self.rest.is_empty() => return Some(()),
                1 => {}
                _ => return None,
            }
        }
    }

    /// A command ends with a blank, a semicolon, a bracket or the line; anything else was not understood.
    fn end(&mut self) -> Option<()> {
        self.skip(|c| c == ' ' || c == '\t');
        match self.rest.chars().next() {
            None | Some('\n' | ';' | '}' | '#') => Some(()),
            Some(_) => None,
        }
    }

    /// A label ends at a blank or a semicolon for some, and at the end of the line for others: behind it must be the end
    /// of the command.
    fn label(&mut self) -> Option<()> {
        self.skip(|c| c == ' ' || c == '\t');
        self.skip(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
        let glued = self.rest.split(|c: char| c.is_whitespace() || c == ';').next()?;
        if glued.chars().any(|c| c != '}') {
            return None;
        }
        self.end()
    }

    /// Up to the delimiter that no backslash stands before.
    fn part(&mut self, delimiter: char) -> Option<()> {
        loop {
            match self.next()? {
                '\\' => {
                    self.next()?;
                }
                found if found == delimiter => return Some(()),
                _ => {}
            }
        }
    }

    /// The same of a regular expression.
    fn pattern(&mut self, delimiter: char) -> Option<()> {
        loop {
            match self.next()? {
                '\\' => {
                    self.next()?;
                }
                found if found == delimiter => return Some(()),
                '[' if self.has_brackets => self.brackets()?,
                _ => {}
            }
        }
    }

    /// Up to the end of brackets. A backslash before it is one more reading.
    fn brackets(&mut self) -> Option<()> {
        self.rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        self.rest = self.rest.strip_prefix(']').unwrap_or(self.rest);
        loop {
            match self.next()? {
                ']' => return Some(()),
                '\\' if self.rest.starts_with(']') => return None,
                '[' => {
                    let kind = self.rest.chars().next().filter(|c| matches!(c, ':' | '.' | '='));
                    if let Some(kind) = kind {
                        self.rest = self.rest.split_once(&format!("{kind}]"))?.1;
                    }
                }
                _ => {}
            }
        }
    }

    fn addresses(&mut self) -> Option<()> {
        self.address()?;
        self.skip(|c| c == ' ');
        if self.rest.starts_with(',') {
            self.next();
            self.skip(|c| c == ' ');
            self.address()?;
        }
        self.skip(|c| c == ' ' || c == '!');
        Some(())
    }

    fn address(&mut self) -> Option<()> {
        let first = self.rest.chars().next();
        match first {
            Some('/') => {
                self.next();
                self.pattern('/')?;
                self.skip(|c| matches!(c, 'I' | 'M'));
            }
            Some('\\') => {
                self.next();
                let delimiter = self.next()?;
                self.pattern(delimiter)?;
                self.skip(|c| matches!(c, 'I' | 'M'));
            }
            Some('$') => {
                self.next();
            }
            Some(_) | None => self.skip(|c| c.is_ascii_digit() || matches!(c, '~' | '+')),
        }
        Some(())
    }
}

/// Whether a call of awk has a text that starts nothing, and writes to no file.
pub(super) fn is_plain_awk(words: &[&str]) -> bool {
    let mut words = words.iter().copied();
    let mut text = None;
    let mut has_file = false;
    while let Some(word) = words.next() {
        match word {
            "-f" | "--file" => {
                has_file = true;
                if !words.next().is_some_and(is_script_file) {
                    return false;
                }
            }
            "-F" | "-v" | "--field-separator" | "--assign" => {
                words.next();
            }
            "--" => {
                text = words.next();
                break;
            }
            "-P" | "-S" | "-n" | "--posix" | "--sandbox" | "--re-interval" | "--non-decimal-data"
            | "--csv" | "-k" | "--version" | "-V" => {}
            _ if word.starts_with("-F") || word.starts_with("-v") => {}
            _ if word.starts_with("--field-separator=") || word.starts_with("--assign=") => {}
            // A library, or something unknown.
            _ if word.starts_with('-') && word.len() > 1 => return false,
            _ => {
                text = Some(word);
                break;
            }
        }
    }
    has_file || text.is_none_or(is_plain_awk_text)
}

/// Pipes, `system`, files of code, calls by name and files to write are not in it.
fn is_plain_awk_text(text: &str) -> bool {
    let Some(code) = without_literals(text) else {
        return false;
    };
    !code.replace("||", "").contains('|')
        && !code.contains("system")
        && !code.contains('@')
        && !code.split([';', '\n', '}', '{']).any(prints_to_file)
}

/// Stands for the names of standard output and standard error, which no text has.
const STANDARD: char = '\u{1}';

/// Whether a statement prints into a file. In brackets the mark compares.
fn prints_to_file(statement: &str) -> bool {
    let Some((_, printed)) = statement.split_once("print") else {
        return false;
    };
    // What goes to the terminal is no file.
    let printed = printed
        .trim_end()
        .strip_suffix(STANDARD)
        .and_then(|printed| printed.trim_end().strip_suffix('>'))
        .unwrap_or(printed);
    let mut depth = 0_i32;
    printed.chars().any(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == '>' && depth <= 0
    })
}

/// The text with its strings, regular expressions and comments taken out, and its lines joined where a statement goes on;
/// `None` where it is not certain what a slash is.
fn without_literals(text: &str) -> Option<String> {
    let mut code = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            STANDARD => return None,
            '"' => {
                let before = characters.as_str();
                take_literal(&mut characters, '"')?;
                let is_standard = ["/dev/stderr\"", "/dev/stdout\""]
                    .iter()
                    .any(|name| before.strip_prefix(name) == Some(characters.as_str()));
                code.push(if is_standard { STANDARD } else { '"' });
            }
            '/' => match slash_after(&code) {
                Slash::Divides => code.push('/'),
                Slash::Begins => {
                    take_literal(&mut characters, '/')?;
                    code.push('"');
                }
                Slash::Unknown => return None,
            },
            '#' => {
                if characters.by_ref().any(|next| next == '\n') {
                    end_line(&mut code);
                }
            }
            '\n' => end_line(&mut code),
            character => code.push(character),
        }
    }
    Some(code)
}

/// A statement goes on behind these.
fn end_line(code: &mut String) {
    let before = code.trim_end();
    code.push(if before.ends_with([',', '&', '|', '\\', '?', ':']) {
        ' '
    } else {
        '\n'
    });
}

/// What a slash is.
enum Slash {
    Divides,
    Begins,
    Unknown,
}

fn slash_after(code: &str) -> Slash {
    let before = code.trim_end_matches([' ', '\t']);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = before.rsplit(|c| !is_word(c)).next().unwrap_or_default();
    match before.chars().next_back() {
        None | Some('(' | ',' | '~' | '!' | '&' | '|' | '{' | '}' | ';' | '\n' | '=' | '?' | ':') => {
            Slash::Begins
        }
        Some(']' | '"') => Slash::Divides,
        Some(')') if closes_value(before) => Slash::Divides,
        // Behind a word of the language an expression begins.
        Some(last) if is_word(last) && last.is_ascii() && !AWK_WORDS.contains(&word) => Slash::Divides,
        Some(_) => Slash::Unknown,
    }
}

const AWK_WORDS: &[&str] = &[
    "BEGIN",
    "BEGINFILE",
    "END",
    "ENDFILE",
    "break",
    "case",
    "continue",
    "default",
    "delete",
    "do",
    "else",
    "exit",
    "for",
    "func",
    "function",
    "getline",
    "if",
    "in",
    "length",
    "next",
    "nextfile",
    "print",
    "printf",
    "return",
    "switch",
    "while",
];

/// Whether brackets at the end hold a value, and not what `if`, `while` or `for` ask.
fn closes_value(code: &str) -> bool {
    let mut depth = 0_usize;
    for (at, character) in code.char_indices().rev() {
        match character {
            ')' => depth += 1,
            '(' if depth == 1 => {
                let before = code.get(..at).unwrap_or_default().trim_end();
                return !["if", "while", "for", "switch"]
                    .iter()
                    .any(|word| before.ends_with(word));
            }
            '(' => depth -= 1,
            _ => {}
        }
    }
    false
}

fn take_literal(characters: &mut std::str::Chars<'_>, end: char) -> Option<()> {
    loop {
        match characters.next()? {
            '\\' => {
                characters.next()?;
            }
            '\n' => return None,
            // There a slash ends an expression for some and not for others.
            '[' if end == '/' => take_brackets(characters)?,
            found if found == end => return Some(()),
            _ => {}
        }
    }
}

/// Brackets without a slash.
fn take_brackets(characters: &mut std::str::Chars<'_>) -> Option<()> {
    loop {
        match characters.next()? {
            '\\' => {
                characters.next()?;
            }
            '/' | '\n' => return None,
            ']' => return Some(()),
            _ => {}
        }
    }
}
