//! What becomes of runs in a sandbox that are cancelled, take too long, or lose their server.

use std::fs;

use serde_json::{Value, json};

use super::{possible, sandboxed};
use crate::support::{Api, Members, TestServer, eventually, lines, soon, within};

/// Starts a command in the background that writes its lines and waits for a file `go`.
async fn in_background(server: &TestServer, more: Value) -> Value {
    let mut body = json!({
        "command": "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last; echo done >> ran",
        "background": true,
    });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().cloned().unwrap_or_default());
    let started = server.accepted(body).await;
    assert_has!(started, { "status": "running", "host": "sandbox" });
    started
}

/// The directory of the one sandbox that there is.
fn own_directory(server: &TestServer) -> std::path::PathBuf {
    let mut all = fs::read_dir(server.state().join("countersign/sandboxes")).unwrap();
    let own = all.next().unwrap().unwrap().path();
    assert!(all.next().is_none());
    own
}

#[tokio::test]
async fn a_run_in_the_background_outlives_a_crash_of_the_server() {
    let mut server = sandboxed(&json!({})).prepare();
    server.start().await;
    or_skip!(possible(&server).await);
    let started = in_background(&server, json!({})).await;
    let id = started.text("runId").to_owned();
    eventually(
        "its first line",
        || async { server.agent().run(&id).await["tail"].clone() },
        |tail| *tail == "first\n",
    )
    .await;
    server.crash_and_restart().await;
    // What it wrote before is read again.
    let run = eventually(
        "its first line again",
        || async { server.agent().run(&id).await },
        |run| run["tail"] == "first\n",
    )
    .await;
    assert_has!(run, { "status": "running", "host": "sandbox", "isolation": "sandbox" });
    let own = own_directory(&server);
    crate::support::write_file(&own.join("go"), "");
    let run = server.agent().finished(&id).await;
    assert_has!(run, { "status": "completed", "exitCode": 0, "stdout": "first\nlast\n" });
    assert_eq!(lines(&own.join("ran")), ["done"], "once");
}

#[tokio::test]
async fn a_run_in_the_foreground_ends_with_its_server() {
    let mut server = sandboxed(&json!({})).prepare();
    server.start().await;
    or_skip!(possible(&server).await);
    let agent = server.agent();
    let call = tokio::spawn(async move {
        let request = agent
            .request(reqwest::Method::POST, "/v1/exec")
            .json(&json!({ "command": "echo started; sleep 300" }));
        drop(Api::try_send(request).await);
    });
    let id = eventually(
        "a run",
        || async {
            let runs = server.operator().read("/v1/runs?status=running").await;
            runs["items"][0]["runId"].as_str().map(str::to_owned)
        },
        Option::is_some,
    )
    .await
    .unwrap();
    server.crash_and_restart().await;
    call.await.unwrap();
    let run = server.agent().finished(&id).await;
    assert_has!(run, { "status": "cancelled", "reason": "shutdown" });
}

#[tokio::test]
async fn cancelling_and_the_time_limit_end_everything_inside() {
    let server = sandboxed(&json!({})).start().await;
    or_skip!(possible(&server).await);
    let stubborn = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP INT; while :; do date >> alive; sleep 0.02; done' & \
                    while :; do sleep 300; done";
    let limited = server.ran(json!({ "command": stubborn, "timeout": 4 })).await;
    assert_has!(limited, { "status": "failed", "timedOut": true });
    let started = server
        .accepted(json!({ "command": stubborn, "background": true }))
        .await;
    let id = started.text("runId");
    let alive = own_directory(&server).join("alive");
    let before = fs::metadata(&alive).unwrap().len();
    soon(
        "the second is at it",
        || fs::metadata(&alive).unwrap().len(),
        |length| *length > before,
    )
    .await;
    let cancel = format!("/v1/runs/{id}/cancel");
    server.agent().posted(&cancel, json!({})).await;
    assert_eq!(server.agent().finished(id).await["status"], "cancelled");
    // Whoever writes has ended when the run has; nothing is to be waited for.
    let length = fs::metadata(&alive).unwrap().len();
    server.ran(json!({ "command": "sleep 0.2" })).await;
    assert_eq!(
        fs::metadata(&alive).unwrap().len(),
        length,
        "somebody still writes"
    );
}

/// The points at which something can die between a call that nobody is asked about and its end.
#[cfg(feature = "test-hooks")]
pub(crate) const POINTS: [&str; 16] = [
    "engine.before-launch",
    "engine.launched",
    "engine.before-start",
    "engine.frame-sent",
    "engine.exit-received",
    "engine.finished",
    "runner.frame-waiting",
    "sup.order-taken",
    "sup.before-lock",
    "sup.locked",
    "sup.fence-written",
    "sup.child-started",
    "sup.child-ended",
    "sup.before-exit-line",
    "sup.exit-line-written",
    "sup.exit-sent",
];

#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn wherever_something_dies_a_command_runs_once_or_not_at_all() {
    for point in POINTS {
        let mut server = sandboxed(&json!({})).prepare();
        let kill = format!("{point}:1");
        server
            .start_until_ready_or_dead(&[("COUNTERSIGN_TEST_KILL", kill.as_str())])
            .await;
        or_skip!(possible(&server).await);
        comes_out_right(point, &mut server).await;
    }
}

/// Calls once at a server that dies at a point, or whose runner or supervisor does, and once more when it is back.
#[cfg(feature = "test-hooks")]
pub(crate) async fn comes_out_right(point: &str, server: &mut TestServer) {
    let body = json!({ "command": "echo ran >> ran; echo said", "background": true });
    let call = |server: &TestServer| {
        let agent = server.agent();
        let request = agent.request(reqwest::Method::POST, "/v1/exec");
        Api::try_send(request.header("Idempotency-Key", "once").json(&body))
    };
    let first = within(point, call(server)).await;
    let settled = || async {
        if !server.is_running() {
            return true;
        }
        let runs = Api::try_send(server.operator().request(reqwest::Method::GET, "/v1/runs")).await;
        runs.is_err()
            || runs.is_ok_and(|runs| {
                let runs = runs.json();
                let all = runs.list("items");
                !all.is_empty() && all.iter().all(|run| run["endedAtMs"].is_number())
            })
    };
    eventually(point, settled, |settled| *settled).await;
    // A server that is about to die may have told of the end before.
    if point.starts_with("engine.") || !server.is_running() || first.is_err() {
        server.wait_killed().await;
        server.start().await;
    }
    let again = within(point, call(server)).await.unwrap().json();
    let id = again.text("runId");
    let run = server.agent().finished(id).await;
    let ran = fs::read_to_string(own_directory(server).join("ran")).unwrap_or_default();
    match run.text("status") {
        "completed" => {
            assert_eq!(ran, "ran\n", "{point}: {run}");
            assert_eq!(run["stdout"], "said\n", "{point}: its output is whole");
        }
        "lost" => assert!(["", "ran\n"].contains(&ran.as_str()), "{point}: {ran}"),
        _ => assert_eq!(ran, "", "{point}: {run}"),
    }
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs.list("items").len(), 1, "{point}: {runs}");
}
