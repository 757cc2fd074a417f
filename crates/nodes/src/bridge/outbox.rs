//! What waits to be sent to one peer. Anybody may put something in; one task sends it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use countersign_hosts::node::Oversize;
use countersign_protocol::bridge::{AUTH_CHANGED, Close, Frame, POLICY};

/// What part of an outbox calls leave free for what has to be told: ticks, answers, the end.
const KEPT_FREE: usize = 8;

/// Answers that a role is wrong which one connection may get (`docs/spec/bridge.md#7-keepalive-and-closing`).
const MOST_UNAUTHORIZED: usize = 10;

/// What waits to be sent to one peer; cheap to clone.
///
/// A peer that does not take what it is sent is cut off once too much waits: nobody else waits for it.
#[derive(Debug, Clone)]
pub struct Outbox(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    state: Mutex<OutboxQueue>,
    changed: Notify,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct OutboxQueue {
    waiting: VecDeque<String>,
    /// Bytes that wait, with those that are being sent.
    bytes: usize,
    unauthorized: usize,
    closing: Option<Close>,
}

/// Why a text was not put in. The connection goes on as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsent {
    /// It is closing or has ended.
    Closing,
    /// Too much waits already.
    Full,
    /// It would not fit if nothing waited.
    TooLarge(Oversize),
}

/// What to do next on the wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Text(String),
    /// Close, and send nothing more.
    Close(Close),
}

impl Outbox {
    /// An empty one that holds this many bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Shared {
            limit,
            state: Mutex::default(),
            changed: Notify::new(),
            ended: CancellationToken::new(),
        }))
    }

    /// Puts a frame in. `false` when the connection is closing, also because this frame was too much.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "what was put in is nobody's any more"
    )]
    pub fn send(&self, frame: Frame) -> bool {
        let is_unauthorized = matches!(
            &frame,
            Frame::Response(response)
                if response.error.as_ref().is_some_and(|error| error.message.starts_with("unauthorized role:"))
        );
        let text = frame.to_text();
        let mut state = self.state();
        if state.closing.is_some() {
            return false;
        }
        if state.bytes.saturating_add(text.len()) > self.0.limit {
            // It would take none of what waits.
            state.waiting.clear();
            self.begin_closing(state, Close::new(POLICY, "slow consumer"));
            return false;
        }
        state.bytes += text.len();
        state.waiting.push_back(text);
        if is_unauthorized {
            state.unauthorized += 1;
            if state.unauthorized > MOST_UNAUTHORIZED {
                self.begin_closing(state, Close::new(POLICY, "repeated unauthorized requests"));
                return true;
            }
        }
        drop(state);
        self.0.changed.notify_one();
        true
    }

    /// Puts a text in if there is room for it. What others have a peer do is no reason to cut it off.
    pub(super) fn offer(&self, text: String) -> Result<(), Unsent> {
        let room = self.0.limit - self.0.limit / KEPT_FREE;
        if text.len() > room {
            return Err(Unsent::TooLarge(Oversize {
                bytes: text.len(),
                most: room,
            }));
        }
        let mut state = self.state();
        if state.closing.is_some() {
            return Err(Unsent::Closing);
        }
        if state.bytes.saturating_add(text.len()) > room {
            return Err(Unsent::Full);
        }
        state.bytes += text.len();
        state.waiting.push_back(text);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Sends what waits, and closes the connection. The first reason counts.
    pub fn close(&self, code: u16, reason: &str) {
        let state = self.state();
        if state.closing.is_none() {
            self.begin_closing(state, Close::new(code, reason));
        }
    }

    /// Closes the connection at once: what waits is for a peer that is no longer there.
    pub(super) fn cut(&self, reason: &str) {
        let mut state = self.state();
        if state.closing.is_none() {
            state.waiting.clear();
            self.begin_closing(state, Close::new(AUTH_CHANGED, reason));
        }
    }

    /// Completes when the connection closes or has ended.
    #[crate::compiled_once]
    pub async fn closed(&self) {
        self.0.ended.cancelled().await;
    }

    /// Whether it closes or has ended.
    pub fn is_closed(&self) -> bool {
        self.0.ended.is_cancelled()
    }

    /// Notes that the connection is gone.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.waiting.clear();
        self.begin_closing(state, Close::new(POLICY, "gone"));
    }

    /// The next thing to do. When the caller has sent a text, it says so with [`Self::sent`].
    ///
    /// # Cancel safety
    /// Nothing is lost: a text leaves only together with the answer.
    pub(super) async fn next(&self) -> Next {
        loop {
            {
                let mut state = self.state();
                if let Some(text) = state.waiting.pop_front() {
                    return Next::Text(text);
                }
                if let Some(close) = &state.closing {
                    return Next::Close(close.clone());
                }
            }
            self.0.changed.notified().await;
        }
    }

    /// Notes that so many bytes were taken.
    pub(super) fn sent(&self, bytes: usize) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    fn begin_closing(&self, mut state: MutexGuard<'_, OutboxQueue>, close: Close) {
        state.closing.get_or_insert(close);
        drop(state);
        self.0.ended.cancel();
        self.0.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, OutboxQueue> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use countersign_protocol::bridge::{Event, Request, WireError};

    fn event(size: usize) -> Frame {
        Event::new("e", json!("x".repeat(size))).into()
    }

    #[tokio::test]
    async fn what_waits_is_sent_before_the_close() {
        let outbox = Outbox::new(1000);
        assert!(outbox.send(event(1)));
        outbox.close(1012, "service restart");
        outbox.close(1000, "too late");
        assert!(!outbox.send(event(2)));
        assert!(outbox.is_closed());
        let text = event(1).to_text();
        assert_eq!(outbox.next().await, Next::Text(text.clone()));
        outbox.sent(text.len());
        assert_eq!(
            outbox.next().await,
            Next::Close(Close::new(1012, "service restart"))
        );
    }

    #[tokio::test]
    async fn who_takes_too_little_is_cut_off() {
        let outbox = Outbox::new(200);
        assert!(outbox.send(event(100)));
        assert!(matches!(outbox.next().await, Next::Text(_)));
        // What is being sent still counts.
        assert!(!outbox.send(event(100)));
        assert_eq!(
            outbox.next().await,
            Next::Close(Close::new(POLICY, "slow consumer"))
        );
    }

    #[tokio::test]
    async fn what_is_offered_never_ends_the_connection() {
        let outbox = Outbox::new(800);
        assert_eq!(
            outbox.offer("x".repeat(701)),
            Err(Unsent::TooLarge(Oversize {
                bytes: 701,
                most: 700
            }))
        );
        assert_eq!(outbox.offer("x".repeat(700)), Ok(()));
        assert_eq!(outbox.offer("x".to_owned()), Err(Unsent::Full));
        assert!(!outbox.is_closed());
        // There is room for what has to be told.
        assert!(outbox.send(event(1)));
        assert_eq!(outbox.next().await, Next::Text("x".repeat(700)));
        outbox.sent(700);
        assert_eq!(outbox.offer("y".repeat(600)), Ok(()));
        outbox.close(1012, "service restart");
        assert_eq!(outbox.offer("z".to_owned()), Err(Unsent::Closing));
    }

    #[tokio::test]
    async fn what_was_taken_makes_room() {
        let outbox = Outbox::new(200);
        for _ in 0..10 {
            assert!(outbox.send(event(100)));
            let Next::Text(text) = outbox.next().await else {
                panic!("a text waits");
            };
            outbox.sent(text.len());
        }
    }

    #[test]
    fn who_asks_for_what_is_not_theirs_too_often_is_closed() {
        let outbox = Outbox::new(100_000);
        let refusal = || -> Frame {
            Request::new("1", "node.list", json!({}))
                .fail(WireError::unauthorized_role("node"))
                .into()
        };
        for _ in 0..MOST_UNAUTHORIZED {
            assert!(outbox.send(refusal()));
        }
        assert!(!outbox.is_closed());
        assert!(outbox.send(refusal()));
        assert_eq!(
            outbox.state().closing.as_ref().map(|close| close.code),
            Some(POLICY)
        );
        assert!(!outbox.send(refusal()));
    }
}
