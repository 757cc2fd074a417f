//! Heads of the chain that a witness has seen (`docs/decisions/0010-who-may-answer.md`).
//!
//! A holder of the key can write another history that verifies. They cannot change what the system log of another
//! machine, a printed page or a colleague has already been told: the heads that were published. A chain that lacks one
//! of them was rewritten.

use std::io::{self, BufRead, Read as _};

use rusqlite::Connection;

use crate::{error::Fault, sql::fetch};

use super::{
    chain::{Anchor, SealedHead},
    problem::{Problem, ProblemKind},
};

/// How a published head begins, wherever it stands in a line.
const MARK: &str = "audit head ";
/// A longer line is no line of a log.
const MAX_LINE_BYTES: u64 = 64 * 1024;
/// SHA-256 in hex.
const HASH_CHARS: usize = 64;

/// A head as it was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessedHead {
    /// Number of the record.
    pub seq: i64,
    /// SHA-256 of its canonical text, lower-case hex.
    pub hash: String,
}

/// What comparing with published heads found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witnessed {
    /// Heads that the chain has as they were seen.
    pub confirmed: u64,
    /// Heads of records that were since pruned, of which nothing can be said.
    pub pruned: u64,
    /// The first one that the chain has otherwise, or not at all.
    pub problem: Option<Problem>,
}

/// The heads in a log, or in lines `seq hash`. Other lines are passed over.
///
/// # Errors
/// What reading says; `InvalidData` for a line that is too long.
pub fn read_witness(mut from: impl BufRead) -> io::Result<Vec<WitnessedHead>> {
    let mut heads = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut from).take(MAX_LINE_BYTES);
        let read = limited.read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(heads);
        }
        if limited.limit() == 0 && line.last() != Some(&b'\n') {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
        }
        heads.extend(parse_head(&String::from_utf8_lossy(&line)));
    }
}

/// The text of a head as it is published.
pub fn published(head: &SealedHead) -> String {
    format!("{MARK}{} {}", head.seq, head.hash)
}

/// Compares a chain that is whole in itself with heads that a witness has seen.
pub(super) fn compare(connection: &Connection, heads: &[WitnessedHead]) -> Result<Witnessed, Fault> {
    let mut found = Witnessed {
        confirmed: 0,
        pruned: 0,
        problem: None,
    };
    let anchor = Anchor::load(connection)?;
    let pruned_to = anchor.as_ref().map_or(0, |anchor| anchor.seq);
    for head in heads {
        let stored = match &anchor {
            Some(anchor) if anchor.seq == head.seq => Some(anchor.hash.clone()),
            Some(_) | None => fetch(
                connection,
                "SELECT hash FROM audit WHERE seq = ?1",
                (head.seq,),
                |row| Ok(row.get(0)?),
            )?,
        };
        match stored {
            Some(hash) if hash == head.hash => found.confirmed += 1,
            None if head.seq < pruned_to => found.pruned += 1,
            Some(_) | None => {
                let kind = if stored.is_some() {
                    ProblemKind::Forged
                } else {
                    ProblemKind::Truncated
                };
                let problem = Problem::of_chain(head.seq, kind);
                if found.problem.as_ref().is_none_or(|first| problem.seq < first.seq) {
                    found.problem = Some(problem);
                }
            }
        }
    }
    Ok(found)
}

fn parse_head(line: &str) -> Option<WitnessedHead> {
    let (_before, rest) = line.rsplit_once(MARK).unwrap_or(("", line));
    let mut words = rest.split_whitespace();
    let seq = words.next()?.parse().ok().filter(|seq| *seq > 0)?;
    let hash = words.next()?;
    let is_hash = hash.len() == HASH_CHARS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| WitnessedHead {
        seq,
        hash: hash.to_ascii_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::UnixMillis;

    #[test]
    fn heads_are_found_in_logs_and_lists_and_nothing_else_is() {
        let hash = "ab".repeat(32);
        let head = SealedHead {
            seq: 42,
            hash: hash.clone(),
            sealed_at: UnixMillis::new(0),
        };
        let log = format!(
            "Nov 21 20:30:01 host countersign[77]: {}\n7 {}\nNov 21 host cron[1]: 42 {hash}\n0 {hash}\n-1 {hash}\n9 {hash}ff\n\u{fffd}\n8 {hash}",
            published(&head),
            hash.to_uppercase(),
        );
        let seqs: Vec<i64> = read_witness(log.as_bytes())
            .unwrap()
            .into_iter()
            .map(|head| {
                assert_eq!(head.hash, hash);
                head.seq
            })
            .collect();
        assert_eq!(seqs, [42, 7, 8]);
        let long = vec![b'x'; 100_000];
        assert_eq!(
            read_witness(long.as_slice()).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
