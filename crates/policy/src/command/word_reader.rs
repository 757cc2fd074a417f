//! Reads one word: quotes, escapes, and the refusal of everything a shell would expand (G3 to G6).

use countersign_domain::{FileUse, Redirection};

use super::{
    Code, Finding, Rule, RuleSet, SourceMap, Span,
    braces::{self, Letter},
    syntax::{List, SubstitutedBy, Substitution, Word, WordClass},
    variables::{self, Variables},
};

#[cfg(test)]
thread_local! {
    /// How often this thread looked at a character, for tests of the work that is done.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The text with a position. Positions are byte offsets and always on a character border.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    position: usize,
    map: &'a SourceMap,
}

/// How the text of a here-document ends, and how it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HereDocument<'a> {
    delimiter: &'a str,
    /// `<<-`: without the tabs at the beginning of each line.
    strips_tabs: bool,
    /// Nothing in it is expanded.
    is_quoted: bool,
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
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        self.rest().chars().next()
    }

    pub(crate) fn peek_after(&self, skip: usize) -> Option<char> {
        self.rest().chars().nth(skip)
    }

    pub(crate) fn starts_with(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    /// Whether a word stands here that is exactly this, without quotes.
    pub(crate) fn at_word(&self, word: &str) -> bool {
        let behind = self.rest().strip_prefix(word);
        behind.is_some_and(|behind| behind.chars().next().is_none_or(ends_word))
    }

    /// The name of a variable that stands here.
    pub(crate) fn name(&self) -> Option<&'a str> {
        let rest = self.rest();
        let is_letter = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let end = rest.find(|character| !is_letter(character)).unwrap_or(rest.len());
        let name = rest.get(..end)?;
        let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        begins.then_some(name)
    }

    /// Whether `<`, `>` or `&>` stands here.
    pub(crate) fn at_redirection(&self) -> bool {
        matches!(self.peek(), Some('<' | '>')) || self.starts_with("&>")
    }

    /// The redirection from or to `/dev/null`, or between standard output and error, that stands here in one of its plain
    /// forms, and its length in bytes.
    pub(crate) fn redirection(&self) -> Option<(usize, Redirection)> {
        const FORMS: [(&str, Redirection); 11] = [
            ("</dev/null", Redirection::InputFromNull),
            ("0</dev/null", Redirection::InputFromNull),
            (">/dev/null", Redirection::OutputToNull),
            ("1>/dev/null", Redirection::OutputToNull),
            (">>/dev/null", Redirection::OutputToNull),
            ("1>>/dev/null", Redirection::OutputToNull),
            ("2>/dev/null", Redirection::ErrorsToNull),
            ("2>>/dev/null", Redirection::ErrorsToNull),
            ("2>&1", Redirection::ErrorsToOutput),
            (">&2", Redirection::OutputToErrors),
            ("1>&2", Redirection::OutputToErrors),
        ];
        let rest = self.rest();
        // Blanks may stand before the name of the file, and nowhere else.
        FORMS.into_iter().find_map(|(form, redirection)| {
            let length = match form.split_once('/') {
                None => rest.starts_with(form).then_some(form.len())?,
                Some((operator, name)) => {
                    let behind = rest.strip_prefix(operator)?;
                    let file = behind.trim_start_matches([' ', '\t']);
                    let _rest = file.strip_prefix('/')?.strip_prefix(name)?;
                    rest.len() - file.len() + name.len() + 1
                }
            };
            let next = rest.get(length..)?.chars().next();
            let ends = matches!(next, None | Some(' ' | '\t' | '\n' | ';' | '|' | '&' | ')'));
            ends.then_some((length, redirection))
        })
    }

    /// The operator of a redirection from or to a file that stands here, its length in bytes, what the file is used for, and
    /// whether errors go where the output does.
    pub(crate) fn file_operator(&self) -> Option<(usize, FileUse, bool)> {
        const FORMS: [(&str, FileUse, bool); 10] = [
            (">>", FileUse::OutputAppended, false),
            ("1>>", FileUse::OutputAppended, false),
            ("2>>", FileUse::ErrorsAppended, false),
            ("&>>", FileUse::OutputAppended, true),
            ("<", FileUse::Input, false),
            ("0<", FileUse::Input, false),
            (">", FileUse::Output, false),
            ("1>", FileUse::Output, false),
            ("2>", FileUse::Errors, false),
            ("&>", FileUse::Output, true),
        ];
        let rest = self.rest();
        FORMS.into_iter().find_map(|(form, used_as, takes_errors)| {
            let behind = rest.strip_prefix(form)?;
            // Each makes another operator of it, `!` in zsh alone.
            let is_longer = behind.starts_with(['<', '>', '&', '|', '(', '!']);
            (!is_longer).then_some((form.len(), used_as, takes_errors))
        })
    }

    /// Whether a blank, a newline, an operator, a parenthesis that closes or the end stands here.
    pub(crate) fn at_end_of_redirection(&self) -> bool {
        matches!(
            self.peek(),
            None | Some(' ' | '\t' | '\n' | ';' | '|' | '&' | ')')
        )
    }

    /// The delimiter of a here-document (`<<`) that stands here in one of its plain forms, with its length in bytes.
    pub(crate) fn here_document(&self) -> Option<(usize, HereDocument<'a>)> {
        let rest = self.rest();
        let behind = rest
            .strip_prefix("<<")
            .filter(|behind| !behind.starts_with('<'))?;
        let (strips_tabs, behind) = match behind.strip_prefix('-') {
            Some(behind) => (true, behind),
            None => (false, behind),
        };
        let word = behind.trim_start_matches([' ', '\t']);
        let quote = word.chars().next().filter(|quote| matches!(quote, '\'' | '"'));
        let is_escaped = word.starts_with('\\');
        let named = word.get(usize::from(quote.is_some() || is_escaped)..)?;
        let end = named
            .find(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
            .unwrap_or(named.len());
        let (delimiter, behind) = named.split_at_checked(end).filter(|_| end > 0)?;
        let behind = match quote {
            Some(quote) => behind.strip_prefix(quote)?,
            None => behind,
        };
        let ends = behind.starts_with([' ', '\t', '\n', ';', '|', '&']);
        let document = HereDocument {
            delimiter,
            strips_tabs,
            is_quoted: quote.is_some() || is_escaped,
        };
        ends.then_some((rest.len() - behind.len(), document))
    }

    /// Takes the text of a here-document, whose first line begins here, and the line that ends it, but not the newline
    /// behind that. `None` where it has no end, or a shell would expand something in it.
    pub(crate) fn take_document(&mut self, document: &HereDocument<'_>) -> Option<String> {
        let mut text = String::new();
        for line in self.rest().split_inclusive('\n') {
            let whole = line.strip_suffix('\n').unwrap_or(line);
            let kept = if document.strips_tabs {
                whole.trim_start_matches('\t')
            } else {
                whole
            };
            if kept == document.delimiter {
                self.advance(whole.len());
                return Some(text);
            }
            if !document.is_quoted && kept.contains(['$', '`', '\\']) {
                return None;
            }
            self.advance(line.len());
            text.push_str(kept);
            text.push('\n');
        }
        None
    }

    /// The text of a here-document that `cat` alone would print inside of `$(…)`, which begins here, without the newlines at
    /// its end, with the length of all of it. `None` for any other form.
    pub(crate) fn document_operand(&self) -> Option<(usize, String)> {
        let mut ahead = *self;
        let skip = |ahead: &mut Self, blanks: &[char]| {
            let rest = ahead.rest();
            let behind = rest.trim_start_matches(blanks);
            ahead.advance(rest.len() - behind.len());
            rest.len() > behind.len()
        };
        ahead.take("$(")?;
        skip(&mut ahead, &[' ', '\t']);
        ahead.take("cat")?;
        skip(&mut ahead, &[' ', '\t']).then_some(())?;
        let (length, document) = ahead.here_document()?;
        ahead.advance(length);
        skip(&mut ahead, &[' ', '\t']);
        ahead.take("\n")?;
        let text = ahead.take_document(&document)?;
        ahead.take("\n")?;
        skip(&mut ahead, &[' ', '\t', '\n']);
        ahead.take(")")?;
        Some((
            ahead.position - self.position,
            text.trim_end_matches('\n').to_owned(),
        ))
    }

    /// Goes behind a text that stands here.
    fn take(&mut self, text: &str) -> Option<()> {
        self.starts_with(text).then(|| self.advance(text.len()))
    }

    /// The name in `$NAME` or `${NAME}`, which begins here, with the length of all of it. `None` for any other form, and for what
    /// zsh reads otherwise: behind a name without braces, brackets are an index, and a colon begins what it makes of the value.
    pub(crate) fn variable(&self) -> Option<(usize, &'a str)> {
        let behind = self.rest().strip_prefix('$')?;
        let (named, is_braced) = match behind.strip_prefix('{') {
            Some(named) => (named, true),
            None => (behind, false),
        };
        let is_letter = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let end = named
            .find(|character| !is_letter(character))
            .unwrap_or(named.len());
        let (name, rest) = named.split_at_checked(end)?;
        let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let is_other = |rest: &str| {
            let modifies =
                |behind: &str| behind.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '&');
            rest.starts_with('[') || rest.strip_prefix(':').is_some_and(modifies)
        };
        if !begins || (is_braced && !rest.starts_with('}')) || (!is_braced && is_other(rest)) {
            return None;
        }
        let length = if is_braced { "${}".len() } else { "$".len() };
        Some((length + name.len(), name))
    }

    /// Whether a newline stands in the text since a position.
    pub(crate) fn has_newline_since(&self, start: usize) -> bool {
        let read = self.text.get(start..self.position);
        read.is_some_and(|read| read.contains('\n'))
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

/// What a word may have besides literal text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is read or not")]
pub(crate) struct Content {
    /// Patterns of file names (G14).
    pub(crate) patterns: bool,
    /// Here-documents (G17).
    pub(crate) documents: bool,
    /// What is known only when the command begins (G19).
    pub(crate) substitutions: bool,
    /// The same in the value of an assignment (G23).
    pub(crate) assigned: bool,
    /// `$!` where the two before are read (G24).
    pub(crate) background: bool,
    /// Lists and ranges in braces (G20).
    pub(crate) braces: bool,
    /// `[` as a word of its own (G21).
    pub(crate) tests: bool,
}

/// Reads the commands of `$(…)`, whose first character follows, up to the parenthesis that closes it, and goes behind that.
pub(crate) type ReadCommands<'r, 'a, 's> =
    dyn FnMut(&mut Cursor<'a>, &mut Variables<'s>) -> Result<List, Finding> + 'r;

/// Reads the word at the cursor, which must stand on its first character: one, or those that lists in braces make of it.
///
/// # Errors
/// The first thing in it that is not literal, and whose value is not known.
pub(crate) fn read_word<'a, 's>(
    rules: RuleSet,
    content: Content,
    variables: &mut Variables<'s>,
    cursor: &mut Cursor<'a>,
    commands: &mut ReadCommands<'_, 'a, 's>,
) -> Result<Vec<Word>, Finding> {
    WordReader {
        rules,
        content,
        variables,
        commands,
        substitutions: Vec::new(),
        patterns: Vec::new(),
        start: cursor.position(),
        value: String::new(),
        map: SourceMap::default(),
        bare_prefix: 0,
        quoted: false,
        is_expanded: false,
        class: WordClass::Literal,
        brace_at: None,
        brace_lists: false,
        bare: Vec::new(),
        previous: None,
    }
    .read(cursor)
}

struct WordReader<'v, 'r, 'a, 's> {
    rules: RuleSet,
    content: Content,
    variables: &'v mut Variables<'s>,
    commands: &'v mut ReadCommands<'r, 'a, 's>,
    substitutions: Vec<Substitution>,
    patterns: Vec<usize>,
    start: usize,
    value: String,
    map: SourceMap,
    bare_prefix: usize,
    quoted: bool,
    is_expanded: bool,
    class: WordClass,
    brace_at: Option<usize>,
    /// An unquoted `,` or `..`, which together with a brace expands.
    brace_lists: bool,
    /// Where unquoted characters stand in the value, if there may be lists in braces.
    bare: Vec<usize>,
    /// The unquoted character just before, for `..`, `=~` and `:~`.
    previous: Option<char>,
}

impl<'a> WordReader<'_, '_, 'a, '_> {
    fn read(mut self, cursor: &mut Cursor<'a>) -> Result<Vec<Word>, Finding> {
        while let Some(character) = cursor.peek() {
            match character {
                character if ends_word(character) && !self.is_switched_off(cursor) => break,
                '\'' | '"' | '\\' if !self.rules.on(Rule::G3) => self.bare(cursor, character),
                '\'' => self.single_quoted(cursor)?,
                '"' => self.double_quoted(cursor)?,
                '\\' => self.escaped(cursor)?,
                '$' => self.dollar(cursor)?,
                '`' if self.rules.on(Rule::G5) => {
                    return cursor.fail(
                        Code::CommandSubstitution,
                        "G5",
                        cursor.position(),
                        "a backtick runs a command inside the command",
                    );
                }
                '*' | '?' | '[' if self.content.patterns => {
                    self.patterns.push(self.value.len());
                    self.bare(cursor, character);
                }
                '[' if self.content.tests && self.is_bracket_alone(cursor) => self.bare(cursor, character),
                '*' | '?' | '[' if self.rules.on(Rule::G6) => {
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

    /// Whether the word is `[` and no more. Every shell knows that one in the place of the command, and reads no pattern in it.
    fn is_bracket_alone(&self, cursor: &Cursor<'_>) -> bool {
        self.start == cursor.position() && matches!(cursor.peek_after(1), Some(' ' | '\t'))
    }

    /// Whether an operator stands here that its rule no longer refuses, so that it is a letter like others.
    fn is_switched_off(&self, cursor: &Cursor<'_>) -> bool {
        let in_redirection =
            matches!(self.previous, Some('<' | '>')) && matches!(cursor.peek(), Some('&' | '|'));
        (!self.rules.on(Rule::G7) && (cursor.at_redirection() || in_redirection))
            || (!self.rules.on(Rule::G9) && matches!(cursor.peek(), Some('(' | ')')))
    }

    fn finish(mut self, cursor: &Cursor<'_>) -> Result<Vec<Word>, Finding> {
        let expands = |_: &usize| self.rules.holds(Rule::G6, self.brace_lists);
        if let Some(brace) = self.brace_at.filter(expands) {
            if let Some(words) = self.listed(cursor) {
                return Ok(words);
            }
            return cursor.fail(
                Code::BraceExpansion,
                "G6",
                brace,
                "a shell would expand these braces",
            );
        }
        let mut class = self.class;
        if !self.substitutions.is_empty() {
            if !self.rules.holds(Rule::G19, class == WordClass::Literal) {
                let detail = "a tilde beside something that is known only when the command begins";
                return cursor.fail(Code::Expansion, "G5", self.start, detail);
            }
            class = WordClass::Substituted;
        }
        Ok(vec![Word {
            span: cursor.span(self.start, cursor.position()),
            value: self.value,
            class,
            substitutions: self.substitutions,
            bare_prefix: self.bare_prefix,
            patterns: self.patterns,
            is_expanded: self.is_expanded,
            map: self.map,
        }])
    }

    /// The words that lists in braces make of this one (G20). Not of one in which something else stands for another text: bash takes
    /// braces apart before that.
    fn listed(&mut self, cursor: &Cursor<'_>) -> Option<Vec<Word>> {
        let is_bare = |at: usize| self.bare.binary_search(&at).is_ok();
        let mut tildes = self.value.match_indices('~').map(|(at, _)| at);
        let has_tilde = tildes.any(&is_bare);
        if !self
            .rules
            .holds(Rule::G20, self.content.braces && !self.is_expanded && !has_tilde)
        {
            return None;
        }
        let letters: Vec<Letter> = self
            .value
            .char_indices()
            .map(|(at, character)| Letter {
                character,
                is_bare: is_bare(at),
                source: self.map.source(at),
            })
            .collect();
        let span = cursor.span(self.start, cursor.position());
        let listed = braces::expand(&letters)?;
        let bytes = listed
            .iter()
            .flatten()
            .map(|letter| letter.character.len_utf8())
            .sum();
        if !self.variables.spend(bytes) {
            return None;
        }
        let words = listed.into_iter().map(|letters| {
            let mut word = Word::literal("", span);
            for letter in &letters {
                let at = word.value.len();
                word.map.note(at, letter.source);
                if letter.is_bare && matches!(letter.character, '*' | '?' | '[') {
                    word.patterns.push(at);
                }
                word.value.push(letter.character);
                if letter.is_bare && word.bare_prefix == at {
                    word.bare_prefix = word.value.len();
                }
            }
            word
        });
        Some(words.collect())
    }

    fn bare(&mut self, cursor: &mut Cursor<'a>, character: char) {
        match character {
            '{' | '}' => self.brace_at = self.brace_at.or_else(|| Some(cursor.position())),
            ',' => self.brace_lists = true,
            '.' if self.previous == Some('.') => self.brace_lists = true,
            _ => {}
        }
        if self.content.braces {
            self.bare.push(self.value.len());
        }
        self.push(cursor, character);
        self.previous = Some(character);
        if !self.quoted {
            self.bare_prefix = self.value.len();
        }
    }

    /// Takes the character at the cursor into the value.
    fn push(&mut self, cursor: &mut Cursor<'a>, character: char) {
        self.map.note(self.value.len(), cursor.source(cursor.position()));
        self.value.push(character);
        cursor.next();
    }

    fn begin_quote(&mut self) {
        self.quoted = true;
        self.previous = None;
    }

    fn single_quoted(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Finding> {
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

    fn double_quoted(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Finding> {
        let start = cursor.position();
        self.begin_quote();
        cursor.next();
        while let Some(character) = cursor.peek() {
            match character {
                '"' => {
                    cursor.next();
                    return Ok(());
                }
                '`' if self.rules.on(Rule::G5) => {
                    return cursor.fail(
                        Code::CommandSubstitution,
                        "G5",
                        cursor.position(),
                        "a backtick runs a command inside the command, in double quotes too",
                    );
                }
                '$' if self.expands(!matches!(cursor.peek_after(1), Some(' ' | '\t' | '\n' | '"'))) => {
                    if !self.put_in(cursor, true) && !self.substitute(cursor, true)? {
                        return expansion(cursor);
                    }
                }
                '\\' => match cursor.peek_after(1) {
                    Some('\n') if self.rules.on(Rule::G4) => {
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

    fn escaped(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Finding> {
        let start = cursor.position();
        match cursor.peek_after(1) {
            None => cursor.fail(
                Code::TrailingBackslash,
                "G3",
                start,
                "nothing follows the backslash",
            ),
            Some('\n') if self.rules.on(Rule::G4) => cursor.fail(
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

    fn dollar(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Finding> {
        let is_literal = matches!(
            cursor.peek_after(1),
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|')
        );
        if self.expands(!is_literal) {
            return if self.put_in(cursor, false) || self.substitute(cursor, false)? {
                Ok(())
            } else {
                expansion(cursor)
            };
        }
        self.bare(cursor, '$');
        Ok(())
    }

    /// Notes what stands at the cursor, where that is something that is known when the command begins. It is read as it is written.
    fn substitute(&mut self, cursor: &mut Cursor<'a>, is_quoted: bool) -> Result<bool, Finding> {
        let is_value = self.content.assigned && self.is_assigned();
        let start = *cursor;
        // Outside of quotes a shell takes what is printed apart, but not in an assignment. Numbers are one word there, too.
        let is_one = self.rules.holds(Rule::G19, is_quoted || is_value);
        let variable = cursor.variable().filter(|_| is_one);
        let by = if let Some((length, name)) = variable.filter(|(_, name)| self.variables.take_later(name)) {
            cursor.advance(length);
            SubstitutedBy::Variable(name.to_owned())
        } else if !self.content.substitutions && !is_value {
            return Ok(false);
        } else if cursor.starts_with("$?") {
            cursor.advance("$?".len());
            SubstitutedBy::Status
        } else if cursor.starts_with("$!") && self.rules.holds(Rule::G24, self.content.background) {
            cursor.advance("$!".len());
            SubstitutedBy::Background
        } else if is_one && cursor.starts_with("$(") && !cursor.starts_with("$((") {
            cursor.advance("$(".len());
            SubstitutedBy::Output((self.commands)(cursor, self.variables)?)
        } else {
            return Ok(false);
        };
        let begins = self.value.len();
        let written = start
            .text
            .get(start.position..cursor.position)
            .unwrap_or_default();
        for (at, _) in written.char_indices() {
            self.map.note(begins + at, start.source(start.position + at));
        }
        self.value.push_str(written);
        let place = begins..self.value.len();
        self.substitutions.push(Substitution { place, by });
        self.begin_quote();
        self.is_expanded = true;
        Ok(true)
    }

    /// Whether what follows is a part of the value of an assignment.
    fn is_assigned(&self) -> bool {
        let bare = if self.quoted {
            self.bare_prefix
        } else {
            self.value.len()
        };
        let name = self.value.get(..bare).and_then(|bare| bare.split_once('='));
        name.is_some_and(|(name, _)| {
            name.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
                && name
                    .chars()
                    .all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
        })
    }

    /// Puts in what stands for the expansion at the cursor, where that is known.
    fn put_in(&mut self, cursor: &mut Cursor<'_>, is_quoted: bool) -> bool {
        // Outside of quotes a shell takes the value apart.
        let reads_documents = self.content.documents && self.rules.holds(Rule::G17, is_quoted);
        let document = reads_documents.then(|| cursor.document_operand()).flatten();
        let found = match document {
            Some(found) => Some(found),
            None => cursor.variable().and_then(|(length, name)| {
                let value = self.variables.take(name)?;
                let is_whole = is_quoted || variables::is_one_word(&value);
                self.rules.holds(Rule::G18, is_whole).then_some((length, value))
            }),
        };
        let Some((length, value)) = found else {
            return false;
        };
        let source = cursor.source(cursor.position());
        // All of it comes from where the expansion begins.
        for at in 0..value.len() {
            self.map.note(self.value.len() + at, source);
        }
        self.value.push_str(&value);
        cursor.advance(length);
        self.begin_quote();
        self.is_expanded = true;
        true
    }

    fn expands(&self, starts_expansion: bool) -> bool {
        self.rules.holds(Rule::G5, starts_expansion)
    }

    fn tilde(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Finding> {
        let at_start = cursor.position() == self.start;
        let after_separator = matches!(self.previous, Some('=' | ':'));
        let next = cursor.peek_after(1);
        let names_directory = if at_start {
            !next.is_none_or(ends_word) && next != Some('/')
        } else {
            after_separator && next != Some('/')
        };
        if self.rules.holds(Rule::G6, names_directory) {
            return cursor.fail(
                Code::TildeUser,
                "G6",
                cursor.position(),
                "only ~ and ~/ are understood",
            );
        }
        if at_start {
            self.class = WordClass::HomeTilde;
        } else if after_separator && self.rules.on(Rule::G6) {
            self.class = if self.class.is_below_home() {
                WordClass::BothTildes
            } else {
                WordClass::InnerTilde
            };
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
