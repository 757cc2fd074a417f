//! A recording on the page: what the terminal showed, with nothing of what drew it.

use serde_json::{Value, json};

use super::{axe, complains_of_nothing, go, signed_in};
use crate::support::{Browser, Members as _, Screen, TestServer};

const HOSTILE: &str = r"printf '\033]0;title\007<img src=x onerror=alert(1)>\r\n\033[1;31mred\033[0m \342\200\256x\r\n'; sleep 0.3; printf '\033[44mlater words\033[0m\r\n'";

/// The first picture is empty where the command wrote nothing at once.
async fn to_the_end(browser: &Browser) {
    browser.shown(".screen").await;
    browser
        .run("document.querySelector('.screen-box').focus()", json!([]))
        .await;
    browser.press("\u{e010}").await;
}

#[tokio::test]
async fn a_recording_plays_and_is_searched_and_no_sequence_of_a_command_comes_through() {
    let server = TestServer::full().start().await;
    let ran = server.ran(json!({ "command": HOSTILE, "pty": true })).await;
    let run = ran.text("runId");
    let path = format!("/v1/runs/{run}/recording/frames");
    let film = server.operator().read(&path).await;
    let text = film.to_string();
    assert!(
        !text.contains("u001b") && !text.contains('\u{202e}') && !text.contains("title"),
        "{text}"
    );
    assert!(text.contains("<img src=x onerror=alert(1)>"), "{text}");
    assert!(film.list("frames").len() >= 2, "{film}");
    let last = film.list("frames").last().unwrap()["atMs"].as_u64().unwrap();
    let rest = server.operator().read(&format!("{path}?afterMs={last}")).await;
    assert_eq!(rest.list("frames").len(), 0, "{rest}");
    server
        .operator()
        .get(&format!("{path}?afterMs=x"))
        .await
        .problem(400, "invalid-request");

    let without = server.ran(json!({ "command": "echo no terminal" })).await;
    for (pty, wanted) in [("true", run), ("false", without.text("runId"))] {
        let list = server.operator().read(&format!("/v1/runs?pty={pty}")).await;
        let ids: Vec<&str> = list.list("items").iter().map(|run| run.text("runId")).collect();
        assert_eq!(ids, [wanted], "{pty}");
    }
    server
        .operator()
        .get("/v1/runs?pty=yes")
        .await
        .problem(400, "invalid-request");

    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    // What ran on a terminal has a view of its own, where the recording is open at once.
    go(&browser, "terminals").await;
    browser
        .until("document.querySelectorAll('#terminals [data-run]').length === 1")
        .await;
    browser.click(&format!("[data-run=\"{run}\"] .run-head")).await;
    to_the_end(&browser).await;
    browser.says(".screen", "<img src=x onerror=alert(1)>").await;
    axe::draw(&browser, "terminals-open", Screen::DESK).await;
    go(&browser, "runs").await;
    browser.click(&format!("[data-run=\"{run}\"] .run-head")).await;
    browser
        .click(&format!("[aria-controls=\"recording-{run}\"]"))
        .await;
    // To the end by keyboard, and back.
    to_the_end(&browser).await;
    browser.says(".screen", "<img src=x onerror=alert(1)>").await;
    browser.says(".screen", "later words").await;
    browser
        .until("[...document.querySelectorAll('.screen .b4')].some((one) => one.innerText === 'later words')")
        .await;
    browser.press("\u{e011}").await;
    browser
        .until("!document.querySelector('.screen').innerText.includes('later words')")
        .await;
    // A search goes to where words appear.
    browser.write(".replay [role=search] input", "LATER").await;
    browser.click(".replay [role=search] [type=submit]").await;
    browser.says(".replay [role=status]", "Found at").await;
    browser.says(".screen-row.hit", "later words").await;
    browser.shoot("replay").await;
    browser.click(".replay [role=search] [type=submit]").await;
    browser
        .says(".replay [role=status]", "Nothing more is found.")
        .await;
    // Played from its beginning it comes to its end by itself.
    browser
        .run("document.querySelector('.screen-box').focus()", json!([]))
        .await;
    browser.press("\u{e011}").await;
    browser.press(" ").await;
    browser.says(".screen", "later words").await;
    browser.says(".replay-play", "Play").await;
    let sideways = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    browser.set_screen(Screen::PHONE).await;
    assert_eq!(browser.value(sideways).await, true);
    browser.shoot("replay-phone").await;
    complains_of_nothing(&browser).await;
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "replay").await;
    }
}

/// What answers of a recording have in common: their pictures, and where each goes on.
async fn pages(server: &TestServer, run: &str) -> Vec<Value> {
    let path = format!("/v1/runs/{run}/recording/frames");
    let mut all = vec![server.operator().read(&path).await];
    while let Some(after) = all.last().and_then(|page| page["nextAfterMs"].as_u64()) {
        all.push(server.operator().read(&format!("{path}?afterMs={after}")).await);
    }
    all
}

#[tokio::test]
async fn further_pages_go_on_and_show_what_pages_drawn_anew_show() {
    let server = TestServer::full().start().await;
    // Each cell has another look than the one beside it, so that few pictures fill a page.
    let command = "i=0; while [ $i -lt 24 ]; do printf '\\033[H'; a=$((31 + i % 3)); b=$((34 + i % 3)); j=0; while [ $j -lt 1700 ]; do printf '\\033[%dmx\\033[%dmy' $a $b; j=$((j+1)); done; i=$((i+1)); sleep 0.06; done";
    let ran = server.ran(json!({ "command": command, "pty": true })).await;
    let run = ran.text("runId");
    let all = pages(&server, run).await;
    assert!(all.len() >= 3, "{} pages", all.len());
    // A page that is asked for out of order or again is drawn from the beginning, and is the same.
    let again = pages(&server, run).await;
    assert_eq!(all, again);
    let path = format!("/v1/runs/{run}/recording/frames");
    for before in all[..all.len() - 1].iter().rev() {
        let after = before["nextAfterMs"].as_u64().expect("more");
        let page = server.operator().read(&format!("{path}?afterMs={after}")).await;
        assert!(all.contains(&page), "a page after {after} ms");
    }
}
