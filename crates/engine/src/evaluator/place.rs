//! Where a call goes: host, sandbox or node, and whether its caller may make it there at all.

use std::path::{Path, PathBuf};

use countersign_config::settings::{IsolationChoice, Settings};
use countersign_domain::{
    AgentId, Backend, Command, ExecRequest, Host, HostChoice, Isolation, Principal, SessionKey,
};
use countersign_hosts::{
    gateway::GatewayHost,
    peer_fs::Files,
    sandbox::SandboxHost,
    workdir::{self, Workdir, WorkdirError},
};
use countersign_policy::{
    host::{self, HostLayers, HostRefusal, ResolvedHost},
    layers::{Resolved, Spoken},
};

use super::{
    Mode, PlaceRule,
    asked::Asked,
    call::{Call, Requested},
    keeping,
    policy_now::PolicyNow,
    sandbox_availability::{SandboxAvailability, no_sandbox},
};
use crate::{hint::hint, question_terms::ASKER, reply::ExecError};

/// Where a call runs.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) host: ResolvedHost,
    /// What was seen of the sandbox; not looked at where nothing depends on it.
    pub(crate) availability: SandboxAvailability,
}

impl Place {
    /// The backend, where it runs in a sandbox.
    pub(crate) const fn backend(&self) -> Option<Backend> {
        match (self.host.value, &self.availability) {
            (Host::Sandbox, SandboxAvailability::Usable(backend)) => Some(*backend),
            (Host::Sandbox | Host::Gateway | Host::Node, _) => None,
        }
    }
}

/// Whether all that a sandbox needs is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Making {
    /// So that the command can start at once.
    Everything,
    /// The caller only wants to know.
    Nothing,
}

impl Making {
    /// The directory of a call that names none.
    pub(crate) fn workspace(self, configured: &Path, files: &Files) -> Result<Workdir, WorkdirError> {
        match self {
            Self::Everything => Workdir::workspace(configured, files),
            Self::Nothing => Workdir::future_workspace(configured, files),
        }
    }
}

/// What a call and its session say of where it is to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Destination<'a> {
    pub(crate) agent: &'a AgentId,
    pub(crate) session: &'a SessionKey,
    pub(crate) asked: &'a Asked,
    /// The host that the call names.
    pub(crate) host: Option<HostChoice>,
    /// The node that the call names.
    pub(crate) node: Option<&'a str>,
}

impl<'a> Destination<'a> {
    pub(crate) fn of(request: &'a ExecRequest, asked: &'a Asked) -> Self {
        Self {
            agent: &request.agent,
            session: &request.session,
            asked,
            host: request.host,
            node: request.node.as_deref(),
        }
    }

    /// The host that this leads to.
    pub(crate) fn resolve(
        self,
        settings: &Settings,
        availability: &SandboxAvailability,
    ) -> Result<ResolvedHost, ExecError> {
        let Self { agent, session, .. } = self;
        let sandbox = availability.of_session(agent, session, settings);
        let resolved = host::resolve_host(self.layers(&settings.policy.host(agent), settings, sandbox));
        let host = resolved.map_err(|refusal| match &refusal {
            HostRefusal::NotAllowed {
                requested,
                configured,
                key,
            } => ExecError::HostNotAllowed {
                detail: refusal.to_string(),
                hint: match (configured, key.as_str()) {
                    (_, "session") => hint(&["session", "clear", session.as_str()]),
                    // Only its sandbox keeps the gateway from such a call.
                    (HostChoice::Auto, _) => {
                        let key = &settings.policy.sandbox(agent).mode_key;
                        hint(&["config", "set", key, "off"])
                    }
                    (HostChoice::Sandbox | HostChoice::Gateway | HostChoice::Node, key) => {
                        hint(&["config", "set", key, requested.as_str()])
                    }
                },
            },
            HostRefusal::SandboxUnavailable { key } => {
                no_sandbox(key, agent, session, settings, availability)
            }
        })?;
        if self.node.is_some() && host.value != Host::Node {
            return Err(ExecError::ConfigConflict {
                detail: "node can be named only where the host is node".to_owned(),
            });
        }
        Ok(host)
    }

    /// The other hosts that the call could name, as far as the settings let it.
    pub(crate) fn alternatives(
        self,
        resolved: Host,
        settings: &Settings,
        availability: &SandboxAvailability,
    ) -> Vec<Host> {
        let mut hosts = Vec::new();
        for choice in HostChoice::ALL {
            let named = Self {
                host: Some(*choice),
                node: None,
                ..self
            };
            if let Ok(Resolved { value, .. }) = named.resolve(settings, availability)
                && value != resolved
                && !hosts.contains(&value)
            {
                hosts.push(value);
            }
        }
        hosts
    }

    fn layers<'b>(
        self,
        configured: &'b [Spoken<HostChoice>],
        settings: &Settings,
        sandbox: host::Sandbox,
    ) -> HostLayers<'b> {
        HostLayers {
            configured,
            session: self.asked.host(&settings.policy, self.agent),
            call: self.host,
            sandbox,
            elevation: self.asked.elevation(),
        }
    }

    /// A node tells what a command wrote once it has ended (`docs/spec/exec-tool.md#1-parameters-of-one-exec-call`).
    fn refuse_terminal_on_node(self, pty: bool, settings: &Settings) -> Result<(), ExecError> {
        let configured = settings.policy.host(self.agent);
        let resolved = host::resolve_host(self.layers(&configured, settings, host::Sandbox::Inactive));
        if pty && resolved.is_ok_and(|resolved| resolved.value == Host::Node) {
            return Err(ExecError::InvalidRequest {
                path: "pty",
                message: "a command on a node cannot have a pseudo-terminal".to_owned(),
            });
        }
        Ok(())
    }
}

/// The places of this machine that calls may run in.
#[derive(Debug)]
pub(crate) struct Places {
    pub(super) gateway: GatewayHost,
    pub(super) sandbox: SandboxHost,
    /// What `~` means.
    pub(super) home: PathBuf,
}

impl Places {
    pub(crate) fn new(gateway: GatewayHost, sandbox: SandboxHost, home: PathBuf) -> Self {
        Self {
            gateway,
            sandbox,
            home,
        }
    }

    /// The files that commands see.
    pub(crate) fn files(&self) -> &Files {
        self.gateway.files()
    }

    /// Where a call goes under the policy of this moment; every policy that has to let it through must lead to the same
    /// place.
    pub(crate) async fn place_of(
        &self,
        caller: &Principal,
        request: &ExecRequest,
        asked: &Asked,
        now: &PolicyNow,
        mode: &Mode<'_>,
    ) -> Result<Place, ExecError> {
        if !caller.may_act_for(&request.agent) {
            return Err(ExecError::AgentNotAllowed);
        }
        if let Some(asker) = mode.asker {
            return Ok(Place {
                host: named(asker.host, ASKER),
                availability: SandboxAvailability::Unseen,
            });
        }
        let destination = Destination::of(request, asked);
        let is_resolved = mode.place == PlaceRule::Resolved;
        let availability = if is_resolved {
            self.evaluate_sandbox(&request.agent, asked, now).await
        } else {
            SandboxAvailability::Unseen
        };
        let mut place: Option<ResolvedHost> = None;
        for view in now.views() {
            let settings = &view.settings;
            if is_resolved {
                destination.refuse_terminal_on_node(request.pty, settings)?;
            }
            refuse_chat_commands(&request.command)?;
            let other = if is_resolved {
                destination.resolve(settings, &availability)?
            } else {
                this_machine()
            };
            if other.value == Host::Gateway {
                refuse_less_than_demanded(&request.agent, settings)?;
            }
            match &place {
                None => place = Some(other),
                Some(place) if place.value == other.value => {}
                Some(place) => {
                    return Err(ExecError::ConfigConflict {
                        detail: format!(
                            "an edit of openclaw.json that is held would run this on host {}, and what was accepted runs it on \
                             host {}; accept the edit with countersign policy accept, or take it back",
                            other.value, place.value
                        ),
                    });
                }
            }
        }
        Ok(Place {
            host: place.unwrap_or_else(this_machine),
            availability,
        })
    }

    /// Puts a call on the gateway host together.
    pub(crate) fn settle_on_gateway(
        &self,
        requested: Requested<'_>,
        making: Making,
        settings: &Settings,
    ) -> Result<Call, ExecError> {
        let files = self.gateway.files();
        let agent = &requested.request.agent;
        let workdir = match &requested.request.workdir {
            Some(text) => Workdir::named(text, &self.home, files)
                .map_err(|error| named_directory(error, text, Host::Gateway))?,
            None => match making.workspace(&self.workspace(agent, settings), files) {
                // An account without a home of its own, which has no other place either.
                Err(WorkdirError::Missing(_)) if self.has_default_workspace_elsewhere(agent, settings) => {
                    Workdir::at(Path::new("/"), files)?
                }
                found => found?,
            },
        };
        Ok(requested.call_in(workdir, settings))
    }

    /// Whether an agent starts in the home of the account that commands run as.
    fn has_default_workspace_elsewhere(&self, agent: &AgentId, settings: &Settings) -> bool {
        settings.policy.named_workspace(agent).is_none() && self.gateway.files().account_home().is_some()
    }

    /// Where a call of an agent starts that names no directory.
    pub(crate) fn workspace(&self, agent: &AgentId, settings: &Settings) -> PathBuf {
        workspace(agent, settings, self.files())
    }

    /// The level at which an agent's commands run: the best there is, unless the agent was taken out of it.
    pub(crate) fn isolation_of(&self, agent: &AgentId, settings: &Settings) -> Isolation {
        keeping::level_of(self.gateway.isolation(), settings.policy.exec(agent).isolation)
    }
}

/// Where a call of an agent starts that names no directory, by what commands see of the machine.
pub(crate) fn workspace(agent: &AgentId, settings: &Settings, files: &Files) -> PathBuf {
    match settings.policy.named_workspace(agent) {
        Some(workspace) => workspace.to_owned(),
        None => workdir::default_workspace(settings.policy.workspace(agent), files.account_home()),
    }
}

/// Whether a call stands outside of the workspace that the settings name for its agent, on this machine. Where they name none,
/// the directory that is the default says nothing about where the agent should be.
pub(crate) async fn is_outside_workspace(call: &Call, settings: &Settings) -> bool {
    if call.node.is_some() {
        return false;
    }
    let Some(workspace) = settings.policy.named_workspace(&call.agent) else {
        return false;
    };
    // A workspace that is not there has nothing in it.
    let real = tokio::fs::canonicalize(workspace).await;
    real.map_or(true, |real| !call.workdir.path.starts_with(real))
}

/// Names the directory of a call, and the host on which it cannot be used.
pub(super) fn named_directory(error: WorkdirError, text: &str, host: Host) -> ExecError {
    match error {
        WorkdirError::Blind(blind) => ExecError::Blind(blind),
        error @ (WorkdirError::Relative
        | WorkdirError::Missing(_)
        | WorkdirError::NotADirectory
        | WorkdirError::NotText) => ExecError::WorkdirUnavailable {
            detail: format!("{error}: {text} on host {host}"),
        },
    }
}

/// What another gateway delivers to this machine runs on it.
fn this_machine() -> ResolvedHost {
    named(Host::Gateway, "call")
}

fn named(host: Host, source: &str) -> ResolvedHost {
    Resolved {
        value: host,
        source: source.to_owned(),
        layers: Vec::new(),
    }
}

/// An agent that is taken out of a level runs nothing where every run must have it.
pub(crate) fn refuse_less_than_demanded(agent: &AgentId, settings: &Settings) -> Result<(), ExecError> {
    let demanded = settings.server.exec.isolation;
    let is_demanded = match demanded {
        IsolationChoice::Confined | IsolationChoice::SeparateUser => true,
        IsolationChoice::Auto | IsolationChoice::SameUser => false,
    };
    if is_demanded && settings.policy.exec(agent).isolation == Some(Isolation::SameUser) {
        return Err(ExecError::ConfigConflict {
            detail: format!(
                "tools.exec.isolation takes {agent} out of the isolation that [exec] isolation = \"{demanded}\" demands"
            ),
        });
    }
    Ok(())
}

/// Two texts that are no commands but belong into a chat or a terminal
/// (`docs/spec/exec-tool.md#6-environment-and-shell-gateway-host`).
pub(crate) fn refuse_chat_commands(command: &Command) -> Result<(), ExecError> {
    let text = command.to_text();
    let mut words = text.split_whitespace();
    let message = match (words.next(), words.next(), words.next()) {
        (Some("/approve"), _, _) => {
            "/approve is no command; answer with: countersign approvals resolve ID DECISION"
        }
        (Some("openclaw"), Some("channels"), Some("login")) => {
            "openclaw channels login is interactive; run it in a terminal on the gateway host"
        }
        _ => return Ok(()),
    };
    Err(ExecError::InvalidRequest {
        path: "command",
        message: message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_texts_are_refused_and_their_look_alikes_are_not() {
        let refused = |text: &str| refuse_chat_commands(&Command::shell(text.to_owned()).unwrap()).is_err();
        for text in [
            "/approve abc allow-once",
            "  /approve",
            "openclaw  channels login",
        ] {
            assert!(refused(text), "{text}");
        }
        for text in ["/approved", "openclaw channels list", "echo /approve"] {
            assert!(!refused(text), "{text}");
        }
    }
}
