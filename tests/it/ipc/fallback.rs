//! `askFallback` in every situation of its table, live: the only one who could answer is a UI at the socket that somebody
//! else hosts, and it is not there, does not answer, or is not who it should be.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, atomic::Ordering},
};

use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, net::UnixStream};

use super::support::{Deed, FakeUi, mac, nonce, write_lines};
use crate::support::{Answer, Members, TestServer, eventually, soon};

const TOKEN: &str = "c29ja2V0LXRva2VuLW9mLXRlc3Rz";

/// What silence comes to: agent, and the reason of the denial, or that it runs.
type Row = (&'static str, Result<(), &'static str>);

/// Nobody could be reached.
const NOBODY: [Row; 6] = [
    ("deny", Err("no-approver")),
    ("match", Ok(())),
    ("miss", Err("allowlist-miss")),
    ("full", Ok(())),
    ("clamped-miss", Err("allowlist-miss")),
    ("clamped-match", Ok(())),
];

/// The time ran out.
const TIMEOUT: [Row; 6] = [
    ("deny", Err("approval-timeout")),
    ("match", Ok(())),
    ("miss", Err("allowlist-miss")),
    ("full", Ok(())),
    ("clamped-miss", Err("allowlist-miss")),
    ("clamped-match", Ok(())),
];

/// A server that has another UI, with an agent for every row. What `uname` runs is on the allowlist of some.
async fn server(toml: &str) -> TestServer {
    let covered =
        json!([{ "id": "e1", "pattern": "/usr/bin/uname" }, { "id": "e2", "pattern": "/bin/uname" }]);
    let agent = |security: &str, fallback: &str, allowlist: &Value| json!({ "security": security, "ask": "always", "askFallback": fallback, "allowlist": allowlist });
    let none = json!([]);
    TestServer::full()
        .exec(&json!({ "host": "gateway", "security": "full", "ask": "always" }))
        .document(&json!({
            "version": 1,
            "socket": { "token": TOKEN },
            "agents": {
                "deny": agent("full", "deny", &covered),
                "match": agent("full", "allowlist", &covered),
                "miss": agent("full", "allowlist", &none),
                "full": agent("full", "full", &none),
                "clamped-miss": agent("allowlist", "full", &none),
                "clamped-match": agent("allowlist", "full", &covered),
            },
        }))
        .toml(&format!("[ipc]\nrole = \"client\"\n{toml}"))
        .with_socket()
        .start()
        .await
}

fn socket(server: &TestServer) -> PathBuf {
    server.state().join("exec-approvals.sock")
}

async fn run_of(server: &TestServer, agent: &str) -> Answer {
    server
        .agent()
        .exec(json!({ "argv": ["uname"], "agentId": agent, "approvalWaitMs": 60_000 }))
        .await
}

#[track_caller]
fn expect(answer: &Answer, (agent, expected): Row) {
    match expected {
        Ok(()) => assert_eq!(answer.expect(200)["status"], "completed", "{agent}"),
        Err(reason) => assert_eq!(answer.problem(403, "exec-denied")["reason"], reason, "{agent}"),
    }
}

async fn expect_rows(server: &TestServer, rows: &[Row]) {
    for row in rows {
        expect(&run_of(server, row.0).await, *row);
    }
}

/// One that writes lines made of the question's id, and closes.
fn says(lines: fn(&str) -> Vec<String>) -> Deed {
    Arc::new(move |line: Value, stream| {
        let lines = lines(line["id"].as_str().unwrap_or_default());
        Box::pin(async move { write_lines(stream, &lines).await })
    })
}

fn decision(id: &str, word: &str) -> String {
    json!({ "type": "decision", "id": id, "decision": word }).to_string()
}

/// One that answers with the opening of version 2, under a token.
fn challenges(token: &'static str) -> Deed {
    Arc::new(move |hello: Value, stream| {
        Box::pin(async move {
            let (id, client, own) = (hello.text("id"), hello.text("clientNonce"), nonce());
            let proof = mac(token, &format!("countersign-ipc/2:server:{id}:{client}:{own}"));
            let challenge = json!({ "type": "challenge", "v": 2, "id": id, "serverNonce": own, "ttlMs": 10000,
                "maxBytes": 256_000, "proof": proof });
            write_lines(stream, &[challenge.to_string()]).await;
        })
    })
}

fn never() -> Deed {
    Arc::new(|line, _stream| Box::pin(async move { panic!("it was sent {line}") }))
}

#[tokio::test]
async fn without_a_ui_the_fallback_counts_at_once() {
    let server = server("").await;
    expect_rows(&server, &NOBODY).await;
    // A leftover of one that died.
    drop(std::os::unix::net::UnixListener::bind(socket(&server)).unwrap());
    expect_rows(&server, &NOBODY).await;
}

#[tokio::test]
async fn a_ui_that_closes_without_a_reply_was_not_there() {
    let server = server("").await;
    let ui = FakeUi::plain(&socket(&server), says(|_id| Vec::new()));
    expect_rows(&server, &NOBODY).await;
    // One opening, and then what it is is known: an opening, six questions.
    assert_eq!(ui.lines.load(Ordering::SeqCst), 1 + NOBODY.len());
    let pending = server.operator().pending().await;
    assert_eq!(pending, [] as [Value; 0]);
}

#[tokio::test]
async fn what_is_no_answer_that_counts_is_none() {
    let server = server("").await;
    let garbage: [fn(&str) -> Vec<String>; 5] = [
        |_id| {
            vec![
                "garbage".to_owned(),
                String::new(),
                "[]".to_owned(),
                "{".to_owned(),
            ]
        },
        |_id| vec![decision("another", "allow-once"), decision("", "allow-always")],
        |id| vec![json!({ "type": "exec-res", "id": id, "ok": true, "decision": "allow-once" }).to_string()],
        |id| vec![json!({ "type": "Decision", "id": id, "decision": "allow-once" }).to_string()],
        // More than anybody reads, with an allow behind it.
        |id| vec!["x".repeat(17 << 20), decision(id, "allow-once")],
    ];
    for lines in garbage {
        let _ui = FakeUi::plain(&socket(&server), says(lines));
        expect_rows(&server, &NOBODY[..1]).await;
    }
    let _ui = FakeUi::plain(&socket(&server), says(garbage[1]));
    expect_rows(&server, &NOBODY).await;
}

#[tokio::test]
async fn an_answer_that_counts_comes_before_every_fallback() {
    let server = server("").await;
    for (lines, expected) in [
        (
            (|id| vec![decision(id, "allow-once")]) as fn(&str) -> Vec<String>,
            Ok(()),
        ),
        (|id| vec![decision(id, "allow-always")], Ok(())),
        (|id| vec![decision(id, "deny")], Err("user-denied")),
        (|_id| vec![decision("a-random-one", "deny")], Err("user-denied")),
        (|id| vec![decision(id, "perhaps")], Err("user-denied")),
        // Nothing else in a line hides a deny.
        (
            |id| {
                vec![json!({ "type": "decision", "id": id, "decision": "deny", "error": "closed", "ok": "no" }).to_string()]
            },
            Err("user-denied"),
        ),
        (
            |_id| vec![json!({ "type": "decision", "id": 5, "decision": null }).to_string()],
            Err("user-denied"),
        ),
        (
            |_id| {
                vec![
                    r#"{"type":"decision","decision":"deny","note":"\ud83d","n":1e999,"id":1,"id":2}"#
                        .to_owned(),
                ]
            },
            Err("user-denied"),
        ),
        (
            |id| {
                vec![format!(
                    "{{\"type\":\"decision\",\"id\":\"{id}\",\"decision\":\"allow-once\",\"decision\":\"deny\"}}"
                )]
            },
            Err("user-denied"),
        ),
        // The first one counts.
        (
            |id| vec![decision(id, "deny"), decision(id, "allow-once")],
            Err("user-denied"),
        ),
        (
            |id| vec![decision(id, "allow-once"), decision(id, "deny")],
            Ok(()),
        ),
        (|id| vec!["noise".to_owned(), decision(id, "allow-once")], Ok(())),
    ] {
        let _ui = FakeUi::plain(&socket(&server), says(lines));
        for (agent, _) in NOBODY {
            expect(&run_of(&server, agent).await, (agent, expected));
        }
    }
    let approvals = server.operator().read("/v1/approvals?status=allowed").await;
    assert_eq!(approvals["items"][0]["resolvedBy"]["kind"], "ipc");
}

#[tokio::test]
async fn a_ui_that_hangs_is_waited_for_until_the_deadline() {
    let server = server("[approvals]\ntimeout_ms = 1000\n").await;
    let hangs: Deed = Arc::new(|_line, mut stream: UnixStream| {
        Box::pin(async move {
            // Until the question is withdrawn.
            drop(stream.read(&mut [0; 16]).await);
            drop(stream.read_to_end(&mut Vec::new()).await);
            std::future::pending::<()>().await;
        })
    });
    let _ui = FakeUi::plain(&socket(&server), hangs);
    let all = NOBODY.map(|(agent, _)| run_of(&server, agent));
    for (answer, row) in futures_util::future::join_all(all).await.iter().zip(TIMEOUT) {
        expect(answer, row);
    }
}

#[tokio::test]
async fn an_answer_after_the_deadline_changes_nothing() {
    let server = server("[approvals]\ntimeout_ms = 1000\n").await;
    let operator = server.operator();
    let late: Deed = Arc::new(move |line: Value, stream| {
        let operator = operator.clone();
        Box::pin(async move {
            let expired = || async { operator.read("/v1/approvals?status=expired").await };
            eventually("expired", expired, |page| !page.list("items").is_empty()).await;
            write_lines(stream, &[decision(line.text("id"), "allow-once")]).await;
        })
    });
    let _ui = FakeUi::plain(&socket(&server), late);
    let answer = run_of(&server, "deny").await;
    let problem = answer.problem(403, "exec-denied");
    assert_eq!(problem["reason"], "approval-timeout");
    let run = server.operator().run(problem.text("runId")).await;
    assert_eq!(run["status"], "denied");
}

#[tokio::test]
async fn whoever_does_not_know_the_token_is_an_impostor() {
    let server = server("").await;
    // It knows version 2 and not the token: nothing more is said to it, and the plain form least of all.
    let ui = FakeUi::with(&socket(&server), challenges("another-token"), never());
    expect_rows(&server, &NOBODY).await;
    assert_eq!(ui.lines.load(Ordering::SeqCst), NOBODY.len());
    drop(ui);
    // It proves the token for another opening.
    let replays: Deed = Arc::new(|_hello, stream| {
        Box::pin(async move {
            let proof = mac(TOKEN, "countersign-ipc/2:server:old:old:old");
            let challenge = json!({ "type": "challenge", "v": 2, "id": "old", "serverNonce": "old", "ttlMs": 10000,
                "maxBytes": 256_000, "proof": proof });
            write_lines(stream, &[challenge.to_string()]).await;
        })
    });
    let ui = FakeUi::with(&socket(&server), replays, never());
    expect_rows(&server, &NOBODY).await;
    assert_eq!(ui.lines.load(Ordering::SeqCst), NOBODY.len());
}

#[tokio::test]
async fn a_sealed_answer_without_its_proof_is_none() {
    let server = server("").await;
    let forges: Deed = Arc::new(|hello: Value, mut stream| {
        Box::pin(async move {
            let (id, client, own) = (hello.text("id"), hello.text("clientNonce"), nonce());
            let proof = mac(TOKEN, &format!("countersign-ipc/2:server:{id}:{client}:{own}"));
            let challenge = json!({ "type": "challenge", "v": 2, "id": id, "serverNonce": own, "ttlMs": 10000,
                "maxBytes": 256_000, "proof": proof });
            tokio::io::AsyncWriteExt::write_all(&mut stream, format!("{challenge}\n").as_bytes())
                .await
                .unwrap();
            let second = super::support::read_line(&mut stream).await.unwrap();
            let second: Value = serde_json::from_str(&second).unwrap();
            let asked = second.text("id");
            let body = decision(asked, "allow-once");
            let sealed =
                json!({ "type": "decision", "id": asked, "bodyJson": body, "proof": mac("another", &body) });
            write_lines(stream, &[body, sealed.to_string()]).await;
        })
    });
    let ui = FakeUi::with(&socket(&server), forges, never());
    expect_rows(&server, &NOBODY).await;
    assert_eq!(ui.lines.load(Ordering::SeqCst), NOBODY.len());
}

#[tokio::test]
async fn a_plain_peer_is_not_asked_where_version_2_is_required() {
    let server = server("require_v2 = true\n").await;
    let ui = FakeUi::plain(&socket(&server), never());
    expect_rows(&server, &NOBODY).await;
    // It may know more the next time, and is told nothing until then.
    assert_eq!(ui.lines.load(Ordering::SeqCst), NOBODY.len());
}

#[tokio::test]
async fn a_socket_that_others_could_have_put_there_gets_nothing() {
    let server = server("").await;
    let real = server.scratch().join("real.sock");
    let ui = FakeUi::with(&real, never(), never());
    std::os::unix::fs::symlink(&real, socket(&server)).unwrap();
    expect_rows(&server, &NOBODY[..2]).await;
    assert_eq!(ui.lines.load(Ordering::SeqCst), 0);
    std::fs::remove_file(socket(&server)).unwrap();
    let ui = FakeUi::with(&socket(&server), never(), never());
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(server.state(), open).unwrap();
    expect_rows(&server, &NOBODY[..2]).await;
    assert_eq!(ui.lines.load(Ordering::SeqCst), 0);
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(server.state(), private).unwrap();
}

#[tokio::test]
async fn page_and_socket_are_asked_at_once_and_the_first_answer_counts() {
    let server = server("").await;
    let mut events = server.operator().events("?types=exec.approval", None).await;
    let questioned = Arc::new(tokio::sync::Notify::new());
    let withdrawn = Arc::new(tokio::sync::Notify::new());
    let (hears, told) = (Arc::clone(&questioned), Arc::clone(&withdrawn));
    let waits: Deed = Arc::new(move |_line, stream: UnixStream| {
        let (hears, told) = (Arc::clone(&hears), Arc::clone(&told));
        Box::pin(async move {
            hears.notify_one();
            // Half a close comes with the question; a whole one is its withdrawal.
            soon("withdrawn", || is_gone(&stream), |gone| *gone).await;
            told.notify_one();
        })
    });
    let _ui = FakeUi::plain(&socket(&server), waits);
    let asked = tokio::spawn({
        let api = server.agent();
        async move {
            api.exec(json!({ "argv": ["uname"], "agentId": "deny", "approvalWaitMs": 60_000 }))
                .await
        }
    });
    let event = events.next_of("exec.approval.requested").await;
    let id = event.data.text("approvalId").to_owned();
    // Whom nobody has asked yet, nobody tells that it is over: the line that opens the talk is no question.
    crate::support::within("the question over the socket", questioned.notified()).await;
    server.operator().decided(&id, "allow-once").await;
    assert_eq!(asked.await.unwrap().expect(200)["status"], "completed");
    crate::support::within("the withdrawal", withdrawn.notified()).await;
}

/// One that keeps the question that it is asked, and says yes.
fn keeps(kept: &Arc<Mutex<Value>>) -> Deed {
    let kept = Arc::clone(kept);
    Arc::new(move |line: Value, stream| {
        *kept.lock().unwrap() = line["request"].clone();
        let lines = [decision(line["id"].as_str().unwrap_or_default(), "allow-once")];
        Box::pin(async move { write_lines(stream, &lines).await })
    })
}

#[tokio::test]
async fn the_environment_is_in_what_the_ui_is_asked() {
    let server = server("").await;
    let kept = Arc::default();
    let _ui = FakeUi::plain(&socket(&server), keeps(&kept));
    for (body, text) in [
        (
            json!({ "argv": ["uname", "-s"], "env": { "COMPILER_LABEL": "/x", "NOTE": "a b" } }),
            "COMPILER_LABEL=⟨not shown⟩ NOTE=⟨not shown⟩ uname -s",
        ),
        (
            json!({ "command": "uname; uname", "env": { "COMPILER_LABEL": "/x" } }),
            "export COMPILER_LABEL=⟨not shown⟩; uname; uname",
        ),
    ] {
        let mut body = body;
        body["agentId"] = json!("deny");
        body["approvalWaitMs"] = json!(60_000);
        assert_eq!(server.ran(body).await["status"], "completed");
        assert_eq!(kept.lock().unwrap()["command"], text);
    }
}

#[tokio::test]
async fn a_command_that_is_cut_for_the_ui_is_not_allowed_by_it() {
    let server = server("").await;
    let kept = Arc::default();
    let _ui = FakeUi::plain(&socket(&server), keeps(&kept));
    let ran = server.scratch().join("ran");
    let command = format!(
        "true {}; echo ran >> {}; true {}",
        "x".repeat(9_000),
        ran.display(),
        "y".repeat(9_000)
    );
    let body = json!({ "command": command, "agentId": "deny", "approvalWaitMs": 60_000 });
    let denied = server.agent().exec(body).await;
    assert_eq!(denied.problem(403, "exec-denied")["reason"], "no-approver");
    let asked = kept.lock().unwrap().clone();
    assert_eq!(asked["allowedDecisions"], json!(["deny"]));
    let shown = asked.text("command");
    assert!(
        shown.len() < 17_000 && !shown.contains("echo ran"),
        "{}",
        shown.len()
    );
    assert!(!ran.exists());
}

fn is_gone(stream: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut descriptors = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut descriptors, Some(&now)).expect("looking at a socket");
    descriptors[0].revents().contains(PollFlags::HUP)
}
