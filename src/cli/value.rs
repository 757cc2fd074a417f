//! Reads members of answers for display. An absent or foreign member is shown as nothing, never an error: the
//! command line must be able to show what a newer server says.

use std::fmt::Display;

use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;

use countersign_domain::UnixMillis;
pub(crate) use countersign_domain::quoting::quoted;
use countersign_policy::command::display;

/// A member as text for people: strings as they are, numbers and booleans spelled, lists joined.
pub(crate) fn text(object: &Value, member: &str) -> String {
    object.get(member).map(spelled).unwrap_or_default()
}

/// A whole value as text for people.
pub(crate) fn spelled(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(spelled).collect::<Vec<_>>().join(" "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// A member that is a string.
pub(crate) fn string<'a>(object: &'a Value, member: &str) -> &'a str {
    object.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// One line in which everything that a terminal would obey, or a person could not see, is spelled out.
pub(crate) fn visible(text: &str) -> String {
    display::escape(text).text.replace('\n', "")
}

/// A time as the machine's clock shows it.
pub(crate) fn local(time: UnixMillis) -> String {
    let instant = Timestamp::from_millisecond(time.get()).ok();
    let zoned = instant.map(|instant| instant.to_zoned(TimeZone::system()));
    zoned.map_or_else(String::new, |zoned| {
        zoned.strftime("%Y-%m-%d %H:%M:%S").to_string()
    })
}

/// A time as [`local`] shows it, or nothing.
pub(crate) fn moment(time: Option<UnixMillis>) -> String {
    time.map(local).unwrap_or_default()
}

/// A value, or nothing.
pub(crate) fn shown<T: Display>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Several values, one behind the other.
pub(crate) fn joined<T: Display>(values: impl IntoIterator<Item = T>) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    values.join(" ")
}

/// Arguments as a shell needs them.
pub(crate) fn words(argv: &[String]) -> String {
    argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The command of a run or an approval: its text, or its arguments.
pub(crate) fn command(object: &Value) -> String {
    match object.get("argv") {
        Some(Value::Array(arguments)) => {
            let quoted: Vec<String> = arguments
                .iter()
                .map(|argument| quoted(&spelled(argument)))
                .collect();
            quoted.join(" ")
        }
        _ => text(object, "command"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_shown_as_a_shell_needs_them() {
        assert_eq!(
            command(&json!({"argv": ["git", "commit", "-m", "it's", ""]})),
            r"git commit -m 'it'\''s' ''"
        );
        assert_eq!(command(&json!({"command": "a | b"})), "a | b");
    }

    #[test]
    fn visible_text_is_one_harmless_line() {
        assert_eq!(visible("a\nb\u{1b}[2J\u{202e}ü"), "a\\u{A}b\\u{1B}[2J\\u{202E}ü");
    }

    #[test]
    fn absent_members_are_nothing() {
        let object = json!({"list": ["a", 1], "yes": true});
        assert_eq!(text(&object, "list"), "a 1");
        assert_eq!(text(&object, "yes"), "true");
        assert_eq!(text(&object, "absent"), "");
    }
}
