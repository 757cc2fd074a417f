//! The table: every operation, who may call it, and how it is called rightly.

use countersign_sys::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

/// Who may call an operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Access {
    /// Anybody.
    Open,
    /// A browser with its cookie; without one it says so in its own way.
    Cookie,
    /// Tokens with one of these scopes. A refusal names one of them.
    Scopes(&'static [&'static str]),
}

/// Whose the things are that an operation touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// Nobody's: only the caller, or that the server is there.
    Caller,
    /// No agent's: every token that is bound to agents is refused.
    NoAgent,
    /// An agent's. This is what a token that is bound to another agent gets.
    Agent(Foreign),
}

/// How a token is answered that is bound to other agents than the one that a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// 403: the call names the agent, or means `main`.
    Refused,
    /// 404: as for a thing that is not there.
    Unknown,
    /// 200, without the thing.
    LeftOut,
    /// A list of one agent's for a token with only exec, of all for one with read.
    RefusedOrLeftOut,
    /// A thing of one agent's for a token with only exec, of anybody's for one with read.
    RefusedOrUnknown,
}

/// The body of a right call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// None.
    None,
    /// This one.
    Json(fn() -> Value),
    /// This one, with the `ETag` of what is there as `If-Match`.
    Tagged(fn() -> Value),
}

/// One operation.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) about: About,
    pub(super) body: Body,
    /// The status of a right call; of anybody's call where no scope is needed.
    pub(super) answers: u16,
    pub(super) accept: &'static str,
    /// Whether the answer never ends.
    pub(super) streams: bool,
}

const EXEC: Access = Access::Scopes(&["exec"]);
const READ: Access = Access::Scopes(&["read"]);
const APPROVE: Access = Access::Scopes(&["approve"]);
const RELAY: Access = Access::Scopes(&["relay", "admin"]);
const ADMIN: Access = Access::Scopes(&["admin"]);

const REFUSED: About = About::Agent(Foreign::Refused);
const UNKNOWN: About = About::Agent(Foreign::Unknown);
const LEFT_OUT: About = About::Agent(Foreign::LeftOut);

const fn row(
    method: &'static str,
    path: &'static str,
    access: Access,
    about: About,
    body: Body,
    answers: u16,
) -> Row {
    Row {
        method,
        path,
        access,
        about,
        body,
        answers,
        accept: "application/json",
        streams: false,
    }
}

const fn get(path: &'static str, access: Access, about: About) -> Row {
    row("GET", path, access, about, Body::None, 200)
}

const fn open(path: &'static str, accept: &'static str) -> Row {
    Row {
        accept,
        ..row("GET", path, Access::Open, About::Caller, Body::None, 200)
    }
}

/// Functions that give these bodies.
macro_rules! bodies {
    ($($name:ident $body:tt)*) => { $(fn $name() -> Value { json!($body) })* };
}

bodies! {
    exec { "argv": ["/bin/true"] }
    no_reason {}
    commands { "commands": [{ "argv": ["/bin/true"] }] }
    cases { "cases": "{\"command\": \"true\", \"expect\": \"ask\"}" }
    all_sessions { "action": "list" }
    patch { "input": "*** Begin Patch\n*** Add File: x\n+x\n*** Delete File: x\n*** End Patch\n" }
    overrides { "node": "mac-1" }
    text { "text": "hello", "sender": { "provider": "telegram", "id": "42" } }
    tool { "tool": "exec", "args": { "argv": ["/bin/true"] } }
    reason { "reason": "x" }
    decision { "decision": "deny" }
    decisions { "decisions": [{ "id": "00000000-0000-4000-8000-000000000000", "decision": "deny" }] }
    pattern { "pattern": "/opt/same-every-time", "note": "x" }
    rule { "pattern": "/opt/denied-every-time" }
    note { "note": "changed" }
    policy { "ask": "on-miss" }
    document { "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/bin/true" }] } } }
    config { "set": { "tools.exec.timeoutSec": 600 } }
    preset { "name": "cautious" }
    pairing { "decision": "reject" }
    name { "displayName": "Another name" }
    token { "name": "new", "scopes": ["read"] }
    greeting { "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "table", "version": "1" },
    } }
    wrong_login { "code": "x".repeat(43) }
}

/// A row: method, path, who may call it and about whom, the body, and the status of a right call.
macro_rules! row {
    ($method:ident $path:literal $access:expr, $about:expr, $body:expr => $answers:literal) => {
        row(stringify!($method), $path, $access, $about, $body, $answers)
    };
}

pub(super) const TABLE: &[Row] = &[
    Row {
        answers: 303,
        accept: "text/html",
        ..row("GET", "/", Access::Cookie, About::Caller, Body::None, 303)
    },
    row!(POST "/auth/login" Access::Open, About::Caller, Body::Json(wrong_login) => 401),
    row!(POST "/auth/logout" Access::Cookie, About::Caller, Body::None => 204),
    row!(GET "/auth/session" Access::Cookie, About::Caller, Body::None => 401),
    open("/docs", "text/html"),
    open("/healthz", "application/json"),
    Row {
        accept: "application/json, text/event-stream",
        ..row("POST", "/mcp", EXEC, About::Caller, Body::Json(greeting), 200)
    },
    Row {
        accept: "text/plain",
        ..get("/metrics", READ, About::NoAgent)
    },
    open("/openapi.json", "application/json"),
    open("/readyz", "application/json"),
    open("/v1/errors.json", "application/json"),
    open("/v1/version", "application/json"),
    get("/v1/agents", READ, LEFT_OUT),
    get("/v1/agents/{agentId}/allowlist", READ, REFUSED),
    // The same again answers with the entry that is there.
    row!(POST "/v1/agents/{agentId}/allowlist" ADMIN, REFUSED, Body::Json(pattern) => 201),
    get("/v1/agents/{agentId}/allowlist/{entryId}", READ, REFUSED),
    row!(PATCH "/v1/agents/{agentId}/allowlist/{entryId}" ADMIN, REFUSED, Body::Json(note) => 200),
    row!(DELETE "/v1/agents/{agentId}/allowlist/{entryId}" ADMIN, REFUSED, Body::None => 204),
    get("/v1/agents/{agentId}/denylist", READ, REFUSED),
    row!(POST "/v1/agents/{agentId}/denylist" ADMIN, REFUSED, Body::Json(rule) => 201),
    row!(DELETE "/v1/agents/{agentId}/denylist/{entryId}" ADMIN, REFUSED, Body::None => 204),
    get("/v1/mutes", Access::Scopes(&["read", "approve"]), LEFT_OUT),
    row!(PUT "/v1/agents/{agentId}/mute" APPROVE, REFUSED, Body::Json(mute) => 200),
    row!(DELETE "/v1/agents/{agentId}/mute" ADMIN, REFUSED, Body::None => 204),
    get("/v1/agents/{agentId}/policy", READ, REFUSED),
    row!(PUT "/v1/agents/{agentId}/policy" ADMIN, REFUSED, Body::Json(policy) => 200),
    get("/v1/approvals", Access::Scopes(&["read", "approve"]), LEFT_OUT),
    get(
        "/v1/approvals/{id}",
        Access::Scopes(&["read", "approve"]),
        UNKNOWN,
    ),
    // The status of each answer stands in its result.
    row!(POST "/v1/approvals/decisions" APPROVE, LEFT_OUT, Body::Json(decisions) => 200),
    row!(POST "/v1/approvals/{id}/decision" APPROVE, UNKNOWN, Body::Json(decision) => 200),
    row!(POST "/v1/approvals/{id}/take-back" APPROVE, UNKNOWN, Body::Json(no_reason) => 422),
    row!(POST "/v1/approvals/{id}/revision" APPROVE, UNKNOWN, Body::Json(exec) => 201),
    get("/v1/audit", ADMIN, About::NoAgent),
    get("/v1/audit/head", READ, About::NoAgent),
    get("/v1/audit/verify", ADMIN, About::NoAgent),
    get("/v1/config", READ, About::NoAgent),
    get("/v1/doctor", ADMIN, About::NoAgent),
    row!(PATCH "/v1/config" ADMIN, About::NoAgent, Body::Tagged(config) => 200),
    Row {
        accept: "text/event-stream",
        streams: true,
        ..get("/v1/events", Access::Scopes(&["read", "exec"]), LEFT_OUT)
    },
    row!(POST "/v1/apply-patch" EXEC, REFUSED, Body::Json(patch) => 202),
    row!(POST "/v1/exec" EXEC, REFUSED, Body::Json(exec) => 200),
    row!(POST "/v1/exec/explanations" Access::Scopes(&["exec", "read"]), LEFT_OUT, Body::Json(commands) => 200),
    row!(POST "/v1/exec/explain" Access::Scopes(&["exec", "read"]), REFUSED, Body::Json(exec) => 200),
    get(
        "/v1/me",
        Access::Scopes(&["exec", "relay", "read", "approve", "admin"]),
        About::Caller,
    ),
    row!(POST "/v1/login-links" ADMIN, About::NoAgent, Body::None => 201),
    get("/v1/sign-ins", ADMIN, About::NoAgent),
    row!(DELETE "/v1/sign-ins/{id}" ADMIN, About::NoAgent, Body::None => 404),
    get("/v1/nodes", READ, About::NoAgent),
    get("/v1/nodes/pairings", ADMIN, About::NoAgent),
    row!(POST "/v1/nodes/pairings/{requestId}/decision" ADMIN, About::NoAgent, Body::Json(pairing) => 200),
    get("/v1/nodes/{nodeId}", READ, About::NoAgent),
    row!(PATCH "/v1/nodes/{nodeId}" ADMIN, About::NoAgent, Body::Json(name) => 200),
    row!(DELETE "/v1/nodes/{nodeId}" ADMIN, About::NoAgent, Body::None => 204),
    get("/v1/nodes/{nodeId}/policy/document", ADMIN, About::NoAgent),
    row!(PUT "/v1/nodes/{nodeId}/policy/document" ADMIN, About::NoAgent, Body::Tagged(document) => 200),
    get("/v1/policy/document", ADMIN, About::NoAgent),
    row!(PUT "/v1/policy/document" ADMIN, About::NoAgent, Body::Tagged(document) => 200),
    row!(POST "/v1/policy/document/accept" ADMIN, About::NoAgent, Body::Json(unknown_hash) => 412),
    row!(POST "/v1/policy/document/reject" ADMIN, About::NoAgent, Body::Json(unknown_hash) => 412),
    get("/v1/policy/effective", READ, REFUSED),
    row!(POST "/v1/policy/preset" ADMIN, About::NoAgent, Body::Json(preset) => 200),
    get(
        "/v1/process",
        Access::Scopes(&["exec", "read"]),
        About::Agent(Foreign::RefusedOrLeftOut),
    ),
    row!(POST "/v1/process" EXEC, REFUSED, Body::Json(all_sessions) => 200),
    get(
        "/v1/process/{sessionId}",
        Access::Scopes(&["exec", "read"]),
        About::Agent(Foreign::RefusedOrUnknown),
    ),
    Row {
        accept: "text/event-stream",
        streams: true,
        ..get(
            "/v1/process/{sessionId}/stream",
            Access::Scopes(&["exec", "read"]),
            About::Agent(Foreign::RefusedOrUnknown),
        )
    },
    get("/v1/runs", Access::Scopes(&["read", "exec"]), LEFT_OUT),
    // With scope approve: the runs it is asked about.
    get(
        "/v1/runs/{runId}",
        Access::Scopes(&["read", "exec", "approve"]),
        UNKNOWN,
    ),
    get("/v1/overview", READ, About::NoAgent),
    row!(POST "/v1/runs/{runId}/cancel" Access::Scopes(&["exec", "admin"]), UNKNOWN, Body::None => 200),
    Row {
        accept: "application/octet-stream",
        ..get(
            "/v1/runs/{runId}/output",
            Access::Scopes(&["read", "exec", "approve"]),
            UNKNOWN,
        )
    },
    Row {
        accept: "application/x-asciicast",
        ..get(
            "/v1/runs/{runId}/recording",
            Access::Scopes(&["read", "exec", "approve"]),
            UNKNOWN,
        )
    },
    get(
        "/v1/runs/{runId}/recording/frames",
        Access::Scopes(&["read", "exec", "approve"]),
        UNKNOWN,
    ),
    row!(POST "/v1/sessions/{sessionKey}/commands" RELAY, REFUSED, Body::Json(text) => 200),
    get("/v1/sessions/{sessionKey}/overrides", READ, REFUSED),
    row!(PUT "/v1/sessions/{sessionKey}/overrides" ADMIN, REFUSED, Body::Json(overrides) => 200),
    row!(DELETE "/v1/sessions/{sessionKey}/overrides" ADMIN, REFUSED, Body::None => 204),
    get("/v1/sessions/{sessionKey}/system-events", EXEC, REFUSED),
    row!(POST "/v1/sessions/{sessionKey}/system-events/drain" EXEC, REFUSED, Body::None => 200),
    row!(POST "/tools/invoke" EXEC, REFUSED, Body::Json(tool) => 200),
    get("/v1/policy/forecast", READ, About::NoAgent),
    row!(POST "/v1/policy/tests" READ, REFUSED, Body::Json(cases) => 200),
    row!(POST "/v1/policy/backtest" READ, About::NoAgent, Body::Json(no_reason) => 200),
    get("/v1/settings", READ, About::NoAgent),
    get("/v1/stop", READ, About::Caller),
    row!(POST "/v1/stop" Access::Scopes(&["approve", "admin"]), About::NoAgent, Body::Json(reason) => 200),
    row!(POST "/v1/resume" ADMIN, About::NoAgent, Body::Json(reason) => 200),
    get("/v1/tokens", ADMIN, About::NoAgent),
    row!(POST "/v1/tokens" ADMIN, About::NoAgent, Body::Json(token) => 201),
    row!(POST "/v1/tokens/{id}/accept" ADMIN, About::NoAgent, Body::None => 404),
    row!(POST "/v1/tokens/{id}/rotate" ADMIN, About::NoAgent, Body::None => 201),
    row!(DELETE "/v1/tokens/{id}" ADMIN, About::NoAgent, Body::None => 204),
];

fn mute() -> Value {
    json!({ "untilMs": SystemClock.now().get() + 3_600_000 })
}

fn unknown_hash() -> Value {
    json!({ "hash": "0".repeat(64) })
}
