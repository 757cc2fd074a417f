//! Muting agents for a while (`mute.rs`): the rule that does it stands in the approvals document, so that it outlives the
//! server, is recorded, and ends questions that wait as every change of the policy does. Entry point: [`Mutes`].

use std::{convert::Infallible, sync::Arc};

use countersign_config::approvals::document::{Document, Keyed};
use countersign_domain::{Actor, AgentId, ApprovalStatus, Principal, UnixMillis};
use countersign_ledger::{
    ApprovalFilter, Ledger, Page,
    events::{AllowlistChange, AllowlistList, Event, EventKind},
};
use countersign_sys::clock::{Clock, Ids};

pub use crate::mute::{Mute, MutedAgent};
use crate::{
    allowlist::{AllowlistError, EntryLists},
    base::Base,
    document::{readable, subject_of},
    evaluator::policy_now::PolicyNow,
    mute,
    records::Records,
    reply::StorageTrouble,
    watch::{PolicySource, tell},
};

/// Questions of an agent that are looked at together.
const QUESTIONS_AT_ONCE: u32 = 500;

/// Why an agent was not muted.
#[derive(Debug, thiserror::Error)]
pub enum MuteError {
    /// It would end before it begins, or too late.
    #[error("expected a time within the next 30 days")]
    Time,
    /// Neither a file nor the record knows the agent: each that is muted takes room in the approvals document.
    #[error("the agent is not known")]
    UnknownAgent,
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
    policy: Arc<PolicySource>,
    records: Arc<Records>,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Mutes {
    pub(crate) fn new(base: &Base, lists: Arc<EntryLists>, ids: Arc<dyn Ids>) -> Self {
        Self {
            lists,
            policy: Arc::clone(&base.policy),
            records: Arc::clone(&base.records),
            ledger: base.ledger.clone(),
            clock: Arc::clone(&base.clock),
            ids,
        }
    }

    /// The agents that are muted now, by name, as far as the caller has authority over them. A mute that the document has no
    /// more is among them while that waits to be accepted.
    ///
    /// # Errors
    /// [`AllowlistError::Store`] while the document is refused.
    pub fn list(&self, caller: &Principal) -> Result<Vec<MutedAgent>, AllowlistError> {
        let in_effect = self.policy.refresh();
        readable(&in_effect.on_disk)?;
        let is_seen = |name: &str| match AgentId::parse(name.to_owned()) {
            Ok(agent) => caller.may_act_for(&agent),
            Err(_wildcard) => caller.may_touch_what_is_of_no_agent(),
        };
        let mutes = PolicyNow::of(&in_effect).mutes(self.clock.now());
        let seen = mutes.into_iter().filter(|mute| is_seen(&mute.owner));
        let muted = seen.map(|mute| MutedAgent {
            agent: mute.owner.clone(),
            mute,
        });
        Ok(muted.collect())
    }

    /// What a rule of this owner mutes now.
    fn in_effect(&self, owner: &str) -> Option<Mute> {
        let mutes = self.policy.now().mutes(self.clock.now());
        mutes.into_iter().find(|mute| mute.owner == owner)
    }

    /// Mutes an agent until then. One that is muted for longer stays so, and that is answered. Questions of it that wait are
    /// denied.
    ///
    /// # Errors
    /// [`MuteError`]; nothing was changed then.
    #[crate::compiled_once]
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
        if !self
            .records
            .is_known_agent(agent)
            .await
            .map_err(StorageTrouble::from)?
        {
            return Err(MuteError::UnknownAgent);
        }
        if asked_here(&self.ledger, by, agent).await? {
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
            .change_mutes(by, agent.as_str(), edit)
            .await
            .map_err(AllowlistError::from)?;
        Ok(Mute::of(agent.as_str(), &kept.id, &kept.item))
    }

    /// Takes what mutes an agent (`*`: all agents) out of the document. While that waits to be accepted it stays in effect, and
    /// [`Self::list`] has it. False when it was not muted.
    ///
    /// # Errors
    /// [`AllowlistError`]; nothing was changed then.
    #[crate::compiled_once]
    pub async fn unmute(&self, by: &Actor, agent: &str) -> Result<bool, AllowlistError> {
        let before = self.in_effect(agent);
        let (owner, now) = (agent.to_owned(), self.clock.now());
        let edit = move |document: &mut Document| {
            let removed = document.remove_mutes(&owner, now).into_iter().next();
            let change = removed.map(|id| (AllowlistChange::Removed, AllowlistList::Denylist, id));
            Ok::<_, Infallible>((change.is_some(), change))
        };
        let (removed, _snapshot) = self.lists.change_mutes(by, agent, edit).await?;
        let Some(mute) = before.filter(|_| !removed) else {
            return Ok(removed);
        };
        // The file had it no more. Where one person may, what was accepted has it no more either, since just now.
        if self.in_effect(agent).is_none() {
            let kind = EventKind::AllowlistChanged {
                change: AllowlistChange::Removed,
                list: AllowlistList::Denylist,
                entry_id: mute.id,
                by: Some(by.clone()),
                mutes: true,
            };
            let subject = subject_of(agent);
            tell(&self.ledger, Event { subject, kind }, by.clone()).await;
        }
        Ok(true)
    }
}

/// Whether a question of the agent waits that this party asked.
pub(crate) async fn asked_here(ledger: &Ledger, by: &Actor, agent: &AgentId) -> Result<bool, StorageTrouble> {
    let mut page = Page::first(QUESTIONS_AT_ONCE);
    loop {
        let waiting = ApprovalFilter {
            status: Some(ApprovalStatus::Pending),
            agent: Some(agent.clone()),
            ..ApprovalFilter::default()
        };
        let found = ledger.approvals(waiting, page).await?;
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
