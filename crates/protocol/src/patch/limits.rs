//! How large what is patched may be.

/// Most operations of one patch.
pub const MAX_OPERATIONS: usize = 1_000;
/// Most directories that the path of a file leads through.
pub(super) const MAX_DEPTH: usize = 128;
/// Longest path, as Linux has it.
pub(super) const MAX_PATH_BYTES: usize = 4_095;
/// Largest file whose text is changed.
pub const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;
/// Most lines of a file whose text is changed.
pub(crate) const MAX_FILE_LINES: usize = 1_000_000;
/// Most comparisons of lines that one file may cost: a hunk that fits only loosely looks at the whole file a few times.
pub(super) const MAX_STEPS: u64 = 256_000_000;
