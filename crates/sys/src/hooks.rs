//! Named points and protections of a test build: where a crash test wants the process to die, it dies; where another
//! test wants to change the world under its feet, it stands still; where a test wants a bug, it panics; and what keeps a
//! command out can be switched off, so that an attack shows what that protection is for. A promise of the program can be
//! dropped in the same way, so that the check of what was promised shows that it would notice.
//!
//! Without the feature `test-hooks` nothing of this is in the program: [`reach`], [`pause`] and [`panic_at`] are empty
//! functions, no protection is ever [off](protection_off), and no promise is ever [dropped](promise_dropped). Calls of the
//! system that fail are those of [`faults`](crate::faults).

#[cfg(not(feature = "test-hooks"))]
use std::ffi::OsString;

/// The variable that names the kill point: `name`, or `name:N` for the N-th time it is reached.
#[cfg(feature = "test-hooks")]
pub const KILL_VARIABLE: &str = "COUNTERSIGN_TEST_KILL";

/// The variable that names the protections to leave away and the promises to drop, with commas between them.
#[cfg(feature = "test-hooks")]
pub const PROTECTION_VARIABLE: &str = "COUNTERSIGN_TEST_PROTECTION_OFF";

/// The protections that can be left away. A test compares the list with the questions.
pub const PROTECTIONS: &[&str] = &[
    "children",
    "descriptors",
    "dumpable",
    "landlock-0",
    "landlock-1",
    "landlock-3",
    "landlock-4",
    "landlock-6",
    "landlock-scopes",
    "masks",
    "pins",
    "scripts",
    "starts",
];

/// The promises that can be dropped: an allow-once is used once, a run starts once, its launch is on record before it
/// starts, and nothing starts during a stop. A test compares the list with the questions, another with what notices.
pub const PROMISES: &[&str] = &["approval-once", "fence", "record-first", "stop"];

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

/// The kill points of a question that the policy settles, in their order.
pub const RULE_POINTS: &[&str] = &["engine.before-launch-by-rule", "engine.launched-by-rule"];

/// The kill points between the steps of a change of two policy files, in their order.
pub const POLICY_POINTS: &[&str] = &[
    "policy.preset-journaled",
    "policy.preset-document-written",
    "policy.preset-config-written",
];

/// The kill points of a run on a node, in their order.
pub const NODE_POINTS: &[&str] = &["node.before-send", "node.sent", "node.answered"];

/// The kill points of the process that applies a patch, in their order.
pub const PATCH_POINTS: &[&str] = &["patch.staged", "patch.placed", "patch.finished"];

/// The variable that names a file with the milliseconds by which a test sets the clock, forward or, below zero, back. It
/// is read whenever the time is.
#[cfg(feature = "test-hooks")]
pub const CLOCK_VARIABLE: &str = "COUNTERSIGN_TEST_CLOCK";

/// The variable that names the directory of [`pause`].
#[cfg(feature = "test-hooks")]
pub const PAUSE_VARIABLE: &str = "COUNTERSIGN_TEST_PAUSE";

/// The points of [`pause`], in the order in which a run passes them. A test compares the list with the calls.
pub const PAUSE_POINTS: &[&str] = &[
    "engine.judged",
    "engine.before-approved",
    "host.begun",
    "host.directory-open",
    "host.program-open",
    "host.files-checked",
    "sup.before-fence",
    "sup.fenced",
    "sup.plan-begun",
    "sup.before-pipeline",
    "sup.before-execution",
];

/// The point of [`pause`] that only a run with held scripts passes, each time it comes to a directory of one by its name:
/// what has the name was looked at, and the kernel is about to look.
pub const ENTRY_PAUSES: &[&str] = &["sup.entering"];

/// The points of [`pause`] that only what is large passes: a message of the Model Context Protocol before it is taken apart,
/// and a command where it is looked through.
pub const LOOK_PAUSES: &[&str] = &["mcp.reading", "engine.looking"];

/// The point of [`pause`] that only a question passes: it is recorded, and its asker was not told of it.
pub const ASK_PAUSES: &[&str] = &["engine.asked"];

/// The point of [`pause`] that a caller passes who no longer waits for a run, before the call is answered.
pub const LEFT_PAUSES: &[&str] = &["engine.left"];

/// The point of [`pause`] that a run passes once its end is recorded, before those who wait for it are told.
pub const END_PAUSES: &[&str] = &["engine.end-recorded"];

/// The point of [`pause`] that only a question passes which the policy lets run: it was judged, and nothing is settled.
pub const RULE_PAUSES: &[&str] = &["engine.judged-again"];

/// The point of [`pause`] that only a question passes which the policy leaves to people: it was judged, and nobody
/// has looked yet whether its agent is muted.
pub const PEOPLE_PAUSES: &[&str] = &["engine.left-to-people"];

/// The point of [`pause`] that only a run on a node passes: its task hears the node no more, and no end is recorded yet.
pub const NODE_PAUSES: &[&str] = &["node.unheard"];

/// The variable that names the point of [`panic_at`]: `name`, or `name:N` for the N-th time it is reached.
#[cfg(feature = "test-hooks")]
pub const PANIC_VARIABLE: &str = "COUNTERSIGN_TEST_PANIC";

/// The points of [`panic_at`] of a run on this machine, in the order in which its task reaches them. A test compares the
/// lists with the calls.
pub const PANIC_POINTS: &[&str] = &[
    "run.starting",
    "run.ordered",
    "run.supervised",
    "run.started",
    "run.output",
    "run.exited",
    "run.recorded",
];

/// The points of [`panic_at`] of a run on a node, in their order.
pub const NODE_PANICS: &[&str] = &["node-run.starting", "node-run.supervised", "node-run.answered"];

/// The points of [`panic_at`] of an approver at a terminal.
pub const APPROVER_PANICS: &[&str] = &["approver.shown"];

/// The points of [`pause`] that only a patch passes, in its order.
pub const PATCH_PAUSES: &[&str] = &["patch.checked", "patch.staged", "patch.placed"];

#[cfg(feature = "test-hooks")]
pub(crate) use armed::{clock_set_by, hand_down_descriptors};
#[cfg(feature = "test-hooks")]
pub use armed::{
    handed_on, left_away, panic_at, pause, promise_dropped, protection_off, reach, reach_for, setting,
};

/// Does nothing: this build has no points to stand still at.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn pause(_point: &str) {}

/// Does nothing: this build has no points to panic at.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn panic_at(_point: &str) {}

/// Does nothing: this build has no kill points.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn reach(_point: &str) {}

/// Does nothing: this build has no kill points.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn reach_for(_point: &str, _pid: super::process::Pid) {}

/// What a process that is started gets of it: nothing, since this build has no such points.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn handed_on() -> Vec<(OsString, OsString)> {
    Vec::new()
}

/// The protections that are left away, for a process that is started: none are.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn left_away() -> Option<(OsString, OsString)> {
    None
}

/// Whether a protection is left away: none ever is.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn protection_off(_name: &str) -> bool {
    false
}

/// Whether a promise is dropped: none ever is.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub const fn promise_dropped(_name: &str) -> bool {
    false
}

/// Does nothing: this build leaves no protection away.
#[cfg(not(feature = "test-hooks"))]
#[inline]
pub(crate) const fn hand_down_descriptors() {}

#[cfg(feature = "test-hooks")]
#[expect(unsafe_code, reason = "a flag of descriptors that nothing here owns")]
mod armed {
    use std::{
        ffi::{OsStr, OsString},
        sync::{
            OnceLock,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use rustix::fs::{AtFlags, CWD};

    use super::{
        CLOCK_VARIABLE, KILL_VARIABLE, PANIC_VARIABLE, PAUSE_VARIABLE, PROMISES, PROTECTION_VARIABLE,
        PROTECTIONS,
    };
    use crate::{
        faults::{self, PATH_BYTES, path_of_point},
        process::{self, Pid},
    };

    struct Target {
        text: String,
        point: String,
        passes_left: AtomicU64,
    }

    /// Kills this process with `SIGKILL` when `point` is the one that was asked for.
    pub fn reach(point: &str) {
        reach_for(point, process::own_id());
    }

    /// Panics when `point` is the one that was asked for.
    ///
    /// # Panics
    /// That is what it is for.
    pub fn panic_at(point: &str) {
        let wanted = panics().is_some_and(|target| target.is_due(point));
        assert!(!wanted, "a test wants a panic at {point}");
    }

    /// The same for another process: a child that shares its memory with that process. Allocates
    /// nothing once [`setting`] was called.
    pub fn reach_for(point: &str, pid: Pid) {
        let Some(target) = target() else { return };
        if target.is_due(point) {
            process::signal_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// The kill point that was asked for, as it was written.
    pub fn setting() -> Option<&'static str> {
        target().map(|target| target.text.as_str())
    }

    /// The variables as a process that is started with a clean environment gets them.
    pub fn handed_on() -> Vec<(OsString, OsString)> {
        let kill = setting().map(|point| (OsString::from(KILL_VARIABLE), OsString::from(point)));
        let pause = pause_directory().map(|path| (OsString::from(PAUSE_VARIABLE), path.to_owned()));
        let faults = faults::directory().map(|path| (OsString::from(faults::VARIABLE), path.to_owned()));
        kill.into_iter().chain(pause).chain(faults).collect()
    }

    /// Stands still if a test wants that: the directory holds a file named like the point. Then the file is renamed to
    /// `POINT.reached`, and the process goes on once that is removed. Allocates nothing but in
    /// the first call of a process.
    pub fn pause(point: &str) {
        let Some(directory) = pause_directory() else {
            return;
        };
        let (mut wanted, mut reached) = ([0; PATH_BYTES], [0; PATH_BYTES]);
        let (Some(wanted), Some(reached)) = (
            path_of_point(&mut wanted, directory, point, ""),
            path_of_point(&mut reached, directory, point, ".reached"),
        ) else {
            return;
        };
        if rustix::fs::renameat(CWD, wanted, CWD, reached).is_err() {
            return;
        }
        while rustix::fs::statat(CWD, reached, AtFlags::empty()).is_ok() {
            if process::poll(&mut [], Some(Duration::from_millis(1))).is_err() {
                return;
            }
        }
    }

    /// By how many milliseconds the clock is set at this moment: zero without a file that says so.
    pub(crate) fn clock_set_by() -> i64 {
        static FILE: OnceLock<Option<OsString>> = OnceLock::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "the clock of a test is no setting of the product"
        )]
        let file = FILE.get_or_init(|| std::env::var_os(CLOCK_VARIABLE));
        let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    fn pause_directory() -> Option<&'static OsStr> {
        static DIRECTORY: OnceLock<Option<OsString>> = OnceLock::new();
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause points are no setting of the product"
        )]
        let directory = DIRECTORY.get_or_init(|| std::env::var_os(PAUSE_VARIABLE));
        directory.as_deref()
    }

    /// The protections that are left away, as a process that is started with a clean environment hears of them.
    pub fn left_away() -> Option<(OsString, OsString)> {
        let off = protections_off();
        (!off.is_empty()).then(|| (OsString::from(PROTECTION_VARIABLE), OsString::from(off)))
    }

    /// Whether a protection is to be left away. Allocates nothing once it was called.
    ///
    /// # Panics
    /// For a name that is not listed, and for a variable that names one: an attack would show nothing.
    pub fn protection_off(name: &str) -> bool {
        assert!(PROTECTIONS.contains(&name), "no such protection");
        names(protections_off()).any(|off| off == name)
    }

    /// Whether a promise is to be dropped. Allocates nothing once it was called.
    ///
    /// # Panics
    /// For a name that is not listed, and for a variable that names one: the check would show nothing.
    pub fn promise_dropped(name: &str) -> bool {
        assert!(PROMISES.contains(&name), "no such promise");
        names(protections_off()).any(|off| off == name)
    }

    fn names(text: &str) -> impl Iterator<Item = &str> {
        text.split(',').filter(|name| !name.is_empty())
    }

    fn protections_off() -> &'static str {
        static OFF: OnceLock<String> = OnceLock::new();
        OFF.get_or_init(|| {
            #[expect(
                clippy::disallowed_methods,
                reason = "a protection that is left away is no setting of the product"
            )]
            let text = std::env::var(PROTECTION_VARIABLE).unwrap_or_default();
            assert!(
                names(&text).all(|name| PROTECTIONS.contains(&name) || PROMISES.contains(&name)),
                "no such protection or promise: {text}"
            );
            text
        })
    }

    /// Keeps the first descriptors open when this process executes a program.
    pub(crate) fn hand_down_descriptors() {
        for number in 3..64 {
            // SAFETY: it only takes a flag away, and fails for a number that is not open.
            unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
        }
    }

    fn target() -> Option<&'static Target> {
        static TARGET: OnceLock<Option<Target>> = OnceLock::new();
        TARGET.get_or_init(|| Target::of_variable(KILL_VARIABLE)).as_ref()
    }

    fn panics() -> Option<&'static Target> {
        static TARGET: OnceLock<Option<Target>> = OnceLock::new();
        TARGET
            .get_or_init(|| Target::of_variable(PANIC_VARIABLE))
            .as_ref()
    }

    impl Target {
        fn of_variable(name: &str) -> Option<Self> {
            #[expect(
                clippy::disallowed_methods,
                reason = "a point of a test is no setting of the product"
            )]
            let text = std::env::var(name).ok()?;
            let (point, passes) = match text.split_once(':') {
                Some((point, passes)) => (point.to_owned(), passes.parse().unwrap_or(1)),
                None => (text.clone(), 1),
            };
            Some(Self {
                text,
                point,
                passes_left: AtomicU64::new(passes),
            })
        }

        /// Whether this pass of a point is the one that was asked for.
        fn is_due(&self, point: &str) -> bool {
            self.point == point && self.passes_left.fetch_sub(1, Ordering::Relaxed) == 1
        }
    }
}
