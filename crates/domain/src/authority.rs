//! Over whom a caller has authority: the one place that decides what a token that is bound to agents reaches.

use std::collections::BTreeSet;

use super::AgentId;

/// Whose a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belongs<'a> {
    /// An agent's: its runs, approvals, sessions, events, entries and policy.
    To(&'a AgentId),
    /// No agent's: nodes, tokens, settings, metrics, the audit record.
    ToNoAgent,
}

/// Whether a caller may touch a thing, as far as its agents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Access {
    /// The caller may touch it.
    Open,
    /// It is outside of the agents that the caller is bound to.
    Closed,
}

/// The agents that a caller has authority over: all, unless it is bound to some.
///
/// Every entry point asks [`Self::over`]. Lists use [`Self::agents`] to read no more than that from the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authority(Option<BTreeSet<AgentId>>);

impl Authority {
    /// The authority of a caller that is bound to no agents.
    pub const EVERYTHING: Self = Self(None);

    /// What a token with this member `agents` has.
    pub const fn bound_to(agents: Option<BTreeSet<AgentId>>) -> Self {
        Self(agents)
    }

    /// Whether it extends to a thing.
    pub fn over(&self, thing: Belongs<'_>) -> Access {
        match (&self.0, thing) {
            (None, Belongs::To(_) | Belongs::ToNoAgent) => Access::Open,
            (Some(agents), Belongs::To(agent)) if agents.contains(agent) => Access::Open,
            (Some(_), Belongs::To(_) | Belongs::ToNoAgent) => Access::Closed,
        }
    }

    /// The agents it is bound to; `None` for everything.
    pub const fn agents(&self) -> Option<&BTreeSet<AgentId>> {
        self.0.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_caller_reaches_its_agents_and_nothing_else() {
        let [own, other] = ["own", "other"].map(|name| AgentId::parse(name).unwrap());
        let bound = Authority::bound_to(Some(BTreeSet::from([own.clone()])));
        for (thing, of_bound) in [
            (Belongs::To(&own), Access::Open),
            (Belongs::To(&other), Access::Closed),
            (Belongs::ToNoAgent, Access::Closed),
        ] {
            assert_eq!(bound.over(thing), of_bound, "{thing:?}");
            assert_eq!(Authority::EVERYTHING.over(thing), Access::Open, "{thing:?}");
            let nobody = Authority::bound_to(Some(BTreeSet::new()));
            assert_eq!(nobody.over(thing), Access::Closed, "{thing:?}");
        }
    }
}
