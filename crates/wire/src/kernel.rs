//! What the kernel of the server's machine keeps of commands.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use countersign_domain::{KeptPart, Kernel};

use crate::words::{Isolation, KernelPart};

/// What the kernel keeps, and what happens where it does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Kernel)]
pub struct KernelBody {
    /// The version (ABI) of Landlock; 0 where there is none or it is switched off.
    pub landlock: u32,
    /// Each part once.
    pub parts: Vec<KeptPartBody>,
}

/// Whether one part is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = KeptPart)]
pub struct KeptPartBody {
    /// Which.
    pub part: KernelPart,
    /// Whether it is kept on this machine.
    pub kept: bool,
    /// Why not. Absent where it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The isolation levels of the gateway host at which it is kept.
    pub levels: Vec<Isolation>,
    /// What a kernel needs for it.
    #[schema(value_type = String)]
    pub needs: Cow<'static, str>,
    /// What happens where it is not kept.
    #[schema(value_type = String)]
    pub otherwise: Cow<'static, str>,
}

impl From<Kernel> for KernelBody {
    fn from(Kernel { landlock, parts }: Kernel) -> Self {
        let part = |KeptPart { part, missing }| KeptPartBody {
            part: part.into(),
            kept: missing.is_none(),
            missing,
            levels: part.levels().iter().copied().map(Into::into).collect(),
            needs: part.needs().into(),
            otherwise: part.otherwise().into(),
        };
        Self {
            landlock,
            parts: parts.into_iter().map(part).collect(),
        }
    }
}
