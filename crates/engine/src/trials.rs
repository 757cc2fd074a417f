//! Policies that are tried in the server: the files as they lie on the disk, or others in their place, on this machine.
//!
//! It must never change anything, and nothing of a candidate outlives it: what it remembers of patterns and files is its own.
//! Entry point: [`Trials::candidate`].

use std::{path::PathBuf, sync::Arc};

use countersign_config::{
    approvals::{
        document::Refusal,
        store::{DocumentStatus, DocumentStore, Snapshot},
    },
    settings::{SettingsProblem, SettingsStore},
};
use countersign_hosts::gateway::GatewayHost;
use countersign_policy::command::direct::ShellKind;
use countersign_sys::clock::Clock;

use crate::{
    candidate::{Candidate, CandidateParts, Machine},
    environment::HostEnvironment,
};

/// The name of a document in what is kept of it in memory.
const NAME: &str = "candidate";

/// Makes candidates.
#[derive(Debug)]
pub struct Trials {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Arc<SettingsStore>,
    pub(crate) documents: Arc<DocumentStore>,
    pub(crate) environment: Arc<HostEnvironment>,
    pub(crate) gateway: GatewayHost,
    pub(crate) shell: Option<ShellKind>,
    pub(crate) own_binary: Option<PathBuf>,
}

/// The texts of a candidate; one that is absent is the file as it lies on the disk, an edit that waits included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidateTexts {
    /// An approvals document.
    pub document: Option<String>,
    /// An `openclaw.json`.
    pub config: Option<String>,
}

/// A text that cannot be tried: nothing could be learned from a policy that denies everything.
#[derive(Debug, thiserror::Error)]
pub enum UnusableCandidate {
    /// The configuration has these faults.
    #[error("the configuration cannot be read")]
    Config(Vec<SettingsProblem>),
    /// The document is none.
    #[error("{0}")]
    Document(Refusal),
}

impl Trials {
    /// Joins a candidate. No command is looked at yet.
    ///
    /// # Errors
    /// [`UnusableCandidate`].
    pub fn candidate(&self, texts: &CandidateTexts) -> Result<Candidate, UnusableCandidate> {
        let CandidateTexts { document, config } = texts;
        let current = self.settings.current();
        let settings = match config {
            None => current,
            Some(text) => {
                let policy = self.settings.policy_of(Some(text));
                Arc::new(current.with_policy(policy.map_err(UnusableCandidate::Config)?))
            }
        };
        let document = match document {
            None => Snapshot::clone(&self.documents.snapshot()),
            Some(text) => Snapshot::of_accepted(Some(text.as_bytes()), NAME.to_owned()),
        };
        if let DocumentStatus::Refused(refusal) = &document.status {
            return Err(UnusableCandidate::Document(refusal.clone()));
        }
        let machine = Machine {
            files: self.gateway.files().clone(),
            isolation: self.gateway.isolation(),
            shell: self.shell,
        };
        let parts = CandidateParts {
            clock: Arc::clone(&self.clock),
            state_dir: self.settings.state_dir().clone(),
            settings,
            document,
            environment: Arc::clone(&self.environment),
            own_binary: self.own_binary.clone(),
        };
        Ok(Candidate::on(machine, parts))
    }
}
