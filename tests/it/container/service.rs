//! The service of the compose file, as an administrator and an agent meet it.

use serde_json::Value;

use super::{
    checkout,
    engine::{Engine, run, succeeds},
    images,
};
use crate::support::{Finished, Invocation, countersign, eventually};

/// The service on one engine.
#[derive(Debug)]
pub(super) struct Service<'a>(pub(super) &'a Engine);

impl Service<'_> {
    fn composer(&self, arguments: &[&str]) -> Invocation {
        let composer = self.0.client("docker-compose").cwd(checkout());
        composer
            .args(arguments)
            .env("COMPOSE_PROJECT_NAME", "countersign-test")
            .env("RUST_IMAGE", images::TOOLCHAIN)
            .env("BASE_IMAGE", images::RUNTIME)
    }

    /// Runs `docker-compose`, which must succeed.
    #[track_caller]
    pub(super) fn compose(&self, arguments: &[&str]) -> impl Future<Output = String> {
        succeeds(self.composer(arguments))
    }

    /// Runs a command in the container, as its account.
    pub(super) async fn inside(&self, command: &[&str]) -> Finished {
        run(self.composer(&["exec", "-T", "countersign"]).args(command)).await
    }

    /// Runs the command line where the port is published, with a token.
    pub(super) async fn on_the_machine(&self, token: &str, arguments: &[&str]) -> Finished {
        let client = countersign()
            .args(&["--url", "http://127.0.0.1:18790"])
            .args(arguments)
            .env("HOME", "/nonexistent")
            .env("COUNTERSIGN_TOKEN", token);
        run(self.0.on_its_network(client)).await
    }

    /// What the engine says of the container.
    pub(super) async fn inspect(&self) -> Value {
        let label = "label=com.docker.compose.service=countersign";
        let id = self
            .0
            .docker(&["ps", "--all", "--quiet", "--filter", label])
            .await;
        let described = self.0.docker(&["inspect", id.trim()]).await;
        let described: Value = serde_json::from_str(&described).expect("a description");
        described[0].clone()
    }

    /// Waits for the health check of the image, as the engine runs it.
    pub(super) async fn becomes_healthy(&self) {
        let health = || async { self.inspect().await["State"]["Health"].clone() };
        eventually("healthy", health, |health| health["Status"] == "healthy").await;
    }

    /// Waits for the same check, made now.
    pub(super) async fn becomes_ready(&self) {
        let check = || self.inside(&["countersign", "doctor", "--ready"]);
        eventually("ready", check, |check| check.code == Some(0)).await;
    }
}
