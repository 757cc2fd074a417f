//! What an answer leaves behind, what is never allowed, what is allowed for a while, and what is odd about any of it.

mod always;
mod deny;
mod grants;
mod lost;
mod odd;
mod sets;
mod width;

use serde_json::Value;

use crate::support::{Members, TestServer};

/// What doctor finds, by id.
async fn doctor(server: &TestServer) -> Vec<Value> {
    let finished = server.cli(&["doctor", "--json"]).await;
    let found: Value =
        serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{error}: {finished:?}"));
    found.list("findings").clone()
}

/// The findings with one id.
async fn findings(server: &TestServer, id: &str) -> Vec<Value> {
    let mut found = doctor(server).await;
    found.retain(|finding| finding["id"] == id);
    found
}
