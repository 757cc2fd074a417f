//! `openclaw.json` as a tree: JSON5 with bounded depth and without repeated keys, and finding values in it.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::Problem;

/// Deeper than any settings, and shallow enough for any stack.
const MAX_DEPTH: usize = 64;

/// Parses JSON5 whose root is an object.
pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    let ConfigValue(value) = json5::from_str(text).map_err(|error| syntax_problem(text, &error))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Problem::Expected("an object".to_owned()))
    }
}

fn syntax_problem(text: &str, error: &json5::Error) -> Problem {
    let code = error.code().map(|code| code.to_string());
    // Of a text that ends too early the parser names the beginning of what is not finished, often the first line.
    let is_cut_off = code.as_ref().is_some_and(|code| code.starts_with("EOF"));
    let (line, column) = match error.position() {
        Some(position) if !is_cut_off => (position.line + 1, position.column + 1),
        Some(_) | None => end_of(text),
    };
    let message = code.unwrap_or_else(|| {
        // What our own visitor says comes with its position in the text; take the position off again.
        let whole = error.to_string();
        whole
            .rsplit_once(" at ")
            .map_or_else(|| whole.clone(), |(message, _position)| message.to_owned())
    });
    Problem::Syntax {
        message,
        line,
        column,
    }
}

fn end_of(text: &str) -> (usize, usize) {
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (text.matches('\n').count() + 1, column)
}

/// A value found on a path, or what stood in its way and where.
pub(super) type Found<'a> = Result<Option<&'a Value>, (String, Problem)>;

/// Finds the value at a path of plain keys joined by dots.
pub(super) fn find<'a>(root: &'a Value, path: &str) -> Found<'a> {
    let mut value = root;
    let mut walked = String::new();
    for part in path.split('.') {
        let members = match value {
            Value::Object(members) => members,
            Value::Null => return Err((walked, Problem::Null)),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err((walked, Problem::Expected("an object".to_owned())));
            }
        };
        let Some(next) = members.get(part) else {
            return Ok(None);
        };
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(part);
        value = next;
    }
    Ok(Some(value))
}

/// A value as the file may hold it: of bounded depth, no key twice in one object.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigValue(pub Value);

impl ConfigValue {
    /// Reads a value as people write one: JSON5, or a word that stands for itself.
    pub fn from_word(text: &str) -> Self {
        json5::from_str(text).unwrap_or_else(|_not_json5| Self(Value::from(text)))
    }
}

impl<'de> Deserialize<'de> for ConfigValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Node { depth: 0 }.deserialize(deserializer).map(Self)
    }
}

/// Reads one value. The parser itself does not bound how deep it goes; this does.
#[derive(Clone, Copy)]
struct Node {
    depth: usize,
}

impl Node {
    fn inner<E: Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom("nested too deeply"));
        }
        Ok(Self {
            depth: self.depth + 1,
        })
    }
}

impl<'de> DeserializeSeed<'de> for Node {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number that JSON cannot hold"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(inner)? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            // Readers differ in which of two counts; a person who reads the file cannot know.
            if object.contains_key(&name) {
                return Err(A::Error::custom("the same key twice in one object"));
            }
            let value = members.next_value_seed(inner)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}
