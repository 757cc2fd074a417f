//! Nodes as people and scripts see them: over HTTP, on the command line, and as operators on the Bridge.

mod approvals;
mod attacks;
mod command_line;
mod documents;
mod http;
mod node;
mod operator;
mod replay;

pub(crate) use node::{ScriptedNode, knock, paired};

use serde_json::{Value, json};

use crate::support::{Api, Members, ServerBuilder, TestServer};

/// Commands of a node that runs programs and nothing else.
pub(crate) const ONLY_RUN: &[&str] = &["system.run"];
/// The same, and looks programs up.
const WITH_WHICH: &[&str] = &["system.run", "system.which"];
/// Commands of a node whose document can be read and set.
const DOCUMENT: &[&str] = &["system.execApprovals.get", "system.execApprovals.set"];
/// What the present generation declares, as far as it is sent here.
const SURFACE: &[&str] = &[
    "system.execApprovals.get",
    "system.execApprovals.set",
    "system.run",
    "system.run.prepare",
    "system.which",
];

/// The operator's token: read, approve, admin.
fn operator_token(server: &TestServer) -> String {
    server.operator_token()
}

/// A new token with these scopes: its secret, and the API as its holder sees it.
async fn token(server: &TestServer, scopes: &[&str]) -> (String, Api) {
    let name = format!("test {}", scopes.join(" "));
    let (_, api) = server.token_with(json!({ "name": name, "scopes": scopes })).await;
    let secret = api.token().expect("a secret").to_owned();
    (secret, api)
}

/// A command that a person is asked about.
async fn ask(server: &TestServer, program: &str) -> Value {
    let asked = server.accepted(json!({ "argv": [program] })).await;
    assert_eq!(asked["status"], "approval-pending", "{asked}");
    asked
}

fn pending_id(asked: &Value) -> String {
    asked.text("approvalId").to_owned()
}

impl TestServer {
    /// Commands go to nodes, and what is not covered waits for a person, who can always be reached.
    pub(crate) fn asking_on_nodes() -> ServerBuilder {
        ServerBuilder::new(&json!({ "host": "node", "security": "allowlist", "ask": "on-miss" }))
            .toml("[approvals]\nalways_reachable = true\n")
    }

    /// Commands are asked about, if anybody is there.
    fn builder_without_approvers() -> ServerBuilder {
        ServerBuilder::new(&json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" }))
    }
}
