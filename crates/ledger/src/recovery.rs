//! What a server that starts must know about runs that another left unfinished (`docs/decisions/0009-exactly-once.md`,
//! step 7).

use countersign_domain::{Approval, LaunchId, Run, UnixMillis};

use super::{
    approvals,
    error::LedgerError,
    handle::Ledger,
    rows::Columns,
    run_order::{NUMBERS, UNFINISHED},
    run_rows,
    sql::{fetch, list},
};

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedRun {
    /// The run, in no final state.
    pub run: Run,
    /// Its launch, once it had one.
    pub launch: Option<LaunchRecord>,
    /// Its approval, if it has one.
    pub approval: Option<Approval>,
    /// Whether it came with an Idempotency-Key and so counts as a background run.
    pub keyed: bool,
}

/// A launch as it was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchRecord {
    /// Its id, as the fence records it.
    pub launch_id: LaunchId,
    /// Opening of the ledger in which it happened: 1 for the first, one more at each.
    pub(crate) epoch: i64,
    /// Boot of the machine in which it happened.
    pub boot_id: String,
    /// The start-by: after it the run must not start any more.
    pub not_after: UnixMillis,
}

impl Ledger {
    /// Whether a gateway run was launched at this time or later, or is still under way.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn launched_since(&self, since: UnixMillis) -> Result<bool, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let found = fetch(
                    connection,
                    "SELECT EXISTS (SELECT 1 FROM runs WHERE host = 'gateway' AND \
                     (launched_ms >= ?1 OR status IN ('launching', 'running')))",
                    (since.get(),),
                    |row| Ok(row.get::<_, bool>(0)?),
                )?;
                Ok(found == Some(true))
            })
            .await
    }

    /// Every run that has not ended, oldest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn unfinished_runs(&self) -> Result<Vec<UnfinishedRun>, LedgerError> {
        self.readers
            .blocking(|connection| {
                let sql = format!(
                    "SELECT {}, keyed, launch_id, epoch, boot_id, not_after_ms FROM runs \
                     WHERE seq IN {NUMBERS} AND status IN {UNFINISHED} ORDER BY seq",
                    run_rows::COLUMNS
                );
                let mut unfinished = list(connection, &sql, (), |row| {
                    let run = run_rows::from_row(row)?;
                    let mut columns = Columns::after("runs", row, run_rows::COLUMNS.split(',').count());
                    let keyed = columns.take()?;
                    let launch_id: Option<LaunchId> = columns.maybe_word()?;
                    let launch = match launch_id {
                        None => None,
                        Some(launch_id) => Some(LaunchRecord {
                            launch_id,
                            epoch: columns.take()?,
                            boot_id: columns.take()?,
                            not_after: columns.time()?,
                        }),
                    };
                    Ok(UnfinishedRun {
                        run,
                        launch,
                        approval: None,
                        keyed,
                    })
                })?;
                for unfinished in &mut unfinished {
                    if let Some(id) = &unfinished.run.approval_id {
                        let stored = approvals::fetch_stored(connection, id)?;
                        unfinished.approval = stored.map(|stored| stored.approval);
                    }
                }
                Ok(unfinished)
            })
            .await
    }
}
