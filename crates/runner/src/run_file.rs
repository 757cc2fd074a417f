//! The file of one run: lock, fence and exit record in one (`docs/decisions/0009-exactly-once.md`, steps 5 to 7).
//!
//! `runs/<runId>` is only ever added to, one line at a time:
//!
//! ```text
//! started <pid> <boot id> <start time> <launch id> <checksum>
//! exit <code|-> <signal|-> <errno|-> <output bytes> <kept bytes> <why|-> <flags> <checksum>
//! void <checksum>
//! ```
//!
//! The flags of an exit are 1 for leftovers that were killed, and what the limits did from 2 on
//! ([`LimitReport::to_bits`]).
//!
//! Its content ends at the first byte that is 0, or with the file. A file that another run had is [cleared](clear): written
//! over with such bytes, which touches its first page alone. To cut it off instead would free its block, which a file system
//! that is mounted with `discard` tells the disk, and waits.
//!
//! A supervisor locks it for as long as it lives, so a free lock means that nobody supervises the run. A process that
//! finds it locked, or not empty, must not start anything: that is what makes a run happen at most once. A line
//! that is not whole counts as the worst that it could have meant.

use std::{
    fmt::{self, Write as _},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::fs::{FlockOperation, Mode, OFlags};

use countersign_domain::{Exit, KillCause, LaunchId, LimitReport, Traces};
use countersign_sys::{
    faults, hooks,
    process::{Pid, Process},
};

/// More than both lines of the longest ids need.
const MAX_BYTES: usize = 1024;

/// What a run file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunFileState {
    /// There is no file: the start frame was never made.
    Missing,
    /// The file has no line: no supervisor took the fence yet.
    Empty,
    /// Nothing was started, and nothing will be.
    Void,
    /// The fence was taken: something may have run.
    Started(Fence),
    /// It ended like this, by the launch of this id.
    Exited(Exit, String),
    /// A line that is not whole: something may have run.
    Torn,
}

impl RunFileState {
    /// Whether a run may still be made impossible: what was voided stays so, and what may have started cannot be.
    pub const fn voiding(&self) -> Voiding {
        match self {
            Self::Missing | Self::Empty => Voiding::Append,
            Self::Void => Voiding::Nothing,
            Self::Started(_) | Self::Exited(..) | Self::Torn => Voiding::TooLate,
        }
    }

    /// What the file tells of a run that nobody supervises; `None` when it tells the end.
    pub const fn traces(&self) -> Option<Traces> {
        match self {
            Self::Missing | Self::Empty => Some(Traces::None),
            Self::Void => Some(Traces::Void),
            Self::Started(_) | Self::Torn => Some(Traces::Started),
            Self::Exited(..) => None,
        }
    }
}

/// What has to be done to make a run impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voiding {
    /// Its line is written: nothing stands there yet.
    Append,
    /// It is so already.
    Nothing,
    /// It may have started.
    TooLate,
}

/// The `started` line: who holds the fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The first process of the run, which leads its session.
    pub pid: Pid,
    /// The boot during which it was started.
    pub boot_id: String,
    /// When it started, in clock ticks since that boot.
    pub start_time: u64,
    /// The launch that started it.
    pub launch_id: String,
}

/// A run file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// What its lines say.
    pub state: RunFileState,
    /// Whether a supervisor lives that holds it.
    pub is_locked: bool,
}

/// What became of an attempt to make a run impossible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voided {
    /// It will never start.
    Done,
    /// A supervisor has it.
    Locked,
    /// It started before, or the file says so.
    TooLate(RunFileState),
}

/// Reads a run file and tries its lock.
///
/// # Errors
/// When it is there but cannot be read.
pub fn inspect(path: &Path) -> io::Result<Inspected> {
    faults::fail_at("run-file.inspect")?;
    let file = match rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    ) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => {
            return Ok(Inspected {
                state: RunFileState::Missing,
                is_locked: false,
            });
        }
        Err(error) => return Err(error.into()),
    };
    let is_locked = !try_lock(file.as_fd(), Sharing::Shared)?;
    Ok(Inspected {
        state: read(&file)?,
        is_locked,
    })
}

/// Makes a run that did not start impossible to start: a supervisor that comes later loses at the fence.
///
/// # Errors
/// When the file cannot be made, read or written.
pub fn void(path: &Path) -> io::Result<Voided> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    faults::fail_at("run-file.open-to-void")?;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    if !try_lock(file.as_fd(), Sharing::Exclusive)? {
        return Ok(Voided::Locked);
    }
    let state = read(&file)?;
    match state.voiding() {
        Voiding::Append => {
            append(file.as_fd(), &Line::void(), "run-file.void")?;
            Ok(Voided::Done)
        }
        Voiding::Nothing => Ok(Voided::Done),
        Voiding::TooLate => Ok(Voided::TooLate(state)),
    }
}

/// Whether a supervisor may go on to the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It holds the lock, and the file is empty.
    Free,
    /// Another one holds the lock.
    Held,
    /// It was started or voided before.
    Lost,
}

impl Claim {
    /// What a supervisor may do that got the lock, or did not, of a file that has nothing in it, or something.
    pub const fn of(got_lock: bool, is_empty: bool) -> Self {
        match (got_lock, is_empty) {
            (true, true) => Self::Free,
            (true, false) => Self::Lost,
            (false, _) => Self::Held,
        }
    }
}

/// Takes the lock for as long as `file` is open anywhere.
pub(super) fn claim(file: BorrowedFd<'_>) -> io::Result<Claim> {
    let got_lock = try_lock(file, Sharing::Exclusive)?;
    let is_empty = Content::of(file)?.is_empty() || hooks::promise_dropped("fence");
    Ok(Claim::of(got_lock, is_empty))
}

/// Takes away what a file says of an ended run. Its lock is to be held.
///
/// # Errors
/// What writing says; then the file may say anything of the ended run, or nothing.
pub fn clear(file: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
    match rustix::io::retry_on_intr(|| rustix::io::pwrite(file, &[0; MAX_BYTES], 0))? {
        MAX_BYTES => Ok(()),
        _ => Err(rustix::io::Errno::NOSPC),
    }
}

/// Appends the fence. Allocates nothing: the child itself writes it, right before it executes.
pub(super) fn append_fence(
    file: BorrowedFd<'_>,
    process: &Process,
    boot_id: &str,
    launch_id: &LaunchId,
) -> Result<(), rustix::io::Errno> {
    append(file, &Line::fence(process, boot_id, launch_id), "sup.fence")
}

/// Appends the end of the run.
pub(super) fn append_exit(file: BorrowedFd<'_>, exit: &Exit) -> Result<(), rustix::io::Errno> {
    append(file, &Line::exit(exit), "sup.exit-line")
}

struct OrDash<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrDash<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Which of the flags of an `exit` line says that the shell was started after all: those before it are the leftovers and
/// the three of the limits.
const BY_SHELL_BIT: u32 = 4;

#[derive(Clone, Copy)]
enum Sharing {
    Shared,
    Exclusive,
}

fn try_lock(file: BorrowedFd<'_>, sharing: Sharing) -> io::Result<bool> {
    let operation = match sharing {
        Sharing::Shared => FlockOperation::NonBlockingLockShared,
        Sharing::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// One line with its checksum, built without allocating.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; 512],
    length: usize,
    is_whole: bool,
}

impl Line {
    /// The fence of a launch: the process that took it, known again after a restart by its start time and the boot.
    pub fn fence(process: &Process, boot_id: &str, launch_id: &LaunchId) -> Self {
        let Process { pid, start_time, .. } = process;
        Self::of(format_args!("started {pid} {boot_id} {start_time} {launch_id}"))
    }

    /// The end of a run.
    pub fn exit(exit: &Exit) -> Self {
        let Exit {
            code,
            signal,
            spawn_errno,
            killed,
            leftovers_killed,
            by_shell,
            output_bytes,
            kept_bytes,
            limits,
        } = exit;
        Self::of(format_args!(
            "exit {} {} {} {output_bytes} {kept_bytes} {} {}",
            OrDash(*code),
            OrDash(*signal),
            OrDash(*spawn_errno),
            OrDash(*killed),
            u8::from(*leftovers_killed) | (limits.to_bits() << 1) | (u8::from(*by_shell) << BY_SHELL_BIT),
        ))
    }

    /// Nothing will be started.
    pub fn void() -> Self {
        Self::of(format_args!("void"))
    }

    fn of(text: fmt::Arguments<'_>) -> Self {
        let mut line = Self {
            bytes: [0; 512],
            length: 0,
            is_whole: true,
        };
        line.is_whole &= line.write_fmt(text).is_ok();
        let checksum = checksum(line.as_bytes());
        line.is_whole &= writeln!(line, " {checksum:08x}").is_ok();
        line
    }

    /// Its bytes, the end of the line included.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes
            .get_mut(self.length..end)
            .ok_or(fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

fn append(file: BorrowedFd<'_>, line: &Line, point: &str) -> Result<(), rustix::io::Errno> {
    if !line.is_whole {
        return Err(rustix::io::Errno::NAMETOOLONG);
    }
    let bytes = line.as_bytes();
    let end = Content::of(file)?.length;
    if end + bytes.len() > MAX_BYTES {
        return Err(rustix::io::Errno::FBIG);
    }
    let end = u64::try_from(end).unwrap_or(u64::MAX);
    // One write: a line is there or torn, and a torn line is noticed. One that was interrupted has written nothing.
    let write = || {
        let length = faults::length_at(point, bytes.len())?;
        rustix::io::pwrite(file, bytes.get(..length).unwrap_or(bytes), end)
    };
    match rustix::io::retry_on_intr(write)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(rustix::io::Errno::NOSPC),
    }
}

fn read(file: &OwnedFd) -> io::Result<RunFileState> {
    if hooks::promise_dropped("fence") {
        return Ok(RunFileState::Empty);
    }
    Ok(parse(Content::of(file.as_fd())?.as_bytes()))
}

/// What a run file has before its first byte that is 0. Reading it allocates nothing.
struct Content {
    bytes: [u8; MAX_BYTES],
    length: usize,
}

impl Content {
    fn of(file: BorrowedFd<'_>) -> Result<Self, rustix::io::Errno> {
        let mut bytes = [0; MAX_BYTES];
        let mut length = 0;
        while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
            let at = u64::try_from(length).unwrap_or(u64::MAX);
            match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *rest, at))? {
                0 => break,
                read => length += read,
            }
        }
        let length = until_zero(bytes.get(..length).unwrap_or_default()).len();
        Ok(Self { bytes, length })
    }

    const fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// What the bytes of a run file say.
pub fn parse(bytes: &[u8]) -> RunFileState {
    let bytes = until_zero(bytes);
    if bytes.is_empty() {
        return RunFileState::Empty;
    }
    let mut state = RunFileState::Torn;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        state = match (parse_line(line), state) {
            (Some(ParsedLine::Void), RunFileState::Torn) => RunFileState::Void,
            (Some(ParsedLine::Started(fence)), RunFileState::Torn) => RunFileState::Started(fence),
            (Some(ParsedLine::Exit(exit)), RunFileState::Started(fence)) => {
                RunFileState::Exited(exit, fence.launch_id)
            }
            // A torn line after the fence is an exit that nobody will ever know: the fence counts. A torn first
            // line stays torn, and nothing is believed that follows it.
            (_, state) => return state,
        };
    }
    state
}

/// What one whole line says.
enum ParsedLine {
    Void,
    Started(Fence),
    Exit(Exit),
}

fn parse_line(line: &[u8]) -> Option<ParsedLine> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (text, sum) = line.rsplit_once(' ')?;
    if u32::from_str_radix(sum, 16).ok()? != checksum(text.as_bytes()) {
        return None;
    }
    let mut words = text.split(' ');
    let parsed = match words.next()? {
        "void" => ParsedLine::Void,
        "started" => ParsedLine::Started(Fence {
            pid: words.next()?.parse().ok()?,
            boot_id: words.next()?.to_owned(),
            start_time: words.next()?.parse().ok()?,
            launch_id: words.next()?.to_owned(),
        }),
        "exit" => {
            let exit = Exit {
                code: parse_or_dash(words.next()?)?,
                signal: parse_or_dash(words.next()?)?,
                spawn_errno: parse_or_dash(words.next()?)?,
                output_bytes: words.next()?.parse().ok()?,
                kept_bytes: words.next()?.parse().ok()?,
                killed: parse_or_dash::<KillCause>(words.next()?)?,
                ..Exit::default()
            };
            let flags: u8 = words.next()?.parse().ok()?;
            ParsedLine::Exit(Exit {
                leftovers_killed: flags & 1 != 0,
                by_shell: flags & (1 << BY_SHELL_BIT) != 0,
                limits: LimitReport::of_bits(flags >> 1),
                ..exit
            })
        }
        _ => return None,
    };
    words.next().is_none().then_some(parsed)
}

/// `None` for text that is neither.
#[expect(clippy::option_option, reason = "not there, or there and absent")]
fn parse_or_dash<T: std::str::FromStr>(word: &str) -> Option<Option<T>> {
    if word == "-" {
        Some(None)
    } else {
        word.parse().ok().map(Some)
    }
}

/// CRC-32 (IEEE 802.3), bit by bit: lines are short.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _bit| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn process() -> Process {
        Process {
            pid: 4711,
            parent: 1,
            session: 4711,
            start_time: 99,
            is_zombie: false,
            is_exiting: false,
        }
    }

    fn launch() -> LaunchId {
        LaunchId::parse("launch-1").unwrap()
    }

    fn fence() -> Fence {
        Fence {
            pid: 4711,
            boot_id: "boot".to_owned(),
            start_time: 99,
            launch_id: "launch-1".to_owned(),
        }
    }

    fn exit() -> Exit {
        Exit {
            code: None,
            signal: Some(9),
            spawn_errno: None,
            killed: Some(KillCause::Timeout),
            leftovers_killed: true,
            by_shell: true,
            output_bytes: 12,
            kept_bytes: 10,
            limits: LimitReport {
                out_of_memory: true,
                not_enforced: true,
                ..LimitReport::default()
            },
        }
    }

    fn open(path: &Path) -> OwnedFd {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).unwrap()
    }

    fn state(path: &Path) -> RunFileState {
        inspect(path).unwrap().state
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn every_line_is_read_back_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        assert_eq!(state(&path), RunFileState::Missing);
        let file = open(&path);
        assert_eq!(state(&path), RunFileState::Empty);
        assert_eq!(claim(file.as_fd()).unwrap(), Claim::Free);
        append_fence(file.as_fd(), &process(), "boot", &launch()).unwrap();
        assert_eq!(
            inspect(&path).unwrap(),
            Inspected {
                state: RunFileState::Started(fence()),
                is_locked: true
            }
        );
        append_exit(file.as_fd(), &exit()).unwrap();
        drop(file);
        assert_eq!(
            inspect(&path).unwrap(),
            Inspected {
                state: RunFileState::Exited(exit(), "launch-1".to_owned()),
                is_locked: false
            }
        );
    }

    #[test]
    fn a_held_or_used_file_cannot_be_claimed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let first = open(&path);
        assert_eq!(claim(first.as_fd()).unwrap(), Claim::Free);
        assert_eq!(claim(open(&path).as_fd()).unwrap(), Claim::Held);
        assert_eq!(void(&path).unwrap(), Voided::Locked);
        append_fence(first.as_fd(), &process(), "boot", &launch()).unwrap();
        drop(first);
        assert_eq!(claim(open(&path).as_fd()).unwrap(), Claim::Lost);
        assert_eq!(
            void(&path).unwrap(),
            Voided::TooLate(RunFileState::Started(fence()))
        );
    }

    #[test]
    fn a_voided_run_never_starts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        assert_eq!(void(&path).unwrap(), Voided::Done);
        assert_eq!(void(&path).unwrap(), Voided::Done);
        assert_eq!(state(&path), RunFileState::Void);
        assert_eq!(claim(open(&path).as_fd()).unwrap(), Claim::Lost);
    }

    #[test]
    fn a_cleared_file_is_as_a_new_one_and_keeps_its_block() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let file = open(&path);
        let longest = LaunchId::parse("l".repeat(36)).unwrap();
        append_fence(file.as_fd(), &process(), "boot", &longest).unwrap();
        append_exit(file.as_fd(), &exit()).unwrap();
        clear(file.as_fd()).unwrap();
        assert_eq!(state(&path), RunFileState::Empty);
        assert_ne!(fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(claim(file.as_fd()).unwrap(), Claim::Free);
        // Nothing of the longer line shows behind the shorter one.
        append_fence(file.as_fd(), &process(), "boot", &launch()).unwrap();
        assert_eq!(state(&path), RunFileState::Started(fence()));
        assert_eq!(claim(file.as_fd()).unwrap(), Claim::Lost);
        append_exit(file.as_fd(), &exit()).unwrap();
        assert_eq!(state(&path), RunFileState::Exited(exit(), "launch-1".to_owned()));
        clear(file.as_fd()).unwrap();
        drop(file);
        assert_eq!(void(&path).unwrap(), Voided::Done);
        assert_eq!(state(&path), RunFileState::Void);
    }

    #[test]
    fn a_file_that_is_full_takes_no_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let file = open(&path);
        rustix::io::write(&file, &[b'x'; MAX_BYTES]).unwrap();
        let refused = append_exit(file.as_fd(), &exit());
        assert_eq!(refused, Err(rustix::io::Errno::FBIG));
        assert_eq!(state(&path), RunFileState::Torn);
    }

    #[test]
    fn a_file_cut_or_changed_anywhere_never_says_more_than_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let file = open(&path);
        append_fence(file.as_fd(), &process(), "boot", &launch()).unwrap();
        let fence_length = fs::read(&path).unwrap().len();
        append_exit(file.as_fd(), &exit()).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            let expect = match cut {
                0 => RunFileState::Empty,
                _ if cut < fence_length => RunFileState::Torn,
                _ if cut < whole.len() => RunFileState::Started(fence()),
                _ => RunFileState::Exited(exit(), "launch-1".to_owned()),
            };
            assert_eq!(parse(&whole[..cut]), expect, "cut at {cut}");
            let mut cleared = whole.clone();
            cleared.resize(MAX_BYTES, 0);
            cleared[cut] = 0;
            assert_eq!(parse(&cleared), expect, "ended at {cut}");
        }
        for position in 0..whole.len() {
            let mut changed = whole.clone();
            changed[position] ^= 1;
            let expect = if position < fence_length {
                RunFileState::Torn
            } else {
                RunFileState::Started(fence())
            };
            assert_eq!(parse(&changed), expect, "changed at {position}");
        }
    }
}
