//! What a reader of values says, in words for people who do not know the reader.

use std::borrow::Cow;

use countersign_domain::intended;

/// So long a call may wait for a person.
pub(crate) const MAX_APPROVAL_WAIT_MS: u64 = 600_000;

/// A message of a reader of JSON about one member.
pub(super) fn of_json(message: &str) -> Cow<'_, str> {
    if let Some((found, expected)) = mismatch(message) {
        return format!("expected {}, not {}", expected_form(expected), found_form(found)).into();
    }
    if let Some((found, expected)) = message
        .strip_prefix("unknown variant `")
        .and_then(|rest| rest.split_once("`, expected "))
    {
        return format!("expected {}, not {found}", alternatives(&names(expected))).into();
    }
    if let Some(name) = between(message, "duplicate field `", "`") {
        return format!("{name} is given more than once").into();
    }
    match message {
        "expected value" => "expected a word".into(),
        other => other.into(),
    }
}

/// A message of a reader of one text, such as a parameter of a query.
pub(super) fn of_text(message: &str) -> Cow<'_, str> {
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "expected a whole number"
        }
        "number too large to fit in target type" => "the number is too large",
        "number too small to fit in target type" => "the number is too small",
        "provided string was not `true` or `false`" => "expected true or false",
        other => other,
    }
    .into()
}

/// The same about the member or parameter at `path`: a number in milliseconds or bytes says so.
pub(super) fn with_unit<'a>(path: &str, words: Cow<'a, str>) -> Cow<'a, str> {
    let unit = [("Ms", "milliseconds"), ("Bytes", "bytes")]
        .into_iter()
        .find_map(|(end, unit)| path.ends_with(end).then_some(unit));
    let words: Cow<'a, str> = match unit {
        Some(unit) if words.contains("a whole number") => words
            .replacen("a whole number", &format!("a whole number of {unit}"), 1)
            .into(),
        Some(_) | None => words,
    };
    let name = path.rsplit('.').next().unwrap_or_default();
    match BOUNDED.iter().find(|(known, _)| *known == name) {
        Some((_, most)) if words.contains(" from 0 on") => {
            words.replacen(" from 0 on", &format!(", 0 to {most}"), 1).into()
        }
        Some(_) | None => words,
    }
}

/// Members with an upper limit, which a value of another form is told, too.
const BOUNDED: [(&str, u64); 1] = [("approvalWaitMs", MAX_APPROVAL_WAIT_MS)];

/// What a reader of JSON says of a text that is none: what is wrong, and where.
pub(super) fn of_syntax(message: &str) -> String {
    let (what, place) = message
        .rsplit_once(" at line ")
        .map_or((message, String::new()), |(what, place)| {
            (
                what,
                format!(", at line {}", place.replacen(" column", ", column", 1)),
            )
        });
    let what = match what {
        _ if what.starts_with("EOF while parsing") => "it ends too early",
        "expected value" => "expected a value",
        "trailing characters" => "something follows its end",
        "trailing comma" => "a comma has nothing behind it",
        "key must be a string" => "expected a name in double quotes",
        "recursion limit exceeded" => "it is nested too deeply",
        _ if what.starts_with("control character") => "a control character in a text has to be escaped",
        other => other,
    };
    format!("not valid JSON: {what}{place}")
}

/// The refusal of a name that is not known here, with the one that was probably intended.
pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match (intended(name, known.iter().copied()), known) {
        (Some(intended), _) => format!("unknown {what}; did you mean {intended}?"),
        (None, []) => format!("unknown {what}"),
        (None, known) => format!("unknown {what}; known: {}", known.join(", ")),
    }
}

/// The names in a list such as ``one of `a`, `b` ``.
pub(super) fn names(list: &str) -> Vec<&str> {
    // Every second piece is between two marks.
    list.split('`').skip(1).step_by(2).collect()
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(begin)?.strip_suffix(end)
}

/// What was found and what was expected. What was found may itself say "expected".
fn mismatch(message: &str) -> Option<(&str, &str)> {
    ["invalid type: ", "invalid value: "]
        .into_iter()
        .find_map(|begin| message.strip_prefix(begin))?
        .rsplit_once(", expected ")
}

fn expected_form(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "a borrowed string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "unit" => "null",
        form if form.starts_with("struct ") => "an object",
        form if form.starts_with("enum ") => "a word",
        other => other,
    }
}

fn found_form(found: &str) -> Cow<'_, str> {
    for number in ["integer `", "floating point `", "boolean `"] {
        if let Some(value) = between(found, number, "`") {
            return value.into();
        }
    }
    match found {
        "sequence" => "a list".into(),
        "map" => "an object".into(),
        "unit" | "unit value" => "null".into(),
        other => match other.strip_prefix("string ") {
            Some(text) => format!("the text {text}").into(),
            None => other.into(),
        },
    }
}

fn alternatives(names: &[&str]) -> String {
    match names {
        [] => "another word".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_its_unit() {
        let words = |path: &str| with_unit(path, of_json("invalid type: null, expected u64")).into_owned();
        assert_eq!(
            words("timeoutMs"),
            "expected a whole number of milliseconds from 0 on, not null"
        );
        assert_eq!(
            words("a.limitBytes"),
            "expected a whole number of bytes from 0 on, not null"
        );
        assert_eq!(words("limit"), "expected a whole number from 0 on, not null");
        assert_eq!(
            words("arguments.approvalWaitMs"),
            "expected a whole number of milliseconds, 0 to 600000, not null"
        );
        assert_eq!(with_unit("waitMs", "expected a word".into()), "expected a word");
    }

    #[test]
    fn what_is_no_json_is_explained_with_its_place() {
        let words = |text: &str| {
            let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
            of_syntax(&error.to_string())
        };
        for (text, what) in [
            ("", "it ends too early, at line 1, column 0"),
            ("{\"a\":", "it ends too early, at line 1, column 5"),
            ("x", "expected a value, at line 1, column 1"),
            ("{} {}", "something follows its end, at line 1, column 4"),
            ("{'a':1}", "expected a name in double quotes, at line 1, column 2"),
            ("[1,]", "a comma has nothing behind it, at line 1, column 4"),
        ] {
            assert_eq!(words(text), format!("not valid JSON: {what}"), "{text}");
        }
    }

    #[test]
    fn no_word_of_the_reader_is_left() {
        for (message, expect) in [
            (
                "invalid type: string \"60s\", expected u64",
                "expected a whole number from 0 on, not the text \"60s\"",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "expected a whole number from 0 on, not -1",
            ),
            (
                "invalid type: floating point `1.0`, expected i64",
                "expected a whole number, not 1.0",
            ),
            (
                "invalid type: null, expected a string",
                "expected a text, not null",
            ),
            (
                "invalid type: map, expected a sequence",
                "expected a list, not an object",
            ),
            (
                "invalid type: sequence, expected struct Sample",
                "expected an object, not a list",
            ),
            (
                "invalid type: boolean `true`, expected f64",
                "expected a number, not true",
            ),
            (
                "invalid type: string \"a, expected b\", expected a boolean",
                "expected true or false, not the text \"a, expected b\"",
            ),
            (
                "unknown variant `yes`, expected one of `allow-once`, `allow-always`, `deny`",
                "expected allow-once, allow-always or deny, not yes",
            ),
            (
                "unknown variant `x`, expected `a` or `b`",
                "expected a or b, not x",
            ),
            ("duplicate field `agentId`", "agentId is given more than once"),
            ("expected 1 to 64 characters", "expected 1 to 64 characters"),
        ] {
            assert_eq!(of_json(message), expect, "{message}");
        }
    }

    #[test]
    fn the_messages_are_those_of_the_reader() {
        let message = |text: &str| serde_json::from_str::<Vec<u64>>(text).unwrap_err().to_string();
        let without_position =
            |message: String| message.split(" at line ").next().unwrap_or_default().to_owned();
        for (text, expect) in [
            ("[\"x\"]", "expected a whole number from 0 on, not the text \"x\""),
            ("[1.5]", "expected a whole number from 0 on, not 1.5"),
            ("[null]", "expected a whole number from 0 on, not null"),
            ("{}", "expected a list, not an object"),
        ] {
            assert_eq!(of_json(&without_position(message(text))), expect, "{text}");
        }
        for text in ["", "x", "99999999999999999999", "-1"] {
            let message = text.parse::<u64>().unwrap_err().to_string();
            assert_ne!(of_text(&message), message, "{text}");
        }
        let message = "yes".parse::<bool>().unwrap_err().to_string();
        assert_eq!(of_text(&message), "expected true or false");
    }

    #[test]
    fn a_slip_is_told_from_another_name() {
        assert_eq!(
            unknown("member", "comand", &["command", "argv"]),
            "unknown member; did you mean command?"
        );
        assert_eq!(
            unknown("member", "cwd", &["command", "argv"]),
            "unknown member; known: command, argv"
        );
        assert_eq!(unknown("member", "x", &[]), "unknown member");
    }
}
