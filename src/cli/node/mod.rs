//! `countersign node`: the node host of this machine.
//!
//! It asks which policy this machine has, once and at a terminal. It must never set that policy itself: the node host
//! does, and only where the machine has none. Without a policy nothing runs. Entry point: [`run()`]. Read on: `run.rs`
//! connects to a gateway, `service.rs` writes the service, [`countersign_nodes::node`] is the node host itself.

mod policy;
mod run;
mod service;

use super::{context::Context, exit::ExitStatus, failure::Failure};
pub(crate) use run::NodeRunArgs;
pub(crate) use service::{NodeInstallArgs, NodeStatusArgs, NodeUninstallArgs};

/// Be a node: run commands for a gateway, if this machine's own policy allows them
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign node run --host gateway.local
  countersign node install --host gateway.local
  countersign node status

A gateway is a countersign server or an OpenClaw gateway. The node has a policy of its own: run
and install ask for it once at a terminal, --policy says it, and until then nothing runs.")]
pub(crate) enum NodeCommand {
    /// Connect to a gateway and run what it sends
    Run(Box<NodeRunArgs>),
    /// Write a service that runs the node
    Install(Box<NodeInstallArgs>),
    /// Remove that service
    Uninstall(NodeUninstallArgs),
    /// Say whether the node is installed, running, connected and paired
    Status(NodeStatusArgs),
}

/// Does one of them.
pub(crate) fn run(context: &Context, command: NodeCommand) -> Result<ExitStatus, Failure> {
    match command {
        // It starts its runner before any other thread exists, so it makes its own runtime.
        NodeCommand::Run(args) => run::run(context, *args),
        NodeCommand::Install(args) => service::install(context, *args),
        NodeCommand::Uninstall(args) => service::uninstall(context, &args),
        NodeCommand::Status(args) => service::status(context, &args),
    }
}
