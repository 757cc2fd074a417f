//! Calls that another gateway delivers to this machine: what a node host hands to the engine.
//!
//! They go the way of every call, with four differences. They run on this machine, no matter what the settings say
//! about hosts. Each has the id of its invocation, which stands for one run or one refusal for ever: a gateway that
//! delivers it again gets what became of the first. Who answers a question about it is known beforehand. And after a
//! crash the server starts nothing for them that had not started: the gateway that delivered them asks, and is told
//! that it never will start.
//! Entry point: [`Deliveries::exec_delivered`].

use std::sync::Arc;

use countersign_config::approvals::{broker::Broker, document::EntryForm};
use countersign_domain::{
    Approval, Ask, Command, ExecRequest, Principal, Reason, Run, RunId, RunStatus, Security, TokenId,
};
use countersign_ledger::{Admission, KeyState, Ledger, StoredOutcome};
use countersign_policy::{command::PathLookup as _, gate::Verdict};
use countersign_protocol::bridge::OwnRule;

use crate::{
    base::Base,
    delivery_terms::Delivery,
    draft::{CallKey, OnDisconnect},
    evaluator::{
        Evaluator, Mode,
        analyse::{self, Analyst},
    },
    exec::{Calls, Way},
    follow::Following,
    lifecycle::Lifecycle,
    live::LiveRuns,
    policy_admin::PolicyAdmin,
    reply::{ExecError, StorageTrouble},
    watch::PolicySource,
};

/// Whose keys the ids of invocations are. No token has this id.
const OWNER: &str = "node-invoke";
/// Every delivery of an id means the first one, no matter what else it says.
const ANY_BODY: &str = "";
/// The status under which a refusal is kept. Nothing reads it.
const REFUSED: u16 = 410;

/// What becomes of runs of an earlier process that were allowed or asked about and had not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unstarted {
    /// Those that may are started, and questions stay open.
    StartAgain,
    /// None is started, and questions are withdrawn. For a node host, whose gateway asks what became of each.
    Void,
    /// None is started, and questions stay open: the ledger has forgotten something, so that what is not on record may
    /// have started all the same.
    Unknown,
}

/// The id of an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Invocation(String);

impl Invocation {
    const MAX_BYTES: usize = 256;

    /// An id as it came; `None` when it is blank, too long or not printable.
    pub fn parse(text: &str) -> Option<Self> {
        let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        (!text.is_empty() && text.len() <= Self::MAX_BYTES && is_printable).then(|| Self(text.to_owned()))
    }

    /// The id as it came: 1 to 256 printable ASCII characters without spaces.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn key(&self) -> countersign_ledger::IdempotencyKey {
        countersign_ledger::IdempotencyKey {
            token: TokenId::parse(OWNER).expect("the owner of invocations is an id"),
            key: self.0.clone(),
            body_sha256: ANY_BODY.to_owned(),
            note: None,
        }
    }
}

/// What became of a delivered call at first.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivered {
    /// There is a run.
    Begun(RunId),
    /// A person is to answer; [`crate::Approvals::decide`] takes the answer.
    Asked(Box<Approval>),
}

/// What is known of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvocationState {
    /// Nothing: it was never delivered.
    Unknown,
    /// It became this run, or its recorded denial.
    Run {
        /// The run.
        run_id: RunId,
        /// The rule of this machine behind its refusal, should it have been refused; its record has the reason alone.
        rule: Option<OwnRule>,
    },
    /// It was refused with these words, and nothing will ever run for it.
    Refused(String),
}

/// What a call would be here, for a plan that the other gateway shows to a person before it is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The security in effect here for the agent.
    pub security: Security,
    /// The ask in effect here for the agent.
    pub ask: Ask,
    /// The `askFallback` in effect here: what may run when nobody answers.
    pub ask_fallback: Security,
    /// Whether skills are allowed by themselves.
    pub auto_allow_skills: bool,
    /// The allowlist of the agent.
    pub rules: Vec<PreviewRule>,
    /// Canonical path of the working directory.
    pub cwd: String,
    /// The file that the first word names, as it was found.
    pub program: Option<String>,
    /// The real file behind it.
    pub program_real: Option<String>,
    /// The script that it would run, if it is one: its path and the SHA-256 of its content.
    pub script: Option<(String, String)>,
    /// Whether a person would be asked about it.
    pub asks: bool,
    /// Whether the allowlist covers it already.
    pub covered: bool,
    /// What `allow-always` would store by itself, as (pattern, argPattern).
    pub remembered: Vec<(String, Option<String>)>,
    /// The rule of this machine that refuses it, if one does.
    pub refused: Option<OwnRule>,
    /// The rule that wants a person's answer.
    pub approval: OwnRule,
    /// The rule that counts where nobody answered.
    pub fallback: OwnRule,
}

/// One entry of an allowlist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreviewRule {
    /// What it matches, as written in the document.
    pub pattern: String,
    /// A regular expression over the arguments; `None` for any arguments.
    pub arg_pattern: Option<String>,
    /// `allow-always` for what a decision made, as in the document.
    pub source: Option<String>,
}

/// Takes calls that another gateway delivers.
#[derive(Debug)]
pub struct Deliveries {
    calls: Arc<Calls>,
    following: Arc<Following>,
    ledger: Ledger,
    live: Arc<LiveRuns>,
    broker: Arc<Broker>,
    evaluator: Arc<Evaluator>,
    analyst: Arc<Analyst>,
    policy: Arc<PolicySource>,
    policy_admin: Arc<PolicyAdmin>,
    lifecycle: Arc<Lifecycle>,
}

impl Deliveries {
    pub(crate) fn new(
        base: &Base,
        calls: Arc<Calls>,
        following: Arc<Following>,
        policy_admin: Arc<PolicyAdmin>,
    ) -> Self {
        Self {
            calls,
            following,
            ledger: base.ledger.clone(),
            live: Arc::clone(&base.live),
            broker: Arc::clone(&base.broker),
            evaluator: Arc::clone(&base.evaluator),
            analyst: Arc::clone(&base.analyst),
            policy: Arc::clone(&base.policy),
            policy_admin,
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Runs what was delivered, asks for it, or refuses it. `request.host` is not looked at, nor are the members that
    /// say how long a caller waits.
    ///
    /// # Errors
    /// [`ExecError`] says why nothing was run; a [denial](ExecError::Denied) is kept under the invocation, others are
    /// the caller's to keep with [`Deliveries::refuse_invocation`].
    ///
    /// # Cancel safety
    /// A run that started goes on.
    #[crate::compiled_once]
    pub async fn exec_delivered(
        &self,
        caller: &Principal,
        request: ExecRequest,
        invocation: &Invocation,
        delivery: &Delivery,
    ) -> Result<Delivered, ExecError> {
        if self.lifecycle.is_draining() {
            return Err(ExecError::ShuttingDown);
        }
        let key = CallKey {
            kept: invocation.key(),
            on_disconnect: OnDisconnect::Detach,
            is_named: true,
        };
        let run_id = match self
            .calls
            .begin_call(caller, request, Some(&key), Some(delivery))
            .await?
            .way
        {
            Way::Started(live) => return Ok(Delivered::Begun(live.run_id.clone())),
            Way::Follow(run_id, _) | Way::Joined(run_id) => run_id,
        };
        let run = self.following.fetch_run(&run_id).await?;
        match (run.status, &run.approval_id) {
            (RunStatus::Asking, Some(id)) => {
                let approval = self.ledger.approval(id).await?;
                let approval = approval.ok_or(StorageTrouble::Unavailable)?;
                Ok(Delivered::Asked(Box::new(approval)))
            }
            _ => Ok(Delivered::Begun(run_id)),
        }
    }

    /// What is known of an invocation.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn invocation(&self, invocation: &Invocation) -> Result<InvocationState, StorageTrouble> {
        Ok(match self.ledger.key_state(&invocation.key()).await? {
            KeyState::New => InvocationState::Unknown,
            KeyState::Known(kept) => state_of(kept),
            // Every body is the same one.
            KeyState::Mismatch => return Err(StorageTrouble::Unavailable),
        })
    }

    /// Refuses an invocation for ever, unless something else became of it before. Returns the decision that stands.
    ///
    /// # Errors
    /// [`StorageTrouble`] when that cannot be kept.
    #[crate::compiled_once]
    pub async fn refuse_invocation(
        &self,
        invocation: &Invocation,
        words: String,
    ) -> Result<InvocationState, StorageTrouble> {
        let kept = self
            .ledger
            .keep_answer(invocation.key(), REFUSED, words.clone())
            .await?;
        match kept {
            Admission::New(()) => Ok(InvocationState::Refused(words)),
            Admission::Known(kept) => Ok(state_of(kept)),
            Admission::Mismatch => Err(StorageTrouble::Unavailable),
        }
    }

    /// Waits until a run has begun, or never will. A run that is asked about waits as long as the question does.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read, or knows no such run.
    #[crate::compiled_once]
    pub async fn wait_for_start(&self, run_id: &RunId) -> Result<Run, StorageTrouble> {
        let mut changes = self.broker.subscribe(run_id);
        loop {
            if let Some(live) = self.live.unfinished(run_id) {
                live.started().await;
                let mut run = self.known(run_id).await?;
                // The record of a start waits for the next commit, and may not be there yet.
                if run.status == RunStatus::Launching {
                    run.status = RunStatus::Running;
                }
                return Ok(run);
            }
            let run = self.known(run_id).await?;
            if run.status.is_final() || run.status == RunStatus::Running {
                return Ok(run);
            }
            changes.changed().await;
        }
    }

    /// Waits for the end of a run, however long that takes.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read, or knows no such run.
    #[crate::compiled_once]
    pub async fn wait_for_end(&self, run_id: &RunId) -> Result<Run, StorageTrouble> {
        let mut changes = self.broker.subscribe(run_id);
        loop {
            if let Some(live) = self.live.unfinished(run_id) {
                return Ok(live.ended().await.run.clone());
            }
            let run = self.known(run_id).await?;
            if run.status.is_final() {
                return Ok(run);
            }
            changes.changed().await;
        }
    }

    async fn known(&self, run_id: &RunId) -> Result<Run, StorageTrouble> {
        self.ledger.run(run_id).await?.ok_or(StorageTrouble::Unavailable)
    }

    /// What a call would be here. Nothing is started or stored, and nobody is asked.
    ///
    /// # Errors
    /// What [`Deliveries::exec_delivered`] answers to a call that is refused for another reason than policy.
    #[crate::compiled_once]
    pub async fn preview_delivered(
        &self,
        caller: &Principal,
        request: ExecRequest,
    ) -> Result<Preview, ExecError> {
        let evaluation = Box::pin(self.evaluator.evaluate(caller, request, &Mode::plan())).await?;
        let (now, call, analysis) = (evaluation.policy, evaluation.call, evaluation.analysis);
        let judged = evaluation.judged?;
        let lookup = self.analyst.path_lookup(&call.agent, now.settings());
        let program = match &call.command {
            Command::Argv(argv) => {
                let name = argv.first().map_or("", String::as_str);
                Some(analyse::program_path(name, &call.workdir.path, &lookup))
                    .filter(|path| path.starts_with('/'))
            }
            Command::Shell(_) | Command::Patch(_) => None,
        };
        let program_real = program.as_deref().and_then(|path| lookup.real(path));
        lookup.check()?;
        let mut rules: Vec<PreviewRule> = now
            .views()
            .flat_map(|view| view.document.entries(call.agent.as_str()))
            .filter(|listed| !matches!(listed.item.form(), EntryForm::Inert(_)))
            .map(|listed| PreviewRule {
                pattern: listed.item.pattern.clone(),
                arg_pattern: listed.item.arg_pattern.clone(),
                source: listed.item.source.clone(),
            })
            .collect();
        rules.sort();
        rules.dedup();
        let script = match judged.binding.scripts.as_slice() {
            [script] => Some((script.path.clone(), script.sha256.clone())),
            // Of several none is what would be run; what is bound here covers them all the same.
            _ => None,
        };
        let refused = match judged.verdict {
            Verdict::Deny(reason) => Some(self.policy_admin.own_rule(&judged, reason)),
            Verdict::Run | Verdict::Ask(_) => None,
        };
        Ok(Preview {
            refused,
            approval: self.policy_admin.own_rule(&judged, Reason::ApprovalRequired),
            fallback: self
                .policy_admin
                .rule_of(Reason::SecurityDeny, &judged.effective.ask_fallback),
            security: judged.effective.security.value,
            ask: judged.effective.ask.value,
            ask_fallback: judged.effective.ask_fallback.value,
            auto_allow_skills: judged.effective.auto_allow_skills.value,
            rules,
            cwd: judged.binding.cwd,
            program,
            program_real,
            script,
            asks: matches!(judged.verdict, Verdict::Ask(_)),
            covered: analysis.as_ref().is_some_and(|analysis| analysis.satisfied),
            remembered: analysis
                .iter()
                .flat_map(|analysis| &analysis.proposed_patterns)
                .filter(|pattern| pattern.default)
                .map(|pattern| (pattern.pattern.clone(), pattern.arg_pattern.clone()))
                .collect(),
        })
    }

    /// The files that names without a slash stand for on the PATH of this machine's commands; only what is found.
    ///
    /// # Errors
    /// [`ExecError::Blind`] when nobody can look.
    pub fn which_delivered(
        &self,
        agent: &countersign_domain::AgentId,
        names: &[String],
    ) -> Result<Vec<(String, String)>, ExecError> {
        let now = self.policy.now();
        let lookup = self.analyst.path_lookup(agent, now.settings());
        let found = names
            .iter()
            .filter_map(|name| Some((name.clone(), lookup.search(name)?)))
            .collect();
        lookup.check()?;
        Ok(found)
    }
}

fn state_of(kept: StoredOutcome) -> InvocationState {
    match kept {
        StoredOutcome::Run { run, hint } => InvocationState::Run {
            run_id: run,
            // An earlier version kept something else there.
            rule: hint.and_then(|note| serde_json::from_str(&note).ok()),
        },
        StoredOutcome::Answer { status: _, body } => InvocationState::Refused(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_invocations_are_short_and_printable() {
        for good in ["a", "0d889ca9-d1ae-4898-9387-b9eeba231908", &"x".repeat(256)] {
            assert_eq!(Invocation::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "a\n", "\u{e9}", &"x".repeat(257)] {
            assert_eq!(Invocation::parse(bad), None, "{bad:?}");
        }
    }
}
