//! What the agent's session is told when a background run has ended.

use serde_json::{Value, json};

use super::{act, ended, start, start_with};
use crate::support::{EventStream, Members, TestServer};

/// The two events of one end, which come together.
async fn next_notification(events: &mut EventStream) -> (Value, Value) {
    let event = events.next_of("system.event").await;
    let wake = events.next().await;
    assert_eq!(wake.kind, "session.wake");
    assert!(wake.id > event.id);
    (event.data, wake.data)
}

#[tokio::test]
async fn the_end_of_a_background_run_is_told_with_its_output() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let mut events = api.events("?types=system.,session.", None).await;
    // Neither is told: a foreground run, a silent success.
    api.ran(json!({ "command": "echo seen" })).await;
    let silent = start(&api, "true").await;
    ended(&api, &silent).await;
    let body =
        json!({ "command": "echo built; exit 2", "background": true, "sessionKey": "agent:main:chat" });
    let id = start_with(&api, body).await;
    let session = ended(&api, &id).await;
    let run = session.text("runId").to_owned();
    let (event, wake) = next_notification(&mut events).await;
    let line = format!("Exec finished (gateway, id={run}, code=2)\nbuilt");
    assert_has!(event, { "type": "system.event", "runId": run, "agentId": "main", "sessionKey": "agent:main:chat",
    "host": "gateway", "text": line });
    assert_has!(wake, { "type": "session.wake", "runId": run, "sessionKey": "agent:main:chat", "reason": "exec-finished",
    "systemEvent": line });
}

#[tokio::test]
async fn time_limits_and_signals_are_told_as_such() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let mut events = api.events("?types=system.,session.", None).await;
    let body = json!({ "command": "sleep 1000", "background": true, "timeout": 0.2 });
    let late = start_with(&api, body).await;
    let (event, _) = next_notification(&mut events).await;
    assert!(event.text("text").ends_with(", code=timeout)"), "{event}");
    assert_eq!(ended(&api, &late).await["timedOut"], true);
    let killed = start(&api, "sleep 1000").await;
    act(&api, "kill", &killed, json!({})).await.expect(200);
    let (event, _) = next_notification(&mut events).await;
    assert!(event.text("text").ends_with(", signal=SIGTERM)"), "{event}");
}

#[tokio::test]
async fn settings_say_what_is_told() {
    let exec = |notify: bool, silent: bool| {
        json!({ "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off", "notifyOnExit": notify,
            "notifyOnExitEmptySuccess": silent } } })
    };
    let server = TestServer::full().config(&exec(false, false)).start().await;
    let api = server.agent();
    let mut events = api.events("?types=system.,session.,policy.", None).await;
    let untold = start(&api, "echo loud").await;
    ended(&api, &untold).await;
    server.edit_config(&exec(true, true).to_string());
    // The change is seen with the next look at the settings.
    let told_now = start(&api, "true").await;
    let run = ended(&api, &told_now).await.text("runId").to_owned();
    let event = events.next_of("system.event").await;
    assert_has!(event.data, { "text": format!("Exec finished (gateway, id={run}, code=0)") });
}
