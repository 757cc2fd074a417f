//! Reading runs.

use std::{fmt::Write as _, time::Duration};

use rusqlite::{Connection, Row, types::Value};

use countersign_domain::{
    AgentId, Authority, Command, Host, Isolation, LaunchId, Run, RunDecision, RunId, RunStatus, SessionKey,
    TokenId, UnixMillis,
};

use crate::events::Subject;

use super::{
    error::{Fault, LedgerError},
    handle::Ledger,
    idempotency::{self, IdempotencyKey, KeyState},
    readers::{Cursor, Listing, Page, agents_within},
    rows::Columns,
    sql::{fetch, list},
    tx::Tx,
};

/// Which runs are wanted. Everything that is set must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    pub agent: Option<AgentId>,
    pub session: Option<SessionKey>,
    pub host: Option<Host>,
    pub node_id: Option<String>,
    /// In one of these states; empty for any.
    pub statuses: Vec<RunStatus>,
    /// Admitted at or after.
    pub since: Option<UnixMillis>,
    pub until: Option<UnixMillis>,
    /// Whose command holds this text.
    pub query: Option<String>,
    /// Asked for with this token.
    pub owner: Option<TokenId>,
    /// Of an agent that the reader has authority over.
    pub authority: Authority,
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
    pub async fn run(&self, id: &RunId) -> Result<Option<Run>, LedgerError> {
        self.readers.inline(|connection| fetch_run(connection, id)).await
    }

    /// Runs, newest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn runs(&self, filter: RunFilter, page: Page) -> Result<Listing<Run>, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let (conditions, params) = filter.conditions(page.cursor, page.fetch_limit());
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
    pub async fn key_state(&self, key: &IdempotencyKey) -> Result<KeyState, LedgerError> {
        let now = self.clock.now();
        self.readers
            .inline(|connection| idempotency::state_of(connection, key, now))
            .await
    }
}

impl RunFilter {
    fn conditions(&self, cursor: Option<Cursor>, limit: i64) -> (String, Vec<Value>) {
        let Self {
            agent,
            session,
            host,
            node_id,
            statuses,
            since,
            until,
            query,
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
        if let Some(since) = since {
            add("created_ms >= ?", Value::Integer(since.get()));
        }
        if let Some(until) = until {
            add("created_ms < ?", Value::Integer(until.get()));
        }
        if let Some(query) = query {
            add("instr(command, ?) > 0", text(query));
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
            params.extend(statuses.iter().map(|status| text(status.as_str())));
        }
        params.push(Value::Integer(limit));
        (sql, params)
    }
}

pub(super) fn fetch_run(connection: &Connection, id: &RunId) -> Result<Option<Run>, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM runs WHERE run_id = ?1");
    fetch(connection, &sql, (id.as_str(),), from_row)
}

/// Adds the code of a warning that belongs to a run, once.
pub(super) fn warn(tx: &Tx<'_>, id: &RunId, code: &str) -> Result<(), Fault> {
    tx.execute(
        "UPDATE runs SET warnings = json_insert(warnings, '$[#]', ?2) \
         WHERE run_id = ?1 AND NOT EXISTS (SELECT 1 FROM json_each(warnings) WHERE value = ?2)",
        (id.as_str(), code),
    )?;
    Ok(())
}

/// What a transition needs to know about a run.
pub(super) struct Brief {
    pub(super) subject: Subject,
    pub(super) status: RunStatus,
    pub(super) started_at: Option<UnixMillis>,
    pub(super) diverted: bool,
    /// Whether it goes on when its caller leaves, and may therefore be launched again after a restart.
    pub(super) outlives_caller: bool,
    pub(super) isolation: Isolation,
}

/// What a transition needs to know about a run. Read first and then written over by id: `UPDATE … RETURNING`
/// makes `SQLite` build a table for its answer, which costs more than the update.
pub(super) fn brief(connection: &Connection, id: &RunId) -> Result<Option<Brief>, Fault> {
    fetch(
        connection,
        "SELECT run_id, approval_id, agent_id, session_key, host, node_id, asked_by_kind, asked_by_id, \
         asked_by_name, status, started_ms, diverted, background, keyed, isolation FROM runs WHERE run_id = ?1",
        (id.as_str(),),
        |row| {
            let mut columns = Columns::of("runs", row);
            let subject = Subject {
                run_id: Some(columns.word()?),
                approval_id: columns.maybe_word()?,
                agent: Some(columns.word()?),
                session: Some(columns.word()?),
                host: Some(columns.word::<Host>()?),
                node_id: columns.take()?,
                owner: columns.actor()?.token(),
            };
            let (status, started_at, diverted) = (columns.word()?, columns.maybe_time()?, columns.take()?);
            let (background, keyed): (bool, bool) = (columns.take()?, columns.take()?);
            // The caller of a run that was asked about has been answered already.
            let outlives_caller = background || keyed || subject.approval_id.is_some();
            Ok(Brief {
                subject,
                status,
                started_at,
                diverted,
                outlives_caller,
                isolation: columns.word()?,
            })
        },
    )
}

/// The launch of a run that is still `launching`.
pub(super) struct EarlierLaunch {
    pub(super) launch_id: LaunchId,
    pub(super) epoch: i64,
    pub(super) not_after: UnixMillis,
    pub(super) binding_digest: Option<String>,
    pub(super) has_env: bool,
    pub(super) isolation: Isolation,
}

/// The launch of a run that is still `launching`.
pub(super) fn earlier_launch(connection: &Connection, id: &RunId) -> Result<Option<EarlierLaunch>, Fault> {
    fetch(
        connection,
        "SELECT run_id, launch_id, epoch, not_after_ms, binding_digest, env_names, isolation FROM runs \
         WHERE run_id = ?1 AND status = 'launching'",
        (id.as_str(),),
        |row| {
            let mut columns = Columns::of("runs", row);
            let _id: String = columns.take()?;
            Ok(EarlierLaunch {
                launch_id: columns.word()?,
                epoch: columns.take()?,
                not_after: columns.time()?,
                binding_digest: columns.take()?,
                has_env: !columns.json::<Vec<String>>()?.is_empty(),
                isolation: columns.word()?,
            })
        },
    )
}

/// The columns that [`from_row`] reads, in its order.
pub(super) const COLUMNS: &str = "run_id, status, host, node_id, agent_id, session_key, command, argv_json, tool, cwd, \
     env_names, asked_by_kind, asked_by_id, asked_by_name, security, ask, verdict, verdict_by, reason, detail, \
     approval_id, session_id, pid, pty, background, diverted, isolation, timeout_ms, created_ms, started_ms, \
     ended_ms, exit_code, exit_signal, timed_out, truncated, output_bytes, tail, warnings, binding, input, \
     sandbox, scripts";

/// A run from a row that begins with [`COLUMNS`].
pub(super) fn from_row(row: &Row<'_>) -> Result<Run, Fault> {
    let mut columns = Columns::of("runs", row);
    Ok(Run {
        id: columns.word()?,
        status: columns.word()?,
        host: columns.word()?,
        node_id: columns.take()?,
        agent: columns.word()?,
        session: columns.word()?,
        command: command(&mut columns)?,
        cwd: columns.take()?,
        env_names: columns.json()?,
        requested_by: columns.actor()?,
        security: columns.word()?,
        ask: columns.word()?,
        decision: decision(&mut columns)?,
        reason: columns.maybe_word()?,
        detail: columns.take()?,
        approval_id: columns.maybe_word()?,
        session_id: columns.take()?,
        pid: columns.take()?,
        pty: columns.take()?,
        background: columns.take()?,
        diverted: columns.take()?,
        isolation: columns.word()?,
        timeout: columns
            .take::<Option<i64>>()?
            .and_then(|ms| u64::try_from(ms).ok())
            .map(Duration::from_millis),
        created_at: columns.time()?,
        started_at: columns.maybe_time()?,
        ended_at: columns.maybe_time()?,
        exit_code: columns.take()?,
        exit_signal: columns.take()?,
        timed_out: columns.take()?,
        truncated: columns.take()?,
        output_bytes: columns.count()?,
        tail: columns.take()?,
        warnings: columns.json()?,
        binding: columns.maybe_word()?,
        input: columns.word()?,
        sandbox: columns.maybe_word()?,
        scripts: columns.maybe_word()?,
    })
}

/// The tool of a command.
pub(super) const EXEC: &str = "exec";
/// The tool of a patch.
pub(super) const APPLY_PATCH: &str = "apply_patch";

/// The command, from the three columns that hold it.
pub(super) fn command(columns: &mut Columns<'_>) -> Result<Command, Fault> {
    let text: String = columns.take()?;
    let argv: Option<Vec<String>> = columns.maybe_json()?;
    let tool: String = columns.take()?;
    let command = match (tool.as_str(), argv) {
        (EXEC, None) => Command::Shell(text),
        (EXEC, Some(argv)) => Command::Argv(argv),
        (APPLY_PATCH, None) => Command::Patch(text),
        _ => return columns.contradiction("tool"),
    };
    Command::recorded(command).or_else(|_invalid| columns.contradiction("command"))
}

fn decision(columns: &mut Columns<'_>) -> Result<Option<RunDecision>, Fault> {
    let verdict = columns.maybe_word()?;
    let by = columns.maybe_word()?;
    match (verdict, by) {
        (Some(verdict), Some(by)) => Ok(Some(RunDecision { verdict, by })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => columns.contradiction("verdict_by"),
    }
}
