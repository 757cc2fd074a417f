//! The emergency stop: nothing starts at any edge, whatever the disk says, until an admin lets everything go on.

use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    ipc::support::Asker,
    nodes,
    support::{
        Answer, Api, Finished, Members, OperatorClient, Scratch, ServerBuilder, SmallDisk, TestServer,
        assert_says, eventually, lines,
    },
};

const WHY: &str = "keys leaked";

async fn stop(api: &Api) -> Value {
    api.posted("/v1/stop", json!({ "reason": WHY })).await
}

async fn stop_and_kill(api: &Api) -> Value {
    let body = json!({ "reason": WHY, "kill": true });
    api.posted("/v1/stop", body).await
}

async fn resume(api: &Api) -> Answer {
    api.post("/v1/resume", json!({ "reason": "all clear" })).await
}

/// The refusal of a call while everything is stopped.
#[track_caller]
fn refused(answer: &Answer) -> Value {
    let problem = answer.problem(403, "stopped");
    assert_eq!(problem["reason"], "stopped", "{problem}");
    problem.says("agentMessage", "stopped everything");
    let detail = problem.text("detail");
    assert!(detail.contains("by operator: keys leaked"), "{detail}");
    problem
}

async fn ready(server: &TestServer) -> Value {
    server.anonymous().read("/readyz").await
}

/// A server whose agents may do everything, and a place where what ran leaves its mark.
struct World {
    server: TestServer,
    marks: PathBuf,
    node: nodes::ScriptedNode,
    session: String,
}

impl World {
    async fn new() -> Self {
        let exec = json!({ "host": "gateway", "security": "full", "ask": "off" });
        let server = TestServer::full()
            .config(&json!({
                "tools": { "exec": exec },
                "agents": { "list": [{ "id": "far", "tools": { "exec": { "host": "node" } } }] },
            }))
            .with_socket()
            .start()
            .await;
        let marks = server.scratch().join("marks");
        let node = nodes::paired(&server, "box", &["system.run", "system.execApprovals.set"]).await;
        let told = marks.clone();
        node.answers(move |command, _params| {
            if command == "system.execApprovals.set" || command == "system.run" {
                mark(&told, command);
            }
            Ok(json!({ "success": true, "exitCode": 0, "timedOut": false, "stdout": "", "stderr": "", "error": null }))
        });
        let read = format!("while read line; do echo $line >> {}; done", marks.display());
        let body = json!({ "command": read, "background": true, "pty": true });
        let session = server.accepted(body).await.text("sessionId").to_owned();
        Self {
            server,
            marks,
            node,
            session,
        }
    }

    /// A command that leaves its mark.
    fn command(&self) -> Value {
        json!({ "argv": ["/bin/sh", "-c", format!("echo ran >> {}", self.marks.display())] })
    }

    fn marks(&self) -> usize {
        lines(&self.marks).len()
    }

    async fn process(&self, mut call: Value) -> String {
        call["sessionId"] = json!(self.session);
        self.server.agent().post("/v1/process", call).await.text()
    }

    async fn mcp(&self, tool: &str, arguments: Value) -> String {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments } });
        let agent = self.server.agent();
        let request = agent
            .request(Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2025-11-25")
            .json(&call);
        agent.send(request).await.text()
    }

    async fn bridge(&self, method: &str, params: Value) -> String {
        let token = if params["command"] == "system.execApprovals.set" {
            self.server.operator_token()
        } else {
            self.server.gateway_token()
        };
        let scopes: &[&str] = if params["command"] == "system.execApprovals.set" {
            &["operator.admin"]
        } else {
            &["operator.write"]
        };
        let mut link = OperatorClient::new(&token, scopes).connect(&self.server).await;
        link.ask(method, params).await.to_string()
    }

    async fn hook(&self) -> Finished {
        let input = json!({
            "session_id": "8f1c", "transcript_path": "/x", "cwd": self.server.scratch().path(),
            "permission_mode": "default", "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_input": { "command": format!("echo ran >> {}", self.marks.display()) }, "tool_use_id": "t",
        });
        let line = self.server.invocation(&["hook", "claude-code"]);
        TestServer::finish(line.input(input.to_string())).await
    }

    /// Does what comes in by a edge. Returns what it was answered.
    async fn enter(&self, edge: Edge) -> String {
        let agent = self.server.agent();
        let invoke = |command: &str, params: Value| json!({ "nodeId": self.node.id(), "command": command, "params": params, "timeoutMs": 20_000 });
        match edge {
            Edge::Exec => agent.exec(self.command()).await.text(),
            Edge::ExecBackground => {
                let mut body = self.command();
                body["background"] = json!(true);
                agent.exec(body).await.text()
            }
            Edge::ExecWithKey => {
                let key = format!("k-{}", self.marks());
                agent.exec_with_key(&key, self.command()).await.text()
            }
            Edge::Patch => {
                let workspace = self.server.state().join("workspace");
                std::fs::create_dir_all(&workspace).expect("the workspace");
                let path = workspace.join("patched");
                let input = format!(
                    "*** Begin Patch\n*** Add File: {}\n+ran\n*** End Patch\n",
                    path.display()
                );
                let text = agent
                    .post("/v1/apply-patch", json!({ "input": input }))
                    .await
                    .text();
                if path.exists() {
                    std::fs::remove_file(path).expect("the patched file");
                    mark(&self.marks, "patched");
                }
                text
            }
            Edge::ToolsInvoke => {
                let call = json!({ "tool": "exec", "args": self.command() });
                agent.post("/tools/invoke", call).await.text()
            }
            Edge::ToolsInvokeProcess => {
                let args = json!({ "action": "write", "sessionId": self.session, "data": "typed\n" });
                let call = json!({ "tool": "process", "args": args });
                agent.post("/tools/invoke", call).await.text()
            }
            Edge::McpExec => self.mcp("exec", self.command()).await,
            Edge::McpProcess => {
                let arguments = json!({ "action": "write", "sessionId": self.session, "data": "typed\n" });
                self.mcp("process", arguments).await
            }
            Edge::Write => {
                self.process(json!({ "action": "write", "data": "typed\n" }))
                    .await
            }
            Edge::SendKeys => {
                let keys = json!({ "action": "send-keys", "literal": "typed", "keys": ["Enter"] });
                self.process(keys).await
            }
            Edge::Paste => {
                let paste = json!({ "action": "paste", "text": "typed\n", "bracketed": false });
                self.process(paste).await
            }
            Edge::Submit => self.process(json!({ "action": "submit" })).await,
            Edge::Hook => {
                let done = self.hook().await;
                let said: Value = serde_json::from_str(&done.stdout).expect("a decision");
                if said["hookSpecificOutput"]["permissionDecision"] == "allow" {
                    mark(&self.marks, "replaced");
                }
                done.stdout
            }
            Edge::SocketExec => {
                let reply = Asker::of(&self.server)
                    .exec(&json!({ "command": self.command()["argv"], "cwd": "/tmp" }))
                    .await;
                reply.to_string()
            }
            Edge::BridgeRun => {
                let params = json!({ "command": ["/bin/true"], "cwd": "/tmp", "agentId": "far" });
                self.bridge("node.invoke", invoke("system.run", params)).await
            }
            Edge::BridgeInvoke => {
                self.bridge(
                    "node.invoke",
                    invoke("system.execApprovals.set", json!({ "file": {} })),
                )
                .await
            }
        }
    }
}

fn mark(marks: &Path, what: &str) {
    use std::io::Write as _;
    let mut file = std::fs::File::options()
        .create(true)
        .append(true)
        .open(marks)
        .expect("the marks");
    writeln!(file, "{what}").expect("a mark");
}

/// Every edge through which something starts or is written to what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    Exec,
    ExecBackground,
    ExecWithKey,
    Patch,
    ToolsInvoke,
    ToolsInvokeProcess,
    McpExec,
    McpProcess,
    Write,
    SendKeys,
    Paste,
    Submit,
    Hook,
    SocketExec,
    BridgeRun,
    BridgeInvoke,
}

impl Edge {
    const ALL: [Self; 16] = [
        Self::Exec,
        Self::ExecBackground,
        Self::ExecWithKey,
        Self::Patch,
        Self::ToolsInvoke,
        Self::ToolsInvokeProcess,
        Self::McpExec,
        Self::McpProcess,
        Self::Write,
        Self::SendKeys,
        Self::Paste,
        Self::Submit,
        Self::Hook,
        Self::SocketExec,
        Self::BridgeRun,
        Self::BridgeInvoke,
    ];

    /// The word of the refusal, as far as the peer of that edge knows one.
    const fn refusal(self) -> &'static str {
        match self {
            Self::SocketExec => "user-denied",
            Self::BridgeRun | Self::BridgeInvoke => "SYSTEM_RUN_DENIED",
            Self::Exec
            | Self::ExecBackground
            | Self::ExecWithKey
            | Self::Patch
            | Self::ToolsInvoke
            | Self::ToolsInvokeProcess
            | Self::McpExec
            | Self::McpProcess
            | Self::Write
            | Self::SendKeys
            | Self::Paste
            | Self::Submit
            | Self::Hook => "everything is stopped",
        }
    }
}

#[tokio::test]
async fn after_the_answer_no_edge_starts_anything() {
    let world = World::new().await;
    let server = &world.server;
    for edge in Edge::ALL {
        let before = world.marks();
        let said = world.enter(edge).await;
        // An empty line of a terminal leaves a mark like any other.
        let marks = || async { world.marks() };
        eventually(&format!("{edge:?} leads somewhere: {said}"), marks, |marks| {
            *marks > before
        })
        .await;
    }

    let other = json!({ "argv": ["/bin/sleep", "600"], "background": true });
    let other = server.accepted(other).await;
    let answer = stop(&server.operator()).await;
    assert_has!(answer, { "stopped": true, "already": false, "durable": true });
    let running = answer.list("running");
    assert!(
        running
            .iter()
            .any(|run| run["sessionId"] == world.session.as_str()),
        "{answer}"
    );
    let before = world.marks();
    for edge in Edge::ALL {
        let said = world.enter(edge).await;
        assert!(said.contains(edge.refusal()), "{edge:?}: {said}");
    }
    let nowhere = json!({ "argv": ["true"], "host": "node", "node": "none of that name" });
    refused(&server.agent().exec(nowhere).await);
    let resize = json!({ "action": "resize", "sessionId": world.session, "cols": 90, "rows": 20 });
    refused(&server.agent().post("/v1/process", resize).await);
    let explained = server.agent().explain(world.command()).await;
    assert_has!(explained, { "outcome": "deny", "reason": "stopped" });
    assert_eq!(explained["stopped"]["reason"], WHY);

    // Reading and ending go on.
    let poll = json!({ "action": "poll", "sessionId": world.session });
    server.agent().posted("/v1/process", poll).await;
    server.agent().read("/v1/runs").await;
    let cancel = format!("/v1/runs/{}/cancel", other.text("runId"));
    let cancelled = server.agent().posted(&cancel, json!({})).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    let listed = server.operator().read("/v1/runs?status=running").await;
    assert_eq!(
        listed["items"].as_array().map(Vec::len),
        Some(1),
        "nothing else runs: {listed}"
    );
    let kill = json!({ "action": "kill", "sessionId": world.session });
    let killed = server.agent().posted("/v1/process", kill).await;
    assert_eq!(killed["session"]["status"], "cancelled", "{killed}");
    assert_eq!(world.marks(), before, "nothing got through");

    resume(&server.operator()).await.expect(200);
    server.ran(world.command()).await;
    assert_eq!(world.marks(), before + 1);
}

fn asking() -> ServerBuilder {
    TestServer::asking().with_socket()
}

/// The record of an approval once it no longer waits.
async fn approval(server: &TestServer, id: &Value) -> Value {
    let path = format!("/v1/approvals/{}", id.as_str().expect("an id"));
    server.operator().read(&path).await
}

#[tokio::test]
async fn pending_questions_end_denied_with_reason_stopped() {
    let server = asking().start().await;
    let operator = server.operator();
    let asker = Asker::of(&server);
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let agent = server.agent();
    let waiting = tokio::spawn(async move {
        let body = json!({ "argv": ["/bin/date"], "approvalWaitMs": 60_000, "join": false });
        agent.exec(body).await
    });
    let question = json!({ "command": "/bin/date --utc", "agentId": "main" });
    let peer = asker.clone();
    let asked = question.clone();
    let socket = tokio::spawn(async move { peer.ask(&asked).await });
    let token = server.gateway_token();
    let mut link = OperatorClient::new(&token, &["operator.write"])
        .connect(&server)
        .await;
    let params = json!({ "command": "/bin/date -R", "host": "gateway", "timeoutMs": 60_000 });
    let on_bridge = link.send("exec.approval.request", params.clone()).await;
    eventually(
        "four questions",
        || operator.pending(),
        |pending| pending.len() == 4,
    )
    .await;

    stop(&operator).await;
    assert_eq!(operator.pending().await, Vec::<Value>::new());
    let problem = waiting.await.expect("an answer").problem(403, "exec-denied");
    assert_eq!(problem["reason"], "stopped", "{problem}");
    assert_eq!(socket.await.expect("an answer"), "deny");
    let answer = link.answer(&on_bridge).await;
    assert_eq!(answer["payload"]["decision"], "deny", "{answer}");
    let ended = approval(&server, &pending["approvalId"]).await;
    assert_has!(ended, {
        "status": "denied", "decision": "deny", "terminalReason": "stopped", "reason": WHY,
    });
    assert_eq!(ended["resolvedBy"]["name"], "operator", "{ended}");
    let run = operator.run(pending.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "stopped" });

    // Nothing can be allowed, and nobody is asked anew.
    let id = pending.text("approvalId");
    refused(&operator.decide(id, "allow-once").await);
    operator.decided(id, "deny").await;
    let changed = operator
        .post(
            &format!("/v1/approvals/{id}/revision"),
            json!({ "argv": ["/bin/true"] }),
        )
        .await;
    assert!([403, 409].contains(&changed.status), "{}", changed.text());
    assert_eq!(asker.ask(&question).await, "deny");
    assert_has!(link.call("exec.approval.request", params).await, { "decision": "deny" });
    assert_eq!(operator.pending().await, Vec::<Value>::new());
    let verified = operator.read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true, "{verified}");

    // What the stop ended stays ended.
    resume(&operator).await.expect(200);
    operator
        .decide(id, "allow-once")
        .await
        .problem(409, "approval-already-resolved");
    assert_has!(server.agent().run(pending.text("runId")).await, { "status": "denied" });
}

#[tokio::test]
async fn killed_runs_end_cancelled_with_reason_stopped() {
    let server = TestServer::full().start().await;
    let body = json!({ "argv": ["/bin/sleep", "600"], "background": true });
    let run = server.accepted(body.clone()).await;
    let id = run.text("runId");
    let agent = server.agent();
    let foreground = tokio::spawn(async move { agent.exec(json!({ "argv": ["/bin/sleep", "601"] })).await });
    let running = || async { server.operator().read("/v1/runs?status=running").await["items"].clone() };
    eventually("both run", running, |runs| {
        runs.as_array().map(Vec::len) == Some(2)
    })
    .await;

    let first = stop(&server.operator()).await;
    assert_eq!(first["running"].as_array().map(Vec::len), Some(2), "{first}");
    assert_eq!(first["killed"], json!([]));
    let texts: Vec<&str> = first
        .list("running")
        .iter()
        .filter_map(|run| run["displayText"].as_str())
        .collect();
    assert!(texts.contains(&"/bin/sleep 600"), "{texts:?}");
    // Killing what a stop left is the same call.
    let second = stop_and_kill(&server.operator()).await;
    assert_has!(second, { "already": true, "running": [] });
    assert_eq!(second["killed"].as_array().map(Vec::len), Some(2), "{second}");
    let ended = server.agent().run(id).await;
    assert_has!(ended, { "status": "cancelled", "reason": "stopped" });
    let answered = foreground.await.expect("an answer").expect(200);
    assert_has!(answered, { "status": "cancelled", "reason": "stopped" });
    let audit = server.operator().read("/v1/audit?limit=500").await;
    let actions: Vec<&str> = audit
        .list("items")
        .iter()
        .filter_map(|record| record["action"].as_str())
        .collect();
    for action in ["exec.stopped", "exec.stop-kills"] {
        assert_eq!(
            actions.iter().filter(|one| **one == action).count(),
            1,
            "{action} in {actions:?}"
        );
    }
}

#[tokio::test]
async fn a_stop_survives_kill_nine() {
    let mut server = TestServer::full().start().await;
    stop(&server.operator()).await;
    server.crash_and_restart().await;
    let now = ready(&server).await;
    assert_has!(now, { "stopped": true, "degraded": true });
    refused(&server.agent().exec(json!({ "argv": ["/bin/true"] })).await);
    let standing = server.operator().read("/v1/stop").await;
    assert_has!(standing["stop"], { "reason": WHY, "durable": true });
    assert_eq!(standing["stop"]["by"]["name"], "operator", "{standing}");
    let again = stop(&server.operator()).await;
    assert_has!(again, { "already": true, "stop/atMs": standing["stop"]["atMs"] });

    resume(&server.operator()).await.expect(200);
    server.crash_and_restart().await;
    assert_eq!(ready(&server).await["stopped"], false);
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    let verified = server.operator().read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true, "{verified}");
}

#[tokio::test]
async fn a_stop_that_kills_does_so_after_a_restart_too() {
    let mut server = TestServer::full().start().await;
    let body = json!({ "command": "trap '' TERM; echo on; while :; do sleep 0.1; done", "background": true });
    let run = server.accepted(body).await;
    let id = run.text("runId").to_owned();
    let wrote = || async { server.agent().run(&id).await };
    eventually("it runs", wrote, |run| run["outputBytes"].as_u64() > Some(0)).await;
    let operator = server.operator();
    let killing = tokio::spawn(async move {
        let body = json!({ "reason": WHY, "kill": true });
        Api::try_send(operator.request(Method::POST, "/v1/stop").json(&body)).await
    });
    let standing = || async { server.operator().get("/v1/stop").await.json() };
    eventually("on record", standing, |standing| {
        standing["stop"]["durable"] == true
    })
    .await;
    server.crash_and_restart().await;
    drop(killing.await);
    let ended = server.agent().finished(&id).await;
    assert_has!(ended, { "status": "cancelled", "reason": "stopped" });
}

#[tokio::test]
async fn a_row_that_was_taken_away_shows_in_the_audit() {
    let mut server = TestServer::full().start().await;
    stop(&server.operator()).await;
    server.stop().await;
    let database = rusqlite::Connection::open(server.database()).expect("the ledger");
    database.execute("DELETE FROM stop", ()).expect("a row less");
    drop(database);
    server.start().await;
    let verified = server.operator().read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], false, "{verified}");
}

#[tokio::test]
async fn a_full_disk_does_not_prevent_it() {
    let place = Scratch::new();
    let disk_at = place.dir("disk");
    let disk = or_skip!(SmallDisk::mount(&disk_at));
    let mut server = TestServer::asking_with("max_pending_per_agent = 100")
        .allowlist(&json!([{ "pattern": "/bin/true" }]))
        .state_dir(&disk_at.join("state"))
        .start()
        .await;
    // To end them takes more than the ledger has allocated already.
    for number in 0..60 {
        let argv = json!({ "argv": ["/bin/echo", number.to_string(), "x".repeat(2000)] });
        server.asked(argv).await;
    }
    // A server that begins has a log without room.
    server.stop().await;
    server.start().await;
    let operator = server.operator();
    disk.fill();
    let answer = stop(&operator).await;
    assert_has!(answer, { "stopped": true, "durable": false });
    // The record does not have it, so the server is asked.
    let report = server.cli(&["doctor"]).await;
    report.says("warning[stopped]");
    report.says("by operator: keys leaked");
    report.says("ends if the server ends before it can");
    refused(&server.agent().exec(json!({ "argv": ["/bin/true"] })).await);
    let pending = operator.read("/v1/approvals?limit=1").await;
    let id = pending["items"][0].text("id");
    refused(&operator.decide(id, "allow-once").await);
    let resumed = resume(&operator).await;
    assert!([503, 507].contains(&resumed.status), "{}", resumed.text());
    refused(&server.agent().exec(json!({ "argv": ["/bin/true"] })).await);

    disk.make_room();
    let standing = || async { operator.read("/v1/stop").await };
    eventually("on record", standing, |standing| {
        standing["stop"]["durable"] == true
    })
    .await;
    assert_eq!(operator.pending().await, Vec::<Value>::new());
    server.crash_and_restart().await;
    refused(&server.agent().exec(json!({ "argv": ["/bin/true"] })).await);
    resume(&server.operator()).await.expect(200);
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    drop(server);
    drop(disk);
}

#[tokio::test]
async fn resume_takes_two_where_widening_asks() {
    let mut server = TestServer::full()
        .toml("[approvals]\nwidening = \"ask\"\n")
        .second_owner()
        .start()
        .await;
    let operator = server.operator();
    let second = server.token_of("second", &["admin"]).await;
    let also_second = server.token_of("second", &["admin"]).await;
    stop(&operator).await;
    // Any admin proposes it, whoever stopped.
    let proposed = resume(&second).await.expect(202);
    assert_has!(proposed, { "stopped": true, "resumed": false });
    resume(&second).await.expect(202);
    resume(&also_second).await.expect(202);
    refused(&server.agent().exec(json!({ "argv": ["/bin/true"] })).await);
    server.crash_and_restart().await;
    let operator = server.operator();
    let second = operator.with_token(second.token());
    let standing = operator.read("/v1/stop").await;
    assert_eq!(
        standing["stop"]["resumeProposedBy"], proposed["proposedBy"],
        "{standing}"
    );
    let done = resume(&operator).await.expect(200);
    assert_has!(done, { "stopped": false, "resumed": true });
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    // A proposal counts for one stop.
    stop(&operator).await;
    resume(&operator).await.expect(202);
    resume(&second).await.expect(200);
}

#[tokio::test]
async fn a_token_bound_to_agents_may_do_neither() {
    let server = TestServer::full().start().await;
    let answering = server.bound_token(&["read", "approve"], "main").await;
    let body = json!({ "reason": WHY });
    answering
        .post("/v1/stop", body.clone())
        .await
        .problem(403, "forbidden");
    let admin = server.bound_token(&["read", "admin"], "main").await;
    admin
        .post("/v1/stop", body.clone())
        .await
        .problem(403, "forbidden");
    stop(&server.operator()).await;
    admin
        .post("/v1/resume", body.clone())
        .await
        .problem(403, "forbidden");
    // Whoever answers may stop, and not let go on.
    let (_, approver) = server
        .token_with(json!({ "name": "approver", "scopes": ["approve"] }))
        .await;
    let answer = stop(&approver).await;
    assert_eq!(answer["already"], true, "{answer}");
    approver.post("/v1/resume", body).await.problem(403, "forbidden");
    for wrong in [
        json!({}),
        json!({ "reason": " " }),
        json!({ "reason": "x".repeat(2001) }),
    ] {
        server
            .operator()
            .post("/v1/stop", wrong.clone())
            .await
            .problem(400, "invalid-request");
        server
            .operator()
            .post("/v1/resume", wrong)
            .await
            .problem(400, "invalid-request");
    }
}

#[tokio::test]
async fn readyz_says_so_and_no_more() {
    let server = TestServer::full().start().await;
    let before = ready(&server).await;
    assert_has!(before, { "status": "ready", "stopped": false, "degraded": false });
    stop(&server.operator()).await;
    let now = ready(&server).await;
    assert_has!(now, { "status": "ready", "stopped": true, "degraded": true });
    let text = now.to_string();
    assert!(!text.contains(WHY) && !text.contains("operator"), "{text}");
    server.agent().get("/v1/stop").await.problem(403, "forbidden");
    let (_, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read"] }))
        .await;
    assert_eq!(reader.read("/v1/stop").await["stop"]["reason"], WHY);
    let metrics = server.operator().get("/metrics").await.text();
    assert!(metrics.contains("countersign_stopped 1"), "{metrics}");
}

#[tokio::test]
async fn launches_in_flight_are_running_or_refused() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    for round in 0..4 {
        let calls: Vec<_> = (0..24)
            .map(|_| {
                let agent = server.agent();
                tokio::spawn(async move { agent.exec(json!({ "argv": ["/bin/true"] })).await })
            })
            .collect();
        // Some have their permit, some are on their way, and some have not been read yet.
        let first = || async { operator.read("/v1/runs?limit=1").await["items"].clone() };
        eventually("something began", first, |runs| runs[0]["runId"].is_string()).await;
        stop(&operator).await;
        let mut ran = 0;
        for call in calls {
            let answer = call.await.expect("an answer");
            if answer.status == 200 {
                ran += 1;
            } else {
                refused(&answer);
            }
        }
        let events = events_of(&operator).await;
        let stopped = last_of(&events, "exec.stopped");
        let permitted: Vec<i64> = events
            .iter()
            .filter(|event| event["type"] == "exec.requested" && event["verdict"] == "run")
            .filter_map(|event| event["seq"].as_i64())
            .collect();
        assert!(
            permitted.iter().all(|seq| *seq < stopped),
            "round {round}: permitted {permitted:?}, stopped {stopped}, {ran} ran"
        );
        resume(&operator).await.expect(200);
    }
}

async fn events_of(api: &Api) -> Vec<Value> {
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let request = api.request(Method::GET, &format!("/v1/events?after={after}&limit=500"));
        let page = api
            .send(request.header("accept", "application/json"))
            .await
            .expect(200);
        let items = page.list("items").clone();
        let Some(last) = items.last() else { return events };
        after = last["seq"].as_i64().expect("a number");
        events.extend(items);
    }
}

fn last_of(events: &[Value], kind: &str) -> i64 {
    let found = events.iter().rev().find(|event| event["type"] == kind);
    found.and_then(|event| event["seq"].as_i64()).expect(kind)
}

#[tokio::test]
async fn the_stream_tells_of_both() {
    let server = TestServer::full().start().await;
    let mut stream = server.operator().events("", None).await;
    stop(&server.operator()).await;
    let stopped = stream.next_of("exec.stopped").await;
    assert_has!(stopped.data, { "reason": WHY, "kill": false });
    resume(&server.operator()).await.expect(200);
    let resumed = stream.next_of("exec.resumed").await;
    assert_eq!(resumed.data["reason"], "all clear");
    assert_eq!(resumed.data["stoppedAtMs"], stopped.data["stoppedAtMs"]);
}

#[tokio::test]
async fn the_command_line_stops_lists_what_runs_and_lets_it_go_on() {
    let server = TestServer::full().start().await;
    let body = json!({ "argv": ["/bin/sleep", "600", "--password=hunter2"], "background": true });
    let run = server.accepted(body).await;
    let id = run.text("runId");
    let bare = server.cli(&["stop"]).await;
    assert_eq!(bare.code, Some(64), "{bare:?}");
    // `sleep` refuses its second argument at once; this one goes on.
    let body = json!({ "argv": ["/bin/sh", "-c", "sleep 600", "--password=hunter2"], "background": true });
    let lasting = server.accepted(body).await;
    server.agent().finished(id).await;
    let stopped = server.cli(&["stop", "--reason", WHY]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    stopped.says("everything is stopped: since ");
    // As lists show it.
    let lasting = lasting.text("runId");
    assert!(stopped.stdout.contains(&lasting[28..]), "{stopped:?}");
    assert!(!stopped.stdout.contains("hunter2"), "{stopped:?}");
    stopped.complains("countersign resume --reason");

    let called = server.cli(&["exec", "--", "/bin/true"]).await;
    assert_eq!(called.code, Some(77), "{called:?}");
    assert!(called.stderr.starts_with("error[stopped]"), "{called:?}");
    let report = server.cli(&["doctor", "--json"]).await;
    let report: Value = serde_json::from_str(&report.stdout).expect("a report");
    let found = report.list("findings").iter();
    let found: Vec<&Value> = found.filter(|finding| finding["id"] == "stopped").collect();
    let told = found.first().expect("a finding")["explanation"]
        .as_str()
        .unwrap_or_default();
    assert!(told.contains("by operator: keys leaked"), "{told}");
    let ready = server.cli(&["doctor", "--ready"]).await;
    assert_eq!(
        (ready.code, ready.stdout.as_str()),
        (Some(0), "ready, degraded\n"),
        "{ready:?}"
    );

    let killed = server
        .cli(&["stop", "--kill", "--reason", "again", "--json"])
        .await;
    let killed: Value = serde_json::from_str(&killed.stdout).expect("an answer");
    assert_eq!(killed["killed"][0]["runId"], lasting, "{killed}");
    let resumed = server.cli(&["resume", "--reason", "all clear"]).await;
    assert_eq!(
        (resumed.code, resumed.stdout.as_str()),
        (Some(0), "everything goes on\n"),
        "{resumed:?}"
    );
    let again = server.cli(&["resume", "--reason", "all clear"]).await;
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (Some(0), "nothing was stopped\n"),
        "{again:?}"
    );
}

/// A server with an agent that has keys of its own in both files.
async fn with_own_keys() -> TestServer {
    let own = json!({ "host": "gateway", "security": "full", "ask": "off" });
    TestServer::full()
        .config(&json!({
            "tools": { "exec": own },
            "agents": { "list": [{ "id": "build", "tools": { "exec": own } }, { "id": "plain" }] },
        }))
        .agents(&json!({ "build": { "security": "full", "ask": "off" } }))
        .start()
        .await
}

async fn runs_for(server: &TestServer, agent: &str) -> u16 {
    let body = json!({ "argv": ["/bin/true"], "agentId": agent });
    server.agent().exec(body).await.status
}

#[tokio::test]
async fn preset_says_which_agents_keep_their_own_keys() {
    let server = with_own_keys().await;
    let body = json!({ "name": "deny-all" });
    let applied = server.operator().posted("/v1/policy/preset", body).await;
    let own = applied.list("ownKeys");
    assert_eq!(own.len(), 1, "{applied}");
    assert_has!(own[0], { "agentId": "build", "security": "full", "ask": "off" });
    let keys = own[0]["keys"].to_string();
    assert_says(&keys, "agents.list");
    assert_says(&keys, "exec-approvals.json#/agents/build");
    assert_eq!(runs_for(&server, "build").await, 200, "as the answer says");
    assert_eq!(runs_for(&server, "plain").await, 403);
    let told = server.cli(&["policy", "preset", "deny-all"]).await;
    told.says("these agents keep keys of their own");
    // A dry run names them with the same keys.
    let dry = server
        .cli(&["--json", "policy", "preset", "deny-all", "--dry-run"])
        .await;
    let dry: Value = serde_json::from_str(&dry.stdout).expect("an answer");
    assert_has!(dry, { "applied": false, "ownKeys": applied["ownKeys"] });
    let lost = server
        .cli(&["policy", "preset", "deny-all", "--every-agent", "--dry-run"])
        .await;
    lost.says("these agents would lose keys of their own");
    // What stops everything looks at no key.
    stop(&server.operator()).await;
    assert_eq!(runs_for(&server, "build").await, 403);
}

#[tokio::test]
async fn every_agent_removes_them() {
    let server = with_own_keys().await;
    let both = json!({ "name": "deny-all", "everyAgent": true, "agentId": "build" });
    server
        .operator()
        .post("/v1/policy/preset", both)
        .await
        .problem(400, "invalid-request");
    let done = server
        .cli(&["--json", "policy", "preset", "deny-all", "--every-agent"])
        .await;
    let done: Value = serde_json::from_str(&done.stdout).expect("an answer");
    assert_eq!(done["ownKeys"], json!([]), "{done}");
    for agent in ["build", "plain", "main"] {
        assert_eq!(runs_for(&server, agent).await, 403, "{agent}");
    }
}
