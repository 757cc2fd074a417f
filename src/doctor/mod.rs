//! What is wrong or risky, and how to fix it.
//!
//! [`gather()`] looks at the state directory, the settings and the approvals document and changes nothing;
//! [`findings()`] evaluates what it saw and is pure. A finding has a stable id, and its fix names the exact key or
//! command. A caller that shows the findings may apply a [`Repair`]; nothing here does.

mod finding;
mod findings;
mod gather;
mod snapshot;

pub use finding::{Finding, Repair, Severity};
pub use findings::findings;
pub use gather::{NotConfined, Trials, TryConfining, TrySandbox, TrySocket, gather};
pub use snapshot::{
    AgentRules, AgentSandbox, DirectoryState, DocumentState, DoubtfulToken, InForce, IsolationState,
    PrivateFile, Remark, Room, Scopes, ServerAccount, ServerState, SettingsState, Snapshot, SocketState,
    TlsState, TokenDoubt, WaitingSetting,
};
