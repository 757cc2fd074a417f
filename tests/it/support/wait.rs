//! Waiting for a condition, with a long bound and the last state in the message.

use futures_util::{Stream, StreamExt as _};
use std::{
    fmt::Debug,
    future::{Future, ready},
    panic::Location,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};

/// Far beyond what a loaded machine needs: reaching it is a failure, never a matter of speed.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Waits until `state` satisfies `holds` and returns it; panics with the last state otherwise.
#[track_caller]
pub(crate) fn eventually<S: Debug, F: Future<Output = S>>(
    what: &str,
    mut state: impl FnMut() -> F,
    mut holds: impl FnMut(&S) -> bool,
) -> impl Future<Output = S> {
    let caller = Location::caller();
    async move {
        let deadline = Instant::now() + TIMEOUT;
        let mut pause = Duration::from_millis(5);
        loop {
            let current = state().await;
            if holds(&current) {
                return current;
            }
            assert!(
                Instant::now() < deadline,
                "{caller}: never {what}; last state: {current:#?}"
            );
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}

/// [`eventually`] for a state that is looked at without waiting.
#[track_caller]
pub(crate) fn soon<S: Debug>(
    what: &str,
    mut state: impl FnMut() -> S,
    holds: impl FnMut(&S) -> bool,
) -> impl Future<Output = S> {
    eventually(what, move || ready(state()), holds)
}

/// Waits for a future; panics when it never comes.
#[track_caller]
pub(crate) fn within<T>(what: &str, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let came = timeout_at(Instant::now() + TIMEOUT, future).await;
        came.unwrap_or_else(|_elapsed| panic!("{caller}: {what} never came"))
    }
}

/// None of many cases, which are tried beside each other, has something to complain of.
pub(crate) async fn none_is_wrong(cases: impl Stream<Item = Option<String>>) {
    let tried: Vec<Option<String>> = cases.collect().await;
    let wrong: Vec<&str> = tried.iter().flatten().map(String::as_str).collect();
    let (count, of) = (wrong.len(), tried.len());
    assert!(wrong.is_empty(), "{count} of {of}:\n{}", wrong.join("\n"));
}
