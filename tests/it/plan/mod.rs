//! What executes is what was analysed: lists run without a shell as a shell would run them, and whatever changes between
//! the decision and the start, nothing runs that was not judged.

mod binding;
mod direct;
#[cfg(feature = "test-hooks")]
mod held;
mod here_documents;
mod lists;
mod redirections;
#[cfg(feature = "test-hooks")]
mod swaps;
mod unasked;
