//! Starting a program from the server, without a fork: `posix_spawn`.
#![expect(unsafe_code, reason = "posix_spawn has no safe wrapper")]

use std::{
    ffi::{CStr, CString, OsStr, c_int},
    io, mem,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags},
    process::{PidfdFlags, Signal},
};

use super::{Ended, Pid, monotonic, poll, signals};

/// Most bytes that [`run_for_text`] reads.
const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// Descriptors are moved up here first, so that none of them is overwritten while they are put in their places.
const ABOVE_TARGETS: i32 = 64;

/// A program to start with default signals in a session of its own, with nothing open but what is named here.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// Path of the program.
    pub program: &'a Path,
    /// Arguments, the program's name included.
    pub arguments: &'a [&'a OsStr],
    /// The whole environment, as names and values.
    pub environment: &'a [(&'a OsStr, &'a OsStr)],
    /// Where its output goes; `/dev/null` if nowhere. Input and errors are `/dev/null`.
    pub output: Option<BorrowedFd<'a>>,
    /// What it finds open from descriptor 3 on.
    pub descriptors: &'a [BorrowedFd<'a>],
}

/// A child of this process. Not reaped when dropped: call [`SpawnedProcess::wait`].
#[derive(Debug)]
pub struct SpawnedProcess {
    pid: Pid,
    pidfd: OwnedFd,
}

impl SpawnedProcess {
    /// Its process id, which stays its own until it is reaped.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Becomes readable when it ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Waits until it ended, and reaps it.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn wait(self) -> io::Result<Ended> {
        super::wait_for(self.pid)
    }
}

/// Starts a program.
///
/// # Errors
/// `InvalidInput` for a NUL in a text; otherwise why it could not be started.
pub fn spawn(spawn: &Spawn<'_>) -> io::Result<SpawnedProcess> {
    let Spawn {
        program,
        arguments,
        environment,
        output,
        descriptors,
    } = *spawn;
    let program = CString::new(program.as_os_str().as_bytes())?;
    let arguments = strings(arguments.iter().map(|text| text.as_bytes().to_vec()))?;
    let environment = strings(
        environment
            .iter()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()),
    )?;

    let mut actions = FileActions::new()?;
    actions.open(0, c"/dev/null", libc::O_RDONLY)?;
    let moved_output = output.map(move_up).transpose()?;
    match &moved_output {
        Some(output) => actions.duplicate(output, 1)?,
        None => actions.open(1, c"/dev/null", libc::O_WRONLY)?,
    }
    actions.open(2, c"/dev/null", libc::O_WRONLY)?;
    let moved = descriptors
        .iter()
        .map(|fd| move_up(*fd))
        .collect::<io::Result<Vec<_>>>()?;
    for (target, descriptor) in (3..).zip(&moved) {
        actions.duplicate(descriptor, target)?;
    }
    let attributes = Attributes::new()?;

    let mut pid = 0;
    // SAFETY: path and lists are NUL- and null-terminated and outlive the call, as do actions and attributes,
    // which were initialised by their constructors.
    let error = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    check(error)?;
    let pidfd = rustix::process::Pid::from_raw(pid)
        .ok_or(io::ErrorKind::Other)
        .map_err(io::Error::from)
        .and_then(|pid| Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?));
    match pidfd {
        Ok(pidfd) => Ok(SpawnedProcess { pid, pidfd }),
        Err(error) => {
            signals::signal_process(pid, Signal::KILL);
            drop(super::wait_for(pid));
            Err(error)
        }
    }
}

/// Why a program gave no text.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// It could not be started or read.
    #[error("could not be run")]
    Io(#[from] io::Error),
    /// It took too long and was killed.
    #[error("took too long")]
    TimedOut,
    /// It wrote more than any answer could be.
    #[error("wrote too much")]
    TooMuch,
    /// It ended otherwise than with code 0.
    #[error("ended with {0:?}")]
    Failed(Ended),
    /// What it wrote is no UTF-8.
    #[error("wrote something that is no text")]
    NotText,
}

/// Runs a program and returns what it wrote, for questions asked once such as the login shell's `PATH`.
/// Its input and its errors are `/dev/null`. What it leaves running in its process group is killed.
///
/// # Errors
/// [`TextError`].
pub fn run_for_text(
    program: &Path,
    arguments: &[&OsStr],
    environment: &[(&OsStr, &OsStr)],
    timeout: Duration,
) -> Result<String, TextError> {
    let deadline = monotonic() + timeout;
    let (read_end, write_end) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
    rustix::io::ioctl_fionbio(&read_end, true).map_err(io::Error::from)?;
    let output = Some(write_end.as_fd());
    let process = spawn(&Spawn {
        program,
        arguments,
        environment,
        output,
        descriptors: &[],
    })?;
    drop(write_end);
    let text = read_until_end(&read_end, &process, deadline);
    // It leads its own session, so this reaches it and what it left, but never us.
    signals::signal_group(process.pid(), Signal::KILL);
    let ended = process.wait()?;
    let text = text?;
    match ended {
        Ended::Code(0) => String::from_utf8(text).map_err(|_not_utf8| TextError::NotText),
        Ended::Code(_) | Ended::Signal(_) => Err(TextError::Failed(ended)),
    }
}

/// Reads until the process ended: something that it left in the background may hold the pipe for ever.
fn read_until_end(
    pipe: &OwnedFd,
    process: &SpawnedProcess,
    deadline: Duration,
) -> Result<Vec<u8>, TextError> {
    let mut text = Vec::new();
    let mut buffer = [0; 8192];
    let mut is_open = true;
    loop {
        let Some(left) = deadline.checked_sub(monotonic()).filter(|left| !left.is_zero()) else {
            return Err(TextError::TimedOut);
        };
        let wanted = if is_open {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let process_end = process.pidfd();
        let mut descriptors = [
            PollFd::from_borrowed_fd(process_end, PollFlags::IN),
            PollFd::new(pipe, wanted),
        ];
        let watched = if is_open { 2 } else { 1 };
        poll(descriptors.get_mut(..watched).unwrap_or_default(), Some(left))?;
        let [end, _pipe] = &descriptors;
        let has_ended = !end.revents().is_empty();
        while is_open {
            match rustix::io::read(pipe, &mut buffer) {
                Ok(0) => is_open = false,
                Ok(read) => text.extend_from_slice(buffer.get(..read).unwrap_or_default()),
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            if text.len() > MAX_TEXT_BYTES {
                return Err(TextError::TooMuch);
            }
        }
        if has_ended {
            return Ok(text);
        }
    }
}

/// Takes over open descriptors. Only once in the life of a process, by the mode that was started with them.
pub(super) fn inherited_descriptors<const N: usize>(first: i32) -> io::Result<[OwnedFd; N]> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    let numbers: [i32; N] =
        std::array::from_fn(|index| first.saturating_add(i32::try_from(index).unwrap_or(i32::MAX)));
    for number in numbers {
        // SAFETY: it only sets a flag, and fails when the descriptor is not open.
        if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: all are open, came from the parent, and this function gives them away only once.
    Ok(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }))
}

fn move_up(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor, ABOVE_TARGETS)?)
}

struct List {
    _texts: Vec<CString>,
    pointers: Vec<*mut libc::c_char>,
}

impl List {
    fn as_ptr(&self) -> *const *mut libc::c_char {
        self.pointers.as_ptr()
    }
}

fn strings(texts: impl Iterator<Item = Vec<u8>>) -> io::Result<List> {
    let texts = texts.map(CString::new).collect::<Result<Vec<_>, _>>()?;
    let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
    pointers.push(ptr::null_mut());
    Ok(List {
        _texts: texts,
        pointers,
    })
}

struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new() -> io::Result<Self> {
        // SAFETY: plain data, which the call below gives its value.
        let mut actions = Self(unsafe { mem::zeroed() });
        // SAFETY: valid for writing.
        check(unsafe { libc::posix_spawn_file_actions_init(&raw mut actions.0) })?;
        Ok(actions)
    }

    fn open(&mut self, target: c_int, path: &CStr, flags: c_int) -> io::Result<()> {
        // SAFETY: initialised; the C library copies the path.
        check(unsafe {
            libc::posix_spawn_file_actions_addopen(&raw mut self.0, target, path.as_ptr(), flags, 0)
        })
    }

    fn duplicate(&mut self, descriptor: &OwnedFd, target: c_int) -> io::Result<()> {
        // SAFETY: initialised.
        check(unsafe {
            libc::posix_spawn_file_actions_adddup2(&raw mut self.0, descriptor.as_raw_fd(), target)
        })
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used afterwards.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A session of its own, default action for every signal, none blocked.
    fn new() -> io::Result<Self> {
        // SAFETY: plain data, which the call below gives its value.
        let mut attributes = Self(unsafe { mem::zeroed() });
        // SAFETY: valid for writing.
        check(unsafe { libc::posix_spawnattr_init(&raw mut attributes.0) })?;
        let all = signals::every_signal();
        // SAFETY: both initialised.
        check(unsafe { libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, &raw const all) })?;
        let none = signals::set_of(&[]);
        // SAFETY: both initialised.
        check(unsafe { libc::posix_spawnattr_setsigmask(&raw mut attributes.0, &raw const none) })?;
        let flags = c_int::from(libc::POSIX_SPAWN_SETSID)
            | libc::POSIX_SPAWN_SETSIGDEF
            | libc::POSIX_SPAWN_SETSIGMASK;
        let flags = libc::c_short::try_from(flags).unwrap_or(libc::POSIX_SPAWN_SETSID);
        // SAFETY: initialised.
        check(unsafe { libc::posix_spawnattr_setflags(&raw mut attributes.0, flags) })?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used afterwards.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// These functions answer with an error number instead of setting `errno`.
fn check(error: c_int) -> io::Result<()> {
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> Result<String, TextError> {
        let arguments = ["sh", "-c", script].map(OsStr::new);
        run_for_text(
            Path::new("/bin/sh"),
            &arguments,
            &[(OsStr::new("WORD"), OsStr::new("x y"))],
            timeout,
        )
    }

    #[test]
    fn the_text_of_a_program_is_returned() {
        assert_eq!(
            shell("printf '%s' \"$WORD\"; echo no >&2", Duration::from_secs(20)).unwrap(),
            "x y"
        );
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        assert!(matches!(
            shell("sleep 1000", Duration::from_millis(50)),
            Err(TextError::TimedOut)
        ));
    }

    #[test]
    fn something_left_in_the_background_does_not_hold_the_answer_up() {
        assert_eq!(
            shell("sleep 1000 & echo done", Duration::from_secs(20)).unwrap(),
            "done\n"
        );
    }

    #[test]
    fn failure_and_endless_output_are_no_text() {
        assert!(matches!(
            shell("exit 3", Duration::from_secs(20)),
            Err(TextError::Failed(Ended::Code(3)))
        ));
        assert!(matches!(
            shell("while :; do echo yyyyyyyyyyyyyyy; done", Duration::from_mins(1)),
            Err(TextError::TooMuch)
        ));
        assert!(matches!(
            shell("printf '\\377'", Duration::from_secs(20)),
            Err(TextError::NotText)
        ));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let result = run_for_text(Path::new("/nowhere/at/all"), &[], &[], Duration::from_secs(20));
        assert!(matches!(result, Err(TextError::Io(error)) if error.kind() == io::ErrorKind::NotFound));
    }
}
