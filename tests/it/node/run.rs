//! Commands that a gateway sends, and what it is answered.

use serde_json::{Value, json};

use super::{gateway::Gateway, scene::TestNode, stage::Stage};
use crate::support::Members;

#[tokio::test]
async fn commands_run_and_tell_how_they_ended() {
    let mut stage = Stage::open().await;
    let ran = stage
        .run(&json!({"command": ["echo", "hi"], "sessionKey": "agent:main:main", "runId": "r-1"}))
        .await
        .done();
    assert_eq!(
        ran,
        json!({"exitCode": 0, "timedOut": false, "success": true, "stdout": "hi\n", "stderr": "", "error": null})
    );
    // Both events came before the result, and name the gateway's run.
    assert_eq!(
        stage.peer.events,
        [
            json!({"event": "exec.started", "payload": {"sessionKey": "agent:main:main", "runId": "r-1",
                "host": "node", "command": "echo hi"}}),
            json!({"event": "exec.finished", "payload": {"sessionKey": "agent:main:main", "runId": "r-1",
                "host": "node", "command": "echo hi", "exitCode": 0, "timedOut": false, "success": true,
                "output": "hi"}}),
        ]
    );
    let script = "echo out; echo err >&2; exit 3";
    let ran = stage
        .run(&json!({"command": ["/bin/sh", "-lc", script], "rawCommand": script}))
        .await
        .done();
    assert_eq!(
        ran,
        json!({"exitCode": 3, "timedOut": false, "success": false, "stdout": "out\n", "stderr": "err\n", "error": null})
    );
    let ran = stage
        .run(&json!({"command": ["sleep", "600"], "timeoutMs": 100}))
        .await
        .done();
    assert_eq!(
        ran,
        json!({"exitCode": 124, "timedOut": true, "success": false, "stdout": "", "stderr": "", "error": null})
    );
    let ran = stage
        .run(&json!({"command": ["/bin/sh", "-c", "kill -9 $$"]}))
        .await
        .done();
    assert_eq!(
        ran,
        json!({"timedOut": false, "success": false, "stdout": "", "stderr": "", "error": null, "signal": "SIGKILL"})
    );
    let ran = stage
        .run(&json!({"command": ["no-such-program-xyz"]}))
        .await
        .done();
    assert_eq!(
        ran,
        json!({"timedOut": false, "success": false, "stdout": "", "stderr": "",
            "error": "Command failed during launch or output capture (ENOENT)"})
    );
    let ran = stage
        .run(&json!({"command": ["pwd"], "cwd": "/no/such/place"}))
        .await
        .done();
    let error = ran.text("error");
    assert!(
        error.starts_with("node exec working directory does not exist on the node host: /no/such/place ("),
        "{error}"
    );
    let ran = stage.run(&json!({"command": ["pwd"], "cwd": "/"})).await.done();
    assert_eq!(ran["stdout"], "/\n");
    assert_eq!(stage.node.stop().await, Some(0));
}

#[tokio::test]
async fn output_is_cut_as_the_products_cut_it() {
    let mut stage = Stage::open().await;
    let script = "head -c 300000 /dev/zero | tr '\\0' a";
    let ran = stage
        .run(&json!({"command": ["/bin/sh", "-c", script]}))
        .await
        .done();
    let stdout = ran.text("stdout");
    assert_eq!(stdout.len(), 200_016);
    assert!(stdout.ends_with("a\n... (truncated)"));
    let event = stage.peer.event("exec.finished").await;
    let output = event["payload"].text("output");
    assert!(output.starts_with("... (truncated) ") && output.ends_with("a\n... (truncated)"));
    assert_eq!(output.len(), 20_000 + "... (truncated) ".len());
}

#[tokio::test]
async fn a_result_fits_into_what_the_gateway_takes() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    node.start(&gateway);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    let policy = json!({"maxPayload": 65_536, "maxBufferedBytes": 1, "tickIntervalMs": 600_000});
    peer.hello(&connect, &json!({"policy": policy})).await;
    let script = "head -c 190000 /dev/zero | tr '\\0' '\\001'";
    let params = json!({"command": ["/bin/sh", "-c", script]});
    peer.invoke(&node.id(), "big", "system.run", &params).await;
    loop {
        let frame = peer.next().await.expect("a node that stays");
        assert!(frame.to_string().len() <= 65_536, "{}", frame.to_string().len());
        peer.send(&json!({"type": "res", "id": frame["id"], "ok": true, "payload": {"ok": true}}))
            .await;
        if frame["method"] == "node.invoke.result" {
            assert!(frame["params"].text("payloadJSON").contains("(truncated)"));
            break;
        }
    }
}

#[tokio::test]
async fn the_environment_is_the_nodes_own() {
    let mut stage = Stage::open().await;
    for (env, names) in [
        (json!({"LD_PRELOAD": "/x.so"}), "LD_PRELOAD"),
        (json!({"PATH": "/evil:/bin"}), "PATH"),
        (
            json!({"BASH_ENV": "/x", "node_options": "-r x"}),
            "BASH_ENV, NODE_OPTIONS",
        ),
        (json!({"OPENCLAW_STATE_DIR": "/x"}), "OPENCLAW_STATE_DIR"),
    ] {
        let refused = stage
            .run(&json!({"command": ["echo", "x"], "env": env}))
            .await
            .failed();
        assert_eq!(
            refused,
            (
                "INVALID_REQUEST".to_owned(),
                format!("SYSTEM_RUN_DENIED: environment override rejected (blocked override keys: {names})")
            )
        );
    }
    // What a shell reads at its start does not come from the request.
    let ran = stage
        .run(&json!({"command": ["/bin/sh", "-c", "echo \"[$FOO]\""], "env": {"FOO": "bar"}}))
        .await
        .done();
    assert_eq!(ran["stdout"], "[]\n");
    let ran = stage
        .run(&json!({"command": ["printenv", "FOO"], "env": {"FOO": "bar"}}))
        .await
        .done();
    assert_eq!(ran["stdout"], "bar\n");
    // Nothing of the node's own secrets reaches a command.
    let ran = stage.run(&json!({"command": ["printenv"]})).await.done();
    let seen = ran.text("stdout");
    assert!(
        !seen.contains("OPENCLAW_GATEWAY_TOKEN") && !seen.contains("COUNTERSIGN_"),
        "{seen}"
    );
}

#[tokio::test]
async fn calls_that_cannot_be_meant_are_refused_in_the_products_words() {
    let mut stage = Stage::open().await;
    for (params, message) in [
        (json!({"command": []}), "command required"),
        (json!({"runId": "r"}), "command required"),
        (
            json!({"command": ["echo", "hi"], "rawCommand": "rm -rf /"}),
            "INVALID_REQUEST: rawCommand does not match command",
        ),
    ] {
        let refused = stage.run(&params).await.failed();
        assert_eq!(refused, ("INVALID_REQUEST".to_owned(), message.to_owned()));
    }
    let refused = stage
        .run(&json!({"command": ["x"], "needsScreenRecording": true, "runId": "r"}))
        .await
        .failed();
    assert_eq!(refused.1, "PERMISSION_MISSING: screenRecording");
    let event = stage.peer.event("exec.denied").await;
    assert_eq!(event["payload"]["reason"], "permission:screenRecording");
    let refused = stage.call("browser.proxy", &json!({})).await.failed();
    assert_eq!(refused.0, "UNAVAILABLE");
    let refused = stage.call("system.which", &json!({})).await.failed();
    assert_eq!(
        refused,
        (
            "INVALID_REQUEST".to_owned(),
            "Error: INVALID_REQUEST: bins required".to_owned()
        )
    );
}

#[tokio::test]
async fn programs_are_looked_for_by_name_only() {
    let mut stage = Stage::open().await;
    let found = stage
        .call(
            "system.which",
            &json!({"bins": ["sh", "no-such-program", "/bin/sh", "../sh", "", 7]}),
        )
        .await
        .done();
    let bins = found["bins"].as_object().unwrap();
    assert_eq!(bins.len(), 1, "{found}");
    assert!(found["bins"].text("sh").ends_with("/sh"));
}

#[tokio::test]
#[expect(clippy::items_after_statements, reason = "where it is used")]
#[expect(clippy::format_collect, reason = "a short text of the test")]
async fn the_approvals_document_is_read_and_replaced_under_its_hash() {
    let mut stage = Stage::open().await;
    let before = stage.call("system.execApprovals.get", &json!({})).await.done();
    let file = json!({"version": 1, "defaults": {"security": "allowlist", "ask": "on-miss"}, "agents": {}});
    let hash = if before["exists"] == true {
        before["hash"].clone()
    } else {
        Value::Null
    };
    let written = stage
        .call(
            "system.execApprovals.set",
            &json!({"file": file, "baseHash": hash}),
        )
        .await
        .done();
    assert_eq!(written["exists"], true);
    assert_eq!(written["file"]["defaults"]["security"], "allowlist");
    let text = std::fs::read(stage.node.state().join("exec-approvals.json")).unwrap();
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(&text);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written["hash"], hex.as_str());
    for (base, message) in [
        (
            Value::Null,
            "Error: INVALID_REQUEST: exec approvals base hash required; reload and retry",
        ),
        (
            json!("00"),
            "Error: INVALID_REQUEST: exec approvals changed; reload and retry",
        ),
    ] {
        let refused = stage
            .call(
                "system.execApprovals.set",
                &json!({"file": file, "baseHash": base}),
            )
            .await
            .failed();
        assert_eq!(refused, ("INVALID_REQUEST".to_owned(), message.to_owned()));
    }
    // The new policy counts for the next command.
    let refused = stage.run(&json!({"command": ["id"]})).await.failed();
    assert_eq!(refused.1, "SYSTEM_RUN_DENIED: approval required");
    // The token of the approvals socket is nobody's business.
    assert_eq!(written["file"].pointer("/socket/token"), None);
}

#[tokio::test]
async fn a_cancelled_run_is_killed_and_reported() {
    let mut stage = Stage::open().await;
    let started = stage.node.scratch.join("started");
    let script = format!("echo x >> {}; exec sleep 600", started.display());
    stage
        .peer
        .invoke(
            &stage.id,
            "long",
            "system.run",
            &json!({"command": ["/bin/sh", "-c", script]}),
        )
        .await;
    stage.node.has_lines("started", 1).await;
    stage.peer.cancel("somebody else", "long").await;
    stage.peer.cancel(&stage.id, "another call").await;
    stage.peer.cancel(&stage.id, "long").await;
    let ran = stage.peer.result("long").await.done();
    assert_has!(ran, { "success": false, "error": "cancelled" });
    let event = stage.peer.event("exec.finished").await;
    assert_eq!(event["payload"]["success"], false);
}

#[tokio::test]
async fn a_node_that_is_told_to_stop_kills_and_reports_what_runs() {
    let mut stage = Stage::open().await;
    let started = stage.node.scratch.join("started");
    let script = format!("echo x >> {}; exec sleep 600", started.display());
    stage
        .peer
        .invoke(
            &stage.id,
            "long",
            "system.run",
            &json!({"command": ["/bin/sh", "-c", script]}),
        )
        .await;
    stage.node.has_lines("started", 1).await;
    let Stage {
        mut node, mut peer, ..
    } = stage;
    let (code, outcome) = tokio::join!(node.stop(), async {
        let outcome = peer.result("long").await;
        while peer.next().await.is_some() {}
        outcome
    });
    assert_eq!(code, Some(0));
    assert_eq!(outcome.done()["success"], false);
    assert_eq!(peer.closed, Some((1000, String::new())));
}

#[tokio::test]
async fn only_the_chosen_commands_are_served() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open().argument("--commands").argument("system.which");
    node.start(&gateway);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    assert_eq!(connect["params"]["commands"], json!(["system.which"]));
    peer.hello(&connect, &json!({})).await;
    let id = node.id();
    for command in ["system.run", "system.execApprovals.set"] {
        peer.invoke(&id, command, command, &json!({"command": ["echo"], "file": {}}))
            .await;
        let refused = peer.result(command).await.failed();
        assert_eq!(
            refused,
            ("UNAVAILABLE".to_owned(), "command not supported".to_owned())
        );
    }
}
