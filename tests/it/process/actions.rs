//! Every action, and every way in which it is refused.

use countersign_sys::hooks;
use serde_json::{Value, json};

use super::{act, ended, list, one, start, start_with, wrote};
use crate::support::{Api, Members, Pause, TestServer, eventually};

#[tokio::test]
async fn a_background_run_is_a_session_with_a_readable_name() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let answer = api
        .accepted(json!({ "argv": ["sleep", "1000"], "background": true, "workdir": "/tmp" }))
        .await;
    let id = answer.text("sessionId").to_owned();
    let words: Vec<&str> = id.split('-').collect();
    assert!(
        words.len() == 3 && words[2].parse::<u32>().is_ok() && id.len() <= 30,
        "{id}"
    );
    let session = one(&api, &id).await;
    assert_has!(session, {
        "sessionId": id, "agentId": "main", "sessionKey": "agent:main:main", "host": "gateway",
        "status": "running", "name": "sleep 1000", "command": "sleep 1000", "cwd": "/tmp", "pty": false,
        "timedOut": false, "truncated": false, "outputBytes": 0, "tail": "", "stdinOpen": true,
        "waitingForInput": false, "runId": answer["runId"],
    });
    assert!(session["pid"].is_i64() && session["startedAtMs"].is_i64() && session["durationMs"].is_u64());
    assert!(session.get("endedAtMs").is_none() && session.get("exitCode").is_none());
    let killed = act(&api, "kill", &id, json!({})).await.expect(200);
    assert_eq!(killed["session"]["status"], "cancelled");
    assert_eq!(killed["session"]["exitSignal"], "SIGTERM");
    assert!(killed["session"]["endedAtMs"].is_i64());
}

#[tokio::test]
async fn only_what_goes_on_alone_is_a_session() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    api.ran(json!({ "command": "echo done" })).await;
    api.exec_with_key("k", json!({ "command": "echo keyed" }))
        .await
        .expect(200);
    assert!(list(&api).await.is_empty());
    // The window passed.
    let body = json!({ "command": "sleep 1000", "yieldMs": 10 });
    let yielded = start_with(&api, body).await;
    let session = one(&api, &yielded).await;
    assert_eq!(session["stdinOpen"], false, "{session}");
    let refused = act(&api, "write", &yielded, json!({ "data": "x" })).await;
    let problem = refused.problem(400, "invalid-request");
    assert_eq!(problem["fields"][0]["path"], "sessionId", "{problem}");
    act(&api, "remove", &yielded, json!({})).await.expect(200);
}

#[tokio::test]
async fn what_is_written_is_read_and_the_end_of_input_too() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "while read line; do echo \"got $line\"; done; echo end").await;
    let written = act(&api, "write", &id, json!({ "data": "one\ntwo\n" }))
        .await
        .expect(200);
    assert_eq!(written["warnings"], json!([]));
    assert_eq!(written["session"]["sessionId"], id);
    wrote(&api, &id, 16).await;
    let typed = act(
        &api,
        "send-keys",
        &id,
        json!({ "literal": "thr", "hex": ["65"], "keys": ["e", "C-j"] }),
    );
    let typed = typed.await.expect(200);
    assert_eq!(typed["warnings"][0]["code"], "no-terminal", "{typed}");
    wrote(&api, &id, 26).await;
    act(
        &api,
        "paste",
        &id,
        json!({ "text": "four\n", "bracketed": false }),
    )
    .await
    .expect(200);
    act(&api, "write", &id, json!({ "eof": true })).await.expect(200);
    let session = ended(&api, &id).await;
    assert_has!(session, { "status": "completed", "exitCode": 0, "stdinOpen": false });
    let log = act(&api, "log", &id, json!({})).await.expect(200);
    assert_eq!(log["text"], "got one\ngot two\ngot three\ngot four\nend\n");
    nothing_more_is_taken(&api, &session).await;
}

/// The end is on record, and those who wait for the run were not told yet.
#[tokio::test]
async fn a_session_takes_nothing_from_the_moment_in_which_its_end_is_recorded() {
    let pause = Pause::at(hooks::END_PAUSES);
    let server = pause.of(TestServer::full()).start().await;
    let api = server.agent();
    let id = start(&api, "cat").await;
    pause.begin();
    act(&api, "write", &id, json!({ "data": "last", "eof": true }))
        .await
        .expect(200);
    pause.reached().await;
    let session = one(&api, &id).await;
    assert_has!(session, { "status": "completed", "stdinOpen": false, "tail": "last", "outputBytes": 4 });
    nothing_more_is_taken(&api, &session).await;
    pause.end();
}

/// Every action that a session refuses once it has ended.
async fn nothing_more_is_taken(api: &Api, session: &Value) {
    for (action, members) in [
        ("write", json!({ "data": "x" })),
        ("submit", json!({})),
        ("paste", json!({ "text": "x" })),
        ("send-keys", json!({ "keys": ["Enter"] })),
        ("resize", json!({ "rows": 10, "cols": 10 })),
        ("kill", json!({})),
    ] {
        let answer = act(api, action, session.text("sessionId"), members).await;
        let problem = answer.problem(409, "session-ended");
        assert_eq!(problem["runId"], session["runId"], "{action}");
    }
}

#[tokio::test]
async fn submit_is_a_carriage_return() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "head -c 1 | od -An -tx1").await;
    act(&api, "submit", &id, json!({})).await.expect(200);
    ended(&api, &id).await;
    let log = act(&api, "log", &id, json!({})).await.expect(200);
    assert_eq!(log["text"].as_str().map(str::trim), Some("0d"));
}

#[tokio::test]
async fn input_after_its_end_and_sizes_of_what_has_none_are_refused() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "cat; sleep 1000").await;
    act(&api, "write", &id, json!({ "data": "last", "eof": true }))
        .await
        .expect(200);
    wrote(&api, &id, 4).await;
    let problem = act(&api, "write", &id, json!({ "data": "more" })).await;
    let problem = problem.problem(400, "invalid-request");
    problem.says("detail", "was closed");
    let problem = act(&api, "resize", &id, json!({ "rows": 10, "cols": 10 })).await;
    let problem = problem.problem(400, "invalid-request");
    problem.says("detail", "no terminal");
    assert_eq!(one(&api, &id).await["stdinOpen"], false);
    act(&api, "kill", &id, json!({})).await.expect(200);
}

#[tokio::test]
async fn input_that_nobody_reads_is_refused_whole() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "sleep 1000").await;
    let too_much = act(&api, "write", &id, json!({ "data": "x".repeat(262_145) })).await;
    too_much.problem(400, "invalid-request");
    // What the pipe takes comes off the account; the rest fills it.
    let piece = json!({ "data": "y".repeat(200_000) });
    act(&api, "write", &id, piece.clone()).await.expect(200);
    let mut answer = act(&api, "write", &id, piece.clone()).await;
    if answer.status == 200 {
        answer = act(&api, "write", &id, piece).await;
    }
    let problem = answer.problem(503, "overloaded");
    problem.says("detail", "nothing was written");
    // Ending it is still possible.
    act(&api, "remove", &id, json!({})).await.expect(200);
}

#[tokio::test]
async fn poll_tells_each_output_once_and_waits_for_more() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(
        &api,
        "echo first; echo oops >&2; read go; echo second; read go; exit 3",
    )
    .await;
    wrote(&api, &id, 11).await;
    let polled = act(&api, "poll", &id, json!({})).await.expect(200);
    assert_has!(polled, { "stdout": "first\n", "stderr": "oops\n" });
    assert_eq!(polled["session"]["status"], "running");
    let nothing = act(&api, "poll", &id, json!({ "timeout": 0 })).await.expect(200);
    assert_has!(nothing, { "stdout": "", "stderr": "" });
    // A poll that waits gets what comes, and one beside it does not get it, too.
    let waiting = act(&api, "poll", &id, json!({ "timeout": 30_000 }));
    let beside = act(&api, "poll", &id, json!({ "timeout": 30_000 }));
    let going = async {
        act(&api, "write", &id, json!({ "data": "go\n" }))
            .await
            .expect(200);
        wrote(&api, &id, 18).await;
        act(&api, "write", &id, json!({ "data": "go\n" }))
            .await
            .expect(200);
    };
    let (one, other, ()) = tokio::join!(waiting, beside, going);
    let (one, other) = (one.expect(200), other.expect(200));
    let told = format!("{}{}", one.text("stdout"), other.text("stdout"));
    assert_eq!(told, "second\n");
    let session = ended(&api, &id).await;
    assert_has!(session, { "status": "failed", "exitCode": 3 });
    // Another token has not been told anything yet.
    let (_, second) = server
        .token_with(json!({ "name": "second", "scopes": ["exec"] }))
        .await;
    let polled = act(&second, "poll", &id, json!({ "timeout": 30_000 }))
        .await
        .expect(200);
    assert_eq!(polled["stdout"], "first\nsecond\n");
    assert_eq!(polled["session"]["exitCode"], 3);
}

#[tokio::test]
async fn log_pages_through_the_lines() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "seq 1 300").await;
    ended(&api, &id).await;
    let log = |members| act(&api, "log", &id, members);
    let default = log(json!({})).await.expect(200);
    assert_has!(default, { "offset": 100, "lines": 200, "totalLines": 300, "totalChars": 1092 });
    default.says("hint", "200 of 300");
    let last = log(json!({ "limit": 2 })).await.expect(200);
    assert_has!(last, { "text": "299\n300\n", "offset": 298 });
    assert!(last.get("hint").is_none());
    let rest = log(json!({ "offset": 298 })).await.expect(200);
    assert_eq!(rest["text"], "299\n300\n");
    let middle = log(json!({ "offset": 9, "limit": 2 })).await.expect(200);
    assert_has!(middle, { "text": "10\n11\n", "lines": 2 });
    let beyond = log(json!({ "offset": 300, "limit": 2 })).await.expect(200);
    assert_has!(beyond, { "text": "", "lines": 0 });
    log(json!({ "limit": 0 })).await.problem(400, "invalid-request");
}

#[tokio::test]
async fn sessions_are_forgotten_when_somebody_says_so() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let (short, long) = (start(&api, "true").await, start(&api, "sleep 1000").await);
    ended(&api, &short).await;
    let listed: Vec<String> = list(&api)
        .await
        .iter()
        .map(|one| one.text("sessionId").to_owned())
        .collect();
    assert_eq!(listed, [long.as_str(), short.as_str()], "newest first");
    let problem = act(&api, "clear", &long, json!({}))
        .await
        .problem(400, "invalid-request");
    problem.says("detail", "still runs");
    let cleared = act(&api, "clear", &short, json!({})).await.expect(200);
    assert_eq!(cleared["session"]["status"], "completed");
    act(&api, "poll", &short, json!({}))
        .await
        .problem(404, "not-found");
    let removed = act(&api, "remove", &long, json!({})).await.expect(200);
    assert_eq!(removed["session"]["status"], "cancelled");
    assert!(list(&api).await.is_empty());
    // The record of the run stays.
    let run = server.operator().run(removed["session"].text("runId")).await;
    assert_eq!(run["status"], "cancelled");
}

#[tokio::test]
async fn calls_that_cannot_be_meant_are_refused_by_name() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "sleep 1000").await;
    for (body, path) in [
        (json!({}), "action"),
        (json!({ "action": "dance" }), "action"),
        (json!({ "action": "poll" }), "sessionId"),
        (json!({ "action": "list", "sesion": id }), "sesion"),
        (json!({ "action": "write", "sessionId": id }), "data"),
        (json!({ "action": "kill", "sessionId": id, "data": "x" }), "data"),
        (json!({ "action": "send-keys", "sessionId": id }), "keys"),
        (
            json!({ "action": "send-keys", "sessionId": id, "hex": ["zz"] }),
            "hex",
        ),
        (
            json!({ "action": "resize", "sessionId": id, "rows": 0, "cols": 5 }),
            "rows",
        ),
    ] {
        let problem = api.post("/v1/process", body.clone()).await;
        let problem = problem.problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], path, "{body}: {problem}");
    }
    for unknown in ["no-such-1", "..", "", &"x".repeat(5000)] {
        act(&api, "poll", unknown, json!({}))
            .await
            .problem(404, "not-found");
    }
    assert_eq!(one(&api, &id).await["status"], "running");
    act(&api, "remove", &id, json!({})).await.expect(200);
}

#[tokio::test]
async fn a_session_that_stands_still_with_an_open_input_seems_to_wait_for_it() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let asks = start(
        &api,
        "printf 'name? '; read name; echo \"hello $name\"; sleep 1000",
    )
    .await;
    // The command line without an open input, and one that goes on writing, do not.
    let closed = start_with(&api, json!({ "command": "sleep 1000", "yieldMs": 10 })).await;
    let busy = start(&api, "while :; do echo; sleep 0.5; done").await;
    let seems = async |id: &str| one(&api, id).await["waitingForInput"] == true;
    eventually("it seems to wait", || seems(&asks), |waits| *waits).await;
    assert!(!seems(&closed).await && !seems(&busy).await);
    let listed = server.cli(&["process", "list"]).await.stdout;
    assert_eq!(listed.matches("waits for input").count(), 1, "{listed}");
    let polled = act(&api, "poll", &asks, json!({})).await.expect(200);
    assert_has!(polled, { "stdout": "name? ", "session/waitingForInput": true });
    act(&api, "write", &asks, json!({ "data": "world\n" }))
        .await
        .expect(200);
    wrote(&api, &asks, 17).await;
    assert!(!seems(&asks).await, "it just wrote");
    for id in [asks, closed, busy] {
        act(&api, "kill", &id, json!({})).await.expect(200);
    }
}
