//! Members of an object from outside, taken one by one, so that what is left over is what nobody knows.

use serde_json::{Map, Value};

/// An object does not have the form that it must have. The text is the product's: where, then what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct ShapeError {
    /// `at /device`, or `at root`.
    place: String,
    what: String,
}

impl ShapeError {
    pub(super) fn at(pointer: &str, what: impl Into<String>) -> Self {
        let place = if pointer.is_empty() {
            "at root".to_owned()
        } else {
            format!("at {pointer}")
        };
        Self {
            place,
            what: what.into(),
        }
    }
}

/// The members that were not taken yet.
#[derive(Debug)]
pub(super) struct Fields {
    members: Map<String, Value>,
    pointer: String,
}

impl Fields {
    pub(super) fn of(value: Value, pointer: &str) -> Result<Self, ShapeError> {
        match value {
            Value::Object(members) => Ok(Self {
                members,
                pointer: pointer.to_owned(),
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(ShapeError::at(pointer, "must be object"))
            }
        }
    }

    /// Refuses members that were not taken.
    pub(super) fn finish(self) -> Result<(), ShapeError> {
        match self.members.keys().next() {
            None => Ok(()),
            // The name is not repeated: it is anybody's text.
            Some(_unknown) => Err(ShapeError::at(
                &self.pointer,
                "must not have unexpected properties",
            )),
        }
    }

    /// A member of any kind; `Some(Null)` for one that says null.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        // Shifting would cost time with every member.
        self.members.swap_remove(name)
    }

    pub(super) fn require(&mut self, name: &'static str) -> Result<Value, ShapeError> {
        self.take(name)
            .ok_or_else(|| ShapeError::at(&self.pointer, format!("must have required property '{name}'")))
    }

    /// A string of 1 to `longest` bytes.
    pub(super) fn text(&mut self, name: &'static str, longest: usize) -> Result<String, ShapeError> {
        let value = self.require(name)?;
        self.as_text(value, name, longest)
    }

    /// A string of 1 to `longest` bytes, if there is such a member.
    pub(super) fn optional_text(
        &mut self,
        name: &'static str,
        longest: usize,
    ) -> Result<Option<String>, ShapeError> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => self.as_text(value, name, longest).map(Some),
        }
    }

    /// A string of at most `longest` bytes; no member and an empty one are the same.
    pub(super) fn loose_text(
        &mut self,
        name: &'static str,
        longest: usize,
    ) -> Result<Option<String>, ShapeError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(value) => self.as_text(value, name, longest).map(Some),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, ShapeError> {
        match self.require(name)? {
            Value::Bool(flag) => Ok(flag),
            _other => Err(self.wrong(name, "must be boolean")),
        }
    }

    pub(super) fn optional_integer(&mut self, name: &'static str) -> Result<Option<i64>, ShapeError> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => as_integer(&value)
                .map(Some)
                .ok_or_else(|| self.wrong(name, "must be integer")),
        }
    }

    pub(super) fn integer(&mut self, name: &'static str) -> Result<i64, ShapeError> {
        let value = self.require(name)?;
        as_integer(&value).ok_or_else(|| self.wrong(name, "must be integer"))
    }

    /// An object of its own, if there is such a member.
    pub(super) fn optional_object(&mut self, name: &'static str) -> Result<Option<Self>, ShapeError> {
        let pointer = self.pointer_of(name);
        self.take(name).map(|value| Self::of(value, &pointer)).transpose()
    }

    /// At most `most` strings of 1 to `longest` bytes; none when there is no such member.
    pub(super) fn texts(
        &mut self,
        name: &'static str,
        most: usize,
        longest: usize,
    ) -> Result<Vec<String>, ShapeError> {
        let values = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) => values,
            Some(_other) => return Err(self.wrong(name, "must be array")),
        };
        if values.len() > most {
            return Err(self.wrong(name, format!("must not have more than {most} items")));
        }
        values
            .into_iter()
            .map(|value| self.as_text(value, name, longest))
            .collect()
    }

    pub(super) fn wrong(&self, name: &str, what: impl Into<String>) -> ShapeError {
        ShapeError::at(&self.pointer_of(name), what)
    }

    fn pointer_of(&self, name: &str) -> String {
        format!("{}/{name}", self.pointer)
    }

    fn as_text(&self, value: Value, name: &'static str, longest: usize) -> Result<String, ShapeError> {
        let Value::String(text) = value else {
            return Err(self.wrong(name, "must be string"));
        };
        if text.is_empty() {
            return Err(self.wrong(name, "must not have fewer than 1 characters"));
        }
        if text.len() > longest {
            return Err(self.wrong(name, format!("must not have more than {longest} bytes")));
        }
        Ok(text)
    }
}

/// A whole number, also when it is written with a fraction of zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "checked to be whole and inside the range where doubles are exact"
)]
pub(super) fn as_integer(value: &Value) -> Option<i64> {
    const EXACT: f64 = (1_i64 << 53) as f64;
    value.as_i64().or_else(|| {
        value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && number.abs() <= EXACT)
            .map(|number| number as i64)
    })
}
