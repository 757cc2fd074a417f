use serde_json::json;
use tokio::net::TcpSocket;

use super::{answer, ask, ask_body, axe, complains_of_nothing, ended, id, opened, row, signed_in};
use crate::support::{Screen, TestServer, eventually};

/// An address that the server can come back to, and what keeps other programs away from it meanwhile: a socket that is
/// bound there too, and never listens.
fn fixed_address() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("an address for several");
    socket
        .bind("127.0.0.1:0".parse().expect("an address"))
        .expect("a free port");
    let address = socket.local_addr().expect("its address").to_string();
    (socket, address)
}

#[tokio::test]
async fn offline_it_says_so_and_back_it_goes_on_where_it_was() {
    let (_kept, address) = fixed_address();
    let mut server = TestServer::asking()
        .without_listen()
        .argument("--listen")
        .argument(&address)
        .start()
        .await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let first = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    let second = id(&ask(&server, &["/bin/echo", "2"]).await, "approvalId");
    browser.shown(&row(&second)).await;
    opened(&browser, &first).await;
    let lists = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/v1/approvals?')).length";
    let lists_before = browser.value(lists).await;
    server.kill();
    browser.says("#link-text", "Offline").await;
    browser
        .until("[...document.querySelectorAll('.act')].every((button) => button.ariaDisabled === 'true')")
        .await;
    browser.says(".why-not", "Offline").await;
    axe::draw(&browser, "offline", Screen::PHONE).await;
    browser
        .run(
            "document.querySelector('[data-decision=allow-once]').click()",
            json!([]),
        )
        .await;

    server.start().await;
    // While the page was away: one was decided, one is new. It hears of both from the log.
    server.operator().decided(&first, "deny").await;
    let third = id(&ask(&server, &["/bin/echo", "3"]).await, "approvalId");
    browser.says("#link-text", "Live").await;
    ended(&browser, &first, "Denied by operator (API token)").await;
    browser.shown(&row(&third)).await;
    assert_eq!(
        browser.value(lists).await,
        lists_before,
        "it resumed instead of loading the list again"
    );
    assert_eq!(
        server.operator().pending().await.len(),
        2,
        "a click while offline decides nothing"
    );
    for approval in [&second, &third] {
        answer(&browser, approval, "deny").await;
        ended(&browser, approval, "Denied by you").await;
    }
}

#[tokio::test]
async fn a_network_that_is_gone_and_back_loses_nothing() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let first = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    // Without an answer nobody knows whether it counted, and the page does not say that it did.
    let sent = "!!document.querySelector('[data-phase=sending], .problem:not([hidden])')";
    let refused = "!!document.querySelector('[data-decision=allow-once][aria-disabled=true]')";
    let presses = "document.querySelector('[data-decision=allow-once]').click()";
    loop {
        opened(&browser, &first).await;
        browser.set_offline(true).await;
        browser.run(presses, json!([])).await;
        browser.until(&format!("{sent} || {refused}")).await;
        if browser.value(sent).await == true {
            break;
        }
        // The page knew of the network first, and took no answer.
        browser.set_offline(false).await;
        browser.run("dispatchEvent(new Event('online'))", json!([])).await;
        browser.until(&format!("!{refused}")).await;
    }
    assert_eq!(server.operator().pending().await.len(), 1);
    let second = id(&ask(&server, &["/bin/echo", "2"]).await, "approvalId");
    browser.set_offline(false).await;
    browser.run("dispatchEvent(new Event('online'))", json!([])).await;
    browser
        .says(&format!("[data-id=\"{first}\"] .problem"), "did not arrive")
        .await;
    browser.shoot("not-arrived").await;
    browser.shown(&row(&second)).await;
    answer(&browser, &first, "deny").await;
    ended(&browser, &first, "Denied by you").await;
}

#[tokio::test]
async fn a_request_that_was_heard_of_and_could_not_be_fetched_is_fetched_later() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let first = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    browser.shown(&row(&first)).await;
    // The stream of events stays up, and nothing else comes through.
    let script = "const real = window.fetch;
        window.failed = 0;
        window.back = () => { window.fetch = real; };
        window.fetch = (path, options) => {
            if (!/approvals/.test(path)) return real(path, options);
            window.failed += 1;
            return Promise.reject(new TypeError('no network'));
        };";
    browser.run(script, json!([])).await;
    let second = id(&ask(&server, &["/bin/echo", "2"]).await, "approvalId");
    browser.until("window.failed > 1").await;
    browser.says("#link-text", "Offline").await;
    browser.run("window.back()", json!([])).await;
    answer(&browser, &second, "deny").await;
    ended(&browser, &second, "Denied by you").await;
    browser.says("#link-text", "Live").await;
}

#[tokio::test]
async fn what_changes_before_the_events_come_is_shown_once_they_do() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    // The stream of events opens when the test says so, after the page has read what the policy is.
    let script = "const real = window.fetch;
        const held = new Promise((done) => { window.open_stream = done; });
        window.fetch = (path, options) => (/events/.test(path) ? held.then(() => real(path, options)) : real(path, options));";
    let parameters = json!({ "source": script });
    browser
        .devtools("Page.addScriptToEvaluateOnNewDocument", parameters)
        .await;
    browser.reload().await;
    browser.says("#trust", "same-user").await;
    browser.says("#head", "Audit log sealed up to record").await;
    server.edit_document("{ broken");
    let refused =
        || async { server.operator().read("/v1/policy/effective").await["document"]["status"].clone() };
    eventually("refused", refused, |status| status == "refused").await;
    browser.run("window.open_stream()", json!([])).await;
    browser.says("#notices", "everything is denied").await;
}

#[tokio::test]
async fn a_stop_and_a_policy_that_could_not_be_fetched_are_fetched_later() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    browser.says("#link-text", "Live").await;
    // The stream of events stays up, and what it tells of does not come through.
    let script = "const real = window.fetch;
        window.failed = { stop: 0, policy: 0 };
        window.back = () => { window.fetch = real; };
        window.fetch = (path, options) => {
            const what = Object.keys(window.failed).find((name) => path.startsWith(`/v1/${name}`));
            if (!what) return real(path, options);
            window.failed[what] += 1;
            return Promise.reject(new TypeError('no network'));
        };";
    browser.run(script, json!([])).await;
    server.edit_document("{ broken");
    let stop = json!({ "reason": "keys leaked" });
    server.operator().posted("/v1/stop", stop).await;
    browser
        .until("window.failed.stop > 1 && window.failed.policy > 1")
        .await;
    browser.says("#link-text", "Offline").await;
    browser.run("window.back()", json!([])).await;
    browser.says("#stopped", "keys leaked").await;
    browser.says("#notices", "everything is denied").await;
    browser.says("#link-text", "Live").await;
}

#[tokio::test]
async fn expiry_and_withdrawal_are_seen_as_they_happen() {
    // Only the second question expires: how long it takes to withdraw the first one does not matter.
    let rule = "[[approvals.rules]]\nagents = [\"hasty\"]\ndecide_by_ms = 4000\n";
    let server = TestServer::asking_with(rule).start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let pending = ask(&server, &["/bin/echo", "1"]).await;
    let withdrawn = id(&pending, "approvalId");
    browser.shown(&row(&withdrawn)).await;
    server.agent().cancel(&id(&pending, "runId")).await;
    ended(&browser, &withdrawn, "Cancelled by gateway").await;
    let hasty = json!({ "argv": ["/bin/echo", "2"], "agentId": "hasty" });
    let expired = id(&ask_body(&server, hasty).await, "approvalId");
    browser.shown(&format!("{} .left.urgent", row(&expired))).await;
    ended(&browser, &expired, "Nobody answered in time").await;
    axe::draw(&browser, "expired", Screen::PHONE).await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_refusal_is_shown_with_what_the_server_says_and_the_number_of_the_request() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let approval = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    opened(&browser, &approval).await;
    // The real server cannot be made to fail at will: its next answer is replaced in the browser.
    let script = "const real = window.fetch;
        window.fetch = (path, options) => {
            if (!String(path).endsWith('/decision')) return real(path, options);
            window.fetch = real;
            const problem = JSON.stringify({ code: 'storage-full', detail: 'no <i>space</i> is left' });
            return Promise.resolve(new Response(problem, { status: 507, headers: { 'x-request-id': 'request-7' } }));
        };";
    browser.run(script, json!([])).await;
    answer(&browser, &approval, "deny").await;
    browser
        .says(
            &format!("[data-id=\"{approval}\"] .problem"),
            "no <i>space</i> is left (request request-7)",
        )
        .await;
    axe::draw(&browser, "refused", Screen::PHONE).await;
    answer(&browser, &approval, "deny").await;
    ended(&browser, &approval, "Denied by you").await;
}

#[tokio::test]
async fn while_an_answer_is_on_its_way_there_is_no_second_one() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let approval = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    opened(&browser, &approval).await;
    let script = "const real = window.fetch;
        window.sent = 0;
        window.go = () => {};
        window.fetch = (path, options) => {
            if (!String(path).endsWith('/decision')) return real(path, options);
            window.sent += 1;
            return new Promise((done) => { window.go = done; }).then(() => real(path, options));
        };";
    browser.run(script, json!([])).await;
    answer(&browser, &approval, "deny").await;
    browser.shown("[data-phase=sending] .act.deny.busy").await;
    browser.shoot("sending").await;
    let presses =
        "for (const button of document.querySelectorAll('.act')) button.click(); return window.sent;";
    assert_eq!(browser.run(presses, json!([])).await, 1);
    assert_eq!(
        browser.value("document.querySelector('article').ariaBusy").await,
        "true"
    );
    browser.run("window.go()", json!([])).await;
    ended(&browser, &approval, "Denied by you").await;
}

#[tokio::test]
async fn a_request_that_takes_two_people_waits_for_the_other() {
    let server = TestServer::asking_with("[[approvals.rules]]\napprovals_required = 2\n")
        .start()
        .await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let ann = server.token_of("ann", &["approve"]).await;
    let approval = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    opened(&browser, &approval).await;
    browser.says(".votes", "Allowed by 0 of 2").await;
    answer(&browser, &approval, "allow-once").await;
    browser.says(".votes", "Allowed by 1 of 2").await;
    browser.says(".why-not", "It waits for another person").await;
    axe::draw(&browser, "one-of-two", Screen::PHONE).await;
    ann.decided(&approval, "allow-once").await;
    ended(&browser, &approval, "Allowed once by ann").await;
    // Somebody else's vote is seen as it comes.
    let approval = id(&ask(&server, &["/bin/echo", "2"]).await, "approvalId");
    opened(&browser, &approval).await;
    ann.decided(&approval, "allow-once").await;
    let votes = format!("[data-id='{approval}'] .votes");
    browser.says(&votes, "Allowed by 1 of 2: ann").await;
    answer(&browser, &approval, "deny").await;
    ended(&browser, &approval, "Denied by you").await;
}

#[tokio::test]
async fn the_page_tells_the_trust_level_and_that_a_broken_document_denies() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    browser.says("#trust", "same-user").await;
    browser.says("#trust", "guard rail").await;
    server.edit_document("{ broken");
    browser.says("#notices", "everything is denied").await;
    axe::draw(&browser, "document-refused", Screen::PHONE).await;
    server.edit_document("{\"version\":1}");
    browser
        .until("document.querySelector('#notices').innerText === ''")
        .await;
    // A run shows its own level, too.
    let pending = ask_body(&server, json!({ "argv": ["/bin/echo", "x"] })).await;
    assert_has!(server.agent().run(&id(&pending, "runId")).await, { "isolation": "same-user" });
}

#[tokio::test]
async fn an_edit_that_is_held_is_shown_and_can_be_rejected_or_accepted() {
    let allowing = |program: &str| {
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": program }] } } }).to_string()
    };
    let server = TestServer::asking()
        .document_text(&allowing("/**/date"))
        .start()
        .await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    browser.says("#head", "Audit log sealed up to record").await;
    server.ran(json!({ "argv": ["date"] })).await;
    server.edit_document(&allowing("/**/id"));
    browser.says("#notice-held", "\"/**/id\" is allowed").await;
    // What it changes is one press away, and each answer is asked about once more.
    browser.click("#notice-held [data-act=show-changes]").await;
    browser.says("#notice-held .changes", "/**/id").await;
    browser
        .click("#notice-held [data-act=ask-notice-reject-held]")
        .await;
    browser
        .says("#notice-held", "All that it changes is undone")
        .await;
    axe::draw(&browser, "edit-held", Screen::PHONE).await;
    browser
        .click("#notice-held :not([data-unsteady]) > [data-act=notice-reject-held]")
        .await;
    browser
        .until("document.querySelector('#notice-held') === null")
        .await;
    server.ran(json!({ "argv": ["date"] })).await;

    server.edit_document(&allowing("/**/id"));
    browser.says("#notice-held", "\"/**/id\" is allowed").await;
    browser
        .click("#notice-held [data-act=ask-notice-accept-held]")
        .await;
    browser
        .click("#notice-held :not([data-unsteady]) > [data-act=notice-accept-held]")
        .await;
    browser
        .until("document.querySelector('#notice-held') === null")
        .await;
    server.ran(json!({ "argv": ["id"] })).await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_card_shows_what_its_session_overrides() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let path = "/v1/sessions/agent:main:main/overrides";
    let set = operator
        .request(reqwest::Method::PUT, path)
        .json(&json!({ "ask": "always", "node": "mac-1" }));
    operator.send(set).await.expect(200);
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let overridden = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    let body = json!({ "argv": ["/bin/echo", "2"], "sessionKey": "agent:main:other" });
    let plain = id(&ask_body(&server, body).await, "approvalId");
    opened(&browser, &overridden).await;
    browser.shown("[data-fact=session]").await;
    browser
        .says(
            &format!("[data-id=\"{overridden}\"] .overrides"),
            "ask always, node mac-1 (set by operator)",
        )
        .await;
    opened(&browser, &plain).await;
    // It has asked, and there is nothing to show.
    browser
        .until("performance.getEntriesByType('resource').some(({ name, responseEnd }) => name.includes('other/overrides') && responseEnd)")
        .await;
    browser.shown("[data-fact=first]").await;
    assert_eq!(
        browser
            .value("document.querySelectorAll('.overrides, [data-fact=session]').length")
            .await,
        0
    );
    complains_of_nothing(&browser).await;
}

/// Where a miss is refused while nobody answers.
#[tokio::test]
async fn while_the_page_is_open_somebody_is_there_to_answer() {
    let server = TestServer::asking_approvers_that_are_there().start().await;
    let status = async || server.agent().exec(json!({ "argv": ["/bin/date"] })).await.status;
    assert_eq!(status().await, 403);
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    assert_eq!(status().await, 202);
    browser.open("about:blank").await;
    eventually("nobody is there", status, |status| *status == 403).await;
}
