//! Whether the chain is whole. Works on a read connection of its own, with the server running or not.

use std::path::Path;

use rusqlite::{Connection, Row};

use countersign_domain::UnixMillis;

use crate::{
    connection,
    error::{Fault, LedgerError, OpenError},
    keys::Keys,
};

use super::{
    canonical::canonical,
    chain::{Anchor, ChainHead, SealedHead, hash_of},
    compare::Expected,
    entry::Body,
    head::{HeadFile, Sealed},
    problem::{Problem, ProblemKind},
    witness::{self, Witnessed, WitnessedHead},
};

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// How many records were looked at.
    pub records: u64,
    /// Number of the first.
    pub first_seq: Option<i64>,
    /// Number of the last.
    pub last_seq: Option<i64>,
    /// The sealed head, if it is there.
    pub head: Option<SealedHead>,
    /// The first problem; `None` means that the chain is whole.
    pub problem: Option<Problem>,
}

impl Verification {
    /// Whether the chain is whole.
    pub const fn is_ok(&self) -> bool {
        self.problem.is_none()
    }
}

/// Why a chain could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The key cannot be read.
    #[error("the audit key cannot be read")]
    Key(#[source] OpenError),
    /// The head cannot be read.
    #[error("the audit head cannot be read")]
    Head(#[source] std::io::Error),
    /// The ledger cannot be read.
    #[error("the ledger cannot be read")]
    Ledger(#[source] LedgerError),
}

/// Verifies the chain of a ledger, whether a server uses it or not.
///
/// # Errors
/// When a file cannot be read; what is wrong with the chain itself is the answer, not an error.
pub fn verify(ledger: &Path, key: &Path, head: &Path) -> Result<Verification, VerifyError> {
    let keys = Keys::load(key).map_err(VerifyError::Key)?;
    let connection = connection::open(ledger).map_err(VerifyError::Ledger)?;
    verify_on(&connection, &keys, &HeadFile::at(head.to_owned()))
}

/// Verifies as [`verify()`] does, and compares the chain with heads that a witness has seen. A holder of the key can
/// write another history, but not one that has these heads.
///
/// # Errors
/// As for [`verify()`].
pub fn verify_with_witness(
    ledger: &Path,
    key: &Path,
    head: &Path,
    heads: &[WitnessedHead],
) -> Result<(Verification, Witnessed), VerifyError> {
    let verification = verify(ledger, key, head)?;
    let connection = connection::open(ledger).map_err(VerifyError::Ledger)?;
    let witnessed =
        witness::compare(&connection, heads).map_err(|fault| VerifyError::Ledger(fault.into()))?;
    Ok((verification, witnessed))
}

/// Verifies on a connection.
pub(super) fn verify_on(
    connection: &Connection,
    keys: &Keys,
    head: &HeadFile,
) -> Result<Verification, VerifyError> {
    // Before the records: a head sealed meanwhile may be ahead of what this transaction sees.
    let sealed = head.load().map_err(VerifyError::Head)?;
    let walk = walk(connection, keys, sealed.as_ref()).map_err(|fault| VerifyError::Ledger(fault.into()))?;
    let Walk {
        records,
        first_seq,
        last,
        problem,
        differs,
    } = walk;
    let of_head = match &sealed {
        Some(sealed) if !sealed.is_genuine(keys) => Some(Problem::of_chain(sealed.seq, ProblemKind::Forged)),
        Some(sealed) if last.seq < sealed.seq => Some(Problem::of_chain(
            last.seq.saturating_add(1),
            ProblemKind::Truncated,
        )),
        Some(_) => None,
        // There is a key, so there was a head: it is made before the key.
        None => Some(Problem::of_chain(last.seq, ProblemKind::Missing)),
    };
    let problem = problem.or(of_head).or(differs);
    Ok(Verification {
        records,
        first_seq,
        last_seq: first_seq.map(|_| last.seq),
        head: sealed.map(|sealed| SealedHead {
            seq: sealed.seq,
            hash: sealed.hash,
            sealed_at: UnixMillis::new(sealed.at_ms),
        }),
        problem,
    })
}

struct Walk {
    records: u64,
    first_seq: Option<i64>,
    last: ChainHead,
    problem: Option<Problem>,
    /// What the tables say that the records do not.
    differs: Option<Problem>,
}

struct Stored {
    seq: i64,
    actor: String,
    action: String,
    body: String,
    hash: String,
    mac: String,
}

fn walk(connection: &Connection, keys: &Keys, sealed: Option<&Sealed>) -> Result<Walk, Fault> {
    // One view for the anchor and the records: pruning moves both together.
    let _view = connection.unchecked_transaction()?;
    let mut statement =
        connection.prepare_cached("SELECT seq, actor_id, action, body, hash, mac FROM audit ORDER BY seq")?;
    let anchor = Anchor::load(connection)?;
    let forged_anchor = anchor.as_ref().filter(|anchor| !anchor.is_genuine(keys));
    let mut walk = Walk {
        records: 0,
        first_seq: None,
        problem: forged_anchor.map(|anchor| Problem::of_chain(anchor.seq, ProblemKind::Forged)),
        differs: None,
        last: anchor
            .map(|anchor| ChainHead {
                seq: anchor.seq,
                hash: anchor.hash,
            })
            .unwrap_or_default(),
    };
    let mut expected = Expected::default();
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        walk.first_seq.get_or_insert(seq);
        walk.records += 1;
        let step = stored(row).map_or_else(
            || Err(Problem::of_chain(seq, ProblemKind::Edited)),
            |stored| {
                let body = follow(&walk.last, &stored, keys, sealed)?;
                expected.record(&body);
                Ok(stored.hash)
            },
        );
        match step {
            Ok(hash) => walk.last = ChainHead { seq, hash },
            Err(problem) => {
                walk.problem.get_or_insert(problem);
                walk.last.seq = seq;
            }
        }
    }
    // Records that do not hold prove nothing about the tables.
    if walk.problem.is_none() {
        walk.differs = expected.compare(connection)?;
    }
    Ok(walk)
}

/// A row with text in all its columns; anything else was not written by us.
fn stored(row: &Row<'_>) -> Option<Stored> {
    Some(Stored {
        seq: row.get(0).ok()?,
        actor: row.get(1).ok()?,
        action: row.get(2).ok()?,
        body: row.get(3).ok()?,
        hash: row.get(4).ok()?,
        mac: row.get(5).ok()?,
    })
}

/// What a record says, if it follows the one before.
fn follow(
    before: &ChainHead,
    stored: &Stored,
    keys: &Keys,
    sealed: Option<&Sealed>,
) -> Result<Body, Problem> {
    let expected = before.seq + 1;
    let problem = |seq, kind| Err(Problem::of_chain(seq, kind));
    if hash_of(&stored.body) != stored.hash {
        return problem(stored.seq, ProblemKind::Edited);
    }
    // Before its content is read: an attacker who made the hash anew without the key may have written anything.
    if !keys.is_mac(&stored.hash, &stored.mac) {
        return problem(stored.seq, ProblemKind::Forged);
    }
    let parsed: Option<Body> = serde_json::from_str(&stored.body).ok();
    let Some(body) = parsed.filter(|_| is_canonical(&stored.body)) else {
        return problem(stored.seq, ProblemKind::Edited);
    };
    if body.seq != stored.seq {
        return problem(stored.seq, ProblemKind::Reordered);
    }
    // What searches look at is what the record says.
    if body.actor.id != stored.actor || body.action != stored.action {
        return problem(stored.seq, ProblemKind::Edited);
    }
    if stored.seq != expected {
        return problem(expected, ProblemKind::Missing);
    }
    if body.prev_hash != before.hash {
        return problem(stored.seq, ProblemKind::Forged);
    }
    if sealed.is_some_and(|sealed| sealed.seq == stored.seq && sealed.hash != stored.hash) {
        return problem(stored.seq, ProblemKind::Forged);
    }
    Ok(body)
}

fn is_canonical(body: &str) -> bool {
    serde_json::from_str(body).is_ok_and(|value| canonical(&value) == body)
}
