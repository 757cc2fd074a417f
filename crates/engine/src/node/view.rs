//! What people are shown of the node of a call.

use countersign_config::approvals::store::DocumentStatus;
use countersign_hosts::node::NodeInfo;
use countersign_protocol::bridge::OwnRule;

use super::{NodeDocument, OnNode, Prepared, choose};

use crate::reply::ExecError;

/// The node of a call, and how much of its own policy is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeView {
    /// Its id; absent when no node is chosen.
    pub node_id: Option<String>,
    /// Its name for people.
    pub display_name: Option<String>,
    /// Whether it could be called at this moment.
    pub usable: bool,
    /// Its own approvals document; absent when that is not known.
    pub document: Option<DocumentStatus>,
    /// The hash of that document as the node says it; `None` when the document is not known.
    pub hash: Option<String>,
    /// Where the document lies on that machine.
    pub path: Option<String>,
    /// The rule of its own policy by which it would refuse the command, in words, where it says so.
    pub would_refuse: Option<String>,
    /// Why there is no node, it cannot be called, or its document is not known.
    pub detail: Option<String>,
}

impl NodeView {
    pub(crate) fn of(node: &OnNode) -> Self {
        let OnNode {
            info, document, plan, ..
        } = node;
        let away = choose::unusable(info);
        let (known, unknown) = match document {
            NodeDocument::Known(document) => (Some(document), None),
            NodeDocument::Unknown(why) => (None, Some(why.clone())),
        };
        let snapshot = known.map(|known| &known.snapshot);
        Self {
            usable: away.is_none(),
            document: snapshot.map(|snapshot| snapshot.status.clone()),
            hash: snapshot.map(|snapshot| snapshot.hash.clone()),
            path: known.and_then(|known| known.path.clone()),
            would_refuse: match plan {
                Prepared::Plan(plan) => plan.refusal().map(OwnRule::in_words),
                Prepared::NotYet | Prepared::NotOffered | Prepared::Refused(..) => None,
            },
            detail: away.map(|away| away.detail).or(unknown),
            ..Self::of_info(info)
        }
    }

    fn of_info(info: &NodeInfo) -> Self {
        Self {
            node_id: Some(info.node_id.clone()),
            display_name: info.display_name.clone(),
            ..Self::default()
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    pub(crate) fn nobody(why: &ExecError) -> Self {
        let detail = match why {
            ExecError::NodeUnavailable { detail, .. }
            | ExecError::NodeNotFound { detail }
            | ExecError::NodeAmbiguous { detail, .. }
            | ExecError::ConfigConflict { detail } => detail.clone(),
            other => other.to_string(),
        };
        Self {
            detail: Some(detail),
            ..Self::default()
        }
    }
}
