//! `/v1/policy/preset`: both files change, or neither.

use std::fs;

use serde_json::{Value, json};

use super::{policy_events, tag_of};
use crate::support::{Members, TestServer};

const PATH: &str = "/v1/policy/preset";

fn config(server: &TestServer) -> Value {
    serde_json::from_slice(&fs::read(server.state().join("openclaw.json")).unwrap()).unwrap()
}

fn document(server: &TestServer) -> Value {
    let mut document = server.document_on_disk();
    document.as_object_mut().unwrap().shift_remove("socket");
    document
}

#[tokio::test]
async fn a_preset_changes_both_files() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    for (name, security, ask, fallback) in [
        ("deny-all", "deny", "off", "deny"),
        ("cautious", "allowlist", "on-miss", "deny"),
        ("yolo", "full", "off", "full"),
    ] {
        let applied = operator.posted(PATH, json!({ "name": name })).await;
        assert_has!(applied, { "name": name, "changed": true });
        assert_eq!(
            config(&server)["tools"]["exec"],
            json!({ "host": "gateway", "security": security, "ask": ask })
        );
        assert_eq!(
            document(&server)["defaults"],
            json!({ "security": security, "ask": ask, "askFallback": fallback })
        );
        assert_eq!(
            tag_of(&operator, "/v1/config").await,
            format!("\"{}\"", applied.text("configHash"))
        );
        assert_eq!(
            tag_of(&operator, "/v1/policy/document").await,
            format!("\"{}\"", applied.text("documentHash"))
        );
        let effective = operator.read("/v1/policy/effective?host=gateway").await;
        assert_eq!(effective["security"]["value"], security);
        assert_eq!(effective["askFallback"]["value"], fallback);
    }
    let events = policy_events(&operator).await;
    let presets: Vec<&Value> = events.iter().filter(|event| event["what"] == "preset").collect();
    assert_eq!((events.len(), presets.len()), (3, 3), "{events:#?}");
    assert!(
        presets
            .iter()
            .all(|event| event["by"].is_object() && event["hash"].is_string())
    );
    // The same again changes nothing and is told to nobody.
    let again = operator.posted(PATH, json!({ "name": "yolo" })).await;
    assert_eq!(again["changed"], false);
    assert_eq!(policy_events(&operator).await.len(), 3);
    assert!(!server.state().join("countersign/preset.json").exists());
}

#[tokio::test]
async fn a_preset_for_one_agent_leaves_the_others_alone() {
    let before = json!({
        "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } },
        "agents": { "list": [ { "id": "build", "model": "m", "tools": { "exec": { "mode": "full" } } } ] },
    });
    let server = TestServer::full().config(&before).start().await;
    let operator = server.operator();
    operator
        .posted(PATH, json!({ "name": "deny-all", "agentId": "build" }))
        .await;
    let mut expected = before.clone();
    expected["agents"]["list"][0]["tools"]["exec"] =
        json!({ "host": "gateway", "security": "deny", "ask": "off" });
    assert_eq!(config(&server), expected);
    assert_eq!(
        document(&server)["agents"],
        json!({ "build": { "security": "deny", "ask": "off", "askFallback": "deny" } })
    );
    let run = |agent: &'static str| {
        let api = server.agent();
        async move {
            api.exec(json!({ "argv": ["/bin/true"], "agentId": agent }))
                .await
                .status
        }
    };
    assert_eq!((run("build").await, run("main").await), (403, 200));
    let events = policy_events(&operator).await;
    assert_eq!(events.last().unwrap()["agentId"], "build");
    for bad in [
        json!({ "name": "reckless" }),
        json!({}),
        json!({ "name": "yolo", "agentId": "*" }),
        json!({ "name": "yolo", "agentId": "../x" }),
        json!({ "name": "yolo", "dryRun": true }),
    ] {
        operator.post(PATH, bad).await.problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn neither_file_changes_when_one_of_them_cannot() {
    let server = TestServer::full().document_text("{").start().await;
    let operator = server.operator();
    let before = config(&server);
    let yolo = json!({ "name": "cautious" });
    operator
        .post(PATH, yolo.clone())
        .await
        .problem(409, "document-refused");
    assert_eq!(config(&server), before);
    assert_eq!(fs::read_to_string(server.document_path()).unwrap(), "{");

    server.edit_document(r#"{ "version": 1, "agents": {} }"#);
    server.edit_config("{tools: ");
    operator
        .post(PATH, yolo.clone())
        .await
        .problem(409, "document-refused");
    assert_eq!(document(&server), json!({ "version": 1, "agents": {} }));

    server.edit_config("{}");
    let path = server.state().join("openclaw.json");
    let elsewhere = server.scratch().join("elsewhere.json");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    operator
        .post(PATH, yolo)
        .await
        .problem(503, "storage-unavailable");
    assert_eq!(document(&server), json!({ "version": 1, "agents": {} }));
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "{}");
    assert_eq!(
        policy_events(&operator)
            .await
            .iter()
            .filter(|event| event["what"] == "preset")
            .count(),
        0
    );
}

#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn a_preset_is_whole_wherever_the_server_dies() {
    use countersign_sys::hooks;

    let both = |server: &TestServer| {
        (
            config(server)["tools"]["exec"]["security"].clone(),
            document(server)["defaults"]["security"].clone(),
        )
    };
    for &point in hooks::POLICY_POINTS {
        let mut server = TestServer::full()
            .document(&json!({ "version": 1, "defaults": { "security": "full" }, "agents": {} }))
            .prepare();
        server.start_with(&[(hooks::KILL_VARIABLE, point)]).await;
        let api = server.operator();
        let answer = crate::support::Api::try_send(
            api.request(reqwest::Method::POST, PATH)
                .json(&json!({ "name": "deny-all" })),
        )
        .await;
        assert!(answer.is_err(), "{point}: {answer:?}");
        server.wait_killed().await;
        server.start().await;
        // Before anything changed, nothing does; after that, everything.
        let is_begun = point != "policy.preset-journaled";
        let security = json!(if is_begun { "deny" } else { "full" });
        assert_eq!(both(&server), (security.clone(), security), "{point}");
        assert!(
            !server.state().join("countersign/preset.json").exists(),
            "{point}"
        );
        let answer = server.agent().exec(json!({ "argv": ["/bin/true"] })).await;
        assert_eq!(answer.status, if is_begun { 403 } else { 200 }, "{point}");
        assert_has!(server.operator().read("/v1/audit/verify").await, { "ok": true }, "{point}");
    }
}

#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn what_somebody_changed_after_the_crash_stays() {
    use countersign_sys::hooks;

    let mut server = TestServer::full()
        .document(&json!({ "version": 1, "defaults": { "security": "full" }, "agents": {} }))
        .prepare();
    server
        .start_with(&[(hooks::KILL_VARIABLE, "policy.preset-document-written")])
        .await;
    let request = server
        .operator()
        .request(reqwest::Method::POST, PATH)
        .json(&json!({ "name": "cautious" }));
    assert!(crate::support::Api::try_send(request).await.is_err());
    server.wait_killed().await;
    server.edit_config("{tools: {exec: {host: 'gateway', security: 'deny'}}}");
    server.start().await;
    assert_eq!(
        fs::read_to_string(server.state().join("openclaw.json")).unwrap(),
        "{tools: {exec: {host: 'gateway', security: 'deny'}}}"
    );
    assert_eq!(document(&server)["defaults"]["security"], "allowlist");
    assert!(!server.state().join("countersign/preset.json").exists());
    let denied = server.agent().exec(json!({ "argv": ["/bin/true"] })).await;
    denied.problem(403, "exec-denied");
}

#[tokio::test]
async fn a_journal_that_does_not_read_stops_no_start() {
    let server = TestServer::full().prepare();
    let journal = server.state().join("countersign/preset.json");
    crate::support::write_file_mode(&journal, "{\"document\":", 0o600);
    let mut server = server;
    server.start().await;
    assert_eq!(
        server.agent().exec(json!({ "argv": ["/bin/true"] })).await.status,
        200
    );
    assert!(!journal.exists());
}
