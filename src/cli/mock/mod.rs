//! `countersign serve --mock`: the countersign that a gateway under test talks to.
//!
//! It plays a script: it must never start a process, use a state directory but its own temporary one, or listen on
//! anything but loopback. Only the flag switches it on, no file and no variable. Entry point: [`serve()`]. Read on:
//! `script.rs` reads a script; the mock itself is [`countersign_http::mock`].

mod script;
mod serve;

pub(crate) use script::cases;
pub(crate) use serve::{open, serve, token};
