//! Commands on nodes: which node a call means, what is known of it, and the task of each of its runs
//! (`docs/spec/bridge.md#13-ours`).
//!
//! A node is believed about its own machine and about nothing else: what it says of a run counts if the run is its own.
//! The fence of such a run is on the node, so a call that may have reached one must never be sent again. A node that can
//! say what became of the run is asked; otherwise the run is `lost`. Entry point: `NodeRuns::start`. Read on:
//! `run_task.rs` follows one run, by the states of `wait.rs`; what is asked of a node before a decision is in
//! `evaluator/on_node.rs`.

mod choose;
mod control;
mod messages;
mod on_node;
mod output;
mod run_task;
mod runs;
mod see;
mod view;
mod wait;

pub(super) use choose::{choose, unusable};
pub(super) use control::NodeControl;
pub(super) use messages::NodeNews;
pub(super) use on_node::{NodeDocument, OnNode, Prepared, TheirDocument};
pub(super) use runs::NodeRuns;
pub(super) use see::NodePeers;
pub use view::NodeView;

use countersign_domain::{AgentId, Reason, RunStatus};

/// The working directory of a call on a node that nobody named.
pub(crate) const OWN_DIRECTORY: &str = ".";

/// Whether a reason ends a run that started: such a run was not denied any more.
const fn is_denial(reason: Reason) -> bool {
    matches!(reason.run_status(), RunStatus::Denied)
}

/// Says that a source binds an agent to a node, for messages.
fn agent_key(agent: &AgentId, source: &str) -> String {
    format!("{source} binds agent {agent} to a node")
}
