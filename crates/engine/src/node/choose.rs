//! Which node a call means: the agent's binding, the call, and what is connected.

use countersign_domain::AgentId;
use countersign_hosts::node::{InvokeFailure, NodeInfo};
use countersign_policy::{
    layers::Spoken,
    node_select::{self, Name, NotSelected, Selectable},
};
use countersign_protocol::bridge::SYSTEM_RUN;

use super::{agent_key, on_node::name_of};

use crate::reply::ExecError;

/// Why a node that was chosen cannot be called at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable {
    failure: InvokeFailure,
    pub(crate) detail: String,
}

impl From<Unusable> for ExecError {
    fn from(Unusable { failure, detail }: Unusable) -> Self {
        Self::NodeUnavailable { failure, detail }
    }
}

/// Why a node that was chosen cannot be called at this moment, if it cannot.
pub(crate) fn unusable(node: &NodeInfo) -> Option<Unusable> {
    if node.connection.is_none() {
        Some(Unusable {
            failure: InvokeFailure::NotConnected,
            detail: format!("node {} is not connected", name_of(node)),
        })
    } else if node.offers(SYSTEM_RUN) {
        None
    } else {
        let reason = if node.commands.is_empty() {
            "node did not declare commands"
        } else {
            "command not declared by node"
        };
        Some(Unusable {
            failure: InvokeFailure::NotAllowed { reason },
            detail: format!(
                "node {} offers no {}, or it was not approved or is denied by [bridge] deny_commands",
                name_of(node),
                SYSTEM_RUN
            ),
        })
    }
}

/// The place in `nodes` of the node that is bound, or that the call names.
pub(crate) fn choose(
    nodes: &[NodeInfo],
    agent: &AgentId,
    bound: Option<&Spoken<String>>,
    call: Option<&str>,
) -> Result<usize, ExecError> {
    let list: Vec<Selectable<'_>> = nodes
        .iter()
        .map(|node| Selectable {
            id: &node.node_id,
            name: called(node),
            remote_ip: node.remote_ip,
            connected: node.connection.is_some(),
            runs_commands: node.offers(SYSTEM_RUN),
        })
        .collect();
    let Some(bound) = bound else {
        return node_select::select(&list, call)
            .map_err(|why| not_selected(nodes, why, call, "the call names"));
    };
    let key = agent_key(agent, &bound.source);
    let place = node_select::select(&list, Some(&bound.value))
        .map_err(|why| not_selected(nodes, why, Some(&bound.value), &format!("{key}, named")))?;
    match call.map(|call| (call, node_select::select(&list, Some(call)))) {
        None => Ok(place),
        Some((_, Ok(named))) if named == place => Ok(place),
        Some((call, Err(why @ NotSelected::Ambiguous(_)))) => {
            Err(not_selected(nodes, why, Some(call), "the call names"))
        }
        Some((_, Ok(_) | Err(NotSelected::NotFound | NotSelected::NoneConnected))) => {
            Err(ExecError::ConfigConflict {
                detail: format!(
                    "{key}, and the call names another one; leave node out, or change {}",
                    bound.source
                ),
            })
        }
    }
}

/// What a node is called, and by whom.
fn called(node: &NodeInfo) -> Option<Name<'_>> {
    let name = node.display_name.as_deref()?;
    Some(if node.is_labelled {
        Name::Given(name)
    } else {
        Name::Approved(name)
    })
}

fn not_selected(nodes: &[NodeInfo], why: NotSelected, name: Option<&str>, whose: &str) -> ExecError {
    let name = name.unwrap_or_default();
    match why {
        NotSelected::NotFound => {
            let is_short =
                name.len() < node_select::MIN_PART && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            let short = if is_short {
                "; of an id give 6 characters or more"
            } else {
                ""
            };
            ExecError::NodeNotFound {
                detail: format!("{whose} {name:?}, and no paired node is called so{short}"),
            }
        }
        NotSelected::NoneConnected => ExecError::NodeUnavailable {
            failure: InvokeFailure::NotConnected,
            detail: "no node that runs commands is connected".to_owned(),
        },
        NotSelected::Ambiguous(places) => ExecError::NodeAmbiguous {
            detail: if name.is_empty() {
                "several nodes that run commands are connected; name one in node".to_owned()
            } else {
                format!("{whose} {name:?}, which means several nodes")
            },
            candidates: places
                .into_iter()
                .filter_map(|place| nodes.get(place))
                .map(|node| (node.node_id.clone(), node.display_name.clone()))
                .collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_hosts::node::{ConnectionId, NodeGeneration};
    use countersign_policy::layers::Layer;

    fn node(id: &str, name: &str, connection: Option<u64>) -> NodeInfo {
        NodeInfo {
            node_id: id.to_owned(),
            display_name: Some(name.to_owned()),
            is_labelled: false,
            remote_ip: None,
            platform: None,
            commands: vec![SYSTEM_RUN.to_owned()],
            generation: Some(NodeGeneration::Present),
            connection: connection.map(ConnectionId),
        }
    }

    fn nodes() -> Vec<NodeInfo> {
        vec![
            node("aaaaaaaa1", "mill", Some(1)),
            node("aaaaaaaa2", "attic", None),
            node("bbbbbbbb1", "Mill", Some(2)),
        ]
    }

    fn chosen(bound: Option<&str>, call: Option<&str>) -> Result<usize, ExecError> {
        let bound = bound.map(|name| Spoken::new(Layer::Global, "tools.exec.node", name.to_owned()));
        choose(&nodes(), &AgentId::main(), bound.as_ref(), call)
    }

    #[test]
    fn a_binding_holds_whatever_the_call_names() {
        assert_eq!(chosen(Some("attic"), None), Ok(1));
        assert_eq!(chosen(Some("attic"), Some("aaaaaaaa2")), Ok(1));
        for other in ["aaaaaaaa1", "bbbbbb", "nobody"] {
            let refused = chosen(Some("attic"), Some(other)).unwrap_err();
            assert!(matches!(refused, ExecError::ConfigConflict { .. }), "{refused:?}");
        }
        let unknown = chosen(Some("gone"), None).unwrap_err();
        assert!(matches!(unknown, ExecError::NodeNotFound { detail } if detail.contains("tools.exec.node")));
    }

    #[test]
    fn who_is_meant_by_nobody_or_by_several_is_said() {
        assert_eq!(chosen(None, Some("aaaaaaaa2")), Ok(1));
        let several = chosen(None, Some("MILL")).unwrap_err();
        let ExecError::NodeAmbiguous { candidates, .. } = several else {
            panic!("{several:?}");
        };
        assert_eq!(
            candidates,
            [
                ("aaaaaaaa1".to_owned(), Some("mill".to_owned())),
                ("bbbbbbbb1".to_owned(), Some("Mill".to_owned())),
            ]
        );
        assert!(matches!(chosen(None, None), Err(ExecError::NodeAmbiguous { .. })));
        let none = choose(&[], &AgentId::main(), None, None);
        assert!(matches!(none, Err(ExecError::NodeUnavailable { .. })));
    }

    #[test]
    fn a_name_that_was_given_here_decides_for_a_binding_and_for_a_call() {
        let mut nodes = nodes();
        for node in &mut nodes {
            node.is_labelled = node.node_id == "bbbbbbbb1";
        }
        let bound = |name: &str| Spoken::new(Layer::Global, "tools.exec.node", name.to_owned());
        let choose = |bound: Option<&Spoken<String>>, call| choose(&nodes, &AgentId::main(), bound, call);
        assert_eq!(choose(None, Some("mill")), Ok(2));
        assert_eq!(choose(Some(&bound("mill")), None), Ok(2));
        assert_eq!(choose(Some(&bound("mill")), Some("bbbbbbbb1")), Ok(2));
        let other = choose(Some(&bound("mill")), Some("aaaaaaaa1")).unwrap_err();
        assert!(matches!(other, ExecError::ConfigConflict { .. }), "{other:?}");
    }

    #[test]
    fn a_node_that_is_away_or_runs_nothing_is_no_use() {
        let away = node("a", "x", None);
        let away = unusable(&away).unwrap();
        assert_eq!(away.failure, InvokeFailure::NotConnected);
        assert!(away.detail.contains("not connected"));
        let camera = NodeInfo {
            commands: vec!["camera.snap".to_owned()],
            ..node("a", "x", Some(1))
        };
        let camera = unusable(&camera).unwrap();
        assert!(matches!(camera.failure, InvokeFailure::NotAllowed { .. }));
        assert!(camera.detail.contains("system.run"));
        assert_eq!(unusable(&node("a", "x", Some(1))), None);
    }
}
