//! `tools.exec.onMiss = "held"`: a text that cannot be taken apart runs where nothing but listed programs can be executed.
//!
//! The server runs under an account of its own: held texts need the level `confined`, which root has not.

mod attacks;
mod same;
mod walls;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    confined::{ACCOUNT, PROGRAMS, possible},
    explain::ask_to_explain,
    support::{Members, ServerBuilder, TestServer, assert_says},
};

/// An agent with the same allowlist whose commands run in the built-in sandbox.
const BOXED: &str = "boxed";

/// An agent whose commands may do anything: what it reaches shows that an attack is real.
const FREE: &str = "free";

/// Programs with an entry for any arguments.
const LISTED: &[&str] = &[
    "awk", "basename", "cat", "comm", "cp", "cut", "date", "diff", "dirname", "expr", "find", "fold", "git",
    "grep", "head", "join", "ln", "ls", "mkdir", "mktemp", "mv", "nl", "od", "paste", "python3", "rev", "rm",
    "rmdir", "sed", "seq", "sleep", "sort", "stat", "tac", "tail", "tee", "tr", "tsort", "uniq", "wc",
];

/// A server with `exec` on top of the settings of these tests; not started yet.
fn builder(exec: &Value) -> ServerBuilder {
    let mut all = json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "onMiss": "held" });
    all.as_object_mut()
        .unwrap()
        .extend(exec.as_object().cloned().unwrap_or_default());
    let allowlist: Vec<Value> = LISTED.iter().map(|name| json!({ "pattern": name })).collect();
    TestServer::asking()
        .config(&json!({
            "tools": { "exec": all },
            "agents": { "list": [
                { "id": "main" },
                {
                    "id": BOXED,
                    "tools": { "exec": { "host": "sandbox" } },
                    "sandbox": { "mode": "all", "workspaceAccess": "rw", "docker": { "workdir": "/workspace" } },
                },
                {
                    "id": FREE,
                    "tools": { "exec": { "security": "full", "ask": "off", "onMiss": "ask", "isolation": "same-user" } },
                },
            ] },
        }))
        .agents(&json!({ "main": { "allowlist": allowlist }, BOXED: { "allowlist": allowlist } }))
        .toml("[sandbox]\nbackend = \"builtin\"\n")
        .env("PATH", PROGRAMS)
        .env("SHELL", "/bin/bash")
        .env("LC_ALL", "C.UTF-8")
        .run_as(ACCOUNT)
}

/// A file of texts.
fn data(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/held_texts");
    fs::read_to_string(folder.join(name)).expect("a file of texts")
}

/// Gives a file, or a directory with everything in it, to the account of the server.
fn give(path: &Path) {
    let found = fs::symlink_metadata(path).expect("something to give");
    std::os::unix::fs::lchown(path, Some(ACCOUNT), Some(ACCOUNT)).expect("giving a file away");
    if found.is_dir() {
        for entry in fs::read_dir(path).expect("a directory") {
            give(&entry.expect("an entry").path());
        }
    }
}

/// The agent's workspace.
fn workspace(server: &TestServer) -> PathBuf {
    server.state().join("workspace")
}

#[tokio::test]
async fn a_text_that_cannot_be_taken_apart_runs_held_and_is_reported_as_such() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    let mut events = server.operator().events("", None).await;
    let body = json!({ "command": "printf 'a\\nb\\n' > f; for x in f*; do wc -l < \"$x\"; done; id" });
    let asked = ask_to_explain(&server.agent(), &body).await.expect(200);
    assert_has!(asked, { "outcome": "ask" });
    assert_says(asked.text("notHeld"), "it starts id");
    let body = json!({ "command": "printf 'a\\nb\\n' > f; for x in f*; do wc -l < \"$x\"; done" });
    let explained = ask_to_explain(&server.agent(), &body).await.expect(200);
    assert_has!(explained, { "outcome": "run", "held": true, "binding": "held", "diverted": false });
    let programs = explained["heldPrograms"].to_string();
    assert_says(&programs, "/usr/bin/wc");
    assert!(!programs.contains("/usr/bin/id"), "{programs}");
    let answer = server.ran(body).await;
    assert_has!(answer, {
        "host": "gateway", "status": "completed", "held": true, "stdout": "2\n", "warnings": [],
    });
    let run = server.agent().run(answer.text("runId")).await;
    assert_has!(run, { "host": "gateway", "held": true, "binding": "held", "isolation": "confined" });
    let requested = events.next_of("exec.requested").await;
    assert_has!(requested.data, { "binding": "held" });
    assert!(server.operator().pending().await.is_empty());
}

#[tokio::test]
async fn a_refused_program_is_named() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    let answer = server.ran(json!({ "command": "x=id; $x" })).await;
    assert_has!(answer, { "held": true, "exitCode": 126, "stdout": "" });
    let warning = &answer["warnings"][0];
    assert_eq!(warning["code"], "held-refused", "{answer}");
    assert_says(warning.text("message"), "id was refused");
}

/// A text is asked about, and the answer says why it was not held.
async fn is_asked(server: &TestServer, body: Value, why: Option<&str>) {
    let explained = ask_to_explain(&server.agent(), &body).await.expect(200);
    assert_has!(explained, { "outcome": "ask" }, "{body}");
    let asked = server.accepted(body.clone()).await;
    assert_has!(asked, { "status": "approval-pending", "host": "gateway" }, "{body}");
    if let Some(why) = why {
        assert_says(explained.text("notHeld"), why);
        assert_eq!(asked["warnings"][0]["code"], "not-held", "{asked}");
        assert_says(asked["warnings"][0].text("message"), why);
    } else {
        assert!(explained.get("notHeld").is_none(), "{explained}");
        assert_eq!(asked["warnings"], json!([]), "{asked}");
    }
}

#[tokio::test]
async fn what_is_no_miss_of_that_kind_is_asked_about_as_before() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    let text = |text: &str| json!({ "command": text });
    for body in [
        text("id"),
        text("cat f | id"),
        json!({ "argv": ["id", "$x"] }),
        json!({ "command": "cat *", "ask": "always" }),
    ] {
        is_asked(&server, body, None).await;
    }
    for (body, why) in [
        (text("cat $(id)"), "it starts id"),
        (text("./x *"), "it starts ./x"),
        (
            text("cat ~/.openclaw/* $x ; cat \"$HOME\"/../state/openclaw.json; bash $x"),
            "it starts bash",
        ),
        (json!({ "command": "cat *", "pty": true }), "terminal"),
        (
            json!({ "command": "cat *", "background": true }),
            "its input stays open",
        ),
        (json!({ "command": "cat *", "env": { "FOO": "x" } }), "variables"),
        (
            json!({ "command": "cat *", "workdir": "/tmp" }),
            "outside of the workspace",
        ),
        (
            text(&format!("cat {}/openclaw.json *", server.state().display())),
            "files of the server",
        ),
    ] {
        is_asked(&server, body, Some(why)).await;
    }
    // The default, and another agent's own word.
    let covered = server.ran(text("cat /dev/null")).await;
    assert!(covered.get("held").is_none(), "{covered}");
    let server = builder(&json!({ "onMiss": "ask" })).start().await;
    is_asked(&server, text("cat *"), None).await;
    let server = builder(&json!({ "ask": "off" })).start().await;
    assert_eq!(server.denied(text("cat *")).await["reason"], "allowlist-miss");
}

#[tokio::test]
async fn what_listed_programs_start_runs_held_where_it_is_listed_too() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    server.ran(json!({ "command": "echo one > f; cat *" })).await;
    for (text, output) in [
        ("find . -name f -exec wc -c {} \\;", "4 ./f\n"),
        ("ls f | xargs -n 1 cat", "one\n"),
        ("FOO=1 cat f", "one\n"),
    ] {
        let body = json!({ "command": text });
        let explained = ask_to_explain(&server.agent(), &body).await.expect(200);
        assert_has!(explained, { "outcome": "run", "held": true }, "{text}");
        let answer = server.ran(body).await;
        assert_has!(answer, { "held": true, "stdout": output, "warnings": [] }, "{text}");
        let run = server.agent().run(answer.text("runId")).await;
        assert_has!(run, { "binding": "held" }, "{text}");
        assert!(run.get("confined").is_none(), "{run}");
    }
    for (text, why) in [
        ("find . -exec touch m \\;", "it starts touch"),
        ("ls f | xargs touch", "it starts touch"),
        ("ls f | xargs -n 1 sh -c x", "it starts sh"),
    ] {
        is_asked(&server, json!({ "command": text }), Some(why)).await;
    }
    // A builtin is no program.
    let body = json!({ "command": "ls f | xargs echo" });
    is_asked(&server, body, Some("it starts echo")).await;
    // More than what it starts is asked about.
    let body = json!({ "command": "git -c core.pager=cat log" });
    is_asked(&server, body, Some("an argument makes this program run another")).await;
    is_asked(&server, json!({ "command": "find . -exec cat {} +; id" }), None).await;
}

#[tokio::test]
async fn programs_that_are_named_run_held_with_arguments_that_no_entry_covers() {
    or_skip!(possible());
    let entries = json!([{ "pattern": "cat" }, { "pattern": "awk", "argPattern": "^1 f$" }]);
    let server =
        builder(&json!({ "heldPrograms": ["awk", "python3", "touch", "bash", "passwd", "which", "c*"] }))
            .agents(&json!({ "main": { "allowlist": entries } }))
            .start()
            .await;
    let made = server
        .ran(json!({ "command": "touch f; echo one > f; cat *" }))
        .await;
    assert_has!(made, { "held": true, "stdout": "one\n" });
    for (text, output) in [
        ("awk '{ print NR, $1 }' f", "1 one\n"),
        ("cat f | python3 -c 'print(input())'", "one\n"),
        ("touch sub && awk 1 sub", ""),
    ] {
        let body = json!({ "command": text });
        let explained = ask_to_explain(&server.agent(), &body).await.expect(200);
        assert_has!(explained, { "outcome": "run", "held": true }, "{text}");
        let answer = server.ran(body).await;
        assert_has!(answer, { "held": true, "stdout": output, "warnings": [] }, "{text}");
    }
    // What an entry covers runs as ever.
    let covered = server.ran(json!({ "command": "awk 1 f" })).await;
    assert!(covered.get("held").is_none(), "{covered}");
    // It reaches neither the network nor what lies outside, and starts nothing else.
    let home = "python3 -c 'import os; print(os.listdir(os.path.expanduser(\"~\")))'";
    let network = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 1))'";
    let started = "python3 -c 'import os; os.execv(\"/usr/bin/id\", [\"id\"])'";
    for text in [home, network, started] {
        let answer = server.ran(json!({ "command": text })).await;
        assert_has!(answer, { "held": true, "exitCode": 1, "stdout": "" }, "{text}");
    }
    for (text, why) in [
        ("awk 1 f; id", "no entry covers this"),
        ("bash -c 'awk 2 f'", "not with these arguments"),
        ("awk 1 $x; bash -c y", "it starts bash"),
        // It is set-user-id, a script, and no name of one program.
        ("passwd $x", "it starts passwd"),
        ("which $x", "it starts which"),
        ("cut $x", "it starts cut"),
        ("awk 1 $x; id", "it starts id"),
    ] {
        is_asked(&server, json!({ "command": text }), Some(why)).await;
    }
    let body = json!({ "command": "awk 2 f", "ask": "always" });
    is_asked(&server, body, None).await;
    // Without held texts it says nothing.
    let asking = builder(&json!({ "heldPrograms": ["awk"], "onMiss": "ask" }))
        .agents(&json!({ "main": { "allowlist": entries } }))
        .start()
        .await;
    is_asked(&asking, json!({ "command": "awk 2 f" }), None).await;
    // Code on the command line needs a person all the same.
    let strict = builder(&json!({ "heldPrograms": ["python3", "awk"], "strictInlineEval": true }))
        .agents(&json!({ "main": { "allowlist": entries } }))
        .start()
        .await;
    let body = json!({ "command": "python3 -c 'print(1)'" });
    let explained = ask_to_explain(&strict.agent(), &body).await.expect(200);
    assert_has!(explained, { "outcome": "ask" });
}

/// `@workspace` stands for programs whose work stays in the workspace, and for git where it reads.
#[tokio::test]
async fn programs_of_the_workspace_run_held_without_an_entry() {
    or_skip!(possible());
    let server = builder(&json!({ "heldPrograms": ["@workspace"] }))
        .agents(
            &json!({ "main": { "allowlist": [{ "pattern": "git", "argPattern": "^(init|add|commit)" }] } }),
        )
        .start()
        .await;
    let begin = "git init -q . && git add .";
    server.ran(json!({ "command": begin })).await;
    for (text, output) in [
        ("printf 'a\\nb\\n' > f; tac f | rev", "b\na\n"),
        ("seq 3 | awk '{ s += $1 } END { print s }'", "6\n"),
        ("python3 -c 'print(1)' && rm f && test ! -e f", "1\n"),
        ("git status --short -b | head -n 1", "## No commits yet on main\n"),
        (
            "git -C . rev-parse --is-inside-work-tree; for b in $(git branch -a); do echo \"$b\"; done",
            "true\n",
        ),
    ] {
        let body = json!({ "command": text });
        let explained = ask_to_explain(&server.agent(), &body).await.expect(200);
        assert_has!(explained, { "outcome": "run", "held": true }, "{text}");
        let answer = server.ran(body).await;
        assert_has!(answer, { "held": true, "exitCode": 0 }, "{text}");
        assert!(
            answer["stdout"] == output || text.starts_with("git status"),
            "{text}: {answer}"
        );
    }
    // What would write to the repository, or reach another one, is asked about, and so is what has another program.
    for (text, why) in [
        ("git push origin main", "git push"),
        ("python3 -c 'print(1)' && git commit -m x", "git commit"),
        ("git branch -D x", "git branch"),
        ("git config core.pager x", "git config"),
        ("for b in a b; do git checkout $b; done", "git checkout"),
        ("git log; id", "no entry covers this"),
        ("curl http://localhost/", "no entry covers this"),
        ("git $x y", "git "),
        (
            "echo 'touch marker' > .git/hooks/post-checkout; $x",
            "decides what programs start",
        ),
        ("[[ 1 ]] && printf 'touch marker' > f && cp f .envrc", ".envrc"),
    ] {
        is_asked(&server, json!({ "command": text }), Some(why)).await;
    }
    // Where the text hides it, the walls keep it.
    let before = fs::read(workspace(&server).join(".git/config")).unwrap();
    for text in [
        "g=git; $g config core.pager 'touch marker'",
        "g=git; $g commit --allow-empty -qm x",
        "d=.git; echo 'touch marker' > \"$d/hooks/post-checkout\"; $x",
        "python3 -c 'open(\".git/hooks/pre-commit\", \"w\")'",
        "d=.git; rm -rf \"$d\"; mv \"$d\" elsewhere",
    ] {
        let answer = server.ran(json!({ "command": text })).await;
        assert_has!(answer, { "held": true }, "{text}");
        assert_eq!(
            fs::read(workspace(&server).join(".git/config")).unwrap(),
            before,
            "{text}"
        );
        for made in [
            "marker",
            "elsewhere",
            ".git/hooks/post-checkout",
            ".git/hooks/pre-commit",
        ] {
            assert!(!workspace(&server).join(made).exists(), "{text}: {made}");
        }
    }
}

#[tokio::test]
async fn an_entry_that_confines_is_listed_where_the_walls_keep_no_less() {
    or_skip!(possible());
    let entries = json!([
        { "pattern": "cat", "confine": { "starts": [] } },
        { "pattern": "grep", "confine": { "starts": "judged", "connects": [443] } },
        { "pattern": "mkdir", "confine": { "starts": [], "writes": ["workspace"] } },
        { "pattern": "sort", "confine": { "writes": [] } },
        { "pattern": "sed", "argPattern": "^-n$", "confine": { "starts": [] } },
    ]);
    let server = builder(&json!({}))
        .agents(&json!({ "main": { "allowlist": entries } }))
        .start()
        .await;
    let listed = async |body: Value| {
        let explained = ask_to_explain(&server.agent(), &body).await.expect(200);
        assert_has!(explained, { "held": true }, "{body}");
        let programs = explained.list("heldPrograms").iter();
        let name = |path: &Value| path.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        programs.map(name).collect::<Vec<_>>()
    };
    let starters = ["env", "nice", "nohup", "stdbuf", "timeout", "xargs"];
    let found = listed(json!({ "command": "cat *" })).await;
    assert_eq!(
        found,
        [&["cat", "env", "grep", "mkdir"][..], &starters[1..]].concat()
    );
    let made = server.ran(json!({ "command": "mkdir sub$x; cat sub/*" })).await;
    assert_has!(made, { "held": true });
    // There it writes above the directory of the call.
    let below = workspace(&server).join("sub");
    let found = listed(json!({ "command": "cat *", "workdir": below })).await;
    assert_eq!(found, [&["cat", "env", "grep"][..], &starters[1..]].concat());
    for name in ["sort", "sed"] {
        let body = json!({ "command": format!("{name} -n *") });
        is_asked(&server, body, Some(&format!("it starts {name}"))).await;
    }
}

#[tokio::test]
async fn a_rule_that_is_near_has_a_person_asked() {
    or_skip!(possible());
    let entries = json!([{ "pattern": "cat" }]);
    let denying = builder(&json!({}))
        .agents(&json!({ "main": { "allowlist": entries, "denylist": [{ "pattern": "rm" }] } }))
        .start()
        .await;
    let body = json!({ "command": "cat *" });
    let explained = ask_to_explain(&denying.agent(), &body).await.expect(200);
    assert_has!(explained, { "outcome": "ask", "reason": "needs-person" });
    let ruled =
        builder(&json!({})).toml("[[approvals.rules]]\nagents = [\"other\"]\napprovals_required = 2\n");
    is_asked(&ruled.start().await, body, Some("approval rules")).await;
    let strict = builder(&json!({ "strictInlineEval": true })).start().await;
    let explained = ask_to_explain(&strict.agent(), &json!({ "command": "wc *" }))
        .await
        .expect(200);
    assert_has!(explained, { "held": true });
    let programs = explained["heldPrograms"].to_string();
    for code in ["python", "awk"] {
        assert!(!programs.contains(code), "{programs}");
    }
}

#[tokio::test]
async fn without_the_level_or_the_kernel_a_person_is_asked() {
    or_skip!(possible());
    for version in [0, 1, 3, 4] {
        let old = builder(&json!({}))
            .env("COUNTERSIGN_TEST_PROTECTION_OFF", &format!("landlock-{version}"))
            .start()
            .await;
        let why = format!("version {version} of Landlock");
        is_asked(&old, json!({ "command": "cat *" }), Some(&why)).await;
        let kernel = old.operator().read("/v1/settings").await["kernel"].clone();
        let held = kernel
            .list("parts")
            .iter()
            .find(|part| part["part"] == "held-texts");
        assert_has!(held.expect("it is said"), { "kept": false });
    }
    let new_enough = builder(&json!({}))
        .env("COUNTERSIGN_TEST_PROTECTION_OFF", "landlock-6")
        .start()
        .await;
    let run = new_enough.ran(json!({ "command": "echo > f; cat *" })).await;
    assert_has!(run, { "held": true });
    let kernel = new_enough.operator().read("/v1/settings").await["kernel"].clone();
    for part in kernel.list("parts") {
        assert_has!(part, { "kept": true });
    }
    let free = builder(&json!({ "isolation": "same-user" })).start().await;
    is_asked(&free, json!({ "command": "cat *" }), Some("level confined")).await;
}
