//! The audit chain: records that nobody can change, drop, reorder or add quietly.
//!
//! Every record carries the hash of the one before and a MAC; the newest hash is sealed into a file of its own
//! at most once a second. The key lies beside the ledger, so the claim is: any change is detected back to the
//! last witnessed head (`docs/decisions/0010-who-may-answer.md`). Only the writer appends, inside the transaction of
//! the change that a record tells of. Entry points: [`verify()`] for a ledger in use or at rest,
//! [`super::Ledger::append_audit`].

mod canonical;
pub(super) mod chain;
mod compare;
mod entry;
pub(super) mod facts;
pub(super) mod glance;
pub(super) mod head;
mod list;
mod problem;
mod reset;
mod verify;
mod witness;

pub use chain::SealedHead;
pub use entry::{AuditAction, AuditActor, AuditOutcome, AuditRecord, Entry, Target};
pub use glance::glance;
pub use list::{AuditFilter, AuditOrder};
pub use problem::{Problem, ProblemKind};
pub use reset::{LedgerPaths, Reset, ResetError, reset};
pub use verify::{Verification, VerifyError, verify, verify_with_witness};
pub use witness::{Witnessed, WitnessedHead, published, read_witness};
