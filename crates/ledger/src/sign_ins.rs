//! One-time links and the browsers that are signed in. Only the SHA-256 of a code or secret is ever here.
//!
//! A link is used up in the transaction that signs the browser in, so of many who show the same code one wins.

use std::time::Duration;

use serde_json::{Map, Value};

use countersign_domain::{Actor, ActorKind, SignIn, SignInId, Token, TokenId, UnixMillis};

use super::{
    audit::{AuditAction, AuditOutcome, Entry, Target},
    config::{Durability, Tuning},
    error::{Fault, LedgerError},
    handle::Ledger,
    job::{Change, Job},
    rows::Columns,
    sql::{exactly_one, fetch, list},
    token_rows::fetch_token,
    trim::{ROWS, as_count},
    tx::{Committed, Tx},
};

/// Links that may be open at once; the oldest goes when there would be more.
const MAX_LINKS: i64 = 100;

/// Browsers that may stand for one token at once; the oldest is signed out when there would be more. Counted by
/// token, so that nobody with a token of their own can sign others out.
const MAX_PER_TOKEN: i64 = 100;

/// What a person shows to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInBy {
    /// The code of a one-time link.
    Link,
    /// The secret of a token.
    Token,
}

/// A one-time link on its way into the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLoginLink {
    /// SHA-256 of its code, lower-case hex.
    pub sha256: String,
    /// How long it can be used.
    pub lasts: Duration,
    /// The token that asked for it; the link opens nothing once that token has ended.
    pub made_by: Option<TokenId>,
    /// The token that it signs in as; `None` for the operator's.
    pub token: Option<TokenId>,
}

/// As whom a one-time link signs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkFor {
    /// As the operator's token, whichever that is then.
    Operator,
    /// As this token, which was made for it.
    Token(TokenId),
}

/// A sign-in on its way into the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSignIn {
    /// A new id: that of the token, a hyphen and a part of its own.
    pub id: SignInId,
    /// The token that it stands for.
    pub token: TokenId,
    /// SHA-256 of the code of the link that is used up for it, lower-case hex; `None` when the token itself was
    /// shown.
    pub link: Option<String>,
    /// SHA-256 of its cookie's secret, lower-case hex.
    pub sha256: String,
    /// SHA-256 of its second secret, lower-case hex.
    pub second_sha256: String,
    /// How long it lasts.
    pub lasts: Duration,
    /// The sign-in that the same browser had before, which ends.
    pub replaces: Option<SignInId>,
    /// IP address of the browser, for the audit record.
    pub address: String,
}

/// A sign-in as it is stored, with its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSignIn {
    /// Its id and times; it may have expired.
    pub sign_in: SignIn,
    /// SHA-256 of its second secret, lower-case hex.
    pub second_sha256: String,
    /// The token that it stands for, live or not.
    pub token: Token,
}

/// A sign-in that has just begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The sign-in as stored; it ends no later than its token.
    pub sign_in: SignIn,
    /// The token that it stands for.
    pub token: Token,
    /// Sign-ins that ended for it: the one that it replaces, and the oldest of too many.
    pub ended: Vec<SignInId>,
}

impl Ledger {
    /// Stores a one-time link; returns when it ends.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn insert_login_link(&self, link: NewLoginLink) -> Result<UnixMillis, LedgerError> {
        self.queue.submit(InsertLink(link)).await
    }

    /// Signs a browser in, uses up the link and writes the audit record, all at once. `None`, and nothing is
    /// changed, when the link is unknown, used or too old, or a token that it depends on has ended.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn sign_in(&self, new: NewSignIn) -> Result<Option<Begun>, LedgerError> {
        self.queue.submit(Begin(new)).await
    }

    /// As whom the link with this SHA-256 of its code (lower-case hex) signs in; `None` where there is no such link. Reads on
    /// the calling thread.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn link_for(&self, sha256: &str) -> Result<Option<LinkFor>, LedgerError> {
        self.readers
            .inline(|connection| {
                let sql = "SELECT token_id FROM login_links WHERE sha256 = ?1";
                fetch(connection, sql, (sha256,), |row| {
                    let token = Columns::of("login_links", row).maybe_word::<TokenId>()?;
                    Ok(token.map_or(LinkFor::Operator, LinkFor::Token))
                })
            })
            .await
    }

    /// The browsers that are signed in at `now`, the newest first, each with its token.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn sign_ins(&self, now: UnixMillis) -> Result<Vec<(SignIn, Token)>, LedgerError> {
        self.readers
            .inline(|connection| {
                let found = list(
                    connection,
                    "SELECT id, token_id, created_ms, expires_ms FROM sign_ins WHERE expires_ms > ?1 \
                     ORDER BY created_ms DESC, id",
                    (now.get(),),
                    |row| {
                        let mut columns = Columns::of("sign_ins", row);
                        Ok(SignIn {
                            id: columns.word()?,
                            token: columns.word()?,
                            created_at: columns.time()?,
                            expires_at: columns.time()?,
                        })
                    },
                )?;
                let mut signed_in = Vec::with_capacity(found.len());
                for sign_in in found {
                    let token = fetch_token(connection, &sign_in.token)?.filter(|token| token.is_live(now));
                    signed_in.extend(token.map(|token| (sign_in, token)));
                }
                Ok(signed_in)
            })
            .await
    }

    /// Signs a browser out for an admin, with a record; `false` where it is not signed in.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn revoke_sign_in(&self, id: SignInId, by: Actor) -> Result<bool, LedgerError> {
        self.queue.submit(Revoke { id, by }).await
    }

    /// Ends a sign-in; one that is gone already stays gone.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn sign_out(&self, id: SignInId) -> Result<(), LedgerError> {
        self.queue.submit(End(id)).await
    }

    /// Writes down that a sign-in failed.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn record_failed_sign_in(&self, address: String, by: SignInBy) -> Result<(), LedgerError> {
        self.queue.submit(Failed { address, by }).await
    }

    /// The sign-in whose cookie has this SHA-256 (lower-case hex), live or not. Reads on the calling thread.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn sign_in_by_sha256(&self, sha256: &str) -> Result<Option<StoredSignIn>, LedgerError> {
        self.readers
            .inline(|connection| {
                let sql = "SELECT id, token_id, created_ms, expires_ms, second_sha256 FROM sign_ins \
                           WHERE sha256 = ?1";
                let found = fetch(connection, sql, (sha256,), |row| {
                    let mut columns = Columns::of("sign_ins", row);
                    let sign_in = SignIn {
                        id: columns.word()?,
                        token: columns.word()?,
                        created_at: columns.time()?,
                        expires_at: columns.time()?,
                    };
                    Ok((sign_in, columns.take()?))
                })?;
                let Some((sign_in, second_sha256)) = found else {
                    return Ok(None);
                };
                let token = fetch_token(connection, &sign_in.token)?;
                Ok(token.map(|token| StoredSignIn {
                    sign_in,
                    second_sha256,
                    token,
                }))
            })
            .await
    }
}

struct InsertLink(NewLoginLink);

impl Job for InsertLink {
    type Draft = UnixMillis;
    type Answer = UnixMillis;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<UnixMillis, Fault> {
        let NewLoginLink {
            sha256,
            lasts,
            made_by,
            token,
        } = &self.0;
        let now = tx.now();
        let expires_at = now + *lasts;
        tx.execute("DELETE FROM login_links WHERE expires_ms <= ?1", (now.get(),))?;
        tx.execute(
            "DELETE FROM login_links WHERE sha256 IN \
             (SELECT sha256 FROM login_links ORDER BY created_ms DESC, sha256 LIMIT -1 OFFSET ?1)",
            (MAX_LINKS - 1,),
        )?;
        tx.execute(
            "INSERT INTO login_links (sha256, made_by, created_ms, expires_ms, token_id) VALUES (?1, ?2, ?3, ?4, ?5)",
            (
                sha256,
                made_by.as_ref().map(TokenId::as_str),
                now.get(),
                expires_at.get(),
                token.as_ref().map(TokenId::as_str),
            ),
        )?;
        if let Some(token) = token {
            tx.execute("UPDATE tokens SET for_link = 1 WHERE id = ?1", (token.as_str(),))?;
        }
        Ok(expires_at)
    }

    fn committed(self, expires_at: UnixMillis, _proof: &Committed) -> UnixMillis {
        expires_at
    }
}

struct Begin(NewSignIn);

impl Begin {
    /// Whether the link can be used now, and the token that asked for it has not ended.
    fn is_link_open(tx: &Tx<'_>, sha256: &str, now: UnixMillis) -> Result<bool, Fault> {
        let link = fetch(
            tx.connection,
            "SELECT sha256, made_by FROM login_links WHERE sha256 = ?1 AND expires_ms > ?2",
            (sha256, now.get()),
            |row| Columns::after("login_links", row, 1).maybe_word::<TokenId>(),
        )?;
        match link {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(made_by)) => {
                let maker = fetch_token(tx.connection, &made_by)?;
                Ok(maker.is_some_and(|maker| maker.is_live(now)))
            }
        }
    }
}

impl Change for Begin {
    type Answer = Option<Begun>;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<Begun>, Fault> {
        let NewSignIn {
            id,
            token,
            link,
            sha256,
            second_sha256,
            lasts,
            replaces,
            address,
        } = &self.0;
        let now = tx.now();
        let token = fetch_token(tx.connection, token)?.filter(|token| token.is_live(now));
        let Some(token) = token else { return Ok(None) };
        if let Some(link) = link {
            if !Self::is_link_open(tx, link, now)? {
                return Ok(None);
            }
            exactly_one(tx.execute("DELETE FROM login_links WHERE sha256 = ?1", (link,))?)?;
        }
        let ends = now + *lasts;
        let sign_in = SignIn {
            id: id.clone(),
            token: token.id.clone(),
            created_at: now,
            expires_at: token.expires_at.map_or(ends, |token_ends| token_ends.min(ends)),
        };
        tx.execute("DELETE FROM sign_ins WHERE expires_ms <= ?1", (now.get(),))?;
        let ended = list(
            tx.connection,
            "DELETE FROM sign_ins WHERE id = ?3 OR id IN (SELECT id FROM sign_ins WHERE token_id = ?1 \
             ORDER BY created_ms DESC, rowid DESC LIMIT -1 OFFSET ?2) RETURNING id",
            (
                token.id.as_str(),
                MAX_PER_TOKEN - 1,
                replaces.as_ref().map(SignInId::as_str),
            ),
            |row| Columns::of("sign_ins", row).word(),
        )?;
        tx.execute(
            "INSERT INTO sign_ins (id, token_id, sha256, second_sha256, created_ms, expires_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                id.as_str(),
                token.id.as_str(),
                sha256,
                second_sha256,
                now.get(),
                sign_in.expires_at.get(),
            ),
        )?;
        let mut detail = how(match link {
            Some(_) => SignInBy::Link,
            None => SignInBy::Token,
        });
        detail.insert("tokenId".to_owned(), token.id.as_str().into());
        tx.audit(&Entry {
            actor: sign_in.actor(&token),
            address: Some(address.clone()),
            action: AuditAction::Login,
            target: Target {
                kind: "session".to_owned(),
                id: id.to_string(),
            },
            outcome: AuditOutcome::Ok,
            detail,
        })?;
        Ok(Some(Begun {
            sign_in,
            token,
            ended,
        }))
    }
}

struct End(SignInId);

impl Change for End {
    type Answer = ();

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.execute("DELETE FROM sign_ins WHERE id = ?1", (self.0.as_str(),))?;
        Ok(())
    }
}

struct Revoke {
    id: SignInId,
    by: Actor,
}

impl Change for Revoke {
    type Answer = bool;

    fn apply(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let now = tx.now();
        let gone = tx.execute(
            "DELETE FROM sign_ins WHERE id = ?1 AND expires_ms > ?2",
            (self.id.as_str(), now.get()),
        )?;
        if gone == 0 {
            return Ok(false);
        }
        tx.audit(&Entry {
            actor: self.by.clone(),
            address: None,
            action: AuditAction::LoginRevoked,
            target: Target {
                kind: "session".to_owned(),
                id: self.id.to_string(),
            },
            outcome: AuditOutcome::Ok,
            detail: Map::new(),
        })?;
        Ok(true)
    }
}

struct Failed {
    address: String,
    by: SignInBy,
}

impl Change for Failed {
    type Answer = ();

    fn durability(&self, _tuning: &Tuning) -> Durability {
        Durability::Normal
    }

    fn apply(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        tx.audit(&Entry {
            actor: Actor {
                kind: ActorKind::Session,
                id: "unknown".to_owned(),
                name: "unknown".to_owned(),
                owner: None,
            },
            address: Some(self.address.clone()),
            action: AuditAction::LoginFailed,
            target: Target {
                kind: "server".to_owned(),
                id: "countersign".to_owned(),
            },
            outcome: AuditOutcome::Denied,
            detail: how(self.by),
        })
    }
}

fn how(by: SignInBy) -> Map<String, Value> {
    let word = match by {
        SignInBy::Link => "link",
        SignInBy::Token => "token",
    };
    Map::from_iter([("by".to_owned(), word.into())])
}

/// A token that is revoked takes its browsers and its links along.
pub(super) fn end_with_token(tx: &Tx<'_>, token: &TokenId) -> Result<(), Fault> {
    tx.execute("DELETE FROM sign_ins WHERE token_id = ?1", (token.as_str(),))?;
    tx.execute(
        "DELETE FROM login_links WHERE made_by = ?1 OR token_id = ?1",
        (token.as_str(),),
    )?;
    Ok(())
}

/// Removes what has ended; of tokens that were made for links, those that ended before a moment. How many of them went.
///
/// A token with `admin` stays: what it proposed may still wait for another owner, and whose it was must be known then.
pub(super) fn prune(tx: &mut Tx<'_>, tokens_before: i64) -> Result<u64, Fault> {
    let now = tx.now().get();
    tx.execute("DELETE FROM sign_ins WHERE expires_ms <= ?1", (now,))?;
    tx.execute("DELETE FROM login_links WHERE expires_ms <= ?1", (now,))?;
    let removed = tx.execute(
        "DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE for_link = 1 AND revoked_ms IS NULL AND expires_ms <= ?1 \
         AND NOT EXISTS (SELECT 1 FROM json_each(scopes) WHERE value = 'admin') \
         AND id NOT IN (SELECT token_id FROM sign_ins) ORDER BY expires_ms LIMIT ?2)",
        (tokens_before, ROWS),
    )?;
    Ok(as_count(removed))
}
