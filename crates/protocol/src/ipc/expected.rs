//! The side that asks: what a line is worth that came back (`docs/spec/ipc.md#8-beyond-the-product`).
//!
//! Lines that are nothing of what is expected are skipped. When the stream ends without one that counts, a question has
//! no answer, and the outcome of a run is unknown: it must not be run again.

use std::fmt;

use serde::{
    Deserialize, Deserializer as _,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use countersign_domain::ApprovalDecision;

use super::{
    proof,
    reply::{ErrorBody, Payload},
    unique,
};

/// What is waited for.
#[derive(Debug)]
pub struct Expected {
    id: String,
    proof: Option<ReplyProof>,
}

struct ReplyProof {
    token: String,
    server_nonce: String,
}

impl fmt::Debug for ReplyProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyProof(..)")
    }
}

/// What became of a wish to run something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecAnswer {
    /// It was run, and ended like this.
    Ran(Payload),
    /// It was not run. A refusal needs neither id nor proof.
    Refused(ErrorBody),
}

#[derive(Deserialize)]
struct Members {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    decision: Option<String>,
    ok: Option<bool>,
    payload: Option<Payload>,
    error: Option<ErrorBody>,
    #[serde(rename = "bodyJson")]
    body_json: Option<String>,
    proof: Option<String>,
}

impl Expected {
    /// A reply of the plain form.
    pub const fn plain(id: String) -> Self {
        Self { id, proof: None }
    }

    pub(super) const fn proven(id: String, token: String, server_nonce: String) -> Self {
        Self {
            id,
            proof: Some(ReplyProof { token, server_nonce }),
        }
    }

    /// The decision that a line brings, if it brings a valid one. An allow is valid only under our id and with its proof.
    /// A deny is always valid, no matter what else the line says. An unknown word is a deny.
    pub fn decision(&self, line: &[u8]) -> Option<ApprovalDecision> {
        if Said::parse(std::str::from_utf8(line).ok()?)?.is_deny() {
            return Some(ApprovalDecision::Deny);
        }
        let (members, is_proven) = self.members(line)?;
        if members.kind != "decision" || !is_proven || members.id.as_deref() != Some(self.id.as_str()) {
            return None;
        }
        members.decision?.parse().ok()
    }

    /// What a line says about the run, if it says something that counts: a result under our id and with its proof, a
    /// refusal in any case.
    pub fn exec(&self, line: &[u8]) -> Option<ExecAnswer> {
        let (members, is_proven) = self.members(line)?;
        if members.kind != "exec-res" {
            return None;
        }
        match members.ok? {
            true if is_proven && members.id.as_deref() == Some(self.id.as_str()) => {
                members.payload.map(ExecAnswer::Ran)
            }
            true => None,
            false => members.error.map(ExecAnswer::Refused),
        }
    }

    /// The reply itself, taken out of its seal where it has one, and whether it is as genuine as this connection is.
    fn members(&self, line: &[u8]) -> Option<(Members, bool)> {
        let outer = parse(std::str::from_utf8(line).ok()?)?;
        match (&self.proof, &outer.body_json, &outer.proof) {
            (None, _, _) => Some((outer, true)),
            (Some(expected), Some(body), Some(given)) => {
                let parts = [
                    "countersign-ipc/2:reply:",
                    expected.server_nonce.as_str(),
                    ":",
                    body.as_str(),
                ];
                let is_proven = proof::proves(&expected.token, &parts, given);
                Some((parse(body)?, is_proven))
            }
            (Some(_), _, _) => Some((outer, false)),
        }
    }
}

/// What a line says in its decisions, read so that nothing else in it can hide a deny.
#[derive(Default)]
struct Said {
    is_decision: bool,
    denies: bool,
    body: Option<String>,
}

impl Said {
    fn parse(text: &str) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_str(text.trim());
        json.deserialize_map(SaidVisitor).ok()
    }

    /// A decision under a seal counts as one without it.
    fn is_deny(&self) -> bool {
        (self.is_decision && self.denies)
            || self
                .body
                .as_deref()
                .and_then(Self::parse)
                .is_some_and(|body| body.is_decision && body.denies)
    }
}

struct SaidVisitor;

impl<'de> Visitor<'de> for SaidVisitor {
    type Value = Said;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Said, A::Error> {
        let word = |value: &RawValue| serde_json::from_str::<String>(value.get()).ok();
        let mut said = Said::default();
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "type" => {
                    let kind = word(members.next_value()?);
                    said.is_decision |= kind.as_deref() == Some("decision");
                }
                "decision" => {
                    let decision = word(members.next_value()?).and_then(|word| word.parse().ok());
                    said.denies |= !matches!(
                        decision,
                        Some(ApprovalDecision::AllowOnce | ApprovalDecision::AllowAlways)
                    );
                }
                "bodyJson" => said.body = word(members.next_value()?),
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(said)
    }
}

fn parse(text: &str) -> Option<Members> {
    let text = text.trim();
    if !unique::is_unambiguous(text) {
        return None;
    }
    serde_json::from_str(text).ok()
}
