//! How long to wait before the next attempt to connect. Pure.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Doublings until the longest is reached.
const DOUBLINGS: u32 = 5;

/// Pauses that double, each shortened by a random part so that many nodes do not come back at the same moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The next pause: between half of it and all of it, as `chance` says.
    pub(super) fn next(&mut self, chance: u8) -> Duration {
        let full = FIRST
            .saturating_mul(1 << self.failures.min(DOUBLINGS))
            .min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let half = full / 2;
        half + half.mul_f64(f64::from(chance) / f64::from(u8::MAX))
    }

    /// A connection stood: the next failure is the first again.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// How often it failed in a row.
    pub(super) const fn failures(self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let mut backoff = Backoff::default();
        let full: Vec<u64> = (0..8).map(|_| backoff.next(u8::MAX).as_secs()).collect();
        assert_eq!(full, [1, 2, 4, 8, 16, 30, 30, 30]);
        backoff.reset();
        assert_eq!(backoff.next(0), Duration::from_millis(500));
        assert_eq!(backoff.next(0), Duration::from_secs(1));
        assert_eq!(backoff.failures(), 2);
    }

    #[test]
    fn no_number_of_failures_overflows() {
        let mut backoff = Backoff { failures: u32::MAX };
        assert_eq!(backoff.next(u8::MAX), LONGEST);
    }
}
