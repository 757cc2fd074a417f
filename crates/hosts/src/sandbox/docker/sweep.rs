//! Ending what a run started in a container.

use std::time::Duration;

use tokio::time::timeout;

use countersign_docker::Engine;

use super::supervision::{self, Blow};

/// How long one sweep inside a container may take.
const SWEEP: Duration = Duration::from_secs(10);

/// How often a run is struck inside before its container is stopped.
const SWEEPS: usize = 3;

/// Asks everything of a run in a container to end. That it does so is not awaited.
pub(super) async fn ask_to_end(engine: &Engine, container: &str, run: &str, since: u64) {
    let asked = engine.run(container, supervision::sweep(run, since, Blow::Ask));
    // Who does not hear it is killed soon.
    drop(timeout(SWEEP, asked).await);
}

/// Kills what is left of a run that may have been in a container. That is stopped only if it was there.
pub(super) async fn sweep(engine: &Engine, container: &str, run: &str) {
    let swept = engine.run(
        container,
        supervision::sweep(run, supervision::UNKNOWN, Blow::Kill),
    );
    match timeout(SWEEP, swept).await {
        Ok(Ok(finished)) if finished.code == 0 => {}
        Ok(Ok(_) | Err(_)) | Err(_) if engine.has_process_with(container, run).await => {
            kill_run(engine, container, run, supervision::UNKNOWN).await;
        }
        Ok(Ok(_) | Err(_)) | Err(_) => {}
    }
}

/// Kills everything of a run in a container. Where nothing can be started in it any more, e.g. since the run used up
/// its processes, or where something outlives this, the container is stopped.
pub(super) async fn kill_run(engine: &Engine, container: &str, run: &str, since: u64) {
    for _attempt in 0..SWEEPS {
        let swept = engine.run(container, supervision::sweep(run, since, Blow::Kill));
        match timeout(SWEEP, swept).await {
            Ok(Ok(finished)) if finished.code == 0 => return,
            // It found something that was still dying, or was killed itself.
            Ok(Ok(finished)) if finished.code == 1 => {}
            Ok(Ok(_) | Err(_)) | Err(_) => break,
        }
    }
    engine.stop(container).await;
}
