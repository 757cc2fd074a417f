//! What a session remembers besides its runs: overrides, directives, system events
//! (`docs/spec/exec-tool.md#5-sessions-exec-elevated` and `docs/spec/exec-tool.md#10-system-events`).
//!
//! Pure: texts and values in, texts and values out. Who may do what is asked of the settings; nothing here runs,
//! stores or sends anything. Entry points: [`directive::parse`], [`Sessions`].

pub mod directive;
pub mod gates;
pub mod sender;
pub mod text;

mod overrides;
mod store;
mod system_events;

pub use overrides::{Elevated, ExecOverrides, InForce, Overrides, SetBy};
pub use store::{SessionName, Sessions};
pub use system_events::{SystemEvent, SystemEvents};
