//! Our node host as a program, for whatever gateway a test has.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    Api, Invocation, Scratch, countersign, eventually, kill_hard, pid_of, processes_of, write_file_mode,
};

/// A node host with a state directory of its own; ended with whatever it runs when it is dropped.
#[derive(Debug)]
pub(crate) struct OurNode {
    invocation: Invocation,
    child: Option<Child>,
    scratch: Scratch,
}

impl OurNode {
    /// One that calls this address, with this policy on both of its layers. It is not started yet.
    pub(crate) fn new(address: (&str, u16), token: &str, security: &str, ask: &str) -> Self {
        let document = json!({ "version": 1, "defaults": { "security": security, "ask": ask } });
        let config = json!({ "tools": { "exec": { "security": security, "ask": ask } } });
        Self::with_policy(address, token, &config, &document)
    }

    /// The same with a policy of its own in each file.
    pub(crate) fn with_policy(
        (host, port): (&str, u16),
        token: &str,
        config: &Value,
        document: &Value,
    ) -> Self {
        let scratch = Scratch::new();
        let state = scratch.dir("state");
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("a private directory");
        write_file_mode(&state.join("exec-approvals.json"), document.to_string(), 0o600);
        write_file_mode(&state.join("openclaw.json"), config.to_string(), 0o600);
        let invocation = countersign()
            .arg("--state-dir")
            .arg(&state)
            .args(&[
                "node",
                "run",
                "--retry",
                "--host",
                host,
                "--port",
                &port.to_string(),
            ])
            .args(&["--display-name", "ours"])
            .env("HOME", scratch.path())
            .env("OPENCLAW_GATEWAY_TOKEN", token)
            .cwd(&scratch.path());
        Self {
            invocation,
            child: None,
            scratch,
        }
    }

    /// The same by way of another program.
    pub(crate) fn behind(mut self, program: &str, arguments: &[&str]) -> Self {
        self.invocation = self.invocation.clone().behind(program, arguments);
        self
    }

    pub(crate) fn start(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.scratch.join("node.log"))
            .expect("a log file");
        let both = log.try_clone().expect("a descriptor");
        self.child = Some(self.invocation.start_logged(Stdio::from(both), Stdio::from(log)));
    }

    /// Kills it and its runner, and what they run.
    pub(crate) fn kill(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        for process in processes_of(Some(pid_of(&child)), &self.scratch.path()) {
            kill_hard(process.pid);
            process.wait(Duration::from_secs(20));
        }
        drop(child.wait());
    }

    /// A file beside its state directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.scratch.join("node.log")).unwrap_or_default()
    }

    /// Its own approvals document as it stands on disk.
    pub(crate) fn document(&self) -> Value {
        let text =
            fs::read(self.scratch.join("state/exec-approvals.json")).expect("the document of the node");
        serde_json::from_slice(&text).expect("the document of the node is JSON")
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
            eprintln!("the node: {}", self.log());
        }
    }
}

/// Lets the one machine in that asks for it.
pub(crate) async fn let_in(operator: &Api) {
    let requests = eventually(
        "the request of the device",
        || async { operator.get("/v1/nodes/pairings").await.expect(200) },
        |list| list["items"].as_array().is_some_and(|items| !items.is_empty()),
    )
    .await;
    let request = &requests["items"][0];
    assert_eq!(request["kind"], "device", "{requests}");
    let path = format!(
        "/v1/nodes/pairings/{}/decision",
        request["requestId"].as_str().expect("an id")
    );
    operator
        .post(&path, json!({ "decision": "approve" }))
        .await
        .expect(200);
}

async fn nodes(operator: &Api) -> Vec<Value> {
    let list = operator.get("/v1/nodes").await.expect(200);
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Waits until a node is connected that may be sent commands.
pub(crate) async fn until_connected(operator: &Api) {
    let may_run = |node: &Value| {
        let commands = node["commands"].as_array().cloned().unwrap_or_default();
        node["connected"] == true && commands.contains(&json!("system.run"))
    };
    eventually("connected", || nodes(operator), |nodes| nodes.iter().any(may_run)).await;
}

/// Waits until no node is connected.
pub(crate) async fn until_gone(operator: &Api) {
    let is_gone = |nodes: &Vec<Value>| nodes.iter().all(|node| node["connected"] == false);
    eventually("gone", || nodes(operator), is_gone).await;
}
