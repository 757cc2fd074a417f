//! Nodes and pairings on the page.

use serde_json::{Value, json};

use super::{axe, complains_of_nothing, go, signed_in};
use crate::{
    nodes::{ONLY_RUN, knock, paired},
    support::{Browser, Screen, TestServer},
};

/// The card of a pairing request, once it takes answers.
fn card(request: &str) -> String {
    format!("[data-request=\"{request}\"]:not([data-unsteady])")
}

async fn press(browser: &Browser, request: &str, decision: &str) {
    let button = format!(
        "{} [data-decision=\"{decision}\"]:not([aria-disabled=true])",
        card(request)
    );
    browser.click(&button).await;
}

async fn gone(browser: &Browser, request: &str) {
    browser
        .until(&format!(
            "!document.querySelector('[data-request=\"{request}\"]')"
        ))
        .await;
}

#[tokio::test]
async fn a_machine_that_wants_in_appears_by_itself_and_is_let_in_or_not() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    go(&browser, "nodes").await;
    let first = knock(&server, "build-box", ONLY_RUN).await;
    browser
        .says(&card(&first.request), "build-box wants to connect")
        .await;
    browser
        .says(&card(&first.request), "anyone can choose a name")
        .await;
    browser
        .says(
            &format!("{} .offered", card(&first.request)),
            "system.run runs programs on that machine",
        )
        .await;
    let fingerprint = first.node_id.get(..8).expect("an id").to_owned();
    browser
        .says(&format!("{} .fingerprint", card(&first.request)), &fingerprint)
        .await;
    axe::draw(&browser, "pairing", Screen::PHONE).await;
    press(&browser, &first.request, "approve").await;
    gone(&browser, &first.request).await;
    browser
        .says(&format!("[data-node=\"{}\"]", first.node_id), "build-box")
        .await;
    let nodes = server.operator().read("/v1/nodes").await;
    assert_eq!(nodes["items"][0]["nodeId"], first.node_id.as_str());

    let second = knock(&server, "stranger", ONLY_RUN).await;
    browser.shown(&card(&second.request)).await;
    press(&browser, &second.request, "reject").await;
    gone(&browser, &second.request).await;
    let nodes = server.operator().read("/v1/nodes").await;
    assert_eq!(nodes["items"].as_array().map(Vec::len), Some(1), "{nodes}");
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn what_somebody_else_decides_goes_from_the_page_and_the_state_of_nodes_follows() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    go(&browser, "nodes").await;
    let request = knock(&server, "laptop", ONLY_RUN).await.request;
    browser.shown(&card(&request)).await;
    let path = format!("/v1/nodes/pairings/{request}/decision");
    server
        .operator()
        .posted(&path, json!({ "decision": "reject" }))
        .await;
    gone(&browser, &request).await;

    let node = paired(&server, "steady", ONLY_RUN).await;
    let row = format!("[data-node=\"{}\"]", node.id());
    browser.says(&row, "Connected").await;
    drop(node);
    browser.says(&row, "Offline").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_node_gets_another_name_and_is_unpaired_after_a_second_question() {
    let server = TestServer::asking().start().await;
    let node = paired(&server, "build-box", ONLY_RUN).await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    go(&browser, "nodes").await;
    let row = format!("[data-node=\"{}\"]", node.id());
    browser.click(&format!("{row} summary")).await;
    let name = format!("{row} .rename input");
    browser
        .run(&format!("document.querySelector('{name}').select()"), json!([]))
        .await;
    browser.write(&name, "<b>press</b>\u{e007}").await;
    browser.says(&format!("{row} .run-command"), "<b>press</b>").await;
    let nodes = server.operator().read("/v1/nodes").await;
    assert_eq!(nodes["items"][0]["displayName"], "<b>press</b>");
    axe::draw(&browser, "node-open", Screen::DESK).await;
    // The second click of a double click lands where the first button was.
    let script = "const ask = document.querySelector('[data-act=ask-unpair]');
        const { left, top } = ask.getBoundingClientRect();
        ask.click();
        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => {
            document.elementFromPoint(left + 4, top + 4)?.closest('[data-act]')?.click();
            document.querySelector('[data-act=unpair]').click();
        });";
    browser.run(script, json!([])).await;
    browser.says(&row, "Unpair this machine?").await;
    let nodes = server.operator().read("/v1/nodes").await;
    assert_eq!(nodes["items"].as_array().map(Vec::len), Some(1), "{nodes}");
    browser.click(":not([data-unsteady]) > [data-act=unpair]").await;
    browser.says("#nodes-none", "No machine is a node yet.").await;
    let nodes = server.operator().read("/v1/nodes").await;
    assert_eq!(nodes["items"], json!([]));
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_name_that_was_chosen_to_deceive_is_shown_and_does_nothing() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::NARROW).await);
    go(&browser, "nodes").await;
    for name in [
        "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>",
        "\" onfocus=window.pwned=1 autofocus x=\"",
        "buіld-box",
        "abc \u{202e}txt.exe",
        &format!("x{}y", " ".repeat(100)),
        &"W".repeat(128),
    ] {
        let request = knock(&server, name, ONLY_RUN).await.request;
        browser.shown(&card(&request)).await;
        let script = "const card = document.querySelector(`[data-request=\"${arguments[0]}\"]`);
            return [window.pwned ?? null, card.querySelectorAll('script, img, svg, style, iframe').length,
                document.documentElement.scrollWidth > document.documentElement.clientWidth,
                /[\\u202a-\\u202e\\u2066-\\u2069]/.test(card.textContent)];";
        let seen = browser.run(script, json!([request])).await;
        assert_eq!(seen, json!([Value::Null, 0, false, false]), "{name}");
        if name.contains('і') {
            browser
                .says(&card(&request), "letters of different alphabets")
                .await;
        }
        press(&browser, &request, "reject").await;
        gone(&browser, &request).await;
    }
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn who_is_no_admin_sees_nodes_and_decides_nothing() {
    let server = TestServer::asking().start().await;
    let node = paired(&server, "build-box", ONLY_RUN).await;
    let request = knock(&server, "stranger", ONLY_RUN).await.request;
    let (_, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read", "approve"] }))
        .await;
    let browser = or_skip!(Browser::start(Screen::DESK).await);
    let secret = reader.token().expect("a secret");
    browser
        .open(&format!("{}/login", server.anonymous().base()))
        .await;
    browser.write("#token", secret).await;
    browser.click("#use-token").await;
    browser.says("#link-text", "Live").await;
    go(&browser, "nodes").await;
    browser.shown(&format!("[data-node=\"{}\"]", node.id())).await;
    assert_eq!(
        browser.value("document.getElementById('pairings').hidden").await,
        true
    );
    let decided = reader
        .post(
            &format!("/v1/nodes/pairings/{request}/decision"),
            json!({ "decision": "approve" }),
        )
        .await;
    decided.problem(403, "forbidden");
    let still = server.operator().read("/v1/nodes/pairings").await;
    assert_eq!(still["items"][0]["requestId"], request.as_str());
}
