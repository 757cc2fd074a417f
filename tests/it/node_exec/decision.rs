//! Whose word counts about a run on a node.

use countersign_config::approvals::store::DocumentStatus;
use countersign_domain::{Ask, Reason, RunStatus, Security};
use countersign_engine::explain::Outcome;
use countersign_hosts::node::NodeGeneration;
use serde_json::{Value, json};

use super::{
    fleet::{Member, error},
    world::{Call, World, asker, denied, ended, exec},
};

const GENERATIONS: [NodeGeneration; 3] = [
    NodeGeneration::First,
    NodeGeneration::Present,
    NodeGeneration::Ours,
];

fn allows(pattern: &str) -> Value {
    json!({ "version": 1, "agents": { "main": { "allowlist": [{ "id": "6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
        "pattern": pattern }] } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_generation_is_driven_in_its_own_way_when_policy_lets_it_run() {
    for generation in GENERATIONS {
        let world = World::new(exec(Security::Full, Ask::Off)).await;
        world.fleet.join(Member::new("mill", generation));
        let call = world.spawn(Call::shell("echo 'a  b' | cat").with(|request| {
            request.timeout = Some(std::time::Duration::from_secs(5));
            request.env.insert("TZ".to_owned(), "UTC".to_owned());
        }));
        let run = world.fleet.next_run().await;
        let id = run.id.clone();
        assert_has!(run.params, { "command": ["/bin/sh", "-lc", "echo 'a  b' | cat"] });
        assert_eq!(run.params["rawCommand"], "echo 'a  b' | cat");
        assert_has!(run.params, { "timeoutMs": 5000, "env": { "TZ": "UTC" } });
        assert_eq!(run.params["runId"], id.as_str());
        assert_has!(run.params, { "agentId": "main", "sessionKey": "agent:main:main" });
        assert!(run.connection.is_some());
        let is_first = generation == NodeGeneration::First;
        assert_eq!(run.params.get("systemRunPlan").is_some(), !is_first);
        assert_eq!(run.text("approvalDecision"), is_first.then_some("allow-once"));
        assert_eq!(
            run.params.get("notAfterMs").is_some(),
            generation == NodeGeneration::Ours
        );
        run.says("a  b\n");
        let (run, _) = ended(call.await.unwrap());
        assert_eq!(run.id.as_str(), id);
        assert_eq!(run.cwd, if is_first { "." } else { "/home/node" });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_of_the_node_counts_and_that_of_this_machine_does_not() {
    // This machine would allow everything, the node nothing.
    let open = json!({ "version": 1, "defaults": { "security": "full", "ask": "off", "askFallback": "full" },
        "agents": { "main": { "allowlist": [{ "id": "6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "pattern": "/**" }] } } });
    let world = World::with(exec(Security::Allowlist, Ask::Off), Some(open), "").await;
    let closed = json!({ "version": 1, "defaults": { "security": "deny" } });
    let id = world
        .fleet
        .join(Member::new("mill", NodeGeneration::Ours).document(closed));
    let (reason, _, _) = denied(world.exec(Call::argv(&["echo", "hi"])).await);
    assert_eq!(reason, Reason::SecurityDeny);
    // The node has no entry, whatever this machine has.
    world
        .fleet
        .change(&id, |member| member.document = Some(json!({ "version": 1 })));
    let (reason, _, _) = denied(world.exec(Call::argv(&["echo", "hi"])).await);
    assert_eq!(reason, Reason::AllowlistMiss);
    world
        .fleet
        .change(&id, |member| member.document = Some(allows("/bin/echo")));
    let call = world.spawn(Call::argv(&["echo", "hi"]));
    let run = world.fleet.next_run().await;
    // The node decides by its own list: it sees its files.
    assert_eq!(run.params.get("approved"), None);
    run.says("hi");
    ended(call.await.unwrap());
    assert_eq!(world.fleet.runs_asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn deny_rules_of_both_machines_always_win() {
    let local =
        json!({ "version": 1, "agents": { "*": { "denylist": [{ "id": "d-1", "pattern": "rm" }] } } });
    let world = World::with(exec(Security::Full, Ask::Off), Some(local), "").await;
    let remote =
        json!({ "version": 1, "agents": { "*": { "denylist": [{ "id": "d-2", "pattern": "id" }] } } });
    let node = world
        .fleet
        .join(Member::new("mill", NodeGeneration::Ours).document(remote));
    for command in ["rm -rf /x", "env id -u", "/opt/x/rm y", "echo a; rm b"] {
        let (reason, _, _) = denied(world.exec(Call::shell(command)).await);
        assert_eq!(reason, Reason::Denylist, "{command}");
    }
    // The rule of this machine counts also where nothing is known of the node.
    world.fleet.change(&node, |member| member.document = None);
    let (reason, _, _) = denied(world.exec(Call::argv(&["rm", "x"])).await);
    assert_eq!(reason, Reason::Denylist);
    assert_eq!(world.fleet.runs_asked(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_cannot_be_read_denies_here_and_on_the_node() {
    let world = World::new(exec(Security::Full, Ask::Off)).await;
    let broken = json!({ "version": 7 });
    world
        .fleet
        .join(Member::new("mill", NodeGeneration::Ours).document(broken));
    let (reason, detail, _) = denied(world.exec(Call::argv(&["echo"])).await);
    assert_eq!(reason, Reason::DocumentRefused);
    assert!(detail.contains("node's own"), "{detail}");
    let world = World::with(exec(Security::Full, Ask::Off), Some(json!({ "version": 7 })), "").await;
    world.fleet.join(Member::new("mill", NodeGeneration::Ours));
    let (reason, _, _) = denied(world.exec(Call::argv(&["echo"])).await);
    assert_eq!(reason, Reason::DocumentRefused);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_document_is_not_to_be_had_our_own_layers_decide_and_explain_says_so() {
    let world = World::new(exec(Security::Allowlist, Ask::Off)).await;
    let id = world.fleet.join(Member::new("mill", NodeGeneration::Present));
    world.fleet.change(&id, |member| member.document = None);
    let (reason, _, _) = denied(world.exec(Call::argv(&["echo"])).await);
    assert_eq!(reason, Reason::AllowlistMiss);
    let explained = world
        .engine
        .explainer()
        .explain(&asker(), Call::argv(&["echo"]).0)
        .await
        .unwrap();
    let node = explained.node.expect("a node");
    assert_eq!((node.document, node.usable), (None, true));
    assert_eq!(explained.outcome, Outcome::Deny(Reason::AllowlistMiss));
    // Away, it is explained all the same, and not run.
    world.fleet.disconnect(&id);
    let explained = world
        .engine
        .explainer()
        .explain(&asker(), Call::argv(&["echo"]).on("mill").0)
        .await
        .unwrap();
    let node = explained.node.expect("a node");
    assert!(!node.usable && node.detail.unwrap().contains("not connected"));
    assert_eq!(node.node_id, Some(id));
    world.exec(Call::argv(&["echo"]).on("mill")).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_the_first_generation_whose_document_is_not_known_decides_by_its_own_gate() {
    let unknown = |member: &mut Member, how: &str| match how {
        "an error" => member.document = None,
        "garbage" => member.document = Some(json!("garbage")),
        _not_offered => member
            .info
            .commands
            .retain(|command| command != "system.execApprovals.get"),
    };
    for how in ["an error", "garbage", "not offered"] {
        let world = World::new(exec(Security::Full, Ask::Off)).await;
        let mut member = Member::new("mill", NodeGeneration::First);
        unknown(&mut member, how);
        world.fleet.join(member);
        let call = world.spawn(Call::argv(&["echo", "hi"]));
        let run = world.fleet.next_run().await;
        for absent in ["approved", "approvalDecision", "approvalSource"] {
            assert_eq!(run.params.get(absent), None, "{how}: {}", run.params);
        }
        run.refuses("UNAVAILABLE", "SYSTEM_RUN_DENIED: approval required");
        let (reason, _, _) = denied(call.await.unwrap());
        assert_eq!(reason, Reason::ApprovalRequired, "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_effective_policy_say_what_exec_does() {
    let world = World::new(exec(Security::Allowlist, Ask::Off)).await;
    world
        .fleet
        .join(Member::new("mill", NodeGeneration::Ours).document(allows("/bin/echo")));
    let explained = world
        .engine
        .explainer()
        .explain(&asker(), Call::argv(&["echo", "hi"]).0)
        .await
        .unwrap();
    assert_eq!(explained.outcome, Outcome::Run);
    assert_eq!(
        explained.node.as_ref().and_then(|node| node.document.clone()),
        Some(DocumentStatus::Ok)
    );
    let missed = world
        .engine
        .explainer()
        .explain(&asker(), Call::argv(&["id"]).0)
        .await
        .unwrap();
    assert_eq!(missed.outcome, Outcome::Deny(Reason::AllowlistMiss));
    assert_eq!(
        missed.analysis.segments[0].resolved_path.as_deref(),
        Some("/usr/bin/id")
    );
    assert_eq!(world.fleet.runs_asked(), 0);
    let request = Call::argv(&["x"]).0;
    let policy = world
        .engine
        .effective_policies()
        .of(&asker().actor, &request.agent, None, &request.session)
        .await;
    assert!(policy.on_node.expect("a node").usable);
    assert_eq!(policy.security.value, Security::Allowlist);
    let (reason, _, _) = denied(world.exec(Call::argv(&["id"])).await);
    assert_eq!(reason, Reason::AllowlistMiss);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_refuses_has_a_reason_of_the_closed_set() {
    let world = World::new(exec(Security::Full, Ask::Off)).await;
    world.fleet.join(Member::new("mill", NodeGeneration::Present));
    for (code, message, reason) in [
        (
            "SYSTEM_RUN_DENIED",
            "SYSTEM_RUN_DISABLED: security=deny",
            Reason::SecurityDeny,
        ),
        (
            "UNAVAILABLE",
            "SYSTEM_RUN_DENIED: approval required",
            Reason::ApprovalRequired,
        ),
        (
            "UNAVAILABLE",
            "SYSTEM_RUN_DENIED: allowlist miss",
            Reason::AllowlistMiss,
        ),
        (
            "SYSTEM_RUN_DENIED",
            "SYSTEM_RUN_DENIED: execution plan mismatch",
            Reason::BindingMismatch,
        ),
        (
            "UNAVAILABLE",
            "COMPANION_APP_UNAVAILABLE: gone",
            Reason::NodeRefused,
        ),
    ] {
        let call = world.spawn(Call::argv(&["echo"]));
        world.fleet.next_run().await.refuses(code, message);
        let (found, detail, id) = denied(call.await.unwrap());
        assert_eq!(found, reason, "{message}");
        assert!(detail.starts_with("the node said: "), "{detail}");
        assert_eq!(world.run(&id).await.status, RunStatus::Denied);
    }
    let call = world.spawn(Call::argv(&["echo"]));
    world
        .fleet
        .next_run()
        .await
        .refuses("INVALID_REQUEST", "rawCommand does not match command");
    let (run, _) = ended(call.await.unwrap());
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Failed, Some(Reason::InvokeFailed))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_would_not_even_prepare_is_denied_before_anybody_is_asked() {
    let mut world = World::new(exec(Security::Full, Ask::Always)).await;
    world.open_page();
    let id = world.fleet.join(Member::new("mill", NodeGeneration::Present));
    for (plan, reason) in [
        (
            Err(error("SYSTEM_RUN_DENIED", "SYSTEM_RUN_DISABLED: security=deny")),
            Reason::SecurityDeny,
        ),
        (
            Err(error("INVALID_REQUEST", "no such directory")),
            Reason::NodeRefused,
        ),
        (Ok(json!({ "plan": "none" })), Reason::NodeRefused),
        (
            Ok(json!({ "plan": { "argv": ["x"], "commandText": "x", "agentId": "another" } })),
            Reason::NodeRefused,
        ),
    ] {
        world.fleet.change(&id, |member| member.plan = Some(plan));
        let (found, _, _) = denied(world.exec(Call::argv(&["echo"])).await);
        assert_eq!(found, reason);
    }
    assert_eq!(world.fleet.runs_asked(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_no_plan_runs_where_a_node_makes_none_unless_it_denies() {
    let world = World::new(exec(Security::Full, Ask::Off)).await;
    let id = world.fleet.join(Member::new("mill", NodeGeneration::Present));
    let cannot = || {
        error(
            "SYSTEM_RUN_DENIED",
            "SYSTEM_RUN_DENIED: approval cannot safely bind this command",
        )
    };
    world
        .fleet
        .change(&id, |member| member.plan = Some(Err(cannot())));
    let call = world.spawn(Call::shell("echo a; echo b"));
    let asked = world.fleet.next_run().await;
    for absent in ["systemRunPlan", "approved", "approvalDecision", "approvalSource"] {
        assert!(asked.params.get(absent).is_none(), "{}", asked.params);
    }
    asked.says("a\nb\n");
    let (run, _) = ended(call.await.unwrap());
    assert_eq!(run.status, RunStatus::Completed);

    world.fleet.change(&id, |member| {
        member.plan = Some(Err(error(
            "SYSTEM_RUN_DENIED",
            "SYSTEM_RUN_DISABLED: security=deny",
        )));
    });
    let (reason, _, _) = denied(world.exec(Call::shell("echo a; echo b")).await);
    assert_eq!(reason, Reason::SecurityDeny);

    // What rests on an allowlist rests on names, and without a plan nobody knows what they mean there.
    let world = World::new(exec(Security::Allowlist, Ask::Off)).await;
    let member = Member::new("mill", NodeGeneration::Present).document(allows("/bin/echo"));
    let id = world.fleet.join(member);
    world
        .fleet
        .change(&id, |member| member.plan = Some(Err(cannot())));
    let (reason, _, _) = denied(world.exec(Call::argv(&["echo"])).await);
    assert_eq!(reason, Reason::NodeRefused);
}
