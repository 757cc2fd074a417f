//! Which node a call reaches.

use countersign_domain::{Ask, Command, RunStatus, Security};
use countersign_engine::reply::ExecError;
use countersign_hosts::node::{InvokeFailure, NodeGeneration};
use serde_json::json;

use super::{
    fleet::{Member, id_of},
    world::{Call, World, ended, exec},
};

fn full() -> serde_json::Value {
    exec(Security::Full, Ask::Off)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_reaches_the_node_that_it_names_and_no_other() {
    let world = World::new(full()).await;
    world.fleet.join(Member::new("mill", NodeGeneration::Present));
    world.fleet.join(Member::new("attic", NodeGeneration::First));
    for (name, node) in [("mill", "mill"), ("ATTIC!", "attic"), (&*id_of("attic"), "attic")] {
        let call = world.spawn(Call::argv(&["echo", "hi"]).on(name));
        let run = world.fleet.next_run().await;
        assert_eq!(run.node_id, id_of(node));
        run.says("hi\n");
        let (run, output) = ended(call.await.unwrap());
        assert_eq!(
            (run.status, run.node_id),
            (RunStatus::Completed, Some(id_of(node)))
        );
        assert_eq!((run.host.as_str(), run.isolation.as_str()), ("node", "node"));
        assert_eq!(output.stdout, "hi\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_several_and_unknown_ones_are_told_apart_and_nothing_is_sent() {
    let world = World::new(full()).await;
    let none = world.exec(Call::argv(&["echo"])).await.unwrap_err();
    assert!(matches!(none, ExecError::NodeUnavailable { .. }), "{none:?}");
    world.fleet.join(Member::new("mill", NodeGeneration::Present));
    world.fleet.join(Member::new("attic", NodeGeneration::First));
    world.fleet.pair(Member::new("cellar", NodeGeneration::Ours));
    let several = world.exec(Call::argv(&["echo"])).await.unwrap_err();
    let ExecError::NodeAmbiguous { candidates, .. } = several else {
        panic!("{several:?}");
    };
    // One that is away is no candidate.
    assert_eq!(candidates.len(), 2);
    let unknown = world.exec(Call::argv(&["echo"]).on("barn")).await.unwrap_err();
    assert!(matches!(unknown, ExecError::NodeNotFound { .. }), "{unknown:?}");
    let away = world.exec(Call::argv(&["echo"]).on("cellar")).await.unwrap_err();
    assert!(
        matches!(&away, ExecError::NodeUnavailable { detail, failure: InvokeFailure::NotConnected }
            if detail.contains("cellar")),
        "{away:?}"
    );
    let elsewhere = world
        .exec(
            Call::argv(&["echo"])
                .on("mill")
                .with(|request| request.workdir = Some("x".to_owned())),
        )
        .await
        .unwrap_err();
    assert!(
        matches!(elsewhere, ExecError::WorkdirUnavailable { .. }),
        "{elsewhere:?}"
    );
    let patch = Command::patch("*** Begin Patch\n*** End Patch".to_owned()).unwrap();
    let patch = world
        .exec(
            Call::argv(&["x"])
                .on("mill")
                .with(|request| request.command = patch),
        )
        .await
        .unwrap_err();
    assert!(
        matches!(patch, ExecError::InvalidRequest { path: "host", .. }),
        "{patch:?}"
    );
    assert_eq!(world.fleet.runs_asked(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_below_its_home_is_for_the_node_to_find() {
    for (generation, found) in [
        (NodeGeneration::First, None),
        (NodeGeneration::Present, Some("/home/node/x")),
    ] {
        let world = World::new(full()).await;
        let mut member = Member::new("mill", generation);
        member.plan = found.map(|cwd| {
            Ok(
                json!({ "plan": { "argv": ["echo"], "cwd": cwd, "commandText": "echo", "agentId": "main",
                "sessionKey": "agent:main:main" } }),
            )
        });
        world.fleet.join(member);
        let call = world.spawn(Call::argv(&["echo"]).with(|request| {
            request.workdir = Some("~/x".to_owned());
        }));
        let run = world.fleet.next_run().await;
        let cwd = found.unwrap_or("~/x");
        assert_eq!(run.text("cwd"), Some(cwd));
        run.says("");
        let (run, _) = ended(call.await.unwrap());
        assert_eq!(run.cwd, cwd);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_agent_runs_on_its_node_alone() {
    let mut config = full();
    config["node"] = json!("attic");
    let world = World::new(config).await;
    world.fleet.join(Member::new("mill", NodeGeneration::Present));
    world.fleet.join(Member::new("attic", NodeGeneration::Present));
    let other = world.exec(Call::argv(&["echo"]).on("mill")).await.unwrap_err();
    assert!(
        matches!(&other, ExecError::ConfigConflict { detail } if detail.contains("tools.exec.node")),
        "{other:?}"
    );
    let call = world.spawn(Call::argv(&["echo"]));
    let run = world.fleet.next_run().await;
    assert_eq!(run.node_id, id_of("attic"));
    run.says("");
    ended(call.await.unwrap());
    world.fleet.disconnect(&id_of("attic"));
    let away = world.exec(Call::argv(&["echo"])).await.unwrap_err();
    assert!(matches!(away, ExecError::NodeUnavailable { .. }), "{away:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_never_left_ends_as_not_started() {
    let world = World::new(full()).await;
    world.fleet.join(Member::new("mill", NodeGeneration::Present));
    for failure in [InvokeFailure::NotConnected, InvokeFailure::Full] {
        let call = world.spawn(Call::argv(&["echo"]));
        world.fleet.next_run().await.fails(failure);
        let (run, _) = ended(call.await.unwrap());
        assert_eq!(run.status, RunStatus::Failed);
        assert_eq!(
            run.reason.map(countersign_domain::Reason::as_str),
            Some("not-started")
        );
    }
}
