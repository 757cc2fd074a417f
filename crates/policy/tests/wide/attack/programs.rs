//! The programs of rule D1, and wrappers, under entries without arguments.

use std::collections::BTreeSet;

use super::{
    HERE,
    attempts::attempts,
    cell::{Cells, is_here},
    measure::{Measure, is_long},
    table::{Section, programs_of_the_rule, sections},
};
use crate::world::World;

/// Programs that harmless calls of the table need beside the one that is attacked.
const BESIDES: &[&str] = &["rg", "printf"];
/// Options of one help text that are tried.
const MAX_HARVESTED: usize = 150;

/// Entries for a program and its neighbours.
fn world(program: &str, section: &Section) -> World {
    let mut world = World::new()
        .programs(BESIDES)
        .allow(&["/usr/bin/rg", "/usr/bin/printf"]);
    HERE.clone_into(&mut world.cwd);
    let path = format!("/usr/bin/{program}");
    let real = section
        .real
        .as_ref()
        .map_or_else(|| path.clone(), |real| format!("/usr/bin/{real}"));
    world = world.programs(&[program]).allow(&[&path]);
    if real == path {
        world
    } else {
        world.link(&path, &real).allow(&[&real])
    }
}

/// The options that a program's own help names.
fn harvested(section: &Section, program: &str, cells: Option<&Cells>) -> Vec<String> {
    // Some take seconds to say what they take, so only a longer attack asks.
    let Some(cells) = cells.filter(|_| is_long() && is_here(program)) else {
        return Vec::new();
    };
    let mut options = BTreeSet::new();
    for help in &section.help {
        let said = cells.said(&format!("{program} {help}"));
        let words = said.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        let is_option = |word: &&str| {
            let name = word.trim_start_matches('-');
            word.starts_with('-')
                && (2..32).contains(&word.len())
                && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        };
        options.extend(words.filter(is_option).map(str::to_owned));
    }
    options.into_iter().take(MAX_HARVESTED).collect()
}

#[test]
fn no_covered_call_of_a_program_of_the_rule_starts_another() {
    let cells = Cells::new("programs");
    let mut measure = Measure::default();
    for section in sections() {
        for program in &section.programs {
            let harvested = harvested(&section, program, cells.as_ref());
            let world = world(program, &section);
            let is_covered = |text: &str| world.verdict(text) == "allow";
            measure.judge(program, &attempts(&section, program, &harvested), is_covered);
        }
    }
    if let Some(cells) = &cells {
        // Other names of a program run the same.
        let first = sections()
            .into_iter()
            .filter_map(|section| section.programs.into_iter().find(|name| is_here(name)));
        let first: BTreeSet<String> = first.collect();
        measure.run(cells, |name| is_here(name) && (is_long() || first.contains(name)));
    }
    measure.end(2_000, 50);
}

#[test]
fn every_program_of_the_rule_is_attacked() {
    let attacked: BTreeSet<String> = sections()
        .into_iter()
        .flat_map(|section| section.programs)
        .collect();
    let missing: Vec<String> = programs_of_the_rule().difference(&attacked).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
}
