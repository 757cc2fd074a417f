//! Aligned tables for people.
//!
//! Cells hold text from commands, agents and nodes. A terminal obeys control characters, so every cell is made
//! visible first: what is shown is what is there.

use std::fmt::{Display, Write as _};

use super::{labels, tone::Tone, value};

/// A cell is cut to this many characters; `--json` has it whole.
const MAX_CELL: usize = 80;

/// Rows under a header, each column as wide as its widest cell.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The same with all of each cell.
    full: Vec<Vec<String>>,
    /// What a column has of most rows, so that nobody misses it.
    plain: Vec<(&'static str, &'static str)>,
    /// The column of states, and what each means.
    states: Option<(&'static str, ToneOf)>,
    /// Columns of words of which none is cut as long as any other gives way.
    kept: Vec<&'static str>,
}

/// What a state means, if its colour says something.
pub(crate) type ToneOf = fn(&str) -> Option<Tone>;

/// How text is coloured, where it is.
type Paint<'a> = &'a dyn Fn(Tone, &str) -> String;

/// Where nothing is coloured.
fn unpainted(_tone: Tone, text: &str) -> String {
    text.to_owned()
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

    /// Has this column left out where each row has nothing in it, or this.
    pub(crate) fn plainly(mut self, column: &'static str, cell: &'static str) -> Self {
        self.plain.push((column, cell));
        self
    }

    /// Colours this column by what its cells mean.
    pub(crate) fn with_states(mut self, column: &'static str, tone: ToneOf) -> Self {
        self.states = Some((column, tone));
        self
    }

    /// Cuts this column last.
    pub(crate) fn keeping(mut self, column: &'static str) -> Self {
        self.kept.push(column);
        self
    }

    /// The same without the columns that say nothing: those in which each row has nothing, or what is plain there. The first one
    /// names the row and stays.
    pub(crate) fn telling(&self) -> Self {
        let is_plain = |column: usize, cell: &str| {
            let name = self.header.get(column).map(String::as_str);
            cell.is_empty()
                || self
                    .plain
                    .iter()
                    .any(|(of, plain)| Some(*of) == name && *plain == cell)
        };
        let says = |column: usize| {
            let mut cells = self.full.iter().filter_map(|row| row.get(column));
            column == 0 || cells.any(|cell| !is_plain(column, cell))
        };
        let kept: Vec<bool> = (0..self.header.len()).map(says).collect();
        self.with_columns(&kept)
    }

    /// The same with these of its columns alone.
    fn with_columns(&self, kept: &[bool]) -> Self {
        let of = |row: &Vec<String>| -> Vec<String> {
            let cells = row.iter().zip(kept).filter(|(_, kept)| **kept);
            cells.map(|(cell, _)| cell.clone()).collect()
        };
        Self {
            header: of(&self.header),
            rows: self.rows.iter().map(of).collect(),
            full: self.full.iter().map(of).collect(),
            plain: self.plain.clone(),
            states: self.states,
            kept: self.kept.clone(),
        }
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
            let name = labels::of(name);
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
        self.drawn(&self.widths(), None, &unpainted)
    }

    /// The lines for a terminal of so many columns, which would break longer ones, in colours. The last column, mostly the command,
    /// gives way first, down to [`LAST_KEEPS`]; then the widest of the others. The first one, which names the row, is never cut.
    /// Where even that leaves no room, columns are left out rather than shown in bits. Facts, which have no header, are whole.
    pub(crate) fn lines_for(&self, columns: Option<usize>, paint: Paint<'_>) -> Vec<String> {
        let Some(most) = columns.filter(|_| !self.header.is_empty()) else {
            return self.drawn(&self.widths(), None, paint);
        };
        let widest = self.widths();
        let widths = fitting(widest.clone(), &self.kept_columns(), most);
        match self
            .least_needed()
            .filter(|_| says_little(&widths, &widest, most))
        {
            Some(least) => {
                let others: Vec<bool> = (0..self.header.len()).map(|column| column != least).collect();
                self.with_columns(&others).lines_for(Some(most), paint)
            }
            None => self.drawn(&widths, Some(most), paint),
        }
    }

    /// The column that is missed least: the last but one of those that are not kept. The first names the row, and the last
    /// says most of it.
    fn least_needed(&self) -> Option<usize> {
        let last = self.header.len().checked_sub(1)?;
        let kept = self.kept_columns();
        (1..last).rfind(|column| kept.get(*column) == Some(&false))
    }

    /// The lines with all of each cell, whatever the terminal has room for.
    pub(crate) fn lines_in_full(&self, paint: Paint<'_>) -> Vec<String> {
        let full = Self {
            rows: self.full.clone(),
            ..self.clone()
        };
        full.lines_for(None, paint)
    }

    fn kept_columns(&self) -> Vec<bool> {
        let names = self.header.iter();
        names.map(|name| self.kept.contains(&name.as_str())).collect()
    }

    fn drawn(&self, widths: &[usize], most: Option<usize>, paint: Paint<'_>) -> Vec<String> {
        let states = self.states.and_then(|(name, tone)| {
            let column = self.header.iter().position(|known| known == name)?;
            Some((column, tone))
        });
        let headers = usize::from(!self.header.is_empty());
        let lines = self.all().enumerate().map(|(number, row)| {
            let line = Line { row, widths, most };
            let state = states.filter(|_| number >= headers);
            let toned = state.and_then(|(column, tone)| Some((column, tone(row.get(column)?)?)));
            line.drawn(toned, paint)
        });
        lines.collect()
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

/// So much of the last column is shown before any other is cut.
const LAST_KEEPS: usize = 30;

/// So much of any column is shown before all of them say little.
const KEEPS: usize = 14;

/// Takes from the last column as long as it has plenty, then from the widest of the others but the first, then from the last
/// again, each as long as it still says something, and then once more, until all fit, or none can give more. What is kept gives way
/// when no other can.
fn fitting(mut widths: Vec<usize>, kept: &[bool], most: usize) -> Vec<usize> {
    let Some(last) = widths.len().checked_sub(1).filter(|last| *last > 0) else {
        return widths;
    };
    loop {
        let total = widths.iter().sum::<usize>() + GAP * last;
        let over = total.saturating_sub(most);
        let of_last = widths.get(last).copied().unwrap_or_default();
        let is_kept = |at: &usize| kept.get(*at) == Some(&true);
        let widest_of = |of_kept: bool| {
            let between = (1..last).filter(|at| widths.get(*at).is_some_and(|width| *width > NARROWEST));
            let between = between.filter(|at| is_kept(at) == of_kept);
            between.max_by_key(|at| widths.get(*at).copied())
        };
        let widest = widest_of(false).or_else(|| widest_of(true).filter(|_| of_last <= NARROWEST));
        let of_widest = widest
            .and_then(|widest| widths.get(widest).copied())
            .unwrap_or_default();
        let (gives, least) = match widest {
            Some(_) if of_last > LAST_KEEPS => (last, LAST_KEEPS),
            Some(widest) if of_widest > KEEPS => (widest, KEEPS),
            Some(_) if of_last > KEEPS => (last, KEEPS),
            Some(widest) => (widest, NARROWEST),
            None => (last, NARROWEST),
        };
        match widths.get_mut(gives) {
            Some(width) if over > 0 && *width > least => *width -= 1,
            Some(_) | None => return widths,
        }
    }
}

/// Whether columns that could be as wide as `widest` do not fit, or leave bits of the last one.
fn says_little(widths: &[usize], widest: &[usize], most: usize) -> bool {
    let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    let last = widths.last().zip(widest.last());
    total > most || last.is_some_and(|(width, widest)| *width < KEEPS.min(*widest))
}

/// A row as it is drawn.
struct Line<'a> {
    row: &'a [String],
    widths: &'a [usize],
    /// Columns that it may have, all in all.
    most: Option<usize>,
}

impl Line<'_> {
    /// The line, with one of its cells coloured. What a terminal does not show takes no room.
    fn drawn(&self, toned: Option<(usize, Tone)>, paint: Paint<'_>) -> String {
        let mut line = String::new();
        let mut coloured = None;
        let cells = self.row.iter().zip(self.widths).enumerate();
        for (column, (cell, width)) in cells {
            let cell = value::shortened(cell, *width);
            let padding = width.saturating_sub(cell.chars().count()) + GAP;
            let start = line.len();
            line.push_str(&cell);
            if let Some((_, tone)) = toned.filter(|(of, _)| *of == column) {
                coloured = Some((start..line.len(), tone));
            }
            line.extend(std::iter::repeat_n(' ', padding));
        }
        line.truncate(line.trim_end().len());
        let cut = self.most.map(|most| value::shortened(&line, most));
        let line = cut.unwrap_or(line);
        let Some((range, tone)) = coloured else {
            return line;
        };
        match (
            line.get(..range.start),
            line.get(range.clone()),
            line.get(range.end..),
        ) {
            (Some(before), Some(cell), Some(after)) => format!("{before}{}{after}", paint(tone, cell)),
            // It was cut away.
            _ => line,
        }
    }
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
    use proptest::prelude::*;

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
        let within = |most| table.lines_for(Some(most), &unpainted);
        assert_eq!(
            within(60),
            [
                "RUN       STATUS            COMMAND",
                "030ae5a1  approval-pending  cargo test --workspace --all-fe…",
                "97dab165  completed         ls",
            ]
        );
        // The last column keeps what it needs to say something.
        assert_eq!(
            within(50),
            [
                "RUN       STATUS          COMMAND",
                "030ae5a1  approval-pend…  cargo test --workspace …",
                "97dab165  completed       ls",
            ]
        );
        assert_eq!(within(200), table.lines());
        // A column less says more than bits of all.
        let mut wide =
            Table::new(&["RUN", "CREATED", "STATUS", "CODE", "AGENT", "COMMAND"]).keeping("STATUS");
        wide.row([
            "030ae5a1",
            "12 min ago",
            "completed",
            "0",
            "main",
            "cargo test --workspace",
        ]);
        assert_eq!(
            wide.lines_for(Some(40), &unpainted),
            [
                "RUN       STATUS     COMMAND",
                "030ae5a1  completed  cargo test --works…"
            ]
        );
        // What a person answers for is whole.
        let mut facts = Table::without_header();
        facts.fact("command", &"x".repeat(200));
        assert_eq!(facts.lines_for(Some(80), &unpainted), facts.lines());
    }

    proptest! {
        /// Never wider than asked, a line for each row, and nothing is cut while there is room.
        #[test]
        fn any_table_fits(
            columns in 1..9_usize,
            rows in prop::collection::vec(prop::collection::vec("[a-zü ]{0,50}", 0..9), 0..6),
            most in 1..200_usize,
        ) {
            let names: Vec<String> = (0..columns).map(|column| format!("C{column}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut table = Table::new(&names);
            for row in &rows {
                table.row(row.iter().take(columns));
            }
            let lines = table.lines_for(Some(most), &unpainted);
            prop_assert_eq!(lines.len(), rows.len() + 1);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= most), "{:#?}", lines);
            let whole = table.lines();
            if whole.iter().all(|line| line.chars().count() <= most) && widest(&table) <= most {
                prop_assert_eq!(lines, whole);
            }
        }

        /// The columns that are kept add up, the first is never cut, and none grows.
        #[test]
        fn columns_give_way_in_order(widths in prop::collection::vec(0..90_usize, 1..9), most in 1..200_usize) {
            let fitted = fitting(widths.clone(), &[], most);
            prop_assert_eq!(fitted.first(), widths.first());
            prop_assert!(fitted.iter().zip(&widths).all(|(now, before)| now <= before));
            let total: usize = fitted.iter().sum::<usize>() + GAP * (fitted.len() - 1);
            let could_give = fitted.iter().skip(1).any(|width| *width > NARROWEST);
            prop_assert!(total <= most || !could_give, "{:?}", fitted);
            // No other is cut while the last has plenty.
            let is_cut = |at: usize| fitted.get(at) < widths.get(at);
            let last = widths.len() - 1;
            if (1..last).any(is_cut) {
                prop_assert!(fitted.get(last).is_some_and(|width| *width <= LAST_KEEPS));
            }
        }
    }

    fn widest(table: &Table) -> usize {
        let widths = table.widths();
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    #[test]
    fn a_column_of_words_is_cut_last() {
        let mut table = Table::new(&["RUN", "CODE", "AGENT", "COMMAND"]).keeping("CODE");
        table.row([
            "030ae5a1",
            "approval-request-failed",
            "a-long-name-of-an-agent",
            &"x".repeat(60),
        ]);
        for most in [50, 60, 80] {
            let lines = table.lines_for(Some(most), &unpainted);
            assert!(lines[1].contains("approval-request-failed"), "{lines:#?}");
            assert!(
                lines.iter().all(|line| line.chars().count() <= most),
                "{lines:#?}"
            );
        }
        assert!(table.lines_for(Some(40), &unpainted)[1].contains("approval-req"));
    }

    #[test]
    fn columns_that_say_nothing_are_left_out() {
        let mut table = Table::new(&["RUN", "CODE", "HOST", "COMMAND"]).plainly("HOST", "gateway");
        table.row(["1", "", "gateway", "ls"]);
        table.row(["2", "", "gateway", "date"]);
        assert_eq!(table.telling().lines(), ["RUN  COMMAND", "1    ls", "2    date"]);
        table.row(["3", "", "node", "id"]);
        assert_eq!(
            table.telling().lines().first().map(String::as_str),
            Some("RUN  HOST     COMMAND")
        );
        // All of it is still there.
        assert_eq!(table.lines_in_full(&unpainted).len(), 4);
        assert!(table.lines().concat().contains("CODE"));
    }

    #[test]
    fn a_state_is_coloured_and_takes_no_room_for_it() {
        let tone = |state: &str| (state == "denied").then_some(Tone::Bad);
        let mut table = Table::new(&["STATE", "COMMAND"]).with_states("STATE", tone);
        table.row(["denied", "denied"]);
        table.row(["new", "x"]);
        let paint = |_tone: Tone, text: &str| format!("<{text}>");
        assert_eq!(
            table.lines_for(Some(80), &paint),
            ["STATE   COMMAND", "<denied>  denied", "new     x"]
        );
        // Where a cell is cut, what is left of it has its colour.
        assert_eq!(table.lines_for(Some(4), &paint), ["STA…", "<den…>", "new…"]);
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
        table.fact("note", &"x".repeat(500));
        assert_eq!(table.lines(), [format!("note  {}", "x".repeat(500))]);
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
        assert_eq!(table.lines_in_full(&unpainted), ["x".repeat(500)]);
    }
}
