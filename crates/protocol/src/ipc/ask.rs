//! The lines of the side that asks, in the plain form.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use countersign_domain::{ApprovalDecision, Ask, Host, Security, UnixMillis};

use super::{proof, reply};

/// `requestJson` of a wish to run something, with the members and in the order of the product's runners.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutgoingOrder {
    /// The arguments, the program first.
    pub command: Vec<String>,
    /// What the person typed.
    pub raw_command: Option<String>,
    /// Working directory of the command; `None` where the asker names none.
    pub cwd: Option<String>,
    /// Overrides of the environment; `None` for none.
    pub env: Option<BTreeMap<String, String>>,
    /// Time limit; always given, since a peer without one outlives the wait.
    pub timeout_ms: u64,
    /// Wants to see the screen.
    pub needs_screen_recording: Option<bool>,
    /// Agent that asks; a host of ours takes that of the session for `None`, else `main`.
    pub agent_id: Option<String>,
    /// Session that asks; a host of ours takes the agent's main session for `None`.
    pub session_key: Option<String>,
    /// What was decided before.
    pub approval_decision: Option<ApprovalDecision>,
}

/// `request` of a question, with the members and in the order of the product's runners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutgoingQuestion {
    /// The command, as the person is to see it.
    pub command: String,
    /// Working directory of the command, as the person is to see it.
    pub cwd: Option<String>,
    /// Where the command would run.
    pub host: Option<Host>,
    /// The security that the asker applies.
    pub security: Option<Security>,
    /// The ask that the asker applies; `always` leaves out allow-always where `allowed_decisions` is `None`.
    pub ask: Option<Ask>,
    /// Agent that asks.
    pub agent_id: Option<String>,
    /// Path of the program, as the person is to see it; `None` where there is no single one.
    pub resolved_path: Option<String>,
    /// Session that asks, as the person is to see it.
    pub session_key: Option<String>,
    /// The answers that are open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_decisions: Option<Vec<ApprovalDecision>>,
}

impl OutgoingOrder {
    /// Its text: what is proved and what is sent are these bytes.
    ///
    /// # Panics
    /// Never: it is plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data is JSON")
    }
}

impl OutgoingQuestion {
    /// Its text.
    ///
    /// # Panics
    /// Never: it is plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data is JSON")
    }
}

/// The line that asks to run something. `nonce`: 32 hex digits that were never used.
pub fn plain_exec_line(id: &str, nonce: &str, now: UnixMillis, request_json: &str, token: &str) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Exec<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        id: &'a str,
        nonce: &'a str,
        ts: i64,
        hmac: String,
        request_json: &'a str,
    }

    let ts = now.get();
    reply::ascii(&Exec {
        kind: "exec",
        id,
        nonce,
        ts,
        hmac: proof::prove(token, &[nonce, ":", &ts.to_string(), ":", request_json]),
        request_json,
    })
}

/// The line that asks for an answer. It carries the token itself.
///
/// # Panics
/// Never: `request_json` of [`OutgoingQuestion::to_json`] is JSON.
pub fn plain_request_line(id: &str, question: &OutgoingQuestion, token: &str) -> String {
    #[expect(clippy::struct_field_names, reason = "the names of the wire")]
    #[derive(Serialize)]
    struct Request<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        token: &'a str,
        id: &'a str,
        request: &'a RawValue,
    }

    let request = RawValue::from_string(question.to_json()).expect("it was JSON when it was made");
    reply::ascii(&Request {
        kind: "request",
        token: token.trim(),
        id,
        request: &request,
    })
}
