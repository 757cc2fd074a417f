//! What is kept of the accepted contents beside the ledger, and what a program that does not serve reads from it.
//! Entry point: [`struct@Copy`].

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use countersign_config::{
    approvals::{
        document::LostRules,
        store::{DocumentStatus, Snapshot},
    },
    settings::{PolicyConfig, SettingsStore, StateDir, config_values},
};
use countersign_domain::{Actor, UnixMillis};
use countersign_policy::{
    changes::Changes,
    pending_change::{ChangeControl, Content},
    proposals::Proposals,
};
use countersign_sys::fs::{PRIVATE_FILE, read_bounded, replace_file};

use super::{
    Ours,
    watched::{Announced, Watched},
};

/// A file of the largest size, escaped, and room for the rules that others took out of it.
const MAX_COPY_BYTES: usize = 64 * 1024 * 1024;

/// What is kept of an accepted content.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Copy {
    hash: String,
    text: Option<String>,
    /// Since when a gateway run counts.
    pub(super) quiet_since_ms: i64,
    /// What we are about to put in its place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    coming: Option<Coming>,
    /// What others took out of the document.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) lost: Vec<LostRules>,
    /// Who proposed the pending change.
    #[serde(skip_serializing_if = "Proposals::is_empty", default)]
    proposals: Proposals,
    /// The hash of the pending change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    held: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Coming {
    hash: String,
    whole: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    by: Option<Actor>,
}

/// The policy part of `openclaw.json`.
#[derive(Debug)]
pub(super) struct ConfigContent {
    pub(super) text: Option<String>,
    /// `None` for an accepted text that cannot be read any more; then nothing of a later one is accepted by itself.
    pub(super) policy: Option<PolicyConfig>,
}

impl Copy {
    /// What is to be kept, once something counts. `text` says how a content is written.
    pub(super) fn of<T>(
        watched: &Watched<T>,
        text: impl FnOnce(&T) -> Option<String>,
        quiet_since_ms: i64,
        lost: &[LostRules],
    ) -> Option<Self> {
        let content = watched.control.accepted()?;
        Some(Self {
            hash: content.hash.clone(),
            text: text(&content.value),
            quiet_since_ms,
            coming: watched.announced.as_ref().map(|announced| Coming {
                hash: announced.hash.clone(),
                whole: announced.ours == Ours::Whole,
                by: announced.by.clone(),
            }),
            lost: lost.to_vec(),
            proposals: watched.proposals.clone(),
            held: watched.known.clone(),
        })
    }

    /// What an earlier server knew of the file.
    pub(super) fn restore<T>(mut self, content: impl FnOnce(Self) -> Content<T>) -> Watched<T> {
        let coming = self.coming.take();
        Watched {
            announced: coming.map(|coming| Announced {
                hash: coming.hash,
                ours: if coming.whole { Ours::Whole } else { Ours::Part },
                by: coming.by,
                drew_token: false,
                writer: None,
            }),
            proposals: std::mem::take(&mut self.proposals),
            known: self.held.take(),
            control: ChangeControl::of(Some(content(self))),
        }
    }

    /// What was kept, if anything was. What cannot be read counts as an accepted content that allows nothing.
    pub(super) fn read(path: &Path) -> Option<Self> {
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
                    held: None,
                })
            }
        }
    }

    /// The accepted document. Where it is what is on disk, that is taken, and not read a second time.
    pub(super) fn into_snapshot(self, on_disk: &Arc<Snapshot>) -> Content<Arc<Snapshot>> {
        if self.hash == on_disk.hash && on_disk.document().is_some() {
            return Content {
                hash: self.hash,
                value: Arc::clone(on_disk),
            };
        }
        let text = self.text.as_deref().map(str::as_bytes);
        Content {
            value: Arc::new(Snapshot::of_accepted(text, self.hash.clone())),
            hash: self.hash,
        }
    }

    pub(super) fn into_config(self, settings: &SettingsStore) -> Content<Arc<ConfigContent>> {
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

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        replace_file(path, &serde_json::to_vec(self)?, PRIVATE_FILE)
    }
}

/// The files of policy that allow more than what a server accepted of them last, and what, in words.
pub fn edits_since_accepted(
    state_dir: &StateDir,
    settings: &SettingsStore,
    document: &Arc<Snapshot>,
    document_path: &Path,
    now: UnixMillis,
) -> Vec<(PathBuf, Vec<String>)> {
    let mut edits = Vec::new();
    if let Some(copy) = Copy::read(&state_dir.accepted_document())
        && copy.hash != document.hash
    {
        let accepted = copy.into_snapshot(document).value;
        let allows = document_allows(&accepted, document, now);
        edits.push((document_path.to_owned(), allows));
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
/// or said that they are not missed (`docs/spec/approvals-store.md#3-fields`).
pub fn lost_rules(state_dir: &StateDir, document: &Arc<Snapshot>) -> Vec<LostRules> {
    let Some(mut copy) = Copy::read(&state_dir.accepted_document()) else {
        return Vec::new();
    };
    let mut lost = std::mem::take(&mut copy.lost);
    let accepted = copy.into_snapshot(document).value;
    if accepted.hash != document.hash
        && let (Some(before), Some(later)) = (accepted.document(), document.document())
    {
        add_lost(&mut lost, before.lost_rules(later));
    }
    still_missing(lost, document)
}

pub(super) fn add_lost(lost: &mut Vec<LostRules>, more: Vec<LostRules>) {
    let again: HashSet<&str> = more.iter().map(|rules| rules.agent.as_str()).collect();
    lost.retain(|known| !again.contains(known.agent.as_str()));
    lost.extend(more);
}

pub(super) fn still_missing(lost: Vec<LostRules>, document: &Snapshot) -> Vec<LostRules> {
    match document.document() {
        Some(document) => LostRules::still_missing(lost, document),
        // Nothing runs by a document that is refused, and nothing is known of it.
        None => lost,
    }
}

/// How an accepted document is written. It is as secret as the document is, the socket's token being in it.
pub(super) fn document_text(document: &Arc<Snapshot>) -> Option<String> {
    match (&document.status, document.document()) {
        (DocumentStatus::Missing, _) => None,
        (DocumentStatus::Ok, Some(document)) => Some(document.print_compact()),
        // One that was refused when it was read back stays so.
        (DocumentStatus::Ok | DocumentStatus::Refused(_), _) => Some(String::new()),
    }
}

/// What a document newly allows at this time, in words.
pub(super) fn document_allows(before: &Arc<Snapshot>, later: &Arc<Snapshot>, now: UnixMillis) -> Vec<String> {
    match (before.document(), later.document()) {
        (Some(before), Some(later)) => before.difference(later, now).allows,
        (None, _) => vec!["everything that it allows: what was accepted cannot be read".to_owned()],
        (Some(_), None) => Vec::new(),
    }
}

/// What settings newly allow, in words.
pub(super) fn config_allows(before: &Arc<ConfigContent>, later: &Arc<ConfigContent>) -> Vec<String> {
    match (&before.policy, &later.policy) {
        (Some(before), Some(later)) => before.newly_allowed_by(later),
        (None, _) => vec!["everything that it allows: what was accepted cannot be read".to_owned()],
        (Some(_), None) => Vec::new(),
    }
}

/// What an edit of the document changes, in words.
pub(super) fn document_changes(before: &Arc<Snapshot>, later: &Arc<Snapshot>) -> Changes {
    match (before.document(), later.document()) {
        (Some(before), Some(later)) => before.changes(later),
        (None, _) | (Some(_), None) => Changes::default(),
    }
}

/// What an edit of `openclaw.json` changes, key by key.
pub(super) fn config_changes(
    before: &Arc<ConfigContent>,
    later: &Arc<ConfigContent>,
    state_dir: &StateDir,
) -> Changes {
    let values = |content: &ConfigContent| {
        let values = config_values(content.text.as_deref(), state_dir).unwrap_or_default();
        values
            .into_iter()
            .map(|value| (value.key, value.value))
            .collect::<BTreeMap<_, _>>()
    };
    let (was, is) = (values(before), values(later));
    let mut changes = Changes::default();
    let mut keys: Vec<&String> = was.keys().chain(is.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        changes.note(
            key.as_str(),
            was.get(key).and_then(setting_in_words),
            is.get(key).and_then(setting_in_words),
        );
    }
    changes
}

/// A value as it is shown; `None` where it is unset.
pub(super) fn setting_in_words(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Some(value.to_string()),
    }
}
