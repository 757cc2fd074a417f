//! The guard: figures that may not get worse unseen. `cargo bench --bench load -- gate`.
//!
//! A figure is a ratio beside a bare server or a shell that does the same in turns with countersign, so that the speed of the
//! machine cancels out, or a count, which does not drift. Each has a limit in `benches/limits.toml`; a figure that is
//! worse by more than the margin fails the run. `docs/performance.md` says how to read the table and how to profile.

mod analysis;
mod calls;
mod exec;
mod interval;
mod kept;
mod limits;
mod questions;
mod resources;
mod rounds;
mod streams;

use futures_util::future::join_all;
use interval::Interval;
use limits::{Enough, Limits, Verdict};
use tokio::time::Instant;

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

impl Row {
    /// The first part of its name.
    fn group(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    fn is_worse(&self, limits: &Limits) -> bool {
        limits
            .of(&self.name)
            .is_some_and(|limit| limits.evaluate(limit, self.measured) == Verdict::Worse)
    }
}

/// The rows so far.
#[derive(Debug)]
pub(crate) struct Report<'limits> {
    limits: &'limits Limits,
    rows: Vec<Row>,
    /// The beginning of the names that cannot be measured here, and why.
    skipped: Vec<(String, String)>,
}

impl<'limits> Report<'limits> {
    const fn new(limits: &'limits Limits) -> Self {
        Self {
            limits,
            rows: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// When the row of this name has been measured enough.
    fn enough(&self, row: &str) -> Enough {
        self.limits.enough(row)
    }

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

    /// The groups with a row that is worse than its limit.
    fn worse_groups(&self) -> Vec<&'static str> {
        let is_worse = |row: &&Row| row.is_worse(self.limits);
        let worse: Vec<&Row> = self.rows.iter().filter(is_worse).collect();
        let has_row = |group: &&str| worse.iter().any(|row| row.group() == *group);
        GROUPS.into_iter().filter(has_row).collect()
    }

    /// Takes the rows of another one.
    fn append(&mut self, mut other: Self) {
        self.rows.append(&mut other.rows);
        self.skipped.append(&mut other.skipped);
    }

    /// Takes the later figure of every row that was worse.
    fn look_again(&mut self, later: Self) {
        for again in later.rows {
            let first = self.rows.iter_mut().find(|row| row.name == again.name);
            if let Some(row) = first.filter(|row| row.is_worse(self.limits)) {
                *row = again;
            }
        }
    }

    /// Compares with the limits; whether no row is worse, none is missing and none is unknown.
    fn passes(&self, is_all: bool) -> bool {
        let limits = self.limits;
        let mut is_good = true;
        for row in &self.rows {
            let Some(limit) = limits.of(&row.name) else {
                println!("NO LIMIT {}: add it to benches/limits.toml", row.name);
                is_good = false;
                continue;
            };
            let figure = plain(row.measured.figure);
            match limits.evaluate(limit, row.measured) {
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

/// The groups of rows, in the order of their measurement.
pub(super) const GROUPS: [&str; 13] = [
    "analysis", "exec", "kept", "decision", "keyed", "approval", "flood", "list", "output", "events",
    "start", "calls", "memory",
];

/// The groups that only count. They are measured beside each other, at the end: one of them mostly rests.
const COUNTED: [&str; 2] = ["calls", "memory"];

/// How often a group is measured again. A virtual machine can be in a slow state for some minutes.
const MOST_AGAIN: usize = 2;

async fn measure(group: &str, report: &mut Report<'_>, options: &Options) {
    let begun = Instant::now();
    match group {
        "analysis" => analysis::measure(report),
        "exec" => exec::measure(report).await,
        "kept" => kept::measure(report).await,
        "decision" => questions::decisions(report).await,
        "keyed" => questions::keyed(report).await,
        "approval" => questions::approval(report, options).await,
        "flood" => questions::flood(report, options).await,
        "list" => questions::list(report).await,
        "output" => streams::output(report).await,
        "events" => streams::events(report).await,
        "calls" => calls::measure(report).await,
        "memory" => resources::memory(report).await,
        "start" => resources::start(report).await,
        other => panic!("{other} is no group"),
    }
    println!("  {group}: {} s", begun.elapsed().as_secs());
}

/// Measures all rows, or those of the groups that were named, and compares them with the limits. A group with a row that is
/// worse is measured again: what the machine did meanwhile is gone by then, what the program does is not.
pub(crate) async fn run(options: &Options) -> bool {
    let limits = Limits::parse(LIMITS).unwrap_or_else(|error| panic!("benches/limits.toml: {error}"));
    let mut report = Report::new(&limits);
    println!("guard: the figure of each row, its 95 % interval, and what lies behind it");
    let groups = GROUPS.into_iter().filter(|group| options.in_gate(group));
    let (counted, timed): (Vec<_>, Vec<_>) = groups.partition(|group| COUNTED.contains(group));
    for group in timed {
        measure(group, &mut report, options).await;
    }
    let counts = counted.into_iter().map(async |group| {
        let mut counts = Report::new(&limits);
        measure(group, &mut counts, options).await;
        counts
    });
    for counts in join_all(counts).await {
        report.append(counts);
    }
    for _ in 0..MOST_AGAIN {
        for group in report.worse_groups() {
            println!("guard: {group} again, since a row of it was worse");
            let mut again = Report::new(&limits);
            measure(group, &mut again, options).await;
            report.look_again(again);
        }
    }
    println!();
    let is_good = report.passes(options.is_whole_gate());
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
