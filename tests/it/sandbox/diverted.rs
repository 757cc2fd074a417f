//! `tools.exec.onMiss`: a miss runs in the sandbox instead of being asked about.

use countersign_sys::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use super::{BUILTIN, possible};
use crate::{
    explain::ask_to_explain,
    support::{Members, ServerBuilder, TestServer},
};

fn config(exec: &Value, sandbox: &Value) -> Value {
    let mut all =
        json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "onMiss": "sandbox" });
    all.as_object_mut()
        .unwrap()
        .extend(exec.as_object().cloned().unwrap_or_default());
    json!({ "tools": { "exec": all }, "agents": { "defaults": { "sandbox": sandbox } } })
}

/// A server that has people to ask, and a sandbox.
fn server(exec: &Value, sandbox: &Value) -> ServerBuilder {
    TestServer::asking()
        .config(&config(exec, sandbox))
        .agents(&json!({ "main": {
            "allowlist": [{ "pattern": "/usr/bin/echo" }], "denylist": [{ "pattern": "/usr/bin/rm" }],
        } }))
        .toml(BUILTIN)
}

#[tokio::test]
async fn a_miss_runs_confined_and_is_reported_as_such() {
    let server = server(&json!({}), &json!({})).start().await;
    or_skip!(possible(&server).await);
    let mut events = server.operator().events("", None).await;
    let body = json!({ "command": "pwd; id -u" });
    let explained = ask_to_explain(&server.agent(), &body).await.expect(200);
    assert_has!(explained, { "outcome": "run", "diverted": true, "binding": "text" });
    assert_has!(explained["host"], { "value": "sandbox", "source": "tools.exec.onMiss" });
    assert_eq!(explained["analysis"]["verdict"], "ask");
    let answer = server.ran(body).await;
    assert_has!(answer, {
        "host": "sandbox", "status": "completed", "diverted": true, "cwd": "/workspace", "warnings": [],
    });
    let run = server.agent().run(answer.text("runId")).await;
    assert_has!(run, { "host": "sandbox", "diverted": true, "isolation": "sandbox", "approvalId": null });
    let started = events.next_of("exec.started").await;
    assert_has!(started.data, { "host": "sandbox", "diverted": true });
    assert!(server.operator().pending().await.is_empty());
}

#[tokio::test]
async fn what_is_covered_or_denied_or_always_asked_stays_what_it_is() {
    let server = server(&json!({}), &json!({})).start().await;
    or_skip!(possible(&server).await);
    let agent = server.agent();
    let covered = agent.ran(json!({ "command": "echo hi" })).await;
    assert_has!(covered, { "host": "gateway", "diverted": false });
    // The deny rules come first, in the sandbox too: nobody asks for it there.
    let denied = agent.denied(json!({ "command": "id; rm -rf x" })).await;
    assert_eq!(denied["reason"], "denylist");
    for body in [
        json!({ "command": "id", "ask": "always" }),
        // With deny rules there, what is not understood needs a person.
        json!({ "command": "id $(id)" }),
    ] {
        let asked = agent.accepted(body.clone()).await;
        assert_has!(asked, { "status": "approval-pending", "host": "gateway", "warnings": [] }, "{body}");
        let explained = ask_to_explain(&agent, &body).await.expect(200);
        assert_has!(explained, { "outcome": "ask", "diverted": false });
    }
    let off = agent.exec(json!({ "command": "id", "ask": "off" })).await;
    assert_eq!(
        off.status,
        200,
        "a call cannot loosen the asking: {:?}",
        off.json()
    );
}

#[tokio::test]
async fn a_denied_miss_is_not_diverted() {
    let server = server(&json!({ "ask": "off" }), &json!({})).start().await;
    let denied = server.denied(json!({ "command": "id" })).await;
    assert_eq!(denied["reason"], "allowlist-miss");
}

/// A miss is asked about, and the warning says why.
async fn is_asked(server: &TestServer, body: Value, why: &str) {
    let explained = ask_to_explain(&server.agent(), &body).await.expect(200);
    assert_has!(explained, { "outcome": "ask", "diverted": false });
    assert!(explained.text("notDiverted").contains(why), "{explained}");
    let asked = server.accepted(body).await;
    assert_has!(asked, { "status": "approval-pending", "host": "gateway" });
    let warning = &asked["warnings"][0];
    assert_eq!(warning["code"], "not-diverted", "{asked}");
    assert!(warning.text("message").contains(why), "{asked}");
}

#[tokio::test]
async fn a_directory_that_the_sandbox_does_not_see_is_asked_about() {
    for (access, is_seen) in [("none", false), ("ro", true), ("rw", true)] {
        let mut server = server(&json!({}), &json!({})).prepare();
        let workspace = server.scratch().dir("ws");
        let elsewhere = server.scratch().dir("elsewhere");
        std::fs::create_dir(workspace.join("sub")).unwrap();
        let mut settings = config(&json!({}), &json!({ "workspaceAccess": access }));
        settings["agents"]["defaults"]["workspace"] = json!(workspace);
        server.edit_config(&settings.to_string());
        server.start().await;
        or_skip!(possible(&server).await);
        let inside = json!({ "command": "/bin/pwd", "workdir": workspace.join("sub") });
        if is_seen {
            let answer = server.ran(inside).await;
            let cwd = if access == "ro" {
                "/agent/sub"
            } else {
                "/workspace/sub"
            };
            assert_has!(answer, { "diverted": true, "stdout": format!("{cwd}\n"), "cwd": cwd });
        } else {
            is_asked(&server, inside, "does not see the working directory").await;
        }
        let other = json!({ "command": "/bin/pwd", "workdir": elsewhere });
        is_asked(&server, other, "does not see the working directory").await;
    }
}

#[tokio::test]
async fn where_no_sandbox_is_active_a_miss_is_asked_about() {
    let off = TestServer::asking()
        .config(&config(&json!({}), &json!({})))
        .toml("[sandbox]\nbackend = \"off\"\n")
        .start()
        .await;
    is_asked(&off, json!({ "command": "id" }), "[sandbox] backend").await;
    let left_out = server(&json!({}), &json!({ "mode": "non-main" })).start().await;
    or_skip!(possible(&server(&json!({}), &json!({})).start().await).await);
    is_asked(&left_out, json!({ "command": "id" }), "non-main").await;
    let other = json!({ "command": "id", "sessionKey": "agent:main:other" });
    assert_eq!(left_out.agent().ran(other).await["diverted"], true);
}

#[tokio::test]
async fn an_agent_can_have_it_or_not() {
    let mut settings = config(&json!({}), &json!({}));
    settings["agents"]["list"] = json!([{ "id": "asks", "tools": { "exec": { "onMiss": "ask" } } }]);
    let server = TestServer::asking().config(&settings).toml(BUILTIN).start().await;
    or_skip!(possible(&server).await);
    let agent = server.agent();
    assert_eq!(agent.ran(json!({ "command": "id" })).await["diverted"], true);
    let asked = agent
        .accepted(json!({ "command": "id", "agentId": "asks" }))
        .await;
    assert_has!(asked, { "status": "approval-pending", "warnings": [] });
    let policy = server.operator().read("/v1/policy/effective?agentId=asks").await;
    assert_eq!(policy["onMiss"]["value"], "ask");
}

#[tokio::test]
async fn a_muted_agent_still_runs_in_the_sandbox_what_nobody_is_asked_about() {
    let server = server(&json!({}), &json!({})).start().await;
    or_skip!(possible(&server).await);
    let until = SystemClock.now().get() + 3_600_000;
    let operator = server.operator();
    let mute = operator.request(reqwest::Method::PUT, "/v1/agents/main/mute");
    operator
        .send(mute.json(&json!({ "untilMs": until })))
        .await
        .expect(200);
    let ran = server.ran(json!({ "command": "pwd; id -u" })).await;
    assert_has!(ran, { "host": "sandbox", "status": "completed", "diverted": true });
    // The twin: what is asked about everywhere is denied.
    let asked = server
        .agent()
        .exec(json!({ "command": "pwd", "ask": "always" }))
        .await;
    assert_eq!(asked.problem(403, "exec-denied")["reason"], "agent-muted");
}
