//! `POST /v1/exec/explain` and then `POST /v1/exec` of generated commands, covered ones and others, at the real
//! server: the same outcome for the same reason.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{commands::Commands, execution::Stage};
use crate::{
    explain::{ask_to_explain, what_exec_does, what_explain_says},
    support::{Scratch, ServerBuilder, TestServer, skip},
};

async fn agree(server: ServerBuilder, count: usize, seed: usize) {
    let home = Scratch::new();
    let Some(stage) = Stage::set(&home.path()) else {
        return skip("there is no C compiler");
    };
    let mut entries: Vec<Value> = stage
        .patterns()
        .iter()
        .map(|pattern| json!({ "pattern": pattern }))
        .collect();
    // Some programs for some arguments alone, and some for nobody.
    entries.push(json!({ "pattern": "/usr/bin/env", "argPattern": "^-" }));
    let document = json!({ "version": 1, "agents": { "main": {
        "allowlist": entries,
        "denylist": [{ "pattern": "beta-*", "argPattern": "a" }, { "pattern": "gamma.x", "argPattern": "^x" }],
    } } });
    let server = server
        .document(&document)
        .env("PATH", &stage.path())
        .env("HOME", stage.home.to_str().expect("UTF-8"))
        .start()
        .await;
    let mut chance = super::chance();
    // Another part of the same sequence of choices.
    for _ in 0..seed {
        chance.below(2);
    }
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for index in 0..super::wanted(count) {
        let text = Commands {
            chance: &mut chance,
            wild: [0, 5, 20][index % 3],
        }
        .command();
        let mut body = json!({ "command": text, "workdir": stage.work() });
        match index % 10 {
            3 => body["env"] = json!({ "TZ": "UTC" }),
            5 => body["env"] = json!({ "FOO": "x" }),
            7 => body["env"] = json!({ "ld_preload": "x" }),
            _ => {}
        }
        let explained = what_explain_says(&ask_to_explain(&server.agent(), &body).await);
        let done = what_exec_does(&server, &body).await;
        assert_eq!(explained, done, "{body}");
        let reason = done.1.unwrap_or_default();
        *outcomes.entry(format!("{} {reason}", done.0)).or_default() += 1;
    }
    for (outcome, least) in [("run ", 20), ("deny blocked-env", 5), ("deny denylist", 2)] {
        let seen = outcomes.get(outcome).copied().unwrap_or_default();
        assert!(seen * 100 >= least * count / 10, "{outcome}: {outcomes:?}");
    }
}

#[tokio::test]
async fn explain_and_exec_agree_on_generated_commands_where_nobody_is_asked() {
    agree(TestServer::allowlist_only(), 1_500, 0).await;
}

#[tokio::test]
async fn explain_and_exec_agree_on_generated_commands_where_people_are_asked() {
    agree(TestServer::asking(), 500, 1).await;
}
