//! Figures for machines that watch: what the admission counts, and everything that others count, under their names.
//!
//! Parts count for themselves, in types of the metrics library; here alone they get names, and here alone what is
//! only asked for now and then (memory, spools, places) is looked at. No label ever holds a name, an id or free
//! text: all are words of closed vocabularies, or templates of routes. Entry point: [`Metrics::render`].

mod connections;
mod exposition;
mod names;
mod now;
mod requests;

pub(crate) use connections::{Connections, Here, Listener};
pub(crate) use exposition::Format;
pub(crate) use names::Metrics;
pub(crate) use requests::{Requests, note_route};
