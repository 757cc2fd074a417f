//! The policy of one moment, by which a call is resolved and judged: settings and documents that count together.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use countersign_config::{
    approvals::{
        document::{DenyRule, Listed, RefusalReason},
        store::{DocumentStatus, Snapshot},
    },
    settings::{Settings, Tool},
};
use countersign_domain::{AgentId, Command, UnixMillis, quoting};
use countersign_ledger::PolicyStamp;
use countersign_policy::{
    allowlist::DenyHit,
    combine::{self, DocumentPolicy, Effective, PolicyLayers, Wishes},
    pattern::command_digest,
};

use crate::{accepted_policy::PolicyInEffect, mute::Mute, node::OnNode, reply::MachineFault};

/// The policy of one moment: the accepted policy, and while a change is pending the files as they are, too.
#[derive(Debug)]
pub(crate) struct PolicyNow {
    pub(crate) counted: PolicyView,
    pub(crate) edited: Option<PolicyView>,
    stamp: PolicyStamp,
    /// The node that it is the policy of.
    pub(crate) node: Option<Arc<OnNode>>,
}

/// Settings and a document that are judged by together.
#[derive(Debug)]
pub(crate) struct PolicyView {
    pub(crate) settings: Arc<Settings>,
    /// The approvals document of the machine that executes.
    pub(crate) document: Arc<Snapshot>,
    /// That of this machine, where another one executes: only its deny rules count then.
    pub(crate) local: Option<Arc<Snapshot>>,
}

impl PolicyNow {
    /// The policy that is in effect.
    pub(crate) fn of(in_effect: &PolicyInEffect) -> Self {
        let view = |settings: &Arc<Settings>, document: &Arc<Snapshot>| PolicyView {
            settings: Arc::clone(settings),
            document: Arc::clone(document),
            local: None,
        };
        let edited = in_effect.edited.as_ref();
        Self {
            counted: view(&in_effect.settings, &in_effect.document),
            edited: edited.map(|(settings, document)| view(settings, document)),
            stamp: in_effect.stamp(),
            node: None,
        }
    }

    pub(crate) fn stamp(&self) -> PolicyStamp {
        self.stamp.clone()
    }

    /// Whether this machine's document could be read, so that what is not permitted is known not to be.
    pub(crate) fn expect_readable(&self) -> Result<(), MachineFault> {
        if self.counted.is_unreadable() || self.edited.as_ref().is_some_and(PolicyView::is_unreadable) {
            return Err(MachineFault::Document);
        }
        Ok(())
    }

    /// The settings that count for everything but permission.
    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.counted.settings
    }

    /// Everything that has to let a command through.
    pub(crate) fn views(&self) -> impl Iterator<Item = &PolicyView> {
        std::iter::once(&self.counted).chain(&self.edited)
    }

    /// The same for calls on a node, whose own document takes the place of this machine's.
    pub(crate) fn on_node(mut self, node: Arc<OnNode>) -> Self {
        for view in std::iter::once(&mut self.counted).chain(&mut self.edited) {
            let before = std::mem::replace(&mut view.document, node.document());
            // Seen for the second time, it has one already.
            view.local.get_or_insert(before);
        }
        self.node = Some(node);
        self
    }

    /// The same for calls on a node that is not known.
    pub(crate) fn without_document(mut self) -> Self {
        for view in std::iter::once(&mut self.counted).chain(&mut self.edited) {
            let silent = Arc::new(Snapshot::of_accepted(None, String::new()));
            view.local = Some(std::mem::replace(&mut view.document, silent));
        }
        self
    }

    /// Combines every layer for an agent; while an edit is held each value is the stricter one.
    pub(crate) fn effective(&self, agent: &AgentId, wishes: impl Into<Wishes>) -> Effective {
        let wishes = wishes.into();
        let counted = self.counted.effective(agent, wishes);
        match &self.edited {
            None => counted,
            Some(edited) => counted.strictest(edited.effective(agent, wishes)),
        }
    }

    /// What mutes an agent at this time: of several rules the one that lasts longest.
    pub(crate) fn mute(&self, agent: &AgentId, now: UnixMillis) -> Option<Mute> {
        let muting = self.views().filter_map(|view| view.mute(agent, now));
        let mute = muting.max_by_key(|mute| mute.until)?;
        let is_held = self
            .edited
            .as_ref()
            .is_some_and(|edited| !edited.is_muted_by(agent, &mute.owner, now));
        Some(Mute { is_held, ..mute })
    }

    /// What mutes agents at this time, by whose rule it is (`*` for all agents): of several rules the one that lasts longest.
    pub(crate) fn mutes(&self, now: UnixMillis) -> Vec<Mute> {
        let mut longest: BTreeMap<String, Mute> = BTreeMap::new();
        for mute in self.views().flat_map(|view| view.mutes(now)) {
            match longest.get(&mute.owner) {
                Some(known) if known.until >= mute.until => {}
                Some(_) | None => drop(longest.insert(mute.owner.clone(), mute)),
            }
        }
        if let Some(edited) = &self.edited {
            let there: BTreeSet<String> = edited.mutes(now).map(|mute| mute.owner).collect();
            for (owner, mute) in &mut longest {
                mute.is_held = !there.contains(owner);
            }
        }
        longest.into_values().collect()
    }

    /// Whether an agent may not use the tool that a command is for.
    pub(crate) fn is_tool_denied(&self, agent: &AgentId, command: &Command) -> bool {
        self.views().any(|view| view.is_tool_denied(agent, command))
    }
}

impl PolicyView {
    /// Combines every layer for an agent.
    pub(crate) fn effective(&self, agent: &AgentId, wishes: impl Into<Wishes>) -> Effective {
        let Wishes {
            session,
            elevated,
            call,
        } = wishes.into();
        let policy = &self.settings.policy;
        // Deny rules that cannot be read forbid everything, also elsewhere.
        let is_unreadable = |local: &Arc<Snapshot>| local.document().is_none();
        let document = if self.local.as_ref().is_some_and(is_unreadable) {
            DocumentPolicy::refused()
        } else {
            self.document.policy(agent.as_str())
        };
        combine::combine(PolicyLayers {
            security: &policy.security(agent),
            ask: &policy.ask(agent),
            session,
            elevated,
            call,
            document: &document,
        })
    }

    /// The deny rules about programs that count for an agent, in matching order.
    pub(crate) fn deny_rules(&self, agent: &AgentId) -> Vec<Listed<'_, DenyRule>> {
        let mut rules = self.all_deny_rules(agent);
        rules.retain(|rule| !rule.item.is_of_text() && !rule.item.is_of_questions());
        rules
    }

    /// Whether any deny rule counts for an agent, about programs or about texts.
    pub(crate) fn has_deny_rules(&self, agent: &AgentId) -> bool {
        let rules = self.all_deny_rules(agent);
        rules.iter().any(|rule| !rule.item.is_of_questions())
    }

    /// The rule that mutes an agent for longest at this time.
    fn mute(&self, agent: &AgentId, now: UnixMillis) -> Option<Mute> {
        let rules = self.all_deny_rules(agent);
        let muting = rules.iter().filter(|rule| rule.item.denies_questions(now));
        let longest = muting.max_by_key(|rule| rule.item.end())?;
        Some(Mute::of(longest.owner, longest.id, longest.item))
    }

    /// Whether a rule of this owner mutes an agent at this time.
    fn is_muted_by(&self, agent: &AgentId, owner: &str, now: UnixMillis) -> bool {
        let rules = self.all_deny_rules(agent);
        rules
            .iter()
            .any(|rule| rule.owner == owner && rule.item.denies_questions(now))
    }

    /// The rules that mute at this time, with whose they are.
    fn mutes(&self, now: UnixMillis) -> impl Iterator<Item = Mute> {
        let agents = self
            .document
            .document()
            .into_iter()
            .flat_map(|document| document.agents.iter().flatten());
        agents.flat_map(move |(owner, agent)| {
            let rules = agent.denylist.iter().flatten();
            rules
                .filter(move |rule| rule.item.denies_questions(now))
                .map(move |rule| Mute::of(owner, &rule.id, &rule.item))
        })
    }

    /// The deny rule about exactly this command, which a person left.
    pub(crate) fn denied_text(
        &self,
        agent: &AgentId,
        command: &Command,
        now: UnixMillis,
    ) -> Option<Listed<'_, DenyRule>> {
        let mut rules = self.all_deny_rules(agent);
        rules.retain(|rule| rule.item.is_of_text());
        if rules.is_empty() {
            return None;
        }
        let digest = denied_digest(command)?;
        rules.into_iter().find(|rule| rule.item.denies_text(&digest, now))
    }

    fn all_deny_rules(&self, agent: &AgentId) -> Vec<Listed<'_, DenyRule>> {
        let documents = std::iter::once(&self.document).chain(&self.local);
        documents
            .flat_map(|document| document.deny_rules(agent.as_str()))
            .collect()
    }

    /// Whether reading this machine's document failed, which says nothing about a command.
    fn is_unreadable(&self) -> bool {
        let document = self.local.as_ref().unwrap_or(&self.document);
        matches!(&document.status, DocumentStatus::Refused(refusal) if refusal.reason == RefusalReason::Io)
    }

    /// Whether a deny rule that matched is one of the machine that executes.
    pub(crate) fn has_in_document(&self, agent: &AgentId, hit: &DenyHit) -> bool {
        let rules = self.document.deny_rules(agent.as_str());
        rules.iter().any(|rule| {
            rule.owner == hit.owner && rule.id.as_str() == hit.id && rule.item.pattern == hit.pattern
        })
    }

    /// Why a document that counts cannot be used, in words.
    pub(crate) fn refusal(&self) -> Option<String> {
        let refusal = |document: &Arc<Snapshot>| match &document.status {
            DocumentStatus::Refused(refusal) => Some(refusal.to_string()),
            DocumentStatus::Missing | DocumentStatus::Ok => None,
        };
        match &self.local {
            None => refusal(&self.document),
            Some(local) => refusal(local).or_else(|| {
                refusal(&self.document).map(|why| format!("of the node's own approvals document: {why}"))
            }),
        }
    }

    pub(crate) fn is_tool_denied(&self, agent: &AgentId, command: &Command) -> bool {
        let policy = &self.settings.policy;
        let tool = match command {
            Command::Shell(_) | Command::Argv(_) => Tool::Exec,
            Command::Patch(_) if !policy.exec(agent).apply_patch.enabled => return true,
            Command::Patch(_) => Tool::ApplyPatch,
        };
        policy.tool_policy(agent).denied_by(tool).is_some()
    }
}

/// The digest by which a deny rule names a command: that of its text, or of its arguments as a shell would need them. A
/// patch has none.
pub(crate) fn denied_digest(command: &Command) -> Option<String> {
    match command {
        Command::Shell(text) => Some(command_digest(text)),
        Command::Argv(_) => Some(command_digest(&quoting::line(command))),
        Command::Patch(_) => None,
    }
}
