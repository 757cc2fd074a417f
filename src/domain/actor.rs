//! Who did something.

use super::name::vocabulary;

vocabulary! {
    /// Through which door somebody came.
    pub enum ActorKind("token, session, bridge, ipc, cli or system") {
        /// An API token.
        Token = "token",
        /// A signed-in browser.
        Session = "session",
        /// A Bridge client.
        Bridge = "bridge",
        /// A client of the approvals socket.
        Ipc = "ipc",
        /// An operator command without a server.
        Cli = "cli",
        /// The server itself.
        System = "system",
    }
}

/// Somebody who asks, decides or changes something, as the record names them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Actor {
    /// The door.
    pub kind: ActorKind,
    /// Stable id within that door (token id, session id, node id).
    pub id: String,
    /// Name for people.
    pub name: String,
}

impl Actor {
    /// The server acting on its own.
    pub fn system() -> Self {
        Self {
            kind: ActorKind::System,
            id: "countersign".to_owned(),
            name: "countersign".to_owned(),
        }
    }
}
