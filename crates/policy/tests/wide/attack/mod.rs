//! An attack on the rules about programs that start others (D1, G11, G12, G16 to G24, W, starter sets), which can be run again.
//!
//! Each program of the rule is told what makes it start something, by every option that the table of the attack
//! (`tests/data/attack`) and the program's own help know, in every spelling. What the evaluator covers all the same is run,
//! shut in, and must start nothing and write no file that decides what starts. `COUNTERSIGN_TEST_ATTACKS` says how many
//! covered attempts of each program are run, and has programs asked for their options (`docs/second-attack.md`).

mod attempts;
mod cell;
mod measure;
mod table;

mod compounds;
mod control;
mod expansions;
mod loops;
mod programs;
mod redirections;
mod shapes;
mod starters;
mod substitutions;
mod variables;

/// The directory of a run, as it is called inside.
const HERE: &str = "/tmp/w";
/// Covered attempts of each program that are run, unless the environment says more.
const RUN_OF_EACH: usize = 1;
