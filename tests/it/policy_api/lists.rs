//! Changing entries and grants, and deny rules.

use serde_json::{Value, json};

use super::{patch, policy_events};
use crate::support::{Api, Members, TestServer, only};

const LIST: &str = "/v1/agents/main/allowlist";
const DENY: &str = "/v1/agents/main/denylist";

async fn added(api: &Api, body: Value) -> String {
    let entry = api.made(LIST, body).await;
    format!("{LIST}/{}", entry.text("id"))
}

#[tokio::test]
async fn a_limit_moves_an_entry_to_the_grants_and_back() {
    let server = TestServer::allowlist_only().start().await;
    let operator = server.operator();
    let entry = added(&operator, json!({ "pattern": "/bin/true", "note": "first" })).await;
    let run = || async { server.agent().exec(json!({ "argv": ["/bin/true"] })).await.status };
    assert_eq!(run().await, 200);
    let limited = patch(&operator, &entry, None, &json!({ "maxUses": 1 }))
        .await
        .expect(200);
    assert_has!(limited, {
        "kind": "grant", "pattern": "/bin/true", "note": "first", "maxUses": 1, "state": "active",
    });
    let main = server.document_on_disk()["agents"]["main"].clone();
    assert!(main.get("allowlist").is_none(), "{main}");
    assert_eq!(main["grants"][0]["maxUses"], 1);
    assert_eq!((run().await, run().await), (200, 403));

    let more = patch(
        &operator,
        &entry,
        None,
        &json!({ "maxUses": null, "sha256": "00".repeat(32), "note": null }),
    )
    .await;
    assert_eq!(
        only(&more.expect(200), &["kind", "maxUses", "sha256", "note"]),
        json!({ "kind": "grant", "maxUses": null, "sha256": "00".repeat(32), "note": null })
    );
    assert_eq!(run().await, 403, "another content");
    let unlimited = patch(&operator, &entry, None, &json!({ "sha256": null }))
        .await
        .expect(200);
    assert_eq!(unlimited["kind"], "entry");
    assert!(
        server.document_on_disk()["agents"]["main"]
            .get("grants")
            .is_none()
    );
    assert_eq!(run().await, 200);

    let events = operator.read("/v1/events?types=allowlist.changed&after=0").await;
    let told: Vec<Value> = events
        .list("items")
        .iter()
        // Uses are noted behind, whenever that is.
        .filter(|event| event["change"] != "used")
        .map(|event| json!([event["change"], event["list"]]))
        .collect();
    assert_eq!(
        told,
        [
            json!(["added", "allowlist"]),
            json!(["changed", "grants"]),
            json!(["changed", "grants"]),
            json!(["changed", "allowlist"]),
        ]
    );
    assert!(
        policy_events(&operator).await.is_empty(),
        "told of once, as what it is"
    );
}

#[tokio::test]
async fn a_change_is_checked_like_a_new_entry() {
    let server = TestServer::allowlist_only().start().await;
    let operator = server.operator();
    let entry = added(&operator, json!({ "pattern": "/bin/true" })).await;
    let before = server.document_on_disk();
    for (body, status, code) in [
        (json!({ "pattern": "relative/path" }), 422, "invalid-pattern"),
        (json!({ "pattern": "" }), 422, "invalid-pattern"),
        (json!({ "argPattern": "(" }), 422, "invalid-pattern"),
        (json!({ "pattern": null }), 400, "invalid-request"),
        (json!({ "pattern": "a\nb" }), 400, "invalid-request"),
        (json!({ "maxUses": 0 }), 400, "invalid-request"),
        (json!({ "sha256": "xyz" }), 400, "invalid-request"),
        (json!({ "source": "allow-always" }), 400, "invalid-request"),
        (json!({ "id": "x" }), 400, "invalid-request"),
        (json!({ "note": "x".repeat(1001) }), 400, "invalid-request"),
    ] {
        let answer = patch(&operator, &entry, None, &body).await;
        answer.problem(status, code);
    }
    assert_eq!(server.document_on_disk(), before);
    patch(
        &operator,
        &format!("{LIST}/nothing"),
        None,
        &json!({ "note": "x" }),
    )
    .await
    .problem(404, "not-found");
    patch(
        &operator,
        &entry.replace("main", "other"),
        None,
        &json!({ "note": "x" }),
    )
    .await
    .problem(404, "not-found");
    assert_has!(patch(&operator, &entry, None, &json!({})).await.expect(200), { "kind": "entry" });
    assert_eq!(server.document_on_disk(), before);
}

#[tokio::test]
async fn an_entry_of_a_decision_keeps_its_bounds_until_a_person_rewrites_it() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let pending = server.accepted(json!({ "argv": ["/bin/echo", "one"] })).await;
    operator.decided(pending.text("approvalId"), "allow-always").await;
    server.agent().finished(pending.text("runId")).await;
    let made = operator.read(LIST).await["items"][0].clone();
    assert_eq!(made["source"], "allow-always");
    let path = format!("{LIST}/{}", made.text("id"));
    let noted = patch(&operator, &path, None, &json!({ "note": "from a question" }))
        .await
        .expect(200);
    assert_has!(noted, {
        "source": "allow-always", "argPattern": made["argPattern"], "note": "from a question",
    });
    let by_hand = patch(&operator, &path, None, &json!({ "argPattern": "^two$" }))
        .await
        .expect(200);
    assert_has!(by_hand, { "source": null, "state": "active" });
    let run = |argument: &'static str| {
        let api = server.agent();
        async move { api.exec(json!({ "argv": ["/bin/echo", argument] })).await.status }
    };
    assert_eq!((run("one").await, run("two").await), (202, 200));
}

#[tokio::test]
async fn deny_rules_are_added_once_listed_and_removed() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let rule = json!({ "pattern": "true", "reason": "no truth" });
    let made = operator.post(DENY, rule.clone()).await;
    let body = made.expect(201);
    let path = made.header("location").unwrap().to_owned();
    assert_eq!(path, format!("{DENY}/{}", body.text("id")));
    assert_eq!(only(&body, &["pattern", "reason"]), rule);
    assert_eq!(
        operator.posted(DENY, json!({ "pattern": " true " })).await["id"],
        body["id"]
    );
    let everybody = operator
        .post(
            "/v1/agents/*/denylist",
            json!({ "pattern": "/bin/echo", "argPattern": "^secret" }),
        )
        .await;
    everybody.expect(201);
    let run = |argv: Value| {
        let api = server.agent();
        async move { api.exec(json!({ "argv": argv })).await }
    };
    for argv in [json!(["/bin/true"]), json!(["/bin/echo", "secret"])] {
        assert_eq!(run(argv).await.problem(403, "exec-denied")["reason"], "denylist");
    }
    assert_eq!(run(json!(["/bin/echo", "open"])).await.status, 200);
    assert_eq!(operator.read(DENY).await, json!({ "items": [body] }));
    let page = operator.read("/v1/agents/*/denylist?limit=1").await;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1));

    assert_eq!(operator.delete(&path).await.status, 204);
    operator.delete(&path).await.problem(404, "not-found");
    operator.get(&path).await.problem(405, "method-not-allowed");
    assert_eq!(run(json!(["/bin/true"])).await.status, 200);
    for (bad, status, code) in [
        (json!({ "pattern": "a/b" }), 422, "invalid-pattern"),
        (
            json!({ "pattern": "=command:0123456789abcdef" }),
            422,
            "invalid-pattern",
        ),
        (
            json!({ "pattern": "rm", "argPattern": "[" }),
            422,
            "invalid-pattern",
        ),
        (
            json!({ "pattern": "rm", "expiresAtMs": 1 }),
            400,
            "invalid-request",
        ),
        (json!({ "reason": "x" }), 400, "invalid-request"),
        (
            json!({ "pattern": "rm", "argPattern": "^x", "children": true }),
            400,
            "invalid-request",
        ),
        (
            json!({ "pattern": "/opt/**", "children": true }),
            400,
            "invalid-request",
        ),
        (
            json!({ "pattern": "rm", "reason": "x".repeat(1001) }),
            400,
            "invalid-request",
        ),
    ] {
        operator.post(DENY, bad).await.problem(status, code);
    }
    let events = operator.read("/v1/events?types=allowlist.changed&after=0").await;
    let told: Vec<Value> = events
        .list("items")
        .iter()
        .map(|event| json!([event["change"], event["list"], event["agentId"]]))
        .collect();
    assert_eq!(
        told,
        [
            json!(["added", "denylist", "main"]),
            json!(["added", "denylist", null]),
            json!(["removed", "denylist", "main"]),
        ]
    );
}

#[tokio::test]
async fn a_deny_rule_gets_children_by_another_one() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let plain = operator
        .post(DENY, json!({ "pattern": "zq-none" }))
        .await
        .expect(201);
    assert_eq!(plain.get("children"), None, "{plain}");
    // It denies more than the one that is there.
    let children = json!({ "pattern": "zq-none", "children": true });
    let masking = operator.post(DENY, children.clone()).await.expect(201);
    assert_eq!(only(&masking, &["pattern", "children"]), children);
    assert_eq!(operator.posted(DENY, children).await["id"], masking["id"]);
    let main = server.document_on_disk()["agents"]["main"].clone();
    assert_eq!(main["denylist"][1]["children"], true, "{main}");
}
