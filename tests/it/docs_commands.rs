//! The commands of the documents, taken out of the Markdown as they stand and run.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::support::{
    Finished, Invocation, Members, Scratch, TestServer, eventually, inherited_path, pid_of,
};

/// Documents whose commands are tried elsewhere, and where. They need other accounts, a service manager or a build.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "docs/install.md",
        "tests/it/packaging.rs and tests/it/separate_user",
    ),
    ("CONTRIBUTING.md", "the tests themselves"),
    ("docs/approval-rules.md", "tests/it/approval_rules.rs"),
    ("docs/gateways.md", "tests/it/mock.rs"),
    ("docs/nodes.md", "tests/it/nodes and tests/it/help.rs"),
    ("docs/performance.md", ".ci/run"),
    (
        "docs/policy-trials.md",
        "tests/it/policy_history.rs, tests/it/policy_test.rs and tests/it/help.rs",
    ),
    ("docs/sessions.md", "tests/it/sessions"),
    ("docs/terminals.md", "tests/it/cli_terminal.rs"),
    ("docs/tools-invoke.md", "tests/it/tools_invoke.rs"),
    ("docs/two-people.md", "tests/it/widening.rs and tests/it/help.rs"),
];

/// Commands of other documents that are tried elsewhere: they build this very program or run its tests.
const BUILDS: &[&str] = &[
    "cargo run --release -- demo",
    "./dev/test",
    "cargo build --release && export PATH=\"$PWD/target/release:$PATH\"",
];

/// The commands of a document in their order: lines behind `$ ` in blocks marked `console`, joined where they go on,
/// without what stands behind them for people.
fn commands(document: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = fs::read_to_string(path).expect(document);
    let mut commands: Vec<String> = Vec::new();
    let mut is_inside = false;
    let mut goes_on = false;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_inside = !is_inside && language == "console";
        } else if is_inside && goes_on {
            let command = commands.last_mut().expect("a command that goes on");
            command.push('\n');
            command.push_str(line);
            goes_on = line.ends_with('\\');
        } else if is_inside && let Some(command) = line.strip_prefix("$ ") {
            let command = command.split("   #").next().unwrap_or_default().trim_end();
            commands.push(command.to_owned());
            goes_on = command.ends_with('\\');
        }
    }
    commands
}

/// The documents at the top, and all below `docs`, by their paths from the top.
fn documents() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let mut found: Vec<PathBuf> = entries(root).into_iter().filter(|path| path.is_file()).collect();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        let (below, files): (Vec<_>, Vec<_>) = entries(&folder).into_iter().partition(|path| path.is_dir());
        folders.extend(below);
        found.extend(files);
    }
    found.retain(|path| path.extension().is_some_and(|kind| kind == "md"));
    found.sort();
    let names = found
        .iter()
        .map(|path| path.strip_prefix(root).expect("a path below the root"));
    names.map(|name| name.display().to_string()).collect()
}

/// Somebody at a terminal with `countersign` on PATH, who has typed some things already.
struct Person {
    home: PathBuf,
    /// What shapes the shell: `cd`, functions.
    before: Vec<String>,
}

impl Person {
    fn new(home: PathBuf) -> Self {
        let before = Vec::new();
        Self { home, before }
    }

    fn shell(&self, command: &str) -> Invocation {
        let program = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let folder = program.parent().expect("a folder").display().to_string();
        let text = [self.before.join("\n"), command.to_owned()].join("\n");
        Invocation::new("bash")
            .args(&["-c", &text])
            .env("PATH", format!("{folder}:{}", inherited_path()))
            .env("HOME", &self.home)
            .cwd(&self.home)
    }

    #[track_caller]
    fn types(&self, command: &str) -> impl Future<Output = Finished> {
        let caller = std::panic::Location::caller();
        let (command, call) = (command.to_owned(), self.shell(command));
        async move {
            let done = TestServer::finish(call).await;
            assert_eq!(done.code, Some(0), "{caller}: {command}: {done:?}");
            done
        }
    }

    /// What the API answers.
    #[track_caller]
    fn asks(&self, command: &str) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        let (command, done) = (command.to_owned(), self.types(command));
        async move {
            let done = done.await;
            let answer: Value = serde_json::from_str(&done.stdout)
                .unwrap_or_else(|error| panic!("{caller}: {command}: {error}: {done:?}"));
            assert_eq!(answer.get("code"), None, "{caller}: {command}: {answer:#}");
            answer
        }
    }

    /// The first that a stream says.
    #[expect(clippy::disallowed_methods, reason = "files and times of the test itself")]
    async fn listens(&self, command: &str, scratch: &Scratch) -> String {
        let heard = scratch.join("heard");
        fs::write(&heard, "").expect("a file");
        let text = format!("{{ {command}; }} >{} 2>&1", heard.display());
        // A process group of its own, to end it as one.
        let mut child = self.shell(&text).behind("setsid", &[""; 0]).start(Stdio::null());
        let read = || {
            let heard = fs::read_to_string(&heard).unwrap_or_default();
            async move { heard }
        };
        let text = eventually(command, read, |text: &String| text.contains("data: ")).await;
        let group = Pid::from_raw(pid_of(&child)).expect("a process");
        kill_process_group(group, Signal::KILL).expect("a group");
        child.wait().expect("the end of a shell");
        text
    }
}

/// A server that asks about what it does not know, for somebody whose state directory is where it usually is.
async fn beside_a_server(server: &TestServer) -> Person {
    let home = server.scratch().join("home");
    symlink(server.state(), home.join(".openclaw")).expect("a link");
    Person::new(home)
}

#[test]
fn every_document_with_commands_is_tried() {
    let tried = ["README.md", "docs/api.md", "docs/process.md"];
    let elsewhere = ELSEWHERE.iter().map(|(document, _where)| *document);
    let known: Vec<&str> = tried.into_iter().chain(elsewhere).collect();
    let mut unknown = Vec::new();
    for document in documents() {
        if !commands(&document).is_empty() && !known.contains(&document.as_str()) {
            unknown.push(document);
        }
    }
    assert_eq!(unknown, Vec::<String>::new(), "their commands are tried nowhere");
}

#[tokio::test]
async fn the_readme() {
    let scratch = Scratch::new();
    let home = scratch.dir("home");
    let person = Person::new(home.clone());
    let mut left: VecDeque<String> = commands("README.md").into();
    left.retain(|command| !BUILDS.contains(&command.as_str()));
    let mut next = |begins: &str| {
        let command = left.pop_front().unwrap_or_default();
        assert!(command.starts_with(begins), "{begins} comes next: {command}");
        command
    };

    // Without a terminal there is nobody to answer the question.
    let init = next("countersign init");
    person.types(&format!("{init} --preset cautious")).await;
    assert_eq!(next("countersign serve"), "countersign serve");
    let server = TestServer::full()
        .without_config()
        .without_toml()
        .state_dir(&home.join(".openclaw"))
        .start()
        .await;
    // Errors are findings, and so is whose account runs this test.
    let doctor = TestServer::finish(person.shell(&next("countersign doctor"))).await;
    doctor.says("SETTING");
    doctor.says("differ from the default");
    let link = person.types(&next("countersign login-link")).await;
    assert!(link.stdout.contains("/login#code="), "{link:?}");

    let (list, resolve, exec) = (
        next("countersign approvals list"),
        next("countersign approvals resolve"),
        next("curl"),
    );
    let asking = exec.replace(", \"approvalWaitMs\": 60000", "");
    assert_ne!(asking, exec);
    let pending = person.asks(&asking).await;
    assert_eq!(pending["status"], "approval-pending", "{pending:#}");
    let approval = pending.text("approvalId").to_owned();
    let listed = person.types(&list).await;
    assert!(listed.stdout.contains(&approval[..8]), "{listed:?}");
    person.types(&resolve.replace("1a2b3c4d", &approval[..8])).await;
    let run = pending.text("runId");
    server.operator().finished(run).await;
    // Allowed always: nobody is asked any more.
    let answer = person.asks(&exec).await;
    assert!(answer["exitCode"].is_number(), "{answer:#}");
    assert_eq!(left, VecDeque::<String>::new(), "not tried");
}

#[tokio::test]
async fn the_guide_to_the_api() {
    let server = TestServer::asking().start().await;
    let mut person = beside_a_server(&server).await;
    let site = server.scratch().dir("site").display().to_string();
    let mut waiting = BTreeMap::new();
    for command in commands("docs/api.md") {
        let command = command.replace("/srv/site", &site);
        if command.starts_with("cd ") || command.starts_with("api()") {
            person.before.push(command);
        } else if command.ends_with(" -N") {
            let after = command.replace("?types=exec.", "?types=exec.&after=0");
            person.listens(&after, server.scratch()).await;
        } else if command.contains("/decision") {
            let [approval] = server
                .operator()
                .pending()
                .await
                .try_into()
                .expect("one approval");
            let id = approval.text("id").to_owned();
            let decided = person.asks(&format!("ID={id}; {command}")).await;
            assert_eq!(decided["applied"], true, "{decided:#}");
        } else {
            let answer = person.asks(&command).await;
            waiting.insert(command, answer);
        }
    }
    assert!(
        waiting
            .values()
            .any(|answer| answer["status"] == "approval-pending"),
        "{waiting:#?}"
    );
}

#[tokio::test]
async fn the_guide_to_sessions() {
    let server = TestServer::full().start().await;
    let mut person = beside_a_server(&server).await;
    for command in commands("docs/api.md") {
        if command.starts_with("cd ") || command.starts_with("api()") {
            person.before.push(command);
        }
    }
    let mut session = String::new();
    for command in commands("docs/process.md") {
        let is_over = session.is_empty();
        if command.contains("/v1/exec") || is_over {
            session = start_session(&person, &command).await;
            if command.contains("/v1/exec") {
                continue;
            }
        }
        let command = command.replace("brave-otter-417", &session);
        if command.ends_with(" -N") {
            let heard = person.listens(&command, server.scratch()).await;
            assert!(heard.contains("id: "), "{heard}");
        } else if command.contains("/v1/process") {
            person.asks(&command).await;
        } else {
            person.types(&command).await;
        }
        if command.contains("\"kill\"") {
            session.clear();
        }
    }
}

/// A command that says something, reads, and ends with its input; instead of the one that the page names, which needs
/// a project to be in.
async fn start_session(person: &Person, named: &str) -> String {
    let body = json!({ "command": "echo ready; cat", "background": true });
    if named.contains("/v1/exec") {
        assert!(named.contains("\"background\": true"), "{named}");
    }
    let started = person.asks(&format!("api gateway /v1/exec -d '{body}'")).await;
    assert_eq!(started["status"], "running", "{started:#}");
    started.text("sessionId").to_owned()
}
