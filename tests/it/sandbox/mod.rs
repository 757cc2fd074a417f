//! Commands in a sandbox: which calls go there, what they find, what becomes of them.

#[cfg(feature = "test-hooks")]
pub(crate) mod builtin;
mod diverted;
#[cfg(feature = "test-hooks")]
pub(crate) mod escapes;
mod patches;
pub(crate) mod recovery;
mod routing;
mod scopes;

use serde_json::{Value, json};

use crate::support::{Api, Members, ServerBuilder, TestServer, needed};

/// `[sandbox]` with the backend that needs nothing but a kernel.
const BUILTIN: &str = "[sandbox]\nbackend = \"builtin\"\n";

/// A server whose commands go to the built-in sandbox. `sandbox` is `agents.defaults.sandbox`.
fn sandboxed(sandbox: &Value) -> ServerBuilder {
    TestServer::full()
        .config(&json!({
            "tools": { "exec": { "host": "sandbox" } },
            "agents": { "defaults": { "sandbox": sandbox } },
        }))
        .toml(BUILTIN)
}

/// Whether this machine has a sandbox at all; says so where not.
async fn possible(server: &TestServer) -> Option<()> {
    let policy = server.operator().read("/v1/policy/effective").await;
    let (active, detail) = (&policy["sandbox"]["active"], &policy["sandbox"]["detail"]);
    needed(*active == true, &format!("no sandbox here: {detail}"))
}

/// What a shell text prints in the sandbox of an agent.
async fn printed(api: &Api, agent: &str, command: &str) -> String {
    let answer = api.ran(json!({ "command": command, "agentId": agent })).await;
    assert_eq!(answer["host"], "sandbox", "{answer}");
    answer.text("aggregated").to_owned()
}
