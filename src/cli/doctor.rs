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
    discover,
    exit::ExitStatus,
    failure::Failure,
    table::Table,
    value,
};
use crate::{
    clock::SystemIds,
    doctor::{self, Finding, Repair, ServerState, Severity},
    domain::Backend,
    hosts::{
        confined::Confined,
        sandbox::{Backends, SandboxOptions, Unusable},
    },
    ipc,
    lifecycle::ServerFile,
    settings::{
        ConfigFile, EffectiveValue, KeyEdit, KeyPath, Settings, StartOptions, StateDir, Step, config_edit,
    },
};

/// Say what is wrong or risky, and how to mend it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign doctor
  countersign doctor --fix
  countersign doctor --json
  countersign doctor --ready              a health check: asks the running server, nothing else

Exits 1 when a finding is an error; with --ready: 0 ready, 1 not ready, 69 no server.")]
pub(crate) struct DoctorArgs {
    /// Do what can be done without loss: file modes, empty profiles of safe bins, what a dead server left
    #[arg(long)]
    fix: bool,
    /// Another countersign.toml, as for `serve`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only ask the running server whether it can do its work; needs no token
    #[arg(long, conflicts_with_all = ["fix", "config"])]
    pub(crate) ready: bool,
}

/// Asks the running server whether it can do its work.
pub(crate) async fn ready(context: &Context) -> Result<ExitStatus, Failure> {
    let (status, body) = discover::anonymous(context)?.get_any(&["readyz"]).await?;
    let is_ready = status == 200 && value::string(&body, "status") == "ready";
    match context.console.format() {
        Format::Json => context.console.document(&body)?,
        Format::People => {
            let checks = body.get("checks").and_then(Value::as_object);
            for (name, check) in checks.into_iter().flatten() {
                if check.get("ok") == Some(&Value::Bool(false)) {
                    let detail = value::string(check, "detail");
                    context
                        .console
                        .note(&value::visible(&format!("{name}: {detail}")));
                }
            }
            let degraded = body.get("degraded") == Some(&Value::Bool(true));
            context.console.line(match (is_ready, degraded) {
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

/// Runs the command.
pub(crate) fn run(context: &Context, args: &DoctorArgs) -> Result<ExitStatus, Failure> {
    let state_dir = context.state_dir()?;
    let (mut findings, settings) = examine(context, &state_dir, args);
    let mut repaired = Vec::new();
    if args.fix {
        // As for `config set`: what an agent runs changes no policy, not even to tighten it.
        let is_inside = context.environment.get("OPENCLAW_SHELL").as_deref() == Some("exec");
        findings.retain(|finding| !(is_inside && matches!(finding.repair, Some(Repair::Scaffold { .. }))));
        repaired = repair(context.console, &state_dir, &findings);
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
        &doctor::Trials {
            confining: &Confined::check,
            sandbox: &try_sandbox,
            socket: &ipc::check_place,
        },
    );
    (doctor::findings(&snapshot), settings)
}

fn try_sandbox(options: &SandboxOptions, image: &str) -> Result<Backend, Unusable> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Unusable(format!("nobody could look: {error}")))?;
    runtime.block_on(Backends::new(options).probe(image))
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

fn repair(console: Console, state_dir: &StateDir, findings: &[Finding]) -> Vec<&'static str> {
    let mut repaired = Vec::new();
    for finding in findings {
        let Some(repair) = &finding.repair else { continue };
        let done = match repair {
            Repair::SetMode { path, mode } => fs::set_permissions(path, fs::Permissions::from_mode(*mode))
                .map_err(|error| error.to_string()),
            Repair::Remove { path } => fs::remove_file(path).map_err(|error| error.to_string()),
            Repair::Scaffold { name } => scaffold(state_dir, name),
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

/// Puts an empty profile of a safe bin into `openclaw.json`, where there is none: no argument at all is taken then.
fn scaffold(state_dir: &StateDir, name: &str) -> Result<(), String> {
    let steps = ["tools", "exec", "safeBinProfiles", name].map(|key| Step::Key(key.to_owned()));
    let path = KeyPath::new(steps.to_vec()).map_err(|error| error.to_string())?;
    let held = ConfigFile::hold(state_dir).map_err(|error| error.to_string())?;
    let edit = KeyEdit::Set {
        path,
        value: json!({}),
    };
    let edited = config_edit(held.text(), &[edit], state_dir).map_err(|error| error.to_string())?;
    if !edited.changed {
        return Ok(());
    }
    let staged = held.stage(&edited.text).map_err(|error| error.to_string())?;
    staged.commit().map_err(|error| error.to_string())
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
