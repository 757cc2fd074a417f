//! Replies: one line of pure ASCII each, short enough for the smallest reader (`docs/spec/ipc.md#3-framing`,
//! `docs/spec/ipc.md#7-limits`).

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use countersign_domain::ApprovalDecision;

use super::{MAX_LINE_BYTES, MAX_STREAM_BYTES, proof};

/// What stands before the end of an output that was cut.
const CUT_MARK: &str = "... (truncated) ";

/// How a command ended, as the wire has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    /// Its exit code, when it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub exit_code: Option<i64>,
    /// Whether its time limit killed it.
    pub timed_out: bool,
    /// Whether it ended with 0.
    pub success: bool,
    /// Standard output; [`exec_line`] sends the end of it where it does not fit.
    pub stdout: String,
    /// Standard error; [`exec_line`] sends the end of it where it does not fit.
    pub stderr: String,
    /// Why it could not be run to its end.
    #[serde(default)]
    pub error: Option<String>,
}

/// Why a command was not run, as the wire has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// `INVALID_REQUEST` or `UNAVAILABLE`; of other sides, anything.
    pub code: String,
    /// For people; texts of ours are in `docs/spec/ipc.md#6-what-the-server-checks-in-order`.
    pub message: String,
    /// A word for programs, such as `ttl`; other sides may send none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// Why a line is not acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its time is not now.
    Ttl,
    /// Its proof is wrong.
    Hmac,
    /// It has no nonce.
    Nonce,
    /// Its nonce was used before.
    Replay,
    /// It is not what its type says.
    Json,
    /// It cannot be meant.
    Invalid(&'static str),
    /// Its peer asks too much at once, or the memory of nonces is full.
    RateLimit,
    /// Only version 2 is taken here.
    Version,
    /// The security here is `deny`, or this agent may not run commands.
    SecurityDeny,
    /// A deny rule matched.
    Denylist,
    /// A person said no.
    UserDenied,
    /// Nothing covers it, and nobody is to be asked.
    AllowlistMiss,
    /// The question ended without an answer.
    ApprovalCancelled,
    /// What was approved is no longer what would run.
    BindingMismatch,
    /// It wants to see a screen.
    ScreenRecording,
    /// It cannot be run at present.
    Unavailable(&'static str),
}

impl Refusal {
    /// What the wire says of it.
    pub fn to_body(self) -> ErrorBody {
        let invalid = |reason: &'static str, message: &'static str| ("INVALID_REQUEST", reason, message);
        let unavailable = |reason: &'static str, message: &'static str| ("UNAVAILABLE", reason, message);
        let (code, reason, message) = match self {
            Self::Ttl => invalid("ttl", "expired request"),
            Self::Hmac => invalid("hmac", "invalid auth"),
            Self::Nonce => invalid("nonce", "invalid nonce"),
            Self::Replay => invalid("replay", "replayed request"),
            Self::Json => invalid("json", "invalid payload"),
            Self::Invalid(message) => invalid("invalid", message),
            Self::Version => invalid("version", "only version 2 is accepted here"),
            Self::RateLimit => unavailable("rate-limit", "rate limited"),
            Self::SecurityDeny => unavailable("security=deny", "SYSTEM_RUN_DISABLED: security=deny"),
            Self::Denylist => unavailable("denylist", "SYSTEM_RUN_DENIED: a deny rule matched"),
            Self::UserDenied => unavailable("user-denied", "SYSTEM_RUN_DENIED: user denied"),
            Self::AllowlistMiss => unavailable("allowlist-miss", "SYSTEM_RUN_DENIED: allowlist miss"),
            Self::ApprovalCancelled => unavailable(
                "approval-cancelled",
                "SYSTEM_RUN_DENIED: approval prompt closed without decision",
            ),
            Self::BindingMismatch => unavailable(
                "execution-plan-miss",
                "SYSTEM_RUN_DENIED: what was approved is no longer what would run",
            ),
            Self::ScreenRecording => unavailable(
                "permission:screenRecording",
                "PERMISSION_MISSING: screenRecording",
            ),
            Self::Unavailable(message) => unavailable("unavailable", message),
        };
        ErrorBody {
            code: code.to_owned(),
            message: message.to_owned(),
            reason: Some(reason.to_owned()),
        }
    }
}

/// The lines that are sent before the connection is closed. Mostly one; none where the host stays silent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replies(Vec<String>);

impl Replies {
    /// One line.
    pub fn one(line: String) -> Self {
        Self(vec![line])
    }

    /// The lines, without their newlines.
    pub fn lines(&self) -> &[String] {
        &self.0
    }

    /// All lines as they are sent, each with its newline.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|line| line.bytes().chain(*b"\n"))
            .collect()
    }
}

/// The reply to a question.
pub fn decision_line(id: &str, decision: ApprovalDecision) -> String {
    #[expect(clippy::struct_field_names, reason = "the names of the wire")]
    #[derive(Serialize)]
    struct Decision<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        id: &'a str,
        decision: &'static str,
    }

    ascii(&Decision {
        kind: "decision",
        id,
        decision: decision.as_str(),
    })
}

/// The reply to a wish to run something. Output that does not fit is cut to its end.
pub fn exec_line(id: &str, outcome: Result<&Payload, &ErrorBody>) -> String {
    #[derive(Serialize)]
    struct Done<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        id: &'a str,
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        payload: Option<&'a Payload>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorBody>,
    }

    let line = |payload: Option<&Payload>, error: Option<&ErrorBody>| {
        ascii(&Done {
            kind: "exec-res",
            id,
            ok: error.is_none(),
            payload,
            error,
        })
    };
    let payload = match outcome {
        Err(error) => return line(None, Some(error)),
        Ok(payload) => payload,
    };
    let mut limit = MAX_STREAM_BYTES;
    loop {
        let cut_payload = Payload {
            stdout: cut(&payload.stdout, limit),
            stderr: cut(&payload.stderr, limit),
            ..payload.clone()
        };
        let line = line(Some(&cut_payload), None);
        // Mostly escapes: what is left of it shrinks until it fits. An id fills a line by itself at worst.
        if line.len() <= MAX_LINE_BYTES || limit <= CUT_MARK.len() {
            return line;
        }
        limit /= 2;
    }
}

/// What is sent for a line whose kind cannot be known, so that it does not end in silence
/// (`docs/spec/ipc.md#7-limits`).
pub fn pair(reason: &'static str) -> Replies {
    let error = ErrorBody {
        code: "INVALID_REQUEST".to_owned(),
        message: "unreadable request".to_owned(),
        reason: Some(reason.to_owned()),
    };
    pair_of(&error)
}

pub(super) fn pair_of(error: &ErrorBody) -> Replies {
    Replies(vec![
        decision_line("", ApprovalDecision::Deny),
        exec_line("", Err(error)),
    ])
}

/// What a peer of another account is told before anything is read of it. `id` is a fresh one.
pub fn peer_refusal(id: &str) -> Replies {
    let error = ErrorBody {
        code: "INVALID_REQUEST".to_owned(),
        message: "unreadable request".to_owned(),
        reason: Some("peer".to_owned()),
    };
    Replies(vec![
        decision_line(id, ApprovalDecision::Deny),
        exec_line("", Err(&error)),
    ])
}

/// A reply of version 2: the usual one as a string, with the proof that it is ours.
pub(super) fn sealed(kind: &'static str, id: &str, body: &str, token: &str, server_nonce: &str) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Sealed<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        id: &'a str,
        body_json: &'a str,
        proof: String,
    }

    ascii(&Sealed {
        kind,
        id,
        body_json: body,
        proof: proof::prove(token, &["countersign-ipc/2:reply:", server_nonce, ":", body]),
    })
}

/// The last bytes of a text, with a mark before them where some are left out.
fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut start = text.len() - limit.saturating_sub(CUT_MARK.len()).min(text.len());
    while !text.is_char_boundary(start) {
        start += 1;
    }
    format!("{CUT_MARK}{}", text.get(start..).unwrap_or_default())
}

/// JSON in which every other character is escaped: the first runner breaks characters that are cut between two reads.
pub(super) fn ascii(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("plain data is JSON");
    if json.is_ascii() {
        return json;
    }
    let mut line = String::with_capacity(json.len() * 2);
    for character in json.chars() {
        if character.is_ascii() {
            line.push(character);
            continue;
        }
        // Outside of strings JSON is ASCII, so every other character may be escaped.
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(line, "\\u{unit:04x}").expect("writing to a String cannot fail");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(stdout: String, stderr: String) -> Payload {
        Payload {
            exit_code: Some(0),
            success: true,
            stdout,
            stderr,
            ..Payload::default()
        }
    }

    #[track_caller]
    fn reread(line: &str) -> serde_json::Value {
        assert!(
            line.is_ascii() && !line.contains('\n') && line.len() <= MAX_LINE_BYTES,
            "{}",
            line.len()
        );
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn replies_are_ascii_and_say_the_same() {
        let line = exec_line(
            "i\u{1F600}\u{202E}",
            Ok(&ran("é€😀\n\u{2028}\u{0}".to_owned(), String::new())),
        );
        let value = reread(&line);
        assert_eq!(value["id"], "i\u{1F600}\u{202E}");
        assert_eq!(value["payload"]["stdout"], "é€😀\n\u{2028}\u{0}");
        assert_eq!(
            decision_line("x", ApprovalDecision::Deny),
            r#"{"type":"decision","id":"x","decision":"deny"}"#
        );
    }

    #[test]
    fn long_output_is_cut_to_its_end() {
        let text = format!("{}END", "x".repeat(100_000));
        let value = reread(&exec_line("i", Ok(&ran(text, "short".to_owned()))));
        let stdout = value["payload"]["stdout"].as_str().unwrap();
        assert_eq!(stdout.len(), MAX_STREAM_BYTES);
        assert!(stdout.starts_with("... (truncated) x") && stdout.ends_with("xEND"));
        assert_eq!(value["payload"]["stderr"], "short");
        let exact = "y".repeat(MAX_STREAM_BYTES);
        assert_eq!(
            reread(&exec_line("i", Ok(&ran(exact.clone(), String::new()))))["payload"]["stdout"],
            exact
        );
    }

    #[test]
    fn output_that_is_mostly_escapes_fits_all_the_same() {
        for character in ["\u{1}", "é", "😀", "\""] {
            let text = character.repeat(200_000);
            let value = reread(&exec_line("i", Ok(&ran(text.clone(), text))));
            let stdout = value["payload"]["stdout"].as_str().unwrap();
            assert!(stdout.starts_with(CUT_MARK) && stdout.ends_with(character));
        }
    }
}
