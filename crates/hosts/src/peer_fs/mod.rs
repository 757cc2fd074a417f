//! The file broker: files as the account sees them that commands run as (`docs/decisions/0005-separate-user.md`).
//!
//! ```text
//! server ── one request ──▶ (SEQPACKET pair) ──▶ file broker: a process of this program under that account
//!    ▲                                            opens, answers with descriptors or an error number
//!    └── reads path, kind, owner and times from the descriptors itself
//! ```
//!
//! Under `separate-user` the server cannot enter the account's home. So every file that is read *for* a command goes
//! through [`Files`]: [`Files::Direct`] makes the system calls itself, [`Files::Remote`] asks the broker. The server must
//! never follow a path of the account or believe the words of an answer: it believes what the kernel says of a descriptor.
//! While no broker answers, every access fails ([`Blind`]), and nothing may be allowed, denied or started by what could not
//! be seen. Read on: [`Files`] for the callers, [`main_if_asked`] for the process, `app/file_broker.rs` for its restart.

mod direct;
mod error;
mod files;
mod opened;
mod process;
mod remote;
mod view;
mod wire;

pub use error::{Blind, FileAccessError};
pub use files::Files;
pub use opened::Directory;
pub use process::main_if_asked;
pub use remote::Remote;
pub(crate) use view::View;

#[cfg(test)]
mod tests;
