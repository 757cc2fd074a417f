//! What a record seals of the row that it tells of, as one digest: everything that people are shown of a run or an
//! approval and that does not change after the record.
//!
//! A list is never changed, since earlier records were made with it; another list gets another member.

use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use countersign_domain::hex;

use crate::{
    error::Fault,
    events::{Event, EventKind},
    sql::fetch,
};

/// The member of a record's detail.
pub(crate) const MEMBER: &str = "facts";

/// A run, once it has ended: its warnings and where its output lies may still change.
pub(super) const OF_RUN: &str = "json_array(seq, host, node_id, agent_id, session_key, command, argv_json, tool, cwd, \
     env_names, asked_by_kind, asked_by_id, asked_by_name, security, ask, status, verdict, verdict_by, reason, detail, \
     approval_id, session_id, pid, pty, background, input, diverted, isolation, sandbox, binding, binding_digest, scripts, \
     timeout_ms, created_ms, launched_ms, started_ms, ended_ms, exit_code, exit_signal, timed_out, truncated, output_bytes, \
     tail)";

/// An approval: what becomes of its answer may still change.
pub(super) const OF_APPROVAL: &str = "json_array(seq, run_id, agent_id, session_key, status, card_json, binding_digest, \
     asked_by_kind, asked_by_id, asked_by_name, created_ms, expires_ms, decision, reason, resolved_ms, resolved_kind, \
     resolved_id, resolved_name, terminal_reason, chosen_json, votes_json, revises, revised_by)";

/// The stop that is in force: whether it kills, and who proposed to go on, may still change.
pub(super) const OF_STOP: &str = "json_array(by_json, at_ms, reason)";

/// The digest of a row's facts, as its record has it: lower-case hex.
pub(super) fn digest(facts: &str) -> String {
    hex(&Sha256::digest(facts))
}

/// What the record of an event seals; `None` where more may happen to the row, or there is none.
pub(crate) fn of_event(connection: &Connection, event: &Event) -> Result<Option<String>, Fault> {
    let subject = &event.subject;
    match (&event.kind, &subject.run_id, &subject.approval_id) {
        (EventKind::ExecFinished(_) | EventKind::ExecDenied { .. }, Some(run), _) => read(
            connection,
            &format!("SELECT {OF_RUN} FROM runs WHERE run_id = ?1"),
            run.as_str(),
        ),
        (EventKind::ApprovalRequested { .. } | EventKind::ApprovalResolved(_), _, Some(approval)) => {
            of_approval(connection, approval.as_str())
        }
        (EventKind::ExecStopped { .. }, _, _) => {
            fetch(connection, &format!("SELECT {OF_STOP} FROM stop"), (), |row| {
                Ok(digest(&row.get::<_, String>(0)?))
            })
        }
        _ => Ok(None),
    }
}

/// What the record of a vote seals of its approval.
pub(crate) fn of_approval(connection: &Connection, id: &str) -> Result<Option<String>, Fault> {
    read(
        connection,
        &format!("SELECT {OF_APPROVAL} FROM approvals WHERE id = ?1"),
        id,
    )
}

fn read(connection: &Connection, sql: &str, id: &str) -> Result<Option<String>, Fault> {
    fetch(connection, sql, (id,), |row| {
        Ok(digest(&row.get::<_, String>(0)?))
    })
}
