//! Time and ids as dependencies: everything that needs either is handed a [`Clock`] or an [`Ids`].
//!
//! This file alone may read the system clock or the random source for ids; clippy forbids both elsewhere.

use std::{
    fmt::Debug,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use uuid::Uuid;

use countersign_domain::{ApprovalId, EntryId, LaunchId, RunId, TokenId, UnixMillis};

/// The time. Waiting uses `tokio::time`; deadlines that must survive a restart use this.
pub trait Clock: Debug + Send + Sync {
    /// The present time, for stamps and deadlines.
    fn now(&self) -> UnixMillis;

    /// What the clock of the machine shows, for a comparison with what others wrote by it: stamps of files, and of
    /// messages. It differs from [`Self::now`] where that goes on although the clock was set back.
    fn wall(&self) -> UnixMillis {
        self.now()
    }

    /// Never shows a time before this one from now on, if it is a clock that goes on by itself.
    fn not_before(&self, _time: UnixMillis) {}
}

/// The clock of this machine, which can be set. A test can set it for a process of a build with test switches.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the system clock"
    )]
    fn now(&self) -> UnixMillis {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
        UnixMillis::new(millis.saturating_add(set_by()))
    }
}

/// The clock of the machine is as it is: this build has no test switches.
#[cfg(not(feature = "test-hooks"))]
const fn set_by() -> i64 {
    0
}

/// By how many milliseconds a test has set the clock for this process: what is kept for days cannot be waited for, and
/// the clock of the machine is not a test's to set.
#[cfg(feature = "test-hooks")]
fn set_by() -> i64 {
    static DAYS: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    let days = DAYS.get_or_init(|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "the switch of a test is no setting of the product"
        )]
        let text = std::env::var("COUNTERSIGN_TEST_DAYS_AHEAD");
        text.ok().and_then(|days| days.parse().ok()).unwrap_or(0)
    });
    days.saturating_mul(24 * 60 * 60 * 1000)
        .saturating_add(crate::hooks::clock_set_by())
}

/// The time of a server: that of the machine, but it never goes back and never stands still.
///
/// It follows a clock that is set forward. When the clock is set back it goes on from where it was, at the pace of the
/// time since the machine was started, which nobody can set: what ends at a time lives no longer, and the order of the
/// record stays. It is ahead of the machine from then on, until the clock has caught up.
#[derive(Debug)]
pub struct SteadyClock<C = SystemClock> {
    machine: C,
    /// Nanoseconds between the start of the machine and the epoch, by the latest time that was ever shown.
    lead: AtomicI64,
}

impl SteadyClock {
    /// The time of this machine.
    pub const fn of_machine() -> Self {
        Self::of(SystemClock)
    }
}

impl<C> SteadyClock<C> {
    const fn of(machine: C) -> Self {
        Self {
            machine,
            lead: AtomicI64::new(i64::MIN),
        }
    }

    /// Goes on from `time` where it would show an earlier one `since_start` after the start of the machine.
    fn show(&self, time: UnixMillis, since_start: Duration) -> UnixMillis {
        let since_start = i64::try_from(since_start.as_nanos()).unwrap_or(i64::MAX);
        let lead = time
            .get()
            .saturating_mul(NANOS_PER_MILLI)
            .saturating_sub(since_start);
        let lead = self.lead.fetch_max(lead, Ordering::Relaxed).max(lead);
        UnixMillis::new(lead.saturating_add(since_start).div_euclid(NANOS_PER_MILLI))
    }
}

const NANOS_PER_MILLI: i64 = 1_000_000;

impl<C: Clock> Clock for SteadyClock<C> {
    fn now(&self) -> UnixMillis {
        // In this order: a pause in between makes the clock seem slow, never ahead.
        let wall = self.machine.now();
        self.show(wall, since_start_of_machine())
    }

    fn wall(&self) -> UnixMillis {
        self.machine.now()
    }

    fn not_before(&self, time: UnixMillis) {
        self.show(time, since_start_of_machine());
    }
}

/// With the time in which the machine was suspended, which its clock counts, too.
fn since_start_of_machine() -> Duration {
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(
        u64::try_from(since.tv_sec).unwrap_or(0),
        u32::try_from(since.tv_nsec).unwrap_or(0),
    )
}

/// A clock that only moves when told to.
#[derive(Debug)]
pub struct ManualClock(Mutex<UnixMillis>);

impl ManualClock {
    /// A clock that stands at `now`.
    pub const fn at(now: UnixMillis) -> Self {
        Self(Mutex::new(now))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = *now + by;
    }

    /// Sets the clock, backwards too.
    pub fn set(&self, now: UnixMillis) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A source of ids, nonces and secrets.
pub trait Ids: Debug + Send + Sync {
    /// A UUID whose order follows the time of making.
    fn ordered(&self, now: UnixMillis) -> Uuid;

    /// A UUID that nobody can guess.
    fn random(&self) -> Uuid;

    /// Bytes nobody can guess, for secrets and keys.
    fn secret_bytes(&self, into: &mut [u8]);

    /// A new run id.
    fn run_id(&self, now: UnixMillis) -> RunId {
        RunId::parse(self.ordered(now).to_string()).expect("a UUID is an id")
    }

    /// A new approval id.
    fn approval_id(&self) -> ApprovalId {
        ApprovalId::parse(self.random().to_string()).expect("a UUID is an id")
    }

    /// A new launch id.
    fn launch_id(&self) -> LaunchId {
        LaunchId::parse(self.random().to_string()).expect("a UUID is an id")
    }

    /// A new token id.
    fn token_id(&self) -> TokenId {
        TokenId::parse(self.random().to_string()).expect("a UUID is an id")
    }

    /// A new entry id.
    fn entry_id(&self) -> EntryId {
        EntryId::parse(self.random().to_string()).expect("a UUID is an id")
    }
}

/// When a run id was made, as far as the id says it: ids of [`Ids::run_id`] do, others need not.
pub fn made_at(id: &RunId) -> Option<UnixMillis> {
    let id = Uuid::parse_str(id.as_str()).ok()?;
    let (seconds, nanos) = id
        .get_timestamp()
        .filter(|_| id.get_version_num() == 7)?
        .to_unix();
    let millis = i64::try_from(seconds).ok()?.checked_mul(1000)?;
    Some(UnixMillis::new(millis.checked_add(i64::from(nanos / 1_000_000))?))
}

/// Ids from the system's random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn ordered(&self, now: UnixMillis) -> Uuid {
        let mut random = [0; 10];
        self.secret_bytes(&mut random);
        let millis = u64::try_from(now.get()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    fn random(&self) -> Uuid {
        let mut random = [0; 16];
        self.secret_bytes(&mut random);
        uuid::Builder::from_random_bytes(random).into_uuid()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the random source"
    )]
    fn secret_bytes(&self, into: &mut [u8]) {
        getrandom::fill(into).expect("without randomness nothing here is safe");
    }
}

/// Predictable ids for tests: `00000000-0000-…-000000000001` and so on.
#[derive(Debug, Default)]
pub struct SeededIds(AtomicU64);

impl SeededIds {
    /// Ids that go on after the first `used` ones.
    pub const fn starting_at(used: u64) -> Self {
        Self(AtomicU64::new(used))
    }
}

impl Ids for SeededIds {
    fn ordered(&self, _now: UnixMillis) -> Uuid {
        self.random()
    }

    fn random(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed) + 1))
    }

    fn secret_bytes(&self, into: &mut [u8]) {
        for byte in into {
            *byte = u8::try_from(self.0.fetch_add(1, Ordering::Relaxed) % 251).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60 * 1000;
    const NOON: i64 = 1_800_000_000_000;

    /// What a clock shows after each reading of the machine's, both in milliseconds.
    fn check(readings: &[(i64, u64)], expected: &[i64]) {
        let clock = SteadyClock::of_machine();
        let shown: Vec<_> = readings
            .iter()
            .map(|(wall, up)| {
                clock
                    .show(UnixMillis::new(*wall), Duration::from_millis(*up))
                    .get()
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn it_is_the_machines_while_nobody_sets_that() {
        check(&[(NOON, 5), (NOON + 7, 12)], &[NOON, NOON + 7]);
    }

    #[test]
    fn it_follows_a_clock_that_is_set_forward() {
        check(&[(NOON, 5), (NOON + DAY, 6)], &[NOON, NOON + DAY]);
    }

    #[test]
    fn it_goes_on_when_the_clock_is_set_back_until_that_has_caught_up() {
        check(
            &[
                (NOON, 5),
                (NOON - DAY, 6),
                (NOON - DAY + 1000, 1006),
                (NOON + 2000, 1106),
            ],
            &[NOON, NOON + 1, NOON + 1001, NOON + 2000],
        );
    }

    #[test]
    fn a_pause_between_the_two_readings_moves_nothing() {
        check(
            &[(NOON, 5), (NOON + 1, 906), (NOON + 902, 907)],
            &[NOON, NOON + 901, NOON + 902],
        );
    }

    #[test]
    fn it_goes_on_from_the_last_time_on_record() {
        let clock = SteadyClock::of_machine();
        let wall = clock.wall();
        let later = UnixMillis::new(wall.get() + DAY);
        clock.not_before(later);
        let now = clock.now();
        assert!(now >= later && now.since(later) < Duration::from_hours(1));
        assert!(clock.wall() < later);
        clock.not_before(UnixMillis::new(NOON - 30 * DAY));
        assert!(clock.now() >= now);
    }
}
