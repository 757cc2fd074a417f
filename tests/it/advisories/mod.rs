//! Published bypasses of products like this one, each as a test of its own whose name is the id. Every attack stands
//! beside a harmless twin that is let through, so that no test holds because nothing is ever allowed.
//!
//! `tests/data/advisories.txt` has a line for each advisory, with all of its ids; the first is the test's name.
//! Attacks on what is understood and covered are shown to the analysis in a world in memory, those on execution,
//! prompts, environment and binding to the real server.
//!
//! Some advisories are about what no command can express here. Their tests show the property that makes them moot:
//!
//! | advisory | why no command expresses it | what the test shows |
//! | --- | --- | --- |
//! | CVE-2026-28466, CVE-2026-32898 | a call carries no word about its own approval or class | every such member is a bad request |
//! | openclaw 2026.2.14 | a call is text or words, never both | both together are a bad request |
//! | CVE-2025-65099 | nothing of a workspace runs or is read for policy before a person answered | traps in a workspace do not spring |
//! | CVE-2026-12537 | nothing of a call becomes an argument of a launcher | names and directories that look like options are refused |
//! | CVE-2026-43531 and others, CVE-2025-61260 | no file of a workspace is read for settings or environment | files of those names change nothing |

mod environment;
mod execution;
pub(crate) mod prompts;

use std::{collections::BTreeSet, fs, path::Path};

/// `CVE-2026-28391` is the test `cve_2026_28391`.
fn test_name(id: &str) -> String {
    id.to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

#[test]
fn every_advisory_has_its_test_and_every_test_its_advisory() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = BTreeSet::new();
    for file in [
        "tests/it/advisories/environment.rs",
        "tests/it/advisories/execution.rs",
        "tests/it/advisories/prompts.rs",
        "crates/policy/tests/wide/advisories.rs",
    ] {
        let text = fs::read_to_string(root.join(file)).expect("a file of tests");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if !matches!(line, "#[test]" | "#[tokio::test]") {
                continue;
            }
            let signature = lines.next().expect("a test behind its attribute");
            let name = signature
                .split_once("fn ")
                .and_then(|(_, rest)| rest.split_once('('))
                .map(|(name, _)| name.to_owned());
            assert!(tests.insert(name.expect("a name")), "{signature} stands twice");
        }
    }
    let mut ids = BTreeSet::new();
    let mut wanted = BTreeSet::new();
    for line in include_str!("../../data/advisories.txt").lines() {
        for id in line.split(' ') {
            assert!(ids.insert(id), "{id} stands twice");
        }
        wanted.insert(test_name(line.split(' ').next().expect("an id")));
    }
    assert_eq!(tests, wanted);
    assert!(wanted.len() > 90, "{}", wanted.len());
}
