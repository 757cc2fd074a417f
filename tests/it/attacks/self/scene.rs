//! A machine to be attacked from inside a run: a server at one level, and around it what a command might reach.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{PermissionsExt as _, chown},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use countersign_sys::{hooks, namespace};
use serde_json::{Value, json};

use super::table::{Need, Outcome};
use crate::support::{
    Invocation, Members, Scratch, TestServer, countersign, inherited_path, is_root, run_program,
    write_file_mode,
};

/// Whom commands run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    SeparateUser,
    Confined,
    SameUser,
}

impl Level {
    /// In the order of the table.
    pub(super) const ALL: [Self; 3] = [Self::SeparateUser, Self::Confined, Self::SameUser];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::SeparateUser => "separate-user",
            Self::Confined => "confined",
            Self::SameUser => "same-user",
        }
    }

    /// The account of commands.
    const fn account(self) -> u32 {
        match self {
            Self::SeparateUser => COMMANDS_ACCOUNT,
            Self::Confined | Self::SameUser => SERVER_ACCOUNT,
        }
    }

    /// Whether this program has it.
    pub(super) fn exists(self) -> bool {
        match self {
            Self::SeparateUser => {
                let state = Scratch::new();
                let doctor = countersign()
                    .args(&["doctor", "--json"])
                    .env("OPENCLAW_STATE_DIR", state.path());
                let report: Value = serde_json::from_str(&run_program(&doctor).stdout).unwrap();
                let settings = report.list("settings");
                settings
                    .iter()
                    .any(|setting| setting["key"] == "exec.run_as" && setting["effective"] == true)
            }
            Self::Confined | Self::SameUser => true,
        }
    }

    /// Why this level cannot be had here, if it cannot.
    pub(super) fn is_missing(self) -> Option<&'static str> {
        if !is_root() {
            return Some("running a server under another account needs root");
        }
        if run_program(&countersign().args(&["--version"]).run_as(SERVER_ACCOUNT)).code != Some(0) {
            return Some("another account cannot run the program");
        }
        match self {
            Self::SameUser | Self::SeparateUser => None,
            Self::Confined => {
                let unshare = Invocation::new("unshare").args(&["--user", "--mount", "true"]);
                let possible = run_program(&unshare.run_as(SERVER_ACCOUNT)).code == Some(0);
                (!possible).then_some("another account has no user namespaces here")
            }
        }
    }
}

/// Accounts that every system has. Not `nobody`: in a namespace everything of root looks as if it were nobody's.
const SERVER_ACCOUNT: u32 = 1;
const COMMANDS_ACCOUNT: u32 = 2;

/// Agents besides `main`, which may run everything.
pub(super) const ASKER: &str = "asker";
pub(super) const KEEPER: &str = "keeper";
pub(super) const STRICT: &str = "strict";

/// The code of an attack that could not even be tried, as `probe.c` and the shell have them.
const UNFIT: [i64; 3] = [120, 126, 127];

/// A server with its surroundings.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) level: Level,
    // Before the directories of its files, which it uses to its end.
    pub(super) server: TestServer,
    pub(super) place: Scratch,
    prelude: String,
    /// Needs that are not met here.
    unmet: Vec<Need>,
    _listeners: Vec<UnixListener>,
    _files: Vec<Gone>,
    _processes: Vec<Killed>,
}

/// What is taken away at the end, if it is still there and, for a directory, empty.
#[derive(Debug)]
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0).or_else(|_no_file| fs::remove_dir(&self.0)));
    }
}

/// A process that is ended with this.
#[derive(Debug)]
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What is put up around the server before it starts.
#[derive(Debug, Default)]
struct Surroundings {
    variables: Vec<(&'static str, String)>,
    listeners: Vec<UnixListener>,
    files: Vec<Gone>,
    processes: Vec<Killed>,
}

impl Surroundings {
    fn variable(&mut self, name: &'static str, value: impl Into<String>) {
        self.variables.push((name, value.into()));
    }

    /// A directory, made and in the end removed if it is not there.
    fn directory(&mut self, path: &Path) {
        if fs::create_dir(path).is_ok() {
            self.files.push(Gone(path.to_owned()));
        }
        give(path, 0o700);
    }

    /// A socket of the server's account at which somebody listens.
    fn socket(&mut self, variable: &'static str, path: PathBuf) {
        let listener =
            UnixListener::bind(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&path, Some(SERVER_ACCOUNT), Some(SERVER_ACCOUNT)).unwrap();
        self.listeners.push(listener);
        self.variable(variable, path.to_str().unwrap());
        self.files.push(Gone(path));
    }

    fn abstract_socket(&mut self, name: &str) {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        self.listeners.push(UnixListener::bind_addr(&address).unwrap());
    }

    /// A process of the server's account that nothing protects.
    fn process(&mut self, variable: &'static str) {
        let sleeping = Invocation::new("sleep").args(&["1000"]).run_as(SERVER_ACCOUNT);
        let child = sleeping.start(Stdio::null());
        self.variable(variable, child.id().to_string());
        self.processes.push(Killed(child));
    }

    /// A terminal in which the server's account has a session.
    fn terminal(&mut self) {
        let session = Invocation::new("script")
            .args(&["-qfc", "tty; exec sleep 1000", "/dev/null"])
            .run_as(SERVER_ACCOUNT);
        let mut child = session.start(Stdio::null());
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("/dev/pts/"), "no terminal: {line:?}");
        self.variable("TERMINAL", line.trim());
        self.processes.push(Killed(child));
    }

    /// A control group that is delegated to the server's account; false where there is none to be had.
    fn control_group(&mut self, name: &str) -> bool {
        let made = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .map(Path::new)
            .into_iter()
            .filter(|base| base.join("cgroup.procs").exists() && base.join("cgroup.subtree_control").exists())
            .map(|base| base.join(name))
            .find(|group| fs::create_dir(group).is_ok());
        let Some(group) = made else { return false };
        chown(&group, Some(SERVER_ACCOUNT), Some(SERVER_ACCOUNT)).unwrap();
        self.variable("GROUP", group.to_str().unwrap());
        self.files.push(Gone(group));
        true
    }
}

/// Makes something the server's account's alone.
fn give(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    chown(path, Some(SERVER_ACCOUNT), Some(SERVER_ACCOUNT)).unwrap();
}

fn listen(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    give(path, 0o600);
    listener
}

impl Scene {
    /// Starts a server at a level, perhaps with protections left away.
    pub(super) async fn start(level: Level, off: &str) -> Self {
        let place = Scratch::new();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let work = place.dir("work");
        chown(&work, Some(level.account()), Some(level.account())).unwrap();
        let name = place.path().file_name().unwrap().to_string_lossy().into_owned();
        let probe = compile(&place);
        let set_uid = place.join("set-uid-probe");
        fs::copy(&probe, &set_uid).unwrap();
        fs::set_permissions(&set_uid, fs::Permissions::from_mode(0o4755)).unwrap();

        let mut around = Surroundings::default();
        let mut unmet = Vec::new();
        around.socket("ENGINE", format!("/run/docker-{name}.sock").into());
        fs::create_dir_all("/run/dbus").unwrap();
        around.socket("SYSTEM_BUS", format!("/run/dbus/{name}").into());
        fs::create_dir_all("/run/user").unwrap();
        let session = PathBuf::from(format!("/run/user/{SERVER_ACCOUNT}"));
        around.directory(&session);
        around.socket("SESSION_BUS", session.join(format!("bus-{name}")));
        around.directory(&session.join("systemd"));
        around.socket("SYSTEMD", session.join(format!("systemd/{name}")));
        let multiplexer = PathBuf::from(format!("/tmp/tmux-{SERVER_ACCOUNT}"));
        // Servers make it, and leave it there.
        fs::create_dir_all(&multiplexer).unwrap();
        around.directory(&multiplexer);
        around.socket("MULTIPLEXER", multiplexer.join(&name));
        let agent = place.join("agent");
        around.directory(&agent);
        around.socket("AGENT", agent.join("socket"));
        around.abstract_socket(&name);
        around.process("OTHER");
        around.process("VICTIM");
        around.terminal();
        if !around.control_group(&name) {
            unmet.push(Need::ControlGroups);
        }

        let server = started(level, off, &around, &[probe.to_str().unwrap(), "with-key", &name]).await;
        around.socket("LATE_ENGINE", format!("/run/late-{name}.sock").into());
        let handle = place.join("handle");
        let state = server.state().join("countersign");
        let known = Invocation::new(&probe).args(&[
            "write-handle",
            state.to_str().unwrap(),
            handle.to_str().unwrap(),
        ]);
        assert_eq!(run_program(&known).code, Some(0), "the handle of a directory");
        unmet.extend(needs_of_the_kernel(&place, &probe, &set_uid));

        let port = server.anonymous().base().rsplit_once(':').unwrap().1.to_owned();
        for (variable, value) in [
            ("S", server.state().to_str().unwrap()),
            ("W", work.to_str().unwrap()),
            ("PROBE", probe.to_str().unwrap()),
            ("SET_UID_PROBE", set_uid.to_str().unwrap()),
            ("HANDLE", handle.to_str().unwrap()),
            ("COUNTERSIGN", env!("CARGO_BIN_EXE_countersign")),
            ("NAME", &name),
            ("PORT", &port),
            ("SERVER", &server.pid().to_string()),
            ("SUPERVISOR", "$PPID"),
            ("RUNNER", "$(awk '/^PPid/ { print $2 }' /proc/$PPID/status)"),
        ] {
            around.variable(variable, value);
        }
        let prelude = around
            .variables
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"));
        Self {
            level,
            server,
            place,
            prelude: prelude.collect(),
            unmet,
            _listeners: around.listeners,
            _files: around.files,
            _processes: around.processes,
        }
    }

    /// Whether an attack would mean something here.
    pub(super) fn meets(&self, need: Need) -> bool {
        !self.unmet.contains(&need)
    }

    /// The directory that commands may write.
    pub(super) fn work(&self) -> PathBuf {
        self.place.join("work")
    }

    /// Asks for a script to be run by an agent, and waits for its end.
    pub(super) async fn calls(&self, agent: &str, script: &str) -> Value {
        let call = json!({
            "command": format!("{}{script}", self.prelude),
            "agentId": agent,
            "workdir": self.work(),
            "yieldMs": 120_000,
            "timeout": 60,
        });
        self.server.ran(call).await
    }

    /// Runs a script as an agent to its end; the answer has its output.
    pub(super) async fn run(&self, agent: &str, script: &str) -> Value {
        let answer = self.calls(agent, script).await;
        let record = self.server.agent().run(answer.text("runId")).await;
        assert_eq!(record["isolation"], self.level.as_str(), "{record:#}");
        let code = answer["exitCode"].as_i64();
        assert!(
            code.is_some_and(|code| !UNFIT.contains(&code)),
            "no attack at all: {script}\n{answer:#}"
        );
        answer
    }

    /// Tries a script as an agent.
    pub(super) async fn tries(&self, agent: &str, script: &str) -> Outcome {
        if self.run(agent, script).await["exitCode"] == 0 {
            Outcome::GetsThrough
        } else {
            Outcome::KeptOut
        }
    }

    /// Takes the directory of the agent's socket away and makes it anew, with another socket in it.
    pub(super) fn exchange_agent(&self) -> UnixListener {
        let agent = self.place.join("agent");
        fs::rename(&agent, self.place.join("agent-before")).unwrap();
        fs::create_dir(&agent).unwrap();
        give(&agent, 0o700);
        listen(&agent.join("socket"))
    }

    /// Puts back what [`Self::exchange_agent`] took away.
    pub(super) fn put_agent_back(&self) {
        let agent = self.place.join("agent");
        fs::remove_dir_all(&agent).unwrap();
        fs::rename(self.place.join("agent-before"), &agent).unwrap();
    }

    /// What the account of the commands starts outside, in the directory that was its home inside.
    pub(super) fn outside(&self, script: &str, home: &str) {
        let person = Invocation::new("sh")
            .args(&["-c", script])
            .env("HOME", home)
            .cwd(&self.work());
        run_program(&person.run_as(self.level.account()));
    }
}

async fn started(level: Level, off: &str, around: &Surroundings, keeper_of_a_key: &[&str]) -> TestServer {
    let value = |name: &str| {
        let found = around.variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone()).unwrap()
    };
    let builder = TestServer::full()
        .config(&json!({
            "tools": { "exec": { "host": "gateway", "security": "full", "ask": "off" } },
            "agents": { "list": [
                { "id": ASKER, "tools": { "exec": { "security": "allowlist", "ask": "always" } } },
                { "id": KEEPER, "tools": { "exec": { "leftovers": "keep" } } },
                { "id": STRICT, "tools": { "exec": { "security": "allowlist" } } },
            ] },
        }))
        .document(&json!({ "version": 1 }))
        .toml("[approvals]\nalways_reachable = true\n")
        .env(hooks::PROTECTION_VARIABLE, off)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("SSH_AUTH_SOCK", &value("AGENT"))
        .env("DOCKER_HOST", &format!("unix://{}", value("ENGINE")))
        .env(
            "DBUS_SESSION_BUS_ADDRESS",
            &format!("unix:path={}", value("SESSION_BUS")),
        );
    let builder = match keeper_of_a_key {
        [program, arguments @ ..] => builder.behind(program, arguments),
        [] => builder,
    };
    let builder = match level {
        Level::SameUser => builder
            .run_as(SERVER_ACCOUNT)
            .env("COUNTERSIGN_EXEC__ISOLATION", "same-user"),
        Level::Confined => builder
            .run_as(SERVER_ACCOUNT)
            .env("COUNTERSIGN_EXEC__ISOLATION", "confined"),
        Level::SeparateUser => builder
            .all_owned_by(SERVER_ACCOUNT)
            .argument("--run-as")
            .argument(&COMMANDS_ACCOUNT.to_string()),
    };
    let server = builder.start().await;
    let told = format!("isolation={}", level.as_str());
    assert!(server.ready_line().contains(&told), "{}", server.ready_line());
    server
}

/// `probe.c`, for all accounts.
fn compile(place: &Scratch) -> PathBuf {
    let (source, program) = (place.join("probe.c"), place.join("probe"));
    write_file_mode(&source, include_str!("probe.c"), 0o644);
    let compiler = Invocation::new("cc")
        .args(&["-O1", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(&source)
        .env("PATH", inherited_path());
    let done = run_program(&compiler);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    program
}

/// What this kernel or this machine does not do for anybody.
fn needs_of_the_kernel(place: &Scratch, probe: &Path, set_uid: &Path) -> Vec<Need> {
    let number = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let mut unmet = Vec::new();
    if !namespace::has_scopes() {
        unmet.push(Need::Scopes);
    }
    if number("/proc/sys/kernel/yama/ptrace_scope").is_some_and(|scope| scope != "0") {
        unmet.push(Need::Tracing);
    }
    if number("/proc/sys/dev/tty/legacy_tiocsti").is_some_and(|allowed| allowed != "1") {
        unmet.push(Need::PushedKeys);
    }
    let as_account = |invocation: Invocation| run_program(&invocation.run_as(SERVER_ACCOUNT)).code == Some(0);
    if !as_account(Invocation::new(set_uid).args(&["is-root"])) {
        unmet.push(Need::SetUid);
    }
    let (tree, handle) = (place.dir("tree/inner"), place.join("handle-of-inner"));
    write_file_mode(&tree.join("file"), "x", 0o644);
    // Only what belongs to the account is looked through for a handle.
    for directory in [&place.join("tree"), &tree] {
        chown(directory, Some(SERVER_ACCOUNT), Some(SERVER_ACCOUNT)).unwrap();
    }
    let write = Invocation::new(probe).arg("write-handle").arg(&tree).arg(&handle);
    assert_eq!(run_program(&write).code, Some(0), "the handle of a directory");
    let open = Invocation::new("unshare")
        .arg("-Urm")
        .arg(probe)
        .arg("open-by-handle")
        .arg(place.join("tree"))
        .arg(&handle)
        .arg("file");
    if !as_account(open) {
        unmet.push(Need::Handles);
    }
    unmet
}
