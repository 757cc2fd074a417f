//! What tests read out of JSON, and what they say about it.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Members of a JSON value that must be there: where one is not, the test fails and says of which value.
pub(crate) trait Members {
    /// A text.
    fn text(&self, member: &str) -> &str;

    /// The elements of an array.
    fn list(&self, member: &str) -> &Vec<Value>;

    /// A text has this in it.
    fn says(&self, member: &str, part: &str);
}

impl Members for Value {
    #[track_caller]
    fn text(&self, member: &str) -> &str {
        let text = self[member].as_str();
        text.unwrap_or_else(|| panic!("no text {member} in {self}"))
    }

    #[track_caller]
    fn list(&self, member: &str) -> &Vec<Value> {
        let list = self[member].as_array();
        list.unwrap_or_else(|| panic!("no list {member} in {self}"))
    }

    #[track_caller]
    fn says(&self, member: &str, part: &str) {
        let is_said = self.text(member).contains(part);
        assert!(is_said, "no {part:?} in {member} of {self:#}");
    }
}

/// Members of a value are as the second argument says; it may have others. `a/b` is the member `b` of the member `a`,
/// and a member that is missing is null. What comes after that is said beside the value where they differ.
macro_rules! assert_has {
    ($value:expr, $members:tt) => {
        $crate::support::assert_members(&$value, ::serde_json::json!($members), "")
    };
    ($value:expr, $members:tt, $($said:tt)+) => {
        $crate::support::assert_members(&$value, ::serde_json::json!($members), &format!($($said)+))
    };
}

/// [`assert_has`] as a function.
#[track_caller]
pub(crate) fn assert_members(value: &impl Serialize, expected: Value, said: &str) {
    let value = json!(value);
    let member = |path: &String| value.pointer(&format!("/{path}")).cloned().unwrap_or_default();
    let Value::Object(expected) = expected else {
        panic!("no members: {expected}");
    };
    let found = expected.keys().map(|path| (path.clone(), member(path)));
    assert_eq!(found.collect::<Map<_, _>>(), expected, "{said}\n{value:#}");
}

/// A text has this in it.
#[track_caller]
pub(crate) fn assert_says(text: impl AsRef<str>, part: &str) {
    let text = text.as_ref();
    assert!(text.contains(part), "no {part:?} in {text}");
}

/// The object without some members: those that differ from run to run.
#[track_caller]
pub(crate) fn without(object: &Value, members: &[&str]) -> Value {
    let mut object = object
        .as_object()
        .unwrap_or_else(|| panic!("an object: {object}"))
        .clone();
    for member in members {
        assert!(
            object.shift_remove(*member).is_some(),
            "{member} is missing in {object:?}"
        );
    }
    Value::Object(object)
}

/// The object's named members only, null where one is missing.
pub(crate) fn only(object: &Value, members: &[&str]) -> Value {
    members
        .iter()
        .map(|member| ((*member).to_owned(), object[*member].clone()))
        .collect()
}
