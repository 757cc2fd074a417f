//! Where the server may and may not live, and how it starts, stops and starts again.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use rustix::process::Signal;

use crate::support::{
    Members, NOBODY, Scratch, SmallDisk, TestServer, assert_says, eventually, is_alive, is_root, kill_hard,
    lines, run_program, skip, soon, write_file,
};

const BAD_SETTINGS: i32 = 78;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_directory_that_others_may_write_is_refused() {
    for mode in [0o777, 0o770, 0o722] {
        let server = TestServer::full().prepare();
        set_mode(server.state(), mode);
        assert_eq!(
            server.start_fails().await,
            Some(BAD_SETTINGS),
            "{mode:o}\n{}",
            server.log()
        );
        assert!(!server.database().exists());
    }
}

#[tokio::test]
async fn a_directory_of_somebody_else_is_refused() {
    or_skip!(is_root(), "giving a directory away needs root");
    let mut server = TestServer::full().prepare();
    std::os::unix::fs::chown(server.state(), Some(12_345), None).unwrap();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
    std::os::unix::fs::chown(server.state(), Some(0), None).unwrap();
    server.start().await;
}

#[tokio::test]
async fn a_read_only_directory_is_refused() {
    let (builder, account) = if is_root() {
        (TestServer::full().run_as(NOBODY), NOBODY)
    } else {
        (TestServer::full(), rustix::process::geteuid().as_raw())
    };
    let mut server = builder.prepare();
    if account == NOBODY && !may_run(&server, NOBODY) {
        return skip("the program lies where another account cannot run it");
    }
    let inner = server.state().join("countersign");
    for directory in [server.state(), &inner] {
        set_mode(directory, 0o500);
        assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
        let named = format!("{}: cannot be written", directory.display());
        assert!(server.log().contains(&named), "{named:?} in {}", server.log());
        set_mode(directory, 0o700);
    }
    assert!(!server.database().exists());
    server.start().await;
    let who = server.ran(json!({ "command": "id -u" })).await;
    assert_has!(who, { "stdout": format!("{account}\n") }, "the same account may, once it is writable");
}

fn may_run(server: &TestServer, account: u32) -> bool {
    let tried = server.invocation(&["--version"]).run_as(account);
    run_program(&tried).code == Some(0)
}

#[tokio::test]
async fn a_read_only_disk_is_refused() {
    let place = Scratch::new();
    let disk_at = place.dir("disk");
    let disk = or_skip!(SmallDisk::mount(&disk_at));
    let mut server = TestServer::full().state_dir(&disk_at.join("state")).prepare();
    disk.remount("ro");
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
    disk.remount("rw");
    assert!(!server.database().exists());
    server.start().await;
    drop(server);
    drop(disk);
}

#[tokio::test]
async fn settings_that_others_may_write_are_refused() {
    for name in ["openclaw.json", "countersign/countersign.toml"] {
        let mut server = TestServer::full().prepare();
        let file = server.state().join(name);
        set_mode(&file, 0o666);
        assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
        assert!(server.log().contains(file.to_str().unwrap()), "{}", server.log());
        set_mode(&file, 0o644);
        if is_root() {
            std::os::unix::fs::chown(&file, Some(NOBODY), None).unwrap();
            assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
            std::os::unix::fs::chown(&file, Some(0), None).unwrap();
        }
        // That others may read it is fine.
        server.start().await;
    }
}

#[tokio::test]
async fn settings_are_read_again_on_a_hangup() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let exec = json!({ "argv": ["/bin/date"] });
    server.accepted(exec.clone()).await;
    let told = || async {
        let policy = operator.read("/v1/policy/effective").await;
        policy["configError"].clone()
    };
    // `policy/effective` does not look at the files by itself, so only the signal can show this.
    // Its reader must not count as somebody who could answer.
    let (_, watcher) = server
        .token_with(json!({ "name": "watcher", "scopes": ["read"] }))
        .await;
    let mut stream = watcher.events("?types=config.,policy.", None).await;
    server.edit_toml("[approvals]\nalways_reachable = \"perhaps\"\n");
    server.send_signal(Signal::HUP);
    let rejected = stream.next_of("config.rejected").await;
    assert_eq!(rejected.data["path"], "countersign.toml", "{rejected:?}");
    rejected.data.says("message", "approvals.always_reachable");
    assert!(told().await.is_string());
    server.accepted(exec.clone()).await;

    server.edit_toml("[exec]\nlogin_path = false\n");
    server.send_signal(Signal::HUP);
    stream.next_of("policy.changed").await;
    assert_eq!(told().await, Value::Null);
    let denied = server.denied(exec).await;
    assert_eq!(denied["reason"], "no-approver", "nobody can be reached now");
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_anything() {
    let mut server = TestServer::full()
        .toml("[shutdown]\ngrace_ms = 3600000\n")
        .start()
        .await;
    let mark = server.scratch().join("pid");
    let agent = server.agent();
    let body = json!({ "command": format!("trap '' TERM; echo $$ > {}; sleep 300", mark.display()), "yieldMs": 120_000 });
    let waiting = tokio::spawn(async move {
        let request = agent.request(reqwest::Method::POST, "/v1/exec").json(&body);
        request.send().await
    });
    let pid = soon("started", || lines(&mark), |pid| !pid.is_empty()).await;
    server.send_signal(Signal::TERM);
    let refused = || async { server.agent().exec(json!({ "argv": ["/bin/true"] })).await };
    let refused = eventually("draining", refused, |answer| answer.status != 200).await;
    refused.problem(503, "shutting-down");
    assert!(is_alive(pid[0].parse().unwrap()), "it has an hour of grace");
    assert_eq!(server.stop().await, Some(0));
    let answer = waiting.await.unwrap().expect("an answer before the end");
    assert_eq!(answer.status().as_u16(), 200);
    let pid = pid[0].parse().unwrap();
    soon("killed", || is_alive(pid), |alive| !alive).await;
    server.start().await;
    let run = server.agent().read("/v1/runs?status=cancelled").await["items"][0].clone();
    assert_has!(run, { "status": "cancelled", "reason": "shutdown" });
}

#[tokio::test]
async fn wrong_settings_end_the_start_with_one_line_each() {
    for (toml, named) in [
        ("[http]\nlisten = 5\n", "http.listen"),
        ("[http]\nlissten = \"127.0.0.1:0\"\n", "listen"),
        ("[htttp]\nlisten = \"127.0.0.1:0\"\n", "http"),
        ("[approvals]\ntimeout_ms = 10\n", "approvals.timeout_ms"),
        ("[limits]\nbody_bytes = -1\n", "limits.body_bytes"),
        ("[http\n", "countersign.toml"),
    ] {
        let server = TestServer::full().toml(toml).prepare();
        assert_eq!(
            server.start_fails().await,
            Some(BAD_SETTINGS),
            "{toml}\n{}",
            server.log()
        );
        assert!(server.log().contains(named), "{named} in {}", server.log());
    }
    for (config, named) in [
        (
            json!({ "tools": { "exec": { "ask": "sometimes" } } }),
            "tools.exec.ask",
        ),
        (json!({ "tools": { "exec": { "hosst": "gateway" } } }), "hosst"),
        (
            json!({ "tools": { "exec": { "mode": "full", "ask": "off" } } }),
            "tools.exec.mode",
        ),
        (
            json!({ "agents": { "list": [{ "id": "a" }], "entries": { "a": {} } } }),
            "agents",
        ),
        (
            json!({ "tools": { "exec": { "timeoutSec": null } } }),
            "tools.exec.timeoutSec",
        ),
    ] {
        let server = TestServer::full().config(&config).prepare();
        assert_eq!(
            server.start_fails().await,
            Some(BAD_SETTINGS),
            "{config}\n{}",
            server.log()
        );
        assert!(server.log().contains(named), "{named} in {}", server.log());
    }
    let server = TestServer::full().env("COUNTERSIGN_HTTP__LISSTEN", "x").prepare();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
}

#[tokio::test]
async fn an_isolation_that_does_not_exist_yet_fails_the_start() {
    let server = TestServer::full()
        .env("COUNTERSIGN_EXEC__ISOLATION", "separate-user")
        .prepare();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
    assert!(server.log().contains("isolation"), "{}", server.log());
    let server = TestServer::full()
        .env("COUNTERSIGN_EXEC__ISOLATION", "same-user")
        .start()
        .await;
    assert_says(server.ready_line(), "same-user");
}

#[tokio::test]
async fn an_address_in_use_has_its_own_exit_code() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let server = TestServer::full()
        .without_listen()
        .argument("--listen")
        .argument(&address)
        .prepare();
    assert_eq!(server.start_fails().await, Some(69), "{}", server.log());
}

#[tokio::test]
async fn a_wide_address_needs_to_be_asked_for() {
    let server = TestServer::full()
        .toml("[http]\nlisten = \"0.0.0.0:0\"\n")
        .without_listen()
        .prepare();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
}

#[tokio::test]
async fn one_state_directory_serves_one_server() {
    let server = TestServer::full().start().await;
    let second = TestServer::full().state_dir(server.state()).prepare();
    let code = second.start_fails().await;
    assert_ne!(code, Some(0), "{}", second.log());
    assert_eq!(
        server.agent().exec(json!({ "argv": ["/bin/true"] })).await.status,
        200,
        "the first goes on"
    );
}

#[tokio::test]
async fn a_clean_stop_is_quick_and_keeps_everything() {
    let mut server = TestServer::full().start().await;
    let answer = server.ran(json!({ "argv": ["/bin/echo", "kept"] })).await;
    let run = answer.text("runId").to_owned();
    let before = server.agent().run(&run).await;
    assert_eq!(server.stop().await, Some(0));
    server.start().await;
    assert_eq!(server.agent().run(&run).await, before);
    let kept = server
        .agent()
        .get_bytes(&format!("/v1/runs/{run}/output"), None)
        .await;
    assert_eq!(kept.text(), "kept\n");
}

#[tokio::test]
async fn a_foreground_run_ends_with_the_server() {
    let mut server = TestServer::full()
        .toml("[shutdown]\ngrace_ms = 200\n")
        .start()
        .await;
    let mark = server.scratch().join("pid");
    let agent = server.agent();
    let body = json!({ "command": format!("echo $$ > {}; sleep 300", mark.display()), "yieldMs": 120_000 });
    let waiting = tokio::spawn(async move { agent.exec(body).await });
    soon("started", || lines(&mark), |pid| !pid.is_empty()).await;
    assert_eq!(server.stop().await, Some(0));
    drop(waiting.await);
    server.start().await;
    let run = server.agent().read("/v1/runs").await["items"][0].clone();
    assert_has!(run, { "status": "cancelled", "reason": "shutdown" });
}

#[tokio::test]
async fn a_background_run_goes_on_without_its_server() {
    for clean in [true, false] {
        let mut server = TestServer::full().start().await;
        let gate = server.scratch().join("gate");
        let file = server.scratch().join("lines");
        let command = format!(
            "echo $$ >> {}; echo first; while [ ! -e {} ]; do sleep 0.02; done; echo second",
            file.display(),
            gate.display()
        );
        let started = server
            .accepted(json!({ "command": command, "background": true }))
            .await;
        soon("started", || lines(&file), |pid| !pid.is_empty()).await;
        server.keep(lines(&file)[0].parse().unwrap());
        if clean {
            assert_eq!(server.stop().await, Some(0));
        } else {
            server.kill();
        }
        server.start().await;
        let run_id = started.text("runId");
        let run = server.agent().run(run_id).await;
        assert_has!(run, { "status": "running" }, "attached again (clean stop: {clean}): {run}");
        write_file(&gate, "");
        let run = server.agent().finished(run_id).await;
        assert_has!(run, { "status": "completed", "exitCode": 0, "stdout": "first\nsecond\n" });
        assert_eq!(lines(&file).len(), 1, "once");
    }
}

#[tokio::test]
async fn a_background_run_that_ended_meanwhile_is_finished_at_the_next_start() {
    let mut server = TestServer::full().start().await;
    let gate = server.scratch().join("gate");
    let file = server.scratch().join("pid");
    let done = server.scratch().join("done");
    let command = format!(
        "echo $$ >> {}; while [ ! -e {} ]; do sleep 0.02; done; echo ended; touch {}; exit 6",
        file.display(),
        gate.display(),
        done.display()
    );
    let started = server
        .accepted(json!({ "command": command, "background": true }))
        .await;
    let pids = soon("started", || lines(&file), |pid| !pid.is_empty()).await;
    server.kill();
    write_file(&gate, "");
    let pid = pids[0].parse().unwrap();
    soon("ended", || is_alive(pid), |alive| !alive).await;
    assert!(done.exists());
    server.start().await;
    let run = server.agent().finished(started.text("runId")).await;
    assert_has!(run, { "status": "failed", "exitCode": 6, "stdout": "ended\n" });
}

#[tokio::test]
async fn a_foreground_run_of_a_crashed_server_is_killed_and_accounted_for() {
    let mut server = TestServer::full().start().await;
    let mark = server.scratch().join("pid");
    let agent = server.agent();
    let body = json!({ "command": format!("echo $$ >> {}; sleep 300", mark.display()), "yieldMs": 120_000 });
    let waiting = tokio::spawn(async move {
        agent
            .request(reqwest::Method::POST, "/v1/exec")
            .json(&body)
            .send()
            .await
    });
    let pids = soon("started", || lines(&mark), |pid| !pid.is_empty()).await;
    server.kill();
    drop(waiting.await);
    let pid = pids[0].parse().unwrap();
    soon("killed", || is_alive(pid), |alive| !alive).await;
    server.start().await;
    let id = server.agent().read("/v1/runs").await["items"][0]["runId"].clone();
    let run = server.agent().finished(id.as_str().unwrap()).await;
    assert_has!(run, { "status": "cancelled", "reason": "shutdown" });
    assert_eq!(lines(&mark).len(), 1, "never again");
}

#[tokio::test]
async fn a_killed_runner_is_replaced() {
    let server = TestServer::full().start().await;
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    for _ in 0..3 {
        for pid in server.processes() {
            if pid != server.pid() {
                kill_hard(pid);
            }
        }
        let call = || async {
            let answer = server
                .agent()
                .exec(json!({ "argv": ["/bin/echo", "again"] }))
                .await;
            (answer.status, answer.json()["stdout"].clone())
        };
        eventually("running commands again", call, |seen| {
            *seen == (200, json!("again\n"))
        })
        .await;
    }
}

#[tokio::test]
async fn everything_it_writes_is_private() {
    let mut server = TestServer::asking().start().await;
    let pending = server.accepted(json!({ "argv": ["/bin/echo", "x"] })).await;
    let approval = pending.text("approvalId");
    server.operator().decided(approval, "allow-always").await;
    server.agent().finished(pending.text("runId")).await;
    server.stop().await;
    let mut folders = vec![server.state().to_owned()];
    let mut seen: Vec<Value> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            let expect = if kind.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expect, "{}", entry.path().display());
            seen.push(json!(entry.path()));
            if kind.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
}
