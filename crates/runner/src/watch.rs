//! One running command: its output, its time limit, its server, its end.
//!
//! A single loop around `poll`. It never waits for the server, so a command is never held up by one that is slow
//! or gone, and it ends only when the run has ended, was recorded, and its output is with the server or on disk.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::RecvFlags,
    process::Signal,
};

use countersign_domain::{Exit, KillCause, OutputStream};
use countersign_sys::{
    hooks,
    process::{self, Ended, Process, Reaped},
};

use super::{
    answers::{Answering, Starts},
    attach::Listener,
    cgroup::Holding,
    input::Input,
    limits::{FIRST_WORD_DELAY, STORED_TIMEOUT},
    outbox::{Outbox, Sent},
    post::{Post, Tools},
    retained::{Retained, SpoolPlace},
    run_file,
    terminal::{ANSWER_BYTES, Terminal},
    tree::{self, Struck},
    wire::{FromSupervisor, Inbox, Order, ToSupervisor},
};

/// Most bytes of output taken at a time.
pub(super) const READ_BYTES: usize = 128 * 1024;

/// The size that the pipes of a command get once it writes much, so that it is woken less often.
const LARGE_PIPE_BYTES: usize = 512 * 1024;

/// Most bytes read after the end from pipes that a process still writes to.
const MAX_LAST_BYTES: usize = 4 * 1024 * 1024;

/// How often the tree is struck again while it dies.
const STRIKE_INTERVAL: Duration = Duration::from_millis(5);

/// The interval grows to this for what cannot be killed, e.g. another user's process.
const MAX_STRIKE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a run that has ended waits for those of its processes to die that do not, e.g. since they changed
/// their user. They are struck on, but the end is reported.
const STRIKE_TIMEOUT: Duration = Duration::from_secs(5);

/// After so long a socket is tried for again that could not be made. A server that starts looks for longer.
const LISTEN_AGAIN: Duration = Duration::from_millis(500);

/// A command that was started.
#[derive(Debug)]
pub(super) struct Command<'a> {
    pub(super) process: Process,
    /// Whether it is the shell of a text whose program was to be started without one.
    pub(super) by_shell: bool,
    pub(super) output: OwnedFd,
    /// `None` on a terminal, which has one output.
    pub(super) errors: Option<OwnedFd>,
    pub(super) input: Input,
    /// What keeps the first process of a sandbox waiting for the command.
    pub(super) life: Option<OwnedFd>,
    pub(super) terminal: Option<Terminal>,
    /// What keeps it within its limits.
    pub(super) holding: Holding<'a>,
    /// Who answers for the scripts that it reads.
    pub(super) answers: Option<Answering>,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, not the states of one machine"
)]
pub(super) struct Watch<'a> {
    post: &'a Post<'a>,
    tools: &'a Tools,
    order: &'a Order,
    run_file: BorrowedFd<'a>,
    process: Process,
    life: Option<OwnedFd>,
    pipes: [Option<OwnedFd>; 2],
    input: Input,
    terminal: Option<Terminal>,
    holding: Holding<'a>,
    answers: Option<Answering>,
    buffer: &'a mut [u8],
    retained: Retained<'a>,
    /// Since when the time of its output is counted.
    begun: Duration,
    server: Server<'a>,
    outlives_server: bool,
    /// When the time limit passes.
    timeout_at: Option<Duration>,
    first_ended: Option<Ended>,
    /// `waitpid` said that there are no children, so nothing of the run is left.
    is_empty: bool,
    /// Until when leftovers may go on writing; set when the first process ended.
    leftovers_until: Option<Duration>,
    leftovers_killed: bool,
    by_shell: bool,
    kill: Kill,
    /// Whether the end is in the run file. What happens after that changes it no more.
    is_recorded: bool,
    is_stored: bool,
    /// Whether only what the run left goes on.
    is_with_leftovers: bool,
}

struct Server<'a> {
    stream: Option<Stream>,
    listener: Option<Listener<'a>>,
    /// When a socket is tried for again that could not be made.
    listen_at: Option<Duration>,
    inbox: Inbox,
    outbox: Outbox,
    /// Before this nothing is sent, so that a short command needs one message.
    quiet_until: Duration,
}

/// The stream of the run: the one that came with the order, or that of a server that attached later.
struct Stream(OwnedFd);

/// How far the killing has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    No,
    /// `SIGTERM` was sent; at this time follows `SIGKILL`.
    Asked {
        cause: KillCause,
        until: Duration,
    },
    /// `SIGKILL` is sent until nothing is left, next at `again`. After `give_up_at` what still lives is unkillable.
    Striking {
        cause: Option<KillCause>,
        again: Duration,
        /// `None` before the first strike.
        interval: Option<Duration>,
        give_up_at: Duration,
    },
}

impl Kill {
    fn strike(cause: Option<KillCause>, now: Duration) -> Self {
        Self::Striking {
            cause,
            again: now,
            interval: None,
            give_up_at: now + STRIKE_TIMEOUT,
        }
    }

    const fn cause(self) -> Option<KillCause> {
        match self {
            Self::No => None,
            Self::Asked { cause, .. } => Some(cause),
            Self::Striking { cause, .. } => cause,
        }
    }
}

const STREAMS: [OutputStream; 2] = [OutputStream::Stdout, OutputStream::Stderr];

impl<'a> Watch<'a> {
    #[expect(clippy::too_many_arguments, reason = "what a run is made of, each once")]
    pub(super) fn new(
        post: &'a Post<'a>,
        tools: &'a Tools,
        order: &'a Order,
        run_file: BorrowedFd<'a>,
        control: &OwnedFd,
        place_of_spool: SpoolPlace<'a>,
        command: Command<'a>,
        buffer: &'a mut [u8],
    ) -> Self {
        let now = process::monotonic();
        let Command {
            process,
            output,
            errors,
            input,
            life,
            terminal,
            holding,
            by_shell,
            answers,
        } = command;
        let mut retained = Retained::new(place_of_spool, order.run_id.as_str(), order.max_run_bytes);
        if let Some(size) = order.terminal {
            retained.size(Duration::ZERO, size);
        }
        let mut outbox = Outbox::new();
        outbox.say(&FromSupervisor::Started {
            pid: process.pid,
            start_time: process.start_time,
        });
        Self {
            post,
            tools,
            order,
            run_file,
            process,
            life,
            pipes: [Some(output), errors],
            input,
            terminal,
            holding,
            answers,
            buffer,
            retained,
            begun: now,
            server: Server {
                // Without a descriptor to spare there is no server to talk to; the run goes on as without one.
                stream: control.try_clone().ok().map(Stream),
                listener: None,
                listen_at: None,
                inbox: Inbox::default(),
                outbox,
                quiet_until: now + FIRST_WORD_DELAY,
            },
            outlives_server: order.outlives_server,
            timeout_at: (order.timeout_ms > 0)
                .then(|| now.saturating_add(Duration::from_millis(order.timeout_ms))),
            first_ended: None,
            is_empty: false,
            leftovers_until: None,
            leftovers_killed: false,
            by_shell,
            kill: Kill::No,
            is_recorded: false,
            is_stored: false,
            is_with_leftovers: false,
        }
    }

    /// Stays with the run until nothing of it is left.
    pub(super) fn run(mut self) {
        while !self.is_over() {
            self.turn();
        }
        self.finish();
    }

    fn is_over(&self) -> bool {
        let Some(leftovers_until) = self.leftovers_until else {
            return false;
        };
        let is_silent = self.pipes.iter().all(Option::is_none);
        let grace_is_over = process::monotonic() >= leftovers_until;
        if self.is_empty {
            // What is still written comes from outside the run: a pipe that was handed to another program.
            return is_silent || grace_is_over || self.kill != Kill::No;
        }
        match self.kill {
            Kill::No => self.order.keeps_leftovers && grace_is_over,
            Kill::Asked { .. } => false,
            Kill::Striking { give_up_at, .. } => process::monotonic() >= give_up_at,
        }
    }

    /// Does what is due, waits for the next thing to happen, and takes it.
    fn turn(&mut self) {
        let now = process::monotonic();
        self.act(now);
        let ready = self.wait(now);
        if ready.children {
            self.reap();
        }
        for (index, is_ready) in ready.pipes.into_iter().enumerate() {
            if is_ready {
                self.read_pipe(index);
            }
        }
        if ready.input {
            self.feed();
        }
        if ready.server_speaks {
            self.listen_to_server();
        }
        if ready.server_listens {
            self.tell_server();
        }
        if ready.attaching {
            self.attach();
        }
    }

    /// Everything that happens because of the time.
    fn act(&mut self, now: Duration) {
        if self.first_ended.is_none() && self.timeout_at.is_some_and(|at| now >= at) {
            self.timeout_at = None;
            self.begin_kill(KillCause::Timeout, now);
        }
        let grace_is_over = self.leftovers_until.is_some_and(|until| now >= until);
        if grace_is_over && self.kill == Kill::No && !self.is_empty && !self.order.keeps_leftovers {
            self.leftovers_killed = true;
            self.kill = Kill::strike(None, now);
        }
        if let Kill::Asked { cause, until } = self.kill
            && now >= until
        {
            self.kill = Kill::strike(Some(cause), now);
        }
        if let Kill::Striking {
            cause,
            again,
            interval,
            give_up_at,
        } = self.kill
            && now >= again
            && !self.is_empty
        {
            let struck = self.strike(interval);
            let interval = match (interval, struck) {
                (Some(interval), Struck::All) => (interval * 2).min(MAX_STRIKE_INTERVAL),
                // What moves on is not what cannot be killed.
                (Some(_), Struck::NotAll) | (None, _) => STRIKE_INTERVAL,
            };
            self.kill = Kill::Striking {
                cause,
                again: now + interval,
                interval: Some(interval),
                give_up_at,
            };
        }
        if self.server.listen_at.is_some_and(|at| now >= at) {
            self.await_server();
        }
        if self.server.outbox.tail_due().is_some_and(|due| now >= due) {
            self.server.outbox.queue_tail(now);
        }
        if now >= self.server.quiet_until {
            self.tell_server();
            self.tell_mode();
        }
    }

    fn begin_kill(&mut self, cause: KillCause, now: Duration) {
        match self.kill {
            Kill::No => {}
            Kill::Asked { .. } | Kill::Striking { .. } => return,
        }
        if self.first_ended.is_some() {
            // The run has ended, and not by this; only its leftovers are killed.
            self.leftovers_killed |= !self.is_empty;
            self.kill = Kill::strike(None, now);
            return;
        }
        let grace = Duration::from_millis(self.order.kill_grace_ms.into());
        self.kill = if grace.is_zero() {
            Kill::strike(Some(cause), now)
        } else {
            // A stopped process cannot end itself.
            for signal in [Signal::TERM, Signal::CONT] {
                self.signal_group(signal);
                tree::signal_descendants_outside(self.process.pid, signal);
            }
            Kill::Asked {
                cause,
                until: now + grace,
            }
        };
    }

    /// Kills all that there is of the run, `interval` after the last time.
    fn strike(&self, interval: Option<Duration>) -> Struck {
        self.signal_group(Signal::KILL);
        let struck = tree::kill_descendants_except(&[]);
        // Nearly always the first strike was enough, and moving to another group and back takes its time.
        if interval.is_some()
            && let Some(group) = self.post.group
        {
            // Refused, there is the next strike.
            group.kill_others().unwrap_or(());
        }
        struck
    }

    fn signal_group(&self, signal: Signal) {
        // Its number stays taken until we reap it, and after that for as long as its group has members.
        if self.first_ended.is_none() {
            process::signal_group(self.process.pid, signal);
        }
    }

    fn wait(&self, now: Duration) -> Ready {
        let wants_to_send = !self.server.outbox.is_empty() && now >= self.server.quiet_until;
        let stream_events = if wants_to_send {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let sources: [(Option<BorrowedFd<'_>>, PollFlags); 6] = [
            (Some(self.tools.signals.as_fd()), PollFlags::IN),
            (self.pipe(0), PollFlags::IN),
            (self.pipe(1), PollFlags::IN),
            (self.input.waiting(), PollFlags::OUT),
            (
                self.server.stream.as_ref().map(|stream| stream.0.as_fd()),
                stream_events,
            ),
            (self.server.listener.as_ref().map(AsFd::as_fd), PollFlags::IN),
        ];
        let mut descriptors: Vec<_> = sources
            .iter()
            .filter_map(|(source, events)| source.map(|source| PollFd::from_borrowed_fd(source, *events)))
            .collect();
        let timeout = self.next_event(now).map(|at| at.saturating_sub(now));
        if process::poll(&mut descriptors, timeout).is_err() {
            return Ready::default();
        }
        let mut events = descriptors.iter().map(PollFd::revents);
        let [children, output, errors, input, stream, listener] =
            sources.map(|(source, _)| source.and_then(|_| events.next()).unwrap_or(PollFlags::empty()));
        Ready {
            children: !children.is_empty(),
            pipes: [!output.is_empty(), !errors.is_empty()],
            input: !input.is_empty(),
            server_speaks: stream.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            server_listens: stream.contains(PollFlags::OUT),
            attaching: !listener.is_empty(),
        }
    }

    fn pipe(&self, index: usize) -> Option<BorrowedFd<'_>> {
        self.pipes.get(index)?.as_ref().map(AsFd::as_fd)
    }

    /// When something is due without anything happening before. By the same time as it was decided what is waited for: the
    /// first word that was not due then would be due never, had its moment passed since.
    fn next_event(&self, now: Duration) -> Option<Duration> {
        let kill = match self.kill {
            Kill::No => None,
            Kill::Asked { until, .. } => Some(until),
            Kill::Striking { again, .. } => (!self.is_empty).then_some(again),
        };
        let first_word = (!self.server.outbox.is_empty() && self.server.stream.is_some())
            .then_some(self.server.quiet_until)
            // Later it is the stream's readiness that counts.
            .filter(|at| *at > now);
        let tail = self
            .server
            .stream
            .as_ref()
            .and_then(|_| self.server.outbox.tail_due());
        let timeout = self.timeout_at.filter(|_| self.first_ended.is_none());
        let leftovers = self.leftovers_until.filter(|_| self.kill == Kill::No);
        [kill, first_word, tail, timeout, leftovers, self.server.listen_at]
            .into_iter()
            .flatten()
            .min()
    }

    fn reap(&mut self) {
        self.tools.signals.clear();
        loop {
            match process::reap() {
                Ok(Reaped::Child(pid, ended)) => {
                    if pid == self.process.pid {
                        hooks::reach("sup.child-ended");
                        self.first_ended = Some(ended);
                        self.life = None;
                        if let Some(terminal) = &mut self.terminal {
                            terminal.let_go();
                        }
                        let grace = Duration::from_millis(self.order.leftovers_grace_ms.into());
                        self.leftovers_until = Some(process::monotonic() + grace);
                    }
                }
                Ok(Reaped::NoChildren) => {
                    self.is_empty = true;
                    return;
                }
                Ok(Reaped::NoneEnded) | Err(_) => return,
            }
        }
    }

    /// Takes what a pipe has. False when it has nothing now, or never again.
    fn read_pipe(&mut self, index: usize) -> bool {
        let (Some(slot), Some(stream)) = (self.pipes.get_mut(index), STREAMS.get(index)) else {
            return false;
        };
        let Some(pipe) = slot else { return false };
        let portion = self.terminal.as_ref().map_or(usize::MAX, Terminal::portion);
        let room = self.buffer.len().min(portion);
        let Some(buffer) = self.buffer.get_mut(..room) else {
            return false;
        };
        // The end of a terminal is an error.
        match rustix::io::read(&*pipe, &mut *buffer) {
            Ok(0) => {
                *slot = None;
                false
            }
            Ok(length) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                if let Some(terminal) = &mut self.terminal {
                    let room = ANSWER_BYTES.saturating_sub(self.input.own_bytes());
                    self.input.push_own(&terminal.draw(bytes, room));
                }
                let was_spooled = self.retained.is_spooled();
                let elapsed = process::monotonic().saturating_sub(self.begun);
                self.retained.push(elapsed, *stream, bytes);
                if self.server.stream.is_some() {
                    self.server.outbox.output(*stream, bytes);
                }
                if !was_spooled && self.retained.is_spooled() && self.terminal.is_none() {
                    // Refused where the user has too many large pipes already.
                    rustix::pipe::fcntl_setpipe_size(&*pipe, LARGE_PIPE_BYTES).unwrap_or(0);
                }
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => false,
            Err(_) => {
                *slot = None;
                false
            }
        }
    }

    /// What was written but not read yet when the run ended.
    fn read_the_rest(&mut self) {
        for index in 0..self.pipes.len() {
            let before = self.retained.seen();
            while self.retained.seen() - before < MAX_LAST_BYTES as u64
                && self.pipe(index).is_some_and(is_readable)
                && self.read_pipe(index)
            {}
        }
    }

    fn feed(&mut self) {
        let taken = self.input.write();
        self.credit(taken);
    }

    /// Says what arrows must send, when nothing else waits to be said: a program may change it as often as it likes.
    fn tell_mode(&mut self) {
        if self.server.stream.is_some()
            && self.server.outbox.is_empty()
            && let Some(mode) = self.terminal.as_mut().and_then(Terminal::news)
        {
            self.server.outbox.say(&FromSupervisor::CursorKeys(mode));
            self.tell_server();
        }
    }

    fn credit(&mut self, bytes: usize) {
        if bytes > 0 {
            self.server.outbox.say(&FromSupervisor::InputTaken(
                u32::try_from(bytes).unwrap_or(u32::MAX),
            ));
        }
    }

    fn tell_server(&mut self) {
        if let Some(stream) = &self.server.stream
            && self.server.outbox.send(stream.0.as_fd()) == Sent::Nobody
        {
            self.listen_to_server();
        }
    }

    fn listen_to_server(&mut self) {
        let mut buffer = [0; 16 * 1024];
        let Some(stream) = &self.server.stream else { return };
        let is_gone = match rustix::net::recv(&stream.0, &mut buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => true,
            Ok((length, _)) => {
                self.server.inbox.push(buffer.get(..length).unwrap_or_default());
                false
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => true,
        };
        while let Ok(Some(message)) = self.server.inbox.next_to_supervisor() {
            self.obey(message);
        }
        if is_gone {
            self.server_left();
        }
    }

    /// Since the command was started.
    fn elapsed(&self) -> Duration {
        process::monotonic().saturating_sub(self.begun)
    }

    fn obey(&mut self, message: ToSupervisor) {
        match message {
            ToSupervisor::Kill(cause) => self.begin_kill(cause, process::monotonic()),
            ToSupervisor::Background => self.outlives_server = true,
            ToSupervisor::Input(bytes) => {
                let shows =
                    |terminal: &Terminal| self.input.waiting().is_none() && terminal.shows(bytes.len());
                if self.order.records_input && self.terminal.as_ref().is_some_and(shows) {
                    self.retained.typed(self.elapsed(), &bytes);
                }
                let dropped = self.input.push(&bytes);
                self.credit(dropped);
                self.feed();
            }
            ToSupervisor::EndOfInput => match &self.terminal {
                None => self.input.end(),
                Some(terminal) => {
                    if let Some(character) = terminal.end_of_input() {
                        self.input.type_end(character);
                        self.feed();
                    }
                }
            },
            ToSupervisor::Resize(size) => {
                if let Some(terminal) = &mut self.terminal {
                    terminal.resize(size);
                    self.retained.size(self.elapsed(), size);
                }
            }
            ToSupervisor::AskEcho => {
                let echoes = self.terminal.as_ref().is_some_and(Terminal::echoes);
                self.server.outbox.say(&FromSupervisor::Echo(echoes));
            }
            ToSupervisor::Stored => self.is_stored = true,
        }
    }

    /// Nobody is attached any more: a foreground run ends, any other goes on alone.
    fn server_left(&mut self) {
        self.server.stream = None;
        self.server.inbox = Inbox::default();
        if self.is_recorded {
            self.await_server_for_leftovers();
            return;
        }
        if !self.outlives_server {
            self.begin_kill(KillCause::Shutdown, process::monotonic());
            return;
        }
        self.retained.spool();
        self.await_server();
    }

    /// Waits where the next server looks. On a full disk there is no room for a socket, and it is tried again.
    fn await_server(&mut self) {
        let listener = Listener::bind(self.post.meeting, self.order.run_id.as_str());
        self.server.listen_at = listener.is_err().then(|| process::monotonic() + LISTEN_AGAIN);
        self.server.listener = listener.ok();
    }

    /// What was left running can be found and ended by the next server, too.
    fn await_server_for_leftovers(&mut self) {
        if self.is_with_leftovers {
            self.await_server();
        }
    }

    fn attach(&mut self) {
        let Some(stream) = self.server.listener.as_ref().and_then(Listener::accept) else {
            return;
        };
        self.server.listener = None;
        self.server.listen_at = None;
        self.server.stream = Some(Stream(stream));
        self.server.outbox = Outbox::after_the_spool(self.retained.seen());
        let Process { pid, start_time, .. } = self.process;
        self.server
            .outbox
            .say(&FromSupervisor::Started { pid, start_time });
        self.server.outbox.say(&FromSupervisor::Attached {
            kept_bytes: self.retained.kept(),
            output_bytes: self.retained.seen(),
        });
        if let Some(terminal) = &mut self.terminal {
            terminal.forget_announced_keys();
        }
        self.tell_server();
    }

    /// Records the end and hands it over.
    fn finish(mut self) {
        self.read_the_rest();
        let leftovers_run = !self.is_empty;
        if self.server.stream.is_none() {
            // A server that finds the record must find the output too.
            self.retained.spool();
        }
        let exit = self.exit();
        self.server.outbox.queue_tail(process::monotonic());
        if self.retained.is_only_in_memory() {
            // Sent before the end is recorded: should this process die in between, the server has it.
            self.tell_server();
        }
        hooks::reach("sup.before-exit-line");
        // Should the record fail, the server still learns it now; only a later one would call the run lost.
        run_file::append_exit(self.run_file, &exit).unwrap_or(());
        self.is_recorded = true;
        hooks::reach("sup.exit-line-written");
        let is_spooled = self.retained.is_spooled();
        if let Some(Starts { named, more }) = self.answers.as_ref().and_then(Answering::starts) {
            self.server
                .outbox
                .say(&FromSupervisor::Observed { starts: named, more });
        }
        self.server.outbox.say(&FromSupervisor::Exited {
            exit,
            is_spooled,
            leftovers_run,
        });
        self.tell_server();
        hooks::reach("sup.exit-sent");
        self.server.listener = None;
        self.server.listen_at = None;
        self.await_stored();
        if leftovers_run {
            self.stay_with_leftovers();
        }
        if let Some(answers) = self.answers.take() {
            answers.end();
        }
    }

    fn exit(&self) -> Exit {
        let (code, signal) = match self.first_ended {
            Some(Ended::Code(code)) => (Some(code), None),
            Some(Ended::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        Exit {
            code,
            signal,
            spawn_errno: None,
            killed: self.kill.cause(),
            leftovers_killed: self.leftovers_killed,
            by_shell: self.by_shell,
            output_bytes: self.retained.seen(),
            kept_bytes: self.retained.kept(),
            limits: self.holding.report(),
        }
    }

    /// Waits until the server has everything and, for output that exists nowhere else, says that it is stored.
    fn await_stored(&mut self) {
        let deadline = process::monotonic() + STORED_TIMEOUT;
        while let Some(stream) = &self.server.stream
            && !(self.server.outbox.is_empty() && (self.is_stored || !self.retained.is_only_in_memory()))
        {
            let now = process::monotonic();
            if now >= deadline {
                break;
            }
            let events = if self.server.outbox.is_empty() {
                PollFlags::IN
            } else {
                PollFlags::IN | PollFlags::OUT
            };
            let mut descriptors = [PollFd::new(&stream.0, events)];
            if process::poll(&mut descriptors, Some(deadline.saturating_sub(now))).is_err() {
                break;
            }
            self.tell_server();
            self.listen_to_server();
        }
        if !self.is_stored && self.retained.is_only_in_memory() {
            self.retained.spool();
            hooks::reach("sup.output-spooled");
        }
    }

    /// Reaps what the run left, and reads what that writes, until it ended or a server wants it killed. It goes on
    /// without a server, like a daemon.
    fn stay_with_leftovers(&mut self) {
        self.leftovers_until = None;
        self.timeout_at = None;
        self.is_with_leftovers = true;
        if self.server.stream.is_none() {
            self.await_server_for_leftovers();
        }
        while !self.is_empty {
            let now = process::monotonic();
            self.act(now);
            let ready = self.wait(now);
            if ready.children {
                self.reap();
            }
            for (slot, is_ready) in self.pipes.iter_mut().zip(ready.pipes) {
                if is_ready
                    && let Some(pipe) = slot
                    && matches!(rustix::io::read(&*pipe, &mut *self.buffer), Ok(0) | Err(_))
                {
                    *slot = None;
                }
            }
            if ready.server_speaks {
                self.listen_to_server();
            }
            if ready.server_listens {
                self.tell_server();
            }
            if ready.attaching {
                self.attach();
            }
        }
        self.server.outbox.say(&FromSupervisor::LeftoversEnded);
        self.tell_server();
    }
}

/// What [`Watch::wait`] found.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one per descriptor that is watched")]
struct Ready {
    children: bool,
    pipes: [bool; 2],
    input: bool,
    server_speaks: bool,
    server_listens: bool,
    attaching: bool,
}

fn is_readable(pipe: BorrowedFd<'_>) -> bool {
    let mut descriptors = [PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
    let polled = process::poll(&mut descriptors, Some(Duration::ZERO));
    let [pipe] = descriptors;
    polled.is_ok() && pipe.revents().contains(PollFlags::IN)
}
