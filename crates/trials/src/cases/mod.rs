//! Cases: commands, each with what policy is expected to say.
//!
//! `notation.rs` reads them from a text, `world.rs` judges one in a world of its own. What the server's policy says comes
//! as an explanation ([`CaseResult::of_explanation`]). Entry point: [`parse`].

mod case;
mod notation;
mod result;
mod world;
mod yaml;

pub use case::{Case, Expect, InvalidCases, OwnEntry, OwnWorld, World};
pub use notation::{Notation, parse};
pub use result::CaseResult;
pub use world::judge_in_own_world;
