//! Runs that were started and that the ledger does not know, or no longer: power was lost, or one of its files.
//!
//! A run without a key is committed without a sync, so a loss of power takes the last ones; a log that is cut, damaged or
//! replaced takes more. What proves that they were started lies beside the ledger: their run files. What retention removed
//! is no such run, so the time is kept up to which it has removed any. The record of a run that is put in says so
//! ([`AuditAction::RunForgotten`]), and from then on a verification of the chain fails until an operator begins another.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use rusqlite::{Connection, params};
use serde_json::json;

use countersign_domain::{
    Actor, AgentId, ApprovalState, ApprovalStatus, Ask, Host, Isolation, LaunchId, Reason, RunEnd, RunId,
    RunStatus, Security, SessionKey, TerminalReason, UnixMillis,
};

use super::{
    approval_end, approvals,
    audit::{AuditAction, Entry},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    rows::Columns,
    run_end::{end_run, not_started},
    run_rows,
    sql::{fetch, json as json_text, list},
    tx::Tx,
};

/// The agent of runs of which only the file is left. None that calls is bound to it, unless it has this very name.
const UNKNOWN_AGENT: &str = "unknown";
/// Their command: nothing, for every shell.
const UNKNOWN_COMMAND: &str = "# the ledger lost the record of this command";
/// Their directory.
const UNKNOWN_DIRECTORY: &str = "/";

/// A run of which there is a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRun {
    /// The name of the file.
    pub run_id: RunId,
    /// When the run was admitted, as its id says.
    pub made_at: UnixMillis,
}

/// Runs that have a file and that the ledger does not know as started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnknownRuns {
    /// It should: if they were started, it forgot them.
    pub forgotten: Vec<FoundRun>,
    /// So old that retention may have removed them; their files were left.
    pub outdated: Vec<RunId>,
}

/// A run that was started and that the ledger forgot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgottenRun {
    /// The name of its file.
    pub run_id: RunId,
    /// When it was admitted.
    pub made_at: UnixMillis,
    /// The launch that its file names.
    pub launch_id: Option<LaunchId>,
    /// What its file says of it, in words.
    pub detail: String,
}

impl Ledger {
    /// Which of these runs the ledger does not know as started. Ask before anything is started.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn unknown_runs(&self, found: Vec<FoundRun>) -> Result<UnknownRuns, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let pruned_before = meta_pruned(connection)?;
                let mut unknown = UnknownRuns::default();
                let mut missing = Vec::new();
                for run in found {
                    match status_of(connection, &run.run_id)? {
                        // It waits for an answer or for its launch: no launch is on record.
                        Some(RunStatus::Requested | RunStatus::Asking) => unknown.forgotten.push(run),
                        Some(_) => {}
                        None if run.made_at < pruned_before => unknown.outdated.push(run.run_id),
                        None => missing.push(run),
                    }
                }
                let audited = audited(connection, &missing)?;
                missing.retain(|run| !audited.contains(run.run_id.as_str()));
                unknown.forgotten.extend(missing);
                Ok(unknown)
            })
            .await
    }

    /// Records a run that was forgotten: it is `lost`, and the audit record says that its records are gone. Does nothing
    /// about a run that has an end, or a launch.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn record_forgotten(&self, run: ForgottenRun) -> Result<(), LedgerError> {
        if self.queue.submit(run).await? {
            self.forgot.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Change for ForgottenRun {
    /// Whether it was forgotten.
    type Answer = bool;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let known = run_rows::brief(tx.connection, &self.run_id)?;
        let detail = match &known {
            None => self.put_in(tx)?,
            Some(run) if matches!(run.status, RunStatus::Requested | RunStatus::Asking) => {
                if let Some(approval) = &run.subject.approval_id {
                    use_up(tx, approval)?;
                }
                tx.execute(
                    "UPDATE runs SET status = 'launching', launch_id = coalesce(?2, launch_id), launched_ms = ?3 \
                     WHERE run_id = ?1",
                    (
                        self.run_id.as_str(),
                        self.launch_id.as_ref().map(LaunchId::as_str),
                        self.made_at.get(),
                    ),
                )?;
                json!({ "launchId": self.launch_id.as_ref().map(LaunchId::as_str) })
            }
            Some(_) => return Ok(false),
        };
        let (action, by) = (AuditAction::RunForgotten, Actor::system());
        tx.audit(&Entry::done(action, "run", self.run_id.as_str(), &by, detail))?;
        tx.execute(
            "INSERT OR IGNORE INTO meta (key, value) VALUES ('forgotten', ?1)",
            (tx.state.chain.seq,),
        )?;
        let now = tx.now();
        let end = RunEnd {
            status: RunStatus::Lost,
            reason: Some(Reason::ServerRestart),
            detail: Some(self.detail.clone()),
            truncated: true,
            ..not_started(now)
        };
        end_run(tx, &self.run_id, &end, &by)?;
        Ok(true)
    }
}

impl ForgottenRun {
    /// Puts a run in of which only its file is known. Nothing says how it was judged or confined: it is recorded as if
    /// nothing had held it back. Returns what its audit record says.
    fn put_in(&self, tx: &mut Tx<'_>) -> Result<serde_json::Value, Fault> {
        let now = tx.now().get();
        let agent = AgentId::parse(UNKNOWN_AGENT).unwrap_or_else(|_invalid| AgentId::main());
        let session = SessionKey::main_of(&agent);
        let by = Actor::system();
        tx.execute(
            "INSERT INTO runs (run_id, status, host, agent_id, session_key, command, cwd, env_names, asked_by_kind, \
             asked_by_id, asked_by_name, security, ask, pty, background, keyed, diverted, isolation, created_ms, \
             launch_id, launched_ms, tool) \
             VALUES (?1, 'launching', ?2, ?3, ?4, ?5, ?6, '[]', ?7, ?8, ?9, ?10, ?11, 0, 0, 0, 0, ?12, ?13, ?14, ?15, ?16)",
            params![
                self.run_id.as_str(),
                Host::Gateway.as_str(),
                agent.as_str(),
                session.as_str(),
                UNKNOWN_COMMAND,
                UNKNOWN_DIRECTORY,
                by.kind.as_str(),
                by.id,
                by.name,
                Security::Full.as_str(),
                Ask::Off.as_str(),
                Isolation::SameUser.as_str(),
                now,
                self.launch_id.as_ref().map(LaunchId::as_str),
                self.made_at.get(),
                run_rows::EXEC,
            ],
        )?;
        Ok(json!({
            "agentId": agent.as_str(),
            "command": UNKNOWN_COMMAND,
            "cwd": UNKNOWN_DIRECTORY,
            "host": Host::Gateway.as_str(),
            "launchId": self.launch_id.as_ref().map(LaunchId::as_str),
            "launchedAtMs": self.made_at.get(),
            "requestedBy": { "kind": by.kind.as_str(), "id": by.id, "name": by.name },
            "sessionKey": session.as_str(),
        }))
    }
}

/// The question about a run that started is over, and its answer cannot let anything start again.
fn use_up(tx: &mut Tx<'_>, id: &countersign_domain::ApprovalId) -> Result<(), Fault> {
    let now = tx.now();
    if let Some(stored) = approvals::fetch_stored(tx.connection, id)?
        && stored.approval.state.status() == ApprovalStatus::Pending
    {
        let by = Actor::system();
        let state = ApprovalState::Cancelled {
            by: by.clone(),
            at: now,
        };
        approval_end::end_undecided(tx, &stored, state, Some(&by), TerminalReason::RunAborted)?;
    }
    tx.execute(
        "UPDATE approvals SET env_sealed = NULL, consumed_ms = CASE status WHEN 'allowed' THEN coalesce(consumed_ms, ?2) \
         ELSE consumed_ms END WHERE id = ?1",
        (id.as_str(), now.get()),
    )?;
    Ok(())
}

fn status_of(connection: &Connection, run: &RunId) -> Result<Option<RunStatus>, Fault> {
    fetch(
        connection,
        "SELECT run_id, status FROM runs WHERE run_id = ?1",
        (run.as_str(),),
        |row| Columns::after("runs", row, 1).word(),
    )
}

/// Those of these runs whose admission the audit record has: they were not forgotten, their rows were taken out. A
/// verification says so. Reads the whole record, so it is asked only about runs that are missing.
fn audited(connection: &Connection, missing: &[FoundRun]) -> Result<BTreeSet<String>, Fault> {
    if missing.is_empty() {
        return Ok(BTreeSet::new());
    }
    let ids: Vec<&str> = missing.iter().map(|run| run.run_id.as_str()).collect();
    // What was tampered with need not be JSON.
    let audited = list(
        connection,
        "SELECT target FROM (SELECT CASE WHEN json_valid(body) THEN json_extract(body, '$.target.id') END AS target \
         FROM audit WHERE action = 'exec.requested') WHERE target IN (SELECT value FROM json_each(?1))",
        (json_text(&ids),),
        |row| Ok(row.get(0)?),
    )?;
    Ok(audited.into_iter().collect())
}

/// Where a ledger of an earlier version does not say what retention removed, it may have removed everything up to now.
pub(super) fn begin(connection: &Connection) -> Result<(), Fault> {
    connection.execute(
        "INSERT OR IGNORE INTO meta (key, value) \
         SELECT 'runs_pruned_before', coalesce(max(created_ms) + 1, 0) FROM runs",
        (),
    )?;
    Ok(())
}

/// Retention has removed runs from before this time.
pub(super) fn note_pruned(tx: &Tx<'_>, before: i64) -> Result<(), Fault> {
    tx.execute(
        "INSERT INTO meta (key, value) VALUES ('runs_pruned_before', ?1) \
         ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)",
        (before,),
    )?;
    Ok(())
}

fn meta_pruned(connection: &Connection) -> Result<UnixMillis, Fault> {
    let before = fetch(
        connection,
        "SELECT value FROM meta WHERE key = 'runs_pruned_before'",
        (),
        |row| Ok(row.get(0)?),
    )?;
    Ok(UnixMillis::new(before.unwrap_or(i64::MAX)))
}
