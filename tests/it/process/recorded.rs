//! What is written to a session stands in the audit chain.

use serde_json::{Value, json};

use super::{act, ended, start, start_with, wrote};
use crate::support::{Members, Scratch, SmallDisk, TestServer, only, sha256};

/// The records of what was written, oldest first.
async fn recorded(server: &TestServer) -> Vec<Value> {
    let answer = server
        .operator()
        .get("/v1/audit?action=process.input&limit=500")
        .await;
    answer.expect(200)["items"].as_array().cloned().expect("items")
}

async fn write(server: &TestServer, session: &str, data: &str) {
    act(&server.agent(), "write", session, json!({ "data": data }))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_write_into_a_pipe_is_recorded_with_its_hash_and_without_its_text() {
    let server = TestServer::full().start().await;
    let session = start(&server.agent(), "cat").await;
    write(&server, &session, "hunter2\n").await;
    act(
        &server.agent(),
        "write",
        &session,
        json!({ "data": "", "eof": true }),
    )
    .await
    .expect(200);
    let session_ended = ended(&server.agent(), &session).await;
    let records = recorded(&server).await;
    let [first, last] = records.as_slice() else {
        panic!("{records:#?}")
    };
    assert_has!(first, { "detail": { "sessionId": session, "bytes": 8, "sha256": sha256(b"hunter2\n") } });
    assert_eq!(
        only(first, &["outcome", "target"]),
        json!({ "outcome": "ok", "target": { "kind": "run", "id": session_ended["runId"] } })
    );
    assert_has!(first, { "actor/kind": "token", "actor/name": "gateway" });
    assert_has!(last, { "detail": { "sessionId": session, "bytes": 0, "sha256": sha256(b""), "eof": true } });
    let verified = server.operator().read("/v1/audit/verify").await;
    assert_eq!(verified["ok"], true, "{verified}");
}

#[tokio::test]
async fn what_a_terminal_shows_is_recorded_masked_and_what_it_hides_is_not() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let command =
        "echo ready; read shown; stty -echo; echo hidden; read secret; stty echo; echo end; read last";
    let call = json!({ "command": command, "background": true, "pty": true });
    let session = start_with(&api, call).await;
    wrote(&api, &session, 7).await;
    write(&server, &session, "use --token abcdef123\n").await;
    // The text, shown as it was typed, and then the next word.
    wrote(&api, &session, 7 + 23 + 8).await;
    write(&server, &session, "hunter2\n").await;
    wrote(&api, &session, 7 + 23 + 8 + 5).await;
    act(
        &api,
        "send-keys",
        &session,
        json!({ "literal": "bye", "keys": ["Enter"] }),
    )
    .await
    .expect(200);
    ended(&api, &session).await;
    let records = recorded(&server).await;
    let texts: Vec<&Value> = records.iter().map(|record| &record["detail"]["text"]).collect();
    assert_eq!(
        texts,
        [
            &json!("use --token ⟨secret of 9 characters⟩\n"),
            &Value::Null,
            &json!("bye\r")
        ],
        "{records:#?}"
    );
    assert_eq!(records[1]["detail"]["sha256"], sha256(b"hunter2\n"));
}

#[tokio::test]
async fn nothing_is_written_to_a_command_that_cannot_be_recorded() {
    let place = Scratch::new();
    let disk_at = place.dir("disk");
    let disk = or_skip!(SmallDisk::mount(&disk_at));
    let server = TestServer::full().state_dir(&disk_at.join("state")).start().await;
    let api = server.agent();
    let session = start(&api, "cat").await;
    write(&server, &session, "before\n").await;
    wrote(&api, &session, 7).await;
    disk.fill_but(512 * 1024);
    api.exec(json!({ "argv": ["true"] }))
        .await
        .problem(507, "storage-full");
    let refused = act(&api, "write", &session, json!({ "data": "lost\n" })).await;
    refused.problem(507, "storage-full");
    disk.make_room();
    let again = || async {
        act(&api, "write", &session, json!({ "data": "after\n", "eof": true }))
            .await
            .status
    };
    crate::support::eventually("written again", again, |status| *status == 200).await;
    let session = ended(&api, &session).await;
    assert_eq!(session.text("tail"), "before\nafter\n");
    drop(server);
    drop(disk);
}
