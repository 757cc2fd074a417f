//! What a confined command does not see (`docs/decisions/0004-confined.md`).
//!
//! `MaskedPaths::find` in [`masked_paths`] reads the machine once, when the server starts, and says which directories to
//! cover; [`countersign_runner::confine`] covers them; [`Hidden`] answers afterwards what a path means inside. A cover lies
//! on a directory, and on every path that leads to it. This module must never confine commands of root. It must never
//! leave a path open in silence: it fails ([`Unconfined`]) or names the path in [`Confined::exposed`]. Entry point:
//! [`Confined::make`].

pub(crate) mod denied_programs;
mod hidden;
mod level;
pub mod masked_paths;
mod mounts;
mod openssh;
mod out_of_reach;
mod switches;

pub use denied_programs::Unmasked;
pub use hidden::Hidden;
pub use level::{Confined, Unconfined};
pub use masked_paths::Obstacle;
pub use out_of_reach::OutOfReach;

/// What would let this machine make user namespaces, if a switch is off.
pub(crate) fn remedy_of_this_machine() -> Option<&'static str> {
    switches::remedy(|name| std::fs::read_to_string(std::path::Path::new("/proc/sys").join(name)).ok())
}
