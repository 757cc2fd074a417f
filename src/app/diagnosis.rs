//! What doctor finds, from inside the server. It starts nothing: whether commands can be confined is what was found when the
//! server started.

use std::sync::Arc;

use tokio::runtime::Handle;

use countersign_config::settings::{SettingsStore, StartOptions, StateDir, WaitsFor};
use countersign_domain::{Backend, Isolation};
use countersign_engine::{
    Engine,
    settings::{PendingSetting, SettingInForce},
};
use countersign_hosts::sandbox::{Backends, SandboxOptions, Unusable};
use countersign_http::Doctor;
use countersign_nodes::ipc;
use countersign_sys::clock::{Clock, SystemIds};
use countersign_wire::health::FindingBody;

use crate::doctor::{self, Finding, InForce, NotConfined, ServerState, Trials, WaitingSetting};

/// Looks at the state directory of the server that it is a part of.
#[derive(Debug)]
pub(super) struct Diagnosis {
    engine: Arc<Engine>,
    state_dir: StateDir,
    settings: Arc<SettingsStore>,
    clock: Arc<dyn Clock>,
    /// The level that commands reach.
    isolation: Isolation,
    /// Where the engine of containers is asked.
    runtime: Handle,
}

impl Diagnosis {
    /// To be called inside the runtime of the server.
    pub(super) fn new(
        engine: Arc<Engine>,
        state_dir: StateDir,
        settings: Arc<SettingsStore>,
        clock: Arc<dyn Clock>,
        isolation: Isolation,
    ) -> Self {
        Self {
            engine,
            state_dir,
            settings,
            clock,
            isolation,
            runtime: Handle::current(),
        }
    }

    fn probe(&self, options: &SandboxOptions, image: &str) -> Result<Backend, Unusable> {
        self.runtime.block_on(Backends::new(options).probe(image))
    }

    fn confining(&self) -> Result<(), NotConfined> {
        match self.isolation {
            Isolation::Confined | Isolation::SeparateUser => Ok(()),
            Isolation::SameUser | Isolation::Sandbox | Isolation::Node => Err(NotConfined {
                why: "it was not possible when the server started; its log says why".to_owned(),
                remedy: None,
            }),
        }
    }

    fn in_force(&self) -> InForce {
        let settings = self.engine.policy_admin().settings_in_force();
        let waiting = settings.iter().filter_map(waiting).collect();
        let values = settings.into_iter();
        let values = values.map(|SettingInForce { setting, .. }| (setting.key, setting.value));
        InForce {
            values: values.collect(),
            waiting,
            unrecorded_stop: self
                .engine
                .stop_switch()
                .stopped()
                .filter(|standing| !standing.is_durable)
                .map(|standing| standing.stop.words()),
        }
    }
}

impl Doctor for Diagnosis {
    fn findings(&self) -> Vec<FindingBody> {
        let options = StartOptions {
            config: Some(self.settings.server_file().to_owned()),
            ..StartOptions::default()
        };
        let (snapshot, _settings) = doctor::gather(
            &self.state_dir,
            &options,
            self.settings.shared_environment(),
            Arc::clone(&self.clock),
            Arc::new(SystemIds),
            ServerState::Running {
                in_force: Some(self.in_force()),
            },
            &Trials {
                confining: &|_state_dir, _server, _file, _environment| self.confining(),
                sandbox: &|options, image| self.probe(options, image),
                socket: &ipc::check_socket_path,
            },
        );
        doctor::findings(&snapshot).into_iter().map(body).collect()
    }
}

fn body(finding: Finding) -> FindingBody {
    let Finding {
        id,
        severity,
        key,
        explanation,
        fix,
        repair,
    } = finding;
    FindingBody {
        id: id.into(),
        severity: severity.as_str().into(),
        key,
        explanation,
        fix,
        fixable: repair.is_some(),
    }
}

fn waiting(SettingInForce { setting, waiting }: &SettingInForce) -> Option<WaitingSetting> {
    let PendingSetting { waits_for, .. } = waiting.as_ref()?;
    (*waits_for == WaitsFor::Restart).then(|| WaitingSetting {
        key: setting.key.clone(),
        explanation: "countersign.toml was changed, and the server goes on with the value from before"
            .to_owned(),
    })
}
