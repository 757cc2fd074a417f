//! API tokens. Only the SHA-256 of a secret is ever here.

use std::{collections::BTreeSet, path::Path};

use rusqlite::Connection;
use serde_json::json;

use countersign_domain::{Actor, AgentId, Owner, RunId, Scope, Token, TokenId, UnixMillis};

use super::{
    audit::{AuditAction, Entry},
    config::{Durability, Tuning},
    connection::open_at_rest,
    error::{Fault, LedgerError},
    handle::Ledger,
    job::{Change, Job},
    readers::{Cursor, Listing, Page},
    rows::Columns,
    sign_ins,
    sql::{fetch, json as text, list},
    token_rows::{COLUMNS, fetch_token, from_row},
    tx::{Committed, Tx},
    withdraw,
};

/// A token on its way into the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// A new public id; [`LedgerError::Refused`] when it exists.
    pub id: TokenId,
    /// Its name for people.
    pub name: String,
    /// The person whose token it is; two tokens of one owner are one person.
    pub owner: Owner,
    /// Who proposed it, where another owner has to accept it before it opens anything.
    pub proposed_by: Option<Actor>,
    /// SHA-256 of its secret, lower-case hex.
    pub sha256: String,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// The agents it is bound to; `None` for all.
    pub agents: Option<BTreeSet<AgentId>>,
    /// The approver groups it belongs to.
    pub groups: BTreeSet<String>,
    /// When it ends by itself; `None` for never.
    pub expires_at: Option<UnixMillis>,
    /// The token whose place it takes.
    pub replaces: Option<TokenId>,
}

impl Ledger {
    /// Stores a new token.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] when its id or secret exists, else when the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn insert_token(&self, token: NewToken, by: Actor) -> Result<Token, LedgerError> {
        self.queue.submit(Insert { token, by }).await
    }

    /// Accepts a token that another owner proposed.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn accept_token(&self, id: TokenId, by: Actor) -> Result<TokenAcceptance, LedgerError> {
        self.queue.submit(Accept { id, by }).await
    }

    /// An actor that a record of the ledger names, with the owner of its token.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn with_owner(&self, actor: &Actor) -> Result<Actor, LedgerError> {
        let token = match actor.token() {
            Some(id) => self.token(&id).await?,
            None => None,
        };
        Ok(actor.owned(token.as_ref()))
    }

    /// The owners that have a live token with `admin` for everything. Reads on the calling thread, and never waits.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn admin_owners(&self, now: UnixMillis) -> Result<BTreeSet<Owner>, LedgerError> {
        self.readers.with(|connection| owners_of_admins(connection, now))
    }

    /// Revokes a token and withdraws what it asked. `None` when there is none; revoking again changes nothing.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn revoke_token(&self, id: TokenId, by: Actor) -> Result<Option<RevokedToken>, LedgerError> {
        self.queue.submit(Revoke { id, by }).await
    }

    /// Puts a token with a new id and secret in the place of a live one, which is revoked.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] when the new id or secret exists, else when the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn rotate_token(
        &self,
        id: TokenId,
        successor: Successor,
        by: Actor,
    ) -> Result<TokenRotation, LedgerError> {
        self.queue.submit(Rotate { id, successor, by }).await
    }

    /// The token whose secret has this SHA-256 (lower-case hex), live or not. Reads on the calling thread.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn token_by_sha256(&self, sha256: &str) -> Result<Option<Token>, LedgerError> {
        self.readers
            .inline(|connection| {
                let sql = format!("SELECT {COLUMNS} FROM tokens WHERE sha256 = ?1");
                fetch(connection, &sql, (sha256,), from_row)
            })
            .await
    }

    /// One token.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn token(&self, id: &TokenId) -> Result<Option<Token>, LedgerError> {
        self.readers
            .inline(|connection| fetch_token(connection, id))
            .await
    }

    /// A live token of this name, whatever its case, that is not one which a link of this owner made for the same name.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn other_token_named(
        &self,
        name: &str,
        owner: &Owner,
        now: UnixMillis,
    ) -> Result<Option<Token>, LedgerError> {
        let wanted = name.trim().to_lowercase();
        let owner = owner.clone();
        self.readers
            .blocking(move |connection| {
                let sql = format!(
                    "SELECT {COLUMNS} FROM tokens WHERE revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > ?1) \
                     AND NOT (for_link = 1 AND owner = ?2)"
                );
                let live = list(connection, &sql, (now.get(), owner.as_str()), from_row)?;
                let mut live = live.into_iter();
                Ok(live.find(|token| token.name.trim().to_lowercase() == wanted))
            })
            .await
    }

    /// Tokens, newest first, revoked ones too.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn tokens(&self, page: Page) -> Result<Listing<Token>, LedgerError> {
        self.readers
            .blocking(move |connection| {
                let sql = format!(
                    "SELECT {COLUMNS}, rowid FROM tokens WHERE rowid < ?1 ORDER BY rowid DESC LIMIT ?2"
                );
                let before = page.cursor.map_or(i64::MAX, Cursor::position);
                let rows = list(connection, &sql, (before, page.fetch_limit()), |row| {
                    Ok((row.get(12)?, from_row(row)?))
                })?;
                Ok(page.listing(rows))
            })
            .await
    }

    /// Notes whether a token reads events in a way that lets it count as an approver although nobody said so.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn note_presumed_approver(&self, id: TokenId, is_presumed: bool) -> Result<(), LedgerError> {
        self.queue.submit(NotePresumed { id, is_presumed }).await
    }

    /// Notes that a token was used; written behind, within some seconds.
    pub fn touch_token(&self, id: TokenId, at: UnixMillis) {
        self.queue.note_token_use(id, at);
    }
}

/// Most tokens of one look at a ledger.
const MOST_SEEN: u32 = 100;

/// The live tokens of a ledger that need not be open whose agents do not fit their scopes: those that are bound to no
/// agent and may ask for commands, but for the one with this SHA-256, and admins that are bound to agents. Nothing is
/// changed, and no file is made; no ledger has none.
///
/// # Errors
/// When the ledger cannot be read.
pub fn doubtful_tokens(
    path: &Path,
    now: UnixMillis,
    except_sha256: Option<&str>,
) -> Result<Vec<Token>, LedgerError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let connection = open_at_rest(path)?;
    let sql = format!(
        "SELECT {COLUMNS} FROM tokens WHERE revoked_ms IS NULL AND sha256 IS NOT ?1 \
         AND EXISTS (SELECT 1 FROM json_each(scopes) WHERE value = CASE WHEN agents IS NULL THEN 'exec' ELSE 'admin' END) \
         AND (expires_ms IS NULL OR expires_ms > ?2) ORDER BY rowid LIMIT ?3"
    );
    Ok(list(
        &connection,
        &sql,
        (except_sha256, now.get(), MOST_SEEN),
        from_row,
    )?)
}

/// The owners of a ledger that need not be open that have a live token with `admin` for everything. Nothing is changed, and
/// no file is made; no ledger has none.
///
/// # Errors
/// When the ledger cannot be read.
pub fn admin_owners(path: &Path, now: UnixMillis) -> Result<BTreeSet<Owner>, LedgerError> {
    if !path.exists() {
        return Ok(BTreeSet::new());
    }
    Ok(owners_of_admins(&open_at_rest(path)?, now)?)
}

fn owners_of_admins(connection: &Connection, now: UnixMillis) -> Result<BTreeSet<Owner>, Fault> {
    let owners = list(
        connection,
        "SELECT id, owner FROM tokens WHERE revoked_ms IS NULL AND proposed_json IS NULL AND agents IS NULL \
         AND (expires_ms IS NULL OR expires_ms > ?1) \
         AND EXISTS (SELECT 1 FROM json_each(scopes) WHERE value = 'admin')",
        (now.get(),),
        |row| {
            let mut columns = Columns::of("tokens", row);
            let _id: String = columns.take()?;
            columns.word()
        },
    )?;
    Ok(owners.into_iter().collect())
}

/// The live tokens of a ledger that need not be open which read events last without a word on whether a person answers
/// there. Nothing is changed, and no file is made; no ledger has none.
///
/// # Errors
/// When the ledger cannot be read.
pub fn presumed_approvers(path: &Path, now: UnixMillis) -> Result<Vec<Token>, LedgerError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let connection = open_at_rest(path)?;
    let sql = format!(
        "SELECT {COLUMNS} FROM tokens WHERE revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > ?1) \
         AND EXISTS (SELECT 1 FROM meta WHERE key = ?2 || tokens.id) ORDER BY rowid LIMIT ?3"
    );
    Ok(list(
        &connection,
        &sql,
        (now.get(), PRESUMED, MOST_SEEN),
        from_row,
    )?)
}

/// The beginning of the keys in `meta` under which tokens are noted; the rest is their id.
const PRESUMED: &str = "presumed-approver.";

struct NotePresumed {
    id: TokenId,
    is_presumed: bool,
}

impl Change for NotePresumed {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let key = format!("{PRESUMED}{}", self.id);
        if self.is_presumed {
            let now = tx.now().get();
            tx.execute(
                "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)",
                (key, now),
            )?;
        } else {
            tx.execute("DELETE FROM meta WHERE key = ?1", (key,))?;
        }
        Ok(())
    }
}

struct Insert {
    token: NewToken,
    by: Actor,
}

impl Job for Insert {
    type Draft = UnixMillis;
    type Answer = Token;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<UnixMillis, Fault> {
        let NewToken {
            id,
            name,
            owner,
            proposed_by,
            sha256,
            scopes,
            agents,
            groups,
            expires_at,
            replaces,
        } = &self.token;
        let now = tx.now();
        tx.execute(
            "INSERT INTO tokens (id, name, sha256, scopes, agents, groups, created_ms, expires_ms, owner, proposed_json) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            (
                id.as_str(),
                name,
                sha256,
                text(scopes),
                agents.as_ref().map(text),
                text(groups),
                now.get(),
                expires_at.map(UnixMillis::get),
                owner.as_str(),
                proposed_by.as_ref().map(text),
            ),
        )?;
        let action = AuditAction::TokenCreated;
        let detail = json!({
            "name": name,
            "owner": owner,
            "scopes": scopes,
            "agents": agents,
            "held": proposed_by.is_some(),
            "replaces": replaces,
        });
        tx.audit(&Entry::done(action, "token", id.as_str(), &self.by, detail))?;
        Ok(now)
    }

    fn committed(self, created_at: UnixMillis, _proof: &Committed) -> Token {
        let NewToken {
            id,
            name,
            owner,
            proposed_by,
            sha256: _,
            scopes,
            agents,
            groups,
            expires_at,
            replaces: _,
        } = self.token;
        Token {
            id,
            name,
            owner,
            proposed_by,
            scopes,
            agents,
            groups,
            created_at,
            expires_at,
            last_used_at: None,
            revoked_at: None,
        }
    }
}

/// What became of accepting a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenAcceptance {
    /// The token, which opens what its scopes say from now on.
    Accepted(Box<Token>),
    /// It takes another owner than the one who proposed it.
    Own,
    /// There is none that waits.
    NotHeld,
}

struct Accept {
    id: TokenId,
    by: Actor,
}

impl Change for Accept {
    type Answer = TokenAcceptance;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<TokenAcceptance, Fault> {
        let found = fetch_token(tx.connection, &self.id)?;
        let Some((token, proposer)) = found.and_then(|token| Some((token.clone(), token.proposed_by?)))
        else {
            return Ok(TokenAcceptance::NotHeld);
        };
        if token.revoked_at.is_some() {
            return Ok(TokenAcceptance::NotHeld);
        }
        if proposer.is_same_person(&self.by) {
            return Ok(TokenAcceptance::Own);
        }
        tx.execute(
            "UPDATE tokens SET proposed_json = NULL WHERE id = ?1",
            (self.id.as_str(),),
        )?;
        let detail = json!({ "name": token.name, "owner": token.owner, "proposedBy": proposer });
        let (action, id) = (AuditAction::TokenAccepted, self.id.as_str());
        tx.audit(&Entry::done(action, "token", id, &self.by, detail))?;
        Ok(TokenAcceptance::Accepted(Box::new(Token {
            proposed_by: None,
            ..token
        })))
    }
}

/// A token that was revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedToken {
    /// The token, with the time of its first revocation.
    pub token: Token,
    /// The runs that waited for an answer to a question of this token, and were denied.
    pub denied: Vec<RunId>,
}

struct Revoke {
    id: TokenId,
    by: Actor,
}

impl Change for Revoke {
    type Answer = Option<RevokedToken>;

    fn is_long(&self) -> bool {
        // It may have asked for much.
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<RevokedToken>, Fault> {
        let now = tx.now();
        let changed = tx.execute(
            "UPDATE tokens SET revoked_ms = ?2 WHERE id = ?1 AND revoked_ms IS NULL",
            (self.id.as_str(), now.get()),
        )?;
        let Some(token) = fetch_token(tx.connection, &self.id)? else {
            return Ok(None);
        };
        let mut denied = Vec::new();
        if changed == 1 {
            denied = withdraw::of_token(tx, &self.id, &self.by)?;
            sign_ins::end_with_token(tx, &self.id)?;
            let (action, id) = (AuditAction::TokenRevoked, self.id.as_str());
            let detail = json!({ "name": token.name });
            tx.audit(&Entry::done(action, "token", id, &self.by, detail))?;
        }
        Ok(Some(RevokedToken { token, denied }))
    }
}

/// What is new about a token that takes the place of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// Id of the new token.
    pub id: TokenId,
    /// SHA-256 of its secret, lower-case hex.
    pub sha256: String,
}

/// What became of replacing a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRotation {
    /// The new token opens what the old one did, which opens nothing more.
    Rotated {
        /// The new token, with all else as the old one had it.
        token: Box<Token>,
        /// The old one, with what it had asked.
        old: Box<RevokedToken>,
    },
    /// It belongs to another owner, who would be two people with its secret.
    OfOtherOwner,
    /// There is none that opens anything.
    NoneLive,
}

struct Rotate {
    id: TokenId,
    successor: Successor,
    by: Actor,
}

impl Change for Rotate {
    type Answer = TokenRotation;

    fn is_long(&self) -> bool {
        // As a revocation.
        true
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<TokenRotation, Fault> {
        let found = fetch_token(tx.connection, &self.id)?;
        let Some(token) = found.filter(|token| token.is_live(tx.now())) else {
            return Ok(TokenRotation::NoneLive);
        };
        if token.owner != self.by.person() {
            return Ok(TokenRotation::OfOtherOwner);
        }
        let revoke = Revoke {
            id: self.id.clone(),
            by: self.by.clone(),
        };
        let Some(old) = Change::apply(&revoke, tx)? else {
            return Ok(TokenRotation::NoneLive);
        };
        let insert = Insert {
            token: NewToken {
                id: self.successor.id.clone(),
                name: token.name.clone(),
                owner: token.owner.clone(),
                proposed_by: None,
                sha256: self.successor.sha256.clone(),
                scopes: token.scopes.clone(),
                agents: token.agents.clone(),
                groups: token.groups.clone(),
                expires_at: token.expires_at,
                replaces: Some(token.id.clone()),
            },
            by: self.by.clone(),
        };
        let created_at = insert.apply(tx)?;
        Ok(TokenRotation::Rotated {
            token: Box::new(Token {
                id: self.successor.id.clone(),
                created_at,
                last_used_at: None,
                ..token
            }),
            old: Box::new(old),
        })
    }
}
