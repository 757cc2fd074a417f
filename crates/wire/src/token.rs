//! API tokens, and links that sign a browser in.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{AgentId, Owner, Token, TokenId, UnixMillis};

use crate::{actor::ActorBody, words::Scope};

/// A token, without its secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub struct TokenBody {
    pub id: TokenId,
    pub name: String,
    /// Whose it is: where it takes two people, tokens of one owner are one.
    pub owner: Owner,
    /// Who proposed it; it opens nothing until another owner accepts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_by: Option<ActorBody>,
    pub scopes: BTreeSet<Scope>,
    /// The agents it is bound to; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<BTreeSet<AgentId>>,
    /// The approver groups it belongs to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schema(required = false)]
    pub groups: BTreeSet<String>,
    pub created_at_ms: UnixMillis,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at_ms: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at_ms: Option<UnixMillis>,
}

/// A new token with its secret, which is never shown again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = NewToken)]
pub struct NewTokenBody {
    #[serde(flatten)]
    pub token: TokenBody,
    /// `cst_` and 43 base64url characters.
    pub secret: String,
}

/// A token in the place of another one, with its secret, which is never shown again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RotatedToken)]
pub struct RotatedTokenBody {
    #[serde(flatten)]
    pub token: TokenBody,
    /// `cst_` and 43 base64url characters.
    pub secret: String,
    /// The token that opens nothing more.
    pub replaces: TokenId,
    /// The file of the server's state directory that held the old secret and holds the new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A one-time link.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LoginLink)]
#[expect(missing_debug_implementations, reason = "the link is a secret")]
pub struct LoginLinkBody {
    /// Opens the sign-in page. Its code is behind `#`, so that no server and no log sees it before a person
    /// presses the button there.
    pub url: String,
    pub expires_at_ms: UnixMillis,
}

impl From<Token> for TokenBody {
    fn from(token: Token) -> Self {
        let Token {
            id,
            name,
            owner,
            proposed_by,
            scopes,
            agents,
            groups,
            created_at,
            expires_at,
            last_used_at,
            revoked_at,
        } = token;
        Self {
            id,
            name,
            owner,
            proposed_by: proposed_by.map(ActorBody::from),
            scopes: scopes.into_iter().map(Into::into).collect(),
            agents,
            groups,
            created_at_ms: created_at,
            expires_at_ms: expires_at,
            last_used_at_ms: last_used_at,
            revoked_at_ms: revoked_at,
        }
    }
}
