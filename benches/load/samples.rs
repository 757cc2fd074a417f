//! What was measured, and its quantiles.

use std::time::Duration;

/// Times of the same thing, done again and again.
#[derive(Debug, Default)]
pub(crate) struct Samples(pub(crate) Vec<Duration>);

impl Samples {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The time that a share of them, in thousandths, did not exceed.
    pub(crate) fn quantile(&self, thousandths: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len().saturating_sub(1)) * thousandths / 1000;
        sorted.get(at).copied().unwrap_or_default()
    }

    pub(crate) fn p50(&self) -> Duration {
        self.quantile(500)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.quantile(990)
    }
}

/// How many times as long.
pub(crate) fn ratio(of: Duration, to: Duration) -> f64 {
    of.as_secs_f64() / to.as_secs_f64()
}
