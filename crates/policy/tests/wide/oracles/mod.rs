//! What others make of the same input: another parser of commands, and an ECMAScript engine of argument patterns. What
//! real shells do, and exec with what explain said, is tested beside the program, with the same generator of commands.

mod chance;
mod commands;
mod wanted;

mod ecmascript;
mod regressions;
mod shell_grammar;

use chance::Chance;
use wanted::{chance, wanted};
