//! What becomes of runs in a container when the server, its runner or a supervisor dies.

use serde_json::json;

use super::fixture::{DockerFixture, IMAGE};
use crate::{
    sandbox::recovery::{POINTS, comes_out_right},
    support::{Members, ServerBuilder, TestServer, eventually},
};

/// A server whose commands go into containers of this engine.
fn contained(fixture: &DockerFixture) -> ServerBuilder {
    let socket = fixture.engine.scratch().join("docker.sock");
    TestServer::full()
        .config(&json!({
            "tools": { "exec": { "host": "sandbox" } },
            "agents": { "defaults": { "sandbox": { "mode": "all", "docker": { "image": IMAGE } } } },
        }))
        .toml(&format!(
            "[sandbox]\nbackend = \"docker\"\ndocker_socket = {socket:?}\n"
        ))
}

#[tokio::test]
async fn wherever_something_dies_a_command_in_a_container_runs_once_or_not_at_all() {
    let fixture = or_skip!(DockerFixture::new().await);
    for point in POINTS {
        let mut server = contained(&fixture).prepare();
        let kill = format!("{point}:1");
        server
            .start_until_ready_or_dead(&[("COUNTERSIGN_TEST_KILL", kill.as_str())])
            .await;
        comes_out_right(point, &mut server).await;
        // Whatever was left inside was swept, by whoever noticed.
        for name in fixture.containers().await {
            let looking = ["exec", name.as_str(), "ps", "-o", "args"];
            let is_quiet = |processes: &String| !processes.contains("echo ran");
            eventually(point, || fixture.engine.docker(&looking), is_quiet).await;
            fixture.engine.docker(&["rm", "--force", &name]).await;
        }
    }
    fixture.engine.stop().await;
}

#[tokio::test]
async fn a_run_in_a_container_outlives_a_crash_of_the_server() {
    let fixture = or_skip!(DockerFixture::new().await);
    let mut server = contained(&fixture).start().await;
    let text = "echo first; read line; echo \"got $line\"; echo done >> ran; wc -l < ran";
    let started = server
        .accepted(json!({ "command": text, "background": true }))
        .await;
    let (run, session) = (
        started.text("runId").to_owned(),
        started.text("sessionId").to_owned(),
    );
    let tail = async |server: &TestServer| server.agent().run(&run).await["tail"].clone();
    eventually("its first line", || tail(&server), |tail| *tail == "first\n").await;
    server.crash_and_restart().await;
    // What it wrote before is read again.
    eventually(
        "its first line again",
        || tail(&server),
        |tail| *tail == "first\n",
    )
    .await;
    let again = server.agent().run(&run).await;
    assert_has!(again, { "status": "running", "host": "sandbox" });
    let write = json!({ "action": "write", "sessionId": session, "data": "on\n" });
    server.agent().posted("/v1/process", write).await;
    let ended = server.agent().finished(&run).await;
    assert_has!(ended, { "status": "completed", "exitCode": 0, "stdout": "first\ngot on\n1\n" });
    fixture.engine.stop().await;
}
