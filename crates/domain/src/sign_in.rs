//! Browsers that are signed in.

use super::{Actor, ActorKind, Principal, SignInId, Token, TokenId, UnixMillis};

/// A signed-in browser. Its two secrets are known to the browser alone; the ledger has their SHA-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    /// The id of its actor in the record. It begins with the id of the token.
    pub id: SignInId,
    /// The token that it stands for: its rights are those of the token, and end with it.
    pub token: TokenId,
    /// When the browser signed in.
    pub created_at: UnixMillis,
    /// When it ends, if the token does not end before.
    pub expires_at: UnixMillis,
}

impl SignIn {
    /// Whether it opens anything at `now`, its token aside.
    pub fn is_live(&self, now: UnixMillis) -> bool {
        now < self.expires_at
    }

    /// How the record names the person at the browser.
    pub fn actor(&self, token: &Token) -> Actor {
        Actor {
            kind: ActorKind::Session,
            id: self.id.to_string(),
            name: token.name.clone(),
            owner: Some(token.owner.clone()),
        }
    }

    /// The principal of a live sign-in: the rights of its token under a name of its own.
    pub fn principal(&self, token: &Token) -> Principal {
        Principal {
            actor: self.actor(token),
            ..Principal::of_token(token)
        }
    }
}
