//! Values as people read them.

use std::fmt::Display;

use serde_json::Value;

use countersign_domain::Command;
pub(crate) use countersign_domain::quoting::quoted;
use countersign_policy::command::display;
use countersign_wire::analysis::SegmentBody;

/// A whole value as text for people.
pub(crate) fn spelled(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(spelled).collect::<Vec<_>>().join(" "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// One line in which everything that a terminal would obey, or a person could not see, is spelled out.
pub(crate) fn visible(text: &str) -> String {
    display::escape(text).text.replace('\n', "")
}

/// A number of things, with the word in its plural where there is not just one.
pub(crate) fn counted(count: usize, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {word}{plural}")
}

/// As much of a text as these many characters can show.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
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

/// The words of a program call as a shell needs them. One of which a part is put in when it begins stands in double quotes, with that
/// part as it is written.
pub(crate) fn call_words(call: &SegmentBody) -> String {
    let filled = call.filled.as_deref().unwrap_or_default();
    let word = |(at, word): (usize, &String)| {
        let parts: Vec<[usize; 2]> = filled
            .iter()
            .filter(|part| part.word == at)
            .map(|part| part.span)
            .collect();
        if parts.is_empty() {
            quoted(word)
        } else {
            filled_word(word, &parts)
        }
    };
    call.argv
        .iter()
        .enumerate()
        .map(word)
        .collect::<Vec<_>>()
        .join(" ")
}

fn filled_word(word: &str, parts: &[[usize; 2]]) -> String {
    let mut shown = String::from("\"");
    for (at, character) in word.char_indices() {
        let is_filled = parts.iter().any(|[start, end]| (*start..*end).contains(&at));
        if !is_filled && matches!(character, '"' | '\\' | '$' | '`') {
            shown.push('\\');
        }
        shown.push(character);
    }
    shown.push('"');
    shown
}

/// The command of a call: its arguments, or its text.
pub(crate) fn called(call: &Value) -> Command {
    let texts = |words: &Value| countersign_wire::read::<Vec<String>>(words).unwrap_or_default();
    match (call.get("argv"), call.get("command")) {
        (Some(argv), _) => Command::Argv(texts(argv)),
        (None, Some(Value::String(text))) => Command::Shell(text.clone()),
        (None, _) => Command::Shell(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use countersign_domain::quoting::line;

    use super::*;

    #[test]
    fn arguments_are_shown_as_a_shell_needs_them() {
        assert_eq!(
            line(&called(&json!({"argv": ["git", "commit", "-m", "it's", ""]}))),
            r"git commit -m 'it'\''s' ''"
        );
        assert_eq!(line(&called(&json!({"command": "a | b"}))), "a | b");
    }

    #[test]
    fn what_is_put_in_at_the_start_is_no_literal_word() {
        let call = |argv: Value, filled: Value| {
            let body = json!({
                "span": [0, 1], "argv": argv, "filled": filled, "wrappers": [], "executable": "echo",
                "match": { "kind": "none" }, "notes": [],
            });
            call_words(&serde_json::from_value(body).expect("a call"))
        };
        assert_eq!(
            call(
                json!(["echo", "ü: $(id)", "$(id)"]),
                json!([{ "word": 1, "span": [4, 9] }])
            ),
            "echo \"ü: $(id)\" '$(id)'"
        );
        assert_eq!(
            call(
                json!(["echo", "a\"$b`$?\\$(x \"y\")", "z"]),
                json!([{ "word": 1, "span": [5, 7] }, { "word": 1, "span": [8, 16] }])
            ),
            r#"echo "a\"\$b\`$?\\$(x "y")" z"#
        );
        assert_eq!(call(json!(["echo", "x"]), Value::Null), "echo x");
    }

    #[test]
    fn visible_text_is_one_harmless_line() {
        assert_eq!(visible("a\nb\u{1b}[2J\u{202e}ü"), "a\\u{A}b\\u{1B}[2J\\u{202E}ü");
    }

    #[test]
    fn a_value_is_spelled_for_people() {
        assert_eq!(spelled(&json!(["a", 1])), "a 1");
        assert_eq!(spelled(&json!(true)), "true");
        assert_eq!(spelled(&Value::Null), "");
    }
}
