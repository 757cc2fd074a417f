//! Whether a command is covered: every segment of it, through wrappers and shells
//! (`docs/spec/command-analysis.md#1-order-of-evaluation` to `docs/spec/command-analysis.md#8-safe-bins`).
//!
//! **Prove or ask.** What is not shown to be covered is a miss, never a weaker check; deny rules are matched against
//! everything that might run. [`analyze`] is the one entry point for exec, explain and the node runner. Pure apart
//! from the [`crate::command::PathLookup`] handed in.

mod analysis;
mod entry;
mod evaluation;
mod expansion;
mod explain;
mod found;
mod index;
mod input;
mod keeps;

mod entries;
mod limits;
mod listings;
mod looking;
mod redirected;
mod runners;
mod segment;
mod shells;
mod unseen;
mod unwrapping;
mod work;
mod writers;
mod writing;

mod coverage;
mod denial;
mod directory;
mod effort;
mod proposal;
mod shapes;

pub use analysis::{
    Analysis, AnalysisVerdict, CreditKind, CreditedEntry, DenyHit, FilledPart, Match, MatchKind,
    SegmentReport, WrapperReport,
};
pub use denial::means_file;
pub use entry::{Entry, Grant, Typing};
pub use evaluation::{analyze, analyze_under};
pub use index::{Entries, EntryIndex};
pub use input::{AnalysisPolicy, AnalysisRequest, DenyRule, Protected, SkillBin};
pub use keeps::Keeps;
pub(crate) use writing::WRITES_DECIDING;

#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod writers_tests;
