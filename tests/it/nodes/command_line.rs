use serde_json::Value;

use super::{ONLY_RUN, knock, paired};
use crate::support::{Members as _, TestServer};

#[tokio::test]
async fn pairings_are_listed_and_decided() {
    let server = TestServer::asking().start().await;
    let empty = server.cli(&["nodes", "pairings"]).await;
    assert!(empty.stderr.contains("nothing waits for a decision"), "{empty:?}");
    let asked = knock(&server, "build-box", ONLY_RUN).await;
    let listed = server.cli(&["nodes", "pairings"]).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    listed.says(&asked.request[..8]);
    assert!(!listed.stdout.contains(&asked.request), "{listed:?}");
    listed.says("build-box");
    listed.complains(format!("hint: countersign nodes approve {}", &asked.request[..8]));
    let narrow = TestServer::finish(server.invocation(&["nodes", "pairings"]).env("COLUMNS", "80")).await;
    assert!(
        narrow.stdout.lines().all(|line| line.chars().count() <= 80),
        "{narrow:?}"
    );
    narrow.says("to connect");
    let wide = server.cli(&["nodes", "pairings", "--wide"]).await;
    wide.says(&asked.request);
    let data: Value =
        serde_json::from_str(&server.cli(&["nodes", "pairings", "--json"]).await.stdout).expect("JSON");
    assert_eq!(data["items"][0]["requestId"], asked.request.as_str());

    // Never by the name that the machine chose.
    let by_name = server.cli(&["nodes", "approve", "build-box"]).await;
    assert_eq!(by_name.code, Some(1), "{by_name:?}");
    assert!(by_name.stderr.starts_with("error[not-found]: "), "{by_name:?}");
    by_name.complains("hint: countersign nodes pairings");
    let beginning = asked.request.get(..8).expect("an id");
    let approved = server.cli(&["nodes", "approve", beginning]).await;
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(
        approved.stdout.starts_with("approved the device build-box ("),
        "{approved:?}"
    );
    approved.complains("it may be sent: system.run");
    let again = server.cli(&["nodes", "approve", beginning]).await;
    assert!(again.stderr.starts_with("error[not-found]: "), "{again:?}");

    let stranger = knock(&server, "stranger", ONLY_RUN).await;
    let rejected = server
        .cli(&["nodes", "reject", &stranger.request, "--json"])
        .await;
    let data: Value = serde_json::from_str(&rejected.stdout).expect("JSON");
    assert_eq!(data["decision"], "reject");
    let nodes = server.operator().read("/v1/nodes").await;
    assert_eq!(nodes["items"].as_array().map(Vec::len), Some(1), "{nodes}");
}

#[tokio::test]
async fn a_node_is_shown_renamed_and_removed_by_name_or_beginning() {
    let server = TestServer::asking().start().await;
    let node = paired(&server, "build-box", ONLY_RUN).await;
    let beginning = node.id().get(..6).expect("an id").to_owned();
    let end = node.id()[58..].to_owned();
    for part in [&beginning, &end] {
        let found = server.operator().read(&format!("/v1/nodes/{part}")).await;
        assert_eq!(found["nodeId"], node.id(), "{part}");
        let shown = server.cli(&["nodes", "show", part, "--json"]).await;
        shown.says(node.id());
    }
    let few = server.operator().get(&format!("/v1/nodes/{}", &end[1..])).await;
    few.problem(404, "node-not-found").says("detail", "6 characters");
    let listed = server.cli(&["nodes", "list"]).await;
    listed.says("build-box");
    listed.says("connected");
    let shown = server.cli(&["nodes", "show", "Build-Box", "--json"]).await;
    let data: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(data["nodeId"], node.id());
    let shown = server.cli(&["nodes", "show", &beginning]).await;
    assert!(shown.stdout.contains(&node.id()), "{shown:?}");
    let short = server
        .cli(&["nodes", "show", beginning.get(..5).expect("five")])
        .await;
    assert!(short.stderr.starts_with("error[node-not-found]: "), "{short:?}");
    short.complains("of an id give 6 characters or more");

    let renamed = server
        .cli(&["nodes", "rename", "build-box", "Second floor"])
        .await;
    assert_eq!(renamed.code, Some(0), "{renamed:?}");
    let bad = server
        .cli(&["nodes", "rename", "second floor", "a\u{202e}b"])
        .await;
    assert!(bad.stderr.starts_with("error[invalid-request]: "), "{bad:?}");
    let removed = server.cli(&["nodes", "remove", "second floor"]).await;
    assert!(
        removed.stdout.starts_with("removed Second floor ("),
        "{removed:?}"
    );
    let gone = server.cli(&["nodes", "list"]).await;
    assert!(gone.stderr.contains("no nodes are paired"), "{gone:?}");
}

#[tokio::test]
async fn names_that_would_move_the_cursor_are_spelled_out() {
    let server = TestServer::asking().start().await;
    knock(&server, "x\u{1b}[2J\u{202e}y", ONLY_RUN).await;
    for arguments in [&["nodes", "pairings"][..], &["nodes", "list"]] {
        let done = server.cli(arguments).await;
        assert!(!done.stdout.contains(['\u{1b}', '\u{202e}']), "{done:?}");
    }
    // Two nodes of one name are none that is meant.
    let first = paired(&server, "twin", ONLY_RUN).await;
    let second = paired(&server, "twin", ONLY_RUN).await;
    let shown = server.cli(&["nodes", "show", "twin"]).await;
    assert!(shown.stderr.starts_with("error[node-ambiguous]: "), "{shown:?}");
    for node in [&first, &second] {
        assert!(
            shown.stderr.contains(&format!("\n  {}  twin ", &node.id()[..8])),
            "{shown:?}"
        );
    }
}

#[tokio::test]
async fn a_token_without_the_scope_is_told_which_it_needs() {
    let server = TestServer::asking().start().await;
    let invocation = server
        .invocation(&["nodes", "pairings"])
        .env("COUNTERSIGN_TOKEN", server.gateway_token());
    let done = TestServer::finish(invocation).await;
    assert_eq!(done.code, Some(77), "{done:?}");
    assert!(done.stderr.starts_with("error[forbidden]: "), "{done:?}");
    assert!(done.stderr.contains("--scope admin"), "{done:?}");
}
