//! The guard's arithmetic, its limits, and the page about it. What it measures runs with `cargo bench`.

#[path = "../../benches/load/gate/interval.rs"]
mod interval;
#[path = "../../benches/load/gate/limits.rs"]
mod limits;

use interval::Interval;
use limits::{Limit, Limits, Verdict};

fn limits(rows: &str) -> Limits {
    Limits::parse(&format!("margin = 0.15\n[rows]\n{rows}")).unwrap()
}

fn between(low: f64, high: f64) -> Interval {
    Interval {
        low,
        figure: f64::midpoint(low, high),
        high,
    }
}

#[test]
fn a_figure_is_worse_only_where_its_whole_interval_is() {
    let limits = limits("");
    for (limit, measured, expected) in [
        (Limit::AtMost(2.0), Interval::exact(2.29), Verdict::Within),
        (Limit::AtMost(2.0), Interval::exact(2.31), Verdict::Worse),
        (Limit::AtMost(2.0), Interval::exact(1.69), Verdict::Better),
        (Limit::AtMost(2.0), between(2.2, 2.8), Verdict::Within),
        (Limit::AtMost(2.0), between(2.4, 2.5), Verdict::Worse),
        (Limit::AtMost(0.0), Interval::exact(0.0), Verdict::Within),
        (Limit::AtMost(0.0), Interval::exact(0.01), Verdict::Worse),
        (Limit::AtLeast(1.0), Interval::exact(0.86), Verdict::Within),
        (Limit::AtLeast(1.0), Interval::exact(0.84), Verdict::Worse),
        (Limit::AtLeast(1.0), between(0.7, 0.9), Verdict::Within),
        (Limit::AtLeast(1.0), between(0.7, 0.8), Verdict::Worse),
        (Limit::AtLeast(1.0), Interval::exact(1.16), Verdict::Better),
    ] {
        assert_eq!(
            limits.evaluate(limit, measured),
            expected,
            "{measured:?}, {limit}"
        );
    }
}

#[test]
fn a_row_is_measured_until_more_rounds_would_not_change_the_verdict() {
    let limits = limits("\"a\" = { at_most = 2.0 }\n\"b\" = { at_least = 1.0 }");
    for (row, measured, is_enough) in [
        ("a", between(1.0, 2.29), true),
        ("a", between(2.31, 3.0), true),
        ("a", between(2.0, 2.5), false),
        ("a", between(2.29, 2.31), true),
        ("b", between(0.86, 1.5), true),
        ("b", between(0.5, 0.84), true),
        ("b", between(0.7, 0.9), false),
        // Without a limit only a narrow interval is enough.
        ("c", between(0.99, 1.01), true),
        ("c", between(0.9, 1.1), false),
    ] {
        assert_eq!(
            limits.enough(row).is_met(measured),
            is_enough,
            "{row}, {measured:?}"
        );
    }
}

#[test]
fn an_interval_has_the_bounds_of_the_sign_test() {
    assert_eq!(Interval::of_median(&[]), None);
    assert_eq!(Interval::of_median(&[3.0]), Some(Interval::exact(3.0)));
    // Of 12 figures the third lowest and the third highest; of 20 the sixth.
    for (count, low, high) in [(5_u32, 1.0, 5.0), (6, 1.0, 6.0), (12, 3.0, 10.0), (20, 6.0, 15.0)] {
        let figures: Vec<f64> = (1..=count).rev().map(f64::from).collect();
        let expected = Interval {
            low,
            figure: f64::midpoint(1.0, f64::from(count)),
            high,
        };
        assert_eq!(Interval::of_median(&figures), Some(expected), "{count}");
    }
    assert!(between(0.98, 1.02).is_narrow());
    assert!(!between(0.95, 1.05).is_narrow());
}

#[test]
fn limits_say_which_way_is_worse_and_nothing_else() {
    let limits = limits("\"a/b\" = { at_most = 1.5 }\n\"c\" = { at_least = 2 }");
    assert_eq!(limits.of("a/b"), Some(Limit::AtMost(1.5)));
    assert_eq!(limits.of("c"), Some(Limit::AtLeast(2.0)));
    assert_eq!(limits.of("d"), None);
    for wrong in [
        "[rows]",
        "margin = 0.1",
        "margin = 0.1\n[rows]\na = 1",
        "margin = 0.1\nmore = 1\n[rows]",
    ] {
        assert!(Limits::parse(wrong).is_err(), "{wrong}");
    }
}

/// Every group of rows has its paragraph, so that a row that got worse can be looked up.
#[test]
fn every_limit_is_explained() {
    let limits = Limits::parse(include_str!("../../benches/limits.toml")).unwrap();
    let page = include_str!("../../docs/performance.md");
    assert!(limits.names().count() > 20);
    for name in limits.names() {
        let (group, _) = name.split_once('/').expect("a row has a group");
        assert!(
            page.contains(&format!("| `{group}/")),
            "{name} is not in docs/performance.md"
        );
    }
}
