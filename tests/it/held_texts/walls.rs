//! What a held text sees, and what of it can be executed.

use serde_json::{Value, json};

use super::{builder, workspace};
use crate::{
    confined::possible,
    support::{Members, TestServer, write_file},
};

/// What a held text prints, its exit code not looked at.
async fn printed(server: &TestServer, text: &str) -> String {
    let answer = server.ran(json!({ "command": text })).await;
    assert_eq!(answer["held"], true, "{text}: {answer}");
    answer.text("aggregated").to_owned()
}

#[tokio::test]
async fn it_stands_where_every_run_does_under_its_own_account() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    let workspace = workspace(&server);
    let out = printed(
        &server,
        "echo \"$PWD $HOME\"; cat /proc/self/uid_map | tr -s ' '; echo \"$EUID $0\"; stat -c %U . $x",
    )
    .await;
    let home = server.scratch().join("home");
    assert_eq!(
        out,
        format!(
            "{} {}\n 1 1 1\n1 /bin/bash\ndaemon\n",
            workspace.display(),
            home.display()
        )
    );
    let seen = printed(
        &server,
        "echo /* ; ls -A /etc/shadow /root /home /var 2>&1 | tr '\\n' ' '; ls ~/.. $x",
    )
    .await;
    assert!(!seen.contains(" /var"), "{seen}");
    assert!(!seen.contains(" /home"), "{seen}");
}

#[tokio::test]
async fn its_own_directory_in_memory_is_empty_and_gone_afterwards() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    for _ in 0..2 {
        let out = printed(
            &server,
            "f=$(mktemp); echo x > /tmp/held-left; ls /tmp | wc -l; cat \"$f\"",
        )
        .await;
        // Below it the way to the workspace may lie.
        assert!(["2\n", "3\n"].contains(&out.as_str()), "{out}");
    }
    assert!(!std::path::Path::new("/tmp/held-left").exists());
}

#[tokio::test]
async fn the_loader_maps_listed_programs_and_libraries_alone() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    let by_loader = |program: &str| {
        format!("l=/lib64/ld-linux-x86-64.so.2; cp {program} c; \"$l\" {program} --version; echo $?")
    };
    for (program, is_listed) in [
        ("/usr/bin/cat", true),
        ("/usr/bin/touch", false),
        ("/usr/bin/env", true),
        ("/usr/bin/setsid", false),
        ("/usr/bin/perl", false),
        ("./c", false),
        ("/tmp/c", false),
        ("/usr/lib/x86_64-linux-gnu/utempter/utempter", false),
        ("/usr/lib/git-core/git-http-push", false),
    ] {
        let out = printed(&server, &by_loader(program)).await;
        assert_eq!(out.trim_end().ends_with("\n0"), is_listed, "{program}: {out}");
    }
}

#[tokio::test]
async fn files_that_decide_what_starts_stay_as_they_are_and_a_link_of_their_name_is_asked_about() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    server.ran(json!({ "command": "mkdir -p $x a/.git/hooks a/b; echo safe > a/.git/config; echo safe > a/b/.npmrc" })).await;
    for text in [
        "echo evil > a/.git/config; echo $?",
        "echo evil > a/b/.npmrc; echo $?",
        "rm -rf a/.git; echo $?",
        "mv a/b/.npmrc a/b/x; echo $?",
        "ln a/b/.npmrc a/b/x; echo $?",
        "mv a/.git/config a/x; echo $?",
        "mv a c; echo evil > c/.git/config; echo $?; mv c a",
    ] {
        let answer = server.ran(json!({ "command": text })).await;
        assert_has!(answer, { "held": true, "stdout": "1\n" }, "{text}");
    }
    let at = |name: &str| workspace(&server).join(name);
    for file in ["a/.git/config", "a/b/.npmrc"] {
        assert_eq!(std::fs::read_to_string(at(file)).unwrap(), "safe\n");
    }
    // Nothing takes the place of a directory that holds one.
    for text in [
        "mkdir -p n/.git; echo evil > n/.git/config; mv a c; mv -T n a; echo $?",
        "mv a/.git a/g; echo $?",
        "mv -T n a/.git; echo $?",
        "ln -s n l; mv -T l a; echo $?",
    ] {
        let answer = server.ran(json!({ "command": text })).await;
        assert_has!(answer, { "held": true, "stdout": "1\n" }, "{text}");
    }
    assert!(!at("c").exists());
    for file in ["a/.git/config", "a/b/.npmrc"] {
        assert_eq!(std::fs::read_to_string(at(file)).unwrap(), "safe\n");
    }
    let moved =
        "mkdir -p d/e a/f; echo x > d/e/x; mv d d2; mv d2/e a/f/e; rm -r d2; cat a/f/e/x; rm -r a/f; echo $?";
    let answer = server.ran(json!({ "command": moved })).await;
    assert_has!(answer, { "held": true, "stdout": "x\n0\n", "stderr": "" });
    std::os::unix::fs::symlink("x", at("a/.envrc2")).unwrap();
    assert_eq!(printed(&server, "echo $((1+1))").await, "2\n");
    std::os::unix::fs::symlink("x", at("a/.bashrc")).unwrap();
    super::is_asked(
        &server,
        json!({ "command": "echo $((1+1))" }),
        Some("a link of this name"),
    )
    .await;
}

#[tokio::test]
async fn a_run_that_is_stopped_or_leaves_something_ends_like_any_other() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    let timed = server
        .ran(json!({ "command": "sleep 300 $x", "timeout": 1 }))
        .await;
    assert_has!(timed, { "held": true, "timedOut": true });
    let left = server.ran(json!({ "command": "sleep 300 & echo $((1))" })).await;
    assert_has!(left, { "held": true, "exitCode": 0, "stdout": "1\n" });
    let codes: Vec<&Value> = left["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| &warning["code"])
        .collect();
    assert_eq!(codes, ["leftovers-killed"]);
    let running = server
        .agent()
        .exec(json!({ "command": "sleep 300 $x", "yieldMs": 0 }))
        .await
        .expect(202);
    assert_has!(running, { "status": "running", "held": true });
    let cancelled = server.operator().cancel(running.text("runId")).await;
    assert_eq!(cancelled["runId"], running["runId"]);
    server.agent().finished(running.text("runId")).await;
}

#[tokio::test]
async fn a_directory_below_the_workspace_is_its_place_and_a_link_out_of_it_is_none() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    let at = |name: &str| workspace(&server).join(name);
    server
        .ran(json!({ "command": "mkdir $x d; echo in > d/f" }))
        .await;
    std::os::unix::fs::symlink("/etc", at("l")).unwrap();
    let outside = json!({ "command": "cat *", "workdir": at("l") });
    super::is_asked(&server, outside, Some("outside of the workspace")).await;
    write_file(&at("d/g"), "x");
    let inside = server
        .ran(json!({ "command": "cat f*", "workdir": at("d") }))
        .await;
    assert_has!(inside, { "held": true, "stdout": "in\n" });
}
