use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::time::Instant;

use super::{answer, ask, ended, id, row, signed_in};
use crate::support::{Browser, Screen, TestServer, eventually};

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
    // Beside the page and perhaps its icon: its style, its scripts, who is signed in, and the list, each once.
    let asked = browser
        .value("performance.getEntriesByType('resource').filter(({ startTime }) => startTime <= performance.getEntriesByName('first-card')[0].startTime).map(({ name }) => new URL(name).pathname).filter((name) => !name.startsWith('/assets/icon')).sort()")
        .await;
    assert_eq!(
        asked,
        json!([
            "/assets/app.js",
            "/assets/early.js",
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

/// The middle of some figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A round trip of 150 ms and 1.6 Mbit/s in both directions, for every request of the page.
async fn on_a_phone_network(browser: &Browser, is_slow: bool) {
    let latency = if is_slow { 150 } else { 0 };
    let throughput = if is_slow { 200_000 } else { -1 };
    browser.devtools("Network.enable", json!({})).await;
    let conditions = json!({ "offline": false, "latency": latency, "downloadThroughput": throughput, "uploadThroughput": throughput });
    browser
        .devtools("Network.emulateNetworkConditions", conditions)
        .await;
}

#[tokio::test]
async fn on_a_slow_network_the_first_card_is_reported() {
    const ROUNDS: usize = 7;
    let server = TestServer::asking().start().await;
    let approval = id(&ask(&server, &["/bin/date", "-u"]).await, "approvalId");
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    browser.shown(&row(&approval)).await;
    for (network, is_slow) in [("150 ms and 1.6 Mbit/s", true), ("loopback", false)] {
        on_a_phone_network(&browser, is_slow).await;
        for (cache, is_cold) in [("cold", true), ("warm", false)] {
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                if is_cold {
                    browser.devtools("Network.clearBrowserCache", json!({})).await;
                }
                browser.reload().await;
                browser.shown(&row(&approval)).await;
                let first_card = "performance.getEntriesByName('first-card')[0].startTime";
                times.extend(browser.value(first_card).await.as_f64());
            }
            report(&format!(
                "first card, {network}, {cache}: {:.0} ms",
                median(times)
            ));
        }
    }
}

#[tokio::test]
async fn with_five_hundred_waiting_the_times_are_reported() {
    const WAITING: usize = 500;
    const ANSWERS: usize = 9;
    let server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    let asking = stream::iter(0..WAITING).map(|number| {
        let server = &server;
        async move { ask(server, &["/bin/echo", &format!("request {number}")]).await }
    });
    let _asked: Vec<_> = asking.buffered(8).collect().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    browser.says("#waiting-title", "(500)").await;
    let watch = "window.tasks = [];
        new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask' });";
    browser.run(watch, json!([])).await;
    // From the press to the frame that shows the end of the request in its row.
    let press = "const card = document.querySelector('[data-id]:not([data-unsteady])');
        const row = document.querySelector(`[data-row=\"${card.dataset.id}\"]`);
        const started = performance.now();
        const painted = new Promise((done) => {
            const look = () => (row.dataset.phase === 'settled' ? setTimeout(() => done(performance.now() - started)) : requestAnimationFrame(look));
            requestAnimationFrame(look);
        });
        card.querySelector('[data-decision=allow-once]').click();
        return painted;";
    let mut answers = Vec::new();
    for _ in 0..ANSWERS {
        browser
            .shown("[data-id]:not([data-unsteady]) [data-decision=allow-once]")
            .await;
        answers.extend(browser.run(press, json!([])).await.as_f64());
    }
    let longest = "Math.max(0, ...window.tasks)";
    let while_answering = browser.value(longest).await;
    browser.run("window.tasks.length = 0", json!([])).await;
    for number in 0..40 {
        ask(&server, &["/bin/echo", &format!("late {number}")]).await;
    }
    browser
        .says("#waiting-title", &format!("({})", WAITING + 40 - ANSWERS))
        .await;
    let while_arriving = browser.value(longest).await;
    let elements = browser.value("document.querySelectorAll('*').length").await;
    assert!(
        elements.as_u64().is_some_and(|elements| elements < 3000),
        "{elements}"
    );
    report(&format!(
        "500 waiting: an answer on the screen after {:.0} ms (longest task {while_answering} ms), 40 arrive (longest task {while_arriving} ms), {elements} elements",
        median(answers)
    ));
}

#[tokio::test]
async fn sixty_questions_take_sixty_keys_and_equal_ones_two() {
    const MANY: usize = 60;
    let server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let mut keys = 0;
    for number in 0..MANY {
        ask(&server, &["/bin/echo", &format!("request {number}")]).await;
    }
    browser.says("#waiting-title", "(60)").await;
    // Some fifteen of them are in sight on a common desk.
    browser
        .set_screen(Screen {
            height: 800,
            ..Screen::DESK
        })
        .await;
    let rows = "(() => { const { top, bottom } = document.querySelector('.rows-box').getBoundingClientRect(); return [...document.querySelectorAll('[data-row]')].map((row) => row.getBoundingClientRect()).filter((row) => row.top >= top && row.bottom <= Math.min(bottom, innerHeight)).length; })()";
    let in_sight = browser.value(rows).await;
    assert!(in_sight.as_u64().is_some_and(|rows| rows >= 14), "{in_sight}");
    // The first letter only turns to the card.
    browser.press("a").await;
    for _ in 0..MANY {
        browser
            .until("document.activeElement.closest('[data-id][data-phase=pending]:not([data-unsteady])') !== null")
            .await;
        browser.press("a").await;
        keys += 1;
        let left = if keys < MANY {
            format!("({})", MANY - keys)
        } else {
            "Waiting for you".to_owned()
        };
        browser.says("#waiting-title", &left).await;
    }
    assert_eq!(keys, MANY);
    // The page counts down before the server has answered the last one.
    let operator = server.operator();
    eventually("answered", || operator.pending(), Vec::is_empty).await;
    for _ in 0..MANY {
        let body = json!({ "argv": ["/bin/echo", "same"], "join": false });
        super::ask_body(&server, body).await;
    }
    browser.says(".row.equal:not([data-phase=settled])", "×60").await;
    browser.click("#clear").await;
    browser
        .until("document.querySelector('.row.is-open')?.matches('.equal')")
        .await;
    browser.press("a").await;
    browser
        .until("document.activeElement.closest('[data-id^=all-]:not([data-unsteady])') !== null")
        .await;
    browser.press("a").await;
    browser.says(".row.equal[data-phase=settled]", "×60").await;
    assert_eq!(operator.pending().await.len(), 0);
}

#[expect(clippy::print_stderr, reason = "figures for the person who runs the test")]
fn report(figures: &str) {
    eprintln!("{figures}");
}
