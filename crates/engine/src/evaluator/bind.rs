//! What a judgement is bound to: what is started, with every file that it needs as it is now.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use countersign_config::{
    approvals::binding::{self, BoundScripts, Candidate},
    settings::Settings,
};
use countersign_domain::{
    Binding, Bound, BoundAction, BoundInterpreter, BoundStep, Command, CommandInput, Confinement,
    EnvOverrides, FileIdentity, Host, ProgramLimits, Security, StepJoin,
};
use countersign_hosts::{
    path_lookup::SystemLookup,
    peer_fs::{Blind, Files},
    shebang_cache::ShebangCache,
    shell::HostShell,
    workdir::Workdir,
};
use countersign_policy::{
    allowlist::{Analysis, SegmentReport},
    combine::Effective,
    command::{
        PathLookup as _, Plan,
        direct::{ChosenStart, Circumstances},
        hashbang::Head,
        names::may_be_builtin,
        operands::{code_words, directory_words, readings},
        paths,
        pinning::Pinned,
    },
};

use super::{
    analyse::{self, Analyst},
    call::Call,
    judgement::Judgement,
    keeping,
    place::Places,
    policy_now::PolicyView,
    preflight, script_hold,
    script_scope::Scope,
};
/// Files that one command names which are bound as its scripts.
const MAX_OPERANDS: usize = 1024;
/// Paths that are looked at for that: each word in each directory that the command may be in.
const MAX_LOOKS: usize = 16 * MAX_OPERANDS;
/// Directories that a command may be in by then, as far as its `cd`s are followed.
const MAX_DIRECTORIES: usize = 8;

/// What is known of a command that is bound, and what becomes of its scripts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) analysis: Option<&'a Analysis>,
    pub(crate) scope: Scope,
    pub(crate) are_looked_at: bool,
}

/// What a call is bound to.
#[derive(Debug)]
pub(crate) struct Fastened {
    pub(crate) binding: Binding,
    pub(crate) pinned: Pinned,
    /// What the look at its scripts found, in words.
    pub(crate) preflight: Option<String>,
}

impl Fastened {
    /// The same of a command to which no more than this can be written.
    pub(crate) fn with_input(mut self, input: CommandInput) -> Self {
        self.binding.input = input;
        self
    }

    /// Of a binding that says itself how firm it is.
    pub(crate) fn by_itself(binding: Binding) -> Self {
        Self {
            pinned: Pinned::of(&binding),
            binding,
            preflight: None,
        }
    }
}

/// Looks what exactly would start on this machine.
#[derive(Debug)]
pub(crate) struct Binder {
    analyst: Arc<Analyst>,
    places: Arc<Places>,
    shell: HostShell,
    shebangs: ShebangCache,
}

impl Binder {
    pub(crate) fn new(analyst: Arc<Analyst>, places: Arc<Places>, shell: HostShell) -> Self {
        Self {
            analyst,
            places,
            shell,
            shebangs: ShebangCache::default(),
        }
    }

    /// The shell that runs texts.
    pub(crate) const fn shell(&self) -> &HostShell {
        &self.shell
    }

    /// What would be started, pinned (`docs/spec/command-analysis.md#x1`, `docs/spec/command-analysis.md#x2`,
    /// `docs/spec/command-analysis.md#t1`), with its scripts, and what the look at them found if they are looked at.
    pub(crate) fn bind(
        &self,
        call: &Call,
        now: &PolicyView,
        effective: &Effective,
        look: Look<'_>,
        env: &EnvOverrides,
    ) -> Result<Fastened, Blind> {
        let Look {
            analysis,
            scope,
            are_looked_at,
        } = look;
        let from_plan = effective.security.value == Security::Allowlist;
        let planned = analysis
            .filter(|_| from_plan)
            .and_then(|analysis| bound_of(analysis, &call.workdir, self.places.files()));
        let lookup = self.analyst.path_lookup(&call.agent, &now.settings);
        let bound = planned.unwrap_or_else(|| match &call.command {
            Command::Shell(text) => Bound::Text {
                shell: self.shell.path().to_string_lossy().into_owned(),
                text: text.clone(),
            },
            Command::Argv(argv) => {
                let name = argv.first().map_or("", String::as_str);
                let path = analyse::program_path(name, &call.workdir.path, &lookup);
                Bound::Exec {
                    identity: lookup.inspect(&path).map(|found| found.identity),
                    path,
                    argv: argv.clone(),
                }
            }
            Command::Patch(text) => self.bound_patch(text, now.keeps_patches_in(&call.agent)),
        });
        let executables = match (&bound, analysis) {
            (_, Some(analysis)) => analysis.executables.clone(),
            (Bound::Exec { identity, .. }, None) => identity.iter().cloned().collect(),
            (
                Bound::Plan { .. }
                | Bound::Text { .. }
                | Bound::Held { .. }
                | Bound::Rendered { .. }
                | Bound::Inside { .. }
                | Bound::OnNode { .. }
                | Bound::Patch { .. }
                | Bound::Elsewhere { .. },
                None,
            ) => Vec::new(),
        };
        let for_scripts = match analysis {
            None if call.pins_scripts && !matches!(call.command, Command::Patch(_)) => {
                Some(self.analyst.analyse(call, now, &[])?)
            }
            Some(_) | None => None,
        };
        let cwd = &call.workdir.path;
        let BoundScripts {
            mut scripts,
            are_whole,
        } = match scope {
            Scope::Every => self.scripts_of(
                analysis.or(for_scripts.as_ref()),
                &bound,
                &executables,
                cwd,
                &lookup,
            ),
            Scope::LookedAt => BoundScripts::default(),
        };
        if are_whole && let Some(analysis) = analysis {
            script_hold::bind_granted(&mut scripts, analysis, now, call.agent.as_str(), &lookup);
        }
        let preflight = are_looked_at
            .then(|| {
                preflight::preflight(
                    analysis,
                    &bound,
                    cwd,
                    preflight::Look {
                        scripts: &mut scripts,
                        scope,
                    },
                    &lookup,
                )
            })
            .flatten();
        let confinement = confinement_of(analysis.filter(|_| from_plan), &bound);
        let held = script_hold::Subject {
            bound: &bound,
            scripts: &scripts,
            are_whole,
            executables: &executables,
            analysis: analysis.or(for_scripts.as_ref()),
            isolation: self.places.isolation_of(&call.agent, &now.settings),
        }
        .hold(&lookup);
        let starts_unbound_script = scope == Scope::LookedAt && self.starts_script(&bound, &lookup);
        lookup.check()?;
        let binding = Binding {
            executables,
            script: binding::sum_of(&scripts),
            scripts,
            held,
            confinement,
            denied_children: self.denied_children(call, now, &lookup),
            ..call.bind(bound, env)
        };
        Ok(Fastened {
            pinned: if starts_unbound_script {
                Pinned::of_script()
            } else {
                Pinned::of(&binding)
            },
            binding,
            preflight,
        })
    }

    /// What no program of the call can start, where the level keeps that.
    fn denied_children(&self, call: &Call, now: &PolicyView, lookup: &SystemLookup) -> Vec<String> {
        if !self.keeps_children(call, now) {
            return Vec::new();
        }
        let mut patterns: Vec<String> = children_rules(call, now)
            .iter()
            .map(|pattern| paths::expand_home(pattern.trim(), lookup.home()))
            .collect();
        patterns.sort();
        patterns.dedup();
        patterns
    }

    /// The deny rules with `children` that do not bind what the call would start, by their patterns as written.
    pub(crate) fn children_not_kept(&self, call: &Call, now: &PolicyView) -> Vec<String> {
        if self.keeps_children(call, now) {
            Vec::new()
        } else {
            children_rules(call, now)
        }
    }

    fn keeps_children(&self, call: &Call, now: &PolicyView) -> bool {
        call.host() == Host::Gateway
            && keeping::keeps_children(self.places.isolation_of(&call.agent, &now.settings))
    }

    /// How the text of a judged call is started; `None` where no host shell of this machine would read one.
    pub(crate) fn start_of(
        &self,
        call: &Call,
        judged: &Judgement,
        settings: &Settings,
    ) -> Option<ChosenStart> {
        let Bound::Text { text, .. } = &judged.binding.bound else {
            return None;
        };
        let circumstances = Circumstances {
            setting: settings.server.exec.direct,
            verdict: judged.verdict,
            shell: self.shell.kind(),
            binds_scripts: !judged.binding.scripts.is_empty(),
        };
        let analyst = &self.analyst;
        Some(analyst.start_of(text, circumstances, call, &judged.env, settings))
    }

    /// The first program of a command of this host, if its PATH has none of that name and the shell knows none by itself.
    pub(crate) fn absent_program(
        &self,
        call: &Call,
        now: &PolicyView,
        analysis: &Analysis,
    ) -> Result<Option<String>, Blind> {
        let is_here = analysis.ok && call.node.is_none();
        let Some(first) = analysis.segments.first().filter(|_| is_here) else {
            return Ok(None);
        };
        let name = &first.executable;
        let is_first_word = first.wrappers.is_empty() && first.argv.first() == Some(name);
        let may_be_known = match &call.command {
            Command::Argv(_) => false,
            Command::Shell(_) => !self.shell.is_plain() || may_be_builtin(name),
            Command::Patch(_) => true,
        };
        if !is_first_word || may_be_known || name.contains('/') || first.resolved_path.is_some() {
            return Ok(None);
        }
        let lookup = self.analyst.path_lookup(&call.agent, &now.settings);
        let is_absent = lookup.search(name).is_none();
        lookup.check()?;
        Ok(is_absent.then(|| name.clone()))
    }

    /// What a patch is bound to.
    pub(crate) fn bound_patch(&self, text: &str, workspace_only: bool) -> Bound {
        Bound::Patch {
            text: text.to_owned(),
            workspace_only,
            off_limits: self.analyst.protected().roots.clone(),
            spared: self.analyst.protected().exceptions.clone(),
        }
    }

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
        match self.shebangs.of(identity, self.analyst.wall(), open) {
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
        let now = self.analyst.wall();
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

/// What is started when the plan decides: its steps, or where a shell has to look for one the canonical script.
fn bound_of(analysis: &Analysis, workdir: &Workdir, files: &Files) -> Option<Bound> {
    let planned = analysis
        .plan
        .as_ref()
        .and_then(|plan| from_plan(plan, workdir, files));
    let rendered = || analysis.rendered.clone().map(|script| Bound::Rendered { script });
    planned.or_else(rendered)
}

/// What the kernel is to keep of what is bound: of the programs of a plan, and of nothing else.
pub(crate) fn confinement_of(analysis: Option<&Analysis>, bound: &Bound) -> Confinement {
    let is_planned = match bound {
        Bound::Exec { .. } | Bound::Plan { .. } => analysis.is_some_and(|analysis| analysis.plan.is_some()),
        Bound::Text { .. }
        | Bound::Held { .. }
        | Bound::Rendered { .. }
        | Bound::Inside { .. }
        | Bound::OnNode { .. }
        | Bound::Patch { .. }
        | Bound::Elsewhere { .. } => false,
    };
    let of_analysis = analysis.map(|analysis| &analysis.confinement);
    match of_analysis {
        Some(confinement) if is_planned && !confinement.is_open() => confinement.clone(),
        // A text of which an entry wanted something to be kept says why it is not.
        Some(confinement) if confinement.not_kept.is_some() => Confinement {
            programs: Vec::new(),
            not_kept: confinement.not_kept,
        },
        Some(_) | None => Confinement::default(),
    }
}

/// The same for what was shown, by what a policy says now. What was shown as open to everything stays so, unless an entry
/// says more by now: an answer that was remembered, or an entry that was added, has no other default than it was told.
pub(crate) fn confinement_again(shown: &Binding, analysis: Option<&Analysis>) -> Confinement {
    let mut now = confinement_of(analysis, &shown.bound);
    let said = analysis.map_or(&[][..], |analysis| &analysis.confined_by_entries);
    let programs = now.programs.iter_mut().zip(said).enumerate();
    for (at, (limits, is_said)) in programs {
        let shown = shown.confinement.programs.get(at);
        if !is_said && shown.is_none_or(ProgramLimits::is_open) {
            *limits = ProgramLimits {
                program: std::mem::take(&mut limits.program),
                ..ProgramLimits::default()
            };
        }
    }
    if now.is_open() {
        return Confinement::default();
    }
    now
}

/// What of a plan a run is bound to: its steps, with the directories that lie before everything else.
fn from_plan(plan: &Plan, workdir: &Workdir, files: &Files) -> Option<Bound> {
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
            action: BoundAction::ChangeDirectory { operand, pinned, .. },
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
        Bound::Plan { steps } => BoundStep::all(steps)
            .into_iter()
            .filter_map(|step| match &step.action {
                BoundAction::Program { path, identity, .. } => Some((path.as_str(), identity)),
                BoundAction::ChangeDirectory { .. }
                | BoundAction::PrintDirectory { .. }
                | BoundAction::Settle { .. }
                | BoundAction::All { .. }
                | BoundAction::Not { .. }
                | BoundAction::Choice { .. }
                | BoundAction::Turns { .. }
                | BoundAction::Set { .. }
                | BoundAction::Background { .. }
                | BoundAction::Wait => None,
            })
            .collect(),
        Bound::Rendered { .. }
        | Bound::Text { .. }
        | Bound::Held { .. }
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

/// The patterns of the deny rules with `children` of a call's agent, as written.
fn children_rules(call: &Call, now: &PolicyView) -> Vec<String> {
    let rules = now.deny_rules(&call.agent);
    let masking = rules.iter().filter(|rule| rule.item.keeps_children());
    masking.map(|rule| rule.item.pattern.clone()).collect()
}
