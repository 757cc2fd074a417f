//! Answers about commands that another program starts: each may be used up once.

use std::time::Duration;

use countersign_domain::{
    Actor, Approval, ApprovalId, ApprovalState, DecidedBy, Reason, RunDecision, RunEnd, RunStatus,
    RunVerdict, UnixMillis,
};

use super::{
    approvals,
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    run_end::{self, not_started},
    sql::{exactly_one, list, millis},
    tx::Tx,
};

/// Answers to the same question that are looked at: those whose own start-by has passed may lie before one that counts.
const MOST_ALIKE: u32 = 100;

/// Which answer is to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerTo {
    /// That to this question.
    Approval(ApprovalId),
    /// One to a question that was bound to this, the oldest of them.
    Digest(String),
}

/// Uses an allowing answer up, if there is one that was not used yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseAnswer {
    /// The question whose answer is used, named by its id or by what it was bound to.
    pub to: AnswerTo,
    /// How long after the decision it counts, unless the question says otherwise.
    pub start_by: Duration,
    /// The longest that any question says.
    pub longest: Duration,
}

impl Ledger {
    /// Uses up an allowing answer about a command that another program starts; `None` when there is none.
    ///
    /// # Errors
    /// When the ledger cannot be written; then it was not used.
    #[crate::compiled_once]
    pub async fn use_answer(&self, answer: UseAnswer) -> Result<Option<Approval>, LedgerError> {
        self.queue.submit(answer).await
    }
}

impl Change for UseAnswer {
    type Answer = Option<Approval>;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        // A power loss must not bring back what was used.
        Durability::Full
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<Approval>, Fault> {
        if tx.context.stop.current().is_some() {
            return Ok(None);
        }
        let now = tx.now();
        let ids = match &self.to {
            AnswerTo::Approval(id) => vec![id.clone()],
            AnswerTo::Digest(digest) => {
                let longest = self.start_by.max(self.longest);
                let oldest = UnixMillis::new(now.get().saturating_sub(millis(longest)));
                find(tx, digest, oldest)?
            }
        };
        for id in ids {
            if let Some(used) = self.use_up(tx, &id, now)? {
                return Ok(Some(used));
            }
        }
        Ok(None)
    }
}

impl UseAnswer {
    fn use_up(&self, tx: &Tx<'_>, id: &ApprovalId, now: UnixMillis) -> Result<Option<Approval>, Fault> {
        let Some(stored) = approvals::fetch_stored(tx.connection, id)? else {
            return Ok(None);
        };
        let mut approval = stored.approval;
        if !approval.is_run_elsewhere() {
            return Ok(None);
        }
        let start_by = approval.card.quorum.start_by(self.start_by);
        let ApprovalState::Allowed { at, consumed_at, .. } = &mut approval.state else {
            return Ok(None);
        };
        if consumed_at.is_some() || now > *at + start_by {
            return Ok(None);
        }
        *consumed_at = Some(now);
        let changed = tx.execute(
            "UPDATE approvals SET consumed_ms = ?2 WHERE id = ?1 AND status = 'allowed' AND consumed_ms IS NULL",
            (id.as_str(), now.get()),
        )?;
        exactly_one(changed)?;
        Ok(Some(approval))
    }
}

/// The answers of that digest which were not used, the oldest first. Few approvals were allowed within a start-by and not
/// used up, so the recent ones are looked through.
fn find(tx: &Tx<'_>, digest: &str, oldest: UnixMillis) -> Result<Vec<ApprovalId>, Fault> {
    list(
        tx.connection,
        "SELECT id FROM approvals WHERE binding_digest = ?1 AND status = 'allowed' AND consumed_ms IS NULL \
         AND resolved_ms >= ?2 ORDER BY seq LIMIT ?3",
        (digest, oldest.get(), MOST_ALIKE),
        |row| super::rows::Columns::of("approvals", row).word(),
    )
}

/// Ends the run of a question whose answer allows the asker to start it.
pub(super) fn hand_over(tx: &mut Tx<'_>, approval: &Approval, by: &Actor) -> Result<(), Fault> {
    let decision = RunDecision {
        verdict: RunVerdict::Run,
        by: DecidedBy::Person,
    };
    tx.execute(
        "UPDATE runs SET verdict = ?2, verdict_by = ?3 WHERE run_id = ?1 AND status = 'asking'",
        (
            approval.run_id.as_str(),
            decision.verdict.as_str(),
            decision.by.as_str(),
        ),
    )?;
    let end = RunEnd {
        status: RunStatus::Lost,
        reason: Some(Reason::RunElsewhere),
        detail: Some("allowed; the asker runs it, and this server does not learn how it ended".to_owned()),
        ..not_started(tx.now())
    };
    run_end::end_run(tx, &approval.run_id, &end, by)?;
    Ok(())
}
