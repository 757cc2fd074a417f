//! Memory runs out: for a command, for everything together, for the server itself.

use std::fs;

use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::json;

use super::{
    BEYOND,
    group::{Group, Kind},
    pid, runner_of,
};
use crate::support::{Api, Members, TestServer, eventually, lines, write_file};

const MEBIBYTE: u64 = 1 << 20;

/// A line of `/proc/PID/status` in bytes.
fn status_bytes(process: i32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    number.and_then(|number| number.parse::<u64>().ok()).expect(name) * 1024
}

#[tokio::test]
async fn a_command_that_takes_all_memory_is_killed_and_its_end_is_on_record() {
    let group = or_skip!(Group::make(Kind::Memory));
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let runner = runner_of(&server).await;
    for process in super::children(runner).into_iter().chain([runner, server.pid()]) {
        group.admit(process);
    }
    group.limit(&(400 * MEBIBYTE).to_string());
    // It has to remember all of it: there is no line in it.
    let ended = agent.ran(json!({ "argv": ["/usr/bin/tail", "/dev/zero"] })).await;
    assert_has!(ended, { "status": "failed", "exitSignal": "SIGKILL" });
    let run = agent.run(ended.text("runId")).await;
    assert_has!(run, { "status": "failed", "exitSignal": "SIGKILL" });
    assert_has!(agent.ran(json!({ "argv": ["/bin/echo", "well"] })).await, { "stdout": "well\n" });
    drop(server);
    group.remove().await;
}

#[tokio::test]
async fn output_without_end_takes_no_more_memory() {
    let server = TestServer::full()
        .toml("[output]\nmax_run_bytes = 4194304\n")
        .start()
        .await;
    let agent = server.agent();
    agent.ran(json!({ "argv": ["/bin/true"] })).await;
    let before = status_bytes(server.pid(), "VmHWM");
    let body = json!({ "argv": ["/usr/bin/head", "-c", "500M", "/dev/zero"], "yieldMs": 600_000 });
    let ended = agent.ran(body).await;
    assert_has!(ended, { "status": "completed", "truncated": true, "outputBytes": 500 * MEBIBYTE });
    let after = status_bytes(server.pid(), "VmHWM");
    assert!(after < before + 64 * MEBIBYTE, "{before} {after}");
}

/// A call of a server that may die over it.
async fn try_exec(agent: &Api, key: &str, body: &serde_json::Value) -> Option<u16> {
    let request = agent
        .request(reqwest::Method::POST, "/v1/exec")
        .header("Idempotency-Key", key)
        .json(body);
    let answer = tokio::time::timeout(BEYOND, Api::try_send(request)).await;
    answer
        .expect("an answer, or an end, in time")
        .ok()
        .map(|answer| answer.status)
}

#[tokio::test]
async fn a_server_without_memory_runs_nothing_that_is_not_on_record() {
    let mut server = TestServer::full().start().await;
    let ran = server.scratch().join("ran");
    write_file(&ran, "");
    let keys = [0_u64, 1, 4, 16, 64, 256].map(|kibibytes| (format!("key-{kibibytes}"), kibibytes * 1024));
    for (key, spare) in &keys {
        let agent = server.agent();
        agent.ran(json!({ "argv": ["/bin/true"] })).await;
        let body = json!({ "command": format!("echo {key} >> {}", ran.display()), "env": { "LARGE": "x".repeat(100_000) } });
        let limit = Rlimit {
            current: Some(status_bytes(server.pid(), "VmSize") + spare),
            maximum: None,
        };
        prlimit(Some(pid(server.pid())), Resource::As, limit).expect("a limit of memory");
        let status = try_exec(&agent, key, &body).await;
        assert!(
            status.is_none_or(|status| [200, 500, 503].contains(&status)),
            "{key}: {status:?}"
        );
        // The kernel ends a server that takes too much as this does.
        server.kill();
        server.start().await;
        let agent = server.agent();
        let again = agent.exec_with_key(key, body).await.expect(200);
        let run = agent.finished(again.text("runId")).await;
        let times = lines(&ran).iter().filter(|line| *line == key).count();
        match run["status"].as_str() {
            Some("completed") => assert_eq!(times, 1, "{key}: {run}"),
            Some("failed") => assert_eq!((times, run.text("reason")), (0, "not-started"), "{key}: {run}"),
            Some("lost") => assert!(times <= 1, "{key}: {run}"),
            _ => panic!("{key}: {run}"),
        }
    }
    let verified = server.operator().read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true, "{verified}");
    let ready = || async { server.anonymous().get("/readyz").await.status };
    eventually("ready", ready, |status| *status == 200).await;
}
