//! Which policy is in force: the files as they are, or what was accepted of them (`design/trust.md`).
//!
//! Commands run with rights that may reach `openclaw.json` and the approvals document. So once a gateway run began, an
//! edit from outside that allows more than what was accepted is held, and any change that does where nobody may widen
//! alone (`[approvals] widening`): whoever judges asks the accepted policy and the edited one, and the stricter answer
//! counts. What was accepted is kept in private files beside the ledger, so that a restart accepts nothing. This owns those files and the memory of what is ours; it never decides about a command.
//! Entry point: [`PolicyHold::look`].

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

use serde::{Deserialize, Serialize};

use crate::{
    approvals::{
        document::{Document, LostRules},
        store::{DocumentStatus, DocumentStore, Pending, Snapshot},
    },
    clock::Clock,
    domain::{Actor, UnixMillis},
    ledger::PolicyStamp,
    policy::{
        hold::{Content, Held, Hold, Origin, Step},
        proposals::Proposals,
    },
    settings::{
        ConfigFile, PolicyConfig, PolicyText, Settings, SettingsStore, StagedConfig, StateDir, Widening,
    },
    sys::fs::{PRIVATE_FILE, read_bounded, replace_file},
};

/// A file of the largest size, escaped.
const MAX_COPY_BYTES: usize = 32 * 1024 * 1024;

/// The policy of one moment.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The settings that count.
    pub settings: Arc<Settings>,
    /// The approvals document that counts.
    pub document: Arc<Snapshot>,
    /// The files as they are, while an edit of one is held: what they forbid counts too.
    pub edited: Option<(Arc<Settings>, Arc<Snapshot>)>,
    /// The edit of the document that is held.
    pub held_document: Option<HeldEdit>,
    /// The edit of `openclaw.json` that is held.
    pub held_config: Option<HeldEdit>,
    /// The document as it is on disk.
    pub on_disk: Arc<Snapshot>,
    /// Generation of the settings on disk.
    pub generation: u64,
    /// Counts every change of what is in force.
    revision: u64,
}

/// An edit that waits to be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldEdit {
    /// The hash of the file as it is.
    pub hash: String,
    /// Since when something is held.
    pub since: UnixMillis,
    /// What it would newly allow, in words.
    pub allows: Vec<String>,
    /// Who changed the file through this server while nobody may widen alone. None of them can accept it.
    pub proposed_by: Vec<Actor>,
}

impl HeldEdit {
    /// Who can let it count, in words.
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
    /// The approvals document.
    Document,
    /// `openclaw.json`.
    Config,
}

/// What we write ourselves, and how much of it an operator answers for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ours {
    /// A change of a part.
    Part,
    /// The whole content.
    Whole,
    /// Something that allows nothing.
    Note,
}

/// What came of accepting a held edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepted {
    /// It counts.
    Yes,
    /// There is no such edit.
    NoSuchEdit,
    /// It takes somebody else than those who proposed it.
    OwnProposal,
}

/// A content of ours that is about to be put in place.
#[derive(Debug, Clone)]
struct Announced {
    hash: String,
    ours: Ours,
    by: Option<Actor>,
    /// Whether the token of the socket in it was drawn for it.
    drew_token: bool,
    /// Whoever writes it says when that is done; `None` for one of an earlier server.
    writer: Option<ThreadId>,
}

impl Announced {
    fn here(hash: &str, ours: Ours, by: Option<&Actor>) -> Self {
        Self {
            hash: hash.to_owned(),
            ours,
            by: by.cloned(),
            drew_token: false,
            writer: Some(thread::current().id()),
        }
    }

    fn is_of_this_thread(&mut self) -> bool {
        self.writer == Some(thread::current().id())
    }
}

/// The two files, and what of them is accepted.
#[derive(Debug)]
pub struct PolicyHold {
    settings: Arc<SettingsStore>,
    documents: Arc<DocumentStore>,
    clock: Arc<dyn Clock>,
    document_copy: PathBuf,
    config_copy: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    document: Hold<Arc<Snapshot>>,
    config: Hold<Arc<ConfigContent>>,
    announced_document: Option<Announced>,
    announced_config: Option<Announced>,
    /// Who proposed what is held.
    document_proposals: Proposals,
    config_proposals: Proposals,
    /// Whether a gateway run began since a content was last accepted.
    began: bool,
    /// When that was.
    quiet_since: i64,
    /// Deny rules and grants that somebody else's writing took out of the document and that nobody missed yet.
    lost: Vec<LostRules>,
    revision: u64,
    standing: Option<Arc<Standing>>,
}

#[derive(Debug)]
struct ConfigContent {
    text: Option<String>,
    /// `None` for an accepted text that cannot be read any more; then nothing of a later one is accepted by itself.
    policy: Option<PolicyConfig>,
}

/// What is kept of an accepted content.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Copy {
    hash: String,
    text: Option<String>,
    quiet_since_ms: i64,
    /// What we are about to put in its place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    coming: Option<Coming>,
    /// What others took out of the document.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    lost: Vec<LostRules>,
    /// Who proposed what is held.
    #[serde(skip_serializing_if = "Proposals::is_empty", default)]
    proposals: Proposals,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Coming {
    hash: String,
    whole: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    by: Option<Actor>,
}

impl Standing {
    /// What names this policy.
    pub fn stamp(&self) -> PolicyStamp {
        PolicyStamp {
            document_hash: self.on_disk.hash.clone(),
            // Both only ever grow, so that no two policies have one sum.
            settings_generation: self.generation + self.revision,
        }
    }
}

impl PolicyHold {
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
        let announced = |copy: &Option<Copy>| {
            let coming = copy.as_ref()?.coming.as_ref()?;
            Some(Announced {
                hash: coming.hash.clone(),
                ours: if coming.whole { Ours::Whole } else { Ours::Part },
                by: coming.by.clone(),
                drew_token: false,
                writer: None,
            })
        };
        let proposals = |copy: &Option<Copy>| {
            copy.as_ref()
                .map_or_else(Proposals::default, |copy| copy.proposals.clone())
        };
        let state = State {
            announced_document: announced(&document),
            announced_config: announced(&config),
            document_proposals: proposals(&document),
            config_proposals: proposals(&config),
            lost: document.as_ref().map_or_else(Vec::new, |copy| copy.lost.clone()),
            document: Hold::of(document.map(Copy::into_snapshot)),
            config: Hold::of(config.map(|copy| copy.into_config(&settings))),
            began: true,
            quiet_since,
            revision: 0,
            standing: None,
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
        drop(self.look());
        let mut state = self.lock();
        state.announced_document = None;
        state.announced_config = None;
        for file in [PolicyFile::Document, PolicyFile::Config] {
            if state.forget_proposals(file) {
                self.keep(&state, file);
            }
        }
    }

    /// Looks at both files. A few stats when nothing changed.
    pub fn look(&self) -> Arc<Standing> {
        // What it found is in `current` and `config_error`, and told of from there.
        drop(self.settings.refresh());
        let mut state = self.lock();
        self.look_with(&mut state)
    }

    /// Looks just before a run begins: from then on an edit may be the run's.
    pub(super) fn look_and_launch(&self) -> Arc<Standing> {
        drop(self.settings.refresh());
        let mut state = self.lock();
        let standing = self.look_with(&mut state);
        state.began = true;
        standing
    }

    /// A document of ours is about to be put in place. What it is made from is judged first: nobody may have looked at
    /// it yet, and being built upon accepts nothing of it.
    pub(super) fn announce_document(&self, pending: &Pending<'_>, ours: Ours, by: Option<&Actor>) {
        let mut state = self.lock();
        self.see_document(&mut state, pending.before);
        state.standing = None;
        state.announced_document = Some(Announced {
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
            state.standing = None;
        }
        state.announced_config = Some(Announced::here(staged.hash(), Ours::Part, by));
        self.keep(&state, PolicyFile::Config);
    }

    /// What this thread announced is in place, or will not be. `is_idle` says that no gateway run is under way.
    pub(super) fn settle(&self, file: PolicyFile, is_idle: impl FnOnce() -> bool) {
        drop(self.look());
        let mut state = self.lock();
        let own = state.announced(file).take_if(Announced::is_of_this_thread);
        let Some(Announced { hash, .. }) = own else {
            return;
        };
        let accepted = match file {
            PolicyFile::Document => state.document.accepted().map(|content| &content.hash),
            PolicyFile::Config => state.config.accepted().map(|content| &content.hash),
        };
        if accepted == Some(&hash) {
            state.calm_down(is_idle, self.clock.now().get());
        }
        self.keep(&state, file);
    }

    /// Forgets a note that this thread announced.
    pub(super) fn settle_note(&self) {
        drop(self.look());
        drop(
            self.lock()
                .announced_document
                .take_if(Announced::is_of_this_thread),
        );
    }

    /// Accepts a held edit with this hash.
    pub(super) fn accept(
        &self,
        file: PolicyFile,
        hash: &str,
        by: &Actor,
        is_idle: impl FnOnce() -> bool,
    ) -> Accepted {
        drop(self.look());
        let mut state = self.lock();
        if self.is_own(&mut state, file, by) {
            return Accepted::OwnProposal;
        }
        let now = self.clock.now().get();
        let is_held = match file {
            PolicyFile::Document => accept(&mut state.document, hash, now),
            PolicyFile::Config => accept(&mut state.config, hash, now),
        };
        if is_held {
            if file == PolicyFile::Document {
                // Whoever accepts it answers for what it lacks.
                state.lost.clear();
            }
            *state.proposals(file) = Proposals::default();
            state.revision += 1;
            state.standing = None;
            state.calm_down(is_idle, now);
            self.keep(&state, file);
        }
        if is_held {
            Accepted::Yes
        } else {
            Accepted::NoSuchEdit
        }
    }

    /// Whether what is held takes somebody else than this one.
    pub(super) fn is_own_proposal(&self, file: PolicyFile, by: &Actor) -> bool {
        self.is_own(&mut self.lock(), file, by)
    }

    fn is_own(&self, state: &mut State, file: PolicyFile, by: &Actor) -> bool {
        self.takes_two() && state.proposals(file).are_of(by)
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

    /// Makes a change of ours in the accepted document too while an edit of it is held. What cannot be done there is
    /// left until the edit is accepted, and so is what widens where nobody may do that alone.
    pub(super) fn amend_document<E>(&self, ours: Ours, edit: impl FnOnce(&mut Document) -> Result<(), E>) {
        let mut state = self.lock();
        if state.document.held().is_none() {
            return;
        }
        let accepted = state
            .document
            .accepted()
            .and_then(|content| content.value.document());
        let Some(before) = accepted.cloned() else { return };
        let mut document = before.clone();
        if edit(&mut document).is_err() || document == before {
            return;
        }
        let snapshot = Arc::new(Snapshot::of_edited(&document));
        if ours != Ours::Note && self.takes_two() && !before.difference(&document).allows.is_empty() {
            return;
        }
        let content = Content {
            hash: snapshot.hash.clone(),
            value: snapshot,
        };
        if state.document.amend(content, document_allows) != Step::Same {
            state.revision += 1;
            state.standing = None;
            self.keep(&state, PolicyFile::Document);
        }
    }

    fn look_with(&self, state: &mut State) -> Arc<Standing> {
        let document = self.documents.snapshot();
        let generation = self.settings.current().generation;
        if let Some(standing) = &state.standing {
            if standing.generation == generation && Arc::ptr_eq(&standing.on_disk, &document) {
                return Arc::clone(standing);
            }
            // The same content may be refused now, or not be any more: who owns a file or may write it counts too.
            if standing.on_disk.status != document.status {
                state.revision += 1;
            }
        }
        let (settings, text) = self.settings.with_policy_text();
        if let Some(text) = text {
            self.see_config(state, text, settings.policy.clone());
        }
        self.see_document(state, &document);
        let standing = Arc::new(state.stand(settings, document));
        state.standing = Some(Arc::clone(&standing));
        standing
    }

    fn see_config(&self, state: &mut State, PolicyText { text, hash }: PolicyText, policy: PolicyConfig) {
        let origin = state.seen_as(state.announced_config.as_ref(), &hash, self.takes_two());
        let proposer = proposer(origin, state.announced_config.as_ref(), &hash);
        let value = Arc::new(ConfigContent {
            text,
            policy: Some(policy),
        });
        let proposer = proposer.filter(|_| widens(state.config.held(), &value, config_allows));
        let told = told(state.config.held());
        let before = state.config.accepted().map(|content| Arc::clone(&content.value));
        let now = self.clock.now().get();
        match state
            .config
            .see(Content { hash, value }, origin, now, config_allows)
        {
            Step::Same => {}
            Step::Held => {
                state.revision += 1;
                let now = self::told(state.config.held());
                if state.config_proposals.note(proposer, &told, &now) {
                    self.keep(state, PolicyFile::Config);
                }
            }
            Step::Accepted => {
                state.revision += 1;
                let had_proposals = state.forget_proposals(PolicyFile::Config);
                let is_same = before.zip(state.config.accepted()).is_some_and(|(before, now)| {
                    before.policy.is_some() && before.policy == now.value.policy
                });
                if !is_same || had_proposals {
                    self.keep(state, PolicyFile::Config);
                }
            }
        }
    }

    fn see_document(&self, state: &mut State, document: &Arc<Snapshot>) {
        if let DocumentStatus::Refused(_) = document.status {
            if state.document.forget_edit() != Step::Same {
                state.revision += 1;
            }
            if state.document.accepted().is_none() {
                // Whatever comes later allows more than this.
                let nothing = Snapshot::of_accepted(Some(b""), String::new());
                state.document = Hold::of(Some(Content {
                    hash: nothing.hash.clone(),
                    value: Arc::new(nothing),
                }));
                self.keep(state, PolicyFile::Document);
            }
            return;
        }
        let origin = state.origin(state.announced_document.as_ref(), &document.hash);
        let content = Content {
            hash: document.hash.clone(),
            value: Arc::clone(document),
        };
        let before = state
            .document
            .accepted()
            .map(|content| Arc::clone(&content.value));
        let before_document = before.clone();
        let now = self.clock.now().get();
        let seen_as = state.seen_as(
            state.announced_document.as_ref(),
            &document.hash,
            self.takes_two(),
        );
        let proposer = proposer(seen_as, state.announced_document.as_ref(), &document.hash);
        let restated = state.restate_with_token(document);
        let proposer = proposer.filter(|_| widens(state.document.held(), document, document_allows));
        let told = told(state.document.held());
        match state.document.see(content, seen_as, now, document_allows) {
            Step::Same => {}
            Step::Held => {
                state.revision += 1;
                let now = self::told(state.document.held());
                if state.document_proposals.note(proposer, &told, &now) || restated {
                    self.keep(state, PolicyFile::Document);
                }
            }
            Step::Accepted => {
                state.revision += 1;
                let had_proposals = state.forget_proposals(PolicyFile::Document);
                // Notes of use are written every second while commands run; they allow nothing and need no copy.
                let is_same = before.is_some_and(|before| {
                    document_allows(&before, document).is_empty()
                        && document_allows(document, &before).is_empty()
                });
                let lost_other = state.note_lost_rules(before_document.as_ref(), document, origin);
                if lost_other || !is_same || had_proposals {
                    self.keep(state, PolicyFile::Document);
                }
            }
        }
    }

    /// Keeps what counts, so that a restart does not accept anything else. A copy that cannot be written leaves the
    /// one before: the next server may hold more than this one does, never less.
    fn keep(&self, state: &State, file: PolicyFile) {
        let coming = |announced: &Option<Announced>| {
            announced.as_ref().map(|announced| Coming {
                hash: announced.hash.clone(),
                whole: announced.ours == Ours::Whole,
                by: announced.by.clone(),
            })
        };
        let (path, content) = match file {
            PolicyFile::Document => (
                &self.document_copy,
                state.document.accepted().map(copy_of_document),
            ),
            PolicyFile::Config => {
                let content = state.config.accepted();
                let copied = content.map(|content| (content.hash.clone(), content.value.text.clone()));
                (&self.config_copy, copied)
            }
        };
        let Some((hash, text)) = content else { return };
        let copy = Copy {
            hash,
            text,
            quiet_since_ms: state.quiet_since,
            coming: match file {
                PolicyFile::Document => coming(&state.announced_document),
                PolicyFile::Config => coming(&state.announced_config),
            },
            lost: match file {
                PolicyFile::Document => state.lost.clone(),
                PolicyFile::Config => Vec::new(),
            },
            proposals: match file {
                PolicyFile::Document => state.document_proposals.clone(),
                PolicyFile::Config => state.config_proposals.clone(),
            },
        };
        if let Err(error) = copy.write(path) {
            tracing::error!(
                file.path = %path.display(),
                error = &error as &dyn std::error::Error,
                "the accepted policy cannot be kept; after a restart edits may have to be accepted again"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of policy that allow more than what a server accepted of them last, and what, in words.
pub fn edits_since_accepted(
    state_dir: &StateDir,
    settings: &SettingsStore,
    document: &Arc<Snapshot>,
    document_path: &Path,
) -> Vec<(PathBuf, Vec<String>)> {
    let mut edits = Vec::new();
    if let Some(copy) = Copy::read(&state_dir.accepted_document())
        && copy.hash != document.hash
    {
        let accepted = copy.into_snapshot().value;
        edits.push((document_path.to_owned(), document_allows(&accepted, document)));
    }
    let (current, text) = settings.with_policy_text();
    if let (Some(copy), Some(text)) = (Copy::read(&state_dir.accepted_config()), text)
        && copy.hash != text.hash
    {
        let accepted = copy.into_config(settings).value;
        let later = Arc::new(ConfigContent {
            text: text.text,
            policy: Some(current.policy.clone()),
        });
        edits.push((state_dir.config(), config_allows(&accepted, &later)));
    }
    edits.retain(|(_path, allows)| !allows.is_empty());
    edits
}

/// Deny rules and grants that a writer from outside took out of the document as a whole, as far as nobody put them back
/// or said that they are not missed (`approvals-store.md` 3).
pub fn lost_rules(state_dir: &StateDir, document: &Snapshot) -> Vec<LostRules> {
    let Some(mut copy) = Copy::read(&state_dir.accepted_document()) else {
        return Vec::new();
    };
    let mut lost = std::mem::take(&mut copy.lost);
    let accepted = copy.into_snapshot().value;
    if accepted.hash != document.hash
        && let (Some(before), Some(later)) = (accepted.document(), document.document())
    {
        add_lost(&mut lost, before.lost_rules(later));
    }
    still_missing(lost, document)
}

fn add_lost(lost: &mut Vec<LostRules>, more: Vec<LostRules>) {
    for rules in more {
        lost.retain(|known| known.agent != rules.agent);
        lost.push(rules);
    }
}

fn still_missing(lost: Vec<LostRules>, document: &Snapshot) -> Vec<LostRules> {
    match document.document() {
        Some(document) => lost
            .into_iter()
            .filter_map(|rules| rules.still_missing(document))
            .collect(),
        // Nothing runs by a document that is refused, and nothing is known of it.
        None => lost,
    }
}

impl State {
    /// Notes what a new content that counts lacks. Says whether that is something new.
    fn note_lost_rules(&mut self, before: Option<&Arc<Snapshot>>, now: &Snapshot, origin: Origin) -> bool {
        let was = self.lost.clone();
        match origin {
            // An operator answers for the whole.
            Origin::Whole => self.lost.clear(),
            Origin::Part | Origin::Proposed => {}
            Origin::OutsideQuiet | Origin::OutsideRisky => {
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
            PolicyFile::Document => &mut self.announced_document,
            PolicyFile::Config => &mut self.announced_config,
        }
    }

    fn proposals(&mut self, file: PolicyFile) -> &mut Proposals {
        match file {
            PolicyFile::Document => &mut self.document_proposals,
            PolicyFile::Config => &mut self.config_proposals,
        }
    }

    /// Forgets who proposed something when nothing is held any more. Says whether there was anybody.
    fn forget_proposals(&mut self, file: PolicyFile) -> bool {
        let is_held = match file {
            PolicyFile::Document => self.document.held().is_some(),
            PolicyFile::Config => self.config.held().is_some(),
        };
        !is_held && !std::mem::take(self.proposals(file)).is_empty()
    }

    /// The token that was drawn for a document of ours is no change of what counts.
    fn restate_with_token(&mut self, document: &Snapshot) -> bool {
        let drew = |announced: &Announced| announced.drew_token && announced.hash == document.hash;
        let token = document.document().and_then(Document::socket_token);
        let accepted = self
            .document
            .accepted()
            .and_then(|content| content.value.document());
        let (Some(token), Some(accepted)) = (token, accepted) else {
            return false;
        };
        if !self.announced_document.as_ref().is_some_and(drew) || accepted.socket_token().is_some() {
            return false;
        }
        let mut restated = accepted.clone();
        restated.set_socket_token(token.clone());
        let snapshot = Arc::new(Snapshot::of_edited(&restated));
        self.document.restate(Content {
            hash: snapshot.hash.clone(),
            value: snapshot,
        });
        true
    }

    /// Whose a content is where it may take two people to widen.
    fn seen_as(&self, announced: Option<&Announced>, hash: &str, takes_two: bool) -> Origin {
        let is_note =
            announced.is_some_and(|announced| announced.hash == hash && announced.ours == Ours::Note);
        if takes_two && !is_note {
            Origin::Proposed
        } else {
            self.origin(announced, hash)
        }
    }

    fn origin(&self, announced: Option<&Announced>, hash: &str) -> Origin {
        match announced
            .filter(|announced| announced.hash == hash)
            .map(|announced| announced.ours)
        {
            Some(Ours::Part | Ours::Note) => Origin::Part,
            Some(Ours::Whole) => Origin::Whole,
            None if self.began => Origin::OutsideRisky,
            None => Origin::OutsideQuiet,
        }
    }

    /// From here on only runs that begin later count, unless one is under way or something is held. Whoever begins one
    /// has its place before it looks here, so that none comes in between.
    fn calm_down(&mut self, is_idle: impl FnOnce() -> bool, now: i64) {
        if is_idle() && self.document.held().is_none() && self.config.held().is_none() {
            self.began = false;
            self.quiet_since = now;
        }
    }

    fn stand(&self, settings: Arc<Settings>, document: Arc<Snapshot>) -> Standing {
        let accepted = self.config.accepted().filter(|_| self.config.held().is_some());
        let is_unknown = accepted.is_some_and(|content| content.value.policy.is_none());
        let counted = match accepted.and_then(|content| content.value.policy.clone()) {
            Some(policy) => Arc::new(settings.with_policy(policy)),
            // Nothing is held, or only the edit is known, and then the document below denies.
            None => Arc::clone(&settings),
        };
        let counted_document = match (self.document.held(), self.document.accepted()) {
            _ if is_unknown => Arc::new(Snapshot::of_accepted(Some(b""), document.hash.clone())),
            (Some(_), Some(accepted)) => Arc::clone(&accepted.value),
            (_, _) => Arc::clone(&document),
        };
        let is_held = self.document.held().is_some() || self.config.held().is_some();
        Standing {
            on_disk: Arc::clone(&document),
            generation: settings.generation,
            revision: self.revision,
            held_document: self
                .document
                .held()
                .map(|held| held_edit(held, &self.document_proposals)),
            held_config: self
                .config
                .held()
                .map(|held| held_edit(held, &self.config_proposals)),
            settings: counted,
            document: counted_document,
            edited: is_held.then_some((settings, document)),
        }
    }
}

impl Copy {
    /// What was kept, if anything was. What cannot be read counts as an accepted content that allows nothing.
    fn read(path: &Path) -> Option<Self> {
        let read = read_bounded(path, MAX_COPY_BYTES)
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from));
        match read {
            Ok(copy) => Some(copy),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::error!(
                    file.path = %path.display(),
                    error = &error as &dyn std::error::Error,
                    "the accepted policy cannot be read; nothing runs until an admin accepts the files as they are"
                );
                Some(Self {
                    hash: String::new(),
                    text: Some(String::new()),
                    quiet_since_ms: i64::MIN,
                    coming: None,
                    lost: Vec::new(),
                    proposals: Proposals::default(),
                })
            }
        }
    }

    fn into_snapshot(self) -> Content<Arc<Snapshot>> {
        let text = self.text.as_deref().map(str::as_bytes);
        Content {
            value: Arc::new(Snapshot::of_accepted(text, self.hash.clone())),
            hash: self.hash,
        }
    }

    fn into_config(self, settings: &SettingsStore) -> Content<Arc<ConfigContent>> {
        let policy = settings.policy_of(self.text.as_deref()).ok();
        let content = ConfigContent {
            text: self.text,
            policy,
        };
        Content {
            hash: self.hash,
            value: Arc::new(content),
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        replace_file(path, &serde_json::to_vec(self)?, PRIVATE_FILE)
    }
}

fn accept<T: Clone>(hold: &mut Hold<T>, hash: &str, now: i64) -> bool {
    let held = hold.held().filter(|held| held.content.hash == hash);
    let Some(content) = held.map(|held| held.content.clone()) else {
        return false;
    };
    hold.see(content, Origin::Whole, now, |_, _| Vec::new()) == Step::Accepted
}

/// Whoever is to be remembered for a content of ours that is held.
fn proposer(origin: Origin, announced: Option<&Announced>, hash: &str) -> Option<Actor> {
    let announced = announced.filter(|announced| announced.hash == hash && origin == Origin::Proposed)?;
    announced.by.clone()
}

/// What an edit that is held would newly allow.
fn told<T>(held: Option<&Held<T>>) -> Vec<String> {
    held.map_or_else(Vec::new, |held| held.allows.clone())
}

/// Whether a content allows anything that the one that is held does not: whoever only takes from that proposes nothing.
fn widens<T>(held: Option<&Held<T>>, content: &T, allows: impl FnOnce(&T, &T) -> Vec<String>) -> bool {
    held.is_none_or(|held| !allows(&held.content.value, content).is_empty())
}

fn held_edit<T>(held: &Held<T>, proposals: &Proposals) -> HeldEdit {
    HeldEdit {
        hash: held.content.hash.clone(),
        since: UnixMillis::new(held.since_ms),
        allows: held.allows.clone(),
        proposed_by: proposals.people(),
    }
}

/// The text to keep. It is as secret as the document is, the socket's token being in it.
fn copy_of_document(content: &Content<Arc<Snapshot>>) -> (String, Option<String>) {
    let text = match (&content.value.status, content.value.document()) {
        (DocumentStatus::Missing, _) => None,
        (DocumentStatus::Ok, Some(document)) => Some(document.print()),
        // One that was refused when it was read back stays so.
        (DocumentStatus::Ok | DocumentStatus::Refused(_), _) => Some(String::new()),
    };
    (content.hash.clone(), text)
}

fn document_allows(before: &Arc<Snapshot>, later: &Arc<Snapshot>) -> Vec<String> {
    match (before.document(), later.document()) {
        (Some(before), Some(later)) => before.difference(later).allows,
        (None, _) => vec!["everything that it allows: what was accepted cannot be read".to_owned()],
        (Some(_), None) => Vec::new(),
    }
}

fn config_allows(before: &Arc<ConfigContent>, later: &Arc<ConfigContent>) -> Vec<String> {
    match (&before.policy, &later.policy) {
        (Some(before), Some(later)) => before.newly_allowed_by(later),
        (None, _) => vec!["everything that it allows: what was accepted cannot be read".to_owned()],
        (Some(_), None) => Vec::new(),
    }
}
