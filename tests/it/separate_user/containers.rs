//! Containers for a server whose commands have an account of their own: that account never gets near the engine.

use std::os::unix::fs::chown;

use serde_json::json;

use super::{AccountsFixture, possible, processes, runner};
use crate::{
    docker::fixture::{self, IMAGE},
    support::{Members, TestServer},
};

#[tokio::test]
async fn clients_of_an_engine_run_under_the_account_of_the_server() {
    or_skip!(possible());
    let engine = or_skip!(fixture::DockerFixture::new().await);
    let accounts = or_skip!(AccountsFixture::new());
    let socket = accounts.scratch.join("engine.sock");
    std::fs::hard_link(engine.engine.scratch().join("docker.sock"), &socket).unwrap();
    chown(&socket, Some(accounts.server), Some(accounts.server)).unwrap();
    let server = TestServer::full()
        .config(&json!({
            "tools": { "exec": { "host": "sandbox" } },
            "agents": { "defaults": {
                "workspace": accounts.workspace(),
                "sandbox": { "mode": "all", "docker": { "image": IMAGE } },
            } },
        }))
        .toml(&format!(
            "[sandbox]\nbackend = \"docker\"\ndocker_socket = {socket:?}\n"
        ))
        .state_dir(&accounts.state())
        .owned_by(accounts.server)
        .argument("--run-as")
        .argument(&accounts.commands.to_string())
        .start()
        .await;
    let answer = server
        .agent()
        .exec(json!({ "command": "echo inside; sleep 1041", "background": true }))
        .await;
    let run = answer.json().text("runId").to_owned();
    let clients = || std::future::ready(processes(&server, "__docker-exec"));
    let clients = crate::support::eventually("a client", clients, |clients| !clients.is_empty()).await;
    let owner = super::field(clients[0], "Uid");
    assert!(owner.starts_with(&accounts.server.to_string()), "{owner}");
    assert_ne!(super::field(clients[0], "PPid"), runner(&server).to_string());
    server
        .agent()
        .post(&format!("/v1/runs/{run}/cancel"), json!({}))
        .await;
    let gone = || std::future::ready(processes(&server, "__docker-exec"));
    crate::support::eventually("ended", gone, Vec::is_empty).await;
}
