//! What can be wrong with the audit record, and where.

use countersign_domain::vocabulary;

use super::entry::Target;

vocabulary! {
    /// What is wrong with the chain.
    pub enum ProblemKind("edited, missing, reordered, truncated, forged or forgotten") {
        /// A record is not what was hashed.
        Edited = "edited",
        /// A record, or the sealed head, is gone.
        Missing = "missing",
        /// A genuine record stands in the place of another.
        Reordered = "reordered",
        /// The newest records are gone.
        Truncated = "truncated",
        /// Something was made without the key, or another history was put in place.
        Forged = "forged",
        /// A run was started whose records are gone: power or a file of the ledger was lost.
        Forgotten = "forgotten",
    }
}

/// The first thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Number of the record it shows at; 0 where no record speaks of what is there.
    pub seq: i64,
    /// What.
    pub kind: ProblemKind,
    /// The run or approval that is not what its records say; `None` where it is the chain itself.
    pub target: Option<Target>,
}

impl Problem {
    /// With the chain itself.
    pub(super) const fn of_chain(seq: i64, kind: ProblemKind) -> Self {
        Self {
            seq,
            kind,
            target: None,
        }
    }
}
