//! Entries limit what their programs start from the call to the kernel, at the levels `same-user` and `confined`.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    confined,
    support::{Members, ServerBuilder, TestServer, program, skip, write_file_mode},
};

/// A call in a fresh directory, and whether it left its marker there.
async fn run(server: &TestServer, directory: &Path, argv: &[&str]) -> (Value, bool) {
    let marker = directory.join("marker");
    let call = json!({ "argv": argv, "workdir": directory, "yieldMs": 120_000, "timeout": 60 });
    let run = server.ran(call).await;
    let is_marked = marker.exists();
    if is_marked {
        fs::remove_file(&marker).unwrap();
    }
    (run, is_marked)
}

fn entry(pattern: &str, starts: Option<Value>) -> Value {
    match starts {
        None => json!([{ "pattern": pattern }]),
        Some(starts) => json!([{ "pattern": pattern, "confine": { "starts": starts } }]),
    }
}

const FIND: &[&str] = &["find", ".", "-maxdepth", "0", "-exec", "touch", "marker", ";"];
const ALIAS: &[&str] = &["git", "-c", "alias.x=!touch marker", "x"];
const AWK: &[&str] = &["awk", "BEGIN { exit system(\"touch marker\") }"];

/// Whether a command left its marker, under an entry with these `starts`. The rule about arguments (D1) is off: what the
/// kernel keeps does not depend on it.
async fn marks(
    (builder, give): (ServerBuilder, fn(&Path)),
    pattern: &str,
    starts: Value,
    argv: &[&str],
) -> (Value, bool) {
    let server = builder
        .toml("[policy]\ndelegation_table = false\n")
        .allowlist(&entry(pattern, Some(starts)))
        .start()
        .await;
    let directory = server.scratch().dir("starts");
    give(&server.scratch().path());
    let (ran, is_marked) = run(&server, &directory, argv).await;
    let shown = server
        .operator()
        .read(&format!("/v1/runs/{}", ran.text("runId")))
        .await;
    assert!(shown.text("confined").contains("may start"), "{shown}");
    (ran, is_marked)
}

async fn only_what_is_listed_starts(builder: impl Fn() -> ServerBuilder, give: fn(&Path)) {
    for (pattern, argv, enough) in [
        ("/**/find", FIND, json!(["touch"])),
        ("/**/git", ALIAS, json!(["judged", "sh", "touch"])),
        ("awk", AWK, json!(["sh", "touch"])),
    ] {
        let (refused, is_marked) = marks((builder(), give), pattern, json!([]), argv).await;
        assert!(!is_marked, "{refused}");
        let (ran, is_marked) = marks((builder(), give), pattern, enough, argv).await;
        assert!(is_marked, "{ran}");
        // The control: without the kernel the same entry lets it.
        let off = builder().env("COUNTERSIGN_TEST_PROTECTION_OFF", "starts");
        let (ran, is_marked) = marks((off, give), pattern, json!([]), argv).await;
        assert!(is_marked, "{ran}");
    }
}

#[tokio::test]
async fn as_the_same_user_only_what_is_listed_starts() {
    if program("awk").is_none() {
        return skip("there is no awk");
    }
    only_what_is_listed_starts(TestServer::allowlist_only, |_directory| ()).await;
}

#[tokio::test]
async fn confined_only_what_is_listed_starts() {
    or_skip!(confined::possible());
    if program("awk").is_none() {
        return skip("there is no awk");
    }
    let builder =
        || confined::builder().exec(&json!({ "host": "gateway", "security": "allowlist", "ask": "off" }));
    only_what_is_listed_starts(builder, confined::give).await;
}

/// A bare entry for a program of the system holds it to what it is known to start. What it may not start is named, with
/// the entry that would let it.
#[tokio::test]
async fn a_bare_entry_keeps_git_from_a_hook_and_says_what_would_let_it() {
    let bare = TestServer::allowlist_only()
        .allowlist(&entry("git", None))
        .start()
        .await;
    let directory = bare.scratch().dir("hooks");
    let commit = [
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "--allow-empty",
        "-m",
        "x",
    ];
    let (made, _) = run(&bare, &directory, &["git", "init", "--quiet"]).await;
    assert_eq!(made["exitCode"], 0, "{made}");
    let (first, _) = run(&bare, &directory, &commit).await;
    assert_eq!(first["exitCode"], 0, "{first}");

    let hook = directory.join(".git/hooks/pre-commit");
    write_file_mode(&hook, "#!/bin/sh\n: > marker\n", 0o755);
    let (refused, is_marked) = run(&bare, &directory, &commit).await;
    assert!(!is_marked && refused["exitCode"] != 0, "{refused}");
    let mut warnings = refused.list("warnings").iter();
    let warning = warnings.find(|warning| warning["code"] == "child-refused");
    let message = warning.unwrap_or_else(|| panic!("{refused}")).text("message");
    let hint = format!(
        "countersign allowlist add git --starts judged,{} --agent main",
        hook.display()
    );
    assert!(message.contains(&hint), "{message}");

    // Of a program for another repository git names the repository, which is none.
    let (fetched, _) = run(&bare, &directory, &["git", "fetch", "../hooks"]).await;
    let mut warnings = fetched.list("warnings").iter();
    let warning = warnings.find(|warning| warning["code"] == "child-refused");
    let message = warning.unwrap_or_else(|| panic!("{fetched}")).text("message");
    assert!(
        message.contains("a program was refused") && !message.contains("--starts"),
        "{message}"
    );

    let (log, _) = run(&bare, &directory, &["git", "log", "--oneline"]).await;
    assert_eq!(log["exitCode"], 0, "{log}");
    let listed = entry("git", Some(json!(["judged", hook])));
    let server = TestServer::allowlist_only().allowlist(&listed).start().await;
    let (ran, is_marked) = run(&server, &directory, &commit).await;
    assert!(is_marked && ran["exitCode"] == 0, "{ran}");
}
