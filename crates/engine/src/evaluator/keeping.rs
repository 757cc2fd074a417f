//! What this machine can keep of what an entry says about its program.

use countersign_config::settings::{ExecSettings, PolicyConfig};
use countersign_domain::{AgentId, ConfineFallback, HostChoice, Isolation};
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

/// Whether a deny rule with `children` binds what commands start at a level of isolation: programs are masked in the mount
/// namespace of a confined run alone.
pub(crate) const fn keeps_children(isolation: Isolation) -> bool {
    match isolation {
        Isolation::Confined => true,
        Isolation::SameUser | Isolation::SeparateUser | Isolation::Sandbox | Isolation::Node => false,
    }
}

/// At which level commands of agents run, as far as settings and machine say it.
#[derive(Debug, Clone, Copy)]
pub struct Levels<'a> {
    /// The settings of the agents.
    pub policy: &'a PolicyConfig,
    /// The best level that commands of the gateway host reach.
    pub reached: Isolation,
}

impl Levels<'_> {
    /// Why a deny rule with `children` of this owner does not bind what commands start, in words: `None` where it does for
    /// every agent that it is about. `None` as owner is that of every agent.
    pub(crate) fn children_not_kept(self, owner: Option<&AgentId>) -> Option<String> {
        const NAMED: usize = 3;
        let agents = owner.map_or_else(
            || {
                let mut all = self.policy.agents();
                if !all.contains(&AgentId::main()) {
                    all.insert(0, AgentId::main());
                }
                all
            },
            |owner| vec![owner.clone()],
        );
        let level = |agent: &AgentId| match self.policy.host(agent).pop().map(|said| said.value) {
            Some(HostChoice::Sandbox) => Isolation::Sandbox,
            Some(HostChoice::Node) => Isolation::Node,
            Some(HostChoice::Gateway | HostChoice::Auto) | None => {
                level_of(self.reached, self.policy.exec(agent).isolation)
            }
        };
        let unkept: Vec<String> = agents
            .iter()
            .map(|agent| (agent, level(agent)))
            .filter(|(_agent, level)| !keeps_children(*level))
            .map(|(agent, level)| format!("{agent} at the level {level}"))
            .collect();
        let more = unkept.len().saturating_sub(NAMED);
        let named = unkept.get(..NAMED).unwrap_or(&unkept).join(", ");
        match (unkept.len(), more) {
            (0, _) => None,
            (_, 0) => Some(format!("commands run of {named}")),
            (_, more) => Some(format!("commands run of {named} and {more} more agents")),
        }
    }
}

/// Whether no command can read the state directory of the server at a level of isolation.
const fn hides_own_files(isolation: Isolation) -> bool {
    match isolation {
        Isolation::Confined | Isolation::SeparateUser => true,
        Isolation::SameUser | Isolation::Sandbox | Isolation::Node => false,
    }
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
        lacks_starts: !starts,
        writes,
        connects,
        lets_gain: lets_gain(level_of(reached, exec.isolation)),
        falls_back: exec.confine_fallback == ConfineFallback::Text,
        own_files: hides_own_files(level_of(reached, exec.isolation)),
    }
}
