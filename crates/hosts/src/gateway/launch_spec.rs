//! What is to be started, in full: what a permit binds together with the terms of the run.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use countersign_domain::{
    Bound, BoundScript, FileIdentity, Isolation, LaunchId, Leftovers, RunId, ScriptHold, TerminalSize,
};
use countersign_ledger::launch::{Permit, PermitParts};
use countersign_runner::RunLimits;

use super::error::StartError;
use crate::{Attempt, RunTerms};

/// Everything a supervisor needs to start a run.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, as the plan of the runner has it"
)]
pub struct LaunchSpec {
    /// The run, whose id names its run file and its spool.
    pub run_id: RunId,
    /// The permission to start it.
    pub launch_id: LaunchId,
    /// Whether it was tried before.
    pub attempt: Attempt,
    /// The level at which it runs.
    pub isolation: Isolation,
    /// What starts: the plan, text or patch of the binding.
    pub bound: Bound,
    /// The working directory; another device or inode than below is a mismatch.
    pub cwd: PathBuf,
    /// Its device number when it was judged.
    pub cwd_dev: u64,
    /// Its inode number when it was judged.
    pub cwd_ino: u64,
    /// The whole environment of its programs on this machine; empty for a sandbox.
    pub env: Vec<(OsString, OsString)>,
    /// The programs that were judged.
    pub executables: Vec<FileIdentity>,
    /// The scripts that were judged.
    pub scripts: Vec<BoundScript>,
    /// Whether its programs must read them as they were judged, or not run at all.
    pub held: bool,
    /// Whether a person may have answered for them as they were.
    pub answered: bool,
    /// Time limit; `None` for none.
    pub timeout: Option<Duration>,
    /// From `SIGTERM` to `SIGKILL` when it is killed; zero kills straight away.
    pub kill_grace: Duration,
    /// What becomes of what it leaves running.
    pub leftovers: Leftovers,
    /// Whether it goes on without a server: a background run, or one with an idempotency key.
    pub keep_when_orphaned: bool,
    /// Whether its standard input stays open; otherwise it reads end of file.
    pub stdin_open: bool,
    /// The pseudo-terminal that it gets instead of pipes; its input is always open.
    pub terminal: Option<TerminalSize>,
    /// Most bytes of output that are kept.
    pub max_run_bytes: u64,
    /// What it may use of the machine.
    pub limits: RunLimits,
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
            answered,
        } = permit.into_parts();
        let RunTerms {
            attempt,
            least_isolation,
            env,
            kill_grace,
            leftovers,
            keep_when_orphaned,
            stdin_open,
            terminal,
            max_run_bytes,
            limits,
        } = terms;
        if isolation < least_isolation {
            return Err(StartError::Isolation {
                recorded: isolation,
                now: least_isolation,
            });
        }
        Ok(Self {
            run_id,
            launch_id,
            attempt,
            isolation,
            bound: binding.bound,
            cwd: binding.cwd.into(),
            cwd_dev: binding.cwd_dev,
            cwd_ino: binding.cwd_ino,
            env,
            executables: binding.executables,
            scripts: binding.scripts,
            held: binding.held == Some(ScriptHold::Held),
            answered,
            timeout: (binding.timeout_ms != 0).then(|| Duration::from_millis(binding.timeout_ms)),
            kill_grace,
            leftovers,
            keep_when_orphaned,
            stdin_open,
            terminal,
            max_run_bytes,
            limits,
        })
    }
}
