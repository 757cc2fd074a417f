//! The clock is set forward and back by a day, under a running server and while none runs. What ends at a time lives no
//! longer by it, and the order of the record stays.

use std::path::PathBuf;

use countersign_sys::hooks::CLOCK_VARIABLE;
use serde_json::{Value, json};

use super::{in_time, probe};
use crate::support::{Api, Members, Scratch, ServerBuilder, TestServer, eventually, write_file};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The clock of one server, which a test sets.
struct Clock {
    file: PathBuf,
    _place: Scratch,
}

impl Clock {
    fn new() -> Self {
        let place = Scratch::new();
        let clock = Self {
            file: place.join("clock"),
            _place: place,
        };
        clock.set(0);
        clock
    }

    fn under(&self, builder: ServerBuilder) -> ServerBuilder {
        builder.env(CLOCK_VARIABLE, self.file.to_str().expect("text"))
    }

    /// Sets it to so many days from the true time.
    fn set(&self, days: i64) {
        // Whole at once: it is read all the time.
        let written = self.file.with_extension("new");
        write_file(&written, (days * DAY_MS).to_string());
        std::fs::rename(&written, &self.file).expect("setting the clock");
    }
}

/// The server's time: that of a run that it makes.
async fn server_time(api: &Api) -> i64 {
    let run = api.ran(json!({ "argv": ["/bin/true"] })).await;
    let run = api.run(run.text("runId")).await;
    run["createdAtMs"].as_i64().expect("a time")
}

/// Both tests of a question take the same calls.
fn asking(keys: &str) -> ServerBuilder {
    let entries = json!([{ "id": "00000000-0000-4000-8000-000000000001", "pattern": "/bin/true" }]);
    TestServer::asking_with(keys).allowlist(&entries)
}

#[tokio::test]
async fn set_back_it_lets_no_question_wait_for_longer() {
    let clock = Clock::new();
    let server = clock.under(asking("timeout_ms = 3000")).start().await;
    let (agent, operator) = (server.agent(), server.operator());
    let body = json!({ "argv": ["/bin/date"], "approvalWaitMs": 600_000 });
    let mut waiting = Box::pin(agent.exec(body));
    let asked = tokio::select! {
        asked = operator.waiting() => asked,
        answer = &mut waiting => panic!("{}", answer.text()),
    };
    clock.set(-1);
    let denied = waiting.await.problem(403, "exec-denied");
    assert_eq!(denied["reason"], "approval-timeout");
    let late = server.operator().decide(asked[0].text("id"), "allow-once").await;
    late.problem(410, "approval-expired");
    // A question that is asked now has all its time, and no more.
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let approval = server.operator().approval(pending.text("approvalId")).await;
    assert_has!(approval, { "status": "pending" });
    let run = agent.finished(pending.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "approval-timeout" });
}

#[tokio::test]
async fn set_forward_it_ends_what_waits_and_allows_nothing() {
    let clock = Clock::new();
    let server = clock.under(asking("")).start().await;
    let agent = server.agent();
    let file = server.scratch().join("file");
    let pending = server.asked(json!({ "argv": ["/usr/bin/touch", file] })).await;
    clock.set(1);
    let late = server
        .operator()
        .decide(pending.text("approvalId"), "allow-once")
        .await;
    late.problem(410, "approval-expired");
    let run = agent.finished(pending.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "approval-timeout" });
    assert!(!file.exists());
    // Set right again: the server goes on, and says what it knows of the clock.
    clock.set(0);
    let allowed = server.asked(json!({ "argv": ["/usr/bin/touch", file] })).await;
    let run = server.answered(&allowed, "allow-once").await;
    assert_has!(run, { "status": "completed" });
    let (status, ready) = probe(&agent).await;
    assert_has!((status, &ready), { "0": 200, "1/degraded": true, "1/checks/clock/ok": false });
    ready["checks"]["clock"].says("detail", "minutes ahead");
}

#[tokio::test]
async fn set_back_it_lets_no_allow_live_longer() {
    let clock = Clock::new();
    let server = clock
        .under(asking("start_by_ms = 3000"))
        .toml("[limits]\nmax_running = 2\n")
        .start()
        .await;
    let (agent, operator) = (server.agent(), server.operator());
    let now = server_time(&agent).await;
    let short = json!({ "name": "short", "scopes": ["read"], "expiresAtMs": now + 4000 });
    let (_id, token) = server.token_with(short).await;
    let grant = json!({ "pattern": "/usr/bin/cat", "expiresAtMs": now + 10_000 });
    operator.made("/v1/agents/main/allowlist", grant).await;
    // Both places to run in are taken, so what a person allows waits for one.
    let mut held = Vec::new();
    for number in ["1", "2"] {
        let body = json!({ "argv": ["/bin/sleep", "600", number], "background": true });
        let pending = server.asked(body).await;
        operator.decided(pending.text("approvalId"), "allow-once").await;
        held.push(pending.text("runId").to_owned());
    }
    for run in &held {
        eventually("running", || agent.run(run), |run| run["status"] == "running").await;
    }
    let file = server.scratch().join("file");
    let pending = server.asked(json!({ "argv": ["/usr/bin/touch", file] })).await;
    operator.decided(pending.text("approvalId"), "allow-once").await;

    clock.set(-1);
    let run = agent.finished(pending.text("runId")).await;
    assert_has!(run, { "status": "failed", "reason": "not-started" });
    assert!(!file.exists());
    for run in &held {
        agent.cancel(run).await;
    }
    let status = || async { token.get("/v1/runs").await.status };
    eventually("expired", status, |status| *status == 401).await;
    let granted = || async {
        agent
            .exec(json!({ "argv": ["/usr/bin/cat", "/dev/null"] }))
            .await
            .status
    };
    eventually("not granted any more", granted, |status| *status == 202).await;
}

#[tokio::test]
async fn the_record_keeps_its_order_whichever_way_the_clock_is_set() {
    let clock = Clock::new();
    let mut server = clock.under(TestServer::full()).start().await;
    let mut times = Vec::new();
    let body = json!({ "argv": ["/bin/true"] });
    let first = server.agent().exec_with_key("key", body.clone()).await.json();
    let mut heard = server.operator().events("", None).await;
    let mut numbers = Vec::new();
    for days in [0, 1, 0, -1, 0] {
        clock.set(days);
        let agent = server.agent();
        times.push(in_time("a call", server_time(&agent)).await);
        numbers.push(heard.next_of("exec.finished").await.id.expect("a number"));
    }
    assert!(times.is_sorted(), "{times:?}");
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert!(times[1] - times[0] >= DAY_MS, "{times:?}");
    // It goes on at its pace: no stamp is a day later than the one before but where the clock was set forward.
    assert!(times[4] - times[1] < DAY_MS / 2, "{times:?}");
    // Nobody is locked out, a browser signs in, and a stream goes on where it was.
    server.operator().read("/v1/runs").await;
    let missed = server
        .operator()
        .events("", Some(numbers[0]))
        .await
        .next_of("exec.finished")
        .await;
    assert_eq!(missed.id, Some(numbers[1]));
    let link = server.operator().made("/v1/login-links", json!({})).await;
    let (_, code) = link.text("url").split_once("#code=").expect("a code");
    let login = server
        .anonymous()
        .post("/auth/login", json!({ "code": code }))
        .await;
    login.expect(200);

    // While no server runs, the clock is set back: time goes on from the record.
    server.kill();
    clock.set(-1);
    server.start().await;
    let agent = server.agent();
    let after = server_time(&agent).await;
    assert!(
        after >= times[4] && after - times[4] < DAY_MS / 2,
        "{after} {times:?}"
    );
    let made: Vec<String> = agent
        .read("/v1/runs?limit=500")
        .await
        .list("items")
        .iter()
        .map(|run| run.text("runId").to_owned())
        .collect();
    assert!(
        made.is_sorted_by(|a, b| a > b),
        "the newest comes first: {made:?}"
    );
    let verified = server.operator().read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true, "{verified}");
    // The key is a day old by the server's time.
    let again = agent.exec_with_key("key", body).await.json();
    assert_ne!(again["runId"], first["runId"]);
    assert_eq!(server.stop().await, Some(0));
    let offline = server.cli(&["audit", "verify", "--offline", "--json"]).await;
    assert_eq!(offline.code, Some(0), "{offline:?}");
}

#[tokio::test]
async fn set_back_while_no_server_runs_it_lets_nothing_live_longer() {
    let clock = Clock::new();
    let mut server = clock.under(asking("timeout_ms = 3000")).start().await;
    let now = server_time(&server.agent()).await;
    let short = json!({ "name": "short", "scopes": ["read"], "expiresAtMs": now + 4000 });
    let (_id, token) = server.token_with(short).await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    server.kill();
    clock.set(-1);
    server.start().await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "approval-timeout" });
    let token = server.operator().with_token(token.token());
    let status = || async { token.get("/v1/runs").await.status };
    eventually("expired", status, |status| *status == 401).await;
}

#[tokio::test]
async fn runs_keep_their_time_limit_and_nothing_is_kept_for_less_than_a_clock_says() {
    let clock = Clock::new();
    let server = clock.under(TestServer::full()).start().await;
    let agent = server.agent();
    let body = json!({ "argv": ["/bin/sleep", "600"], "timeout": 2, "yieldMs": 600_000 });
    let mut limited = Box::pin(agent.exec(body));
    let running = || async { agent.read("/v1/runs?status=running").await.list("items").len() };
    tokio::select! {
        _running = eventually("running", running, |count| *count == 1) => {}
        answer = &mut limited => panic!("{}", answer.text()),
    }
    clock.set(-1);
    let ended: Value = limited.await.expect(200);
    assert_has!(ended, { "status": "failed", "timedOut": true });
    let unlimited = json!({ "argv": ["/bin/sleep", "600"], "background": true });
    let unlimited = agent.accepted(unlimited).await;
    clock.set(2);
    server_time(&agent).await;
    let run = agent.run(unlimited.text("runId")).await;
    assert_eq!(
        run["status"], "running",
        "the time limit of a run is none of the clock"
    );
    agent.cancel(unlimited.text("runId")).await;
    agent.finished(unlimited.text("runId")).await;
    // Two days are less than what is kept.
    agent.run(ended.text("runId")).await;
}
