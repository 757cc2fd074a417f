//! How a node connects, and what it does when it is refused or hears nothing.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
    sync::Arc,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use sha2::Digest as _;
use tokio::io::AsyncReadExt as _;
use tokio_rustls::TlsAcceptor;

use super::{
    gateway::{Gateway, SHARED},
    scene::TestNode,
};
use crate::{
    events::unread_pipe,
    support::{Authority, Members, Pair, countersign, pid_of, soon, terminate, write_file_mode},
};

const MISMATCH: &str = "unauthorized: gateway token mismatch (provide gateway auth token)";

fn pairing() -> Value {
    json!({"code": "NOT_PAIRED", "message": "pairing required: device is not approved yet",
        "details": {"code": "PAIRING_REQUIRED", "reason": "not-paired", "requestId": "req-1",
            "recommendedNextStep": "wait_then_retry", "pauseReconnect": false}})
}

/// Neither of its standard streams is read, and one has no room at all.
#[tokio::test]
async fn notes_that_nobody_reads_hold_nothing_up() {
    for format in [&[][..], &["--json"]] {
        let gateway = Gateway::new().await;
        let node = TestNode::open();
        let (path, _pipe) = unread_pipe(&node.scratch);
        let full = || {
            let flags = rustix::fs::OFlags::WRONLY;
            let end = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).expect("an end");
            Stdio::from(end)
        };
        let port = gateway.port.to_string();
        let words = [format, &["node", "run", "--host", "127.0.0.1", "--port", &port]].concat();
        let mut child = node.invocation(&words).start_logged(full(), full());
        // It has never seen a gateway: what is said before it is let in is not read, either.
        for _ in 0..2 {
            let mut peer = gateway.accept().await;
            let connect = peer.challenged().await;
            peer.refuse(&connect, &pairing(), 1008).await;
        }
        drop(gateway.welcome().await);
        // Then it is a node, and says that it is connected.
        let peer = gateway.welcome().await;
        terminate(pid_of(&child));
        let ended = soon("its end", || child.try_wait().expect("a child"), Option::is_some).await;
        assert_eq!(ended.and_then(|status| status.code()), Some(0));
        drop(peer);
    }
}

/// What a node says that a person started by hand.
async fn by_hand(
    node: &TestNode,
    gateway: &Gateway,
    more: &[&str],
) -> tokio::task::JoinHandle<(Option<i32>, String)> {
    let port = gateway.port.to_string();
    let words = [&["node", "run", "--host", "127.0.0.1", "--port", &port], more].concat();
    let invocation = node.invocation(&words);
    tokio::task::spawn_blocking(move || {
        let done = crate::support::run_program(&invocation);
        (done.code, done.stderr)
    })
}

#[tokio::test]
async fn a_node_ends_where_the_gateway_does_not_know_its_token() {
    let error =
        json!({"code": "INVALID_REQUEST", "message": MISMATCH, "details": {"code": "AUTH_TOKEN_MISMATCH"}});
    // One that has seen no gateway before, and one that is paired and was revoked.
    for is_paired in [false, true] {
        let gateway = Gateway::new().await;
        let mut node = TestNode::open();
        if is_paired {
            let peer = node.connected(&gateway).await;
            drop(peer);
            node.kill().await;
        }
        let node_ended = by_hand(&node, &gateway, &[]).await;
        // A connection that breaks ends nothing.
        drop(gateway.accept_raw().await);
        // That of its own, and then the shared one.
        for _ in 0..=usize::from(is_paired) {
            let mut peer = gateway.accept().await;
            let connect = peer.challenged().await;
            peer.refuse(&connect, &error, 1008).await;
        }
        let (code, said) = node_ended.await.expect("an end");
        assert_eq!(code, Some(77), "{said}");
        assert!(said.contains("error[unauthorized]: "), "{said}");
        assert!(
            said.contains("note: the node ends; countersign node run --retry goes on trying"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_node_says_what_gateways_of_the_present_generation_want() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open().argument("--display-name").argument("box one");
    node.start(&gateway);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    let params = &connect["params"];
    assert_has!(params, { "minProtocol": 4, "maxProtocol": 4 });
    let client = &params["client"];
    assert_has!(client, {
        "id": "node-host", "mode": "node", "platform": "linux", "deviceFamily": "Linux",
        "displayName": "box one",
    });
    assert_has!(params, { "role": "node", "scopes": [], "caps": ["system"] });
    assert_eq!(
        params["commands"],
        json!([
            "system.run",
            "system.run.prepare",
            "system.which",
            "system.execApprovals.get",
            "system.execApprovals.set",
            "countersign.run.status"
        ])
    );
    assert_eq!(params["auth"], json!({"token": SHARED}));
    // The gateway's own time is signed where it says it.
    assert_eq!(params["device"]["signedAt"], 1_795_000_000_000_i64);
    assert_eq!(params["device"]["id"], node.id());
    assert_ne!(client["instanceId"], params["device"]["id"]);
    peer.hello(&connect, &json!({})).await;
    let line = node.line("connected").await;
    assert_has!(line, { "version": "test", "protocol": 4 });
    // The challenge was years away from this machine's time.
    assert_eq!(
        fs::metadata(node.state().join("identity/device.json"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let tokens: Value =
        serde_json::from_str(&fs::read_to_string(node.state().join("identity/device-auth.json")).unwrap())
            .unwrap();
    assert_eq!(
        tokens.pointer("/tokens/node/token"),
        Some(&json!("device-token-of-the-test"))
    );
    let file: Value =
        serde_json::from_str(&fs::read_to_string(node.state().join("node.json")).unwrap()).unwrap();
    assert_has!(file, {
        "version": 1, "displayName": "box one", "gateway/port": gateway.port,
        "nodeId": client["instanceId"],
    });
}

#[tokio::test]
async fn a_gateway_of_the_first_generation_is_met_with_its_protocol() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    node.start(&gateway);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged_at(None).await;
    let error = json!({"code": "INVALID_REQUEST", "message": "protocol mismatch", "details": {"expectedProtocol": 3}});
    peer.refuse(&connect, &error, 1002).await;
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    let params = &connect["params"];
    assert_has!(params, { "minProtocol": 3, "maxProtocol": 3 });
    peer.hello(&connect, &json!({"protocol": 3})).await;
    node.line("connected").await;
    drop(peer);
    // Its own token goes where that generation looks for it.
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    assert_eq!(connect["params"]["minProtocol"], 3);
    assert_has!(connect, { "params/auth": {"token": "device-token-of-the-test"} });
    peer.hello(&connect, &json!({"protocol": 3})).await;
    // And so do its words: the first generation knows one code for refusals.
    let params = json!({"command": ["x"], "needsScreenRecording": true});
    peer.invoke(&node.id(), "c", "system.run", &params).await;
    assert_eq!(peer.result("c").await.failed().0, "UNAVAILABLE");
}

#[tokio::test]
async fn a_node_that_is_not_paired_waits_and_says_for_what() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    node.start(&gateway);
    for round in 0..2 {
        let mut peer = gateway.accept().await;
        let connect = peer.challenged().await;
        assert_eq!(connect["params"]["auth"], json!({"token": SHARED}));
        peer.refuse(&connect, &pairing(), 1008).await;
        if round == 0 {
            let line = node.line("pairing").await;
            assert_eq!(line["requestId"], "req-1");
        }
    }
    let _peer = gateway.welcome().await;
    // It was said once.
    let line = node.line("connected").await;
    assert_eq!(line["protocol"], 4);
}

#[tokio::test]
async fn a_paired_node_comes_with_its_own_token_and_falls_back_to_the_shared_one_once() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let peer = node.connected(&gateway).await;
    drop(peer);
    let own = json!({"deviceToken": "device-token-of-the-test"});
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    assert_eq!(connect["params"]["auth"], own);
    let error =
        json!({"code": "INVALID_REQUEST", "message": MISMATCH, "details": {"code": "AUTH_TOKEN_MISMATCH"}});
    peer.refuse(&connect, &error, 1008).await;
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    assert_eq!(connect["params"]["auth"], json!({"token": SHARED}));
    let tokens = fs::read_to_string(node.state().join("identity/device-auth.json")).unwrap();
    assert!(!tokens.contains("device-token-of-the-test"), "{tokens}");
    peer.refuse(&connect, &error, 1008).await;
    let line = node.line("unauthorized").await;
    assert_eq!(line["deviceToken"], false);
    let _peer = gateway.welcome().await;
    node.line("connected").await;
}

#[tokio::test]
async fn the_tokens_of_one_gateway_are_not_shown_to_another() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    drop(node.connected(&gateway).await);
    node.kill().await;
    let path = node.state().join("node.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["token"] = json!("shared-with-the-first");
    write_file_mode(&path, file.to_string(), 0o600);
    node.set_env("OPENCLAW_GATEWAY_TOKEN", "");
    node.start_at("localhost", gateway.port);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    let auth = &connect["params"]["auth"];
    assert!(
        auth["token"].is_null() && auth["deviceToken"].is_null(),
        "{connect}"
    );
    for name in ["node.json", "identity/device-auth.json"] {
        let text = fs::read_to_string(node.state().join(name)).unwrap();
        assert!(
            !text.contains("shared-with-the-first") && !text.contains("device-token-of-the-test"),
            "{name}: {text}"
        );
    }
}

/// The same gateway, however its address is written.
#[tokio::test]
async fn a_gateway_whose_address_is_written_with_brackets_keeps_its_token() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    drop(node.connected(&gateway).await);
    node.kill().await;
    node.set_env("OPENCLAW_GATEWAY_TOKEN", "");
    node.start_at(" [127.0.0.1] ", gateway.port);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    assert_has!(connect, { "params/auth": {"deviceToken": "device-token-of-the-test"} });
}

#[tokio::test]
async fn a_node_without_a_shared_token_keeps_its_own() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let peer = node.connected(&gateway).await;
    drop(peer);
    node.kill().await;
    node.set_env("OPENCLAW_GATEWAY_TOKEN", "");
    node.start(&gateway);
    let error = json!({"code": "INVALID_REQUEST", "message": MISMATCH});
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    peer.refuse(&connect, &error, 1008).await;
    assert_eq!(node.line("unauthorized").await["deviceToken"], true);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    assert_has!(connect, { "params/auth": {"deviceToken": "device-token-of-the-test"} });
}

#[tokio::test]
async fn a_gateway_that_is_silent_for_two_ticks_is_left_and_met_again() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    node.start(&gateway);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    let policy = json!({"maxPayload": 1_000_000, "maxBufferedBytes": 1, "tickIntervalMs": 250});
    peer.hello(&connect, &json!({"policy": policy})).await;
    while peer.next().await.is_some() {}
    assert_eq!(peer.closed, Some((4000, "tick timeout".to_owned())));
    let line = node.line("disconnected").await;
    assert!(line.text("message").contains("two ticks"), "{line}");
    let _peer = gateway.welcome().await;
    node.line("connected").await;
}

#[tokio::test]
async fn a_gateway_that_restarts_is_met_again() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let mut peer = node.connected(&gateway).await;
    peer.send(&json!({"type": "event", "event": "shutdown", "payload": {"reason": "restart"}}))
        .await;
    peer.close(1012, "service restart").await;
    let line = node.line("disconnected").await;
    assert_eq!(line["message"], "the gateway shuts down");
    let _peer = gateway.welcome().await;
    node.line("connected").await;
}

#[tokio::test]
async fn a_clock_that_differs_is_told() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    node.start(&gateway);
    let mut peer = gateway.accept().await;
    let connect = peer.challenged_at(Some(1_000)).await;
    peer.hello(&connect, &json!({})).await;
    let line = node.line("clock-skew").await;
    assert!(line["aheadMs"].as_i64().unwrap() < -1_000_000_000, "{line}");
    node.line("connected").await;
}

/// What a state directory holds.
pub(super) fn files_of(state: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(state).expect("a state directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn nothing_is_written_before_a_gateway_takes_the_machine() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let before = files_of(node.state());
    node.start_as_it_is("127.0.0.1", gateway.port);
    // One that is no gateway, one that does not know the token.
    drop(gateway.accept_raw().await);
    node.line("disconnected").await;
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    let error = json!({"code": "INVALID_REQUEST", "message": MISMATCH});
    peer.refuse(&connect, &error, 1008).await;
    node.line("unauthorized").await;
    assert_eq!(files_of(node.state()), before);
    let own = fs::read_dir(node.state().join("countersign")).unwrap();
    assert_eq!(own.count(), 1, "the settings of the test alone");
    // It is taken: from now on the machine is who it was then.
    let mut peer = gateway.accept().await;
    let met = peer.challenged().await;
    peer.hello(&met, &json!({"protocol": 4})).await;
    let mut peer = gateway.accept().await;
    let connect = peer.challenged().await;
    assert_eq!(connect["params"]["device"]["id"], met["params"]["device"]["id"]);
    assert_eq!(
        connect["params"]["client"]["instanceId"],
        met["params"]["client"]["instanceId"]
    );
    assert_eq!(
        connect["params"]["auth"],
        json!({"deviceToken": "device-token-of-the-test"}),
        "the token that came with the first answer is kept"
    );
    peer.hello(&connect, &json!({"protocol": 4})).await;
    node.line("connected").await;
    assert_eq!(node.id(), met["params"]["device"]["id"]);
}

#[tokio::test]
async fn whom_a_gateway_asks_about_is_who_comes_again() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    node.start_as_it_is("127.0.0.1", gateway.port);
    let mut asked = Vec::new();
    for _attempt in 0..2 {
        let mut peer = gateway.accept().await;
        let connect = peer.challenged().await;
        asked.push(connect["params"]["device"]["id"].clone());
        let error =
            json!({"code": "NOT_PAIRED", "message": "pairing required", "details": {"requestId": "r-1"}});
        peer.refuse(&connect, &error, 1008).await;
    }
    node.line("pairing").await;
    assert_eq!(asked, [json!(node.id()), json!(node.id())]);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_made() {
    let node = TestNode::open();
    for (words, code, says) in [
        (
            vec!["--host", "example.com"],
            64,
            "without TLS anybody on the way reads along",
        ),
        (vec!["--host", "a b"], 64, "not a host name"),
        (vec!["--host", "localhost", "--port", "0"], 64, "port 0"),
        (vec!["--tls-fingerprint", "xyz"], 64, "64 hexadecimal digits"),
        (vec!["--commands", "system.run,rm"], 64, "does not serve"),
        (vec!["--token-file", "/no/such/file"], 78, "cannot be read"),
    ] {
        let mut all = vec!["node", "run"];
        all.extend(words.iter().copied());
        let refused = node.command(&all);
        assert_eq!(refused.code, Some(code), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{}", refused.stderr);
    }
    assert!(!node.state().join("identity").exists());
    let loose = node.scratch.join("token");
    write_file_mode(&loose, "secret\n", 0o644);
    let refused = node.command(&["node", "run", "--token-file", loose.to_str().unwrap()]);
    assert_eq!(refused.code, Some(78));
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
}

#[tokio::test]
async fn an_identity_that_others_may_know_is_nobodys() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    drop(node.connected(&gateway).await);
    node.kill().await;
    let key = node.state().join("identity/device.json");
    for (path, mode) in [
        (key.clone(), 0o644),
        (node.state().join("identity/device-auth.json"), 0o640),
        (node.state().join("node.json"), 0o666),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let refused = node.does_not_start(gateway.port);
        assert_eq!(refused.code, Some(78), "{}", refused.stderr);
        refused.complains("may be read or written by others");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let text = fs::read_to_string(&key).unwrap();
    write_file_mode(&key, text.replace("\"deviceId\": \"", "\"deviceId\": \"0"), 0o600);
    assert_eq!(node.does_not_start(gateway.port).code, Some(78));
}

#[tokio::test]
async fn one_node_and_one_server_share_a_state_directory() {
    let gateway = Gateway::new().await;
    let mut node = TestNode::open();
    let peer = node.connected(&gateway).await;
    let second = node.does_not_start(gateway.port);
    assert_eq!(second.code, Some(78), "{}", second.stderr);
    assert!(second.stderr.contains("error[node-in-use]"), "{}", second.stderr);
    // The server's ledger is another one.
    let mut server = countersign()
        .env("HOME", node.scratch.path())
        .arg("--state-dir")
        .arg(node.state())
        .args(&["serve", "--listen", "127.0.0.1:0"])
        .start(Stdio::null());
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("countersign ready"), "{line}");
    terminate(pid_of(&server));
    assert_eq!(server.wait().unwrap().code(), Some(0));
    drop(peer);
}

/// Accepts a connection over TLS; the beginning of what is asked, or `None` when the node does not want it.
async fn tls_request(gateway: &Gateway, pair: &Pair) -> Option<String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pair.cert.as_bytes())
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let stream = gateway.accept_raw().await;
    let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.ok()?;
    let mut request = vec![0; 4096];
    let read = stream.read(&mut request).await.ok()?;
    request.truncate(read);
    Some(String::from_utf8(request).unwrap()).filter(|request| !request.is_empty())
}

#[expect(clippy::format_collect, reason = "a short text of the test")]
fn fingerprint(pair: &Pair) -> String {
    let certificate = CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap();
    let digest = sha2::Sha256::digest(&certificate);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn only_the_pinned_certificate_is_spoken_to() {
    let authority = Authority::new("nobody's");
    let (pinned, other) = (authority.server(&["elsewhere"]), authority.server(&["127.0.0.1"]));
    let gateway = Gateway::new().await;
    let mut node = TestNode::open()
        .argument("--tls-fingerprint")
        .argument(&fingerprint(&pinned));
    node.start(&gateway);
    assert_eq!(tls_request(&gateway, &other).await, None);
    let line = node.line("disconnected").await;
    assert!(line.text("gateway").starts_with("wss://"), "{line}");
    let request = tls_request(&gateway, &pinned).await.expect("a request");
    assert!(
        request.starts_with("GET / HTTP/1.1\r\n") && !request.to_lowercase().contains("\norigin:"),
        "{request}"
    );
    node.kill().await;
    // Without a pin the machine's authorities count, and they do not know this one.
    let mut node = TestNode::open().argument("--tls");
    node.start(&gateway);
    assert_eq!(tls_request(&gateway, &other).await, None);
    let line = node.line("disconnected").await;
    assert!(line.text("message").starts_with("no TLS connection"), "{line}");
}
