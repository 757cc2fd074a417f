//! What the fuzz targets check, of every seed in git (`dev/fuzz` goes on from there).

#[path = "../../fuzz/src/invariants.rs"]
mod invariants;

use std::{fs, panic, path::Path};

use crate::{
    oracles::{self, Chance},
    support::World,
};

type Seed = (String, Vec<u8>);

fn seeds_of(target: &str) -> Vec<Seed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    assert!(
        root.join(format!("fuzz_targets/{target}.rs")).is_file(),
        "{target} has a target"
    );
    let mut seeds: Vec<Seed> = fs::read_dir(root.join("seeds").join(target))
        .unwrap_or_else(|error| panic!("seeds of {target}: {error}"))
        .map(|entry| {
            let path = entry.expect("a seed").path();
            (path.display().to_string(), fs::read(&path).expect("a seed"))
        })
        .collect();
    seeds.sort();
    assert!(seeds.len() >= 5, "{target} has seeds");
    seeds
}

#[test]
fn every_seed_holds_what_its_target_checks() {
    for (target, check) in invariants::TARGETS {
        for (name, data) in seeds_of(target) {
            assert!(panic::catch_unwind(|| check(&data)).is_ok(), "{name}");
        }
    }
}

/// Without a fuzzer there is no telling what is new, so these are few; with one there are millions.
#[test]
fn changed_seeds_hold_it_as_well() {
    let mut chance = oracles::chance();
    for (target, check) in invariants::TARGETS {
        let seeds = seeds_of(target);
        for _ in 0..oracles::wanted(400) {
            let mut data = seeds[chance.below(seeds.len())].1.clone();
            for _ in 0..=chance.below(4) {
                change(&mut data, &seeds, &mut chance);
            }
            let is_held = panic::catch_unwind(|| check(&data)).is_ok();
            assert!(is_held, "{target}: {:?} {data:?}", String::from_utf8_lossy(&data));
        }
    }
}

fn change(data: &mut Vec<u8>, seeds: &[Seed], chance: &mut Chance) {
    const PIECES: &str = "'\"\\$`;&|<>(){}[]*?~#!=\n\t /.:,-^aZ09é☕😀\u{200b}\0";
    let at = chance.below(data.len() + 1);
    let end = (at + chance.below(8)).min(data.len());
    match chance.below(5) {
        0 => drop(data.drain(at..end)),
        1 => {
            let again = data[at..end].to_vec();
            data.splice(at..at, again);
        }
        2 => {
            let other = &seeds[chance.below(seeds.len())].1;
            let from = chance.below(other.len() + 1);
            let to = (from + chance.below(24)).min(other.len());
            data.splice(at..end, other[from..to].iter().copied());
        }
        3 if at < data.len() => data[at] ^= 1 << chance.below(8),
        _ => {
            let mut buffer = [0; 4];
            let piece = chance.character(PIECES).encode_utf8(&mut buffer);
            data.splice(at..at, piece.bytes());
        }
    }
}
