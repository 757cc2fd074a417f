//! What is told of runs on nodes, and by whom it is believed.

use countersign_domain::{Ask, RunStatus, Security};
use countersign_hosts::node::{InvokeFailure, NodeGeneration};
use serde_json::json;

use super::{
    fleet::{Member, id_of},
    world::{Call, World, ended, exec},
};

async fn with_node(generation: NodeGeneration) -> (World, String) {
    let world = World::new(exec(Security::Full, Ask::Off)).await;
    let id = world.fleet.join(Member::new("mill", generation));
    (world, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_run_on_a_node_is_told_of_once_with_the_texts_of_the_contract() {
    for generation in [
        NodeGeneration::First,
        NodeGeneration::Present,
        NodeGeneration::Ours,
    ] {
        let (world, node) = with_node(generation).await;
        let call = world.spawn(Call::argv(&["echo"]));
        let run = world.fleet.next_run().await;
        let id = run.id.clone();
        if generation == NodeGeneration::Ours {
            assert!(
                world
                    .fleet
                    .tell(&node, "exec.started", json!({ "runId": id, "sessionKey": "s" }))
            );
            world.reaches(&id, RunStatus::Running).await;
        }
        let finished =
            json!({ "runId": id, "sessionKey": "s", "exitCode": 2, "output": "out", "success": false });
        assert!(world.fleet.tell(&node, "exec.finished", finished.clone()));
        run.result(
            json!({ "exitCode": 2, "timedOut": false, "success": false, "stdout": "out\n", "stderr": "" }),
        );
        ended(call.await.unwrap());
        assert!(!world.fleet.tell(&node, "exec.finished", finished));
        assert_eq!(
            world.system_events_of(&id).await,
            [
                format!("Exec started (node={node}, id={id})"),
                format!("Exec finished (node={node}, id={id}, code=2)\nout"),
            ]
        );
        let kinds: Vec<String> = world
            .events_of(&id)
            .await
            .into_iter()
            .map(|(kind, data)| {
                assert_eq!(data["nodeId"], node.as_str());
                kind
            })
            .filter(|kind| kind.starts_with("exec."))
            .collect();
        assert_eq!(kinds, ["exec.requested", "exec.started", "exec.finished"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_a_node_is_told_as_a_denial() {
    let (world, node) = with_node(NodeGeneration::Present).await;
    let call = world.spawn(Call::argv(&["echo"]));
    let run = world.fleet.next_run().await;
    let id = run.id.clone();
    assert!(world.fleet.tell(
        &node,
        "exec.denied",
        json!({ "runId": id, "reason": "approval-required" })
    ));
    run.refuses("SYSTEM_RUN_DENIED", "SYSTEM_RUN_DENIED: approval required");
    call.await.unwrap().unwrap_err();
    let told = crate::support::eventually(
        "the denial in the session",
        || world.system_events_of(&id),
        |texts| !texts.is_empty(),
    )
    .await;
    assert_eq!(
        told,
        [format!("Exec denied (node={node}, id={id}, approval-required)")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_believed_about_a_run_that_is_not_its_own() {
    let (world, _) = with_node(NodeGeneration::Present).await;
    let call = world.spawn(Call::argv(&["echo"]));
    let run = world.fleet.next_run().await;
    let other = world.fleet.join(Member::new("other", NodeGeneration::Ours));
    for (event, payload) in [
        ("exec.started", json!({ "runId": run.id })),
        (
            "exec.finished",
            json!({ "runId": run.id, "exitCode": 0, "output": "forged" }),
        ),
        ("exec.denied", json!({ "runId": run.id, "reason": "user" })),
        ("exec.finished", json!({ "runId": "another" })),
        ("exec.finished", json!({ "runId": "../../x" })),
        ("exec.finished", json!([])),
        ("node.host.stats", json!({ "runId": run.id })),
    ] {
        assert!(!world.fleet.tell(&other, event, payload), "{event}");
    }
    run.says("mine");
    let (run, output) = ended(call.await.unwrap());
    assert_eq!((run.exit_code, output.stdout.as_str()), (Some(0), "mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_told_before_its_link_broke_counts() {
    let (world, node) = with_node(NodeGeneration::First).await;
    let call = world.spawn(Call::argv(&["echo"]));
    let run = world.fleet.next_run().await;
    let finished = json!({ "runId": run.id, "exitCode": 0, "success": true, "output": "said" });
    assert!(world.fleet.tell(&node, "exec.finished", finished));
    run.fails(InvokeFailure::Disconnected);
    let (run, output) = ended(call.await.unwrap());
    assert_eq!(
        (run.status, output.stdout.as_str()),
        (RunStatus::Completed, "said")
    );
    assert_eq!(run.node_id, Some(id_of("mill")));
}
