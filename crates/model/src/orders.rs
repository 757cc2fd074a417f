//! The approvals socket, plain form: orders to run something, and whoever recorded them (`docs/spec/ipc.md#5-hmac`,
//! `docs/spec/ipc.md#6-what-the-server-checks-in-order` and `docs/spec/ipc.md#8-beyond-the-product`).
//!
//! Lines that were sent once can be delivered at any time, any number of times, to the server that is there and to the
//! one after it. None of them may be carried out twice.

use countersign_domain::UnixMillis;
use countersign_protocol::ipc::{
    LineOutcome, LineVerifier, NonceMemory, OutgoingOrder, Policy, plain_exec_line,
};
use stateright::{Model, Property};

const TOKEN: &str = "a-token-of-the-approvals-document";
/// How many orders there are.
const ORDERS: usize = 2;
/// One step of the clock: the time that a line lives is two of them, and one more is outside of it.
const STEP_MS: i64 = 5_000;
/// More than the longest time that a nonce is remembered.
const STEPS: u8 = 6;

/// One thing that goes wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing is remembered.
    NoMemory,
    /// Nonces are forgotten as soon as a line of now would be too old.
    ForgetsEarly,
    /// A server takes lines that are older than itself.
    TakesOlderLines,
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct Orders {
    /// How far the clock of whoever sends is ahead of the server's, in steps.
    pub skew: i8,
    /// How often the server starts anew.
    pub restarts: u8,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// A state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    /// When the present server began.
    since: u8,
    restarts: u8,
    /// When each order was written, once it was.
    sent: [Option<u8>; ORDERS],
    /// What the present server carried out, and when.
    remembered: Vec<(usize, u8)>,
    carried_out: [u8; ORDERS],
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// Time passes.
    Tick,
    /// An order is written.
    Send(usize),
    /// A written order comes to the server, from whomever.
    Deliver(usize),
    /// Another server takes over.
    Restart,
}

fn at(step: i64) -> UnixMillis {
    UnixMillis::new(1_800_000_000_000 + step * STEP_MS)
}

impl Orders {
    fn line(&self, order: usize, sent: u8) -> String {
        let order_json = OutgoingOrder {
            command: vec!["/bin/true".to_owned()],
            raw_command: None,
            cwd: None,
            env: None,
            timeout_ms: 1_000,
            needs_screen_recording: None,
            agent_id: None,
            session_key: None,
            approval_decision: None,
        }
        .to_json();
        let written = at(i64::from(sent) + i64::from(self.skew));
        plain_exec_line(
            &format!("order-{order}"),
            &format!("{order:032x}"),
            written,
            &order_json,
            TOKEN,
        )
    }

    /// Whether the server carries a line out that comes now.
    fn takes(&self, state: &State, order: usize) -> bool {
        let mut nonces = NonceMemory::default();
        let not_before = if self.fault == Some(Fault::TakesOlderLines) {
            UnixMillis::new(i64::MIN)
        } else {
            at(i64::from(state.since))
        };
        let mut verify = |order: usize, now: u8| {
            let Some(sent) = state.sent[order] else {
                return false;
            };
            let mut verifier = LineVerifier {
                token: TOKEN,
                now: at(i64::from(now)),
                not_before,
                nonces: &mut nonces,
                policy: Policy::default(),
            };
            matches!(
                verifier.verify(self.line(order, sent).as_bytes()),
                LineOutcome::Exec { .. }
            )
        };
        for (earlier, when) in &state.remembered {
            let is_forgotten = match self.fault {
                Some(Fault::NoMemory) => true,
                Some(Fault::ForgetsEarly) => state.now.saturating_sub(*when) > 1,
                Some(Fault::TakesOlderLines) | None => false,
            };
            if !is_forgotten {
                verify(*earlier, *when);
            }
        }
        verify(order, state.now)
    }
}

impl Model for Orders {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            since: 0,
            restarts: 0,
            sent: [None; ORDERS],
            remembered: Vec::new(),
            carried_out: [0; ORDERS],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Event>) {
        if state.now < STEPS {
            actions.push(Event::Tick);
        }
        for order in 0..ORDERS {
            actions.push(match state.sent[order] {
                None => Event::Send(order),
                Some(_) => Event::Deliver(order),
            });
        }
        if state.restarts < self.restarts {
            actions.push(Event::Restart);
        }
    }

    fn next_state(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        match event {
            Event::Tick => state.now += 1,
            Event::Send(order) => state.sent[order] = Some(state.now),
            Event::Deliver(order) => {
                if !self.takes(before, order) {
                    return None;
                }
                state.carried_out[order] = state.carried_out[order].saturating_add(1);
                state.remembered.push((order, state.now));
            }
            Event::Restart => {
                state.restarts += 1;
                // It takes a moment until the next one listens.
                state.now += 1;
                state.since = state.now;
                state.remembered.clear();
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no order is carried out twice", |_, state: &State| {
                state.carried_out.iter().all(|times| *times <= 1)
            }),
            Property::sometimes("orders are carried out", |_, state: &State| {
                state.carried_out.iter().all(|times| *times == 1)
            }),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.carried_out.iter().all(|times| *times <= 2)
    }
}

#[cfg(test)]
mod tests {
    use stateright::Checker;

    use super::*;

    fn check(orders: Orders) -> Vec<&'static str> {
        let checker = orders.checker().threads(2).spawn_bfs().join();
        println!("{orders:?}: {} states", checker.unique_state_count());
        checker.assert_any_discovery("orders are carried out");
        let mut found: Vec<_> = checker.discoveries().into_keys().collect();
        found.retain(|name| *name == "no order is carried out twice");
        found
    }

    #[test]
    fn no_line_counts_twice_whatever_the_clocks_say() {
        for skew in -2..=2 {
            let orders = Orders {
                skew,
                restarts: 0,
                fault: None,
            };
            assert!(check(orders).is_empty(), "skew {skew}");
        }
    }

    #[test]
    fn no_line_counts_twice_over_a_restart() {
        let orders = Orders {
            skew: 0,
            restarts: 2,
            fault: None,
        };
        assert!(check(orders).is_empty());
    }

    #[test]
    fn every_wrong_memory_is_found() {
        for (fault, skew, restarts) in [
            (Fault::NoMemory, 0, 0),
            (Fault::ForgetsEarly, 2, 0),
            (Fault::TakesOlderLines, 0, 1),
        ] {
            let fault = Some(fault);
            let found = check(Orders {
                skew,
                restarts,
                fault,
            });
            assert_eq!(found, ["no order is carried out twice"], "{fault:?}");
        }
    }
}
