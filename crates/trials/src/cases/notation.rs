//! The cases of a text. JSON is read here, `yaml.rs` reads YAML.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    case::{Case, CaseText, InvalidCases},
    yaml,
};

/// How cases are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// YAML, whatever the text looks like.
    Yaml,
    /// Whichever the text reads as.
    Any,
}

/// An id in JSON. Programs count their cases in numbers.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected text or a number")]
enum JsonId {
    Text(String),
    Number(serde_json::Number),
}

impl From<JsonId> for String {
    fn from(id: JsonId) -> Self {
        match id {
            JsonId::Text(text) => text,
            JsonId::Number(number) => number.to_string(),
        }
    }
}

impl Notation {
    /// What the name of a file says.
    pub fn of(file: &Path) -> Self {
        let is_yaml = file
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("yaml") || ending.eq_ignore_ascii_case("yml"));
        if is_yaml { Self::Yaml } else { Self::Any }
    }
}

/// Reads the cases of a text.
///
/// # Errors
/// [`InvalidCases`] with the line of the first fault.
pub fn parse(text: &str, notation: Notation) -> Result<Vec<Case>, InvalidCases> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if notation == Notation::Yaml {
        return yaml::parse(text);
    }
    match json_values(text) {
        Ok(values) => values.into_iter().map(|value| json_case(text, value)).collect(),
        Err(error) => yaml::parse(text).map_err(|not_yaml| {
            // A text that begins so was meant to be JSON.
            let is_json = text.trim_start().starts_with(['{', '[']);
            let not_json = || InvalidCases::at(number(error.line()), &error);
            if is_json { not_json() } else { not_yaml }
        }),
    }
}

/// The elements of an array, or values one after the other.
fn json_values(text: &str) -> serde_json::Result<Vec<&RawValue>> {
    if text.trim_start().starts_with('[') {
        serde_json::from_str(text)
    } else {
        serde_json::Deserializer::from_str(text).into_iter().collect()
    }
}

fn json_case(text: &str, value: &RawValue) -> Result<Case, InvalidCases> {
    let line = line_of(text, value.get());
    let read: CaseText<JsonId> = serde_json::from_str(value.get())
        .map_err(|error| InvalidCases::at(line + number(error.line()).saturating_sub(1), &error))?;
    read.into_case(line)
}

/// The number of the line where a part of the text begins.
fn line_of(text: &str, part: &str) -> u64 {
    let offset = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    let before = text.get(..offset).unwrap_or_default();
    number(before.matches('\n').count()) + 1
}

fn number(line: usize) -> u64 {
    u64::try_from(line).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cases::case::World;

    fn ids(text: &str) -> Vec<String> {
        let cases = parse(text, Notation::Any).unwrap();
        cases.into_iter().map(|case| case.id).collect()
    }

    #[test]
    fn arrays_and_lines_are_read_and_lines_are_counted() {
        let line = r#"{"command":"ls","expect":"ask"}"#;
        let named = r#"{"id":"x","command":"ls","expect":"ask"}"#;
        assert_eq!(ids(&format!("{line}\n\n{named}\n{line}\n")), ["1", "x", "4"]);
        assert_eq!(ids(&format!(" [\n{line},\n{line}]")), ["2", "3"]);
        assert_eq!(ids(""), Vec::<String>::new());
        assert_eq!(ids(&format!("\u{feff}{line}")), ["1"]);
        assert_eq!(ids(r#"{"id":7,"command":"ls","expect":"ask"}"#), ["7"]);
    }

    #[test]
    fn what_is_no_json_may_be_yaml() {
        assert_eq!(ids("\u{feff}- {command: ls, expect: ask}"), ["1"]);
        assert_eq!(ids("{command: ls, expect: ask}"), ["1"]);
        for (name, notation) in [
            ("a.yaml", Notation::Yaml),
            ("a.b.YML", Notation::Yaml),
            ("yaml", Notation::Any),
            ("a.jsonl", Notation::Any),
            ("-", Notation::Any),
        ] {
            assert_eq!(Notation::of(Path::new(name)), notation, "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, expected) in [
            (
                "{\"command\":\"ls\",\"expect\":\"ask\"}\n{\"command\":\"ls\"}",
                "line 2: missing field `expect`",
            ),
            (
                "\n{\"command\":\"ls\",\"expect\":\"run\"}",
                "line 2: unknown variant `run`",
            ),
            (
                "{\"command\":\"ls\",\"expect\":\"ask\",\"allow_list\":[]}",
                "line 1: unknown field `allow_list`",
            ),
            (
                "{\"command\":\"ls\",\"expect\":\"ask\",\"cwd\":\"x\"}",
                "line 1: cwd: expected an absolute path",
            ),
            ("\n[1,", "line 2: EOF"),
        ] {
            let told = parse(text, Notation::Any).unwrap_err().to_string();
            assert!(told.starts_with(expected), "{text}: {told}");
        }
    }

    #[test]
    fn any_member_of_a_world_makes_one() {
        for member in [
            r#""cwd":"/""#,
            r#""path_dirs":{}"#,
            r#""safe_bins":[]"#,
            r#""env":{}"#,
            r#""strict_inline_eval":false"#,
        ] {
            let text = format!(r#"{{"command":"ls","expect":"ask",{member}}}"#);
            let cases = parse(&text, Notation::Any).unwrap();
            assert!(matches!(cases[0].world, World::Own(_)), "{member}");
        }
        let cases = parse(r#"{"command":"ls","expect":"ask","agent":"a"}"#, Notation::Any).unwrap();
        assert!(matches!(cases[0].world, World::Server { agent: Some(_) }));
    }
}
