//! What is true after something was killed.

use std::{ffi::OsStr, fs, os::fd::AsFd, path::Path};

use countersign_domain::{Exit, KillCause, LaunchId, RunId, TerminalSize};
use countersign_hosts::{
    Attempt,
    gateway::{GatewayHost, Recovered, SupervisorEvent},
};
use countersign_runner::{KillLevel, output::spool::Selection, run_file::RunFileState};
use countersign_sys::process::{self, Spawn, SpawnedProcess, inspect};
use rustix::process::Signal;

use super::harness::{Report, RunnerDirs, Server, os, started, until};

const PLACE: &str = "RUNNER_TEST_PLACE";
const MARK: &str = "RUNNER_TEST_MARK";
const SCRIPT: &str = "RUNNER_TEST_SCRIPT";
const OUTLIVES: &str = "RUNNER_TEST_OUTLIVES";
const TERMINAL: &str = "RUNNER_TEST_TERMINAL";

const RUN: &str = "the-run";

fn run_id() -> RunId {
    RunId::parse(RUN).unwrap()
}

/// Not a test of its own: the server process of the tests below, which kill it. Does nothing when it is not asked.
#[tokio::test]
async fn server_process_of_other_tests() {
    #[expect(
        clippy::disallowed_methods,
        reason = "the parent test says in the environment what is wanted"
    )]
    let variable = |name| std::env::var(name).ok();
    let (Some(dirs), Some(mark), Some(script)) = (variable(PLACE), variable(MARK), variable(SCRIPT)) else {
        return;
    };
    let server = Server::at(Path::new(&dirs), &mark, None);
    let mut spec = server.script(&script);
    spec.run_id = run_id();
    spec.terms.keep_when_orphaned = variable(OUTLIVES).is_some();
    spec.terms.terminal = variable(TERMINAL).map(|_| TerminalSize::DEFAULT);
    let _report = Report::of(server.host.start(spec).await.unwrap()).await;
    std::future::pending::<()>().await;
}

/// Another process with a server that starts one run.
fn server_process(dirs: &RunnerDirs, script: &str, outlives: bool) -> SpawnedProcess {
    let wishes: &[&str] = if outlives { &[OUTLIVES] } else { &[] };
    server_process_with(dirs, script, wishes)
}

fn server_process_with(dirs: &RunnerDirs, script: &str, wishes: &[&'static str]) -> SpawnedProcess {
    let program = std::env::current_exe().unwrap();
    let arguments = ["it", "--exact", "runner::crash::server_process_of_other_tests"].map(OsStr::new);
    let path = dirs.path().to_str().unwrap();
    let mut environment = vec![(PLACE, path), (MARK, dirs.mark.as_str()), (SCRIPT, script)];
    environment.extend(wishes.iter().map(|wish| (*wish, "1")));
    let spawn = Spawn {
        program: &program,
        arguments: &arguments,
        environment: &os(&environment),
        output: None,
        descriptors: &[],
    };
    process::spawn(&spawn).unwrap()
}

fn kill(process: SpawnedProcess) {
    process::signal_process(process.pid(), Signal::KILL);
    process.wait().unwrap();
}

#[tokio::test]
async fn a_background_run_survives_its_server_and_is_attached_to_again() {
    let dirs = RunnerDirs::new();
    let script = "echo one; echo two >&2; touch began
        while ! [ -e go ]; do sleep 0.01; done
        echo three; head -c 100000 /dev/zero | tr '\\0' x; echo end";
    let old = server_process(&dirs, script, true);
    until("it began", || dirs.file("began").exists()).await;
    kill(old);

    let server = dirs.server();
    let Recovered::Attached(mut supervised) = server.host.recover(&run_id()).await.unwrap() else {
        panic!("not attached")
    };
    let pid = started(&mut supervised).await;
    assert!(inspect(pid).is_some());
    fs::File::create(dirs.file("go")).unwrap();
    let report = Report::of(*supervised).await;
    let tail = format!("three\n{}end\n", "x".repeat(100_000));
    assert_eq!((report.skipped, report.out().len()), (0, tail.len() + 4));
    assert!(report.out() == format!("one\n{tail}"));
    assert_eq!(report.stderr, b"two\n");
    let bytes = 4 + 4 + tail.len() as u64;
    assert_eq!(
        report.exit(),
        &Exit {
            code: Some(0),
            output_bytes: bytes,
            kept_bytes: bytes,
            ..Exit::default()
        }
    );
    assert_eq!(
        server.spooled(&run_id(), Selection::Both),
        format!("one\ntwo\n{tail}").into_bytes()
    );
    until("the supervisor let go", || {
        !server.host.inspect(&run_id()).unwrap().is_locked
    })
    .await;
    assert_eq!(
        fs::read_dir(dirs.file("runs")).unwrap().count(),
        1,
        "a socket stays"
    );
}

#[tokio::test]
async fn a_run_on_a_terminal_survives_its_server_and_takes_input_from_the_next() {
    let dirs = RunnerDirs::new();
    let script = "echo one; touch began; while ! [ -e go ]; do sleep 0.01; done
        seq 1 20000; touch more; read line; echo \"read $line\"";
    let old = server_process_with(&dirs, script, &[OUTLIVES, TERMINAL]);
    until("it began", || dirs.file("began").exists()).await;
    kill(old);
    fs::File::create(dirs.file("go")).unwrap();
    // Nobody is there while it writes more than a terminal holds.
    until("it wrote more", || dirs.file("more").exists()).await;

    let server = dirs.server();
    let Recovered::Attached(supervised) = server.host.recover(&run_id()).await.unwrap() else {
        panic!("not attached")
    };
    supervised.control.write_input(b"this\n").await.unwrap();
    let report = Report::of(*supervised).await;
    let numbers: Vec<_> = (1..=20_000).map(|number| format!("{number}\r\n")).collect();
    let numbers = numbers.concat();
    assert_eq!(report.exit().code, Some(0));
    assert!(report.out() == format!("one\r\n{numbers}this\r\nread this\r\n"));
    assert!(server.spooled(&run_id(), Selection::Both) == report.stdout);
}

#[tokio::test]
async fn a_background_run_can_lose_its_server_twice_and_end_alone() {
    let dirs = RunnerDirs::new();
    let script = "echo one; touch began; while ! [ -e go ]; do sleep 0.01; done; echo two";
    let old = server_process(&dirs, script, true);
    until("it began", || dirs.file("began").exists()).await;
    kill(old);
    {
        let server = dirs.server();
        let Recovered::Attached(supervised) = server.host.recover(&run_id()).await.unwrap() else {
            panic!("not attached")
        };
        drop(supervised);
    }
    fs::File::create(dirs.file("go")).unwrap();
    let server = dirs.server();
    until("it ended", || !server.host.inspect(&run_id()).unwrap().is_locked).await;
    let Recovered::Exited { exit, spool, .. } = server.host.recover(&run_id()).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        exit,
        Exit {
            code: Some(0),
            output_bytes: 8,
            kept_bytes: 8,
            ..Exit::default()
        }
    );
    assert_eq!(spool, Some(server.host.spool(&run_id())));
    assert_eq!(server.spooled(&run_id(), Selection::Both), b"one\ntwo\n");
}

#[tokio::test]
async fn an_attached_run_can_be_killed() {
    let dirs = RunnerDirs::new();
    let old = server_process(&dirs, "touch began; setsid sleep 1000 & sleep 1000", true);
    until("it began", || dirs.file("began").exists()).await;
    kill(old);
    let server = dirs.server();
    let Recovered::Attached(supervised) = server.host.recover(&run_id()).await.unwrap() else {
        panic!()
    };
    supervised.control.kill(KillCause::Cancelled);
    let report = Report::of(*supervised).await;
    assert_eq!(report.exit().killed, Some(KillCause::Cancelled));
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn a_foreground_run_dies_with_its_server_and_its_end_is_known() {
    let dirs = RunnerDirs::new();
    let old = server_process(
        &dirs,
        "echo said; touch began; setsid sleep 1000 & sleep 1000",
        false,
    );
    until("it began", || dirs.file("began").exists()).await;
    kill(old);
    let server = dirs.server();
    let Recovered::Exited { exit, .. } = server.host.recover(&run_id()).await.unwrap() else {
        panic!()
    };
    assert_eq!(
        (exit.killed, exit.signal, exit.kept_bytes),
        (Some(KillCause::Shutdown), Some(9), 5)
    );
    assert_eq!(server.spooled(&run_id(), Selection::Both), b"said\n");
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn the_output_of_a_run_that_ended_before_its_server_died_is_not_lost() {
    let dirs = RunnerDirs::new();
    let old = server_process(&dirs, "echo said", false);
    let path = dirs.file("runs").join(RUN);
    until("it ended", || {
        let inspected = countersign_runner::run_file::inspect(&path).unwrap();
        matches!(inspected.state, RunFileState::Exited(..))
    })
    .await;
    // The server knows by now, or will never know; it has stored nothing.
    kill(old);
    let server = dirs.server();
    let Recovered::Exited { exit, spool, .. } = server.host.recover(&run_id()).await.unwrap() else {
        panic!()
    };
    assert_eq!((exit.code, exit.kept_bytes), (Some(0), 5));
    assert!(spool.is_some());
    assert_eq!(server.spooled(&run_id(), Selection::Both), b"said\n");
}

#[tokio::test]
async fn all_processes_of_the_runner_end_with_the_server() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let mut supervised = server
        .host
        .start(server.script("touch began; sleep 1000"))
        .await
        .unwrap();
    let pid = started(&mut supervised).await;
    let supervisor = inspect(pid).unwrap().parent;
    let runner = inspect(supervisor).unwrap().parent;
    let mut family = process::children(runner).unwrap();
    assert!(family.contains(&supervisor) && family.len() >= 2, "{family:?}");
    family.push(runner);
    drop((supervised, server));
    until("they all ended", || {
        family
            .iter()
            .all(|pid| inspect(*pid).is_none_or(|process| process.is_zombie))
    })
    .await;
    dirs.assert_nothing_is_alive();
}

#[tokio::test]
async fn a_killed_runner_is_replaced_and_its_runs_go_on() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let script = "touch began; while ! [ -e go ]; do sleep 0.01; done; echo went on";
    let mut supervised = server.host.start(server.script(script)).await.unwrap();
    let pid = started(&mut supervised).await;
    until("it began", || dirs.file("began").exists()).await;
    let runner = inspect(inspect(pid).unwrap().parent).unwrap().parent;
    process::signal_process(runner, Signal::KILL);
    until("there is another runner", || server.host.runner().restarts() == 1).await;
    assert!(inspect(runner).is_none(), "the dead runner is reaped");
    for _ in 0..4 {
        assert_eq!(server.run(server.argv(&["/bin/true"])).await.exit().code, Some(0));
    }
    fs::File::create(dirs.file("go")).unwrap();
    assert_eq!(Report::of(supervised).await.out(), "went on\n");
}

#[tokio::test]
async fn frames_that_wait_when_the_runner_dies_are_served_by_the_next() {
    let dirs = RunnerDirs::new();
    let server = dirs.server_that_dies_at("runner.started");
    // The first runner dies before it takes anything; what was sent waits for the one after it.
    let report = Report::of(server.host.start(server.script("true")).await.unwrap()).await;
    assert_eq!(report.exit().code, Some(0));
    assert_eq!(server.host.runner().restarts(), 1);
}

#[tokio::test]
async fn what_a_killed_supervisor_leaves_is_killed_and_the_run_is_lost() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = server.script("trap '' TERM; setsid setsid sleep 1000 & touch began; sleep 1000");
    let run_id = spec.run_id.clone();
    let mut supervised = server.host.start(spec).await.unwrap();
    let pid = started(&mut supervised).await;
    until("it began", || dirs.file("began").exists()).await;
    process::signal_process(inspect(pid).unwrap().parent, Signal::KILL);
    let report = Report::of(supervised).await;
    assert_eq!(report.end, SupervisorEvent::Lost);
    dirs.until_nothing_is_alive().await;
    assert!(matches!(
        server.host.inspect(&run_id).unwrap().state,
        RunFileState::Started(_)
    ));
    assert!(matches!(
        server.host.recover(&run_id).await.unwrap(),
        Recovered::StartedAndGone
    ));
    assert_eq!(server.run(server.argv(&["/bin/true"])).await.exit().code, Some(0));
}

#[tokio::test]
async fn the_session_of_a_run_is_killed_even_when_runner_and_supervisor_died() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = server.script("trap '' TERM; (sleep 1000 & sleep 1001) & touch began; sleep 1000");
    let run_id = spec.run_id.clone();
    let mut supervised = server.host.start(spec).await.unwrap();
    let pid = started(&mut supervised).await;
    until("it began", || dirs.file("began").exists()).await;
    let supervisor = inspect(pid).unwrap().parent;
    let runner = inspect(supervisor).unwrap().parent;
    process::signal_process(runner, Signal::KILL);
    process::signal_process(supervisor, Signal::KILL);
    assert_eq!(Report::of(supervised).await.end, SupervisorEvent::Lost);
    assert!(matches!(
        server.host.recover(&run_id).await.unwrap(),
        Recovered::StartedAndGone
    ));
    dirs.until_nothing_is_alive().await;
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a skip says why")]
async fn even_what_left_the_session_is_killed_when_runner_and_supervisor_died() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    if server.host.runner().kill_level() != KillLevel::ControlGroup {
        eprintln!("skipped: no control group of the second version is delegated to this process");
        return;
    }
    let script = "trap '' TERM; setsid setsid sleep 1000 & touch began; sleep 1000";
    let mut supervised = server.host.start(server.script(script)).await.unwrap();
    let pid = started(&mut supervised).await;
    until("it began", || dirs.file("began").exists()).await;
    let supervisor = inspect(pid).unwrap().parent;
    let runner = inspect(supervisor).unwrap().parent;
    // The next runner finds the group of the dead supervisor when it starts.
    process::signal_process(supervisor, Signal::STOP);
    process::signal_process(runner, Signal::KILL);
    process::signal_process(supervisor, Signal::KILL);
    assert_eq!(Report::of(supervised).await.end, SupervisorEvent::Lost);
    dirs.until_nothing_is_alive().await;
}

#[tokio::test]
async fn recovery_knows_runs_that_never_started() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let id = run_id();
    assert!(matches!(
        server.host.recover(&id).await.unwrap(),
        Recovered::NotStarted
    ));
    fs::File::create(server.host.run_file(&id)).unwrap();
    assert!(matches!(
        server.host.recover(&id).await.unwrap(),
        Recovered::NotStarted
    ));
    server.host.void(&id).unwrap();
    assert!(matches!(
        server.host.recover(&id).await.unwrap(),
        Recovered::Voided
    ));
}

/// Where a supervisor is killed, and what has to be true then.
#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn a_supervisor_killed_anywhere_leaves_a_run_that_happened_once_or_not_at_all() {
    #[derive(Debug, PartialEq, Eq)]
    enum Outcome {
        NotStarted,
        Lost,
        Exited,
    }
    use Outcome::{Exited, Lost, NotStarted};
    for (point, expect) in [
        ("sup.order-taken", NotStarted),
        ("sup.before-lock", NotStarted),
        ("sup.locked", NotStarted),
        ("sup.fence-written", Lost),
        ("sup.child-started", Lost),
        ("sup.child-ended", Lost),
        ("sup.before-exit-line", Lost),
        ("sup.exit-line-written", Exited),
        ("sup.exit-sent", Exited),
    ] {
        let dirs = RunnerDirs::new();
        let id = run_id();
        let launch_id = LaunchId::parse("the-launch").unwrap();
        let outcome = {
            let server = dirs.server_that_dies_at(point);
            let mut spec = server.script("echo ran >> ran; echo said");
            (spec.run_id, spec.launch_id) = (id.clone(), launch_id.clone());
            let report = Report::of(server.host.start(spec).await.unwrap()).await;
            match report.end {
                SupervisorEvent::NotStarted(_) => NotStarted,
                SupervisorEvent::Lost => Lost,
                SupervisorEvent::Exit(ref ended) => {
                    assert_eq!(ended.exit.code, Some(0), "{point}");
                    assert_eq!(report.inline(Selection::Both), b"said\n", "{point}");
                    Exited
                }
                SupervisorEvent::Started { .. }
                | SupervisorEvent::Output { .. }
                | SupervisorEvent::Skipped { .. }
                | SupervisorEvent::LeftoversEnded => panic!("{point}: {:?}", report.end),
            }
        };
        assert_eq!(outcome, expect, "{point}");
        dirs.until_nothing_is_alive().await;

        let server = dirs.server();
        let recovered = server.host.recover(&id).await.unwrap();
        let ran = || fs::read_to_string(dirs.file("ran")).unwrap_or_default();
        match outcome {
            NotStarted => {
                assert!(
                    matches!(recovered, Recovered::NotStarted),
                    "{point}: {recovered:?}"
                );
                assert_eq!(ran(), "", "{point}");
                start_again(&server.host, &server, &id, &launch_id).await;
                assert_eq!(ran(), "ran\n", "{point}");
            }
            Lost => {
                assert!(
                    matches!(recovered, Recovered::StartedAndGone),
                    "{point}: {recovered:?}"
                );
                assert!(matches!(ran().as_str(), "" | "ran\n"), "{point}");
            }
            Exited => {
                assert!(
                    matches!(recovered, Recovered::Exited { .. }),
                    "{point}: {recovered:?}"
                );
                assert_eq!(ran(), "ran\n", "{point}");
            }
        }
    }
}

#[cfg(feature = "test-hooks")]
async fn start_again(host: &GatewayHost, server: &Server, id: &RunId, launch_id: &LaunchId) {
    let mut spec = server.script("echo ran >> ran");
    (spec.run_id, spec.launch_id, spec.terms.attempt) = (id.clone(), launch_id.clone(), Attempt::Again);
    let report = Report::of(host.start(spec).await.unwrap()).await;
    assert_eq!(report.exit().code, Some(0));
}

#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn a_runner_killed_while_it_grows_serves_everybody_in_the_end() {
    for point in ["runner.forked:3", "runner.forked:4"] {
        let dirs = RunnerDirs::new();
        let server = dirs.server_that_dies_at(point);
        let runs = (0..12).map(|_| server.run(server.argv(&["/bin/sleep", "0.05"])));
        let reports = futures_util::future::join_all(runs).await;
        assert!(
            reports.iter().all(|report| report.exit().code == Some(0)),
            "{point}"
        );
        // Every runner dies there, so one of them may have to be replaced more than once.
        assert!(server.host.runner().restarts() >= 1, "{point}");
    }
}

#[test]
fn the_test_process_can_pass_descriptors() {
    // `Spawn::descriptors` begin at 3, whatever their numbers are here.
    let (read_end, write_end) = rustix::pipe::pipe().unwrap();
    let spawn = Spawn {
        program: Path::new("/bin/sh"),
        arguments: &["sh", "-c", "echo three >&3; echo four >&4"].map(OsStr::new),
        environment: &[],
        output: None,
        descriptors: &[write_end.as_fd(), write_end.as_fd()],
    };
    let process = process::spawn(&spawn).unwrap();
    assert_eq!(process.wait().unwrap(), process::Ended::Code(0));
    drop(write_end);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut fs::File::from(read_end), &mut text).unwrap();
    assert_eq!(text, "three\nfour\n");
}
