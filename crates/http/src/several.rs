//! Requests that stand for several: each counts against its sender's rate as if it had come alone.

use countersign_ledger::auth::{Limited, RateStatus};

/// Each thing of a request with what its sender's rate says of it, and how the sender stands with that rate after all of
/// them. The first was counted when the request was let in.
pub(crate) fn counted<T>(
    things: Vec<T>,
    count_one_more: impl Fn() -> Result<Option<RateStatus>, Limited>,
) -> (Vec<(T, Option<Limited>)>, Option<RateStatus>) {
    let mut rate = None;
    let counted = things.into_iter().enumerate().map(|(index, thing)| {
        let limited = match (index > 0).then(&count_one_more).transpose() {
            Ok(status) => {
                rate = status.flatten();
                None
            }
            Err(limited) => Some(limited),
        };
        (thing, limited)
    });
    (counted.collect(), rate)
}
