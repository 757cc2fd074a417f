//! A bug in the task of one run ends that run alone: as `lost`, with a reason, and everybody who waits for it is answered.

use std::fs;

use countersign_sys::{hooks, process::inspect};
use serde_json::json;

use crate::support::{Members, TestServer, eventually, lines, within};

/// Goes on for long once it has said something, except where the point is one of a run that ends.
fn command(point: &str, pids: &std::path::Path) -> String {
    let then = match point {
        "run.exited" | "run.recorded" => "",
        _ => "; exec sleep 600",
    };
    format!("echo $$ >> {}; echo said{then}", pids.display())
}

#[tokio::test]
async fn wherever_the_task_of_a_run_panics_the_run_ends_and_its_waiters_return() {
    for point in hooks::PANIC_POINTS {
        let mut server = TestServer::full().toml("[limits]\nmax_running = 1\n").prepare();
        server.start_with(&[(hooks::PANIC_VARIABLE, point)]).await;
        let agent = server.agent();
        let pids = server.scratch().join("pids");
        let body = json!({ "command": command(point, &pids), "yieldMs": 600_000 });
        let answer = within(point, agent.exec_with_key("key", body.clone())).await;
        assert_eq!(answer.status, 200, "{point}: {}", answer.text());
        let answer = answer.json();
        let run = agent.finished(answer.text("runId")).await;
        if *point == "run.recorded" {
            // Its end is on record, and nothing takes that back.
            assert_has!(run, { "status": "completed", "exitCode": 0 });
        } else {
            assert_has!(run, { "status": "lost", "reason": "runner-lost" });
            assert_has!(answer, { "status": "lost", "reason": "runner-lost" });
            assert!(
                run.text("detail").contains("bug of this server"),
                "{point}: {run}"
            );
        }
        // Nothing of it goes on, or starts later.
        let ran = if pids.exists() { lines(&pids) } else { Vec::new() };
        for pid in &ran {
            let pid = pid.trim().parse().expect("a pid");
            let gone = || async { inspect(pid).is_none_or(|process| process.is_zombie) };
            eventually("gone", gone, |gone| *gone).await;
        }
        assert!(ran.len() <= 1, "{point}: {ran:?}");
        // The same again is the same run; another one has its place, and runs well.
        let again = within(point, agent.exec_with_key("key", body)).await.json();
        assert_eq!(again["runId"], answer["runId"], "{point}");
        agent
            .post(&format!("/v1/runs/{}/cancel", answer.text("runId")), json!({}))
            .await
            .problem(409, "run-ended");
        assert_has!(agent.ran(json!({ "argv": ["echo", "well"] })).await, { "stdout": "well\n" });
        assert_eq!(server.stop().await, Some(0), "{point}");
        assert!(server.log().contains(point), "{point}: the log says where");
        drop(fs::remove_file(&pids));
    }
}

#[tokio::test]
async fn a_session_whose_task_panics_ends_too() {
    let mut server = TestServer::full().prepare();
    server.start_with(&[(hooks::PANIC_VARIABLE, "run.output")]).await;
    let agent = server.agent();
    let body = json!({ "command": "sleep 0.3; echo said; exec sleep 600", "background": true });
    let run = agent.accepted(body).await;
    let ended = agent.finished(run.text("runId")).await;
    assert_has!(ended, { "status": "lost", "reason": "runner-lost" });
    assert_eq!(server.stop().await, Some(0));
}
