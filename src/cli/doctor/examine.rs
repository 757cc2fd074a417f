//! Looks at everything, after what can be fixed is fixed.

use std::{net::TcpStream, os::unix::net::UnixStream, path::Path, sync::Arc};

use countersign_config::settings::{EffectiveValue, Settings, StartOptions, StateDir};
use countersign_domain::Backend;
use countersign_engine::kernel;
use countersign_hosts::{
    confined::Confined,
    sandbox::{Backends, SandboxOptions, Unusable},
};
use countersign_nodes::ipc;
use countersign_sys::clock::SystemIds;
use countersign_wire::{
    kernel::KernelBody,
    setting::{SettingBody, SettingsBody},
};

use super::repair::{Fixing, Repaired, repair};
use crate::{
    cli::{
        context::Context,
        exit::ExitStatus,
        failure::Failure,
        in_force::{self, SettingsSource},
    },
    doctor::{self, Finding, InForce, Repair, ServerState, Severity, WaitingSetting},
    lifecycle::ServerFile,
};

/// What was found, after what can be fixed is fixed.
pub(super) struct Examined {
    /// The worst come first.
    pub(super) findings: Vec<Finding>,
    pub(super) settings: Vec<SettingBody>,
    /// What the kernel keeps.
    pub(super) kernel: KernelBody,
    /// Who said what the settings are.
    pub(super) from: SettingsSource,
    /// What was fixed, or would be.
    pub(super) repaired: Vec<Repaired>,
}

impl Examined {
    pub(super) fn new(
        context: &Context,
        config: Option<&Path>,
        fixing: Fixing,
        wanted: fn(&Finding) -> bool,
    ) -> Result<Self, Failure> {
        let state_dir = context.state_dir()?;
        let mut examined = examine(context, &state_dir, config);
        examined.findings.retain(wanted);
        if fixing == Fixing::No {
            return Ok(examined);
        }
        // As for `config set`: what an agent runs changes no policy, not even to tighten it, and takes nobody's lock.
        let is_inside = context.environment.get("OPENCLAW_SHELL").as_deref() == Some("exec");
        let fixable: Vec<&Finding> = examined
            .findings
            .iter()
            .filter(|finding| {
                let is_for_operators = matches!(
                    finding.repair,
                    Some(Repair::Scaffold { .. } | Repair::Unlock { .. })
                );
                !(is_inside && is_for_operators)
            })
            .collect();
        let repaired = repair(context, &state_dir, &fixable, fixing);
        if fixing == Fixing::Yes {
            examined = examine(context, &state_dir, config);
            examined.findings.retain(wanted);
        }
        examined.repaired = repaired;
        Ok(examined)
    }

    pub(super) fn status(&self) -> ExitStatus {
        if self.count(Severity::Error) > 0 {
            ExitStatus::FAILURE
        } else {
            ExitStatus::SUCCESS
        }
    }

    pub(super) fn count(&self, severity: Severity) -> usize {
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
            confining: &|state_dir, server, file, environment| {
                Ok(Confined::check(state_dir, server, file, environment)?)
            },
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
