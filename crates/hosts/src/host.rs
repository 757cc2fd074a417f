//! What every host is to the engine.

use std::{ffi::OsString, future::Future, time::Duration};

use countersign_domain::{Isolation, Leftovers, TerminalSize};
use countersign_ledger::launch::Permit;
use countersign_policy::command::direct::ShellKind;
use countersign_runner::RunLimits;

use crate::gateway::{StartError, Supervised};

/// Whether a run was tried before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Never: a run file that is there already is an error.
    First,
    /// Perhaps: the fence decides.
    Again,
}

/// What a run is given besides what its permit binds.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
pub struct RunTerms {
    /// Whether it was tried before.
    pub attempt: Attempt,
    /// The weakest level at which the settings let it run now.
    pub least_isolation: Isolation,
    /// The host shell, if it is one that is known.
    pub shell: Option<ShellKind>,
    /// The whole environment on this machine; empty for a sandbox, which has its own.
    pub env: Vec<(OsString, OsString)>,
    /// From `SIGTERM` to `SIGKILL` when it is killed; zero kills straight away.
    pub kill_grace: Duration,
    /// What becomes of what it leaves running.
    pub leftovers: Leftovers,
    /// Whether it goes on without a server: a background run, or one with an idempotency key.
    pub keep_when_orphaned: bool,
    /// Whether its standard input stays open; otherwise it reads end of file.
    pub stdin_open: bool,
    /// The pseudo-terminal that it gets instead of pipes.
    pub terminal: Option<TerminalSize>,
    /// Most bytes of output that are kept.
    pub max_run_bytes: u64,
    /// What it may use of the machine.
    pub limits: RunLimits,
    /// Whether what is typed at its terminal is kept.
    pub record_input: bool,
    /// Whether it is told which programs those with limits on their starts start, or try to.
    pub observe: bool,
}

/// A place where commands run.
pub trait Host {
    /// Starts what the permit allows, and uses it up. What could not be executed (`E2BIG`, a missing program) is
    /// the run's end, not an error here.
    ///
    /// # Errors
    /// [`StartError`]; then nothing was started.
    fn run(
        &self,
        permit: Permit,
        terms: RunTerms,
    ) -> impl Future<Output = Result<Supervised, StartError>> + Send;
}
