//! The runs of the record beside what a candidate says to them now.
//!
//! A run that cannot be judged anew is counted, never guessed. Entry point: [`Backtest`]; `past.rs` reads a run, `tally.rs`
//! counts the changes.

mod backtest;
mod past;
mod tally;

pub use backtest::{Backtest, fallback_in_force};
pub use past::{LeftOut, Past, spelled, word};
pub use tally::{ChangedCommand, ChangedCommands, Compared, Counts, cells};
