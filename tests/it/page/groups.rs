//! Equal and similar questions: one row, one answer, and a result for each.

use serde_json::{Value, json};

use super::{ask, ask_body, axe, complains_of_nothing, ended, id, opened, row, signed_in, steady};
use crate::support::{Browser, Screen, TestServer};

/// The row of a group, by what it says.
const GROUP: &str = ".row.equal";
const SIMILAR: &str = ".row.similar";

/// Asks the same so many times; each is a question of its own.
async fn ask_again(server: &TestServer, argv: &[&str], times: usize) -> Vec<String> {
    let mut asked = Vec::new();
    for _ in 0..times {
        let pending = ask_body(server, json!({ "argv": argv, "join": false })).await;
        asked.push(id(&pending, "approvalId"));
    }
    asked
}

/// The card of the group that is open, once it takes answers.
async fn group_card(browser: &Browser) {
    browser.shown("[data-id^=\"all-\"]:not([data-unsteady])").await;
}

async fn pending(server: &TestServer) -> usize {
    server.operator().pending().await.len()
}

#[tokio::test]
async fn equal_questions_are_one_row_with_one_answer() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let equal = ask_again(&server, &["/bin/echo", "same"], 12).await;
    let other = id(&ask(&server, &["/bin/date"]).await, "approvalId");
    browser.says(GROUP, "×12").await;
    browser.shown(&row(&other)).await;
    browser.says("#waiting-title", "(13)").await;
    let rows = "document.querySelectorAll('[data-row]').length";
    assert_eq!(browser.value(rows).await, 2);
    browser.shoot("group").await;

    // Its members are listed by a key or a press, and hidden again; a reader hears the count and the state.
    let toggle = "document.querySelector('.row-unfold')";
    let name = browser
        .value(&format!("{toggle}.getAttribute('aria-label')"))
        .await;
    assert!(
        name.as_str()
            .is_some_and(|name| name.contains("12 equal requests")),
        "{name}"
    );
    browser.click(&format!("{GROUP} .row-open")).await;
    group_card(&browser).await;
    browser.press("o").await;
    browser
        .until(&format!("{toggle}.ariaExpanded === 'true' && {rows} === 14"))
        .await;
    let rules = axe::rules();
    if let Some(rules) = &rules {
        axe::give(&browser, rules).await;
        axe::is_accessible(&browser, "group").await;
        browser.set_screen(Screen::DESK).await;
    }
    browser.press("o").await;
    browser
        .until(&format!("{toggle}.ariaExpanded === 'false' && {rows} === 2"))
        .await;
    browser.click(".row-unfold").await;
    browser.until(&format!("{rows} === 14")).await;

    // One of them alone takes an answer of its own.
    super::answer(&browser, &equal[3], "deny").await;
    ended(&browser, &equal[3], "Denied by you").await;
    browser.says(GROUP, "×11").await;
    assert_eq!(pending(&server).await, 12);

    // All that is left gets one answer, and each says how it ended.
    browser.click(&format!("{GROUP} .row-open")).await;
    group_card(&browser).await;
    browser.says("[data-decision=allow-once]", "Allow 11 once").await;
    browser
        .click(
            "[data-id^=\"all-\"]:not([data-unsteady]) [data-decision=allow-once]:not([aria-disabled=true])",
        )
        .await;
    browser
        .says(&format!("{GROUP}[data-phase=settled]"), "Allowed once by you")
        .await;
    browser.says(GROUP, "×11").await;
    // It goes on to what waits.
    browser.shown(&steady(&other)).await;
    assert_eq!(pending(&server).await, 1);
    for approval in &equal {
        let decision = if *approval == equal[3] {
            "deny"
        } else {
            "allow-once"
        };
        assert_eq!(server.operator().approval(approval).await["decision"], decision);
    }
    browser.click(&format!("{GROUP} .row-open")).await;
    browser
        .until("document.querySelectorAll('[data-result]').length === 11")
        .await;
    browser.until("[...document.querySelectorAll('[data-result]')].every((result) => result.innerText.includes('exit code 0'))").await;
    browser.shoot("group-results").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn by_the_keyboard_a_group_takes_the_keys_of_one_request() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    ask_again(&server, &["/bin/echo", "same"], 3).await;
    browser.says(GROUP, "×3").await;
    // A letter without the focus only opens the group, and a key that is held down answers nothing.
    browser.press("a").await;
    group_card(&browser).await;
    assert_eq!(pending(&server).await, 3);
    let held = "for (let at = 0; at < 5; at += 1) document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', repeat: true, bubbles: true }));";
    browser.run(held, json!([])).await;
    assert_eq!(pending(&server).await, 3);
    // One more comes: what the key does has changed, so it waits a moment, and then it is for all four.
    ask_again(&server, &["/bin/echo", "same"], 1).await;
    browser.says(GROUP, "×4").await;
    group_card(&browser).await;
    browser.press("d").await;
    browser
        .until("document.activeElement.matches('.note input')")
        .await;
    browser.press("not today\u{e007}").await;
    browser
        .says(&format!("{GROUP}[data-phase=settled]"), "Reason: not today")
        .await;
    assert_eq!(pending(&server).await, 0);
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn an_answer_that_comes_with_another_equal_question_is_for_what_was_shown() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let first = ask_again(&server, &["/bin/echo", "same"], 1).await.remove(0);
    opened(&browser, &first).await;
    // The button is under the finger in the very moment in which it becomes one for two.
    let script = "window.tapped = 0;
        new MutationObserver(() => {
            const button = document.querySelector('[data-decision=allow-once]');
            if (!button?.innerText.includes('2')) return;
            button.click();
            window.tapped += 1;
        }).observe(document.querySelector('#cards'), { childList: true, subtree: true, characterData: true });";
    browser.run(script, json!([])).await;
    ask_again(&server, &["/bin/echo", "same"], 1).await;
    browser.until("window.tapped > 0").await;
    browser
        .shown(&format!("[data-id=\"{first}\"]:not([data-unsteady])"))
        .await;
    assert_eq!(pending(&server).await, 2);
}

#[tokio::test]
async fn where_others_were_quicker_each_of_a_group_says_so() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let equal = ask_again(&server, &["/bin/echo", "same"], 3).await;
    browser.says(GROUP, "×3").await;
    browser.click(&format!("{GROUP} .row-open")).await;
    group_card(&browser).await;
    let quicker = "const [quicker] = arguments;
        const real = window.fetch;
        window.fetch = async (path, options) => {
            if (!String(path).endsWith('/decisions')) return real(path, options);
            window.fetch = real;
            await real(`/v1/approvals/${quicker}/decision`, { ...options, body: JSON.stringify({ decision: 'deny', reason: 'mine' }) });
            return real(path, options);
        };";
    browser.run(quicker, json!([equal[1]])).await;
    browser
        .click(
            "[data-id^=\"all-\"]:not([data-unsteady]) [data-decision=allow-once]:not([aria-disabled=true])",
        )
        .await;
    browser.says(GROUP, "2 Allowed once by you · 1 not").await;
    // Its members are listed, with the end of each.
    ended(&browser, &equal[0], "Allowed once by you").await;
    ended(&browser, &equal[1], "Denied by operator").await;
    ended(&browser, &equal[2], "Allowed once by you").await;
    browser.click(&format!("{GROUP} .row-open")).await;
    browser
        .says(&format!("[data-result=\"{}\"]", equal[1]), "Reason: mine")
        .await;
    browser.shoot("group-partly").await;
}

#[tokio::test]
async fn similar_questions_are_grouped_when_wanted_and_allowed_once_each_was_seen() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    for number in 0..30 {
        ask(&server, &["/bin/echo", &format!("number {number}")]).await;
    }
    ask_again(&server, &["/bin/echo", "number 0"], 2).await;
    let rows = "document.querySelectorAll('[data-row]').length";
    browser.says("#waiting-title", "(32)").await;
    assert_eq!(
        browser
            .value("document.querySelectorAll('.row.similar').length")
            .await,
        0
    );
    browser.click("#similar").await;
    browser.says(SIMILAR, "×32 similar").await;
    browser.until(&format!("{rows} === 1")).await;
    browser.click(&format!("{SIMILAR} .row-open")).await;
    browser
        .says("#chosen-title", "One answer to 32 similar requests")
        .await;
    browser.says(".batch", "Asked 3 times").await;
    group_card(&browser).await;
    // What was not in sight is not allowed, by the button or by the key.
    browser
        .says("#why-not-chosen", "Scroll through all of them")
        .await;
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "similar").await;
        browser.set_screen(Screen::DESK).await;
    }
    browser
        .run(
            "document.querySelector('[data-decision=allow-all]').click()",
            json!([]),
        )
        .await;
    browser.press("a").await;
    // From the end alone those in between were not seen, either.
    browser
        .run(
            "const box = document.querySelector('.card-body'); box.scrollTop = box.scrollHeight;",
            json!([]),
        )
        .await;
    browser.says("#why-not-chosen", "not in sight yet").await;
    assert_eq!(pending(&server).await, 32);
    let read = "const box = document.querySelector('.card-body');
        return (async () => {
            for (box.scrollTop = 0; ; box.scrollTop += box.clientHeight / 2) {
                await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                if (box.scrollTop + box.clientHeight >= box.scrollHeight - 2) return true;
            }
        })();";
    browser.run(read, json!([])).await;
    browser
        .until("document.querySelector('#why-not-chosen').innerText === ''")
        .await;
    group_card(&browser).await;
    browser.press("a").await;
    browser
        .says(&format!("{SIMILAR}[data-phase=settled]"), "Allowed once by you")
        .await;
    assert_eq!(pending(&server).await, 0);
    assert!(
        server
            .operator()
            .read("/v1/approvals?status=allowed&limit=100")
            .await["items"]
            .as_array()
            .is_some_and(|all: &Vec<Value>| all.len() == 32)
    );
    // The choice stays with the browser, and is taken back by the same button.
    browser.reload().await;
    browser.shown("#waiting-title").await;
    ask(&server, &["/bin/echo", "a"]).await;
    ask(&server, &["/bin/echo", "b"]).await;
    browser.says(SIMILAR, "×2 similar").await;
    browser.press("g").await;
    browser
        .until("document.querySelectorAll('.row.one').length === 2")
        .await;
    complains_of_nothing(&browser).await;
}
