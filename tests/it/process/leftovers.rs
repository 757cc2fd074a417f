//! What a command leaves running, where that is kept.

use serde_json::{Value, json};

use super::{act, ended, list};
use crate::support::{Api, Members, TestServer, eventually, is_alive};

fn keeping() -> crate::support::ServerBuilder {
    TestServer::full().exec(&json!({
        "host": "gateway", "security": "full", "ask": "off", "leftovers": "keep",
    }))
}

/// Runs a command that leaves a process; returns its session and the process.
async fn leave(api: &Api) -> (Value, i32) {
    let ran = api.ran(json!({ "command": "sleep 1000 & echo $!" })).await;
    let pid: i32 = ran.text("stdout").trim().parse().expect("a process id");
    assert_eq!(ran["warnings"], json!([]), "{ran}");
    let sessions = list(api).await;
    let of_run = |session: &&Value| session["runId"] == ran["runId"];
    let session = sessions.iter().find(of_run).expect("a session").clone();
    assert!(is_alive(pid));
    (session, pid)
}

#[tokio::test]
async fn leftovers_are_a_session_that_can_be_killed() {
    let server = keeping()
        .toml("[limits]\nmax_running_per_agent = 1\n")
        .start()
        .await;
    let api = server.agent();
    let (session, pid) = leave(&api).await;
    assert_eq!(
        (&session["status"], &session["stdinOpen"], session.get("exitCode")),
        (&json!("running"), &json!(false), None)
    );
    let id = session.text("sessionId").to_owned();
    // They take a place.
    api.exec(json!({ "command": "true" }))
        .await
        .problem(429, "rate-limited");
    act(&api, "clear", &id, json!({}))
        .await
        .problem(400, "invalid-request");
    let killed = act(&api, "kill", &id, json!({})).await.expect(200);
    assert_eq!(killed["session"]["status"], "cancelled");
    let alive = || std::future::ready(is_alive(pid));
    eventually("gone", alive, |alive| !alive).await;
    let again = || async { api.exec(json!({ "command": "true" })).await.status };
    eventually("free", again, |status| *status == 200).await;
    // The run is what it was.
    let run = server.operator().run(session.text("runId")).await;
    assert_has!(run, { "status": "completed", "exitCode": 0 });
}

#[tokio::test]
async fn leftovers_that_end_by_themselves_are_completed() {
    let server = keeping().start().await;
    let api = server.agent();
    let fifo = server.scratch().join("go");
    let line = format!("mkfifo {0}; cat {0} > /dev/null & echo left", fifo.display());
    let ran = api.ran(json!({ "command": line })).await;
    let sessions = list(&api).await;
    assert_eq!(sessions[0]["runId"], ran["runId"], "{sessions:?}");
    let id = sessions[0].text("sessionId").to_owned();
    let log = act(&api, "log", &id, json!({})).await.expect(200);
    assert_eq!(log["text"], "left\n");
    let mut way_out = std::fs::OpenOptions::new()
        .write(true)
        .open(&fifo)
        .expect("the way out");
    std::io::Write::write_all(&mut way_out, b"x").expect("the way out");
    drop(way_out);
    assert_eq!(ended(&api, &id).await["status"], "completed");
}

#[tokio::test]
async fn leftovers_survive_the_server_and_are_killed_by_the_next() {
    let mut server = keeping().start().await;
    let (session, pid) = leave(&server.agent()).await;
    let id = session.text("sessionId").to_owned();
    server.kill();
    assert!(is_alive(pid));
    server.start().await;
    let api = server.agent();
    let again = list(&api).await;
    assert_has!(again[0], { "sessionId": id, "status": "running" });
    let removed = act(&api, "remove", &id, json!({})).await.expect(200);
    assert_eq!(removed["session"]["status"], "cancelled");
    let alive = || std::future::ready(is_alive(pid));
    eventually("gone", alive, |alive| !alive).await;
    assert!(list(&api).await.is_empty());
}

#[tokio::test]
async fn leftovers_that_end_while_no_server_is_there_have_ended() {
    let mut server = keeping().start().await;
    let (session, pid) = leave(&server.agent()).await;
    server.kill();
    crate::support::terminate(pid);
    let alive = || std::future::ready(is_alive(pid));
    eventually("gone", alive, |alive| !alive).await;
    server.start().await;
    let ended = ended(&server.agent(), session.text("sessionId")).await;
    assert_eq!(ended["status"], "completed");
}
