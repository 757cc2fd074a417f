//! Memory that work left behind goes back to the system.

use std::{convert::Infallible, time::Duration};

use tokio::time::{MissedTickBehavior, interval};

use countersign_ledger::Ledger;
use countersign_sys::{memory, usage::processor_time};

/// How often the server looks whether there was work.
const LOOK: Duration = Duration::from_secs(3);
/// Less time on processors than this between two looks is rest.
const REST: Duration = Duration::from_millis(30);
/// Less than this since memory was given back leaves nothing worth giving back.
const WORK: Duration = Duration::from_millis(30);
/// After so many looks it is given back in the middle of work, too.
const MOST_LOOKS: u32 = 20;

/// What goes back to the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Release {
    /// What was freed, and the program's code: after a rest no one waits for it.
    FreedAndCode,
    /// What was freed: the code is at work.
    Freed,
}

/// Decides when memory is given back: once work is followed by rest, and now and then where rest never comes. The start of
/// the server is work, however little time it took.
#[derive(Debug, Default)]
struct Releases {
    /// Time on processors at the last look.
    seen: Option<Duration>,
    /// The same when memory was given back last.
    released: Option<Duration>,
    looks: u32,
}

impl Releases {
    /// What it is time for; `used` is the time on processors since the start.
    fn due(&mut self, used: Duration) -> Option<Release> {
        let rests = self.seen.is_some_and(|seen| used.saturating_sub(seen) < REST);
        let has_worked = self
            .released
            .is_none_or(|released| used.saturating_sub(released) >= WORK);
        self.seen = Some(used);
        self.looks += 1;
        if has_worked && rests {
            Some(Release::FreedAndCode)
        } else if has_worked && self.looks >= MOST_LOOKS {
            Some(Release::Freed)
        } else {
            None
        }
    }

    /// Memory was given back, which took time itself.
    fn done(&mut self, used: Duration) {
        *self = Self {
            seen: Some(used),
            released: Some(used),
            looks: 0,
        };
    }
}

/// Gives memory back whenever it is due. `forget` drops what is only kept for the next request, at rest.
#[expect(
    clippy::infinite_loop,
    reason = "it ends when the server stops, which drops it"
)]
pub(super) async fn give_back(ledger: &Ledger, forget: &(dyn Fn() + Send + Sync)) -> Infallible {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut releases = Releases::default();
    loop {
        ticks.tick().await;
        let Some(release) = releases.due(processor_time()) else {
            continue;
        };
        if release == Release::FreedAndCode {
            forget();
        }
        let ledger = ledger.clone();
        let released = tokio::task::spawn_blocking(move || {
            ledger.release_memory();
            memory::give_back();
            if release == Release::FreedAndCode {
                memory::let_go_of_code();
            }
        });
        if let Err(error) = released.await {
            tracing::debug!(%error, "memory was not given back");
        }
        releases.done(processor_time());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each look says, after so many milliseconds of work.
    fn due(work: &[u64]) -> Vec<Option<Release>> {
        let mut releases = Releases::default();
        let mut used = 0;
        let look = |work: &u64| {
            used += work;
            let due = releases.due(Duration::from_millis(used));
            if due.is_some() {
                releases.done(Duration::from_millis(used));
            }
            due
        };
        work.iter().map(look).collect()
    }

    const ALL: Option<Release> = Some(Release::FreedAndCode);

    #[test]
    fn rest_after_work_gives_back_once() {
        assert_eq!(due(&[500, 500, 0, 0, 0]), [None, None, ALL, None, None]);
        assert_eq!(due(&[500, 0, 10, 500, 10]), [None, ALL, None, None, ALL]);
    }

    #[test]
    fn a_start_is_work_however_short_it_was() {
        assert_eq!(due(&[20, 0, 0]), [None, ALL, None]);
        assert_eq!(due(&[20, 500, 20, 0]), [None, None, ALL, None]);
    }

    #[test]
    fn little_work_leaves_nothing_to_give_back() {
        assert_eq!(due(&[500, 0, 20, 0, 0]), [None, ALL, None, None, None]);
        assert_eq!(due(&[500, 0, 29, 29, 29, 29]), [None, ALL, None, ALL, None, ALL]);
    }

    #[test]
    fn work_without_rest_gives_back_now_and_then_and_keeps_the_code() {
        let looks = due(&[1000; 60]);
        let given: Vec<usize> = (0..60).filter(|look| looks[*look].is_some()).collect();
        assert_eq!(given, [19, 39, 59]);
        assert_eq!(looks[19], Some(Release::Freed));
    }
}
