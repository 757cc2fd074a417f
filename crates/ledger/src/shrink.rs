//! The size of the ledger's file: what retention freed goes back to the file system.
//!
//! A new ledger lets its free pages go in small steps, between other jobs. A file of an earlier version cannot; it is
//! written anew at a start that finds most of it free, and is like a new one from then on.

use std::path::Path;

use rusqlite::Connection;

use super::{
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    sql::fetch,
    tx::Tx,
};

/// Pages given back in one step, so that a launch never waits long behind it.
const STEP: i64 = 256;

/// Free pages that stay: what comes next is written there without making the file longer.
const SPARE: i64 = 256;

/// `PRAGMA auto_vacuum` of a file that lets its free pages go.
const INCREMENTAL: i64 = 2;

/// A file is written anew for so many free bytes, if they are half of it.
const WORTH: i64 = 4 << 20;

/// Most bytes that are written anew: they are held in memory meanwhile, and the start waits for it.
const REWRITTEN: i64 = 128 << 20;

/// What a step gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shrunk {
    /// How much shorter the file becomes, once its log is folded in.
    pub bytes: u64,
    /// Whether there is more to give back.
    pub more: bool,
}

struct Shrink;

impl Ledger {
    /// Gives one step's worth of free pages back; call again while it says `more`.
    ///
    /// # Errors
    /// When the ledger cannot be written, or the disk has little room left.
    #[crate::compiled_once]
    pub async fn shrink(&self) -> Result<Shrunk, LedgerError> {
        self.queue.submit(Shrink).await
    }
}

impl Change for Shrink {
    type Answer = Shrunk;

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn is_long(&self) -> bool {
        true
    }

    /// Pages that move are written to the log first.
    fn needs_reserve(&self) -> bool {
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Shrunk, Fault> {
        if number(tx.connection, "PRAGMA auto_vacuum")? != INCREMENTAL {
            return Ok(Shrunk::default());
        }
        let before = number(tx.connection, "PRAGMA page_count")?;
        let too_many = number(tx.connection, "PRAGMA freelist_count")?.saturating_sub(SPARE);
        if too_many <= 0 {
            return Ok(Shrunk::default());
        }
        let sql = format!("PRAGMA incremental_vacuum({})", too_many.min(STEP));
        let mut statement = tx.connection.prepare(&sql)?;
        let mut pages = statement.query(())?;
        // Each step of the statement gives one page back.
        while pages.next()?.is_some() {}
        let given = before.saturating_sub(number(tx.connection, "PRAGMA page_count")?);
        let bytes = given.saturating_mul(number(tx.connection, "PRAGMA page_size")?);
        Ok(Shrunk {
            bytes: u64::try_from(bytes).unwrap_or(0),
            more: given > 0 && too_many > STEP,
        })
    }
}

/// Writes a file of an earlier version anew if most of it is free. It says in the log what it did; a failure leaves the file
/// as it was.
pub(super) fn rewrite_if_worth_it(connection: &Connection, path: &Path) {
    match rewrite(connection, path) {
        Ok(None) => {}
        Ok(Some((before, after))) => tracing::info!(
            before,
            after,
            "the ledger's file was written anew without its free pages"
        ),
        Err(fault) => tracing::warn!(
            error = &LedgerError::from(fault) as &dyn std::error::Error,
            "the ledger's file keeps its free pages"
        ),
    }
}

/// The bytes of the file before and after; `None` when nothing was done.
fn rewrite(connection: &Connection, path: &Path) -> Result<Option<(i64, i64)>, Fault> {
    if number(connection, "PRAGMA auto_vacuum")? == INCREMENTAL {
        return Ok(None);
    }
    let page = number(connection, "PRAGMA page_size")?;
    let size = || Ok::<_, Fault>(number(connection, "PRAGMA page_count")?.saturating_mul(page));
    let before = size()?;
    let free = number(connection, "PRAGMA freelist_count")?.saturating_mul(page);
    let kept = before.saturating_sub(free);
    if free < WORTH || free < kept || kept > REWRITTEN || !has_room(path, kept) {
        return Ok(None);
    }
    // What is kept must not be in files elsewhere, even for a moment.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let rewritten = connection.execute_batch("VACUUM");
    connection.pragma_update(None, "temp_store", "DEFAULT")?;
    rewritten?;
    fetch(connection, "PRAGMA wal_checkpoint(TRUNCATE)", (), |_row| Ok(()))?;
    Ok(Some((before, size()?)))
}

/// Whether the disk takes what is kept a second time, in the log, and has as much left.
fn has_room(path: &Path, kept: i64) -> bool {
    let kept = u64::try_from(kept).unwrap_or(u64::MAX);
    rustix::fs::statvfs(path)
        .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= kept.saturating_mul(2))
}

fn number(connection: &Connection, pragma: &str) -> Result<i64, Fault> {
    Ok(fetch(connection, pragma, (), |row| Ok(row.get::<_, i64>(0)?))?.unwrap_or(0))
}
