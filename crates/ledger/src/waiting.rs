//! How many questions wait, for each asker and each of its agents, and how often it asks.
//!
//! The writer alone looks here, within the transaction that records a question: so a limit counts what is really made,
//! and two calls at once never share the last place. What a transaction changed is undone with it. A token and the
//! browsers that stand for it are one asker; a peer of a socket is one, too.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::Connection;

use sha2::{Digest as _, Sha256};

use countersign_domain::{
    Actor, ActorKind, AgentId, ApprovalCard, ApprovalId, RunId, UnixMillis, vocabulary,
};
use countersign_sys::process::monotonic;

use super::{error::Fault, sql::json};

/// When to come back where a place comes free only by an answer.
const UNTIL_AN_ANSWER: Duration = Duration::from_secs(5);

/// How often refusals of one asker by one limit are put on record.
pub(super) const TELL_EVERY: Duration = Duration::from_mins(1);

/// So many askers are remembered before those are forgotten of whom nothing is to be known.
const SWEEP_FROM: usize = 1024;

/// So many runs whose question was joined are remembered after its end; the oldest goes.
const SHARED: usize = 4096;

/// How many questions may wait, and how often one may be asked (`[approvals]`); all but `pending` are off with 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionLimits {
    /// In all (`max_pending`).
    pub pending: u64,
    /// Of one agent, for each token that asks for it (`max_pending_per_agent`).
    pub per_agent: u64,
    /// Of one token (`max_pending_per_token`).
    pub per_token: u64,
    /// New questions of a token in the long run (`questions_per_minute_per_token`).
    pub per_minute: u64,
    /// New questions at once before that slows them (`question_burst_per_token`).
    pub burst: u64,
}

vocabulary! {
    /// What a question was over.
    pub enum QuestionLimit("server, agent, token or rate") {
        /// All that may wait.
        Server = "server",
        /// What may wait of one agent.
        Agent = "agent",
        /// What may wait of one token.
        Token = "token",
        /// How often a token may ask.
        Rate = "rate",
    }
}

/// A question that is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyQuestions {
    /// What it was over.
    pub limit: QuestionLimit,
    /// So many may wait or, with the rate, may be asked in a minute.
    pub most: u64,
    /// When to ask again.
    pub retry_after: Duration,
}

/// What becomes of others when a caller of a run goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// No other call ever joined it.
    OfItsOwn,
    /// Others still want it.
    OthersStay,
    /// Calls had joined it, and this caller was the last.
    Last,
}

/// What two calls have in common that are one question, beside their asker.
type Sameness = [u8; 32];

/// What may be joined: everything that an answer covers, and how it is run.
pub(super) fn sameness(card: &ApprovalCard, run: &HowRun) -> Sameness {
    let mut hash = Sha256::new();
    for part in [
        card.binding.digest(),
        json(&card.wishes),
        json(&card.quorum),
        json(&card.allowed_decisions),
        json(&(card.security, card.ask, card.ask_fallback)),
        json(&(card.elevated, card.needs_person)),
        json(&(run.background, run.pty, run.timeout_ms)),
        json(&card.note),
    ] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// How a call wants to be run, as far as its binding does not say it.
pub(super) struct HowRun {
    pub(super) background: bool,
    pub(super) pty: bool,
    pub(super) timeout_ms: Option<i64>,
}

/// A question that calls may join.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) sameness: Sameness,
    pub(super) approval: ApprovalId,
    pub(super) expires: UnixMillis,
    pub(super) callers: Callers,
}

/// The callers of a run that did not go away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Callers {
    pub(super) here: u64,
    /// Whether a call joined the first.
    pub(super) are_several: bool,
}

impl Callers {
    pub(super) const ONE: Self = Self {
        here: 1,
        are_several: false,
    };

    pub(super) fn leave(&mut self) -> Leaving {
        self.here = self.here.saturating_sub(1);
        match (self.are_several, self.here) {
            (false, _) => Leaving::OfItsOwn,
            (true, 0) => Leaving::Last,
            (true, _) => Leaving::OthersStay,
        }
    }
}

/// The asker of a question, as limits see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Party(ActorKind, String);

impl Party {
    pub(super) fn of(actor: &Actor) -> Self {
        actor.token().map_or_else(
            || Self(actor.kind, actor.id.clone()),
            |token| Self(ActorKind::Token, token.as_str().to_owned()),
        )
    }
}

/// What is known of one asker.
#[derive(Debug, Default)]
pub(super) struct Asker {
    pub(super) waiting: u64,
    /// Agents with questions that wait, and how many.
    pub(super) agents: HashMap<AgentId, u64>,
    /// When everything that was asked will have been paid for, by the monotonic clock.
    pub(super) paid_at: Duration,
    pub(super) told: HashMap<QuestionLimit, Told>,
    /// Its questions that calls may join, the oldest first.
    pub(super) open: BTreeMap<RunId, Open>,
}

/// Refusals that are on record, and those since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub(super) at: Duration,
    pub(super) since: u64,
}

impl Asker {
    pub(super) fn is_idle(&self, now: Duration) -> bool {
        self.waiting == 0 && self.paid_at <= now && self.told.values().all(|told| told.at + TELL_EVERY <= now)
    }
}

/// The askers of what waits.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<Askers>);

#[derive(Debug, Default)]
pub(super) struct Askers {
    pub(super) all: HashMap<Party, Asker>,
    pub(super) sweep_at: usize,
    /// Runs of which several callers were told, after the end of their question.
    pub(super) shared: HashMap<RunId, Callers>,
    /// The same in the order in which they came.
    pub(super) shared_since: VecDeque<RunId>,
}

/// How a change is undone when its transaction is.
#[derive(Debug)]
pub(super) struct Undo {
    pub(super) party: Party,
    pub(super) what: Undone,
}

#[derive(Debug)]
pub(super) enum Undone {
    Waits(AgentId, RunId),
    Ended(AgentId, RunId, Option<Open>),
    Joined(RunId, bool),
    Paid(Duration),
    Told(QuestionLimit, Option<Told>),
}

impl Askers {
    pub(super) fn of(&mut self, party: Party) -> &mut Asker {
        if self.all.len() >= self.sweep_at.max(SWEEP_FROM) && !self.all.contains_key(&party) {
            let now = monotonic();
            self.all.retain(|_party, asker| !asker.is_idle(now));
            self.sweep_at = self.all.len().saturating_mul(2);
        }
        self.all.entry(party).or_default()
    }

    pub(super) fn add(&mut self, party: &Party, agent: &AgentId, count: u64) {
        let asker = self.of(party.clone());
        asker.waiting += count;
        *asker.agents.entry(agent.clone()).or_default() += count;
    }

    /// One question less; what calls could join of it.
    pub(super) fn take(&mut self, party: &Party, agent: &AgentId, run: &RunId) -> Option<Open> {
        let asker = self.all.get_mut(party)?;
        asker.waiting = asker.waiting.saturating_sub(1);
        if let Some(count) = asker.agents.get_mut(agent) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                asker.agents.remove(agent);
            }
        }
        asker.open.remove(run)
    }

    /// The callers of a run, wherever it stands.
    pub(super) fn callers_of(&mut self, run: &RunId) -> Option<&mut Callers> {
        let open = self.all.values_mut().find_map(|asker| asker.open.get_mut(run));
        match open {
            Some(open) => Some(&mut open.callers),
            None => self.shared.get_mut(run),
        }
    }

    /// Several callers of a run go on with it after its question.
    pub(super) fn share(&mut self, run: &RunId, callers: Callers) {
        if !callers.are_several {
            return;
        }
        if self.shared.insert(run.clone(), callers).is_some() {
            return;
        }
        self.shared_since.push_back(run.clone());
        if self.shared_since.len() > SHARED
            && let Some(oldest) = self.shared_since.pop_front()
        {
            self.shared.remove(&oldest);
        }
    }
}

impl Waiting {
    /// What waits when the ledger is opened. How often was asked before is not remembered.
    pub(super) fn of_record(connection: &Connection) -> Result<Self, Fault> {
        let waiting = Self::default();
        let mut statement = connection.prepare(
            "SELECT asked_by_kind, asked_by_id, agent_id, count(*) FROM approvals WHERE status = 'pending' \
             GROUP BY asked_by_kind, asked_by_id, agent_id",
        )?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let (kind, id, agent): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let count: i64 = row.get(3)?;
            let (Ok(kind), Ok(agent)) = (kind.parse(), AgentId::parse(agent)) else {
                continue;
            };
            let asker = Actor {
                kind,
                id,
                name: String::new(),
                owner: None,
            };
            waiting
                .lock()
                .add(&Party::of(&asker), &agent, u64::try_from(count).unwrap_or(0));
        }
        drop(rows);
        drop(statement);
        waiting.read_open(connection)?;
        Ok(waiting)
    }

    /// Which of them calls may join. A key may be one of a caller, so what came with one is not among them.
    pub(super) fn read_open(&self, connection: &Connection) -> Result<(), Fault> {
        let mut statement = connection.prepare(
            "SELECT a.id, a.card_json, a.expires_ms, a.asked_by_kind, a.asked_by_id, r.run_id, r.background, r.pty, \
             r.timeout_ms FROM approvals a JOIN runs r ON r.run_id = a.run_id \
             WHERE a.status = 'pending' AND r.keyed = 0 AND a.revises IS NULL AND r.tool = 'exec' \
             AND a.asked_by_kind IN ('token', 'session')",
        )?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let (approval, card, expires): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (kind, id, run): (String, String, String) = (row.get(3)?, row.get(4)?, row.get(5)?);
            let how = HowRun {
                background: row.get(6)?,
                pty: row.get(7)?,
                timeout_ms: row.get(8)?,
            };
            let (Ok(approval), Ok(card), Ok(kind), Ok(run)) = (
                ApprovalId::parse(approval),
                serde_json::from_str::<ApprovalCard>(&card),
                kind.parse(),
                RunId::parse(run),
            ) else {
                continue;
            };
            let asker = Actor {
                kind,
                id,
                name: String::new(),
                owner: None,
            };
            let open = Open {
                sameness: sameness(&card, &how),
                approval,
                expires: UnixMillis::new(expires),
                callers: Callers::ONE,
            };
            self.lock().of(Party::of(&asker)).open.insert(run, open);
        }
        Ok(())
    }

    /// A caller of a run goes away.
    pub(super) fn leave(&self, run: &RunId) -> Leaving {
        let mut askers = self.lock();
        askers.callers_of(run).map_or(Leaving::OfItsOwn, Callers::leave)
    }

    /// A caller of a run is there again.
    pub(super) fn come_back(&self, run: &RunId) {
        if let Some(callers) = self.lock().callers_of(run) {
            callers.here += 1;
        }
    }

    /// Whether calls joined a run, and not all of its callers went away.
    pub(super) fn is_shared(&self, run: &RunId) -> bool {
        self.lock()
            .callers_of(run)
            .is_some_and(|callers| callers.are_several && callers.here > 0)
    }

    /// Takes back what a transaction changed that was rolled back.
    pub(super) fn undo(&self, changes: Vec<Undo>) {
        let mut askers = self.lock();
        for Undo { party, what } in changes.into_iter().rev() {
            match what {
                Undone::Waits(agent, run) => drop(askers.take(&party, &agent, &run)),
                Undone::Ended(agent, run, open) => {
                    askers.add(&party, &agent, 1);
                    if let Some(open) = open {
                        askers.of(party).open.insert(run, open);
                    }
                }
                Undone::Joined(run, were_several) => {
                    if let Some(callers) = askers.callers_of(&run) {
                        // Others may have gone meanwhile.
                        callers.here = callers.here.saturating_sub(1);
                        callers.are_several = were_several;
                    }
                }
                Undone::Paid(before) => askers.of(party).paid_at = before,
                Undone::Told(limit, Some(before)) => {
                    askers.of(party).told.insert(limit, before);
                }
                Undone::Told(limit, None) => {
                    askers.of(party).told.remove(&limit);
                }
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Askers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuestionLimits {
    /// Whether one more question may wait, where `waiting` do.
    pub(super) fn check_waiting(
        &self,
        waiting: u64,
        asker: &Asker,
        agent: &AgentId,
    ) -> Result<(), TooManyQuestions> {
        let over = |limit, most| TooManyQuestions {
            limit,
            most,
            retry_after: UNTIL_AN_ANSWER,
        };
        if waiting >= self.pending {
            return Err(over(QuestionLimit::Server, self.pending));
        }
        let of_agent = asker.agents.get(agent).copied().unwrap_or(0);
        if self.per_agent > 0 && of_agent >= self.per_agent {
            return Err(over(QuestionLimit::Agent, self.per_agent));
        }
        if self.per_token > 0 && asker.waiting >= self.per_token {
            return Err(over(QuestionLimit::Token, self.per_token));
        }
        Ok(())
    }

    /// When everything will have been paid for after one more question at `now`.
    pub(super) fn pay(&self, paid_at: Duration, now: Duration) -> Result<Duration, TooManyQuestions> {
        if self.per_minute == 0 || self.burst == 0 {
            return Ok(paid_at);
        }
        let nanos = |count: u64| {
            let nanos = u128::from(count) * 60_000_000_000 / u128::from(self.per_minute);
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        let after = paid_at.max(now).saturating_add(nanos(1));
        let latest = now.saturating_add(nanos(self.burst));
        if after <= latest {
            return Ok(after);
        }
        Err(TooManyQuestions {
            limit: QuestionLimit::Rate,
            most: self.per_minute,
            retry_after: after.saturating_sub(latest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: QuestionLimits = QuestionLimits {
        pending: 10,
        per_agent: 2,
        per_token: 3,
        per_minute: 60,
        burst: 2,
    };

    #[test]
    fn a_burst_passes_and_then_one_in_each_interval() {
        let start = Duration::from_secs(100);
        let first = LIMITS.pay(Duration::ZERO, start).unwrap();
        let second = LIMITS.pay(first, start).unwrap();
        let refused = LIMITS.pay(second, start).unwrap_err();
        assert_eq!(
            (refused.limit, refused.most, refused.retry_after),
            (QuestionLimit::Rate, 60, Duration::from_secs(1))
        );
        assert!(LIMITS.pay(second, start + Duration::from_millis(999)).is_err());
        assert!(LIMITS.pay(second, start + Duration::from_secs(1)).is_ok());
        let off = QuestionLimits {
            per_minute: 0,
            ..LIMITS
        };
        assert_eq!(off.pay(second, start), Ok(second));
    }

    #[test]
    fn each_limit_names_itself() {
        let (main, other) = (AgentId::main(), AgentId::parse("other").unwrap());
        let asker = Asker {
            waiting: 2,
            agents: [(main.clone(), 2)].into(),
            ..Asker::default()
        };
        let limit = |limits: QuestionLimits, waiting, agent| {
            limits
                .check_waiting(waiting, &asker, agent)
                .err()
                .map(|over| over.limit)
        };
        assert_eq!(limit(LIMITS, 2, &main), Some(QuestionLimit::Agent));
        assert_eq!(limit(LIMITS, 2, &other), None);
        assert_eq!(limit(LIMITS, 10, &other), Some(QuestionLimit::Server));
        let tight = QuestionLimits {
            per_token: 2,
            ..LIMITS
        };
        assert_eq!(limit(tight, 2, &other), Some(QuestionLimit::Token));
        let off = QuestionLimits {
            per_agent: 0,
            per_token: 0,
            ..LIMITS
        };
        assert_eq!(limit(off, 9, &main), None);
    }
}
