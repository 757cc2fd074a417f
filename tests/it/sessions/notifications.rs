//! What a session is told about runs that a person was asked about, in the queue and on the stream.

use serde_json::json;

use super::{MAIN, drain, peek};
use crate::support::{Answer, Api, Members, TestServer, eventually};

fn asking(exec: &str) -> crate::support::ServerBuilder {
    let mut exec: serde_json::Value = serde_json::from_str(exec).expect("members");
    for (name, value) in [("host", "gateway"), ("security", "allowlist"), ("ask", "on-miss")] {
        exec[name] = value.into();
    }
    TestServer::asking().exec(&exec)
}

async fn ask(api: &Api, command: &str) -> (String, String) {
    let asked = api.accepted(json!({ "command": command })).await;
    (
        asked.text("runId").to_owned(),
        asked.text("approvalId").to_owned(),
    )
}

async fn decide(server: &TestServer, approval: &str, decision: &str) -> Answer {
    server.operator().decide(approval, decision).await
}

async fn texts(api: &Api) -> Vec<String> {
    peek(api, MAIN)
        .await
        .iter()
        .map(|event| event.text("text").to_owned())
        .collect()
}

#[tokio::test]
async fn a_denial_is_told_before_it_is_answered() {
    let server = asking("{}").start().await;
    let api = server.agent();
    let mut stream = api.events("?types=system.event", None).await;
    let (run, approval) = ask(&api, "touch x").await;
    decide(&server, &approval, "deny").await.expect(200);
    let expect = format!("Exec denied (gateway, id={run}, user-denied)");
    let events = drain(&api, MAIN).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["text"], expect);
    let event = stream.next().await;
    assert_has!(event.data, { "text": expect, "sessionKey": MAIN });
}

#[tokio::test]
async fn an_expiry_is_told_too() {
    let server = TestServer::asking_with("timeout_ms = 1000").start().await;
    let api = server.agent();
    let (run, _) = ask(&api, "touch x").await;
    let told = eventually("told", || texts(&api), |texts| !texts.is_empty()).await;
    assert_eq!(
        told,
        [format!("Exec denied (gateway, id={run}, approval-timeout)")]
    );
}

#[tokio::test]
async fn an_allowed_run_is_told_of_at_its_start_once_while_it_runs_and_at_its_end() {
    let server = asking(r#"{ "approvalRunningNoticeMs": 10 }"#).start().await;
    let api = server.agent();
    let (run, approval) = ask(&api, "sleep 600").await;
    decide(&server, &approval, "allow-once").await.expect(200);
    let started = format!("Exec started (gateway, id={run})");
    let running = format!("Exec running (gateway, id={run}, >0s)");
    eventually("told", || texts(&api), |texts| texts.len() >= 2).await;
    let session = api.run(&run).await.text("sessionId").to_owned();
    let kill = json!({ "action": "kill", "sessionId": session });
    api.posted("/v1/process", kill).await;
    let finished = format!("Exec finished (gateway, id={run}, signal=SIGTERM)");
    let all = eventually("told", || texts(&api), |texts| texts.len() >= 3).await;
    assert_eq!(all, [started, running, finished]);
}

#[tokio::test]
async fn what_is_answered_to_the_caller_is_not_told_again() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    api.ran(json!({ "argv": ["/bin/true"] })).await;
    let denied = json!({ "argv": ["/bin/true"], "security": "deny" });
    api.denied(denied).await;
    assert_eq!(texts(&api).await, [] as [String; 0]);
}
