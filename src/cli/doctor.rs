//! `countersign doctor`: what is wrong or risky, and every setting with its origin.

use std::{
    fs,
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::PathBuf,
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    console::{Console, Format, Tone},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    table::Table,
    value,
};
use crate::{
    clock::SystemIds,
    doctor::{self, Finding, Repair, ServerState, Severity},
    lifecycle::ServerFile,
    settings::{EffectiveValue, Settings, StartOptions, StateDir},
};

/// Say what is wrong or risky, and how to mend it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign doctor
  countersign doctor --fix
  countersign doctor --json

Exits 1 when a finding is an error.")]
pub(crate) struct DoctorArgs {
    /// Do what can be done without loss: file modes, what a dead server left
    #[arg(long)]
    fix: bool,
    /// Another countersign.toml, as for `serve`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(context: &Context, args: &DoctorArgs) -> Result<ExitStatus, Failure> {
    let state_dir = context.state_dir()?;
    let (mut findings, settings) = examine(context, &state_dir, args);
    let mut repaired = Vec::new();
    if args.fix {
        repaired = repair(context.console, &findings);
        (findings, _) = examine(context, &state_dir, args);
    }
    let worst = findings.first().map(|finding| finding.severity);
    match context.console.format() {
        Format::Json => context
            .console
            .document(&document(&findings, settings.as_deref(), &repaired))?,
        Format::People => show(context.console, &findings, settings.as_deref())?,
    }
    Ok(if worst == Some(Severity::Error) {
        ExitStatus::FAILURE
    } else {
        ExitStatus::SUCCESS
    })
}

fn examine(
    context: &Context,
    state_dir: &StateDir,
    args: &DoctorArgs,
) -> (Vec<Finding>, Option<Arc<Settings>>) {
    let options = StartOptions {
        config: args.config.clone(),
        ..StartOptions::default()
    };
    let (snapshot, settings) = doctor::gather(
        state_dir,
        &options,
        Arc::clone(&context.environment),
        Arc::clone(&context.clock),
        Arc::new(SystemIds),
        server_state(state_dir),
    );
    (doctor::findings(&snapshot), settings)
}

/// Whether something answers where the last server said it would.
fn server_state(state_dir: &StateDir) -> ServerState {
    let path = state_dir.server_json();
    let Ok(file) = ServerFile::read(&path) else {
        return ServerState::NotRunning;
    };
    let answers = match &file.socket {
        Some(socket) => UnixStream::connect(socket).is_ok(),
        None => file
            .address()
            .is_some_and(|address| TcpStream::connect(address).is_ok()),
    };
    if answers {
        ServerState::Running
    } else {
        ServerState::Stale(path)
    }
}

fn repair(console: Console, findings: &[Finding]) -> Vec<&'static str> {
    let mut repaired = Vec::new();
    for finding in findings {
        let Some(repair) = &finding.repair else { continue };
        let done = match repair {
            Repair::SetMode { path, mode } => fs::set_permissions(path, fs::Permissions::from_mode(*mode)),
            Repair::Remove { path } => fs::remove_file(path),
        };
        match done {
            Ok(()) => {
                console.note(&format!(
                    "mended {}: {}",
                    finding.id,
                    value::visible(&finding.key)
                ));
                repaired.push(finding.id);
            }
            Err(error) => console.note(&format!(
                "could not mend {}: {error}",
                value::visible(&finding.key)
            )),
        }
    }
    repaired
}

fn document(findings: &[Finding], settings: Option<&Settings>, repaired: &[&str]) -> Value {
    let settings: Vec<Value> = settings
        .map_or(&[][..], |settings| &settings.values)
        .iter()
        .map(
            |EffectiveValue {
                 key,
                 value,
                 source,
                 default,
                 effective_now,
             }| {
                json!({"key": key, "value": value, "source": source.to_string(), "default": default,
                "effective": effective_now})
            },
        )
        .collect();
    let findings: Vec<Value> = findings
        .iter()
        .map(
            |Finding {
                 id,
                 severity,
                 key,
                 explanation,
                 fix,
                 repair,
             }| {
                json!({"id": id, "severity": severity, "key": key, "explanation": explanation, "fix": fix,
                "fixable": repair.is_some()})
            },
        )
        .collect();
    json!({"findings": findings, "settings": settings, "repaired": repaired})
}

fn show(console: Console, findings: &[Finding], settings: Option<&Settings>) -> Result<(), Failure> {
    let mut table = Table::new(&["SETTING", "VALUE", "SET BY", ""]);
    for EffectiveValue {
        key,
        value,
        source,
        default: _,
        effective_now,
    } in settings.map_or(&[][..], |s| &s.values)
    {
        let remark = if *effective_now { "" } else { "not yet effective" };
        table.row([key.as_str(), &value::spelled(value), &source.to_string(), remark]);
    }
    console.table(&table, "the settings do not read")?;
    console.line("")?;
    for finding in findings {
        let tone = match finding.severity {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Caution,
            Severity::Info => Tone::Dim,
        };
        let severity = console.paint(tone, finding.severity.as_str());
        console.line(&format!(
            "{severity}[{}]: {}",
            finding.id,
            value::visible(&finding.key)
        ))?;
        console.line(&format!("  {}", value::visible(&finding.explanation)))?;
        console.line(&format!("  fix: {}", value::visible(&finding.fix)))?;
    }
    let count = |severity: Severity| {
        findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    console.line(&format!(
        "{} errors, {} warnings, {} notes",
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Info)
    ))
}
