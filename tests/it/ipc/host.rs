//! A server as the UI host: what comes over the socket is asked about, answered, run and withdrawn like everything else.

use std::os::unix::fs::MetadataExt as _;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use countersign_sys::hooks;

use super::support::{Asker, asked_about, mac, nonce, now_ms, read_line, replies};
use crate::support::{Members, Pause, TestServer, eventually, soon, write_file_mode};

async fn resolved(server: &TestServer, id: &Value) -> Value {
    let path = format!("/v1/approvals/{}", id.as_str().expect("an id"));
    eventually(
        "resolved",
        || async { server.operator().read(&path).await },
        |approval| approval["status"] != "pending",
    )
    .await
}

#[tokio::test]
async fn socket_and_token_are_in_place_when_the_server_says_it_is_ready() {
    let mut server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    let metadata = std::fs::symlink_metadata(&asker.path).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o600);
    let lock = server.state().join("exec-approvals.sock.lifecycle.lock");
    assert_eq!(std::fs::symlink_metadata(&lock).unwrap().mode() & 0o777, 0o600);
    assert_eq!(asker.token.len(), 32);
    let ready = server.anonymous().read("/readyz").await;
    assert_has!(ready, { "degraded": false, "checks/ipc": { "ok": true } });
    let reply = asker
        .exec(&json!({ "command": ["echo", "hé"], "cwd": "/tmp" }))
        .await;
    assert_eq!(
        reply["payload"],
        json!({ "exitCode": 0, "timedOut": false, "success": true, "stdout": "hé\n", "stderr": "", "error": null })
    );
    server.stop().await;
    assert!(!asker.path.exists() && lock.exists());
    server.start().await;
    assert_eq!(Asker::of(&server).token, asker.token);
    asker.expect_alive().await;
}

#[tokio::test]
async fn a_peer_that_leaves_its_side_open_is_answered_too() {
    let server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    let mut stream = asker.connect().await;
    let line = asker.exec_line(
        "i",
        &json!({ "command": ["sh", "-c", "echo out; echo err >&2; exit 3"] }),
    );
    stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    let all = replies(&mut stream).await;
    assert_eq!(
        all,
        [json!({ "type": "exec-res", "id": "i", "ok": true, "payload": {
            "exitCode": 3, "timedOut": false, "success": false, "stdout": "out\n", "stderr": "err\n", "error": null } })]
    );
}

#[tokio::test]
async fn a_run_over_the_socket_is_asked_about_like_any_other() {
    let server = TestServer::asking().with_socket().start().await;
    let asker = Asker::of(&server);
    for (decision, expected) in [("allow-once", None), ("deny", Some("user-denied"))] {
        let asked = tokio::spawn({
            let asker = asker.clone();
            async move {
                asker
                    .exec(&json!({ "command": ["echo", "x"], "agentId": "main", "sessionKey": "s-1" }))
                    .await
            }
        });
        let approval = asked_about(&server).await;
        assert_eq!(approval["requestedBy"]["kind"], "ipc");
        assert_eq!(approval["sessionKey"], "s-1");
        server.operator().decided(approval.text("id"), decision).await;
        let reply = asked.await.unwrap();
        match expected {
            None => assert_eq!(reply["payload"]["stdout"], "x\n", "{reply}"),
            Some(reason) => assert_eq!(reply["error"]["reason"], reason, "{reply}"),
        }
    }
}

#[tokio::test]
async fn policy_refuses_in_the_words_of_the_wire() {
    let server = TestServer::allowlist_only().with_socket().start().await;
    let reply = Asker::of(&server).exec(&json!({ "command": ["echo"] })).await;
    assert_eq!(
        reply["error"],
        json!({ "code": "UNAVAILABLE", "message": "SYSTEM_RUN_DENIED: allowlist miss", "reason": "allowlist-miss" })
    );
    let server = TestServer::full()
        .exec(&json!({ "host": "gateway", "security": "deny" }))
        .with_socket()
        .start()
        .await;
    let asker = Asker::of(&server);
    for attached in [Value::Null, json!("allow-once"), json!("allow-always")] {
        let reply = asker
            .exec(&json!({ "command": ["echo"], "approvalDecision": attached }))
            .await;
        assert_eq!(
            reply["error"],
            json!({ "code": "UNAVAILABLE", "message": "SYSTEM_RUN_DISABLED: security=deny", "reason": "security=deny" })
        );
    }
    let reply = asker
        .exec(&json!({ "command": ["echo"], "needsScreenRecording": true }))
        .await;
    assert_eq!(reply["error"]["reason"], "permission:screenRecording");
}

#[tokio::test]
async fn a_question_is_answered_by_whoever_answers_and_runs_nothing_here() {
    let server = TestServer::asking().with_socket().start().await;
    let asker = Asker::of(&server);
    let marker = server.scratch().join("ran");
    let question =
        json!({ "command": format!("touch {}", marker.display()), "cwd": "/tmp", "ask": "on-miss" });
    for (decision, status) in [
        ("allow-once", "allowed"),
        ("allow-always", "allowed"),
        ("deny", "denied"),
    ] {
        let asked = tokio::spawn({
            let (asker, question) = (asker.clone(), question.clone());
            async move { asker.ask(&question).await }
        });
        let approval = asked_about(&server).await;
        assert_eq!(approval["command"], question["command"]);
        assert_has!(approval, { "allowedDecisions": ["allow-once", "allow-always", "deny"] });
        let id = approval.text("id");
        server.operator().decided(id, decision).await;
        assert_eq!(asked.await.unwrap(), decision);
        assert_eq!(resolved(&server, &approval["id"]).await["status"], status);
        let run = server.operator().run(approval.text("runId")).await;
        let (status, reason) = if decision == "deny" {
            ("denied", "user-denied")
        } else {
            ("lost", "run-elsewhere")
        };
        assert_has!(run, { "status": status, "reason": reason });
    }
    assert!(!marker.exists());
    let agents = &server.document_on_disk()["agents"];
    assert!(
        agents.as_object().is_none_or(serde_json::Map::is_empty),
        "{agents}"
    );
}

#[tokio::test]
async fn only_the_listed_decisions_are_open() {
    let server = TestServer::asking().with_socket().start().await;
    let asker = Asker::of(&server);
    let asked = tokio::spawn({
        let asker = asker.clone();
        async move {
            asker
                .ask(&json!({ "command": "ls", "ask": "always", "allowedDecisions": ["allow-once", "x"] }))
                .await
        }
    });
    let approval = asked_about(&server).await;
    assert_eq!(approval["allowedDecisions"], json!(["allow-once", "deny"]));
    let id = approval.text("id");
    let refused = server.operator().decide(id, "allow-always").await;
    assert!((400..500).contains(&refused.status), "{refused:?}");
    server.operator().decided(id, "allow-once").await;
    assert_eq!(asked.await.unwrap(), "allow-once");
}

#[tokio::test]
async fn whatever_a_peer_wanted_of_a_server_that_died_is_withdrawn() {
    let mut server = TestServer::asking().with_socket().start().await;
    let asker = Asker::of(&server);
    let marker = server.scratch().join("ran");
    for is_order in [false, true] {
        // A line of before the restart would count as replayed.
        let line = if is_order {
            asker.exec_line("e", &json!({ "command": ["touch", marker] }))
        } else {
            asker.request_line("q", &json!({ "command": format!("touch {}", marker.display()) }))
        };
        let mut stream = asker.connect().await;
        stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let approval = asked_about(&server).await;
        server.crash_and_restart().await;
        // As if the peer had left: its connection did.
        let withdrawn = resolved(&server, &approval["id"]).await;
        assert_has!(withdrawn, { "status": "cancelled", "terminalReason": "run-aborted" });
        let id = approval.text("id");
        let late = server.operator().decide(id, "allow-once").await;
        late.problem(410, "approval-cancelled");
        let run = server.operator().run(approval.text("runId")).await;
        assert_has!(run, { "status": "cancelled", "reason": "cancelled" });
    }
    server.crash_and_restart().await;
    asker.expect_alive_soon(&server).await;
    assert!(!marker.exists());
}

#[tokio::test]
async fn whoever_leaves_withdraws_what_is_open() {
    let server = TestServer::asking().with_socket().start().await;
    let asker = Asker::of(&server);
    let lines = [
        asker.request_line("q", &json!({ "command": "ls" })),
        asker.exec_line("e", &json!({ "command": ["ls"] })),
    ];
    for line in lines {
        let mut stream = asker.connect().await;
        stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let approval = asked_about(&server).await;
        // Half a close was no wish to withdraw it.
        assert_eq!(approval["status"], "pending");
        drop(stream);
        let approval = resolved(&server, &approval["id"]).await;
        assert_eq!(approval["status"], "cancelled");
        let run = server.operator().finished(approval.text("runId")).await;
        assert_eq!(run["status"], "cancelled");
    }
}

/// The peer was not told of it yet: its connection knows of no question that it could withdraw.
#[tokio::test]
async fn whoever_leaves_while_the_question_is_asked_withdraws_it() {
    let pause = Pause::at(hooks::ASK_PAUSES);
    let server = pause.of(TestServer::asking().with_socket()).start().await;
    let asker = Asker::of(&server);
    pause.begin();
    let mut stream = asker.connect().await;
    let line = asker.exec_line("e", &json!({ "command": ["ls"] }));
    stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    pause.reached().await;
    let approval = asked_about(&server).await;
    drop(stream);
    let log = || server.log();
    soon("gone", log, |log| log.contains("the peer left")).await;
    pause.end();
    let approval = resolved(&server, &approval["id"]).await;
    assert_has!(approval, { "status": "cancelled", "terminalReason": "run-aborted" });
}

#[tokio::test]
async fn a_command_ends_with_the_peer_that_wanted_it() {
    let server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    let mut stream = asker.connect().await;
    let line = asker.exec_line("e", &json!({ "command": ["sleep", "600"], "timeoutMs": 0 }));
    stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    let running = || async { server.operator().read("/v1/runs?status=running").await["items"].clone() };
    let runs = eventually("running", running, |runs| {
        runs.as_array().is_some_and(|runs| runs.len() == 1)
    })
    .await;
    drop(stream);
    let run = server.operator().finished(runs[0].text("runId")).await;
    assert_eq!(run["status"], "cancelled");
}

#[tokio::test]
async fn an_attached_decision_counts_once_and_only_if_it_is_one_of_ours() {
    let server = TestServer::asking().with_socket().start().await;
    let asker = Asker::of(&server);
    let request = json!({ "command": ["echo", "a b"], "cwd": "/tmp", "approvalDecision": "allow-always" });
    let ask = |question: Value| {
        let asker = asker.clone();
        tokio::spawn(async move { asker.ask(&question).await })
    };
    // The same text in another directory is another question.
    for (cwd, decision) in [("/", "allow-once"), ("/tmp", "allow-once")] {
        let asked = ask(json!({ "command": "echo \"a b\"", "cwd": cwd }));
        let approval = asked_about(&server).await;
        server.operator().decided(approval.text("id"), decision).await;
        assert_eq!(asked.await.unwrap(), decision);
    }
    let reply = asker.exec(&request).await;
    assert_eq!(reply["payload"]["stdout"], "a b\n", "{reply}");
    // It was used up: now a person is asked.
    let again = tokio::spawn({
        let (asker, request) = (asker.clone(), request.clone());
        async move { asker.exec(&request).await }
    });
    let approval = asked_about(&server).await;
    server.operator().decided(approval.text("id"), "deny").await;
    assert_eq!(again.await.unwrap()["error"]["reason"], "user-denied");
    let denied = json!({ "command": ["echo", "a b"], "approvalDecision": "deny" });
    assert_eq!(asker.exec(&denied).await["error"]["reason"], "user-denied");
}

#[tokio::test]
async fn an_answer_to_a_text_starts_no_program_that_is_only_called_like_a_shell() {
    let server = TestServer::asking().with_socket().start().await;
    let asker = Asker::of(&server);
    let marker = server.scratch().join("ran");
    let fake = server.scratch().join("sh");
    write_file_mode(&fake, format!("#!/bin/sh\ntouch {}\n", marker.display()), 0o755);
    let asked = tokio::spawn({
        let asker = asker.clone();
        async move { asker.ask(&json!({ "command": "uname" })).await }
    });
    let approval = asked_about(&server).await;
    let operator = server.operator();
    operator.decided(approval.text("id"), "allow-once").await;
    assert_eq!(asked.await.unwrap(), "allow-once");
    let with =
        |argv: Value| json!({ "command": argv, "rawCommand": "uname", "approvalDecision": "allow-once" });
    for argv in [
        json!([fake, "-c", "uname"]),
        json!([fake, "-lc", "uname"]),
        json!(["sh", "-lc", "uname"]),
    ] {
        let running = tokio::spawn({
            let (asker, request) = (asker.clone(), with(argv.clone()));
            async move { asker.exec(&request).await }
        });
        // Somebody is asked, and about what would be started.
        let approval = asked_about(&server).await;
        assert_ne!(approval["command"], "uname", "{argv}");
        operator.decided(approval.text("id"), "deny").await;
        let reply = running.await.unwrap();
        assert_eq!(reply["error"]["reason"], "user-denied", "{argv}: {reply}");
    }
    assert!(!marker.exists());
    // In the words that mean the text, the answer is still there.
    let reply = asker.exec(&with(json!(["/bin/sh", "-lc", "uname"]))).await;
    assert_eq!(reply["payload"]["success"], true, "{reply}");
}

#[tokio::test]
async fn a_session_is_not_used_for_another_agent() {
    let server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    let request = json!({ "command": ["true"], "agentId": "main", "sessionKey": "agent:other:main" });
    assert_eq!(asker.exec(&request).await["error"]["reason"], "invalid");
    let question = json!({ "command": "true", "agentId": "main", "sessionKey": "agent:other:main" });
    assert_eq!(asker.ask(&question).await, "deny");
    assert!(server.operator().pending().await.is_empty());
}

#[tokio::test]
async fn an_attached_decision_is_believed_where_the_settings_say_so() {
    let server = TestServer::asking()
        .toml("[ipc]\ntrust_attached = true\n")
        .with_socket()
        .start()
        .await;
    let reply = Asker::of(&server)
        .exec(&json!({ "command": ["echo", "x"], "approvalDecision": "allow-once" }))
        .await;
    assert_eq!(reply["payload"]["stdout"], "x\n", "{reply}");
}

#[tokio::test]
async fn silence_never_starts_what_a_peer_wants() {
    let server = TestServer::full()
        .exec(&json!({ "host": "gateway", "security": "full", "ask": "always" }))
        .document(&json!({ "version": 1, "defaults": { "askFallback": "full" }, "agents": {} }))
        .toml("[approvals]\ntimeout_ms = 1000\n")
        .with_socket()
        .start()
        .await;
    let asker = Asker::of(&server);
    // Over the API the same silence lets it run.
    let api = server.agent().exec(json!({ "argv": ["true"] })).await;
    assert_eq!(api.expect(200)["status"], "completed");
    let reply = asker.exec(&json!({ "command": ["true"] })).await;
    assert_eq!(reply["error"]["reason"], "approval-cancelled", "{reply}");
    assert_eq!(asker.ask(&json!({ "command": "true" })).await, "deny");
}

#[tokio::test]
async fn version_2_proves_both_sides_and_seals_the_reply() {
    let server = TestServer::full()
        .toml("[ipc]\nrequire_v2 = true\n")
        .with_socket()
        .start()
        .await;
    let asker = Asker::of(&server);
    let plain = asker.exec(&json!({ "command": ["true"] })).await;
    assert_eq!(plain["error"]["reason"], "version");
    assert_eq!(asker.ask(&json!({ "command": "ls" })).await, "deny");
    let mut stream = asker.connect().await;
    let client = nonce();
    let hello = json!({ "type": "hello", "v": 2, "id": "h", "clientNonce": client, "ts": now_ms() });
    stream.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
    let challenge: Value = serde_json::from_str(&read_line(&mut stream).await.unwrap()).unwrap();
    let server_nonce = challenge.text("serverNonce");
    assert_eq!(
        challenge.text("proof"),
        mac(
            &asker.token,
            &format!("countersign-ipc/2:server:h:{client}:{server_nonce}")
        )
    );
    let (ts, text) = (now_ms(), json!({ "command": ["echo", "v2"] }).to_string());
    let hmac = mac(
        &asker.token,
        &format!("countersign-ipc/2:exec2:j:{client}:{server_nonce}:{ts}:{text}"),
    );
    let second = json!({ "type": "exec2", "id": "j", "ts": ts, "requestJson": text, "hmac": hmac });
    stream.write_all(format!("{second}\n").as_bytes()).await.unwrap();
    let all = replies(&mut stream).await;
    let [reply] = all.as_slice() else {
        panic!("{all:?}")
    };
    let body = reply.text("bodyJson");
    assert_eq!(
        reply.text("proof"),
        mac(
            &asker.token,
            &format!("countersign-ipc/2:reply:{server_nonce}:{body}")
        )
    );
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["payload"]["stdout"], "v2\n");
}

impl Asker {
    /// After a restart the host may need a moment to be found again; the socket itself is there when it is ready.
    async fn expect_alive_soon(&self, server: &TestServer) {
        assert!(server.is_running());
        let mut stream = self.connect().await;
        stream.write_all(b"[]\n").await.unwrap();
        assert_eq!(replies(&mut stream).await.len(), 2);
    }
}
