//! A node, as far as a call on it knows it: what the node said of itself, of its policy and of the command.
//!
//! It asks nobody. `see.rs` asks the node, and adds what it answers.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use countersign_config::approvals::store::Snapshot;
use countersign_domain::{
    Actor, ApprovalDecision, Ask, Binding, Bound, Command, GrantLimits, Pattern, PatternWidth, Reason,
    Security,
};
use countersign_hosts::node::{ConnectionId, NodeGeneration, NodeInfo, NodePlan, calls};
use countersign_ledger::{NodeLaunch, NodeRun};
use countersign_protocol::bridge::RUN_STATUS;

use crate::far_policy::FarPolicy;

/// A node, as far as a call on it knows it.
#[derive(Debug)]
pub(crate) struct OnNode {
    pub(crate) info: NodeInfo,
    /// Who asked for the call: the node is asked in the name of their token.
    pub(super) asker: Actor,
    pub(crate) document: NodeDocument,
    /// Programs by name, as the node found them; `None` for one that it does not have.
    pub(crate) programs: HashMap<String, Option<String>>,
    pub(crate) plan: Prepared,
    /// Names that an analysis looked for and that the node was not asked about yet.
    unasked: Mutex<BTreeSet<String>>,
}

/// A node's own approvals document.
#[derive(Debug, Clone)]
pub(crate) enum NodeDocument {
    /// As the node has it.
    Known(Arc<TheirDocument>),
    /// Why it is not known; then our own layers count, and the node's gate has the last word.
    Unknown(String),
}

/// An approvals document, and where it lies on its machine.
#[derive(Debug)]
pub(crate) struct TheirDocument {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) path: Option<String>,
}

/// What a node makes of the command.
#[derive(Debug, Clone)]
pub(crate) enum Prepared {
    /// It was not asked yet.
    NotYet,
    /// It cannot be asked.
    NotOffered,
    Plan(Box<NodePlan>),
    /// It would not run it, and why.
    Refused(Reason, String),
}

impl OnNode {
    pub(crate) fn new(info: NodeInfo, asker: Actor) -> Self {
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
    pub(crate) fn again(&self) -> Self {
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
    pub(crate) fn for_another_command(&self) -> Self {
        Self {
            plan: Prepared::NotYet,
            ..self.again()
        }
    }

    /// Notes names that would have to be asked about.
    pub(crate) fn add_unasked(&self, names: impl IntoIterator<Item = String>) {
        self.unasked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(names);
    }

    pub(crate) fn take_unasked(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.unasked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its document, or one that says nothing.
    pub(crate) fn document(&self) -> Arc<Snapshot> {
        match &self.document {
            NodeDocument::Known(document) => Arc::clone(&document.snapshot),
            NodeDocument::Unknown(_) => Arc::new(Snapshot::of_accepted(None, String::new())),
        }
    }

    /// Its own policy, as people are told of it.
    pub(crate) fn far_policy(&self) -> FarPolicy {
        FarPolicy {
            node: name_of(&self.info),
            file: match &self.document {
                NodeDocument::Known(document) => document.path.clone(),
                NodeDocument::Unknown(_) => None,
            },
        }
    }

    /// What a run on it is launched with; `None` while it is away.
    pub(crate) fn launch(&self) -> Option<NodeLaunch> {
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

    pub(crate) fn bound(&self, command: &Command) -> Bound {
        Bound::OnNode {
            argv: calls::argv_of(command),
            plan: match &self.plan {
                Prepared::Plan(plan) => Some(plan.to_text()),
                Prepared::NotYet | Prepared::NotOffered | Prepared::Refused(..) => None,
            },
        }
    }

    /// What was approved, as it would be now. Another plan of the same command under another policy of the node is still what
    /// was approved: the node compares its policy itself.
    pub(crate) fn rebind(&self, approved: &Binding) -> Binding {
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
    pub(crate) fn wants_a_person(&self, security: Security) -> bool {
        let Prepared::Plan(plan) = &self.plan else {
            return false;
        };
        plan.policy()
            .is_some_and(|(theirs, ask)| theirs < security || ask == Ask::Always)
    }

    /// What `allow-always` makes the node store.
    pub(crate) fn proposed_patterns(&self) -> Vec<Pattern> {
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
            shape: None,
            limits: GrantLimits::default(),
        };
        plan.coverage().iter().enumerate().map(pattern).collect()
    }
}

/// Whether a node keeps a fence for its runs and can be asked about them.
pub(super) fn is_fenced(node: &NodeInfo) -> bool {
    node.generation == Some(NodeGeneration::Ours) && node.offers(RUN_STATUS)
}

/// How a node is called for people.
pub(super) fn name_of(node: &NodeInfo) -> String {
    match &node.display_name {
        Some(name) => format!(
            "{} ({})",
            countersign_runner::output::sanitize(name),
            node.node_id
        ),
        None => node.node_id.clone(),
    }
}
