use reqwest::Method;

use serde_json::json;

use super::id;
use crate::support::{Answer, TestServer};

const FILES: [(&str, &str); 4] = [
    ("/assets/app.js", "text/javascript; charset=utf-8"),
    ("/assets/page.css", "text/css; charset=utf-8"),
    ("/assets/icon.svg", "image/svg+xml"),
    ("/login", "text/html; charset=utf-8"),
];

#[tokio::test]
async fn files_are_embedded_typed_and_asked_for_again_only_when_they_change() {
    let server = TestServer::asking().start().await;
    for (path, media_type) in FILES {
        let file = server.anonymous().get(path).await;
        assert_eq!(file.status, 200, "{path}");
        assert_eq!(file.header("content-type"), Some(media_type), "{path}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"), "{path}");
        is_protected(&file, path);
        let Some(tag) = file.header("etag") else {
            assert_eq!(file.header("cache-control"), Some("no-store"), "{path}");
            continue;
        };
        assert_eq!(file.header("cache-control"), Some("no-cache"), "{path}");
        let anybody = server.anonymous();
        let known = async |tag: &str| {
            let request = anybody.request(Method::GET, path);
            anybody.send(request.header("If-None-Match", tag)).await
        };
        let unchanged = known(tag).await;
        assert_eq!((unchanged.status, unchanged.bytes.len()), (304, 0), "{path}");
        assert_eq!(unchanged.header("etag"), Some(tag), "{path}");
        assert_eq!(known("\"other\"").await.status, 200, "{path}");
    }
}

fn is_protected(answer: &Answer, path: &str) {
    let policy = answer.header("content-security-policy").unwrap_or_default();
    assert!(
        policy.contains("default-src 'none'")
            && policy.contains("require-trusted-types-for 'script'")
            && !policy.contains("unsafe"),
        "{path}: {policy}"
    );
    assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{path}");
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
}

#[tokio::test]
async fn nothing_but_the_page_lies_under_assets() {
    let server = TestServer::asking().start().await;
    for path in [
        "/assets/",
        "/assets/nothing.js",
        "/assets/index.html",
        "/assets/..%2findex.html",
        "/assets/%2e%2e/index.html",
        "/assets/app.js%00",
        "/assets/%2fetc%2fpasswd",
        "/assets/APP.JS",
        "/assets/%ff",
    ] {
        server.anonymous().get(path).await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn whoever_is_not_signed_in_is_sent_to_the_sign_in() {
    let server = TestServer::asking().start().await;
    let approval = id(&super::ask(&server, &["/bin/date"]).await, "approvalId");
    for (path, place) in [
        ("/".to_owned(), "/login".to_owned()),
        (format!("/a/{approval}"), format!("/login?next=/a/{approval}")),
        (
            "/a/nothing-of-that-name".to_owned(),
            "/login?next=/a/nothing-of-that-name".to_owned(),
        ),
    ] {
        let answer = server.anonymous().get(&path).await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (303, Some(place.as_str())),
            "{path}"
        );
        // A token opens the API; pages are for browsers.
        let with_token = server.operator().get(&path).await;
        assert_eq!(with_token.status, 303, "{path}");
    }
    for path in [
        "/a/",
        "/a/A",
        "/a/x.y",
        "/a/%2f%2fevil.example",
        "/a/x%0d%0aSet-Cookie:y=z",
        "/a/x/y",
        "/a/%ff",
    ] {
        server.anonymous().get(path).await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn the_cookie_alone_is_enough_for_the_page_which_tells_nothing() {
    let server = TestServer::asking().start().await;
    super::ask(&server, &["/bin/echo", "very-secret-argument"]).await;
    let link = super::link(&server).await;
    let code = link.split_once("#code=").expect("a code").1;
    let signed_in = server
        .anonymous()
        .post("/auth/login", json!({ "code": code }))
        .await;
    signed_in.expect(200);
    let cookie = signed_in.header("set-cookie").expect("a cookie");
    let cookie = cookie.split(';').next().expect("a value").to_owned();
    let anybody = server.anonymous();
    let with_cookie = async |path: &str| {
        let request = anybody.request(Method::GET, path).header("Cookie", &cookie);
        anybody.send(request).await
    };
    let page = with_cookie("/").await;
    assert_eq!(page.status, 200);
    is_protected(&page, "/");
    assert!(!page.text().contains("very-secret-argument"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    with_cookie("/v1/approvals").await.problem(403, "forbidden");
}

#[tokio::test]
async fn files_are_compressed_for_those_who_take_that_and_both_forms_have_tags_of_their_own() {
    let server = TestServer::asking().start().await;
    let anybody = server.anonymous();
    let asked = async |encodings: &str, tag: &str| {
        let request = anybody.request(Method::GET, "/assets/app.js");
        let request = request.header("Accept-Encoding", encodings);
        anybody.send(request.header("If-None-Match", tag)).await
    };
    let plain = asked("identity", "\"none\"").await;
    let packed = asked("br, gzip;q=0.8", "\"none\"").await;
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.bytes.starts_with(&[0x1f, 0x8b]));
    assert!(packed.bytes.len() * 3 < plain.bytes.len());
    for answer in [&plain, &packed] {
        assert_eq!(answer.header("vary"), Some("accept-encoding"));
        is_protected(answer, "/assets/app.js");
    }
    let (plain, packed) = (plain.header("etag"), packed.header("etag"));
    assert_ne!(plain, packed);
    let (plain, packed) = (plain.expect("a tag"), packed.expect("a tag"));
    for (encodings, tag, status) in [
        ("gzip", packed, 304),
        ("gzip", plain, 200),
        ("gzip;q=0", plain, 304),
        ("gzip;q=0", packed, 200),
    ] {
        let answer = asked(encodings, tag).await;
        assert_eq!(answer.status, status, "{encodings} {tag}");
    }
}
