//! The same by way of the API: calls whose host is the sandbox.

use serde_json::{Value, json};

use super::fixture::{DockerFixture, IMAGE};
use crate::support::{Members, TestServer, eventually};

#[tokio::test]
async fn calls_run_in_the_container_of_their_agent() {
    let fixture = or_skip!(DockerFixture::new().await);
    let socket = fixture.engine.scratch().join("docker.sock");
    let server = TestServer::full()
        .config(&json!({
            "tools": { "exec": { "host": "sandbox" } },
            "agents": { "defaults": { "sandbox": {
                "mode": "all", "docker": { "image": IMAGE, "pidsLimit": 64, "env": { "OF_ALL": "yes" } },
            } } },
        }))
        .toml(&format!(
            "[sandbox]\nbackend = \"docker\"\ndocker_socket = {socket:?}\n"
        ))
        .start()
        .await;
    let agent = server.agent();
    let run = async |call: Value| agent.ran(call).await;

    let seen = run(
        json!({ "command": "echo $OF_ALL $OPENCLAW_SHELL $(cat /proc/sys/kernel/hostname >/dev/null; pwd)" }),
    )
    .await;
    assert_has!(seen, { "status": "completed", "stdout": "yes exec /workspace\n", "exitCode": 0 });
    let failed = run(json!({ "command": "kill -9 $$" })).await;
    assert_has!(failed, { "status": "failed", "exitCode": 137 });
    let hostile = "/x:$(touch /tmp/made)'\"";
    let path = run(json!({ "command": "printf %s \"$PATH\"; ls -A /tmp", "env": { "PATH": hostile } })).await;
    assert_eq!(path["stdout"], format!("{hostile}:/profile/bin:/bin"), "{path:#}");
    let words = run(json!({ "argv": ["printf", "%s|", "$(touch /tmp/made)", "it's"] })).await;
    assert_eq!(words["stdout"], "$(touch /tmp/made)|it's|", "{words:#}");
    let late = run(json!({ "command": "(env -i setsid sleep 1030 &); sleep 1031", "timeout": 1 })).await;
    assert_has!(late, { "status": "failed", "timedOut": true });

    // It goes on in the background, and is killed inside when it is cancelled.
    let background = agent
        .exec(json!({ "command": "(setsid sleep 1032 &); sleep 1033", "background": true }))
        .await;
    let run_id = background.json().text("runId").to_owned();
    let names = fixture.containers().await;
    let [name] = names.as_slice() else {
        panic!("{names:?}")
    };
    let looking = ["exec", name, "ps", "-o", "args"];
    let processes = || fixture.engine.docker(&looking);
    eventually("started", processes, |left| {
        left.contains("sleep 1032") && left.contains("sleep 1033")
    })
    .await;
    agent.cancel(&run_id).await;
    let is_quiet = |left: &String| {
        let mut numbers = 1030..=1033;
        numbers.all(|number| !left.contains(&format!("sleep {number}")))
    };
    eventually("killed inside", processes, is_quiet).await;

    // Without the engine nothing runs anywhere.
    fixture.engine.kill();
    let lost = agent.exec(json!({ "command": "echo here" })).await;
    assert_ne!(lost.json()["stdout"], "here\n", "{}", lost.text());
    assert_ne!(lost.json()["status"], "completed", "{}", lost.text());
}
