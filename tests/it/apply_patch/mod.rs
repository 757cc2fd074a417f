//! Patches over every edge: what they do, who may send them, what they cannot reach, and what is left when
//! the server or a supervisor dies.

#[cfg(feature = "test-hooks")]
mod attacks;
mod cases;
mod cli;
mod policy;
mod tree;

use std::{fs, path::PathBuf};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, TestServer};

fn envelope(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

async fn send(api: &Api, body: Value) -> Answer {
    api.post("/v1/apply-patch", body).await
}

async fn send_with_key(api: &Api, key: &str, body: Value) -> Answer {
    let request = api.request(Method::POST, "/v1/apply-patch");
    api.send(request.header("Idempotency-Key", key).json(&body)).await
}

/// Where patches go that name no directory.
fn workspace(server: &TestServer) -> PathBuf {
    let path = server.state().join("workspace");
    fs::create_dir_all(&path).expect("the workspace");
    path
}

fn read(server: &TestServer, name: &str) -> String {
    fs::read_to_string(workspace(server).join(name)).expect(name)
}

fn input(body: &str) -> Value {
    json!({ "input": envelope(body) })
}
