//! The end of questions whose deadline has come.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use countersign_config::approvals::broker::Broker;
use countersign_domain::{Approval, ApprovalId, CommandInput, EntryId, Reason, Security, UnixMillis};
use countersign_hosts::peer_fs::Blind;
use countersign_ledger::{
    Expire, ExpireOutcome, Fallback, Ledger, LedgerError, Undecided, launch::LaunchTerms,
};
use countersign_policy::gate::{self, AfterTimeout, Coverage, FallbackVerdict, GateInput, Unanswered};
use countersign_sys::clock::Clock;

use crate::{
    base::Base, evaluator::Evaluator, launch::Launch, lifecycle::Lifecycle, reply::ExecError, runs::Runs,
    watch::PolicySource,
};

/// How often an end is tried again because the policy changed in between.
const ATTEMPTS: usize = 8;
/// The longest sleep towards a deadline: a clock that was set meanwhile is noticed that soon.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// How many deadlines are looked at together.
const DUE_AT_ONCE: u32 = 64;
/// How many questions are ended side by side at most.
const MOST_UNDER_WAY: usize = 256;
/// Pause before the ledger is asked again when it could not be read.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Pause before the next ones, so that a ledger that cannot be written is not asked without end.
const BETWEEN_PAGES: Duration = Duration::from_millis(50);

/// When it was noticed that a deadline had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// By the server that asked, or one that was there at the time.
    Live,
    /// By a server that started after it: then nothing is ever let through.
    FoundAfterRestart,
    /// It has not come, but the only one who could have answered went away without an answer.
    NobodyThere,
}

impl Expiry {
    const fn why(self) -> Undecided {
        match self {
            Self::Live | Self::FoundAfterRestart => Undecided::Timeout,
            Self::NobodyThere => Undecided::NoRoute,
        }
    }

    const fn reason(self) -> Reason {
        match self {
            Self::Live | Self::FoundAfterRestart => Reason::ApprovalTimeout,
            Self::NobodyThere => Reason::NoApprover,
        }
    }
}

/// Ends questions when their deadline comes.
#[derive(Debug)]
pub(crate) struct Expiries {
    ledger: Ledger,
    evaluator: Arc<Evaluator>,
    policy: Arc<PolicySource>,
    clock: Arc<dyn Clock>,
    broker: Arc<Broker>,
    runs: Arc<Runs>,
    /// Wakes the task: there is another deadline.
    deadlines: Arc<Notify>,
    /// When the task looks next if nothing wakes it; `None` while it looks.
    next_look: Mutex<Option<Instant>>,
    /// The questions that are being ended.
    under_way: Mutex<HashSet<ApprovalId>>,
    lifecycle: Arc<Lifecycle>,
}

impl Expiries {
    pub(crate) fn new(base: &Base, runs: Arc<Runs>, deadlines: Arc<Notify>) -> Self {
        Self {
            ledger: base.ledger.clone(),
            evaluator: Arc::clone(&base.evaluator),
            policy: Arc::clone(&base.policy),
            clock: Arc::clone(&base.clock),
            broker: Arc::clone(&base.broker),
            runs,
            deadlines,
            next_look: Mutex::default(),
            under_way: Mutex::default(),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// There is a question with this deadline. The task is woken only where it would come too late by itself.
    pub(crate) fn note_deadline(&self, expires_at: UnixMillis) {
        let due = Instant::now().checked_add(expires_at.since(self.clock.now()));
        if self
            .next_look()
            .is_none_or(|look| due.is_some_and(|due| due < look))
        {
            self.deadlines.notify_one();
        }
    }

    fn next_look(&self) -> MutexGuard<'_, Option<Instant>> {
        self.next_look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends an approval whose deadline has come, with what its fallback says.
    pub(crate) async fn expire(&self, approval: &Approval, expiry: Expiry) {
        if approval.is_run_elsewhere() {
            return self.expire_question(approval).await;
        }
        let card = &approval.card;
        let mut spent: Vec<EntryId> = Vec::new();
        let mut stale = 0;
        while stale < ATTEMPTS {
            // What a server that stops leaves is found by the next one, which lets nothing start.
            if self.lifecycle.is_draining() {
                return;
            }
            let seen = Box::pin(self.evaluator.policy_for(&card.binding, &approval.requested_by)).await;
            let is_seen = seen.is_ok();
            let now = seen.unwrap_or_else(|_away| self.policy.now());
            let effective = self.evaluator.effective_for(approval, &now);
            // Everything that became stricter since the question counts. Entries and grants that have gone do not.
            let covering = self.evaluator.still_covering(card, &now, &spent);
            let security = card.security.min(effective.security.value);
            let input = GateInput {
                security,
                ask: card.ask.max(effective.ask.value),
                ask_fallback: card.ask_fallback.min(effective.ask_fallback.value),
                coverage: Coverage {
                    satisfied: covering.is_some(),
                    analysis_ok: covering.is_some(),
                    durable: false,
                },
                denylisted: self.evaluator.is_denylisted(&card.binding, &now),
                needs_person: card.needs_person || covering.as_ref().is_some_and(|cover| cover.needs_person),
                document_refused: effective.document_refused,
                tool_denied: now.is_tool_denied(&card.binding.agent, &card.binding.command),
            };
            let after = if now.settings().server.approvals.fallback_after_timeout {
                AfterTimeout::Fallback
            } else {
                AfterTimeout::Deny
            };
            let unanswered = match expiry {
                Expiry::Live => Unanswered::Timeout(after),
                Expiry::NobodyThere => Unanswered::NoRoute,
                Expiry::FoundAfterRestart => Unanswered::FoundExpired,
            };
            let is_muted = now
                .mute(&card.binding.agent, self.evaluator.analyst.now())
                .is_some();
            let (slot, fallback) = match gate::fallback(&input, unanswered) {
                FallbackVerdict::Run if is_muted => (None, Fallback::deny(Reason::AgentMuted)),
                // Nobody allowed it, and its node is away.
                FallbackVerdict::Run if !is_seen => (None, Fallback::deny(Reason::ApprovalTimeout)),
                FallbackVerdict::Deny(reason) => (None, Fallback::deny(reason)),
                FallbackVerdict::Run => {
                    match self.runs.take_slot(&card.binding.agent, now.settings()).await {
                        Ok(slot) => match self.evaluator.rebind(&card.binding, card.security, &now) {
                            Ok(binding) => {
                                let input = match (&covering, security.min(input.ask_fallback)) {
                                    (_, Security::Full) => binding.input,
                                    (Some(cover), Security::Allowlist | Security::Deny) => {
                                        cover.input.unwrap_or(binding.input)
                                    }
                                    (None, Security::Allowlist | Security::Deny) => CommandInput::Withheld,
                                };
                                let terms = LaunchTerms {
                                    binding,
                                    input,
                                    stamp: now.stamp(),
                                    grants: covering.map_or_else(Vec::new, |cover| cover.grants),
                                    start_by: now.settings().server.approvals.start_by,
                                    node: now.node.as_ref().and_then(|node| node.launch()),
                                };
                                (Some(slot), Fallback::Run(terms))
                            }
                            // Nobody allowed it, and what would run cannot be seen.
                            Err(Blind) => (None, Fallback::deny(expiry.reason())),
                        },
                        // The question stays as it is; see above.
                        Err(ExecError::ShuttingDown) => return,
                        Err(_full) => (None, Fallback::deny(Reason::RateLimited)),
                    }
                }
            };
            match self
                .ledger
                .expire(Expire {
                    approval: approval.id.clone(),
                    fallback,
                    why: expiry.why(),
                })
                .await
            {
                Ok(ExpireOutcome::Launched { permit, approval }) => {
                    if let Some(slot) = slot {
                        // A caller who waits for it under a key may leave and join again. Not knowing is no reason to
                        // kill.
                        let is_awaited = self.broker.is_awaited(&approval.run_id);
                        let is_keyed = self.ledger.is_keyed(&approval.run_id).await.unwrap_or(true);
                        let holder = self.runs.holder_after_asking(is_awaited, is_keyed);
                        let launch = Launch::first(permit, slot, holder);
                        self.runs.start_for_waiting_callers(launch).await;
                    }
                    return;
                }
                Ok(ExpireOutcome::Stale) => stale += 1,
                // There are only so many grants, and each is left out from now on.
                Ok(ExpireOutcome::UsedUp(entry)) => spent.push(entry),
                Ok(
                    ExpireOutcome::Denied(_)
                    | ExpireOutcome::NotDue(_)
                    | ExpireOutcome::Ended(_)
                    | ExpireOutcome::NotFound,
                ) => break,
                Err(error) => {
                    tracing::error!(approval.id = %approval.id, error = &error as &dyn std::error::Error, "an approval cannot be expired yet");
                    break;
                }
            }
        }
        self.broker.touch(&approval.run_id);
    }

    /// Ends a question about a command that its asker starts. The asker finds out what its own fallback says.
    async fn expire_question(&self, approval: &Approval) {
        let expire = Expire {
            approval: approval.id.clone(),
            fallback: Fallback::deny(Reason::ApprovalTimeout),
            why: Undecided::Timeout,
        };
        if let Err(error) = self.ledger.expire(expire).await {
            tracing::error!(approval.id = %approval.id, error = &error as &dyn std::error::Error, "a question cannot be expired yet");
        }
        self.broker.touch(&approval.run_id);
    }

    /// Ends questions when their deadline comes, until the server stops.
    pub(crate) async fn expire_in_time(self: Arc<Self>) {
        loop {
            *self.next_look() = None;
            let sleep = match self.expire_due().await {
                Ok(sleep) => sleep,
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "deadlines cannot be read"
                    );
                    READ_AGAIN
                }
            };
            let next_look = Instant::now() + sleep;
            *self.next_look() = Some(next_look);
            tokio::select! {
                () = self.lifecycle.stopping() => return,
                () = self.deadlines.notified() => {}
                () = tokio::time::sleep_until(next_look) => {}
            }
        }
    }

    /// Begins the end of what is due, and returns how long nothing else will be.
    async fn expire_due(self: &Arc<Self>) -> Result<Duration, LedgerError> {
        // Those whose end goes on are still pending.
        let under_way = u32::try_from(self.under_way().len()).unwrap_or(u32::MAX);
        let page = DUE_AT_ONCE.saturating_add(under_way);
        let deadlines = self.ledger.pending_deadlines(page).await?;
        let now = self.clock.now();
        let mut due = deadlines.iter().filter(|deadline| now >= deadline.expires_at);
        let have_all_begun = due.all(|deadline| self.begin_to_expire(&deadline.approval));
        let next = deadlines.iter().find(|deadline| now < deadline.expires_at);
        Ok(match next {
            _ if !have_all_begun => BETWEEN_PAGES,
            Some(next) => next.expires_at.since(self.clock.now()).min(LONGEST_SLEEP),
            // There may be more of them.
            None if deadlines.len() >= page as usize => BETWEEN_PAGES,
            None => LONGEST_SLEEP,
        })
    }

    /// Ends a question in a task of its own: one whose fallback waits for a place to run in must not hold up the others.
    /// False when as many are under way as may be.
    fn begin_to_expire(self: &Arc<Self>, id: &ApprovalId) -> bool {
        let mut under_way = self.under_way();
        if under_way.contains(id) {
            return true;
        }
        if under_way.len() >= MOST_UNDER_WAY {
            return false;
        }
        under_way.insert(id.clone());
        drop(under_way);
        let ending = Ending {
            expiries: Arc::clone(self),
            id: id.clone(),
        };
        self.lifecycle.spawn_launch(async move { ending.expire().await });
        true
    }

    fn under_way(&self) -> MutexGuard<'_, HashSet<ApprovalId>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is being ended.
struct Ending {
    expiries: Arc<Expiries>,
    id: ApprovalId,
}

impl Ending {
    async fn expire(self) {
        match self.expiries.ledger.approval(&self.id).await {
            Ok(Some(approval)) => self.expiries.expire(&approval, Expiry::Live).await,
            Ok(None) => {}
            Err(error) => {
                tracing::error!(approval.id = %self.id, error = &error as &dyn std::error::Error, "an approval that is due cannot be read");
                let expiries = Arc::clone(&self.expiries);
                tokio::select! {
                    () = expiries.lifecycle.stopping() => return,
                    () = tokio::time::sleep(READ_AGAIN) => {}
                }
                // First, so that who looks again finds it no longer under way.
                drop(self);
                expiries.deadlines.notify_one();
            }
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.expiries.under_way().remove(&self.id);
    }
}
