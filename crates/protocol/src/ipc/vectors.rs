//! Every vector of `tests/data/ipc/vectors.json` against the pure functions.

#![expect(clippy::string_slice, reason = "digits of a file that lies beside the tests")]

use serde_json::Value;

use countersign_domain::{ApprovalDecision, UnixMillis, hex};

use super::*;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../tests/data/ipc/vectors.json")).unwrap()
}

fn cases<'a>(vectors: &'a Value, path: &str) -> &'a Vec<Value> {
    vectors.pointer(path).unwrap().as_array().unwrap()
}

fn line_of(case: &Value) -> Option<Vec<u8>> {
    if let Some(build) = case.get("build") {
        let text = |name: &str| build[name].as_str().unwrap();
        let times = usize::try_from(build["times"].as_u64().unwrap()).unwrap();
        return Some(
            text("line")
                .replace(text("replace"), &text("with").repeat(times))
                .into_bytes(),
        );
    }
    if let Some(digits) = case.get("lineHex") {
        let digits = digits.as_str().unwrap();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        return Some((0..digits.len()).step_by(2).map(byte).collect());
    }
    Some(case["line"].as_str()?.as_bytes().to_vec())
}

const TOKEN: &str = "Zm9vYmFyLXRva2VuLTAwMDEtYmFzZTY0dXJs";

fn verify(case: &Value, nonces: &mut NonceMemory, now: &str, line: &[u8]) -> LineOutcome {
    LineVerifier {
        token: case["token"].as_str().unwrap_or(TOKEN),
        now: UnixMillis::new(case[now].as_i64().unwrap_or(0)),
        not_before: UnixMillis::new(0),
        nonces,
        policy: Policy::default(),
    }
    .verify(line)
}

#[test]
fn every_genuine_exec_line_is_taken() {
    let vectors = vectors();
    for case in cases(&vectors, "/exec/valid") {
        let name = &case["name"];
        let line = line_of(case).unwrap();
        let outcome = verify(case, &mut NonceMemory::default(), "nowMs", &line);
        let LineOutcome::Exec { id, order } = outcome else {
            panic!("{name}: {outcome:?}")
        };
        if let Some(expected) = case.get("id") {
            assert_eq!(id, expected.as_str().unwrap(), "{name}");
        }
        let Some(request) = case["expect"].get("request") else {
            continue;
        };
        let words: Vec<&str> = request["command"]
            .as_array()
            .unwrap()
            .iter()
            .map(|w| w.as_str().unwrap())
            .collect();
        assert_eq!(order.argv, words, "{name}");
        assert_eq!(
            order.raw_command.as_deref(),
            request["rawCommand"].as_str(),
            "{name}"
        );
        assert_eq!(order.cwd.as_deref(), request["cwd"].as_str(), "{name}");
        assert_eq!(order.agent_id.as_deref(), request["agentId"].as_str(), "{name}");
        assert_eq!(
            order.session_key.as_deref(),
            request["sessionKey"].as_str(),
            "{name}"
        );
        assert_eq!(
            order.attached.is_some(),
            request["approvalDecision"].is_string(),
            "{name}"
        );
        assert_eq!(order.timeout_ms, request["timeoutMs"].as_u64(), "{name}");
        let env: Vec<(&str, &str)> = request["env"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
            .collect();
        assert_eq!(order.env.len(), env.len(), "{name}");
        for (variable, value) in env {
            assert_eq!(order.env[variable], value, "{name}");
        }
    }
}

#[test]
fn every_other_exec_line_is_refused_as_it_should_be() {
    let vectors = vectors();
    for case in cases(&vectors, "/exec/refused") {
        let name = &case["name"];
        // A peer that sends nothing is the shell's to see.
        let Some(line) = line_of(case) else { continue };
        let mut nonces = NonceMemory::default();
        for first in case["sendFirst"].as_array().into_iter().flatten() {
            let now = if case.get("firstNowMs").is_some() {
                "firstNowMs"
            } else {
                "nowMs"
            };
            let outcome = verify(case, &mut nonces, now, first.as_str().unwrap().as_bytes());
            assert!(matches!(outcome, LineOutcome::Exec { .. }), "{name}: {outcome:?}");
        }
        let outcome = verify(case, &mut nonces, "nowMs", &line);
        let LineOutcome::Refused(replies) = outcome else {
            panic!("{name}: {outcome:?}")
        };
        if case["reply"].is_null() {
            assert_eq!(case["alsoAccepted"], "pair", "{name}");
            let reason = if case["reason"] == "size" { "size" } else { "json" };
            assert_eq!(replies, pair(reason), "{name}");
            continue;
        }
        let [reply] = replies.lines() else {
            panic!("{name}: {replies:?}")
        };
        let reply: Value = serde_json::from_str(reply).unwrap();
        assert_eq!(reply["type"], case["reply"], "{name}");
        assert_eq!(reply["id"], case["id"], "{name}");
        assert_eq!(reply["ok"], false, "{name}");
        assert_eq!(reply["error"]["reason"], case["reason"], "{name}");
        let code = case["code"].as_str().unwrap_or("INVALID_REQUEST");
        assert_eq!(reply["error"]["code"], code, "{name}");
    }
}

#[test]
fn the_texts_of_refusals_are_those_of_the_wire() {
    let vectors = vectors();
    let refusals = [
        Refusal::Ttl,
        Refusal::Hmac,
        Refusal::Json,
        Refusal::Invalid("command required"),
        Refusal::Replay,
        Refusal::Nonce,
        Refusal::RateLimit,
        Refusal::UserDenied,
        Refusal::SecurityDeny,
        Refusal::AllowlistMiss,
        Refusal::ScreenRecording,
        Refusal::ApprovalCancelled,
    ];
    let texts = vectors["replyText"].as_object().unwrap();
    assert_eq!(refusals.len(), texts.len());
    for refusal in refusals {
        let body = refusal.to_body();
        let text = &texts[body.reason.as_deref().unwrap()];
        assert_eq!(text["code"], body.code.as_str());
        assert_eq!(text["message"], body.message.as_str());
    }
    let lines: Vec<Value> = pair("size")
        .lines()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut expected = vectors["pairLines"].clone();
    expected[1]["error"]["reason"] = "size".into();
    assert_eq!(Value::from(lines), expected);
}

#[test]
fn every_question_is_asked_or_denied() {
    let vectors = vectors();
    for case in cases(&vectors, "/approval/valid") {
        let name = &case["name"];
        let outcome = verify(
            case,
            &mut NonceMemory::default(),
            "nowMs",
            &line_of(case).unwrap(),
        );
        let LineOutcome::Ask { id, question } = outcome else {
            panic!("{name}: {outcome:?}")
        };
        let prompt = &case["expect"]["prompt"];
        assert_eq!(id, case["id"].as_str().unwrap(), "{name}");
        assert_eq!(question.command, prompt["command"].as_str().unwrap(), "{name}");
        assert_eq!(question.cwd.as_deref(), prompt["cwd"].as_str(), "{name}");
        assert_eq!(
            question.resolved_path.as_deref(),
            prompt["resolvedPath"].as_str(),
            "{name}"
        );
        let words: Option<Vec<ApprovalDecision>> = prompt["allowedDecisions"].as_array().map(|words| {
            words
                .iter()
                .filter_map(|word| word.as_str().unwrap().parse().ok())
                .collect()
        });
        assert_eq!(question.allowed_decisions, words, "{name}");
    }
    for case in cases(&vectors, "/approval/refused") {
        let name = &case["name"];
        // Another account is the shell's to see.
        let Some(line) = line_of(case) else { continue };
        let outcome = verify(case, &mut NonceMemory::default(), "nowMs", &line);
        let LineOutcome::Refused(replies) = outcome else {
            panic!("{name}: {outcome:?}")
        };
        let [reply] = replies.lines() else {
            panic!("{name}: {replies:?}")
        };
        assert_eq!(
            serde_json::from_str::<Value>(reply).unwrap(),
            case["reply"],
            "{name}"
        );
    }
}

#[test]
fn every_reply_is_worth_what_it_should_be() {
    let vectors = vectors();
    for case in cases(&vectors, "/replies") {
        let name = &case["name"];
        let expected = Expected::plain(case["requestId"].as_str().unwrap().to_owned());
        let lines: Vec<&[u8]> = cases(case, "/replyLines")
            .iter()
            .map(|line| line.as_str().unwrap().as_bytes())
            .collect();
        if case["kind"] == "request" {
            let decision = lines.iter().find_map(|line| expected.decision(line));
            let said = decision.map_or("no decision", ApprovalDecision::as_str);
            assert_eq!(said, case["expect"].as_str().unwrap(), "{name}");
            continue;
        }
        let answer = lines.iter().find_map(|line| expected.exec(line));
        let Some(wanted) = case["expect"].as_object() else {
            assert_eq!(answer, None, "{name}");
            continue;
        };
        match answer.unwrap() {
            ExecAnswer::Ran(payload) => {
                assert_eq!(
                    payload,
                    serde_json::from_value(wanted["payload"].clone()).unwrap(),
                    "{name}"
                );
            }
            ExecAnswer::Refused(error) => {
                assert_eq!(
                    error,
                    serde_json::from_value(wanted["error"].clone()).unwrap(),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn our_own_lines_are_those_of_a_real_runner() {
    let vectors = vectors();
    let plain = &cases(&vectors, "/exec/valid")[0];
    let text = |name: &str| plain[name].as_str().unwrap();
    let line = plain_exec_line(
        text("id"),
        text("nonce"),
        UnixMillis::new(plain["ts"].as_i64().unwrap()),
        text("requestJson"),
        text("token"),
    );
    assert_eq!(line, text("line"));
    let order = OutgoingOrder {
        command: vec!["/usr/bin/uname".to_owned(), "-a".to_owned()],
        raw_command: None,
        cwd: Some("/tmp".to_owned()),
        env: None,
        timeout_ms: 5000,
        needs_screen_recording: None,
        agent_id: Some("main".to_owned()),
        session_key: Some("node".to_owned()),
        approval_decision: None,
    };
    assert_eq!(order.to_json().replace("5000", "null"), text("requestJson"));
    assert_eq!(hex(b"\x00\xff"), "00ff");
}

#[test]
fn what_may_have_counted_with_the_memory_of_before_does_not_count_again() {
    let vectors = vectors();
    let plain = &cases(&vectors, "/exec/valid")[0];
    let ts = plain["ts"].as_i64().unwrap();
    let verify_after = |not_before: i64| {
        LineVerifier {
            token: TOKEN,
            now: UnixMillis::new(ts + 5),
            not_before: UnixMillis::new(not_before),
            nonces: &mut NonceMemory::default(),
            policy: Policy::default(),
        }
        .verify(plain["line"].as_str().unwrap().as_bytes())
    };
    assert!(matches!(verify_after(ts), LineOutcome::Exec { .. }));
    let LineOutcome::Refused(replies) = verify_after(ts + 1) else {
        panic!()
    };
    assert!(replies.lines()[0].contains("\"ttl\""), "{replies:?}");
}
