//! JSON in which no object names a member twice: of two that say different things, each reader takes another.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};

/// Whether a text is JSON whose objects name each member once.
pub(super) fn is_unambiguous(text: &str) -> bool {
    serde_json::from_str::<Unambiguous>(text).is_ok()
}

struct Unambiguous;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Walk)
    }
}

struct Walk;

impl<'de> Visitor<'de> for Walk {
    type Value = Unambiguous;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _value: bool) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_i64<E>(self, _value: i64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_u64<E>(self, _value: u64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_f64<E>(self, _value: f64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_str<E>(self, _value: &str) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_unit<E>(self) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Unambiguous, A::Error> {
        while elements.next_element::<Unambiguous>()?.is_some() {}
        Ok(Unambiguous)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unambiguous, A::Error> {
        let mut names: HashSet<String> = HashSet::new();
        while let Some((name, Unambiguous)) = members.next_entry::<String, Unambiguous>()? {
            if !names.insert(name) {
                return Err(de::Error::custom("a member is named twice"));
            }
        }
        Ok(Unambiguous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_may_be_named_once_at_any_depth() {
        for good in [
            r#"{"a":1,"b":{"a":1}}"#,
            "[]",
            "null",
            r#"[{"a":1},{"a":2}]"#,
            "1e9",
        ] {
            assert!(is_unambiguous(good), "{good}");
        }
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for bad in [
            r#"{"a":1,"a":1}"#,
            r#"{"x":[{"y":{"a":1,"\u0061":2}}]}"#,
            "{",
            r#"{"a":1} x"#,
            deep.as_str(),
        ] {
            assert!(!is_unambiguous(bad), "{bad}");
        }
    }
}
