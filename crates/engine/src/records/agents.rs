//! The agents that anything here knows of.

use std::collections::BTreeMap;

use countersign_config::approvals::document::Document;
use countersign_domain::{AgentId, Principal, UnixMillis};
use countersign_ledger::LedgerError;

use super::Records;

/// An agent, and where it is known from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownAgent {
    /// Its id, as calls name it.
    pub agent: AgentId,
    /// `openclaw.json` names it.
    pub in_config: bool,
    /// The approvals document names it.
    pub in_document: bool,
    /// It asked for a run that is still recorded.
    pub in_history: bool,
    /// Where `openclaw.json` has what is its own, or would have it.
    pub config_path: String,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// When it last asked for a run.
    pub last_seen_at: Option<UnixMillis>,
    /// Approvals of its runs that wait for an answer now.
    pub pending: u64,
}

impl Records {
    /// Agents known from the configuration, the document and the history that the caller has authority over, by name. A
    /// refused document names none.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn known_agents(&self, caller: &Principal) -> Result<Vec<KnownAgent>, LedgerError> {
        let in_effect = self.policy.refresh();
        let (document, policy) = (&in_effect.document, &in_effect.settings.policy);
        let mut known: BTreeMap<AgentId, KnownAgent> = BTreeMap::new();
        let new = |agent: &AgentId| KnownAgent {
            agent: agent.clone(),
            in_config: false,
            in_document: false,
            in_history: false,
            config_path: policy.agent_path(agent),
            node: policy.node(agent).pop().map(|said| said.value),
            last_seen_at: None,
            pending: 0,
        };
        for agent in policy.agents() {
            known
                .entry(agent.clone())
                .or_insert_with(|| new(&agent))
                .in_config = true;
        }
        let named = document.document().into_iter().flat_map(Document::agent_ids);
        // What is no agent's id cannot ask for anything.
        for agent in named.filter_map(|name| AgentId::parse(name).ok()) {
            known
                .entry(agent.clone())
                .or_insert_with(|| new(&agent))
                .in_document = true;
        }
        for activity in self.ledger.agents().await? {
            let agent = known
                .entry(activity.agent.clone())
                .or_insert_with(|| new(&activity.agent));
            agent.in_history = true;
            agent.last_seen_at = Some(activity.last_seen_at);
            agent.pending = activity.pending;
        }
        let reached = known
            .into_values()
            .filter(|known| caller.may_act_for(&known.agent));
        Ok(reached.collect())
    }

    /// Whether anything here knows of an agent. Of `main` everything does.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub(crate) async fn is_known_agent(&self, agent: &AgentId) -> Result<bool, LedgerError> {
        let in_effect = self.policy.refresh();
        let (document, policy) = (&in_effect.document, &in_effect.settings.policy);
        let mut named = document.document().into_iter().flat_map(Document::agent_ids);
        let is_named = *agent == AgentId::main()
            || policy.agents().contains(agent)
            || named.any(|name| name == agent.as_str());
        if is_named {
            return Ok(true);
        }
        let seen = self.ledger.agents().await?;
        Ok(seen.iter().any(|activity| activity.agent == *agent))
    }
}
