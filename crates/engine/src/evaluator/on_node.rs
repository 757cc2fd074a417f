//! Calls on nodes: what is asked of the node before the decision, and the policy that its own document makes.

use std::{path::PathBuf, sync::Arc};

use countersign_domain::{Actor, AgentId, Command, EntryId, ExecRequest, Principal, Reason, Security};
use countersign_hosts::{
    node::{InvokeFailure, NodeInfo, NodeLookup, calls::Called},
    peer_fs::Blind,
    workdir::Workdir,
};
use countersign_policy::{
    allowlist::Analysis,
    combine::Wanted,
    gate::Verdict,
    layers::{Layer, Spoken},
    pattern::PatternCache,
};

use super::{
    Evaluator, Mode,
    analyse::Files,
    call::{Call, Requested},
    entry_indexes::EntryIndexes,
    judgement::Judgement,
    policy_now::{PolicyNow, PolicyView},
};
use crate::{
    node::{NodeDocument, NodePeers, NodeView, OWN_DIRECTORY, OnNode, Prepared, choose, unusable},
    reply::ExecError,
};

/// Longest working directory that a node is asked for.
const MAX_CWD_BYTES: usize = 4096;
/// How often one call asks: a wrapper is known only when the program before it is.
const ROUNDS: usize = 4;

/// What a look at a node is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A call that is to run there.
    Call,
    /// A caller wants to know: a node that is away is no error.
    Explanation,
    /// What was allowed earlier is about to run.
    Again,
}

impl NodePeers {
    /// The node of a call. `session` is the session's own choice, which takes the place of the agent's. Every policy
    /// that has to let the call through must lead to the same node. The node may be away: the code that calls the node
    /// looks.
    pub(crate) fn choose_node(
        &self,
        agent: &AgentId,
        session: Option<&str>,
        call: Option<&str>,
        now: &PolicyNow,
    ) -> Result<NodeInfo, ExecError> {
        let nodes = self.nodes();
        let of_session = session.map(|name| Spoken::new(Layer::Session, "session", name.to_owned()));
        let mut chosen: Option<usize> = None;
        for view in now.views() {
            let bound = of_session
                .clone()
                .or_else(|| view.settings.policy.node(agent).last().cloned());
            let place = choose(&nodes, agent, bound.as_ref(), call)?;
            if chosen.is_some_and(|before| before != place) {
                return Err(ExecError::ConfigConflict {
                    detail: "an edit of openclaw.json that is held would run this on another node than what was accepted; \
                             accept the edit with countersign policy accept, or take it back"
                        .to_owned(),
                });
            }
            chosen = Some(place);
        }
        let node = chosen.and_then(|place| nodes.into_iter().nth(place));
        // There is always a view, and a place is one of the list.
        node.ok_or_else(|| ExecError::NodeUnavailable {
            failure: InvokeFailure::NotConnected,
            detail: "no node could be chosen".to_owned(),
        })
    }
}

impl Evaluator {
    /// Puts a call on its node. What is known of the node is asked for later.
    pub(crate) fn settle_on_node(
        &self,
        requested: Requested<'_>,
        now: &PolicyNow,
    ) -> Result<Call, ExecError> {
        let request = &requested.request;
        if matches!(request.command, Command::Patch(_)) {
            return Err(ExecError::InvalidRequest {
                path: "host",
                message: "patches are applied on the gateway or in the sandbox, not on nodes".to_owned(),
            });
        }
        let chosen = requested.asked.node();
        let node = self
            .nodes
            .choose_node(&request.agent, chosen, request.node.as_deref(), now)?;
        let cwd = match &request.workdir {
            None => OWN_DIRECTORY.to_owned(),
            Some(named) => cwd_of(named)?,
        };
        let asker = requested.caller.actor.clone();
        Ok(Call {
            node: Some(Arc::new(OnNode::new(node, asker))),
            ..requested.call_in(Workdir::inside(PathBuf::from(cwd)), now.settings())
        })
    }

    /// Analyses a command on a node: what a name means there is what the node said.
    pub(crate) fn analyse_on_node(
        &self,
        node: &OnNode,
        call: &Call,
        now: &PolicyView,
        spent: &[EntryId],
    ) -> Result<Analysis, Blind> {
        let lookup = NodeLookup::new(&node.programs);
        let files = Files {
            lookup: &lookup,
            patterns: &PatternCache::default(),
            indexes: &EntryIndexes::default(),
        };
        let mut analysis = self.analyst.analyse_with(call, now, spent, files)?;
        node.add_unasked(lookup.into_unasked());
        // What an answer adds is added by the node to its own document.
        analysis.proposed_patterns = node.proposed_patterns();
        Ok(analysis)
    }

    /// Asks the node of a call for what the decision needs, and judges it with that.
    pub(crate) async fn evaluate_on_node(
        &self,
        mut call: Call,
        mut now: PolicyNow,
        spent: &[EntryId],
        purpose: Purpose,
    ) -> Result<(PolicyNow, Call, Judgement), ExecError> {
        let Some(first) = call.node.take() else {
            let judged = self.judge_in_turn(&call, &now, spent).await?;
            return Ok((now, call, judged));
        };
        let mut node = first.again();
        let away = unusable(&node.info);
        match (&away, purpose) {
            (Some(away), Purpose::Call | Purpose::Again) => return Err(away.clone().into()),
            (Some(away), Purpose::Explanation) => {
                node.document = NodeDocument::Unknown(away.detail.clone());
            }
            // What could not even be asked is not the node's silence: a caller who sends the node too much does not get
            // round its document.
            (None, Purpose::Call | Purpose::Again) => {
                let document = self.nodes.see_document(&node, now.settings()).await;
                node.document = document.map_err(|full| ExecError::NodeUnavailable {
                    failure: InvokeFailure::Full,
                    detail: full.into_owned(),
                })?;
            }
            (None, Purpose::Explanation) => {
                let document = self.nodes.see_document(&node, now.settings()).await;
                node.document = document.unwrap_or_else(|full| NodeDocument::Unknown(full.into_owned()));
            }
        }
        let mut asked = 0;
        loop {
            let seen = Arc::new(node);
            call.node = Some(Arc::clone(&seen));
            now = now.on_node(Arc::clone(&seen));
            let judged = self.judge_in_turn(&call, &now, spent).await?;
            let unasked = seen.take_unasked();
            if asked < ROUNDS && !unasked.is_empty() && away.is_none() {
                asked += 1;
                node = seen.again();
                node.programs
                    .extend(self.nodes.see_programs(&seen, unasked, now.settings()).await);
                continue;
            }
            let is_wanted = purpose == Purpose::Again || !matches!(judged.verdict, Verdict::Deny(_));
            if away.is_some() || !is_wanted || !matches!(seen.plan, Prepared::NotYet) {
                return Ok((now, call, judged));
            }
            node = seen.again();
            node.plan = self.nodes.prepare(&seen, called(&call), now.settings()).await?;
            // Only the node knows where its own directory and its home are.
            let is_reported_by_node = !call.workdir_named || call.node_cwd().is_some_and(is_below_home);
            if let (Prepared::Plan(plan), true) = (&node.plan, is_reported_by_node)
                && let Some(cwd) = plan.cwd()
            {
                call.workdir = Workdir::inside(cwd.into());
            }
            // In its directory other names may be meant.
            asked = 0;
        }
    }

    /// Why a call that names a node is refused before its node is asked for anything.
    pub(crate) async fn barred_from_node(
        &self,
        caller: &Principal,
        request: &ExecRequest,
    ) -> Result<Option<Reason>, ExecError> {
        let mode = Mode::explain();
        let now = self.policy.now();
        let asked = self.sessions.asked_by_call(caller, request, &now, mode.place)?;
        self.places.place_of(caller, request, &asked, &now, &mode).await?;
        self.nodes
            .choose_node(&request.agent, asked.node(), request.node.as_deref(), &now)?;
        if now.is_tool_denied(&request.agent, &request.command) {
            return Ok(Some(Reason::ToolDenied));
        }
        let effective = now.effective(&request.agent, asked.wishes(Wanted::default()));
        Ok((effective.security.value == Security::Deny).then_some(Reason::SecurityDeny))
    }

    /// The policy of an agent's calls on nodes that name none, with what the node says to the asker. `session` is the
    /// session's own choice.
    pub(crate) async fn inspect_node(
        &self,
        asker: &Actor,
        agent: &AgentId,
        session: Option<&str>,
        now: PolicyNow,
    ) -> (PolicyNow, NodeView) {
        let node = match self.nodes.choose_node(agent, session, None, &now) {
            Ok(info) => self.nodes.look_at(info, asker, now.settings()).await,
            Err(why) => {
                // No matter what a node says, the deny rules of this machine and the configured layers count.
                return (now.without_document(), NodeView::nobody(&why));
            }
        };
        let view = NodeView::of(&node);
        (now.on_node(node.into()), view)
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
            detail: format!(
                "on a node the working directory must be an absolute path or begin with ~/: {named}; leave workdir out to \
                 start in the node's own"
            ),
        })
    }
}

fn called(call: &Call) -> Called<'_> {
    Called {
        command: &call.command,
        cwd: call.node_cwd(),
        env: &call.env,
        agent: &call.agent,
        session: &call.session,
    }
}

impl Call {
    /// The working directory of a call on a node, where that is known here.
    pub(crate) fn node_cwd(&self) -> Option<&str> {
        self.workdir.path.to_str().filter(|path| *path != OWN_DIRECTORY)
    }
}
