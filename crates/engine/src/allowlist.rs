//! Allowlist entries, grants and deny rules as an operator edits them: read from the approvals document, changed
//! under its lock, every change recorded before it takes effect.

use std::{convert::Infallible, sync::Arc};

use countersign_config::approvals::{
    document::{
        Confined, DenyRule, Document, Entry, EntryForm, Grant, Keyed, NewPattern, Number, PatternChange,
        Removed,
    },
    store::{DocumentStore, Pending, Snapshot, StoreError},
};
use countersign_domain::{Actor, EntryId, Precondition, SessionKey, UnixMillis};
use countersign_ledger::events::{AllowlistChange, AllowlistList, Event, EventKind};
use countersign_policy::pattern::{ArgumentPattern, ExecutablePattern, InertPattern, InvalidArgumentPattern};
use countersign_sys::clock::{Clock, Ids};

use crate::{
    document::{ChangeError, Telling, check_writable, readable, subject_of},
    lint::{EntryWarning, GrantUses, PolicyLint},
    policy_admin::PolicyAdmin,
    reply::StorageTrouble,
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
    /// What it matches, as written: a program path or name, or a marker such as `=command:…`.
    pub pattern: String,
    /// A regular expression over the arguments, as written; `None` for any arguments.
    pub arg_pattern: Option<String>,
    /// `allow-always` for what a decision made.
    pub source: Option<String>,
    /// Free text for people; nothing is compared with it.
    pub note: Option<String>,
    /// Whether it covers commands to which more can be written once they run.
    pub input: bool,
    /// Whether their terminals keep pagers and editors that take commands.
    pub unguarded: bool,
    /// What its program may do, as written.
    pub confine: Option<serde_json::Value>,
    /// When it last matched, in Unix milliseconds.
    pub last_used_at: Option<i64>,
    /// The command that it last matched.
    pub last_used_command: Option<String>,
    /// The path that the last match resolved to.
    pub last_resolved_path: Option<String>,
    /// All `None` for an entry of `allowlist`.
    pub limits: EntryLimits,
    /// Whether it can still match.
    pub state: EntryState,
    /// What is odd about it; before [`EntryLists::remark_on`] only why it never matches.
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
    /// The only session.
    pub session_key: Option<SessionKey>,
    /// The directory, with what lies below it.
    pub directory: Option<String>,
}

/// Whether an entry can still match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    /// It matches, and no limit is reached.
    Active,
    /// It can never match; its warning `never-matches` says why. That goes before any limit.
    Inert,
    /// Its time is over.
    Expired,
    /// It was used as often as it may.
    UsedUp,
}

/// A deny rule that was written, with what is odd about it.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenRule {
    /// The rule as the document now has it, with its id; the old one where it was there already.
    pub rule: Keyed<DenyRule>,
    /// What is odd about it.
    pub warnings: Vec<EntryWarning>,
}

/// A pattern that an operator may not add, since it would never match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    /// The pattern has a form that no executable's path or name can match.
    #[error(transparent)]
    Executable(#[from] InertPattern),
    /// The argument pattern is no regular expression that the server can use.
    #[error(transparent)]
    Arguments(#[from] InvalidArgumentPattern),
}

/// Why entries were not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AllowlistError {
    /// The pattern would never match.
    #[error("the pattern cannot be used")]
    Pattern(#[source] InvalidPattern),
    /// The document was not written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be recorded, so it was not made.
    #[error("the change cannot be recorded")]
    Storage(#[from] StorageTrouble),
}

/// The allowlist and the denylist of each agent.
#[derive(Debug)]
pub struct EntryLists {
    admin: Arc<PolicyAdmin>,
    documents: Arc<DocumentStore>,
    lint: Arc<PolicyLint>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl EntryLists {
    /// Joins them: what changes the document, the document, what looks at rules, time and ids.
    pub(crate) fn new(
        admin: Arc<PolicyAdmin>,
        documents: Arc<DocumentStore>,
        lint: Arc<PolicyLint>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self {
            admin,
            documents,
            lint,
            clock,
            ids,
        }
    }

    /// The agent's own entries, then its grants, as written; for `*` those of the wildcard.
    ///
    /// # Errors
    /// [`AllowlistError::Store`] while the document is refused.
    #[crate::compiled_once]
    pub async fn allowlist(&self, agent: &str) -> Result<Vec<AllowlistEntry>, AllowlistError> {
        let snapshot = self.documents.snapshot();
        let document = readable(&snapshot)?;
        let uses = self.lint.grant_uses_of(agent).await?;
        Ok(entries(document, agent, self.clock.now(), &uses))
    }

    /// One entry or grant of an agent; `None` when there is none.
    ///
    /// # Errors
    /// [`AllowlistError::Store`] while the document is refused.
    #[crate::compiled_once]
    pub async fn allowlist_entry(
        &self,
        agent: &str,
        id: &EntryId,
    ) -> Result<Option<AllowlistEntry>, AllowlistError> {
        let snapshot = self.documents.snapshot();
        readable(&snapshot)?;
        self.entry_with_remarks(&snapshot, agent, id).await
    }

    /// One entry or grant of a document, with everything that is odd about it.
    async fn entry_with_remarks(
        &self,
        snapshot: &Arc<Snapshot>,
        agent: &str,
        id: &EntryId,
    ) -> Result<Option<AllowlistEntry>, AllowlistError> {
        let document = readable(snapshot)?;
        let uses = self.lint.grant_uses_of(agent).await?;
        let found = entries(document, agent, self.clock.now(), &uses)
            .into_iter()
            .find(|entry| entry.id == *id);
        let found = found.into_iter().collect();
        let mut remarked = self.with_remarks(snapshot, agent, found).await?;
        Ok(remarked.pop())
    }

    /// Entries and grants of an agent with everything that is odd about them; of those that are not there any more
    /// nothing is. It looks at files for each of them: hand it those that are shown, not a whole list.
    ///
    /// # Errors
    /// [`AllowlistError::Storage`] when the uses of grants cannot be read.
    #[crate::compiled_once]
    pub async fn remark_on(
        &self,
        agent: &str,
        entries: Vec<AllowlistEntry>,
    ) -> Result<Vec<AllowlistEntry>, AllowlistError> {
        let snapshot = self.documents.snapshot();
        self.with_remarks(&snapshot, agent, entries).await
    }

    async fn with_remarks(
        &self,
        snapshot: &Arc<Snapshot>,
        agent: &str,
        mut entries: Vec<AllowlistEntry>,
    ) -> Result<Vec<AllowlistEntry>, AllowlistError> {
        let rules = entries.iter().map(|entry| (entry.list, entry.id.clone()));
        let remarks = self.lint.remarks_on(snapshot, agent, rules.collect()).await?;
        let waiting = self.admin.waiting_change();
        let mut remarks = remarks.into_iter();
        for entry in &mut entries {
            let odd = remarks.next().unwrap_or_default();
            for warning in odd.into_iter().map(EntryWarning::from) {
                if entry.warnings.iter().all(|known| known.code != warning.code) {
                    entry.warnings.push(warning);
                }
            }
            entry.warnings.extend(waiting.clone());
        }
        Ok(entries)
    }

    /// Adds a pattern to an agent, as an entry or, with a limit, as a grant. Says whether it is new; the same
    /// again changes nothing.
    ///
    /// # Errors
    /// [`AllowlistError`]; nothing was changed then.
    #[crate::compiled_once]
    pub async fn add_to_allowlist(
        &self,
        by: &Actor,
        agent: &str,
        pattern: NewPattern,
    ) -> Result<(AllowlistEntry, bool), AllowlistError> {
        check_pattern(&pattern).map_err(AllowlistError::Pattern)?;
        let id = self.ids.entry_id();
        let now = self.clock.now();
        let owner = agent.to_owned();
        let edit = move |document: &mut Document| {
            let added = document.add_pattern(&owner, id.clone(), pattern.clone(), now);
            let list = list_of(document, &owner, &added.id);
            let change = added
                .created
                .then(|| (AllowlistChange::Added, list, added.id.clone()));
            Ok::<_, Infallible>((added, change))
        };
        let (added, snapshot) = self.change_list(by, agent, edit).await?;
        let entry = self.entry_with_remarks(&snapshot, agent, &added.id).await?;
        Ok((entry.ok_or_else(|| gone(&snapshot))?, added.created))
    }

    /// Removes an entry or grant of an agent. False when there is none.
    ///
    /// # Errors
    /// [`AllowlistError`]; nothing was changed then.
    #[crate::compiled_once]
    pub async fn remove_from_allowlist(
        &self,
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
            Ok::<_, Infallible>((removed.is_some(), change))
        };
        let (removed, _snapshot) = self.change_list(by, agent, edit).await?;
        Ok(removed)
    }

    /// Changes an entry or grant of an agent; `None` when there is none. With its first limit an entry becomes a
    /// grant, without its last one a grant becomes an entry: nothing that is limited ever stands where other readers
    /// would take it for unlimited, and nothing else stands among the grants.
    ///
    /// # Errors
    /// [`AllowlistError`]; nothing was changed then.
    #[crate::compiled_once]
    pub async fn change_allowlist_entry(
        &self,
        by: &Actor,
        agent: &str,
        id: &EntryId,
        change: PatternChange,
    ) -> Result<Option<AllowlistEntry>, AllowlistError> {
        let (owner, wanted) = (agent.to_owned(), id.clone());
        let edit = move |document: &mut Document| {
            if document.change_pattern(&owner, &wanted, change.clone()).is_none() {
                return Ok((false, None));
            }
            let list = list_of(document, &owner, &wanted);
            if matching_changes(&change) {
                let changed = entries(document, &owner, UnixMillis::new(0), &GrantUses::new());
                let changed = changed.into_iter().find(|entry| entry.id == wanted);
                check_changed(changed.as_ref())?;
            }
            Ok((true, Some((AllowlistChange::Changed, list, wanted.clone()))))
        };
        let changed = self.change_list(by, agent, edit).await;
        let (found, snapshot) = changed.map_err(|error| match error {
            ChangeError::Edit(invalid) => AllowlistError::Pattern(invalid),
            ChangeError::Store(error) => error.into(),
            ChangeError::Storage(trouble) => trouble.into(),
        })?;
        if !found {
            return Ok(None);
        }
        self.entry_with_remarks(&snapshot, agent, id).await
    }

    /// The agent's own deny rules as written; for `*` those of the wildcard.
    ///
    /// # Errors
    /// [`AllowlistError::Store`] while the document is refused.
    pub fn denylist(&self, agent: &str) -> Result<Vec<Keyed<DenyRule>>, AllowlistError> {
        let snapshot = self.documents.snapshot();
        Ok(deny_rules(readable(&snapshot)?, agent))
    }

    /// Adds a deny rule to an agent. Says whether it is new; the same pattern and argument pattern again change
    /// nothing.
    ///
    /// # Errors
    /// [`AllowlistError`]; nothing was changed then.
    #[crate::compiled_once]
    pub async fn add_to_denylist(
        &self,
        by: &Actor,
        agent: &str,
        rule: DenyRule,
    ) -> Result<(WrittenRule, bool), AllowlistError> {
        let pattern = NewPattern {
            pattern: rule.pattern.clone(),
            arg_pattern: rule.arg_pattern.clone(),
            ..NewPattern::default()
        };
        check_pattern(&pattern).map_err(AllowlistError::Pattern)?;
        let id = self.ids.entry_id();
        let owner = agent.to_owned();
        let edit = move |document: &mut Document| {
            let added = document.add_deny_rule(&owner, id.clone(), rule.clone());
            let change = added
                .created
                .then(|| (AllowlistChange::Added, AllowlistList::Denylist, added.id.clone()));
            Ok::<_, Infallible>((added, change))
        };
        let (added, snapshot) = self.change_list(by, agent, edit).await?;
        let rule = deny_rules(readable(&snapshot)?, agent)
            .into_iter()
            .find(|rule| rule.id == added.id);
        let rule = rule.ok_or_else(|| gone(&snapshot))?;
        let rules = vec![(AllowlistList::Denylist, rule.id.clone())];
        let remarks = self.lint.remarks_on(&snapshot, agent, rules).await?;
        let warnings = remarks.into_iter().flatten().map(EntryWarning::from).collect();
        Ok((WrittenRule { rule, warnings }, added.created))
    }

    /// Removes a deny rule of an agent. False when there is none.
    ///
    /// # Errors
    /// [`AllowlistError`]; nothing was changed then.
    #[crate::compiled_once]
    pub async fn remove_from_denylist(
        &self,
        by: &Actor,
        agent: &str,
        id: &EntryId,
    ) -> Result<bool, AllowlistError> {
        let (owner, id) = (agent.to_owned(), id.clone());
        let edit = move |document: &mut Document| {
            let removed = document.remove_deny_rule(&owner, &id).is_some();
            let change = removed.then(|| (AllowlistChange::Removed, AllowlistList::Denylist, id.clone()));
            Ok::<_, Infallible>((removed, change))
        };
        let (removed, _snapshot) = self.change_list(by, agent, edit).await?;
        Ok(removed)
    }

    /// Makes one change of a list. `edit` also says what it changed, if anything.
    async fn change_list<T: Send + 'static, E: Send + 'static>(
        &self,
        by: &Actor,
        agent: &str,
        edit: impl FnMut(&mut Document) -> Result<(T, Option<ListItemChange>), E> + Send + 'static,
    ) -> Result<(T, Arc<Snapshot>), ChangeError<E>> {
        self.change_list_of(by, agent, false, edit).await
    }

    /// Makes one change of the deny rules that mute an agent.
    pub(crate) async fn change_mutes<T: Send + 'static, E: Send + 'static>(
        &self,
        by: &Actor,
        agent: &str,
        edit: impl FnMut(&mut Document) -> Result<(T, Option<ListItemChange>), E> + Send + 'static,
    ) -> Result<(T, Arc<Snapshot>), ChangeError<E>> {
        self.change_list_of(by, agent, true, edit).await
    }

    async fn change_list_of<T: Send + 'static, E: Send + 'static>(
        &self,
        by: &Actor,
        agent: &str,
        mutes: bool,
        edit: impl FnMut(&mut Document) -> Result<(T, Option<ListItemChange>), E> + Send + 'static,
    ) -> Result<(T, Arc<Snapshot>), ChangeError<E>> {
        check_writable(agent).map_err(ChangeError::Store)?;
        let subject = subject_of(agent);
        let whom = by.clone();
        let tell = move |(_value, change): &(T, Option<ListItemChange>), _pending: &Pending<'_>| {
            let (change, list, entry_id) = change.clone()?;
            let kind = EventKind::AllowlistChanged {
                change,
                list,
                entry_id,
                by: Some(whom.clone()),
                mutes,
            };
            let subject = subject.clone();
            Some(Telling::of(Event { subject, kind }))
        };
        let changed = self
            .admin
            .change_document(by, Precondition::Any, edit, tell)
            .await?;
        let ((value, _change), snapshot) = changed;
        Ok((value, snapshot))
    }
}

/// What became of which item of which list.
pub(crate) type ListItemChange = (AllowlistChange, AllowlistList, EntryId);

impl From<ChangeError<Infallible>> for AllowlistError {
    fn from(error: ChangeError<Infallible>) -> Self {
        match error {
            ChangeError::Edit(never) => match never {},
            ChangeError::Store(error) => error.into(),
            ChangeError::Storage(trouble) => trouble.into(),
        }
    }
}

/// Another writer took away again what was just added; then there is nothing to show.
fn gone(snapshot: &Snapshot) -> StoreError {
    StoreError::BaseHashMismatch {
        current: snapshot.hash.clone(),
    }
}

/// Whether a change touches what an item matches, or whether it is a grant.
fn matching_changes(change: &PatternChange) -> bool {
    let PatternChange {
        pattern,
        arg_pattern,
        note: _,
        input: _,
        unguarded: _,
        confine: _,
        expires_at,
        max_uses,
        sha256,
        session_key,
        directory,
    } = change;
    pattern.is_some()
        || arg_pattern.is_some()
        || expires_at.is_some()
        || max_uses.is_some()
        || sha256.is_some()
        || session_key.is_some()
        || directory.is_some()
}

/// What a person changed must be able to match. What a decision made and nobody changed is as it was.
fn check_changed(entry: Option<&AllowlistEntry>) -> Result<(), InvalidPattern> {
    match entry {
        Some(entry) if entry.source.is_none() => check_pattern(&NewPattern {
            pattern: entry.pattern.clone(),
            arg_pattern: entry.arg_pattern.clone(),
            ..NewPattern::default()
        }),
        Some(_) | None => Ok(()),
    }
}

fn deny_rules(document: &Document, agent: &str) -> Vec<Keyed<DenyRule>> {
    let agent = document.agent(agent);
    agent.and_then(|agent| agent.denylist.clone()).unwrap_or_default()
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

fn entries(document: &Document, agent: &str, now: UnixMillis, uses: &GrantUses) -> Vec<AllowlistEntry> {
    let agent = if agent.is_empty() { WILDCARD } else { agent };
    let owner = agent;
    let Some(agent) = document.agent(owner) else {
        return Vec::new();
    };
    let entries = agent.allowlist.iter().flatten().map(entry_of);
    let counted = |id: &EntryId| uses.get(&(owner.to_owned(), id.clone())).copied();
    let grants = agent
        .grants
        .iter()
        .flatten()
        .map(|grant| grant_of(grant, now, counted(&grant.id)));
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
        input: item.input.unwrap_or_default(),
        unguarded: item.unguarded.unwrap_or_default(),
        confine: item.confine.as_ref().map(Confined::to_value),
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

/// `counted` are the uses that the ledger knows of.
fn grant_of(Keyed { id, item }: &Keyed<Grant>, now: UnixMillis, counted: Option<u64>) -> AllowlistEntry {
    let inert = never_matches(&item.pattern, item.arg_pattern.as_deref());
    let limits = EntryLimits {
        expires_at: item.expires_at_ms.as_ref().map(Number::floor),
        max_uses: item.max_uses,
        uses: counted.or_else(|| item.uses.as_ref().and_then(Number::as_count)),
        sha256: item.sha256.clone(),
        session_key: item.session_key.clone(),
        directory: item.directory.clone(),
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
        input: item.input.unwrap_or_default(),
        unguarded: item.unguarded.unwrap_or_default(),
        confine: item.confine.as_ref().map(Confined::to_value),
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
