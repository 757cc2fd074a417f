//! What the command line of `serve` says of the settings.

use std::path::PathBuf;

/// What the command line of `serve` says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartOptions {
    /// `--state-dir`; without it the environment says where.
    pub state_dir: Option<PathBuf>,
    /// `--config`: the `countersign.toml` to read; the file must exist.
    pub config: Option<PathBuf>,
    /// `--listen`, which overrides `[http] listen`.
    pub listen: Option<String>,
    /// `--insecure-bind`; `false` leaves `[http] insecure_bind` as it is.
    pub insecure_bind: bool,
    /// `--run-as`, which overrides `[exec] run_as`.
    pub run_as: Option<String>,
}
