//! What "always" leaves in the approvals document, and the notes of which entries are used.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use countersign_config::approvals::{
    document::{Added, DenyRule, Document, Entry, Grant, Keyed, Use},
    store::{Base as Expected, DocumentStatus, DocumentStore, StoreError, UpdateError},
};
use countersign_domain::{
    Actor, AgentId, Approval, ApprovalState, Command, EntryId, GrantLimits, Host, Pattern, Persist,
    UnixMillis, deny_rule_id, entry_id, mute_rule_id, quoting,
};
use countersign_ledger::{
    Ledger, LedgerError,
    events::{AllowlistChange, AllowlistList, Event, EventKind, Subject},
};
use countersign_policy::{
    allowlist::CreditKind,
    command::redaction,
    pattern::{command_digest, command_marker, marker_of_digest},
};
use countersign_sys::{clock::Clock, hooks, process::monotonic};
use tokio::task::JoinError;

use crate::{
    accepted_policy::{AcceptedPolicy, Ours, PolicyFile},
    base::Base,
    document::{check_writable, subject_of},
    evaluator::{call::Call, judgement::Judgement, policy_now::denied_digest},
    lifecycle::Lifecycle,
    mute,
    reply::Refusal,
    warnings,
    watch::{PolicySource, tell},
};

/// How often notes of use are written; they are for people, and no run waits for them.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// Where writing them takes long, it takes one part in so many of the time.
const NOTE_SHARE: u32 = 20;
const MAX_NOTE_INTERVAL: Duration = Duration::from_mins(1);
/// How many notes wait at most; more are dropped.
const MAX_NOTES: usize = 10_000;

/// How often what "always" leaves is written while others hold the document's lock. Each try waits for seconds by itself,
/// and the allowed run waits for them all.
const LOCK_TRIES: usize = 3;

/// So much of a command is in the reason of a deny rule about it.
const MAX_NOTED_COMMAND: usize = 200;

/// Notes of used entries that wait to be written, by owner and pattern.
#[derive(Debug, Default)]
struct UseNotes(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    entries: BTreeMap<NoteKey, Note>,
    /// Grants by owner and id, whose uses the ledger knows.
    grants: BTreeSet<(String, EntryId)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NoteKey {
    owner: String,
    pattern: String,
    arg_pattern: Option<String>,
}

#[derive(Debug, Clone)]
struct Note {
    at: UnixMillis,
    command: String,
    resolved_path: Option<String>,
}

/// An entry or grant whose use was noted: whose, in which list, and which.
type Noted = (String, AllowlistList, EntryId);

/// Writes into the approvals document what answers leave there, and which entries are used.
#[derive(Debug)]
pub(crate) struct Remembered {
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    documents: Arc<DocumentStore>,
    policy: Arc<PolicySource>,
    accepted_policy: Arc<AcceptedPolicy>,
    use_notes: UseNotes,
    lifecycle: Arc<Lifecycle>,
}

impl Remembered {
    pub(crate) fn new(base: &Base, documents: Arc<DocumentStore>) -> Self {
        Self {
            ledger: base.ledger.clone(),
            clock: Arc::clone(&base.clock),
            documents,
            policy: Arc::clone(&base.policy),
            accepted_policy: Arc::clone(&base.accepted_policy),
            use_notes: UseNotes::default(),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Writes the entries of an `allow-always`, once.
    pub(crate) async fn persist_patterns(self: &Arc<Self>, approval: &Approval) {
        let ApprovalState::Allowed {
            persist: Persist::Todo,
            by,
            ..
        } = &approval.state
        else {
            return;
        };
        if approval.card.binding.host == Host::Node {
            // The node stores them in its own document when it is told of the answer.
            if let Err(error) = self.ledger.persist_done(approval.id.clone()).await {
                tracing::error!(approval.id = %approval.id, error = %error, "cannot record that a node stores the entries");
            }
            return;
        }
        hooks::reach("engine.before-persist");
        // Whose it is decides who may accept it where it takes two people.
        let whom = match self.ledger.with_owner(by).await {
            Ok(whom) => whom,
            Err(error) => {
                tracing::error!(approval.id = %approval.id, %error, "whose answer it was cannot be read; it is remembered at the next start");
                return;
            }
        };
        let (command, now) = (&approval.card.binding.command, self.clock.now());
        let left: Vec<(EntryId, Left)> = approval
            .chosen_patterns
            .iter()
            .map(|pattern| {
                (
                    entry_id(&approval.id, pattern),
                    Left::of(pattern, command, by, now),
                )
            })
            .collect();
        let added = self
            .leave(&approval.card.binding.agent, whom, move |document, agent| {
                left.iter()
                    .map(|(id, left)| left.add_to(document, agent, id.clone(), now))
                    .collect::<Vec<_>>()
            })
            .await;
        hooks::reach("engine.persisted");
        let recorded = match added {
            Ok(Ok(added)) => {
                for (list, added) in added.into_iter().filter(|(_list, added)| added.created) {
                    self.tell_added(approval, list, added.id, by).await;
                }
                self.ledger.persist_done(approval.id.clone()).await
            }
            Ok(Err(error)) => {
                tracing::error!(approval.id = %approval.id, error = %error, "entries of an answer cannot be stored; it counts once");
                self.give_up(approval).await
            }
            Err(_panicked) => self.give_up(approval).await,
        };
        if let Err(error) = recorded {
            tracing::error!(approval.id = %approval.id, error = %error, "cannot record that entries are stored");
        }
    }

    /// Writes into the document what an answer of `whom` leaves there for an agent. `edit` is called again where the file has
    /// to be read again, and for what is accepted of the document.
    async fn leave<T: Send + 'static>(
        self: &Arc<Self>,
        agent: &AgentId,
        whom: Actor,
        mut edit: impl FnMut(&mut Document, &str) -> T + Send + 'static,
    ) -> Result<Result<T, UpdateError<Infallible>>, JoinError> {
        let (own, agent) = (Arc::clone(self), agent.clone());
        let write = move || {
            check_writable(agent.as_str())?;
            let mut edit = |document: &mut Document| Ok::<_, Infallible>(edit(document, agent.as_str()));
            let left = while_locked(|| {
                own.documents
                    .update_noted(Expected::Any, &mut edit, |_left, pending| {
                        own.policy.announce_document(pending, Ours::Part, &whom);
                        Ok(())
                    })
            });
            own.policy.finish_change(PolicyFile::Document);
            if left.is_ok() {
                own.accepted_policy
                    .amend_document(Ours::Part, |document| edit(document).map(drop));
                own.policy.refresh();
            }
            left.map(|(left, _snapshot)| left)
        };
        tokio::task::spawn_blocking(write).await
    }

    /// Whether a mute may end then.
    pub(crate) fn may_mute_until(&self, until: UnixMillis) -> bool {
        mute::may_last_until(until, self.clock.now())
    }

    /// Writes the deny rule that a deny leaves about exactly its command, or about all questions of its agent. `why` is what
    /// this answer says; one before it may have said something else.
    ///
    /// # Errors
    /// Why there is none, in words; the deny itself counts.
    pub(crate) async fn refuse(
        self: &Arc<Self>,
        approval: &Approval,
        refusal: Refusal,
        by: &Actor,
        why: Option<&str>,
    ) -> Result<Keyed<DenyRule>, String> {
        let binding = &approval.card.binding;
        if let Refusal::Agent(until) = refusal {
            let id = mute_rule_id(&approval.id);
            return self
                .leave_rule(approval, id, mute::rule(by, until, why), by)
                .await;
        }
        let digest = denied_digest(&binding.command).filter(|_| !approval.is_run_elsewhere());
        let digest = digest.ok_or("nothing here decides about this command, so no rule can deny it")?;
        let expires_at = match refusal {
            Refusal::Never => None,
            Refusal::Until(until) | Refusal::Agent(until) => Some(until),
        };
        let line = redaction::masked(&quoting::line(&binding.command));
        let short: String = line.chars().take(MAX_NOTED_COMMAND).collect();
        let words = match expires_at {
            None => "for good".to_owned(),
            Some(until) => format!("until {until}"),
        };
        let rule = DenyRule {
            pattern: marker_of_digest(&digest),
            reason: Some(format!("denied by {} {words}: {short}", by.name)),
            command_sha256: Some(digest),
            expires_at_ms: expires_at.map(|at| at.get().into()),
            ..DenyRule::default()
        };
        self.leave_rule(approval, deny_rule_id(&approval.id), rule, by)
            .await
    }

    async fn leave_rule(
        self: &Arc<Self>,
        approval: &Approval,
        id: EntryId,
        rule: DenyRule,
        by: &Actor,
    ) -> Result<Keyed<DenyRule>, String> {
        let now = self.clock.now();
        let whom = self.ledger.with_owner(by).await.map_err(|error| {
            tracing::error!(approval.id = %approval.id, %error, "whose answer it was cannot be read");
            "whose answer it was cannot be read".to_owned()
        })?;
        let agent = &approval.card.binding.agent;
        let added = self.leave(agent, whom, move |document, agent| {
            let before = document.clone();
            let rule = document.add_text_rule(agent, id.clone(), rule.clone(), now);
            rule.map(|rule| (rule, *document != before))
        });
        match added.await {
            Ok(Ok(Some((rule, is_new)))) => {
                // One that lasts longer stayed, and nothing changed.
                if is_new {
                    self.tell_added(approval, AllowlistList::Denylist, rule.id.clone(), by)
                        .await;
                }
                Ok(rule)
            }
            Ok(Ok(None)) => Err(
                "the agent has as many deny rules for exact texts as it may; remove some (countersign denylist)"
                    .to_owned(),
            ),
            Ok(Err(error)) => {
                tracing::error!(approval.id = %approval.id, %error, "the deny rule of an answer cannot be stored");
                Err(format!("the approvals document cannot be written: {error}"))
            }
            Err(_panicked) => Err("the approvals document cannot be written".to_owned()),
        }
    }

    /// Comes back to entries that an earlier server had still to write: only if nobody changed the document
    /// since the person looked at it.
    pub(crate) async fn persist_after_restart(self: &Arc<Self>, approval: &Approval) {
        let document = self.documents.snapshot();
        let is_there = |pattern: &Pattern| {
            let id = entry_id(&approval.id, pattern);
            let agent = approval.card.binding.agent.as_str();
            document.entries(agent).iter().any(|listed| *listed.id == id)
                || document.grants(agent).iter().any(|listed| *listed.id == id)
        };
        let already_written = approval.chosen_patterns.iter().all(is_there);
        let unchanged = document.hash == approval.card.document_hash
            && !matches!(document.status, DocumentStatus::Refused(_));
        if !already_written && !unchanged {
            if let Err(error) = self.give_up(approval).await {
                tracing::error!(approval.id = %approval.id, error = %error, "cannot record that entries were dropped");
            }
        } else if approval
            .starts_at()
            .is_none_or(|starts_at| starts_at <= self.clock.now())
        {
            self.persist_patterns(approval).await;
        }
        // Else it can still be taken back, and its launch remembers it.
    }

    /// Settles that the entries of an answer are not stored.
    async fn give_up(&self, approval: &Approval) -> Result<bool, LedgerError> {
        let warning = warnings::NOT_REMEMBERED.to_owned();
        self.ledger.persist_dropped(approval.id.clone(), warning).await
    }

    async fn tell_added(&self, approval: &Approval, list: AllowlistList, entry_id: EntryId, by: &Actor) {
        let kind = EventKind::AllowlistChanged {
            change: AllowlistChange::Added,
            list,
            entry_id,
            by: Some(by.clone()),
            mutes: false,
        };
        let subject = Subject {
            approval_id: Some(approval.id.clone()),
            agent: Some(approval.card.binding.agent.clone()),
            ..Subject::default()
        };
        tell(&self.ledger, Event { subject, kind }, by.clone()).await;
    }

    async fn tell_used(&self, (owner, list, entry_id): Noted) {
        let kind = EventKind::AllowlistChanged {
            change: AllowlistChange::Used,
            list,
            entry_id,
            by: None,
            mutes: false,
        };
        let subject = subject_of(&owner);
        tell(&self.ledger, Event { subject, kind }, Actor::system()).await;
    }

    /// Notes that a run used the entries that let it through.
    pub(crate) fn note_uses(&self, call: &Call, judged: &Judgement) {
        // The entries of a node are in its own document, and it notes its own uses.
        let Some(analysis) = judged.analysis.as_ref().filter(|_| call.node.is_none()) else {
            return;
        };
        let mut notes = self.use_notes.0.lock().unwrap_or_else(PoisonError::into_inner);
        for used in &judged.grants {
            if notes.grants.len() < MAX_NOTES {
                notes.grants.insert((used.owner.clone(), used.entry_id.clone()));
            }
        }
        for credit in analysis
            .credited
            .iter()
            .filter(|credit| credit.kind == CreditKind::Entry)
        {
            let key = NoteKey {
                owner: credit.owner.clone(),
                pattern: credit.pattern.clone(),
                arg_pattern: credit.arg_pattern.clone(),
            };
            if notes.entries.len() < MAX_NOTES || notes.entries.contains_key(&key) {
                let note = Note {
                    at: self.clock.now(),
                    command: call.command.to_short_text(),
                    resolved_path: credit.resolved.clone(),
                };
                notes.entries.insert(key, note);
            }
        }
    }

    /// Writes notes of use now and then, until the server stops.
    pub(crate) async fn write_notes(self: Arc<Self>) {
        let mut took = Duration::ZERO;
        loop {
            tokio::select! {
                () = self.lifecycle.stopping() => break,
                () = tokio::time::sleep(pause_after(took)) => {}
            }
            let began = monotonic();
            self.write_notes_now().await;
            took = monotonic().saturating_sub(began);
        }
        self.write_notes_now().await;
    }

    async fn write_notes_now(self: &Arc<Self>) {
        let notes = std::mem::take(&mut *self.use_notes.0.lock().unwrap_or_else(PoisonError::into_inner));
        if notes.entries.is_empty() && notes.grants.is_empty() {
            return;
        }
        let mut uses = Vec::with_capacity(notes.grants.len());
        for (owner, id) in notes.grants {
            match self.ledger.grant_uses(&owner, &id).await {
                Ok(count) => uses.push((owner, id, count)),
                Err(error) => {
                    tracing::warn!(error = %error, "the uses of a grant were not noted");
                }
            }
        }
        let notes = notes.entries;
        let own = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || {
            // What is held is shown, accepted or taken back as it was written.
            if own.policy.refresh().pending_document.is_some() {
                return Ok(Vec::new());
            }
            let note = |document: &mut Document| {
                let mut noted: Vec<Noted> = Vec::new();
                for (key, note) in &notes {
                    let used = document
                        .agent(&key.owner)
                        .into_iter()
                        .flat_map(|agent| agent.allowlist.iter().flatten());
                    let id = used
                        .filter(|known| {
                            known.item.pattern.trim() == key.pattern.trim()
                                && known.item.arg_pattern == key.arg_pattern
                        })
                        .map(|known| known.id.clone())
                        .next();
                    if let Some(id) = id {
                        let used = Use {
                            at: note.at,
                            command: &note.command,
                            resolved_path: note.resolved_path.as_deref(),
                        };
                        if document.record_use(&key.owner, &id, used) {
                            noted.push((key.owner.clone(), AllowlistList::Allowlist, id));
                        }
                    }
                }
                for (owner, id, count) in &uses {
                    if document.record_grant_uses(owner, id, *count) {
                        noted.push((owner.clone(), AllowlistList::Grants, id.clone()));
                    }
                }
                Ok::<_, Infallible>(noted)
            };
            let written = own
                .documents
                .update_noted(Expected::Any, note, |_noted, pending| {
                    own.policy.announce_note(pending);
                    Ok(())
                });
            own.policy.finish_note();
            written.map(|(noted, _snapshot)| noted)
        })
        .await;
        match written {
            Ok(Ok(noted)) => {
                for noted in noted {
                    self.tell_used(noted).await;
                }
            }
            // Best effort: it never delays or fails a run.
            Ok(Err(error)) => tracing::warn!(error = %error, "notes of used entries were not written"),
            Err(_panicked) => {}
        }
    }
}

/// How long notes wait after writing them took so long: a large document is written whole for each.
fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(NOTE_SHARE)
        .clamp(NOTE_INTERVAL, MAX_NOTE_INTERVAL)
}

/// Tries again, a few times, while a process that lives holds the lock of the document.
fn while_locked<T, E>(mut attempt: impl FnMut() -> Result<T, UpdateError<E>>) -> Result<T, UpdateError<E>> {
    for _ in 1..LOCK_TRIES {
        match attempt() {
            Err(UpdateError::Store(StoreError::Locked)) => {}
            finished => return finished,
        }
    }
    attempt()
}

/// What an answer leaves of one pattern.
#[derive(Debug, Clone)]
enum Left {
    /// Nothing limits it.
    Entry(Entry),
    /// Something does: other programs must not see it, or they would take it for unlimited.
    Grant(Grant),
}

impl Left {
    fn of(pattern: &Pattern, command: &Command, by: &Actor, now: UnixMillis) -> Self {
        let Pattern {
            segment: _,
            pattern: text,
            arg_pattern,
            source,
            width: _,
            default: _,
            shape,
            limits,
        } = pattern;
        if !limits.is_none() {
            let GrantLimits {
                expires_at,
                max_uses,
                session,
                directory,
            } = limits;
            let what = shape
                .as_ref()
                .map(|shape| format!(": {shape}"))
                .unwrap_or_default();
            return Self::Grant(Grant {
                pattern: text.clone(),
                arg_pattern: arg_pattern.clone(),
                note: Some(format!("answered by {}{what}", by.name)),
                created_at_ms: Some(now.get().into()),
                expires_at_ms: expires_at.map(|at| at.get().into()),
                max_uses: *max_uses,
                session_key: session.clone(),
                directory: directory.clone(),
                ..Grant::default()
            });
        }
        // The marker holds a part of the digest; we compare the whole.
        let command_sha256 = match command {
            Command::Shell(shell) if *text == command_marker(shell) => Some(command_digest(shell)),
            Command::Shell(_) | Command::Argv(_) | Command::Patch(_) => None,
        };
        Self::Entry(Entry {
            pattern: text.clone(),
            arg_pattern: arg_pattern.clone(),
            source: source.clone(),
            command_sha256,
            last_used_at: Some(now.get().into()),
            ..Entry::default()
        })
    }

    fn add_to(
        &self,
        document: &mut Document,
        agent: &str,
        id: EntryId,
        now: UnixMillis,
    ) -> (AllowlistList, Added) {
        match self {
            Self::Entry(entry) => {
                let added = document.add_entry(agent, id, entry.clone());
                (AllowlistList::Allowlist, added)
            }
            Self::Grant(grant) => (
                AllowlistList::Grants,
                document.add_grant(agent, id, grant.clone(), now),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_is_waited_for_again_and_a_stale_one_is_not() {
        type Attempt = fn() -> Result<(), StoreError>;
        let tries = |outcomes: &[Attempt]| {
            let mut outcomes = outcomes.iter();
            let mut count = 0;
            let result = while_locked(|| {
                count += 1;
                outcomes.next().unwrap()().map_err(UpdateError::<()>::Store)
            });
            (count, result.is_ok())
        };
        let locked: Attempt = || Err(StoreError::Locked);
        let stale: Attempt = || Err(StoreError::LockStale { pid: Some(1) });
        assert_eq!(tries(&[|| Ok(())]), (1, true));
        assert_eq!(tries(&[locked, || Ok(())]), (2, true));
        assert_eq!(tries(&[locked; LOCK_TRIES]), (LOCK_TRIES, false));
        assert_eq!(tries(&[stale]), (1, false));
    }
}
