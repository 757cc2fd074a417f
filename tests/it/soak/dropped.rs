//! The check of the promises, against the program with one of them dropped: the load that ends with `kill -9` must bring
//! it out, and the check must name it.

use std::sync::Arc;

use countersign_sys::hooks;

use crate::support::{TestServer, eventually};

use super::{
    WORKERS, concerned, go_on,
    load::Load,
    marks,
    promises::{Kind, broken},
    seen, server, settled, world,
};

const DROPPED: &str = "COUNTERSIGN_TEST_PROTECTION_OFF";
const KILL: &str = "COUNTERSIGN_TEST_KILL";

/// A round is a matter of chance; so many of them are not.
const MOST_ROUNDS: u32 = 12;

/// How a promise that was dropped comes out.
#[derive(Debug)]
struct Dropped {
    promise: &'static str,
    /// What half of the calls are.
    mostly: Kind,
    /// How the server dies.
    end: End,
    /// What the check says.
    noticed: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// After some runs.
    AfterRuns,
    /// After some runs that began before a stop, and as many after it.
    AfterStop,
    /// By itself, once it has ordered a run that it may take for one that never started.
    Ordering,
}

const ALL: [Dropped; 4] = [
    Dropped {
        promise: "approval-once",
        mostly: Kind::Asked,
        end: End::AfterRuns,
        noticed: "it ran without using an approval up",
    },
    Dropped {
        promise: "fence",
        mostly: Kind::Keyed,
        end: End::Ordering,
        noticed: "it ran more than once",
    },
    Dropped {
        promise: "record-first",
        mostly: Kind::Covered,
        end: End::AfterRuns,
        noticed: "it ran without a record",
    },
    Dropped {
        promise: "stop",
        mostly: Kind::Covered,
        end: End::AfterStop,
        noticed: "it ran during a stop",
    },
];

#[test]
fn each_promise_that_can_be_dropped_is_tried() {
    let tried: Vec<&str> = ALL.iter().map(|dropped| dropped.promise).collect();
    assert_eq!(tried, hooks::PROMISES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_that_is_not_used_up_is_noticed() {
    is_noticed("approval-once").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_starts_again_is_noticed() {
    is_noticed("fence").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_starts_without_its_record_is_noticed() {
    is_noticed("record-first").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_starts_during_a_stop_is_noticed() {
    is_noticed("stop").await;
}

async fn is_noticed(promise: &str) {
    let dropped = ALL.iter().find(|dropped| dropped.promise == promise);
    let dropped = dropped.expect("a promise");
    let mut server = server();
    let load = Arc::new(Load::new(world(&server)).mostly(dropped.mostly));
    for round in 1..=MOST_ROUNDS {
        under_load(&mut server, &load, dropped, round).await;
        // It recovers what it left, with the same promise dropped.
        server.start_with(&[(DROPPED, promise)]).await;
        go_on(&server, &load).await;
        settled(&server).await;
        let seen = seen(&server, &load).await;
        let broken = broken(&seen);
        server.kill();
        let (as_expected, others): (Vec<String>, Vec<String>) = broken
            .into_iter()
            .partition(|what| what.contains(dropped.noticed));
        if !as_expected.is_empty() {
            return;
        }
        assert!(others.is_empty(), "{others:#?}\n{:#?}", concerned(&seen, &others));
    }
    panic!("{promise} was dropped for {MOST_ROUNDS} rounds, and nothing was noticed");
}

async fn under_load(server: &mut TestServer, load: &Arc<Load>, dropped: &Dropped, round: u32) {
    let kill = format!("engine.frame-sent:{}", 4 + round);
    let mut switches = vec![(DROPPED, dropped.promise)];
    if dropped.end == End::Ordering {
        switches.push((KILL, &kill));
    }
    server.start_with(&switches).await;
    let (agent, operator) = (server.agent(), server.operator());
    let answers = load.begin(WORKERS, &agent, &operator, round);
    let ran = || async { marks(load.world()).len() };
    let before = ran().await;
    if dropped.end != End::Ordering {
        // A worker may wait for an answer for ever.
        eventually("run", ran, |ran| *ran >= before + WORKERS / 2).await;
    }
    if dropped.end == End::AfterStop {
        load.stop(&operator).await;
        let before = ran().await;
        // What was under way may run, once for each worker.
        eventually("run", ran, |ran| *ran > before + WORKERS).await;
    }
    if dropped.end == End::Ordering {
        server.wait_killed().await;
    } else {
        server.kill();
    }
    load.ended().await;
    drop(answers);
}
