//! The protocols of countersign under a model checker.
//!
//! Every model keeps the world (processes, files, links, clocks, what is lost with power) and asks the program's own
//! functions for each decision. A checker then tries every order of events within small bounds: crashes at every point,
//! losses of power, late processes, cut links. Each model can be told to decide one thing wrongly, and its tests show
//! that the properties notice.

pub mod answers;
pub mod launch;
pub mod nodes;
pub mod orders;
