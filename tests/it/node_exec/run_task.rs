//! From the call to the end of a run: results, lost links, late answers, restarts, cancels. Nothing is ever sent twice.

use std::time::Duration;

use countersign_domain::{Ask, Reason, RunId, RunStatus, Security};
use countersign_engine::{
    process::{Input, ProcessAction, ProcessCall, ProcessError, ProcessReply},
    reply::ExecReply,
};
use countersign_hosts::node::{InvokeFailure, InvokeResult, NodeGeneration};
use serde_json::{Value, json};

use super::{
    fleet::{Member, ended as answer, error, id_of},
    world::{Call, World, asker, ended, exec},
};

async fn with_node(generation: NodeGeneration) -> (World, String) {
    let world = World::new(exec(Security::Full, Ask::Off)).await;
    let id = world.fleet.join(Member::new("mill", generation));
    (world, id)
}

fn exited(code: i32, stdout: &str) -> Value {
    json!({ "exitCode": code, "timedOut": false, "success": code == 0, "stdout": stdout, "stderr": "", "error": null })
}

#[tokio::test(flavor = "multi_thread")]
async fn results_become_the_end_of_the_run() {
    let (world, _) = with_node(NodeGeneration::Present).await;
    for (result, status, reason, code) in [
        (exited(0, "x"), RunStatus::Completed, None, Some(0)),
        (exited(3, ""), RunStatus::Failed, None, Some(3)),
        (
            json!({ "exitCode": 124, "timedOut": true, "success": false, "stdout": "", "stderr": "" }),
            RunStatus::Failed,
            Some(Reason::Timeout),
            Some(124),
        ),
        (
            json!({ "timedOut": false, "success": false, "stdout": "", "stderr": "", "error": "spawn x ENOENT" }),
            RunStatus::Failed,
            Some(Reason::SpawnFailed),
            None,
        ),
        (
            json!({ "timedOut": false, "success": false, "stdout": "", "stderr": "", "error": null }),
            RunStatus::Failed,
            None,
            None,
        ),
        (
            json!("nonsense"),
            RunStatus::Failed,
            Some(Reason::InvokeFailed),
            None,
        ),
    ] {
        let call = world.spawn(Call::argv(&["echo"]));
        world.fleet.next_run().await.result(result.clone());
        let (run, _) = ended(call.await.unwrap());
        assert_eq!(
            (run.status, run.reason, run.exit_code),
            (status, reason, code),
            "{result}"
        );
        assert_eq!(run.timed_out, reason == Some(Reason::Timeout));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_output_is_kept_whole_and_shown_in_part() {
    let (world, _) = with_node(NodeGeneration::Present).await;
    let call = world.spawn(Call::argv(&["echo"]));
    let run = world.fleet.next_run().await;
    let stdout = format!("{}\n... (truncated)", "a".repeat(200_000));
    run.result(json!({ "exitCode": 0, "timedOut": false, "success": true, "stdout": stdout, "stderr": "é" }));
    let (run, output) = ended(call.await.unwrap());
    assert!(run.truncated && output.truncated);
    assert_eq!(run.output_bytes, 200_018);
    let again = world.engine.records().output_text(&run).await.unwrap();
    assert_eq!(again.stdout, output.stdout);
    let spool = world.state().join("countersign/output");
    assert_eq!(std::fs::read_dir(spool).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_goes_while_it_runs_leaves_the_run_lost_and_only_its_own_late_word_ends_it_once() {
    for generation in [NodeGeneration::First, NodeGeneration::Present] {
        let (world, node) = with_node(generation).await;
        let call = world.spawn(Call::argv(&["echo"]));
        let run = world.fleet.next_run().await;
        let id = run.id.clone();
        run.fails(InvokeFailure::Disconnected);
        world.fleet.disconnect(&node);
        let (run, _) = ended(call.await.unwrap());
        assert_eq!(
            (run.status, run.reason),
            (RunStatus::Lost, Some(Reason::NodeDisconnected))
        );
        world.fleet.join(Member::new("other", NodeGeneration::Present));
        world.fleet.connect(&node);
        let sink = world.fleet.sink();
        // Neither another node, nor another run, nor nonsense.
        assert!(
            !sink
                .late_result(&id_of("other"), &id, answer(exited(0, "forged")))
                .is_of_use()
        );
        assert!(
            !sink
                .late_result(&node, "no-such-run", answer(exited(0, "x")))
                .is_of_use()
        );
        assert!(
            !sink
                .late_result(&node, "../x", answer(exited(0, "x")))
                .is_of_use()
        );
        assert!(
            sink.late_result(&node, &id, answer(exited(3, "late")))
                .is_of_use()
        );
        let run = world.reaches(&id, RunStatus::Failed).await;
        assert_eq!((run.exit_code, run.tail.as_str()), (Some(3), "late"));
        assert!(
            !sink
                .late_result(&node, &id, answer(exited(0, "once more")))
                .is_of_use()
        );
        assert_eq!(world.run(&id).await.exit_code, Some(3));
        assert_eq!(world.fleet.runs_asked(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_come_twice_or_to_runs_that_ended_change_nothing() {
    let (world, node) = with_node(NodeGeneration::Ours).await;
    let call = world.spawn(Call::argv(&["echo"]));
    let run = world.fleet.next_run().await;
    let id = run.id.clone();
    run.says("first");
    let (run, _) = ended(call.await.unwrap());
    let sink = world.fleet.sink();
    assert!(
        !sink
            .late_result(&node, &id, answer(exited(9, "second")))
            .is_of_use()
    );
    let refused = InvokeResult {
        outcome: Err(error("UNAVAILABLE", "RUN_VOID: no")),
    };
    assert!(!sink.late_result(&node, &id, refused).is_of_use());
    assert_eq!(world.run(&id).await, run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_ours_that_comes_back_is_asked_and_not_called_again() {
    for (status, expect, reason) in [
        (
            json!({ "state": "ended", "result": { "ok": true, "payload": exited(0, "there") } }),
            RunStatus::Completed,
            None,
        ),
        (
            json!({ "state": "void" }),
            RunStatus::Failed,
            Some(Reason::NotStarted),
        ),
        (
            json!({ "state": "ended", "result": { "ok": false, "error": { "code": "UNAVAILABLE",
                "message": "RUN_LOST: the node was killed" } } }),
            RunStatus::Lost,
            Some(Reason::NodeDisconnected),
        ),
    ] {
        let (world, node) = with_node(NodeGeneration::Ours).await;
        let call = world.spawn(Call::argv(&["echo"]));
        let run = world.fleet.next_run().await;
        run.fails(InvokeFailure::Disconnected);
        world.fleet.disconnect(&node);
        world.fleet.change(&node, |member| member.status = status);
        world.fleet.connect(&node);
        let (run, _) = ended(call.await.unwrap());
        let run = if run.status == expect {
            run
        } else {
            // It was away for longer than a run is waited for, and is believed all the same.
            assert_eq!(run.status, RunStatus::Lost);
            world.reaches(run.id.as_str(), expect).await
        };
        assert_eq!(run.reason, reason);
        assert_eq!(world.fleet.runs_asked(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_goes_on_behind_a_broken_link_ends_by_the_word_of_its_node() {
    let (world, node) = with_node(NodeGeneration::Ours).await;
    let call = world.spawn(Call::argv(&["echo"]));
    let run = world.fleet.next_run().await;
    let id = run.id.clone();
    world
        .fleet
        .change(&node, |member| member.status = json!({ "state": "running" }));
    run.fails(InvokeFailure::Disconnected);
    world.fleet.disconnect(&node);
    world.fleet.connect(&node);
    world.reaches(&id, RunStatus::Running).await;
    assert!(
        world
            .fleet
            .sink()
            .late_result(&node, &id, answer(exited(0, "at last")))
            .is_of_use()
    );
    let (run, output) = ended(call.await.unwrap());
    assert_eq!(
        (run.status, output.stdout.as_str()),
        (RunStatus::Completed, "at last")
    );
    assert_eq!(world.fleet.runs_asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_ours_that_stays_away_leaves_its_run_lost_until_it_says_otherwise() {
    let (world, node) = with_node(NodeGeneration::Ours).await;
    let call = world.spawn(Call::argv(&["echo"]));
    let run = world.fleet.next_run().await;
    let id = run.id.clone();
    run.fails(InvokeFailure::Disconnected);
    world.fleet.disconnect(&node);
    let (run, _) = ended(call.await.unwrap());
    assert_eq!(
        (run.status, run.reason),
        (RunStatus::Lost, Some(Reason::NodeDisconnected))
    );
    world.fleet.change(&node, |member| {
        member.status = json!({ "state": "ended", "result": { "ok": true, "payload": exited(0, "late") } });
    });
    world.fleet.connect(&node);
    let run = world.reaches(&id, RunStatus::Completed).await;
    assert_eq!(run.tail, "late");
    assert_eq!(world.fleet.runs_asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_died_does_not_know_what_became_of_its_runs_and_never_sends_them_again() {
    for (generation, background) in [
        (NodeGeneration::First, false),
        (NodeGeneration::Present, true),
        (NodeGeneration::Ours, true),
        (NodeGeneration::Ours, false),
    ] {
        let (mut world, node) = with_node(generation).await;
        let call = world.spawn(Call::argv(&["echo"]).with(|request| request.background = background));
        let run = world.fleet.next_run().await;
        let id = run.id.clone();
        if background {
            if generation == NodeGeneration::Ours {
                assert!(world.fleet.tell(&node, "exec.started", json!({ "runId": id })));
            }
            world.reaches(&id, RunStatus::Running).await;
        }
        world.die_and_come_back().await;
        call.abort();
        if generation == NodeGeneration::Ours {
            world.fleet.change(&node, |member| {
                member.status =
                    json!({ "state": "ended", "result": { "ok": true, "payload": exited(0, "done") } });
            });
            world.fleet.connect(&node);
        } else {
            let run = world.reaches(&id, RunStatus::Lost).await;
            assert_eq!(run.reason, Some(Reason::ServerRestart));
            world.fleet.connect(&node);
            assert!(
                world
                    .fleet
                    .sink()
                    .late_result(&node, &id, answer(exited(0, "done")))
                    .is_of_use()
            );
        }
        let run = world.reaches(&id, RunStatus::Completed).await;
        assert_eq!(run.tail, "done");
        assert_eq!(world.fleet.runs_asked(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_ends_when_the_node_says_so_and_where_it_cannot_at_once() {
    for generation in [
        NodeGeneration::First,
        NodeGeneration::Present,
        NodeGeneration::Ours,
    ] {
        let (world, _) = with_node(generation).await;
        let call = world.spawn(Call::argv(&["sleep", "60"]));
        let run = world.fleet.next_run().await;
        let run_id = RunId::parse(run.id.as_str()).unwrap();
        let engine = std::sync::Arc::clone(&world.engine);
        let id = run_id.clone();
        let cancel = tokio::spawn(async move { engine.cancels().cancel(&asker(), &id).await });
        assert_eq!(world.fleet.next_cancel().await, run.id);
        let confirms = generation != NodeGeneration::First;
        if confirms {
            run.result(
                json!({ "timedOut": false, "success": false, "stdout": "so far", "stderr": "",
                "error": "cancelled" }),
            );
        }
        let cancelled = cancel.await.unwrap().unwrap();
        assert_eq!(
            (cancelled.status, cancelled.reason),
            (RunStatus::Cancelled, Some(Reason::Cancelled))
        );
        assert_eq!(cancelled.detail.is_some(), !confirms);
        ended(call.await.unwrap());
        // What comes afterwards ends nothing a second time.
        let sink = world.fleet.sink();
        assert!(
            !sink
                .late_result(&id_of("mill"), run_id.as_str(), answer(exited(0, "x")))
                .is_of_use()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_takes_its_run_with_it() {
    let (world, _) = with_node(NodeGeneration::Ours).await;
    let call = world.spawn(Call::argv(&["sleep", "60"]));
    let run = world.fleet.next_run().await;
    let id = run.id.clone();
    call.abort();
    assert_eq!(world.fleet.next_cancel().await, id);
    run.result(
        json!({ "timedOut": false, "success": false, "stdout": "", "stderr": "", "error": "cancelled" }),
    );
    world.reaches(&id, RunStatus::Cancelled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_the_background_is_a_session_that_takes_no_input() {
    let (world, _) = with_node(NodeGeneration::Present).await;
    let started = world
        .exec(Call::argv(&["tail", "-f"]).with(|request| request.background = true))
        .await;
    let Ok(ExecReply::Running(running)) = started else {
        panic!("{started:?}");
    };
    let run = world.fleet.next_run().await;
    let session = running.run.session_id.clone().expect("a session");
    assert!(!running.run.input.is_open());
    let ask = |action: ProcessAction| {
        let agent = running.run.agent.clone();
        let engine = std::sync::Arc::clone(&world.engine);
        async move {
            engine
                .processes()
                .call(&asker(), ProcessCall { agent, action })
                .await
        }
    };
    let input = Input::Text {
        data: "x\n".to_owned(),
        ends: false,
    };
    let refused = ask(ProcessAction::Input {
        session: session.clone(),
        input,
    })
    .await
    .unwrap_err();
    assert!(
        matches!(&refused, ProcessError::Invalid { message, .. } if message.contains("node")),
        "{refused:?}"
    );
    run.says("one\ntwo\n");
    world.reaches(running.run.id.as_str(), RunStatus::Completed).await;
    let polled = ask(ProcessAction::Poll {
        session: session.clone(),
        timeout: Duration::ZERO,
    })
    .await
    .unwrap();
    assert!(
        matches!(&polled, ProcessReply::Polled { stdout, .. } if stdout == "one\ntwo\n"),
        "{polled:?}"
    );
    let logged = ask(ProcessAction::Log {
        session,
        offset: None,
        limit: None,
    })
    .await
    .unwrap();
    assert!(matches!(logged, ProcessReply::Logged { .. }));
}
