//! Whether the tables that people look at say what the chain says: runs, approvals, and the columns behind searches.
//!
//! The chain proves itself; this proves that a run or an approval that is shown is the one that was recorded. A row
//! without a record was put in, a record without a row was removed, unless retention says that it forgot it.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use countersign_domain::quoting;
use countersign_domain::{Actor, ApprovalCard, Command, RunStatus};

use crate::{error::Fault, events::EventType, rows::Columns, run_rows};

use super::{
    entry::{AuditAction, Body, Target},
    facts,
    problem::{Problem, ProblemKind},
};

/// What the records say of one run or approval: digests, since there may be very many.
#[derive(Debug, Default)]
struct Recorded {
    /// The record that says most of it.
    seq: i64,
    ts: i64,
    /// How it began; nothing where that record was pruned, or never was.
    begun: Option<[u8; 32]>,
    /// Who asked for it.
    asked_by: Option<[u8; 32]>,
    /// How it ended; the last record counts.
    ended: Option<[u8; 32]>,
    /// Everything that its last record seals of it; nothing in records of earlier versions.
    facts: Option<String>,
    /// Its approval, or its run.
    other: Option<String>,
}

/// What the records say, as they go by.
#[derive(Debug, Default)]
pub(super) struct Expected {
    runs: BTreeMap<String, Recorded>,
    approvals: BTreeMap<String, Recorded>,
    /// The stop that is in force: the number of its record, and what that seals.
    stop: Option<(i64, Option<String>)>,
    /// When the oldest record was written: rows from before it may have lost theirs to retention.
    oldest: Option<i64>,
    /// Runs from before this time were removed by retention; and those with an approval.
    pruned: (i64, i64),
    /// The first run whose records were lost, and the record that says so.
    lost: Option<(i64, String)>,
}

impl Expected {
    /// Takes the next record of the chain.
    pub(super) fn record(&mut self, body: &Body) {
        self.oldest.get_or_insert_with(|| body.ts.get());
        if body.action == AuditAction::RunForgotten.as_str() {
            self.lost
                .get_or_insert_with(|| (body.seq, body.target.id.clone()));
        }
        let is = |event: EventType| body.action == event.as_str();
        let detail = Members(&body.detail);
        if body.action == AuditAction::RunsPruned.as_str() {
            let before = |name: &str| body.detail.get(name).and_then(Value::as_i64).unwrap_or(0);
            self.pruned.0 = self.pruned.0.max(before("beforeMs"));
            self.pruned.1 = self.pruned.1.max(before("withApprovalBeforeMs"));
        } else if is(EventType::ExecRequested) || is_put_in(body) {
            let facts = ["command", "cwd", "agentId", "sessionKey", "host"].map(|name| detail.text(name));
            let run = self.runs.entry(body.target.id.clone()).or_default();
            (run.seq, run.ts) = (body.seq, body.ts.get());
            run.begun = Some(digest(facts));
            run.asked_by = Some(match body.detail.get("requestedBy").and_then(Value::as_object) {
                Some(asker) => digest(["kind", "id", "name"].map(|name| Members(asker).text(name))),
                None => digest([body.actor.kind.as_str(), &body.actor.id, &body.actor.name]),
            });
        } else if is(EventType::ExecFinished) {
            let run = self.runs.entry(body.target.id.clone()).or_default();
            run.seq = body.seq;
            run.facts = detail.maybe(facts::MEMBER);
            run.ended = Some(end_of_run(
                &detail.text("status"),
                &detail.text("exitCode"),
                &detail.text("exitSignal"),
                &detail.text("reason"),
            ));
        } else if is(EventType::ExecDenied) {
            let run = self.runs.entry(body.target.id.clone()).or_default();
            run.seq = body.seq;
            run.facts = detail.maybe(facts::MEMBER);
            run.ended = Some(end_of_run(
                RunStatus::Denied.as_str(),
                "",
                "",
                &detail.text("reason"),
            ));
        } else if is(EventType::ApprovalRequested) {
            let run = detail.text("runId");
            let facts = [
                &run,
                &detail.text("command"),
                &detail.text("agentId"),
                &detail.text("sessionKey"),
                &detail.text("expiresAtMs"),
            ];
            let begun = digest(facts.into_iter().map(String::as_str));
            self.runs.entry(run.clone()).or_default().other = Some(body.target.id.clone());
            let approval = self.approvals.entry(body.target.id.clone()).or_default();
            (approval.seq, approval.ts) = (body.seq, body.ts.get());
            (approval.begun, approval.other) = (Some(begun), Some(run));
            approval.facts = detail.maybe(facts::MEMBER);
        } else if is(EventType::ExecStopped) {
            self.stop = Some((body.seq, detail.maybe(facts::MEMBER)));
        } else if is(EventType::ExecResumed) {
            self.stop = None;
        } else if body.action == AuditAction::ApprovalVoted.as_str() {
            let approval = self.approvals.entry(body.target.id.clone()).or_default();
            approval.facts = detail.maybe(facts::MEMBER);
        } else if is(EventType::ApprovalResolved) {
            let approval = self.approvals.entry(body.target.id.clone()).or_default();
            approval.seq = body.seq;
            approval.facts = detail.maybe(facts::MEMBER);
            approval.ended = Some(end_of_approval(
                &detail.text("status"),
                &detail.text("decision"),
                &detail.text("terminalReason"),
                [body.actor.kind.as_str(), &body.actor.id, &body.actor.name],
            ));
        }
    }

    /// Compares it with the tables. The connection shows one moment for both.
    pub(super) fn compare(mut self, connection: &Connection) -> Result<Option<Problem>, Fault> {
        let mut found = First(None);
        self.compare_runs(connection, &mut found)?;
        self.compare_approvals(connection, &mut found)?;
        self.compare_stop(connection, &mut found)?;
        if let Some((seq, id)) = self.lost {
            found.add(seq, ProblemKind::Forgotten, "run", id);
        }
        Ok(found.0)
    }

    /// An attacker who takes the row away lets everything go on at the next start.
    fn compare_stop(&mut self, connection: &Connection, found: &mut First) -> Result<(), Fault> {
        let sql = format!("SELECT {}, at_ms FROM stop", facts::OF_STOP);
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(())?;
        let row = rows.next()?.map(|row| (text(row, 0), number(row, 1)));
        let id = || "stop".to_owned();
        match (row, self.stop.take()) {
            (None, None) => {}
            (None, Some((seq, _sealed))) => found.add(seq, ProblemKind::Missing, "server", id()),
            (Some((_facts, at)), None) => self.unknown("server", id(), at, found),
            (Some((facts, _at)), Some((seq, sealed))) => {
                if sealed.is_some_and(|sealed| sealed != facts::digest(&facts)) {
                    found.add(seq, ProblemKind::Edited, "server", id());
                }
            }
        }
        Ok(())
    }

    fn compare_runs(&mut self, connection: &Connection, found: &mut First) -> Result<(), Fault> {
        let mut statement = connection.prepare(&format!(
            "SELECT run_id, cwd, agent_id, session_key, host, asked_by_kind, asked_by_id, asked_by_name, \
             status, exit_code, exit_signal, reason, approval_id, created_ms, command, argv_json, tool, \
             EXISTS (SELECT 1 FROM approvals WHERE id = runs.approval_id AND revises IS NOT NULL), {} FROM runs",
            facts::OF_RUN
        ))?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let id = text(row, 0);
            let Some(run) = self.runs.remove(&id) else {
                self.unknown("run", id, number(row, 13), found);
                continue;
            };
            // A row that is no command of ours has no text that a record could have.
            let command = run_rows::command(&mut Columns::after("runs", row, 14))
                .map_or_else(|_fault| String::new(), |command| command.to_short_text());
            let facts = (1..=4).map(|column| text(row, column));
            let begun = digest(std::iter::once(command).chain(facts));
            let asked_by = digest((5..=7).map(|column| text(row, column)));
            // Records of earlier versions name only who changed the command.
            let names_asker = number(row, 17) == 0;
            let status = text(row, 8);
            let is_over = status.parse::<RunStatus>().map_or(true, RunStatus::is_final);
            let ended = is_over.then(|| end_of_run(&status, &text(row, 9), &text(row, 10), &text(row, 11)));
            let is_same = run.begun.is_none_or(|recorded| recorded == begun)
                && run
                    .asked_by
                    .is_none_or(|recorded| recorded == asked_by || !names_asker)
                && run.ended == ended
                && run
                    .facts
                    .is_none_or(|sealed| sealed == facts::digest(&text(row, 18)))
                && run.other.is_none_or(|approval| approval == text(row, 12));
            if !is_same {
                found.add(run.seq, ProblemKind::Edited, "run", id);
            }
        }
        for (id, run) in std::mem::take(&mut self.runs) {
            let before = if run.other.is_some() {
                self.pruned.1
            } else {
                self.pruned.0
            };
            if run.begun.is_some() && run.ts >= before {
                found.add(run.seq, ProblemKind::Missing, "run", id);
            }
        }
        Ok(())
    }

    fn compare_approvals(&mut self, connection: &Connection, found: &mut First) -> Result<(), Fault> {
        let mut statement = connection.prepare(&format!(
            "SELECT id, run_id, card_json, agent_id, session_key, expires_ms, status, decision, terminal_reason, \
             resolved_kind, resolved_id, resolved_name, created_ms, {} FROM approvals",
            facts::OF_APPROVAL
        ))?;
        let system = Actor::system();
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let id = text(row, 0);
            let Some(approval) = self.approvals.remove(&id) else {
                self.unknown("approval", id, number(row, 12), found);
                continue;
            };
            let command = card_command(&text(row, 2));
            let begun = digest([text(row, 1), command, text(row, 3), text(row, 4), text(row, 5)]);
            let status = text(row, 6);
            let by = [text(row, 9), text(row, 10), text(row, 11)];
            let by = if by.iter().all(String::is_empty) {
                [system.kind.as_str(), &system.id, &system.name]
            } else {
                by.each_ref().map(String::as_str)
            };
            let ended =
                (status != "pending").then(|| end_of_approval(&status, &text(row, 7), &text(row, 8), by));
            let is_same = approval.begun.is_none_or(|recorded| recorded == begun)
                && approval.ended == ended
                && approval
                    .facts
                    .is_none_or(|sealed| sealed == facts::digest(&text(row, 13)));
            if !is_same {
                found.add(approval.seq, ProblemKind::Edited, "approval", id);
            }
        }
        for (id, approval) in std::mem::take(&mut self.approvals) {
            if approval.begun.is_some() && approval.ts >= self.pruned.1 {
                found.add(approval.seq, ProblemKind::Missing, "approval", id);
            }
        }
        Ok(())
    }

    /// A row of which no record speaks: older than all that are left, or put in.
    fn unknown(&self, kind: &str, id: String, created: i64, found: &mut First) {
        if self.oldest.is_some_and(|oldest| created >= oldest) {
            found.add(0, ProblemKind::Forged, kind, id);
        }
    }
}

/// Whether a run is told of that came into the ledger only because its file was found.
fn is_put_in(body: &Body) -> bool {
    body.action == AuditAction::RunForgotten.as_str() && body.detail.contains_key("requestedBy")
}

/// The first problem, by its record.
struct First(Option<Problem>);

impl First {
    fn add(&mut self, seq: i64, kind: ProblemKind, what: &str, id: String) {
        if self.0.as_ref().is_none_or(|first| seq < first.seq) {
            let target = Target {
                kind: what.to_owned(),
                id,
            };
            self.0 = Some(Problem {
                seq,
                kind,
                target: Some(target),
            });
        }
    }
}

fn end_of_run(status: &str, exit_code: &str, exit_signal: &str, reason: &str) -> [u8; 32] {
    digest([status, exit_code, exit_signal, reason])
}

fn end_of_approval(status: &str, decision: &str, why: &str, by: [&str; 3]) -> [u8; 32] {
    // What is told of an approval that nobody decided is what follows from that, not a decision that is kept.
    let decision = if why == "user" { decision } else { "" };
    digest([status, decision, why].into_iter().chain(by))
}

/// The command of a card, as the record has it.
fn card_command(card: &str) -> String {
    serde_json::from_str::<ApprovalCard>(card)
        .map(|card| match &card.binding.command {
            command @ (Command::Shell(_) | Command::Argv(_)) => quoting::line(command),
            command @ Command::Patch(_) => command.to_short_text(),
        })
        .unwrap_or_default()
}

/// One value for a list of texts, none of which runs into the next.
fn digest<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in texts {
        let text = text.as_ref();
        hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}

struct Members<'a>(&'a Map<String, Value>);

impl Members<'_> {
    fn maybe(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// A member as text; nothing where there is none.
    fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}

/// A column as text; nothing for NULL.
fn text(row: &Row<'_>, column: usize) -> String {
    match row.get_ref(column) {
        Ok(rusqlite::types::ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        Ok(rusqlite::types::ValueRef::Integer(number)) => number.to_string(),
        Ok(
            rusqlite::types::ValueRef::Null
            | rusqlite::types::ValueRef::Real(_)
            | rusqlite::types::ValueRef::Blob(_),
        )
        | Err(_) => String::new(),
    }
}

fn number(row: &Row<'_>, column: usize) -> i64 {
    row.get(column).unwrap_or(i64::MAX)
}
