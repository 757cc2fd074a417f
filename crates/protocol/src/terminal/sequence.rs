//! Output of a program taken apart into what is drawn and what asks the terminal something.
//!
//! The screen never sees texts for others (window titles, the clipboard, device strings), which it would keep until
//! their end, nor repetitions longer than a line: what a few bytes make it do stays small.

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;

/// Longer ones are left out: no program needs them.
const MAX_SEQUENCE_BYTES: usize = 128;

/// What a program asks its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    /// `CSI 6 n`: where the cursor is.
    Cursor,
    /// `CSI ? 6 n`: the same in the form of DEC.
    CursorExtended,
    /// `CSI 5 n`: whether it is well.
    Status,
    /// `CSI c`: what it is.
    Attributes,
}

/// Whether there is more in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// A question. What was written before it is drawn before it is answered.
    Query(Query),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    Ground,
    Escape,
    /// Behind `ESC` and a character that chooses a table, such as `ESC (`.
    Choice,
    Sequence,
    /// A text up to `ESC \`, or up to BEL for an operating system command.
    Text {
        ends_with_bell: bool,
    },
}

/// Where in a sequence the output is, across any cuts.
#[derive(Debug)]
pub(super) struct Sequences {
    state: ParserState,
    /// The sequence between `CSI` and its last byte.
    sequence: Vec<u8>,
    is_too_long: bool,
}

impl Sequences {
    pub(super) const fn new() -> Self {
        Self {
            state: ParserState::Ground,
            sequence: Vec::new(),
            is_too_long: false,
        }
    }

    /// Takes bytes up to the next question. What is drawn is added to `drawn`; `columns` is the width of the screen.
    pub(super) fn take(
        &mut self,
        bytes: &mut std::slice::Iter<'_, u8>,
        columns: u16,
        drawn: &mut Vec<u8>,
    ) -> Met {
        for &byte in bytes {
            if let Some(query) = self.byte(byte, columns, drawn) {
                return Met::Query(query);
            }
        }
        Met::End
    }

    fn byte(&mut self, byte: u8, columns: u16, drawn: &mut Vec<u8>) -> Option<Query> {
        match (self.state, byte) {
            // Wherever it is, this begins anew.
            (_, ESCAPE) => self.state = ParserState::Escape,
            (ParserState::Ground, _) => drawn.push(byte),
            (_, CANCEL | SUBSTITUTE) | (ParserState::Text { ends_with_bell: true }, BELL) => {
                self.state = ParserState::Ground;
            }
            (ParserState::Text { .. }, _) => {}
            // Control characters count inside of sequences, too.
            (_, ..0x20) => drawn.push(byte),
            (ParserState::Escape, b'[') => {
                self.sequence.clear();
                self.is_too_long = false;
                self.state = ParserState::Sequence;
            }
            (ParserState::Escape, b']') => self.state = ParserState::Text { ends_with_bell: true },
            (ParserState::Escape, b'P' | b'X' | b'^' | b'_') => {
                self.state = ParserState::Text {
                    ends_with_bell: false,
                };
            }
            (ParserState::Escape | ParserState::Choice, 0x20..=0x2f) => self.state = ParserState::Choice,
            (ParserState::Escape, _) => {
                drawn.extend([ESCAPE, byte]);
                self.state = ParserState::Ground;
            }
            (ParserState::Sequence, 0x20..=0x3f) if self.sequence.len() < MAX_SEQUENCE_BYTES => {
                self.sequence.push(byte);
            }
            (ParserState::Sequence, 0x20..=0x3f) => self.is_too_long = true,
            (ParserState::Sequence, 0x40..=0x7e) => {
                self.state = ParserState::Ground;
                return self.finish(byte, columns, drawn);
            }
            // A choice is made, and no sequence has such a byte.
            (ParserState::Choice | ParserState::Sequence, _) => self.state = ParserState::Ground,
        }
        None
    }

    /// The last byte of a sequence came.
    fn finish(&self, last: u8, columns: u16, drawn: &mut Vec<u8>) -> Option<Query> {
        if self.is_too_long {
            return None;
        }
        match (self.sequence.as_slice(), last) {
            (b"6", b'n') => return Some(Query::Cursor),
            (b"?6", b'n') => return Some(Query::CursorExtended),
            (b"5", b'n') => return Some(Query::Status),
            (b"" | b"0", b'c') => return Some(Query::Attributes),
            // Characters that are repeated or inserted: more than a line of them shows nothing more.
            (count, b'b' | b'@') => {
                let count = leading_number(count).min(columns.into());
                drawn.extend(format!("\x1b[{count}").as_bytes());
                drawn.push(last);
            }
            // The size is not the program's to change.
            (_, b't') => {}
            (sequence, _) => {
                drawn.extend(b"\x1b[");
                drawn.extend(sequence);
                drawn.push(last);
            }
        }
        None
    }
}

/// The number that a sequence begins with; 0 for none, which means the same as 1.
fn leading_number(sequence: &[u8]) -> u32 {
    sequence
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0_u32, |number, digit| {
            number.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is drawn and asked, with output cut everywhere into pieces of this size.
    fn taken(output: &[u8], size: usize) -> (String, Vec<Query>) {
        let mut sequences = Sequences::new();
        let (mut drawn, mut queries) = (Vec::new(), Vec::new());
        for piece in output.chunks(size) {
            let mut bytes = piece.iter();
            while let Met::Query(query) = sequences.take(&mut bytes, 80, &mut drawn) {
                queries.push(query);
            }
        }
        (String::from_utf8(drawn).unwrap(), queries)
    }

    #[test]
    fn questions_and_texts_for_others_are_not_drawn() {
        for (output, drawn, queries) in [
            ("a\x1b[6nb", "ab", vec![Query::Cursor]),
            ("\x1b[?6n", "", vec![Query::CursorExtended]),
            (
                "\x1b[5n\x1b[c\x1b[0c",
                "",
                vec![Query::Status, Query::Attributes, Query::Attributes],
            ),
            ("\x1b[\r6n", "\r", vec![Query::Cursor]),
            ("\x1b[1\x1b[6n", "", vec![Query::Cursor]),
            ("\x1b[1\x18x", "x", vec![]),
            // Not questions, or not ours to answer; above all the answers themselves, which a terminal may echo.
            ("\x1b[0n", "\x1b[0n", vec![]),
            ("\x1b[1;1R", "\x1b[1;1R", vec![]),
            ("\x1b[?1;2c", "\x1b[?1;2c", vec![]),
            ("\x1b[>c", "\x1b[>c", vec![]),
            ("\x1b[16n", "\x1b[16n", vec![]),
            ("\x1b[31mred\x1b[m", "\x1b[31mred\x1b[m", vec![]),
            ("\x1b]0;title\x07x", "x", vec![]),
            ("\x1b]0;\x1b[6n", "", vec![Query::Cursor]),
            ("\x1b]52;c;aGk=\x1b\\x", "\x1b\\x", vec![]),
            ("\x1bPq\x07#1\x1b\\x", "\x1b\\x", vec![]),
            ("\x1b(Bx\x1b7", "x\x1b7", vec![]),
            ("\x1b[65535b\x1b[00012b\x1b[b", "\x1b[80b\x1b[12b\x1b[0b", vec![]),
            ("\x1b[99999999999@", "\x1b[80@", vec![]),
            ("\x1b[8;1;1t", "", vec![]),
            ("é€\u{9b}6n", "é€\u{9b}6n", vec![]),
        ] {
            for size in [1, 2, 3, 1000] {
                assert_eq!(
                    taken(output.as_bytes(), size),
                    (drawn.to_owned(), queries.clone()),
                    "{output:?}"
                );
            }
        }
    }

    #[test]
    fn what_never_ends_is_not_kept() {
        let mut sequences = Sequences::new();
        let mut drawn = Vec::new();
        for begin in [b"\x1b]0;".as_slice(), b"\x1bP", b"\x1b["] {
            assert_eq!(sequences.take(&mut begin.iter(), 80, &mut drawn), Met::End);
            for _ in 0..1000 {
                assert_eq!(sequences.take(&mut [b'1'; 1000].iter(), 80, &mut drawn), Met::End);
            }
        }
        assert_eq!(sequences.take(&mut b"m".iter(), 80, &mut drawn), Met::End);
        assert!(drawn.is_empty() && sequences.sequence.len() <= MAX_SEQUENCE_BYTES);
    }
}
