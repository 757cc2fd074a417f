//! What is started instead of the text: the plan, and its canonical script (X1).

use super::{
    parser,
    syntax::{Join, List},
};

/// A rendering did not read back as its plan: a fault of this program. Such a plan is never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rendered script does not read back as its plan")]
pub struct UnfaithfulRendering;

/// An analysed command with literal words and resolved executables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Never empty.
    pub items: Vec<PlanItem>,
}

/// A pipeline of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanItem {
    /// `None` for the first.
    pub join: Option<Join>,
    /// Never empty.
    pub steps: Vec<PlanStep>,
}

/// One process, or one builtin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// Assignments before it.
    pub assignments: Vec<(String, String)>,
    /// Whether `words` name a file or a builtin of the shell.
    pub kind: StepKind,
    /// The name the first program sees as `argv[0]`.
    pub name: String,
    /// All words: for a program the absolute path of each executable and its arguments, wrappers first.
    pub words: Vec<String>,
}

/// What starts a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// The file at the absolute path `words[0]`.
    Program,
    /// A safe builtin (B1), or a name that resolved to nothing and that an entry `*` covers.
    Word,
}

/// A program that can be started without any shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectStart {
    /// Absolute path of the executable.
    pub path: String,
    /// All arguments; `argv[0]` is the word as typed.
    pub argv: Vec<String>,
}

impl Plan {
    /// The start without a shell, when the plan is one program without assignments.
    pub fn direct(&self) -> Option<DirectStart> {
        let [PlanItem { join: None, steps }] = self.items.as_slice() else {
            return None;
        };
        let [step] = steps.as_slice() else { return None };
        if step.kind != StepKind::Program || !step.assignments.is_empty() {
            return None;
        }
        let path = step.words.first()?.clone();
        let arguments = step.words.iter().skip(1).cloned();
        Some(DirectStart {
            path,
            argv: std::iter::once(step.name.clone()).chain(arguments).collect(),
        })
    }

    /// The canonical script: every word in single quotes, executables as absolute paths.
    pub fn render(&self) -> String {
        let mut script = String::new();
        for PlanItem { join, steps } in &self.items {
            match join {
                None => {}
                Some(Join::Sequence) => script.push_str("; "),
                Some(join) => {
                    script.push(' ');
                    script.push_str(join.as_str());
                    script.push(' ');
                }
            }
            for (index, step) in steps.iter().enumerate() {
                if index > 0 {
                    script.push_str(" | ");
                }
                step.render(&mut script);
            }
        }
        script
    }

    /// The canonical script, after reading it back and finding the very same words in it.
    ///
    /// # Errors
    /// [`UnfaithfulRendering`] when anything else was read.
    pub fn checked_script(&self) -> Result<String, UnfaithfulRendering> {
        let script = self.render();
        match parser::parse_rendered(&script) {
            Ok(list) if self.reads_as(&list) => Ok(script),
            Ok(_) | Err(_) => Err(UnfaithfulRendering),
        }
    }

    fn reads_as(&self, list: &List) -> bool {
        self.items.len() == list.items.len()
            && self.items.iter().zip(&list.items).all(|(planned, read)| {
                planned.join == read.join
                    && planned.steps.len() == read.pipeline.len()
                    && planned.steps.iter().zip(&read.pipeline).all(|(step, segment)| {
                        step.words.iter().eq(segment.words.iter().map(|word| &word.value))
                            && step.assignments.len() == segment.assignments.len()
                            && step
                                .assignments
                                .iter()
                                .zip(&segment.assignments)
                                .all(|((name, value), read)| *name == read.name && *value == read.value)
                    })
            })
    }
}

impl PlanStep {
    fn render(&self, script: &mut String) {
        for (name, value) in &self.assignments {
            script.push_str(name);
            script.push('=');
            push_quoted(script, value);
            script.push(' ');
        }
        for (index, word) in self.words.iter().enumerate() {
            if index > 0 {
                script.push(' ');
            }
            push_quoted(script, word);
        }
    }
}

/// Appends a word in single quotes.
pub fn push_quoted(script: &mut String, word: &str) {
    script.push('\'');
    for part in word.split_inclusive('\'') {
        match part.strip_suffix('\'') {
            Some(before) => {
                script.push_str(before);
                script.push_str("'\\''");
            }
            None => script.push_str(part),
        }
    }
    script.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step(words: Vec<String>, assignments: Vec<(String, String)>) -> PlanStep {
        PlanStep {
            assignments,
            kind: StepKind::Program,
            name: "x".to_owned(),
            words,
        }
    }

    #[test]
    fn scripts_quote_everything() {
        let plan = Plan {
            items: vec![
                PlanItem {
                    join: None,
                    steps: vec![
                        step(vec!["/usr/bin/rg".to_owned(), "it's".to_owned()], vec![]),
                        step(
                            vec!["/usr/bin/wc".to_owned()],
                            vec![("LC_ALL".to_owned(), "C".to_owned())],
                        ),
                    ],
                },
                PlanItem {
                    join: Some(Join::Or),
                    steps: vec![step(vec!["/bin/echo".to_owned(), String::new()], vec![])],
                },
            ],
        };
        assert_eq!(
            plan.checked_script().unwrap(),
            r"'/usr/bin/rg' 'it'\''s' | LC_ALL='C' '/usr/bin/wc' || '/bin/echo' ''"
        );
        assert_eq!(plan.direct(), None);
    }

    fn any_step() -> impl Strategy<Value = PlanStep> {
        (
            prop::collection::vec("[^\0]{0,12}", 0..4),
            "/[a-z '$;]{1,8}",
            prop::collection::vec(("[A-Z_][A-Z0-9_]{0,4}", "[ -}]{0,6}"), 0..2),
        )
            .prop_map(|(mut words, program, assignments)| {
                words.insert(0, program);
                step(words, assignments)
            })
    }

    proptest! {
        #[test]
        fn every_plan_reads_back_as_itself(
            first in prop::collection::vec(any_step(), 1..3),
            rest in prop::collection::vec(
                (
                    prop_oneof![Just(Join::And), Just(Join::Or), Just(Join::Sequence)],
                    prop::collection::vec(any_step(), 1..3),
                ),
                0..3,
            ),
        ) {
            let mut items = vec![PlanItem { join: None, steps: first }];
            items.extend(rest.into_iter().map(|(join, steps)| PlanItem { join: Some(join), steps }));
            let plan = Plan { items };
            prop_assert!(plan.checked_script().is_ok(), "{}", plan.render());
        }
    }
}
