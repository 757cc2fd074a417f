//! Named kill points of a test build: where a crash test wants the process to die, it dies.
//!
//! Without the feature `test-hooks` nothing of this is in the program: [`reach`] is an empty function.

#[cfg(not(feature = "test-hooks"))]
use std::ffi::OsString;

/// The variable that names the kill point: `name`, or `name:N` for the N-th time it is reached.
#[cfg(feature = "test-hooks")]
pub const KILL_VARIABLE: &str = "COUNTERSIGN_TEST_KILL";

/// The kill points of the server, its runner and its supervisors, each group in the order in which a run
/// reaches them. A test compares the list with the calls.
pub const POINTS: &[&str] = &[
    "engine.before-ask",
    "engine.asked",
    "engine.before-decide",
    "engine.decided",
    "engine.before-persist",
    "engine.persisted",
    "engine.before-launch-approved",
    "engine.approved-launched",
    "engine.before-launch",
    "engine.launched",
    "engine.before-start",
    "engine.frame-sent",
    "engine.exit-received",
    "engine.finished",
    "engine.recover",
    "engine.recovered",
    "runner.started",
    "runner.frame-waiting",
    "runner.forked",
    "sup.order-taken",
    "sup.before-lock",
    "sup.locked",
    "sup.fence-written",
    "sup.child-started",
    "sup.child-ended",
    "sup.before-exit-line",
    "sup.exit-line-written",
    "sup.exit-sent",
    "sup.output-spooled",
];

/// The kill points between the steps of a change of two policy files, in their order.
pub const POLICY_POINTS: &[&str] = &[
    "policy.preset-journaled",
    "policy.preset-document-written",
    "policy.preset-config-written",
];

#[cfg(feature = "test-hooks")]
pub use armed::{handed_on, reach, reach_for, setting};

/// Does nothing: this build has no kill points.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn reach(_point: &str) {}

/// Does nothing: this build has no kill points.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn reach_for(_point: &str, _pid: super::process::Pid) {}

/// What a process that is started gets of it: nothing, since this build has no kill points.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn handed_on() -> Option<(OsString, OsString)> {
    None
}

#[cfg(feature = "test-hooks")]
mod armed {
    use std::{
        ffi::OsString,
        sync::{
            OnceLock,
            atomic::{AtomicU64, Ordering},
        },
    };

    use super::KILL_VARIABLE;
    use crate::sys::process::{self, Pid};

    struct Target {
        text: String,
        point: String,
        passes_left: AtomicU64,
    }

    /// Kills this process with `SIGKILL` when `point` is the one that was asked for.
    pub fn reach(point: &str) {
        reach_for(point, process::own_id());
    }

    /// The same for another process: a child that shares its memory with the process that is meant. Allocates
    /// nothing once [`setting`] was called.
    pub fn reach_for(point: &str, pid: Pid) {
        let Some(target) = target() else { return };
        if target.point == point && target.passes_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            process::signal_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// The kill point that was asked for, as it was written.
    pub fn setting() -> Option<&'static str> {
        target().map(|target| target.text.as_str())
    }

    /// The variable as a process that is started with a clean environment gets it.
    pub fn handed_on() -> Option<(OsString, OsString)> {
        setting().map(|point| (OsString::from(KILL_VARIABLE), OsString::from(point)))
    }

    fn target() -> Option<&'static Target> {
        static TARGET: OnceLock<Option<Target>> = OnceLock::new();
        TARGET
            .get_or_init(|| {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the kill point is no setting of the product"
                )]
                let text = std::env::var(KILL_VARIABLE).ok()?;
                let (point, passes) = match text.split_once(':') {
                    Some((point, passes)) => (point.to_owned(), passes.parse().unwrap_or(1)),
                    None => (text.clone(), 1),
                };
                Some(Target {
                    text,
                    point,
                    passes_left: AtomicU64::new(passes),
                })
            })
            .as_ref()
    }
}
