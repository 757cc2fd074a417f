//! Our own cases: `tests/data/analysis/RULE.jsonl`, in the form of the shared corpus.

use std::{fs, path::PathBuf};

use crate::command::{Rule, RuleSet};

use super::super::command_corpus::{Case, evaluate_under, read_cases};

/// At least so many cases stand beside each rule.
const CASES_OF_A_RULE: usize = 6;

fn files() -> Vec<PathBuf> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/analysis");
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .expect("the folder of cases")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// All of them with the rule that each names.
pub(super) fn all() -> Vec<(Rule, Case)> {
    let read = |file: PathBuf| read_cases(&fs::read_to_string(file).expect("a file of cases"));
    files()
        .into_iter()
        .flat_map(read)
        .map(|case| (case.reference.parse().expect("a rule"), case))
        .collect()
}

#[test]
fn our_cases_are_judged_as_the_rules_say() {
    let wrong: Vec<String> = all()
        .iter()
        .map(|(_, case)| (case, evaluate_under(RuleSet::ALL, case)))
        .filter(|(case, judged)| case.expect != *judged)
        .map(|(case, judged)| {
            format!(
                "{}: {:?} is {judged}, not {} ({})",
                case.id, case.command, case.expect, case.why
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_file_is_that_of_its_rule_and_has_enough_cases() {
    let cases = all();
    for file in files() {
        let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let of_rule = cases
            .iter()
            .filter(|(rule, _)| rule.as_str().to_lowercase() == stem);
        let count = of_rule.clone().count();
        assert!(count >= CASES_OF_A_RULE, "{stem}: {count}");
        for (index, (_, case)) in of_rule.enumerate() {
            assert!(case.id.starts_with(&format!("{stem}-")), "{index}: {}", case.id);
        }
    }
    let mut ids: Vec<&str> = cases.iter().map(|(_, case)| case.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), cases.len(), "ids are given once");
}
