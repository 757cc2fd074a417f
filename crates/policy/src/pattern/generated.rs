//! Entries that were made by an answer, not by hand (`docs/spec/approvals-store.md#generated-forms`).

use sha2::{Digest, Sha256};

use countersign_domain::hex;

use crate::command::paths;

/// `source` of generated entries.
pub(crate) const GENERATED_SOURCE: &str = "allow-always";
/// Beginning of a pattern that stands for one exact command text.
pub const COMMAND_MARKER: &str = "=command:";
/// Beginning of an argument pattern that is bound to a directory and arguments.
pub const CWD_ARGV_PREFIX: &str = "sha256:cwd-argv:v1:";
/// Beginning of the older form, which never matches any more.
pub(super) const LEGACY_ARGV_PREFIX: &str = "sha256:argv:";
const NODE_MARKER: &str = "=node-command:";

/// The argument pattern of exactly these arguments (without `argv[0]`) in this directory; `None` for a directory with a
/// backslash in its name, which the product takes for a separator: it would pass for another one.
pub(crate) fn cwd_argv_pattern<'a>(
    cwd: &str,
    arguments: impl ExactSizeIterator<Item = &'a str>,
) -> Option<String> {
    if cwd.contains('\\') {
        return None;
    }
    let cwd = paths::normalise(cwd);
    let mut digest = Sha256::new();
    let mut field = |text: &str| {
        digest.update(text.as_bytes());
        digest.update([0]);
    };
    field(&cwd.len().to_string());
    field(&cwd);
    field(&arguments.len().to_string());
    for argument in arguments {
        field(&argument.len().to_string());
        field(argument);
    }
    Some(format!("{CWD_ARGV_PREFIX}{}", hex(&digest.finalize())))
}

/// SHA-256 of a command's trimmed text, lower-case hex.
pub fn command_digest(text: &str) -> String {
    hex(&Sha256::digest(text.trim().as_bytes()))
}

/// The pattern that stands for exactly this command text.
pub fn command_marker(text: &str) -> String {
    marker_of_digest(&command_digest(text))
}

/// The pattern that stands for the text with this digest.
pub fn marker_of_digest(digest: &str) -> String {
    format!("{COMMAND_MARKER}{}", digest.get(..16).unwrap_or(digest))
}

/// Whether a pattern is a marker, which never names an executable.
pub(crate) fn is_marker(pattern: &str) -> bool {
    pattern.starts_with(COMMAND_MARKER) || pattern.starts_with(NODE_MARKER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_have_the_checked_values() {
        for (cwd, arguments, expected) in [
            (
                "/home/user/p",
                ["run", "build"].as_slice(),
                "fc76d9cd9d31a372b2e8a3c9c4fe53443fb4909a75d4004c05876d2f71e068e8",
            ),
            (
                "/home/user/p/../q",
                &["status"],
                "acb47508549f60733c209279f5a81688a45581419a718ab919ba2a4f71ee1ad8",
            ),
            (
                "/",
                &[],
                "d535b61d5d7bbd09d8a1a6161e987ad1bce0688b581a7e78a36069482408baf4",
            ),
            (
                "/tmp",
                &["grüße", ""],
                "8931bb08913645d4fd4c6fed0cdb6522b4e7383141fe8f424aa49e5d35f0de5c",
            ),
        ] {
            let pattern = cwd_argv_pattern(cwd, arguments.iter().copied());
            assert_eq!(pattern, Some(format!("{CWD_ARGV_PREFIX}{expected}")));
        }
        assert_eq!(cwd_argv_pattern(r"/tmp/x\..\p", ["a"].into_iter()), None);
        assert_eq!(command_marker(" ls -la\n"), "=command:1de700c29687cae3");
        assert_eq!(command_marker("npm run build"), "=command:16c0e4305ac213df");
    }
}
