//! The built-in sandbox: namespaces of every kind for one run, without a program, a daemon or rights of its own.
//!
//! ```text
//! supervisor ─┬─ helper ─ new namespaces ─ forks both of these as children of the supervisor, and ends
//!             ├─ first process inside: builds the root, then only reaps; its death is everybody's
//!             └─ the command: waits until the fence is written, gives everything up, executes
//! ```
//!
//! The command is a child of the supervisor, like that of any run, so its end, its kill and its leftovers are handled
//! as everywhere. It is never the first process inside, which the kernel keeps signals from. [`Enclosing::launch`] is
//! the entry point. Nothing is decided here: [`Enclosed`] says what there is.

mod build;
mod command;
mod description;
mod helper;
mod obstacle;
mod probe;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{io::Errno, pipe::PipeFlags};

use countersign_sys::{
    enclosure::{self, Surrender},
    landlock::{self, Handled, Ruleset},
    mounts,
    process::{self, Forked, Pid, Process},
    stamp,
    system_calls::Filters,
};

pub use description::{Enclosed, HeldWalls, Piece, ProcessLimit, Source};
pub use obstacle::Obstacle;
use obstacle::{At as _, Failure};
pub use probe::MODE as PROBE_MODE;
pub(super) use probe::main as probe;

use super::wire::{Action, Plan, Program, Step};

/// Who the command is inside.
pub const INSIDE: (u32, u32) = (1000, 1000);

/// Maps of accounts that are kept; a supervisor meets few owners.
const MAX_MAPS: usize = 16;

/// What a supervisor uses for every sandbox, made when the first one is wanted.
#[derive(Debug, Default)]
pub(super) struct Workshop {
    prepared: RefCell<Option<Prepared>>,
}

#[derive(Debug)]
struct Prepared {
    filters: Filters,
    /// For texts that are held.
    held_filters: Filters,
    scopes: Option<OwnedFd>,
    /// By the owner of files on disk and who they belong to inside.
    maps: BTreeMap<Accounts, OwnedFd>,
}

/// What the command of one run gives up.
struct Walls<'a> {
    prepared: &'a Prepared,
    /// The only files that it can execute, for a text that is held.
    executables: Option<Ruleset>,
}

impl Walls<'_> {
    fn surrender(&self) -> Surrender<'_> {
        let Prepared {
            filters,
            held_filters,
            scopes,
            maps: _,
        } = self.prepared;
        match &self.executables {
            // It has the scopes in it.
            Some(executables) => Surrender {
                scopes: Some(executables.as_fd()),
                filters: held_filters,
            },
            None => Surrender {
                scopes: scopes.as_ref().map(AsFd::as_fd),
                filters,
            },
        }
    }
}

/// The owner of files on disk, and to whom they belong inside, as the machine numbers them.
type Accounts = ((u32, u32), (u32, u32));

/// A sandbox with its command, about to be started.
#[derive(Debug)]
pub(super) struct Enclosing<'a> {
    pub(super) workshop: &'a Workshop,
    pub(super) enclosed: &'a Enclosed,
    pub(super) plan: &'a Plan,
    pub(super) workspace: BorrowedFd<'a>,
    pub(super) standard: [BorrowedFd<'a>; 3],
    /// Whether these are a terminal, which becomes that of the command.
    pub(super) on_terminal: bool,
}

/// How a start went.
#[derive(Debug)]
pub(super) enum Begun {
    /// The command runs. Once this is closed, the first process inside ends with the last of the others.
    Running(Process, OwnedFd),
    /// The program could not be executed. Nothing is left.
    NotExecuted(Errno),
}

#[derive(Debug)]
pub(super) enum NotBegun {
    /// The sandbox could not be made.
    Sandbox(Obstacle, Errno),
    /// The step before execution failed.
    BeforeExecution(Errno),
}

impl From<Failure> for NotBegun {
    fn from(Failure { obstacle, errno }: Failure) -> Self {
        Self::Sandbox(obstacle, errno)
    }
}

/// The ends of pipes that the processes inside have.
struct Ends {
    /// To say how it went, and the number of the command.
    report: OwnedFd,
    /// Closed once the command has ended.
    life: OwnedFd,
    /// A byte once the command may be executed.
    go: OwnedFd,
    /// Whether the command stands inside, and why the program could not be executed; closed by execution.
    executed: OwnedFd,
}

impl Enclosing<'_> {
    /// Makes the sandbox, calls `before_execution` and starts the command.
    pub(super) fn launch(
        &self,
        before_execution: &mut dyn FnMut(&Process) -> Result<(), Errno>,
    ) -> Result<Begun, NotBegun> {
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).at(Obstacle::Process);
        let program = self.program()?;
        let maps = self.workshop.prepare(self)?;
        let ((reported, report), (life, alive), (go, start), (executed, execution)) =
            (pipe()?, pipe()?, pipe()?, pipe()?);
        let prepared = self.workshop.prepared.borrow();
        let prepared = prepared
            .as_ref()
            .ok_or(NotBegun::Sandbox(Obstacle::Filter, Errno::NOSYS))?;
        let walls = Walls {
            prepared,
            executables: self.enclosed.held.as_ref().map(executables).transpose()?,
        };
        let helper = match process::fork().at(Obstacle::Process)? {
            Forked::Parent(pid) => pid,
            Forked::Child => {
                drop((reported, alive, start, executed));
                let ends = Ends {
                    report,
                    life,
                    go,
                    executed: execution,
                };
                helper::main(self, program, &walls, maps, &ends)
            }
        };
        drop((report, life, go, execution));
        let heard = hear(&reported);
        drop(process::wait_for(helper));
        let begun = match heard {
            Ok(pid) => begin(pid, before_execution, &start, &executed),
            Err(failure) => Err(failure.into()),
        };
        match begun {
            Ok(Ok(process)) => Ok(Begun::Running(process, alive)),
            Ok(Err(errno)) => {
                drop((start, alive));
                reap_all();
                Ok(Begun::NotExecuted(errno))
            }
            Err(not_begun) => {
                // Without a word the command ends by itself, and then the first process does.
                drop((start, alive));
                reap_all();
                Err(not_begun)
            }
        }
    }

    fn program(&self) -> Result<&Program, NotBegun> {
        match self.plan.steps.as_slice() {
            [
                Step {
                    action: Action::Program(program),
                    ..
                },
            ] => Ok(program),
            _ => Err(NotBegun::BeforeExecution(Errno::INVAL)),
        }
    }
}

/// The command stands inside, or could not, and waits for a word. Inner errors are of the program.
fn begin(
    pid: Pid,
    before_execution: &mut dyn FnMut(&Process) -> Result<(), Errno>,
    start: &OwnedFd,
    executed: &OwnedFd,
) -> Result<Result<Process, Errno>, NotBegun> {
    hear(executed)?;
    let process = process::inspect(pid).ok_or(NotBegun::Sandbox(Obstacle::Process, Errno::SRCH))?;
    before_execution(&process).map_err(NotBegun::BeforeExecution)?;
    // One that was killed meanwhile is a command that was killed.
    rustix::io::write(start, &[1]).unwrap_or(0);
    Ok(match said(executed) {
        Some(Err((_, errno))) => Err(Errno::from_raw_os_error(errno)),
        Some(Ok(_)) | None => Ok(process),
    })
}

/// Takes everything that ends off the kernel's list until nothing is left.
fn reap_all() {
    while let Ok(Some(_)) = process::wait_any() {}
}

fn read(from: &OwnedFd, into: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::read(from, &mut *into) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// What the helper says: the number of the command, or what went wrong.
fn hear(reported: &OwnedFd) -> Result<Pid, Failure> {
    match said(reported) {
        Some(Ok(pid)) => Ok(pid),
        Some(Err((obstacle, errno))) => Err(Failure {
            obstacle,
            errno: Errno::from_raw_os_error(errno),
        }),
        None => Err(Failure {
            obstacle: Obstacle::Process,
            errno: Errno::CHILD,
        }),
    }
}

/// The number of a process, or what went wrong.
type Said = Result<Pid, (Obstacle, i32)>;

/// Longest [`Said`]; what is shorter is filled up with zeros, so that two of them are never mixed up.
const MESSAGE_BYTES: usize = 7;

fn said(reported: &OwnedFd) -> Option<Said> {
    let mut message = [0; MESSAGE_BYTES];
    (read(reported, &mut message) == Ok(MESSAGE_BYTES))
        .then(|| postcard::from_bytes(&message).ok())
        .flatten()
}

/// One write of a few bytes: whole or not at all. The reader waits for it; if it is gone, so is this process soon.
fn say(report: &OwnedFd, said: Result<Pid, Failure>) {
    let said: Said = said.map_err(|Failure { obstacle, errno }| (obstacle, errno.raw_os_error()));
    let mut message = [0; MESSAGE_BYTES];
    if postcard::to_slice(&said, &mut message).is_ok() {
        rustix::io::write(report, &message).unwrap_or(0);
    }
}

impl Workshop {
    /// Makes what is missing. Returns, for a supervisor of root, whose files the command gets at the workspace.
    fn prepare(&self, enclosing: &Enclosing<'_>) -> Result<Option<(u32, u32)>, NotBegun> {
        let mut prepared = self.prepared.borrow_mut();
        if prepared.is_none() {
            *prepared = Some(Prepared {
                filters: Filters::new().ok_or(NotBegun::Sandbox(Obstacle::Filter, Errno::NOSYS))?,
                held_filters: Filters::of_held_texts()
                    .ok_or(NotBegun::Sandbox(Obstacle::Filter, Errno::NOSYS))?,
                scopes: landlock::scopes().at(Obstacle::Filter)?,
                maps: BTreeMap::new(),
            });
        }
        let Some(prepared) = prepared.as_mut().filter(|_| rustix::process::geteuid().is_root()) else {
            return Ok(None);
        };
        // Root inside would be root outside.
        if enclosing.enclosed.held.is_some() {
            return Err(NotBegun::Sandbox(Obstacle::Account, Errno::PERM));
        }
        let nobody = enclosing.enclosed.nobody;
        prepared.maps_for(enclosing.workspace, nobody)?;
        for piece in &enclosing.enclosed.pieces {
            if let Piece::Bind {
                source: Source::Path(path),
                ..
            } = piece
            {
                let opened = mounts::open_without_links(path).at(Obstacle::Bind)?;
                prepared.maps_for(opened.as_fd(), nobody)?;
            }
        }
        Ok(Some(nobody))
    }
}

impl Prepared {
    fn maps_for(&mut self, directory: BorrowedFd<'_>, nobody: (u32, u32)) -> Result<(), Failure> {
        let owner = owner(directory)?;
        if owner == nobody || self.maps.contains_key(&(owner, nobody)) {
            return Ok(());
        }
        if self.maps.len() >= MAX_MAPS {
            self.maps.clear();
        }
        let map = enclosure::account_map(owner, nobody).at(Obstacle::Account)?;
        self.maps.insert((owner, nobody), map);
        Ok(())
    }

    /// The map by which the files of the owner of `opened` belong to the command.
    fn map_of(&self, opened: BorrowedFd<'_>, nobody: (u32, u32)) -> Result<Option<BorrowedFd<'_>>, Failure> {
        let owner = owner(opened)?;
        if owner == nobody {
            return Ok(None);
        }
        let map = self.maps.get(&(owner, nobody)).ok_or(Failure {
            obstacle: Obstacle::Account,
            errno: Errno::STALE,
        })?;
        Ok(Some(map.as_fd()))
    }
}

/// Opens the only files that a held text can execute. Each must be what was judged.
fn executables(held: &HeldWalls) -> Result<Ruleset, Failure> {
    let handled = Handled {
        starts: true,
        scopes: true,
        ..Handled::default()
    };
    let executables = Ruleset::new(handled).at(Obstacle::Filter)?;
    for (path, judged) in &held.executables {
        let file = mounts::open_without_links(path).at(Obstacle::Program)?;
        if stamp::of_open(&file).at(Obstacle::Program)? != *judged {
            return Err(Errno::STALE).at(Obstacle::Program);
        }
        executables.allow_execute(file.as_fd()).at(Obstacle::Filter)?;
    }
    Ok(executables)
}

fn owner(opened: BorrowedFd<'_>) -> Result<(u32, u32), Failure> {
    let stat = rustix::fs::fstat(opened).at(Obstacle::Account)?;
    Ok((stat.st_uid, stat.st_gid))
}
