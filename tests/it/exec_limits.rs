//! Limits on how much runs at once and how much is kept.

use serde_json::json;

use crate::support::{TestServer, write_file};

#[tokio::test]
async fn more_than_the_slots_wait_for_one() {
    let server = TestServer::full()
        .toml("[limits]\nmax_running = 1\n")
        .start()
        .await;
    let agent = server.agent();
    let gate = server.scratch().join("gate");
    let command = format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display());
    let first = agent
        .exec(json!({ "command": command, "background": true }))
        .await
        .expect(202);
    let second = tokio::spawn({
        let agent = agent.clone();
        async move { agent.exec(json!({ "argv": ["/bin/echo", "second"] })).await }
    });
    let third = agent
        .exec(json!({ "argv": ["/bin/echo", "third"], "security": "deny" }))
        .await;
    third.problem(403, "exec-denied");
    assert!(
        !second.is_finished(),
        "only what is denied is answered while the one place is taken"
    );
    write_file(&gate, "");
    assert_eq!(second.await.unwrap().expect(200)["stdout"], "second\n");
    assert_eq!(
        agent.finished(first["runId"].as_str().unwrap()).await["status"],
        "completed"
    );
}

#[tokio::test]
async fn a_full_queue_is_overloaded_and_runs_nothing() {
    let server = TestServer::full()
        .toml("[limits]\nmax_running = 1\nmax_queued = 1\nqueue_timeout_ms = 200\n")
        .start()
        .await;
    let agent = server.agent();
    let held = agent
        .exec(json!({ "command": "sleep 300", "background": true }))
        .await
        .expect(202);
    let mark = server.scratch().join("mark");
    let answer = agent.exec(json!({ "argv": ["/usr/bin/touch", mark] })).await;
    let problem = answer.problem(503, "overloaded");
    assert_eq!(problem["retryable"], true);
    agent
        .post(
            &format!("/v1/runs/{}/cancel", held["runId"].as_str().unwrap()),
            json!({}),
        )
        .await
        .expect(200);
    agent.finished(held["runId"].as_str().unwrap()).await;
    assert!(!mark.exists());
}

#[tokio::test]
async fn an_agent_over_its_own_share_is_limited() {
    let server = TestServer::full()
        .toml("[limits]\nmax_running_per_agent = 1\n")
        .start()
        .await;
    let agent = server.agent();
    let held = agent
        .exec(json!({ "command": "sleep 300", "background": true }))
        .await
        .expect(202);
    let answer = agent.exec(json!({ "argv": ["/bin/true"] })).await;
    answer.problem(429, "rate-limited");
    assert!(answer.header("retry-after").is_some());
    agent
        .exec(json!({ "argv": ["/bin/true"], "agentId": "other" }))
        .await
        .expect(200);
    agent
        .post(
            &format!("/v1/runs/{}/cancel", held["runId"].as_str().unwrap()),
            json!({}),
        )
        .await
        .expect(200);
    agent.finished(held["runId"].as_str().unwrap()).await;
}

#[tokio::test]
async fn caps_of_output_are_settings() {
    let server = TestServer::full()
        .toml("[output]\nmax_chars = 10\ntail_chars = 4\nmax_run_bytes = 12\n")
        .start()
        .await;
    let agent = server.agent();
    let answer = agent
        .exec(json!({ "command": "printf 'äbcdefghijklmnopqrstuvwxyz'" }))
        .await
        .expect(200);
    assert_eq!(answer["stdout"], "äbcdefghij\n… (truncated)");
    assert_eq!(answer["truncated"], true);
    assert_eq!(answer["outputBytes"], 27, "all bytes are counted");
    let kept = agent
        .get_bytes(
            &format!("/v1/runs/{}/output", answer["runId"].as_str().unwrap()),
            None,
        )
        .await;
    assert_eq!(kept.text(), "äbcdefghijk", "and as many kept as allowed");
}

#[tokio::test]
async fn a_hundred_commands_at_once_all_answer_their_own_output() {
    let server = TestServer::full().start().await;
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let agent = server.agent();
            tokio::spawn(async move {
                let answer = agent
                    .exec(json!({ "argv": ["/bin/echo", number.to_string()] }))
                    .await;
                (number, answer)
            })
        })
        .collect();
    for call in calls {
        let (number, answer) = call.await.unwrap();
        assert_eq!(answer.expect(200)["stdout"], format!("{number}\n"));
    }
}
