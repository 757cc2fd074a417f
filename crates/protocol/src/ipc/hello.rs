//! The opening of version 2 (`docs/spec/ipc.md#8-beyond-the-product`). It proves nothing yet.

use serde::{Deserialize, Serialize};

use countersign_domain::UnixMillis;

use super::{
    envelope::{Kind, Line},
    reply,
};

/// The opening line of the side that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub(super) id: String,
    pub(super) client_nonce: String,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct HelloMembers {
    #[serde(rename = "type")]
    kind: String,
    v: u8,
    id: String,
    client_nonce: String,
    ts: i64,
}

impl Hello {
    /// An opening with an id and a nonce that nobody can guess.
    pub const fn new(id: String, client_nonce: String) -> Self {
        Self { id, client_nonce }
    }

    /// Its line.
    pub fn line(&self, now: UnixMillis) -> String {
        reply::ascii(&HelloMembers {
            kind: Kind::Hello.as_str().to_owned(),
            v: 2,
            id: self.id.clone(),
            client_nonce: self.client_nonce.clone(),
            ts: now.get(),
        })
    }

    pub(super) fn parse(line: &Line<'_>) -> Option<Self> {
        let HelloMembers {
            kind: _,
            v,
            id,
            client_nonce,
            ts: _,
        } = line.members()?;
        let is_nonce = client_nonce.len() == 32 && client_nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        (v == 2 && is_nonce).then_some(Self { id, client_nonce })
    }
}
