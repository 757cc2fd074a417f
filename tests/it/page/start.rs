//! What newcomers see while no request waits, and the first question.

use serde_json::{Value, json};

use super::{axe, complains_of_nothing, id, signed_in, signed_in_with};
use crate::support::{Members as _, Screen, TestServer, eventually};

#[tokio::test]
async fn a_test_question_is_asked_by_who_may_and_answered_by_another() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in_with(&server, Screen::DESK, &["exec", "read"]).await);
    browser
        .says("#start", "No agent has asked for anything yet.")
        .await;
    browser
        .says("#start", "What the allowlist does not cover needs approval")
        .await;
    browser.says("#start", "echo 'Hello from countersign'").await;
    axe::draw(&browser, "start", Screen::DESK).await;
    browser.set_screen(Screen::PHONE).await;
    let sideways = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.value(sideways).await, true);
    browser.click("#send-test").await;
    browser.says("#waiting-title", "(1)").await;
    let waits = server.operator().pending().await;
    assert_eq!(waits.len(), 1);
    // Exactly what the page said, and nothing has run.
    assert_eq!(
        waits[0]["command"], "echo 'Hello from countersign'",
        "{}",
        waits[0]
    );
    assert_eq!(waits[0]["agentId"], "main");
    let run = server.operator().run(&id(&waits[0], "runId")).await;
    assert_eq!(run["status"], "approval-pending");
    // Who asks cannot answer, here as everywhere.
    let script = "return fetch(`/v1/approvals/${arguments[0]}/decision`, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': localStorage.getItem('countersign.csrf') }, body: JSON.stringify({ decision: 'allow-once' }) }).then((answer) => answer.status)";
    assert_eq!(browser.run(script, json!([waits[0]["id"]])).await, 403);
    server.operator().decided(waits[0].text("id"), "allow-once").await;
    let ended = eventually(
        "the end of the run",
        || async { server.operator().run(waits[0].text("runId")).await },
        |run| run["status"] == "completed",
    )
    .await;
    assert_eq!(ended["exitCode"], 0, "{ended}");
}

#[tokio::test]
async fn who_may_not_ask_sees_the_command_and_a_refusal_says_what_would_change_it() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    browser
        .says(
            "#start",
            "countersign exec --host gateway --ask always -- echo 'Hello from countersign'",
        )
        .await;
    assert_eq!(
        browser.value("document.querySelector('#send-test')").await,
        Value::Null
    );
    complains_of_nothing(&browser).await;
    browser.click("#sign-out").await;

    // Where policy denies everything, the page says so before and after.
    let exec = json!({ "host": "gateway", "security": "deny" });
    server.edit_config(&json!({ "tools": { "exec": exec } }).to_string());
    let browser = or_skip!(signed_in_with(&server, Screen::DESK, &["exec", "read"]).await);
    browser.says("#start", "policy denies all of them").await;
    browser.click("#send-test").await;
    browser
        .says("#start .problem", "What would change that: countersign")
        .await;
    assert_eq!(server.operator().pending().await.len(), 0);
}

#[tokio::test]
async fn where_commands_go_to_the_sandbox_it_says_that_nobody_is_asked() {
    let config = json!({ "tools": { "exec": { "host": "sandbox" } } });
    let server = TestServer::asking().config(&config).start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    browser.says("#start", "sandbox, where nobody is asked").await;
}
