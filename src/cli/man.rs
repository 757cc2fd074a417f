//! `countersign man`: a manual page for each command, from the definition of the command line.

use std::{fs, io, path::PathBuf};

use clap_mangen::Man;
use serde_json::json;

use super::{
    console::{Console, Format},
    exit::ExitStatus,
    failure::Failure,
    value,
};

/// Manual pages are for all to read.
const MODE: u32 = 0o644;

/// Write the manual pages
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign man man1
  man -l man1/countersign-exec.1")]
pub(crate) struct ManArgs {
    /// The folder they go to; made when it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages of this command line and prints where they are.
pub(crate) fn run(
    console: Console,
    args: &ManArgs,
    mut command: clap::Command,
) -> Result<ExitStatus, Failure> {
    let cannot = |path: &PathBuf, error: &io::Error| {
        Failure::new("io", format!("cannot write to {}: {error}", path.display()))
    };
    fs::create_dir_all(&args.folder).map_err(|error| cannot(&args.folder, &error))?;
    command.build();
    let mut written = Vec::new();
    for page in pages(&command) {
        let path = args.folder.join(page.get_filename());
        let mut text = Vec::new();
        page.render(&mut text)?;
        countersign_sys::fs::replace_file(&path, &text, MODE).map_err(|error| cannot(&path, &error))?;
        written.push(path.display().to_string());
    }
    match console.format() {
        Format::Json => console.document(&json!({ "pages": written }))?,
        Format::People => {
            for path in written {
                console.line(&value::visible(&path))?;
            }
        }
    }
    Ok(ExitStatus::SUCCESS)
}

/// A page for the command, and one for each command below it.
fn pages(command: &clap::Command) -> Vec<Man> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let below: Vec<Man> = below.flat_map(pages).collect();
    std::iter::once(Man::new(command.clone()).manual("countersign"))
        .chain(below)
        .collect()
}
