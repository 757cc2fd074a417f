//! What runs after what was decided. At the real server, by the marks that a run leaves.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::support::{Members, Scratch, TestServer, lines, only, write_file, write_file_mode};

/// A program that leaves a word in `marks`.
fn program(path: &Path, marks: &Path, word: &str) {
    write_file_mode(
        path,
        format!("#!/bin/sh\necho {word} >> {}\n", marks.display()),
        0o755,
    );
}

/// Asks, lets something change or not, and has it allowed: what was changed does not run, what was not does.
async fn bound(prepare: impl Fn(&Path, &Path) -> Value, change: impl Fn(&Path, &Path), path: Option<&Path>) {
    for is_changed in [false, true] {
        let mut builder = TestServer::asking();
        if let Some(path) = path {
            builder = builder.env("PATH", &format!("{}:/usr/bin:/bin", path.display()));
        }
        let server = builder.start().await;
        let (work, marks) = (server.scratch().dir("work"), server.scratch().join("marks"));
        let pending = server.asked(prepare(&work, &marks)).await;
        if is_changed {
            change(&work, &marks);
        }
        let run = server.answered(&pending, "allow-once").await;
        let end = only(&run, &["status", "reason"]);
        if is_changed {
            assert_eq!(end, json!({ "status": "denied", "reason": "binding-mismatch" }));
            assert_eq!(lines(&marks), Vec::<String>::new(), "nothing ran");
        } else {
            assert_eq!(end["status"], "completed", "the twin: {end}");
            assert_eq!(lines(&marks), ["first"]);
        }
    }
}

/// Bodies that are bad requests, beside one that runs.
async fn bad_requests(bodies: &[Value]) {
    let document =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/usr/bin/touch" }] } } });
    let server = TestServer::allowlist_only().document(&document).start().await;
    let mark = server.scratch().join("mark");
    for extra in bodies {
        for command in ["/usr/bin/touch", "/usr/bin/tee"] {
            let mut body = json!({ "argv": [command, mark] });
            let members = body.as_object_mut().expect("an object");
            members.extend(extra.as_object().expect("an object").clone());
            server
                .agent()
                .exec(body.clone())
                .await
                .problem(400, "invalid-request");
            assert!(!mark.exists(), "{body} ran");
        }
    }
    server.ran(json!({ "argv": ["/usr/bin/touch", mark] })).await;
    assert!(mark.exists(), "the twin ran");
    server.denied(json!({ "argv": ["/usr/bin/tee", mark] })).await;
}

#[tokio::test]
async fn cve_2026_28466() {
    bad_requests(&[
        json!({ "approved": true }),
        json!({ "approvalDecision": "allow-always" }),
        json!({ "decision": "allow-once" }),
        json!({ "approvalId": "01890000-0000-7000-8000-000000000001" }),
        json!({ "runId": "01890000-0000-7000-8000-000000000001" }),
        json!({ "params": { "approved": true } }),
        json!({ "plan": { "argv": ["/usr/bin/id"] } }),
        json!({ "binding": "exact" }),
    ])
    .await;
}

#[tokio::test]
async fn cve_2026_32898() {
    bad_requests(&[
        json!({ "kind": "read" }),
        json!({ "readOnly": true }),
        json!({ "trusted": true }),
        json!({ "metadata": { "kind": "read" } }),
        json!({ "toolKind": "read" }),
        json!({ "safe": true }),
    ])
    .await;
}

#[tokio::test]
async fn openclaw_2026_2_14_text_and_argv() {
    bad_requests(&[
        json!({ "command": "touch x" }),
        json!({ "rawCommand": "touch x" }),
        json!({ "command": "" }),
    ])
    .await;
}

#[tokio::test]
async fn cve_2026_29607() {
    let server = TestServer::asking().start().await;
    let body = json!({ "argv": ["env", "printf", "x"] });
    let pending = server.asked(body.clone()).await;
    assert_has!(server.answered(&pending, "allow-always").await, { "status": "completed" });
    assert_has!(server.ran(body).await, { "stdout": "x" }, "the twin: what was remembered");
    for other in [
        json!({ "argv": ["env", "printf", "y"] }),
        json!({ "argv": ["env", "id"] }),
        json!({ "argv": ["env", "sh", "-c", "id"] }),
        json!({ "argv": ["env", "env", "id"] }),
        json!({ "argv": ["env"] }),
        json!({ "command": "env printf x; id" }),
        json!({ "argv": ["env", "printf", "x"], "workdir": server.scratch().dir("elsewhere") }),
    ] {
        server.accepted(other.clone()).await;
    }
    let document = server.document_on_disk().to_string();
    assert!(
        document.contains("printf") && !document.contains("/env\""),
        "{document}"
    );
}

#[tokio::test]
async fn cve_2026_27545() {
    let directories = |work: &Path, marks: &Path| {
        let (one, other) = (work.join("one/inner"), work.join("other/inner"));
        program(&one.join("tool"), marks, "first");
        program(&other.join("tool"), marks, "second");
        symlink("one", work.join("current")).expect("a link");
        json!({ "command": "./tool > /dev/null", "workdir": work.join("current/inner") })
    };
    // Another directory in the place of the one that was asked about.
    bound(
        directories,
        |work, _| {
            fs::rename(work.join("one"), work.join("gone")).expect("moving");
            fs::rename(work.join("other"), work.join("one")).expect("moving");
        },
        None,
    )
    .await;
    // A link on the way that leads elsewhere changes nothing: the directory itself was bound.
    let server = TestServer::asking().start().await;
    let (work, marks) = (server.scratch().dir("work"), server.scratch().join("marks"));
    let pending = server.asked(directories(&work, &marks)).await;
    fs::remove_file(work.join("current")).expect("the link");
    symlink("other", work.join("current")).expect("a link");
    server.answered(&pending, "allow-once").await;
    assert_ne!(lines(&marks), ["second"], "never what was not asked about");
}

#[tokio::test]
async fn cve_2026_29608() {
    let server = TestServer::full().start().await;
    let (work, marks) = (server.scratch().dir("work"), server.scratch().join("marks"));
    for name in ["printf", "sh", "a  b", "%s"] {
        program(&work.join(name), &marks, "local");
    }
    for argv in [
        json!(["printf", "%s", "a  b"]),
        json!(["/usr/bin/printf", "%s", "a  b"]),
    ] {
        let done = server.ran(json!({ "argv": argv, "workdir": work })).await;
        assert_eq!(done["stdout"], "a  b", "the words as they were sent");
    }
    assert_eq!(lines(&marks), Vec::<String>::new());
    server.ran(json!({ "argv": ["./printf"], "workdir": work })).await;
    assert_eq!(lines(&marks), ["local"], "the twin: who asks for it by its path");
}

#[tokio::test]
async fn cve_2026_32921() {
    let script = |marks: &Path, word: &str| format!("echo {word} >> {}\n", marks.display());
    bound(
        |work, marks| {
            write_file(&work.join("job.sh"), script(marks, "first"));
            json!({ "argv": ["sh", "job.sh"], "workdir": work })
        },
        |work, marks| write_file(&work.join("job.sh"), script(marks, "second")),
        None,
    )
    .await;
}

#[tokio::test]
async fn cve_2026_32978() {
    for runner in ["tsx", "jiti", "ts-node"] {
        let tools = Scratch::new();
        write_file_mode(&tools.join(runner), "#!/bin/sh\nexec /bin/sh \"$@\"\n", 0o755);
        let script = |marks: &Path, word: &str| format!("echo {word} >> {}\n", marks.display());
        bound(
            |work, marks| {
                write_file(&work.join("job.ts"), script(marks, "first"));
                json!({ "argv": [runner, "job.ts"], "workdir": work })
            },
            |work, marks| write_file(&work.join("job.ts"), script(marks, "second")),
            Some(&tools.path()),
        )
        .await;
    }
}

#[tokio::test]
async fn cve_2025_54136() {
    bound(
        |work, marks| {
            program(&work.join("tool"), marks, "first");
            json!({ "argv": ["./tool"], "workdir": work })
        },
        |work, marks| program(&work.join("tool"), marks, "second"),
        None,
    )
    .await;
    // Nor does an answer for good: it names the file's place, and a person who is asked about a change sees it.
    let server = TestServer::asking().start().await;
    let (work, marks) = (server.scratch().dir("work"), server.scratch().join("marks"));
    program(&work.join("tool"), &marks, "first");
    let pending = server
        .asked(json!({ "argv": ["./tool", "x"], "workdir": work }))
        .await;
    server.answered(&pending, "allow-always").await;
    server
        .accepted(json!({ "argv": ["./tool", "y"], "workdir": work }))
        .await;
    assert_eq!(lines(&marks), ["first"]);
}

#[tokio::test]
async fn cve_2026_53822() {
    let server = TestServer::asking().start().await;
    let marks = server.scratch().join("marks");
    let payload = format!("printf '%s\\n' 'a  \"b\"' \"$0\" >> {}", marks.display());
    let argv = json!(["sh", "-c", payload, "x  y"]);
    let pending = server.asked(json!({ "argv": argv })).await;
    let approval = server.operator().approval(pending.text("approvalId")).await;
    assert_eq!(approval["boundTo"]["argv"], argv, "{approval}");
    assert_has!(server.answered(&pending, "allow-once").await, { "status": "completed" });
    assert_eq!(lines(&marks), ["a  \"b\"", "x  y"], "every byte of every word");
}

#[tokio::test]
async fn openclaw_2026_6_6_timeout_falls_open() {
    for (fallback, may_run) in [("deny", false), ("allowlist", false), ("full", true)] {
        let document = json!({ "version": 1, "defaults": { "askFallback": fallback } });
        let exec = json!({ "host": "gateway", "security": "full", "ask": "always" });
        let server = TestServer::asking_with("timeout_ms = 1000")
            .document(&document)
            .exec(&exec)
            .start()
            .await;
        let marks = server.scratch().join("marks");
        let command = format!("echo ran >> {}", marks.display());
        let pending = server.asked(json!({ "command": command })).await;
        let run = server.agent().finished(pending.text("runId")).await;
        assert_eq!(run["status"] == "completed", may_run, "{fallback}: {run}");
        assert_eq!(lines(&marks).len(), usize::from(may_run), "{fallback}");
        server
            .operator()
            .decide(pending.text("approvalId"), "allow-once")
            .await
            .problem(410, "approval-expired");
        assert_eq!(lines(&marks).len(), usize::from(may_run), "{fallback}");
    }
}

#[tokio::test]
async fn cve_2025_65099() {
    let server = TestServer::asking().start().await;
    let (work, marks) = (server.scratch().git_checkout(), server.scratch().join("marks"));
    let trap = work.join("trap");
    program(&trap, &marks, "sprung");
    let shown = trap.display();
    for (name, content) in [
        (".envrc", format!("{shown}\n")),
        (".bashrc", format!("{shown}\n")),
        (".zshenv", format!("{shown}\n")),
        (".profile", format!("{shown}\n")),
        (
            "package.json",
            format!(r#"{{ "scripts": {{ "preinstall": "{shown}" }} }}"#),
        ),
        (".git/hooks/pre-commit", format!("#!/bin/sh\n{shown}\n")),
    ] {
        write_file_mode(&work.join(name), content, 0o755);
    }
    let config = fs::read_to_string(work.join(".git/config")).expect("the configuration");
    write_file(
        &work.join(".git/config"),
        format!("{config}\tfsmonitor = {shown}\n"),
    );
    for command in [
        "git status",
        "npm install",
        "git commit -m x",
        "sh -lc true",
        "cd . && git status",
    ] {
        let body = json!({ "command": command, "workdir": work });
        server.agent().explain(body.clone()).await;
        let pending = server.asked(body).await;
        assert_eq!(server.answered(&pending, "deny").await["status"], "denied");
    }
    assert_eq!(
        lines(&marks),
        Vec::<String>::new(),
        "nothing of the workspace ran"
    );
    let pending = server.asked(json!({ "argv": [trap] })).await;
    server.answered(&pending, "allow-once").await;
    assert_eq!(lines(&marks), ["sprung"], "the trap works");
}

#[tokio::test]
async fn codex_git_is_not_safe() {
    let server = TestServer::allowlist_only().start().await;
    let work: PathBuf = server.scratch().git_checkout();
    for command in ["git status", "git log", "git diff", "git"] {
        server
            .denied(json!({ "command": command, "workdir": work }))
            .await;
    }
    server.ran(json!({ "command": "wc -l", "workdir": work })).await;
}

#[tokio::test]
async fn cve_2026_12537() {
    let server = TestServer::full().start().await;
    for env in [
        json!({ "A=b --privileged": "x" }),
        json!({ "--privileged": "x" }),
        json!({ "A\n--volume": "/:/host" }),
        json!({ "": "x" }),
        json!({ "A B": "x" }),
    ] {
        let body = json!({ "argv": ["/usr/bin/env"], "env": env });
        let answer = server.agent().exec(body).await;
        assert_eq!(answer.status, 400, "{env}: {}", answer.text());
    }
    for workdir in ["--privileged", "-v/:/host", "relative", "x:/host"] {
        let answer = server
            .agent()
            .exec(json!({ "argv": ["/usr/bin/pwd"], "workdir": workdir }))
            .await;
        assert_eq!(answer.status, 400, "{workdir}: {}", answer.text());
    }
    // What looks like an option of a launcher stays an argument of the command.
    let done = server
        .ran(json!({ "argv": ["/usr/bin/printf", "%s", "--privileged"] }))
        .await;
    assert_eq!(done["stdout"], "--privileged");
}

#[tokio::test]
async fn fusebase_flow_4_14_0() {
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [
        { "pattern": "/usr/bin/printf" }, { "pattern": "/usr/bin/pwsh" }, { "pattern": "pwsh" },
    ] } } });
    let server = TestServer::allowlist_only().document(&document).start().await;
    let mark = server.scratch().join("mark");
    let attack = format!("touch {}", mark.display());
    for body in [
        json!({ "command": attack }),
        json!({ "argv": ["touch", mark] }),
        json!({ "command": format!("pwsh -Command '{attack}'") }),
        json!({ "argv": ["pwsh", "-Command", attack] }),
        json!({ "argv": ["zsh", "-c", attack] }),
    ] {
        server.denied(body).await;
    }
    let mark_text = mark.to_str().expect("UTF-8");
    for arguments in [
        &["exec", "-c", attack.as_str()][..],
        &["exec", "--", "touch", mark_text],
    ] {
        let refused = server.cli(arguments).await;
        assert_ne!(refused.code, Some(0), "{arguments:?}: {refused:?}");
    }
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "exec", "arguments": { "command": attack } } });
    let answer = server.agent().post("/mcp", call).await;
    assert!(!answer.text().contains("\"completed\""), "{}", answer.text());
    assert!(!mark.exists(), "one gate for every way in");
    let twin = server.cli(&["exec", "--", "printf", "x"]).await;
    assert_eq!((twin.code, twin.stdout.as_str()), (Some(0), "x"), "{twin:?}");
}
