//! What people read in the place of the name of a member of the API: one table for all that is shown.

/// Members, and their words.
const LABELS: &[(&str, &str)] = &[
    ("agentId", "agent"),
    ("approvalId", "approval"),
    ("argPattern", "arguments"),
    ("askFallback", "if nobody answers"),
    ("binding", "unchanged"),
    ("bindingDetail", "that is"),
    ("contextUrl", "more about it"),
    ("cwd", "directory"),
    ("durationMs", "took"),
    ("envNames", "variables"),
    ("exitCode", "exit code"),
    ("exitSignal", "ended by"),
    ("justification", "agent says"),
    ("lastResolvedPath", "last program"),
    ("lastUsedCommand", "last command"),
    ("maxUses", "uses allowed"),
    ("nodeId", "node"),
    ("outputBytes", "bytes of output"),
    ("resolvedPath", "program"),
    ("sessionId", "process session"),
    ("sessionKey", "session"),
    ("truncated", "output cut"),
];

/// The words for a member; what is none stands for itself.
pub(super) fn of(member: &str) -> &str {
    LABELS
        .iter()
        .find(|(name, _)| *name == member)
        .map_or(member, |(_, words)| words)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn labels_are_words_and_none_stands_for_two_members() {
        for (at, (name, words)) in LABELS.iter().enumerate() {
            assert!(!words.contains(char::is_uppercase), "{name}: {words}");
            assert!(
                LABELS.iter().skip(at + 1).all(|(_, other)| other != words),
                "{words}"
            );
        }
    }

    #[test]
    fn no_member_is_shown_by_its_name() {
        let shown = regex::Regex::new(r#"\.(?:fact|each)\(\s*"([^"]*)""#).unwrap();
        let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli")];
        let mut names = Vec::new();
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            names.extend(shown.captures_iter(&source).map(|found| found[1].to_owned()));
        }
        assert!(names.len() > 100, "{}", names.len());
        let as_members: Vec<&String> = names
            .iter()
            .filter(|name| of(name).contains(char::is_uppercase))
            .collect();
        assert!(as_members.is_empty(), "{as_members:?}");
    }
}
