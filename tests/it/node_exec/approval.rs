//! A person's answer on its way to a node.

use countersign_domain::{ApprovalDecision, Ask, Reason, RunStatus, Security};
use countersign_hosts::node::NodeGeneration;
use serde_json::json;

use super::{
    fleet::Member,
    world::{Call, World, denied, ended, exec, pending},
};

async fn asking() -> World {
    let mut world = World::with(
        exec(Security::Allowlist, Ask::OnMiss),
        None,
        "[approvals]\nstart_by_ms = 5000\n",
    )
    .await;
    world.open_page();
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_goes_to_the_node_with_the_plan_that_it_is_bound_to() {
    for (generation, decision, told) in [
        (NodeGeneration::Present, ApprovalDecision::AllowOnce, "allow-once"),
        (
            NodeGeneration::Ours,
            ApprovalDecision::AllowAlways,
            "allow-always",
        ),
        (NodeGeneration::First, ApprovalDecision::AllowOnce, "allow-once"),
    ] {
        let world = asking().await;
        let node = world.fleet.join(Member::new("mill", generation));
        let approval = pending(world.exec(Call::argv(&["echo", "hi"])).await);
        assert_eq!(approval.card.binding.node_id.as_deref(), Some(&*node));
        let offered = approval
            .card
            .allowed_decisions
            .contains(&ApprovalDecision::AllowAlways);
        assert_eq!(offered, generation != NodeGeneration::First);
        assert_eq!(world.fleet.runs_asked(), 0);
        world.decide(&approval, decision).await;
        let run = world.fleet.next_run().await;
        assert_eq!(run.params["approved"], true);
        assert_eq!(run.text("approvalDecision"), Some(told));
        assert_eq!(
            run.params.get("systemRunPlan").is_some(),
            generation != NodeGeneration::First
        );
        let id = run.id.clone();
        run.says("hi");
        world.reaches(&id, RunStatus::Completed).await;
        // What the node stores is not stored here.
        let document = world.state().join("exec-approvals.json");
        assert!(!document.exists(), "{document:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_plan_than_the_approved_one_is_a_mismatch_and_nothing_runs() {
    let world = asking().await;
    let node = world.fleet.join(Member::new("mill", NodeGeneration::Present));
    let approval = pending(world.exec(Call::argv(&["echo", "hi"])).await);
    world.fleet.change(&node, |member| {
        member.plan = Some(Ok(
            json!({ "plan": { "argv": ["/opt/evil/echo", "hi"], "cwd": "/home/node",
            "commandText": "/opt/evil/echo hi", "agentId": "main", "sessionKey": "agent:main:main" } }),
        ));
    });
    world.decide(&approval, ApprovalDecision::AllowOnce).await;
    let run = world.reaches(approval.run_id.as_str(), RunStatus::Denied).await;
    assert_eq!(run.reason, Some(Reason::BindingMismatch));
    assert_eq!(world.fleet.runs_asked(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_waits_for_a_node_that_is_away_as_long_as_it_may_start() {
    let world = asking().await;
    let node = world.fleet.join(Member::new("mill", NodeGeneration::Present));
    let approval = pending(world.exec(Call::argv(&["echo", "hi"])).await);
    world.fleet.disconnect(&node);
    world.decide(&approval, ApprovalDecision::AllowOnce).await;
    world.fleet.connect(&node);
    let run = world.fleet.next_run().await;
    let id = run.id.clone();
    run.says("hi");
    world.reaches(&id, RunStatus::Completed).await;
    // The next one finds nobody in time.
    let approval = pending(world.exec(Call::argv(&["echo", "hi"])).await);
    world.fleet.disconnect(&node);
    world.decide(&approval, ApprovalDecision::AllowOnce).await;
    let run = world.reaches(approval.run_id.as_str(), RunStatus::Failed).await;
    assert_eq!(run.reason, Some(Reason::NotStarted));
    assert_eq!(world.fleet.runs_asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_became_stricter_on_the_node_holds_an_answer_back() {
    let world = asking().await;
    let node = world.fleet.join(Member::new("mill", NodeGeneration::Ours));
    let approval = pending(world.exec(Call::argv(&["echo", "hi"])).await);
    world.fleet.change(&node, |member| {
        member.document = Some(json!({ "version": 1, "defaults": { "security": "deny" } }));
    });
    world.decide(&approval, ApprovalDecision::AllowOnce).await;
    let run = world.reaches(approval.run_id.as_str(), RunStatus::Denied).await;
    assert_eq!(run.reason, Some(Reason::SecurityDeny));
    assert_eq!(world.fleet.runs_asked(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_nobody_can_be_asked_the_fallback_of_the_node_decides() {
    for (generation, fallback, runs) in [
        (NodeGeneration::First, "full", true),
        (NodeGeneration::Present, "full", true),
        (NodeGeneration::Ours, "full", true),
        (NodeGeneration::Ours, "allowlist", false),
        (NodeGeneration::Present, "deny", false),
    ] {
        let world = World::new(exec(Security::Full, Ask::Always)).await;
        let document = json!({ "version": 1, "defaults": { "askFallback": fallback } });
        world
            .fleet
            .join(Member::new("mill", generation).document(document));
        let call = world.spawn(Call::argv(&["echo", "hi"]));
        if !runs {
            let (reason, _, _) = denied(call.await.unwrap());
            assert!(
                matches!(reason, Reason::NoApprover | Reason::AllowlistMiss),
                "{reason}"
            );
            continue;
        }
        let run = world.fleet.next_run().await;
        assert_eq!(run.text("approvalSource"), Some("ask-fallback"));
        assert_eq!(
            run.params.get("approved").is_some(),
            generation == NodeGeneration::First
        );
        run.says("");
        let (run, _) = ended(call.await.unwrap());
        assert_eq!(
            run.decision.map(|decision| decision.by.as_str()),
            Some("fallback")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_for_a_program_counts_for_whatever_a_node_may_call_so() {
    let mut world = World::with(
        exec(Security::Allowlist, Ask::OnMiss),
        None,
        "[[approvals.rules]]\nhosts = [\"node\"]\npatterns = [\"/usr/local/bin/kubectl\"]\napprovals_required = 2\n",
    )
    .await;
    world.open_page();
    world.fleet.join(Member::new("mill", NodeGeneration::Present));
    let approval = pending(world.exec(Call::argv(&["echo", "hi"])).await);
    assert_eq!(approval.card.quorum.required, 2);
    world.decide(&approval, ApprovalDecision::Deny).await;
    let run = world.reaches(approval.run_id.as_str(), RunStatus::Denied).await;
    assert_eq!(run.reason, Some(Reason::UserDenied));
}
