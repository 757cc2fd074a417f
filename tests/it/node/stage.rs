//! A node at its gateway, and the calls that it is sent.

use serde_json::{Value, json};

use super::{
    gateway::{Gateway, Outcome, Peer},
    scene::TestNode,
};

/// A node that is connected to its gateway.
pub(super) struct Stage {
    pub(super) node: TestNode,
    pub(super) peer: Peer,
    pub(super) id: String,
    calls: usize,
}

impl Stage {
    /// Starts this node, and has it connect.
    pub(super) async fn of(node: TestNode) -> Self {
        Self::at(node, &json!({"protocol": 4})).await
    }

    /// The same at a gateway whose hello says this.
    pub(super) async fn at(mut node: TestNode, hello: &Value) -> Self {
        let gateway = Gateway::new().await;
        node.start(&gateway);
        let peer = gateway.welcome_as(hello).await;
        node.line("connected").await;
        let id = node.id();
        Self {
            node,
            peer,
            id,
            calls: 0,
        }
    }

    /// A node that runs everything.
    pub(super) async fn open() -> Self {
        Self::of(TestNode::open()).await
    }

    /// A node whose policy is what `exec` and the document say.
    pub(super) async fn with_policy(exec: Value, document: Option<Value>) -> Self {
        Self::of(TestNode::new(&exec, document.as_ref())).await
    }

    pub(super) async fn call(&mut self, command: &str, params: &Value) -> Outcome {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        self.peer.invoke(&self.id, &id, command, params).await;
        self.peer.result(&id).await
    }

    pub(super) async fn run(&mut self, params: &Value) -> Outcome {
        self.call("system.run", params).await
    }

    pub(super) async fn plan(&mut self, params: &Value) -> Value {
        self.call("system.run.prepare", params).await.done()
    }
}
