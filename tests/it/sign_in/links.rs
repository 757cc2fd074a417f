//! Signing in, by a one-time link or a token.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::browser::{Browser, code, code_of, set_cookie};
use crate::support::{Members, TestServer, only};

#[tokio::test]
async fn a_link_signs_one_browser_in_with_the_rights_of_the_operator() {
    let server = TestServer::asking().start().await;
    let made = server.operator().post("/v1/login-links", json!({})).await;
    let link = made.expect(201);
    let url = link.text("url");
    let base = server.operator().base().to_owned();
    assert!(url.starts_with(&format!("{base}/login#code=")), "{url}");
    assert!(link["expiresAtMs"].is_i64());

    let body = json!({ "code": code_of(url) });
    let answer = server.anonymous().post("/auth/login", body.clone()).await;
    let (_cookie, attributes) = set_cookie(&answer.headers);
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Strict; Max-Age=43200");
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let browser = Browser::of(server.anonymous(), &answer);
    assert_has!(browser.login, { "name": "operator", "scopes": ["read", "approve", "admin"] });
    // The second secret is shown once.
    assert_eq!(
        browser.session().await.expect(200),
        only(&browser.login, &["name", "scopes", "expiresAtMs"]),
    );
    browser.get("/v1/approvals").await.expect(200);
    browser.get("/v1/tokens").await.expect(200);

    let again = server.anonymous().post("/auth/login", body).await;
    again.problem(401, "unauthorized");
    assert!(!again.headers.contains_key("set-cookie"));
}

#[tokio::test]
async fn of_twenty_who_show_the_same_code_one_is_signed_in() {
    let server = TestServer::full().start().await;
    let body = json!({ "code": code(&server).await });
    let api = server.anonymous();
    let answers = join_all((0..20).map(|_| api.post("/auth/login", body.clone()))).await;
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses[0], 200, "{statuses:?}");
    // Who guesses ten times a minute gets 429.
    assert!(
        statuses[1..].iter().all(|status| matches!(status, 401 | 429)),
        "{statuses:?}"
    );
}

#[tokio::test]
async fn looking_at_a_link_does_not_use_it_up() {
    let server = TestServer::full().start().await;
    let code = code(&server).await;
    let api = server.anonymous();
    for (method, path) in [
        (Method::GET, format!("/auth/login?code={code}")),
        (Method::HEAD, format!("/auth/login?code={code}")),
        (Method::OPTIONS, "/auth/login".to_owned()),
        (Method::GET, format!("/login?code={code}")),
    ] {
        let answer = api.send(api.request(method.clone(), &path)).await;
        assert!(!answer.headers.contains_key("set-cookie"), "{method} {path}");
    }
    api.posted("/auth/login", json!({ "code": code })).await;
}

#[tokio::test]
async fn a_token_signs_in_with_its_own_rights() {
    let server = TestServer::full().start().await;
    let reader = json!({ "name": "phone", "scopes": ["read", "approve"] });
    let token = server.operator().made("/v1/tokens", reader).await;
    let browser = Browser::by_token(&server, token.text("secret")).await;
    assert_has!(browser.login, { "name": "phone", "scopes": ["read", "approve"] });
    browser.get("/v1/runs").await.expect(200);
    let problem = browser.get("/v1/tokens").await.problem(403, "forbidden");
    assert_eq!(problem["requiredScope"], "admin");
}

#[tokio::test]
async fn a_session_ends_with_the_token_that_it_stands_for() {
    let server = TestServer::full().start().await;
    let in_an_hour = 3_600_000;
    let now = server.operator().made("/v1/login-links", json!({})).await["expiresAtMs"]
        .as_i64()
        .unwrap();
    let request = json!({ "name": "short", "scopes": ["read"], "expiresAtMs": now + in_an_hour });
    let token = server.operator().made("/v1/tokens", request).await;
    let browser = Browser::by_token(&server, token.text("secret")).await;
    assert_eq!(browser.login["expiresAtMs"], token["expiresAtMs"]);

    let path = format!("/v1/tokens/{}", token.text("id"));
    server.operator().removed(&path).await;
    browser.session().await.problem(401, "unauthorized");
    browser.get("/v1/runs").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_link_dies_with_the_token_that_asked_for_it() {
    let server = TestServer::full().start().await;
    let (id, admin) = server
        .token_with(json!({ "name": "stolen", "scopes": ["admin"] }))
        .await;
    let link = admin.made("/v1/login-links", json!({})).await;
    let code = code_of(link.text("url"));
    server.operator().removed(&format!("/v1/tokens/{id}")).await;
    let answer = server
        .anonymous()
        .post("/auth/login", json!({ "code": code }))
        .await;
    answer.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_link_is_for_the_token_of_the_operator_and_needs_it() {
    let server = TestServer::full().start().await;
    let browser = Browser::by_link(&server).await;
    let code = code(&server).await;
    let (_, admin) = server
        .token_with(json!({ "name": "other", "scopes": ["admin"] }))
        .await;
    let tokens = admin.read("/v1/tokens").await["items"].clone();
    let operator = tokens
        .as_array()
        .unwrap()
        .iter()
        .find(|token| token["name"] == "operator");
    let path = format!("/v1/tokens/{}", operator.unwrap().text("id"));
    admin.removed(&path).await;

    browser.session().await.problem(401, "unauthorized");
    let answer = server
        .anonymous()
        .post("/auth/login", json!({ "code": code }))
        .await;
    answer.problem(401, "unauthorized");
    admin
        .post("/v1/login-links", json!({}))
        .await
        .problem(403, "forbidden");
}

#[tokio::test]
async fn links_are_made_by_admins_alone() {
    let server = TestServer::full().start().await;
    let post = async |api: crate::support::Api| api.post("/v1/login-links", json!({})).await;
    post(server.anonymous()).await.problem(401, "unauthorized");
    post(server.agent()).await.problem(403, "forbidden");
    let (_, approver) = server
        .token_with(json!({ "name": "a", "scopes": ["read", "approve"] }))
        .await;
    post(approver).await.problem(403, "forbidden");
    let strange = server
        .operator()
        .post("/v1/login-links", json!({ "ttl": 1 }))
        .await;
    strange.problem(400, "invalid-request");
}

#[tokio::test]
async fn a_login_shows_exactly_one_of_code_and_token() {
    let server = TestServer::full().start().await;
    let token = server.operator_token();
    for body in [
        json!({}),
        json!({ "code": "csl_x", "token": token }),
        json!({ "code": null }),
        json!({ "code": 7 }),
        json!({ "token": [token] }),
        json!({ "token": token, "name": "x" }),
        json!([]),
        Value::Null,
    ] {
        let answer = server.anonymous().post("/auth/login", body.clone()).await;
        answer.problem(400, "invalid-request");
        assert!(!answer.headers.contains_key("set-cookie"), "{body}");
    }
    let api = server.anonymous();
    let form = api
        .request(Method::POST, "/auth/login")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("token={token}"));
    api.send(form).await.problem(415, "unsupported-media-type");
}

#[tokio::test]
async fn wrong_codes_and_tokens_are_counted_and_recorded_but_right_ones_pass() {
    let server = TestServer::full().start().await;
    let api = server.anonymous();
    let wrong = "A".repeat(43);
    for attempt in 0..10 {
        let body = if attempt % 2 == 0 {
            json!({ "code": format!("csl_{wrong}") })
        } else {
            json!({ "token": format!("cst_{wrong}") })
        };
        api.post("/auth/login", body).await.problem(401, "unauthorized");
    }
    for _ in 0..3 {
        let answer = api.post("/auth/login", json!({ "code": "nonsense" })).await;
        answer.problem(429, "rate-limited");
        assert!(answer.header("retry-after").is_some());
        assert_eq!(
            answer.header("ratelimit-policy"),
            Some("\"credentials\";q=10;w=60")
        );
    }
    Browser::by_token(&server, &server.operator_token()).await;

    let failed = server.operator().read("/v1/audit?action=login.failed").await;
    let failed = failed.list("items").clone();
    assert_eq!(failed.len(), 10, "those that got 429 fill no record");
    assert_has!(failed[0], { "outcome": "denied", "target": { "kind": "server", "id": "countersign" } });
    assert_eq!(failed[0]["actor"]["address"], "127.0.0.1");
    let logins = server.operator().read("/v1/audit?action=login").await;
    let login = &logins["items"][0];
    assert_eq!(login["actor"]["kind"], "session");
    assert_eq!(login["actor"]["id"], login["target"]["id"]);
    assert_eq!(login["detail"]["by"], "token");
    let verified = server.operator().read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true);
}

#[tokio::test]
async fn links_and_sessions_outlive_a_crash() {
    let mut server = TestServer::full().start().await;
    let mut browser = Browser::by_link(&server).await;
    let code = code(&server).await;
    let used = code_of(
        server
            .operator()
            .made("/v1/login-links", json!({}))
            .await
            .text("url"),
    );
    server
        .anonymous()
        .posted("/auth/login", json!({ "code": used }))
        .await;
    server.crash_and_restart().await;
    browser.api = server.anonymous();
    browser.session().await.expect(200);
    let api = server.anonymous();
    api.post("/auth/login", json!({ "code": used }))
        .await
        .problem(401, "unauthorized");
    api.posted("/auth/login", json!({ "code": code })).await;
}

#[tokio::test]
async fn no_secret_of_a_sign_in_is_kept_or_logged() {
    let server = TestServer::full()
        .toml("[telemetry]\nlog_filter = \"trace\"\n")
        .start()
        .await;
    let code = code(&server).await;
    let answer = server
        .anonymous()
        .post("/auth/login", json!({ "code": code }))
        .await;
    let browser = Browser::of(server.anonymous(), &answer);
    browser.session().await.expect(200);
    browser.get("/v1/events?types=exec").await;
    let mut kept = server.log().into_bytes();
    for name in ["countersign.db", "countersign.db-wal"] {
        kept.extend(std::fs::read(server.state().join("countersign").join(name)).unwrap_or_default());
    }
    for secret in [&code, &browser.cookie, &browser.csrf] {
        let found = kept
            .windows(secret.len())
            .any(|window| window == secret.as_bytes());
        assert!(!found, "{}…", &secret[..4]);
    }
}

#[tokio::test]
async fn behind_a_public_url_links_and_cookies_are_for_it() {
    let server = TestServer::full()
        .toml("[http]\npublic_url = \"https://gate.example/\"\n")
        .start()
        .await;
    let link = server.operator().made("/v1/login-links", json!({})).await;
    let url = link.text("url");
    assert!(url.starts_with("https://gate.example/login#code=csl_"), "{url}");
    let answer = server
        .anonymous()
        .post("/auth/login", json!({ "code": code_of(url) }))
        .await;
    let (_cookie, attributes) = set_cookie(&answer.headers);
    assert_eq!(
        attributes,
        "Path=/; HttpOnly; SameSite=Strict; Secure; Max-Age=43200"
    );
    let browser = Browser::of(server.anonymous(), &answer);
    let of_public = browser
        .cookie_only(Method::GET, "/auth/session")
        .header("origin", "https://gate.example")
        .header("x-csrf-token", &browser.csrf);
    browser.api.send(of_public).await.expect(200);
}

#[tokio::test]
async fn a_link_for_a_person_has_their_name_and_no_more_than_their_scopes() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let link = operator
        .made("/v1/login-links", json!({ "name": "ann", "ttlMs": 60_000 }))
        .await;
    assert_has!(link, { "token/name": "ann", "token/scopes": ["read", "approve"] });
    let browser = Browser::by_url(&server, link.text("url")).await;
    assert_has!(browser.session().await.expect(200), { "name": "ann", "scopes": ["read", "approve"] });
    // The record says who answered.
    let asked = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let path = format!("/v1/approvals/{}/decision", asked.text("approvalId"));
    browser
        .post(&path, json!({ "decision": "deny" }))
        .await
        .expect(200);
    let run = server
        .agent()
        .read(&format!("/v1/runs/{}", asked.text("runId")))
        .await;
    assert_has!(run, { "decidedBy/name": "ann" });
    browser.get("/v1/tokens").await.problem(403, "forbidden");
    browser
        .post("/v1/login-links", json!({}))
        .await
        .problem(403, "forbidden");

    // It is listed, and signed out by a part of its id.
    let listed = operator.read("/v1/sign-ins").await;
    assert_has!(listed, { "items/0/name": "ann", "items/0/tokenId": link["token"]["id"] });
    let id = listed["items"][0].text("id").to_owned();
    operator
        .removed(&format!("/v1/sign-ins/{}", &id[id.len() - 8..]))
        .await;
    assert_eq!(browser.get("/v1/approvals").await.status, 401);
    assert_eq!(operator.read("/v1/sign-ins").await["items"], json!([]));
    operator
        .delete(&format!("/v1/sign-ins/{id}"))
        .await
        .problem(404, "not-found");
    let audit = operator.read("/v1/audit?action=login.revoked").await;
    assert_has!(audit, { "items/0/target/id": id, "items/0/actor/name": "operator" });
}

#[tokio::test]
async fn a_link_for_a_person_ends_with_their_token_and_with_who_made_it() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    let link = operator.made("/v1/login-links", json!({ "name": "ann" })).await;
    let token = link["token"].text("id").to_owned();
    operator.removed(&format!("/v1/tokens/{token}")).await;
    let api = server.anonymous();
    let refused = api
        .post("/auth/login", json!({ "code": code_of(link.text("url")) }))
        .await;
    refused.problem(401, "unauthorized");
    let (id, admin) = server
        .token_with(json!({ "name": "other", "scopes": ["admin"] }))
        .await;
    let link = admin
        .made("/v1/login-links", json!({ "name": "bea", "scopes": ["read"] }))
        .await;
    operator.removed(&format!("/v1/tokens/{id}")).await;
    let refused = api
        .post("/auth/login", json!({ "code": code_of(link.text("url")) }))
        .await;
    refused.problem(401, "unauthorized");
}

#[tokio::test]
async fn what_no_link_can_be_is_refused() {
    let server = TestServer::full().start().await;
    for (body, member) in [
        (json!({ "scopes": ["read"] }), "scopes"),
        (json!({ "name": "" }), "name"),
        (json!({ "name": "a", "scopes": [] }), "scopes"),
        (json!({ "name": "a", "ttlMs": 1 }), "ttlMs"),
        (json!({ "name": "a", "ttlMs": 86_400_001 }), "ttlMs"),
        (json!({ "name": null }), "name"),
    ] {
        let refused = server.operator().post("/v1/login-links", body).await;
        assert!(
            refused
                .problem(400, "invalid-request")
                .to_string()
                .contains(member)
        );
    }
    let both = json!({ "name": "a", "scopes": ["exec", "approve"] });
    let refused = server.operator().post("/v1/login-links", both).await;
    refused.problem(422, "scope-conflict");
}

#[tokio::test]
async fn a_link_takes_no_name_that_people_cannot_tell_apart() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let link = async |name: &str| operator.post("/v1/login-links", json!({ "name": name })).await;
    for unseen in [
        "an\u{200b}n",
        "\u{202e}nna",
        "ann\u{7}",
        "ann\u{feff}",
        " \t",
        "an\u{ad}n",
    ] {
        let refused = link(unseen).await.problem(400, "invalid-request");
        assert_eq!(refused["fields"][0]["path"], "name", "{unseen:?}");
    }
    for taken in ["operator", "Operator", "gateway", " operator"] {
        let refused = link(taken).await.problem(400, "invalid-request");
        assert_eq!(refused["fields"][0]["path"], "name", "{taken}");
    }
    // The harmless twins: other scripts, and the same person again.
    for name in ["ann", "Ren\u{e9}e", "\u{5d0}\u{5e0}\u{5d4}", "ann"] {
        link(name).await.expect(201);
    }
    // Of another owner, the name is taken.
    let other = server.token_of("other", &["admin"]).await;
    let refused = other.post("/v1/login-links", json!({ "name": "ANN" })).await;
    refused.problem(400, "invalid-request");
    let told = server
        .cli(&["login-link", "--as", "rita", "--scope", "exec"])
        .await;
    told.complains("as rita, with the scopes exec");
}
