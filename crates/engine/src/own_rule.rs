//! Which rule of this machine's policy refuses a command, for a gateway that delivered the command. What a caller here
//! is told of a node's policy is in `far_policy.rs`.

use std::path::Path;

use countersign_config::settings::Tool;
use countersign_domain::{Ask, Reason};
use countersign_policy::layers::{Layer, Resolved};
use countersign_protocol::bridge::OwnRule;

use crate::{evaluator::judgement::Judgement, far_policy::key_in_document, policy_admin::PolicyAdmin};

impl PolicyAdmin {
    /// The rule of this machine's policy that refuses what was judged for this reason.
    pub(super) fn own_rule(&self, judged: &Judgement, reason: Reason) -> OwnRule {
        let effective = &judged.effective;
        match (effective.ask.value, reason) {
            (Ask::Always, Reason::ApprovalRequired) => self.rule_of(reason, &effective.ask),
            (_, Reason::SecurityDeny | Reason::AllowlistMiss | Reason::ApprovalRequired) => {
                self.rule_of(reason, &effective.security)
            }
            (_, Reason::DocumentRefused) => OwnRule {
                file: Some(file_name(self.documents.path())),
                ..OwnRule::of_reason(reason)
            },
            (_, Reason::Denylist) => {
                let analysis = judged.analysis.as_ref();
                let hit = analysis.and_then(|analysis| analysis.denylisted.as_ref());
                hit.map_or_else(
                    || OwnRule::of_reason(reason),
                    |hit| OwnRule {
                        reason,
                        layer: Some(layer_of_owner(&hit.owner).as_str().to_owned()),
                        key: Some(format!("agents.{}.denylist", hit.owner)),
                        file: Some(file_name(self.documents.path())),
                    },
                )
            }
            (_, Reason::ToolDenied) => {
                let settings = self.settings.current();
                let policy = settings.policy.tool_policy(&judged.binding.agent);
                OwnRule {
                    key: policy.denied_by(Tool::Exec).map(str::to_owned),
                    file: Some(file_name(&self.settings.state_dir().config())),
                    ..OwnRule::of_reason(reason)
                }
            }
            _ => OwnRule::of_reason(reason),
        }
    }

    /// The layer that gave a value, with its key and its file.
    pub(super) fn rule_of<T>(&self, reason: Reason, value: &Resolved<T>) -> OwnRule {
        let source = value.source.as_str();
        let said = value.layers.iter().rfind(|said| said.source == source);
        let layer = said.map_or(Layer::Default, |said| said.layer);
        let (key, file) = match (key_in_document(source), layer) {
            (Some(key), _) => (Some(key), Some(file_name(self.documents.path()))),
            (None, Layer::Global | Layer::Agent) => (
                Some(source.to_owned()),
                Some(file_name(&self.settings.state_dir().config())),
            ),
            (
                None,
                Layer::Default
                | Layer::Session
                | Layer::Call
                | Layer::DocumentDefaults
                | Layer::DocumentWildcard
                | Layer::DocumentAgent
                | Layer::Clamp,
            ) => (None, None),
        };
        OwnRule {
            reason,
            layer: Some(layer.as_str().to_owned()),
            key,
            file,
        }
    }
}

fn file_name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn layer_of_owner(owner: &str) -> Layer {
    if owner == "*" {
        Layer::DocumentWildcard
    } else {
        Layer::DocumentAgent
    }
}
