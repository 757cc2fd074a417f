//! API tokens, and links that sign a browser in.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{AgentId, Owner, SignIn, SignInId, Token, TokenId, UnixMillis};

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
    /// The token that was made for the person: its name stands in the record, and revoking it signs their browser out. Absent
    /// where the link has the rights of the operator's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenBody>,
}

/// A browser that is signed in.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SignedInBrowser)]
pub struct SignInBody {
    #[schema(value_type = String)]
    pub id: SignInId,
    /// The token that it stands for.
    pub token_id: TokenId,
    /// Whom the record names.
    pub name: String,
    pub owner: Owner,
    pub scopes: BTreeSet<Scope>,
    pub created_at_ms: UnixMillis,
    pub expires_at_ms: UnixMillis,
}

impl From<(SignIn, Token)> for SignInBody {
    fn from((sign_in, token): (SignIn, Token)) -> Self {
        let SignIn {
            id,
            token: token_id,
            created_at,
            expires_at,
        } = sign_in;
        Self {
            id,
            token_id,
            name: token.name,
            owner: token.owner,
            scopes: token.scopes.into_iter().map(Into::into).collect(),
            created_at_ms: created_at,
            expires_at_ms: expires_at,
        }
    }
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
