//! Tests whose surroundings are missing say so in one line; `COUNTERSIGN_TEST_STRICT=1` makes that a failure.

use std::{fs::File, io::Write};

use super::own_variable;

/// Reports that a test cannot run here: on standard error, and in the file that `dev/test` sums up.
#[expect(
    clippy::print_stderr,
    reason = "the only way to tell the person who runs the tests"
)]
pub(crate) fn skip(why: &str) {
    let strict = own_variable("COUNTERSIGN_TEST_STRICT").is_some_and(|strict| strict == "1");
    assert!(!strict, "skipping is forbidden here: {why}");
    eprintln!("skipped: {why}");
    if let Some(summary) = own_variable("COUNTERSIGN_TEST_SKIPS") {
        let mut summary = File::options()
            .append(true)
            .open(summary)
            .expect("the file of the summary");
        summary
            .write_all(format!("skipped: {why}\n").as_bytes())
            .expect("a line of the summary");
    }
}

/// What a test needs: `None`, said why, where it is missing.
pub(crate) fn needed(is_there: bool, why: &str) -> Option<()> {
    if !is_there {
        skip(why);
    }
    is_there.then_some(())
}

/// Ends a test that cannot run here. With one argument that is where there is `None`: what looked said why. With two
/// it is where a condition does not hold, and the second says why.
macro_rules! or_skip {
    ($found:expr) => {
        match $found {
            Some(found) => found,
            None => return,
        }
    };
    ($holds:expr, $why:expr) => {
        or_skip!($crate::support::needed($holds, $why))
    };
}

/// Account and group that own nothing.
pub(crate) const NOBODY: u32 = 65534;

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
