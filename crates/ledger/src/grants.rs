//! Uses of grants with a limit, counted in the launch transaction so that no race spends one twice.

use std::collections::BTreeMap;

use countersign_domain::{Approval, EntryId, RunId, entry_id};

use rusqlite::Connection;

use super::{
    error::{Fault, LedgerError},
    handle::Ledger,
    sql::{fetch, list},
    tx::Tx,
};

/// A grant that lets a run through and has a limit on its uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantUse {
    /// Whose grant: an agent id, or `*`.
    pub owner: String,
    /// Id of the grant in the approvals document.
    pub entry_id: EntryId,
    /// How many runs it may let through in all.
    pub max_uses: u64,
}

impl Ledger {
    /// How many runs a grant with a limit has let through.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn grant_uses(&self, owner: &str, entry: &EntryId) -> Result<u64, LedgerError> {
        self.readers
            .inline(|connection| uses(connection, owner, entry))
            .await
    }
}

impl Ledger {
    /// How many runs each grant has let through, by owner and id. Grants without a use are not among them.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn all_grant_uses(&self) -> Result<BTreeMap<(String, EntryId), u64>, LedgerError> {
        self.readers.inline(all_uses).await
    }
}

fn all_uses(connection: &Connection) -> Result<BTreeMap<(String, EntryId), u64>, Fault> {
    let rows = list(
        connection,
        "SELECT owner, entry_id, count(*) FROM grant_uses GROUP BY owner, entry_id",
        (),
        |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, i64>(2)?,
            ))
        },
    )?;
    let known = rows.into_iter().filter_map(|(owner, id, count)| {
        let id = EntryId::parse(id).ok()?;
        Some(((owner, id), u64::try_from(count).unwrap_or(u64::MAX)))
    });
    Ok(known.collect())
}

/// The grants with a limit on their uses that an answer leaves.
pub(super) fn left_by(approval: &Approval) -> Vec<GrantUse> {
    let grant = |pattern: &countersign_domain::Pattern| {
        Some(GrantUse {
            owner: approval.card.binding.agent.to_string(),
            entry_id: entry_id(&approval.id, pattern),
            max_uses: pattern.limits.max_uses?,
        })
    };
    approval.chosen_patterns.iter().filter_map(grant).collect()
}

/// The first grant that has no use left.
pub(super) fn used_up(tx: &Tx<'_>, grants: &[GrantUse]) -> Result<Option<EntryId>, Fault> {
    for grant in grants {
        if uses(tx.connection, &grant.owner, &grant.entry_id)? >= grant.max_uses {
            return Ok(Some(grant.entry_id.clone()));
        }
    }
    Ok(None)
}

fn uses(connection: &Connection, owner: &str, entry: &EntryId) -> Result<u64, Fault> {
    let used = fetch(
        connection,
        "SELECT count(*) FROM grant_uses WHERE owner = ?1 AND entry_id = ?2",
        (owner, entry.as_str()),
        |row| Ok(row.get::<_, i64>(0)?),
    )?;
    Ok(u64::try_from(used.unwrap_or(0)).unwrap_or(u64::MAX))
}

/// Counts a run against each grant, once.
pub(super) fn count(tx: &mut Tx<'_>, grants: &[GrantUse], run: &RunId) -> Result<(), Fault> {
    let now = tx.now().get();
    for grant in grants {
        tx.execute(
            "INSERT OR IGNORE INTO grant_uses (owner, entry_id, run_id, used_ms) VALUES (?1, ?2, ?3, ?4)",
            (&grant.owner, grant.entry_id.as_str(), run.as_str(), now),
        )?;
    }
    Ok(())
}
