//! What the process that applied a patch says of it: one line of JSON, in ASCII alone, so that nothing on its way
//! changes it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Patch;

/// A patch was not applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The file that it failed at, as the patch calls it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// The hunk of that file, from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hunk: Option<usize>,
    /// What went wrong, for the author of the patch.
    pub detail: String,
    /// Files that could not be put back as they were, and what is left beside them. Mostly none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_restored: Vec<String>,
}

#[derive(Deserialize)]
struct Failed {
    failed: Failure,
}

/// The line about a patch that was applied.
pub fn applied(patch: &Patch) -> String {
    let changed: Vec<Value> = patch
        .changes()
        .map(|change| {
            let mut line = json!({ "path": change.path.as_str(), "kind": change.kind.as_str() });
            if let (Some(from), Some(members)) = (change.from, line.as_object_mut()) {
                members.insert("from".to_owned(), from.as_str().into());
            }
            line
        })
        .collect();
    ascii(&json!({ "changed": changed }))
}

impl Failure {
    /// The line about it.
    pub fn to_line(&self) -> String {
        ascii(&json!({ "failed": self }))
    }

    /// Reads such a line.
    pub fn of_line(line: &str) -> Option<Self> {
        serde_json::from_str::<Failed>(line.trim_end())
            .ok()
            .map(|Failed { failed }| failed)
    }
}

/// JSON with every other character as the escapes of its UTF-16.
fn ascii(value: &Value) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        if c.is_ascii() && !c.is_ascii_control() {
            line.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(line, "\\u{unit:04x}").expect("writing to a String cannot fail");
            }
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_read_back_whatever_it_names() {
        let failure = Failure {
            path: Some("ü/\u{1f600}\u{200d}\"".to_owned()),
            hunk: Some(2),
            detail: "no".to_owned(),
            not_restored: vec!["x".to_owned()],
        };
        let line = failure.to_line();
        assert!(line.is_ascii() && line.trim_end().lines().count() == 1, "{line}");
        assert_eq!(Failure::of_line(&line), Some(failure));
        assert_eq!(Failure::of_line("{}"), None);
    }

    #[test]
    fn what_was_applied_is_listed_in_its_order() {
        let patch = Patch::parse(
            "*** Begin Patch\n*** Add File: ä\n*** Update File: b\n*** Move to: c\n*** Delete File: d\n*** End Patch",
        )
        .unwrap();
        assert_eq!(
            applied(&patch),
            "{\"changed\":[{\"path\":\"\\u00e4\",\"kind\":\"added\"},{\"path\":\"c\",\"kind\":\"moved\",\"from\":\"b\"},\
             {\"path\":\"d\",\"kind\":\"deleted\"}]}\n"
        );
    }
}
