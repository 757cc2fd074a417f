//! What `POST /v1/exec` answers when nobody has to be asked.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Members, TestServer, eventually, joined_lines, lines, only, soon, without, write_file};

/// The members of a 200 answer that differ from run to run.
const VARYING: [&str; 2] = ["runId", "durationMs"];

#[tokio::test]
async fn a_command_answers_with_its_output() {
    let server = TestServer::full().start().await;
    let answer = server
        .ran(json!({ "command": "echo out; echo err >&2; echo more" }))
        .await;
    let aggregated = answer.text("aggregated");
    let mut sorted: Vec<&str> = aggregated.lines().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, ["err", "more", "out"], "both streams are in it");
    assert_eq!(
        without(&answer, &["runId", "durationMs", "aggregated"]),
        json!({
            "status": "completed", "host": "gateway", "exitCode": 0, "timedOut": false, "stdout": "out\nmore\n",
            "stderr": "err\n", "truncated": false, "outputBytes": 13, "cwd": server.state().join("workspace"),
            "diverted": false, "warnings": [], "decidedBy": { "kind": "policy" },
            "agentMessage": "The command ran and exited with code 0.",
        })
    );
}

#[tokio::test]
async fn argv_starts_the_program_without_a_shell() {
    let server = TestServer::full().start().await;
    let answer = server
        .agent()
        .exec(json!({ "argv": ["/bin/echo", "$HOME; ls | *", "", "a  b"] }))
        .await;
    assert_eq!(answer.expect(200)["stdout"], "$HOME; ls | *  a  b\n");
}

#[tokio::test]
async fn ends_are_told_apart() {
    let server = TestServer::full().start().await;
    let cases = [
        (
            "exit 3",
            json!({ "status": "failed", "exitCode": 3, "exitSignal": null, "timedOut": false }),
        ),
        (
            "exit 0",
            json!({ "status": "completed", "exitCode": 0, "exitSignal": null, "timedOut": false }),
        ),
        (
            "kill -TERM $$",
            json!({ "status": "failed", "exitCode": null, "exitSignal": "SIGTERM", "timedOut": false }),
        ),
        (
            "kill -KILL $$",
            json!({ "status": "failed", "exitCode": null, "exitSignal": "SIGKILL", "timedOut": false }),
        ),
        (
            "no-such-program-anywhere",
            json!({ "status": "failed", "exitCode": 127, "exitSignal": null, "timedOut": false }),
        ),
    ];
    for (command, expect) in cases {
        let answer = server.ran(json!({ "command": command })).await;
        assert_eq!(
            only(&answer, &["status", "exitCode", "exitSignal", "timedOut"]),
            expect,
            "{command}"
        );
        let run = server.agent().run(answer.text("runId")).await;
        assert_eq!(
            only(&run, &["status", "exitCode", "exitSignal", "timedOut"]),
            expect,
            "run of {command}"
        );
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_fails_with_the_reason() {
    let server = TestServer::full().start().await;
    let not_executable = server.scratch().join("plain.txt");
    write_file(&not_executable, "no program\n");
    for program in ["/no/such/program", not_executable.to_str().unwrap()] {
        let answer = server.ran(json!({ "argv": [program] })).await;
        assert_has!(answer, { "status": "failed", "exitCode": null }, "{program}");
        let run = server.agent().run(answer.text("runId")).await;
        assert_eq!(run["reason"], "spawn-failed", "{run}");
    }
}

#[tokio::test]
async fn the_time_limit_kills_the_whole_tree() {
    let server = TestServer::full().start().await;
    let pids = server.scratch().join("pids");
    let stubborn = format!(
        "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >> {0}; sleep 300 & echo $! >> {0}; wait' & \
         echo $$ >> {0}; while :; do sleep 300; done",
        pids.display()
    );
    let answer = server.ran(json!({ "command": stubborn, "timeout": 5 })).await;
    assert_has!(answer, { "status": "failed", "timedOut": true });
    let run = server.agent().run(answer.text("runId")).await;
    assert_has!(run, { "reason": "timeout", "timedOut": true });
    assert_eq!(run["timeoutMs"], 5000);
    let started: Vec<i32> = lines(&pids).iter().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(started.len(), 3, "all of the tree had started");
    let alive = || {
        std::future::ready(
            started
                .iter()
                .copied()
                .filter(|pid| crate::support::is_alive(*pid))
                .collect(),
        )
    };
    eventually("all killed", alive, Vec::<i32>::is_empty).await;
}

#[tokio::test]
async fn the_alias_of_timeout_counts_and_zero_is_no_limit() {
    let server = TestServer::full().start().await;
    let answer = server
        .ran(json!({ "command": "sleep 300", "timeoutSeconds": 1 }))
        .await;
    assert_eq!(answer["timedOut"], true);
    let answer = server.ran(json!({ "argv": ["/bin/true"], "timeout": 0 })).await;
    let run = server.agent().run(answer.text("runId")).await;
    assert_eq!(run["timeoutMs"], Value::Null);
}

#[tokio::test]
async fn after_the_yield_window_a_run_goes_to_the_background() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let reply = agent
        .exec(json!({ "command": "echo begun; sleep 300", "yieldMs": 100 }))
        .await;
    let answer = reply.expect(202);
    let run_id = answer.text("runId");
    assert_eq!(
        reply
            .header("location")
            .map(|at| at.ends_with(&format!("/v1/runs/{run_id}"))),
        Some(true)
    );
    assert_eq!(
        without(
            &answer,
            &["runId", "sessionId", "pid", "startedAtMs", "tail", "statusUrl"]
        ),
        json!({
            "status": "running", "host": "gateway", "cwd": server.state().join("workspace"), "diverted": false,
            "warnings": [],
        })
    );
    let run = agent.run(run_id).await;
    assert_has!(run, {
        "status": "running", "background": true, "pid": answer["pid"], "sessionId": answer["sessionId"],
    });
    eventually(
        "output of the running command",
        || agent.run(run_id),
        |run| run["tail"] == "begun\n",
    )
    .await;

    let cancelled = agent.cancel(run_id).await;
    assert_eq!(cancelled["runId"], run_id);
    let run = agent.finished(run_id).await;
    assert_has!(run, { "status": "cancelled", "reason": "cancelled" });
    agent
        .post(&format!("/v1/runs/{run_id}/cancel"), json!({}))
        .await
        .problem(409, "run-ended");
}

#[tokio::test]
async fn a_background_run_answers_at_once_and_ends_by_itself() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let gate = server.scratch().join("gate");
    let command = format!(
        "while [ ! -e {} ]; do sleep 0.02; done; echo through",
        gate.display()
    );
    let answer = agent
        .accepted(json!({ "command": command, "background": true }))
        .await;
    assert_eq!(answer["status"], "running");
    write_file(&gate, "");
    let run = agent.finished(answer.text("runId")).await;
    assert_has!(run, { "status": "completed", "exitCode": 0, "stdout": "through\n", "background": true });
}

#[tokio::test]
async fn a_background_run_is_a_session_however_soon_it_ends() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    for _ in 0..20 {
        let answer = agent
            .accepted(json!({ "command": "echo quick", "background": true }))
            .await;
        assert_eq!(answer["status"], "running");
        assert!(
            answer["pid"].is_i64() && answer["startedAtMs"].is_i64(),
            "{answer}"
        );
        let run = agent.finished(answer.text("runId")).await;
        assert_has!(run, {
            "status": "completed", "stdout": "quick\n", "background": true, "sessionId": answer["sessionId"],
        });
        let session = answer.text("sessionId");
        let polled = json!({ "action": "poll", "sessionId": session });
        let polled = agent.posted("/v1/process", polled).await;
        assert_eq!(polled["stdout"], "quick\n");
    }
    // What was never launched is no session.
    let missing = json!({ "argv": ["/nowhere/program"], "background": true });
    let failed = agent.ran(missing).await;
    assert_has!(failed, { "status": "failed", "reason": "spawn-failed", "sessionId": null });
}

#[tokio::test]
async fn a_foreground_run_dies_with_its_client() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let mark = server.scratch().join("pid");
    let body = json!({ "command": format!("echo $$ > {}; sleep 300", mark.display()), "yieldMs": 120_000 });
    let waiting = tokio::spawn({
        let agent = agent.clone();
        async move { agent.exec(body).await }
    });
    soon("started", || lines(&mark), |pid| !pid.is_empty()).await;
    waiting.abort();
    let runs = || async { agent.read("/v1/runs").await["items"][0].clone() };
    let run = eventually("cancelled", runs, |run| run["status"] == "cancelled").await;
    assert_eq!(run["reason"], "cancelled");
    let pid: i32 = lines(&mark)[0].parse().unwrap();
    soon("killed", || crate::support::is_alive(pid), |alive| !alive).await;
}

#[tokio::test]
async fn what_a_command_leaves_running_is_killed_with_a_warning() {
    let server = TestServer::full().start().await;
    let answer = server.ran(json!({ "command": "sleep 300 & echo $!" })).await;
    assert_eq!(answer["status"], "completed");
    let codes: Vec<&Value> = answer.list("warnings").iter().map(|w| &w["code"]).collect();
    assert_eq!(codes, ["leftovers-killed"]);
    let pid: i32 = answer.text("stdout").trim().parse().unwrap();
    soon("killed", || crate::support::is_alive(pid), |alive| !alive).await;
}

#[tokio::test]
async fn leftovers_stay_where_the_settings_keep_them() {
    let exec = json!({ "host": "gateway", "security": "full", "ask": "off", "leftovers": "keep" });
    let mut server = TestServer::full().exec(&exec).start().await;
    let answer = server
        .ran(json!({ "command": "sleep 300 >/dev/null 2>&1 & echo $!" }))
        .await;
    assert_eq!(answer["warnings"], json!([]));
    let pid: i32 = answer.text("stdout").trim().parse().unwrap();
    server.keep(pid);
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    assert!(crate::support::is_alive(pid), "what was left behind stays");
}

#[tokio::test]
async fn the_working_directory_is_as_asked() {
    let server = TestServer::full().start().await;
    let directory = server.scratch().dir("work here/ü");
    let answer = server
        .ran(json!({ "argv": ["/bin/pwd"], "workdir": directory }))
        .await;
    assert_eq!(answer["stdout"], format!("{}\n", directory.display()));
    assert_eq!(answer["cwd"], json!(directory));
    let home = server.ran(json!({ "argv": ["/bin/pwd"], "workdir": "~/" })).await;
    assert_eq!(
        home["stdout"],
        format!("{}\n", server.scratch().join("home").display())
    );
}

#[tokio::test]
async fn the_environment_is_the_inherited_one_and_the_overrides() {
    let server = TestServer::full()
        .env("COUNTERSIGN_LIMITS__MAX_QUEUED", "1000")
        .env("OPENCLAW_GATEWAY_TOKEN", "secret")
        .env("NODE_OPTIONS", "--require /tmp/x.js")
        .env("BASH_ENV", "/tmp/x.sh")
        .env("KEPT_BY_ALL", "yes")
        .start()
        .await;
    let body = json!({ "argv": ["/usr/bin/env"], "env": { "TZ": "UTC", "GREETING": "grüß dich" } });
    let answer = server.ran(body).await;
    let mut names: Vec<&str> = Vec::new();
    for line in answer.text("stdout").lines() {
        let (name, value) = line.split_once('=').unwrap();
        names.push(name);
        match name {
            "OPENCLAW_SHELL" => assert_eq!(value, "exec"),
            "GREETING" => assert_eq!(value, "grüß dich"),
            "TZ" => assert_eq!(value, "UTC"),
            "KEPT_BY_ALL" => assert_eq!(value, "yes"),
            "HOME" => assert_eq!(value, server.scratch().join("home").to_str().unwrap()),
            _ => {}
        }
    }
    for wanted in ["OPENCLAW_SHELL", "GREETING", "TZ", "KEPT_BY_ALL", "HOME", "PATH"] {
        assert!(names.contains(&wanted), "{wanted} in {names:?}");
    }
    for name in names {
        let ours =
            name.starts_with("COUNTERSIGN_") || (name.starts_with("OPENCLAW_") && name != "OPENCLAW_SHELL");
        assert!(
            !ours && !["NODE_OPTIONS", "BASH_ENV"].contains(&name),
            "{name} must not get through"
        );
    }
    let run = server.agent().run(answer.text("runId")).await;
    assert_eq!(run["envNames"], json!(["GREETING", "TZ"]));
}

#[tokio::test]
async fn values_of_overrides_are_stored_nowhere_in_clear() {
    const VALUE: &str = "bright-orange-value";
    let mut server = TestServer::asking().start().await;
    let command = format!("echo shown-word; test ${{#GREETING}} = {}", VALUE.len());
    let exec = json!({ "command": command, "env": { "GREETING": VALUE } });
    let ran = server.accepted(exec.clone()).await;
    let approval = server.operator().pending().await.remove(0);
    assert_eq!(approval["envValues"]["GREETING"], VALUE, "{approval}");
    let id = approval.text("id");
    server.operator().decided(id, "allow-once").await;
    let run = server.agent().finished(ran.text("runId")).await;
    assert_eq!(run["exitCode"], 0, "{run}");
    // This one waits when the server dies.
    server.accepted(exec).await;
    let events = server.operator().get("/v1/events?after=0").await.text();
    assert!(
        events.contains("shown-word") && !events.contains(VALUE),
        "{events}"
    );

    // Killed, so that the files are as a thief of the disk would find them.
    server.kill();
    let mut files_with_the_word = 0;
    for file in server.scratch().files() {
        let bytes = fs::read(&file).unwrap();
        let contains = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        files_with_the_word += usize::from(contains("shown-word"));
        assert!(!contains(VALUE), "in {}", file.display());
    }
    assert!(files_with_the_word > 0, "the ledger has what it should have");

    server.start().await;
    let approval = server.operator().pending().await.remove(0);
    let id = approval.text("id");
    server.operator().decided(id, "deny").await;
}

#[tokio::test]
async fn a_command_has_the_signals_and_the_input_of_a_fresh_process() {
    let server = TestServer::full().start().await;
    // The masks of ignored and blocked signals; no input; no descriptor beyond the three.
    let command = "grep -E 'Sig(Ign|Blk)' /proc/self/status; cat; ls /proc/self/fd";
    let answer = server.ran(json!({ "command": command })).await;
    let stdout = answer.text("stdout");
    assert_eq!(
        stdout.split_whitespace().collect::<Vec<_>>(),
        // `ls` itself holds number 3 while it reads the directory.
        [
            "SigBlk:",
            "0000000000000000",
            "SigIgn:",
            "0000000000000000",
            "0",
            "1",
            "2",
            "3"
        ],
    );
}

#[tokio::test]
async fn long_output_is_cut_with_its_tail_and_kept_whole() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let answer = agent
        .ran(json!({ "command": "seq 1 100000; echo done >&2" }))
        .await;
    let whole = joined_lines((1..=100_000).map(|n| n.to_string()));
    assert_eq!(answer["truncated"], true);
    assert_eq!(answer["outputBytes"], whole.len() + 5);
    assert_eq!(
        answer["aggregated"],
        format!("{}\n… (truncated)", &whole[..200_000])
    );
    let tail = answer.text("tail");
    let shown = tail.strip_prefix("… (truncated) ").unwrap();
    assert_eq!(shown.len(), 20_000);
    // The last of two pipes may be read in either order.
    let numbers = shown.replacen("done\n", "", 1);
    assert!(
        whole.ends_with(&numbers) && shown.len() - numbers.len() <= 5,
        "{tail}"
    );

    let path = format!("/v1/runs/{}/output", answer.text("runId"));
    let bytes = agent.get_bytes(&path, None).await;
    assert_eq!((bytes.status, bytes.bytes.len()), (200, whole.len() + 5));
    let stdout = agent.get_bytes(&format!("{path}?stream=stdout"), None).await;
    assert!(stdout.status == 200 && stdout.bytes == whole.as_bytes());
    let stderr = agent.get_bytes(&format!("{path}?stream=stderr"), None).await;
    assert_eq!((stderr.status, stderr.text().as_str()), (200, "done\n"));
    let part = agent
        .get_bytes(&format!("{path}?stream=stdout"), Some("bytes=2-9"))
        .await;
    assert_eq!((part.status, part.text()), (206, whole[2..10].to_owned()));
    let total = whole.len();
    assert_eq!(
        part.header("content-range"),
        Some(format!("bytes 2-9/{total}").as_str())
    );
    let beyond = agent
        .get_bytes(&format!("{path}?stream=stderr"), Some("bytes=100-"))
        .await;
    assert_eq!(beyond.header("content-range"), Some("bytes */5"));
    beyond.problem(416, "range-not-satisfiable");
}

#[tokio::test]
async fn output_is_harmless_text_and_exact_bytes() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let command = r"printf 'a\033[31mb\000c\377d\342\200\256e\tf\r\n'";
    let answer = agent.ran(json!({ "command": command })).await;
    assert_eq!(answer["stdout"], "a[31mbc\u{fffd}de\tf\r\n");
    let raw = agent
        .get_bytes(&format!("/v1/runs/{}/output", answer.text("runId")), None)
        .await;
    assert_eq!(raw.bytes.as_ref(), b"a\x1b[31mb\0c\xffd\xe2\x80\xaee\tf\r\n");
}

#[tokio::test]
async fn denied_by_policy_leaves_a_record_and_runs_nothing() {
    let server = TestServer::full()
        .exec(&json!({ "host": "gateway", "security": "deny" }))
        .start()
        .await;
    let mark = server.scratch().join("mark");
    let problem = server.denied(json!({ "argv": ["/usr/bin/touch", mark] })).await;
    assert_eq!(problem["reason"], "security-deny");
    let run = server.agent().run(problem.text("runId")).await;
    assert_has!(run, {
        "status": "denied", "reason": "security-deny", "security": "deny",
        "decision": { "verdict": "deny", "by": "policy" },
    });
    assert!(!mark.exists());
}

#[tokio::test]
async fn a_call_may_tighten_and_never_loosen() {
    let server = TestServer::full().start().await;
    let tightened = server
        .agent()
        .exec(json!({ "command": "true", "security": "deny" }))
        .await;
    assert_eq!(tightened.problem(403, "exec-denied")["reason"], "security-deny");
    let server = TestServer::allowlist_only().start().await;
    let loosened = server
        .agent()
        .exec(json!({ "argv": ["/bin/date"], "security": "full" }))
        .await;
    assert_eq!(loosened.problem(403, "exec-denied")["reason"], "allowlist-miss");
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_filtered() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    for (command, agent_id) in [
        ("echo one", "main"),
        ("echo two; exit 1", "build"),
        ("echo three", "main"),
    ] {
        agent
            .ran(json!({ "command": command, "agentId": agent_id }))
            .await;
    }
    let listed = async |query: &str| -> Vec<String> {
        let list = agent.read(&format!("/v1/runs{query}")).await;
        let items = list.list("items");
        items.iter().map(|run| run.text("command").to_owned()).collect()
    };
    assert_eq!(listed("").await, ["echo three", "echo two; exit 1", "echo one"]);
    assert_eq!(listed("?agentId=main").await, ["echo three", "echo one"]);
    assert_eq!(listed("?status=failed").await, ["echo two; exit 1"]);
    assert_eq!(listed("?sessionKey=agent:build:main").await, ["echo two; exit 1"]);
    assert_eq!(listed("?q=thr").await, ["echo three"]);
    assert_eq!(listed("?host=sandbox").await, Vec::<String>::new());
    let first = agent.read("/v1/runs?limit=2").await;
    let cursor = first.text("nextCursor");
    assert_eq!(listed(&format!("?limit=2&cursor={cursor}")).await, ["echo one"]);
}

#[tokio::test]
async fn the_workspace_is_made_private_on_first_use() {
    let server = TestServer::full().start().await;
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(server.state().join("workspace"))
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_run_record_tells_the_whole_story() {
    let server = TestServer::full().start().await;
    // Depends on the account and the machine; `confined` has tests of its own.
    let isolation = server.ready_line().split_once("isolation=");
    let isolation = isolation.and_then(|(_before, level)| level.split_whitespace().next());
    let answer = server
        .ran(json!({ "argv": ["/bin/echo", "a b"], "timeout": 30 }))
        .await;
    let run = server.agent().run(answer.text("runId")).await;
    let varying = [
        "createdAtMs",
        "startedAtMs",
        "endedAtMs",
        "pid",
        "requestedBy",
        "tail",
    ];
    assert_eq!(
        without(&without(&run, &VARYING), &varying),
        json!({
            "status": "completed", "host": "gateway", "agentId": "main", "sessionKey": "agent:main:main",
            "argv": ["/bin/echo", "a b"], "displayText": "/bin/echo 'a b'",
            "cwd": server.state().join("workspace"), "envNames": [],
            "security": "full", "ask": "off", "decision": { "verdict": "run", "by": "policy" }, "pty": false,
            "background": false, "diverted": false, "isolation": isolation, "binding": "exact", "timeoutMs": 30000, "exitCode": 0,
            "timedOut": false, "truncated": false, "outputBytes": 4, "aggregated": "a b\n", "stdout": "a b\n",
            "stderr": "", "decidedBy": { "kind": "policy" }, "agentMessage": "The command ran and exited with code 0.",
        })
    );
    let asked_by = without(&run["requestedBy"], &["id", "name"]);
    assert_eq!(asked_by, json!({ "kind": "token" }));
    let at = |member: &str| run[member].as_i64().unwrap();
    assert!(
        at("createdAtMs") <= at("startedAtMs") && at("startedAtMs") <= at("endedAtMs"),
        "{run}"
    );
}

/// A shell loop that writes more than the ledger keeps itself.
const LONG_OUTPUT: &str =
    "i=0; while [ $i -lt 2000 ]; do echo 0123456789012345678901234567890123456789012345678; i=$((i+1)); done";

#[tokio::test]
async fn output_above_the_quota_goes_and_the_record_stays() {
    let mut server = TestServer::full().start().await;
    let run = server.ran(json!({ "command": LONG_OUTPUT })).await;
    let path = format!("/v1/runs/{}/output", run.text("runId"));
    let whole = server.agent().get_bytes(&path, None).await;
    assert_eq!((whole.status, whole.bytes.len()), (200, 100_000));
    let tag = whole.header("etag").unwrap().to_owned();
    let request = server.agent().request(reqwest::Method::HEAD, &path);
    let head = server.agent().send(request).await;
    assert_eq!(
        (head.status, head.bytes.len(), head.header("content-length")),
        (200, 0, Some("100000"))
    );
    for (tag, status, length) in [(tag.as_str(), 206, 10), ("\"other\"", 200, 100_000)] {
        let request = server.agent().request(reqwest::Method::GET, &path);
        let request = request.header("Range", "bytes=10-19").header("If-Range", tag);
        let part = server.agent().send(request).await;
        assert_eq!((part.status, part.bytes.len()), (status, length), "{tag}");
    }
    assert_eq!(server.stop().await, Some(0));
    server.edit_toml("[exec]\nlogin_path = false\n[output]\nquota_bytes = 0\n");
    server.start().await;
    let gone = || async { server.agent().get_bytes(&path, None).await.status };
    eventually("gone", gone, |status| *status == 404).await;
    server
        .agent()
        .get_bytes(&path, None)
        .await
        .problem(404, "not-found");
    let record = server.agent().run(run.text("runId")).await;
    assert_eq!(record["outputBytes"], 100_000);
}
