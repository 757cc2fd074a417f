//! A new chain in the place of a broken one, by the word of the operator alone.
//!
//! What is left of the broken chain goes into a file beside the ledger. The new chain begins after the last number that
//! was ever used, behind a sealed anchor, with a record that says who began it and why.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use countersign_domain::{Actor, UnixMillis, hex};
use countersign_sys::clock::{Clock, Ids};

use crate::{
    connection,
    error::{Fault, LedgerError, OpenError},
    keys::{Keys, NewKey},
    open, schema,
    sql::json as text,
};

use super::{
    chain::{Anchor, ChainHead},
    entry::{AuditAction, Entry},
    head::HeadFile,
    problem::Problem,
    verify::{VerifyError, verify_on},
};

/// What a reset did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// What was wrong with the chain that was put away.
    pub problem: Problem,
    /// Where its records are now.
    pub kept: PathBuf,
    /// How many there were.
    pub records: u64,
    /// Number of the first record of the new chain.
    pub first_seq: i64,
}

/// Why a chain was not reset.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// The ledger cannot be opened, or a server uses it.
    #[error("the ledger cannot be opened")]
    Open(#[source] OpenError),
    /// The chain cannot be looked at.
    #[error("the chain cannot be verified")]
    Verify(#[source] VerifyError),
    /// There is nothing to put away.
    #[error("the audit record is whole")]
    IsWhole,
    /// The old records cannot be kept.
    #[error("{} cannot be written", path.display())]
    Keep {
        /// Where they were to go.
        path: PathBuf,
        /// What the file system or the database said; the file may exist.
        #[source]
        source: io::Error,
    },
    /// The new chain cannot be written.
    #[error("the ledger cannot be written")]
    Ledger(#[source] LedgerError),
    /// Its head cannot be sealed; a start finds it missing, and another reset helps.
    #[error("the head of the new chain cannot be sealed")]
    Seal(#[source] io::Error),
}

/// Where the ledger and what belongs to it lie.
#[derive(Debug, Clone, Copy)]
pub struct LedgerPaths<'a> {
    /// The database file.
    pub ledger: &'a Path,
    /// The audit key; made when it is missing.
    pub key: &'a Path,
    /// The sealed head of the chain; replaced by that of the new chain.
    pub head: &'a Path,
}

/// Puts a broken chain away and begins a new one. No server may use the ledger.
///
/// # Errors
/// [`ResetError`]; the ledger is as it was then, unless the head alone could not be sealed.
pub fn reset(
    paths: LedgerPaths<'_>,
    clock: &dyn Clock,
    ids: &dyn Ids,
    by: &Actor,
    reason: &str,
) -> Result<Reset, ResetError> {
    let LedgerPaths { ledger, key, head } = paths;
    let _lock = open::lock(ledger).map_err(ResetError::Open)?;
    let (keys, new_key) = Keys::load_or_make(key, ids).map_err(ResetError::Open)?;
    let database = |source| {
        ResetError::Open(OpenError::Database {
            path: ledger.to_owned(),
            source,
        })
    };
    let mut connection =
        connection::connect(ledger).map_err(|error| database(LedgerError::unavailable(error)))?;
    schema::migrate(&mut connection).map_err(|source| {
        ResetError::Open(OpenError::Schema {
            path: ledger.to_owned(),
            source,
        })
    })?;
    let head = HeadFile::at(head.to_owned());
    let found = verify_on(&connection, &keys, &head).map_err(ResetError::Verify)?;
    let problem = found.problem.ok_or(ResetError::IsWhole)?;
    let now = clock.now();
    let kept = ledger.with_file_name(format!("audit-broken-{}.jsonl", now.get()));
    let (records, sha256) = keep(&connection, &kept).map_err(|source| ResetError::Keep {
        path: kept.clone(),
        source,
    })?;
    let sealed_to = head
        .load()
        .map_err(ResetError::Seal)?
        .map_or(0, |sealed| sealed.seq);
    let detail = json!({
        "reason": reason,
        "problem": problem.kind.as_str(),
        "problemSeq": problem.seq,
        "records": records,
        "keptAs": kept.file_name().map(|name| name.to_string_lossy()),
        "sha256": sha256,
    });
    let entry = Entry::done(AuditAction::AuditReset, "audit", "chain", by, detail);
    let first = begin(&connection, &keys, sealed_to, &entry, now)
        .map_err(|fault| ResetError::Ledger(fault.into()))?;
    head.seal(&first, now, &keys)
        .map_err(|error| ResetError::Seal(io::Error::other(error)))?;
    new_key
        .map_or(Ok(()), |new: NewKey| new.keep(key))
        .map_err(ResetError::Open)?;
    Ok(Reset {
        problem,
        kept,
        records,
        first_seq: first.seq,
    })
}

/// Writes the rows as they are, one a line, and says how many and the SHA-256 of the file.
fn keep(connection: &Connection, path: &Path) -> io::Result<(u64, String)> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut out = BufWriter::new(file);
    let mut hash = Sha256::new();
    let mut records = 0;
    let mut write = |connection: &Connection| -> rusqlite::Result<io::Result<()>> {
        let sql = "SELECT seq, actor_id, action, body, hash, mac FROM audit ORDER BY seq";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let column = |column: usize| -> rusqlite::Result<String> {
                let bytes = row.get_ref(column)?.as_bytes_or_null()?;
                Ok(String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned())
            };
            let line = json!({
                "seq": row.get::<_, i64>(0)?,
                "actorId": column(1)?,
                "action": column(2)?,
                "body": column(3)?,
                "hash": column(4)?,
                "mac": column(5)?,
            });
            let line = format!("{line}\n");
            hash.update(line.as_bytes());
            records += 1;
            if let Err(error) = out.write_all(line.as_bytes()) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    };
    write(connection).map_err(io::Error::other)??;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    File::open(path.parent().unwrap_or_else(|| Path::new("/")))?.sync_all()?;
    Ok((records, hex(&hash.finalize())))
}

/// Replaces the records by an anchor and the first record of the new chain, all or nothing.
fn begin(
    connection: &Connection,
    keys: &Keys,
    sealed_to: i64,
    entry: &Entry,
    now: UnixMillis,
) -> Result<ChainHead, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let stored = ChainHead::stored(&transaction)?;
    let anchor = Anchor::seal(stored.seq.max(sealed_to), stored.hash, keys);
    let link = ChainHead {
        seq: anchor.seq,
        hash: anchor.hash.clone(),
    }
    .next(entry, now, keys);
    transaction.execute("DELETE FROM audit", ())?;
    transaction.execute("DELETE FROM meta WHERE key = 'forgotten'", ())?;
    transaction.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES ('audit_anchor', ?1)",
        (text(&anchor),),
    )?;
    transaction.execute(
        "INSERT INTO audit (seq, actor_id, action, body, hash, mac) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            link.seq,
            &entry.actor.id,
            entry.action.as_str(),
            &link.body,
            &link.hash,
            &link.mac,
        ),
    )?;
    transaction.commit()?;
    Ok(ChainHead {
        seq: link.seq,
        hash: link.hash,
    })
}
