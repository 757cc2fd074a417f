//! The level `confined`, or why it cannot be had.

use std::path::{Path, PathBuf};

use countersign_config::settings::{Environment, Server, StateDir};
use countersign_runner::confine::{ConfineError, Confinement, ConfinementPlan};

use super::{
    Hidden, Obstacle,
    masked_paths::{self, MaskedPaths, Subject},
};

/// The program that makes the namespaces: this one, even when its file was replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// How often the machine is looked at while it changes.
const ATTEMPTS: usize = 3;

/// A place where confined commands run.
#[derive(Debug)]
pub struct Confined {
    /// The namespaces, for a runner.
    pub confinement: Confinement,
    /// What commands do not see there.
    pub hidden: Hidden,
    /// Sockets that stay within reach although they should not.
    pub exposed: Vec<PathBuf>,
}

/// Why commands cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum Unconfined {
    /// Nothing can be kept from root.
    #[error("commands of root cannot be confined; run the server under an account of its own")]
    Root,
    /// Something about this machine or these settings.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// The kernel, or what guards it, refuses.
    #[error(transparent)]
    Refused(#[from] ConfineError),
}

impl Unconfined {
    /// What would change it, where that is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Refused(_) => super::remedy_of_this_machine(),
            Self::Root | Self::Obstacle(_) => None,
        }
    }
}

impl Confined {
    /// Makes the place. To be called while the process has one thread, like everything that starts the runner.
    ///
    /// # Errors
    /// [`Unconfined`].
    pub fn make(
        state_dir: &StateDir,
        server: &Server,
        server_file: &Path,
        environment: &dyn Environment,
    ) -> Result<Self, Unconfined> {
        let uid = account()?;
        let attempt = || {
            masked_paths::make_directories(uid, &open(state_dir))?;
            let MaskedPaths { plan, exposed } = find(uid, state_dir, server, server_file, environment)?;
            Ok(Self {
                confinement: Confinement::make(Path::new(THIS_PROGRAM), &plan)?,
                hidden: Hidden::by(&plan),
                exposed,
            })
        };
        // Between looking and covering something may go away, like the directory of an agent that ended. What is
        // looked at again is as it is by then; what stays refused is refused.
        let mut made = attempt();
        for _ in 1..ATTEMPTS {
            if made.is_ok() {
                break;
            }
            made = attempt();
        }
        made
    }

    /// Whether a server with these settings could make it, without changing anything.
    ///
    /// # Errors
    /// [`Unconfined`].
    pub fn check(
        state_dir: &StateDir,
        server: &Server,
        server_file: &Path,
        environment: &dyn Environment,
    ) -> Result<(), Unconfined> {
        let uid = account()?;
        let plan = if state_dir.root().exists() {
            find(uid, state_dir, server, server_file, environment)?.plan
        } else {
            ConfinementPlan::default()
        };
        Confinement::make(Path::new(THIS_PROGRAM), &plan)?;
        Ok(())
    }
}

fn account() -> Result<u32, Unconfined> {
    let account = rustix::process::geteuid();
    if account.is_root() {
        Err(Unconfined::Root)
    } else {
        Ok(account.as_raw())
    }
}

/// What commands work in although it lies in the state directory.
fn open(state_dir: &StateDir) -> [PathBuf; 2] {
    [state_dir.workspace(), state_dir.countersign().join("sandboxes")]
}

fn find(
    uid: u32,
    state_dir: &StateDir,
    server: &Server,
    server_file: &Path,
    environment: &dyn Environment,
) -> Result<MaskedPaths, Obstacle> {
    let mut ruling = vec![
        server_file.to_path_buf(),
        state_dir.config(),
        state_dir.document(server),
        state_dir.ledger(server),
        state_dir.audit_key(),
    ];
    ruling.extend(state_dir.api_socket(server));
    let program = std::env::current_exe().ok();
    MaskedPaths::find(&Subject {
        uid,
        home: state_dir.home(),
        state: state_dir.root(),
        open: &open(state_dir),
        ruling: &ruling,
        program: program.as_deref(),
        environment: &environment.inherited(),
    })
}
