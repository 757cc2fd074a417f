//! Rounds of mixed load that end with `kill -9`: runs, questions, answers, patches, policy changes and the stop. Nothing may run
//! without a record or twice, and nothing that was answered may be lost. `dev/soak` has many rounds and a long time.

mod dropped;
mod load;
mod promises;

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::support::{
    Api, Members, TestServer, eventually, kill_hard, lines, own_variable, within, write_file_mode,
};

use load::{Load, World, ends_everything};
use promises::{Call, Kind, Seen, broken};

const WORKERS: usize = 8;

/// How many rounds there are, unless the variable says so.
const ROUNDS: u32 = 3;
const ROUNDS_VARIABLE: &str = "COUNTERSIGN_TEST_ROUNDS";
/// For how many seconds there is steady load at least.
const SECONDS_VARIABLE: &str = "COUNTERSIGN_TEST_SECONDS";

fn number(variable: &str, default: u32) -> u32 {
    own_variable(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn server() -> TestServer {
    TestServer::asking_with("timeout_ms = 600000")
        .toml("[shutdown]\ngrace_ms = 100\n[limits]\nrequests_per_second = 0\nanonymous_per_second = 0\n")
        .prepare()
}

/// The programs of the load, of which the document covers one.
fn world(server: &TestServer) -> World {
    let directory = server.scratch().dir("work");
    let world = World {
        covered: directory.join("covered"),
        asked: directory.join("asked"),
        marks: directory.join("marks"),
        patched: server.state().join("workspace/patched"),
    };
    let script = format!("#!/bin/sh\necho \"$1\" >> {}\n", world.marks.display());
    for program in [&world.covered, &world.asked] {
        write_file_mode(program, &script, 0o755);
    }
    let document =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": world.covered }] } } });
    write_file_mode(&server.document_path(), document.to_string(), 0o600);
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_the_server_is_killed_what_was_promised_is_kept() {
    let mut server = server();
    let load = Arc::new(Load::new(world(&server)));
    for round in 1..=number(ROUNDS_VARIABLE, ROUNDS) {
        server.start().await;
        go_on(&server, &load).await;
        let mut acknowledged = load.begin(WORKERS, &server.agent(), &server.operator(), round);
        for _ in 0..20 + round % 37 {
            within("an answer", acknowledged.recv())
                .await
                .expect("the workers go on");
        }
        let family = server.processes();
        server.kill();
        if ends_everything(round) {
            family.into_iter().for_each(kill_hard);
        }
        load.ended().await;
    }
    server.start().await;
    go_on(&server, &load).await;
    load.send_keyed_again(&server.agent()).await;
    settled(&server).await;
    let seen = seen(&server, &load).await;
    let broken = broken(&seen);
    assert!(broken.is_empty(), "{broken:#?}\n{:#?}", concerned(&seen, &broken));
    for kind in [Kind::Covered, Kind::Keyed, Kind::Asked, Kind::Patch] {
        let mut of_kind = seen.calls.iter().filter(|call| call.kind == kind);
        assert!(
            of_kind.any(|call| seen.marks.contains_key(&call.mark)),
            "no {kind:?} ran"
        );
    }
    report(&format!("{} calls: {:?}", seen.calls.len(), classes(&seen)));
}

#[expect(clippy::print_stderr, reason = "the figures are for the reader of a long run")]
fn report(figures: &str) {
    eprintln!("{figures}");
}

/// What a server has at a moment.
#[derive(Debug)]
struct Size {
    anonymous_kib: u64,
    threads: u64,
    descriptors: usize,
    run_files: usize,
    spools: usize,
    ledger_bytes: u64,
}

impl Size {
    fn of(server: &TestServer) -> Self {
        let process = Path::new("/proc").join(server.pid().to_string());
        let status = fs::read_to_string(process.join("status")).expect("the state of the server");
        let line = |name: &str| {
            let rest = status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .expect("a line");
            let number = rest.split_whitespace().next().expect("a number");
            number.parse().expect("a number")
        };
        let own = server.state().join("countersign");
        let count = |directory: &Path| fs::read_dir(directory).map_or(0, Iterator::count);
        let ledger = ["countersign.db", "countersign.db-wal"];
        let bytes = ledger.map(|name| fs::metadata(own.join(name)).map_or(0, |file| file.len()));
        Self {
            anonymous_kib: line("RssAnon:"),
            threads: line("Threads:"),
            descriptors: count(&process.join("fd")),
            run_files: count(&own.join("runs")),
            spools: count(&own.join("output")),
            ledger_bytes: bytes.iter().sum(),
        }
    }
}

/// A server under steady load grows by what it keeps, and by nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_steady_load_nothing_grows_but_what_is_kept() {
    /// Its record, its output, its events and the indexes.
    const OF_A_RUN: u64 = 6_000;
    /// The log beside the ledger, which has a size of its own.
    const OF_THE_LOG: u64 = 8 << 20;
    let server = TestServer::full()
        .toml("[limits]\nrequests_per_second = 0\n")
        .start()
        .await;
    // The log goes round, and every cache is warm.
    steady_runs(&server, 500).await;
    let before = Size::of(&server);
    let mut runs = 0;
    let begun = tokio::time::Instant::now();
    let length = Duration::from_secs(number(SECONDS_VARIABLE, 0).into());
    while runs == 0 || begun.elapsed() < length {
        steady_runs(&server, 500).await;
        runs += 500;
    }
    let after = Size::of(&server);
    report(&format!("{runs} runs: {before:?} {after:?}"));
    assert!(after.threads <= before.threads + 4, "{before:?} {after:?}");
    assert!(
        after.descriptors <= before.descriptors + 16,
        "{before:?} {after:?}"
    );
    assert!(
        after.anonymous_kib <= before.anonymous_kib + 16 * 1024,
        "{before:?} {after:?}"
    );
    assert!(after.run_files <= before.run_files + 16, "{before:?} {after:?}");
    assert_eq!(after.spools, 0, "{after:?}");
    let grown = after.ledger_bytes.saturating_sub(before.ledger_bytes);
    assert!(
        grown <= OF_THE_LOG + runs * OF_A_RUN,
        "{grown} bytes for {runs} runs"
    );
}

/// Runs of two sessions at once.
async fn steady_runs(server: &TestServer, runs: u64) {
    let run = |worker: u64| {
        let agent = server.agent();
        async move {
            for number in 0..runs / 2 {
                let body = json!({ "argv": ["/bin/echo", format!("{worker} {number}")], "sessionKey": format!("s{worker}") });
                let answer = agent.post("/v1/exec", body).await;
                let run = if answer.status == 503 {
                    // An end that a slow disk kept from being recorded in time is recorded later.
                    ended(&agent, answer.json().text("runId")).await
                } else {
                    answer.expect(200)
                };
                assert_eq!(run["status"], "completed", "{run}");
            }
        }
    };
    tokio::join!(run(0), run(1));
}

/// A run once its end is on record.
async fn ended(agent: &Api, run_id: &str) -> Value {
    let path = format!("/v1/runs/{run_id}");
    eventually(
        "the end is on record",
        || agent.read(&path),
        |run| !run["endedAtMs"].is_null(),
    )
    .await
}

/// Ends the stop, which a restart must not have ended.
async fn go_on(server: &TestServer, load: &Load) {
    let standing = server.operator().read("/v1/stop").await;
    let is_stopped = standing["stopped"] == true;
    assert!(is_stopped || !load.is_stopped(), "{standing}");
    if is_stopped {
        let body = json!({ "reason": "the drill is over" });
        server.operator().posted("/v1/resume", body).await;
        load.resumed();
    }
}

/// Denies what is still asked and waits for what still runs.
async fn settled(server: &TestServer) {
    let open = || async {
        let operator = server.operator();
        for approval in all(&operator, "/v1/approvals").await {
            operator.decide(approval.text("id"), "deny").await;
        }
        let runs = all(&operator, "/v1/runs").await;
        runs.iter().filter(|run| run["endedAtMs"].is_null()).count()
    };
    eventually("settled", open, |open| *open == 0).await;
}

/// A whole list.
async fn all(operator: &Api, list: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let sign = if list.contains('?') { '&' } else { '?' };
        let page = operator.read(&format!("{list}{sign}limit=200{cursor}")).await;
        found.extend(page.list("items").iter().cloned());
        let Some(next) = page["nextCursor"].as_str() else {
            return found;
        };
        cursor = format!("&cursor={next}");
    }
}

async fn seen(server: &TestServer, load: &Load) -> Seen {
    let operator = server.operator();
    let calls = load.calls();
    let mut runs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for run in all(&operator, "/v1/runs").await {
        let text = format!("{}{}", run["command"], run["argv"]);
        let mark = mark_in(&text).unwrap_or(&text).to_owned();
        runs.entry(mark).or_default().push(run);
    }
    let approvals = all(&operator, "/v1/approvals?status=all").await;
    let approvals = approvals
        .into_iter()
        .map(|approval| (approval.text("id").to_owned(), approval));
    let document = server.document_on_disk();
    let entries = document["agents"]["main"]["allowlist"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    Seen {
        marks: marks(load.world()),
        runs,
        approvals: approvals.collect(),
        entries_told: load.entries(),
        entries: entries
            .iter()
            .map(|entry| entry.text("pattern").to_owned())
            .collect(),
        audit_verifies: operator.read("/v1/audit/verify").await["ok"] == true,
        calls,
    }
}

/// The mark of the call that a command is of.
fn mark_in(text: &str) -> Option<&str> {
    let begin = text.find(load::MARK)?;
    let rest = text.get(begin..)?;
    let length = rest.get(load::MARK.len()..)?.find('-')?;
    rest.get(..=load::MARK.len() + length)
}

fn marks(world: &World) -> BTreeMap<String, usize> {
    let mut marks = BTreeMap::new();
    for mark in lines(&world.marks).into_iter().chain(names(&world.patched)) {
        *marks.entry(mark).or_default() += 1;
    }
    marks
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// What is known of the calls that these sentences are about.
fn concerned(seen: &Seen, broken: &[String]) -> Vec<String> {
    let calls = seen
        .calls
        .iter()
        .filter(|call| broken.iter().any(|what| what.starts_with(&call.mark)));
    let told = |call: &Call| format!("{call:?} {:?}", seen.runs.get(&call.mark));
    calls.map(told).collect()
}

/// How many runs ended in which way.
fn classes(seen: &Seen) -> BTreeMap<String, usize> {
    let mut classes = BTreeMap::new();
    for run in seen.runs.values().flatten() {
        let reason = run["reason"]
            .as_str()
            .map(|reason| format!(" ({reason})"))
            .unwrap_or_default();
        *classes
            .entry(format!("{}{reason}", run.text("status")))
            .or_default() += 1;
    }
    classes
}
