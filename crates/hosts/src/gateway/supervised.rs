//! A run that has a supervisor: what it reports, and what can be told to it.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, Semaphore, watch};

use countersign_domain::{Exit, KillCause, Observed, OutputStream, RunId, TerminalSize};
use countersign_protocol::terminal::CursorKeys;
use countersign_runner::{
    INLINE_BYTES, INPUT_BYTES, InlineFrames, NotStarted,
    run_file::{Fence, RunFileState},
    wire::{FromSupervisor, Inbox, ToSupervisor},
};
use countersign_sys::process;

use super::{
    line::Line,
    rulesets::{self, StartsAllowed},
    run_files::RunFiles,
};

/// How long a supervisor may take to say whether a terminal shows what is typed. What is not known is not shown.
const ECHO_TIMEOUT: Duration = Duration::from_secs(1);

/// A run that was handed to a supervisor.
#[derive(Debug)]
pub struct Supervised {
    /// What its supervisor reports. Read it until nothing more comes.
    pub events: RunEvents,
    /// What can be told to it. Dropping this kills a foreground run.
    pub control: RunControl,
}

/// What a supervisor reports, in this order: `Started`, any `Output` and `Skipped`, `Exit`, and `LeftoversEnded`
/// when the end said that leftovers run. Or `NotStarted`, or at any time `Lost`, and nothing after these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SupervisorEvent {
    /// The first process runs.
    Started {
        /// Its process id, as the supervisor sees it.
        pid: i32,
    },
    /// Output, in order of arrival.
    Output {
        /// Which stream; that of a terminal is all `stdout`.
        stream: OutputStream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// This many bytes of output follow that are not reported: the spool has them, unless there are more than are
    /// kept. The last ones before the end, enough for every tail, are always reported.
    Skipped {
        /// Bytes of both streams together.
        bytes: u64,
    },
    /// The run ended; this is the last event unless leftovers run.
    Exit(EndedRun),
    /// What it left running ended too.
    LeftoversEnded,
    /// Nothing was started, for this reason.
    NotStarted(NotStarted),
    /// The supervisor vanished after the fence was taken: the outcome is unknown. What was left of the run in its
    /// session was killed.
    Lost,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRun {
    /// How it ended, as the run file has it.
    pub exit: Exit,
    /// Where its output is.
    pub output: KeptOutput,
    /// Whether processes that it left go on running (`leftovers = "keep"`). They end with
    /// [`RunControl::kill`], and are left alone when the control is dropped.
    pub leftovers_run: bool,
    /// What was seen of the programs that those with limits started; `None` where that was not observed, or where another
    /// server started the run.
    pub observed: Option<Observed>,
}

/// Where the exact bytes of a run's output are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptOutput {
    /// Here, in the spool's format: at most 64 KiB and the heads of frames. The supervisor makes a spool of them
    /// unless [`RunControl::stored`] tells it soon that they are stored.
    Inline(Vec<u8>),
    /// In the spool; there is none when nothing was written.
    Spooled,
}

/// No input is taken any more: the run ended, or its input was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the run takes no input")]
pub struct InputClosed;

impl Supervised {
    /// A run that was just ordered; at most `max_bytes` of its output are kept.
    pub(super) fn new(
        line: Line,
        run_id: RunId,
        run_files: RunFiles,
        outlives_server: bool,
        max_bytes: u64,
    ) -> Self {
        let link = Arc::new(Link {
            line,
            outgoing: Mutex::new(Vec::new()),
            queued: Notify::new(),
            input_room: Semaphore::new(INPUT_BYTES),
            lets_go: AtomicBool::new(outlives_server),
            sends_application_keys: AtomicBool::new(false),
            echoes: watch::Sender::new(false),
            run_files: run_files.clone(),
        });
        let events = RunEvents {
            link: Arc::clone(&link),
            run_id,
            run_files,
            inbox: Inbox::default(),
            buffer: vec![0; 16 * 1024],
            inline: Some(InlineFrames::default()),
            begun: None,
            max_bytes,
            ready: VecDeque::new(),
            stage: Stage::Ordered,
            starts: Vec::new(),
            observed: None,
        };
        Self {
            events,
            control: RunControl { link },
        }
    }

    /// The same with what its rulesets let be executed, by which is sorted what is observed.
    pub(super) fn observing(mut self, starts: Vec<Arc<StartsAllowed>>) -> Self {
        self.events.starts = starts;
        self
    }

    /// A run that a supervisor went on with alone: `before` is what it wrote meanwhile.
    pub(super) fn attached(
        line: Line,
        run_id: RunId,
        run_files: RunFiles,
        inbox: Inbox,
        before: VecDeque<SupervisorEvent>,
    ) -> Self {
        // All of its output is in the spool, which its supervisor keeps short.
        let mut supervised = Self::new(line, run_id, run_files, true, 0);
        supervised.events.stage = Stage::Running;
        supervised.events.inbox = inbox;
        supervised.events.inline = None;
        supervised.events.ready = before;
        supervised
    }

    /// What a run left running, whose supervisor a server attached to again.
    pub(super) fn leftovers(line: Line, run_id: RunId, run_files: RunFiles, inbox: Inbox) -> Self {
        let mut supervised = Self::attached(line, run_id, run_files, inbox, VecDeque::new());
        supervised.events.stage = Stage::LeftoversRun;
        supervised
    }
}

/// The stream of one run, shared by both halves of [`Supervised`].
#[derive(Debug)]
struct Link {
    line: Line,
    /// Messages that the stream did not take yet. Bounded by `input_room` and a few bytes per command.
    outgoing: Mutex<Vec<u8>>,
    /// Tells [`RunEvents::recv`] that there is something to flush.
    queued: Notify,
    /// Bytes of input that may still be sent.
    input_room: Semaphore,
    /// Whether dropping the control leaves the run alone.
    lets_go: AtomicBool,
    /// What its terminal wants from arrows, as far as was reported.
    sends_application_keys: AtomicBool,
    /// Whether its terminal showed what is typed when that was last asked.
    echoes: watch::Sender<bool>,
    run_files: RunFiles,
}

impl Link {
    /// Sends a message as far as the stream takes it at once; [`RunEvents::recv`] sends the rest.
    fn send(&self, message: &ToSupervisor) {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        message.encode(&mut outgoing);
        self.flush_locked(&mut outgoing);
        if !outgoing.is_empty() {
            self.queued.notify_one();
        }
    }

    /// Whether anything is left to send.
    fn flush(&self) -> bool {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_locked(&mut outgoing);
        !outgoing.is_empty()
    }

    fn flush_locked(&self, outgoing: &mut Vec<u8>) {
        while !outgoing.is_empty() {
            match self.line.try_write(outgoing) {
                Ok(written) => drop(outgoing.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The supervisor is gone; reading says so.
                Err(_) => outgoing.clear(),
            }
        }
    }
}

/// What can be told to a run's supervisor.
///
/// Dropped before the run ended, it kills a foreground run; a run that outlives the server goes on, and can be
/// attached to again with [`super::GatewayHost::recover`].
#[derive(Debug)]
pub struct RunControl {
    link: Arc<Link>,
}

impl RunControl {
    /// Kills the whole tree of the run. The first cause counts.
    pub fn kill(&self, cause: KillCause) {
        self.link.send(&ToSupervisor::Kill(cause));
        if cause == KillCause::Stopped {
            // A supervisor of an earlier version does not know that cause and would let its run go on.
            self.link.send(&ToSupervisor::Kill(KillCause::Cancelled));
        }
    }

    /// Makes a background run of it: from now on it goes on without this control and without a server.
    pub fn background(&self) {
        self.link.lets_go.store(true, Ordering::Relaxed);
        self.link.send(&ToSupervisor::Background);
    }

    /// Says that outcome and inline output are stored for good. Without it the supervisor makes a spool of inline
    /// output as soon as this control is dropped, or a while later.
    pub fn stored(&self) {
        self.link.lets_go.store(true, Ordering::Relaxed);
        self.link.send(&ToSupervisor::Stored);
        self.link.run_files.tidy();
    }

    /// Writes to the run's standard input, when that was kept open. Waits while the command does not read.
    ///
    /// # Errors
    /// [`InputClosed`] once the run ended.
    ///
    /// # Cancel safety
    /// Cancelled, it has written nothing, if there are at most `INPUT_BYTES` bytes; else it may have written the
    /// beginning.
    #[crate::compiled_once]
    pub async fn write_input(&self, bytes: &[u8]) -> Result<(), InputClosed> {
        for part in bytes.chunks(INPUT_BYTES) {
            let room = u32::try_from(part.len()).unwrap_or(u32::MAX);
            let permit = self
                .link
                .input_room
                .acquire_many(room)
                .await
                .map_err(|_closed| InputClosed)?;
            permit.forget();
            for piece in part.chunks(INPUT_BYTES / 4) {
                self.link.send(&ToSupervisor::Input(piece.to_vec()));
            }
        }
        Ok(())
    }

    /// Closes the run's standard input after what was written.
    pub fn close_input(&self) {
        self.link.send(&ToSupervisor::EndOfInput);
    }

    /// Gives its terminal another size, which its programs are told. A run without one ignores it.
    pub fn resize(&self, size: TerminalSize) {
        self.link.send(&ToSupervisor::Resize(size));
    }

    /// Whether its terminal shows what is typed at this moment. `None` when its supervisor does not say so soon: it ended,
    /// or is of a version that is never asked.
    #[crate::compiled_once]
    pub async fn echoes(&self) -> Option<bool> {
        let mut answers = self.link.echoes.subscribe();
        self.link.send(&ToSupervisor::AskEcho);
        let answered = tokio::time::timeout(ECHO_TIMEOUT, answers.changed()).await;
        matches!(answered, Ok(Ok(()))).then(|| *answers.borrow())
    }

    /// What arrows must send to its terminal, as of the output that was reported so far.
    pub fn cursor_keys(&self) -> CursorKeys {
        if self.link.sends_application_keys.load(Ordering::Relaxed) {
            CursorKeys::Application
        } else {
            CursorKeys::Normal
        }
    }
}

impl Drop for RunControl {
    fn drop(&mut self) {
        if !self.link.lets_go.load(Ordering::Relaxed) {
            self.link.send(&ToSupervisor::Kill(KillCause::Cancelled));
        }
        // Its supervisor need not wait any longer for the server to say that the output is stored. Both halves are gone
        // then or this half only; the other still reads what was sent.
        self.link.input_room.close();
    }
}

/// What a run's supervisor reports.
#[derive(Debug)]
pub struct RunEvents {
    link: Arc<Link>,
    run_id: RunId,
    run_files: RunFiles,
    inbox: Inbox,
    buffer: Vec<u8>,
    /// The output that is kept so far in the spool's format, as long as it is small.
    inline: Option<InlineFrames>,
    /// When it was told that the command was started, in this server.
    begun: Option<Duration>,
    /// Most bytes of output that are kept, here or in the spool. More is reported all the same.
    max_bytes: u64,
    ready: VecDeque<SupervisorEvent>,
    stage: Stage,
    /// What each of its rulesets lets be executed, if that is observed and this server started it.
    starts: Vec<Arc<StartsAllowed>>,
    observed: Option<Observed>,
}

/// How far the reports have come. A supervisor under another account may send anything at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Nothing was reported yet.
    Ordered,
    /// The first process runs.
    Running,
    /// The run has ended.
    LeftoversRun,
    /// The supervisor vanished, and what it left of the run is to be killed.
    Vanished(Fence),
    Over,
}

impl RunEvents {
    /// The next report; `None` when there will be no more.
    ///
    /// # Cancel safety
    /// Cancelled, it has lost nothing.
    #[crate::compiled_once]
    pub async fn recv(&mut self) -> Option<SupervisorEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match &self.stage {
                Stage::Over => return None,
                Stage::Vanished(fence) => {
                    self.run_files.sweep(fence).await;
                    self.stage = Stage::Over;
                    return Some(SupervisorEvent::Lost);
                }
                Stage::Ordered | Stage::Running | Stage::LeftoversRun => {}
            }
            match self.inbox.next_from_supervisor() {
                Ok(Some(message)) if is_in_place(&message, &self.stage) => {
                    self.take(message);
                    continue;
                }
                Ok(None) => {}
                // No supervisor writes such a thing. The server does not listen any longer to a peer that does.
                Ok(Some(_)) => {
                    tracing::error!(run.id = %self.run_id, "a supervisor's report is out of place");
                    self.closed();
                    continue;
                }
                Err(error) => {
                    tracing::error!(run.id = %self.run_id, error = %error, "a supervisor's report is unreadable");
                    self.closed();
                    continue;
                }
            }
            self.read().await;
        }
    }

    /// Waits for bytes, and sends meanwhile what waits to be sent.
    async fn read(&mut self) {
        let has_outgoing = self.link.flush();
        tokio::select! {
            biased;
            read = self.link.line.read(&mut self.buffer) => match read {
                Ok(0) | Err(_) => self.closed(),
                Ok(read) => self.inbox.push(self.buffer.get(..read).unwrap_or_default()),
            },
            // A failure here is one of reading too, and is reported there.
            _ready = self.link.line.writable(), if has_outgoing => {}
            () = self.link.queued.notified() => {}
        }
    }

    fn take(&mut self, message: FromSupervisor) {
        let event = match message {
            FromSupervisor::Started { pid, start_time: _ } => {
                self.stage = Stage::Running;
                self.begun = Some(process::monotonic());
                SupervisorEvent::Started { pid }
            }
            FromSupervisor::Output(stream, bytes) => {
                self.keep_inline(stream, &bytes);
                SupervisorEvent::Output { stream, bytes }
            }
            FromSupervisor::Skipped(bytes) => {
                // A hole, unless nothing of it would have been kept.
                self.inline = self
                    .inline
                    .take()
                    .filter(|inline| inline.payload() >= self.max_bytes);
                SupervisorEvent::Skipped { bytes }
            }
            FromSupervisor::InputTaken(bytes) => {
                self.link
                    .input_room
                    .add_permits(usize::try_from(bytes).unwrap_or(0).min(INPUT_BYTES));
                return;
            }
            FromSupervisor::CursorKeys(mode) => {
                let is_application = mode == CursorKeys::Application;
                self.link
                    .sends_application_keys
                    .store(is_application, Ordering::Relaxed);
                return;
            }
            FromSupervisor::Echo(shows) => {
                self.link.echoes.send_replace(shows);
                return;
            }
            FromSupervisor::Attached { .. } => return,
            FromSupervisor::Observed { starts, more } => {
                // Without them it is unknown which of these were refused.
                if !self.starts.is_empty() {
                    self.observed = Some(rulesets::observed(&self.starts, starts, more));
                }
                return;
            }
            FromSupervisor::Exited {
                exit,
                is_spooled,
                leftovers_run,
            } => {
                self.end(exit, is_spooled, leftovers_run);
                return;
            }
            FromSupervisor::LeftoversEnded => {
                self.over();
                SupervisorEvent::LeftoversEnded
            }
            FromSupervisor::NotStarted(why) => {
                self.over();
                self.run_files.tidy();
                SupervisorEvent::NotStarted(why)
            }
        };
        self.ready.push_back(event);
    }

    fn keep_inline(&mut self, stream: OutputStream, bytes: &[u8]) {
        let Some(inline) = &mut self.inline else { return };
        let room = self.max_bytes.saturating_sub(inline.payload());
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let bytes = bytes.get(..room).unwrap_or(bytes);
        // The supervisor has moved it to the spool by now.
        if inline.payload() + bytes.len() as u64 > INLINE_BYTES as u64 {
            self.inline = None;
        } else {
            let elapsed = self
                .begun
                .map_or(Duration::ZERO, |begun| process::monotonic().saturating_sub(begun));
            inline.push_at(elapsed, stream, bytes);
        }
    }

    fn end(&mut self, exit: Exit, is_spooled: bool, leftovers_run: bool) {
        self.run_files.cut();
        let output = match self.inline.take() {
            Some(inline) if !is_spooled => KeptOutput::Inline(inline.into_bytes()),
            Some(_) | None => KeptOutput::Spooled,
        };
        if leftovers_run {
            self.stage = Stage::LeftoversRun;
        } else {
            self.over();
        }
        // Nothing is left that dropping the control should kill.
        self.link.lets_go.store(true, Ordering::Relaxed);
        self.ready.push_back(SupervisorEvent::Exit(EndedRun {
            exit,
            output,
            leftovers_run,
            observed: self.observed.take(),
        }));
    }

    fn over(&mut self) {
        self.stage = Stage::Over;
        self.link.lets_go.store(true, Ordering::Relaxed);
        self.link.input_room.close();
    }

    /// The supervisor is gone: the run file knows how far it came.
    fn closed(&mut self) {
        let was = std::mem::replace(&mut self.stage, Stage::Over);
        self.over();
        if was == Stage::LeftoversRun {
            self.ready.push_back(SupervisorEvent::LeftoversEnded);
            return;
        }
        let event = match self.run_files.state() {
            Ok(RunFileState::Missing | RunFileState::Empty) => {
                SupervisorEvent::NotStarted(NotStarted::NoReport)
            }
            Ok(RunFileState::Void) => SupervisorEvent::NotStarted(NotStarted::FenceLost),
            Ok(RunFileState::Exited(exit, _launch_id)) => {
                self.run_files.cut();
                // All of the output was sent before the end was recorded, unless there is a spool.
                let output = self
                    .inline
                    .take()
                    .filter(|inline| inline.payload() == exit.kept_bytes)
                    .map_or(KeptOutput::Spooled, |inline| {
                        KeptOutput::Inline(inline.into_bytes())
                    });
                SupervisorEvent::Exit(EndedRun {
                    exit,
                    output,
                    leftovers_run: false,
                    observed: self.observed.take(),
                })
            }
            Ok(RunFileState::Started(fence)) => {
                // The runner kills what its supervisor leaves. Should it be dead too, the session can be found.
                self.stage = Stage::Vanished(fence);
                return;
            }
            Ok(RunFileState::Torn) => SupervisorEvent::Lost,
            Err(error) => {
                tracing::error!(run.id = %self.run_id, error = %error, "a run file cannot be read");
                SupervisorEvent::Lost
            }
        };
        self.ready.push_back(event);
    }
}

/// Whether a supervisor says this at this stage.
const fn is_in_place(message: &FromSupervisor, stage: &Stage) -> bool {
    match (message, stage) {
        (FromSupervisor::Started { .. } | FromSupervisor::NotStarted(_), Stage::Ordered)
        | (
            FromSupervisor::Output(..)
            | FromSupervisor::Skipped(_)
            | FromSupervisor::CursorKeys(_)
            | FromSupervisor::Echo(_)
            | FromSupervisor::Attached { .. }
            | FromSupervisor::Observed { .. },
            Stage::Running,
        )
        // A program that could not be executed ends without having started.
        | (FromSupervisor::Exited { .. }, Stage::Ordered | Stage::Running)
        | (FromSupervisor::LeftoversEnded, Stage::LeftoversRun)
        | (FromSupervisor::InputTaken(_), Stage::Running | Stage::LeftoversRun) => true,
        (
            FromSupervisor::Started { .. }
            | FromSupervisor::Output(..)
            | FromSupervisor::Skipped(_)
            | FromSupervisor::InputTaken(_)
            | FromSupervisor::CursorKeys(_)
            | FromSupervisor::Echo(_)
            | FromSupervisor::Attached { .. }
            | FromSupervisor::Exited { .. }
            | FromSupervisor::LeftoversEnded
            | FromSupervisor::NotStarted(_)
            | FromSupervisor::Observed { .. },
            Stage::Ordered | Stage::Running | Stage::LeftoversRun | Stage::Vanished(_) | Stage::Over,
        ) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_has_its_place() {
        let fence = Fence {
            pid: 1,
            boot_id: "boot".to_owned(),
            start_time: 1,
            launch_id: "launch".to_owned(),
        };
        let stages = [
            Stage::Ordered,
            Stage::Running,
            Stage::LeftoversRun,
            Stage::Vanished(fence),
            Stage::Over,
        ];
        let started = FromSupervisor::Started {
            pid: 1,
            start_time: 1,
        };
        let exited = FromSupervisor::Exited {
            exit: Exit::default(),
            is_spooled: false,
            leftovers_run: true,
        };
        let output = FromSupervisor::Output(OutputStream::Stdout, vec![]);
        let attached = FromSupervisor::Attached {
            kept_bytes: 0,
            output_bytes: 0,
        };
        // In particular: nothing begins or ends twice, and nothing ends that is not running.
        for (message, places) in [
            (started, [true, false, false, false, false]),
            (
                FromSupervisor::NotStarted(NotStarted::Held),
                [true, false, false, false, false],
            ),
            (output, [false, true, false, false, false]),
            (FromSupervisor::Skipped(1), [false, true, false, false, false]),
            (
                FromSupervisor::CursorKeys(CursorKeys::Normal),
                [false, true, false, false, false],
            ),
            (FromSupervisor::Echo(true), [false, true, false, false, false]),
            (attached, [false, true, false, false, false]),
            (FromSupervisor::InputTaken(1), [false, true, true, false, false]),
            (exited, [true, true, false, false, false]),
            (FromSupervisor::LeftoversEnded, [false, false, true, false, false]),
        ] {
            let found: Vec<_> = stages.iter().map(|stage| is_in_place(&message, stage)).collect();
            assert_eq!(found, places, "{message:?}");
        }
    }
}
