//! One WebSocket text frame, one JSON object (`docs/spec/bridge.md#frames`). All these objects are closed.

use serde_json::{Map, Value, json};

use super::fields::{Fields, ShapeError};
use crate::{Bounds, JsonError, parse_json};

/// Deepest nesting in a frame. Results carry their payload as text, so real frames are shallow.
const MAX_DEPTH: usize = 64;
/// Most values in a frame.
const MAX_VALUES: usize = 100_000;
/// Longest id. Both products use a UUID, the present one with a counter before it.
pub(super) const MAX_ID: usize = 256;
/// Longest name of a method, an event or an error.
const MAX_NAME: usize = 256;
/// Longest message of an error.
const MAX_MESSAGE: usize = 64 * 1024;

/// What one side says.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A question, which gets exactly one answer.
    Request(Request),
    /// The one answer to a request.
    Response(Response),
    /// News that wants no answer.
    Event(Event),
}

/// A call of a method on the other side.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Chosen by the asker; opaque.
    pub id: String,
    /// Which method, such as `connect` or `node.invoke.result`; at most 256 bytes.
    pub method: String,
    /// With what; `Some(Null)` when the frame says null.
    pub params: Option<Value>,
    /// The trace that it belongs to (present generation only).
    pub traceparent: Option<String>,
    pub(crate) expected_profile_id: Option<String>,
}

/// The answer to the request with the same id.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The id of that request.
    pub id: String,
    /// Whether what was asked was done.
    pub ok: bool,
    /// What came of it.
    pub payload: Option<Value>,
    /// Why it was not done, where `ok` is false.
    pub error: Option<WireError>,
}

/// News from one side; it gets no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Which news, such as `tick` or `node.invoke.request`; at most 256 bytes.
    pub event: String,
    /// What the news says; its form depends on `event`.
    pub payload: Option<Value>,
    /// The number among the broadcasts; events for one node alone have none.
    pub seq: Option<i64>,
    /// Versions of what a gateway tells of itself.
    pub(crate) state_version: Option<StateVersion>,
    pub(crate) recipient_profile_id: Option<String>,
}

/// Versions of what a gateway tells of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StateVersion {
    /// Of who is there.
    pub presence: i64,
    /// Of how it is.
    pub health: i64,
}

/// An error, as it travels.
#[derive(Debug, Clone, PartialEq)]
pub struct WireError {
    /// Its code, such as `INVALID_REQUEST`.
    pub code: String,
    /// For people; the products also compare it.
    pub message: String,
    /// The same for programs: mostly an object with `code` and `reason`.
    pub details: Option<Value>,
    /// Whether the same may succeed later.
    pub retryable: Option<bool>,
    /// How long to wait before the next attempt, in milliseconds.
    pub retry_after_ms: Option<i64>,
}

/// A frame that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The text is not JSON within the bounds.
    #[error("frame {0}")]
    Json(#[from] JsonError),
    /// The object is not a frame.
    #[error("invalid frame: {0}")]
    Shape(#[from] ShapeError),
}

/// Error code of a question that is wrong.
pub const INVALID_REQUEST: &str = "INVALID_REQUEST";
/// Error code of something that cannot be done now.
pub const UNAVAILABLE: &str = "UNAVAILABLE";
/// Error code of a device that is not paired.
pub const NOT_PAIRED: &str = "NOT_PAIRED";

impl Frame {
    /// Reads a text frame of at most `longest` bytes.
    ///
    /// # Errors
    /// [`FrameError`] when it is not one frame.
    pub fn parse(text: &str, longest: usize) -> Result<Self, FrameError> {
        let bounds = Bounds {
            bytes: longest,
            depth: MAX_DEPTH,
            values: MAX_VALUES,
        };
        Ok(Self::of(parse_json(text, bounds)?)?)
    }

    /// The frame that a value is.
    ///
    /// # Errors
    /// [`ShapeError`] when it is none.
    pub fn of(value: Value) -> Result<Self, ShapeError> {
        let mut fields = Fields::of(value, "")?;
        let kind = fields.text("type", MAX_NAME)?;
        let frame = match kind.as_str() {
            "req" => Self::Request(Request {
                id: fields.text("id", MAX_ID)?,
                method: fields.text("method", MAX_NAME)?,
                params: fields.take("params"),
                traceparent: fields.optional_text("traceparent", 128)?,
                expected_profile_id: fields.optional_text("expectedProfileId", 128)?,
            }),
            "res" => Self::Response(Response {
                id: fields.text("id", MAX_ID)?,
                ok: fields.flag("ok")?,
                payload: fields.take("payload"),
                error: fields.optional_object("error")?.map(WireError::of).transpose()?,
            }),
            "event" => Self::Event(Event {
                event: fields.text("event", MAX_NAME)?,
                payload: fields.take("payload"),
                seq: fields.optional_integer("seq")?,
                state_version: fields
                    .optional_object("stateVersion")?
                    .map(StateVersion::of)
                    .transpose()?,
                recipient_profile_id: fields.optional_text("recipientProfileId", 128)?,
            }),
            _unknown => return Err(fields.wrong("type", "must be one of req, res, event")),
        };
        fields.finish()?;
        Ok(frame)
    }

    /// The frame as a value.
    pub fn to_value(&self) -> Value {
        let mut members = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                members.insert(name.to_owned(), value);
            }
        };
        match self {
            Self::Request(request) => {
                put("type", Some("req".into()));
                put("id", Some(request.id.as_str().into()));
                put("method", Some(request.method.as_str().into()));
                put("params", request.params.clone());
                put("traceparent", request.traceparent.as_deref().map(Into::into));
                put(
                    "expectedProfileId",
                    request.expected_profile_id.as_deref().map(Into::into),
                );
            }
            Self::Response(response) => {
                put("type", Some("res".into()));
                put("id", Some(response.id.as_str().into()));
                put("ok", Some(response.ok.into()));
                put("payload", response.payload.clone());
                put("error", response.error.as_ref().map(WireError::to_value));
            }
            Self::Event(event) => {
                put("type", Some("event".into()));
                put("event", Some(event.event.as_str().into()));
                put("payload", event.payload.clone());
                put("seq", event.seq.map(Into::into));
                put(
                    "stateVersion",
                    event
                        .state_version
                        .map(|version| json!({"presence": version.presence, "health": version.health})),
                );
                put(
                    "recipientProfileId",
                    event.recipient_profile_id.as_deref().map(Into::into),
                );
            }
        }
        Value::Object(members)
    }

    /// The text of the frame.
    pub fn to_text(&self) -> String {
        self.to_value().to_string()
    }
}

impl Request {
    /// A request without a trace; `id` must be new on its connection.
    pub fn new(id: impl Into<String>, method: impl Into<String>, params: Value) -> Self {
        Self {
            id: id.into(),
            method: method.into(),
            params: Some(params),
            traceparent: None,
            expected_profile_id: None,
        }
    }

    /// The answer to it when it was done.
    pub fn succeed(&self, payload: Value) -> Response {
        Response {
            id: self.id.clone(),
            ok: true,
            payload: Some(payload),
            error: None,
        }
    }

    /// The answer to it when it was not.
    pub fn fail(&self, error: WireError) -> Response {
        Response {
            id: self.id.clone(),
            ok: false,
            payload: None,
            error: Some(error),
        }
    }
}

impl Event {
    /// News for one side alone.
    pub fn new(event: impl Into<String>, payload: Value) -> Self {
        Self {
            event: event.into(),
            payload: Some(payload),
            seq: None,
            state_version: None,
            recipient_profile_id: None,
        }
    }
}

impl From<Request> for Frame {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl From<Response> for Frame {
    fn from(response: Response) -> Self {
        Self::Response(response)
    }
}

impl From<Event> for Frame {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

impl StateVersion {
    fn of(mut fields: Fields) -> Result<Self, ShapeError> {
        let version = Self {
            presence: fields.integer("presence")?,
            health: fields.integer("health")?,
        };
        fields.finish()?;
        Ok(version)
    }
}

impl WireError {
    /// An error without details.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            details: None,
            retryable: None,
            retry_after_ms: None,
        }
    }

    /// `INVALID_REQUEST` with a message.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    /// `UNAVAILABLE` with a message.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(UNAVAILABLE, message)
    }

    /// The refusal of a method that this side does not have; the products compare the text.
    pub fn unknown_method(method: &str) -> Self {
        Self::invalid(format!("unknown method: {method}"))
    }

    /// The refusal of a method that is not for this role; the products compare the text.
    pub fn unauthorized_role(role: &str) -> Self {
        Self::invalid(format!("unauthorized role: {role}"))
    }

    /// The same with details.
    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self {
            details: Some(details),
            ..self
        }
    }

    /// The same, saying that it may succeed later.
    #[must_use]
    pub fn retryable(self, after_ms: Option<i64>) -> Self {
        Self {
            retryable: Some(true),
            retry_after_ms: after_ms,
            ..self
        }
    }

    /// The code inside the details, which the present generation goes by.
    pub fn detail_code(&self) -> Option<&str> {
        self.details.as_ref()?.get("code")?.as_str()
    }

    fn of(mut fields: Fields) -> Result<Self, ShapeError> {
        let error = Self {
            code: fields.text("code", MAX_NAME)?,
            message: fields.text("message", MAX_MESSAGE)?,
            details: fields.take("details"),
            retryable: match fields.take("retryable") {
                None => None,
                Some(Value::Bool(retryable)) => Some(retryable),
                Some(_other) => return Err(fields.wrong("retryable", "must be boolean")),
            },
            retry_after_ms: fields.optional_integer("retryAfterMs")?,
        };
        fields.finish()?;
        Ok(error)
    }

    fn to_value(&self) -> Value {
        let mut members = Map::new();
        members.insert("code".to_owned(), self.code.as_str().into());
        members.insert("message".to_owned(), self.message.as_str().into());
        if let Some(details) = &self.details {
            members.insert("details".to_owned(), details.clone());
        }
        if let Some(retryable) = self.retryable {
            members.insert("retryable".to_owned(), retryable.into());
        }
        if let Some(after) = self.retry_after_ms {
            members.insert("retryAfterMs".to_owned(), after.into());
        }
        Value::Object(members)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn refused(value: Value, expect: &str) {
        let error = Frame::of(value).unwrap_err();
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn frames_are_closed() {
        refused(json!([]), "at root: must be object");
        refused(json!({"id": "1"}), "at root: must have required property 'type'");
        refused(
            json!({"type": "ping"}),
            "at /type: must be one of req, res, event",
        );
        refused(
            json!({"type": "req", "id": "", "method": "m"}),
            "at /id: must not have fewer than 1 characters",
        );
        refused(
            json!({"type": "req", "id": "1", "method": "m", "extra": 1}),
            "at root: must not have unexpected properties",
        );
        refused(
            json!({"type": "req", "id": "1", "method": "m", "payload": 1}),
            "at root: must not have unexpected properties",
        );
        refused(
            json!({"type": "res", "id": "1", "ok": 1}),
            "at /ok: must be boolean",
        );
        refused(
            json!({"type": "res", "id": "1", "ok": false, "error": {"code": "A", "message": "m", "x": 1}}),
            "at /error: must not have unexpected properties",
        );
        refused(json!({"type": "event", "event": 1}), "at /event: must be string");
        refused(
            json!({"type": "event", "event": "e", "stateVersion": {"presence": 1}}),
            "at /stateVersion: must have required property 'health'",
        );
        refused(
            json!({"type": "req", "id": "x".repeat(257), "method": "m"}),
            "at /id: must not have more than 256 bytes",
        );
    }

    #[test]
    fn null_is_not_nothing() {
        let value = json!({"type": "req", "id": "1", "method": "m", "params": null});
        let frame = Frame::of(value.clone()).unwrap();
        assert_eq!(frame.to_value(), value);
        let without = json!({"type": "req", "id": "1", "method": "m"});
        assert_ne!(Frame::of(without).unwrap(), frame);
    }

    #[test]
    fn an_oversized_or_ambiguous_text_is_no_frame() {
        let text = r#"{"type":"req","id":"1","method":"m"}"#;
        assert!(Frame::parse(text, text.len()).is_ok());
        assert_eq!(
            Frame::parse(text, text.len() - 1),
            Err(FrameError::Json(JsonError::TooLong))
        );
        let twice = r#"{"type":"req","id":"1","method":"m","method":"n"}"#;
        assert_eq!(
            Frame::parse(twice, 1000),
            Err(FrameError::Json(JsonError::Duplicate))
        );
        let deep = format!(
            r#"{{"type":"req","id":"1","method":"m","params":{}1{}}}"#,
            "[".repeat(80),
            "]".repeat(80)
        );
        assert_eq!(
            Frame::parse(&deep, 1000),
            Err(FrameError::Json(JsonError::TooDeep))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_whole(text in ".{0,200}") {
            if let Ok(frame) = Frame::parse(&text, 1000) {
                prop_assert_eq!(frame.to_value(), serde_json::from_str::<Value>(&text).unwrap());
            }
        }

        #[test]
        fn an_unknown_member_is_never_taken(name in "[a-zA-Z]{1,12}", at in 0..3_usize) {
            const KNOWN: [&[&str]; 3] = [
                &["type", "id", "method", "params", "traceparent", "expectedProfileId"],
                &["type", "id", "ok", "payload", "error"],
                &["type", "event", "payload", "seq", "stateVersion", "recipientProfileId"],
            ];
            let mut value = [
                json!({"type": "req", "id": "1", "method": "m"}),
                json!({"type": "res", "id": "1", "ok": true}),
                json!({"type": "event", "event": "e"}),
            ][at].clone();
            prop_assume!(!KNOWN[at].contains(&name.as_str()));
            value.as_object_mut().unwrap().insert(name, Value::Null);
            prop_assert!(Frame::of(value).is_err());
        }
    }
}
