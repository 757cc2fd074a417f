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
mod output;
mod run_task;
mod see;
mod view;

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

pub(super) use control::NodeControl;
pub(super) use see::{Purpose, SeenNodes};
pub use view::NodeView;

use countersign_config::approvals::{binding, store::Snapshot};
use countersign_domain::{
    Actor, AgentId, ApprovalDecision, Ask, Binding, Bound, Command, CommandInput, EnvOverrides, ExecRequest,
    Host, Pattern, PatternWidth, Principal, Reason, RunStatus, Security,
};
use countersign_hosts::{
    node::{ConnectionId, InvokeFailure, NodeGeneration, NodeInfo, NodeLookup, NodePlan, calls},
    peer_fs::Blind,
    workdir::{Workdir, WorkdirError},
};
use countersign_ledger::{NodeLaunch, NodeRun};
use countersign_policy::{allowlist::Analysis, command::env_policy, pattern::PatternCache};

use crate::{
    Engine,
    analyse::Files,
    call::Call,
    entry_indexes::EntryIndexes,
    judge::{PolicyNow, PolicyView},
    own_rule::FarPolicy,
    reply::ExecError,
    session::Asked,
};

/// The working directory of a call on a node that nobody named.
const OWN_DIRECTORY: &str = ".";
/// Longest working directory that a node is asked for.
const MAX_CWD_BYTES: usize = 4096;

/// A node, as far as a call on it knows it.
#[derive(Debug)]
pub(super) struct OnNode {
    pub(super) info: NodeInfo,
    /// Who asked for the call: the node is asked in the name of their token.
    asker: Actor,
    pub(super) document: NodeDocument,
    /// Programs by name, as the node found them; `None` for one that it does not have.
    programs: HashMap<String, Option<String>>,
    pub(super) plan: Prepared,
    /// Names that an analysis looked for and that the node was not asked about yet.
    unasked: Mutex<BTreeSet<String>>,
}

/// A node's own approvals document.
#[derive(Debug, Clone)]
pub(super) enum NodeDocument {
    /// As the node has it.
    Known(Arc<TheirDocument>),
    /// Why it is not known; then our own layers count, and the node's gate has the last word.
    Unknown(String),
}

/// An approvals document, and where it lies on its machine.
#[derive(Debug)]
pub(super) struct TheirDocument {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) path: Option<String>,
}

/// What a node makes of the command.
#[derive(Debug, Clone)]
pub(super) enum Prepared {
    /// It was not asked yet.
    NotYet,
    /// It cannot be asked.
    NotOffered,
    Plan(Box<NodePlan>),
    /// It would not run it, and why.
    Refused(Reason, String),
}

impl OnNode {
    fn new(info: NodeInfo, asker: Actor) -> Self {
        Self {
            info,
            asker,
            document: NodeDocument::Unknown("nobody asked for it yet".to_owned()),
            programs: HashMap::new(),
            plan: Prepared::NotYet,
            unasked: Mutex::new(BTreeSet::new()),
        }
    }

    /// The same node with more that is known of it.
    fn again(&self) -> Self {
        Self {
            info: self.info.clone(),
            asker: self.asker.clone(),
            document: self.document.clone(),
            programs: self.programs.clone(),
            plan: self.plan.clone(),
            unasked: Mutex::new(BTreeSet::new()),
        }
    }

    /// The same node, not asked yet what it makes of the command.
    pub(super) fn for_another_command(&self) -> Self {
        Self {
            plan: Prepared::NotYet,
            ..self.again()
        }
    }

    fn take_unasked(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.unasked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its document, or one that says nothing.
    pub(super) fn document(&self) -> Arc<Snapshot> {
        match &self.document {
            NodeDocument::Known(document) => Arc::clone(&document.snapshot),
            NodeDocument::Unknown(_) => Arc::new(Snapshot::of_accepted(None, String::new())),
        }
    }

    /// Its own policy, as people are told of it.
    pub(super) fn far_policy(&self) -> FarPolicy {
        FarPolicy {
            node: name_of(&self.info),
            file: match &self.document {
                NodeDocument::Known(document) => document.path.clone(),
                NodeDocument::Unknown(_) => None,
            },
        }
    }

    /// What a run on it is launched with; `None` while it is away.
    pub(super) fn launch(&self) -> Option<NodeLaunch> {
        let ConnectionId(connection) = self.info.connection?;
        Some(NodeLaunch {
            kept: NodeRun {
                node_id: self.info.node_id.clone(),
                connection,
                fenced: is_fenced(&self.info),
            },
            document_known: matches!(self.document, NodeDocument::Known(_)),
        })
    }

    fn bound(&self, command: &Command) -> Bound {
        Bound::OnNode {
            argv: calls::argv_of(command),
            plan: match &self.plan {
                Prepared::Plan(plan) => Some(plan.to_text()),
                Prepared::NotYet | Prepared::NotOffered | Prepared::Refused(..) => None,
            },
        }
    }

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

    /// What was approved, as it would be now. Another plan of the same command under another policy of the node is still what
    /// was approved: the node compares its policy itself.
    pub(super) fn rebind(&self, approved: &Binding) -> Binding {
        let mut present = approved.clone();
        if let (Bound::OnNode { plan: Some(old), .. }, Prepared::Plan(new)) = (&approved.bound, &self.plan)
            && NodePlan::of_text(old).is_ok_and(|old| old.is_same_command(new))
        {
            return present;
        }
        present.bound = self.bound(&approved.command);
        present
    }

    /// Whether the node's own policy, as its plan tells it, is stricter than the security under which a command is let run
    /// here, or asks about every command.
    pub(super) fn wants_a_person(&self, security: Security) -> bool {
        let Prepared::Plan(plan) = &self.plan else {
            return false;
        };
        plan.policy()
            .is_some_and(|(theirs, ask)| theirs < security || ask == Ask::Always)
    }

    /// What `allow-always` makes the node store.
    pub(super) fn proposed_patterns(&self) -> Vec<Pattern> {
        let Prepared::Plan(plan) = &self.plan else {
            return Vec::new();
        };
        let pattern = |(segment, coverage): (usize, &countersign_hosts::node::Coverage)| Pattern {
            segment,
            pattern: coverage.pattern.clone(),
            arg_pattern: coverage.arg_pattern.clone(),
            source: Some(ApprovalDecision::AllowAlways.as_str().to_owned()),
            width: match coverage.arg_pattern {
                Some(_) => PatternWidth::Exact,
                None => PatternWidth::Program,
            },
            default: true,
        };
        plan.coverage().iter().enumerate().map(pattern).collect()
    }
}

/// Whether a node keeps a fence for its runs and can be asked about them.
fn is_fenced(node: &NodeInfo) -> bool {
    node.generation == Some(NodeGeneration::Ours) && node.offers(calls::STATUS)
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

/// How a node is called for people.
fn name_of(node: &NodeInfo) -> String {
    match &node.display_name {
        Some(name) => format!(
            "{} ({})",
            countersign_runner::output::sanitize(name),
            node.node_id
        ),
        None => node.node_id.clone(),
    }
}

/// Says that a source binds an agent to a node, for messages.
fn agent_key(agent: &AgentId, source: &str) -> String {
    format!("{source} binds agent {agent} to a node")
}
