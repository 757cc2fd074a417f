//! What a session remembers besides its runs: overrides, directives, system events (`exec-tool.md` 5 and 10).
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
pub use system_events::{MAX_SYSTEM_EVENTS, SystemEvent, SystemEvents};
