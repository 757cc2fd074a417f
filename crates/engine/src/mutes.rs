//! Muting agents for a while (`mute.rs`): the rule that does it stands in the approvals document, so that it outlives the
//! server, is recorded, and ends questions that wait as every change of the policy does. Entry point: [`Mutes`].

use std::{convert::Infallible, sync::Arc};

use countersign_config::approvals::{
    document::{Document, Keyed},
    store::DocumentStore,
};
use countersign_domain::{Actor, AgentId, ApprovalStatus, Principal, UnixMillis};
use countersign_ledger::{
    ApprovalFilter, Ledger, Page,
    events::{AllowlistChange, AllowlistList},
};
use countersign_sys::clock::{Clock, Ids};

pub use crate::mute::{Mute, MutedAgent};
use crate::{
    allowlist::{AllowlistError, EntryLists},
    base::Base,
    document::readable,
    mute,
    reply::StorageTrouble,
};

/// Questions of an agent that are looked at together.
const QUESTIONS_AT_ONCE: u32 = 500;

/// Why an agent was not muted.
#[derive(Debug, thiserror::Error)]
pub enum MuteError {
    /// It would end before it begins, or too late.
    #[error("expected a time within the next 30 days")]
    Time,
    /// A question of the agent waits that the caller asked: answering it is for others, and so is denying all of them.
    #[error("a question of this agent waits that the same token asked")]
    OwnRequest,
    /// The document was not written.
    #[error(transparent)]
    List(#[from] AllowlistError),
    /// The ledger cannot be read.
    #[error("the ledger cannot be read")]
    Storage(#[from] StorageTrouble),
}

/// Mutes agents, says which are muted, and ends that.
#[derive(Debug)]
pub struct Mutes {
    lists: Arc<EntryLists>,
    documents: Arc<DocumentStore>,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Mutes {
    pub(crate) fn new(
        base: &Base,
        lists: Arc<EntryLists>,
        documents: Arc<DocumentStore>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self {
            lists,
            documents,
            ledger: base.ledger.clone(),
            clock: Arc::clone(&base.clock),
            ids,
        }
    }

    /// The agents that are muted now, by name, as far as the caller has authority over them.
    ///
    /// # Errors
    /// [`AllowlistError::Store`] while the document is refused.
    pub fn list(&self, caller: &Principal) -> Result<Vec<MutedAgent>, AllowlistError> {
        let now = self.clock.now();
        let snapshot = self.documents.snapshot();
        let agents = readable(&snapshot)?.agents.as_deref().unwrap_or_default();
        let is_seen = |name: &str| match AgentId::parse(name.to_owned()) {
            Ok(agent) => caller.may_act_for(&agent),
            Err(_wildcard) => caller.may_touch_what_is_of_no_agent(),
        };
        let mut muted: Vec<MutedAgent> = agents
            .iter()
            .filter(|(name, _agent)| is_seen(name))
            .filter_map(|(name, agent)| {
                let rules = agent.denylist.iter().flatten();
                let muting = rules.filter(|rule| rule.item.denies_questions(now));
                let longest = muting.max_by_key(|rule| rule.item.end())?;
                Some(MutedAgent {
                    agent: name.clone(),
                    mute: Mute::of(&longest.id, &longest.item),
                })
            })
            .collect();
        muted.sort_by(|one, other| one.agent.cmp(&other.agent));
        Ok(muted)
    }

    /// Mutes an agent until then. One that is muted for longer stays so, and that is answered. Questions of it that wait are
    /// denied.
    ///
    /// # Errors
    /// [`MuteError`]; nothing was changed then.
    pub async fn mute(
        &self,
        by: &Actor,
        agent: &AgentId,
        until: UnixMillis,
        why: Option<&str>,
    ) -> Result<Mute, MuteError> {
        let now = self.clock.now();
        if !mute::may_last_until(until, now) {
            return Err(MuteError::Time);
        }
        if self.asked_here(by, agent).await? {
            return Err(MuteError::OwnRequest);
        }
        let (id, rule, owner) = (self.ids.entry_id(), mute::rule(by, until, why), agent.to_string());
        let edit = move |document: &mut Document| {
            // There is always room for one: it takes the place of those that end earlier.
            let kept = document.add_text_rule(&owner, id.clone(), rule.clone(), now);
            let kept = kept.unwrap_or_else(|| Keyed {
                id: id.clone(),
                item: rule.clone(),
            });
            let change =
                (kept.id == id).then(|| (AllowlistChange::Added, AllowlistList::Denylist, id.clone()));
            Ok::<_, Infallible>((kept, change))
        };
        let (kept, _snapshot) = self
            .lists
            .change_list(by, agent.as_str(), edit)
            .await
            .map_err(AllowlistError::from)?;
        Ok(Mute::of(&kept.id, &kept.item))
    }

    /// Lets an agent ask again. False when it was not muted.
    ///
    /// # Errors
    /// [`AllowlistError`]; nothing was changed then.
    pub async fn unmute(&self, by: &Actor, agent: &str) -> Result<bool, AllowlistError> {
        let owner = agent.to_owned();
        let edit = move |document: &mut Document| {
            let removed = document.remove_mutes(&owner).into_iter().next();
            let change = removed.map(|id| (AllowlistChange::Removed, AllowlistList::Denylist, id));
            Ok::<_, Infallible>((change.is_some(), change))
        };
        let (removed, _snapshot) = self.lists.change_list(by, agent, edit).await?;
        Ok(removed)
    }

    /// Whether a question of the agent waits that this party asked.
    async fn asked_here(&self, by: &Actor, agent: &AgentId) -> Result<bool, StorageTrouble> {
        let mut page = Page::first(QUESTIONS_AT_ONCE);
        loop {
            let waiting = ApprovalFilter {
                status: Some(ApprovalStatus::Pending),
                agent: Some(agent.clone()),
                ..ApprovalFilter::default()
            };
            let found = self.ledger.approvals(waiting, page).await?;
            if found
                .items
                .iter()
                .any(|approval| approval.requested_by.is_same_party(by))
            {
                return Ok(true);
            }
            match found.next {
                Some(next) => page.cursor = Some(next),
                None => return Ok(false),
            }
        }
    }
}
