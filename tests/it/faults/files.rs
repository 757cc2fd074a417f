//! Files of the server's own: the approvals document and the settings.

use countersign_sys::faults::FILES;
use serde_json::{Value, json};

use super::{Story, each, in_time};
use crate::support::TestServer;

const EFFECTIVE: &str = "/v1/policy/effective";

/// The patterns of the allowlist, as the server has it.
async fn patterns(story: &Story) -> Vec<String> {
    let listed = story.server.operator().read("/v1/agents/main/allowlist").await;
    let entries = listed["items"].as_array().cloned().expect("items");
    entries
        .iter()
        .filter_map(|entry| entry["pattern"].as_str())
        .map(str::to_owned)
        .collect()
}

fn patterns_on_disk(story: &Story) -> Vec<String> {
    let document = story.server.document_on_disk();
    let entries = document["agents"]["main"]["allowlist"].as_array().cloned();
    entries
        .unwrap_or_default()
        .iter()
        .filter_map(|entry| entry["pattern"].as_str())
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn the_document_is_changed_or_not_as_the_answer_says() {
    let mut story = Story::begin(TestServer::asking()).await;
    for (point, fault) in each(FILES) {
        let what = format!("{} {fault}", point.name);
        story.faults.arm(point.name, fault);
        let (pattern, is_there) = story.allow().await;
        story.works().await;
        assert!(story.faults.disarm(point.name), "{what}");
        assert_eq!(patterns(&story).await.contains(&pattern), is_there, "{what}");
        assert_eq!(patterns_on_disk(&story).contains(&pattern), is_there, "{what}");
        let effective = story.server.operator().read(EFFECTIVE).await;
        assert_eq!(
            effective["document"]["held"],
            Value::Null,
            "{what}: nobody edited it from outside"
        );
        let (pattern, is_there) = story.allow().await;
        assert!(is_there && patterns(&story).await.contains(&pattern), "{what}");
        story.settle(&what).await;
    }
    story.outlives_a_restart().await;
}

#[tokio::test]
async fn a_preset_is_applied_or_not_as_the_answer_says() {
    let story = Story::begin(TestServer::asking()).await;
    for (point, fault) in each(FILES) {
        let what = format!("{} {fault}", point.name);
        let operator = story.server.operator();
        let apply = |name: &str| operator.post("/v1/policy/preset", json!({ "name": name }));
        in_time("a preset", apply("cautious")).await.expect(200);
        let before = operator.read(EFFECTIVE).await;
        story.faults.arm(point.name, fault);
        let applied = in_time("a preset", apply("deny-all")).await;
        assert!(story.faults.disarm(point.name), "{what}");
        let after = operator.read(EFFECTIVE).await;
        if applied.status == 200 {
            assert_ne!(after["document"]["hash"], before["document"]["hash"], "{what}");
        } else {
            story.expect_trouble(&what, &applied);
            assert_eq!(after, before, "{what}");
        }
        assert_eq!(
            after["document"]["held"],
            Value::Null,
            "{what}: nobody edited it from outside"
        );
        in_time("a preset", apply("deny-all")).await.expect(200);
    }
}
