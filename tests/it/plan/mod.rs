//! What executes is what was analysed: lists run without a shell as a shell would run them, and whatever changes between
//! the decision and the start, nothing runs that was not judged.

mod binding;
mod direct;
mod expanded;
mod files;
#[cfg(feature = "test-hooks")]
mod held;
mod here_documents;
mod lists;
mod patterns;
mod redirections;
#[cfg(feature = "test-hooks")]
mod swaps;
mod temporary;
mod unasked;

use serde_json::{Value, json};

use crate::support::{Members, TestServer};

/// Asks about a text, which the card shows as it is; the answer, and the digest of what is bound.
async fn asked_about(server: &TestServer, text: &str) -> (Value, String) {
    let asked = server
        .asked(json!({ "command": text, "approvalWaitMs": 0 }))
        .await;
    let path = format!("/v1/approvals/{}", asked.text("approvalId"));
    let approval = server.operator().read(&path).await;
    assert_eq!(approval["command"], text, "{approval}");
    (asked, approval["boundTo"].text("digest").to_owned())
}
