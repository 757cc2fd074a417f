//! Who did something.

use super::{SignInId, TokenId, name::vocabulary};

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

    /// The token whose rights they use: their own, or the one that their browser stands for.
    pub fn token(&self) -> Option<TokenId> {
        match self.kind {
            ActorKind::Token => TokenId::parse(self.id.as_str()).ok(),
            ActorKind::Session => SignInId::parse(self.id.as_str()).ok()?.token(),
            ActorKind::Bridge | ActorKind::Ipc | ActorKind::Cli | ActorKind::System => None,
        }
    }

    /// Whether both are the same party: a token and the browsers that stand for it are one, so that nobody
    /// answers by browser what they asked by token.
    pub fn is_same_party(&self, other: &Self) -> bool {
        match (self.token(), other.token()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            (None, None) => (self.kind, &self.id) == (other.kind, &other.id),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(kind: ActorKind, id: &str) -> Actor {
        Actor {
            kind,
            id: id.to_owned(),
            name: "n".to_owned(),
        }
    }

    #[test]
    fn a_token_and_its_browsers_are_one_party() {
        let token = actor(ActorKind::Token, "t-1");
        let browser = actor(ActorKind::Session, "t-1-00000000000000aa");
        let other_browser = actor(ActorKind::Session, "t-1-00000000000000bb");
        for (one, other) in [(&token, &browser), (&browser, &other_browser), (&token, &token)] {
            assert!(one.is_same_party(other) && other.is_same_party(one));
        }
    }

    #[test]
    fn others_are_not() {
        let token = actor(ActorKind::Token, "t-1");
        for other in [
            actor(ActorKind::Token, "t-2"),
            actor(ActorKind::Session, "t-2-00000000000000aa"),
            actor(ActorKind::Bridge, "t-1"),
            actor(ActorKind::Session, "x"),
        ] {
            assert!(!token.is_same_party(&other), "{other:?}");
        }
        assert!(!actor(ActorKind::Ipc, "a").is_same_party(&actor(ActorKind::Bridge, "a")));
        assert!(actor(ActorKind::Ipc, "a").is_same_party(&actor(ActorKind::Ipc, "a")));
    }
}
