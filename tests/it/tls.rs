//! The API inside TLS: who gets in, what is refused at start, and certificates that change while it serves.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::tls::TlsInfo;
use serde_json::{Value, json};

use crate::support::{
    Api, Authority, Invocation, Members, Pair, ServerBuilder, TestServer, assert_says, eventually, program,
    replace_file_mode, run_program, skip, within, write_file_mode,
};

const TLS: &str = "[tls]\ncert = \"tls/cert.pem\"\nkey = \"tls/key.pem\"\n";
const CLIENT_CA: &str = "client_ca = \"tls/clients.pem\"\n";

fn folder(server: &TestServer) -> PathBuf {
    server.state().join("countersign/tls")
}

/// Puts a pair in place as an administrator does with two copies.
fn put(folder: &Path, pair: &Pair) {
    write_file_mode(&folder.join("cert.pem"), &pair.cert, 0o644);
    write_file_mode(&folder.join("key.pem"), &pair.key, 0o600);
}

fn for_loopback(authority: &Authority) -> Pair {
    authority.server(&["localhost", "127.0.0.1"])
}

/// A server inside TLS, with the authority to trust.
async fn secured(builder: ServerBuilder) -> (TestServer, Authority) {
    let authority = Authority::new("servers");
    let mut server = builder.toml(TLS).prepare();
    put(&folder(&server), &for_loopback(&authority));
    server.start().await;
    (server, authority)
}

fn agent(server: &TestServer, authority: &Authority) -> Api {
    server.agent().by_way_of(authority.trusting().build().unwrap())
}

/// The certificate that a new connection gets.
async fn presented(server: &TestServer, authority: &Authority) -> Vec<u8> {
    let client = authority.trusting().build().unwrap();
    let url = format!("{}/healthz", server.operator().base());
    let response = within("an answer", client.get(url).send()).await.unwrap();
    let info = response.extensions().get::<TlsInfo>().unwrap();
    info.peer_certificate().unwrap().to_vec()
}

fn port(server: &TestServer) -> String {
    server
        .operator()
        .base()
        .strip_prefix("https://")
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn commands_are_run_over_https_and_everything_says_so() {
    let (server, authority) = secured(TestServer::full()).await;
    let base = server.operator().base().to_owned();
    assert!(base.starts_with("https://127.0.0.1:"), "{base}");
    assert!(
        !server.ready_line().contains("insecure"),
        "{}",
        server.ready_line()
    );
    let told = fs::read(server.state().join("countersign/server.json")).unwrap();
    let told: Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["url"], json!(base));

    let answer = agent(&server, &authority)
        .exec(json!({ "argv": ["/bin/echo", "inside"] }))
        .await;
    assert_eq!(answer.expect(200)["stdout"], "inside\n");

    let stranger = Authority::new("somebody else");
    let refused = Api::try_send(agent(&server, &stranger).request(reqwest::Method::GET, "/healthz")).await;
    assert!(refused.unwrap_err().is_connect());
}

#[tokio::test]
async fn the_command_line_verifies_the_server_and_says_how_to_trust_it() {
    let (server, authority) = secured(TestServer::full()).await;
    let url = server.operator().base().to_owned();
    let ca = server.scratch().join("ca.pem");
    write_file_mode(&ca, authority.pem(), 0o644);
    let wrong = server.scratch().join("wrong.pem");
    write_file_mode(&wrong, Authority::new("somebody else").pem(), 0o644);
    let exec = |url: &str| server.invocation(&["--url", url, "exec", "--", "/bin/echo", "trusted"]);

    let done = TestServer::finish(exec(&url).env("SSL_CERT_FILE", &ca)).await;
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "trusted\n"),
        "{done:?}"
    );

    let done = TestServer::finish(exec(&url).env("SSL_CERT_FILE", &wrong)).await;
    assert_eq!(done.code, Some(69), "{done:?}");
    assert!(done.stderr.contains("SSL_CERT_FILE"), "{done:?}");

    // A name that is not in the certificate; the token goes nowhere.
    let other = url.replace("127.0.0.1", "127.0.0.2");
    let token = server.gateway_token();
    let done = TestServer::finish(
        exec(&other)
            .env("SSL_CERT_FILE", &ca)
            .env("COUNTERSIGN_TOKEN", token),
    )
    .await;
    assert_ne!(done.code, Some(0), "{done:?}");

    // On its own machine the socket needs no certificate at all.
    let done = TestServer::finish(
        server
            .invocation(&["exec", "--", "/bin/echo", "socket"])
            .env("SSL_CERT_FILE", "/nonexistent"),
    )
    .await;
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "socket\n"),
        "{done:?}"
    );

    let plain = url.replace("https://", "http://");
    let done = TestServer::finish(exec(&plain).env("COUNTERSIGN_TOKEN", server.gateway_token())).await;
    assert_ne!(done.code, Some(0), "{done:?}");
}

/// Sends bytes to the port as they are and returns all that comes back.
fn send_plain(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn plain_http_on_the_tls_port_is_told_so_and_nothing_else() {
    let (server, _authority) = secured(TestServer::full()).await;
    let address = port(&server);
    let token = server.gateway_token();
    let request = format!(
        "POST /v1/exec HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\r\n"
    );
    let answers = tokio::task::spawn_blocking(move || {
        [
            request.as_bytes(),
            b"GET /healthz HTTP/1.1\r\n\r\n",
            b"\x00\x01garbage\r\n\r\n",
        ]
        .map(|bytes| send_plain(&address, bytes))
    });
    for answer in within("three answers", answers).await.unwrap() {
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "This port speaks HTTPS: use an https:// URL\n");
        assert_says(head, &format!("Content-Length: {}", body.len()));
    }
    assert!(server.operator().base().starts_with("https://"));
}

#[tokio::test]
async fn nothing_older_than_tls_1_2_is_spoken() {
    let (server, authority) = secured(TestServer::full()).await;
    let Some(openssl) = program("openssl") else {
        return skip("openssl is not installed");
    };
    let ca = server.scratch().join("ca.pem");
    write_file_mode(&ca, authority.pem(), 0o644);
    let address = port(&server);
    let speak = |version: &str| {
        let arguments = [
            "s_client",
            "-connect",
            &address,
            version,
            "-cipher",
            "DEFAULT@SECLEVEL=0",
        ];
        let more = ["-alpn", "http/1.1", "-verify_return_error", "-CAfile"];
        let invocation = Invocation::new(&openssl).args(&arguments).args(&more).arg(&ca);
        run_program(&invocation)
    };
    for good in ["-tls1_2", "-tls1_3"] {
        let done = speak(good);
        assert_eq!(done.code, Some(0), "{good}: {done:?}");
        assert!(
            done.stdout.contains("ALPN protocol: http/1.1"),
            "{good}: {done:?}"
        );
    }
    for old in ["-tls1_1", "-tls1"] {
        let done = speak(old);
        assert_ne!(done.code, Some(0), "{old}: {done:?}");
        // Turned away by the server, and not by the client's own taste.
        assert!(done.stderr.contains(" alert "), "{old}: {done:?}");
    }
}

/// The pairs lie in folders of their own, and a link says which of them counts: swapped in one step.
fn link_to(server: &TestServer, name: &str, pair: &Pair) {
    let target = server.state().join("countersign").join(name);
    put(&target, pair);
    let (link, temporary) = (folder(server), folder(server).with_extension("new"));
    symlink(&target, &temporary).unwrap();
    fs::rename(&temporary, &link).unwrap();
}

#[tokio::test]
async fn a_renewed_certificate_is_served_without_a_lost_request() {
    let authority = Authority::new("servers");
    let mut server = TestServer::full().toml(TLS).prepare();
    link_to(&server, "first", &for_loopback(&authority));
    server.start().await;

    let kept = agent(&server, &authority);
    kept.read("/healthz").await;
    let mut load = Vec::new();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    for _ in 0..4 {
        let (builder, url) = (authority.trusting(), format!("{}/healthz", kept.base()));
        // A new connection for each request.
        let client = builder.pool_max_idle_per_host(0).build().unwrap();
        let stopped = stopped.clone();
        load.push(tokio::spawn(async move {
            let mut answered = 0;
            while !*stopped.borrow() {
                let response = within("an answer", client.get(&url).send()).await.unwrap();
                assert_eq!(response.status(), 200);
                answered += 1;
            }
            answered
        }));
    }
    for renewal in 0..10 {
        let pair = for_loopback(&authority);
        link_to(&server, &format!("renewal-{renewal}"), &pair);
        let expect = pair.der();
        eventually(
            "the new certificate",
            || presented(&server, &authority),
            |seen| *seen == expect,
        )
        .await;
        // A connection that was there before goes on.
        kept.read("/healthz").await;
    }
    stop.send(true).unwrap();
    for task in load {
        assert!(task.await.unwrap() > 0);
    }
}

#[tokio::test]
async fn each_way_of_renewing_is_noticed() {
    let (server, authority) = secured(TestServer::full()).await;
    let folder = folder(&server);
    // Copied over in place.
    let pair = for_loopback(&authority);
    put(&folder, &pair);
    let expect = pair.der();
    eventually(
        "the copied one",
        || presented(&server, &authority),
        |seen| *seen == expect,
    )
    .await;
    // Renamed into place, the key first: for a moment the two do not belong together.
    let pair = for_loopback(&authority);
    for (name, content) in [("key.pem", &pair.key), ("cert.pem", &pair.cert)] {
        replace_file_mode(&folder.join(name), content, 0o600);
        presented(&server, &authority).await;
    }
    let expect = pair.der();
    eventually(
        "the renamed one",
        || presented(&server, &authority),
        |seen| *seen == expect,
    )
    .await;
}

#[tokio::test]
async fn a_broken_renewal_leaves_the_last_good_pair_and_is_told_once() {
    let (server, authority) = secured(TestServer::full()).await;
    let good = presented(&server, &authority).await;
    let other = for_loopback(&authority);
    replace_file_mode(
        &folder(&server).join("cert.pem"),
        "-----BEGIN NOTHING-----\n",
        0o644,
    );
    for _ in 0..5 {
        assert_eq!(presented(&server, &authority).await, good);
    }
    // The log is written aside.
    let told = async |times: usize| {
        let count = async || server.log().matches("the last good ones stay in use").count();
        eventually("told", count, |count| *count == times).await
    };
    told(1).await;
    let found = server.cli(&["doctor", "--json"]).await;
    assert!(found.stdout.contains("tls-files-refused"), "{found:?}");
    // Somebody else's key is no better.
    replace_file_mode(&folder(&server).join("cert.pem"), &other.cert, 0o644);
    assert_eq!(presented(&server, &authority).await, good);
    told(2).await;
    // Nor is one that everybody may read.
    replace_file_mode(&folder(&server).join("key.pem"), &other.key, 0o644);
    assert_eq!(presented(&server, &authority).await, good);
    fs::set_permissions(folder(&server).join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
    let expect = other.der();
    eventually(
        "the mended pair",
        || presented(&server, &authority),
        |seen| *seen == expect,
    )
    .await;
    let found = server.cli(&["doctor", "--json"]).await;
    assert!(!found.stdout.contains("tls-files-refused"), "{found:?}");
    assert!(!server.log().contains("PRIVATE KEY"), "{}", server.log());
}

#[tokio::test]
async fn client_certificates_are_asked_for_on_the_port_and_followed_on_disk() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let mut server = TestServer::full().toml(&format!("{TLS}{CLIENT_CA}")).prepare();
    put(&folder(&server), &for_loopback(&servers));
    let client_ca = folder(&server).join("clients.pem");
    write_file_mode(&client_ca, clients.pem(), 0o644);
    server.start().await;

    let ask = async |identity: Option<&Pair>| {
        let builder = match identity {
            Some(pair) => servers.trusting().identity(pair.identity()),
            None => servers.trusting(),
        };
        let api = server.operator().by_way_of(builder.build().unwrap());
        let asked = api.request(reqwest::Method::GET, "/v1/runs");
        within("an answer or none", Api::try_send(asked))
            .await
            .map(|answer| answer.status)
            .ok()
    };
    let known = clients.client("gateway");
    assert_eq!(ask(None).await, None, "without a certificate");
    assert_eq!(ask(Some(&known)).await, Some(200));
    let forged = Authority::new("clients").client("gateway");
    assert_eq!(
        ask(Some(&forged)).await,
        None,
        "of an authority with the same name"
    );
    assert_eq!(
        ask(Some(&servers.client("gateway"))).await,
        None,
        "of another authority"
    );
    assert_eq!(
        ask(Some(&clients.server(&["gateway"]))).await,
        None,
        "for servers"
    );

    // The socket is ours alone already.
    let done = server.cli(&["exec", "--", "/bin/echo", "local"]).await;
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "local\n"),
        "{done:?}"
    );

    let next = Authority::new("clients");
    write_file_mode(&client_ca, next.pem(), 0o644);
    let newcomer = next.client("gateway");
    eventually(
        "the new authority",
        || ask(Some(&newcomer)),
        |status| *status == Some(200),
    )
    .await;
    assert_eq!(ask(Some(&known)).await, None, "of the old authority");
}

/// Starts a server that must refuse these files, and returns what it said.
async fn refused(toml: &str, cert: &str, key: &str, key_mode: u32) -> String {
    let server = TestServer::full().toml(toml).prepare();
    write_file_mode(&folder(&server).join("cert.pem"), cert, 0o644);
    write_file_mode(&folder(&server).join("key.pem"), key, key_mode);
    assert_eq!(server.start_fails().await, Some(78), "{}", server.log());
    server.log()
}

#[tokio::test]
async fn files_that_cannot_be_used_end_the_start() {
    let authority = Authority::new("servers");
    let (one, other) = (for_loopback(&authority), for_loopback(&authority));
    let cases = [
        (
            one.cert.as_str(),
            other.key.as_str(),
            0o600,
            "[tls] cert and key: ",
        ),
        (
            one.cert.as_str(),
            one.key.as_str(),
            0o604,
            "[tls] key: every account may read",
        ),
        (one.cert.as_str(), one.cert.as_str(), 0o600, "[tls] key: "),
        ("", one.key.as_str(), 0o600, "holds no certificate"),
        (
            "nothing of the kind",
            one.key.as_str(),
            0o600,
            "holds no certificate",
        ),
        (
            one.cert.as_str(),
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            0o600,
            "without a passphrase",
        ),
    ];
    for (cert, key, mode, expect) in cases {
        let said = refused(TLS, cert, key, mode).await;
        assert!(
            said.contains("error[tls]: ") && said.contains(expect),
            "{expect}: {said}"
        );
        assert!(!said.contains("AAAA"), "{said}");
    }
    let said = refused("[tls]\ncert = \"tls/cert.pem\"\n", &one.cert, &one.key, 0o600).await;
    assert!(said.contains("tls.cert: does nothing without tls.key"), "{said}");
    let said = refused(&format!("{TLS}{CLIENT_CA}"), &one.cert, &one.key, 0o600).await;
    assert_says(&said, "[tls] client_ca: ");
    assert_says(&said, "cannot be read");
}

#[tokio::test]
async fn an_open_address_is_served_inside_tls_or_with_consent_only() {
    let listen = |builder: ServerBuilder| {
        builder
            .without_listen()
            .argument("--listen")
            .argument("0.0.0.0:0")
    };
    let server = listen(TestServer::full()).prepare();
    assert_eq!(server.start_fails().await, Some(78));
    let said = server.log();
    assert_says(&said, "[tls] cert and key");
    assert_says(&said, "--insecure-bind");
    assert_eq!(
        said.lines().filter(|line| line.starts_with("error")).count(),
        1,
        "{said}"
    );

    let (server, _authority) = secured(listen(TestServer::full())).await;
    assert_says(server.ready_line(), "https://0.0.0.0:");
    assert!(
        !server.ready_line().contains("insecure-bind"),
        "{}",
        server.ready_line()
    );
    let found = server.cli(&["doctor", "--json"]).await;
    assert!(!found.stdout.contains("listens-to-everybody"), "{found:?}");

    let server = listen(TestServer::full())
        .argument("--insecure-bind")
        .start()
        .await;
    assert!(
        server.ready_line().ends_with(" insecure-bind"),
        "{}",
        server.ready_line()
    );
}

#[tokio::test]
async fn a_page_that_came_without_tls_cannot_sign_a_browser_in() {
    let (server, authority) = secured(TestServer::full()).await;
    let browser = server
        .anonymous()
        .by_way_of(authority.trusting().build().unwrap());
    let login = |scheme: &str| {
        let origin = format!("{scheme}://{}", port(&server));
        let request = browser.request(reqwest::Method::POST, "/auth/login");
        let shown = json!({ "token": server.operator_token() });
        browser.send(request.header("Origin", origin).json(&shown))
    };
    // Whoever is on the way can answer for the address without TLS.
    login("http").await.problem(403, "forbidden");
    let signed_in = login("https").await;
    signed_in.expect(200);
    let cookie = signed_in.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let with_cookie = |scheme: &str| {
        let request = browser.request(reqwest::Method::GET, "/v1/approvals");
        let request = request
            .header("Cookie", cookie)
            .header("X-CSRF-Token", signed_in.json().text("csrfToken"));
        browser.send(request.header("Origin", format!("{scheme}://{}", port(&server))))
    };
    with_cookie("http").await.problem(403, "forbidden");
    with_cookie("https").await.expect(200);
}
