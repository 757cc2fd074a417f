use serde_json::{Value, json};

use super::{answer, ask, ask_body, complains_of_nothing, ended, go, id, opened, row, signed_in, steady};
use crate::support::{Browser, Members, Screen, TestServer};

/// Nothing is wider than the screen, and nothing that can be pressed is smaller than a finger.
async fn fits(browser: &Browser, what: &str) {
    let script = "const wide = [...document.querySelectorAll('body *')].filter((element) => {
            const box = element.getBoundingClientRect();
            return element.checkVisibility() && !element.closest('.unseen, .skip') && box.width > 1 && (box.right > document.documentElement.clientWidth + 1 || box.left < -1) && !element.closest('.command, .output');
        }).map((element) => element.outerHTML.slice(0, 120));
        const small = [...document.querySelectorAll('button, input:not([type=checkbox], [type=radio]), textarea, summary, .button, .check, .after-choice')].filter((element) => {
            const box = element.getBoundingClientRect();
            // With a mouse the rows of the list may be lower.
            const least = innerWidth >= 960 && element.matches('.row button') ? 38.5 : 43.5;
            return element.checkVisibility() && (box.height < least || box.width < 43.5);
        }).map((element) => element.outerHTML.slice(0, 120));
        // What is said of the connection stays in words, and is not broken into letters.
        const link = document.getElementById('link-text')?.getBoundingClientRect();
        return { wide, small, isBroken: link !== undefined && link.height > 60, scrolls: document.documentElement.scrollWidth > document.documentElement.clientWidth };";
    let found = browser.run(script, json!([])).await;
    assert_eq!(
        found,
        json!({ "wide": [], "small": [], "isBroken": false, "scrolls": false }),
        "{what}"
    );
}

/// Everything that can be used has a name for a screen reader, and there are no two landmarks of a kind without one.
async fn is_named(browser: &Browser, what: &str) {
    let tree = browser.devtools("Accessibility.getFullAXTree", json!({})).await;
    let nodes = tree.list("nodes");
    let mut controls = 0;
    for node in nodes.iter().filter(|node| node["ignored"] == false) {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        if [
            "button",
            "link",
            "textbox",
            "checkbox",
            "article",
            "list",
            "dialog",
            "group",
            "DisclosureTriangle",
            "image",
        ]
        .contains(&role)
        {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            let is_plain_list = role == "list" && node["childIds"].as_array().is_none_or(Vec::is_empty);
            assert!(
                !name.trim().is_empty() || is_plain_list,
                "{what}: a {role} without a name: {node}"
            );
            controls += 1;
        }
    }
    assert!(controls > 3, "{what}: {controls}");
}

/// The contrast of every text with what is behind it (WCAG 2, 1.4.3).
async fn is_legible(browser: &Browser, what: &str) {
    let script = "const parse = (color) => color.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
        const ground = (element) => { for (; element; element = element.parentElement) { const color = parse(getComputedStyle(element).backgroundColor); if (color.length === 3 || color[3] > 0) return color; } return [255, 255, 255]; };
        const faded = (element) => { for (; element; element = element.parentElement) if (Number(getComputedStyle(element).opacity) < 1) return true; return false; };
        const found = [];
        for (const element of document.querySelectorAll('body *')) {
            const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
            if (!hasText || !element.checkVisibility() || element.closest('.unseen, .skip') || faded(element)) continue;
            const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
            const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (contrast < 4.5) found.push([contrast.toFixed(2), element.outerHTML.slice(0, 100)]);
        }
        return found;";
    let found = browser.run(script, json!([])).await;
    assert_eq!(found, json!([]), "{what}");
}

pub(super) async fn looks_right(browser: &Browser, what: &str) {
    fits(browser, what).await;
    is_named(browser, what).await;
    is_legible(browser, what).await;
    browser.shoot(what).await;
}

#[tokio::test]
async fn it_fits_reads_and_is_named_on_every_screen() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(Browser::start(Screen::NARROW).await);
    let screens = [
        ("narrow", Screen::NARROW),
        ("phone-dark", Screen::PHONE.dark()),
        ("desk", Screen::DESK),
        ("desk-dark", Screen::DESK.dark()),
    ];
    browser.open(&format!("{}/", server.anonymous().base())).await;
    browser.shown("#by-token").await;
    for (name, screen) in screens {
        browser.set_screen(screen).await;
        fits(&browser, &format!("login-{name}")).await;
        is_legible(&browser, &format!("login-{name}")).await;
        browser.shoot(&format!("login-{name}")).await;
    }
    super::sign_in(&server, &browser).await;
    let long = format!(
        "git log --oneline --since=2.weeks | grep -c {} && timeout 5 cat /etc/hostname",
        "very-long-".repeat(12)
    );
    let first = id(&ask_body(&server, json!({ "command": long })).await, "approvalId");
    let second = id(
        &ask(&server, &["/bin/date", "--iso-8601=seconds"]).await,
        "approvalId",
    );
    let third = id(
        &ask_body(&server, json!({ "command": "(cd /tmp; ls) \u{202e}" })).await,
        "approvalId",
    );
    let fourth = id(&ask(&server, &["/bin/echo", "gone"]).await, "approvalId");
    for approval in [&first, &second, &third, &fourth] {
        browser.shown(&row(approval)).await;
    }
    answer(&browser, &fourth, "allow-once").await;
    ended(&browser, &fourth, "exit code 0").await;
    let back = "document.querySelector('.card-back')?.click()";
    browser.run(back, json!([])).await;
    go(&browser, "runs").await;
    browser.click(".run-head:has(.good)").await;
    browser.says(".run .output", "gone").await;
    for (name, screen) in screens {
        browser.set_screen(screen).await;
        looks_right(&browser, &format!("runs-{name}")).await;
    }
    browser.set_screen(Screen::NARROW).await;
    go(&browser, "inbox").await;
    for (what, approval, opener) in [
        ("plain", &first, ".audit summary"),
        ("always", &second, "[data-decision=allow-always]"),
        ("deny", &third, "[data-decision=deny]"),
    ] {
        browser.set_screen(Screen::NARROW).await;
        opened(&browser, approval).await;
        browser.click(&format!("{} {opener}", steady(approval))).await;
        if what == "always" {
            browser
                .click(&format!("[data-id=\"{approval}\"] .wider input"))
                .await;
        }
        for (name, screen) in screens {
            browser.set_screen(screen).await;
            browser.until("!document.querySelector('[data-unsteady]')").await;
            looks_right(&browser, &format!("{what}-{name}")).await;
        }
    }
    browser.set_screen(Screen::NARROW).await;
    browser.run(back, json!([])).await;
    for approval in [&first, &second] {
        browser.click(&format!("{} .row-tick input", row(approval))).await;
    }
    for (name, screen) in screens {
        browser.set_screen(screen).await;
        browser.until("!document.querySelector('[data-unsteady]')").await;
        looks_right(&browser, &format!("list-{name}")).await;
    }
    browser.set_screen(Screen::NARROW).await;
    browser.click("#answer-chosen").await;
    browser.until("!document.querySelector('[data-unsteady]')").await;
    looks_right(&browser, "chosen-narrow").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_screen_reader_hears_of_new_requests_and_of_answers() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let approval = id(&ask(&server, &["/bin/date", "--utc"]).await, "approvalId");
    let heard = "document.querySelector('#announce').textContent";
    browser
        .until(&format!(
            "{heard}.includes('New request from main: /bin/date --utc. 1 waiting.')"
        ))
        .await;
    answer(&browser, &approval, "deny").await;
    browser
        .until(&format!("{heard}.includes('Your answer counts.')"))
        .await;
    let live = browser
        .value("[document.querySelector('#announce').ariaLive, document.querySelector('#link-text').role]")
        .await;
    assert_eq!(live, json!(["polite", "status"]));
    let named: Value = browser.value("document.querySelector('.card').ariaBusy").await;
    assert_eq!(named, "false");
}
