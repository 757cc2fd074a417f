//! The approvals socket, version 2: questions, challenges and answers, and somebody in between who keeps every line and
//! hands any of it to anybody (`docs/spec/ipc.md#8-beyond-the-product`).
//!
//! Whoever is in between does not know the token, and may make up lines of its own.

use countersign_domain::{ApprovalDecision, UnixMillis};
use countersign_protocol::ipc::{
    Challenge, Expected, Handshake, Hello, LineOutcome, LineVerifier, NonceMemory, OutgoingQuestion, Policy,
    decision_line,
};
use stateright::{Model, Property};

const TOKEN: &str = "a-token-of-the-approvals-document";
/// Who asks: the first gets a yes, the second a no.
const ASKERS: usize = 2;
/// Connections that the server takes.
const CONNECTIONS: usize = 3;

/// One thing that goes wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The server draws the same nonce for every connection.
    SameNonce,
    /// Askers do not look at the proof of an answer.
    NoProof,
    /// The server takes a second line after a challenge.
    SecondLine,
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct Answers {
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// A connection of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Connection {
    /// Whose opening it took.
    opened_by: usize,
    /// Whose question came over it.
    asked_by: Option<usize>,
    is_spent: bool,
}

/// A state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    connections: Vec<Connection>,
    /// The connection whose challenge each asker believed.
    believed: [Option<usize>; ASKERS],
    /// What each asker takes for the answer.
    answers: [Option<ApprovalDecision>; ASKERS],
    /// How often a person was asked each question.
    asked: [u8; ASKERS],
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The opening of an asker reaches the server over a connection of its own.
    Open(usize),
    /// The challenge of a connection reaches an asker.
    Challenge {
        /// The connection.
        of: usize,
        /// The asker.
        to: usize,
    },
    /// The question of an asker reaches a connection.
    Ask {
        /// The asker.
        of: usize,
        /// The connection.
        to: usize,
    },
    /// The answer that went over a connection reaches an asker.
    Answer {
        /// The connection.
        of: usize,
        /// The asker.
        to: usize,
    },
    /// A made-up yes reaches an asker: under this one's id.
    Forge {
        /// Whose id.
        of: usize,
        /// The asker.
        to: usize,
    },
}

fn now() -> UnixMillis {
    UnixMillis::new(1_800_000_000_000)
}

fn id(asker: usize) -> String {
    format!("question-{asker}")
}

fn hello(asker: usize) -> Hello {
    Hello::new(format!("hello-{asker}"), format!("{asker:032x}"))
}

/// What a person says to each question.
const fn decision(asker: usize) -> ApprovalDecision {
    if asker == 0 {
        ApprovalDecision::AllowOnce
    } else {
        ApprovalDecision::Deny
    }
}

impl Answers {
    fn handshake(&self, connection: usize, opened_by: usize) -> Option<(Handshake, String)> {
        let drawn = if self.fault == Some(Fault::SameNonce) {
            0
        } else {
            connection
        };
        let nonce = format!("{:032x}", 1_000 + drawn);
        let mut nonces = NonceMemory::default();
        let mut verifier = LineVerifier {
            token: TOKEN,
            now: now(),
            not_before: now(),
            nonces: &mut nonces,
            policy: Policy { require_v2: true },
        };
        match verifier.verify(hello(opened_by).line(now()).as_bytes()) {
            LineOutcome::Open(hello) => Some(Handshake::open(hello, nonce, TOKEN, now())),
            LineOutcome::Exec { .. } | LineOutcome::Ask { .. } | LineOutcome::Refused(_) => None,
        }
    }

    fn challenge(&self, state: &State, of: usize, to: usize) -> Option<Challenge> {
        let connection = state.connections.get(of)?;
        let (_handshake, line) = self.handshake(of, connection.opened_by)?;
        Challenge::parse(line.as_bytes(), hello(to), TOKEN).ok()
    }

    fn question(&self, state: &State, of: usize) -> Option<String> {
        let challenge = self.challenge(state, state.believed[of]?, of)?;
        let question = OutgoingQuestion {
            command: format!("command {of}"),
            cwd: None,
            host: None,
            security: None,
            ask: None,
            agent_id: None,
            resolved_path: None,
            session_key: None,
            allowed_decisions: None,
        };
        Some(challenge.request_line(&id(of), now(), &question.to_json(), TOKEN))
    }

    /// Whose question the server takes a line for.
    fn taken(&self, state: &State, of: usize, to: usize) -> Option<usize> {
        let connection = state.connections.get(to)?;
        let (handshake, _line) = self.handshake(to, connection.opened_by)?;
        let opened = handshake.verify(self.question(state, of)?.as_bytes(), TOKEN, now());
        match opened.into_parts().0 {
            LineOutcome::Ask { id: asked, .. } => (0..ASKERS).find(|asker| id(*asker) == asked),
            LineOutcome::Exec { .. } | LineOutcome::Open(_) | LineOutcome::Refused(_) => None,
        }
    }

    /// The line that the server answers over a connection.
    fn answer(&self, state: &State, of: usize) -> Option<String> {
        let connection = state.connections.get(of)?;
        let asker = connection.asked_by?;
        let (handshake, _line) = self.handshake(of, connection.opened_by)?;
        let opened = handshake.verify(self.question(state, asker)?.as_bytes(), TOKEN, now());
        let (_judged, seal) = opened.into_parts();
        Some(seal.seal(&decision_line(&id(asker), decision(asker)), TOKEN))
    }

    fn read(&self, state: &State, asker: usize, line: &str) -> Option<ApprovalDecision> {
        let expected = if self.fault == Some(Fault::NoProof) {
            Expected::plain(id(asker))
        } else {
            let challenge = self.challenge(state, state.believed[asker]?, asker)?;
            challenge.expected(id(asker), TOKEN.to_owned())
        };
        expected.decision(line.as_bytes())
    }
}

impl Model for Answers {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            connections: Vec::new(),
            believed: [None; ASKERS],
            answers: [None; ASKERS],
            asked: [0; ASKERS],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Event>) {
        for asker in 0..ASKERS {
            if state.connections.len() < CONNECTIONS {
                actions.push(Event::Open(asker));
            }
            for connection in 0..state.connections.len() {
                if state.believed[asker].is_none() {
                    actions.push(Event::Challenge {
                        of: connection,
                        to: asker,
                    });
                } else {
                    actions.push(Event::Ask {
                        of: asker,
                        to: connection,
                    });
                    actions.push(Event::Answer {
                        of: connection,
                        to: asker,
                    });
                }
            }
            for of in 0..ASKERS {
                actions.push(Event::Forge { of, to: asker });
            }
        }
    }

    fn next_state(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        match event {
            Event::Open(asker) => state.connections.push(Connection {
                opened_by: asker,
                asked_by: None,
                is_spent: false,
            }),
            Event::Challenge { of, to } => {
                self.challenge(before, of, to)?;
                state.believed[to] = Some(of);
            }
            Event::Ask { of, to } => {
                let taken = self.taken(before, of, to);
                let connection = state.connections.get_mut(to)?;
                if connection.is_spent && self.fault != Some(Fault::SecondLine) {
                    return None;
                }
                connection.is_spent = true;
                if let Some(asker) = taken {
                    connection.asked_by = Some(asker);
                    state.asked[asker] = state.asked[asker].saturating_add(1);
                }
            }
            Event::Answer { of, to } => {
                let line = self.answer(before, of)?;
                if state.answers[to].is_none() {
                    state.answers[to] = self.read(before, to, &line);
                }
            }
            Event::Forge { of, to } => {
                let line = decision_line(&id(of), ApprovalDecision::AllowOnce);
                if state.answers[to].is_none() {
                    state.answers[to] = self.read(before, to, &line);
                }
            }
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "a yes that counts was given to this question",
                |_, state: &State| {
                    (0..ASKERS).all(|asker| {
                        state.answers[asker].is_none_or(|answer| {
                            answer == ApprovalDecision::Deny
                                || decision(asker) == answer
                                    && state
                                        .connections
                                        .iter()
                                        .any(|known| known.asked_by == Some(asker))
                        })
                    })
                },
            ),
            Property::always("nobody is asked the same question twice", |_, state: &State| {
                state.asked.iter().all(|times| *times <= 1)
            }),
            Property::sometimes("a yes arrives", |_, state: &State| {
                state.answers[0] == Some(ApprovalDecision::AllowOnce)
            }),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.asked.iter().all(|times| *times <= 2)
    }
}

#[cfg(test)]
mod tests {
    use stateright::Checker;

    use super::*;

    const CLAIMS: [&str; 2] = [
        "a yes that counts was given to this question",
        "nobody is asked the same question twice",
    ];

    fn broken(fault: Option<Fault>) -> Vec<&'static str> {
        let checker = Answers { fault }.checker().threads(2).spawn_bfs().join();
        println!("{fault:?}: {} states", checker.unique_state_count());
        let found = checker.discoveries();
        CLAIMS
            .into_iter()
            .filter(|claim| found.contains_key(claim))
            .collect()
    }

    #[test]
    fn nobody_in_between_gets_a_yes() {
        assert_eq!(broken(None), [""; 0]);
        Answers { fault: None }
            .checker()
            .spawn_bfs()
            .join()
            .assert_any_discovery("a yes arrives");
    }

    #[test]
    fn every_hole_is_found() {
        assert_eq!(broken(Some(Fault::NoProof)), [CLAIMS[0]]);
        assert_eq!(broken(Some(Fault::SameNonce)), [CLAIMS[1]]);
        assert_eq!(broken(Some(Fault::SecondLine)), [CLAIMS[1]]);
    }
}
