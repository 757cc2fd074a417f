//! `countersign process`.

use serde_json::{Value, json};

use super::{act, ended, one, start, wrote};
use crate::support::{Finished, TestServer};

#[track_caller]
fn document(done: &Finished) -> Value {
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.stdout).expect("JSON")
}

#[tokio::test]
async fn a_session_is_worked_with_from_the_command_line() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(
        &api,
        "while read line; do echo \"got $line\"; done; echo oops >&2; exit 3",
    )
    .await;
    let listed = server.cli(&["process", "list"]).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let row = listed.stdout.lines().nth(1).expect("a row");
    assert!(row.starts_with(&id) && row.contains("running"), "{listed:?}");
    let listed = document(&server.cli(&["process", "list", "--json"]).await);
    assert_eq!(listed["items"][0]["sessionId"], id.as_str());
    let elsewhere = server.cli(&["process", "list", "--agent", "build"]).await;
    assert_eq!(
        (elsewhere.code, elsewhere.stdout.as_str()),
        (Some(0), ""),
        "{elsewhere:?}"
    );

    let done = server.cli(&["process", "write", &id, "one\n"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    wrote(&api, &id, 8).await;
    let polled = server.cli(&["process", "poll", &id, "--timeout", "5s"]).await;
    assert_eq!(
        (polled.code, polled.stdout.as_str()),
        (Some(0), "got one\n"),
        "{polled:?}"
    );
    assert!(polled.stderr.contains("is running"), "{polled:?}");
    // More than one call takes, by standard input, to the end of it.
    let long = "x".repeat(300_000);
    let invocation = server
        .invocation(&["process", "write", &id, "--eof"])
        .input(format!("{long}\ntwo\n"));
    let done = TestServer::finish(invocation).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let session = ended(&api, &id).await;
    assert_eq!(session["exitCode"], 3);
    let followed = server.cli(&["process", "log", &id, "--follow"]).await;
    assert_eq!(followed.code, Some(0), "{followed:?}");
    // What goes to the other stream arrives when it does.
    assert!(
        followed.stdout.replacen("oops\n", "", 1) == format!("got one\ngot {long}\ngot two\n"),
        "{} bytes",
        followed.stdout.len()
    );
    followed.complains("failed, exit code 3");
    let log = server
        .cli(&["process", "log", &id, "--offset", "0", "--limit", "1"])
        .await;
    assert_eq!(log.stdout, "got one\n", "{log:?}");
    let refused = server.cli(&["process", "submit", &id]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.starts_with("error[session-ended]: "),
        "{refused:?}"
    );
    let cleared = server.cli(&["process", "clear", &id]).await;
    assert_eq!(
        cleared.stdout,
        format!("{id} is failed, and forgotten\n"),
        "{cleared:?}"
    );
    let gone = server.cli(&["process", "poll", &id]).await;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.stderr.starts_with("error[not-found]: "), "{gone:?}");
}

#[tokio::test]
async fn keys_pastes_and_ends_by_the_command_line() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "cat").await;
    let sent = server
        .cli(&[
            "process",
            "send-keys",
            &id,
            "C-j",
            "--literal",
            "a",
            "--hex",
            "62",
        ])
        .await;
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.stderr.contains("warning[no-terminal]"), "{sent:?}");
    wrote(&api, &id, 3).await;
    let pasted = server
        .invocation(&["process", "paste", &id, "--unbracketed", "--json"])
        .input("pasted\n");
    let pasted = document(&TestServer::finish(pasted).await);
    assert_eq!(pasted["session"]["sessionId"], id.as_str());
    wrote(&api, &id, 10).await;
    assert_eq!(one(&api, &id).await["tail"], "ab\npasted\n");
    let refused = server
        .cli(&["process", "resize", &id, "--rows", "5", "--cols", "5"])
        .await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
    let killed = server.cli(&["process", "kill", &id]).await;
    assert_eq!(killed.stdout, format!("{id} is cancelled\n"), "{killed:?}");
    let removed = document(&server.cli(&["process", "remove", &id, "--json"]).await);
    assert_eq!(removed["session"]["status"], "cancelled");
    act(&api, "poll", &id, json!({})).await.problem(404, "not-found");
}
