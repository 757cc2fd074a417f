//! What is known only when a command begins (G19) is what `bash` and `dash` put in, and lists in braces (G20) are what `bash` makes of
//! them.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::json;

use super::{
    everything_covered, is_refused,
    lists::{by_plan, do_as_in_shells},
};
use crate::explain::ask_to_explain;
use crate::support::{Members, Scratch, ServerBuilder, TestServer, write_file};

const SUBSTITUTIONS: [&str; 40] = [
    "false; echo $? \"$?\" a$?b \"a $? b\"",
    "true; echo \"rc=$?\"; echo $?",
    "echo $?",
    "false || echo $?; false && echo no; echo $?",
    "python3 -c 'import sys; sys.exit(3)'; echo $?; echo $?",
    "python3 -c 'import sys; sys.exit(3)' | cat; echo $?",
    "cat in | python3 -c 'import sys; sys.exit(4)'; echo $?",
    "false; echo $? | cat; echo $?",
    "false; true | echo $?",
    "python3 -c 'import os; os.kill(os.getpid(), 13)'; echo $?",
    "cat nothing 2>/dev/null; echo \"exit: $?\"",
    "cat in > out; echo $?; cat nothing > out 2>&1; echo $?",
    "X=1; echo $?; false; X=2; echo $?",
    "cd sub; echo $?; cd ..; false; cd sub; echo $?",
    "test 1 = 2; test $? = 1 && echo same",
    "printf '%s|' \"$(cat in)\" end",
    "echo \"$(cat in)\"",
    "echo \"$(cat in)x\" \"y$(cat sub/file)z\"",
    "echo \"a$(printf 'x\\n\\n\\n')b$(printf '\\n')c\"",
    "echo \"$(printf '')\" end; printf '%s|' \"$(printf '')\" x",
    "printf '%s|' \"$(printf ' a  b ')\"",
    "printf '%s|' \"$(printf '*')\" \"$(printf '$X')\" \"$(printf '\"')\" \"$(echo \"it's\")\"",
    "echo \"$(cd sub && pwd && cat file)\"; pwd",
    "cd sub && echo \"$(cd .. && pwd)\" && pwd; echo \"$(cat file)\"",
    "echo \"$(false)\"; echo $?",
    "echo \"$(true; false)\" && echo yes",
    "false; echo \"$(echo $?)\"",
    "false; echo \"$(true; echo $?)\"; echo $?",
    "echo \"$(echo \"$(echo \"$(echo deep)\")\")\"",
    "echo \"$(cat in | sort | head -n 1)\" | cat",
    "echo \"$(cat in\n\ncat sub/file # a )\n)\"",
    "echo \"$(echo ')' \"(\" '\")')\"",
    "X=in; echo \"$X: $(cat $X)\"; echo \"$(Y=sub; cat $Y/file)\"",
    "echo \"$(cat nothing)\" end",
    "echo \"$(cat nothing 2>&1 | wc -l)\"",
    "echo \"$(cat in)\" > out; cat out",
    "test \"$(cat in | wc -l)\" -eq 2 && echo two",
    "echo \"$(seq 2000)\" | wc -c; echo \"$(cat)\" end",
    "true && echo \"$(echo a)\" || echo no; false && echo \"$(echo b > out)\"; cat out",
    "printf '%s|' \"$(python3 -c 'import sys; sys.stdout.buffer.write(bytes([255, 10, 97]))' | od -c | head -n 1)\"",
];

const BRACES: [&str; 16] = [
    "echo {a,b}",
    "echo x{a,b}y{c,d}z",
    "echo {a,{b,c}d}e a{,b}c",
    "echo {1..5} {5..1} {-2..2} {a..e} {C..A}",
    "echo {a..c,d} a,b{c,d} {{1..2},x}",
    "echo {'a b',\"c d\",e\\ f} {a\\,b,c}",
    "cat {in,sub/file}",
    "cat ./{in,sub/file} | wc -l",
    "ls {sub,.}/* *.{rs,none}",
    "echo \\{{a,b} '{a,b}' \"{a,b}\" HEAD@{0} {} {a}",
    "X=1; echo {a,b} $X",
    "echo \"$(echo {a,b})\"",
    "echo {1..64}",
    "echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
    "timeout 5 echo {a,b}; LC_ALL=C echo {c,d}",
    "echo -{n,e} x",
];

fn reading(workspace: &Path) -> ServerBuilder {
    super::reading(
        workspace,
        "off",
        &json!({
            "nullRedirections": true, "fileRedirections": true, "filePatterns": true, "variables": true,
            "substitutions": true, "braces": true,
        }),
    )
    .env("SHELL", "/bin/bash")
}

fn fill(directory: &Path) {
    fs::create_dir_all(directory.join("sub")).unwrap();
    write_file(&directory.join("in"), "b\na\n");
    write_file(&directory.join("out"), "");
    write_file(&directory.join("a.rs"), "fn a\n");
    write_file(&directory.join("sub/file"), "f\n");
}

#[tokio::test]
async fn what_is_put_in_is_what_shells_put_in() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    do_as_in_shells(&server, &workspace, fill, |shell| {
        let braces: &[&str] = if shell == "bash" { &BRACES } else { &[] };
        [&SUBSTITUTIONS[..], braces].concat()
    })
    .await;
}

/// Each would make `marker`, or read what nobody may read. Beside it what differs only in being harmless, which runs.
#[tokio::test]
async fn a_word_that_is_more_than_text_is_asked_about() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    fill(&directory);
    let programs = [
        "echo", "printf", "cat", "sed", "sort", "env", "wc", "head", "xargs",
    ];
    let entries: Vec<_> = programs
        .iter()
        .map(|name| json!({ "pattern": format!("/**/{name}") }))
        .collect();
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": entries } } });
    let server = reading(&directory).document(&document).start().await;
    let untouched = TestServer::allowlist_only().document(&document).start().await;
    let marker = directory.join("marker");
    let state = server.state().join("countersign").display().to_string();
    write_file(&directory.join("code"), "1w marker\n");
    write_file(&directory.join("names"), "marker\n");
    for text in [
        "sed -n \"$(cat code)\" in",
        "sort -o \"$(cat names)\" in",
        "sort \"$(printf -- '-o%s' marker)\" in",
        "echo \"$(touch marker)\"",
        "echo \"$(cat in; touch marker)\"",
        "echo \"$(sed -n '1w .npmrc' in)\"",
        "echo \"`touch marker`\"",
        "echo $(cat in)",
        "env \"$(printf touch)\" marker",
        "\"$(printf touch)\" marker",
        "cat in > \"$(cat names)\"",
        "sh -c \"$(cat code)\"",
        "cat names | echo \"$(xargs touch)\"",
        "cat in; sed $? in",
        "X=$(cat names); cat in > $X",
        "echo \"$(cat in)\" 2> marker",
        "echo {a,$(touch marker)}",
        "sed -{n,'1w .npmrc'} in",
        "{touch,marker}",
    ] {
        is_refused(&server, &directory, text).await;
        assert!(!marker.exists(), "{text}");
    }
    for text in [
        format!("echo \"$(cat {state}/operator.token)\""),
        format!("cat {{in,{state}/operator.token}}"),
        format!("cat {state}/{{operator,x}}.token"),
    ] {
        is_refused(&server, &directory, &text).await;
    }
    for text in [
        "sed -n 1p in; echo \"$(cat code)\"",
        "echo \"$(cat names)\" \"$(sed -n 1p in)\"",
        "cat in; echo $?",
        "cat {in,code}",
    ] {
        let run = server.ran(json!({ "command": text, "workdir": directory })).await;
        assert_eq!(run["exitCode"], 0, "{text}: {run}");
        let answer = untouched
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        answer.problem(403, "exec-denied");
    }
    // What is printed is not read again.
    write_file(
        &directory.join("hostile"),
        "$(touch marker)`touch marker`; touch marker\n\"; touch marker; \"\n",
    );
    let run = server.ran(json!({ "command": "echo \"$(cat hostile)\"; printf '%s\\n' \"$(cat hostile)\"", "workdir": directory })).await;
    let once = "$(touch marker)`touch marker`; touch marker\n\"; touch marker; \"\n";
    assert_eq!(run.text("stdout"), format!("{once}{once}"));
    assert!(!marker.exists());
}

/// A word with `$(…)` in it may also be literal: people see which it is.
#[tokio::test]
async fn a_word_that_is_filled_in_is_told_from_a_literal_one() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    fill(&directory);
    let server = reading(&directory).document(&everything_covered()).start().await;
    let body = json!({ "command": "echo 'é$(cat in)' \"é: $(cat in)$(cat in)\" \"$(cat in)\"; echo $?x", "workdir": directory });
    let explained = ask_to_explain(&server.agent(), &body).await.expect(200);
    assert_has!(explained, { "outcome": "run" });
    let segments = explained["analysis"].list("segments");
    let filled: Vec<_> = segments.iter().map(|segment| segment["filled"].clone()).collect();
    let words = json!([
        { "word": 2, "span": [4, 13] }, { "word": 2, "span": [13, 22] }, { "word": 3, "span": [0, 9] },
    ]);
    let expected = [
        json!(null),
        json!(null),
        json!(null),
        words,
        json!([{ "word": 1, "span": [0, 2] }]),
    ];
    assert_eq!(filled, expected, "{explained}");
}

/// One argument has a limit, and what writes more is told that nothing reads.
#[tokio::test]
async fn output_that_is_no_argument_any_more_ends_its_command_alone() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    let directory = workspace.dir("files");
    for (text, code, stdout) in [
        ("echo \"$(yes)\"; echo $?", 0, "126\n"),
        (
            "echo \"$(head -c 131071 /dev/zero | tr '\\0' a)\" | wc -c",
            0,
            "131072\n",
        ),
        ("echo \"$(head -c 131072 /dev/zero | tr '\\0' a)\"", 126, ""),
        // What is cut off does not count.
        (
            "echo \"$(head -c 131071 /dev/zero | tr '\\0' a; echo; echo)\" | wc -c",
            0,
            "131072\n",
        ),
        ("echo \"$(yes '' | head -n 200000)\"", 0, "\n"),
        ("echo \"$(yes '' | head -n 200000; echo a)\"", 126, ""),
        (
            "echo \"$(head -c 131071 /dev/zero | tr '\\0' a)b\"; echo end",
            0,
            "end\n",
        ),
    ] {
        let came = by_plan(&server, text, &directory).await;
        assert_eq!(
            (came.code, came.stdout.as_str()),
            (code, stdout),
            "{text}: {came:?}"
        );
    }
}

/// A file that begins with `#!` is started with its interpreter and its path before its words, which would be put into others.
#[tokio::test]
async fn a_script_called_like_a_program_that_prints_is_asked_about() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    write_file(&directory.join("in"), "b\n");
    for (name, is_script) in [("scripts", true), ("programs", false)] {
        let own = workspace.dir(name);
        let file = own.join("echo");
        if is_script {
            write_file(&file, "#!/bin/sh -e\nprintf '%s\\n' \"$*\"\n");
        } else {
            fs::copy("/usr/bin/echo", &file).unwrap();
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let server = ServerBuilder::new(&json!({}))
            .exec(&json!({
                "host": "gateway", "security": "allowlist", "ask": "off", "reads": { "substitutions": true },
                "pathPrepend": [own], "safeBinTrustedDirs": [own],
            }))
            .document(&everything_covered())
            .start()
            .await;
        let run = server
            .ran(json!({ "command": "echo a", "workdir": directory }))
            .await;
        assert_eq!(run.text("stdout"), "a\n");
        for text in ["echo \"$(cat in)\" x", "true; echo $? x"] {
            if is_script {
                is_refused(&server, &directory, text).await;
            } else {
                let run = server.ran(json!({ "command": text, "workdir": directory })).await;
                assert!(run.text("stdout").ends_with(" x\n"), "{run}");
            }
        }
    }
}

/// A program that another step replaced does not start inside of a word either, and nothing else starts then.
#[tokio::test]
async fn what_changed_stops_the_run_from_inside_of_a_word() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    let directory = workspace.dir("files");
    fs::copy("/usr/bin/true", directory.join("tool")).unwrap();
    let text = "cp /usr/bin/echo tool; echo \"$(./tool ran)\"; echo after";
    let came = by_plan(&server, text, &directory).await;
    assert_eq!((came.code, came.stdout.as_str()), (126, ""), "{came:?}");
    assert!(came.stderr.contains("no longer what was judged"), "{came:?}");
    let again = by_plan(&server, "true; echo \"$(./tool ran)\"; echo after", &directory).await;
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (0, "ran\nafter\n"),
        "{again:?}"
    );
}

/// All of it is one run: what is inside of a word ends with it.
#[tokio::test]
async fn the_time_limit_is_that_of_what_is_inside_too() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    let body =
        json!({ "command": "echo \"$(sleep 1000)\"; echo after", "timeout": 1, "workdir": workspace.path() });
    let run = server.ran(body).await;
    assert_has!(run, { "timedOut": true, "stdout": "" });
}
