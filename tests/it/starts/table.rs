//! Tables of commands, in files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::support::{Invocation, run_program};

/// Commands at a time.
pub(crate) const WIDTH: usize = 4;

/// The lines of a table, without its comments.
pub(crate) fn lines(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/starts")
        .join(name);
    let text = fs::read_to_string(path).expect("a table");
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// A copy of a directory with everything in it.
pub(crate) fn copied(from: &Path, to: &Path) -> PathBuf {
    let copy = Invocation::new("cp").arg("-a").arg(from).arg(to);
    assert_eq!(run_program(&copy).code, Some(0), "{copy:?}");
    to.to_owned()
}
