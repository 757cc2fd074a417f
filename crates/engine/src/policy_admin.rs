//! Every change of the policy, and what is told of it: settings, the approvals document, its lists and presets.
//!
//! Each change is recorded before it counts. What allows more waits for an admin where that is configured
//! ([`AcceptedPolicy`]).

use std::sync::Arc;

use countersign_config::{approvals::store::DocumentStore, settings::SettingsStore};
use countersign_ledger::Ledger;
use countersign_sys::clock::{Clock, Ids};

use crate::{accepted_policy::AcceptedPolicy, again::Again, evaluator::Evaluator, watch::PolicySource};

/// Changes the policy, and says what it is.
#[derive(Debug)]
pub struct PolicyAdmin {
    pub(crate) policy: Arc<PolicySource>,
    pub(crate) accepted_policy: Arc<AcceptedPolicy>,
    pub(crate) settings: Arc<SettingsStore>,
    pub(crate) documents: Arc<DocumentStore>,
    pub(crate) ledger: Ledger,
    /// Has the questions that wait judged again.
    pub(crate) again: Arc<Again>,
    /// Finds the programs that entries name.
    pub(crate) evaluator: Arc<Evaluator>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
}

/// The files that the policy is written in.
#[derive(Debug)]
pub(crate) struct PolicyStores {
    pub(crate) accepted_policy: Arc<AcceptedPolicy>,
    pub(crate) settings: Arc<SettingsStore>,
    pub(crate) documents: Arc<DocumentStore>,
}

impl PolicyAdmin {
    /// Joins one: what notices changes, the files, the record, what is woken by a change, and who looks at programs.
    pub(crate) fn new(
        policy: Arc<PolicySource>,
        stores: PolicyStores,
        ledger: Ledger,
        (again, evaluator): (Arc<Again>, Arc<Evaluator>),
        (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>),
    ) -> Self {
        let PolicyStores {
            accepted_policy,
            settings,
            documents,
        } = stores;
        Self {
            policy,
            accepted_policy,
            settings,
            documents,
            ledger,
            again,
            evaluator,
            clock,
            ids,
        }
    }
}
