//! Commands on nodes: which node a call means, what is known of it, and the task of each of its runs
//! (`docs/spec/bridge.md#13-ours`).
//!
//! A node is believed about its own machine and about nothing else: what it says of a run counts if the run is its own.
//! The fence of such a run is on the node, so a call that may have reached one must never be sent again. A node that can
//! say what became of the run is asked; otherwise the run is `lost`. Entry points: `Engine::choose_node`,
//! `Engine::evaluate_on_node` and `Engine::start_on_node`. Read on: `run_task.rs` follows one run.

mod choose;
mod control;
mod messages;
mod on_node;
mod output;
mod run_task;
mod see;
mod view;

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError},
};

pub(super) use control::NodeControl;
pub(super) use on_node::{NodeDocument, OnNode, Prepared, TheirDocument};
pub(super) use see::{Purpose, SeenNodes};
pub use view::NodeView;

use countersign_config::approvals::binding;
use countersign_domain::{
    Actor, AgentId, Binding, Command, CommandInput, EnvOverrides, ExecRequest, Host, Principal, Reason,
    RunStatus,
};
use countersign_hosts::{
    node::{InvokeFailure, NodeLookup},
    peer_fs::Blind,
    workdir::{Workdir, WorkdirError},
};
use countersign_policy::{allowlist::Analysis, command::env_policy, pattern::PatternCache};

use crate::{
    Engine,
    analyse::Files,
    call::Call,
    entry_indexes::EntryIndexes,
    policy_now::{PolicyNow, PolicyView},
    reply::ExecError,
    session::Asked,
};

/// The working directory of a call on a node that nobody named.
const OWN_DIRECTORY: &str = ".";
/// Longest working directory that a node is asked for.
const MAX_CWD_BYTES: usize = 4096;

impl OnNode {
    /// What a call on it is bound to.
    pub(super) fn bind(&self, call: &Call, env: &EnvOverrides) -> Binding {
        Binding {
            host: Host::Node,
            node_id: Some(self.info.node_id.clone()),
            agent: call.agent.clone(),
            session: call.session.clone(),
            command: call.command.clone(),
            bound: self.bound(&call.command),
            cwd: call.workdir.path.to_string_lossy().into_owned(),
            cwd_dev: call.workdir.dev,
            cwd_ino: call.workdir.ino,
            env_hash: binding::env_hash(env),
            // Only the node sees its files.
            executables: Vec::new(),
            executable_sha256: None,
            script: None,
            scripts: Vec::new(),
            held: None,
            pty: false,
            input: CommandInput::Closed,
            timeout_ms: call.timeout_ms(),
        }
    }
}

impl Call {
    /// The working directory of a call on a node, where that is known here.
    pub(super) fn node_cwd(&self) -> Option<&str> {
        self.workdir.path.to_str().filter(|path| *path != OWN_DIRECTORY)
    }
}

impl Engine {
    /// Puts a call on its node. What is known of the node is asked for later.
    pub(super) fn resolve_on_node(
        &self,
        caller: &Principal,
        request: ExecRequest,
        asked: &Asked,
        now: &PolicyNow,
    ) -> Result<Call, ExecError> {
        let env = env_policy::check_overrides(&request.env)
            .map_err(|blocked| ExecError::BlockedEnv { names: blocked.names })?;
        self.resolve_on_node_with(caller, request, env, asked, now)
    }

    /// The same with overrides that were looked at.
    pub(super) fn resolve_on_node_with(
        &self,
        caller: &Principal,
        request: ExecRequest,
        env: EnvOverrides,
        asked: &Asked,
        now: &PolicyNow,
    ) -> Result<Call, ExecError> {
        if matches!(request.command, Command::Patch(_)) {
            return Err(ExecError::InvalidRequest {
                path: "host",
                message: "patches are applied on the gateway or in the sandbox, not on nodes".to_owned(),
            });
        }
        let node = self.choose_node(&request.agent, asked.node(), request.node.as_deref(), now)?;
        let cwd = match &request.workdir {
            None => OWN_DIRECTORY.to_owned(),
            Some(named) => cwd_of(named)?,
        };
        let workdir = Workdir::inside(PathBuf::from(cwd));
        let mut call = Self::assemble(caller, request, env, workdir, None, now.settings());
        call.node = Some(Arc::new(OnNode::new(node, caller.actor.clone())));
        Ok(call)
    }

    /// Analyses a command on a node: what a name means there is what the node said.
    pub(super) fn analyse_on_node(
        &self,
        node: &OnNode,
        call: &Call,
        now: &PolicyView,
        spent: &[countersign_domain::EntryId],
    ) -> Result<Analysis, Blind> {
        let lookup = NodeLookup::new(&node.programs);
        let files = Files {
            lookup: &lookup,
            patterns: &PatternCache::default(),
            indexes: &EntryIndexes::default(),
        };
        let mut analysis = self.analyse_with(call, now, spent, files)?;
        node.unasked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(lookup.into_unasked());
        // What an answer adds is added by the node to its own document.
        analysis.proposed_patterns = node.proposed_patterns();
        Ok(analysis)
    }

    /// The call behind something that was bound earlier, where it was bound.
    pub(super) fn call_of_binding(&self, binding: &Binding, now: &PolicyNow) -> Result<Call, WorkdirError> {
        let workdir = match binding.host {
            Host::Node => Workdir::inside(PathBuf::from(&binding.cwd)),
            Host::Gateway | Host::Sandbox => {
                Workdir::at(std::path::Path::new(&binding.cwd), self.gateway.files())?
            }
        };
        let mut call = Call::of_binding(binding, workdir);
        call.workdir_named = binding.cwd != OWN_DIRECTORY;
        call.node.clone_from(&now.node);
        Ok(call)
    }

    /// The policy of this moment for something that was bound earlier; on a node, with what the node says now to the
    /// caller who asked for it then.
    ///
    /// # Errors
    /// [`ExecError::NodeUnavailable`] while the node is away.
    pub(super) async fn policy_for(&self, binding: &Binding, asker: &Actor) -> Result<PolicyNow, ExecError> {
        let mut now = self.policy_now();
        if binding.host != Host::Node {
            return Ok(now);
        }
        let id = binding.node_id.as_deref().unwrap_or_default();
        let found = self.nodes.nodes().into_iter().find(|node| node.node_id == id);
        let node = found.ok_or_else(|| ExecError::NodeUnavailable {
            failure: InvokeFailure::NotConnected,
            detail: format!("node {id} is not paired any more"),
        })?;
        now.node = Some(Arc::new(OnNode::new(node, asker.clone())));
        let call = self.call_of_binding(binding, &now)?;
        let (now, _call, _judged) = self.evaluate_on_node(call, now, &[], Purpose::Again).await?;
        Ok(now)
    }
}

/// Whether a working directory lies below the home of the node host, which only the node knows.
fn is_below_home(cwd: &str) -> bool {
    cwd.starts_with("~/")
}

fn cwd_of(named: &str) -> Result<String, ExecError> {
    let drive = |text: &str| {
        let mut chars = text.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic()) && chars.next() == Some(':')
    };
    let is_whole = named.starts_with('/') || is_below_home(named) || drive(named);
    let is_text = named.len() <= MAX_CWD_BYTES && !named.contains('\0');
    if is_whole && is_text {
        Ok(named.to_owned())
    } else {
        Err(ExecError::WorkdirUnavailable {
            detail: "on a node the working directory must be an absolute path or begin with ~/; leave workdir out to start in \
                     the node's own"
                .to_owned(),
        })
    }
}

/// Whether a reason ends a run that started: such a run was not denied any more.
const fn is_denial(reason: Reason) -> bool {
    matches!(reason.run_status(), RunStatus::Denied)
}

/// Says that a source binds an agent to a node, for messages.
fn agent_key(agent: &AgentId, source: &str) -> String {
    format!("{source} binds agent {agent} to a node")
}
