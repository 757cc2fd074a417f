//! What this machine can keep of what an entry says about its program.

use countersign_config::settings::ExecSettings;
use countersign_domain::{ConfineFallback, Isolation};
use countersign_policy::allowlist::Keeps;
use countersign_sys::landlock;

/// The level at which commands run that were put on `taken_out`, where `reached` is the best there is. Nobody is taken out
/// of another account: the server has no rights of its own to give.
pub(crate) fn level_of(reached: Isolation, taken_out: Option<Isolation>) -> Isolation {
    if reached == Isolation::SeparateUser {
        return reached;
    }
    taken_out.map_or(reached, |level| level.min(reached))
}

/// Whether programs that are set-uid, set-gid or have capabilities can use them at a level of isolation.
pub(crate) const fn lets_gain(isolation: Isolation) -> bool {
    match isolation {
        Isolation::SameUser | Isolation::SeparateUser => true,
        Isolation::Confined | Isolation::Sandbox | Isolation::Node => false,
    }
}

/// What can be kept of the commands of an agent with these settings; `reached` is the best level of isolation there is.
pub(crate) fn keeps(exec: &ExecSettings, reached: Isolation) -> Keeps {
    let landlock::Keeps {
        starts,
        writes,
        connects,
    } = landlock::keeps();
    Keeps {
        starts,
        writes,
        connects,
        lets_gain: lets_gain(level_of(reached, exec.isolation)),
        falls_back: exec.confine_fallback == ConfineFallback::Text,
    }
}
