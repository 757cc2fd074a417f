//! What people type at a terminal, and what a terminal answers to the programs on it.
//!
//! Pure: bytes to bytes, without any terminal. An answer must never repeat a program's own text: otherwise a program
//! that prints another person's file would type what stands in it. [`keys::encode`] is the entry point of the keys,
//! [`Screen`] that of the answers.

pub mod keys;

mod screen;
mod sequence;

pub use keys::{CursorKeys, InvalidKeys, KeyInput};
pub use screen::{Look, Row, Screen};
