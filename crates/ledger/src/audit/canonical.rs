//! Canonical JSON: members sorted by name, no white space. Numbers in the chain are whole, so they have one
//! spelling each.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The canonical text of a value.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::with_capacity(512);
    write(value, &mut text);
    text
}

/// An object whose members are added in the order of their names. Spares the chain, which every change of a run
/// goes through, a tree of values per record.
pub(super) struct CanonicalObject {
    text: String,
    empty: bool,
}

impl Default for CanonicalObject {
    fn default() -> Self {
        Self {
            text: String::with_capacity(512),
            empty: true,
        }
        .opened()
    }
}

impl CanonicalObject {
    fn opened(mut self) -> Self {
        self.text.push('{');
        self
    }

    pub(super) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        write_string(value, &mut self.text);
        self
    }

    pub(super) fn number(&mut self, name: &str, value: i64) -> &mut Self {
        self.name(name);
        write!(self.text, "{value}").expect("writing to a String cannot fail");
        self
    }

    pub(super) fn members(&mut self, name: &str, members: &Map<String, Value>) -> &mut Self {
        self.name(name);
        write_object(members, &mut self.text);
        self
    }

    pub(super) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Self)) {
        self.name(name);
        self.text.push('{');
        self.empty = true;
        fill(self);
        self.text.push('}');
        self.empty = false;
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }

    fn name(&mut self, name: &str) {
        if !self.empty {
            self.text.push(',');
        }
        self.empty = false;
        write_string(name, &mut self.text);
        self.text.push(':');
    }
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::String(string) => write_string(string, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            write!(text, "{value}").expect("writing to a String cannot fail");
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => write_object(members, text),
    }
}

fn write_object(members: &Map<String, Value>, text: &mut String) {
    let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    text.push('{');
    for (index, (name, value)) in sorted.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_string(name, text);
        text.push(':');
        write(value, text);
    }
    text.push('}');
}

fn write_string(string: &str, text: &mut String) {
    if string
        .bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        text.push('"');
        text.push_str(string);
        text.push('"');
    } else {
        text.push_str(&serde_json::to_string(string).expect("a string is JSON"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_sorted_at_every_depth_and_nothing_is_added() {
        let value: Value = serde_json::from_str(r#"{ "b": [ {"z":1, "a":"é\n\"\\"} ], "a": null }"#).unwrap();
        assert_eq!(canonical(&value), r#"{"a":null,"b":[{"a":"é\n\"\\","z":1}]}"#);
    }

    #[test]
    fn an_object_written_by_hand_is_canonical() {
        let mut object = CanonicalObject::default();
        object.text("a", "x\u{1}").object("b", |inner| {
            inner.number("c", -1).text("d", "");
        });
        object.object("e", |_empty| {});
        object.members("f", &Map::from_iter([("g".to_owned(), Value::from(true))]));
        let text = object.finish();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(canonical(&value), text);
    }
}
