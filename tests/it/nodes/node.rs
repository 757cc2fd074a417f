//! Nodes of the present generation whose answers a test changes as it goes.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::support::{
    Members, TestServer, eventually,
    node::{Device, Line, Speaks, TestNode, pair},
};

type Said = Result<Value, (&'static str, &'static str)>;
type Script = Arc<Mutex<Box<dyn FnMut(&str, &Value) -> Said + Send>>>;

/// A device that asked to be let in.
#[derive(Debug)]
pub(crate) struct Knock {
    pub(crate) request: String,
    pub(crate) node_id: String,
}

/// A node that was let in and is connected. Dropping it disconnects it.
pub(crate) struct ScriptedNode {
    node: TestNode,
    script: Script,
}

/// A device that asks, and leaves.
pub(crate) async fn knock(server: &TestServer, name: &str, commands: &[&str]) -> Knock {
    let device = Device::new(server, Speaks::Present)
        .named(name)
        .declaring(commands);
    let mut line = Line::open(server).await;
    let error = line
        .connect(&device)
        .await
        .expect_err("nobody becomes a node without a person");
    let request = error["details"]["requestId"].as_str();
    Knock {
        request: request
            .unwrap_or_else(|| panic!("no pairing was asked for: {error}"))
            .to_owned(),
        node_id: device.id(),
    }
}

/// A node that an admin let in.
pub(crate) async fn paired(server: &TestServer, name: &str, commands: &[&str]) -> ScriptedNode {
    let device = Device::new(server, Speaks::Present)
        .named(name)
        .declaring(commands);
    pair(server, &device).await;
    enter(server, device).await
}

async fn enter(server: &TestServer, device: Device) -> ScriptedNode {
    let script: Script = Arc::new(Mutex::new(Box::new(|_, _| {
        Err(("UNAVAILABLE", "nothing is scripted"))
    })));
    let read = Arc::clone(&script);
    let deed = move |call: &Value| {
        let command = call.text("command");
        let said = (read.lock().unwrap_or_else(PoisonError::into_inner))(command, &call["params"]);
        Some(said.map_err(|(code, message)| (code.to_owned(), message.to_owned())))
    };
    let node = TestNode::connect(server, device, deed).await;
    ScriptedNode { node, script }
}

impl ScriptedNode {
    pub(crate) fn id(&self) -> String {
        self.node.id()
    }

    /// What it answers calls with from now on.
    pub(crate) fn answers(&self, script: impl FnMut(&str, &Value) -> Said + Send + 'static) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(script);
    }

    /// The calls of this command that came.
    pub(crate) fn calls_of(&self, command: &str) -> Vec<Value> {
        let calls = self.node.calls();
        calls
            .into_iter()
            .filter(|call| call["command"] == command)
            .collect()
    }

    /// Waits until the server has ended the connection.
    pub(crate) async fn closed(self) {
        self.node.ended().await;
    }

    /// The same machine with other commands.
    pub(crate) async fn reconnect_with(self, server: &TestServer, commands: &[&str]) -> Self {
        let device = self.node.device.clone().declaring(commands);
        self.leave(server).await;
        enter(server, device).await
    }

    /// Disconnects, and waits until the server knows.
    pub(crate) async fn leave(self, server: &TestServer) {
        let path = format!("/v1/nodes/{}", self.id());
        drop(self);
        let shown = async || server.operator().read(&path).await;
        eventually("offline", shown, |node| node["connected"] == false).await;
    }
}
