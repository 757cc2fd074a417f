//! Which people a question is for: `[[approvals.rules]]` held against what would run. And who is there to answer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use countersign_config::{
    approvals::broker::{ApproverGuard, Broker},
    settings::Settings,
};
use countersign_domain::{Actor, AgentId, Command, Host, Principal, TokenId};
use countersign_ledger::Ledger;
use countersign_policy::{
    approval_rules::{self, Demand, Matcher, Programs, Question},
    command::PathLookup,
    pattern::PatternCache,
};
use countersign_sys::clock::Clock;

use crate::{
    base::Base,
    evaluator::{
        analyse::{self, Analyst},
        judgement::Judgement,
    },
    reply::StorageTrouble,
};

/// Whether a person answers where a stream of events is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The reader says so.
    Declared,
    /// The reader says nothing and could answer. Such a reader counts for now, and `doctor` names its token.
    Presumed,
    /// The reader may not answer, or says that nobody does (`approver=false`).
    Absent,
}

/// What was noted of each token that could answer, so that the ledger is told of changes only.
#[derive(Debug, Default)]
struct Presumed(Mutex<HashMap<TokenId, bool>>);

impl Presumed {
    /// Whether this is news.
    fn is_news(&self, token: &TokenId, is_presumed: bool) -> bool {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.insert(token.clone(), is_presumed) != Some(is_presumed)
    }

    /// It could not be written.
    fn forget(&self, token: &TokenId) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(token);
    }
}

/// Who answers questions, and what a question takes of them.
#[derive(Debug)]
pub struct Approvers {
    ledger: Ledger,
    analyst: Arc<Analyst>,
    clock: Arc<dyn Clock>,
    broker: Arc<Broker>,
    patterns: PatternCache,
    presumed: Presumed,
}

impl Approvers {
    pub(crate) fn new(base: &Base) -> Self {
        Self {
            ledger: base.ledger.clone(),
            analyst: Arc::clone(&base.analyst),
            clock: Arc::clone(&base.clock),
            broker: Arc::clone(&base.broker),
            patterns: PatternCache::default(),
            presumed: Presumed::default(),
        }
    }

    /// Counts an approver for as long as the guard lives.
    pub fn connected(&self) -> ApproverGuard {
        self.broker.approver_connected()
    }

    /// Whether a person can be asked.
    pub(crate) fn are_reachable(&self, settings: &Settings) -> bool {
        settings.server.approvals.always_reachable || self.broker.has_approver()
    }

    /// Whether a person can be asked who is not one of so many approvers that are the asker itself.
    pub(crate) fn are_reachable_besides(&self, settings: &Settings, besides: usize) -> bool {
        settings.server.approvals.always_reachable || self.broker.approvers() > besides
    }

    /// How long a question of this asker waits: no longer than the token that asks.
    pub(crate) async fn waits_for(
        &self,
        asker: &Actor,
        wanted: Duration,
    ) -> Result<Duration, StorageTrouble> {
        let token = match asker.token() {
            Some(id) => self.ledger.token(&id).await?,
            None => None,
        };
        let end = token.and_then(|token| token.expires_at);
        Ok(end.map_or(wanted, |end| wanted.min(end.since(self.clock.now()))))
    }

    /// Notes whether a reader who could answer said whether a person does. Nothing depends on it but what `doctor` says.
    #[crate::compiled_once]
    pub async fn note_presence(&self, reader: &Principal, presence: Presence) {
        let Some(token) = reader.actor.token() else { return };
        let is_presumed = presence == Presence::Presumed;
        if !self.presumed.is_news(&token, is_presumed) {
            return;
        }
        if let Err(error) = self
            .ledger
            .note_presumed_approver(token.clone(), is_presumed)
            .await
        {
            self.presumed.forget(&token);
            tracing::warn!(%error, "it is not noted whether a reader of events answers questions");
        }
    }

    /// What a question about a call takes.
    pub(crate) fn demand_of_call(&self, judged: &Judgement, settings: &Settings) -> Demand {
        let binding = &judged.binding;
        let mut demand = self.demand(&binding.agent, binding.host, settings, |lookup| {
            match &binding.command {
                // What its asker starts is not seen here.
                _ if judged.asker.is_some() => Programs::Unknown,
                // It starts no program.
                Command::Patch(_) => Programs::Known(Vec::new()),
                Command::Shell(_) | Command::Argv(_) => Programs::of(judged.analysis.as_ref(), lookup),
            }
        });
        // The asker has the answer at once, and what it starts cannot be held back.
        if judged.asker.is_some() {
            demand.quorum.start_delay_ms = None;
        }
        demand
    }

    fn demand(
        &self,
        agent: &AgentId,
        host: Host,
        settings: &Settings,
        programs: impl FnOnce(Option<&dyn PathLookup>) -> Programs,
    ) -> Demand {
        let rules = &settings.server.approvals.rules;
        if rules.is_empty() {
            return Demand::default();
        }
        let lookup = self.analyst.path_lookup(agent, settings);
        // The files and the home directory of this machine say nothing about another one.
        let seen: Option<&dyn PathLookup> = match host {
            Host::Gateway | Host::Sandbox => Some(&lookup),
            Host::Node => None,
        };
        let programs = programs(seen);
        let demand = |programs: &Programs| {
            let question = Question {
                agent,
                host,
                programs,
            };
            let matcher = Matcher {
                lookup: seen,
                case: analyse::path_case(settings.server.policy.path_case),
                cache: &self.patterns,
            };
            approval_rules::demand(rules, question, matcher)
        };
        let found = demand(&programs);
        if lookup.check().is_ok() {
            found
        } else {
            // A link that could not be followed may hide the program that a rule is for.
            demand(&Programs::Unknown)
        }
    }
}
