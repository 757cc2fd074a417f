//! What an agent might try that is no mistake.

use std::{os::unix::fs::symlink, path::Path};

use futures_util::future::{Either, select};
use rustix::process::Signal;
use serde_json::json;

use crate::support::{Members, TestServer, eventually, lines, soon, within, write_file, write_file_mode};

#[tokio::test]
async fn a_bare_name_is_never_looked_for_in_the_working_directory() {
    let server = TestServer::full().start().await;
    let marks = server.scratch().join("marks");
    let directory = server.scratch().dir("work");
    let script = format!("#!/bin/sh\necho ran >> {}\n", marks.display());
    write_file_mode(&directory.join("tool-of-nobody"), script, 0o755);
    let answer = server
        .ran(json!({ "argv": ["tool-of-nobody"], "workdir": directory }))
        .await;
    let run = server.agent().run(answer.text("runId")).await;
    assert_has!(run, { "status": "failed", "reason": "spawn-failed" });
    assert_eq!(lines(&marks), Vec::<String>::new());
}

#[tokio::test]
async fn the_servers_own_state_is_out_of_reach_by_links_directories_and_glued_options() {
    let allowlist = json!([{ "pattern": "/**/cat" }, { "pattern": "/**/ls" }, { "pattern": "/**/grep" }]);
    let server = TestServer::allowlist_only()
        .allowlist(&json!(allowlist))
        .start()
        .await;
    let work = server.scratch().dir("work");
    write_file(&work.join("plain"), "x\n");
    let state = server.state().to_owned();
    symlink(&state, work.join("link")).unwrap();
    let cover = server
        .ran(json!({ "command": "cat plain", "workdir": work }))
        .await;
    assert_eq!(cover["stdout"], "x\n", "the allowlist covers cat");
    let glued = format!(
        "grep -f{} plain",
        state.join("countersign/operator.token").display()
    );
    for (command, directory) in [
        ("cat link/countersign/operator.token", &work),
        ("cd link && cat countersign/operator.token", &work),
        ("cd link/countersign && ls", &work),
        ("ls", &state),
        ("cat operator.token", &state.join("countersign")),
        (glued.as_str(), &work),
    ] {
        server
            .denied(json!({ "command": command, "workdir": directory }))
            .await;
    }
}

#[tokio::test]
async fn a_link_is_not_the_program_whose_name_it_has() {
    let server = TestServer::allowlist_only()
        .allowlist(&json!([{ "pattern": "/**/printf" }]))
        .start()
        .await;
    let work = server.scratch().dir("work");
    write_file(&work.join("secret"), "x\n");
    let run = |command: &'static str| {
        let (agent, work) = (server.agent(), work.clone());
        async move { agent.exec(json!({ "command": command, "workdir": work })).await }
    };
    // The true ones are covered without an entry.
    assert_eq!(run("printf ab | tr a c").await.expect(200)["stdout"], "cb");
    assert_eq!(run("nohup printf ab").await.expect(200)["stdout"], "ab");
    for (link, target) in [
        ("tr", "cp"),
        ("nohup", "cp"),
        ("timeout", "cp"),
        ("env", "cp"),
        ("sh", "cp"),
    ] {
        symlink(format!("/usr/bin/{target}"), work.join(link)).unwrap();
    }
    for command in [
        "./tr secret copied",
        "./nohup printf secret",
        "./timeout 5 printf",
        "./env printf secret",
        "sh -c './tr secret copied'",
        "./sh -c 'printf ab'",
    ] {
        run(command).await.problem(403, "exec-denied");
    }
    assert!(!work.join("copied").exists());
    // And a link to what the name says is it.
    symlink("/usr/bin/wc", work.join("wc")).unwrap();
    assert_eq!(run("printf ab | ./wc -c").await.expect(200)["stdout"], "2\n");
}

#[tokio::test]
async fn what_runs_by_a_link_is_the_program_and_nothing_beside_the_link() {
    let server = TestServer::allowlist_only()
        .allowlist(&json!([
            { "pattern": "/**/lib/tool.sh" }, { "pattern": "/**/cat" }
        ]))
        .start()
        .await;
    let library = server.scratch().dir("lib");
    let tool = "#!/bin/sh\n. \"$(dirname \"$0\")/part.sh\"\n";
    write_file_mode(&library.join("tool.sh"), tool, 0o755);
    write_file(&library.join("part.sh"), "echo good\n");
    let work = server.scratch().dir("work");
    let odd = server.scratch().dir("work/a=b");
    write_file(&odd.join("x.sh"), "touch ran\n");
    write_file(&work.join("part.sh"), "touch ran\n");
    write_file_mode(&work.join("evil"), "#!/bin/sh\ntouch ran\n", 0o755);
    symlink("/usr/bin/tr", odd.join("tr")).unwrap();
    symlink("/usr/bin/tr", work.join("tr")).unwrap();
    symlink(library.join("tool.sh"), work.join("tool.sh")).unwrap();
    let run = |command: &'static str, directory: &Path| {
        let (agent, directory) = (server.agent(), directory.to_owned());
        async move {
            agent
                .exec(json!({ "command": command, "workdir": directory }))
                .await
        }
    };
    // To `env` a path with `=` in it is an assignment, and the next word the program.
    run("env ./tr sh ./x.sh", &odd).await.problem(403, "exec-denied");
    assert!(!odd.join("ran").exists());
    // A script finds its parts beside the name that it is told.
    assert_eq!(run("./tool.sh", &work).await.expect(200)["stdout"], "good\n");
    // The link leads elsewhere before the wrapper looks for it.
    let fifo = work.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let running = tokio::spawn(run("cat fifo && nice ./tr a b && sh -c './tr a b'", &work));
    let writer = tokio::task::spawn_blocking(move || std::fs::File::create(fifo).unwrap())
        .await
        .unwrap();
    std::fs::remove_file(work.join("tr")).unwrap();
    symlink(work.join("evil"), work.join("tr")).unwrap();
    drop(writer);
    assert_eq!(running.await.unwrap().expect(200)["status"], "completed");
    assert!(!work.join("ran").exists());
}

#[tokio::test]
async fn no_spelling_of_the_servers_own_state_is_covered() {
    let server = TestServer::allowlist_only()
        .allowlist(&json!([
            { "pattern": "/**/cat" }, { "pattern": "/**/ln" }, { "pattern": "/**/sed" }
        ]))
        .start()
        .await;
    let work = server.scratch().dir("work");
    write_file(&work.join("plain"), "x\n");
    let state = server.state().display().to_string();
    let encoded = state.replace("state", "st%61te");
    symlink(&state, work.join("link")).unwrap();
    symlink("/proc/self/cwd", work.join("here")).unwrap();
    symlink(server.scratch().path(), work.join("up")).unwrap();
    let token = "countersign/operator.token";
    let run = |command: String| {
        let (agent, work) = (server.agent(), work.clone());
        async move { agent.exec(json!({ "command": command, "workdir": work })).await }
    };
    // The same ways to what is the agent's own are covered.
    for command in [
        "cat plain".to_owned(),
        format!("cat {}//./plain", work.display()),
        format!("cat /proc/self/root{}/plain", work.display()),
        "cat ../work/plain".to_owned(),
        "cat up/work/plain".to_owned(),
        "cat ~/../work/plain".to_owned(),
        "ln -s . later && cat later/plain".to_owned(),
        "sed 'r ../work/nothing' plain".to_owned(),
    ] {
        let answer = run(command.clone()).await;
        assert_eq!(answer.expect(200)["stdout"], "x\n", "{command}");
    }
    for command in [
        format!("cat {state}/{token}"),
        format!("cat /{state}//./{token}"),
        format!("cat {}/../state/{token}", work.display()),
        format!("cat ../state/{token}"),
        format!("cat ~/../state/{token}"),
        format!("cat link/{token}"),
        format!("cat link/../state/{token}"),
        format!("cat up/state/{token}"),
        format!("cat /proc/self/root{state}/{token}"),
        format!("cat /proc/1/root{state}/{token}"),
        format!("cat /proc/self/cwd/link/{token}"),
        format!("cat /proc/thread-self/cwd/link/{token}"),
        format!("cat /proc/self/task/1/cwd/../state/{token}"),
        format!("cat here/link/{token}"),
        format!("cat here/../state/{token}"),
        format!("cat /dev/fd/../cwd/link/{token}"),
        format!("cat --x={state}/{token}"),
        format!("cat a:{state}/{token}"),
        format!("cat 'a b {state}/{token}'"),
        format!("cat file://{state}/{token}"),
        format!("cat file://{encoded}/{token}"),
        format!("sed 'r ../state/{token}' plain"),
        "sed -n 'w ../state/pwned' plain".to_owned(),
        "sed -n w../state/pwned plain".to_owned(),
        format!(
            "sed 'r {}/./state/{token}' plain",
            server.scratch().path().display()
        ),
        format!(
            "cat 'file://{}/st[a-b]te/{token}'",
            server.scratch().path().display()
        ),
        format!("ln -s .. out && cat out/state/{token}"),
        format!("ln -s .. out; cd out && cat state/{token}"),
        format!("cat {state}/exec-approvals.json"),
        format!("cat {state}/countersign/api.sock"),
        format!("cat {state}/workspace/../{token}"),
        format!("cat {}/state {token}", server.scratch().path().display()),
    ] {
        let answer = run(command.clone()).await;
        let problem = answer.problem(403, "exec-denied");
        assert!(
            problem.text("detail").contains("belongs to the server itself"),
            "{command}: {problem}"
        );
    }
}

#[tokio::test]
async fn the_servers_own_program_is_never_covered_by_whatever_name() {
    let server = TestServer::allowlist_only()
        .allowlist(&json!([{ "pattern": "*" }]))
        .start()
        .await;
    let work = server.scratch().dir("work");
    let program = Path::new(env!("CARGO_BIN_EXE_countersign"));
    symlink(program, work.join("tool")).unwrap();
    symlink("/bin/date", work.join("other")).unwrap();
    let mut names = vec![program.display().to_string(), "./tool".to_owned()];
    // Across file systems there is no such link.
    if std::fs::hard_link(program, work.join("twin")).is_ok() {
        names.push("./twin".to_owned());
    }
    let run = |command: String| {
        let (agent, work) = (server.agent(), work.clone());
        async move { agent.exec(json!({ "command": command, "workdir": work })).await }
    };
    run("./other".to_owned()).await.expect(200);
    run("env ./other".to_owned()).await.expect(200);
    for name in names {
        for command in [
            format!("{name} --version"),
            format!("env {name} --version"),
            format!("date && {name} --version"),
        ] {
            let answer = run(command.clone()).await;
            let problem = answer.problem(403, "exec-denied");
            assert!(
                problem.text("detail").contains("own program"),
                "{command}: {problem}"
            );
        }
    }
}

#[tokio::test]
async fn no_command_of_the_operators_works_inside_a_run() {
    let server = TestServer::full().start().await;
    for arguments in [
        &["approvals", "list"][..],
        &["approvals", "resolve", "12345678", "allow-once"],
        &["allowlist", "add", "/bin/x"],
        &["denylist", "list"],
        &["policy", "show"],
        &["policy", "diff"],
        &["policy", "accept"],
        &["policy", "history"],
        &["policy", "set", "--security", "full"],
        &["policy", "preset", "yolo"],
        &["runs", "list"],
        &["events"],
        &["audit", "list"],
        &["audit", "verify"],
        &["audit", "export"],
        &["token", "list"],
        &["token", "create", "x", "--scope", "approve"],
        &["login-link"],
    ] {
        let inside = server.invocation(arguments).env("OPENCLAW_SHELL", "exec");
        let refused = TestServer::finish(inside).await;
        assert_eq!(refused.code, Some(77), "{arguments:?}: {refused:?}");
        assert!(
            refused.stderr.contains("operator-refused"),
            "{arguments:?}: {refused:?}"
        );
    }
    // Outside they are answered.
    let outside = server.cli(&["policy", "diff"]).await;
    assert_eq!(outside.code, Some(0), "{outside:?}");
}

#[tokio::test]
async fn a_revoked_token_sees_nothing_more_on_its_open_stream() {
    let server = TestServer::full().start().await;
    let (token, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read"] }))
        .await;
    let mut stream = reader.events("?types=exec", None).await;
    server.ran(json!({ "argv": ["true"] })).await;
    assert_eq!(stream.next().await.kind, "exec.requested");
    while stream.next().await.kind != "exec.finished" {}
    server.operator().removed(&format!("/v1/tokens/{token}")).await;
    server.ran(json!({ "argv": ["true"] })).await;
    assert_eq!(stream.next_or_end().await, None);
}

#[tokio::test]
async fn what_waits_for_a_place_does_not_start_while_the_server_stops() {
    let mut server = TestServer::full()
        .toml("[limits]\nmax_running = 1\nmax_queued = 1\n")
        .start()
        .await;
    let (marks, gate) = (server.scratch().join("marks"), server.scratch().join("gate"));
    let agent = server.agent();
    let holding = format!(
        "echo here >> {0}; while [ ! -e {1} ]; do sleep 0.02; done",
        marks.display(),
        gate.display()
    );
    let holder = tokio::spawn({
        let agent = agent.clone();
        async move { agent.exec(json!({ "command": holding })).await }
    });
    soon("held", || lines(&marks), |lines| lines.len() == 1).await;
    let late = json!({ "command": format!("echo late >> {}", marks.display()) });
    let calls = [agent.exec(late.clone()), agent.exec(late)].map(Box::pin);
    let [one, other] = calls;
    // One finds the queue full, so the other is in it.
    let (refused, queued) = match within("a refusal", select(one, other)).await {
        Either::Left((refused, queued)) | Either::Right((refused, queued)) => (refused, queued),
    };
    refused.problem(503, "overloaded");
    server.send_signal(Signal::TERM);
    within("an answer", queued).await.problem(503, "shutting-down");
    write_file(&gate, "");
    holder.await.unwrap().expect(200);
    assert_eq!(server.ended().await, Some(0));
    assert_eq!(lines(&marks), ["here"]);
}

#[tokio::test]
async fn a_run_that_was_answered_as_pending_outlives_its_caller_however_fast_the_decision() {
    let server = TestServer::asking()
        .toml("[limits]\nmax_running = 100\nmax_running_per_agent = 100\n")
        .start()
        .await;
    let gate = server.scratch().join("gate");
    let mut stream = server
        .operator()
        .events("?types=exec.approval.requested", None)
        .await;
    let operator = server.operator();
    let decider = tokio::spawn(async move {
        loop {
            let event = stream.next().await;
            let approval = event.data.text("approvalId").to_owned();
            operator.decided(&approval, "allow-once").await;
        }
    });
    let command = format!("while [ ! -e {} ]; do sleep 0.1; done", gate.display());
    let mut runs = Vec::new();
    // The callers give up just about when the decision comes.
    for wait in 0..24 {
        let call = json!({ "command": command, "yieldMs": 10, "approvalWaitMs": wait });
        let answer = server.accepted(call).await;
        runs.push(answer.text("runId").to_owned());
    }
    let agent = server.agent();
    for run in &runs {
        eventually(
            "in the background",
            || agent.run(run),
            |run| run["status"] == "running" && run["background"] == true && run["sessionId"].is_string(),
        )
        .await;
    }
    write_file(&gate, "");
    for run in &runs {
        assert_eq!(server.agent().finished(run).await["status"], "completed");
    }
    decider.abort();
}

#[tokio::test]
async fn connections_that_say_nothing_do_not_keep_others_out() {
    let server = TestServer::full()
        .toml("[limits]\nmax_connections = 4\nheader_timeout_ms = 300\n")
        .start()
        .await;
    let address = server.anonymous().base().trim_start_matches("http://").to_owned();
    let mut idle = Vec::new();
    for greeting in [
        "",
        "GET /healthz HTTP/1.1\r\nHost",
        "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ] {
        for _ in 0..2 {
            let mut stream = std::net::TcpStream::connect(&address).unwrap();
            std::io::Write::write_all(&mut stream, greeting.as_bytes()).unwrap();
            idle.push(stream);
        }
    }
    for _ in 0..3 {
        server.anonymous().read("/healthz").await;
    }
}

#[tokio::test]
async fn nothing_that_an_agent_says_reaches_a_terminal_as_it_is() {
    let server = TestServer::asking().start().await;
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}txt\u{2066}\r";
    let session = "chat:\u{202e}\u{2066}x";
    let pending = server
        .accepted(json!({ "argv": ["/bin/echo", evil], "sessionKey": session }))
        .await;
    let (approval, run) = (pending.text("approvalId"), pending.text("runId"));
    server
        .denied(json!({ "argv": [format!("/bin/{evil}")], "security": "deny", "sessionKey": session }))
        .await;
    let calls: [&[&str]; 14] = [
        &["approvals", "list"],
        &["approvals", "show", approval],
        &["approvals", "resolve", approval, "deny", "--reason", evil],
        &["approvals", "show", approval],
        &["runs", "list"],
        &["runs", "show", run],
        &["events"],
        &["events", "--raw"],
        &["audit", "list"],
        &["doctor"],
        &["exec", "--security", "deny", "--", evil],
        &["exec", "--env", "LD_\u{1b}[2J=x", "--", "true"],
        &["allowlist", "list", "--agent", "main"],
        &["runs", "list", "--search", evil],
    ];
    let obeyed = |c: char| {
        let moves_text = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c != '\n' && (c.is_control() || moves_text)
    };
    for arguments in calls {
        let done = server.cli(arguments).await;
        for text in [done.stdout, done.stderr] {
            assert!(!text.contains(obeyed), "{arguments:?}: {text:?}");
        }
    }
}

#[tokio::test]
async fn what_changed_while_a_call_waited_for_a_place_counts() {
    let scratch = crate::support::Scratch::new();
    let (marks, gate, work) = (scratch.join("marks"), scratch.join("gate"), scratch.dir("work"));
    let held = format!(
        "#!/bin/sh\necho held >> {0}\nwhile [ ! -e {1} ]; do sleep 0.02; done\n",
        marks.display(),
        gate.display()
    );
    let says = |word: &str| format!("#!/bin/sh\necho {word} >> {}\n", marks.display());
    for (name, script) in [("hold", held), ("good", says("good")), ("evil", says("evil"))] {
        write_file_mode(&work.join(name), script, 0o755);
    }
    let link = work.join("link");
    symlink(work.join("good"), &link).unwrap();
    let patterns = json!([{ "pattern": work.join("hold") }, { "pattern": work.join("good") }]);
    let server = TestServer::allowlist_only()
        .allowlist(&json!(patterns))
        .toml("[limits]\nmax_running = 1\nmax_queued = 1\n")
        .start()
        .await;
    let agent = server.agent();
    let call = json!({ "command": format!("{} && true", link.display()) });
    agent.ran(call.clone()).await;
    let holder = tokio::spawn({
        let (agent, hold) = (agent.clone(), work.join("hold"));
        async move { agent.exec(json!({ "argv": [hold] })).await }
    });
    soon("held", || lines(&marks), |lines| lines.len() == 2).await;
    let [one, other] = [agent.exec(call.clone()), agent.exec(call)].map(Box::pin);
    let (refused, queued) = match within("a refusal", select(one, other)).await {
        Either::Left((refused, queued)) | Either::Right((refused, queued)) => (refused, queued),
    };
    refused.problem(503, "overloaded");
    std::fs::remove_file(&link).unwrap();
    symlink(work.join("evil"), &link).unwrap();
    write_file(&gate, "");
    holder.await.unwrap().expect(200);
    within("an answer", queued).await.problem(403, "exec-denied");
    assert_eq!(lines(&marks), ["good", "held"]);
}
