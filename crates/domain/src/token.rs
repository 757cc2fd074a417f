//! API tokens and what they may do.

use std::collections::BTreeSet;

use super::{Access, Actor, ActorKind, AgentId, Authority, Belongs, Owner, TokenId, UnixMillis, vocabulary};

vocabulary! {
    /// What a token may do; no scope implies another (`docs/spec/http-api.md#authentication-and-scopes`).
    pub enum Scope("exec, relay, read, approve or admin") {
        /// Submit commands and follow them.
        Exec = "exec",
        /// Post chat text of people and vouch for its sender.
        Relay = "relay",
        /// Read everything but secrets.
        Read = "read",
        /// Decide approvals.
        Approve = "approve",
        /// Change policy, allowlists, nodes, tokens, sessions and config.
        Admin = "admin",
    }
}

/// The record of a token. Its secret is known to nobody; the ledger has its SHA-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its public id.
    pub id: TokenId,
    /// Its name for people.
    pub name: String,
    /// Whose it is.
    pub owner: Owner,
    /// Who proposed it, as long as it waits for another owner to accept it; it opens nothing until then.
    pub proposed_by: Option<Actor>,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// The agents it is bound to; `None` for all.
    pub agents: Option<BTreeSet<AgentId>>,
    /// The approver groups it belongs to.
    pub groups: BTreeSet<String>,
    /// When it was made.
    pub created_at: UnixMillis,
    /// From then on it opens nothing; `None` for a token without an end.
    pub expires_at: Option<UnixMillis>,
    /// When it was last used, written behind.
    pub last_used_at: Option<UnixMillis>,
    /// When it was revoked.
    pub revoked_at: Option<UnixMillis>,
}

impl Token {
    /// Whether it opens anything at `now`.
    pub fn is_live(&self, now: UnixMillis) -> bool {
        self.revoked_at.is_none() && self.proposed_by.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

impl Actor {
    /// The same with the owner that the record of its token names.
    #[must_use]
    pub fn owned(&self, token: Option<&Token>) -> Self {
        Self {
            owner: token.map_or_else(|| self.owner.clone(), |token| Some(token.owner.clone())),
            ..self.clone()
        }
    }
}

/// A caller who proved who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// How the record names them.
    pub actor: Actor,
    /// What they may do.
    pub scopes: BTreeSet<Scope>,
    /// Whose things they may touch.
    pub authority: Authority,
}

impl Principal {
    /// The principal of a live token.
    pub fn of_token(token: &Token) -> Self {
        Self {
            actor: Actor {
                kind: ActorKind::Token,
                id: token.id.to_string(),
                name: token.name.clone(),
                owner: Some(token.owner.clone()),
            },
            scopes: token.scopes.clone(),
            authority: Authority::bound_to(token.agents.clone()),
        }
    }

    /// Whether they hold a scope.
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether they may act for an agent.
    pub fn may_act_for(&self, agent: &AgentId) -> bool {
        self.authority.over(Belongs::To(agent)) == Access::Open
    }

    /// Whether they may touch what belongs to no agent.
    pub fn may_touch_what_is_of_no_agent(&self) -> bool {
        self.authority.over(Belongs::ToNoAgent) == Access::Open
    }
}
