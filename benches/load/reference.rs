//! The bare server: HTTP, JSON, start the command, answer. No authentication, policy, record or supervision.

use axum::{Json, Router, routing::post};
use serde::{Deserialize, Serialize};

/// The argument that makes this program the bare server.
pub(crate) const MODE: &str = "serve-reference";

#[derive(Deserialize)]
struct Request {
    argv: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status: &'static str,
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Serves until it is killed; prints its address when ready, as countersign does.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("an address");
        println!("ready http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().route("/v1/exec", post(exec));
        axum::serve(listener, router).await.expect("serving");
    });
}

async fn exec(Json(request): Json<Request>) -> Json<Answer> {
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
