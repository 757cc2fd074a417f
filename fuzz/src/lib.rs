//! What the fuzz targets run.

mod invariants;
#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../../crates/policy/tests/wide/world.rs"]
mod world;

use world::World;

/// Runs a target on one input.
///
/// # Panics
/// When an invariant does not hold, and for a target that does not exist.
pub fn run(target: &str, data: &[u8]) {
    let (_, check) = invariants::TARGETS
        .iter()
        .find(|(name, _)| *name == target)
        .expect("a target of the table");
    check(data);
}
