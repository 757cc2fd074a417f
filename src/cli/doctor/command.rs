//! The arguments, and what each command does.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::json;

use countersign_wire::health::{CheckBody, ReadinessBody};

use super::{
    examine::Examined,
    repair::Fixing,
    show::{self, Scope},
};
use crate::{
    cli::{
        client::{Answer, read},
        console::Format,
        context::Context,
        discover,
        exit::ExitStatus,
        failure::Failure,
        value,
    },
    doctor::Finding,
};

/// Check the setup and suggest fixes
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign doctor
  countersign doctor --all                # every setting, too
  countersign doctor --fix --dry-run      # what --fix would change
  countersign doctor --fix
  countersign doctor --json
  countersign doctor --ready              a health check: asks the running server, nothing else

Exits 1 when a finding is an error; with --ready: 0 ready, 1 not ready, 69 no server.")]
pub(crate) struct DoctorArgs {
    /// Do what can be done without loss: file modes, empty profiles of safe bins, what a dead
    /// server left, and the lock of a dead program
    #[arg(long)]
    fix: bool,
    /// With --fix: show what would change, and change nothing
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Show every setting, also those at their defaults
    #[arg(long)]
    all: bool,
    /// Another countersign.toml, as for `serve`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only ask the running server whether it can do its work; needs no token
    #[arg(long, conflicts_with_all = ["fix", "config", "all"])]
    pub(crate) ready: bool,
}

/// Audit the security settings
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign security audit")]
pub(crate) enum SecurityCommand {
    /// Say which settings, rules, files and tokens are risky, and how to fix them
    Audit(SecurityAuditArgs),
}

/// Say which settings, rules, files and tokens are risky, and how to fix them
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign security audit
  countersign security audit --fix --dry-run
  countersign security audit --fix
  countersign security audit --json

What `doctor` finds, without what is only untidy and without the list of the settings.
Exits 1 when a finding is an error.")]
pub(crate) struct SecurityAuditArgs {
    /// Do what can be done without loss: file modes, empty profiles of safe bins
    #[arg(long)]
    fix: bool,
    /// With --fix: show what would change, and change nothing
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Another countersign.toml, as for `serve`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Asks the running server whether it can do its work.
pub(crate) async fn ready(context: &Context) -> Result<ExitStatus, Failure> {
    let (status, health): (u16, Answer<ReadinessBody>) =
        discover::anonymous(context)?.get_any(&["readyz"]).await?;
    let is_ready = status == 200 && health.status == "ready";
    match context.console.format() {
        Format::Json => context.console.document(&health.raw)?,
        Format::People => {
            let checks: BTreeMap<String, CheckBody> = read(json!(health.checks))?;
            for (name, CheckBody { detail, .. }) in checks.iter().filter(|(_name, check)| !check.ok) {
                let detail = detail.as_deref().unwrap_or_default();
                context
                    .console
                    .note(&value::visible(&format!("{name}: {detail}")));
            }
            if health.stopped {
                context.console.note(
                    "stopped: the emergency stop is in effect; countersign doctor says by whom, when and why",
                );
            }
            if health.restart_needed {
                context
                    .console
                    .note("a changed setting waits for a restart: countersign config list");
            }
            context.console.line(match (is_ready, health.degraded) {
                (true, false) => "ready",
                (true, true) => "ready, degraded",
                (false, _) => "not ready",
            })?;
        }
    }
    Ok(if is_ready {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::FAILURE
    })
}

pub(crate) fn run(context: &Context, args: &DoctorArgs) -> Result<ExitStatus, Failure> {
    let fixing = Fixing::of(args.fix, args.dry_run);
    let examined = Examined::new(context, args.config.as_deref(), fixing, |_| true)?;
    let scope = if args.all {
        Scope::Everything
    } else {
        Scope::Differences
    };
    show::report(context.console, &examined, scope)?;
    Ok(examined.status())
}

pub(crate) fn security(context: &Context, command: &SecurityCommand) -> Result<ExitStatus, Failure> {
    let SecurityCommand::Audit(args) = command;
    let fixing = Fixing::of(args.fix, args.dry_run);
    let examined = Examined::new(context, args.config.as_deref(), fixing, Finding::is_risk)?;
    show::report(context.console, &examined, Scope::Findings)?;
    Ok(examined.status())
}

/// What is found, the worst first.
pub(crate) fn found(context: &Context) -> Result<Vec<Finding>, Failure> {
    Ok(Examined::new(context, None, Fixing::No, |_| true)?.findings)
}
