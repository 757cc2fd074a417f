//! An analysis as `POST /v1/exec/explain` and approval objects show it
//! (`docs/spec/http-api.md#post-v1execexplain-answer`).

use serde::{Serialize, Serializer};

use super::{Analysis, FilledPart, Match, SegmentReport, WrapperReport};
use crate::command::{Finding, Span};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnalysisView<'a> {
    ok: bool,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    findings: &'a [Finding],
    segments: &'a [SegmentReport],
    #[serde(skip_serializing_if = "Option::is_none")]
    rendered: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SegmentView<'a> {
    span: Span,
    argv: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    filled: Vec<FilledView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<&'static str>,
    wrappers: Vec<WrapperView<'a>>,
    executable: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_path: Option<&'a str>,
    #[serde(rename = "match")]
    matched: MatchView<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inline_eval: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    runs_pipe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    near_deny_rule: Option<&'a str>,
    notes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    segments: &'a [SegmentReport],
}

#[derive(Serialize)]
struct FilledView {
    word: usize,
    span: [usize; 2],
}

#[derive(Serialize)]
struct WrapperView<'a> {
    name: &'a str,
    span: Span,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MatchView<'a> {
    kind: super::MatchKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<&'a str>,
}

impl Analysis {
    /// The segments alone, as an approval's card stores them.
    ///
    /// # Panics
    /// Never: they hold only text, numbers and lists.
    pub fn segments_json(&self) -> serde_json::Value {
        serde_json::to_value(&self.segments).expect("segments are plain data")
    }
}

impl Serialize for Analysis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AnalysisView {
            ok: self.ok,
            verdict: self.verdict.as_str(),
            reason: self.verdict.finding().map(|finding| finding.code.as_str()),
            findings: &self.findings,
            segments: &self.segments,
            rendered: self.rendered.as_deref(),
        }
        .serialize(serializer)
    }
}

impl Serialize for SegmentReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            span,
            argv,
            filled,
            operator,
            wrappers,
            executable,
            resolved_path,
            matched:
                Match {
                    kind,
                    entry_id,
                    pattern,
                },
            inline_eval,
            runs_pipe,
            near_deny_rule,
            runs_unseen: _,
            code_operands: _,
            moves: _,
            notes,
            segments,
        } = self;
        SegmentView {
            span: *span,
            argv,
            filled: filled
                .iter()
                .map(|FilledPart { word, span }| FilledView {
                    word: *word,
                    span: [span.start, span.end],
                })
                .collect(),
            operator: *operator,
            wrappers: wrappers
                .iter()
                .map(|WrapperReport { name, span }| WrapperView { name, span: *span })
                .collect(),
            executable,
            resolved_path: resolved_path.as_deref(),
            matched: MatchView {
                kind: *kind,
                entry_id: entry_id.as_deref(),
                pattern: pattern.as_deref(),
            },
            inline_eval: *inline_eval,
            runs_pipe: *runs_pipe,
            near_deny_rule: near_deny_rule.as_deref(),
            notes,
            segments,
        }
        .serialize(serializer)
    }
}
