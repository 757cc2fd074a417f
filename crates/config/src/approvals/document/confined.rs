//! The member `confine` of an entry or grant: as it is written, and as it is understood.

use countersign_policy::confine::ConfineRule;
use serde_json::Value;

use super::json::{self, Json};

/// What an entry or grant says about what its program may do.
///
/// It is kept as it is written, also where this version does not understand it: what covers nothing here may say
/// something to a later version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confined {
    json: Json,
    rule: ConfineRule,
}

impl Confined {
    /// Reads the value of the member.
    pub(super) fn read(json: Json) -> Self {
        Self {
            rule: ConfineRule::read(&value_of(&json)),
            json,
        }
    }

    /// The same from a request.
    ///
    /// # Errors
    /// Why it is not understood.
    pub fn of_request(value: &Value) -> Result<Self, String> {
        let json = json::parse(&value.to_string()).map_err(|_not_json| "confine is too deep".to_owned())?;
        let said = Self::read(json.value);
        match said.rule.problem() {
            Some(why) => Err(why.to_owned()),
            None => Ok(said),
        }
    }

    /// What it means.
    pub const fn rule(&self) -> &ConfineRule {
        &self.rule
    }

    /// The value as it is written, for those who are shown the entry.
    pub fn to_value(&self) -> Value {
        value_of(&self.json)
    }

    pub(super) const fn json(&self) -> &Json {
        &self.json
    }
}

fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        // What is no number of 64 bits is no port either.
        Json::Number(number) => number.as_count().map_or(Value::Null, Value::from),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(value_of).collect()),
        Json::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), value_of(value)))
                .collect(),
        ),
    }
}
