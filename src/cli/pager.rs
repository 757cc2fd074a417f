//! Long lists go through a pager, as those of git do: at a terminal, when they have more lines than it shows.
//!
//! Nothing is started: when everything is there, this process becomes the pager, with the lines as its input.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Seek as _, Write as _},
};

use countersign_sys::process;

use super::{context::Context, failure::Failure};

/// As git has it: it ends by itself when everything fits, shows colours and leaves the screen as it was.
const USUAL: &str = "less -FRX";

/// Prints lines, by way of a pager where they are more than the terminal shows.
pub(crate) fn print(context: &Context, lines: &[String]) -> Result<(), Failure> {
    let console = context.console;
    let pager = console
        .rows()
        .filter(|rows| lines.len() >= *rows)
        .and_then(|_rows| chosen(context));
    let Some(pager) = pager else {
        return lines.iter().try_for_each(|line| console.line(line));
    };
    // It comes back only where there is no shell: then the lines are printed.
    drop(become_pager(&pager, lines));
    lines.iter().try_for_each(|line| console.line(line))
}

/// The command of the pager; `None` where none is wanted.
fn chosen(context: &Context) -> Option<String> {
    if context.no_pager {
        return None;
    }
    let said = ["COUNTERSIGN_PAGER", "PAGER"]
        .into_iter()
        .find_map(|name| context.environment.get(name));
    match said {
        Some(said) if said.trim().is_empty() || said.trim() == "cat" => None,
        Some(said) => Some(said),
        None => Some(USUAL.to_owned()),
    }
}

fn become_pager(pager: &str, lines: &[String]) -> io::Error {
    let input = match spooled(lines) {
        Ok(input) => input,
        Err(error) => return error,
    };
    if let Err(error) = rustix::stdio::dup2_stdin(&input) {
        return error.into();
    }
    // A pager that is not there is no reason to show nothing.
    let script =
        format!(": \"${{LESS=FRX}}\"; export LESS\n{pager}\ncase $? in 126|127) exec cat;; esac\nexit 0\n");
    let words = ["/bin/sh", "-c", script.as_str()].map(OsString::from);
    process::execute(&words)
}

/// The lines as a file that is read from its beginning, and has no name.
fn spooled(lines: &[String]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    for line in lines {
        writeln!(file, "{line}")?;
    }
    file.rewind()?;
    Ok(file)
}
