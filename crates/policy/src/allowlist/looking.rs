//! Segments that only look at files (G14).

use super::SegmentReport;
use crate::command::{
    paths,
    syntax::{ReadRedirection, Segment},
};

/// Programs that make no file and remove none.
const LOOKERS: &[&str] = &[
    ":",
    "[",
    "basename",
    "cat",
    "cd",
    "cmp",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "false",
    "fgrep",
    "file",
    "grep",
    "head",
    "id",
    "jq",
    "ls",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "rg",
    "seq",
    "sha256sum",
    "sleep",
    "stat",
    "tac",
    "tail",
    "test",
    "tr",
    "tree",
    "true",
    "uname",
    "wc",
    "which",
    "whoami",
];

/// Whether a segment leaves the files as they are, by the name of its program: patterns behind it then mean what they mean
/// now. Which words a program gets does not depend on that, only whether they are those that a shell would find.
pub(super) fn only_looks_at_files(segment: &Segment, report: &SegmentReport) -> bool {
    let writes = segment.redirections.iter().any(|redirection| match redirection {
        ReadRedirection::File { used_as, .. } => used_as.writes(),
        ReadRedirection::Known(_) => false,
    });
    !writes && LOOKERS.contains(&paths::base_name(&report.executable))
}

/// Whether a segment puts nothing in the place of a directory, by the word of its command alone.
pub(super) fn makes_no_links(segment: &Segment) -> bool {
    const WRITERS_OF_FILES: &[&str] = &["awk", "find", "gfind", "sed", "sort", "tee", "uniq"];
    let name = segment.words.first().map(|word| paths::base_name(&word.value));
    name.is_some_and(|name| LOOKERS.contains(&name) || WRITERS_OF_FILES.contains(&name))
}
