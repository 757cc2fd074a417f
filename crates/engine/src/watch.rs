//! Noticing that the policy changed, and telling of it once.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio_util::task::TaskTracker;

use countersign_config::{
    approvals::store::{DocumentStatus, Pending},
    settings::{ConfigFile, RejectedFile, SettingsStore, StagedConfig, WaitingValue, WaitsFor},
};
use countersign_domain::Actor;
use countersign_ledger::{
    Ledger, PolicyStamp, PolicyWatch,
    events::{Event, EventKind, PolicyPart},
};

use crate::{
    accepted_policy::{AcceptedPolicy, Ours, PendingChange, PolicyFile, PolicyInEffect},
    again::Again,
    evaluator::policy_now::PolicyNow,
    slots::Slots,
};

/// The policy as the ledger's writer looks at it just before a launch.
#[derive(Debug)]
pub struct PolicyFiles(Arc<AcceptedPolicy>);

impl PolicyFiles {
    /// At each launch the writer sees what `hold` has in effect then.
    pub const fn new(hold: Arc<AcceptedPolicy>) -> Self {
        Self(hold)
    }
}

impl PolicyWatch for PolicyFiles {
    fn stamp(&self) -> PolicyStamp {
        self.0.in_effect_at_launch().stamp()
    }
}

/// What was last reported.
#[derive(Debug, Default)]
struct PolicySeen {
    reported: Mutex<Reported>,
    unrecorded: Arc<Unrecorded>,
}

/// Events of changes that were noticed, in their order; each change starts a task that records what is there.
#[derive(Debug, Default)]
struct Unrecorded {
    events: Mutex<VecDeque<EventKind>>,
    /// One task records at a time, so that the record has the order of the changes.
    turn: tokio::sync::Mutex<()>,
}

impl Unrecorded {
    fn events(&self) -> MutexGuard<'_, VecDeque<EventKind>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn record(&self, ledger: &Ledger) {
        let _turn = self.turn.lock().await;
        loop {
            let Some(kind) = self.events().pop_front() else {
                return;
            };
            if let Err(error) = ledger.record(Event::general(kind), Actor::system()).await {
                tracing::error!(error = %error, "a change of policy is not recorded");
            }
        }
    }
}

#[derive(Debug, Default)]
struct Reported {
    seen: Option<ObservedPolicy>,
    /// Contents that are about to be put in place; the code that changes them has reported them.
    announced_document: Option<String>,
    announced_config: Option<String>,
    /// What was there when only a note was announced, and the content with it: nothing is judged differently by that.
    note: Option<(ObservedPolicy, String)>,
}

#[derive(Debug, Clone, PartialEq)]
struct ObservedPolicy {
    generation: u64,
    rejected: Vec<RejectedFile>,
    config: String,
    document: String,
    pending_document: Option<String>,
    is_config_pending: bool,
    /// What of `countersign.toml` is not in force.
    waiting: Vec<WaitingValue>,
}

impl PolicySeen {
    /// The document is about to be this one, which was reported. `None`: it will not be, or was seen.
    fn announce_document(&self, hash: Option<&str>) {
        let mut reported = self.lock();
        reported.announced_document = hash.map(str::to_owned);
        reported.note = None;
    }

    /// The document is about to be this one, which is `before` with a note in it. Where something else was seen last,
    /// that is still to be looked at.
    fn announce_note(&self, before: &str, hash: &str) {
        let mut reported = self.lock();
        let seen = reported.seen.clone().filter(|seen| seen.document == before);
        reported.note = seen.map(|seen| (seen, hash.to_owned()));
        reported.announced_document = Some(hash.to_owned());
    }

    /// Whether what was seen just now differs by more than the note that was announced from what was seen before it.
    fn is_more_than_note(&self, now: &ObservedPolicy) -> bool {
        let reported = self.lock();
        let noted = reported.note.as_ref().map(|(before, hash)| ObservedPolicy {
            document: hash.clone(),
            ..before.clone()
        });
        noted.as_ref() != Some(now)
    }

    /// `openclaw.json` is about to be this one, which was reported. `None`: it will not be, or was seen.
    fn announce_config(&self, hash: Option<&str>) {
        self.lock().announced_config = hash.map(str::to_owned);
    }

    fn lock(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, now: &ObservedPolicy) -> bool {
        self.lock().seen.as_ref() == Some(now)
    }

    /// Remembers what `read` finds and returns it, if something else was there before; what `events` makes of both is
    /// queued for the record.
    ///
    /// All of it under the lock: of two that read at once, the one that saw the older files must not come last, or the
    /// newer ones would be reported twice.
    fn replace<T>(
        &self,
        read: impl FnOnce() -> (ObservedPolicy, T),
        events: impl FnOnce(&ObservedPolicy, &ObservedPolicy, &T) -> Vec<EventKind>,
    ) -> Option<(ObservedPolicy, T)> {
        let mut reported = self.lock();
        let (now, found) = read();
        if reported.seen.as_ref() == Some(&now) {
            return None;
        }
        let mut before = reported.seen.replace(now.clone())?;
        if reported.announced_document.as_ref() == Some(&now.document) {
            before.document.clone_from(&now.document);
        }
        if before.config != now.config && reported.announced_config.as_ref() == Some(&now.config) {
            before.generation = now.generation;
        }
        self.unrecorded.events().extend(events(&before, &now, &found));
        Some((now, found))
    }
}

/// What the policy is read from, and where a change of it is noticed and told of.
#[derive(Debug)]
pub(super) struct PolicySource {
    accepted: Arc<AcceptedPolicy>,
    settings: Arc<SettingsStore>,
    ledger: Ledger,
    seen: PolicySeen,
    /// Has the questions that wait judged again.
    again: Arc<Again>,
    slots: Arc<Slots>,
    tasks: TaskTracker,
    /// What an earlier server left was looked at.
    is_recovered: AtomicBool,
}

/// What a change of the policy wakes.
pub(super) struct Woken {
    pub(super) again: Arc<Again>,
    pub(super) slots: Arc<Slots>,
    pub(super) tasks: TaskTracker,
}

impl PolicySource {
    pub(super) fn new(
        accepted: Arc<AcceptedPolicy>,
        settings: Arc<SettingsStore>,
        ledger: Ledger,
        woken: Woken,
    ) -> Self {
        let Woken { again, slots, tasks } = woken;
        Self {
            accepted,
            settings,
            ledger,
            seen: PolicySeen::default(),
            again,
            slots,
            tasks,
            is_recovered: AtomicBool::new(false),
        }
    }

    /// Reads both files and reports what changed. Cheap when nothing did.
    pub(super) fn refresh(&self) -> Arc<PolicyInEffect> {
        let (now, in_effect) = self.seen_now();
        if !self.seen.is(&now)
            && let Some((now, in_effect)) = self.seen.replace(|| self.seen_now(), events_of)
        {
            self.again.saw([&now.document, &now.config]);
            if self.seen.is_more_than_note(&now) {
                self.again.wake();
            }
            let (ledger, unrecorded) = (self.ledger.clone(), Arc::clone(&self.seen.unrecorded));
            self.tasks.spawn(async move { unrecorded.record(&ledger).await });
            return in_effect;
        }
        in_effect
    }

    /// Looks at settings and document again and returns the present policy.
    pub(super) fn now(&self) -> PolicyNow {
        PolicyNow::of(&self.refresh())
    }

    /// From now on an edit that was found while nothing ran may be trusted as one of a quiet time.
    pub(super) fn note_recovered(&self) {
        self.is_recovered.store(true, Ordering::SeqCst);
    }

    /// The document is about to have this content, which is ours and was reported.
    pub(super) fn announce_document(&self, pending: &Pending<'_>, ours: Ours, by: &Actor) {
        self.again.announce(pending.hash, by);
        self.accepted.announce_document(pending, ours, Some(by));
        self.seen.announce_document(Some(pending.hash));
    }

    /// `openclaw.json` is about to have this content, which is ours and was reported.
    pub(super) fn announce_config(&self, base: &ConfigFile, staged: &StagedConfig, by: Option<&Actor>) {
        if let Some(by) = by {
            self.again.announce(staged.hash(), by);
        }
        self.accepted.announce_config(base, staged, by);
        self.seen.announce_config(Some(staged.hash()));
    }

    /// What was announced of a file is in place, or will not be.
    pub(super) fn finish_change(&self, file: PolicyFile) {
        self.accepted.finish_change(file, || self.is_idle());
        self.refresh();
        match file {
            PolicyFile::Document => self.seen.announce_document(None),
            PolicyFile::Config => self.seen.announce_config(None),
        }
    }

    /// The document is about to have this content, which only notes what people may like to know.
    pub(super) fn announce_note(&self, pending: &Pending<'_>) {
        self.accepted.announce_document(pending, Ours::Note, None);
        self.seen.announce_note(&pending.before.hash, pending.hash);
    }

    /// What [`Self::announce_note`] said is in place, or will not be.
    pub(super) fn finish_note(&self) {
        self.accepted.finish_note();
        self.refresh();
        self.seen.announce_document(None);
    }

    /// Whether no gateway run is under way, as far as that is known.
    pub(super) fn is_idle(&self) -> bool {
        let (running, _queued) = self.slots.counts();
        running == 0 && self.is_recovered.load(Ordering::SeqCst)
    }

    /// Why an edit of a settings file is not in force, in one line.
    pub(super) fn config_error(&self, in_effect: &PolicyInEffect) -> Option<String> {
        let rejected = self.rejected_files(in_effect).into_iter();
        let problems: Vec<String> = rejected.map(|file| file.problem).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    /// The settings files whose edits are not in force.
    fn rejected_files(&self, in_effect: &PolicyInEffect) -> Vec<RejectedFile> {
        let mut rejected = self.settings.rejected_files();
        rejected.extend(in_effect.pending_config.as_ref().map(|held| RejectedFile {
            name: "openclaw.json".to_owned(),
            problem: pending_edit("openclaw.json", held),
        }));
        rejected.extend(in_effect.pending_server.as_ref().map(|held| RejectedFile {
            name: "countersign.toml".to_owned(),
            problem: pending_edit("countersign.toml", held),
        }));
        rejected
    }

    fn seen_now(&self) -> (ObservedPolicy, Arc<PolicyInEffect>) {
        let in_effect = self.accepted.in_effect();
        let now = ObservedPolicy {
            generation: in_effect.generation,
            rejected: self.rejected_files(&in_effect),
            config: self.settings.config_hash(),
            document: in_effect.on_disk.hash.clone(),
            pending_document: in_effect.pending_document.as_ref().map(|held| held.hash.clone()),
            is_config_pending: in_effect.pending_config.is_some(),
            waiting: in_effect.settings.waiting.clone(),
        };
        (now, in_effect)
    }
}

/// Records an event that belongs to no other change.
pub(super) async fn tell(ledger: &Ledger, event: Event, by: Actor) {
    if let Err(error) = ledger.record(event, by).await {
        tracing::error!(error = %error, "an event is not recorded");
    }
}

/// What the record and the streams have of a change.
fn events_of(
    before: &ObservedPolicy,
    now: &ObservedPolicy,
    in_effect: &Arc<PolicyInEffect>,
) -> Vec<EventKind> {
    let mut events = Vec::new();
    if before.generation != now.generation && !now.is_config_pending {
        events.push(EventKind::PolicyChanged {
            what: PolicyPart::Config,
            hash: None,
            by: None,
        });
    }
    for file in now.rejected.iter().filter(|file| !before.rejected.contains(file)) {
        events.push(EventKind::ConfigRejected {
            path: file.name.clone(),
            message: file.problem.clone(),
        });
    }
    let waits = |waiting: &&WaitingValue| waiting.waits_for == WaitsFor::Restart;
    let paths: Vec<String> = now
        .waiting
        .iter()
        .filter(waits)
        .map(|waiting| waiting.key.clone())
        .collect();
    if !paths.is_empty() && now.waiting != before.waiting {
        events.push(EventKind::ConfigRestartNeeded { paths });
    }
    if let Some(hash) = &now.pending_document {
        if before.pending_document.as_ref() != Some(hash) {
            events.push(EventKind::DocumentHeld { hash: hash.clone() });
        }
    } else if before.document != now.document {
        events.push(match &in_effect.document.status {
            DocumentStatus::Refused(refusal) => EventKind::DocumentRefused {
                reason: refusal.reason.to_string(),
                pointer: refusal.pointer.clone(),
            },
            DocumentStatus::Missing | DocumentStatus::Ok => EventKind::PolicyChanged {
                what: PolicyPart::Document,
                hash: Some(now.document.clone()),
                by: None,
            },
        });
    }
    events
}

fn pending_edit(file: &str, held: &PendingChange) -> String {
    format!(
        "{file} was edited and would newly allow: {}; what it allowed before holds until {} accepts the edit \
         (countersign policy accept {})",
        held.allows.join("; "),
        held.who_accepts(),
        held.hash
    )
}
