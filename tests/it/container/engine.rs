//! A Docker engine of one test.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use crate::support::{
    Finished, Invocation, ProcessHandle, Scratch, eventually, is_root, kill_hard, program, run_long_program,
    skip, terminate,
};

/// Building and starting take this long on a machine with much else to do; more is a failure.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Programs that the engine and its test need.
const NEEDED: [&str; 6] = [
    "dockerd",
    "docker",
    "docker-compose",
    "busybox",
    "unshare",
    "nsenter",
];

/// A running engine with name spaces of its own for mounts, network and processes: when its first process ends,
/// all its containers, mounts and interfaces are gone, however the test went.
#[derive(Debug)]
pub(crate) struct Engine {
    scratch: Scratch,
    unshare: Child,
    /// Control groups are not part of a name space, so they have a parent of a known name.
    cgroup: String,
}

impl Engine {
    /// `None`, and said so, where an engine cannot run.
    pub(crate) async fn start() -> Option<Self> {
        if !is_root() {
            skip("a Docker engine of our own needs root");
            return None;
        }
        if let Some(missing) = NEEDED.iter().find(|name| program(name).is_none()) {
            skip(&format!("a Docker engine of our own needs {missing}"));
            return None;
        }
        let engine = Self::launch();
        let unshare = i32::try_from(engine.unshare.id()).ok();
        let unshare = unshare.and_then(ProcessHandle::open);
        let is_gone = || unshare.as_ref().is_none_or(ProcessHandle::has_ended);
        let answers = || async { is_gone() || engine.try_docker(&["version"]).await.code == Some(0) };
        eventually("an engine", answers, |answers| *answers).await;
        if is_gone() {
            let log = fs::read_to_string(engine.log()).unwrap_or_default();
            let why = log.lines().last().unwrap_or("it says nothing");
            skip(&format!("a Docker engine of our own cannot run here: {why}"));
            return None;
        }
        Some(engine)
    }

    fn launch() -> Self {
        let scratch = Scratch::new();
        let at = scratch.path();
        let name = at.file_name().and_then(|name| name.to_str());
        let cgroup = name.expect("the name of the directory").to_owned();
        // What a daemon leaves below /run stays in the name space too.
        let script = format!(
            "mount -t tmpfs tmpfs /run && busybox ip link set lo up && exec dockerd --iptables=false \
             --ip6tables=false --ip-forward=false --data-root {0}/data --exec-root {0}/exec --pidfile {0}/pid \
             -H unix://{0}/docker.sock --cgroup-parent /{cgroup}",
            at.display()
        );
        let spaces = [
            "--mount",
            "--propagation=private",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ];
        let log = File::create(at.join("engine.log")).expect("the log of the engine");
        let unshare = Invocation::new("unshare")
            .args(&spaces)
            .args(&["sh", "-c", &script])
            .cwd(&at)
            .env("HOME", &at)
            .start(Stdio::from(log));
        Self {
            scratch,
            unshare,
            cgroup,
        }
    }

    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn log(&self) -> PathBuf {
        self.scratch.join("engine.log")
    }

    /// The process whose end is the end of all, by its number outside.
    fn first_process(&self) -> Option<i32> {
        let unshare = self.unshare.id();
        let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// A program that talks to this engine.
    pub(crate) fn client(&self, program: &str) -> Invocation {
        let socket = format!("unix://{}", self.scratch.join("docker.sock").display());
        Invocation::new(program)
            .env("HOME", self.scratch.path())
            .env("DOCKER_HOST", socket)
            // The builder that every engine has; the other one is a plugin.
            .env("DOCKER_BUILDKIT", "0")
    }

    async fn try_docker(&self, arguments: &[&str]) -> Finished {
        run(self.client("docker").args(arguments)).await
    }

    /// Runs `docker`, which must succeed.
    #[track_caller]
    pub(crate) fn docker(&self, arguments: &[&str]) -> impl Future<Output = String> {
        succeeds(self.client("docker").args(arguments))
    }

    /// A program on the network that the engine publishes ports to: to it, the machine's own.
    pub(crate) fn on_its_network(&self, program: Invocation) -> Invocation {
        let first = self.first_process().expect("the engine runs");
        program.behind("nsenter", &[&format!("--net=/proc/{first}/ns/net"), "--"])
    }

    /// Ends it, and everything that it started, without a word.
    pub(crate) fn kill(&self) {
        let first = self.first_process().and_then(ProcessHandle::open);
        let first = first.expect("the engine runs");
        kill_hard(first.pid);
        assert!(first.wait(TIMEOUT), "the engine cannot be ended");
    }

    /// Ends it as an administrator would, and looks whether anything is left.
    pub(crate) async fn stop(mut self) {
        let first = self.first_process().expect("the engine runs");
        let handle = ProcessHandle::open(first).expect("the engine runs");
        terminate(first);
        let ended = tokio::task::spawn_blocking(move || handle.wait(TIMEOUT)).await;
        assert!(ended.expect("waiting for the engine"), "the engine did not stop");
        self.unshare.wait().expect("the end of the engine");
        let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let place = self.scratch.path();
        assert!(
            !mounts.contains(place.to_str().expect("a plain path")),
            "{mounts}"
        );
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // In this order: with the first process of the name space its others end before it counts as ended.
        let first = self.first_process().and_then(ProcessHandle::open);
        if let Some(first) = &first {
            kill_hard(first.pid);
        }
        let ended = first.is_none_or(|first| first.wait(TIMEOUT));
        // Takes along what it started in the moment since; it may be gone already.
        drop(self.unshare.kill());
        drop(self.unshare.wait());
        let left = remove_cgroups(&self.cgroup);
        if thread::panicking() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            let from = log.lines().count().saturating_sub(30);
            let tail: Vec<&str> = log.lines().skip(from).collect();
            drop(std::io::Write::write_all(
                &mut std::io::stderr(),
                tail.join("\n").as_bytes(),
            ));
        } else {
            assert!(ended, "the engine cannot be ended");
            assert!(left.is_empty(), "control groups are left: {left:?}");
        }
    }
}

/// Removes the groups below a parent in every hierarchy; returns what could not be removed.
fn remove_cgroups(parent: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(root).into_iter().flatten().flatten();
    let places = hierarchies.map(|entry| entry.path()).chain([root.to_owned()]);
    let mut left = Vec::new();
    for place in places
        .map(|place| place.join(parent))
        .filter(|place| place.is_dir())
    {
        let mut groups = vec![place];
        let mut at = 0;
        while let Some(group) = groups.get(at) {
            let below = fs::read_dir(group).into_iter().flatten().flatten();
            let below: Vec<PathBuf> = below
                .map(|entry| entry.path())
                .filter(|path| path.is_dir())
                .collect();
            groups.extend(below);
            at += 1;
        }
        left.extend(
            groups
                .into_iter()
                .rev()
                .filter(|group| fs::remove_dir(group).is_err()),
        );
    }
    left
}

/// Runs a program to its end, which may take as long as a build.
pub(crate) async fn run(invocation: Invocation) -> Finished {
    let done = tokio::task::spawn_blocking(move || run_long_program(&invocation, TIMEOUT));
    done.await.expect("the program ends")
}

/// Runs a program that must succeed; returns what it printed.
#[track_caller]
pub(crate) fn succeeds(invocation: Invocation) -> impl Future<Output = String> {
    let caller = std::panic::Location::caller();
    async move {
        let done = run(invocation.clone()).await;
        assert_eq!(done.code, Some(0), "{caller}: {invocation:?}: {done:#?}");
        done.stdout
    }
}
