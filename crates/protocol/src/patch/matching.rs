//! Where in a file the lines of a hunk are.
//!
//! Each way of comparing numbers the lines of the file once, so that a search compares numbers; a line that the file does not
//! have ends a search before it begins. A search takes one pass over the rest of the file however the lines repeat
//! themselves, and what all searches of a file take together is bounded.

use std::{borrow::Cow, collections::HashMap};

use super::limits::MAX_STEPS;

/// The ways of comparing, from the strictest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Exact,
    TrailingBlanks,
    LookAlikes,
}

impl Likeness {
    const ALL: [Self; 3] = [Self::Exact, Self::TrailingBlanks, Self::LookAlikes];

    /// What two lines must share to be alike.
    fn of(self, line: &str) -> Cow<'_, str> {
        match self {
            Self::Exact => Cow::Borrowed(line),
            Self::TrailingBlanks => Cow::Borrowed(line.trim_end()),
            Self::LookAlikes => plain(line.trim()),
        }
    }
}

/// A text with the spaces, dashes and quotes that editors put into it as they are typed.
fn plain(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return Cow::Borrowed(line);
    }
    let typed = |c| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    };
    Cow::Owned(line.chars().map(typed).collect())
}

/// More work than a patch of this file may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMuchWork;

/// Where in a file to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// At this line or behind it.
    Line(usize),
    /// At the very end, which must not lie before this line.
    End(usize),
}

/// The lines of a file, ready to be searched.
pub(super) struct Searched<'a> {
    lines: &'a [&'a str],
    indexes: [Option<Index<'a>>; 3],
    steps_left: u64,
}

struct Index<'a> {
    numbers: HashMap<Cow<'a, str>, u32>,
    lines: Vec<u32>,
}

impl<'a> Searched<'a> {
    pub(super) const fn new(lines: &'a [&'a str]) -> Self {
        Self {
            lines,
            indexes: [const { None }; 3],
            steps_left: MAX_STEPS,
        }
    }

    /// The first place of these lines, by the strictest likeness that has one.
    pub(super) fn find(&mut self, wanted: &[&str], from: Where) -> Result<Option<usize>, TooMuchWork> {
        for (slot, likeness) in Likeness::ALL.into_iter().enumerate() {
            if let Some(found) = self.find_by(slot, likeness, wanted, from)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn find_by(
        &mut self,
        slot: usize,
        likeness: Likeness,
        wanted: &[&str],
        from: Where,
    ) -> Result<Option<usize>, TooMuchWork> {
        self.take_steps(wanted.len())?;
        let lines = self.lines;
        let Some(index) = self.indexes.get_mut(slot) else {
            return Ok(None);
        };
        let index = index.get_or_insert_with(|| Index::new(lines, likeness));
        let Some(wanted) = wanted
            .iter()
            .map(|line| index.numbers.get(&*likeness.of(line)).copied())
            .collect::<Option<Vec<u32>>>()
        else {
            return Ok(None);
        };
        match from {
            Where::End(earliest) => {
                let start = lines.len().checked_sub(wanted.len());
                let start = start.filter(|start| *start >= earliest);
                Ok(start.filter(|start| index.lines.get(*start..) == Some(wanted.as_slice())))
            }
            Where::Line(first) => {
                let rest = index.lines.get(first..).unwrap_or_default();
                let found = first_place(rest, &wanted);
                let steps = found.map_or(rest.len(), |at| at + wanted.len());
                self.take_steps(steps)?;
                Ok(found.map(|at| first + at))
            }
        }
    }

    fn take_steps(&mut self, steps: usize) -> Result<(), TooMuchWork> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(TooMuchWork)?;
        Ok(())
    }
}

impl<'a> Index<'a> {
    fn new(lines: &[&'a str], likeness: Likeness) -> Self {
        let mut numbers = HashMap::new();
        let lines = lines
            .iter()
            .map(|line| {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                *numbers.entry(likeness.of(line)).or_insert(next)
            })
            .collect();
        Self { numbers, lines }
    }
}

/// The first place of `wanted` in `lines`, without ever going back (Knuth, Morris, Pratt).
fn first_place(lines: &[u32], wanted: &[u32]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    // How much of the beginning still fits when the next line does not.
    let mut fits = vec![0; wanted.len()];
    let mut matched = 0;
    for at in 1..wanted.len() {
        matched = advance(wanted, &fits, matched, *wanted.get(at)?);
        *fits.get_mut(at)? = matched;
    }
    let mut matched = 0;
    for (at, line) in lines.iter().enumerate() {
        matched = advance(wanted, &fits, matched, *line);
        if matched == wanted.len() {
            return Some(at + 1 - wanted.len());
        }
    }
    None
}

/// How much fits once this line was seen.
fn advance(wanted: &[u32], fits: &[usize], mut matched: usize, line: u32) -> usize {
    loop {
        if wanted.get(matched) == Some(&line) {
            return matched + 1;
        }
        match matched.checked_sub(1).and_then(|before| fits.get(before)) {
            Some(fewer) => matched = *fewer,
            None => return 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_likeness_that_finds_anything_decides() {
        #[track_caller]
        fn check(lines: &[&str], wanted: &[&str], from: Where, expected: Option<usize>) {
            assert_eq!(Searched::new(lines).find(wanted, from), Ok(expected));
        }
        // The exact one further down is preferred to the loose one.
        check(&["a ", "a"], &["a"], Where::Line(0), Some(1));
        check(&["  a", "a\t"], &["a"], Where::Line(0), Some(1));
        check(&["  a"], &["a"], Where::Line(0), Some(0));
        check(
            &["\u{201c}x\u{201d}\u{a0}\u{2013} y"],
            &["\"x\" - y"],
            Where::Line(0),
            Some(0),
        );
        check(&["a", "b", "a", "b"], &["a", "b"], Where::Line(1), Some(2));
        check(&["a", "b", "a", "b", "c"], &["a", "b"], Where::End(0), None);
        check(&["a", "b", "a", "b"], &["a", "b"], Where::End(0), Some(2));
        check(&["a", "b"], &["a", "b"], Where::End(1), None);
        check(&["a"], &["a", "a"], Where::End(0), None);
        check(&[], &["a"], Where::Line(0), None);
        check(&["A"], &["a"], Where::Line(0), None);
    }

    #[test]
    fn repetition_does_not_make_a_search_slow() {
        let lines = vec!["a"; 200_000];
        let mut wanted = vec!["a"; 100_000];
        wanted.push("b");
        let mut file = lines.clone();
        file.push("b");
        let mut searched = Searched::new(&file);
        assert_eq!(searched.find(&wanted, Where::Line(0)), Ok(Some(100_000)));
        let spent = MAX_STEPS - searched.steps_left;
        assert!(spent < 1_000_000, "{spent}");
    }

    #[test]
    fn the_work_is_bounded() {
        let mut file = vec!["x"; 1_000_000];
        file.push("y");
        let mut searched = Searched::new(&file);
        let mut searches = 0;
        while searched.find(&["y", "x"], Where::Line(0)).is_ok() {
            searches += 1;
        }
        assert!((50..1_000).contains(&searches), "{searches}");
    }

    proptest::proptest! {
        #[test]
        fn a_search_finds_what_looking_at_every_place_finds(
            lines in proptest::collection::vec(0_u32..3, 0..40),
            wanted in proptest::collection::vec(0_u32..3, 1..6),
        ) {
            let everywhere = lines.windows(wanted.len()).position(|window| window == wanted);
            proptest::prop_assert_eq!(first_place(&lines, &wanted), everywhere);
        }
    }
}
