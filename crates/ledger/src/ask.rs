//! Asking a person: the approval and the waiting run are one transaction.

use std::time::Duration;

use rusqlite::params;

use countersign_domain::quoting;
use countersign_domain::{
    Actor, Approval, ApprovalCard, ApprovalDecision, ApprovalId, ApprovalState, ApprovalStatus, Bound,
    Command, DecidedBy, EntryId, EnvOverrides, Joining, Reason, RunDecision, RunId, RunStatus, RunVerdict,
    TerminalReason, UnixMillis,
};

use crate::events::{Event, EventKind, Resolution, Subject};

use super::{
    approvals,
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    expire::Fallback,
    grants,
    handle::Ledger,
    idempotency::{self, Admission, IdempotencyKey},
    job::Job,
    launch::{Permit, Ready, Start},
    new_run::{Entrance, NewRun},
    run_end,
    sql::{fetch, json},
    tx::{Committed, Tx},
    waiting::{QuestionLimits, TooManyQuestions},
    withdraw,
};

/// An approval on its way into the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct NewApproval {
    /// A new id: drawn at random, or chosen by the asker of a question without a run here.
    pub id: ApprovalId,
    /// What the person is shown and the answer is bound to.
    pub card: ApprovalCard,
    /// How long the person has.
    pub timeout: Duration,
    /// The approval that it takes the place of.
    pub revises: Option<ApprovalId>,
}

/// A run that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Asking {
    /// The run to record as `asking`.
    pub run: NewRun,
    /// The approval to record as `pending`; its deadline counts from the commit's time.
    pub approval: NewApproval,
    /// The key it came with.
    pub key: Option<IdempotencyKey>,
    /// How many may wait, and how often one may be asked.
    pub limits: QuestionLimits,
    /// Whether it may wait for the answer to the same question.
    pub joining: Joining,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
pub enum AskOutcome {
    /// The person is asked until the approval's deadline.
    Asked(Box<Approval>),
    /// Too many wait, or too many were asked: there is no question.
    TooMany(TooManyQuestions),
    /// The same question waits, and this is the run that waits for it.
    Joined(RunId),
    /// There is an approval with this id; nothing was written.
    IdTaken,
}

#[derive(Debug)]
pub(super) enum AskDraft {
    Asked(UnixMillis),
    TooMany(TooManyQuestions),
    Joined(RunId),
    IdTaken,
}

impl Ledger {
    /// Admits a run that waits for a person.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn admit_asking(&self, asking: Asking) -> Result<Admission<AskOutcome>, LedgerError> {
        self.queue.submit(asking).await
    }

    /// Admits a run that nobody can be asked about.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn admit_no_route(&self, no_route: NoRoute) -> Result<Admission<NoRouteOutcome>, LedgerError> {
        self.queue.submit(no_route).await
    }
}

impl Job for Asking {
    type Draft = Admission<AskDraft>;
    type Answer = Admission<AskOutcome>;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        if self.key.is_some() {
            Durability::Full
        } else {
            Durability::Normal
        }
    }

    fn needs_reserve(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Draft, Fault> {
        let Self {
            run,
            approval,
            key,
            limits,
            joining,
        } = self;
        let key = key.as_ref();
        idempotency::admit(tx, key, |tx| {
            tx.expect_going()?;
            if is_taken(tx, &approval.id)? {
                return Ok(AskDraft::IdTaken);
            }
            if *joining == Joining::Joins
                && let Some(joined) = tx.join_question(run, approval, limits)?
            {
                return match joined {
                    Ok(run_id) => {
                        idempotency::keep_run(tx, key, &run_id)?;
                        Ok(AskDraft::Joined(run_id))
                    }
                    Err(refusal) => Ok(AskDraft::TooMany(refusal)),
                };
            }
            if let Err(refusal) = tx.admit_question(&run.requested_by, &run.agent, limits)? {
                return Ok(AskDraft::TooMany(refusal));
            }
            let now = tx.now();
            run.insert(tx, &Entrance::asked(&approval.id, key.is_some()))?;
            idempotency::keep_run(tx, key, &run.id)?;
            insert_pending(tx, run, approval)?;
            if *joining != Joining::Never {
                tx.open_question(run, approval);
            }
            tx.log(
                Event {
                    subject: subject(run, &approval.id),
                    kind: requested(run, approval, now),
                },
                &run.requested_by,
            )?;
            // Its token may have ended while the call was on its way.
            if withdraw::why_gone(tx, &run.requested_by)?.is_some()
                && let Some(stored) = approvals::fetch_stored(tx.connection, &approval.id)?
            {
                withdraw::of_gone_asker(tx, &stored)?;
            }
            Ok(AskDraft::Asked(now))
        })
    }

    fn committed(self, draft: Self::Draft, _proof: &Committed) -> Admission<AskOutcome> {
        let Self { run, approval, .. } = self;
        draft.map(|draft| match draft {
            AskDraft::Asked(now) => {
                AskOutcome::Asked(Box::new(record(run, approval, ApprovalState::Pending, now)))
            }
            AskDraft::TooMany(refusal) => AskOutcome::TooMany(refusal),
            AskDraft::Joined(run_id) => AskOutcome::Joined(run_id),
            AskDraft::IdTaken => AskOutcome::IdTaken,
        })
    }
}

/// A run that a person should be asked about while nobody can be reached: the approval is recorded `expired`,
/// `no-route`, and the fallback counts, all at once.
#[derive(Debug, Clone, PartialEq)]
pub struct NoRoute {
    /// The run to record: `denied`, or `launching` if the fallback lets it start.
    pub run: NewRun,
    /// The approval that nobody sees pending.
    pub approval: NewApproval,
    /// The key it came with.
    pub key: Option<IdempotencyKey>,
    /// What the policy says when nobody answers; the caller judged it.
    pub fallback: Fallback,
    /// What would change it; kept with the key.
    pub hint: Option<String>,
}

/// What became of it.
#[derive(Debug)]
pub enum NoRouteOutcome {
    /// The fallback denied the run.
    Denied(Box<Approval>),
    /// The fallback lets it start.
    Launched {
        /// Starts the run, as the terms of the fallback say.
        permit: Permit,
        /// The record of the approval.
        approval: Box<Approval>,
    },
    /// The policy changed since it was judged; nothing was written, judge again.
    Stale,
    /// A grant has no use left; nothing was written, judge again without it.
    UsedUp(EntryId),
    /// There is an approval with this id; nothing was written.
    IdTaken,
}

#[derive(Debug)]
pub(super) enum NoRouteDraft {
    Denied(UnixMillis),
    Ready(Ready, UnixMillis),
    Stale,
    UsedUp(EntryId),
    IdTaken,
}

impl Job for NoRoute {
    type Draft = Admission<NoRouteDraft>;
    type Answer = Admission<NoRouteOutcome>;

    fn durability(&self, tuning: &Tuning) -> Durability {
        let by_key = if self.key.is_some() {
            Durability::Full
        } else {
            Durability::Normal
        };
        by_key.max(self.fallback.durability(tuning))
    }

    fn needs_reserve(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Self::Draft, Fault> {
        let Self {
            run,
            approval,
            key,
            fallback,
            hint: _,
        } = self;
        let key = key.as_ref();
        idempotency::admit(tx, key, |tx| {
            tx.expect_going()?;
            if is_taken(tx, &approval.id)? {
                return Ok(NoRouteDraft::IdTaken);
            }
            let now = tx.now();
            let state = ApprovalState::Expired {
                at: now,
                why: TerminalReason::NoRoute,
            };
            let by_fallback = |verdict| RunDecision {
                verdict,
                by: DecidedBy::Fallback,
            };
            let mut entrance = Entrance::asked(&approval.id, key.is_some());
            let deny = |tx: &mut Tx<'_>, reason: Reason, detail: Option<String>| {
                let entrance = Entrance {
                    status: RunStatus::Denied,
                    decision: by_fallback(RunVerdict::Deny),
                    reason: Some(reason),
                    detail: detail.as_deref(),
                    ..Entrance::asked(&approval.id, key.is_some())
                };
                run.insert(tx, &entrance)?;
                self.record_expired(tx, &state)?;
                let subject = subject(run, &approval.id);
                run_end::tell_denied(tx, subject, reason, detail, &Actor::system())?;
                Ok(NoRouteDraft::Denied(now))
            };
            match fallback {
                Fallback::Deny { reason, detail } => deny(tx, *reason, detail.clone()),
                Fallback::Run(terms) => {
                    if !tx.is_current(&terms.stamp) {
                        return Ok(NoRouteDraft::Stale);
                    }
                    if let Some(entry) = grants::used_up(tx, &terms.grants)? {
                        return Ok(NoRouteDraft::UsedUp(entry));
                    }
                    let outlives_caller = run.background || key.is_some();
                    let start = Start {
                        asker: &run.requested_by,
                        not_after: now + terms.start_by,
                        binding_digest: outlives_caller.then(|| terms.binding.digest()),
                        isolation: run.isolation,
                        node: terms.node.clone(),
                    };
                    let ready = match Ready::draw(tx, start)? {
                        Ok(ready) => ready,
                        Err(gone) => return deny(tx, Reason::ApprovalCancelled, Some(gone.to_string())),
                    };
                    entrance.status = RunStatus::Launching;
                    entrance.decision = by_fallback(RunVerdict::Run);
                    entrance.launch = Some(&ready);
                    let run = NewRun {
                        input: terms.input,
                        ..run.clone()
                    };
                    run.insert(tx, &entrance)?;
                    self.record_expired(tx, &state)?;
                    grants::count(tx, &terms.grants, &run.id)?;
                    Ok(NoRouteDraft::Ready(ready, now))
                }
            }
        })
    }

    fn committed(self, draft: Self::Draft, proof: &Committed) -> Admission<NoRouteOutcome> {
        let Self {
            run,
            approval,
            key: _,
            fallback,
            hint: _,
        } = self;
        let expired = |at| ApprovalState::Expired {
            at,
            why: TerminalReason::NoRoute,
        };
        draft.map(|draft| match (draft, fallback) {
            (NoRouteDraft::Ready(ready, at), Fallback::Run(terms)) => {
                let (id, env) = (run.id.clone(), run.env.clone());
                NoRouteOutcome::Launched {
                    permit: ready.into_permit(id, terms.into_binding(), env, proof),
                    approval: Box::new(record(run, approval, expired(at), at)),
                }
            }
            (NoRouteDraft::Denied(at) | NoRouteDraft::Ready(_, at), _) => {
                NoRouteOutcome::Denied(Box::new(record(run, approval, expired(at), at)))
            }
            (NoRouteDraft::Stale, _) => NoRouteOutcome::Stale,
            (NoRouteDraft::UsedUp(entry), _) => NoRouteOutcome::UsedUp(entry),
            (NoRouteDraft::IdTaken, _) => NoRouteOutcome::IdTaken,
        })
    }
}

impl NoRoute {
    fn record_expired(&self, tx: &mut Tx<'_>, state: &ApprovalState) -> Result<(), Fault> {
        idempotency::keep_refused(tx, self.key.as_ref(), &self.run.id, self.hint.as_deref())?;
        insert(tx, &self.run, &self.approval, state, None)?;
        let kind = EventKind::ApprovalResolved(Resolution {
            status: ApprovalStatus::Expired,
            decision: Some(ApprovalDecision::Deny),
            resolved_by: None,
            reason: None,
            terminal_reason: Some(TerminalReason::NoRoute),
            grant: None,
        });
        tx.log(
            Event {
                subject: subject(&self.run, &self.approval.id),
                kind,
            },
            &Actor::system(),
        )
    }
}

impl Fallback {
    /// How safe the commit must be.
    pub(super) const fn durability(&self, tuning: &Tuning) -> Durability {
        match self {
            Self::Deny { .. } => Durability::Normal,
            Self::Run(terms) => terms.durability(tuning),
        }
    }

    /// The fallback that never lets anything start.
    pub const fn deny(reason: Reason) -> Self {
        Self::Deny { reason, detail: None }
    }
}

pub(super) fn subject(run: &NewRun, approval: &ApprovalId) -> Subject {
    Subject {
        approval_id: Some(approval.clone()),
        ..run.subject()
    }
}

/// Whether there is an approval with this id, which its asker may have chosen.
fn is_taken(tx: &Tx<'_>, id: &ApprovalId) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM approvals WHERE id = ?1";
    let found = fetch(tx.connection, sql, (id.as_str(),), |_row| Ok(()))?;
    Ok(found.is_some())
}

/// Inserts an approval that waits, with the values of its environment sealed.
pub(super) fn insert_pending(tx: &mut Tx<'_>, run: &NewRun, approval: &NewApproval) -> Result<(), Fault> {
    // The asker starts the command itself, so this server starts nothing with these values.
    let env_sealed = match approval.card.binding.bound {
        Bound::Elsewhere { .. } => None,
        Bound::Exec { .. }
        | Bound::Plan { .. }
        | Bound::Rendered { .. }
        | Bound::Text { .. }
        | Bound::Held { .. }
        | Bound::Inside { .. }
        | Bound::OnNode { .. }
        | Bound::Patch { .. } => tx.context.keys.seal(&approval.id, &run.env, &*tx.context.ids),
    };
    insert(tx, run, approval, &ApprovalState::Pending, env_sealed.as_deref())?;
    tx.note_question(run);
    Ok(())
}

/// What is told when a person is asked.
pub(super) fn requested(run: &NewRun, approval: &NewApproval, now: UnixMillis) -> EventKind {
    let card = &approval.card;
    EventKind::ApprovalRequested {
        note: card.note.clone(),
        confined: card.binding.confined(),
        input: card.binding.input,
        slug: approval.id.slug().to_owned(),
        // An approver may answer from what they read here.
        command: match &run.command {
            Command::Shell(_) | Command::Argv(_) => quoting::line(&run.command),
            Command::Patch(_) => run.command.to_short_text(),
        },
        cwd: run.cwd.clone(),
        security: card.security,
        ask: card.ask,
        created_at: now,
        expires_at: now + approval.timeout,
        required: card.quorum.required,
        groups: card.quorum.groups.clone(),
    }
}

fn insert(
    tx: &mut Tx<'_>,
    run: &NewRun,
    approval: &NewApproval,
    state: &ApprovalState,
    env_sealed: Option<&[u8]>,
) -> Result<(), Fault> {
    let now = tx.now();
    let (resolved_at, why) = match state {
        ApprovalState::Expired { at, why } => (Some(at.get()), Some(why.as_str())),
        ApprovalState::Pending
        | ApprovalState::Allowed { .. }
        | ApprovalState::Denied { .. }
        | ApprovalState::Cancelled { .. } => (None, None),
    };
    tx.execute(
        "INSERT INTO approvals (id, run_id, agent_id, session_key, status, card_json, binding_digest, env_sealed, \
         asked_by_kind, asked_by_id, asked_by_name, created_ms, expires_ms, resolved_ms, terminal_reason, revises) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        params![
            approval.id.as_str(),
            run.id.as_str(),
            run.agent.as_str(),
            run.session.as_str(),
            state.status().as_str(),
            json(&approval.card),
            approval.card.binding.digest(),
            env_sealed,
            run.requested_by.kind.as_str(),
            run.requested_by.id,
            run.requested_by.name,
            now.get(),
            (now + approval.timeout).get(),
            resolved_at,
            why,
            approval.revises.as_ref().map(ApprovalId::as_str),
        ],
    )?;
    Ok(())
}

pub(super) fn record(run: NewRun, approval: NewApproval, state: ApprovalState, now: UnixMillis) -> Approval {
    Approval {
        id: approval.id,
        run_id: run.id,
        card: approval.card,
        waiting_env: EnvOverrides::default(),
        requested_by: run.requested_by,
        state,
        chosen_patterns: Vec::new(),
        votes: Vec::new(),
        created_at: now,
        expires_at: now + approval.timeout,
        revises: approval.revises,
        revised_by: None,
    }
}
