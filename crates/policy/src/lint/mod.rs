//! What is odd about entries, grants, deny rules and safe bins: what can never match, what another one makes
//! pointless, and what allows more than anybody would write down knowingly.
//!
//! Nothing here decides about a command. Pure apart from the [`crate::command::PathLookup`] handed in, and bounded:
//! the work grows with the number of entries, not with its square, and looks at no more than a fixed number of files.
//! Entry points: [`Linter::new`] for the lists of one agent, [`fn@safe_bins`] for the configured safe bins.

mod confined;
mod index;
mod linter;
mod remark;
mod safe_bins;

pub use linter::{Linter, Lists, Surroundings};
pub use remark::{Item, Remark, RemarkCode, Weight};
pub use safe_bins::safe_bins;

#[cfg(test)]
mod tests;
