//! Presets: the configuration and the approvals document changed together, or neither
//! (`docs/spec/exec-tool.md#11-presets`).
//!
//! Both new texts are on disk and recorded before either file changes, and a journal says what becomes of the
//! configuration once the document has changed. A server that dies before that leaves both as they were; one that dies
//! after it leaves the rest to the next start. Between the two renames the stricter of both layers counts, as always,
//! so that nothing runs that neither the policy before nor the one after allows.
//! Entry points: [`PolicyAdmin::apply_preset`], and `PolicyAdmin::finish_preset` before anything else at a start.

use std::{collections::BTreeSet, io, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use countersign_config::{
    approvals::{
        document::{Document, PolicyTarget},
        store::{Base, UpdateError},
    },
    settings::{ConfigFile, ConfigFileError, config_edit, preset_edits},
};
use countersign_domain::{Actor, AgentId, Ask, Security};
use countersign_ledger::events::{Event, EventKind, PolicyPart, Subject};
use countersign_policy::{
    combine::Wanted,
    layers::{Layer, Spoken},
    preset::{Preset, PresetReach},
};
use countersign_sys::{
    fs::{PRIVATE_FILE, read_bounded, replace_file},
    hooks,
};

use crate::{
    accepted_policy::{Ours, PolicyFile},
    config::ConfigError,
    document::{DocumentError, Telling, check_writable},
    policy_admin::PolicyAdmin,
    reply::StorageTrouble,
};

/// A configuration of the largest size, escaped.
const MAX_JOURNAL_BYTES: usize = 32 * 1024 * 1024;

/// What applying a preset did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedPreset {
    /// False when both files said all of it already; then neither was written.
    pub changed: bool,
    /// The hash of the approvals document now.
    pub document_hash: String,
    /// The hash of `openclaw.json` now.
    pub config_hash: String,
    /// The agents that keep keys of their own, which may say otherwise.
    pub own_keys: Vec<OwnKeys>,
}

/// An agent with keys of its own, and what they come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnKeys {
    /// An agent other than the one that the preset was for.
    pub agent: AgentId,
    /// Its keys that speak about what a preset sets, in both files.
    pub keys: Vec<String>,
    /// The security in effect for it now, all layers combined.
    pub security: Security,
    /// The ask in effect for it now, all layers combined.
    pub ask: Ask,
}

/// Why a preset was not applied; both files are as they were.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// The configuration stands in the way.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The approvals document stands in the way.
    #[error(transparent)]
    Document(#[from] DocumentError),
}

/// What has to become of the configuration, if the document has changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Journal {
    document_after: String,
    config_before: String,
    config_text: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    by: Option<Actor>,
}

/// Why the document did not change.
enum Trouble {
    Record(StorageTrouble),
    Journal(io::Error),
}

impl PolicyAdmin {
    /// Applies a preset, and says which other agents keep keys of their own.
    ///
    /// # Errors
    /// [`PresetError`]; both files are as they were.
    #[crate::compiled_once]
    pub async fn apply_preset<'a>(
        self: &'a Arc<Self>,
        by: &'a Actor,
        preset: Preset,
        reach: PresetReach,
    ) -> Result<AppliedPreset, PresetError> {
        let (admin, by) = (Arc::clone(self), by.clone());
        let only = match &reach {
            PresetReach::Agent(agent) => Some(agent.clone()),
            PresetReach::Defaults | PresetReach::EveryAgent => None,
        };
        let applied = tokio::task::spawn_blocking(move || {
            let applied = admin.apply_preset_blocking(&by, preset, &reach);
            admin.policy.finish_change(PolicyFile::Document);
            admin.policy.finish_change(PolicyFile::Config);
            if applied.is_ok() {
                admin.accepted_policy.amend_document(Ours::Part, |document| {
                    apply_to_document(document, preset, &reach);
                    Ok::<_, std::convert::Infallible>(())
                });
                admin
                    .accepted_policy
                    .amend_config(|text| preset_edits(text, preset, &reach).ok());
                admin.policy.refresh();
            }
            applied
        });
        // Only a panic or the end of the process makes the task fail.
        let changed = applied
            .await
            .unwrap_or_else(|_not_finished| Err(storage(StorageTrouble::Unavailable)))?;
        Ok(AppliedPreset {
            changed,
            document_hash: self.documents.snapshot().hash.clone(),
            config_hash: self.settings.config_hash(),
            own_keys: self.own_keys(only.as_ref()),
        })
    }

    /// The agents with keys of their own about what a preset sets, but for one that it was for.
    fn own_keys(&self, except: Option<&AgentId>) -> Vec<OwnKeys> {
        let now = self.policy.now();
        let in_effect = self.policy.refresh();
        let named = in_effect
            .document
            .document()
            .into_iter()
            .flat_map(Document::agent_ids);
        let mut agents: BTreeSet<AgentId> = named.filter_map(|name| AgentId::parse(name).ok()).collect();
        agents.extend(now.settings().policy.agents());
        agents.insert(AgentId::main());
        agents
            .into_iter()
            .filter(|agent| Some(agent) != except)
            .filter_map(|agent| {
                let effective = now.effective(&agent, Wanted::default());
                let hosts = now.settings().policy.host(&agent);
                let mut keys = own(&hosts);
                keys.extend(own(&effective.security.layers));
                keys.extend(own(&effective.ask.layers));
                keys.extend(own(&effective.ask_fallback.layers));
                keys.sort_unstable();
                keys.dedup();
                (!keys.is_empty()).then_some(OwnKeys {
                    agent,
                    keys,
                    security: effective.security.value,
                    ask: effective.ask.value,
                })
            })
            .collect()
    }

    fn apply_preset_blocking(
        &self,
        by: &Actor,
        preset: Preset,
        reach: &PresetReach,
    ) -> Result<bool, PresetError> {
        let agent = match reach {
            PresetReach::Agent(agent) => Some(agent),
            PresetReach::Defaults | PresetReach::EveryAgent => None,
        };
        if let Some(agent) = agent {
            check_writable(agent.as_str()).map_err(DocumentError::Store)?;
        }
        let state_dir = self.settings.state_dir();
        let config = ConfigFile::hold(state_dir).map_err(ConfigError::from)?;
        let unchanged = |error| ConfigError::of_edit(error, &config);
        let edits = preset_edits(config.text(), preset, reach).map_err(unchanged)?;
        let edited = config_edit(config.text(), &edits, state_dir).map_err(unchanged)?;
        let staged = if edited.changed {
            Some(config.stage(&edited.text).map_err(ConfigError::from)?)
        } else {
            None
        };
        let mut document_before = None;
        let mut document_after = None;
        let updated = self.documents.update_noted(
            Base::Any,
            |document| {
                document_before = Some(document.clone());
                apply_to_document(document, preset, reach);
                Ok(())
            },
            |(), pending| {
                self.record_blocking(by, telling(by, agent, pending.hash))
                    .map_err(Trouble::Record)?;
                if let Some(staged) = &staged {
                    let journal = Journal {
                        document_after: pending.hash.to_owned(),
                        config_before: config.hash().to_owned(),
                        config_text: edited.text.clone(),
                        by: Some(by.clone()),
                    };
                    journal
                        .write(&state_dir.preset_journal())
                        .map_err(Trouble::Journal)?;
                    hooks::reach("policy.preset-journaled");
                    self.policy.announce_config(&config, staged, Some(by));
                }
                self.policy.announce_document(pending, Ours::Part, by);
                document_after = Some(pending.hash.to_owned());
                Ok(())
            },
        );
        let ((), snapshot) = match updated {
            Ok(updated) => updated,
            Err(error) => {
                // Nothing is to be finished: the document is as it was.
                self.forget_journal();
                return Err(match error {
                    UpdateError::Store(error) => DocumentError::Store(error).into(),
                    UpdateError::Edit(Trouble::Record(trouble)) => storage(trouble),
                    UpdateError::Edit(Trouble::Journal(error)) => {
                        ConfigError::File(ConfigFileError::Io(error)).into()
                    }
                });
            }
        };
        let Some(staged) = staged else {
            return Ok(document_after.is_some());
        };
        if document_after.is_some() {
            hooks::reach("policy.preset-document-written");
        } else {
            // The document says so already, and one rename needs no journal.
            self.record_blocking(by, telling(by, agent, &snapshot.hash))
                .map_err(storage)?;
            self.policy.announce_config(&config, &staged, Some(by));
        }
        if let Err(error) = staged.commit() {
            if let (Some(before), Some(after)) = (document_before, document_after) {
                self.restore_document(&before, &after);
            }
            return Err(ConfigError::File(error).into());
        }
        hooks::reach("policy.preset-config-written");
        self.forget_journal();
        Ok(true)
    }

    /// Puts the document back after the configuration could not be changed. If that fails too, the journal stays and
    /// the next start finishes the preset.
    fn restore_document(&self, before: &Document, after: &str) {
        let restored = self.documents.update(Base::Hash(after), |document| {
            *document = before.clone();
            Ok::<_, std::convert::Infallible>(())
        });
        match restored {
            Ok(_) => self.forget_journal(),
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "a preset is half applied; the next start finishes it"
            ),
        }
    }

    /// Finishes a preset that an earlier server had begun to apply. A file that a person or another program changed
    /// since stays as it is. Blocks; call it before anything looks at the policy.
    pub(super) fn finish_preset(&self) {
        let journal = match Journal::read(&self.settings.state_dir().preset_journal()) {
            Ok(None) => return,
            Ok(Some(journal)) => journal,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the journal of a preset cannot be read; check what policy holds"
                );
                return self.forget_journal();
            }
        };
        if self.documents.snapshot().hash != journal.document_after {
            tracing::warn!("a preset was not applied: the server ended before it changed anything");
            return self.forget_journal();
        }
        match self.finish_config(&journal) {
            Ok(()) => self.forget_journal(),
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "a preset is half applied and cannot be finished now; the next start tries again"
            ),
        }
    }

    fn finish_config(&self, journal: &Journal) -> Result<(), ConfigFileError> {
        let config = ConfigFile::hold(self.settings.state_dir())?;
        if config.hash() == journal.config_before {
            let staged = config.stage(&journal.config_text)?;
            self.policy.announce_config(&config, &staged, journal.by.as_ref());
            let committed = staged.commit();
            self.policy.finish_change(PolicyFile::Config);
            committed?;
            tracing::info!("a preset that an earlier server had begun to apply is whole now");
        }
        Ok(())
    }

    fn forget_journal(&self) {
        let path = self.settings.state_dir().preset_journal();
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the journal of a preset cannot be removed"
            );
        }
    }
}

impl Journal {
    fn write(&self, path: &Path) -> io::Result<()> {
        replace_file(path, &serde_json::to_vec(self)?, PRIVATE_FILE)
    }

    fn read(path: &Path) -> io::Result<Option<Self>> {
        match read_bounded(path, MAX_JOURNAL_BYTES) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn apply_to_document(document: &mut Document, preset: Preset, reach: &PresetReach) {
    let target = match reach {
        PresetReach::Agent(agent) => PolicyTarget::Agent(agent.as_str()),
        PresetReach::Defaults => PolicyTarget::Defaults,
        PresetReach::EveryAgent => {
            document.remove_own_policy();
            PolicyTarget::Defaults
        }
    };
    document.apply_preset(target, preset);
}

/// The keys of an agent, or of every agent in the approvals document, that spoke.
fn own<T>(layers: &[Spoken<T>]) -> Vec<String> {
    let is_own = |said: &&Spoken<T>| match said.layer {
        Layer::Agent | Layer::DocumentWildcard | Layer::DocumentAgent => true,
        Layer::Default
        | Layer::Global
        | Layer::Session
        | Layer::Call
        | Layer::DocumentDefaults
        | Layer::Clamp => false,
    };
    layers
        .iter()
        .filter(is_own)
        .map(|said| said.source.clone())
        .collect()
}

fn telling(by: &Actor, agent: Option<&AgentId>, hash: &str) -> Telling {
    let kind = EventKind::PolicyChanged {
        what: PolicyPart::Preset,
        hash: Some(hash.to_owned()),
        by: Some(by.clone()),
    };
    let subject = Subject {
        agent: agent.cloned(),
        ..Subject::default()
    };
    Telling::of(Event { subject, kind })
}

fn storage(trouble: StorageTrouble) -> PresetError {
    DocumentError::Storage(trouble).into()
}
