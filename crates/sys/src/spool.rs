//! The size of a spool's frames, which the one who writes them and the one who keeps them share. The format itself
//! is read and written by the runner's crate.

/// Bytes before the payload of a frame.
pub const HEADER_BYTES: usize = 5;

/// The largest payload of one frame; larger pieces are written as several frames.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// Bytes of a frame that says when the next one came.
pub const TIME_BYTES: usize = HEADER_BYTES + 8;

/// Bytes of frames for one byte of output, at most: in a frame of its own, with its time.
pub const FRAMED_BYTE: usize = HEADER_BYTES + TIME_BYTES + 1;

/// Most bytes of frames that are neither output nor its time. What comes after is not kept.
pub const MAX_ASIDE_BYTES: usize = 1024 * 1024;
