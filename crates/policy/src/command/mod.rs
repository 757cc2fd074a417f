//! What a command says, before anybody asks whether it may: text to segments, names to files, and the
//! tables of programs that are more than they seem (`docs/spec/command-analysis.md`).
//!
//! Everything here is pure; files are seen through [`PathLookup`] alone. Nothing here decides: the same facts
//! go to the allowlist, the deny rules and the explanation. What is not understood is an error with a
//! [`Finding`], never a weaker reading. Entry points: [`parse`] and [`Executable::resolve`].

pub mod finding;
pub mod rule;
pub mod span;

pub(crate) mod braces;
pub mod characters;
pub mod syntax;
pub(crate) mod variables;
pub(crate) mod word_reader;

pub mod parser;

pub mod direct;
pub(crate) mod file_names;
pub(crate) mod found_files;
pub mod hashbang;
pub mod helpers;
pub mod lookup;
pub mod paths;
pub mod pinning;
pub mod rendering;

pub mod moving;
pub mod names;
pub mod operands;
pub mod wrapper;

pub(crate) mod data_input;
pub mod delegation;
pub mod inline_eval;
pub(crate) mod multi_call;
pub mod safe_bin;
pub mod shell;
pub(crate) mod text_words;

pub mod display;
pub mod env_policy;
pub mod preflight;
pub mod prompt;
pub mod question;
pub mod redaction;
pub mod scripts;

pub use file_names::MAX_NAMES;
pub use finding::{Code, Finding};
pub use lookup::{DirectoryTrust, Executable, Inspected, Listing, PathLookup};
pub use parser::parse;
pub use rendering::{Plan, PlanStep};
pub use rule::{Rule, RuleSet};
pub use span::{SourceMap, Span};
