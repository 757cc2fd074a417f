//! What a command wrote: the text that answers, events and prompts carry, and the exact bytes on disk.
//!
//! [`Capture`] takes the bytes of both streams as they come and keeps bounded, harmless text of them.
//! [`spool`] is the format in which the exact bytes are kept. Nothing here knows a clock, an async
//! runtime or where the bytes come from; text leaves this module only through [`sanitize()`], so control and
//! format characters never reach a terminal, a page or a log by way of a command's output.

mod capture;
mod decode;
mod follow;
mod sanitize;
pub mod spool;
mod tail;

pub use capture::{Capture, CaptureLimits, Captured};
pub use decode::Utf8Decoder;
pub use follow::SpoolFollower;
pub use sanitize::{is_plain, sanitize};
pub(crate) use tail::TailBuffer;
pub use tail::tail;
