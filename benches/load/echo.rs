//! How long a byte takes through a program on a terminal and back: by a supervisor, and over a bare terminal.

use std::{
    ffi::OsString,
    os::fd::{AsFd, OwnedFd},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use countersign_domain::{Bound, Confinement, Isolation, LaunchId, Leftovers, RunId, TerminalSize};
use countersign_hosts::{
    Attempt, RunTerms,
    gateway::{GatewayHost, LaunchSpec, Supervised, SupervisorEvent},
};
use countersign_runner::{RunLimits, Runner, RunnerOptions};
use countersign_sys::{
    clock::{Ids, SystemIds},
    process::InheritedLimits,
};
use rustix::pty::OpenptFlags;
use tokio::time::Instant;

use super::{
    options::Options,
    samples::{Samples, ratio},
};

/// Bytes before any counts.
const WARM_UP: u32 = 50;

/// Gives back what it reads, byte by byte, once it has said that it does.
const SCRIPT: &str = "stty raw -echo; echo ready; exec cat";

const SHELL: &str = "/bin/sh";

pub(crate) async fn measure(options: &Options) {
    println!("echo: {} bytes, one after the other, in turns", options.rounds);
    let place = tempfile::tempdir().expect("a directory");
    let mut ours = Ours::start(place.path().to_owned()).await;
    let bare = Bare::start();
    let (mut by_us, mut by_itself) = (Samples::default(), Samples::default());
    for round in 0..WARM_UP + options.rounds {
        let begun = Instant::now();
        ours.echo().await;
        let (ours_took, begun) = (begun.elapsed(), Instant::now());
        bare.echo();
        if round >= WARM_UP {
            by_us.add(ours_took);
            by_itself.add(begun.elapsed());
        }
    }
    println!("\n{:<24}  p50 us    p99 us", "");
    for (what, samples) in [("a bare terminal", &by_itself), ("by a supervisor", &by_us)] {
        let (p50, p99) = (samples.p50().as_micros(), samples.p99().as_micros());
        println!("  {what:<22}  {p50:>6}  {p99:>8}");
    }
    let ratio = |of: fn(&Samples) -> std::time::Duration| ratio(of(&by_us), of(&by_itself));
    println!(
        "  {:<22}  {:>5.2}x  {:>7.2}x",
        "ratio",
        ratio(Samples::p50),
        ratio(Samples::p99)
    );
}

/// A run on a terminal, with everything but the HTTP API.
struct Ours {
    supervised: Supervised,
    /// Has the runner.
    _host: GatewayHost,
}

impl Ours {
    async fn start(place: PathBuf) -> Self {
        let (runs, output) = (place.join("runs"), place.join("output"));
        for directory in [&runs, &output] {
            std::fs::create_dir(directory).expect("a directory");
        }
        let limits = InheritedLimits::of_this_process();
        let options = RunnerOptions {
            program: PathBuf::from(env!("CARGO_BIN_EXE_countersign")),
            ..RunnerOptions::of_this_program(runs.clone(), output.clone(), limits, 4)
        };
        let runner = Runner::start(options)
            .and_then(|runner| runner.watch().map_err(countersign_runner::RunnerError::Start));
        let host = GatewayHost::new(runner.expect("a runner"), runs, output);
        let supervised = host.start(spec(place)).await.expect("a run");
        let mut ours = Self {
            supervised,
            _host: host,
        };
        ours.until(|output| output.ends_with(b"ready\r\n") || output.ends_with(b"ready\n"))
            .await;
        ours
    }

    async fn echo(&mut self) {
        self.supervised.control.write_input(b"x").await.expect("it reads");
        self.until(|output| output == b"x").await;
    }

    async fn until(&mut self, is_there: impl Fn(&[u8]) -> bool) {
        let mut all = Vec::new();
        while !is_there(&all) {
            match self.supervised.events.recv().await {
                Some(SupervisorEvent::Output { bytes, .. }) => all.extend(bytes),
                Some(SupervisorEvent::Started { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn spec(cwd: PathBuf) -> LaunchSpec {
    let directory = std::fs::metadata(&cwd).expect("the directory");
    LaunchSpec {
        run_id: RunId::parse(SystemIds.random().to_string()).expect("an id"),
        launch_id: LaunchId::parse(SystemIds.random().to_string()).expect("an id"),
        isolation: Isolation::SameUser,
        bound: Bound::Text {
            shell: SHELL.to_owned(),
            text: SCRIPT.to_owned(),
        },
        start: None,
        cwd,
        cwd_dev: directory.dev(),
        cwd_ino: directory.ino(),
        executables: vec![],
        scripts: vec![],
        confinement: Confinement::default(),
        held: false,
        denied_children: Vec::new(),
        answered: false,
        timeout: None,
        terms: RunTerms {
            shell: None,
            attempt: Attempt::First,
            least_isolation: Isolation::SameUser,
            env: vec![(OsString::from("PATH"), OsString::from("/usr/bin:/bin"))],
            kill_grace: std::time::Duration::ZERO,
            leftovers: Leftovers::Kill,
            keep_when_orphaned: false,
            stdin_open: true,
            terminal: Some(TerminalSize::DEFAULT),
            max_run_bytes: 1 << 20,
            record_input: false,
            observe: false,
            limits: RunLimits::default(),
        },
    }
}

/// The same program on a terminal of this process.
struct Bare {
    master: OwnedFd,
    child: Child,
}

impl Bare {
    #[expect(
        clippy::disallowed_methods,
        reason = "the shortest way is what the server is compared with"
    )]
    fn start() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags).expect("a terminal");
        rustix::pty::unlockpt(&master).expect("a terminal that opens");
        let other = rustix::pty::ioctl_tiocgptpeer(&master, flags).expect("its other side");
        let end = || Stdio::from(other.as_fd().try_clone_to_owned().expect("a descriptor"));
        let child = Command::new(SHELL)
            .args(["-c", SCRIPT])
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("a shell");
        let bare = Self { master, child };
        let mut all = Vec::new();
        while !all.ends_with(b"\n") {
            all.push(bare.read());
        }
        bare
    }

    fn echo(&self) {
        rustix::io::write(&self.master, b"x").expect("it is written");
        assert_eq!(self.read(), b'x');
    }

    fn read(&self) -> u8 {
        let mut byte = [0];
        assert_eq!(rustix::io::read(&self.master, &mut byte), Ok(1));
        byte[0]
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it is reaped");
    }
}
