//! The size of a spool's frames, which the one who writes them and the one who keeps them share. The format itself
//! is read and written by the runner's crate.

/// Bytes before the payload of a frame.
pub const HEADER_BYTES: usize = 5;

/// The largest payload of one frame; larger pieces are written as several frames.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
