//! What an agent says about its call: shown as its words, kept, and deciding nothing.

use serde_json::{Value, json};

use super::{asked, id};
use crate::support::{Members, TestServer};

const WHY: &str = "the release needs\n it: token=ghp_abcdefghijklmnopqrstuvwxyz0123456789";
const SHOWN: &str = "the release needs it: token=";
const URL: &str = "https://example.org/issues/7";

fn said(argv: &[&str]) -> Value {
    json!({ "argv": argv, "justification": WHY, "contextUrl": URL })
}

#[track_caller]
fn shows(value: &Value) {
    let shown = value.text("justification");
    assert!(shown.starts_with(SHOWN) && !shown.contains("ghp_abc"), "{value}");
    assert_has!(value, { "contextUrl": URL });
}

#[tokio::test]
async fn it_is_on_the_card_the_run_and_the_events_and_outlives_a_restart() {
    let mut server = TestServer::asking().start().await;
    let pending = asked(&server, said(&["/bin/true"])).await;
    let card = format!("/v1/approvals/{}", id(&pending, "approvalId"));
    let run = id(&pending, "runId");
    shows(&server.operator().read(&card).await);
    shows(&server.agent().run(&run).await);
    let printed = server
        .cli(&["approvals", "show", &id(&pending, "approvalId")])
        .await;
    assert!(printed.stdout.contains(&format!("“{SHOWN}")), "{printed:?}");
    assert!(printed.stdout.contains(URL), "{printed:?}");

    server.crash_and_restart().await;
    shows(&server.operator().read(&card).await);
    let ended = server.answered(&pending, "allow-once").await;
    assert_has!(ended, { "status": "completed" });
    shows(&ended);
    let types = "?types=exec.requested,exec.approval.requested";
    let mut events = server.operator().events(types, Some(0)).await;
    for kind in ["exec.requested", "exec.approval.requested"] {
        let event = events.next().await;
        assert_eq!(event.kind, kind);
        assert_has!(event.data, { "contextUrl": URL });
        assert!(
            event.data.text("justification").starts_with(SHOWN),
            "{:?}",
            event.data
        );
    }
}

#[tokio::test]
async fn a_call_that_says_nothing_has_none_and_what_is_no_note_is_refused() {
    let server = TestServer::asking().start().await;
    let pending = asked(&server, json!({ "argv": ["/bin/true"] })).await;
    let run = server.agent().run(&id(&pending, "runId")).await;
    assert!(
        run.get("justification").is_none() && run.get("contextUrl").is_none(),
        "{run}"
    );
    for (member, value) in [
        ("justification", ""),
        ("justification", " \n"),
        ("justification", "a\u{1b}[2Jb"),
        ("justification", &"x".repeat(501)),
        ("contextUrl", "javascript:alert(1)"),
        ("contextUrl", "https://a b"),
    ] {
        let mut body = json!({ "argv": ["/bin/true"] });
        body[member] = json!(value);
        let refused = server.agent().exec(body).await;
        let problem = refused.problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], member, "{value:?}: {problem}");
    }
}

#[tokio::test]
async fn only_the_same_words_join_a_question() {
    let server = TestServer::asking().start().await;
    let first = asked(&server, said(&["/bin/true"])).await;
    let same = asked(&server, said(&["/bin/true"])).await;
    assert_has!(same, { "joined": true, "runId": &first["runId"] });
    let mut other = said(&["/bin/true"]);
    other["justification"] = json!("something else");
    let other = asked(&server, other).await;
    assert_ne!(other["runId"], first["runId"]);
    assert_ne!(other["approvalId"], first["approvalId"]);
}
