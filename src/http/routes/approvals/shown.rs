//! The command as a person is shown it: nothing hidden, the analysed parts marked.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{command::display, domain::Command};

/// Up to this many characters are shown whole (`command-analysis.md` V3).
const WHOLE_CHARS: usize = 16_384;

/// A command for the eyes of a person (`command-analysis.md` V2, V3). The exact text is `command`.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Display)]
pub(super) struct Shown {
    /// The text with every character that hides or moves others as `\u{HEX}`.
    text: String,
    /// Byte ranges of `text`, one for each top-level segment.
    spans: Vec<[usize; 2]>,
    warnings: Vec<ShownWarning>,
    /// Whether the middle is left out.
    truncated: bool,
}

/// Something about the text that a person should know.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = DisplayWarning)]
struct ShownWarning {
    #[schema(value_type = String)]
    code: &'static str,
    message: String,
}

impl Shown {
    /// Prepares a command; `segments` are those of the analysis, with spans in the command as sent.
    pub(super) fn new(command: &Command, segments: &serde_json::Value) -> Self {
        let text = command.to_text();
        let spans = match command {
            // Spans count bytes of the text as sent; an argument vector was never one.
            Command::Argv(_) => Vec::new(),
            Command::Shell(source) => spans_of(segments)
                .filter_map(|[start, end]| Some([shown_offset(source, start)?, shown_offset(source, end)?]))
                .collect(),
        };
        let display::Displayed { text, escaped } = display::escape(&text);
        let mut warnings = Vec::new();
        if escaped {
            warnings.push(ShownWarning {
                code: "hidden-characters",
                message: "characters that could hide or move text are shown as \\u{HEX}".to_owned(),
            });
        }
        Self {
            text,
            spans,
            warnings,
            truncated: false,
        }
        .shortened()
    }

    /// Leaves the middle of a long text out, never its end.
    fn shortened(mut self) -> Self {
        let chars = self.text.chars().count();
        let Some(omitted) = chars.checked_sub(WHOLE_CHARS).filter(|omitted| *omitted > 0) else {
            return self;
        };
        let half = WHOLE_CHARS / 2;
        let head: String = self.text.chars().take(half).collect();
        let tail: String = self.text.chars().skip(half + omitted).collect();
        self.spans.retain(|[_, end]| *end <= head.len());
        self.warnings.push(ShownWarning {
            code: "text-omitted",
            message: format!("{omitted} characters in the middle are not shown"),
        });
        self.text = format!("{head}\n… {omitted} characters are not shown …\n{tail}");
        self.truncated = true;
        self
    }
}

fn spans_of(segments: &serde_json::Value) -> impl Iterator<Item = [usize; 2]> {
    let segments = segments.as_array().map(Vec::as_slice).unwrap_or_default();
    segments.iter().filter_map(|segment| {
        let span = segment.get("span")?.as_array()?;
        let bound = |index: usize| usize::try_from(span.get(index)?.as_u64()?).ok();
        Some([bound(0)?, bound(1)?])
    })
}

/// Where a byte offset of the text as sent lies in the text as shown.
fn shown_offset(source: &str, offset: usize) -> Option<usize> {
    source
        .get(..offset)
        .map(|before| display::escape(before).text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_follow_the_escaped_text() {
        let command = Command::shell("a\u{202e}b && ls".to_owned()).unwrap();
        let shown = Shown::new(&command, &json!([{"span": [0, 5]}, {"span": [9, 11]}]));
        assert_eq!(shown.text, "a\\u{202E}b && ls");
        let parts: Vec<&str> = shown
            .spans
            .iter()
            .map(|[start, end]| shown.text.get(*start..*end).unwrap())
            .collect();
        assert_eq!(parts, ["a\\u{202E}b", "ls"]);
        assert_eq!(shown.warnings[0].code, "hidden-characters");
    }

    #[test]
    fn a_long_text_keeps_both_ends_and_says_what_is_missing() {
        let command = Command::shell(format!("head {} tail", "x".repeat(20_000))).unwrap();
        let shown = Shown::new(&command, &json!([{"span": [0, 4]}, {"span": [5, 20_010]}]));
        assert!(shown.truncated && shown.text.starts_with("head x") && shown.text.ends_with("x tail"));
        assert!(shown.text.contains("… 3626 characters are not shown …"));
        assert_eq!(shown.spans, [[0, 4]]);
    }

    #[test]
    fn foreign_spans_are_left_out() {
        let command = Command::shell("é".to_owned()).unwrap();
        let shown = Shown::new(
            &command,
            &json!([{"span": [0, 1]}, {"span": [0, 99]}, {"span": "x"}, 7]),
        );
        assert_eq!(shown.spans, Vec::<[usize; 2]>::new());
    }
}
