//! What is started instead of the text: the plan, and its canonical script (X1).

use std::ops::Range;

use countersign_domain::{
    Bound, BoundAction, BoundCondition, BoundFill, BoundFilling, BoundStep, FileIdentity, Redirection,
    StepJoin,
};

use super::{
    names, parser,
    syntax::{Condition, Does, Join, List, Part, ReadRedirection, Segment, SubstitutedBy, Word},
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
    /// Whether it succeeds if the pipeline fails (G21).
    pub is_negated: bool,
    /// The parts of the pipeline in order; more than one are joined by `|`.
    pub parts: Vec<PlanPart>,
}

/// A part of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanPart {
    /// One process, or one builtin.
    Step(PlanStep),
    /// All of a plan, as one command with its exit code (G21).
    All(Plan),
    /// The same, and what it changes of the directory ends with it.
    Apart(Plan),
    /// One of two plans, by the exit code of another.
    Choice {
        /// What chooses.
        condition: Plan,
        /// Where that succeeds.
        then: Plan,
        /// Where it fails.
        otherwise: Option<Plan>,
    },
    /// A plan again and again (G22).
    Turns {
        /// Looked at before each turn.
        condition: PlanCondition,
        /// A turn.
        body: Plan,
    },
    /// Gives a variable a value that is known only then (G23).
    Set {
        /// The variable.
        variable: String,
        /// Its value as it is written.
        value: String,
        /// What is put into that.
        fills: Vec<PlanFill>,
    },
    /// What runs beside the rest (G24).
    Background(Plan),
    /// Waits for that (G24).
    Wait,
}

/// What decides about each turn of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanCondition {
    /// There is another line, which a variable gets.
    Line {
        /// The variable.
        variable: String,
        /// Without blanks at both ends.
        trims: bool,
        /// A backslash is a character like others.
        raw: bool,
    },
    /// A plan succeeds.
    While(Plan),
    /// A plan fails.
    Until(Plan),
}

impl PlanCondition {
    const fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Line { .. } => None,
            Self::While(plan) | Self::Until(plan) => Some(plan),
        }
    }
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
    /// What is put into its words when it begins, in the order of the words (G19).
    pub fills: Vec<PlanFill>,
}

/// A part of a word that is replaced when the step begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFill {
    /// Which of the words.
    pub argument: usize,
    /// The bytes of it that are replaced.
    pub place: Range<usize>,
    /// By what.
    pub with: PlanFilling,
}

/// What a part of a word is replaced by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanFilling {
    /// The exit code of the pipeline before.
    Status,
    /// The process ID of the plan that began last in the background.
    Background,
    /// What a plan prints, without the newlines at its end.
    Output(Plan),
    /// What a variable has to which the command gives a value when it runs.
    Variable(String),
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
        let mut steps = self.to_steps()?;
        let alone = |step: &mut BoundStep| match &mut step.action {
            BoundAction::Program {
                path,
                argv,
                assignments,
                identity,
                redirections,
                fills,
            } if assignments.is_empty() && redirections.is_empty() && fills.is_empty() => Some(Bound::Exec {
                path: std::mem::take(path),
                argv: std::mem::take(argv),
                identity: Some(identity.clone()),
            }),
            BoundAction::Program { .. }
            | BoundAction::ChangeDirectory { .. }
            | BoundAction::PrintDirectory { .. }
            | BoundAction::Settle { .. }
            | BoundAction::All { .. }
            | BoundAction::Not { .. }
            | BoundAction::Choice { .. }
            | BoundAction::Turns { .. }
            | BoundAction::Set { .. }
            | BoundAction::Background { .. }
            | BoundAction::Wait => None,
        };
        let single = match steps.as_mut_slice() {
            [step] => alone(step),
            _ => None,
        };
        Some(single.unwrap_or(Bound::Plan { steps }))
    }

    fn to_steps(&self) -> Option<Vec<BoundStep>> {
        let mut steps = Vec::new();
        for PlanItem {
            join,
            is_negated,
            parts,
        } in &self.items
        {
            let join = join.map(Join::as_step);
            let first = if *is_negated { None } else { join };
            let mut pipeline = Vec::with_capacity(parts.len());
            for (at, part) in parts.iter().enumerate() {
                pipeline.push(BoundStep {
                    join: if at > 0 { Some(StepJoin::Pipe) } else { first },
                    action: part.to_action()?,
                });
            }
            if *is_negated {
                let action = BoundAction::Not { steps: pipeline };
                steps.push(BoundStep { join, action });
            } else {
                steps.append(&mut pipeline);
            }
        }
        Some(steps)
    }

    /// Each step, those of plans inside of others among them.
    fn all_steps(&self) -> Vec<&PlanStep> {
        let mut found = Vec::new();
        for part in self.items.iter().flat_map(|item| &item.parts) {
            match part {
                PlanPart::Step(step) => {
                    found.extend(outputs(&step.fills).flat_map(Self::all_steps));
                    found.push(step);
                }
                PlanPart::Set { fills, .. } => found.extend(outputs(fills).flat_map(Self::all_steps)),
                PlanPart::All(plan) | PlanPart::Apart(plan) | PlanPart::Background(plan) => {
                    found.extend(plan.all_steps());
                }
                PlanPart::Turns { condition, body } => {
                    let plans = condition.plan().into_iter().chain([body]);
                    found.extend(plans.flat_map(Self::all_steps));
                }
                PlanPart::Wait => {}
                PlanPart::Choice {
                    condition,
                    then,
                    otherwise,
                } => {
                    let plans = [condition, then].into_iter().chain(otherwise);
                    found.extend(plans.flat_map(Self::all_steps));
                }
            }
        }
        found
    }

    /// The canonical script: every word in single quotes, executables as absolute paths.
    pub fn render(&self) -> String {
        let mut script = String::new();
        // It follows the operator behind its step, or the step.
        let mut document = String::new();
        for PlanItem {
            join,
            is_negated,
            parts,
        } in &self.items
        {
            match join {
                None => {}
                Some(Join::Sequence) => push_operator(&mut script, "; ", &mut document),
                Some(join) => push_operator(&mut script, &format!(" {} ", join.as_str()), &mut document),
            }
            if *is_negated {
                script.push_str("! ");
            }
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    push_operator(&mut script, " | ", &mut document);
                }
                part.render(&mut script, &mut document);
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
        let steps = self.all_steps();
        let mut redirections = steps.into_iter().flat_map(|step| &step.redirections);
        redirections.any(|one| one.file().is_some())
    }

    fn reads_as(&self, list: &List) -> bool {
        self.items.len() == list.items.len()
            && self.items.iter().zip(&list.items).all(|(planned, read)| {
                planned.join == read.join
                    && planned.is_negated == read.is_negated
                    && planned.parts.len() == read.pipeline.len()
                    && planned
                        .parts
                        .iter()
                        .zip(&read.pipeline)
                        .all(|(part, read)| part.reads_as(read))
            })
    }
}

impl PlanPart {
    fn to_action(&self) -> Option<BoundAction> {
        match self {
            Self::Step(step) => step.to_action(),
            Self::All(plan) => Some(BoundAction::All {
                steps: plan.to_steps()?,
                apart: false,
            }),
            Self::Apart(plan) => Some(BoundAction::All {
                steps: plan.to_steps()?,
                apart: true,
            }),
            Self::Choice {
                condition,
                then,
                otherwise,
            } => Some(BoundAction::Choice {
                condition: condition.to_steps()?,
                then: then.to_steps()?,
                otherwise: match otherwise {
                    Some(plan) => plan.to_steps()?,
                    None => Vec::new(),
                },
            }),
            Self::Turns { condition, body } => Some(BoundAction::Turns {
                condition: match condition {
                    PlanCondition::Line { variable, trims, raw } => BoundCondition::Line {
                        variable: variable.clone(),
                        trims: *trims,
                        raw: *raw,
                    },
                    PlanCondition::While(plan) => BoundCondition::While {
                        steps: plan.to_steps()?,
                    },
                    PlanCondition::Until(plan) => BoundCondition::Until {
                        steps: plan.to_steps()?,
                    },
                },
                steps: body.to_steps()?,
            }),
            Self::Set {
                variable,
                value,
                fills,
            } => Some(BoundAction::Set {
                variable: variable.clone(),
                value: value.clone(),
                fills: fills.iter().map(PlanFill::to_bound).collect::<Option<_>>()?,
            }),
            Self::Background(plan) => Some(BoundAction::Background {
                steps: plan.to_steps()?,
            }),
            Self::Wait => Some(BoundAction::Wait),
        }
    }

    /// Nothing inside of another plan has a text that follows elsewhere.
    fn render(&self, script: &mut String, document: &mut String) {
        match self {
            Self::Step(step) => step.render(script, document),
            Self::All(plan) => push_all(script, &["{ ", &plan.render(), "; }"]),
            Self::Apart(plan) => push_all(script, &["( ", &plan.render(), " )"]),
            Self::Choice {
                condition,
                then,
                otherwise,
            } => {
                push_all(script, &["if ", &condition.render(), "; then ", &then.render()]);
                if let Some(otherwise) = otherwise {
                    push_all(script, &["; else ", &otherwise.render()]);
                }
                script.push_str("; fi");
            }
            Self::Turns { condition, body } => {
                match condition {
                    PlanCondition::Line { variable, trims, raw } => {
                        let fields = if *trims { "" } else { "IFS='' " };
                        let option = if *raw { "-r " } else { "" };
                        push_all(script, &["while ", fields, "read ", option, variable]);
                    }
                    PlanCondition::While(plan) => push_all(script, &["while ", &plan.render()]),
                    PlanCondition::Until(plan) => push_all(script, &["until ", &plan.render()]),
                }
                push_all(script, &["; do ", &body.render(), "; done"]);
            }
            Self::Set {
                variable,
                value,
                fills,
            } => {
                push_all(script, &[variable, "="]);
                push_filled(script, value, &fills.iter().collect::<Vec<_>>());
            }
            // In braces, since no other operator may follow `&`.
            Self::Background(plan) => push_all(script, &["{ ", &plan.render(), " & }"]),
            Self::Wait => script.push_str("wait"),
        }
    }

    fn reads_as(&self, part: &Part) -> bool {
        match (self, part) {
            (Self::Step(step), Part::Segment(segment)) => segment.sets.is_none() && step.reads_as(segment),
            (
                Self::Set {
                    variable,
                    value,
                    fills,
                },
                Part::Segment(segment),
            ) => {
                let fills: Vec<_> = fills.iter().collect();
                segment
                    .sets
                    .as_ref()
                    .is_some_and(|read| read.name == *variable && word_is_read_as(value, &fills, &read.value))
            }
            (Self::Turns { condition, body }, Part::Compound(compound)) => {
                matches!(
                    &compound.does,
                    Does::Turns { condition: read, body: list }
                        if condition.reads_as(read) && body.reads_as(list)
                )
            }
            (Self::Background(plan), Part::Compound(compound)) => {
                let Does::All(List { items, .. }) = &compound.does else {
                    return false;
                };
                let [item] = items.as_slice() else { return false };
                let [Part::Compound(inside)] = item.pipeline.as_slice() else {
                    return false;
                };
                !item.is_negated && matches!(&inside.does, Does::Background(list) if plan.reads_as(list))
            }
            (Self::Wait, Part::Compound(compound)) => matches!(compound.does, Does::Wait),
            (Self::All(plan), Part::Compound(compound)) => {
                matches!(&compound.does, Does::All(list) if plan.reads_as(list))
            }
            (Self::Apart(plan), Part::Compound(compound)) => {
                matches!(&compound.does, Does::Apart(list) if plan.reads_as(list))
            }
            (
                Self::Choice {
                    condition,
                    then,
                    otherwise,
                },
                Part::Compound(compound),
            ) => {
                let plans = [condition, then].into_iter().chain(otherwise);
                let mut lists = compound.does.lists();
                matches!(compound.does, Does::Choice { .. })
                    && plans
                        .into_iter()
                        .all(|plan| lists.next().is_some_and(|list| plan.reads_as(list)))
                    && lists.next().is_none()
            }
            (Self::Step(_) | Self::Set { .. }, Part::Compound(_))
            | (
                Self::All(_)
                | Self::Apart(_)
                | Self::Choice { .. }
                | Self::Turns { .. }
                | Self::Background(_)
                | Self::Wait,
                Part::Segment(_),
            ) => false,
        }
    }
}

impl PlanCondition {
    fn reads_as(&self, read: &Condition) -> bool {
        match (self, read) {
            (
                Self::Line { variable, trims, raw },
                Condition::Line {
                    name,
                    trims: read_trims,
                    raw: read_raw,
                },
            ) => variable == name && trims == read_trims && raw == read_raw,
            (Self::While(plan), Condition::While(list)) | (Self::Until(plan), Condition::Until(list)) => {
                plan.reads_as(list)
            }
            (Self::Line { .. } | Self::While(_) | Self::Until(_), _) => false,
        }
    }
}

/// The plans whose output is put into something.
fn outputs(fills: &[PlanFill]) -> impl Iterator<Item = &Plan> {
    fills.iter().filter_map(|fill| match &fill.with {
        PlanFilling::Status | PlanFilling::Background | PlanFilling::Variable(_) => None,
        PlanFilling::Output(plan) => Some(plan),
    })
}

fn push_all(script: &mut String, texts: &[&str]) {
    for text in texts {
        script.push_str(text);
    }
}

impl PlanStep {
    fn reads_as(&self, segment: &Segment) -> bool {
        let is_same = |((at, word), read): ((usize, &String), &Word)| {
            let fills: Vec<_> = self.fills.iter().filter(|fill| fill.argument == at).collect();
            word_is_read_as(word, &fills, read)
        };
        self.words.len() == segment.words.len()
            && self.words.iter().enumerate().zip(&segment.words).all(is_same)
            && self.redirections.len() == segment.redirections.len()
            && self
                .redirections
                .iter()
                .zip(&segment.redirections)
                .all(|(planned, read)| is_read_as(planned, read))
            && self.assignments.len() == segment.assignments.len()
            && self
                .assignments
                .iter()
                .zip(&segment.assignments)
                .all(|((name, value), read)| *name == read.name && *value == read.value)
    }

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
                    fills: self.fills.iter().map(PlanFill::to_bound).collect::<Option<_>>()?,
                })
            }
            // Nothing is put into the words of a builtin.
            StepKind::Word if !self.fills.is_empty() => None,
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
            let fills: Vec<_> = self.fills.iter().filter(|fill| fill.argument == index).collect();
            push_filled(script, word, &fills);
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

impl PlanFill {
    fn to_bound(&self) -> Option<BoundFill> {
        let with = match &self.with {
            PlanFilling::Status => BoundFilling::Status,
            PlanFilling::Background => BoundFilling::Background,
            PlanFilling::Output(plan) => BoundFilling::Output {
                steps: plan.to_steps()?,
            },
            PlanFilling::Variable(name) => BoundFilling::Variable { name: name.clone() },
        };
        Some(BoundFill {
            argument: self.argument,
            from: self.place.start,
            to: self.place.end,
            with,
        })
    }
}

/// Appends a word with what is put into it: each literal part in single quotes, the rest in double ones.
fn push_filled(script: &mut String, word: &str, fills: &[&PlanFill]) {
    let mut begins = 0;
    for fill in fills {
        let literal = word.get(begins..fill.place.start).unwrap_or_default();
        if !literal.is_empty() {
            push_quoted(script, literal);
        }
        match &fill.with {
            PlanFilling::Status => script.push_str("\"$?\""),
            PlanFilling::Background => script.push_str("\"$!\""),
            PlanFilling::Output(plan) => {
                let inside = plan.render();
                // Two parentheses would be arithmetic.
                let blank = if inside.starts_with('(') { " " } else { "" };
                push_all(script, &["\"$(", blank, &inside, ")\""]);
            }
            PlanFilling::Variable(name) => push_all(script, &["\"${", name, "}\""]),
        }
        begins = fill.place.end;
    }
    let literal = word.get(begins..).unwrap_or_default();
    if fills.is_empty() || !literal.is_empty() {
        push_quoted(script, literal);
    }
}

/// Whether a word was read with the same literal parts, and the same things between them.
fn word_is_read_as(word: &str, fills: &[&PlanFill], read: &Word) -> bool {
    if fills.len() != read.substitutions.len() {
        return false;
    }
    let (mut planned, mut found) = (0, 0);
    for (fill, substitution) in fills.iter().zip(&read.substitutions) {
        let is_same = match (&fill.with, &substitution.by) {
            (PlanFilling::Status, SubstitutedBy::Status)
            | (PlanFilling::Background, SubstitutedBy::Background) => true,
            (PlanFilling::Output(plan), SubstitutedBy::Output(list)) => plan.reads_as(list),
            (PlanFilling::Variable(name), SubstitutedBy::Variable(read)) => name == read,
            (
                PlanFilling::Status
                | PlanFilling::Background
                | PlanFilling::Output(_)
                | PlanFilling::Variable(_),
                _,
            ) => false,
        };
        let literal = word.get(planned..fill.place.start);
        if !is_same || literal.is_none() || literal != read.value.get(found..substitution.place.start) {
            return false;
        }
        (planned, found) = (fill.place.end, substitution.place.end);
    }
    word.get(planned..).is_some() && word.get(planned..) == read.value.get(found..)
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
            fills: Vec::new(),
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
            fills: Vec::new(),
        }
    }

    fn item(join: Option<Join>, steps: Vec<PlanStep>) -> PlanItem {
        PlanItem {
            join,
            is_negated: false,
            parts: steps.into_iter().map(PlanPart::Step).collect(),
        }
    }

    #[test]
    fn one_program_alone_needs_no_plan() {
        let alone = |assignments| Plan {
            items: vec![item(
                None,
                vec![step(vec!["/usr/bin/x".to_owned(), "y".to_owned()], assignments)],
            )],
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
                item(
                    None,
                    vec![
                        step(vec!["/usr/bin/rg".to_owned(), "it's".to_owned()], vec![]),
                        step(
                            vec!["/usr/bin/wc".to_owned()],
                            vec![("LC_ALL".to_owned(), "C".to_owned())],
                        ),
                    ],
                ),
                item(
                    Some(Join::Or),
                    vec![step(vec!["/bin/echo".to_owned(), String::new()], vec![])],
                ),
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

    fn any_items(
        first: impl Strategy<Value = PlanItem>,
        rest: impl Strategy<Value = PlanItem>,
    ) -> impl Strategy<Value = Plan> {
        let joins = prop_oneof![Just(Join::And), Just(Join::Or), Just(Join::Sequence)];
        (first, prop::collection::vec((joins, rest), 0..3)).prop_map(|(first, rest)| {
            let rest = rest.into_iter().map(|(join, item)| PlanItem {
                join: Some(join),
                ..item
            });
            Plan {
                items: std::iter::once(first).chain(rest).collect(),
            }
        })
    }

    fn any_flat() -> impl Strategy<Value = Plan> {
        let any_item = || any_pipeline().prop_map(|steps| item(None, steps));
        any_items(any_item(), any_item())
    }

    /// A step with an exit code and the output of a plan in its words, which reads nothing else.
    fn any_filled(inside: impl Strategy<Value = Plan>) -> impl Strategy<Value = PlanStep> {
        (
            "/[a-z]{1,4}",
            "[ -}]{0,6}",
            "[ -}]{0,6}",
            prop::option::of(inside),
        )
            .prop_map(|(program, before, behind, inside)| {
                let written = if inside.is_some() { "$(…)" } else { "$?" };
                let place = before.len()..before.len() + written.len();
                let with = inside.map_or(PlanFilling::Status, PlanFilling::Output);
                PlanStep {
                    fills: vec![PlanFill {
                        argument: 1,
                        place,
                        with,
                    }],
                    ..step(vec![program, format!("{before}{written}{behind}")], vec![])
                }
            })
    }

    /// Plans inside of plans, in which nothing reads a text.
    fn any_plan() -> impl Strategy<Value = Plan> {
        let plain = |steps: Vec<PlanStep>| {
            let steps = steps.into_iter().map(|step| PlanStep {
                redirections: Vec::new(),
                ..step
            });
            item(None, steps.collect())
        };
        let any_item = move || any_pipeline().prop_map(plain);
        any_items(any_item(), any_item()).prop_recursive(3, 12, 3, move |inside| {
            let part = prop_oneof![
                any_filled(inside.clone()).prop_map(PlanPart::Step),
                inside.clone().prop_map(PlanPart::All),
                inside.clone().prop_map(PlanPart::Apart),
                // What `&` follows has no `;` of its own.
                inside.clone().prop_map(|inside| {
                    let part = PlanPart::All(inside);
                    PlanPart::Background(Plan {
                        items: vec![PlanItem {
                            join: None,
                            is_negated: false,
                            parts: vec![part],
                        }],
                    })
                }),
                (any::<bool>(), inside.clone(), inside.clone()).prop_map(|(until, condition, body)| {
                    let condition = if until {
                        PlanCondition::Until(condition)
                    } else {
                        PlanCondition::While(condition)
                    };
                    PlanPart::Turns { condition, body }
                }),
                (any::<bool>(), any::<bool>(), inside.clone()).prop_map(|(trims, raw, body)| {
                    let variable = "line".to_owned();
                    let condition = PlanCondition::Line { variable, trims, raw };
                    PlanPart::Turns { condition, body }
                }),
                (inside.clone(), inside.clone(), prop::option::of(inside)).prop_map(
                    |(condition, then, otherwise)| PlanPart::Choice {
                        condition,
                        then,
                        otherwise
                    }
                ),
            ];
            let nested =
                (any::<bool>(), part, prop::option::of(any_step())).prop_map(|(is_negated, part, next)| {
                    let next = next.map(|step| {
                        PlanPart::Step(PlanStep {
                            redirections: Vec::new(),
                            ..step
                        })
                    });
                    PlanItem {
                        join: None,
                        is_negated,
                        parts: std::iter::once(part).chain(next).collect(),
                    }
                });
            any_items(nested, any_item())
        })
    }

    #[test]
    fn plans_inside_of_plans_are_steps_inside_of_steps() {
        let inside = || Plan {
            items: vec![
                item(None, vec![builtin(&["true"])]),
                item(Some(Join::Or), vec![builtin(&["pwd"])]),
            ],
        };
        let part = |part| PlanItem {
            join: None,
            is_negated: true,
            parts: vec![part],
        };
        let plan = Plan {
            items: vec![part(PlanPart::Choice {
                condition: inside(),
                then: Plan {
                    items: vec![part(PlanPart::Apart(inside()))],
                },
                otherwise: None,
            })],
        };
        assert_eq!(
            plan.checked_script().unwrap(),
            "! if 'true' || 'pwd'; then ! ( 'true' || 'pwd' ); fi"
        );
        let Some(Bound::Plan { steps }) = plan.to_bound() else {
            panic!("no plan")
        };
        assert_eq!(steps.len(), 1);
        assert_eq!(BoundStep::all(&steps).len(), 8);
    }

    proptest! {
        #[test]
        fn every_plan_reads_back_as_itself(plan in any_flat()) {
            prop_assert!(plan.checked_script().is_ok(), "{}", plan.render());
        }

        #[test]
        fn every_plan_with_plans_inside_reads_back_as_itself(plan in any_plan()) {
            prop_assert!(plan.checked_script().is_ok(), "{}", plan.render());
        }
    }
}
