//! What is told when the engine goes away.

use countersign::hosts::sandbox::docker::ClientEnd;

use super::fixture::{Place, shell};

#[tokio::test]
async fn a_run_whose_engine_goes_away_ends_and_says_so() {
    let Some(place) = Place::new().await else { return };
    let sandbox = place.ready("lost").await;
    let mut running = place.start(&sandbox, shell("echo ready; sleep 1000")).await;
    running.until_written("ready").await;
    let Place {
        engine,
        host,
        backend,
    } = place;
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
    let place = Place {
        engine,
        backend,
        host,
    };
    let ended = place.run(&sandbox, shell("true")).await;
    assert_eq!(ended.end(), ClientEnd::NotStarted, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("the command was not started: no Docker engine at"),
        "{ended:?}"
    );
}
