//! `policy forecast`: the transcripts of one's own agents, judged on this machine, and nothing else.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::support::{
    Finished, Invocation, Members, Scratch, Terminal, TestServer, assert_says, countersign, run_program,
    write_file, write_file_mode,
};

/// A home directory with a workspace, and no server.
struct Home {
    scratch: Scratch,
}

impl Home {
    fn new() -> Self {
        let home = Self {
            scratch: Scratch::new(),
        };
        home.scratch.dir("work");
        home
    }

    fn invocation(&self, arguments: &[&str]) -> Invocation {
        countersign()
            .args(&["policy", "forecast"])
            .args(arguments)
            .env("HOME", self.scratch.path())
            .env("PATH", "/usr/bin:/bin")
    }

    fn forecast(&self, arguments: &[&str]) -> Value {
        let finished = run_program(&self.invocation(arguments).args(&["--json"]));
        assert_eq!(finished.code, Some(0), "{finished:?}");
        serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
    }

    fn people(&self, arguments: &[&str]) -> Finished {
        run_program(&self.invocation(arguments))
    }

    fn write(&self, name: &str, lines: &[Value]) {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        write_file(&self.scratch.join(name), lines.join("\n") + "\n");
    }

    /// Where the commands of a transcript start.
    fn work(&self) -> String {
        self.scratch.join("work").to_str().unwrap().to_owned()
    }

    /// The approvals document that `init` wrote.
    fn document(&self) -> Value {
        let text = std::fs::read(self.scratch.join(".openclaw/exec-approvals.json")).expect("a document");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// A file of commands, one a line.
    fn commands(&self, name: &str, commands: &[&str]) -> String {
        let lines: Vec<Value> = commands
            .iter()
            .map(|command| json!({ "command": command, "cwd": self.work() }))
            .collect();
        self.write(name, &lines);
        self.scratch.join(name).to_str().unwrap().to_owned()
    }
}

/// A message of Claude Code with one command.
fn claude(id: &str, command: &str, cwd: &str, at: &str) -> Value {
    json!({ "type": "assistant", "cwd": cwd, "timestamp": at, "message": { "content": [
        { "type": "tool_use", "id": id, "name": "Bash", "input": { "command": command } },
    ] } })
}

#[test]
fn the_transcripts_of_all_agents_are_read_where_they_lie() {
    let home = Home::new();
    let work = home.work();
    // Later than now: what has a time of long ago is left out.
    let at = "2100-01-01T00:00:00.000Z";
    home.write(
        ".claude/projects/-work/s.jsonl",
        &[
            claude("t1", "seq 1", &work, at),
            // The same message again, and one of long ago.
            claude("t1", "seq 1", &work, at),
            claude("t2", "seq 2", &work, "2001-01-01T00:00:00.000Z"),
            json!({ "type": "user", "message": { "content": "run id" } }),
        ],
    );
    let arguments = json!({ "command": ["bash", "-lc", "seq 3 | cat"] }).to_string();
    home.write(
        ".codex/sessions/2100/01/01/rollout-x.jsonl",
        &[
            json!({ "timestamp": at, "type": "session_meta", "payload": { "cwd": work } }),
            json!({ "timestamp": at, "type": "response_item", "payload": {
                "type": "function_call", "name": "shell", "arguments": arguments, "call_id": "c1" } }),
        ],
    );
    let message = json!({ "id": "m", "timestamp": at, "type": "gemini", "toolCalls": [
        { "id": "g1", "name": "run_shell_command", "args": { "command": "seq 4" } } ] });
    home.write(
        ".gemini/tmp/hash/chats/session-a.json",
        &[json!({ "sessionId": "s", "messages": [message] })],
    );
    home.write(
        ".openclaw/agents/main/sessions/s.jsonl",
        &[
            json!({ "type": "session", "cwd": work }),
            json!({ "type": "message", "timestamp": at, "message": { "role": "assistant", "content": [
                { "type": "toolCall", "id": "o1", "name": "exec", "arguments": { "command": "seq 5" } } ] } }),
        ],
    );
    let told = home.forecast(&[]);
    let read: Vec<Value> = told
        .list("sources")
        .iter()
        .map(|source| json!([source["from"], source["commands"]]))
        .collect();
    assert_eq!(
        read,
        [
            json!(["claude-code", 1]),
            json!(["codex", 1]),
            json!(["gemini", 1]),
            json!(["openclaw", 1])
        ]
    );
    // Nothing is set up yet, so it is what `init` would set up. Gemini does not say where its commands start.
    assert_has!(told, {
        "commands": 4, "distinct": 4, "ask": 4, "run": 0, "policy": "cautious", "elsewhere": 1,
        "entries/0/pattern": "/usr/bin/seq", "askWithEntries": 0,
    });
    assert_eq!(home.forecast(&["--from", "codex"])["commands"], 1);
    // Nothing was made, not even a state directory.
    assert!(!home.scratch.join(".openclaw/countersign").exists());
}

#[test]
fn it_says_what_would_be_asked_and_which_entries_save_most() {
    let home = Home::new();
    let file = home.commands(
        "c.jsonl",
        &[
            "seq 1",
            "seq 2",
            "seq 2",
            "id -u",
            "seq 3 && id",
            "echo $(id)",
            "no-such-program-here",
            "wc -l x",
            "rg x",
        ],
    );
    let told = home.forecast(&["--from", &file, "--entries", "1"]);
    assert_has!(told, { "commands": 9, "distinct": 8, "deny": 0, "notJudged": 0 });
    assert_has!(told["entries"][0], { "pattern": "/usr/bin/seq", "saves": 3, "add": [
        "countersign", "allowlist", "add", "/usr/bin/seq", "--agent=main" ] });
    let ask = |told: &Value| told["ask"].as_u64().unwrap();
    assert_eq!(told["askWithEntries"].as_u64().unwrap(), ask(&told) - 3);
    let two = home.forecast(&["--from", &file, "--entries", "2"]);
    assert_eq!(two["askWithEntries"].as_u64().unwrap(), ask(&two) - 5);
    assert_eq!(home.forecast(&["--from", &file, "--preset", "yolo"])["ask"], 0);
    assert_eq!(
        home.forecast(&["--from", &file, "--preset", "deny-all"])["deny"],
        9
    );

    let said = home.people(&["--from", &file]).stdout;
    assert_says(&said, &format!("you would have been asked {} times", ask(&told)));
    assert_says(&said, "entries would make it");
    assert_says(&said, "countersign allowlist add /usr/bin/seq --agent=main\n");
    assert_eq!(told["entries"][0]["trusted"], true);
    assert!(!said.contains("(1)"), "{said}");
    // No set lets this have any arguments.
    let file = home.commands("d.jsonl", &["touch a", "touch b"]);
    assert_eq!(home.forecast(&["--from", &file])["entries"][0]["trusted"], false);
    let said = home.people(&["--from", &file]).stdout;
    assert_says(
        &said,
        "countersign allowlist add /usr/bin/touch --agent=main   (1)",
    );
    assert_says(&said, "(1) no starter set trusts this program with any arguments");
}

#[test]
fn what_it_proposes_is_what_the_entries_then_do() {
    let home = Home::new();
    let file = home.commands("c.jsonl", &["seq 1", "id -u", "seq 2 | wc -l"]);
    let told = home.forecast(&["--from", &file]);
    let entries: Vec<Value> = told
        .list("entries")
        .iter()
        .map(|entry| json!({ "pattern": entry["pattern"] }))
        .collect();
    let document = json!({ "version": 1, "defaults": { "security": "allowlist", "ask": "on-miss", "askFallback": "deny" },
        "agents": { "main": { "allowlist": entries } } });
    write_file_mode(
        &home.scratch.join(".openclaw/exec-approvals.json"),
        document.to_string(),
        0o600,
    );
    let config =
        json!({ "tools": { "exec": { "host": "gateway", "security": "allowlist", "ask": "on-miss" } } });
    write_file_mode(
        &home.scratch.join(".openclaw/openclaw.json"),
        config.to_string(),
        0o600,
    );
    let now = home.forecast(&["--from", &file]);
    assert_has!(now, { "policy": "present", "ask": told["askWithEntries"], "run": 3 });
}

#[test]
fn hostile_transcripts_cost_little_and_leave_nothing() {
    let home = Home::new();
    let projects = home.scratch.dir(".claude/projects/p");
    let secret = home.scratch.join("secret.jsonl");
    let at = "2100-01-01T00:00:00.000Z";
    write_file(&secret, claude("x", "seq 9", &home.work(), at).to_string());
    symlink(&secret, projects.join("link.jsonl")).unwrap();
    symlink(home.scratch.path(), projects.join("loop")).unwrap();
    std::fs::create_dir(projects.join("directory.jsonl")).unwrap();
    write_file(
        &projects.join("odd.jsonl"),
        "[[[[[[\n{}\nnull\n\u{0}\n{\"message\": 5}\n",
    );
    // Far more nested than anything that is read.
    write_file(&projects.join("deep.jsonl"), "[".repeat(200_000));
    let mark = home.scratch.join("ran");
    let hostile = format!("touch {}", mark.display());
    let lines = [
        claude("h1", &hostile, &home.work(), at),
        claude("h2", "echo \u{1b}[2J; echo x", &home.work(), at),
        claude("h3", "seq 1", "/proc/self/root/no/such/directory", at),
        claude(
            "h4",
            "curl -H 'Authorization: Bearer abcdefghijklmnop0123456789'",
            &home.work(),
            at,
        ),
    ];
    home.write(".claude/projects/p/hostile.jsonl", &lines);
    let told = home.forecast(&["--from", "claude-code"]);
    assert_has!(told, { "commands": 4, "elsewhere": 1 });
    assert!(told["skipped"]["files"].as_u64() >= Some(1), "{told}");
    assert!(told["skipped"]["lines"].as_u64() >= Some(3), "{told}");
    assert!(!mark.exists(), "nothing runs");
    let said = home.people(&["--from", "claude-code"]);
    assert!(!said.stdout.contains('\u{1b}'), "{said:?}");
    assert!(!format!("{told}{said:?}").contains("abcdefghijklmnop0123456789"));
    // A file that is named has to be a file, and no link.
    for path in ["secret-link.jsonl", "work", "nothing"] {
        if path.contains("link") {
            symlink(&secret, home.scratch.join(path)).unwrap();
        }
        let place = home.scratch.join(path);
        let refused = home.people(&["--from", place.to_str().unwrap()]);
        assert_eq!(refused.code, Some(64), "{refused:?}");
        assert_says(&refused.stderr, "cannot be read as a transcript");
    }
}

#[tokio::test]
async fn no_server_is_asked_and_one_that_is_named_is_refused() {
    let home = Home::new();
    let file = home.commands("c.jsonl", &["seq 1"]);
    for (name, value) in [
        ("COUNTERSIGN_URL", "http://192.0.2.1:18790"),
        ("COUNTERSIGN_URL", "http://127.0.0.1:1"),
    ] {
        let refused = run_program(&home.invocation(&["--from", &file]).env(name, value));
        assert_eq!(refused.code, Some(64), "{refused:?}");
        assert_says(&refused.stderr, "asks no server");
    }
    let refused = home.people(&["--from", &file, "--url", "http://192.0.2.1:1"]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    // Beside a server it judges by the same files, and the server hears nothing of it.
    let server = TestServer::asking().start().await;
    let told = server
        .cli(&["policy", "forecast", "--from", &file, "--json"])
        .await;
    assert_eq!(told.code, Some(0), "{told:?}");
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_has!(told, { "policy": "present", "ask": 1 });
    assert_eq!(server.operator().read("/v1/runs").await.list("items").len(), 0);
    assert_eq!(server.operator().pending().await.len(), 0);
}

#[tokio::test]
async fn a_saved_forecast_is_shown_by_the_server_and_has_no_command() {
    let home = Home::new();
    let file = home.commands(
        "c.jsonl",
        &["seq 1", "seq 2 'of-nobody-else'", "no-such-program-here x"],
    );
    // Before there is a state directory nothing is made for it.
    let refused = home.people(&["--from", &file, "--save"]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert_says(&refused.stderr, "countersign init");
    assert!(!home.scratch.join(".openclaw").exists());

    let server = TestServer::asking().start().await;
    let nothing = async || {
        let saved = server.operator().read("/v1/policy/forecast").await;
        assert_eq!(saved, json!({}));
    };
    nothing().await;
    let forecast = async |arguments: &[&str]| {
        let arguments: Vec<&str> = ["policy", "forecast", "--from", &file]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        server.cli(&arguments).await
    };
    // Unless it is told to, it leaves nothing.
    assert_eq!(forecast(&[]).await.code, Some(0));
    nothing().await;
    let told = forecast(&["--save", "--json"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let saved = server.operator().read("/v1/policy/forecast").await;
    let saved = &saved["forecast"];
    for member in [
        "agentId",
        "policy",
        "sinceMs",
        "commands",
        "run",
        "ask",
        "deny",
        "starterSets",
    ] {
        assert_eq!(saved[member], told[member], "{member}");
    }
    assert_has!(saved, { "policy": "present", "commands": 3, "ask": 3, "deny": 0 });
    assert_eq!(
        saved["entries"],
        json!([{ "pattern": told["entries"][0]["pattern"], "saves": 2 }])
    );
    assert_eq!(saved["reasons"], json!([{ "why": "allowlist-miss", "count": 3 }]));
    let place = server.state().join("countersign/forecast.json");
    let text = std::fs::read_to_string(&place).unwrap();
    assert!(
        !text.contains("of-nobody-else") && !text.contains("no-such"),
        "{text}"
    );
    assert_eq!(
        std::fs::metadata(&place).unwrap().permissions().mode() & 0o777,
        0o600
    );

    // What is no forecast, or no file, is none.
    write_file(&place, "{");
    nothing().await;
    std::fs::remove_file(&place).unwrap();
    symlink(server.state().join("openclaw.json"), &place).unwrap();
    nothing().await;
    // Nor is it written through a link.
    let refused = forecast(&["--save"]).await;
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert_says(&refused.stderr, "cannot save the forecast");
}

#[tokio::test]
async fn init_offers_starter_sets_with_what_they_would_have_saved() {
    let home = Home::new();
    let (work, at) = (home.work(), "2100-01-01T00:00:00.000Z");
    let issued = ["wc -l x", "head x", "wc x", "touch x"];
    let issued: Vec<Value> = (1..)
        .zip(issued)
        .map(|(id, command)| claude(&format!("t{id}"), command, &work, at))
        .collect();
    home.write(".claude/projects/-work/s.jsonl", &issued);
    let invocation = countersign()
        .args(&["init"])
        .env("HOME", home.scratch.path())
        .env("SHELL", "/bin/sh")
        .env("PATH", "/usr/bin:/bin");
    let mut terminal = Terminal::start(invocation);
    terminal.sees("number or name [1]").await;
    terminal.press("\n");
    let asked = terminal.sees("separated by blanks [none]").await;
    assert_says(&asked, "would have asked you 4 times");
    let row = asked.lines().find(|line| line.contains("  4  files-read"));
    assert!(
        row.is_some_and(|row| row.trim_end().ends_with("saves 3")),
        "{asked}"
    );
    let since = terminal.text().len();
    terminal.press("4 nothing\n");
    terminal.sees_after(since, "there is no set nothing").await;
    terminal.sees_after(since, "separated by blanks [none]").await;
    terminal.press("4, search\n");
    assert_eq!(terminal.ended().await, Some(0), "{}", terminal.text());
    let document = home.document();
    let has = |program: &str| {
        let mut entries = document["agents"]["main"].list("allowlist").iter();
        entries.any(|entry| entry["pattern"] == program)
    };
    assert!(has("wc") && has("rg") && !has("touch"), "{document}");
}

#[test]
fn init_writes_the_entries_of_starter_sets() {
    let home = Home::new();
    let init = |arguments: &[&str]| {
        run_program(
            &countersign()
                .args(&["init"])
                .args(arguments)
                .env("HOME", home.scratch.path()),
        )
    };
    let refused = init(&["--preset", "yolo", "--set", "git-read"]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    let done = init(&["--preset", "cautious", "--set", "search,git-read,search"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let document = home.document();
    let entries = document["agents"]["main"].list("allowlist");
    let mut patterns: Vec<&Value> = entries.iter().map(|entry| &entry["pattern"]).collect();
    patterns.dedup();
    assert_eq!(patterns, ["git", "grep", "egrep", "fgrep", "rg", "find"]);
    // The same again changes nothing.
    let again = init(&["--preset", "cautious", "--set", "git-read,search"]);
    assert_eq!(again.code, Some(0), "{again:?}");
}
