//! Wall time as the API and the ledger spell it.

use std::{fmt, ops::Add, time::Duration};

/// Unix time in milliseconds. Only `countersign_sys::clock::Clock` makes the present one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct UnixMillis(i64);

impl UnixMillis {
    /// Wraps a number of milliseconds since 1970-01-01T00:00:00Z.
    pub const fn new(millis: i64) -> Self {
        Self(millis)
    }

    /// The time that a text of RFC 3339 says.
    pub fn of_rfc3339(text: &str) -> Option<Self> {
        let time = text.parse::<jiff::Timestamp>().ok()?;
        Some(Self(time.as_millisecond()))
    }

    /// The number of milliseconds.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for UnixMillis {
    /// As RFC 3339 in UTC; the number where no calendar has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time}"),
            Err(_beyond) => write!(f, "{}", self.0),
        }
    }
}

impl Add<Duration> for UnixMillis {
    type Output = Self;

    /// Saturates at the largest representable time.
    fn add(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }
}
