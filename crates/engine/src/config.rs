//! `openclaw.json` as an operator reads and changes it.

use std::sync::Arc;

use serde_json::{Map, Value};

use countersign_config::settings::{
    ConfigFile, ConfigFileError, EditError, EffectiveValue, KeyEdit, config_edit,
};
use countersign_domain::{Actor, Precondition};
use countersign_ledger::{
    audit::AuditAction,
    events::{Event, EventKind, PolicyPart},
};

use crate::{
    accepted_policy::PolicyFile, document::Telling, policy_admin::PolicyAdmin, reply::StorageTrouble,
};

/// The keys of `openclaw.json` with their effective values, and the hash of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Every key, then those that agents have of their own. While the file is rejected these are the last good ones.
    pub values: Vec<EffectiveValue>,
    /// What names the file's content.
    pub hash: String,
}

/// Why the configuration was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file changed since it was read.
    #[error("the configuration changed since it was read")]
    Changed {
        /// The hash of what is there.
        current: String,
    },
    /// The change cannot be made.
    #[error(transparent)]
    Edit(EditError),
    /// The file as it is cannot be edited.
    #[error("openclaw.json cannot be read, so nothing of it could be kept")]
    Unreadable {
        /// The hash of what is there.
        current: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] ConfigFileError),
    /// The change could not be recorded, so it was not made.
    #[error("the change cannot be recorded")]
    Storage(#[from] StorageTrouble),
}

impl PolicyAdmin {
    /// The configuration in force.
    pub fn config(&self) -> Config {
        self.policy.refresh();
        let (values, hash) = self.settings.config();
        Config { values, hash }
    }

    /// The hash of `openclaw.json` as it is.
    pub fn config_hash(&self) -> String {
        self.policy.refresh();
        self.settings.config_hash()
    }

    /// Changes keys of `openclaw.json`, all of them or none. It counts when this returns.
    ///
    /// # Errors
    /// [`ConfigError`]; the file is as it was.
    #[crate::compiled_once]
    pub async fn change_config<'a>(
        self: &'a Arc<Self>,
        by: &'a Actor,
        expected: Precondition,
        edits: Vec<KeyEdit>,
    ) -> Result<Config, ConfigError> {
        let (admin, by) = (Arc::clone(self), by.clone());
        let changed =
            tokio::task::spawn_blocking(move || admin.change_config_blocking(&by, &expected, &edits));
        // Only a panic or the end of the process makes the task fail.
        changed
            .await
            .unwrap_or_else(|_not_finished| Err(StorageTrouble::Unavailable.into()))?;
        Ok(self.config())
    }

    fn change_config_blocking(
        &self,
        by: &Actor,
        expected: &Precondition,
        edits: &[KeyEdit],
    ) -> Result<(), ConfigError> {
        let held = ConfigFile::hold(self.settings.state_dir())?;
        if !expected.allows(held.hash()) {
            return Err(ConfigError::Changed {
                current: held.hash().to_owned(),
            });
        }
        let edited = config_edit(held.text(), edits, self.settings.state_dir())
            .map_err(|error| ConfigError::of_edit(error, &held))?;
        if !edited.changed {
            return Ok(());
        }
        let staged = held.stage(&edited.text)?;
        let kind = EventKind::PolicyChanged {
            what: PolicyPart::Config,
            hash: None,
            by: Some(by.clone()),
        };
        let telling = Telling::with_audit(
            Event::general(kind),
            by,
            AuditAction::ConfigChanged,
            PolicyPart::Config,
            detail(edits, held.hash(), staged.hash()),
        );
        self.record_blocking(by, telling)?;
        self.policy.announce_config(&held, &staged, Some(by));
        let committed = staged.commit();
        self.policy.finish_change(PolicyFile::Config);
        if committed.is_ok() {
            self.accepted_policy.amend_config(|_text| Some(edits.to_vec()));
            self.policy.refresh();
        }
        Ok(committed?)
    }
}

impl ConfigError {
    pub(super) fn of_edit(error: EditError, held: &ConfigFile) -> Self {
        match error {
            EditError::Unreadable(_) => Self::Unreadable {
                current: held.hash().to_owned(),
            },
            EditError::UnknownKey { .. }
            | EditError::NoSuchPlace { .. }
            | EditError::ReservedName { .. }
            | EditError::NotOurs { .. }
            | EditError::Rejected(_)
            | EditError::Path(_) => Self::Edit(error),
        }
    }
}

/// Which keys were changed; not to what, since some hold values that are nobody else's business.
fn detail(edits: &[KeyEdit], before: &str, after: &str) -> Map<String, Value> {
    let paths = |set: bool| {
        let paths = edits.iter().filter_map(|edit| match edit {
            KeyEdit::Set { path, .. } => set.then(|| Value::from(path.to_string())),
            KeyEdit::Unset { path } => (!set).then(|| Value::from(path.to_string())),
        });
        Value::Array(paths.collect())
    };
    Map::from_iter([
        ("set".to_owned(), paths(true)),
        ("unset".to_owned(), paths(false)),
        ("previousHash".to_owned(), Value::from(before)),
        ("hash".to_owned(), Value::from(after)),
    ])
}
