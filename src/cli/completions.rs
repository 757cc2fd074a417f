//! `countersign completions`: a script for a shell, from the definition of the command line.

use clap_complete::Shell;

use super::{console::Console, exit::ExitStatus, failure::Failure};

/// Print a script that completes commands in a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign completions bash > countersign.bash
  countersign completions zsh > _countersign
  countersign completions fish > countersign.fish

Where shells look: ~/.local/share/bash-completion/completions/countersign, a folder of zsh's
fpath, ~/.config/fish/completions.")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Prints the script for this command line.
pub(crate) fn run(
    console: Console,
    args: &CompletionsArgs,
    mut command: clap::Command,
) -> Result<ExitStatus, Failure> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    console.raw_out(&script)?;
    Ok(ExitStatus::SUCCESS)
}
