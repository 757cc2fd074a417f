//! Closed words, and answers of several forms that one of them tells apart.
//!
//! Each branch of a union has the word of its own, so a program that asks for the word has the form.

use serde_json::{Map, Value, json};

use countersign_config::settings::{SandboxScope, WorkspaceAccess};
use countersign_domain::{CommandInput, PairingKind, Reason};
use countersign_ledger::audit::{AuditOutcome, ProblemKind};
use countersign_policy::{allowlist::MatchKind, gate::AskWhy, layers::Layer};

use super::reference;

use crate::problem::Code;

/// Names the words that the routes write as texts, and splits the objects that such a word tells apart.
pub(super) fn complete(schemas: &mut Map<String, Value>) {
    say_words(schemas);
    // An item in full also has all members of the brief form.
    for name in ["ListedEntry", "ListedEvent", "ListedRecord"] {
        let listed = schemas.get_mut(name).and_then(Value::as_object_mut);
        if let Some((listed, forms)) =
            listed.and_then(|listed| listed.shift_remove("oneOf").map(|forms| (listed, forms)))
        {
            listed.insert("anyOf".to_owned(), forms);
        }
    }
    split(
        schemas,
        "ExecFinished",
        "status",
        &[
            Branch::of(
                "completed",
                "ExecCompleted",
                "The command ended with exit code 0.",
            ),
            Branch::of(
                "failed",
                "ExecFailed",
                "The command ended otherwise, or could not be started.",
            ),
        ],
    );
    tell_apart(
        schemas,
        "ExecStarted",
        "status",
        &[("running", "ExecRunning"), ("approval-pending", "ExecPending")],
    );
    tag(
        schemas,
        "ProcessAnswer",
        "kind",
        &[
            ("list", "ProcessList"),
            ("poll", "ProcessPoll"),
            ("log", "ProcessLog"),
            ("input", "ProcessInput"),
            ("session", "ProcessEnd"),
        ],
    );
    split(
        schemas,
        "Explanation",
        "outcome",
        &[
            Branch::of("run", "ExplainedRun", "It would start."),
            Branch::of("ask", "ExplainedQuestion", "A person would be asked.").because(ask_reasons()),
            Branch::of("deny", "ExplainedDenial", "It would be refused.").because(deny_reasons()),
        ],
    );
    split(
        schemas,
        "Run",
        "status",
        &[
            Branch::of(
                "queued",
                "RunQueued",
                "It was admitted or allowed, and has not started.",
            ),
            Branch::of("approval-pending", "RunPending", "A person is asked.").with("approvalId"),
            Branch::of("running", "RunRunning", "It has started.").with("startedAtMs"),
            Branch::of("completed", "RunCompleted", "It ended with exit code 0."),
            Branch::of(
                "failed",
                "RunFailed",
                "It ended otherwise, or could not be started.",
            ),
            Branch::of("denied", "RunDenied", "It never started.").with("reason"),
            Branch::of(
                "cancelled",
                "RunCancelled",
                "It was cancelled, before or while it ran.",
            ),
            Branch::of("lost", "RunLost", "What became of it is unknown."),
        ],
    );
}

macro_rules! words {
    ($vocabulary:ty) => {
        <$vocabulary>::ALL.iter().map(|word| word.as_str()).collect()
    };
}

fn say_words(schemas: &mut Map<String, Value>) {
    for (schema, member, words) in known_words() {
        let pointer = format!("/properties/{member}");
        say(
            schemas
                .get_mut(schema)
                .and_then(|schema| schema.pointer_mut(&pointer)),
            words,
        );
    }
    for (name, schema) in schemas {
        if name.starts_with("PolicyLayer_") {
            say(schema.pointer_mut("/properties/layer"), words!(Layer));
        }
    }
}

/// Texts of a closed vocabulary: schema, member, words.
fn known_words() -> [(&'static str, &'static str, Value); 27] {
    let inputs = CommandInput::ALL.iter().filter_map(|input| input.noteworthy());
    let inputs: Value = inputs.map(CommandInput::as_str).collect();
    [
        ("AllowlistMatch", "kind", words!(MatchKind)),
        ("Analysis", "verdict", json!(["allow", "ask", "reject"])),
        ("Approval", "input", inputs.clone()),
        ("AuditProblem", "kind", words!(ProblemKind)),
        ("AuditRecord", "outcome", words!(AuditOutcome)),
        ("DocumentState", "status", json!(["ok", "missing", "refused"])),
        ("ErrorKind", "code", words!(Code)),
        ("ExecPending", "status", json!(["approval-pending"])),
        ("ExecRunning", "status", json!(["running"])),
        ("ExplainedSandbox", "scope", words!(SandboxScope)),
        ("ExplainedSandbox", "workspaceAccess", words!(WorkspaceAccess)),
        ("Explanation", "input", inputs.clone()),
        ("Health", "status", json!(["ok"])),
        ("McpMessage", "jsonrpc", json!(["2.0"])),
        (
            "NodeOfCall",
            "document",
            json!(["ok", "missing", "refused", "unknown"]),
        ),
        ("Pairing", "kind", words!(PairingKind)),
        ("Problem", "code", words!(Code)),
        ("Readiness", "status", json!(["ready", "not-ready"])),
        ("Run", "input", inputs),
        ("SandboxState", "scope", words!(SandboxScope)),
        ("SandboxState", "workspaceAccess", words!(WorkspaceAccess)),
        ("Setting", "waitsFor", json!(["restart", "acceptance", "change"])),
        ("ToolAnswer", "ok", json!([true])),
        ("ToolError", "code", words!(Code)),
        (
            "ToolError",
            "type",
            json!(["tool_error", "not_found", "unauthorized"]),
        ),
        ("ToolRefusal", "ok", json!([false])),
        ("ToolText", "type", json!(["text"])),
    ]
}

fn say(member: Option<&mut Value>, words: Value) {
    if let Some(member) = member.and_then(Value::as_object_mut) {
        member.insert("enum".to_owned(), words);
    }
}

fn ask_reasons() -> Value {
    // A revision is a question of its own, and so is what is only asked: no call and so no explanation comes to it.
    [AskWhy::AskAlways, AskWhy::AllowlistMiss, AskWhy::NeedsPerson]
        .iter()
        .map(|why| why.as_str())
        .collect()
}

fn deny_reasons() -> Value {
    let bad = [Code::InvalidRequest, Code::BlockedEnv];
    let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
    reasons.chain(bad.iter().map(|code| code.as_str())).collect()
}

/// One form of a union.
struct Branch {
    word: &'static str,
    name: &'static str,
    about: &'static str,
    /// A member that it always has, and others may lack.
    has: Option<&'static str>,
    /// The words of `reason`, where that depends on the branch.
    reasons: Option<Value>,
}

impl Branch {
    const fn of(word: &'static str, name: &'static str, about: &'static str) -> Self {
        Self {
            word,
            name,
            about,
            has: None,
            reasons: None,
        }
    }

    fn with(self, member: &'static str) -> Self {
        Self {
            has: Some(member),
            ..self
        }
    }

    fn because(self, reasons: Value) -> Self {
        Self {
            has: Some("reason"),
            reasons: Some(reasons),
            ..self
        }
    }
}

/// Makes a union of an object: `<name>Members` is what all forms have, and each form adds its word of `member`.
fn split(schemas: &mut Map<String, Value>, name: &'static str, member: &str, branches: &[Branch]) {
    let Some(mut common) = schemas.remove(name) else {
        return;
    };
    let about = common.get("description").cloned().unwrap_or_default();
    let reason = common.pointer("/properties/reason").cloned().unwrap_or_default();
    let is_by_branch = |known: &str| {
        known == member || known == "reason" && branches.iter().any(|branch| branch.reasons.is_some())
    };
    if let Some(own) = common.get_mut("properties").and_then(Value::as_object_mut) {
        own.retain(|known, _| !is_by_branch(known));
    }
    if let Some(required) = common.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|known| known != member);
    }
    let common_name = format!("{name}Members");
    for branch in branches {
        let mut own = Map::new();
        own.insert(
            member.to_owned(),
            json!({"type": "string", "enum": [branch.word]}),
        );
        if let Some(words) = &branch.reasons {
            let mut reason = reason.clone();
            say(Some(&mut reason), words.clone());
            own.insert("reason".to_owned(), reason);
        }
        let required: Vec<&str> = [member].into_iter().chain(branch.has).collect();
        let form = json!({
            "type": "object",
            "description": branch.about,
            "required": required,
            "properties": own,
            "allOf": [reference(&common_name)],
        });
        schemas.insert(branch.name.to_owned(), form);
    }
    schemas.insert(common_name, common);
    schemas.insert(name.to_owned(), json!({"description": about}));
    let forms: Vec<_> = branches.iter().map(|branch| (branch.word, branch.name)).collect();
    tell_apart(schemas, name, member, &forms);
    extend_forms(schemas, name);
}

/// What has all members of a union has one of its forms. Called by name it would be a form more to some generators.
fn extend_forms(schemas: &mut Map<String, Value>, name: &str) {
    let forms = schemas.get(name).and_then(|union| union.get("oneOf")).cloned();
    let union = reference(name);
    let parts = schemas
        .values_mut()
        .filter_map(|schema| schema.get_mut("allOf")?.as_array_mut());
    for part in parts.flatten().filter(|part| **part == union) {
        *part = json!({"oneOf": forms});
    }
}

/// Gives named forms the word that the answer adds to them, and makes a schema their union.
fn tag(schemas: &mut Map<String, Value>, name: &str, member: &str, forms: &[(&str, &str)]) {
    for (word, form) in forms {
        let Some(form) = schemas.get_mut(*form) else {
            continue;
        };
        if let Some(members) = form.get_mut("properties").and_then(Value::as_object_mut) {
            members.insert(member.to_owned(), json!({"type": "string", "enum": [word]}));
        }
        if let Some(required) = form.get_mut("required").and_then(Value::as_array_mut) {
            required.push(member.into());
        }
    }
    tell_apart(schemas, name, member, forms);
}

/// Makes a schema the union of these named forms, each with its word of `member`.
pub(super) fn tell_apart(schemas: &mut Map<String, Value>, name: &str, member: &str, forms: &[(&str, &str)]) {
    let choices: Value = forms.iter().map(|(_word, form)| reference(form)).collect();
    let target = |form: &str| format!("#/components/schemas/{form}").into();
    let mapping: Map<String, Value> = forms
        .iter()
        .map(|(word, form)| ((*word).to_owned(), target(form)))
        .collect();
    if let Some(union) = schemas.get_mut(name).and_then(Value::as_object_mut) {
        union.insert("oneOf".to_owned(), choices);
        union.insert(
            "discriminator".to_owned(),
            json!({"propertyName": member, "mapping": mapping}),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi;

    #[test]
    fn each_form_of_a_union_has_the_word_of_its_own() {
        let contract: Value = serde_json::from_str(openapi::document()).unwrap();
        let schemas = contract["components"]["schemas"].as_object().unwrap();
        let mut unions = Vec::new();
        for (name, schema) in schemas {
            let Some(member) = schema["discriminator"]["propertyName"].as_str() else {
                continue;
            };
            unions.push(name.as_str());
            let mapping = schema["discriminator"]["mapping"].as_object().unwrap();
            let choices = schema["oneOf"].as_array().unwrap();
            assert_eq!(mapping.len(), choices.len(), "{name}");
            for (word, form) in mapping {
                assert!(choices.contains(&json!({"$ref": form})), "{name} {word}");
                let form = contract
                    .pointer(form.as_str().unwrap().trim_start_matches('#'))
                    .unwrap();
                assert_eq!(form["properties"][member]["enum"], json!([word]), "{name} {word}");
                assert!(
                    form["required"].as_array().unwrap().contains(&member.into()),
                    "{name} {word}"
                );
            }
        }
        assert_eq!(
            unions,
            [
                "Event",
                "ExecFinished",
                "ExecStarted",
                "Explanation",
                "ProcessAnswer",
                "Run"
            ]
        );
    }

    #[test]
    fn every_word_of_the_table_is_said_of_a_member() {
        let contract: Value = serde_json::from_str(openapi::document()).unwrap();
        let schemas = &contract["components"]["schemas"];
        for (name, member, words) in known_words() {
            let said = |name: &str| schemas[name]["properties"][member]["enum"] == words;
            assert!(said(name) || said(&format!("{name}Members")), "{name}.{member}");
        }
    }
}
