//! The points are the same in the register, in the calls and in `docs/faults.md`.

use std::{collections::BTreeSet, fs, path::Path};

use countersign_sys::faults::{AUDIT, Call, FILES, LEDGER, PATCH, Point, RUN_FILES, START, SUPERVISOR};

const GROUPS: [&[Point]; 7] = [LEDGER, AUDIT, START, FILES, RUN_FILES, SUPERVISOR, PATCH];

fn call(call: Call) -> &'static str {
    match call {
        Call::Open => "open",
        Call::Write => "write",
        Call::Sync => "sync",
        Call::Rename => "rename",
        Call::Truncate => "truncate",
    }
}

#[test]
fn the_points_of_the_documentation_are_those_of_the_register() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/faults.md");
    let text = fs::read_to_string(path).expect("the page");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: Vec<(String, String)> = rows
        .map(|row| {
            let mut cells = row.split('|').map(|cell| cell.trim().trim_end_matches('`'));
            let mut cell = || cells.next().expect("a cell").to_owned();
            let (name, call, then) = (cell(), cell(), cell());
            assert!(then.ends_with('.'), "{name} says what happens then");
            (name, call)
        })
        .collect();
    let listed = GROUPS.iter().copied().flatten();
    let listed: Vec<(String, String)> = listed
        .map(|point| (point.name.to_owned(), call(point.call).to_owned()))
        .collect();
    assert_eq!(documented, listed);
    let names: BTreeSet<&String> = listed.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), listed.len(), "no name twice");
}
