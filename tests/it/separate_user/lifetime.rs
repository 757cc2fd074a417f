//! Runs from their first to their last moment, and what becomes of them when something dies.

use std::{fs, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Api, Members, TestServer, eventually, is_alive, kill_hard, soon, within, write_file};

use super::{AccountsFixture, background, launcher, printed, processes, run, runner, runners, until_there};

/// The numbers of processes that a command wrote.
fn pids(accounts: &AccountsFixture, file: &str) -> Vec<i32> {
    let text = fs::read_to_string(accounts.workspace().join(file)).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

async fn until_dead(pids: &[i32]) {
    eventually(
        "dead",
        || {
            std::future::ready(
                pids.iter()
                    .copied()
                    .filter(|pid| is_alive(*pid))
                    .collect::<Vec<_>>(),
            )
        },
        Vec::is_empty,
    )
    .await;
}

async fn output(server: &TestServer, run: &str) -> Vec<u8> {
    let answer = server.agent().get(&format!("/v1/runs/{run}/output")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.bytes.to_vec()
}

fn spools(accounts: &AccountsFixture) -> usize {
    fs::read_dir(accounts.state().join("countersign/output"))
        .unwrap()
        .count()
}

#[tokio::test]
async fn an_approved_command_runs_as_the_account() {
    let accounts = or_skip!(AccountsFixture::new());
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" });
    let server = accounts
        .with_exec(&exec)
        .toml("[approvals]\nalways_reachable = true\n")
        .argument("--run-as")
        .argument(&accounts.commands.to_string())
        .start()
        .await;
    let pending = server.asked(json!({ "argv": ["/usr/bin/id", "-u"] })).await;
    let run = server.answered(&pending, "allow-once").await;
    assert_eq!(run["status"], "completed", "{run:#}");
    assert_eq!(run["tail"], format!("{}\n", accounts.commands));
}

#[tokio::test]
async fn exact_output_of_every_size_is_kept_and_no_empty_spool_stays() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().start().await;
    for size in [0_usize, 5, 70_000, 3_000_000] {
        let text = format!("head -c {size} /dev/zero | tr '\\0' x; test {size} = 5 && echo end >&2; true");
        let answer = run(&server, &text).await;
        let run = answer.text("runId");
        let bytes = output(&server, run).await;
        let expect = if size == 5 { 9 } else { size };
        assert_eq!(bytes.len(), expect, "{size}");
        assert!(bytes.iter().take(size).all(|byte| *byte == b'x'), "{size}");
    }
    assert_eq!(spools(&accounts), 2);
}

#[tokio::test]
async fn a_run_that_is_killed_or_takes_too_long_leaves_nothing() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().start().await;
    let tree = "setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & echo $$ $! > hidden; wait' & \
                trap '' TERM; sleep 1000 & echo $$ $! > plain; wait";
    let run = background(&server, tree).await;
    until_there(&accounts.workspace().join("hidden")).await;
    until_there(&accounts.workspace().join("plain")).await;
    let all = [pids(&accounts, "hidden"), pids(&accounts, "plain")].concat();
    let cancelled = server
        .agent()
        .post(&format!("/v1/runs/{run}/cancel"), json!({}))
        .await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
    assert_eq!(server.agent().finished(&run).await["status"], "cancelled");
    until_dead(&all).await;

    let call = json!({ "command": "sleep 1000 & echo $$ $! > late; wait", "timeout": 4, "yieldMs": 60_000 });
    let answer = server.ran(call).await;
    assert_eq!(answer["timedOut"], true, "{answer:#}");
    until_dead(&pids(&accounts, "late")).await;
}

#[tokio::test]
async fn a_background_run_outlives_its_server_and_is_attached_to_again() {
    let accounts = or_skip!(AccountsFixture::new());
    let mut server = accounts.builder().start().await;
    let text = "umask 077; head -c 2000000 /dev/zero | tr '\\0' a; echo $$ > started; \
                while ! test -e go; do sleep 0.05; done; echo end";
    let run = background(&server, text).await;
    until_there(&accounts.workspace().join("started")).await;
    let before = launcher(&server);
    server.kill();
    // The launcher goes with the server; the runner only once nothing needs it.
    until_dead(&[before]).await;
    let pid = pids(&accounts, "started");
    assert!(is_alive(pid[0]));
    let socket = accounts.state().join(format!("countersign/attach/{run}.s"));
    until_there(&socket).await;

    server.start().await;
    let live = server.agent().run(&run).await;
    assert_eq!(live["status"], "running", "{live:#}\n{}", server.log());
    assert!(!socket.exists(), "a supervisor with a server waits for no other");
    write_file(&accounts.workspace().join("go"), "");
    let ended = server.agent().finished(&run).await;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let bytes = output(&server, &run).await;
    assert_eq!(bytes.len(), 2_000_004);
    assert!(bytes.ends_with(b"aaaend\n"));
}

#[tokio::test]
async fn a_run_that_ends_without_a_server_is_finished_by_the_next() {
    let accounts = or_skip!(AccountsFixture::new());
    let mut server = accounts.builder().start().await;
    let text = "echo early; echo $$ > started; while ! test -e go; do sleep 0.05; done; echo late; exit 7";
    let ended = background(&server, text).await;
    let attached = background(&server, "echo $$ > second; sleep 1000").await;
    until_there(&accounts.workspace().join("started")).await;
    until_there(&accounts.workspace().join("second")).await;
    server.kill();
    write_file(&accounts.workspace().join("go"), "");
    until_dead(&pids(&accounts, "started")).await;
    server.start().await;
    let record = server.agent().finished(&ended).await;
    assert_has!(record, { "status": "failed", "exitCode": 7 });
    assert_eq!(output(&server, &ended).await, b"early\nlate\n");
    // A kill reaches the tree by way of the supervisor that was attached to again.
    server.agent().cancel(&attached).await;
    assert_eq!(server.agent().finished(&attached).await["status"], "cancelled");
    until_dead(&pids(&accounts, "second")).await;
}

#[tokio::test]
async fn a_foreground_run_ends_with_its_server() {
    let accounts = or_skip!(AccountsFixture::new());
    let mut server = accounts.builder().start().await;
    let agent = server.agent();
    let call = json!({ "command": "sleep 1000 & echo $$ $! > started; wait", "yieldMs": 120_000 });
    let asked = tokio::spawn(async move {
        let request = agent.request(reqwest::Method::POST, "/v1/exec").json(&call);
        Api::try_send(request).await
    });
    until_there(&accounts.workspace().join("started")).await;
    server.kill();
    drop(asked.await);
    until_dead(&pids(&accounts, "started")).await;
}

#[tokio::test]
async fn another_runner_takes_the_place_of_one_that_was_killed() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().start().await;
    let going_on = background(
        &server,
        "echo $$ > started; while ! test -e go; do sleep 0.05; done",
    )
    .await;
    until_there(&accounts.workspace().join("started")).await;
    let mut before = runner(&server);
    for _ in 0..3 {
        // Whoever runs commands may kill it, too: it is of their account.
        printed(&server, &format!("kill -9 {before}")).await;
        let is_replaced = |runners: &Vec<i32>| matches!(runners[..], [other] if other != before);
        let now = soon("replaced", || runners(&server), is_replaced).await;
        assert_eq!(
            printed(&server, "id -u").await,
            format!("{}\n", accounts.commands)
        );
        before = now[0];
    }
    // The launcher is root's, so they cannot end that.
    let launcher = launcher(&server);
    let answer = run(&server, &format!("kill -9 {launcher} {}", server.pid())).await;
    assert_ne!(answer["exitCode"], 0, "{answer:#}");
    assert!(is_alive(launcher));
    write_file(&accounts.workspace().join("go"), "");
    assert_eq!(server.agent().finished(&going_on).await["status"], "completed");
}

#[tokio::test]
async fn what_a_dead_supervisor_leaves_is_killed_even_without_its_runner() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().start().await;
    for (file, with_runner) in [("one", false), ("two", true)] {
        let text = format!("sleep 1000 & echo $PPID $$ $! > {file}; wait");
        let run = background(&server, &text).await;
        until_there(&accounts.workspace().join(file)).await;
        let all = pids(&accounts, file);
        assert!(processes(&server, "__runner").contains(&all[0]));
        if with_runner {
            // First the runner, so that nobody sweeps up by itself.
            kill_hard(runner(&server));
        }
        kill_hard(all[0]);
        let ended = within("the end", server.agent().finished(&run)).await;
        assert_eq!(ended["status"], "lost", "{ended:#}");
        until_dead(&all).await;
    }
    assert_eq!(printed(&server, "echo fine").await, "fine\n");
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_leaves_nobody() {
    let accounts = or_skip!(AccountsFixture::new());
    let mut server = accounts.builder().start().await;
    printed(&server, "true").await;
    let all: Vec<i32> = server.processes();
    assert!(all.len() >= 4, "{all:?}");
    server.send_signal(Signal::TERM);
    assert_eq!(server.ended().await, Some(0));
    until_dead(&all).await;
}

#[tokio::test]
async fn without_its_launcher_a_server_says_that_nothing_runs() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().start().await;
    let (launcher, runner) = (launcher(&server), runner(&server));
    kill_hard(launcher);
    kill_hard(runner);
    let is_told = |ready: &Value| ready["checks"]["runner"]["ok"] == false && ready["degraded"] == true;
    let readiness = || async { server.anonymous().read("/readyz").await };
    eventually("told", readiness, is_told).await;
    // Supervisors without a runner end within seconds of being idle; then nobody takes anything.
    let status = || async {
        let answer = server
            .agent()
            .exec(json!({ "command": "true", "yieldMs": 60_000 }))
            .await;
        answer.json()["status"].clone()
    };
    let failed = tokio::time::timeout(
        Duration::from_secs(50),
        eventually("failed", status, |status| *status == "failed"),
    );
    failed.await.expect("a run without a runner fails");
}

#[tokio::test]
async fn a_patch_makes_files_of_the_account() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().start().await;
    let body = json!({ "input": "*** Begin Patch\n*** Add File: made/new\n+x\n*** End Patch\n" });
    let applied = server.agent().posted("/v1/apply-patch", body).await;
    let made = std::path::Path::new(applied.text("cwd")).join("made/new");
    let found = fs::metadata(&made).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&found), accounts.commands);
    assert_eq!(fs::read_to_string(made).unwrap(), "x\n");
    // What the account may not change stays.
    let foreign = accounts.workspace().join("foreign");
    fs::create_dir(&foreign).unwrap();
    let body = json!({
        "input": "*** Begin Patch\n*** Add File: foreign/new\n+x\n*** End Patch\n", "workdir": accounts.workspace(),
    });
    let problem = server
        .agent()
        .post("/v1/apply-patch", body)
        .await
        .problem(409, "patch-failed");
    assert!(problem.text("detail").contains("Permission denied"), "{problem}");
    assert!(!foreign.join("new").exists());
}
