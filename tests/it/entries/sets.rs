//! Starter sets: what runs without a question with one of them, and what does not.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use crate::support::{Members, TestServer, inherited_path, write_file_mode};

const SETS: &[&str] = &[
    "docker-read",
    "files-read",
    "git-read",
    "go",
    "make",
    "node",
    "python",
    "rust",
    "search",
];

/// The cases of each set, and those of all sets together: a command, and whether it runs without a question.
fn cases() -> BTreeMap<String, Vec<(String, bool)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/entries/sets.txt");
    let text = fs::read_to_string(path).unwrap();
    let mut cases: BTreeMap<String, Vec<(String, bool)>> = BTreeMap::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (head, command) = line.split_once(": ").expect("SET WORD: COMMAND");
        let (set, word) = head.split_once(' ').expect("SET WORD");
        let runs = match word {
            "yes" => true,
            "no" => false,
            _ => panic!("{line}"),
        };
        cases
            .entry(set.to_owned())
            .or_default()
            .push((command.to_owned(), runs));
    }
    cases
}

/// Stands in the place of programs that a machine may not have; nothing runs it. A name counts in no directory below `/tmp`.
fn programs(directory: &Path) {
    for (set, cases) in cases() {
        if set == "every" {
            continue;
        }
        for (command, _) in cases.into_iter().filter(|(_, runs)| *runs) {
            for part in command.split(" | ") {
                let name = part.split(' ').next().unwrap();
                let path = directory.join(name);
                if !path.exists() {
                    write_file_mode(&path, "#!/bin/sh\n", 0o755);
                }
            }
        }
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The commands of the cases that are not judged as they say.
async fn misjudged(server: &TestServer, agent: &str, cases: &[(String, bool)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (command, runs) in cases {
        let explained = server
            .agent()
            .explain(json!({ "command": command, "agentId": agent }))
            .await;
        let expected = if *runs { "run" } else { "ask" };
        if explained["outcome"] != expected {
            wrong.push(format!(
                "{command}: {} {}",
                explained["outcome"], explained["analysis"]["findings"]
            ));
        }
    }
    wrong
}

#[tokio::test]
async fn a_set_lets_its_work_pass_and_nothing_else() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    programs(directory.path());
    let mut server = TestServer::asking().prepare();
    let path = format!("{}:{}", inherited_path(), directory.path().display());
    server.start_with(&[("PATH", &path)]).await;
    let mut cases = cases();
    let together = cases.remove("every").expect("cases of all sets together");
    assert!(cases.keys().map(String::as_str).eq(SETS.iter().copied()));
    for (set, cases) in &cases {
        let added = server
            .cli(&["allowlist", "add", "--set", set, "--agent", set])
            .await;
        assert_eq!(added.code, Some(0), "{added:?}");
        added.says("added");
        let wrong = misjudged(&server, set, cases).await;
        assert!(wrong.is_empty(), "{set}:\n{}", wrong.join("\n"));
        assert!(cases.iter().any(|(_, runs)| *runs) && cases.iter().any(|(_, runs)| !runs));
    }
    let all = SETS.join(",");
    let added = server
        .cli(&["allowlist", "add", "--set", &all, "--agent", "every"])
        .await;
    assert_eq!(added.code, Some(0), "{added:?}");
    let refused = cases.values().flatten().filter(|(_, runs)| !runs);
    let together: Vec<_> = together.into_iter().chain(refused.cloned()).collect();
    let wrong = misjudged(&server, "every", &together).await;
    assert!(wrong.is_empty(), "all sets:\n{}", wrong.join("\n"));
}

/// Each command that runs, with one argument more that starts, loads, configures or writes something.
#[tokio::test]
async fn no_argument_that_starts_or_writes_passes_anywhere() {
    const ADDED: &[&str] = &[
        "--output=file",
        "--exec=./x",
        "--config=./x",
        "--config ./x",
        "-c ./x",
        "--exec-path=.",
        "-exec ./x {} +",
        "-delete",
        "--pre=./x",
        "--hostname-bin=./x",
        "--rsh=./x",
        "--eval=x",
        "--script-shell=./x",
        "--toolexec=./x",
        "-toolexec=./x",
        "--target-dir=/x",
        "-Zx",
        "--ext-diff",
        "--textconv",
        "--unsafe-fixes",
        "-w",
        "-i.bak",
        "--in-place",
        "-fprint f",
        "--python ./x",
        "@file",
        "--manifest-path=x",
        "--help-all-x",
        "-o/x",
        "-O./x",
        "--plugin x",
        "-pno:x",
        "'a --exec=./x'",
        "'-q --exec=./x'",
    ];
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    programs(directory.path());
    let mut server = TestServer::asking().prepare();
    let path = format!("{}:{}", inherited_path(), directory.path().display());
    server.start_with(&[("PATH", &path)]).await;
    let all = SETS.join(",");
    let added = server.cli(&["allowlist", "add", "--set", &all]).await;
    assert_eq!(added.code, Some(0), "{added:?}");
    let listed = server
        .operator()
        .read("/v1/agents/main/allowlist?limit=200")
        .await;
    let named: Vec<&str> = listed
        .list("items")
        .iter()
        .filter(|entry| entry.get("argPattern").is_some())
        .map(|entry| entry.text("pattern"))
        .collect();
    let mut wrong = Vec::new();
    for (command, _) in cases().into_values().flatten().filter(|(_, runs)| *runs) {
        // Programs that only read take any arguments, and the kernel keeps them from starting others.
        let last = command.rsplit(" | ").next().unwrap();
        if !named.contains(&last.split(' ').next().unwrap()) {
            continue;
        }
        for added in ADDED {
            let text = format!("{command} {added}");
            let explained = server.agent().explain(json!({ "command": text })).await;
            // These words are plain for some programs: whitespace to leave out, a formatter that is kept to the working directory,
            // and letters and texts of a search, of which only long options start something.
            let is_plain = (*added == "-w" && (command.starts_with("git ") || last.starts_with("gofmt ")))
                || (last.starts_with("rg ") && !added.starts_with("--"));
            if explained["outcome"] == "run" && !is_plain {
                wrong.push(text);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_set_is_added_once_and_shown_without_being_added() {
    let server = TestServer::asking().start().await;
    let list = "/v1/agents/main/allowlist?limit=200";
    let shown = server
        .cli(&[
            "allowlist",
            "add",
            "--set",
            "git-read,rust",
            "--dry-run",
            "--json",
        ])
        .await;
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["sets"], json!(["git-read", "rust"]));
    assert_eq!(shown["applied"], json!(false));
    assert_eq!(server.operator().read(list).await["items"], json!([]));
    let mut added = Vec::new();
    for _ in 0..2 {
        let done = server
            .cli(&["allowlist", "add", "--set", "rust,git-read", "--json"])
            .await;
        let done: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(done["applied"], json!(true));
        let ids: Vec<String> = done
            .list("items")
            .iter()
            .map(|entry| entry.text("id").to_owned())
            .collect();
        assert_eq!(ids.len(), shown.list("items").len());
        added.push(ids);
    }
    assert_eq!(added[0], added[1], "the same entries again");
    let listed = server.operator().read(list).await;
    assert_eq!(listed.list("items").len(), added[0].len());
    let (first, planned) = (&listed["items"][0], &shown["items"][0]);
    for member in ["pattern", "argPattern", "note", "confine"] {
        assert_eq!(first[member], planned[member], "{member}");
    }
    let people = server.cli(&["allowlist", "add", "--set", "git-read"]).await;
    people.says("log, show, diff");
    people.says("starts nothing");
    for wrong in [
        &["allowlist", "add", "--set", "everything"][..],
        &["allowlist", "add", "--set", "git-read", "/usr/bin/git"],
        &["allowlist", "add", "/usr/bin/git", "--dry-run"],
        &["allowlist", "add"],
    ] {
        assert_eq!(server.cli(wrong).await.code, Some(64), "{wrong:?}");
    }
}
