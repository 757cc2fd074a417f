//! Trials of the policy on the page, and changes that wait as a person reads them.

use countersign_sys::clock::{Clock as _, SystemClock};
use serde_json::json;

use super::{ask, axe, complains_of_nothing, go, signed_in, signed_in_with};
use crate::support::{Browser, Members as _, Screen, TestServer};

fn allowing(programs: &[&str]) -> String {
    let entries: Vec<_> = programs
        .iter()
        .map(|pattern| json!({ "pattern": pattern }))
        .collect();
    json!({ "version": 1, "agents": { "main": { "allowlist": entries } } }).to_string()
}

async fn submit(browser: &Browser, panel: &str) {
    browser
        .click(&format!("{panel} [type=submit]:not([aria-disabled=true])"))
        .await;
}

#[tokio::test]
async fn cases_are_tested_and_past_runs_are_judged_again() {
    let server = TestServer::asking()
        .document_text(&allowing(&["/bin/echo"]))
        .start()
        .await;
    server.ran(json!({ "argv": ["/bin/echo", "<b>x</b>"] })).await;
    let asked = ask(&server, &["/bin/date"]).await;
    server.answered(&asked, "deny").await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    go(&browser, "policy").await;
    browser.shown("#policy-cases").await;

    submit(&browser, "#policy-cases").await;
    browser.says("#policy-cases .problem", "Write a case first").await;
    browser
        .write(
            "#policy-cases-text",
            "[{\"command\": \"/bin/echo x\", \"expect\": \"allow\"},\n{\"command\": \"/bin/date\", \"expect\": \"allow\"}]",
        )
        .await;
    submit(&browser, "#policy-cases").await;
    browser
        .says("#policy-cases-answer", "1 of 2 cases is not as expected")
        .await;
    browser
        .says("[data-case='2']", "expected allow, but the policy says ask")
        .await;
    browser.write("#policy-cases-text", ",").await;
    submit(&browser, "#policy-cases").await;
    browser.says("#policy-cases .problem", "line").await;

    // The policy as it is decides as it did; another one does not.
    submit(&browser, "#policy-backtest").await;
    browser
        .says("#policy-backtest-answer", "nothing would be decided differently")
        .await;
    browser
        .write("#backtest-document", &allowing(&["/bin/date"]))
        .await;
    submit(&browser, "#policy-backtest").await;
    browser
        .says(
            "#policy-backtest-answer",
            "2 of 2 runs would be decided differently",
        )
        .await;
    browser
        .says("#policy-backtest-answer", "1 run would run without a question")
        .await;
    browser
        .says("#policy-backtest-answer", "needs approval → runs")
        .await;
    browser.says("#policy-backtest-answer", "<b>x</b>").await;
    browser.shoot("policy-trials").await;
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "policy-trials").await;
    }
    browser.set_screen(Screen::PHONE).await;
    let sideways = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.value(sideways).await, true);
    browser.write("#backtest-document", "x").await;
    submit(&browser, "#policy-backtest").await;
    browser.says("#policy-backtest .problem", "document").await;
    // Nothing ran, nobody was asked, and the policy is as it was.
    assert_eq!(server.operator().read("/v1/runs").await.list("items").len(), 2);
    assert_eq!(server.operator().pending().await.len(), 0);
    assert_eq!(
        server.document_on_disk()["agents"]["main"]["allowlist"][0]["pattern"],
        "/bin/echo"
    );
}

#[tokio::test]
async fn a_change_that_waits_is_shown_before_and_after_and_accepted() {
    let server = TestServer::asking()
        .document_text(&allowing(&["/**/date"]))
        .start()
        .await;
    server.ran(json!({ "argv": ["date"] })).await;
    let edited = json!({ "version": 1, "defaults": { "askFallback": "full" }, "agents": { "main": { "allowlist": [
        { "pattern": "/**/id", "note": "<img src=x onerror=alert(1)>" }
    ] } } });
    server.edit_document(&edited.to_string());
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    browser.click("#notice-held a").await;
    browser
        .says("#held-document", "It was edited from outside.")
        .await;
    browser
        .says("#held-document .allows", "\"/**/id\" is allowed")
        .await;
    let rows = browser
        .value("[...document.querySelectorAll('#held-document tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))")
        .await;
    assert_eq!(
        rows,
        json!([
            ["every agent, by default: askFallback", "not set", "full"],
            ["agent \"main\": allowed", "\"/**/date\"", "removed"],
            ["agent \"main\": allowed", "not set", "\"/**/id\""],
        ])
    );
    browser.shoot("policy-held").await;
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "policy-held").await;
    }
    browser.set_screen(Screen::PHONE).await;
    let sideways = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.value(sideways).await, true);
    // The command line says the same.
    let told = server.cli(&["policy", "diff"]).await;
    assert!(
        told.stdout
            .contains("every agent, by default: askFallback: not set -> full"),
        "{told:?}"
    );
    // Accepting it is asked about first.
    browser
        .click("#held-document [data-act=ask-accept-document]")
        .await;
    let held = server.operator().read("/v1/policy/effective").await["document"]["held"].clone();
    assert!(held["hash"].is_string());
    browser
        .click("#held-document :not([data-unsteady]) > [data-act=accept-document]")
        .await;
    browser
        .until("document.querySelector('#held-document') === null && document.querySelector('#notice-held') === null")
        .await;
    server.ran(json!({ "argv": ["id"] })).await;
    complains_of_nothing(&browser).await;

    // A reader sees it, and has no way to accept it.
    server.edit_config(
        &json!({ "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } } }).to_string(),
    );
    let browser = or_skip!(signed_in_with(&server, Screen::DESK, &["read"]).await);
    go(&browser, "policy").await;
    browser
        .says("#held-config", "An admin can accept or reject it")
        .await;
    browser.says("#held-config .changes", "tools.exec.security").await;
    assert_eq!(
        browser
            .value("document.querySelector('#held-config [data-act]')")
            .await,
        json!(null)
    );
}

#[tokio::test]
async fn a_change_that_waits_is_rejected_and_the_other_one_waits_on() {
    let server = TestServer::asking()
        .document_text(&allowing(&["/**/date"]))
        .start()
        .await;
    server.ran(json!({ "argv": ["date"] })).await;
    server.edit_document(&allowing(&["/**/date", "/**/id"]));
    server.edit_config(
        &json!({ "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } } }).to_string(),
    );
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    go(&browser, "policy").await;
    browser.shown("#held-config").await;
    browser
        .click("#held-document [data-act=ask-reject-document]")
        .await;
    browser
        .says(
            "#held-document",
            "Put exec-approvals.json back to what was accepted?",
        )
        .await;
    let effective = server.operator().read("/v1/policy/effective").await;
    let held = effective["document"]["held"]["hash"].clone();
    assert!(held.is_string(), "it is asked about first");
    browser
        .click("#held-document :not([data-unsteady]) > [data-act=reject-document]")
        .await;
    browser
        .until("document.querySelector('#held-document') === null")
        .await;
    browser.shown("#held-config").await;
    let kept = server.document_on_disk()["agents"]["main"]["allowlist"].clone();
    assert_eq!(kept.as_array().map(Vec::len), Some(1), "{kept}");
    let accept = server
        .operator()
        .post("/v1/policy/document/accept", json!({ "hash": held }))
        .await;
    accept.problem(412, "base-hash-mismatch");
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn what_is_allowed_again_and_again_is_suggested_and_added() {
    let server = TestServer::asking().start().await;
    let call = json!({ "argv": ["/usr/bin/env", "true"], "approvalWaitMs": 0 });
    for _ in 0..3 {
        let asked = server.asked(call.clone()).await;
        server.answered(&asked, "allow-once").await;
    }
    let once = server
        .asked(json!({ "argv": ["/usr/bin/env", "false"], "approvalWaitMs": 0 }))
        .await;
    server.answered(&once, "deny").await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    go(&browser, "policy").await;
    browser.click("#suggest").await;
    browser
        .says(
            "#suggest-saves",
            "This entry would have saved 3 questions in the last 30 days.",
        )
        .await;
    browser
        .says("#policy-suggestions li", "3 times main: /usr/bin/env true in")
        .await;
    axe::draw(&browser, "policy-suggestions", Screen::DESK).await;
    browser.click("[data-act=ask-add-suggestion]").await;
    browser
        .click(":not([data-unsteady]) > [data-act=add-suggestion]")
        .await;
    browser
        .says("#policy-suggestions", "No entry is worth adding")
        .await;
    server.ran(json!({ "argv": ["/usr/bin/env", "true"] })).await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn the_end_of_a_mute_that_waits_is_said_to_wait() {
    let server = TestServer::asking_with("widening = \"ask\"")
        .second_owner()
        .start()
        .await;
    let operator = server.operator();
    let until = SystemClock.now().get() + 3_600_000;
    let request = operator.request(reqwest::Method::PUT, "/v1/agents/main/mute");
    operator
        .send(request.json(&json!({ "untilMs": until, "reason": "quiet" })))
        .await
        .expect(200);
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    browser
        .says("#mutes [data-muted=main]", "main is muted until")
        .await;
    assert!(!browser.text("#mutes").await.contains("waits to be accepted"));
    browser.click("#mutes button").await;
    browser
        .says("#mutes [data-muted=main]", "Its end waits to be accepted.")
        .await;
    axe::draw(&browser, "mute-end-waits", Screen::DESK).await;
    browser.click("#mutes a").await;
    browser.says("#held-document", "it takes a second person").await;
    browser
        .says("#held-document .allows", "it is no longer muted")
        .await;
    browser
        .says("#held-document .changes", "agent \"main\": muted")
        .await;
    // Who proposed it cannot accept it, and is told why.
    browser
        .click("#held-document [data-act=ask-accept-document]")
        .await;
    browser
        .click("#held-document :not([data-unsteady]) > [data-act=accept-document]")
        .await;
    browser
        .until("document.querySelector('#held-document .problem').innerText.length > 0")
        .await;
    let held = operator.read("/v1/policy/effective").await["document"]["held"].clone();
    let second = server.token_of("second", &["admin"]).await;
    second
        .posted("/v1/policy/document/accept", json!({ "hash": held["hash"] }))
        .await;
    browser
        .until("document.querySelector('#held-document') === null")
        .await;
    go(&browser, "inbox").await;
    browser.until("!document.querySelector('#mutes')").await;
}
