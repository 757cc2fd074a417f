//! Frames that nobody who means well sends. Each has a name; each ends as it must, and the server serves on.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::wire::{TEXT, Wire};
use crate::support::{
    Members, OperatorClient, TestServer,
    node::{Device, Line, Received, Speaks, TestNode, answer_params, pair},
};

/// A node that was let in before, and must be served all the while.
struct Witness {
    node: TestNode,
    operator: crate::support::OperatorLink,
}

impl Witness {
    async fn begin(server: &TestServer) -> Self {
        let found = |_call: &Value| Some(Ok(json!({"bins": {}})));
        Self {
            node: TestNode::join(
                server,
                Device::new(server, Speaks::Present).named("witness"),
                found,
            )
            .await,
            operator: OperatorClient::new(&server.operator_token(), &["operator.admin"])
                .connect(server)
                .await,
        }
    }

    async fn is_served(&mut self, after: &str) {
        let call = json!({"nodeId": self.node.id(), "command": "system.which", "params": {"bins": ["x"]}});
        let answer = self.operator.ask("node.invoke", call).await;
        assert_eq!(answer["ok"], true, "after {after}: {answer}");
    }
}

fn deep(depth: usize) -> String {
    format!(
        r#"{{"type":"req","id":"1","method":"connect","params":{}{}}}"#,
        "[".repeat(depth),
        "]".repeat(depth)
    )
}

#[tokio::test]
async fn texts_instead_of_a_connect() {
    const NOT_CONNECT: u16 = 1008;
    let server = TestServer::full().start().await;
    let mut witness = Witness::begin(&server).await;
    let connect = r#"{"type":"req","id":"1","method":"connect","params":{}}"#;
    let cases: Vec<(&str, String, u16)> = vec![
        ("nothing", String::new(), NOT_CONNECT),
        ("no JSON", "hello".to_owned(), NOT_CONNECT),
        ("half of a frame", connect[..30].to_owned(), NOT_CONNECT),
        ("a list of frames", format!("[{connect}]"), NOT_CONNECT),
        ("two frames in one", format!("{connect}{connect}"), NOT_CONNECT),
        ("a number", "1e999".to_owned(), NOT_CONNECT),
        ("too deep for the stack", deep(30_000), NOT_CONNECT),
        ("a little too deep", deep(65), NOT_CONNECT),
        (
            "the same member twice",
            r#"{"type":"req","id":"1","method":"node.list","method":"connect","params":{}}"#.to_owned(),
            NOT_CONNECT,
        ),
        (
            "the same member twice, one of them escaped",
            r#"{"type":"req","id":"1","method":"connect","params":{"role":"node","r\u006fle":"operator"}}"#
                .to_owned(),
            NOT_CONNECT,
        ),
        (
            "a member that frames do not have",
            r#"{"type":"req","id":"1","method":"connect","params":{},"admin":true}"#.to_owned(),
            NOT_CONNECT,
        ),
        (
            "no id",
            r#"{"type":"req","method":"connect","params":{}}"#.to_owned(),
            NOT_CONNECT,
        ),
        (
            "an endless id",
            format!(
                r#"{{"type":"req","id":"{}","method":"connect"}}"#,
                "x".repeat(300)
            ),
            NOT_CONNECT,
        ),
        (
            "half a surrogate pair",
            r#"{"type":"req","id":"\ud800","method":"connect"}"#.to_owned(),
            NOT_CONNECT,
        ),
        (
            "an answer to nothing",
            r#"{"type":"res","id":"1","ok":true,"payload":{"type":"hello-ok"}}"#.to_owned(),
            NOT_CONNECT,
        ),
        (
            "an event of the server's",
            r#"{"type":"event","event":"connect.challenge","payload":{"nonce":"n","ts":1}}"#.to_owned(),
            NOT_CONNECT,
        ),
        (
            "a connect without parameters",
            r#"{"type":"req","id":"1","method":"connect"}"#.to_owned(),
            NOT_CONNECT,
        ),
        (
            "as many values as fit",
            format!(
                r#"{{"type":"req","id":"1","method":"connect","params":[{}0]}}"#,
                "0,".repeat(32_000)
            ),
            NOT_CONNECT,
        ),
        ("one byte too much", "x".repeat(65_537), 1009),
        ("a hundred thousand bytes", "x".repeat(100_000), 1009),
    ];
    for (name, text, code) in cases {
        let mut line = Line::open(&server).await;
        line.send_text(&text).await;
        let closed = line.end().await;
        assert!(
            matches!(closed, Received::Closed { code: heard, .. } if heard == code),
            "{name}: {closed:?}"
        );
        witness.is_served(name).await;
    }
}

#[tokio::test]
async fn bytes_that_are_no_websocket() {
    type Bytes = Vec<u8>;

    let server = TestServer::full().start().await;
    let mut witness = Witness::begin(&server).await;
    let masked = |first: u8, payload: &[u8]| -> Bytes {
        let mut bytes = vec![first, 0x80 | u8::try_from(payload.len()).unwrap(), 0, 0, 0, 0];
        bytes.extend(payload);
        bytes
    };
    let announced = |length: u64| -> Bytes {
        let mut bytes = vec![TEXT, 0xff];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0; 4]);
        bytes
    };
    let fragments = |total: usize| -> Bytes {
        let part = [b'x'; 100];
        let mut bytes = masked(0x01, &part);
        for _ in 0..total / 100 {
            bytes.extend(masked(0x00, &part));
        }
        bytes
    };
    let cases: &[(&str, Bytes, &[u16])] = &[
        (
            "a frame that says it has ten million bytes",
            announced(10_000_000),
            &[1009],
        ),
        (
            "a frame that says it has all bytes there are",
            announced(u64::MAX),
            &[1009, 1002],
        ),
        ("fragments without end", fragments(100_000), &[1009]),
        ("a text that is not UTF-8", masked(TEXT, b"\xff\xfe\xfd"), &[1007]),
        ("a binary frame", masked(0x82, b"{}"), &[1003]),
        ("a compressed frame", masked(0xc1, b"\x2a\x04\x00"), &[1002]),
        ("a reserved bit", masked(0x91, b"{}"), &[1002]),
        ("a reserved kind of frame", masked(0x83, b"{}"), &[1002]),
        ("a continuation of nothing", masked(0x80, b"{}"), &[1002]),
        (
            "a text inside a fragmented text",
            [masked(0x01, b"{"), masked(TEXT, b"{}")].concat(),
            &[1002],
        ),
        ("a ping in fragments", masked(0x09, b"x"), &[1002]),
        (
            "a ping that is too long",
            {
                let mut bytes = vec![0x89, 0xfe, 0x01, 0x00, 0, 0, 0, 0];
                bytes.extend([0; 256]);
                bytes
            },
            &[1002],
        ),
        ("a close with half a code", masked(0x88, b"\x03"), &[1002]),
        (
            "a close that tells lies",
            masked(0x88, b"\x03\xe8\xff"),
            &[1002, 1007],
        ),
    ];
    for (name, bytes, codes) in cases {
        let mut wire = Wire::open(&server).await;
        wire.bytes(bytes).await;
        let code = wire.close_code().await;
        // Whoever breaks the protocol may as well be hung up on.
        assert!(code.is_none_or(|code| codes.contains(&code)), "{name}: {code:?}");
        witness.is_served(name).await;
    }
    let mut wire = Wire::open(&server).await;
    wire.unmasked(TEXT, b"{}").await;
    let code = wire.close_code().await;
    assert!(code.is_none_or(|code| code == 1002), "without a mask: {code:?}");
    let mut wire = Wire::open(&server).await;
    for _ in 0..3000 {
        wire.frame(0x89, &[b'p'; 100]).await;
    }
    let code = wire.close_code().await;
    assert_eq!(code, None, "pings instead of a connect");
    witness.is_served("a flood of pings").await;
}

#[tokio::test]
async fn one_byte_at_a_time_is_too_slow() {
    let server = TestServer::full()
        .toml("[bridge]\nhandshake_timeout_ms = 500\n[limits]\nheader_timeout_ms = 500\n")
        .start()
        .await;
    // Half a frame and then nothing.
    let mut wire = Wire::open(&server).await;
    wire.bytes(&[TEXT, 0xff, 0, 0, 0]).await;
    assert_eq!(wire.close_code().await, Some(1008));
    // A frame that never becomes whole, however busy it looks.
    let mut wire = Wire::open(&server).await;
    wire.bytes(&[0x01, 0x81, 0, 0, 0, 0, b'{']).await;
    for _ in 0..20 {
        wire.bytes(&[0x00, 0x80, 0, 0, 0, 0]).await;
    }
    assert_eq!(wire.close_code().await, Some(1008));
}

#[tokio::test]
async fn parameters_that_no_client_has() {
    type Mutation = fn(&mut Value);

    let server = TestServer::full().start().await;
    let mut witness = Witness::begin(&server).await;
    let many = |count: usize| -> Value { (0..count).map(|number| json!(format!("c{number}"))).collect() };
    let cases: &[(&str, Mutation, &str)] = &[
        (
            "an unknown member",
            |p| p["admin"] = json!(true),
            "at root: must not have unexpected properties",
        ),
        (
            "an unknown member of the client",
            |p| p["client"]["scopes"] = json!(["operator.admin"]),
            "at /client: must not have unexpected properties",
        ),
        (
            "an unknown member of the device",
            |p| p["device"]["trusted"] = json!(true),
            "at /device: must not have unexpected properties",
        ),
        (
            "an unknown credential",
            |p| p["auth"]["root"] = json!("x"),
            "at /auth: must not have unexpected properties",
        ),
        (
            "a terminal's orders in the platform",
            |p| p["client"]["platform"] = json!("linux\u{1b}[2J"),
            "at /client/platform: must not have control characters",
        ),
        (
            "a line end in the version",
            |p| p["client"]["version"] = json!("1\n2"),
            "at /client/version: must not have control characters",
        ),
        (
            "text that runs backwards in the PATH",
            |p| p["pathEnv"] = json!("/bin:\u{202e}/nib"),
            "at /pathEnv: must not have control characters",
        ),
        (
            "a line end in a command",
            |p| p["commands"] = json!(["system.run\nsystem.which"]),
            "at /commands: must be printable ASCII without blanks",
        ),
        (
            "a command that only looks like another",
            |p| p["commands"] = json!(["system.r\u{0443}n"]),
            "at /commands: must be printable ASCII without blanks",
        ),
        (
            "a command as long as a page",
            |p| p["commands"] = json!(["c".repeat(129)]),
            "at /commands: must not have more than 128 bytes",
        ),
        (
            "a name as long as a page",
            |p| p["client"]["displayName"] = json!("n".repeat(257)),
            "at /client/displayName: must not have more than 256 bytes",
        ),
        (
            "a PATH as long as a book",
            |p| p["pathEnv"] = json!("/".repeat(40_000)),
            "at /pathEnv: must not have more than 32768 bytes",
        ),
        (
            "a name that is a list",
            |p| p["client"]["displayName"] = json!(["n"]),
            "at /client/displayName: must be string",
        ),
        (
            "an empty client",
            |p| p["client"]["id"] = json!(""),
            "at /client/id: must not have fewer than 1 characters",
        ),
        (
            "protocol zero",
            |p| p["minProtocol"] = json!(0),
            "at /minProtocol: must be >= 1",
        ),
        (
            "protocol minus one",
            |p| p["maxProtocol"] = json!(-1),
            "at /maxProtocol: must be >= 1",
        ),
        (
            "half a protocol",
            |p| p["maxProtocol"] = json!(3.5),
            "at /maxProtocol: must be integer",
        ),
        (
            "a protocol in words",
            |p| p["minProtocol"] = json!("4"),
            "at /minProtocol: must be integer",
        ),
        (
            "a time in words",
            |p| p["device"]["signedAt"] = json!("now"),
            "at /device/signedAt: must be integer",
        ),
        (
            "a key as long as a page",
            |p| p["device"]["publicKey"] = json!("A".repeat(600)),
            "at /device/publicKey: must not have more than 512 bytes",
        ),
        (
            "permissions that are no map",
            |p| p["permissions"] = json!([true]),
            "at /permissions: must be object",
        ),
        (
            "permissions that are no answers",
            |p| p["permissions"] = json!({"camera": "yes"}),
            "at /permissions: must be a map of short names to booleans",
        ),
        (
            "parameters that are a list",
            |p| *p = json!([]),
            "at root: must be object",
        ),
    ];
    let refused = |params: Value| {
        let server = &server;
        async move {
            let mut line = Line::open(server).await;
            let error = line.connect_with(params).await.unwrap_err();
            assert_eq!(line.end().await.close().0, 1008);
            error.text("message").to_owned()
        }
    };
    let device = Device::new(&server, Speaks::Present);
    for (name, change, expect) in cases {
        let mut params = device.connect_params("n", 1);
        change(&mut params);
        assert_eq!(
            refused(params).await,
            format!("invalid connect params: {expect}"),
            "{name}"
        );
    }
    for name in ["commands", "caps", "scopes"] {
        let mut params = device.connect_params("n", 1);
        params[name] = many(257);
        let expect = format!("invalid connect params: at /{name}: must not have more than 256 items");
        assert_eq!(refused(params).await, expect);
    }
    witness.is_served("all of them").await;
}

#[tokio::test]
async fn identities_that_are_somebody_elses() {
    type Try = fn(&Device, &Device, &str, &Line) -> Value;

    let server = TestServer::full().start().await;
    let victim = Device::new(&server, Speaks::Present).named("victim");
    let node = TestNode::join(&server, victim.clone(), |_call| None).await;
    let stolen = node.token();
    let thief = Device::new(&server, Speaks::Present).with_seed(200);
    let cases: &[(&str, Try, &str)] = &[
        (
            "the victim's id with the thief's key",
            |thief, victim, _token, line| {
                let mut params = thief.connect_params(&line.nonce, line.ts);
                params["device"]["id"] = json!(victim.id());
                params
            },
            "device identity mismatch",
        ),
        (
            "the victim's id and key with the thief's signature",
            |thief, victim, _token, line| {
                let mut params = thief.connect_params(&line.nonce, line.ts);
                params["device"]["id"] = json!(victim.id());
                params["device"]["publicKey"] = json!(victim.key.public().to_text());
                params
            },
            "device signature invalid",
        ),
        (
            "the victim's whole proof of another connection",
            |_thief, victim, _token, line| {
                victim.connect_params("b0f60000-0000-4000-8000-000000000000", line.ts)
            },
            "device nonce mismatch",
        ),
        (
            "the victim's proof with the nonce exchanged",
            |_thief, victim, _token, line| {
                let mut params = victim.connect_params("b0f60000-0000-4000-8000-000000000000", line.ts);
                params["device"]["nonce"] = json!(line.nonce);
                params
            },
            "device signature invalid",
        ),
        (
            "a proof made for another token",
            |thief, _victim, token, line| {
                let mut params = thief.connect_params(&line.nonce, line.ts);
                params["auth"] = json!({"deviceToken": token});
                params
            },
            "device signature invalid",
        ),
        (
            "a proof made for other scopes",
            |thief, _victim, _token, line| {
                let mut params = thief.connect_params(&line.nonce, line.ts);
                params["scopes"] = json!(["operator.admin"]);
                params
            },
            "device signature invalid",
        ),
        (
            "a proof made for another role",
            |thief, _victim, _token, line| {
                let mut params = thief.connect_params(&line.nonce, line.ts);
                params["role"] = json!("operator");
                params
            },
            "device signature invalid",
        ),
        (
            "a proof of the first version",
            |thief, _victim, _token, line| {
                let mut params = thief.connect_params(&line.nonce, line.ts);
                let token = params["auth"].text("token");
                let payload = format!("v1|{}|node-host|node|node||{}|{token}", thief.id(), line.ts);
                params["device"]["signature"] = json!(thief.key.sign(&payload));
                params
            },
            "device signature invalid",
        ),
        (
            "a key for which anybody can sign",
            |thief, _victim, _token, line| {
                let mut params = thief.connect_params(&line.nonce, line.ts);
                let weak = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
                params["device"]["publicKey"] = json!(weak);
                params
            },
            "device public key invalid",
        ),
        (
            "a signature that was cut",
            |thief, _victim, _token, line| {
                let mut params = thief.connect_params(&line.nonce, line.ts);
                let signature = params["device"].text("signature");
                params["device"]["signature"] = json!(signature[..84]);
                params
            },
            "device signature invalid",
        ),
        (
            "the victim's token with the thief's own proof",
            |thief, _victim, token, line| {
                thief
                    .clone()
                    .with_token(token)
                    .connect_params(&line.nonce, line.ts)
            },
            "unauthorized: gateway token mismatch (provide gateway auth token)",
        ),
        (
            "the shared secret as a setup code",
            |thief, _victim, _token, line| {
                let secret = thief.auth["token"].clone();
                let device = thief.clone().showing(json!({"bootstrapToken": secret}));
                device.connect_params(&line.nonce, line.ts)
            },
            "unauthorized: gateway token mismatch (provide gateway auth token)",
        ),
        (
            "the shared secret as an operator",
            |thief, _victim, _token, line| {
                let mut params = thief.connect_params(&line.nonce, line.ts);
                params["role"] = json!("operator");
                thief.sign(&mut params, &line.nonce, line.ts);
                params
            },
            "unauthorized: gateway token mismatch (provide gateway auth token)",
        ),
        (
            "the victim's own token as an operator",
            |_thief, victim, token, line| {
                let mut params = victim
                    .clone()
                    .showing(json!({"token": token}))
                    .connect_params(&line.nonce, line.ts);
                params["role"] = json!("operator");
                params["scopes"] = json!(["operator.admin"]);
                victim.sign(&mut params, &line.nonce, line.ts);
                params
            },
            "unauthorized: gateway token mismatch (provide gateway auth token)",
        ),
    ];
    for (name, attempt, expect) in cases {
        let mut line = Line::open(&server).await;
        let params = attempt(&thief, &victim, &stolen, &line);
        let error = line.connect_with(params).await.unwrap_err();
        assert_eq!(error["message"], *expect, "{name}");
        assert_eq!(line.end().await.close().0, 1008, "{name}");
    }
    // Tokens of the API open no node.
    for token in [server.operator_token(), server.gateway_token()] {
        let mut line = Line::open(&server).await;
        let error = line
            .connect(&thief.clone().showing(json!({"token": token})))
            .await
            .unwrap_err();
        let code = error["details"].text("code");
        assert!(
            ["AUTH_TOKEN_MISMATCH", "AUTH_RATE_LIMITED"].contains(&code),
            "{error}"
        );
    }
    // The victim noticed nothing of it.
    node.say("node.event", json!({"event": "still.here"}));
    let list = server.operator().read("/v1/nodes").await;
    assert_eq!(list.list("items").len(), 1);
    assert_eq!(list["items"][0]["connected"], true);
}

#[tokio::test]
async fn nodes_that_want_more_than_theirs() {
    let server = TestServer::full().start().await;
    let mut witness = Witness::begin(&server).await;
    let device = Device::new(&server, Speaks::Present).named("rogue");
    pair(&server, &device).await;
    let mut line = Line::open(&server).await;
    line.connect(&device).await.unwrap();
    let id = device.id();
    let other = witness.node.id();
    let error = |message: &str| json!({"code": "INVALID_REQUEST", "message": message});
    let cases: Vec<(&str, &str, Value, Value)> = vec![
        (
            "a second connect",
            "connect",
            device.connect_params(&line.nonce, line.ts),
            error("connect is only valid as the first request"),
        ),
        (
            "the operators' list",
            "node.list",
            json!({}),
            error("unauthorized role: node"),
        ),
        (
            "a call of another node",
            "node.invoke",
            json!({"nodeId": other, "command": "system.run"}),
            error("unauthorized role: node"),
        ),
        (
            "its own approval",
            "device.pair.approve",
            json!({"requestId": "x"}),
            error("unauthorized role: node"),
        ),
        (
            "an answer to a question",
            "exec.approval.resolve",
            json!({"id": "x", "decision": "allow-once"}),
            error("unauthorized role: node"),
        ),
        (
            "a method that nobody has",
            "bogus.method",
            json!({}),
            error("unknown method: bogus.method"),
        ),
        (
            "a method with a line end",
            "a\nb",
            json!({}),
            error("unknown method: a\nb"),
        ),
        (
            "an answer in another's name",
            "node.invoke.result",
            answer_params("i", &other, Ok(json!({}))),
            error("nodeId mismatch"),
        ),
        (
            "an answer without a node",
            "node.invoke.result",
            json!({"id": "i", "ok": true}),
            error("invalid node.invoke.result params: at root: must have required property 'nodeId'"),
        ),
        (
            "an answer that is neither",
            "node.invoke.result",
            json!({"id": "i", "nodeId": id, "ok": "yes"}),
            error("invalid node.invoke.result params: at /ok: must be boolean"),
        ),
        (
            "an event without a name",
            "node.event",
            json!({"payloadJSON": "{}"}),
            error("invalid node.event params: at root: must have required property 'event'"),
        ),
        (
            "an event that is no object",
            "node.event",
            json!(7),
            error("invalid node.event params: at root: must be object"),
        ),
    ];
    for (name, method, params, expect) in cases {
        let answer = line.ask(method, params).await;
        assert_eq!(answer["error"], expect, "{name}");
    }
    // These are taken, and change nothing.
    for (name, method, params, expect) in [
        (
            "an answer to a call that never was",
            "node.invoke.result",
            answer_params("never", &id, Ok(json!({}))),
            json!({"ok": true, "ignored": true}),
        ),
        (
            "an event with a payload too deep to read",
            "node.event",
            json!({"event": "x", "payloadJSON": format!("{}{}", "[".repeat(500), "]".repeat(500))}),
            json!({"ok": true, "event": "x", "handled": true}),
        ),
        (
            "the end of a run that nobody started",
            "node.event",
            json!({"event": "exec.finished", "payloadJSON": "{\"runId\":\"r\",\"sessionKey\":\"agent:main:main\"}"}),
            json!({"ok": true, "event": "exec.finished", "handled": false, "reason": "unmatched_exec_event"}),
        ),
    ] {
        assert_eq!(line.ask(method, params).await["payload"], expect, "{name}");
    }
    // Answers and events of its own mean nothing either.
    line.send(&json!({"type": "res", "id": "1", "ok": true})).await;
    line.send(&json!({"type": "event", "event": "node.pair.resolved", "payload": {"decision": "approved"}}))
        .await;
    let answer = line.ask("skills.bins", json!({})).await;
    assert_eq!(answer["payload"], json!({"bins": []}));
    // Asking for what is not a node's is tolerated ten times.
    for _ in 0..7 {
        line.post("node.list", json!({})).await;
    }
    assert_eq!(line.end().await.close().0, 1008);
    witness.is_served("a rogue node").await;
}

#[tokio::test]
async fn another_node_answers_a_call() {
    let server = TestServer::full().start().await;
    let victim = TestNode::join(&server, Device::new(&server, Speaks::Present), |_call| None).await;
    let rogue = Device::new(&server, Speaks::Present).named("rogue");
    pair(&server, &rogue).await;
    let mut line = Line::open(&server).await;
    line.connect(&rogue).await.unwrap();
    let mut operator = OperatorClient::new(&server.operator_token(), &["operator.admin"])
        .connect(&server)
        .await;
    let call = json!({"nodeId": victim.id(), "command": "system.which", "params": {"bins": ["sh"]}});
    let asked = operator.send("node.invoke", call).await;
    let id = victim.called(1).await[0].text("id").to_owned();
    let forged = || Ok(json!({"bins": {"sh": "/tmp/evil"}}));
    let answer = line
        .ask("node.invoke.result", answer_params(&id, &victim.id(), forged()))
        .await;
    assert_eq!(answer["error"]["message"], "nodeId mismatch");
    let answer = line
        .ask("node.invoke.result", answer_params(&id, &rogue.id(), forged()))
        .await;
    assert_eq!(answer["payload"], json!({"ok": true, "ignored": true}));
    victim.answer(&id, Ok(json!({"bins": {"sh": "/bin/sh"}})));
    let answer = operator.answer(&asked).await;
    assert_eq!(answer["payload"]["payload"], json!({"bins": {"sh": "/bin/sh"}}));
}

#[tokio::test]
async fn frames_after_the_handshake_that_end_it() {
    let server = TestServer::full()
        .toml("[bridge]\nmax_frame_bytes = 65536\n")
        .start()
        .await;
    let mut witness = Witness::begin(&server).await;
    let device = Device::new(&server, Speaks::Present).named("rogue");
    pair(&server, &device).await;
    let cases: Vec<(&str, Message, u16)> = vec![
        ("a binary frame", Message::binary(b"{}".as_slice()), 1003),
        ("a frame over the limit", Message::text("x".repeat(65_537)), 1009),
        ("no JSON", Message::text("x"), 1008),
        ("a frame that is none", Message::text("{}"), 1008),
        ("too deep", Message::text(deep(65)), 1008),
        (
            "the same member twice",
            Message::text(r#"{"type":"req","id":"1","id":"2","method":"skills.bins"}"#),
            1008,
        ),
    ];
    for (name, message, code) in cases {
        let mut line = Line::open(&server).await;
        line.connect(&device).await.unwrap();
        line.send_message(message).await;
        assert_eq!(line.end().await.close().0, code, "{name}");
        witness.is_served(name).await;
    }
}

#[tokio::test]
async fn an_operator_announces_no_more_than_operators_have_to_say() {
    let server = TestServer::full().start().await;
    let mut witness = Witness::begin(&server).await;
    let mut wire = Wire::open(&server).await;
    let connect = json!({"type": "req", "id": "c", "method": "connect", "params": {
        "minProtocol": 4, "maxProtocol": 4, "role": "operator", "scopes": ["operator.write"], "caps": [],
        "client": {"id": "cli", "version": "2026.9.6", "platform": "linux", "mode": "cli"},
        "auth": {"token": server.gateway_token()},
    }});
    wire.frame(TEXT, connect.to_string().as_bytes()).await;
    let mut announced = vec![TEXT, 0xff];
    announced.extend((4_u64 * 1024 * 1024 + 1).to_be_bytes());
    announced.extend([0; 4]);
    wire.bytes(&announced).await;
    assert_eq!(wire.close_code().await, Some(1009));
    witness
        .is_served("a frame that is too long for an operator")
        .await;
}

#[tokio::test]
async fn thousands_of_questions_get_one_answer_each() {
    const QUESTIONS: usize = 3000;
    let server = TestServer::full().start().await;
    let device = Device::new(&server, Speaks::Present);
    pair(&server, &device).await;
    let mut line = Line::open(&server).await;
    line.connect(&device).await.unwrap();
    let mut asked = Vec::new();
    for number in 0..QUESTIONS {
        asked.push(
            line.post("node.event", json!({"event": format!("e{number}")}))
                .await,
        );
    }
    for id in asked {
        let answer = line.hear().await.frame();
        assert_has!(answer, { "id": id, "ok": true });
    }
}

#[tokio::test]
async fn who_never_reads_is_cut_off() {
    let server = TestServer::full()
        .toml("[bridge]\nmax_buffer_bytes = 65536\n")
        .start()
        .await;
    let mut witness = Witness::begin(&server).await;
    let device = Device::new(&server, Speaks::Present).named("deaf");
    pair(&server, &device).await;
    let mut wire = Wire::open(&server).await;
    let params = wire.connect_params(&device).await;
    let connect = json!({"type": "req", "id": "c", "method": "connect", "params": params});
    wire.frame(TEXT, connect.to_string().as_bytes()).await;
    let mut events = server.operator().events("?types=node.disconnected", None).await;
    let question = json!({"type": "req", "id": "q".repeat(200), "method": "m".repeat(200)}).to_string();
    let flood = async {
        for _ in 0..1_000_000 {
            wire.frame(TEXT, question.as_bytes()).await;
        }
    };
    let gone = tokio::select! {
        gone = events.next_of("node.disconnected") => gone,
        () = flood => panic!("a million questions were taken and nobody was cut off"),
    };
    assert_eq!(gone.data["nodeId"], json!(device.id()));
    assert_eq!(gone.data["reason"], "closed");
    witness.is_served("a node that does not read").await;
}
