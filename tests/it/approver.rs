//! `countersign approver` in a terminal that has no full screen: a person at a real terminal, key by key.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{
    Members, Terminal, TestServer, assert_says, eventually, lines, soon, way_of_pieces, within,
};

/// The approver at a pseudo-terminal.
fn approver(server: &TestServer) -> Terminal {
    let invocation = server
        .invocation(&["approver"])
        .env("TERM", "dumb")
        .env("SHELL", "/bin/sh");
    Terminal::start(invocation)
}

/// Leaves with `q`, pressed again while it might have come together with an earlier key.
pub(crate) async fn quits(mut terminal: Terminal) {
    let ended = within("the end of the approver", async {
        let mut pause = tokio::time::interval(Duration::from_millis(250));
        loop {
            pause.tick().await;
            if let Some(code) = terminal.try_end() {
                return code;
            }
            terminal.press_if_open("q");
        }
    })
    .await;
    assert_eq!(ended, Some(0), "{}", terminal.text());
}

fn append(text: &str, file: &std::path::Path) -> Value {
    json!({ "command": format!("echo {text} >> {}", file.display()) })
}

async fn asked(server: &TestServer, body: Value) -> Value {
    server.accepted(body).await
}

fn id<'a>(object: &'a Value, member: &str) -> &'a str {
    object.text(member)
}

#[tokio::test]
async fn a_person_allows_one_and_denies_the_next_with_a_reason() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let first = asked(&server, append("first", &file)).await;
    let second = asked(&server, append("second", &file)).await;
    let mut terminal = approver(&server);
    terminal.sees("1 of 2").await;
    let card = terminal.sees("d deny").await;
    assert!(card.contains("echo first >>"), "the oldest comes first: {card}");
    for fact in [
        "main",
        "gateway",
        "allowlist-miss",
        server.state().to_str().unwrap(),
    ] {
        assert!(card.contains(fact), "{fact} in {card}");
    }
    terminal.press_until("a", ": allow-once").await;
    assert_has!(server.agent().finished(id(&first, "runId")).await, { "status": "completed" });
    // How it went is said when it ends.
    terminal.sees(": allow-once, exit 0 in ").await;
    terminal.sees("echo second >>").await;
    terminal.press_until("d", "reason (Enter").await;
    terminal.press("not today\r");
    let denied = server.agent().finished(id(&second, "runId")).await;
    assert_eq!(denied["reason"], "user-denied");
    let path = format!("/v1/approvals/{}", id(&second, "approvalId"));
    let approval = server.operator().read(&path).await;
    assert!(id(&approval, "reason").ends_with("not today"), "{approval}");
    terminal.sees("nothing waits").await;
    assert_eq!(lines(&file), ["first"]);
    quits(terminal).await;
}

/// Where a miss is refused while nobody answers.
#[tokio::test]
async fn while_it_runs_somebody_is_there_to_answer() {
    let server = TestServer::asking_approvers_that_are_there().start().await;
    let status = async || server.agent().exec(json!({ "argv": ["/bin/date"] })).await.status;
    assert_eq!(status().await, 403);
    let terminal = approver(&server);
    terminal.sees("nothing waits").await;
    eventually("it listens", status, |status| *status == 202).await;
    terminal.sees("d deny").await;
    quits(terminal).await;
    eventually("nobody is there", status, |status| *status == 403).await;
}

#[tokio::test]
async fn the_environment_stands_on_the_card() {
    let server = TestServer::asking().start().await;
    let env = json!({ "COMPILER_LABEL": "/x", "NOTE": "a b" });
    asked(&server, json!({ "command": "gcc -c hello.c", "env": env })).await;
    let terminal = approver(&server);
    let card = terminal.sees("d deny").await;
    assert_says(&card, "COMPILER_LABEL=/x");
    assert_says(&card, "NOTE=a b");
    quits(terminal).await;
}

/// Text that a terminal would obey, or that turns round what is read, is spelled out.
#[tokio::test]
async fn hostile_text_reaches_no_terminal() {
    let server = TestServer::asking().start().await;
    let command =
        "echo \u{1b}]0;owned\u{7}\u{1b}[2J \u{202e}cod.exe\u{200b} > /dev/null #\r\nsecond\u{9b}31m";
    asked(
        &server,
        json!({ "command": command, "sessionKey": "chat:\u{202e}x" }),
    )
    .await;
    let terminal = approver(&server);
    let card = terminal.sees("d deny").await;
    assert_says(&card, "\\u{1B}]0;owned\\u{7}");
    assert_says(&card, "\\u{202E}cod.exe");
    for raw in [
        "\u{1b}]0;",
        "\u{202e}",
        "\u{200b}",
        "\u{1b}[2J",
        "\u{9b}",
        "\u{7}",
    ] {
        assert!(!card.contains(raw), "{raw:?} in {card:?}");
    }
    quits(terminal).await;
}

#[tokio::test]
async fn what_is_decided_elsewhere_leaves_the_screen() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let mut terminal = approver(&server);
    terminal.sees("nothing waits").await;
    let first = asked(&server, append("first", &file)).await;
    terminal.sees("echo first >>").await;
    let second = asked(&server, append("second", &file)).await;
    terminal.sees("1 of 2").await;
    server.operator().decided(id(&first, "approvalId"), "deny").await;
    let slug = &id(&first, "approvalId")[..8];
    terminal.sees(&format!("{slug} is denied by")).await;
    terminal.sees("echo second >>").await;
    let path = format!("/v1/runs/{}/cancel", id(&second, "runId"));
    server.agent().posted(&path, json!({})).await;
    terminal.sees("is cancelled").await;
    terminal.press("a");
    quits(terminal).await;
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn a_question_that_expires_says_so() {
    let server = TestServer::asking_with("timeout_ms = 1500").start().await;
    let terminal = approver(&server);
    terminal.sees("nothing waits").await;
    asked(&server, json!({ "argv": ["/bin/date"] })).await;
    terminal.sees("expired").await;
    quits(terminal).await;
}

#[tokio::test]
async fn a_server_that_comes_back_is_followed_again() {
    let mut server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let pending = asked(&server, append("after", &file)).await;
    let mut terminal = approver(&server);
    terminal.sees("echo after >>").await;
    server.kill();
    terminal.sees("offline").await;
    server.start().await;
    terminal.sees("connected again").await;
    terminal.press_until("a", ": allow-once").await;
    server.agent().finished(id(&pending, "runId")).await;
    assert_eq!(lines(&file), ["after"]);
    quits(terminal).await;
}

#[tokio::test]
async fn without_a_terminal_another_command_is_named() {
    let server = TestServer::asking().start().await;
    let done = server.cli(&["approver"]).await;
    assert_eq!(done.code, Some(64), "{done:?}");
    done.complains("hint: countersign approvals watch   (");
}

/// A way to a server that ends at every look at a single question, while the number of such ends is wanted.
async fn way_without_looks(server: &TestServer, ends: watch::Sender<Option<u32>>) -> String {
    way_of_pieces(server, move |piece| {
        let is_look = piece.starts_with(b"GET /v1/approvals/");
        let is_ended = |ends: &mut Option<u32>| ends.as_mut().map(|ends| *ends += 1).is_some();
        std::future::ready(!(is_look && ends.send_if_modified(is_ended)))
    })
    .await
}

#[tokio::test]
async fn what_could_not_be_looked_at_is_seen_with_the_next_connection() {
    let server = TestServer::asking_with("[[approvals.rules]]\napprovals_required = 2\n")
        .start()
        .await;
    let ann = server.token_of("ann", &["approve"]).await;
    let (ends, ended) = watch::channel(None);
    let way = way_without_looks(&server, ends.clone()).await;
    let token = server.operator_token();
    let invocation = server
        .invocation(&["approver", "--url", &way, "--token", &token])
        .env("TERM", "dumb")
        .env("SHELL", "/bin/sh");
    let mut terminal = Terminal::start(invocation);
    let pending = asked(&server, json!({ "command": "echo x" })).await;
    terminal.sees("pending, 0 of 2").await;
    ends.send_replace(Some(0));
    ann.decided(id(&pending, "approvalId"), "allow-once").await;
    soon(
        "cut off",
        || *ended.borrow(),
        |ends| ends.is_some_and(|ends| ends > 0),
    )
    .await;
    ends.send_replace(None);
    terminal.sees("connected again").await;
    terminal.press_until("r", "pending, 1 of 2").await;
    quits(terminal).await;
}
