//! Hunks and the text of a file.

use super::{
    Hunk, Line,
    limits::MAX_FILE_LINES,
    matching::{Searched, TooMuchWork, Where},
};

/// A hunk does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("hunk {hunk}: {misfit}")]
pub struct HunkError {
    /// Which of the file's hunks, from 1.
    pub hunk: usize,
    pub(crate) misfit: Misfit,
}

/// Why a hunk does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misfit {
    /// A line behind `@@` is not there.
    #[error("the line behind @@ is not in the file, or not behind the hunk before")]
    Context,
    /// The lines that stay or go are not there.
    #[error("the lines that stay or go are not in the file in this order, or not behind the hunk before")]
    Lines,
    /// They are not the last of the file.
    #[error("the file does not end with the lines that stay or go")]
    NotAtEnd,
    /// The file is too long.
    #[error("the file has more than {MAX_FILE_LINES} lines")]
    TooLong,
    /// To look further would take too long.
    #[error("too many hunks fit only loosely into so large a file; send them in several patches")]
    TooMuchWork,
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Lf,
    CrLf,
    /// The last line of a file may end without.
    None,
}

impl Ending {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::None => "",
        }
    }
}

/// What takes the place of some lines.
struct Edit<'h> {
    /// The first of them, from 0.
    at: usize,
    hunk: &'h Hunk,
}

/// The text of a file after its hunks. Lines that stay are those of the file to the last byte; new ones end as the line
/// before does, and the file ends with a line break exactly if it did before.
///
/// # Errors
/// [`HunkError`] for the first hunk that does not apply.
pub fn apply(old: &str, hunks: &[Hunk]) -> Result<String, HunkError> {
    let (lines, endings) = split(old).ok_or(HunkError {
        hunk: 1,
        misfit: Misfit::TooLong,
    })?;
    let mut searched = Searched::new(&lines);
    let mut edits = Vec::with_capacity(hunks.len());
    let mut position = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let at = place(&mut searched, lines.len(), hunk, &mut position).map_err(|misfit| HunkError {
            hunk: index + 1,
            misfit,
        })?;
        edits.push(Edit { at, hunk });
    }
    // What is only added goes to the end of the file, where later hunks are not.
    edits.sort_by_key(|edit| edit.at);
    Ok(join(old, &written(&lines, &endings, &edits), &endings))
}

/// The lines of a text and their endings, if there are not too many.
fn split(text: &str) -> Option<(Vec<&str>, Vec<Ending>)> {
    let mut lines = Vec::new();
    let mut endings = Vec::new();
    for line in text.split_inclusive('\n') {
        if lines.len() == MAX_FILE_LINES {
            return None;
        }
        let (line, ending) = match line.strip_suffix('\n') {
            Some(line) => line
                .strip_suffix('\r')
                .map_or((line, Ending::Lf), |line| (line, Ending::CrLf)),
            None => (line, Ending::None),
        };
        lines.push(line);
        endings.push(ending);
    }
    Some((lines, endings))
}

/// The line at which a hunk takes hold; `position` is where the next may begin.
fn place(
    searched: &mut Searched<'_>,
    file_lines: usize,
    hunk: &Hunk,
    position: &mut usize,
) -> Result<usize, Misfit> {
    for context in &hunk.contexts {
        let found = searched.find(&[context], Where::Line(*position))?;
        *position = found.ok_or(Misfit::Context)? + 1;
    }
    let wanted: Vec<&str> = hunk
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
            Line::Insert(_) => None,
        })
        .collect();
    if wanted.is_empty() {
        return Ok(if hunk.contexts.is_empty() || hunk.at_end {
            file_lines
        } else {
            *position
        });
    }
    let (from, misfit) = if hunk.at_end {
        (Where::End(*position), Misfit::NotAtEnd)
    } else {
        (Where::Line(*position), Misfit::Lines)
    };
    let at = searched.find(&wanted, from)?.ok_or(misfit)?;
    *position = at + wanted.len();
    Ok(at)
}

impl From<TooMuchWork> for Misfit {
    fn from(TooMuchWork: TooMuchWork) -> Self {
        Self::TooMuchWork
    }
}

/// The lines of the new text; those that are new have no ending yet.
fn written<'a>(lines: &[&'a str], endings: &[Ending], edits: &[Edit<'a>]) -> Vec<(&'a str, Option<Ending>)> {
    let mut written = Vec::with_capacity(lines.len());
    let kept = |from: usize, to: usize| {
        let lines = lines.get(from..to).unwrap_or_default().iter().copied();
        let endings = endings.get(from..to).unwrap_or_default().iter().copied();
        lines.zip(endings.map(Some))
    };
    let mut cursor = 0;
    for Edit { at, hunk } in edits {
        written.extend(kept(cursor, *at));
        cursor = cursor.max(*at);
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => {
                    written.extend(kept(cursor, cursor + 1));
                    cursor += 1;
                }
                Line::Remove(_) => cursor += 1,
                Line::Insert(text) => written.push((text.as_str(), None)),
            }
        }
    }
    written.extend(kept(cursor, lines.len()));
    written
}

fn join(old: &str, written: &[(&str, Option<Ending>)], endings: &[Ending]) -> String {
    let is_open = !old.is_empty() && !old.ends_with('\n');
    let mut like = endings
        .iter()
        .copied()
        .find(|ending| *ending != Ending::None)
        .unwrap_or(Ending::Lf);
    let mut text = String::with_capacity(old.len());
    for (index, (line, ending)) in written.iter().enumerate() {
        if let Some(ending) = ending.filter(|ending| *ending != Ending::None) {
            like = ending;
        }
        text.push_str(line);
        let is_last = index + 1 == written.len();
        text.push_str(if is_last && is_open { Ending::None } else { like }.as_str());
    }
    text
}
