//! Reading approvals.

use std::sync::Arc;

use rusqlite::{Connection, Row, types::Value};

use countersign_domain::{
    AgentId, Approval, ApprovalDecision, ApprovalId, ApprovalState, ApprovalStatus, Authority, EnvOverrides,
    IdPart, Persist, RunId, SessionKey, TerminalReason, UnixMillis, Vote,
};

use super::{
    error::{Fault, LedgerError},
    handle::Ledger,
    keys::Keys,
    readers::{Listing, Page, agents_within},
    rows::Columns,
    sql::{fetch, has_id_part, list},
};

/// Which approvals are wanted. Everything that is set must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalFilter {
    /// In this state; `None` for any.
    pub status: Option<ApprovalStatus>,
    /// Of this agent; `None` for any.
    pub agent: Option<AgentId>,
    /// Asked from this session; `None` for any.
    pub session: Option<SessionKey>,
    /// Whose id begins with this, in upper or lower case.
    pub id_prefix: Option<String>,
    /// Whose id begins or ends with this.
    pub id_part: Option<IdPart>,
    /// Asked at or after.
    pub since: Option<UnixMillis>,
    /// Asked before.
    pub until: Option<UnixMillis>,
    /// Whose command has this text in it.
    pub query: Option<String>,
    /// Of an agent that the reader has authority over.
    pub authority: Authority,
}

/// When a pending approval ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDeadline {
    /// The approval that waits.
    pub approval: ApprovalId,
    /// The deadline: from then on [`Ledger::expire`] ends it.
    pub expires_at: UnixMillis,
}

/// An approval without its card: what is short, and all that can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRow {
    /// The approval.
    pub id: ApprovalId,
    /// The run that waits for it.
    pub run_id: RunId,
    /// Whose run it is.
    pub agent: AgentId,
    /// The session that asked.
    pub session: SessionKey,
    /// As stored: one past its deadline stays pending until that is settled.
    pub status: ApprovalStatus,
    /// The digest of what the answer covers.
    pub binding_digest: String,
    /// When it was asked.
    pub created_at: UnixMillis,
    /// The deadline.
    pub expires_at: UnixMillis,
    /// Who said what, where it takes several people.
    pub votes: Vec<Vote>,
}

impl Ledger {
    /// One approval. Reads on the calling thread.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, LedgerError> {
        Ok(self.stored_approval(id).await?.map(|stored| stored.approval))
    }

    /// One approval, with the values of its overrides while it waits. Reads on the calling thread.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approval_with_env(&self, id: &ApprovalId) -> Result<Option<Approval>, LedgerError> {
        let stored = self.stored_approval(id).await?;
        Ok(stored.map(|stored| stored.opened(&self.keys)))
    }

    async fn stored_approval(&self, id: &ApprovalId) -> Result<Option<StoredApproval>, LedgerError> {
        self.readers
            .inline(|connection| fetch_stored(connection, id))
            .await
    }

    /// Approvals, newest first, each with the values of its overrides while it waits.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approvals(
        &self,
        filter: ApprovalFilter,
        page: Page,
    ) -> Result<Listing<Approval>, LedgerError> {
        let keys = Arc::clone(&self.keys);
        self.readers
            .blocking(move |connection| {
                let (conditions, params) = filter.conditions(page);
                let sql = format!(
                    "SELECT {COLUMNS}, seq FROM approvals WHERE {conditions} ORDER BY seq DESC LIMIT ?"
                );
                let rows = list(connection, &sql, rusqlite::params_from_iter(params), |row| {
                    Ok((row.get("seq")?, from_row(row)?.opened(&keys)))
                })?;
                Ok(page.listing(rows))
            })
            .await
    }

    /// Approvals without their cards, newest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approval_rows(
        &self,
        filter: ApprovalFilter,
        page: Page,
    ) -> Result<Listing<ApprovalRow>, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let (conditions, params) = filter.conditions(page);
                let sql = format!(
                    "SELECT id, run_id, agent_id, session_key, status, binding_digest, created_ms, expires_ms, \
                     votes_json, seq FROM approvals WHERE {conditions} ORDER BY seq DESC LIMIT ?"
                );
                let rows = list(connection, &sql, rusqlite::params_from_iter(params), |row| {
                    let mut columns = Columns::of("approvals", row);
                    let approval = ApprovalRow {
                        id: columns.word()?,
                        run_id: columns.word()?,
                        agent: columns.word()?,
                        session: columns.word()?,
                        status: columns.word()?,
                        binding_digest: columns.take()?,
                        created_at: columns.time()?,
                        expires_at: columns.time()?,
                        votes: columns.json()?,
                    };
                    Ok((columns.take()?, approval))
                })?;
                Ok(page.listing(rows))
            })
            .await
    }

    /// These approvals in their order, each with the values of its overrides while it waits. One that is gone is left out.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approvals_by_ids(&self, ids: Vec<ApprovalId>) -> Result<Vec<Approval>, LedgerError> {
        let keys = Arc::clone(&self.keys);
        self.readers
            .blocking(move |connection| {
                let mut approvals = Vec::with_capacity(ids.len());
                for id in ids {
                    let stored = fetch_stored(connection, &id)?;
                    approvals.extend(stored.map(|stored| stored.opened(&keys)));
                }
                Ok(approvals)
            })
            .await
    }

    /// The deadlines of at most `limit` pending approvals, soonest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn pending_deadlines(&self, limit: u32) -> Result<Vec<PendingDeadline>, LedgerError> {
        // As a number: SQLite plans a statement anew for each value of a parameter there.
        let sql = format!(
            "SELECT id, expires_ms FROM approvals WHERE status = 'pending' ORDER BY expires_ms LIMIT {limit}"
        );
        self.readers
            .blocking(move |connection| {
                list(connection, &sql, (), |row| {
                    let mut columns = Columns::of("approvals", row);
                    Ok(PendingDeadline {
                        approval: columns.word()?,
                        expires_at: columns.time()?,
                    })
                })
            })
            .await
    }

    /// The ids of all pending approvals, oldest first.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn pending_approvals(&self) -> Result<Vec<ApprovalId>, LedgerError> {
        self.readers
            .blocking(|connection| {
                list(
                    connection,
                    "SELECT id FROM approvals WHERE status = 'pending' ORDER BY seq",
                    (),
                    |row| Columns::of("approvals", row).word(),
                )
            })
            .await
    }

    /// Allowed approvals whose entries are still to be written into the approvals document.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn approvals_to_persist(&self) -> Result<Vec<Approval>, LedgerError> {
        self.readers
            .blocking(|connection| {
                let sql = format!("SELECT {COLUMNS} FROM approvals WHERE persist = 'todo' ORDER BY seq");
                list(connection, &sql, (), |row| Ok(from_row(row)?.approval))
            })
            .await
    }
}

impl ApprovalFilter {
    fn conditions(&self, page: Page) -> (String, Vec<Value>) {
        let Self {
            status,
            agent,
            session,
            id_prefix,
            id_part,
            since,
            until,
            query,
            authority,
        } = self;
        let mut sql = String::from("1");
        let mut params = Vec::new();
        let mut add = |condition: &str, value: Value| {
            sql.push_str(" AND ");
            sql.push_str(condition);
            params.push(value);
        };
        if let Some(cursor) = page.cursor {
            add("seq < ?", Value::Integer(cursor.position()));
        }
        if let Some(status) = status {
            // Spelled out, so that the index of pending approvals is used.
            match status {
                ApprovalStatus::Pending => add("status = 'pending' AND ?", Value::Integer(1)),
                ApprovalStatus::Allowed
                | ApprovalStatus::Denied
                | ApprovalStatus::Expired
                | ApprovalStatus::Cancelled => add("status = ?", Value::Text(status.as_str().to_owned())),
            }
        }
        if let Some(agent) = agent {
            add("agent_id = ?", Value::Text(agent.as_str().to_owned()));
        }
        if let Some(agents) = agents_within(authority) {
            add("agent_id IN (SELECT value FROM json_each(?))", agents);
        }
        if let Some(session) = session {
            add("session_key = ?", Value::Text(session.as_str().to_owned()));
        }
        if let Some(prefix) = id_prefix {
            // Ids are lower case; a prefix is compared as text, never as a pattern. The bounds let the index be used: no
            // character of an id comes after `z`.
            let prefix = prefix.to_ascii_lowercase();
            add("id >= ?", Value::Text(prefix.clone()));
            add("id < ?", Value::Text(format!("{prefix}{{")));
            add("instr(id, ?) = 1", Value::Text(prefix));
        }
        if let Some(since) = since {
            add("created_ms >= ?", Value::Integer(since.get()));
        }
        if let Some(until) = until {
            add("created_ms < ?", Value::Integer(until.get()));
        }
        if let Some(query) = query {
            add(
                "EXISTS (SELECT 1 FROM runs WHERE runs.run_id = approvals.run_id AND instr(runs.command, ?) > 0)",
                Value::Text(query.clone()),
            );
        }
        if let Some(part) = id_part {
            add(
                &has_id_part("approvals", "id"),
                Value::Text(part.as_str().to_owned()),
            );
        }
        params.push(Value::Integer(page.fetch_limit()));
        (sql, params)
    }
}

/// An approval with what only the ledger may see of it.
pub(super) struct StoredApproval {
    pub(super) approval: Approval,
    pub(super) binding_digest: String,
    pub(super) env_sealed: Option<Vec<u8>>,
}

impl StoredApproval {
    /// The values of the environment overrides that it holds, `None` when they are not whole.
    pub(super) fn env(&self, keys: &Keys) -> Option<EnvOverrides> {
        match (&self.env_sealed, &self.approval.card.binding.env_hash) {
            (None, None) => Some(EnvOverrides::default()),
            (Some(sealed), Some(_)) => keys.open(&self.approval.id, sealed),
            (None, Some(_)) | (Some(_), None) => None,
        }
    }

    /// The approval with those values while it waits.
    fn opened(self, keys: &Keys) -> Approval {
        let waits = self.approval.state.status() == ApprovalStatus::Pending;
        let env = if waits { self.env(keys) } else { None };
        Approval {
            waiting_env: env.unwrap_or_default(),
            ..self.approval
        }
    }
}

pub(super) fn fetch_stored(
    connection: &Connection,
    id: &ApprovalId,
) -> Result<Option<StoredApproval>, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM approvals WHERE id = ?1");
    fetch(connection, &sql, (id.as_str(),), from_row)
}

const COLUMNS: &str = "id, run_id, card_json, binding_digest, env_sealed, asked_by_kind, asked_by_id, \
     asked_by_name, created_ms, expires_ms, chosen_json, status, decision, reason, resolved_ms, resolved_kind, \
     resolved_id, resolved_name, terminal_reason, consumed_ms, persist, revises, revised_by, \
     votes_json";

fn from_row(row: &Row<'_>) -> Result<StoredApproval, Fault> {
    let mut columns = Columns::of("approvals", row);
    let (id, run_id) = (columns.word()?, columns.word()?);
    let card = columns.json()?;
    let (binding_digest, env_sealed) = (columns.take()?, columns.take()?);
    let requested_by = columns.actor()?;
    let (created_at, expires_at) = (columns.time()?, columns.time()?);
    let chosen_patterns = columns.json()?;
    let state = state(&mut columns)?;
    let (revises, revised_by) = (columns.maybe_word()?, columns.maybe_word()?);
    let votes = columns.json()?;
    let approval = Approval {
        id,
        run_id,
        card,
        waiting_env: EnvOverrides::default(),
        requested_by,
        state,
        chosen_patterns,
        votes,
        created_at,
        expires_at,
        revises,
        revised_by,
    };
    Ok(StoredApproval {
        approval,
        binding_digest,
        env_sealed,
    })
}

fn state(columns: &mut Columns<'_>) -> Result<ApprovalState, Fault> {
    let status: ApprovalStatus = columns.word()?;
    let decision: Option<ApprovalDecision> = columns.maybe_word()?;
    let reason: Option<String> = columns.take()?;
    let at = columns.maybe_time()?;
    let by = columns.maybe_actor()?;
    let why: Option<TerminalReason> = columns.maybe_word()?;
    let consumed_at = columns.maybe_time()?;
    let persist: Persist = columns.word()?;
    let allows = decision.filter(|decision| *decision != ApprovalDecision::Deny);
    match (status, at, by) {
        (ApprovalStatus::Pending, None, None) => Ok(ApprovalState::Pending),
        (ApprovalStatus::Allowed, Some(at), Some(by)) => match allows {
            Some(decision) => Ok(ApprovalState::Allowed {
                decision,
                by,
                at,
                reason,
                why: why.unwrap_or(TerminalReason::User),
                consumed_at,
                persist,
            }),
            None => columns.contradiction("decision"),
        },
        (ApprovalStatus::Denied, Some(at), Some(by)) => Ok(ApprovalState::Denied {
            by,
            at,
            reason,
            why: why.unwrap_or(TerminalReason::User),
        }),
        (ApprovalStatus::Expired, Some(at), None) => match why {
            Some(why) => Ok(ApprovalState::Expired { at, why }),
            None => columns.contradiction("terminal_reason"),
        },
        (ApprovalStatus::Cancelled, Some(at), Some(by)) => Ok(ApprovalState::Cancelled { by, at }),
        (
            ApprovalStatus::Pending
            | ApprovalStatus::Allowed
            | ApprovalStatus::Denied
            | ApprovalStatus::Expired
            | ApprovalStatus::Cancelled,
            _,
            _,
        ) => columns.contradiction("status"),
    }
}
