//! `/v1/config`.

use std::fs;

use serde_json::{Value, json};

use super::{patch, policy_events, tag_of};
use crate::support::{Api, Members, TestServer, eventually};

const PATH: &str = "/v1/config";

async fn item(api: &Api, path: &str) -> Value {
    let config = api.read(PATH).await;
    let items = config.list("items").clone();
    items
        .into_iter()
        .find(|item| item["path"] == path)
        .unwrap_or(Value::Null)
}

fn on_disk(server: &TestServer) -> Value {
    serde_json::from_slice(&fs::read(server.state().join("openclaw.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn every_key_is_listed_with_value_source_and_default() {
    let config = json!({
        "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } },
        "agents": { "entries": { "build": { "tools": { "exec": { "ask": "always" } } } } },
    });
    let server = TestServer::full().config(&config).start().await;
    let operator = server.operator();
    assert_eq!(
        item(&operator, "tools.exec.ask").await,
        json!({ "path": "tools.exec.ask", "value": "off", "source": "openclaw.json", "default": "on-miss" })
    );
    assert_eq!(
        item(&operator, "tools.exec.timeoutSec").await,
        json!({ "path": "tools.exec.timeoutSec", "value": 1800, "source": "default", "default": 1800 })
    );
    assert_eq!(
        item(&operator, "tools.exec.mode").await,
        json!({ "path": "tools.exec.mode", "value": null, "source": "default", "default": null })
    );
    assert_eq!(
        item(&operator, "agents.entries.build.tools.exec.ask").await,
        json!({ "path": "agents.entries.build.tools.exec.ask", "value": "always", "source": "openclaw.json", "default": "off" })
    );
    let whole = operator.get(PATH).await;
    assert!(
        !whole.text().contains("http.listen"),
        "only the keys of openclaw.json"
    );
    let state = server.state().display().to_string();
    assert!(
        !whole
            .json()
            .list("items")
            .iter()
            .any(|item| item["source"].to_string().contains(&state)),
        "no path of the server among the sources"
    );
}

#[tokio::test]
async fn a_change_counts_when_it_is_answered_and_keeps_everything_else() {
    let server = TestServer::full().start().await;
    let text = "{ // mine\n  zeta: {b: 1, a: 2}, tools: {exec: {host: 'gateway', security: 'full', ask: 'off'}}, alpha: [1] }\n";
    server.edit_config(text);
    let operator = server.operator();
    assert_eq!(
        server.agent().exec(json!({ "argv": ["/bin/true"] })).await.status,
        200
    );
    // The edit from outside is told of once it was seen, not before the answer.
    let told = eventually(
        "told of the edit",
        || policy_events(&operator),
        |events| !events.is_empty(),
    );
    let before = told.await.len();
    let tag = tag_of(&operator, PATH).await;
    let body = json!({
        "set": { "tools.exec.security": "deny", "agents.entries.build.tools.exec.node": "n1", "commands.allowFrom.\"*\"": ["me"] },
        "unset": ["tools.exec.ask"],
    });
    let changed = patch(&operator, PATH, Some(&tag), &body).await;
    changed.expect(200);
    let new_tag = changed.header("etag").unwrap().to_owned();
    assert_ne!(new_tag, tag);
    assert_eq!(new_tag, tag_of(&operator, PATH).await);
    let denied = server.agent().exec(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(denied.problem(403, "exec-denied")["reason"], "security-deny");
    let on_disk = fs::read_to_string(server.state().join("openclaw.json")).unwrap();
    let expected = json!({ "zeta": { "b": 1, "a": 2 }, "tools": { "exec": { "host": "gateway", "security": "deny" } },
        "alpha": [1], "commands": { "allowFrom": { "*": ["me"] } },
        "agents": { "entries": { "build": { "tools": { "exec": { "node": "n1" } } } } } });
    let found: Value = serde_json::from_str(&on_disk).unwrap();
    assert_eq!(found, expected);
    assert!(on_disk.find("zeta") < on_disk.find("tools") && on_disk.find("tools") < on_disk.find("alpha"));
    assert_eq!(
        fs::read_to_string(server.state().join("openclaw.json.bak")).unwrap(),
        text
    );

    let events = policy_events(&operator).await;
    assert_eq!(events.len(), before + 1, "{events:#?}");
    assert_eq!(events.last().unwrap()["what"], "config");
    assert!(events.last().unwrap()["by"].is_object());
    let records = operator.read("/v1/audit?action=config.changed").await;
    let detail = &records["items"][0]["detail"];
    assert_eq!(detail["unset"], json!(["tools.exec.ask"]));
    assert_eq!(detail["set"].as_array().map(Vec::len), Some(3), "{detail}");
    assert!(!detail.to_string().contains("n1"), "keys, not values: {detail}");

    // The same again changes nothing and is no event.
    let again = patch(&operator, PATH, Some(&new_tag), &body).await;
    again.expect(200);
    assert_eq!(again.header("etag"), Some(new_tag.as_str()));
    assert_eq!(policy_events(&operator).await.len(), before + 1);
}

#[tokio::test]
async fn a_change_needs_to_know_what_it_changes() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let body = json!({ "set": { "tools.exec.ask": "always" } });
    let tag = tag_of(&operator, PATH).await;
    let without = patch(&operator, PATH, None, &body).await;
    assert_eq!(
        without.problem(428, "base-hash-required")["currentHash"],
        tag.replace('"', "")
    );
    let stale = patch(&operator, PATH, Some("\"00\""), &body).await;
    assert_eq!(
        stale.problem(412, "base-hash-mismatch")["currentHash"],
        tag.replace('"', "")
    );
    let always = json!({ "set": { "tools.exec.ask": "always" } });
    let on_miss = json!({ "set": { "tools.exec.ask": "on-miss" } });
    let (one, other) = tokio::join!(
        patch(&operator, PATH, Some(&tag), &always),
        patch(&operator, PATH, Some(&tag), &on_miss),
    );
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
    // An edit from outside is noticed, too.
    let tag = tag_of(&operator, PATH).await;
    server.edit_config("{tools: {exec: {host: 'gateway'}}}");
    patch(&operator, PATH, Some(&tag), &body)
        .await
        .problem(412, "base-hash-mismatch");
}

#[tokio::test]
async fn what_would_not_be_valid_is_named_and_changes_nothing() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let before = on_disk(&server);
    let tag = tag_of(&operator, PATH).await;
    for (body, path, message) in [
        (
            json!({ "set": { "tools.exec.ask": "maybe" } }),
            "tools.exec.ask",
            "off, on-miss or always",
        ),
        (
            json!({ "set": { "tools.exec.aks": "off" } }),
            "tools.exec.aks",
            "tools.exec.ask",
        ),
        (
            json!({ "set": { "tools.exec.mode": "full" } }),
            "tools.exec.mode",
            "conflicts",
        ),
        (
            json!({ "set": { "tools.exec.ask": null } }),
            "tools.exec.ask",
            "null",
        ),
        (
            json!({ "set": { "agents.list[3].id": "x" } }),
            "agents.list[3].id",
            "leads through",
        ),
        (
            json!({ "set": { "agents.entries.bad id.workspace": "/w" } }),
            "agents.entries.bad id.workspace",
            "path",
        ),
        (json!({ "set": { "" : 1 } }), "", "path"),
        (
            json!({ "unset": ["tools.exec.nothing"] }),
            "tools.exec.nothing",
            "unknown key",
        ),
        (
            json!({ "set": { "tools.exec.ask": "off" }, "unset": ["tools.exec.ask"] }),
            "tools.exec.ask",
            "both",
        ),
        (
            json!({ "unset": ["tools.exec.ask", "tools.exec.ask"] }),
            "unset",
            "twice",
        ),
    ] {
        let problem = patch(&operator, PATH, Some(&tag), &body)
            .await
            .problem(400, "invalid-request");
        let field = &problem["fields"][0];
        assert_eq!(field["path"], path, "{body}: {problem}");
        let said = field.text("message");
        assert!(said.contains(message), "{body}: {problem}");
        let state = server.state().display().to_string();
        assert!(!problem.to_string().contains(&state), "{problem}");
    }
    assert_eq!(on_disk(&server), before);
    assert_eq!(tag_of(&operator, PATH).await, tag);
    assert!(!server.state().join("openclaw.json.bak").exists());
}

#[tokio::test]
async fn elements_of_lists_are_those_that_were_read() {
    let config = json!({
        "tools": { "exec": { "host": "gateway" } },
        "agents": { "list": [ { "id": "a" }, { "id": "b" }, { "id": "c" } ] },
    });
    let server = TestServer::full().config(&config).start().await;
    let operator = server.operator();
    let tag = tag_of(&operator, PATH).await;
    let body = json!({
        "set": { "agents.list[2].workspace": "/c", "agents.list[3].id": "d" },
        "unset": ["agents.list[0]", "agents.list[1]"],
    });
    patch(&operator, PATH, Some(&tag), &body).await.expect(200);
    assert_has!(on_disk(&server), { "agents/list": [{ "id": "c", "workspace": "/c" }, { "id": "d" }] });
}

#[tokio::test]
async fn a_broken_file_is_shown_as_the_last_good_one_and_left_alone() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    server.edit_config("{tools: {exec: {");
    assert_eq!(item(&operator, "tools.exec.security").await["value"], "full");
    let tag = tag_of(&operator, PATH).await;
    let body = json!({ "set": { "tools.exec.ask": "always" } });
    let problem = patch(&operator, PATH, Some(&tag), &body)
        .await
        .problem(409, "document-refused");
    assert_has!(problem, { "reason": "json", "currentHash": tag.replace('"', "") });
    assert_eq!(
        fs::read_to_string(server.state().join("openclaw.json")).unwrap(),
        "{tools: {exec: {"
    );
    // A value that is wrong can be mended, though.
    server.edit_config("{tools: {exec: {host: 'gateway', ask: 'maybe', aks: 1}}}");
    let tag = tag_of(&operator, PATH).await;
    let mend = json!({ "set": { "tools.exec.ask": "off" }, "unset": ["tools.exec.aks"] });
    patch(&operator, PATH, Some(&tag), &mend).await.expect(200);
    assert_eq!(
        on_disk(&server),
        json!({ "tools": { "exec": { "host": "gateway", "ask": "off" } } })
    );
}

#[tokio::test]
async fn a_file_that_is_not_there_can_be_made() {
    let server = TestServer::full().without_config().start().await;
    let operator = server.operator();
    let tag = tag_of(&operator, PATH).await;
    assert!(tag.starts_with("\"missing:"), "{tag}");
    let body = json!({ "set": { "tools.exec.host": "gateway" } });
    patch(&operator, PATH, Some(&tag), &body).await.expect(200);
    assert_eq!(
        on_disk(&server),
        json!({ "tools": { "exec": { "host": "gateway" } } })
    );
    assert!(!server.state().join("openclaw.json.bak").exists());
}

#[tokio::test]
async fn a_linked_file_is_read_but_not_written() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let path = server.state().join("openclaw.json");
    let elsewhere = server.scratch().join("elsewhere.json");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let before = fs::read(&elsewhere).unwrap();
    let tag = tag_of(&operator, PATH).await;
    let body = json!({ "set": { "tools.exec.security": "deny" } });
    patch(&operator, PATH, Some(&tag), &body)
        .await
        .problem(503, "storage-unavailable");
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(fs::read(&elsewhere).unwrap(), before);
}
