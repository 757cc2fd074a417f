//! `countersign check-gateway`: plays the cases that every gateway meets, and says how a gateway took each.
//!
//! It is the countersign that the gateway talks to (a mock), and the agent that wants something of the gateway. It must
//! never start a process, nor reach a server of its caller. Entry point: [`run`]. Read on: `case.rs` has the cases and
//! judges, `command.rs` drives.

mod case;
mod command;

pub(crate) use command::{CheckGatewayArgs, run};
