//! The patterns of entries, grants and deny rules: executables, arguments and generated forms (M1 to M6).
//!
//! An expression must never silently mean something wider: syntax that the engines here would read in another way is
//! refused. A match that reaches a limit is neither yes nor no ([`ArgumentMatch::Undecided`]). Nothing here looks at a
//! disk. Entry points: [`ExecutablePattern::parse`], [`ArgumentPattern::parse`], [`cwd_argv_pattern`]. The rules M1 to
//! M6 are in `docs/spec/command-analysis.md#m1`.

mod arguments;
mod cache;
mod dialect;
mod executable;
mod generated;
mod glob;
mod path_case;

pub(crate) use arguments::ArgumentRule;
pub use arguments::{ArgumentMatch, ArgumentPattern, InvalidArgumentPattern};
pub use cache::PatternCache;
pub use dialect::UnsupportedSyntax;
pub use executable::{ExecutablePattern, InertPattern, has_wildcard};
pub use generated::{COMMAND_MARKER, CWD_ARGV_PREFIX, command_digest, command_marker, marker_of_digest};
pub(crate) use generated::{GENERATED_SOURCE, cwd_argv_pattern, is_marker};
pub use path_case::PathCase;
pub(crate) use path_case::fold;
