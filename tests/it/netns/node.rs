//! The server and our node, each on a host of its own.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Stdio},
};

use serde_json::{Value, json};

use super::cable::{Cable, SERVER};
use crate::support::{
    Api, Scratch, TestServer, countersign, eventually, kill_hard, pid_of, processes_of, write_file_mode,
};

/// Both hosts, with a node that is paired and connected.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) node: OurNode,
    pub(super) server: TestServer,
    // Last, so that it is there for as long as anybody uses it.
    pub(super) cable: Cable,
}

/// A place of its own at the server's end; the program listens on nothing else of the network.
const PORT: u16 = 18_790;

impl Hosts {
    pub(super) async fn start(cable: Cable) -> Self {
        let server = TestServer::full()
            .config(&json!({ "tools": { "exec": { "host": "node", "security": "full", "ask": "off" } } }))
            .toml(&format!(
                "[http]\nlisten = \"{SERVER}:{PORT}\"\ninsecure_bind = true\n[bridge]\ntick_ms = 1000\n"
            ))
            .without_listen()
            .behind("ip", &cable.at_server())
            .start()
            .await;
        let path = server.state().join("countersign/bridge.token");
        let token = std::fs::read_to_string(path).expect("the token of the Bridge");
        let node = OurNode::prepare(&cable, token.trim());
        let hosts = Self { node, server, cable };
        let operator = hosts.operator();
        let request = eventually(
            "the request of the device",
            || async { operator.get("/v1/nodes/pairings").await.expect(200) },
            |list| of_kind(list, "device").is_some(),
        )
        .await;
        let id = of_kind(&request, "device").expect("a request");
        let decision = json!({ "decision": "approve" });
        operator
            .post(&format!("/v1/nodes/pairings/{id}/decision"), decision)
            .await
            .expect(200);
        hosts.until_connected().await;
        hosts
    }

    /// The agent, by way of the socket: this host has no cable to the server.
    pub(super) fn agent(&self) -> Api {
        self.by_socket(self.server.gateway_token())
    }

    fn operator(&self) -> Api {
        self.by_socket(self.server.operator_token())
    }

    fn by_socket(&self, token: String) -> Api {
        let socket = self.server.state().join("countersign/api.sock");
        let client = reqwest::Client::builder().unix_socket(socket).tls_certs_only([]);
        Api::new("http://localhost", Some(token)).by_way_of(client.build().expect("a client"))
    }

    /// A file of the node's host.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.node.scratch.join(name)
    }

    async fn nodes(&self) -> Vec<Value> {
        let list = self.operator().get("/v1/nodes").await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until the server has the node, and may call it.
    pub(super) async fn until_connected(&self) {
        let may_run = |node: &Value| {
            let commands = node["commands"].as_array().cloned().unwrap_or_default();
            node["connected"] == true && commands.contains(&json!("system.run"))
        };
        eventually("connected", || self.nodes(), |nodes| nodes.iter().any(may_run)).await;
    }

    /// Waits until the server has noticed that the node is gone.
    pub(super) async fn until_gone(&self) {
        eventually(
            "gone",
            || self.nodes(),
            |nodes| nodes.iter().all(|node| node["connected"] == false),
        )
        .await;
    }
}

fn of_kind(list: &Value, kind: &str) -> Option<String> {
    let items = list["items"].as_array()?;
    let found = items.iter().find(|item| item["kind"] == kind)?;
    found["requestId"].as_str().map(str::to_owned)
}

/// Our node host at its end of the cable.
#[derive(Debug)]
pub(super) struct OurNode {
    invocation: crate::support::Invocation,
    child: Option<Child>,
    scratch: Scratch,
}

impl OurNode {
    fn prepare(cable: &Cable, token: &str) -> Self {
        let scratch = Scratch::new();
        let state = scratch.dir("state");
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&state, private).expect("a private directory");
        let document = json!({ "version": 1, "defaults": { "security": "full", "ask": "off" } });
        write_file_mode(&state.join("exec-approvals.json"), document.to_string(), 0o600);
        let config = json!({ "tools": { "exec": { "security": "full", "ask": "off" } } });
        write_file_mode(&state.join("openclaw.json"), config.to_string(), 0o600);
        let invocation = countersign()
            .arg("--state-dir")
            .arg(&state)
            .args(&["node", "run", "--host", SERVER, "--port", &PORT.to_string()])
            .args(&["--display-name", "ours"])
            .env("HOME", scratch.path())
            .env("OPENCLAW_GATEWAY_TOKEN", token)
            .cwd(&scratch.path())
            .behind("ip", &cable.at_node());
        let mut node = Self {
            invocation,
            child: None,
            scratch,
        };
        node.start();
        node
    }

    pub(super) fn start(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.scratch.join("node.log"))
            .expect("a log file");
        let both = log.try_clone().expect("a descriptor");
        self.child = Some(self.invocation.start_logged(Stdio::from(both), Stdio::from(log)));
    }

    /// Kills it and its runner, and what they run.
    pub(super) fn kill(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        for process in processes_of(Some(pid_of(&child)), &self.scratch.path()) {
            kill_hard(process.pid);
            process.wait(std::time::Duration::from_secs(20));
        }
        drop(child.wait());
    }
}

impl Drop for OurNode {
    #[expect(
        clippy::print_stderr,
        reason = "what the other side said belongs to the failure"
    )]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.scratch.join("node.log"));
            eprintln!("the node: {}", log.unwrap_or_default());
        }
    }
}
