//! The stream of a session: live, resumed anywhere, and from what was kept.

use serde_json::{Value, json};

use super::{act, ended, joined, start, stream, to_the_end, wrote};
use crate::support::{Members, TestServer};

#[tokio::test]
async fn output_streams_as_it_comes_and_ends_with_the_session() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "echo one; read go; echo two >&2; read go; exit 4").await;
    let mut live = stream(&api, &id, None).await;
    let first = live.next().await;
    assert_eq!((first.kind.as_str(), first.id), ("output", Some(4)));
    assert_eq!(
        first.data,
        json!({ "offset": 0, "stream": "stdout", "text": "one\n" })
    );
    act(&api, "write", &id, json!({ "data": "\n" })).await.expect(200);
    let second = live.next().await;
    assert_eq!(
        second.data,
        json!({ "offset": 4, "stream": "stderr", "text": "two\n" })
    );
    assert_eq!(second.id, Some(8));
    act(&api, "write", &id, json!({ "data": "\n" })).await.expect(200);
    let (rest, session) = to_the_end(live).await;
    assert!(rest.is_empty(), "{rest:?}");
    assert_has!(session, { "status": "failed", "exitCode": 4 });
    // Again, from what was kept.
    let (outputs, session) = to_the_end(stream(&api, &id, None).await).await;
    assert_eq!(joined(&outputs), "one\ntwo\n");
    assert_eq!(session["sessionId"], id.as_str());
}

/// Characters of one to four bytes on both streams, and bytes that are no characters.
const MIXED: &str = "printf 'a\\303\\251\\346\\274'; printf 'E\\360\\237' >&2; printf '\\242\\360\\237\\246\\200'; \
                     printf '\\246\\200!\\377' >&2; printf 'z\\n'";

#[tokio::test]
async fn resumed_at_every_offset_nothing_is_lost_or_twice() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let running = start(&api, &format!("{MIXED}; read go")).await;
    let total: u64 = 19;
    wrote(&api, &running, total).await;
    let of = |events: &[crate::support::Event], wanted: &str| -> String {
        events
            .iter()
            .filter(|event| event.data["stream"] == wanted)
            .map(|event| event.data.text("text").to_owned())
            .collect()
    };
    let whole = check_all(&api, &running, total).await;
    act(&api, "write", &running, json!({ "data": "\n" }))
        .await
        .expect(200);
    ended(&api, &running).await;
    assert_eq!(check_all(&api, &running, total).await, whole);
    let (outputs, _) = to_the_end(stream(&api, &running, None).await).await;
    assert_eq!(of(&outputs, "stdout"), "aé漢🦀z\n");
    assert_eq!(of(&outputs, "stderr"), "E🦀!\u{fffd}");
    // Beyond the end there is nothing.
    let (outputs, _) = to_the_end(stream(&api, &running, Some(total)).await).await;
    assert!(outputs.is_empty(), "{outputs:?}");
}

/// What is told from each offset on, which must be the end of the whole, shorter by what was told before.
async fn check_all(api: &crate::support::Api, id: &str, total: u64) -> Vec<String> {
    let mut tails = Vec::new();
    for offset in 0..=total {
        let mut events = stream(api, id, Some(offset)).await;
        let mut streams = [String::new(), String::new()];
        let mut at = offset;
        while at < total {
            let event = events.next().await;
            assert_eq!(event.kind, "output", "{}", event.data);
            assert!(event.data["offset"].as_u64() >= Some(at), "{}", event.data);
            at = event.id.expect("an id");
            streams[usize::from(event.data["stream"] == "stderr")] += event.data.text("text");
        }
        tails.push(streams);
    }
    let whole = tails[0].clone();
    for (offset, tail) in tails.iter().enumerate() {
        for (whole, tail) in whole.iter().zip(tail) {
            assert!(
                whole.ends_with(tail.as_str()),
                "from {offset}: {tail:?} of {whole:?}"
            );
        }
    }
    // Each byte takes at most one character away, so that none is told neither before nor after.
    for pair in tails.windows(2) {
        let chars = |streams: &[String; 2]| streams.iter().map(|text| text.chars().count()).sum::<usize>();
        assert!(chars(&pair[0]) - chars(&pair[1]) <= 1, "{pair:?}");
    }
    tails.into_iter().map(|streams| streams.join("|")).collect()
}

#[tokio::test]
async fn much_output_is_streamed_whole_from_its_spool() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "seq 1 400000").await;
    // Followed while it is written, and resumed in the middle.
    let (outputs, session) = to_the_end(stream(&api, &id, None).await).await;
    let expect: String = (1..=400_000)
        .flat_map(|number: u32| [number.to_string(), "\n".to_owned()])
        .collect();
    assert!(joined(&outputs) == expect, "the whole output, once");
    assert_eq!(session["outputBytes"].as_u64(), Some(expect.len() as u64));
    let middle = outputs[outputs.len() / 2].id.expect("an id");
    let (rest, _) = to_the_end(stream(&api, &id, Some(middle)).await).await;
    assert!(joined(&rest) == expect[usize::try_from(middle).expect("an offset")..]);
}

#[tokio::test]
async fn small_alternating_writes_are_kept_whole() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let command = "i=0; while [ $i -lt 12000 ]; do echo -n o; echo -n e >&2; i=$((i+1)); done";
    let id = start(&api, command).await;
    ended(&api, &id).await;
    let (outputs, session) = to_the_end(stream(&api, &id, None).await).await;
    assert_eq!(session["outputBytes"], 24_000);
    let all = joined(&outputs);
    assert_eq!(
        (all.matches('o').count(), all.matches('e').count()),
        (12_000, 12_000)
    );
}

#[tokio::test]
async fn a_stream_refuses_other_forms_and_foreign_ids() {
    let server = TestServer::full().start().await;
    let api = server.agent();
    let id = start(&api, "true").await;
    let path = format!("/v1/process/{id}/stream");
    let ask = |accept: &'static str, after: &'static str| {
        api.request(reqwest::Method::GET, &path)
            .header("accept", accept)
            .header("Last-Event-ID", after)
    };
    api.send(ask("application/json", "0"))
        .await
        .problem(406, "not-acceptable");
    for bad in ["x", "-1", "1.5"] {
        let problem = api.send(ask("text/event-stream", bad)).await;
        let problem = problem.problem(400, "invalid-request");
        assert_eq!(problem["fields"][0]["path"], "Last-Event-ID");
    }
    api.get("/v1/process/no-such-1/stream")
        .await
        .problem(406, "not-acceptable");
    let missing = api.request(reqwest::Method::GET, "/v1/process/no-such-1/stream");
    api.send(missing).await.problem(404, "not-found");
    ended(&api, &id).await;
}

#[tokio::test]
async fn a_stream_ends_with_the_token_that_opened_it() {
    let server = TestServer::full().start().await;
    let (token, api) = server
        .token_with(json!({ "name": "short", "scopes": ["exec"] }))
        .await;
    let id = start(&api, "echo up; while read go; do echo $go; done").await;
    let mut open = stream(&api, &id, None).await;
    assert_eq!(open.next().await.data["text"], "up\n");
    server.operator().delete(&format!("/v1/tokens/{token}")).await;
    act(&server.agent(), "write", &id, json!({ "data": "secret\n" }))
        .await
        .expect(200);
    assert_eq!(open.next_or_end().await, None);
    let removed: Value = act(&server.agent(), "remove", &id, json!({})).await.expect(200);
    assert_eq!(removed["session"]["outputBytes"], 10);
}
