//! The command line tells about itself: every command shows an example, the examples run as they stand, data comes as
//! JSON, scripts for shells complete, manual pages render.

use std::{fs, path::Path};

use countersign_sys::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::nodes;
use crate::support::{
    Finished, Invocation, Members, Scratch, ServerBuilder, TestServer, countersign, eventually,
    inherited_path, program, run_program, skip, write_file_mode,
};

/// Commands that stay until they are stopped, or need a terminal or much time; they have tests of their own.
const STAYS: &[&str] = &[
    "serve",
    "check-gateway",
    "demo",
    "events --follow",
    "exec --pty",
    "approvals watch",
    "approver",
    "status --watch",
    "mcp",
    "hook",
    "runner",
    "node run",
    "process poll brave-otter-417 --timeout",
    "process log brave-otter-417 --follow",
    "apply-patch change.patch",
];

/// Examples that rightly end with another exit code than 0.
const ENDS_WITH: &[(&str, i32)] = &[
    // Somebody is asked.
    ("countersign exec --no-wait", 75),
    ("countersign apply-patch --no-wait", 75),
    // Commands have the server's rights here, which is an error finding.
    ("countersign doctor", 1),
    ("countersign security audit", 1),
    // The question needs a terminal.
    ("countersign init", 64),
    ("countersign init --preset", 0),
    // There is no node here.
    ("countersign node status", 1),
    // The server runs, and its record is whole.
    ("countersign audit reset", 1),
    // The session here has no terminal.
    ("countersign process resize", 64),
    // The operator's token opens what it should.
    ("countersign token recover", 64),
];

/// Examples after which the next would find something else.
const CHANGES: &[&str] = &[
    "resolve",
    "cancel",
    "remove",
    "revoke",
    "set",
    "unset",
    "preset",
    "init",
    "--fix",
    "kill",
    "clear",
    "--eof",
    "approve",
    "deny",
    "reject",
    "rename",
    "mute",
    "unmute",
    "reset",
    "rotate",
    "stop",
    "take-back",
];

/// Commands whose data is no JSON (bytes of a run, a script), or that are refused while a server runs.
const OTHER_DATA: &[&str] = &["runs output", "completions", "audit reset"];

/// Above lists of commands: those of the first help are in groups.
const HEADINGS: &[&str] = &[
    "Commands:",
    "Ask:",
    "Answer:",
    "Policy:",
    "Look:",
    "Operate:",
    "Agents and tools:",
];

/// A command as its help tells of it.
struct CommandHelp {
    /// Its words after `countersign`.
    words: Vec<String>,
    help: String,
}

/// All commands, from their help alone.
fn commands() -> Vec<CommandHelp> {
    let mut found = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let done = run_program(&countersign().args(&words).args(&["--help"]));
        assert_eq!(done.code, Some(0), "{words:?}: {done:?}");
        for name in HEADINGS.iter().flat_map(|title| section(&done.stdout, title)) {
            let name = name.split_whitespace().next().expect("a name").to_owned();
            let mut below = words.clone();
            below.push(name);
            open.push(below);
        }
        found.push(CommandHelp {
            words,
            help: done.stdout,
        });
    }
    found
}

/// The entries of a section of a help text: lines with two spaces before them.
fn section(help: &str, title: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != title).skip(1);
    let inside = lines.take_while(|line| line.starts_with("  "));
    inside
        .filter(|line| !line.starts_with("    "))
        .map(|line| line.trim().to_owned())
        .collect()
}

/// A server with everything that examples name, and a home where they run.
struct Stage {
    server: TestServer,
    /// Stand-ins of the examples and the real words.
    names: Vec<(&'static str, String)>,
    /// Stand-ins of programs that examples run.
    #[expect(dead_code, reason = "the folder lives as long as this")]
    programs: Scratch,
}

impl Stage {
    async fn set() -> Self {
        let programs = Scratch::new();
        for name in ["git", "cargo", "make"] {
            let script = "#!/bin/sh\necho done\nif [ \"$1\" = blame ]; then exec cat; fi\n";
            write_file_mode(&programs.join(name), script, 0o755);
        }
        let mut server = builder(&programs.path()).start().await;
        let home = server.scratch().join("home");
        write_file_mode(&home.join("bin/deploy"), "#!/bin/sh\n", 0o755);
        let case = json!({ "command": "git status", "expect": "allow" });
        write_file_mode(&home.join("cases.jsonl"), case.to_string(), 0o644);
        let case = "- command: git status\n  expect: allow\n";
        write_file_mode(&home.join("cases.yaml"), case, 0o644);
        let candidate = json!({ "version": 1 });
        write_file_mode(&home.join("candidate.json"), candidate.to_string(), 0o644);
        let candidate = json!({ "tools": { "exec": { "host": "gateway", "security": "deny" } } });
        write_file_mode(
            &home.join("candidate-openclaw.json"),
            candidate.to_string(),
            0o644,
        );
        let patch = "*** Begin Patch\n*** Add File: example\n+x\n*** End Patch\n";
        write_file_mode(&home.join("change.patch"), patch, 0o644);
        let asked = server.accepted(json!({ "argv": ["/bin/date"] })).await;
        let other = server.accepted(json!({ "argv": ["/bin/date"] })).await;
        let operator = server.operator();
        let taken = server.accepted(json!({ "argv": ["/bin/uname"] })).await;
        operator.decided(taken.text("approvalId"), "allow-once").await;
        let text = |value: &Value, member: &str| value[member].as_str().expect(member).to_owned();
        let entry = json!({ "pattern": "/opt/example" });
        let entry = operator.made("/v1/agents/main/allowlist", entry).await;
        let rule = json!({ "pattern": "example" });
        let rule = operator.made("/v1/agents/*/denylist", rule).await;
        // It waits for the operator, who is another owner than bob.
        let bob = server.token_of("bob", &["admin"]).await;
        let token = json!({ "name": "example", "scopes": ["read"], "owner": "operator" });
        let token = bob.made("/v1/tokens", token).await;
        let until = SystemClock.now().get() + 3_600_000;
        // Only an agent that is known can be muted.
        let known = json!({ "pattern": "/opt/noisy" });
        operator.made("/v1/agents/noisy/allowlist", known).await;
        let mute = operator.request(reqwest::Method::PUT, "/v1/agents/noisy/mute");
        operator
            .send(mute.json(&json!({ "untilMs": until })))
            .await
            .expect(200);
        let link = operator.made("/v1/login-links", json!({ "name": "ann" })).await;
        let (_, code) = link.text("url").split_once("#code=").expect("a code");
        let signed_in = server
            .anonymous()
            .post("/auth/login", json!({ "code": code }))
            .await;
        signed_in.expect(200);
        let browsers = operator.read("/v1/sign-ins").await;
        for file in ["answers.txt", "text.txt"] {
            write_file_mode(&home.join(file), "yes\n", 0o644);
        }
        let (held, pid) = session(&server, &["git", "blame"], "running").await;
        let (past, _) = session(&server, &["git", "status"], "completed").await;
        server.keep(pid);
        drop(nodes::paired(&server, "build-box", nodes::ONLY_RUN).await);
        let asked_in = nodes::knock(&server, "stranger", nodes::ONLY_RUN).await;
        let names = vec![
            ("brave-otter-417", held),
            ("calm-heron-52", past),
            ("RUN", text(&asked, "runId")),
            ("1a2b3c4d", text(&asked, "approvalSlug")),
            ("5e6f7a8b", text(&other, "approvalSlug")),
            ("7d8e9f0a", text(&taken, "approvalSlug")),
            ("ENTRY", text(&entry, "id")),
            ("3f2a9c14", text(&rule, "id")),
            ("TOKEN", text(&token, "id")),
            ("BROWSER", text(&browsers["items"][0], "id")),
            ("4f1c9a52", asked_in.request),
        ];
        Self {
            server,
            names,
            programs,
        }
    }

    async fn run(&self, example: &str) -> Finished {
        let binary = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let folder = binary.parent().expect("a folder").display().to_string();
        let scratch = self.server.scratch();
        let words = example.split(' ').map(|word| {
            let known = self.names.iter().find(|(name, _)| *name == word);
            known.map_or(word, |(_, real)| real)
        });
        let line = words.collect::<Vec<_>>().join(" ");
        let line = line.replace("/srv/agent", &scratch.join("srv").display().to_string());
        // What begins anew does so in a place of its own.
        let state = if line.starts_with("countersign init") {
            scratch.join("anew")
        } else {
            self.server.state().to_owned()
        };
        let invocation = Invocation::new("/bin/sh")
            .args(&["-c", &line])
            .cwd(&scratch.join("home"))
            .env("PATH", format!("{folder}:{}", inherited_path()))
            .env("HOME", scratch.join("home"))
            .env("SHELL", "/bin/sh")
            .env("OPENCLAW_STATE_DIR", state);
        TestServer::finish(invocation).await
    }
}

/// A process session that stands like this, and its process.
async fn session(server: &TestServer, argv: &[&str], status: &str) -> (String, i32) {
    let api = server.agent();
    let body = json!({ "argv": argv, "background": true });
    let run = api.exec(body).await.json().text("runId").to_owned();
    let started = eventually("in its state", || api.run(&run), |run| run["status"] == status).await;
    let pid = started["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let id = started.text("sessionId").to_owned();
    (id, pid.expect("a process"))
}

/// Git and cargo run without asking; everything else asks.
fn builder(programs: &Path) -> ServerBuilder {
    let list: Vec<Value> = ["git", "cargo"]
        .iter()
        .map(|name| json!({ "pattern": programs.join(name), "input": true }))
        .collect();
    let exec = json!({
        "host": "gateway", "security": "allowlist", "ask": "on-miss", "pathPrepend": [programs],
    });
    let held = "[[approvals.rules]]\npatterns = [\"uname\"]\nstart_delay_ms = 600000\n";
    TestServer::asking_with(held).exec(&exec).agents(&json!({
        "main": { "allowlist": list }, "build": { "allowlist": list },
    }))
}

/// The examples of all commands, each once.
fn examples() -> Vec<String> {
    let mut all: Vec<String> = commands()
        .iter()
        .flat_map(|told| section(&told.help, "Examples:"))
        .map(|line| line.split("  #").next().expect("a part").trim().to_owned())
        .filter(|line| !STAYS.iter().any(|stays| line.contains(&format!(" {stays}"))))
        .collect();
    all.sort();
    all.dedup();
    all
}

fn contains_word(line: &str, words: &[&str]) -> bool {
    line.split(' ').any(|word| words.contains(&word))
}

#[test]
fn every_command_shows_an_example() {
    let commands = commands();
    assert!(commands.len() > 40, "{}", commands.len());
    for told in &commands {
        let shown = section(&told.help, "Examples:");
        let is_about = |line: &String| told.words.iter().all(|word| contains_word(line, &[word]));
        assert!(
            shown.iter().any(is_about),
            "no example of `countersign {}` in its help: {shown:?}",
            told.words.join(" ")
        );
    }
}

#[tokio::test]
async fn examples_run_as_they_stand() {
    let mut stage = Stage::set().await;
    let mut failed = Vec::new();
    let examples = examples();
    for example in &examples {
        if example.starts_with("man ") && program("man").is_none() {
            skip("man is not installed");
            continue;
        }
        // It reads what an example of another command wrote.
        let line = if example.starts_with("man ") {
            format!("countersign man man1 > /dev/null && {example}")
        } else {
            example.clone()
        };
        let done = stage.run(&line).await;
        let wanted = ENDS_WITH.iter().rfind(|(start, _)| example.starts_with(start));
        let wanted = wanted.map_or(0, |(_, code)| *code);
        if done.code != Some(wanted) {
            failed.push(format!("{example}: wanted {wanted}, got {done:?}"));
        }
        if contains_word(example, CHANGES) {
            stage = Stage::set().await;
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} fail: {failed:#?}",
        failed.len(),
        examples.len()
    );
    assert!(examples.len() > 50, "{examples:#?}");
}

#[tokio::test]
async fn data_comes_as_json_where_it_is_asked_for() {
    let mut stage = Stage::set().await;
    for example in examples() {
        let is_plain = !example.contains(['|', '>']) && example.starts_with("countersign ");
        if !is_plain || OTHER_DATA.iter().any(|other| example.contains(other)) {
            continue;
        }
        let line = example.replacen("countersign ", "countersign --json ", 1);
        let done = stage.run(&line).await;
        let lines: Vec<&str> = done.stdout.lines().collect();
        let is_document = serde_json::from_str::<Value>(&done.stdout).is_ok();
        let is_lines = lines
            .iter()
            .all(|line| serde_json::from_str::<Value>(line).is_ok());
        assert!(is_document || is_lines, "{line}: {done:#?}");
        // Nothing on standard output is no data: only a refusal, or a stream without events, has none.
        let has_none = done.code == Some(64) || line.contains(" events");
        assert!(!lines.is_empty() || has_none, "{line}: {done:#?}");
        if contains_word(&example, CHANGES) {
            stage = Stage::set().await;
        }
    }
}

#[test]
fn a_wrong_call_of_any_command_is_one_line_and_a_hint() {
    for told in commands() {
        let done = run_program(&countersign().args(&told.words).args(&["--no-such-flag"]));
        let lines: Vec<&str> = done.stderr.lines().collect();
        // Whoever starts a hook takes any other failure for a yes.
        let usage = if told.words.first().is_some_and(|word| word == "hook") {
            2
        } else {
            64
        };
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(usage), ""),
            "{:?}: {done:?}",
            told.words
        );
        assert!(
            lines.len() == 2 && lines[0].starts_with("error[usage]: ") && lines[1].starts_with("hint: "),
            "{:?}: {done:?}",
            told.words
        );
    }
}

#[test]
fn help_before_a_command_is_the_same_as_behind_it() {
    for words in [&[][..], &["exec"], &["policy", "test"]] {
        let before = run_program(&countersign().args(&["help"]).args(words));
        let behind = run_program(&countersign().args(words).args(&["--help"]));
        assert_eq!(
            (before.code, before.stdout),
            (Some(0), behind.stdout),
            "{words:?}"
        );
    }
    let unknown = run_program(&countersign().args(&["help", "policy", "tset"]));
    assert_eq!(
        (unknown.code, unknown.stderr.as_str()),
        (
            Some(64),
            "error[usage]: no such command: policy tset\nhint: countersign --help\n"
        )
    );
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let binary = env!("CARGO_BIN_EXE_countersign");
    for arguments in ["openapi", "completions bash", "completions zsh", "exec --help"] {
        let line = format!("{binary} {arguments} | true; {binary} {arguments} | head -c 1");
        let done = run_program(&Invocation::new("/bin/sh").args(&["-c", &line]));
        assert_eq!(done.stderr, "", "{arguments}");
    }
}

/// What bash offers for a line that ends where the cursor is.
fn completed_by_bash(script: &Path, words: &[&str]) -> Vec<String> {
    let line = format!(
        "source {}; COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9; _clap_complete_countersign countersign {} {}; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.join(" "),
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2],
    );
    // The script starts the program by its name.
    let folder = Path::new(env!("CARGO_BIN_EXE_countersign"))
        .parent()
        .expect("a folder");
    let bash = Invocation::new("bash").args(&["--norc", "--noprofile", "-c", &line]);
    let done = run_program(&bash.env("PATH", format!("{}:/usr/bin:/bin", folder.display())));
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    let offered = done.stdout.lines();
    offered.map(|word| word.trim_end().to_owned()).collect()
}

#[test]
fn bash_completes_the_words_that_an_option_takes() {
    let scratch = Scratch::new();
    let script = scratch.join("countersign.bash");
    let printed = run_program(&countersign().args(&["completions", "bash"]));
    write_file_mode(&script, printed.stdout, 0o644);
    for (words, offered) in [
        (
            &["exec", "--security", "''"][..],
            &["deny", "allowlist", "full"][..],
        ),
        (&["exec", "--ask", "o"], &["off", "on-miss"]),
        (&["exec", "--host", "''"], &["auto", "sandbox", "gateway", "node"]),
        (&["runs", "list", "--status", "d"], &["denied"]),
        (&["approvals", "list", "--status", "e"], &["expired"]),
        (&["runs", "output", "x", "--stream", "std"], &["stdout", "stderr"]),
        (&["policy", "preset", "y"], &["yolo"]),
        (
            &["policy", "set", "--ask-fallback", "''"],
            &["deny", "allowlist", "full", "inherit"],
        ),
        (
            &["policy", "set", "--auto-allow-skills", "''"],
            &["true", "false", "inherit"],
        ),
        (&["init", "--preset", "c"], &["cautious"]),
        (&["node", "run", "--policy", "y"], &["yolo"]),
        (
            &["approvals", "resolve", "1a2b3c4d", "allow"],
            &["allow-once", "allow-always"],
        ),
        (&["audit", "list", "--action", "token.c"], &["token.created"]),
        (&["events", "--types", "exec.f"], &["exec.finished"]),
    ] {
        let words = [&["countersign"], words].concat();
        let found = completed_by_bash(&script, &words);
        assert_eq!(found, offered, "{words:?}");
    }
}

#[test]
fn bash_completes_commands_and_flags() {
    let scratch = Scratch::new();
    let script = scratch.join("countersign.bash");
    let printed = run_program(&countersign().args(&["completions", "bash"]));
    write_file_mode(&script, printed.stdout, 0o644);
    assert_eq!(completed_by_bash(&script, &["countersign", "exe"]), ["exec"]);
    assert_eq!(
        completed_by_bash(&script, &["countersign", "approvals", "res"]),
        ["resolve"]
    );
    assert!(completed_by_bash(&script, &["countersign", "exec", "--wor"]).contains(&"--workdir".to_owned()));
}

#[test]
fn other_shells_can_read_their_scripts() {
    let scratch = Scratch::new();
    for (shell, check) in [
        ("zsh", "-n"),
        ("fish", "--no-execute"),
        ("elvish", ""),
        ("powershell", ""),
    ] {
        let printed = run_program(&countersign().args(&["completions", shell]));
        assert_eq!(printed.code, Some(0), "{printed:?}");
        assert!(
            printed.stdout.contains("COUNTERSIGN_COMPLETE") && printed.stderr.is_empty(),
            "{shell}"
        );
        match program(shell) {
            Some(shell) if !check.is_empty() => {
                let script = scratch.join("script");
                write_file_mode(&script, &printed.stdout, 0o644);
                let done = run_program(&Invocation::new(shell).args(&[check]).arg(&script));
                assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
            }
            Some(_) | None => {}
        }
    }
}

#[test]
fn every_command_has_a_manual_page_that_renders() {
    let scratch = Scratch::new();
    let folder = scratch.join("pages/man1");
    let done = run_program(&countersign().args(&["man"]).arg(&folder));
    assert_eq!(done.code, Some(0), "{done:?}");
    let odd = run_program(&countersign().args(&["man"]).arg(scratch.join("a\n\u{1b}[31mx")));
    assert_eq!(odd.stdout.lines().count(), done.stdout.lines().count(), "{odd:?}");
    assert!(!odd.stdout.contains('\u{1b}'), "{odd:?}");
    for told in commands() {
        let name = std::iter::once("countersign").chain(told.words.iter().map(String::as_str));
        let page = folder.join(format!("{}.1", name.collect::<Vec<_>>().join("-")));
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(
            text.contains(".SH NAME") && text.contains("Examples:"),
            "{}",
            page.display()
        );
    }
    let Some(man) = program("man") else {
        return skip("man is not installed");
    };
    let page = folder.join("countersign-approvals-resolve.1");
    let shown = run_program(
        &Invocation::new(man)
            .args(&["-l"])
            .arg(&page)
            .env("MANWIDTH", "80"),
    );
    assert_eq!(shown.code, Some(0), "{shown:?}");
    shown.says("SYNOPSIS");
    shown.says("--reason");
}

/// What no reader of English should stumble over.
const STUMBLES: [&str; 15] = [
    "whole",
    "is meant",
    "are meant",
    "was meant",
    "be meant",
    "mend",
    "mends",
    "mended",
    "what holds",
    "whoever",
    "left away",
    "somebody",
    "besides",
    "wants in",
    "want in",
];

#[test]
fn help_and_documentation_are_in_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts: Vec<(String, String)> = commands()
        .into_iter()
        .map(|told| (format!("countersign {} --help", told.words.join(" ")), told.help))
        .collect();
    let documents = fs::read_dir(root.join("docs")).expect("the documentation");
    let documents = documents.map(|entry| entry.expect("a file").path());
    let documents = documents.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    for path in documents.chain([root.join("README.md")]) {
        let text = fs::read_to_string(&path).expect("a text");
        texts.push((path.display().to_string(), text));
    }
    assert!(texts.len() > 100, "{}", texts.len());
    let mut found = Vec::new();
    for (place, text) in &texts {
        // Names of tests and code are not prose.
        let prose: String = text
            .split('`')
            .step_by(2)
            .collect::<Vec<_>>()
            .join(" ")
            .to_lowercase();
        let words: Vec<&str> = prose
            .split(|character: char| !character.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let spaced = format!(" {} ", words.join(" "));
        for stumble in STUMBLES {
            if spaced.contains(&format!(" {stumble} ")) {
                found.push(format!("{place}: {stumble}"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Words of hints that stand for something, and what they may stand for.
const STANDS_FOR: [&str; 6] = [
    "00000000",
    "cautious",
    "deny",
    "text",
    "/usr/bin/git",
    "allowlist",
];

/// Whether a command of a hint is one that this program takes.
fn is_taken(command: &str) -> bool {
    let is_placeholder = |word: &str| {
        word.contains('{')
            || (word.len() > 1
                && word
                    .bytes()
                    .all(|byte| matches!(byte, b'A'..=b'Z' | b'-' | b'\''))
                && word != "--")
    };
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let places = words.iter().filter(|word| is_placeholder(word)).count();
    // A few words stand for little: every combination is tried.
    (0..STANDS_FOR.len().pow(u32::try_from(places).expect("few"))).any(|mut choice| {
        let words: Vec<String> = words
            .iter()
            .map(|word| {
                if !is_placeholder(word) {
                    return word.trim_matches('\'').to_owned();
                }
                let sample = STANDS_FOR[choice % STANDS_FOR.len()];
                choice /= STANDS_FOR.len();
                sample.to_owned()
            })
            .collect();
        // Help that is asked for is shown, which clap tells as it tells an error.
        words.iter().any(|word| word == "--help") || countersign::cli::expect_usage(&words).is_ok()
    })
}

/// The hints that stand in the sources of the command line, as text.
fn hints() -> Vec<(String, String)> {
    let said = regex::Regex::new(r#"\bhint\(\s*&?\s*(?:format!\(\s*)?"((?:[^"\\]|\\.)*)""#);
    let said = said.expect("an expression");
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli")];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let below = fs::read_dir(&path).expect("a folder");
            open.extend(below.map(|entry| entry.expect("a file").path()));
            continue;
        }
        let source = fs::read_to_string(&path).expect("a source");
        let source = source.split("#[cfg(test)]").next().expect("a part");
        for hint in said.captures_iter(source) {
            found.push((path.display().to_string(), hint[1].replace("\\\"", "\"")));
        }
    }
    found
}

/// A hint is a command, perhaps with a note in brackets behind it.
#[test]
fn every_hint_is_a_command_that_the_program_takes() {
    let hints = hints();
    assert!(hints.len() > 50, "{}", hints.len());
    let mut wrong = Vec::new();
    let goes_on = regex::Regex::new(r"\\\n\s*").expect("an expression");
    for (place, hint) in &hints {
        // A line of the source that goes on in the next is one line.
        let hint = goes_on.replace_all(hint, "");
        let command = hint.split("   (").next().expect("a part");
        let words = command.strip_prefix("sudo ").unwrap_or(command);
        let of_others = ["systemctl ", "timedatectl ", "chmod "];
        if of_others.iter().any(|other| words.starts_with(other)) {
            continue;
        }
        // A pipe ends a command of ours.
        let ours = words.split(" | ").next().expect("a part");
        if ours == "{list} --wide" {
            continue;
        }
        if !ours.starts_with("countersign ") || !is_taken(ours) {
            wrong.push(format!("{place}: {hint}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
