//! Sessions survive the server.

use serde_json::json;

use super::{act, ended, joined, list, one, start, stream, to_the_end, wrote};
use crate::support::{Members, TestServer};

/// Writes numbers until a file named `stop` appears. It pauses now and then, so that a server that starts late on a busy
/// machine does not have gigabytes to tell.
const WRITER: &str = "i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i; [ $((i % 1000)) -gt 0 ] || sleep 0.01; done; \
                      echo end";

#[tokio::test]
async fn a_session_that_writes_while_the_server_dies_is_whole_and_told_once() {
    let mut server = TestServer::full().start().await;
    let folder = server.scratch().dir("work");
    let body = json!({ "command": WRITER, "background": true, "workdir": folder });
    let id = super::start_with(&server.agent(), body).await;
    let mut before = stream(&server.agent(), &id, None).await;
    let mut told = String::new();
    let mut last = 0;
    while told.len() < 100_000 {
        let event = before.next().await;
        told.push_str(event.data.text("text"));
        last = event.id.expect("an id");
    }
    server.kill();
    server.start().await;
    let api = server.agent();
    let session = one(&api, &id).await;
    assert_has!(session, { "status": "running", "stdinOpen": true });
    crate::support::write_file(&folder.join("stop"), "");
    let (outputs, end) = to_the_end(stream(&api, &id, Some(last)).await).await;
    told.push_str(&joined(&outputs));
    let mut lines = told.lines();
    assert_eq!(lines.next_back(), Some("end"));
    for (index, line) in lines.enumerate() {
        assert_eq!(line, (index + 1).to_string());
    }
    assert_eq!(
        (&end["sessionId"], &end["status"], end["outputBytes"].as_u64()),
        (&json!(id), &json!("completed"), Some(told.len() as u64))
    );
}

#[tokio::test]
async fn input_reaches_a_session_of_an_earlier_server() {
    let mut server = TestServer::full().start().await;
    let id = start(
        &server.agent(),
        "while read line; do echo got $line; done; echo over",
    )
    .await;
    act(&server.agent(), "write", &id, json!({ "data": "one\n" }))
        .await
        .expect(200);
    wrote(&server.agent(), &id, 8).await;
    server.kill();
    server.start().await;
    let api = server.agent();
    act(&api, "write", &id, json!({ "data": "two\n", "eof": true }))
        .await
        .expect(200);
    let session = ended(&api, &id).await;
    assert_eq!(session["tail"], "got one\ngot two\nover\n");
}

#[tokio::test]
async fn a_closed_input_stays_closed() {
    let mut server = TestServer::full().start().await;
    let id = start(&server.agent(), "cat; sleep 1000").await;
    act(&server.agent(), "write", &id, json!({ "eof": true }))
        .await
        .expect(200);
    server.kill();
    server.start().await;
    let api = server.agent();
    act(&api, "write", &id, json!({ "data": "x" }))
        .await
        .problem(400, "invalid-request");
    act(&api, "remove", &id, json!({})).await.expect(200);
}

#[tokio::test]
async fn what_ended_is_listed_and_what_was_forgotten_is_not() {
    let mut server = TestServer::full().start().await;
    let (kept, forgotten) = {
        let api = server.agent();
        let (kept, forgotten) = (
            start(&api, "echo kept").await,
            start(&api, "echo forgotten").await,
        );
        ended(&api, &kept).await;
        ended(&api, &forgotten).await;
        act(&api, "clear", &forgotten, json!({})).await.expect(200);
        (kept, forgotten)
    };
    server.kill();
    server.start().await;
    let api = server.agent();
    let listed = list(&api).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["sessionId"], kept.as_str());
    act(&api, "log", &forgotten, json!({}))
        .await
        .problem(404, "not-found");
    let log = act(&api, "log", &kept, json!({})).await.expect(200);
    assert_eq!(log["text"], "kept\n");
    let (outputs, end) = to_the_end(stream(&api, &kept, None).await).await;
    assert_eq!(
        (joined(&outputs).as_str(), &end["status"]),
        ("kept\n", &json!("completed"))
    );
}

#[tokio::test]
async fn a_session_that_ends_while_no_server_is_there_is_told_by_the_next() {
    let mut server = TestServer::full().start().await;
    let folder = server.scratch().dir("work");
    let body = json!({ "command": WRITER, "background": true, "workdir": folder });
    let id = super::start_with(&server.agent(), body).await;
    wrote(&server.agent(), &id, 10).await;
    let pid = one(&server.agent(), &id).await["pid"]
        .as_i64()
        .expect("a process");
    server.kill();
    crate::support::write_file(&folder.join("stop"), "");
    let pid = i32::try_from(pid).expect("a process id");
    let alive = || std::future::ready(crate::support::is_alive(pid));
    crate::support::eventually("gone", alive, |alive| !alive).await;
    server.start().await;
    let api = server.agent();
    let mut events = server.operator().events("?types=system.", Some(0)).await;
    let session = ended(&api, &id).await;
    assert_eq!(session["status"], "completed");
    let told = events.next().await;
    let line = format!("Exec finished (gateway, id={}, code=0)", session.text("runId"));
    assert!(told.data.text("text").starts_with(&line), "{}", told.data);
    let polled = act(&api, "poll", &id, json!({})).await.expect(200);
    assert!(polled.text("stdout").starts_with("1\n2\n"));
}
