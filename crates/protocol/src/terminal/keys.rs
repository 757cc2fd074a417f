//! Keys by the names that tmux gives them, as the bytes that xterm sends for them
//! (`docs/spec/exec-tool.md#8-the-process-tool`).
//!
//! The names are data (`NAMED`); how modifiers change a key depends only on its `Code`. What goes out is bounded for
//! any input ([`MAX_BYTES`], [`MAX_WARNINGS`]).

/// Most bytes that one call may make.
pub const MAX_BYTES: usize = 64 * 1024;

/// Most warnings that one call gives; what is wrong after that is wrong in the same way.
pub(crate) const MAX_WARNINGS: usize = 16;

/// Most characters of a key's name that a warning repeats.
const MAX_SHOWN_CHARS: usize = 40;

const ESCAPE: u8 = 0x1b;

/// What the arrows, Home, End and the keypad send: programs that draw on the whole screen switch it (DECCKM).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum CursorKeys {
    /// `ESC [ A`, and the keypad sends what is printed on it.
    #[default]
    Normal,
    /// `ESC O A`, and the keypad has codes of its own.
    Application,
}

/// The bytes of what was typed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyInput {
    /// What the program reads.
    pub bytes: Vec<u8>,
    /// What was sent otherwise than it was written, in sentences for the caller who wrote it.
    pub warnings: Vec<String>,
}

/// Why nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeys {
    /// There was no text and no key.
    #[error("give a literal text, hex bytes or keys")]
    Nothing,
    /// A key without a name.
    #[error("key {0} is empty")]
    EmptyKey(usize),
    /// Something that is not one byte in hexadecimal.
    #[error("hex entry {0} is not one byte: write two digits such as 1b, or 0x1b")]
    Hex(usize),
    /// It makes more than [`MAX_BYTES`].
    #[error("the keys make more than {MAX_BYTES} bytes; send them in several calls")]
    TooLong,
}

/// The bytes for a text, bytes in hexadecimal and keys, in this order.
///
/// # Errors
/// [`InvalidKeys`]; the numbers in it count from 0.
pub fn encode(
    literal: Option<&str>,
    hex: &[String],
    keys: &[String],
    mode: CursorKeys,
) -> Result<KeyInput, InvalidKeys> {
    let literal = literal.unwrap_or_default();
    if literal.is_empty() && hex.is_empty() && keys.is_empty() {
        return Err(InvalidKeys::Nothing);
    }
    let mut typed = KeyInput::default();
    add(&mut typed.bytes, literal.as_bytes())?;
    for (at, entry) in hex.iter().enumerate() {
        let byte = parse_hex(entry).ok_or(InvalidKeys::Hex(at))?;
        add(&mut typed.bytes, &[byte])?;
    }
    for (at, key) in keys.iter().enumerate() {
        if key.is_empty() {
            return Err(InvalidKeys::EmptyKey(at));
        }
        let Pressed { bytes, warning } = press(key, mode);
        add(&mut typed.bytes, &bytes)?;
        if let Some(warning) = warning.filter(|_| typed.warnings.len() < MAX_WARNINGS) {
            typed.warnings.push(warning);
        }
    }
    Ok(typed)
}

/// A text as a terminal pastes it. With `bracketed` a program that asked for it can tell it from typing; the text
/// cannot end the bracket itself, since what marks its end is taken out until nothing of it is left.
pub fn paste(text: &str, bracketed: bool) -> Vec<u8> {
    if !bracketed {
        return text.as_bytes().to_vec();
    }
    let mut bytes = b"\x1b[200~".to_vec();
    let start = bytes.len();
    // The second form is the same mark with the introducer as one character.
    for byte in text.bytes() {
        bytes.push(byte);
        for mark in [b"\x1b[201~".as_slice(), "\u{9b}201~".as_bytes()] {
            if bytes.get(start..).is_some_and(|text| text.ends_with(mark)) {
                // Taken out where it is complete, so that what was around it cannot make another one unseen.
                bytes.truncate(bytes.len() - mark.len());
            }
        }
    }
    bytes.extend(b"\x1b[201~");
    bytes
}

fn add(bytes: &mut Vec<u8>, more: &[u8]) -> Result<(), InvalidKeys> {
    if bytes.len() + more.len() > MAX_BYTES {
        return Err(InvalidKeys::TooLong);
    }
    bytes.extend_from_slice(more);
    Ok(())
}

fn parse_hex(entry: &str) -> Option<u8> {
    let digits = entry
        .strip_prefix("0x")
        .or_else(|| entry.strip_prefix("0X"))
        .unwrap_or(entry);
    let is_byte = matches!(digits.len(), 1 | 2) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_byte.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// What a key sends, which decides how modifiers change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    /// One character.
    Character(char),
    /// `ESC [ X`, or `ESC O X` in application mode.
    Cursor(char),
    /// `ESC O X` always: the first four function keys.
    Function(char),
    /// `ESC [ n ~`.
    Numbered(u8),
    /// A character, or `ESC O X` in application mode.
    Keypad(char, char),
    BackTab,
}

/// The names of keys; upper and lower case are the same.
const NAMED: &[(&str, Code)] = &[
    ("Enter", Code::Character('\r')),
    ("Tab", Code::Character('\t')),
    ("Escape", Code::Character('\u{1b}')),
    ("Space", Code::Character(' ')),
    ("BSpace", Code::Character('\u{7f}')),
    ("BTab", Code::BackTab),
    ("Up", Code::Cursor('A')),
    ("Down", Code::Cursor('B')),
    ("Right", Code::Cursor('C')),
    ("Left", Code::Cursor('D')),
    ("End", Code::Cursor('F')),
    ("Home", Code::Cursor('H')),
    ("IC", Code::Numbered(2)),
    ("Insert", Code::Numbered(2)),
    ("DC", Code::Numbered(3)),
    ("Delete", Code::Numbered(3)),
    ("PageUp", Code::Numbered(5)),
    ("PgUp", Code::Numbered(5)),
    ("PPage", Code::Numbered(5)),
    ("PageDown", Code::Numbered(6)),
    ("PgDn", Code::Numbered(6)),
    ("NPage", Code::Numbered(6)),
    ("F1", Code::Function('P')),
    ("F2", Code::Function('Q')),
    ("F3", Code::Function('R')),
    ("F4", Code::Function('S')),
    ("F5", Code::Numbered(15)),
    ("F6", Code::Numbered(17)),
    ("F7", Code::Numbered(18)),
    ("F8", Code::Numbered(19)),
    ("F9", Code::Numbered(20)),
    ("F10", Code::Numbered(21)),
    ("F11", Code::Numbered(23)),
    ("F12", Code::Numbered(24)),
    ("KP0", Code::Keypad('0', 'p')),
    ("KP1", Code::Keypad('1', 'q')),
    ("KP2", Code::Keypad('2', 'r')),
    ("KP3", Code::Keypad('3', 's')),
    ("KP4", Code::Keypad('4', 't')),
    ("KP5", Code::Keypad('5', 'u')),
    ("KP6", Code::Keypad('6', 'v')),
    ("KP7", Code::Keypad('7', 'w')),
    ("KP8", Code::Keypad('8', 'x')),
    ("KP9", Code::Keypad('9', 'y')),
    ("KP/", Code::Keypad('/', 'o')),
    ("KP*", Code::Keypad('*', 'j')),
    ("KP-", Code::Keypad('-', 'm')),
    ("KP+", Code::Keypad('+', 'k')),
    ("KP.", Code::Keypad('.', 'n')),
    ("KPEnter", Code::Keypad('\r', 'M')),
];

/// What is held down while a key is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Held {
    control: bool,
    meta: bool,
    shift: bool,
}

impl Held {
    const fn is_nothing(self) -> bool {
        !self.control && !self.meta && !self.shift
    }

    /// The parameter that xterm puts into the sequence of a key.
    fn parameter(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.meta) + 4 * u8::from(self.control)
    }
}

/// What one key came to.
struct Pressed {
    bytes: Vec<u8>,
    warning: Option<String>,
}

impl Pressed {
    const fn as_written(bytes: Vec<u8>) -> Self {
        Self { bytes, warning: None }
    }

    fn with_warning(bytes: Vec<u8>, key: &str, why: &str) -> Self {
        let shown: String = key
            .chars()
            .take(MAX_SHOWN_CHARS)
            .flat_map(char::escape_debug)
            .collect();
        let cut = if key.chars().nth(MAX_SHOWN_CHARS).is_some() {
            "…"
        } else {
            ""
        };
        Self {
            bytes,
            warning: Some(format!("{shown}{cut}: {why}")),
        }
    }
}

/// One key, with its modifiers. What has no name is text.
fn press(key: &str, mode: CursorKeys) -> Pressed {
    let (held, name) = match key.strip_prefix('^').and_then(only_char) {
        Some(_) => (
            Held {
                control: true,
                ..Held::default()
            },
            key.get(1..).unwrap_or_default(),
        ),
        None => split_modifiers(key),
    };
    let named = NAMED
        .iter()
        .find(|(other, _)| other.eq_ignore_ascii_case(name))
        .map(|(_, code)| *code);
    match named.or_else(|| only_char(name).map(Code::Character)) {
        Some(code) => press_code(code, held, mode, key),
        None if held.is_nothing() => Pressed::as_written(name.as_bytes().to_vec()),
        None => Pressed::with_warning(
            name.as_bytes().to_vec(),
            key,
            "no key has this name; the name was sent as text, without its modifiers",
        ),
    }
}

/// Takes `C-`, `M-` and `S-` from the front, as long as something is left behind them.
fn split_modifiers(key: &str) -> (Held, &str) {
    let mut held = Held::default();
    let mut rest = key;
    while let Some((modifier, behind)) = rest.split_once('-').filter(|(_, behind)| !behind.is_empty()) {
        match modifier {
            "C" | "c" => held.control = true,
            "M" | "m" => held.meta = true,
            "S" | "s" => held.shift = true,
            _ => break,
        }
        rest = behind;
    }
    (held, rest)
}

fn only_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

fn press_code(code: Code, held: Held, mode: CursorKeys, key: &str) -> Pressed {
    let is_application = mode == CursorKeys::Application;
    let parameter = held.parameter();
    let sequence = match code {
        Code::Keypad(_, letter) if is_application && held.is_nothing() => format!("\x1bO{letter}"),
        Code::Character(character) | Code::Keypad(character, _) => {
            return press_character(character, held, key);
        }
        Code::Cursor(letter) if held.is_nothing() && is_application => format!("\x1bO{letter}"),
        Code::Cursor(letter) if held.is_nothing() => format!("\x1b[{letter}"),
        Code::Function(letter) if held.is_nothing() => format!("\x1bO{letter}"),
        Code::Cursor(letter) | Code::Function(letter) => format!("\x1b[1;{parameter}{letter}"),
        Code::Numbered(number) if held.is_nothing() => format!("\x1b[{number}~"),
        Code::Numbered(number) => format!("\x1b[{number};{parameter}~"),
        Code::BackTab => back_tab(held),
    };
    Pressed::as_written(sequence.into_bytes())
}

/// Shift is part of this key.
fn back_tab(held: Held) -> String {
    let held = Held { shift: true, ..held };
    if held.control || held.meta {
        format!("\x1b[1;{}Z", held.parameter())
    } else {
        "\x1b[Z".to_owned()
    }
}

fn press_character(character: char, held: Held, key: &str) -> Pressed {
    if character == '\t' && held.shift {
        return Pressed::as_written(back_tab(held).into_bytes());
    }
    let mut is_ineffective = false;
    let mut sent = character;
    if held.shift {
        match sent {
            'a'..='z' => sent = sent.to_ascii_uppercase(),
            'A'..='Z' => {}
            // What Shift makes of it depends on a keyboard that is not there.
            _ => is_ineffective = true,
        }
    }
    if held.control {
        match control_of(sent) {
            Some(control) => sent = control,
            None => is_ineffective = true,
        }
    }
    let mut bytes = Vec::new();
    if held.meta {
        bytes.push(ESCAPE);
    }
    bytes.extend(sent.encode_utf8(&mut [0; 4]).as_bytes());
    if is_ineffective {
        Pressed::with_warning(
            bytes,
            key,
            "terminals have no code for it; the nearest key was sent",
        )
    } else {
        Pressed::as_written(bytes)
    }
}

/// The control character that a key has, as xterm sends it.
const fn control_of(character: char) -> Option<char> {
    Some(match character {
        'a'..='z' => (character as u8 - b'a' + 1) as char,
        '@'..='_' => (character as u8 - b'@') as char,
        ' ' | '2' => '\0',
        '3' => '\u{1b}',
        '4' => '\u{1c}',
        '5' => '\u{1d}',
        '6' => '\u{1e}',
        '7' | '/' => '\u{1f}',
        '8' | '?' => '\u{7f}',
        '\u{7f}' => '\u{8}',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOTH: [CursorKeys; 2] = [CursorKeys::Normal, CursorKeys::Application];

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    fn press_in(mode: CursorKeys, key: &str) -> (String, usize) {
        let typed = encode(None, &[], &texts(&[key]), mode).unwrap();
        (String::from_utf8(typed.bytes).unwrap(), typed.warnings.len())
    }

    /// Name, what it sends, and what it sends in application mode.
    const EVERY_KEY: &[(&str, &str, &str)] = &[
        ("Enter", "\r", "\r"),
        ("Tab", "\t", "\t"),
        ("Escape", "\x1b", "\x1b"),
        ("Space", " ", " "),
        ("BSpace", "\x7f", "\x7f"),
        ("BTab", "\x1b[Z", "\x1b[Z"),
        ("Up", "\x1b[A", "\x1bOA"),
        ("Down", "\x1b[B", "\x1bOB"),
        ("Right", "\x1b[C", "\x1bOC"),
        ("Left", "\x1b[D", "\x1bOD"),
        ("End", "\x1b[F", "\x1bOF"),
        ("Home", "\x1b[H", "\x1bOH"),
        ("IC", "\x1b[2~", "\x1b[2~"),
        ("Insert", "\x1b[2~", "\x1b[2~"),
        ("DC", "\x1b[3~", "\x1b[3~"),
        ("Delete", "\x1b[3~", "\x1b[3~"),
        ("PageUp", "\x1b[5~", "\x1b[5~"),
        ("PgUp", "\x1b[5~", "\x1b[5~"),
        ("PPage", "\x1b[5~", "\x1b[5~"),
        ("PageDown", "\x1b[6~", "\x1b[6~"),
        ("PgDn", "\x1b[6~", "\x1b[6~"),
        ("NPage", "\x1b[6~", "\x1b[6~"),
        ("F1", "\x1bOP", "\x1bOP"),
        ("F2", "\x1bOQ", "\x1bOQ"),
        ("F3", "\x1bOR", "\x1bOR"),
        ("F4", "\x1bOS", "\x1bOS"),
        ("F5", "\x1b[15~", "\x1b[15~"),
        ("F6", "\x1b[17~", "\x1b[17~"),
        ("F7", "\x1b[18~", "\x1b[18~"),
        ("F8", "\x1b[19~", "\x1b[19~"),
        ("F9", "\x1b[20~", "\x1b[20~"),
        ("F10", "\x1b[21~", "\x1b[21~"),
        ("F11", "\x1b[23~", "\x1b[23~"),
        ("F12", "\x1b[24~", "\x1b[24~"),
        ("KP0", "0", "\x1bOp"),
        ("KP1", "1", "\x1bOq"),
        ("KP2", "2", "\x1bOr"),
        ("KP3", "3", "\x1bOs"),
        ("KP4", "4", "\x1bOt"),
        ("KP5", "5", "\x1bOu"),
        ("KP6", "6", "\x1bOv"),
        ("KP7", "7", "\x1bOw"),
        ("KP8", "8", "\x1bOx"),
        ("KP9", "9", "\x1bOy"),
        ("KP/", "/", "\x1bOo"),
        ("KP*", "*", "\x1bOj"),
        ("KP-", "-", "\x1bOm"),
        ("KP+", "+", "\x1bOk"),
        ("KP.", ".", "\x1bOn"),
        ("KPEnter", "\r", "\x1bOM"),
    ];

    #[test]
    fn every_named_key_sends_what_xterm_sends() {
        let names: Vec<_> = NAMED.iter().map(|(name, _)| *name).collect();
        let tested: Vec<_> = EVERY_KEY.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, tested, "a key without a test");
        for (name, normal, application) in EVERY_KEY {
            for spelled in [(*name).to_owned(), name.to_lowercase(), name.to_uppercase()] {
                assert_eq!(
                    press_in(CursorKeys::Normal, &spelled),
                    ((*normal).to_owned(), 0),
                    "{spelled}"
                );
                assert_eq!(
                    press_in(CursorKeys::Application, &spelled),
                    ((*application).to_owned(), 0),
                    "{spelled} in application mode"
                );
            }
        }
    }

    #[test]
    fn modifiers_change_keys_with_sequences_by_their_parameter() {
        // In any order, and the mode does not count any more.
        let every = [
            ("S-", 2),
            ("M-", 3),
            ("S-M-", 4),
            ("C-", 5),
            ("S-C-", 6),
            ("M-C-", 7),
            ("C-M-", 7),
            ("S-M-C-", 8),
            ("C-M-S-", 8),
            ("c-m-s-", 8),
        ];
        for mode in BOTH {
            for (modifiers, parameter) in every {
                for (name, code) in NAMED {
                    let expected = match code {
                        Code::Cursor(letter) | Code::Function(letter) => {
                            format!("\x1b[1;{parameter}{letter}")
                        }
                        Code::Numbered(number) => format!("\x1b[{number};{parameter}~"),
                        Code::Character(_) | Code::Keypad(..) | Code::BackTab => continue,
                    };
                    let key = format!("{modifiers}{name}");
                    assert_eq!(press_in(mode, &key), (expected, 0), "{key}");
                }
            }
        }
    }

    #[test]
    fn characters_are_sent_with_their_modifiers() {
        for (key, expected) in [
            ("a", "a"),
            ("Z", "Z"),
            ("é", "é"),
            ("-", "-"),
            ("^", "^"),
            ("S-a", "A"),
            ("S-A", "A"),
            ("C-a", "\x01"),
            ("C-c", "\x03"),
            ("C-z", "\x1a"),
            ("C-C", "\x03"),
            ("S-C-c", "\x03"),
            ("^c", "\x03"),
            ("^C", "\x03"),
            ("^D", "\x04"),
            ("^[", "\x1b"),
            ("^?", "\x7f"),
            ("^@", "\0"),
            ("C-Space", "\0"),
            ("C-@", "\0"),
            ("C-[", "\x1b"),
            ("C-\\", "\x1c"),
            ("C-]", "\x1d"),
            ("C-^", "\x1e"),
            ("C-_", "\x1f"),
            ("C-/", "\x1f"),
            ("C-?", "\x7f"),
            ("C-2", "\0"),
            ("C-3", "\x1b"),
            ("C-4", "\x1c"),
            ("C-5", "\x1d"),
            ("C-6", "\x1e"),
            ("C-7", "\x1f"),
            ("C-8", "\x7f"),
            ("M-a", "\x1ba"),
            ("M-é", "\x1bé"),
            ("M--", "\x1b-"),
            ("M-S-a", "\x1bA"),
            ("M-C-a", "\x1b\x01"),
            ("C-M-a", "\x1b\x01"),
            ("M-Enter", "\x1b\r"),
            ("M-Escape", "\x1b\x1b"),
            ("M-BSpace", "\x1b\x7f"),
            ("C-BSpace", "\x08"),
            ("S-Tab", "\x1b[Z"),
            ("S-BTab", "\x1b[Z"),
            ("M-BTab", "\x1b[1;4Z"),
            ("C-S-Tab", "\x1b[1;6Z"),
            ("M-KP5", "\x1b5"),
            ("C-KP/", "\x1f"),
        ] {
            for mode in BOTH {
                assert_eq!(press_in(mode, key), (expected.to_owned(), 0), "{key}");
            }
        }
    }

    #[test]
    fn what_is_no_key_is_text_and_a_modifier_that_is_lost_is_told() {
        for (key, expected, warnings) in [
            ("hello", "hello", 0),
            ("git-log", "git-log", 0),
            ("C-", "C-", 0),
            ("^^x", "^^x", 0),
            ("F13", "F13", 0),
            ("C-hello", "hello", 1),
            ("M-C-", "C-", 1),
            ("S-1", "1", 1),
            ("C-1", "1", 1),
            ("C-é", "é", 1),
            ("^é", "é", 1),
            ("C-Enter", "\r", 1),
            ("S-Space", " ", 1),
        ] {
            assert_eq!(
                press_in(CursorKeys::Normal, key),
                (expected.to_owned(), warnings),
                "{key}"
            );
        }
        let typed = encode(None, &[], &texts(&["C-no\x1b[31m"]), CursorKeys::Normal).unwrap();
        assert_eq!(
            typed.warnings,
            [r"C-no\u{1b}[31m: no key has this name; the name was sent as text, without its modifiers"]
        );
    }

    #[test]
    fn text_comes_first_then_bytes_then_keys() {
        let typed = encode(
            Some("ls -l"),
            &texts(&["0x1b", "5B", "0X4", "d"]),
            &texts(&["C-c", "Enter"]),
            CursorKeys::Normal,
        );
        assert_eq!(typed.unwrap().bytes, b"ls -l\x1b[\x04\r\x03\r");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let check = |literal: Option<&str>, hex: &[&str], keys: &[&str], expect| {
            let typed = encode(literal, &texts(hex), &texts(keys), CursorKeys::Normal);
            assert_eq!(typed, Err(expect), "{hex:?} {keys:?}");
        };
        check(None, &[], &[], InvalidKeys::Nothing);
        check(Some(""), &[], &[], InvalidKeys::Nothing);
        for hex in ["", "0x", "123", "0x123", "g", "+1", " 1", "é"] {
            check(None, &["1b", hex], &[], InvalidKeys::Hex(1));
        }
        check(None, &[], &["a", ""], InvalidKeys::EmptyKey(1));
        let long = "x".repeat(MAX_BYTES);
        check(Some(&long), &["1"], &[], InvalidKeys::TooLong);
        assert!(encode(Some(&long), &[], &[], CursorKeys::Normal).is_ok());
    }

    #[test]
    fn warnings_are_bounded() {
        let long = format!("C-{}", "x".repeat(1000));
        let typed = encode(None, &[], &texts(&[long.as_str(); 30]), CursorKeys::Normal).unwrap();
        assert_eq!(typed.warnings.len(), MAX_WARNINGS);
        assert!(typed.warnings.iter().all(|warning| warning.len() < 200));
    }

    #[test]
    fn a_pasted_text_cannot_end_its_bracket() {
        for (text, expected) in [
            ("two\nlines", "two\nlines"),
            ("a\x1b[201~rm -rf /\r", "arm -rf /\r"),
            // What is left when the mark in the middle is gone.
            ("\x1b[20\x1b[201~1~x", "x"),
            ("\x1b[2\x1b[2\x1b[201~01~01~x", "x"),
            ("\u{9b}201~x", "x"),
            ("\x1b[20\u{9b}201~1~x", "x"),
            ("\x1b[200~x", "\x1b[200~x"),
        ] {
            let expected = format!("\x1b[200~{expected}\x1b[201~");
            assert_eq!(paste(text, true), expected.as_bytes(), "{text:?}");
        }
        assert_eq!(paste("a\x1b[201~b", false), b"a\x1b[201~b");
    }

    proptest! {
        #[test]
        fn no_keys_panic_and_all_are_bounded(
            literal in prop::option::of(".*"),
            hex in prop::collection::vec("(0x)?[0-9a-fg]{0,3}", 0..3),
            keys in prop::collection::vec(r"([CMScms]-|\^){0,4}(\PC{0,5}|Up|KP.|F[0-9]{1,2})", 0..20),
            is_application in any::<bool>(),
        ) {
            let mode = BOTH[usize::from(is_application)];
            if let Ok(typed) = encode(literal.as_deref(), &hex, &keys, mode) {
                // The longest sequence is that of a function key with all modifiers.
                let text: usize = keys.iter().map(|key| key.len().max(8)).sum();
                prop_assert!(typed.bytes.len() <= literal.unwrap_or_default().len() + hex.len() + text);
                prop_assert!(typed.warnings.len() <= MAX_WARNINGS);
            }
        }

        #[test]
        fn a_bracket_ends_once(text in r"(\x1b|\[|2|0|1|~|\u{9b}|201~|\x1b\[201~|x){0,40}") {
            let pasted = paste(&text, true);
            let marks = |mark: &[u8]| pasted.windows(mark.len()).filter(|at| *at == mark).count();
            prop_assert_eq!(marks(b"\x1b[201~"), 1);
            prop_assert_eq!(marks("\u{9b}201~".as_bytes()), 0);
        }
    }
}
