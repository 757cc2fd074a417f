//! The switch of the emergency stop: what every transaction looks at, in memory. It writes nothing, so that no disk can
//! hold it up; the jobs of a stop put it on record. Only the commit of a resume may release it.

use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::watch;

use countersign_domain::{Actor, Stop};

use super::{error::Fault, rows::Columns, sql::fetch};

/// The stop that is in force, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopStanding {
    /// Who, when and why.
    pub stop: Arc<Stop>,
    /// Who has what runs killed; `None` while it goes on.
    pub killed_by: Option<Actor>,
    /// Whether it is on record, and so outlives the server.
    pub is_durable: bool,
    /// Who proposed to go on, where that takes another owner.
    pub resume_proposed_by: Option<Actor>,
}

/// What became of a stop that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressed {
    /// This call stopped everything.
    Now,
    /// Everything was stopped; the first one counts.
    Before,
}

/// Whether everything is stopped: the one value of it.
#[derive(Debug)]
pub(super) struct StopSwitch(watch::Sender<Option<Arc<StopStanding>>>);

impl StopSwitch {
    /// As an earlier server left it.
    pub(super) fn of_record(connection: &Connection) -> Result<Self, Fault> {
        let standing = fetch(
            connection,
            "SELECT id, by_json, at_ms, reason, killed_json, resume_json FROM stop",
            (),
            |row| {
                let mut columns = Columns::of("stop", row);
                let _id: i64 = columns.take()?;
                Ok(StopStanding {
                    stop: Arc::new(Stop {
                        by: columns.json()?,
                        at: columns.time()?,
                        reason: columns.take()?,
                    }),
                    killed_by: columns.maybe_json()?,
                    is_durable: true,
                    resume_proposed_by: columns.maybe_json()?,
                })
            },
        )?;
        Ok(Self(watch::Sender::new(standing.map(Arc::new))))
    }

    /// The stop that is in force.
    pub(super) fn current(&self) -> Option<Arc<StopStanding>> {
        self.0.borrow().clone()
    }

    /// Follows [`Self::current`].
    pub(super) fn watch(&self) -> watch::Receiver<Option<Arc<StopStanding>>> {
        self.0.subscribe()
    }

    /// Stops everything at once. A stop that is in force stays the one that counts.
    pub(super) fn press(&self, stop: Stop, kills: bool) -> Pressed {
        let mut pressed = Pressed::Now;
        let killed_by = kills.then(|| stop.by.clone());
        self.0.send_modify(|standing| match standing {
            None => {
                *standing = Some(Arc::new(StopStanding {
                    stop: Arc::new(stop),
                    killed_by,
                    is_durable: false,
                    resume_proposed_by: None,
                }));
            }
            Some(first) => {
                pressed = Pressed::Before;
                let first = Arc::make_mut(first);
                first.killed_by = first.killed_by.take().or(killed_by);
            }
        });
        pressed
    }

    /// Changes how a stop stands, while it is the one in force.
    pub(super) fn amend(&self, stop: &Arc<Stop>, change: impl FnOnce(&mut StopStanding)) {
        self.0.send_modify(|standing| {
            if let Some(standing) = standing
                && Arc::ptr_eq(&standing.stop, stop)
            {
                change(Arc::make_mut(standing));
            }
        });
    }

    /// Lets everything go on. Called once that is on record.
    pub(super) fn release(&self) {
        self.0.send_replace(None);
    }
}
