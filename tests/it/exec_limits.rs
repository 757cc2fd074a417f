//! Limits on how much runs at once and how much is kept.

use countersign_domain::{MAX_ARGV_BYTES, MAX_ENV_BYTES, MAX_ENV_VARIABLES, MAX_WORDS};
use countersign_sys::hooks;
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};

use crate::support::{Members, TestServer, eventually, soon, write_file};

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
        .accepted(json!({ "command": command, "background": true }))
        .await;
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
    assert_eq!(agent.finished(first.text("runId")).await["status"], "completed");
}

#[tokio::test]
async fn a_full_queue_is_overloaded_and_runs_nothing() {
    let server = TestServer::full()
        .toml("[limits]\nmax_running = 1\nmax_queued = 1\nqueue_timeout_ms = 200\n")
        .start()
        .await;
    let agent = server.agent();
    let held = agent
        .accepted(json!({ "command": "sleep 300", "background": true }))
        .await;
    let mark = server.scratch().join("mark");
    let answer = agent.exec(json!({ "argv": ["/usr/bin/touch", mark] })).await;
    let problem = answer.problem(503, "overloaded");
    assert_eq!(problem["retryable"], true);
    assert!(answer.header("retry-after").is_some());
    let detail = problem.text("detail");
    assert!(detail.contains("number 1 of 1"), "{detail}");
    agent.cancel(held.text("runId")).await;
    agent.finished(held.text("runId")).await;
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
        .accepted(json!({ "command": "sleep 300", "background": true }))
        .await;
    let answer = agent.exec(json!({ "argv": ["/bin/true"] })).await;
    answer.problem(429, "rate-limited");
    assert!(answer.header("retry-after").is_some());
    agent
        .ran(json!({ "argv": ["/bin/true"], "agentId": "other" }))
        .await;
    agent.cancel(held.text("runId")).await;
    agent.finished(held.text("runId")).await;
}

#[tokio::test]
async fn caps_of_output_are_settings() {
    let server = TestServer::full()
        .toml("[output]\nmax_chars = 10\ntail_chars = 4\nmax_run_bytes = 12\n")
        .start()
        .await;
    let agent = server.agent();
    let answer = agent
        .ran(json!({ "command": "printf 'äbcdefghijklmnopqrstuvwxyz'" }))
        .await;
    assert_eq!(answer["stdout"], "äbcdefghij\n… (truncated)");
    assert_eq!(answer["truncated"], true);
    assert_eq!(answer["outputBytes"], 27, "all bytes are counted");
    let kept = agent
        .get_bytes(&format!("/v1/runs/{}/output", answer.text("runId")), None)
        .await;
    assert_eq!(kept.text(), "äbcdefghijk", "and as many kept as allowed");
}

#[tokio::test]
async fn a_run_over_its_limits_says_so_in_its_answer_and_its_record() {
    use countersign_runner::{Controller, enforceable};
    let enforced = enforceable();
    let server = TestServer::full()
        .toml("[limits]\nrun_memory_bytes = 67108864\nrun_pids = 64\n")
        .start()
        .await;
    let agent = server.agent();
    let hungry = json!({ "command": "head -c 200M /dev/zero | tail -n 1 | wc -c; exit 3" });
    let answer = agent.ran(hungry).await;
    let codes: Vec<_> = answer
        .list("warnings")
        .iter()
        .map(|one| one["code"].clone())
        .collect();
    if [Controller::Memory, Controller::Processes]
        .iter()
        .all(|one| enforced.contains(one))
    {
        assert_eq!(codes, [json!("memory-limit")], "{answer:#}");
        let run = agent.run(answer.text("runId")).await;
        let detail = run.text("detail");
        assert!(detail.contains("run_memory_bytes"), "{run:#}");
        // The limits of this moment count for the next run.
        server.edit_toml("[limits]\nrun_memory_bytes = 0\n[exec]\nlogin_path = false\n");
        let hungry = json!({ "command": "head -c 200M /dev/zero | tail -n 1 | wc -c" });
        eventually(
            "the limit is gone",
            || async { agent.ran(hungry.clone()).await["warnings"].clone() },
            |warnings| *warnings == json!([]),
        )
        .await;
    } else {
        assert!(codes.contains(&json!("limits-not-enforced")), "{answer:#}");
        assert_eq!(answer["exitCode"], 3, "it runs all the same");
    }
}

#[tokio::test]
#[expect(clippy::needless_collect, reason = "all at once")]
async fn a_sandbox_without_limits_of_its_own_has_those_of_the_server() {
    use countersign_runner::{Controller, enforceable};
    or_skip!(
        enforceable().contains(&Controller::Processes),
        "no control group with a limit on processes is delegated to this process"
    );
    let many = json!({ "command": "for i in $(seq 60); do sleep 30 & done 2>/dev/null; jobs -p | wc -l" });
    for (own, is_limited) in [(json!({}), true), (json!({ "pidsLimit": 500 }), false)] {
        let server = TestServer::full()
            .config(&json!({
                "tools": { "exec": { "host": "sandbox" } },
                "agents": { "defaults": { "sandbox": { "mode": "all", "docker": own } } },
            }))
            .toml("[sandbox]\nbackend = \"builtin\"\n[limits]\nrun_pids = 40\n")
            .start()
            .await;
        let policy = server.operator().read("/v1/policy/effective").await;
        or_skip!(
            policy["sandbox"]["active"] == true,
            &format!("no sandbox here: {}", policy["sandbox"]["detail"])
        );
        let answer = server.ran(many.clone()).await;
        let codes: Vec<_> = answer
            .list("warnings")
            .iter()
            .filter_map(|one| one["code"].as_str())
            .collect();
        assert_eq!(codes.contains(&"process-limit"), is_limited, "{answer:#}");
    }
}

#[tokio::test]
async fn limits_that_cannot_be_enforced_are_said_and_refuse_nothing() {
    or_skip!(
        crate::support::is_root(),
        "starting a server as an account that owns no control group needs root"
    );
    let server = TestServer::full()
        .toml("[limits]\nrun_memory_bytes = 67108864\n")
        .run_as(1_500_000 + std::process::id())
        .start()
        .await;
    let answer = server.ran(json!({ "argv": ["/bin/echo", "runs"] })).await;
    assert_has!(answer, { "stdout": "runs\n", "warnings/0/code": "limits-not-enforced" });
}

#[tokio::test]
async fn over_the_quota_the_oldest_finished_output_goes_first_and_running_output_stays() {
    let mut server = TestServer::full().start().await;
    let agent = server.agent();
    let big = "head -c 2000000 /dev/zero | tr '\\0' x";
    let running = agent
        .accepted(json!({ "command": format!("{big}; echo > written; sleep 1000"), "background": true }))
        .await
        .text("runId")
        .to_owned();
    let has_spool =
        |server: &TestServer, run: &str| server.state().join("countersign/output").join(run).exists();
    let written = server.state().join("workspace/written");
    eventually("written", || async { written.exists() }, |is| *is).await;
    assert!(has_spool(&server, &running));
    let mut finished = Vec::new();
    for _ in 0..3 {
        let answer = agent.ran(json!({ "command": big })).await;
        finished.push(answer.text("runId").to_owned());
    }
    assert_eq!(server.stop().await, Some(0));
    server.edit_toml("[exec]\nlogin_path = false\n[output]\nquota_bytes = 4500000\n");
    server.start().await;
    let kept = || async {
        finished
            .iter()
            .map(|run| has_spool(&server, run))
            .collect::<Vec<_>>()
    };
    eventually("room is made", kept, |kept| *kept == [false, false, true]).await;
    assert!(has_spool(&server, &running));
    let record = server.agent().run(&finished[0]).await;
    assert_eq!(record["status"], "completed", "the record stays");
    server.agent().cancel(&running).await;
    server.agent().finished(&running).await;
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

/// Each edge, with a command for it; the text of its refusal, or its answer if it refuses nothing.
async fn at_every_edge(server: &TestServer, call: &Value) -> Vec<(&'static str, u16, String)> {
    let agent = server.agent();
    let mut answers = Vec::new();
    for path in ["/v1/exec", "/v1/exec/explain"] {
        let answer = agent.post(path, call.clone()).await;
        answers.push((path, answer.status, answer.text()));
    }
    let call = json!({ "tool": "exec", "args": call, "sessionKey": "main" });
    let answer = agent.post("/tools/invoke", call).await;
    answers.push(("/tools/invoke", answer.status, answer.text()));
    answers
}

#[tokio::test]
async fn too_many_arguments_are_refused_at_every_edge_and_a_long_ordinary_command_runs() {
    let server = TestServer::full().start().await;
    let words = json!(vec!["/bin/true"; MAX_WORDS + 1]);
    let bytes = json!(vec!["x".repeat(1024); MAX_ARGV_BYTES / 1024]);
    for (argv, limit) in [
        (&words, "at most 4096 arguments"),
        (&bytes, "at most 262144 bytes together"),
    ] {
        for (edge, status, text) in at_every_edge(&server, &json!({ "argv": argv })).await {
            assert!(text.contains(limit), "{edge}: {status} {text}");
            assert_eq!(status, 400, "{edge}: {text}");
        }
        let problem = server.agent().exec(json!({ "argv": argv })).await;
        assert_has!(problem.problem(400, "invalid-request"), { "fields/0/path": "argv" });
    }
    let runs = server.agent().read("/v1/runs").await;
    assert_eq!(runs["items"], json!([]), "nothing of it is on record");
    // As a build or `git add` may write it.
    let mut long: Vec<String> = vec!["/bin/echo".to_owned()];
    long.extend((0..2_000).map(|number| format!("src/module/file-{number}.rs")));
    for (edge, status, text) in at_every_edge(&server, &json!({ "argv": long })).await {
        assert!(status == 200, "{edge}: {status} {text}");
        assert!(text.contains("file-1999.rs"), "{edge}: {text}");
    }
    let most = json!(vec!["/bin/true"; MAX_WORDS]);
    let answer = server.ran(json!({ "argv": most })).await;
    assert_eq!(answer["exitCode"], 0);
}

#[tokio::test]
async fn too_large_an_environment_is_refused_at_every_edge_and_a_large_one_reaches_the_command() {
    let server = TestServer::full().start().await;
    let env = |count: usize, bytes: usize| -> Value {
        let value = json!("x".repeat(bytes));
        let named = (0..count).map(|number| (format!("MY_{number:04}"), value.clone()));
        named.collect()
    };
    let call = |env: Value| json!({ "argv": ["/usr/bin/env"], "env": env });
    for (env, limit) in [
        (
            env(MAX_ENV_VARIABLES + 1, 1),
            "at most 1024 environment variables",
        ),
        (env(4, MAX_ENV_BYTES / 4), "at most 262144 bytes together"),
    ] {
        for (edge, status, text) in at_every_edge(&server, &call(env.clone())).await {
            assert!(text.contains(limit), "{edge}: {status} {text}");
            assert_eq!(status, 400, "{edge}: {text}");
        }
        let problem = server.agent().exec(call(env)).await;
        assert_has!(problem.problem(400, "invalid-request"), { "fields/0/path": "env" });
    }
    let runs = server.agent().read("/v1/runs").await;
    assert_eq!(runs["items"], json!([]), "nothing of it is on record");
    let answer = server.ran(call(env(MAX_ENV_VARIABLES, 100))).await;
    assert!(answer.text("stdout").contains("MY_1023=xxx"), "{answer}");
}

#[tokio::test]
async fn a_revision_with_too_many_arguments_is_refused() {
    let server = TestServer::asking().start().await;
    let asked = server.asked(json!({ "argv": ["/bin/true"] })).await;
    let path = format!("/v1/approvals/{}/revision", asked.text("approvalId"));
    let argv = vec!["/bin/true"; MAX_WORDS + 1];
    let answer = server.operator().post(&path, json!({ "argv": argv })).await;
    answer.problem(400, "invalid-request");
    let argv = vec!["/bin/true"; 1_000];
    server.operator().made(&path, json!({ "argv": argv })).await;
}

#[tokio::test]
async fn large_commands_of_one_token_wait_for_each_other_and_hold_up_nobody_else() {
    const OF_ONE: usize = 256;
    const TOO_MANY: usize = 8;
    let pauses = tempfile::tempdir().unwrap();
    let server = TestServer::full()
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
        .toml("[limits]\nqueue_timeout_ms = 600000\n")
        .start()
        .await;
    let (_, hostile) = server
        .token_with(json!({ "name": "hostile", "scopes": ["exec"] }))
        .await;
    let (_, other) = server
        .token_with(json!({ "name": "other", "scopes": ["exec"] }))
        .await;
    let large = json!({ "argv": vec!["/bin/echo"; 200] });
    let [wanted, reached] = ["engine.looking", "engine.looking.reached"].map(|name| pauses.path().join(name));
    write_file(&wanted, "");
    let mut calls: FuturesUnordered<_> = (0..OF_ONE + TOO_MANY)
        .map(|number| {
            let (hostile, large) = (hostile.clone(), large.clone());
            let path = if number % 2 == 0 {
                "/v1/exec"
            } else {
                "/v1/exec/explain"
            };
            tokio::spawn(async move { hostile.post(path, large).await })
        })
        .collect();
    soon("it stands still", || reached.exists(), |there| *there).await;
    for _ in 0..TOO_MANY {
        let refused = calls.next().await.unwrap().unwrap();
        let problem = refused.problem(429, "rate-limited");
        assert!(problem.text("detail").contains("256 large commands"), "{problem}");
        assert!(refused.header("retry-after").is_some());
    }
    // While none of the others goes on, everybody's small commands do, its own among them.
    for api in [&other, &hostile] {
        for path in ["/v1/exec", "/v1/exec/explain"] {
            api.posted(path, json!({ "argv": ["/bin/true"] })).await;
        }
    }
    assert!(calls.next().now_or_never().is_none(), "one at a time");
    std::fs::remove_file(&reached).unwrap();
    let mut answered = 0;
    while let Some(answer) = calls.next().await {
        answer.unwrap().expect(200);
        answered += 1;
    }
    assert_eq!(answered, OF_ONE);
    other.ran(large.clone()).await;
}

#[tokio::test]
async fn a_large_command_whose_turn_does_not_come_is_refused() {
    let pauses = tempfile::tempdir().unwrap();
    let server = TestServer::full()
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
        .toml("[limits]\nqueue_timeout_ms = 100\n")
        .start()
        .await;
    let agent = server.agent();
    let large = json!({ "command": format!("echo {}", "word ".repeat(500)) });
    let [wanted, reached] = ["engine.looking", "engine.looking.reached"].map(|name| pauses.path().join(name));
    write_file(&wanted, "");
    let first = tokio::spawn({
        let (agent, large) = (agent.clone(), large.clone());
        async move { agent.exec(large).await }
    });
    soon("it stands still", || reached.exists(), |there| *there).await;
    let refused = agent.exec(large.clone()).await;
    let problem = refused.problem(429, "rate-limited");
    assert!(problem.text("detail").contains("within 100 ms"), "{problem}");
    std::fs::remove_file(&reached).unwrap();
    first.await.unwrap().expect(200);
    agent.ran(large).await;
}
