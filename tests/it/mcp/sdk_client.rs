//! The official client, over both transports and both ways to begin.

use std::{path::Path, time::Duration};

use serde_json::json;

use crate::support::{Invocation, TestServer, python_tool, run_long_program, skip};

/// Scenarios of `sdk_client.py`.
const SCENARIOS: usize = 11;

async fn check(transport: &str, mode: &str) {
    let Some(python) = python_tool("python") else {
        return skip("no Python tools for the official MCP client");
    };
    // Agent `free` runs everything, `main` asks.
    let asking = json!({"host": "gateway", "security": "allowlist", "ask": "on-miss"});
    let free = json!({"host": "gateway", "security": "full", "ask": "off"});
    let server = TestServer::asking()
        .config(&json!({
            "tools": {"exec": asking},
            "agents": {"list": [{"id": "free", "tools": {"exec": free}}]},
        }))
        .agents(&json!({
            "free": {"security": "full", "ask": "off"}, "main": {"security": "allowlist", "ask": "on-miss"},
        }))
        .start()
        .await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp/sdk_client.py");
    let invocation = Invocation::new(python)
        .arg(script)
        .args(&[transport, mode, server.agent().base()])
        .arg(server.state())
        .arg(env!("CARGO_BIN_EXE_countersign"))
        .cwd(&server.scratch().path())
        .env("HOME", server.scratch().path());
    let run = tokio::task::spawn_blocking(move || run_long_program(&invocation, Duration::from_mins(5)));
    let done = run.await.expect("the client's end");
    assert_eq!(done.code, Some(0), "{}\n{}", done.stdout, done.stderr);
    assert_eq!(done.stdout.lines().count(), SCENARIOS, "{}", done.stdout);
}

#[tokio::test]
async fn over_http_with_a_handshake() {
    check("http", "legacy").await;
}

#[tokio::test]
async fn over_http_without_a_handshake() {
    check("http", "auto").await;
}

#[tokio::test]
async fn over_stdio_with_a_handshake() {
    check("stdio", "legacy").await;
}

#[tokio::test]
async fn over_stdio_without_a_handshake() {
    check("stdio", "auto").await;
}
