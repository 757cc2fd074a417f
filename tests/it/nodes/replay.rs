//! What the product's own clients sent is sent to this server, and gets answers of the same form.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use super::{SURFACE, ScriptedNode, knock, operator_token, paired, token};
use crate::support::{OperatorClient, OperatorLink, TestServer};

/// Members of recorded answers that only the product has: its plugins, its channels, its schedules.
const THEIRS: &[&str] = &[
    "commandAnalysis",
    "turnSourceChannel",
    "turnSourceTo",
    "turnSourceAccountId",
    "turnSourceThreadId",
    "cronExecutionSource",
    "cronOperationBinding",
    // A node here always needs a person, so nothing is noted of how else it came in.
    "lastSeenReason",
    "hostStats",
    "pendingNodeSurface",
    // Where the product kept a file.
    "resolvedDefaults",
];

/// One recorded question and its answer.
struct Recorded {
    protocol: i64,
    method: String,
    params: Value,
    answer: Value,
}

fn fixtures() -> Vec<(String, Vec<Recorded>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bridge");
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("fixtures") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.contains("-operator-") {
            let text = fs::read_to_string(&path).expect("a fixture");
            found.push((name, recorded(&text)));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 7, "{}", found.len());
    found
}

fn recorded(text: &str) -> Vec<Recorded> {
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let protocol = if text.contains("\"maxProtocol\":4") { 4 } else { 3 };
    let answer_to = |id: &Value| {
        let is_final = |frame: &&Value| {
            frame["type"] == "res" && frame["id"] == *id && frame["payload"]["status"] != "accepted"
        };
        lines.iter().map(|line| &line["frame"]).find(is_final).cloned()
    };
    lines
        .iter()
        .map(|line| &line["frame"])
        .filter(|frame| frame["type"] == "req" && frame["method"] != "connect")
        .filter_map(|frame| {
            Some(Recorded {
                protocol,
                method: frame["method"].as_str()?.to_owned(),
                params: frame["params"].clone(),
                // Frames that were too long are not among the fixtures.
                answer: answer_to(&frame["id"])?,
            })
        })
        .collect()
}

/// A node that says what the recorded ones said.
async fn recorded_node(server: &TestServer) -> ScriptedNode {
    let node = paired(server, "oc-node", SURFACE).await;
    let hash = "36fe1921ebfdd773c249663d651cdbf53223b8948509c5aa870b12e31f81b4cb";
    node.answers(move |command, params| match command {
        "system.which" if params["bins"].is_array() => Ok(json!({ "bins": { "sh": "/usr/bin/sh" } })),
        "system.which" => Err(("INVALID_REQUEST", "Error: INVALID_REQUEST: bins required")),
        "system.run.prepare" => Ok(json!({
            "plan": { "argv": ["/usr/bin/echo", "hi"], "cwd": "/tmp", "commandText": "/usr/bin/echo hi",
                "commandPreview": null, "agentId": "main", "sessionKey": "agent:main:main" },
            "execPolicy": { "security": "full", "ask": "off" },
            "allowAlwaysCoverage": { "complete": true, "patterns": [] },
        })),
        "system.execApprovals.set" if params["baseHash"].is_null() => Err((
            "INVALID_REQUEST",
            "Error: INVALID_REQUEST: exec approvals base hash required; reload and retry",
        )),
        "system.execApprovals.set"
            if params["baseHash"]
                .as_str()
                .is_some_and(|hash| hash.starts_with("wrong")) =>
        {
            Err((
                "INVALID_REQUEST",
                "Error: INVALID_REQUEST: exec approvals changed; reload and retry",
            ))
        }
        "system.execApprovals.get" | "system.execApprovals.set" => Ok(json!({
            "path": "/home/user/.openclaw/exec-approvals.json", "exists": true, "hash": hash,
            "file": { "version": 1, "socket": { "path": "/home/user/.openclaw/exec-approvals.sock" },
                "defaults": { "security": "full", "ask": "off" }, "agents": {} },
        })),
        _ => Err(("UNAVAILABLE", "not here")),
    });
    node
}

/// Questions that wait for a person, or run something: they have tests of their own.
#[expect(clippy::match_same_arms, reason = "each with its reason")]
fn is_apart(recorded: &Recorded) -> bool {
    match recorded.method.as_str() {
        "exec.approval.request" | "exec.approval.waitDecision" | "exec.approval.get" => true,
        "exec.approval.resolve" => recorded.params["id"] != "nope",
        "exec.approval.list" => recorded.answer["payload"] != json!([]),
        "node.invoke" => recorded.params["command"] == "system.run",
        "device.pair.approve" => true,
        _ => false,
    }
}

#[tokio::test]
async fn every_recorded_question_gets_an_answer_of_the_same_form() {
    let server = TestServer::asking_on_nodes().start().await;
    let node = recorded_node(&server).await;
    let (exec, _) = token(&server, &["exec", "read"]).await;
    let mut asked = 0;
    for (name, recordings) in fixtures() {
        for recorded in recordings.iter().filter(|recorded| !is_apart(recorded)) {
            // The recorded clients could do everything with one secret; here who asks is not who answers.
            let is_asking = recorded.method == "node.invoke";
            let client = if is_asking && is_open_to_askers(&recorded.params) {
                OperatorClient::new(&exec, &["operator.write", "operator.read"])
            } else {
                OperatorClient::new(&operator_token(&server), &["operator.admin"])
            };
            let client = if recorded.protocol == 3 {
                client.first_generation()
            } else {
                client
            };
            let mut operator = client.connect(&server).await;
            let mut params = recorded.params.clone();
            let is_known = |id: &str| id.starts_with("aa3daf0ab21a") || id.starts_with("1d222457db18");
            let is_known = params["nodeId"].as_str().is_some_and(is_known);
            if is_known {
                params["nodeId"] = json!(node.id());
            }
            let answer = operator.ask(&recorded.method, params).await;
            same_form(
                &format!("{name} {} {}", recorded.method, recorded.params),
                recorded,
                &answer,
            );
            asked += 1;
        }
    }
    assert!(asked >= 40, "{asked}");
}

fn is_open_to_askers(params: &Value) -> bool {
    matches!(
        params["command"].as_str(),
        Some("system.which" | "system.run.prepare")
    )
}

/// Every member that the recorded answer has is there, in the same kind.
#[track_caller]
fn same_form(what: &str, recorded: &Recorded, answer: &Value) {
    assert_eq!(answer["ok"], recorded.answer["ok"], "{what}: {answer}");
    if answer["ok"] == false {
        let (ours, theirs) = (&answer["error"], &recorded.answer["error"]);
        assert_eq!(ours["code"], theirs["code"], "{what}: {answer}");
        let detail = |error: &Value| members(&error["details"]);
        assert!(detail(theirs).is_subset(&detail(ours)), "{what}: {answer}");
        if theirs["details"]["reason"].is_null() || recorded.protocol == 3 {
            assert_eq!(ours["message"], theirs["message"], "{what}: {answer}");
        }
        return;
    }
    let (ours, theirs) = (&answer["payload"], &recorded.answer["payload"]);
    missing(what, theirs, ours);
}

#[track_caller]
fn missing(what: &str, theirs: &Value, ours: &Value) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (name, value) in theirs {
                // What nodes say of themselves is theirs.
                if THEIRS.contains(&name.as_str())
                    || name == "payload"
                    || name == "payloadJSON"
                    || name == "file"
                {
                    continue;
                }
                let mine = ours
                    .get(name)
                    .unwrap_or_else(|| panic!("{what}: {name} is missing in {ours:?}"));
                missing(what, value, mine);
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            if let (Some(first), Some(mine)) = (theirs.first(), ours.first()) {
                missing(what, first, mine);
            }
        }
        (theirs, ours) => {
            let is_same = theirs.is_null()
                || ours.is_null()
                || std::mem::discriminant(theirs) == std::mem::discriminant(ours);
            assert!(is_same, "{what}: {ours} is of another kind than {theirs}");
        }
    }
}

fn members(object: &Value) -> BTreeSet<String> {
    object
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

#[tokio::test]
async fn the_forms_of_approvals_are_those_that_were_recorded() {
    let server = TestServer::asking().start().await;
    for (file, first_generation) in [
        ("openclaw-2026.9.6-operator-exec-approval.jsonl", false),
        ("clawdbot-2026.1.24-3-operator-exec-approval.jsonl", true),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/bridge")
            .join(file);
        let text = fs::read_to_string(path).expect("a fixture");
        let recorded_event = |name: &str| {
            let mut frames = text
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["frame"].clone());
            frames.find(|frame| frame["event"] == name).expect("an event")
        };
        let client = OperatorClient::new(&operator_token(&server), &["operator.admin"]).answering();
        let client = if first_generation {
            client.first_generation()
        } else {
            client
        };
        let mut operator: OperatorLink = client.connect(&server).await;
        let pending = super::pending_id(&super::ask(&server, "/bin/date").await);
        let event = operator.event("exec.approval.requested").await;
        missing(file, &recorded_event("exec.approval.requested"), &event);
        operator
            .call(
                "exec.approval.resolve",
                json!({ "id": pending, "decision": "deny" }),
            )
            .await;
        let event = operator.event("exec.approval.resolved").await;
        missing(file, &recorded_event("exec.approval.resolved"), &event);
        // What the first generation does not know, it is not sent: its forms are closed.
        if first_generation {
            let theirs = members(&recorded_event("exec.approval.resolved")["payload"]);
            assert_eq!(members(&event["payload"]), theirs);
        }
    }
}

#[tokio::test]
async fn a_device_is_approved_as_it_was_recorded() {
    let server = TestServer::asking().start().await;
    for (name, recordings) in fixtures() {
        for recorded in recordings
            .iter()
            .filter(|recorded| recorded.method == "device.pair.approve")
        {
            let asked = knock(&server, "p-oc", super::ONLY_RUN).await;
            let client = OperatorClient::new(&operator_token(&server), &["operator.admin"]);
            let client = if recorded.protocol == 3 {
                client.first_generation()
            } else {
                client
            };
            let mut operator = client.connect(&server).await;
            let answer = operator
                .ask("device.pair.approve", json!({ "requestId": asked.request }))
                .await;
            same_form(&name, recorded, &answer);
            assert!(!answer.to_string().contains("\"token\":"), "{answer}");
        }
    }
}
