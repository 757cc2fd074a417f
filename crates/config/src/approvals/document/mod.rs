//! The approvals document as a value (`docs/spec/approvals-store.md#3-fields` to
//! `docs/spec/approvals-store.md#6-resolving-a-policy` and `docs/spec/approvals-store.md#10-writing`).
//!
//! [`Document::parse`] is the only way in from bytes and refuses everything that two readers could take for
//! different policies. [`Document::print`] is the only way out. In between, anything that other programs put there and
//! that we do not know is kept. Nothing here touches a file or a clock.

mod carry;
mod changes;
mod confined;
mod difference;
mod edit;
mod form;
mod json;
mod model;
mod normalise;
mod problem;
mod read;
mod text;
mod write;

#[cfg(test)]
mod tests;

pub use carry::Incoming;
pub use confined::Confined;
pub use difference::{ChangeDirection, Difference, LostRules};
pub use edit::{Added, Limits, NewPattern, PatternChange, PolicyTarget, Removed, Use};
pub use form::{EntryForm, Inert};
pub use json::{Json, Number};
pub use model::{
    Agent, Defaults, DenyRule, Document, Entry, Grant, Keyed, Listed, Members, PolicyFields, QUESTIONS,
    Socket,
};
pub use normalise::is_old_name_of_main;
pub use problem::{MAX_BYTES, Refusal, RefusalReason, Warning};
pub use read::{Loaded, may_have_children};
