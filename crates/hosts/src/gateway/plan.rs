//! What a supervisor executes, as it goes over the wire, with the programs that it starts as descriptors.
//!
//! Everything that a run was judged by is looked at once more here, and what can be started from a descriptor is opened
//! here. The supervisor starts this file or nothing, even if the path means something else from now on.

use std::{
    cell::Cell,
    ffi::{CString, OsStr, OsString},
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::io::Errno;

use countersign_config::approvals::binding::{self, SeenScript};
use countersign_domain::{
    Bound, BoundAction, BoundCondition, BoundFill, BoundFilling, BoundInterpreter, BoundScript, BoundStep,
    FileIdentity, TextStart,
};
use countersign_policy::command::{direct::DirectStart, paths};
use countersign_runner::wire::{
    Action, Condition, DirectProgram, Fill, Filling, HeldScript, Plan, Program, Setting, Step,
};
use countersign_sys::{fs::sealed, hooks, process::JudgedFile, stamp};

use super::{
    error::{Mismatch, StartError, is_lack},
    launch_spec::LaunchSpec,
    rulesets::{MadeRuleset, Rulesets, RunRulesets},
};
use crate::{
    confined::{Hidden, denied_programs},
    patching::patching,
};

use crate::{
    peer_fs::{Blind, FileAccessError, Files},
    shebang_cache::stamp_of,
};

/// What goes along with a plan.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// The programs that it starts.
    pub(super) programs: Vec<OwnedFd>,
    /// What the kernel keeps of them.
    pub(super) rulesets: Vec<Arc<MadeRuleset>>,
    /// The content of the scripts that are held, one behind the other.
    pub(super) scripts: Option<OwnedFd>,
}

/// The shell that runs canonical renderings (`docs/spec/command-analysis.md#x1`).
const RENDERED_SHELL: &str = "/bin/sh";
/// Tells a shell where it stands, so that it need not walk there and back to find out.
const DIRECTORY_VARIABLE: &str = "PWD";

/// Checks and opens everything, and writes down what is to be executed.
pub(super) fn prepare(
    spec: &LaunchSpec,
    files: &Files,
    rulesets: &Rulesets,
    directory: BorrowedFd<'_>,
    hidden: Option<&Hidden>,
) -> Result<(Opened, Vec<u8>), StartError> {
    let mut programs = Programs::new(files);
    let seen = seen_scripts(&spec.scripts, files)?;
    let scripts = judged_scripts(&spec.scripts, &seen)?;
    let (held, bundle) = if spec.held {
        hold(&spec.scripts, seen, files)?
    } else {
        (Vec::new(), None)
    };
    let mut preparation = Preparation {
        scripts: &spec.scripts,
        answered: spec.answered,
        judged: scripts,
        programs: &mut programs,
        rulesets: RunRulesets::new(&spec.confinement, spec.isolation, rulesets, files, directory),
    };
    let steps = match &spec.bound {
        Bound::Exec { path, argv, identity } => {
            let identity = identity
                .as_ref()
                .map_or_else(|| one_of_the_judged(spec, path, files), |known| Ok(Some(known)))?;
            vec![alone(preparation.program(path, argv, &[], identity)?)]
        }
        Bound::Plan { steps } => preparation.steps(steps, BoundStep::all(steps).len() == 1)?,
        Bound::Rendered { script } => vec![alone(preparation.shell(RENDERED_SHELL, script)?)],
        Bound::Text { shell, text } => vec![alone(preparation.shell(shell, text)?)],
        // What is held is never started without its walls,
        Bound::Held { .. } => {
            return Err(mismatch(Mismatch::Held, &spec.cwd.to_string_lossy()));
        }
        // what belongs into a sandbox not outside of one,
        Bound::Inside { .. } => {
            return Err(mismatch(Mismatch::Sandbox, &spec.cwd.to_string_lossy()));
        }
        // nor what its asker starts, who wanted only an answer,
        Bound::Elsewhere { .. } => {
            return Err(mismatch(Mismatch::Elsewhere, &spec.cwd.to_string_lossy()));
        }
        // nor what belongs to another machine.
        Bound::OnNode { .. } => {
            return Err(mismatch(Mismatch::Node, &spec.cwd.to_string_lossy()));
        }
        Bound::Patch { .. } => vec![patching(&spec.bound, &spec.cwd).ok_or(StartError::NotPassable)?],
    };
    let rulesets = preparation.rulesets.finish()?;
    // Another program opens what is left of the scripts and the programs, by its path.
    let mut judged = preparation.judged;
    judged.retain(|file| !Step::all(&steps).into_iter().any(|step| names(step, file)));
    let own = &programs.identities;
    for identity in spec.executables.iter().filter(|identity| !own.contains(identity)) {
        judged.push(judged_program(identity, files)?);
    }
    hooks::pause("host.files-checked");
    let mut environment = push_environment(&spec.terms.env)?;
    if !spec.terms.env.iter().any(|(name, _)| name == DIRECTORY_VARIABLE) {
        push_text(
            &mut environment,
            &[
                OsStr::new(DIRECTORY_VARIABLE),
                OsStr::new("="),
                spec.cwd.as_os_str(),
            ],
        )?;
    }
    let plan = Plan {
        directory: c_path(spec.cwd.as_os_str())?,
        environment,
        files: judged,
        steps,
        enclosed: None,
        held,
        direct: direct_program(spec)?,
        masked: masked(spec, hidden)?,
    };
    let opened = Opened {
        programs: programs.opened,
        rulesets,
        scripts: bundle,
    };
    Ok((opened, plan.encode()))
}

/// The files that no program of a run can start, where the level keeps that.
fn masked(spec: &LaunchSpec, hidden: Option<&Hidden>) -> Result<Vec<CString>, StartError> {
    if spec.denied_children.is_empty() {
        return Ok(Vec::new());
    }
    let path = spec.terms.env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or_else(|| OsStr::new(""), |(_, value)| value.as_os_str());
    let files = denied_programs::find(&spec.denied_children, path)?;
    // What is hidden is not there, so that nothing can lie over it.
    let is_there = |file: &&PathBuf| !hidden.is_some_and(|hidden| hidden.hides(file));
    let files = files.iter().filter(is_there);
    files.map(|file| c_path(file.as_os_str())).collect()
}

/// What is tried before the shell that a text is bound to.
///
/// The run's record says that its program is started directly. Where it cannot be, nothing is tried, and the supervisor
/// reports that the shell was started.
fn direct_program(spec: &LaunchSpec) -> Result<Option<DirectProgram>, StartError> {
    let (Bound::Text { text, .. }, Some(TextStart::Direct)) = (&spec.bound, spec.start) else {
        return Ok(None);
    };
    let variables = spec
        .terms
        .env
        .iter()
        .map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let is_bound = spec.held || !spec.scripts.is_empty();
    let found = spec
        .terms
        .shell
        .filter(|_| !is_bound)
        .and_then(|shell| DirectStart::of(text, shell, variables).ok());
    let DirectStart {
        words,
        candidates,
        assignments,
    } = found.unwrap_or_default();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (mut paths, mut set) = (Vec::new(), Vec::new());
    for path in &candidates {
        push_text(&mut paths, &[OsStr::from_bytes(path)])?;
    }
    for (name, value) in assignments {
        push_text(&mut set, &[OsStr::new(name), OsStr::new("="), OsStr::new(value)])?;
    }
    Ok(Some(DirectProgram {
        candidates: paths,
        arguments: list_of(&words)?,
        assignments: set,
    }))
}

pub(super) const fn alone(program: Program) -> Step {
    Step {
        join: None,
        action: Action::Program(program),
    }
}

fn names(step: &Step, file: &JudgedFile) -> bool {
    match &step.action {
        Action::Program(program) => program.files().any(|known| known == file),
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
        | Action::Wait => false,
    }
}

/// The programs that a run is started from. One that several steps start is there once.
struct Programs<'a> {
    files: &'a Files,
    paths: Vec<String>,
    opened: Vec<OwnedFd>,
    identities: Vec<FileIdentity>,
}

impl<'a> Programs<'a> {
    const fn new(files: &'a Files) -> Self {
        Self {
            files,
            paths: Vec::new(),
            opened: Vec::new(),
            identities: Vec::new(),
        }
    }

    /// Opens a program; what was judged must be what is there. One that was not judged and cannot be opened cannot be
    /// executed either: that is for the supervisor to find out and to record.
    fn open(&mut self, path: &str, identity: Option<&FileIdentity>) -> Result<Option<u8>, StartError> {
        let index = if let Some(known) = self.paths.iter().position(|known| known == path) {
            known
        } else {
            let file = match (self.files.open_program(Path::new(path)), identity) {
                (Ok(file), _) => file,
                (Err(FileAccessError::Blind(blind)), _) => return Err(blind.into()),
                (Err(FileAccessError::Refused(error)), identity) => {
                    if identity.is_some() || is_lack(&error) {
                        return Err(StartError::of_file(error, Mismatch::Executable, path));
                    }
                    return Ok(None);
                }
            };
            hooks::pause("host.program-open");
            self.paths.push(path.to_owned());
            self.opened.push(file);
            self.opened.len() - 1
        };
        if let Some(identity) = identity {
            let found = self.opened.get(index).map(stamp::of_open);
            if found != Some(Ok(stamp_of(identity))) {
                return Err(mismatch(Mismatch::Executable, path));
            }
            if !self.identities.contains(identity) {
                self.identities.push(identity.clone());
            }
        }
        u8::try_from(index)
            .map(Some)
            .map_err(|_too_many| StartError::NotPassable)
    }
}

struct Preparation<'a, 'f> {
    scripts: &'a [BoundScript],
    answered: bool,
    /// The same scripts as they are now.
    judged: Vec<JudgedFile>,
    programs: &'a mut Programs<'f>,
    rulesets: RunRulesets<'a>,
}

impl Preparation<'_, '_> {
    fn steps(&mut self, steps: &[BoundStep], is_alone: bool) -> Result<Vec<Step>, StartError> {
        let mut prepared = Vec::with_capacity(steps.len());
        for BoundStep { join, action } in steps {
            let action = match action {
                BoundAction::Program {
                    path,
                    argv,
                    assignments,
                    identity,
                    redirections,
                    fills,
                } => {
                    let has_interpreter = |script: &BoundScript| script.interpreter.is_some();
                    let mut own = self.scripts.iter().filter(|script| script.path == *path);
                    // What comes before its arguments would move them.
                    if !fills.is_empty() && own.any(has_interpreter) {
                        return Err(StartError::NotPassable);
                    }
                    let fills = self.fills(fills)?;
                    let mut program = self.program(path, argv, assignments, Some(identity))?;
                    program.redirections.clone_from(redirections);
                    program.fills = fills;
                    if program.file.is_none() && !is_alone {
                        // An earlier step may make another of it, which nobody judged.
                        program.file = Some(JudgedFile {
                            path: c_path(OsStr::new(path))?,
                            stamp: stamp_of(identity),
                            sha256: None,
                        });
                    }
                    if self.answered && !is_alone {
                        program.operands = self.scripts_among(argv);
                    }
                    Action::Program(program)
                }
                BoundAction::ChangeDirectory {
                    operand,
                    pinned,
                    quiet,
                } => Action::ChangeDirectory {
                    operand: c_path(OsStr::new(operand))?.into_bytes(),
                    pinned: *pinned,
                    quiet: *quiet,
                },
                BoundAction::PrintDirectory { physical } => Action::PrintDirectory { physical: *physical },
                BoundAction::Settle { succeeds } => Action::Settle { succeeds: *succeeds },
                BoundAction::All { steps, apart } => Action::All {
                    steps: self.steps(steps, is_alone)?,
                    apart: *apart,
                },
                BoundAction::Not { steps } => Action::Not(self.steps(steps, is_alone)?),
                BoundAction::Choice {
                    condition,
                    then,
                    otherwise,
                } => Action::Choice {
                    condition: self.steps(condition, is_alone)?,
                    then: self.steps(then, is_alone)?,
                    otherwise: self.steps(otherwise, is_alone)?,
                },
                BoundAction::Turns { condition, steps } => Action::Turns {
                    condition: match condition {
                        BoundCondition::Line { variable, trims, raw } => Condition::Line {
                            variable: variable.clone(),
                            trims: *trims,
                            raw: *raw,
                        },
                        // A turn may make another file of what the next one starts.
                        BoundCondition::While { steps } => Condition::While(self.steps(steps, false)?),
                        BoundCondition::Until { steps } => Condition::Until(self.steps(steps, false)?),
                    },
                    steps: self.steps(steps, false)?,
                },
                BoundAction::Set {
                    variable,
                    value,
                    fills,
                } => {
                    let mut text = Vec::new();
                    push_text(&mut text, &[OsStr::new(value)])?;
                    Action::Set(Setting {
                        variable: variable.clone(),
                        value: text,
                        fills: self.fills(fills)?,
                    })
                }
                BoundAction::Background { steps } => Action::Background(self.steps(steps, false)?),
                BoundAction::Wait => Action::Wait,
            };
            prepared.push(Step { join: *join, action });
        }
        Ok(prepared)
    }

    /// What is put into the words of a program, in the order in which the limits of its programs are written.
    fn fills(&mut self, fills: &[BoundFill]) -> Result<Vec<Fill>, StartError> {
        let mut prepared = Vec::with_capacity(fills.len());
        for BoundFill {
            argument,
            from,
            to,
            with,
        } in fills
        {
            let number = |at: usize| u32::try_from(at).map_err(|_too_large| StartError::NotPassable);
            prepared.push(Fill {
                argument: number(*argument)?,
                from: number(*from)?,
                to: number(*to)?,
                with: match with {
                    BoundFilling::Status => Filling::Status,
                    BoundFilling::Background => Filling::Background,
                    BoundFilling::Output { steps } => Filling::Output(self.steps(steps, false)?),
                    BoundFilling::Variable { name } => Filling::Variable(name.clone()),
                },
            });
        }
        Ok(prepared)
    }

    /// The scripts that one of these words may name, however it leads there.
    fn scripts_among(&self, words: &[String]) -> Vec<JudgedFile> {
        let is_named = |path: &str| words.iter().any(|word| word.contains(paths::base_name(path)));
        self.scripts
            .iter()
            .zip(&self.judged)
            .filter(|(script, _)| is_named(&script.path))
            .map(|(_, file)| file.clone())
            .collect()
    }

    fn program(
        &mut self,
        path: &str,
        argv: &[String],
        assignments: &[(String, String)],
        identity: Option<&FileIdentity>,
    ) -> Result<Program, StartError> {
        if !path.starts_with('/') {
            return Err(StartError::NoProgram(path.to_owned()));
        }
        let mut set = Vec::new();
        for (name, value) in assignments {
            push_text(&mut set, &[OsStr::new(name), OsStr::new("="), OsStr::new(value)])?;
        }
        let script = self.scripts.iter().position(|script| script.path == path);
        let (interpreter, file) = match script {
            Some(at) => (
                self.scripts
                    .get(at)
                    .and_then(|script| script.interpreter.as_ref()),
                self.judged.get(at).cloned(),
            ),
            None => (None, None),
        };
        // A replaced script is found out by its content; what it was is not opened by anybody.
        let (executable, stamp, started, arguments) = match interpreter {
            Some(interpreter) => {
                if let (Some(identity), Some(file)) = (identity, &file) {
                    if file.stamp != stamp_of(identity) {
                        return Err(mismatch(Mismatch::Executable, path));
                    }
                    self.programs.identities.push(identity.clone());
                }
                let BoundInterpreter {
                    path: program,
                    argument,
                    identity,
                } = interpreter;
                let executable = self.programs.open(program, Some(identity))?;
                let before = [Some(program), argument.as_ref()].into_iter().flatten();
                let arguments: Vec<&str> = before
                    .map(String::as_str)
                    .chain([path])
                    .chain(argv.iter().skip(1).map(String::as_str))
                    .collect();
                (executable, Some(stamp_of(identity)), program.as_str(), arguments)
            }
            None => (
                self.programs.open(path, identity)?,
                identity.map(stamp_of),
                path,
                argv.iter().map(String::as_str).collect(),
            ),
        };
        let own = interpreter.map(|interpreter| &interpreter.identity);
        let own: Vec<_> = identity.into_iter().chain(own).collect();
        let kept = self.rulesets.next(&own)?;
        Ok(Program {
            path: c_path(OsStr::new(started))?,
            executable,
            stamp,
            file,
            operands: Vec::new(),
            arguments: list_of(&arguments)?,
            assignments: set,
            redirections: Vec::new(),
            fills: Vec::new(),
            kept,
        })
    }

    fn shell(&mut self, path: &str, text: &str) -> Result<Program, StartError> {
        self.program(path, &shell_words(path, text), &[], None)
    }
}

/// The arguments of a shell that runs a text.
pub(super) fn shell_words(shell: &str, text: &str) -> Vec<String> {
    let mut arguments = vec![shell.to_owned(), "-c".to_owned()];
    // Shells go on reading options after `-c`: text that looks like one must not become one.
    if text.starts_with(['-', '+']) {
        arguments.push("--".to_owned());
    }
    arguments.push(text.to_owned());
    arguments
}

/// Each script as it is now, if it is what was judged. It is read once: this content is compared, and held.
fn seen_scripts(scripts: &[BoundScript], files: &Files) -> Result<Vec<SeenScript>, StartError> {
    let lack = Cell::new(None);
    let open = |path: &Path| {
        files.open_regular(path).inspect_err(|error| {
            if is_lack(error) {
                lack.set(Errno::from_io_error(error));
            }
        })
    };
    binding::look_again(scripts, open).map_err(|path| {
        if files.is_blind() {
            return Blind.into();
        }
        if let Some(errno) = lack.get() {
            let source = errno.into();
            return StartError::Machine { path, source };
        }
        StartError::BindingMismatch {
            what: Mismatch::Script,
            path,
        }
    })
}

fn judged_scripts(scripts: &[BoundScript], seen: &[SeenScript]) -> Result<Vec<JudgedFile>, StartError> {
    scripts
        .iter()
        .zip(seen)
        .map(|(script, seen)| {
            Ok(JudgedFile {
                path: c_path(OsStr::new(&script.path))?,
                stamp: seen.stamp,
                sha256: seen.content.as_ref().map(|content| content.sha256),
            })
        })
        .collect()
}

/// The scripts by all the names that are known, with their contents.
fn hold(
    scripts: &[BoundScript],
    seen: Vec<SeenScript>,
    files: &Files,
) -> Result<(Vec<HeldScript>, Option<OwnedFd>), StartError> {
    let mut held = Vec::new();
    let mut contents: Vec<u8> = Vec::new();
    for (script, seen) in scripts.iter().zip(seen) {
        // What is too large to be read makes the run one of which nothing is called held.
        let content = seen
            .content
            .ok_or_else(|| mismatch(Mismatch::Script, &script.path))?;
        let mut names = vec![c_path(OsStr::new(&script.path))?];
        match files.real(Path::new(&script.path)) {
            Ok(real) => names.push(c_path(real.as_os_str())?),
            Err(FileAccessError::Blind(blind)) => return Err(blind.into()),
            Err(FileAccessError::Refused(error)) => {
                return Err(StartError::of_file(error, Mismatch::Script, &script.path));
            }
        }
        names.dedup();
        held.push(HeldScript {
            names,
            offset: u64::try_from(contents.len()).unwrap_or(u64::MAX),
            length: u64::try_from(content.bytes.len()).unwrap_or(u64::MAX),
            mode: seen.mode,
            identity: (seen.stamp.dev, seen.stamp.ino),
        });
        contents.extend(content.bytes);
    }
    let bundle = sealed(c"countersign-scripts", &contents).map_err(StartError::Runner)?;
    Ok((held, Some(bundle)))
}

/// Which of the judged programs lies at a path, for a record that does not say it. None of them is a mismatch.
fn one_of_the_judged<'a>(
    spec: &'a LaunchSpec,
    path: &str,
    files: &Files,
) -> Result<Option<&'a FileIdentity>, StartError> {
    if spec.executables.is_empty() || !path.starts_with('/') {
        return Ok(None);
    }
    let found = match files.open_program(Path::new(path)) {
        Ok(file) => stamp::of_open(&file).ok(),
        Err(FileAccessError::Blind(blind)) => return Err(blind.into()),
        Err(FileAccessError::Refused(error)) if is_lack(&error) => {
            return Err(StartError::of_file(error, Mismatch::Executable, path));
        }
        Err(FileAccessError::Refused(_)) => None,
    };
    let judged = spec
        .executables
        .iter()
        .find(|identity| found == Some(stamp_of(identity)));
    judged
        .map(Some)
        .ok_or_else(|| mismatch(Mismatch::Executable, path))
}

fn judged_program(identity: &FileIdentity, files: &Files) -> Result<JudgedFile, StartError> {
    let file = JudgedFile {
        path: c_path(OsStr::new(&identity.path))?,
        stamp: stamp_of(identity),
        sha256: None,
    };
    if files.is_unchanged(identity)? {
        Ok(file)
    } else {
        Err(mismatch(Mismatch::Executable, &identity.path))
    }
}

fn mismatch(what: Mismatch, path: &str) -> StartError {
    StartError::BindingMismatch {
        what,
        path: PathBuf::from(path),
    }
}

pub(super) fn c_path(path: &OsStr) -> Result<CString, StartError> {
    CString::new(path.as_bytes()).map_err(|_nul| StartError::NotPassable)
}

pub(super) fn list_of(words: &[&str]) -> Result<Vec<u8>, StartError> {
    let mut list = Vec::new();
    for word in words {
        push_text(&mut list, &[OsStr::new(word)])?;
    }
    if list.is_empty() {
        return Err(StartError::NotPassable);
    }
    Ok(list)
}

/// An environment as a program gets it.
pub(super) fn push_environment(variables: &[(OsString, OsString)]) -> Result<Vec<u8>, StartError> {
    let mut environment = Vec::new();
    for (name, value) in variables {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return Err(StartError::NotPassable);
        }
        push_text(&mut environment, &[name, OsStr::new("="), value])?;
    }
    Ok(environment)
}

fn push_text(list: &mut Vec<u8>, parts: &[&OsStr]) -> Result<(), StartError> {
    for part in parts {
        if part.as_bytes().contains(&0) {
            return Err(StartError::NotPassable);
        }
        list.extend(part.as_bytes());
    }
    list.push(0);
    Ok(())
}
