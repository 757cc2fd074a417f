//! Starts a command, after somebody allowed it if that is wanted.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};

use super::Shared;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    argv: Vec<String>,
    /// Asks first; how long it waits is not looked at here.
    approval_wait_ms: Option<u64>,
    /// Syncs a line before it starts anything.
    #[serde(default)]
    record: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    status: &'static str,
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
}

pub(super) async fn exec(State(shared): State<Arc<Shared>>, Json(request): Json<Request>) -> Json<Answer> {
    if request.approval_wait_ms.is_some() {
        shared.approvals.ask(&shared.broadcast).await;
    }
    if request.record || request.approval_wait_ms.is_some() {
        shared.approvals.record("start").await;
    }
    let output = tokio::task::spawn_blocking(move || run(&request.argv))
        .await
        .expect("the command's thread");
    Json(Answer {
        status: if output.status.success() {
            "completed"
        } else {
            "failed"
        },
        exit_code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "starting a process the plain way is what is compared with"
)]
fn run(argv: &[String]) -> std::process::Output {
    let (program, arguments) = argv.split_first().expect("a program");
    std::process::Command::new(program)
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("the command starts")
}
