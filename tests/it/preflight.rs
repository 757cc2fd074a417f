//! A script with pieces of a shell in it is refused before it runs, and what was looked at is what runs.

use std::{fs, os::unix::fs::symlink, path::Path};

use countersign_sys::hooks;
use serde_json::{Value, json};

use crate::support::{Members, Scratch, TestServer, eventually, write_file, write_file_mode};

const BAD_PYTHON: &str = "import os\nprint($API_TOKEN)\n";
const GOOD_PYTHON: &str = "# $API_TOKEN\nprint('$API_TOKEN ran')\n";

/// A server at which scripts are looked at: what nothing covers runs, but a person could be asked.
fn looking() -> crate::support::ServerBuilder {
    TestServer::full()
        .exec(&json!({ "host": "gateway", "security": "full", "ask": "on-miss" }))
        .document(&json!({ "version": 1, "defaults": { "security": "full", "ask": "on-miss" } }))
}

async fn refused(server: &TestServer, call: &Value, line: u64) {
    let answer = server.agent().exec(call.clone()).await;
    let problem = answer.problem(400, "preflight-failed");
    assert_eq!(problem["line"], line, "{call}: {problem:#}");
    let run = server.agent().run(problem.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "preflight" });
    let explained = server.agent().explain(call.clone()).await;
    assert_has!(explained, { "outcome": "deny", "reason": "preflight" }, "{call}");
}

async fn runs(server: &TestServer, call: &Value) {
    let answer = server.agent().exec(call.clone()).await;
    assert_eq!(answer.status, 200, "{call}: {}", answer.text());
    let explained = server.agent().explain(call.clone()).await;
    assert_eq!(explained["outcome"], "run", "{call}");
}

#[tokio::test]
async fn every_way_to_run_a_script_in_the_working_directory_is_looked_at() {
    let server = looking().start().await;
    let work = server.scratch().dir("work");
    fs::create_dir(work.join("sub")).unwrap();
    write_file(&work.join("bad.py"), BAD_PYTHON);
    write_file(&work.join("sub/bad.py"), BAD_PYTHON);
    write_file(&work.join("bad.js"), "const x = 1;\n\nfetch($API_URL);\n");
    write_file(&work.join("npm.js"), "npm install express\n");
    write_file(&work.join("good.py"), GOOD_PYTHON);
    symlink(work.join("sub/bad.py"), work.join("link.py")).unwrap();
    let text = |text: &str| json!({ "command": text, "workdir": work });
    let argv = |words: &[&str]| json!({ "argv": words, "workdir": work });
    for (call, line) in [
        (text("python3 bad.py"), 2),
        (text("python3 -u -W ignore ./bad.py --flag"), 2),
        (text("cd sub && python3 bad.py"), 2),
        (text("true && timeout 5 python3 sub/bad.py | cat"), 2),
        (text("sh -c 'python3 bad.py'"), 2),
        (text("python3 bad.py > out 2>&1"), 2),
        (text("python3 link.py"), 2),
        (text(&format!("python3 {}", work.join("bad.py").display())), 2),
        (argv(&["python3", "bad.py"]), 2),
        (argv(&["/usr/bin/python3", "sub/../bad.py"]), 2),
        (text("node bad.js"), 3),
        (argv(&["node", "--no-warnings", "npm.js"]), 1),
    ] {
        refused(&server, &call, line).await;
    }
    for call in [
        text("python3 good.py"),
        argv(&["python3", "good.py", "bad.py"]),
        // Not as a script that is run.
        argv(&["/bin/cat", "bad.py"]),
        text("python3 -c 'print(1)' bad.py"),
    ] {
        runs(&server, &call).await;
    }
    assert!(!work.join("out").exists(), "nothing of a refused command ran");
}

#[tokio::test]
async fn what_lies_elsewhere_is_too_large_or_runs_unasked_is_not_looked_at() {
    let server = looking().start().await;
    let work = server.scratch().dir("work");
    let outside = server.scratch().join("outside.py");
    write_file(&outside, BAD_PYTHON);
    symlink(&outside, work.join("leads-out.py")).unwrap();
    symlink(server.scratch().path(), work.join("directory")).unwrap();
    write_file(
        &work.join("large.py"),
        format!("{BAD_PYTHON}#{}", "x".repeat(512 * 1024)),
    );
    write_file(&work.join("bad.py"), BAD_PYTHON);
    let call = |file: &str| json!({ "argv": ["python3", file], "workdir": work });
    for file in [
        outside.to_str().unwrap(),
        "../outside.py",
        "leads-out.py",
        "directory/outside.py",
        "large.py",
        "missing.py",
    ] {
        // The interpreter says what is wrong with it.
        runs(&server, &call(file)).await;
    }
    refused(&server, &call("bad.py"), 2).await;
    let unasked = TestServer::full().start().await;
    runs(
        &unasked,
        &json!({ "argv": ["python3", "bad.py"], "workdir": work }),
    )
    .await;
    let tightened = json!({ "argv": ["python3", "bad.py"], "workdir": work, "ask": "on-miss" });
    refused(&unasked, &tightened, 2).await;
}

#[tokio::test]
async fn a_refusal_under_a_key_is_not_kept() {
    let server = looking().start().await;
    let work = server.scratch().dir("work");
    write_file(&work.join("a.py"), BAD_PYTHON);
    let call = json!({ "argv": ["python3", "a.py"], "workdir": work });
    let agent = server.agent();
    agent
        .exec_with_key("k", call.clone())
        .await
        .problem(400, "preflight-failed");
    write_file(&work.join("a.py"), GOOD_PYTHON);
    let answer = agent.exec_with_key("k", call).await.expect(200);
    assert_eq!(answer["stdout"], "$API_TOKEN ran\n");
}

/// As version managers do it. The kernel starts such a script by its path, which is looked at once more.
#[tokio::test]
async fn an_interpreter_behind_a_script_of_its_name_starts() {
    let programs = Scratch::new();
    let shim = "#!/bin/sh\nexec /usr/bin/python3 \"$@\"\n";
    write_file_mode(&programs.join("python3"), shim, 0o755);
    let exec = json!({
        "host": "gateway", "security": "full", "ask": "on-miss", "pathPrepend": [programs.path()],
    });
    let server = looking().exec(&exec).start().await;
    let work = server.scratch().dir("work");
    write_file(&work.join("a.py"), GOOD_PYTHON);
    let call = json!({ "argv": ["python3", "a.py"], "workdir": work });
    let run = server.ran(call).await;
    assert_eq!(run["stdout"], "$API_TOKEN ran\n", "{run:#}");
}

#[tokio::test]
async fn a_script_that_is_exchanged_after_the_look_does_not_run() {
    let pauses = tempfile::tempdir().unwrap();
    let server = looking()
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().expect("text"))
        .start()
        .await;
    for point in [
        "engine.judged",
        "host.begun",
        "host.files-checked",
        "sup.before-fence",
        "sup.before-execution",
    ] {
        for swap in ["nothing", "renamed", "rewritten", "link", "directory"] {
            let what = format!("{swap} at {point}");
            let root = server.scratch().dir(&format!("{swap}-{point}"));
            let (work, mark) = (root.join("work"), root.join("mark"));
            fs::create_dir(&work).unwrap();
            write_file(&work.join("a.py"), GOOD_PYTHON);
            let evil = format!("open({:?}, 'w')\n", mark.display());
            write_file(&root.join("evil.py"), &evil);
            let call = json!({ "argv": ["python3", "a.py"], "workdir": work });
            let run = at_a_pause(&server, pauses.path(), point, &call, || match swap {
                "renamed" => fs::rename(root.join("evil.py"), work.join("a.py")).unwrap(),
                "rewritten" => write_file(&work.join("a.py"), &evil),
                "link" => {
                    symlink(root.join("evil.py"), root.join("new")).unwrap();
                    fs::rename(root.join("new"), work.join("a.py")).unwrap();
                }
                "directory" => {
                    fs::rename(&work, root.join("old")).unwrap();
                    fs::create_dir(&work).unwrap();
                    fs::rename(root.join("evil.py"), work.join("a.py")).unwrap();
                }
                _ => {}
            })
            .await;
            assert!(!mark.exists(), "{what}: {run:#}");
            // Once its own directory was opened the good script is still there for it.
            if swap == "nothing" {
                assert_eq!(run["status"], "completed", "{what}: {run:#}");
            } else if run["status"] != "completed" {
                assert_has!(run, { "status": "denied", "reason": "binding-mismatch" }, "{what}: {run:#}");
            } else {
                assert_eq!(swap, "directory", "{what}: {run:#}");
            }
        }
    }
}

/// Makes a call, does something while the run stands still at a point, and returns its end.
async fn at_a_pause(
    server: &TestServer,
    pauses: &Path,
    point: &str,
    call: &Value,
    act: impl FnOnce(),
) -> Value {
    let (wanted, reached) = (pauses.join(point), pauses.join(format!("{point}.reached")));
    write_file(&wanted, "");
    let agent = server.agent();
    let running = tokio::spawn({
        let (agent, call) = (agent.clone(), call.clone());
        async move { agent.exec(call).await.json() }
    });
    eventually(point, || async { reached.exists() }, |is| *is).await;
    act();
    fs::remove_file(&reached).unwrap();
    let answer = running.await.unwrap();
    let id = answer.text("runId");
    agent.finished(id).await
}

/// A server whose commands run in the built-in sandbox, on the workspace of their agent.
async fn sandboxed(access: &str) -> Option<TestServer> {
    let server = TestServer::full()
        .config(&json!({
            "tools": { "exec": { "host": "sandbox" } },
            "agents": { "defaults": { "sandbox": { "mode": "all", "workspaceAccess": access } } },
        }))
        .toml("[sandbox]\nbackend = \"builtin\"\n")
        .start()
        .await;
    let policy = server.operator().read("/v1/policy/effective").await;
    if policy["sandbox"]["active"] != true {
        crate::support::skip(&format!("no sandbox here: {}", policy["sandbox"]["detail"]));
        return None;
    }
    Some(server)
}

#[tokio::test]
async fn scripts_of_a_sandbox_are_looked_at_where_the_sandbox_sees_them() {
    for access in ["none", "rw"] {
        let server = or_skip!(sandboxed(access).await);
        // They are made by a command, as they are in life; the directory is not known before.
        let make = "mkdir -p sub && printf 'import os\\nprint($API_TOKEN)\\n' > bad.py && cp bad.py sub/ && \
                    printf 'print(1)\\n' > good.py && printf 'npm install express\\n' > bad.js && \
                    ln -s bad.py link.py && ln -s /etc/hostname out.py && mkfifo pipe.py && ln -s .. up";
        let made = server.ran(json!({ "command": make })).await;
        assert_eq!(made["exitCode"], 0, "{made:#}");
        for (call, line) in [
            (json!({ "command": "python3 bad.py" }), 2),
            (json!({ "argv": ["python3", "-u", "sub/bad.py"] }), 2),
            (json!({ "command": "python3 /workspace/bad.py" }), 2),
            (
                json!({ "argv": ["python3", "bad.py"], "workdir": "/workspace/sub" }),
                2,
            ),
            (json!({ "argv": ["python3", "link.py"] }), 2),
            (json!({ "argv": ["node", "bad.js"] }), 1),
        ] {
            refused(&server, &call, line).await;
        }
        for call in [
            json!({ "command": "cat good.py" }),
            json!({ "command": "python3 good.py || true" }),
            // Out of the working directory, or no file at all: not looked at, and not waited for.
            json!({ "command": "python3 ../bad.py || true", "workdir": "/workspace/sub" }),
            json!({ "command": "python3 up/../etc/hostname.py || true" }),
            json!({ "command": "python3 out.py || true" }),
            json!({ "command": "timeout 1 python3 pipe.py || true" }),
        ] {
            runs(&server, &call).await;
        }
    }
}
