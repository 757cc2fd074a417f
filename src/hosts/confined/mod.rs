//! What a confined command does not see (`docs/decisions/0004-confined.md`).
//!
//! [`Confined::make`] is the entry point. [`places::Places::find`] looks at the machine once, when the server starts, and says which directories are to be
//! covered; [`crate::runner::confine`] covers them; [`Hidden`] answers afterwards what a path means inside.
//! Invariant: what is covered is a directory, and every path that leads to it.

mod hidden;
mod level;
mod mounts;
mod openssh;
mod out_of_reach;
pub mod places;
mod switches;

pub use hidden::Hidden;
pub use level::{Confined, Unconfined};
pub use out_of_reach::OutOfReach;
pub use places::Obstacle;
