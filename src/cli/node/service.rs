//! `countersign node install`, `uninstall` and `status`.

use std::path::{Path, PathBuf};

use serde_json::json;

use countersign_config::settings::StateDir;
use countersign_nodes::node::{
    DeviceTokens, GatewayAddress, GatewayEntry, NodeFile, NodeState, NodeStatusFile, Plaintext, Trust,
    service::{self, Changed, Manager, ServiceError, ServiceSpec},
};
use countersign_policy::preset::Preset;

use super::{
    super::{
        console::Format, context::Context, exit::ExitStatus, failure::Failure, serve::with_causes,
        table::Table,
    },
    policy,
    run::{GatewayArgs, Resolved, identity_failure},
};

/// Write a service that runs the node
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign node install --print
  countersign node install --host gateway.local
  countersign node install --policy cautious
  countersign node install --system --account agent --print

Writes a systemd user unit, with --system a system unit, on macOS a launchd agent, and says what
to run to start it. A file that countersign did not write is never replaced. The token of the
gateway is not written into the service. It asks, once and at a terminal, which policy this machine
has; --policy answers that, and the node sets it when it first starts. A system unit names the
answer.")]
pub(crate) struct NodeInstallArgs {
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Write a system unit, for root
    #[arg(long)]
    system: bool,
    /// The account that the system unit runs as
    #[arg(long, value_name = "ACCOUNT", requires = "system")]
    account: Option<String>,
    /// Print the service instead of writing it
    #[arg(long)]
    print: bool,
}

/// Remove the service that install wrote
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign node uninstall

Removes only what countersign node install wrote. The node's identity and its ledger stay in the
state directory.")]
pub(crate) struct NodeUninstallArgs {
    /// The system unit
    #[arg(long)]
    system: bool,
}

/// Say whether the node is installed, running, connected and paired
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign node status
  countersign node status --json

Exit code 0 when the node is connected, else 1.")]
pub(crate) struct NodeStatusArgs {
    /// Look for the system unit
    #[arg(long)]
    system: bool,
}

const fn manager(system: bool) -> Manager {
    if system {
        Manager::SystemdSystem
    } else {
        Manager::of_user()
    }
}

fn service_path(context: &Context, manager: Manager) -> Result<PathBuf, Failure> {
    let variable = |name: &str| {
        context
            .environment
            .get(name)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    let home = match (variable("HOME"), manager) {
        (Some(home), _) => home,
        (None, Manager::SystemdSystem) => PathBuf::from("/"),
        (None, Manager::SystemdUser | Manager::Launchd) => {
            return Err(
                Failure::new("no-home", "HOME is not set, so there is no place for a service")
                    .exit(ExitStatus::CONFIG),
            );
        }
    };
    Ok(manager.path(&home, variable("XDG_CONFIG_HOME").as_deref()))
}

/// Writes the service, and what it connects to.
pub(super) fn install(context: &Context, args: NodeInstallArgs) -> Result<ExitStatus, Failure> {
    let NodeInstallArgs {
        gateway,
        system,
        account,
        print,
    } = args;
    let manager = manager(system);
    if account.is_none() && manager == Manager::SystemdSystem {
        return Err(Failure::usage("a system unit needs an account to run as")
            .advice("--account NAME names the one that owns the state directory"));
    }
    let mut resolved = Resolved::of(context, &gateway)?;
    let state_dir = context.state_dir()?;
    let path = service_path(context, manager)?;
    // What is only printed, or is for the state directory of another account, says it itself.
    let is_kept_here = !print && manager != Manager::SystemdSystem;
    let said_by_service = match manager {
        Manager::SystemdSystem => {
            let before = service::installed(&path).ok().flatten();
            let given = gateway.policy.or_else(|| policy::said_by(&before?));
            resolved.choose_policy(context.console, &state_dir, given)?;
            resolved.chosen_policy()
        }
        Manager::SystemdUser | Manager::Launchd if is_kept_here => {
            resolved.choose_policy(context.console, &state_dir, gateway.policy)?;
            None
        }
        Manager::SystemdUser | Manager::Launchd => gateway.policy,
    };
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(
            "program",
            format!("the path of this program is not known: {error}"),
        )
    })?;
    let spec = ServiceSpec {
        manager,
        program,
        arguments: arguments(&state_dir, &gateway, said_by_service)?,
        account,
        log: (manager == Manager::Launchd).then(|| state_dir.root().join("countersign/node/node.log")),
    };
    let text = service::text(&spec).map_err(|error| service_failure(&error))?;
    if print {
        return printed(context, &path, &text);
    }
    if manager != Manager::SystemdSystem {
        state_dir
            .prepare()
            .map_err(|error| Failure::new("state-dir", with_causes(&error)).exit(ExitStatus::CONFIG))?;
        resolved.remember(&state_dir, &*context.clock)?;
    }
    let changed = service::install(&path, &text).map_err(|error| service_failure(&error))?;
    let next = manager.start_commands(&path);
    report(context, &path, changed, ("installed", "was there already"), &next)?;
    if context.console.format() == Format::People {
        policy::tell_installed(context.console, &state_dir, resolved.chosen_policy())?;
    }
    Ok(ExitStatus::SUCCESS)
}

/// What the service runs. Where the gateway is stands in `node.json`, but for a system unit, whose state directory may
/// be another account's.
fn arguments(
    state_dir: &StateDir,
    gateway: &GatewayArgs,
    policy: Option<Preset>,
) -> Result<Vec<String>, Failure> {
    let root = state_dir.root().to_str();
    let root = root.ok_or_else(|| Failure::usage("the state directory's path is not valid UTF-8"))?;
    let mut arguments: Vec<String> = ["--state-dir", root, "node", "run"].map(str::to_owned).into();
    let mut put = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            arguments.extend([flag.to_owned(), value]);
        }
    };
    put("--host", gateway.host.clone());
    put("--port", gateway.port.map(|port| port.to_string()));
    put("--tls-fingerprint", gateway.tls_fingerprint.clone());
    put("--display-name", gateway.display_name.clone());
    put("--policy", policy.map(|preset| preset.as_str().to_owned()));
    let token_file = gateway
        .token_file
        .as_deref()
        .map(std::path::absolute)
        .transpose()
        .map_err(|error| Failure::usage(format!("the token file has no absolute path: {error}")))?;
    put(
        "--token-file",
        token_file.map(|path| path.to_string_lossy().into_owned()),
    );
    put(
        "--commands",
        (!gateway.commands.is_empty()).then(|| gateway.commands.join(",")),
    );
    if gateway.tls {
        arguments.push("--tls".to_owned());
    }
    if gateway.insecure_plaintext {
        arguments.push("--insecure-plaintext".to_owned());
    }
    Ok(arguments)
}

fn printed(context: &Context, path: &Path, text: &str) -> Result<ExitStatus, Failure> {
    match context.console.format() {
        Format::Json => context.console.document(&json!({"path": path, "text": text}))?,
        Format::People => context.console.raw_out(text.as_bytes())?,
    }
    Ok(ExitStatus::SUCCESS)
}

pub(super) fn uninstall(context: &Context, args: &NodeUninstallArgs) -> Result<ExitStatus, Failure> {
    let manager = manager(args.system);
    let path = service_path(context, manager)?;
    let changed = service::uninstall(&path).map_err(|error| service_failure(&error))?;
    let next = if changed == Changed::Yes {
        manager.stop_commands()
    } else {
        Vec::new()
    };
    report(context, &path, changed, ("removed", "was not there"), &next)
}

fn report(
    context: &Context,
    path: &Path,
    changed: Changed,
    (done, unchanged): (&str, &str),
    next: &[String],
) -> Result<ExitStatus, Failure> {
    let changed = changed == Changed::Yes;
    match context.console.format() {
        Format::Json => context
            .console
            .document(&json!({"path": path, "changed": changed, "next": next}))?,
        Format::People => {
            let what = if changed { done } else { unchanged };
            context.console.line(&format!("{} {what}", path.display()))?;
            for command in next {
                context.console.hint(command);
            }
        }
    }
    Ok(ExitStatus::SUCCESS)
}

/// Says how the node stands.
pub(super) fn status(context: &Context, args: &NodeStatusArgs) -> Result<ExitStatus, Failure> {
    let manager = manager(args.system);
    let state_dir = context.state_dir()?;
    let path = service_path(context, manager)?;
    // A service that we did not install counts as none.
    let installed = matches!(service::installed(&path), Ok(Some(_)));
    let file = NodeFile::load(&state_dir).map_err(|error| identity_failure(&error))?;
    let status = NodeStatusFile::load(&state_dir).map_err(|error| {
        Failure::new(
            "node-status",
            format!("what the node wrote cannot be read: {error}"),
        )
        .exit(ExitStatus::CONFIG)
    })?;
    let running = status.as_ref().is_some_and(NodeStatusFile::is_running);
    let connected = running
        && status
            .as_ref()
            .is_some_and(|status| status.state == NodeState::Connected);
    let node_id = status.as_ref().map(|status| status.node_id.clone());
    let paired = match &node_id {
        Some(id) => DeviceTokens::of(&state_dir, id.clone())
            .load()
            .map_err(|error| identity_failure(&error))?
            .is_some(),
        None => false,
    };
    let waiting = status.filter(|_status| running && !connected);
    let gateway = file.as_ref().and_then(|file| file.gateway.as_ref());
    let gateway = gateway.and_then(address);
    let name = file.and_then(|file| file.display_name);
    let request_id = waiting.as_ref().and_then(|status| status.request_id.clone());
    let detail = waiting.as_ref().and_then(|status| status.detail.clone());
    let state = match waiting.as_ref().map(|status| status.state) {
        _ if connected => "connected",
        Some(NodeState::Pairing) => "pairing",
        Some(NodeState::Refused) => "refused",
        Some(NodeState::Connecting | NodeState::Connected | NodeState::Stopped) => "connecting",
        None => "stopped",
    };
    match context.console.format() {
        Format::Json => context.console.document(&json!({
            "installed": installed, "service": path, "running": running, "connected": connected, "paired": paired,
            "state": state, "nodeId": node_id, "displayName": name, "gateway": gateway, "requestId": request_id,
            "detail": detail,
        }))?,
        Format::People => {
            let mut table = Table::without_header();
            let yes = |flag: bool| if flag { "yes" } else { "no" };
            table.row(["installed", yes(installed)]);
            table.row(["running", yes(running)]);
            table.row(["connected", yes(connected)]);
            table.row(["paired", yes(paired)]);
            table.fact("state", state);
            table.fact("node", node_id.as_deref().unwrap_or_default());
            table.fact("name", name.as_deref().unwrap_or_default());
            table.fact("gateway", gateway.as_deref().unwrap_or_default());
            table.fact("request", request_id.as_deref().unwrap_or_default());
            table.fact("detail", detail.as_deref().unwrap_or_default());
            context.console.table(&table, "no node")?;
            let start = installed.then(|| manager.start_command(&path));
            if let Some(hint) = hint(state, request_id.as_deref(), start) {
                context.console.hint(&hint);
            }
        }
    }
    Ok(if connected {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::FAILURE
    })
}

/// The gateway that `node.json` names, as the node calls it.
fn address(entry: &GatewayEntry) -> Option<String> {
    let trust = (entry.tls == Some(true)).then_some(Trust::Authorities);
    let address = GatewayAddress::new(entry.host.as_deref()?, entry.port?, trust, Plaintext::Everywhere);
    Some(address.ok()?.to_string())
}

/// What to do next. `start` is what starts the service, where one is installed.
fn hint(state: &str, request_id: Option<&str>, start: Option<String>) -> Option<String> {
    match (state, request_id) {
        ("pairing", id) => Some(format!(
            "countersign nodes approve {}   (at the gateway)",
            id.unwrap_or("REQUEST")
        )),
        ("stopped", _) => Some(start.unwrap_or_else(|| {
            "countersign node run --host GATEWAY   (or countersign node install)".to_owned()
        })),
        _ => None,
    }
}

fn service_failure(error: &ServiceError) -> Failure {
    let failure = Failure::new("service", with_causes(error)).exit(ExitStatus::CONFIG);
    match error {
        ServiceError::Foreign { path } => {
            failure.advice(&format!("move {} away if it is not needed", path.display()))
        }
        ServiceError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            failure.hint("sudo countersign node install --system   (root writes system units)")
        }
        ServiceError::Io { .. } | ServiceError::Unwritable { .. } => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_stands_still_is_started_by_whom_it_was_installed() {
        let start = |manager: Manager| {
            let path = manager.path(Path::new("/home/u"), None);
            hint("stopped", None, Some(manager.start_command(&path)))
        };
        for (manager, expect) in [
            (Manager::SystemdUser, "systemctl --user start countersign-node"),
            (Manager::SystemdSystem, "systemctl start countersign-node"),
            (
                Manager::Launchd,
                "launchctl bootstrap gui/$UID /home/u/Library/LaunchAgents/dev.countersign.node.plist",
            ),
        ] {
            assert_eq!(start(manager).as_deref(), Some(expect));
        }
        let uninstalled = hint("stopped", None, None);
        assert!(uninstalled.is_some_and(|hint| hint.contains("countersign node install")));
        assert_eq!(hint("connecting", None, None), None);
    }
}
