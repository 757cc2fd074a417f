//! What is asked of a node before a command may run there: its approvals document, where its programs are, what it makes of
//! the command. Each answer is bounded in time and size; what is not to be had leaves our own layers and the node's gate.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;

use countersign_config::{approvals::store::Snapshot, settings::Settings};
use countersign_domain::{Actor, Reason, RunId, TokenId};
use countersign_hosts::node::{
    ConnectionId, InvokeFailure, InvokeRequest, InvokeResult, NodeError, NodeInfo, NodeLink, NodePlan,
    answers,
    calls::{self, Called},
};
use countersign_protocol::bridge::{APPROVALS_GET, RUN_STATUS, SYSTEM_RUN_PREPARE, SYSTEM_WHICH};
use countersign_sys::clock::Ids;

use super::{NodeDocument, OnNode, Prepared, TheirDocument, choose, is_denial, on_node::is_fenced};

use crate::reply::ExecError;

/// The longest that a call waits for one of these answers, no matter what `[bridge] invoke_timeout_ms` says.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the document of a node that keeps no fence is believed. A node of ours is asked every time.
const DOCUMENT_AGE: Duration = Duration::from_secs(5);
/// How long it is believed where a program lies.
const PROGRAM_AGE: Duration = Duration::from_secs(30);
/// Programs of one node that are remembered.
const MAX_PROGRAMS: usize = 1_000;
/// Names that one call asks about at once.
const MAX_NAMES: usize = 64;

/// What nodes said lately.
#[derive(Debug, Default)]
struct SeenNodes(Mutex<HashMap<String, CachedNode>>);

#[derive(Debug)]
struct CachedNode {
    connection: ConnectionId,
    document: Option<(Instant, Arc<TheirDocument>)>,
    programs: HashMap<String, (Instant, Option<String>)>,
}

impl SeenNodes {
    fn document(&self, node: &NodeInfo) -> Option<Arc<TheirDocument>> {
        let seen = self.lock();
        let (at, document) = seen
            .get(&node.node_id)
            .filter(|seen| Some(seen.connection) == node.connection)?
            .document
            .as_ref()?;
        (at.elapsed() < DOCUMENT_AGE).then(|| Arc::clone(document))
    }

    fn keep_document(&self, node: &NodeInfo, document: &Arc<TheirDocument>) {
        self.with(node, |seen| {
            seen.document = Some((Instant::now(), Arc::clone(document)));
        });
    }

    fn programs(&self, node: &NodeInfo, names: &BTreeSet<String>) -> HashMap<String, Option<String>> {
        let seen = self.lock();
        let seen = seen
            .get(&node.node_id)
            .filter(|seen| Some(seen.connection) == node.connection);
        let Some(seen) = seen else { return HashMap::new() };
        let known = names.iter().filter_map(|name| {
            let (at, path) = seen.programs.get(name)?;
            (at.elapsed() < PROGRAM_AGE).then(|| (name.clone(), path.clone()))
        });
        known.collect()
    }

    fn keep_programs(&self, node: &NodeInfo, found: &HashMap<String, Option<String>>) {
        self.with(node, |seen| {
            if seen.programs.len() + found.len() > MAX_PROGRAMS {
                seen.programs.clear();
            }
            let now = Instant::now();
            let found = found
                .iter()
                .map(|(name, path)| (name.clone(), (now, path.clone())));
            seen.programs.extend(found);
        });
    }

    fn with(&self, node: &NodeInfo, change: impl FnOnce(&mut CachedNode)) {
        let Some(connection) = node.connection else { return };
        let new = || CachedNode {
            connection,
            document: None,
            programs: HashMap::new(),
        };
        let mut all = self.lock();
        let seen = all.entry(node.node_id.clone()).or_insert_with(new);
        if seen.connection != connection {
            *seen = new();
        }
        change(seen);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, CachedNode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that got no answer.
#[derive(Debug)]
enum Unanswered {
    Link(InvokeFailure),
    Node(NodeError),
}

impl Unanswered {
    fn in_words(&self) -> String {
        match self {
            Self::Link(failure) => describe(failure).into_owned(),
            Self::Node(error) => answers::refusal(error).1,
        }
    }
}

/// Why there was no answer, for people.
pub(super) fn describe(failure: &InvokeFailure) -> Cow<'static, str> {
    Cow::Borrowed(match failure {
        InvokeFailure::NotConnected => "the node is not connected",
        InvokeFailure::NotAllowed { reason } => reason,
        InvokeFailure::Full => "too many calls wait for the node already",
        InvokeFailure::TooLarge(size) => return Cow::Owned(size.to_string()),
        InvokeFailure::Disconnected => "the connection of the node ended before it answered",
        InvokeFailure::TimedOut => "the node did not answer in time",
    })
}

/// The way to nodes, and what they said lately.
#[derive(Debug)]
pub(crate) struct NodePeers {
    link: Arc<dyn NodeLink>,
    ids: Arc<dyn Ids>,
    seen: SeenNodes,
}

/// How long a node may take for one of these answers.
fn within(settings: &Settings) -> Duration {
    settings.server.bridge.invoke_timeout.min(TIMEOUT)
}

impl NodePeers {
    pub(crate) fn new(link: Arc<dyn NodeLink>, ids: Arc<dyn Ids>) -> Self {
        Self {
            link,
            ids,
            seen: SeenNodes::default(),
        }
    }

    /// The nodes that are paired, connected or not.
    pub(crate) fn nodes(&self) -> Vec<NodeInfo> {
        self.link.nodes()
    }

    /// Calls a node once and waits for its answer, as the link does.
    pub(super) fn invoke(
        &self,
        request: InvokeRequest,
    ) -> BoxFuture<'_, Result<InvokeResult, InvokeFailure>> {
        self.link.invoke(request)
    }

    /// Tells a node that a run is wanted no longer. Does not wait.
    pub(super) fn cancel(&self, node_id: &str, run_id: &RunId) {
        self.link.cancel(node_id, run_id.as_str());
    }

    /// Forgets what a node said.
    pub(crate) fn forget(&self, node_id: &str) {
        self.seen.lock().remove(node_id);
    }

    /// A node with its document, where that can be had.
    pub(crate) async fn look_at(&self, info: NodeInfo, asker: &Actor, settings: &Settings) -> OnNode {
        let mut node = OnNode::new(info, asker.clone());
        node.document = if let Some(away) = choose::unusable(&node.info) {
            NodeDocument::Unknown(away.detail)
        } else {
            let document = self.see_document(&node, settings).await;
            document.unwrap_or_else(|full| NodeDocument::Unknown(full.into_owned()))
        };
        node
    }

    /// The document of a node, as far as it can be had; an error, in words, when too much waits for the node to ask it.
    pub(crate) async fn see_document(
        &self,
        node: &OnNode,
        settings: &Settings,
    ) -> Result<NodeDocument, Cow<'static, str>> {
        let info = &node.info;
        if !info.offers(APPROVALS_GET) {
            let detail = format!("the node does not offer {APPROVALS_GET}");
            return Ok(NodeDocument::Unknown(detail));
        }
        if let Some(document) = self.seen.document(info).filter(|_| !is_fenced(info)) {
            return Ok(NodeDocument::Known(document));
        }
        let answer = self
            .ask_node(node, APPROVALS_GET, serde_json::json!({}), settings)
            .await;
        let payload = match answer {
            Ok(payload) => payload,
            Err(Unanswered::Link(failure @ InvokeFailure::Full)) => return Err(describe(&failure)),
            Err(unanswered) => return Ok(NodeDocument::Unknown(unanswered.in_words())),
        };
        Ok(match answers::document_of(&payload) {
            Ok(answers::TheirDocument { text, hash, path }) => {
                let snapshot = Arc::new(Snapshot::of_accepted(Some(text.as_bytes()), hash));
                let document = Arc::new(TheirDocument { snapshot, path });
                self.seen.keep_document(info, &document);
                NodeDocument::Known(document)
            }
            Err(unreadable) => NodeDocument::Unknown(unreadable.to_string()),
        })
    }

    pub(crate) async fn see_programs(
        &self,
        node: &OnNode,
        names: BTreeSet<String>,
        settings: &Settings,
    ) -> HashMap<String, Option<String>> {
        let mut found = self.seen.programs(&node.info, &names);
        let asked: Vec<String> = names
            .into_iter()
            .filter(|name| !found.contains_key(name))
            .take(MAX_NAMES)
            .collect();
        if asked.is_empty() {
            return found;
        }
        let params = calls::which_params(asked.iter().map(String::as_str));
        let answer = if node.info.offers(SYSTEM_WHICH) {
            self.ask_node(node, SYSTEM_WHICH, params, settings).await.ok()
        } else {
            None
        };
        // A name that is not found is a miss, and is not asked about once more.
        let fresh = answers::programs_found(answer.as_ref().unwrap_or(&Value::Null), asked);
        if answer.is_some() {
            self.seen.keep_programs(&node.info, &fresh);
        }
        found.extend(fresh);
        found
    }

    pub(crate) async fn prepare(
        &self,
        node: &OnNode,
        called: Called<'_>,
        settings: &Settings,
    ) -> Result<Prepared, ExecError> {
        if !node.info.offers(SYSTEM_RUN_PREPARE) {
            return Ok(Prepared::NotOffered);
        }
        let (agent, session) = (called.agent.as_str(), called.session.as_str());
        let params = calls::prepare_params(called);
        let refused = |reason, why| Ok(Prepared::Refused(reason, why));
        match self.ask_node(node, SYSTEM_RUN_PREPARE, params, settings).await {
            Ok(answer) => {
                let plan = NodePlan::of_prepared(&answer).and_then(|plan| plan.for_caller(agent, session));
                match plan {
                    Ok(plan) => Ok(Prepared::Plan(Box::new(plan))),
                    Err(unusable) => refused(Reason::NodeRefused, unusable.to_string()),
                }
            }
            // Nothing ran, no matter what the node calls it.
            Err(Unanswered::Node(error)) => match answers::refusal(&error) {
                (reason, why) if is_denial(reason) => refused(reason, why),
                (_, why) => refused(Reason::NodeRefused, why),
            },
            Err(Unanswered::Link(failure)) => Err(ExecError::NodeUnavailable {
                detail: describe(&failure).into_owned(),
                failure,
            }),
        }
    }

    async fn ask_node(
        &self,
        node: &OnNode,
        command: &str,
        params: Value,
        settings: &Settings,
    ) -> Result<Value, Unanswered> {
        let timeout = within(settings);
        let asker = node.asker.token();
        self.call_node(&node.info, asker, command, params, timeout).await
    }

    async fn call_node(
        &self,
        node: &NodeInfo,
        token: Option<TokenId>,
        command: &str,
        params: Value,
        timeout: Duration,
    ) -> Result<Value, Unanswered> {
        let request = InvokeRequest {
            node_id: node.node_id.clone(),
            connection: node.connection,
            id: self.ids.launch_id().to_string(),
            command: command.to_owned(),
            params,
            timeout: Some(timeout),
            token,
        };
        let answer = self.link.invoke(request).await.map_err(Unanswered::Link)?;
        answer.outcome.map_err(Unanswered::Node)
    }

    /// What became of a run, as its node knows; `None` when that is not to be had now.
    pub(crate) async fn ask_status(
        &self,
        node: &NodeInfo,
        run_id: &RunId,
        settings: &Settings,
    ) -> Option<answers::RunState> {
        let timeout = within(settings);
        let params = calls::status_params(run_id);
        // What became of a run is this server's own question, no matter who asked for the run.
        let answer = self.call_node(node, None, RUN_STATUS, params, timeout).await;
        match answer.map(answers::RunState::of) {
            Ok(Ok(state)) => Some(state),
            Ok(Err(_unreadable)) => None,
            Err(unanswered) => {
                // A node's own words may repeat the command.
                let error = match &unanswered {
                    Unanswered::Link(failure) => describe(failure),
                    Unanswered::Node(_) => Cow::Borrowed("the node answered with an error"),
                };
                tracing::warn!(run.id = %run_id, %error, "a node did not say what became of a run");
                None
            }
        }
    }
}
