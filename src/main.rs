//! The countersign program.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: as the warm runner this program must have no thread and read nothing.
    countersign::runner::main_if_asked();
    countersign::hosts::peer_fs::main_if_asked();
    countersign::hosts::sandbox::docker::main_if_asked();
    countersign::tls::install_provider();
    countersign::cli::main(std::env::args_os())
}
