//! Text of an agent on the operator's terminal: in a hint that is pasted into a shell, in output, in JSON.

use std::fs;

use serde_json::json;

use crate::support::{
    Invocation, Members, Terminal, TestServer, assert_says, eventually, inherited_path, run_program,
    write_file, write_file_mode,
};

/// Names of programs that a shell would not take as one word.
const HOSTILE: [&str; 10] = [
    "$(touch marker)",
    "`touch marker`",
    "a;touch marker",
    "a&&touch marker",
    "a|touch marker",
    "a>marker",
    "q\"$(touch marker)\"",
    "it's; touch marker; '",
    "-x",
    "~",
];

/// What `bash` makes of a hint: the words of each `countersign` that it starts, and whether anything else happened.
fn pasted(server: &TestServer, hint: &str) -> Vec<String> {
    let scratch = server.scratch();
    let bin = scratch.dir("stand-in");
    let words = scratch.join("words");
    write_file_mode(
        &bin.join("countersign"),
        format!("#!/bin/sh\nprintf '%s\\0' \"$@\" >>'{}'\n", words.display()),
        0o755,
    );
    let place = scratch.dir("pasted");
    run_program(
        &Invocation::new("bash")
            .args(&["-c", hint])
            .env("PATH", format!("{}:{}", bin.display(), inherited_path()))
            .env("HOME", scratch.path())
            .cwd(&place),
    );
    let left: Vec<_> = fs::read_dir(&place).expect("the place").collect();
    assert!(left.is_empty(), "{hint} did more than it says: {left:?}");
    let text = fs::read_to_string(&words).unwrap_or_default();
    drop(fs::remove_file(&words));
    text.split_terminator('\0').map(str::to_owned).collect()
}

#[tokio::test]
async fn a_hint_that_is_pasted_adds_the_entry_and_runs_nothing_else() {
    let server = TestServer::allowlist_only().start().await;
    for name in HOSTILE.into_iter().chain(["plain"]) {
        let program = server.scratch().dir("bin").join(name);
        write_file_mode(&program, "#!/bin/sh\n", 0o755);
        let path = program.to_str().expect("UTF-8");
        let refused = server.agent().exec(json!({ "argv": [path] })).await;
        let problem = refused.problem(403, "exec-denied");
        let hint = problem.text("hint");
        let words = pasted(&server, hint);
        assert_eq!(
            words[..5],
            ["allowlist", "add", "--agent", "main", "--arg-pattern"],
            "{hint}"
        );
        assert!(
            words[5].starts_with("sha256:"),
            "for these arguments alone: {hint}"
        );
        assert_eq!(words[6..], [path], "{hint}");
    }
}

/// The lines below a denial: the entry is for this program alone, and what cannot be shown as it is gets no line.
#[tokio::test]
async fn the_lines_of_a_denial_that_are_pasted_run_nothing_else() {
    let server = TestServer::allowlist_only().start().await;
    for name in HOSTILE.into_iter().chain(["plain"]) {
        let program = server.scratch().dir("bin").join(name);
        write_file_mode(&program, "#!/bin/sh\n", 0o755);
        let path = program.to_str().expect("UTF-8");
        let denied = server.cli(&["exec", "--", path, "$(touch marker)"]).await;
        assert_eq!(denied.code, Some(77), "{denied:?}");
        let lines = denied.stderr.lines();
        let commands: Vec<&str> = lines
            .filter_map(|line| line.split_once(": countersign ").map(|(_, line)| line))
            .collect();
        assert!(!commands.is_empty(), "{denied:?}");
        for command in commands {
            let words = pasted(&server, &format!("countersign {command}"));
            assert!(
                matches!(words[0].as_str(), "allowlist" | "denylist")
                    && words[1..4] == ["add", "--agent", "main"],
                "{words:?}"
            );
            assert!(
                words[0] != "allowlist" || words.last().is_some_and(|word| word == path),
                "{words:?}"
            );
        }
    }
    for name in ["a\u{202e}b", "a\nb"] {
        let program = server.scratch().dir("bin").join(name);
        write_file_mode(&program, "#!/bin/sh\n", 0o755);
        let denied = server
            .cli(&["exec", "--", program.to_str().expect("UTF-8")])
            .await;
        assert_eq!(denied.code, Some(77), "{denied:?}");
        assert!(!denied.stderr.contains("allowlist add"), "{denied:?}");
    }
}

/// A program that is called like an option is refused by its name, and the line that says so shows no help.
#[tokio::test]
async fn the_line_that_refuses_a_program_called_like_an_option_adds_the_rule() {
    let server = TestServer::allowlist_only().start().await;
    for name in ["-h", "--help", "plain"] {
        let program = server.scratch().dir("bin").join(name);
        write_file_mode(&program, "#!/bin/sh\n", 0o755);
        let path = program.to_str().expect("UTF-8");
        let denied = server.cli(&["exec", "--", path]).await;
        let mut lines = denied.stderr.lines();
        let line = lines.find_map(|line| line.strip_prefix("to refuse it for good: "));
        let words = pasted(&server, line.unwrap_or_else(|| panic!("{name:?}: {denied:?}")));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let added = server.cli(&words).await;
        assert_eq!(added.code, Some(0), "{words:?}: {added:?}");
        let rules = server.operator().read("/v1/agents/main/denylist").await;
        let mut patterns = rules.list("items").iter().map(|rule| rule.text("pattern"));
        assert!(patterns.any(|pattern| pattern == name), "{name:?}: {rules}");
        let again = server.cli(&["exec", "--", path]).await;
        assert_says(&again.stderr, "denylist");
    }
}

#[tokio::test]
async fn a_name_that_would_be_a_pattern_or_hides_something_gets_no_hint_to_paste() {
    let server = TestServer::allowlist_only().start().await;
    for name in ["*", "a?", "a\u{202e}b", "a\nb"] {
        let program = server.scratch().dir("bin").join(name);
        write_file_mode(&program, "#!/bin/sh\n", 0o755);
        let refused = server.agent().exec(json!({ "argv": [program.to_str()] })).await;
        let problem = refused.problem(403, "exec-denied");
        let hint = problem["hint"].as_str().unwrap_or_default();
        assert!(!hint.contains("allowlist add"), "{name:?}: {problem}");
    }
}

/// A fix of doctor, for a rule of a document that another program wrote.
#[tokio::test]
async fn a_fix_that_is_pasted_removes_the_rule_and_runs_nothing_else() {
    let owner = "$(touch marker)";
    let document = json!({ "version": 1, "agents": { owner: { "denylist": [
        { "id": "0123-$(touch marker)", "pattern": "a/b" },
    ] } } });
    let server = TestServer::full().document(&document).start().await;
    let report = server.cli(&["doctor", "--json"]).await;
    let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
    let findings = report.list("findings");
    let fix = findings
        .iter()
        .find(|finding| finding["id"] == "rule-never-matches")
        .map(|finding| finding.text("fix"));
    if let Some(fix) = fix {
        assert_eq!(
            pasted(&server, fix),
            ["denylist", "remove", "0123-$(touch marker)", "--agent", owner],
            "{fix}"
        );
    } else {
        // The document is refused for its owner: then no rule of it is named at all.
        assert!(!report.to_string().contains("denylist remove"), "{report}");
    }
}

/// The command line at a terminal.
fn at_a_terminal(server: &TestServer, arguments: &[&str]) -> Terminal {
    Terminal::start(
        server
            .invocation(arguments)
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh"),
    )
}

#[tokio::test]
async fn output_reaches_a_terminal_spelled_out_and_raw_only_where_that_is_said() {
    let server = TestServer::full().start().await;
    let done = server
        .ran(json!({ "command": "printf '\\033]0;pwn\\007\\033[31mout\\tx\\n\\342\\200\\256end\\n'" }))
        .await;
    let run = done.text("runId");
    let shown = at_a_terminal(&server, &["runs", "output", run]).sees("end").await;
    assert_says(&shown, "\\u{1B}]0;pwn\\u{7}\\u{1B}[31mout\tx");
    assert_says(&shown, "\\u{202E}end");
    assert!(!shown.contains("\u{1b}]0;"), "{shown:?}");
    let raw = at_a_terminal(&server, &["runs", "output", run, "--raw"])
        .sees("end")
        .await;
    assert!(raw.contains("\u{1b}]0;pwn\u{7}"), "{raw:?}");
    let piped = server.cli(&["runs", "output", run]).await;
    assert!(piped.stdout.contains("\u{1b}]0;pwn\u{7}"), "{piped:?}");
}

#[tokio::test]
async fn json_on_a_terminal_is_escaped_and_the_same_elsewhere() {
    let server = TestServer::full().start().await;
    let command = "echo \u{202e}x\u{9b}31m";
    server.ran(json!({ "command": command })).await;
    let shown = at_a_terminal(&server, &["runs", "list", "--json"])
        .sees("31m")
        .await;
    assert!(shown.contains("echo \\u202ex\\u009b31m"), "{shown:?}");
    assert!(!shown.contains(['\u{202e}', '\u{9b}']), "{shown:?}");
    let piped = server.cli(&["runs", "list", "--json"]).await;
    assert!(piped.stdout.contains('\u{202e}'), "{piped:?}");
}

#[tokio::test]
async fn secrets_are_masked_where_people_look_and_kept_for_machines() {
    let server = TestServer::full().start().await;
    let command = "true --token abcdef0123456789";
    let done = server.ran(json!({ "command": command })).await;
    let run = done.text("runId");
    let masked = "true --token ⟨secret of 16 characters⟩";
    for arguments in [&["runs", "list"][..], &["runs", "show", run], &["events"]] {
        let people = server.cli(arguments).await;
        assert!(people.stdout.contains(masked), "{people:?}");
        assert!(!people.stdout.contains("abcdef0123456789"), "{people:?}");
    }
    let machines = server.cli(&["runs", "show", run, "--json"]).await;
    assert!(machines.stdout.contains(command), "{machines:?}");
}

#[tokio::test]
async fn secrets_are_masked_in_what_is_told_of_rules_sessions_and_earlier_commands() {
    const ENTRY: &str = "11111111-2222-4333-8444-555555555555";
    let command = "/bin/sleep 600 --token abcdef0123456789";
    let server = TestServer::asking()
        .document(&json!({ "version": 1, "agents": { "main": { "allowlist": [
            { "id": ENTRY, "pattern": "/bin/true", "lastUsedCommand": command, "lastUsedAt": 1 },
        ] } } }))
        .start()
        .await;
    let operator = server.operator();
    let earlier = json!({ "argv": ["/bin/sleep", "0", "--token=abcdef0123456789"] });
    let earlier = server.asked(earlier).await;
    server.answered(&earlier, "allow-once").await;
    let asked = json!({ "command": "sleep --token abcdef0123456789; sleep 600", "background": true });
    let asked = server.asked(asked).await;
    operator.decided(asked.text("approvalId"), "allow-once").await;
    let run = asked.text("runId");
    let agent = server.agent();
    eventually("it runs", || agent.run(run), |run| run["status"] == "running").await;
    let candidate = server.scratch().join("candidate.json");
    write_file(&candidate, r#"{"version":1,"defaults":{"security":"deny"}}"#);
    let candidate = candidate.to_str().expect("text");
    for (arguments, shown) in [
        (&["allowlist", "show", ENTRY][..], "sleep 600 --token ⟨secret"),
        (&["process", "list"], "sleep"),
        (&["policy", "backtest", "--document", candidate], "⟨secret"),
    ] {
        let people = server.cli(arguments).await;
        assert!(people.stdout.contains(shown), "{people:?}");
        assert!(!people.stdout.contains("abcdef0123456789"), "{people:?}");
    }
    operator.cancel(run).await;
}
