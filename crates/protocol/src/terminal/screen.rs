//! The screen behind a pseudo-terminal. Programs ask where the cursor is, and wait for the answer; a recording is drawn on it
//! to be shown.
//!
//! Answers are made from numbers of ours, never from a program's text. Otherwise a program that prints another person's file
//! would type what stands in it. What is shown is made of the cells, so that no control sequence of a program gets through.

use std::{
    fmt,
    num::NonZeroU16,
    panic::{AssertUnwindSafe, catch_unwind},
};

use countersign_domain::TerminalSize;
use unicode_general_category::{GeneralCategory, get_general_category};

use super::{
    CursorKeys,
    sequence::{Met, Query, Sequences},
};

/// How many cells the output given at a time may touch, should each of its bytes be spent on clearing the screen.
const CELLS_AT_A_TIME: usize = 64 * 1024 * 1024;

/// The least and most bytes that are given at a time.
const PORTION: std::ops::RangeInclusive<usize> = 256..=16 * 1024;

/// A screen that is drawn on.
pub struct Screen {
    size: TerminalSize,
    sequences: Sequences,
    /// `None` once it could not follow any more. Then the cursor is said to be where it was last.
    drawing: Option<Box<vt100::Parser>>,
    cursor: (u16, u16),
    cursor_keys: CursorKeys,
}

impl Screen {
    /// An empty screen with the cursor in its first cell.
    pub fn new(size: TerminalSize) -> Self {
        let (rows, columns) = numbers(size);
        Self {
            size,
            sequences: Sequences::new(),
            drawing: Some(Box::new(vt100::Parser::new(rows, columns, 0))),
            cursor: (1, 1),
            cursor_keys: CursorKeys::Normal,
        }
    }

    /// The most bytes that a caller should give at a time, so that drawing them does not hold it up.
    pub fn portion(&self) -> usize {
        let cells = usize::from(self.size.rows()) * usize::from(self.size.cols());
        (CELLS_AT_A_TIME / cells).clamp(*PORTION.start(), *PORTION.end())
    }

    /// Takes output of the programs. Returns what the terminal answers, of at most `room` bytes: questions that find
    /// no room are not answered.
    pub fn push(&mut self, output: &[u8], room: usize) -> Vec<u8> {
        let mut answers = Vec::new();
        let mut drawn = Vec::with_capacity(output.len());
        let mut rest = output.iter();
        loop {
            let met = self.sequences.take(&mut rest, self.size.cols(), &mut drawn);
            // Without room nobody is told where the cursor is before the next question is.
            if met == Met::End || answers.len() < room {
                self.draw(&drawn);
                drawn.clear();
            }
            match met {
                Met::End => return answers,
                Met::Query(query) => {
                    let answer = self.answer(query);
                    if answers.len() + answer.len() <= room {
                        answers.extend(answer.as_bytes());
                    }
                }
            }
        }
    }

    /// Gives it another size.
    pub fn resize(&mut self, size: TerminalSize) {
        self.size = size;
        let (rows, columns) = numbers(size);
        self.change(|drawing| drawing.set_size(rows, columns));
    }

    /// What arrows must send by now.
    pub const fn cursor_keys(&self) -> CursorKeys {
        self.cursor_keys
    }

    /// What a part of it shows that begins on the left and has the row of the cursor, a text for each row: the characters, and sequences of ours that colour them. Each row
    /// begins without colours. `None` once it could not follow what was drawn.
    pub fn rows(&self, part: TerminalSize) -> Option<Vec<String>> {
        let screen = self.drawing.as_ref()?.screen();
        let above = self.cursor.0.saturating_sub(part.rows());
        let rows = screen
            .rows_formatted(0, part.cols())
            .skip(above.into())
            .take(part.rows().into());
        let shown = |row: String| row.chars().filter(|one| may_be_shown(*one)).collect();
        Some(rows.map(shown).collect())
    }

    fn answer(&self, query: Query) -> String {
        let (row, column) = self.cursor;
        match query {
            Query::Cursor => format!("\x1b[{row};{column}R"),
            Query::CursorExtended => format!("\x1b[?{row};{column}R"),
            Query::Status => "\x1b[0n".to_owned(),
            // A VT100 with nothing that a program would use without asking its description.
            Query::Attributes => "\x1b[?1;2c".to_owned(),
        }
    }

    fn draw(&mut self, drawn: &[u8]) {
        if !drawn.is_empty() {
            self.change(|drawing| drawing.process(drawn));
        }
    }

    /// The drawing follows anything that any program writes. If that makes it fail, the run goes on without it.
    fn change(&mut self, change: impl FnOnce(&mut vt100::Parser)) {
        let Some(mut drawing) = self.drawing.take() else {
            return;
        };
        let changed = catch_unwind(AssertUnwindSafe(|| change(&mut drawing)));
        if changed.is_err() {
            return;
        }
        let screen = drawing.screen();
        let (row, column) = screen.cursor_position();
        // Behind the last column it waits there for the next character.
        self.cursor = (
            row.saturating_add(1).min(self.size.rows()),
            column.saturating_add(1).min(self.size.cols()),
        );
        self.cursor_keys = if screen.application_cursor() {
            CursorKeys::Application
        } else {
            CursorKeys::Normal
        };
        self.drawing = Some(drawing);
    }
}

/// How a text of a screen looks: indexes of the sixteen colours of terminals, and marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a mark of its own")]
pub struct Look {
    /// Its colour; `None` for that of the screen.
    pub text: Option<u8>,
    /// The colour behind it; `None` for that of the screen.
    pub ground: Option<u8>,
    /// Heavier.
    pub bold: bool,
    /// Fainter.
    pub dim: bool,
    /// Slanted.
    pub italic: bool,
    /// With a line below.
    pub underline: bool,
    /// Both colours change places.
    pub inverse: bool,
}

/// A row of a screen: texts that look the same, from the left on. What is empty at the end is left out.
pub type Row = Vec<(String, Look)>;

impl Look {
    fn of(cell: &vt100::Cell) -> Self {
        Self {
            text: sixteen(cell.fgcolor()),
            ground: sixteen(cell.bgcolor()),
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
            underline: cell.underline(),
            inverse: cell.inverse(),
        }
    }

    /// Whether a blank that looks so cannot be seen.
    const fn is_plain_blank(self) -> bool {
        self.ground.is_none() && !self.inverse && !self.underline
    }
}

impl Screen {
    /// Its cells, a row after the other: no control sequence is in them, and nothing that reorders or hides its neighbours.
    /// `None` once it could not follow what was drawn.
    pub fn cells(&self) -> Option<Vec<Row>> {
        let screen = self.drawing.as_ref()?.screen();
        let rows = 0..self.size.rows();
        Some(rows.map(|row| row_of(screen, row, self.size.cols())).collect())
    }

    /// Row and column of the cursor, from 1; `None` where it is hidden.
    pub fn shown_cursor(&self) -> Option<(u16, u16)> {
        let screen = self.drawing.as_ref()?.screen();
        (!screen.hide_cursor()).then_some(self.cursor)
    }
}

fn row_of(screen: &vt100::Screen, row: u16, columns: u16) -> Row {
    let mut texts = Row::new();
    for cell in (0..columns).filter_map(|column| screen.cell(row, column)) {
        // The cell before it has the character that reaches into it.
        if cell.is_wide_continuation() {
            continue;
        }
        let look = Look::of(cell);
        let shown = cell
            .contents()
            .chars()
            .filter(|one| *one != '\x1b' && may_be_shown(*one));
        if texts.last().is_none_or(|(_text, last)| *last != look) {
            texts.push((String::new(), look));
        }
        let Some((text, _look)) = texts.last_mut() else {
            continue;
        };
        let length = text.len();
        text.extend(shown);
        if text.len() == length {
            text.push(' ');
        }
    }
    while let Some((text, look)) = texts.last_mut() {
        if !look.is_plain_blank() {
            break;
        }
        text.truncate(text.trim_end_matches(' ').len());
        if !text.is_empty() {
            break;
        }
        texts.pop();
    }
    texts
}

/// The colours of terminals, as most of them show them.
const COLOURS: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];

/// The nearest of the sixteen colours.
fn sixteen(colour: vt100::Color) -> Option<u8> {
    match colour {
        vt100::Color::Default => None,
        vt100::Color::Idx(index @ 0..=15) => Some(index),
        vt100::Color::Idx(index @ 16..=231) => {
            let cube = index - 16;
            let step = |part: u8| if part == 0 { 0 } else { 55 + part * 40 };
            Some(nearest((step(cube / 36), step(cube / 6 % 6), step(cube % 6))))
        }
        vt100::Color::Idx(index) => {
            let grey = (index - 232) * 10 + 8;
            Some(nearest((grey, grey, grey)))
        }
        vt100::Color::Rgb(red, green, blue) => Some(nearest((red, green, blue))),
    }
}

fn nearest((red, green, blue): (u8, u8, u8)) -> u8 {
    let far = |(r, g, b): (u8, u8, u8)| {
        let apart = |one: u8, other: u8| u32::from(one.abs_diff(other)).pow(2);
        apart(r, red) + apart(g, green) + apart(b, blue)
    };
    let places = (0_u8..).zip(COLOURS);
    places
        .min_by_key(|(_place, colour)| far(*colour))
        .map_or(7, |(place, _colour)| place)
}

impl fmt::Debug for Screen {
    /// Shows nothing that was drawn.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen")
            .field("size", &self.size)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

/// A cell never has an escape: those are of our own sequences. What reorders or hides its neighbours is not shown.
fn may_be_shown(character: char) -> bool {
    let is_format = || get_general_category(character) == GeneralCategory::Format;
    character == '\x1b' || !character.is_control() && !is_format()
}

/// A terminal's size is never zero.
fn numbers(size: TerminalSize) -> (NonZeroU16, NonZeroU16) {
    let number = |number| NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN);
    (number(size.rows()), number(size.cols()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size(rows: u16, cols: u16) -> TerminalSize {
        TerminalSize::new(rows, cols).unwrap()
    }

    fn answers(screen: &mut Screen, output: &str) -> String {
        String::from_utf8(screen.push(output.as_bytes(), 1024)).unwrap()
    }

    #[test]
    fn the_cursor_is_told_where_it_is() {
        for (output, expected) in [
            ("\x1b[6n", "\x1b[1;1R"),
            ("ab\r\ncd\x1b[6n", "\x1b[2;3R"),
            ("\x1b[7;9Hx\x1b[?6n", "\x1b[?7;10R"),
            // What programs do to find out how large a terminal is.
            ("\x1b[999;999H\x1b[6n", "\x1b[30;120R"),
            ("\x1b[6nab\x1b[6n", "\x1b[1;1R\x1b[1;3R"),
            ("\x1b[5n\x1b[c\x1b[0c", "\x1b[0n\x1b[?1;2c\x1b[?1;2c"),
            ("日本\x1b[6n", "\x1b[1;5R"),
            ("\x1b]0;a long title\x07x\x1b[6n", "\x1b[1;2R"),
        ] {
            assert_eq!(
                answers(&mut Screen::new(TerminalSize::DEFAULT), output),
                expected,
                "{output:?}"
            );
        }
        let mut screen = Screen::new(size(5, 10));
        // The tenth character stands in the last column, and the cursor stays there until the next.
        assert_eq!(answers(&mut screen, "0123456789\x1b[6n"), "\x1b[1;10R");
        screen.resize(size(3, 4));
        assert_eq!(answers(&mut screen, "\x1b[999;999H\x1b[6n"), "\x1b[3;4R");
    }

    #[test]
    fn what_is_shown_is_made_of_cells() {
        let mut screen = Screen::new(size(3, 20));
        let hostile = "a\x1b]0;title\x07\x1b[31mred\x1b[0m \x1bP+q\x1b\\b\u{202e}c\u{9b}5n\u{200b}d\r\n\x1b[2Gx\x1b]52;c;aGk=\x07y";
        screen.push(hostile.as_bytes(), 0);
        let rows = screen.rows(size(3, 20)).unwrap();
        assert_eq!(rows.len(), 3);
        let sequences = regexless(&rows.concat());
        assert!(sequences.iter().all(|end| "mCKXH".contains(*end)), "{rows:?}");
        let text = |row: &str| {
            row.split('\x1b')
                .map(|piece| piece.trim_start_matches(|one: char| "[0123456789;mCKX".contains(one)))
                .collect::<String>()
        };
        assert_eq!(text(&rows[0]).replace(' ', ""), "aredbc5nd");
        assert!(rows[0].contains("\x1b[31m"), "{rows:?}");
        assert_eq!(text(&rows[1]), "xy");
        // The second row is that of the cursor.
        let part = screen.rows(size(1, 2)).unwrap();
        assert_eq!((part.len(), text(&part[0]).as_str()), (1, "x"));
    }

    /// The characters that end the control sequences of a text.
    fn regexless(text: &str) -> Vec<char> {
        let ends = text.split('\x1b').skip(1).map(|sequence| {
            let sequence = sequence.strip_prefix('[').unwrap_or("?");
            sequence
                .chars()
                .find(|one| !"0123456789;".contains(*one))
                .unwrap_or('?')
        });
        ends.collect()
    }

    #[test]
    fn cells_have_no_sequence_and_say_how_they_look() {
        let mut screen = Screen::new(size(4, 12));
        let hostile = "a\x1b]0;title\x07\x1b[1;31mred\x1b[0m\u{202e}\u{200b}\r\n日本\x1b[44m  \x1b[0m \r\n\x1b[38;5;196mx\x1b[38;2;0;0;250my\x1b[48;5;255mz\x1b[0m\x1b[?25l";
        screen.push(hostile.as_bytes(), 0);
        let rows = screen.cells().unwrap();
        assert_eq!(rows.len(), 4);
        let plain = Look::default();
        let red = Look {
            text: Some(1),
            bold: true,
            ..plain
        };
        assert_eq!(rows[0], [("a".to_owned(), plain), ("red".to_owned(), red)]);
        let blue = Look {
            ground: Some(4),
            ..plain
        };
        assert_eq!(rows[1], [("日本".to_owned(), plain), ("  ".to_owned(), blue)]);
        let colours: Vec<_> = rows[2]
            .iter()
            .map(|(_text, look)| (look.text, look.ground))
            .collect();
        assert_eq!(colours, [(Some(9), None), (Some(4), None), (Some(4), Some(7))]);
        assert_eq!(rows[3], []);
        assert_eq!(screen.shown_cursor(), None);
        let all: String = rows.iter().flatten().map(|(text, _look)| text.as_str()).collect();
        assert!(
            !all.chars().any(|one| one.is_control() || one == '\u{202e}'),
            "{all:?}"
        );
    }

    #[test]
    fn an_answer_that_is_echoed_asks_nothing() {
        let mut screen = Screen::new(TerminalSize::DEFAULT);
        let told = answers(&mut screen, "\x1b[6n\x1b[?6n\x1b[5n\x1b[c");
        assert_eq!(answers(&mut screen, &told), "");
    }

    #[test]
    fn a_flood_of_questions_is_answered_as_far_as_there_is_room() {
        let mut screen = Screen::new(TerminalSize::DEFAULT);
        let flood = "\x1b[6n".repeat(100_000);
        for room in [0, 5, 1000] {
            assert_eq!(screen.push(flood.as_bytes(), room).len(), room / 6 * 6);
        }
        assert_eq!(answers(&mut screen, "ab\x1b[6n"), "\x1b[1;3R");
    }

    #[test]
    fn the_mode_of_the_arrows_is_known() {
        let mut screen = Screen::new(TerminalSize::DEFAULT);
        assert_eq!(screen.cursor_keys(), CursorKeys::Normal);
        for (output, expected) in [
            ("\x1b[?1h", CursorKeys::Application),
            ("\x1b[?1049htext", CursorKeys::Application),
            ("\x1b[?1l", CursorKeys::Normal),
            ("\x1b[?1;2004h", CursorKeys::Application),
            ("\x1bc", CursorKeys::Normal),
        ] {
            answers(&mut screen, output);
            assert_eq!(screen.cursor_keys(), expected, "{output:?}");
        }
    }

    #[test]
    fn less_is_given_at_a_time_to_a_larger_screen() {
        assert_eq!(Screen::new(TerminalSize::DEFAULT).portion(), 16 * 1024);
        assert_eq!(Screen::new(size(1000, 1000)).portion(), 256);
    }

    /// Pieces of sequences, so that many of them come together.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<[u8; 3]>().prop_map(|bytes| bytes.to_vec()),
            r"(\x1b\[[?>!]?[0-9;:]{0,8}[@-~]|\x1b[78=>cM]|\x1b\][0-9]*;x\x07|\r|\n|\t|\x08|日|e\u{301}|[ -~]){1,5}"
                .prop_map(String::into_bytes),
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn hostile_output_is_survived_and_its_answers_are_in_range(
            outputs in prop::collection::vec(hostile(), 1..4),
            sizes in prop::collection::vec((1_u16..40, 1_u16..40), 1..4),
        ) {
            let mut screen = Screen::new(size(1, 1));
            for (output, (rows, cols)) in outputs.iter().zip(sizes) {
                screen.resize(size(rows, cols));
                let answers = screen.push(output, 64);
                prop_assert!(answers.len() <= 64);
                prop_assert!(answers.iter().all(|byte| b"\x1b[?;0123456789Rnc".contains(byte)));
                let (row, column) = screen.cursor;
                prop_assert!((1..=rows).contains(&row) && (1..=cols).contains(&column));
            }
        }
    }
}
