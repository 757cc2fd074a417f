//! Each rule switched: off, so that what it refuses or accepts is as if it were not written, or overdone, so that it
//! finds its condition everywhere. A rule is alive if a case changes; a case earns its place if it changes with the
//! rule that it names.

use std::collections::BTreeSet;

use crate::command::{Rule, RuleSet};

use super::super::command_corpus::{self, Case, evaluate_under};
use super::{cases, worlds};

fn flips(rule: Rule, case: &Case) -> bool {
    let alone = Case {
        without_delegation: true,
        ..case.clone()
    };
    let changes = |case: &Case| {
        evaluate_under(RuleSet::ALL, case) == case.expect
            && [false, true]
                .into_iter()
                .any(|answer| evaluate_under(RuleSet::forced(rule, answer), case) != case.expect)
    };
    changes(case) || changes(&alone)
}

#[test]
fn every_case_of_ours_changes_with_the_rule_it_names() {
    let idle: Vec<String> = cases::all()
        .iter()
        .filter(|(rule, case)| !flips(*rule, case))
        .map(|(_, case)| format!("{}: {} {:?}", case.id, case.expect, case.command))
        .collect();
    assert!(idle.is_empty(), "{} cases:\n{}", idle.len(), idle.join("\n"));
}

/// What a rule refuses is refused by that rule: taking it out lets the case pass or makes it a question.
#[test]
fn every_rule_changes_a_case() {
    let mut alive: BTreeSet<Rule> = worlds::alive();
    alive.extend(
        cases::all()
            .iter()
            .filter(|(rule, case)| evaluate_under(RuleSet::forced(*rule, false), case) != case.expect)
            .map(|(rule, _)| *rule),
    );
    // What only an overdone rule shows: every segment has to be covered (A3).
    alive.extend(
        cases::all()
            .iter()
            .filter(|(rule, case)| *rule == Rule::A3 && flips(*rule, case))
            .map(|(rule, _)| *rule),
    );
    let dead: Vec<&Rule> = Rule::ALL.iter().filter(|rule| !alive.contains(rule)).collect();
    assert!(dead.is_empty(), "{dead:?}");
}

/// The shared cases were written by others, so they say something about the rules too.
#[test]
fn the_shared_cases_change_with_most_rules() {
    let cases = command_corpus::cases();
    let untouched: Vec<&str> = Rule::ALL
        .iter()
        .filter(|rule| !cases.iter().any(|case| flips(**rule, case)))
        .map(|rule| rule.as_str())
        .collect();
    // What an answer would store is not part of them, and neither is what a setting has to allow.
    assert_eq!(
        untouched,
        ["G11", "G12", "G14", "G16", "G17", "G19", "G23", "D2", "A1", "A2"]
    );
}
