//! Figures for people.

use std::time::Duration;

use super::client::Window;

/// The first window is the reference's, the second countersign's.
pub(crate) fn compare(clients: usize, [reference, countersign]: &[Window; 2]) {
    println!("\n{clients} client(s)        p50 us    p99 us  answers/s   answers");
    for (name, window) in [("reference  ", reference), ("countersign", countersign)] {
        println!(
            "  {name}  {:>12}  {:>8}  {:>9.0}  {:>8}",
            window.quantile(500).as_micros(),
            window.quantile(990).as_micros(),
            window.throughput(),
            window.latencies.len()
        );
    }
    let ratio = |of: usize| countersign.quantile(of).as_secs_f64() / reference.quantile(of).as_secs_f64();
    println!(
        "  ratio        {:>11.2}x  {:>7.2}x  {:>8.2}x",
        ratio(500),
        ratio(990),
        countersign.throughput() / reference.throughput()
    );
}

/// Times from start to ready line: with a fresh state directory, and again with the same one.
pub(crate) fn starts(times: &[(Duration, Duration)]) {
    let median = |pick: fn(&(Duration, Duration)) -> Duration| {
        let mut sorted: Vec<Duration> = times.iter().map(pick).collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    println!(
        "start to ready, median of {}: first start {:?}, later start {:?}",
        times.len(),
        median(|(first, _)| *first),
        median(|(_, later)| *later)
    );
}
