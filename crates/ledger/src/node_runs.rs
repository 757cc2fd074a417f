//! Runs on nodes: what they were launched with, and which of them a node can still say something about.

use rusqlite::Connection;

use countersign_domain::{Run, RunId, RunStatus};

use super::{
    error::{Fault, LedgerError},
    handle::Ledger,
    rows::Columns,
    run_rows,
    sql::{exactly_one, fetch, list},
    tx::Tx,
};

/// Most runs that a node is asked about after it came back, newest first.
const MOST_ASKED: u32 = 200;

/// What a launch on a node names besides the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLaunch {
    /// What is kept of it.
    pub kept: NodeRun,
    /// Whether the node's own approvals document was known when the run was judged. Only the code that sends the call
    /// needs this. It sends the call once and soon, so this is not kept.
    pub document_known: bool,
}

/// What is kept of a launch on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRun {
    /// The node that the run was launched on.
    pub node_id: String,
    /// The connection over which it is to be called, and over no other.
    pub connection: u64,
    /// Whether the node keeps a fence for the run, and so can be asked later what became of it.
    pub fenced: bool,
}

/// Writes what a run is launched with, in the transaction of the launch. The invoke id is the run's id.
pub(super) fn note_launch(tx: &Tx<'_>, run: &RunId, launch: &NodeLaunch) -> Result<(), Fault> {
    let NodeRun {
        node_id,
        connection,
        fenced,
    } = &launch.kept;
    let written = tx.execute(
        "INSERT INTO node_runs (run_id, node_id, invoke_id, connection, fenced) VALUES (?1, ?2, ?1, ?3, ?4)",
        (
            run.as_str(),
            node_id,
            i64::try_from(*connection).unwrap_or(i64::MAX),
            fenced,
        ),
    )?;
    exactly_one(written)
}

fn fetch_launch(connection: &Connection, run: &RunId) -> Result<Option<NodeRun>, Fault> {
    fetch(
        connection,
        "SELECT run_id, node_id, connection, fenced FROM node_runs WHERE run_id = ?1",
        (run.as_str(),),
        |row| {
            let mut columns = Columns::after("node_runs", row, 1);
            Ok(NodeRun {
                node_id: columns.take()?,
                connection: columns.count()?,
                fenced: columns.take()?,
            })
        },
    )
}

impl Ledger {
    /// What a run was launched with on its node; `None` for one that was not launched on any.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn node_launch(&self, run: &RunId) -> Result<Option<NodeRun>, LedgerError> {
        self.readers
            .inline(|connection| fetch_launch(connection, run))
            .await
    }

    /// A run that was launched on this node and whose outcome is unknown. The asker of a question may start a run there
    /// itself, on a person's answer; this server never launched such a run. Reads on the calling thread, and never waits.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn lost_run_of(&self, node_id: &str, run: &RunId) -> Result<Option<Run>, LedgerError> {
        self.readers.with(|connection| {
            let is_of = |launch: NodeRun| launch.node_id == node_id;
            if !fetch_launch(connection, run)?.is_some_and(is_of) {
                return Ok(None);
            }
            let run = run_rows::fetch_run(connection, run)?;
            Ok(run.filter(|run| run.status == RunStatus::Lost && run.node_id.as_deref() == Some(node_id)))
        })
    }

    /// The runs on a node whose outcome is unknown and that the node keeps a fence for, newest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn lost_on_node(&self, node_id: String) -> Result<Vec<Run>, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let sql = format!(
                    "SELECT {} FROM runs WHERE status = 'lost' AND run_id IN \
                     (SELECT run_id FROM node_runs WHERE node_id = ?1 AND fenced) ORDER BY seq DESC LIMIT ?2",
                    run_rows::COLUMNS
                );
                list(connection, &sql, (node_id, MOST_ASKED), run_rows::from_row)
            })
            .await
    }
}
