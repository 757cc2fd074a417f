//! What an analysis finds.

use std::ops::Range;

use countersign_domain::{CommandInput, Confinement, FileIdentity, Pattern, vocabulary};

use crate::command::{Finding, Plan, Span, moving::Moves};

/// The result for a whole command.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, each with its own reader"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// Auto-allowed, a miss, or a bad request.
    pub verdict: AnalysisVerdict,
    /// Whether the allowlist is satisfied: the same as `verdict` being `Allow`.
    pub satisfied: bool,
    /// Whether the command was understood completely.
    pub ok: bool,
    /// Whether a durable approval covers all of it (`docs/spec/approvals-store.md#7-the-decision-table`).
    pub durable: bool,
    /// Whether only a person may allow it, under any security: inline eval under strict mode, or text that is not
    /// understood while deny rules exist (`docs/spec/exec-tool.md#3-whether-it-runs`).
    pub needs_person: bool,
    /// Whether a segment is inline eval under strict mode.
    pub inline_eval: bool,
    /// What can be written to it where nobody answers for it: what the call wants, or what is covered of that.
    pub input: CommandInput,
    /// Whether a shell payload is part of it; then only harmless overrides are passed on (E3).
    pub shell_payload: bool,
    /// The deny rule that matched.
    pub denylisted: Option<DenyHit>,
    /// Entries and grants that cover segments, each once.
    pub credited: Vec<CreditedEntry>,
    /// The segments of the command itself; those of payloads are inside.
    pub segments: Vec<SegmentReport>,
    /// Everything that stands against it, in order.
    pub findings: Vec<Finding>,
    /// What is started; `None` when the text itself has to be (`docs/spec/command-analysis.md#x2`).
    pub plan: Option<Plan>,
    /// The plan as a script for `/bin/sh -c`.
    pub rendered: Option<String>,
    /// Every executable of the command with its identity, each once.
    pub executables: Vec<FileIdentity>,
    /// What the kernel is to keep of each program of the plan.
    pub confinement: Confinement,
    /// Of each of these programs, whether an entry says so and it is no default.
    pub confined_by_entries: Vec<bool>,
    /// What `allow-always` could store.
    pub proposed_patterns: Vec<Pattern>,
}

/// The verdict of an analysis.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum AnalysisVerdict {
    /// Every segment is covered.
    Allow,
    /// A miss, for this reason first of all.
    Ask(Finding),
    /// The request is bad, such as a NUL byte or a blocked override. Nobody is asked.
    Reject(Finding),
}

impl AnalysisVerdict {
    /// `allow`, `ask` or `reject`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask(_) => "ask",
            Self::Reject(_) => "reject",
        }
    }

    /// What stands against it.
    pub const fn finding(&self) -> Option<&Finding> {
        match self {
            Self::Allow => None,
            Self::Ask(finding) | Self::Reject(finding) => Some(finding),
        }
    }
}

/// A deny rule that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenyHit {
    /// `*` or an agent.
    pub owner: String,
    /// Its id in the approvals document.
    pub id: String,
    /// Its pattern as written.
    pub pattern: String,
    /// Why its author forbids the command; `None` if they did not say.
    pub reason: Option<String>,
    /// The word that it matches.
    pub span: Span,
}

impl Analysis {
    /// Denies the command by a rule about exactly it, unless another one did so before: nothing covers it then.
    pub fn deny(&mut self, hit: DenyHit) {
        self.denylisted.get_or_insert(hit);
        self.satisfied = false;
        self.durable = false;
        self.credited.clear();
        self.proposed_patterns.clear();
    }
}

vocabulary! {
    /// What kind of entry was used.
    pub enum CreditKind("entry or grant") {
        /// An allowlist entry.
        Entry = "entry",
        /// A grant.
        Grant = "grant",
    }
}

/// An entry or grant that a run uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreditedEntry {
    /// `*` or an agent.
    pub owner: String,
    /// Its id.
    pub id: String,
    /// Entry or grant.
    pub kind: CreditKind,
    /// Its pattern, since ids made while reading last only as long as the document in memory.
    pub pattern: String,
    /// Its argument pattern.
    pub arg_pattern: Option<String>,
    /// The path it matched, for `lastResolvedPath`; `None` for an exact text or a `*` on nothing.
    pub resolved: Option<String>,
}

vocabulary! {
    /// What covers a segment.
    pub enum MatchKind("what covers a segment") {
        /// An allowlist entry.
        Allowlist = "allowlist",
        /// A grant.
        Grant = "grant",
        /// A safe bin.
        SafeBin = "safe-bin",
        /// A safe builtin.
        Builtin = "builtin",
        /// A skill.
        Skill = "skill",
        /// All segments of its payload.
        Payload = "payload",
        /// A deny rule, against it.
        Denylist = "denylist",
        /// Nothing.
        None = "none",
    }
}

/// What covers a segment, with the entry behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The kind.
    pub kind: MatchKind,
    /// Id of the entry, grant or rule.
    pub entry_id: Option<String>,
    /// Pattern of the entry, grant or rule; the name of a safe bin.
    pub pattern: Option<String>,
}

impl Match {
    /// A match without an entry.
    pub const fn plain(kind: MatchKind) -> Self {
        Self {
            kind,
            entry_id: None,
            pattern: None,
        }
    }
}

/// One segment as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its place in the text, assignments and arguments included.
    pub span: Span,
    /// All its words, wrappers included.
    pub argv: Vec<String>,
    /// Parts of these words that are known only when it begins (G19); the words have them as they are written.
    pub filled: Vec<FilledPart>,
    /// The operator before it.
    pub operator: Option<&'static str>,
    /// Its wrappers, outermost first.
    pub wrappers: Vec<WrapperReport>,
    /// The command word behind the wrappers, as typed.
    pub executable: String,
    /// The file that names.
    pub resolved_path: Option<String>,
    /// What covers it, or the deny rule that matches it.
    pub matched: Match,
    /// Whether it is inline eval under strict mode.
    pub inline_eval: bool,
    /// Whether its input comes from the command before it in the pipeline, and it takes that as commands or code. Decides
    /// nothing.
    pub runs_pipe: bool,
    /// A deny rule about its program that its arguments do not match, as pattern and argument pattern. Decides nothing.
    pub near_deny_rule: Option<String>,
    /// Whether its arguments or its standard input may make it run more than its file, no matter what is strict and
    /// what covers it. A payload that was looked into does not: its segments are here.
    pub runs_unseen: bool,
    /// Words that may be files with code for it (T2).
    pub code_operands: Vec<String>,
    /// How these words lose their meaning, if they do.
    pub moves: Option<Moves>,
    /// What people should know of it, in words. Decides nothing.
    pub(crate) notes: Vec<String>,
    /// The segments of its payload.
    pub segments: Vec<Self>,
}

/// A part of a word that is put in when its program begins: `$?` or `$(…)` (G19).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledPart {
    /// The place of the word among all words of the segment.
    pub word: usize,
    /// The bytes of the word that stand for it.
    pub span: Range<usize>,
}

/// A wrapper before the command word of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrapperReport {
    /// The base name as typed, such as `nice`.
    pub name: String,
    /// Its place, own arguments included.
    pub span: Span,
}
