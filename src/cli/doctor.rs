//! `countersign doctor`: what is wrong or risky, and every setting with its origin. `countersign security audit`: of
//! that what is risky.

use std::{
    collections::BTreeMap,
    fs,
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value, json};

use countersign_config::{
    approvals::store::{DocumentStore, StaleLock},
    settings::{
        ConfigFile, EffectiveValue, KeyEdit, KeyPath, Settings, StartOptions, StateDir, Step, config_edit,
    },
};
use countersign_domain::Backend;
use countersign_engine::kernel;
use countersign_hosts::{
    confined::Confined,
    sandbox::{Backends, SandboxOptions, Unusable},
};
use countersign_nodes::ipc;
use countersign_sys::clock::SystemIds;
use countersign_wire::{
    health::{CheckBody, ReadinessBody},
    kernel::KernelBody,
    setting::{SettingBody, SettingsBody},
};

use super::{
    client::{Answer, read},
    console::{Console, Format, Tone},
    context::Context,
    discover,
    exit::ExitStatus,
    failure::Failure,
    in_force::{self, SettingsSource},
    table::Table,
    value,
};

use crate::{
    doctor::{self, Finding, InForce, Repair, ServerState, Severity, WaitingSetting},
    lifecycle::ServerFile,
};

/// Say what is wrong or risky, and how to fix it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign doctor
  countersign doctor --fix
  countersign doctor --json
  countersign doctor --ready              a health check: asks the running server, nothing else

Exits 1 when a finding is an error; with --ready: 0 ready, 1 not ready, 69 no server.")]
pub(crate) struct DoctorArgs {
    /// Do what can be done without loss: file modes, empty profiles of safe bins, what a dead
    /// server left, and the lock of a dead program
    #[arg(long)]
    fix: bool,
    /// Another countersign.toml, as for `serve`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only ask the running server whether it can do its work; needs no token
    #[arg(long, conflicts_with_all = ["fix", "config"])]
    pub(crate) ready: bool,
}

/// Look for what lets more happen than it should
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
  countersign security audit --fix
  countersign security audit --json

What `doctor` finds, without what is only untidy and without the list of the settings.
Exits 1 when a finding is an error.")]
pub(crate) struct SecurityAuditArgs {
    /// Do what can be done without loss: file modes, empty profiles of safe bins
    #[arg(long)]
    fix: bool,
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
    let examined = Examined::new(context, args.config.as_deref(), args.fix, |_| true)?;
    match context.console.format() {
        Format::Json => context.console.document(&examined.document(true))?,
        Format::People => {
            show_settings(context.console, &examined.settings, &examined.from)?;
            context.console.line("")?;
            show_kernel(context.console, &examined.kernel)?;
            context.console.line("")?;
            examined.show(context.console)?;
        }
    }
    Ok(examined.status())
}

pub(crate) fn security(context: &Context, command: &SecurityCommand) -> Result<ExitStatus, Failure> {
    let SecurityCommand::Audit(args) = command;
    let examined = Examined::new(context, args.config.as_deref(), args.fix, Finding::is_risk)?;
    match context.console.format() {
        Format::Json => context.console.document(&examined.document(false))?,
        Format::People => {
            context
                .console
                .line(&format!("settings {}", examined.from.line()))?;
            examined.show(context.console)?;
        }
    }
    Ok(examined.status())
}

/// How many findings there are of each severity.
pub(super) fn counts(context: &Context) -> Result<impl Fn(Severity) -> usize, Failure> {
    let examined = Examined::new(context, None, false, |_| true)?;
    Ok(move |severity| examined.count(severity))
}

/// What was found, after what can be fixed is fixed.
struct Examined {
    /// The worst come first.
    findings: Vec<Finding>,
    settings: Vec<SettingBody>,
    /// What the kernel keeps.
    kernel: KernelBody,
    /// Who said what the settings are.
    from: SettingsSource,
    /// The ids of what was fixed.
    repaired: Vec<&'static str>,
}

impl Examined {
    fn new(
        context: &Context,
        config: Option<&Path>,
        fix: bool,
        wanted: fn(&Finding) -> bool,
    ) -> Result<Self, Failure> {
        let state_dir = context.state_dir()?;
        let mut examined = examine(context, &state_dir, config);
        examined.findings.retain(wanted);
        if fix {
            // As for `config set`: what an agent runs changes no policy, not even to tighten it, and takes nobody's lock.
            let is_inside = context.environment.get("OPENCLAW_SHELL").as_deref() == Some("exec");
            examined.findings.retain(|finding| {
                let is_for_operators = matches!(
                    finding.repair,
                    Some(Repair::Scaffold { .. } | Repair::Unlock { .. })
                );
                !(is_inside && is_for_operators)
            });
            let repaired = repair(context, &state_dir, &examined.findings);
            examined = Self {
                repaired,
                ..examine(context, &state_dir, config)
            };
            examined.findings.retain(wanted);
        }
        Ok(examined)
    }

    fn status(&self) -> ExitStatus {
        if self.count(Severity::Error) > 0 {
            ExitStatus::FAILURE
        } else {
            ExitStatus::SUCCESS
        }
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }
}

fn examine(context: &Context, state_dir: &StateDir, config: Option<&Path>) -> Examined {
    let asked = match config {
        Some(path) => Err(SettingsSource::Files {
            why: format!("--config names {}", path.display()),
        }),
        None => in_force::of_the_own_server(context),
    };
    let in_force = asked.as_ref().ok().map(|settings| InForce {
        unrecorded_stop: in_force::unrecorded_stop(context),
        ..in_force_there(&settings.items)
    });
    let options = StartOptions {
        config: config.map(Path::to_owned),
        ..StartOptions::default()
    };
    let (snapshot, settings) = doctor::gather(
        state_dir,
        &options,
        Arc::clone(&context.environment),
        Arc::clone(&context.clock),
        Arc::new(SystemIds),
        server_state(state_dir, in_force),
        &doctor::Trials {
            confining: &Confined::check,
            sandbox: &try_sandbox,
            socket: &ipc::check_socket_path,
        },
    );
    let (shown, from) = match asked {
        Ok(shown) => (shown, SettingsSource::Server),
        Err(from) => {
            let shown = SettingsBody {
                items: of_files(settings.as_deref()),
                kernel: kernel::look(snapshot.isolation.level()).into(),
            };
            (shown, from)
        }
    };
    Examined {
        findings: doctor::findings(&snapshot),
        settings: shown.items,
        kernel: shown.kernel,
        from,
        repaired: Vec::new(),
    }
}

fn of_files(settings: Option<&Settings>) -> Vec<SettingBody> {
    let values = settings.map_or(&[][..], |settings| &settings.values);
    let shown = |value: &EffectiveValue| in_force::of_files(value.clone(), value.source.to_string());
    values.iter().map(shown).collect()
}

fn try_sandbox(options: &SandboxOptions, image: &str) -> Result<Backend, Unusable> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Unusable(format!("nobody could look: {error}")))?;
    runtime.block_on(Backends::new(options).probe(image))
}

/// Whether something answers where the last server said it would.
fn server_state(state_dir: &StateDir, in_force: Option<InForce>) -> ServerState {
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
        ServerState::Running { in_force }
    } else {
        ServerState::Stale(path)
    }
}

fn in_force_there(settings: &[SettingBody]) -> InForce {
    let waits = |shown: &SettingBody| {
        let waits_for = shown.waits_for.as_deref();
        (waits_for == Some("restart")).then(|| WaitingSetting {
            key: shown.path.clone(),
            explanation: format!(
                "countersign.toml was changed and the server goes on with {}; {}",
                in_force::spelled(&shown.value),
                in_force::remark(shown)
            ),
        })
    };
    InForce {
        values: in_force::values(settings),
        waiting: settings.iter().filter_map(waits).collect(),
        unrecorded_stop: None,
    }
}

fn repair(context: &Context, state_dir: &StateDir, findings: &[Finding]) -> Vec<&'static str> {
    let console = context.console;
    let mut repaired = Vec::new();
    for finding in findings {
        let Some(repair) = &finding.repair else { continue };
        let done = match repair {
            Repair::SetMode { path, mode } => fs::set_permissions(path, fs::Permissions::from_mode(*mode))
                .map_err(|error| error.to_string()),
            Repair::Remove { path } => fs::remove_file(path).map_err(|error| error.to_string()),
            Repair::Scaffold { name } => scaffold(state_dir, name),
            Repair::Unlock { document } => unlock(context, state_dir, document),
        };
        match done {
            Ok(()) => {
                console.note(&format!("fixed {}: {}", finding.id, value::visible(&finding.key)));
                repaired.push(finding.id);
            }
            Err(error) => console.note(&format!(
                "could not fix {}: {error}",
                value::visible(&finding.key)
            )),
        }
    }
    repaired
}

/// Removes the lock of the document, unless a program holds it by now.
fn unlock(context: &Context, state_dir: &StateDir, document: &Path) -> Result<(), String> {
    let home = state_dir.home().unwrap_or_else(|| Path::new("/")).to_path_buf();
    let clock = Arc::clone(&context.clock);
    let documents = DocumentStore::open(document.to_path_buf(), home, clock, Arc::new(SystemIds));
    match documents.remove_stale_lock() {
        Ok(StaleLock::Removed { .. } | StaleLock::None) => Ok(()),
        Ok(StaleLock::Held) => Err("a program holds it".to_owned()),
        Ok(StaleLock::Unknown) => Err("nobody knows whose it is".to_owned()),
        Err(error) => Err(error.to_string()),
    }
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

impl Examined {
    fn document(&self, with_settings: bool) -> Value {
        let findings: Vec<Value> = self
            .findings
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
        let mut document =
            json!({"findings": findings, "repaired": self.repaired, "from": self.from.as_str()});
        if let Some(document) = document.as_object_mut().filter(|_| with_settings) {
            document.insert("kernel".to_owned(), json!(self.kernel));
            document.insert("settings".to_owned(), settings_document(&self.settings));
        }
        document
    }

    fn show(&self, console: Console) -> Result<(), Failure> {
        for finding in &self.findings {
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
        console.line(&format!(
            "{} errors, {} warnings, {} notes",
            self.count(Severity::Error),
            self.count(Severity::Warning),
            self.count(Severity::Info)
        ))
    }
}

fn settings_document(settings: &[SettingBody]) -> Value {
    let document = |shown: &SettingBody| {
        let mut document = Map::from_iter([("key".to_owned(), json!(shown.path))]);
        if let Value::Object(mut members) = json!(shown) {
            members.shift_remove("path");
            document.extend(members);
        }
        Value::Object(document)
    };
    settings.iter().map(document).collect()
}

fn show_settings(console: Console, settings: &[SettingBody], from: &SettingsSource) -> Result<(), Failure> {
    let mut table = Table::new(&["SETTING", "VALUE", "SET BY", ""]);
    for shown in settings {
        table.row([
            shown.path.as_str(),
            &value::spelled(&shown.value),
            &shown.source,
            &in_force::remark(shown),
        ]);
    }
    console.line(&format!("settings {}", from.line()))?;
    console.table(&table, "the settings do not read")
}

fn show_kernel(console: Console, kernel: &KernelBody) -> Result<(), Failure> {
    let version = match kernel.landlock {
        0 => "no Landlock".to_owned(),
        version => format!("Landlock {version}"),
    };
    console.line(&format!("kept by the kernel, which has {version}"))?;
    let mut table = Table::new(&["PART", "KEPT", "AT THE LEVELS"]);
    for part in &kernel.parts {
        let levels: Vec<String> = part.levels.iter().map(ToString::to_string).collect();
        let kept = if part.kept { "yes" } else { "no" };
        table.row([part.part.to_string().as_str(), kept, &levels.join(", ")]);
    }
    console.table(&table, "the server did not say")?;
    for part in &kernel.parts {
        if let Some(missing) = &part.missing {
            console.line(&format!(
                "{}: {}; it needs {}. Without it {}",
                part.part,
                value::visible(missing),
                value::visible(&part.needs),
                value::visible(&part.otherwise)
            ))?;
        }
    }
    Ok(())
}
