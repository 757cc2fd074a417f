//! Compound commands (G21) do what `bash` and `dash` do with them, and what is judged is what runs.

use std::{fs, path::Path};

use serde_json::json;

use super::{
    everything_covered, is_refused,
    lists::{by_plan, do_as_in_shells},
};
use crate::support::{Scratch, ServerBuilder, TestServer, write_file};

const COMPOUNDS: [&str; 69] = [
    "if [ -f in ]; then echo yes; fi",
    "[ -d sub ] && echo yes || echo no",
    "[ -d nothing ] && echo yes || echo no",
    "[ a = b ]; echo $?",
    "[ ] 2>/dev/null; echo $?",
    "! [ -e nothing ] && echo none",
    "for f in in nothing; do [ -e \"$f\" ] && echo \"there: $f\" || echo \"not there: $f\"; done",
    "(cd sub; [ -f file ] && [ 3 -gt 2 ] && echo both) | cat",
    "{ echo a; echo b; }",
    "{ echo a; echo b; } | sort -r",
    "{ false; }; echo $?",
    "{ false; true; } && echo yes",
    "echo a && { echo b || echo c; } && echo d",
    "false || { echo b; false; } || echo c",
    "{\necho a\n\n# b\necho c\n}\necho d",
    "{ cd sub; pwd; }; pwd; cat file",
    "{ cd sub && pwd; } | cat; pwd",
    "(echo a; echo b)",
    "( cd sub && pwd && cat file ); pwd; cat in",
    "(false); echo $?",
    "(python3 -c 'import sys; sys.exit(3)'); echo $?",
    "(echo a; (echo b; (echo c)))",
    "(cat) | wc -l; echo end",
    "echo x | (cat; echo y) | (sort -r)",
    "seq 200000 | (head -n 1); echo $?",
    "(seq 200000) | head -n 1",
    "(seq 3; pwd) | { cat; pwd; } | wc -l",
    "pwd | (cat)",
    "(pwd) | pwd | cat",
    "true | (false); echo $?",
    "(false) | true; echo $?",
    "{ false; } | (python3 -c 'import sys; sys.exit(4)'); echo $?",
    "! true; echo $?",
    "! false; echo $?",
    "! false && echo yes",
    "! true || echo no",
    "! true | false; echo $?",
    "! python3 -c 'import sys; sys.exit(3)'; echo $?",
    "true && ! false && echo yes",
    "if true; then echo yes; fi",
    "if false; then echo yes; fi; echo $?",
    "if false; then echo yes; else echo no; fi",
    "if false; then echo a; elif true; then echo b; else echo c; fi",
    "if false; then echo a; elif false; then echo b; else echo c; fi",
    "if false; then echo a; elif false; then echo b; fi; echo $?",
    "if true; then false; fi; echo $?",
    "if false; then true; else python3 -c 'import sys; sys.exit(3)'; fi; echo $?",
    "if false; then :; else echo $?; fi",
    "if true\nthen\necho a\nfi",
    "if cat nothing 2>/dev/null; then echo a; else echo b; fi | cat",
    "if echo a | grep -q a && true; then echo found; fi && echo end",
    "if ! false; then echo a; fi",
    "if { false; true; }; then (echo a); fi",
    "if cd sub; then pwd; fi; pwd",
    "false && if true; then echo a; fi; echo $?",
    "for f in a b c; do echo $f; done",
    "for f in a 'b  c'; do printf '%s|' \"$f\" \"x$f\"; done | cat",
    "for f in in sub/file; do cat $f; echo \"rc=$?\"; done | sort",
    "for f in a b; do false; done; echo $?",
    "for f in a b; do for g in 1 2; do echo $f$g; done; done",
    "for f in a b\ndo\necho $f\ndone",
    "for d in sub .; do (cd $d && ls); done",
    "for f in a b; do X=$f; echo $X; done",
    "for f in a b; do if test $f = a; then echo first; else echo other; fi; done",
    "for f in a b; do echo $f > out; done; cat out",
    "for f in a b; do test $f = b && echo found $f; done; echo $?",
    "true && for f in a b; do echo $f; echo $f; done && echo end",
    "echo \"$(for f in a b; do echo $f; done)\" \"$( (echo c) )\"",
    "X=1; { echo $X; (echo $X); if true; then echo $X; fi; }; echo $X",
];

fn reading(workspace: &Path) -> ServerBuilder {
    super::reading(
        workspace,
        "off",
        &json!({
            "nullRedirections": true, "fileRedirections": true, "filePatterns": true, "variables": true,
            "substitutions": true, "braces": true, "compoundCommands": true, "temporaryFiles": true,
        }),
    )
}

fn fill(directory: &Path) {
    fs::create_dir_all(directory.join("sub")).unwrap();
    write_file(&directory.join("in"), "b\na\n");
    write_file(&directory.join("out"), "");
    write_file(&directory.join("sub/file"), "f\n");
}

#[tokio::test]
async fn a_compound_command_does_what_shells_do_with_it() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    do_as_in_shells(&server, &workspace, fill, |_shell| COMPOUNDS.to_vec()).await;
}

/// Each would make `marker`, or read what nobody may read. Beside it what differs only in being harmless, which runs.
#[tokio::test]
async fn a_compound_command_that_hides_something_is_asked_about() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    fill(&directory);
    let programs = ["echo", "cat", "sed", "head", "sqlite3", "ls", "true", "false"];
    let entries: Vec<_> = programs
        .iter()
        .map(|name| json!({ "pattern": format!("/**/{name}") }))
        .collect();
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": entries } } });
    let server = reading(&directory).document(&document).start().await;
    let untouched = TestServer::allowlist_only().document(&document).start().await;
    let marker = directory.join("marker");
    let state = server.state().join("countersign").display().to_string();
    for text in [
        "{ touch marker; }",
        "(touch marker)",
        "! touch marker",
        "if touch marker; then true; fi",
        "if false; then true; else touch marker; fi",
        "for f in marker; do touch $f; done",
        "for f in touch; do $f marker; done",
        "echo 'touch marker' | { sh; }",
        "echo 'touch marker' | (cat in; sh)",
        "echo 'touch marker' | if true; then sh; fi",
        "for f in '1w .npmrc'; do sed -n \"$f\" in; done",
        "{ cat in; } > marker",
        "(cat in) > marker",
        "for f in a; do cat in; done > marker",
        "(echo x > /tmp/countersign-compound-never)",
        "while true; do touch marker; done",
        "f() { touch marker; }; f",
        "for f in $(touch marker); do true; done",
    ] {
        is_refused(&server, &directory, text).await;
        assert!(!marker.exists(), "{text}");
    }
    for text in [
        format!("{{ cd {state}; }}; cat operator.token"),
        format!("(cd {state} && cat operator.token)"),
        format!("if cd {state}; then cat operator.token; fi"),
        format!("for f in {state}; do cat $f/operator.token; done"),
    ] {
        is_refused(&server, &directory, &text).await;
    }
    for text in [
        "{ cat in; }",
        "(cd sub && cat file); cat in",
        "if cat in; then true; fi",
        "for f in 1p; do sed -n \"$f\" in; done",
        "echo 'touch marker' | { cat; }",
    ] {
        let run = server.ran(json!({ "command": text, "workdir": directory })).await;
        assert_eq!(run["exitCode"], 0, "{text}: {run}");
        let answer = untouched
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        answer.problem(403, "exec-denied");
    }
}

/// A program that another step replaced does not start in a copy of the leader either, and nothing else starts then.
#[tokio::test]
async fn what_changed_stops_the_run_from_inside_of_a_subshell() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    let directory = workspace.dir("files");
    for text in [
        "cp /usr/bin/echo tool; (./tool ran); echo after",
        "cp /usr/bin/echo tool; { ./tool ran; } | cat; echo after",
        "cp /usr/bin/echo tool; if ./tool ran; then echo after; else echo after; fi",
        "cp /usr/bin/echo tool; ! ./tool ran; echo after",
        "cp /usr/bin/echo tool; for f in a b; do ./tool $f; done; echo after",
    ] {
        fs::copy("/usr/bin/true", directory.join("tool")).unwrap();
        let came = by_plan(&server, text, &directory).await;
        assert_eq!((came.code, came.stdout.as_str()), (126, ""), "{text}: {came:?}");
        assert!(
            came.stderr.contains("no longer what was judged"),
            "{text}: {came:?}"
        );
    }
}

/// All of it is one run, and ends with it.
#[tokio::test]
async fn the_time_limit_is_that_of_every_copy() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path())
        .document(&everything_covered())
        .start()
        .await;
    for text in [
        "(sleep 1000); echo after",
        "{ sleep 1000; } | cat; echo after",
        "(sleep 1000) | (sleep 1000)",
    ] {
        let run = server
            .ran(json!({ "command": text, "timeout": 1, "workdir": workspace.path() }))
            .await;
        assert_has!(run, { "timedOut": true, "stdout": "" });
    }
}
