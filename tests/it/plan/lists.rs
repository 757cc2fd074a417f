//! Lists and pipelines do what `dash` and `bash` do with them.

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::support::{Members, Scratch, TestServer, eventually, program, skip, write_file};

/// What a list came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) code: i64,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the shells are what a list is compared with"
)]
pub(super) fn by_shell(shell: &str, text: &str, directory: &Path) -> Came {
    let output = Command::new(shell)
        .args(["-c", text])
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{shell}: {error}"));
    // A shell may let the last program take its own place.
    let code = output
        .status
        .code()
        .or_else(|| output.status.signal().map(|signal| 128 + signal));
    Came {
        code: code.expect("one or the other").into(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Each of these texts comes to the same by its plan as in `bash` and `dash`, and leaves the same in the file `out`. `fill` makes
/// the files of the directory, each time anew.
pub(super) async fn do_as_in_shells<'a>(
    server: &TestServer,
    workspace: &Scratch,
    fill: fn(&Path),
    texts: fn(&str) -> Vec<&'a str>,
) {
    for shell in ["bash", "dash"] {
        if program(shell).is_none() {
            skip(&format!("there is no {shell}"));
            continue;
        }
        for text in texts(shell) {
            let filled = || {
                let directory = workspace.dir("files");
                fill(&directory);
                directory
            };
            let left_in = |directory: &Path| {
                let left = fs::read_to_string(directory.join("out")).ok();
                fs::remove_dir_all(directory).unwrap();
                left
            };
            let directory = filled();
            let planned = by_plan(server, text, &directory).await;
            let planned = (planned, left_in(&directory));
            let directory = filled();
            let came = by_shell(shell, text, &directory);
            assert_eq!(planned, (came, left_in(&directory)), "{shell}: {text}");
        }
    }
}

pub(super) async fn by_plan(server: &TestServer, text: &str, directory: &Path) -> Came {
    let answer = server
        .agent()
        .exec(json!({ "command": text, "workdir": directory }))
        .await;
    let run = answer.expect(200);
    let text_of = |member: &str| run.text(member).to_owned();
    Came {
        code: run["exitCode"]
            .as_i64()
            .unwrap_or_else(|| panic!("no exit code: {run}")),
        stdout: text_of("stdout"),
        stderr: text_of("stderr"),
    }
}

async fn server() -> TestServer {
    TestServer::allowlist_only()
        .document(&super::everything_covered())
        .start()
        .await
}

#[tokio::test]
async fn a_list_does_what_a_shell_does_with_it() {
    let server = server().await;
    let directory = server.scratch().dir("lists");
    fs::create_dir(directory.join("sub")).unwrap();
    fs::create_dir(directory.join("deep")).unwrap();
    fs::create_dir(directory.join("deep/er")).unwrap();
    std::os::unix::fs::symlink("deep/er", directory.join("link")).unwrap();
    write_file(&directory.join("sub/file"), "b\na\nb\n");
    for text in [
        "true && echo yes || echo no",
        "false && echo yes || echo no",
        "false || echo one && echo two",
        "true || echo one && echo two",
        "false || false; echo after",
        "true; false",
        "false; true",
        "true && false || false && true",
        "true | false",
        "false | true",
        "echo a; echo b | cat; echo c",
        "printf 'b\\na\\n' | sort | head -n 1",
        "yes | head -n 3",
        "seq 200000 | head -n 1; seq 3 | wc -l",
        "seq 1000 | sort -rn | cat | tail -n 1 && echo end",
        "cat; cat | wc -c; echo end",
        "ls /no/such/thing",
        "ls /no/such/thing && echo no; echo after",
        "ls /no/such/thing | cat",
        "cat /no/such/thing; cat /no/such/other | wc -l",
        "cd sub && pwd && cat file",
        "cd sub; pwd; cd ..; pwd",
        "cd sub && cd ../deep && pwd",
        "cd link && pwd && pwd -P && cd .. && pwd && pwd -P",
        "cd ./deep/../sub && pwd -L -P",
        "cd / && pwd && cd tmp && pwd",
        "false || cd sub && pwd",
        "true || cd sub; pwd",
        "cd sub && printenv PWD && printenv OLDPWD",
        "printenv PWD; printenv OLDPWD",
        "pwd | cat",
        "pwd | true",
        "echo x | pwd",
        "true | pwd | wc -l",
        "pwd | false || echo failed",
        "LC_ALL=C sort sub/file | LC_ALL=C uniq -c",
        "TZ=UTC printenv TZ; printenv TZ",
        "CI=1 CI=2 printenv CI | cat",
        ": && echo ok; :",
        "timeout 5 echo x | nice cat",
        "python3 -c 'import sys; sys.exit(3)'; python3 -c 'import sys; sys.exit(4)'",
        "python3 -c 'import sys; sys.exit(3)' | true",
        "true | python3 -c 'import sys; sys.exit(3)'",
        "python3 -c 'import sys; sys.exit(3)' || python3 -c 'import sys; print(\"x\", file=sys.stderr)'",
        "python3 -c 'import os; os.kill(os.getpid(), 13)'; echo after",
        "true; python3 -c 'import os; os.kill(os.getpid(), 13)'",
        "python3 -c 'import os; os.kill(os.getpid(), 13)' | cat; echo after",
        "python3 -c 'import os, signal; print(signal.getsignal(13) != signal.SIG_DFL)'; true",
        "python3 -c 'import os; print(os.getsid(0) == os.getpgrp() == os.getppid())'; true",
        "echo 'it'\\''s' \"a  b\" ''; echo end",
    ] {
        let ours = by_plan(&server, text, &directory).await;
        let dash = by_shell("dash", text, &directory);
        // A shell of a test is not the leader of its session, the first process of a run is.
        if text.contains("getsid") {
            assert_eq!((ours.code, ours.stdout.as_str()), (0, "True\n"), "{text}");
            continue;
        }
        // Python changes what it finds, so its own word on it differs from a shell to the next.
        if !text.contains("getsignal") {
            assert_eq!(ours, dash, "{text}");
        }
        let bash = by_shell("bash", text, &directory);
        assert_eq!((ours.code, &ours.stdout), (bash.code, &bash.stdout), "{text}");
    }
}

#[tokio::test]
async fn what_a_shell_says_itself_is_said_and_has_its_code() {
    let server = server().await;
    let directory = server.scratch().dir("lists");
    fs::create_dir(directory.join("sub")).unwrap();
    write_file(&directory.join("file"), "");
    for (text, code, stdout, said) in [
        (
            "cd nowhere || echo failed",
            0,
            "failed\n",
            "cd: ./nowhere: No such file or directory",
        ),
        ("cd nowhere && echo no", 2, "", "No such file or directory"),
        ("cd file; pwd | wc -l", 0, "1\n", "Not a directory"),
    ] {
        let ours = by_plan(&server, text, &directory).await;
        assert_eq!(
            (ours.code, ours.stdout.as_str()),
            (code, stdout),
            "{text}: {ours:?}"
        );
        assert!(ours.stderr.contains(said), "{text}: {ours:?}");
        let dash = by_shell("dash", text, &directory);
        assert_eq!(
            (dash.code, dash.stdout.as_str()),
            (code, stdout),
            "{text}: {dash:?}"
        );
    }
}

#[tokio::test]
async fn the_whole_list_is_one_run_for_its_time_limit() {
    let server = server().await;
    let body = json!({ "command": "sleep 1000 | sleep 1000; echo after", "timeout": 1 });
    let run = server.ran(body).await;
    assert_has!(run, { "timedOut": true, "stdout": "" });
}

#[tokio::test]
async fn a_step_that_is_told_to_end_may_take_its_leave() {
    let server = server().await;
    let directory = server.scratch().dir("lists");
    // A second signal would end it before it has said so.
    let leaving = "import signal, sys, time
signal.signal(15, lambda *_: (signal.signal(15, signal.SIG_DFL), time.sleep(0.2), print('bye', flush=True), sys.exit(0)))
open('ready', 'w').close()
time.sleep(1000)";
    let command = format!("python3 -c \"{leaving}\"; echo after");
    let body = json!({ "command": command, "workdir": directory, "background": true });
    let started = server.accepted(body).await;
    let run = started.text("runId");
    let ready = directory.join("ready");
    eventually(
        "the step is ready",
        || async { ready.exists() },
        |is_ready| *is_ready,
    )
    .await;
    let cancel = format!("/v1/runs/{run}/cancel");
    server.agent().posted(&cancel, json!({})).await;
    let ended = server.agent().finished(run).await;
    assert_has!(ended, { "status": "cancelled", "tail": "bye\n" });
}

#[tokio::test]
async fn a_step_that_an_earlier_one_replaced_does_not_start() {
    let server = server().await;
    let directory = server.scratch().dir("lists");
    fs::copy("/usr/bin/true", directory.join("tool")).unwrap();
    let ours = by_plan(
        &server,
        "cp /usr/bin/echo tool; ./tool ran; echo after",
        &directory,
    )
    .await;
    assert_eq!((ours.code, ours.stdout.as_str()), (126, ""), "{ours:?}");
    assert!(ours.stderr.contains("no longer what was judged"), "{ours:?}");
    // What nothing touches goes on to run.
    let again = by_plan(&server, "true; ./tool ran; echo after", &directory).await;
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (0, "ran\nafter\n"),
        "{again:?}"
    );
}

#[tokio::test]
async fn as_many_programs_as_a_plan_can_have_are_started() {
    let server = server().await;
    let directory = server.scratch().dir("lists");
    let mut text = Vec::new();
    for number in 0..64 {
        let name = format!("tool-{number}");
        fs::copy("/usr/bin/cat", directory.join(&name)).unwrap();
        text.push(format!("./{name}"));
    }
    text[0] = "echo through".to_owned();
    let ours = by_plan(&server, &text.join(" | "), &directory).await;
    assert_eq!((ours.code, ours.stdout.as_str()), (0, "through\n"), "{ours:?}");
}
