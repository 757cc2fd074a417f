//! A supervisor: waits for a start frame, passes the fence, starts the command and stays with it.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags},
    pipe::PipeFlags,
};

use countersign_domain::{Exit, TerminalSize};
use countersign_sys::{
    faults, hooks,
    process::{self, ChildSignals, LaunchError, Launched, Launcher, Process, Reaped, StartPlace},
    socket::{self, Received},
};

use super::{
    answers::{Answers, Scripts},
    cgroup::Limiter,
    enclose::{Begun, Enclosing, NotBegun, Workshop},
    execute::{self, Execution, Holds},
    input::Input,
    limits::MAX_QUIET_IDLE,
    post::{Post, Tools},
    retained::SpoolPlace,
    run_file::{self, Claim},
    terminal::Terminal,
    tree,
    watch::{Command, READ_BYTES, Watch},
    wire::{FromSupervisor, MAX_FRAME_BYTES, NotStarted, Order, Plan, Sweep},
};

/// The life of a supervisor: one run after the other, until the server is gone or it is not needed.
pub(super) fn serve(post: &Post<'_>) -> io::Result<()> {
    process::become_subreaper()?;
    let tools = Tools {
        signals: ChildSignals::open()?,
        launcher: Launcher::new()?,
        workshop: Workshop::default(),
    };
    let mut limiter = Limiter::new(post.home);
    let mut frame = vec![0; MAX_FRAME_BYTES];
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match socket::receive_frame(post.socket, &mut frame)? {
            Received::Closed => return Ok(()),
            Received::Nothing => {
                if post.slots.idle() > MAX_QUIET_IDLE || process::parent() != post.runner {
                    return Ok(());
                }
            }
            // No frame of ours is ever cut; the server sees that the run's stream was closed.
            Received::Cut => {}
            Received::Frame(length, descriptors) => {
                post.slot.set_busy(post.slots);
                hooks::reach("sup.order-taken");
                let bytes = frame.get_mut(..length).unwrap_or_default();
                let mut may_leave_thread = false;
                if let Some(Sweep { pid, start_time }) = Sweep::decode(bytes) {
                    tree::sweep(pid, start_time, post.home);
                } else if let Some(start) = Start::of_frame(bytes, descriptors) {
                    may_leave_thread = start.scripts.is_some() || start.order.observes;
                    serve_run(post, (&tools, &mut limiter), &start, &mut buffer);
                }
                // Environments hold secrets.
                bytes.fill(0);
                // The proof that nothing of the run is left; without it the next run could be mixed up with this one.
                if process::reap()? != Reaped::NoChildren || process::parent() != post.runner {
                    return Ok(());
                }
                // A thread that a run holds up: no process is forked beside it.
                if may_leave_thread && process::thread_count() != 1 {
                    return Ok(());
                }
                post.slot.set_idle();
            }
        }
    }
}

/// A start frame with its descriptors.
struct Start {
    order: Order,
    run_file: OwnedFd,
    control: OwnedFd,
    directory: OwnedFd,
    executables: Vec<OwnedFd>,
    rulesets: Vec<OwnedFd>,
    memory_file: Option<OwnedFd>,
    spool: Option<OwnedFd>,
    scripts: Option<OwnedFd>,
}

impl Start {
    fn of_frame(frame: &[u8], descriptors: Vec<OwnedFd>) -> Option<Self> {
        let order = Order::decode(frame)?;
        let mut descriptors = descriptors.into_iter();
        let (run_file, control, directory) = (descriptors.next()?, descriptors.next()?, descriptors.next()?);
        let mut several = |count: u8| {
            let count = usize::from(count);
            let taken: Vec<_> = descriptors.by_ref().take(count).collect();
            (taken.len() == count).then_some(taken)
        };
        let executables = several(order.executables)?;
        let rulesets = several(order.rulesets)?;
        let memory_file = if order.plan.is_none() {
            Some(descriptors.next()?)
        } else {
            None
        };
        let spool = if order.has_spool {
            Some(descriptors.next()?)
        } else {
            None
        };
        let scripts = if order.has_scripts {
            Some(descriptors.next()?)
        } else {
            None
        };
        let start = Self {
            order,
            run_file,
            control,
            directory,
            executables,
            rulesets,
            memory_file,
            spool,
            scripts,
        };
        descriptors.next().is_none().then_some(start)
    }

    fn plan(&self) -> Result<Plan, Errno> {
        let bytes = match (&self.order.plan, &self.memory_file) {
            (Some(plan), _) => plan,
            (None, Some(file)) => &read_all(file)?,
            (None, None) => return Err(Errno::INVAL),
        };
        Plan::decode(bytes).ok_or(Errno::INVAL)
    }
}

fn read_all(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let size = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    let mut bytes = vec![0; size];
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, u64::try_from(at).unwrap_or(u64::MAX))? {
            0 => return Err(Errno::INVAL),
            read => at += read,
        }
    }
    Ok(bytes)
}

fn serve_run(
    post: &Post<'_>,
    (tools, limiter): (&Tools, &mut Limiter<'_>),
    start: &Start,
    buffer: &mut [u8],
) {
    if let Err(why) = start_and_watch(post, (tools, limiter), start, buffer) {
        say(&start.control, &FromSupervisor::NotStarted(why));
    }
}

fn start_and_watch(
    post: &Post<'_>,
    (tools, limiter): (&Tools, &mut Limiter<'_>),
    start: &Start,
    buffer: &mut [u8],
) -> Result<(), NotStarted> {
    // The server that wanted it is gone, or has thought better of it: the file stays empty, and nothing is lost.
    if is_called_off(&start.control) {
        return Err(NotStarted::Cancelled);
    }
    hooks::reach("sup.before-lock");
    let run_file = start.run_file.as_fd();
    match run_file::claim(run_file) {
        Ok(Claim::Free) => {}
        Ok(Claim::Held) => return Err(NotStarted::Held),
        Ok(Claim::Lost) => return Err(NotStarted::FenceLost),
        Err(error) => return Err(NotStarted::System(error.raw_os_error().unwrap_or(0))),
    }
    hooks::reach("sup.locked");
    let plan = start.plan().map_err(system)?;

    let confines = match (start.order.confined, post.confines) {
        (false, _) => None,
        (true, Some(confines)) => Some((confines, plan.directory.as_c_str())),
        // Better not at all than with more rights than were promised.
        (true, None) => return Err(system(Errno::PERM)),
    };

    let wiring = match start.order.terminal {
        None => Wiring::pipes(start.order.stdin_open)?,
        Some(size) => Wiring::terminal(size).map_err(system)?,
    };
    let standard = wiring.standard().map_err(system)?;
    let on_terminal = wiring.terminal.is_some();
    let own = rustix::process::getpid().as_raw_pid();
    let holding = limiter.prepare(start.order.limits);
    let fence = |process: &Process| {
        run_file::append_fence(run_file, process, post.boot_id, &start.order.launch_id)?;
        hooks::reach_for("sup.fence-written", own);
        hooks::pause("sup.fenced");
        Ok(())
    };
    let asking = Asking::of(&plan, start)?;
    hooks::pause("sup.before-fence");
    let launched = if let Some(enclosed) = &plan.enclosed {
        let enclosing = Enclosing {
            workshop: &tools.workshop,
            enclosed,
            plan: &plan,
            workspace: start.directory.as_fd(),
            standard,
            on_terminal,
        };
        // Called here, of the command that stands inside and waits.
        let mut begin = |process: &Process| {
            holding.admit(process.pid)?;
            fence(process)
        };
        Begin::of_enclosed(enclosing.launch(&mut begin))?
    } else {
        let execution = Execution {
            launcher: &tools.launcher,
            plan: &plan,
            executables: &start.executables,
            place: StartPlace {
                directory: start.directory.as_fd(),
                confines,
                masked: &plan.masked,
            },
            standard,
            on_terminal,
            holds: Holds {
                rulesets: &start.rulesets,
                has_scripts: asking.as_ref().is_some_and(|asking| asking.answers.has_scripts()),
                whom: asking.as_ref().map(|asking| asking.whom.as_fd()),
            },
        };
        // Called in what becomes the command.
        let mut begin = |process: &Process| {
            holding.admit_caller()?;
            fence(process)
        };
        Begin {
            launched: execution.launch(&mut begin),
            life: None,
        }
    };
    let Begin { launched, life } = launched;
    let by_shell = matches!(launched, Ok(Launched::Instead(_)));
    match launched {
        Ok(Launched::Running(process) | Launched::Instead(process)) => {
            hooks::reach("sup.child-started");
            let Wiring {
                output,
                errors,
                input,
                ends,
                terminal,
            } = wiring;
            // A reader must see the end once the command is gone.
            drop(ends);
            let command = Command {
                process,
                by_shell,
                output,
                errors,
                input,
                life,
                terminal,
                holding,
                answers: asking.and_then(|asking| asking.answers.begin()),
            };
            Watch::new(
                post,
                tools,
                &start.order,
                run_file,
                &start.control,
                place_of_spool(post, start),
                command,
                buffer,
            )
            .run();
            Ok(())
        }
        Ok(Launched::NotExecuted(errno)) => {
            let exit = Exit {
                spawn_errno: Some(errno.raw_os_error()),
                ..Exit::default()
            };
            end_without_start(start, exit);
            Ok(())
        }
        Err(LaunchError::Process(error)) => Err(NotStarted::System(error.raw_os_error().unwrap_or(0))),
        Err(LaunchError::BeforeExecution(errno)) => {
            // A fence that was torn by a full disk must not look like a run that may have happened.
            faults::fail_at("sup.empty-run-file")
                .and_then(|()| rustix::fs::ftruncate(run_file, 0))
                .map_err(system)?;
            Err(system(errno))
        }
        Err(LaunchError::Vanished) => Err(system(Errno::INTR)),
    }
}

/// How the programs of a run come to ask for the scripts that are held, or are heard of, and who answers.
struct Asking {
    whom: OwnedFd,
    answers: Answers,
}

impl Asking {
    /// `None` where nothing is held or observed.
    fn of(plan: &Plan, start: &Start) -> Result<Option<Self>, NotStarted> {
        let has_scripts = !plan.held.is_empty() && !hooks::protection_off("scripts");
        if !has_scripts && !start.order.observes {
            return Ok(None);
        }
        let (arrivals, whom) =
            socket::frame_pair().map_err(|error| NotStarted::System(error.raw_os_error().unwrap_or(0)))?;
        Ok(Some(Self {
            whom,
            answers: answers(plan, start, has_scripts, arrivals).map_err(system)?,
        }))
    }
}

fn answers(plan: &Plan, start: &Start, has_scripts: bool, arrivals: OwnedFd) -> Result<Answers, Errno> {
    let answers = Answers::new(arrivals, start.order.observes)?;
    if !has_scripts {
        return Ok(answers);
    }
    let bundle = start.scripts.as_ref().ok_or(Errno::INVAL)?;
    let bundle = rustix::io::fcntl_dupfd_cloexec(bundle, 3)?;
    let begins = rustix::fs::fstat(&start.directory)?;
    let begins = ((begins.st_dev, begins.st_ino), plan.directory.as_bytes());
    let mut scripts = Scripts::new(&plan.held, bundle, begins);
    for (identity, name) in execute::pinned_directories(plan) {
        scripts.know_directory(identity, &name);
    }
    for stamp in execute::judged_stamps(plan) {
        scripts.know_program((stamp.dev, stamp.ino));
    }
    for stamp in execute::copiers(plan, &start.executables) {
        scripts.know_copier((stamp.dev, stamp.ino));
    }
    Ok(answers.with_scripts(scripts))
}

/// How the first process of a run began.
struct Begin {
    launched: Result<Launched, LaunchError>,
    /// Of a sandbox: closed when the command has ended.
    life: Option<OwnedFd>,
}

impl Begin {
    fn of_enclosed(begun: Result<Begun, NotBegun>) -> Result<Self, NotStarted> {
        let (launched, life) = match begun {
            Ok(Begun::Running(process, life)) => (Ok(Launched::Running(process)), Some(life)),
            Ok(Begun::NotExecuted(errno)) => (Ok(Launched::NotExecuted(errno)), None),
            Err(NotBegun::BeforeExecution(errno)) => (Err(LaunchError::BeforeExecution(errno)), None),
            Err(NotBegun::Sandbox(obstacle, errno)) => {
                return Err(NotStarted::Sandbox(obstacle, errno.raw_os_error()));
            }
        };
        Ok(Self { launched, life })
    }
}

fn place_of_spool<'a>(post: &Post<'a>, start: &'a Start) -> SpoolPlace<'a> {
    match (&start.spool, post.output) {
        (Some(spool), _) => SpoolPlace::Given(spool.as_fd()),
        (None, Some(directory)) => SpoolPlace::Directory(directory),
        (None, None) => SpoolPlace::Nowhere,
    }
}

const fn system(errno: Errno) -> NotStarted {
    NotStarted::System(errno.raw_os_error())
}

fn pipe() -> Result<(OwnedFd, OwnedFd), NotStarted> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(system)
}

/// What lies between a command and its supervisor.
struct Wiring {
    output: OwnedFd,
    /// `None` on a terminal, which has one output.
    errors: Option<OwnedFd>,
    input: Input,
    /// The command's ends of pipes: input unless it is `/dev/null`, output, errors.
    ends: Option<(Option<OwnedFd>, OwnedFd, OwnedFd)>,
    terminal: Option<Terminal>,
}

impl Wiring {
    fn pipes(stdin_open: bool) -> Result<Self, NotStarted> {
        let (output, output_end) = pipe()?;
        let (errors, errors_end) = pipe()?;
        let (input, input_end) = if stdin_open {
            let (read_end, write_end) = pipe()?;
            rustix::io::ioctl_fionbio(&write_end, true).map_err(system)?;
            (Input::open(write_end), Some(read_end))
        } else {
            (Input::default(), None)
        };
        Ok(Self {
            output,
            errors: Some(errors),
            input,
            ends: Some((input_end, output_end, errors_end)),
            terminal: None,
        })
    }

    fn terminal(size: TerminalSize) -> Result<Self, Errno> {
        let terminal = Terminal::open(size)?;
        Ok(Self {
            output: terminal.end()?,
            errors: None,
            input: Input::open(terminal.end()?),
            ends: None,
            terminal: Some(terminal),
        })
    }

    /// Descriptors 0, 1 and 2 of the command.
    fn standard(&self) -> Result<[BorrowedFd<'_>; 3], Errno> {
        match (&self.ends, &self.terminal) {
            // Descriptor 0 of every supervisor is /dev/null.
            (Some((input, output, errors)), _) => Ok([
                input.as_ref().map_or_else(|| rustix::stdio::stdin(), AsFd::as_fd),
                output.as_fd(),
                errors.as_fd(),
            ]),
            (None, Some(terminal)) => Ok([terminal.programs()?; 3]),
            (None, None) => Err(Errno::INVAL),
        }
    }
}

/// Whether the server let go of the run, or told it to end, before it began.
fn is_called_off(control: &OwnedFd) -> bool {
    let mut first = [0; 1];
    match rustix::net::recv(control, &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => true,
        Ok(_) => first == *b"K",
        Err(Errno::AGAIN | Errno::INTR) => false,
        Err(_) => true,
    }
}

/// The program could not be executed: that is the end of the run, and is recorded like any other.
fn end_without_start(start: &Start, exit: Exit) {
    hooks::reach("sup.before-exit-line");
    // Should the record fail, the server still learns it now; only a later one would call the run lost.
    run_file::append_exit(start.run_file.as_fd(), &exit).unwrap_or(());
    hooks::reach("sup.exit-line-written");
    say(
        &start.control,
        &FromSupervisor::Exited {
            exit,
            is_spooled: false,
            leftovers_run: false,
        },
    );
    hooks::reach("sup.exit-sent");
}

/// A few bytes on a fresh stream, which has room for them.
fn say(control: &OwnedFd, message: &FromSupervisor) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    // Nobody there to hear it: the run file says the same.
    rustix::net::send(control, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).unwrap_or(0);
}
