//! Equal and similar questions: one row, one answer, and a result for each.

use serde_json::{Value, json};

use super::{ask, ask_body, axe, complains_of_nothing, ended, id, opened, row, signed_in, steady};
use crate::support::{Browser, Screen, TestServer, eventually};

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
    axe::draw(&browser, "group-results", Screen::DESK).await;
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
            if (window.tapped || !button?.innerText.includes('2')) return;
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
    browser
        .says(GROUP, "2 Allowed once by you · 1 Denied by operator")
        .await;
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

/// Opens "Always" on the card of a group.
async fn open_always(browser: &Browser) {
    group_card(browser).await;
    browser
        .click("[data-id^=\"all-\"] [data-decision=allow-always]:not([aria-disabled=true])")
        .await;
    browser.shown(".stores").await;
}

async fn store(browser: &Browser) {
    browser
        .click(
            "[data-id^=\"all-\"]:not([data-unsteady]) [data-decision=confirm-always]:not([aria-disabled=true])",
        )
        .await;
}

#[tokio::test]
async fn always_on_equal_questions_says_what_it_covers_and_answers_no_more() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let argv = ["/bin/echo", "same"];
    let mut equal = ask_again(&server, &argv, 3).await;
    let elsewhere = json!({ "argv": argv, "join": false, "sessionKey": "agent:main:other" });
    equal.push(id(&ask_body(&server, elsewhere).await, "approvalId"));
    browser.says(GROUP, "×4").await;
    browser.click(&format!("{GROUP} .row-open")).await;
    open_always(&browser).await;
    browser
        .says(".covers", "It also allows all 3 other requests")
        .await;
    browser.click(".narrow input[type=checkbox]").await;
    browser
        .says(".covers", "It also allows 2 of the 3 other requests")
        .await;
    browser.says(".covers", "One still needs an answer").await;
    browser.says(".stores", "it comes from another session").await;
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "group-always").await;
        browser.set_screen(Screen::DESK).await;
    }
    assert_eq!(pending(&server).await, 4, "nothing is stored yet");
    store(&browser).await;
    // The first has the answer, two have the rule, and the last one waits, with the reason.
    let approvals = async || {
        let mut all = Vec::new();
        for approval in &equal {
            all.push(server.operator().approval(approval).await);
        }
        all
    };
    let ended = eventually("the rule answers", approvals, |all| {
        all[..3].iter().all(|approval| approval["status"] == "allowed")
    })
    .await;
    assert_eq!(ended[0]["decision"], "allow-always");
    for approval in &ended[1..3] {
        assert_eq!(approval["terminalReason"], "rule", "{approval:#}");
    }
    assert_eq!(ended[3]["status"], "pending");
    opened(&browser, &equal[3]).await;
    browser
        .says(
            &steady(&equal[3]),
            "The rule you stored does not cover this: it comes from another session.",
        )
        .await;
    browser.says(&row(&equal[3]), "not answered").await;
    browser.shoot("group-always-left").await;
    // The others share a row, and each says how it ended.
    browser
        .says(
            &format!("{GROUP}[data-phase=settled]"),
            "1 Allowed always by you · 2 Allowed by your rule",
        )
        .await;
    super::answer(&browser, &equal[3], "deny").await;
    super::ended(&browser, &equal[3], "Denied by you").await;
    assert_eq!(pending(&server).await, 0);
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn always_on_similar_questions_leaves_the_one_that_its_rule_does_not_cover() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let [here, there] = ["work/app", "work/other"].map(|name| server.scratch().dir(name));
    let [here, there] = [&here, &there].map(|directory| directory.to_str().expect("a path"));
    let mut similar = Vec::new();
    for (word, directory) in [("1", here), ("2", here), ("3", here), ("4", there)] {
        let body = json!({ "argv": ["/bin/echo", word], "workdir": directory });
        similar.push(id(&ask_body(&server, body).await, "approvalId"));
    }
    browser.says("#waiting-title", "(4)").await;
    browser.click("#similar").await;
    browser.says(SIMILAR, "×4 similar").await;
    browser.click(&format!("{SIMILAR} .row-open")).await;
    // What was not in sight is not allowed for good, either.
    browser
        .says("#chosen-title", "One answer to 4 similar requests")
        .await;
    let read = "const box = document.querySelector('.card-body');
        return (async () => {
            for (box.scrollTop = 0; ; box.scrollTop += box.clientHeight / 2) {
                await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                if (box.scrollTop + box.clientHeight >= box.scrollHeight - 2) return true;
            }
        })();";
    browser.run(read, json!([])).await;
    open_always(&browser).await;
    // The exact rule is for the first alone.
    browser
        .says(".covers", "It covers none of the 3 other requests")
        .await;
    browser.says(".stores", "its arguments differ").await;
    browser.says(".stores", "it runs in another directory").await;
    browser.click(".proposals input[value=program]").await;
    browser
        .says(".covers", "It also allows all 3 other requests")
        .await;
    browser.choose("[id^=directory-]", here).await;
    browser
        .says(".covers", "It also allows 2 of the 3 other requests")
        .await;
    browser
        .says(".stores", "/bin/echo 4: it runs in another directory")
        .await;
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "similar-always").await;
        browser.set_screen(Screen::DESK).await;
    }
    store(&browser).await;
    let left = async || server.operator().pending().await;
    let left = eventually("the rule answers", left, |left| left.len() == 1).await;
    assert_eq!(left[0]["id"], similar[3].as_str());
    for approval in &similar[1..3] {
        assert_eq!(
            server.operator().approval(approval).await["terminalReason"],
            "rule"
        );
    }
    opened(&browser, &similar[3]).await;
    browser
        .says(
            &steady(&similar[3]),
            "The rule you stored does not cover this: it runs in another directory.",
        )
        .await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn sixty_different_questions_are_denied_with_four_keys_and_one_reason() {
    let server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    for number in 0..60 {
        let program = ["/bin/echo", "/bin/date", "/bin/true"][number % 3];
        ask(&server, &[program, &number.to_string()]).await;
    }
    let other = id(
        &ask_body(&server, json!({ "argv": ["/bin/date"], "agentId": "other" })).await,
        "approvalId",
    );
    browser.says("#waiting-title", "(61)").await;
    browser.says("#choose-all", "Choose all 61").await;
    browser.press("/").await;
    browser.press("agent:main").await;
    browser.says("#choose-all", "Choose these 60").await;
    browser.press("\u{e00c}").await;
    browser
        .until("document.activeElement.closest('[data-row]') !== null")
        .await;
    // A key that is held down chooses, and denies nothing.
    browser.press("*").await;
    browser.says("#chosen-title", "One answer to 60 requests").await;
    browser.shown("[data-id=chosen]:not([data-unsteady])").await;
    browser
        .until("document.activeElement.closest('[data-id=chosen]') !== null")
        .await;
    browser.press("d").await;
    browser
        .until("document.activeElement.matches('#reason-chosen')")
        .await;
    browser.press("not tonight").await;
    let held = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', repeat: true, bubbles: true, cancelable: true }));";
    browser.run(held, json!([])).await;
    assert_eq!(
        browser
            .value("document.querySelector('[data-decision=confirm-deny-all]') === null")
            .await,
        true
    );
    browser.press("\u{e007}").await;
    browser.says("[data-id=chosen]", "Deny 60 requests?").await;
    browser
        .until("document.activeElement.matches('[data-decision=confirm-deny-all]')")
        .await;
    // What was pressed twice by mistake is too soon, and a click that comes with it, too.
    browser.run("document.activeElement.click()", json!([])).await;
    let all = server.operator().read("/v1/approvals?limit=100").await;
    assert_eq!(all["items"].as_array().map(Vec::len), Some(61));
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "deny-many").await;
        browser.set_screen(Screen::DESK).await;
    }
    browser.shown("[data-id=chosen]:not([data-unsteady])").await;
    browser.press("\u{e007}").await;
    let left = async || server.operator().pending().await;
    let left = eventually("one is left", left, |left| left.len() == 1).await;
    assert_eq!(left[0]["id"], other.as_str());
    // They share a row, and each has its result.
    let group = ".row.similar[data-phase=settled]";
    browser.says(group, "×60").await;
    browser.says(group, "Reason: not tonight").await;
    browser.click(&format!("{group} .row-open")).await;
    browser
        .until("document.querySelectorAll('[data-result]').length === 60")
        .await;
    browser.says(".results", "Denied by you").await;
    axe::draw(&browser, "denied-many", Screen::DESK).await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn where_one_of_many_was_answered_elsewhere_its_result_says_so() {
    let server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let mut asked = Vec::new();
    for number in 0..12 {
        asked.push(id(
            &ask(&server, &["/bin/echo", &number.to_string()]).await,
            "approvalId",
        ));
    }
    browser.says("#waiting-title", "(12)").await;
    browser.click("#choose-all").await;
    browser.click("#answer-chosen").await;
    let quicker = "const [quicker] = arguments;
        const real = window.fetch;
        window.fetch = async (path, options) => {
            if (!String(path).endsWith('/decisions')) return real(path, options);
            window.fetch = real;
            await real(`/v1/approvals/${quicker}/decision`, { ...options, body: JSON.stringify({ decision: 'allow-once' }) });
            return real(path, options);
        };";
    browser.run(quicker, json!([asked[1]])).await;
    browser
        .click("[data-id=chosen]:not([data-unsteady]) [data-decision=deny-all]")
        .await;
    browser.says("[data-id=chosen]", "Deny 12 requests?").await;
    // Back changes nothing, and asks again the next time.
    browser
        .run(
            "[...document.querySelectorAll('[data-id=chosen] button')].find((button) => button.innerText === 'Back').click()",
            json!([]),
        )
        .await;
    assert_eq!(pending(&server).await, 12);
    browser
        .click("[data-id=chosen]:not([data-unsteady]) [data-decision=deny-all]")
        .await;
    browser
        .click("[data-id=chosen]:not([data-unsteady]) [data-decision=confirm-deny-all]")
        .await;
    browser
        .says(".row.similar", "11 Denied by you · 1 Allowed once by operator")
        .await;
    ended(&browser, &asked[1], "Allowed once by operator").await;
    ended(&browser, &asked[2], "Denied by you").await;
    assert_eq!(pending(&server).await, 0);
}
