use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::time::Instant;

use super::{answer, ask, ended, id, row, signed_in};
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
    // Only what is in sight is drawn, and the rest is there when it is scrolled to.
    let rows = "document.querySelectorAll('[data-row]').length";
    let few = browser.value(rows).await;
    assert!(few.as_i64().is_some_and(|few| (5..=100).contains(&few)), "{few}");
    assert_eq!(
        browser.value("document.querySelectorAll('.card').length").await,
        1
    );
    assert_eq!(
        browser
            .value("document.querySelector('[data-row]').ariaSetSize")
            .await,
        "1000"
    );
    browser.shoot("thousand").await;
    let oldest = browser
        .value("document.querySelector('[data-row]').dataset.row")
        .await;
    browser
        .run(
            "const box = document.querySelector('.rows-box'); box.scrollTop = box.scrollHeight;",
            json!([]),
        )
        .await;
    browser
        .until("document.querySelector('[data-row]:last-of-type')?.ariaPosInSet === '1000'")
        .await;
    let few = browser.value(rows).await;
    assert!(few.as_i64().is_some_and(|few| (5..=100).contains(&few)), "{few}");
    browser
        .run("document.querySelector('.rows-box').scrollTop = 0", json!([]))
        .await;
    browser
        .until(&format!(
            "document.querySelector('[data-row]').dataset.row === {oldest}"
        ))
        .await;

    // It stays quick: an answer is shown, and what is next takes the place below.
    let oldest = oldest.as_str().expect("an id");
    assert!(asked.iter().any(|pending| pending["approvalId"] == oldest));
    answer(&browser, oldest, "deny").await;
    ended(&browser, oldest, "Denied by you").await;
    browser.says("#waiting-title", "(999)").await;

    // A crowd that comes while the page is open is loaded as a list, and moves nothing that is there.
    let top = "Math.round(document.querySelector('[data-row][data-phase=pending]').getBoundingClientRect().top + scrollY)";
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
    browser.shown(&row(&approval)).await;
    browser.reload().await;
    browser.shown(&row(&approval)).await;
    // Beside the page and perhaps its icon: its style, its script, who is signed in, and the list.
    let asked = browser
        .value("performance.getEntriesByType('resource').filter(({ startTime }) => startTime <= performance.getEntriesByName('first-card')[0].startTime).map(({ name }) => new URL(name).pathname).filter((name) => !name.startsWith('/assets/icon')).sort()")
        .await;
    assert_eq!(
        asked,
        json!([
            "/assets/app.js",
            "/assets/page.css",
            "/auth/session",
            "/v1/approvals"
        ])
    );
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
