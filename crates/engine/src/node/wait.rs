//! The wait for a node, as a state machine: what each thing that is heard or that time brings means, and what is to be
//! done about it. Pure; time is how long the wait has lasted.
//!
//! No step sends the call, so none can send it again. Entry point: [`Wait::step`]; [`super::run_task`] waits for the events
//! and carries the effects out.

use std::time::Duration;

use serde_json::Value;

use countersign_domain::{KillCause, Reason};
use countersign_hosts::node::{
    ConnectionId, InvokeFailure, InvokeResult, NodeError, NodeGeneration, NodeInfo,
    answers::{RunAnswer, RunEvent, RunState},
};

use super::{control::NodeMessage, on_node::is_fenced};

/// How much longer than its time limit a run is waited for (`docs/spec/settings.md#2-countersigntoml`, `[bridge]
/// invoke_timeout_ms`).
pub(super) const BEYOND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a node may take to answer for a run that it was told to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// A run that a node did not refuse by then is said to run, where the node does not say so itself.
const STARTED_AFTER: Duration = Duration::from_secs(1);

/// What of a run decides how its node is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) generation: NodeGeneration,
    /// Whether the node keeps a fence for the run and can be asked about it.
    pub(super) fenced: bool,
    /// The time limit of the run.
    pub(super) timeout: Option<Duration>,
}

/// The wait for one run.
#[derive(Debug)]
pub(super) struct Wait {
    terms: Terms,
    /// How long the node may be away.
    grace: Duration,
    link: Link,
    /// The last connection over which the node came back.
    back_over: Option<ConnectionId>,
    kill: Kill,
    /// The end that the node told of before its answer. The first counts.
    said: Option<NodeEnd>,
    /// Whether the run is known to have started.
    started: bool,
}

/// What is known of the node and its answer.
#[derive(Debug)]
enum Link {
    /// The call waits for its answer, and the link looks after the time.
    Calling {
        /// When a node that says nothing is taken to run it.
        started_by: Option<Duration>,
    },
    /// The call failed for good. What the node told before that still counts.
    Failed(InvokeFailure),
    /// The node may come back until then; one that is asked has come back, and may take its time to answer.
    Away { until: Duration, is_asked: bool },
    /// The node came back and said that the run goes on.
    Back,
}

/// Whether the run is to end.
#[derive(Debug)]
enum Kill {
    Unwanted,
    /// It is, and the node is away.
    Wanted(KillCause),
    /// The node was told, and has to answer by then.
    Told {
        cause: KillCause,
        by: Duration,
    },
}

/// What the wait waits for.
#[derive(Debug)]
pub(super) enum Event {
    /// The call has an answer, or will have none.
    Answer(Result<InvokeResult, InvokeFailure>),
    /// What the node says of the run, if it says anything.
    Status(Option<RunState>),
    Message(NodeMessage),
    /// No message is left of those that came before the call failed.
    HeardOut,
    /// The run is wanted to end.
    Kill(KillCause),
    /// A time of [`Wait::started_by`] or [`Wait::time_up`] has come.
    Time,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Record that the run has started.
    Started,
    /// Tell the node to end the run.
    Cancel,
    /// Ask the node what became of the run, in place of an earlier question.
    Ask(NodeInfo),
    /// The question has no answer any more.
    Forget,
}

/// What comes of an event.
#[derive(Debug)]
pub(super) enum Step {
    /// The wait goes on once this is done, in order.
    On(Wait, Vec<Effect>),
    End(WaitEnd),
}

/// The end of a wait.
#[derive(Debug)]
pub(super) struct WaitEnd {
    pub(super) how: NodeEnd,
    /// Whether it is recorded that the run has started.
    pub(super) started: bool,
}

/// How the wait for a node ended.
#[derive(Debug, PartialEq)]
pub(super) enum NodeEnd {
    Answered(Result<Value, NodeError>),
    /// The node said how it ended before its link broke.
    Told(RunAnswer),
    /// The node said that it refused it, and why, before its link broke.
    Denied(Reason, String),
    NotSent(InvokeFailure),
    /// The fence was taken by the question.
    Void,
    Lost(&'static str),
    /// It was told to end it and did not confirm that.
    Unconfirmed(KillCause),
}

impl Wait {
    /// For the answer to a call that is sent now.
    pub(super) fn for_answer(terms: Terms, grace: Duration) -> Self {
        let started_by = (!terms.fenced).then_some(STARTED_AFTER);
        Self {
            link: Link::Calling { started_by },
            ..Self::for_return(terms, grace)
        }
    }

    /// For a node that an earlier server may have called.
    pub(super) const fn for_return(terms: Terms, grace: Duration) -> Self {
        Self {
            terms,
            grace,
            link: Link::Away {
                until: grace,
                is_asked: false,
            },
            back_over: None,
            kill: Kill::Unwanted,
            said: None,
            started: false,
        }
    }

    /// When the run counts as started, if nothing else happens.
    pub(super) const fn started_by(&self) -> Option<Duration> {
        match self.link {
            Link::Calling { started_by } => started_by,
            Link::Failed(_) | Link::Away { .. } | Link::Back => None,
        }
    }

    /// When the wait is over, if nothing else happens.
    pub(super) fn time_up(&self) -> Option<Duration> {
        self.deadlines().map(|(at, _)| at).min()
    }

    /// Whether it is still to be heard that the run is wanted to end.
    pub(super) const fn awaits_kill(&self) -> bool {
        matches!(self.kill, Kill::Unwanted)
    }

    /// Whether only the messages that came already count: [`Event::HeardOut`] follows the last of them.
    pub(super) const fn hears_out(&self) -> bool {
        matches!(self.link, Link::Failed(_))
    }

    /// Takes an event at this time.
    pub(super) fn step(mut self, event: Event, now: Duration) -> Step {
        let until = now + self.grace;
        let mut effects = Vec::new();
        match event {
            Event::Answer(Ok(result)) => return self.end(NodeEnd::Answered(result.outcome)),
            Event::Answer(Err(InvokeFailure::Disconnected)) if self.terms.fenced => {
                self.link = Link::Away {
                    until,
                    is_asked: false,
                };
            }
            Event::Answer(Err(failure)) => self.link = Link::Failed(failure),
            Event::Status(Some(RunState::Void)) => return self.end(NodeEnd::Void),
            Event::Status(Some(RunState::Ended(outcome))) => return self.end(NodeEnd::Answered(outcome)),
            Event::Status(Some(RunState::Running)) => {
                self.link = Link::Back;
                self.mark_started(&mut effects);
                // What it was told before may have been lost with its connection.
                if let Some(cause) = self.cause() {
                    self.tell_to_end(cause, now, &mut effects);
                }
            }
            // It may be away again, or come back once more, until its time is up.
            Event::Status(None) => self.leave(until),
            Event::Message(NodeMessage::Event(event)) => self.hear(event, &mut effects),
            Event::Message(NodeMessage::Late(result)) if !matches!(self.link, Link::Calling { .. }) => {
                return self.end(NodeEnd::Answered(result.outcome));
            }
            Event::Message(NodeMessage::Connected(node)) if self.is_away_or_back() && is_fenced(&node) => {
                self.back_over = self.back_over.max(node.connection);
                if let Link::Away { is_asked, .. } = &mut self.link {
                    *is_asked = true;
                }
                effects.push(Effect::Ask(node));
            }
            // That of an earlier one may come late: the node was looked for before it was back.
            Event::Message(NodeMessage::Disconnected(ended))
                if self.is_away_or_back() && self.back_over.is_none_or(|over| over <= ended) =>
            {
                self.leave(until);
                effects.push(Effect::Forget);
            }
            Event::Message(
                NodeMessage::Late(_) | NodeMessage::Connected(_) | NodeMessage::Disconnected(_),
            ) => {}
            Event::HeardOut => match &self.link {
                Link::Failed(failure) if failure.was_not_sent() => {
                    let how = NodeEnd::NotSent(failure.clone());
                    return self.end(how);
                }
                Link::Failed(InvokeFailure::TimedOut) => {
                    return self.end_as_said_or(NodeEnd::Lost("the node did not answer in time"));
                }
                Link::Failed(_) => {
                    let why = "the connection of the node ended before it answered";
                    return self.end_as_said_or(NodeEnd::Lost(why));
                }
                Link::Calling { .. } | Link::Away { .. } | Link::Back => {}
            },
            Event::Kill(cause) => match self.link {
                // One that is away is told once it is there and says that the run goes on.
                Link::Away { .. } => self.kill = Kill::Wanted(cause),
                Link::Calling { .. } | Link::Failed(_) | Link::Back => {
                    self.tell_to_end(cause, now, &mut effects);
                }
            },
            Event::Time if self.started_by().is_some_and(|at| at <= now) => {
                self.link = Link::Calling { started_by: None };
                self.mark_started(&mut effects);
            }
            Event::Time => {
                let passed = self.deadlines().find(|(at, _)| *at <= now);
                if let Some((_, why)) = passed {
                    let unsaid = self.cause().map_or(NodeEnd::Lost(why), NodeEnd::Unconfirmed);
                    return self.end_as_said_or(unsaid);
                }
            }
        }
        Step::On(self, effects)
    }

    /// The times at which the wait is over, and why; of several that have passed the first counts.
    fn deadlines(&self) -> impl Iterator<Item = (Duration, &'static str)> + use<> {
        let cancelled_by = match self.kill {
            Kill::Told { by, .. } => Some((by, "the node did not answer")),
            Kill::Unwanted | Kill::Wanted(_) => None,
        };
        let back_by = match self.link {
            Link::Away {
                until,
                is_asked: false,
            } => Some((until, "the node did not come back")),
            Link::Away { is_asked: true, .. } | Link::Calling { .. } | Link::Failed(_) | Link::Back => None,
        };
        let limit = self.terms.timeout.filter(|_| self.is_away_or_back());
        let given_up_by = limit.map(|limit| {
            let at = limit + BEYOND_TIMEOUT + self.grace;
            (at, "the node did not answer in time")
        });
        [cancelled_by, back_by, given_up_by].into_iter().flatten()
    }

    fn hear(&mut self, event: RunEvent, effects: &mut Vec<Effect>) {
        let end = match event {
            RunEvent::Started => {
                if let Link::Calling { started_by } = &mut self.link {
                    *started_by = None;
                }
                return self.mark_started(effects);
            }
            RunEvent::Finished(answer) => NodeEnd::Told(answer),
            RunEvent::Denied(reason, words) => NodeEnd::Denied(reason, words),
        };
        self.said.get_or_insert(end);
    }

    fn mark_started(&mut self, effects: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.started, true) {
            effects.push(Effect::Started);
        }
    }

    fn tell_to_end(&mut self, cause: KillCause, now: Duration, effects: &mut Vec<Effect>) {
        // The first generation does not know what that means.
        let timeout = match self.terms.generation {
            NodeGeneration::First => Duration::ZERO,
            NodeGeneration::Present | NodeGeneration::Ours => CANCEL_TIMEOUT,
        };
        self.kill = Kill::Told {
            cause,
            by: now + timeout,
        };
        effects.push(Effect::Cancel);
    }

    /// The node is away, until then if it was there.
    fn leave(&mut self, until: Duration) {
        let until = match self.link {
            Link::Away { until, .. } => until,
            Link::Calling { .. } | Link::Failed(_) | Link::Back => until,
        };
        self.link = Link::Away {
            until,
            is_asked: false,
        };
    }

    const fn is_away_or_back(&self) -> bool {
        matches!(self.link, Link::Away { .. } | Link::Back)
    }

    const fn cause(&self) -> Option<KillCause> {
        match self.kill {
            Kill::Unwanted => None,
            Kill::Wanted(cause) | Kill::Told { cause, .. } => Some(cause),
        }
    }

    fn end(self, how: NodeEnd) -> Step {
        let started = self.started;
        Step::End(WaitEnd { how, started })
    }

    /// What the node told before counts.
    fn end_as_said_or(mut self, unsaid: NodeEnd) -> Step {
        let how = self.said.take().unwrap_or(unsaid);
        self.end(how)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use countersign_protocol::bridge;

    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const GRACE: Duration = secs(20);
    const LIMIT: Duration = secs(60);

    fn terms(generation: NodeGeneration) -> Terms {
        Terms {
            generation,
            fenced: generation == NodeGeneration::Ours,
            timeout: Some(LIMIT),
        }
    }

    fn called(generation: NodeGeneration) -> Wait {
        Wait::for_answer(terms(generation), GRACE)
    }

    fn node(generation: NodeGeneration) -> NodeInfo {
        NodeInfo {
            node_id: "n".to_owned(),
            display_name: None,
            is_labelled: false,
            remote_ip: None,
            platform: None,
            commands: vec![bridge::SYSTEM_RUN.to_owned(), bridge::RUN_STATUS.to_owned()],
            generation: Some(generation),
            connection: Some(ConnectionId(1)),
        }
    }

    fn result() -> InvokeResult {
        InvokeResult {
            outcome: Ok(json!("x")),
        }
    }

    fn answered() -> Event {
        Event::Answer(Ok(result()))
    }

    fn late() -> Event {
        Event::Message(NodeMessage::Late(result()))
    }

    fn ended() -> Event {
        Event::Status(Some(RunState::Ended(result().outcome)))
    }

    fn by_answer() -> NodeEnd {
        NodeEnd::Answered(result().outcome)
    }

    fn failed(failure: InvokeFailure) -> Event {
        Event::Answer(Err(failure))
    }

    fn told(event: RunEvent) -> Event {
        Event::Message(NodeMessage::Event(event))
    }

    fn finished(stdout: &str) -> RunAnswer {
        RunAnswer {
            stdout: stdout.to_owned(),
            ..RunAnswer::default()
        }
    }

    fn connected(generation: NodeGeneration) -> Event {
        Event::Message(NodeMessage::Connected(node(generation)))
    }

    const RUNNING: Event = Event::Status(Some(RunState::Running));
    const DISCONNECTED: Event = Event::Message(NodeMessage::Disconnected(ConnectionId(1)));
    const STOPPED: Event = Event::Kill(KillCause::Stopped);

    /// A wait, what it had done, and how it ended if it did.
    struct Story {
        wait: Option<Wait>,
        now: Duration,
        done: Vec<Effect>,
        end: Option<NodeEnd>,
    }

    impl Story {
        fn of(wait: Wait) -> Self {
            Self {
                wait: Some(wait),
                now: Duration::ZERO,
                done: Vec::new(),
                end: None,
            }
        }

        fn hears(mut self, event: Event) -> Self {
            match self.wait.take().expect("the wait goes on").step(event, self.now) {
                Step::On(wait, effects) => {
                    self.wait = Some(wait);
                    self.done.extend(effects);
                }
                Step::End(end) => {
                    assert_eq!(end.started, self.done.contains(&Effect::Started));
                    self.end = Some(end.how);
                }
            }
            self
        }

        fn at(mut self, now: Duration) -> Self {
            self.now = now;
            self
        }

        fn wait(&self) -> &Wait {
            self.wait.as_ref().expect("the wait goes on")
        }

        /// Lets time pass until it is up.
        fn time_up(self) -> Self {
            let at = self.wait().time_up().expect("the time is up at some time");
            self.at(at).hears(Event::Time)
        }

        #[track_caller]
        fn goes_on(self, done: &[Effect]) {
            assert!(self.end.is_none(), "{:?}", self.end);
            assert_eq!(self.done, done);
        }

        #[track_caller]
        fn ends(self, end: NodeEnd) {
            assert_eq!(self.end, Some(end));
        }
    }

    /// A node with a fence whose link broke while it was called.
    fn away() -> Story {
        Story::of(called(NodeGeneration::Ours)).hears(failed(InvokeFailure::Disconnected))
    }

    /// The same after it came back and said that the run goes on.
    fn back() -> Story {
        away().hears(connected(NodeGeneration::Ours)).hears(RUNNING)
    }

    #[test]
    fn an_answer_ends_the_wait_whatever_was_told_before() {
        for generation in [
            NodeGeneration::First,
            NodeGeneration::Present,
            NodeGeneration::Ours,
        ] {
            Story::of(called(generation))
                .hears(told(RunEvent::Finished(finished("told"))))
                .hears(STOPPED)
                .hears(answered())
                .ends(by_answer());
        }
    }

    #[test]
    fn a_start_is_recorded_once_when_the_node_says_so_or_by_then() {
        let story = Story::of(called(NodeGeneration::Present));
        assert_eq!(story.wait().started_by(), Some(STARTED_AFTER));
        let story = story.at(STARTED_AFTER).hears(Event::Time);
        assert_eq!(story.wait().started_by(), None);
        story
            .hears(told(RunEvent::Started))
            .hears(Event::Time)
            .goes_on(&[Effect::Started]);
        let story = Story::of(called(NodeGeneration::Present)).hears(told(RunEvent::Started));
        assert_eq!(story.wait().started_by(), None);
        // A node that keeps a fence says when it starts.
        let story = Story::of(called(NodeGeneration::Ours));
        assert_eq!((story.wait().started_by(), story.wait().time_up()), (None, None));
        let started_first = Story::of(called(NodeGeneration::Ours))
            .hears(told(RunEvent::Started))
            .hears(failed(InvokeFailure::Disconnected))
            .hears(RUNNING);
        started_first.goes_on(&[Effect::Started]);
    }

    #[test]
    fn a_call_that_failed_for_good_ends_with_what_was_told_before() {
        let fails = |failure: InvokeFailure| {
            let story = Story::of(called(NodeGeneration::Present)).hears(failed(failure));
            assert!(story.wait().hears_out());
            story
        };
        let is_lost = NodeEnd::Lost("the connection of the node ended before it answered");
        fails(InvokeFailure::Disconnected)
            .hears(Event::HeardOut)
            .ends(is_lost);
        let is_late = NodeEnd::Lost("the node did not answer in time");
        fails(InvokeFailure::TimedOut)
            .hears(Event::HeardOut)
            .ends(is_late);
        for failure in [InvokeFailure::Disconnected, InvokeFailure::TimedOut] {
            let story = fails(failure)
                .hears(told(RunEvent::Started))
                .hears(DISCONNECTED)
                .hears(connected(NodeGeneration::Present))
                .hears(told(RunEvent::Finished(finished("first"))))
                .hears(told(RunEvent::Denied(Reason::NodeRefused, "second".to_owned())));
            assert_eq!(story.done, [Effect::Started]);
            story
                .hears(Event::HeardOut)
                .ends(NodeEnd::Told(finished("first")));
        }
        fails(InvokeFailure::Disconnected).hears(late()).ends(by_answer());
        // Of a call that was not sent a node has nothing to tell.
        fails(InvokeFailure::Full)
            .hears(told(RunEvent::Denied(Reason::NodeRefused, String::new())))
            .hears(Event::HeardOut)
            .ends(NodeEnd::NotSent(InvokeFailure::Full));
        // Nobody asks one that keeps a fence when only its time was up.
        Story::of(called(NodeGeneration::Ours))
            .hears(failed(InvokeFailure::TimedOut))
            .hears(Event::HeardOut)
            .ends(NodeEnd::Lost("the node did not answer in time"));
    }

    #[test]
    fn while_the_call_waits_only_it_can_be_answered() {
        Story::of(called(NodeGeneration::Ours))
            .hears(late())
            .hears(connected(NodeGeneration::Ours))
            .hears(DISCONNECTED)
            .at(secs(1_000_000))
            .hears(Event::Time)
            .goes_on(&[]);
    }

    #[test]
    fn a_node_that_comes_back_is_asked_if_it_keeps_a_fence() {
        let ask = Effect::Ask(node(NodeGeneration::Ours));
        away()
            .hears(connected(NodeGeneration::Present))
            .hears(connected(NodeGeneration::Ours))
            .goes_on(std::slice::from_ref(&ask));
        let asked = || away().hears(connected(NodeGeneration::Ours));
        asked().hears(ended()).ends(by_answer());
        asked()
            .hears(Event::Status(Some(RunState::Void)))
            .ends(NodeEnd::Void);
        asked().hears(late()).ends(by_answer());
        asked().hears(RUNNING).goes_on(&[ask.clone(), Effect::Started]);
        asked().hears(DISCONNECTED).goes_on(&[ask, Effect::Forget]);
    }

    #[test]
    fn the_late_end_of_an_earlier_connection_changes_nothing() {
        let over = |connection| {
            Event::Message(NodeMessage::Connected(NodeInfo {
                connection: Some(ConnectionId(connection)),
                ..node(NodeGeneration::Ours)
            }))
        };
        // What it was asked is still asked, and it is told to end the run once it says that it goes on.
        away()
            .hears(over(2))
            .hears(DISCONNECTED)
            .hears(STOPPED)
            .hears(RUNNING)
            .hears(DISCONNECTED)
            .goes_on(&[
                Effect::Ask(NodeInfo {
                    connection: Some(ConnectionId(2)),
                    ..node(NodeGeneration::Ours)
                }),
                Effect::Started,
                Effect::Cancel,
            ]);
    }

    #[test]
    fn a_node_that_is_asked_in_time_may_answer_late() {
        let lost = || NodeEnd::Lost("the node did not come back");
        let asked = || away().hears(connected(NodeGeneration::Ours)).at(GRACE + secs(1));
        let story = asked().hears(Event::Time);
        assert_eq!(story.wait().time_up(), Some(LIMIT + BEYOND_TIMEOUT + GRACE));
        story.hears(ended()).ends(by_answer());
        for gone in [DISCONNECTED, Event::Status(None)] {
            asked().hears(gone).hears(Event::Time).ends(lost());
        }
    }

    #[test]
    fn a_node_that_stays_away_is_waited_for_from_when_it_left() {
        let lost = || NodeEnd::Lost("the node did not come back");
        let story = away().at(secs(5)).hears(DISCONNECTED).hears(Event::Status(None));
        assert_eq!(story.wait().time_up(), Some(GRACE));
        story.time_up().ends(lost());
        Story::of(Wait::for_return(terms(NodeGeneration::Ours), GRACE))
            .time_up()
            .ends(lost());
        for leaves in [DISCONNECTED, Event::Status(None)] {
            let story = back().at(secs(7)).hears(leaves);
            assert_eq!(story.wait().time_up(), Some(GRACE + secs(7)));
            story.time_up().ends(lost());
        }
        away()
            .hears(told(RunEvent::Finished(finished("x"))))
            .time_up()
            .ends(NodeEnd::Told(finished("x")));
    }

    #[test]
    fn a_run_that_goes_on_without_a_call_has_a_last_time() {
        let story = back();
        assert_eq!(story.wait().time_up(), Some(LIMIT + BEYOND_TIMEOUT + GRACE));
        story
            .time_up()
            .ends(NodeEnd::Lost("the node did not answer in time"));
        let unlimited = Terms {
            timeout: None,
            ..terms(NodeGeneration::Ours)
        };
        let story = Story::of(Wait::for_return(unlimited, GRACE)).hears(RUNNING);
        assert_eq!(story.wait().time_up(), None);
        story.hears(Event::Time).goes_on(&[Effect::Started]);
    }

    #[test]
    fn a_node_that_is_told_to_end_it_has_some_time_to_answer() {
        let unconfirmed = || NodeEnd::Unconfirmed(KillCause::Stopped);
        for (generation, time) in [
            (NodeGeneration::First, Duration::ZERO),
            (NodeGeneration::Present, CANCEL_TIMEOUT),
            (NodeGeneration::Ours, CANCEL_TIMEOUT),
        ] {
            let story = Story::of(called(generation)).at(secs(3)).hears(STOPPED);
            assert_eq!(story.done, [Effect::Cancel]);
            assert!(!story.wait().awaits_kill());
            assert_eq!(story.wait().time_up(), Some(secs(3) + time));
            let story = story.at(secs(3) + time);
            // A run that is taken for started after a while is told of before its end.
            let story = if story.wait().started_by().is_some() {
                story.hears(Event::Time)
            } else {
                story
            };
            story.hears(Event::Time).ends(unconfirmed());
        }
        back().hears(STOPPED).time_up().ends(unconfirmed());
        Story::of(called(NodeGeneration::Present))
            .hears(STOPPED)
            .hears(told(RunEvent::Finished(finished("x"))))
            .at(CANCEL_TIMEOUT)
            .hears(Event::Time)
            .hears(Event::Time)
            .ends(NodeEnd::Told(finished("x")));
    }

    #[test]
    fn a_node_that_is_away_is_told_once_it_says_that_the_run_goes_on() {
        let story = away().hears(STOPPED);
        assert_eq!(story.done, []);
        assert_eq!(story.wait().time_up(), Some(GRACE));
        let story = story
            .hears(connected(NodeGeneration::Ours))
            .at(secs(9))
            .hears(RUNNING);
        assert_eq!(story.done.last(), Some(&Effect::Cancel));
        assert_eq!(story.wait().time_up(), Some(secs(9) + CANCEL_TIMEOUT));
        story.time_up().ends(NodeEnd::Unconfirmed(KillCause::Stopped));
        away()
            .hears(STOPPED)
            .time_up()
            .ends(NodeEnd::Unconfirmed(KillCause::Stopped));
        // It may not have heard it before its link broke.
        let again = Story::of(called(NodeGeneration::Ours))
            .hears(STOPPED)
            .hears(failed(InvokeFailure::Disconnected))
            .hears(RUNNING);
        again.goes_on(&[Effect::Cancel, Effect::Started, Effect::Cancel]);
    }

    /// An event that the wait can get in its state, chosen by `choice`.
    fn possible(wait: &Wait, choice: u8, is_asked: bool) -> Option<Event> {
        let message = match choice % 6 {
            0 => told(RunEvent::Started),
            1 => told(RunEvent::Finished(finished("x"))),
            2 => late(),
            3 => connected(NodeGeneration::Ours),
            _ => DISCONNECTED,
        };
        if wait.hears_out() {
            return Some(if choice < 32 { Event::HeardOut } else { message });
        }
        match choice / 16 {
            0 if !wait.is_away_or_back() => Some(match choice {
                0 => answered(),
                1 => failed(InvokeFailure::Full),
                2 => failed(InvokeFailure::TimedOut),
                _ => failed(InvokeFailure::Disconnected),
            }),
            1 if is_asked => Some(match choice % 5 {
                0 => Event::Status(Some(RunState::Void)),
                1 => ended(),
                2 => Event::Status(None),
                _ => RUNNING,
            }),
            2 if wait.awaits_kill() => Some(STOPPED),
            3 => Some(Event::Time),
            0..=3 => None,
            _ => Some(message),
        }
    }

    proptest! {
           #[test]
           fn no_order_of_events_starts_twice_tells_twice_or_never_ends(
               generation in prop::sample::select(vec![
                   NodeGeneration::First, NodeGeneration::Present, NodeGeneration::Ours,
               ]),
               is_resumed in any::<bool>(),
               events in prop::collection::vec((any::<u8>(), 0_u64..8_000), 0..60),
           ) {
               let terms = terms(generation);
               let mut wait = if is_resumed { Wait::for_return(terms, GRACE) } else { Wait::for_answer(terms, GRACE) };
               let (mut now, mut is_asked, mut is_started) = (Duration::ZERO, false, false);
               // Whether the node that is there can still be told.
               let (mut is_wanted, mut is_told) = (false, false);
               let events = events.into_iter().map(Some).chain(std::iter::repeat_n(None, 9));
               for event in events {
                   let event = if let Some((choice, millis)) = event {
                       now += Duration::from_millis(millis);
                       let Some(event) = possible(&wait, choice, is_asked) else { continue };
                       event
                   } else if wait.hears_out() {
                       Event::HeardOut
                   } else if !wait.is_away_or_back() {
                       failed(InvokeFailure::TimedOut)
                   } else if is_asked {
                       Event::Status(None)
                   } else {
                       // Nothing more is heard.
                       now = now.max(wait.time_up().expect("without a call time ends it"));
                       Event::Time
                   };
                   is_wanted |= matches!(event, Event::Kill(_));
                   let is_running = matches!(event, Event::Status(Some(RunState::Running)));
                   is_asked &= !matches!(event, Event::Status(_));
                   is_told &= !is_running;
                   let must_end = matches!(
                       event,
                       Event::Answer(Ok(_)) | Event::HeardOut | Event::Status(Some(RunState::Void | RunState::Ended(_)))
                   );
                   match wait.step(event, now) {
                       Step::End(end) => {
                           prop_assert_eq!(end.started, is_started);
                           if let NodeEnd::Unconfirmed(_) = end.how {
                               prop_assert!(is_wanted);
                           }
                           return Ok(());
                       }
                       Step::On(next, effects) => {
                           prop_assert!(!must_end);
                           for effect in effects {
                               match effect {
                                   Effect::Started => prop_assert!(!std::mem::replace(&mut is_started, true)),
                                   Effect::Cancel => {
                                       prop_assert!(is_wanted && !std::mem::replace(&mut is_told, true));
                                       let is_away = matches!(next.link, Link::Away { .. });
    prop_assert!(!is_away);
                                   }
                                   Effect::Ask(_) => is_asked = true,
                                   Effect::Forget => is_asked = false,
                               }
                           }
                           prop_assert!(!is_running || next.started);
                           wait = next;
                       }
                   }
               }
               prop_assert!(false, "it never ends: {wait:?}");
           }
       }
}
