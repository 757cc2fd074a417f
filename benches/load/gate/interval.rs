//! How sure a figure is: the median of what the rounds gave, and the interval that its true value lies in.

/// Widest interval, as a share of the figure, that ends a measurement.
const NARROW: f64 = 0.06;

/// A figure with the bounds of its 95 % interval; all three are equal for what is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) figure: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// A figure without a spread: something that was counted.
    pub(crate) const fn exact(figure: f64) -> Self {
        Self {
            low: figure,
            figure,
            high: figure,
        }
    }

    /// The median of some figures. Its bounds are two of them (the sign test), so no distribution is assumed. `None`
    /// without figures.
    pub(crate) fn of_median(figures: &[f64]) -> Option<Self> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let outside = (0..count / 2)
            .rev()
            .find(|outside| is_unlikely(*outside, count))
            .unwrap_or(0);
        let at = |index: usize| sorted.get(index).copied();
        let middle = f64::midpoint(at(count.saturating_sub(1) / 2)?, at(count / 2)?);
        Some(Self {
            low: at(outside)?,
            figure: middle,
            high: at(count - 1 - outside)?,
        })
    }

    /// Whether more rounds would say little more.
    pub(crate) fn is_narrow(self) -> bool {
        self.high - self.low <= NARROW * self.figure
    }
}

/// Whether at most `outside` of `count` figures lie below the true median with a probability of 2.5 % or less.
fn is_unlikely(outside: usize, count: usize) -> bool {
    let mut ways = 1.0;
    let mut all = 1.0;
    for step in 0..outside {
        ways *= whole(count - step) / whole(step + 1);
        all += ways;
    }
    all * 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX)) <= 0.025
}

fn whole(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
