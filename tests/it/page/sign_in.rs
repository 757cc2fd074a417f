use serde_json::json;

use super::{ask, axe, complains_of_nothing, id, link, row, sign_in, signed_in};
use crate::support::{Browser, Screen, TestServer, eventually};

#[tokio::test]
async fn a_link_shows_a_button_and_only_the_button_uses_it_up() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(Browser::start(Screen::PHONE).await);
    let link = link(&server).await;
    // As a chat cut it off.
    browser.open(&link[..link.len() - 5]).await;
    browser.says("#problem", "This link is incomplete").await;
    browser.shown("#token").await;
    axe::draw(&browser, "sign-in-incomplete", Screen::PHONE).await;
    let code = link.split_once("#code=").expect("a code").1.to_owned();
    for _look in 0..2 {
        browser.open("about:blank").await;
        browser.open(&link).await;
        browser.shown("#use-link").await;
        let address = browser.address().await;
        assert!(!address.contains('#') && !address.contains(&code), "{address}");
    }
    axe::draw(&browser, "sign-in-link", Screen::PHONE).await;
    let history = browser
        .value("history.length + JSON.stringify(performance.getEntriesByType('navigation'))")
        .await;
    assert!(
        history.as_str().is_some_and(|text| text.contains("/login")),
        "{history}"
    );
    browser.click("#use-link").await;
    browser.says("#link-text", "Live").await;
    assert_eq!(browser.address().await, format!("{}/", server.anonymous().base()));
    complains_of_nothing(&browser).await;

    browser.open("about:blank").await;
    browser.open(&link).await;
    browser.click("#use-link").await;
    browser.says("#problem", "used already").await;
    axe::draw(&browser, "sign-in-used", Screen::PHONE).await;
    browser.shown("#token").await;
    assert!(!server.log().contains(&code), "the code reached the log");
}

#[tokio::test]
async fn a_token_signs_in_and_one_comes_back_to_where_one_wanted_to_go() {
    let server = TestServer::asking().start().await;
    let approval = id(&ask(&server, &["/bin/date", "-u"]).await, "approvalId");
    let browser = or_skip!(Browser::start(Screen::PHONE).await);
    let base = server.anonymous().base().to_owned();
    browser.open(&format!("{base}/a/{approval}")).await;
    browser.write("#token", "cst_wrong").await;
    browser.click("#use-token").await;
    browser.says("#problem", "not valid").await;
    browser.shoot("sign-in-wrong").await;
    browser
        .run("document.querySelector('#token').value = ''", json!([]))
        .await;
    browser.write("#token", &server.operator_token()).await;
    browser.click("#use-token").await;
    browser.shown(&format!("[data-id=\"{approval}\"] .command")).await;
    assert_eq!(browser.address().await, format!("{base}/a/{approval}"));

    // The token itself is kept nowhere; the second secret is.
    let kept = browser
        .value("JSON.stringify([localStorage, sessionStorage, document.cookie])")
        .await;
    let kept = kept.as_str().expect("a text");
    assert!(
        !kept.contains(&server.operator_token()) && !kept.contains("countersign_session"),
        "{kept}"
    );
    assert!(kept.contains("countersign.csrf"), "{kept}");
}

#[tokio::test]
async fn nobody_is_sent_elsewhere_after_signing_in() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let base = server.anonymous().base().to_owned();
    for next in [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:document.title='evil'",
        "/a/../login",
        "/a/x%0a",
        "data:text/html,x",
        "/%2fevil.example",
        "/a//evil.example",
    ] {
        browser.open(&format!("{base}/login?next={next}")).await;
        browser.says("#link-text", "Live").await;
        assert_eq!(browser.address().await, format!("{base}/"), "{next}");
    }
}

#[tokio::test]
async fn signing_out_in_one_tab_empties_the_other() {
    let server = TestServer::asking().start().await;
    let approval = id(&ask(&server, &["/bin/date", "-u"]).await, "approvalId");
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    browser
        .shown(&format!(":is({}, [data-id=\"{approval}\"])", row(&approval)))
        .await;
    let base = server.anonymous().base().to_owned();
    let first = browser.open_tab(&format!("{base}/a/{approval}")).await;
    browser
        .shown(&format!(":is({}, [data-id=\"{approval}\"])", row(&approval)))
        .await;
    browser.click("#sign-out").await;
    browser.shown("#gone").await;
    browser.turn_to(&first).await;
    browser.says("#gone", "signed out in another tab").await;
    axe::draw(&browser, "signed-out", Screen::PHONE).await;
    let left = browser
        .value("document.querySelectorAll('.card').length + document.body.innerText")
        .await;
    assert!(
        left.as_str()
            .is_some_and(|text| text.starts_with('0') && !text.contains("/bin/date")),
        "{left}"
    );
    let kept = browser.value("localStorage.getItem('countersign.csrf')").await;
    assert!(kept.is_null(), "{kept}");
    browser.reload().await;
    browser.shown("#by-token").await;
    assert_eq!(browser.address().await, format!("{base}/login"));
    // What a tab asked for at that moment is refused.
    let mut complaints = browser.complaints().await;
    complaints.retain(|complaint| !complaint.contains("401 (Unauthorized)"));
    assert_eq!(complaints, Vec::<String>::new());
}

#[tokio::test]
async fn a_revoked_token_signs_its_browsers_out() {
    let server = TestServer::asking().start().await;
    let approval = id(&ask(&server, &["/bin/date", "-u"]).await, "approvalId");
    let browser = or_skip!(Browser::start(Screen::PHONE).await);
    let made = server
        .operator()
        .made(
            "/v1/tokens",
            json!({ "name": "ann", "scopes": ["read", "approve"] }),
        )
        .await;
    browser
        .open(&format!("{}/login", server.anonymous().base()))
        .await;
    browser.write("#token", &id(&made, "secret")).await;
    browser.click("#use-token").await;
    browser
        .shown(&format!(":is({}, [data-id=\"{approval}\"])", row(&approval)))
        .await;
    let revoked = server
        .operator()
        .delete(&format!("/v1/tokens/{}", id(&made, "id")))
        .await;
    assert_eq!(revoked.status, 204);
    // The next thing that happens ends the stream, and the page asks why.
    ask(&server, &["/bin/date", "+%s"]).await;
    browser.says("#gone", "sign-in has ended").await;
    let left = browser.value("document.querySelectorAll('.card').length").await;
    assert_eq!(left, 0);
}

#[tokio::test]
async fn what_a_sign_in_may_do_is_what_the_page_offers() {
    let server = TestServer::asking().start().await;
    let approval = id(&ask(&server, &["/bin/date", "-u"]).await, "approvalId");
    let browser = or_skip!(Browser::start(Screen::PHONE).await);
    let cases = [
        (json!(["read"]), "you can look at this, but not answer", false),
        (json!(["approve"]), "allow once", true),
    ];
    for (scopes, words, may_answer) in cases {
        let made = server
            .operator()
            .made("/v1/tokens", json!({ "name": "ann", "scopes": scopes }))
            .await;
        browser
            .open(&format!("{}/login", server.anonymous().base()))
            .await;
        browser.write("#token", &id(&made, "secret")).await;
        browser.click("#use-token").await;
        browser
            .shown(&format!(":is({}, [data-id=\"{approval}\"])", row(&approval)))
            .await;
        let says = json!(words);
        browser
            .until(&format!(
                "document.querySelector('.card').innerText.toLowerCase().includes({says})"
            ))
            .await;
        let buttons = browser
            .value("document.querySelectorAll('.act').length > 0")
            .await;
        assert_eq!(buttons, may_answer, "{scopes}");
        if !may_answer {
            browser.click("#sign-out").await;
            browser.shown("#gone").await;
        }
    }
    // Without the scope read there are no events; the page looks for itself.
    let second = id(&ask(&server, &["/bin/date", "+%s"]).await, "approvalId");
    browser.says("#link-text", "every few seconds").await;
    super::answer(&browser, &second, "deny").await;
    super::ended(&browser, &second, "Denied by you").await;

    let gateway = server.gateway_token();
    browser.click(".card-back").await;
    browser.click("#sign-out").await;
    browser.click("#gone-link").await;
    browser.write("#token", &gateway).await;
    browser.click("#use-token").await;
    browser.says("#blank", "neither the scope read nor approve").await;
}

#[tokio::test]
async fn a_sign_in_survives_a_reload_and_another_origin_of_the_host_cannot_use_it() {
    let server = TestServer::asking().start().await;
    let other = TestServer::asking().start().await;
    let browser = or_skip!(Browser::start(Screen::DESK).await);
    sign_in(&server, &browser).await;
    browser.reload().await;
    browser.says("#link-text", "Live").await;
    // The same host on another port gets the cookie, which opens nothing there, and no second secret.
    browser.open(&format!("{}/", other.anonymous().base())).await;
    browser.shown("#by-token").await;
    let secret = browser.value("localStorage.getItem('countersign.csrf')").await;
    assert!(secret.is_null(), "{secret}");
    let sessions = eventually(
        "answered",
        || {
            browser.run(
                "return fetch('/auth/session').then((answer) => answer.status)",
                json!([]),
            )
        },
        serde_json::Value::is_number,
    )
    .await;
    assert_eq!(sessions, 401);
}
