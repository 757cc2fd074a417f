//! How much is generated. Commands are generated from a fixed seed; `COUNTERSIGN_ORACLE_COMMANDS` makes it more of them,
//! `COUNTERSIGN_ORACLE_SEED` makes it others.

use super::Chance;

/// How many commands a test generates; `usual` unless the environment says otherwise.
pub(crate) fn wanted(usual: usize) -> usize {
    number("COUNTERSIGN_ORACLE_COMMANDS").map_or(usual, |wanted| usize::try_from(wanted).expect("a number"))
}

pub(crate) fn chance() -> Chance {
    Chance::new(number("COUNTERSIGN_ORACLE_SEED").unwrap_or(7))
}

fn number(name: &str) -> Option<u64> {
    variable(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[expect(clippy::disallowed_methods, reason = "a variable of the tests themselves")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
