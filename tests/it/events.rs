//! The event stream: nothing lost, nothing twice, across reconnects and restarts.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    thread,
};

use serde_json::{Value, json};

use countersign_sys::process::signal_process;

use crate::support::{Api, Event, Members, Scratch, TestServer, eventually, only, pid_of, soon};

async fn page(api: &Api, query: &str) -> Value {
    api.read(&format!("/v1/events{query}")).await
}

/// All events of the retained log, page by page.
async fn whole_log(api: &Api, limit: usize) -> Vec<Value> {
    let mut events = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = page(api, &format!("?after=0&limit={limit}{cursor}")).await;
        events.extend(page.list("items").iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return events,
        }
    }
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events
        .iter()
        .map(|event| event["seq"].as_u64().expect("a sequence number"))
        .collect()
}

#[tokio::test]
async fn a_run_is_told_in_order() {
    let server = TestServer::full().start().await;
    let mut stream = server.operator().events("", None).await;
    let answer = server.ran(json!({ "command": "echo told; exit 3" })).await;
    let requested = stream.next_of("exec.requested").await;
    let started = stream.next_of("exec.started").await;
    let finished = stream.next_of("exec.finished").await;
    assert!(requested.id < started.id && started.id < finished.id);
    for event in [&requested, &started, &finished] {
        assert_has!(event.data, {
            "seq": event.id, "type": event.kind, "runId": answer["runId"], "agentId": "main",
            "sessionKey": "agent:main:main", "host": "gateway",
        });
        assert!(event.data["ts"].is_i64());
    }
    assert_has!(requested.data, { "command": "echo told; exit 3", "cwd": answer["cwd"], "verdict": "run" });
    assert_has!(finished.data, {
        "status": "failed", "exitCode": 3, "timedOut": false, "truncated": false, "outputBytes": 5,
        "tail": "told\n",
    });
}

#[tokio::test]
async fn a_question_and_its_answer_are_told() {
    let server = TestServer::asking().start().await;
    let mut stream = server
        .operator()
        .events("?types=exec.approval.,exec.denied", None)
        .await;
    let pending = server.accepted(json!({ "argv": ["/bin/date"] })).await;
    let approval = pending.text("approvalId");
    let requested = stream.next().await;
    assert_eq!(requested.kind, "exec.approval.requested");
    assert_has!(requested.data, {
        "approvalId": approval, "slug": pending["approvalSlug"], "runId": pending["runId"],
        "command": "/bin/date", "cwd": pending["cwd"], "security": "allowlist", "ask": "on-miss",
        "expiresAtMs": pending["expiresAtMs"],
    });
    server.operator().decided(approval, "deny").await;
    let mut told = [stream.next().await, stream.next().await];
    told.sort_by(|a, b| a.kind.cmp(&b.kind));
    assert_eq!(
        only(
            &told[0].data,
            &["type", "approvalId", "status", "decision", "terminalReason"]
        ),
        json!({
            "type": "exec.approval.resolved", "approvalId": approval, "status": "denied", "decision": "deny",
            "terminalReason": "user",
        })
    );
    assert_has!(told[1].data, { "type": "exec.denied", "runId": pending["runId"], "reason": "user-denied" });
}

#[tokio::test]
async fn agents_cannot_take_the_streams_that_approvers_need() {
    let server = TestServer::allowlist_only()
        .toml("[limits]\nmax_sse_clients = 4")
        .start()
        .await;
    let agent = server.agent();
    let _held = (agent.events("", None).await, agent.events("", None).await);
    agent
        .get_bytes("/v1/events", None)
        .await
        .problem(503, "overloaded");
    let operator = server.operator();
    let _others = (operator.events("", None).await, operator.events("", None).await);
    operator
        .get_bytes("/v1/events", None)
        .await
        .problem(503, "overloaded");
}

#[tokio::test]
async fn a_stream_resumes_where_it_broke_off() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let mut stream = operator.events("", None).await;
    for number in 0..20 {
        server
            .ran(json!({ "argv": ["/bin/echo", number.to_string()] }))
            .await;
    }
    let mut seen: Vec<Event> = Vec::new();
    while seen.len() < 10 {
        seen.push(stream.next().await);
    }
    drop(stream);
    for number in 20..30 {
        server
            .ran(json!({ "argv": ["/bin/echo", number.to_string()] }))
            .await;
    }
    let mut stream = operator.events("", seen.last().unwrap().id).await;
    let finished = |events: &[Event]| {
        events
            .iter()
            .filter(|event| event.kind == "exec.finished")
            .count()
    };
    while finished(&seen) < 30 {
        seen.push(stream.next().await);
    }
    let first = seen[0].id.unwrap();
    let log: Vec<Value> = whole_log(&operator, 7)
        .await
        .into_iter()
        .filter(|event| event["seq"].as_u64() >= Some(first))
        .collect();
    let told: Vec<Value> = seen.into_iter().map(|event| event.data).collect();
    assert_eq!(
        told,
        log[..told.len()],
        "each event once, in order, as the log has it"
    );
}

#[tokio::test]
async fn numbers_go_on_after_a_crash() {
    let mut server = TestServer::full().start().await;
    server.ran(json!({ "argv": ["/bin/echo", "before"] })).await;
    let before = whole_log(&server.operator(), 500).await;
    server.crash_and_restart().await;
    server.ran(json!({ "argv": ["/bin/echo", "after"] })).await;
    let after = whole_log(&server.operator(), 500).await;
    assert_eq!(after[..before.len()], before[..], "what was told stays told");
    let numbers = numbers(&after);
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");

    let last = before.last().unwrap()["seq"].as_u64();
    let mut stream = server.operator().events("", last).await;
    let next = stream.next().await;
    assert_eq!(
        next.data,
        after[before.len()],
        "a client of before resumes with what it missed"
    );
}

#[tokio::test]
async fn filters_choose() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    for agent_id in ["main", "other"] {
        agent
            .ran(json!({ "argv": ["/bin/echo"], "agentId": agent_id }))
            .await;
    }
    let run = agent
        .ran(json!({ "argv": ["/bin/echo"], "sessionKey": "agent:main:chat" }))
        .await;
    let operator = server.operator();
    let count = async |query: &str| {
        page(&operator, &format!("?after=0{query}"))
            .await
            .list("items")
            .len()
    };
    let finished = || async {
        page(&operator, "?after=0&types=exec.finished")
            .await
            .list("items")
            .len()
    };
    eventually("all told", finished, |count| *count == 3).await;
    assert_eq!(count("&types=exec.finished,exec.requested").await, 6);
    assert_eq!(count("&types=exec.finished&agentId=other").await, 1);
    assert_eq!(count("&types=exec.finished&sessionKey=agent:main:chat").await, 1);
    assert_eq!(
        count(&format!("&types=exec.finished&runId={}", run.text("runId"))).await,
        1
    );
    assert_eq!(count("&types=nothing.").await, 0);
}

#[tokio::test]
async fn an_asker_hears_of_its_own_runs_only() {
    let server = TestServer::full().start().await;
    let (_, other) = server
        .token_with(json!({ "name": "other", "scopes": ["exec"] }))
        .await;
    let mine = server.ran(json!({ "argv": ["/bin/echo", "mine"] })).await;
    let theirs = other.ran(json!({ "argv": ["/bin/echo", "theirs"] })).await;
    let own = || async { whole_log(&other, 500).await };
    let ended = |log: &Vec<Value>| log.iter().any(|event| event["type"] == "exec.finished");
    let events = eventually("told", own, ended).await;
    assert!(
        events.iter().all(|event| event["runId"] == theirs["runId"]),
        "{events:#?}"
    );
    let path = format!("/v1/runs/{}", mine.text("runId"));
    other.get(&path).await.problem(404, "not-found");
    other
        .get(&format!("{path}/output"))
        .await
        .problem(404, "not-found");
    other
        .post(&format!("{path}/cancel"), json!({}))
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn a_stop_ends_the_streams() {
    let mut server = TestServer::full().start().await;
    let mut stream = server.operator().events("", None).await;
    server.send_signal(rustix::process::Signal::TERM);
    let mut last = None;
    while let Some(event) = stream.next_or_end().await {
        last = Some(event.kind);
    }
    assert_eq!(last.as_deref(), Some("server.shutdown"));
    assert_eq!(server.ended().await, Some(0));
}

#[tokio::test]
async fn a_gap_is_told_when_the_log_was_shortened() {
    let server = TestServer::full()
        .toml("[events]\nkeep_count = 5\n")
        .start()
        .await;
    for _ in 0..10 {
        server.ran(json!({ "argv": ["/bin/true"] })).await;
    }
    let first = || async {
        let mut stream = server.operator().events("", Some(1)).await;
        stream.next().await
    };
    let gap = eventually("shortened", first, |event| event.kind == "events.gap").await;
    assert!(
        gap.data["ts"].is_i64() && gap.data.get("seq").is_none(),
        "{gap:?}"
    );
    assert!(
        gap.data["oldestSeq"].as_u64().is_some_and(|oldest| oldest > 2),
        "{gap:?}"
    );
}

#[tokio::test]
async fn fifty_readers_miss_nothing() {
    let server = TestServer::full().start().await;
    let mut readers = Vec::new();
    for _ in 0..50 {
        let mut stream = server.operator().events("?types=exec.finished", None).await;
        readers.push(tokio::spawn(async move {
            let mut runs = Vec::new();
            while runs.len() < 40 {
                runs.push(stream.next().await.data.text("runId").to_owned());
            }
            runs
        }));
    }
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let agent = server.agent();
            tokio::spawn(async move {
                agent
                    .ran(json!({ "argv": ["/bin/true"] }))
                    .await
                    .text("runId")
                    .to_owned()
            })
        })
        .collect();
    let mut ran = Vec::new();
    for call in calls {
        ran.push(call.await.unwrap());
    }
    ran.sort();
    for reader in readers {
        let mut seen = reader.await.unwrap();
        seen.sort();
        assert_eq!(seen, ran);
    }
}

#[tokio::test]
async fn live_output_comes_before_the_end_of_its_run() {
    let server = TestServer::full().start().await;
    for _ in 0..10 {
        let mut stream = server.operator().events("?output=true", None).await;
        let call = json!({ "command": "echo one; echo two >&2; echo three" });
        server.ran(call).await;
        let (mut text, mut event) = (String::new(), stream.next().await);
        while event.kind != "exec.finished" {
            if event.kind == "exec.output" {
                assert_eq!(event.id, None, "it is not kept");
                text.push_str(event.data.text("text"));
            }
            event = stream.next().await;
        }
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["one", "three", "two"]);
    }
}

#[tokio::test]
async fn places_in_the_stream_are_numbers_of_events() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let get = |query: &str| operator.request(reqwest::Method::GET, &format!("/v1/events{query}"));
    for id in ["junk", "-1", "1.5", ""] {
        let refused = operator.send(get("").header("Last-Event-ID", id)).await;
        let problem = refused.problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], "Last-Event-ID");
    }
    for (query, path) in [
        ("?after=junk", "after"),
        ("?after=-1", "after"),
        ("?types=,", "types"),
        ("?agentId=*", "agentId"),
        ("?output=maybe", "output"),
        ("?limit=3", "limit"),
    ] {
        let problem = operator.send(get(query)).await.problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], path, "{query}");
    }
    // A number from another ledger's future does not silence the stream.
    let mut stream = operator.events("?types=exec.finished", Some(999_999)).await;
    let run = server.ran(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(stream.next().await.data["runId"], run["runId"]);
    let page = operator.read("/v1/events?limit=1").await;
    let cursor = page.text("nextCursor");
    let next = operator
        .read(&format!("/v1/events?limit=1&cursor={cursor}"))
        .await;
    assert_eq!(
        next["items"][0]["seq"].as_i64(),
        page["items"][0]["seq"].as_i64().map(|seq| seq + 1)
    );
}

/// Several times, since without care it depends on chance which of the two is seen first.
#[tokio::test]
async fn an_interrupt_that_comes_with_events_ends_who_follows() {
    let server = TestServer::full()
        .exec(&json!({ "host": "gateway", "security": "deny", "ask": "off" }))
        .start()
        .await;
    let agent = server.agent();
    for _ in 0..400 {
        let refused = agent.exec(json!({ "argv": ["true"] })).await;
        refused.problem(403, "exec-denied");
    }
    for _ in 0..6 {
        let follow = ["events", "--follow", "--after", "0", "--json"];
        let mut child = server.invocation(&follow).start_interactive();
        let mut stdout = child.stdout.take().expect("stdout is piped");
        // It stands still in the middle of the events, with more of them on their way.
        let waiting = || rustix::io::ioctl_fionread(&stdout).expect("a pipe");
        soon("full", waiting, |bytes| *bytes > 60_000).await;
        signal_process(pid_of(&child), rustix::process::Signal::INT);
        let reading = thread::spawn(move || drop(io::copy(&mut stdout, &mut io::sink())));
        let ended = || child.try_wait().expect("its state").map(|status| status.code());
        assert_eq!(soon("ended", ended, Option::is_some).await, Some(Some(0)));
        reading.join().expect("the end of the output");
    }
}

#[tokio::test]
async fn events_for_people_are_sentences() {
    let server = TestServer::asking().start().await;
    let asked = server
        .asked(json!({ "argv": ["/bin/date"], "agentId": "build" }))
        .await;
    let denial = json!({ "decision": "deny", "reason": "not today" });
    let path = format!("/v1/approvals/{}/decision", asked.text("approvalId"));
    server.operator().posted(&path, denial).await;
    let told = server.cli(&["events", "--agent", "build"]).await;
    let line = "build asked /bin/date \u{2192} operator denied: \u{201c}not today\u{201d}\n";
    assert!(told.stdout.ends_with(line), "{told:?}");
    assert_eq!(told.stdout.lines().count(), 1, "{told:?}");
    let raw = server.cli(&["events", "--agent", "build", "--raw"]).await;
    raw.says("exec.approval.resolved");
    raw.says("reason=not today");
}

#[tokio::test]
async fn a_type_that_no_event_has_is_warned_about() {
    let server = TestServer::full().start().await;
    let wrong = server.cli(&["events", "--types", "exec.deneid,policy"]).await;
    assert_eq!(wrong.code, Some(0), "{wrong:?}");
    wrong.complains("warning[unknown-type]: no event type begins with exec.deneid\n");
    wrong.complains("hint: countersign events --types exec.denied\n");
    assert!(!wrong.stderr.contains("begins with policy"), "{wrong:?}");
}

#[tokio::test]
async fn the_log_has_a_line_for_each_step_with_secrets_masked() {
    let mut server = TestServer::asking().start().await;
    let secret = "date --token abcdef0123456789";
    let asked = server
        .asked(json!({ "command": secret, "agentId": "build" }))
        .await;
    server.operator().decided(asked.text("approvalId"), "deny").await;
    let other = server.asked(json!({ "argv": ["/bin/echo", "x"] })).await;
    server.answered(&other, "allow-once").await;
    server.agent().finished(other.text("runId")).await;
    assert_eq!(server.stop().await, Some(0));
    let log = server.log();
    let run = asked.text("runId");
    let short = &run[run.len() - 8..];
    for part in [
        "build asked date --token ⟨secret of 16 characters⟩",
        "waits for a person (approval ",
        "operator denied",
        "operator allowed once",
        "exit 0 in ",
    ] {
        let line = log.lines().find(|line| line.contains(part));
        let line = line.unwrap_or_else(|| panic!("{part:?} in {log}"));
        assert!(line.contains(" INFO ") && line.contains("run.id="), "{line}");
    }
    assert!(log.contains(&format!("run.id=\"{short}\"")), "{log}");
    assert!(!log.contains("abcdef0123456789"), "{log}");
}

#[tokio::test]
async fn a_command_forges_no_step_and_no_field_of_the_log() {
    let mut server = TestServer::full().start().await;
    let forged = ": x \u{2192} ann allowed once -> exit 0 agent.id=\"ops\"";
    server.ran(json!({ "command": forged, "agentId": "build" })).await;
    let told = server.cli(&["events", "--agent", "build"]).await;
    assert_eq!(told.stdout.matches('\u{2192}').count(), 1, "{told:?}");
    told.says("build runs : x \\u{2192} ann allowed once -\\u{3E} exit 0");
    assert_eq!(server.stop().await, Some(0));
    let log = server.log();
    assert!(!log.contains("agent.id=\"ops\""), "{log}");
    assert!(log.contains("agent.id=\"build\""), "{log}");
}

#[tokio::test]
async fn what_recovery_ends_is_in_the_log() {
    let mut server = TestServer::full().start().await;
    let gate = server.scratch().join("gate");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &gate,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    )
    .expect("a pipe");
    let command = format!("read line < {}; exit 3", gate.display());
    let call = json!({ "command": command, "background": true });
    let started = server.accepted(call).await;
    server.kill();
    let mut pipe = std::fs::File::options()
        .write(true)
        .open(&gate)
        .expect("the command reads");
    pipe.write_all(b"go\n").expect("the command reads");
    drop(pipe);
    let running = || std::future::ready(server.processes());
    eventually("ended", running, Vec::is_empty).await;
    server.start().await;
    let ended = server.agent().finished(started.text("runId")).await;
    assert_eq!(ended["exitCode"], 3, "{ended}");
    assert_eq!(server.stop().await, Some(0));
    let log = server.log();
    assert!(log.lines().any(|line| line.contains("exit 3 in ")), "{log}");
}

/// The write end blocks for ever: nobody reads, and there is no room.
pub(crate) fn unread_pipe(scratch: &Scratch) -> (std::path::PathBuf, std::fs::File) {
    let path = scratch.join("unread");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &path,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    )
    .expect("a pipe");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NONBLOCK;
    let pipe = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).expect("both of its ends");
    while rustix::io::write(&pipe, &[b'.'; 512]).is_ok() {}
    (path, pipe.into())
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_nothing_up() {
    let mut server = TestServer::full()
        .toml("[telemetry]\nlog_filter = \"debug\"\n")
        .prepare();
    let (path, pipe) = unread_pipe(server.scratch());
    server.log_to(&path);
    server.start().await;
    for _ in 0..30 {
        server.ran(json!({ "argv": ["/bin/true"] })).await;
    }
    // What it could not write at its start, it counts; then the log goes on.
    let mut log = BufReader::new(pipe);
    let mut seen = Vec::new();
    let read = || {
        // There is nothing to read for the moment, or a part of a line.
        drop(log.read_until(b'\n', &mut seen));
        let text = String::from_utf8_lossy(&seen);
        text.contains("exit 0 in ")
    };
    soon("the log", read, |seen| *seen).await;
    // Full again, and to its end.
    drop(log);
    assert_eq!(server.stop().await, Some(0));
}

#[tokio::test]
async fn events_of_a_window_are_the_newest_of_it_in_their_order() {
    let server = TestServer::full().start().await;
    for _ in 0..3 {
        server.ran(json!({ "argv": ["/bin/true"] })).await;
    }
    let page = server
        .operator()
        .read("/v1/events?after=0&types=exec.finished")
        .await;
    let moment = page["items"][2]["ts"].as_i64().expect("a time") + 1;
    let since = jiff::Timestamp::from_millisecond(moment)
        .expect("a time")
        .to_string();
    let passed = || async { server.operator().read("/v1/events?after=0").await };
    drop(passed().await);
    for _ in 0..3 {
        server.ran(json!({ "argv": ["/bin/true"] })).await;
    }
    let all = whole_log(&server.operator(), 500).await;
    let ends: Vec<u64> = numbers(
        &all.iter()
            .filter(|event| event["type"] == "exec.finished")
            .cloned()
            .collect::<Vec<_>>(),
    );
    let in_window: Vec<u64> = {
        let later = all
            .iter()
            .filter(|event| event["ts"].as_i64() >= Some(moment) && event["type"] == "exec.finished");
        numbers(&later.cloned().collect::<Vec<_>>())
    };
    assert!((2..=3).contains(&in_window.len()), "{all:#?}");
    let listed = async |arguments: &[&str]| {
        let mut line = vec!["events", "--json", "--oldest-first", "--types", "exec.finished"];
        line.extend(arguments);
        let done = server.cli(&line).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        let seen = done
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        numbers(&seen.collect::<Vec<Value>>())
    };
    assert_eq!(listed(&["--since", &since]).await, in_window);
    assert_eq!(
        listed(&["--since", &since, "--limit", "2"]).await,
        in_window[in_window.len() - 2..]
    );
    assert_eq!(
        listed(&["--until", &since, "--limit", "2"]).await,
        ends[ends.len() - in_window.len() - 2..ends.len() - in_window.len()]
    );
    assert_eq!(listed(&["--limit", "4"]).await, ends[2..]);
    assert_eq!(
        listed(&["--after", &ends[0].to_string(), "--limit", "2"]).await,
        ends[1..3]
    );
    // A stream begins there, too.
    let follow = [
        "events",
        "--follow",
        "--json",
        "--types",
        "exec.finished",
        "--since",
        &since,
    ];
    let mut child = server.invocation(&follow).start_interactive();
    let mut first = String::new();
    let stdout = child.stdout.take().expect("stdout is piped");
    BufReader::new(stdout).read_line(&mut first).expect("a line");
    let first: Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(first["seq"].as_u64(), Some(in_window[0]));
    child.kill().expect("killing who follows");
    child.wait().expect("its end");
    let both = server.cli(&["events", "--follow", "--until", "1h"]).await;
    assert_eq!(both.code, Some(64), "{both:?}");
}
