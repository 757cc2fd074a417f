//! Files as the account sees them that commands run as.
//!
//! Where commands run under an account of their own (`separate-user`), the server can neither enter that account's
//! home nor would it see there what a command sees. Everything that is looked at *for* a command goes through
//! [`Files`]: the search in PATH, real paths, identities, scripts, the working directory, and the descriptors from
//! which a supervisor starts.
//!
//! ```text
//! server ── one request ──▶ (SEQPACKET pair) ──▶ eyes: a process of this program under that account
//!    ▲                                            opens, answers with descriptors or an error number
//!    └── reads path, kind, owner and times from the descriptors itself
//! ```
//!
//! [`Files::Direct`] makes the system calls itself, for the levels at which server and commands are one account.
//! [`Files::Remote`] asks. What comes back is believed as that account's view and as nothing more: words in an answer
//! count for nothing that the kernel says of a descriptor, and no path is followed by the server. An answer that does
//! not come in time ends the connection, and until there is another one every look fails ([`Blind`]): nothing is
//! allowed, denied or started by what could not be seen. [`main_if_asked`] is the process's entry point.

mod direct;
mod files;
mod process;
mod remote;
mod view;
mod wire;

pub use files::{Blind, Directory, Files, LookError};
pub use process::main_if_asked;
pub use remote::Remote;
pub(in crate::hosts) use view::View;

#[cfg(test)]
mod tests;
