//! A run in a sandbox is a run like any other: its end, its kill, its leftovers, its life without a server.

use std::{fs, time::Duration};

use countersign_domain::{KillCause, Leftovers};
use countersign_hosts::gateway::SupervisorEvent;
use countersign_runner::{NotStarted, Obstacle};
use countersign_sys::process::inspect;
use rustix::{io::Errno, process::Signal};

use super::fixture::Sandbox;
use crate::{
    runner::harness::{Report, started, until},
    support::kill_hard,
};

/// Ignores what asks it to end, in a session of its own whose leader is gone.
const HARD_TO_KILL: &str =
    "(trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; sleep 1000' & sleep 1000) & ";

#[tokio::test]
async fn an_end_is_told_as_it_was() {
    let sandbox = or_skip!(Sandbox::new());
    for (script, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 7", Some(7), None),
        ("kill -9 $$", None, Some(9)),
        ("kill -15 $$", None, Some(15)),
    ] {
        let exit = sandbox.shell(script).await.exit().clone();
        assert_eq!(
            (exit.code, exit.signal, exit.spawn_errno),
            (code, signal, None),
            "{script}"
        );
        assert!(!exit.leftovers_killed, "{script}");
    }
    for (argv, errno) in [
        (["no-such-program"], Errno::NOENT),
        (["/usr/no/such"], Errno::NOENT),
        (["/etc/passwd"], Errno::ACCESS),
    ] {
        let exit = sandbox.run(&sandbox.argv(&argv)).await.exit().clone();
        assert_eq!(exit.spawn_errno, Some(errno.raw_os_error()), "{argv:?}");
    }
    sandbox.dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn a_command_that_is_asked_to_end_ends_by_that() {
    let sandbox = or_skip!(Sandbox::new());
    let mut spec = sandbox.spec();
    spec.terms.kill_grace = Duration::from_mins(1);
    let mut supervised = sandbox.start(spec, &sandbox.argv(&["sleep", "1000"])).await;
    started(&mut supervised).await;
    supervised.control.kill(KillCause::Cancelled);
    let report = Report::of(supervised).await;
    assert_eq!(report.exit().signal, Some(Signal::TERM.as_raw()));
    assert_eq!(report.exit().killed, Some(KillCause::Cancelled));
    report.control.stored();
    sandbox.dirs.until_nothing_is_alive().await;
}

#[tokio::test]
async fn a_kill_reaches_whatever_hides() {
    let sandbox = or_skip!(Sandbox::new());
    let script = format!("{HARD_TO_KILL} echo ready; sleep 1000");
    let mut supervised = sandbox.start(sandbox.spec(), &sandbox.script(&script)).await;
    started(&mut supervised).await;
    // Its word is that everything it wanted is started.
    match supervised.events.recv().await {
        Some(SupervisorEvent::Output { bytes, .. }) => assert_eq!(bytes, b"ready\n"),
        other => panic!("{other:?}"),
    }
    supervised.control.kill(KillCause::Cancelled);
    let report = Report::of(supervised).await;
    assert_eq!(report.exit().signal, Some(Signal::KILL.as_raw()));
    report.control.stored();
    sandbox.dirs.until_nothing_is_alive().await;
}

#[tokio::test]
async fn a_time_limit_ends_everything() {
    let sandbox = or_skip!(Sandbox::new());
    let mut spec = sandbox.spec();
    spec.timeout = Some(Duration::from_millis(300));
    let script = format!("{HARD_TO_KILL} sleep 1000");
    let report = Report::of(sandbox.start(spec, &sandbox.script(&script)).await).await;
    assert_eq!(report.exit().killed, Some(KillCause::Timeout));
    report.control.stored();
    sandbox.dirs.until_nothing_is_alive().await;
}

#[tokio::test]
async fn what_a_command_leaves_is_killed_unless_it_may_stay() {
    let sandbox = or_skip!(Sandbox::new());
    let report = sandbox.shell("setsid sleep 1000 & echo done").await;
    assert_eq!((report.exit().code, report.out()), (Some(0), "done\n"));
    assert!(report.exit().leftovers_killed);
    sandbox.dirs.until_nothing_is_alive().await;

    let mut spec = sandbox.spec();
    spec.terms.leftovers = Leftovers::Keep;
    spec.terms.keep_when_orphaned = true;
    let inside = sandbox.script(
        "(until [ -e /workspace/end ]; do sleep 0.01; done; echo later >/workspace/after) & echo done",
    );
    let supervised = sandbox.start(spec, &inside).await;
    let report = Report::of(supervised).await;
    assert_eq!(report.exit().code, Some(0));
    assert!(!report.exit().leftovers_killed && report.ended().leftovers_run);
    report.control.stored();
    assert!(!sandbox.dirs.alive().is_empty());
    crate::support::write_file(&sandbox.workspace().join("end"), "");
    sandbox.dirs.until_nothing_is_alive().await;
    assert_eq!(
        fs::read_to_string(sandbox.workspace().join("after")).unwrap(),
        "later\n"
    );
}

#[tokio::test]
async fn orphans_are_reaped_inside() {
    let sandbox = or_skip!(Sandbox::new());
    // Each inner shell ends before its child does.
    let script = "for n in 1 2 3 4 5; do sh -c 'sleep 0.01 & exit 0'; done; \
                  until [ \"$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c '(sleep)')\" = 0 ]; do :; done; \
                  cat /proc/[0-9]*/stat 2>/dev/null | grep -c ' Z ' || true";
    assert_eq!(sandbox.printed(script).await, "0");
}

#[tokio::test]
async fn a_killed_supervisor_takes_everything_inside_along() {
    let sandbox = or_skip!(Sandbox::new());
    let script = format!("{HARD_TO_KILL} sleep 1000");
    let mut supervised = sandbox.start(sandbox.spec(), &sandbox.script(&script)).await;
    let pid = started(&mut supervised).await;
    let supervisor = inspect(pid).unwrap().parent;
    kill_hard(supervisor);
    let report = Report::of(supervised).await;
    assert_eq!(report.end, SupervisorEvent::Lost);
    sandbox.dirs.until_nothing_is_alive().await;
}

#[tokio::test]
async fn the_first_process_inside_cannot_be_killed_from_inside_but_takes_everything_along() {
    let sandbox = or_skip!(Sandbox::new());
    assert_eq!(
        sandbox
            .printed("kill -9 1 2>/dev/null; kill -15 1 2>/dev/null; kill -11 1 2>/dev/null; cat /proc/1/comm; echo $$")
            .await
            .lines()
            .next(),
        Some("init")
    );
    let mut supervised = sandbox
        .start(sandbox.spec(), &sandbox.argv(&["sleep", "1000"]))
        .await;
    let command = started(&mut supervised).await;
    let supervisor = inspect(command).unwrap().parent;
    let siblings = countersign_sys::process::children(supervisor).unwrap();
    let first = siblings.into_iter().find(|pid| *pid != command).unwrap();
    kill_hard(first);
    let report = Report::of(supervised).await;
    assert_eq!(report.exit().signal, Some(Signal::KILL.as_raw()));
    report.control.stored();
    sandbox.dirs.until_nothing_is_alive().await;
}

#[tokio::test]
async fn a_background_run_goes_on_without_its_server_and_is_found_again() {
    let sandbox = or_skip!(Sandbox::new());
    let mut spec = sandbox.spec();
    spec.terms.keep_when_orphaned = true;
    let run_id = spec.run_id.clone();
    let inside = sandbox.script("echo first; until [ -e go ]; do sleep 0.01; done; echo second; exit 3");
    let mut supervised = sandbox.start(spec, &inside).await;
    started(&mut supervised).await;
    let Sandbox {
        dirs,
        beside: _,
        server,
        enclosure,
    } = sandbox;
    drop((supervised, server));

    let server = dirs.server();
    let countersign_hosts::gateway::Recovered::Attached(supervised) =
        server.host.recover(&run_id).await.unwrap()
    else {
        panic!("not attached")
    };
    crate::support::write_file(&enclosure.workspace.join("go"), "");
    let report = Report::of(*supervised).await;
    assert_eq!(report.exit().code, Some(3));
    report.control.stored();
    let spooled = server.spooled(&run_id, countersign_runner::output::spool::Selection::Both);
    assert_eq!(spooled, b"first\nsecond\n");
    until("nothing is alive", || dirs.alive().is_empty()).await;
}

#[tokio::test]
async fn what_cannot_be_made_is_named_and_nothing_was_started() {
    let mut sandbox = or_skip!(Sandbox::new());
    // There is no place for it: the system is read-only.
    let host = sandbox.beside.dir("outside");
    sandbox.bind(host, "/usr/no/such/place", false);
    let report = Report::of(sandbox.start(sandbox.spec(), &sandbox.script("echo no")).await).await;
    let SupervisorEvent::NotStarted(NotStarted::Sandbox(Obstacle::Bind, _)) = &report.end else {
        panic!("{:?}", report.end)
    };
    assert_eq!(report.pid, None);
    sandbox.dirs.assert_nothing_is_alive();
}
