//! Idempotency keys: the same key with the same body gets the first answer, for 24 hours.

use std::time::Duration;

use rusqlite::Connection;

use countersign_domain::{RunId, TokenId, UnixMillis};

use super::{
    error::{Fault, LedgerError},
    handle::Ledger,
    job::Change,
    rows::Columns,
    sql::fetch,
    tx::Tx,
};

/// How long a key is remembered (`docs/spec/http-api.md#post-v1exec-answers`).
pub(super) const KEPT: Duration = Duration::from_hours(24);

/// A key as a caller sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Whose key; keys of different tokens never meet.
    pub token: TokenId,
    /// As the caller sent it; compared exactly.
    pub key: String,
    /// SHA-256 of the body, lower-case hex.
    pub body_sha256: String,
    /// What is kept with the run that it gets, in place of the hint of a refusal; no part of what is compared.
    pub note: Option<String>,
}

/// What a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredOutcome {
    /// A run; its record has the answer, or will.
    Run {
        /// The run that the first call got.
        run: RunId,
        /// What the answer said besides: what would change a refusal, or [`IdempotencyKey::note`].
        hint: Option<String>,
    },
    /// The answer of a call that got no run.
    Answer {
        /// The number that [`Ledger::keep_answer`] was given.
        status: u16,
        /// The text that it was given.
        body: String,
    },
}

/// What is known about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyState {
    /// It was not used in the last 24 hours.
    New,
    /// The first answer.
    Known(StoredOutcome),
    /// It was used with another body.
    Mismatch,
}

/// What became of an admission that may carry a key.
#[derive(Debug)]
pub enum Admission<T> {
    /// The key, if any, was new.
    New(T),
    /// The key is known; nothing was written.
    Known(StoredOutcome),
    /// The key was used with another body; nothing was written.
    Mismatch,
}

impl<T> Admission<T> {
    pub(super) fn map<U>(self, make: impl FnOnce(T) -> U) -> Admission<U> {
        match self {
            Self::New(value) => Admission::New(make(value)),
            Self::Known(kept) => Admission::Known(kept),
            Self::Mismatch => Admission::Mismatch,
        }
    }
}

/// Runs `admit` unless the key is known.
pub(super) fn admit<T>(
    tx: &mut Tx<'_>,
    key: Option<&IdempotencyKey>,
    admit: impl FnOnce(&mut Tx<'_>) -> Result<T, Fault>,
) -> Result<Admission<T>, Fault> {
    if let Some(key) = key {
        let now = tx.now();
        match state_of(tx.connection, key, now)? {
            KeyState::New => {}
            KeyState::Known(kept) => return Ok(Admission::Known(kept)),
            KeyState::Mismatch => return Ok(Admission::Mismatch),
        }
    }
    admit(tx).map(Admission::New)
}

/// Ties a key to a run.
pub(super) fn keep_run(tx: &mut Tx<'_>, key: Option<&IdempotencyKey>, run: &RunId) -> Result<(), Fault> {
    keep_refused(tx, key, run, None)
}

/// Ties a key to a run that was refused, with what the answer says that the run's record does not.
pub(super) fn keep_refused(
    tx: &mut Tx<'_>,
    key: Option<&IdempotencyKey>,
    run: &RunId,
    hint: Option<&str>,
) -> Result<(), Fault> {
    let Some(key) = key else { return Ok(()) };
    let now = tx.now().get();
    tx.execute(
        "INSERT OR REPLACE INTO idempotency (token_id, key, body_sha256, run_id, answer, created_ms) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            key.token.as_str(),
            &key.key,
            &key.body_sha256,
            run.as_str(),
            key.note.as_deref().or(hint),
            now,
        ),
    )?;
    Ok(())
}

/// What is known about a key at `now`.
pub(super) fn state_of(
    connection: &Connection,
    key: &IdempotencyKey,
    now: UnixMillis,
) -> Result<KeyState, Fault> {
    let oldest = now.get().saturating_sub(super::sql::millis(KEPT));
    let found = fetch(
        connection,
        "SELECT key, body_sha256, run_id, status, answer FROM idempotency \
         WHERE token_id = ?1 AND key = ?2 AND created_ms > ?3",
        (key.token.as_str(), &key.key, oldest),
        |row| {
            let mut columns = Columns::of("idempotency", row);
            let _key: String = columns.take()?;
            let body: String = columns.take()?;
            let run: Option<RunId> = columns.maybe_word()?;
            let status: Option<u16> = columns.take()?;
            let answer: Option<String> = columns.take()?;
            let kept = match (run, status, answer) {
                (Some(run), _, hint) => StoredOutcome::Run { run, hint },
                (None, Some(status), Some(body)) => StoredOutcome::Answer { status, body },
                (None, _, _) => return columns.contradiction("run_id"),
            };
            Ok((body, kept))
        },
    )?;
    Ok(match found {
        None => KeyState::New,
        Some((body, kept)) if body == key.body_sha256 => KeyState::Known(kept),
        Some(_) => KeyState::Mismatch,
    })
}

/// Keeps the answer of a call that got no run.
struct KeepAnswer {
    key: IdempotencyKey,
    status: u16,
    body: String,
}

impl Ledger {
    /// Keeps the answer of a keyed call that got no run.
    ///
    /// # Errors
    /// When the ledger cannot be written; then nothing was.
    #[crate::compiled_once]
    pub async fn keep_answer(
        &self,
        key: IdempotencyKey,
        status: u16,
        body: String,
    ) -> Result<Admission<()>, LedgerError> {
        self.queue.submit(KeepAnswer { key, status, body }).await
    }
}

impl Change for KeepAnswer {
    type Answer = Admission<()>;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Admission<()>, Fault> {
        admit(tx, Some(&self.key), |tx| {
            let now = tx.now().get();
            tx.execute(
                "INSERT OR REPLACE INTO idempotency (token_id, key, body_sha256, status, answer, created_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                (
                    self.key.token.as_str(),
                    &self.key.key,
                    &self.key.body_sha256,
                    self.status,
                    &self.body,
                    now,
                ),
            )?;
            Ok(())
        })
    }
}
