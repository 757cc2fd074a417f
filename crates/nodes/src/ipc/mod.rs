//! The approvals socket, as the side that asks people and as the side that is asked (`docs/spec/ipc.md`).
//!
//! What a line means is `protocol::ipc`'s to say; this owns the sockets, the time that each side has, and the limits.
//! `host` listens and hands what is genuine to a [`Ui`]; [`EngineUi`] is that of a server, over the engine.
//! [`client`] asks a UI that another process hosts. Invariants: nothing is read of a peer of another account; nothing
//! is written to a listener before it is known to be of ours; no peer holds up another.

mod client;
mod engine_ui;
mod host;
mod limits;
mod other;
mod peer;
mod role;
mod socket_file;

pub use engine_ui::EngineUi;
pub use host::{Answered, Host, HostLimits, Ui};
pub use other::OtherUi;
pub use role::{JoinError, Joined, join};
pub use socket_file::{Hosted, SocketFileError, check_socket_path, socket_path};
