//! Time and ids as dependencies: everything that needs either is handed a [`Clock`] or an [`Ids`].
//!
//! This file alone may read the system clock or the random source for ids; clippy forbids both elsewhere.

use std::{
    fmt::Debug,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use uuid::Uuid;

use countersign_domain::{ApprovalId, EntryId, LaunchId, RunId, TokenId, UnixMillis};

/// Wall time. Waiting uses `tokio::time`; deadlines that must survive a restart use this.
pub trait Clock: Debug + Send + Sync {
    /// The present wall time.
    fn now(&self) -> UnixMillis;
}

/// The clock of this machine. Builds with test switches can run days ahead of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the system clock"
    )]
    fn now(&self) -> UnixMillis {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis::new(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)) + ahead()
    }
}

/// The system's clock is right: this build has no test switches.
#[cfg(not(feature = "test-hooks"))]
const fn ahead() -> Duration {
    Duration::ZERO
}

/// How far ahead of the system's clock a test wants this process: what is kept for days cannot be waited for.
#[cfg(feature = "test-hooks")]
fn ahead() -> Duration {
    static DAYS: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let days = DAYS.get_or_init(|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "the switch of a test is no setting of the product"
        )]
        let text = std::env::var("COUNTERSIGN_TEST_DAYS_AHEAD");
        text.ok().and_then(|days| days.parse().ok()).unwrap_or(0)
    });
    Duration::from_hours(24 * days)
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
