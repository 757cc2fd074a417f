//! Text to [`List`]: one linear pass, no recovery (G1 to G10).

use countersign_domain::Redirection;

use super::{
    Code, Finding, Rule, RuleSet, SourceMap, Span,
    characters::is_forbidden,
    syntax::{
        Assignment, Compound, Condition, Does, Grammar, Item, Join, List, Part, ReadRedirection, Segment,
        Setting, SubstitutedBy, Substitution, Word, WordClass,
    },
    variables::{Surroundings, Variables},
    word_reader::{Content, Cursor, HereDocument, ends_word, read_word},
};

/// Lists inside of lists deeper than this are not read (G19, G21).
const MAX_DEPTH: u8 = 4;
/// A loop over more words than this is not read (G21).
const MAX_TURNS: usize = 64;

/// Text longer than this is never auto-allowed (G10).
pub(crate) const MAX_ANALYSED_BYTES: usize = 8_192;
/// Text longer than this is a bad request (G10).
pub const MAX_REQUEST_BYTES: usize = 262_144;
/// More segments than this, those of payloads counted, are never auto-allowed (G10).
pub(crate) const MAX_SEGMENTS: usize = 64;

/// Whether text is a bad request, which is not even asked (G10): NUL, or far too long.
pub fn rejection(text: &str) -> Option<Finding> {
    rejection_under(RuleSet::ALL, text)
}

pub(crate) fn rejection_under(rules: RuleSet, text: &str) -> Option<Finding> {
    if !rules.on(Rule::G10) {
        return None;
    }
    let map = SourceMap::identity();
    if let Some(nul) = text.find('\0') {
        return Some(Finding::new(
            Code::Nul,
            "G10",
            map.span(nul, nul + 1),
            "a command cannot hold a NUL byte",
        ));
    }
    (text.len() > MAX_REQUEST_BYTES).then(|| {
        Finding::new(
            Code::TooLong,
            "G10",
            map.span(0, text.len()),
            format!(
                "{} bytes; the limit of a request is {MAX_REQUEST_BYTES}",
                text.len()
            ),
        )
    })
}

/// Parses a whole command.
///
/// # Errors
/// The first thing that is outside the accepted grammar.
pub fn parse(text: &str) -> Result<List, Finding> {
    parse_mapped(text, &SourceMap::identity())
}

/// Parses a text whose bytes come from elsewhere in the source, as the payload of a shell does.
///
/// # Errors
/// As [`parse`], with spans of the source.
pub(crate) fn parse_mapped(text: &str, map: &SourceMap) -> Result<List, Finding> {
    parse_under(RuleSet::ALL, Grammar::default(), Surroundings::NONE, text, map)
}

/// Parses what a grammar has besides the plain one, under a set of rules.
pub(crate) fn parse_under(
    rules: RuleSet,
    grammar: Grammar,
    surroundings: Surroundings<'_>,
    text: &str,
    map: &SourceMap,
) -> Result<List, Finding> {
    if let Some(finding) = rejection_under(rules, text) {
        return Err(finding);
    }
    if rules.holds(Rule::G10, text.len() > MAX_ANALYSED_BYTES) {
        let detail = format!("{} bytes; at most {MAX_ANALYSED_BYTES} are analysed", text.len());
        return Err(Finding::new(
            Code::TooLong,
            "G10",
            map.span(0, text.len()),
            detail,
        ));
    }
    if let Some((at, character)) = text
        .char_indices()
        .find(|(_, character)| rules.holds(Rule::G10, is_forbidden(*character)))
    {
        let detail = format!(
            "the character U+{:04X} is not accepted, quoted or not",
            u32::from(character)
        );
        let span = map.span(at, at + character.len_utf8());
        return Err(Finding::new(Code::ForbiddenCharacter, "G10", span, detail));
    }
    Parser {
        rules,
        grammar,
        cursor: Cursor::new(text, map),
        segments: 0,
        max_segments: MAX_SEGMENTS,
        awaited: Vec::new(),
        texts: Vec::new(),
        variables: Variables::new(grammar, surroundings),
        end: End::Text,
        room: MAX_DEPTH,
    }
    .list(text.len())
}

/// Parses a script of our own rendering, whose words may hold any character and be of any length; what
/// it renders was counted before.
pub(crate) fn parse_rendered(script: &str) -> Result<List, Finding> {
    // Words that were put in are literal there.
    let grammar = Grammar {
        document_operands: false,
        variables: false,
        ..Grammar::WIDEST
    };
    Parser {
        rules: RuleSet::ALL,
        grammar,
        cursor: Cursor::new(script, &SourceMap::identity()),
        segments: 0,
        max_segments: usize::MAX,
        awaited: Vec::new(),
        texts: Vec::new(),
        variables: Variables::new(grammar, Surroundings::OWN),
        end: End::Text,
        // What `&` follows stands in braces of its own there.
        room: 2 * MAX_DEPTH,
    }
    .list(script.len())
}

struct Parser<'a> {
    rules: RuleSet,
    grammar: Grammar,
    cursor: Cursor<'a>,
    segments: usize,
    max_segments: usize,
    /// The here-documents whose texts follow the line, and their places among the texts.
    awaited: Vec<(usize, HereDocument<'a>)>,
    /// What segments read in place of their input, in the order of the text; `None` for what is awaited.
    texts: Vec<Option<String>>,
    variables: Variables<'a>,
    /// What ends the list that is read.
    end: End,
    /// How many lists may still be inside of each other.
    room: u8,
}

/// What ends a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The end of the text.
    Text,
    /// `)`.
    Parenthesis,
    /// One of these words where a command would begin.
    Words(&'static [&'static str]),
}

/// What follows a segment.
enum After {
    End,
    Pipe,
    Join(Join),
    /// `&`.
    Background,
}

/// What follows a pipeline.
enum Next {
    End,
    Join(Join),
    /// `&`, which is about all since the last `;`.
    Background,
}

impl<'a> Parser<'a> {
    fn list(mut self, length: usize) -> Result<List, Finding> {
        let mut list = self.list_from(0, Some(length))?;
        self.put_texts_into(&mut list.items)?;
        if let Some(span) = names_background_too_early(&list, false)
            && !self.rules.holds(Rule::G24, false)
        {
            let detail = "$! where nothing may have begun in the background";
            return Err(Finding::new(Code::Expansion, "G24", span, detail));
        }
        Ok(list)
    }

    /// The list that begins at a place, and ends at the other or where the cursor comes to.
    fn list_from(&mut self, start: usize, end: Option<usize>) -> Result<List, Finding> {
        let mut items = Vec::new();
        let mut join = None;
        // Where the list that `&` would follow begins: its first item and its place.
        let mut chain = (0, self.cursor);
        self.skip_lines()?;
        // Only a sequence may end here: behind the other operators a missing segment was refused.
        while !self.at_end() {
            if matches!(join, None | Some(Join::Sequence)) {
                chain = (items.len(), self.cursor);
            }
            let is_negated = self.negation();
            let (pipeline, next) = self.pipeline()?;
            items.push(Item {
                join,
                is_negated,
                pipeline,
            });
            let next = match next {
                Next::End => None,
                Next::Join(join) => Some(join),
                Next::Background => {
                    let (first, from) = chain;
                    let behind = items.split_off(first);
                    items.push(self.put_behind(behind, &from)?);
                    Some(Join::Sequence)
                }
            };
            self.skip_lines()?;
            let dangles = matches!(next, Some(Join::And | Join::Or)) && self.at_end();
            if self.rules.holds(Rule::G1, dangles) {
                return self.dangling();
            }
            join = next;
            if let Some(join) = join {
                self.variables.join(join);
            }
        }
        if items.is_empty() {
            return self
                .cursor
                .fail(Code::EmptySegment, "G1", start, "there is no command");
        }
        Ok(List {
            span: self
                .cursor
                .span(start, end.unwrap_or_else(|| self.cursor.position())),
            items,
        })
    }

    /// What `&` makes of a list, which began at a place (G24).
    fn put_behind(&self, mut items: Vec<Item>, from: &Cursor<'a>) -> Result<Item, Finding> {
        let join = items.first_mut().and_then(|first| first.join.take());
        let span = self.cursor.span(from.position(), self.cursor.position());
        let list = List { span, items };
        // What it gives to variables ends with it.
        if list.segments().any(|segment| segment.is_setting) {
            let detail = "an assignment in the background";
            return self.cursor.fail(Code::Background, "G24", from.position(), detail);
        }
        let does = Does::Background(list);
        Ok(Item {
            join,
            is_negated: false,
            pipeline: vec![Part::Compound(Compound { span, does })],
        })
    }

    /// Whether the list ends here.
    fn at_end(&self) -> bool {
        self.cursor.peek().is_none()
            || match self.end {
                End::Text => false,
                End::Parenthesis => self.at_parenthesis(),
                End::Words(words) => words.iter().any(|word| self.cursor.at_word(word)),
            }
    }

    /// Whether the parenthesis stands here that ends the list.
    fn at_parenthesis(&self) -> bool {
        self.end == End::Parenthesis && self.cursor.peek() == Some(')')
    }

    /// Goes behind a `!` before a pipeline (G21).
    fn negation(&mut self) -> bool {
        let is_followed = matches!(self.cursor.peek_after(1), Some(' ' | '\t'));
        let is_negated = is_followed
            && self.cursor.at_word("!")
            && self.rules.holds(Rule::G21, self.grammar.compound_commands);
        if is_negated {
            self.cursor.advance(1);
            self.skip_blanks();
        }
        is_negated
    }

    fn pipeline(&mut self) -> Result<(Vec<Part>, Next), Finding> {
        let mut pipeline: Vec<Part> = Vec::new();
        loop {
            let start = self.cursor.position();
            let part = self.part()?;
            let segment = part.segment();
            // zsh hands to and takes from both, other shells do not.
            let changes = |descriptor| {
                let mut changed = segment.iter().flat_map(|segment| &segment.redirections);
                changed.any(|redirection| redirection.descriptor() == descriptor)
            };
            let reads_pipe =
                !pipeline.is_empty() && segment.is_some_and(|segment| has_commands(&segment.words));
            if reads_pipe && !self.rules.holds(Rule::G19, false) {
                let detail = "commands inside of one that reads from a pipe would read from it, too";
                return self.cursor.fail(Code::CommandSubstitution, "G19", start, detail);
            }
            let mut in_two_places = !pipeline.is_empty() && changes(0);
            let writes_elsewhere = changes(1);
            let is_setting = segment.is_some_and(|segment| segment.is_setting);
            pipeline.push(part);
            let after = self.operator()?;
            in_two_places |= matches!(after, After::Pipe) && writes_elsewhere;
            let is_piped = pipeline.len() > 1 || matches!(after, After::Pipe);
            if is_piped && is_setting {
                let detail = "an assignment in a pipeline";
                return self.cursor.fail(Code::AssignmentOnly, "G18", start, detail);
            }
            if self.rules.holds(Rule::G7, in_two_places) {
                let detail = "a redirection of what a pipe reads or writes";
                return self.cursor.fail(Code::Redirection, "G7", start, detail);
            }
            match after {
                After::Pipe => {
                    self.skip_lines()?;
                    if self.at_end() {
                        if !self.rules.on(Rule::G1) {
                            return Ok((pipeline, Next::End));
                        }
                        return self.dangling();
                    }
                }
                After::Join(join) => return Ok((pipeline, Next::Join(join))),
                After::Background => return Ok((pipeline, Next::Background)),
                After::End => return Ok((pipeline, Next::End)),
            }
        }
    }

    fn part(&mut self) -> Result<Part, Finding> {
        let start = self.cursor.position();
        let is_read = (self.at_compound() && self.rules.holds(Rule::G21, self.grammar.compound_commands))
            || (self.at_loop() && self.rules.holds(Rule::G22, self.grammar.loops))
            || (self.at_wait() && self.rules.holds(Rule::G24, self.grammar.background_commands));
        if !is_read {
            return self.segment().map(Part::Segment);
        }
        let does = self.compound(start)?;
        let span = self.cursor.span(start, self.cursor.position());
        self.skip_blanks();
        match self.cursor.peek() {
            None | Some('\n' | ';' | '|') => {}
            Some('&') if !self.cursor.at_redirection() => {}
            Some(')') if self.at_parenthesis() => {}
            Some(_) => {
                let detail = "only an operator may follow a compound command";
                return self
                    .cursor
                    .fail(Code::ReservedWord, "G21", self.cursor.position(), detail);
            }
        }
        Ok(Part::Compound(Compound { span, does }))
    }

    /// Whether a compound command begins here.
    fn at_compound(&self) -> bool {
        (self.cursor.starts_with("(") && !self.cursor.starts_with("(("))
            || ["{", "if", "for"].into_iter().any(|word| self.begins_with(word))
    }

    /// Whether a loop begins here that ends by itself (G22).
    fn at_loop(&self) -> bool {
        ["while", "until"].into_iter().any(|word| self.begins_with(word))
    }

    /// Whether `wait` stands here without any word behind it (G24).
    fn at_wait(&self) -> bool {
        let mut behind = self.cursor;
        if !behind.at_word("wait") {
            return false;
        }
        behind.advance("wait".len());
        while matches!(behind.peek(), Some(' ' | '\t')) {
            behind.advance(1);
        }
        matches!(behind.peek(), None | Some('\n' | ';' | '&' | ')')) && !behind.at_redirection()
    }

    fn begins_with(&self, word: &str) -> bool {
        let behind = self.cursor.peek_after(word.chars().count());
        self.cursor.at_word(word) && matches!(behind, Some(' ' | '\t' | '\n'))
    }

    /// Reads a compound command, whose first word stands here, and goes behind its last one.
    fn compound(&mut self, start: usize) -> Result<Does, Finding> {
        if self.cursor.starts_with("(") {
            self.cursor.advance(1);
            let mut inside = self.variables.inside();
            let list = self.inner(End::Parenthesis, &mut inside)?;
            if self.cursor.next() != Some(')') {
                let detail = "the parenthesis is never closed";
                return self.cursor.fail(Code::Subshell, "G21", start, detail);
            }
            // What it gives to variables ends with it.
            self.variables.spend_as(&inside);
            return Ok(Does::Apart(list));
        }
        if self.cursor.at_word("wait") {
            self.cursor.advance("wait".len());
            return Ok(Does::Wait);
        }
        let mut inside = self.variables.inside();
        let does = if self.cursor.at_word("while") {
            self.cursor.advance("while".len());
            self.while_true(&mut inside, start)?
        } else if self.cursor.at_word("until") {
            self.cursor.advance("until".len());
            let list = self.inner(End::Words(&["do"]), &mut inside)?;
            self.body(Condition::Until(list), &mut inside, start)?
        } else if self.cursor.at_word("{") {
            self.cursor.advance(1);
            let list = self.inner(End::Words(&["}"]), &mut inside)?;
            self.close("}", start)?;
            Does::All(list)
        } else if self.cursor.at_word("if") {
            self.cursor.advance("if".len());
            self.choice(&mut inside, start)?
        } else {
            self.cursor.advance("for".len());
            self.turns(&mut inside, start)?
        };
        self.variables.spend_as(&inside);
        self.variables.forget_changes_of(&inside);
        Ok(does)
    }

    /// What stands behind `if` or `elif`, up to and with `fi`.
    fn choice(&mut self, inside: &mut Variables<'a>, start: usize) -> Result<Does, Finding> {
        let condition = self.inner(End::Words(&["then"]), inside)?;
        self.close("then", start)?;
        let mut branch = inside.inside();
        let then = self.inner(End::Words(&["elif", "else", "fi"]), &mut branch)?;
        let mut other = inside.inside();
        other.spend_as(&branch);
        let otherwise = if self.cursor.at_word("elif") {
            let at = self.cursor.position();
            self.cursor.advance("elif".len());
            self.expect_depth()?;
            self.room -= 1;
            let does = self.choice(&mut other, start)?;
            self.room += 1;
            let span = self.cursor.span(at, self.cursor.position());
            Some(List {
                span,
                items: vec![Item {
                    join: None,
                    is_negated: false,
                    pipeline: vec![Part::Compound(Compound { span, does })],
                }],
            })
        } else {
            let has_other = self.cursor.at_word("else");
            let list = if has_other {
                self.cursor.advance("else".len());
                Some(self.inner(End::Words(&["fi"]), &mut other)?)
            } else {
                None
            };
            self.close("fi", start)?;
            list
        };
        inside.spend_as(&other);
        inside.forget_changes_of(&branch);
        inside.forget_changes_of(&other);
        Ok(Does::Choice {
            condition,
            then,
            otherwise,
        })
    }

    /// What stands behind `for`, up to and with `done`: the list once for each of the words, which are known.
    fn turns(&mut self, inside: &mut Variables<'a>, start: usize) -> Result<Does, Finding> {
        let not_read = |parser: &Self, detail| {
            let at = parser.cursor.position();
            parser.cursor.fail(Code::ReservedWord, "G21", at, detail)
        };
        self.skip_blanks();
        let name = self.cursor.name().filter(|name| inside.may_set(name));
        let Some(name) = name else {
            return not_read(self, "a loop over a variable that means something elsewhere");
        };
        self.cursor.advance(name.len());
        self.skip_blanks();
        if !self.cursor.at_word("in") || !self.awaited.is_empty() {
            return not_read(self, "a loop that does not name its words");
        }
        self.cursor.advance("in".len());
        self.skip_blanks();
        let mut values = Vec::new();
        while self.cursor.peek().is_some_and(|first| !ends_word(first)) {
            let content = Content {
                braces: self.grammar.braces,
                ..Content::default()
            };
            for word in self.words(content)? {
                if word.class != WordClass::Literal || means_program(&word) {
                    return not_read(self, "a loop over a word that is not known");
                }
                values.push(word.value);
            }
            self.skip_blanks();
        }
        if values.is_empty() || values.len() > MAX_TURNS {
            return not_read(self, "a loop over no words, or over more than 64");
        }
        match self.cursor.peek() {
            Some(';') => self.cursor.advance(1),
            Some('\n') => {}
            _ => return not_read(self, "a loop whose words do not end with their line"),
        }
        self.skip_lines()?;
        self.close("do", start)?;
        let body = self.cursor;
        let mut all: Option<List> = None;
        for value in values {
            self.cursor = body;
            inside.join(Join::Sequence);
            inside.set(name, &value);
            let mut list = self.inner(End::Words(&["done"]), inside)?;
            if !inside.spend(self.cursor.position() - body.position()) {
                return not_read(self, "a loop whose turns have too many bytes");
            }
            self.close("done", start)?;
            match &mut all {
                None => all = Some(list),
                Some(all) => {
                    if let Some(first) = list.items.first_mut() {
                        first.join = Some(Join::Sequence);
                    }
                    all.items.append(&mut list.items);
                }
            }
        }
        match all {
            Some(list) => Ok(Does::All(list)),
            None => not_read(self, "a loop over no words"),
        }
    }

    /// What stands behind `while`, up to and with `done` (G22).
    fn while_true(&mut self, inside: &mut Variables<'a>, start: usize) -> Result<Does, Finding> {
        let condition = match self.line_condition(inside)? {
            Some(condition) => condition,
            None => Condition::While(self.inner(End::Words(&["do"]), inside)?),
        };
        self.body(condition, inside, start)
    }

    /// Goes behind `read -r NAME`, where that alone stands behind `while`, and what ends it. The variable is given its value.
    fn line_condition(&mut self, inside: &mut Variables<'a>) -> Result<Option<Condition>, Finding> {
        let before = self.cursor;
        self.skip_blanks();
        let mut trims = true;
        if self.cursor.starts_with("IFS=") {
            self.cursor.advance("IFS=".len());
            if self.cursor.starts_with("''") || self.cursor.starts_with("\"\"") {
                self.cursor.advance(2);
            }
            trims = false;
            if !matches!(self.cursor.peek(), Some(' ' | '\t')) {
                self.cursor = before;
                return Ok(None);
            }
            self.skip_blanks();
        }
        if !self.begins_with("read") {
            self.cursor = before;
            return Ok(None);
        }
        self.cursor.advance("read".len());
        self.skip_blanks();
        let raw = self.begins_with("-r");
        if raw {
            self.cursor.advance("-r".len());
            self.skip_blanks();
        }
        let name = self.cursor.name().filter(|name| inside.may_set(name));
        let Some(name) = name else {
            let detail = "only read -r NAME is understood, with a variable that means nothing elsewhere";
            let at = self.cursor.position();
            return self.cursor.fail(Code::ReservedWord, "G22", at, detail);
        };
        self.cursor.advance(name.len());
        self.skip_blanks();
        match self.cursor.peek() {
            Some(';') => self.cursor.advance(1),
            Some('\n') if self.awaited.is_empty() => {}
            _ => {
                let detail = "only one variable of read is understood";
                let at = self.cursor.position();
                return self.cursor.fail(Code::ReservedWord, "G22", at, detail);
            }
        }
        self.skip_lines()?;
        inside.join(Join::Sequence);
        inside.set_later(name);
        Ok(Some(Condition::Line {
            name: name.to_owned(),
            trims,
            raw,
        }))
    }

    /// What stands behind the condition of a loop, up to and with `done`.
    fn body(
        &mut self,
        condition: Condition,
        inside: &mut Variables<'a>,
        start: usize,
    ) -> Result<Does, Finding> {
        self.close("do", start)?;
        inside.join(Join::Sequence);
        let body = self.inner(End::Words(&["done"]), inside)?;
        self.close("done", start)?;
        // The next turn would find another value.
        if self.rules.holds(Rule::G22, !inside.changes_what_it_takes()) {
            Ok(Does::Turns { condition, body })
        } else {
            let detail = "a loop that takes a value and gives another one for its next turn";
            self.cursor.fail(Code::Expansion, "G22", start, detail)
        }
    }

    /// Reads a list inside of a compound command, up to what ends it. Its texts cannot stand elsewhere.
    fn inner(&mut self, end: End, variables: &mut Variables<'a>) -> Result<List, Finding> {
        self.expect_depth()?;
        let grammar = self.grammar;
        self.grammar.here_documents = false;
        self.room -= 1;
        let outer = std::mem::replace(&mut self.end, end);
        std::mem::swap(&mut self.variables, variables);
        let list = self.list_from(self.cursor.position(), None);
        std::mem::swap(&mut self.variables, variables);
        self.end = outer;
        self.room += 1;
        self.grammar = grammar;
        list
    }

    fn expect_depth(&self) -> Result<(), Finding> {
        if self.room > 0 {
            return Ok(());
        }
        let at = self.cursor.position();
        let detail = "too many commands inside each other";
        self.cursor.fail(Code::ReservedWord, "G10", at, detail)
    }

    /// Goes behind a word that ends a list.
    fn close(&mut self, word: &'static str, start: usize) -> Result<(), Finding> {
        if self.cursor.at_word(word) {
            self.cursor.advance(word.len());
            return Ok(());
        }
        let detail = "a compound command that is not complete";
        self.cursor.fail(Code::ReservedWord, "G21", start, detail)
    }

    fn segment(&mut self) -> Result<Segment, Finding> {
        self.segments += 1;
        if self.rules.holds(Rule::G10, self.segments > self.max_segments) {
            return self.cursor.fail(
                Code::TooManySegments,
                "G10",
                self.cursor.position(),
                "more than 64 segments",
            );
        }
        let start = self.cursor.position();
        let mut end = start;
        let mut assignments = Vec::new();
        let mut takes_values = false;
        let mut sets: Option<Setting> = None;
        let mut words: Vec<Word> = Vec::new();
        let mut redirections: Vec<ReadRedirection> = Vec::new();
        loop {
            if !words.is_empty()
                && let Some(redirection) = self.null_redirection(end, &redirections)
            {
                end = self.cursor.position();
                redirections.push(ReadRedirection::Known(redirection));
                self.skip_blanks();
                continue;
            }
            if !words.is_empty()
                && let Some(text) = self.input_text(end, &redirections)?
            {
                end = self.cursor.position();
                redirections.push(ReadRedirection::Known(text));
                self.skip_blanks();
                continue;
            }
            if !words.is_empty()
                && let Some((file, errors)) = self.file_redirection(end, &redirections)?
            {
                end = self.cursor.position();
                redirections.push(file);
                redirections.extend(errors);
                self.skip_blanks();
                continue;
            }
            if !self.at_word(&words)? {
                break;
            }
            let at = self.cursor.position();
            let content = Content {
                patterns: self.grammar.file_patterns && !words.is_empty(),
                documents: self.grammar.document_operands && !words.is_empty(),
                substitutions: self.grammar.substitutions && !words.is_empty(),
                assigned: words.is_empty() && self.rules.holds(Rule::G23, self.grammar.later_values),
                background: self.grammar.background_commands,
                braces: self.grammar.braces && !words.is_empty(),
                tests: words.is_empty() && self.rules.holds(Rule::G21, self.grammar.compound_commands),
            };
            let mut read = self.words(content)?.into_iter();
            let Some(word) = read.next() else { break };
            end = self.cursor.position();
            if words.is_empty() {
                match self.assignment(&word) {
                    Some(Ok(found)) if !word.substitutions.is_empty() => {
                        if sets.is_some() || !assignments.is_empty() {
                            return self.not_alone(at);
                        }
                        sets = Some(Setting::of(found.name, word));
                        self.skip_blanks();
                        continue;
                    }
                    Some(Ok(found)) => {
                        if sets.is_some() {
                            return self.not_alone(at);
                        }
                        assignments.push(found);
                        takes_values |= word.is_expanded;
                        self.skip_blanks();
                        continue;
                    }
                    Some(Err(finding)) => return Err(finding),
                    None if word.is_expanded => {
                        let detail = "a variable in the place of the command";
                        return self.cursor.fail(Code::Expansion, "G18", at, detail);
                    }
                    None => self.check_command_word(&word, at)?,
                }
            }
            words.push(word);
            words.extend(read);
            self.skip_blanks();
        }
        let span = self.cursor.span(start, end);
        if let Some(setting) = sets {
            return self.setting_later(setting, &words, span, start);
        }
        if words.is_empty() {
            // A value among them may be one that another of them gives.
            let is_certain = !takes_values || assignments.len() == 1;
            return if self.rules.holds(Rule::G18, is_certain) && self.remember(&assignments) {
                Ok(Segment::setting(span))
            } else {
                self.cursor.fail(
                    Code::AssignmentOnly,
                    "G8",
                    start,
                    "an assignment without a command changes what later commands mean",
                )
            };
        }
        if words.first().is_some_and(|word| word.value == "cd") {
            self.variables.leave_directory();
        }
        let first = words.first().filter(|_| self.grammar.compound_commands);
        let is_test = first.is_some_and(|word| word.is_bare() && word.value == "[");
        if is_test && !self.rules.holds(Rule::G21, is_read_alike(&words)) {
            let detail = "`[` without its `]`, or with a test that the program does not know as shells do";
            return self.cursor.fail(Code::ReservedWord, "G21", start, detail);
        }
        self.check_substitutions(&words, &redirections, !assignments.is_empty(), start)?;
        Ok(Segment {
            span,
            assignments,
            words,
            redirections,
            is_setting: false,
            sets: None,
        })
    }

    /// An assignment of what is known only when the command runs, which stands before nothing and beside nothing (G23).
    fn setting_later(
        &mut self,
        setting: Setting,
        words: &[Word],
        span: Span,
        start: usize,
    ) -> Result<Segment, Finding> {
        let Setting { name, value } = &setting;
        if !words.is_empty() || value.value.starts_with('=') || !self.variables.may_set(name) {
            return self.not_alone(start);
        }
        self.check_substitutions(std::slice::from_ref(value), &[], false, start)?;
        if !self.rules.holds(Rule::G23, self.grammar.later_values) {
            return self.not_alone(start);
        }
        self.variables.set_later(name);
        Ok(Segment {
            sets: Some(setting),
            ..Segment::setting(span)
        })
    }

    fn not_alone<T>(&self, at: usize) -> Result<T, Finding> {
        let detail = "an assignment of what is known only when the command runs stands alone";
        self.cursor.fail(Code::CommandSubstitution, "G23", at, detail)
    }

    /// Whether it is certain what the substitutions in the words of a segment come to: not beside patterns, an exit code neither
    /// beside commands nor in one behind another, which change it, and commands not beside assignments and other places for input and errors, of which
    /// it depends on the shell whether they have them, too.
    fn check_substitutions(
        &self,
        words: &[Word],
        redirections: &[ReadRedirection],
        has_assignments: bool,
        start: usize,
    ) -> Result<(), Finding> {
        let has_output = has_commands(words);
        let has_status = words.iter().flat_map(|word| &word.substitutions).any(is_status);
        if words.iter().all(|word| word.substitutions.is_empty()) {
            return Ok(());
        }
        let has_patterns = words.iter().any(|word| !word.patterns.is_empty());
        let changes = |descriptor| !is_first(descriptor, redirections);
        let of_words = words.iter().flat_map(|word| &word.substitutions);
        let mut outputs = of_words.filter_map(Substitution::output).skip(1);
        let is_open = (has_output && (has_status || has_assignments || changes(0) || changes(2)))
            || has_patterns
            || outputs.any(begins_with_status);
        if !self.rules.holds(Rule::G19, !is_open) {
            let detail = "what is put in here is not the same in every shell";
            return self.cursor.fail(Code::CommandSubstitution, "G19", start, detail);
        }
        Ok(())
    }

    /// Notes what assignments without a command give to variables (G18). `false` where that is more than a value for later words.
    fn remember(&mut self, assignments: &[Assignment]) -> bool {
        let is_plain = |assignment: &Assignment| {
            (assignment.class == WordClass::Literal || self.below_home(assignment).is_some())
                && !assignment.value.starts_with('=')
                && self.variables.may_set(&assignment.name)
        };
        let is_known = self.grammar.variables && !assignments.is_empty() && assignments.iter().all(is_plain);
        if !self.rules.holds(Rule::G18, is_known) {
            return false;
        }
        for assignment in assignments {
            let below_home = self.below_home(assignment);
            let value = below_home.as_deref().unwrap_or(&assignment.value);
            self.variables.set(&assignment.name, value);
        }
        true
    }

    /// The value of `NAME=~/…`, where that is its only tilde. The word was not literal for that one.
    fn below_home(&self, assignment: &Assignment) -> Option<String> {
        let rest = assignment.value.strip_prefix("~/")?;
        let is_only = assignment.class == WordClass::InnerTilde && !rest.contains('~');
        let home = self.variables.home().filter(|_| is_only)?;
        Some(format!("{}/{rest}", home.trim_end_matches('/')))
    }

    /// Takes a redirection that is accepted (G11), where a blank is before it: directly behind a word a number or a name in
    /// braces is a part of it. `end` is that of what came before.
    fn null_redirection(&mut self, end: usize, before: &[ReadRedirection]) -> Option<Redirection> {
        if !self.grammar.null_redirections || self.cursor.position() == end {
            return None;
        }
        let (length, redirection) = self.cursor.redirection()?;
        if !self
            .rules
            .holds(Rule::G11, is_first(redirection.descriptor(), before))
        {
            return None;
        }
        self.cursor.advance(length);
        Some(redirection)
    }

    /// Takes a redirection from or to a file (G13), where a blank is before it as before other redirections. `&>` is two.
    fn file_redirection(
        &mut self,
        end: usize,
        before: &[ReadRedirection],
    ) -> Result<Option<(ReadRedirection, Option<ReadRedirection>)>, Finding> {
        let at = self.cursor.position();
        let reads_files = self.grammar.file_redirections || self.grammar.temporary_files;
        if !reads_files || at == end {
            return Ok(None);
        }
        let Some((length, used_as, takes_errors)) = self.cursor.file_operator() else {
            return Ok(None);
        };
        let errors = takes_errors.then_some(ReadRedirection::Known(Redirection::ErrorsToOutput));
        let are_first = is_first(used_as.descriptor(), before)
            && errors
                .as_ref()
                .is_none_or(|errors| is_first(errors.descriptor(), before));
        if !are_first {
            return Ok(None);
        }
        self.cursor.advance(length);
        let name = self.word_behind()?;
        let is_name = |name: &Word| {
            !name.class.is_dynamic()
                && !name.value.is_empty()
                && !name.value.contains('\n')
                && !means_program(name)
        };
        match name.filter(is_name) {
            Some(name) if self.cursor.at_end_of_redirection() => {
                Ok(Some((ReadRedirection::File { used_as, name }, errors)))
            }
            _ => self.cursor.fail(
                Code::Redirection,
                "G7",
                at,
                "only a redirection from or to a file with a literal name is understood",
            ),
        }
    }

    /// The word behind an operator, if one stands there.
    fn word_behind(&mut self) -> Result<Option<Word>, Finding> {
        while matches!(self.cursor.peek(), Some(' ' | '\t')) {
            self.cursor.advance(1);
        }
        let is_word = self.cursor.peek().is_some_and(|first| !ends_word(first));
        if !is_word {
            return Ok(None);
        }
        // Nothing in it is taken apart.
        Ok(self.words(Content::default())?.into_iter().next())
    }

    /// Reads a word, or those that stand for it. A newline in it is not where the text of a here-document begins, which not every reader sees.
    fn words(&mut self, content: Content) -> Result<Vec<Word>, Finding> {
        let at = self.cursor.position();
        let (rules, grammar, max_segments, room) = (self.rules, self.grammar, self.max_segments, self.room);
        let segments = &mut self.segments;
        let mut commands = |cursor: &mut Cursor<'a>, variables: &mut Variables<'a>| {
            let mut inside = Parser {
                rules,
                grammar: grammar.inside_substitution(),
                cursor: *cursor,
                segments: *segments,
                max_segments,
                awaited: Vec::new(),
                texts: Vec::new(),
                variables: variables.inside(),
                end: End::Parenthesis,
                room: room.saturating_sub(1),
            };
            let begins = cursor.position();
            if room == 0 {
                let detail = "too many commands inside each other";
                return cursor.fail(Code::CommandSubstitution, "G10", begins, detail);
            }
            let list = inside.list_from(begins, None)?;
            if inside.cursor.next() != Some(')') {
                let detail = "the parenthesis is never closed";
                return cursor.fail(Code::CommandSubstitution, "G5", begins, detail);
            }
            *segments = inside.segments;
            *cursor = inside.cursor;
            variables.spend_as(&inside.variables);
            Ok(list)
        };
        let words = read_word(
            rules,
            content,
            &mut self.variables,
            &mut self.cursor,
            &mut commands,
        )?;
        if !self.awaited.is_empty() && self.cursor.has_newline_since(at) {
            let detail = "a word of several lines behind a here-document";
            return self.cursor.fail(Code::Heredoc, "G7", at, detail);
        }
        Ok(words)
    }

    /// Takes a here-document or a here-string that is accepted (G12), where a blank is before it as before other redirections.
    /// Its text is put into it in the end.
    fn input_text(&mut self, end: usize, before: &[ReadRedirection]) -> Result<Option<Redirection>, Finding> {
        let at = self.cursor.position();
        if !self.grammar.here_documents || at == end || !is_first(0, before) {
            return Ok(None);
        }
        if self.cursor.starts_with("<<<") {
            self.cursor.advance("<<<".len());
            let word = self.word_behind()?;
            let is_literal = |word: &Word| word.class == WordClass::Literal && !means_program(word);
            let Some(word) = word.filter(is_literal) else {
                let detail = "only a here-string of one literal word is understood";
                return self.cursor.fail(Code::HereString, "G7", at, detail);
            };
            self.texts.push(Some(word.value + "\n"));
        } else {
            let Some((length, document)) = self.cursor.here_document() else {
                return Ok(None);
            };
            self.cursor.advance(length);
            self.awaited.push((self.texts.len(), document));
            self.texts.push(None);
        }
        Ok(Some(Redirection::InputFromText(String::new())))
    }

    /// Takes the texts of the here-documents of the line that just ended.
    fn take_texts(&mut self) -> Result<(), Finding> {
        for (nth, (place, document)) in std::mem::take(&mut self.awaited).into_iter().enumerate() {
            let at = self.cursor.position();
            // The line that ends the one before ends here.
            if nth > 0 && self.cursor.peek() == Some('\n') {
                self.cursor.advance(1);
            }
            let Some(text) = self.cursor.take_document(&document) else {
                let detail = "a here-document without an end, or in which a shell would expand something";
                return self.cursor.fail(Code::Heredoc, "G7", at, detail);
            };
            if let Some(awaited) = self.texts.get_mut(place) {
                *awaited = Some(text);
            }
        }
        Ok(())
    }

    fn put_texts_into(&mut self, items: &mut [Item]) -> Result<(), Finding> {
        let mut texts = std::mem::take(&mut self.texts).into_iter();
        // Those in compound commands have none.
        let parts = items.iter_mut().flat_map(|item| &mut item.pipeline);
        let segments = parts.filter_map(|part| match part {
            Part::Segment(segment) => Some(segment),
            Part::Compound(_) => None,
        });
        for redirection in segments.flat_map(|segment| &mut segment.redirections) {
            if let ReadRedirection::Known(Redirection::InputFromText(text)) = redirection {
                let Some(read) = texts.next().flatten() else {
                    let at = self.cursor.position();
                    return self.cursor.fail(
                        Code::Heredoc,
                        "G7",
                        at,
                        "the text of a here-document is missing",
                    );
                };
                *text = read;
            }
        }
        Ok(())
    }

    /// Goes behind a newline between words, and behind the texts that follow it.
    fn end_line(&mut self) -> Result<(), Finding> {
        self.cursor.advance(1);
        self.take_texts()
    }

    /// Whether a word begins here; what can only be something that is refused is refused here.
    fn at_word(&self, words: &[Word]) -> Result<bool, Finding> {
        let at = self.cursor.position();
        if self.cursor.at_redirection() {
            return if self.rules.on(Rule::G7) {
                self.redirection()
            } else {
                Ok(true)
            };
        }
        match self.cursor.peek() {
            None | Some('\n' | ';' | '|' | '&') => Ok(false),
            Some(')') if self.at_parenthesis() => Ok(false),
            Some('(' | ')') if !self.rules.on(Rule::G9) => Ok(true),
            Some('(') if words.len() == 1 => {
                self.cursor
                    .fail(Code::Function, "G9", at, "a function definition")
            }
            Some('(' | ')') => self.cursor.fail(
                Code::Subshell,
                "G9",
                at,
                "subshells and arithmetic are not supported",
            ),
            Some(_) => Ok(true),
        }
    }

    fn redirection(&self) -> Result<bool, Finding> {
        let at = self.cursor.position();
        let (code, detail) = if self.cursor.starts_with("<<<") {
            (Code::HereString, "here-strings are not supported")
        } else if self.cursor.starts_with("<<") {
            (Code::Heredoc, "heredocs are not supported")
        } else if self.cursor.starts_with("<(") || self.cursor.starts_with(">(") {
            (
                Code::ProcessSubstitution,
                "process substitution runs a command inside the command",
            )
        } else {
            (Code::Redirection, "redirections are not supported")
        };
        self.cursor.fail(code, "G7", at, detail)
    }

    fn check_command_word(&self, word: &Word, at: usize) -> Result<(), Finding> {
        if word.value.is_empty() && self.rules.on(Rule::G3) {
            return self
                .cursor
                .fail(Code::EmptyExecutable, "G3", at, "the command word is empty");
        }
        if !word.is_bare() {
            return Ok(());
        }
        match word.value.as_str() {
            "!" if !self.rules.on(Rule::G2) => Ok(()),
            "!" => self
                .cursor
                .fail(Code::Negation, "G2", at, "negation is not supported"),
            _ if !self.rules.on(Rule::G9) => Ok(()),
            "{" | "}" => self
                .cursor
                .fail(Code::Group, "G9", at, "groups are not supported"),
            "function" => self
                .cursor
                .fail(Code::Function, "G9", at, "a function definition"),
            keyword if is_keyword(keyword) => self.cursor.fail(
                Code::ReservedWord,
                "G9",
                at,
                "a keyword of the shell, in a form that is not supported",
            ),
            _ => Ok(()),
        }
    }

    /// Reads what follows a segment. A sequence operator eats nothing behind itself.
    fn operator(&mut self) -> Result<After, Finding> {
        let at = self.cursor.position();
        let starts_with = |operator| self.cursor.starts_with(operator);
        let stderr_pipe = starts_with("|&");
        let background = starts_with("&") && !starts_with("&&");
        // What follows it directly is an operator of zsh.
        let stands_alone = matches!(self.cursor.peek_after(1), None | Some(' ' | '\t' | '\n' | ')'));
        if background && stands_alone && self.rules.holds(Rule::G24, self.grammar.background_commands) {
            // The text of a here-document belongs to what reads nothing.
            if self.awaited.is_empty() {
                self.cursor.advance(1);
                return Ok(After::Background);
            }
        }
        let (length, after) = match self.cursor.peek() {
            None => return Ok(After::End),
            Some(')') if self.at_parenthesis() => return Ok(After::End),
            Some('|') if starts_with("||") => (2, After::Join(Join::Or)),
            Some('|') => (if stderr_pipe { 2 } else { 1 }, After::Pipe),
            Some('&') if starts_with("&&") => (2, After::Join(Join::And)),
            Some(_) => (1, After::Join(Join::Sequence)),
        };
        if self.rules.holds(Rule::G2, stderr_pipe || background) {
            let (code, detail) = if stderr_pipe {
                (Code::StderrPipe, "|& is not supported")
            } else {
                (
                    Code::Background,
                    "a command is not put into the background with &",
                )
            };
            return self.cursor.fail(code, "G2", at, detail);
        }
        if self.cursor.peek() == Some('\n') {
            self.end_line()?;
        } else {
            self.cursor.advance(length);
        }
        Ok(after)
    }

    fn dangling<T>(&self) -> Result<T, Finding> {
        self.cursor.fail(
            Code::DanglingOperator,
            "G1",
            self.cursor.position(),
            "a command is missing after the last operator",
        )
    }

    /// Skips blanks, continuations between words, and a comment.
    fn skip_blanks(&mut self) {
        loop {
            match self.cursor.peek() {
                Some(' ' | '\t') => self.cursor.advance(1),
                // Words end at a blank or an operator, so a continuation seen here after a word follows a blank.
                // The text of a here-document follows the line at one or the other newline, by the shell.
                Some('\\')
                    if self.cursor.peek_after(1) == Some('\n')
                        && self.awaited.is_empty()
                        && self.rules.on(Rule::G4) =>
                {
                    self.cursor.advance(2);
                }
                Some('#') if self.rules.on(Rule::G4) => {
                    while self.cursor.peek().is_some_and(|character| character != '\n') {
                        self.cursor.next();
                    }
                }
                _ => return,
            }
        }
    }

    /// Skips everything between two segments: blanks, comments, empty lines. An operator here has no command before it.
    fn skip_lines(&mut self) -> Result<(), Finding> {
        loop {
            self.skip_blanks();
            let is_operator =
                matches!(self.cursor.peek(), Some(';' | '|' | '&')) && !self.cursor.at_redirection();
            if self.rules.holds(Rule::G1, is_operator) {
                return self.cursor.fail(
                    Code::EmptySegment,
                    "G1",
                    self.cursor.position(),
                    "a command is missing before this operator",
                );
            }
            match self.cursor.peek() {
                Some('\n') => self.end_line()?,
                Some(_) if is_operator => self.cursor.advance(1),
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Reads a leading word as an assignment: `None` when it is none, an error when it is not a plain one (G8).
    fn assignment(&self, word: &Word) -> Option<Result<Assignment, Finding>> {
        let bare = word.value.get(..word.bare_prefix)?;
        let equals = bare.find('=')?;
        let (left, value) = (bare.get(..equals)?, word.value.get(equals + 1..)?);
        let name = left.strip_suffix('+').unwrap_or(left);
        let mut characters = name.chars();
        let is_name = characters
            .next()
            .is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
            && characters.all(|rest| rest == '_' || rest.is_ascii_alphanumeric());
        if !is_name {
            return None;
        }
        if name.len() != left.len() && self.rules.on(Rule::G8) {
            return Some(Err(Finding::new(
                Code::Assignment,
                "G8",
                word.span,
                "only NAME=value is understood as an assignment",
            )));
        }
        let class = match word.class {
            WordClass::Literal => WordClass::Literal,
            WordClass::HomeTilde
            | WordClass::InnerTilde
            | WordClass::BothTildes
            | WordClass::Found
            | WordClass::Substituted => WordClass::InnerTilde,
        };
        Some(Ok(Assignment {
            span: word.span,
            name: name.to_owned(),
            value: value.to_owned(),
            class,
        }))
    }
}

/// Whether the program `[` reads its words as bash and dash do.
fn is_read_alike(words: &[Word]) -> bool {
    let values: Vec<&str> = words.iter().skip(1).map(|word| word.value.as_str()).collect();
    let Some((&"]", tests)) = values.split_last() else {
        return false;
    };
    let begins_a_test = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| tests.get(before));
        before.is_none_or(|before| matches!(*before, "!" | "(" | "-a" | "-o"))
    };
    tests.iter().enumerate().all(|(at, test)| match *test {
        "-R" | "-l" | "-v" | "<" | ">" => false,
        // Between two tests they join them; before a word they are tests of it to some shells.
        "-a" | "-o" => !begins_a_test(at),
        _ => true,
    })
}

/// Whether commands stand in words, whose output is put in there.
fn has_commands(words: &[Word]) -> bool {
    let mut all = words.iter().flat_map(|word| &word.substitutions);
    all.any(|substitution| substitution.output().is_some())
}

/// Whether an exit code stands in a list before a command of it has ended: then it is that of a command outside.
fn begins_with_status(list: &List) -> bool {
    let of_word = |substitution: &Substitution| match &substitution.by {
        SubstitutedBy::Status => true,
        SubstitutedBy::Background | SubstitutedBy::Variable(_) => false,
        SubstitutedBy::Output(list) => begins_with_status(list),
    };
    let mut first = list.items.iter().take(1).flat_map(|item| &item.pipeline);
    first.any(|part| match part {
        Part::Segment(segment) => segment
            .words
            .iter()
            .chain(segment.sets.as_ref().map(|setting| &setting.value))
            .flat_map(|word| &word.substitutions)
            .any(of_word),
        Part::Compound(compound) => compound.does.lists().take(1).any(begins_with_status),
    })
}

/// Where `$!` stands in a list although it is not certain that a list has begun in the background by then (G24).
fn names_background_too_early(list: &List, mut has_begun: bool) -> Option<Span> {
    for item in &list.items {
        for part in &item.pipeline {
            let found = match part {
                Part::Segment(segment) => {
                    let set = segment.sets.as_ref().map(|setting| &setting.value);
                    let mut words = segment.words.iter().chain(set);
                    words.find_map(|word| {
                        let mut parts = word.substitutions.iter();
                        parts.find_map(|part| match &part.by {
                            SubstitutedBy::Background => (!has_begun).then_some(word.span),
                            SubstitutedBy::Output(inner) => names_background_too_early(inner, has_begun),
                            SubstitutedBy::Status | SubstitutedBy::Variable(_) => None,
                        })
                    })
                }
                Part::Compound(compound) => {
                    let mut lists = compound.does.lists();
                    lists.find_map(|inner| names_background_too_early(inner, has_begun))
                }
            };
            if found.is_some() {
                return found;
            }
        }
        has_begun |= begins_background(item);
    }
    None
}

/// Whether an item begins a list in the background for certain, and not in a process of its own.
fn begins_background(item: &Item) -> bool {
    let [Part::Compound(compound)] = item.pipeline.as_slice() else {
        return false;
    };
    matches!(item.join, None | Some(Join::Sequence))
        && match &compound.does {
            Does::Background(_) => true,
            Does::All(list) => list.items.iter().any(begins_background),
            Does::Apart(_) | Does::Choice { .. } | Does::Turns { .. } | Does::Wait => false,
        }
}

fn is_status(substitution: &Substitution) -> bool {
    matches!(substitution.by, SubstitutedBy::Status)
}

/// Whether nothing before changes a descriptor: shells differ on what becomes of one that goes to two places.
fn is_first(descriptor: u8, before: &[ReadRedirection]) -> bool {
    before.iter().all(|other| other.descriptor() != descriptor)
}

/// Whether zsh takes a word for the path of a program, as it does with what is behind an `=`.
fn means_program(word: &Word) -> bool {
    word.bare_prefix > 0 && word.value.starts_with('=')
}

/// Whether a bare command word belongs to the shell's grammar (G9).
pub(crate) fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "if" | "then"
            | "else"
            | "elif"
            | "fi"
            | "for"
            | "while"
            | "until"
            | "do"
            | "done"
            | "case"
            | "esac"
            | "select"
            | "function"
            | "in"
            | "coproc"
            | "{"
            | "}"
            | "[["
            | "]]"
            | "!"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::command::{rendering::push_quoted, word_reader};

    /// Each segment's words, joined; pipelines by `|`, items by their operator.
    fn shape(list: &List) -> String {
        let pipeline = |item: &Item| {
            let segments: Vec<String> = item
                .pipeline
                .iter()
                .filter_map(Part::segment)
                .map(|segment| {
                    let words: Vec<&str> = segment.words.iter().map(|word| word.value.as_str()).collect();
                    words.join("·")
                })
                .collect();
            segments.join(" | ")
        };
        list.items
            .iter()
            .map(|item| match item.join {
                Some(join) => format!(" {} {}", join.as_str(), pipeline(item)),
                None => pipeline(item),
            })
            .collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(
            parse(text).map(|list| shape(&list)).as_deref(),
            Ok(expected),
            "{text:?}"
        );
    }

    #[track_caller]
    fn check_refused(text: &str, code: Code) {
        assert_eq!(parse(text).map_err(|finding| finding.code), Err(code), "{text:?}");
    }

    fn widest(text: &str) -> Result<List, Code> {
        let list = parse_under(
            RuleSet::ALL,
            Grammar::WIDEST,
            Surroundings::NONE,
            text,
            &SourceMap::identity(),
        );
        list.map_err(|finding| finding.code)
    }

    /// The words of each segment with its redirections, under the widest grammar.
    fn redirected(text: &str) -> Result<Vec<(String, Vec<String>)>, Code> {
        let list = widest(text)?;
        let segments = list.segments().map(|segment| {
            let words: Vec<&str> = segment.words.iter().map(|word| word.value.as_str()).collect();
            let redirections = segment.redirections.iter().map(|redirection| match redirection {
                ReadRedirection::Known(redirection) => redirection.as_str().to_owned(),
                ReadRedirection::File { used_as, name } => format!("{} {}", used_as.as_str(), name.value),
            });
            (words.join(" "), redirections.collect())
        });
        Ok(segments.collect())
    }

    #[test]
    fn plain_redirections_are_no_words() {
        let one = |words: &str, redirections: &[&str]| {
            let redirections = redirections.iter().map(|one| (*one).to_owned()).collect();
            Ok(vec![(words.to_owned(), redirections)])
        };
        for (text, words, redirections) in [
            ("a 2>&1", "a", &["2>&1"][..]),
            ("a b >/dev/null 2>&1", "a b", &[">/dev/null", "2>&1"]),
            ("a 2>&1 >> /dev/null b", "a b", &["2>&1", ">/dev/null"]),
            ("a 0</dev/null\t1>&2", "a", &["</dev/null", ">&2"]),
            ("a 2 >/dev/null", "a 2", &[">/dev/null"]),
            ("a 2>/dev/null;", "a", &["2>/dev/null"]),
            ("a '2'", "a 2", &[]),
            ("a >b", "a", &["> b"]),
            ("a c 1>> 'b d' e", "a c e", &[">> b d"]),
            ("a <b 2>\tc >~/d", "a", &["< b", "2> c", "> ~/d"]),
            ("a 0< b 2>>c;", "a", &["< b", "2>> c"]),
            ("a &> b", "a", &["> b", "2>&1"]),
            ("a &>>b", "a", &[">> b", "2>&1"]),
            ("a >b 2>&1", "a", &["> b", "2>&1"]),
            ("a > 2", "a", &["> 2"]),
            ("a 2>\\&1", "a", &["2> &1"]),
        ] {
            assert_eq!(redirected(text), one(words, redirections), "{text}");
        }
        for text in [
            ">/dev/null a",
            "X=1 >/dev/null",
            "a >/dev/null | b",
            "a >&2 | b",
            "a | b </dev/null",
            "a \\\n2>&1x",
            "a 2> &1",
            "a 2>&1)",
            "a >/dev/null(",
            "a >|b",
            "a >!b",
            "a <>b",
            "a >&b",
            "a &>|b",
            "a >",
            "a > ;",
            "a >b >c",
            "a >b &>c",
            "a &>c 2>b",
            "a <b <c",
            "a >''",
            "a >=b",
            "a >b=~/c",
            "a >'b\nc'",
            "a >b(c)",
            "a <1-5>b",
            "a >b>c",
            "a >b<c",
            "a 3>b",
            "a 12>b",
            "a>b",
            "a \\\n2>bx(",
            "a >$b",
            "a >b*",
            "a >{b,c}",
            "a >b | c",
            "a | b <c",
            ">b a",
            ">b",
        ] {
            assert!(redirected(text).is_err(), "{text}");
        }
        assert!(redirected("a 2>&1 | b 2>/dev/null | c").is_ok());
    }

    /// The words of each segment with the text that it reads, under the widest grammar.
    fn fed(text: &str) -> Result<Vec<(String, Option<String>)>, Code> {
        let list = widest(text)?;
        let segments = list.segments().map(|segment| {
            let words: Vec<&str> = segment.words.iter().map(|word| word.value.as_str()).collect();
            let read = segment
                .redirections
                .iter()
                .find_map(|redirection| match redirection {
                    ReadRedirection::Known(Redirection::InputFromText(text)) => Some(text.clone()),
                    ReadRedirection::Known(_) | ReadRedirection::File { .. } => None,
                });
            (words.join(" "), read)
        });
        Ok(segments.collect())
    }

    #[test]
    fn literal_texts_are_read_with_the_segment_that_names_them() {
        #[track_caller]
        fn check(text: &str, expected: &[(&str, Option<&str>)]) {
            let expected = expected
                .iter()
                .map(|(words, read)| ((*words).to_owned(), read.map(str::to_owned)))
                .collect();
            assert_eq!(fed(text), Ok(expected), "{text}");
        }
        for delimiter in ["'E'", "\"E\"", "\\E"] {
            check(
                &format!("a <<{delimiter}\n$x `y` \\\n E\nE"),
                &[("a", Some("$x `y` \\\n E\n"))],
            );
        }
        check("a <<E\nx 'y\nE\n", &[("a", Some("x 'y\n"))]);
        check("a <<E b\nE", &[("a b", Some(""))]);
        check(
            "a <<-'E'\n\t\tx\n\t y\n\tE\nb",
            &[("a", Some("x\n y\n")), ("b", None)],
        );
        check(
            "a <<'E' | b && c # d\nx\nE\nd",
            &[("a", Some("x\n")), ("b", None), ("c", None), ("d", None)],
        );
        check(
            "a <<'E'; b << F\n1\nE\n2\nF\nc <<<'3'",
            &[("a", Some("1\n")), ("b", Some("2\n")), ("c", Some("3\n"))],
        );
        check("a <<'E' &&\nx\nE\nb", &[("a", Some("x\n")), ("b", None)]);
        check(
            "a <<'E'; b <<<'y'\nx\nE",
            &[("a", Some("x\n")), ("b", Some("y\n"))],
        );
        check("a <<< b c", &[("a c", Some("b\n"))]);
        check("a <<<'b\nc'", &[("a", Some("b\nc\n"))]);
        for (text, code) in [
            ("a <<'E'", Code::Heredoc),
            ("a <<'E'\nx", Code::Heredoc),
            ("a <<'E'\nx\nE ", Code::Heredoc),
            ("a <<'E'\nx\n\tE", Code::Heredoc),
            ("a <<E\n$x\nE", Code::Heredoc),
            ("a <<E\n`x`\nE", Code::Heredoc),
            ("a <<E\n\\x\nE", Code::Heredoc),
            ("a <<'E F'\nx\nE F", Code::Heredoc),
            ("a <<E'F'\nx\nEF", Code::Heredoc),
            ("a <<$E\nx\n$E", Code::Heredoc),
            ("a <<''\nx\n\n", Code::Heredoc),
            ("a 0<<'E'\nx\nE", Code::Heredoc),
            ("a<<'E'\nx\nE", Code::Heredoc),
            ("<<'E' a\nx\nE", Code::Heredoc),
            ("a <<'E' <<'F'\nx\nE\ny\nF", Code::Heredoc),
            ("a </dev/null <<'E'\nx\nE", Code::Heredoc),
            ("a <<'E' 'b\nx\nE\n'\nE", Code::Heredoc),
            ("a <<'E' \\\nb\nx\nE", Code::LineContinuation),
            ("a | b <<'E'\nx\nE", Code::Redirection),
            ("a <<'E' & b\nx\nE", Code::Background),
            ("a <<<", Code::HereString),
            ("a <<< ;b", Code::HereString),
            ("a <<<=b", Code::HereString),
            ("a <<<~/b", Code::HereString),
            ("a <<<$b", Code::Expansion),
            ("a <<<b*", Code::Glob),
            ("a <<<(b)", Code::HereString),
        ] {
            assert_eq!(fed(text), Err(code), "{text}");
        }
    }

    #[test]
    fn lists_keep_their_shape() {
        check("a b", "a·b");
        check(" a\tb ;", "a·b");
        check("a && b || c; d\ne", "a && b || c ; d ; e");
        check("a | b |\n c", "a | b | c");
        check("\n\n# x\na # 'y\n\n# z", "a");
        check("a \\\n b \\\n", "a·b");
        check("a &&\\\nb", "a && b");
        check("a;#x\nb", "a ; b");
        check("a &&# x\n\nb", "a && b");
        check("a#b #c", "a#b");
    }

    #[test]
    fn words_lose_their_quotes() {
        check(r#"'a b'"c d"e\ f"#, "a bc de f");
        check(r#""a\$b\`c\"d\\e\f""#, r#"a$b`c"d\e\f"#);
        check("a '' \"\"", "a··");
        check("'a'\\''b'", "a'b");
        check("a$ $ \"b$\" \"$ \"", "a$·$·b$·$ ");
        check(
            "a b=c {} x@{0} HEAD~1 ~/x ~ y=~/z ~/v:~/w",
            "a·b=c·{}·x@{0}·HEAD~1·~/x·~·y=~/z·~/v:~/w",
        );
        check("\"a\nb\"", "a\nb");
        check("X=1 a", "a");
        check("a X=1", "a·X=1");
        check("'X'=1", "X=1");
        check("a ]", "a·]");
    }

    #[test]
    fn everything_else_is_refused_for_its_reason() {
        use Code as C;
        for (text, code) in [
            ("", C::EmptySegment),
            ("# x", C::EmptySegment),
            ("a ;; b", C::EmptySegment),
            ("a;;", C::EmptySegment),
            ("a | | b", C::EmptySegment),
            ("; a", C::EmptySegment),
            ("a\n; b", C::EmptySegment),
            ("&& a", C::EmptySegment),
            ("a &&", C::DanglingOperator),
            ("a ||\n", C::DanglingOperator),
            ("a |", C::DanglingOperator),
            ("a &", C::Background),
            ("a & b", C::Background),
            ("a &\\\n& b", C::Background),
            ("a |& b", C::StderrPipe),
            ("! a", C::Negation),
            ("a 'b", C::UnterminatedQuote),
            ("a \"b", C::UnterminatedQuote),
            ("a\\", C::TrailingBackslash),
            ("a \\", C::TrailingBackslash),
            ("a\\\nb", C::LineContinuation),
            ("\"a\\\nb\"", C::LineContinuation),
            ("a $(b)", C::CommandSubstitution),
            ("a `b`", C::CommandSubstitution),
            ("a \"`b`\"", C::CommandSubstitution),
            ("a $b", C::Expansion),
            ("a \"$b\"", C::Expansion),
            ("a $\\\n(b)", C::Expansion),
            ("a ${b}", C::Expansion),
            ("a $[1]", C::Expansion),
            ("a $)", C::Expansion),
            ("a $'b'", C::AnsiCQuote),
            ("a $\"b\"", C::AnsiCQuote),
            ("a *", C::Glob),
            ("a b?", C::Glob),
            ("[ a", C::Glob),
            ("a {b,c}", C::BraceExpansion),
            ("a {1..3}", C::BraceExpansion),
            ("a {b,'c'}", C::BraceExpansion),
            ("a ~b", C::TildeUser),
            ("a ~+/b", C::TildeUser),
            ("a ~'b'", C::TildeUser),
            ("a b=~c", C::TildeUser),
            ("a ~/b:~c", C::TildeUser),
            ("(a)", C::Subshell),
            ("a (b)", C::Function),
            ("a b (c)", C::Subshell),
            ("a)", C::Subshell),
            ("a() { b; }", C::Function),
            ("function a", C::Function),
            ("{ a; }", C::Group),
            ("if a", C::ReservedWord),
            ("then a", C::ReservedWord),
            ("A=1 if x", C::ReservedWord),
            ("a > b", C::Redirection),
            ("a 2>&1", C::Redirection),
            ("a &> b", C::Redirection),
            ("> a b", C::Redirection),
            ("a << b", C::Heredoc),
            ("a <<< b", C::HereString),
            ("a <(b)", C::ProcessSubstitution),
            ("A=1", C::AssignmentOnly),
            ("A+=1 b", C::Assignment),
            ("'' a", C::EmptyExecutable),
            ("a\r\nb", C::ForbiddenCharacter),
            ("a '\u{200b}'", C::ForbiddenCharacter),
            ("a\0", C::Nul),
        ] {
            check_refused(text, code);
        }
        check_refused(&"a".repeat(MAX_ANALYSED_BYTES + 1), Code::TooLong);
        check_refused(&"a;".repeat(MAX_SEGMENTS + 1), Code::TooManySegments);
        assert_eq!(rejection(&"a".repeat(MAX_REQUEST_BYTES)), None);
        assert!(rejection(&"a".repeat(MAX_REQUEST_BYTES + 1)).is_some());
    }

    #[test]
    fn spans_are_those_of_the_source() {
        let text = "X=1 'a b'\"c\" d | e";
        let list = parse(text).unwrap();
        let spans: Vec<&str> = list
            .segments()
            .flat_map(|segment| {
                std::iter::once(segment.span).chain(segment.words.iter().map(|word| word.span))
            })
            .filter_map(|span| text.get(span.start as usize..span.end as usize))
            .collect();
        assert_eq!(spans, ["X=1 'a b'\"c\" d", "'a b'\"c\"", "d", "e", "e"]);
    }

    /// A list in the form that plans are rendered in.
    fn print(list: &List) -> String {
        let mut text = String::new();
        for item in &list.items {
            if let Some(join) = item.join {
                text.push_str(join.as_str());
            }
            for (index, segment) in item.pipeline.iter().filter_map(Part::segment).enumerate() {
                if index > 0 {
                    text.push('|');
                }
                for assignment in &segment.assignments {
                    text.push_str(&assignment.name);
                    text.push('=');
                    push_quoted(&mut text, &assignment.value);
                    text.push(' ');
                }
                for word in &segment.words {
                    push_quoted(&mut text, &word.value);
                    text.push(' ');
                }
            }
        }
        text
    }

    /// Every byte of a value stands where its map says, also through payloads inside payloads.
    fn check_map(text: &str, word: &Word, depth: u8) {
        for (offset, character) in word.value.char_indices() {
            let source = word.map.source(offset) as usize;
            let stands = text.get(source..).is_some_and(|rest| rest.starts_with(character));
            assert!(stands, "{text:?}: byte {offset} of {:?}", word.value);
        }
        let inner = (depth < 4)
            .then(|| parse_mapped(&word.value, &word.map).ok())
            .flatten();
        for segment in inner.iter().flat_map(List::segments) {
            let span = segment.span.start as usize..segment.span.end as usize;
            assert!(text.get(span).is_some(), "{text:?}: {segment:?}");
            for word in &segment.words {
                check_map(text, word, depth + 1);
            }
        }
    }

    fn shell_like() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "a", "bc", " ", "  ", "'", "\"", "\\", "\n", ";", "|", "&&", "||", "#", "'x y'", "\"x'y\"",
            "\\ ", "é", "X=1 ", "~/", "$ ", "=", ":~/", "{", "}", "\t", "'\\''", "日",
        ]);
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    #[test]
    fn words_of_payloads_stand_in_the_outermost_source() {
        for text in [
            r#"sh -c 'rg "a b" c'"#,
            r#"sh -c "sh -c 'rg \"x\" é; y'""#,
            r"sh -c 'sh -c '\''rg x'\'''",
            r"sh -c rg\ x",
        ] {
            for word in parse(text).unwrap().segments().flat_map(|segment| &segment.words) {
                check_map(text, word, 0);
            }
        }
    }

    /// Counts how often the parser looks at a character: twice the text is twice the work and a little more.
    #[test]
    fn the_work_grows_with_the_text_and_no_faster() {
        let looks = |unit: &str, size: usize| {
            let text = unit.repeat(size / unit.len());
            word_reader::LOOKS.set(0);
            drop(parse(&text));
            word_reader::LOOKS.get()
        };
        for unit in [
            "a", "a ", "'a' ", "\"\\a\" ", "\\\n ", " ", "#", "\n", "''", "a=", "{", "{,", "~", "=~/", "$ ",
            "a;", "a|", "\\a", "'a", "\"$", "é", "..", "X=1 ",
        ] {
            let (half, whole) = (looks(unit, 4_096), looks(unit, 8_192));
            assert!(
                whole <= 2 * half + 64,
                "{unit:?}: {half} and {whole} for twice as much"
            );
            assert!(whole <= 16 * 8_192, "{unit:?}: {whole}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_inside_its_bounds(text in any::<String>()) {
            match parse(&text) {
                Ok(list) => prop_assert!(list.segments().all(|segment| !segment.words.is_empty())),
                Err(finding) => {
                    let span = finding.span.start as usize..finding.span.end as usize;
                    prop_assert!(text.get(span).is_some(), "{finding:?}");
                }
            }
        }

        #[test]
        fn what_was_read_and_printed_reads_the_same(text in shell_like()) {
            if let Ok(list) = parse(&text) {
                let printed = print(&list);
                let again = parse(&printed)
                    .map_err(|finding| TestCaseError::fail(format!("{printed:?}: {finding:?}")))?;
                prop_assert_eq!(shape(&list), shape(&again));
                prop_assert_eq!(print(&again), printed);
            }
        }

        #[test]
        fn spans_cover_the_word_that_they_are_of(text in shell_like()) {
            if let Ok(list) = parse(&text) {
                for word in list.segments().flat_map(|segment| &segment.words) {
                    let source = text.get(word.span.start as usize..word.span.end as usize);
                    let source = source.ok_or_else(|| TestCaseError::fail("a span off the characters' borders"))?;
                    let alone = parse(&format!("x {source}"))
                        .map_err(|finding| TestCaseError::fail(format!("{source:?}: {finding:?}")))?;
                    let values: Vec<&str> = alone
                        .segments()
                        .flat_map(|segment| &segment.words)
                        .map(|word| word.value.as_str())
                        .collect();
                    prop_assert_eq!(values, vec!["x", word.value.as_str()]);
                    check_map(&text, word, 0);
                }
            }
        }

        /// Nothing in a list is longer than its source, so memory is linear in it.
        #[test]
        fn what_is_read_is_no_longer_than_the_source(text in "[ab'\"\\\\ \n;|&{}~=:$]{0,64}") {
            if let Ok(list) = parse(&text) {
                let size: usize = list.segments().flat_map(|segment| &segment.words).map(|word| word.value.len()).sum();
                prop_assert!(size <= text.len());
            }
        }
    }
}
