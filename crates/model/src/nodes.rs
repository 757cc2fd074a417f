//! One run on a node: the server that sends it, the link that breaks, the node that keeps a fence or none, the answer that
//! comes late (`docs/decisions/0009-exactly-once.md`, "Node").
//!
//! Frames keep their order on one connection, and what is on its way when it breaks is lost, but for a call that the node
//! has taken in and looks at late. Both sides can be killed, the server's machine can lose its power, and an answer can
//! come more than once.

use countersign_domain::{Reason, Recovery, RunLocality, RunStatus};
use countersign_hosts::node::InvokeFailure;
use stateright::{Model, Property};

/// The start-by: from then on the node must not start it.
const START_BY: u8 = 1;
/// The last moment.
const END_OF_TIME: u8 = 2;

/// One thing that is decided wrongly, to see that it is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The server sends a call again after its link broke.
    SendsAgain,
    /// A node runs whatever is delivered, however often.
    NoFence,
    /// A node that is asked about a call which it does not know says so and remembers nothing.
    ForgetsQuestion,
    /// A late answer may end a run again, however it ended.
    LateAnswerCounts,
    /// The launch is not safe from a loss of power before the call is sent.
    UnsyncedLaunch,
}

/// What may happen in one story.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How often the link breaks.
    pub cuts: u8,
    /// How often the server is killed.
    pub kills: u8,
    /// How often the node is killed.
    pub deaths: u8,
    /// How often the server's machine loses its power.
    pub outages: u8,
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct OnNode {
    /// Whether the node is one of ours.
    pub fenced: bool,
    /// What may happen.
    pub bounds: Bounds,
    /// What is decided wrongly.
    pub fault: Option<Fault>,
}

/// The record of the run; `None` after a loss of power that undid it.
type Rows = Option<Row>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Row {
    status: RunStatus,
    reason: Option<Reason>,
}

/// What goes from the server to the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    Run,
    Status,
}

/// What goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Word {
    Result(Outcome),
    Running,
    Void,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Outcome {
    Completed,
    Refused,
    Unknown,
}

/// What the node's ledger has under the id of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fence {
    Refused,
    Running,
    Ended,
    /// The node died with it.
    Lost,
}

/// What the server is doing about the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum NodeRunTask {
    /// The launch is committed, nothing is sent.
    Permitted,
    /// The call was sent, and its answer is waited for.
    Sent,
    /// The link broke: it is waited for, for a while.
    Waiting,
    /// Nothing: it ended.
    Over,
}

/// A state of the world.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    rows: Rows,
    synced: Rows,
    /// `None` while the server is down.
    server: Option<NodeRunTask>,
    link: bool,
    to_node: Vec<Call>,
    to_server: Vec<Word>,
    /// A call that came over a broken connection, and that the node has not looked at.
    straggler: bool,
    node_up: bool,
    fence: Option<Fence>,
    /// The node has an answer that nobody took.
    owes: bool,
    starts: u8,
    /// How often an end was written over another, `lost` becoming final aside.
    overwritten: u8,
    /// How often `lost` became final.
    settled: u8,
    sends: u8,
    cuts: u8,
    kills: u8,
    deaths: u8,
    outages: u8,
    repeats: u8,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A moment passes.
    Tick,
    /// The server sends the call.
    Send,
    /// The server's patience with an absent node ends.
    GiveUp,
    /// The next frame arrives at the node.
    NodeHears,
    /// The next frame arrives at the server.
    ServerHears,
    /// The node looks at a call that came over a broken connection.
    Straggle,
    /// The command ends.
    End,
    /// The node says its answer once more.
    Repeat,
    /// The link breaks, after this many of the frames to the node and to the server arrived.
    Cut,
    /// Both find each other again.
    Connect,
    /// The server is killed.
    Kill,
    /// A server starts.
    Start,
    /// The node is killed.
    KillNode,
    /// A node starts.
    StartNode,
    /// The server's machine loses its power.
    Outage,
}

impl OnNode {
    fn write(&self, state: &mut State, end: RunStatus, reason: Option<Reason>) {
        let Some(row) = &mut state.rows else { return };
        let may = if self.fault == Some(Fault::LateAnswerCounts) {
            true
        } else if end == RunStatus::Denied {
            row.status.advance(end).is_ok()
        } else {
            row.status.may_end(end, RunLocality::Node)
        };
        if !may {
            return;
        }
        if row.status == RunStatus::Lost {
            state.settled += 1;
        } else if row.status.is_final() {
            state.overwritten += 1;
        }
        *row = Row { status: end, reason };
        state.server = state.server.map(|_task| NodeRunTask::Over);
    }

    fn end(&self, state: &mut State, reason: Reason) {
        self.write(state, reason.run_status(), Some(reason));
    }

    fn failed(&self, state: &mut State, failure: &InvokeFailure) {
        if failure.was_not_sent() {
            self.end(state, Reason::NotStarted);
        } else if self.fenced {
            state.server = Some(NodeRunTask::Waiting);
        } else if self.fault == Some(Fault::SendsAgain) && state.sends < 2 {
            state.server = Some(NodeRunTask::Permitted);
        } else {
            self.end(state, Reason::NodeDisconnected);
        }
    }

    fn send(&self, state: &mut State) {
        if !state.link {
            return self.failed(state, &InvokeFailure::NotConnected);
        }
        state.sends += 1;
        state.to_node.push(Call::Run);
        state.server = Some(NodeRunTask::Sent);
    }

    fn deliver(&self, state: &mut State) {
        if state.fence.is_some() && self.fenced && self.fault != Some(Fault::NoFence) {
            // What became of the first one is the answer.
            return self.answer(state);
        }
        let is_late = self.fenced && state.now > START_BY;
        if is_late {
            state.fence = Some(Fence::Refused);
        } else {
            state.fence = Some(Fence::Running);
            state.starts += 1;
        }
        state.owes = true;
        if is_late {
            self.answer(state);
        }
    }

    /// The node says what it knows, if it is asked or has to.
    fn answer(&self, state: &mut State) {
        let word = match state.fence {
            None | Some(Fence::Running) => return,
            Some(Fence::Refused) => Word::Result(Outcome::Refused),
            Some(Fence::Ended) => Word::Result(Outcome::Completed),
            Some(Fence::Lost) => Word::Result(Outcome::Unknown),
        };
        if state.link && state.node_up {
            state.to_server.push(word);
            state.owes = false;
        }
    }

    fn asked(&self, state: &mut State) {
        let word = match state.fence {
            None => {
                if self.fault != Some(Fault::ForgetsQuestion) {
                    state.fence = Some(Fence::Refused);
                }
                Word::Void
            }
            Some(Fence::Refused) => Word::Void,
            Some(Fence::Running) => Word::Running,
            Some(Fence::Ended) => Word::Result(Outcome::Completed),
            Some(Fence::Lost) => Word::Result(Outcome::Unknown),
        };
        state.to_server.push(word);
    }

    fn receive(&self, state: &mut State, word: Word) {
        match word {
            Word::Result(Outcome::Completed) => self.write(state, RunStatus::Completed, None),
            Word::Result(Outcome::Unknown) => self.end(state, Reason::NodeDisconnected),
            // It says for certain that nothing ran.
            Word::Void | Word::Result(Outcome::Refused) => {
                self.write(state, RunStatus::Failed, Some(Reason::NotStarted))
            }
            Word::Running => {
                if state.server.is_some_and(|task| task != NodeRunTask::Over) {
                    state.server = Some(NodeRunTask::Sent);
                }
            }
        }
    }

    fn disconnected(&self, state: &mut State) {
        state.link = false;
        state.straggler |= state.to_node.contains(&Call::Run) && state.node_up;
        state.to_node.clear();
        state.to_server.clear();
        if state.server == Some(NodeRunTask::Sent) {
            self.failed(state, &InvokeFailure::Disconnected);
        }
    }

    fn start(&self, state: &mut State) {
        let Some(row) = state.rows else {
            state.server = Some(NodeRunTask::Over);
            return;
        };
        state.server = Some(NodeRunTask::Over);
        if row.status.is_final() {
            return;
        }
        match countersign_domain::recover(row.status, true, None) {
            Recovery::Inspect if self.fenced => state.server = Some(NodeRunTask::Waiting),
            Recovery::Inspect if self.fault == Some(Fault::SendsAgain) && state.sends < 2 => {
                state.server = Some(NodeRunTask::Permitted);
            }
            Recovery::Inspect => self.end(state, Reason::ServerRestart),
            Recovery::End(reason) => self.end(state, reason),
            Recovery::Wait | Recovery::Expire | Recovery::Launch => {}
        }
    }
}

impl Model for OnNode {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let rows = Some(Row {
            status: RunStatus::Launching,
            reason: None,
        });
        vec![State {
            now: 0,
            rows,
            synced: rows.filter(|_| self.fault != Some(Fault::UnsyncedLaunch)),
            server: Some(NodeRunTask::Permitted),
            link: true,
            to_node: Vec::new(),
            to_server: Vec::new(),
            straggler: false,
            node_up: true,
            fence: None,
            owes: false,
            starts: 0,
            overwritten: 0,
            settled: 0,
            sends: 0,
            cuts: 0,
            kills: 0,
            deaths: 0,
            outages: 0,
            repeats: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Event>) {
        let bounds = self.bounds;
        if state.now < END_OF_TIME {
            actions.push(Event::Tick);
        }
        match state.server {
            Some(NodeRunTask::Permitted) => actions.push(Event::Send),
            Some(NodeRunTask::Waiting) => actions.push(Event::GiveUp),
            Some(NodeRunTask::Sent | NodeRunTask::Over) => {}
            None => actions.push(Event::Start),
        }
        if !state.to_node.is_empty() {
            actions.push(Event::NodeHears);
        }
        if state.straggler && state.node_up {
            actions.push(Event::Straggle);
        }
        if !state.to_server.is_empty() {
            actions.push(Event::ServerHears);
        }
        if state.node_up && state.fence == Some(Fence::Running) {
            actions.push(Event::End);
        }
        let has_ended = matches!(state.fence, Some(Fence::Ended | Fence::Refused | Fence::Lost));
        if has_ended && state.link && state.repeats < 1 {
            actions.push(Event::Repeat);
        }
        if state.link && state.cuts < bounds.cuts {
            actions.push(Event::Cut);
        }
        if !state.link && state.node_up && state.server.is_some() {
            actions.push(Event::Connect);
        }
        if state.server.is_some() && state.kills < bounds.kills {
            actions.push(Event::Kill);
        }
        if state.outages < bounds.outages {
            actions.push(Event::Outage);
        }
        if !state.node_up {
            actions.push(Event::StartNode);
        } else if state.deaths < bounds.deaths {
            actions.push(Event::KillNode);
        }
    }

    fn next_state(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        match event {
            Event::Tick => state.now += 1,
            Event::Send => self.send(&mut state),
            Event::GiveUp => self.end(&mut state, Reason::NodeDisconnected),
            Event::NodeHears => match state.to_node.remove(0) {
                Call::Run => self.deliver(&mut state),
                Call::Status => self.asked(&mut state),
            },
            Event::ServerHears => {
                let word = state.to_server.remove(0);
                self.receive(&mut state, word);
            }
            Event::Straggle => {
                state.straggler = false;
                self.deliver(&mut state);
            }
            Event::End => {
                state.fence = Some(Fence::Ended);
                self.answer(&mut state);
            }
            Event::Repeat => {
                state.repeats += 1;
                self.answer(&mut state);
            }
            Event::Cut => {
                state.cuts += 1;
                self.disconnected(&mut state);
            }
            Event::Connect => {
                state.link = true;
                let is_open = state
                    .rows
                    .is_some_and(|row| !row.status.is_final() || row.status == RunStatus::Lost);
                if self.fenced && is_open && state.server != Some(NodeRunTask::Permitted) {
                    state.to_node.push(Call::Status);
                }
                if state.owes && self.fenced {
                    self.answer(&mut state);
                }
            }
            Event::Kill | Event::Outage => {
                state.server = None;
                if event == Event::Outage {
                    state.outages += 1;
                    state.rows = state.synced;
                    state.settled = 0;
                } else {
                    state.kills += 1;
                }
                self.disconnected(&mut state);
            }
            Event::Start => self.start(&mut state),
            Event::KillNode => {
                state.deaths += 1;
                state.node_up = false;
                state.straggler = false;
                if state.fence == Some(Fence::Running) {
                    state.fence = Some(Fence::Lost);
                    state.owes = true;
                }
                self.disconnected(&mut state);
            }
            Event::StartNode => state.node_up = true,
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing starts twice", |_, state: &State| state.starts <= 1),
            Property::always(
                "what is said not to have started did not and will not",
                |_, state: &State| {
                    let is_barred = state
                        .rows
                        .is_some_and(|row| row.reason == Some(Reason::NotStarted));
                    !is_barred || state.starts == 0
                },
            ),
            Property::always("what is said to have completed ran", |_, state: &State| {
                state
                    .rows
                    .is_none_or(|row| row.status != RunStatus::Completed || state.starts == 1)
            }),
            Property::always("an end is final, and lost becomes so once", |_, state: &State| {
                state.overwritten == 0 && state.settled <= 1
            }),
            Property::always("what runs has a record", |_, state: &State| {
                state.starts == 0 || state.rows.is_some()
            }),
            Property::always("everything comes to an end", |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                let is_at_rest = actions.iter().all(|event| {
                    matches!(
                        event,
                        Event::Repeat
                            | Event::Straggle
                            | Event::Cut
                            | Event::Kill
                            | Event::KillNode
                            | Event::Outage
                    )
                });
                !is_at_rest || state.rows.is_none_or(|row| row.status.is_final())
            }),
            Property::sometimes("it completes", |_, state: &State| {
                state.rows.is_some_and(|row| row.status == RunStatus::Completed)
            }),
            Property::sometimes("it is lost", |_, state: &State| {
                state.rows.is_some_and(|row| row.status == RunStatus::Lost)
            }),
            Property::sometimes("a late answer turns lost into an end", |_, state: &State| {
                state.settled == 1
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use stateright::{Checker, Expectation, HasDiscoveries};

    use super::*;

    const ALL: Bounds = Bounds {
        cuts: 2,
        kills: 1,
        deaths: 1,
        outages: 1,
    };

    #[test]
    fn it_holds_whatever_breaks() {
        for fenced in [true, false] {
            let model = OnNode {
                fenced,
                bounds: ALL,
                fault: None,
            };
            let checker = model.checker().threads(2).spawn_bfs().join();
            println!("fenced {fenced}: {} states", checker.unique_state_count());
            for property in model.properties() {
                match property.expectation {
                    Expectation::Always => checker.assert_no_discovery(property.name),
                    // The product's nodes say nothing after a reconnect.
                    Expectation::Sometimes if fenced => {
                        checker.assert_any_discovery(property.name);
                    }
                    Expectation::Sometimes | Expectation::Eventually => {}
                }
            }
        }
    }

    #[test]
    fn every_wrong_decision_is_found() {
        for (fault, fenced, property) in [
            (Fault::SendsAgain, false, "nothing starts twice"),
            (
                Fault::ForgetsQuestion,
                true,
                "what is said not to have started did not and will not",
            ),
            (
                Fault::NoFence,
                true,
                "what is said not to have started did not and will not",
            ),
            (
                Fault::LateAnswerCounts,
                true,
                "an end is final, and lost becomes so once",
            ),
            (Fault::UnsyncedLaunch, true, "what runs has a record"),
        ] {
            let model = OnNode {
                fenced,
                bounds: ALL,
                fault: Some(fault),
            };
            let checker = model
                .checker()
                .threads(2)
                .finish_when(HasDiscoveries::AllOf([property].into()))
                .spawn_bfs()
                .join();
            assert!(checker.discovery(property).is_some(), "{fault:?} goes unnoticed");
        }
    }
}
