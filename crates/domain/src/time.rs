//! Wall time as the API and the ledger spell it.

use std::{fmt, ops::Add, time::Duration};

/// Unix time in milliseconds. Only `countersign_sys::clock::Clock` makes the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
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

impl<'de> serde::Deserialize<'de> for UnixMillis {
    /// From the number, or from a time of RFC 3339 where the format says what it has.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(MomentVisitor)
        } else {
            deserializer.deserialize_i64(MomentVisitor)
        }
    }
}

struct MomentVisitor;

impl serde::de::Visitor<'_> for MomentVisitor {
    type Value = UnixMillis;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unix milliseconds or a time such as 2026-11-23T00:00:00Z")
    }

    fn visit_i64<E: serde::de::Error>(self, millis: i64) -> Result<UnixMillis, E> {
        Ok(UnixMillis(millis))
    }

    fn visit_u64<E: serde::de::Error>(self, millis: u64) -> Result<UnixMillis, E> {
        let millis = i64::try_from(millis);
        millis
            .map(UnixMillis)
            .map_err(|_beyond| E::custom("the number is too large"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<UnixMillis, E> {
        let time = UnixMillis::of_rfc3339(text);
        time.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_both_ways_and_written_in_one() {
        let read = |text: &str| serde_json::from_str::<UnixMillis>(text).ok();
        assert_eq!(read("1000"), Some(UnixMillis(1000)));
        assert_eq!(read("-1"), Some(UnixMillis(-1)));
        assert_eq!(read("\"1970-01-01T00:00:01Z\""), Some(UnixMillis(1000)));
        assert_eq!(read("\"1970-01-01T01:00:01.5+01:00\""), Some(UnixMillis(1500)));
        for other in [
            "\"1000\"",
            "\"yesterday\"",
            "1.5",
            "true",
            "18446744073709551615",
            "\"\"",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(serde_json::to_string(&UnixMillis(1000)).unwrap(), "1000");
    }
}
