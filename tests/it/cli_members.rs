//! `--json=MEMBERS`: what a command prints is known before it does anything, so that a slip costs nothing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Members, TestServer, assert_says};

/// The members of what was printed: of each item of a list, of each line of a stream, or of the one object.
fn printed(stdout: &str) -> BTreeSet<String> {
    let documents = serde_json::Deserializer::from_str(stdout).into_iter::<Value>();
    let documents: Vec<Value> = documents.collect::<Result<_, _>>().expect("JSON");
    let objects = documents
        .iter()
        .flat_map(|document| match document["items"].as_array() {
            Some(items) => items.iter().collect(),
            None => vec![document],
        });
    let names = objects
        .filter_map(Value::as_object)
        .flat_map(|members| members.keys());
    names.cloned().collect()
}

#[tokio::test]
async fn every_member_that_is_printed_is_known() {
    let server = TestServer::asking().start().await;
    server.asked(json!({ "argv": ["/bin/date"] })).await;
    let echo = ["allowlist", "add", "/bin/echo", "--json"];
    assert_eq!(server.cli(&echo).await.code, Some(0));
    let mut unknown = Vec::new();
    for line in [
        "exec --json -- /bin/echo x",
        "exec --json --no-wait -- /bin/uname",
        "exec --json --security deny -- /bin/echo x",
        "exec --explain --json -- /bin/date",
        "process list --json",
        "approvals list --json",
        "allowlist add --json /bin/cat",
        "allowlist list --json",
        "denylist add --json shutdown",
        "denylist list --json",
        "policy set --json --agent build --ask always",
        "agents list --json",
        "agents mute --json build --for 1h",
        "agents mutes --json",
        "agents unmute --json build",
        "policy show --json",
        "policy explain --json -- /bin/date",
        "policy backtest --json",
        "policy suggest --json",
        "policy diff --json",
        "policy history --json",
        "policy preset --json cautious --dry-run",
        "policy preset --json cautious",
        "config list --json",
        "config get --json tools.exec.ask",
        "config set --json tools.exec.timeoutSec 900",
        "session show --json",
        "session set --json --ask always",
        "session clear --json",
        "runs list --json",
        "nodes list --json",
        "nodes pairings --json",
        "events --json",
        "audit list --json",
        "audit verify --json",
        "audit export --json",
        "token create ci --scope read --json",
        "token list --json",
        "login-link --json",
        "browsers list --json",
        "status --json",
        "doctor --json",
        "doctor --ready --json",
        "security audit --json",
        "version --json",
        "node status --json",
        "stop --json --reason test",
        "resume --json --reason test",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let done = server.cli(&words).await;
        let words = words.iter().take_while(|word| **word != "--");
        let is_name = |word: &&&str| !word.starts_with('-') || ["--explain", "--ready"].contains(*word);
        // As many words as name a command.
        let names: Vec<&str> = words.filter(is_name).copied().collect();
        let known = (1..=names.len())
            .rev()
            .map(|count| countersign::cli::members_of(&names[..count].join(" ")));
        let known = known
            .into_iter()
            .find(|known| !known.is_empty())
            .unwrap_or_else(|| panic!("{line}: no members"));
        let names = printed(&done.stdout).into_iter();
        unknown.extend(
            names
                .filter(|name| !known.contains(name))
                .map(|name| format!("{line}: {name}")),
        );
        assert!(!done.stdout.is_empty(), "{line}: {done:?}");
    }
    assert_eq!(unknown, Vec::<String>::new());
}

#[tokio::test]
async fn a_misspelt_member_is_refused_before_anything_is_done() {
    let server = TestServer::full().start().await;
    let file = server.scratch().path().join("made");
    let file = file.to_str().expect("UTF-8");
    for line in [
        &["exec", "--json=stautsX", "--", "/usr/bin/touch", file][..],
        &["token", "create", "ci", "--scope", "read", "--json=secrte"],
        &["events", "--json=id"],
        &["policy", "diff", "--json=foo"],
        &["runs", "list", "--json=runId,foo"],
        &["status", "--json=foo"],
        &["stop", "--reason", "test", "--json=foo"],
        &["openapi", "--json=foo"],
    ] {
        let done = server.cli(line).await;
        assert_eq!(done.code, Some(64), "{line:?}: {done:?}");
        assert_eq!(done.stdout, "", "{line:?}");
        let problem: Value =
            serde_json::from_str(&done.stderr).unwrap_or_else(|error| panic!("{error}: {done:?}"));
        assert_has!(problem, { "code": "usage" });
    }
    assert!(!std::path::Path::new(file).exists(), "it ran");
    let operator = server.operator();
    assert_eq!(operator.read("/v1/runs").await["items"], json!([]));
    let tokens = operator.read("/v1/tokens").await;
    assert!(
        tokens.list("items").iter().all(|token| token["name"] != "ci"),
        "{tokens}"
    );
    assert_eq!(operator.read("/v1/stop").await["stopped"], false);
    // What was probably meant is a line to paste, and the twin that is spelled well does it.
    let slip = server
        .cli(&["token", "create", "ci", "--scope", "read", "--json=id,secrte"])
        .await;
    assert_says(&slip.stderr, "did you mean secret?");
    assert_says(
        &slip.stderr,
        "countersign token create ci --scope read --json=id,secret",
    );
    let made = server
        .cli(&["token", "create", "ci", "--scope", "read", "--json=id,secret"])
        .await;
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(
        printed(&made.stdout),
        BTreeSet::from(["id".to_owned(), "secret".to_owned()])
    );
    let ran = server
        .cli(&["exec", "--json=exitCode", "--", "/usr/bin/touch", file])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON"),
        json!({ "exitCode": 0 })
    );
}
