//! From rows to domain values: every stored word is parsed again, and what does not parse is named.

use std::str::FromStr;

use rusqlite::{Row, types::FromSql};
use serde::de::DeserializeOwned;

use countersign_domain::{Actor, UnixMillis};

use super::error::{Fault, Inconsistency};

/// Takes the columns of a row one after the other. The first column must be the row's id.
pub(super) struct Columns<'row> {
    table: &'static str,
    row: &'row Row<'row>,
    next: usize,
}

impl<'row> Columns<'row> {
    pub(super) const fn of(table: &'static str, row: &'row Row<'row>) -> Self {
        Self { table, row, next: 0 }
    }

    /// As [`Self::of`], going on after the first `skip` columns.
    pub(super) const fn after(table: &'static str, row: &'row Row<'row>, skip: usize) -> Self {
        Self {
            table,
            row,
            next: skip,
        }
    }

    /// The next column as `SQLite` has it.
    pub(super) fn take<T: FromSql>(&mut self) -> Result<T, Fault> {
        let column = self.next;
        self.next += 1;
        self.row.get(column).map_err(|error| {
            let wrong_type = matches!(
                error,
                rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::InvalidColumnType(..)
                    | rusqlite::Error::IntegralValueOutOfRange(..)
            );
            if wrong_type {
                self.inconsistency(column).into()
            } else {
                Fault::Sql(error)
            }
        })
    }

    /// The next column as a text, where `SQLite` has it.
    fn text(&mut self) -> Result<&'row str, Fault> {
        let column = self.next;
        self.next += 1;
        let value = self.row.get_ref(column)?;
        value
            .as_str()
            .map_err(|_no_text| self.inconsistency(column).into())
    }

    /// The next column as a word of a vocabulary or an id.
    pub(super) fn word<T: FromStr>(&mut self) -> Result<T, Fault> {
        let text = self.text()?;
        self.parsed(text)
    }

    /// As [`Self::word`], or nothing.
    pub(super) fn maybe_word<T: FromStr>(&mut self) -> Result<Option<T>, Fault> {
        let text: Option<String> = self.take()?;
        text.map(|text| self.parsed(&text)).transpose()
    }

    /// The next column as JSON.
    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Result<T, Fault> {
        let text = self.text()?;
        serde_json::from_str(text).map_err(|_malformed| self.inconsistency(self.next - 1).into())
    }

    /// As [`Self::json`], or nothing.
    pub(super) fn maybe_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Fault> {
        let text: Option<String> = self.take()?;
        text.map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(|_malformed| self.inconsistency(self.next - 1).into())
    }

    /// The next column as a time.
    pub(super) fn time(&mut self) -> Result<UnixMillis, Fault> {
        self.take().map(UnixMillis::new)
    }

    /// As [`Self::time`], or nothing.
    pub(super) fn maybe_time(&mut self) -> Result<Option<UnixMillis>, Fault> {
        Ok(self.take::<Option<i64>>()?.map(UnixMillis::new))
    }

    /// The next column as a number that cannot be negative.
    pub(super) fn count(&mut self) -> Result<u64, Fault> {
        let number: i64 = self.take()?;
        u64::try_from(number).map_err(|_negative| self.inconsistency(self.next - 1).into())
    }

    /// The next three columns as an actor.
    pub(super) fn actor(&mut self) -> Result<Actor, Fault> {
        Ok(Actor {
            kind: self.word()?,
            id: self.take()?,
            name: self.take()?,
            owner: None,
        })
    }

    /// As [`Self::actor`], or nothing.
    pub(super) fn maybe_actor(&mut self) -> Result<Option<Actor>, Fault> {
        let kind = self.maybe_word()?;
        let id: Option<String> = self.take()?;
        let name: Option<String> = self.take()?;
        Ok(match (kind, id, name) {
            (Some(kind), Some(id), Some(name)) => Some(Actor {
                kind,
                id,
                name,
                owner: None,
            }),
            _ => None,
        })
    }

    /// A column of this row has a value that its neighbours contradict.
    pub(super) fn contradiction<T>(&self, column: &str) -> Result<T, Fault> {
        Err(Inconsistency {
            table: self.table,
            column: column.to_owned(),
            row: self.id(),
        }
        .into())
    }

    fn parsed<T: FromStr>(&self, text: &str) -> Result<T, Fault> {
        text.parse()
            .map_err(|_unknown| self.inconsistency(self.next - 1).into())
    }

    fn inconsistency(&self, column: usize) -> Inconsistency {
        let name = self.row.as_ref().column_name(column).unwrap_or("?").to_owned();
        Inconsistency {
            table: self.table,
            column: name,
            row: self.id(),
        }
    }

    fn id(&self) -> String {
        let id: rusqlite::Result<rusqlite::types::Value> = self.row.get(0);
        match id {
            Ok(rusqlite::types::Value::Text(text)) => text,
            Ok(rusqlite::types::Value::Integer(number)) => number.to_string(),
            _ => "?".to_owned(),
        }
    }
}
