//! Starter sets on a real server: what their entries let pass runs, and the kernel keeps what they say of it
//! (`docs/starter-sets.md`).

use std::{fs, os::unix::fs::symlink, path::Path};

use countersign_policy::starter::StarterSet;
use serde_json::{Value, json};

use crate::support::{Members, Scratch, TestServer, program, skip, write_file, write_file_mode};

/// A server with the entries of some sets, or `None` where the kernel does not keep what they say.
async fn with_sets(sets: &[StarterSet]) -> Option<TestServer> {
    if countersign_sys::landlock::version() < countersign_sys::landlock::TRUNCATE_SINCE {
        skip("a kernel with Landlock 3");
        return None;
    }
    if program("git").is_none() {
        skip("there is no git");
        return None;
    }
    let entries: Vec<Value> = sets
        .iter()
        .flat_map(|set| set.entries())
        .map(|entry| {
            let mut value = json!({ "pattern": entry.pattern });
            if let Some(arguments) = entry.arg_pattern {
                value["argPattern"] = arguments.into();
            }
            if let Some(confine) = entry.confine {
                value["confine"] = confine;
            }
            value
        })
        .collect();
    Some(
        TestServer::allowlist_only()
            .allowlist(&json!(entries))
            .start()
            .await,
    )
}

async fn ran(server: &TestServer, directory: &Path, command: &str) -> Value {
    server
        .ran(json!({ "command": command, "workdir": directory }))
        .await
}

async fn succeeds(server: &TestServer, directory: &Path, command: &str) -> String {
    let run = ran(server, directory, command).await;
    assert_eq!(run["exitCode"], 0, "{command}: {run}");
    run.text("stdout").to_owned()
}

async fn is_asked_about(server: &TestServer, directory: &Path, command: &str) {
    let call = json!({ "command": command, "workdir": directory });
    server.agent().exec(call).await.problem(403, "exec-denied");
}

/// A repository with an author and no commit.
fn repository(workspace: &Scratch) {
    let directory = workspace.path();
    workspace.git(&directory, &["init", "-q", "--initial-branch=main"]);
    let config = directory.join(".git/config");
    let more = "[user]\nname = a\nemail = a@b\n[commit]\ngpgsign = false\n";
    let text = fs::read_to_string(&config).unwrap();
    write_file(&config, format!("{text}{more}"));
}

#[tokio::test]
async fn commits_are_made_and_no_hook_starts() {
    let Some(server) = with_sets(&[StarterSet::GitRead, StarterSet::GitCommit]).await else {
        return;
    };
    let workspace = Scratch::new();
    let directory = workspace.path();
    repository(&workspace);
    write_file(&directory.join("a"), "1\n");
    for command in [
        "git add a && git commit -q -m 'first, with $(touch marker) in it'",
        "git switch -c feature/x",
        "git switch main",
        "git log -1 --format='%s %an'",
    ] {
        succeeds(&server, &directory, command).await;
    }
    write_file(&directory.join("a"), "2\n");
    succeeds(
        &server,
        &directory,
        "git stash && git stash pop && git diff --stat",
    )
    .await;
    succeeds(
        &server,
        &directory,
        "git add -A && git restore --staged a && git status -s",
    )
    .await;
    let hook = directory.join(".git/hooks/pre-commit");
    write_file_mode(&hook, "#!/bin/sh\ntouch marker\n", 0o755);
    let run = ran(&server, &directory, "git commit -am second").await;
    assert_ne!(run["exitCode"], 0, "{run}");
    assert!(!directory.join("marker").exists(), "{run}");
    for command in [
        "git commit --no-verify -am second",
        "git checkout a",
        "git restore a",
        "git reset --hard",
        "git stash drop",
        "git push",
        "git -c core.hooksPath=x commit -m x",
    ] {
        is_asked_about(&server, &directory, command).await;
    }
    assert_eq!(fs::read_to_string(directory.join("a")).unwrap(), "2\n");
    workspace.git(&directory, &["commit", "-q", "-am", "second"]);
    assert!(directory.join("marker").exists(), "the control: the hook starts");
}

#[tokio::test]
async fn files_are_written_below_the_directory_alone() {
    let Some(server) = with_sets(&[StarterSet::FilesRead, StarterSet::FilesWrite]).await else {
        return;
    };
    let (workspace, outside) = (Scratch::new(), Scratch::new());
    let directory = workspace.path();
    write_file(&directory.join("a"), "a\n");
    write_file(&outside.path().join("theirs"), "theirs\n");
    symlink(outside.path(), directory.join("link")).unwrap();
    succeeds(
        &server,
        &directory,
        "mkdir -p sub/deep && touch sub/b && cp a sub/c && mv sub/c sub/d && cat sub/d",
    )
    .await;
    let theirs = outside.path().join("theirs").display().to_string();
    assert_eq!(
        succeeds(&server, &directory, &format!("cp {theirs} mine && cat mine")).await,
        "theirs\n"
    );
    // A link leads out of it, which the words do not say and the kernel keeps.
    for command in [
        "cp a link/theirs",
        "touch link/new",
        "mv a link/moved",
        "mkdir link/sub",
    ] {
        let run = ran(&server, &directory, command).await;
        assert_ne!(run["exitCode"], 0, "{command}: {run}");
    }
    let outside_of = |name: &str| outside.path().join(name);
    assert_eq!(fs::read_to_string(outside_of("theirs")).unwrap(), "theirs\n");
    assert!(!outside_of("new").exists() && !outside_of("moved").exists() && !outside_of("sub").exists());
    for command in [
        format!("cp a {theirs}"),
        format!("mkdir {}", outside_of("x").display()),
        "touch ../x".to_owned(),
        "mv a ~/x".to_owned(),
        "cp a .git/hooks/pre-commit".to_owned(),
        "mkdir -p .ssh && cp a .ssh/config".to_owned(),
        "rm a".to_owned(),
    ] {
        is_asked_about(&server, &directory, &command).await;
    }
}

#[tokio::test]
async fn texts_that_print_run_and_others_are_asked_about() {
    let Some(server) = with_sets(&[StarterSet::FilesRead, StarterSet::Search]).await else {
        return;
    };
    let workspace = Scratch::new();
    let directory = workspace.path();
    write_file(&directory.join("f"), "a b\nc d\ne f\n");
    for (command, printed) in [
        ("sed -n '2p;3p' f", "c d\ne f\n"),
        ("sed -n '/^a/,/d$/p' f", "a b\nc d\n"),
        ("awk '{print $2}' f", "b\nd\nf\n"),
        ("awk -F' ' '{print $1, \"x\"}' f", "a x\nc x\ne x\n"),
        ("test -f f && wc -l < /dev/null", "0\n"),
    ] {
        let reads_redirection = command.contains('<');
        if reads_redirection {
            is_asked_about(&server, &directory, command).await;
        } else {
            assert_eq!(succeeds(&server, &directory, command).await, printed, "{command}");
        }
    }
    for command in [
        "sed -n '1w marker' f",
        "sed -n 's/a/touch marker/ep' f",
        "awk 'BEGIN{system(\"touch marker\")}'",
        "awk '{print > \"marker\"}' f",
        "awk '{print | \"tee marker\"}' f",
        "find . -type f -exec cat {} +",
        "find . -type f | xargs cat",
    ] {
        is_asked_about(&server, &directory, command).await;
    }
    assert!(!directory.join("marker").exists());
}

/// Entries of sets confine both programs, so that one starts the other and nothing else.
#[tokio::test]
async fn what_find_and_xargs_run_is_confined_as_its_entry_says() {
    let Some(_) = with_sets(&[]).await else { return };
    let workspace = Scratch::new();
    let directory = workspace.path();
    write_file(&directory.join("f"), "a\n");
    let entry =
        |pattern: &str, confine: Value| json!({ "pattern": format!("/**/{pattern}"), "confine": confine });
    let document = |inner: Value| {
        json!({ "version": 1, "agents": { "main": { "allowlist": [
            { "pattern": "/**/find", "argPattern": "^\\. -type f( -print0)?$", "confine": { "starts": [] } },
            entry("cat", inner),
        ] } } })
    };
    let reading = |document: Value| {
        TestServer::allowlist_only()
            .document(&document)
            .config(&json!({ "tools": { "exec": {
                "host": "gateway", "security": "allowlist", "ask": "off", "reads": { "foundFiles": true },
            } } }))
    };
    let server = reading(document(json!({ "starts": [] }))).start().await;
    for command in ["find . -type f -exec cat {} +", "find . -type f | xargs cat"] {
        assert_eq!(succeeds(&server, &directory, command).await, "a\n", "{command}");
        let body = json!({ "command": command, "workdir": directory });
        let explained = server.agent().post("/v1/exec/explain", body).await.expect(200);
        let confined = explained.text("confined");
        assert!(confined.contains("may start: cat"), "{command}: {confined}");
    }
    is_asked_about(&server, &directory, "find . -name f -type f -exec cat {} +").await;
    // What the inner entry says of files cannot be kept of the other program, which says nothing of them.
    let server = reading(document(json!({ "starts": [], "writes": [] })))
        .start()
        .await;
    is_asked_about(&server, &directory, "find . -type f -exec cat {} +").await;
    assert_eq!(
        succeeds(&server, &directory, "find . -type f | xargs cat").await,
        "a\n"
    );
}
