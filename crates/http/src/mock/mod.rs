//! A server that only plays: the API as a gateway meets it, with ends that a script says.
//!
//! For the tests of a gateway's author. No engine, ledger or host is behind it: it must never start a process, read a
//! policy or keep anything, and it listens on loopback alone. Every answer is marked: JSON objects and the data of
//! events have `mock: true`, and all have the header `countersign-mock`. What it answers has the same types as the
//! answers of a server, so it cannot drift from them.
//!
//! Entry points: [`Script`] and [`Mock`]. Read on: `script.rs` says what happens to a command, `play.rs` plays it,
//! `routes.rs` answers, `server.rs` listens and hangs up.

mod answer;
mod events;
mod play;
mod routes;
mod run;
mod script;
mod server;

pub use play::{Heard, HeardCall, MockPlay};
pub use script::{Answer, Fault, InvalidScript, Rule, Script};
pub use server::{Mock, MockError};
