//! Starting a command from a supervisor: `clone(CLONE_VM | CLONE_VFORK)`, so that nothing is copied.
#![expect(unsafe_code, reason = "clone and execveat have no safe wrapper in rustix")]

use std::{
    ffi::{CStr, CString, OsString, c_char, c_int, c_void},
    fmt, io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
};

use rustix::{fs::AtFlags, io::Errno, process::Signal};

use super::{Pid, Process, inspect, signals};
use crate::{fs::FileStamp, hooks, interception::Filter, landlock, namespace::Confines, stamp};

/// Bytes of the stack on which a child runs until it executes, without the guard page below it.
const STACK_BYTES: usize = 128 * 1024;
const GUARD_BYTES: usize = 64 * 1024;

/// Texts as the kernel takes argument and environment lists: each ends with NUL, the list with a null pointer.
pub struct Strings {
    bytes: Vec<u8>,
    pointers: Vec<*const c_char>,
}

impl Strings {
    /// Takes over texts that each end with NUL; `None` when the last one does not.
    pub fn from_nul_terminated(bytes: Vec<u8>) -> Option<Self> {
        if bytes.last().is_some_and(|byte| *byte != 0) {
            return None;
        }
        let mut pointers: Vec<_> = bytes
            .split_inclusive(|byte| *byte == 0)
            .map(|text| text.as_ptr().cast::<c_char>())
            .collect();
        pointers.push(ptr::null());
        Some(Self { bytes, pointers })
    }

    /// The number of texts.
    pub const fn len(&self) -> usize {
        self.pointers.len() - 1
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Strings {
    /// Shows no text: environments hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Strings")
            .field("len", &self.len())
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// A program that needs no shell, tried before the shell that could start it too.
///
/// It is looked for as a shell does it, at the moment when the shell would: the first of the candidates that is there is
/// executed. Where none is there, where one cannot be looked at, and where it cannot be executed, the shell is started,
/// which says about that what it says.
#[derive(Debug)]
pub struct DirectStart<'a> {
    /// Its arguments, its name included.
    pub arguments: &'a Strings,
    /// The whole environment but the variable `_`, which tells it where it was found.
    pub environment: &'a Strings,
    /// Where it may be, in the order in which a shell looks.
    pub candidates: &'a [Candidate],
}

/// A place where a program may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The variable `_` with the path as its value.
    told: CString,
}

impl Candidate {
    const TELLS: &'static [u8] = b"_=";

    /// One at this path; `None` when that has a NUL.
    pub fn at(path: &[u8]) -> Option<Self> {
        let told = CString::new([Self::TELLS, path].concat()).ok()?;
        Some(Self { told })
    }

    fn path(&self) -> &CStr {
        let bytes = self.told.as_bytes_with_nul();
        let path = bytes.get(Self::TELLS.len()..).unwrap_or_default();
        CStr::from_bytes_with_nul(path).unwrap_or_default()
    }
}

/// What a child is to become.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What is tried first, of a launch whose own program is a shell.
    pub direct: Option<DirectStart<'a>>,
    /// Path of the program.
    pub program: &'a CStr,
    /// The program, opened and checked before. When set, it is started from here, even if the path means something else
    /// by now.
    pub executable: Option<BorrowedFd<'a>>,
    /// What the program must still be at the last moment before it is started.
    pub judged: JudgedFiles<'a>,
    /// Arguments, the program's name included.
    pub arguments: &'a Strings,
    /// The whole environment, each variable as `NAME=VALUE`.
    pub environment: &'a Strings,
    /// Where it starts; `None` where the caller stands already.
    pub place: Option<StartPlace<'a>>,
    /// Descriptors 0, 1 and 2. One of these numbers stands for itself alone.
    pub standard: [BorrowedFd<'a>; 3],
    /// Whether descriptor 0 is a terminal that becomes the one of its session. Only of a session of its own.
    pub takes_terminal: bool,
    /// What it and everything that it starts is held to by the kernel: a ruleset of [`crate::landlock`].
    pub ruleset: Option<BorrowedFd<'a>>,
    /// What makes its calls wait for an answer, or refuses them.
    pub asks: Option<Asks<'a>>,
}

/// How the calls of a program come to be answered by another process.
#[derive(Debug, Clone, Copy)]
pub struct Asks<'a> {
    /// Which calls wait.
    pub filter: &'a Filter,
    /// Where the end goes at which they are answered. `None` where nobody answers.
    pub whom: Option<BorrowedFd<'a>>,
    /// What that end is told of the program: [`crate::interception::Filter::install`].
    pub tag: u8,
}

/// The working directory of a command, and what it is put into.
#[derive(Debug, Clone, Copy)]
pub struct StartPlace<'a> {
    /// The working directory, opened.
    pub directory: BorrowedFd<'a>,
    /// What the command is put into, with the path of the directory.
    pub confines: Option<(&'a Confines, &'a CStr)>,
    /// Files that it can neither execute nor read inside of them.
    pub masked: &'a [CString],
}

impl StartPlace<'_> {
    /// Takes this process there. Safe to call between `clone` and `exec`.
    pub(super) fn enter(&self) -> Result<(), Errno> {
        match self.confines {
            None => rustix::process::fchdir(self.directory),
            Some((confines, path)) => confines.enter(self.directory, path, self.masked),
        }
    }
}

/// What was judged, for the last look before a start.
#[derive(Debug, Clone, Copy, Default)]
pub struct JudgedFiles<'a> {
    /// The stamp of the executable.
    pub stamp: Option<&'a FileStamp>,
    /// Files that the program finds by their paths.
    pub files: &'a [JudgedFile],
}

impl JudgedFiles<'_> {
    /// `STALE` when something is not what was judged. Allocates nothing.
    fn look(&self, executable: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        if let Some(judged) = self.stamp {
            let found = executable.map(stamp::of_open).transpose()?;
            if found.as_ref() != Some(judged) {
                return Err(Errno::STALE);
            }
        }
        if self.files.iter().all(JudgedFile::is_unchanged) {
            Ok(())
        } else {
            Err(Errno::STALE)
        }
    }
}

/// A file that another program will open by its path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JudgedFile {
    /// The path that the program will open.
    pub path: CString,
    /// What it must lead to.
    pub stamp: FileStamp,
    /// SHA-256 of the content, where that counts.
    pub sha256: Option<[u8; 32]>,
}

impl JudgedFile {
    /// Whether it is what was judged. Allocates nothing.
    pub fn is_unchanged(&self) -> bool {
        stamp::is_unchanged(&self.path, &self.stamp, self.sha256.as_ref())
    }
}

/// How [`Launcher::launch`] went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launched {
    /// The program was executed, or what was to be tried first; this is its process.
    Running(Process),
    /// What was to be tried first could not be executed: this is the process of the program.
    Instead(Process),
    /// The program could not be executed. The child is gone again.
    NotExecuted(Errno),
}

/// Nothing was started, and the step before execution did not happen either.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There was no process to be had.
    #[error("could not make a process")]
    Process(#[source] io::Error),
    /// The step before execution failed in the child.
    #[error("the step before execution failed")]
    BeforeExecution(#[source] Errno),
    /// The child was killed before it got to that step.
    #[error("the child vanished before it executed anything")]
    Vanished,
}

/// Starts commands; owns the stack that their first steps run on.
#[derive(Debug)]
pub struct Launcher {
    stack: *mut u8,
}

impl Launcher {
    /// Maps the stack.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                GUARD_BYTES + STACK_BYTES,
                protection,
                flags,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: these are the first pages of the mapping just made, which nothing uses yet.
        if unsafe { libc::mprotect(base, GUARD_BYTES, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { stack: base.cast() })
    }

    /// Starts a command in a session of its own and returns once it executes or failed to.
    ///
    /// `before_execution` runs in the child, which shares this process's memory: it must not allocate, lock or
    /// panic, since the child may be killed at any instruction and leave that half done.
    ///
    /// # Errors
    /// [`LaunchError`] when no child got as far as past `before_execution`.
    pub fn launch(
        &self,
        launch: &Launch<'_>,
        before_execution: &mut dyn FnMut(&Process) -> Result<(), Errno>,
    ) -> Result<Launched, LaunchError> {
        let mut child = Child::new(launch, Some(before_execution));
        let pid = self.clone(&mut child).map_err(LaunchError::Process)?;
        let errno = child.errno.load(Ordering::Relaxed);
        match (child.is_past_step.load(Ordering::Relaxed), errno, child.process) {
            (true, 0, Some(process)) if child.is_passed_over.load(Ordering::Relaxed) => {
                Ok(Launched::Instead(process))
            }
            (true, 0, Some(process)) => Ok(Launched::Running(process)),
            (true, _, _) => {
                self.collect(pid);
                Ok(Launched::NotExecuted(Errno::from_raw_os_error(errno)))
            }
            (false, 0, _) => {
                self.collect(pid);
                Err(LaunchError::Vanished)
            }
            (false, _, _) => {
                self.collect(pid);
                Err(LaunchError::BeforeExecution(Errno::from_raw_os_error(errno)))
            }
        }
    }

    /// Starts a command in the session and the group of this process and returns once it executes.
    ///
    /// # Errors
    /// Why it could not be executed; `STALE` when something is not what was judged. The child is gone again.
    pub fn launch_inside(&self, launch: &Launch<'_>) -> Result<Pid, Errno> {
        let mut child = Child::new(launch, None);
        let pid = self
            .clone(&mut child)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        match child.errno.load(Ordering::Relaxed) {
            0 => Ok(pid),
            errno => {
                self.collect(pid);
                Err(Errno::from_raw_os_error(errno))
            }
        }
    }

    fn clone(&self, child: &mut Child<'_, '_>) -> io::Result<Pid> {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the mapping is GUARD_BYTES + STACK_BYTES long, so this points to its end.
        let top = unsafe { self.stack.add(GUARD_BYTES + STACK_BYTES) };
        let argument = ptr::from_mut(child).cast::<c_void>();
        // SAFETY: this process has one thread, which CLONE_VFORK suspends until the child executes or exits, so
        // the child alone uses `child`, the heap and the stack it is given; `enter` never returns into our frames.
        let pid = unsafe { libc::clone(enter, top.cast(), flags, argument) };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(pid)
    }

    /// Reaps a child that exits already.
    #[expect(clippy::unused_self, reason = "only a launcher has such children")]
    fn collect(&self, pid: Pid) {
        drop(super::wait_for(pid));
    }
}

/// What a child does before it executes, with what is known of it.
type Step<'a> = &'a mut dyn FnMut(&Process) -> Result<(), Errno>;

struct Child<'a, 'b> {
    launch: &'a Launch<'b>,
    /// Of a child that leads a session of its own.
    before_execution: Option<Step<'a>>,
    parent: Pid,
    process: Option<Process>,
    is_past_step: AtomicBool,
    /// Whether what was to be tried first was not executed.
    is_passed_over: AtomicBool,
    /// The environment of what is tried first, with a place for one variable more.
    direct_environment: Vec<*const c_char>,
    errno: AtomicI32,
}

impl<'a, 'b> Child<'a, 'b> {
    fn new(launch: &'a Launch<'b>, before_execution: Option<Step<'a>>) -> Self {
        Self {
            launch,
            before_execution,
            parent: rustix::process::getpid().as_raw_pid(),
            process: None,
            is_past_step: AtomicBool::new(false),
            is_passed_over: AtomicBool::new(false),
            direct_environment: launch.direct.as_ref().map_or_else(Vec::new, |direct| {
                let mut pointers = direct.environment.pointers.clone();
                pointers.push(ptr::null());
                pointers
            }),
            errno: AtomicI32::new(0),
        }
    }
}

/// The first function of the child, on its own stack.
extern "C" fn enter(argument: *mut c_void) -> c_int {
    // SAFETY: `launch` passed a pointer to its `Child`, which lives until the child executed or exited, and which
    // the suspended parent does not touch meanwhile.
    let child = unsafe { &mut *argument.cast::<Child<'_, '_>>() };
    let Err(errno) = become_command(child);
    child.errno.store(errno.raw_os_error(), Ordering::Relaxed);
    super::exit_now(127)
}

enum Never {}

fn become_command(child: &mut Child<'_, '_>) -> Result<Never, Errno> {
    if let Some(before_execution) = &mut child.before_execution {
        rustix::process::setsid()?;
        let process =
            inspect::current().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        child.process = Some(process);
        before_execution(&process)?;
        child.is_past_step.store(true, Ordering::Relaxed);
    }
    let Launch {
        direct,
        program,
        executable,
        judged,
        arguments,
        environment,
        place,
        standard,
        takes_terminal,
        ruleset,
        asks,
    } = child.launch;
    if let Some(place) = place {
        place.enter()?;
    }
    if child.before_execution.is_some() {
        // A supervisor that is killed takes its command along. After all changes of credentials, any of which may take
        // this back. Not so the leader of a run of several programs: asked to end, it ends at once, and they may take
        // their time for it. Without it they are orphans like those of a shell.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    // One that was killed before this line is another parent.
    if super::parent() != child.parent {
        super::exit_now(127);
    }
    let [input, output, errors] = standard;
    rustix::stdio::dup2_stdin(input)?;
    rustix::stdio::dup2_stdout(output)?;
    rustix::stdio::dup2_stderr(errors)?;
    if *takes_terminal {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    signals::close_on_exec_from(3);
    if hooks::protection_off("descriptors") {
        hooks::hand_down_descriptors();
    }
    signals::set_default(libc::SIGPIPE);
    signals::set_mask(&[]).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))?;
    hooks::pause("sup.before-execution");
    judged.look(*executable)?;
    let is_at_path = || executable.is_some_and(|file| is_same_file(file, program));
    let mut was_at_path = None;
    if asks.is_some() || ruleset.is_some() {
        was_at_path = Some(is_at_path());
    }
    if let Some(ruleset) = ruleset {
        rustix::thread::set_no_new_privs(true)?;
        landlock::restrict(*ruleset)?;
    }
    let mut mark = 0;
    if let Some(Asks { filter, whom, tag }) = asks {
        mark = filter.mark();
        // From here on no path may be opened or looked at: who answers waits for the execution.
        filter.install(*whom, *tag)?;
    }
    if let Some(direct) = direct {
        execute_first(direct, &mut child.direct_environment, mark);
        child.is_passed_over.store(true, Ordering::Relaxed);
    }
    match executable {
        None => Err(execute_path(program, arguments, environment, mark)),
        Some(file) => match execute_file(*file, arguments, environment, mark) {
            // A script whose first line nobody read before: the kernel cannot hand a descriptor that is closed on
            // execution to the interpreter. The path is as good as long as it still means that file.
            Errno::NOENT if was_at_path.unwrap_or_else(is_at_path) => {
                Err(execute_path(program, arguments, environment, mark))
            }
            errno => Err(errno),
        },
    }
}

/// Becomes another program, with this process's environment. The first word is its path and its name.
///
/// # Errors
/// Why it could not: it comes back only then.
pub fn execute(words: &[OsString]) -> io::Error {
    let texts: Result<Vec<CString>, _> = words.iter().map(|word| CString::new(word.as_bytes())).collect();
    let Ok(texts) = texts else {
        return io::Error::from(io::ErrorKind::InvalidInput);
    };
    let Some(program) = texts.first() else {
        return io::Error::from(io::ErrorKind::InvalidInput);
    };
    let mut pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    pointers.push(ptr::null());
    // Rust's runtime ignores it, and a program would inherit that.
    signals::set_default(libc::SIGPIPE);
    // SAFETY: the path ends with NUL, the list with a null pointer, and both outlive the call.
    unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Becomes the first of these programs that can be executed, with these descriptors as 0, 1 and 2 and nothing else open.
/// `last` is done right before.
///
/// # Errors
/// Why none could be executed: it comes back only then.
pub fn execute_one_of(
    programs: &[CString],
    arguments: &Strings,
    environment: &Strings,
    last: impl FnOnce() -> Result<(), Errno>,
) -> Errno {
    signals::close_on_exec_from(3);
    signals::set_default(libc::SIGPIPE);
    let unblocked =
        signals::set_mask(&[]).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    if let Err(errno) = unblocked.and_then(|()| last()) {
        return errno;
    }
    // As a shell looks for a program: one that is there and cannot be executed is told rather than that there is none.
    let mut found = Errno::NOENT;
    for program in programs {
        match execute_path(program, arguments, environment, 0) {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => found = Errno::ACCESS,
            errno => return errno,
        }
    }
    found
}

/// Executes the first candidate that is there; comes back only when that could not be. Allocates nothing: `environment`
/// is that of `direct` with one null pointer more.
fn execute_first(direct: &DirectStart<'_>, environment: &mut [*const c_char], mark: u64) {
    for candidate in direct.candidates {
        match rustix::fs::statat(rustix::fs::CWD, candidate.path(), AtFlags::empty()) {
            Ok(_) => {
                if let [.., place, _end] = &mut *environment {
                    *place = candidate.told.as_ptr();
                }
                let arguments = direct.arguments.pointers.as_ptr();
                execute_marked(candidate.path(), arguments, environment.as_ptr(), mark);
                return;
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => return,
        }
    }
}

fn execute_path(program: &CStr, arguments: &Strings, environment: &Strings, mark: u64) -> Errno {
    let (arguments, environment) = (arguments.pointers.as_ptr(), environment.pointers.as_ptr());
    execute_marked(program, arguments, environment, mark);
    last_errno()
}

/// Both lists must end with a null pointer and outlive the call. The kernel does not look at the mark: a filter of this
/// process may.
fn execute_marked(
    program: &CStr,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    mark: u64,
) {
    // SAFETY: the path ends with NUL, both lists end with a null pointer, and all of it outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_execve,
            program.as_ptr(),
            arguments,
            environment,
            0_u64,
            0_u64,
            mark,
        )
    };
}

fn execute_file(file: BorrowedFd<'_>, arguments: &Strings, environment: &Strings, mark: u64) -> Errno {
    let (arguments, environment) = (arguments.pointers.as_ptr(), environment.pointers.as_ptr());
    // SAFETY: as in `execute_path`; the descriptor is open, and the empty path means the descriptor itself.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            file.as_raw_fd(),
            c"".as_ptr(),
            arguments,
            environment,
            libc::AT_EMPTY_PATH,
            mark,
        )
    };
    last_errno()
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS)
}

fn is_same_file(file: BorrowedFd<'_>, path: &CStr) -> bool {
    let opened = rustix::fs::fstat(file);
    let named = rustix::fs::statat(rustix::fs::CWD, path, AtFlags::empty());
    matches!((opened, named), (Ok(a), Ok(b)) if a.st_dev == b.st_dev && a.st_ino == b.st_ino)
}
