//! A line that was typed, with the word that was probably meant.

use super::{arguments::command_line, value};

/// A longer line is not printed once more.
const LONGEST_LINE: usize = 200;

/// The line with another word, or another part of one, in the place of this; `None` where that is no call, or not to be shown.
pub(crate) fn with_word(line: &[String], wrong: &str, right: &str) -> Option<String> {
    // A secret of the line is not printed.
    if line.iter().any(|word| word.starts_with("--token")) {
        return None;
    }
    let (at, corrected) = line
        .iter()
        .enumerate()
        .find_map(|(at, word)| Some((at, with_part(word, wrong, right)?)))?;
    let words = line.iter().enumerate().map(|(number, word)| {
        if number == at {
            corrected.clone()
        } else {
            word.clone()
        }
    });
    let words: Vec<String> = std::iter::once("countersign".to_owned()).chain(words).collect();
    // A guess that is no call by itself would not help: `top` is no `stop`, which needs a reason.
    if command_line().try_get_matches_from(&words).is_err() {
        return None;
    }
    let line = words
        .iter()
        .map(|word| value::quoted(word))
        .collect::<Vec<_>>()
        .join(" ");
    (line.chars().count() <= LONGEST_LINE && !line.chars().any(char::is_control)).then_some(line)
}

/// The word with another part: a word has parts at `=` and `,`.
fn with_part(word: &str, wrong: &str, right: &str) -> Option<String> {
    if word == wrong {
        return Some(right.to_owned());
    }
    let parts = || word.split_inclusive(['=', ',']);
    let name = |part: &str| part.trim_end_matches(['=', ',']).len();
    let at = parts().position(|part| part.get(..name(part)) == Some(wrong))?;
    let corrected = parts()
        .enumerate()
        .map(|(number, part)| match part.get(name(part)..) {
            Some(end) if number == at => format!("{right}{end}"),
            Some(_) | None => part.to_owned(),
        });
    Some(corrected.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_word_is_corrected_where_it_stands() {
        let corrected = |word| with_part(word, "stat", "state");
        assert_eq!(
            corrected("--json=status,stat").as_deref(),
            Some("--json=status,state")
        );
        assert_eq!(corrected("stat").as_deref(), Some("state"));
        assert_eq!(corrected("--json=status"), None);
    }
}
