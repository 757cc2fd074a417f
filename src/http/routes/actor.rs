//! Who asked, decided or changed something, as answers show it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::{Actor, ActorKind};

/// Who did something, and through which door.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Actor)]
pub(in crate::http) struct ActorBody {
    kind: ActorKind,
    id: String,
    name: String,
}

impl From<Actor> for ActorBody {
    fn from(Actor { kind, id, name }: Actor) -> Self {
        Self { kind, id, name }
    }
}
