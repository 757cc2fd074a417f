//! Reading audit records, and verifying the chain of an open ledger.

use rusqlite::{Row, types::Value};

use countersign_domain::UnixMillis;

use crate::{
    error::{Fault, Inconsistency, LedgerError},
    handle::Ledger,
    moments::{self, Series},
    readers::{Listing, Page},
    record::{Append, AppendBefore},
    sql::list,
};

use super::{
    Entry, Verification, VerifyError,
    entry::{AuditRecord, Body},
};

/// Which audit records are wanted. Everything that is set must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// With a higher number.
    pub after_seq: Option<i64>,
    /// By the actor of this id.
    pub actor: Option<String>,
    /// With exactly this action, one of the words of [`AuditAction::as_str`](super::AuditAction::as_str).
    pub action: Option<String>,
    /// Written at or after.
    pub since: Option<UnixMillis>,
    /// Written before.
    pub until: Option<UnixMillis>,
    /// Which comes first.
    pub order: AuditOrder,
}

/// In which order records are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditOrder {
    /// As they were written.
    #[default]
    OldestFirst,
    /// The other way round.
    NewestFirst,
}

impl Ledger {
    /// Appends a record that belongs to no event.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn append_audit(&self, entry: Entry) -> Result<(), LedgerError> {
        self.queue.submit(Append(entry)).await
    }

    /// Appends a record of something that is to happen next, if there is room for more than the ends of what runs.
    ///
    /// # Errors
    /// When the ledger cannot be written; then it must not happen.
    #[crate::compiled_once]
    pub async fn append_audit_before(&self, entry: Entry) -> Result<(), LedgerError> {
        self.queue.submit(AppendBefore(entry)).await
    }

    /// Audit records in the order of the filter.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn audit(&self, filter: AuditFilter, page: Page) -> Result<Listing<AuditRecord>, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let AuditFilter {
                    after_seq,
                    actor,
                    action,
                    since,
                    until,
                    order,
                } = filter;
                let cursor = page.cursor.map(super::super::Cursor::position);
                let mut sql = String::from("SELECT seq, body, hash, mac FROM audit WHERE seq > ?");
                let after = after_seq.unwrap_or(0);
                let mut params = match (order, cursor) {
                    (AuditOrder::OldestFirst, cursor) => {
                        vec![Value::Integer(after.max(cursor.unwrap_or(0)))]
                    }
                    (AuditOrder::NewestFirst, None) => vec![Value::Integer(after)],
                    (AuditOrder::NewestFirst, Some(cursor)) => {
                        sql.push_str(" AND seq < ?");
                        vec![Value::Integer(after), Value::Integer(cursor)]
                    }
                };
                for (condition, time) in [(" AND seq >= ?", since), (" AND seq < ?", until)] {
                    if let Some(time) = time {
                        sql.push_str(condition);
                        let first = moments::first_since(connection, Series::Audit, time.get())?;
                        params.push(Value::Integer(first));
                    }
                }
                for (column, value) in [(" AND actor_id = ?", actor), (" AND action = ?", action)] {
                    if let Some(value) = value {
                        sql.push_str(column);
                        params.push(Value::Text(value));
                    }
                }
                sql.push_str(match order {
                    AuditOrder::OldestFirst => " ORDER BY seq LIMIT ?",
                    AuditOrder::NewestFirst => " ORDER BY seq DESC LIMIT ?",
                });
                params.push(Value::Integer(page.fetch_limit()));
                let rows = list(connection, &sql, rusqlite::params_from_iter(params), |row| {
                    Ok((row.get(0)?, from_row(row)?))
                })?;
                Ok(page.listing(rows))
            })
            .await
    }

    /// Verifies the whole chain.
    ///
    /// # Errors
    /// When a file cannot be read; what is wrong with the chain itself is the answer.
    #[crate::compiled_once]
    pub async fn verify_audit(&self) -> Result<Verification, VerifyError> {
        let files = std::sync::Arc::clone(&self.files);
        let verified = tokio::task::spawn_blocking(move || {
            super::verify(&files.path, &files.audit_key, &files.audit_head)
        });
        verified
            .await
            .unwrap_or(Err(VerifyError::Ledger(LedgerError::Closed)))
    }
}

fn from_row(row: &Row<'_>) -> Result<AuditRecord, Fault> {
    let seq: i64 = row.get(0)?;
    let text: String = row.get(1)?;
    let body: Body = serde_json::from_str(&text).map_err(|_malformed| Inconsistency {
        table: "audit",
        column: "body".to_owned(),
        row: seq.to_string(),
    })?;
    let Body {
        action,
        actor,
        detail,
        outcome,
        prev_hash,
        seq,
        target,
        ts,
    } = body;
    Ok(AuditRecord {
        seq,
        ts,
        actor,
        action,
        target,
        outcome,
        detail,
        prev_hash,
        hash: row.get(2)?,
        mac: row.get(3)?,
    })
}
