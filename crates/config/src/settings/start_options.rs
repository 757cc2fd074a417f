//! What the command line of `serve` says of the settings.

use std::path::PathBuf;

/// What the command line of `serve` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartOptions {
    pub state_dir: Option<PathBuf>,
    pub config: Option<PathBuf>,
    pub listen: Option<String>,
    pub insecure_bind: bool,
    pub run_as: Option<String>,
}
