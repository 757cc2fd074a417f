//! An engine with an image, a backend, and supervisors that hold clients.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use countersign_config::settings::DockerSettings;
use countersign_domain::{
    Bound, Confinement, Exit, Isolation, KillCause, LaunchId, Leftovers, OutputStream, RunId, TerminalSize,
};
use countersign_hosts::{
    Attempt, RunTerms,
    gateway::{GatewayHost, LaunchSpec, Supervised, SupervisorEvent},
    sandbox::{
        Enclosure, Inside, InsideCommand,
        docker::{ClientEnd, DockerBackend, DockerOptions},
    },
};
use countersign_runner::{Runner, RunnerOptions};
use countersign_sys::{
    clock::{Ids, SystemIds},
    process::InheritedLimits,
};

use crate::{
    container::engine::Engine,
    support::{Finished, program, within, write_file_mode},
};

pub(crate) const IMAGE: &str = "made-here/busybox:test";

/// Whose the containers of these tests are.
pub(crate) const OWNER: &str = "tests";

pub(crate) struct DockerFixture {
    pub(crate) engine: Engine,
    pub(crate) backend: DockerBackend,
    pub(crate) host: GatewayHost,
}

impl DockerFixture {
    /// `None`, and said so, where an engine cannot run.
    pub(crate) async fn new() -> Option<Self> {
        let engine = Engine::start().await?;
        make_image(&engine).await;
        Some(Self::at(engine))
    }

    fn at(engine: Engine) -> Self {
        let (runs, output) = (engine.scratch().dir("runs"), engine.scratch().dir("output"));
        let limits = InheritedLimits {
            open_files: Some(1000),
            umask: 0o027,
            nice: 0,
        };
        let options = RunnerOptions {
            program: PathBuf::from(env!("CARGO_BIN_EXE_countersign")),
            environment: Vec::new(),
            ..RunnerOptions::of_this_program(runs.clone(), output.clone(), limits, 16)
        };
        let runner = Runner::start(options).unwrap().watch().unwrap();
        Self {
            backend: backend(&engine, OWNER),
            host: GatewayHost::new(runner, runs, output),
            engine,
        }
    }

    /// A sandbox of its own under this name, with a workspace that can be written.
    pub(crate) fn enclosure(&self, name: &str) -> Enclosure {
        let workspace = self.engine.scratch().dir(&format!("workspace-{name}"));
        Enclosure {
            scope_key: format!("agent:{name}"),
            name: format!("sbx-{name}"),
            workspace,
            workspace_writable: true,
            agent_workspace: None,
            settings: settings(),
        }
    }

    /// The same, ready.
    pub(crate) async fn ready(&self, name: &str) -> Enclosure {
        let enclosure = self.enclosure(name);
        self.backend.prepare(&enclosure).await.unwrap();
        enclosure
    }

    pub(crate) async fn start(&self, enclosure: &Enclosure, order: Order) -> Running {
        let run_id = RunId::parse(SystemIds.random().to_string()).unwrap();
        let client = self
            .backend
            .client(enclosure, &order.inside, &run_id, order.terminal);
        let spec = LaunchSpec {
            run_id: run_id.clone(),
            launch_id: LaunchId::parse(SystemIds.random().to_string()).unwrap(),
            isolation: Isolation::Sandbox,
            bound: Bound::Exec {
                path: "/bin/sh".to_owned(),
                argv: vec!["sh".to_owned()],
                identity: None,
            },
            start: None,
            cwd: PathBuf::from("/"),
            cwd_dev: 0,
            cwd_ino: 0,
            executables: vec![],
            scripts: vec![],
            confinement: Confinement::default(),
            held: false,
            denied_children: Vec::new(),
            answered: false,
            timeout: order.timeout,
            terms: RunTerms {
                shell: None,
                attempt: Attempt::First,
                least_isolation: Isolation::SameUser,
                env: vec![],
                kill_grace: order.grace,
                leftovers: order.leftovers,
                keep_when_orphaned: false,
                stdin_open: order.stdin.is_some() || order.stdin_stays_open,
                max_run_bytes: 1 << 30,
                terminal: order.terminal,
                limits: countersign_runner::RunLimits::default(),
                record_input: false,
                observe: false,
            },
        };
        let supervised = self.host.start_client(spec, client).await.unwrap();
        if let Some(input) = &order.stdin {
            supervised.control.write_input(input).await.unwrap();
            supervised.control.close_input();
        }

        Running {
            run_id,
            supervised,
            stdout: Vec::new(),
            stderr: Vec::new(),
            skipped: 0,
            client: None,
        }
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, enclosure: &Enclosure, order: Order) -> Ended {
        self.start(enclosure, order).await.end().await
    }

    /// What a shell text that must succeed prints.
    #[track_caller]
    pub(crate) fn printed(&self, enclosure: &Enclosure, text: &str) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            let ended = self.run(enclosure, shell(text)).await;
            assert_eq!(ended.code(), 0, "{caller}: {text}: {ended:?}");
            ended.stdout
        }
    }

    /// What is inside, as the engine's own tool says it: the command lines.
    pub(crate) async fn processes(&self, enclosure: &Enclosure) -> Vec<String> {
        let listed = self
            .engine
            .docker(&["exec", &enclosure.name, "ps", "-o", "args"])
            .await;
        listed
            .lines()
            .skip(1)
            .map(|line| line.trim().to_owned())
            .collect()
    }

    /// Fails if anything of a run is left inside.
    #[track_caller]
    pub(crate) fn assert_nothing_is_left(&self, enclosure: &Enclosure) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let mut left = self.processes(enclosure).await;
            left.retain(|line| !is_of_the_container(line));
            assert!(left.is_empty(), "{caller}: {left:#?}");
        }
    }

    /// The names of all containers.
    pub(crate) async fn containers(&self) -> Vec<String> {
        let listed = self
            .engine
            .docker(&["ps", "--all", "--format", "{{.Names}}"])
            .await;
        let mut names: Vec<String> = listed.lines().map(str::to_owned).collect();
        names.sort();
        names
    }
}

/// What every container has: the init, the idle process with its sleep, and the looking itself.
fn is_of_the_container(line: &str) -> bool {
    line.contains("2147483647") || line == "ps -o args"
}

pub(crate) fn backend(engine: &Engine, owner: &str) -> DockerBackend {
    DockerBackend::new(DockerOptions {
        socket: engine.scratch().join("docker.sock"),
        start_timeout: Duration::from_mins(1),
        owner: owner.to_owned(),
    })
}

pub(crate) fn settings() -> DockerSettings {
    DockerSettings {
        image: IMAGE.to_owned(),
        container_prefix: "sbx-".to_owned(),
        workdir: PathBuf::from("/workspace"),
        read_only_root: true,
        network: "none".to_owned(),
        tmpfs: ["/tmp", "/var/tmp", "/run"].map(str::to_owned).to_vec(),
        cap_drop: vec!["ALL".to_owned()],
        user: None,
        setup_command: None,
        pids_limit: None,
        memory_bytes: None,
        memory_swap_bytes: None,
        nano_cpus: None,
        ulimits: BTreeMap::new(),
        seccomp_profile: None,
        apparmor_profile: None,
        dns: vec![],
        extra_hosts: vec![],
        env: BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())]),
        binds: vec![],
    }
}

/// A command and how it is held.
pub(crate) struct Order {
    pub(crate) inside: Inside,
    /// All that it reads.
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) stdin_stays_open: bool,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) leftovers: Leftovers,
}

pub(crate) fn shell(text: &str) -> Order {
    order(InsideCommand::Shell(text.to_owned()))
}

pub(crate) fn argv(words: &[&str]) -> Order {
    order(InsideCommand::Argv(
        words.iter().map(|word| (*word).to_owned()).collect(),
    ))
}

fn order(command: InsideCommand) -> Order {
    Order {
        inside: Inside {
            command,
            cwd: PathBuf::from("/workspace"),
            env: vec![],
            path_prepend: None,
        },
        stdin: None,
        stdin_stays_open: false,
        terminal: None,
        timeout: None,
        grace: Duration::ZERO,
        leftovers: Leftovers::Kill,
    }
}

impl Order {
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.inside.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(mut self, path: &str) -> Self {
        self.inside.path_prepend = Some(path.to_owned());
        self
    }

    pub(crate) fn cwd(mut self, cwd: &str) -> Self {
        self.inside.cwd = PathBuf::from(cwd);
        self
    }

    pub(crate) fn stdin(self, input: &[u8]) -> Self {
        let stdin = Some(input.to_vec());
        Self { stdin, ..self }
    }
}

/// A run that goes on.
pub(crate) struct Running {
    pub(crate) run_id: RunId,
    pub(crate) supervised: Supervised,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    skipped: u64,
    /// The process that stands for it here.
    pub(crate) client: Option<i32>,
}

/// How a run ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Bytes of output beside these.
    pub(crate) skipped: u64,
}

impl Ended {
    pub(crate) fn end(&self) -> ClientEnd {
        ClientEnd::of(&self.exit)
    }

    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        match self.end() {
            ClientEnd::Ended(code) => code,
            other => panic!("{other:?}: {self:?}"),
        }
    }
}

impl Running {
    /// Listens until it has written this.
    pub(crate) async fn until_written(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.stdout).contains(text) {
            if let Some(exit) = self.next().await {
                panic!(
                    "never wrote {text}: {exit:?} {:?}",
                    String::from_utf8_lossy(&self.stderr)
                );
            }
        }
    }

    /// Takes one report; the end, if it is that.
    async fn next(&mut self) -> Option<Exit> {
        match within("a report", self.supervised.events.recv()).await {
            Some(SupervisorEvent::Started { pid }) => self.client = Some(pid),
            Some(SupervisorEvent::Output { stream, bytes }) => match stream {
                OutputStream::Stdout => self.stdout.extend(bytes),
                OutputStream::Stderr => self.stderr.extend(bytes),
            },
            // Live output that nobody took in time; the spool has it.
            Some(SupervisorEvent::Skipped { bytes }) => self.skipped += bytes,
            Some(SupervisorEvent::Exit(ended)) => return Some(ended.exit),
            other => panic!("{other:?}"),
        }
        None
    }

    pub(crate) async fn end(mut self) -> Ended {
        let exit = loop {
            if let Some(exit) = self.next().await {
                break exit;
            }
        };
        self.supervised.control.stored();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended {
            exit,
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
            skipped: self.skipped,
        }
    }

    pub(crate) fn kill(&self) {
        self.supervised.control.kill(KillCause::Cancelled);
    }
}

/// A small system: busybox under all its names.
async fn make_image(engine: &Engine) {
    let root = engine.scratch().dir("root");
    for directory in [
        "bin",
        "etc",
        "usr",
        "proc",
        "sys",
        "dev",
        "workspace",
        "var/tmp",
        "run",
        "root",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let busybox = program("busybox").expect("busybox");
    fs::copy(&busybox, root.join("bin/busybox")).unwrap();
    let names = engine_tool(&busybox, &["--list"]).await.stdout;
    for name in names.lines().filter(|name| *name != "busybox") {
        symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    for name in ["tmp", "var/tmp"] {
        let fixture = root.join(name);
        fs::create_dir_all(&fixture).unwrap();
        fs::set_permissions(&fixture, fs::Permissions::from_mode(0o1777)).unwrap();
    }
    let accounts = "root:x:0:0:root:/root:/bin/sh\nworker:x:1000:1000:worker:/tmp:/bin/sh\n";
    write_file_mode(&root.join("etc/passwd"), accounts, 0o644);
    write_file_mode(&root.join("etc/group"), "root:x:0:\nworker:x:1000:\n", 0o644);
    let profile = "PATH=/profile/bin:/bin\nexport FROM_PROFILE=yes PATH\n";
    write_file_mode(&root.join("etc/profile"), profile, 0o644);
    let archive = engine.scratch().join("image.tar");
    let words = [
        "-C",
        root.to_str().unwrap(),
        "-cf",
        archive.to_str().unwrap(),
        ".",
    ];
    assert_eq!(engine_tool(Path::new("tar"), &words).await.code, Some(0));
    engine.docker(&["import", archive.to_str().unwrap(), IMAGE]).await;
}

async fn engine_tool(program: &Path, arguments: &[&str]) -> Finished {
    crate::container::engine::run(crate::support::Invocation::new(program).args(arguments)).await
}
