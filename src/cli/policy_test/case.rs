//! The cases of a file, and the world that a case may bring along.

use std::{collections::BTreeMap, fmt, path::Path};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::yaml;
use countersign_domain::{AgentId, CommandInput};

/// What policy is expected to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Expect {
    Allow,
    /// A person is asked.
    Ask,
    Reject,
}

/// One command and what is expected of it.
#[derive(Debug)]
pub(super) struct Case {
    /// Its own id, else the number of its line.
    pub(super) id: String,
    pub(super) command: String,
    pub(super) expect: Expect,
    /// Called with a terminal.
    pub(super) pty: bool,
    /// Called in the background.
    pub(super) background: bool,
    pub(super) world: World,
}

impl Case {
    /// What can be written to its command.
    pub(super) const fn input(&self) -> CommandInput {
        CommandInput::wanted(self.background, self.pty)
    }
}

/// Where a case is judged.
#[derive(Debug)]
pub(super) enum World {
    /// By the policy of the server, for this agent.
    Server { agent: Option<AgentId> },
    /// In a world that exists only in the case.
    Own(OwnWorld),
}

/// A world that exists only in a case; what it does not say is as by default.
#[derive(Debug, Default)]
pub(super) struct OwnWorld {
    pub(super) cwd: Option<String>,
    pub(super) path_dirs: BTreeMap<String, String>,
    pub(super) files: Vec<String>,
    pub(super) realpaths: BTreeMap<String, String>,
    pub(super) trusted_dirs: Vec<String>,
    pub(super) allowlist: Vec<OwnEntry>,
    pub(super) safe_bins: Option<Vec<String>>,
    pub(super) strict_inline_eval: bool,
    pub(super) env: BTreeMap<String, String>,
}

/// An allowlist entry of such a world.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OwnEntry {
    pub(super) pattern: String,
    pub(super) arg_pattern: Option<String>,
    pub(super) source: Option<String>,
    #[serde(default)]
    pub(super) input: bool,
    #[serde(default)]
    pub(super) unguarded: bool,
}

/// As it is written. `platform`, `why` and `ref` are for people.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseText<Id> {
    id: Option<Id>,
    command: String,
    agent: Option<AgentId>,
    expect: Expect,
    #[serde(default)]
    pty: bool,
    #[serde(default)]
    background: bool,
    #[serde(rename = "platform")]
    _platform: Option<serde::de::IgnoredAny>,
    #[serde(rename = "why")]
    _why: Option<serde::de::IgnoredAny>,
    #[serde(rename = "ref")]
    _reference: Option<serde::de::IgnoredAny>,
    cwd: Option<String>,
    path_dirs: Option<BTreeMap<String, String>>,
    files: Option<Vec<String>>,
    realpaths: Option<BTreeMap<String, String>>,
    trusted_dirs: Option<Vec<String>>,
    allowlist: Option<Vec<OwnEntry>>,
    safe_bins: Option<Vec<String>>,
    strict_inline_eval: Option<bool>,
    env: Option<BTreeMap<String, String>>,
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

/// How cases are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    Yaml,
    /// Whichever the text reads as.
    Any,
}

/// What is no file of cases, and where.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(super) struct InvalidCases {
    line: u64,
    problem: String,
}

impl InvalidCases {
    /// What is wrong, at a line.
    pub(super) fn at(line: u64, problem: &dyn fmt::Display) -> Self {
        Self {
            line,
            problem: problem.to_string(),
        }
    }
}

impl Notation {
    /// What the name of a file says.
    pub(super) fn of(file: &Path) -> Self {
        let is_yaml = file
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("yaml") || ending.eq_ignore_ascii_case("yml"));
        if is_yaml { Self::Yaml } else { Self::Any }
    }
}

impl Expect {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Reject => "reject",
        }
    }
}

/// Reads the cases of a text.
pub(super) fn parse(text: &str, notation: Notation) -> Result<Vec<Case>, InvalidCases> {
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

impl<Id: Into<String>> CaseText<Id> {
    /// The case that this is. It begins at this line.
    pub(super) fn into_case(self, line: u64) -> Result<Case, InvalidCases> {
        let is_of_its_own = self.cwd.is_some()
            || self.path_dirs.is_some()
            || self.files.is_some()
            || self.realpaths.is_some()
            || self.trusted_dirs.is_some()
            || self.allowlist.is_some()
            || self.safe_bins.is_some()
            || self.strict_inline_eval.is_some()
            || self.env.is_some();
        if self.cwd.as_ref().is_some_and(|cwd| !cwd.starts_with('/')) {
            return Err(InvalidCases::at(line, &"cwd: expected an absolute path"));
        }
        let world = if is_of_its_own {
            World::Own(OwnWorld {
                cwd: self.cwd,
                path_dirs: self.path_dirs.unwrap_or_default(),
                files: self.files.unwrap_or_default(),
                realpaths: self.realpaths.unwrap_or_default(),
                trusted_dirs: self.trusted_dirs.unwrap_or_default(),
                allowlist: self.allowlist.unwrap_or_default(),
                safe_bins: self.safe_bins,
                strict_inline_eval: self.strict_inline_eval.unwrap_or_default(),
                env: self.env.unwrap_or_default(),
            })
        } else {
            World::Server { agent: self.agent }
        };
        Ok(Case {
            id: self.id.map_or_else(|| line.to_string(), Into::into),
            command: self.command,
            expect: self.expect,
            pty: self.pty,
            background: self.background,
            world,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
