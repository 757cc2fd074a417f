//! The process that applies a patch.

use std::fs;

use countersign_sys::faults::PATCH;
use serde_json::json;

use super::{Story, each, exists, in_time};
use crate::support::{TestServer, write_file};

#[tokio::test]
async fn a_patch_is_whole_or_not_there() {
    let story = Story::begin(TestServer::full()).await;
    let place = story.server.state().join("workspace");
    fs::create_dir_all(&place).expect("the workspace");
    let input = "*** Begin Patch\n*** Add File: new/file\n+new\n*** Update File: changed\n-old\n+new\n\
                 *** Delete File: gone\n*** End Patch\n";
    for (point, fault) in each(PATCH) {
        let what = format!("{} {fault}", point.name);
        write_file(&place.join("changed"), "old\n");
        write_file(&place.join("gone"), "gone\n");
        let agent = story.server.agent();
        let apply = || agent.post("/v1/apply-patch", json!({ "input": input }));
        story.faults.arm(point.name, fault);
        let answer = in_time("a patch", apply()).await;
        assert!(story.faults.disarm(point.name), "{what}");
        // An interrupted write is repeated, and one that took half is gone on with.
        if fault.ends_with(" once") {
            answer.expect(200);
        } else {
            answer.problem(409, "patch-failed");
            assert_eq!(
                fs::read_to_string(place.join("changed")).unwrap(),
                "old\n",
                "{what}"
            );
            assert_eq!(
                fs::read_to_string(place.join("gone")).unwrap(),
                "gone\n",
                "{what}"
            );
            assert!(!exists(&place.join("new")), "{what}");
            assert_eq!(
                fs::read_dir(&place).unwrap().count(),
                2,
                "{what}: nothing is left behind"
            );
            in_time("a patch", apply()).await.expect(200);
        }
        assert_eq!(
            fs::read_to_string(place.join("changed")).unwrap(),
            "new\n",
            "{what}"
        );
        assert_eq!(
            fs::read_to_string(place.join("new/file")).unwrap(),
            "new\n",
            "{what}"
        );
        assert!(!exists(&place.join("gone")), "{what}");
        fs::remove_dir_all(place.join("new")).expect("the new directory");
    }
}
