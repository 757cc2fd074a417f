use std::collections::BTreeSet;

use countersign_sys::hooks;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Client, LEGACY, OLDER, append_line, call, initialize, messages, modern, post, texts};
use crate::support::{Members, TestServer, assert_says, eventually, lines, only, soon, within, write_file};

const NO_LINKS: Value = Value::Null;

fn links() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}})
}

async fn connected(server: &TestServer) -> Client {
    Client::connect(&server.agent(), json!({})).await
}

#[tokio::test]
async fn the_tools_are_those_of_the_contract_with_the_members_of_the_http_bodies() {
    let server = TestServer::full().start().await;
    let client = connected(&server).await;
    let answer = client
        .send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
        .await;
    let list = super::result(&answer);
    let tools = list.list("tools");
    let names: Vec<_> = tools.iter().map(|tool| tool.text("name")).collect();
    assert_eq!(names, ["exec", "process", "apply_patch", "exec_explain"]);
    let contract = server.anonymous().read("/openapi.json").await;
    let members = |schema: &Value| -> BTreeSet<String> {
        schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    };
    for tool in tools {
        let schema = &tool["inputSchema"];
        let body = if tool["name"] == "process" {
            "ProcessRequest"
        } else if tool["name"] == "apply_patch" {
            "PatchRequest"
        } else {
            "ExecRequest"
        };
        assert_eq!(members(schema), members(&contract["components"]["schemas"][body]));
        assert_eq!(schema["additionalProperties"], false);
        // Claude Code 2.1.197 leaves out every tool whose schema begins with alternatives.
        for alternatives in ["oneOf", "anyOf", "allOf"] {
            assert!(schema.get(alternatives).is_none(), "{tool}");
        }
    }
    // What they would say is in the description, and in the refusal.
    for (arguments, path) in [
        (json!({}), "command"),
        (json!({"command": "id", "argv": ["id"]}), "argv"),
    ] {
        let refused = client.exec(2, &arguments).await;
        assert_eq!(refused["isError"], true, "{refused}");
        let text = texts(&refused).join("\n");
        assert_says(&text, path);
        assert_says(&text, "one of command and argv");
    }
}

#[tokio::test]
async fn a_command_runs_and_its_exit_code_is_no_error() {
    let server = TestServer::full().start().await;
    let client = connected(&server).await;
    let result = client
        .exec(1, &json!({"command": "echo out; echo err >&2; exit 3"}))
        .await;
    assert_eq!(result["isError"], false);
    let run = &result["structuredContent"];
    assert_eq!(
        only(run, &["status", "exitCode", "stdout", "stderr", "host"]),
        json!({"status": "failed", "exitCode": 3, "stdout": "out\n", "stderr": "err\n", "host": "gateway"})
    );
    let texts = texts(&result);
    assert_eq!(texts.len(), 2);
    assert!(texts[1].starts_with("[exit code 3, "), "{texts:?}");
    let recorded = server.agent().run(run.text("runId")).await;
    assert_eq!(recorded["status"], "failed");
}

#[tokio::test]
async fn a_question_is_asked_once_and_its_result_fetched_by_the_same_call() {
    let server = TestServer::asking().start().await;
    let client = connected(&server).await;
    let file = server.scratch().join("lines");
    let command = append_line(&file);
    let first = client.exec(1, &command).await;
    assert_eq!(first["isError"], false);
    let pending = &first["structuredContent"];
    assert_eq!(pending["status"], "approval-pending", "{pending}");
    let id = pending.text("approvalId");
    let url = format!("{}/a/{id}", server.agent().base());
    assert_eq!(pending["approvalUrl"], url);
    assert!(texts(&first)[0].contains(&url));

    let again = client.exec(2, &command).await;
    assert_eq!(again["structuredContent"]["approvalId"], id);
    assert_eq!(server.operator().pending().await.len(), 1);

    server.operator().decided(id, "allow-once").await;
    let waiting = json!({"command": command["command"], "approvalWaitMs": 60_000});
    let done = client.exec(3, &waiting).await;
    assert_has!(done["structuredContent"], {"status": "completed", "approvalId": id});
    assert_eq!(lines(&file), ["ran"]);

    let next = client.exec(4, &command).await;
    assert_eq!(next["structuredContent"]["status"], "approval-pending");
    assert_ne!(next["structuredContent"]["approvalId"], id);
}

#[tokio::test]
async fn a_call_waits_for_the_decision_when_asked_to_and_reports_progress() {
    let server = TestServer::asking().start().await;
    let client = connected(&server).await;
    let mut message = call(1, "exec", &json!({"argv": ["id"], "approvalWaitMs": 60_000}));
    message["params"]["_meta"] = json!({"progressToken": "p"});
    let (answer, ()) = tokio::join!(client.send(&message), async {
        let pending = server.operator().waiting().await;
        let id = pending[0].text("id").to_owned();
        server.operator().decided(&id, "allow-once").await;
    });
    let mut messages = messages(&answer);
    let last = messages.pop().expect("a result");
    assert_has!(last, { "result/structuredContent/status": "completed" });
    assert!(!messages.is_empty());
    let mut before = 0.0;
    for note in &messages {
        assert_eq!(note["method"], "notifications/progress", "{note}");
        assert_eq!(note["params"]["progressToken"], "p");
        let number = note["params"]["progress"].as_f64().unwrap();
        assert!(number > before, "{note}");
        before = number;
    }
    let first = messages[0]["params"].text("message");
    assert!(
        first.starts_with("waiting for a person to decide about approval "),
        "{first}"
    );
}

#[tokio::test]
async fn a_request_that_is_sent_again_runs_once_and_another_runs_again() {
    let server = TestServer::full().start().await;
    let client = connected(&server).await;
    let file = server.scratch().join("lines");
    let command = append_line(&file);
    let first = client.exec(7, &command).await;
    let again = client.exec(7, &command).await;
    assert_eq!(
        again["structuredContent"]["runId"],
        first["structuredContent"]["runId"]
    );
    assert_eq!(lines(&file).len(), 1);
    client.exec(8, &command).await;
    assert_eq!(lines(&file).len(), 2);
    // The same id in another session, and with other arguments, is another call.
    connected(&server).await.exec(7, &command).await;
    assert_eq!(lines(&file).len(), 3);
    let other = client.exec(7, &json!({"argv": ["true"]})).await;
    assert_ne!(
        other["structuredContent"]["runId"],
        first["structuredContent"]["runId"]
    );
    // Without a session ids say nothing.
    let nameless = Client {
        session: None,
        ..client
    };
    nameless.exec(7, &command).await;
    nameless.exec(7, &command).await;
    assert_eq!(lines(&file).len(), 5);
}

#[tokio::test]
async fn a_link_is_shown_and_no_answer_to_it_decides() {
    let server = TestServer::asking().start().await;
    let client = Client::connect(&server.agent(), links()).await;
    let answer = client.send(&call(1, "exec", &json!({"argv": ["id"]}))).await;
    let messages = messages(&answer);
    let elicitation = &messages[0];
    assert_eq!(elicitation["method"], "elicitation/create", "{messages:?}");
    let params = &elicitation["params"];
    let approval = messages.last().unwrap()["result"]["structuredContent"].clone();
    assert_eq!(params["mode"], "url");
    assert_eq!(params["url"], approval["approvalUrl"]);
    let id = approval.text("approvalId");
    for action in [
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {"decision": "allow-once"}}),
        json!({"action": "decline"}),
    ] {
        let answered = client
            .send(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": action}))
            .await;
        assert_eq!((answered.status, answered.text().as_str()), (202, ""));
    }
    let pending = server.operator().pending().await;
    assert_eq!(pending[0]["id"], id);
    assert_eq!(
        client.exec(2, &json!({"argv": ["id"]})).await["structuredContent"]["status"],
        "approval-pending"
    );
}

#[tokio::test]
async fn without_a_handshake_the_link_is_a_round_of_its_own_and_decides_as_little() {
    let server = TestServer::asking().start().await;
    let (agent, command) = (server.agent(), json!({"argv": ["id"]}));
    let first = modern(&agent, 1, &command, &links(), NO_LINKS).await;
    assert_eq!(first["resultType"], "input_required", "{first}");
    let request = &first["inputRequests"]["approval"];
    assert_eq!(request["method"], "elicitation/create");
    let state = first.text("requestState");
    let retry = json!({"requestState": state, "inputResponses": {"approval": {"action": "accept"}}});
    let second = modern(&agent, 2, &command, &links(), retry.clone()).await;
    assert_has!(second, { "structuredContent/status": "approval-pending" });
    let id = second["structuredContent"].text("approvalId");
    assert_eq!(server.operator().pending().await.len(), 1);

    // The state is a key of its own token: other arguments, and other tokens, get nothing by it.
    let stolen = modern(&agent, 3, &json!({"argv": ["ls"]}), &links(), retry.clone()).await;
    assert_eq!(stolen["isError"], true);
    assert_eq!(stolen["structuredContent"]["code"], "idempotency-mismatch");
    let (_, other) = server
        .token_with(json!({"name": "other", "scopes": ["exec"]}))
        .await;
    let others = modern(&other, 4, &command, &links(), retry.clone()).await;
    assert_ne!(others["structuredContent"]["approvalId"], id);

    server.operator().decided(id, "allow-once").await;
    let waiting = json!({"argv": ["id"], "approvalWaitMs": 60_000});
    let done = modern(&agent, 5, &waiting, &links(), retry).await;
    assert_eq!(done["structuredContent"]["status"], "completed", "{done}");
}

#[tokio::test]
async fn a_denial_is_an_error_with_its_reason_hint_and_run() {
    let server = TestServer::allowlist_only().start().await;
    let client = connected(&server).await;
    let result = client.exec(1, &json!({"argv": ["id"]})).await;
    assert_eq!(result["isError"], true);
    let problem = &result["structuredContent"];
    assert_eq!(
        only(problem, &["code", "reason", "status"]),
        json!({"code": "exec-denied", "reason": "allowlist-miss", "status": 403})
    );
    let hint = problem.text("hint");
    assert!(texts(&result)[0].contains(hint));
    let run = server.agent().run(problem.text("runId")).await;
    assert_eq!(run["status"], "denied");
}

#[tokio::test]
async fn an_explanation_runs_nothing_and_says_why() {
    let server = TestServer::asking().start().await;
    let client = connected(&server).await;
    let file = server.scratch().join("lines");
    let explained = client.call(1, "exec_explain", &append_line(&file)).await;
    assert_eq!(explained["structuredContent"]["outcome"], "ask", "{explained}");
    assert!(texts(&explained)[0].starts_with("A person would be asked."));
    assert_eq!(server.operator().pending().await, Vec::<Value>::new());
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn the_binding_of_a_token_to_agents_holds() {
    let server = TestServer::full().start().await;
    let request = json!({"name": "bound", "scopes": ["exec"], "agents": ["a"]});
    let (_, bound) = server.token_with(request).await;
    let client = Client::connect(&bound, json!({})).await;
    let own = client.exec(1, &json!({"argv": ["true"], "agentId": "a"})).await;
    assert_eq!(own["isError"], false, "{own}");
    for arguments in [
        json!({"argv": ["true"]}),
        json!({"argv": ["true"], "agentId": "b"}),
    ] {
        for tool in ["exec", "exec_explain"] {
            let foreign = client.call(2, tool, &arguments).await;
            assert_eq!(foreign["structuredContent"]["code"], "forbidden", "{foreign}");
        }
    }
}

#[tokio::test]
async fn a_call_that_is_taken_back_ends_its_run() {
    let server = TestServer::full().start().await;
    let client = connected(&server).await;
    let (_, stranger) = server
        .token_with(json!({"name": "other", "scopes": ["exec"]}))
        .await;
    let cancels = |id: Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    let running = || async {
        let runs = server.operator().read("/v1/runs?status=running").await;
        runs.list("items").clone()
    };
    let message = call(5, "exec", &json!({"argv": ["sleep", "1000"]}));
    let sent = tokio::spawn({
        let client = client.clone();
        async move { client.send(&message).await }
    });
    let run = eventually("running", running, |runs| !runs.is_empty()).await;
    let run = run[0].text("runId").to_owned();

    // Neither another id, nor another session, nor another token with this session takes it back.
    client.send(&cancels(json!("5"))).await;
    connected(&server).await.send(&cancels(json!(5))).await;
    let with_same_session = Client {
        api: stranger,
        ..client.clone()
    };
    with_same_session.send(&cancels(json!(5))).await;
    assert_eq!(server.agent().run(&run).await["status"], "running");

    assert_eq!(client.send(&cancels(json!(5))).await.status, 202);
    assert_eq!(server.agent().finished(&run).await["status"], "cancelled");
    within("the end of the call", sent).await.expect("an answer");
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_run() {
    let server = TestServer::full().start().await;
    let client = connected(&server).await;
    let running = || async {
        let runs = server.operator().read("/v1/runs?status=running").await;
        runs.list("items").clone()
    };
    let request = client.request(&call(5, "exec", &json!({"argv": ["sleep", "1000"]})));
    let sent = tokio::spawn(request.send());
    let run = eventually("running", running, |runs| !runs.is_empty()).await;
    sent.abort();
    let run = run[0].text("runId");
    assert_eq!(server.agent().finished(run).await["status"], "cancelled");
}

#[tokio::test]
async fn a_call_taken_back_while_a_person_is_asked_leaves_the_question() {
    let server = TestServer::asking().start().await;
    let client = connected(&server).await;
    let arguments = json!({"argv": ["id"], "approvalWaitMs": 60_000});
    let sent = tokio::spawn({
        let (client, message) = (client.clone(), call(5, "exec", &arguments));
        async move { client.send(&message).await }
    });
    let pending = server.operator().waiting().await;
    let cancels = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    assert_eq!(client.send(&cancels).await.status, 202);
    // Answered: nobody waits for the run any more.
    within("the end of the call", sent).await.expect("an answer");
    let id = pending[0].text("id");
    server.operator().decided(id, "allow-once").await;
    let run = server.agent().finished(pending[0].text("runId")).await;
    assert_eq!(run["status"], "completed");
}

#[tokio::test]
async fn a_call_that_is_taken_back_and_made_again_joins_its_question_in_every_version() {
    for version in [OLDER, LEGACY] {
        let server = TestServer::asking().start().await;
        let client = Client::connect_as(&server.agent(), version, &json!({})).await;
        let file = server.scratch().join("lines");
        let arguments = json!({"command": append_line(&file)["command"], "approvalWaitMs": 60_000});
        let sent = tokio::spawn({
            let (client, message) = (client.clone(), call(5, "exec", &arguments));
            async move { client.send(&message).await }
        });
        let pending = server.operator().waiting().await;
        let cancels =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
        assert_eq!(client.send(&cancels).await.status, 202);
        within("the end of the call", sent).await.expect("an answer");

        let again = client.exec(6, &append_line(&file)).await;
        let id = pending[0].text("id");
        assert_eq!(again["structuredContent"]["approvalId"], id, "{version}: {again}");
        assert_eq!(server.operator().pending().await.len(), 1, "{version}");
        server.operator().decided(id, "allow-once").await;
        let done = client.exec(7, &arguments).await;
        assert_has!(done, { "structuredContent/status": "completed" }, "{version}: {done}");
        assert_eq!(lines(&file), ["ran"], "{version}");
    }
}

/// A client that took a call back ignores an answer that was on its way.
#[tokio::test]
async fn a_call_whose_answer_crossed_its_withdrawal_runs_once_when_it_is_made_again() {
    for version in [OLDER, LEGACY] {
        let server = TestServer::full().start().await;
        let client = Client::connect_as(&server.agent(), version, &json!({})).await;
        let file = server.scratch().join("lines");
        let run = |answer: &Value| answer["structuredContent"]["runId"].clone();
        let first = client.exec(5, &append_line(&file)).await;
        assert_has!(first, { "structuredContent/status": "completed" }, "{version}: {first}");
        for taken_back in [json!("5"), json!(4)] {
            let cancels = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": taken_back}});
            assert_eq!(client.send(&cancels).await.status, 202);
        }
        // Another call of the same arguments: nobody took the first one back.
        let second = client.exec(6, &append_line(&file)).await;
        assert_ne!(run(&second), run(&first), "{version}: {second}");
        let cancels =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}});
        assert_eq!(client.send(&cancels).await.status, 202);
        let again = client.exec(7, &append_line(&file)).await;
        assert_eq!(run(&again), run(&second), "{version}: {again}");
        assert_has!(again, { "structuredContent/status": "completed" }, "{version}: {again}");
        assert_eq!(lines(&file), ["ran", "ran"], "{version}");
        let fourth = client.exec(8, &append_line(&file)).await;
        assert_ne!(run(&fourth), run(&second), "{version}: {fourth}");
    }
}

#[tokio::test]
async fn the_edge_is_that_of_every_other_resource() {
    let server = TestServer::full()
        .toml("[limits]\nbody_bytes = 65536\n")
        .start()
        .await;
    let (agent, hello) = (server.agent(), initialize(LEGACY, &json!({})));
    let refused = |request| async { agent.send(request).await };
    post_as(&server, None, &hello).await.problem(401, "unauthorized");
    post_as(&server, Some("cst_wrong"), &hello)
        .await
        .problem(401, "unauthorized");
    let (_, reader) = server.token_with(json!({"name": "r", "scopes": ["read"]})).await;
    for other in [&server.operator(), &reader] {
        let problem = other.send(post(other, &hello)).await.problem(403, "forbidden");
        assert_eq!(problem["requiredScope"], "exec");
    }
    refused(post(&agent, &hello).header("Host", "evil.example"))
        .await
        .problem(421, "misdirected-request");
    refused(post(&agent, &hello).header("Origin", "https://evil.example"))
        .await
        .problem(403, "forbidden");
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let answer = refused(agent.request(method, "/mcp")).await;
        answer.problem(405, "method-not-allowed");
        assert_eq!(answer.header("allow"), Some("POST"));
    }
    let plain = agent
        .request(Method::POST, "/mcp")
        .header("Accept", "application/json, text/event-stream");
    refused(plain.try_clone().unwrap().body("{}"))
        .await
        .problem(415, "unsupported-media-type");
    let typed = plain.header("Content-Type", "application/json");
    for body in ["", "{", "[]", "7", "null", "\"x\"", "{\"jsonrpc\":\"2.0\"}", "{}"] {
        let answer = refused(typed.try_clone().unwrap().body(body)).await;
        answer.problem(400, "invalid-request");
    }
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(70_000));
    refused(typed.try_clone().unwrap().body(large))
        .await
        .problem(413, "body-too-large");
    let json_only = agent
        .request(Method::POST, "/mcp")
        .header("Accept", "application/json")
        .json(&hello);
    refused(json_only).await.problem(406, "not-acceptable");
    for session in ["", "x", "../..", &"a".repeat(5000)] {
        let answer = refused(post(&agent, &hello).header("Mcp-Session-Id", session)).await;
        answer.problem(404, "not-found");
    }
}

async fn post_as(server: &TestServer, token: Option<&str>, message: &Value) -> crate::support::Answer {
    let api = server.anonymous().with_token(token);
    api.send(post(&api, message)).await
}

#[tokio::test]
async fn hostile_arguments_are_refused_and_run_nothing() {
    let server = TestServer::full().start().await;
    let client = connected(&server).await;
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for arguments in [
        json!({}),
        json!({"command": "id", "argv": ["id"]}),
        json!({"command": "id", "secuirty": "deny"}),
        json!({"command": ["id"]}),
        json!({"command": "i\u{0}d"}),
        json!({"command": " "}),
        json!({"argv": "id"}),
        json!({"argv": [deep]}),
        json!({"command": "id", "env": {"LD_PRELOAD": "/x"}}),
        json!({"command": "id", "agentId": "../x"}),
        json!({"command": "id", "agentId": "*"}),
        json!({"command": "id", "approvalWaitMs": -1}),
        json!({"command": "id", "approvalWaitMs": 600_001}),
        json!({"command": "id", "approvalWaitMs": "60000"}),
        json!({"command": "id", "host": "build-01"}),
        json!({"command": "/approve 12345678 allow-once"}),
        json!({"__proto__": {}, "constructor": 1}),
    ] {
        let result = client.exec(1, &arguments).await;
        assert_eq!(result["isError"], true, "{arguments}: {result}");
        assert!(result["structuredContent"]["code"].is_string(), "{result}");
    }
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"], json!([]));
    // What is no call of a tool of ours is an error of the protocol.
    for message in [
        call(1, "approve", &json!({"id": "x", "decision": "allow-once"})),
        call(1, "EXEC", &json!({"command": "id"})),
        json!({"jsonrpc": "2.0", "id": 1, "method": "approvals/decide", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}),
    ] {
        let answer = client.send(&message).await;
        assert!(answer.json()["error"]["code"].is_i64(), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_key_can_be_named_and_must_be_one() {
    let server = TestServer::full().start().await;
    let client = connected(&server).await;
    let file = server.scratch().join("lines");
    let named = |id: u64, key: Value| {
        let mut message = call(id, "exec", &append_line(&file));
        message["params"]["_meta"] = json!({"countersign/idempotencyKey": key});
        message
    };
    client.send(&named(1, json!("k"))).await.expect(200);
    client.send(&named(2, json!("k"))).await.expect(200);
    assert_eq!(lines(&file).len(), 1);
    for bad in [json!(""), json!(7), json!("ä"), json!("x".repeat(256))] {
        let answer = client.send(&named(3, bad)).await;
        assert_eq!(answer.json()["error"]["code"], -32602, "{}", answer.text());
    }
    assert_eq!(lines(&file).len(), 1);
}

#[tokio::test]
async fn fifty_calls_at_once_all_end() {
    let server = TestServer::full().start().await;
    let client = connected(&server).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0_u64..50 {
        let client = client.clone();
        calls.spawn(async move {
            let text = number.to_string();
            let result = client.exec(number, &json!({"argv": ["echo", text]})).await;
            assert_has!(result, { "structuredContent/stdout": format!("{number}\n") });
        });
    }
    within("the calls", calls.join_all()).await;
}

#[tokio::test]
async fn a_patch_is_asked_about_once_and_its_result_fetched_by_the_same_call() {
    let server = TestServer::asking().start().await;
    let client = connected(&server).await;
    let patch = json!({"input": "*** Begin Patch\n*** Add File: new\n+x\n*** End Patch\n"});
    let first = client.call(1, "apply_patch", &patch).await;
    assert_eq!(first["isError"], false);
    let pending = &first["structuredContent"];
    assert_eq!(pending["status"], "approval-pending", "{pending}");
    let id = pending.text("approvalId");
    assert!(texts(&first)[0].contains("the same call again"), "{first}");
    server.operator().decided(id, "allow-once").await;
    let waiting = json!({"input": patch["input"], "approvalWaitMs": 60_000});
    let done = client.call(2, "apply_patch", &waiting).await;
    assert_has!(done["structuredContent"], {"changed": [{"path": "new", "kind": "added"}], "approvalId": id});
    assert_has!(texts(&done), { "0": format!("[1 added]\nadded new\n[allowed by approval {id}]") });
    assert_eq!(lines(&server.state().join("workspace/new")), ["x"]);

    let nonsense = client.call(3, "apply_patch", &json!({"input": "hello"})).await;
    assert_eq!(nonsense["isError"], true);
    assert_eq!(nonsense["structuredContent"]["code"], "invalid-request");
}

#[tokio::test]
async fn too_many_arguments_are_refused_and_many_are_not() {
    let server = TestServer::full().start().await;
    let client = Client::connect(&server.agent(), json!({})).await;
    let argv = vec!["/bin/true"; countersign_domain::MAX_WORDS + 1];
    let refused = client.exec(1, &json!({ "argv": argv })).await;
    assert_eq!(refused["isError"], true, "{refused}");
    let texts = texts(&refused).join("\n");
    assert!(texts.contains("at most 4096 arguments"), "{texts}");
    let most = client.exec(2, &json!({ "argv": argv[1..] })).await;
    assert_ne!(most["isError"], true, "{most}");
}

#[tokio::test]
async fn large_messages_of_one_token_wait_for_each_other_and_hold_up_nobody_else() {
    let pauses = tempfile::tempdir().unwrap();
    let server = TestServer::full()
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
        .start()
        .await;
    let token = async |name: &str| {
        let request = json!({ "name": name, "scopes": ["exec"] });
        let (_, api) = server.token_with(request).await;
        Client::connect(&api, json!({})).await
    };
    let (hostile, other) = (std::sync::Arc::new(token("hostile").await), token("other").await);
    let large = json!({ "argv": ["/bin/echo", "x".repeat(10_000)] });
    let small = json!({ "argv": ["/bin/true"] });
    let [wanted, reached] = ["mcp.reading", "mcp.reading.reached"].map(|name| pauses.path().join(name));
    write_file(&wanted, "");
    let calls: Vec<_> = (0..3)
        .map(|id| {
            let (hostile, large) = (std::sync::Arc::clone(&hostile), large.clone());
            tokio::spawn(async move { hostile.exec(id, &large).await })
        })
        .collect();
    soon("it stands still", || reached.exists(), |there| *there).await;
    // While none of the others goes on, everybody's small messages do, and the large ones of the others.
    for (id, client, call) in [
        (10, &*hostile, &small),
        (11, &other, &small),
        (12, &other, &large),
    ] {
        let answer = client.exec(id, call).await;
        assert_ne!(answer["isError"], true, "{answer}");
    }
    assert!(calls.iter().all(|call| !call.is_finished()), "one at a time");
    std::fs::remove_file(&reached).unwrap();
    for call in calls {
        let answer = call.await.unwrap();
        assert_ne!(answer["isError"], true, "{answer}");
    }
}

#[tokio::test]
async fn a_tool_call_joins_the_question_of_a_request_and_may_ask_anew() {
    let server = TestServer::asking().start().await;
    let (agent, operator) = (server.agent(), server.operator());
    let client = connected(&server).await;
    let file = server.scratch().join("lines");
    let first = agent.accepted(append_line(&file)).await;
    let told = client.exec(5, &append_line(&file)).await;
    assert_has!(told, { "structuredContent/joined": true, "structuredContent/runId": first["runId"] });
    let mut waits = append_line(&file);
    waits["approvalWaitMs"] = json!(60_000);
    let sent = tokio::spawn({
        let message = call(6, "exec", &waits);
        // Another session of the same token.
        let other = connected(&server).await;
        async move { other.send(&message).await }
    });
    let records = || operator.read("/v1/audit?action=question.joined");
    eventually("joined", records, |page| page.list("items").len() == 2).await;
    let mut anew = append_line(&file);
    anew["join"] = json!(false);
    let own = client.exec(7, &anew).await;
    let own_run = own["structuredContent"].text("runId");
    assert_ne!(own_run, first.text("runId"), "{own}");
    assert_eq!(own["structuredContent"].get("joined"), None, "{own}");

    operator.decided(first.text("approvalId"), "allow-once").await;
    let done = super::result(&within("the end", sent).await.expect("an answer"));
    assert_has!(done, {
        "structuredContent/joined": true, "structuredContent/status": "completed",
        "structuredContent/runId": first["runId"],
    });
    assert_eq!(lines(&file), ["ran"]);
    assert_eq!(agent.run(own_run).await["status"], "approval-pending");
}
