//! What a gateway says first, and what it answers to a `connect` that it takes (`docs/spec/bridge.md#3-handshake` and
//! `docs/spec/bridge.md#6-hello-ok`).

use serde_json::{Map, Value, json};

use super::{fields::as_integer, frame::Event};

/// The event that opens a connection.
pub const CHALLENGE_EVENT: &str = "connect.challenge";
/// The event that says that the gateway lives.
pub const TICK_EVENT: &str = "tick";
/// The event that says that the gateway goes.
pub const SHUTDOWN_EVENT: &str = "shutdown";
/// What our own server says among `features.capabilities`.
pub const OUR_CAPABILITY: &str = "countersign";

/// The payload of `connect.challenge`, which a gateway sends first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// What a device signs.
    pub nonce: String,
    /// The gateway's time in Unix milliseconds.
    pub ts: Option<i64>,
}

impl Challenge {
    /// The event that carries it.
    pub fn to_event(&self) -> Event {
        Event::new(CHALLENGE_EVENT, json!({"nonce": self.nonce, "ts": self.ts}))
    }

    /// Reads the payload of the event; `None` without a usable nonce.
    pub fn parse(payload: &Value) -> Option<Self> {
        let nonce = payload
            .get("nonce")?
            .as_str()
            .filter(|nonce| !nonce.is_empty() && nonce.len() <= 256)?;
        Some(Self {
            nonce: nonce.to_owned(),
            ts: payload.get("ts").and_then(as_integer),
        })
    }
}

/// The answer to a `connect` that is taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HelloOk {
    /// The protocol that is spoken from now on.
    pub protocol: i64,
    /// Version of the gateway, for people; empty when it sends none.
    pub server_version: String,
    /// The gateway's random name for this connection; empty when it sends none.
    pub connection_id: String,
    /// What may be asked.
    pub methods: Vec<String>,
    /// What may be told.
    pub events: Vec<String>,
    /// What else the gateway can do.
    pub capabilities: Vec<String>,
    /// How long the gateway has been up.
    pub uptime_ms: i64,
    /// What the client is from now on.
    pub auth: HelloAuth,
    /// Longest message that the gateway takes.
    pub max_payload: i64,
    /// Most bytes that wait for the client before it is cut off.
    pub max_buffered_bytes: i64,
    /// How often it ticks.
    pub tick_interval_ms: i64,
}

/// What a client is from now on.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct HelloAuth {
    /// The token to come back with.
    pub device_token: Option<String>,
    /// `operator` or `node`; empty when a gateway sends none.
    pub role: String,
    /// Scopes that the gateway granted; a node keeps them with its token.
    pub scopes: Vec<String>,
    /// When the token was made.
    pub issued_at_ms: Option<i64>,
}

impl std::fmt::Debug for HelloAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelloAuth")
            .field("role", &self.role)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl HelloOk {
    /// The payload of the answer: the gateway's half of [`HelloOk::parse`].
    pub fn to_value(&self) -> Value {
        let Self {
            protocol,
            server_version,
            connection_id,
            methods,
            events,
            capabilities,
            uptime_ms,
            auth,
            max_payload,
            max_buffered_bytes,
            tick_interval_ms,
        } = self;
        json!({
            "type": "hello-ok",
            "protocol": protocol,
            "server": {"version": server_version, "connId": connection_id},
            "features": {"methods": methods, "events": events, "capabilities": capabilities},
            "snapshot": {
                "presence": [],
                "health": {},
                "stateVersion": {"presence": 0, "health": 0},
                "uptimeMs": uptime_ms,
            },
            "auth": auth.to_value(),
            "policy": {
                "maxPayload": max_payload,
                "maxBufferedBytes": max_buffered_bytes,
                "tickIntervalMs": tick_interval_ms,
            },
        })
    }

    /// Reads what a client goes by; everything else may be missing. `None` when it is no hello.
    pub fn parse(payload: &Value) -> Option<Self> {
        if payload.get("type")?.as_str()? != "hello-ok" {
            return None;
        }
        let text = |pointer: &str| {
            payload
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let number = |pointer: &str| payload.pointer(pointer).and_then(as_integer).unwrap_or(0);
        Some(Self {
            protocol: payload.get("protocol").and_then(as_integer)?,
            server_version: text("/server/version"),
            connection_id: text("/server/connId"),
            methods: texts(payload.pointer("/features/methods")),
            events: texts(payload.pointer("/features/events")),
            capabilities: texts(payload.pointer("/features/capabilities")),
            uptime_ms: number("/snapshot/uptimeMs"),
            auth: HelloAuth {
                device_token: payload
                    .pointer("/auth/deviceToken")
                    .and_then(Value::as_str)
                    .filter(|token| !token.is_empty())
                    .map(str::to_owned),
                role: text("/auth/role"),
                scopes: texts(payload.pointer("/auth/scopes")),
                issued_at_ms: payload.pointer("/auth/issuedAtMs").and_then(as_integer),
            },
            max_payload: number("/policy/maxPayload"),
            max_buffered_bytes: number("/policy/maxBufferedBytes"),
            tick_interval_ms: number("/policy/tickIntervalMs"),
        })
    }
}

impl HelloAuth {
    fn to_value(&self) -> Value {
        let mut members = Map::new();
        if let Some(token) = &self.device_token {
            members.insert("deviceToken".to_owned(), token.as_str().into());
        }
        members.insert("role".to_owned(), self.role.as_str().into());
        members.insert("scopes".to_owned(), json!(self.scopes));
        if let Some(issued) = self.issued_at_ms {
            members.insert("issuedAtMs".to_owned(), issued.into());
        }
        Value::Object(members)
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_read_as_it_was_written() {
        let hello = HelloOk {
            protocol: 4,
            server_version: "1.2.3".to_owned(),
            connection_id: "c".to_owned(),
            methods: vec!["m".to_owned()],
            events: vec!["e".to_owned()],
            capabilities: vec![OUR_CAPABILITY.to_owned()],
            uptime_ms: 7,
            auth: HelloAuth {
                device_token: Some("t".to_owned()),
                role: "node".to_owned(),
                scopes: vec![],
                issued_at_ms: Some(9),
            },
            max_payload: 1,
            max_buffered_bytes: 2,
            tick_interval_ms: 3,
        };
        assert_eq!(HelloOk::parse(&hello.to_value()), Some(hello.clone()));
        assert!(!format!("{hello:?}").contains("\"t\""));
    }

    #[test]
    fn a_challenge_needs_a_nonce() {
        let challenge = Challenge {
            nonce: "n".to_owned(),
            ts: Some(1),
        };
        assert_eq!(
            Challenge::parse(&challenge.to_event().payload.unwrap()),
            Some(challenge)
        );
        assert_eq!(Challenge::parse(&json!({"ts": 1})), None);
        assert_eq!(Challenge::parse(&json!({"nonce": ""})), None);
        assert_eq!(
            Challenge::parse(&json!({"nonce": "n", "ts": "1"})).unwrap().ts,
            None
        );
    }
}
