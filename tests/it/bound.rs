//! Tokens that are bound to agents, at every edge. The operations of the HTTP API are in `operations/bound.rs`.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Members, OperatorClient, OperatorLink, TestServer};

const ANSWERING: [&str; 2] = ["read", "approve"];

/// A server with two agents, about whose commands a person is asked.
async fn server() -> TestServer {
    TestServer::asking()
        .config(&json!({
            "tools": { "exec": { "host": "gateway", "security": "allowlist", "ask": "on-miss" } },
            "commands": { "allowFrom": { "telegram": ["id:42"] } },
        }))
        .start()
        .await
}

/// Asks as an agent; the ids of the run and of its approval.
async fn asked_as(server: &TestServer, agent: &str) -> (String, String) {
    let asked = server
        .asked(json!({ "argv": ["/bin/date"], "agentId": agent }))
        .await;
    let text = |member: &str| asked[member].as_str().expect(member).to_owned();
    (text("runId"), text("approvalId"))
}

async fn status(server: &TestServer, approval: &str) -> Value {
    let path = format!("/v1/approvals/{approval}");
    server.operator().read(&path).await["status"].clone()
}

async fn link(server: &TestServer, api: &Api) -> OperatorLink {
    OperatorClient::new(api.token().expect("a token"), &["operator.admin"])
        .connect(server)
        .await
}

#[tokio::test]
async fn a_new_token_has_agents_or_admin_and_an_older_one_with_both_keeps_its_agents() {
    let server = server().await;
    let both = json!({ "name": "both", "scopes": ["read", "admin"], "agents": ["build"] });
    server
        .operator()
        .post("/v1/tokens", both)
        .await
        .problem(422, "scope-conflict");
    for twin in [
        json!({ "name": "admin", "scopes": ["read", "admin"] }),
        json!({ "name": "bound", "scopes": ["read", "approve"], "agents": ["build"] }),
    ] {
        server.operator().made("/v1/tokens", twin).await;
    }

    let older = server.bound_token(&["read", "admin"], "build").await;
    let policy = |agent: &str| format!("/v1/agents/{agent}/policy");
    let put = async |agent: &str| {
        let request = older.request(reqwest::Method::PUT, &policy(agent));
        older.send(request.json(&json!({ "ask": "always" }))).await
    };
    put("build").await.expect(200);
    put("main").await.problem(403, "forbidden");
    put("*").await.problem(403, "forbidden");
    older.get("/v1/tokens").await.problem(403, "forbidden");
    let report = server.cli(&["doctor", "--json"]).await;
    let report: Value = serde_json::from_str(&report.stdout).expect("a report");
    let found = report.list("findings");
    let of_bound = found
        .iter()
        .filter(|finding| finding["id"] == "bound-admin-token");
    assert_eq!(of_bound.count(), 1, "{found:?}");
}

#[tokio::test]
async fn a_bound_approver_answers_for_its_agents_alone_at_every_edge() {
    let server = server().await;
    let bound = server.bound_token(&["read", "approve", "relay"], "build").await;
    let (foreign_run, foreign) = asked_as(&server, "main").await;
    let unknown = "0".repeat(32);

    for decision in ["allow-once", "allow-always", "deny"] {
        let refused = bound.decide(&foreign, decision).await;
        let of_unknown = bound.decide(&unknown, decision).await;
        let told = |answer: Answer, code: &str| answer.problem(404, code)["detail"].clone();
        assert_eq!(
            told(refused, "approval-not-found"),
            told(of_unknown, "approval-not-found"),
            "as of one that is not there"
        );
    }
    let changed = json!({ "argv": ["/bin/true"] });
    let path = format!("/v1/approvals/{foreign}/revision");
    bound
        .post(&path, changed)
        .await
        .problem(404, "approval-not-found");
    let path = format!("/v1/runs/{foreign_run}");
    bound.get(&path).await.problem(404, "not-found");

    let mut wire = link(&server, &bound).await;
    for decision in ["allow-once", "deny"] {
        let params = json!({ "id": foreign, "decision": decision });
        wire.fails("exec.approval.resolve", params).await;
    }
    for method in ["exec.approval.get", "exec.approval.waitDecision"] {
        wire.fails(method, json!({ "id": foreign })).await;
    }
    assert_eq!(wire.call("exec.approval.list", json!({})).await, json!([]));

    let text = json!({ "text": format!("/approve {foreign} deny"), "sender": { "provider": "telegram", "id": "42" } });
    let chat = "/v1/sessions/agent:build:main/commands";
    bound.post(chat, text.clone()).await;
    bound
        .post("/v1/sessions/agent:main:main/commands", text)
        .await
        .problem(403, "forbidden");
    assert_eq!(status(&server, &foreign).await, "pending");

    // The same for an agent of its own.
    let (_, own) = asked_as(&server, "build").await;
    let listed = wire.call("exec.approval.list", json!({})).await;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    wire.call("exec.approval.resolve", json!({ "id": own, "decision": "deny" }))
        .await;
    assert_eq!(status(&server, &own).await, "denied");
    let (_, own) = asked_as(&server, "build").await;
    bound.decided(&own, "deny").await;
    let (_, own) = asked_as(&server, "build").await;
    let text =
        json!({ "text": format!("/approve {own} deny"), "sender": { "provider": "telegram", "id": "42" } });
    bound.posted(chat, text).await;
    assert_eq!(status(&server, &own).await, "denied");
}

#[tokio::test]
async fn lists_streams_and_pages_have_what_is_of_the_agents_of_a_token() {
    let server = server().await;
    let bound = server.bound_token(&ANSWERING, "build").await;
    let unbound = server.operator();
    let mut stream = bound.events("", None).await;
    let mut wire = link(&server, &bound).await;
    asked_as(&server, "main").await;
    let (run, approval) = asked_as(&server, "build").await;

    let first = stream.next_of("exec.approval.requested").await;
    assert_eq!(first.data["approvalId"], approval.as_str());
    let news = wire.event("exec.approval.requested").await;
    assert_eq!(news["payload"]["id"], approval.as_str());

    for (path, id) in [
        ("/v1/runs", ("runId", &run)),
        ("/v1/approvals", ("id", &approval)),
    ] {
        let items = bound.read(path).await["items"].clone();
        assert_eq!(items.as_array().map(Vec::len), Some(1), "{path}: {items}");
        assert_eq!(items[0][id.0], id.1.as_str());
        let of_other = bound.read(&format!("{path}?agentId=main")).await;
        assert_eq!(of_other["items"], json!([]), "{path}");
        let all = unbound.read(path).await["items"].clone();
        assert_eq!(all.as_array().map(Vec::len), Some(2), "{path}");
    }
    let page = async |api: &Api| {
        let request = api.request(reqwest::Method::GET, "/v1/events?after=0&limit=500");
        let answer = api.send(request.header("accept", "application/json")).await;
        answer.expect(200).list("items").clone()
    };
    let of_bound = page(&bound).await;
    assert!(
        !of_bound.is_empty() && of_bound.iter().all(|event| event["agentId"] == "build"),
        "{of_bound:?}"
    );
    assert!(
        page(&unbound)
            .await
            .iter()
            .any(|event| event["agentId"] == "main")
    );
}

#[tokio::test]
async fn what_is_of_no_agent_is_closed_on_the_bridge_and_open_to_the_unbound() {
    let server = server().await;
    let bound = server.bound_token(&["read", "approve", "admin"], "build").await;
    let mut of_bound = link(&server, &bound).await;
    let mut of_unbound = link(&server, &server.operator()).await;
    let methods = of_bound.hello["features"]["methods"].clone();
    let methods: Vec<&str> = methods
        .as_array()
        .expect("methods")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(methods.len() > 20, "{methods:?}");
    for method in methods {
        let is_of_agents =
            method.starts_with("exec.approval.") || ["health", "node.invoke"].contains(&method);
        // Parameters of no method: a bound token is refused before they are read.
        let refused = of_bound.ask(method, json!([])).await.to_string();
        assert_eq!(
            refused.contains("bound to agents"),
            !is_of_agents,
            "{method}: {refused}"
        );
        let other = of_unbound.ask(method, json!([])).await.to_string();
        assert!(!other.contains("bound to agents"), "{method}: {other}");
    }
    let node = json!({ "nodeId": "x", "command": "fs.read", "params": {} });
    let error = of_bound.fails("node.invoke", node).await;
    let said = error["message"].as_str().unwrap_or_default();
    assert!(said.contains("bound to agents"), "{error}");
    of_bound.call("health", json!({})).await;
}

#[tokio::test]
async fn a_bound_asker_is_refused_another_agent_by_every_tool() {
    let server = server().await;
    let bound = server.bound_token(&["exec"], "build").await;
    for (agent, status) in [("build", 200), ("main", 403)] {
        let call = json!({ "tool": "process", "args": { "action": "list", "agentId": agent } });
        assert_eq!(bound.post("/tools/invoke", call).await.status, status, "{agent}");
        let list = json!({ "action": "list", "agentId": agent });
        assert_eq!(bound.post("/v1/process", list).await.status, status, "{agent}");
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "exec_explain", "arguments": { "argv": ["/bin/date"], "agentId": agent } } });
        let request = bound.request(reqwest::Method::POST, "/mcp").json(&call);
        let request = request.header("accept", "application/json, text/event-stream");
        let said = bound.send(request).await.text();
        assert_eq!(
            said.contains("not bound to this agent"),
            status == 403,
            "{agent}: {said}"
        );
    }
    bound.get("/metrics").await.problem(403, "forbidden");
    server.anonymous().read("/healthz").await;
}
