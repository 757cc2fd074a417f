//! Questions that wait are judged again when the policy changed.
//!
//! What the policy lets run now without asking anybody ends as allowed by a rule and runs, as after a person's
//! allow-once; what it forbids ends as denied. Everything else waits on: people answer what cannot be judged as a fresh
//! call would be, or is no longer what was shown. One task does it, however many questions wait and however often the
//! policy changes. Entry points: [`crate::again::Again::wake`], which wakes it, and
//! [`JudgeAgain::judge_again_in_time`], the task.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use countersign_config::approvals::broker::Broker;
use countersign_domain::{Actor, ActorKind, AgentId, Approval, ApprovalId, ApprovalStatus, EntryId};
use countersign_ledger::{Ledger, LedgerError, Ruling, SettleByRule, SettleOutcome};
use countersign_sys::{clock::Clock, hooks};

use crate::{
    again::{Again, MOST_NAMED},
    base::Base,
    launch::Launch,
    lifecycle::Lifecycle,
    reevaluation::{Covered, Forbidden, Found, Reevaluation},
    remembered::Remembered,
    runs::Runs,
    slots::Slot,
    stop_switch::StopSwitch,
    watch::PolicySource,
};

/// How often a question is judged again because the policy changed between the judgement and the launch; after that the
/// next pass has it, which that change has asked for.
const ATTEMPTS: usize = 8;
/// Pause before a pass: changes that come together are judged by together.
const GATHERING: Duration = Duration::from_millis(50);
/// Pause after so many questions, so that they never take all of a processor.
const BREATHER: Duration = Duration::from_millis(2);
const BETWEEN_BREATHERS: usize = 16;
/// Pause before the ledger is asked again when it could not be read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Judges questions again.
#[derive(Debug)]
pub(crate) struct JudgeAgain {
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    policy: Arc<PolicySource>,
    broker: Arc<Broker>,
    again: Arc<Again>,
    reevaluation: Arc<Reevaluation>,
    remembered: Arc<Remembered>,
    runs: Arc<Runs>,
    switch: Arc<StopSwitch>,
    lifecycle: Arc<Lifecycle>,
}

impl JudgeAgain {
    pub(crate) fn new(
        base: &Base,
        again: Arc<Again>,
        reevaluation: Arc<Reevaluation>,
        remembered: Arc<Remembered>,
        runs: Arc<Runs>,
    ) -> Self {
        Self {
            ledger: base.ledger.clone(),
            clock: Arc::clone(&base.clock),
            policy: Arc::clone(&base.policy),
            broker: Arc::clone(&base.broker),
            again,
            reevaluation,
            remembered,
            runs,
            switch: Arc::clone(&base.switch),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Judges questions again whenever the policy changed, until the server stops.
    pub(crate) async fn judge_again_in_time(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.lifecycle.stopping() => return,
                () = self.again.woken() => {}
            }
            tokio::select! {
                () = self.lifecycle.stopping() => return,
                () = tokio::time::sleep(GATHERING) => {}
            }
            let authors = self.again.take_authors();
            if let Err(error) = self.judge_all_again(&authors).await {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "questions that wait cannot be judged again"
                );
                tokio::select! {
                    () = self.lifecycle.stopping() => return,
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                }
                self.again.wake();
            }
        }
    }

    /// Ends what is forbidden now, and then starts what is covered, as places come free.
    async fn judge_all_again(&self, authors: &[Actor]) -> Result<(), LedgerError> {
        let mut covered: BTreeMap<AgentId, Vec<ApprovalId>> = BTreeMap::new();
        let mut away: HashSet<String> = HashSet::new();
        for (at, id) in self.ledger.pending_approvals().await?.into_iter().enumerate() {
            if self.lifecycle.is_draining() || self.switch.stopped().is_some() {
                return Ok(());
            }
            if at % BETWEEN_BREATHERS == BETWEEN_BREATHERS - 1 {
                tokio::time::sleep(BREATHER).await;
            }
            let Some(approval) = self.pending_approval(&id).await? else {
                continue;
            };
            let node = &approval.card.binding.node_id;
            // Of a node that is away or slow one question waited for an answer; the others need not.
            if node.as_ref().is_some_and(|node| away.contains(node)) {
                continue;
            }
            let arrivals = self.again.arrivals();
            match Box::pin(self.reevaluation.again(&approval, &[])).await {
                Ok(Found::Waits) => {}
                Ok(Found::Runs(_)) => covered
                    .entry(approval.card.binding.agent.clone())
                    .or_default()
                    .push(id),
                Ok(Found::Denied(forbidden)) => self.deny_by_rule(&approval, forbidden, authors).await?,
                Err(error) => {
                    if let Some(node) = node {
                        self.again.note_away(node, arrivals);
                        away.insert(node.clone());
                    }
                    tracing::debug!(approval.id = %id, error = &error as &dyn std::error::Error, "a question is left to people");
                }
            }
        }
        // Side by side: an agent whose share is used must not hold up the others.
        let starts = covered
            .into_iter()
            .map(|(agent, ids)| self.start_covered(agent, ids, authors));
        for started in futures_util::future::join_all(starts).await {
            started?;
        }
        Ok(())
    }

    /// An approval while it waits for an answer, with the values of its overrides.
    async fn pending_approval(&self, id: &ApprovalId) -> Result<Option<Approval>, LedgerError> {
        let approval = self.ledger.approval_with_env(id).await?;
        Ok(approval.filter(|approval| {
            approval.state.status() == ApprovalStatus::Pending && !approval.is_due(self.clock.now())
        }))
    }

    /// Starts what is covered of an agent, one after the other, each when there is a place for it. Another change of the
    /// policy ends this: then everything is judged anew.
    async fn start_covered(
        &self,
        agent: AgentId,
        ids: Vec<ApprovalId>,
        authors: &[Actor],
    ) -> Result<(), LedgerError> {
        for id in ids {
            let now = self.policy.now();
            let slot = tokio::select! {
                biased;
                () = self.lifecycle.stopping() => return Ok(()),
                _stop = self.switch.until_stopped() => return Ok(()),
                slot = self.runs.wait_for_slot(&agent, now.settings()) => slot,
                () = self.again.woken() => {
                    // Taken from the task, which is waiting for this.
                    for author in authors {
                        self.again.note_author(author);
                    }
                    self.again.wake();
                    return Ok(());
                }
            };
            let start = Box::pin(self.start_one_covered(&id, slot, authors));
            self.lifecycle.track_launch(start).await?;
        }
        Ok(())
    }

    /// Judges a question with a place to run in, and starts it if the policy still lets it run.
    async fn start_one_covered(
        &self,
        id: &ApprovalId,
        slot: Slot,
        authors: &[Actor],
    ) -> Result<(), LedgerError> {
        let mut spent: Vec<EntryId> = Vec::new();
        let mut stale = 0;
        while stale < ATTEMPTS {
            if self.lifecycle.is_draining() {
                return Ok(());
            }
            let Some(approval) = self.pending_approval(id).await? else {
                return Ok(());
            };
            let arrivals = self.again.arrivals();
            let covered = match self.reevaluation.again(&approval, &spent).await {
                Ok(Found::Runs(covered)) => covered,
                Ok(Found::Denied(forbidden)) => {
                    return self.deny_by_rule(&approval, forbidden, authors).await;
                }
                Ok(Found::Waits) => return Ok(()),
                Err(error) => {
                    if let Some(node) = &approval.card.binding.node_id {
                        self.again.note_away(node, arrivals);
                    }
                    tracing::debug!(approval.id = %id, error = &error as &dyn std::error::Error, "a question is left to people");
                    return Ok(());
                }
            };
            let Covered {
                call,
                judged,
                terms,
                notice_after,
                rule,
            } = *covered;
            let run_id = &approval.run_id;
            let is_awaited = self.broker.is_awaited(run_id);
            let is_keyed = self.ledger.is_keyed(run_id).await?;
            if !is_awaited || is_keyed {
                self.ledger.outlives_caller(run_id.clone()).await?;
            }
            hooks::reach("engine.before-launch-by-rule");
            // On a thread of its own, so that the other work of this one goes on.
            #[cfg(feature = "test-hooks")]
            drop(tokio::task::spawn_blocking(|| hooks::pause("engine.judged-again")).await);
            let settle = SettleByRule {
                approval: id.clone(),
                ruling: Ruling::Run(terms),
                by: self.author_of(&rule, authors),
                words: format!("allowed by your rule: {rule}"),
            };
            match self.ledger.settle_by_rule(settle).await {
                Ok(SettleOutcome::Launched { permit, approval }) => {
                    hooks::reach("engine.launched-by-rule");
                    self.remembered.note_uses(&call, &judged);
                    let holder = self.runs.holder_after_asking(is_awaited, is_keyed);
                    let launch = Launch::first(permit, slot, holder).noticed_after(notice_after);
                    self.runs.start_for_waiting_callers(launch).await;
                    self.broker.touch(&approval.run_id);
                    return Ok(());
                }
                Ok(SettleOutcome::Stale) => stale += 1,
                // There are only so many grants, and each is left out from now on.
                Ok(SettleOutcome::UsedUp(entry)) => spent.push(entry),
                // The stop has ended the question, too.
                Ok(SettleOutcome::ForPeople) | Err(LedgerError::Stopped(_)) => return Ok(()),
                Ok(SettleOutcome::Over | SettleOutcome::Denied(_)) => {
                    self.broker.touch(run_id);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.again.wake();
        Ok(())
    }

    async fn deny_by_rule(
        &self,
        approval: &Approval,
        Forbidden { stamp, reason, rule }: Forbidden,
        authors: &[Actor],
    ) -> Result<(), LedgerError> {
        let settle = SettleByRule {
            approval: approval.id.clone(),
            ruling: Ruling::Deny { stamp, reason },
            by: self.author_of(&rule, authors),
            words: format!("denied by your rule: {rule}"),
        };
        if matches!(self.ledger.settle_by_rule(settle).await?, SettleOutcome::Stale) {
            self.again.wake();
        }
        self.broker.touch(&approval.run_id);
        Ok(())
    }

    /// Who settles it, once it was judged: a change that came after the pass began may be what it was judged by.
    fn author_of(&self, rule: &str, taken: &[Actor]) -> Actor {
        self.policy.refresh();
        settler(rule, &self.again.authors_with(taken))
    }
}

/// Who settled it, as records name them: the rule, and who made it as far as that is known.
fn settler(rule: &str, authors: &[Actor]) -> Actor {
    let mut names: Vec<&str> = authors
        .iter()
        .take(MOST_NAMED)
        .map(|author| author.name.as_str())
        .collect();
    if authors.len() > MOST_NAMED {
        names.push("others");
    }
    let by = if names.is_empty() {
        String::new()
    } else {
        format!(", set by {}", names.join(", "))
    };
    Actor {
        kind: ActorKind::System,
        id: "rule".to_owned(),
        name: format!("rule {rule}{by}"),
        owner: None,
    }
}
