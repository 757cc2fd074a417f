//! Attacks on deny rules, with real programs, where everything else runs.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use crate::support::{Members, TestServer, assert_says, write_file};

/// Everything runs but `touch`, by its name.
async fn server() -> TestServer {
    TestServer::full()
        .agents(&json!({ "*": { "denylist": [
            { "id": "6f2f1a52-9c35-4f3f-9a63-0c2a4f5ad0aa", "pattern": "ToUcH", "reason": "no new files" },
            { "pattern": "/usr/bin/mkfifo" },
        ] } }))
        .start()
        .await
}

#[tokio::test]
async fn no_spelling_of_a_denied_program_runs() {
    let server = server().await;
    let directory = server.scratch().dir("work");
    let made = directory.join("made");
    symlink("/usr/bin/touch", directory.join("harmless")).unwrap();
    symlink("/usr/bin/mkfifo", directory.join("fifo")).unwrap();
    write_file(&directory.join("list"), "made\n");
    for command in [
        "touch made",
        "/usr/bin/touch made",
        "/usr/../usr/bin//touch made",
        "../../../../../../../usr/bin/touch made",
        "./harmless made",
        "'to'\"uc\"h made",
        "to\\uch made",
        "env touch made",
        "env -i touch made",
        "env -S 'touch made'",
        "timeout 5 touch made",
        "nice -n 5 timeout 5 touch made",
        "command touch made",
        "exec touch made",
        "eval 'touch made'",
        "sh -c 'touch made'",
        "sh -c \"sh -c 'touch made'\"",
        "bash -lc 'touch made'",
        "true && touch made",
        "true | touch made",
        "cd /usr/bin; ./touch \"$OLDPWD/made\"",
        "cd /usr; bin/touch made",
        "cd . || true; ./harmless made",
        "xargs -a list touch",
        "find . -maxdepth 0 -exec touch made ;",
        "find . -maxdepth 0 -exec sh -c 'touch made' ;",
        "/usr/bin/mkfifo made",
        "mkfifo made",
        "./fifo made",
        "cd /usr/bin; ./mkfifo made",
        "LANG=C touch made",
    ] {
        let answer = server
            .agent()
            .exec(json!({ "command": command, "workdir": directory }))
            .await;
        assert_eq!(answer.status, 403, "{command}: {}", answer.text());
        // What cannot be read completely needs a person, and here is none.
        let reason = answer.json()["reason"].clone();
        assert!(
            ["denylist", "no-approver"].contains(&reason.as_str().unwrap()),
            "{command}: {reason}"
        );
        assert!(
            command.contains('$') != (reason == "denylist"),
            "{command}: {reason}"
        );
        assert!(!made.exists(), "{command} ran");
    }
    for argv in [
        json!(["touch", "made"]),
        json!(["/usr/bin/env", "touch", "made"]),
        json!([directory.join("harmless"), "made"]),
    ] {
        let answer = server
            .agent()
            .exec(json!({ "argv": argv, "workdir": directory }))
            .await;
        assert_eq!(answer.problem(403, "exec-denied")["reason"], "denylist", "{argv}");
    }
    // The way is open for everything else: it is the rules that stop these.
    let open = json!({ "command": "cp list made", "workdir": directory });
    server.ran(open).await;
    assert!(made.exists());
}

#[tokio::test]
async fn text_that_deny_rules_cannot_read_needs_a_person_even_where_everything_runs() {
    let server = server().await;
    for command in [
        "$(printf tou)ch made",
        "t=touch; $t made",
        "tou{ch,} made",
        "echo dG91Y2g= | base64 -d | sh",
    ] {
        let answer = server.agent().exec(json!({ "command": command })).await;
        assert_has!(answer.problem(403, "exec-denied"), { "reason": "no-approver" }, "{command}");
    }
}

#[tokio::test]
async fn an_explanation_and_a_denial_name_the_rule_and_its_place() {
    let server = server().await;
    let command = "true && timeout 5 /usr/bin/touch made";
    let id = "6f2f1a52-9c35-4f3f-9a63-0c2a4f5ad0aa";
    let explained = server.operator().explain(json!({ "command": command })).await;
    assert_eq!(
        explained["analysis"]["segments"][1]["match"],
        json!({ "kind": "denylist", "entryId": id, "pattern": "ToUcH" })
    );
    assert_eq!(
        explained["hint"],
        format!("countersign denylist remove {id} --agent '*'")
    );
    // A caller that runs into it is told which rule it is, and not how it is removed.
    let explained = server.agent().explain(json!({ "command": command })).await;
    assert_has!(explained, { "outcome": "deny", "reason": "denylist" });
    assert_eq!(explained["hint"], json!(null));
    let analysis = &explained["analysis"];
    assert_eq!(
        analysis["segments"][1]["match"],
        json!({ "kind": "denylist", "pattern": "ToUcH" })
    );
    let finding = &analysis["findings"][0];
    assert_eq!(finding["code"], "denylisted", "{finding}");
    let detail = finding.text("detail");
    assert_says(detail, "of every agent");
    assert_says(detail, "no new files");
    let span: Vec<usize> = serde_json::from_value(finding["span"].clone()).unwrap();
    assert_eq!(&command[span[0]..span[1]], "/usr/bin/touch");
    let denied = server.agent().exec(json!({ "command": command })).await;
    let problem = denied.problem(403, "exec-denied");
    assert!(problem.text("detail").contains("no new files"), "{problem}");
}

/// The limit that the documentation tells: a rule knows names and places, not contents.
#[tokio::test]
async fn a_copy_or_another_hard_link_under_another_name_is_another_program() {
    let server = server().await;
    let directory = server.scratch().dir("work");
    fs::copy("/usr/bin/touch", directory.join("copy")).unwrap();
    fs::hard_link(directory.join("copy"), directory.join("twin")).unwrap();
    for (name, file) in [("copy", "one"), ("twin", "two")] {
        let body = json!({ "argv": [directory.join(name), file], "workdir": directory });
        server.ran(body).await;
        assert!(directory.join(file).exists());
    }
}
