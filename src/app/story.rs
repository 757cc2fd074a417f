//! The log of the server says what happens: one line for each request, question, answer, denial and end, and for each change of
//! lists and policy. What happens to tokens and sign-ins is logged where it is done.
//!
//! The lines are made of the events that the ledger publishes, so they say what is on record, and nothing waits for them.
//! Commands stand in them on one line, with secrets masked.

use std::{convert::Infallible, time::Duration};

use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::time::sleep;

use countersign_domain::{AgentId, ApprovalId, short_end};
use countersign_ledger::{
    Ledger,
    events::{EventFilter, EventType, Publication, Start, StreamItem, Subscription},
};
use countersign_wire::{event::EventBody, sentence};

/// What a line is written of.
const TYPES: [EventType; 10] = [
    EventType::ExecRequested,
    EventType::ApprovalRequested,
    EventType::ApprovalVoted,
    EventType::ApprovalResolved,
    EventType::ExecDenied,
    EventType::ExecFinished,
    EventType::ExecStopped,
    EventType::ExecResumed,
    EventType::AllowlistChanged,
    EventType::PolicyChanged,
];

/// Pause before the events are read again that could not be.
const RETRY: Duration = Duration::from_secs(1);
/// Pause between lines that come together and the next ones: under load each event would wake this task for itself, and
/// take the processor from those who wait for an answer.
const TOGETHER: Duration = Duration::from_millis(20);

/// The one who writes the lines.
pub(super) struct Story {
    events: Subscription,
}

impl Story {
    /// Of what happens from now on.
    pub(super) fn new(ledger: &Ledger) -> Self {
        let filter = EventFilter {
            types: Some(TYPES.to_vec()),
            ..EventFilter::default()
        };
        Self {
            events: ledger.subscribe(filter, Start::Now),
        }
    }

    /// Writes the lines until it is dropped.
    ///
    /// # Cancel safety
    /// Cancelled, it has lost no line: [`Story::finish`] writes the rest.
    #[expect(
        clippy::infinite_loop,
        reason = "it ends when the server stops, which drops it"
    )]
    pub(super) async fn follow(&mut self) -> Infallible {
        loop {
            match self.events.next().await {
                Ok(Some(item)) => {
                    write(&item);
                    self.finish();
                    sleep(TOGETHER).await;
                }
                // The ledger is closed.
                Ok(None) => std::future::pending().await,
                Err(error) => {
                    tracing::warn!(%error, "the log waits for the events");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Writes the lines that are there.
    pub(super) fn finish(&mut self) {
        while let Some(Ok(Some(item))) = self.events.next().now_or_never() {
            write(&item);
        }
    }
}

fn write(item: &StreamItem) {
    let StreamItem::Event(event) = item else {
        return;
    };
    // Nobody reads what is not logged.
    if !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let Some(text) = words(event) else { return };
    let Publication {
        seq: _,
        event_type,
        subject,
        data: _,
    } = &**event;
    let run = subject.run_id.as_ref().map(|id| short_end(id.as_str()));
    let approval = subject.approval_id.as_ref().map(ApprovalId::slug);
    let agent = subject.agent.as_ref().map(AgentId::as_str);
    if matches!(event_type, EventType::ExecStopped | EventType::ExecResumed) {
        tracing::warn!("{text}");
    } else {
        tracing::info!(run.id = run, approval.id = approval, agent.id = agent, "{text}");
    }
}

fn words(event: &Publication) -> Option<String> {
    let data: Value = serde_json::from_str(&event.data).ok()?;
    let body: EventBody = serde_json::from_value(data).ok()?;
    // A run that was let through has lines of its own.
    let is_use = event.event_type == EventType::AllowlistChanged
        && body.members.get("change").is_some_and(|change| change == "used");
    if is_use {
        return None;
    }
    let text = sentence::of(&body)?.text;
    // Nothing of a command reads as one of the fields behind the words.
    Some(text.replace(".id=", ".id\\u{3D}"))
}
