//! Tries a policy: cases with what is expected of it, and the runs of the record judged anew. The server and the command line
//! share it.
//!
//! It must never run a command, or decide what policy says: the engine judges, or the analysis in a world that exists only
//! in a case. Read on: [`cases`] are expectations, [`record`] compares what was decided with what would be.

#![forbid(unsafe_code)]

pub mod cases;
pub mod record;
