//! What a run on this machine is started with besides what it is bound to.

use std::{sync::Arc, time::Duration};

use countersign_config::settings::Limits;
use countersign_domain::{Host, Isolation};
use countersign_hosts::{RunTerms, gateway::GatewayHost};
use countersign_policy::command::direct::ShellKind;
use countersign_runner::RunLimits;

use crate::{
    accepted_policy::AcceptedPolicy,
    environment::{Guard, HostEnvironment},
    evaluator::place::Places,
    launch::Launch,
};

/// From `SIGTERM` to `SIGKILL` when a run is killed.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// Says what a run is started with, by the settings of the moment.
#[derive(Debug)]
pub(crate) struct TermsOfRuns {
    accepted_policy: Arc<AcceptedPolicy>,
    environment: Arc<HostEnvironment>,
    places: Arc<Places>,
    gateway: GatewayHost,
    shell: Option<ShellKind>,
}

impl TermsOfRuns {
    pub(crate) const fn new(
        accepted_policy: Arc<AcceptedPolicy>,
        environment: Arc<HostEnvironment>,
        places: Arc<Places>,
        gateway: GatewayHost,
        shell: Option<ShellKind>,
    ) -> Self {
        Self {
            accepted_policy,
            environment,
            places,
            gateway,
            shell,
        }
    }

    pub(crate) fn of(&self, launch: &Launch) -> RunTerms {
        let Launch {
            permit,
            supervision,
            attempt,
            placement: _,
        } = launch;
        let settings = Arc::clone(&self.accepted_policy.last_seen().settings);
        let exec = settings.policy.exec(&permit.binding().agent);
        let (least_isolation, env) = match permit.binding().host {
            // Nothing of this machine's environment is inherited there.
            Host::Sandbox => (Isolation::Sandbox, Vec::new()),
            Host::Gateway | Host::Node => {
                let path = self.environment.run_path(&exec.path_prepend);
                let hidden = match permit.isolation() {
                    Isolation::Confined => self.gateway.hidden(),
                    Isolation::SameUser | Isolation::SeparateUser | Isolation::Sandbox | Isolation::Node => {
                        None
                    }
                };
                let env = if supervision.terminal.is_none() {
                    self.environment.of_command(&path, permit.env(), hidden)
                } else {
                    let guard = Guard::of(permit.binding().input);
                    self.environment
                        .of_command_on_terminal(&path, permit.env(), hidden, guard)
                };
                (self.places.isolation_of(&permit.binding().agent, &settings), env)
            }
        };
        RunTerms {
            attempt: *attempt,
            least_isolation,
            shell: self.shell,
            env,
            kill_grace: KILL_GRACE,
            leftovers: exec.leftovers,
            keep_when_orphaned: supervision.holder.outlives_caller(),
            stdin_open: supervision.stdin_open,
            terminal: supervision.terminal,
            max_run_bytes: settings.server.output.max_run_bytes,
            limits: run_limits(&settings.server.limits),
            record_input: settings.server.exec.record_input,
            observe: exec.observe,
        }
    }
}

const fn run_limits(limits: &Limits) -> RunLimits {
    RunLimits {
        memory_bytes: limits.run_memory_bytes,
        cpu_percent: limits.run_cpu_percent,
        processes: limits.run_pids,
    }
}
