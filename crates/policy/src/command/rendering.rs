//! What is started instead of the text: the plan, and its canonical script (X1).

use countersign_domain::{Bound, BoundAction, BoundStep, FileIdentity, Redirection, StepJoin};

use super::{
    names, parser,
    syntax::{Join, List, ReadRedirection},
};

/// A rendering did not read back as its plan: a fault of this program. Such a plan is never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rendered script does not read back as its plan")]
pub struct UnfaithfulRendering;

/// An analysed command with literal words and resolved executables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its pipelines in the order of the text.
    pub items: Vec<PlanItem>,
}

/// A pipeline of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanItem {
    /// `None` for the first.
    pub join: Option<Join>,
    /// The parts of the pipeline in order; more than one are joined by `|`.
    pub steps: Vec<PlanStep>,
}

/// One process, or one builtin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// Names and values of variables that this step alone gets.
    pub assignments: Vec<(String, String)>,
    /// Whether `words` name a file or a builtin of the shell.
    pub kind: StepKind,
    /// The name the first program sees as `argv[0]`.
    pub name: String,
    /// All words: for a program the absolute path of each executable and its arguments, wrappers first.
    pub words: Vec<String>,
    /// The file that `words[0]` was when it was looked at.
    pub identity: Option<FileIdentity>,
    /// Where its standard input, output and error go, in this order.
    pub redirections: Vec<Redirection>,
}

/// What starts a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// The file at the absolute path `words[0]`.
    Program,
    /// A safe builtin (B1), or a name that resolved to nothing and that an entry `*` covers.
    Word,
}

impl Plan {
    /// What is started without any shell: the program itself when there is one alone, else all steps. `None` when the
    /// name of a step is left for a shell to look for.
    pub fn to_bound(&self) -> Option<Bound> {
        let mut steps = self
            .items
            .iter()
            .flat_map(|item| {
                item.steps
                    .iter()
                    .enumerate()
                    .map(move |(at, step)| (item.join, at, step))
            })
            .map(|(join, at, step)| {
                let join = if at > 0 {
                    Some(StepJoin::Pipe)
                } else {
                    join.map(Join::as_step)
                };
                Some(BoundStep {
                    join,
                    action: step.to_action()?,
                })
            })
            .collect::<Option<Vec<_>>>()?;
        let alone = |step: &mut BoundStep| match &mut step.action {
            BoundAction::Program {
                path,
                argv,
                assignments,
                identity,
                redirections,
            } if assignments.is_empty() && redirections.is_empty() => Some(Bound::Exec {
                path: std::mem::take(path),
                argv: std::mem::take(argv),
                identity: Some(identity.clone()),
            }),
            BoundAction::Program { .. }
            | BoundAction::ChangeDirectory { .. }
            | BoundAction::PrintDirectory { .. }
            | BoundAction::Settle { .. } => None,
        };
        let single = match steps.as_mut_slice() {
            [step] => alone(step),
            _ => None,
        };
        Some(single.unwrap_or(Bound::Plan { steps }))
    }

    /// The canonical script: every word in single quotes, executables as absolute paths.
    pub fn render(&self) -> String {
        let mut script = String::new();
        // It follows the operator behind its step, or the step.
        let mut document = String::new();
        for PlanItem { join, steps } in &self.items {
            match join {
                None => {}
                Some(Join::Sequence) => push_operator(&mut script, "; ", &mut document),
                Some(join) => push_operator(&mut script, &format!(" {} ", join.as_str()), &mut document),
            }
            for (index, step) in steps.iter().enumerate() {
                if index > 0 {
                    push_operator(&mut script, " | ", &mut document);
                }
                step.render(&mut script, &mut document);
            }
        }
        script.push_str(&document);
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

    /// Whether a step of it opens a file of the workspace.
    pub(crate) fn opens_files(&self) -> bool {
        let mut steps = self.items.iter().flat_map(|item| &item.steps);
        steps.any(|step| step.redirections.iter().any(|one| one.file().is_some()))
    }

    fn reads_as(&self, list: &List) -> bool {
        self.items.len() == list.items.len()
            && self.items.iter().zip(&list.items).all(|(planned, read)| {
                planned.join == read.join
                    && planned.steps.len() == read.pipeline.len()
                    && planned.steps.iter().zip(&read.pipeline).all(|(step, segment)| {
                        step.words.iter().eq(segment.words.iter().map(|word| &word.value))
                            && step.redirections.len() == segment.redirections.len()
                            && step
                                .redirections
                                .iter()
                                .zip(&segment.redirections)
                                .all(|(planned, read)| is_read_as(planned, read))
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
    fn to_action(&self) -> Option<BoundAction> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match self.kind {
            StepKind::Program => {
                let arguments = self.words.iter().skip(1).cloned();
                Some(BoundAction::Program {
                    path: self.words.first()?.clone(),
                    argv: std::iter::once(self.name.clone()).chain(arguments).collect(),
                    assignments: self.assignments.clone(),
                    identity: self.identity.clone()?,
                    redirections: self.redirections.clone(),
                })
            }
            StepKind::Word => match words.as_slice() {
                ["cd", "--", operand] if self.is_quiet() => Some(BoundAction::ChangeDirectory {
                    operand: (*operand).to_owned(),
                    pinned: None,
                    quiet: true,
                }),
                _ if !self.redirections.is_empty() => None,
                ["true" | ":"] => Some(BoundAction::Settle { succeeds: true }),
                ["false"] => Some(BoundAction::Settle { succeeds: false }),
                ["pwd", options @ ..] if names::is_safe_builtin(&words) => {
                    Some(BoundAction::PrintDirectory {
                        physical: options.last() == Some(&"-P"),
                    })
                }
                ["cd", "--", operand] => Some(BoundAction::ChangeDirectory {
                    operand: (*operand).to_owned(),
                    pinned: None,
                    quiet: false,
                }),
                _ => None,
            },
        }
    }

    /// Whether nothing is said where it fails, and nothing else of it goes elsewhere.
    fn is_quiet(&self) -> bool {
        matches!(self.redirections.as_slice(), [Redirection::ErrorsToNull])
    }

    fn render(&self, script: &mut String, document: &mut String) {
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
        for redirection in &self.redirections {
            script.push(' ');
            script.push_str(redirection.as_str());
            if let Some(file) = redirection.file() {
                push_quoted(script, &file.whole_path());
            }
            if let Redirection::InputFromText(text) = redirection {
                let delimiter = delimiter_of(text);
                push_quoted(script, &delimiter);
                document.push('\n');
                document.push_str(text);
                document.push_str(&delimiter);
            }
        }
    }
}

fn is_read_as(planned: &Redirection, read: &ReadRedirection) -> bool {
    match (planned.file(), read) {
        (Some(file), ReadRedirection::File { used_as, name }) => {
            file.used_as == *used_as && file.whole_path() == name.value
        }
        (_, ReadRedirection::Known(read)) => planned == read,
        (None, ReadRedirection::File { .. }) => false,
    }
}

/// Appends an operator, and what the step before it reads.
fn push_operator(script: &mut String, operator: &str, document: &mut String) {
    script.push_str(operator);
    if !document.is_empty() {
        script.push_str(document);
        script.push('\n');
        document.clear();
    }
}

/// A word that is no line of a text.
fn delimiter_of(text: &str) -> String {
    let mut delimiter = "EOF".to_owned();
    while text.lines().any(|line| line == delimiter) {
        delimiter.push('_');
    }
    delimiter
}

/// Appends a word in single quotes.
pub(crate) fn push_quoted(script: &mut String, word: &str) {
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
            identity: Some(FileIdentity {
                path: "/usr/bin/x".to_owned(),
                dev: 1,
                ino: 2,
                size: 3,
                mtime_ns: 4,
                ctime_ns: 5,
            }),
            redirections: Vec::new(),
        }
    }

    fn builtin(words: &[&str]) -> PlanStep {
        PlanStep {
            assignments: vec![],
            kind: StepKind::Word,
            name: words[0].to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            identity: None,
            redirections: Vec::new(),
        }
    }

    #[test]
    fn one_program_alone_needs_no_plan() {
        let alone = |assignments| Plan {
            items: vec![PlanItem {
                join: None,
                steps: vec![step(vec!["/usr/bin/x".to_owned(), "y".to_owned()], assignments)],
            }],
        };
        let Some(Bound::Exec { path, argv, identity }) = alone(vec![]).to_bound() else {
            panic!("not alone")
        };
        assert_eq!(
            (path.as_str(), argv, identity.is_some()),
            ("/usr/bin/x", vec!["x".to_owned(), "y".to_owned()], true)
        );
        assert!(matches!(
            alone(vec![("LC_ALL".to_owned(), "C".to_owned())]).to_bound(),
            Some(Bound::Plan { steps }) if steps.len() == 1
        ));
    }

    #[test]
    fn a_list_becomes_its_steps() {
        let item = |join, steps| PlanItem { join, steps };
        let program = || step(vec!["/usr/bin/x".to_owned()], vec![]);
        let plan = Plan {
            items: vec![
                item(None, vec![builtin(&["cd", "--", "./d"])]),
                item(Some(Join::And), vec![program(), builtin(&["pwd", "-P", "-L"])]),
                item(Some(Join::Or), vec![builtin(&["false"])]),
                item(Some(Join::Sequence), vec![builtin(&[":"])]),
            ],
        };
        let Some(Bound::Plan { steps }) = plan.to_bound() else {
            panic!("no plan")
        };
        let joins: Vec<_> = steps.iter().map(|step| step.join).collect();
        assert_eq!(
            joins,
            [
                None,
                Some(StepJoin::And),
                Some(StepJoin::Pipe),
                Some(StepJoin::Or),
                Some(StepJoin::Sequence)
            ]
        );
        assert_eq!(steps[2].action, BoundAction::PrintDirectory { physical: false });
        assert_eq!(steps[3].action, BoundAction::Settle { succeeds: false });
        // A name that only a shell would look for.
        let unknown = Plan {
            items: vec![
                item(None, vec![program()]),
                item(Some(Join::And), vec![builtin(&["nothing"])]),
            ],
        };
        assert_eq!(unknown.to_bound(), None);
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
    }

    fn any_step() -> impl Strategy<Value = PlanStep> {
        (
            prop::collection::vec("[^\0]{0,12}", 0..4),
            "/[a-z '$;]{1,8}",
            prop::collection::vec(("[A-Z_][A-Z0-9_]{0,4}", "[ -}]{0,6}"), 0..2),
            prop::option::of("((EOF|EOF_|[ -}\t]{0,4})\n){0,4}"),
        )
            .prop_map(|(mut words, program, assignments, text)| {
                words.insert(0, program);
                PlanStep {
                    redirections: text.map(Redirection::InputFromText).into_iter().collect(),
                    ..step(words, assignments)
                }
            })
    }

    /// Only the first of them reads something else than the pipe.
    fn any_pipeline() -> impl Strategy<Value = Vec<PlanStep>> {
        prop::collection::vec(any_step(), 1..3).prop_map(|mut steps| {
            for step in steps.iter_mut().skip(1) {
                step.redirections.clear();
            }
            steps
        })
    }

    proptest! {
        #[test]
        fn every_plan_reads_back_as_itself(
            first in any_pipeline(),
            rest in prop::collection::vec(
                (
                    prop_oneof![Just(Join::And), Just(Join::Or), Just(Join::Sequence)],
                    any_pipeline(),
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
