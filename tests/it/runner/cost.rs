//! What a start costs: run it alone with `cargo test --test it -- --ignored --nocapture cost`.

use std::{ffi::OsStr, path::Path, time::Duration};

use countersign_domain::{Bound, BoundAction, BoundStep, StepJoin};
use countersign_sys::process::{self, Spawn};

use super::harness::{RunnerDirs, identity};

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

#[expect(clippy::print_stderr, reason = "the figures are what it is run for")]
fn report(what: &str, mut times: Vec<Duration>) {
    let (middle, high) = (percentile(&mut times, 50), percentile(&mut times, 99));
    eprintln!("{what}: p50 {middle:?}, p99 {high:?}");
}

#[tokio::test]
#[ignore = "measures; says nothing when something else runs"]
async fn a_start_costs_little_more_than_a_bare_one() {
    const COUNT: usize = 1000;
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    for round in 0..3 {
        let mut bare = Vec::new();
        for _ in 0..COUNT {
            let began = process::monotonic();
            let spawn = Spawn {
                program: Path::new("/bin/true"),
                arguments: &[OsStr::new("true")],
                environment: &[],
                output: None,
                descriptors: &[],
            };
            process::spawn(&spawn).unwrap().wait().unwrap();
            bare.push(process::monotonic().saturating_sub(began));
        }
        report(&format!("{round}: posix_spawn and wait"), bare);
        let mut through = Vec::new();
        for _ in 0..COUNT {
            let spec = server.argv(&["/bin/true"]);
            let began = process::monotonic();
            server.run(spec).await;
            through.push(process::monotonic().saturating_sub(began));
        }
        report(&format!("{round}: through the runner  "), through);
        let began = process::monotonic();
        for _ in 0..COUNT / 32 {
            let runs = (0..32).map(|_| server.run(server.argv(&["/bin/true"])));
            futures_util::future::join_all(runs).await;
        }
        let each = (process::monotonic().saturating_sub(began)) / u32::try_from(COUNT / 32 * 32).unwrap();
        report(&format!("{round}: 32 at a time, each    "), vec![each]);
    }
}

#[tokio::test]
#[ignore = "measures; says nothing when something else runs"]
async fn a_pipeline_costs_less_than_through_a_shell() {
    const COUNT: usize = 500;
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let step = |join, path: &str| BoundStep {
        join,
        action: BoundAction::Program {
            path: path.to_owned(),
            argv: vec![path.to_owned()],
            assignments: vec![],
            identity: identity(Path::new(path)),
            redirections: vec![],
            fills: vec![],
        },
    };
    let plan = Bound::Plan {
        steps: vec![
            step(None, "/usr/bin/true"),
            step(Some(StepJoin::Pipe), "/usr/bin/cat"),
        ],
    };
    let rendered = Bound::Rendered {
        script: "'/usr/bin/true' | '/usr/bin/cat'".to_owned(),
    };
    for round in 0..3 {
        for (what, bound) in [("by the plan   ", &plan), ("through a shell", &rendered)] {
            let mut times = Vec::new();
            for _ in 0..COUNT {
                let spec = server.spec(bound.clone());
                let began = process::monotonic();
                server.run(spec).await;
                times.push(process::monotonic().saturating_sub(began));
            }
            report(&format!("{round}: a pipeline {what}"), times);
        }
    }
}
