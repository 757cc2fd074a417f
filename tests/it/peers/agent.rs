//! What every client is put through, whichever it is: a model on this machine makes it call its tool, and each command
//! leaves a line in a file, so that one that ran twice, or beside countersign, shows.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use countersign_sys::clock::{Clock as _, SystemClock};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    model::{Call, Model},
    patiently,
};
use crate::{
    docs_agents::block,
    support::{
        Api, Invocation, Members, Scratch, ServerBuilder, TestServer, eventually, inherited_path, kill_hard,
        lines, needed, pid_of, processes_of, signal, write_file_mode,
    },
};

/// How a client's commands come to countersign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// `countersign mcp`, which the client starts.
    Stdio,
    /// `POST /mcp`.
    Http,
    /// `countersign hook`, which the client asks before it runs a command itself.
    Hook,
}

/// How patient a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitPolicy {
    /// As the documentation advises.
    Advised,
    /// Its own limit for a call, or for its hook, is over before anyone answers.
    Short,
    /// The limit of the hook is over before anyone answers, and before the client's own.
    ShortHook,
}

/// A client with all that it needs around it.
pub(super) trait Client: Sized + Send + Sync {
    /// Whether over HTTP it closes the connection of a call that it gives up, and says nothing.
    const CLOSES_WHAT_IT_GIVES_UP: bool = false;

    /// `None`, and a line that says so, where it is not installed.
    fn find() -> Option<Self>;

    /// How it is started to do what `model` says, with a home of its own and the settings of the documentation.
    fn invocation(
        &self,
        fixture: &ClientFixture,
        way: Way,
        wait_policy: WaitPolicy,
        model: &Model,
    ) -> Invocation;

    /// The call that runs a command, with more members where countersign takes them.
    fn call(&self, way: Way, command: &str, more: Value) -> Call;
}

/// Files of a client, and the programs that its model runs.
#[derive(Debug)]
pub(super) struct ClientFixture {
    scratch: Scratch,
    environment: Vec<(String, String)>,
    address: Option<String>,
}

/// Which programs there are, by what becomes of them, and what each does after it left its line.
const PROGRAMS: [(&str, &str); 5] = [
    ("allowed", ""),
    ("denied", ""),
    ("asked", ""),
    ("many", "exec seq 100000"),
    ("slow", "exec sleep 1000"),
];

impl ClientFixture {
    pub(super) fn new() -> Self {
        let scratch = Scratch::new();
        for name in ["home", "project"] {
            scratch.dir(name);
        }
        let fixture = Self {
            scratch,
            environment: Vec::new(),
            address: None,
        };
        for (name, rest) in PROGRAMS {
            let file = fixture.file();
            let text = format!(
                "#!/bin/sh\necho \"{name}${{1:+ $1}}\" >> {}\n{rest}\n",
                file.display()
            );
            write_file_mode(&fixture.scratch.join("bin").join(name), text, 0o755);
        }
        fixture
    }

    /// A server that runs some of the programs, denies one, and asks about the others.
    pub(super) fn server(&self) -> ServerBuilder {
        self.server_with("")
    }

    /// The same with more in its `[approvals]`.
    fn server_with(&self, approvals: &str) -> ServerBuilder {
        let pattern = |name: &str| self.program(name);
        TestServer::asking_with(approvals).agents(&json!({"main": {
            "allowlist": [pattern("allowed"), pattern("many"), pattern("slow")],
            "denylist": [{"pattern": pattern("denied")}],
        }}))
    }

    /// Whose client this is.
    pub(super) fn beside(mut self, server: &TestServer) -> Self {
        let state = server.state().display().to_string();
        self.environment = vec![("OPENCLAW_STATE_DIR".to_owned(), state)];
        if server.is_running() {
            let token = ("COUNTERSIGN_TOKEN".to_owned(), server.gateway_token());
            self.environment.push(token);
            self.address = Some(server.agent().base().to_owned());
        }
        self
    }

    /// Where a program is.
    pub(super) fn program(&self, name: &str) -> String {
        self.scratch.join("bin").join(name).display().to_string()
    }

    /// The home of the client.
    pub(super) fn home(&self) -> PathBuf {
        self.scratch.join("home")
    }

    pub(super) fn project(&self) -> PathBuf {
        self.scratch.join("project")
    }

    fn file(&self) -> PathBuf {
        self.scratch.join("lines")
    }

    /// What ran so far, sorted.
    pub(super) fn marks(&self) -> Vec<String> {
        let mut marks = lines(&self.file());
        marks.sort_unstable();
        marks
    }

    /// A block of `docs/agents.md` or a page below `docs/agents/`, with the address of this server.
    pub(super) fn documented(&self, label: &str) -> String {
        let nowhere = "http://127.0.0.1:9";
        let address = self.address.as_deref().unwrap_or(nowhere);
        block(label).replace("http://127.0.0.1:18790", address)
    }

    /// A program with the home, the project and the countersign of this place.
    pub(super) fn surround(&self, invocation: Invocation) -> Invocation {
        let own = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let folder = own.parent().expect("a folder").display().to_string();
        let mut invocation = invocation
            .cwd(&self.project())
            .env("HOME", self.home())
            .env("TMPDIR", self.scratch.dir("tmp"))
            .env("PATH", format!("{folder}:{}", inherited_path()));
        for (name, value) in &self.environment {
            invocation = invocation.env(name, value);
        }
        invocation
    }

    /// Starts a client.
    pub(super) fn start(&self, invocation: &Invocation) -> Running {
        let path = self.scratch.join("client.log");
        let log = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .expect("a log file");
        let errors = log.try_clone().expect("a descriptor");
        Running {
            child: invocation.start_logged(Stdio::from(log), Stdio::from(errors)),
            log: path,
        }
    }
}

/// A client that runs until this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Waits for its end, which comes when its model has no more to say.
    pub(super) async fn ended(&mut self) {
        let ended = || std::future::ready(self.child.try_wait().expect("the state of a client"));
        patiently("ended", ended, |status| *status).await;
    }

    /// As its user does at a terminal.
    pub(super) fn interrupt(&self) {
        signal(pid_of(&self.child), Signal::INT);
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Running {
    #[expect(clippy::print_stderr, reason = "what the client said belongs to the failure")]
    fn drop(&mut self) {
        let folder = self.log.parent().expect("a folder");
        for process in processes_of(Some(pid_of(&self.child)), folder) {
            kill_hard(process.pid);
        }
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// A program that `dev/peers` installs; `None`, said why, where it is not there.
pub(super) fn installed_peer<T>(name: &str, found: Option<T>) -> Option<T> {
    needed(
        found.is_some(),
        &format!("{name} is not installed (dev/peers installs it)"),
    )?;
    found
}

/// The waits of an agent that can wait, for a person and for a command.
fn waiting() -> Value {
    json!({"approvalWaitMs": 60_000, "yieldMs": 60_000})
}

/// Waits for a question, which comes once a client has started; its id.
async fn asked_about(operator: &Api) -> String {
    let id = |pending: &Vec<Value>| Some(pending.first()?["id"].as_str()?.to_owned());
    patiently("asked", || operator.pending(), id).await
}

/// One conversation with a command of each kind, two in one turn among them.
pub(super) async fn each_command_runs_once_or_not_at_all<C: Client>(way: Way) {
    let client = or_skip!(C::find());
    let fixture = ClientFixture::new();
    let server = fixture.server().start().await;
    let fixture = fixture.beside(&server);
    let run = |name: &str, mark: &str, more: Value| {
        client.call(way, format!("{} {mark}", fixture.program(name)).trim_end(), more)
    };
    let model = Model::saying(vec![
        vec![run("allowed", "one", json!({}))],
        vec![run("denied", "two", json!({}))],
        vec![run("asked", "three", waiting())],
        vec![run("allowed", "a", json!({})), run("allowed", "b", json!({}))],
        vec![run("many", "", json!({"yieldMs": 60_000}))],
    ])
    .await;
    let mut running = fixture.start(&client.invocation(&fixture, way, WaitPolicy::Advised, &model));
    let operator = server.operator();
    let id = asked_about(&operator).await;
    assert_eq!(fixture.marks(), ["allowed one"]);
    operator.decided(&id, "allow-once").await;
    running.ended().await;
    let expected = ["allowed a", "allowed b", "allowed one", "asked three", "many"];
    let results = model.results();
    assert_eq!(fixture.marks(), expected, "{results:#?}");
    assert_eq!(results.len(), 6, "{results:#?}");
    assert!(results[1].contains("deny"), "{}", results[1]);
    // Each client shows its model the part that it has room for, or where the rest is.
    let shown = ["12\n13", "12\\n13", "saved to"];
    assert!(
        shown.iter().any(|part| results[5].contains(part)),
        "{}",
        results[5]
    );
    assert_eq!(operator.pending().await, Vec::<Value>::new());
    // By countersign, every one of them.
    let runs = operator.read("/v1/runs").await;
    let count = |status: &str| {
        let runs = runs.list("items").iter();
        runs.filter(|run| run["status"] == status).count()
    };
    assert_eq!((count("completed"), count("denied")), (5, 1), "{runs}");
}

/// How many connections the server has, that of the question included.
async fn connections(operator: &Api) -> Option<u32> {
    let metrics = operator.get("/metrics").await.text();
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("countersign_http_connections{listener=\"tcp\"} "));
    line.and_then(|number| number.parse().ok())
}

/// The client gives a call up before a person answers; the person allows it; and the same call again has its result.
pub(super) async fn a_call_that_was_given_up_is_joined<C: Client>(way: Way) {
    let client = or_skip!(C::find());
    let fixture = ClientFixture::new();
    let server = fixture.server().start().await;
    let fixture = fixture.beside(&server);
    let command = format!("{} late", fixture.program("asked"));
    // The third says how it went when nobody answers an agent that does not wait.
    let other = format!("{} never", fixture.program("asked"));
    let model = Model::saying(vec![
        vec![client.call(way, &command, waiting())],
        vec![client.call(way, &command, waiting())],
        vec![client.call(way, &other, json!({}))],
    ])
    .await;
    model.stop_before(1);
    let mut running = fixture.start(&client.invocation(&fixture, way, WaitPolicy::Short, &model));
    model.asked_for(1).await;
    assert_eq!(fixture.marks(), Vec::<String>::new());
    let operator = server.operator();
    if way == Way::Http && C::CLOSES_WHAT_IT_GIVES_UP {
        // A moment after it told its model. What is answered before then reaches nobody, and a call behind it is a new one.
        let connections = || async { connections(&operator).await };
        eventually("closed", connections, |open| *open == Some(1)).await;
    }
    let asked = operator.pending().await;
    assert_eq!(asked.len(), 1, "{asked:?}");
    let id = asked[0].text("id");
    operator.decided(id, "allow-once").await;
    let ran = || async { fixture.marks() };
    eventually("ran", ran, |marks| marks == &["asked late"]).await;
    model.go_on();
    running.ended().await;
    let results = model.results();
    assert_eq!(fixture.marks(), ["asked late"], "{results:#?}");
    assert!(
        results[1].contains("exit code 0") || results[1].contains("completed"),
        "{results:#?} {:#}",
        operator.read("/v1/runs").await
    );
    assert!(results[2].contains("/a/"), "{results:#?}");
    let waits = operator.pending().await;
    assert_eq!(waits.len(), 1, "{waits:?}");
}

/// The client waits for a person longer than its own limit for a call says, since it hears that the call goes on.
pub(super) async fn a_call_outlasts_its_own_limit<C: Client>(way: Way) {
    let client = or_skip!(C::find());
    let fixture = ClientFixture::new();
    let server = fixture.server().start().await;
    let fixture = fixture.beside(&server);
    let command = format!("{} late", fixture.program("asked"));
    let model = Model::saying(vec![vec![client.call(way, &command, waiting())]]).await;
    let mut running = fixture.start(&client.invocation(&fixture, way, WaitPolicy::Short, &model));
    let operator = server.operator();
    let id = asked_about(&operator).await;
    let asked_at = operator.approval(&id).await["createdAtMs"]
        .as_i64()
        .expect("a time");
    let now = || std::future::ready(SystemClock.now().get());
    // Twice its limit.
    patiently("past its limit", now, |now| {
        (*now > asked_at + 8_000).then_some(())
    })
    .await;
    assert_eq!(fixture.marks(), Vec::<String>::new());
    operator.decided(&id, "allow-once").await;
    running.ended().await;
    let results = model.results();
    assert_eq!(fixture.marks(), ["asked late"], "{results:#?}");
    assert_eq!(results.len(), 1, "{results:#?}");
    assert!(
        results[0].contains("exit code 0") || results[0].contains("completed"),
        "{results:#?}"
    );
}

/// Nobody answers a call that waits: its question expires, and the command is denied.
pub(super) async fn nobody_answers_its_call<C: Client>(way: Way) {
    let client = or_skip!(C::find());
    let fixture = ClientFixture::new();
    let server = fixture.server_with("timeout_ms = 3000").start().await;
    let fixture = fixture.beside(&server);
    let command = fixture.program("asked");
    let model = Model::saying(vec![vec![client.call(way, &command, waiting())]]).await;
    let mut running = fixture.start(&client.invocation(&fixture, way, WaitPolicy::Advised, &model));
    running.ended().await;
    let results = model.results();
    assert!(results[0].contains("approval-timeout"), "{results:#?}");
    assert_eq!(fixture.marks(), Vec::<String>::new());
    assert_eq!(server.operator().pending().await, Vec::<Value>::new());
}

/// Whether a client that is stopped ends the commands that its shell runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shell {
    Ends,
    GoesOn,
}

/// The user stops the client while a command runs, and while one waits for a person.
pub(super) async fn what_is_taken_back_ends<C: Client>(way: Way) {
    what_is_taken_back_from::<C>(way, Shell::Ends).await;
}

/// The same with a client whose shell may outlive it.
pub(super) async fn what_is_taken_back_from<C: Client>(way: Way, shell: Shell) {
    let client = or_skip!(C::find());
    let fixture = ClientFixture::new();
    let server = fixture.server().start().await;
    let fixture = fixture.beside(&server);
    let operator = server.operator();
    let started = async |name: &str| {
        let call = client.call(way, &fixture.program(name), waiting());
        let model = Model::saying(vec![vec![call]]).await;
        let running = fixture.start(&client.invocation(&fixture, way, WaitPolicy::Advised, &model));
        (model, running)
    };

    let (_model, mut running) = started("slow").await;
    let marks = || async { fixture.marks() };
    patiently("running", marks, |marks| (marks == &["slow"]).then_some(())).await;
    running.interrupt();
    running.ended().await;
    let latest = async || operator.read("/v1/runs").await["items"][0].clone();
    let runs = || async { latest().await["status"].clone() };
    if shell == Shell::GoesOn {
        let run = latest().await;
        assert_eq!(run["status"], "running", "{run}");
        let id = run.text("runId");
        operator.cancel(id).await;
    }
    eventually("cancelled", runs, |status| status == "cancelled").await;

    let (_model, mut running) = started("asked").await;
    let id = asked_about(&operator).await;
    running.interrupt();
    running.ended().await;
    if way == Way::Hook {
        // A hook's question ends with it.
        eventually("withdrawn", || operator.pending(), Vec::is_empty).await;
        assert_eq!(fixture.marks(), ["slow"]);
        return;
    }
    // The person who may be reading it can still answer.
    assert_eq!((operator.pending().await.len(), fixture.marks().len()), (1, 1));
    operator.decided(&id, "deny").await;
    eventually("denied", runs, |status| status == "denied").await;
    assert_eq!(fixture.marks(), ["slow"]);
}

/// There is no server.
pub(super) async fn without_a_server_nothing_runs<C: Client>(ways: &[Way]) {
    let client = or_skip!(C::find());
    for way in ways {
        let fixture = ClientFixture::new();
        let server = fixture.server().prepare();
        let fixture = fixture.beside(&server);
        let command = fixture.program("allowed");
        let model = Model::saying(vec![vec![client.call(*way, &command, json!({}))]]).await;
        let mut running = fixture.start(&client.invocation(&fixture, *way, WaitPolicy::Advised, &model));
        running.ended().await;
        let results = model.results();
        assert_eq!(fixture.marks(), Vec::<String>::new(), "{way:?}: {results:#?}");
        assert_eq!(results.len(), 1, "{way:?}: {results:#?}");
        assert!(!results[0].contains("exit code 0"), "{way:?}: {results:#?}");
    }
}

/// A call that is asked about by the hook of a client and that nobody answers; then the client has ended.
async fn nobody_answers<C: Client>(
    client: &C,
    wait_policy: WaitPolicy,
) -> (TestServer, ClientFixture, Vec<String>) {
    let fixture = ClientFixture::new();
    let server = fixture.server().start().await;
    let fixture = fixture.beside(&server);
    let command = fixture.program("asked");
    let model = Model::saying(vec![vec![client.call(Way::Hook, &command, json!({}))]]).await;
    let mut running = fixture.start(&client.invocation(&fixture, Way::Hook, wait_policy, &model));
    running.ended().await;
    (server, fixture, model.results())
}

/// Nobody answers a hook: its question is withdrawn, and the command denied.
pub(super) async fn nobody_answers_its_hook<C: Client>() {
    let client = or_skip!(C::find());
    let (server, fixture, results) = nobody_answers(&client, WaitPolicy::ShortHook).await;
    assert!(results[0].contains("approval-timeout"), "{results:#?}");
    assert_eq!(fixture.marks(), Vec::<String>::new());
    assert_eq!(server.operator().pending().await, Vec::<Value>::new());
}

/// The client's limit for its hook is over before anyone answers.
pub(super) async fn its_hook_is_ended<C: Client>(goes_on_without: bool) {
    let client = or_skip!(C::find());
    let (server, fixture, results) = nobody_answers(&client, WaitPolicy::Short).await;
    // Never by countersign, also when a client is known to run it by itself then.
    let operator = server.operator();
    eventually("withdrawn", || operator.pending(), Vec::is_empty).await;
    let expected: &[&str] = if goes_on_without { &["asked"] } else { &[] };
    assert_eq!(fixture.marks(), expected, "{results:#?}");
    let runs = operator.read("/v1/runs").await;
    assert_eq!(runs["items"][0]["status"], "cancelled", "{runs}");
}
