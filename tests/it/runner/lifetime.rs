//! How long a run and its processes live: limits, kills, leftovers, lost clients.

use std::time::Duration;

use countersign_domain::{KillCause, Leftovers};
use countersign_hosts::gateway::{Recovered, Supervised, SupervisorEvent};
use countersign_sys::process;
use rustix::process::Signal;

use super::harness::{Report, RunnerDirs, started, until};

/// Three processes that hide: one in another session with another parent, one that ignores what can be ignored,
/// one that forks on when it is asked to end. Each says that it is there.
const HIDERS: &str = "
    trap '' TERM HUP INT QUIT
    setsid sh -c '(sleep 1000 & echo > hidden-1; wait) & sleep 1000' > /dev/null 2>&1 &
    (setsid setsid sleep 1001 > /dev/null 2>&1 & echo > hidden-2)
    sh -c 'trap \"sleep 1002 & sleep 1003\" TERM; echo > hidden-3; while :; do sleep 0.1; done' &
    while ! [ -e hidden-1 -a -e hidden-2 -a -e hidden-3 ]; do sleep 0.01; done
    touch hidden
";

#[tokio::test]
async fn the_time_limit_reaches_everything_that_hides() {
    for grace in [Duration::ZERO, Duration::from_millis(150)] {
        let dirs = RunnerDirs::new();
        let server = dirs.server();
        let mut spec = server.script(&format!("{HIDERS} sleep 1004"));
        spec.timeout = Some(Duration::from_secs(3));
        spec.terms.kill_grace = grace;
        let report = server.run(spec).await;
        assert!(dirs.file("hidden").exists(), "the limit passed before they hid");
        assert_eq!(report.exit().killed, Some(KillCause::Timeout));
        assert_eq!((report.exit().code, report.exit().signal), (None, Some(9)));
        dirs.assert_nothing_is_alive();
    }
}

#[tokio::test]
async fn a_command_may_use_the_grace_to_end_in_its_own_way() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let mut spec = server.script("trap 'echo bye; exit 3' TERM; echo > ready; while :; do sleep 0.01; done");
    spec.terms.kill_grace = Duration::from_mins(1);
    let supervised = server.host.start(spec).await.unwrap();
    until("it is ready", || dirs.file("ready").exists()).await;
    supervised.control.kill(KillCause::Cancelled);
    let report = Report::of(supervised).await;
    assert_eq!(report.out(), "bye\n");
    assert_eq!(
        (report.exit().code, report.exit().killed),
        (Some(3), Some(KillCause::Cancelled))
    );
}

#[tokio::test]
async fn dropping_the_control_kills_a_foreground_run() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = server.script(&format!("{HIDERS} sleep 1004"));
    let run_id = spec.run_id.clone();
    let supervised = server.host.start(spec).await.unwrap();
    until("they hid", || dirs.file("hidden").exists()).await;
    let Supervised { mut events, control } = supervised;
    drop(control);
    let end = loop {
        match events.recv().await.unwrap() {
            SupervisorEvent::Exit(ended) => break ended,
            SupervisorEvent::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end.exit.killed, Some(KillCause::Cancelled));
    dirs.assert_nothing_is_alive();
    assert!(!server.host.spool(&run_id).exists());
}

#[tokio::test]
async fn dropping_everything_kills_a_foreground_run() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let supervised = server
        .host
        .start(server.script(&format!("{HIDERS} sleep 1004")))
        .await
        .unwrap();
    until("they hid", || dirs.file("hidden").exists()).await;
    drop(supervised);
    dirs.until_nothing_is_alive().await;
}

#[tokio::test]
async fn leftovers_are_killed_after_their_grace_and_reported() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let script = format!("{HIDERS} echo end; exit 4");
    let report = server.run(server.script(&script)).await;
    assert_eq!(report.out(), "end\n");
    assert_eq!((report.exit().code, report.exit().killed), (Some(4), None));
    assert!(report.exit().leftovers_killed);
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn leftovers_that_end_in_time_are_nothing_special() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let report = server
        .run(server.script("(sleep 0.1; echo late) & echo first"))
        .await;
    assert_eq!(report.out(), "first\nlate\n");
    assert!(!report.exit().leftovers_killed);
}

#[tokio::test]
async fn leftovers_can_be_kept_and_killed_later() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let mut spec = server.script(&format!("{HIDERS} echo end"));
    spec.terms.leftovers = Leftovers::Keep;
    let Supervised { events, control } = server.host.start(spec).await.unwrap();
    let mut supervised = Supervised { events, control };
    started(&mut supervised).await;
    let ended = loop {
        match supervised.events.recv().await.unwrap() {
            SupervisorEvent::Exit(ended) => break ended,
            SupervisorEvent::Output { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        (ended.exit.code, ended.exit.leftovers_killed, ended.leftovers_run),
        (Some(0), false, true)
    );
    assert!(dirs.alive().len() >= 3);
    supervised.control.stored();
    // Other runs go on meanwhile.
    assert_eq!(server.run(server.argv(&["/bin/true"])).await.exit().code, Some(0));
    supervised.control.kill(KillCause::Cancelled);
    assert_eq!(
        supervised.events.recv().await,
        Some(SupervisorEvent::LeftoversEnded)
    );
    assert_eq!(supervised.events.recv().await, None);
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn kept_leftovers_go_on_when_nobody_holds_the_run_any_more() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let mut spec = server.script("echo said; setsid sleep 1000 > /dev/null 2>&1 &");
    spec.terms.leftovers = Leftovers::Keep;
    let run_id = spec.run_id.clone();
    let report = Report::of(server.host.start(spec).await.unwrap()).await;
    assert!(report.ended().leftovers_run);
    // Nobody stored the output: as when the server dies.
    drop(report);
    until("there is a spool", || server.host.spool(&run_id).exists()).await;
    let recovered = server.host.recover(&run_id).await.unwrap();
    assert!(matches!(recovered, Recovered::Exited { .. }), "{recovered:?}");
    assert_eq!(server.run(server.argv(&["/bin/true"])).await.exit().code, Some(0));
    let alive = dirs.alive();
    assert_eq!(alive.len(), 1);
    for pid in alive {
        process::signal_process(pid, Signal::KILL);
    }
    until("its supervisor let go", || {
        !server.host.inspect(&run_id).unwrap().is_locked
    })
    .await;
}

#[tokio::test]
async fn a_kill_after_the_end_does_not_change_how_it_ended() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = server.script("setsid sleep 1000 & echo $$ > pid; exit 6");
    let supervised = server.host.start(spec).await.unwrap();
    let first_is_gone = || {
        let pid = std::fs::read_to_string(dirs.file("pid")).unwrap_or_default();
        pid.trim()
            .parse()
            .is_ok_and(|pid| process::inspect(pid).is_none())
    };
    until("the first process ended", first_is_gone).await;
    supervised.control.kill(KillCause::Cancelled);
    let report = Report::of(supervised).await;
    assert_eq!((report.exit().code, report.exit().killed), (Some(6), None));
    assert!(report.exit().leftovers_killed);
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn a_kill_during_the_output_still_reports_what_was_written() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let supervised = server
        .host
        .start(server.script("echo before; touch ready; sleep 1000"))
        .await
        .unwrap();
    until("it is ready", || dirs.file("ready").exists()).await;
    supervised.control.kill(KillCause::Shutdown);
    let report = Report::of(supervised).await;
    assert_eq!(report.out(), "before\n");
    assert_eq!(report.exit().killed, Some(KillCause::Shutdown));
}

#[tokio::test]
async fn a_run_that_spawns_without_end_is_killed_too() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let mut spec = server.script(
        "f() { while :; do setsid sh -c 'sleep 0.02; exec sleep 1000' > /dev/null 2>&1 & sleep 0.01; done; }
         f & f & f & sleep 1000",
    );
    spec.timeout = Some(Duration::from_millis(400));
    let report = server.run(spec).await;
    assert_eq!(report.exit().killed, Some(KillCause::Timeout));
    dirs.assert_nothing_is_alive();
}
