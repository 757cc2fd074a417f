//! Two ways of doing the same, in turns, until their ratio is sure.

use std::time::Duration;

use super::{
    super::samples::{Samples, ratio},
    interval::Interval,
    limits::Enough,
};

/// Rounds before an interval counts, and the most that are made however wide it stays.
const ROUNDS: std::ops::RangeInclusive<usize> = 12..=40;

/// What two ways took beside each other.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) ratio: Interval,
    pub(crate) ours: Samples,
    pub(crate) beside: Samples,
}

/// Does both by turns, `per_round` times a round. The figure of a round is the ratio of its two medians.
pub(crate) async fn compare(
    enough: Enough,
    per_round: usize,
    mut ours: impl AsyncFnMut() -> Duration,
    mut beside: impl AsyncFnMut() -> Duration,
) -> Compared {
    let (mut all_ours, mut all_beside) = (Samples::default(), Samples::default());
    let ratio = repeat(enough, async || {
        let (mut of_ours, mut of_beside) = (Samples::default(), Samples::default());
        for turn in 0..per_round {
            // Each goes first as often as the other.
            if turn % 2 == 0 {
                of_ours.add(ours().await);
                of_beside.add(beside().await);
            } else {
                of_beside.add(beside().await);
                of_ours.add(ours().await);
            }
        }
        let figure = ratio(of_ours.p50(), of_beside.p50());
        all_ours.0.append(&mut of_ours.0);
        all_beside.0.append(&mut of_beside.0);
        figure
    })
    .await;
    Compared {
        ratio,
        ours: all_ours,
        beside: all_beside,
    }
}

/// Measures two rates by turns; returns their ratio and the mean of each.
pub(crate) async fn compare_rates(
    enough: Enough,
    mut ours: impl AsyncFnMut() -> f64,
    mut beside: impl AsyncFnMut() -> f64,
) -> (Interval, f64, f64) {
    let (mut sum_ours, mut sum_beside, mut rounds) = (0.0, 0.0, 0.0);
    let ratio = repeat(enough, async || {
        let (of_ours, of_beside) = (ours().await, beside().await);
        sum_ours += of_ours;
        sum_beside += of_beside;
        rounds += 1.0;
        of_ours / of_beside
    })
    .await;
    (ratio, sum_ours / rounds, sum_beside / rounds)
}

async fn repeat(enough: Enough, mut round: impl AsyncFnMut() -> f64) -> Interval {
    let mut figures = Vec::new();
    loop {
        figures.push(round().await);
        let interval = Interval::of_median(&figures).expect("there is a figure");
        let is_enough = figures.len() >= *ROUNDS.start() && enough.is_met(interval);
        if is_enough || figures.len() >= *ROUNDS.end() {
            return interval;
        }
    }
}
