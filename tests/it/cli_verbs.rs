//! What fingers type: `status`, `approve`, `deny`, `version`, `ls`, `rm`, and a program without `--` before it.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{
    Finished, Invocation, Members, TestServer, assert_says, countersign, eventually, run_program, soon,
    write_file_mode,
};

#[track_caller]
fn document(done: &Finished) -> Value {
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

#[tokio::test]
async fn status_is_one_screen_of_the_server() {
    let server = TestServer::asking().start().await;
    let empty = document(&server.cli(&["status", "--json"]).await);
    assert_has!(empty, {
        "ready": true, "stopped": false, "waiting": { "count": 0, "more": false }, "running": { "count": 0, "more": false },
        "lastDenial": null, "heldChanges": [], "version": env!("CARGO_PKG_VERSION"),
    });
    assert!(
        empty["startedAtMs"].is_i64() && empty["findings"]["errors"].is_u64(),
        "{empty}"
    );
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    server
        .operator()
        .made("/v1/agents/*/denylist", json!({ "pattern": "whoami" }))
        .await;
    server
        .denied(json!({ "command": "whoami", "agentId": "build" }))
        .await;
    let status = document(&server.cli(&["status", "--json"]).await);
    assert_has!(status, {
        "waiting/count": 1, "lastDenial/agentId": "build", "lastDenial/reason": "denylist", "lastDenial/displayText": "whoami",
    });
    let shown = server.cli(&["status"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for part in [
        "state         ready\n",
        "waiting       1, the oldest for ",
        "build (denylist): whoami\n",
    ] {
        assert_says(&shown.stdout, part);
    }
    assert_says(&shown.stderr, "hint: countersign approvals list\n");
    assert!(
        shown.stdout.lines().all(|line| line.chars().count() <= 80),
        "{shown:?}"
    );
    server
        .operator()
        .decided(pending.text("approvalId"), "deny")
        .await;
    // Who names a server is told of that server alone.
    let url = server.operator().base().to_owned();
    let token = server.operator_token();
    let named = server
        .cli(&["status", "--json", "--url", &url, "--token", &token])
        .await;
    assert_has!(document(&named), { "url": null, "findings": null, "waiting/count": 0 });
}

#[tokio::test]
async fn status_without_a_server_says_so() {
    let mut server = TestServer::asking().start().await;
    server.stop().await;
    let done = server.cli(&["status"]).await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(69), ""), "{done:?}");
}

#[tokio::test]
async fn status_is_watched_until_it_is_ended() {
    let server = TestServer::asking().start().await;
    let log = server.scratch().join("watched");
    let file = std::fs::File::create(&log).expect("a file");
    let mut child = server
        .invocation(&["status", "--watch", "--json"])
        .start_logged(Stdio::from(file), Stdio::null());
    let lines = soon(
        "shown twice",
        || crate::support::lines(&log),
        |lines| lines.len() >= 2,
    )
    .await;
    child.kill().expect("a process");
    child.wait().expect("an end");
    for line in &lines[..2] {
        let status: Value = serde_json::from_str(line).expect(line);
        assert_eq!(status["ready"], true, "{line}");
    }
}

#[tokio::test]
async fn a_question_is_approved_and_denied_by_a_verb() {
    let server = TestServer::asking().start().await;
    let pending = |word: &'static str| server.asked(json!({ "argv": ["/bin/echo", word] }));
    let id = |pending: &Value| pending.text("approvalId").to_owned();
    let [one, two, three, four] = [
        id(&pending("1").await),
        id(&pending("2").await),
        id(&pending("3").await),
        id(&pending("4").await),
    ];
    let operator = server.operator();
    let done = server.cli(&["approve", &one[..8], "--reason", "looked"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_has!(operator.approval(&one).await, { "decision": "allow-once", "reason": "looked" });
    let done = server.cli(&["deny", &two, "--reason", "not today"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_has!(operator.approval(&two).await, { "status": "denied", "reason": "not today" });
    let done = server.cli(&["approve", &three, "--always"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(operator.approval(&three).await["decision"], "allow-always");
    for (word, status) in [("no", "denied"), ("yes", "allowed")] {
        let asked = if word == "no" {
            four.clone()
        } else {
            id(&pending("5").await)
        };
        let done = server.cli(&["approvals", "resolve", &asked, word]).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(operator.approval(&asked).await["status"], status);
    }
    // Nothing that an agent runs answers.
    let inside = server
        .invocation(&["approve", &one])
        .env("OPENCLAW_SHELL", "exec");
    assert_eq!(TestServer::finish(inside).await.code, Some(77));
}

#[tokio::test]
async fn options_after_the_program_are_the_programs() {
    let server = TestServer::full().start().await;
    for words in [
        &["exec", "printf", "%s", "--json"][..],
        &["exec", "--", "printf", "%s", "--json"],
        &["exec", "--agent", "main", "printf", "%s", "--json"],
    ] {
        let done = server.cli(words).await;
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(0), "--json"),
            "{words:?}: {done:?}"
        );
    }
    let done = server.cli(&["exec", "--no-wiat", "printf", "x"]).await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(64), ""), "{done:?}");
}

#[tokio::test]
async fn the_link_of_a_question_is_alone_on_its_line() {
    let server = TestServer::asking().start().await;
    let done = server.cli(&["exec", "--no-wait", "/bin/date"]).await;
    assert_eq!(done.code, Some(75), "{done:?}");
    let waiting = server.operator().pending().await;
    let link = format!("http://{}/a/{}", server.address(), waiting[0].text("id"));
    assert!(done.stderr.lines().any(|line| line == link), "{done:?}");
}

#[tokio::test]
async fn short_verbs_are_understood() {
    let server = TestServer::full().start().await;
    for list in [
        "runs",
        "approvals",
        "nodes",
        "token",
        "allowlist",
        "denylist",
        "config",
        "audit",
        "process",
    ] {
        let done = server.cli(&[list, "ls"]).await;
        assert_eq!(done.code, Some(0), "{list}: {done:?}");
    }
    let entry = server
        .operator()
        .made("/v1/agents/main/allowlist", json!({ "pattern": "/opt/x" }))
        .await;
    let done = server.cli(&["allowlist", "rm", entry.text("id")]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let version = run_program(&countersign().args(&["version"]));
    assert_eq!(
        version.stdout,
        run_program(&countersign().args(&["--version"])).stdout
    );
    assert_has!(document(&run_program(&countersign().args(&["version", "--json"]))), { "name": "countersign" });
}

#[test]
fn the_help_lists_commands_by_what_they_are_for() {
    let help = run_program(&countersign().args(&["--help"])).stdout;
    let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text} in {help}"));
    let order = [
        "\nAsk:\n",
        "\nAnswer:\n",
        "\nPolicy:\n",
        "\nLook:\n",
        "\nOperate:\n",
        "\nGlobal options:\n",
        "\nExamples:\n",
    ];
    assert!(order.map(place).is_sorted(), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    let help = run_program(&countersign().args(&["runs", "list", "--help"])).stdout;
    let (own, global) = help.split_once("Global options:").expect("a heading");
    assert!(
        own.contains("--since") && !own.contains("--token") && global.contains("--token"),
        "{help}"
    );
}

#[tokio::test]
async fn lists_fit_the_columns_that_there_are() {
    let server = TestServer::asking().start().await;
    let text = format!("echo {}", "word ".repeat(60));
    let pending = server.asked(json!({ "command": text })).await;
    let run = pending.text("runId");
    for columns in ["80", "60", "40"] {
        let most: usize = columns.parse().expect("a number");
        for list in [
            &["runs", "list"][..],
            &["approvals", "list"],
            &["token", "list"],
            &["config", "list"],
        ] {
            let done = TestServer::finish(server.invocation(list).env("COLUMNS", columns)).await;
            assert_eq!(done.code, Some(0), "{done:?}");
            let wide: Vec<&str> = done
                .stdout
                .lines()
                .filter(|line| line.chars().count() > most)
                .collect();
            assert!(wide.is_empty(), "{list:?} at {columns}: {wide:#?}");
        }
    }
    let runs = TestServer::finish(server.invocation(&["runs", "list"]).env("COLUMNS", "80")).await;
    assert_eq!(runs.stdout.lines().count(), 2, "{runs:?}");
    // What is shown of the id is enough to name the run.
    let shown = runs
        .stdout
        .lines()
        .nth(1)
        .and_then(|row| row.split_whitespace().next())
        .expect("an id");
    assert!(run.ends_with(shown) && shown.len() == 8, "{runs:?}");
    assert_eq!(server.cli(&["runs", "show", shown]).await.code, Some(0));
    // Nothing says how wide it is: nothing is cut for that.
    let piped = server.cli(&["runs", "list"]).await;
    assert!(
        piped.stdout.lines().any(|line| line.chars().count() > 100),
        "{piped:?}"
    );
}

#[tokio::test]
async fn a_part_of_an_id_names_what_has_it_alone() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let (run, approval) = (pending.text("runId"), pending.text("approvalId"));
    let operator = server.operator();
    for part in [&run[run.len() - 8..], &run[run.len() - 12..], run] {
        assert_eq!(operator.run(part).await["runId"], run, "{part}");
        assert_eq!(
            operator.read(&format!("/v1/runs/{part}?waitMs=1")).await["runId"],
            run
        );
    }
    for part in [
        &approval[..8],
        &approval[approval.len() - 8..],
        &approval[..20],
        approval,
    ] {
        assert_eq!(operator.approval(part).await["id"], approval, "{part}");
        let shown = server.cli(&["approvals", "show", part, "--json"]).await;
        assert_eq!(document(&shown)["id"], approval, "{part}");
    }
    for part in [
        &run[run.len() - 7..],
        "zzzzzzzz",
        "0000000",
        "%25%25%25%25%25%25%25%25",
        "********",
    ] {
        operator
            .get(&format!("/v1/runs/{part}"))
            .await
            .problem(404, "not-found");
    }
    // The first characters are the time: those of the next run are the same.
    let next = server
        .asked(json!({ "argv": ["/bin/date"], "join": false }))
        .await;
    let same = run
        .bytes()
        .zip(next.text("runId").bytes())
        .take_while(|(one, other)| one == other)
        .count();
    if same >= 8 {
        let problem = operator
            .get(&format!("/v1/runs/{}", &run[..8]))
            .await
            .problem(409, "id-ambiguous");
        assert!(problem.list("ids").contains(&json!(run)), "{problem}");
        let shown = server.cli(&["runs", "show", &run[..8]]).await;
        assert_eq!(shown.code, Some(1), "{shown:?}");
        // Each on its line, as short as tells it apart, with what it is.
        assert_says(&shown.stderr, &format!("\n  {}  main, ", &run[run.len() - 8..]));
        assert_says(&shown.stderr, "/bin/date");
    }
    // Who may not see a run is not told of it by a part of its id, either.
    let (_, other) = server
        .token_with(json!({ "name": "other", "scopes": ["exec"] }))
        .await;
    for part in [&run[run.len() - 8..], &run[..8]] {
        other
            .get(&format!("/v1/runs/{part}"))
            .await
            .problem(404, "not-found");
        other
            .post(&format!("/v1/runs/{part}/cancel"), json!({}))
            .await
            .problem(404, "not-found");
    }
    operator.decided(&approval[..8], "deny").await;
    assert_eq!(operator.approval(approval).await["status"], "denied");
}

/// What is said behind this lead, as a shell takes it apart.
#[track_caller]
fn pasted(done: &Finished, lead: &str) -> Vec<String> {
    let mut lines = done.stdout.lines().chain(done.stderr.lines());
    let line = lines.find_map(|line| line.strip_prefix(lead));
    let line = line.unwrap_or_else(|| panic!("no {lead:?} in {done:?}"));
    let print = format!("printf '%s\\0' {line}");
    let words = run_program(&Invocation::new("/bin/sh").args(&["-c", &print])).stdout;
    let words: Vec<String> = words.split_terminator('\0').map(str::to_owned).collect();
    assert_eq!(words[0], "countersign", "{line}");
    words[1..].to_vec()
}

#[tokio::test]
async fn an_explanation_ends_with_the_lines_that_would_change_it() {
    let server = TestServer::asking().start().await;
    let call = ["policy", "explain", "--agent", "build", "--", "/bin/date", "+%s"];
    let other = ["policy", "explain", "--agent", "build", "--", "/bin/date", "-u"];
    let run = |words: Vec<String>| {
        let server = &server;
        async move {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            server.cli(&words).await
        }
    };
    let explained = server.cli(&call).await;
    let (allow, deny) = (
        pasted(&explained, "to stop asking: "),
        pasted(&explained, "to refuse it for good: "),
    );
    let added = run(allow).await;
    assert_eq!(added.code, Some(0), "{added:?}");
    let explained = server.cli(&call).await;
    assert_says(&explained.stdout, "it would run");
    assert!(!explained.stdout.contains("to stop asking"), "{explained:?}");
    // This command alone.
    assert_says(&server.cli(&other).await.stdout, "a person would be asked");
    let added = run(deny).await;
    assert_eq!(added.code, Some(0), "{added:?}");
    for call in [call, other] {
        let explained = server.cli(&call).await;
        assert_says(&explained.stdout, "it would be denied: denylist");
        assert!(!explained.stdout.contains("to refuse it"), "{explained:?}");
    }
    // Another agent is still asked.
    assert_says(
        &server
            .cli(&["policy", "explain", "--agent", "other", "--", "/bin/date", "+%s"])
            .await
            .stdout,
        "a person would be asked",
    );
}

const TO_ALLOW: &str = "to allow it: ";
const TO_STOP: &str = "to stop asking: ";
const TO_REFUSE: &str = "to refuse it for good: ";
const TO_CHANGE: &str = "to change it: ";

async fn pastes(server: &TestServer, words: Vec<String>) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = server.cli(&words).await;
    assert_eq!(done.code, Some(0), "{words:?}: {done:?}");
}

#[tokio::test]
async fn a_denial_ends_with_the_lines_that_would_change_it() {
    let server = TestServer::allowlist_only().start().await;
    let call = ["exec", "--agent", "build", "--", "/bin/date", "+%Y it's"];
    let other = ["exec", "--agent", "build", "--", "/bin/date", "-u"];
    let denied = server.cli(&call).await;
    assert_eq!(denied.code, Some(77), "{denied:?}");
    assert!(!denied.stderr.contains("hint: "), "one line says how: {denied:?}");
    let (allow, refuse) = (pasted(&denied, TO_ALLOW), pasted(&denied, TO_REFUSE));
    // The same stands where people look later.
    let runs = document(&server.cli(&["runs", "list", "--json"]).await);
    let run = runs["items"][0].text("runId").to_owned();
    for place in [&["runs", "show", &run][..], &["policy", "why", &run]] {
        let shown = server.cli(place).await;
        assert_eq!(pasted(&shown, TO_ALLOW), allow, "{place:?}");
        assert_eq!(pasted(&shown, TO_REFUSE), refuse, "{place:?}");
    }
    pastes(&server, allow).await;
    assert_eq!(server.cli(&call).await.code, Some(0));
    assert_eq!(server.cli(&other).await.code, Some(77), "this command alone");
    pastes(&server, refuse).await;
    // Now a rule says no, and ending that is what helps.
    let denied = server.cli(&call).await;
    assert_says(&denied.stderr, "denylist");
    // The caller is told its pattern, which the denial says anyhow: its id is for those who may read the policy.
    assert_eq!(pasted(&denied, TO_CHANGE), ["denylist", "remove", "date"]);
    for lead in [TO_ALLOW, TO_REFUSE, "--agent"] {
        assert!(!denied.stderr.contains(lead), "{denied:?}");
    }
    let runs = document(&server.cli(&["runs", "list", "--json"]).await);
    let why = server
        .cli(&["policy", "why", runs["items"][0].text("runId")])
        .await;
    let change = pasted(&why, TO_CHANGE);
    let token = json!({ "name": "asker who reads", "scopes": ["exec", "read"] });
    let token = server.operator().post("/v1/tokens", token).await.expect(201);
    let reader = server
        .invocation(&call)
        .env("COUNTERSIGN_TOKEN", token.text("secret"));
    let told = TestServer::finish(reader).await;
    assert_eq!(pasted(&told, TO_CHANGE), change);
    pastes(&server, change).await;
    assert_eq!(server.cli(&call).await.code, Some(0));
}

#[tokio::test]
async fn an_answer_that_says_no_ends_with_the_same_lines() {
    let server = TestServer::asking().start().await;
    let call = ["exec", "--agent", "build", "--", "/bin/date", "+%s"];
    let waits = tokio::spawn(TestServer::finish(server.invocation(&call)));
    let pending = eventually(
        "asked",
        || async { server.operator().pending().await },
        |pending| !pending.is_empty(),
    )
    .await;
    let approval = pending[0].text("id").to_owned();
    server.operator().decided(&approval, "deny").await;
    let denied = waits.await.expect("it ends");
    assert_eq!(denied.code, Some(77), "{denied:?}");
    assert_says(&denied.stderr, "hint: countersign runs show ");
    let shown = server.cli(&["approvals", "show", &approval]).await;
    for lead in [TO_STOP, TO_REFUSE] {
        assert_eq!(pasted(&denied, lead), pasted(&shown, lead));
    }
    pastes(&server, pasted(&denied, TO_STOP)).await;
    assert_eq!(server.cli(&call).await.code, Some(0));
}

/// The run on standard output, the problem on standard error: as where policy says no at once.
#[tokio::test]
async fn an_answer_that_says_no_is_a_problem_under_json() {
    let server = TestServer::asking().start().await;
    let call = ["--json", "exec", "--", "/bin/date"];
    let waits = tokio::spawn(TestServer::finish(server.invocation(&call)));
    let pending = eventually(
        "asked",
        || async { server.operator().pending().await },
        |pending| !pending.is_empty(),
    )
    .await;
    server.operator().decided(pending[0].text("id"), "deny").await;
    let denied = waits.await.expect("it ends");
    assert_eq!(denied.code, Some(77), "{denied:?}");
    let run: Value = serde_json::from_str(&denied.stdout).expect("a run");
    assert_eq!(run["status"], "denied");
    // Standard error is JSON, too: first what waits, with its links.
    let lines = denied.stderr.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>().expect("a document a line");
    let [waiting, problem] = &lines[..] else {
        panic!("{denied:?}");
    };
    assert_eq!(waiting["approvalId"], pending[0]["id"], "{denied:?}");
    assert!(waiting.text("approvalUrl").contains("/a/"), "{denied:?}");
    assert_eq!(problem["code"], "exec-denied", "{denied:?}");
    for member in ["type", "title", "instance"] {
        assert!(!problem.text(member).is_empty(), "{denied:?}");
    }
}

/// Refusing `echo` would miss what a text is for.
#[tokio::test]
async fn the_line_that_refuses_for_good_names_what_a_text_leads_up_to() {
    let server = TestServer::asking().start().await;
    for (text, program) in [
        ("echo begin && git push && echo end", "git"),
        ("cd /tmp && cargo build; echo done", "cargo"),
        ("echo alone", "echo"),
    ] {
        let explained = server.cli(&["policy", "explain", "-c", text]).await;
        let words = pasted(&explained, TO_REFUSE);
        assert_eq!(words.last().map(String::as_str), Some(program), "{explained:?}");
        assert_says(
            &explained.stdout,
            &format!("(that refuses every command of {program})"),
        );
    }
}

/// One hint for machines and people: no wider than the line below the denial.
#[tokio::test]
async fn a_hint_is_the_line_that_a_denial_ends_with() {
    let server = TestServer::allowlist_only().start().await;
    for (argv, does) in [
        (
            &["/bin/date", "-u"][..],
            &["allowlist", "add", "--agent", "main", "--arg-pattern"][..],
        ),
        // No entry could be for this code alone, so a person is the way.
        (
            &["/usr/bin/env", "sh", "-c", "$0"],
            &["policy", "set", "--agent", "main", "--ask", "on-miss"],
        ),
    ] {
        let denied = server.agent().exec(json!({ "argv": argv })).await;
        let problem = denied.problem(403, "exec-denied");
        let explained = server
            .agent()
            .post("/v1/exec/explain", json!({ "argv": argv }))
            .await;
        let explained = explained.expect(200);
        assert_eq!(problem["hint"], explained["hint"], "{problem}");
        let told = server.cli(&[&["exec", "--"][..], argv].concat()).await;
        let lead = if explained["toAllow"][0].is_string() {
            TO_ALLOW
        } else {
            TO_CHANGE
        };
        let words = pasted(&told, lead);
        assert_eq!(words[..does.len()], *does, "{told:?}");
        let hint = problem.text("hint");
        assert_says(&told.stderr, hint);
        let refuse = pasted(&told, TO_REFUSE).join(" ");
        assert_eq!(explained["toRefuse"], format!("countersign {refuse}"));
    }
}

/// A question that no entry can stop says so.
#[tokio::test]
async fn where_nothing_can_be_stored_an_explanation_says_it() {
    let server = TestServer::asking().start().await;
    let explained = server.cli(&["policy", "explain", "-c", "date > /etc/x"]).await;
    assert_says(
        &explained.stdout,
        "no entry of the allowlist can stop this question: ",
    );
    assert!(!explained.stdout.contains(TO_STOP), "{explained:?}");
}

#[tokio::test]
async fn an_answer_that_allows_says_how_the_run_went() {
    let server = TestServer::asking().start().await;
    for (argv, more, ends) in [
        (&["/bin/sh", "-c", "exit 3"][..], None, Some("exit 3 in ")),
        (&["/bin/date"], Some("--no-wait"), None),
    ] {
        let pending = server.asked(json!({ "argv": argv })).await;
        let id = pending.text("approvalId");
        let words: Vec<&str> = ["approve", id].into_iter().chain(more).collect();
        let done = server.cli(&words).await;
        assert_eq!(done.code, Some(0), "the answer counts: {done:?}");
        let lines: Vec<&str> = done.stdout.lines().collect();
        match ends {
            Some(ends) => assert!(lines.len() == 2 && lines[1].contains(ends), "{done:?}"),
            None => assert_eq!(lines.len(), 1, "{done:?}"),
        }
    }
}

/// An entry for a file that the PATH does not come to covers no command by its name alone.
#[tokio::test]
async fn an_entry_for_another_file_of_the_name_says_which_one_is_found() {
    let server = TestServer::asking().start().await;
    let other = server.scratch().dir("bin").join("date");
    write_file_mode(&other, "#!/bin/sh\n", 0o755);
    let other = other.to_str().expect("UTF-8");
    let added = server.cli(&["allowlist", "add", other]).await;
    assert_says(&added.stderr, "date is /");
    assert_says(&added.stdout, "never");
    // Options behind the program are its own, and one word with blanks is a text.
    for same in [["--json", "date", "--utc"].as_slice(), &["--json", "date --utc"]] {
        let explained = server.cli(&[&["policy", "explain"], same].concat()).await;
        let explained: Value = serde_json::from_str(&explained.stdout).expect("an explanation");
        assert_eq!(
            explained["analysis"]["rendered"], "'/usr/bin/date' '--utc'",
            "{explained}"
        );
    }
    let found = server.cli(&["policy", "explain", "--json", "--", "date"]).await;
    let found = document(&found)["analysis"]["segments"][0]
        .text("resolvedPath")
        .to_owned();
    let added = server.cli(&["allowlist", "add", &found]).await;
    assert!(!added.stderr.contains("date is /"), "{added:?}");
    let done = server.cli(&["exec", "--", "date"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let listed = eventually(
        "the use is written",
        || async { server.cli(&["allowlist", "list"]).await.stdout },
        |stdout| stdout.matches("never").count() == 1,
    )
    .await;
    assert_says(&listed, &found);
}

#[tokio::test]
async fn where_no_entry_helps_the_one_command_that_does_is_named() {
    let server = TestServer::full()
        .exec(&json!({ "host": "gateway", "security": "deny" }))
        .start()
        .await;
    let call = ["exec", "--", "/bin/date"];
    let denied = server.cli(&call).await;
    assert_says(&denied.stderr, "security-deny");
    for lead in [TO_ALLOW, TO_STOP] {
        assert!(!denied.stderr.contains(lead), "{denied:?}");
    }
    assert_eq!(
        pasted(&denied, TO_REFUSE),
        ["denylist", "add", "--agent", "main", "date"]
    );
    let change = pasted(&denied, TO_CHANGE);
    assert_eq!(change[..2], ["config", "set"], "{change:?}");
    pastes(&server, change).await;
    assert_says(&server.cli(&call).await.stderr, "no-approver");

    let stopped = server.cli(&["stop", "--reason", "test"]).await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let refused = server.cli(&call).await;
    assert_says(&refused.stderr, "hint: countersign resume --reason TEXT");
    let explained = server.cli(&["policy", "explain", "--", "/bin/date"]).await;
    let resume = pasted(&explained, TO_CHANGE);
    assert_eq!(resume, ["resume", "--reason", "TEXT"]);
    pastes(&server, resume).await;
    assert_says(&server.cli(&call).await.stderr, "no-approver");
}

/// Both lines stand below every refusal, or a sentence says why one of them makes no sense.
#[tokio::test]
async fn a_denial_by_a_rule_ends_with_what_takes_the_rule_away() {
    let server = TestServer::full().start().await;
    let rule = [
        "denylist", "add", "date", "--agent", "main", "--reason", "no dates",
    ];
    assert_eq!(server.cli(&rule).await.code, Some(0));
    let call = ["exec", "--", "/bin/date"];
    let denied = server.cli(&call).await;
    assert_eq!(denied.code, Some(77), "{denied:?}");
    // The id of the rule is for those who may read the policy.
    assert_eq!(pasted(&denied, TO_CHANGE), ["denylist", "remove", "date"]);
    assert_says(&denied.stderr, "(that deny rule refuses it for good already)");
    let explained = server.cli(&["policy", "explain", "--", "/bin/date"]).await;
    assert_eq!(pasted(&explained, TO_CHANGE)[..2], ["denylist", "remove"]);
    assert_says(&explained.stdout, "(that deny rule refuses it for good already)");
    pastes(&server, pasted(&denied, TO_CHANGE)).await;
    assert_eq!(server.cli(&call).await.code, Some(0));

    let narrow = server
        .cli(&["exec", "--security", "deny", "--", "/bin/date"])
        .await;
    assert_says(
        &narrow.stderr,
        "to change it: make the call without --security deny",
    );
    assert_eq!(
        pasted(&narrow, TO_REFUSE),
        ["denylist", "add", "--agent", "main", "date"]
    );
    let muted = server.cli(&["agents", "mute", "main", "--for", "1h"]).await;
    assert_eq!(muted.code, Some(0), "{muted:?}");
    let refused = server.cli(&["exec", "--ask", "always", "--", "/bin/date"]).await;
    assert_eq!(pasted(&refused, TO_CHANGE), ["agents", "unmute", "main"]);
    assert_eq!(
        pasted(&refused, TO_REFUSE),
        ["denylist", "add", "--agent", "main", "date"]
    );
}

#[tokio::test]
async fn a_program_that_is_not_there_can_be_refused_for_good_too() {
    let server = TestServer::asking().start().await;
    let absent = server.cli(&["exec", "--", "no-such-program-here"]).await;
    assert_says(&absent.stderr, "program-not-found");
    assert_eq!(
        pasted(&absent, TO_CHANGE)[..3],
        ["config", "set", "tools.exec.pathPrepend"]
    );
    assert_eq!(
        pasted(&absent, TO_REFUSE),
        ["denylist", "add", "--agent", "main", "no-such-program-here"]
    );
}

/// An answer that says no ends so, too.
#[tokio::test]
async fn a_deny_ends_with_the_lines_that_would_change_it() {
    let server = TestServer::asking().start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let denied = server.cli(&["deny", pending.text("approvalId")]).await;
    assert_eq!(denied.code, Some(0), "{denied:?}");
    assert_eq!(pasted(&denied, TO_STOP)[..2], ["allowlist", "add"]);
    assert_eq!(
        pasted(&denied, TO_REFUSE),
        ["denylist", "add", "--agent", "main", "date"]
    );
    // What refuses it for good has been stored already.
    let pending = server.asked(json!({ "argv": ["/bin/date", "-u"] })).await;
    let never = server.cli(&["deny", pending.text("approvalId"), "--never"]).await;
    assert_eq!(never.code, Some(0), "{never:?}");
    assert!(!never.stderr.contains(TO_REFUSE), "{never:?}");
}

#[tokio::test]
async fn why_tells_of_a_run_and_of_its_call_now() {
    let server = TestServer::asking().start().await;
    let pending = server
        .asked(json!({ "argv": ["/bin/date"], "agentId": "build" }))
        .await;
    let path = format!("/v1/approvals/{}/decision", pending.text("approvalId"));
    let deny = json!({ "decision": "deny", "reason": "not today" });
    server.operator().posted(&path, deny).await;
    let run = pending.text("runId");
    let why = server.cli(&["policy", "why", &run[run.len() - 8..]]).await;
    assert_eq!(why.code, Some(0), "{why:?}");
    for part in [
        "operator (person)",
        "not today",
        "a person would be asked",
        "to stop asking: countersign allowlist add --agent build ",
    ] {
        assert_says(&why.stdout, part);
    }
    // What the call itself asked for decided, and the policy of now says nothing of it.
    let narrow = json!({ "argv": ["/bin/date"], "agentId": "build", "security": "deny" });
    let refused = server.agent().denied(narrow).await;
    let why = server.cli(&["policy", "why", refused.text("runId")]).await;
    assert_eq!(why.code, Some(0), "{why:?}");
    assert_says(&why.stdout, "deny when it was judged");
    assert_says(&why.stdout, "without what the call itself asked for");
    let now = document(&server.cli(&["policy", "why", run, "--json"]).await);
    assert_eq!(now["outcome"], "ask");
    let nothing = server.cli(&["policy", "why", "00000000"]).await;
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
}

#[tokio::test]
async fn lists_take_times_and_come_newest_first() {
    let server = TestServer::asking().start().await;
    let asked = server.asked(json!({ "argv": ["/bin/date"] })).await;
    for (list, count) in [
        (&["runs", "list"][..], 1),
        (&["approvals", "list"], 1),
        (&["events"], 2),
    ] {
        let items = async |times: &[&str]| {
            let arguments = [list, &["--json"], times].concat();
            let done = server.cli(&arguments).await;
            assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
            let document = serde_json::from_str::<Value>(&done.stdout);
            match document {
                Ok(document) if document["items"].is_array() => document.list("items").len(),
                _ => done.stdout.lines().count(),
            }
        };
        let known = items(&["--since", "1h"]).await;
        assert!(known >= count, "{list:?}: {known}");
        assert_eq!(items(&["--until", "1h"]).await, 0, "{list:?}");
        assert_eq!(
            items(&["--since", "2000-01-01T00:00:00Z"]).await,
            known,
            "{list:?}"
        );
        assert_eq!(items(&["--until", "2000-01-01T00:00:00Z"]).await, 0, "{list:?}");
    }
    let events = server.cli(&["events", "--json=seq"]).await;
    let numbers: Vec<i64> = events
        .stdout
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect(line)["seq"]
                .as_i64()
                .expect("a number")
        })
        .collect();
    assert!(
        numbers.len() > 1 && numbers.is_sorted_by(|one, other| one > other),
        "{numbers:?}"
    );
    let wide = server.cli(&["events", "--wide"]).await;
    assert_says(&wide.stdout, &format!("(run {})", asked.text("runId")));
    // A run whose beginning is not among the events is called by its command all the same.
    let last = server
        .cli(&["events", "--limit", "1", "--types", "exec.approval"])
        .await;
    assert_says(&last.stdout, "main: /bin/date");
    let wrong = server.cli(&["runs", "list", "--since", "yesterday"]).await;
    assert_eq!(wrong.code, Some(64), "{wrong:?}");
    wrong.complains("expected how long ago");

    let audit = |more: &'static [&'static str]| {
        let arguments = [&["audit", "list", "--json"][..], more].concat();
        let server = &server;
        async move {
            let list = document(&server.cli(&arguments).await);
            let numbers = list.list("items").iter().map(|record| record["seq"].as_i64());
            numbers.collect::<Option<Vec<i64>>>().expect("numbers")
        }
    };
    let newest = audit(&[]).await;
    let mut oldest = audit(&["--oldest-first"]).await;
    assert!(
        newest.len() > 2 && newest.is_sorted_by(|one, other| one > other),
        "{newest:?}"
    );
    oldest.reverse();
    assert_eq!(oldest, newest);
    // Page by page, both ways.
    let operator = server.operator();
    for order in ["newest", "oldest"] {
        let whole = operator.read(&format!("/v1/audit?order={order}")).await;
        let mut paged = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = operator
                .read(&format!("/v1/audit?order={order}&limit=1{cursor}"))
                .await;
            paged.extend(page.list("items").iter().cloned());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(json!(paged), whole["items"], "{order}");
    }
    assert_eq!(audit(&["--until", "1h"]).await, Vec::<i64>::new());
    operator.decided(asked.text("approvalId"), "deny").await;
}

#[tokio::test]
async fn programs_get_errors_as_problem_documents() {
    let server = TestServer::full().start().await;
    let gone = server.cli(&["runs", "show", "0000aaaa", "--json"]).await;
    assert_eq!(gone.code, Some(1), "{gone:?}");
    let problem: Value =
        serde_json::from_str(&gone.stderr).unwrap_or_else(|error| panic!("{error}: {gone:?}"));
    assert_has!(problem, { "code": "not-found", "status": 404, "instance": "/v1/runs/0000aaaa" });
    for arguments in [
        &["runs", "shwo", "--json"][..],
        &["runs", "--json"],
        &["--json", "exec", "--host", "moon", "--", "ls"],
    ] {
        let wrong = server.cli(arguments).await;
        assert_eq!(wrong.code, Some(64), "{wrong:?}");
        let problem: Value =
            serde_json::from_str(&wrong.stderr).unwrap_or_else(|error| panic!("{error}: {wrong:?}"));
        assert_has!(problem, { "code": "usage", "type": "about:blank" });
        assert!(problem["hint"].is_string(), "{problem}");
    }
    // What the program behind the options wants is its own.
    let people = server
        .cli(&["exec", "--host", "moon", "--", "ls", "--json"])
        .await;
    people.complains("error[usage]: ");
}

#[tokio::test]
async fn colours_are_used_when_they_are_wanted() {
    let server = TestServer::full().start().await;
    let colours = async |arguments: &[&str]| server.cli(arguments).await.stdout.contains('\u{1b}');
    assert!(!colours(&["doctor"]).await);
    assert!(colours(&["doctor", "--color", "always"]).await);
    assert!(!colours(&["doctor", "--color", "never"]).await);
}

#[tokio::test]
async fn a_part_of_an_id_names_a_token_an_entry_and_a_rule() {
    let server = TestServer::asking()
        .document(&json!({ "version": 1, "agents": { "main": { "allowlist": [
            { "id": "11111111-2222-4333-8444-555555555555", "pattern": "/opt/one" },
            { "id": "11111111-2222-4333-8444-666666666666", "pattern": "/opt/other" },
            { "id": "11111111", "pattern": "/opt/short" },
            { "id": "77777777-2222-4333-8444-555555555555", "pattern": "/opt/third" },
        ] } } }))
        .start()
        .await;
    let operator = server.operator();
    let entry = |id: &str| format!("/v1/agents/main/allowlist/{id}");
    assert_has!(operator.read(&entry("66666666")).await, { "pattern": "/opt/other" });
    // An id in full is never a part, however short it is.
    assert_has!(operator.read(&entry("11111111")).await, { "pattern": "/opt/short" });
    let several = operator
        .get(&entry("55555555"))
        .await
        .problem(409, "id-ambiguous");
    assert_eq!(several.list("ids").len(), 2, "{several}");
    for unknown in [
        "1111111",
        "99999999",
        "1111111%",
        "11111111-2222-4333-8444-5555555555555",
    ] {
        operator.get(&entry(unknown)).await.problem(404, "not-found");
    }
    operator
        .delete(&entry("55555555"))
        .await
        .problem(409, "id-ambiguous");
    operator.removed(&entry("77777777")).await;
    assert_has!(operator.read(&entry("55555555")).await, { "pattern": "/opt/one" });

    let rule = operator
        .made("/v1/agents/*/denylist", json!({ "pattern": "example" }))
        .await;
    let short = &rule.text("id")[..8];
    operator.removed(&format!("/v1/agents/*/denylist/{short}")).await;
    let (id, holder) = server
        .token_with(json!({ "name": "a", "scopes": ["read"] }))
        .await;
    let revoked = server.cli(&["token", "revoke", &id[..8]]).await;
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    holder.get("/v1/me").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn wrong_input_is_answered_with_what_helps() {
    let server = TestServer::asking().start().await;
    let said = async |words: &[&str]| {
        let done = server.cli(words).await;
        assert_ne!(done.code, Some(0), "{words:?}");
        done.stderr
    };
    for (words, parts) in [
        (&["logs"][..], &["hint: countersign events --follow\n"][..]),
        (&["run", "ls"], &["hint: countersign exec -- PROGRAM\n"]),
        (&["login"], &["hint: countersign login-link\n"]),
        (&["ls"], &["hint: countersign runs list\n"]),
        (&["top"], &["hint: countersign status --watch\n"]),
        // The spelling of ours is still told.
        (
            &["evnts"],
            &["unrecognized subcommand 'evnts'", "hint: countersign "],
        ),
        (
            &["runs", "show", "xyz"],
            &[
                "xyz is too short: give 8 characters of the id or more",
                "hint: countersign runs list\n",
            ],
        ),
        (
            &["runs", "show", "xyzxyzxyz"],
            &["there is no such run", "hint: countersign runs list\n"],
        ),
        (&["runs", "list", "--limit", "x"], &["expected a whole number"]),
        (&["man", "/proc/foo"], &["cannot write to /proc/foo"]),
    ] {
        let stderr = said(words).await;
        for part in parts {
            assert_says(&stderr, part);
        }
    }
    let missing = json!({ "command": "ls", "workdir": "/no-such-directory" });
    let refused = server
        .agent()
        .exec(missing)
        .await
        .problem(400, "workdir-unavailable");
    assert_says(refused.text("detail"), "/no-such-directory on host gateway");
    let asked = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let id = asked.text("approvalId");
    let stderr = said(&["approvals", "resolve", &id[..8]]).await;
    assert_says(
        &stderr,
        "an answer is missing: allow-once, allow-always or deny\n",
    );
    let hint = format!("hint: countersign approvals resolve {} allow-once\n", &id[..8]);
    assert_says(&stderr, &hint);
    server.operator().decided(id, "deny").await;
    let stderr = said(&["approve", &id[..8]]).await;
    assert_says(&stderr, "it was already denied by operator at 2");
}

#[tokio::test]
async fn before_a_first_start_the_command_line_says_so() {
    let server = TestServer::asking().prepare();
    let done = server.cli(&["exec", "--", "ls"]).await;
    assert_eq!(done.code, Some(69), "{done:?}");
    assert_says(&done.stderr, "error[no-server]: no server has run on ");
    assert_says(&done.stderr, "hint: countersign serve\n");
}

#[tokio::test]
async fn a_list_is_wide_or_nothing_but_ids() {
    let server = TestServer::asking().start().await;
    let long = "x".repeat(150);
    let asked = server.asked(json!({ "argv": ["/bin/echo", long] })).await;
    let (run, approval) = (asked.text("runId"), asked.text("approvalId"));
    let names = server.cli(&["runs", "list", "-o", "name"]).await;
    assert_eq!(names.stdout, format!("{run}\n"), "{names:?}");
    let names = server.cli(&["approvals", "list", "--output", "name"]).await;
    assert_eq!(names.stdout, format!("{approval}\n"), "{names:?}");
    let wide = server.cli(&["runs", "list", "--wide"]).await;
    assert_says(&wide.stdout, run);
    assert_says(&wide.stdout, &long);
    // An absolute time with its zone.
    let zoned = regex::Regex::new(r" \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d ").expect("an expression");
    assert!(zoned.is_match(&wide.stdout), "{wide:?}");
    let usual = server.cli(&["runs", "list"]).await;
    assert!(
        !usual.stdout.contains(run) && usual.stdout.contains(" ago"),
        "{usual:?}"
    );
    for list in [
        "audit list",
        "token list",
        "allowlist list",
        "denylist list",
        "nodes list",
        "nodes pairings",
        "browsers list",
        "process list",
        "policy history",
    ] {
        let words = |more: &'static str| list.split(' ').chain(more.split(' ')).collect::<Vec<_>>();
        let wide = server.cli(&words("--wide")).await;
        assert_eq!(wide.code, Some(0), "{wide:?}");
        let names = server.cli(&words("-o name")).await;
        assert_eq!(names.code, Some(0), "{names:?}");
        assert!(names.stdout.lines().all(|line| !line.contains(' ')), "{names:?}");
    }
    let both = server.cli(&["runs", "list", "--wide", "-o", "name"]).await;
    assert_eq!(both.code, Some(64), "{both:?}");
}

/// What fish is offered for the last of these words, with what it says of each.
async fn offered(server: &TestServer, words: &[&str]) -> Vec<(String, String)> {
    let mut line = vec!["--", "countersign"];
    line.extend(words);
    let asked = server.invocation(&line).env("COUNTERSIGN_COMPLETE", "fish");
    let done = TestServer::finish(asked).await;
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    let lines = done.stdout.lines();
    lines
        .map(|line| line.split_once('\t').unwrap_or((line, "")))
        .map(|(word, about)| (word.to_owned(), about.to_owned()))
        .collect()
}

#[tokio::test]
async fn completion_offers_what_the_server_knows() {
    let mut server = TestServer::asking().start().await;
    let asked = server
        .asked(json!({ "argv": ["/bin/date"], "agentId": "build" }))
        .await;
    let (run, approval) = (
        asked.text("runId").to_owned(),
        asked.text("approvalId").to_owned(),
    );
    let (slug, end) = (&approval[..8], &run[run.len() - 8..]);
    let question = (slug.to_owned(), "build: /bin/date".to_owned());
    for words in [
        &["approve", ""][..],
        &["deny", &slug[..3]],
        &["approvals", "show", ""],
        &["approvals", "resolve", ""],
    ] {
        let offered = offered(&server, words).await;
        assert!(offered.contains(&question), "{words:?}: {offered:?}");
    }
    let word = |words: &'static [&'static str], expected: String| {
        let server = &server;
        async move {
            let offered = offered(server, words).await;
            assert!(
                offered.iter().any(|(word, _)| *word == expected),
                "{words:?}: {offered:?}"
            );
        }
    };
    word(&["runs", "show", ""], end.to_owned()).await;
    word(&["policy", "why", ""], end.to_owned()).await;
    word(&["runs", "list", "--agent", "b"], "build".to_owned()).await;
    word(&["config", "set", "tools.exec.a"], "tools.exec.ask".to_owned()).await;
    word(&["policy", "preset", "c"], "cautious".to_owned()).await;
    word(&["exec", "--wor"], "--workdir".to_owned()).await;
    // What begins otherwise is not offered, and without a server nothing is.
    let none = offered(&server, &["approvals", "show", "zzz"]).await;
    assert!(!none.contains(&question), "{none:?}");
    server.stop().await;
    let none = offered(&server, &["approvals", "show", ""]).await;
    assert!(!none.contains(&question), "{none:?}");
}
