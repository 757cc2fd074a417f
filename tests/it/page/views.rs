//! The views beside the inbox: each has an address, is reached by keyboard, and shows what the API says.

use serde_json::json;

use super::{answer, ask, ask_body, axe, complains_of_nothing, ended, go, id, opened, press, signed_in};
use crate::support::{Browser, Members as _, Screen, TestServer};

const VIEWS: [(&str, &str); 11] = [
    ("inbox", "Waiting for you (1)"),
    ("overview", "Overview"),
    ("runs", "Runs"),
    ("history", "History"),
    ("terminals", "Terminals"),
    ("sessions", "Sessions"),
    ("nodes", "Nodes"),
    ("policy", "Policy"),
    ("people", "People"),
    ("audit", "Audit"),
    ("health", "Health"),
];

/// Waits until the heading with these words has the focus.
async fn at(browser: &Browser, title: &str) {
    let title = json!(title);
    browser
        .until(&format!(
            "document.activeElement.matches('main h1') && document.activeElement.innerText === {title}"
        ))
        .await;
}

#[tokio::test]
async fn every_view_has_an_address_and_is_reached_by_keyboard() {
    let server = TestServer::asking().start().await;
    ask(&server, &["/bin/echo", "1"]).await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    browser.says("#waiting-title", "(1)").await;
    let listed = browser
        .value("[...document.querySelectorAll('nav a')].map((link) => link.dataset.view)")
        .await;
    assert_eq!(listed, json!(VIEWS.map(|(name, _title)| name)));
    for (name, title) in VIEWS.iter().rev() {
        let link = format!("nav a[data-view={name}]");
        browser
            .run(&format!("document.querySelector('{link}').focus()"), json!([]))
            .await;
        browser.press("\u{e007}").await;
        at(&browser, title).await;
        browser
            .until(&format!(
                "document.querySelector('{link}').ariaCurrent === 'page'"
            ))
            .await;
        let current = "document.querySelectorAll('nav [aria-current]').length";
        assert_eq!(browser.value(current).await, 1);
        assert!(browser.address().await.ends_with(&format!("#/{name}")));
    }
    // A letter is for the inbox alone; in the other views nothing that you do not see is answered.
    go(&browser, "runs").await;
    at(&browser, "Runs").await;
    assert_eq!(browser.value("document.title").await, "(1) Runs · countersign");
    browser.press("adxX").await;
    assert_eq!(server.operator().pending().await.len(), 1);
    // The twin: there the first one goes to the request, and the second one is for it.
    browser.run("history.back()", json!([])).await;
    at(&browser, "Waiting for you (1)").await;
    browser.press("d").await;
    browser.until("document.activeElement.matches('article')").await;

    // An address leads to its view with its filter, and one that names none to the inbox.
    go(&browser, "runs?status=denied&q=nothing").await;
    browser.reload().await;
    browser.says("#runs-none", "No run matches the filter.").await;
    assert_eq!(
        browser
            .value("[document.querySelector('#runs-status').value, document.querySelector('#runs-q').value]")
            .await,
        json!(["denied", "nothing"])
    );
    browser.run("location.hash = '#/no-such-view'", json!([])).await;
    browser.shown("#waiting").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_view_is_loaded_when_it_is_opened_and_one_that_could_not_be_is_loaded_again() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    browser.says("#link-text", "Live").await;
    let loaded = "performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname).filter((name) => name.endsWith('.js')).sort()";
    browser
        .until(&format!("({loaded}).includes('/assets/record.js')"))
        .await;
    assert_eq!(
        browser.value(loaded).await,
        json!(["/assets/app.js", "/assets/early.js", "/assets/record.js"])
    );
    browser.set_offline(true).await;
    browser.run("location.hash = '#/audit'", json!([])).await;
    browser.says("#view-audit", "This view could not be loaded").await;
    browser.click("#view-again").await;
    browser
        .says("#view-audit", "the server still does not answer")
        .await;
    // The inbox goes on.
    go(&browser, "inbox").await;
    browser.run("location.hash = '#/audit'", json!([])).await;
    browser.shown("#view-again").await;
    browser.set_offline(false).await;
    browser.click("#view-again").await;
    browser.shown("#audit").await;
    assert!(browser.address().await.ends_with("#/audit"));
    assert_eq!(
        browser.value(loaded).await,
        json!([
            "/assets/app.js",
            "/assets/audit.js",
            "/assets/early.js",
            "/assets/lists.js",
            "/assets/record.js"
        ])
    );
}

#[tokio::test]
async fn runs_sessions_and_history_show_what_happened_and_what_goes_on() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let live = ask_body(
        &server,
        json!({ "command": "echo begun; sleep 600", "background": true }),
    )
    .await;
    let refused = ask(&server, &["/bin/echo", "never"]).await;
    server
        .operator()
        .decided(&id(&live, "approvalId"), "allow-once")
        .await;
    let path = format!("/v1/approvals/{}/decision", id(&refused, "approvalId"));
    let body = json!({ "decision": "deny", "reason": "not <b>today</b>" });
    server.operator().posted(&path, body).await;

    // What runs is followed while its output comes, and can be ended.
    go(&browser, "runs").await;
    let row = format!("[data-run=\"{}\"]", id(&live, "runId"));
    browser.says(&row, "Running").await;
    browser.choose("#runs-status", "running").await;
    browser
        .until("document.querySelectorAll('#runs [data-run]').length === 1")
        .await;
    assert!(browser.address().await.ends_with("#/runs?status=running"));
    browser.click(&format!("{row} .run-head")).await;
    browser.says(&format!("{row} .output"), "begun").await;
    browser.says(&row, "Allowed by a person").await;
    // Its steps, each below what it belongs to.
    browser.click(&format!("{row} [data-act=story]")).await;
    browser
        .says(&format!("{row} .story"), "The question was put to people.")
        .await;
    browser
        .says(&format!("{row} .story"), "Allowed once by operator (API token)")
        .await;
    let nested = browser
        .value("[...document.querySelectorAll('.story .story .story')].some((steps) => steps.innerText.includes('Allowed once'))")
        .await;
    assert_eq!(nested, true);
    axe::draw(&browser, "runs-open", Screen::DESK).await;
    // By the day on the reader's calendar.
    browser.choose("#runs-status", "").await;
    browser
        .until("document.querySelectorAll('#runs [data-run]').length === 2")
        .await;
    let day = "const [days] = arguments; const day = new Date(); day.setDate(day.getDate() + days);
        const field = document.getElementById('runs-day');
        field.value = [day.getFullYear(), String(day.getMonth() + 1).padStart(2, '0'), String(day.getDate()).padStart(2, '0')].join('-');
        field.dispatchEvent(new Event('input', { bubbles: true }));";
    browser.run(day, json!([-3])).await;
    browser.says("#runs-none", "No run matches the filter.").await;
    browser.run(day, json!([0])).await;
    browser
        .until("document.querySelectorAll('#runs [data-run]').length > 0")
        .await;
    assert!(browser.address().await.contains("day="));

    go(&browser, "sessions").await;
    let session = "#sessions [data-session]";
    browser.says(session, "Running").await;
    browser.click(&format!("{session} .run-head")).await;
    browser.says(&format!("{session} .output"), "begun").await;
    axe::draw(&browser, "sessions-open", Screen::DESK).await;
    browser.click("[data-act=ask-cancel-run]").await;
    browser
        .click(":not([data-unsteady]) > [data-act=cancel-run]")
        .await;
    browser.says(session, "Cancelled").await;
    let run = server.operator().run(&id(&live, "runId")).await;
    assert_has!(run, { "status": "cancelled" });

    go(&browser, "history").await;
    let denied = format!("[data-approval=\"{}\"]", id(&refused, "approvalId"));
    browser.says(&denied, "Denied by operator (API token)").await;
    browser.says(&denied, "Reason: not <b>today</b>").await;
    browser.choose("#history-status", "allowed").await;
    browser
        .until("document.querySelectorAll('#history [data-approval]').length === 1")
        .await;
    browser.choose("#history-status", "").await;
    browser.shown(&denied).await;
    browser.write("#history-q", "never").await;
    browser
        .until("document.querySelectorAll('#history [data-approval]').length === 1")
        .await;
    browser.shown(&denied).await;
    browser.write("#history-q", " x").await;
    browser.says("#history-none", "Nothing matches the filter.").await;
    browser.click("#history-none a").await;
    browser.shown(&denied).await;
    // What is answered while it is open appears there.
    let late = ask(&server, &["/bin/echo", "late"]).await;
    let late = id(&late, "approvalId");
    browser
        .says(&format!("[data-approval=\"{late}\"]"), "Waiting")
        .await;
    server.operator().decided(&late, "deny").await;
    browser
        .says(&format!("[data-approval=\"{late}\"]"), "Denied by operator")
        .await;
    browser.shoot("view-history").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn an_admin_sees_the_log_the_people_and_the_health_and_who_may_not_does_not() {
    let server = TestServer::asking().start().await;
    let (_, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read"] }))
        .await;
    let (tired, program) = server
        .token_with(json!({ "name": "tired <i>program</i>", "scopes": ["exec"] }))
        .await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let approval = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    answer(&browser, &approval, "allow-once").await;
    ended(&browser, &approval, "exit code 0").await;

    go(&browser, "audit").await;
    browser.says("#audit", "exec.approval.resolved").await;
    browser
        .says("#audit", "operator allowed once a request of main")
        .await;
    browser
        .says("#audit", "gateway asked to run /bin/echo 1 for main")
        .await;
    browser.click("#audit-verify").await;
    browser.says("#audit-said", "The log is intact").await;
    browser.write("#audit-action", "token.created").await;
    browser
        .until("[...document.querySelectorAll('#audit [data-record] .run-meta code')].every((action) => action.innerText === 'token.created') && document.querySelectorAll('#audit [data-record]').length === 4")
        .await;
    // What is saved is what the filter shows, one object a line.
    let script = "window.saved = [];
        const real = URL.createObjectURL;
        URL.createObjectURL = (blob) => { blob.text().then((text) => window.saved.push(text)); return real(blob); };";
    browser.run(script, json!([])).await;
    browser.click("#audit-save").await;
    browser.says("#audit-said", "4 records are saved").await;
    browser.until("window.saved.length === 1").await;
    let actions = browser
        .value("window.saved[0].trim().split('\\n').map((line) => JSON.parse(line).action)")
        .await;
    assert_eq!(actions, json!(["token.created"].repeat(4)));
    browser.shoot("view-audit").await;

    go(&browser, "people").await;
    let row = format!("[data-token=\"{tired}\"]");
    browser.says(&row, "tired <i>program</i>").await;
    browser.click(&format!("{row} [data-act=ask-revoke-token]")).await;
    assert_eq!(program.get("/v1/me").await.status, 200, "it is asked about first");
    browser
        .click(&format!("{row} :not([data-unsteady]) > [data-act=revoke-token]"))
        .await;
    browser.says(&row, "revoked").await;
    assert_eq!(program.get("/v1/me").await.status, 401);
    // One for an agent alone, and for a while.
    browser.write("#make-token-name", "robot").await;
    browser.write("#make-token-agents", "build, deploy").await;
    browser.choose("#make-token-expires", "7").await;
    browser
        .click("#make-token [type=submit]:not([aria-disabled=true])")
        .await;
    browser.says("#make-token .made", "cst_").await;
    let all = server.operator().read("/v1/tokens").await;
    let made = all.list("items").iter().find(|token| token["name"] == "robot");
    let made = made.expect("the new token");
    assert_eq!(made["agents"], json!(["build", "deploy"]));
    let days = (made["expiresAtMs"].as_i64().expect("a time")
        - made["createdAtMs"].as_i64().expect("a time"))
        / 86_400_000;
    assert!((6..=7).contains(&days), "{made}");
    browser.says("#tokens", "build, deploy").await;
    // What ended while it was looked at stays; after that it is listed on request.
    browser.says(&row, "revoked").await;
    go(&browser, "audit").await;
    browser.click("#audit .run-head").await;
    browser.click("#audit details[open] a[href*=action]").await;
    browser
        .until("document.querySelector('#audit-action').value === document.querySelector('#audit [data-record] .run-meta code')?.innerText")
        .await;
    go(&browser, "people").await;
    browser.click("#tokens-ended").await;
    browser.says(&row, "revoked").await;
    browser.write("#invite-name", "ann").await;
    browser
        .click("#invite [type=submit]:not([aria-disabled=true])")
        .await;
    browser.says("#invite .made", "/login#code=").await;
    browser.says("#tokens", "ann owner").await;
    axe::draw(&browser, "people-link", Screen::DESK).await;
    browser.click("#invite .made button").await;
    assert!(!browser.text("body").await.contains("#code="));

    go(&browser, "health").await;
    browser.says("#health-verdict", "The server works.").await;
    browser.says("[data-check=database]", "ok").await;
    // What doctor finds, each with its fix.
    browser.shown("[data-finding]").await;
    let found = server.operator().read("/v1/doctor").await;
    let found: Vec<&str> = found.list("findings").iter().map(|one| one.text("id")).collect();
    let shown = browser
        .value("[...document.querySelectorAll('[data-finding]')].map((one) => one.dataset.finding)")
        .await;
    assert_eq!(shown, json!(found));
    let fixes =
        "[...document.querySelectorAll('[data-finding]')].every((one) => one.innerText.includes('Fix: '))";
    assert_eq!(browser.value(fixes).await, true);
    axe::draw(&browser, "health-findings", Screen::DESK).await;
    server.edit_document("{ broken");
    browser.says("#health-verdict", "something is wrong").await;
    browser.says("[data-check=document]", "wrong").await;
    complains_of_nothing(&browser).await;

    // Another browser, with less.
    browser.click("#sign-out").await;
    browser.shown("#gone").await;
    browser
        .open(&format!("{}/login", server.anonymous().base()))
        .await;
    browser.write("#token", reader.token().expect("a secret")).await;
    browser.click("#use-token").await;
    browser.says("#link-text", "Live").await;
    let listed = "[...document.querySelectorAll('nav a')].map((link) => link.dataset.view).join()";
    assert_eq!(
        browser.value(listed).await,
        "inbox,overview,runs,history,terminals,sessions,nodes,policy,health"
    );
    browser.run("location.hash = '#/people'", json!([])).await;
    browser.says("#view-people", "lacks the scope admin").await;
}

#[tokio::test]
async fn the_overview_shows_what_was_counted_and_what_would_stop_it() {
    let server = TestServer::asking().start().await;
    let first = ask_body(&server, json!({ "argv": ["/bin/date"], "agentId": "build" })).await;
    ask_body(
        &server,
        json!({ "argv": ["/bin/date", "-u"], "agentId": "build" }),
    )
    .await;
    let other = ask_body(&server, json!({ "argv": ["/bin/uname"], "agentId": "other" })).await;
    server.answered(&first, "deny").await;
    server.answered(&other, "allow-once").await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    go(&browser, "overview").await;
    browser.shown("#asked-chart").await;
    for said in ["Questions\n3", "1 waiting", "50 %", "1 allowed, 1 denied"] {
        browser.says(".tiles", said).await;
    }
    // The bars are the numbers of the table.
    let bars = browser
        .value("[...document.querySelectorAll('#asked-chart title')].reduce((sum, { textContent }) => sum + Number(textContent.split(': ').pop()), 0)")
        .await;
    assert_eq!(bars, 3);
    let agents = browser
        .value("[...document.querySelectorAll('[aria-label=\"Questions by agent\"] tbody tr')].map((row) => [row.cells[0].innerText, row.cells[1].innerText])")
        .await;
    assert_eq!(agents, json!([["build", "2"], ["other", "1"]]));
    let figures = server.operator().read("/v1/overview").await;
    let rule = format!("[data-asking=\"{}\"]", figures["rules"][0].text("approvalId"));
    browser.says(&rule, "date").await;
    browser
        .says(&rule, "with exactly these arguments in this directory")
        .await;
    let target = browser
        .value(&format!(
            "document.querySelector('{rule} a').getAttribute('href')"
        ))
        .await;
    assert_eq!(target, format!("/a/{}", figures["rules"][0].text("approvalId")));
    browser.shoot("view-overview").await;
    // New figures come by themselves, and the address keeps the stretch.
    ask_body(
        &server,
        json!({ "argv": ["/bin/date", "-R"], "agentId": "build" }),
    )
    .await;
    browser.says(".tiles", "Questions\n4").await;
    browser.choose("#overview-age", "7").await;
    browser.until("location.hash === '#/overview?age=7'").await;
    browser.shown("#asked-chart").await;
    browser.set_screen(Screen::PHONE).await;
    let sideways = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.value(sideways).await, true);
    browser.shoot("view-overview-phone").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn an_agent_is_muted_by_an_answer_and_the_inbox_ends_that() {
    let server = TestServer::asking().start().await;
    let asked = ask(&server, &["/bin/echo", "1"]).await;
    let waits = ask(&server, &["/bin/echo", "2"]).await;
    let approval = id(&asked, "approvalId");
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    opened(&browser, &approval).await;
    press(&browser, &approval, "deny").await;
    browser.shown(".after").await;
    browser.click(".after [value=agent-30]").await;
    browser
        .says(
            ".after-stored",
            "Everything that main would have to ask is denied, and so are its requests that wait",
        )
        .await;
    browser.shoot("deny-mute-agent").await;
    press(&browser, &approval, "confirm-deny").await;
    browser
        .says("#mutes [data-muted=main]", "main is muted until")
        .await;
    server.agent().finished(waits.text("runId")).await;
    let refused = server.agent().exec(json!({ "argv": ["/bin/echo", "3"] })).await;
    assert_eq!(refused.problem(403, "exec-denied")["reason"], "agent-muted");
    axe::draw(&browser, "muted", Screen::DESK).await;
    browser.click("#mutes button").await;
    browser.until("!document.querySelector('#mutes')").await;
    ask(&server, &["/bin/echo", "4"]).await;
    complains_of_nothing(&browser).await;
}
