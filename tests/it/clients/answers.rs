//! What answers say to a script: who calls, where a person answers, who said no, and what is wrong in plain words.

use reqwest::{Method, header::ACCEPT};
use serde_json::{Value, json};

use crate::support::{Answer, Members, TestServer};

#[tokio::test]
async fn a_token_is_told_who_it_is() {
    let server = TestServer::full().start().await;
    let expires = server.operator().read("/v1/tokens").await["items"][0]["createdAtMs"]
        .as_i64()
        .expect("a time")
        + 3_600_000;
    let request = json!({ "name": "ci", "scopes": ["exec"], "agents": ["build"], "expiresAtMs": expires });
    let (id, api) = server.token_with(request).await;
    assert_eq!(
        api.read("/v1/me").await,
        json!({
            "kind": "token", "tokenId": id, "name": "ci", "owner": "operator", "scopes": ["exec"], "agents": ["build"],
            "expiresAtMs": expires,
        })
    );
    let operator = server.operator().read("/v1/me").await;
    assert_has!(operator, { "name": "operator", "scopes": ["read", "approve", "admin"], "agents": null, "expiresAtMs": null });
    server
        .anonymous()
        .get("/v1/me")
        .await
        .problem(401, "unauthorized");
}

#[tokio::test]
async fn the_catalogue_of_errors_is_data() {
    let server = TestServer::full().start().await;
    let catalogue = server.anonymous().read("/v1/errors.json").await;
    let of = |code: &str| {
        let found = catalogue.list("items").iter().find(|error| error["code"] == code);
        found.unwrap_or_else(|| panic!("no {code}")).clone()
    };
    let problem = server.agent().post("/v1/exec", json!({})).await.expect(400);
    let error = of(problem.text("code"));
    for member in ["status", "title", "retryable"] {
        assert_eq!(error[member], problem[member], "{member}");
    }
    assert_eq!(
        of("exec-denied"),
        json!({
            "code": "exec-denied", "status": 403, "title": "The command was denied", "retryable": false,
            "members": ["reason", "decidedBy", "userReason", "agentMessage"],
        })
    );
}

#[track_caller]
fn links(answer: &Answer) -> Vec<String> {
    let links = answer.headers.get_all("link").iter();
    links
        .map(|link| link.to_str().expect("text").to_owned())
        .collect()
}

#[tokio::test]
async fn an_answer_that_is_not_the_end_says_where_to_go_on() {
    let server = TestServer::asking()
        .allowlist(&json!([{ "pattern": "/bin/cat", "input": true }]))
        .start()
        .await;
    let answer = server.agent().exec(json!({ "argv": ["/bin/date"] })).await;
    let pending = answer.expect(202);
    let base = format!("http://{}", server.address());
    let approval = format!("{base}/a/{}", pending.text("approvalId"));
    let status = format!("{base}/v1/runs/{}", pending.text("runId"));
    assert_has!(pending, { "approvalUrl": approval, "statusUrl": status });
    assert_eq!(
        links(&answer),
        [
            format!("<{approval}>; rel=\"approval\""),
            format!("<{status}>; rel=\"status\"")
        ]
    );
    assert_eq!(answer.header("retry-after"), Some("1"));
    // A patch that waits says the same.
    let patch = "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch\n";
    let workdir = server.scratch().dir("work");
    let patch = json!({ "input": patch, "workdir": workdir });
    let patch = server.agent().post("/v1/apply-patch", patch).await;
    if patch.status == 202 {
        assert_eq!(links(&patch).len(), 2, "{}", patch.text());
    }
    let call = json!({ "argv": ["/bin/cat"], "background": true });
    let answer = server.agent().exec(call).await;
    let running = answer.expect(202);
    let status = format!("{base}/v1/runs/{}", running.text("runId"));
    assert_has!(running, { "status": "running", "statusUrl": status, "approvalUrl": null });
    assert_eq!(links(&answer), [format!("<{status}>; rel=\"status\"")]);
    server.agent().cancel(running.text("runId")).await;
}

#[tokio::test]
async fn the_event_of_a_question_has_its_link() {
    let server = TestServer::asking()
        .toml("[http]\npublic_url = \"https://countersign.example\"\n")
        .start()
        .await;
    let mut stream = server
        .operator()
        .events("?types=exec.approval.&approver=false", None)
        .await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let link = format!("https://countersign.example/a/{}", pending.text("approvalId"));
    assert_eq!(pending["approvalUrl"], link);
    let event = stream.next_of("exec.approval.requested").await;
    assert_eq!(event.data["approvalUrl"], link);
    let page = server.operator().read("/v1/events?types=exec.").await;
    for event in page.list("items") {
        let expected = if event["type"] == "exec.approval.requested" {
            json!(link)
        } else {
            Value::Null
        };
        assert_eq!(event["approvalUrl"], expected, "{event}");
    }
}

#[tokio::test]
async fn a_denial_says_who_denied_and_what_they_said() {
    let server = TestServer::asking().start().await;
    let deny = json!({ "decision": "deny", "reason": "use staging\nplease" });
    let call = json!({ "argv": ["/bin/date"] });
    let pending = server.agent().exec_with_key("k", call.clone()).await.expect(202);
    let path = format!("/v1/approvals/{}/decision", pending.text("approvalId"));
    server.operator().posted(&path, deny).await;
    let said = json!({
        "decidedBy": { "kind": "person", "name": "operator" },
        "userReason": "use staging\nplease",
        "agentMessage": "The user denied the command and said: \u{201c}use staging please\u{201d}",
    });
    let members = ["decidedBy", "userReason", "agentMessage"];
    let problem = server
        .agent()
        .exec_with_key("k", call)
        .await
        .problem(403, "exec-denied");
    let run = server.agent().run(pending.text("runId")).await;
    for told in [&problem, &run] {
        assert_eq!(crate::support::only(told, &members), said, "{told}");
    }
}

#[tokio::test]
async fn who_decided_is_the_policy_the_fallback_or_a_person() {
    let server = TestServer::asking_approvers_that_are_there()
        .agents(&json!({ "main": { "allowlist": [{ "pattern": "/bin/true" }] } }))
        .start()
        .await;
    let ran = server.ran(json!({ "argv": ["/bin/true"] })).await;
    assert_has!(ran, {
        "decidedBy": { "kind": "policy" }, "userReason": null, "agentMessage": "The command ran and exited with code 0.",
    });
    let nobody = server.denied(json!({ "argv": ["/bin/date"] })).await;
    assert_has!(nobody, { "reason": "no-approver", "decidedBy": { "kind": "fallback" } });
    nobody.says("agentMessage", "Nobody could be asked");
    server
        .operator()
        .made("/v1/agents/main/denylist", json!({ "pattern": "/bin/date" }))
        .await;
    let denied = server.denied(json!({ "argv": ["/bin/date"] })).await;
    assert_has!(denied, { "reason": "denylist", "decidedBy": { "kind": "policy" } });
    denied.says("agentMessage", "Policy forbids the command");
}

#[tokio::test]
async fn the_person_who_allowed_it_is_named() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let waiting = server.agent().run(pending.text("runId")).await;
    assert_has!(waiting, { "decidedBy": null, "agentMessage": null });
    let run = server.answered(&pending, "allow-once").await;
    assert_has!(run, {
        "decidedBy": { "kind": "person", "name": "operator" }, "agentMessage": "The command ran and exited with code 0.",
    });
}

#[tokio::test]
async fn several_commands_are_explained_at_once() {
    let server = TestServer::asking().start().await;
    let commands = json!([
        { "argv": ["/bin/date"] },
        { "command": "date", "agentId": "other" },
        { "command": " " },
    ]);
    let answer = server
        .agent()
        .posted("/v1/exec/explanations", json!({ "commands": commands }))
        .await;
    let results = answer.list("results");
    assert_eq!(results.len(), 3);
    let alone = server.agent().explain(json!({ "argv": ["/bin/date"] })).await;
    assert_eq!(results[0], json!({ "status": 200, "explanation": alone }));
    assert_eq!(results[1]["explanation"]["outcome"], "ask");
    assert_has!(results[2], { "status": 400, "problem/code": "blank-command", "explanation": null });
    let most = json!({ "commands": vec![json!({ "argv": ["/bin/date"] }); 101] });
    for wrong in [json!({ "commands": [] }), most] {
        let problem = server.agent().post("/v1/exec/explanations", wrong).await;
        assert_has!(problem.problem(400, "invalid-request"), { "fields/0/path": "commands" });
    }
    let wrong = json!({ "commands": [{ "argv": ["/bin/date"] }, { "comand": "date" }] });
    let problem = server.agent().post("/v1/exec/explanations", wrong).await;
    let problem = problem.problem(400, "invalid-request");
    assert_has!(problem, { "fields/0/path": "commands[1].comand", "fields/0/message": "unknown member; did you mean command?" });
    let wrong = json!({ "commands": [{ "argv": ["/bin/date"] }, { "command": "", "argv": ["x"] }] });
    let problem = server.agent().post("/v1/exec/explanations", wrong).await;
    assert_has!(problem.problem(400, "invalid-request"), { "fields/0/path": "commands[1].argv" });
}

#[tokio::test]
async fn explanations_count_against_the_rate() {
    let server = TestServer::asking()
        .toml("[limits]\nrequests_per_second = 1\nrequest_burst = 3\n")
        .start()
        .await;
    let commands = json!({ "commands": vec![json!({ "argv": ["/bin/date"] }); 20] });
    let answer = server.agent().posted("/v1/exec/explanations", commands).await;
    let results = answer.list("results");
    assert_eq!(results[0]["status"], 200);
    assert_has!(results[19], { "status": 429, "problem/code": "rate-limited" });
}

#[tokio::test]
async fn what_is_wrong_is_said_in_plain_words() {
    let server = TestServer::asking().start().await;
    for (body, message) in [
        (
            json!({ "command": "ls", "approvalWaitMs": "60s" }),
            "approvalWaitMs: expected a whole number of milliseconds, 0 to 600000, not the text \"60s\"",
        ),
        (
            json!({ "command": ["ls"] }),
            "command: expected a text, not a list",
        ),
        (
            json!({ "comand": "ls" }),
            "comand: unknown member; did you mean command?",
        ),
        (
            json!({ "command": "ls", "background": 1 }),
            "background: expected true or false, not 1",
        ),
    ] {
        let problem = server.agent().exec(body).await.problem(400, "invalid-request");
        assert_eq!(problem["detail"], message);
    }
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let decision = server.operator().decide(pending.text("approvalId"), "yes").await;
    let problem = decision.problem(400, "invalid-request");
    assert_eq!(
        problem["detail"],
        "decision: expected allow-once, allow-always or deny, not yes"
    );
    let operator = server.operator();
    for (path, message) in [
        (
            "/v1/runs?since=yesterday",
            "since: expected Unix milliseconds or a time such as 2026-11-23T00:00:00Z",
        ),
        (
            "/v1/runs?agent=main",
            "agent: unknown query parameter; did you mean agentId?",
        ),
    ] {
        let problem = operator.get(path).await.problem(400, "invalid-request");
        assert_eq!(problem["detail"], message);
    }
    let problem = operator.get("/v1/approval").await.problem(404, "not-found");
    assert_eq!(
        problem["detail"],
        "there is no such resource; did you mean /v1/approvals?"
    );
    let problem = operator
        .get("/v1/runs/f476bff0/outputs")
        .await
        .problem(404, "not-found");
    problem.says("detail", "did you mean /v1/runs/f476bff0/output?");
    let problem = operator
        .post("/v1/runs", json!({}))
        .await
        .problem(405, "method-not-allowed");
    assert_eq!(problem["detail"], "this resource takes GET, HEAD");
    operator
        .read("/v1/runs?since=2026-11-23T00:00:00Z&until=2999-01-01T00:00:00%2B01:00")
        .await;
}

#[tokio::test]
async fn a_browser_at_an_unknown_address_gets_a_page() {
    let server = TestServer::full().start().await;
    let anonymous = server.anonymous();
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for path in ["/nope", "/a/No", "/v2/runs"] {
        let page = anonymous.request(Method::GET, path).header(ACCEPT, browser);
        let page = anonymous.send(page).await;
        assert_eq!(
            (page.status, page.header("content-type")),
            (404, Some("text/html; charset=utf-8")),
            "{path}"
        );
        assert!(page.text().contains("There is no such page"), "{path}");
        assert!(page.header("content-security-policy").is_some(), "{path}");
        anonymous.get(path).await.problem(404, "not-found");
    }
    // What the API has is told to those with a token alone, whatever they accept.
    let api = anonymous.request(Method::GET, "/v1/nope").header(ACCEPT, browser);
    anonymous.send(api).await.problem(401, "unauthorized");
}
