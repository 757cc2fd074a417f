//! What is to be started, in full: what a permit binds together with the terms of the run.

use std::{os::fd::OwnedFd, path::PathBuf, time::Duration};

use countersign_domain::{
    Bound, BoundScript, Confinement, FileIdentity, Isolation, LaunchId, Leftovers, RunId, ScriptHold,
    TextStart,
};
use countersign_ledger::launch::{Permit, PermitParts};
use countersign_runner::wire::Order;

use super::error::StartError;
use crate::RunTerms;

/// How long leftovers may go on writing (`docs/spec/exec-tool.md#4-what-the-caller-gets`).
const LEFTOVERS_GRACE: Duration = Duration::from_millis(500);

/// Everything a supervisor needs to start a run.
#[derive(Debug)]
pub struct LaunchSpec {
    /// The run, whose id names its run file and its spool.
    pub run_id: RunId,
    /// The permission to start it.
    pub launch_id: LaunchId,
    /// The level at which it runs.
    pub isolation: Isolation,
    /// What starts: the plan, text or patch of the binding.
    pub bound: Bound,
    /// How the text of the binding is started, if it has one.
    pub start: Option<TextStart>,
    /// The working directory; another device or inode than below is a mismatch.
    pub cwd: PathBuf,
    /// Its device number when it was judged.
    pub cwd_dev: u64,
    /// Its inode number when it was judged.
    pub cwd_ino: u64,
    /// The programs that were judged.
    pub executables: Vec<FileIdentity>,
    /// The scripts that were judged.
    pub scripts: Vec<BoundScript>,
    /// What the kernel keeps of its programs.
    pub confinement: Confinement,
    /// Whether its programs must read them as they were judged, or not run at all.
    pub held: bool,
    /// Patterns of programs that none of its programs can start or read.
    pub denied_children: Vec<String>,
    /// Whether a person may have answered for them as they were.
    pub answered: bool,
    /// Time limit; `None` for none.
    pub timeout: Option<Duration>,
    /// What it is given besides.
    pub terms: RunTerms,
}

/// How many descriptors of a kind go along with an order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) executables: u8,
    pub(super) rulesets: u8,
}

impl LaunchSpec {
    /// What a permit and its terms come to, on whichever host; uses the permit up.
    ///
    /// # Errors
    /// [`StartError::Isolation`] when the record names a lesser level than is demanded now.
    pub(super) fn new(permit: Permit, terms: RunTerms) -> Result<Self, StartError> {
        let PermitParts {
            run_id,
            launch_id,
            binding,
            env: _,
            isolation,
            not_after: _,
            node: _,
            start,
            answered,
        } = permit.into_parts();
        if isolation < terms.least_isolation {
            return Err(StartError::Isolation {
                recorded: isolation,
                now: terms.least_isolation,
            });
        }
        Ok(Self {
            run_id,
            launch_id,
            isolation,
            bound: binding.bound,
            start,
            cwd: binding.cwd.into(),
            cwd_dev: binding.cwd_dev,
            cwd_ino: binding.cwd_ino,
            executables: binding.executables,
            scripts: binding.scripts,
            confinement: binding.confinement,
            held: binding.held == Some(ScriptHold::Held),
            denied_children: binding.denied_children,
            answered,
            timeout: (binding.timeout_ms != 0).then(|| Duration::from_millis(binding.timeout_ms)),
            terms,
        })
    }

    /// Whether the kernel keeps what a program of the run starts.
    fn limits_starts(&self, counts: Counts) -> bool {
        counts.rulesets > 0
            && self
                .confinement
                .programs
                .iter()
                .any(|limits| limits.starts.is_some())
    }

    /// The order without its plan; what is opened is sent along.
    pub(super) fn order(&self, counts: Counts, spool: Option<&OwnedFd>, scripts: Option<&OwnedFd>) -> Order {
        let millis = |duration: Duration| u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
        let terms = &self.terms;
        Order {
            run_id: self.run_id.clone(),
            launch_id: self.launch_id.clone(),
            outlives_server: terms.keep_when_orphaned,
            keeps_leftovers: terms.leftovers == Leftovers::Keep,
            stdin_open: terms.stdin_open,
            executables: counts.executables,
            rulesets: counts.rulesets,
            confined: self.isolation == Isolation::Confined,
            has_spool: spool.is_some(),
            has_scripts: scripts.is_some(),
            timeout_ms: self.timeout.map_or(0, |limit| {
                u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1)
            }),
            kill_grace_ms: millis(terms.kill_grace),
            leftovers_grace_ms: millis(LEFTOVERS_GRACE),
            max_run_bytes: terms.max_run_bytes,
            terminal: terms.terminal,
            limits: terms.limits,
            records_input: terms.record_input,
            observes: terms.observe && self.limits_starts(counts),
            plan: None,
        }
    }
}
