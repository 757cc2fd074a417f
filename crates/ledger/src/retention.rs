//! Forgetting: events by count as they come, everything by age in small steps.

use std::time::Duration;

use countersign_domain::{Actor, RunId};

use super::{
    audit::{AuditAction, AuditOutcome, Entry, Target, chain::Anchor},
    config::{Durability, Retention, Tuning},
    error::{Fault, LedgerError},
    forgotten,
    handle::Ledger,
    idempotency,
    job::Change,
    moments::{self, Series},
    rows::Columns,
    run_order::{self, UNFINISHED},
    sign_ins,
    sql::{fetch, list, millis},
    trim::{ROWS, as_count},
    tx::Tx,
};

/// Runs removed in one step, so that a launch never waits long behind it.
const STEP: i64 = 200;

/// Approvals are kept at least this long (`docs/spec/approvals-store.md#11-approval-records`).
const APPROVALS: Duration = Duration::from_hours(30 * 24);

/// What a step removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Runs that are gone; their files may go too.
    pub runs: Vec<RunId>,
    /// Events that are gone.
    pub events: u64,
    /// Audit records that are gone.
    pub(crate) audit_records: u64,
    /// Tokens of links that are gone.
    pub(crate) link_tokens: u64,
    /// Whether there may be more to remove.
    pub more: bool,
}

/// Removes one step's worth of what is too old.
struct Prune {
    retention: Retention,
}

impl Ledger {
    /// Removes one step's worth of what is too old; call again while it says `more`.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn prune(&self) -> Result<Pruned, LedgerError> {
        let retention = self.tuning.load().retention;
        self.queue.submit(Prune { retention }).await
    }
}

impl Change for Prune {
    type Answer = Pruned;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn is_long(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Pruned, Fault> {
        let Retention {
            events_count: _,
            events_age,
            runs_age,
            audit_age,
        } = self.retention;
        let now = tx.now();
        let before = |age: Duration| now.get().saturating_sub(millis(age));
        let mut pruned = Pruned::default();
        if let Some(age) = runs_age {
            let (before, with_approval_before) = (before(age), before(age.max(APPROVALS)));
            pruned.runs = prune_runs(tx, before, with_approval_before)?;
            if !pruned.runs.is_empty() {
                // Without this a verification could not tell them from runs that were taken out.
                tell_pruned(tx, pruned.runs.len(), before, with_approval_before)?;
                forgotten::note_pruned(tx, before)?;
            }
        }
        if let Some(age) = events_age {
            pruned.events = prune_events(tx, before(age))?;
        }
        if let Some(age) = audit_age {
            pruned.audit_records = prune_audit(tx, before(age))?;
        }
        tx.execute(
            "DELETE FROM idempotency WHERE created_ms <= ?1",
            (before(idempotency::KEPT),),
        )?;
        pruned.link_tokens = sign_ins::prune(tx, before(APPROVALS))?;
        pruned.more = pruned.runs.len() >= usize::try_from(STEP).unwrap_or(usize::MAX)
            || pruned.events >= ROWS.unsigned_abs()
            || pruned.audit_records >= ROWS.unsigned_abs()
            || pruned.link_tokens >= ROWS.unsigned_abs();
        Ok(pruned)
    }
}

fn prune_runs(tx: &Tx<'_>, before: i64, with_approval_before: i64) -> Result<Vec<RunId>, Fault> {
    let sql = format!(
        "SELECT run_id FROM runs WHERE seq < ?1 AND (approval_id IS NULL OR seq < ?2) \
         AND status NOT IN {UNFINISHED} ORDER BY seq LIMIT ?3"
    );
    let first_kept = moments::first_since(tx.connection, Series::Runs, before)?;
    let first_asked_kept = moments::first_since(tx.connection, Series::Runs, with_approval_before)?;
    let runs = list(tx.connection, &sql, (first_kept, first_asked_kept, STEP), |row| {
        Columns::of("runs", row).word::<RunId>()
    })?;
    for run in &runs {
        // Its output and approval go with it.
        tx.execute("DELETE FROM runs WHERE run_id = ?1", (run.as_str(),))?;
    }
    run_order::removed(tx)?;
    Ok(runs)
}

fn tell_pruned(tx: &mut Tx<'_>, count: usize, before: i64, with_approval_before: i64) -> Result<(), Fault> {
    let detail = serde_json::json!({
        "count": count,
        "beforeMs": before,
        "withApprovalBeforeMs": with_approval_before,
    });
    let entry = Entry::done(
        AuditAction::RunsPruned,
        "run",
        "retention",
        &Actor::system(),
        detail,
    );
    tx.audit(&entry)
}

/// The newest event stays, no matter how old it is: its number must never be given again.
fn prune_events(tx: &mut Tx<'_>, before: i64) -> Result<u64, Fault> {
    let removed = tx.execute(
        "DELETE FROM events WHERE seq IN (SELECT seq FROM (SELECT seq, ts FROM events ORDER BY seq LIMIT ?2) \
         WHERE ts < ?1) AND seq < (SELECT max(seq) FROM events)",
        (before, ROWS),
    )?;
    tx.state.events_kept = tx.state.events_kept.saturating_sub(as_count(removed));
    Ok(as_count(removed))
}

/// Removes the oldest records and seals the place where the chain now begins.
fn prune_audit(tx: &mut Tx<'_>, before: i64) -> Result<u64, Fault> {
    let oldest = list(
        tx.connection,
        "SELECT seq, hash, body FROM audit ORDER BY seq LIMIT ?1",
        (ROWS,),
        |row| {
            let body: serde_json::Value = Columns::after("audit", row, 2).json()?;
            let ts = body.get("ts").and_then(serde_json::Value::as_i64);
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, ts))
        },
    )?;
    let old = oldest
        .into_iter()
        .take_while(|(_, _, ts)| ts.is_some_and(|ts| ts < before));
    let Some((last, hash, _)) = old.last() else {
        return Ok(0);
    };
    let first = fetch(tx.connection, "SELECT min(seq) FROM audit", (), |row| {
        Ok(row.get::<_, i64>(0)?)
    })?;
    let anchor = Anchor::seal(last, hash.clone(), &tx.context.keys);
    tx.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES ('audit_anchor', ?1)",
        (super::sql::json(&anchor),),
    )?;
    let removed = tx.execute("DELETE FROM audit WHERE seq <= ?1", (last,))?;
    tx.execute(
        "DELETE FROM meta WHERE key = 'forgotten' AND value <= ?1",
        (last,),
    )?;
    let mut detail = serde_json::Map::new();
    detail.insert("fromSeq".to_owned(), first.unwrap_or(last).into());
    detail.insert("throughSeq".to_owned(), last.into());
    detail.insert("throughHash".to_owned(), hash.into());
    tx.audit(&Entry {
        actor: Actor::system(),
        address: None,
        action: AuditAction::AuditPruned,
        target: Target {
            kind: "audit".to_owned(),
            id: last.to_string(),
        },
        outcome: AuditOutcome::Ok,
        detail,
    })?;
    Ok(as_count(removed))
}
