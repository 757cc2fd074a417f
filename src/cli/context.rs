//! What every command gets: the terminal, the environment, the clock and the flags that name the server. `discover.rs`
//! finds the server by them.

use std::{path::PathBuf, sync::Arc};

use countersign_config::settings::{Environment, StateDir};
use countersign_sys::clock::{Clock, SteadyClock};

use super::{console::Console, failure::Failure};

/// Where the help of every command lists the options that all of them have.
pub(crate) const GLOBAL_OPTIONS: &str = "Global options";

/// Flags that name the server and the state directory.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ServerFlags {
    /// Address of the server.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "URL",
        help = "Address of the server, http:// or https://HOST:PORT [env: COUNTERSIGN_URL]"
    )]
    pub(crate) url: Option<String>,

    /// Token to present.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "TOKEN",
        help = "Token to present [env: COUNTERSIGN_TOKEN]"
    )]
    pub(crate) token: Option<String>,

    /// State directory.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "DIR",
        help = "State directory [env: OPENCLAW_STATE_DIR; default: ~/.openclaw]"
    )]
    pub(crate) state_dir: Option<PathBuf>,
}

/// What every command gets.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) console: Console,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) clock: Arc<dyn Clock>,
    /// How to find the server.
    pub(crate) server: ServerFlags,
    /// Whether long lists are printed as they are.
    pub(crate) no_pager: bool,
}

impl Context {
    /// The context of this process.
    pub(crate) fn new(console: Console, environment: Arc<dyn Environment>, server: ServerFlags) -> Self {
        Self {
            console,
            environment,
            clock: Arc::new(SteadyClock::of_machine()),
            server,
            no_pager: false,
        }
    }

    /// Prints long lists as they are.
    pub(crate) fn without_pager(self, no_pager: bool) -> Self {
        Self { no_pager, ..self }
    }

    /// The state directory that flags and environment name. It need not exist.
    pub(crate) fn state_dir(&self) -> Result<StateDir, Failure> {
        StateDir::resolve(self.server.state_dir.as_deref(), self.environment.as_ref()).map_err(|error| {
            Failure::new("state-dir", error.to_string()).exit(super::exit::ExitStatus::CONFIG)
        })
    }
}
