//! What a permit lets run in its sandbox, as the sandbox is told.

use countersign_domain::{Bound, Command};
use countersign_hosts::sandbox::{Inside, InsideCommand};
use countersign_ledger::launch::Permit;

use crate::environment::TERMINAL_KIND;

/// The variable that the sandbox has a value of its own for, which a call's comes before.
const PATH: &str = "PATH";
const TERM: &str = "TERM";

/// What a permit lets run in its sandbox; `None` for a patch, which no program applies.
pub(super) fn inside_of(permit: &Permit) -> Option<Inside> {
    let binding = permit.binding();
    let command = match &binding.command {
        Command::Shell(text) => InsideCommand::Shell(text.clone()),
        Command::Argv(argv) => InsideCommand::Argv(argv.clone()),
        Command::Patch(_) => return None,
    };
    let path_prepend = match &binding.bound {
        Bound::Inside { path_prepend, .. } => path_prepend.clone(),
        Bound::Exec { .. }
        | Bound::Plan { .. }
        | Bound::Rendered { .. }
        | Bound::Text { .. }
        | Bound::Held { .. }
        | Bound::OnNode { .. }
        | Bound::Patch { .. }
        | Bound::Elsewhere { .. } => None,
    };
    let env = permit.env().iter().filter(|(name, _value)| *name != PATH);
    let has_term = permit.env().iter().any(|(name, _value)| name == TERM);
    let term = (binding.pty && !has_term).then_some((TERM, TERMINAL_KIND));
    Some(Inside {
        command,
        cwd: binding.cwd.clone().into(),
        env: env
            .chain(term)
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        path_prepend,
    })
}
