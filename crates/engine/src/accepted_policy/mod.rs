//! The accepted policy: which policy is in effect, the files as they are or what was accepted of them
//! (`docs/decisions/0010-who-may-answer.md`).
//!
//! Commands run with rights that may reach `openclaw.json` and the approvals document. So an edit that allows more stays a
//! pending change ([`countersign_policy::pending_change`]) until it is accepted; meanwhile each judgement asks both contents and
//! takes the stricter answer. Private files beside the ledger keep what was accepted, so a restart accepts nothing. This
//! module must never decide about a command. Entry point: [`AcceptedPolicy::in_effect`].

mod kept;
mod watched;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_config::{
    approvals::{
        document::{Document, LostRules},
        store::{DocumentStatus, DocumentStore, Pending, Snapshot},
    },
    settings::{
        ConfigFile, KeyEdit, PolicyConfig, PolicyText, Settings, SettingsStore, StagedConfig, StateDir,
        WaitsFor, Widening, config_edit, content_hash,
    },
};
use countersign_domain::{Actor, UnixMillis};
use countersign_ledger::PolicyStamp;
use countersign_policy::{
    changes::Changes,
    pending_change::{ChangeControl, Content, EditOrigin, Step},
};
use countersign_sys::clock::Clock;

pub use kept::{edits_since_accepted, lost_rules};

use kept::{
    ConfigContent, Copy, add_lost, config_allows, config_changes, document_allows, document_changes,
    document_text, setting_in_words, still_missing,
};
use watched::{Announced, Watched};

/// The policy of one moment.
#[derive(Debug, Clone)]
pub struct PolicyInEffect {
    /// The settings in effect.
    pub settings: Arc<Settings>,
    /// The approvals document in effect.
    pub document: Arc<Snapshot>,
    /// The files as they are, while a change of one is pending: what they forbid counts too.
    pub edited: Option<(Arc<Settings>, Arc<Snapshot>)>,
    /// The pending change of the document.
    pub(crate) pending_document: Option<PendingChange>,
    /// The pending change of `openclaw.json`.
    pub pending_config: Option<PendingChange>,
    /// What of `countersign.toml` waits for a second person. It is not in force before a restart either.
    pub pending_server: Option<PendingChange>,
    /// The document as it is on disk.
    pub on_disk: Arc<Snapshot>,
    /// Generation of the settings on disk.
    pub generation: u64,
    /// Counts every change of the policy in effect.
    revision: u64,
}

/// A change that waits to be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingChange {
    /// The hash of the file as it is.
    pub hash: String,
    /// Since when something is pending.
    pub since: UnixMillis,
    /// What it would newly allow, in words.
    pub allows: Vec<String>,
    /// Who changed the file through this server while nobody may widen alone. None of them can accept it.
    pub proposed_by: Vec<Actor>,
    /// What differs from what was accepted, before and after.
    pub changes: Changes,
}

impl PendingChange {
    /// Who can accept it, in words.
    pub(super) const fn who_accepts(&self) -> &'static str {
        if self.proposed_by.is_empty() {
            "an admin"
        } else {
            "another admin"
        }
    }
}

/// Which of the two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicyFile {
    Document,
    Config,
}

/// What we write ourselves, and how much of it an operator answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ours {
    /// A change of a part.
    Part,
    Whole,
    /// Something that allows nothing.
    Note,
}

/// What came of accepting a pending change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepted {
    Yes,
    /// There is no such edit.
    NoSuchEdit,
    /// It takes a person other than those who proposed it.
    OwnProposal,
}

/// The two files, and what of them is accepted.
#[derive(Debug)]
pub struct AcceptedPolicy {
    settings: Arc<SettingsStore>,
    documents: Arc<DocumentStore>,
    clock: Arc<dyn Clock>,
    document_copy: PathBuf,
    config_copy: PathBuf,
    state: Mutex<AcceptanceState>,
}

#[derive(Debug)]
struct AcceptanceState {
    document: Watched<Arc<Snapshot>>,
    config: Watched<Arc<ConfigContent>>,
    /// Whether a gateway run began since a content was last accepted.
    began: bool,
    quiet_since: i64,
    /// Deny rules and grants that an edit from outside took out of the document and that nobody missed yet.
    lost: Vec<LostRules>,
    revision: u64,
    in_effect: Option<Arc<PolicyInEffect>>,
    /// The content of `countersign.toml` of which something waits for a second person, and since when.
    server_edit: Option<(String, UnixMillis)>,
}

impl PolicyInEffect {
    /// What names this policy.
    pub fn stamp(&self) -> PolicyStamp {
        PolicyStamp {
            document_hash: self.on_disk.hash.clone(),
            // Both only ever grow, so that no two policies have one sum.
            settings_generation: self.generation + self.revision,
        }
    }
}

impl AcceptedPolicy {
    /// Reads what an earlier server had accepted. Until `begin` every edit counts as one of a command.
    pub fn open(
        settings: Arc<SettingsStore>,
        documents: Arc<DocumentStore>,
        clock: Arc<dyn Clock>,
        state_dir: &StateDir,
    ) -> Self {
        let (document_copy, config_copy) = (state_dir.accepted_document(), state_dir.accepted_config());
        let (document, config) = (Copy::read(&document_copy), Copy::read(&config_copy));
        let quiet_since = [&document, &config].into_iter().flatten();
        let quiet_since = quiet_since
            .map(|copy| copy.quiet_since_ms)
            .max()
            .unwrap_or(i64::MIN);
        let state = AcceptanceState {
            lost: document.as_ref().map_or_else(Vec::new, |copy| copy.lost.clone()),
            document: document.map_or_else(Watched::default, |copy| {
                let on_disk = documents.snapshot();
                copy.restore(|copy| copy.into_snapshot(&on_disk))
            }),
            config: config.map_or_else(Watched::default, |copy| {
                copy.restore(|copy| copy.into_config(&settings))
            }),
            began: true,
            quiet_since,
            revision: 0,
            in_effect: None,
            server_edit: None,
        };
        Self {
            settings,
            documents,
            clock,
            document_copy,
            config_copy,
            state: Mutex::new(state),
        }
    }

    /// Since when a gateway run counts.
    pub(super) fn quiet_since(&self) -> UnixMillis {
        UnixMillis::new(self.lock().quiet_since)
    }

    /// Says whether a gateway run began since [`Self::quiet_since`], and looks for the first time.
    pub(super) fn begin(&self, began: bool) {
        {
            let mut state = self.lock();
            // A clock that went back says nothing.
            state.began = began || state.quiet_since > self.clock.now().get();
        }
        drop(self.in_effect());
        let mut state = self.lock();
        state.document.announced = None;
        state.config.announced = None;
        if state.document.forget_proposals() {
            self.keep(&state, PolicyFile::Document);
        }
        if state.config.forget_proposals() {
            self.keep(&state, PolicyFile::Config);
        }
    }

    /// Reads both files. A few stats when nothing changed.
    pub(crate) fn in_effect(&self) -> Arc<PolicyInEffect> {
        // What it found is in `current` and `rejected_files`, and told of from there.
        drop(self.settings.refresh());
        let mut state = self.lock();
        self.in_effect_with(&mut state)
    }

    /// What the last look found, without a look of its own: for what a run gets that began under it, and for what is
    /// said about a run. A launch looks, and so does the watch of the files.
    pub(crate) fn last_seen(&self) -> Arc<PolicyInEffect> {
        let mut state = self.lock();
        match &state.in_effect {
            Some(in_effect) => Arc::clone(in_effect),
            None => self.in_effect_with(&mut state),
        }
    }

    /// Looks just before a run begins: from then on an edit may be the run's.
    pub(super) fn in_effect_at_launch(&self) -> Arc<PolicyInEffect> {
        drop(self.settings.refresh());
        let mut state = self.lock();
        let in_effect = self.in_effect_with(&mut state);
        state.began = true;
        in_effect
    }

    /// A document of ours is about to be put in place. What it is made from is judged first: nobody may have looked at
    /// it yet, and being built upon accepts nothing of it.
    pub(super) fn announce_document(&self, pending: &Pending<'_>, ours: Ours, by: Option<&Actor>) {
        let mut state = self.lock();
        self.see_document(&mut state, pending.before);
        state.in_effect = None;
        state.document.announced = Some(Announced {
            drew_token: pending.drew_token,
            ..Announced::here(pending.hash, ours, by)
        });
        if ours != Ours::Note {
            self.keep(&state, PolicyFile::Document);
        }
    }

    /// The same of `openclaw.json`, of which only a part is ever changed.
    pub(super) fn announce_config(&self, base: &ConfigFile, staged: &StagedConfig, by: Option<&Actor>) {
        let mut state = self.lock();
        if let Ok(policy) = self.settings.policy_of(base.text()) {
            let text = PolicyText {
                text: base.text().map(str::to_owned),
                hash: base.hash().to_owned(),
            };
            self.see_config(&mut state, text, policy);
            state.in_effect = None;
        }
        state.config.announced = Some(Announced::here(staged.hash(), Ours::Part, by));
        self.keep(&state, PolicyFile::Config);
    }

    /// What this thread announced is in place, or will not be. `is_idle` says that no gateway run is under way.
    pub(super) fn finish_change(&self, file: PolicyFile, is_idle: impl FnOnce() -> bool) {
        drop(self.in_effect());
        let mut state = self.lock();
        let own = state.announced(file).take_if(Announced::is_of_this_thread);
        let Some(Announced { hash, .. }) = own else {
            return;
        };
        let accepted = match file {
            PolicyFile::Document => state.document.control.accepted().map(|content| &content.hash),
            PolicyFile::Config => state.config.control.accepted().map(|content| &content.hash),
        };
        if accepted == Some(&hash) {
            state.calm_down(is_idle, self.clock.now().get());
        }
        self.keep(&state, file);
    }

    /// Forgets a note that this thread announced.
    pub(super) fn finish_note(&self) {
        drop(self.in_effect());
        drop(
            self.lock()
                .document
                .announced
                .take_if(Announced::is_of_this_thread),
        );
    }

    /// Accepts the pending change with this hash.
    pub(super) fn accept(
        &self,
        file: PolicyFile,
        hash: &str,
        by: &Actor,
        is_idle: impl FnOnce() -> bool,
    ) -> Accepted {
        drop(self.in_effect());
        let mut state = self.lock();
        if self.is_own(&state, file, by) {
            return Accepted::OwnProposal;
        }
        let now = self.clock.now().get();
        let is_pending = match file {
            PolicyFile::Document => state.document.accept(hash, now),
            PolicyFile::Config => state.config.accept(hash, now),
        };
        if is_pending {
            if file == PolicyFile::Document {
                // The person who accepts it answers for what it lacks.
                state.lost.clear();
            }
            state.revision += 1;
            state.in_effect = None;
            state.calm_down(is_idle, now);
            self.keep(&state, file);
        }
        if is_pending {
            Accepted::Yes
        } else {
            Accepted::NoSuchEdit
        }
    }

    /// Whether this person edited `countersign.toml`, as the account that owns the state directory.
    pub(super) fn is_own_server_edit(by: &Actor) -> bool {
        by.is_same_person(&Actor::state_directory())
    }

    /// Accepts what of the content of `countersign.toml` with this hash waits for a second person.
    ///
    /// # Errors
    /// What the system answers when that cannot be kept.
    pub(super) fn accept_server(&self, hash: &str) -> io::Result<bool> {
        self.settings.accept_guards(hash)
    }

    /// Rejects what of the content of `countersign.toml` with this hash waits for a second person.
    ///
    /// # Errors
    /// What the system answers when that cannot be kept.
    pub(super) fn reject_server(&self, hash: &str) -> io::Result<bool> {
        self.settings.reject_guards(hash)
    }

    /// Whether what is pending takes a person other than this one.
    pub(super) fn is_own_proposal(&self, file: PolicyFile, by: &Actor) -> bool {
        self.is_own(&self.lock(), file, by)
    }

    fn is_own(&self, state: &AcceptanceState, file: PolicyFile, by: &Actor) -> bool {
        let proposals = match file {
            PolicyFile::Document => &state.document.proposals,
            PolicyFile::Config => &state.config.proposals,
        };
        self.takes_two() && proposals.are_of(by)
    }

    /// The accepted text of `openclaw.json`, while a change of it is pending.
    pub(super) fn accepted_config(&self) -> Option<PolicyText> {
        let state = self.lock();
        state.config.control.pending()?;
        let accepted = state.config.control.accepted()?;
        Some(PolicyText {
            text: accepted.value.text.clone(),
            hash: accepted.hash.clone(),
        })
    }

    /// The accepted document, while a change of it is pending.
    pub(super) fn accepted_document(&self) -> Option<Arc<Snapshot>> {
        let state = self.lock();
        state.document.control.pending()?;
        state.document.accepted()
    }

    /// Whether nobody widens the policy alone.
    pub(super) fn takes_two(&self) -> bool {
        self.settings.current().server.approvals.widening == Widening::Ask
    }

    /// Whether rules were taken out of the document from outside, and nobody missed them yet.
    pub(super) fn has_lost_rules(&self) -> bool {
        !self.lock().lost.is_empty()
    }

    /// An operator knows of the rules that were taken out.
    pub(super) fn forget_lost_rules(&self) {
        let mut state = self.lock();
        state.lost.clear();
        self.keep(&state, PolicyFile::Document);
    }

    /// Makes a change of ours in the accepted document too while a change of it is pending. What cannot be done there is
    /// left until the edit is accepted, and so is what widens where nobody may do that alone.
    pub(super) fn amend_document<E>(&self, ours: Ours, edit: impl FnOnce(&mut Document) -> Result<(), E>) {
        let mut state = self.lock();
        if state.document.control.pending().is_none() {
            return;
        }
        let accepted = state
            .document
            .control
            .accepted()
            .and_then(|content| content.value.document());
        let Some(before) = accepted.cloned() else { return };
        let mut document = before.clone();
        if edit(&mut document).is_err() || document == before {
            return;
        }
        let (snapshot, now) = (Arc::new(Snapshot::of_edited(&document)), self.clock.now());
        if ours != Ours::Note && self.takes_two() && !before.difference(&document, now).allows.is_empty() {
            return;
        }
        let content = Content {
            hash: snapshot.hash.clone(),
            value: snapshot,
        };
        let allows = |before: &_, later: &_| document_allows(before, later, now);
        if state.document.control.amend(content, allows) != Step::Same {
            state.revision += 1;
            state.in_effect = None;
            self.keep(&state, PolicyFile::Document);
        }
    }

    /// The same of `openclaw.json`, for what only takes away: it stays away if the pending change is rejected.
    /// `edits` says how a text of the file is changed.
    pub(super) fn amend_config(&self, edits: impl FnOnce(Option<&str>) -> Option<Vec<KeyEdit>>) {
        let mut state = self.lock();
        if state.config.control.pending().is_none() {
            return;
        }
        let Some(before) = state.config.accepted() else {
            return;
        };
        let text = before.text.as_deref();
        let edited = edits(text).map(|edits| config_edit(text, &edits, self.settings.state_dir()));
        let Some(Ok(edited)) = edited else { return };
        if !edited.changed {
            return;
        }
        let content = Content {
            hash: content_hash(Some(&edited.text)),
            value: Arc::new(ConfigContent {
                text: Some(edited.text),
                policy: Some(edited.policy),
            }),
        };
        if !config_allows(&before, &content.value).is_empty() {
            return;
        }
        if state.config.control.amend(content, config_allows) != Step::Same {
            state.revision += 1;
            state.in_effect = None;
            self.keep(&state, PolicyFile::Config);
        }
    }

    fn in_effect_with(&self, state: &mut AcceptanceState) -> Arc<PolicyInEffect> {
        let document = self.documents.snapshot();
        let generation = self.settings.current().generation;
        if let Some(in_effect) = &state.in_effect {
            if in_effect.generation == generation && Arc::ptr_eq(&in_effect.on_disk, &document) {
                return Arc::clone(in_effect);
            }
            // The same content may be refused now, or not be any more: who owns a file or may write it counts too.
            if in_effect.on_disk.status != document.status {
                state.revision += 1;
            }
        }
        let (settings, text) = self.settings.with_policy_text();
        if let Some(text) = text {
            self.see_config(state, text, settings.policy.clone());
        }
        self.see_document(state, &document);
        state.see_server(&settings, self.clock.now());
        let in_effect = Arc::new(state.assemble(settings, document, self.settings.state_dir()));
        state.in_effect = Some(Arc::clone(&in_effect));
        in_effect
    }

    fn see_config(
        &self,
        state: &mut AcceptanceState,
        PolicyText { text, hash }: PolicyText,
        policy: PolicyConfig,
    ) {
        let origin = state.config.seen_as(&hash, state.began, self.takes_two());
        let value = Arc::new(ConfigContent {
            text,
            policy: Some(policy),
        });
        let before = state.config.accepted();
        let now = self.clock.now().get();
        let (step, is_new) = state
            .config
            .see(Content { hash, value }, origin, now, config_allows);
        if step == Step::Same {
            return;
        }
        state.revision += 1;
        let is_same = before
            .zip(state.config.accepted())
            .is_some_and(|(before, now)| before.policy.is_some() && before.policy == now.policy);
        if is_new || (step == Step::Accepted && !is_same) {
            self.keep(state, PolicyFile::Config);
        }
    }

    fn see_document(&self, state: &mut AcceptanceState, document: &Arc<Snapshot>) {
        if let DocumentStatus::Refused(_) = document.status {
            if state.document.control.forget_edit() != Step::Same {
                state.revision += 1;
            }
            if state.document.control.accepted().is_none() {
                // Anything that comes later allows more than this.
                let nothing = Snapshot::of_accepted(Some(b""), String::new());
                state.document.control = ChangeControl::of(Some(Content {
                    hash: nothing.hash.clone(),
                    value: Arc::new(nothing),
                }));
                self.keep(state, PolicyFile::Document);
            }
            return;
        }
        let origin = state.document.origin(&document.hash, state.began);
        let seen_as = state
            .document
            .seen_as(&document.hash, state.began, self.takes_two());
        let content = Content {
            hash: document.hash.clone(),
            value: Arc::clone(document),
        };
        let before = state.document.accepted();
        let is_restated = state.restate_with_token(document);
        let now = self.clock.now();
        let allows = |before: &_, later: &_| document_allows(before, later, now);
        let (step, is_new) = state.document.see(content, seen_as, now.get(), allows);
        if step == Step::Same {
            return;
        }
        state.revision += 1;
        let is_worth_keeping = match step {
            Step::Accepted => {
                // Notes of use are written every second while commands run; they allow nothing and need no copy.
                let is_same = before.as_ref().is_some_and(|before| {
                    document_allows(before, document, now).is_empty()
                        && document_allows(document, before, now).is_empty()
                });
                state.note_lost_rules(before.as_ref(), document, origin) || !is_same
            }
            Step::Pending | Step::Same => is_restated,
        };
        if is_new || is_worth_keeping {
            self.keep(state, PolicyFile::Document);
        }
    }

    /// Keeps the accepted policy, so that a restart does not accept anything else. A copy that cannot be written leaves the
    /// one before: the next server may hold more than this one does, never less.
    fn keep(&self, state: &AcceptanceState, file: PolicyFile) {
        let (path, copy) = match file {
            PolicyFile::Document => (
                &self.document_copy,
                Copy::of(&state.document, document_text, state.quiet_since, &state.lost),
            ),
            PolicyFile::Config => (
                &self.config_copy,
                Copy::of(
                    &state.config,
                    |content| content.text.clone(),
                    state.quiet_since,
                    &[],
                ),
            ),
        };
        let Some(copy) = copy else { return };
        if let Err(error) = copy.write(path) {
            tracing::error!(
                file.path = %path.display(),
                error = &error as &dyn std::error::Error,
                "the accepted policy cannot be kept; after a restart edits may have to be accepted again"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, AcceptanceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcceptanceState {
    /// Notes what a new content that counts lacks. Says whether that is something new.
    fn note_lost_rules(
        &mut self,
        before: Option<&Arc<Snapshot>>,
        now: &Snapshot,
        origin: EditOrigin,
    ) -> bool {
        let was = self.lost.clone();
        match origin {
            // An operator answers for the whole.
            EditOrigin::Whole => self.lost.clear(),
            EditOrigin::Part | EditOrigin::Proposed => {}
            EditOrigin::OutsideQuiet | EditOrigin::OutsideRisky => {
                let before = before.and_then(|before| before.document());
                if let (Some(before), Some(now)) = (before, now.document()) {
                    let lost = before.lost_rules(now);
                    for rules in &lost {
                        tracing::error!(
                            agent = %rules.agent,
                            rules = rules.deny_rules.len(),
                            grants = rules.grants,
                            "another program took deny rules or grants out of the approvals document"
                        );
                    }
                    add_lost(&mut self.lost, lost);
                }
            }
        }
        self.lost = still_missing(std::mem::take(&mut self.lost), now);
        self.lost != was
    }

    fn announced(&mut self, file: PolicyFile) -> &mut Option<Announced> {
        match file {
            PolicyFile::Document => &mut self.document.announced,
            PolicyFile::Config => &mut self.config.announced,
        }
    }

    /// The token that was drawn for a document of ours is no change of the policy.
    fn restate_with_token(&mut self, document: &Snapshot) -> bool {
        let drew = |announced: &Announced| announced.drew_token;
        let token = document.document().and_then(Document::socket_token);
        let accepted = self
            .document
            .control
            .accepted()
            .and_then(|content| content.value.document());
        let (Some(token), Some(accepted)) = (token, accepted) else {
            return false;
        };
        if !self.document.announcement(&document.hash).is_some_and(drew) || accepted.socket_token().is_some()
        {
            return false;
        }
        let mut restated = accepted.clone();
        restated.set_socket_token(token.clone());
        let snapshot = Arc::new(Snapshot::of_edited(&restated));
        self.document.control.restate(Content {
            hash: snapshot.hash.clone(),
            value: snapshot,
        });
        true
    }

    /// From here on only runs that begin later count, unless one is under way or something is held. A call that begins
    /// one has its place before it looks here, so that none comes in between.
    fn calm_down(&mut self, is_idle: impl FnOnce() -> bool, now: i64) {
        if is_idle() && !self.is_pending() {
            self.began = false;
            self.quiet_since = now;
        }
    }

    /// Notes which content of `countersign.toml` waits for a second person.
    fn see_server(&mut self, settings: &Settings, now: UnixMillis) {
        let waits = settings
            .waiting
            .iter()
            .any(|waiting| waiting.waits_for == WaitsFor::Acceptance);
        self.server_edit = match self.server_edit.take() {
            _ if !waits => None,
            Some(seen) if seen.0 == settings.server_hash => Some(seen),
            Some(_) | None => Some((settings.server_hash.clone(), now)),
        };
    }

    /// An edit of that file is a proposal of the account that owns the state directory.
    fn pending_server(&self, settings: &Settings) -> Option<PendingChange> {
        let (hash, since) = self.server_edit.clone()?;
        let waiting = settings
            .waiting
            .iter()
            .filter(|waiting| waiting.waits_for == WaitsFor::Acceptance);
        let mut changes = Changes::default();
        for waiting in waiting.clone() {
            let in_force = settings.values.iter().find(|value| value.key == waiting.key);
            changes.note(
                waiting.key.as_str(),
                in_force.and_then(|value| setting_in_words(&value.value)),
                setting_in_words(&waiting.value),
            );
        }
        Some(PendingChange {
            hash,
            since,
            changes,
            allows: waiting
                .map(|waiting| format!("{} becomes {}", waiting.key, waiting.value))
                .collect(),
            proposed_by: vec![Actor::state_directory()],
        })
    }

    fn is_pending(&self) -> bool {
        self.document.control.pending().is_some() || self.config.control.pending().is_some()
    }

    fn assemble(
        &self,
        settings: Arc<Settings>,
        document: Arc<Snapshot>,
        state_dir: &StateDir,
    ) -> PolicyInEffect {
        let accepted = self
            .config
            .accepted()
            .filter(|_| self.config.control.pending().is_some());
        let is_unknown = accepted.as_ref().is_some_and(|content| content.policy.is_none());
        let counted = match accepted.and_then(|content| content.policy.clone()) {
            Some(policy) => Arc::new(settings.with_policy(policy)),
            // Nothing is held, or only the edit is known, and then the document below denies.
            None => Arc::clone(&settings),
        };
        let counted_document = match (self.document.control.pending(), self.document.accepted()) {
            _ if is_unknown => Arc::new(Snapshot::of_accepted(Some(b""), document.hash.clone())),
            (Some(_), Some(accepted)) => accepted,
            (_, _) => Arc::clone(&document),
        };
        PolicyInEffect {
            on_disk: Arc::clone(&document),
            generation: settings.generation,
            revision: self.revision,
            pending_document: self.document.pending_change(document_changes),
            pending_config: self
                .config
                .pending_change(|before, later| config_changes(before, later, state_dir)),
            pending_server: self.pending_server(&settings),
            settings: counted,
            document: counted_document,
            edited: self.is_pending().then_some((settings, document)),
        }
    }
}
