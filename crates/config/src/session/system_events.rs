//! What a session is told and has not been shown yet (`docs/spec/exec-tool.md#10-system-events`).

use std::collections::VecDeque;

use countersign_domain::{RunId, UnixMillis};

/// So many are kept; the oldest goes.
pub(crate) const MAX_SYSTEM_EVENTS: usize = 20;

/// Something that a session is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemEvent {
    /// When the event was stored that this tells of.
    pub at: UnixMillis,
    /// Text to show, such as `Exec finished (gateway, id=…, code=0)`, with any output tail behind it.
    pub text: String,
    /// The run that it is about.
    pub run_id: Option<RunId>,
}

/// The queue of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SystemEvents(VecDeque<SystemEvent>);

impl SystemEvents {
    /// Adds one. The same text as the last one again is dropped.
    pub fn push(&mut self, event: SystemEvent) {
        if self.0.back().is_some_and(|last| last.text == event.text) {
            return;
        }
        if self.0.len() == MAX_SYSTEM_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    /// All of them, oldest first.
    pub fn peek(&self) -> Vec<SystemEvent> {
        self.0.iter().cloned().collect()
    }

    /// All of them, oldest first; then there are none.
    pub fn drain(&mut self) -> Vec<SystemEvent> {
        std::mem::take(&mut self.0).into()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(text: &str) -> SystemEvent {
        SystemEvent {
            at: UnixMillis::new(1),
            text: text.to_owned(),
            run_id: None,
        }
    }

    fn texts(events: &[SystemEvent]) -> Vec<&str> {
        events.iter().map(|event| event.text.as_str()).collect()
    }

    #[test]
    fn the_same_again_is_dropped_and_the_same_later_is_not() {
        let mut queue = SystemEvents::default();
        for text in ["a", "a", "b", "a"] {
            queue.push(event(text));
        }
        assert_eq!(texts(&queue.peek()), ["a", "b", "a"]);
        assert_eq!(texts(&queue.drain()), ["a", "b", "a"]);
        assert!(queue.is_empty() && queue.drain().is_empty());
        queue.push(event("a"));
        assert_eq!(texts(&queue.peek()), ["a"]);
    }

    proptest! {
        #[test]
        fn the_last_twenty_are_kept_in_their_order(texts in proptest::collection::vec("[a-c]", 0..80)) {
            let mut queue = SystemEvents::default();
            for text in &texts {
                queue.push(event(text));
            }
            let mut expect: Vec<&str> = texts.iter().map(String::as_str).collect();
            expect.dedup();
            let from = expect.len().saturating_sub(MAX_SYSTEM_EVENTS);
            let kept = queue.drain();
            prop_assert_eq!(self::texts(&kept), &expect[from..]);
        }
    }
}
