//! `countersign approver --socket`: a person at a terminal is the UI, without any server.

use serde_json::json;

use super::support::Asker;
use crate::{
    approver::quits,
    support::{Members, Terminal, TestServer, soon},
};

#[tokio::test]
async fn a_terminal_answers_questions_and_runs_nothing() {
    let place = TestServer::full().prepare();
    let path = place.state().join("ui.sock");
    let approver = place
        .invocation(&["approver", "--socket", path.to_str().unwrap()])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh");
    let mut terminal = Terminal::start(approver);
    terminal.sees("answering at").await;
    let asker = Asker {
        path: path.clone(),
        token: place.document_on_disk()["socket"].text("token").to_owned(),
    };
    let reply = asker.exec(&json!({ "command": ["true"] })).await;
    assert_eq!(reply["error"]["code"], "UNAVAILABLE", "{reply}");
    let wrong = Asker {
        token: "another".to_owned(),
        ..asker.clone()
    };
    assert_eq!(wrong.ask(&json!({ "command": "ls" })).await, "deny");

    let asked = tokio::spawn({
        let asker = asker.clone();
        async move {
            asker
                .ask(&json!({ "command": "rm -rf \u{202e}build", "cwd": "/tmp" }))
                .await
        }
    });
    terminal.sees("rm -rf \\u{202E}build").await;
    terminal.press_until("a", "allow-once").await;
    assert_eq!(asked.await.unwrap(), "allow-once");

    // One that is left without an answer is denied.
    let asked = tokio::spawn({
        let asker = asker.clone();
        async move { asker.ask(&json!({ "command": "ls -la" })).await }
    });
    terminal.sees("ls -la").await;
    quits(terminal).await;
    assert_eq!(asked.await.unwrap(), "deny");
    soon("removed", || path.exists(), |exists| !exists).await;
}
