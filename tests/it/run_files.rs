//! The file of a run that has ended becomes the file of a later one (`docs/decisions/0009-exactly-once.md`, step 5).

use std::{
    fs,
    path::{Path, PathBuf},
};

use reqwest::Method;
use serde_json::json;

use crate::support::{Api, Members, TestServer, lines, write_file};

fn files(server: &TestServer) -> Vec<PathBuf> {
    let entries = fs::read_dir(server.state().join("countersign/runs")).expect("the directory of run files");
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect()
}

/// What a run file says: what it has before the first byte that is 0.
fn content(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a run file");
    let content = text.split('\0').next().unwrap_or_default();
    content.to_owned()
}

#[tokio::test]
async fn many_runs_have_few_files_and_each_its_own_end() {
    let server = TestServer::full().start().await;
    for code in 0..20 {
        let answer = server
            .ran(json!({ "command": format!("echo {code}; exit {code}") }))
            .await;
        assert_eq!(answer["exitCode"], code, "{answer}");
        assert_eq!(answer["stdout"], format!("{code}\n"), "{answer}");
    }
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs.list("items").len(), 20);
    let files = files(&server);
    assert!(files.len() < 10, "{files:?}");
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let run = server.operator().read(&format!("/v1/runs/{name}")).await;
        let exit = format!("\nexit {} ", run["exitCode"]);
        let text = content(&file);
        assert!(text.contains(&exit) && text.lines().count() == 2, "{run} {text}");
    }
}

/// A loss of power may leave a run with the file that an earlier one had.
#[tokio::test]
async fn what_a_file_tells_of_another_launch_is_not_believed() {
    for (is_other, status) in [(false, "completed"), (true, "lost")] {
        let mut server = TestServer::full().prepare();
        server
            .start_until_ready_or_dead(&[("COUNTERSIGN_TEST_KILL", "engine.exit-received:1")])
            .await;
        let ran = server.scratch().dir("work").join("ran");
        let body = json!({ "command": format!("echo ran >> {}", ran.display()), "background": true });
        let call = server.agent().request(Method::POST, "/v1/exec").json(&body);
        drop(Api::try_send(call.header("Idempotency-Key", "once")).await);
        server.wait_killed().await;
        let file = files(&server).remove(0);
        let text = content(&file);
        assert!(text.contains("\nexit 0 "), "{text}");
        if is_other {
            // The same end, of another launch.
            let first = text.lines().next().expect("a line");
            let (told, _checksum) = first.rsplit_once(' ').expect("a checksum");
            let (process, _launch) = told.rsplit_once(' ').expect("a launch");
            let other = with_checksum(&format!("{process} another-launch"));
            write_file(&file, text.replace(first, &other));
        }
        server.start().await;
        let runs = server.operator().read("/v1/runs").await;
        let run = server.agent().finished(runs.list("items")[0].text("runId")).await;
        assert_eq!(run["status"], status, "{run}");
        assert_eq!(lines(&ran), ["ran"]);
    }
}

/// CRC-32 as `IEEE` 802.3 has it, behind the text.
pub(crate) fn with_checksum(text: &str) -> String {
    let remainder = text.bytes().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 * (sum & 1))
        })
    });
    format!("{text} {:08x}", !remainder)
}
