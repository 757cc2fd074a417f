//! Questions about commands that the asker starts itself: a peer of the approvals socket
//! (`docs/spec/ipc.md#4-messages`, type `request`), a client of the Bridge (`exec.approval.request`).
//!
//! Such a question is an ordinary approval with a run of its own record: it is listed, told of, answered and withdrawn
//! like any other. What sets it apart is what it is bound to, [`Bound::Elsewhere`]: nothing that this server could
//! start. An allowing answer ends the run in the same transaction as `lost` with [`Reason::RunElsewhere`], so that
//! neither a launch nor a recovery ever finds it, and stays there to be used up once ([`crate::Approvals::use_answer`]). Silence
//! never allows: the asker applies the fallback of its own command.

use std::{sync::Arc, time::Duration};

use countersign_config::approvals::binding;
use countersign_domain::{
    Actor, AgentId, Approval, ApprovalCard, ApprovalDecision, ApprovalId, Ask, Binding, Bound, Command,
    CommandInput, EnvOverrides, Host, Isolation, Pinning, Reason, Security, SessionKey, Stop, Why,
};
use countersign_ledger::{
    Admission, ApprovalFilter, AskOutcome, Asking, Fallback, Ledger, LedgerError, NewApproval, NewRun,
    NoRoute, NoRouteOutcome, Page,
};
use countersign_policy::{approval_rules::Demand, combine::Wanted, command::question};

use crate::{
    approvers::Approvers,
    base::{Base, NewIds},
    expiry::Expiries,
    lifecycle::Lifecycle,
    reply::StorageTrouble,
    stop_switch::StopSwitch,
    watch::PolicySource,
};

/// A question about a command that the asker starts, or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskRequest {
    /// Who asks; never the one who may answer.
    pub asked_by: Actor,
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

/// Why nobody is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Too many approvals are pending.
    #[error("too many approvals are pending")]
    TooManyPending,
    /// There is an approval with the chosen id.
    #[error("there is an approval with this id")]
    IdTaken,
    /// Another approval begins like the chosen id, and people name approvals by their beginnings.
    #[error("another approval begins with the same 8 characters")]
    SlugTaken,
    /// The server takes no new questions because it stops.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The emergency stop is in effect: the answer is no.
    #[error("everything is stopped")]
    Stopped(Arc<Stop>),
    /// The ledger cannot be written.
    #[error("the ledger cannot be written")]
    Storage(#[from] StorageTrouble),
}

impl From<LedgerError> for AskError {
    fn from(error: LedgerError) -> Self {
        match error.into_stop() {
            Ok(stop) => Self::Stopped(stop),
            Err(error) => Self::Storage(error.into()),
        }
    }
}

impl AskRequest {
    /// What the answer is bound to. Equal requests have equal digests.
    fn binding(&self) -> Binding {
        Binding {
            host: self.host,
            node_id: self.node_id.clone(),
            agent: self.agent.clone(),
            session: self.session.clone(),
            command: self.command.clone(),
            // The answer is the asker's alone: the same question of another asker has another digest.
            bound: Bound::Elsewhere {
                asked_by: Some(format!("{}:{}", self.asked_by.kind.as_str(), self.asked_by.id)),
            },
            cwd: self.cwd.clone().unwrap_or_default(),
            cwd_dev: 0,
            cwd_ino: 0,
            env_hash: binding::env_hash(&self.env),
            executables: Vec::new(),
            executable_sha256: None,
            script: None,
            scripts: Vec::new(),
            held: None,
            pty: false,
            // What the one who asked starts, and with which input, is not known here.
            input: CommandInput::Closed,
            timeout_ms: 0,
        }
    }

    /// The digest by which [`crate::Approvals::use_answer`] finds the answer to this question.
    pub fn digest(&self) -> String {
        self.binding().digest()
    }

    fn allowed_decisions(&self, ask: Ask) -> Vec<ApprovalDecision> {
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

/// Asks people about commands that their askers start.
#[derive(Debug)]
pub struct AskOnly {
    ledger: Ledger,
    new_ids: NewIds,
    policy: Arc<PolicySource>,
    approvers: Arc<Approvers>,
    expiries: Arc<Expiries>,
    switch: Arc<StopSwitch>,
    lifecycle: Arc<Lifecycle>,
}

impl AskOnly {
    pub(crate) fn new(base: &Base, approvers: Arc<Approvers>, expiries: Arc<Expiries>) -> Self {
        Self {
            ledger: base.ledger.clone(),
            new_ids: base.new_ids.clone(),
            policy: Arc::clone(&base.policy),
            approvers,
            expiries,
            switch: Arc::clone(&base.switch),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Asks a person about a command that the asker starts, and returns the approval: pending, or expired as `no-route`
    /// where [`Route::Needs`] finds nobody. A pending one stays so until it is answered, withdrawn ([`crate::Approvals::withdraw_question`]) or its deadline has come; [`crate::Approvals::answer_to`] waits for that.
    ///
    /// # Errors
    /// [`AskError`] when nobody is asked; then nothing was recorded.
    pub async fn ask(&self, request: AskRequest) -> Result<Approval, AskError> {
        if self.lifecycle.is_draining() {
            return Err(AskError::ShuttingDown);
        }
        self.switch.expect_going().map_err(AskError::Stopped)?;
        let now = self.policy.now();
        let settings = now.settings();
        let ours = now.effective(&request.agent, Wanted::default());
        let security = request.security.unwrap_or(ours.security.value);
        let ask = request.ask.unwrap_or(ours.ask.value);
        let Demand { quorum, decide_by } =
            self.approvers
                .demand_of_other(&request.agent, request.host, settings);
        let longest = decide_by.unwrap_or(settings.server.approvals.timeout);
        if let Some(id) = &request.id {
            self.expect_free(id).await?;
        }
        let shown_env = question::environment(&request.env);
        let card = ApprovalCard {
            binding: request.binding(),
            security,
            ask,
            ask_fallback: Security::Deny,
            satisfied: false,
            needs_person: true,
            why: Why {
                layer: "asker".to_owned(),
                rule: "asked".to_owned(),
                detail: request.detail.clone(),
                span: None,
            },
            allowed_decisions: if shown_env.is_whole() {
                request.allowed_decisions(ask)
            } else {
                // Nobody can say yes to what nobody can be shown.
                vec![ApprovalDecision::Deny]
            },
            proposed_patterns: Vec::new(),
            resolved_path: request.resolved_path.clone(),
            segments: serde_json::json!([]),
            is_understood: false,
            env: shown_env,
            document_hash: now.stamp().document_hash,
            elevated: false,
            quorum,
            wishes: None,
        };
        let AskRequest {
            asked_by,
            id,
            agent,
            session,
            command,
            cwd,
            host,
            node_id,
            resolved_path: _,
            security: _,
            ask: _,
            env,
            decisions: _,
            timeout,
            detail: _,
            route,
        } = request;
        let run = NewRun {
            id: self.new_ids.run(),
            host,
            node_id,
            agent,
            session,
            command,
            cwd: cwd.unwrap_or_default(),
            env,
            requested_by: asked_by,
            security,
            ask,
            pty: false,
            background: true,
            input: CommandInput::Closed,
            diverted: false,
            // The least that can be said of a command which another program starts.
            isolation: if host == Host::Node {
                Isolation::Node
            } else {
                Isolation::SameUser
            },
            sandbox: None,
            binding: Some(Pinning::Text),
            scripts: None,
            timeout: None,
        };
        let approval = NewApproval {
            id: id.unwrap_or_else(|| self.new_ids.approval()),
            card,
            timeout: self
                .approvers
                .waits_for(
                    &run.requested_by,
                    timeout.map_or(longest, |timeout| timeout.min(longest)),
                )
                .await?,
            revises: None,
        };
        let is_routed = match route {
            Route::Waits => true,
            Route::Needs { besides } => self.approvers.are_reachable_besides(settings, besides),
        };
        if !is_routed {
            let unrouted = NoRoute {
                run,
                approval,
                key: None,
                fallback: Fallback::deny(Reason::NoApprover),
                hint: None,
            };
            return match self.ledger.admit_no_route(unrouted).await? {
                Admission::New(NoRouteOutcome::Denied(approval)) => Ok(*approval),
                Admission::New(NoRouteOutcome::IdTaken) => Err(AskError::IdTaken),
                // A denial is never launched, and only a call with an idempotency key can be known.
                Admission::New(
                    NoRouteOutcome::Launched { .. } | NoRouteOutcome::Stale | NoRouteOutcome::UsedUp(_),
                )
                | Admission::Known(_)
                | Admission::Mismatch => Err(StorageTrouble::Unavailable.into()),
            };
        }
        let asking = Asking {
            run,
            approval,
            key: None,
            max_pending: u64::try_from(settings.server.approvals.max_pending).unwrap_or(u64::MAX),
        };
        match self.ledger.admit_asking(asking).await? {
            Admission::New(AskOutcome::Asked(approval)) => {
                self.expiries.note_deadline();
                Ok(*approval)
            }
            Admission::New(AskOutcome::TooManyPending) => Err(AskError::TooManyPending),
            // Another question took it in between.
            Admission::New(AskOutcome::IdTaken) => Err(AskError::IdTaken),
            // Only a call with an idempotency key can be known.
            Admission::Known(_) | Admission::Mismatch => Err(StorageTrouble::Unavailable.into()),
        }
    }

    /// Refuses a chosen id that stands for an approval, whole or by the beginning that people answer by: they were shown
    /// another command under that name. One that has ended counts, too, for its answer may come late.
    async fn expect_free(&self, id: &ApprovalId) -> Result<(), AskError> {
        let taken = self.ledger.approval(id).await.map_err(StorageTrouble::from)?;
        if taken.is_some() {
            return Err(AskError::IdTaken);
        }
        let alike = ApprovalFilter {
            id_prefix: Some(id.slug().to_owned()),
            ..ApprovalFilter::default()
        };
        let alike = self
            .ledger
            .approvals(alike, Page::first(1))
            .await
            .map_err(StorageTrouble::from)?;
        match alike.items.first() {
            None => Ok(()),
            // It came in between.
            Some(other) if other.id == *id => Err(AskError::IdTaken),
            Some(_other) => Err(AskError::SlugTaken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::ActorKind;

    fn request(decisions: Option<Vec<ApprovalDecision>>) -> AskRequest {
        let agent = AgentId::main();
        AskRequest {
            asked_by: Actor {
                kind: ActorKind::Ipc,
                id: "uid-1".to_owned(),
                name: "x".to_owned(),
                owner: None,
            },
            id: None,
            session: SessionKey::main_of(&agent),
            agent,
            command: Command::shell("ls".to_owned()).unwrap(),
            cwd: None,
            host: Host::Gateway,
            node_id: None,
            resolved_path: None,
            security: None,
            ask: None,
            env: EnvOverrides::default(),
            decisions,
            timeout: None,
            detail: String::new(),
            route: Route::Waits,
        }
    }

    #[test]
    fn a_person_can_say_no_whatever_the_asker_understands() {
        use ApprovalDecision::{AllowAlways, AllowOnce, Deny};
        assert_eq!(
            request(None).allowed_decisions(Ask::OnMiss),
            [AllowOnce, AllowAlways, Deny]
        );
        assert_eq!(request(None).allowed_decisions(Ask::Always), [AllowOnce, Deny]);
        assert_eq!(request(Some(vec![])).allowed_decisions(Ask::OnMiss), [Deny]);
        assert_eq!(
            request(Some(vec![AllowAlways])).allowed_decisions(Ask::Always),
            [AllowAlways, Deny]
        );
    }

    #[test]
    fn the_digest_changes_with_everything_that_was_shown_and_with_who_asks() {
        let first = request(None);
        let changes: [fn(&mut AskRequest); 7] = [
            |r| r.command = Command::shell("ls -l".to_owned()).unwrap(),
            |r| r.cwd = Some("/tmp".to_owned()),
            |r| r.host = Host::Node,
            |r| r.agent = AgentId::parse("other").unwrap(),
            |r| r.session = SessionKey::parse("s").unwrap(),
            // And with the asker, for the answer is the asker's.
            |r| r.asked_by.kind = ActorKind::Token,
            |r| r.asked_by.id = "uid-2".to_owned(),
        ];
        for change in changes {
            let mut other = first.clone();
            change(&mut other);
            assert_ne!(other.digest(), first.digest());
        }
        assert_eq!(first.clone().digest(), first.digest());
    }
}
