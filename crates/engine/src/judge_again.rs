//! Questions that wait are judged again when the policy changed.
//!
//! What the policy lets run now without asking anybody ends as allowed by a rule and runs, as after a person's
//! allow-once; what it forbids ends as denied. Everything else waits on: people answer what cannot be judged as a fresh
//! call would be, or is no longer what was shown. One task does it, however many questions wait and however often the
//! policy changes. Entry points: [`crate::again::Again::wake`], which wakes it, and
//! [`Engine::judge_again_in_time`], the task.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use countersign_config::approvals::binding;
use countersign_domain::{
    Actor, ActorKind, AgentId, Approval, ApprovalId, ApprovalStatus, Binding, CallWishes, CommandInput,
    EntryId, Host, Reason, Security,
};
use countersign_ledger::{
    LedgerError, PolicyStamp, Ruling, SettleByRule, SettleOutcome, launch::LaunchTerms,
};
use countersign_policy::{combine::Wanted, command::display, gate::Verdict};
use countersign_sys::hooks;

use crate::{
    Engine,
    again::MOST_NAMED,
    evaluator::{
        Purpose,
        call::Call,
        judgement::Judgement,
        place::{self, Destination},
        policy_now::PolicyNow,
    },
    reply::ExecError,
    slots::{Slot, SlotLimits},
    supervise::Launch,
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
/// Longest text about a rule in a record: patterns may be long.
const MAX_RULE_CHARS: usize = 300;

/// What a look at a question came to.
enum Found {
    /// It is for people, as before.
    Waits,
    /// The policy lets it run.
    Runs(Box<Covered>),
    /// The policy forbids it.
    Denied(Forbidden),
}

/// What the policy lets run.
struct Covered {
    call: Call,
    judged: Judgement,
    terms: LaunchTerms,
    notice_after: Option<Duration>,
    rule: String,
}

struct Forbidden {
    stamp: PolicyStamp,
    reason: Reason,
    rule: String,
}

impl Engine {
    /// Judges questions again whenever the policy changed, until the server stops.
    pub(super) async fn judge_again_in_time(self: Arc<Self>) {
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
    async fn judge_all_again(self: &Arc<Self>, authors: &[Actor]) -> Result<(), LedgerError> {
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
            match Box::pin(self.evaluate_again(&approval, &[])).await {
                Ok(Found::Waits) => {}
                Ok(Found::Runs(_)) => covered
                    .entry(approval.card.binding.agent.clone())
                    .or_default()
                    .push(id),
                Ok(Found::Denied(forbidden)) => self.deny_by_rule(&approval, forbidden, authors).await?,
                Err(error) => {
                    if let Some(node) = node {
                        self.again.note_away(node);
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
        self: &Arc<Self>,
        agent: AgentId,
        ids: Vec<ApprovalId>,
        authors: &[Actor],
    ) -> Result<(), LedgerError> {
        for id in ids {
            let limits = SlotLimits::from(&self.settings.current().server.limits);
            let slot = tokio::select! {
                biased;
                () = self.lifecycle.stopping() => return Ok(()),
                _stop = self.switch.until_stopped() => return Ok(()),
                slot = self.slots.wait(&agent, limits) => slot,
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
        self: &Arc<Self>,
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
            let covered = match self.evaluate_again(&approval, &spent).await {
                Ok(Found::Runs(covered)) => covered,
                Ok(Found::Denied(forbidden)) => {
                    return self.deny_by_rule(&approval, forbidden, authors).await;
                }
                Ok(Found::Waits) => return Ok(()),
                Err(error) => {
                    if let Some(node) = &approval.card.binding.node_id {
                        self.again.note_away(node);
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
                    self.note_uses(&call, &judged);
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
        self.refresh_policy();
        settler(rule, &self.again.authors_with(taken))
    }

    /// What the policy of this moment says of a question that waits, as of a fresh call. `spent` are grants found to have
    /// no use left.
    ///
    /// # Errors
    /// Where it cannot be said: the question is for people.
    async fn evaluate_again(&self, approval: &Approval, spent: &[EntryId]) -> Result<Found, ExecError> {
        let (card, asker) = (&approval.card, &approval.requested_by);
        let shown = &card.binding;
        let is_whole = shown.env_hash == binding::env_hash(&approval.waiting_env);
        if approval.is_run_elsewhere() || !is_judged_here(asker, shown.host) || !is_whole {
            return Ok(Found::Waits);
        }
        let now = Box::pin(self.evaluator.policy_for(shown, asker)).await?;
        let place = self.evaluator.call_of_binding(shown, &now)?;
        // Where a record of an earlier version says nothing, the strictest value counts: the command may only be
        // forbidden.
        let wishes = card.wishes.clone().unwrap_or_else(|| CallWishes {
            security: Some(card.security),
            ask: Some(card.ask),
            ..CallWishes::default()
        });
        let asked = self
            .session
            .asked_again(&shown.agent, &shown.session, (card.elevated, asker), &now);
        let call = Call {
            requested_by: asker.clone(),
            env: approval.waiting_env.clone(),
            asked,
            wanted: Wanted {
                security: wishes.security,
                ask: wishes.ask,
            },
            named: Some(wishes),
            // What people were shown is bound to all of them.
            pins_scripts: true,
            ..place
        };
        let (now, call, judged) =
            Box::pin(self.evaluator.evaluate_on_node(call, now, spent, Purpose::Call)).await?;
        match judged.verdict {
            Verdict::Deny(reason) if is_forbidden(reason) => {
                let (detail, _hint) = judged.explain_denial(&call.agent, reason);
                Ok(Found::Denied(Forbidden {
                    stamp: judged.stamp.clone(),
                    reason,
                    rule: brief(&detail.unwrap_or_else(|| reason.as_str().to_owned())),
                }))
            }
            Verdict::Deny(_) | Verdict::Ask(_) => Ok(Found::Waits),
            Verdict::Run => self.covered(approval, (now, call, judged)).await,
        }
    }

    /// Whether what the policy lets run may start in the place of a question about it.
    async fn covered(
        &self,
        approval: &Approval,
        (now, call, judged): (PolicyNow, Call, Judgement),
    ) -> Result<Found, ExecError> {
        let card = &approval.card;
        let settings = now.settings();
        let takes_more = self.demand_of_call(&judged, settings).quorum.is_for_more();
        if card.is_for_people() || card.elevated || takes_more {
            return Ok(Found::Waits);
        }
        // Its own policy would refuse what no person allowed, and end a question that one could still answer.
        let security = judged.effective.security.value;
        if call
            .node
            .as_ref()
            .is_some_and(|node| node.wants_a_person(security))
        {
            return Ok(Found::Waits);
        }
        if !self.leads_to_same_place(&call, &now).await? {
            return Ok(Found::Waits);
        }
        let Some(binding) = self.shown_binding(approval, &judged, &now)? else {
            return Ok(Found::Waits);
        };
        let rule = rule_of(&judged);
        let start_by = card.quorum.start_by(settings.server.approvals.start_by);
        let notice_after = settings.policy.exec(&call.agent).approval_running_notice;
        let terms = LaunchTerms {
            binding,
            input: if card.binding.input.is_open() {
                judged.binding.input
            } else {
                CommandInput::Closed
            },
            stamp: judged.stamp.clone(),
            grants: judged.grants.clone(),
            start_by,
            node: judged.node.clone(),
        };
        Ok(Found::Runs(Box::new(Covered {
            call,
            judged,
            terms,
            notice_after,
            rule,
        })))
    }

    /// Whether a fresh call with the same words would come to where the question is about: an agent that belongs into a
    /// sandbox by now, or to another node, is not let out of it.
    async fn leads_to_same_place(&self, call: &Call, now: &PolicyNow) -> Result<bool, ExecError> {
        let Call {
            agent,
            session,
            asked,
            named,
            ..
        } = call;
        let Some(named) = named else { return Ok(false) };
        let availability = self.places.evaluate_sandbox(agent, asked, now).await;
        let destination = Destination {
            agent,
            session,
            asked,
            host: named.host,
            node: named.node.as_deref(),
        };
        for view in now.views() {
            let host = destination.resolve(&view.settings, &availability)?;
            if host.value != call.host() {
                return Ok(false);
            }
            if host.value == Host::Gateway {
                place::refuse_less_than_demanded(agent, &view.settings)?;
            }
        }
        match &call.node {
            Some(node) => {
                let chosen = self
                    .peers
                    .choose_node(agent, asked.node(), named.node.as_deref(), now)?;
                Ok(chosen.node_id == node.info.node_id)
            }
            None => Ok(true),
        }
    }

    /// What people were shown, if that is what would start now. What an entry covers was looked at in one look with what is
    /// bound, so that no file can be one for the rule and another for the start.
    fn shown_binding(
        &self,
        approval: &Approval,
        judged: &Judgement,
        now: &PolicyNow,
    ) -> Result<Option<Binding>, ExecError> {
        let shown = &approval.card.binding;
        if shown.host == Host::Node {
            // The node is told by which rule it runs, and that is taken from the record of the question.
            let is_same_rule = judged.effective.security.value == approval.card.security;
            let present = self.evaluator.rebind(shown, now)?;
            return Ok((is_same_rule && present == *shown).then_some(present));
        }
        let mut present = judged.binding.clone();
        present.input = shown.input;
        if present == *shown {
            return Ok(Some(present));
        }
        if judged.effective.security.value != Security::Full {
            return Ok(None);
        }
        // Everything runs that no rule forbids, and the rules looked at the files that are bound. It may have been shown as
        // a plan.
        let analysis = judged.analysis.as_ref();
        if analysis.is_some_and(|analysis| analysis.executables != shown.executables) {
            return Ok(None);
        }
        let present = self.evaluator.rebind(shown, now)?;
        Ok((present == *shown).then_some(present))
    }
}

/// Whether a fresh call of this asker to this host would be judged here. Who comes through another entry point has a person of
/// its own or runs it itself, and about what runs in a sandbox nobody is asked.
const fn is_judged_here(asker: &Actor, host: Host) -> bool {
    let by_token = matches!(asker.kind, ActorKind::Token | ActorKind::Session);
    by_token && matches!(host, Host::Gateway | Host::Node)
}

/// Whether a reason is a rule that a person made, and neither a passing trouble nor that nobody is to be asked.
fn is_forbidden(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Denylist | Reason::ToolDenied | Reason::SecurityDeny
    )
}

/// What lets a command run, in words.
fn rule_of(judged: &Judgement) -> String {
    let credited = judged.analysis.iter().flat_map(|analysis| &analysis.credited);
    let patterns: Vec<&str> = credited.map(|credit| credit.pattern.as_str()).collect();
    brief(&if judged.effective.security.value == Security::Full {
        format!("security full ({})", judged.effective.security.source)
    } else if patterns.is_empty() {
        "the allowlist".to_owned()
    } else {
        patterns.join(", ")
    })
}

fn brief(text: &str) -> String {
    let text = display::visible(text);
    if text.chars().count() <= MAX_RULE_CHARS {
        return text;
    }
    let kept: String = text.chars().take(MAX_RULE_CHARS).collect();
    format!("{kept}…")
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
