//! What is told when the engine goes away.

use countersign_hosts::sandbox::docker::ClientEnd;

use super::fixture::{DockerFixture, shell};

#[tokio::test]
async fn a_run_whose_engine_goes_away_ends_and_says_so() {
    let fixture = or_skip!(DockerFixture::new().await);
    let sandbox = fixture.ready("lost").await;
    let mut running = fixture.start(&sandbox, shell("echo ready; sleep 1000")).await;
    running.until_written("ready").await;
    let DockerFixture {
        engine,
        host,
        backend,
    } = fixture;
    // Its containers live in its name spaces, and end with it.
    engine.kill();
    let ended = running.end().await;
    assert_eq!(ended.end(), ClientEnd::EngineLost, "{ended:?}");
    assert!(
        ended.stderr.contains("the Docker engine went away while it ran"),
        "{ended:?}"
    );

    let refused = backend.prepare(&sandbox).await.expect_err("there is no engine");
    assert!(refused.to_string().contains("no Docker engine at"), "{refused}");
    let fixture = DockerFixture {
        engine,
        backend,
        host,
    };
    let ended = fixture.run(&sandbox, shell("true")).await;
    assert_eq!(ended.end(), ClientEnd::NotStarted, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("the command was not started: no Docker engine at"),
        "{ended:?}"
    );
}
