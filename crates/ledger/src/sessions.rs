//! Process sessions: which there are, and forgetting them. A session that is forgotten has no row any more.

use rusqlite::{Row, types::Value};

use countersign_domain::{AgentId, Authority, ProcessKind, ProcessStatus, Run, RunId, UnixMillis};

use super::{
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    readers::{Listing, Page, agents_within},
    rows::Columns,
    run_rows,
    sql::{fetch, list},
    tx::Tx,
};

/// A process session with its run.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessSession {
    /// The session id that callers of `process` name it by.
    pub id: String,
    /// Whether it is a run in the background, or what a run left running.
    pub kind: ProcessKind,
    /// Whether a caller closed its standard input.
    pub stdin_closed: bool,
    /// How leftovers ended, once they did.
    pub leftovers_end: Option<LeftoversEnd>,
    /// The run that it is, or that left the processes.
    pub run: Run,
}

/// How what a run left running ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftoversEnd {
    pub(crate) at: UnixMillis,
    /// Whether they were killed, and did not end by themselves.
    pub(crate) killed: bool,
}

/// A session that has ended, as far as it matters for how long it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSession {
    /// The session id, as [`Ledger::forget_sessions`] takes it.
    pub id: String,
    /// When its run ended, or what that left running.
    pub ended_at: UnixMillis,
    /// Bytes of both streams seen.
    pub output_bytes: u64,
}

/// Which sessions are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFilter {
    /// Of this agent; `None` for any.
    pub agent: Option<AgentId>,
    /// That stand like this.
    pub status: Option<ProcessStatus>,
    /// Of an agent that the reader has authority over.
    pub authority: Authority,
}

/// What a session is when its run stands like this; other runs have none, or none yet.
const VISIBLE: &str =
    "runs.status IN ('requested', 'launching', 'running', 'completed', 'failed', 'cancelled', 'lost')";

/// How a session stands, as [`ProcessSession::status`] says it.
const STATUS: &str = "CASE WHEN kind = 'leftovers' THEN \
     CASE WHEN process_sessions.ended_ms IS NULL THEN 'running' WHEN killed THEN 'cancelled' ELSE 'completed' END \
     WHEN runs.status IN ('requested', 'launching', 'running') THEN 'running' ELSE runs.status END";

/// When a session ended; NULL while it goes on.
const ENDED: &str = "CASE kind WHEN 'leftovers' THEN process_sessions.ended_ms ELSE runs.ended_ms END";

impl ProcessSession {
    /// The state that callers see: `running` from `requested` on.
    pub const fn status(&self) -> ProcessStatus {
        use countersign_domain::RunStatus;
        match (self.kind, self.leftovers_end) {
            (ProcessKind::Leftovers, None) => ProcessStatus::Running,
            (ProcessKind::Leftovers, Some(end)) if end.killed => ProcessStatus::Cancelled,
            (ProcessKind::Leftovers, Some(_)) => ProcessStatus::Completed,
            (ProcessKind::Run, _) => match self.run.status {
                RunStatus::Requested | RunStatus::Asking | RunStatus::Launching | RunStatus::Running => {
                    ProcessStatus::Running
                }
                RunStatus::Completed => ProcessStatus::Completed,
                RunStatus::Failed | RunStatus::Denied => ProcessStatus::Failed,
                RunStatus::Cancelled => ProcessStatus::Cancelled,
                RunStatus::Lost => ProcessStatus::Lost,
            },
        }
    }

    /// When its run ended, or what that left running; `None` while it goes on.
    pub fn ended_at(&self) -> Option<UnixMillis> {
        match self.kind {
            ProcessKind::Run => self.run.ended_at,
            ProcessKind::Leftovers => self.leftovers_end.map(|end| end.at),
        }
    }
}

impl Ledger {
    /// One session. Reads on the calling thread.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn process_session(&self, id: &str) -> Result<Option<ProcessSession>, LedgerError> {
        self.readers
            .inline(|connection| {
                let sql = format!("{} WHERE session_id_of = ?1 AND {VISIBLE}", select());
                fetch(connection, &sql, (id,), from_row)
            })
            .await
    }

    /// Sessions, newest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn process_sessions(
        &self,
        filter: SessionFilter,
        page: Page,
    ) -> Result<Listing<ProcessSession>, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let SessionFilter {
                    agent,
                    status,
                    authority,
                } = filter;
                let mut sql = format!("{} WHERE {VISIBLE}", select());
                let mut params = Vec::new();
                if let Some(cursor) = page.cursor {
                    sql.push_str(" AND session_seq < ?");
                    params.push(Value::Integer(cursor.position()));
                }
                if let Some(agent) = agent {
                    sql.push_str(" AND session_agent = ?");
                    params.push(Value::Text(agent.into()));
                }
                if let Some(agents) = agents_within(&authority) {
                    sql.push_str(" AND session_agent IN (SELECT value FROM json_each(?))");
                    params.push(agents);
                }
                if let Some(status) = status {
                    sql.push_str(" AND session_status = ?");
                    params.push(Value::Text(status.as_str().to_owned()));
                }
                sql.push_str(" ORDER BY session_seq DESC LIMIT ?");
                params.push(Value::Integer(page.fetch_limit()));
                let rows = list(connection, &sql, rusqlite::params_from_iter(params), |row| {
                    Ok((row.get("session_seq")?, from_row(row)?))
                })?;
                Ok(page.listing(rows))
            })
            .await
    }

    /// The sessions of an agent that have ended, the latest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn ended_sessions(&self, agent: &AgentId) -> Result<Vec<EndedSession>, LedgerError> {
        let agent = agent.clone();
        self.readers
            .blocking(move |connection| {
                let sql = format!(
                    "SELECT process_sessions.session_id, {ENDED} AS ended, runs.output_bytes \
                     FROM process_sessions JOIN runs ON runs.run_id = process_sessions.run_id \
                     WHERE process_sessions.agent_id = ?1 AND ended IS NOT NULL \
                     ORDER BY ended DESC, process_sessions.seq DESC",
                );
                list(connection, &sql, (agent.as_str(),), |row| {
                    let mut columns = Columns::of("process_sessions", row);
                    Ok(EndedSession {
                        id: columns.take()?,
                        ended_at: columns.time()?,
                        output_bytes: columns.count()?,
                    })
                })
            })
            .await
    }

    /// The ids of all sessions that are not forgotten, and whose they are.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn session_ids(&self) -> Result<Vec<(String, AgentId)>, LedgerError> {
        self.readers
            .blocking(|connection| {
                let sql = "SELECT session_id, agent_id FROM process_sessions";
                list(connection, sql, (), |row| {
                    let mut columns = Columns::of("process_sessions", row);
                    Ok((columns.take()?, columns.word()?))
                })
            })
            .await
    }

    /// The sessions of leftovers that have not ended.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn running_leftovers(&self) -> Result<Vec<ProcessSession>, LedgerError> {
        self.readers
            .blocking(|connection| {
                let sql = format!(
                    "{} WHERE kind = 'leftovers' AND leftovers_ended IS NULL ORDER BY session_seq",
                    select()
                );
                list(connection, &sql, (), from_row)
            })
            .await
    }

    /// Leftovers have ended.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn end_leftovers(&self, run_id: RunId, killed: bool) -> Result<(), LedgerError> {
        self.queue.submit(EndLeftovers { run_id, killed }).await
    }

    /// Forgets sessions; their runs stay.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn forget_sessions(&self, ids: Vec<String>) -> Result<(), LedgerError> {
        self.queue.submit(ForgetSessions(ids)).await
    }

    /// Notes that a caller closed the standard input of a session.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn close_session_input(&self, id: String) -> Result<(), LedgerError> {
        self.queue.submit(CloseInput(id)).await
    }
}

/// The rows that [`from_row`] reads, as a table whose columns have names of their own.
fn select() -> String {
    format!(
        "SELECT * FROM (SELECT {}, process_sessions.session_id AS session_id_of, process_sessions.kind AS kind, \
         process_sessions.stdin_closed, process_sessions.ended_ms AS leftovers_ended, process_sessions.killed, \
         process_sessions.seq AS session_seq, process_sessions.agent_id AS session_agent, {STATUS} AS session_status \
         FROM process_sessions JOIN runs ON runs.run_id = process_sessions.run_id) AS runs",
        qualified()
    )
}

/// The columns of a run where another table has some of the same names.
fn qualified() -> String {
    let names: Vec<String> = run_rows::COLUMNS
        .split(',')
        .map(|name| format!("runs.{name}", name = name.trim()))
        .collect();
    names.join(", ")
}

fn from_row(row: &Row<'_>) -> Result<ProcessSession, Fault> {
    let run = run_rows::from_row(row)?;
    let mut columns = Columns::after("process_sessions", row, run_rows::COLUMNS.split(',').count());
    let (id, kind, stdin_closed) = (columns.take()?, columns.word()?, columns.take()?);
    let (ended_at, killed) = (columns.maybe_time()?, columns.take()?);
    Ok(ProcessSession {
        id,
        kind,
        stdin_closed,
        leftovers_end: ended_at.map(|at| LeftoversEnd { at, killed }),
        run,
    })
}

struct EndLeftovers {
    run_id: RunId,
    killed: bool,
}

impl Change for EndLeftovers {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let now = tx.now().get();
        tx.execute(
            "UPDATE process_sessions SET ended_ms = ?2, killed = ?3 \
             WHERE run_id = ?1 AND kind = 'leftovers' AND ended_ms IS NULL",
            (self.run_id.as_str(), now, self.killed),
        )?;
        Ok(())
    }
}

struct ForgetSessions(Vec<String>);

impl Change for ForgetSessions {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        for id in &self.0 {
            tx.execute("DELETE FROM process_sessions WHERE session_id = ?1", (id,))?;
        }
        Ok(())
    }
}

struct CloseInput(String);

impl Change for CloseInput {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.execute(
            "UPDATE process_sessions SET stdin_closed = 1 WHERE session_id = ?1",
            (&self.0,),
        )?;
        Ok(())
    }
}
