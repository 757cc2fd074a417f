//! The countersign program.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: as the warm runner this program must have no thread and read nothing.
    countersign_runner::main_if_asked();
    countersign_hosts::peer_fs::main_if_asked();
    countersign_hosts::sandbox::docker::main_if_asked();
    countersign_config::tls::install_provider();
    countersign::cli::main(std::env::args_os())
}
