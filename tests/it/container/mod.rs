//! The image and the compose file, really built and brought up: on a Docker engine of the test's own, from base
//! images made here, in name spaces that take everything with them when the test ends.
//!
//! Every line of `Dockerfile` and `docker-compose.yml` is executed as it stands. One thing is stood in for: the
//! image with the toolchain holds a `cargo` that hands over the program under test instead of compiling it again,
//! so what that stage shows is which files reach the compiler, and how it is called.

pub(crate) mod engine;
mod images;
mod service;

use std::path::Path;

use engine::Engine;
use serde_json::{Value, json};
use service::Service;

use crate::support::{Invocation, Members, eventually, only, program, run_program, skip};

/// The account of the image; volumes outlive versions, so it must not change.
const ACCOUNT: &str = "10001";

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn file(name: &str) -> String {
    std::fs::read_to_string(checkout().join(name)).unwrap()
}

#[test]
fn the_toolchain_of_the_image_is_the_one_that_the_project_names() {
    let manifest = file("Cargo.toml");
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let image = format!("rust:{}-slim-bookworm", version.unwrap().trim_matches('"'));
    assert!(file("Dockerfile").contains(&format!("ARG RUST_IMAGE={image}\n")));
    assert!(file("docker-compose.yml").contains(&format!("RUST_IMAGE:-{image}}}\n")));
}

#[test]
fn the_compose_file_is_valid() {
    let Some(compose) = program("docker-compose") else {
        return skip("docker-compose is not installed");
    };
    let config = Invocation::new(compose).args(&["config"]).cwd(checkout());
    let done = run_program(&config.env("HOME", "/nonexistent"));
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    // A port without an address would be open to other machines.
    done.says("- 127.0.0.1:18790:18790/tcp\n");
}

#[tokio::test]
async fn the_service_comes_up_confined_answers_execs_and_keeps_its_state() {
    let engine = or_skip!(Engine::start().await);
    images::make(&engine).await;
    let service = Service(&engine);

    // As the comment of the compose file says.
    let built = service.compose(&["build"]).await;
    assert_eq!(images::handed_over(&built), images::EXPECTED, "{built}");
    service.compose(&["up", "-d"]).await;
    service.becomes_healthy().await;
    is_confined(&service.inspect().await);

    let inside = async |command: &[&str]| service.inside(command).await;
    assert_eq!(inside(&["id", "-u"]).await.stdout.trim(), ACCOUNT);
    assert_eq!(
        inside(&["stat", "-c", "%a %u", "."]).await.stdout,
        format!("700 {ACCOUNT}\n")
    );
    assert_ne!(
        inside(&["touch", "/anything"]).await.code,
        Some(0),
        "the image can be changed"
    );
    let privileges = inside(&["grep", "-E", "^(CapPrm|CapBnd|NoNewPrivs)", "/proc/1/status"]).await;
    assert_eq!(
        privileges.stdout.split_whitespace().collect::<Vec<_>>(),
        [
            "CapPrm:",
            "0000000000000000",
            "CapBnd:",
            "0000000000000000",
            "NoNewPrivs:",
            "1"
        ]
    );

    // Until somebody chose, nothing runs.
    let refused = inside(&["countersign", "exec", "--", "id"]).await;
    assert!(!refused.stdout.contains("uid="), "{refused:?}");
    let chosen = inside(&["countersign", "init", "--preset", "cautious"]).await;
    assert_eq!(chosen.code, Some(0), "{chosen:?}");
    service.compose(&["restart"]).await;
    service.becomes_ready().await;

    // An agent of the machine asks through the published port, a person answers in the container.
    let token = inside(&["cat", "state/countersign/gateway.token"]).await.stdout;
    let asked = service
        .on_the_machine(token.trim(), &["exec", "--no-wait", "--json", "-c", "id -u; pwd"])
        .await;
    assert_eq!(asked.code, Some(75), "{asked:?}");
    let asked: Value = serde_json::from_str(&asked.stdout).unwrap();
    let (run, approval) = (asked.text("runId"), asked.text("approvalId"));
    let decided = inside(&["countersign", "approvals", "resolve", approval, "allow-once"]).await;
    assert_eq!(decided.code, Some(0), "{decided:?}");
    let outcome = async || {
        let shown = inside(&["countersign", "--json", "runs", "show", run]).await;
        let run: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
        only(&run, &["status", "stdout"])
    };
    let done = json!({
        "status": "completed", "stdout": format!("{ACCOUNT}\n/var/lib/countersign/state/workspace\n")
    });
    eventually("completed", &outcome, |outcome| *outcome == done).await;
    let stranger = service.on_the_machine("cst_wrong", &["exec", "--", "id"]).await;
    assert_eq!(stranger.code, Some(77), "{stranger:?}");

    // It stops when it is told to, long before it would be killed, and everything is there again.
    service.compose(&["stop"]).await;
    assert_eq!(service.inspect().await["State"]["ExitCode"], 0);
    service.compose(&["down"]).await;
    service.compose(&["up", "-d"]).await;
    service.becomes_ready().await;
    assert_eq!(outcome().await, done);
    let verified = inside(&["countersign", "audit", "verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");

    service.compose(&["down", "--volumes"]).await;
    engine.stop().await;
}

/// What the engine was really told, whatever the files look like.
#[track_caller]
fn is_confined(container: &Value) {
    let host = &container["HostConfig"];
    let told = only(
        host,
        &["ReadonlyRootfs", "CapDrop", "SecurityOpt", "Init", "Privileged"],
    );
    assert_eq!(
        told,
        json!({
            "ReadonlyRootfs": true, "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges:true"], "Init": true,
            "Privileged": false,
        })
    );
    assert_has!(host, { "PortBindings": { "18790/tcp": [{ "HostIp": "127.0.0.1", "HostPort": "18790" }] } });
    let mounts = container.list("Mounts");
    let mounts: Vec<&Value> = mounts.iter().map(|mount| &mount["Destination"]).collect();
    assert_eq!(mounts, ["/var/lib/countersign"]);
    let config = &container["Config"];
    assert_eq!(config["User"], format!("{ACCOUNT}:{ACCOUNT}"));
    assert_eq!(config["StopSignal"], "SIGTERM");
}
