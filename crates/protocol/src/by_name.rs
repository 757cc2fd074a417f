//! Values that are read by the names of their members.
//!
//! Derived readers also take a list of a structure's values in the order of its declaration. Nobody means that, no
//! contract says it, and a member that is added in the middle would change what such a list says.

use serde::{Deserialize, Deserializer, Serialize, de::Visitor, forward_to_deserialize_any};

/// A structure that is read from an object and from nothing else. What is nested in it needs its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByName<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ByName<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(OnlyObjects(deserializer)).map(Self)
    }
}

struct OnlyObjects<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for OnlyObjects<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _members: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        first: Option<u8>,
        second: Vec<u8>,
    }

    #[test]
    fn only_an_object_is_a_structure() {
        let read = |value| serde_json::from_value::<ByName<Sample>>(value).map(|ByName(sample)| sample);
        let second = vec![2];
        let sample = Sample { first: None, second };
        assert_eq!(read(json!({ "second": [2] })).unwrap(), sample);
        for other in [json!([null, [2]]), json!([]), json!("second"), json!(null)] {
            read(other.clone()).expect_err(&other.to_string());
        }
    }
}
