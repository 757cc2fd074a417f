//! What the real peers said, and the signatures that they made.

#![expect(clippy::string_slice, reason = "digits of a file that lies beside the tests")]

use serde_json::Value;

use countersign_domain::UnixMillis;

use super::*;

struct Recording {
    name: &'static str,
    text: &'static str,
}

macro_rules! recordings {
    ($($name:literal),* $(,)?) => {
        const RECORDINGS: &[Recording] = &[$(Recording {
            name: $name,
            text: include_str!(concat!("../../../../tests/data/bridge/", $name, ".jsonl")),
        }),*];
    };
}

recordings!(
    "clawdbot-2026.1.24-3-connect-errors",
    "clawdbot-2026.1.24-3-node-connect-invoke",
    "clawdbot-2026.1.24-3-node-device-pairing",
    "clawdbot-2026.1.24-3-operator-device-pair",
    "clawdbot-2026.1.24-3-operator-exec-approval",
    "clawdbot-2026.1.24-3-operator-invoke-full-policy",
    "clawdbot-2026.1.24-3-operator-invoke",
    "cross-clawdbot-node-on-openclaw-gateway",
    "cross-openclaw-node-on-clawdbot-gateway-rejected",
    "minimal-server-clawdbot-2026.1.24-3-node",
    "minimal-server-clawdbot-node-approved-run",
    "minimal-server-clawdbot-node-pairing-exits",
    "minimal-server-clawdbot-node-tick-timeout",
    "minimal-server-clawdbot-node-unanswered-event",
    "minimal-server-openclaw-2026.9.6-node",
    "minimal-server-openclaw-node-pairing-paused",
    "minimal-server-openclaw-node-pairing-wait-then-retry",
    "minimal-server-openclaw-node-tick-timeout",
    "minimal-server-openclaw-node-unanswered-event",
    "openclaw-2026.9.6-connect-errors",
    "openclaw-2026.9.6-node-connect-and-surface-approval",
    "openclaw-2026.9.6-node-device-pairing",
    "openclaw-2026.9.6-node-invoke",
    "openclaw-2026.9.6-operator-cli-nodes",
    "openclaw-2026.9.6-operator-device-pair",
    "openclaw-2026.9.6-operator-exec-approval-no-route",
    "openclaw-2026.9.6-operator-exec-approval",
    "openclaw-2026.9.6-operator-invoke",
    "third-party-node-on-clawdbot-2026.1.24-3",
    "third-party-node-on-openclaw-2026.9.6",
);

/// A line of a recording that has a frame.
struct Line {
    recording: &'static str,
    number: usize,
    direction: String,
    connection: i64,
    frame: Value,
}

fn lines() -> impl Iterator<Item = Line> {
    RECORDINGS.iter().flat_map(|recording| {
        recording.text.lines().enumerate().filter_map(|(index, line)| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            Some(Line {
                recording: recording.name,
                number: index + 1,
                direction: line["dir"].as_str().unwrap().to_owned(),
                connection: line["conn"].as_i64().unwrap(),
                frame: line.get_mut("frame")?.take(),
            })
        })
    })
}

#[test]
fn no_recording_is_left_out() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/bridge");
    let mut there: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    there.sort();
    let mut here: Vec<&str> = RECORDINGS.iter().map(|recording| recording.name).collect();
    here.sort_unstable();
    assert_eq!(here, there);
}

#[test]
fn every_recorded_frame_is_read_and_written_as_it_was() {
    let mut count = 0;
    for line in lines() {
        let text = line.frame.to_string();
        let frame = Frame::parse(&text, 26_214_400)
            .unwrap_or_else(|error| panic!("{} line {}: {error}", line.recording, line.number));
        assert_eq!(
            frame.to_value(),
            line.frame,
            "{} line {}",
            line.recording,
            line.number
        );
        count += 1;
    }
    assert!(count > 1000, "only {count} frames were found");
}

#[test]
fn every_recorded_connect_is_read_and_its_proof_holds() {
    // What the file itself says of those that a gateway refused: the September node signs v3 where January's
    // gateway knows v2 alone. We know both.
    let mut versions = [0; 2];
    let mut challenges = std::collections::BTreeMap::new();
    for line in lines() {
        let place = format!("{} line {}", line.recording, line.number);
        let peer = line.direction.replace("->gw", "").replace("gw->", "");
        let connection = (line.recording, peer, line.connection);
        match Frame::of(line.frame).unwrap() {
            Frame::Event(event) if event.event == CHALLENGE_EVENT => {
                let challenge = Challenge::parse(event.payload.as_ref().unwrap()).unwrap();
                challenges.insert(connection, challenge);
            }
            Frame::Request(request) if request.method == "connect" => {
                let raw = request.params.unwrap();
                let challenge = &challenges[&connection];
                if raw.pointer("/device").is_none() {
                    ConnectParams::parse(raw).unwrap_or_else(|error| panic!("{place}: {error}"));
                    continue;
                }
                let params =
                    ConnectParams::parse(raw.clone()).unwrap_or_else(|error| panic!("{place}: {error}"));
                let device = params.device.as_ref().unwrap();
                let now = UnixMillis::new(challenge.ts.unwrap());
                let proof = verify_proof(device, params.proof_input(device), &challenge.nonce, now);
                match proof {
                    Ok((key, ProofVersion::V2)) => {
                        versions[0] += 1;
                        assert_eq!(key.device_id().as_str(), device.id);
                    }
                    Ok((_key, ProofVersion::V3)) => versions[1] += 1,
                    other => {
                        // The one that leaves out the nonce, to see version 1 refused.
                        assert!(line.recording.ends_with("connect-errors"), "{place}: {other:?}");
                        continue;
                    }
                }
                assert_eq!(
                    ConnectParams::parse(params.to_value()).unwrap().to_value(),
                    params.to_value()
                );
                // Each of these checks takes time, and what matters is the version.
                if versions.contains(&1) {
                    assert_refused_when_changed(&params, &challenge.nonce, now);
                }
            }
            Frame::Request(_) | Frame::Response(_) | Frame::Event(_) => {}
        }
    }
    assert!(versions.iter().all(|count| *count >= 10), "{versions:?}");
}

/// A proof is good for exactly what it was made for.
fn assert_refused_when_changed(params: &ConnectParams, nonce: &str, now: UnixMillis) {
    type Mutation = (fn(&mut ConnectParams), DeviceTrouble);

    let check = |params: &ConnectParams, nonce: &str, now: UnixMillis| {
        let device = params.device.as_ref().unwrap();
        verify_proof(device, params.proof_input(device), nonce, now).map(|(_key, version)| version)
    };
    let version = check(params, nonce, now).unwrap();
    assert_eq!(check(params, "other", now), Err(DeviceTrouble::NonceMismatch));
    let later = now + proof::MAX_SKEW + std::time::Duration::from_millis(1);
    let signed_at = params.device.as_ref().unwrap().signed_at_ms;
    if UnixMillis::new(signed_at) <= now {
        assert_eq!(check(params, nonce, later), Err(DeviceTrouble::SignatureExpired));
    }
    let early = UnixMillis::new(signed_at - 600_001);
    assert_eq!(check(params, nonce, early), Err(DeviceTrouble::SignatureExpired));

    let changes: [Mutation; 8] = [
        (
            |params| params.role = Some("operator2".to_owned()),
            DeviceTrouble::SignatureInvalid,
        ),
        (
            |params| params.scopes.push("operator.admin".to_owned()),
            DeviceTrouble::SignatureInvalid,
        ),
        (
            |params| params.auth.token = Some(countersign_domain::Secret::new("other".to_owned())),
            DeviceTrouble::SignatureInvalid,
        ),
        (
            |params| params.client.id = "cli2".to_owned(),
            DeviceTrouble::SignatureInvalid,
        ),
        (
            |params| params.client.mode = "probe".to_owned(),
            DeviceTrouble::SignatureInvalid,
        ),
        (
            |params| params.device.as_mut().unwrap().signed_at_ms += 1,
            DeviceTrouble::SignatureInvalid,
        ),
        (
            |params| params.device.as_mut().unwrap().id = "0".repeat(64),
            DeviceTrouble::IdMismatch,
        ),
        (
            |params| params.device.as_mut().unwrap().nonce = None,
            DeviceTrouble::NonceRequired,
        ),
    ];
    for (index, (change, expect)) in changes.into_iter().enumerate() {
        let mut changed = params.clone();
        change(&mut changed);
        assert_eq!(check(&changed, nonce, now), Err(expect), "change {index}");
    }
    if version == ProofVersion::V3 {
        let mut changed = params.clone();
        changed.client.platform = "windows".to_owned();
        assert_eq!(check(&changed, nonce, now), Err(DeviceTrouble::SignatureInvalid));
    }
}

#[test]
fn the_signature_vectors_hold() {
    let vectors: Value = serde_json::from_str(include_str!(
        "../../../../tests/data/bridge/device-auth-vectors.json"
    ))
    .unwrap();
    let vectors = vectors["vectors"].as_array().unwrap();
    let mut negatives = 0;
    for vector in vectors {
        let text = |pointer: &str| {
            vector
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let version = match text("/version").as_str() {
            "v1" => ProofVersion::V1,
            "v2" => ProofVersion::V2,
            "v3" => ProofVersion::V3,
            other => panic!("unknown version {other}"),
        };
        let seed: Vec<u8> = (0..64)
            .step_by(2)
            .map(|at| u8::from_str_radix(&text("/seedHex")[at..at + 2], 16).unwrap())
            .collect();
        let key = DeviceKey::from_seed(&seed.try_into().unwrap());
        assert_eq!(key.public().to_text(), text("/publicKeyBase64Url"));
        assert_eq!(key.public().to_pem(), text("/publicKeyPem"));
        assert_eq!(key.to_pem().as_str(), text("/privateKeyPem"));
        let read = DeviceKey::from_pem(&text("/privateKeyPem")).unwrap();
        assert_eq!(read.device_id(), key.device_id());

        let input_text: Vec<String> = [
            "deviceId",
            "clientId",
            "clientMode",
            "role",
            "token",
            "nonce",
            "platform",
            "deviceFamily",
        ]
        .iter()
        .map(|name| text(&format!("/input/{name}")))
        .collect();
        let scopes: Vec<String> = vector["input"]["scopes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|scope| scope.as_str().unwrap().to_owned())
            .collect();
        let [
            device_id,
            client_id,
            client_mode,
            role,
            token,
            nonce,
            platform,
            device_family,
        ] = input_text.as_slice()
        else {
            panic!("eight texts");
        };
        let input = ProofInput {
            device_id,
            client_id,
            client_mode,
            role,
            scopes: &scopes,
            signed_at_ms: vector["input"]["signedAtMs"].as_i64().unwrap(),
            token,
            nonce,
            platform,
            device_family,
        };
        assert_eq!(input.payload(version), text("/payload"));
        let signature = text("/signatureBase64Url");
        let public = DevicePublicKey::parse(&text("/publicKeyPem")).unwrap();
        assert_eq!(
            public,
            DevicePublicKey::parse(&text("/publicKeyBase64Url")).unwrap()
        );
        let is_valid = vector["valid"].as_bool().unwrap();
        assert_eq!(public.verifies(&text("/payload"), &signature), is_valid);
        if is_valid {
            assert_eq!(input.sign(&key, version), signature);
            let padded = format!("{}==", signature.replace('-', "+").replace('_', "/"));
            assert!(public.verifies(&text("/payload"), &padded));
        } else {
            negatives += 1;
        }
    }
    assert!(vectors.len() >= 5 && negatives >= 1);
}

#[test]
fn keys_for_which_anybody_can_sign_are_none() {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    // The neutral element and another point of small order.
    let mut neutral = [0_u8; 32];
    neutral[0] = 1;
    for weak in [neutral, [0; 32]] {
        assert_eq!(DevicePublicKey::parse(&URL_SAFE_NO_PAD.encode(weak)), None);
    }
    for text in ["", "A", "BEGIN", &"A".repeat(600), &"A".repeat(42)] {
        assert_eq!(DevicePublicKey::parse(text), None, "{text}");
    }
}

#[test]
fn recorded_calls_and_answers_are_read() {
    let mut counts = std::collections::BTreeMap::new();
    for line in lines() {
        let place = format!("{} line {}", line.recording, line.number);
        let (name, value) = match Frame::of(line.frame).unwrap() {
            Frame::Event(event) => (event.event, event.payload.unwrap_or_default()),
            Frame::Request(request) => (request.method, request.params.unwrap_or_default()),
            Frame::Response(_) => continue,
        };
        match name.as_str() {
            INVOKE_REQUEST => {
                let call =
                    InvokeCall::parse(value.clone()).unwrap_or_else(|error| panic!("{place}: {error}"));
                let mut written = call.to_event().payload.unwrap();
                // The recorded text keeps its own order and spaces.
                written["paramsJSON"] = value["paramsJSON"].clone();
                assert_eq!(written, value, "{place}");
                if call.command == SYSTEM_RUN
                    && call.params["command"].as_array().is_some_and(|c| !c.is_empty())
                {
                    let params: RunParams = serde_json::from_value(call.params.clone())
                        .unwrap_or_else(|error| panic!("{place}: {error}"));
                    let again = serde_json::to_value(&params).unwrap();
                    for (name, value) in again.as_object().unwrap() {
                        assert_eq!(&call.params[name], value, "{place}: {name}");
                    }
                }
            }
            INVOKE_CANCEL => {
                InvokeCancel::parse(value).unwrap_or_else(|error| panic!("{place}: {error}"));
            }
            INVOKE_RESULT => {
                let answer = InvokeAnswer::parse(value).unwrap_or_else(|error| panic!("{place}: {error}"));
                if let Ok(payload) = &answer.outcome
                    && payload.get("stdout").is_some()
                {
                    let outcome: RunOutcome = serde_json::from_value(payload.clone()).unwrap();
                    assert_eq!(&serde_json::to_value(&outcome).unwrap(), payload, "{place}");
                }
                if let Ok(payload) = &answer.outcome
                    && let Some(plan) = payload.get("plan")
                {
                    let plan: RunPlan = serde_json::from_value(plan.clone()).unwrap();
                    assert_eq!(format_argv(&plan.argv), plan.command_text, "{place}");
                }
            }
            NODE_EVENT => {
                let news = NodeNews::parse(value).unwrap_or_else(|error| panic!("{place}: {error}"));
                if news.event.starts_with("exec.") {
                    let exec: ExecNews = serde_json::from_value(news.payload.clone()).unwrap();
                    assert_eq!(serde_json::to_value(&exec).unwrap(), news.payload, "{place}");
                }
            }
            _other => continue,
        }
        *counts.entry(name).or_insert(0) += 1;
    }
    assert!(counts.len() == 4, "{counts:?}");
}
