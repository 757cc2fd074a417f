//! The screen of a session's terminal as it comes: cells that the server drew, for those who may see the session.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{act, ended, start};
use crate::support::{Api, Event, EventStream, Members as _, TestServer, within};

async fn opened(api: &Api, session: &str) -> reqwest::Response {
    let path = format!("/v1/process/{session}/stream?encoding=screen");
    let request = api
        .request(reqwest::Method::GET, &path)
        .header("accept", "text/event-stream");
    within("the stream", request.send()).await.expect("the stream")
}

async fn screen(api: &Api, session: &str) -> Shown {
    let response = opened(api, session).await;
    assert_eq!(response.status().as_u16(), 200, "{response:?}");
    Shown {
        events: EventStream::new(response),
        rows: BTreeMap::new(),
        last: Value::Null,
        pictures: 0,
    }
}

async fn on_terminal(api: &Api, command: &str) -> String {
    let call = json!({ "command": command, "background": true, "pty": true });
    let running = api.exec(call).await.expect(202);
    running.text("sessionId").to_owned()
}

/// A screen as a program makes it of the pictures that it gets.
struct Shown {
    events: EventStream,
    rows: BTreeMap<u64, String>,
    last: Value,
    pictures: usize,
}

impl Shown {
    /// Takes pictures until the screen shows this text, or the session has ended, and says whether it did.
    async fn shows(&mut self, text: &str) -> bool {
        while !self.rows.values().any(|row| row.contains(text)) {
            let Event { kind, data, id } = self.events.next().await;
            match kind.as_str() {
                "screen" => self.take(data),
                "end" => return false,
                other => panic!("{other}: {data}"),
            }
            assert_eq!(id, None, "each connection begins with all of the screen");
        }
        true
    }

    fn take(&mut self, picture: Value) {
        let height = picture["rows"].as_u64().expect("rows");
        self.rows.retain(|row, _text| *row < height);
        for row in picture.list("changed") {
            let texts = row.list("texts").iter().map(|text| text.text("text"));
            self.rows
                .insert(row["row"].as_u64().expect("a row"), texts.collect());
        }
        self.last = picture;
        self.pictures += 1;
    }
}

#[tokio::test]
async fn a_screen_is_shown_as_it_is_and_then_as_it_changes() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let command = "stty -echo; printf 'plain\\r\\n\\033[1;31mred\\033[0m\\033]0;title\\007'; read word; \
                   printf '\\033[2J\\033[5;3Hgot %s' \"$word\"; read word";
    let id = on_terminal(&api, command).await;
    let mut live = screen(&api, &id).await;
    assert!(live.shows("red").await);
    assert_has!(live.last, { "rows": 30, "cols": 120, "cursor": [2, 4] });
    let red = live.last.list("changed").iter().find(|row| row["row"] == 1);
    assert_eq!(
        red.expect("its row")["texts"][0],
        json!({ "text": "red", "look": "f1 bold" }),
        "{}",
        live.last
    );
    let keys = json!({ "literal": "hello", "keys": ["Enter"] });
    act(&api, "send-keys", &id, keys).await.expect(200);
    assert!(live.shows("got hello").await);
    assert_eq!(live.rows.get(&4).map(String::as_str), Some("  got hello"));
    assert!(
        live.rows.values().all(|row| !row.contains("red")),
        "it was cleared"
    );
    // Who comes later sees what is there now, at once.
    let mut late = screen(&api, &id).await;
    assert!(late.shows("got hello").await);
    assert_eq!(late.pictures, 1);
    // A new size is followed with what is written next.
    act(&api, "resize", &id, json!({ "rows": 10, "cols": 40 }))
        .await
        .expect(200);
    act(&api, "send-keys", &id, json!({ "literal": "x" }))
        .await
        .expect(200);
    act(&api, "send-keys", &id, json!({ "keys": ["Enter"] }))
        .await
        .expect(200);
    assert!(!live.shows("never written").await, "the session ended");
    let session = ended(&api, &id).await;
    assert_eq!(session["status"], "completed", "{session}");
    // Its last screen can still be seen, and then the stream ends.
    let mut kept = screen(&api, &id).await;
    assert!(kept.shows("got hello").await);
    assert!(!kept.shows("never written").await);
    assert!(kept.events.next_or_end().await.is_none());
}

#[tokio::test]
async fn much_output_makes_few_pictures_and_the_last_one_is_right() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = on_terminal(&api, "seq 1 200000; echo all-of-it; read go").await;
    let mut live = screen(&api, &id).await;
    assert!(live.shows("all-of-it").await);
    let (above, _) = live
        .rows
        .iter()
        .find(|(_row, text)| text.contains("all-of-it"))
        .expect("its row");
    assert_eq!(live.rows.get(&(above - 1)).map(String::as_str), Some("200000"));
    assert!(live.pictures < 1_000, "{}", live.pictures);
    act(&api, "send-keys", &id, json!({ "keys": ["Enter"] }))
        .await
        .expect(200);
    ended(&api, &id).await;
}

#[tokio::test]
async fn a_screen_is_for_those_who_may_see_the_session_and_for_terminals() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = on_terminal(&api, "read go").await;
    let plain = start(&api, "read go").await;
    let status = async |api: &Api, session: &str| opened(api, session).await.status().as_u16();
    // A reader may, as for the output; without a token nobody, and of another agent there is none.
    let (_, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read"] }))
        .await;
    assert_eq!(status(&reader, &id).await, 200);
    assert_eq!(status(&server.anonymous(), &id).await, 401);
    let (_, bound) = server
        .token_with(json!({ "name": "bound", "scopes": ["read"], "agents": ["other"] }))
        .await;
    assert_eq!(status(&bound, &id).await, 404);
    assert_eq!(status(&api, "no-such-session").await, 404);
    let (_, answers) = server
        .token_with(json!({ "name": "answers", "scopes": ["approve"] }))
        .await;
    assert_eq!(status(&answers, &id).await, 403);
    // Without a terminal there is no screen, and the output is there as ever.
    assert_eq!(status(&api, &plain).await, 400);
    for session in [id, plain] {
        act(&api, "kill", &session, json!({})).await.expect(200);
        ended(&api, &session).await;
    }
}
