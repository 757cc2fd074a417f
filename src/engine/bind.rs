//! What a judgement is bound to: what is started, with every file that it needs as it is now.

use std::path::{Path, PathBuf};

use crate::{
    approvals::binding::{self, Candidate},
    command::{PathLookup as _, Plan, hashbang::Head, operands::code_words},
    domain::{Bound, BoundAction, BoundInterpreter, BoundScript, BoundStep, FileIdentity, StepJoin},
    engine::Engine,
    hosts::{eyes::Files, path_lookup::SystemLookup, workdir::Workdir},
    policy::allowlist::{Analysis, SegmentReport},
};

/// Operands of one command that are looked at as scripts.
const MAX_OPERANDS: usize = 1024;
/// Directories that a command may be in by then, as far as its `cd`s are followed.
const MAX_DIRECTORIES: usize = 8;

impl Engine {
    /// The scripts of a command with the digest of their content: an answer covers what the person could have read
    /// (`command-analysis.md` T2). They are the programs among `executables` that begin with `#!`, and the files that
    /// the command hands to shells and interpreters. Which operand is the script is known to the interpreter alone, so
    /// every one that is a file counts: a file that is called like the value of an option must not stand in for the
    /// script.
    pub(super) fn scripts_of(
        &self,
        analysis: Option<&Analysis>,
        bound: &Bound,
        executables: &[FileIdentity],
        cwd: &Path,
        lookup: &SystemLookup,
    ) -> Vec<BoundScript> {
        let open = |path: &Path| lookup.open_regular(path);
        let now = self.clock.now();
        let mut candidates: Vec<Candidate> = started(bound, executables)
            .filter_map(|(path, identity)| match self.heads.of(identity, now, open)? {
                Head::Program => None,
                Head::Script(line) => Some((path, line)),
                Head::Other => Some((path, None)),
            })
            .map(|(path, line)| Candidate {
                path: PathBuf::from(path),
                interpreter: line.and_then(|line| {
                    let identity = lookup.inspect(&line.interpreter)?.identity;
                    // A script as the interpreter of a script: the kernel knows how.
                    let is_program = self.heads.of(&identity, now, open) == Some(Head::Program);
                    is_program.then_some(BoundInterpreter {
                        path: line.interpreter,
                        argument: line.argument,
                        identity,
                    })
                }),
            })
            .collect();
        if let Some(analysis) = analysis {
            let mut directories = vec![cwd.to_owned()];
            let mut operands = Vec::new();
            collect_operands(&analysis.segments, &mut directories, &mut operands);
            candidates.extend(operands.into_iter().map(Candidate::operand));
        }
        if let Bound::Text { text, .. } = bound {
            let mut words = Vec::new();
            add(&mut words, &[cwd.to_owned()], code_words(text));
            candidates.extend(words.into_iter().map(Candidate::operand));
        }
        binding::bind_scripts(candidates, open)
    }
}

/// What of a plan a run is bound to: its steps, with the directories that lie before everything else.
pub(super) fn from_plan(plan: &Plan, workdir: &Workdir, files: &Files) -> Option<Bound> {
    let mut bound = plan.to_bound()?;
    if let Bound::Plan { steps } = &mut bound {
        pin_directories(steps, &workdir.path, files);
    }
    Some(bound)
}

/// Pins the directories of the `cd`s with which a plan begins. Those behind a program may be of its making.
fn pin_directories(steps: &mut [BoundStep], cwd: &Path, files: &Files) {
    let mut directory = cwd.to_owned();
    for step in steps {
        let BoundStep {
            join: None | Some(StepJoin::And),
            action: BoundAction::ChangeDirectory { operand, pinned },
        } = step
        else {
            return;
        };
        let joined = crate::command::paths::join_normalised(&directory.to_string_lossy(), operand);
        directory = PathBuf::from(joined);
        let Ok(found) = Workdir::at(&directory, files) else {
            return;
        };
        *pinned = Some((found.dev, found.ino));
    }
}

/// The files that a run starts itself, by the path at which it does, and the programs that those start.
fn started<'a>(
    bound: &'a Bound,
    executables: &'a [FileIdentity],
) -> impl Iterator<Item = (&'a str, &'a FileIdentity)> {
    let direct: Vec<(&str, &FileIdentity)> = match bound {
        Bound::Exec { path, identity, .. } => identity
            .iter()
            .map(|identity| (path.as_str(), identity))
            .collect(),
        Bound::Plan { steps } => steps
            .iter()
            .filter_map(|step| match &step.action {
                BoundAction::Program { path, identity, .. } => Some((path.as_str(), identity)),
                BoundAction::ChangeDirectory { .. }
                | BoundAction::PrintDirectory { .. }
                | BoundAction::Settle { .. } => None,
            })
            .collect(),
        Bound::Rendered { .. }
        | Bound::Text { .. }
        | Bound::Inside { .. }
        | Bound::OnNode { .. }
        | Bound::Patch { .. }
        | Bound::Elsewhere { .. } => Vec::new(),
    };
    let others: Vec<_> = executables
        .iter()
        .filter(|identity| !direct.iter().any(|(_path, known)| known == identity))
        .map(|identity| (identity.path.as_str(), identity))
        .collect();
    direct.into_iter().chain(others)
}

/// Adds words as files of every directory that a command may be in by then.
fn add(operands: &mut Vec<PathBuf>, directories: &[PathBuf], words: Vec<&str>) {
    let paths = words
        .into_iter()
        .flat_map(|word| directories.iter().map(move |from| from.join(word)));
    operands.extend(paths.take(MAX_OPERANDS.saturating_sub(operands.len())));
}

fn collect_operands(segments: &[SegmentReport], directories: &mut Vec<PathBuf>, operands: &mut Vec<PathBuf>) {
    for segment in segments {
        let words = segment.argv.iter().skip(1);
        if segment.executable == "cd" {
            let reached: Vec<PathBuf> = words
                .flat_map(|word| directories.iter().map(move |from| from.join(word)))
                .take(MAX_DIRECTORIES.saturating_sub(directories.len()))
                .collect();
            directories.extend(reached);
            continue;
        }
        let words = segment.code_operands.iter().map(String::as_str).collect();
        add(operands, directories, words);
        collect_operands(&segment.segments, directories, operands);
    }
}
