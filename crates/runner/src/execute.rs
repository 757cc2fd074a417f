//! The steps of a plan, run without a shell: pipelines with pipes, `&&`, `||` and `;`, `cd` and the safe builtins.
//!
//! A run of one program needs nobody in between: the supervisor starts it itself. Any other run is led by a copy of
//! the supervisor, the first process of the run's session, which does what a shell would do with the canonical
//! rendering, but starts every program from the descriptor that was judged, and stops at once when something that a
//! step names is not what was judged any more. It owns nothing of the supervisor's, has the rights of the commands,
//! and its exit code is that of the list. Entry point: [`Execution::launch`].

use std::{
    cell::RefCell,
    collections::BTreeMap,
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU8, Ordering},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    pipe::PipeFlags,
    process::Signal,
};

use countersign_domain::{FileRedirection, PinnedDirectory, Redirection, StepJoin};
use countersign_sys::{
    beneath::{self, MadeFile},
    fs::FileStamp,
    hooks,
    interception::{Filter, KeptCalls},
    process::{
        self, Asks, Candidate, DirectStart, Ended, Forked, JudgedFile, JudgedFiles, Launch, LaunchError,
        Launched, Launcher, Lead, Pid, Process, SharedBytes, StartPlace, Strings,
    },
    stamp,
};

use super::{
    patch,
    wire::{Action, Condition, DirectProgram, Fill, Filling, PatchOrder, Plan, Program, Setting, Step},
};

/// What stands for the ruleset of a program that has none.
const NO_RULESET: u8 = u8::MAX;
/// The exit code of a list that was left because something was not what was judged, and of a program that cannot be
/// executed.
const CANNOT_EXECUTE: i32 = 126;
/// The exit code of a program that is not there.
const NOT_FOUND: i32 = 127;
/// What is neither written nor read.
const NULL: &CStr = c"/dev/null";
/// The exit code of a program whose redirection could not be opened, as `bash` and `zsh` have it.
const NOT_REDIRECTED: i32 = 1;
/// The exit code of a `cd` that failed, and of a builtin that could not write, as `dash` has them.
const BUILTIN_FAILED: i32 = 2;
/// Most bytes that the kernel takes as one argument (`MAX_ARG_STRLEN`), of which one is for the NUL.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;
/// Most lists that run in the background of one process (G24); another one begins when one of them has ended.
const MAX_BACKGROUND: usize = 64;
/// All values of variables together, in bytes.
const MAX_VARIABLES: usize = 1024 * 1024;
/// The exit code of what a shell says of a process that SIGPIPE ended.
const BROKEN_PIPE: i32 = 128 + libc::SIGPIPE;
/// The exit code of a patch that does not apply.
const PATCH_FAILED: i32 = 1;

/// A plan with everything that its start needs.
#[derive(Debug)]
pub(super) struct Execution<'a> {
    pub(super) launcher: &'a Launcher,
    pub(super) plan: &'a Plan,
    /// The programs that came as descriptors.
    pub(super) executables: &'a [OwnedFd],
    pub(super) place: StartPlace<'a>,
    pub(super) standard: [BorrowedFd<'a>; 3],
    /// Whether these are a terminal.
    pub(super) on_terminal: bool,
    /// What its programs are held to.
    pub(super) holds: Holds<'a>,
}

/// What the programs of a run are held to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holds<'a> {
    /// Rulesets of the kernel, which came as descriptors.
    pub(super) rulesets: &'a [OwnedFd],
    /// Whether they read scripts that are held.
    pub(super) has_scripts: bool,
    /// Who answers their calls and hears of them.
    pub(super) whom: Option<BorrowedFd<'a>>,
}

impl<'a> Holds<'a> {
    /// The ruleset of a program; `INVAL` where it did not come.
    fn ruleset(&self, program: &Program) -> Result<Option<BorrowedFd<'a>>, Errno> {
        let Some(kept) = &program.kept else {
            return Ok(None);
        };
        let ruleset = self.rulesets.get(usize::from(kept.ruleset));
        ruleset.map(AsFd::as_fd).map(Some).ok_or(Errno::INVAL)
    }

    /// The filter of a program; `NOSYS` where there can be none.
    fn filter(&self, program: &Program) -> Result<Option<Filter>, Errno> {
        let kept = program.kept.map_or_else(KeptCalls::default, |kept| KeptCalls {
            starts: kept.starts,
            connects: kept.connects,
        });
        if !self.has_scripts && kept == KeptCalls::default() {
            return Ok(None);
        }
        let filter = Filter::keeping(kept, self.has_scripts);
        filter.map(Some).ok_or(Errno::NOSYS)
    }

    fn asks<'f>(&self, filter: &'f Filter, program: &Program) -> Asks<'f>
    where
        'a: 'f,
    {
        Asks {
            filter,
            whom: self.whom,
            tag: program.kept.map_or(NO_RULESET, |kept| kept.ruleset),
        }
    }
}

impl Execution<'_> {
    /// Starts the run and returns once its first process works or cannot.
    pub(super) fn launch(
        &self,
        fence: &mut dyn FnMut(&Process) -> Result<(), Errno>,
    ) -> Result<Launched, LaunchError> {
        match self.plan.steps.as_slice() {
            [
                Step {
                    action: Action::Program(program),
                    ..
                },
                // The leader takes the terminal before the program gets something else in place of it, it opens files once the
                // run is recorded, where it runs and with its rights, and it puts into arguments what is not known before.
            ] if program.fills.is_empty()
                && (program.redirections.is_empty() || !(self.on_terminal || program.opens_files())) =>
            {
                self.launch_one(program, fence)
            }
            _ => self.lead(fence),
        }
    }

    fn launch_one(
        &self,
        program: &Program,
        fence: &mut dyn FnMut(&Process) -> Result<(), Errno>,
    ) -> Result<Launched, LaunchError> {
        let invalid = || LaunchError::BeforeExecution(Errno::INVAL);
        let environment = environment(&self.plan.environment, &[], &program.assignments);
        let direct = match &self.plan.direct {
            None => None,
            Some(direct) => Some(Direct::of(direct, &self.plan.environment).ok_or_else(invalid)?),
        };
        let files: Vec<JudgedFile> = self.plan.files.iter().chain(program.files()).cloned().collect();
        let standard = Standard::of(program, self.standard, &MadeFiles::default())
            .map_err(|unopened| LaunchError::BeforeExecution(unopened.why))?;
        let filter = self.holds.filter(program).map_err(LaunchError::BeforeExecution)?;
        let launch = Launch {
            direct: direct.as_ref().map(Direct::start),
            program: &program.path,
            executable: executable_of(program, self.executables).map_err(LaunchError::BeforeExecution)?,
            judged: JudgedFiles {
                stamp: program.stamp.as_ref(),
                files: &files,
            },
            arguments: &Strings::from_nul_terminated(program.arguments.clone()).ok_or_else(invalid)?,
            environment: &Strings::from_nul_terminated(environment).ok_or_else(invalid)?,
            place: Some(self.place),
            standard: standard.descriptors(),
            takes_terminal: self.on_terminal,
            ruleset: self
                .holds
                .ruleset(program)
                .map_err(LaunchError::BeforeExecution)?,
            asks: filter.as_ref().map(|filter| self.holds.asks(filter, program)),
        };
        self.launcher.launch(&launch, fence)
    }

    fn lead(&self, fence: &mut dyn FnMut(&Process) -> Result<(), Errno>) -> Result<Launched, LaunchError> {
        let Holds { rulesets, whom, .. } = self.holds;
        let descriptors = self.executables.iter().chain(rulesets);
        let kept: Vec<_> = descriptors.map(AsFd::as_fd).chain(whom).collect();
        let lead = Lead {
            place: self.place,
            standard: self.standard,
            takes_terminal: self.on_terminal,
            kept: &kept,
        };
        let leader = Leader {
            launcher: self.launcher,
            plan: self.plan,
            executables: self.executables,
            on_terminal: self.on_terminal,
            holds: self.holds,
            directory: self.plan.directory.as_bytes().to_vec(),
            old_directory: None,
            made: MadeFiles::default(),
            variables: BTreeMap::new(),
            background: RefCell::default(),
            last_begun: None,
            is_broken: false,
            status: 0,
            word: None,
        };
        let check = || {
            hooks::pause("sup.plan-begun");
            check(self.plan, self.executables, &self.holds)
        };
        lead.launch(fence, check, || leader.run())
    }
}

/// Standard input, output and error of a program, after its redirections.
struct Standard<'a> {
    before: [BorrowedFd<'a>; 3],
    /// What was opened for them, in the order of the redirections.
    opened: Vec<OwnedFd>,
    /// Where one went that another goes to: its number may be given away before that one is made from it.
    shared: Option<OwnedFd>,
    /// Where each goes.
    goes: [Goes; 3],
}

/// Where one of them goes.
#[derive(Debug, Clone, Copy)]
enum Goes {
    Itself,
    /// To where this one went before.
    Other(usize),
    /// To what was opened at this place.
    Opened(usize),
}

/// A redirection that could not be opened.
struct Unopened {
    /// The file that it names, where it names one.
    file: Option<String>,
    why: Errno,
}

impl From<Errno> for Unopened {
    fn from(why: Errno) -> Self {
        Self { file: None, why }
    }
}

impl<'a> Standard<'a> {
    fn of(program: &Program, before: [BorrowedFd<'a>; 3], made: &MadeFiles) -> Result<Self, Unopened> {
        const OUTPUT: usize = 1;
        const ERRORS: usize = 2;
        let [mut input, mut output, mut errors] = [Goes::Itself; 3];
        let mut opened = Vec::new();
        for redirection in &program.redirections {
            let next = Goes::Opened(opened.len());
            match redirection {
                Redirection::InputFromNull => {
                    opened.push(open_null()?);
                    input = next;
                }
                Redirection::InputFromText(read) => {
                    opened.push(text_to_read(read)?);
                    input = next;
                }
                Redirection::OutputToNull => {
                    opened.push(open_null()?);
                    output = next;
                }
                Redirection::ErrorsToNull => {
                    opened.push(open_null()?);
                    errors = next;
                }
                Redirection::ErrorsToOutput => {
                    errors = match output {
                        Goes::Itself => Goes::Other(OUTPUT),
                        Goes::Other(ERRORS) => Goes::Itself,
                        elsewhere @ (Goes::Other(_) | Goes::Opened(_)) => elsewhere,
                    }
                }
                Redirection::OutputToErrors => {
                    output = match errors {
                        Goes::Itself => Goes::Other(ERRORS),
                        Goes::Other(OUTPUT) => Goes::Itself,
                        elsewhere @ (Goes::Other(_) | Goes::Opened(_)) => elsewhere,
                    }
                }
                Redirection::File(file) | Redirection::Temporary(file) => {
                    let open = if matches!(redirection, Redirection::Temporary(_)) {
                        made.open(file)
                    } else {
                        open_file(file)
                    };
                    opened.push(open.map_err(|why| Unopened {
                        file: Some(file.whole_path()),
                        why,
                    })?);
                    match file.used_as.descriptor() {
                        0 => input = next,
                        1 => output = next,
                        _ => errors = next,
                    }
                }
            }
        }
        let goes = [input, output, errors];
        let shared = goes.iter().find_map(|goes| match goes {
            Goes::Other(at) => before.get(*at),
            Goes::Itself | Goes::Opened(_) => None,
        });
        let shared = shared.map(|shared| rustix::io::fcntl_dupfd_cloexec(shared, 3));
        Ok(Self {
            before,
            opened,
            shared: shared.transpose()?,
            goes,
        })
    }

    fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        let [input, output, errors] = self.before;
        let [of_input, of_output, of_errors] = self.goes;
        let place = |goes, itself| {
            let other = match goes {
                Goes::Itself => None,
                Goes::Other(_) => self.shared.as_ref(),
                Goes::Opened(at) => self.opened.get(at),
            };
            other.map_or(itself, AsFd::as_fd)
        };
        [
            place(of_input, input),
            place(of_output, output),
            place(of_errors, errors),
        ]
    }
}

fn open_null() -> Result<OwnedFd, Errno> {
    rustix::fs::open(NULL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// The files of the temporary directory that a run made, by their paths.
#[derive(Debug, Default)]
struct MadeFiles(RefCell<Vec<(String, MadeFile)>>);

impl MadeFiles {
    /// Opens a file of the temporary directory for a program. Where something has the name of one to be written, that is one that
    /// the run made. `STALE` is said of the directory alone.
    fn open(&self, file: &FileRedirection) -> Result<OwnedFd, Errno> {
        /// Group and others may write.
        const SHARED: u32 = 0o022;
        const STICKY: u32 = 0o1000;
        let directory = open_pinned(&file.workspace)?;
        let mode = rustix::fs::fstat(&directory)?.st_mode;
        // Others could put a file of theirs in the place of one of ours.
        if mode & SHARED != 0 && mode & STICKY == 0 {
            return Err(Errno::PERM);
        }
        let path = file.path.as_str();
        if !file.used_as.writes() {
            return beneath::open_own_to_read(&directory, path);
        }
        let mut made = self.0.borrow_mut();
        if let Some((_, known)) = made.iter().find(|(known, _)| known == path) {
            match beneath::open_made(&directory, path, known, file.used_as.appends()) {
                // A step removed it.
                Err(Errno::NOENT) => made.retain(|(known, _)| known != path),
                opened => return opened,
            }
        }
        let (opened, file) = beneath::make(&directory, path)?;
        made.push((path.to_owned(), file));
        Ok(opened)
    }
}

/// Opens a directory; `STALE` when it is another one than the one that was judged.
fn open_pinned(directory: &PinnedDirectory) -> Result<OwnedFd, Errno> {
    let PinnedDirectory { path, dev, ino } = directory;
    let opened = open_directory(path.as_bytes()).map_err(|_gone| Errno::STALE)?;
    if is_directory(&opened, (*dev, *ino))? {
        Ok(opened)
    } else {
        Err(Errno::STALE)
    }
}

/// Opens a file of the workspace for a program; `STALE` when that is another directory than the one that was judged.
fn open_file(file: &FileRedirection) -> Result<OwnedFd, Errno> {
    let FileRedirection {
        used_as,
        workspace,
        path: below,
    } = file;
    let workspace = open_pinned(workspace)?;
    if !used_as.writes() {
        beneath::open_to_read(&workspace, below.as_str())
    } else if used_as.appends() {
        beneath::open_to_append(&workspace, below.as_str())
    } else {
        beneath::open_to_replace(&workspace, below.as_str())
    }
}

/// A pipe that holds a text and has no writer any more. Unlike a file in memory it cannot be executed.
fn text_to_read(text: &str) -> Result<OwnedFd, Errno> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // An analysed text fits even where the account may have pipes of two pages only.
    if !text.is_empty() && rustix::io::write(&writer, text.as_bytes())? != text.len() {
        return Err(Errno::TOOBIG);
    }
    rustix::fs::fcntl_setfl(&reader, OFlags::empty())?;
    Ok(reader)
}

/// Reads what becomes a part of an argument, up to its end. Newlines count only where something follows them.
fn read_argument(from: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    let mut newlines: usize = 0;
    let mut buffer = [0; 8192];
    loop {
        let read = match rustix::io::read(from, &mut buffer) {
            Ok(0) => return Ok(text),
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        for byte in buffer.iter().take(read).filter(|byte| **byte != 0) {
            if *byte == b'\n' {
                newlines = newlines.saturating_add(1);
                continue;
            }
            let before = text.len().saturating_add(newlines);
            if before >= MAX_ARGUMENT_BYTES {
                return Err(Errno::TOOBIG);
            }
            text.resize(before, b'\n');
            newlines = 0;
            text.push(*byte);
        }
    }
}

/// What is tried before the program of a plan, in the form that the kernel takes.
struct Direct {
    arguments: Strings,
    environment: Strings,
    candidates: Vec<Candidate>,
}

impl Direct {
    /// `None` for what no kernel takes.
    fn of(program: &DirectProgram, base: &[u8]) -> Option<Self> {
        let environment = entries(&environment(base, &[], &program.assignments))
            .filter(|entry| name_of(entry) != b"_")
            .collect::<Vec<_>>()
            .concat();
        let candidates = entries(&program.candidates)
            .map(|path| Candidate::at(path.strip_suffix(b"\0")?))
            .collect::<Option<_>>()?;
        Some(Self {
            arguments: Strings::from_nul_terminated(program.arguments.clone())?,
            environment: Strings::from_nul_terminated(environment)?,
            candidates,
        })
    }

    fn start(&self) -> DirectStart<'_> {
        DirectStart {
            arguments: &self.arguments,
            environment: &self.environment,
            candidates: &self.candidates,
        }
    }
}

/// Looks whether everything that the plan names is what was judged, before anything of it runs.
fn check(plan: &Plan, executables: &[OwnedFd], holds: &Holds<'_>) -> Result<(), Errno> {
    if !plan.files.iter().all(JudgedFile::is_unchanged) {
        return Err(Errno::STALE);
    }
    for program in plan.programs() {
        holds.ruleset(program)?;
        let executable = executable_of(program, executables)?;
        let found = executable.map(stamp::of_open).transpose()?;
        if program.stamp.is_some() && found != program.stamp {
            return Err(Errno::STALE);
        }
        if !program.files().all(JudgedFile::is_unchanged) {
            return Err(Errno::STALE);
        }
    }
    let workspaces = plan.programs().flat_map(|program| &program.redirections);
    let workspaces = workspaces
        .filter_map(Redirection::file)
        .map(|file| &file.workspace);
    let workspaces =
        workspaces.map(|workspace| ((workspace.dev, workspace.ino), workspace.path.as_bytes().to_vec()));
    for (pinned, directory) in pinned_directories(plan).into_iter().chain(workspaces) {
        let opened = open_directory(&directory).map_err(|_gone| Errno::STALE)?;
        if !is_directory(&opened, pinned)? {
            return Err(Errno::STALE);
        }
    }
    Ok(())
}

/// The directories with which a plan begins, by what they are, and their paths.
pub(super) fn pinned_directories(plan: &Plan) -> Vec<((u64, u64), Vec<u8>)> {
    let mut directory = plan.directory.as_bytes().to_vec();
    let mut found = Vec::new();
    for step in &plan.steps {
        let Action::ChangeDirectory {
            operand,
            pinned: Some(pinned),
            ..
        } = &step.action
        else {
            break;
        };
        directory = joined(&directory, operand);
        found.push((*pinned, directory.clone()));
    }
    found
}

/// The stamps of everything that a plan was judged with.
pub(super) fn judged_stamps(plan: &Plan) -> impl Iterator<Item = &FileStamp> {
    let of_steps = plan.programs().filter_map(|program| program.stamp.as_ref());
    plan.files.iter().map(|file| &file.stamp).chain(of_steps)
}

/// Programs that give up when what they open is not what they looked at before, or lock it. None of them reads a script.
const COPIERS: &[&[u8]] = &[b"cp", b"flock", b"install", b"mv"];

/// Which of the judged programs these are, by the names of their files.
pub(super) fn copiers(plan: &Plan, executables: &[OwnedFd]) -> Vec<FileStamp> {
    let copies = |path: &[u8]| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        COPIERS.contains(&name)
    };
    let of_steps = plan.programs().filter_map(|program| {
        // Not by the path that was typed, which a link may have: this very file is what is started.
        let opened = executable_of(program, executables).ok()??;
        let path = countersign_sys::fs::path_of_descriptor(opened).ok()?;
        copies(path.to_bytes()).then_some(program.stamp).flatten()
    });
    let others = plan.files.iter().filter(|file| copies(file.path.to_bytes()));
    others.map(|file| file.stamp).chain(of_steps).collect()
}

fn executable_of<'a>(program: &Program, executables: &'a [OwnedFd]) -> Result<Option<BorrowedFd<'a>>, Errno> {
    let Some(index) = program.executable else {
        return Ok(None);
    };
    let found = executables.get(usize::from(index)).ok_or(Errno::INVAL)?;
    Ok(Some(found.as_fd()))
}

/// Something is not what was judged: nothing more of the run may start.
struct Changed;

/// The first process of a run of several steps.
struct Leader<'a> {
    launcher: &'a Launcher,
    plan: &'a Plan,
    executables: &'a [OwnedFd],
    on_terminal: bool,
    holds: Holds<'a>,
    /// `PWD`: the directory by the way that led there.
    directory: Vec<u8>,
    /// `OLDPWD`, once there was a `cd`.
    old_directory: Option<Vec<u8>>,
    /// Files of the temporary directory that its redirections made.
    made: MadeFiles,
    /// What variables of the run have. No program gets them.
    variables: BTreeMap<String, Vec<u8>>,
    /// What runs beside it, as far as it has not ended.
    background: RefCell<Vec<Beside>>,
    /// What began in the background last, `$!`; `None` where that could not begin.
    last_begun: Option<Pid>,
    /// Whether nobody reads any more what it writes, of which a shell would have ended.
    is_broken: bool,
    /// The exit code of the last pipeline, `$?`.
    status: i32,
    /// What it and its copies share: whether something was not what was judged, then a place for each list that runs beside
    /// them. `None` where it makes no copies.
    word: Option<SharedBytes>,
}

/// Something that runs in the background.
#[derive(Clone, Copy)]
struct Beside {
    pid: Pid,
    /// Its place among those of the run.
    place: usize,
}

/// When a copy of the leader ends at the latest.
#[derive(Clone, Copy)]
enum Life {
    /// With the process that it is a copy of.
    OfOriginal,
    /// With the run: what it begins in the background goes on where a subshell has ended.
    OfRun,
}

/// A builtin inside a pipeline, done once all programs of it were started, and where it writes.
struct Later<'a> {
    action: &'a Action,
    output: Option<OwnedFd>,
}

impl Leader<'_> {
    fn run(mut self) -> i32 {
        let plan = self.plan;
        if Step::all(&plan.steps).len() > plan.steps.len() {
            self.word = SharedBytes::new(1 + MAX_BACKGROUND).ok();
        }
        self.list(&plan.steps).unwrap_or(CANNOT_EXECUTE)
    }

    /// A list of pipelines; its exit code is that of the last one that ran.
    fn list(&mut self, steps: &[Step]) -> Result<i32, Changed> {
        let mut rest = steps;
        while let Some((first, behind)) = rest.split_first() {
            let piped = behind
                .iter()
                .take_while(|step| step.join == Some(StepJoin::Pipe))
                .count();
            let (pipeline, after) = rest.split_at_checked(1 + piped).unwrap_or((rest, &[]));
            rest = after;
            let runs = match first.join {
                None | Some(StepJoin::Sequence | StepJoin::Pipe) => true,
                Some(StepJoin::And) => self.status == 0,
                Some(StepJoin::Or) => self.status != 0,
            };
            if !runs {
                continue;
            }
            hooks::pause("sup.before-pipeline");
            self.status = self.one_pipeline(pipeline)?;
            if self.is_broken {
                break;
            }
        }
        Ok(self.status)
    }

    fn one_pipeline(&mut self, pipeline: &[Step]) -> Result<i32, Changed> {
        match pipeline {
            [step] => self.step(step),
            steps => self.pipeline(steps),
        }
    }

    /// A pipeline of one step, which may be a `cd`.
    fn step(&mut self, step: &Step) -> Result<i32, Changed> {
        match &step.action {
            Action::Program(program) => {
                let [input, output] = [rustix::stdio::stdin(), rustix::stdio::stdout()];
                match self.start(program, input, output)? {
                    Ok(pid) => {
                        let status = self.wait_for_all(&[pid]);
                        self.is_broken |= status == BROKEN_PIPE && writes_by_itself_in_shells(program);
                        Ok(status)
                    }
                    Err(code) => Ok(code),
                }
            }
            Action::ChangeDirectory {
                operand,
                pinned,
                quiet,
            } => self.change_directory(operand, *pinned, *quiet),
            Action::ApplyPatch(order) => Ok(apply_patch(order)),
            Action::All { steps, apart: false } => self.list(steps),
            Action::All {
                steps: _,
                apart: true,
            } => {
                let [input, output] = [rustix::stdio::stdin(), rustix::stdio::stdout()];
                match self.copy(std::slice::from_ref(step), input, output) {
                    Ok(pid) => self.code_of_copies(&[pid]),
                    Err(errno) => Ok(not_copied(errno)),
                }
            }
            Action::Not(steps) => match self.one_pipeline(steps)? {
                status if self.is_broken => Ok(status),
                status => Ok(i32::from(status == 0)),
            },
            Action::Turns { condition, steps } => self.turns(condition, steps),
            Action::Set(setting) => self.set(setting),
            Action::Background(steps) => self.begin(steps),
            Action::Wait => {
                wait_for_every();
                self.forget_beside(|_ended| true);
                self.code_of_copies(&[])
            }
            Action::Choice {
                condition,
                then,
                otherwise,
            } => {
                let status = self.list(condition)?;
                if self.is_broken {
                    Ok(status)
                } else if status == 0 {
                    self.list(then)
                } else if otherwise.is_empty() {
                    Ok(0)
                } else {
                    self.list(otherwise)
                }
            }
            builtin @ (Action::PrintDirectory { .. } | Action::Settle { .. }) => {
                let status = self.builtin(builtin, rustix::stdio::stdout());
                self.is_broken |= status == BROKEN_PIPE;
                Ok(status)
            }
        }
    }

    fn pipeline(&self, steps: &[Step]) -> Result<i32, Changed> {
        let mut running: Vec<Pid> = Vec::new();
        let mut later: Vec<Later<'_>> = Vec::new();
        // Of the last step, when it is no process.
        let mut known_status = None;
        let mut input: Option<OwnedFd> = None;
        let mut changed = Ok(());
        for (at, step) in steps.iter().enumerate() {
            known_status = None;
            let (next, output) = if at + 1 < steps.len() {
                match rustix::pipe::pipe_with(PipeFlags::CLOEXEC) {
                    Ok((read_end, write_end)) => (Some(read_end), Some(write_end)),
                    Err(errno) => {
                        complain(b"pipe", &reason(errno));
                        known_status = Some(BUILTIN_FAILED);
                        break;
                    }
                }
            } else {
                (None, None)
            };
            let from = input.as_ref().map_or_else(|| rustix::stdio::stdin(), AsFd::as_fd);
            let to = output
                .as_ref()
                .map_or_else(|| rustix::stdio::stdout(), AsFd::as_fd);
            match &step.action {
                Action::Program(program) => match self.start(program, from, to) {
                    Ok(Ok(pid)) => running.push(pid),
                    Ok(Err(code)) => known_status = Some(code),
                    Err(Changed) => {
                        changed = Err(Changed);
                        break;
                    }
                },
                Action::All { .. }
                | Action::Not(_)
                | Action::Choice { .. }
                | Action::Turns { .. }
                | Action::Set(_)
                | Action::Background(_)
                | Action::Wait => match self.copy(std::slice::from_ref(step), from, to) {
                    Ok(pid) => running.push(pid),
                    Err(errno) => known_status = Some(not_copied(errno)),
                },
                Action::ChangeDirectory { .. }
                | Action::PrintDirectory { .. }
                | Action::Settle { .. }
                | Action::ApplyPatch(_) => later.push(Later {
                    action: &step.action,
                    output,
                }),
            }
            input = next;
        }
        drop(input);
        let is_builtin_last = steps.last().is_some_and(|step| is_builtin(&step.action));
        for Later { action, output } in later {
            let to = output
                .as_ref()
                .map_or_else(|| rustix::stdio::stdout(), AsFd::as_fd);
            let code = self.builtin(action, to);
            if is_builtin_last {
                known_status = Some(code);
            }
        }
        let status = self.code_of_copies(&running);
        changed?;
        let status = status?;
        Ok(known_status.unwrap_or(status))
    }

    /// Starts a program. What cannot be executed has an exit code, as in a shell.
    fn start(
        &self,
        program: &Program,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> Result<Result<Pid, i32>, Changed> {
        // What stands in the words is known before the files are opened.
        let arguments = match self.arguments(program)? {
            Ok(arguments) => arguments,
            Err(errno) => {
                complain(program.path.to_bytes(), &reason(errno));
                return Ok(Err(CANNOT_EXECUTE));
            }
        };
        let standard = [input, output, rustix::stdio::stderr()];
        let standard = match Standard::of(program, standard, &self.made) {
            Ok(standard) => standard,
            Err(Unopened {
                file: Some(file),
                why: Errno::STALE,
            }) => {
                complain(
                    file.as_bytes(),
                    "the directory is no longer the one that was judged",
                );
                return Err(Changed);
            }
            Err(Unopened { file, why }) => {
                let what = file
                    .as_deref()
                    .map_or_else(|| program.path.to_bytes(), str::as_bytes);
                complain(what, &reason(why));
                return Ok(Err(NOT_REDIRECTED));
            }
        };
        match self.launch(program, arguments, &standard) {
            Ok(pid) => Ok(Ok(pid)),
            Err(Errno::STALE) => {
                let mut changed = program.files().filter(|file| !file.is_unchanged());
                let shown = changed.next().map_or(&program.path, |file| &file.path);
                complain(
                    shown.to_bytes(),
                    "it is no longer what was judged, and was not started",
                );
                Err(Changed)
            }
            Err(errno) => {
                complain(program.path.to_bytes(), &reason(errno));
                Ok(Err(match errno {
                    Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => NOT_FOUND,
                    _ => CANNOT_EXECUTE,
                }))
            }
        }
    }

    /// The arguments of a program with what is put into them.
    fn arguments(&self, program: &Program) -> Result<Result<Vec<u8>, Errno>, Changed> {
        let filled = self
            .filled(&program.arguments, &program.fills)?
            .map(|(arguments, _)| arguments);
        if let Ok(arguments) = &filled
            && !program.fills.is_empty()
            && is_read_as_option(arguments)
        {
            complain(
                program.path.to_bytes(),
                "a value is an option of the program, and none of the shell's own",
            );
            return Err(Changed);
        }
        Ok(filled)
    }

    /// Texts that each end with NUL, with what is put into them, and the exit code of the last list whose output that is.
    fn filled(&self, texts: &[u8], fills: &[Fill]) -> Result<Result<(Vec<u8>, i32), Errno>, Changed> {
        let mut status = 0;
        if fills.is_empty() {
            return Ok(Ok((texts.to_vec(), status)));
        }
        let place = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        let mut filled = Vec::with_capacity(texts.len());
        for (at, argument) in entries(texts).enumerate() {
            let mut begins = 0;
            let first = filled.len();
            let is_too_long = |filled: &Vec<u8>| filled.len() - first > MAX_ARGUMENT_BYTES;
            for fill in fills.iter().filter(|fill| place(fill.argument) == at) {
                let Some(literal) = argument.get(begins..place(fill.from)) else {
                    return Ok(Err(Errno::INVAL));
                };
                filled.extend_from_slice(literal);
                match &fill.with {
                    Filling::Status => filled.extend_from_slice(self.status.to_string().as_bytes()),
                    Filling::Background => match self.last_begun {
                        Some(pid) => filled.extend_from_slice(pid.to_string().as_bytes()),
                        None => return Ok(Err(Errno::CHILD)),
                    },
                    Filling::Output(steps) => match self.output_of(steps)? {
                        Ok((output, code)) => {
                            filled.extend_from_slice(&output);
                            status = code;
                        }
                        Err(errno) => return Ok(Err(errno)),
                    },
                    Filling::Variable(name) => match self.variables.get(name) {
                        Some(value) => filled.extend_from_slice(value),
                        // What was judged gave it a value first.
                        None => return Ok(Err(Errno::INVAL)),
                    },
                }
                if is_too_long(&filled) {
                    return Ok(Err(Errno::TOOBIG));
                }
                begins = place(fill.to);
            }
            let Some(literal) = argument.get(begins..) else {
                return Ok(Err(Errno::INVAL));
            };
            filled.extend_from_slice(literal);
        }
        Ok(Ok((filled, status)))
    }

    /// Does a list before each turn of a loop, or reads a line, and the turn where that went well. The exit code is that of the last turn.
    fn turns(&mut self, condition: &Condition, steps: &[Step]) -> Result<i32, Changed> {
        let mut status = 0;
        loop {
            let goes_on = match condition {
                Condition::Line { variable, trims, raw } => match read_line() {
                    Ok(Some(line)) if *raw || !line.contains(&b'\\') => {
                        let line = if *trims { trimmed(&line) } else { &line };
                        self.keep(variable, line.to_vec())?;
                        self.status = 0;
                        true
                    }
                    // A shell would take it apart.
                    Ok(Some(_)) => {
                        complain(
                            b"read",
                            "a line with a backslash, which only read -r takes as it is",
                        );
                        return Err(Changed);
                    }
                    Ok(None) => false,
                    Err(errno) => {
                        complain(b"read", &reason(errno));
                        return Err(Changed);
                    }
                },
                Condition::While(steps) => self.list(steps)? == 0,
                Condition::Until(steps) => self.list(steps)? != 0,
            };
            if self.is_broken {
                return Ok(BROKEN_PIPE);
            }
            if !goes_on {
                return Ok(status);
            }
            status = self.list(steps)?;
            if self.is_broken {
                return Ok(BROKEN_PIPE);
            }
        }
    }

    /// Gives a variable its value. The exit code is that of the list whose output it gets.
    fn set(&mut self, setting: &Setting) -> Result<i32, Changed> {
        let Setting {
            variable,
            value,
            fills,
        } = setting;
        match self.filled(value, fills)? {
            Ok((value, status)) => {
                let value = value.strip_suffix(b"\0").unwrap_or(&value);
                self.keep(variable, value.to_vec())?;
                Ok(status)
            }
            Err(errno) => {
                // A shell would go on with a value that was cut, or with none.
                complain(variable.as_bytes(), &reason(errno));
                Err(Changed)
            }
        }
    }

    /// Keeps the value of a variable, as long as all of them together are no more than [`MAX_VARIABLES`].
    fn keep(&mut self, variable: &str, value: Vec<u8>) -> Result<(), Changed> {
        self.variables.insert(variable.to_owned(), value);
        if self.variables.values().map(Vec::len).sum::<usize>() > MAX_VARIABLES {
            complain(
                variable.as_bytes(),
                "the values of the variables are too long together",
            );
            return Err(Changed);
        }
        Ok(())
    }

    /// Takes one of the places of the run for what runs beside it.
    fn take_place(&self) -> Option<usize> {
        let places = self
            .word
            .map(SharedBytes::get)
            .into_iter()
            .flatten()
            .enumerate()
            .skip(1);
        let taken = |byte: &AtomicU8| {
            byte.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
        };
        places
            .into_iter()
            .find(|(_, byte)| taken(byte))
            .map(|(place, _)| place)
    }

    fn give_place_back(&self, place: usize) {
        if let Some(byte) = self.word.and_then(|word| word.get().get(place)) {
            byte.store(0, Ordering::SeqCst);
        }
    }

    /// Of what runs beside it, these have ended. What a copy that has ended left running keeps its place as long as the run.
    fn forget_beside(&self, has_ended: impl Fn(Pid) -> bool) {
        self.background.borrow_mut().retain(|beside| {
            let ended = has_ended(beside.pid);
            if ended {
                self.give_place_back(beside.place);
            }
            !ended
        });
    }

    /// A place for one more list in the background, once there is one.
    fn await_place(&self) -> Result<usize, Changed> {
        loop {
            if let Some(place) = self.take_place() {
                return Ok(place);
            }
            if self.background.borrow().is_empty() {
                complain(b"&", "too many commands run in the background");
                return Err(Changed);
            }
            match process::wait_any() {
                Ok(Some((pid, _ended))) => self.forget_beside(|other| other == pid),
                Ok(None) | Err(_) => self.forget_beside(|_other| true),
            }
        }
    }

    /// Begins steps that run beside what follows, with nothing to read. The exit code is 0, as that of `&` is.
    fn begin(&mut self, steps: &[Step]) -> Result<i32, Changed> {
        let place = self.await_place()?;
        let begun = self.begin_at(steps);
        if !matches!(begun, Ok(Some(_))) {
            self.give_place_back(place);
        }
        let begun = begun?;
        self.last_begun = begun;
        self.background
            .borrow_mut()
            .extend(begun.map(|pid| Beside { pid, place }));
        Ok(if begun.is_some() || is_lone_program(steps) {
            0
        } else {
            CANNOT_EXECUTE
        })
    }

    /// The process that does the steps; `None` where it could not be started, and said so.
    fn begin_at(&self, steps: &[Step]) -> Result<Option<Pid>, Changed> {
        let input = match open_null() {
            Ok(input) => input,
            Err(errno) => {
                not_copied(errno);
                return Ok(None);
            }
        };
        let output = rustix::stdio::stdout();
        if let [
            Step {
                action: Action::Program(program),
                ..
            },
        ] = steps
            // What is put into its words would have to be waited for.
            && program.fills.is_empty()
        {
            // What cannot be started says so, and what follows goes on.
            return Ok(self.start(program, input.as_fd(), output)?.ok());
        }
        match self.copy_for(Life::OfRun, steps, input.as_fd(), output) {
            Ok(pid) => Ok(Some(pid)),
            Err(errno) => {
                not_copied(errno);
                Ok(None)
            }
        }
    }

    /// What steps write to standard output, without the newlines at its end and without NUL, which no argument can hold. A copy of
    /// this process does them.
    fn output_of(&self, steps: &[Step]) -> Result<Result<(Vec<u8>, i32), Errno>, Changed> {
        let (reader, writer) = match rustix::pipe::pipe_with(PipeFlags::CLOEXEC) {
            Ok(ends) => ends,
            Err(errno) => return Ok(Err(errno)),
        };
        let pid = match self.copy(steps, rustix::stdio::stdin(), writer.as_fd()) {
            Ok(pid) => pid,
            Err(errno) => return Ok(Err(errno)),
        };
        drop(writer);
        let read = read_argument(&reader);
        // What still writes is told that nothing reads.
        drop(reader);
        let code = self.code_of_copies(&[pid])?;
        Ok(read.map(|read| (read, code)))
    }

    /// A copy of this process that does steps with another input and output: what they change of the directory ends with it.
    fn copy(&self, steps: &[Step], input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> Result<Pid, Errno> {
        self.copy_for(Life::OfOriginal, steps, input, output)
    }

    fn copy_for(
        &self,
        life: Life,
        steps: &[Step],
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> Result<Pid, Errno> {
        // What it finds changed it cannot tell by its exit code, which may be any.
        let Some(word) = self.word else {
            return Err(Errno::NOMEM);
        };
        let leader = process::own_id();
        match process::fork() {
            Ok(Forked::Parent(pid)) => Ok(pid),
            Ok(Forked::Child) => {
                let original = match life {
                    Life::OfOriginal => Some(leader),
                    Life::OfRun => None,
                };
                let done = self.work_apart(original, [input, output], steps);
                process::exit_now(done.unwrap_or_else(|Changed| {
                    if let Some(byte) = word.get().first() {
                        byte.store(1, Ordering::SeqCst);
                    }
                    CANNOT_EXECUTE
                }))
            }
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)),
        }
    }

    /// What a copy of the leader does: steps, with nothing else of the leader's open.
    fn work_apart(
        &self,
        original: Option<Pid>,
        [input, output]: [BorrowedFd<'_>; 2],
        steps: &[Step],
    ) -> Result<i32, Changed> {
        let ends_with_it = original.map(|_| Signal::KILL);
        let begun = rustix::process::set_parent_process_death_signal(ends_with_it)
            // Neither has the number of the other.
            .and_then(|()| rustix::stdio::dup2_stdin(input))
            .and_then(|()| rustix::stdio::dup2_stdout(output))
            .and_then(|()| {
                let Holds { rulesets, whom, .. } = self.holds;
                let kept = self.executables.iter().chain(rulesets).map(AsFd::as_fd);
                process::close_all_but(3, kept.chain(whom))
            });
        if let Err(errno) = begun {
            return Ok(not_copied(errno));
        }
        // It ended before it was to be told of.
        if original.is_some_and(|original| process::parent() != original) {
            return Ok(CANNOT_EXECUTE);
        }
        let mut copy = Leader {
            launcher: self.launcher,
            plan: self.plan,
            executables: self.executables,
            on_terminal: self.on_terminal,
            holds: self.holds,
            directory: self.directory.clone(),
            old_directory: self.old_directory.clone(),
            made: MadeFiles::default(),
            variables: self.variables.clone(),
            background: RefCell::default(),
            last_begun: self.last_begun,
            is_broken: false,
            status: self.status,
            word: self.word,
        };
        match steps {
            // It is this copy in which it is apart.
            [
                Step {
                    action: Action::All { steps, apart: _ },
                    ..
                },
            ] => copy.list(steps),
            // A part of a pipeline is joined to the one before by a pipe.
            [step] => copy.step(step),
            steps => copy.list(steps),
        }
    }

    /// The exit code of the last of these processes, once all of them ended, unless a copy found something changed.
    fn code_of_copies(&self, pids: &[Pid]) -> Result<i32, Changed> {
        let code = self.wait_for_all(pids);
        let changed = self.word.and_then(|word| word.get().first());
        if changed.is_some_and(|byte| byte.load(Ordering::SeqCst) != 0) {
            return Err(Changed);
        }
        Ok(code)
    }

    fn launch(&self, program: &Program, arguments: Vec<u8>, standard: &Standard<'_>) -> Result<Pid, Errno> {
        let mut directories = vec![(b"PWD".as_slice(), self.directory.as_slice())];
        directories.extend(
            self.old_directory
                .as_deref()
                .map(|old| (b"OLDPWD".as_slice(), old)),
        );
        let environment = environment(&self.plan.environment, &directories, &program.assignments);
        let files: Vec<JudgedFile> = program.files().cloned().collect();
        let filter = self.holds.filter(program)?;
        let launch = Launch {
            direct: None,
            program: &program.path,
            executable: executable_of(program, self.executables)?,
            judged: JudgedFiles {
                stamp: program.stamp.as_ref(),
                files: &files,
            },
            arguments: &Strings::from_nul_terminated(arguments).ok_or(Errno::INVAL)?,
            environment: &Strings::from_nul_terminated(environment).ok_or(Errno::INVAL)?,
            place: None,
            standard: standard.descriptors(),
            takes_terminal: false,
            ruleset: self.holds.ruleset(program)?,
            asks: filter.as_ref().map(|filter| self.holds.asks(filter, program)),
        };
        self.launcher.launch_inside(&launch)
    }

    /// The exit code of the last of these processes, once all of them ended.
    fn wait_for_all(&self, pids: &[Pid]) -> i32 {
        let mut left = pids.to_vec();
        let mut status = 0;
        let mut is_interrupted = false;
        while !left.is_empty() {
            // Without any child nobody is left to wait for.
            let Ok(Some((pid, ended))) = process::wait_any() else {
                break;
            };
            left.retain(|other| *other != pid);
            self.forget_beside(|other| other == pid);
            is_interrupted |= matches!(ended, Ended::Signal(libc::SIGINT | libc::SIGQUIT));
            if pids.last() == Some(&pid) {
                status = match ended {
                    Ended::Code(code) => code,
                    Ended::Signal(signal) => 128 + signal,
                };
            }
        }
        if self.on_terminal && is_interrupted {
            process::heed_interruption();
        }
        status
    }

    fn change_directory(
        &mut self,
        operand: &[u8],
        pinned: Option<(u64, u64)>,
        quiet: bool,
    ) -> Result<i32, Changed> {
        let target = joined(&self.directory, operand);
        // Without a way up, where it stands is better than what the way there means by now.
        let is_plain =
            !operand.starts_with(b"/") && operand.split(|byte| *byte == b'/').all(|part| part != b"..");
        let opened = open_directory(if is_plain { operand } else { &target });
        let entered = opened.and_then(|directory| match pinned {
            Some(pinned) if !is_directory(&directory, pinned)? => Err(Errno::STALE),
            Some(_) | None => rustix::process::fchdir(&directory),
        });
        match entered {
            Ok(()) => {
                self.old_directory = Some(std::mem::replace(&mut self.directory, target));
                Ok(0)
            }
            Err(Errno::STALE) => {
                complain(operand, "it is no longer the directory that was judged");
                Err(Changed)
            }
            Err(errno) => {
                if !quiet {
                    complain(&[b"cd: ", operand].concat(), &reason(errno));
                }
                Ok(BUILTIN_FAILED)
            }
        }
    }

    fn builtin(&self, action: &Action, output: BorrowedFd<'_>) -> i32 {
        let mut line = match action {
            Action::Settle { succeeds } => return i32::from(!succeeds),
            Action::PrintDirectory { physical: true } => match rustix::process::getcwd(Vec::new()) {
                Ok(directory) => directory.into_bytes(),
                Err(errno) => {
                    complain(b"pwd", &reason(errno));
                    return BUILTIN_FAILED;
                }
            },
            Action::PrintDirectory { physical: false } => self.directory.clone(),
            // Alone in their pipelines, or no builtins: the other arms of those who call.
            Action::ChangeDirectory { .. }
            | Action::Program(_)
            | Action::ApplyPatch(_)
            | Action::All { .. }
            | Action::Not(_)
            | Action::Choice { .. }
            | Action::Turns { .. }
            | Action::Set(_)
            | Action::Background(_)
            | Action::Wait => return BUILTIN_FAILED,
        };
        line.push(b'\n');
        match write_all(output, &line) {
            Ok(()) => 0,
            Err(Errno::PIPE) => BROKEN_PIPE,
            Err(_) => BUILTIN_FAILED,
        }
    }
}

/// Whether shells do it themselves, so that they end where nobody reads it any more.
fn writes_by_itself_in_shells(program: &Program) -> bool {
    let name = entries(&program.arguments).next().map(without_nul);
    name.is_some_and(|name| [b"echo".as_slice(), b"printf", b"pwd"].contains(&name))
}

/// Whether the programs `echo` and `printf` take their one argument for an option, which those of shells print.
fn is_read_as_option(arguments: &[u8]) -> bool {
    let words: Vec<&[u8]> = entries(arguments).map(without_nul).collect();
    match words.as_slice() {
        [name, word] => {
            [b"echo".as_slice(), b"printf"].contains(name)
                && [b"--help".as_slice(), b"--version"].contains(word)
        }
        _ => false,
    }
}

/// Whether steps are one program, which says by itself that it cannot be started.
fn is_lone_program(steps: &[Step]) -> bool {
    matches!(steps, [Step { action: Action::Program(program), .. }] if program.fills.is_empty())
}

/// Whether a step is done by the leader itself.
const fn is_builtin(action: &Action) -> bool {
    match action {
        Action::ChangeDirectory { .. }
        | Action::PrintDirectory { .. }
        | Action::Settle { .. }
        | Action::ApplyPatch(_) => true,
        Action::Program(_)
        | Action::All { .. }
        | Action::Not(_)
        | Action::Choice { .. }
        | Action::Turns { .. }
        | Action::Set(_)
        | Action::Background(_)
        | Action::Wait => false,
    }
}

/// Waits for every child there is.
fn wait_for_every() {
    while let Ok(Some(_ended)) = process::wait_any() {}
}

/// The next line of standard input without its newline; `None` where no whole line is left. One byte at a time, since what follows
/// belongs to programs that read, too.
fn read_line() -> Result<Option<Vec<u8>>, Errno> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) if byte == *b"\n" => return Ok(Some(line)),
            // No word of a program can hold it, and shells read it in different ways.
            Ok(_) if byte == [0] => return Err(Errno::ILSEQ),
            Ok(_) if line.len() >= MAX_ARGUMENT_BYTES => return Err(Errno::TOOBIG),
            Ok(_) => line.extend_from_slice(&byte),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// A line without spaces and tabs at both ends.
fn trimmed(line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let begins = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let ends = line
        .iter()
        .rposition(|byte| !is_blank(byte))
        .map_or(begins, |last| last + 1);
    line.get(begins..ends).unwrap_or_default()
}

/// Says that no copy of the leader could be made; the exit code of what it was to do.
fn not_copied(errno: Errno) -> i32 {
    complain(b"fork", &reason(errno));
    CANNOT_EXECUTE
}

/// Applies a patch where this process stands and says on standard output what came of it.
fn apply_patch(order: &PatchOrder) -> i32 {
    // To be told to end must not leave half of it: the rest is done or taken back, and that is soon. Without this it
    // would be like being killed.
    process::put_off_termination().unwrap_or(());
    let (line, code) = match patch::apply(order) {
        Ok(applied) => (countersign_protocol::patch::applied(&applied), 0),
        Err(failure) => (failure.to_line(), PATCH_FAILED),
    };
    match write_all(rustix::stdio::stdout(), line.as_bytes()) {
        Ok(()) => code,
        Err(_nobody_reads) => BUILTIN_FAILED,
    }
}

/// An environment with some variables set anew, the later ones over the earlier.
fn environment(base: &[u8], changes: &[(&[u8], &[u8])], assignments: &[u8]) -> Vec<u8> {
    if changes.is_empty() && assignments.is_empty() {
        return base.to_vec();
    }
    let own: Vec<Vec<u8>> = changes
        .iter()
        .map(|(name, value)| [name, b"=".as_slice(), value, b"\0"].concat())
        .collect();
    let mut kept: Vec<&[u8]> = Vec::new();
    let all = entries(base)
        .chain(own.iter().map(Vec::as_slice))
        .chain(entries(assignments));
    for entry in all {
        kept.retain(|other| name_of(other) != name_of(entry));
        kept.push(entry);
    }
    kept.concat()
}

/// Texts that each end with NUL, with it.
fn entries(texts: &[u8]) -> impl Iterator<Item = &[u8]> {
    texts.split_inclusive(|byte| *byte == 0)
}

fn without_nul(entry: &[u8]) -> &[u8] {
    entry.strip_suffix(b"\0").unwrap_or(entry)
}

fn name_of(entry: &[u8]) -> &[u8] {
    entry.split(|byte| *byte == b'=').next().unwrap_or(entry)
}

/// A path from a directory on, without `.`, `..` and double slashes, as `cd` remembers it.
fn joined(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let from = if path.starts_with(b"/") {
        b"".as_slice()
    } else {
        directory
    };
    for part in [from, path]
        .into_iter()
        .flat_map(|path| path.split(|byte| *byte == b'/'))
    {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut joined = vec![b'/'];
    joined.extend(parts.join(&b'/'));
    joined
}

fn open_directory(path: &[u8]) -> Result<OwnedFd, Errno> {
    let path = CString::new(path).map_err(|_nul| Errno::INVAL)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open::<&CStr>(&path, flags, Mode::empty())
}

fn is_directory(opened: &OwnedFd, (dev, ino): (u64, u64)) -> Result<bool, Errno> {
    let found = stamp::of_open(opened)?;
    Ok((found.dev, found.ino) == (dev, ino))
}

/// Says on the standard error of the run what a shell would say there.
fn complain(what: &[u8], why: &str) {
    let line = [b"countersign: ".as_slice(), what, b": ", why.as_bytes(), b"\n"].concat();
    // Nobody there to read it.
    write_all(rustix::stdio::stderr(), &line).unwrap_or(());
}

fn reason(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    // Without the number behind it.
    text.rsplit_once(" (os error")
        .map_or_else(|| text.clone(), |(words, _number)| words.to_owned())
}

fn write_all(to: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_cd_remembers_them() {
        for (directory, path, expected) in [
            ("/a/b", "./c", "/a/b/c"),
            ("/a/b", "../c", "/a/c"),
            ("/a/b", "/c//d/", "/c/d"),
            ("/", "../..", "/"),
            ("/a/b", ".", "/a/b"),
        ] {
            assert_eq!(
                joined(directory.as_bytes(), path.as_bytes()),
                expected.as_bytes(),
                "{path}"
            );
        }
    }

    #[test]
    fn a_variable_is_in_the_environment_once() {
        let base = b"A=1\0PWD=/old\0B=x=y\0";
        assert_eq!(environment(base, &[], b""), base);
        assert_eq!(
            environment(base, &[(b"PWD", b"/new")], b"A=2\0C=\0A=3\0"),
            b"B=x=y\0PWD=/new\0C=\0A=3\0"
        );
    }
}
