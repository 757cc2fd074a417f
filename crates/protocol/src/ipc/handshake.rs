//! Version 2, between two of ours (`docs/spec/ipc.md#8-beyond-the-product`): the token never travels, both sides prove
//! that they know it, and a challenge is used once.

use serde::{Deserialize, Serialize};

use countersign_domain::{ApprovalDecision, UnixMillis};

use super::{
    MAX_LINE_BYTES, TTL_MS,
    check::{self, LineOutcome},
    envelope::{Kind, Line},
    expected::Expected,
    hello::Hello,
    order::Question,
    proof,
    reply::{self, Refusal, Replies},
};

/// A line of any kind.
#[derive(Deserialize)]
struct AnyKind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ChallengeMembers {
    #[serde(rename = "type")]
    kind: String,
    v: u8,
    id: String,
    server_nonce: String,
    ttl_ms: u64,
    max_bytes: usize,
    proof: String,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct SecondMembers {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    ts: i64,
    request_json: String,
    hmac: String,
}

/// Why a handshake does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// What came is no challenge.
    #[error("what came is no challenge")]
    NotKnown,
    /// It answered with a challenge, without knowing the token.
    #[error("the peer does not know the token")]
    Impostor,
}

/// The side that is asked, after an opening: it has sent its challenge and takes one line.
#[derive(Debug)]
pub struct Handshake {
    hello: Hello,
    server_nonce: String,
    issued_at: UnixMillis,
}

/// What the line after a challenge came to, and how its reply is sealed.
#[derive(Debug)]
pub struct Opened {
    outcome: LineOutcome,
    seal: Seal,
}

/// How the reply to a line of version 2 is sealed.
#[derive(Debug)]
pub struct Seal {
    kind: Kind,
    id: String,
    server_nonce: String,
}

impl Handshake {
    /// Takes an opening up, and gives the line with the challenge. `server_nonce`: 32 hex digits that nobody can guess.
    pub fn open(hello: Hello, server_nonce: String, token: &str, now: UnixMillis) -> (Self, String) {
        let line = reply::ascii(&ChallengeMembers {
            kind: "challenge".to_owned(),
            v: 2,
            id: hello.id.clone(),
            proof: server_proof(token, &hello, &server_nonce),
            server_nonce: server_nonce.clone(),
            ttl_ms: TTL_MS,
            max_bytes: MAX_LINE_BYTES,
        });
        let handshake = Self {
            hello,
            server_nonce,
            issued_at: now,
        };
        (handshake, line)
    }

    /// Verifies the line that answers the challenge. There is no second one.
    pub fn verify(self, bytes: &[u8], token: &str, now: UnixMillis) -> Opened {
        let Self {
            hello,
            server_nonce,
            issued_at,
        } = self;
        let opened = |outcome, kind, id: &str| Opened {
            outcome,
            seal: Seal {
                kind,
                id: id.to_owned(),
                server_nonce: server_nonce.clone(),
            },
        };
        let unknown = || opened(LineOutcome::Refused(check::unknown()), Kind::Hello, "");
        let Some(line) = Line::parse(bytes) else {
            return unknown();
        };
        let kind = line.kind;
        if !matches!(kind, Kind::Exec2 | Kind::Request2) {
            return unknown();
        }
        let refuse = |id: &str, refusal: Refusal| {
            let reply = match kind {
                Kind::Exec2 => reply::exec_line(id, Err(&refusal.to_body())),
                Kind::Request2 | Kind::Exec | Kind::Request | Kind::Hello => {
                    reply::decision_line(id, ApprovalDecision::Deny)
                }
            };
            opened(LineOutcome::Refused(Replies::one(reply)), kind, id)
        };
        let Some(second) = line.members::<SecondMembers>() else {
            return refuse(line.id.as_deref().unwrap_or_default(), Refusal::Json);
        };
        let SecondMembers {
            kind: _,
            id,
            ts,
            request_json,
            hmac,
        } = second;
        let is_in_time = check::is_fresh(ts, now) && now.get().abs_diff(issued_at.get()) <= TTL_MS;
        if !is_in_time {
            return refuse(&id, Refusal::Ttl);
        }
        let parts = Parts {
            kind,
            id: &id,
            hello: &hello,
            server_nonce: &server_nonce,
            ts: &ts.to_string(),
            request_json: &request_json,
        };
        if !proof::proves(token, &parts.joined(), &hmac) {
            return refuse(&id, Refusal::Hmac);
        }
        match kind {
            Kind::Exec2 => match check::read_order(&request_json) {
                Ok(order) => opened(
                    LineOutcome::Exec {
                        id: id.clone(),
                        order: Box::new(order),
                    },
                    kind,
                    &id,
                ),
                Err(refusal) => refuse(&id, refusal),
            },
            Kind::Request2 | Kind::Exec | Kind::Request | Kind::Hello => match Question::parse(&request_json)
            {
                Some(question) => opened(
                    LineOutcome::Ask {
                        id: id.clone(),
                        question: Box::new(question),
                    },
                    kind,
                    &id,
                ),
                None => refuse(&id, Refusal::Json),
            },
        }
    }
}

impl Opened {
    /// What to do, and how the reply is sealed.
    pub fn into_parts(self) -> (LineOutcome, Seal) {
        (self.outcome, self.seal)
    }
}

impl Seal {
    /// The usual reply with the proof that it is ours. Where the kind never became known it stays as it is.
    pub fn seal(&self, line: &str, token: &str) -> String {
        match self.kind {
            Kind::Exec2 => reply::sealed("exec-res", &self.id, line, token, &self.server_nonce),
            Kind::Request2 => reply::sealed("decision", &self.id, line, token, &self.server_nonce),
            Kind::Exec | Kind::Request | Kind::Hello => line.to_owned(),
        }
    }
}

/// The side that asks, after a challenge that proved that the peer knows the token.
#[derive(Debug)]
pub struct Challenge {
    hello: Hello,
    server_nonce: String,
}

impl Challenge {
    /// Reads what came for an opening.
    ///
    /// # Errors
    /// [`HandshakeError`]: a challenge without its proof is none of a peer that knows the token.
    pub fn parse(bytes: &[u8], hello: Hello, token: &str) -> Result<Self, HandshakeError> {
        let kind: AnyKind = serde_json::from_slice(bytes).map_err(|_not_ours| HandshakeError::NotKnown)?;
        if kind.kind != "challenge" {
            return Err(HandshakeError::NotKnown);
        }
        let members: ChallengeMembers =
            serde_json::from_slice(bytes).map_err(|_no_proof| HandshakeError::Impostor)?;
        let proof = server_proof(token, &hello, &members.server_nonce);
        if members.v != 2 || members.id != hello.id || !proof::is_same(&proof, &members.proof) {
            return Err(HandshakeError::Impostor);
        }
        Ok(Self {
            hello,
            server_nonce: members.server_nonce,
        })
    }

    /// The line that asks to run something.
    pub fn exec_line(&self, id: &str, now: UnixMillis, request_json: &str, token: &str) -> String {
        self.line(Kind::Exec2, id, now, request_json, token)
    }

    /// The line that asks for an answer.
    pub fn request_line(&self, id: &str, now: UnixMillis, request_json: &str, token: &str) -> String {
        self.line(Kind::Request2, id, now, request_json, token)
    }

    /// How the reply is read.
    pub fn expected(&self, id: String, token: String) -> Expected {
        Expected::proven(id, token, self.server_nonce.clone())
    }

    fn line(&self, kind: Kind, id: &str, now: UnixMillis, request_json: &str, token: &str) -> String {
        let ts = now.get().to_string();
        let parts = Parts {
            kind,
            id,
            hello: &self.hello,
            server_nonce: &self.server_nonce,
            ts: &ts,
            request_json,
        };
        reply::ascii(&SecondMembers {
            kind: kind.as_str().to_owned(),
            id: id.to_owned(),
            ts: now.get(),
            hmac: proof::prove(token, &parts.joined()),
            request_json: request_json.to_owned(),
        })
    }
}

/// What the second line proves.
struct Parts<'a> {
    kind: Kind,
    id: &'a str,
    hello: &'a Hello,
    server_nonce: &'a str,
    ts: &'a str,
    request_json: &'a str,
}

impl<'a> Parts<'a> {
    fn joined(&self) -> [&'a str; 12] {
        [
            "countersign-ipc/2:",
            self.kind.as_str(),
            ":",
            self.id,
            ":",
            &self.hello.client_nonce,
            ":",
            self.server_nonce,
            ":",
            self.ts,
            ":",
            self.request_json,
        ]
    }
}

fn server_proof(token: &str, hello: &Hello, server_nonce: &str) -> String {
    proof::prove(
        token,
        &[
            "countersign-ipc/2:server:",
            &hello.id,
            ":",
            &hello.client_nonce,
            ":",
            server_nonce,
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::{super::ExecAnswer, *};

    const TOKEN: &str = "tok-1";
    const NOW: UnixMillis = UnixMillis::new(1_000_000);

    fn hello() -> Hello {
        Hello::new("i-1".to_owned(), "0123456789abcdef0123456789abcdef".to_owned())
    }

    fn begin(token: &str) -> (Handshake, Result<Challenge, HandshakeError>) {
        let opening = hello().line(NOW);
        let line = Line::parse(opening.as_bytes()).unwrap();
        let nonce = "f".repeat(32);
        let (handshake, challenge) = Handshake::open(Hello::parse(&line).unwrap(), nonce, token, NOW);
        (handshake, Challenge::parse(challenge.as_bytes(), hello(), TOKEN))
    }

    #[test]
    fn both_sides_prove_that_they_know_the_token() {
        let (handshake, challenge) = begin(TOKEN);
        let challenge = challenge.unwrap();
        let line = challenge.exec_line("j-1", NOW, r#"{"command":["ls"]}"#, TOKEN);
        assert!(!line.contains(TOKEN));
        let opened = handshake.verify(line.as_bytes(), TOKEN, NOW);
        let LineOutcome::Exec { id, order } = &opened.outcome else {
            panic!("{opened:?}")
        };
        assert_eq!(
            (id.as_str(), order.argv.as_slice()),
            ("j-1", ["ls".to_owned()].as_slice())
        );
        let error = Refusal::UserDenied.to_body();
        let reply = opened.seal.seal(&reply::exec_line("j-1", Err(&error)), TOKEN);
        let expected = challenge.expected("j-1".to_owned(), TOKEN.to_owned());
        assert_eq!(expected.exec(reply.as_bytes()), Some(ExecAnswer::Refused(error)));
    }

    #[test]
    fn a_server_that_does_not_know_the_token_is_an_impostor() {
        assert_eq!(begin("another").1.unwrap_err(), HandshakeError::Impostor);
        let parse = |line: &str| Challenge::parse(line.as_bytes(), hello(), TOKEN).unwrap_err();
        assert_eq!(parse(""), HandshakeError::NotKnown);
        assert_eq!(
            parse(r#"{"type":"decision","id":"","decision":"deny"}"#),
            HandshakeError::NotKnown
        );
        let foreign = Handshake::open(
            Hello::new("i-2".to_owned(), "0".repeat(32)),
            "f".repeat(32),
            TOKEN,
            NOW,
        );
        assert_eq!(parse(&foreign.1), HandshakeError::Impostor);
    }

    #[test]
    fn a_line_counts_for_its_own_challenge_in_its_time_only() {
        let line = begin(TOKEN)
            .1
            .unwrap()
            .request_line("j", NOW, r#"{"command":"ls"}"#, TOKEN);
        let verify =
            |handshake: Handshake, line: &str, now| handshake.verify(line.as_bytes(), TOKEN, now).outcome;
        assert!(matches!(
            verify(begin(TOKEN).0, &line, NOW),
            LineOutcome::Ask { .. }
        ));
        let denied = LineOutcome::Refused(Replies::one(reply::decision_line("j", ApprovalDecision::Deny)));
        let later = UnixMillis::new(NOW.get() + 10_001);
        assert_eq!(verify(begin(TOKEN).0, &line, later), denied);
        let (other, _line) = Handshake::open(hello(), "e".repeat(32), TOKEN, NOW);
        assert_eq!(verify(other, &line, NOW), denied);
        let forged = line.replace("request2", "exec2");
        let LineOutcome::Refused(replies) = verify(begin(TOKEN).0, &forged, NOW) else {
            panic!()
        };
        assert!(replies.lines()[0].contains("hmac"), "{replies:?}");
        let plain = r#"{"type":"request","token":"tok-1","id":"x","request":{"command":"ls"}}"#;
        assert_eq!(
            verify(begin(TOKEN).0, plain, NOW),
            LineOutcome::Refused(check::unknown())
        );
    }

    #[test]
    fn an_allow_without_its_proof_is_none() {
        let challenge = begin(TOKEN).1.unwrap();
        let expected = challenge.expected("j".to_owned(), TOKEN.to_owned());
        let allow = reply::decision_line("j", ApprovalDecision::AllowOnce);
        let sealed = |token: &str, nonce: &str| reply::sealed("decision", "j", &allow, token, nonce);
        assert_eq!(
            expected.decision(sealed(TOKEN, &"f".repeat(32)).as_bytes()),
            Some(ApprovalDecision::AllowOnce)
        );
        for wrong in [
            allow.clone(),
            sealed("other", &"f".repeat(32)),
            sealed(TOKEN, &"e".repeat(32)),
            sealed(TOKEN, &"f".repeat(32)).replace("allow-once", "allow-always"),
        ] {
            assert_eq!(expected.decision(wrong.as_bytes()), None, "{wrong}");
        }
        let deny = reply::decision_line("other", ApprovalDecision::Deny);
        assert_eq!(expected.decision(deny.as_bytes()), Some(ApprovalDecision::Deny));
    }
}
