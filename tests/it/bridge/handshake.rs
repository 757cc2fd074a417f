//! How a connection begins: what is said, in which order it is judged, and every refusal word for word.

use serde_json::{Value, json};

use crate::support::{
    Members, TestServer,
    node::{Device, Line, Received, Speaks, TestNode, pair},
    only,
};

/// The error and the close of a connection that sends these parameters.
async fn refused(server: &TestServer, change: impl FnOnce(&Device, &Line) -> Value) -> (Value, u16, String) {
    let mut line = Line::open(server).await;
    let device = Device::new(server, Speaks::Present);
    let params = change(&device, &line);
    let error = line
        .connect_with(params)
        .await
        .expect_err("this connect must be refused");
    let (code, reason) = line.end().await.close();
    (error, code, reason)
}

#[tokio::test]
async fn every_refusal_has_the_products_words() {
    type Mutation = fn(&Device, &Line) -> Value;

    let server = TestServer::full().start().await;
    let cases: &[(&str, Mutation, Value, u16)] = &[
        (
            "no nonce",
            |device, line| {
                let mut params = device.connect_params(&line.nonce, line.ts);
                params["device"].as_object_mut().unwrap().shift_remove("nonce");
                params
            },
            json!({
                "code": "INVALID_REQUEST", "message": "device nonce required",
                "details": {"code": "DEVICE_AUTH_NONCE_REQUIRED", "reason": "device-nonce-missing"},
            }),
            1008,
        ),
        (
            "a missing member",
            |device, line| {
                let mut params = device.connect_params(&line.nonce, line.ts);
                params["device"]
                    .as_object_mut()
                    .unwrap()
                    .shift_remove("signature");
                params
            },
            json!({
                "code": "INVALID_REQUEST",
                "message": "invalid connect params: at /device: must have required property 'signature'",
            }),
            1008,
        ),
        (
            "no protocol in common",
            |device, line| {
                let mut params = device.connect_params(&line.nonce, line.ts);
                params["minProtocol"] = json!(5);
                params["maxProtocol"] = json!(7);
                params
            },
            json!({
                "code": "INVALID_REQUEST", "message": "protocol mismatch",
                "details": {
                    "code": "PROTOCOL_MISMATCH", "clientMinProtocol": 5, "clientMaxProtocol": 7,
                    "expectedProtocol": 4, "minimumProbeProtocol": 3,
                },
            }),
            1002,
        ),
        (
            "another role",
            |device, line| {
                let mut params = device.connect_params(&line.nonce, line.ts);
                params["role"] = json!("worker");
                device.sign(&mut params, &line.nonce, line.ts);
                params
            },
            json!({"code": "INVALID_REQUEST", "message": "invalid role"}),
            1008,
        ),
        (
            "no device",
            |device, line| {
                let mut params = device.connect_params(&line.nonce, line.ts);
                params.as_object_mut().unwrap().shift_remove("device");
                params
            },
            json!({
                "code": "NOT_PAIRED", "message": "device identity required",
                "details": {"code": "DEVICE_IDENTITY_REQUIRED"},
            }),
            1008,
        ),
        (
            "another device's id",
            |device, line| {
                let mut params = device.connect_params(&line.nonce, line.ts);
                params["device"]["id"] = json!("0".repeat(64));
                params
            },
            json!({
                "code": "INVALID_REQUEST", "message": "device identity mismatch",
                "details": {"code": "DEVICE_AUTH_DEVICE_ID_MISMATCH", "reason": "device-id-mismatch"},
            }),
            1008,
        ),
        (
            "signed long ago",
            |device, line| device.connect_params(&line.nonce, line.ts - 700_000),
            json!({
                "code": "INVALID_REQUEST", "message": "device signature expired",
                "details": {"code": "DEVICE_AUTH_SIGNATURE_EXPIRED", "reason": "device-signature-stale"},
            }),
            1008,
        ),
        (
            "signed in the future",
            |device, line| device.connect_params(&line.nonce, line.ts + 700_000),
            json!({
                "code": "INVALID_REQUEST", "message": "device signature expired",
                "details": {"code": "DEVICE_AUTH_SIGNATURE_EXPIRED", "reason": "device-signature-stale"},
            }),
            1008,
        ),
        (
            "another nonce",
            |device, line| device.connect_params("5f1f3f5a-0000-4000-8000-000000000000", line.ts),
            json!({
                "code": "INVALID_REQUEST", "message": "device nonce mismatch",
                "details": {"code": "DEVICE_AUTH_NONCE_MISMATCH", "reason": "device-nonce-mismatch"},
            }),
            1008,
        ),
        (
            "another signature",
            |device, line| {
                let mut params = device.connect_params(&line.nonce, line.ts);
                params["client"]["platform"] = json!("windows");
                params
            },
            json!({
                "code": "INVALID_REQUEST", "message": "device signature invalid",
                "details": {"code": "DEVICE_AUTH_SIGNATURE_INVALID", "reason": "device-signature"},
            }),
            1008,
        ),
        (
            "no key",
            |device, line| {
                let mut params = device.connect_params(&line.nonce, line.ts);
                params["device"]["publicKey"] = json!("AAAA");
                params
            },
            json!({
                "code": "INVALID_REQUEST", "message": "device public key invalid",
                "details": {"code": "DEVICE_AUTH_PUBLIC_KEY_INVALID", "reason": "device-public-key"},
            }),
            1008,
        ),
        (
            "another token",
            |device, line| {
                let device = device.clone().showing(json!({"token": "wrong-shared-token"}));
                device.connect_params(&line.nonce, line.ts)
            },
            json!({
                "code": "INVALID_REQUEST",
                "message": "unauthorized: gateway token mismatch (provide gateway auth token)",
                "details": {
                    "code": "AUTH_TOKEN_MISMATCH", "authReason": "token_mismatch",
                    "canRetryWithDeviceToken": true, "recommendedNextStep": "retry_with_device_token",
                },
            }),
            1008,
        ),
        (
            "no token",
            |device, line| {
                device
                    .clone()
                    .showing(json!({}))
                    .connect_params(&line.nonce, line.ts)
            },
            json!({
                "code": "INVALID_REQUEST",
                "message": "unauthorized: gateway token missing (provide gateway auth token)",
                "details": {"code": "AUTH_TOKEN_MISSING", "authReason": "token_missing"},
            }),
            1008,
        ),
    ];
    for (name, change, expect, code) in cases {
        let (error, closed, reason) = refused(&server, change).await;
        assert_eq!(&error, expect, "{name}");
        let message = expect.text("message");
        let short: String = message.chars().take(123).collect();
        assert_eq!((closed, reason), (*code, short), "{name}");
    }
}

#[tokio::test]
async fn a_device_that_nobody_let_in_is_told_to_wait() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    let mut line = Line::open(&server).await;
    let error = line.connect(&device).await.unwrap_err();
    let request = error["details"].text("requestId").to_owned();
    assert_eq!(
        error,
        json!({
            "code": "NOT_PAIRED",
            "message": "pairing required: device is not approved yet",
            "details": {
                "code": "PAIRING_REQUIRED", "reason": "not-paired", "requestId": request,
                "remediationHint": format!("Approve this device: countersign nodes approve {request}"),
                "deviceId": device.id(), "requestedRole": "node", "recommendedNextStep": "wait_then_retry",
                "retryable": true, "pauseReconnect": false,
            },
        })
    );
    let reason = format!("pairing required: device is not approved yet (requestId: {request})");
    assert_eq!(line.end().await.close(), (1008, reason));
}

#[tokio::test]
async fn something_else_first_is_refused() {
    let server = TestServer::full().start().await;
    let mut line = Line::open(&server).await;
    let answer = line.ask("node.event", json!({"event": "x"})).await;
    let message = "invalid handshake: first request must be connect";
    assert_has!(answer, { "error": {"code": "INVALID_REQUEST", "message": message} });
    assert_eq!(line.end().await.close(), (1008, message.to_owned()));
}

#[tokio::test]
async fn each_generation_is_answered_in_its_own_protocol() {
    let server = TestServer::full().start().await;
    for (speaks, protocol) in [(Speaks::First, 3), (Speaks::Present, 4), (Speaks::Ours, 4)] {
        let node = TestNode::join(&server, Device::new(&server, speaks), |_call| None).await;
        let hello = &node.hello;
        assert_eq!(
            only(hello, &["type", "protocol"]),
            json!({"type": "hello-ok", "protocol": protocol})
        );
        assert_eq!(hello["auth"]["role"], "node");
        assert_eq!(hello["auth"]["scopes"], json!([]));
        assert_eq!(
            hello["policy"],
            json!({"maxPayload": 26_214_400, "maxBufferedBytes": 52_428_800, "tickIntervalMs": 30_000})
        );
        assert_eq!(hello["snapshot"]["health"], json!({}));
        assert!(hello["auth"]["deviceToken"].is_string());
        node.vanish();
    }
}

#[tokio::test]
async fn the_other_path_is_the_same_bridge_and_no_upgrade_is_no_bridge() {
    let server = TestServer::full().start().await;
    let mut line = Line::open_at(&server, "/bridge").await;
    let error = line
        .connect(&Device::new(&server, Speaks::Present))
        .await
        .unwrap_err();
    assert_eq!(error["details"]["code"], "PAIRING_REQUIRED");
    server
        .anonymous()
        .get("/bridge")
        .await
        .problem(400, "invalid-request");
    assert_eq!(server.anonymous().get("/").await.status, 303);
}

#[tokio::test]
async fn a_bridge_that_is_switched_off_is_not_there() {
    let server = TestServer::full()
        .toml("[bridge]\nenabled = false\n")
        .start()
        .await;
    server.anonymous().get("/bridge").await.problem(404, "not-found");
    let upgrade = |path: &'static str| {
        let api = server.anonymous();
        async move {
            let request = api
                .request(reqwest::Method::GET, path)
                .header("Connection", "Upgrade")
                .header("Upgrade", "websocket")
                .header("Sec-WebSocket-Version", "13")
                .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
            api.send(request).await
        }
    };
    upgrade("/bridge").await.problem(404, "not-found");
    assert_eq!(upgrade("/").await.status, 303);
    let ready = server.anonymous().read("/readyz").await;
    assert_eq!(ready["checks"]["bridge"], Value::Null);
}

#[tokio::test]
async fn no_foreign_page_opens_a_bridge() {
    let server = TestServer::full().start().await;
    let api = server.anonymous();
    for path in ["/", "/bridge"] {
        let request = api
            .request(reqwest::Method::GET, path)
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("Origin", "https://evil.example");
        api.send(request).await.problem(403, "forbidden");
    }
}

#[tokio::test]
async fn a_device_token_opens_in_either_field_and_comes_back() {
    let server = TestServer::full().start().await;
    for speaks in [Speaks::First, Speaks::Present] {
        let device = Device::new(&server, speaks);
        let node = TestNode::join(&server, device.clone(), |_call| None).await;
        let token = node.token();
        node.vanish();
        for auth in [json!({"token": token}), json!({"deviceToken": token})] {
            let mut line = Line::open(&server).await;
            let hello = line.connect(&device.clone().showing(auth)).await.unwrap();
            assert_eq!(hello["auth"]["deviceToken"], json!(token));
            line.close().await;
        }
    }
}

#[tokio::test]
async fn a_new_token_ends_the_one_before_once_it_is_used() {
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    pair(&server, &device).await;
    let token_of = |hello: Value| hello["auth"].text("deviceToken").to_owned();
    let connect = |device: Device| {
        let server = &server;
        async move {
            let mut line = Line::open(server).await;
            let answer = line.connect(&device).await;
            if answer.is_ok() {
                line.close().await;
            }
            answer
        }
    };
    let first = token_of(connect(device.clone()).await.unwrap());
    // It came with the shared secret again: perhaps it has lost its token.
    let second = token_of(connect(device.clone()).await.unwrap());
    assert_ne!(first, second);
    connect(device.clone().with_token(&first)).await.unwrap();
    connect(device.clone().with_token(&second)).await.unwrap();
    let error = connect(device.clone().with_token(&first)).await.unwrap_err();
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISMATCH");
    connect(device.with_token(&second)).await.unwrap();
}

#[tokio::test]
async fn the_setting_replaces_the_file() {
    let server = TestServer::full()
        .toml("[bridge]\ntoken = \"of-the-settings\"\n")
        .start()
        .await;
    let of_the_file = Device::new(&server, Speaks::Present);
    let mut line = Line::open(&server).await;
    let error = line.connect(&of_the_file).await.unwrap_err();
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISMATCH");
    // The shared secret is taken as a password, too.
    for auth in [
        json!({"token": "of-the-settings"}),
        json!({"password": "of-the-settings"}),
    ] {
        let mut line = Line::open(&server).await;
        let error = line
            .connect(&of_the_file.clone().showing(auth))
            .await
            .unwrap_err();
        assert_eq!(error["details"]["code"], "PAIRING_REQUIRED");
    }
}

#[tokio::test]
async fn whoever_guesses_is_slowed_down_and_whoever_knows_is_not() {
    let server = TestServer::full()
        .toml("[auth]\nfailures_per_minute = 3\n")
        .start()
        .await;
    let device = Device::new(&server, Speaks::Present);
    let guess = device.clone().showing(json!({"token": "guess"}));
    let mut codes = Vec::new();
    for _ in 0..5 {
        let mut line = Line::open(&server).await;
        let error = line.connect(&guess).await.unwrap_err();
        codes.push(error["details"].text("code").to_owned());
        assert_eq!(line.end().await.close().0, 1008);
    }
    assert_eq!(
        codes,
        [
            "AUTH_TOKEN_MISMATCH",
            "AUTH_TOKEN_MISMATCH",
            "AUTH_TOKEN_MISMATCH",
            "AUTH_RATE_LIMITED",
            "AUTH_RATE_LIMITED"
        ]
    );
    let mut line = Line::open(&server).await;
    let error = line.connect(&device).await.unwrap_err();
    assert_eq!(error["details"]["code"], "PAIRING_REQUIRED");
    // The same count as that of the API.
    let wrong = server.anonymous().with_token(Some("cst_wrong"));
    wrong.get("/v1/agents").await.problem(429, "rate-limited");
}

#[tokio::test]
async fn whoever_says_nothing_is_not_waited_for() {
    let server = TestServer::full()
        .toml("[bridge]\nhandshake_timeout_ms = 300\n")
        .start()
        .await;
    let mut line = Line::open(&server).await;
    assert_eq!(
        line.end().await,
        Received::Closed {
            code: 1008,
            reason: "handshake timeout".to_owned()
        }
    );
}
