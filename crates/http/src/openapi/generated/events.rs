//! The events of the streams: a schema for each type, told apart by `type`, and what a stream is made of.

use serde_json::{Map, Value, json};

use countersign_ledger::events::{AllowlistChange, AllowlistList, EventType, PairingOutcome, PolicyPart};

use super::{reference, unions};

const UNION: &str = "Event";
const COMMON: &str = "EventMembers";
/// The one event that is no [`EventType`], since it is in no log.
const GAP: &str = "events.gap";

/// Adds the schemas of all events, and those of the process stream.
pub(super) fn add(schemas: &mut Map<String, Value>) {
    let mut forms = Vec::new();
    let kinds = EventType::ALL.iter().map(|kind| (kind.as_str(), shape(*kind)));
    let gap = Shape::of(
        &[],
        "The number to resume after is too old: load the lists again.",
    )
    .live()
    .member("oldestSeq", integer());
    for (kind, shape) in kinds.chain([(GAP, gap)]) {
        let name = schema_name(kind);
        schemas.insert(name.clone(), shape.schema(kind));
        forms.push((kind, name));
    }
    schemas.insert(COMMON.to_owned(), common());
    let about = schemas
        .get(UNION)
        .and_then(|event| event.get("description"))
        .cloned();
    schemas.insert(UNION.to_owned(), json!({"description": about}));
    let forms: Vec<_> = forms.iter().map(|(kind, name)| (*kind, name.as_str())).collect();
    unions::tell_apart(schemas, UNION, "type", &forms);
    schemas.insert("ProcessOutput".to_owned(), process_output());
}

/// What a stream of an operation is made of, by the name of the operation.
pub(super) fn stream(operation: &str) -> Option<Value> {
    let frames = match operation {
        "get_events" => frame(
            &json!({"type": "string", "description": "The type."}),
            &reference(UNION),
        ),
        "stream_process_session" => json!({
            "oneOf": [
                frame(&json!({"type": "string", "enum": ["output"]}), &reference("ProcessOutput")),
                frame(&json!({"type": "string", "enum": ["screen"]}), &reference("Frame")),
                frame(&json!({"type": "string", "enum": ["lost"]}), &json!({"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}})),
                frame(&json!({"type": "string", "enum": ["end"]}), &reference("ProcessSession")),
            ],
        }),
        "get_run_output" => json!({
            "oneOf": [
                frame(&json!({"type": "string", "enum": ["output"]}), &reference("ProcessOutput")),
                frame(&json!({"type": "string", "enum": ["end"]}), &reference("Run")),
            ],
        }),
        _ => return None,
    };
    Some(json!({
        "type": "string",
        "description": "Server-sent events, and a comment line every 15 seconds.",
        "contentMediaType": "text/event-stream",
        "contentSchema": {"type": "array", "items": frames},
    }))
}

fn frame(event: &Value, data: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "id": {"type": "string", "description": "To be sent back as `Last-Event-ID`; absent for what is in no log."},
            "event": event,
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
        },
    })
}

/// `exec.approval.requested` is `ExecApprovalRequestedEvent`.
fn schema_name(kind: &str) -> String {
    let mut name: String = kind
        .split(['.', '-'])
        .map(|part| {
            let (first, rest) = part.split_at_checked(1).unwrap_or((part, ""));
            first.to_ascii_uppercase() + rest
        })
        .collect();
    name.push_str("Event");
    name
}

/// What every event may have, and all but the numbers.
fn common() -> Value {
    json!({
        "type": "object",
        "description": "What events have in common. What an event is about is named where it is about one.",
        "required": ["ts"],
        "properties": {
            "seq": {"type": "integer", "format": "int64", "description": "Its number in the log; absent for what is only streamed."},
            "atMs": described("UnixMillis", "When."),
            "ts": deprecated("UnixMillis", "The same as `atMs`."),
            "runId": reference("RunId"),
            "approvalId": reference("ApprovalId"),
            "agentId": reference("AgentId"),
            "sessionKey": reference("SessionKey"),
            "host": reference("Host"),
            "nodeId": {"type": "string"},
        },
    })
}

fn described(name: &str, about: &str) -> Value {
    let mut schema = reference(name);
    if let Some(members) = schema.as_object_mut() {
        members.insert("description".to_owned(), about.into());
    }
    schema
}

fn deprecated(name: &str, about: &str) -> Value {
    let mut schema = described(name, about);
    if let Some(members) = schema.as_object_mut() {
        members.insert("deprecated".to_owned(), true.into());
    }
    schema
}

fn process_output() -> Value {
    json!({
        "type": "object",
        "description": "Output of a process session: text, or the exact bytes with `encoding=base64`.",
        "required": ["offset", "stream"],
        "properties": {
            "offset": integer(),
            "stream": reference("OutputStream"),
            "text": text(),
            "base64": {"type": "string", "contentEncoding": "base64"},
        },
    })
}

fn text() -> Value {
    json!({"type": "string"})
}

fn texts() -> Value {
    json!({"type": "array", "items": text()})
}

fn integer() -> Value {
    json!({"type": "integer", "format": "int64", "minimum": 0})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

macro_rules! words {
    ($vocabulary:ty) => {
        json!({"type": "string", "enum": <$vocabulary>::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>()})
    };
}

/// Always there where an event is about a run.
const RUN: &[&str] = &["runId", "agentId", "sessionKey", "host"];
const APPROVAL: &[&str] = &["runId", "approvalId", "agentId", "sessionKey", "host"];
const SESSION: &[&str] = &["agentId", "sessionKey"];
const NODE: &[&str] = &["nodeId"];
const NOTHING: &[&str] = &[];

/// The form of one type of event.
struct Shape {
    about: &'static str,
    required: Vec<&'static str>,
    members: Map<String, Value>,
}

impl Shape {
    /// With the common members that it always has.
    fn of(common: &[&'static str], about: &'static str) -> Self {
        let required = [&["seq", "type"], common].concat();
        Self {
            about,
            required,
            members: Map::new(),
        }
    }

    /// It is in no log, so it has no number.
    fn live(mut self) -> Self {
        self.required.retain(|name| *name != "seq");
        self
    }

    fn member(mut self, name: &'static str, schema: Value) -> Self {
        self.required.push(name);
        self.members.insert(name.to_owned(), schema);
        self
    }

    fn named(self, name: &'static str, schema: &str) -> Self {
        self.member(name, reference(schema))
    }

    fn maybe(mut self, name: &'static str, schema: Value) -> Self {
        self.members.insert(name.to_owned(), schema);
        self
    }

    fn schema(self, kind: &str) -> Value {
        let Self {
            about,
            required,
            members,
        } = self;
        let mut own = Map::new();
        own.insert("type".to_owned(), json!({"type": "string", "enum": [kind]}));
        own.extend(members);
        json!({
            "type": "object",
            "description": about,
            "required": required,
            "properties": own,
            "allOf": [reference(COMMON)],
        })
    }
}

fn shape(kind: EventType) -> Shape {
    let input = || json!({"type": "string", "enum": ["withheld", "pipe", "guarded-terminal", "terminal"]});
    let actor = || reference("Actor");
    match kind {
        EventType::ExecRequested => Shape::of(RUN, "A run was admitted and judged.")
            .member("command", text())
            .member("cwd", text())
            .named("requestedBy", "Actor")
            .named("verdict", "RunVerdict")
            .maybe("binding", reference("Pinning"))
            .maybe("scripts", reference("ScriptHold"))
            .maybe("confined", text())
            .maybe("input", input())
            .maybe("justification", text())
            .maybe("contextUrl", text()),
        EventType::ExecStarted => Shape::of(RUN, "A run started.")
            .maybe("pid", json!({"type": "integer", "format": "int32"}))
            .named("startedAtMs", "UnixMillis")
            .maybe("sessionId", text())
            .member("diverted", flag()),
        EventType::ExecRunning => Shape::of(RUN, "The one notice that a run takes long.")
            .member("elapsedMs", integer())
            .maybe("sessionId", text()),
        EventType::ExecOutput => Shape::of(RUN, "Output as it comes, only with `output=true`.")
            .live()
            .member("offset", integer())
            .named("stream", "OutputStream")
            .member("text", text()),
        EventType::ExecFinished => Shape::of(RUN, "A run ended.")
            .member(
                "status",
                json!({"type": "string", "enum": ["completed", "failed", "cancelled", "lost"]}),
            )
            .maybe("exitCode", json!({"type": "integer", "format": "int32"}))
            .maybe("exitSignal", text())
            .member("timedOut", flag())
            .member("durationMs", integer())
            .member("truncated", flag())
            .member("outputBytes", integer())
            .member("tail", text())
            .maybe("reason", reference("Reason")),
        EventType::ExecDenied => Shape::of(RUN, "A run will never start.")
            .named("reason", "Reason")
            .maybe("detail", text()),
        EventType::ApprovalRequested => Shape::of(APPROVAL, "A person is asked.")
            .maybe("confined", text())
            .member("slug", text())
            .member("approvalUrl", text())
            .member("statusUrl", text())
            .member("command", text())
            .member("cwd", text())
            .named("security", "Security")
            .named("ask", "Ask")
            .maybe("input", input())
            .named("createdAtMs", "UnixMillis")
            .named("expiresAtMs", "UnixMillis")
            .member("approvalsRequired", integer())
            .maybe("groups", texts())
            .maybe("justification", text())
            .maybe("contextUrl", text()),
        EventType::ApprovalVoted => Shape::of(
            APPROVAL,
            "An approver allowed what takes several people, and it still waits.",
        )
        .named("by", "Actor")
        .named("decision", "ApprovalDecision")
        .member("votes", integer())
        .member("approvalsRequired", integer())
        .maybe("groups", texts()),
        EventType::ApprovalResolved => Shape::of(
            APPROVAL,
            "A question was answered, expired, was withdrawn, or was settled by a rule; or what was allowed was taken back.",
        )
        .named("status", "ApprovalStatus")
        .maybe("decision", reference("ApprovalDecision"))
        .maybe("resolvedBy", actor())
        .maybe("reason", text())
        .maybe("terminalReason", reference("TerminalReason"))
        .maybe("grant", text()),
        EventType::ExecStopped => Shape::of(
            NOTHING,
            "The emergency stop took effect: nothing starts any more.",
        )
        .named("by", "Actor")
        .named("stoppedAtMs", "UnixMillis")
        .member("reason", text())
        .member("kill", flag()),
        EventType::ExecResumed => Shape::of(NOTHING, "Everything goes on.")
            .named("by", "Actor")
            .member("reason", text())
            .maybe("proposedBy", actor())
            .named("stoppedAtMs", "UnixMillis"),
        EventType::AllowlistChanged => Shape::of(
            NOTHING,
            "An entry, grant or deny rule changed, or let a run through.",
        )
        .member("change", words!(AllowlistChange))
        .member("list", words!(AllowlistList))
        .named("entryId", "EntryId")
        .maybe("by", actor())
        .maybe("mutes", flag()),
        EventType::PolicyChanged => Shape::of(NOTHING, "What is allowed changed.")
            .member("what", words!(PolicyPart))
            .maybe("hash", text())
            .maybe("by", actor()),
        EventType::ConfigRejected => Shape::of(NOTHING, "An edit of a settings file was not taken.")
            .member("path", text())
            .member("message", text()),
        EventType::ConfigRestartNeeded => {
            Shape::of(NOTHING, "Changed settings wait for a restart.").member("paths", texts())
        }
        EventType::DocumentRefused => Shape::of(
            NOTHING,
            "The approvals document cannot be used: everything is denied.",
        )
        .member("reason", text())
        .member("pointer", text()),
        EventType::DocumentHeld => {
            Shape::of(NOTHING, "A change of the approvals document waits for an admin.")
                .member("hash", text())
        }
        EventType::SessionChanged => Shape::of(SESSION, "What a session overrides changed.")
            .named("overrides", "SessionOverrides")
            .named("by", "Actor"),
        EventType::SystemEvent => Shape::of(SESSION, "A session is told something.").member("text", text()),
        EventType::SessionWake => Shape::of(SESSION, "A session asks for its agent's attention.")
            .member("reason", json!({"type": "string", "enum": ["exec-finished"]}))
            .member("systemEvent", text()),
        EventType::NodeConnected => Shape::of(NODE, "A node connected.").maybe("displayName", text()),
        EventType::NodeDisconnected => Shape::of(NODE, "The connection of a node ended.")
            .maybe("displayName", text())
            .maybe("reason", text()),
        EventType::NodePairingRequested => Shape::of(
            NODE,
            "A device wants to become a node, or a node wants to be sent more commands.",
        )
        .member("requestId", text())
        .maybe("displayName", text())
        .member("platform", text())
        .maybe("remoteIp", text())
        .member("commands", texts())
        .member("kind", words!(countersign_domain::PairingKind))
        .member("isRepair", flag())
        .named("requestedAtMs", "UnixMillis"),
        EventType::NodePairingResolved => {
            Shape::of(NODE, "An approver decided that, or took back what was approved.")
                .member("requestId", text())
                .member("kind", words!(countersign_domain::PairingKind))
                .member("decision", words!(PairingOutcome))
                .named("by", "Actor")
        }
        EventType::ServerShutdown => Shape::of(NOTHING, "The server stops.").member("graceMs", integer()),
    }
}
