//! A script is YAML or JSON: a list of rules.

use std::path::Path;

use countersign_http::mock::Script;
use countersign_sys::fs::read_bounded;

use crate::cli::failure::Failure;

/// People write scripts.
const MAX_BYTES: usize = 1024 * 1024;

/// The script of `check-gateway`, which is also that of `serve --mock` without a file.
const CASES: &str = include_str!("cases.yaml");

/// The script of a file.
pub(super) fn read(path: &Path) -> Result<Script, Failure> {
    let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
    let bytes = read_bounded(path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_not_text| wrong("it is not UTF-8".to_owned()))?;
    parse(&text).map_err(|what| wrong(what).advice("docs/gateways.md has the members of a rule"))
}

/// The script of the cases that every gateway meets.
pub(crate) fn cases() -> Script {
    parse(CASES).expect("a test reads it")
}

/// Aliases, depth and number of what is in it are bounded.
fn parse(text: &str) -> Result<Script, String> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        reject_unsupported_tags: true,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error
            .location()
            .map(|location| format!("line {}: ", location.line()));
        let what = error.to_string();
        let what = what.lines().next().unwrap_or_default().to_owned();
        format!("{}{what}", line.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cases_are_a_script() {
        assert!(cases().len() >= 8);
    }

    #[test]
    fn a_script_is_yaml_or_json() {
        for text in [
            "- command: git *\n  answer: deny\n  reason: not today\n",
            "[{\"command\": \"git *\", \"answer\": \"deny\"}]",
        ] {
            assert_eq!(parse(text).expect(text).len(), 1);
        }
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        for (text, part) in [
            ("- answer: maybe\n", "maybe"),
            ("- answer: run\n  aftr: 1\n", "aftr"),
            ("- answer: refuse\n  exitCode: 1\n", "rule 1: exitCode"),
            ("[]", "at least one rule"),
        ] {
            let told = parse(text).expect_err(text);
            assert!(told.contains(part) && !told.contains('\n'), "{told}");
        }
    }
}
