//! The node's own policy counts, whatever its gateway says.

use serde_json::{Value, json};

use super::{
    gateway::{Gateway, Outcome},
    scene::TestNode,
    stage::Stage,
};
use crate::support::{assert_says, skip, write_file_mode};

const REQUIRED: &str = "SYSTEM_RUN_DENIED: approval required";

/// A node that asks about what is not on its list.
async fn asking() -> Stage {
    Stage::with_policy(json!({"security": "allowlist", "ask": "on-miss"}), None).await
}

#[track_caller]
fn denied(outcome: Outcome, message: &str) {
    assert_eq!(
        outcome.failed(),
        ("SYSTEM_RUN_DENIED".to_owned(), message.to_owned())
    );
}

/// The call that brings a plan back.
fn with_plan(plan: &Value) -> Value {
    json!({"command": plan["argv"], "rawCommand": plan["commandText"], "cwd": plan["cwd"], "agentId": plan["agentId"],
        "sessionKey": plan["sessionKey"], "systemRunPlan": plan, "approved": true, "approvalDecision": "allow-once"})
}

#[tokio::test]
async fn nothing_runs_until_somebody_at_the_node_says_so() {
    let mut stage = Stage::with_policy(json!({}), None).await;
    let params = json!({"command": ["echo", "hi"], "approved": true, "approvalDecision": "allow-always"});
    denied(stage.run(&params).await, "SYSTEM_RUN_DISABLED: security=deny");
    let event = stage.peer.event("exec.denied").await;
    assert_eq!(event["payload"]["reason"], "security=deny");
    let plan = stage.plan(&json!({"command": ["echo", "hi"]})).await;
    assert_eq!(plan["execPolicy"], json!({"security": "deny", "ask": "on-miss"}));
}

#[tokio::test]
async fn a_miss_needs_an_approval_and_a_list_without_questions_none() {
    let mut stage = asking().await;
    denied(stage.run(&json!({"command": ["id"]})).await, REQUIRED);
    let event = stage.peer.event("exec.denied").await;
    assert_eq!(event["payload"]["reason"], "approval-required");
    let mut stage = Stage::with_policy(json!({"security": "allowlist", "ask": "off"}), None).await;
    denied(
        stage.run(&json!({"command": ["id"]})).await,
        "SYSTEM_RUN_DENIED: allowlist miss",
    );
    // An approval does not lift a list that nobody may be asked about.
    let params = json!({"command": ["id"], "approved": true});
    denied(stage.run(&params).await, "SYSTEM_RUN_DENIED: allowlist miss");
}

#[tokio::test]
async fn an_approval_of_the_gateway_answers_the_question_once() {
    let mut stage = asking().await;
    let ran = stage
        .run(&json!({"command": ["id", "-u"], "approved": true}))
        .await
        .done();
    assert_eq!(ran["success"], true);
    denied(stage.run(&json!({"command": ["id", "-u"]})).await, REQUIRED);
    for word in [json!("deny"), json!("allow"), json!(true), json!(null)] {
        let params = json!({"command": ["id", "-u"], "approvalDecision": word, "approved": false});
        denied(stage.run(&params).await, REQUIRED);
    }
    let params = json!({"command": ["id", "-u"], "approvalSource": "auto-review"});
    denied(stage.run(&params).await, REQUIRED);
}

#[tokio::test]
async fn allow_always_is_remembered_in_the_nodes_document() {
    let mut stage = asking().await;
    let params = json!({"command": ["id", "-u"], "cwd": "/", "approvalDecision": "allow-always"});
    assert_eq!(stage.run(&params).await.done()["success"], true);
    let ran = stage
        .run(&json!({"command": ["id", "-u"], "cwd": "/"}))
        .await
        .done();
    assert_eq!(ran["success"], true);
    denied(
        stage.run(&json!({"command": ["id", "-g"], "cwd": "/"})).await,
        REQUIRED,
    );
    let document = std::fs::read_to_string(stage.node.state().join("exec-approvals.json")).unwrap();
    assert_says(&document, "allow-always");
    assert_says(&document, "/id\"");
}

#[tokio::test]
async fn deny_rules_and_the_document_of_the_node_win() {
    let document = json!({"version": 1, "agents": {"*": {"denylist": [{"id": "d", "pattern": "id"}]}}});
    let mut stage = Stage::with_policy(json!({"security": "full", "ask": "off"}), Some(document)).await;
    denied(
        stage.run(&json!({"command": ["id"], "approved": true})).await,
        "SYSTEM_RUN_DISABLED: security=deny",
    );
    let wrapped = json!({"command": ["/bin/sh", "-lc", "true && id"], "approved": true});
    denied(stage.run(&wrapped).await, "SYSTEM_RUN_DISABLED: security=deny");
    let document = json!({"version": 1, "defaults": {"security": "deny"}, "agents": {}});
    let mut stage = Stage::with_policy(json!({"security": "full", "ask": "off"}), Some(document)).await;
    denied(
        stage.run(&json!({"command": ["id"]})).await,
        "SYSTEM_RUN_DISABLED: security=deny",
    );
}

#[tokio::test]
async fn shells_are_judged_by_what_they_run() {
    let document = json!({"version": 1, "agents": {"main": {"allowlist": [{"pattern": "/usr/bin/id"}, {"pattern": "/bin/id"}]}}});
    let exec = json!({"security": "allowlist", "ask": "on-miss"});
    let mut stage = Stage::with_policy(exec, Some(document)).await;
    let shell = |text: &str| json!({"command": ["/bin/sh", "-lc", text], "rawCommand": text});
    assert_has!(stage.run(&json!({"command": ["id"]})).await.done(), { "success": true });
    // A gateway sends a text like this; under an allowlist its commands are run, and no shell.
    assert_eq!(stage.run(&shell("id -u; id")).await.done()["success"], true);
    denied(
        stage.run(&json!({"command": ["/bin/bash", "-lc", "id"]})).await,
        REQUIRED,
    );
    denied(stage.run(&shell("id; touch /tmp/x")).await, REQUIRED);
    denied(stage.run(&shell("id $(touch /tmp/x)")).await, REQUIRED);
    denied(
        stage
            .run(&json!({"command": ["/bin/sh", "-lc", "touch /tmp/x", "id"]}))
            .await,
        REQUIRED,
    );
}

/// `find` starts another program here, which its entry lets it do or not.
async fn find_that_touches(stage: &mut Stage) -> (Outcome, bool) {
    let directory = stage.node.scratch.dir("found");
    let marker = directory.join("marker");
    let (directory, marker_text) = (directory.to_str().unwrap(), marker.to_str().unwrap());
    let params =
        json!({"command": ["find", directory, "-maxdepth", "0", "-exec", "touch", marker_text, ";"]});
    let outcome = stage.run(&params).await;
    (outcome, marker.exists())
}

fn find_with(confine: &Value) -> Value {
    let entry = json!({"pattern": "/usr/bin/find", "confine": confine});
    json!({"version": 1, "agents": {"main": {"allowlist": [entry]}}})
}

#[tokio::test]
async fn the_kernel_of_the_node_keeps_what_its_document_says() {
    if countersign_sys::landlock::version() < countersign_sys::landlock::FILES_SINCE {
        skip("a kernel with Landlock");
        return;
    }
    let exec = json!({"security": "allowlist", "ask": "on-miss"});
    let mut stage = Stage::with_policy(exec.clone(), Some(find_with(&json!({"starts": []})))).await;
    let (outcome, is_marked) = find_that_touches(&mut stage).await;
    let ran = outcome.done();
    assert_says(ran["stderr"].as_str().unwrap(), "Permission denied");
    assert!(!is_marked, "{ran}");
    let mut stage = Stage::with_policy(exec.clone(), Some(find_with(&json!({"starts": ["touch"]})))).await;
    let (outcome, is_marked) = find_that_touches(&mut stage).await;
    assert_eq!(outcome.done()["success"], true);
    assert!(is_marked);
    // Where the kernel of the node cannot keep it, the entry covers nothing.
    let node = TestNode::new(&exec, Some(&find_with(&json!({"starts": ["touch"]}))))
        .env("COUNTERSIGN_TEST_PROTECTION_OFF", "landlock-0");
    let mut stage = Stage::of(node).await;
    let (outcome, is_marked) = find_that_touches(&mut stage).await;
    denied(outcome, REQUIRED);
    assert!(!is_marked);
}

#[tokio::test]
async fn an_unanswered_question_falls_back_as_the_node_says() {
    let fallback = |fallback: &str| {
        json!({"version": 1, "defaults": {"askFallback": fallback}, "agents": {
        "main": {"allowlist": [{"pattern": "/usr/bin/id"}, {"pattern": "/bin/id"}]}}})
    };
    let unanswered = |command: &str| json!({"command": [command], "approvalSource": "ask-fallback"});
    let exec = |security: &str, ask: &str| json!({"security": security, "ask": ask});

    let mut stage = Stage::with_policy(exec("full", "always"), Some(fallback("deny"))).await;
    denied(
        stage.run(&unanswered("id")).await,
        "SYSTEM_RUN_DISABLED: security=deny",
    );
    let mut stage = Stage::with_policy(exec("full", "always"), Some(fallback("allowlist"))).await;
    assert_eq!(stage.run(&unanswered("id")).await.done()["success"], true);
    denied(
        stage.run(&unanswered("uname")).await,
        "SYSTEM_RUN_DENIED: allowlist miss",
    );
    let mut stage = Stage::with_policy(exec("full", "always"), Some(fallback("full"))).await;
    assert_eq!(stage.run(&unanswered("uname")).await.done()["success"], true);
    // The fallback is never looser than the policy itself.
    let mut stage = Stage::with_policy(exec("allowlist", "on-miss"), Some(fallback("full"))).await;
    denied(
        stage.run(&unanswered("uname")).await,
        "SYSTEM_RUN_DENIED: allowlist miss",
    );
    // It is a word of the gateway about its own question; ours still needs an answer without it.
    denied(stage.run(&json!({"command": ["uname"]})).await, REQUIRED);
}

#[tokio::test]
async fn a_plan_is_what_runs() {
    let mut stage = asking().await;
    let asked =
        json!({"command": ["echo", "a b"], "cwd": "/", "agentId": "main", "sessionKey": "agent:main:main"});
    let prepared = stage.plan(&asked).await;
    let plan = &prepared["plan"];
    assert!(plan["argv"][0].as_str().unwrap().starts_with('/'));
    assert_eq!(
        plan["commandText"],
        format!("{} \"a b\"", plan["argv"][0].as_str().unwrap())
    );
    assert_has!(plan, { "cwd": "/", "agentId": "main", "sessionKey": "agent:main:main" });
    assert_eq!(
        plan["policySnapshot"],
        json!({"security": "allowlist", "ask": "on-miss", "askFallback": "deny", "autoAllowSkills": false,
            "allowlistRules": []})
    );
    assert_has!(prepared, { "execPolicy": {"security": "allowlist", "ask": "on-miss"} });
    assert_eq!(prepared["allowAlwaysCoverage"]["complete"], true);
    assert_eq!(stage.run(&with_plan(plan)).await.done()["stdout"], "a b\n");
    for (member, other) in [
        ("command", json!(["/bin/echo", "else"])),
        ("cwd", json!("/tmp")),
        ("agentId", json!(null)),
        ("sessionKey", json!("agent:main:other")),
    ] {
        let mut changed = with_plan(plan);
        changed[member] = other;
        changed.as_object_mut().unwrap().remove("rawCommand");
        denied(
            stage.run(&changed).await,
            "SYSTEM_RUN_DENIED: execution plan mismatch",
        );
        let event = stage.peer.event("exec.denied").await;
        assert_eq!(event["payload"]["reason"], "execution-plan-miss", "{member}");
    }
    let mut nonsense = with_plan(plan);
    nonsense["systemRunPlan"] = json!("trust me");
    assert_eq!(stage.run(&nonsense).await.failed().0, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_script_that_changed_after_the_plan_does_not_run() {
    let mut stage = asking().await;
    let script = stage.node.scratch.join("script.sh");
    let write = |text: &str| write_file_mode(&script, text, 0o700);
    write("#!/bin/sh\necho one\n");
    let asked = json!({"command": ["/bin/sh", script], "cwd": "/", "agentId": "main", "sessionKey": "agent:main:main"});
    let plan = stage.plan(&asked).await["plan"].clone();
    assert_eq!(plan["mutableFileOperand"]["argvIndex"], 1, "{plan}");
    assert_eq!(stage.run(&with_plan(&plan)).await.done()["stdout"], "one\n");
    write("#!/bin/sh\necho two\n");
    denied(
        stage.run(&with_plan(&plan)).await,
        "SYSTEM_RUN_DENIED: execution plan mismatch",
    );
}

/// A node that runs everything without asking, one command at a time, and one that runs until there is a file `go`.
async fn occupied() -> Stage {
    let node = TestNode::open();
    write_file_mode(
        &node.state().join("countersign/countersign.toml"),
        "[exec]\nlogin_path = false\n[limits]\nmax_running = 1\n",
        0o600,
    );
    let mut stage = Stage::of(node).await;
    let (started, go) = (stage.node.scratch.join("started"), stage.node.scratch.join("go"));
    let script = format!(
        "echo x >> {}; until [ -e {} ]; do sleep 0.02; done",
        started.display(),
        go.display()
    );
    let params = json!({"command": ["/bin/sh", "-c", script]});
    stage.peer.invoke(&stage.id, "first", "system.run", &params).await;
    stage.node.has_lines("started", 1).await;
    stage
}

impl Stage {
    /// Sends a call that has to wait for its place, and lets the one before it end after `meanwhile`.
    async fn run_behind(&mut self, params: &Value, asked: &Value, meanwhile: impl FnOnce(&Self)) -> Outcome {
        self.peer.invoke(&self.id, "second", "system.run", params).await;
        // Each of these takes as long as the look before the wait.
        for _ in 0..5 {
            self.plan(asked).await;
        }
        meanwhile(self);
        write_file_mode(&self.node.scratch.join("go"), "", 0o600);
        let [first, second] = self.peer.results(["first", "second"]).await;
        assert_eq!(first.done()["success"], true);
        second
    }
}

#[tokio::test]
async fn a_script_that_is_exchanged_while_its_run_waits_for_a_place_does_not_run() {
    for is_exchanged in [false, true] {
        let mut stage = occupied().await;
        let script = stage.node.scratch.join("script.sh");
        write_file_mode(&script, "echo one\n", 0o600);
        let asked = json!({"command": ["/bin/sh", script], "cwd": "/", "agentId": "main", "sessionKey": "agent:main:main"});
        // Also where nobody is asked a plan says what would be run.
        let plan = stage.plan(&asked).await["plan"].clone();
        assert_eq!(plan["mutableFileOperand"]["argvIndex"], 1, "{plan}");
        let outcome = stage
            .run_behind(&with_plan(&plan), &asked, |_| {
                if is_exchanged {
                    write_file_mode(&script, "echo two\n", 0o600);
                }
            })
            .await;
        if is_exchanged {
            denied(outcome, "SYSTEM_RUN_DENIED: execution plan mismatch");
        } else {
            assert_eq!(outcome.done()["stdout"], "one\n");
        }
    }
}

#[tokio::test]
async fn a_policy_that_becomes_stricter_while_a_run_waits_for_a_place_wants_another_answer() {
    let mut stage = occupied().await;
    let asked =
        json!({"command": ["echo", "x"], "cwd": "/", "agentId": "main", "sessionKey": "agent:main:main"});
    let plan = stage.plan(&asked).await["plan"].clone();
    let outcome = stage
        .run_behind(&with_plan(&plan), &asked, |stage| {
            let config = json!({"tools": {"exec": {"security": "allowlist", "ask": "on-miss"}}});
            write_file_mode(
                &stage.node.state().join("openclaw.json"),
                config.to_string(),
                0o600,
            );
        })
        .await;
    denied(outcome, REQUIRED);
}

#[tokio::test]
async fn a_policy_that_became_stricter_wants_another_answer() {
    let document = json!({"version": 1, "defaults": {"security": "full"}, "agents": {}});
    let mut stage = Stage::with_policy(json!({"security": "full", "ask": "always"}), Some(document)).await;
    let asked =
        json!({"command": ["echo", "x"], "cwd": "/", "agentId": "main", "sessionKey": "agent:main:main"});
    let plan = stage.plan(&asked).await["plan"].clone();
    assert_eq!(stage.run(&with_plan(&plan)).await.done()["success"], true);
    let hash = stage.call("system.execApprovals.get", &json!({})).await.done()["hash"].clone();
    let file = json!({"version": 1, "defaults": {"security": "allowlist"}, "agents": {}});
    stage
        .call(
            "system.execApprovals.set",
            &json!({"file": file, "baseHash": hash}),
        )
        .await
        .done();
    denied(stage.run(&with_plan(&plan)).await, REQUIRED);
}

#[tokio::test]
async fn settings_about_hosts_and_sandboxes_do_not_move_what_a_gateway_sends() {
    // A call of the gateway is for this machine; that the machine's own agents live in a sandbox is another matter.
    for exec in [
        json!({"host": "sandbox", "security": "allowlist", "ask": "on-miss", "onMiss": "sandbox"}),
        json!({"host": "node", "security": "allowlist", "ask": "on-miss"}),
    ] {
        let mut stage = Stage::with_policy(exec, None).await;
        denied(stage.run(&json!({"command": ["id"]})).await, REQUIRED);
        let ran = stage
            .run(&json!({"command": ["id"], "approved": true}))
            .await
            .done();
        assert_eq!(ran["success"], true);
    }
}

#[tokio::test]
async fn without_its_companion_nothing_runs_where_one_is_demanded() {
    for (name, value) in [
        ("OPENCLAW_NODE_EXEC_HOST", "app"),
        ("OPENCLAW_NODE_EXEC_FALLBACK", "0"),
    ] {
        let gateway = Gateway::new().await;
        let mut node = TestNode::open().env(name, value);
        let mut peer = node.connected(&gateway).await;
        peer.invoke(&node.id(), "c", "system.run", &json!({"command": ["id"]}))
            .await;
        assert_eq!(
            peer.result("c").await.failed(),
            (
                "UNAVAILABLE".to_owned(),
                "COMPANION_APP_UNAVAILABLE: macOS app exec host unreachable".to_owned()
            )
        );
        let event = peer.event("exec.denied").await;
        assert_eq!(event["payload"]["reason"], "companion-unavailable");
    }
}

/// A gateway of ours says that it is one; the rule of a refusal is for it alone.
#[tokio::test]
async fn only_a_gateway_of_ours_is_told_which_rule_refused() {
    let ours =
        json!({"protocol": 4, "features": {"methods": [], "events": [], "capabilities": ["countersign"]}});
    let other =
        json!({"protocol": 4, "features": {"methods": [], "events": [], "capabilities": ["something"]}});
    let denied = json!({"version": 1, "agents": {"main": {"security": "deny"}}});
    let listed = json!({"version": 1, "agents": {"*": {"denylist": [{"id": "d", "pattern": "id"}]}}});
    let open = json!({"security": "full", "ask": "off"});
    let file = |stage: &Stage, name: &str| stage.node.state().join(name).to_str().unwrap().to_owned();
    for (exec, document, expect, name) in [
        (
            open.clone(),
            Some(denied),
            json!({"reason": "security-deny", "layer": "document-agent", "key": "agents.main.security"}),
            "exec-approvals.json",
        ),
        (
            open,
            Some(listed),
            json!({"reason": "denylist", "layer": "document-wildcard", "key": "agents.*.denylist"}),
            "exec-approvals.json",
        ),
        (
            json!({"security": "deny"}),
            Some(json!({"version": 1, "defaults": {"security": "full", "ask": "off"}})),
            json!({"reason": "security-deny", "layer": "global", "key": "tools.exec.security"}),
            "openclaw.json",
        ),
        (
            json!({"security": "allowlist", "ask": "always"}),
            None,
            json!({"reason": "approval-required", "layer": "global", "key": "tools.exec.ask"}),
            "openclaw.json",
        ),
        (
            json!({"security": "full", "ask": "off"}),
            Some(json!({"version": 1, "defaults": {"security": "allowlist", "askFallback": "deny"}})),
            json!({"reason": "allowlist-miss", "layer": "document-defaults", "key": "defaults.security"}),
            "exec-approvals.json",
        ),
    ] {
        let mut told = Vec::new();
        for hello in [&ours, &other] {
            let mut stage = Stage::at(TestNode::new(&exec, document.as_ref()), hello).await;
            let outcome = stage.run(&json!({"command": ["id"], "runId": "r"})).await;
            let mut expect = expect.clone();
            expect["file"] = json!(file(&stage, name));
            let prepared = stage.plan(&json!({"command": ["id"]})).await;
            if hello == &ours {
                assert_eq!(outcome.rule, expect, "{outcome:?}");
                let would = &prepared["countersign"];
                let asks = expect["reason"] == "approval-required";
                assert_eq!(would, if asks { &Value::Null } else { &expect }, "{prepared}");
            } else {
                assert_eq!(outcome.rule, Value::Null, "{outcome:?}");
                assert_eq!(prepared.get("countersign"), None, "{prepared}");
            }
            told.push(outcome.failed());
        }
        // The words of the protocol are the same to both.
        assert_eq!(told[0], told[1]);
    }
}

#[tokio::test]
async fn the_rule_is_told_again_with_the_answer_and_by_the_question_what_became_of_it() {
    let ours =
        json!({"protocol": 4, "features": {"methods": [], "events": [], "capabilities": ["countersign"]}});
    let fallback = json!({"version": 1, "defaults": {"askFallback": "deny"}});
    let mut stage = Stage::at(
        TestNode::new(&json!({"security": "full", "ask": "always"}), Some(&fallback)),
        &ours,
    )
    .await;
    let params = json!({"command": ["id"], "approvalSource": "ask-fallback"});
    let rule = json!({
        "reason": "security-deny", "layer": "document-defaults", "key": "defaults.askFallback",
        "file": stage.node.state().join("exec-approvals.json"),
    });
    for _ in 0..2 {
        stage.peer.invoke(&stage.id, "again", "system.run", &params).await;
        assert_eq!(stage.peer.result("again").await.rule, rule);
    }
    let status = stage
        .call("countersign.run.status", &json!({"runId": "again"}))
        .await
        .done();
    assert_eq!(status["result"]["error"]["countersign"], rule, "{status}");
}

/// The record of a refused run has its reason alone; the rule is kept with the invocation.
#[tokio::test]
async fn the_rule_is_told_again_after_a_restart() {
    let ours =
        json!({"protocol": 4, "features": {"methods": [], "events": [], "capabilities": ["countersign"]}});
    let list = json!({"version": 1, "defaults": {"security": "allowlist", "askFallback": "allowlist"}});
    let gateway = Gateway::new().await;
    for (ask, reason) in [("off", "allowlist-miss"), ("always", "approval-required")] {
        let exec = json!({"security": "full", "ask": ask});
        let mut node = TestNode::new(&exec, Some(&list));
        node.start(&gateway);
        let mut peer = gateway.welcome_as(&ours).await;
        let params = json!({"command": ["id"]});
        peer.invoke(&node.id(), "once", "system.run", &params).await;
        let first = peer.result("once").await;
        assert_eq!(first.rule["reason"], reason, "{first:?}");
        assert!(first.rule["file"].is_string(), "{first:?}");
        node.kill().await;
        node.start(&gateway);
        let mut peer = gateway.welcome_as(&ours).await;
        peer.invoke(&node.id(), "once", "system.run", &params).await;
        assert_eq!(peer.result("once").await, first);
        node.kill().await;
    }
}
