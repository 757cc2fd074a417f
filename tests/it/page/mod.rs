//! The approvals page as people use it: in a real browser, with a mouse, a keyboard, a phone, another person at the
//! same time, a server that goes away, and commands that were written to deceive.

mod answers;
mod axe;
mod files;
mod focus;
mod groups;
mod hostile;
mod layout;
mod load;
mod nodes;
mod pictures;
mod policy;
mod replay;
mod revise;
mod sessions;
mod sign_in;
mod start;
mod states;
mod stop;
mod trials;
mod views;
mod width;

use serde_json::{Value, json};

use crate::support::{Browser, Members, Screen, TestServer};

/// The request that `argv` becomes; it must be asked.
async fn ask(server: &TestServer, argv: &[&str]) -> Value {
    ask_body(server, json!({ "argv": argv })).await
}

async fn ask_body(server: &TestServer, body: Value) -> Value {
    let pending = server.accepted(body).await;
    assert_eq!(pending["status"], "approval-pending", "{pending}");
    pending
}

fn id(object: &Value, member: &str) -> String {
    object.text(member).to_owned()
}

/// A fresh one-time link.
async fn link(server: &TestServer) -> String {
    let made = server.operator().made("/v1/login-links", json!({})).await;
    id(&made, "url")
}

/// A browser that is signed in and shows the list, or none where there is no browser.
pub(crate) async fn signed_in(server: &TestServer, screen: Screen) -> Option<Browser> {
    let browser = Browser::start(screen).await?;
    sign_in(server, &browser).await;
    Some(browser)
}

/// The same with a token of these scopes.
pub(crate) async fn signed_in_with(server: &TestServer, screen: Screen, scopes: &[&str]) -> Option<Browser> {
    let browser = Browser::start(screen).await?;
    let (_, holder) = server
        .token_with(json!({ "name": "holder", "scopes": scopes }))
        .await;
    browser
        .open(&format!("{}/login", server.anonymous().base()))
        .await;
    browser.write("#token", holder.token().expect("a secret")).await;
    browser.click("#use-token").await;
    browser.says("#link-text", "Live").await;
    Some(browser)
}

async fn sign_in(server: &TestServer, browser: &Browser) {
    browser.open(&link(server).await).await;
    browser.click("#use-link").await;
    browser.says("#link-text", "Live").await;
}

/// Turns to a view of the page, and waits until it is there.
pub(crate) async fn go(browser: &Browser, view: &str) {
    browser
        .run("location.hash = `#/${arguments[0]}`", json!([view]))
        .await;
    let place = match view {
        "inbox" => "#waiting".to_owned(),
        name => format!("#view-{}", name.split('?').next().unwrap_or(name)),
    };
    browser.shown(&place).await;
}

/// The card of an approval, once it takes answers.
fn steady(approval: &str) -> String {
    format!("[data-id=\"{approval}\"]:not([data-unsteady])")
}

/// The row of an approval on the list.
fn row(approval: &str) -> String {
    format!("[data-row=\"{approval}\"]")
}

/// Opens a request from the list, and waits until its card takes answers.
async fn opened(browser: &Browser, approval: &str) {
    let open = format!(
        "(() => {{
            if (document.querySelector('[data-id=\"{approval}\"]')?.checkVisibility()) return true;
            document.querySelector('{} .row-open')?.click();
            return false;
        }})()",
        row(approval)
    );
    browser.until(&open).await;
    browser.shown(&steady(approval)).await;
}

/// Presses a button of a card with the mouse, once the card takes answers. A denial takes a second press, beside its
/// words.
async fn answer(browser: &Browser, approval: &str, decision: &str) {
    opened(browser, approval).await;
    let has_words =
        format!("document.querySelector('[data-id=\"{approval}\"] [data-decision=confirm-deny]') !== null");
    if decision == "deny" {
        if browser.value(&has_words).await == false {
            press(browser, approval, "deny").await;
        }
        press(browser, approval, "confirm-deny").await;
    } else {
        press(browser, approval, decision).await;
    }
}

async fn press(browser: &Browser, approval: &str, decision: &str) {
    let button = format!(
        "{} [data-decision=\"{decision}\"]:not([aria-disabled=true])",
        steady(approval)
    );
    browser.click(&button).await;
}

/// Waits until the row of a request, or its card where there is no list, says how it ended.
async fn ended(browser: &Browser, approval: &str, words: &str) {
    let shown = format!(":is({}, [data-id=\"{approval}\"])", row(approval));
    browser
        .says(&format!("{shown}[data-phase=settled] .ended"), words)
        .await;
}

/// No script failed, nothing was refused by the content security policy.
async fn complains_of_nothing(browser: &Browser) {
    let complaints = browser.complaints().await;
    assert_eq!(complaints, Vec::<String>::new());
}
