//! The sandbox that a supervisor makes: what is inside, what is not, and that a run in it is a run like any other.

mod accounts;
pub(crate) mod fixture;
mod inside;
mod lifetime;
mod setup;
