//! Nodes in memory: they answer what is asked before a run by themselves, and hand every run to the test.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use countersign_hosts::node::{
    ConnectionId, InvokeFailure, InvokeRequest, InvokeResult, NodeError, NodeGeneration, NodeInfo, NodeLink,
    NodeSink,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use crate::support::within;

type Answer = Result<InvokeResult, InvokeFailure>;

/// The way to nodes of a test.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    nodes: Mutex<Vec<Member>>,
    runs: Mutex<VecDeque<RunCall>>,
    arrived: Notify,
    asked: Mutex<Vec<(String, String)>>,
    cancelled: Mutex<Vec<String>>,
    cancels: Notify,
    connections: AtomicU64,
    sink: OnceLock<Arc<dyn NodeSink>>,
}

/// One node.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) info: NodeInfo,
    /// Its approvals document; `None` for one that does not answer when it is asked.
    pub(crate) document: Option<Value>,
    /// Where its programs are.
    pub(crate) programs: Value,
    /// What it makes of a command; `None` for what it would do by itself.
    pub(crate) plan: Option<Result<Value, NodeError>>,
    /// What became of runs, as it says when it is asked.
    pub(crate) status: Value,
}

/// A run that a node was asked for.
#[derive(Debug)]
pub(crate) struct RunCall {
    pub(crate) node_id: String,
    pub(crate) id: String,
    pub(crate) params: Value,
    pub(crate) connection: Option<ConnectionId>,
    reply: oneshot::Sender<Answer>,
}

impl RunCall {
    pub(crate) fn result(self, result: Value) {
        self.answer(Ok(InvokeResult { outcome: Ok(result) }));
    }

    pub(crate) fn says(self, stdout: &str) {
        self.result(
            json!({ "exitCode": 0, "timedOut": false, "success": true, "stdout": stdout, "stderr": "",
            "error": null }),
        );
    }

    pub(crate) fn refuses(self, code: &str, message: &str) {
        let error = error(code, message);
        self.answer(Ok(InvokeResult { outcome: Err(error) }));
    }

    pub(crate) fn fails(self, failure: InvokeFailure) {
        self.answer(Err(failure));
    }

    fn answer(self, answer: Answer) {
        drop(self.reply.send(answer));
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name).and_then(Value::as_str)
    }
}

pub(crate) fn error(code: &str, message: &str) -> NodeError {
    NodeError::new(code, message)
}

pub(crate) fn ended(result: Value) -> InvokeResult {
    InvokeResult { outcome: Ok(result) }
}

/// The id of a node with this name.
pub(crate) fn id_of(name: &str) -> String {
    format!("{name:0<64}")
}

impl Member {
    pub(crate) fn new(name: &str, generation: NodeGeneration) -> Self {
        let mut commands = vec!["system.execApprovals.get", "system.run", "system.which"];
        if generation != NodeGeneration::First {
            commands.push("system.run.prepare");
        }
        if generation == NodeGeneration::Ours {
            commands.push("countersign.run.status");
        }
        commands.sort_unstable();
        Self {
            info: NodeInfo {
                node_id: id_of(name),
                display_name: Some(name.to_owned()),
                is_labelled: false,
                remote_ip: None,
                platform: Some("linux".to_owned()),
                commands: commands.into_iter().map(str::to_owned).collect(),
                generation: Some(generation),
                connection: None,
            },
            document: Some(json!({ "version": 1 })),
            programs: json!({ "echo": "/bin/echo", "id": "/usr/bin/id", "rm": "/bin/rm" }),
            plan: None,
            status: Value::Null,
        }
    }

    pub(crate) fn document(mut self, document: Value) -> Self {
        self.document = Some(document);
        self
    }
}

impl Fleet {
    pub(crate) fn listen(&self, sink: Arc<dyn NodeSink>) {
        assert!(self.sink.set(sink).is_ok(), "one engine listens to a fleet");
    }

    pub(crate) fn sink(&self) -> &Arc<dyn NodeSink> {
        self.sink.get().expect("an engine that listens")
    }

    /// Another link to the same nodes, for the next server.
    pub(crate) fn for_next_server(&self) -> Arc<Self> {
        let next = Self::default();
        for member in self.nodes.lock().unwrap().iter() {
            let mut member = member.clone();
            member.info.connection = None;
            next.nodes.lock().unwrap().push(member);
        }
        next.connections.store(100, Ordering::SeqCst);
        Arc::new(next)
    }

    /// Pairs a node and connects it.
    pub(crate) fn join(&self, member: Member) -> String {
        let id = member.info.node_id.clone();
        self.pair(member);
        self.connect(&id);
        id
    }

    /// Pairs a node that is away.
    pub(crate) fn pair(&self, member: Member) {
        self.nodes.lock().unwrap().push(member);
    }

    pub(crate) fn connect(&self, id: &str) {
        let connection = ConnectionId(self.connections.fetch_add(1, Ordering::SeqCst) + 1);
        let info = self.change(id, |member| {
            member.info.connection = Some(connection);
            member.info.clone()
        });
        if let Some(sink) = self.sink.get() {
            assert!(sink.connected(info).is_of_use());
        }
    }

    pub(crate) fn disconnect(&self, id: &str) {
        let connection = self.change(id, |member| member.info.connection.take());
        if let (Some(sink), Some(connection)) = (self.sink.get(), connection) {
            sink.disconnected(id, connection);
        }
    }

    pub(crate) fn change<T>(&self, id: &str, change: impl FnOnce(&mut Member) -> T) -> T {
        let mut nodes = self.nodes.lock().unwrap();
        let member = nodes.iter_mut().find(|member| member.info.node_id == id);
        change(member.expect("a paired node"))
    }

    /// The next run that a node is asked for.
    pub(crate) async fn next_run(&self) -> RunCall {
        let arrives = async {
            loop {
                let arrived = self.arrived.notified();
                if let Some(call) = self.runs.lock().unwrap().pop_front() {
                    return call;
                }
                arrived.await;
            }
        };
        within("a run on a node", arrives).await
    }

    /// How often nodes were asked to run something in all.
    pub(crate) fn runs_asked(&self) -> usize {
        self.asked("system.run")
    }

    pub(crate) fn asked(&self, command: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(_, asked)| asked == command).count()
    }

    /// Waits until a run is to be cancelled, and returns its id.
    pub(crate) async fn next_cancel(&self) -> String {
        let arrives = async {
            loop {
                let cancelled = self.cancels.notified();
                if let Some(id) = self.cancelled.lock().unwrap().pop() {
                    return id;
                }
                cancelled.await;
            }
        };
        within("a cancel", arrives).await
    }

    /// Tells as a node of a run.
    pub(crate) fn tell(&self, id: &str, event: &str, payload: Value) -> bool {
        let connection = self.change(id, |member| member.info.connection);
        self.sink()
            .event(id, connection.unwrap_or(ConnectionId(0)), event, payload)
            .is_of_use()
    }
}

impl NodeLink for Fleet {
    fn nodes(&self) -> Vec<NodeInfo> {
        let nodes = self.nodes.lock().unwrap();
        nodes.iter().map(|member| member.info.clone()).collect()
    }

    fn invoke(&self, request: InvokeRequest) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let member = {
                let nodes = self.nodes.lock().unwrap();
                let found = nodes.iter().find(|member| member.info.node_id == request.node_id);
                found.cloned()
            };
            let member = member.ok_or(InvokeFailure::NotConnected)?;
            let is_there = member.info.connection.is_some()
                && request
                    .connection
                    .is_none_or(|wanted| Some(wanted) == member.info.connection);
            if !is_there {
                return Err(InvokeFailure::NotConnected);
            }
            if !member.info.commands.contains(&request.command) {
                return Err(InvokeFailure::NotAllowed {
                    reason: "command not declared by node",
                });
            }
            self.asked
                .lock()
                .unwrap()
                .push((request.node_id.clone(), request.command.clone()));
            if request.command != "system.run" {
                let outcome = reply_of(&member, &request);
                return Ok(InvokeResult { outcome });
            }
            let (reply, answer) = oneshot::channel();
            self.runs.lock().unwrap().push_back(RunCall {
                node_id: request.node_id,
                id: request.id,
                params: request.params,
                connection: request.connection,
                reply,
            });
            self.arrived.notify_one();
            match request.timeout {
                None => answer.await.unwrap_or(Err(InvokeFailure::Disconnected)),
                Some(limit) => match tokio::time::timeout(limit, answer).await {
                    Ok(answer) => answer.unwrap_or(Err(InvokeFailure::Disconnected)),
                    Err(_elapsed) => Err(InvokeFailure::TimedOut),
                },
            }
        })
    }

    fn cancel(&self, _node_id: &str, invoke_id: &str) {
        self.cancelled.lock().unwrap().push(invoke_id.to_owned());
        self.cancels.notify_one();
    }
}

/// What a node answers to everything but a run.
fn reply_of(member: &Member, request: &InvokeRequest) -> Result<Value, NodeError> {
    let params = &request.params;
    match request.command.as_str() {
        "system.execApprovals.get" => match &member.document {
            Some(file) => Ok(
                json!({ "path": "/x", "exists": true, "hash": format!("h{file}").replace(' ', "_").chars()
                .filter(char::is_ascii_alphanumeric).take(60).collect::<String>(), "file": file }),
            ),
            None => Err(error("UNAVAILABLE", "no document")),
        },
        "system.which" => Ok(json!({ "bins": member.programs })),
        "system.run.prepare" => member.plan.clone().unwrap_or_else(|| {
            let argv = params["command"].clone();
            let text = params.get("rawCommand").cloned().unwrap_or_else(|| {
                let words: Vec<&str> = argv
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(Value::as_str)
                    .collect();
                json!(words.join(" "))
            });
            let cwd = params.get("cwd").cloned().unwrap_or_else(|| json!("/home/node"));
            Ok(
                json!({ "plan": { "argv": argv, "cwd": cwd, "commandText": text, "commandPreview": null,
                "agentId": params["agentId"], "sessionKey": params["sessionKey"],
                "policySnapshot": { "security": "allowlist" } },
                "allowAlwaysCoverage": { "complete": true,
                    "patterns": [{ "pattern": "/bin/echo", "argPattern": "sha256:cwd-argv:v1:00" }] } }),
            )
        }),
        "countersign.run.status" => Ok(member.status.clone()),
        other => Err(error("INVALID_REQUEST", &format!("no {other} here"))),
    }
}
