//! The shared cases, and each rule by itself: with a switch for each, which only these tests have.

mod analysis_rules;
mod command_corpus;
