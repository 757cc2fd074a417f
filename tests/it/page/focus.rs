//! What has the focus decides what a key is for, and an answer that comes back late takes the focus from nobody.

use serde_json::json;

use super::{ask, ask_body, complains_of_nothing, ended, id, opened, row, signed_in, steady};
use crate::support::{Browser, Screen, TestServer};

/// Puts the focus on a row, as the Tab key does, without opening it.
async fn focus_row(browser: &Browser, approval: &str) {
    let script = format!(
        "document.querySelector({}).focus()",
        json!(format!("{} .row-open", row(approval)))
    );
    browser.run(&script, json!([])).await;
}

/// Waits until the focus is in the card of an approval.
async fn on_card(browser: &Browser, approval: &str) {
    browser
        .until(&format!(
            "document.activeElement.closest('[data-id]')?.dataset.id === '{approval}'"
        ))
        .await;
}

#[tokio::test]
async fn a_letter_answers_only_the_request_that_has_the_focus_and_is_in_sight() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let mut asked = Vec::new();
    for number in ["1", "2", "3"] {
        let approval = id(&ask(&server, &["/bin/echo", number]).await, "approvalId");
        browser.shown(&row(&approval)).await;
        asked.push(approval);
    }
    // The card of the first is open and takes answers; the focus is on the row of the second.
    opened(&browser, &asked[0]).await;
    focus_row(&browser, &asked[1]).await;
    browser.press("a").await;
    on_card(&browser, &asked[1]).await;
    // The twin: now it is the one that you see, and the same letter answers it.
    browser.shown(&steady(&asked[1])).await;
    browser.press("a").await;
    ended(&browser, &asked[1], "Allowed once by you").await;
    let waiting = server.operator().pending().await;
    let mut waiting: Vec<_> = waiting.iter().map(|approval| id(approval, "id")).collect();
    waiting.sort();
    let mut rest = vec![asked[0].clone(), asked[2].clone()];
    rest.sort();
    assert_eq!(waiting, rest);

    // On a phone the list hides the card: a letter opens it, and the next one is for what is then seen.
    browser.set_screen(Screen::PHONE).await;
    opened(&browser, &asked[0]).await;
    browser.click(".card-back").await;
    browser
        .until(&format!(
            "document.activeElement.closest({})",
            json!(row(&asked[0]))
        ))
        .await;
    browser
        .until("!document.querySelector('[data-id]')?.checkVisibility()")
        .await;
    browser.press("d").await;
    on_card(&browser, &asked[0]).await;
    assert_eq!(
        browser
            .value("document.querySelector('[data-decision=confirm-deny]') === null")
            .await,
        true,
        "the letter only opened the card"
    );
    browser.shown(&steady(&asked[0])).await;
    browser.press("d").await;
    browser.shown("[data-decision=confirm-deny]").await;
    browser.press("\u{e007}").await;
    ended(&browser, &asked[0], "Denied by you").await;
    assert_eq!(server.operator().pending().await.len(), 1);
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn one_answer_to_several_shows_what_each_sets_and_leaves_you_where_you_went() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let mut asked = Vec::new();
    for label in ["blue", "red"] {
        let body = json!({ "argv": ["/bin/echo", "1"], "env": { "LABEL": label } });
        asked.push(id(&ask_body(&server, body).await, "approvalId"));
    }
    for number in ["2", "3"] {
        asked.push(id(&ask(&server, &["/bin/echo", number]).await, "approvalId"));
    }
    for approval in &asked {
        browser.shown(&row(approval)).await;
    }
    // The same program with other variables is not alike; without variables both are.
    for (first, count) in [(&asked[0], "1 request"), (&asked[2], "2 requests")] {
        browser.click(&format!("{} .row-open", row(first))).await;
        on_card(&browser, first).await;
        browser.press("X").await;
        browser
            .says("#chosen-title", &format!("One answer to {count}"))
            .await;
        browser.press("\u{e00c}").await;
        browser.until("!document.querySelector('#chosen-title')").await;
    }
    for approval in &asked[..2] {
        browser.click(&format!("{} .row-tick input", row(approval))).await;
    }
    for words in ["LABEL=blue", "LABEL=red", "set different variables"] {
        browser.says("[data-id=chosen]", words).await;
    }
    let facts = "document.querySelectorAll('[data-id=chosen] [data-fact=variables]').length";
    assert_eq!(browser.value(facts).await, 2);
    browser.shoot("chosen-variables").await;

    // Its answer is on the way while you go on to the last one.
    let script = "const real = window.fetch;
        const held = new Promise((done) => { window.let_go = done; });
        window.fetch = (path, options) => (String(path).endsWith('/decisions') ? held.then(() => real(path, options)) : real(path, options));";
    browser.run(script, json!([])).await;
    browser
        .click("[data-id=chosen]:not([data-unsteady]) [data-decision=deny-all]")
        .await;
    browser.shown("[data-row][data-phase=sending]").await;
    browser.click(&format!("{} .row-open", row(&asked[3]))).await;
    browser.run("window.let_go()", json!([])).await;
    for approval in &asked[..2] {
        ended(&browser, approval, "Denied by you").await;
    }
    on_card(&browser, &asked[3]).await;
    assert_eq!(server.operator().pending().await.len(), 2);
    complains_of_nothing(&browser).await;
}
