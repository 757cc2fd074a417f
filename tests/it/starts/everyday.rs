//! Everyday uses of programs with profiles come to the same with the limits of `starts: judged` as without any.

use std::{fs, path::Path};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::table::{WIDTH, copied, lines};
use crate::support::{Invocation, TestServer, none_is_wrong, program, run_program, write_file};

/// An agent whose programs may start anything.
const FREE: &str = "free";

/// What the commands find in their directory.
fn fill(directory: &Path) {
    for below in ["src", "docs"] {
        fs::create_dir(directory.join(below)).unwrap();
    }
    for (name, content) in [
        ("README.md", "# Title\n\nTODO: more\n"),
        (
            "src/main.c",
            "#include <stdio.h>\nint helper(void);\nint main(void) { printf(\"%d\\n\", helper()); return 0; }\n",
        ),
        ("src/helper.c", "int helper(void) { return 42; }\n"),
        (
            "src/main.cc",
            "#include <string>\nint main() { return std::string(\"a\").size() == 1 ? 0 : 1; }\n",
        ),
        ("docs/a.txt", "alpha\nbeta\ngamma\n"),
        ("docs/b.txt", "alpha\ndelta\ngamma\n"),
        ("n.csv", "ann,3\nbob,10\ncyd,7\n"),
        ("j.json", "{ \"a\": [1, 2], \"b\": \"c\" }\n"),
        ("log", "10:01 ERROR disk full\n10:02 INFO ok\n"),
        (
            "fix.patch",
            "--- docs/a.txt\n+++ docs/a.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n",
        ),
        ("page.1", ".TH page 1\n.SH NAME\npage \\- a page\n"),
    ] {
        write_file(&directory.join(name), content);
    }
    for command in [
        "git init --quiet --initial-branch=main .",
        "git config user.name a",
        "git config user.email a@b",
        "git add .",
        "git commit --quiet --message first",
        "git branch other",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let done = run_program(&Invocation::new(words[0]).args(&words[1..]).cwd(directory));
        assert_eq!(done.code, Some(0), "{command}: {done:?}");
    }
}

/// How a call ended: exit code and standard output, or its answer where it did not run. The record of the run says so: under
/// load an answer can come before it.
async fn ending(server: &TestServer, call: Value) -> Result<(Value, Value, String), Value> {
    let answer = server.agent().exec(call).await.json();
    let Some(run) = answer["runId"].as_str() else {
        return Err(answer);
    };
    let ended = server.operator().finished(run).await;
    let output = format!("/v1/runs/{run}/output");
    let all = server.operator().get_bytes(&output, None).await.text();
    if ended["exitCode"].is_null() || all.contains("ermission denied") {
        return Err(json!({ "run": ended, "output": all }));
    }
    let stdout = format!("{output}?stream=stdout");
    let stdout = server.operator().get_bytes(&stdout, None).await.text();
    Ok((ended["confined"].clone(), ended["exitCode"].clone(), stdout))
}

#[tokio::test]
async fn everyday_uses_need_no_more_than_the_profiles() {
    let uses: Vec<(String, String)> = lines("everyday.txt")
        .into_iter()
        .map(|line| {
            let (programs, command) = line.split_once(": ").expect("PROGRAMS: COMMAND");
            (programs.to_owned(), command.to_owned())
        })
        .collect();
    assert!(uses.len() >= 100, "{}", uses.len());
    let mut names: Vec<&str> = uses
        .iter()
        .flat_map(|(programs, _)| programs.split(' '))
        .collect();
    names.sort_unstable();
    names.dedup();
    let entries = |starts: Value| -> Vec<Value> {
        let entry = |name: &&str| json!({ "pattern": name, "confine": { "starts": starts } });
        names.iter().map(entry).collect()
    };
    let server = TestServer::allowlist_only()
        .agents(&json!({
            "main": { "allowlist": entries(json!("judged")) },
            FREE: { "allowlist": entries(json!("any")) },
        }))
        .toml("[policy]\ndelegation_table = false\n")
        .start()
        .await;
    let template = server.scratch().dir("template");
    fill(&template);
    let here: Vec<(usize, &str)> = uses
        .iter()
        .enumerate()
        .filter(|(_, (programs, _))| programs.split(' ').all(|name| program(name).is_some()))
        .map(|(at, (_, command))| (at, command.as_str()))
        .collect();
    assert!(here.len() >= 60, "{} of the programs' uses", here.len());
    let (server, template) = (&server, &template);
    let compared = here.iter().map(|&(at, command)| async move {
        let [kept, free] = ["main", FREE].map(|agent| {
            let directory = copied(template, &server.scratch().dir(agent).join(at.to_string()));
            json!({
                "command": command, "agentId": agent, "workdir": directory, "yieldMs": 60_000, "timeout": 60,
            })
        });
        let ended = (ending(server, kept).await, ending(server, free).await);
        let is_same = match &ended {
            (Ok((confined, kept, kept_out)), Ok((_, free, free_out))) => {
                let is_kept = confined.as_str().is_some_and(|line| line.contains("may start"));
                is_kept && kept == free && kept_out == free_out
            }
            (Ok(_) | Err(_), _) => false,
        };
        (!is_same).then(|| format!("{command}\n  {ended:?}"))
    });
    none_is_wrong(stream::iter(compared).buffer_unordered(WIDTH)).await;
}
