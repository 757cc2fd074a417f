//! All sessions that something is remembered of, at most so many (`[limits] max_sessions`).
//!
//! When there are too many, the one that was idle for longest goes. What a session overrides may make its rules
//! stricter, so a party that can only cause system events must not be able to push overrides out. A session without
//! overrides takes the place of another one without overrides, or nothing of it is remembered.

use std::collections::{BTreeMap, HashMap};

use countersign_domain::{AgentId, SessionKey};

use super::{
    overrides::Overrides,
    system_events::{SystemEvent, SystemEvents},
};

/// A session: its key, and whose it is. Keys of the form `agent:<agentId>:<rest>` say that themselves; others belong to
/// each agent that uses them on its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionName {
    /// The agent that the session belongs to; equal keys of two agents are two sessions.
    pub agent: AgentId,
    /// The session key within that agent.
    pub key: SessionKey,
}

#[derive(Debug, Default)]
struct Session {
    overrides: Overrides,
    events: SystemEvents,
    touched: u64,
}

impl Session {
    fn rank(&self) -> Rank {
        if self.overrides.is_empty() {
            Rank::Events
        } else {
            Rank::Overrides
        }
    }

    fn is_empty(&self) -> bool {
        self.overrides.is_empty() && self.events.is_empty()
    }
}

/// What goes first when there are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Events,
    Overrides,
}

/// Overrides and waiting system events of every session, kept in memory only.
#[derive(Debug)]
pub struct Sessions {
    by_name: HashMap<SessionName, Session>,
    /// The same in the order in which they would go.
    idle: BTreeMap<(Rank, u64), SessionName>,
    limit: usize,
    clock: u64,
}

impl Sessions {
    /// None yet, and never more than `limit`.
    pub fn new(limit: usize) -> Self {
        Self {
            by_name: HashMap::new(),
            idle: BTreeMap::new(),
            limit: limit.max(1),
            clock: 0,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What a session overrides. Looking counts as use.
    pub fn overrides(&mut self, name: &SessionName) -> Overrides {
        if !self.by_name.contains_key(name) {
            return Overrides::default();
        }
        self.change(name, |session| session.overrides.clone())
    }

    /// Sets what a session overrides.
    pub fn set_overrides(&mut self, name: &SessionName, overrides: Overrides) {
        if !self.by_name.contains_key(name) {
            if overrides.is_empty() || !self.make_room(Rank::Overrides) {
                return;
            }
            self.insert(name);
        }
        self.change(name, |session| session.overrides = overrides);
    }

    /// Tells a session something.
    pub fn tell(&mut self, name: &SessionName, event: SystemEvent) {
        if !self.by_name.contains_key(name) {
            if !self.make_room(Rank::Events) {
                return;
            }
            self.insert(name);
        }
        self.change(name, |session| session.events.push(event));
    }

    /// What a session was told, oldest first.
    pub fn peek(&mut self, name: &SessionName) -> Vec<SystemEvent> {
        if !self.by_name.contains_key(name) {
            return Vec::new();
        }
        self.change(name, |session| session.events.peek())
    }

    /// The same, and forgets it.
    pub fn drain(&mut self, name: &SessionName) -> Vec<SystemEvent> {
        if !self.by_name.contains_key(name) {
            return Vec::new();
        }
        self.change(name, |session| session.events.drain())
    }

    fn insert(&mut self, name: &SessionName) {
        let session = Session {
            touched: self.tick(),
            ..Session::default()
        };
        self.idle.insert((session.rank(), session.touched), name.clone());
        self.by_name.insert(name.clone(), session);
    }

    /// Uses a session that is there, and forgets it when nothing is left of it.
    fn change<T: Default>(&mut self, name: &SessionName, change: impl FnOnce(&mut Session) -> T) -> T {
        let now = self.tick();
        let Some(session) = self.by_name.get_mut(name) else {
            return T::default();
        };
        self.idle.remove(&(session.rank(), session.touched));
        let result = change(session);
        if session.is_empty() {
            self.by_name.remove(name);
        } else {
            session.touched = now;
            self.idle.insert((session.rank(), now), name.clone());
        }
        result
    }

    /// Makes room for a session of this rank, if that costs none of a higher one.
    fn make_room(&mut self, rank: Rank) -> bool {
        while self.by_name.len() >= self.limit {
            let Some(((of, _), _)) = self.idle.first_key_value() else {
                return false;
            };
            if *of > rank {
                return false;
            }
            if let Some((_, name)) = self.idle.pop_first() {
                self.by_name.remove(&name);
            }
        }
        true
    }

    const fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::overrides::ExecOverrides, *};
    use countersign_domain::{Ask, UnixMillis};

    fn name(number: u32) -> SessionName {
        SessionName {
            agent: AgentId::main(),
            key: SessionKey::parse(format!("chat:{number}")).unwrap(),
        }
    }

    fn a_system_event() -> SystemEvent {
        SystemEvent {
            at: UnixMillis::new(1),
            text: "Exec finished".to_owned(),
            run_id: None,
        }
    }

    fn strict() -> Overrides {
        Overrides::default().with_exec(&ExecOverrides {
            ask: Some(Ask::Always),
            ..ExecOverrides::default()
        })
    }

    #[test]
    fn the_one_that_was_idle_longest_goes() {
        let mut sessions = Sessions::new(2);
        sessions.tell(&name(1), a_system_event());
        sessions.tell(&name(2), a_system_event());
        assert_eq!(sessions.peek(&name(1)), [a_system_event()]);
        sessions.tell(&name(3), a_system_event());
        assert_eq!(sessions.len(), 2);
        assert_eq!(sessions.peek(&name(2)), []);
        assert_eq!(sessions.drain(&name(1)), [a_system_event()]);
        assert_eq!(sessions.len(), 1);
    }

    #[test]
    fn a_flood_of_events_pushes_no_overrides_out() {
        let mut sessions = Sessions::new(3);
        sessions.set_overrides(&name(1), strict());
        sessions.set_overrides(&name(2), strict());
        for number in 10..10_000 {
            sessions.tell(&name(number), a_system_event());
        }
        assert_eq!(sessions.overrides(&name(1)), strict());
        assert_eq!(sessions.overrides(&name(2)), strict());
        sessions.set_overrides(&name(3), strict());
        sessions.tell(&name(4), a_system_event());
        assert_eq!(sessions.peek(&name(4)), []);
        sessions.set_overrides(&name(5), strict());
        assert_eq!(sessions.len(), 3);
        assert_eq!(sessions.overrides(&name(1)), Overrides::default());
        assert_eq!(sessions.overrides(&name(5)), strict());
    }

    #[test]
    fn agents_that_use_one_key_have_sessions_of_their_own() {
        let mut sessions = Sessions::new(10);
        sessions.set_overrides(&name(1), strict());
        let other = SessionName {
            agent: AgentId::parse("build").unwrap(),
            ..name(1)
        };
        assert_eq!(sessions.overrides(&other), Overrides::default());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Tell(u32),
        Drain(u32),
        Set(u32),
        Clear(u32),
        Look(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let number = 0..8_u32;
        prop_oneof![
            number.clone().prop_map(Step::Tell),
            number.clone().prop_map(Step::Drain),
            number.clone().prop_map(Step::Set),
            number.clone().prop_map(Step::Clear),
            number.prop_map(Step::Look),
        ]
    }

    proptest! {
        #[test]
        fn there_are_never_too_many_and_both_indexes_agree(
            limit in 1..5_usize, steps in proptest::collection::vec(step(), 0..60)
        ) {
            let mut sessions = Sessions::new(limit);
            for step in steps {
                match step {
                    Step::Tell(n) => sessions.tell(&name(n), a_system_event()),
                    Step::Drain(n) => drop(sessions.drain(&name(n))),
                    Step::Set(n) => sessions.set_overrides(&name(n), strict()),
                    Step::Clear(n) => sessions.set_overrides(&name(n), Overrides::default()),
                    Step::Look(n) => drop(sessions.overrides(&name(n))),
                }
                prop_assert!(sessions.len() <= limit);
                prop_assert_eq!(sessions.idle.len(), sessions.by_name.len());
                for ((rank, touched), name) in &sessions.idle {
                    let session = &sessions.by_name[name];
                    prop_assert_eq!((*rank, *touched), (session.rank(), session.touched));
                    prop_assert!(!session.is_empty());
                }
            }
        }
    }
}
