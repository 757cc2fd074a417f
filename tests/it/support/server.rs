//! The real server on a port and a state directory of its own.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{
    Api, Finished, Invocation, Scratch,
    client::{denied, expecting},
    countersign, eventually,
    process::{self, ProcessHandle},
    run_program,
    wait::TIMEOUT,
    within, write_file_mode,
};

/// How a server is to be started.
#[derive(Debug)]
pub(crate) struct ServerBuilder {
    config: Option<String>,
    document: Option<String>,
    toml: Vec<String>,
    env: Vec<(String, String)>,
    arguments: Vec<String>,
    listen: bool,
    state_dir: Option<PathBuf>,
    account: Option<u32>,
    wrappers: Vec<Wrapper>,
    owner: Option<u32>,
    socket: bool,
    second_owner: bool,
}

/// A program that starts another one, with its arguments before that.
#[derive(Debug, Clone)]
struct Wrapper(String, Vec<String>);

impl ServerBuilder {
    pub(crate) fn new(exec: &Value) -> Self {
        Self {
            config: None,
            document: None,
            // What the login shell of the machine says about PATH is not ours to test against.
            toml: vec!["[exec]\nlogin_path = false\n".to_owned()],
            env: Vec::new(),
            arguments: Vec::new(),
            listen: true,
            state_dir: None,
            account: None,
            wrappers: Vec::new(),
            owner: None,
            socket: false,
            second_owner: false,
        }
        .exec(exec)
    }

    /// The whole `openclaw.json`.
    pub(crate) fn config(mut self, config: &Value) -> Self {
        self.config = Some(config.to_string());
        self
    }

    /// The `tools.exec` of an `openclaw.json` with nothing else.
    pub(crate) fn exec(self, exec: &Value) -> Self {
        self.config(&json!({ "tools": { "exec": exec } }))
    }

    /// No `openclaw.json` at all.
    pub(crate) fn without_config(mut self) -> Self {
        self.config = None;
        self
    }

    /// The approvals document.
    pub(crate) fn document(mut self, document: &Value) -> Self {
        self.document = Some(document.to_string());
        self
    }

    /// The `agents` of an approvals document with nothing else.
    pub(crate) fn agents(self, agents: &Value) -> Self {
        self.document(&json!({ "version": 1, "agents": agents }))
    }

    /// The allowlist of `main` in an approvals document with nothing else.
    pub(crate) fn allowlist(self, entries: &Value) -> Self {
        self.agents(&json!({ "main": { "allowlist": entries } }))
    }

    /// The approvals document as text, valid or not.
    pub(crate) fn document_text(mut self, text: &str) -> Self {
        self.document = Some(text.to_owned());
        self
    }

    /// With a token of scope `admin` that is another owner's than the operator's.
    pub(crate) fn second_owner(mut self) -> Self {
        self.second_owner = true;
        self
    }

    /// One or more tables of `countersign.toml`, `[exec]` excepted.
    pub(crate) fn toml(mut self, tables: &str) -> Self {
        self.toml.push(tables.to_owned());
        self
    }

    /// Lines of the table `[exec]`.
    pub(crate) fn exec_toml(mut self, lines: &str) -> Self {
        self.toml[0].push_str(lines);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// A state directory that the test made, on a small disk for example.
    pub(crate) fn state_dir(mut self, directory: &Path) -> Self {
        self.state_dir = Some(directory.to_owned());
        self
    }

    /// Runs under another account, which owns all its files. Needs root.
    pub(crate) fn run_as(self, account: u32) -> Self {
        let [user, group] = [format!("--reuid={account}"), format!("--regid={account}")];
        self.all_owned_by(account)
            .behind("setpriv", &[&user, &group, "--clear-groups"])
    }

    /// Gives all its files to an account, whoever starts it. Needs root.
    pub(crate) fn all_owned_by(mut self, account: u32) -> Self {
        self.account = Some(account);
        self
    }

    /// Is started by a program that becomes it. What is said first starts the server itself.
    pub(crate) fn behind(mut self, program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        self.wrappers.push(Wrapper(program.to_owned(), arguments));
        self
    }

    /// Gives the state directory, and nothing else, to an account. Needs root.
    pub(crate) fn owned_by(mut self, account: u32) -> Self {
        self.owner = Some(account);
        self
    }

    /// With the approvals socket as the settings say. Without this there is none: a host writes its token into the
    /// approvals document, and most tests look at one that nobody but they wrote.
    pub(crate) fn with_socket(mut self) -> Self {
        self.socket = true;
        self
    }

    /// No `countersign.toml` of ours.
    pub(crate) fn without_toml(mut self) -> Self {
        self.toml.clear();
        self
    }

    /// Leaves the address to the settings.
    pub(crate) fn without_listen(mut self) -> Self {
        self.listen = false;
        self
    }

    /// Starts it and waits for its ready line.
    pub(crate) async fn start(self) -> TestServer {
        let mut server = self.prepare();
        server.start().await;
        server
    }

    /// Writes the state directory without starting anything.
    pub(crate) fn prepare(self) -> TestServer {
        let Self {
            config,
            document,
            toml,
            mut env,
            mut arguments,
            listen,
            state_dir,
            account,
            wrappers,
            owner,
            socket,
            second_owner,
        } = self;
        if !socket {
            env.push(("COUNTERSIGN_IPC__ROLE".to_owned(), "off".to_owned()));
        }
        if listen {
            arguments.splice(0..0, ["--listen".to_owned(), "127.0.0.1:0".to_owned()]);
        }
        let scratch = Scratch::new();
        let home = scratch.dir("home");
        let state = state_dir.unwrap_or_else(|| scratch.join("state"));
        let countersign = state.join("countersign");
        fs::create_dir_all(&countersign).expect("the state directory");
        for directory in [&state, &countersign] {
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(directory, private).expect("a private directory");
        }
        if !toml.is_empty() {
            write_file_mode(&countersign.join("countersign.toml"), toml.concat(), 0o600);
        }
        if let Some(config) = config {
            write_file_mode(&state.join("openclaw.json"), config, 0o600);
        }
        if let Some(document) = document {
            write_file_mode(&state.join("exec-approvals.json"), document, 0o600);
        }
        if account.is_some() {
            for path in [scratch.path(), home.clone(), state.clone(), countersign.clone()]
                .into_iter()
                .chain(scratch.files())
            {
                std::os::unix::fs::chown(&path, account, account).expect("giving a file away");
            }
        }
        if let Some(owner) = owner {
            let named = [
                "openclaw.json",
                "exec-approvals.json",
                "countersign/countersign.toml",
            ];
            let files = named
                .map(|name| state.join(name))
                .into_iter()
                .filter(|file| file.exists());
            for path in [state.clone(), countersign].into_iter().chain(files) {
                std::os::unix::fs::chown(&path, Some(owner), Some(owner)).expect("giving a file away");
            }
        }
        let server = TestServer {
            scratch,
            home,
            state,
            env,
            arguments,
            wrappers,
            running: None,
            kept: Vec::new(),
            log: None,
        };
        if second_owner {
            let made = [
                "token", "create", "second", "--scope", "admin", "--owner", "second",
            ];
            let made = run_program(&server.invocation(&made));
            assert_eq!(made.code, Some(0), "{made:?}");
        }
        server
    }
}

/// A server of one test. Dropping it kills it and fails the test when a process of it outlives it.
#[derive(Debug)]
pub(crate) struct TestServer {
    scratch: Scratch,
    home: PathBuf,
    state: PathBuf,
    env: Vec<(String, String)>,
    arguments: Vec<String>,
    wrappers: Vec<Wrapper>,
    running: Option<Running>,
    /// Processes that are meant to outlive their server; the test ends them.
    kept: Vec<i32>,
    /// Where it logs; `None` for its own file.
    log: Option<PathBuf>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    base: String,
    ready_line: String,
}

impl Running {
    fn of(child: Child, ready_line: String) -> Self {
        let base = ready_line
            .split_whitespace()
            .find(|word| word.starts_with("http://") || word.starts_with("https://"))
            .unwrap_or_else(|| panic!("no address in the ready line: {ready_line:?}"))
            .trim_end_matches([',', '/', '.'])
            .to_owned();
        Self {
            child,
            base,
            ready_line,
        }
    }
}

impl TestServer {
    /// Everything runs, nobody is asked.
    pub(crate) fn full() -> ServerBuilder {
        ServerBuilder::new(&json!({ "host": "gateway", "security": "full", "ask": "off" }))
    }

    /// What the allowlist does not cover waits for a person, who can always be reached.
    pub(crate) fn asking() -> ServerBuilder {
        Self::asking_with("")
    }

    /// As [`Self::asking`], with more keys of the `[approvals]` table.
    pub(crate) fn asking_with(approvals: &str) -> ServerBuilder {
        ServerBuilder::new(&json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" }))
            .toml(&format!("[approvals]\nalways_reachable = true\n{approvals}\n"))
    }

    /// Only what the allowlist covers runs; nobody is asked.
    pub(crate) fn allowlist_only() -> ServerBuilder {
        ServerBuilder::new(&json!({ "host": "gateway", "security": "allowlist", "ask": "off" }))
    }

    /// A miss is asked about while there is an approver, and refused otherwise.
    pub(crate) fn asking_approvers_that_are_there() -> ServerBuilder {
        ServerBuilder::new(&json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" }))
    }

    /// Starts it, or starts it again, and waits for its ready line.
    pub(crate) async fn start(&mut self) {
        self.start_with(&[]).await;
    }

    /// Starts it with more environment for this time only.
    pub(crate) async fn start_with(&mut self, env: &[(&str, &str)]) {
        assert!(self.running.is_none(), "the server runs already");
        let (mut child, ready) = self.launch(env);
        match within("the ready line", ready).await {
            Ok(line) => {
                self.running = Some(Running::of(child, line));
            }
            Err(_closed) => {
                let status = child.wait().expect("the server's end");
                panic!("the server ended before it was ready: {status}\n{}", self.log());
            }
        }
    }

    /// Starts a server that must not become ready and returns its exit code.
    pub(crate) async fn start_fails(&self) -> Option<i32> {
        let (mut child, ready) = self.launch(&[]);
        let line = within("the end of the server", ready).await;
        if let Ok(line) = line {
            child
                .kill()
                .expect("killing a server that should not have started");
            panic!("the server became ready: {line}");
        }
        child.wait().expect("the server's end").code()
    }

    /// Starts a server that may not be able to; its exit code, unless it is ready.
    pub(crate) async fn start_or_end(&mut self) -> Option<i32> {
        let (mut child, ready) = self.launch(&[]);
        let Ok(line) = within("the ready line or the end", ready).await else {
            return child.wait().expect("the server's end").code();
        };
        self.running = Some(Running::of(child, line));
        None
    }

    /// Starts a server that is to die at a kill point, perhaps before it is ready.
    pub(crate) async fn start_until_ready_or_dead(&mut self, env: &[(&str, &str)]) -> bool {
        let (mut child, ready) = self.launch(env);
        if let Ok(line) = within("the ready line or the end", ready).await {
            let base = line
                .split_whitespace()
                .find(|word| word.starts_with("http://"))
                .expect("an address");
            self.running = Some(Running {
                child,
                base: base.to_owned(),
                ready_line: line,
            });
            true
        } else {
            let status = child.wait().expect("the server's end");
            assert_eq!(
                std::os::unix::process::ExitStatusExt::signal(&status),
                Some(9),
                "{}",
                self.log()
            );
            false
        }
    }

    fn launch(&self, env: &[(&str, &str)]) -> (Child, oneshot::Receiver<String>) {
        let mut invocation = countersign()
            .args(&["serve", "--state-dir"])
            .arg(&self.state)
            .args(&self.arguments)
            .cwd(&self.home)
            .env("HOME", &self.home)
            .env("SHELL", "/bin/sh");
        for (name, value) in self
            .env
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .chain(env.iter().copied())
        {
            invocation = invocation.env(name, value);
        }
        for Wrapper(program, arguments) in &self.wrappers {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            invocation = invocation.behind(program, &arguments);
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log.clone().unwrap_or_else(|| self.log_path()))
            .expect("the log file");
        let mut child = invocation.start(Stdio::from(log));
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (ready, on_ready) = oneshot::channel();
        // Reads on after the ready line, so that a server that prints more never blocks.
        thread::spawn(move || {
            let mut line = String::new();
            if stdout.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                drop(ready.send(line.trim_end().to_owned()));
            } else {
                drop(ready);
            }
            drop(std::io::copy(&mut stdout, &mut std::io::sink()));
        });
        (child, on_ready)
    }

    #[track_caller]
    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server runs")
    }

    pub(crate) fn pid(&self) -> i32 {
        process::pid_of(&self.running().child)
    }

    pub(crate) fn ready_line(&self) -> &str {
        &self.running().ready_line
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    pub(crate) fn document_path(&self) -> PathBuf {
        self.state.join("exec-approvals.json")
    }

    /// The approvals document as it stands on disk.
    pub(crate) fn document_on_disk(&self) -> Value {
        let text = fs::read(self.document_path()).expect("the approvals document");
        serde_json::from_slice(&text).expect("the approvals document is JSON")
    }

    /// Replaces the approvals document from outside, as an editor does.
    pub(crate) fn edit_document(&self, text: &str) {
        self.replace(&self.document_path(), text);
    }

    /// Replaces `countersign.toml` from outside.
    pub(crate) fn edit_toml(&self, text: &str) {
        self.replace(&self.state.join("countersign/countersign.toml"), text);
    }

    /// Replaces `openclaw.json` from outside.
    pub(crate) fn edit_config(&self, text: &str) {
        self.replace(&self.state.join("openclaw.json"), text);
    }

    fn replace(&self, path: &Path, text: &str) {
        let temporary = self.scratch.join("edited");
        write_file_mode(&temporary, text, 0o600);
        fs::rename(&temporary, path).expect("replacing a file of the state directory");
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.state.join("countersign/countersign.db")
    }

    /// Has it log elsewhere from its next start on: into a pipe, say.
    pub(crate) fn log_to(&mut self, path: &Path) {
        self.log = Some(path.to_owned());
    }

    /// What the server and its runner logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.join("server.log")
    }

    fn token(&self, name: &str) -> String {
        let path = self.state.join("countersign").join(name);
        fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", path.display(), self.log()))
            .trim()
            .to_owned()
    }

    pub(crate) fn gateway_token(&self) -> String {
        self.token("gateway.token")
    }

    pub(crate) fn operator_token(&self) -> String {
        self.token("operator.token")
    }

    /// What a node shows on its first connect.
    pub(crate) fn bridge_token(&self) -> String {
        self.token("bridge.token")
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        let address = self.running().base.split_once("://").expect("a URL").1;
        address.parse().expect("an address")
    }

    /// The API as the agent's gateway sees it.
    pub(crate) fn agent(&self) -> Api {
        Api::new(&self.running().base, Some(self.gateway_token()))
    }

    /// The API as the operator sees it.
    pub(crate) fn operator(&self) -> Api {
        Api::new(&self.running().base, Some(self.operator_token()))
    }

    pub(crate) fn anonymous(&self) -> Api {
        Api::new(&self.running().base, None)
    }

    /// [`Api::ran`] as the agent's gateway.
    #[track_caller]
    pub(crate) fn ran(&self, body: Value) -> impl Future<Output = Value> {
        let agent = self.agent();
        expecting(200, async move { agent.exec(body).await })
    }

    /// [`Api::accepted`] as the agent's gateway.
    #[track_caller]
    pub(crate) fn accepted(&self, body: Value) -> impl Future<Output = Value> {
        let agent = self.agent();
        expecting(202, async move { agent.exec(body).await })
    }

    /// [`Api::denied`] as the agent's gateway.
    #[track_caller]
    pub(crate) fn denied(&self, body: Value) -> impl Future<Output = Value> {
        let agent = self.agent();
        denied(async move { agent.exec(body).await })
    }

    /// Sends a request about which a person is asked; returns the answer's body.
    pub(crate) async fn asked(&self, body: Value) -> Value {
        let pending = self.accepted(body).await;
        assert_eq!(pending["status"], "approval-pending", "{pending}");
        pending
    }

    /// Decides what [`Self::asked`] returned, and returns the run once it is final.
    pub(crate) async fn answered(&self, pending: &Value, decision: &str) -> Value {
        let id = |member: &str| {
            pending[member]
                .as_str()
                .unwrap_or_else(|| panic!("{member} in {pending}"))
        };
        self.operator()
            .decide(id("approvalId"), decision)
            .await
            .expect(200);
        self.agent().finished(id("runId")).await
    }

    /// The same just after an edit that makes the policy stricter: that may end the question a moment before the answer.
    pub(crate) async fn answered_beside_an_edit(&self, pending: &Value, decision: &str) -> Value {
        let id = |member: &str| {
            pending[member]
                .as_str()
                .unwrap_or_else(|| panic!("{member} in {pending}"))
        };
        let answer = self.operator().decide(id("approvalId"), decision).await;
        if answer.status != 200 {
            let problem = answer.problem(409, "approval-already-resolved");
            assert_eq!(problem["approval"]["resolvedBy"]["id"], "rule", "{problem}");
        }
        self.agent().finished(id("runId")).await
    }

    /// Makes a token; returns its id and the API as its holder sees it.
    pub(crate) async fn token_with(&self, request: Value) -> (String, Api) {
        let token = self.operator().post("/v1/tokens", request).await.expect(201);
        let secret = token["secret"].as_str().expect("a secret");
        (
            token["id"].as_str().expect("an id").to_owned(),
            self.operator().with_token(Some(secret)),
        )
    }

    /// A token of another owner, made by the owner of the state directory, as its holder sees the API.
    pub(crate) async fn token_of(&self, owner: &str, scopes: &[&str]) -> Api {
        self.token_of_member(owner, scopes, []).await
    }

    /// The id of the token of this name.
    pub(crate) async fn token_id(&self, name: &str) -> String {
        let tokens = self.operator().get("/v1/tokens").await.expect(200)["items"].clone();
        let tokens = tokens.as_array().expect("tokens");
        let token = tokens.iter().find(|token| token["name"] == name);
        token.expect("a token of this name")["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    }

    /// The same with more arguments.
    pub(crate) async fn token_of_member<'a>(
        &self,
        owner: &'a str,
        scopes: &[&str],
        more: impl IntoIterator<Item = &'a str>,
    ) -> Api {
        let scopes = scopes.join(",");
        let more: Vec<String> = more.into_iter().map(str::to_owned).collect();
        let mut arguments = vec!["token", "create", owner, "--scope", &scopes, "--owner", owner];
        arguments.extend(more.iter().map(String::as_str));
        let made = self.cli(&arguments).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        self.operator().with_token(Some(made.stdout.trim()))
    }

    /// A token that is bound to an agent, as its holder sees the API. Written into the ledger behind the server's back,
    /// which makes none that is an admin's and bound.
    pub(crate) async fn bound_token(&self, scopes: &[&str], agent: &str) -> Api {
        let request = json!({ "name": format!("of {agent}"), "scopes": scopes });
        let (id, api) = self.token_with(request).await;
        let ledger = rusqlite::Connection::open(self.database()).expect("the ledger");
        ledger.busy_timeout(Duration::from_secs(30)).expect("a limit");
        let agents = json!([agent]).to_string();
        let bound = ledger.execute("UPDATE tokens SET agents = ?1 WHERE id = ?2", (agents, id));
        assert_eq!(bound, Ok(1));
        api
    }

    /// The command line beside this server.
    pub(crate) fn invocation(&self, arguments: &[&str]) -> Invocation {
        countersign()
            .args(arguments)
            .cwd(&self.home)
            .env("HOME", &self.home)
            .env("OPENCLAW_STATE_DIR", &self.state)
    }

    /// The same of another program.
    pub(crate) fn invocation_of(&self, program: &str, arguments: &[&str]) -> Invocation {
        Invocation::new(program)
            .args(arguments)
            .cwd(&self.home)
            .env("HOME", &self.home)
            .env("OPENCLAW_STATE_DIR", &self.state)
    }

    /// Runs the command line to its end.
    pub(crate) async fn cli(&self, arguments: &[&str]) -> Finished {
        Self::finish(self.invocation(arguments)).await
    }

    pub(crate) async fn finish(invocation: Invocation) -> Finished {
        let done = tokio::task::spawn_blocking(move || run_program(&invocation));
        done.await.expect("the command line ends")
    }

    /// Kills the server as a crash would, at once.
    pub(crate) fn kill(&mut self) {
        let mut running = self.running.take().expect("the server runs");
        running.child.kill().expect("killing the server");
        running.child.wait().expect("the server's end");
    }

    /// Waits for a server that kills itself at a kill point.
    pub(crate) async fn wait_killed(&mut self) {
        let mut running = self.running.take().expect("the server runs");
        let pid = process::pid_of(&running.child);
        let ended = tokio::task::spawn_blocking(move || {
            ProcessHandle::open(pid).is_none_or(|handle| handle.wait(TIMEOUT))
        });
        if !ended.await.expect("waiting for the server") {
            running.child.kill().expect("killing the server");
            panic!("the server never reached its kill point\n{}", self.log());
        }
        running.child.wait().expect("the server's end");
    }

    /// Whether the server process is there.
    pub(crate) fn is_running(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| process::is_alive(process::pid_of(&running.child)))
    }

    /// Kills it and starts it again.
    pub(crate) async fn crash_and_restart(&mut self) {
        self.kill();
        self.start().await;
    }

    /// Asks it to stop; returns its exit code.
    pub(crate) async fn stop(&mut self) -> Option<i32> {
        self.send_signal(Signal::TERM);
        self.ended().await
    }

    pub(crate) fn send_signal(&self, signal: Signal) {
        process::signal(self.pid(), signal);
    }

    /// Waits for its end; returns its exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let mut running = self.running.take().expect("the server runs");
        let status = eventually(
            "stopped",
            || std::future::ready(running.child.try_wait().expect("the server's state")),
            Option::is_some,
        )
        .await;
        status.and_then(|status| status.code())
    }

    /// Says that a process is meant to outlive the server; dropping the server ends it quietly.
    pub(crate) fn keep(&mut self, pid: i32) {
        self.kept.push(pid);
    }

    /// Processes of this test that run now, the server's own tree included.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let server = self
            .running
            .as_ref()
            .map(|running| process::pid_of(&running.child));
        process::processes_of(server, &self.scratch.path())
            .iter()
            .map(|handle| handle.pid)
            .collect()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let server = self
            .running
            .as_ref()
            .map(|running| process::pid_of(&running.child));
        let ours = process::processes_of(server, &self.scratch.path());
        if let Some(mut running) = self.running.take() {
            drop(running.child.kill());
            drop(running.child.wait());
        }
        for pid in &self.kept {
            process::kill_hard(*pid);
        }
        // Commands of a dead server are killed by their supervisors; that needs a moment, not a minute.
        let survivors: Vec<String> = ours
            .iter()
            .filter(|handle| !handle.wait(Duration::from_secs(20)))
            .map(|handle| {
                let description = process::describe(handle.pid);
                process::kill_hard(handle.pid);
                description
            })
            .collect();
        if !thread::panicking() {
            assert!(
                survivors.is_empty(),
                "processes outlived their server: {survivors:#?}\n{}",
                self.log()
            );
        }
    }
}
