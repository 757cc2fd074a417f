//! The client: a process per run that starts a command in a container and stays with it.
//!
//! It has the server's account, since it must reach the engine, and a supervisor above it. It copies what the supervisor
//! writes to it and what the command writes, and ends as the command did ([`ClientEnd`](super::ClientEnd)). On `SIGTERM` it
//! ends everything of the run in the container first.

use std::{ffi::OsString, io, os::fd::BorrowedFd, time::Duration};

use rustix::{
    fs::FileType,
    termios::{OptionalActions, isatty, tcgetattr, tcgetwinsize, tcsetattr},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::OwnedReadHalf,
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use countersign_docker::{AttachError, Attached, Engine, ExecConfig, Frames, words};
use countersign_domain::{Leftovers, OutputStream};
use countersign_sys::process;

use super::{
    end::{ENGINE_LOST, NOT_STARTED},
    instructions::{Instructions, Terms},
    supervision, sweep,
};

/// The word that makes this program a client. Not for people.
pub(super) const MODE: &str = "__docker-exec";

/// How often the engine is asked whether the command has ended although something holds its output open.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long what the command left may write once it has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// How often the size of a new terminal is set: the engine refuses until the process is there.
const RESIZES: usize = 50;
const RESIZE_INTERVAL: Duration = Duration::from_millis(20);

/// Exit codes from here on are signals.
const FIRST_SIGNAL: i64 = 129;

/// The exit code of a client that was told to end.
const TERMINATED: i32 = 143;

/// Becomes a client if the command line says so, and then never returns. To be called in `main` before any thread exists.
pub fn main_if_asked() {
    if std::env::args_os().nth(1).is_none_or(|mode| mode != MODE) {
        return;
    }
    let end = match run() {
        Ok(end) => end,
        Err(error) => End::NotStarted(error.to_string()),
    };
    match end {
        End::Code(code) => process::exit_now(code),
        End::NotStarted(why) => {
            complain(&format!("the command was not started: {why}"));
            die(NOT_STARTED)
        }
        End::Lost(why) => {
            complain(&format!("the outcome of the command is unknown: {why}"));
            die(ENGINE_LOST)
        }
    }
}

/// How the client ends.
enum End {
    Code(i32),
    NotStarted(String),
    Lost(String),
}

fn run() -> io::Result<End> {
    process::forbid_dumping()?;
    let (Some(instructions), Some(terms)) = (Instructions::read(variable), Terms::read(variable)) else {
        return Ok(End::NotStarted("there are no instructions".to_owned()));
    };
    let since = process::current()?.start_time;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let run = Run {
        instructions,
        terms,
        since,
    };
    let end = runtime.block_on(run.serve());
    // A thread of it may wait for input that never comes.
    runtime.shutdown_background();
    end
}

#[expect(
    clippy::disallowed_methods,
    reason = "a client's environment is its instructions; it reads no settings"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

fn complain(what: &str) {
    // Nobody there to read it.
    write_all(
        rustix::stdio::stderr(),
        format!("countersign: {what}\n").as_bytes(),
    )
    .unwrap_or(());
}

/// Ends this process by a signal, so that its end cannot be mistaken for that of a command.
fn die(signal: rustix::process::Signal) -> ! {
    process::signal_process(process::own_id(), signal);
    process::exit_now(TERMINATED)
}

struct Run {
    instructions: Instructions,
    terms: Terms,
    /// When this client began, in ticks of the kernel's clock: nothing of the run is older.
    since: u64,
}

/// What the standard input of a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Nothing,
    Stream,
    Terminal,
}

impl Input {
    fn of_this_process() -> Self {
        let stdin = rustix::stdio::stdin();
        if isatty(stdin) {
            return Self::Terminal;
        }
        match rustix::fs::fstat(stdin).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile) => Self::Stream,
            Ok(_) | Err(_) => Self::Nothing,
        }
    }
}

impl Run {
    async fn serve(self) -> io::Result<End> {
        let mut stop = Stop::listen()?;
        let input = Input::of_this_process();
        let prepared = async {
            let engine = Engine::connect(&self.instructions.socket)
                .await
                .map_err(|error| error.to_string())?;
            let config = self.config(input)?;
            let exec = engine.create(&self.instructions.container, config).await;
            exec.map(|exec| (engine, exec)).map_err(|error| words(&error))
        };
        // What was created but not started is nothing: the engine forgets it.
        let (engine, exec) = tokio::select! {
            biased;
            () = stop.requested() => return Ok(End::Code(TERMINATED)),
            prepared = prepared => match prepared {
                Ok(prepared) => prepared,
                Err(why) => return Ok(End::NotStarted(why)),
            },
        };
        if input == Input::Terminal {
            make_raw()?;
        }
        // From here on something may run inside, no matter what becomes of this client.
        let attached = match engine.start(&exec, self.has_terminal(input)).await {
            Ok(attached) => attached,
            Err(AttachError::Refused(why)) => return Ok(End::NotStarted(why)),
            Err(error @ AttachError::Broken(_)) => {
                self.kill(&engine).await;
                return Ok(End::Lost(error.to_string()));
            }
        };
        let mut follow = Box::pin(self.follow(&engine, &exec, attached, input));
        tokio::select! {
            biased;
            () = stop.requested() => {}
            end = &mut follow => return Ok(end),
        }
        // What it still writes is copied meanwhile.
        let grace = self.terms.grace;
        let mut has_ended = false;
        if !grace.is_zero() {
            let asked = async {
                self.ask_to_end(&engine).await;
                sleep(grace).await;
            };
            tokio::select! {
                biased;
                _end = &mut follow => has_ended = true,
                () = asked => {}
            }
        }
        if has_ended {
            self.kill(&engine).await;
        } else {
            // Nobody waits for its end longer than this: the stream closes with what was killed.
            let rest = timeout(LAST_OUTPUT, &mut follow);
            let ((), _end) = tokio::join!(self.kill(&engine), rest);
        }
        Ok(End::Code(TERMINATED))
    }

    fn config(&self, input: Input) -> Result<ExecConfig, String> {
        let Instructions {
            run, argv, cwd, env, ..
        } = &self.instructions;
        let line = supervision::run(run, argv, self.terms.leftovers)
            .ok_or_else(|| "the name of a program cannot be empty or begin with a dash".to_owned())?;
        let size = self.size(input);
        Ok(ExecConfig {
            attach_stdin: Some(input != Input::Nothing),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(self.has_terminal(input)),
            console_size: size.map(|(rows, cols)| vec![rows.into(), cols.into()]),
            env: Some(env.clone()),
            cmd: Some(line),
            working_dir: Some(cwd.clone()),
            ..ExecConfig::default()
        })
    }

    fn has_terminal(&self, input: Input) -> bool {
        input == Input::Terminal || self.instructions.terminal.is_some()
    }

    fn size(&self, input: Input) -> Option<(u16, u16)> {
        match input {
            Input::Terminal => own_size(),
            Input::Nothing | Input::Stream => self.instructions.terminal,
        }
    }

    /// Copies until the command has ended, and finds out how.
    async fn follow(&self, engine: &Engine, exec: &str, attached: Attached, input: Input) -> End {
        let Attached { stream, first } = attached;
        let has_terminal = self.has_terminal(input);
        let (reading, mut writing) = stream.into_split();
        let stdin = async move {
            if input == Input::Nothing {
                // Kept open: closing it might be taken for the end of the client.
                return std::future::pending().await;
            }
            // A command that does not read ends the copy; the run goes on.
            drop(tokio::io::copy(&mut tokio::io::stdin(), &mut writing).await);
            drop(writing.shutdown().await);
            std::future::pending().await
        };
        let size = async {
            if has_terminal {
                follow_size(engine, exec, self.size(input)).await;
            }
            std::future::pending().await
        };
        let output = Output {
            reading,
            frames: (!has_terminal).then(Frames::default),
        };
        let copied = tokio::select! {
            copied = output.copy(&first, engine, exec) => copied,
            never = stdin => never,
            never = size => never,
        };
        match (engine.code(exec).await, copied) {
            (Some(code), _) => {
                // A process that kills the shell above the command keeps that shell from ending what is left.
                if code >= FIRST_SIGNAL && self.terms.leftovers == Leftovers::Kill {
                    self.kill(engine).await;
                }
                End::Code(i32::try_from(code).unwrap_or(i32::MAX))
            }
            (None, Ok(())) => End::Lost("the Docker engine went away while it ran".to_owned()),
            (None, Err(error)) => End::Lost(format!("the connection to the Docker engine broke: {error}")),
        }
    }

    async fn ask_to_end(&self, engine: &Engine) {
        let Instructions { container, run, .. } = &self.instructions;
        sweep::ask_to_end(engine, container, run, self.since).await;
    }

    async fn kill(&self, engine: &Engine) {
        let Instructions { container, run, .. } = &self.instructions;
        sweep::kill_run(engine, container, run, self.since).await;
    }
}

/// What tells a client to end.
struct Stop {
    terminate: Signal,
    hang_up: Signal,
    /// The reader of the output may be gone; the client notices that in another way.
    _pipe: Signal,
}

impl Stop {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            _pipe: signal(SignalKind::pipe())?,
        })
    }

    async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// What a command writes.
struct Output {
    reading: OwnedReadHalf,
    /// `None` for a terminal, which has no frames.
    frames: Option<Frames>,
}

impl Output {
    /// Copies to the end of the stream, or until the command has ended although something holds that open.
    async fn copy(mut self, first: &[u8], engine: &Engine, exec: &str) -> io::Result<()> {
        self.hand_on(first)?;
        let mut buffer = vec![0; 64 * 1024];
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.reset();
        loop {
            let has_ended = tokio::select! {
                biased;
                read = self.reading.read(&mut buffer) => {
                    let read = read?;
                    if read == 0 {
                        return Ok(());
                    }
                    self.hand_on(buffer.get(..read).unwrap_or_default())?;
                    false
                }
                _ = looks.tick() => {
                    timeout(LOOK_INTERVAL, engine.has_ended(exec)).await.unwrap_or(false)
                }
            };
            if has_ended {
                return timeout(LAST_OUTPUT, self.drain(&mut buffer))
                    .await
                    .unwrap_or(Ok(()));
            }
        }
    }

    async fn drain(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        loop {
            let read = self.reading.read(buffer).await?;
            if read == 0 {
                return Ok(());
            }
            self.hand_on(buffer.get(..read).unwrap_or_default())?;
        }
    }

    /// Writes without waiting for anybody but the supervisor, which always reads.
    fn hand_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(frames) = &mut self.frames else {
            write_all(rustix::stdio::stdout(), bytes).unwrap_or(());
            return Ok(());
        };
        let pieces = frames.take(bytes).ok_or(io::ErrorKind::InvalidData)?;
        for (stream, piece) in pieces {
            let to = match stream {
                OutputStream::Stdout => rustix::stdio::stdout(),
                OutputStream::Stderr => rustix::stdio::stderr(),
            };
            // Without a reader the command still goes on, like one whose output goes nowhere.
            write_all(to, piece).unwrap_or(());
        }
        Ok(())
    }
}

/// Gives the terminal inside its size, and every size that the client's own has later.
async fn follow_size(engine: &Engine, exec: &str, first: Option<(u16, u16)>) {
    let Ok(mut changes) = signal(SignalKind::window_change()) else {
        return;
    };
    let mut size = first;
    loop {
        if let Some((rows, cols)) = size {
            for _attempt in 0..RESIZES {
                if engine.resize(exec, rows, cols).await.is_ok() {
                    break;
                }
                sleep(RESIZE_INTERVAL).await;
            }
        }
        if changes.recv().await.is_none() {
            return;
        }
        size = own_size();
    }
}

fn own_size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(rustix::stdio::stdin()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// The terminal inside does what a terminal does; this one hands every byte through.
fn make_raw() -> io::Result<()> {
    let stdin = rustix::stdio::stdin();
    let mut modes = tcgetattr(stdin)?;
    modes.make_raw();
    tcsetattr(stdin, OptionalActions::Now, &modes)?;
    Ok(())
}

fn write_all(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
