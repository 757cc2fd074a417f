//! Who asked, decided or changed something, as answers show it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::Actor;

use crate::words::ActorKind;

/// Who did something, and through which edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Actor)]
pub struct ActorBody {
    pub kind: ActorKind,
    pub id: String,
    pub name: String,
}

impl From<Actor> for ActorBody {
    fn from(actor: Actor) -> Self {
        let Actor {
            kind,
            id,
            name,
            // The list of tokens says whose a token is.
            owner: _,
        } = actor;
        Self {
            kind: kind.into(),
            id,
            name,
        }
    }
}
