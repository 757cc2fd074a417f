//! Where a command runs (`docs/spec/exec-tool.md#2-where-it-runs`): the call, the session, the agent, the
//! configuration, the default.
//!
//! A call reaches another host than the configured one only where the configuration says `auto`, or elevated.

use countersign_domain::{Host, HostChoice};

use super::layers::{Layer, Resolved, Spoken};

/// Whether a sandbox can be used for the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// A backend is usable and the agent's mode includes the session.
    Active,
    /// No backend is usable or was looked for, or the agent's mode leaves the session out.
    Inactive,
}

/// Whether a call leaves the sandbox with its sender's authority, which was checked before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elevation {
    /// The call keeps to the configured host.
    None,
    /// It does: to the gateway, to the configured node, or to the host that it names.
    Granted,
}

/// Everybody who may speak about where a command runs.
#[derive(Debug, Clone, Copy)]
pub struct HostLayers<'a> {
    /// Configured: default, global, agent.
    pub configured: &'a [Spoken<HostChoice>],
    /// The session override; it replaces what is configured.
    pub session: Option<HostChoice>,
    /// The host that the call names; refused unless configuration or elevation lets it choose.
    pub call: Option<HostChoice>,
    /// Whether a sandbox is active.
    pub sandbox: Sandbox,
    /// Whether the call is elevated.
    pub elevation: Elevation,
}

/// Why a command runs nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostRefusal {
    /// The call names a host that the configuration does not let it choose.
    #[error("host {requested} is not allowed here, because {key} is {configured}{}", what_changes_it(*configured))]
    NotAllowed {
        /// What the call named.
        requested: HostChoice,
        /// What resolution gives without the call.
        configured: HostChoice,
        /// The key that would have to change (`session` for a session override).
        key: String,
    },
    /// The call is for the sandbox and there is none. It never runs elsewhere instead.
    #[error("no sandbox is active, and {key} asks for one")]
    SandboxUnavailable {
        /// The key that asks for it; `call` when the call does.
        key: String,
    },
}

/// What would have to be otherwise for a call to choose its host.
fn what_changes_it(configured: HostChoice) -> &'static str {
    match configured {
        HostChoice::Auto => " and a sandbox is active for the session (sandbox.mode)",
        HostChoice::Sandbox | HostChoice::Gateway | HostChoice::Node => "; change it to allow that",
    }
}

/// Where a command runs, and what everybody said about that.
pub type ResolvedHost = Resolved<Host, HostChoice>;

impl ResolvedHost {
    /// One more layer, which counts.
    pub fn put_on_top(&mut self, Spoken { layer, source, value }: Spoken<Host>) {
        self.value = value;
        self.source.clone_from(&source);
        self.layers.push(Spoken::new(layer, source, value.into()));
    }
}

/// Resolves where a command runs.
///
/// # Errors
/// [`HostRefusal`] when the call may not choose its host, or the call is for the sandbox and none is active.
pub fn resolve_host(layers: HostLayers<'_>) -> Result<ResolvedHost, HostRefusal> {
    let HostLayers {
        configured,
        session,
        call,
        sandbox,
        elevation,
    } = layers;
    let default = Spoken::new(Layer::Default, "default", HostChoice::Sandbox);
    let mut choice = Resolved::last_of(configured, default);
    if let Some(value) = session {
        choice.put_on_top(Spoken::new(Layer::Session, "session", value));
    }
    if elevation == Elevation::Granted {
        let outside = match choice.value {
            HostChoice::Node => HostChoice::Node,
            HostChoice::Auto | HostChoice::Sandbox | HostChoice::Gateway => HostChoice::Gateway,
        };
        let named = call.filter(|named| *named != HostChoice::Auto);
        choice.put_on_top(Spoken::new(Layer::Call, "call", named.unwrap_or(outside)));
    } else if let Some(requested) = call {
        if !may_choose(choice.value, requested, sandbox) {
            return Err(HostRefusal::NotAllowed {
                requested,
                configured: choice.value,
                key: key_of(&choice.source),
            });
        }
        choice.put_on_top(Spoken::new(Layer::Call, "call", requested));
    }
    if choice.value == HostChoice::Sandbox && sandbox == Sandbox::Inactive {
        return Err(HostRefusal::SandboxUnavailable {
            key: key_of(&choice.source),
        });
    }
    let value = match (choice.value, sandbox) {
        (HostChoice::Sandbox, _) | (HostChoice::Auto, Sandbox::Active) => Host::Sandbox,
        (HostChoice::Gateway, _) | (HostChoice::Auto, Sandbox::Inactive) => Host::Gateway,
        (HostChoice::Node, _) => Host::Node,
    };
    Ok(Resolved {
        value,
        source: choice.source,
        layers: choice.layers,
    })
}

/// Whether it matters for a call where a sandbox is active: where nothing but the call could ask for one, the call may
/// not.
pub fn depends_on_sandbox(configured: &[Spoken<HostChoice>], session: Option<HostChoice>) -> bool {
    let choice = session.or_else(|| configured.last().map(|said| said.value));
    match choice {
        None | Some(HostChoice::Auto | HostChoice::Sandbox) => true,
        Some(HostChoice::Gateway | HostChoice::Node) => false,
    }
}

/// "No cross-host execution unless explicitly enabled": only `auto` leaves a call a choice.
fn may_choose(configured: HostChoice, requested: HostChoice, sandbox: Sandbox) -> bool {
    match (configured, requested) {
        (HostChoice::Auto, HostChoice::Node | HostChoice::Sandbox) => true,
        (HostChoice::Auto, HostChoice::Gateway) => sandbox == Sandbox::Inactive,
        (configured, requested) => configured == requested,
    }
}

fn key_of(source: &str) -> String {
    if source == "default" {
        "tools.exec.host"
    } else {
        source
    }
    .to_owned()
}
