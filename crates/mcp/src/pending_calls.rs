//! The calls that wait for a person: an agent that asks again with the same arguments means the same call.
//!
//! A model knows neither request ids nor keys; what it can do is to call again. Without this memory each time would be
//! a new question to a person. A call is forgotten when its end was given out, or when its question must be over.
//!
//! A client may take a call back before it had any answer, and make it again at once. Nothing tells then whether a
//! person was asked, so the key of such a call is kept for a while as one in [doubt](Known::Doubtful). The same holds when
//! the answer crosses the notification: the client ignores an answer to a call that it took back.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use countersign_domain::UnixMillis;

/// How many calls are remembered; the oldest goes. Far above the number of questions that may be open.
const CAPACITY: usize = 4_096;
/// How long after a question's end its result can still be fetched.
const AFTERWARDS: Duration = Duration::from_mins(5);

/// How long the key of a call that was taken back without an answer is in doubt, and how long after an answer a client may
/// say that it took the call back.
const DOUBT: Duration = Duration::from_mins(1);

/// The calls that wait.
#[derive(Debug, Default)]
pub(super) struct PendingCalls {
    calls: Mutex<VecDeque<PendingCall>>,
    /// As many as requests are worked on.
    unanswered: Mutex<Vec<UnansweredCall>>,
    /// Calls whose end was given out a moment ago.
    answered: Mutex<VecDeque<AnsweredCall>>,
}

#[derive(Debug)]
struct PendingCall {
    scope: String,
    digest: [u8; 32],
    key: String,
    until: UnixMillis,
    is_doubtful: bool,
}

#[derive(Debug)]
struct UnansweredCall {
    scope: String,
    digest: [u8; 32],
    key: String,
    /// Either of them ends when the client takes it back.
    taken_back: [CancellationToken; 2],
}

#[derive(Debug)]
struct AnsweredCall {
    scope: String,
    digest: [u8; 32],
    key: String,
    /// The id of its request, as JSON.
    request: String,
    until: UnixMillis,
}

/// A call that a new one with the same arguments may join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// A person was asked about it.
    Waits(String),
    /// It was taken back before it was answered: it may wait, have been killed, or never have begun.
    Doubtful(String),
}

/// The place of a call that has no answer yet.
#[derive(Debug)]
pub(super) struct Unanswered<'a> {
    pending: &'a PendingCalls,
    scope: &'a str,
    digest: [u8; 32],
    key: &'a str,
    now: UnixMillis,
    is_answered: bool,
}

impl PendingCalls {
    /// The call with these arguments that waits for this caller.
    pub(super) fn call_of(&self, scope: &str, digest: &[u8; 32], now: UnixMillis) -> Option<Known> {
        // Looked at first: what is taken back at this moment leaves there only once it is among the others.
        let taken_back = lock(&self.unanswered)
            .iter()
            .find(|call| call.digest == *digest && call.scope == scope && call.is_taken_back())
            .map(|call| Known::Doubtful(call.key.clone()));
        taken_back.or_else(|| {
            let calls = lock(&self.calls);
            let call = calls.iter().find(|call| call.is(scope, digest))?;
            (now < call.until).then(|| call.known())
        })
    }

    /// Notes a call that begins. `taken_back` end when its client does not want it any more.
    pub(super) fn begin<'a>(
        &'a self,
        scope: &'a str,
        (digest, key): ([u8; 32], &'a str),
        taken_back: [CancellationToken; 2],
        now: UnixMillis,
    ) -> Unanswered<'a> {
        lock(&self.unanswered).push(UnansweredCall {
            scope: scope.to_owned(),
            digest,
            key: key.to_owned(),
            taken_back,
        });
        Unanswered {
            pending: self,
            scope,
            digest,
            key,
            now,
            is_answered: false,
        }
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
        let call = PendingCall {
            scope: scope.to_owned(),
            digest,
            key: key.to_owned(),
            until: expires + AFTERWARDS,
            is_doubtful: false,
        };
        self.keep(call, now);
    }

    /// The call waits no more, and its end was given out.
    pub(super) fn forget(&self, scope: &str, digest: &[u8; 32]) {
        lock(&self.calls).retain(|call| !call.is(scope, digest));
    }

    /// The end of a call was given out as the answer to a request.
    pub(super) fn answered(&self, scope: &str, call: ([u8; 32], &str), request: String, now: UnixMillis) {
        let (digest, key) = call;
        let mut answered = lock(&self.answered);
        while answered.len() >= CAPACITY || answered.front().is_some_and(|call| call.until <= now) {
            answered.pop_front();
        }
        answered.push_back(AnsweredCall {
            scope: scope.to_owned(),
            digest,
            key: key.to_owned(),
            request,
            until: now + DOUBT,
        });
    }

    /// The client took a request back. Where that was answered already, the client ignores the answer.
    pub(super) fn taken_back(&self, scope: &str, request: &str, now: UnixMillis) {
        let call = {
            let mut answered = lock(&self.answered);
            let is_it =
                |call: &AnsweredCall| call.scope == scope && call.request == request && now < call.until;
            let place = answered.iter().rposition(is_it);
            place.and_then(|place| answered.remove(place))
        };
        if let Some(AnsweredCall {
            scope, digest, key, ..
        }) = call
        {
            self.keep(
                PendingCall {
                    scope,
                    digest,
                    key,
                    until: now + DOUBT,
                    is_doubtful: true,
                },
                now,
            );
        }
    }

    fn keep(&self, new: PendingCall, now: UnixMillis) {
        let mut calls = lock(&self.calls);
        calls.retain(|call| now < call.until && !call.is(&new.scope, &new.digest));
        if calls.len() >= CAPACITY {
            calls.pop_front();
        }
        calls.push_back(new);
    }
}

impl Unanswered<'_> {
    /// It has its answer.
    pub(super) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let Self {
            pending,
            scope,
            digest,
            key,
            now,
            is_answered,
        } = self;
        if !*is_answered {
            let call = PendingCall {
                scope: (*scope).to_owned(),
                digest: *digest,
                key: (*key).to_owned(),
                until: *now + DOUBT,
                is_doubtful: true,
            };
            pending.keep(call, *now);
        }
        let mut unanswered = lock(&pending.unanswered);
        let place = unanswered
            .iter()
            .position(|call| call.key == *key && call.scope == *scope);
        if let Some(place) = place {
            unanswered.swap_remove(place);
        }
    }
}

impl UnansweredCall {
    fn is_taken_back(&self) -> bool {
        self.taken_back.iter().any(CancellationToken::is_cancelled)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PendingCall {
    fn is(&self, scope: &str, digest: &[u8; 32]) -> bool {
        self.digest == *digest && self.scope == scope
    }

    fn known(&self) -> Known {
        let key = self.key.clone();
        if self.is_doubtful {
            Known::Doubtful(key)
        } else {
            Known::Waits(key)
        }
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
    fn a_call_whose_answer_crossed_its_withdrawal_is_in_doubt() {
        let pending = PendingCalls::default();
        pending.answered("a", ([1; 32], "k"), "5".to_owned(), NOW);
        assert_eq!(pending.call_of("a", &[1; 32], NOW), None);
        // Another caller, another request, too late.
        pending.taken_back("b", "5", NOW);
        pending.taken_back("a", "\"5\"", NOW);
        pending.taken_back("a", "5", NOW + DOUBT);
        assert_eq!(pending.call_of("a", &[1; 32], NOW), None);
        pending.taken_back("a", "5", NOW);
        let doubtful = Some(Known::Doubtful("k".to_owned()));
        assert_eq!(pending.call_of("a", &[1; 32], NOW), doubtful);
        pending.forget("a", &[1; 32]);
        pending.taken_back("a", "5", NOW);
        assert_eq!(pending.call_of("a", &[1; 32], NOW), None, "once");
    }

    #[test]
    fn few_answered_calls_are_remembered_and_not_for_long() {
        let pending = PendingCalls::default();
        for number in 0..=CAPACITY {
            pending.answered("a", ([1; 32], "k"), number.to_string(), NOW);
        }
        assert_eq!(lock(&pending.answered).len(), CAPACITY);
        pending.answered("a", ([1; 32], "k"), "last".to_owned(), NOW + DOUBT);
        assert_eq!(lock(&pending.answered).len(), 1);
    }

    #[test]
    fn a_call_is_remembered_for_its_caller_until_it_is_over() {
        let pending = PendingCalls::default();
        pending.remember("a", [1; 32], "k", at(2_000_000), NOW);
        assert_eq!(
            pending.call_of("a", &[1; 32], NOW),
            Some(Known::Waits("k".to_owned()))
        );
        assert_eq!(pending.call_of("b", &[1; 32], NOW), None);
        assert_eq!(pending.call_of("a", &[2; 32], NOW), None);
        assert!(pending.call_of("a", &[1; 32], at(2_299_999)).is_some());
        assert_eq!(pending.call_of("a", &[1; 32], at(2_300_000)), None);
        pending.forget("a", &[1; 32]);
        assert_eq!(pending.call_of("a", &[1; 32], NOW), None);
    }

    #[test]
    fn a_call_taken_back_without_an_answer_is_in_doubt_for_a_while() {
        let pending = PendingCalls::default();
        let taken_back = CancellationToken::new();
        let tokens = || [taken_back.clone(), CancellationToken::new()];
        let doubtful = Some(Known::Doubtful("k".to_owned()));
        let unanswered = pending.begin("a", ([1; 32], "k"), tokens(), NOW);
        // One that nobody took back is another call.
        assert_eq!(pending.call_of("a", &[1; 32], NOW), None);
        taken_back.cancel();
        assert_eq!(pending.call_of("a", &[1; 32], NOW), doubtful);
        drop(unanswered);
        assert_eq!(pending.call_of("a", &[1; 32], NOW), doubtful);
        assert_eq!(pending.call_of("b", &[1; 32], NOW), None);
        assert_eq!(pending.call_of("a", &[1; 32], NOW + DOUBT), None);
        pending.forget("a", &[1; 32]);
        pending.begin("a", ([1; 32], "k"), tokens(), NOW).answered();
        assert_eq!(pending.call_of("a", &[1; 32], NOW), None);
        assert!(lock(&pending.unanswered).is_empty());
    }

    #[test]
    fn the_memory_is_bounded_and_the_oldest_goes_first() {
        let pending = PendingCalls::default();
        let digest = |number: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_be_bytes());
            digest
        };
        for number in 0..=CAPACITY {
            pending.remember("a", digest(number), "k", at(2_000_000), NOW);
        }
        assert_eq!(pending.call_of("a", &digest(0), NOW), None);
        assert!(pending.call_of("a", &digest(1), NOW).is_some());
        assert!(pending.call_of("a", &digest(CAPACITY), NOW).is_some());
    }
}
