//! Judging attempts, running what is covered, and counting both.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use countersign_policy::command::syntax::Grammar;

use super::{
    HERE, RUN_OF_EACH,
    attempts::{Attempt, Nature},
    cell::{Cells, own_variable},
};
use crate::world::World;

/// Runs at a time: most of them wait.
const WIDTH: usize = 4;

/// What came of the attempts on one program.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    attempts: usize,
    covered: usize,
    run: usize,
    markers: usize,
}

/// Counts by program, what is to be run, and what went wrong.
#[derive(Debug, Default)]
pub(super) struct Measure {
    tallies: BTreeMap<String, Tally>,
    to_run: Vec<(String, String)>,
    wrong: Vec<String>,
}

/// How many covered attempts of each program are to be run, if the environment says so.
fn asked_for() -> Option<usize> {
    own_variable("COUNTERSIGN_TEST_ATTACKS").map(|said| said.parse().expect("a number"))
}

/// Whether the attack is to take its time.
pub(super) fn is_long() -> bool {
    asked_for().is_some()
}

/// A world with these programs, some of which have an entry for any arguments, and with the widest grammar.
pub(super) fn covering(programs: &'static [&'static str], is_covered: impl Fn(&str) -> bool) -> World {
    let covered = programs.iter().filter(|name| is_covered(name));
    let paths: Vec<String> = covered.map(|name| format!("/usr/bin/{name}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut world = World::new().programs(programs).allow(&paths);
    world.grammar = Grammar::WIDEST;
    HERE.clone_into(&mut world.cwd);
    world
}

/// Judges attempts, and runs some of what is covered of each of these groups, in their order.
pub(super) fn measure(world: &World, what: &str, attempts: &[Attempt], groups: usize) {
    let mut measure = Measure::default();
    for group in attempts.chunks(attempts.len().div_ceil(groups)) {
        measure.judge(what, group, |text| world.verdict(text) == "allow");
    }
    if let Some(cells) = Cells::new(what) {
        measure.run(&cells, |_| true);
    }
    measure.end(1_000, 1_000);
}

/// An attempt of this nature.
pub(super) fn attempt(text: String, nature: Nature) -> Attempt {
    Attempt { text, nature }
}

impl Measure {
    /// Judges the attempts on one program, and keeps as many of the covered ones to be run as are asked for.
    pub(super) fn judge(&mut self, program: &str, attempts: &[Attempt], is_covered: impl Fn(&str) -> bool) {
        let tally = self.tallies.entry(program.to_owned()).or_default();
        let mut open = Vec::new();
        for Attempt { text, nature } in attempts {
            let is_covered = is_covered(text);
            tally.attempts += 1;
            tally.covered += usize::from(is_covered);
            match nature {
                Nature::Hostile if is_covered => self.wrong.push(format!("covered: {text}")),
                Nature::Harmless if !is_covered => self.wrong.push(format!("not covered: {text}")),
                Nature::Open if is_covered => open.push(text),
                Nature::Hostile | Nature::Harmless | Nature::Open => {}
            }
        }
        let wanted = asked_for().unwrap_or(RUN_OF_EACH);
        // From everywhere among them.
        let step = open.len().div_ceil(wanted.max(1)).max(1);
        let chosen = open.into_iter().step_by(step).take(wanted);
        self.to_run
            .extend(chosen.map(|text| (program.to_owned(), text.clone())));
    }

    /// Runs what is covered and can be run here.
    pub(super) fn run(&mut self, cells: &Cells, can_run: impl Fn(&str) -> bool) {
        let to_run: Vec<_> = self
            .to_run
            .drain(..)
            .filter(|(program, _)| can_run(program))
            .collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut left = Vec::new();
            while let Some((program, text)) = to_run.get(next.fetch_add(1, Ordering::Relaxed)) {
                let found = cells.run(text);
                if let Some(marker) = found.marker {
                    left.push((program, format!("left {marker}: {text}\n  {}", found.output)));
                }
            }
            left
        };
        let left: Vec<_> = thread::scope(|scope| {
            // All of them, before the first is waited for.
            let mut running = Vec::new();
            running.extend((0..WIDTH).map(|_| scope.spawn(work)));
            running
                .into_iter()
                .flat_map(|part| part.join().expect("a part"))
                .collect()
        });
        for (program, _) in &to_run {
            self.tallies.entry(program.clone()).or_default().run += 1;
        }
        for (program, text) in left {
            self.tallies.entry(program.clone()).or_default().markers += 1;
            self.wrong.push(text);
        }
    }

    /// Prints the counts and fails if an attempt came through.
    #[expect(clippy::print_stderr, reason = "the counts are read by a person")]
    pub(super) fn end(self, at_least: usize, of_each: usize) {
        let all = self.tallies.values().map(|tally| tally.attempts).sum::<usize>();
        for (program, tally) in &self.tallies {
            let Tally {
                attempts,
                covered,
                run,
                markers,
            } = tally;
            eprintln!("| {program} | {attempts} | {covered} | {run} | {markers} |");
        }
        let few: Vec<_> = self
            .tallies
            .iter()
            .filter(|(_, tally)| tally.attempts < of_each)
            .collect();
        assert!(
            self.wrong.is_empty(),
            "{} came through:\n{}",
            self.wrong.len(),
            self.wrong.join("\n")
        );
        assert!(few.is_empty(), "too few attempts: {few:?}");
        assert!(all >= at_least, "{all} attempts");
    }
}
