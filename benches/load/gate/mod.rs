//! The guard: figures that may not get worse unseen. `cargo bench --bench load -- gate`.
//!
//! A figure is a ratio beside a bare server or a shell that does the same in turns with countersign, so that the speed of the
//! machine cancels out, or a count, which does not drift. Each has a limit in `benches/limits.toml`; a figure that is
//! worse by more than the margin fails the run. `docs/performance.md` says how to read the table and how to profile.

mod calls;
mod exec;
mod interval;
mod limits;
mod questions;
mod resources;
mod rounds;
mod streams;

use interval::Interval;
use limits::{Limits, Verdict};

use super::options::Options;

const LIMITS: &str = include_str!("../../limits.toml");

/// What was measured.
#[derive(Debug)]
struct Row {
    /// `group/what/level/figure`, as in the file of limits.
    name: String,
    measured: Interval,
    /// The figures behind it, for people.
    detail: String,
}

/// The rows so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    /// The beginning of the names that cannot be measured here, and why.
    skipped: Vec<(String, String)>,
}

impl Report {
    /// Adds a row and shows it.
    fn add(&mut self, name: impl Into<String>, measured: Interval, detail: impl Into<String>) {
        let row = Row {
            name: name.into(),
            measured,
            detail: detail.into(),
        };
        let Interval { low, figure, high } = measured;
        let spread = if low < high {
            format!("[{}, {}]", plain(low), plain(high))
        } else {
            String::new()
        };
        println!(
            "  {:<40} {:>9} {spread:<18} {}",
            row.name,
            plain(figure),
            row.detail
        );
        self.rows.push(row);
    }

    /// Says that rows whose names begin so cannot be measured here.
    fn skip(&mut self, names: impl Into<String>, why: impl Into<String>) {
        let (names, why) = (names.into(), why.into());
        println!("  {names:<40} skipped: {why}");
        self.skipped.push((names, why));
    }

    /// Compares with the limits; whether no row is worse, none is missing and none is unknown.
    fn judge(&self, limits: &Limits, is_all: bool) -> bool {
        let mut is_good = true;
        for row in &self.rows {
            let Some(limit) = limits.of(&row.name) else {
                println!("NO LIMIT {}: add it to benches/limits.toml", row.name);
                is_good = false;
                continue;
            };
            let figure = plain(row.measured.figure);
            match limits.judge(limit, row.measured) {
                Verdict::Within => {}
                Verdict::Better => {
                    println!("better   {}: {figure}, limit {limit}; lower the limit", row.name);
                }
                Verdict::Worse => {
                    println!("WORSE    {}: {figure}, limit {limit} ({})", row.name, row.detail);
                    is_good = false;
                }
            }
        }
        let is_known = |name: &str| {
            self.rows.iter().any(|row| row.name == name)
                || self
                    .skipped
                    .iter()
                    .any(|(names, _)| name.starts_with(names.as_str()))
        };
        for name in limits.names().filter(|name| is_all && !is_known(name)) {
            println!("MISSING  {name}: it has a limit and was not measured");
            is_good = false;
        }
        is_good
    }
}

/// Measures all rows, or those of the groups that were named, and compares them with the limits.
pub(crate) async fn run(options: &Options) -> bool {
    let limits = Limits::parse(LIMITS).unwrap_or_else(|error| panic!("benches/limits.toml: {error}"));
    let mut report = Report::default();
    println!("guard: the figure of each row, its 95 % interval, and what lies behind it");
    if options.in_gate("exec") {
        exec::measure(&mut report).await;
    }
    if options.in_gate("decision") {
        questions::decisions(&mut report).await;
    }
    if options.in_gate("approval") {
        questions::approval(&mut report, options).await;
    }
    if options.in_gate("list") {
        questions::list(&mut report).await;
    }
    if options.in_gate("output") {
        streams::output(&mut report).await;
    }
    if options.in_gate("events") {
        streams::events(&mut report).await;
    }
    if options.in_gate("calls") {
        calls::measure(&mut report).await;
    }
    if options.in_gate("memory") {
        resources::memory(&mut report).await;
    }
    if options.in_gate("start") {
        resources::start(&mut report).await;
    }
    println!();
    let is_good = report.judge(&limits, options.is_whole_gate());
    let (rows, skipped) = (report.rows.len(), report.skipped.len());
    if is_good {
        println!("guard: {rows} rows within their limits, {skipped} groups skipped");
    } else {
        println!(
            "guard: failed. To see one row again: cargo bench --bench load -- gate --only GROUP. How to profile it: \
             docs/performance.md, \"When a row is worse\""
        );
    }
    is_good
}

/// A number as people write it: three digits that count.
fn plain(figure: f64) -> String {
    if figure >= 100.0 || figure.fract() == 0.0 {
        format!("{figure:.0}")
    } else if figure >= 10.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.2}")
    }
}
