//! What became of a run of an earlier server (`docs/decisions/0009-exactly-once.md`, step 7).

use std::{
    collections::VecDeque,
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::net::UnixStream;

use countersign_domain::{Exit, OutputStream, RunId, Traces};
use countersign_runner::{
    LIVE_BYTES, TAIL_BYTES,
    output::spool,
    run_file::{Inspected, RunFileState},
    wire::{FromSupervisor, Inbox},
};
use countersign_sys::{peer, process};

use super::{GatewayHost, Supervised, SupervisorEvent, line::Line};

/// How long a supervisor may take to end a run whose server died: `SIGTERM`, its grace, `SIGKILL`, the sweep.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How often the run file is looked at meanwhile; a lock cannot be awaited.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What became of a run.
#[derive(Debug)]
pub enum Recovered {
    /// It ended, and its run file says how.
    Exited {
        /// The record of the end.
        exit: Exit,
        /// Its spool; `None` when it wrote nothing, or when what it wrote was not kept.
        spool: Option<PathBuf>,
        /// The launch that the file tells of.
        launch_id: String,
    },
    /// It runs: its supervisor went on and is attached to again. Its output is reported from the beginning.
    Attached(Box<Supervised>),
    /// It did not start. It can be started again, or be made impossible with [`GatewayHost::void`].
    NotStarted,
    /// It was made impossible before it started.
    Voided,
    /// It started, and nobody knows how it ended: `lost`. What was left in its session was killed.
    StartedAndGone,
}

/// It cannot be found out what became of a run.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The run file cannot be read.
    #[error("cannot read the file of run {run_id}")]
    RunFile {
        /// The run, whose id is the name of the file.
        run_id: RunId,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A supervisor holds the run but neither ends it nor answers.
    #[error("the supervisor of run {0} does not answer")]
    NoAnswer(RunId),
}

impl GatewayHost {
    /// Finds out what became of a run that a server before this one had started.
    ///
    /// Where a supervisor still holds it, this waits until a foreground run is killed or a background run answers.
    ///
    /// # Errors
    /// [`RecoverError`].
    #[crate::compiled_once]
    pub async fn recover(&self, run_id: &RunId) -> Result<Recovered, RecoverError> {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let Inspected { state, is_locked } =
                self.inspect(run_id).map_err(|source| RecoverError::RunFile {
                    run_id: run_id.clone(),
                    source,
                })?;
            if is_locked {
                // What a run left running when it ended is attached to in another way.
                let has_ended = matches!(state, RunFileState::Exited(..));
                if !has_ended && let Some(supervised) = self.attach(run_id).await {
                    return Ok(Recovered::Attached(Box::new(supervised)));
                }
                // Held while a foreground run is killed, while the last output goes to the spool, or, when the file
                // is empty, by a supervisor that is about to start it or to notice that its server is gone. One
                // whose run has ended but that keeps leftovers stays for as long as they do.
                let is_late = tokio::time::Instant::now() > deadline;
                match state {
                    RunFileState::Exited(exit, launch_id) if is_late || self.is_spooled(run_id, &exit) => {
                        return Ok(self.exited(run_id, exit, launch_id));
                    }
                    _ if is_late => return Err(RecoverError::NoAnswer(run_id.clone())),
                    RunFileState::Missing
                    | RunFileState::Empty
                    | RunFileState::Void
                    | RunFileState::Started(_)
                    | RunFileState::Exited(..)
                    | RunFileState::Torn => {}
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
                continue;
            }
            return Ok(match (state.traces(), state) {
                (_, RunFileState::Exited(exit, launch_id)) => self.exited(run_id, exit, launch_id),
                (_, RunFileState::Started(fence)) => {
                    // Of another boot nothing is left, and its pids belong to others.
                    if process::boot_id().is_ok_and(|boot_id| boot_id == fence.boot_id) {
                        self.run_files(run_id).sweep(&fence).await;
                        if let Some(own) = self.own_account() {
                            // It may have been a client, which the account of the commands cannot end.
                            own.run_files(run_id).sweep(&fence).await;
                        }
                    }
                    Recovered::StartedAndGone
                }
                (Some(Traces::None), _) => Recovered::NotStarted,
                (Some(Traces::Void), _) => Recovered::Voided,
                (Some(Traces::Started) | None, _) => Recovered::StartedAndGone,
            });
        }
    }

    /// Attaches again to what a run left running when it ended, if that still goes on.
    #[crate::compiled_once]
    pub async fn attach_leftovers(&self, run_id: &RunId) -> Option<Supervised> {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        // A process that holds the file of a run that has ended stays with its leftovers, or is about to go.
        while self.inspect(run_id).is_ok_and(|inspected| inspected.is_locked) {
            if let Some((line, inbox, _first_process, _kept_bytes)) = self.connect_to(run_id).await {
                let run_files = self.run_files(run_id);
                return Some(Supervised::leftovers(line, run_id.clone(), run_files, inbox));
            }
            if tokio::time::Instant::now() > deadline {
                tracing::error!(run.id = %run_id, "the supervisor of what a run left running does not answer");
                return None;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        None
    }

    fn exited(&self, run_id: &RunId, exit: Exit, launch_id: String) -> Recovered {
        let run_files = self.run_files(run_id);
        run_files.cut();
        run_files.tidy();
        let spool = Some(self.spool(run_id)).filter(|spool| spool.exists());
        Recovered::Exited {
            exit,
            spool,
            launch_id,
        }
    }

    fn is_spooled(&self, run_id: &RunId, exit: &Exit) -> bool {
        let measure = || spool::measure(File::open(self.spool(run_id))?);
        exit.kept_bytes == 0 || measure().is_ok_and(|kept| kept.of(spool::Selection::Both) >= exit.kept_bytes)
    }

    /// Attaches to a supervisor that went on alone. `None` when there is none, or none any more.
    async fn attach(&self, run_id: &RunId) -> Option<Supervised> {
        let (line, inbox, pid, kept_bytes) = self.connect_to(run_id).await?;
        let spool = self.spool(run_id);
        let before = tokio::task::spawn_blocking(move || replay(&spool, kept_bytes))
            .await
            .ok()?;
        let mut before = before.unwrap_or_else(|error| {
            tracing::error!(run.id = %run_id, error = %error, "the spool of a run cannot be read");
            VecDeque::from([SupervisorEvent::Skipped { bytes: kept_bytes }])
        });
        before.push_front(SupervisorEvent::Started { pid });
        let run_files = self.run_files(run_id);
        Some(Supervised::attached(
            line,
            run_id.clone(),
            run_files,
            inbox,
            before,
        ))
    }

    /// Connects to a supervisor that went on alone, and hears its first process and how much of the output its spool
    /// has.
    async fn connect_to(&self, run_id: &RunId) -> Option<(Line, Inbox, i32, u64)> {
        let (socket, owner) = self.attach_socket(run_id);
        let line = match connect(&socket, owner).await {
            Ok(line) => line,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::error!(run.id = %run_id, %error, "what lies where a supervisor's socket should be is none");
                return None;
            }
            Err(_none) => return None,
        };
        let mut inbox = Inbox::default();
        let (pid, kept_bytes) = tokio::time::timeout(TIMEOUT, first_word(&line, &mut inbox))
            .await
            .ok()??;
        Some((line, inbox, pid, kept_bytes))
    }
}

/// Connects to a socket of this account, and to nothing else that may lie there: anyone who runs commands can put links
/// and sockets of other programs where the server looks. The socket itself is opened, looked at, and then connected to
/// by its descriptor, since the path of a state directory may be longer than a socket address can be, too.
async fn connect(socket: &Path, owner: u32) -> io::Result<Line> {
    use rustix::fs::{FileType, Mode, OFlags};
    use std::os::fd::AsRawFd;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::open(socket, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    if stat.st_uid != owner || FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let address = Path::new("/proc/self/fd").join(found.as_raw_fd().to_string());
    let stream = UnixStream::connect(address).await?;
    if peer::is_of(&stream, owner) {
        Line::watch(stream.into_std()?.into())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// The first process, and how much of the output the spool has; `None` when the connection ends before that is
/// said.
async fn first_word(line: &Line, inbox: &mut Inbox) -> Option<(i32, u64)> {
    let mut buffer = [0; 4096];
    let mut first_process = None;
    loop {
        while let Some(message) = inbox.next_from_supervisor().ok()? {
            match message {
                FromSupervisor::Started { pid, start_time: _ } => first_process = Some(pid),
                FromSupervisor::Attached {
                    kept_bytes,
                    output_bytes: _,
                } => return Some((first_process?, kept_bytes)),
                FromSupervisor::Output(..)
                | FromSupervisor::Skipped(_)
                | FromSupervisor::InputTaken(_)
                | FromSupervisor::CursorKeys(_)
                | FromSupervisor::Echo(_)
                | FromSupervisor::Exited { .. }
                | FromSupervisor::LeftoversEnded
                | FromSupervisor::NotStarted(_)
                | FromSupervisor::Observed { .. } => return None,
            }
        }
        match line.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => inbox.push(buffer.get(..read)?),
        }
    }
}

/// The first `kept_bytes` of a spool as reports: the beginning and the end of it.
fn replay(spool: &Path, kept_bytes: u64) -> io::Result<VecDeque<SupervisorEvent>> {
    let mut events = VecDeque::new();
    if kept_bytes == 0 {
        return Ok(events);
    }
    let head_end = u64::try_from(LIVE_BYTES).unwrap_or(u64::MAX).min(kept_bytes);
    let tail_start = kept_bytes
        .saturating_sub(u64::try_from(TAIL_BYTES).unwrap_or(0))
        .max(head_end);
    let mut seen = 0;
    spool::replay(File::open(spool)?, |stream, bytes| {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        push_part(&mut events, stream, bytes, seen, 0..head_end);
        if seen + length > head_end && seen <= head_end && tail_start > head_end {
            events.push_back(SupervisorEvent::Skipped {
                bytes: tail_start - head_end,
            });
        }
        push_part(&mut events, stream, bytes, seen, tail_start..kept_bytes);
        seen += length;
    })?;
    Ok(events)
}

/// Reports those bytes of a piece, which begins at `position`, that lie in `wanted`.
fn push_part(
    events: &mut VecDeque<SupervisorEvent>,
    stream: OutputStream,
    bytes: &[u8],
    position: u64,
    wanted: std::ops::Range<u64>,
) {
    let offset = |at: u64| {
        usize::try_from(at.saturating_sub(position))
            .unwrap_or(usize::MAX)
            .min(bytes.len())
    };
    if let Some(part) = bytes
        .get(offset(wanted.start)..offset(wanted.end))
        .filter(|part| !part.is_empty())
    {
        events.push_back(SupervisorEvent::Output {
            stream,
            bytes: part.to_vec(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_spool_is_replayed_as_its_beginning_and_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let all: Vec<u8> = (0..3_000_000_u32)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        for piece in all.chunks(65_536) {
            spool::append(&mut file.as_file(), OutputStream::Stdout, piece).unwrap();
        }
        for kept in [
            0,
            1,
            70_000,
            LIVE_BYTES,
            LIVE_BYTES + 1,
            LIVE_BYTES + TAIL_BYTES + 1,
            2_999_999,
        ] {
            let mut position = 0;
            for event in replay(file.path(), kept as u64).unwrap() {
                if let SupervisorEvent::Output { bytes, .. } = event {
                    assert!(all[position..].starts_with(&bytes), "kept {kept}, at {position}");
                    position += bytes.len();
                } else if let SupervisorEvent::Skipped { bytes } = event {
                    position += usize::try_from(bytes).unwrap();
                } else {
                    panic!("{event:?}");
                }
            }
            assert_eq!(position, kept);
        }
    }
}
