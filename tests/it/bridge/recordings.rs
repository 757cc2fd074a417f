//! What the real nodes said to real gateways, said to this server: every recorded connection of a node, signed again for
//! our challenge with the throw-away keys of the recordings.

use std::{collections::BTreeMap, fs};

use countersign_protocol::bridge::DeviceKey;
use serde_json::{Value, json};

use crate::support::{
    Members, TestServer,
    node::{Device, Line, Speaks, decide},
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bridge");

/// The keys of the recorded devices.
fn keys() -> BTreeMap<String, DeviceKey> {
    let text = fs::read_to_string(format!("{FOLDER}/fixture-identities.json")).unwrap();
    let identities: Value = serde_json::from_str(&text).unwrap();
    identities
        .list("identities")
        .iter()
        .map(|identity| {
            let hex = identity.text("seedHex");
            let seed: Vec<u8> = (0..64)
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            let key = DeviceKey::from_seed(&seed.try_into().unwrap());
            (identity.text("deviceId").to_owned(), key)
        })
        .collect()
}

/// The frames that nodes sent, by connection.
fn connections(file: &str) -> BTreeMap<i64, Vec<Value>> {
    let text = fs::read_to_string(format!("{FOLDER}/{file}")).unwrap();
    let mut connections: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["dir"] == "node->gw" && line["frame"].is_object() {
            connections
                .entry(line["conn"].as_i64().unwrap())
                .or_default()
                .push(line["frame"].clone());
        }
    }
    connections
}

/// A recorded device as it was in one connection.
fn device(server: &TestServer, params: &Value, keys: &BTreeMap<String, DeviceKey>) -> Device {
    let speaks = if params["minProtocol"] == 3 {
        Speaks::First
    } else {
        Speaks::Present
    };
    let id = params["device"].text("id");
    Device {
        key: keys[id].clone(),
        ..Device::new(server, speaks)
    }
}

/// The recorded parameters, as that device would have sent them to this server: with a credential of ours, signed for
/// our challenge.
fn ours(line: &Line, device: &Device, recorded: &Value, auth: &Value) -> Value {
    let mut params = recorded.clone();
    params["auth"] = auth.clone();
    device.sign(&mut params, &line.nonce, line.ts);
    params
}

#[tokio::test]
#[expect(
    clippy::case_sensitive_file_extension_comparisons,
    reason = "names of the repository"
)]
async fn every_recorded_node_is_let_in_and_every_question_is_answered_once() {
    let server = TestServer::full().start().await;
    let keys = keys();
    let mut files: Vec<String> = fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".jsonl"))
        .collect();
    files.sort();
    let mut tokens: BTreeMap<String, String> = BTreeMap::new();
    let mut connects: BTreeMap<String, Value> = BTreeMap::new();
    let (mut nodes, mut questions) = (0, 0);
    for file in files {
        for frames in connections(&file).into_values() {
            let (recorded, after) = match frames.split_first() {
                Some((connect, after)) if connect["method"] == "connect" => {
                    let params = &connect["params"];
                    connects.insert(params["device"]["id"].to_string(), params.clone());
                    (params.clone(), after)
                }
                // It goes on with a connection whose begin is in a file before.
                Some((result, _)) => (
                    connects[&result["params"]["nodeId"].to_string()].clone(),
                    frames.as_slice(),
                ),
                None => continue,
            };
            let recorded = &recorded;
            let device = device(&server, recorded, &keys);
            let is_shared = recorded["auth"]["token"] == "fake-shared-gateway-token";
            let auth = match tokens.get(&device.id()) {
                Some(token) if !is_shared => device.clone().with_token(token).auth,
                _ => json!({"token": server.bridge_token()}),
            };
            let mut line = Line::open(&server).await;
            let params = ours(&line, &device, recorded, &auth);
            let hello = match line.connect_with(params).await {
                Ok(hello) => hello,
                Err(error) => {
                    assert_eq!(error["details"]["code"], "PAIRING_REQUIRED", "{file}: {error}");
                    decide(&server, error["details"].text("requestId"), "approve").await;
                    line = Line::open(&server).await;
                    let params = ours(&line, &device, recorded, &auth);
                    line.connect_with(params)
                        .await
                        .unwrap_or_else(|error| panic!("{file}: {error}"))
                }
            };
            assert_eq!(hello["protocol"], recorded["maxProtocol"], "{file}");
            tokens.insert(device.id(), hello["auth"].text("deviceToken").to_owned());
            nodes += 1;
            for question in after {
                let answer = line
                    .ask(question.text("method"), question["params"].clone())
                    .await;
                questions += 1;
                let method = question.text("method");
                match method {
                    "node.event" | "skills.bins" => assert_eq!(answer["ok"], true, "{file}: {answer}"),
                    // Nobody here had asked.
                    "node.invoke.result" => {
                        assert_eq!(
                            answer["payload"],
                            json!({"ok": true, "ignored": true}),
                            "{file}: {question}"
                        );
                    }
                    "node.list" => assert_eq!(
                        answer["error"],
                        json!({"code": "INVALID_REQUEST", "message": "unauthorized role: node"})
                    ),
                    other => assert_eq!(
                        answer["error"],
                        json!({"code": "INVALID_REQUEST", "message": format!("unknown method: {other}")})
                    ),
                }
            }
            line.close().await;
        }
    }
    assert!(
        nodes >= 30 && questions >= 250,
        "{nodes} nodes, {questions} questions"
    );
}
