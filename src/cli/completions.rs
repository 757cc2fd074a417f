//! `countersign completions`: a script for a shell, which asks this program for each word, so that it offers ids, agents and
//! keys that the server knows ([`super::candidates`]).

use clap_complete::{Shell, env::Shells};

use super::{console::Console, exit::ExitStatus, failure::Failure};

/// Names the shell in the environment of this program when a script asks it for words.
pub(crate) const VARIABLE: &str = "COUNTERSIGN_COMPLETE";

/// Print a script that completes commands in a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign completions bash > countersign.bash
  countersign completions zsh > _countersign
  countersign completions fish > countersign.fish

Where shells look: ~/.local/share/bash-completion/completions/countersign, a folder of zsh's
fpath, ~/.config/fish/completions. It completes commands, options, ids of approvals and
runs, agents, nodes, keys and presets, as the server of the state directory or of COUNTERSIGN_URL
knows them.")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(console: Console, args: &CompletionsArgs) -> Result<ExitStatus, Failure> {
    let shells = Shells::builtins();
    let shell = shells
        .completer(&args.shell.to_string())
        .ok_or_else(|| Failure::usage("there are no completions for this shell"))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "countersign", "countersign", "countersign", &mut script)?;
    console.raw_out(&script)?;
    Ok(ExitStatus::SUCCESS)
}
