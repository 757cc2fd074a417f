//! The command as a person is shown it: nothing hidden, the analysed parts marked.

use std::{borrow::Cow, ops::Range};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{ApprovalCard, Command};
use countersign_policy::command::{
    prompt::{Notice, Prompt},
    question,
};

/// A command for the eyes of a person (`docs/spec/command-analysis.md#v2`, `docs/spec/command-analysis.md#v3`,
/// `docs/spec/command-analysis.md#v5`). The exact text is `command`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = CommandDisplay)]
pub struct Shown {
    /// The text with every character that hides or moves others as `\u{HEX}`, long blanks as their number and, where the
    /// command was understood, secrets masked.
    pub text: String,
    /// Byte ranges of `text`, one for each top-level segment.
    pub spans: Vec<[usize; 2]>,
    pub warnings: Vec<ShownWarning>,
    /// Whether the middle is left out; then the full text has to be read before an answer.
    pub truncated: bool,
}

/// Something about the text that a person should know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DisplayWarning)]
pub struct ShownWarning {
    pub code: Cow<'static, str>,
    pub message: String,
}

/// The code of the warning that says so.
const SECRETS_MASKED: &str = "secrets-masked";

impl Shown {
    /// Prepares the command of a card.
    pub(crate) fn of(card: &ApprovalCard) -> Self {
        let prompt = question::command(card);
        let mut shown = match &card.binding.command {
            Command::Shell(_) | Command::Patch(_) => Self::new(prompt, &card.segments),
            // The spans of their analysis are those of the canonical text; there is one part, and it is all of them.
            Command::Argv(_) => Self {
                spans: spans_of(&card.segments)
                    .take(1)
                    .map(|_all| [0, prompt.text.len()])
                    .collect(),
                ..Self::new(prompt, &serde_json::Value::Null)
            },
        };
        let input = question::open_input(card.binding.input).map(|message| ShownWarning {
            code: "input-open".into(),
            message: message.to_owned(),
        });
        // It changes what the answer means, and not only how the text reads.
        shown.warnings.splice(0..0, input);
        shown
    }

    /// Whether there is a mask in the text, so that the parts need one, too.
    pub(crate) fn masks_secrets(&self) -> bool {
        self.warnings.iter().any(|warning| warning.code == SECRETS_MASKED)
    }

    /// `segments` are those of the analysis, with spans in the command as sent.
    fn new(prompt: Prompt, segments: &serde_json::Value) -> Self {
        let spans = spans_of(segments)
            .filter_map(|span| prompt.shown(span))
            .map(|Range { start, end }| [start, end]);
        Self {
            spans: spans.collect(),
            warnings: prompt.notices.iter().map(ShownWarning::of).collect(),
            truncated: prompt.is_truncated(),
            text: prompt.text,
        }
    }
}

impl ShownWarning {
    fn of(notice: &Notice) -> Self {
        let (code, message) = match notice {
            Notice::HiddenCharacters => (
                "hidden-characters",
                "characters that could hide or move text are shown as \\u{HEX}".to_owned(),
            ),
            Notice::MixedScripts => (
                "mixed-scripts",
                "a word mixes letters of different scripts, which may only look like the ones you know"
                    .to_owned(),
            ),
            Notice::BlanksCollapsed => (
                "blanks-collapsed",
                "long runs of blanks are shown as their number".to_owned(),
            ),
            Notice::SecretsMasked(count) => (
                SECRETS_MASKED,
                format!("what looks like a secret is masked in {count} places; the exact text is in command"),
            ),
            Notice::Omitted(chars) => (
                "text-omitted",
                format!(
                    "{chars} characters in the middle are not shown; read the full text before you answer"
                ),
            ),
        };
        Self {
            code: code.into(),
            message,
        }
    }
}

fn spans_of(segments: &serde_json::Value) -> impl Iterator<Item = Range<usize>> {
    let segments = segments.as_array().map(Vec::as_slice).unwrap_or_default();
    segments.iter().filter_map(|segment| {
        let span = segment.get("span")?.as_array()?;
        let bound = |index: usize| usize::try_from(span.get(index)?.as_u64()?).ok();
        Some(bound(0)?..bound(1)?)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_follow_the_escaped_text() {
        let prompt = Prompt::of("a\u{202e}b && ls");
        let shown = Shown::new(prompt, &json!([{"span": [0, 5]}, {"span": [9, 11]}]));
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
    fn a_long_text_is_marked_as_cut() {
        let prompt = Prompt::of(&format!("head {} tail", "x".repeat(20_000)));
        let shown = Shown::new(prompt, &json!([{"span": [0, 4]}, {"span": [5, 20_010]}]));
        assert!(shown.truncated);
        assert_eq!(shown.warnings[0].code, "text-omitted");
        assert_eq!(shown.spans[0], [0, 4]);
    }

    #[test]
    fn foreign_spans_are_left_out() {
        let shown = Shown::new(
            Prompt::of("é"),
            &json!([{"span": [2, 1]}, {"span": [0, 99]}, {"span": "x"}, 7]),
        );
        assert_eq!(shown.spans, Vec::<[usize; 2]>::new());
    }
}
