//! The command line of the harness.

use std::time::Duration;

use super::gate::GROUPS;

/// What can be measured, in the order of a run.
const MEASURES: [&str; 14] = [
    "exec",
    "approval",
    "pending",
    "flood",
    "sse",
    "explain",
    "isolation",
    "sandbox",
    "docker",
    "echo",
    "throughput",
    "nodes",
    "leaks",
    "gate",
];

/// What to measure, and how long.
#[derive(Debug)]
pub(crate) struct Options {
    measures: Vec<String>,
    /// Groups of the guard; none for all.
    only: Vec<String>,
    pub(crate) program: String,
    pub(crate) windows: u32,
    pub(crate) window: Duration,
    pub(crate) clients: Vec<usize>,
    pub(crate) rounds: u32,
    pub(crate) pending: usize,
    pub(crate) subscribers: usize,
    pub(crate) rate: u32,
    pub(crate) seconds: u32,
    pub(crate) entries: Vec<usize>,
    pub(crate) nodes: usize,
}

impl Options {
    /// Reads them; panics with a message on what it does not know.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut options = Self {
            measures: Vec::new(),
            only: Vec::new(),
            program: "/bin/true".to_owned(),
            windows: 8,
            window: Duration::from_secs(1),
            clients: vec![1, 32],
            rounds: 300,
            pending: 1000,
            subscribers: 1000,
            rate: 100,
            seconds: 10,
            entries: vec![10, 10_000, 100_000],
            nodes: 500,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .unwrap_or_else(|| panic!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--only" => {
                    let group = value();
                    assert!(
                        GROUPS.contains(&group.as_str()),
                        "unknown group: {group}; there is {}",
                        GROUPS.join(", ")
                    );
                    options.only.push(group);
                }
                "--command" => options.program = value(),
                "--windows" => options.windows = number(&value()),
                "--window-ms" => options.window = Duration::from_millis(number(&value())),
                "--clients" => options.clients = numbers(&value()),
                "--rounds" => options.rounds = number(&value()),
                "--pending" => options.pending = number(&value()),
                "--subscribers" => options.subscribers = number(&value()),
                "--rate" => options.rate = number(&value()),
                "--seconds" => options.seconds = number(&value()),
                "--nodes" => options.nodes = number(&value()),
                "--entries" => options.entries = numbers(&value()),
                // What cargo itself passes to every bench target.
                "--bench" => {}
                measure if MEASURES.contains(&measure) => options.measures.push(measure.to_owned()),
                _ => panic!("unknown: {argument}; there is {}", MEASURES.join(", ")),
            }
        }
        options
    }

    /// Whether this is to be measured; without a choice everything is.
    pub(crate) fn wants(&self, measure: &str) -> bool {
        self.measures.is_empty() || self.names(measure)
    }

    /// Whether this group of the guard's rows is to be measured.
    pub(crate) fn in_gate(&self, group: &str) -> bool {
        self.is_whole_gate() || self.only.iter().any(|wanted| wanted == group)
    }

    /// Whether all rows of the guard are to be measured.
    pub(crate) const fn is_whole_gate(&self) -> bool {
        self.only.is_empty()
    }

    /// Whether this was chosen by its name.
    pub(crate) fn names(&self, measure: &str) -> bool {
        self.measures.iter().any(|wanted| wanted == measure)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("not a number: {text}"))
}

fn numbers(text: &str) -> Vec<usize> {
    text.split(',').map(number).collect()
}
