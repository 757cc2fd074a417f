//! Patterns of file names (G14) stand for the files that `bash`, `dash` and `zsh` find, and the program gets their names as
//! words that were judged.

use std::{fs, path::Path};

use serde_json::json;

use super::{
    asked_about, everything_covered, is_refused,
    lists::{by_plan, by_shell},
    shells,
};
use crate::support::{Members, Scratch, ServerBuilder, TestServer, program, write_file};

/// Every shell finds these.
const FOUND: [&str; 30] = [
    "echo a*",
    "echo x *.rs y",
    "echo *",
    "echo ?.rs",
    "echo [ab].rs [!a].rs",
    "echo [a-c]*",
    "echo [0-9]*",
    "echo sub/*.rs",
    "echo ./*.rs ./sub/?.rs sub//c*",
    "echo */*",
    "echo */c.rs",
    "echo s*/d*/*.rs",
    "echo sub/deep/*",
    "echo .h*",
    "echo .h*/x .hidden/*",
    "echo 'a b'* a\\ b*",
    "echo \"a b\"*.rs 'q*'*",
    "echo 'a*' \"*\" \\*",
    "cat *.rs | sort | head -n 2",
    "cat [a-b].rs > out; cat out",
    "ls *.rs && echo ?.rs || echo no",
    "cd sub && echo *.rs && cat c*",
    "cd sub/deep && echo ../*.rs ../../a*",
    "ls -d a*; ls -d b*",
    "LC_ALL=C ls a*",
    "sh -c 'echo *.rs' | cat",
    "sh -c 'cd sub && echo *'",
    "timeout 5 echo *.rs",
    "wc -c link/*.rs | sort",
    "echo {*",
];

/// `zsh` runs nothing where no file has such a name.
const NOT_FOUND: [&str; 7] = [
    "echo x*y",
    "echo --x=*.rs",
    "echo none/*",
    "echo */none *.zzz",
    "echo http://host/?a=b",
    "echo a.rs/*",
    "grep -rn --include=*.rs x . | sort",
];

fn reading(workspace: &Path, ask: &str) -> ServerBuilder {
    super::reading(
        workspace,
        ask,
        &json!({ "nullRedirections": true, "fileRedirections": true, "filePatterns": true }),
    )
}

fn fill(directory: &Path) {
    fs::create_dir_all(directory.join("sub/deep")).unwrap();
    fs::create_dir_all(directory.join(".hidden")).unwrap();
    for name in [
        "a.rs",
        "b.rs",
        "B.rs",
        "ab",
        "1",
        "a b.rs",
        "q*x",
        "{x",
        ".h",
        ".hidden/x",
        "sub/c.rs",
        "sub/deep/d.rs",
    ] {
        write_file(&directory.join(name), format!("x {name}\n"));
    }
    std::os::unix::fs::symlink("sub", directory.join("link")).unwrap();
}

#[tokio::test]
async fn a_pattern_means_what_shells_make_of_it() {
    let Some(shells) = shells() else { return };
    let workspace = Scratch::new();
    let server = reading(&workspace.path(), "off")
        .document(&everything_covered())
        .env("SHELL", program("bash").unwrap().to_str().unwrap())
        .start()
        .await;
    let cases = FOUND
        .map(|text| (text, &shells[..]))
        .into_iter()
        .chain(NOT_FOUND.map(|text| (text, &["bash", "dash"][..])));
    for (text, shells) in cases {
        let directory = workspace.dir("files");
        fill(&directory);
        let planned = by_plan(&server, text, &directory).await;
        fs::remove_dir_all(&directory).unwrap();
        for shell in shells {
            fill(&workspace.dir("files"));
            assert_eq!(planned, by_shell(shell, text, &directory), "{shell}: {text}");
            fs::remove_dir_all(&directory).unwrap();
        }
    }
}

/// Each would make `marker`, or a program do what nobody judged. Beside it what differs only in being harmless, which runs.
#[tokio::test]
async fn a_name_that_says_more_than_a_name_is_asked_about() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    fill(&directory);
    let programs = ["echo", "cat", "ls", "touch", "env", "sort", "find"];
    let entries: Vec<_> = programs
        .iter()
        .map(|name| json!({ "pattern": format!("/**/{name}") }))
        .chain([json!({ "pattern": "/**/tail", "argPattern": "^-n 1 a\\.rs$" })])
        .collect();
    let document = json!({ "version": 1, "agents": { "main": {
        "allowlist": entries, "denylist": [{ "pattern": "mkdir" }],
    } } });
    let server = reading(&directory, "off").document(&document).start().await;
    let untouched = TestServer::allowlist_only().document(&document).start().await;
    let marker = directory.join("marker");
    std::os::unix::fs::symlink("/etc", directory.join("out")).unwrap();
    // Names by which a program would be told to start another one.
    for name in ["-exec", "--compress-program=x", "-o marker", "two\nlines"] {
        fs::create_dir_all(directory.join("names")).unwrap();
        write_file(&directory.join("names").join(name), "");
    }
    fs::create_dir_all(directory.join("bin")).unwrap();
    fs::create_dir_all(directory.join("runs")).unwrap();
    for name in ["touch", "mkdir"] {
        write_file(&directory.join("bin").join(name), "");
        write_file(&directory.join("runs").join(name), "");
    }
    fs::create_dir_all(directory.join("many")).unwrap();
    for nth in 0..5_000 {
        write_file(&directory.join(format!("many/{nth:020}")), "");
    }
    // Each is compared with every name.
    let compared = |times: usize| format!("echo{}", " many/*1*2*3*4*5*6*7*8*9*".repeat(times));
    for text in [
        &compared(60)[..],
        "cd names && sort *",
        "cd names && find . -*",
        "cd names && sort --comp*",
        "cd names && cat t*",
        "env /usr/bin/mkdi? marker",
        "sh -c '/usr/bin/touc? marker'",
        "/usr/bin/touc? marker",
        "*ouch marker",
        "cd runs && env m* marker",
        "touch marker; cat m*",
        "touch x && ls *",
        "cat a.rs > new; cat n*",
        "cat a.rs > n*",
        "cat < a.r?",
        "cat <<<*",
        "X=* env",
        "tail -n 1 [ab].rs",
        "echo **/*.rs",
        "echo (a|b).rs",
        "echo a.rs(N)",
        "echo /proc/self/cwd/*",
        "echo /etc/host*",
        "echo ../*",
        "cd out && echo *",
        "echo /proc/self/root/etc/*",
        "echo ~root/*",
        &format!("echo {}/*", server.state().display()),
        &format!("echo {}/countersign/*", server.state().display()),
    ] {
        is_refused(&server, &directory, text).await;
        assert!(!marker.exists(), "{text}");
    }
    for text in [
        "sort names/*.none",
        "cat sub/*.rs",
        "echo ^a* a.rs~b*",
        "cd su? && cat *.rs",
        "ls * && echo *",
        "tail -n 1 a*.rs",
        "echo a^*",
        &compared(3),
    ] {
        // `a b.rs` is another word than the entry names.
        if text.starts_with("tail") {
            fs::remove_file(directory.join("a b.rs")).unwrap();
        }
        let run = server.ran(json!({ "command": text, "workdir": directory })).await;
        assert_eq!(
            run["exitCode"].as_i64(),
            Some(i64::from(text.starts_with("sort")) * 2),
            "{text}: {run}"
        );
        let answer = untouched
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        answer.problem(403, "exec-denied");
    }
}

/// The state directory may lie in the workspace, and the same directory has another path below `/proc`.
#[tokio::test]
async fn no_pattern_finds_names_of_the_servers_own_files() {
    let workspace = Scratch::new();
    fill(&workspace.path());
    let server = reading(&workspace.path(), "off")
        .document(&everything_covered())
        .state_dir(&workspace.join("state"))
        .start()
        .await;
    let explained = async |text: String| {
        let call = json!({ "command": text, "workdir": workspace.path() });
        server.agent().explain(call).await
    };
    let way = workspace.path().display().to_string();
    for text in [
        "echo state/countersign/*".to_owned(),
        "echo s*/*/*".to_owned(),
        format!("echo /proc/self/root{way}/*.rs"),
    ] {
        let refused = explained(text.clone()).await;
        assert_ne!(refused["outcome"], "run", "{text}: {refused}");
        assert!(
            !refused.to_string().contains("operator.token"),
            "{text}: {refused}"
        );
    }
    for text in ["echo sub/*".to_owned(), format!("echo {way}/*.rs")] {
        assert_eq!(explained(text.clone()).await["outcome"], "run", "{text}");
    }
}

/// The files are those that were there when the command was judged: what comes later is not among them.
#[tokio::test]
async fn a_question_is_about_the_files_that_were_there() {
    let workspace = Scratch::new();
    fill(&workspace.path());
    let server = reading(&workspace.path(), "on-miss")
        .toml("[approvals]\nalways_reachable = true\n")
        .start()
        .await;
    let (asked, before) = asked_about(&server, "nl *.rs").await;
    write_file(&workspace.join("c.rs"), "later\n");
    let run = server.answered(&asked, "allow-once").await;
    let is_as_judged = run["status"] == "denied" && run["reason"] == "binding-mismatch";
    let is_without = run["status"] == "completed" && !run.text("stdout").contains("later");
    assert!(is_as_judged || is_without, "{run}");
    let (asked, later) = asked_about(&server, "nl *.rs").await;
    assert_ne!(before, later);
    let run = server.answered(&asked, "allow-once").await;
    assert_eq!(run["status"], "completed", "{run}");
    assert!(run.text("stdout").contains("later"), "{run}");
}
