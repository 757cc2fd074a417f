//! Nobody answers himself: what commands try from inside a run, at each level of isolation.
//!
//! [`table`] has the attacks as data: a shell text (with the program `probe.c` where a call of the kernel is needed) and
//! what is to become of it at each level. Each attack has a positive control: a level, a variant of it, or a server with
//! one protection left away, where it gets through. [`scene`] is the machine around it, [`steps`] are the attacks that
//! need more than one command. What is measured is the table in `SECURITY.md`.
//!
//! The servers run under accounts of their own, which root alone can choose.

mod answers;
mod measured;
mod rows;
mod scene;
mod steps;
mod table;
