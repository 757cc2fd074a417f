//! How a run ends or is denied within a transaction. Each is a compare-and-swap by the states that may precede it.

use countersign_domain::{
    Actor, Host, Reason, RunDecision, RunEnd, RunId, RunLocality, RunStatus, TextStart, UnixMillis,
};

use crate::events::{Event, EventKind, RunSummary, Subject, system_text};

use super::{
    error::Fault,
    run_order,
    run_rows::{self, Brief},
    session_notice, session_rows,
    sql::exactly_one,
    tx::Tx,
};

/// What became of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndOutcome {
    /// The end is recorded and told.
    Applied,
    /// The run is in a state that this end cannot follow; nothing was written.
    Refused(RunStatus),
    /// No run has this id.
    NotFound,
}

/// Ends a run and tells of it.
pub(super) fn end_run(tx: &mut Tx<'_>, id: &RunId, end: &RunEnd, by: &Actor) -> Result<EndOutcome, Fault> {
    let RunEnd {
        status,
        reason,
        detail,
        exit_code,
        exit_signal,
        timed_out,
        truncated,
        output_bytes,
        tail,
        by_shell,
        ended_at,
    } = end;
    let Some(run) = run_rows::brief(tx.connection, id)? else {
        return Ok(EndOutcome::NotFound);
    };
    let reach = match run.subject.host {
        Some(Host::Node) => RunLocality::Node,
        Some(Host::Gateway | Host::Sandbox) | None => RunLocality::Here,
    };
    if !run.status.may_end(*status, reach) {
        return Ok(EndOutcome::Refused(run.status));
    }
    let ended = tx.execute(
        "UPDATE runs SET status = ?2, reason = ?3, detail = ?4, exit_code = ?5, exit_signal = ?6, \
         timed_out = ?7, truncated = ?8, output_bytes = ?9, tail = ?10, ended_ms = ?11, \
         start = coalesce(?13, start) WHERE run_id = ?1 AND status = ?12",
        rusqlite::params![
            id.as_str(),
            status.as_str(),
            reason.map(Reason::as_str),
            detail,
            exit_code,
            exit_signal,
            timed_out,
            truncated,
            i64::try_from(*output_bytes).unwrap_or(i64::MAX),
            tail,
            ended_at.get(),
            run.status.as_str(),
            by_shell.then_some(TextStart::Shell.as_str()),
        ],
    )?;
    exactly_one(ended)?;
    run_order::ended(tx, run.seq)?;
    forget_env(tx, &run)?;
    let duration = |start: UnixMillis| ended_at.get().saturating_sub(start.get()).max(0);
    let summary = RunSummary {
        status: *status,
        exit_code: *exit_code,
        exit_signal: exit_signal.clone(),
        timed_out: *timed_out,
        duration_ms: run.started_at.map_or(0, duration),
        truncated: *truncated,
        output_bytes: *output_bytes,
        tail: tail.clone(),
        reason: *reason,
    };
    let kind = EventKind::ExecFinished(summary);
    tx.log(
        Event {
            subject: run.subject,
            kind,
        },
        by,
    )?;
    Ok(EndOutcome::Applied)
}

/// A run that ends before its launch needs the values of its environment no more.
fn forget_env(tx: &Tx<'_>, run: &Brief) -> Result<(), Fault> {
    let waited = matches!(run.status, RunStatus::Requested | RunStatus::Asking);
    if let (true, Some(approval)) = (waited, &run.subject.approval_id) {
        tx.execute(
            "UPDATE approvals SET env_sealed = NULL WHERE id = ?1",
            (approval.as_str(),),
        )?;
    }
    Ok(())
}

/// Denies a run that has not started and tells of it; does nothing when it is past that.
pub(super) fn deny_run(
    tx: &mut Tx<'_>,
    id: &RunId,
    reason: Reason,
    detail: Option<String>,
    decision: Option<RunDecision>,
    by: &Actor,
) -> Result<EndOutcome, Fault> {
    let Some(run) = run_rows::brief(tx.connection, id)? else {
        return Ok(EndOutcome::NotFound);
    };
    if run.status.advance(RunStatus::Denied).is_err() {
        return Ok(EndOutcome::Refused(run.status));
    }
    let now = tx.now().get();
    let denied = tx.execute(
        "UPDATE runs SET status = 'denied', reason = ?2, detail = ?3, ended_ms = ?4, \
         verdict = coalesce(?5, verdict), verdict_by = coalesce(?6, verdict_by) \
         WHERE run_id = ?1 AND status = ?7",
        (
            id.as_str(),
            reason.as_str(),
            &detail,
            now,
            decision.map(|decision| decision.verdict.as_str()),
            decision.map(|decision| decision.by.as_str()),
            run.status.as_str(),
        ),
    )?;
    exactly_one(denied)?;
    run_order::ended(tx, run.seq)?;
    forget_env(tx, &run)?;
    // A caller who was answered that the run waits or runs hears only in this way that it does not.
    // When a node refuses a run that it has, the engine tells.
    let is_of_node = run.subject.host == Some(Host::Node)
        && matches!(run.status, RunStatus::Launching | RunStatus::Running);
    let is_told =
        !is_of_node && (run.subject.approval_id.is_some() || session_rows::is_session(tx.connection, id)?);
    tell_denied(tx, run.subject.clone(), reason, detail, by)?;
    if is_told {
        let text = system_text::exec_denied(session_notice::run_host_of(&run.subject), id, reason);
        session_notice::tell(tx, run.subject, text)?;
    }
    Ok(EndOutcome::Applied)
}

/// Tells that a run was denied.
pub(super) fn tell_denied(
    tx: &mut Tx<'_>,
    subject: Subject,
    reason: Reason,
    detail: Option<String>,
    by: &Actor,
) -> Result<(), Fault> {
    tx.log(
        Event {
            subject,
            kind: EventKind::ExecDenied { reason, detail },
        },
        by,
    )
}

/// The end of a run that was allowed to start and did not in time.
pub(super) fn not_started(now: UnixMillis) -> RunEnd {
    RunEnd {
        status: RunStatus::Failed,
        reason: Some(Reason::NotStarted),
        detail: None,
        exit_code: None,
        exit_signal: None,
        timed_out: false,
        truncated: false,
        output_bytes: 0,
        tail: String::new(),
        by_shell: false,
        ended_at: now,
    }
}
