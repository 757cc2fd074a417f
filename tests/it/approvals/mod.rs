//! Questions to people: asked, answered once, bound to what was asked, and never lost.

mod batches;
mod binding;
mod decisions;
mod expiry;
mod listed;
mod note;
mod restart;
mod revisions;
mod withdrawn;

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Members, TestServer};

/// A command that leaves one line in a file each time it runs.
fn append_line(file: &Path) -> Value {
    json!({ "command": format!("echo ran >> {}", file.display()) })
}

/// Sends a request that must be asked; returns the answer's body.
async fn asked(server: &TestServer, body: Value) -> Value {
    server.asked(body).await
}

fn id(object: &Value, member: &str) -> String {
    object.text(member).to_owned()
}
