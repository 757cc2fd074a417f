//! Every view by the rules of axe-core: on a desk and on a phone, in the light and in the dark, with nothing in it and with
//! much, and with what was written to deceive.

use std::{fs, path::Path};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{ask_body, go, id, opened, row, signed_in, steady};
use crate::support::{Browser, Screen, TestServer, skip};

const VARIANTS: [(&str, Screen); 4] = [
    ("desk", DESK),
    ("phone", Screen::PHONE),
    ("desk-dark", DESK.dark()),
    ("phone-dark", Screen::PHONE.dark()),
];

const DESK: Screen = Screen {
    width: 1280,
    height: 800,
    dark: false,
};

const VIEWS: [&str; 11] = [
    "inbox",
    "overview",
    "runs",
    "history",
    "terminals",
    "sessions",
    "nodes",
    "policy",
    "people",
    "audit",
    "health",
];

/// The rules, as text for the page: `dev/web` installs them.
pub(super) fn rules() -> Option<String> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules = fs::read_to_string(checkout.join("web/node_modules/axe-core/axe.min.js"));
    if rules.is_err() {
        skip("no axe-core for the views of the page (dev/web installs it)");
    }
    rules.ok()
}

/// What breaks a rule in what is shown now. In the dark that can only be a rule of colours: all else is as in the light.
async fn broken(browser: &Browser, screen: Screen) -> Value {
    let rules = if screen.dark {
        "runOnly: ['color-contrast', 'link-in-text-block'],"
    } else {
        ""
    };
    // What has just come or moved is dashed for a moment, and changes nothing of this.
    let expression = format!(
        "axe.run(document, {{ {rules} resultTypes: ['violations'], elementRef: false }}).then(({{ violations }}) => JSON.stringify(violations.map(({{ id, nodes }}) => [id, nodes.slice(0, 3).map(({{ target, failureSummary }}) => [target.join(' '), failureSummary])])))"
    );
    let answer = browser
        .devtools(
            "Runtime.evaluate",
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true }),
        )
        .await;
    let text = answer["result"]["value"].as_str();
    let text = text.unwrap_or_else(|| panic!("axe said nothing: {answer}"));
    serde_json::from_str(text).expect("a list")
}

/// Gives the page the rules. They go in by the debugger: the page itself takes no script from elsewhere.
pub(super) async fn give(browser: &Browser, rules: &str) {
    browser
        .devtools("Runtime.evaluate", json!({ "expression": rules }))
        .await;
}

pub(super) async fn is_accessible(browser: &Browser, what: &str) {
    for (name, screen) in VARIANTS {
        browser.set_screen(screen).await;
        browser.until("!document.querySelector('[data-unsteady]')").await;
        assert_eq!(broken(browser, screen).await, json!([]), "{what}, {name}");
        browser.shoot(&format!("view-{what}-{name}")).await;
    }
}

/// The rules, and a picture, of what is shown now on each screen; the page is on `screen` before and afterwards. Without the
/// rules there are only the pictures.
pub(super) async fn draw(browser: &Browser, what: &str, screen: Screen) {
    let rules = rules();
    if let Some(rules) = &rules {
        give(browser, rules).await;
    }
    for (name, other) in VARIANTS {
        browser.set_screen(other).await;
        browser.until("!document.querySelector('[data-unsteady]')").await;
        if rules.is_some() {
            assert_eq!(broken(browser, other).await, json!([]), "{what}, {name}");
        }
        browser.shoot(&format!("view-{what}-{name}")).await;
    }
    browser.set_screen(screen).await;
    browser.until("!document.querySelector('[data-unsteady]')").await;
}

/// Asks until so many questions wait.
async fn crowd(server: &TestServer, from: usize, to: usize) {
    let asking = stream::iter(from..to).map(|number| async move {
        ask_body(server, json!({ "argv": ["/bin/echo", number.to_string()] })).await
    });
    asking.buffered(8).collect::<Vec<_>>().await;
}

#[tokio::test]
async fn every_view_keeps_the_rules_of_accessibility() {
    let Some(rules) = rules() else { return };
    let server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    let browser = or_skip!(signed_in(&server, DESK).await);
    give(&browser, &rules).await;
    // The rules find what they are for.
    browser
        .run(
            "const image = document.createElement('img'); image.id = 'nameless'; document.querySelector('main').append(image);",
            json!([]),
        )
        .await;
    let found = broken(&browser, DESK).await;
    assert!(found.to_string().contains("image-alt"), "{found}");
    browser
        .run("document.getElementById('nameless').remove()", json!([]))
        .await;
    browser.set_screen(DESK.dark()).await;
    browser
        .run(
            "const faint = document.createElement('p'); faint.id = 'faint'; faint.innerText = 'faint';
            Object.assign(faint.style, { color: '#333', background: '#222' }); document.querySelector('main').append(faint);",
            json!([]),
        )
        .await;
    let found = broken(&browser, DESK.dark()).await;
    assert!(found.to_string().contains("color-contrast"), "{found}");
    browser
        .run("document.getElementById('faint').remove()", json!([]))
        .await;
    browser.set_screen(DESK).await;

    browser.says("#blank", "Nothing is waiting").await;
    for view in VIEWS {
        go(&browser, view).await;
        browser
            .until("!document.querySelector('main').innerText.includes('Loading')")
            .await;
        is_accessible(&browser, &format!("{view}-empty")).await;
    }

    // One question, written to deceive, and its answers open.
    go(&browser, "inbox").await;
    let hostile = format!(
        "printf '<img src=x onerror=alert(1)>' \u{202e}{}; echo gіt {}",
        " ".repeat(300),
        "word ".repeat(1000)
    );
    let hostile = ask_body(
        &server,
        json!({ "command": hostile, "env": { "LABEL": "\u{202e}x" } }),
    )
    .await;
    let hostile = id(&hostile, "approvalId");
    opened(&browser, &hostile).await;
    browser.shown("[data-fact=first]").await;
    is_accessible(&browser, "hostile").await;
    let plain = ask_body(
        &server,
        json!({ "command": "git push origin main", "workdir": "/srv" }),
    )
    .await;
    let plain = id(&plain, "approvalId");
    browser.set_screen(DESK).await;
    browser.shown(&row(&plain)).await;
    for (what, opener, shown) in [
        ("always", "[data-decision=allow-always]", ".stores"),
        ("deny", "[data-decision=deny]", ".after"),
        ("revise", "[data-open=revise]", ".revise"),
    ] {
        browser.set_screen(DESK).await;
        opened(&browser, &plain).await;
        browser.click(&format!("{} {opener}", steady(&plain))).await;
        browser.shown(shown).await;
        is_accessible(&browser, what).await;
        browser
            .run(
                "[...document.querySelectorAll('#cards button')].find((button) => button.checkVisibility() && button.innerText === 'Back').click()",
                json!([]),
            )
            .await;
    }

    // Some, many, and more than a screen holds; the other views have something in them by now.
    browser
        .run("document.querySelector('.card-back')?.click()", json!([]))
        .await;
    for (count, before) in [(5, 2), (60, 5), (500, 60)] {
        crowd(&server, before, count).await;
        browser.says("#waiting-title", &format!("({count})")).await;
        // The list has rows as far down as it reaches, although there was none when the page was opened.
        let is_filled = "(() => { const box = document.querySelector('.rows-box'); const rows = box.querySelectorAll('[data-row]'); return rows[rows.length - 1].getBoundingClientRect().bottom >= Math.min(box.getBoundingClientRect().bottom, innerHeight) - 2; })()";
        assert_eq!(browser.value(is_filled).await, true, "{count} questions");
        draw(&browser, &format!("inbox-{count}"), DESK).await;
    }
    go(&browser, "overview").await;
    browser.shown("#asked-chart").await;
    browser
        .run(
            "document.querySelector('#view-overview details summary').click()",
            json!([]),
        )
        .await;
    is_accessible(&browser, "overview-full").await;
    for view in ["runs", "history", "people", "audit"] {
        go(&browser, view).await;
        browser.shown(&format!("#view-{view} .run")).await;
        let open = "document.querySelector('.run summary, .run .run-head')?.click()";
        browser.run(open, json!([])).await;
        is_accessible(&browser, &format!("{view}-full")).await;
    }
}
