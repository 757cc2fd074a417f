//! What a judgement is bound to: what is started, with every file that it needs as it is now.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use countersign_config::approvals::binding::{self, BoundScripts, Candidate};
use countersign_domain::{Bound, BoundAction, BoundInterpreter, BoundStep, FileIdentity, Security, StepJoin};
use countersign_hosts::{path_lookup::SystemLookup, peer_fs::Files, workdir::Workdir};
use countersign_policy::{
    allowlist::{Analysis, SegmentReport},
    combine::Effective,
    command::{
        PathLookup as _, Plan,
        hashbang::Head,
        operands::{code_words, directory_words, readings},
        paths,
    },
    gate::Verdict,
};

use super::{Evaluator, call::Call};
use crate::delivery_terms::Answers;

/// Files that one command names which are bound as its scripts.
const MAX_OPERANDS: usize = 1024;
/// Paths that are looked at for that: each word in each directory that the command may be in.
const MAX_LOOKS: usize = 16 * MAX_OPERANDS;
/// Directories that a command may be in by then, as far as its `cd`s are followed.
const MAX_DIRECTORIES: usize = 8;

/// Which of the scripts of a command a run is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every one that it may read: a person answers for them, or a rule lets this very command run.
    Every,
    /// Those whose content was looked at before. Nothing else that a script holds was shown to anybody or decided
    /// anything, so a run that found another content would be no other run.
    LookedAt,
}

impl Scope {
    /// The scope of a call with this verdict: under `full`, where nobody is asked, only what was looked at.
    pub(crate) fn of(call: &Call, effective: &Effective, verdict: Verdict) -> Self {
        // A plan names its script under every policy, and a person may have answered for it where the call comes from.
        let is_answered_elsewhere = call.pins_scripts || call.answers == Answers::Promised;
        Self::by(effective.security.value, verdict, is_answered_elsewhere)
    }

    const fn by(security: Security, verdict: Verdict, is_answered_elsewhere: bool) -> Self {
        match (security, verdict) {
            (Security::Full, Verdict::Run) if !is_answered_elsewhere => Self::LookedAt,
            (Security::Full | Security::Allowlist | Security::Deny, _) => Self::Every,
        }
    }
}

impl Evaluator {
    /// Whether what is started is a file that is no program of the machine, such as one that begins with `#!`.
    pub(crate) fn starts_script(&self, bound: &Bound, lookup: &SystemLookup) -> bool {
        let Bound::Exec {
            identity: Some(identity),
            ..
        } = bound
        else {
            return false;
        };
        let open = |path: &Path| lookup.open_regular(path);
        match self.shebangs.of(identity, self.analyst.now(), open) {
            Some(Head::Script(_) | Head::Other) => true,
            Some(Head::Program) | None => false,
        }
    }

    /// The scripts of a command with the digest of their content: an answer covers what the person could have read
    /// (`docs/spec/command-analysis.md#t2`). They are the programs among `executables` that begin with `#!`, and the
    /// files that the command hands to shells and interpreters. Which operand is the script is known to the interpreter
    /// alone, so every one that is a file counts: a file that is called like the value of an option must not stand in
    /// for the script. A program that is bound as an executable is no script, wherever its path stands: its content is
    /// not read.
    pub(crate) fn scripts_of(
        &self,
        analysis: Option<&Analysis>,
        bound: &Bound,
        executables: &[FileIdentity],
        cwd: &Path,
        lookup: &SystemLookup,
    ) -> BoundScripts {
        let open = |path: &Path| lookup.open_regular(path);
        let now = self.analyst.now();
        let mut candidates: Vec<Candidate> = started(bound, executables)
            .filter_map(|(path, identity)| match self.shebangs.of(identity, now, open)? {
                Head::Program => None,
                Head::Script(line) => Some((path, line)),
                Head::Other => Some((path, None)),
            })
            .map(|(path, line)| Candidate {
                path: PathBuf::from(path),
                interpreter: line.and_then(|line| {
                    let identity = lookup.inspect(&line.interpreter)?.identity;
                    // A script as the interpreter of a script: the kernel knows how.
                    let is_program = self.shebangs.of(&identity, now, open) == Some(Head::Program);
                    is_program.then_some(BoundInterpreter {
                        path: line.interpreter,
                        argument: line.argument,
                        identity,
                    })
                }),
            })
            .collect();
        let is_bound_program = |path: &Path| {
            lookup.inspect(&path.to_string_lossy()).is_some_and(|found| {
                executables.contains(&found.identity)
                    && self.shebangs.of(&found.identity, now, open) == Some(Head::Program)
            })
        };
        let is_file = |path: &Path| open(path).is_ok() && !is_bound_program(path);
        if let Some(analysis) = analysis {
            let mut operands = Operands::in_directory(cwd, &is_file);
            operands.collect(&analysis.segments);
            candidates.extend(operands.found.into_iter().map(Candidate::operand));
        }
        if let Bound::Text { text, .. } = bound {
            let mut operands = Operands::in_directory(cwd, &is_file);
            let at_home = |words: Vec<&str>| -> Vec<String> {
                let expanded = words
                    .into_iter()
                    .map(|word| paths::expand_home(word, lookup.home()));
                expanded.collect()
            };
            operands.change_to(&at_home(directory_words(text)));
            operands.add(&at_home(code_words(text)));
            candidates.extend(operands.found.into_iter().map(Candidate::operand));
        }
        binding::bind_scripts(candidates, open)
    }
}

/// What of a plan a run is bound to: its steps, with the directories that lie before everything else.
pub(crate) fn from_plan(plan: &Plan, workdir: &Workdir, files: &Files) -> Option<Bound> {
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
        let joined = paths::join_normalised(&directory.to_string_lossy(), operand);
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

/// The files among the words of a command, of every directory that it may be in by then.
struct Operands<'a> {
    directories: Vec<PathBuf>,
    is_file: &'a dyn Fn(&Path) -> bool,
    looked_at: HashSet<PathBuf>,
    found: Vec<PathBuf>,
}

impl<'a> Operands<'a> {
    fn in_directory(cwd: &Path, is_file: &'a dyn Fn(&Path) -> bool) -> Self {
        Self {
            directories: vec![cwd.to_owned()],
            is_file,
            looked_at: HashSet::new(),
            found: Vec::new(),
        }
    }

    /// Words that are no files must not take the place of those that are.
    fn add(&mut self, words: &[String]) {
        for path in self.in_each(words) {
            if self.found.len() >= MAX_OPERANDS || self.looked_at.len() >= MAX_LOOKS {
                return;
            }
            if self.looked_at.insert(path.clone()) && (self.is_file)(&path) {
                self.found.push(path);
            }
        }
    }

    fn change_to(&mut self, words: &[String]) {
        let mut reached = self.in_each(words);
        reached.truncate(MAX_DIRECTORIES.saturating_sub(self.directories.len()));
        self.directories.append(&mut reached);
    }

    fn in_each(&self, words: &[String]) -> Vec<PathBuf> {
        let words = words.iter().take(MAX_LOOKS);
        words
            .flat_map(|word| self.directories.iter().map(move |from| from.join(word)))
            .collect()
    }

    fn collect(&mut self, segments: &[SegmentReport]) {
        for segment in segments {
            if segment.executable == "cd" {
                self.change_to(segment.argv.get(1..).unwrap_or_default());
                continue;
            }
            if segment.moves.is_some() {
                // Whichever of its words leads there: the file there is bound beside that of the same name here.
                let words = segment.argv.iter().skip(1);
                let reached: Vec<String> = words.flat_map(|word| readings(word)).map(str::to_owned).collect();
                self.change_to(&reached);
            }
            self.add(&segment.code_operands);
            self.collect(&segment.segments);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::Reason;
    use countersign_policy::gate::{AskSpec, AskWhy};

    #[test]
    fn scripts_are_left_alone_only_where_everything_runs_and_nobody_answers() {
        let ask = Verdict::Ask(AskSpec {
            why: AskWhy::AskAlways,
            allow_always_offered: false,
        });
        let verdicts = [Verdict::Run, ask, Verdict::Deny(Reason::Denylist)];
        for security in [Security::Deny, Security::Allowlist, Security::Full] {
            for verdict in verdicts {
                for is_answered_elsewhere in [false, true] {
                    let runs_freely = security == Security::Full && verdict == Verdict::Run;
                    let expected = if runs_freely && !is_answered_elsewhere {
                        Scope::LookedAt
                    } else {
                        Scope::Every
                    };
                    assert_eq!(
                        Scope::by(security, verdict, is_answered_elsewhere),
                        expected,
                        "{security:?} {verdict:?} {is_answered_elsewhere}"
                    );
                }
            }
        }
    }
}
