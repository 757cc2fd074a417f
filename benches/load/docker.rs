//! What a container adds to an exec: by the server, and by the engine's own API, in a container of the same image.

use std::time::Duration;

use bollard::{
    API_DEFAULT_VERSION, Docker,
    exec::StartExecResults,
    models::{ContainerCreateBody, ExecConfig, HostConfig},
    query_parameters::{CreateContainerOptions, RemoveContainerOptions},
};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::time::Instant;

use super::{
    options::Options,
    samples::{Samples, ratio},
    servers::{Policy, Server},
};

/// Requests of each kind before anything counts. The first one of the server makes its container.
const WARM_UP: u32 = 10;
/// The image that is used where nothing else is set (`docs/spec/settings.md#3-openclawjson-the-keys-we-read`).
const IMAGE: &str = "openclaw-sandbox:bookworm-slim";
/// Pause between two looks whether a process has ended.
const LOOK: Duration = Duration::from_millis(1);

pub(crate) async fn measure(options: &Options) {
    println!(
        "docker: {} rounds of {}, in turns",
        options.rounds, options.program
    );
    let bare = Bare::start().await;
    let server = Server::countersign(Policy::Contained);
    let caller = server.agent();
    let mut connection = caller.connect().await;
    let request = caller.request("POST", "/v1/exec", Some(&json!({ "argv": [options.program] })));
    let (mut by_us, mut by_itself) = (Samples::default(), Samples::default());
    for round in 0..WARM_UP + options.rounds {
        let begun = Instant::now();
        connection.ask(&request).await.expect_completed();
        let (ours_took, begun) = (begun.elapsed(), Instant::now());
        bare.run(&options.program).await;
        if round >= WARM_UP {
            by_us.add(ours_took);
            by_itself.add(begun.elapsed());
        }
    }
    bare.end().await;
    println!("\n{:<20}  p50 us    p99 us", "");
    for (what, samples) in [("the engine's API", &by_itself), ("by the server", &by_us)] {
        let (p50, p99) = (samples.p50().as_micros(), samples.p99().as_micros());
        println!("  {what:<18}  {p50:>6}  {p99:>8}");
    }
    let ratio = |of: fn(&Samples) -> Duration| ratio(of(&by_us), of(&by_itself));
    println!(
        "  {:<18}  {:>5.2}x  {:>7.2}x",
        "ratio",
        ratio(Samples::p50),
        ratio(Samples::p99)
    );
}

/// A container that only waits, and an engine that starts processes in it.
struct Bare {
    api: Docker,
    container: String,
}

impl Bare {
    #[expect(clippy::disallowed_methods, reason = "the engine is that of whoever measures")]
    async fn start() -> Self {
        let socket = std::env::var("DOCKER_HOST").expect("DOCKER_HOST names the engine");
        let api = Docker::connect_with_unix(&socket, 60, API_DEFAULT_VERSION).expect("an engine");
        let api = api.negotiate_version().await.expect("an engine that answers");
        let body = ContainerCreateBody {
            image: Some(IMAGE.to_owned()),
            cmd: Some(vec!["sleep".to_owned(), "2147483647".to_owned()]),
            host_config: Some(HostConfig {
                network_mode: Some("none".to_owned()),
                init: Some(true),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let created = api.create_container(None::<CreateContainerOptions>, body).await;
        let container = created.expect("a container of the image").id;
        api.start_container(&container, None).await.expect("it starts");
        Self { api, container }
    }

    /// One process to its end, as the engine's own client does it.
    async fn run(&self, program: &str) {
        let config = ExecConfig {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(vec![program.to_owned()]),
            ..ExecConfig::default()
        };
        let exec = self
            .api
            .create_exec(&self.container, config)
            .await
            .expect("an exec")
            .id;
        match self.api.start_exec(&exec, None).await.expect("a start") {
            StartExecResults::Attached { mut output, .. } => while output.next().await.is_some() {},
            StartExecResults::Detached => panic!("it is not attached"),
        }
        loop {
            let state = self.api.inspect_exec(&exec).await.expect("a state");
            if state.running != Some(true) {
                assert_eq!(state.exit_code, Some(0), "{program} fails inside");
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn end(self) {
        let now = RemoveContainerOptions {
            force: true,
            ..RemoveContainerOptions::default()
        };
        self.api
            .remove_container(&self.container, Some(now))
            .await
            .expect("it goes");
    }
}
