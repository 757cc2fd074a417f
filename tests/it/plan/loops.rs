//! `while` and `until` (G22), values that are known only when a command runs (G23) and the background (G24) do what `bash` and `dash` do
//! with them, and what is judged is what runs.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};

use super::{
    everything_covered, is_refused,
    lists::{by_plan, do_as_in_shells},
};
use crate::{
    confined::{ACCOUNT, PROGRAMS, possible},
    explain::ask_to_explain,
    support::{Members as _, Scratch, ServerBuilder, TestServer, eventually, write_file},
};

const LOOPS: [&str; 98] = [
    // Loops by an exit code.
    "while false; do echo a; done; echo $?",
    "until true; do echo a; done; echo $?",
    "until test -e made; do touch made; echo a; done; rm made",
    "while test -e in; do rm in; echo gone; done; echo $?",
    "while test -e in; do rm in; false; done; echo $?",
    "while test -e in; do rm in; python3 -c 'import sys; sys.exit(3)'; done; echo $?",
    "until test -e made\ndo\ntouch made\ndone\nls made; rm made",
    "until ! test -e in; do rm in; done && echo end",
    "while test -e in && true; do rm in || echo no; done | cat",
    "while test -e in; do rm in; echo \"rc=$?\"; done; echo \"rc=$?\"",
    "until test -e made; do (cd sub && touch ../made && ls); done; rm made",
    "if while false; do :; done; then echo yes; fi",
    "! while false; do :; done; echo $?",
    "while test -e in; do while test -e out; do rm out in; echo inner; done; done",
    // Lines.
    "cat lines | while read -r l; do printf '<%s>\\n' \"$l\"; done",
    "cat lines | while IFS= read -r l; do printf '<%s>\\n' \"$l\"; done",
    "cat lines | while IFS='' read -r l; do printf '%s|' \"$l\" \"${l}x\"; done",
    "cat lines | while IFS=\"\" read -r l; do printf '<%s>\\n' \"$l\"; done | sort",
    "printf 'a b\\n c \\n' | while read l; do echo \"<$l>\"; done",
    "printf 'a\\nb' | while read -r l; do echo \"<$l>\"; done; echo $?",
    "printf '' | while read -r l; do echo \"<$l>\"; done; echo $?",
    "printf '\\n\\n' | while read -r l; do echo \"<$l>\"; done",
    "printf 'a\\nb\\nc\\n' | while read -r l; do cat; echo \"<$l>\"; done",
    "printf 'a\\nb\\nc\\n' | while read -r l; do head -n 1 > /dev/null; echo \"<$l>\"; done",
    "printf 'a\\nb\\nc\\nd\\n' | while read -r l; do while read -r m; do echo \"$l$m\"; done; done",
    "printf 'a\\nb\\n' | while read -r l; do test \"$l\" = b && echo found \"$l\"; done; echo $?",
    "printf 'a\\nb\\n' | while read -r l; do if test \"$l\" = a; then echo first; else echo other; fi; done",
    "printf 'a\\nb\\n' | while read -r l; do false; done; echo $?",
    "printf 'a\\n' | while read -r l; do echo \"rc=$?\"; done",
    "printf 'a\\nb\\n' | { while read -r l; do echo \"$l\"; done; echo end; }",
    "printf 'a\\nb\\n' | (while read -r l; do echo \"$l\"; done) | sort -r",
    "printf 'a\\nb\\n' | while read -r l; do echo \"$(echo \"<$l>\"; pwd)\"; done",
    "printf -- '-n\\n-e x\\n' | while read -r l; do printf '%s\\n' \"$l\"; done",
    "printf 'a\\nb\\n' | while read -r l; do for f in 1 2; do echo \"$l\" $f; done; done",
    "printf 'a\\n$(touch made)\\n`touch made`\\n' | while read -r l; do echo \"$l\"; done; ls",
    "printf '\\303\\244\\n\\377\\n' | while read -r l; do echo \"$l\" | wc -c; done",
    "printf 'a\\r\\nb\\r\\n' | while read -r l; do echo \"<$l>\"; done | wc -c",
    "printf '  a\\tb \\t\\n' | while read -r l; do echo \"<$l>\"; done",
    "while read -r l; do echo \"$l\"; done; echo $?",
    "seq 200 | while read -r l; do test \"$l\" -gt 198 && echo \"$l\"; done; true",
    "seq 100000 | while read -r l; do cat > /dev/null; echo \"$l\"; done",
    // Values.
    "l=$(echo a); echo \"$l\"",
    "l=\"$(echo a)\"; echo \"<$l>\" \"${l}\" \"x${l}y\"",
    "l=$(printf 'a  b\\n\\n'); echo \"<$l>\"",
    "l=$(echo '*'); echo \"$l\"",
    "l=$(echo a)b$(echo c); echo \"$l\"",
    "l='x y'$(echo a)\"z\"; echo \"$l\"",
    "l=$(false); echo \"<$l>$?\"; l=$(false); echo $?",
    "l=$(true)$(python3 -c 'import sys; sys.exit(3)'); echo $?",
    "false; l=$?; echo a; echo \"$l\"",
    "python3 -c 'import sys; sys.exit(4)'; l=$?; true; echo \"rc=$l\"; echo $?",
    "l=$(echo a) && echo \"$l\"",
    "l=$(false) || echo no",
    "l=$(echo a); m=\"$l/$l\"; echo \"$m\"",
    "l=$(echo a); l=\"$l$(echo b)\"; echo \"$l\"",
    "l=$(echo a); l=b; echo $l",
    "l=a; l=$(echo $l$l); echo \"$l\"",
    "l=$(cd sub; pwd); echo \"$l\"; pwd",
    "l=$(cat in | sort); printf '%s|\\n' \"$l\"",
    "l=$(echo a); { echo \"$l\"; (echo \"$l\"); if true; then echo \"$l\"; fi; }",
    "l=$(echo \"$(echo a)\" b); echo \"$l\"",
    "l=$(printf -- -n); echo \"$l\" x",
    "l=$(seq 3 | while read -r m; do echo \"<$m>\"; done); echo \"$l\"",
    "seq 3 | while read -r m; do l=$(echo \"$m\" | wc -c); test \"$l\" -gt 1 && echo \"$m\"; done",
    "test -n \"$(echo)\" || echo empty; l=$(true); test -z \"$l\" && echo empty",
    "X=1; l=$(echo $X); echo \"$l\"",
    // Background.
    "echo a & wait; echo b",
    "true & echo $?; wait",
    "true & test $! -gt 1 && echo number; wait",
    "true & wait; test \"$!\" -gt 1 && echo number",
    "true & (test \"$!\" -gt 1 && echo apart); wait",
    "true & test \"$!\" -gt 1 | cat; echo $?; wait",
    "true & echo \"x$(echo \"$!\")\" | grep -cE '^x[0-9]+$'; wait",
    "true & p=$!; (true & wait); test \"$p\" = \"$!\" && echo same",
    "true & p=$!; true | true & test \"$!\" != \"$p\" && echo other; wait",
    "true & p=$!; { true & }; test \"$p\" != $! && echo other; wait",
    "true & p=$!; for f in 1 2; do true & done; test \"$p\" != $! && echo other; wait",
    "true & p=$!; { test \"$p\" = \"$!\" && echo same; } & wait",
    "true & p=$!; echo \"$(true & test \"$!\" != \"$p\" && echo other)\"; wait",
    "true & p=$!; if true; then true & fi; test \"$p\" != \"$!\" && echo other; wait",
    "for f in 1 2; do true & test \"$!\" -gt 1 && echo each; done; wait",
    "true & p=\"pid $!\"; echo \"$p\" | grep -cE '^pid [0-9]+$'; wait",
    "false & wait; echo $?",
    "false && echo a & wait",
    "true && echo a & wait; echo b",
    "echo b | cat & wait\necho c",
    "cat & wait; echo end",
    "(echo a & wait); echo b",
    "{ echo a & wait; }; echo b",
    "for f in 1 2 3; do echo a & done; wait; echo end",
    "seq 3 | while read -r l; do echo x & done; wait",
    "seq 100 | while read -r l; do (true & wait); done; echo end",
    // Nobody reads on: what a shell writes by itself ends it.
    "yes | while read -r l; do echo \"$l\"; done | head -n 3",
    "while true; do echo x; done | head -n 1",
    "while true; do if printf 'x\\n'; then true; fi; done | head -n 2",
    "while ! echo x; do true; done; while true; do pwd; done | head -n 1 | wc -l",
    "x=$(while true; do echo x; done | head -n 1); echo \"$x\"",
    "until ! echo x; do true; done | head -n 1; echo end",
];

fn reads() -> Value {
    json!({
        "nullRedirections": true, "fileRedirections": true, "filePatterns": true, "variables": true,
        "substitutions": true, "braces": true, "compoundCommands": true, "temporaryFiles": true,
        "loops": true, "laterValues": true, "backgroundCommands": true, "foundFiles": true,
    })
}

fn reading(workspace: &Path) -> ServerBuilder {
    super::reading(workspace, "off", &reads())
}

fn fill(directory: &Path) {
    fs::create_dir_all(directory.join("sub")).unwrap();
    write_file(&directory.join("in"), "b\na\n");
    write_file(&directory.join("out"), "");
    write_file(
        &directory.join("lines"),
        "plain\n  two  words \t\n\n\\back\\slash\\\n*\n$HOME `id` \"q\" 'p'\n~\n-n\nlast",
    );
    write_file(&directory.join("sub/file"), "f\n");
}

#[tokio::test]
async fn a_loop_does_what_shells_do_with_it() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    do_as_in_shells(&server, &workspace, fill, |_shell| LOOPS.to_vec()).await;
}

/// Each would make `marker`, or read what nobody may read. Beside it what differs only in being harmless, which runs.
#[tokio::test]
async fn a_loop_that_hides_something_is_asked_about() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    fill(&directory);
    let programs = [
        "echo", "cat", "sed", "head", "sqlite3", "ls", "true", "false", "test", "sort", "git",
    ];
    let entries: Vec<_> = programs
        .iter()
        .map(|name| json!({ "pattern": format!("/**/{name}") }))
        .collect();
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": entries } } });
    let server = reading(&directory).document(&document).start().await;
    let untouched = TestServer::allowlist_only().document(&document).start().await;
    let marker = directory.join("marker");
    for text in [
        "while true; do touch marker; done",
        "until touch marker; do true; done",
        "echo 'touch marker' | while read -r l; do sh; done",
        "echo marker | while read -r l; do touch \"$l\"; done",
        "echo touch | while read -r l; do \"$l\" marker; done",
        "echo 'touch marker' | while read -r l; do $l; done",
        "echo '1w .npmrc' | while read -r l; do sed -n \"$l\" in; done",
        "echo -omarker | while read -r l; do sort \"$l\" in; done",
        "echo . | while read -r PATH; do ls; done",
        "echo x | while read -r IFS; do ls; done",
        "echo in | while read -r BASH_ENV; do ls; done",
        "echo in | while read -r LD_PRELOAD; do ls; done",
        "echo 'x y' | while read -r l m; do ls; done",
        "echo x | while read -r -d y l; do ls; done",
        "echo x | while read -u 0 l; do ls; done",
        "echo x | while read -p y l; do ls; done",
        "echo x | while read -a l; do ls; done",
        "echo x | while read -t 1 l; do ls; done",
        "echo x | while read -r l; do cat $l; done",
        "echo x | while read -r l; do cat < \"$l\"; done",
        "echo marker | while read -r l; do cat in > \"$l\"; done",
        "echo x | while read -r l; do trap 'touch marker' EXIT; done",
        "l=$(echo marker); touch \"$l\"",
        "l=$(touch marker); echo \"$l\"",
        "l=$(echo touch); \"$l\" marker",
        "PATH=$(echo .); ls",
        "LD_PRELOAD=$(echo in) ls",
        "l=$(echo x) ls",
        "l=$(echo log); git \"$l\"",
        "l=$(echo '1w .npmrc'); sed -n \"$l\" in",
        "touch marker & wait",
        "ls & touch marker",
        "true && touch marker & wait",
        "echo 'touch marker' | sh & wait",
        "(touch marker &)",
        "ls & wait $!",
        "echo $! && ls &",
        "test -e in && { ls & }; echo \"$!\"",
    ] {
        is_refused(&server, &directory, text).await;
        assert!(!marker.exists(), "{text}");
        assert!(!directory.join(".npmrc").exists(), "{text}");
    }
    for text in [
        "until true; do cat in; done",
        "echo 'touch marker' | while read -r l; do cat; done",
        "echo marker | while read -r l; do echo \"$l\"; done",
        "echo 'touch marker' | while read -r l; do test \"$l\"; done",
        "l=$(echo marker); echo \"$l\"",
        "ls & wait",
        "true && cat in & wait",
    ] {
        let run = server.ran(json!({ "command": text, "workdir": directory })).await;
        assert_eq!(run["exitCode"], 0, "{text}: {run}");
        assert!(!marker.exists(), "{text}");
        let answer = untouched
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        answer.problem(403, "exec-denied");
    }
    // As root nothing hides the server's own files, so no program gets a word that may name one of them.
    for text in [
        "l=$(echo in); cat \"$l\"",
        "echo in | while read -r l; do cat \"$l\"; done",
    ] {
        is_refused(&server, &directory, text).await;
    }
}

/// Where a shell would make something else of a line, nothing more of the run starts.
#[tokio::test]
async fn a_line_that_shells_read_in_other_ways_stops_the_run() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    let directory = workspace.path();
    for text in [
        "printf 'a\\\\b\\n' | while read l; do echo \"$l\"; done; echo after",
        "printf 'a\\0b\\n' | while read -r l; do echo \"$l\"; done; echo after",
        "head -c 140000 /dev/zero | tr '\\0' x | while read -r l; do echo \"$l\"; done; echo after",
        "l=$(head -c 140000 /dev/zero | tr '\\0' x); echo after",
        "cp /usr/bin/echo tool; seq 2 | while read -r l; do ./tool \"$l\"; done; echo after",
        "l=$(head -c 100000 /dev/zero | tr '\\0' x); m=\"$l$l\"; echo after",
        "l=$(head -c 100000 /dev/zero | tr '\\0' x); a=$l; b=$l; c=$l; d=$l; e=$l; f=$l; g=$l; h=$l; i=$l; j=$l; k=$l; echo after",
        "printf '%s\\n' --version | while read -r l; do echo \"$l\"; done; echo after",
        "cp /usr/bin/echo tool; l=$(./tool x); echo after",
        "cp /usr/bin/echo tool; { ./tool x; } & wait; echo after",
    ] {
        fs::copy("/usr/bin/true", directory.join("tool")).unwrap();
        let text = &text.replace("./tool \"$l\"", "./tool x");
        let came = by_plan(&server, text, &directory).await;
        assert_eq!((came.code, came.stdout.as_str()), (126, ""), "{text}: {came:?}");
    }
    let came = by_plan(
        &server,
        "printf 'ab\\n' | while read l; do echo \"$l\"; done; echo after",
        &directory,
    )
    .await;
    assert_eq!((came.code, came.stdout.as_str()), (0, "ab\nafter\n"), "{came:?}");
}

/// A loop without an end, and what runs in the background, end with their run.
#[tokio::test]
async fn nothing_outlives_its_run() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    let directory = workspace.path();
    for text in [
        "while true; do true; done; echo after",
        "until false; do sleep 0.01; done",
        "yes | while read -r l; do true; done",
        "sleep 1000 & wait; echo after",
        "while true; do sleep 1000 & done",
        "l=$(while true; do true; done); echo after",
    ] {
        let run = server
            .ran(json!({ "command": text, "timeout": 1, "workdir": directory }))
            .await;
        assert_has!(run, { "timedOut": true, "stdout": "" }, "{text}");
    }
    // However many subshells begin it.
    let text = "seq 200 | while read -r l; do (sleep 33 &); done; echo after";
    let run = server.ran(json!({ "command": text, "workdir": directory })).await;
    assert_has!(run, { "exitCode": 126, "stdout": "" }, "{text}");
    run.says("stderr", "too many commands run in the background");
    eventually(
        "its processes end",
        || async { is_running(&["sleep\u{0}33\u{0}"]) },
        |is_running| !is_running,
    )
    .await;
    // The shell would be gone and leave it running; it does not write once its run has ended, and the answer tells.
    for text in [
        "{ sleep 30; touch late; } & echo begun",
        "(sleep 30 && touch late &); echo begun",
        "sleep 31 & echo begun",
    ] {
        let run = server.ran(json!({ "command": text, "workdir": directory })).await;
        assert_has!(run, { "exitCode": 0, "stdout": "begun\n" }, "{text}");
        let warnings = run["warnings"].to_string();
        assert!(warnings.contains("leftovers-killed"), "{text}: {run}");
        eventually(
            "its processes end",
            || async { is_running(&["sleep\u{0}30\u{0}", "sleep\u{0}31\u{0}"]) },
            |is_running| !is_running,
        )
        .await;
        assert!(!directory.join("late").exists(), "{text}");
    }
}

/// Whether a process of this machine has one of these command lines.
fn is_running(lines: &[&str]) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .any(|line| lines.iter().any(|other| line == other.as_bytes()))
}

/// Where the level hides the server's own files, a program that only reads gets words that are not known, and finds nothing there.
#[tokio::test]
async fn a_confined_program_reads_what_is_not_known_and_nothing_of_the_server() {
    or_skip!(possible());
    let listed = ["cat", "echo", "find", "head", "ls", "wc", "sed", "printf"];
    let allowlist: Vec<Value> = listed.iter().map(|name| json!({ "pattern": name })).collect();
    let server = TestServer::asking()
        .config(&json!({ "tools": { "exec": {
            "host": "gateway", "security": "allowlist", "ask": "on-miss", "reads": reads(),
        } } }))
        .agents(&json!({ "main": { "allowlist": allowlist } }))
        .env("PATH", PROGRAMS)
        .env("SHELL", "/bin/bash")
        .run_as(ACCOUNT)
        .start()
        .await;
    let state = server.state().display().to_string();
    for (text, printed) in [
        ("printf 'one\\ntwo\\n' > f; l=$(ls f); cat \"$l\"", "one\ntwo\n"),
        (
            "ls f | while read -r l; do head -n 1 \"$l\"; wc -l \"$l\"; done",
            "one\n2 f\n",
        ),
        ("cat \"$(ls f)\"", "one\ntwo\n"),
        ("l=$(printf -- -n); cat \"$l\" f", "     1\tone\n     2\ttwo\n"),
        ("find . -name f | xargs cat", "one\ntwo\n"),
        ("find . -name f -exec head -n 1 {} +", "one\n"),
    ] {
        let run = server.ran(json!({ "command": text })).await;
        assert_has!(run, { "exitCode": 0, "stdout": printed }, "{text}");
        let record = server.agent().run(run.text("runId")).await;
        assert_has!(record, { "isolation": "confined" }, "{text}");
    }
    let own = server.state().join("countersign/operator.token");
    symlink(own, server.state().join("workspace/own")).unwrap();
    let (left, right) = state.split_at(state.len() - 2);
    for text in [
        format!("l=$(printf %s%s '{left}' '{right}/countersign/operator.token'); cat \"$l\""),
        format!(
            "printf '%s%s\\n' '{left}' '{right}/countersign/operator.token' | while read -r l; do head \"$l\"; done"
        ),
        format!("printf '%s%s\\n' '{left}' '{right}/openclaw.json' | while read -r l; do cat \"$l\"; done"),
        "l=$(printf /proc/%s/environ \"$(cat /proc/self/stat)\"); cat \"$l\"".to_owned(),
        "find . -name 'ow?' -exec cat {} +".to_owned(),
        "find . -name 'ow?' | xargs cat".to_owned(),
    ] {
        let run = server.ran(json!({ "command": text })).await;
        assert_eq!(run["stdout"], "", "{text}: {run}");
        assert_ne!(run["exitCode"], 0, "{text}: {run}");
    }
    for text in [
        "l=$(ls f); sed -n \"$l\" f".to_owned(),
        format!("cat {state}/countersign/operator.token"),
        "l=$(ls f); cat \"$l\" > \"$l\"".to_owned(),
    ] {
        let explained = ask_to_explain(&server.agent(), &json!({ "command": text }))
            .await
            .expect(200);
        assert_has!(explained, { "outcome": "ask" }, "{text}");
    }
}
