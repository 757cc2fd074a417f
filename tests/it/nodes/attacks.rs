use std::fs;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{ask, operator_token, pending_id, token};
use crate::support::{
    Members, OperatorClient, OperatorLink, ServerBuilder, TestServer, eventually,
    node::{Device, Speaks, TestNode},
    within,
};

const EVERYTHING: &[&str] = &[
    "operator.admin",
    "operator.approvals",
    "operator.pairing",
    "operator.read",
    "operator.write",
];

fn shared_secret(server: &TestServer) -> String {
    let file = server.state().join("countersign/bridge.token");
    fs::read_to_string(file).expect("bridge.token").trim().to_owned()
}

#[tokio::test]
async fn the_shared_secret_makes_no_operator() {
    let server = TestServer::asking().start().await;
    let secret = shared_secret(&server);
    for client in [
        OperatorClient::new(&secret, EVERYTHING),
        OperatorClient::new(&secret, EVERYTHING).first_generation(),
        OperatorClient::new("", EVERYTHING),
        OperatorClient::new(&format!("cst_{}", "x".repeat(43)), EVERYTHING),
        OperatorClient::new("x", EVERYTHING).with(json!({ "auth": { "password": secret } })),
        OperatorClient::new("x", EVERYTHING)
            .with(json!({ "auth": { "deviceToken": operator_token(&server) } })),
        OperatorClient::new("x", EVERYTHING).with(json!({ "auth": {} })),
    ] {
        let (error, code) = client.refused(&server).await;
        assert_eq!(code, 1008, "{error}");
        let reason = error["details"]["code"].as_str();
        assert!(
            matches!(reason, Some("AUTH_TOKEN_MISMATCH" | "AUTH_TOKEN_MISSING")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_exec_token_gets_no_scope_that_answers_however_it_asks() {
    let server = TestServer::asking().start().await;
    let pending = pending_id(&ask(&server, "/bin/date").await);
    let gateway = server.gateway_token();
    let resolve = json!({ "id": pending, "decision": "allow-once" });
    for first_generation in [false, true] {
        let mut client = OperatorClient::new(&gateway, EVERYTHING).answering();
        if first_generation {
            // It even asks for nothing, which means everything there.
            client = OperatorClient::new(&gateway, &[]).first_generation();
        }
        let mut operator = client.connect(&server).await;
        assert_eq!(operator.scopes(), ["operator.write"]);
        let error = operator.fails("exec.approval.resolve", resolve.clone()).await;
        assert_eq!(error["message"], "missing scope: operator.approvals");
        let code = if first_generation {
            "INVALID_REQUEST"
        } else {
            "FORBIDDEN"
        };
        assert_eq!(error["code"], code);
        for (method, params) in [
            (
                "exec.approvals.set",
                json!({ "file": { "version": 1, "defaults": { "security": "full" } } }),
            ),
            ("device.pair.list", json!({})),
            ("node.pair.approve", json!({ "requestId": "x" })),
            ("node.rename", json!({ "nodeId": "x", "displayName": "y" })),
        ] {
            let error = operator.fails(method, params).await;
            let message = error["message"].as_str().unwrap_or_default();
            assert!(
                message.starts_with("missing scope: operator."),
                "{method}: {error}"
            );
        }
        assert_eq!(
            operator
                .untaken()
                .filter(|name| name.starts_with("exec."))
                .count(),
            0
        );
    }
    assert_eq!(server.operator().pending().await[0]["id"], pending.as_str());
}

#[tokio::test]
async fn each_method_is_open_to_the_scopes_of_the_token_alone() {
    let server = TestServer::asking().start().await;
    let expected: [(&[&str], &[&str]); 4] = [
        (&["read"], &["node.list", "node.describe", "status"]),
        (&["approve"], &["exec.approval."]),
        (
            &["admin"],
            &[
                "device.",
                "node.pair.",
                "node.rename",
                "node.invoke",
                "exec.approvals.",
            ],
        ),
        (
            &["exec"],
            &[
                "node.invoke",
                "exec.approval.request",
                "exec.approval.waitDecision",
                "exec.approval.get",
                "exec.approval.list",
            ],
        ),
    ];
    for (scopes, open) in expected {
        let (secret, _) = token(&server, scopes).await;
        let mut operator = OperatorClient::new(&secret, EVERYTHING).connect(&server).await;
        let methods = operator.hello["features"]["methods"].clone();
        let methods = methods.as_array().expect("methods");
        assert!(methods.len() > 20, "{methods:?}");
        for method in methods.iter().filter_map(Value::as_str) {
            // Parameters of no method: whoever may not call it is told so before they are read.
            let answer = operator.ask(method, json!([])).await;
            let is_closed = answer["error"]["details"]["code"] == "MISSING_SCOPE";
            let is_open = method == "health" || open.iter().any(|prefix| method.starts_with(prefix));
            assert_eq!(is_closed, !is_open, "{scopes:?} {method}: {answer}");
        }
    }
}

#[tokio::test]
async fn nobody_answers_what_they_asked_by_whichever_edge() {
    let server = TestServer::asking().start().await;
    let (secret, api) = token(&server, &["approve", "read"]).await;
    let client = OperatorClient::new(&secret, &["operator.approvals"]).answering();
    let mut asker = client.connect(&server).await;
    let mut again = client.connect(&server).await;
    let id = "30d1f3d7-2e8a-40f2-90b5-26b993a4c9cb";
    let asked = asker
        .send(
            "exec.approval.request",
            json!({ "id": id, "command": "id -u", "twoPhase": true }),
        )
        .await;
    assert_eq!(asker.answer(&asked).await["payload"]["status"], "accepted");
    for operator in [&mut asker, &mut again] {
        let error = operator
            .fails(
                "exec.approval.resolve",
                json!({ "id": id, "decision": "allow-once" }),
            )
            .await;
        assert_eq!(error["details"]["reason"], "APPROVAL_OWN_REQUEST", "{error}");
    }
    api.decide(id, "allow-once").await.problem(403, "own-request");
    let answered = TestServer::finish(
        server
            .invocation(&["approvals", "resolve", id, "allow-once"])
            .env("COUNTERSIGN_TOKEN", &secret),
    )
    .await;
    assert_ne!(answered.code, Some(0), "{}", answered.stdout);
    assert!(answered.stderr.contains("own-request"), "{}", answered.stderr);
    assert_eq!(server.operator().pending().await[0]["id"], id);

    let mut other = OperatorClient::new(&operator_token(&server), &["operator.approvals"])
        .connect(&server)
        .await;
    other
        .call("exec.approval.resolve", json!({ "id": id, "decision": "deny" }))
        .await;
    assert_eq!(asker.answer(&asked).await["payload"]["decision"], "deny");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "files and times of the test itself")]
async fn a_token_that_is_revoked_or_ends_takes_its_connection_along() {
    let server = TestServer::asking().start().await;
    let scopes = json!(["approve", "read"]);
    let (id, api) = server
        .token_with(json!({ "name": "to be revoked", "scopes": scopes }))
        .await;
    let secret = api.token().expect("a secret").to_owned();
    let client = OperatorClient::new(&secret, EVERYTHING).answering();
    let mut idle = client.connect(&server).await;
    let mut busy = client.connect(&server).await;
    busy.call("status", json!({})).await;
    assert_eq!(
        server.operator().delete(&format!("/v1/tokens/{id}")).await.status,
        204
    );
    assert_eq!(idle.closed().await.0, 4001);
    let (error, _) = client.refused(&server).await;
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISMATCH");
    closes_without_an_answer(&mut busy).await;

    let soon = jiff::Timestamp::now().as_millisecond() + 5000;
    let (_, api) = server
        .token_with(json!({ "name": "ends soon", "scopes": scopes, "expiresAtMs": soon }))
        .await;
    let secret = api.token().expect("a secret").to_owned();
    let mut ending = OperatorClient::new(&secret, EVERYTHING).connect(&server).await;
    assert_eq!(ending.closed().await.0, 4001);
}

async fn closes_without_an_answer(operator: &mut OperatorLink) {
    let (code, reason) = operator.closed().await;
    assert_eq!(code, 4001, "{reason}");
}

#[tokio::test]
async fn what_is_asked_in_the_wrong_role_or_not_at_all_is_refused_in_words() {
    let server = TestServer::asking().start().await;
    let mut operator = OperatorClient::new(&operator_token(&server), EVERYTHING)
        .connect(&server)
        .await;
    let error = operator.fails("bogus.method", json!({})).await;
    assert_eq!(
        error,
        json!({ "code": "INVALID_REQUEST", "message": "unknown method: bogus.method" })
    );
    for method in ["skills.bins", "node.event", "node.invoke.result"] {
        let error = operator.fails(method, json!({})).await;
        assert_eq!(error["message"], "unauthorized role: operator", "{method}");
    }
    let error = operator.fails("connect", json!({})).await;
    assert_eq!(error["code"], "INVALID_REQUEST", "{error}");
    let error = operator.fails("node.describe", json!({ "nodeId": "nope" })).await;
    assert_eq!(
        error,
        json!({ "code": "INVALID_REQUEST", "message": "unknown nodeId" })
    );
    let error = operator
        .fails("device.pair.approve", json!({ "requestId": "nope" }))
        .await;
    assert_eq!(
        error,
        json!({ "code": "INVALID_REQUEST", "message": "unknown requestId" })
    );
    let error = operator.fails("node.describe", json!({ "nodeId": 7 })).await;
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("invalid node.describe params")),
        "{error}"
    );
}

#[tokio::test]
async fn a_crowd_of_unanswered_questions_is_cut_short_and_answered_one_by_one() {
    let server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    let mut asker = OperatorClient::new(&server.gateway_token(), &["operator.write"])
        .connect(&server)
        .await;
    let mut ids = Vec::new();
    for number in 0..70 {
        let params = json!({ "command": format!("echo {number}"), "timeoutMs": 60_000 });
        ids.push(asker.send("exec.approval.request", params).await);
    }
    // More than are taken at once: the last ones hear so at once, while the first ones wait.
    let last = asker.answer(ids.last().expect("an id")).await;
    assert_eq!(last["error"]["code"], "UNAVAILABLE", "{last}");
    let pending = eventually(
        "asked",
        || async {
            server.operator().read("/v1/approvals?limit=500").await["items"]
                .as_array()
                .map_or(0, Vec::len)
        },
        |count| *count >= 60,
    )
    .await;
    assert!(pending <= 64, "{pending}");
}

#[tokio::test]
async fn the_runs_of_one_token_leave_room_for_those_of_others_at_a_silent_node() {
    let server = ServerBuilder::new(&json!({ "host": "node", "security": "full", "ask": "off" }))
        .start()
        .await;
    let device = Device::new(&server, Speaks::Present).declaring(&["system.run", "system.execApprovals.get"]);
    let document = json!({
        "path": "/x", "exists": true, "hash": "a".repeat(64),
        "file": { "version": 1, "defaults": { "security": "full", "ask": "off" } },
    });
    // It says what its policy is, and nothing of any run.
    let node = TestNode::join(&server, device, move |call| {
        (call["command"] == "system.execApprovals.get").then(|| Ok(document.clone()))
    })
    .await;
    let runs = || {
        let mut calls = node.calls();
        calls.retain(|call| call["command"] == "system.run");
        calls
    };
    let sent = async |count: usize| {
        let all = || std::future::ready(runs());
        eventually("sent", all, |runs: &Vec<Value>| runs.len() >= count).await
    };
    let body = json!({ "argv": ["/usr/bin/id"], "background": true });
    let agent = server.agent();
    // At once, since each answer waits until the run counts as started.
    for begun in join_all((0..128).map(|_| agent.exec(body.clone()))).await {
        begun.expect(202);
    }
    let all = sent(128).await;
    // Either its document cannot be asked for, or the run cannot be sent: nothing runs.
    let is_refused = async || {
        let answer = agent.exec(body.clone()).await;
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert!(
            text.contains("too many calls wait for the node") && answer.status != 202,
            "{} {text}",
            answer.status
        );
    };
    is_refused().await;
    let (_, other) = token(&server, &["exec"]).await;
    other.accepted(body.clone()).await;
    sent(129).await;
    is_refused().await;
    // A run that has ended leaves its place to the next one.
    let result = json!({
        "exitCode": 0, "timedOut": false, "success": true, "stdout": "0\n", "stderr": "", "error": null,
    });
    node.answer(all[0].text("id"), Ok(result));
    let begins = || async { agent.exec(body.clone()).await.status };
    eventually("begun", begins, |status| *status == 202).await;
    assert_eq!(sent(130).await.len(), 130);
}

async fn asker(server: &TestServer) -> OperatorLink {
    OperatorClient::new(&server.gateway_token(), &["operator.write"])
        .connect(server)
        .await
}

/// A question whose first answer comes at once.
fn two_phase(members: &Value) -> Value {
    let mut params = json!({ "command": "id -u", "timeoutMs": 60_000, "twoPhase": true });
    let all = params.as_object_mut().expect("members");
    for (name, value) in members.as_object().expect("members") {
        all.insert(name.clone(), value.clone());
    }
    params
}

#[tokio::test]
async fn a_question_is_never_larger_than_what_the_other_edges_take() {
    let server = TestServer::asking()
        .toml("[limits]\nbody_bytes = 65536\n")
        .start()
        .await;
    let mut asker = asker(&server).await;
    let long = format!("/{}", "a".repeat(4096));
    let large = "x".repeat(2000);
    for (members, said) in [
        (json!({ "cwd": long }), "/cwd"),
        (json!({ "resolvedPath": long }), "/resolvedPath"),
        (json!({ "nodeId": long }), "/nodeId"),
        (json!({ "commandArgv": vec![&large; 40] }), "body_bytes"),
        (json!({ "env": { "NAME": "x".repeat(70_000) } }), "body_bytes"),
    ] {
        let error = asker.fails("exec.approval.request", two_phase(&members)).await;
        assert_eq!(error["code"], "INVALID_REQUEST");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains(said), "{said}: {message}");
    }
    assert_eq!(server.operator().pending().await.len(), 0);
    let longest = format!("/{}", "a".repeat(4095));
    let params = two_phase(&json!({ "cwd": longest, "commandArgv": vec![&large; 30] }));
    let asked = asker.send("exec.approval.request", params).await;
    assert_eq!(asker.answer(&asked).await["payload"]["status"], "accepted");
}

#[tokio::test]
async fn a_list_of_large_questions_ends_no_approvers_connection_and_hides_no_small_one() {
    let server = TestServer::asking()
        .toml("[bridge]\nmax_buffer_bytes = 65536\n")
        .start()
        .await;
    let mut asker = asker(&server).await;
    let mut smallest = Value::Null;
    for number in 0..30 {
        let command = if number == 0 {
            "id -u".to_owned()
        } else {
            "echo ".repeat(800)
        };
        let params = two_phase(&json!({ "command": command }));
        let asked = asker.send("exec.approval.request", params).await;
        let accepted = asker.answer(&asked).await;
        if number == 0 {
            smallest = accepted["payload"]["id"].clone();
        }
    }
    let mut approver = OperatorClient::new(&operator_token(&server), &["operator.approvals"])
        .connect(&server)
        .await;
    for _ in 0..2 {
        let listed = approver.call("exec.approval.list", json!({})).await;
        let listed = listed.as_array().expect("a list");
        assert!((2..30).contains(&listed.len()), "{}", listed.len());
        assert!(listed.iter().any(|one| one["id"] == smallest));
    }
}

#[tokio::test]
async fn one_token_fills_no_list_that_everybody_reads() {
    let server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    let mut links = Vec::new();
    let mut first = Value::Null;
    for _ in 0..4 {
        let mut link = asker(&server).await;
        for _ in 0..64 {
            let asked = link.send("exec.approval.request", two_phase(&json!({}))).await;
            let accepted = link.answer(&asked).await;
            assert_eq!(accepted["payload"]["status"], "accepted", "{accepted}");
            if first.is_null() {
                first = accepted["payload"]["id"].clone();
            }
        }
        links.push(link);
    }
    // Nor does it help to leave and to come back: the questions wait on.
    links.truncate(2);
    let mut more = asker(&server).await;
    let error = more.fails("exec.approval.request", two_phase(&json!({}))).await;
    assert_eq!(error["code"], "UNAVAILABLE", "{error}");
    assert_eq!(error["retryable"], true, "{error}");
    let (secret, _) = token(&server, &["exec"]).await;
    let mut other = OperatorClient::new(&secret, &["operator.write"])
        .connect(&server)
        .await;
    let asked = other.send("exec.approval.request", two_phase(&json!({}))).await;
    assert_eq!(other.answer(&asked).await["payload"]["status"], "accepted");
    // An answer makes room.
    let id = first.as_str().expect("an id");
    server.operator().decided(id, "deny").await;
    within("a place", async {
        loop {
            let answer = more.ask("exec.approval.request", two_phase(&json!({}))).await;
            if answer["ok"] == true {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_id_is_taken_by_one_question_however_many_come_at_once() {
    let server = TestServer::asking().start().await;
    let mut asker = asker(&server).await;
    let params = two_phase(&json!({ "id": "6a2f4f0e-2b1b-4f6e-9a55-1f2d3c4b5a69" }));
    let mut asked = Vec::new();
    for _ in 0..32 {
        asked.push(asker.send("exec.approval.request", params.clone()).await);
    }
    let mut accepted = 0;
    for id in &asked {
        let answer = asker.answer(id).await;
        if answer["ok"] == true {
            accepted += 1;
        } else {
            assert_has!(answer, { "error/message": "approval id already pending" });
        }
    }
    assert_eq!(accepted, 1);
    assert!(!server.log().contains("UNIQUE"), "{}", server.log());
}

#[tokio::test]
async fn a_question_names_no_session_of_another_agent() {
    let server = TestServer::asking().start().await;
    let mut asker = asker(&server).await;
    let params = two_phase(&json!({ "agentId": "build", "sessionKey": "agent:main:main" }));
    let error = asker.fails("exec.approval.request", params).await;
    assert_eq!(error["code"], "INVALID_REQUEST", "{error}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("belongs to another agent"), "{message}");
    let params = two_phase(&json!({ "sessionKey": "agent:build:main" }));
    let asked = asker.send("exec.approval.request", params).await;
    assert_eq!(asker.answer(&asked).await["payload"]["status"], "accepted");
    assert_eq!(server.operator().pending().await[0]["agentId"], "build");
}

#[tokio::test]
async fn a_chosen_id_is_a_uuid() {
    let server = TestServer::asking().start().await;
    let mut asker = asker(&server).await;
    for id in [
        "a",
        "cd660e59",
        "approval-1",
        &"0".repeat(32),
        "6A2F4F0E-2B1B-4F6E-9A55-1F2D3C4B5A69",
    ] {
        let error = asker
            .fails("exec.approval.request", two_phase(&json!({ "id": id })))
            .await;
        assert_eq!(error["code"], "INVALID_REQUEST", "{id}: {error}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains("/id"), "{message}");
    }
}
