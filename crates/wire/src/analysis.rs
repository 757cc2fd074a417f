//! What the analysis found a command to be. `countersign_policy` writes it, as approvals store it; this is how it reads.

use serde::Deserialize;
use utoipa::ToSchema;

/// What the command is found to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Analysis)]
pub struct AnalysisBody {
    /// Whether the command was understood completely.
    pub ok: bool,
    /// `allow`, `ask` or `reject`.
    pub verdict: String,
    /// Code of the first finding, unless it is allowed.
    pub reason: Option<String>,
    pub findings: Vec<FindingBody>,
    pub segments: Vec<SegmentBody>,
    /// The plan as a script for `/bin/sh -c`.
    pub rendered: Option<String>,
}

/// One thing that stands against a command.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AnalysisFinding)]
pub struct FindingBody {
    pub code: String,
    /// The rule behind it.
    pub rule: String,
    /// Byte offsets of the command as sent.
    pub span: [u32; 2],
    pub detail: String,
}

/// One program call of a command.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Segment)]
pub struct SegmentBody {
    /// Byte offsets of the command as sent.
    pub span: [u32; 2],
    pub argv: Vec<String>,
    /// Parts of these words that are known only when the command begins: `$?` or `$(…)` stands for them.
    pub filled: Option<Vec<FilledPartBody>>,
    /// The operator before it.
    pub operator: Option<String>,
    pub wrappers: Vec<WrapperBody>,
    /// The command word behind the wrappers, as typed.
    pub executable: String,
    pub resolved_path: Option<String>,
    #[serde(rename = "match")]
    pub matched: MatchBody,
    /// Whether it is code in an argument, under strict inline eval.
    pub inline_eval: Option<bool>,
    /// Whether it takes what the command before it in the pipeline prints as commands or code.
    pub runs_pipe: Option<bool>,
    /// A deny rule about its program that its arguments do not match: pattern and argument pattern. Only for `read` and `admin`
    /// in an explanation.
    pub near_deny_rule: Option<String>,
    pub notes: Vec<String>,
    /// Those of its shell payload.
    #[schema(no_recursion)]
    pub segments: Option<Vec<Self>>,
}

/// A part of a word that is put in when the command begins.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FilledPart)]
pub struct FilledPartBody {
    /// Index of the word in `argv`.
    pub word: usize,
    /// Byte offsets in that word.
    pub span: [usize; 2],
}

/// A program that only starts another.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Wrapper)]
pub struct WrapperBody {
    pub name: String,
    pub span: [u32; 2],
}

/// What covers a segment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AllowlistMatch)]
pub struct MatchBody {
    /// `allowlist`, `grant`, `safe-bin`, `builtin`, `skill`, `payload`, `denylist` or `none`.
    pub kind: String,
    pub entry_id: Option<String>,
    pub pattern: Option<String>,
}
