//! A start whose files fail: it becomes ready, or ends and says why, and the next one is as if nothing had been.

use countersign_sys::faults::{Call, FILES, LEDGER, Point, START};

use super::Faults;
use crate::support::{Members, TestServer};

/// One error of each kind; a start does not tell them apart.
fn faults(point: &Point) -> &'static [&'static str] {
    match point.call {
        Call::Open | Call::Rename => &["ENOSPC"],
        Call::Write => &["ENOSPC", "EINTR once", "short once"],
        Call::Sync => &["EIO"],
        Call::Truncate => &["EIO", "EINTR once"],
    }
}

async fn starts_or_says_why(points: &[Point]) {
    let mut met = Vec::new();
    for point in points {
        for fault in faults(point) {
            let what = format!("{} {fault}", point.name);
            let faults = Faults::new();
            let mut server = faults.of(TestServer::full()).prepare();
            faults.arm(point.name, fault);
            match server.start_or_end().await {
                None => drop(server.stop().await),
                Some(code) => {
                    assert_ne!(code, 0, "{what}");
                    assert!(
                        server.log().contains("error["),
                        "{what}: it says why\n{}",
                        server.log()
                    );
                }
            }
            if faults.disarm(point.name) {
                met.push(point.name);
            }
            server.start().await;
            let run = server.agent().ran(serde_json::json!({ "argv": ["true"] })).await;
            let run = server.agent().finished(run.text("runId")).await;
            assert_has!(run, { "status": "completed" }, "{what}");
            let verified = server.operator().read("/v1/audit/verify").await;
            assert_eq!(verified["ok"], true, "{what}: {verified}");
            assert_eq!(server.stop().await, Some(0), "{what}");
        }
    }
    met.dedup();
    let all: Vec<&str> = points.iter().map(|point| point.name).collect();
    assert_eq!(met, all, "every point is one of a start");
}

#[tokio::test]
async fn a_start_whose_own_files_fail_says_why() {
    starts_or_says_why(START).await;
}

#[tokio::test]
async fn a_start_whose_database_fails_says_why() {
    starts_or_says_why(LEDGER).await;
}

#[tokio::test]
async fn a_start_whose_tokens_and_notes_fail_says_why() {
    starts_or_says_why(FILES).await;
}
