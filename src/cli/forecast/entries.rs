//! Which entries would save most questions. Pure. Entry point: [`most_saving`].

use std::collections::{BTreeMap, BTreeSet};

use countersign_domain::{Pattern, PatternWidth, proposals};

/// A command that would be asked about: how often, and the programs for which entries would cover it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) count: u64,
    /// Paths of programs, all of which it needs; none where no entry without arguments covers it.
    pub(super) programs: BTreeSet<String>,
}

impl Question {
    /// Of what an `allow-always` could store for the command.
    pub(super) fn of(count: u64, proposed: &[Pattern]) -> Self {
        let widest = proposals(proposed)
            .into_iter()
            .find(|proposal| proposal.id == PatternWidth::Program);
        let stores = widest.map(|proposal| proposal.stores).unwrap_or_default();
        // An interpreter is covered with its exact arguments alone, which hardly come again.
        let is_whole = stores
            .iter()
            .all(|pattern| pattern.width == PatternWidth::Program);
        Self {
            count,
            programs: stores
                .into_iter()
                .filter(|_| is_whole)
                .map(|pattern| pattern.pattern)
                .collect(),
        }
    }
}

/// The programs, at most so many, whose entries together cover most questions, in the order in which they were chosen, each
/// with what it saves beside those before it.
pub(super) fn most_saving(questions: &[Question], most: usize) -> Vec<(String, u64)> {
    let mut chosen: Vec<(String, u64)> = Vec::new();
    let mut left: Vec<&Question> = questions
        .iter()
        .filter(|question| !question.programs.is_empty())
        .collect();
    while chosen.len() < most {
        let has = |program: &str| chosen.iter().any(|(known, _)| known == program);
        // By program: what it would save alone now, and in how many questions it stands at all.
        let mut gains: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for question in &left {
            let missing: Vec<&String> = question.programs.iter().filter(|program| !has(program)).collect();
            for program in &missing {
                let gain = gains.entry(program.as_str()).or_default();
                gain.1 += question.count;
                if missing.len() == 1 {
                    gain.0 += question.count;
                }
            }
        }
        let best = gains
            .into_iter()
            .max_by_key(|(name, gain)| (*gain, std::cmp::Reverse(*name)));
        let Some((program, (saves, _))) = best else {
            break;
        };
        chosen.push((program.to_owned(), saves));
        let has = |program: &String| chosen.iter().any(|(known, _)| known == program);
        left.retain(|question| !question.programs.iter().all(has));
    }
    // One that never completed a question saves nothing.
    while chosen.last().is_some_and(|(_, saves)| *saves == 0) {
        chosen.pop();
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(count: u64, programs: &[&str]) -> Question {
        Question {
            count,
            programs: programs.iter().map(|program| (*program).to_owned()).collect(),
        }
    }

    #[track_caller]
    fn check(questions: &[Question], most: usize, expected: &[(&str, u64)]) {
        let found = most_saving(questions, most);
        let found: Vec<(&str, u64)> = found
            .iter()
            .map(|(name, saves)| (name.as_str(), *saves))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_saves_most_comes_first_and_counts_beside_those_before_it() {
        let questions = [
            question(5, &["/usr/bin/rg"]),
            question(9, &["/usr/bin/git"]),
            question(4, &["/usr/bin/git", "/usr/bin/rg"]),
            question(100, &[]),
            question(1, &["/usr/bin/a", "/usr/bin/b"]),
        ];
        check(
            &questions,
            5,
            &[
                ("/usr/bin/git", 9),
                ("/usr/bin/rg", 9),
                ("/usr/bin/a", 0),
                ("/usr/bin/b", 1),
            ],
        );
        check(&questions, 1, &[("/usr/bin/git", 9)]);
        // Half of a pair saves nothing.
        check(&questions, 3, &[("/usr/bin/git", 9), ("/usr/bin/rg", 9)]);
        check(&[], 5, &[]);
        check(&questions, 0, &[]);
    }
}
