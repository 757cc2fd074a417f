//! Ways out of a sandbox, each tried outside first, where it must work, and then inside, where it must not.
//!
//! [`table::ATTEMPTS`] is the list; [`scene::Scene`] is what there is to reach. A backend is whatever implements
//! [`Backend`]: [`attempt_all`] runs the whole list against it.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names the reports it wants, and any other fails it"
)]

mod builtin;
mod docker;
pub(crate) mod scene;
pub(crate) mod table;
mod workdirs;

use scene::{Scene, Viewpoint};
use table::{ATTEMPTS, Attempt, Needs};

/// How a script ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
}

/// What runs scripts inside.
pub(crate) trait Backend {
    /// Runs shell text in a sandbox whose workspace is the one of the scene, with its read-only bind at `/ro`, at most
    /// 64 processes, 128 MiB of memory and 16 MiB in `/tmp`.
    fn inside(&self, script: &str) -> impl Future<Output = Outcome> + Send;

    /// Whether there are programs inside that some attempts need.
    fn has(&self, needs: Needs) -> bool;
}

/// Tries everything, and names what got out.
pub(crate) async fn attempt_all(scene: &Scene, backend: &(impl Backend + Sync)) {
    let mut wrong = Vec::new();
    for attempt in ATTEMPTS {
        let Attempt {
            name,
            needs,
            script,
            control,
        } = attempt;
        if !backend.has(*needs) {
            continue;
        }
        // One that works nowhere shows nothing.
        if *control == table::Control::Works {
            let outside = scene
                .outside(&scene.fill(*needs, script, Viewpoint::Outside))
                .await;
            if outside.code != Some(0) {
                wrong.push(format!("{name}: does not work outside: {outside:?}"));
                continue;
            }
        }
        scene.restore();
        let inside = backend
            .inside(&scene.fill(*needs, script, Viewpoint::Inside))
            .await;
        if inside.code == Some(0) {
            wrong.push(format!("{name}: got out: {inside:?}"));
        }
        if let Some(trace) = scene.trace() {
            wrong.push(format!("{name}: left a trace: {trace}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
