//! Whether the ledger can be written.

/// Whether the ledger can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It can be written.
    Ready,
    /// No space is left.
    StorageFull,
    /// No: its file was deleted or replaced.
    Gone,
    /// Its file system is read-only.
    ReadOnly,
    /// Not now, or not any more.
    Unavailable,
}
