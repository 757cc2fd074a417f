//! `countersign help`: what `--help` behind the same words shows.

use super::{exit::ExitStatus, failure::Failure};

/// Show the help of a command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign help exec
  countersign help policy test")]
pub(crate) struct HelpArgs {
    /// The words of the command; none for the list of all
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

/// Prints the help of a command of this command line.
pub(crate) fn run(args: &HelpArgs, root: &clap::Command) -> Result<ExitStatus, Failure> {
    let mut command = root;
    for word in &args.words {
        command = command.find_subcommand(word).ok_or_else(|| {
            Failure::usage(format!("no such command: {}", args.words.join(" "))).hint("countersign --help")
        })?;
    }
    let words = args.words.iter().map(String::as_str);
    let line = std::iter::once("countersign").chain(words).chain(["--help"]);
    if let Err(help) = root.clone().try_get_matches_from(line) {
        // A reader that left has what it wanted.
        drop(help.print());
    }
    Ok(ExitStatus::SUCCESS)
}
