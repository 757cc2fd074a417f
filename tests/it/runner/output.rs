//! What a command writes: all of it is kept or counted, and nobody is held up.

use std::fs;

use countersign_domain::OutputStream;
use countersign_hosts::gateway::{KeptOutput, Supervised, SupervisorEvent};
use countersign_runner::output::spool::Selection;
use countersign_sys::process::inspect;

use super::harness::{Report, RunnerDirs, measure, started, until};

/// What a process holds in memory of its own. How much of its program the kernel maps in besides is the kernel's affair.
pub(super) fn own_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn two_hundred_megabytes_are_spooled_in_bounded_memory() {
    const TOTAL: u64 = 200_000_000;
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = server.script(&format!("head -c {TOTAL} /dev/zero; sleep 0.3; echo end"));
    let run_id = spec.run_id.clone();
    let mut supervised = server.host.start(spec).await.unwrap();
    let pid = started(&mut supervised).await;
    let supervisor = inspect(pid).unwrap().parent;
    let (mut seen, mut peak, mut last) = (0, 0, Vec::new());
    let end = loop {
        match supervised.events.recv().await.unwrap() {
            SupervisorEvent::Output { bytes, .. } => {
                seen += bytes.len() as u64;
                last = bytes;
                peak = peak.max(own_kib(supervisor));
            }
            SupervisorEvent::Skipped { bytes } => seen += bytes,
            SupervisorEvent::Exit(ended) => break ended,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(seen, TOTAL + 4);
    assert!(last.ends_with(b"end\n"));
    assert_eq!(
        (end.exit.output_bytes, end.exit.kept_bytes),
        (TOTAL + 4, TOTAL + 4)
    );
    assert_eq!(end.output, KeptOutput::Spooled);
    assert_eq!(measure(&server.host.spool(&run_id)), TOTAL + 4);
    assert!(peak < 12 * 1024, "a supervisor used {peak} KiB");
}

#[tokio::test]
async fn a_server_that_does_not_listen_holds_nobody_up() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = server.script("head -c 20000000 /dev/zero; touch written; echo end >&2");
    let run_id = spec.run_id.clone();
    let supervised = server.host.start(spec).await.unwrap();
    // Nothing is read until it has written everything.
    until("all is written", || dirs.file("written").exists()).await;
    let report = Report::of(supervised).await;
    assert_eq!(
        (report.stdout.len() + report.stderr.len()) as u64 + report.skipped,
        20_000_004
    );
    // The beginning is whole: that is what answers show.
    assert!(report.stdout.len() > 800_000, "{}", report.stdout.len());
    assert_eq!(measure(&server.host.spool(&run_id)), 20_000_004);
}

#[tokio::test]
async fn more_than_the_limit_is_counted_but_not_kept() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    // The last one is too much to be reported whole.
    for (limit, is_small, total) in [
        (10, true, 300_000),
        (100_000, false, 300_000),
        (10, true, 5_000_000),
    ] {
        let mut spec = server.script(&format!("head -c {total} /dev/zero | tr '\\0' x"));
        spec.terms.max_run_bytes = limit;
        let run_id = spec.run_id.clone();
        let report = server.run(spec).await;
        assert_eq!(
            (report.exit().output_bytes, report.exit().kept_bytes),
            (total, limit)
        );
        let kept = if is_small {
            report.inline(Selection::Both)
        } else {
            server.spooled(&run_id, Selection::Both)
        };
        assert_eq!(kept, vec![b'x'; usize::try_from(limit).unwrap()]);
    }
}

#[tokio::test]
async fn small_output_that_nobody_stored_gets_a_spool() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let spec = server.script("echo out; sleep 0.05; echo err >&2");
    let run_id = spec.run_id.clone();
    let report = Report::of(server.host.start(spec).await.unwrap()).await;
    assert_eq!(report.inline(Selection::Only(OutputStream::Stderr)), b"err\n");
    // As when the server dies between learning of the end and storing it.
    drop(report);
    until("there is a spool", || server.host.spool(&run_id).exists()).await;
    until("the supervisor let go", || {
        !server.host.inspect(&run_id).unwrap().is_locked
    })
    .await;
    assert_eq!(server.spooled(&run_id, Selection::Both), b"out\nerr\n");
}

#[tokio::test]
async fn both_streams_keep_their_order_of_arrival() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let script = "for i in 1 2 3; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done";
    let report = server.run(server.script(script)).await;
    assert_eq!(report.inline(Selection::Both), b"o1\ne1\no2\ne2\no3\ne3\n");
}

#[tokio::test]
async fn output_is_reported_while_the_command_runs() {
    let dirs = RunnerDirs::new();
    let server = dirs.server();
    let mut spec = server.script("echo ready; read answer; echo got $answer");
    spec.terms.stdin_open = true;
    let mut supervised = server.host.start(spec).await.unwrap();
    started(&mut supervised).await;
    let Some(SupervisorEvent::Output { bytes, .. }) = supervised.events.recv().await else {
        panic!()
    };
    assert_eq!(bytes, b"ready\n");
    supervised.control.write_input(b"it\n").await.unwrap();
    let Supervised { events, control } = supervised;
    let report = Report::of(Supervised { events, control }).await;
    assert_eq!(report.out(), "got it\n");
}
