//! As many sessions at once as an agent may have by default.

use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::{act, list};
use crate::support::{Members, TestServer, eventually, is_alive};

const SESSIONS: usize = 500;
const AT_ONCE: usize = 16;

#[tokio::test]
async fn five_hundred_at_once_are_listed_and_leave_nothing_when_they_are_killed() {
    let server = TestServer::full()
        .toml("[limits]\nrequests_per_second = 0\n")
        .start()
        .await;
    let api = server.agent();
    let started: Vec<u16> = stream::iter(0..SESSIONS)
        .map(|_| async {
            api.exec(json!({ "argv": ["sleep", "1000"], "background": true }))
                .await
                .status
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    assert_eq!(started, vec![202; SESSIONS]);
    let sessions = list(&api).await;
    assert_eq!(sessions.len(), SESSIONS);
    let pids: Vec<i32> = sessions
        .iter()
        .filter_map(|session| i32::try_from(session["pid"].as_i64()?).ok())
        .collect();
    assert_eq!(pids.len(), SESSIONS);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let killed: Vec<String> = stream::iter(&sessions)
        .map(|session| async {
            let killed = act(&api, "kill", session.text("sessionId"), json!({}))
                .await
                .expect(200);
            killed["session"].text("status").to_owned()
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    assert!(killed.iter().all(|status| status == "cancelled"), "{killed:?}");
    let left = || std::future::ready(pids.iter().filter(|pid| is_alive(**pid)).count());
    eventually("gone", left, |left| *left == 0).await;
    // Fifty that ended are kept.
    assert_eq!(list(&api).await.len(), 50);
}
