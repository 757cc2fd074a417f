//! Who asked, decided or changed something, as answers show it.

use serde::Serialize;
use utoipa::ToSchema;

use countersign_domain::{Actor, ActorKind};

/// Who did something, and through which edge.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Actor)]
pub(crate) struct ActorBody {
    kind: ActorKind,
    id: String,
    name: String,
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
        Self { kind, id, name }
    }
}
