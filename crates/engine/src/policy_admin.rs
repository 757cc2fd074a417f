//! Every change of the policy, and what is told of it: settings, the approvals document, its lists and presets.
//!
//! Each change is recorded before it counts. What allows more waits for an admin where that is configured
//! ([`AcceptedPolicy`]).

use std::{collections::BTreeMap, sync::Arc};

use countersign_config::{approvals::store::DocumentStore, settings::SettingsStore};
use countersign_ledger::Ledger;
use countersign_policy::{lint::RemarkCode, pending_change::quoted};

use crate::{
    accepted_policy::AcceptedPolicy,
    again::Again,
    lint::{EntryWarning, PolicyLint, RuleRemark},
    watch::PolicySource,
};

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
    pub(crate) lint: Arc<PolicyLint>,
}

/// The files that the policy is written in.
#[derive(Debug)]
pub(crate) struct PolicyStores {
    pub(crate) accepted_policy: Arc<AcceptedPolicy>,
    pub(crate) settings: Arc<SettingsStore>,
    pub(crate) documents: Arc<DocumentStore>,
}

impl PolicyAdmin {
    /// Joins one: what notices changes, the files, the record, what is woken by a change, and what looks at rules.
    pub(crate) fn new(
        policy: Arc<PolicySource>,
        stores: PolicyStores,
        ledger: Ledger,
        again: Arc<Again>,
        lint: Arc<PolicyLint>,
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
            lint,
        }
    }

    /// What is odd about the rules of the document, one line for each kind. Nothing that keeps these lines from being
    /// made fails the caller's request: they come with the answer to another question.
    #[crate::compiled_once]
    pub async fn rule_warnings(&self) -> Vec<EntryWarning> {
        let remarks = match self.lint.remarks_on_document().await {
            Ok(remarks) => remarks,
            Err(error) => {
                tracing::warn!(error = %error, "the rules of the approvals document were not looked at");
                return Vec::new();
            }
        };
        let mut kinds: BTreeMap<RemarkCode, (usize, &RuleRemark)> = BTreeMap::new();
        for remark in &remarks.remarks {
            kinds.entry(remark.remark.code).or_insert((0, remark)).0 += 1;
        }
        let mut warnings: Vec<EntryWarning> = kinds
            .into_iter()
            .map(|(code, (count, first))| EntryWarning {
                code: code.as_str(),
                message: match count {
                    1 => format!("{}: {}", quoted(&first.pattern), first.remark.message),
                    _ => format!(
                        "{} and {} more: {}",
                        quoted(&first.pattern),
                        count - 1,
                        first.remark.message
                    ),
                },
            })
            .collect();
        if remarks.left_off > 0 {
            warnings.push(EntryWarning {
                code: "more-warnings",
                message: format!("{} more rules are odd", remarks.left_off),
            });
        }
        warnings.extend(self.waiting_change());
        warnings
    }

    /// That a change waits for a second person, who may be needed for what was just written.
    pub(super) fn waiting_change(&self) -> Option<EntryWarning> {
        let in_effect = self.policy.refresh();
        let held = in_effect
            .pending_document
            .as_ref()
            .or(in_effect.pending_config.as_ref());
        let held = held.filter(|_| self.accepted_policy.takes_two())?;
        Some(EntryWarning {
            code: "held",
            message: format!(
                "a change allows more than before, and what it newly allows does not count until another admin accepts \
                 it: countersign policy accept {}",
                held.hash
            ),
        })
    }
}
