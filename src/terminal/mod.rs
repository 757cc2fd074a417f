//! What people type at a terminal, and what a terminal answers to the programs on it.
//!
//! Pure: bytes to bytes, without any terminal. [`keys::encode`] is the entry point of the keys, [`Screen`] that of
//! the answers.

pub mod keys;

mod screen;
mod sequence;

pub use keys::{CursorKeys, InvalidKeys, KeyInput};
pub use screen::Screen;
