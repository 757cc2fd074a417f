//! The chain itself: how a record follows the one before, and where a pruned chain begins.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use countersign_domain::{UnixMillis, hex};

use crate::{error::Fault, keys::Keys, sql::fetch};

use super::entry::Entry;

/// The end of the chain: the number and hash of its newest record; number 0 and an empty hash for none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ChainHead {
    pub(crate) seq: i64,
    pub(crate) hash: String,
}

/// A record ready to be stored.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) seq: i64,
    pub(crate) body: String,
    pub(crate) hash: String,
    pub(crate) mac: String,
}

impl ChainHead {
    pub(crate) fn sealed_at(&self, sealed_at: UnixMillis) -> SealedHead {
        SealedHead {
            seq: self.seq,
            hash: self.hash.clone(),
            sealed_at,
        }
    }

    /// The record that follows this head.
    pub(crate) fn next(&self, entry: &Entry, ts: UnixMillis, keys: &Keys) -> Link {
        let seq = self.seq + 1;
        let body = entry.body(seq, ts, &self.hash);
        let hash = hash_of(&body);
        let mac = keys.mac(&hash);
        Link { seq, body, hash, mac }
    }

    /// The head of what is stored: the newest record, else the anchor of a pruned chain.
    pub(crate) fn stored(connection: &Connection) -> Result<Self, Fault> {
        let newest = fetch(
            connection,
            "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1",
            (),
            |row| {
                Ok(Self {
                    seq: row.get(0)?,
                    hash: row.get(1)?,
                })
            },
        )?;
        match newest {
            Some(head) => Ok(head),
            None => Ok(Anchor::load(connection)?
                .map(|anchor| Self {
                    seq: anchor.seq,
                    hash: anchor.hash,
                })
                .unwrap_or_default()),
        }
    }
}

/// The head as it was sealed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedHead {
    /// Number of the newest record then.
    pub seq: i64,
    /// SHA-256 of its canonical text, lower-case hex; empty where there was none.
    pub hash: String,
    /// When it was sealed, by the ledger's clock.
    pub sealed_at: UnixMillis,
}

/// The hash of a record's canonical text.
pub(super) fn hash_of(body: &str) -> String {
    hex(&Sha256::digest(body.as_bytes()))
}

/// Where a pruned chain begins: the last record that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    pub(crate) seq: i64,
    pub(crate) hash: String,
    mac: String,
}

impl Anchor {
    /// Seals the place up to which records are removed.
    pub(crate) fn seal(seq: i64, hash: String, keys: &Keys) -> Self {
        let mac = keys.mac(&Self::sealed_text(seq, &hash));
        Self { seq, hash, mac }
    }

    /// The stored anchor. One that cannot be read counts as none, which verification then reports.
    pub(super) fn load(connection: &Connection) -> Result<Option<Self>, Fault> {
        let text = fetch(
            connection,
            "SELECT value FROM meta WHERE key = 'audit_anchor'",
            (),
            |row| Ok(row.get::<_, String>(0)?),
        )?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(super) fn is_genuine(&self, keys: &Keys) -> bool {
        keys.is_mac(&Self::sealed_text(self.seq, &self.hash), &self.mac)
    }

    fn sealed_text(seq: i64, hash: &str) -> String {
        format!("countersign audit anchor\n{seq}\n{hash}")
    }
}
