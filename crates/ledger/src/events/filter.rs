//! Which events a subscriber wants, and which it may see.

use countersign_domain::{Access, AgentId, Authority, Belongs, RunId, SessionKey, TokenId};

use super::{EventType, Subject};

/// A `types` filter has an empty part: it could mean all types or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected the beginnings of event types, separated by commas")]
pub struct InvalidTypes;

/// What a subscriber gets. Everything that is set must hold; nothing set means everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// Of one of these types; `None` for any.
    pub types: Option<Vec<EventType>>,
    /// About this agent; `None` for any.
    pub agent: Option<AgentId>,
    /// About this session; `None` for any.
    pub session: Option<SessionKey>,
    /// About this run; `None` for any.
    pub run_id: Option<RunId>,
    /// Only what runs of this token caused: what a caller without `read` may see.
    pub owner: Option<TokenId>,
    /// Only what the subscriber has authority over; events of no agent go to those who are bound to none.
    pub authority: Authority,
    /// Whether `exec.output` is wanted.
    pub output: bool,
}

impl EventFilter {
    /// Restricts the types to those that begin with one of the comma-separated prefixes.
    ///
    /// # Errors
    /// [`InvalidTypes`] for an empty prefix. One that fits no type is fine and lets nothing pass: clients may
    /// ask for the types of later versions.
    pub fn with_types(mut self, prefixes: &str) -> Result<Self, InvalidTypes> {
        let prefixes: Vec<&str> = prefixes.split(',').map(str::trim).collect();
        if prefixes.contains(&"") {
            return Err(InvalidTypes);
        }
        let is_wanted = |kind: &&EventType| prefixes.iter().any(|prefix| kind.as_str().starts_with(prefix));
        self.types = Some(EventType::ALL.iter().filter(is_wanted).copied().collect());
        Ok(self)
    }

    /// Whether an event passes.
    pub fn matches(&self, event_type: EventType, subject: &Subject) -> bool {
        let Self {
            types,
            agent,
            session,
            run_id,
            owner,
            authority,
            output,
        } = self;
        types.as_ref().is_none_or(|types| types.contains(&event_type))
            && (*output || event_type != EventType::ExecOutput)
            && wants(agent.as_ref(), subject.agent.as_ref())
            && wants(session.as_ref(), subject.session.as_ref())
            && wants(run_id.as_ref(), subject.run_id.as_ref())
            && wants(owner.as_ref(), subject.owner.as_ref())
            && authority.over(belongs(subject)) == Access::Open
    }
}

fn belongs(subject: &Subject) -> Belongs<'_> {
    subject.agent.as_ref().map_or(Belongs::ToNoAgent, Belongs::To)
}

fn wants<T: PartialEq>(wanted: Option<&T>, has: Option<&T>) -> bool {
    wanted.is_none_or(|wanted| has == Some(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_prefixes_and_unknown_ones_let_nothing_pass() {
        let filter = EventFilter::default()
            .with_types("exec.approval, policy")
            .unwrap();
        let passes = |kind| filter.matches(kind, &Subject::default());
        assert!(passes(EventType::ApprovalRequested) && passes(EventType::PolicyChanged));
        assert!(!passes(EventType::ExecStarted));
        let later = EventFilter::default().with_types("of.a.later.version").unwrap();
        for kind in EventType::ALL {
            assert!(!later.matches(*kind, &Subject::default()), "{kind:?}");
        }
        for bad in ["exec,,policy", "", ","] {
            assert!(EventFilter::default().with_types(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_owner_sees_only_events_with_that_owner() {
        let mine = TokenId::parse("t-1").unwrap();
        let filter = EventFilter {
            owner: Some(mine.clone()),
            ..EventFilter::default()
        };
        let of = |owner: Option<TokenId>| Subject {
            owner,
            ..Subject::default()
        };
        assert!(filter.matches(EventType::ExecStarted, &of(Some(mine))));
        assert!(!filter.matches(EventType::ExecStarted, &of(Some(TokenId::parse("t-2").unwrap()))));
        assert!(!filter.matches(EventType::PolicyChanged, &of(None)));
    }

    #[test]
    fn a_bound_subscriber_gets_the_events_of_its_agents_and_none_of_no_agent() {
        let [own, other] = ["own", "other"].map(|name| AgentId::parse(name).unwrap());
        let bound = EventFilter {
            authority: Authority::bound_to(Some([own.clone()].into())),
            ..EventFilter::default()
        };
        let of = |agent: Option<&AgentId>| Subject {
            agent: agent.cloned(),
            ..Subject::default()
        };
        for (subject, passes) in [
            (of(Some(&own)), true),
            (of(Some(&other)), false),
            (of(None), false),
        ] {
            assert_eq!(
                bound.matches(EventType::PolicyChanged, &subject),
                passes,
                "{subject:?}"
            );
            assert!(EventFilter::default().matches(EventType::PolicyChanged, &subject));
        }
    }

    #[test]
    fn output_must_be_asked_for() {
        let quiet = EventFilter::default();
        let loud = EventFilter {
            output: true,
            ..EventFilter::default()
        };
        assert!(!quiet.matches(EventType::ExecOutput, &Subject::default()));
        assert!(loud.matches(EventType::ExecOutput, &Subject::default()));
    }
}
