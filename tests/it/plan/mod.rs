//! What executes is what was analysed: lists run without a shell as a shell would run them, and whatever changes between
//! the decision and the start, nothing runs that was not judged.

mod binding;
mod compounds;
mod direct;
mod expanded;
mod files;
#[cfg(feature = "test-hooks")]
mod held;
mod here_documents;
mod lists;
mod loops;
mod patterns;
mod redirections;
mod runners;
mod substituted;
#[cfg(feature = "test-hooks")]
mod swaps;
mod temporary;
mod unasked;

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Members, ServerBuilder, TestServer, program, skip};

/// The shells that texts are compared with. `None` where one of them is missing, which is said.
fn shells() -> Option<[&'static str; 3]> {
    let shells = ["bash", "dash", "zsh"];
    let absent = shells.iter().find(|shell| program(shell).is_none());
    if let Some(absent) = absent {
        skip(&format!("there is no {absent}"));
    }
    absent.is_none().then_some(shells)
}

/// A server on which these forms are read, and this is the workspace.
fn reading(workspace: &Path, ask: &str, reads: &Value) -> ServerBuilder {
    ServerBuilder::new(&json!({})).config(&json!({
        "agents": { "defaults": { "workspace": workspace } },
        "tools": { "exec": { "host": "gateway", "security": "allowlist", "ask": ask, "reads": reads } },
    }))
}

/// An approvals document with an entry for every program.
fn everything_covered() -> Value {
    json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "*" }] } } })
}

/// A text that needs an approval where nobody is asked.
async fn is_refused(server: &TestServer, directory: &Path, text: &str) {
    let answer = server
        .agent()
        .exec(json!({ "command": text, "workdir": directory }))
        .await;
    answer.problem(403, "exec-denied");
}

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
