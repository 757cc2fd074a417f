//! Aligned tables for people.
//!
//! Cells hold text from commands, agents and nodes. A terminal obeys control characters, so every cell is made
//! visible first: what is shown is what is there.

use std::fmt::{Display, Write as _};

use super::value;

/// A cell is cut to this many characters; `--json` has it whole.
const MAX_CELL: usize = 80;

/// Rows under a header, each column as wide as its widest cell.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The same with all of each cell.
    full: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column names.
    pub(crate) fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(|name| (*name).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// A table of names and values without a header.
    pub(crate) fn without_header() -> Self {
        Self::default()
    }

    /// Adds a row; missing cells are empty.
    pub(crate) fn row<Cell: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells = cells.into_iter().map(|cell| value::visible(cell.as_ref()));
        let full: Vec<String> = cells.collect();
        let cut = full.iter().map(|cell| value::shortened(cell, MAX_CELL));
        self.rows.push(cut.collect());
        self.full.push(full);
    }

    /// Adds a name and its whole value, unless that is empty. Nothing is cut: it may be what a person answers for.
    pub(crate) fn fact(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            let fact = vec![value::visible(name), collapsed(&value::visible(text))];
            self.rows.push(fact.clone());
            self.full.push(fact);
        }
    }

    /// Adds a name and its values, one behind the other, unless there are none.
    pub(crate) fn each<Part: Display>(&mut self, name: &str, values: impl IntoIterator<Item = Part>) {
        self.fact(name, &value::joined(values));
    }

    /// Adds the rows of another.
    pub(crate) fn append(&mut self, other: &Self) {
        self.rows.extend_from_slice(&other.rows);
        self.full.extend_from_slice(&other.full);
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, header first. No line ends in spaces.
    pub(crate) fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        self.all().map(|row| aligned(row, &widths)).collect()
    }

    /// The lines with all of each cell, whatever the terminal has room for.
    pub(crate) fn lines_in_full(&self) -> Vec<String> {
        let full = Self {
            rows: self.full.clone(),
            ..self.clone()
        };
        full.lines()
    }

    /// The same for a terminal of so many columns, which would break longer lines. The widest columns are cut first, and the
    /// first one, which names the row, never. Facts, which have no header, are whole.
    pub(crate) fn lines_within(&self, most: usize) -> Vec<String> {
        if self.header.is_empty() {
            return self.lines();
        }
        let widths = fitting(self.widths(), most);
        let cut = |row: &Vec<String>| -> Vec<String> {
            let cells = row.iter().zip(&widths);
            cells
                .map(|(cell, width)| value::shortened(cell, *width))
                .collect()
        };
        let lines = self.all().map(|row| aligned(&cut(row), &widths));
        lines.map(|line| value::shortened(&line, most)).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.header)
            .filter(|header| !header.is_empty())
            .chain(&self.rows)
    }

    /// How wide each column is.
    fn widths(&self) -> Vec<usize> {
        let columns = self.all().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            self.all()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or_default()
        };
        (0..columns).map(widest).collect()
    }
}

/// Blanks between two columns.
const GAP: usize = 2;

/// A column that says less than this says nothing.
const NARROWEST: usize = 6;

/// Takes from the widest columns but the first until all fit, or none can give more.
fn fitting(mut widths: Vec<usize>, most: usize) -> Vec<usize> {
    loop {
        let gaps = GAP * widths.len().saturating_sub(1);
        let over = (widths.iter().sum::<usize>() + gaps).saturating_sub(most);
        let widest = widths.iter_mut().skip(1).max_by_key(|width| **width);
        match widest {
            Some(width) if over > 0 && *width > NARROWEST => *width -= 1,
            Some(_) | None => return widths,
        }
    }
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        line.push_str(cell);
        let padding = width.saturating_sub(cell.chars().count()) + GAP;
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line.truncate(line.trim_end().len());
    line
}

/// This many blanks in a row could push what follows into a line of its own, where it looks like another fact.
const COLLAPSED_BLANKS: usize = 8;

/// Long runs of blanks as their number.
fn collapsed(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(' ') {
        let (before, from) = rest.split_at(start);
        let after = from.trim_start_matches(' ');
        let blanks = from.len() - after.len();
        shown.push_str(before);
        if blanks >= COLLAPSED_BLANKS {
            write!(shown, "⟨{blanks} blanks⟩").expect("writing to a String cannot fail");
        } else {
            shown.extend(std::iter::repeat_n(' ', blanks));
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["ID", "COMMAND"]);
        table.row(["1", "ls"]);
        table.row(["22222", "git größe"]);
        table.row(["3"]);
        assert_eq!(
            table.lines(),
            ["ID     COMMAND", "1      ls", "22222  git größe", "3"]
        );
    }

    #[test]
    fn a_table_fits_and_no_row_is_broken() {
        let mut table = Table::new(&["RUN", "STATUS", "COMMAND"]);
        table.row([
            "030ae5a1",
            "approval-pending",
            "cargo test --workspace --all-features --release",
        ]);
        table.row(["97dab165", "completed", "ls"]);
        assert_eq!(
            table.lines_within(40),
            [
                "RUN       STATUS          COMMAND",
                "030ae5a1  approval-pend…  cargo test --…",
                "97dab165  completed       ls",
            ]
        );
        for most in [8, 20, 30, 60, 80, 200] {
            let lines = table.lines_within(most);
            assert!(
                lines.iter().all(|line| line.chars().count() <= most),
                "{lines:#?}"
            );
            assert_eq!(lines.len(), 3);
        }
        assert_eq!(table.lines_within(200), table.lines());
        // What a person answers for is whole.
        let mut facts = Table::without_header();
        facts.fact("command", &"x".repeat(200));
        assert_eq!(facts.lines_within(80), facts.lines());
    }

    #[test]
    fn a_table_without_header_has_rows_only() {
        let mut table = Table::without_header();
        assert!(table.is_empty());
        table.row(["host", "gateway"]);
        assert_eq!(table.lines(), ["host  gateway"]);
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let mut table = Table::without_header();
        table.row(["\u{1b}[2Jrm\r\nls\u{202e}x"]);
        let line = table.lines().concat();
        assert!(
            !line.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{line:?}"
        );
    }

    #[test]
    fn facts_are_whole_and_empty_ones_left_out() {
        let mut table = Table::without_header();
        table.fact("node", "");
        table.fact("cwd", &"x".repeat(500));
        assert_eq!(table.lines(), [format!("cwd  {}", "x".repeat(500))]);
    }

    #[test]
    fn blanks_cannot_push_a_fact_into_a_line_that_looks_like_another() {
        let mut table = Table::without_header();
        table.fact("part 1", &format!("echo 'x{}rule  allowlisted'", " ".repeat(73)));
        assert_eq!(table.lines(), ["part 1  echo 'x⟨73 blanks⟩rule  allowlisted'"]);
    }

    #[test]
    fn long_cells_are_cut() {
        let mut table = Table::without_header();
        table.row(["x".repeat(500)]);
        assert_eq!(table.lines().concat().chars().count(), MAX_CELL);
        assert_eq!(table.lines_in_full(), ["x".repeat(500)]);
    }
}
