//! Under `full`, where nobody is asked, no file is a script that a run is bound to: nothing of it was shown to anybody,
//! and no rule about it let the run through. Where a person answers, the same words are bound as ever.

use std::{fs, mem::MaybeUninit, path::Path};

use rustix::fs::inotify;
use serde_json::{Value, json};

use crate::support::{Invocation, Members, TestServer, lines, run_program, write_file, write_file_mode};

/// How often a file was opened for reading or execution since it is watched.
struct Opened(rustix::fd::OwnedFd);

impl Opened {
    fn watch(file: &Path) -> Self {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let watch = inotify::init(flags).unwrap();
        // Together they never merge: between two openings somebody reads.
        let events = inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS;
        inotify::add_watch(&watch, file, events).unwrap();
        Self(watch)
    }

    /// Since it was watched, or this was asked last.
    fn count(&self) -> usize {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut count = 0;
        while let Ok(event) = reader.next() {
            count += usize::from(event.events().contains(inotify::ReadFlags::OPEN));
        }
        count
    }
}

fn exec(security: &str, ask: &str) -> Value {
    json!({ "tools": { "exec": { "host": "gateway", "security": security, "ask": ask } } })
}

#[tokio::test]
async fn a_program_at_the_head_of_a_text_is_opened_by_the_shell_alone() {
    let server = TestServer::full().start().await;
    let copy = server.scratch().join("copy");
    fs::copy("/bin/true", &copy).unwrap();
    let text = format!("{} && {0} x", copy.display());
    let opened = Opened::watch(&copy);
    let alone = run_program(&Invocation::new("/bin/sh").args(&["-c", &text]));
    assert_eq!(alone.code, Some(0), "{alone:?}");
    let by_the_shell = opened.count();
    assert_eq!(by_the_shell, 2);
    for env in [json!({}), json!({ "LANG": "C" })] {
        let run = server.ran(json!({ "command": text, "env": env })).await;
        assert_eq!(run["exitCode"], 0, "{run}");
        assert_eq!(opened.count(), by_the_shell, "{env}");
    }
}

#[tokio::test]
async fn where_a_person_answers_a_script_is_bound() {
    for ask in ["off", "always"] {
        let document = json!({ "version": 1, "defaults": { "security": "full", "ask": ask } });
        let server = TestServer::asking()
            .config(&exec("full", ask))
            .document(&document)
            .start()
            .await;
        let work = server.scratch().dir("work");
        write_file_mode(&work.join("job.sh"), "#!/bin/sh\necho first\n", 0o755);
        write_file_mode(&work.join("job.py"), "print('first')\n", 0o755);
        for body in [
            json!({ "command": "./job.sh" }),
            json!({ "command": "sh ./job.sh > out; cat out" }),
            json!({ "command": "python3 job.py" }),
            json!({ "argv": ["./job.sh"] }),
            json!({ "argv": ["python3", "job.py"] }),
            json!({ "argv": ["./job.sh"], "env": { "LANG": "C" } }),
        ] {
            let mut body = body;
            body["workdir"] = json!(work);
            if ask == "off" {
                let run = server.ran(body.clone()).await;
                assert_eq!(run["stdout"], "first\n", "{body}: {run}");
                continue;
            }
            let unchanged = server.asked(body.clone()).await;
            let run = server.answered(&unchanged, "allow-once").await;
            assert_eq!(run["status"], "completed", "{body}: {run}");
            let changed = server.asked(body.clone()).await;
            let before = [work.join("job.sh"), work.join("job.py")].map(|path| {
                let text = fs::read(&path).unwrap();
                // Its content alone, and not even its length.
                let other = String::from_utf8_lossy(&text).replace("first", "other");
                write_file_mode(&path, other, 0o755);
                (path, text)
            });
            let run = server.answered(&changed, "allow-once").await;
            assert_has!(run, { "status": "denied", "reason": "binding-mismatch" }, "{body}: {run}");
            for (path, text) in before {
                write_file_mode(&path, text, 0o755);
            }
        }
    }
}

/// A command that an approver put in the place of another is answered for, whatever the policy says of it.
#[tokio::test]
async fn the_script_of_a_changed_command_is_bound() {
    let document = json!({
        "version": 1,
        "defaults": { "security": "full", "ask": "off" },
        "agents": { "main": { "denylist": [{ "pattern": "/usr/bin/nothing" }] } },
    });
    let server = TestServer::asking()
        .config(&exec("full", "off"))
        .document(&document)
        .start()
        .await;
    let script = server.scratch().join("job.sh");
    let (file, call) = (
        server.scratch().join("lines"),
        json!({ "command": format!("sh {}", script.display()) }),
    );
    let line = |word: &str| format!("echo {word} >> {}\n", file.display());
    for is_changed in [false, true] {
        write_file(&script, line("first"));
        // With deny rules a person looks at what cannot be taken apart.
        let pending = server.asked(json!({ "command": "echo $(date)" })).await;
        let path = format!("/v1/approvals/{}/revision", pending.text("approvalId"));
        let revised = server.operator().made(&path, call.clone()).await;
        if is_changed {
            write_file(&script, line("other"));
        }
        let approval = revised.text("id");
        server.operator().decided(approval, "allow-once").await;
        let run = server.agent().finished(revised.text("runId")).await;
        let expected = if is_changed { "denied" } else { "completed" };
        assert_eq!(run["status"], expected, "{run}");
    }
    assert_eq!(lines(&file), ["first"]);
}

#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn a_script_that_changes_before_the_start_is_what_runs_where_nobody_is_asked() {
    use countersign_sys::hooks;

    use crate::support::eventually;

    for ask in ["off", "on-miss"] {
        let pauses = tempfile::tempdir().unwrap();
        let document = json!({ "version": 1, "defaults": { "security": "full", "ask": ask } });
        let server = TestServer::full()
            .config(&exec("full", ask))
            .document(&document)
            .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
            .start()
            .await;
        for (at, body) in [
            json!({ "command": "./job.sh" }),
            json!({ "command": "sh job.sh" }),
            json!({ "command": "sh job.sh", "env": { "LANG": "C" } }),
            json!({ "argv": ["/bin/sh", "job.sh"], "env": { "LANG": "C" } }),
        ]
        .into_iter()
        .enumerate()
        {
            let work = server.scratch().dir(&format!("{at}"));
            let script = work.join("job.sh");
            write_file_mode(&script, "#!/bin/sh\necho first\n", 0o755);
            let mut body = body;
            body["workdir"] = json!(work);
            let reached = pauses.path().join("engine.judged.reached");
            write_file(&pauses.path().join("engine.judged"), "");
            let run = tokio::spawn({
                let (agent, body) = (server.agent(), body.clone());
                async move { agent.exec(body).await }
            });
            eventually("the judgement", || async { reached.exists() }, |is| *is).await;
            write_file_mode(&script, "#!/bin/sh\necho second\n", 0o755);
            fs::remove_file(&reached).unwrap();
            let run = run.await.unwrap().expect(200);
            assert_eq!(run["stdout"], "second\n", "{ask} {body}: {run}");
        }
    }
}
