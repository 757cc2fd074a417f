use serde_json::json;

use super::{ask, axe, complains_of_nothing, ended, id, row, signed_in};
use crate::support::{Screen, TestServer, eventually};

/// The second press, once it counts.
const GO: &str = "#stop:not([data-unsteady]) #stop-go:not([aria-disabled=true])";

#[tokio::test]
async fn a_person_stops_everything_says_why_and_lets_it_go_on() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let waiting = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    browser.shown(&row(&waiting)).await;
    let fits = "document.documentElement.scrollWidth <= innerWidth";
    browser.until(fits).await;
    browser.click("#stop-open").await;
    browser.until("document.getElementById('stop').open").await;
    browser.write("#stop-reason", "keys <b>leaked</b>").await;
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "stop").await;
    }
    browser.set_screen(Screen::PHONE).await;
    browser.click(GO).await;
    browser.says("#stopped", "keys <b>leaked</b>").await;
    browser.says("#stopped", "by operator").await;
    ended(&browser, &waiting, "Denied").await;
    browser.until(fits).await;
    axe::draw(&browser, "stopped", Screen::PHONE).await;
    let refused = server.agent().exec(json!({ "argv": ["/bin/echo", "2"] })).await;
    refused.problem(403, "stopped");
    // It is there after a reload, too, and the button that would stop is not.
    browser.reload().await;
    browser.says("#stopped", "Everything is stopped").await;
    browser.until("document.getElementById('stop-open').hidden").await;

    browser.click("#resume-open").await;
    // What was refused is told why it goes on: without words the button does nothing.
    browser
        .until("document.getElementById('stop-go').ariaDisabled === 'true'")
        .await;
    browser.write("#stop-reason", "all clear").await;
    browser.click(GO).await;
    browser.until("document.getElementById('stopped').hidden").await;
    ask(&server, &["/bin/echo", "3"]).await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_stop_by_somebody_else_shows_at_once() {
    let server = TestServer::full().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let body = json!({ "argv": ["/bin/sleep", "600"], "background": true });
    let run = id(&server.accepted(body).await, "runId");
    let stop = json!({ "reason": "from the command line" });
    server.operator().posted("/v1/stop", stop).await;
    browser.says("#stopped", "from the command line").await;
    browser.click("#stop-kill-open").await;
    browser.write("#stop-reason", "and what runs").await;
    browser.click(GO).await;
    browser.says("#stopped", "What was running has been ended").await;
    let ended = || async { server.operator().run(&run).await["reason"].clone() };
    eventually("killed", ended, |reason| reason == "stopped").await;
    let body = json!({ "reason": "all clear" });
    server.operator().posted("/v1/resume", body).await;
    browser.until("document.getElementById('stopped').hidden").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn two_presses_stop_everything_and_a_double_click_or_a_held_key_does_not() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let waiting = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    browser.shown(&row(&waiting)).await;
    let twice = "document.getElementById('stop-open').click();
        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => {
            document.getElementById('stop-go').click();
            const held = new KeyboardEvent('keydown', { key: 'Enter', repeat: true, bubbles: true, cancelable: true });
            return document.getElementById('stop-reason').dispatchEvent(held);
        });";
    assert_eq!(
        browser.run(twice, json!([])).await,
        false,
        "a held key sends nothing"
    );
    assert_eq!(server.operator().read("/v1/stop").await["stopped"], false);
    browser.click(GO).await;
    browser.says("#stopped", "no reason given").await;
    ended(&browser, &waiting, "Denied").await;
    assert_eq!(server.operator().read("/v1/stop").await["stopped"], true);
    complains_of_nothing(&browser).await;
}
