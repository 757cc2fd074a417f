//! The scripts of a run, held: an interpreter that opens one to read gets the content that was checked. It must never
//! permit anything because of what stands in a caller's memory. Entry point: [`Answers`].
//!
//! ```text
//! server ── checked content, sealed ──▶ supervisor ◀── "open(path)?" ── interpreter (waits in the kernel)
//!                                           └── a descriptor of the checked content ──▶ interpreter
//! ```
//!
//! The kernel never looks at the path, so there is no moment at which another file could take its place. Some
//! interpreters look before they open, and read another file where they find a directory or nothing: while a script is
//! held, a question for it finds a file, and nothing is beneath it. A path is told by its text. Where the text depends
//! on something that can be exchanged too (the name of the working directory, the target of a link), the question for
//! that is answered here as well, and the answer counts as a name of the script from then on.
//!
//! Interpreters are the programs that the run was judged with, and what its first process executes in its own place.
//! What they start besides reads the disk: `cp` compares what it opens with what it looked at before, and would give
//! up. A run that changes, renames or removes one of these files itself gets the file from then on. Everything else is
//! left to the kernel. Where a path may be a script or another file, an interpreter gets neither.
//!
//! The same listeners hear which programs are executed, where that is observed (`observing`). It decides nothing.

mod lineage;
mod observing;
mod paths;
mod processes;
mod reply;
mod scripts;
mod standing;
mod steps;

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    event::{
        PollFd, PollFlags,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::Errno,
    pipe::PipeFlags,
};

use countersign_sys::{
    interception::{Call, CloseOnExec, Listener, Wish},
    process::{self, Pid},
    socket::{self, Received},
};

use self::{observing::Seen, processes::Caller};
pub(super) use self::{observing::Starts, scripts::Scripts};

/// Calls of one program that are answered before those of the others.
const CALLS_AT_A_TIME: usize = 64;
/// How long the end of the thread is waited for.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The mark of the socket on which listeners arrive.
const ARRIVALS: u64 = u64::MAX;

type Identity = (u64, u64);

/// Answers the calls of one run.
#[derive(Debug)]
pub(super) struct Answers {
    scripts: Option<Scripts>,
    /// What was seen of its starts, where that is told.
    seen: Option<Seen>,
    arrivals: Option<OwnedFd>,
    listeners: Vec<Option<SupervisedProgram>>,
    events: OwnedFd,
}

/// A program of the run, with what it started.
#[derive(Debug)]
struct SupervisedProgram {
    listener: Listener,
    /// Whether the memory of any caller could be read so far.
    was_readable: bool,
    /// The process that it became from, once it called.
    first: Option<Pid>,
    /// Its ruleset.
    ruleset: u8,
}

impl Answers {
    /// For listeners that come in `arrivals`; without scripts every call is left to the kernel.
    ///
    /// # Errors
    /// What the kernel answers.
    pub(super) fn new(arrivals: OwnedFd, observes: bool) -> Result<Self, Errno> {
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&events, &arrivals, EventData::new_u64(ARRIVALS), EventFlags::IN)?;
        Ok(Self {
            scripts: None,
            seen: observes.then(Seen::default),
            arrivals: Some(arrivals),
            listeners: Vec::new(),
            events,
        })
    }

    /// With these scripts, which are read as they were checked.
    pub(super) fn with_scripts(self, scripts: Scripts) -> Self {
        Self {
            scripts: Some(scripts),
            ..self
        }
    }

    pub(super) const fn has_scripts(&self) -> bool {
        self.scripts.is_some()
    }

    /// Answers in a thread of its own until nothing is left that could ask. A caller can make a thread that reads its
    /// memory wait, and a supervisor never waits. To be called when nothing of the run is forked here any more. Where
    /// no thread can be had, every call of the run that waits fails.
    pub(super) fn begin(mut self) -> Option<Answering> {
        let (ends, end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok()?;
        let seen = self.seen.clone();
        let thread = thread::Builder::new().spawn(move || {
            while self.arrivals.is_some() || self.listeners.iter().any(Option::is_some) {
                self.serve();
            }
            drop(end);
        });
        thread.ok().map(|thread| Answering { ends, thread, seen })
    }

    /// Waits for calls and answers them.
    fn serve(&mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(16);
        if epoll::wait(&self.events, rustix::buffer::spare_capacity(&mut events), None).is_err() {
            return;
        }
        for event in events {
            match event.data.u64() {
                ARRIVALS => self.take_arrivals(),
                mark => self.hear(usize::try_from(mark).unwrap_or(usize::MAX), event.flags),
            }
        }
    }

    fn take_arrivals(&mut self) {
        let Some(arrivals) = &self.arrivals else { return };
        let mut byte = [0; 8];
        match socket::receive_frame(arrivals.as_fd(), &mut byte) {
            Ok(Received::Frame(_tag, descriptors)) => {
                let [ruleset, ..] = byte;
                for descriptor in descriptors {
                    let listener = Listener::new(descriptor);
                    let mark = EventData::new_u64(u64::try_from(self.listeners.len()).unwrap_or(ARRIVALS));
                    // Not heard, its program waits for ever, until it is killed: better than unheard.
                    epoll::add(&self.events, &listener, mark, EventFlags::IN).unwrap_or(());
                    self.listeners.push(Some(SupervisedProgram {
                        listener,
                        was_readable: false,
                        first: None,
                        ruleset,
                    }));
                }
            }
            Ok(Received::Nothing) => {}
            Ok(Received::Cut | Received::Closed) | Err(_) => {
                // The last program that could bring one was started.
                epoll::delete(&self.events, arrivals).unwrap_or(());
                self.arrivals = None;
            }
        }
    }

    fn hear(&mut self, index: usize, flags: EventFlags) {
        let Some(slot) = self.listeners.get_mut(index) else {
            return;
        };
        let Some(program) = slot else { return };
        if !flags.contains(EventFlags::IN) {
            // Nothing is left that could ask.
            epoll::delete(&self.events, &program.listener).unwrap_or(());
            *slot = None;
            return;
        }
        for _ in 0..CALLS_AT_A_TIME {
            match program.listener.receive() {
                Ok(call) => program.answer(&call, self.scripts.as_mut(), self.seen.as_ref()),
                Err(_) => return,
            }
            if !is_readable(program.listener.as_fd()) {
                return;
            }
        }
    }
}

/// The thread that answers.
#[derive(Debug)]
pub(super) struct Answering {
    ends: OwnedFd,
    thread: JoinHandle<()>,
    seen: Option<Seen>,
}

impl Answering {
    /// What was seen of the starts of the run until now; `None` where that is not told. A program whose end was waited for
    /// asked for no more.
    pub(super) fn starts(&self) -> Option<Starts> {
        self.seen.as_ref().map(Seen::starts)
    }

    /// Waits a moment for its end, once nothing of the run is left. Where a caller holds it up it stays behind, and this
    /// process must not be used for another run.
    pub(super) fn end(self) {
        let mut descriptors = [PollFd::new(&self.ends, PollFlags::IN)];
        let polled = process::poll(&mut descriptors, Some(TIMEOUT));
        let [ends] = descriptors;
        if polled.is_ok() && !ends.revents().is_empty() && self.thread.join().is_ok() {
            // The kernel counts it a little longer.
            let is_counted = || process::thread_count() != 1;
            for _ in (0..1000).take_while(|_| is_counted()) {
                thread::yield_now();
            }
        }
    }
}

fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut descriptors = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let polled = process::poll(&mut descriptors, Some(Duration::ZERO));
    let [descriptor] = descriptors;
    polled.is_ok() && descriptor.revents().contains(PollFlags::IN)
}

/// What a call comes to.
#[derive(Debug)]
enum Answer {
    /// The kernel does it.
    Through,
    /// A script, by its index.
    Content(usize, CloseOnExec),
    /// What is open here.
    Opened(OwnedFd, CloseOnExec),
    Fails(Errno),
    /// It comes to this number.
    Number(i64),
    /// Text into the memory of the caller; the call comes to its length.
    Text {
        text: Vec<u8>,
        buffer: u64,
    },
    /// A structure into it; the call succeeds.
    Structure {
        bytes: Vec<u8>,
        buffer: u64,
    },
}

impl SupervisedProgram {
    fn answer(&mut self, call: &Call, scripts: Option<&mut Scripts>, seen: Option<&Seen>) {
        if let (Some(Wish::Execute { directory, path }), Some(seen)) = (call.wish, seen) {
            let caller = Caller {
                call,
                first: call.pid,
            };
            seen.note(self.ruleset, &caller, (directory, path));
        }
        match scripts {
            Some(scripts) => self.answer_with_scripts(call, scripts),
            None => self.listener.let_through(call),
        }
    }

    fn answer_with_scripts(&mut self, call: &Call, scripts: &mut Scripts) {
        let first = *self
            .first
            .get_or_insert_with(|| scripts.steps.lineage.begin(call.pid));
        let caller = Caller { call, first };
        let answer = match call.wish {
            None => Ok(Answer::Through),
            Some(wish) => scripts.answer(&caller, wish),
        };
        let answer = match answer {
            Ok(answer) => {
                self.was_readable = true;
                answer
            }
            // What nobody may look into: a program that wants that for itself, later. Before anything could be read it
            // is the system that forbids it, and then nothing of this could be held.
            Err(Errno::PERM | Errno::ACCESS) if !self.was_readable => Answer::Fails(Errno::ACCESS),
            // Gone, or a path that is none: the kernel says so itself.
            Err(_) => Answer::Through,
        };
        match answer {
            Answer::Through => self.listener.let_through(call),
            Answer::Fails(errno) => self.listener.refuse(call, errno),
            Answer::Content(index, closes) => match scripts.open(index) {
                Ok(file) => self.listener.answer_with(call, file.as_fd(), closes),
                // Not what lies on the disk instead.
                Err(errno) => self.listener.refuse(call, errno),
            },
            Answer::Opened(file, closes) => self.listener.answer_with(call, file.as_fd(), closes),
            Answer::Number(number) => self.listener.answer(call, number),
            Answer::Text { text, buffer } => {
                let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
                self.write(&caller, (&text, buffer), length);
            }
            Answer::Structure { bytes, buffer } => self.write(&caller, (&bytes, buffer), 0),
        }
    }

    fn write(&self, caller: &Caller<'_>, (bytes, buffer): (&[u8], u64), comes_to: i64) {
        match caller.write(&self.listener, buffer, bytes) {
            Ok(()) => self.listener.answer(caller.call, comes_to),
            Err(errno) => self.listener.refuse(caller.call, errno),
        }
    }
}
