//! The rows of tokens.

use rusqlite::{Connection, Row};

use countersign_domain::{Token, TokenId};

use super::{error::Fault, rows::Columns, sql::fetch};

pub(super) fn fetch_token(connection: &Connection, id: &TokenId) -> Result<Option<Token>, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM tokens WHERE id = ?1");
    fetch(connection, &sql, (id.as_str(),), from_row)
}

/// The columns that [`from_row`] reads, in its order, and one more.
pub(super) const COLUMNS: &str = "id, name, scopes, agents, groups, created_ms, expires_ms, last_used_ms, revoked_ms, owner, proposed_json, sha256";

/// A token from a row that begins with [`COLUMNS`].
pub(super) fn from_row(row: &Row<'_>) -> Result<Token, Fault> {
    let mut columns = Columns::of("tokens", row);
    Ok(Token {
        id: columns.word()?,
        name: columns.take()?,
        scopes: columns.json()?,
        agents: columns.maybe_json()?,
        groups: columns.json()?,
        created_at: columns.time()?,
        expires_at: columns.maybe_time()?,
        last_used_at: columns.maybe_time()?,
        revoked_at: columns.maybe_time()?,
        owner: columns.word()?,
        proposed_by: columns.maybe_json()?,
    })
}
