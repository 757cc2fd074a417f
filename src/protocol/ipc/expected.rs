//! The side that asks: what a line is worth that came back (`ipc.md` 8.4, 8.5).
//!
//! Lines that are nothing of what is expected are skipped. When the stream ends without one that counts, a question has
//! no answer, and the outcome of a run is unknown: it must not be run again.

use serde::Deserialize;

use super::{
    proof,
    reply::{ErrorBody, Payload},
    unique,
};
use crate::domain::ApprovalDecision;

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

impl std::fmt::Debug for ReplyProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReplyProof(..)")
    }
}

/// What became of a wish to run something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecAnswer {
    /// It ran.
    Ran(Payload),
    /// It did not.
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

    /// The decision that a line brings, if it brings one that counts. An allow counts under our id and with its proof
    /// only; a deny counts in any case, and so does a word that nobody knows.
    pub fn decision(&self, line: &[u8]) -> Option<ApprovalDecision> {
        let (members, is_proven) = self.members(line)?;
        if members.kind != "decision" {
            return None;
        }
        let word = members.decision?;
        match word.parse() {
            Ok(ApprovalDecision::Deny) | Err(_) => Some(ApprovalDecision::Deny),
            Ok(allow @ (ApprovalDecision::AllowOnce | ApprovalDecision::AllowAlways)) => {
                (is_proven && members.id.as_deref() == Some(self.id.as_str())).then_some(allow)
            }
        }
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

fn parse(text: &str) -> Option<Members> {
    let text = text.trim();
    if !unique::is_unambiguous(text) {
        return None;
    }
    serde_json::from_str(text).ok()
}
