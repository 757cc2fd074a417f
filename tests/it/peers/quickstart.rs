//! `docs/openclaw.md`, as it stands: its blocks are run in order by a shell, in a home with a gateway of the present
//! generation that has approvals already, and whose model calls the tool that it is told to call.

use std::{
    collections::{BTreeSet, VecDeque},
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use rustix::process::getuid;
use serde_json::{Value, json};

use super::{Generation, Peers, operator::Operator, patiently};
use crate::support::{
    Finished, Invocation, Members, Scratch, free_port, inherited_path, installed, kill_hard,
    node_compile_cache, processes_of, run_long_program, write_file_mode,
};

const TOKEN: &str = "shared-token-of-the-gateway";

/// Each call of the product's command line takes seconds, on a machine that does other things too.
const TIMEOUT: Duration = Duration::from_mins(4);

/// A block of the page that is run.
#[derive(Debug)]
struct Block {
    /// It stays.
    is_background: bool,
    text: String,
}

/// The blocks whose fence begins with `sh`, in their order; the word `background` behind that marks those that stay.
fn blocks() -> VecDeque<Block> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openclaw.md");
    let page = fs::read_to_string(page).expect("the page");
    let mut blocks = VecDeque::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(fence) = line.strip_prefix("```") else {
            continue;
        };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let mut words = fence.split_whitespace();
        if words.next() == Some("sh") {
            blocks.push_back(Block {
                is_background: words.next() == Some("background"),
                text: inside.join("\n"),
            });
        }
    }
    blocks
}

/// Somebody with a home of their own, the product and countersign on PATH, and a gateway that runs.
#[derive(Debug)]
struct Person {
    peers: Peers,
    scratch: Scratch,
    port: u16,
    /// What the gateway says.
    gateway: PathBuf,
    started: Vec<(PathBuf, Child)>,
}

impl Person {
    /// The gateway listens, and its operators have allowed some programs.
    async fn new(peers: Peers) -> Self {
        let scratch = Scratch::new();
        let port = free_port();
        fs::create_dir_all(scratch.join("home/.openclaw")).expect("a home");
        let shim = format!(
            "#!/bin/sh\nexec node '{}' \"$@\"\n",
            peers.package().join("openclaw.mjs").display()
        );
        write_file_mode(&scratch.join("bin/openclaw"), shim, 0o755);
        let mut person = Self {
            peers,
            scratch,
            port,
            gateway: PathBuf::new(),
            started: Vec::new(),
        };
        let model = person.starts("model", &person.script("quickstart_model.mjs"));
        let model = says("the port of the model", &model, |log| {
            log.lines()
                .find_map(|line| line.strip_prefix("port ")?.parse().ok())
        })
        .await;
        person.writes_config(model);
        person.gateway = person.starts("gateway", &person.shell("openclaw gateway run"));
        let mut operator = Operator::connect(Generation::Present, port, TOKEN).await;
        let known = operator
            .call("exec.approvals.get", json!({}))
            .await
            .expect("the approvals of the gateway");
        let file = json!({
            "version": 1,
            "defaults": { "security": "allowlist", "ask": "on-miss", "askFallback": "deny" },
            "agents": { "main": { "allowlist": [{ "pattern": "uname" }, { "pattern": "/usr/bin/git" }] } },
        });
        operator
            .call(
                "exec.approvals.set",
                json!({ "file": file, "baseHash": known["hash"] }),
            )
            .await
            .expect("approvals to take along");
        person
    }

    /// What somebody has who has set the product up: a gateway with a token, and a model.
    fn writes_config(&self, model: u16) {
        let config = json!({
            "gateway": {
                "mode": "local", "port": self.port, "bind": "loopback",
                "auth": { "mode": "token", "token": TOKEN },
            },
            "agents": { "defaults": {
                "heartbeat": { "every": "0m" },
                "model": { "primary": "local/obedient" },
            } },
            "discovery": { "mdns": { "mode": "off" } },
            "logging": { "file": self.scratch.join("openclaw.log") },
            "models": { "mode": "merge", "providers": { "local": {
                "baseUrl": format!("http://127.0.0.1:{model}/v1"), "apiKey": "none", "api": "openai-completions",
                "models": [{
                    "id": "obedient", "name": "obedient", "reasoning": false, "input": ["text"],
                    "contextWindow": 128_000, "maxTokens": 4096,
                    "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 },
                }],
            } } },
        });
        write_file_mode(
            &self.home().join(".openclaw/openclaw.json"),
            config.to_string(),
            0o600,
        );
    }

    fn home(&self) -> PathBuf {
        self.scratch.join("home")
    }

    /// A file of the state directory that the page makes.
    fn reads(&self, name: &str) -> (String, u32) {
        let path = self.home().join(".countersign").join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mode = fs::metadata(&path).expect("its mode").permissions().mode() & 0o777;
        (text, mode)
    }

    /// In this home; on the port that the gateway has here, and with a server on any free one.
    fn at_home(&self, invocation: Invocation) -> Invocation {
        let ours = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let folders = [
            self.scratch.join("bin"),
            ours.parent().expect("a folder").to_owned(),
            installed("peers").expect("it was found").join("node/bin"),
        ];
        let folders: Vec<String> = folders.iter().map(|path| path.display().to_string()).collect();
        invocation
            .env("PATH", format!("{}:{}", folders.join(":"), inherited_path()))
            .env("HOME", self.home())
            .env("TMPDIR", self.scratch.dir("tmp"))
            .env("NODE_COMPILE_CACHE", node_compile_cache())
            .env("OPENCLAW_SKIP_CHANNELS", "1")
            .env("OPENCLAW_SKIP_PROVIDERS", "1")
            .env("OPENCLAW_DISABLE_BONJOUR", "1")
            .env("COUNTERSIGN_HTTP__LISTEN", "127.0.0.1:0")
            .cwd(&self.home())
    }

    fn shell(&self, text: &str) -> Invocation {
        let text = text.replace("18789", &self.port.to_string());
        self.at_home(Invocation::new("bash").args(&["-c", &format!("set -euo pipefail\n{text}")]))
    }

    fn script(&self, name: &str) -> Invocation {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/it/peers")
            .join(name);
        self.at_home(self.peers.runtime().arg(script))
    }

    /// Starts something that stays; where it says what it says.
    fn starts(&mut self, name: &str, invocation: &Invocation) -> PathBuf {
        let path = self.scratch.join(&format!("{name}.log"));
        let log = File::create(&path).expect("a log file");
        let child = invocation.start_logged(
            Stdio::from(log.try_clone().expect("a descriptor")),
            Stdio::from(log),
        );
        self.started.push((path.clone(), child));
        path
    }

    /// Runs a block to its end, however it ends.
    async fn tries(&self, block: &Block) -> Finished {
        assert!(!block.is_background, "{block:?}");
        let shell = self.shell(&block.text);
        tokio::task::spawn_blocking(move || run_long_program(&shell, TIMEOUT))
            .await
            .expect("the end of a shell")
    }

    async fn types(&self, block: &Block) -> String {
        let done = self.tries(block).await;
        assert_eq!(
            done.code,
            Some(0),
            "{}\n{}\n{}",
            block.text,
            done.stdout,
            done.stderr
        );
        done.stdout
    }

    /// Starts a block that stays, and waits until it says that it is there.
    async fn leaves(&mut self, name: &str, block: &Block, sign: &str) {
        assert!(block.is_background, "{block:?}");
        let log = self.starts(name, &self.shell(&block.text));
        says(sign, &log, |log| log.contains(sign).then_some(())).await;
    }

    /// Says something to the agent in a chat that shows questions, and goes on before the answer.
    fn says_in_a_chat(&mut self, name: &str, message: &str) -> PathBuf {
        let port = self.port.to_string();
        let chat = self
            .script("quickstart_chat.mjs")
            .args(&[port.as_str(), TOKEN, message]);
        self.starts(name, &chat)
    }

    /// The gateway has read its configuration again, so many times by now.
    async fn reloaded(&self, times: usize) {
        says("a reload", &self.gateway, |log| {
            (log.matches("config hot reload applied").count() >= times).then_some(())
        })
        .await;
    }

    /// The tools that the block lists.
    async fn lists(&self, block: &Block) -> BTreeSet<String> {
        let said = self.types(block).await;
        said.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Person {
    #[expect(
        clippy::print_stderr,
        reason = "what the other side said belongs to the failure"
    )]
    fn drop(&mut self) {
        for process in processes_of(None, &self.scratch.path()) {
            kill_hard(process.pid);
            process.wait(Duration::from_secs(20));
        }
        for (path, child) in &mut self.started {
            drop(child.wait());
            if std::thread::panicking() {
                let log = fs::read_to_string(&*path).unwrap_or_default();
                eprintln!("{}:\n{log}", path.display());
            }
        }
    }
}

/// Waits for what a log has to say.
async fn says<T: Send>(what: &str, log: &Path, answer: impl Fn(&str) -> Option<T> + Send + Sync) -> T {
    let read = || {
        let text = fs::read_to_string(log).unwrap_or_default();
        async move { text }
    };
    patiently(what, read, |text: &String| answer(text)).await
}

/// The agent's last word in a chat.
async fn answer(chat: &Path) -> String {
    says("an answer in the chat", chat, |log| {
        let last: Value = serde_json::from_str(log.lines().last()?).ok()?;
        // An error has no text.
        let text = last["message"]["content"][0]["text"].as_str();
        Some(text.map_or_else(|| last.to_string(), str::to_owned))
    })
    .await
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test]
async fn the_quickstart_for_people_who_run_the_product() {
    let peers = or_skip!(Peers::find(Generation::Present));
    let mut person = Person::new(peers).await;
    let mut left = blocks();
    let mut next = |begins: &str| {
        let block = left
            .pop_front()
            .unwrap_or_else(|| panic!("{begins} comes next, and nothing is left"));
        assert!(block.text.starts_with(begins), "{begins} comes next: {block:?}");
        block
    };

    // 1. The approvals.
    let import = next("countersign --state-dir ~/.countersign init");
    assert!(import.text.contains("openclaw approvals get"), "{import:?}");
    person.types(&import).await;
    let (document, mode) = person.reads("exec-approvals.json");
    let document: Value = serde_json::from_str(&document).expect("a document");
    let patterns: Vec<&Value> = document["agents"]["main"]
        .list("allowlist")
        .iter()
        .map(|entry| &entry["pattern"])
        .collect();
    assert_eq!(patterns, ["uname", "/usr/bin/git"], "{document}");
    assert_eq!(document["defaults"]["ask"], "on-miss", "{document}");
    assert_eq!((document.get("socket"), mode), (None, 0o600), "{document}");
    // Errors are findings, and so is whose account runs this test.
    let doctor = person
        .tries(&next("countersign --state-dir ~/.countersign doctor"))
        .await;
    doctor.says("SETTING");
    doctor.says("1 error");

    // 2. The node.
    person.types(&next("(umask 077; node -p")).await;
    assert_eq!(person.reads("gateway.token"), (format!("{TOKEN}\n"), 0o600));
    let node = next("countersign --state-dir ~/.countersign node run");
    assert!(node.text.contains("--port 18789"), "{node:?}");
    person.leaves("node", &node, "countersign node connected").await;
    let found = person.types(&next("openclaw nodes approve")).await;
    assert!(found.contains("\"sh\": \"/"), "{found}");

    // 3. Its exec, and no other tool of the machine.
    person.types(&next("openclaw config patch")).await;
    person.reloaded(1).await;
    let chat = person.says_in_a_chat("asking", "Run `id -u` with exec.");
    says("a question", &chat, |log| log.contains("asked").then_some(())).await;
    person.types(&next("openclaw approvals resolve")).await;
    let ran = answer(&chat).await;
    let user = getuid().as_raw().to_string();
    assert!(ran.contains("Node: ") && ran.trim_end().ends_with(&user), "{ran}");
    let listing = next("openclaw gateway call tools.effective");
    let tools = person.lists(&listing).await;
    let allowed = set(&["exec", "message", "session_status", "web_search", "web_fetch"]);
    assert!(tools.contains("exec") && tools.is_subset(&allowed), "{tools:?}");
    let chat = person.says_in_a_chat("reading", "Run `/etc/passwd` with read.");
    let refused = answer(&chat).await;
    assert!(
        refused.contains("Unknown tool id: read") || refused.contains("read not found"),
        "{refused}"
    );

    // 4. Ours instead.
    let server = next("countersign --state-dir ~/.countersign serve");
    person.leaves("server", &server, "countersign ready").await;
    person.types(&next("openclaw config patch")).await;
    person.reloaded(2).await;
    let called = person.types(&next("openclaw agent")).await;
    let run = called
        .lines()
        .find(|line| line.ends_with("uname -s"))
        .unwrap_or_else(|| panic!("no run of uname:\n{called}"));
    assert!(run.contains("completed"), "{run}");
    let tools = person.lists(&listing).await;
    assert!(
        tools.contains("countersign__exec") && !tools.contains("exec"),
        "{tools:?}"
    );

    // Looking at it.
    person
        .types(&next("countersign --state-dir ~/.countersign node status"))
        .await;
    assert!(left.is_empty(), "not tried: {left:?}");
}
