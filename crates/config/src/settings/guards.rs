//! The guards of `countersign.toml`: keys whose loosening takes two people, where nobody widens alone
//! (`docs/spec/settings.md#2-countersigntoml`, `[approvals] widening`). What was accepted of them lies in a private file, so
//! that a restart accepts nothing.

use std::{collections::BTreeMap, io, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use countersign_sys::fs::{PRIVATE_FILE, read_bounded, replace_file};

use super::{
    server::{KEYS, ReloadMode},
    server_sources::ServerValues,
    source_file::MAX_BYTES,
};

/// The key that says that nobody widens alone.
const WIDENING: &str = "approvals.widening";

/// The name of what was rejected; no setting has a blank in its name.
const REJECTED: &str = "rejected content";

/// The accepted value of each guard, and the hash of the content of `countersign.toml` whose looser ones an admin rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Guards(BTreeMap<String, Value>);

impl Guards {
    /// The values that guards have there.
    pub(super) fn of(values: &ServerValues) -> Self {
        Self(
            guards()
                .filter_map(|(name, _tightens)| Some((name.to_owned(), values.get(name)?.clone())))
                .collect(),
        )
    }

    /// What an earlier server accepted; `None` where nothing was kept.
    ///
    /// # Errors
    /// What the system answers, and [`io::ErrorKind::InvalidData`] for what no server wrote: then nothing is known of what
    /// was accepted.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let bytes = match read_bounded(path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let read: Self = serde_json::from_slice(&bytes)?;
        if read.0.contains_key(WIDENING) {
            Ok(Some(read))
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        replace_file(path, &serde_json::to_vec(self)?, PRIVATE_FILE)
    }

    /// Keeps that an admin rejected the content with this hash.
    pub(super) fn reject(&mut self, hash: &str) {
        self.0.insert(REJECTED.to_owned(), Value::from(hash));
    }

    /// Whether an admin rejected the content with this hash.
    pub(super) fn has_rejected(&self, hash: &str) -> bool {
        self.0.get(REJECTED).is_some_and(|rejected| rejected == hash)
    }

    /// A rejection is of one content: with another one it is over.
    pub(super) fn follow_content(&mut self, hash: &str) {
        if !self.has_rejected(hash) {
            self.0.remove(REJECTED);
        }
    }

    /// Whether it takes two people to loosen one of them.
    pub(super) fn take_two(&self) -> bool {
        self.0.get(WIDENING).is_some_and(|value| value == "ask")
    }

    /// Follows what only tightens.
    pub(super) fn tighten(&mut self, later: &ServerValues) {
        for (name, tightens) in guards() {
            if let (Some(accepted), Some(later)) = (self.0.get_mut(name), later.get(name))
                && tightens(accepted, later)
            {
                accepted.clone_from(later);
            }
        }
    }

    /// The accepted value of a guard that is looser there.
    pub(super) fn tighter_than(&self, name: &str, later: &Value) -> Option<&Value> {
        let (_name, tightens) = guards().find(|(guard, _tightens)| *guard == name)?;
        let accepted = self.0.get(name)?;
        (accepted != later && !tightens(accepted, later)).then_some(accepted)
    }
}

/// Whether the later value of a setting only tightens the one before.
type Tightens = fn(&Value, &Value) -> bool;

fn guards() -> impl Iterator<Item = (&'static str, Tightens)> {
    KEYS.iter().filter_map(|key| match key.reload {
        ReloadMode::Tighten(tightens) => Some((key.name, tightens)),
        ReloadMode::Live | ReloadMode::Restart => None,
    })
}
