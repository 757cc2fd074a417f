//! Calls of a node and what a node says on its own (`docs/spec/bridge.md#8-node-methods-and-the-registry`).

use serde_json::{Map, Value, json};

use super::{
    fields::{Fields, ShapeError},
    frame::{Event, MAX_ID},
    own_rule::{OWN_RULE, OwnRule},
};

/// The event that calls a node.
pub const INVOKE_REQUEST: &str = "node.invoke.request";
/// The event that takes a call back (present generation only).
pub const INVOKE_CANCEL: &str = "node.invoke.cancel";
/// The method that answers a call.
pub const INVOKE_RESULT: &str = "node.invoke.result";
/// The method for news of a node.
pub const NODE_EVENT: &str = "node.event";
/// The method for names of programs that come with skills.
pub const SKILLS_BINS: &str = "skills.bins";
/// The event that tells a node of a decision about its commands (present generation only).
pub const PAIR_RESOLVED: &str = "node.pair.resolved";

/// A call of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct InvokeCall {
    /// Chosen by the gateway, at most 256 bytes; the answer and a cancel repeat it.
    pub id: String,
    /// The node that is called.
    pub node_id: String,
    /// Which command of the node, such as `system.run`; at most 256 bytes.
    pub command: String,
    /// Its parameters; `Null` for none.
    pub params: Value,
    /// How long the gateway waits. Not a time limit of what runs.
    pub timeout_ms: Option<i64>,
    /// Makes the same call twice the same call.
    pub idempotency_key: Option<String>,
}

/// A call that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableCall {
    /// It does not say which call of what it is, so nobody can be answered.
    #[error(transparent)]
    Nameless(ShapeError),
    /// Something else of it cannot be read.
    #[error("{error}")]
    Named {
        /// The id of the call, for the answer.
        id: String,
        /// The node that is called.
        node_id: String,
        /// The command that the call names.
        command: String,
        /// What is wrong with it.
        error: ShapeError,
    },
}

impl InvokeCall {
    /// The event `node.invoke.request`, with the parameters as JSON text.
    pub fn to_event(&self) -> Event {
        let params = if self.params.is_null() {
            Value::Null
        } else {
            Value::String(self.params.to_string())
        };
        let mut payload = Map::new();
        payload.insert("id".to_owned(), self.id.as_str().into());
        payload.insert("nodeId".to_owned(), self.node_id.as_str().into());
        payload.insert("command".to_owned(), self.command.as_str().into());
        payload.insert("paramsJSON".to_owned(), params);
        if let Some(timeout) = self.timeout_ms {
            payload.insert("timeoutMs".to_owned(), timeout.into());
        }
        if let Some(key) = &self.idempotency_key {
            payload.insert("idempotencyKey".to_owned(), key.as_str().into());
        }
        Event::new(INVOKE_REQUEST, Value::Object(payload))
    }

    /// Reads the payload of the event: `paramsJSON`, else `params`. Other members are ignored, as the products do.
    ///
    /// # Errors
    /// [`UnreadableCall`] when a member has the wrong form or the parameters are not JSON.
    pub fn parse(payload: Value) -> Result<Self, UnreadableCall> {
        let mut fields = Fields::of(payload, "").map_err(UnreadableCall::Nameless)?;
        let mut name = |name| fields.text(name, MAX_ID).map_err(UnreadableCall::Nameless);
        let (id, node_id, command) = (name("id")?, name("nodeId")?, name("command")?);
        match Particulars::take(&mut fields) {
            Ok(Particulars {
                params,
                timeout_ms,
                idempotency_key,
            }) => Ok(Self {
                id,
                node_id,
                command,
                params,
                timeout_ms,
                idempotency_key,
            }),
            Err(error) => Err(UnreadableCall::Named {
                id,
                node_id,
                command,
                error,
            }),
        }
    }
}

/// What a call says besides its names.
struct Particulars {
    params: Value,
    timeout_ms: Option<i64>,
    idempotency_key: Option<String>,
}

impl Particulars {
    fn take(fields: &mut Fields) -> Result<Self, ShapeError> {
        let text = nullable(fields, "paramsJSON");
        let plain = nullable(fields, "params");
        Ok(Self {
            params: match text {
                Some(Value::String(text)) => super::payload_json(&text)
                    .map_err(|error| ShapeError::at("/paramsJSON", error.to_string()))?,
                Some(_other) => return Err(fields.wrong("paramsJSON", "must be string")),
                None => plain.unwrap_or(Value::Null),
            },
            timeout_ms: nullable_integer(fields, "timeoutMs")?,
            idempotency_key: match nullable(fields, "idempotencyKey") {
                Some(Value::String(key)) if key.len() <= MAX_ID => Some(key),
                None => None,
                Some(_other) => return Err(fields.wrong("idempotencyKey", "must be a short string")),
            },
        })
    }
}

/// A call is no longer wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvokeCancel {
    /// The `id` of the call.
    pub invoke_id: String,
    /// The node that was called; a node of ours ignores what names another.
    pub node_id: String,
}

impl InvokeCancel {
    /// The event `node.invoke.cancel`.
    pub fn to_event(&self) -> Event {
        Event::new(
            INVOKE_CANCEL,
            json!({"invokeId": self.invoke_id, "nodeId": self.node_id}),
        )
    }

    /// Reads the payload of the event.
    ///
    /// # Errors
    /// [`ShapeError`] when a member is missing or has the wrong form.
    pub fn parse(payload: Value) -> Result<Self, ShapeError> {
        let mut fields = Fields::of(payload, "")?;
        Ok(Self {
            invoke_id: fields.text("invokeId", MAX_ID)?,
            node_id: fields.text("nodeId", MAX_ID)?,
        })
    }
}

/// A node's own error in an answer. Either part may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InvokeError {
    /// A code such as `UNAVAILABLE`; reading cuts it to 256 bytes.
    pub code: Option<String>,
    /// For people; reading cuts it to 4096 bytes.
    pub message: Option<String>,
    /// The rule of the node's own policy behind it, where it is one of ours.
    pub rule: Option<Box<OwnRule>>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub struct InvokeAnswer {
    /// The `id` of the call that it answers.
    pub id: String,
    /// Who says that it is the node.
    pub node_id: String,
    /// The payload, `Null` for none, or the node's error.
    pub outcome: Result<Value, InvokeError>,
}

impl InvokeAnswer {
    /// The parameters of `node.invoke.result`.
    pub fn to_params(&self) -> Value {
        let mut params = Map::new();
        params.insert("id".to_owned(), self.id.as_str().into());
        params.insert("nodeId".to_owned(), self.node_id.as_str().into());
        params.insert("ok".to_owned(), self.outcome.is_ok().into());
        match &self.outcome {
            Ok(Value::Null) => {}
            Ok(payload) => {
                params.insert("payloadJSON".to_owned(), payload.to_string().into());
            }
            Err(error) => {
                let mut members = Map::new();
                for (name, text) in [("code", &error.code), ("message", &error.message)] {
                    if let Some(text) = text {
                        members.insert(name.to_owned(), text.as_str().into());
                    }
                }
                if let Some(rule) = &error.rule {
                    members.insert(OWN_RULE.to_owned(), rule.to_value());
                }
                params.insert("error".to_owned(), Value::Object(members));
            }
        }
        Value::Object(params)
    }

    /// Reads the parameters. `payloadJSON` may be null, or not a string and then the payload itself; `error` may be
    /// null. Text that is no JSON is taken as a payload of text, so that an answer is never lost.
    ///
    /// # Errors
    /// [`ShapeError`] when a member has the wrong form.
    pub fn parse(params: Value) -> Result<Self, ShapeError> {
        let mut fields = Fields::of(params, "")?;
        let id = fields.text("id", MAX_ID)?;
        let node_id = fields.text("nodeId", MAX_ID)?;
        let ok = fields.flag("ok")?;
        let payload = payload(&mut fields);
        let error = match nullable(&mut fields, "error") {
            None => InvokeError::default(),
            Some(error) => {
                let mut error = Fields::of(error, "/error")?;
                InvokeError {
                    code: short(nullable(&mut error, "code"), MAX_ID),
                    message: short(nullable(&mut error, "message"), MAX_ERROR_MESSAGE),
                    rule: OwnRule::read(error.take(OWN_RULE).as_ref()).map(Box::new),
                }
            }
        };
        Ok(Self {
            id,
            node_id,
            outcome: if ok { Ok(payload) } else { Err(error) },
        })
    }
}

/// Longest message of a node's error that is kept.
const MAX_ERROR_MESSAGE: usize = 4096;

/// What a node says on its own.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeNews {
    /// Which news, such as `exec.finished`; at most 256 bytes.
    pub event: String,
    /// Its payload; `Null` for none.
    pub payload: Value,
}

impl NodeNews {
    /// The parameters of `node.event`.
    pub fn to_params(&self) -> Value {
        json!({"event": self.event, "payloadJSON": self.payload.to_string()})
    }

    /// Reads the parameters; `payloadJSON` may be null or not a string, as in an answer.
    ///
    /// # Errors
    /// [`ShapeError`] when a member has the wrong form.
    pub fn parse(params: Value) -> Result<Self, ShapeError> {
        let mut fields = Fields::of(params, "")?;
        Ok(Self {
            event: fields.text("event", MAX_ID)?,
            payload: payload(&mut fields),
        })
    }
}

fn payload(fields: &mut Fields) -> Value {
    let text = nullable(fields, "payloadJSON");
    let plain = nullable(fields, "payload");
    match text {
        Some(Value::String(text)) => super::payload_json(&text).unwrap_or(Value::String(text)),
        Some(value) => value,
        None => plain.unwrap_or(Value::Null),
    }
}

fn nullable(fields: &mut Fields, name: &str) -> Option<Value> {
    fields.take(name).filter(|value| !value.is_null())
}

fn nullable_integer(fields: &mut Fields, name: &'static str) -> Result<Option<i64>, ShapeError> {
    match nullable(fields, name) {
        None => Ok(None),
        Some(value) => super::fields::as_integer(&value)
            .map(Some)
            .ok_or_else(|| fields.wrong(name, "must be integer")),
    }
}

fn short(value: Option<Value>, longest: usize) -> Option<String> {
    match value? {
        Value::String(mut text) => {
            let mut end = text.len().min(longest);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            Some(text)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::Reason;

    #[test]
    fn an_answer_is_taken_in_every_form_that_the_products_send() {
        let base = json!({"id": "i", "nodeId": "n", "ok": true});
        let with = |name: &str, value: Value| {
            let mut params = base.clone();
            params.as_object_mut().unwrap().insert(name.to_owned(), value);
            InvokeAnswer::parse(params).unwrap().outcome
        };
        assert_eq!(with("payloadJSON", Value::Null), Ok(Value::Null));
        assert_eq!(with("payloadJSON", json!("{\"a\":1}")), Ok(json!({"a": 1})));
        assert_eq!(with("payloadJSON", json!({"a": 1})), Ok(json!({"a": 1})));
        assert_eq!(with("payloadJSON", json!("not json")), Ok(json!("not json")));
        assert_eq!(with("payload", json!([1])), Ok(json!([1])));
        assert_eq!(with("error", Value::Null), Ok(Value::Null));
    }

    #[test]
    fn an_error_may_lack_everything() {
        let parse = |error: Value| {
            InvokeAnswer::parse(json!({"id": "i", "nodeId": "n", "ok": false, "error": error}))
                .unwrap()
                .outcome
                .unwrap_err()
        };
        assert_eq!(parse(Value::Null), InvokeError::default());
        assert_eq!(parse(json!({"code": null})), InvokeError::default());
        let long = parse(json!({"code": "C", "message": "é".repeat(5000)}));
        assert_eq!(long.message.unwrap().len(), MAX_ERROR_MESSAGE);
    }

    #[test]
    fn calls_and_answers_are_read_as_they_were_written() {
        let call = InvokeCall {
            id: "i".to_owned(),
            node_id: "n".to_owned(),
            command: "system.which".to_owned(),
            params: json!({"bins": ["sh"]}),
            timeout_ms: Some(5),
            idempotency_key: Some("k".to_owned()),
        };
        assert_eq!(InvokeCall::parse(call.to_event().payload.unwrap()), Ok(call));
        let cancel = InvokeCancel {
            invoke_id: "i".to_owned(),
            node_id: "n".to_owned(),
        };
        assert_eq!(
            InvokeCancel::parse(cancel.to_event().payload.unwrap()),
            Ok(cancel)
        );
        for outcome in [
            Ok(json!({"a": [1, "x"]})),
            Ok(Value::Null),
            Err(InvokeError {
                code: Some("C".to_owned()),
                message: None,
                rule: None,
            }),
            Err(InvokeError {
                code: None,
                message: Some("no".to_owned()),
                rule: Some(Box::new(OwnRule::of_reason(Reason::Denylist))),
            }),
        ] {
            let answer = InvokeAnswer {
                id: "i".to_owned(),
                node_id: "n".to_owned(),
                outcome,
            };
            assert_eq!(InvokeAnswer::parse(answer.to_params()), Ok(answer));
        }
    }

    #[test]
    fn a_call_takes_parameters_in_either_form() {
        let plain = json!({"id": "i", "nodeId": "n", "command": "c", "params": {"a": 1}});
        assert_eq!(InvokeCall::parse(plain).unwrap().params, json!({"a": 1}));
        let neither = json!({"id": "i", "nodeId": "n", "command": "c", "paramsJSON": null});
        assert_eq!(InvokeCall::parse(neither).unwrap().params, Value::Null);
        for nameless in [
            json!([]),
            json!({"id": "", "nodeId": "n", "command": "c"}),
            json!({"id": "i", "nodeId": "", "command": "c", "paramsJSON": "{"}),
            json!({"id": "i", "nodeId": "n", "paramsJSON": "{"}),
        ] {
            let found = InvokeCall::parse(nameless);
            assert!(matches!(found, Err(UnreadableCall::Nameless(_))), "{found:?}");
        }
        for (member, wrong) in [
            ("paramsJSON", json!("{")),
            ("paramsJSON", json!("{\"a\":1,\"a\":2}")),
            ("paramsJSON", json!(7)),
            ("timeoutMs", json!("soon")),
            ("idempotencyKey", json!(7)),
        ] {
            let found = InvokeCall::parse(json!({"id": "i", "nodeId": "n", "command": "c", member: wrong}));
            let Err(UnreadableCall::Named {
                id,
                node_id,
                command,
                error,
            }) = found
            else {
                panic!("{member}: {found:?}");
            };
            assert_eq!((id.as_str(), node_id.as_str(), command.as_str()), ("i", "n", "c"));
            assert!(error.to_string().contains(member), "{error}");
        }
    }
}
