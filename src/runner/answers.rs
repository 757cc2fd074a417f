//! The scripts of a run, held: an interpreter that opens one to read gets the content that was checked.
//!
//! ```text
//! server ── checked content, sealed ──▶ supervisor ◀── "open(path)?" ── interpreter (waits in the kernel)
//!                                           └── a descriptor of the checked content ──▶ interpreter
//! ```
//!
//! The kernel never looks at the path, so there is no moment at which another file could take its place. Some interpreters
//! look before they open, and read another file where they find a directory or nothing: while a script is held, a question
//! for it finds a file, and nothing is beneath it. A path is told by its text. Where the text depends on something that can be exchanged too (the name of the working directory, the target
//! of a link), the question for that is answered here as well, and the answer counts as a name of the script from then
//! on. Interpreters are the programs that the run was judged with, and what its first process executes in its own place.
//! What they start besides reads the disk: `cp` compares what it opens with what it looked at before, and would give up.
//! A run that changes, renames or removes one of these files itself gets the file from then on. Everything else is left
//! to the kernel. Where a path may be a script or another file, an interpreter gets neither. Invariant: nothing is permitted
//! here because of what stands in a caller's memory.
//! Entry point: [`Answers`].

use std::{
    collections::{BTreeMap, HashSet},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    event::{
        PollFd, PollFlags,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    fs::{AtFlags, CWD, FileType, MemfdFlags, Mode, OFlags, Statx, StatxFlags},
    io::Errno,
    pipe::PipeFlags,
};

use crate::sys::{
    fs::{own_position, seal},
    interception::{self, Call, CloseOnExec, Flags, Listener, PATH_BYTES, Wish},
    process::{self, Pid},
    socket::{self, Received},
};

use super::wire::HeldScript;

/// Names that one script may come to have: more are only made on purpose.
const MAX_NAMES: usize = 64;
/// Directories that are told by what they are: more are only made on purpose.
const MAX_DIRECTORIES: usize = 1024;
/// Processes above another that are looked at.
const MAX_GENERATIONS: usize = 256;
/// Processes that are noted for how they came to a directory. Of a run with more each may have gone astray.
const MAX_ENTERED: usize = 4096;
/// Links of `/proc` in one path that are followed.
const MAX_OWN_LINKS: usize = 16;
/// What a caller of `access` may want to do.
const EXECUTE: u64 = 1;
const WRITE: u64 = 2;
/// Calls of one program that are answered before those of the others.
const CALLS_AT_A_TIME: usize = 64;
/// How long the end of the thread is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// The mark of the socket on which listeners arrive.
const ARRIVALS: u64 = u64::MAX;
/// What the kernel puts behind the name of a directory that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// Device and inode.
type Identity = (u64, u64);

/// Answers the calls of one run.
#[derive(Debug)]
pub(super) struct Answers {
    scripts: Scripts,
    arrivals: Option<OwnedFd>,
    listeners: Vec<Option<Heard>>,
    events: OwnedFd,
}

/// A program of the run, with what it started.
#[derive(Debug)]
struct Heard {
    listener: Listener,
    /// Whether the memory of any caller could be read so far.
    was_readable: bool,
    /// The process that it became from: the first that called.
    first: Option<Pid>,
}

impl Answers {
    /// For these scripts, whose contents lie one after the other in `bundle`. `begins` is the directory in which the run
    /// begins, with its name; listeners come in `arrivals`.
    ///
    /// # Errors
    /// What the kernel answers.
    pub(super) fn new(
        scripts: &[HeldScript],
        bundle: OwnedFd,
        begins: (Identity, &[u8]),
        arrivals: OwnedFd,
    ) -> Result<Self, Errno> {
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&events, &arrivals, EventData::new_u64(ARRIVALS), EventFlags::IN)?;
        let mut scripts = Scripts::new(scripts, bundle, begins);
        scripts.know_ways();
        Ok(Self {
            scripts,
            arrivals: Some(arrivals),
            listeners: Vec::new(),
            events,
        })
    }

    /// A directory that a step of the plan changes to, which is told by its identity.
    pub(super) fn know_directory(&mut self, identity: Identity, name: &[u8]) {
        self.scripts.directories.push((identity, plain(name)));
    }

    /// A program that the run was judged with.
    pub(super) fn know_program(&mut self, identity: Identity) {
        self.scripts.programs.push(identity);
    }

    /// One of them that copies files and interprets none.
    pub(super) fn know_copier(&mut self, identity: Identity) {
        self.scripts.copiers.push(identity);
    }

    /// Answers in a thread of its own until nothing is left that could ask: a caller can make whoever reads its memory wait,
    /// and a supervisor never waits. To be called when nothing of the run is forked here any more. Where no thread can be had
    /// every call of the run fails that waits.
    pub(super) fn begin(mut self) -> Option<Answering> {
        let (ends, end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok()?;
        let thread = thread::Builder::new().spawn(move || {
            while self.arrivals.is_some() || self.listeners.iter().any(Option::is_some) {
                self.serve();
            }
            drop(end);
        });
        thread.ok().map(|thread| Answering { ends, thread })
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
            Ok(Received::Frame(_, descriptors)) => {
                for descriptor in descriptors {
                    let listener = Listener::new(descriptor);
                    let mark = EventData::new_u64(u64::try_from(self.listeners.len()).unwrap_or(ARRIVALS));
                    // Not heard, its program waits for ever, until it is killed: better than unheard.
                    epoll::add(&self.events, &listener, mark, EventFlags::IN).unwrap_or(());
                    self.listeners.push(Some(Heard {
                        listener,
                        was_readable: false,
                        first: None,
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
        let Some(heard) = slot else { return };
        if !flags.contains(EventFlags::IN) {
            // Nothing is left that could ask.
            epoll::delete(&self.events, &heard.listener).unwrap_or(());
            *slot = None;
            return;
        }
        for _ in 0..CALLS_AT_A_TIME {
            match heard.listener.receive() {
                Ok(call) => heard.answer(&call, &mut self.scripts),
                Err(_) => return,
            }
            if !is_readable(heard.listener.as_fd()) {
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
}

impl Answering {
    /// Waits a moment for its end, once nothing of the run is left. Where a caller holds it up it stays behind, and this
    /// process must not be used for another run.
    pub(super) fn end(self) {
        let mut descriptors = [PollFd::new(&self.ends, PollFlags::IN)];
        let polled = process::poll(&mut descriptors, Some(PATIENCE));
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
    /// It fails.
    Fails(Errno),
    /// It comes to this number.
    Number(i64),
    /// Text into the memory of the caller; the call comes to its length.
    Text { text: Vec<u8>, buffer: u64 },
    /// A structure into it; the call succeeds.
    Structure { bytes: Vec<u8>, buffer: u64 },
}

impl Heard {
    fn answer(&mut self, call: &Call, scripts: &mut Scripts) {
        let first = *self.first.get_or_insert(call.pid);
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

/// A path of a caller, and the directory that it begins at if it is relative.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    directory: i32,
    path: Vec<u8>,
}

impl Place {
    /// Without what `/proc` calls the caller's own: that is its root, its working directory or one of its descriptors.
    fn new(directory: i32, path: Vec<u8>) -> Self {
        let mut place = Self { directory, path };
        for _ in 0..MAX_OWN_LINKS {
            match place.behind_own_link() {
                Some(behind) => place = behind,
                None => break,
            }
        }
        place
    }

    fn behind_own_link(&self) -> Option<Self> {
        let mut parts = parts(&self.path).filter(|part| *part != b".");
        let is_own = self.path.starts_with(b"/")
            && parts.next() == Some(b"proc")
            && matches!(parts.next(), Some(b"self" | b"thread-self"));
        let mut link = parts.next().filter(|_| is_own)?;
        if link == b"task" {
            parts.next()?;
            link = parts.next()?;
        }
        let (directory, begin): (i32, &[u8]) = match link {
            b"root" => (self.directory, b"/"),
            b"cwd" => (interception::WORKING_DIRECTORY, b""),
            b"fd" => (str::from_utf8(parts.next()?).ok()?.parse().ok()?, b""),
            _ => return None,
        };
        let rest: Vec<&[u8]> = parts.collect();
        if rest.is_empty() {
            // The link itself.
            return None;
        }
        let end: &[u8] = if self.path.ends_with(b"/") { b"/" } else { b"" };
        Some(Self {
            directory,
            path: [begin, &rest.join(&b'/'), end].concat(),
        })
    }

    fn is_absolute(&self) -> bool {
        self.path.starts_with(b"/")
    }

    /// Whether only a directory can be there.
    fn is_of_directory(&self) -> bool {
        self.path.ends_with(b"/") || matches!(parts(&self.path).last(), Some(b"." | b".."))
    }

    /// The directory that its last part lies in.
    fn parent(&self) -> Self {
        let end = self.path.iter().rposition(|byte| *byte == b'/');
        let path = match end {
            Some(end) => self.path.get(..=end).unwrap_or_default().to_vec(),
            None => b".".to_vec(),
        };
        Self {
            directory: self.directory,
            path,
        }
    }
}

/// What a path of a caller is to the scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// Nothing.
    Other,
    /// One that the run left alone, by its index.
    Script(usize),
    /// What would lie beneath one: nothing does.
    Beneath,
    /// It may be one, or another file.
    Unclear,
}

/// What a path of a caller is called in full.
#[derive(Debug, Default)]
struct Names {
    names: Vec<Vec<u8>>,
    /// Whether it begins at a directory that is told by what it is.
    is_known: bool,
}

/// The process behind a call, as far as it can be looked at.
struct Caller<'a> {
    call: &'a Call,
    /// The first process of its program.
    first: Pid,
}

impl Caller<'_> {
    fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.call.pid)
    }

    fn place(&self, directory: i32, address: u64) -> Result<Place, Errno> {
        let mut buffer = [0; PATH_BYTES];
        let length = interception::read_text(self.call.pid, address, &mut buffer)?;
        let path = buffer.get(..length).unwrap_or_default().to_vec();
        Ok(Place::new(directory, path))
    }

    /// Where this process finds what the caller means by a path.
    fn seen(&self, place: &Place) -> Vec<u8> {
        let begin = if place.is_absolute() {
            self.proc("root")
        } else {
            self.begin_of(place.directory)
        };
        [begin.as_bytes(), b"/", &place.path].concat()
    }

    /// Whether anything is there.
    fn finds(&self, place: &Place) -> bool {
        look_at(&self.seen(place), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether a path leads to the directory in which this name lies.
    fn leads_to(&self, place: &Place, name: &[u8]) -> bool {
        let named = Place::new(interception::WORKING_DIRECTORY, name.to_vec());
        let at = |place: &Place| identity(self.seen(&place.parent())).ok();
        at(place).is_some_and(|found| at(&named) == Some(found))
    }

    fn begin_of(&self, directory: i32) -> String {
        if directory == interception::WORKING_DIRECTORY {
            self.proc("cwd")
        } else {
            self.proc(&format!("fd/{directory}"))
        }
    }

    fn flags(&self, flags: Flags) -> Result<u64, Errno> {
        match flags {
            Flags::Are(flags) => Ok(flags),
            Flags::At(address) => {
                let mut bytes = [0; 8];
                match interception::read_memory(self.call.pid, address, &mut bytes)? {
                    8 => Ok(u64::from_le_bytes(bytes)),
                    _ => Err(Errno::FAULT),
                }
            }
        }
    }

    /// The directory that a relative path begins at: what it is, and how it is called now.
    fn directory(&self, number: i32) -> Option<(Identity, Vec<u8>)> {
        let link = self.begin_of(number);
        let name = rustix::fs::readlink(&link, Vec::new()).ok()?.into_bytes();
        Some((identity(link).ok()?, name))
    }

    /// Whether it is one of these programs, or what the first process executed in its own place: `env` finds the interpreter
    /// like that. What cannot be looked at is.
    fn interprets(
        &self,
        Scripts {
            programs, copiers, ..
        }: &Scripts,
    ) -> bool {
        let Ok(program) = identity(self.proc("exe")) else {
            return true;
        };
        !copiers.contains(&program)
            && (programs.contains(&program)
                || self.call.pid == self.first
                || self.group().is_none_or(|group| group == self.first))
    }

    /// The process of a thread.
    fn group(&self) -> Option<Pid> {
        status_of(self.call.pid, "Tgid:")
    }

    /// What tells its view of the file system from that of others.
    fn view(&self) -> Result<(Identity, Identity), Errno> {
        Ok((identity(self.proc("root"))?, identity(self.proc("ns/mnt"))?))
    }

    /// Writes into its memory, if it still waits.
    fn write(&self, listener: &Listener, address: u64, text: &[u8]) -> Result<(), Errno> {
        let memory = rustix::fs::open(self.proc("mem"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        // Of this process and no later one of its number: it waited when its memory was open already.
        if !listener.still_waits(self.call) {
            return Err(Errno::SRCH);
        }
        match rustix::io::pwrite(&memory, text, address)? {
            written if written == text.len() => Ok(()),
            _ => Err(Errno::FAULT),
        }
    }
}

/// A number that the kernel says of a process.
fn status_of(pid: Pid, field: &str) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    value.trim().parse().ok()
}

/// What is at a path. No file system is asked that would have to ask another program.
fn identity(path: impl rustix::path::Arg) -> Result<Identity, Errno> {
    let found = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
    Ok(identity_of(&found))
}

fn identity_of(found: &Statx) -> Identity {
    (
        rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        found.stx_ino,
    )
}

/// The same with everything that a caller may want to know.
fn look_at(path: &[u8], flags: AtFlags) -> Result<Statx, Errno> {
    let flags = flags | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

fn kind_of(found: &Statx) -> FileType {
    FileType::from_raw_mode(found.stx_mode.into())
}

/// The scripts, by all their names.
#[derive(Debug)]
struct Scripts {
    files: Vec<File>,
    bundle: OwnedFd,
    /// The programs that the run was judged with.
    programs: Vec<Identity>,
    /// Those of them that copy files.
    copiers: Vec<Identity>,
    /// Directories that are told by what they are, whatever they are called by now.
    directories: Vec<(Identity, Vec<u8>)>,
    /// The last parts of all names.
    endings: HashSet<Vec<u8>>,
    /// Processes that came to a directory on the way to a script by its name: it may have been another one at that moment.
    /// Not those that went elsewhere then.
    entered: BTreeMap<Pid, bool>,
    /// Whether there was no room to note one.
    is_crowded: bool,
    /// The file system that the names are of: that of the first program.
    view: Option<(Identity, Identity)>,
}

#[derive(Debug)]
struct File {
    names: Vec<Vec<u8>>,
    offset: u64,
    length: u64,
    mode: u32,
    identity: Identity,
    content: Option<OwnedFd>,
    /// The run changed it itself.
    is_released: bool,
}

impl Scripts {
    fn new(scripts: &[HeldScript], bundle: OwnedFd, (identity, name): (Identity, &[u8])) -> Self {
        let files = scripts.iter().map(|script| {
            let mut names: Vec<Vec<u8>> = Vec::new();
            for name in &script.names {
                for name in [plain(name.as_bytes()), lexical(name.as_bytes())] {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
            File {
                names,
                offset: script.offset,
                length: script.length,
                mode: script.mode,
                identity: script.identity,
                content: None,
                is_released: false,
            }
        });
        let files: Vec<File> = files.collect();
        let names = files.iter().flat_map(|file| &file.names);
        Self {
            endings: names.map(|name| last_part(name).to_vec()).collect(),
            entered: BTreeMap::new(),
            is_crowded: false,
            files,
            bundle,
            programs: Vec::new(),
            copiers: Vec::new(),
            directories: vec![(identity, plain(name))],
            view: None,
        }
    }

    /// The directories that lie on the way to a script. Where another one has such a name at this moment, it is taken for
    /// that one: what is in it is answered with the content.
    fn know_ways(&mut self) {
        let names: Vec<Vec<u8>> = self.files.iter().flat_map(|file| file.names.clone()).collect();
        for name in names {
            let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            for (end, _) in ends {
                let way = name.get(..end).filter(|way| !way.is_empty());
                let is_new = |way: &&[u8]| !self.directories.iter().any(|(_, known)| known == way);
                if let Some(way) = way.filter(is_new)
                    && let Ok(identity) = identity(way)
                {
                    self.learn(identity, way);
                }
            }
        }
    }

    fn learn(&mut self, identity: Identity, name: &[u8]) {
        let known = (identity, name.to_vec());
        if self.directories.len() < MAX_DIRECTORIES && !self.directories.contains(&known) {
            self.directories.push(known);
        }
    }

    fn answer(&mut self, caller: &Caller<'_>, wish: Wish) -> Result<Answer, Errno> {
        if self.view.is_none() {
            self.view = Some(caller.view()?);
        }
        match wish {
            Wish::Open {
                directory,
                path,
                flags,
            } => {
                let place = caller.place(directory, path)?;
                let opening = Opening::of(caller.flags(flags)?);
                self.opening(caller, &place, opening)
            }
            Wish::Change { directory, path } => {
                let place = caller.place(directory, path)?;
                if let Named::Script(index) = self.named(caller, &place)? {
                    self.release(index);
                }
                Ok(Answer::Through)
            }
            Wish::Rename { from, to } => {
                let from = caller.place(from.0, from.1)?;
                let to = caller.place(to.0, to.1)?;
                // One that fails moves nothing.
                if self.sees_the_same(caller)? && caller.finds(&from) {
                    for place in [from, to] {
                        for name in self.names_of(caller, &place).names {
                            self.release_beneath(&name);
                        }
                    }
                }
                Ok(Answer::Through)
            }
            Wish::WorkingDirectory { buffer, size } => self.working_directory(caller, buffer, size),
            Wish::ReadLink {
                directory,
                path,
                buffer,
                size,
            } => {
                let place = caller.place(directory, path)?;
                self.link(caller, &place, (buffer, size))
            }
            Wish::Look {
                directory,
                path,
                follows,
                form,
                buffer,
            } => {
                let place = caller.place(directory, path)?;
                match self.asked(caller, &place)? {
                    Ok(index) => self.look(caller, &place, index, follows).map(|found| {
                        let bytes = form.bytes(&found);
                        Answer::Structure { bytes, buffer }
                    }),
                    Err(answer) => Ok(answer),
                }
            }
            Wish::Reach {
                directory,
                path,
                mode,
            } => {
                let place = caller.place(directory, path)?;
                match self.asked(caller, &place)? {
                    Ok(index) => self.reach(caller, &place, index, mode),
                    Err(answer) => Ok(answer),
                }
            }
            Wish::Enter { path } => {
                let place = caller.place(interception::WORKING_DIRECTORY, path)?;
                self.note_entry(caller, &place, true)?;
                Ok(Answer::Through)
            }
        }
    }

    fn opening(&mut self, caller: &Caller<'_>, place: &Place, opening: Opening) -> Result<Answer, Errno> {
        if matches!(opening, Opening::Looks | Opening::Directory) {
            self.note_entry(caller, place, false)?;
        }
        if opening == Opening::Changes {
            if let Named::Script(index) = self.named(caller, place)? {
                self.release(index);
            }
            return Ok(Answer::Through);
        }
        Ok(match (self.asked(caller, place)?, opening) {
            (Err(answer), _) => answer,
            (Ok(index), Opening::Reads(closes)) => Answer::Content(index, closes),
            (Ok(_), Opening::Directory) => Answer::Fails(Errno::NOTDIR),
            (Ok(_), Opening::Looks | Opening::Changes) => Answer::Through,
        })
    }

    /// The script that an interpreter asks for, or what there is to say otherwise.
    fn asked(&self, caller: &Caller<'_>, place: &Place) -> Result<Result<usize, Answer>, Errno> {
        let named = self.named(caller, place)?;
        Ok(match named {
            Named::Other => Err(Answer::Through),
            _ if !caller.interprets(self) => Err(Answer::Through),
            Named::Script(index) => Ok(index),
            Named::Beneath => Err(Answer::Fails(Errno::NOTDIR)),
            Named::Unclear => Err(Answer::Fails(Errno::ACCESS)),
        })
    }

    /// A file, whatever is there by now. What the run did to its mode and times is seen as long as it is that file.
    fn look(
        &mut self,
        caller: &Caller<'_>,
        place: &Place,
        index: usize,
        follows: bool,
    ) -> Result<Statx, Errno> {
        let flags = if follows {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        let seen = look_at(&caller.seen(place), flags).ok();
        if let Some(link) = seen.filter(|found| kind_of(found) == FileType::Symlink) {
            // Where it leads is answered too.
            return Ok(link);
        }
        let file = self.files.get(index).ok_or(Errno::NOENT)?;
        let is_this =
            |found: &Statx| kind_of(found) == FileType::RegularFile && identity_of(found) == file.identity;
        let (length, mode) = (file.length, file.mode);
        let mut found = match seen.filter(is_this) {
            Some(found) => found,
            None => self.look_at_content(index, mode)?,
        };
        found.stx_size = length;
        Ok(found)
    }

    fn look_at_content(&mut self, index: usize, mode: u32) -> Result<Statx, Errno> {
        let content = self.content(index)?;
        let mut found = rustix::fs::statx(content, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        let mode = FileType::RegularFile.as_raw_mode() | (mode & 0o777);
        found.stx_mode = u16::try_from(mode).map_err(|_no_mode| Errno::IO)?;
        Ok(found)
    }

    /// It can be read. Executing it is a question of its mode alone; no script is chosen because it can be written.
    fn reach(
        &mut self,
        caller: &Caller<'_>,
        place: &Place,
        index: usize,
        mode: u64,
    ) -> Result<Answer, Errno> {
        if mode & WRITE != 0 {
            return Ok(Answer::Through);
        }
        let is_refused = mode & EXECUTE != 0 && self.look(caller, place, index, true)?.stx_mode & 0o111 == 0;
        Ok(if is_refused {
            Answer::Fails(Errno::ACCESS)
        } else {
            Answer::Number(0)
        })
    }

    /// Notes by which name a process comes to a directory on the way to a script, as its working directory or to begin
    /// at. What has the name right now is that directory from now on.
    fn note_entry(&mut self, caller: &Caller<'_>, place: &Place, leaves: bool) -> Result<(), Errno> {
        if !self.sees_the_same(caller)? {
            return Ok(());
        }
        let Names { names, is_known } = self.names_of(caller, place);
        let ways: Vec<Vec<u8>> = names
            .iter()
            .flat_map(|name| [name.clone(), lexical(name)])
            .filter(|name| self.is_on_the_way(name))
            .collect();
        let group = || caller.group().unwrap_or(caller.call.pid);
        if ways.is_empty() {
            let has_entered = leaves && self.entered.values().any(|entered| *entered);
            if has_entered && (is_known || !self.may_stray(caller)) {
                self.note(group(), false);
            }
            return Ok(());
        }
        for way in ways {
            let named = Place::new(interception::WORKING_DIRECTORY, way);
            if let Ok(identity) = identity(caller.seen(&named)) {
                self.learn(identity, &named.path);
            }
        }
        self.note(group(), true);
        Ok(())
    }

    fn note(&mut self, pid: Pid, by_such_a_name: bool) {
        if self.entered.len() < MAX_ENTERED || self.entered.contains_key(&pid) {
            self.entered.insert(pid, by_such_a_name);
        } else {
            self.is_crowded = true;
        }
    }

    /// Whether the name of a directory is that of one in which a script lies, however deep.
    fn is_on_the_way(&self, name: &[u8]) -> bool {
        let mut held = self.files.iter().filter(|file| !file.is_released);
        let is_beneath = |other: &Vec<u8>| rest_beneath(other, name).is_some_and(|rest| !rest.is_empty());
        !name.is_empty() && held.any(|file| file.names.iter().any(is_beneath))
    }

    /// Whether a process, or one that it comes from, was last led to a directory by such a name.
    fn may_stray(&self, caller: &Caller<'_>) -> bool {
        if self.is_crowded {
            return true;
        }
        if !self.entered.values().any(|entered| *entered) {
            return false;
        }
        let mut pid = caller.group().unwrap_or(caller.call.pid);
        for _ in 0..MAX_GENERATIONS {
            if let Some(entered) = self.entered.get(&pid) {
                return *entered;
            }
            if pid == caller.first {
                return false;
            }
            match status_of(pid, "PPid:") {
                Some(parent) if parent > 1 => pid = parent,
                Some(_) | None => return true,
            }
        }
        true
    }

    /// Whether a path means to this caller what it means to the others.
    fn sees_the_same(&self, caller: &Caller<'_>) -> Result<bool, Errno> {
        Ok(Some(caller.view()?) == self.view)
    }

    /// What a path of a caller is to the scripts that the run left alone. To one that sees other files a script's name is
    /// unclear.
    fn named(&self, caller: &Caller<'_>, place: &Place) -> Result<Named, Errno> {
        // Nearly every path ends here.
        if !parts(&place.path).any(|part| self.endings.contains(part)) {
            return Ok(Named::Other);
        }
        let names = self.names_of(caller, place);
        let named = match self.named_by(&names.names, place) {
            Named::Other => self.nearly_named(caller, place, &names),
            named @ (Named::Script(_) | Named::Beneath | Named::Unclear) => named,
        };
        Ok(match named {
            Named::Other => Named::Other,
            named if self.sees_the_same(caller)? => named,
            Named::Script(_) => Named::Unclear,
            Named::Beneath | Named::Unclear => Named::Other,
        })
    }

    /// By the text of the path as it was typed.
    fn named_by(&self, names: &[Vec<u8>], place: &Place) -> Named {
        if let Some(index) = names.iter().find_map(|name| self.of_name(name)) {
            return if place.is_of_directory() {
                Named::Beneath
            } else {
                Named::Script(index)
            };
        }
        let mut held = self.files.iter().filter(|file| !file.is_released);
        let is_beneath = |file: &File| {
            names.iter().any(|name| {
                let rests = file.names.iter().filter_map(|other| rest_beneath(name, other));
                rests.into_iter().any(|rest| !rest.is_empty())
            })
        };
        if held.any(is_beneath) {
            Named::Beneath
        } else {
            Named::Other
        }
    }

    /// By the text without `..`, if that leads to the same directory; and where a relative path begins at a directory that
    /// is not known, by its last part.
    fn nearly_named(&self, caller: &Caller<'_>, place: &Place, Names { names, is_known }: &Names) -> Named {
        if parts(&place.path).any(|part| part == b"..") {
            for name in names.iter().map(|name| lexical(name)) {
                match self.of_name(&name) {
                    Some(_) if place.is_of_directory() => return Named::Beneath,
                    Some(index) if caller.leads_to(place, &name) => return Named::Script(index),
                    Some(_) => return Named::Unclear,
                    None => {}
                }
            }
        }
        let last = last_part(&place.path);
        let mut held = self.files.iter().filter(|file| !file.is_released);
        let ends_so = |file: &File| file.names.iter().any(|name| last_part(name) == last);
        if !is_known && held.any(ends_so) && self.may_stray(caller) {
            return Named::Unclear;
        }
        Named::Other
    }

    fn of_name(&self, name: &[u8]) -> Option<usize> {
        let is_this = |file: &File| !file.is_released && file.names.iter().any(|other| other == name);
        self.files.iter().position(is_this)
    }

    /// What a path of a caller is called in full. A relative one begins at a directory that has more than one name when
    /// it was renamed.
    fn names_of(&self, caller: &Caller<'_>, place: &Place) -> Names {
        let path = place.path.as_slice();
        if place.is_absolute() {
            return Names {
                names: vec![plain(path)],
                is_known: true,
            };
        }
        let Some((identity, name)) = caller.directory(place.directory) else {
            return Names::default();
        };
        let known = self
            .directories
            .iter()
            .filter(|(known, _)| *known == identity)
            .map(|(_, name)| name.as_slice());
        let bases: Vec<&[u8]> = known.chain([name.as_slice()]).collect();
        Names {
            is_known: bases.len() > 1,
            names: bases
                .into_iter()
                .map(|base| plain(&[base, b"/", path].concat()))
                .collect(),
        }
    }

    fn release(&mut self, index: usize) {
        if let Some(file) = self.files.get_mut(index) {
            file.is_released = true;
        }
    }

    /// What has this name, or lies in the directory of this name.
    fn release_beneath(&mut self, directory: &[u8]) {
        for file in &mut self.files {
            file.is_released |= file
                .names
                .iter()
                .any(|name| rest_beneath(name, directory).is_some());
        }
    }

    /// The name of a directory in which scripts are found by relative paths: a program that makes an absolute path of it
    /// opens that.
    fn working_directory(&mut self, caller: &Caller<'_>, buffer: u64, size: u64) -> Result<Answer, Errno> {
        let Some((identity, name)) = caller.directory(interception::WORKING_DIRECTORY) else {
            return Ok(Answer::Through);
        };
        let known: Vec<Vec<u8>> = self
            .directories
            .iter()
            .filter(|(known, _)| *known == identity)
            .map(|(_, name)| name.clone())
            .collect();
        if known.is_empty()
            || !name.starts_with(b"/")
            || name.ends_with(DELETED)
            || !self.sees_the_same(caller)?
        {
            return Ok(Answer::Through);
        }
        for old in known {
            if let Err(errno) = self.add_names(&old, &[plain(&name)]) {
                return Ok(Answer::Fails(errno));
            }
        }
        if !self.directories.contains(&(identity, plain(&name))) {
            self.directories.push((identity, plain(&name)));
        }
        let text = [name.as_slice(), b"\0"].concat();
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > size {
            return Ok(Answer::Fails(Errno::RANGE));
        }
        Ok(Answer::Text { text, buffer })
    }

    /// Where a link leads on the way to a script, or that there is none.
    fn link(
        &mut self,
        caller: &Caller<'_>,
        place: &Place,
        (buffer, size): (u64, u64),
    ) -> Result<Answer, Errno> {
        let is_on_the_way = |name: &Vec<u8>| {
            let mut held = self.files.iter().filter(|file| !file.is_released);
            !name.is_empty()
                && held.any(|file| file.names.iter().any(|other| rest_beneath(other, name).is_some()))
        };
        let Names { names, .. } = self.names_of(caller, place);
        let Some(name) = names.iter().find(|name| is_on_the_way(name)).cloned() else {
            let is_beneath = self.named_by(&names, place) == Named::Beneath && self.sees_the_same(caller)?;
            return Ok(if is_beneath && caller.interprets(self) {
                Answer::Fails(Errno::NOTDIR)
            } else {
                Answer::Through
            });
        };
        if !self.sees_the_same(caller)? {
            return Ok(Answer::Through);
        }
        let seen = [caller.proc("root").as_bytes(), name.as_slice()].concat();
        let target = match rustix::fs::readlink(seen, Vec::new()) {
            Ok(target) => target.into_bytes(),
            // No link, even if nothing is there by now.
            Err(_) if self.of_name(&name).is_some() && caller.interprets(self) => {
                return Ok(Answer::Fails(Errno::INVAL));
            }
            Err(errno) => return Ok(Answer::Fails(errno)),
        };
        let end = name.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let leads_to = if target.starts_with(b"/") {
            target.clone()
        } else {
            [name.get(..=end).unwrap_or_default(), target.as_slice()].concat()
        };
        if let Err(errno) = self.add_names(&name, &[plain(&leads_to), lexical(&leads_to)]) {
            return Ok(Answer::Fails(errno));
        }
        let room = usize::try_from(size).unwrap_or(usize::MAX).min(target.len());
        Ok(Answer::Text {
            text: target.get(..room).unwrap_or_default().to_vec(),
            buffer,
        })
    }

    /// What lies beneath a directory of one name lies beneath it under the others too.
    fn add_names(&mut self, directory: &[u8], others: &[Vec<u8>]) -> Result<(), Errno> {
        for file in &mut self.files {
            let mut more: Vec<Vec<u8>> = Vec::new();
            for name in &file.names {
                let Some(rest) = rest_beneath(name, directory) else {
                    continue;
                };
                for other in others {
                    let other = [other.as_slice(), rest].concat();
                    for other in [plain(&other), lexical(&other)] {
                        if !file.names.contains(&other) && !more.contains(&other) {
                            more.push(other);
                        }
                    }
                }
            }
            if file.names.len() + more.len() > MAX_NAMES {
                return Err(Errno::LOOP);
            }
            self.endings
                .extend(more.iter().map(|name| last_part(name).to_vec()));
            file.names.append(&mut more);
        }
        Ok(())
    }

    /// The checked content, with a position of its own.
    fn open(&mut self, index: usize) -> Result<OwnedFd, Errno> {
        own_position(self.content(index)?)
    }

    fn content(&mut self, index: usize) -> Result<BorrowedFd<'_>, Errno> {
        let file = self.files.get_mut(index).ok_or(Errno::NOENT)?;
        if file.content.is_none() {
            file.content = Some(sealed_part(&self.bundle, file.offset, file.length, file.mode)?);
        }
        file.content.as_ref().map(AsFd::as_fd).ok_or(Errno::IO)
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Reads(CloseOnExec),
    Changes,
    /// To begin at, if it is a directory.
    Directory,
    /// None of these.
    Looks,
}

impl Opening {
    fn of(flags: u64) -> Self {
        let flags = OFlags::from_bits_retain(u32::try_from(flags & u64::from(u32::MAX)).unwrap_or(0));
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC) {
            return Self::Changes;
        }
        if flags.contains(OFlags::DIRECTORY) {
            return Self::Directory;
        }
        // Nothing reads its script like that.
        if flags.contains(OFlags::PATH) || flags.contains(OFlags::CREATE | OFlags::EXCL) {
            return Self::Looks;
        }
        Self::Reads(if flags.contains(OFlags::CLOEXEC) {
            CloseOnExec::Yes
        } else {
            CloseOnExec::No
        })
    }
}

/// A piece of the bundle, as a file that cannot be changed.
fn sealed_part(bundle: &OwnedFd, offset: u64, length: u64, mode: u32) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::memfd_create(
        c"countersign-script",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    let mut buffer = [0; 16 * 1024];
    let mut done = 0;
    while done < length {
        let room = usize::try_from(length - done)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = rustix::io::pread(bundle, buffer.get_mut(..room).unwrap_or_default(), offset + done)?;
        let mut rest = buffer
            .get(..read)
            .filter(|rest| !rest.is_empty())
            .ok_or(Errno::IO)?;
        done += u64::try_from(read).unwrap_or(0);
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest)?;
            rest = rest.get(written..).unwrap_or_default();
        }
    }
    // Readable at least to the account that the run has.
    rustix::fs::fchmod(&file, Mode::from_bits_retain(mode & 0o777 | 0o400))?;
    seal(&file)?;
    Ok(file)
}

fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// What a name has behind that of a directory, its slash included; nothing for the directory itself.
fn rest_beneath<'a>(name: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    let rest = name.strip_prefix(directory)?;
    (rest.is_empty() || rest.starts_with(b"/") || directory == b"/").then_some(rest)
}

/// A path without `.` and double slashes. `..` stays: behind a link it leads elsewhere.
fn plain(path: &[u8]) -> Vec<u8> {
    let parts = parts(path).filter(|part| *part != b".");
    parts.fold(Vec::with_capacity(path.len()), |mut name, part| {
        name.push(b'/');
        name.extend(part);
        name
    })
}

/// The same without `..`, as programs that do not look at links make it.
fn lexical(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in parts(path) {
        match part {
            b"." => {}
            b".." => drop(kept.pop()),
            part => kept.push(part),
        }
    }
    kept.iter()
        .flat_map(|part| [b"/".as_slice(), part].concat())
        .collect()
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(names: &[&str]) -> Scripts {
        let held = HeldScript {
            names: names
                .iter()
                .map(|name| std::ffi::CString::new(*name).unwrap())
                .collect(),
            offset: 0,
            length: 0,
            mode: 0o644,
            identity: (1, 2),
        };
        let bundle = crate::sys::fs::sealed(c"bundle", b"").unwrap();
        Scripts::new(&[held], bundle, ((1, 2), b"/w"))
    }

    #[test]
    fn a_name_is_told_by_its_text_as_typed_and_as_programs_shorten_it() {
        for (path, as_typed, shortened) in [
            ("/w//./x", "/w/x", "/w/x"),
            ("/w/d/../x/", "/w/d/../x", "/w/x"),
            ("/../x", "/../x", "/x"),
            ("/", "", ""),
        ] {
            assert_eq!(plain(path.as_bytes()), as_typed.as_bytes(), "{path}");
            assert_eq!(lexical(path.as_bytes()), shortened.as_bytes(), "{path}");
        }
        let scripts = scripts(&["/w/d/../x"]);
        let names: Vec<&[u8]> = scripts.files[0].names.iter().map(Vec::as_slice).collect();
        assert_eq!(names, [b"/w/d/../x".as_slice(), b"/w/x"]);
    }

    #[test]
    fn what_lies_in_a_directory_has_a_name_for_each_of_its_names() {
        let mut scripts = scripts(&["/w/d/x"]);
        scripts.add_names(b"/w", &[b"/v".to_vec()]).unwrap();
        scripts.add_names(b"/v/d/x", &[b"/u/y".to_vec()]).unwrap();
        // Another directory whose name only begins so.
        scripts.add_names(b"/w/dd", &[b"/t".to_vec()]).unwrap();
        let names: Vec<&[u8]> = scripts.files[0].names.iter().map(Vec::as_slice).collect();
        assert_eq!(names, [b"/w/d/x".as_slice(), b"/v/d/x", b"/u/y"]);
        let endless =
            (0..MAX_NAMES).try_for_each(|n| scripts.add_names(b"/w", &[format!("/{n}").into_bytes()]));
        assert_eq!(endless, Err(Errno::LOOP));
    }

    #[test]
    fn what_proc_calls_the_callers_own_is_what_it_means() {
        let here = interception::WORKING_DIRECTORY;
        for (path, directory, expected) in [
            ("/proc/self/cwd/x", here, "x"),
            ("/proc/./thread-self/cwd/../x/", here, "../x/"),
            ("/proc/self/root/w/x", 5, "/w/x"),
            ("/proc/self/task/77/root/w/x", 5, "/w/x"),
            ("/proc/self/fd/9/x", 9, "x"),
            ("/proc/self/root/proc/self/cwd/x", here, "x"),
            ("/proc/self/fd/9", 5, "/proc/self/fd/9"),
            ("/proc/self/cwd", 5, "/proc/self/cwd"),
            ("/proc/1/cwd/x", 5, "/proc/1/cwd/x"),
            ("proc/self/cwd/x", 5, "proc/self/cwd/x"),
        ] {
            let place = Place::new(5, path.as_bytes().to_vec());
            assert_eq!(
                (place.directory, place.path.as_slice()),
                (directory, expected.as_bytes()),
                "{path}"
            );
        }
    }

    #[test]
    fn nothing_is_beneath_a_script() {
        let scripts = scripts(&["/w/x"]);
        for (path, expected) in [
            ("/w/x", Named::Script(0)),
            ("/w/./x", Named::Script(0)),
            ("/w/x/", Named::Beneath),
            ("/w/x/.", Named::Beneath),
            ("/w/x/__main__.py", Named::Beneath),
            ("/w/x.js", Named::Other),
            ("/w/y/x", Named::Other),
            ("/w", Named::Other),
        ] {
            let place = Place::new(0, path.as_bytes().to_vec());
            assert_eq!(
                scripts.named_by(&[plain(path.as_bytes())], &place),
                expected,
                "{path}"
            );
        }
        assert!(scripts.is_on_the_way(b"/w"));
        assert!(
            !scripts.is_on_the_way(b"/w/x") && !scripts.is_on_the_way(b"") && !scripts.is_on_the_way(b"/v")
        );
    }

    #[test]
    fn a_run_that_moves_a_directory_of_a_script_gets_what_lies_there() {
        for (moved, is_released) in [
            ("/w", true),
            ("/w/d/x", true),
            ("/w/d/xx", false),
            ("/w/e", false),
        ] {
            let mut scripts = scripts(&["/w/d/x"]);
            scripts.release_beneath(moved.as_bytes());
            assert_eq!(scripts.files[0].is_released, is_released, "{moved}");
        }
    }

    #[test]
    fn only_what_reads_gets_the_content() {
        let of = |flags: OFlags| Opening::of(flags.bits().into());
        assert_eq!(of(OFlags::RDONLY), Opening::Reads(CloseOnExec::No));
        assert_eq!(
            of(OFlags::CLOEXEC | OFlags::NOFOLLOW),
            Opening::Reads(CloseOnExec::Yes)
        );
        for changes in [
            OFlags::WRONLY,
            OFlags::RDWR,
            OFlags::TRUNC,
            OFlags::WRONLY | OFlags::CREATE,
        ] {
            assert_eq!(of(changes), Opening::Changes, "{changes:?}");
        }
        for looks in [OFlags::PATH, OFlags::CREATE | OFlags::EXCL] {
            assert_eq!(of(looks), Opening::Looks, "{looks:?}");
        }
        for directory in [OFlags::DIRECTORY, OFlags::DIRECTORY | OFlags::PATH] {
            assert_eq!(of(directory), Opening::Directory, "{directory:?}");
        }
        // On a file that is there it does nothing.
        assert_eq!(of(OFlags::CREATE), Opening::Reads(CloseOnExec::No));
    }

    #[test]
    fn content_is_sealed_and_each_opening_has_a_position_of_its_own() {
        let bundle = crate::sys::fs::sealed(c"bundle", b"onetwo").unwrap();
        let part = sealed_part(&bundle, 3, 3, 0o600).unwrap();
        assert!(rustix::io::pwrite(&part, b"x", 0).is_err());
        for _ in 0..2 {
            let mut text = [0; 8];
            let opened = own_position(part.as_fd()).unwrap();
            assert_eq!(rustix::io::read(&opened, &mut text), Ok(3));
            assert_eq!(&text[..3], b"two");
        }
        assert!(sealed_part(&bundle, 3, 4, 0o600).is_err());
    }
}
