use serde_json::{Value, json};

use super::{ONLY_RUN, knock, paired, token};
use crate::support::{Members, TestServer, eventually};

#[tokio::test]
async fn a_machine_is_let_in_by_an_admin_and_shown_to_readers() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let mut events = operator.events("?types=node.", None).await;
    let asked = knock(&server, "build-box", ONLY_RUN).await;
    let told = events.next_of("node.pairing.requested").await.data;
    assert_has!(told, { "requestId": asked.request, "displayName": "build-box" });

    let listed = operator.read("/v1/nodes/pairings").await;
    let request = listed["items"][0].clone();
    assert_eq!(request["requestId"], asked.request.as_str());
    assert_eq!(request["nodeId"], asked.node_id.as_str());
    assert_eq!(request["kind"], "device");
    assert_eq!(request["isRepair"], false);
    assert_eq!(request["commands"], json!(ONLY_RUN));
    assert_eq!(operator.read("/v1/nodes").await["items"], json!([]));

    let path = format!("/v1/nodes/pairings/{}/decision", asked.request);
    let decided = operator.posted(&path, json!({ "decision": "approve" })).await;
    assert_eq!(decided, json!({ "decision": "approve", "pairing": request }));
    let told = events.next_of("node.pairing.resolved").await.data;
    assert_has!(told, { "requestId": asked.request, "decision": "approve" });
    // Once.
    operator
        .post(&path, json!({ "decision": "reject" }))
        .await
        .problem(404, "not-found");

    let (_, reader) = token(&server, &["read"]).await;
    let node = reader.read(&format!("/v1/nodes/{}", asked.node_id)).await;
    assert_has!(node, { "paired": true, "connected": false });
    assert_eq!(node["displayName"], "build-box");
    assert_eq!(reader.read("/v1/nodes").await["items"], json!([node]));
    reader.get("/v1/nodes/pairings").await.problem(403, "forbidden");
}

#[tokio::test]
async fn a_connected_node_is_renamed_and_removed() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let node = paired(&server, "build-box", ONLY_RUN).await;
    let path = format!("/v1/nodes/{}", node.id());
    let shown = operator.read(&path).await;
    assert_eq!(shown["connected"], true, "{shown}");
    assert!(shown["connectedAtMs"].is_i64(), "{shown}");
    let renamed = operator
        .patch(&path, json!({ "displayName": " Second floor " }))
        .await
        .expect(200);
    assert_eq!(renamed["displayName"], "Second floor");
    for bad in [
        json!(""),
        json!("a\nb"),
        json!("a\u{202e}b"),
        json!("x".repeat(200)),
        json!(7),
    ] {
        operator
            .patch(&path, json!({ "displayName": bad }))
            .await
            .problem(400, "invalid-request");
    }
    operator
        .patch(&path, json!({ "name": "x" }))
        .await
        .problem(400, "invalid-request");

    assert_eq!(operator.delete(&path).await.status, 204);
    node.closed().await;
    operator.get(&path).await.problem(404, "node-not-found");
    operator.delete(&path).await.problem(404, "node-not-found");
    assert_eq!(operator.read("/v1/nodes").await["items"], json!([]));
}

#[tokio::test]
async fn a_node_is_named_by_its_id_and_by_nothing_else() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let node = paired(&server, "build-box", ONLY_RUN).await;
    let id = node.id();
    for name in [
        "build-box",
        &id.to_uppercase(),
        &format!("{id}0"),
        "..%2F",
        "%00",
        "*",
        "pairings%2f",
    ] {
        operator
            .get(&format!("/v1/nodes/{name}"))
            .await
            .problem(404, "node-not-found");
    }
    operator.read(&format!("/v1/nodes/{id}")).await;
}

#[tokio::test]
async fn lists_come_in_pages() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(paired(&server, name, ONLY_RUN).await);
        knock(&server, &format!("{name}2"), ONLY_RUN).await;
    }
    for list in ["/v1/nodes", "/v1/nodes/pairings"] {
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = operator.read(&format!("{list}?limit=2{cursor}")).await;
            let items = page.list("items");
            seen.extend(items.iter().map(|item| item["nodeId"].clone()));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        seen.dedup();
        assert_eq!(seen.len(), 3, "{list}: {seen:?}");
    }
}

#[tokio::test]
async fn nobody_but_an_admin_decides_a_pairing() {
    let server = TestServer::asking().start().await;
    let asked = knock(&server, "build-box", ONLY_RUN).await;
    let path = format!("/v1/nodes/pairings/{}/decision", asked.request);
    for scopes in [
        &["exec"][..],
        &["read"],
        &["approve"],
        &["relay"],
        &["exec", "read"],
    ] {
        let (_, api) = token(&server, scopes).await;
        let refused = api
            .post(&path, json!({ "decision": "approve" }))
            .await
            .problem(403, "forbidden");
        assert_eq!(refused["requiredScope"], "admin");
    }
    server
        .anonymous()
        .post(&path, json!({ "decision": "approve" }))
        .await
        .problem(401, "unauthorized");
    for bad in [
        json!({}),
        json!({ "decision": "yes" }),
        json!({ "decision": "approve", "force": true }),
    ] {
        server
            .operator()
            .post(&path, bad)
            .await
            .problem(400, "invalid-request");
    }
    let waiting = server.operator().read("/v1/nodes/pairings").await;
    assert_eq!(waiting["items"][0]["requestId"], asked.request.as_str());
}

#[tokio::test]
async fn a_foreign_page_decides_no_pairing() {
    let server = TestServer::asking().start().await;
    let asked = knock(&server, "build-box", ONLY_RUN).await;
    let login = json!({ "token": server.operator_token() });
    let login = server.anonymous().post("/auth/login", login).await;
    let csrf = login.expect(200).text("csrfToken").to_owned();
    let cookie = login.header("set-cookie").expect("a cookie");
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    let anybody = server.anonymous();
    let path = format!("/v1/nodes/pairings/{}/decision", asked.request);
    let send = async |headers: &[(&str, &str)]| {
        let mut request = anybody
            .request(reqwest::Method::POST, &path)
            .header("Cookie", &cookie);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        anybody
            .send(request.json(&json!({ "decision": "approve" })))
            .await
    };
    send(&[]).await.problem(403, "forbidden");
    send(&[("X-CSRF-Token", "x")]).await.problem(403, "forbidden");
    send(&[("X-CSRF-Token", &csrf), ("Origin", "https://attacker.example")])
        .await
        .problem(403, "forbidden");
    let waiting = server.operator().read("/v1/nodes/pairings").await;
    assert_eq!(waiting["items"].as_array().map(Vec::len), Some(1), "{waiting}");
    send(&[("X-CSRF-Token", &csrf)]).await.expect(200);
}

#[tokio::test]
#[expect(clippy::needless_collect, reason = "all at once")]
async fn commands_that_come_later_are_a_question_of_their_own() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let node = paired(&server, "build-box", ONLY_RUN).await;
    let id = node.id();
    let node = node
        .reconnect_with(&server, &["system.run", "system.which", "system.notify"])
        .await;
    let waiting = eventually(
        "asked about",
        || async { operator.read("/v1/nodes/pairings").await },
        |list| list["items"].as_array().is_some_and(|items| !items.is_empty()),
    )
    .await;
    let request = &waiting["items"][0];
    assert_has!(request, { "kind": "commands", "nodeId": id });
    let shown = operator.read(&format!("/v1/nodes/{id}")).await;
    assert_eq!(shown["commands"], json!(ONLY_RUN), "only what was approved");
    // A part of its id names it.
    let id_of_request = request.text("requestId");
    let part = &id_of_request[id_of_request.len() - 8..];
    let path = format!("/v1/nodes/pairings/{part}/decision");
    operator.posted(&path, json!({ "decision": "approve" })).await;
    let shown = operator.read(&format!("/v1/nodes/{id}")).await;
    let commands: Vec<&str> = shown.list("commands").iter().filter_map(Value::as_str).collect();
    assert!(commands.contains(&"system.which"), "{shown}");
    drop(node);
}

#[tokio::test]
async fn a_beginning_of_an_id_names_a_node() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let node = paired(&server, "build-box", ONLY_RUN).await;
    let id = node.id().clone();
    for part in [&id[..6], &id[..40], id.as_str()] {
        let shown = operator.read(&format!("/v1/nodes/{part}")).await;
        assert_eq!(shown["nodeId"], id.as_str(), "{part}");
    }
    // Too short, of no node, and its name.
    let other: String = id[..6]
        .chars()
        .map(|digit| if digit == '0' { '1' } else { '0' })
        .collect();
    for wrong in [&id[..5], &other, "build-box"] {
        operator
            .get(&format!("/v1/nodes/{wrong}"))
            .await
            .problem(404, "node-not-found");
    }
    let path = format!("/v1/nodes/{}", &id[..8]);
    let renamed = operator.patch(&path, json!({ "displayName": "other" })).await;
    assert_eq!(renamed.expect(200)["displayName"], "other");
}
