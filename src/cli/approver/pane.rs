//! Text of which a window is on the screen, and how much of it has been there.

use super::state::Screen;

/// Rows of text, the first of those that are shown, and how far down a person has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pane {
    rows: Vec<String>,
    top: usize,
    /// So many rows from the beginning were on the screen.
    seen: usize,
}

/// Where to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scroll {
    Down,
    Up,
    Start,
    End,
}

impl Pane {
    /// The text from its beginning, in the rows of this screen.
    pub(super) fn new(text: &str, screen: Screen) -> Self {
        Self::of_rows(screen.rows_of(text))
    }

    /// Rows that are no wider than the screen.
    pub(super) fn of_rows(rows: Vec<String>) -> Self {
        Self {
            rows,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The rows that stand in a window of this height.
    pub(super) fn window(&self, height: usize) -> impl Iterator<Item = &String> {
        self.rows.iter().skip(self.top).take(height)
    }

    /// The first and the last row in such a window, counted from 1.
    pub(super) fn place(&self, height: usize) -> (usize, usize) {
        (self.top + 1, (self.top + height).min(self.len()))
    }

    /// A window of this height is on the screen. What was passed over does not count.
    pub(super) fn painted(&mut self, height: usize) {
        if self.top <= self.seen {
            self.seen = self.seen.max((self.top + height).min(self.len()));
        }
    }

    /// Whether all of it was on the screen.
    pub(super) fn is_read(&self) -> bool {
        self.seen >= self.len()
    }

    /// Moves the window. One row stays, so that a person finds the place.
    pub(super) fn scroll(&mut self, to: Scroll, height: usize) {
        let step = height.saturating_sub(1).max(1);
        let last = self.len().saturating_sub(height);
        self.top = match to {
            Scroll::Down => (self.top + step).min(last),
            Scroll::Up => self.top.saturating_sub(step),
            Scroll::Start => 0,
            Scroll::End => last,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pane(rows: usize) -> Pane {
        let text: Vec<String> = (0..rows).map(|row| row.to_string()).collect();
        Pane::new(
            &text.join("\n"),
            Screen {
                rows: 24,
                columns: 80,
            },
        )
    }

    #[test]
    fn text_is_read_once_each_row_was_in_the_window() {
        let mut pane = pane(10);
        pane.painted(4);
        assert!(!pane.is_read());
        for _ in 0..2 {
            pane.scroll(Scroll::Down, 4);
            assert!(!pane.is_read());
            pane.painted(4);
        }
        assert_eq!(pane.place(4), (7, 10));
        assert!(pane.is_read());
        assert!(Pane::default().is_read());
    }

    #[test]
    fn a_jump_to_the_end_reads_nothing_of_what_it_passes() {
        let mut pane = pane(10);
        pane.painted(4);
        pane.scroll(Scroll::End, 4);
        pane.painted(4);
        assert!(!pane.is_read());
        pane.scroll(Scroll::Start, 4);
        pane.painted(4);
        pane.scroll(Scroll::Down, 4);
        pane.painted(4);
        pane.scroll(Scroll::Down, 4);
        pane.painted(4);
        assert!(pane.is_read());
    }
}
