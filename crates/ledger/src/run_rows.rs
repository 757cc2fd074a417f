//! The rows of runs: a whole run, or what a transition needs of one.

use std::time::Duration;

use rusqlite::{Connection, Row};

use countersign_domain::{
    Actor, Command, Host, Isolation, LaunchId, Run, RunDecision, RunId, RunStatus, TextStart, UnixMillis,
};

use crate::events::Subject;

use super::{error::Fault, rows::Columns, sql::fetch, tx::Tx};

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
    pub(super) seq: i64,
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
         asked_by_name, status, started_ms, diverted, background, keyed, isolation, seq FROM runs WHERE run_id = ?1",
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
                seq: columns.take()?,
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
    pub(super) asker: Actor,
    pub(super) start: Option<TextStart>,
}

/// The launch of a run that is still `launching`.
pub(super) fn earlier_launch(connection: &Connection, id: &RunId) -> Result<Option<EarlierLaunch>, Fault> {
    fetch(
        connection,
        "SELECT run_id, launch_id, epoch, not_after_ms, binding_digest, env_names, isolation, asked_by_kind, \
         asked_by_id, asked_by_name, start FROM runs \
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
                asker: columns.actor()?,
                start: columns.maybe_word()?,
            })
        },
    )
}

/// The columns that [`from_row`] reads, in its order.
pub(super) const COLUMNS: &str = "run_id, status, host, node_id, agent_id, session_key, command, argv_json, tool, cwd, \
     env_names, asked_by_kind, asked_by_id, asked_by_name, security, ask, verdict, verdict_by, reason, detail, \
     approval_id, session_id, pid, pty, background, diverted, isolation, timeout_ms, created_ms, started_ms, \
     ended_ms, exit_code, exit_signal, timed_out, truncated, output_bytes, tail, warnings, binding, input, \
     sandbox, scripts, start, confinement, note, observed";

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
        start: columns.maybe_word()?,
        confinement: columns.maybe_json()?.unwrap_or_default(),
        note: columns.maybe_json()?.unwrap_or_default(),
        observed: columns.maybe_json()?,
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
