//! What a call gets from its session, and from being elevated.

use countersign_config::{
    session::{
        Overrides, SessionName,
        gates::{self, Gate},
        sender::Sender,
    },
    settings::{ElevatedLevel, PolicyConfig},
};
use countersign_domain::{
    Actor, ActorKind, AgentId, Ask, ExecRequest, HostChoice, Principal, Security, SessionKey,
};
use countersign_policy::{
    combine::{Wanted, Wishes},
    host::Elevation,
};

use super::{PlaceRule, policy_now::PolicyNow};
use crate::{reply::ExecError, session::SessionState};

/// What lies between the configuration and the members of a call. Nothing for a session that overrides nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// What the session overrides; its elevation only while the sender who chose it may be elevated.
    overrides: Overrides,
    /// The level of a call that is elevated itself.
    level: Option<ElevatedLevel>,
}

impl Asked {
    /// Where the session sends its runs.
    pub(crate) fn host(&self, policy: &PolicyConfig, agent: &AgentId) -> Option<HostChoice> {
        let configured = policy.host(agent).last().map(|said| said.value);
        self.overrides
            .in_force(configured.unwrap_or(HostChoice::Sandbox))
            .host
    }

    /// The node that the session names.
    pub(crate) fn node(&self) -> Option<&str> {
        self.overrides.exec.node.as_deref()
    }

    /// Whether the call itself is elevated.
    pub(crate) const fn is_elevated(&self) -> bool {
        self.level.is_some()
    }

    /// The same for the resolution of the host.
    pub(crate) const fn elevation(&self) -> Elevation {
        if self.is_elevated() {
            Elevation::Granted
        } else {
            Elevation::None
        }
    }

    /// What is wanted of security and ask, `call` by the call itself.
    pub(crate) fn wishes(&self, call: Wanted) -> Wishes {
        // Where elevation leads to depends on the configured host, security and ask do not.
        let session = self.overrides.in_force(HostChoice::Sandbox).wanted;
        let elevated = match self.level {
            Some(ElevatedLevel::Full) => Wanted {
                security: Some(Security::Full),
                ask: Some(Ask::Off),
            },
            Some(ElevatedLevel::On | ElevatedLevel::Ask | ElevatedLevel::Off) | None => Wanted::default(),
        };
        Wishes {
            session,
            elevated,
            call,
        }
    }
}

impl SessionState {
    /// What the session of an agent puts on top of its configuration now.
    pub(crate) fn asked_by_session(&self, agent: &AgentId, session: &SessionKey, now: &PolicyNow) -> Asked {
        let overrides = self.overrides_of(agent, session);
        Asked {
            overrides: while_allowed(overrides, agent, now),
            level: None,
        }
    }

    /// The same for a call, with its elevation if it asks for that.
    pub(crate) fn asked_by_call(
        &self,
        caller: &Principal,
        request: &ExecRequest,
        now: &PolicyNow,
        place: PlaceRule,
    ) -> Result<Asked, ExecError> {
        match place {
            PlaceRule::Resolved => {}
            // The session is one of the gateway that delivered it, or of the asker.
            PlaceRule::ThisMachine | PlaceRule::Elsewhere => return Ok(Asked::default()),
        }
        let ExecRequest {
            agent,
            session,
            elevated,
            ..
        } = request;
        let asked = self.asked_by_session(agent, session, now);
        if !elevated {
            return Ok(asked);
        }
        let level = self
            .level_of(agent, session, &caller.actor, now)
            .map_err(|gates| ExecError::ElevatedUnavailable { gates })?;
        Ok(Asked {
            level: Some(level),
            ..asked
        })
    }

    /// The same for a run that waited: an elevation that would not be granted now is none.
    pub(crate) fn asked_again(
        &self,
        agent: &AgentId,
        session: &SessionKey,
        is_elevated: bool,
        requested_by: &Actor,
        now: &PolicyNow,
    ) -> Asked {
        let asked = self.asked_by_session(agent, session, now);
        if !is_elevated {
            return asked;
        }
        Asked {
            level: self.level_of(agent, session, requested_by, now).ok(),
            ..asked
        }
    }

    /// The level that everything which has to let a call through gives it; of several the lowest.
    fn level_of(
        &self,
        agent: &AgentId,
        session: &SessionKey,
        actor: &Actor,
        now: &PolicyNow,
    ) -> Result<ElevatedLevel, Vec<Gate>> {
        let overrides = self.overrides_of(agent, session);
        let sender = sender_of(actor);
        let mut lowest = None;
        for view in now.views() {
            let level = gates::level_of_call(&view.settings.policy, agent, &overrides, &sender)?;
            lowest = Some(lowest.map_or(level, |lowest: ElevatedLevel| lowest.min(level)));
        }
        Ok(lowest.unwrap_or(ElevatedLevel::Off))
    }

    fn overrides_of(&self, agent: &AgentId, session: &SessionKey) -> Overrides {
        self.overrides(&SessionName {
            agent: agent.clone(),
            key: session.clone(),
        })
    }
}

/// Who sends a call or a change that nobody relays.
pub(crate) fn sender_of(actor: &Actor) -> Sender {
    match actor.kind {
        ActorKind::Token | ActorKind::Session => Sender::of_token(&actor.name),
        ActorKind::Bridge | ActorKind::Ipc | ActorKind::Cli | ActorKind::System => {
            Sender::of_entry_point(actor.kind, &actor.id)
        }
    }
}

/// An elevation lasts as long as the sender who chose it may be elevated.
fn while_allowed(overrides: Overrides, agent: &AgentId, now: &PolicyNow) -> Overrides {
    let is_allowed = overrides.elevated.as_ref().is_none_or(|elevated| {
        now.views()
            .all(|view| gates::closed(&view.settings.policy, agent, &elevated.sender).is_empty())
    });
    if is_allowed {
        overrides
    } else {
        overrides.without_elevation()
    }
}
