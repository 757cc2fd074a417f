//! What a node may ask and say (`docs/spec/bridge.md#82-requests-a-node-may-send`). Every question is answered at once.

use std::sync::Arc;

use serde_json::{Value, json};

use countersign_hosts::node::{ConnectionId, Heard, InvokeResult, NodeError};
use countersign_protocol::bridge::{
    INVOKE_CANCEL, INVOKE_REQUEST, INVOKE_RESULT, InvokeAnswer, NODE_EVENT, NodeNews, PAIR_RESOLVED, Request,
    Response, SHUTDOWN_EVENT, SKILLS_BINS, ShapeError, TICK_EVENT, WireError,
};

use super::{hub::NodeHub, operator::Grant};

#[derive(Debug)]
pub(super) struct NodeSession {
    pub(super) hub: Arc<NodeHub>,
    pub(super) node_id: String,
    pub(super) connection: ConnectionId,
}

type Answer = Result<Value, WireError>;

impl NodeSession {
    /// What it may ask.
    pub(super) const METHODS: &[&str] = &[INVOKE_RESULT, NODE_EVENT, SKILLS_BINS];
    /// What it is told.
    pub(super) const EVENTS: &[&str] = &[
        TICK_EVENT,
        SHUTDOWN_EVENT,
        INVOKE_REQUEST,
        INVOKE_CANCEL,
        PAIR_RESOLVED,
    ];

    /// The answer to a question.
    pub(super) fn answer(&self, request: Request) -> Response {
        let Request {
            id, method, params, ..
        } = request;
        let answered = self.answer_to(&method, params.unwrap_or(Value::Null));
        let question = Request::new(id, method, Value::Null);
        match answered {
            Ok(payload) => question.succeed(payload),
            Err(error) => question.fail(error),
        }
    }

    fn answer_to(&self, method: &str, params: Value) -> Answer {
        match method {
            INVOKE_RESULT => self.result(params),
            NODE_EVENT => self.event(params),
            SKILLS_BINS => Ok(self.skill_bins()),
            "connect" => Err(WireError::invalid("connect is only valid as the first request")),
            other if Grant::methods().contains(&other) => Err(WireError::unauthorized_role("node")),
            other => Err(WireError::unknown_method(other)),
        }
    }

    fn result(&self, params: Value) -> Answer {
        let answer = InvokeAnswer::parse(params).map_err(|shape| wrong(INVOKE_RESULT, &shape))?;
        if answer.node_id != self.node_id {
            return Err(WireError::invalid("nodeId mismatch"));
        }
        let result = InvokeResult {
            outcome: answer.outcome.map_err(|error| NodeError {
                code: error.code.unwrap_or_default(),
                message: error.message.unwrap_or_default(),
                rule: error.rule,
            }),
        };
        let taken = self
            .hub
            .registry()
            .answer(&self.node_id, self.connection, &answer.id, result);
        let is_of_use = match taken {
            Ok(()) => true,
            Err(late) => self
                .hub
                .sink()
                .is_some_and(|sink| self.is_of_use(sink.late_result(&self.node_id, &answer.id, late))),
        };
        Ok(if is_of_use {
            json!({"ok": true})
        } else {
            json!({"ok": true, "ignored": true})
        })
    }

    fn event(&self, params: Value) -> Answer {
        let NodeNews { event, payload } =
            NodeNews::parse(params).map_err(|shape| wrong(NODE_EVENT, &shape))?;
        let is_of_use = self
            .hub
            .sink()
            .is_some_and(|sink| self.is_of_use(sink.event(&self.node_id, self.connection, &event, payload)));
        // Anything but the end of a run is taken note of by being answered.
        Ok(if is_of_use || !event.starts_with("exec.") {
            json!({"ok": true, "event": event, "handled": true})
        } else {
            json!({"ok": true, "event": event, "handled": false, "reason": "unmatched_exec_event"})
        })
    }

    /// Ends the connection where as much as may waits already: the node comes back, and is asked what became of its runs.
    fn is_of_use(&self, heard: Heard) -> bool {
        if heard == Heard::TooMuch {
            self.hub.end_as_too_much(&self.node_id, self.connection);
        }
        heard.is_of_use()
    }

    fn skill_bins(&self) -> Value {
        let settings = self.hub.settings.current();
        let names: Vec<&str> = settings
            .server
            .policy
            .skill_bins
            .iter()
            .map(|skill| skill.name.as_str())
            .collect();
        json!({"bins": names})
    }
}

fn wrong(method: &str, shape: &ShapeError) -> WireError {
    WireError::invalid(format!("invalid {method} params: {shape}"))
}
