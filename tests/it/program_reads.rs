//! What the server reads of the files that a command names: nothing where nothing depends on their content.

use std::{fs, path::PathBuf};

use serde_json::json;

use crate::support::{TestServer, write_file_mode};

/// More than everything else that the server reads for a few runs.
const LARGE: usize = 8 << 20;
const RUNS: u64 = 3;

/// A program that is much larger than it has to be.
fn large_program(server: &TestServer) -> PathBuf {
    let path = server.scratch().join("large");
    let mut content = fs::read("/bin/true").unwrap();
    content.resize(LARGE, 0);
    write_file_mode(&path, content, 0o755);
    path
}

/// Bytes that the server itself has read so far, of files and of everything else.
fn bytes_read(server: &TestServer) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{}/io", server.pid())).unwrap();
    let read = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_program_at_the_head_of_a_text_is_not_read_where_everything_runs() {
    let server = TestServer::full().start().await;
    let program = large_program(&server);
    let before = bytes_read(&server);
    for _ in 0..RUNS {
        let run = server
            .agent()
            .post("/v1/exec", json!({ "command": program }))
            .await;
        assert_eq!(run.expect(200)["status"], "completed");
    }
    let read = bytes_read(&server) - before;
    assert!(read < LARGE as u64, "{read} bytes for {RUNS} runs");
}

#[tokio::test]
async fn a_program_is_bound_without_its_content_where_a_person_is_asked() {
    let server = TestServer::asking().start().await;
    let program = large_program(&server);
    let before = bytes_read(&server);
    let pending = server.asked(json!({ "command": program })).await;
    let run = server.answered(&pending, "allow-once").await;
    assert_eq!(run["status"], "completed", "{run}");
    let read = bytes_read(&server) - before;
    assert!(read < LARGE as u64, "{read} bytes");
    // It is bound all the same.
    let pending = server.asked(json!({ "command": program })).await;
    let content = fs::read(&program).unwrap();
    write_file_mode(&program, content, 0o755);
    let run = server.answered(&pending, "allow-once").await;
    assert_eq!(run["reason"], "binding-mismatch", "{run}");
}

#[tokio::test]
async fn a_script_at_the_head_of_a_text_is_read_where_a_person_is_asked() {
    let server = TestServer::asking().start().await;
    let script = server.scratch().join("script");
    let content = |word: &str| format!("#!/bin/sh\necho {word}\n{}", "#\n".repeat(LARGE / 2));
    write_file_mode(&script, content("first"), 0o755);
    let before = bytes_read(&server);
    let pending = server.asked(json!({ "command": script })).await;
    assert!(bytes_read(&server) - before >= LARGE as u64);
    write_file_mode(&script, content("other"), 0o755);
    let run = server.answered(&pending, "allow-once").await;
    assert_eq!(run["reason"], "binding-mismatch", "{run}");
}
