//! Reading runs.

use std::fmt::Write as _;

use rusqlite::{Connection, types::Value};

use countersign_domain::{
    AgentId, Authority, Host, IdPart, Run, RunId, RunStatus, SessionKey, TokenId, UnixMillis,
};

use super::{
    error::{Fault, LedgerError},
    handle::Ledger,
    idempotency::{self, IdempotencyKey, KeyState},
    moments::{self, Series},
    readers::{Cursor, Listing, Page, agents_within},
    run_order::{self, NUMBERS},
    run_rows::{COLUMNS, fetch_run, from_row},
    sql::{fetch, has_id_part, list},
};

/// Which runs are wanted. Everything that is set must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Of this agent; `None` for any.
    pub agent: Option<AgentId>,
    /// Of this session; `None` for any.
    pub session: Option<SessionKey>,
    /// On this host; `None` for any.
    pub host: Option<Host>,
    /// On the node of this id; `None` for any.
    pub node_id: Option<String>,
    /// In one of these states; empty for any.
    pub statuses: Vec<RunStatus>,
    /// Admitted at or after.
    pub since: Option<UnixMillis>,
    /// Admitted before.
    pub until: Option<UnixMillis>,
    /// Whose id begins or ends with this.
    pub id_part: Option<IdPart>,
    /// Whose command has this text in it.
    pub query: Option<String>,
    /// With a terminal, or without one; `None` for any.
    pub pty: Option<bool>,
    /// Asked for with this token.
    pub owner: Option<TokenId>,
    /// Of an agent that the reader has authority over.
    pub authority: Authority,
}

/// From one number to before another, where there is one.
struct Period {
    first: Option<i64>,
    end: Option<i64>,
}

/// Where the output of a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredOutput {
    /// Here, in the spool's frames; empty for none.
    Inline(Vec<u8>),
    /// In its spool file.
    Spooled,
}

impl Ledger {
    /// One run. Reads on the calling thread.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn run(&self, id: &RunId) -> Result<Option<Run>, LedgerError> {
        self.readers.inline(|connection| fetch_run(connection, id)).await
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn runs(&self, filter: RunFilter, page: Page) -> Result<Listing<Run>, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let period = filter.period(connection)?;
                let (conditions, params) = filter.conditions(&period, page.cursor, page.fetch_limit());
                let sql =
                    format!("SELECT {COLUMNS}, seq FROM runs WHERE {conditions} ORDER BY seq DESC LIMIT ?");
                let rows = list(connection, &sql, rusqlite::params_from_iter(params), |row| {
                    Ok((row.get("seq")?, from_row(row)?))
                })?;
                Ok(page.listing(rows))
            })
            .await
    }

    /// Where the output of a run is; `None` when there is no such run.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn output(&self, id: &RunId) -> Result<Option<StoredOutput>, LedgerError> {
        let id = id.clone();
        self.readers
            .blocking(move |connection| {
                fetch(
                    connection,
                    "SELECT runs.run_id, spooled, frames FROM runs LEFT JOIN outputs USING (run_id) \
                     WHERE run_id = ?1",
                    (id.as_str(),),
                    |row| {
                        let (spooled, frames): (bool, Option<Vec<u8>>) = (row.get(1)?, row.get(2)?);
                        Ok(if spooled {
                            StoredOutput::Spooled
                        } else {
                            StoredOutput::Inline(frames.unwrap_or_default())
                        })
                    },
                )
            })
            .await
    }

    /// Whether a run came with an idempotency key, and so outlives its caller. Reads on the calling thread.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn is_keyed(&self, id: &RunId) -> Result<bool, LedgerError> {
        let keyed = self
            .readers
            .inline(|connection| {
                fetch(
                    connection,
                    "SELECT run_id, keyed FROM runs WHERE run_id = ?1",
                    (id.as_str(),),
                    |row| Ok(row.get::<_, bool>(1)?),
                )
            })
            .await?;
        Ok(keyed.unwrap_or(false))
    }

    /// What is known about an idempotency key. The admission checks again; this spares the work before it.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn key_state(&self, key: &IdempotencyKey) -> Result<KeyState, LedgerError> {
        let now = self.clock.now();
        self.readers
            .inline(|connection| idempotency::state_of(connection, key, now))
            .await
    }
}

impl RunFilter {
    /// The numbers of the runs of the time that is wanted, on both sides where that is bounded.
    fn period(&self, connection: &Connection) -> Result<Period, Fault> {
        let first_since = |at: UnixMillis| moments::first_since(connection, Series::Runs, at.get());
        Ok(Period {
            first: self.since.map(first_since).transpose()?,
            end: self.until.map(first_since).transpose()?,
        })
    }

    fn conditions(&self, period: &Period, cursor: Option<Cursor>, limit: i64) -> (String, Vec<Value>) {
        let Self {
            agent,
            session,
            host,
            node_id,
            statuses,
            since: _,
            until: _,
            id_part,
            query,
            pty,
            owner,
            authority,
        } = self;
        let mut sql = String::from("1");
        let mut params = Vec::new();
        let mut add = |condition: &str, value: Value| {
            sql.push_str(" AND ");
            sql.push_str(condition);
            params.push(value);
        };
        let text = |text: &str| Value::Text(text.to_owned());
        if let Some(cursor) = cursor {
            add("seq < ?", Value::Integer(cursor.position()));
        }
        if let Some(agent) = agent {
            add("agent_id = ?", text(agent.as_str()));
        }
        if let Some(agents) = agents_within(authority) {
            add("agent_id IN (SELECT value FROM json_each(?))", agents);
        }
        if let Some(session) = session {
            add("session_key = ?", text(session.as_str()));
        }
        if let Some(host) = host {
            add("host = ?", text(host.as_str()));
        }
        if let Some(node) = node_id {
            add("node_id = ?", text(node));
        }
        if let Some(first) = period.first {
            add("seq >= ?", Value::Integer(first));
        }
        if let Some(end) = period.end {
            add("seq < ?", Value::Integer(end));
        }
        if let Some(part) = id_part {
            add(&has_id_part("runs", "run_id"), text(part.as_str()));
        }
        if let Some(query) = query {
            add("instr(command, ?) > 0", text(query));
        }
        if let Some(pty) = pty {
            add("pty = ?", Value::Integer(i64::from(*pty)));
        }
        if let Some(owner) = owner {
            // Its own, and those of browsers that stand for it: their ids are its id and 17 characters more.
            add(
                "CASE asked_by_kind WHEN 'token' THEN asked_by_id \
                 WHEN 'session' THEN substr(asked_by_id, 1, length(asked_by_id) - 17) END = ?",
                text(owner.as_str()),
            );
        }
        if !statuses.is_empty() {
            let places = vec!["?"; statuses.len()].join(", ");
            write!(sql, " AND status IN ({places})").expect("writing to a String cannot fail");
            if run_order::are_unfinished(statuses) {
                write!(sql, " AND seq IN {NUMBERS}").expect("writing to a String cannot fail");
            }
            params.extend(statuses.iter().map(|status| text(status.as_str())));
        }
        params.push(Value::Integer(limit));
        (sql, params)
    }
}
