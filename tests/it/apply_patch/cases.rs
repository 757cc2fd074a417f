use std::fs;

use serde_json::{Value, json};

use super::{
    send,
    tree::{assert_says, cases, files, look, make},
};
use crate::support::{Members, Scratch, TestServer};

/// Each case in a workspace of its own, beside a file that nothing may reach.
#[tokio::test]
async fn every_case_comes_out_as_it_says() {
    let place = Scratch::new();
    let agents: Vec<Value> = cases()
        .iter()
        .enumerate()
        .map(|(number, case)| {
            let around = place.dir(&format!("case-{number}"));
            let workspace = around.join("work");
            fs::create_dir(&workspace).expect("a workspace");
            fs::File::create(around.join("outside")).expect("a file");
            make(&workspace, &case["before"]);
            json!({ "id": format!("case-{number}"), "workspace": workspace })
        })
        .collect();
    let server = TestServer::full()
        .config(&json!({
            "agents": { "list": agents },
            "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } },
        }))
        .start()
        .await;
    let agent = server.agent();
    for (number, case) in cases().iter().enumerate() {
        let name = case.text("name");
        let id = format!("case-{number}");
        let around = place.join(&id);
        let workspace = around.join("work");
        let before = look(&workspace);
        let answer = send(&agent, json!({ "input": case["patch"], "agentId": id })).await;
        let outside = fs::metadata(around.join("outside")).expect("the file outside");
        assert_eq!(outside.len(), 0, "{name}");
        let Some(error) = case.get("error") else {
            let applied = answer.expect(200);
            assert_eq!(applied["host"], "gateway", "{name}");
            assert!(
                applied["changed"]
                    .as_array()
                    .is_some_and(|changed| !changed.is_empty()),
                "{name}"
            );
            let expected = place.dir(&format!("{id}-after"));
            make(&expected, &case["after"]);
            assert_eq!(files(&workspace), files(&expected), "{name}");
            continue;
        };
        assert_eq!(look(&workspace), before, "{name}: nothing may have changed");
        let problem = if error["refused"].is_string() {
            answer.problem(400, "invalid-request")
        } else {
            answer.problem(409, "patch-failed")
        };
        let detail = problem.text("detail");
        assert_eq!(problem["path"], error["path"], "{name}: {problem}");
        assert_eq!(problem["hunk"], error["hunk"], "{name}: {problem}");
        // What is repeated of the request is cut.
        if !detail.ends_with('…') {
            assert_says(name, error, detail);
        }
        assert!(
            problem.get("reason").is_none() && problem.get("notRestored").is_none(),
            "{problem}"
        );
    }
}
