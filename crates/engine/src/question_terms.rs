//! On which terms a person is asked about a command that the asker starts itself.

use std::time::Duration;

use countersign_domain::{
    AgentId, AgentNote, ApprovalDecision, ApprovalId, Ask, Command, EnvOverrides, ExecRequest, Host, Joining,
    Principal, Security, SessionKey,
};

/// Where a policy comes from that the asker applies.
pub(crate) const ASKER: &str = "asker";

/// A question about a command that the asker starts, or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskRequest {
    /// Who asks; never the one who may answer.
    pub asked_by: Principal,
    /// The id that the asker chose; mostly none.
    pub id: Option<ApprovalId>,
    /// The agent whose policy and approval rules apply.
    pub agent: AgentId,
    /// The session that record and card name.
    pub session: SessionKey,
    /// The command, as the person is to see it.
    pub command: Command,
    /// The directory it would run in, as the asker calls it. Not looked at: it may be on another machine.
    pub cwd: Option<String>,
    /// The host it would run on, as the asker calls it.
    pub host: Host,
    /// The node, when the host is one.
    pub node_id: Option<String>,
    /// The program, as the asker resolved it.
    pub resolved_path: Option<String>,
    /// The security that the asker applies; `None` for ours.
    pub security: Option<Security>,
    /// The ask that the asker applies; `None` for ours.
    pub ask: Option<Ask>,
    /// Environment overrides: their names are shown, the values only bound.
    pub env: EnvOverrides,
    /// The answers that the asker understands; `None` for all.
    pub decisions: Option<Vec<ApprovalDecision>>,
    /// How long the person has; `None` for `[approvals] timeout_ms`, or what a rule of theirs says, which is also the most.
    pub timeout: Option<Duration>,
    /// Who wants to know and why, for the person.
    pub detail: String,
    /// Whether an approver must be there to answer.
    pub route: Route,
}

/// Whether a question needs an approver who is there to answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// It waits for any approver who comes.
    Waits,
    /// It expires at once, as `no-route`, when no approver is there besides so many that are the asker itself.
    Needs {
        /// Approvers that are the asker's own connections.
        besides: usize,
    },
}

impl AskRequest {
    /// The call that it is about, as far as it is one like any other: its place and what is applied to it are the asker's.
    pub(crate) fn to_call(&self) -> ExecRequest {
        ExecRequest {
            command: self.command.clone(),
            workdir: None,
            env: self
                .env
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            yield_after: None,
            background: true,
            timeout: None,
            pty: false,
            host: None,
            security: None,
            ask: None,
            node: None,
            elevated: false,
            agent: self.agent.clone(),
            session: self.session.clone(),
            approval_wait: Duration::ZERO,
            note: AgentNote::default(),
            joining: Joining::Never,
        }
    }

    /// The answers that a person has where `ask` is applied.
    pub(crate) fn allowed_decisions(&self, ask: Ask) -> Vec<ApprovalDecision> {
        let is_open = |decision: &ApprovalDecision| match decision {
            // What is asked every time is not worth remembering (`docs/spec/ipc.md#4-messages`).
            ApprovalDecision::AllowAlways if self.decisions.is_none() => ask != Ask::Always,
            ApprovalDecision::AllowOnce | ApprovalDecision::AllowAlways => self
                .decisions
                .as_ref()
                .is_none_or(|decisions| decisions.contains(decision)),
            // A person can always say no.
            ApprovalDecision::Deny => true,
        };
        ApprovalDecision::ALL.iter().copied().filter(is_open).collect()
    }
}
