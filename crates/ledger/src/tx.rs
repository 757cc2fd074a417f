//! One transaction of the writer: the connection, the present time, and the numbering of events and audit
//! records, which counts only if the commit succeeds.

use std::sync::Arc;

use rusqlite::{Connection, Params};

use countersign_domain::{Actor, AgentId, ApprovalId, RunId, SessionKey, TokenId, UnixMillis};
use countersign_sys::{
    clock::{Clock, Ids},
    hooks,
};

use crate::events::{Event, EventType, Publication, data_members};

use super::{
    audit::{Entry, chain::ChainHead, facts},
    config::{PolicyStamp, PolicyWatch},
    error::Fault,
    keys::Keys,
    stats::Tally,
    stop_switch::StopSwitch,
    waiting::{Undo, Waiting},
};

/// Proof that the transaction is on record. Made by the writer alone, after COMMIT; without it no permit.
pub(super) struct Committed(());

impl Committed {
    /// Called by the writer when COMMIT has succeeded, nowhere else.
    pub(super) const fn after_commit() -> Self {
        Self(())
    }
}

/// What the writer remembers between transactions.
#[derive(Debug, Clone)]
pub(super) struct WriterState {
    /// Number of the last event.
    pub(super) event_head: i64,
    /// End of the audit chain.
    pub(super) chain: ChainHead,
    /// The latest time ever used; time never runs backwards.
    pub(super) high_water: UnixMillis,
    pub(super) pending: u64,
    pub(super) events_kept: u64,
}

/// What does not change while the ledger is open.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    pub(super) policy: Arc<dyn PolicyWatch>,
    pub(super) keys: Arc<Keys>,
    /// Counts the openings of this ledger.
    pub(super) epoch: i64,
    pub(super) boot_id: String,
    /// Whether everything is stopped.
    pub(super) stop: Arc<StopSwitch>,
    /// Who asked what waits.
    pub(super) waiting: Arc<Waiting>,
}

/// The transaction under way.
pub(super) struct Tx<'open> {
    pub(super) connection: &'open Connection,
    pub(super) context: &'open Context,
    pub(super) state: WriterState,
    /// Events to publish once this is committed.
    pub(super) outbox: Vec<Arc<Publication>>,
    /// What to count then.
    pub(super) tallies: Vec<Tally>,
    /// How to undo what it changed beside the database.
    pub(super) undo: Vec<Undo>,
    stamp: Option<PolicyStamp>,
    now: Option<UnixMillis>,
}

impl<'open> Tx<'open> {
    pub(super) const fn begin(
        connection: &'open Connection,
        context: &'open Context,
        state: WriterState,
    ) -> Self {
        Self {
            connection,
            context,
            state,
            outbox: Vec::new(),
            tallies: Vec::new(),
            undo: Vec::new(),
            stamp: None,
            now: None,
        }
    }

    /// The present time, never before any time used earlier. One for the whole batch, so that what is written
    /// together bears the same time.
    pub(super) fn now(&mut self) -> UnixMillis {
        *self.now.get_or_insert_with(|| {
            self.state.high_water = self.state.high_water.max(self.context.clock.now());
            self.state.high_water
        })
    }

    /// Whether `stamp` is the policy in force. Asked once per batch: a job that came later is in a later one.
    pub(super) fn is_current(&mut self, stamp: &PolicyStamp) -> bool {
        self.stamp.get_or_insert_with(|| self.context.policy.stamp()) == stamp
    }

    /// Refuses while everything is stopped.
    pub(super) fn expect_going(&self) -> Result<(), Fault> {
        match self.context.stop.current() {
            Some(standing) if !hooks::promise_dropped("stop") => {
                Err(Fault::Stopped(Arc::clone(&standing.stop)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Runs a statement and says how many rows it changed.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> Result<usize, Fault> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }

    /// Writes an event and, if its type belongs there, its audit record.
    pub(super) fn log(&mut self, event: Event, by: &Actor) -> Result<(), Fault> {
        let ts = self.now();
        let seq = self.state.event_head + 1;
        let event_type = event.kind.event_type();
        let members = data_members(seq, ts, &event);
        let data: Arc<str> = serde_json::to_string(&members)
            .expect("plain data is JSON")
            .into();
        let subject = &event.subject;
        self.execute(
            "INSERT INTO events (seq, ts, type, run_id, approval_id, agent_id, session_key, owner_token, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            (
                seq,
                ts.get(),
                event_type.as_str(),
                subject.run_id.as_ref().map(RunId::as_str),
                subject.approval_id.as_ref().map(ApprovalId::as_str),
                subject.agent.as_ref().map(AgentId::as_str),
                subject.session.as_ref().map(SessionKey::as_str),
                subject.owner.as_ref().map(TokenId::as_str),
                &*data,
            ),
        )?;
        if event.kind.is_audited() {
            let mut entry = Entry::of_event(&event, members, by);
            if let Some(digest) = facts::of_event(self.connection, &event)? {
                entry.detail.insert(facts::MEMBER.to_owned(), digest.into());
            }
            self.audit(&entry)?;
        }
        self.tallies.push(Tally::of(&event.kind));
        self.state.event_head = seq;
        self.state.events_kept += 1;
        self.publish(seq, event_type, event, data);
        Ok(())
    }

    /// Appends a record to the audit chain.
    pub(super) fn audit(&mut self, entry: &Entry) -> Result<(), Fault> {
        let ts = self.now();
        let record = self.state.chain.next(entry, ts, &self.context.keys);
        self.execute(
            "INSERT INTO audit (seq, actor_id, action, body, hash, mac) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                record.seq,
                &entry.actor.id,
                entry.action.as_str(),
                &record.body,
                &record.hash,
                &record.mac,
            ),
        )?;
        self.state.chain = ChainHead {
            seq: record.seq,
            hash: record.hash,
        };
        Ok(())
    }

    /// Stores the high-water mark of the time; ordinary changes carry it in their events.
    pub(super) fn keep_high_water(&mut self) -> Result<(), Fault> {
        let now = self.now();
        self.execute(
            "INSERT OR REPLACE INTO meta (key, value) VALUES ('now_high_water', ?1)",
            (now.get(),),
        )?;
        Ok(())
    }

    fn publish(&mut self, seq: i64, event_type: EventType, event: Event, data: Arc<str>) {
        let publication = Publication {
            seq: Some(seq),
            event_type,
            subject: event.subject,
            data,
        };
        self.outbox.push(Arc::new(publication));
    }
}
