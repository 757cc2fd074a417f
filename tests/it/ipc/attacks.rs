//! Hostile peers of the socket: whatever they send, nothing runs that should not, nothing that may have been a question
//! ends in silence, and everybody else is served meanwhile.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::support::{Asker, mac, nonce, now_ms, replies};
use crate::support::{
    Invocation, Members, NOBODY, TestServer, eventually, is_root, lines, program, run_program, skip, within,
    write_file_mode,
};

/// What comes back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ExpectedReply {
    /// The pair for lines whose kind is unknown.
    Pair(&'static str),
    /// A refusal of a command, with its reason.
    Refused(&'static str),
    /// A denial of a question.
    Denied,
}

#[track_caller]
fn expect(name: &str, lines: &[Value], expected: ExpectedReply) {
    match (expected, lines) {
        (ExpectedReply::Pair(reason), [decision, result]) => {
            assert_eq!(
                *decision,
                json!({ "type": "decision", "id": "", "decision": "deny" }),
                "{name}"
            );
            assert_eq!(result["error"]["reason"], reason, "{name}");
        }
        (ExpectedReply::Refused(reason), [result]) => {
            assert_has!(result, { "type": "exec-res", "ok": false }, "{name}: {result}");
            assert_eq!(result["error"]["reason"], reason, "{name}");
        }
        (ExpectedReply::Denied, [decision]) => assert_eq!(decision["decision"], "deny", "{name}"),
        _ => panic!("{name}: {lines:?}"),
    }
}

/// A line with a right proof over a request text of any kind.
fn signed(asker: &Asker, request_json: &str) -> String {
    let (nonce, ts) = (nonce(), now_ms());
    let hmac = mac(&asker.token, &format!("{nonce}:{ts}:{request_json}"));
    json!({ "type": "exec", "id": "x", "nonce": nonce, "ts": ts, "hmac": hmac, "requestJson": request_json })
        .to_string()
}

#[tokio::test]
async fn hostile_lines() {
    let server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    let marker = server.scratch().join("ran");
    let touch = json!({ "command": ["touch", marker] });
    let good = |request: &Value| asker.exec_line("x", request);
    let replace = |from: &str, to: &str| good(&touch).replacen(from, to, 1);
    let now = now_ms();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let forged = {
        let mut line: Value = serde_json::from_str(&good(&touch)).unwrap();
        line["hmac"] = json!("0".repeat(64));
        line.to_string()
    };
    let upper = {
        let mut line: Value = serde_json::from_str(&good(&touch)).unwrap();
        line["hmac"] = json!(line.text("hmac").to_uppercase());
        line.to_string()
    };
    let swapped = {
        let mut line: Value = serde_json::from_str(&good(&json!({ "command": ["true"] }))).unwrap();
        line["requestJson"] = json!(touch.to_string());
        line.to_string()
    };
    let other_token = Asker {
        token: "another".to_owned(),
        ..asker.clone()
    };
    let question = |request: &str| {
        format!(
            r#"{{"type":"request","token":"{}","id":"q","request":{request}}}"#,
            asker.token
        )
    };
    let table: Vec<(&str, Vec<u8>, ExpectedReply)> = vec![
        ("huge line", vec![b'a'; 1_000_000], ExpectedReply::Pair("size")),
        (
            "one byte too long",
            [vec![b' '; 256_001], b"\n".to_vec()].concat(),
            ExpectedReply::Pair("size"),
        ),
        ("deep line", deep.clone().into(), ExpectedReply::Pair("json")),
        (
            "deep member",
            format!(r#"{{"type":"exec","id":"x","nonce":{deep}}}"#).into(),
            // Its kind is known all the same.
            ExpectedReply::Refused("json"),
        ),
        (
            "bad UTF-8",
            b"{\"type\":\"exec\",\"id\":\"\xff\xfe\"}".to_vec(),
            ExpectedReply::Pair("json"),
        ),
        ("NUL bytes", vec![0; 5000], ExpectedReply::Pair("json")),
        ("empty line", b"\n".to_vec(), ExpectedReply::Pair("json")),
        (
            "HTTP",
            b"POST /v1/exec HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            ExpectedReply::Pair("json"),
        ),
        (
            "two types",
            replace(r#""type":"exec""#, r#""type":"exec","type":"exec""#).into(),
            ExpectedReply::Pair("json"),
        ),
        (
            "unknown type",
            replace(r#""type":"exec""#, r#""type":"eval""#).into(),
            ExpectedReply::Pair("json"),
        ),
        (
            "second line of version 2 alone",
            replace(r#""type":"exec""#, r#""type":"exec2""#).into(),
            ExpectedReply::Pair("json"),
        ),
        (
            "two times",
            replace("\"ts\":", &format!("\"ts\":{now},\"ts\":")).into(),
            ExpectedReply::Refused("json"),
        ),
        (
            "two ids",
            replace(r#""id":"x""#, r#""id":"x","id":"y""#).into(),
            ExpectedReply::Refused("json"),
        ),
        (
            "time as text",
            replace("\"ts\":", "\"ts\":\"1\",\"t\":").into(),
            ExpectedReply::Refused("json"),
        ),
        (
            "time beyond 64 bits",
            replace("\"ts\":", "\"ts\":99999999999999999999,\"t\":").into(),
            ExpectedReply::Refused("json"),
        ),
        (
            "smallest time",
            asker.exec_line_at("x", &nonce(), i64::MIN, &touch).into(),
            ExpectedReply::Refused("ttl"),
        ),
        (
            "greatest time",
            asker.exec_line_at("x", &nonce(), i64::MAX, &touch).into(),
            ExpectedReply::Refused("ttl"),
        ),
        (
            "old line",
            asker.exec_line_at("x", &nonce(), now - 60_000, &touch).into(),
            ExpectedReply::Refused("ttl"),
        ),
        ("forged proof", forged.into(), ExpectedReply::Refused("hmac")),
        (
            "proof in upper case",
            upper.into(),
            ExpectedReply::Refused("hmac"),
        ),
        (
            "proof of another request",
            swapped.into(),
            ExpectedReply::Refused("hmac"),
        ),
        (
            "another token",
            other_token.exec_line("x", &touch).into(),
            ExpectedReply::Refused("hmac"),
        ),
        (
            "no nonce",
            asker.exec_line_at("x", "", now_ms(), &touch).into(),
            ExpectedReply::Refused("nonce"),
        ),
        (
            "two commands",
            signed(
                &asker,
                &format!(
                    r#"{{"command":["true"],"command":["touch","{}"]}}"#,
                    marker.display()
                ),
            )
            .into(),
            ExpectedReply::Refused("json"),
        ),
        (
            "escaped second command",
            signed(
                &asker,
                &format!(
                    r#"{{"command":["true"],"\u0063ommand":["touch","{}"]}}"#,
                    marker.display()
                ),
            )
            .into(),
            ExpectedReply::Refused("json"),
        ),
        (
            "no command",
            signed(&asker, r#"{"command":[]}"#).into(),
            ExpectedReply::Refused("invalid"),
        ),
        (
            "NUL in a word",
            signed(&asker, r#"{"command":["touch","a\u0000b"]}"#).into(),
            ExpectedReply::Refused("invalid"),
        ),
        (
            "another text than what runs",
            good(&json!({ "command": ["touch", marker], "rawCommand": "ls" })).into(),
            ExpectedReply::Refused("invalid"),
        ),
        (
            "a library for every program",
            good(&json!({ "command": ["touch", marker], "env": { "LD_PRELOAD": "/tmp/x.so" } })).into(),
            ExpectedReply::Refused("invalid"),
        ),
        (
            "another PATH",
            good(&json!({ "command": ["touch", marker], "env": { "PATH": "/tmp" } })).into(),
            ExpectedReply::Refused("invalid"),
        ),
        (
            "a shell's start-up file",
            good(&json!({ "command": ["touch", marker], "env": { "BASH_ENV": "/tmp/x" } })).into(),
            ExpectedReply::Refused("invalid"),
        ),
        (
            "a directory that is none",
            good(&json!({ "command": ["touch", marker], "cwd": "../.." })).into(),
            ExpectedReply::Refused("invalid"),
        ),
        (
            "an agent that is none",
            good(&json!({ "command": ["touch", marker], "agentId": "*" })).into(),
            ExpectedReply::Refused("invalid"),
        ),
        (
            "question with another token",
            other_token.request_line("q", &json!({ "command": "ls" })).into(),
            ExpectedReply::Denied,
        ),
        (
            "question without an id",
            question(r#"{"command":"ls"}"#).replace(r#""id":"q","#, "").into(),
            ExpectedReply::Denied,
        ),
        (
            "question with two commands",
            question(r#"{"command":"ls","command":"rm"}"#).into(),
            ExpectedReply::Denied,
        ),
        (
            "question about nothing",
            question(r#"{"command":"  "}"#).into(),
            ExpectedReply::Denied,
        ),
        (
            "question of a wrong kind",
            question("[]").into(),
            ExpectedReply::Denied,
        ),
        (
            "question with a long directory",
            question(&json!({ "command": "ls", "cwd": "x".repeat(5000) }).to_string()).into(),
            ExpectedReply::Denied,
        ),
        (
            "question that is too long",
            question(&json!({ "command": "x".repeat(200_000) }).to_string()).into(),
            ExpectedReply::Denied,
        ),
    ];
    assert!(table.len() >= 40);
    for (name, mut bytes, told) in table {
        if !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        expect(name, &asker.send_bytes(&bytes).await, told);
    }
    assert!(!marker.exists());
    assert_eq!(server.operator().pending().await, [] as [Value; 0]);
    asker.expect_alive().await;
}

#[tokio::test]
async fn a_line_counts_once() {
    let server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    let log = server.scratch().join("log");
    let request = json!({ "command": ["sh", "-c", format!("echo once >> {}", log.display())] });
    let line = asker.exec_line("x", &request);
    let all = futures_util::future::join_all((0..20).map(|_| asker.send(&line))).await;
    let ran = all.iter().filter(|lines| lines[0]["ok"] == true).count();
    assert_eq!(ran, 1);
    for lines in all.iter().filter(|lines| lines[0]["ok"] != true) {
        expect("replay", lines, ExpectedReply::Refused("replay"));
    }
    assert_eq!(lines(&log), ["once"]);
    // Two lines on one connection are one.
    let both = format!(
        "{}\n{}\n",
        asker.exec_line("a", &request),
        asker.exec_line("b", &request)
    );
    assert_eq!(asker.send_bytes(both.as_bytes()).await.len(), 1);
    assert_eq!(lines(&log), ["once", "once"]);
}

#[tokio::test]
async fn silent_and_slow_peers_hold_up_nobody() {
    let server = TestServer::full()
        .toml("[ipc]\nmax_connections = 10\nrate_limit = 0\n")
        .with_socket()
        .start()
        .await;
    let asker = Asker::of(&server);
    let mut slow = Vec::new();
    for _ in 0..9 {
        let mut stream = asker.connect().await;
        stream.write_all(b"{\"type\":").await.unwrap();
        slow.push(stream);
    }
    asker.expect_alive().await;
    slow.push(asker.connect().await);
    // Now there is no place left, and whoever comes is told so by its kind.
    let told = || async {
        asker
            .send(&asker.exec_line("x", &json!({ "command": ["true"] })))
            .await
    };
    let lines = eventually("limited", told, |lines| lines[0]["ok"] == false).await;
    expect("over the limit", &lines, ExpectedReply::Refused("rate-limit"));
    expect(
        "over the limit",
        &asker
            .send(&asker.request_line("q", &json!({ "command": "ls" })))
            .await,
        ExpectedReply::Denied,
    );
    // Half a line may have been a question: in the end it is answered as one.
    let first = &mut slow[0];
    expect("half a line", &replies(first).await, ExpectedReply::Pair("json"));
    // One that said nothing is closed without a word.
    assert_eq!(replies(&mut slow[9]).await, [] as [Value; 0]);
    drop(slow);
    eventually("alive", told, |lines| lines[0]["ok"] == true).await;
}

#[tokio::test]
async fn a_peer_that_reads_nothing_keeps_nobody_waiting() {
    let server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    let mut deaf = asker.connect().await;
    let line = asker.exec_line("x", &json!({ "command": ["sh", "-c", "yes é | head -c 400000"] }));
    deaf.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    asker.expect_alive().await;
    // And one that is gone before its answer is no reason to die of a signal.
    let mut gone = asker.connect().await;
    gone.write_all(b"not json\n").await.unwrap();
    drop(gone);
    asker.expect_alive().await;
    let all = replies(&mut deaf).await;
    let stdout = all[0]["payload"].text("stdout");
    assert!(
        stdout.starts_with("... (truncated) ")
            && stdout.len() <= 80_000
            && all[0].to_string().len() < 256_000
    );
}

#[tokio::test]
async fn a_flood_is_limited_and_a_session_has_so_many_prompts() {
    let server = TestServer::asking()
        .toml("[ipc]\nrate_limit = 1\nrate_burst = 6\nmax_prompts_per_session = 2\n")
        .with_socket()
        .start()
        .await;
    let asker = Asker::of(&server);
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = asker.connect().await;
        let line = asker.request_line("q", &json!({ "command": "ls", "sessionKey": "s" }));
        stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        open.push(stream);
    }
    eventually(
        "asked",
        || async { server.operator().pending().await.len() },
        |count| *count == 2,
    )
    .await;
    expect(
        "third prompt",
        &asker
            .send(&asker.request_line("q", &json!({ "command": "ls", "sessionKey": "s" })))
            .await,
        ExpectedReply::Denied,
    );
    let exec = asker.exec_line("x", &json!({ "command": ["ls"], "sessionKey": "s" }));
    expect(
        "third prompt",
        &asker.send(&exec).await,
        ExpectedReply::Refused("rate-limit"),
    );
    let more = futures_util::future::join_all((0..10).map(|_| asker.send("[]"))).await;
    assert!(more.iter().all(|lines| lines.len() == 2), "{more:?}");
    let limited = async {
        let text = server.operator().get("/metrics").await.text();
        let line = text
            .lines()
            .find(|line| line.starts_with("countersign_ipc_limited"))
            .expect("a metric")
            .to_owned();
        line.rsplit(' ')
            .next()
            .expect("a number")
            .parse::<u64>()
            .expect("a number")
    };
    assert!(limited.await > 0);
    assert_eq!(server.operator().pending().await.len(), 2);
}

#[tokio::test]
async fn a_peer_of_another_account_is_refused_unread() {
    or_skip!(is_root(), "another account can be had by root only");
    // One that the other account can run: the first of PATH may lie in root's own directory.
    let runs = |python: &PathBuf| {
        let nothing = Invocation::new(python).args(&["-c", "pass"]).run_as(NOBODY);
        run_program(&nothing).code == Some(0)
    };
    let mut pythons = std::iter::once(PathBuf::from("/usr/bin/python3")).chain(program("python3"));
    let Some(python) = pythons.find(|python| python.is_file() && runs(python)) else {
        return skip("python3 is not there for other accounts");
    };
    let mut server = TestServer::full().with_socket().prepare();
    // A place that others can reach and not change, and then a socket that somebody opened to them.
    let outside = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = outside.path().join("s.sock");
    server.edit_document(
        &json!({ "version": 1, "socket": { "path": path, "token": "known-to-all" }, "agents": {} })
            .to_string(),
    );
    write_file_mode(
        &server.state().join("countersign/countersign.toml"),
        "[ipc]\nrole = \"host\"\n",
        0o600,
    );
    server.start().await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let asker = Asker {
        path: path.clone(),
        token: "known-to-all".to_owned(),
    };
    let marker = server.scratch().join("ran");
    let line = asker.exec_line("x", &json!({ "command": ["touch", marker] }));
    let script = format!(
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect({path:?})\ntry:\n s.sendall({line:?}.encode()+b'\\n')\n\
         except OSError: pass\ndata=b''\nwhile True:\n d=s.recv(65536)\n if not d: break\n data+=d\nsys.stdout.write(data.decode())"
    );
    let foreign = Invocation::new(python).args(&["-c", &script]).run_as(NOBODY);
    let told = TestServer::finish(foreign).await;
    let lines: Vec<Value> = told
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["decision"], "deny");
    assert_ne!(lines[0]["id"], "x");
    assert_eq!(lines[1]["error"]["reason"], "peer");
    assert!(!marker.exists());
    asker.expect_alive().await;
    server.stop().await;
}

#[tokio::test]
async fn a_token_that_was_changed_from_outside_opens_nothing() {
    let server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    // A command ran, so what is edited from outside is held.
    asker.expect_alive().await;
    let mut document = server.document_on_disk();
    document["socket"]["token"] = json!("of-the-attacker");
    server.edit_document(&document.to_string());
    let attacker = Asker {
        token: "of-the-attacker".to_owned(),
        ..asker.clone()
    };
    let reply = attacker.exec(&json!({ "command": ["true"] })).await;
    assert_eq!(reply["error"]["reason"], "hmac", "{reply}");
    assert_eq!(asker.exec(&json!({ "command": ["true"] })).await["ok"], true);
}

#[tokio::test]
async fn a_challenge_is_good_for_one_line() {
    let server = TestServer::full().with_socket().start().await;
    let asker = Asker::of(&server);
    let hello =
        json!({ "type": "hello", "v": 2, "id": "h", "clientNonce": nonce(), "ts": now_ms() }).to_string();
    for after in [
        "",
        "[]",
        &hello,
        &asker.exec_line("x", &json!({ "command": ["true"] })),
    ] {
        let mut stream = asker.connect().await;
        stream.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
        assert!(
            super::support::read_line(&mut stream)
                .await
                .unwrap()
                .contains("challenge")
        );
        stream.write_all(format!("{after}\n").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        expect(after, &replies(&mut stream).await, ExpectedReply::Pair("json"));
    }
    // An opening that promises more than it is gets no challenge.
    for bad in [
        hello.replace("\"v\":2", "\"v\":3"),
        hello.replace("\"v\":2", "\"v\":\"2\""),
        hello.replace("clientNonce\":\"", "clientNonce\":\"zz"),
    ] {
        expect(&bad, &asker.send(&bad).await, ExpectedReply::Pair("json"));
    }
    let mut idle = asker.connect().await;
    idle.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
    asker.expect_alive().await;
    let mut rest = Vec::new();
    within("the end of its time", idle.read_to_end(&mut rest))
        .await
        .unwrap();
}
