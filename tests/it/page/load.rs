use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::time::Instant;

use super::{answer, ask, ended, id, signed_in, steady};
use crate::support::{Browser, Screen, TestServer};

const MANY: usize = 1000;

#[tokio::test]
async fn a_thousand_requests_are_a_list_like_any_other() {
    let server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    let asking = stream::iter(0..MANY).map(|number| {
        let server = &server;
        async move { ask(server, &["/bin/echo", &format!("request {number}")]).await }
    });
    let asked: Vec<_> = asking.buffered(8).collect().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let started = Instant::now();
    browser.reload().await;
    browser.says("#waiting-title", "(1,000)").await;
    let first_card = browser
        .value("Math.round(performance.getEntriesByName('first-card')[0].startTime)")
        .await;
    let weight = weight(&server, &browser).await;
    report(&format!(
        "1,000 pending: first card after {first_card} ms, seen after {:?}; {weight}",
        started.elapsed()
    ));
    assert_eq!(
        browser.value("document.querySelectorAll('.card').length").await,
        25
    );
    browser.shoot("thousand").await;
    browser.click("#more").await;
    browser
        .until("document.querySelectorAll('.card').length === 50")
        .await;

    // It stays quick: an answer is shown, and what is next takes the place below.
    let oldest = browser
        .value("document.querySelector('[data-id]').dataset.id")
        .await;
    let oldest = oldest.as_str().expect("an id");
    assert!(asked.iter().any(|pending| pending["approvalId"] == oldest));
    answer(&browser, oldest, "deny").await;
    ended(&browser, oldest, "Denied by you").await;
    browser.says("#waiting-title", "(999)").await;
    assert_eq!(
        browser
            .value("document.querySelectorAll('[data-phase=pending]').length")
            .await,
        50
    );

    // A crowd that comes while the page is open is loaded as a list, and moves nothing that is there.
    let top =
        "Math.round(document.querySelector('[data-phase=pending]').getBoundingClientRect().top + scrollY)";
    let before = browser.value(top).await;
    for number in 0..30 {
        ask(&server, &["/bin/echo", &format!("late {number}")]).await;
    }
    browser.says("#waiting-title", "(1,029)").await;
    assert_eq!(browser.value(top).await, before);
}

/// What the page itself is made of.
async fn weight(server: &TestServer, browser: &Browser) -> String {
    let files = "performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname).filter((name) => name.startsWith('/assets/'))";
    let files = browser.value(files).await;
    let files: BTreeSet<&str> = files
        .as_array()
        .expect("names")
        .iter()
        .filter_map(|name| name.as_str())
        .collect();
    let mut bytes = server.anonymous().get("/login").await.bytes.len();
    for file in &files {
        bytes += server.anonymous().get(file).await.bytes.len();
    }
    format!("{} files, {bytes} bytes", files.len() + 1)
}

#[tokio::test]
async fn the_first_card_is_there_at_once() {
    let server = TestServer::asking().start().await;
    let approval = id(&ask(&server, &["/bin/date", "-u"]).await, "approvalId");
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    browser.shown(&steady(&approval)).await;
    browser.reload().await;
    browser.shown(&steady(&approval)).await;
    let first_card = browser
        .value("performance.getEntriesByName('first-card')[0].startTime")
        .await;
    let weight = weight(&server, &browser).await;
    report(&format!("1 pending: first card after {first_card} ms; {weight}"));
    assert!(
        first_card.as_f64().is_some_and(|ms| ms < 20_000.0),
        "{first_card}"
    );
    let outside = browser
        .run(
            "return performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => !name.startsWith(location.origin))",
            json!([]),
        )
        .await;
    assert_eq!(outside, json!([]), "the page loads nothing from elsewhere");
}

#[expect(clippy::print_stderr, reason = "figures for the person who runs the test")]
fn report(figures: &str) {
    eprintln!("{figures}");
}
