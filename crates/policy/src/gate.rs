//! The one decision: run, ask or deny (`docs/spec/approvals-store.md#7-the-decision-table`,
//! `docs/spec/exec-tool.md#3-whether-it-runs`).
//!
//! Every entry point (exec, explain, policy test, nodes) comes through [`gate`], and through [`fallback`] when a
//! question found no answer.

use countersign_domain::{Ask, Reason, Security};

/// How far the allowlist covers a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// Every segment is covered, by an entry or by other means.
    pub satisfied: bool,
    /// The command could be analysed. A failed analysis counts as no match everywhere.
    pub analysis_ok: bool,
    /// An exact-text marker, or a live `allow-always` entry for every segment, covers the command.
    pub durable: bool,
}

impl Coverage {
    const fn matches(self) -> bool {
        self.satisfied && self.analysis_ok
    }
}

/// What the gate looks at: the effective policy, and what was found out about the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent finding about the command or the policy"
)]
pub struct GateInput {
    /// Effective security: the strictest of all layers.
    pub security: Security,
    /// Effective ask: the most insistent of all layers.
    pub ask: Ask,
    /// Effective fallback; clamped to `security` here too.
    pub ask_fallback: Security,
    /// What the allowlist says.
    pub coverage: Coverage,
    /// A deny rule matched anywhere in the command.
    pub denylisted: bool,
    /// Inline code in strict mode, or text that cannot be analysed while there are deny rules.
    pub needs_person: bool,
    /// Security is `deny` because the document is refused.
    pub document_refused: bool,
    /// Tool policy takes `exec` from the agent.
    pub tool_denied: bool,
}

impl GateInput {
    /// What decides where no approvals apply: tool policy alone.
    pub const fn without_approvals(tool_denied: bool) -> Self {
        Self {
            security: Security::Full,
            ask: Ask::Off,
            ask_fallback: Security::Full,
            coverage: Coverage {
                satisfied: false,
                analysis_ok: false,
                durable: false,
            },
            denylisted: false,
            needs_person: false,
            document_refused: false,
            tool_denied,
        }
    }

    /// What two policies say of one command, taken together: all that either of them holds against it counts. A command
    /// goes unasked or unanswered under it only if it would under both. Of the verdicts themselves the stricter one
    /// counts ([`Verdict::strictness`]).
    #[must_use]
    pub fn strictest(self, other: Self) -> Self {
        let Self {
            security,
            ask,
            ask_fallback,
            coverage,
            denylisted,
            needs_person,
            document_refused,
            tool_denied,
        } = other;
        Self {
            security: self.security.min(security),
            ask: self.ask.max(ask),
            ask_fallback: self.ask_fallback.min(ask_fallback),
            coverage: Coverage {
                satisfied: self.coverage.satisfied && coverage.satisfied,
                analysis_ok: self.coverage.analysis_ok && coverage.analysis_ok,
                durable: self.coverage.durable && coverage.durable,
            },
            denylisted: self.denylisted || denylisted,
            needs_person: self.needs_person || needs_person,
            document_refused: self.document_refused || document_refused,
            tool_denied: self.tool_denied || tool_denied,
        }
    }
}

/// What happens to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It runs, and nobody is asked.
    Run,
    /// A person is asked first.
    Ask(AskSpec),
    /// It does not run.
    Deny(Reason),
}

impl Verdict {
    /// How strict it is: what runs, what is asked, what is denied.
    pub const fn strictness(self) -> u8 {
        match self {
            Self::Run => 0,
            Self::Ask(_) => 1,
            Self::Deny(_) => 2,
        }
    }
}

/// How a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskSpec {
    /// What makes it ask.
    pub why: AskWhy,
    /// Whether the policy lets the answer be remembered. There must be something to remember besides.
    pub allow_always_offered: bool,
}

/// Why a person is asked, as `why.rule` of an approval spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskWhy {
    /// Effective ask is `always`.
    AskAlways,
    /// The allowlist does not cover the command.
    AllowlistMiss,
    /// Nobody but a person may allow this command.
    NeedsPerson,
    /// An approver put this command in the place of another; the gate itself never says so.
    Revised,
    /// Its asker starts it and wants only the answer; the gate itself never says so.
    Asked,
}

impl AskWhy {
    /// The word in `why.rule` of an approval.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AskAlways => "ask-always",
            Self::AllowlistMiss => "allowlist-miss",
            Self::NeedsPerson => "needs-person",
            Self::Revised => "revised",
            Self::Asked => "asked",
        }
    }
}

/// Why a question found no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// Nobody could be reached.
    NoRoute,
    /// The time ran out.
    Timeout(AfterTimeout),
    /// The time was found to have run out after a restart. Never runs.
    FoundExpired,
}

/// What `[approvals] fallback_after_timeout` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterTimeout {
    /// The setting is `true`: `askFallback` decides after a timeout too.
    Fallback,
    /// The setting is `false`: a timeout denies.
    Deny,
}

/// What happens to a command that nobody answered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum FallbackVerdict {
    /// It runs, as a decision of its own with source `ask-fallback`.
    Run,
    /// It does not run.
    Deny(Reason),
}

/// Decides without an answer from anybody.
pub fn gate(input: &GateInput) -> Verdict {
    if let Some(reason) = denied_outright(input) {
        return Verdict::Deny(reason);
    }
    let covered = !input.needs_person && (input.coverage.matches() || input.coverage.durable);
    let ask = |why, allow_always_offered| {
        Verdict::Ask(AskSpec {
            why,
            allow_always_offered,
        })
    };
    match (input.security, input.ask) {
        (Security::Deny, _) => Verdict::Deny(Reason::SecurityDeny),
        // What is asked every time is not worth remembering, and remembering it would promise otherwise.
        (Security::Allowlist | Security::Full, Ask::Always) => ask(AskWhy::AskAlways, false),
        (Security::Allowlist, Ask::Off | Ask::OnMiss) if covered => Verdict::Run,
        (Security::Allowlist, Ask::Off) => Verdict::Deny(Reason::AllowlistMiss),
        (Security::Allowlist | Security::Full, Ask::OnMiss) if input.needs_person => {
            ask(AskWhy::NeedsPerson, false)
        }
        (Security::Full, Ask::Off) if input.needs_person => ask(AskWhy::NeedsPerson, false),
        (Security::Allowlist, Ask::OnMiss) => ask(AskWhy::AllowlistMiss, true),
        (Security::Full, Ask::Off | Ask::OnMiss) => Verdict::Run,
    }
}

/// Decides for a command that had to be asked and was not answered.
pub fn fallback(input: &GateInput, unanswered: Unanswered) -> FallbackVerdict {
    if let Some(reason) = denied_outright(input) {
        return FallbackVerdict::Deny(reason);
    }
    let nobody = match unanswered {
        Unanswered::NoRoute => Reason::NoApprover,
        Unanswered::Timeout(AfterTimeout::Fallback) => Reason::ApprovalTimeout,
        Unanswered::Timeout(AfterTimeout::Deny) | Unanswered::FoundExpired => {
            return FallbackVerdict::Deny(Reason::ApprovalTimeout);
        }
    };
    match input.ask_fallback.min(input.security) {
        Security::Deny => FallbackVerdict::Deny(nobody),
        // A person's earlier "always" is no match: durable trust never replaces the answer that was wanted now.
        Security::Allowlist if input.coverage.matches() && !input.needs_person => FallbackVerdict::Run,
        Security::Allowlist => FallbackVerdict::Deny(Reason::AllowlistMiss),
        Security::Full if input.needs_person => FallbackVerdict::Deny(nobody),
        Security::Full => FallbackVerdict::Run,
    }
}

/// What no coverage and no person can lift. Deny rules come first, in every security mode.
fn denied_outright(input: &GateInput) -> Option<Reason> {
    if input.denylisted {
        Some(Reason::Denylist)
    } else if input.tool_denied {
        Some(Reason::ToolDenied)
    } else if input.security == Security::Deny && input.document_refused {
        Some(Reason::DocumentRefused)
    } else if input.security == Security::Deny {
        Some(Reason::SecurityDeny)
    } else {
        None
    }
}
