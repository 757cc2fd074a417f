//! What the history knows about agents, and the numbers that metrics show.

use countersign_domain::{AgentId, UnixMillis};

use super::{error::LedgerError, handle::Ledger, rows::Columns, sql::list};

/// An agent as the history shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentActivity {
    /// An agent with at least one recorded run.
    pub agent: AgentId,
    /// When it last asked for a run.
    pub last_seen_at: UnixMillis,
    /// How many of its approvals wait for an answer now.
    pub pending: u64,
}

impl Ledger {
    /// Agents that ever asked for a run that is still recorded, by name.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
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
}
