//! The calls that wait for a person: an agent that asks again with the same arguments means the same call.
//!
//! A model knows neither request ids nor keys; what it can do is to call again. Without this memory each time would be
//! a new question to a person. A call is forgotten when its end was given out, or when its question must be over.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::domain::UnixMillis;

/// How many calls are remembered; the oldest goes. Far above the number of questions that may be open.
const CAPACITY: usize = 4_096;
/// How long after a question's end its result can still be fetched.
const AFTERWARDS: Duration = Duration::from_mins(5);

/// The calls that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<VecDeque<WaitingCall>>);

#[derive(Debug)]
struct WaitingCall {
    scope: String,
    digest: [u8; 32],
    key: String,
    until: UnixMillis,
}

impl Waiting {
    /// The key of the call with these arguments that waits for this caller.
    pub(super) fn key_of(&self, scope: &str, digest: &[u8; 32], now: UnixMillis) -> Option<String> {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let call = calls.iter().find(|call| call.is(scope, digest))?;
        (now < call.until).then(|| call.key.clone())
    }

    /// Remembers that a call waits until `expires`.
    pub(super) fn remember(
        &self,
        scope: &str,
        digest: [u8; 32],
        key: &str,
        expires: UnixMillis,
        now: UnixMillis,
    ) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|call| now < call.until && !call.is(scope, &digest));
        if calls.len() >= CAPACITY {
            calls.pop_front();
        }
        calls.push_back(WaitingCall {
            scope: scope.to_owned(),
            digest,
            key: key.to_owned(),
            until: expires + AFTERWARDS,
        });
    }

    /// The call waits no more, and its end was given out.
    pub(super) fn forget(&self, scope: &str, digest: &[u8; 32]) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|call| !call.is(scope, digest));
    }
}

impl WaitingCall {
    fn is(&self, scope: &str, digest: &[u8; 32]) -> bool {
        self.digest == *digest && self.scope == scope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis::new(1_000_000);

    fn at(millis: i64) -> UnixMillis {
        UnixMillis::new(millis)
    }

    #[test]
    fn a_call_is_remembered_for_its_caller_until_it_is_over() {
        let waiting = Waiting::default();
        waiting.remember("a", [1; 32], "k", at(2_000_000), NOW);
        assert_eq!(waiting.key_of("a", &[1; 32], NOW).as_deref(), Some("k"));
        assert_eq!(waiting.key_of("b", &[1; 32], NOW), None);
        assert_eq!(waiting.key_of("a", &[2; 32], NOW), None);
        assert!(waiting.key_of("a", &[1; 32], at(2_299_999)).is_some());
        assert_eq!(waiting.key_of("a", &[1; 32], at(2_300_000)), None);
        waiting.forget("a", &[1; 32]);
        assert_eq!(waiting.key_of("a", &[1; 32], NOW), None);
    }

    #[test]
    fn the_memory_is_bounded_and_the_oldest_goes_first() {
        let waiting = Waiting::default();
        let digest = |number: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_be_bytes());
            digest
        };
        for number in 0..=CAPACITY {
            waiting.remember("a", digest(number), "k", at(2_000_000), NOW);
        }
        assert_eq!(waiting.key_of("a", &digest(0), NOW), None);
        assert!(waiting.key_of("a", &digest(1), NOW).is_some());
        assert!(waiting.key_of("a", &digest(CAPACITY), NOW).is_some());
    }
}
