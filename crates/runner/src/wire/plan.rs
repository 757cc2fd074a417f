//! What is to be executed: a plan, as it travels in a start frame or in a memory file.

use std::ffi::CString;

use serde::{Deserialize, Serialize};

use countersign_domain::{Redirection, StepJoin};
use countersign_sys::{fs::FileStamp, process::JudgedFile};

use super::bytes;

use crate::enclose::Enclosed;

/// How deep steps may lie in steps.
const MAX_DEPTH: u8 = 12;

/// What is started, its environment and where it runs.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Path of the working directory. It is opened again inside the namespaces and must be the directory that came as
    /// a descriptor.
    pub directory: CString,
    /// Each ending with NUL.
    #[serde(with = "serde_bytes")]
    pub environment: Vec<u8>,
    /// Files that programs open by their paths, as they must be when the run begins.
    pub files: Vec<JudgedFile>,
    /// In order; a step that an earlier one rules out is passed over.
    pub steps: Vec<Step>,
    /// The sandbox that its one program runs in. Then all paths are meant inside of it, and the directory that came as a
    /// descriptor is the workspace.
    pub enclosed: Option<Enclosed>,
    /// Scripts whose content comes in a memory file, one behind the other: programs of the run read that.
    pub held: Vec<HeldScript>,
    /// The program that the text of the only step needs alone: it is tried before the shell of that step.
    pub direct: Option<DirectProgram>,
    /// Files that no program of a confined run can execute or read.
    pub masked: Vec<CString>,
}

/// A program that is started without the shell that would find it. The shell is started where it cannot be.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectProgram {
    /// Paths where it may be, in the order of the look-up, each ending with NUL.
    #[serde(with = "serde_bytes")]
    pub candidates: Vec<u8>,
    /// Each ending with NUL.
    #[serde(with = "serde_bytes")]
    pub arguments: Vec<u8>,
    /// Variables that the shell would set for it, each ending with NUL. That in which it would tell it its path, `_`, is
    /// set beside them.
    #[serde(with = "serde_bytes")]
    pub assignments: Vec<u8>,
}

/// A script of which programs of the run read what was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldScript {
    /// Absolute paths by which it is known.
    pub names: Vec<CString>,
    /// Where its content begins in the memory file.
    pub offset: u64,
    /// Bytes of its content.
    pub length: u64,
    /// Permission bits of the script on disk; its stand-in has them, and its owner may read it.
    pub mode: u32,
    /// Device and inode of the script on disk when it was checked.
    pub identity: (u64, u64),
}

/// One step of a plan.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// `None` for the first.
    pub join: Option<StepJoin>,
    /// What it does.
    pub action: Action,
}

/// What a step does.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "nearly every step starts a program")]
pub enum Action {
    /// Starts a program.
    Program(Program),
    /// `cd`. The device and inode of where it must lead, if that is known.
    ChangeDirectory {
        /// Path of the new directory; relative to the one where the run stands.
        #[serde(with = "serde_bytes")]
        operand: Vec<u8>,
        /// `None` takes what is there.
        pinned: Option<(u64, u64)>,
        /// Whether nothing is said where it fails.
        quiet: bool,
    },
    /// `pwd`.
    PrintDirectory {
        /// With links resolved (`-P`); otherwise the path by which the run came there.
        physical: bool,
    },
    /// `true`, `:` or `false`.
    Settle {
        /// Whether its exit code is 0; otherwise 1.
        succeeds: bool,
    },
    /// A patch of the working directory.
    ApplyPatch(PatchOrder),
    /// These steps as one, with the exit code of the last that ran.
    All {
        /// A list.
        steps: Vec<Step>,
        /// Whether what they change of the directory ends with them.
        apart: bool,
    },
    /// One pipeline, which is to fail.
    Not(Vec<Step>),
    /// One of two lists by the exit code of another.
    Choice {
        /// What chooses.
        condition: Vec<Step>,
        /// Where that is 0.
        then: Vec<Step>,
        /// Where it is another; it may be empty, and its exit code is 0 then.
        otherwise: Vec<Step>,
    },
    /// A list again and again.
    Turns {
        /// Looked at before each turn.
        condition: Condition,
        /// A turn.
        steps: Vec<Step>,
    },
    /// Gives a variable of the run a value. No program gets the variable.
    Set(Setting),
    /// Begins a list and does not wait for it. It reads nothing.
    Background(Vec<Step>),
    /// Waits for all lists that were begun so.
    Wait,
}

/// What decides about each turn of a loop.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// There is another line of standard input, which a variable gets.
    Line {
        /// The variable.
        variable: String,
        /// Whether it gets the line without blanks at both ends.
        trims: bool,
        /// Whether a backslash is a character like others.
        raw: bool,
    },
    /// The exit code of these is 0.
    While(Vec<Step>),
    /// It is another one.
    Until(Vec<Step>),
}

/// A variable of the run and its value.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The variable.
    pub variable: String,
    /// The value as it is written, ending with NUL.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
    /// What is put into it, in its order.
    pub fills: Vec<Fill>,
}

/// A patch, and how far it may reach.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchOrder {
    /// The whole patch.
    pub text: String,
    /// It stays beneath the working directory.
    pub workspace_only: bool,
    /// Absolute paths by which the author of the patch knows the working directory.
    pub called: Vec<Vec<u8>>,
    /// Files and directories that no patch changes, as real paths.
    pub off_limits: Vec<Vec<u8>>,
    /// What lies in there and is changed nevertheless.
    pub spared: Vec<Vec<u8>>,
}

/// A program that a step starts.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Path of the program. In a sandbox a name without a slash is looked for in the `PATH` there.
    pub path: CString,
    /// Which of the descriptors it is started from.
    pub executable: Option<u8>,
    /// What that must still be.
    pub stamp: Option<FileStamp>,
    /// The file that the step names, which its path must still lead to: the program, or the script that it reads.
    pub file: Option<JudgedFile>,
    /// Scripts among its arguments, which an earlier step may have changed.
    pub operands: Vec<JudgedFile>,
    /// Each ending with NUL.
    #[serde(with = "serde_bytes")]
    pub arguments: Vec<u8>,
    /// Variables of this program alone, each ending with NUL.
    #[serde(with = "serde_bytes")]
    pub assignments: Vec<u8>,
    /// Where its standard input, output and error go, in this order, after the pipes.
    pub redirections: Vec<Redirection>,
    /// What is put into its arguments when it begins, in their order.
    pub fills: Vec<Fill>,
    /// What the kernel keeps of it and of everything that it starts; `None` for nothing.
    pub kept: Option<Kept>,
}

/// A part of an argument that is replaced when its program begins.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// Which of the arguments, the name of the program included.
    pub argument: u32,
    /// The first byte of it that is replaced.
    pub from: u32,
    /// The first byte behind those.
    pub to: u32,
    /// By what.
    pub with: Filling,
}

/// What a part of an argument is replaced by.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filling {
    /// The exit code of the pipeline before.
    Status,
    /// The process ID of the steps that began last in the background.
    Background,
    /// What these steps write to standard output, without the newlines at its end.
    Output(Vec<Step>),
    /// What a variable of the run has.
    Variable(String),
}

/// The lists of steps whose output is put into something.
fn outputs(fills: &[Fill]) -> Vec<&[Step]> {
    fills
        .iter()
        .filter_map(|fill| match &fill.with {
            Filling::Status | Filling::Background | Filling::Variable(_) => None,
            Filling::Output(steps) => Some(steps.as_slice()),
        })
        .collect()
}

/// Whether each fill lies in one of the texts behind the one before, the first of which has the number `first`.
fn have_places(fills: &[Fill], texts: &[u8], first: usize) -> bool {
    let lengths: Vec<usize> = texts
        .split_inclusive(|byte| *byte == 0)
        .map(|text| text.len().saturating_sub(1))
        .collect();
    let number = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
    let mut before = (0, 0);
    fills.iter().all(|fill| {
        let (argument, from, to) = (number(fill.argument), number(fill.from), number(fill.to));
        let is_behind = argument > before.0 || (argument == before.0 && from >= before.1);
        before = (argument, to);
        argument >= first
            && is_behind
            && from <= to
            && lengths.get(argument).is_some_and(|length| to <= *length)
    })
}

impl Step {
    /// Each step, those whose output is put into a program before that program.
    pub fn all(steps: &[Self]) -> Vec<&Self> {
        let mut found = Vec::new();
        for step in steps {
            found.extend(step.inner().into_iter().flat_map(Self::all));
            found.push(step);
        }
        found
    }

    /// The lists of steps inside of it, in the order in which they are prepared.
    fn inner(&self) -> Vec<&[Self]> {
        match &self.action {
            Action::Program(program) => outputs(&program.fills),
            Action::Set(setting) => outputs(&setting.fills),
            Action::Turns { condition, steps } => {
                let condition = match condition {
                    Condition::Line { .. } => None,
                    Condition::While(steps) | Condition::Until(steps) => Some(steps.as_slice()),
                };
                condition.into_iter().chain([steps.as_slice()]).collect()
            }
            Action::All { steps, apart: _ } | Action::Not(steps) | Action::Background(steps) => vec![steps],
            Action::Choice {
                condition,
                then,
                otherwise,
            } => {
                let other = Some(otherwise.as_slice()).filter(|steps| !steps.is_empty());
                [condition.as_slice(), then].into_iter().chain(other).collect()
            }
            Action::ChangeDirectory { .. }
            | Action::PrintDirectory { .. }
            | Action::Settle { .. }
            | Action::ApplyPatch(_)
            | Action::Wait => Vec::new(),
        }
    }

    /// Whether only the first of these follows nothing, every program has its name, and what is put into arguments has its place
    /// there. `left` is how many more levels of steps may lie inside.
    fn are_sound(steps: &[Self], left: u8) -> bool {
        let mut numbered = steps.iter().enumerate();
        !steps.is_empty()
            && numbered.all(|(at, step)| {
                (at == 0) == step.join.is_none()
                    && match &step.action {
                        Action::Program(program) => {
                            !program.arguments.is_empty() && program.has_places_for_fills()
                        }
                        Action::Set(setting) => {
                            setting.value.ends_with(b"\0") && have_places(&setting.fills, &setting.value, 0)
                        }
                        Action::ChangeDirectory { .. }
                        | Action::PrintDirectory { .. }
                        | Action::Settle { .. }
                        | Action::ApplyPatch(_)
                        | Action::All { .. }
                        | Action::Choice { .. }
                        | Action::Turns { .. }
                        | Action::Background(_)
                        | Action::Wait => true,
                        Action::Not(steps) => {
                            let mut others = steps.iter().skip(1);
                            others.all(|step| step.join == Some(StepJoin::Pipe))
                        }
                    }
                    && step
                        .inner()
                        .into_iter()
                        .all(|inner| left > 0 && Self::are_sound(inner, left - 1))
            })
    }
}

/// What the kernel keeps of a program, and of everything that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Which of the rulesets.
    pub ruleset: u8,
    /// Whether that says which files are executed.
    pub starts: bool,
    /// Whether it says to which ports connections are made.
    pub connects: bool,
}

impl Program {
    /// One that nobody judged, with nothing that is kept of it: a client of our own, or the command of a sandbox.
    pub const fn plain(path: CString, arguments: Vec<u8>) -> Self {
        Self {
            path,
            executable: None,
            stamp: None,
            file: None,
            operands: Vec::new(),
            arguments,
            assignments: Vec::new(),
            redirections: Vec::new(),
            fills: Vec::new(),
            kept: None,
        }
    }

    /// Whether a redirection of it opens a file of the workspace.
    pub(crate) fn opens_files(&self) -> bool {
        self.redirections
            .iter()
            .any(|redirection| redirection.file().is_some())
    }

    /// Whether each fill lies in an argument behind the one before, and none in its name.
    fn has_places_for_fills(&self) -> bool {
        have_places(&self.fills, &self.arguments, 1)
    }

    /// Everything that must be what was judged when it is started.
    pub fn files(&self) -> impl Iterator<Item = &JudgedFile> {
        self.file.iter().chain(&self.operands)
    }
}

impl Plan {
    /// The bytes that travel in a start frame or in a memory file.
    pub fn encode(&self) -> Vec<u8> {
        bytes::append(Vec::with_capacity(512 + self.environment.len()), self)
    }

    /// Reads those bytes; `None` where they are not one whole plan.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        bytes::read(bytes).filter(Self::is_sound)
    }

    /// The programs of its steps.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Program> {
        Step::all(&self.steps)
            .into_iter()
            .filter_map(|step| match &step.action {
                Action::Program(program) => Some(program),
                Action::ChangeDirectory { .. }
                | Action::PrintDirectory { .. }
                | Action::Settle { .. }
                | Action::ApplyPatch(_)
                | Action::All { .. }
                | Action::Not(_)
                | Action::Choice { .. }
                | Action::Turns { .. }
                | Action::Set(_)
                | Action::Background(_)
                | Action::Wait => None,
            })
    }

    /// Whether there is something to do, only the first step follows nothing, every program has its name, what is tried first
    /// is tried before a single program that reads nothing that is held, and what happens in a sandbox is kept there by the
    /// sandbox.
    fn is_sound(&self) -> bool {
        let is_fit = |direct: &DirectProgram| {
            (direct.candidates.is_empty() || !direct.arguments.is_empty())
                && self.held.is_empty()
                && self.enclosed.is_none()
                && matches!(
                    self.steps.as_slice(),
                    [Step {
                        action: Action::Program(_),
                        ..
                    }]
                )
        };
        Step::are_sound(&self.steps, MAX_DEPTH)
            && self.direct.as_ref().is_none_or(is_fit)
            && (self.enclosed.is_none()
                || self.programs().all(|program| {
                    program.kept.is_none() && program.fills.is_empty() && !program.opens_files()
                }))
    }
}
