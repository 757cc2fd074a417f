//! Who did something.

use super::{Owner, SignInId, TokenId, vocabulary};

vocabulary! {
    /// The entry point that an actor came through.
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

/// A person or a program that asks, decides or changes something, as the record names it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Actor {
    /// The entry point.
    pub kind: ActorKind,
    /// Stable id within that entry point (token id, session id, node id).
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Whose it is, where it is not the operator's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<Owner>,
}

impl Actor {
    /// Who changes files of the state directory from outside: its owner, by any editor.
    pub fn state_directory() -> Self {
        Self {
            kind: ActorKind::Cli,
            id: "state-directory".to_owned(),
            name: "owner of the state directory".to_owned(),
            owner: None,
        }
    }

    /// The server acting on its own.
    pub fn system() -> Self {
        Self {
            kind: ActorKind::System,
            id: "countersign".to_owned(),
            name: "countersign".to_owned(),
            owner: None,
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

    /// The person behind it. An actor without a token of another owner comes from the state directory: its files, its
    /// sockets, its command line.
    pub fn person(&self) -> Owner {
        self.owner.clone().unwrap_or_else(Owner::operator)
    }

    /// Whether both are one person where it takes two: one owner has them.
    pub fn is_same_person(&self, other: &Self) -> bool {
        self.person() == other.person()
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
            owner: None,
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
    fn tokens_of_one_owner_are_one_person_and_two_parties() {
        let owned = |id: &str, owner: Option<&str>| Actor {
            owner: owner.map(|owner| Owner::parse(owner).unwrap()),
            ..actor(ActorKind::Token, id)
        };
        let (one, two) = (owned("t-1", Some("ann")), owned("t-2", Some("ann")));
        assert!(one.is_same_person(&two) && !one.is_same_party(&two));
        assert!(!one.is_same_person(&owned("t-3", Some("bob"))));
        // The operator has a token without another owner, the files and the sockets.
        let operator = owned("t-5", Some("operator"));
        for own in [
            owned("t-4", None),
            Actor::state_directory(),
            actor(ActorKind::Ipc, "socket-ui"),
        ] {
            assert!(
                own.is_same_person(&operator) && !own.is_same_person(&one),
                "{own:?}"
            );
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
