//! Tables and ids of the command line: what is shown of an id names its thing, and the command has the room.

use serde_json::{Value, json};

use crate::support::{Finished, Members, TestServer, assert_says};

#[track_caller]
fn document(done: &Finished) -> Value {
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// The cells of the first column, without its title.
fn firsts(done: &Finished) -> Vec<String> {
    let rows = done.stdout.lines().skip(1);
    rows.filter_map(|row| row.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn what_a_list_shows_of_an_id_names_it() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let entry = operator
        .made("/v1/agents/main/allowlist", json!({ "pattern": "/opt/x" }))
        .await;
    operator
        .made("/v1/agents/*/denylist", json!({ "pattern": "example" }))
        .await;
    let (token, _) = server
        .token_with(json!({ "name": "reader", "scopes": ["read"] }))
        .await;
    for list in ["allowlist", "denylist", "token"] {
        let short = firsts(&server.cli(&[list, "list"]).await);
        let full = firsts(&server.cli(&[list, "list", "-o", "name"]).await);
        let wide = server.cli(&[list, "list", "--wide"]).await;
        assert!(
            !short.is_empty() && short.iter().all(|id| id.len() == 8),
            "{list}: {short:?}"
        );
        assert!(
            full.iter().all(|id| id.len() == 36 && wide.stdout.contains(id)),
            "{list}: {full:?}"
        );
    }
    let id = entry.text("id");
    for part in [&id[..8], &id[id.len() - 8..], &id[..8].to_uppercase(), id] {
        let shown = document(&server.cli(&["allowlist", "show", part, "--json"]).await);
        assert_eq!(shown["pattern"], "/opt/x", "{part}");
    }
    let few = server.cli(&["allowlist", "rm", &id[..7]]).await;
    assert_eq!(few.code, Some(64), "{few:?}");
    few.complains("give 8 characters of the id or more");
    let other = server.cli(&["allowlist", "rm", "ffffffff"]).await;
    assert_eq!(other.code, Some(1), "{other:?}");
    let removed = server.cli(&["allowlist", "rm", &id[id.len() - 8..]]).await;
    assert_eq!(removed.code, Some(0), "{removed:?}");
    let shown = firsts(&server.cli(&["token", "list"]).await);
    let short = shown
        .iter()
        .find(|id| token.ends_with(*id) || token.starts_with(*id));
    let short = short.expect("the new token");
    assert_eq!(server.cli(&["token", "rm", short]).await.code, Some(0));
}

#[tokio::test]
async fn a_part_of_several_entries_is_answered_with_their_ids() {
    let ids = [
        "11111111-2222-4333-8444-555555555555",
        "11111111-2222-4333-8444-666666666666",
    ];
    let server = TestServer::asking()
        .document(&json!({ "version": 1, "agents": { "main": { "allowlist": [
            { "id": ids[0], "pattern": "/opt/one" }, { "id": ids[1], "pattern": "/opt/other" } ] } } }))
        .start()
        .await;
    let several = server.cli(&["allowlist", "rm", "11111111"]).await;
    assert_eq!(several.code, Some(1), "{several:?}");
    several.complains("error[id-ambiguous]");
    for id in ids {
        several.complains(id);
    }
    let left = document(&server.cli(&["allowlist", "list", "--json"]).await);
    assert_eq!(left.list("items").len(), 2, "nothing was removed");
}

#[tokio::test]
async fn events_and_reasons_are_found_by_a_part_of_an_id() {
    let server = TestServer::asking().start().await;
    let asked = server.asked(json!({ "argv": ["/bin/date"] })).await;
    server.asked(json!({ "argv": ["/bin/echo", "other"] })).await;
    let (run, approval) = (asked.text("runId"), asked.text("approvalId"));
    let end = &run[run.len() - 8..];
    let of = async |id: &str| {
        let done = server.cli(&["events", "--run", id, "--json"]).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        done.stdout
    };
    let all = of(run).await;
    assert!(
        !all.is_empty() && all.lines().all(|line| line.contains(run)),
        "{all}"
    );
    assert_eq!(of(end).await, all);
    assert_eq!(of(&end.to_uppercase()).await, all);
    let operator = server.operator();
    let page = async |id: &str| operator.get(&format!("/v1/events?runId={id}")).await;
    page("ffffffff").await.problem(404, "not-found");
    // An id in full that no run has is no mistake: nothing has happened to it.
    let none = page("00000000-0000-7000-8000-000000000000").await.expect(200);
    assert!(none.list("items").is_empty(), "{none}");
    let few = server.cli(&["events", "--run", &end[1..]]).await;
    assert_eq!(few.code, Some(64), "{few:?}");
    // Who may not see the run is not told of its events by a part of its id.
    let (_, other) = server
        .token_with(json!({ "name": "other", "scopes": ["exec"] }))
        .await;
    other
        .get(&format!("/v1/events?runId={end}"))
        .await
        .problem(404, "not-found");
    for id in [end, &approval[..8], approval, run] {
        let why = server.cli(&["policy", "why", id]).await;
        assert_eq!(why.code, Some(0), "{id}: {why:?}");
        assert_says(&why.stdout, run);
    }
    let names = server.cli(&["events", "--run", end, "-o", "name"]).await;
    assert!(
        !names.stdout.is_empty() && names.stdout.lines().all(|line| line.parse::<u64>().is_ok()),
        "{names:?}"
    );
    // One order for every list; a story is read the other way.
    let newest = server.cli(&["events", "-o", "name"]).await;
    let as_before = server.cli(&["events", "--newest-first", "-o", "name"]).await;
    assert_eq!(as_before.stdout, newest.stdout);
    let oldest = server.cli(&["events", "--oldest-first", "-o", "name"]).await;
    let after = server.cli(&["events", "--after", "0", "-o", "name"]).await;
    assert_eq!(
        after.stdout, oldest.stdout,
        "what goes on from an event is read in order"
    );
    assert!(
        newest.stdout.lines().eq(oldest.stdout.lines().rev()),
        "{newest:?} {oldest:?}"
    );
}

#[tokio::test]
async fn the_command_has_its_room_and_states_their_colours() {
    let server = TestServer::asking().start().await;
    let command = "cargo test --workspace --all-features --release --locked";
    let waits = server
        .asked(json!({ "command": command, "agentId": "research-assistant" }))
        .await;
    let list = TestServer::finish(server.invocation(&["runs", "list"]).env("COLUMNS", "80")).await;
    assert_says(&list.stdout, &command[..29]);
    assert_says(&list.stdout, " waiting ");
    assert!(
        !list.stdout.contains("HOST") && !list.stdout.contains("CODE"),
        "{list:?}"
    );
    assert!(
        list.stdout.lines().all(|line| line.chars().count() <= 80),
        "{list:?}"
    );
    let wide = server.cli(&["runs", "list", "--wide"]).await;
    for part in ["HOST", "CODE", "approval-pending"] {
        assert_says(&wide.stdout, part);
    }
    let filtered = server
        .cli(&["runs", "list", "--status", "approval-pending"])
        .await;
    assert_says(&filtered.stdout, "waiting");
    for list in ["runs", "approvals"] {
        let colours = async |choice: &str| {
            let done = server.cli(&[list, "list", "--color", choice]).await;
            done.stdout.contains("\u{1b}[33m")
        };
        assert!(colours("always").await, "{list}");
        assert!(!colours("auto").await && !colours("never").await, "{list}");
    }
    for (variables, expected) in [
        (&[("CLICOLOR_FORCE", "1")][..], true),
        (&[("CLICOLOR_FORCE", "0")], false),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
    ] {
        let line = server.invocation(&["runs", "list"]);
        let line = variables
            .iter()
            .fold(line, |line, (name, value)| line.env(name, value));
        let done = TestServer::finish(line).await;
        assert_eq!(
            done.stdout.contains("\u{1b}["),
            expected,
            "{variables:?}: {done:?}"
        );
    }
    let json = server.cli(&["runs", "list", "--json", "--color", "always"]).await;
    assert!(!json.stdout.contains('\u{1b}'), "{json:?}");
    for list in ["token list", "audit list", "agents list"] {
        let words: Vec<&str> = list.split(' ').collect();
        let shown = server.cli(&words).await;
        assert_says(&shown.stdout, " ago");
    }
    let audit = server.cli(&["audit", "list"]).await;
    let id = waits.text("approvalId");
    assert!(
        !audit.stdout.contains(id) && audit.stdout.contains(&id[..8]),
        "{audit:?}"
    );
}

#[tokio::test]
async fn members_of_json_are_chosen() {
    let server = TestServer::full().start().await;
    server.cli(&["exec", "--", "/bin/echo", "shown"]).await;
    let list = document(&server.cli(&["runs", "list", "--json=runId,status"]).await);
    let item = list["items"][0].as_object().expect("an object").clone();
    assert_eq!(item.keys().collect::<Vec<_>>(), ["runId", "status"]);
    let run = item["runId"].as_str().expect("an id");
    let one = document(&server.cli(&["--json=status", "runs", "show", run]).await);
    assert_eq!(one, json!({ "status": "completed" }));
    // What a run may have, and this one has not, is no mistake.
    let absent = document(
        &server
            .cli(&["runs", "show", run, "--json=exitSignal,exitCode"])
            .await,
    );
    assert_eq!(absent, json!({ "exitCode": 0 }));
    let unknown = server.cli(&["runs", "list", "--json=runID"]).await;
    assert_eq!(
        (unknown.code, unknown.stdout.as_str()),
        (Some(64), ""),
        "{unknown:?}"
    );
    let problem: Value = serde_json::from_str(&unknown.stderr).expect("a problem document");
    assert!(
        problem.text("detail").contains("runID") && problem.text("detail").contains("runId"),
        "{problem}"
    );
    // A word behind it is the command's.
    let plain = document(&server.cli(&["--json", "runs", "list"]).await);
    assert!(plain["items"][0]["agentId"].is_string(), "{plain}");
    let empty = server.cli(&["runs", "list", "--json="]).await;
    assert_eq!(empty.code, Some(64), "{empty:?}");
    let lines = server.cli(&["events", "--json=type,runId"]).await;
    for line in lines.stdout.lines() {
        let event: Value = serde_json::from_str(line).expect(line);
        assert!(event["type"].is_string() && event["seq"].is_null(), "{event}");
    }
}

#[tokio::test]
async fn lists_that_the_server_does_not_filter_take_times_too() {
    let server = TestServer::asking().start().await;
    server
        .asked(json!({ "argv": ["/bin/date"], "agentId": "build" }))
        .await;
    server
        .token_with(json!({ "name": "reader", "scopes": ["read"] }))
        .await;
    for list in [
        &["token", "list"][..],
        &["agents", "list"],
        &["policy", "history"],
    ] {
        let count = async |times: &[&str]| {
            let list = [list, &["--json"], times].concat();
            document(&server.cli(&list).await).list("items").len()
        };
        let recent = count(&["--since", "1h"]).await;
        assert_eq!(count(&["--until", "1h"]).await, 0, "{list:?}");
        if list[0] != "policy" {
            assert!(recent > 0, "{list:?}");
        }
    }
    // What ends has the time of its end.
    let mute = ["agents", "mute", "build", "--for", "2h"];
    assert_eq!(server.cli(&mute).await.code, Some(0));
    for pattern in ["shutdown", "reboot"] {
        let added = server.cli(&["denylist", "add", pattern]).await;
        assert_eq!(added.code, Some(0), "{added:?}");
    }
    let rules = document(&server.cli(&["denylist", "list", "--json"]).await);
    assert_eq!(rules["items"][0]["pattern"], "reboot", "the newest first");
    for list in [
        &["agents", "mutes"][..],
        &["denylist", "list", "--agent", "build"],
    ] {
        let count = async |times: &[&str]| {
            let list = [list, &["--json"], times].concat();
            document(&server.cli(&list).await).list("items").len()
        };
        assert_eq!(count(&["--since", "1h"]).await, 1, "{list:?}");
        assert_eq!(count(&["--until", "1s"]).await, 0, "{list:?}");
    }
    let endless = server.cli(&["denylist", "list", "--since", "1h", "--json"]).await;
    assert_eq!(document(&endless)["items"], json!([]));
    for list in ["allowlist", "nodes", "browsers", "process"] {
        let done = server
            .cli(&[list, "list", "--since", "1h", "--until", "1s"])
            .await;
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let tokens = document(&server.cli(&["token", "list", "--json"]).await);
    let made = tokens
        .list("items")
        .iter()
        .map(|token| token["createdAtMs"].as_i64());
    assert!(made.is_sorted_by(|one, other| one >= other), "{tokens}");
}

#[tokio::test]
async fn the_last_denial_is_the_one_that_came_last() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let first = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let second = server.asked(json!({ "argv": ["/bin/echo", "second"] })).await;
    operator.decided(second.text("approvalId"), "deny").await;
    operator.decided(first.text("approvalId"), "deny").await;
    let status = document(&server.cli(&["status", "--json"]).await);
    assert_eq!(status["lastDenial"]["runId"], first["runId"], "{status}");
    let shown = server.cli(&["runs", "show", first.text("runId")]).await;
    for absent in ["timedOut", "truncated", "outputBytes", "durationMs"] {
        assert!(!shown.stdout.contains(absent), "{absent}: {shown:?}");
    }
    assert_says(&shown.stdout, "denied by operator");
    assert_says(&shown.stdout, " ago (");
}

#[tokio::test]
async fn a_token_is_made_and_revoked_with_what_it_means_said() {
    let server = TestServer::asking().start().await;
    let made = server
        .cli(&["token", "create", "ci", "--scope", "exec", "--agent", "build"])
        .await;
    assert_eq!(made.code, Some(0), "{made:?}");
    made.complains("ci: exec, for agent build alone");
    let until = ["--expires", "2999-01-01T00:00:00Z", "--json"];
    let dated = [&["token", "create", "dated", "--scope", "read"][..], &until].concat();
    let dated = document(&server.cli(&dated).await);
    assert_eq!(dated["expiresAtMs"], 32_472_144_000_000_i64, "{dated}");
    for (scope, more) in [("exec,approve", &[][..]), ("admin", &["--agent", "build"])] {
        let words = [&["token", "create", "x", "--scope", scope][..], more].concat();
        let conflict = server.cli(&words).await;
        assert_eq!(conflict.code, Some(64), "{conflict:?}");
        conflict.complains("error[scope-conflict]");
    }
    let own = server.operator().read("/v1/me").await.text("tokenId").to_owned();
    for id in [&own[..], &own[..8], &own[own.len() - 8..]] {
        let refused = server.cli(&["token", "revoke", id]).await;
        assert_eq!(refused.code, Some(64), "{refused:?}");
        refused.complains("operator");
        refused.complains(format!("countersign token revoke {id} --yes"));
    }
    assert_eq!(server.cli(&["status"]).await.code, Some(0), "it still works");
    let revoked = server.cli(&["token", "revoke", &own, "--yes"]).await;
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert_ne!(server.cli(&["runs", "list"]).await.code, Some(0));
}

#[tokio::test]
async fn what_people_call_otherwise_has_a_hint_of_its_own() {
    let server = TestServer::asking().start().await;
    for (words, hint) in [
        (&["sessions"][..], "countersign session show"),
        (&["settings"], "countersign config list"),
        (&["tokens"], "countersign token list"),
        (&["mute", "build"], "countersign agents mute AGENT --for 30m"),
        (&["policy", "ls"], "countersign policy show"),
        (&["denylist"], "countersign denylist list"),
        (&["session"], "countersign session show"),
    ] {
        let done = server.cli(words).await;
        assert_eq!(done.code, Some(64), "{words:?}: {done:?}");
        done.complains(format!("hint: {hint}\n"));
    }
    let policy = TestServer::finish(server.invocation(&["policy", "show"]).env("COLUMNS", "80")).await;
    let security = policy.stdout.lines().find(|line| line.starts_with("security "));
    assert_says(security.expect("a rule"), "tools.exec.security");
}

/// What fish is offered for the last of these words.
async fn offered(server: &TestServer, words: &[&str]) -> Vec<String> {
    let mut line = vec!["--", "countersign"];
    line.extend(words);
    let asked = server.invocation(&line).env("COUNTERSIGN_COMPLETE", "fish");
    let done = TestServer::finish(asked).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let lines = done.stdout.lines();
    lines
        .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn completion_offers_ids_as_lists_show_them_and_words_that_fit() {
    let server = TestServer::asking().start().await;
    let asked = server.asked(json!({ "argv": ["/bin/date"] })).await;
    server
        .operator()
        .made("/v1/agents/main/allowlist", json!({ "pattern": "/opt/x" }))
        .await;
    let entry = firsts(&server.cli(&["allowlist", "list"]).await);
    let tokens = firsts(&server.cli(&["token", "list"]).await);
    let run = asked.text("runId");
    for (words, expected) in [
        (&["allowlist", "remove", ""][..], entry[0].as_str()),
        (&["token", "revoke", ""], tokens[0].as_str()),
        (&["events", "--run", ""], &run[run.len() - 8..]),
        (&["events", "--types", "exec.den"], "exec.denied"),
        (
            &["events", "--types", "policy.changed,exec.den"],
            "policy.changed,exec.denied",
        ),
        (
            &["login-link", "--as", "ann", "--scope", "read,a"],
            "read,approve",
        ),
        (&["runs", "list", "--status", "den"], "denied"),
        (&["approvals", "resolve", "--as", "pro"], "program"),
    ] {
        let offered = offered(&server, words).await;
        assert!(
            offered.iter().any(|word| word == expected),
            "{words:?}: {offered:?}"
        );
    }
}

#[tokio::test]
async fn completion_offers_what_runs_in_the_background() {
    let server = TestServer::full().start().await;
    let call = json!({ "argv": ["/bin/sleep", "600"], "background": true });
    let started = server.accepted(call).await;
    let session = started.text("sessionId");
    for verb in ["log", "poll", "kill"] {
        let offered = offered(&server, &["process", verb, ""]).await;
        assert!(offered.iter().any(|word| word == session), "{verb}: {offered:?}");
    }
    let ended = server.cli(&["process", "kill", session]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
