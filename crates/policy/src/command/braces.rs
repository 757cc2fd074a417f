//! Lists and ranges in braces (G20), as bash takes them apart, in the part in which that is certain.

/// Most words that one word becomes.
const MAX_WORDS: usize = 64;
/// The numbers of a range.
const MAX_NUMBER: i32 = 9_999;

/// A letter of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) character: char,
    /// Whether it was neither quoted nor escaped.
    pub(crate) is_bare: bool,
    /// Where it stands in the source.
    pub(crate) source: u32,
}

impl Letter {
    fn is(self, character: char) -> bool {
        self.is_bare && self.character == character
    }
}

/// The words that a word with bare braces becomes, in their order. `None` where it would be more than [`MAX_WORDS`], where one of them
/// is empty, and where a brace is part of neither a list nor a range: those stay what they are in some words and not in others.
pub(crate) fn expand(word: &[Letter]) -> Option<Vec<Vec<Letter>>> {
    let words = sequence(word)?;
    words.iter().all(|word| !word.is_empty()).then_some(words)
}

/// The words of letters with any number of groups in them.
fn sequence(letters: &[Letter]) -> Option<Vec<Vec<Letter>>> {
    let Some(open) = letters.iter().position(|letter| letter.is('{')) else {
        let is_plain = !letters.iter().any(|letter| letter.is('}'));
        return is_plain.then(|| vec![letters.to_vec()]);
    };
    let before = letters.get(..open)?;
    if before.iter().any(|letter| letter.is('}')) {
        return None;
    }
    let inside = letters.get(open + 1..)?;
    let close = end_of_group(inside)?;
    let firsts = group(inside.get(..close)?)?;
    let rests = sequence(inside.get(close + 1..)?)?;
    if firsts.len().checked_mul(rests.len())? > MAX_WORDS {
        return None;
    }
    let words = firsts
        .iter()
        .flat_map(|first| rests.iter().map(move |rest| [before, first, rest].concat()));
    Some(words.collect())
}

/// Where the brace stands that closes a group whose letters begin here.
fn end_of_group(letters: &[Letter]) -> Option<usize> {
    let mut depth = 0_usize;
    letters.iter().position(|letter| {
        if letter.is('{') {
            depth += 1;
        } else if letter.is('}') {
            if depth == 0 {
                return true;
            }
            depth -= 1;
        }
        false
    })
}

/// What stands between two braces: a list with a comma of its own, or a range.
fn group(letters: &[Letter]) -> Option<Vec<Vec<Letter>>> {
    let mut parts = vec![Vec::new()];
    let mut depth = 0_usize;
    for letter in letters {
        if letter.is(',') && depth == 0 {
            parts.push(Vec::new());
            continue;
        }
        if letter.is('{') {
            depth += 1;
        } else if letter.is('}') {
            depth = depth.checked_sub(1)?;
        }
        parts.last_mut()?.push(*letter);
    }
    if parts.len() == 1 {
        return range(letters);
    }
    let mut words = Vec::new();
    for part in &parts {
        words.extend(sequence(part)?);
        if words.len() > MAX_WORDS {
            return None;
        }
    }
    Some(words)
}

/// `1..5` or `a..e`, upwards or downwards.
fn range(letters: &[Letter]) -> Option<Vec<Vec<Letter>>> {
    let source = letters.first()?.source;
    if !letters.iter().all(|letter| letter.is_bare) {
        return None;
    }
    let text: String = letters.iter().map(|letter| letter.character).collect();
    let (from, to) = text.split_once("..")?;
    let word = |text: String| -> Vec<Letter> {
        let letter = |character| Letter {
            character,
            is_bare: true,
            source,
        };
        text.chars().map(letter).collect()
    };
    if let (Some(from), Some(to)) = (number(from), number(to)) {
        let count = usize::try_from(from.abs_diff(to)).ok()?;
        let step = if from <= to { 1 } else { -1 };
        if count >= MAX_WORDS {
            return None;
        }
        let numbers = std::iter::successors(Some(from), |number| Some(number + step));
        return Some(
            numbers
                .take(count + 1)
                .map(|number| word(number.to_string()))
                .collect(),
        );
    }
    let (from, to) = (letter_of(from)?, letter_of(to)?);
    if from.is_ascii_lowercase() != to.is_ascii_lowercase() {
        return None;
    }
    let mut between: Vec<char> = (from.min(to)..=from.max(to)).collect();
    if from > to {
        between.reverse();
    }
    Some(
        between
            .into_iter()
            .map(|letter| word(letter.to_string()))
            .collect(),
    )
}

/// A number as bash prints it again.
fn number(text: &str) -> Option<i32> {
    let number: i32 = text.parse().ok()?;
    (number.abs() <= MAX_NUMBER && number.to_string() == text).then_some(number)
}

fn letter_of(text: &str) -> Option<char> {
    let mut letters = text.chars();
    let letter = letters.next().filter(char::is_ascii_alphabetic)?;
    letters.next().is_none().then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backslash stands for a quoted letter behind it.
    fn letters(text: &str) -> Vec<Letter> {
        let mut read = Vec::new();
        let mut is_bare = true;
        for (source, character) in (0..).zip(text.chars()) {
            if character == '\\' && is_bare {
                is_bare = false;
                continue;
            }
            read.push(Letter {
                character,
                is_bare,
                source,
            });
            is_bare = true;
        }
        read
    }

    fn words(text: &str) -> Option<String> {
        let words = expand(&letters(text))?;
        let word = |word: &Vec<Letter>| -> String { word.iter().map(|letter| letter.character).collect() };
        Some(words.iter().map(word).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn lists_and_ranges_become_words_in_their_order() {
        for (text, expected) in [
            ("{a,b}", "a b"),
            ("x{a,b}y", "xay xby"),
            ("x{,a}", "x xa"),
            ("{a,b}{c,d}", "ac ad bc bd"),
            ("{a,{b,c}d}e", "ae bde cde"),
            ("{a,a}", "a a"),
            ("{1..3}", "1 2 3"),
            ("{3..1}x", "3x 2x 1x"),
            ("{-1..1}", "-1 0 1"),
            ("{a..c}", "a b c"),
            ("{C..A}", "C B A"),
            ("{a..c,d}", "a..c d"),
            ("{{1..2},x}", "1 2 x"),
            ("a,b{c,d}", "a,bc a,bd"),
            ("{a\\,b,c}", "a,b c"),
            ("\\{{a,b}", "{a {b"),
        ] {
            assert_eq!(words(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_list_is_not_taken_apart() {
        for text in [
            "{a}",
            "{}",
            "{a,b",
            "a,b}",
            "{{a,b}",
            "{a,b}}",
            "{a,b}{c}",
            "{,}",
            "{,a}",
            "{1..}",
            "{01..3}",
            "{1..3..2}",
            "{a..3}",
            "{A..z}",
            "{1..65}",
            "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
            "{1..99999}",
            "{1.\\.3}",
            "{+1..3}",
            "{-0..1}",
            "{a..bc}",
            "}{",
        ] {
            assert_eq!(words(text), None, "{text}");
        }
        assert_eq!(expand(&letters("{1..64}")).map(|words| words.len()), Some(64));
    }
}
