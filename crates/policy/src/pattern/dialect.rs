//! ECMAScript expressions in the words of the Rust engines (M4).
//!
//! What means the same is copied, what has an equivalent is written out (`\d \w \s . \b` are ASCII or have other
//! sets in ECMAScript), and everything else is refused, so that no expression silently means something wider.
//!
//! Without flags ECMAScript matches UTF-16 code units, so that `^.$` does not match an emoji. The Rust engines know
//! characters only; [`code_units`] writes each half of a surrogate pair as a character of its own, for expressions
//! and for what they are tried on.

use std::{borrow::Cow, iter::Peekable, str::Chars};

/// Syntax that has no faithful translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedSyntax {
    /// An escape such as `\cA`, `\p{…}` or a letter without a meaning.
    #[error("an escape that is not supported")]
    Escape,
    /// `[]` or `[^]`.
    #[error("an empty character class")]
    EmptyClass,
    /// A `[` that is never closed.
    #[error("a character class without its end")]
    OpenClass,
    /// `(?` followed by anything but `:`, `=`, `!`, `<=`, `<!` or a name.
    #[error("a kind of group that is not supported")]
    Group,
    /// A quantifier behind a quantifier, behind a look-around or behind nothing.
    #[error("a quantifier with nothing to repeat")]
    Quantifier,
    /// A count of repetitions whose most is less than its least.
    #[error("a count of repetitions that is out of order")]
    Count,
    /// Counts that multiply to more steps than the backtracking engine may take, which counts only those that it takes
    /// back, or to more than either engine can hold.
    #[error("counts of repetitions that multiply to too many")]
    Repeats,
    /// A range whose end comes before its beginning.
    #[error("a character range that is out of order")]
    Range,
    /// A back-reference to a group that is not certain to have matched before it. ECMAScript takes it for the empty
    /// text there, the engines here for a mismatch.
    #[error("a back-reference to a group that is not sure to have matched before it")]
    BackReference,
    /// A look-behind without a fixed length that has a boundary or a look-around in it. The engine tries one length
    /// there where ECMAScript tries all.
    #[error("a look-behind of variable length with a boundary or a look-around in it")]
    LookBehind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) text: String,
    /// Whether it looks around or back, which the linear engine cannot.
    pub(super) backtracking: bool,
}

/// How often something that takes the backtracking engine may have to match in a row.
const MAX_REPEATS: u64 = 1_000;
/// How long an expression with its repetitions written out may be; the linear engine's memory ends before.
const MAX_LENGTH: u64 = 1 << 16;

const DIGIT: &str = "0-9";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str =
    r"\t\n\x0B\x0C\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";
const NOT_SPACE: &str = concat!(
    r"\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}",
    r"\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}"
);
const NOT_DIGIT: &str = r"\x{0}-\x{2F}\x{3A}-\x{10FFFF}";
const NOT_WORD: &str = r"\x{0}-\x{2F}\x{3A}-\x{40}\x{5B}-\x{5E}\x{60}\x{7B}-\x{10FFFF}";
const DOT: &str = r"[^\n\r\x{2028}\x{2029}]";
const BOUNDARY: &str = "(?:(?<=[A-Za-z0-9_])(?![A-Za-z0-9_])|(?<![A-Za-z0-9_])(?=[A-Za-z0-9_]))";
const NOT_BOUNDARY: &str = "(?:(?<=[A-Za-z0-9_])(?=[A-Za-z0-9_])|(?<![A-Za-z0-9_])(?![A-Za-z0-9_]))";

/// Added to a surrogate to make it a character of the last plane. Characters there are pairs themselves, so nothing
/// else is ever written so.
const HALF: u32 = 0x10_0000;
const FIRST_SURROGATE: u32 = 0xd800;
const LAST_SURROGATE: u32 = 0xdfff;

/// Text with every character of more than one UTF-16 code unit as two characters.
pub(super) fn code_units(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte < 0xf0) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.encode_utf16().map(of_unit).collect())
}

/// The character that stands for a code unit.
fn of_unit(unit: u16) -> char {
    let unit = u32::from(unit);
    char::from_u32(unit)
        .or_else(|| char::from_u32(HALF + unit))
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The code unit that a character stands for.
fn unit_of(character: char) -> u32 {
    let code = u32::from(character);
    if code > HALF { code - HALF } else { code }
}

pub(super) fn translate(pattern: &str) -> Result<Translated, UnsupportedSyntax> {
    let pattern = code_units(pattern);
    let first = Translator::new(&pattern, Engine::Linear).run()?;
    if !first.backtracking {
        return Ok(first);
    }
    Translator::new(&pattern, Engine::Backtracking).run()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    Linear,
    Backtracking,
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    engine: Engine,
    text: String,
    backtracking: bool,
    /// Whether a quantifier may follow.
    repeatable: bool,
    /// Of what a quantifier here would repeat.
    weight: Weight,
    /// The groups around this place, the whole expression first.
    open: Vec<OpenGroup>,
    /// Names of the capturing groups so far, by their number less one.
    names: Vec<Option<String>>,
}

/// What a part of an expression costs with its repetitions written out.
#[derive(Debug, Clone, Copy)]
struct Weight {
    /// How often it needs the backtracking engine.
    steps: u64,
    length: u64,
}

impl Weight {
    const NONE: Self = Self { steps: 0, length: 0 };
    /// Something that either engine can match.
    const PLAIN: Self = Self { steps: 0, length: 1 };
    /// Something that takes the backtracking engine.
    const BACKTRACKING: Self = Self { steps: 1, length: 1 };

    const fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            length: self.length.saturating_add(other.length),
        }
    }

    const fn times(self, count: u64) -> Self {
        Self {
            steps: self.steps.saturating_mul(count),
            length: self.length.saturating_mul(count),
        }
    }
}

/// A group whose end is still to come.
#[derive(Debug)]
struct OpenGroup {
    kind: GroupKind,
    has_alternatives: bool,
    /// Numbers of the groups that have matched wherever this place is reached.
    certain: Vec<usize>,
    /// Of what is in it so far.
    weight: Weight,
    /// Of a look-around, whether what it looks at may have several lengths.
    is_variable: bool,
    /// Of a look-around, whether a boundary or another look-around is in it.
    looks_further: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupKind {
    Plain,
    Capturing(usize),
    LookAhead,
    LookBehind,
}

impl OpenGroup {
    const fn new(kind: GroupKind) -> Self {
        Self {
            kind,
            has_alternatives: false,
            certain: Vec::new(),
            weight: Weight::NONE,
            is_variable: false,
            looks_further: false,
        }
    }

    const fn is_look(&self) -> bool {
        matches!(self.kind, GroupKind::LookAhead | GroupKind::LookBehind)
    }
}

/// What one item of a class or one escape stands for.
enum Atom {
    Character(char),
    Set(&'static str),
}

impl<'a> Translator<'a> {
    fn new(pattern: &'a str, engine: Engine) -> Self {
        Self {
            rest: pattern.chars().peekable(),
            engine,
            text: String::with_capacity(pattern.len() * 2),
            backtracking: false,
            repeatable: false,
            weight: Weight::NONE,
            open: vec![OpenGroup::new(GroupKind::Plain)],
            names: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Translated, UnsupportedSyntax> {
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                '.' => self.atom(DOT),
                '*' | '+' | '?' => self.quantifier(&character.to_string())?,
                '{' => match self.counted() {
                    Some(count) if is_out_of_order(&count) => return Err(UnsupportedSyntax::Count),
                    Some(count) => {
                        self.weigh(self.weight.times(most_of(&count).saturating_sub(1)));
                        self.quantifier(&count)?;
                    }
                    None => self.character('{'),
                },
                '|' => {
                    if let Some(group) = self.open.last_mut() {
                        group.has_alternatives = true;
                        group.certain.clear();
                    }
                    self.in_look(|look| look.is_variable = true);
                    self.text.push('|');
                    self.repeatable = false;
                }
                '^' => {
                    self.text.push('^');
                    self.repeatable = false;
                }
                '$' => {
                    self.text.push_str(r"\z");
                    self.repeatable = false;
                }
                ')' => self.end_group()?,
                character => self.character(character),
            }
        }
        let whole = self
            .open
            .iter()
            .fold(Weight::NONE, |sum, group| sum.plus(group.weight));
        if whole.length > MAX_LENGTH || (self.backtracking && whole.steps > MAX_REPEATS) {
            return Err(UnsupportedSyntax::Repeats);
        }
        Ok(Translated {
            text: self.text,
            backtracking: self.backtracking,
        })
    }

    fn atom(&mut self, text: &str) {
        self.text.push_str(text);
        self.whole_atom(Weight::PLAIN);
    }

    fn character(&mut self, character: char) {
        push_literal(&mut self.text, character);
        self.whole_atom(Weight::PLAIN);
    }

    /// Notes that something was written which may be repeated.
    fn whole_atom(&mut self, weight: Weight) {
        self.repeatable = true;
        self.weight = weight;
        self.weigh(weight);
    }

    /// Adds to what is in the group around this place.
    fn weigh(&mut self, weight: Weight) {
        if let Some(group) = self.open.last_mut() {
            group.weight = group.weight.plus(weight);
        }
    }

    /// Notes something about the look-around that this place is in.
    fn in_look(&mut self, note: impl FnOnce(&mut OpenGroup)) {
        if let Some(look) = self.open.iter_mut().rev().find(|group| group.is_look()) {
            note(look);
        }
    }

    fn quantifier(&mut self, quantifier: &str) -> Result<(), UnsupportedSyntax> {
        if !self.repeatable {
            return Err(UnsupportedSyntax::Quantifier);
        }
        if !quantifier.starts_with('{') || quantifier.contains(',') {
            self.in_look(|look| look.is_variable = true);
        }
        self.text.push_str(quantifier);
        if self.rest.next_if_eq(&'?').is_some() {
            self.text.push('?');
        }
        self.repeatable = false;
        Ok(())
    }

    /// Reads `{n}`, `{n,}` or `{n,m}` behind the brace; anything else leaves the brace literal.
    fn counted(&mut self) -> Option<String> {
        let mut ahead = self.rest.clone();
        let mut count = String::from("{");
        while let Some(digit) = ahead.next_if(char::is_ascii_digit) {
            count.push(digit);
        }
        if count.len() == 1 {
            return None;
        }
        if let Some(comma) = ahead.next_if_eq(&',') {
            count.push(comma);
            while let Some(digit) = ahead.next_if(char::is_ascii_digit) {
                count.push(digit);
            }
        }
        count.push(ahead.next_if_eq(&'}')?);
        self.rest = ahead;
        Some(count)
    }

    fn group(&mut self) -> Result<(), UnsupportedSyntax> {
        self.repeatable = false;
        let kind = if self.rest.next_if_eq(&'?').is_none() {
            self.text.push('(');
            self.capture(None)
        } else {
            match self.rest.next() {
                Some(':') => {
                    self.text.push_str("(?:");
                    GroupKind::Plain
                }
                Some(look @ ('=' | '!')) => self.look("(?", look, GroupKind::LookAhead),
                Some('<') => match self.rest.peek().copied() {
                    Some(look @ ('=' | '!')) => {
                        self.rest.next();
                        self.look("(?<", look, GroupKind::LookBehind)
                    }
                    Some(first) if first.is_ascii_alphabetic() || first == '_' => {
                        self.text.push_str("(?<");
                        let name = Some(self.name()?);
                        // Older ECMAScript has no two groups of one name, and the engines differ about them.
                        if self.names.contains(&name) {
                            return Err(UnsupportedSyntax::Group);
                        }
                        self.capture(name)
                    }
                    _ => return Err(UnsupportedSyntax::Group),
                },
                _ => return Err(UnsupportedSyntax::Group),
            }
        };
        self.open.push(OpenGroup::new(kind));
        Ok(())
    }

    fn look(&mut self, beginning: &str, look: char, kind: GroupKind) -> GroupKind {
        self.backtracking = true;
        self.in_look(|around| around.looks_further = true);
        self.text.push_str(beginning);
        self.text.push(look);
        kind
    }

    fn capture(&mut self, name: Option<String>) -> GroupKind {
        self.names.push(name);
        GroupKind::Capturing(self.names.len())
    }

    fn end_group(&mut self) -> Result<(), UnsupportedSyntax> {
        let group = self
            .open
            .pop()
            .filter(|_| !self.open.is_empty())
            .ok_or(UnsupportedSyntax::Group)?;
        if group.kind == GroupKind::LookBehind && group.is_variable && group.looks_further {
            return Err(UnsupportedSyntax::LookBehind);
        }
        self.text.push(')');
        self.repeatable = !group.is_look();
        self.weight = match group.kind {
            GroupKind::Plain => group.weight,
            GroupKind::Capturing(_) | GroupKind::LookAhead | GroupKind::LookBehind => {
                group.weight.plus(Weight::BACKTRACKING)
            }
        };
        self.weigh(self.weight);
        let may_be_left_out = match self.rest.peek() {
            Some('*' | '?') => true,
            Some('{') => self.rest.clone().nth(1) == Some('0'),
            _ => false,
        };
        if !self.repeatable || may_be_left_out {
            return Ok(());
        }
        if let Some(around) = self.open.last_mut() {
            if !group.has_alternatives {
                around.certain.extend(group.certain);
            }
            if let GroupKind::Capturing(number) = group.kind {
                around.certain.push(number);
            }
        }
        Ok(())
    }

    /// Whether a group has matched wherever this place is reached. Behind a look-behind's beginning the order of
    /// matching is the other way round, so nothing is certain there.
    fn refer(&self, number: usize) -> Result<(), UnsupportedSyntax> {
        let is_behind = self.open.iter().any(|group| group.kind == GroupKind::LookBehind);
        let is_certain = self.open.iter().any(|group| group.certain.contains(&number));
        if is_certain && !is_behind {
            Ok(())
        } else {
            Err(UnsupportedSyntax::BackReference)
        }
    }

    /// Copies a group's name with its closing bracket.
    fn name(&mut self) -> Result<String, UnsupportedSyntax> {
        let mut name = String::new();
        for character in self.rest.by_ref() {
            match character {
                '>' => {
                    self.text.push_str(&name);
                    self.text.push('>');
                    return Ok(name);
                }
                character if character.is_ascii_alphanumeric() || character == '_' => name.push(character),
                _ => return Err(UnsupportedSyntax::Group),
            }
        }
        Err(UnsupportedSyntax::Group)
    }

    fn escape(&mut self) -> Result<(), UnsupportedSyntax> {
        match self.rest.peek() {
            Some(boundary @ ('b' | 'B')) => {
                let text = match (self.engine, boundary) {
                    (Engine::Linear, 'b') => r"(?-u:\b)",
                    (Engine::Backtracking, 'b') => BOUNDARY,
                    // The complement in ASCII may match inside a character, so it is always written out.
                    (Engine::Linear | Engine::Backtracking, _) => NOT_BOUNDARY,
                };
                self.backtracking |= self.engine == Engine::Backtracking || text == NOT_BOUNDARY;
                self.weigh(Weight::BACKTRACKING);
                self.in_look(|look| look.looks_further = true);
                self.text.push_str(text);
                self.rest.next();
                self.repeatable = false;
            }
            Some('1'..='9') => {
                let mut digits = String::new();
                while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
                    digits.push(digit);
                }
                self.refer(digits.parse().ok().unwrap_or(usize::MAX))?;
                self.backtracking = true;
                for part in [r"(?:\", &digits, ")"] {
                    self.text.push_str(part);
                }
                self.whole_atom(Weight::BACKTRACKING);
            }
            Some('k') => {
                self.rest.next();
                if self.rest.next_if_eq(&'<').is_none() {
                    return Err(UnsupportedSyntax::Escape);
                }
                self.backtracking = true;
                self.text.push_str(r"\k<");
                let name = Some(self.name()?);
                let number = self.names.iter().position(|known| *known == name);
                self.refer(number.map_or(usize::MAX, |at| at + 1))?;
                self.whole_atom(Weight::BACKTRACKING);
            }
            _ => match escaped(&mut self.rest)? {
                Atom::Character(character) => self.character(character),
                Atom::Set(set) => {
                    self.text.push('[');
                    self.text.push_str(set);
                    self.atom("]");
                }
            },
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), UnsupportedSyntax> {
        self.text.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.text.push('^');
        }
        if self.rest.peek() == Some(&']') {
            return Err(UnsupportedSyntax::EmptyClass);
        }
        while let Some(first) = self.class_atom()? {
            let mut ahead = self.rest.clone();
            // A dash at the end is a dash; the next round takes it.
            let is_range = ahead.next_if_eq(&'-').is_some() && !matches!(ahead.peek(), None | Some(']'));
            if !is_range {
                push_class_atom(&mut self.text, &first);
                continue;
            }
            self.rest.next();
            let last = self.class_atom()?.ok_or(UnsupportedSyntax::OpenClass)?;
            if let (Atom::Character(first), Atom::Character(last)) = (&first, &last) {
                push_range(&mut self.text, *first, *last)?;
                continue;
            }
            // With a set at one end it is no range, and yet all three are used up (ECMAScript, annex B.1.2).
            for atom in [first, Atom::Character('-'), last] {
                push_class_atom(&mut self.text, &atom);
            }
        }
        self.atom("]");
        Ok(())
    }

    /// The next item of a class; `None` at its end.
    fn class_atom(&mut self) -> Result<Option<Atom>, UnsupportedSyntax> {
        match self.rest.next() {
            None => Err(UnsupportedSyntax::OpenClass),
            Some(']') => Ok(None),
            Some('\\') if self.rest.next_if_eq(&'b').is_some() => Ok(Some(Atom::Character('\u{8}'))),
            Some('\\') => escaped(&mut self.rest).map(Some),
            Some(character) => Ok(Some(Atom::Character(character))),
        }
    }
}

/// What an escape stands for, read behind its backslash.
fn escaped(rest: &mut Peekable<Chars<'_>>) -> Result<Atom, UnsupportedSyntax> {
    let character = rest.next().ok_or(UnsupportedSyntax::Escape)?;
    Ok(match character {
        'd' => Atom::Set(DIGIT),
        'D' => Atom::Set(NOT_DIGIT),
        'w' => Atom::Set(WORD),
        'W' => Atom::Set(NOT_WORD),
        's' => Atom::Set(SPACE),
        'S' => Atom::Set(NOT_SPACE),
        'n' => Atom::Character('\n'),
        'r' => Atom::Character('\r'),
        't' => Atom::Character('\t'),
        'f' => Atom::Character('\u{c}'),
        'v' => Atom::Character('\u{b}'),
        '0' if !rest.peek().is_some_and(char::is_ascii_digit) => Atom::Character('\0'),
        'x' => Atom::Character(hexadecimal(rest, 2)?),
        'u' => Atom::Character(hexadecimal(rest, 4)?),
        character if character.is_ascii_alphanumeric() => return Err(UnsupportedSyntax::Escape),
        character => Atom::Character(character),
    })
}

fn hexadecimal(rest: &mut Peekable<Chars<'_>>, digits: usize) -> Result<char, UnsupportedSyntax> {
    let mut value = 0;
    for _ in 0..digits {
        let digit = rest.next().and_then(|digit| digit.to_digit(16));
        value = value * 16 + digit.ok_or(UnsupportedSyntax::Escape)?;
    }
    let unit = u16::try_from(value).ok().ok_or(UnsupportedSyntax::Escape)?;
    Ok(of_unit(unit))
}

fn push_literal(text: &mut String, character: char) {
    let mut buffer = [0; 4];
    text.push_str(&regex::escape(character.encode_utf8(&mut buffer)));
}

fn push_class_atom(text: &mut String, atom: &Atom) {
    match atom {
        Atom::Character(character) => push_class_literal(text, *character),
        Atom::Set(set) => text.push_str(set),
    }
}

/// Both engines give `[ & ~ -` a meaning inside classes that ECMAScript does not know.
fn push_class_literal(text: &mut String, character: char) {
    if matches!(character, '\\' | '[' | ']' | '^' | '-' | '&' | '~') {
        text.push('\\');
    }
    text.push(character);
}

/// A range of code units. The surrogates among them are elsewhere, so a range across them becomes up to three.
fn push_range(text: &mut String, first: char, last: char) -> Result<(), UnsupportedSyntax> {
    let (first, last) = (unit_of(first), unit_of(last));
    if first > last {
        return Err(UnsupportedSyntax::Range);
    }
    let pieces = [
        (first, last.min(FIRST_SURROGATE - 1), 0),
        (first.max(FIRST_SURROGATE), last.min(LAST_SURROGATE), HALF),
        (first.max(LAST_SURROGATE + 1), last, 0),
    ];
    for (from, to, offset) in pieces {
        if from > to {
            continue;
        }
        let ends = [from, to].map(|unit| char::from_u32(unit + offset));
        if let [Some(from), Some(to)] = ends {
            push_class_literal(text, from);
            text.push('-');
            push_class_literal(text, to);
        }
    }
    Ok(())
}

/// The larger number of `{n}`, `{n,}` and `{n,m}`.
fn most_of(count: &str) -> u64 {
    let numbers = count.trim_matches(['{', '}']).split(',');
    let number = |digits: &str| {
        digits
            .parse()
            .unwrap_or(if digits.is_empty() { 0 } else { u64::MAX })
    };
    numbers.map(number).max().unwrap_or_default()
}

/// Whether `{n,m}` has an `m` less than its `n`, however many digits they have. Not every engine says so.
fn is_out_of_order(count: &str) -> bool {
    let numbers = count.trim_matches(['{', '}']).split_once(',');
    numbers.is_some_and(|(least, most)| {
        let (least, most) = (least.trim_start_matches('0'), most.trim_start_matches('0'));
        !count.ends_with(",}") && (most.len(), most) < (least.len(), least)
    })
}
