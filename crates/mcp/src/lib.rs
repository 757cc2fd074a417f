//! The Model Context Protocol: which tools an agent gets, how a call becomes an exec call, how its answer reads.
//!
//! One [`Server`] for every transport: [`HttpEndpoint`] and [`Server::serve_stdio`]. What it does a call with is a
//! [`Backend`]: the engine behind `POST /mcp`, the HTTP API behind `countersign mcp`. It owns the tool list, the keys that make a call happen once, the memory of
//! calls that wait for a person, and the link that is shown to people.
//!
//! Invariant: nothing that a client sends here decides anything. There is no tool that does, and the answer to an
//! elicitation is never read: it only ever shows a link.

#![forbid(unsafe_code)]

mod backend;
mod key;
mod pending_calls;
mod present;
mod progress;
mod server;
mod tools;
mod transport;

pub use backend::{Backend, CallContext, Calls, ExecCall, Outcome, WaitPolicy};
pub use key::KEY_META;
pub use server::Server;
pub use tools::{AskingTool, ToolArguments};
pub use transport::{HttpEndpoint, StdioError};
