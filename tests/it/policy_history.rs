//! A change of policy before it holds: what was, what comes, and what people allow again and again.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Stdio},
};

use serde_json::{Value, json};

use crate::support::{
    Finished, Invocation, Members, OnTheWay, TestServer, eventually, pid_of, program, skip, terminate, way,
    write_file, write_file_mode,
};

/// Echo runs, anything else is asked about.
async fn start() -> TestServer {
    let list = json!({ "allowlist": [{ "pattern": "/bin/echo" }] });
    TestServer::asking()
        .agents(&json!({ "main": list }))
        .start()
        .await
}

/// A command that is not asked about, to its end.
async fn ran(server: &TestServer, body: Value) -> Value {
    let run = server.agent().exec(body).await.json();
    server.agent().finished(run.text("runId")).await
}

/// A command that a person answers for, to its end.
async fn decided(server: &TestServer, argv: &[&str], decision: &str) -> Value {
    let pending = server.asked(json!({ "argv": argv })).await;
    server.answered(&pending, decision).await
}

fn candidate(server: &TestServer, name: &str, content: &Value) -> String {
    let path = server.scratch().join(name);
    write_file(&path, content.to_string());
    path.display().to_string()
}

fn allowing(patterns: &[&str]) -> Value {
    let list: Vec<Value> = patterns
        .iter()
        .map(|pattern| json!({ "pattern": pattern }))
        .collect();
    json!({ "version": 1, "agents": { "main": { "allowlist": list } } })
}

#[track_caller]
fn json_of(done: &Finished, code: i32) -> Value {
    assert_eq!(done.code, Some(code), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("one document: {done:?}"))
}

async fn backtest(server: &TestServer, arguments: &[&str], code: i32) -> Value {
    let line = [["policy", "backtest", "--json"].as_slice(), arguments].concat();
    json_of(&server.cli(&line).await, code)
}

fn counts(told: &Value) -> Value {
    let members = [
        "total",
        "distinct",
        "same",
        "nowRun",
        "nowAsk",
        "nowDenied",
        "skipped",
    ];
    members.map(|member| told[member].clone()).to_vec().into()
}

#[tokio::test]
async fn a_backtest_skips_a_run_that_a_later_server_tells_of_in_another_form() {
    let server = start().await;
    for word in ["a", "b"] {
        ran(&server, json!({ "argv": ["/bin/echo", word] })).await;
    }
    let later = way(&server, |path| match path {
        "/v1/runs" => OnTheWay::Changes(|runs| runs["items"][0]["cwd"] = json!({ "path": "/" })),
        _ => OnTheWay::Passes,
    })
    .await;
    let told = backtest(
        &server,
        &["--url", &later, "--token", &server.operator_token()],
        0,
    )
    .await;
    assert_eq!(counts(&told), json!([2, 1, 1, 0, 0, 0, 1]), "{told}");
    assert_eq!(told["skippedBy"], json!({ "unreadable": 1 }));
}

#[tokio::test]
async fn a_backtest_says_what_another_policy_would_have_decided() {
    let server = start().await;
    ran(&server, json!({ "argv": ["/bin/echo", "a"] })).await;
    let newest = ran(&server, json!({ "argv": ["/bin/echo", "a"] })).await;
    decided(&server, &["/bin/date"], "allow-once").await;
    decided(&server, &["/bin/ls", "/"], "deny").await;

    let as_it_is = backtest(&server, &[], 0).await;
    assert_eq!(counts(&as_it_is), json!([4, 3, 4, 0, 0, 0, 0]), "{as_it_is}");
    assert_eq!(as_it_is["changed"], json!([]));

    let narrower = candidate(&server, "narrower.json", &json!({ "version": 1 }));
    let told = backtest(&server, &["--document", &narrower, "--fail-on-wider"], 0).await;
    assert_eq!(counts(&told), json!([4, 3, 2, 0, 2, 0, 0]), "{told}");
    let changed = told.list("changed");
    assert_eq!(changed.len(), 1, "{told}");
    assert!(
        changed[0]["why"]
            .as_str()
            .is_some_and(|why| why.starts_with("allowlist-miss")),
        "{told}"
    );
    let mut change = changed[0].clone();
    change.as_object_mut().expect("an object").shift_remove("why");
    assert_eq!(
        change,
        json!({ "argv": ["/bin/echo", "a"], "line": "/bin/echo a", "cwd": newest["cwd"], "agentId": "main", "then": "run", "now": "ask",
            "count": 2, "lastRunId": newest["runId"] })
    );

    let wider = candidate(&server, "wider.json", &allowing(&["/bin/echo", "/bin/date"]));
    let told = backtest(&server, &["--document", &wider], 0).await;
    assert_eq!(counts(&told), json!([4, 3, 3, 1, 0, 0, 0]), "{told}");
    assert_eq!(told["changed"][0]["argv"], json!(["/bin/date"]), "{told}");
    assert_eq!(told["changed"][0]["then"], "ask");
    backtest(&server, &["--document", &wider, "--fail-on-wider"], 1).await;
    let other = backtest(
        &server,
        &["--document", &wider, "--fail-on-wider", "--agent", "build"],
        0,
    )
    .await;
    assert_eq!(other["total"], 0, "{other}");
    let newest_alone = backtest(&server, &["--document", &wider, "--limit", "1"], 0).await;
    assert_eq!(newest_alone["total"], 1, "{newest_alone}");

    let exec = json!({ "host": "gateway", "security": "deny" });
    let closed = candidate(&server, "closed.json", &json!({ "tools": { "exec": exec } }));
    let told = backtest(&server, &["--config", &closed], 0).await;
    assert_eq!(counts(&told), json!([4, 3, 0, 0, 0, 4, 0]), "{told}");
    assert_has!(told, { "changed/0/why": "security-deny: set by tools.exec.security" });
}

#[tokio::test]
async fn a_fallback_that_lets_more_run_without_an_answer_is_wider() {
    let server = start().await;
    ran(&server, json!({ "argv": ["/bin/echo", "a"] })).await;
    decided(&server, &["/bin/date"], "allow-once").await;
    let exec = json!({ "host": "gateway", "security": "full", "ask": "always" });
    let always = candidate(&server, "always.json", &json!({ "tools": { "exec": exec } }));
    let mut document = allowing(&["/bin/echo"]);
    document["defaults"] = json!({ "askFallback": "full" });
    let open = candidate(&server, "open.json", &document);

    let told = backtest(&server, &["--config", &always, "--fail-on-wider"], 0).await;
    assert_eq!(counts(&told), json!([2, 2, 1, 0, 1, 0, 0]), "{told}");
    assert_eq!(told["widerFallback"], 0, "{told}");

    let both = ["--config", &always, "--document", &open];
    let told = backtest(&server, &both, 0).await;
    assert_eq!(counts(&told), json!([2, 2, 0, 0, 0, 0, 0]), "{told}");
    assert_eq!(told["widerFallback"], 2, "{told}");
    let changed = &told["changed"][0];
    assert_eq!(
        ["argv", "then", "now"].map(|member| changed[member].clone()),
        [json!(["/bin/date"]), json!("ask"), json!("ask")]
    );
    assert!(
        changed["why"]
            .as_str()
            .is_some_and(|why| why.ends_with("askFallback would be full, in force is deny")),
        "{told}"
    );
    let checked = [both.as_slice(), ["--fail-on-wider"].as_slice()].concat();
    backtest(&server, &checked, 1).await;

    // What the allowlist does not cover does not run under it without an answer, so nothing is wider.
    let told = backtest(&server, &["--document", &open, "--fail-on-wider"], 0).await;
    assert_eq!(counts(&told), json!([2, 2, 2, 0, 0, 0, 0]), "{told}");
    assert_eq!(told["widerFallback"], 0, "{told}");
}

#[tokio::test]
async fn what_cannot_be_judged_is_counted_and_text_is_harmless() {
    let server = TestServer::full().start().await;
    let gone = server.scratch().dir("gone");
    ran(&server, json!({ "argv": ["/bin/echo", "x"], "workdir": gone })).await;
    fs::remove_dir(&gone).expect("an empty directory");
    ran(&server, json!({ "argv": ["/bin/echo", "\u{1b}[2Jhidden"] })).await;
    let exec = json!({ "host": "gateway", "security": "deny" });
    let closed = candidate(&server, "closed.json", &json!({ "tools": { "exec": exec } }));
    let told = backtest(&server, &["--config", &closed], 0).await;
    assert_eq!(counts(&told), json!([2, 1, 0, 0, 0, 1, 1]), "{told}");
    assert_eq!(told["skippedBy"], json!({ "directory": 1 }));
    let shown = server.cli(&["policy", "backtest", "--config", &closed]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let first = "2 runs: 0 the same, 0 would now run, 0 would now be asked about, 1 would now be denied; \
                 1 not judged (directory 1)\n";
    assert!(shown.stdout.starts_with(first), "{shown:?}");
    shown.says("run -> deny");
    shown.says("hidden");
    assert!(!shown.stdout.contains('\u{1b}'), "{shown:?}");
}

#[tokio::test]
async fn files_that_are_no_policy_are_a_wrong_call() {
    let server = start().await;
    let newer = candidate(&server, "newer.json", &json!({ "version": 2 }));
    let wrong = candidate(
        &server,
        "wrong.json",
        &json!({ "tools": { "exec": { "security": "maybe" } } }),
    );
    let absent = server.scratch().join("absent.json").display().to_string();
    for arguments in [
        ["backtest", "--document", &newer],
        ["backtest", "--config", &wrong],
        ["backtest", "--document", &absent],
        ["shadow", "--document", &newer],
    ] {
        let done = server
            .cli(&[["policy"].as_slice(), arguments.as_slice()].concat())
            .await;
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(64), ""),
            "{arguments:?}: {done:?}"
        );
        assert!(done.stderr.starts_with("error[usage]: "), "{done:?}");
    }
    let done = server.cli(&["policy", "shadow"]).await;
    assert_eq!(done.code, Some(64), "{done:?}");
    assert!(done.stderr.contains("note: name a file"), "{done:?}");
}

async fn suggest(server: &TestServer) -> Value {
    json_of(&server.cli(&["policy", "suggest", "--json"]).await, 0)
}

/// A shell that finds the program and its server.
fn beside(server: &TestServer, shell: Invocation) -> Invocation {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_countersign"));
    let folder = binary.parent().expect("a folder").display().to_string();
    shell
        .env("PATH", format!("{folder}:/usr/bin:/bin"))
        .env("HOME", server.scratch().join("home"))
        .env("OPENCLAW_STATE_DIR", server.state())
}

#[tokio::test]
async fn what_is_pasted_into_a_shell_without_comments_runs_nothing_but_the_entry() {
    let Some(zsh) = program("zsh") else {
        return skip("there is no zsh");
    };
    let server = start().await;
    let hostile = "it's; touch pwned; x `touch pwned` $(touch pwned) '; touch pwned; '";
    let workdir = server.scratch().dir(hostile);
    let call = json!({ "argv": ["/usr/bin/seq", "1", "2"], "workdir": workdir });
    for _ in 0..3 {
        let pending = server.asked(call.clone()).await;
        server.answered(&pending, "allow-once").await;
    }
    let printed = server.cli(&["policy", "suggest"]).await;
    assert!(
        printed.stdout.contains("touch pwned") && printed.stdout.lines().count() == 2,
        "{printed:?}"
    );

    let empty = server.scratch().dir("empty");
    // Without job control and line editing, so that no terminal of the caller is touched.
    let shell = Invocation::new(&zsh)
        .args(&["-f", "-i", "+m", "+Z"])
        .cwd(&empty)
        .input(printed.stdout.clone());
    let done = TestServer::finish(beside(&server, shell)).await;
    assert_eq!(done.code, Some(0), "{printed:?} {done:?}");
    let left: Vec<_> = fs::read_dir(&empty).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?} {printed:?} {done:?}");
    let run = ran(&server, call).await;
    assert_has!(run, { "status": "completed", "decision/by": "policy" });
}

#[tokio::test]
async fn what_takes_several_people_by_now_is_not_suggested() {
    let mut server = start().await;
    let count = ["/usr/bin/seq", "1", "2"];
    for _ in 0..3 {
        decided(&server, &count, "allow-once").await;
    }
    let told = suggest(&server).await;
    assert_eq!(told["suggestions"].as_array().map(Vec::len), Some(1), "{told}");

    assert_eq!(server.stop().await, Some(0));
    let settings = server.state().join("countersign/countersign.toml");
    let settings = fs::read_to_string(settings).expect("the settings");
    server.edit_toml(&format!(
        "{settings}\n[[approvals.rules]]\npatterns = [\"seq\"]\napprovals_required = 2\n"
    ));
    server.start().await;
    let told = suggest(&server).await;
    assert_eq!(told["suggestions"], json!([]), "{told}");
    assert_has!(told, { "leftOut": { "seldom": 0, "denied": 0, "settled": 1 } });
}

#[tokio::test]
async fn what_people_allow_again_and_again_is_suggested_until_an_entry_is_there() {
    let server = start().await;
    let python = server.scratch().join("bin/python3");
    write_file_mode(&python, "#!/bin/sh\necho done\n", 0o755);
    let python = python.display().to_string();
    let count = ["/usr/bin/seq", "1", "2"];
    for _ in 0..2 {
        decided(&server, &count, "allow-once").await;
    }
    let early = suggest(&server).await;
    assert_eq!(early["suggestions"], json!([]), "{early}");
    assert_has!(early, { "leftOut": { "seldom": 1, "denied": 0, "settled": 0 } });

    let run = decided(&server, &count, "allow-once").await;
    for _ in 0..3 {
        decided(&server, &["/usr/bin/sort", "-r"], "allow-once").await;
        decided(&server, &[&python, "-c", "print(1)"], "allow-once").await;
    }
    decided(&server, &["/usr/bin/sort", "-r"], "deny").await;
    let told = suggest(&server).await;
    let suggestions = told.list("suggestions");
    assert_eq!(suggestions.len(), 1, "{told}");
    let suggested = &suggestions[0];
    assert_eq!(
        ["pattern", "agentId", "count", "argv", "cwd"].map(|member| suggested[member].clone()),
        [
            json!("/usr/bin/seq"),
            json!("main"),
            json!(3),
            json!(count),
            run["cwd"].clone()
        ],
        "{told}"
    );
    assert!(
        suggested["argPattern"]
            .as_str()
            .is_some_and(|pattern| pattern.starts_with("sha256:cwd-argv:v1:")),
        "{told}"
    );
    assert_has!(told, { "leftOut": { "seldom": 0, "denied": 1, "settled": 0 } });

    // What is printed for people is a script that does what it says.
    let printed = server.cli(&["policy", "suggest"]).await;
    let script = server.scratch().join("suggested.sh");
    write_file(&script, &printed.stdout);
    let shell = beside(&server, Invocation::new("/bin/sh").arg(&script));
    let done = TestServer::finish(shell).await;
    assert_eq!(done.code, Some(0), "{printed:?} {done:?}");
    let run = ran(&server, json!({ "argv": count })).await;
    assert_has!(run, { "status": "completed", "decision/by": "policy" });
    let after = suggest(&server).await;
    assert_eq!(after["suggestions"], json!([]), "{after}");
    assert_has!(after, { "leftOut": { "seldom": 0, "denied": 1, "settled": 1 } });
}

/// `policy shadow` while it runs, with what it says in files.
struct Shadow {
    child: Child,
    told: PathBuf,
}

impl Shadow {
    async fn start(server: &TestServer, document: &str) -> Self {
        let [told, notes] = ["shadow.out", "shadow.err"].map(|name| server.scratch().join(name));
        let open = |path: &PathBuf| Stdio::from(File::create(path).expect("a log file"));
        let line = ["policy", "shadow", "--json", "--document", document];
        let child = server.invocation(&line).start_logged(open(&told), open(&notes));
        let said = || async { fs::read_to_string(&notes).expect("the notes") };
        eventually("watching", said, |said| said.contains("watching new runs")).await;
        Self { child, told }
    }

    /// Its lines, once there are so many.
    async fn lines(&self, count: usize) -> Vec<Value> {
        let told = || async { fs::read_to_string(&self.told).expect("what it told") };
        let text = eventually("told", told, |text| text.matches('\n').count() >= count).await;
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("JSON: {text}")))
            .collect()
    }

    async fn end(&mut self) -> Option<i32> {
        terminate(pid_of(&self.child));
        let ended = || std::future::ready(self.child.try_wait().expect("its state"));
        eventually("ended", ended, Option::is_some)
            .await
            .and_then(|status| status.code())
    }
}

#[tokio::test]
async fn a_shadow_tells_of_a_new_run_that_another_policy_would_decide_otherwise() {
    let server = start().await;
    let other = candidate(&server, "other.json", &allowing(&["/bin/date"]));
    let mut shadow = Shadow::start(&server, &other).await;
    let echo = ran(&server, json!({ "argv": ["/bin/echo", "live"] })).await;
    decided(&server, &["/bin/ls", "/"], "deny").await;
    let date = decided(&server, &["/bin/date"], "allow-once").await;
    let lines = shadow.lines(2).await;
    let told: Vec<[Value; 4]> = lines
        .iter()
        .map(|line| ["runId", "argv", "then", "now"].map(|member| line[member].clone()))
        .collect();
    assert_eq!(
        told,
        [
            [
                echo["runId"].clone(),
                json!(["/bin/echo", "live"]),
                json!("run"),
                json!("ask")
            ],
            [
                date["runId"].clone(),
                json!(["/bin/date"]),
                json!("ask"),
                json!("run")
            ],
        ]
    );
    assert_eq!(shadow.end().await, Some(0));
    let summary = shadow.lines(3).await[2]["summary"].clone();
    assert_eq!(
        summary,
        json!({ "total": 3, "same": 1, "nowRun": 1, "nowAsk": 1, "nowDenied": 0, "skipped": 0, "skippedBy": {} })
    );
}

/// What the server says to the same trial as the command line.
async fn by_server(server: &TestServer, body: Value) -> Value {
    let answer = server.operator().post("/v1/policy/backtest", body).await;
    answer.expect(200)
}

#[tokio::test]
async fn the_server_says_what_the_command_line_says() {
    let server = start().await;
    ran(&server, json!({ "argv": ["/bin/echo", "a"] })).await;
    decided(&server, &["/bin/date"], "allow-once").await;
    decided(&server, &["/bin/ls", "/"], "deny").await;
    ran(&server, json!({ "argv": ["/bin/echo", "token=hunter2hunter2"] })).await;
    let before = server.operator().read("/v1/runs").await.list("items").len();

    let texts = [
        allowing(&["/bin/echo", "/bin/date"]).to_string(),
        json!({ "version": 1 }).to_string(),
    ];
    for (number, text) in texts.iter().enumerate() {
        let document: Value = serde_json::from_str(text).expect("JSON");
        let file = candidate(&server, &format!("{number}.json"), &document);
        let told = backtest(&server, &["--document", &file], 0).await;
        assert_eq!(by_server(&server, json!({ "document": text })).await, told);
    }
    assert_eq!(
        by_server(&server, json!({})).await,
        backtest(&server, &[], 0).await
    );
    let config = json!({ "tools": { "exec": { "host": "gateway", "security": "deny" } } }).to_string();
    let told = by_server(&server, json!({ "config": config, "limit": 2 })).await;
    assert_eq!(counts(&told), json!([2, 2, 0, 0, 0, 2, 0]), "{told}");
    let none = by_server(&server, json!({ "agentId": "build" })).await;
    assert_eq!(none["total"], 0, "{none}");
    let future = 4_000_000_000_000_i64;
    let none = by_server(&server, json!({ "sinceMs": future })).await;
    assert_eq!(none["total"], 0, "{none}");

    // Nothing ran, nobody was asked, and the policy is as it was.
    assert_eq!(
        server.operator().read("/v1/runs").await.list("items").len(),
        before
    );
    assert_eq!(server.operator().pending().await.len(), 0);
}

#[tokio::test]
async fn a_trial_of_an_edit_that_waits_shows_what_accepting_it_would_do() {
    let server = start().await;
    ran(&server, json!({ "argv": ["/bin/echo", "a"] })).await;
    decided(&server, &["/bin/date"], "deny").await;
    server.edit_document(&allowing(&["/bin/echo", "/bin/date"]).to_string());
    let held = server.operator().read("/v1/policy/effective").await["document"]["held"].clone();
    assert!(held["hash"].is_string(), "{held}");
    let told = by_server(&server, json!({})).await;
    assert_eq!(counts(&told), json!([2, 2, 1, 1, 0, 0, 0]), "{told}");
    assert_eq!(told["changed"][0]["line"], "/bin/date");
}

#[tokio::test]
async fn a_trial_that_cannot_be_one_is_refused_with_the_reason() {
    let server = start().await;
    let operator = server.operator();
    let refused = async |body: Value, says: &str| {
        let problem = operator.post("/v1/policy/backtest", body).await;
        let problem = problem.problem(400, "invalid-request");
        let told = problem["detail"].as_str().unwrap_or_default().to_owned();
        assert!(told.contains(says), "{told} lacks {says}");
        // The text that was sent lies in no file.
        assert!(!told.contains("openclaw.json"), "{told}");
    };
    refused(json!({ "document": "{\"version\": 2}" }), "document: ").await;
    refused(json!({ "document": "" }), "document: ").await;
    refused(
        json!({ "document": "{\"version\": 1, \"version\": 1}" }),
        "document: ",
    )
    .await;
    refused(
        json!({ "config": "{tools: {exec: {ask: 'sometimes'}}}" }),
        "config: ",
    )
    .await;
    refused(json!({ "config": "{" }), "config: ").await;
    refused(json!({ "limit": 0 }), "1 to 2000").await;
    refused(json!({ "limit": 2001 }), "1 to 2000").await;
    refused(json!({ "path": "/etc/passwd" }), "path").await;
    // One that is bound to agents sees runs of these alone, and this is of all.
    let (_, bound) = server
        .token_with(json!({ "name": "bound", "scopes": ["read"], "agents": ["main"] }))
        .await;
    bound
        .post("/v1/policy/backtest", json!({}))
        .await
        .problem(403, "forbidden");
    operator
        .post("/v1/policy/backtest", json!({ "limit": 1 }))
        .await
        .expect(200);
    // A time in either form.
    for since in [json!(1), json!("2026-01-01T00:00:00Z")] {
        operator
            .post("/v1/policy/backtest", json!({ "sinceMs": since }))
            .await
            .expect(200);
    }
}
