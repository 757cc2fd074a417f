//! Who a caller is to the server.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{AgentId, Owner, Principal, TokenId, UnixMillis};

use crate::words::{ActorKind, Scope};

/// The token of a request, or the browser that stands for it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Me)]
pub struct MeBody {
    /// `token`, or `session` for a browser.
    pub kind: ActorKind,
    /// The token, or the one that the browser stands for.
    pub token_id: TokenId,
    pub name: String,
    /// Whose it is: where it takes two people, tokens of one owner are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub owner: Option<Owner>,
    pub scopes: BTreeSet<Scope>,
    /// The agents it is bound to; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<BTreeSet<AgentId>>,
    /// When it ends by itself, a browser no later than its token; absent for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<UnixMillis>,
}

impl MeBody {
    /// What a caller with this token is told of themselves.
    pub fn of(caller: &Principal, token_id: TokenId, expires_at_ms: Option<UnixMillis>) -> Self {
        Self {
            kind: caller.actor.kind.into(),
            token_id,
            name: caller.actor.name.clone(),
            owner: caller.actor.owner.clone(),
            scopes: caller.scopes.iter().map(|scope| (*scope).into()).collect(),
            agents: caller.authority.agents().cloned(),
            expires_at_ms,
        }
    }
}
