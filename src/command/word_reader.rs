//! Reads one word: quotes, escapes, and the refusal of everything a shell would expand (G3 to G6).

use super::{
    Code, Finding, SourceMap, Span,
    syntax::{Word, WordClass},
};

/// The text with a position. Positions are byte offsets and always on a character border.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    position: usize,
    map: &'a SourceMap,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str, map: &'a SourceMap) -> Self {
        Self {
            text,
            position: 0,
            map,
        }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn peek_after(&self, skip: usize) -> Option<char> {
        self.rest().chars().nth(skip)
    }

    pub(crate) fn starts_with(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        self.position += bytes;
    }

    pub(crate) fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.position += character.len_utf8();
        Some(character)
    }

    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        self.map.span(start, end)
    }

    pub(crate) fn fail<T>(
        &self,
        code: Code,
        rule: &'static str,
        start: usize,
        detail: &'static str,
    ) -> Result<T, Finding> {
        let end = self
            .text
            .get(start..)
            .and_then(|rest| rest.chars().next())
            .map_or(start, |first| start + first.len_utf8());
        Err(Finding::new(
            code,
            rule,
            self.span(start, end.max(self.position)),
            detail,
        ))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn source(&self, position: usize) -> u32 {
        self.map.source(position)
    }
}

/// Whether an unquoted character ends a word.
pub(crate) fn ends_word(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')'
    )
}

/// Reads the word at the cursor, which must stand on its first character.
///
/// # Errors
/// The first thing in it that is not literal.
pub(crate) fn read_word(cursor: &mut Cursor<'_>) -> Result<Word, Finding> {
    WordReader {
        start: cursor.position(),
        value: String::new(),
        map: SourceMap::default(),
        bare_prefix: 0,
        quoted: false,
        class: WordClass::Literal,
        brace_at: None,
        brace_lists: false,
        previous: None,
    }
    .read(cursor)
}

struct WordReader {
    start: usize,
    value: String,
    map: SourceMap,
    bare_prefix: usize,
    quoted: bool,
    class: WordClass,
    brace_at: Option<usize>,
    /// An unquoted `,` or `..`, which together with a brace expands.
    brace_lists: bool,
    /// The unquoted character just before, for `..`, `=~` and `:~`.
    previous: Option<char>,
}

impl WordReader {
    fn read(mut self, cursor: &mut Cursor<'_>) -> Result<Word, Finding> {
        while let Some(character) = cursor.peek() {
            match character {
                character if ends_word(character) => break,
                '\'' => self.single_quoted(cursor)?,
                '"' => self.double_quoted(cursor)?,
                '\\' => self.escaped(cursor)?,
                '$' => self.dollar(cursor)?,
                '`' => {
                    return cursor.fail(
                        Code::CommandSubstitution,
                        "G5",
                        cursor.position(),
                        "a backtick runs a command inside the command",
                    );
                }
                '*' | '?' | '[' => {
                    return cursor.fail(
                        Code::Glob,
                        "G6",
                        cursor.position(),
                        "an unquoted glob character stands for files that are not known here",
                    );
                }
                '~' => self.tilde(cursor)?,
                _ => self.bare(cursor, character),
            }
        }
        self.finish(cursor)
    }

    fn finish(self, cursor: &Cursor<'_>) -> Result<Word, Finding> {
        if let Some(brace) = self.brace_at.filter(|_| self.brace_lists) {
            return cursor.fail(
                Code::BraceExpansion,
                "G6",
                brace,
                "a shell would expand these braces",
            );
        }
        Ok(Word {
            span: cursor.span(self.start, cursor.position()),
            value: self.value,
            class: self.class,
            bare_prefix: self.bare_prefix,
            map: self.map,
        })
    }

    fn bare(&mut self, cursor: &mut Cursor<'_>, character: char) {
        match character {
            '{' | '}' => self.brace_at = self.brace_at.or_else(|| Some(cursor.position())),
            ',' => self.brace_lists = true,
            '.' if self.previous == Some('.') => self.brace_lists = true,
            _ => {}
        }
        self.push(cursor, character);
        self.previous = Some(character);
        if !self.quoted {
            self.bare_prefix = self.value.len();
        }
    }

    /// Takes the character at the cursor into the value.
    fn push(&mut self, cursor: &mut Cursor<'_>, character: char) {
        self.map.note(self.value.len(), cursor.source(cursor.position()));
        self.value.push(character);
        cursor.next();
    }

    fn begin_quote(&mut self) {
        self.quoted = true;
        self.previous = None;
    }

    fn single_quoted(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Finding> {
        let start = cursor.position();
        self.begin_quote();
        cursor.next();
        while let Some(character) = cursor.peek() {
            if character == '\'' {
                cursor.next();
                return Ok(());
            }
            self.push(cursor, character);
        }
        cursor.fail(
            Code::UnterminatedQuote,
            "G3",
            start,
            "the single quote is never closed",
        )
    }

    fn double_quoted(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Finding> {
        let start = cursor.position();
        self.begin_quote();
        cursor.next();
        while let Some(character) = cursor.peek() {
            match character {
                '"' => {
                    cursor.next();
                    return Ok(());
                }
                '`' => {
                    return cursor.fail(
                        Code::CommandSubstitution,
                        "G5",
                        cursor.position(),
                        "a backtick runs a command inside the command, in double quotes too",
                    );
                }
                '$' if !matches!(cursor.peek_after(1), Some(' ' | '\t' | '\n' | '"')) => {
                    return expansion(cursor);
                }
                '\\' => match cursor.peek_after(1) {
                    Some('\n') => {
                        return cursor.fail(
                            Code::LineContinuation,
                            "G4",
                            cursor.position(),
                            "a line continuation inside double quotes",
                        );
                    }
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => {
                        cursor.next();
                        self.push(cursor, escaped);
                    }
                    _ => self.push(cursor, character),
                },
                _ => self.push(cursor, character),
            }
        }
        cursor.fail(
            Code::UnterminatedQuote,
            "G3",
            start,
            "the double quote is never closed",
        )
    }

    fn escaped(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Finding> {
        let start = cursor.position();
        match cursor.peek_after(1) {
            None => cursor.fail(
                Code::TrailingBackslash,
                "G3",
                start,
                "nothing follows the backslash",
            ),
            Some('\n') => cursor.fail(
                Code::LineContinuation,
                "G4",
                start,
                "a line continuation inside a word",
            ),
            Some(character) => {
                self.begin_quote();
                cursor.next();
                self.push(cursor, character);
                Ok(())
            }
        }
    }

    fn dollar(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Finding> {
        match cursor.peek_after(1) {
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|') => {
                self.bare(cursor, '$');
                Ok(())
            }
            Some(_) => expansion(cursor),
        }
    }

    fn tilde(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Finding> {
        let at_start = cursor.position() == self.start;
        let after_separator = matches!(self.previous, Some('=' | ':'));
        let next = cursor.peek_after(1);
        let ends = next.is_none_or(ends_word);
        if at_start {
            if !ends && next != Some('/') {
                return cursor.fail(
                    Code::TildeUser,
                    "G6",
                    cursor.position(),
                    "only ~ and ~/ are understood",
                );
            }
            self.class = WordClass::HomeTilde;
        } else if after_separator {
            if next != Some('/') || self.class == WordClass::HomeTilde {
                return cursor.fail(
                    Code::TildeUser,
                    "G6",
                    cursor.position(),
                    "a tilde here may stand for a directory",
                );
            }
            self.class = WordClass::InnerTilde;
        }
        self.bare(cursor, '~');
        Ok(())
    }
}

fn expansion<T>(cursor: &Cursor<'_>) -> Result<T, Finding> {
    let start = cursor.position();
    match cursor.peek_after(1) {
        Some('(') => cursor.fail(
            Code::CommandSubstitution,
            "G5",
            start,
            "$( runs a command inside the command",
        ),
        Some('\'' | '"') => cursor.fail(
            Code::AnsiCQuote,
            "G5",
            start,
            "$' and $\" mean different things in different shells",
        ),
        _ => cursor.fail(
            Code::Expansion,
            "G5",
            start,
            "a shell would replace this by a value that is not known here",
        ),
    }
}
