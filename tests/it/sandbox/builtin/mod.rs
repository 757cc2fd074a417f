//! The sandbox that a supervisor makes: what is inside, what is not, and that a run in it is a run like any other.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names the reports it wants, and any other fails it"
)]

mod accounts;
mod inside;
mod lifetime;
pub(crate) mod place;
mod setup;
