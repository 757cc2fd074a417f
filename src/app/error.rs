//! Why a server does not start.

use std::io;

use countersign_config::{
    settings::{SettingsProblem, StateDirError},
    tls::TlsProblem,
};
use countersign_engine::tokens::TokenFileError;
use countersign_hosts::{confined::Unconfined, shell::NoShell};
use countersign_http::ListenError;
use countersign_ledger::{LedgerError, OpenError};
use countersign_runner::RunnerError;

use super::AccountProblem;

use crate::telemetry::LogError;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings do not read; each problem is a line of its own.
    #[error("the settings do not read")]
    Settings(Vec<SettingsProblem>),
    /// The state directory must not be used.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The log cannot be set up.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The files of `[tls]` cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsProblem),
    /// `[exec] isolation` demands a level that cannot be reached.
    #[error("[exec] isolation = \"confined\" cannot be reached")]
    Isolation(#[from] Unconfined),
    /// Commands cannot run under the account that is wanted.
    #[error(transparent)]
    Account(#[from] AccountProblem),
    /// A node host was started by root for commands of another account.
    #[error("a node host does not give root up")]
    NodeHostOfRoot,
    /// The runner cannot be started.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// No shell can be used.
    #[error(transparent)]
    Shell(#[from] NoShell),
    /// The ledger cannot be opened; another server may use it.
    #[error(transparent)]
    Ledger(#[from] OpenError),
    /// The address or the socket cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The token files are not in order.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// What an earlier server left cannot be settled.
    #[error("what an earlier server left cannot be settled")]
    Recover(#[from] LedgerError),
    /// The limit of open files is too low to serve anybody.
    #[error("it needs at least {least} open files and may have {may}")]
    FewOpenFiles {
        /// What the limit is.
        may: u64,
        /// What it has to be.
        least: u64,
    },
    /// The system refused something that every server needs.
    #[error("{what}")]
    System {
        /// What failed, as the whole message.
        what: &'static str,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
}

impl StartError {
    /// For `map_err`: the system refused this.
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
