//! Process sessions on the page: followed, written to, given keys and ended by who may, and by nobody else.

use serde_json::{Value, json};

use super::{axe, complains_of_nothing, go, id, signed_in, signed_in_with};
use crate::support::{Browser, Members as _, Screen, TestServer, eventually};

const AGENT: &[&str] = &["exec", "read"];

/// Starts a command in the background, and says its session.
async fn started(server: &TestServer, call: Value) -> String {
    let answer = server.agent().exec(call).await;
    let running = answer.expect(202);
    assert_eq!(running["status"], "running", "{running}");
    id(&running, "sessionId")
}

fn row(session: &str) -> String {
    format!("[data-session=\"{session}\"]")
}

/// Opens the session in the list.
async fn open(browser: &Browser, session: &str) {
    go(browser, "sessions").await;
    browser.click(&format!("{} .run-head", row(session))).await;
}

async fn status(server: &TestServer, session: &str) -> Value {
    let found = server.operator().read(&format!("/v1/process/{session}")).await;
    found["status"].clone()
}

#[tokio::test]
async fn a_session_is_followed_written_to_and_its_input_ended() {
    let server = TestServer::full().start().await;
    let session = started(&server, json!({ "command": "cat", "background": true })).await;
    let browser = or_skip!(signed_in_with(&server, Screen::DESK, AGENT).await);
    open(&browser, &session).await;
    let at = row(&session);
    browser
        .write(&format!("{at} .session-input input"), "first <b>line</b>")
        .await;
    browser.click(&format!("{at} .session-input [type=submit]")).await;
    browser.says(&format!("{at} .output"), "first <b>line</b>").await;
    browser
        .says(&format!("{at} .session-input"), "The line was sent.")
        .await;
    browser
        .until("document.querySelector('.session-input input').value === ''")
        .await;
    // Text as it is has no end of line: what follows is on the same one.
    browser.write(&format!("{at} .session-input input"), "half").await;
    browser.click(&format!("{at} [data-send=raw]")).await;
    browser
        .says(&format!("{at} .session-input"), "without an end of line")
        .await;
    browser
        .write(&format!("{at} .session-input input"), "and half")
        .await;
    browser.click(&format!("{at} .session-input [type=submit]")).await;
    browser.says(&format!("{at} .output"), "halfand half").await;
    browser.shoot("session-input").await;
    // Each is in the record, before the command had it.
    let records = server
        .operator()
        .read("/v1/audit?action=process.input&order=newest")
        .await;
    assert_eq!(records.list("items").len(), 3, "{records}");
    assert_eq!(records["items"][0]["actor"]["name"], "holder", "{records}");
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "session-input").await;
    }
    browser.set_screen(Screen::PHONE).await;
    let sideways = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.value(sideways).await, true);
    browser.click(&format!("{at} [data-key='End of input']")).await;
    browser.says(&at, "Done").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_terminal_takes_keys_and_no_sequence_of_it_comes_through() {
    let server = TestServer::full().start().await;
    let command = r"printf '\033]0;title\007\033[1;31mred\033[0m \342\200\256x\n'; read -r word; echo got-$word; sleep 600";
    let session = started(
        &server,
        json!({ "command": command, "pty": true, "background": true }),
    )
    .await;
    let browser = or_skip!(signed_in_with(&server, Screen::DESK, AGENT).await);
    open(&browser, &session).await;
    let at = row(&session);
    // The screen as the server drew it: the title went nowhere, and what reorders its neighbours is left out.
    browser.says(&format!("{at} .screen"), "red x").await;
    let shown = browser.text(&format!("{at} .screen")).await;
    assert!(!shown.contains("title") && !shown.contains("1;31m"), "{shown}");
    let red =
        "[...document.querySelectorAll('.screen .look')].map((one) => [one.className, one.textContent])";
    assert_eq!(browser.value(red).await, json!([["look f1 bold", "red"]]));
    let raw = browser
        .value("/[\\u001b\\u202e]/.test(document.querySelector('.screen').textContent)")
        .await;
    assert_eq!(raw, false);
    browser
        .write(&format!("{at} .session-input input"), "hello")
        .await;
    browser.click(&format!("{at} .session-input [type=submit]")).await;
    browser.says(&format!("{at} .screen"), "got-hello").await;
    if let Some(rules) = axe::rules() {
        axe::give(&browser, &rules).await;
        axe::is_accessible(&browser, "session-terminal").await;
    }
    // As text everything that is unseen is spelled out, and no sequence is in it either.
    browser.click(&format!("{at} [data-act=screen-or-text]")).await;
    browser.says(&format!("{at} .output"), "red \\u{202E}x").await;
    let shown = browser.text(&format!("{at} .output")).await;
    assert!(!shown.contains("title") && !shown.contains("1;31m"), "{shown}");
    assert!(shown.contains("got-hello"), "{shown}");
    browser.click(&format!("{at} [data-act=screen-or-text]")).await;
    browser.says(&format!("{at} .screen"), "got-hello").await;
    // The key interrupts what runs now.
    browser.click(&format!("{at} [data-key=Ctrl-C]")).await;
    browser.says(&at, "Failed").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn ending_a_session_is_asked_about_first_and_a_refusal_says_why() {
    let server = TestServer::full().start().await;
    let session = started(&server, json!({ "command": "cat", "background": true })).await;
    let other = started(&server, json!({ "command": "cat", "background": true })).await;
    let browser = or_skip!(signed_in_with(&server, Screen::PHONE, AGENT).await);
    open(&browser, &session).await;
    let at = row(&session);
    browser.click(&format!("{at} [data-act=ask-kill-session]")).await;
    browser
        .says(&at, "End this session and everything that it started?")
        .await;
    assert_eq!(
        status(&server, &session).await,
        "running",
        "it is asked about first"
    );
    browser
        .click(&format!("{at} :not([data-unsteady]) > [data-act=kill-session]"))
        .await;
    browser.says(&at, "Cancelled").await;
    assert_eq!(status(&server, &other).await, "running", "this one alone");

    // It ends in the moment in which something is sent.
    browser.click(&format!("{} .run-head", row(&other))).await;
    let at = row(&other);
    browser.write(&format!("{at} .session-input input"), "late").await;
    let meanwhile = "const [kill] = arguments;
        const real = fetch;
        window.fetch = async (to, options) => {
            if (to !== '/v1/process' || options.method !== 'POST') return real(to, options);
            window.fetch = real;
            const done = await real(to, { ...options, body: JSON.stringify(kill) });
            if (!done.ok) throw new Error(await done.text());
            window.refused = true;
            return real(to, options);
        };
        window.said = [];
        new MutationObserver(() => {
            for (const one of document.querySelectorAll('.session-input .problem')) window.said.push(one.textContent);
        }).observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true });";
    browser
        .run(meanwhile, json!([{ "action": "kill", "sessionId": other }]))
        .await;
    browser.click(&format!("{at} .session-input [type=submit]")).await;
    browser
        .until("window.said.some((text) => text.includes('The session has ended. Nothing was sent.'))")
        .await;
    browser.says(&at, "Cancelled").await;
}

#[tokio::test]
async fn who_may_not_write_is_told_so_and_who_answers_never_gives_commands() {
    let server = TestServer::full().start().await;
    let session = started(&server, json!({ "command": "cat", "background": true })).await;
    let closed = started(
        &server,
        json!({ "command": "sleep 600 < /dev/null", "background": true }),
    )
    .await;
    // The operator answers and ends, and sends nothing.
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    open(&browser, &session).await;
    let at = row(&session);
    browser
        .says(&at, "You can look at it. To write to it, sign in with a token")
        .await;
    assert_eq!(
        browser.value("document.querySelector('.session-input')").await,
        Value::Null
    );
    browser.shown(&format!("{at} [data-act=ask-cancel-run]")).await;
    // Whatever the page shows, the server refuses it.
    let script = "return fetch('/v1/process', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': localStorage.getItem('countersign.csrf') }, body: JSON.stringify({ action: 'write', sessionId: arguments[0], data: 'x' }) }).then((answer) => answer.status)";
    assert_eq!(browser.run(script, json!([session])).await, 403);
    browser.click("#sign-out").await;

    // A reader sees it too, with no way to end it.
    let browser = or_skip!(signed_in_with(&server, Screen::DESK, &["read"]).await);
    open(&browser, &session).await;
    browser.says(&at, "You can look at it.").await;
    assert_eq!(
        browser.value("document.querySelector('[data-act]')").await,
        Value::Null
    );
    for session in [session, closed] {
        let path = format!("/v1/runs/{}/cancel", run_of(&server, &session).await);
        server.operator().posted(&path, json!({})).await;
        eventually(
            "the end of the session",
            || async { status(&server, &session).await },
            |found| *found == "cancelled",
        )
        .await;
    }
}

async fn run_of(server: &TestServer, session: &str) -> String {
    let found = server.operator().read(&format!("/v1/process/{session}")).await;
    id(&found, "runId")
}
