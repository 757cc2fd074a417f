//! Redirections that are read (G11) do what `bash`, `dash` and `zsh` do with them, and no others are read.

use std::path::Path;

use serde_json::json;

use super::{
    asked_about, everything_covered,
    lists::{by_plan, by_shell},
    shells,
};
use crate::support::{Members, ServerBuilder, TestServer, write_file_mode};

/// Says something on both outputs, and what it is given.
const TELL: &str = "#!/bin/sh\necho out $1\necho err $1 >&2\nif read -r line; then echo \"in $line\"; else echo end; fi\nexit ${1:-0}\n";

/// Each in the forms that differ for a reader.
const READ: [&str; 12] = [
    "</dev/null",
    "0< /dev/null",
    ">/dev/null",
    "> /dev/null",
    "1>>/dev/null",
    "2>/dev/null",
    "2>>\t/dev/null",
    "2> /dev/null",
    "2>&1",
    ">&2",
    "1>&2",
    "1>/dev/null",
];

fn reading() -> ServerBuilder {
    ServerBuilder::new(&json!({
        "host": "gateway", "security": "allowlist", "ask": "off", "reads": { "nullRedirections": true },
    }))
}

/// The descriptor that a redirection changes.
fn descriptor(redirection: &str) -> char {
    match redirection.chars().next() {
        Some('<') => '0',
        Some('>') => '1',
        number => number.expect("a redirection"),
    }
}

fn texts() -> Vec<String> {
    let mut redirected = Vec::new();
    for first in READ {
        redirected.push(first.to_owned());
        for second in READ
            .into_iter()
            .filter(|second| descriptor(second) != descriptor(first))
        {
            redirected.push(format!("{first} {second}"));
            for third in ["</dev/null", ">/dev/null", "2>/dev/null", "2>&1", ">&2"] {
                if ![first, second]
                    .iter()
                    .any(|other| descriptor(other) == descriptor(third))
                {
                    redirected.push(format!("{first} {second} {third}"));
                }
            }
        }
    }
    let alone = redirected
        .iter()
        .map(|redirected| format!("./tell 3 {redirected}"));
    let lists = [
        "./tell 2>&1 | ./tell 2>/dev/null",
        "echo x | ./tell 2>&1 | cat",
        "./tell 1 >/dev/null 2>&1 || ./tell 2>/dev/null; echo $",
        "./tell 2>/dev/null 4 && echo yes || echo no 2>&1",
        "echo a >&2; echo b 2>&1; echo c >/dev/null",
        "sh -c './tell 2>&1 >/dev/null' | cat",
        "echo x | ./tell 2>/dev/null | wc -l 2>&1",
        "cd . && ./tell 2>&1 >/dev/null",
    ];
    alone.chain(lists.map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_redirection_does_what_shells_do_with_it() {
    let Some(shells) = shells() else { return };
    let server = reading().document(&everything_covered()).start().await;
    let directory = server.scratch().dir("redirections");
    write_file_mode(&directory.join("tell"), TELL, 0o755);
    let texts = texts();
    assert!(texts.len() > 200, "{}", texts.len());
    for text in &texts {
        let planned = by_plan(&server, text, &directory).await;
        for shell in shells {
            assert_eq!(planned, by_shell(shell, text, &directory), "{shell}: {text}");
        }
    }
}

#[tokio::test]
async fn what_reads_otherwise_is_asked_about_and_so_is_all_without_the_setting() {
    let document =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/**/touch" }] } } });
    let server = reading().document(&document).start().await;
    let untouched = TestServer::allowlist_only().document(&document).start().await;
    let directory = server.scratch().dir("other");
    let marker = directory.join("marker");
    for (at, text) in [
        "touch a >marker",
        "touch a >>marker",
        "touch a 2>marker",
        "touch a &>/dev/null",
        "touch a >&/dev/null",
        "touch a >/dev/null2",
        "touch a >/dev/null/../../{marker}",
        "touch a 2>&1-",
        "touch a 3>&1",
        "touch a 2>&3",
        "touch a 2>/dev/null >/dev/null >marker",
        "touch a 2>/dev/null <marker",
        "touch a 2>\"/dev/null\"",
        "touch a 2>$X",
        "touch a 2>/dev/null <<E\nx\nE",
        "touch a 2>/dev/null & touch marker",
        "touch a >/dev/null | touch b",
        "touch a | touch b </dev/null",
        ">/dev/null touch a",
        "touch a2>/dev/null",
        "touch {a}>/dev/null",
    ]
    .iter()
    .enumerate()
    {
        let text = text.replace("{marker}", &marker.display().to_string());
        let answer = server
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" }, "{at}: {text}");
        assert!(!marker.exists(), "{text}");
    }
    for text in ["touch a 2>/dev/null", "touch a 2>&1", "sh -c 'touch a 2>&1'"] {
        is_run(&server, text, &directory).await;
        let answer = untouched
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" }, "{text}");
    }
}

async fn is_run(server: &TestServer, text: &str, directory: &Path) {
    let run = server.ran(json!({ "command": text, "workdir": directory })).await;
    assert_eq!(run["exitCode"], 0, "{text}: {run}");
}

/// What is shown and bound says where the output goes: another redirection is another command.
#[tokio::test]
async fn a_question_is_about_its_redirections_too() {
    let server = ServerBuilder::new(&json!({
        "host": "gateway", "security": "allowlist", "ask": "on-miss", "reads": { "nullRedirections": true },
    }))
    .toml("[approvals]\nalways_reachable = true\n")
    .start()
    .await;
    let mut digests = Vec::new();
    for text in [
        "uname -a",
        "uname -a 2>/dev/null",
        "uname -a 2>&1",
        "uname -a 2>&1 >/dev/null",
    ] {
        let (asked, digest) = asked_about(&server, text).await;
        digests.push(digest);
        let run = server.answered(&asked, "allow-once").await;
        assert_has!(run, { "status": "completed", "stderr": "" }, "{text}");
        assert_eq!(
            run.text("stdout").is_empty(),
            text.contains(">/dev/null") && !text.contains("2>/"),
            "{run}"
        );
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 4);
}

/// A command keeps its terminal, whatever of it is redirected.
#[tokio::test]
async fn a_terminal_stays_that_of_the_command() {
    let document =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "*", "input": true }] } } });
    let server = reading().document(&document).start().await;
    for text in [
        "./controls",
        "./controls 2>/dev/null",
        "./controls </dev/null",
        "./controls >/dev/null 2>&1",
    ] {
        let directory = server.scratch().dir("terminal");
        let script = "#!/bin/sh\n: >/dev/tty && echo has one >kept\n";
        write_file_mode(&directory.join("controls"), script, 0o755);
        let run = server
            .ran(json!({ "command": text, "workdir": directory, "pty": true }))
            .await;
        assert_eq!(run["exitCode"], 0, "{text}: {run}");
        let kept = directory.join("kept");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "has one\n", "{text}");
        std::fs::remove_file(&kept).unwrap();
    }
}
