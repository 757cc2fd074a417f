//! JSON from outside, read once and bounded.
//!
//! A general reader takes the last of two members of one name, so that two readers of the same bytes can see two
//! different values. This one refuses such text, and text that is longer, deeper or made of more pieces than allowed:
//! one byte of `[0,0,…]` costs many of memory.

use std::{cell::Cell, fmt};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Longest text, in bytes.
    pub bytes: usize,
    /// Deepest nesting of arrays and objects; at most 127.
    pub depth: usize,
    /// Most values, each array, object, string and so on being one.
    pub values: usize,
}

/// Why a text is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It is longer than allowed.
    #[error("is too long")]
    TooLong,
    /// It is nested more deeply than allowed.
    #[error("is nested too deeply")]
    TooDeep,
    /// It has more values than allowed.
    #[error("has too many values")]
    TooMany,
    /// An object has two members of one name.
    #[error("has a duplicate member")]
    Duplicate,
    /// It is not one JSON value.
    #[error("is not valid JSON")]
    NotJson,
}

/// Reads one JSON value.
///
/// # Errors
/// [`JsonError`] says what is wrong with the text.
pub(crate) fn parse_json(text: &str, bounds: Bounds) -> Result<Value, JsonError> {
    if text.len() > bounds.bytes {
        return Err(JsonError::TooLong);
    }
    let state = ParseState {
        left: Cell::new(bounds.values),
        trouble: Cell::new(None),
    };
    let seed = Seed {
        state: &state,
        depth: bounds.depth,
    };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = seed
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    read.map_err(|_error| state.trouble.get().unwrap_or(JsonError::NotJson))
}

struct ParseState {
    left: Cell<usize>,
    trouble: Cell<Option<JsonError>>,
}

impl ParseState {
    fn fail<E: de::Error>(&self, trouble: JsonError) -> E {
        self.trouble.set(Some(trouble));
        E::custom(trouble)
    }
}

#[derive(Clone, Copy)]
struct Seed<'s> {
    state: &'s ParseState,
    depth: usize,
}

impl Seed<'_> {
    fn below<E: de::Error>(self) -> Result<Self, E> {
        let depth = self
            .depth
            .checked_sub(1)
            .ok_or_else(|| self.state.fail(JsonError::TooDeep))?;
        Ok(Self { depth, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.state.left.get();
        let left = left
            .checked_sub(1)
            .ok_or_else(|| self.state.fail(JsonError::TooMany))?;
        self.state.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| self.state.fail(JsonError::NotJson))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(below)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(below)?;
            if map.insert(name, value).is_some() {
                return Err(self.state.fail(JsonError::Duplicate));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        bytes: 64,
        depth: 3,
        values: 8,
    };

    #[test]
    fn what_is_within_bounds_is_read_as_it_is() {
        for text in [
            "null",
            "[[[]]]",
            r#"{"b":1,"a":[-2,0.5,true,"x\u0000"]}"#,
            "[1,2,3,4,5,6,7]",
            " 18446744073709551615 ",
        ] {
            let expect: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse_json(text, BOUNDS), Ok(expect), "{text}");
        }
    }

    #[test]
    fn what_is_not_says_why() {
        let long = format!("\"{}\"", "a".repeat(63));
        let cases = [
            (long.as_str(), JsonError::TooLong),
            ("[[[[]]]]", JsonError::TooDeep),
            (r#"{"a":{"a":{"a":{}}}}"#, JsonError::TooDeep),
            ("[1,2,3,4,5,6,7,8]", JsonError::TooMany),
            (r#"{"a":1,"a":1}"#, JsonError::Duplicate),
            (r#"{"a":1,"\u0061":2}"#, JsonError::Duplicate),
            (r#"[{"x":{"y":0,"y":0}}]"#, JsonError::Duplicate),
            ("", JsonError::NotJson),
            ("{}x", JsonError::NotJson),
            ("[1,]", JsonError::NotJson),
            ("NaN", JsonError::NotJson),
            ("1e999", JsonError::NotJson),
            (r#""\ud800""#, JsonError::NotJson),
        ];
        for (text, expect) in cases {
            assert_eq!(parse_json(text, BOUNDS), Err(expect), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_none_is_read_differently(text in "[\\[\\]{}:,\"a-c0-9. \\\\u-]{0,64}") {
            if let Ok(value) = parse_json(&text, BOUNDS) {
                prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
            }
        }
    }
}
