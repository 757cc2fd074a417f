//! The runner process: keeps enough supervisors idle, and sweeps up after those that die.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags};

use countersign_sys::{
    hooks, landlock,
    namespace::Confines,
    process::{self, ChildSignals, Forked, Pid, Reaped},
};

use super::{
    attach::Meeting,
    cgroup::Home,
    command_line::{MODE, RunnerPlace, Settings, become_account},
    confine, enclose, launcher,
    limits::{IDLE_INTERVAL, MIN_IDLE},
    login,
    post::Post,
    supervisor,
    tree::{self, Struck},
    worker_slots::{WorkerSlot, WorkerSlots},
};

/// How many supervisors more than usual are forked at a time while start frames wait.
const BURST: usize = 6;

/// How soon what dead supervisors left is struck again. The interval grows for what cannot be killed.
const ORPHANS_INTERVAL: Duration = Duration::from_millis(5);
const MAX_ORPHANS_INTERVAL: Duration = Duration::from_secs(1);

/// How soon a failed fork is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// Becomes the warm runner, its privileged launcher, the maker of its namespaces or a login shell, if the command line says so, and
/// then never returns. To be called first in `main`, before any thread exists.
///
/// Any hidden mode may be given an account as its last two words, which this process becomes before anything else.
pub fn main_if_asked() {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some(mode) = arguments.first().filter(|mode| is_hidden(mode)).cloned() else {
        return;
    };
    if !become_account(&mut arguments) {
        process::exit_now(2);
    }
    arguments.remove(0);
    if mode == confine::MODE {
        confine::main(&arguments);
    }
    if mode == enclose::PROBE_MODE {
        enclose::probe();
    }
    if mode == login::MODE {
        login::main(&arguments);
    }
    let arguments: Vec<String> = arguments
        .into_iter()
        .filter_map(|argument| argument.into_string().ok())
        .collect();
    let is_done = if mode == MODE {
        Settings::parse(&arguments).is_some_and(|settings| run(&settings).is_ok())
    } else if mode == launcher::MODE {
        launcher::run(&arguments).is_ok()
    } else {
        return;
    };
    process::exit_now(if is_done { 0 } else { 2 })
}

fn is_hidden(mode: &OsStr) -> bool {
    mode.as_encoded_bytes().starts_with(b"__")
}

fn run(settings: &Settings) -> io::Result<()> {
    process::forbid_dumping()?;
    process::reset_dispositions()?;
    let own = rustix::process::geteuid().as_raw();
    let (socket, attach, output, confines, server) = match settings.place {
        RunnerPlace::Beside => {
            let [socket, runs, output] = process::inherited_descriptors(3)?;
            (socket, runs, Some(output), None, own)
        }
        RunnerPlace::Confining => {
            process::leave_session_keyring()?;
            let [socket, runs, output, user, mounts] = process::inherited_descriptors(3)?;
            let scopes = landlock::scopes()?;
            (
                socket,
                runs,
                Some(output),
                Some(Confines { user, mounts, scopes }),
                own,
            )
        }
        RunnerPlace::SeparateUser { server } => {
            process::leave_session_keyring()?;
            let [socket, attach] = process::inherited_descriptors(3)?;
            (socket, attach, None, None, server)
        }
    };
    settings.limits.apply()?;
    process::become_subreaper()?;
    // Pins no directory that an operator may want to unmount.
    rustix::process::chdir("/")?;
    rustix::thread::set_name(c"countersign-run")?;
    let mut pool = Pool {
        socket,
        attach,
        output,
        confines,
        server,
        slots: WorkerSlots::new(settings.max_supervisors)?,
        signals: ChildSignals::open()?,
        boot_id: process::boot_id()?,
        home: settings.home.clone(),
        supervisors: BTreeMap::new(),
        orphans: Orphans::None,
        swept_at: Duration::ZERO,
        serves: true,
    };
    hooks::reach("runner.started");
    pool.sweep();
    pool.run()
}

/// What supervisors that died left behind, which are children of the runner now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Orphans {
    None,
    /// They are struck until there are none, next at `again`.
    Dying {
        again: Duration,
        interval: Duration,
    },
}

struct Pool {
    /// The end at which all supervisors wait.
    socket: OwnedFd,
    /// Where supervisors wait for a server when they have none.
    attach: OwnedFd,
    output: Option<OwnedFd>,
    confines: Option<Confines>,
    server: u32,
    slots: WorkerSlots,
    signals: ChildSignals,
    boot_id: String,
    home: Option<Home>,
    supervisors: BTreeMap<Pid, WorkerSlot>,
    orphans: Orphans,
    /// When groups were last looked through.
    swept_at: Duration,
    /// False once the server is gone.
    serves: bool,
}

impl Pool {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let is_short = self.serves && !self.fill();
            if !self.serves && self.supervisors.is_empty() && self.orphans == Orphans::None {
                if let Some(home) = &self.home {
                    home.leave();
                }
                return Ok(());
            }
            // Only hang-ups of the socket are of interest: frames are for the supervisors.
            let mut descriptors = vec![
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::from_borrowed_fd(self.slots.bell(), PollFlags::IN),
            ];
            if self.serves {
                descriptors.push(PollFd::new(&self.socket, PollFlags::empty()));
            }
            process::poll(&mut descriptors, self.poll_timeout(is_short))?;
            let is_closed = descriptors
                .get(2)
                .is_some_and(|socket| !socket.revents().is_empty());
            if is_closed {
                self.serves = false;
            }
            self.slots.clear_bell();
            self.signals.clear();
            self.collect()?;
            self.strike_orphans();
            // A supervisor of a runner that died is no child of ours: its death is seen only here.
            if process::monotonic() >= self.swept_at + IDLE_INTERVAL {
                self.sweep();
            }
        }
    }

    /// How long there is nothing to do unless something happens; `None` is for ever.
    fn poll_timeout(&self, is_short: bool) -> Option<Duration> {
        let now = process::monotonic();
        let until_strike = match self.orphans {
            Orphans::None => None,
            Orphans::Dying { again, .. } => Some(again.saturating_sub(now)),
        };
        let until_sweep = self
            .home
            .as_ref()
            .map(|_| (self.swept_at + IDLE_INTERVAL).saturating_sub(now));
        let until_fork = is_short.then_some(RETRY);
        [until_strike, until_sweep, until_fork]
            .into_iter()
            .flatten()
            .min()
    }

    fn sweep(&mut self) {
        if let Some(home) = &self.home {
            home.sweep();
        }
        self.swept_at = process::monotonic();
    }

    /// Forks until enough are idle. False when it could not.
    fn fill(&mut self) -> bool {
        let mut enough = MIN_IDLE;
        loop {
            let idle = self.slots.idle();
            if idle == 0 && is_readable(self.socket.as_fd()) {
                hooks::reach("runner.frame-waiting");
                enough = MIN_IDLE + BURST;
            }
            if idle >= enough {
                return true;
            }
            let Some(slot) = self.slots.take() else {
                // All that there may be are there; the frames wait for one of them.
                return true;
            };
            if self.fork(slot).is_err() {
                slot.free();
                return false;
            }
        }
    }

    fn fork(&mut self, slot: WorkerSlot) -> io::Result<()> {
        let runner = rustix::process::getpid().as_raw_pid();
        match process::fork()? {
            Forked::Parent(pid) => {
                self.supervisors.insert(pid, slot);
                hooks::reach("runner.forked");
                Ok(())
            }
            Forked::Child => {
                let Self {
                    socket,
                    attach,
                    output,
                    confines,
                    server,
                    slots,
                    boot_id,
                    home,
                    ..
                } = self;
                // Refused, it still has its reapers.
                let group = home
                    .as_ref()
                    .and_then(|home| home.join(&process::current().ok()?));
                let result = supervisor::serve(&Post {
                    socket: socket.as_fd(),
                    meeting: Meeting {
                        directory: attach.as_fd(),
                        server: *server,
                    },
                    output: output.as_ref().map(AsFd::as_fd),
                    confines: confines.as_ref(),
                    home: home.as_ref(),
                    group: group.as_ref(),
                    boot_id,
                    slots,
                    slot,
                    runner,
                });
                process::exit_now(i32::from(result.is_err()))
            }
        }
    }

    /// Reaps what ended. When a supervisor did, what it left is ours now.
    fn collect(&mut self) -> io::Result<()> {
        let mut lost_supervisor = false;
        while let Reaped::Child(pid, _ended) = process::reap()? {
            if let Some(slot) = self.supervisors.remove(&pid) {
                slot.free();
                lost_supervisor = true;
            }
        }
        if lost_supervisor {
            // Its group first: nobody gets out of there by being quick.
            self.sweep();
            self.orphans = Orphans::Dying {
                again: Duration::ZERO,
                interval: ORPHANS_INTERVAL,
            };
        }
        Ok(())
    }

    /// Kills what dead supervisors left, when it is time. The living are served meanwhile, however long the dead take.
    fn strike_orphans(&mut self) {
        let now = process::monotonic();
        let Orphans::Dying { again, interval } = self.orphans else {
            return;
        };
        // Only while supervisors die the children are read: otherwise there cannot be others.
        if !self.has_orphans() {
            self.orphans = Orphans::None;
        } else if now >= again {
            let spared: Vec<_> = self.supervisors.keys().copied().collect();
            let next_interval = match tree::kill_descendants_except(&spared) {
                Struck::All => (interval * 2).min(MAX_ORPHANS_INTERVAL),
                Struck::NotAll => ORPHANS_INTERVAL,
            };
            self.orphans = Orphans::Dying {
                again: now + interval,
                interval: next_interval,
            };
        }
    }

    /// Whether there is a child that is no supervisor.
    fn has_orphans(&self) -> bool {
        let own = rustix::process::getpid().as_raw_pid();
        let children = process::children(own).unwrap_or_default();
        children.iter().any(|pid| !self.supervisors.contains_key(pid))
    }
}

fn is_readable(socket: BorrowedFd<'_>) -> bool {
    let mut descriptors = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    let polled = process::poll(&mut descriptors, Some(Duration::ZERO));
    let [socket] = descriptors;
    polled.is_ok() && socket.revents().contains(PollFlags::IN)
}
