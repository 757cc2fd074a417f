//! Lines of a session's output, page by page (`docs/spec/exec-tool.md#8-the-process-tool`). Pure.

/// How many lines there are when nothing is said.
const DEFAULT_LINES: usize = 200;

/// Some lines of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The lines with their ends.
    pub text: String,
    /// Number of the first one, counted from 0.
    pub offset: usize,
    /// How many there are.
    pub lines: usize,
    /// How many lines the output has.
    pub total_lines: usize,
    /// How many characters the output has.
    pub total_chars: usize,
    /// How to get the others.
    pub hint: Option<String>,
}

/// The lines that are wanted: the last 200 unless something is said; `limit` alone: the last ones; `offset` alone: all
/// from there.
pub(super) fn page(text: &str, offset: Option<usize>, limit: Option<usize>) -> LogPage {
    let starts = line_starts(text);
    let total_lines = starts.len();
    let (first, count) = match (offset, limit) {
        (None, None) => last(total_lines, DEFAULT_LINES),
        (None, Some(limit)) => last(total_lines, limit),
        (Some(offset), limit) => {
            let first = offset.min(total_lines);
            (first, limit.unwrap_or(usize::MAX).min(total_lines - first))
        }
    };
    let begin = starts.get(first).copied().unwrap_or(text.len());
    let end = starts.get(first + count).copied().unwrap_or(text.len());
    let is_cut = offset.is_none() && limit.is_none() && count < total_lines;
    LogPage {
        text: text.get(begin..end).unwrap_or_default().to_owned(),
        offset: first,
        lines: count,
        total_lines,
        total_chars: text.chars().count(),
        hint: is_cut.then(|| {
            format!("the last {count} of {total_lines} lines; offset and limit (in lines) give the others")
        }),
    }
}

fn last(total: usize, wanted: usize) -> (usize, usize) {
    let count = wanted.min(total);
    (total - count, count)
}

/// Where each line begins. What follows the last line feed is a line if there is something.
fn line_starts(text: &str) -> Vec<usize> {
    let after_feeds = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0)
        .chain(after_feeds)
        .filter(|start| *start < text.len())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, offset: Option<usize>, limit: Option<usize>, expect: (&str, usize, usize)) {
        let page = page(text, offset, limit);
        assert_eq!((page.text.as_str(), page.offset, page.lines), expect);
    }

    const FOUR: &str = "a\nb\r\n\nd";

    #[test]
    fn offset_and_limit_choose_lines() {
        check(FOUR, None, None, (FOUR, 0, 4));
        check(FOUR, None, Some(2), ("\nd", 2, 2));
        check(FOUR, Some(1), None, ("b\r\n\nd", 1, 3));
        check(FOUR, Some(1), Some(1), ("b\r\n", 1, 1));
        check(FOUR, Some(3), Some(9), ("d", 3, 1));
        check(FOUR, Some(4), None, ("", 4, 0));
        check(FOUR, Some(99), Some(1), ("", 4, 0));
        check("", None, None, ("", 0, 0));
        check("a\n", None, Some(usize::MAX), ("a\n", 0, 1));
    }

    #[test]
    fn only_what_was_not_asked_for_is_hinted_at() {
        let text: String = (0..300)
            .flat_map(|number: u32| [number.to_string(), "\n".to_owned()])
            .collect();
        let default = page(&text, None, None);
        assert_eq!(
            (default.offset, default.lines, default.total_lines),
            (100, 200, 300)
        );
        assert!(default.text.starts_with("100\n") && default.text.ends_with("299\n"));
        assert_eq!(default.total_chars, text.len());
        assert_eq!(
            default.hint.as_deref(),
            Some("the last 200 of 300 lines; offset and limit (in lines) give the others")
        );
        assert_eq!(page(&text, None, Some(5)).hint, None);
        assert_eq!(page("one\n", None, None).hint, None);
    }

    proptest! {
        #[test]
        fn pages_side_by_side_are_the_whole(text in "[a\né\r]{0,40}", size in 1_usize..5) {
            let total = page(&text, None, None).total_lines;
            let pages: String = (0..total)
                .step_by(size)
                .map(|offset| page(&text, Some(offset), Some(size)).text)
                .collect();
            prop_assert_eq!(pages, text);
        }
    }
}
