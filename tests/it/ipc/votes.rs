//! Commands that take several people, at the socket: it is one voice among them, and in no group.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::support::{Asker, Deed, FakeUi, asked_about, write_lines};
use crate::support::{Api, Members, TestServer, eventually, lines, soon};

/// A server that has another UI beside the page.
async fn server(rules: &str) -> TestServer {
    TestServer::asking_with(rules)
        .document(
            &json!({ "version": 1, "socket": { "token": "c29ja2V0LXRva2VuLW9mLXRlc3Rz" }, "agents": {} }),
        )
        .toml("[ipc]\nrole = \"client\"\n")
        .with_socket()
        .start()
        .await
}

fn socket(server: &TestServer) -> PathBuf {
    server.state().join("exec-approvals.sock")
}

/// A UI that allows everything that it is asked.
fn allows() -> Deed {
    Arc::new(|line: Value, stream| {
        Box::pin(async move {
            let answer = json!({ "type": "decision", "id": line["id"], "decision": "allow-once" });
            write_lines(stream, &[answer.to_string()]).await;
        })
    })
}

async fn person(server: &TestServer) -> Api {
    server
        .token_of_member("ann", &["approve"], ["--group", "ops"])
        .await
}

#[tokio::test]
async fn the_ui_at_the_socket_alone_starts_nothing_that_takes_two() {
    let server = server("[[approvals.rules]]\napprovals_required = 2\n").await;
    let _ui = FakeUi::plain(&socket(&server), allows());
    let file = server.scratch().join("lines");
    let pending = server
        .asked(json!({ "command": format!("echo ran >> {}", file.display()) }))
        .await;
    let path = format!("/v1/approvals/{}", pending.text("approvalId"));
    let voted = eventually(
        "voted over the socket",
        || async { server.operator().read(&path).await },
        |approval| approval["votes"].is_array(),
    )
    .await;
    assert_eq!(voted["status"], "pending");
    assert_has!(voted["votes"][0]["by"], { "kind": "ipc", "id": "socket-ui" });
    assert_eq!(lines(&file), Vec::<String>::new());
    // The socket is in the operator's hands: both are one.
    let own = pending.text("approvalId");
    let again = server.operator().decided(own, "allow-once").await;
    assert_has!(again, { "applied": false, "approval/status": "pending" });
    person(&server).await.decided(own, "allow-once").await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn the_ui_at_the_socket_is_in_no_group() {
    let server = server("[[approvals.rules]]\ngroups = [\"ops\"]\n").await;
    let _ui = FakeUi::plain(&socket(&server), allows());
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    soon(
        "refused over the socket",
        || server.log(),
        |log| log.contains("an answer over the approvals socket did not count"),
    )
    .await;
    let id = pending.text("approvalId");
    let approval = server.operator().approval(id).await;
    assert_eq!(approval["status"], "pending");
    person(&server).await.decided(id, "allow-once").await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "completed");
}

#[tokio::test]
async fn an_attached_decision_of_two_people_is_theirs_and_one_of_one_is_not() {
    let server = TestServer::asking_with("[[approvals.rules]]\napprovals_required = 2\n")
        .with_socket()
        .start()
        .await;
    let asker = Asker::of(&server);
    let ann = person(&server).await;
    let asked = tokio::spawn({
        let asker = asker.clone();
        async move { asker.ask(&json!({ "command": "uname", "cwd": "/tmp" })).await }
    });
    let question = asked_about(&server).await;
    let id = question.text("id");
    server.operator().decided(id, "allow-once").await;
    assert!(!asked.is_finished(), "one of two is no answer");
    ann.decided(id, "allow-once").await;
    assert_eq!(asked.await.unwrap(), "allow-once");
    // Both have said so, about this very command.
    let attached = json!({ "command": ["uname"], "cwd": "/tmp", "approvalDecision": "allow-once" });
    let reply = asker.exec(&attached).await;
    assert_eq!(reply["payload"]["success"], true, "{reply}");
    // It was used up: both are asked again.
    let again = tokio::spawn({
        let (asker, attached) = (asker.clone(), attached.clone());
        async move { asker.exec(&attached).await }
    });
    let question = asked_about(&server).await;
    let id = question.text("id");
    assert_eq!(question["approvalsRequired"], 2);
    ann.decided(id, "allow-once").await;
    server.operator().decided(id, "deny").await;
    assert_eq!(again.await.unwrap()["error"]["reason"], "user-denied");
}

#[tokio::test]
async fn an_attached_decision_of_a_revoked_token_counts_no_more() {
    let server = TestServer::asking_with("[[approvals.rules]]\napprovals_required = 2\n")
        .with_socket()
        .start()
        .await;
    let asker = Asker::of(&server);
    let ann = server.token_of("ann", &["approve"]).await;
    let ann_id = server.token_id("ann").await;
    let asked = tokio::spawn({
        let asker = asker.clone();
        async move { asker.ask(&json!({ "command": "uname", "cwd": "/tmp" })).await }
    });
    let question = asked_about(&server).await;
    let id = question.text("id");
    server.operator().decided(id, "allow-once").await;
    ann.decided(id, "allow-once").await;
    assert_eq!(asked.await.unwrap(), "allow-once");
    let revoked = server.operator().delete(&format!("/v1/tokens/{ann_id}")).await;
    assert_eq!(revoked.status, 204);

    let attached = json!({ "command": ["uname"], "cwd": "/tmp", "approvalDecision": "allow-once" });
    let again = tokio::spawn(async move { asker.exec(&attached).await });
    soon(
        "one of the two refused",
        || server.log(),
        |log| log.contains("an attached decision did not count"),
    )
    .await;
    let question = asked_about(&server).await;
    let votes = question.list("votes");
    assert_eq!(votes.len(), 1, "{question}");
    assert_ne!(votes[0]["by"]["name"], "ann");
    let id = question.text("id");
    server.operator().decided(id, "deny").await;
    assert_eq!(again.await.unwrap()["error"]["reason"], "user-denied");
}

#[tokio::test]
async fn whoever_asks_is_none_of_two_however_they_are_trusted() {
    let server = TestServer::asking_with("[[approvals.rules]]\napprovals_required = 2\n")
        .toml("[ipc]\ntrust_attached = true\n")
        .with_socket()
        .start()
        .await;
    let asker = Asker::of(&server);
    let ann = person(&server).await;
    let asked = tokio::spawn(async move {
        let attached = json!({ "command": ["uname"], "cwd": "/tmp", "approvalDecision": "allow-once" });
        asker.exec(&attached).await
    });
    let question = asked_about(&server).await;
    let id = question.text("id");
    let first = ann.decided(id, "allow-once").await;
    assert_eq!(first["approval"]["status"], "pending");
    let denied = server.operator().decided(id, "deny").await;
    let votes = denied["approval"].list("votes");
    assert_eq!(votes.len(), 2, "{denied}");
    assert_eq!(asked.await.unwrap()["error"]["reason"], "user-denied");
}

#[tokio::test]
async fn a_question_with_votes_outlives_the_ui_that_leaves() {
    let server = TestServer::full()
        .exec(&json!({ "host": "gateway", "security": "full", "ask": "always" }))
        .document(
            &json!({ "version": 1, "socket": { "token": "c29ja2V0LXRva2VuLW9mLXRlc3Rz" }, "agents": {} }),
        )
        .toml("[ipc]\nrole = \"client\"\n[[approvals.rules]]\napprovals_required = 2\n")
        .with_socket()
        .start()
        .await;
    let leave = Arc::new(Semaphore::new(0));
    let told = Arc::clone(&leave);
    let leaves: Deed = Arc::new(move |_line: Value, stream| {
        let told = Arc::clone(&told);
        Box::pin(async move {
            drop(told.acquire().await);
            drop(stream);
        })
    });
    let _ui = FakeUi::plain(&socket(&server), leaves);
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let id = pending.text("approvalId");
    person(&server).await.decided(id, "allow-once").await;
    leave.add_permits(1);
    // Nobody else is there: a question that nobody has answered ends with the UI, and by then the other one would have.
    let answer = server
        .agent()
        .exec(json!({ "argv": ["/bin/date"], "approvalWaitMs": 60_000, "join": false }))
        .await;
    assert_eq!(answer.problem(403, "exec-denied")["reason"], "no-approver");
    assert_has!(server.answered(&pending, "allow-once").await, { "status": "completed" });
}
