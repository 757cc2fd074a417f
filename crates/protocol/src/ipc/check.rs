//! The side that is asked: what a line comes to, checked in the order that the wire shows
//! (`docs/spec/ipc.md#6-what-the-server-checks-in-order`).

use serde::Deserialize;
use serde_json::value::RawValue;

use countersign_domain::{ApprovalDecision, UnixMillis};

use super::{
    NonceMemory, TTL_MS,
    envelope::{Kind, Line},
    hello::Hello,
    nonces::NonceRefused,
    order::{ExecOrder, OrderError, Question},
    proof,
    reply::{self, Refusal, Replies},
};

/// What the settings say of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// The plain form is refused.
    pub require_v2: bool,
}

/// All that a line is verified by.
#[derive(Debug)]
pub struct LineVerifier<'a> {
    /// The token of the document.
    pub token: &'a str,
    /// Time of this side; `ts` of a line may differ from it by 10 seconds.
    pub now: UnixMillis,
    /// When this memory of nonces began: what is older may have counted with one that is gone. Both sides are on one
    /// machine and have one clock, so no genuine line that counted before has a later time.
    pub not_before: UnixMillis,
    /// The nonces of earlier lines.
    pub nonces: &'a mut NonceMemory,
    /// What the settings say.
    pub policy: Policy,
}

/// What a line comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineOutcome {
    /// A genuine wish to run something, for policy to decide on.
    Exec {
        /// Echoed in the reply.
        id: String,
        /// What is to be run.
        order: Box<ExecOrder>,
    },
    /// A genuine question: a person answers, and nothing runs here.
    Ask {
        /// Echoed in the reply.
        id: String,
        /// What the person is asked.
        question: Box<Question>,
    },
    /// The opening of version 2: answer it with a challenge.
    Open(Hello),
    /// Nothing is done: send this and close.
    Refused(Replies),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecEnvelope {
    id: String,
    nonce: String,
    ts: i64,
    hmac: String,
    request_json: String,
}

#[derive(Deserialize)]
struct RequestEnvelope<'a> {
    token: String,
    id: String,
    #[serde(borrow)]
    request: &'a RawValue,
}

impl LineVerifier<'_> {
    /// Verifies the first line of a connection, without its newline.
    pub fn verify(&mut self, bytes: &[u8]) -> LineOutcome {
        let Some(line) = Line::parse(bytes) else {
            return LineOutcome::Refused(unreadable(bytes));
        };
        match line.kind {
            Kind::Exec => self.verify_exec(&line),
            Kind::Request => self.verify_request(&line),
            Kind::Hello => {
                Hello::parse(&line).map_or_else(|| LineOutcome::Refused(unknown()), LineOutcome::Open)
            }
            // They mean something only after a challenge.
            Kind::Exec2 | Kind::Request2 => LineOutcome::Refused(unknown()),
        }
    }

    fn verify_exec(&mut self, line: &Line<'_>) -> LineOutcome {
        let Some(envelope) = line.members::<ExecEnvelope>() else {
            return refuse_shape(line);
        };
        let ExecEnvelope {
            id,
            nonce,
            ts,
            hmac,
            request_json,
        } = envelope;
        match self.check_exec(&nonce, ts, &hmac, &request_json) {
            Ok(order) => LineOutcome::Exec {
                id,
                order: Box::new(order),
            },
            Err(refusal) => refuse_exec(&id, refusal),
        }
    }

    fn check_exec(
        &mut self,
        nonce: &str,
        ts: i64,
        hmac: &str,
        request_json: &str,
    ) -> Result<ExecOrder, Refusal> {
        if self.policy.require_v2 {
            return Err(Refusal::Version);
        }
        if !is_fresh(ts, self.now) || ts < self.not_before.get() {
            return Err(Refusal::Ttl);
        }
        let ts = ts.to_string();
        if !proof::proves(self.token, &[nonce, ":", &ts, ":", request_json], hmac) {
            return Err(Refusal::Hmac);
        }
        if nonce.is_empty() {
            return Err(Refusal::Nonce);
        }
        self.nonces
            .remember(nonce, self.now)
            .map_err(|refused| match refused {
                NonceRefused::Replayed => Refusal::Replay,
                NonceRefused::Full => Refusal::RateLimit,
            })?;
        read_order(request_json)
    }

    fn verify_request(&self, line: &Line<'_>) -> LineOutcome {
        let deny =
            |id: &str| LineOutcome::Refused(Replies::one(reply::decision_line(id, ApprovalDecision::Deny)));
        let echoed = line.id.as_deref().unwrap_or_default();
        let Some(envelope) = line.members::<RequestEnvelope<'_>>() else {
            return deny(echoed);
        };
        let RequestEnvelope { token, id, request } = envelope;
        if self.policy.require_v2 || !proof::is_same(self.token.trim(), &token) {
            return deny(&id);
        }
        match Question::parse(request.get()) {
            Some(question) => LineOutcome::Ask {
                id,
                question: Box::new(question),
            },
            None => deny(&id),
        }
    }
}

/// What is sent for any first line, no matter what it holds.
fn to_everything(bytes: &[u8], refusal: Refusal) -> Replies {
    match Line::parse(bytes) {
        None => unreadable(bytes),
        Some(line) => {
            let id = line.id.as_deref().unwrap_or_default();
            match line.kind {
                Kind::Exec | Kind::Exec2 => Replies::one(reply::exec_line(id, Err(&refusal.to_body()))),
                Kind::Request | Kind::Request2 => {
                    Replies::one(reply::decision_line(id, ApprovalDecision::Deny))
                }
                Kind::Hello => reply::pair_of(&refusal.to_body()),
            }
        }
    }
}

impl Replies {
    /// What is sent for the first line of a peer that nothing is done for, no matter what it wants.
    pub fn to_everything(bytes: &[u8], refusal: Refusal) -> Self {
        to_everything(bytes, refusal)
    }

    /// What is sent where a line was longer than one may be.
    pub fn too_long() -> Self {
        reply::pair("size")
    }
}

/// Whether a time, which may be any 64 bits, is within reach of now.
pub(super) fn is_fresh(ts: i64, now: UnixMillis) -> bool {
    now.get().abs_diff(ts) <= TTL_MS
}

/// Reads what is to be run.
pub(super) fn read_order(request_json: &str) -> Result<ExecOrder, Refusal> {
    let order = ExecOrder::parse(request_json).map_err(|error| match error {
        OrderError::Payload => Refusal::Json,
        OrderError::Invalid(message) => Refusal::Invalid(message),
        OrderError::Denied => Refusal::UserDenied,
    })?;
    if order.needs_screen_recording {
        return Err(Refusal::ScreenRecording);
    }
    Ok(order)
}

pub(super) fn refuse_exec(id: &str, refusal: Refusal) -> LineOutcome {
    LineOutcome::Refused(Replies::one(reply::exec_line(id, Err(&refusal.to_body()))))
}

/// An `exec` line without what one needs.
pub(super) fn refuse_shape(line: &Line<'_>) -> LineOutcome {
    match &line.id {
        Some(id) => refuse_exec(id, Refusal::Json),
        None => LineOutcome::Refused(unknown()),
    }
}

/// A line that is longer than one may be, or no readable text.
fn unreadable(bytes: &[u8]) -> Replies {
    if bytes.len() > super::MAX_LINE_BYTES {
        Replies::too_long()
    } else {
        unknown()
    }
}

/// It may have been a question: silence would let its asker go on without an answer.
pub(super) fn unknown() -> Replies {
    reply::pair("json")
}
