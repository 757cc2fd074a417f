//! Commands on nodes: the whole engine in this process, with nodes that do what a test says. Nothing of the engine is
//! replaced; only what lies behind `NodeLink` is.

mod fleet;
pub(crate) mod world;

mod approval;
mod decision;
mod elsewhere;
mod events;
mod killed;
mod run_task;
mod selection;
