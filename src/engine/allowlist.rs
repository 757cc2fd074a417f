//! Allowlist entries and grants as an operator edits them: read from the approvals document, changed under
//! its lock, every change recorded before it takes effect.

use std::sync::Arc;

use crate::{
    approvals::{
        document::{Document, Entry, EntryForm, Grant, Keyed, NewPattern, Number, Refusal, Removed},
        store::{Base, DocumentStatus, Snapshot, StoreError, UpdateError},
    },
    domain::{Actor, AgentId, EntryId, UnixMillis},
    engine::{Engine, reply::StorageTrouble},
    events::{AllowlistChange, AllowlistList, Event, EventKind, Subject},
    policy::pattern::{ArgumentPattern, ExecutablePattern, InertPattern, InvalidArgumentPattern},
};

/// The wildcard agent of the approvals document.
const WILDCARD: &str = "*";

/// An entry or grant as an operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowlistEntry {
    /// The id it is edited by.
    pub id: EntryId,
    /// Which list it stands in: `allowlist` or `grants`.
    pub list: AllowlistList,
    /// As written.
    pub pattern: String,
    /// As written.
    pub arg_pattern: Option<String>,
    /// `allow-always` for what a decision made.
    pub source: Option<String>,
    /// Text for people.
    pub note: Option<String>,
    /// When it last matched, in Unix milliseconds.
    pub last_used_at: Option<i64>,
    /// The command that it last matched.
    pub last_used_command: Option<String>,
    /// The path that the last match resolved to.
    pub last_resolved_path: Option<String>,
    /// What limits it.
    pub limits: EntryLimits,
    /// Whether it can still match.
    pub state: EntryState,
    /// Why it never matches.
    pub warnings: Vec<EntryWarning>,
}

/// What limits a grant; nothing for an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryLimits {
    /// Expired at this instant, in Unix milliseconds.
    pub expires_at: Option<i64>,
    /// How often it may be used.
    pub max_uses: Option<u64>,
    /// How often it was.
    pub uses: Option<u64>,
    /// Content of the executable.
    pub sha256: Option<String>,
}

/// Whether an entry can still match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    /// Yes.
    Active,
    /// It never could.
    Inert,
    /// Its time is over.
    Expired,
    /// It was used as often as it may.
    UsedUp,
}

/// Something that is odd about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryWarning {
    /// Stable kebab-case code.
    pub code: &'static str,
    /// In words.
    pub message: String,
}

/// A pattern that an operator may not add, since it would never match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    /// The pattern itself.
    #[error(transparent)]
    Executable(#[from] InertPattern),
    /// The argument pattern.
    #[error(transparent)]
    Arguments(#[from] InvalidArgumentPattern),
}

/// Why entries were not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AllowlistError {
    /// The document is refused and stays as it is.
    #[error("the approvals document is refused")]
    Refused {
        /// Why.
        #[source]
        refusal: Refusal,
        /// Its hash.
        hash: String,
    },
    /// The pattern would never match.
    #[error("the pattern cannot be used")]
    Pattern(#[source] InvalidPattern),
    /// The document was not written.
    #[error(transparent)]
    Store(StoreError),
    /// The change could not be recorded, so it was not made.
    #[error("the change cannot be recorded")]
    Storage(#[from] StorageTrouble),
}

impl Engine {
    /// The agent's own entries, then its grants, as written; for `*` those of the wildcard.
    ///
    /// # Errors
    /// [`AllowlistError::Refused`] while the document is.
    pub fn allowlist(&self, agent: &str) -> Result<Vec<AllowlistEntry>, AllowlistError> {
        let snapshot = self.documents().snapshot();
        let document = readable(&snapshot)?;
        Ok(entries(document, agent, self.clock().now()))
    }

    /// One entry or grant of an agent; `None` when there is none.
    ///
    /// # Errors
    /// [`AllowlistError::Refused`] while the document is.
    pub fn allowlist_entry(
        &self,
        agent: &str,
        id: &EntryId,
    ) -> Result<Option<AllowlistEntry>, AllowlistError> {
        Ok(self.allowlist(agent)?.into_iter().find(|entry| entry.id == *id))
    }

    /// Adds a pattern to an agent, as an entry or, with a limit, as a grant. Says whether it is new; the same
    /// again changes nothing.
    ///
    /// # Errors
    /// [`AllowlistError`]; nothing was changed then.
    pub async fn add_to_allowlist(
        self: &Arc<Self>,
        by: &Actor,
        agent: &str,
        pattern: NewPattern,
    ) -> Result<(AllowlistEntry, bool), AllowlistError> {
        check_pattern(&pattern).map_err(AllowlistError::Pattern)?;
        let id = self.ids().entry_id();
        let now = self.clock().now();
        let owner = agent.to_owned();
        let edit = move |document: &mut Document| {
            let added = document.add_pattern(&owner, id.clone(), pattern.clone(), now);
            let list = list_of(document, &owner, &added.id);
            let change = added
                .created
                .then(|| (AllowlistChange::Added, list, added.id.clone()));
            (added, change)
        };
        let (added, snapshot) = self.change_allowlist(by, agent, edit).await?;
        let entry = entries(readable(&snapshot)?, agent, now)
            .into_iter()
            .find(|entry| entry.id == added.id);
        // Another writer may have taken it away again since; then there is nothing to show.
        let gone = || {
            AllowlistError::Store(StoreError::BaseHashMismatch {
                current: snapshot.hash.clone(),
            })
        };
        Ok((entry.ok_or_else(gone)?, added.created))
    }

    /// Removes an entry or grant of an agent. False when there is none.
    ///
    /// # Errors
    /// [`AllowlistError`]; nothing was changed then.
    pub async fn remove_from_allowlist(
        self: &Arc<Self>,
        by: &Actor,
        agent: &str,
        id: &EntryId,
    ) -> Result<bool, AllowlistError> {
        let (owner, id) = (agent.to_owned(), id.clone());
        let edit = move |document: &mut Document| {
            let removed = document.remove_pattern(&owner, &id);
            let change = removed.as_ref().map(|removed| {
                let list = match removed {
                    Removed::Entry(_) => AllowlistList::Allowlist,
                    Removed::Grant(_) => AllowlistList::Grants,
                };
                (AllowlistChange::Removed, list, id.clone())
            });
            (removed.is_some(), change)
        };
        let (removed, _snapshot) = self.change_allowlist(by, agent, edit).await?;
        Ok(removed)
    }

    /// Makes one change of the document. `edit` also says what it changed, if anything: that is recorded while
    /// the document's lock is held and before the file is replaced, so no change goes unrecorded.
    async fn change_allowlist<T: Send + 'static>(
        self: &Arc<Self>,
        by: &Actor,
        agent: &str,
        mut edit: impl FnMut(&mut Document) -> (T, Option<Change>) + Send + 'static,
    ) -> Result<(T, Arc<Snapshot>), AllowlistError> {
        let engine = Arc::clone(self);
        let by = by.clone();
        let subject = Subject {
            // The wildcard is no agent; such a change concerns all of them.
            agent: AgentId::parse(agent).ok(),
            ..Subject::default()
        };
        let runtime = tokio::runtime::Handle::current();
        let changed = tokio::task::spawn_blocking(move || {
            let mut recorded = false;
            engine.documents().update(Base::Any, |document| {
                let (value, change) = edit(document);
                // A writer that ignores the lock makes us edit again; the record is written once.
                if let Some((change, list, entry_id)) = change
                    && !recorded
                {
                    let by_whom = Some(by.clone());
                    let kind = EventKind::AllowlistChanged {
                        change,
                        list,
                        entry_id,
                        by: by_whom,
                    };
                    let event = Event {
                        subject: subject.clone(),
                        kind,
                    };
                    runtime
                        .block_on(engine.ledger().record(event, by.clone()))
                        .map_err(StorageTrouble::from)?;
                    recorded = true;
                }
                Ok::<_, StorageTrouble>(value)
            })
        });
        match changed.await {
            Ok(Ok(changed)) => Ok(changed),
            Ok(Err(UpdateError::Edit(trouble))) => Err(trouble.into()),
            Ok(Err(UpdateError::Store(StoreError::Refused { refusal, hash }))) => {
                Err(AllowlistError::Refused { refusal, hash })
            }
            Ok(Err(UpdateError::Store(error))) => Err(AllowlistError::Store(error)),
            // Only a panic or the end of the process gets here.
            Err(_not_finished) => Err(StorageTrouble::Unavailable.into()),
        }
    }
}

type Change = (AllowlistChange, AllowlistList, EntryId);

fn readable(snapshot: &Snapshot) -> Result<&Document, AllowlistError> {
    snapshot.document().ok_or_else(|| match &snapshot.status {
        DocumentStatus::Refused(refusal) => AllowlistError::Refused {
            refusal: refusal.clone(),
            hash: snapshot.hash.clone(),
        },
        // A document that is not refused can be read.
        DocumentStatus::Missing | DocumentStatus::Ok => StorageTrouble::Unavailable.into(),
    })
}

fn check_pattern(new: &NewPattern) -> Result<(), InvalidPattern> {
    // The home directory does not matter here: whether a pattern can match is seen from its form.
    ExecutablePattern::parse(&new.pattern, "/")?;
    if let Some(arguments) = &new.arg_pattern {
        ArgumentPattern::parse(arguments)?;
    }
    Ok(())
}

fn list_of(document: &Document, agent: &str, id: &EntryId) -> AllowlistList {
    let grants = document.agent(agent).and_then(|agent| agent.grants.as_ref());
    if grants.is_some_and(|grants| grants.iter().any(|grant| grant.id == *id)) {
        AllowlistList::Grants
    } else {
        AllowlistList::Allowlist
    }
}

fn entries(document: &Document, agent: &str, now: UnixMillis) -> Vec<AllowlistEntry> {
    let agent = if agent.is_empty() { WILDCARD } else { agent };
    let Some(agent) = document.agent(agent) else {
        return Vec::new();
    };
    let entries = agent.allowlist.iter().flatten().map(entry_of);
    let grants = agent.grants.iter().flatten().map(|grant| grant_of(grant, now));
    entries.chain(grants).collect()
}

fn entry_of(Keyed { id, item }: &Keyed<Entry>) -> AllowlistEntry {
    let inert = match item.form() {
        EntryForm::Inert(inert) => Some(inert.to_string()),
        EntryForm::NodeMarker => Some("allows nothing by itself".to_owned()),
        EntryForm::ExactText { .. } => None,
        EntryForm::Bound { .. } => never_matches(&item.pattern, None),
        EntryForm::ByHand { arguments } => never_matches(&item.pattern, arguments),
    };
    AllowlistEntry {
        id: id.clone(),
        list: AllowlistList::Allowlist,
        pattern: item.pattern.clone(),
        arg_pattern: item.arg_pattern.clone(),
        source: item.source.clone(),
        note: item.note.clone(),
        last_used_at: item.last_used_at.as_ref().map(Number::floor),
        last_used_command: item.last_used_command.clone(),
        last_resolved_path: item.last_resolved_path.clone(),
        limits: EntryLimits::default(),
        state: if inert.is_some() {
            EntryState::Inert
        } else {
            EntryState::Active
        },
        warnings: warnings(inert),
    }
}

fn grant_of(Keyed { id, item }: &Keyed<Grant>, now: UnixMillis) -> AllowlistEntry {
    let inert = never_matches(&item.pattern, item.arg_pattern.as_deref());
    let limits = EntryLimits {
        expires_at: item.expires_at_ms.as_ref().map(Number::floor),
        max_uses: item.max_uses,
        uses: item.uses.as_ref().and_then(Number::as_count),
        sha256: item.sha256.clone(),
    };
    let state = if inert.is_some() {
        EntryState::Inert
    } else if limits.expires_at.is_some_and(|end| now.get() >= end) {
        EntryState::Expired
    } else if limits
        .max_uses
        .is_some_and(|most| limits.uses.unwrap_or(0) >= most)
    {
        EntryState::UsedUp
    } else {
        EntryState::Active
    };
    AllowlistEntry {
        id: id.clone(),
        list: AllowlistList::Grants,
        pattern: item.pattern.clone(),
        arg_pattern: item.arg_pattern.clone(),
        source: None,
        note: item.note.clone(),
        last_used_at: None,
        last_used_command: None,
        last_resolved_path: None,
        limits,
        state,
        warnings: warnings(inert),
    }
}

fn never_matches(pattern: &str, arguments: Option<&str>) -> Option<String> {
    let new = NewPattern {
        pattern: pattern.to_owned(),
        arg_pattern: arguments.map(str::to_owned),
        ..NewPattern::default()
    };
    check_pattern(&new).err().map(|invalid| invalid.to_string())
}

fn warnings(inert: Option<String>) -> Vec<EntryWarning> {
    let warning = |message| EntryWarning {
        code: "never-matches",
        message,
    };
    inert.map(warning).into_iter().collect()
}
