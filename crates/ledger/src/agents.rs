//! What the history knows about agents, and the numbers that metrics show.

use countersign_domain::{AgentId, UnixMillis};

use super::{
    error::LedgerError,
    handle::Ledger,
    rows::Columns,
    sql::{fetch, list},
};

/// An agent as the history shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentActivity {
    pub agent: AgentId,
    /// When it last asked for a run.
    pub last_seen_at: UnixMillis,
    pub pending: u64,
}

/// Numbers of the ledger now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    pub pending_approvals: u64,
    /// Runs that have not ended.
    pub unfinished_runs: u64,
    /// Number of the last event, 0 for none.
    pub event_head: i64,
    /// Jobs that wait for the writer.
    pub queued_jobs: u64,
}

impl Ledger {
    /// Agents that ever asked for a run that is still recorded, by name.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn agents(&self) -> Result<Vec<AgentActivity>, LedgerError> {
        self.readers
            .blocking(|connection| {
                list(
                    connection,
                    "SELECT agent_id, created_ms, \
                     (SELECT count(*) FROM approvals WHERE status = 'pending' AND agent_id = runs.agent_id) \
                     FROM runs JOIN (SELECT max(seq) AS seq FROM runs GROUP BY agent_id) USING (seq) \
                     ORDER BY agent_id",
                    (),
                    |row| {
                        let mut columns = Columns::of("runs", row);
                        Ok(AgentActivity {
                            agent: columns.word()?,
                            last_seen_at: columns.time()?,
                            pending: columns.count()?,
                        })
                    },
                )
            })
            .await
    }

    /// Numbers of the ledger now.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn counters(&self) -> Result<Counters, LedgerError> {
        let event_head = self.feed.head();
        let queued_jobs = u64::try_from(self.queue.depth()).unwrap_or(u64::MAX);
        let counted = self.readers.blocking(move |connection| {
            fetch(
                connection,
                "SELECT (SELECT count(*) FROM approvals WHERE status = 'pending'), \
                 (SELECT count(*) FROM runs WHERE status IN ('requested', 'asking', 'launching', 'running'))",
                (),
                |row| {
                    let mut columns = Columns::of("approvals", row);
                    Ok((columns.count()?, columns.count()?))
                },
            )
        });
        let (pending_approvals, unfinished_runs) = counted.await?.unwrap_or_default();
        Ok(Counters {
            pending_approvals,
            unfinished_runs,
            event_head,
            queued_jobs,
        })
    }
}
