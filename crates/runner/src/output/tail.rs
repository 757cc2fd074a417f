//! The end of a text, when only so much of it may be carried.

/// What a tail begins with when something before it was left out.
pub(crate) const TAIL_MARK: &str = "… (truncated) ";

/// The last `max_chars` characters of a text, after [`TAIL_MARK`] when that is not all of it.
pub fn tail(text: &str, max_chars: usize) -> String {
    let kept = last_chars(text, max_chars);
    if kept.len() == text.len() {
        text.to_owned()
    } else {
        format!("{TAIL_MARK}{kept}")
    }
}

/// Keeps the last characters of a text that grows without end, in bounded memory.
#[derive(Debug, Clone)]
pub(crate) struct TailBuffer {
    max_chars: usize,
    text: String,
    chars: usize,
    cut: bool,
}

impl TailBuffer {
    /// Keeps the last `max_chars` characters.
    pub(crate) const fn new(max_chars: usize) -> Self {
        Self {
            max_chars,
            text: String::new(),
            chars: 0,
            cut: false,
        }
    }

    /// Adds text at the end.
    pub(crate) fn push(&mut self, text: &str) {
        let added = text.chars().count();
        if added >= self.max_chars {
            self.cut |= added > self.max_chars || self.chars > 0;
            self.text.clear();
            self.text.push_str(last_chars(text, self.max_chars));
            self.chars = self.max_chars;
            return;
        }
        self.text.push_str(text);
        self.chars += added;
        // Trimming only at twice the size makes the cost of each character constant.
        if self.chars > self.max_chars.saturating_mul(2) {
            let kept = last_chars(&self.text, self.max_chars).to_owned();
            self.text = kept;
            self.chars = self.max_chars;
            self.cut = true;
        }
    }

    /// The last `max_chars` characters (never more than the buffer keeps), marked when they are not all.
    pub(crate) fn last(&self, max_chars: usize) -> String {
        let kept = last_chars(&self.text, max_chars.min(self.max_chars));
        if kept.len() == self.text.len() && !self.cut {
            kept.to_owned()
        } else {
            format!("{TAIL_MARK}{kept}")
        }
    }
}

fn last_chars(text: &str, max_chars: usize) -> &str {
    if text.len() <= max_chars {
        return text;
    }
    let Some(before) = max_chars.checked_sub(1) else {
        return "";
    };
    // Most output is ASCII, whose end need not be looked for: every piece of output passes here.
    let end = text.get(text.len() - max_chars..).filter(|end| end.is_ascii());
    if let Some(end) = end {
        return end;
    }
    let start = text.char_indices().rev().nth(before).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, max_chars: usize, expect: &str) {
        assert_eq!(tail(text, max_chars), expect);
    }

    #[test]
    fn only_a_cut_tail_is_marked() {
        check("", 0, "");
        check("", 5, "");
        check("abc", 3, "abc");
        check("abc", 4, "abc");
        check("abcd", 3, "… (truncated) bcd");
        check("äöü漢", 2, "… (truncated) ü漢");
        check("ab", 0, "… (truncated) ");
    }

    proptest! {
        #[test]
        fn a_growing_tail_is_the_tail_of_the_whole(
            pieces in prop::collection::vec("[aé漢\n]{0,12}", 0..20),
            max_chars in 0_usize..15,
            wanted in 0_usize..15,
        ) {
            let mut buffer = TailBuffer::new(max_chars);
            for piece in &pieces {
                buffer.push(piece);
            }
            prop_assert!(buffer.text.chars().count() <= max_chars.saturating_mul(2));
            prop_assert_eq!(buffer.chars, buffer.text.chars().count());
            prop_assert_eq!(buffer.last(wanted), tail(&pieces.concat(), wanted.min(max_chars)));
        }
    }
}
