//! The approvals socket, from both sides, over real sockets.

mod attacks;
mod fallback;
mod host;
mod socket_path;
pub(crate) mod support;
mod terminal;
mod votes;
