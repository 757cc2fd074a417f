//! What a run may use of the machine, where control groups can be had.

use std::{fs, path::PathBuf};

use countersign_domain::{Exit, LimitReport, StepJoin};
use countersign_hosts::gateway::LaunchSpec;
use countersign_runner::{Controller, RunLimits, enforceable};

use super::harness::{Report, RunnerDirs, Server};
use crate::support::needed;

const MEBIBYTE: u64 = 1 << 20;

/// Says why runs cannot be held to something here, if they cannot.
fn possible(controller: Controller) -> Option<()> {
    let name = controller.name();
    let is_there = enforceable().contains(&controller);
    needed(is_there, &format!("no control group of {name} can be had here"))
}

fn limited(mut spec: LaunchSpec, limits: RunLimits) -> LaunchSpec {
    spec.terms.limits = limits;
    spec
}

/// Uses as many mebibytes as its argument says, which `tail` has to remember: there is no line in them.
fn hungry(server: &Server, mebibytes: u64) -> LaunchSpec {
    server.script(&format!(
        "head -c {mebibytes}M /dev/zero | tail -n 1 | wc -c; echo done"
    ))
}

#[tokio::test]
async fn a_run_over_its_memory_is_killed_and_says_so_and_the_next_is_not() {
    or_skip!(possible(Controller::Memory));
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let limits = |mebibytes: u64| RunLimits {
        memory_bytes: mebibytes * MEBIBYTE,
        ..RunLimits::default()
    };
    // The same few supervisors serve them all: what one run was held to holds for no other.
    for round in 0..3 {
        let report = server.run(limited(hungry(&server, 200), limits(64))).await;
        let out_of_memory = LimitReport {
            out_of_memory: true,
            ..LimitReport::default()
        };
        assert_eq!(report.exit().limits, out_of_memory, "round {round}");
        // Whoever used too much is killed; the shell that waits for it goes on.
        assert_eq!(report.out(), "0\ndone\n", "round {round}");
        for (mebibytes, limits) in [(20, limits(64)), (200, limits(600)), (200, RunLimits::default())] {
            let report = server.run(limited(hungry(&server, mebibytes), limits)).await;
            let bytes = mebibytes * MEBIBYTE;
            assert_eq!(report.out(), format!("{bytes}\ndone\n"), "round {round}");
            assert_eq!(report.exit().limits, LimitReport::default(), "round {round}");
        }
    }
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn a_fork_bomb_ends_at_its_limit_and_nothing_of_it_is_left() {
    or_skip!(possible(Controller::Processes));
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let limits = RunLimits {
        processes: 30,
        ..RunLimits::default()
    };
    // As a program of one process, and led by a shell; each forks as fast as it can, for ever.
    let bomb = "b() { b | b & b; }; b 2>/dev/null; exit 3";
    let mut spec = limited(server.script(bomb), limits);
    spec.timeout = Some(std::time::Duration::from_secs(2));
    let report = server.run(spec).await;
    assert!(report.exit().limits.out_of_processes, "{:?}", report.exit());
    dirs.assert_nothing_is_alive();
    let few = server
        .run(limited(
            server.script("for i in 1 2 3; do sleep 0 & done; wait; echo fine"),
            limits,
        ))
        .await;
    assert_eq!((few.out(), few.exit().limits), ("fine\n", LimitReport::default()));
}

#[tokio::test]
async fn processor_time_is_limited_for_the_command_and_not_for_its_supervisor() {
    or_skip!(possible(Controller::Cpu));
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let limits = |cpu_percent| RunLimits {
        cpu_percent,
        ..RunLimits::default()
    };
    let groups = "cat /proc/self/cgroup; echo; cat /proc/$PPID/cgroup";
    for percent in [50, 150] {
        let report = server.run(limited(server.script(groups), limits(percent))).await;
        let (own, supervisors) = report.out().split_once("\n\n").expect("both groups");
        let (of_command, of_supervisor) = (quota(own), quota(supervisors));
        assert_eq!(of_command.as_deref(), Some((percent * 1000).to_string().as_str()));
        assert_ne!(of_command, of_supervisor);
    }
    let report = server.run(server.script("cat /proc/self/cgroup")).await;
    assert_ne!(quota(report.out()).as_deref(), Some("150000"));
}

/// The quota of the group that the lines of a process name.
fn quota(groups: &str) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = |is_it: fn(&str) -> bool| -> Option<PathBuf> {
        let line = mounts
            .lines()
            .find(|line| line.split_once(" - ").is_some_and(|(_, kind)| is_it(kind)))?;
        Some(line.split(' ').nth(4)?.into())
    };
    let first = mount(|kind| {
        kind.starts_with("cgroup ")
            && kind
                .rsplit(' ')
                .next()
                .is_some_and(|o| o.split(',').any(|o| o == "cpu"))
    });
    let line = |wanted: &str| {
        groups.lines().find_map(|line| {
            let (names, group) = line.split_once(':')?.1.split_once(':')?;
            (names.split(',').any(|name| name == wanted)).then_some(group)
        })
    };
    let (file, word) = if let Some(mount) = first {
        (
            mount
                .join(line("cpu")?.trim_start_matches('/'))
                .join("cpu.cfs_quota_us"),
            0,
        )
    } else {
        let mount = mount(|kind| kind.starts_with("cgroup2 "))?;
        (mount.join(line("")?.trim_start_matches('/')).join("cpu.max"), 0)
    };
    let text = fs::read_to_string(file).ok()?;
    text.split_whitespace().nth(word).map(str::to_owned)
}

#[tokio::test]
async fn a_plan_of_several_programs_is_held_as_a_whole() {
    or_skip!(possible(Controller::Memory));
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let step = |join, program: &str, argv: &[&str]| countersign_domain::BoundStep {
        join,
        action: countersign_domain::BoundAction::Program {
            path: program.to_owned(),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            assignments: vec![],
            identity: super::harness::identity(&fs::canonicalize(program).unwrap()),
            redirections: vec![],
            fills: vec![],
        },
    };
    let steps = vec![
        step(None, "/usr/bin/head", &["head", "-c", "200M", "/dev/zero"]),
        step(Some(StepJoin::Pipe), "/usr/bin/tail", &["tail", "-n", "1"]),
        step(Some(StepJoin::Pipe), "/usr/bin/wc", &["wc", "-c"]),
        step(Some(StepJoin::Sequence), "/bin/echo", &["echo", "done"]),
    ];
    let limits = RunLimits {
        memory_bytes: 64 * MEBIBYTE,
        ..RunLimits::default()
    };
    let spec = limited(server.spec(countersign_domain::Bound::Plan { steps }), limits);
    let report: Report = server.run(spec).await;
    assert_eq!(report.out(), "0\ndone\n");
    assert!(report.exit().limits.out_of_memory);
}

#[tokio::test]
async fn groups_are_taken_away_with_their_supervisors() {
    or_skip!(possible(Controller::Processes));
    let dirs = RunnerDirs::new();
    let group = {
        let server = dirs.server();
        let limits = RunLimits {
            processes: 10,
            ..RunLimits::default()
        };
        let report = server
            .run(limited(server.script("cat /proc/self/cgroup"), limits))
            .await;
        assert_eq!(
            report.exit(),
            &Exit {
                code: Some(0),
                output_bytes: report.stdout.len() as u64,
                kept_bytes: report.stdout.len() as u64,
                ..Exit::default()
            }
        );
        let line = report
            .out()
            .lines()
            .find(|line| line.contains("countersign-"))
            .expect("a group of ours");
        line.rsplit('/').nth(1).expect("its home").to_owned()
    };
    let is_gone = || {
        let hierarchies = ["/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"];
        hierarchies
            .iter()
            .all(|dirs| !PathBuf::from(dirs).join(&group).exists())
    };
    super::harness::until("the groups are gone", is_gone).await;
}
