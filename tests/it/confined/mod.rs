//! The isolation level `confined`: what a command cannot reach, what it still can do, and what is said about it.
//!
//! The server runs under an account of its own, which root alone can choose. One agent, `free`, is taken out of the
//! level: what it reaches shows that an attack is real.

mod attacks;
mod children;
mod fallback;
mod level;
mod machine;
mod program;
mod terminal;
mod tools;

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Invocation, ServerBuilder, TestServer, inherited_path, is_root, needed, run_program};

/// An account that every system has. Not `nobody`: in a namespace everything of root looks as if it were nobody's.
pub(crate) const ACCOUNT: u32 = 1;

/// Programs of the system: what lies in root's home cannot be run by another account.
pub(crate) const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin";

/// The agent that is taken out.
const FREE: &str = "free";

/// A server whose commands are confined, those of [`FREE`] excepted; not started yet.
pub(crate) fn builder() -> ServerBuilder {
    TestServer::full()
        .config(&json!({
            "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } },
            "agents": { "list": [{ "id": FREE, "tools": { "exec": { "isolation": "same-user" } } }] },
        }))
        .env("PATH", PROGRAMS)
        .run_as(ACCOUNT)
}

/// What every test of the level needs; `None` where it is missing.
pub(crate) fn possible() -> Option<()> {
    needed(is_root(), "running a server under another account needs root")?;
    let server = TestServer::full().prepare();
    let program = server.invocation(&["--version"]);
    let namespaces = Invocation::new("unshare")
        .args(&["--user", "--mount", "true"])
        .env("PATH", inherited_path());
    let is_possible = [program, namespaces]
        .into_iter()
        .all(|tried| run_program(&tried.run_as(ACCOUNT)).code == Some(0));
    needed(
        is_possible,
        "another account has no user namespaces here, or cannot run the program",
    )
}

/// Runs shell text as an agent to its end.
async fn run(server: &TestServer, agent: &str, text: &str) -> Value {
    let call = json!({ "command": text, "agentId": agent, "yieldMs": 120_000, "timeout": 60 });
    server.ran(call).await
}

/// Gives a file, or a directory with everything in it, to the account of the server.
pub(crate) fn give(path: &Path) {
    let owner = format!("{ACCOUNT}:{ACCOUNT}");
    let given = Invocation::new("chown")
        .args(&["-R", &owner])
        .arg(path)
        .env("PATH", inherited_path());
    let given = run_program(&given);
    assert_eq!(given.code, Some(0), "{}", given.stderr);
}
