//! A model on this machine that says what a test tells it to, in the words of each maker's API. It is asked with the
//! whole conversation each time, so which turn it is can be counted there, also when a client asks twice.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    Router,
    http::{Uri, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::patiently;

/// A tool that the model calls.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) tool: String,
    /// What Codex calls the tools of one MCP server.
    pub(super) namespace: Option<&'static str>,
    pub(super) input: Value,
}

impl Call {
    pub(super) fn new(tool: &str, input: Value) -> Self {
        Self {
            tool: tool.to_owned(),
            namespace: None,
            input,
        }
    }
}

/// A model, while a test lasts.
#[derive(Debug)]
pub(super) struct Model {
    address: String,
    state: Arc<ModelState>,
}

#[derive(Debug)]
struct ModelState {
    turns: Vec<Vec<Call>>,
    talk: Mutex<Talk>,
    /// The turns before this one are answered; the others wait.
    open: watch::Sender<usize>,
}

/// What the model was told so far.
#[derive(Debug, Default, Clone)]
struct Talk {
    /// The turns that it was asked for.
    asked: usize,
    /// What the tools said, in the order of their calls.
    results: Vec<String>,
    /// The names of the tools that there are.
    tools: Vec<String>,
}

impl Model {
    /// One that makes these calls, turn by turn, and then has done.
    pub(super) async fn saying(turns: Vec<Vec<Call>>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(ModelState {
            turns,
            talk: Mutex::default(),
            open: watch::Sender::new(usize::MAX),
        });
        let serving = Arc::clone(&state);
        let router = Router::new()
            .fallback(move |uri: Uri, body: String| async move { serving.answer(uri.path(), &body).await })
            .layer(axum::extract::DefaultBodyLimit::disable());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            address: format!("http://{address}"),
            state,
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Lets it answer no turn from this one on, until [`Self::go_on`].
    pub(super) fn stop_before(&self, turn: usize) {
        self.state.open.send_replace(turn);
    }

    pub(super) fn go_on(&self) {
        self.state.open.send_replace(usize::MAX);
    }

    /// Waits until it was asked for a turn: the calls of those before have their results.
    pub(super) async fn asked_for(&self, turn: usize) {
        let talk = || async { self.talk() };
        patiently("asked for a turn", talk, |talk| (talk.asked > turn).then_some(())).await;
    }

    /// What the tools said, in the order of their calls.
    pub(super) fn results(&self) -> Vec<String> {
        self.talk().results
    }

    /// Whether a tool was offered to it.
    pub(super) fn knows(&self, tool: &str) -> bool {
        self.talk().tools.iter().any(|known| known == tool)
    }

    fn talk(&self) -> Talk {
        self.state
            .talk
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ModelState {
    async fn answer(&self, path: &str, body: &str) -> Response {
        let request: Value = serde_json::from_str(body).unwrap_or_default();
        let (api, request) = match Api::of(path) {
            Some(api) if has_tools(&request) => (api, request),
            Some(api) => return api.response(&request, path, (0, &[])),
            None => return axum::Json(json!({"input_tokens": 1, "data": [], "models": []})).into_response(),
        };
        let (turn, results) = api.conversation(&request);
        {
            let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
            talk.asked = talk.asked.max(turn + 1);
            talk.tools = api.tools(&request);
            if results.len() > talk.results.len() {
                talk.results = results;
            }
        }
        let mut open = self.open.subscribe();
        if open.wait_for(|open| turn < *open).await.is_err() {
            return axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let calls = self.turns.get(turn).map_or(&[][..], Vec::as_slice);
        api.response(&request, path, (turn, calls))
    }
}

fn has_tools(request: &Value) -> bool {
    request["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

/// Whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    /// What Claude Code speaks.
    Messages,
    /// What Codex speaks.
    Responses,
    /// What opencode speaks.
    Chat,
    /// What Gemini CLI speaks.
    Contents,
}

impl Api {
    fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => Some(Self::Messages),
            "/v1/responses" => Some(Self::Responses),
            "/v1/chat/completions" => Some(Self::Chat),
            path if path.ends_with("enerateContent") => Some(Self::Contents),
            _other => None,
        }
    }

    /// How many turns of calls there were, and what came of the calls.
    fn conversation(self, request: &Value) -> (usize, Vec<String>) {
        let (messages, parts) = match self {
            Self::Messages => ("messages", "content"),
            Self::Responses => ("input", ""),
            Self::Chat => ("messages", "tool_calls"),
            Self::Contents => ("contents", "parts"),
        };
        let mut turns = 0;
        let mut follows_call = false;
        let mut results = Vec::new();
        for message in request[messages].as_array().into_iter().flatten() {
            let parts = match &message[parts] {
                Value::Array(parts) => parts.as_slice(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => &[],
            };
            let all = || parts.iter().chain([message]);
            let is_call = all().any(|part| {
                matches!(
                    part["type"].as_str(),
                    Some("tool_use" | "function_call" | "function")
                ) || part["functionCall"].is_object()
            });
            // Codex writes each call of a turn as an item of its own.
            if is_call && !follows_call {
                turns += 1;
            }
            follows_call = is_call && self == Self::Responses;
            results.extend(all().filter_map(|part| match part["type"].as_str() {
                Some("tool_result") => Some(text_of(&part["content"])),
                Some("function_call_output") => Some(text_of(&part["output"])),
                _ if part["role"] == "tool" => Some(text_of(&part["content"])),
                _ => {
                    let response = part["functionResponse"]["response"].as_object()?;
                    Some(response.values().map(text_of).collect())
                }
            }));
        }
        (turns, results)
    }

    fn tools(self, request: &Value) -> Vec<String> {
        let tools = request["tools"].as_array().into_iter().flatten();
        let below = |tool: &Value| match self {
            Self::Messages | Self::Responses => vec![tool.clone()],
            Self::Chat => vec![tool["function"].clone()],
            Self::Contents => tool["functionDeclarations"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        };
        tools
            .flat_map(below)
            .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
            .collect()
    }

    /// A turn, or the last word where there is nothing to call.
    fn response(self, request: &Value, path: &str, (turn, calls): (usize, &[Call])) -> Response {
        let called: Vec<(String, &Call)> = calls
            .iter()
            .enumerate()
            .map(|(at, call)| (format!("call_{turn}_{at}"), call))
            .collect();
        match self {
            Self::Messages => messages(request, &called),
            Self::Responses => responses(&called),
            Self::Chat => chat(request, &called),
            Self::Contents => contents(path, &called),
        }
    }
}

const LAST_WORD: &str = "It is done.";

/// The text of a result, which some clients make of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .map(|part| part["text"].as_str().unwrap_or_default())
            .collect(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => content.to_string(),
    }
}

fn messages(request: &Value, called: &[(String, &Call)]) -> Response {
    let stop = if called.is_empty() { "end_turn" } else { "tool_use" };
    let mut blocks: Vec<Value> = called
        .iter()
        .map(|(id, call)| json!({"type": "tool_use", "id": id, "name": call.tool, "input": call.input}))
        .collect();
    if blocks.is_empty() {
        blocks.push(json!({"type": "text", "text": LAST_WORD}));
    }
    // Claude Code takes messages with the same id for one.
    let id = called.first().map_or("last", |(id, _)| id.as_str());
    let message = |content: Value, stop: Value| {
        json!({
            "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "obedient", "content": content,
            "stop_reason": stop, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
        })
    };
    if request["stream"] != true {
        return axum::Json(message(json!(blocks), json!(stop))).into_response();
    }
    let mut events = vec![json!({"type": "message_start", "message": message(json!([]), Value::Null)})];
    for (index, block) in blocks.into_iter().enumerate() {
        let (begins, delta) = if block["type"] == "text" {
            (
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": block["text"]}),
            )
        } else {
            let input = block["input"].to_string();
            let mut begins = block;
            begins["input"] = json!({});
            (begins, json!({"type": "input_json_delta", "partial_json": input}))
        };
        events.extend([
            json!({"type": "content_block_start", "index": index, "content_block": begins}),
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            json!({"type": "content_block_stop", "index": index}),
        ]);
    }
    events.extend([
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]);
    stream(&events)
}

fn responses(called: &[(String, &Call)]) -> Response {
    let mut items: Vec<Value> = called
        .iter()
        .map(|(id, call)| {
            let mut item = json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id,
                "name": call.tool, "arguments": call.input.to_string()});
            if let Some(namespace) = call.namespace {
                item["namespace"] = json!(namespace);
            }
            item
        })
        .collect();
    if items.is_empty() {
        let content = json!([{"type": "output_text", "text": LAST_WORD}]);
        items.push(json!({"type": "message", "id": "msg_1", "role": "assistant", "content": content}));
    }
    let mut events = vec![json!({"type": "response.created", "response": {"id": "resp_1"}})];
    events.extend(items.into_iter().enumerate().map(
        |(index, item)| json!({"type": "response.output_item.done", "output_index": index, "item": item}),
    ));
    let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
        "input_tokens_details": null, "output_tokens_details": null});
    events.push(json!({"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}));
    stream(&events)
}

fn chat(request: &Value, called: &[(String, &Call)]) -> Response {
    let calls: Vec<Value> = called
        .iter()
        .enumerate()
        .map(|(index, (id, call))| {
            json!({"index": index, "id": id, "type": "function",
                "function": {"name": call.tool, "arguments": call.input.to_string()}})
        })
        .collect();
    let (message, stop) = if calls.is_empty() {
        (json!({"role": "assistant", "content": LAST_WORD}), "stop")
    } else {
        (
            json!({"role": "assistant", "content": null, "tool_calls": calls}),
            "tool_calls",
        )
    };
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let answer = |object: &str, choice: Value| {
        json!({"id": "chat_1", "object": object, "created": 1, "model": "obedient", "choices": [choice],
            "usage": usage})
    };
    if request["stream"] != true {
        let choice = json!({"index": 0, "message": message, "finish_reason": stop});
        return axum::Json(answer("chat.completion", choice)).into_response();
    }
    stream(&[
        answer(
            "chat.completion.chunk",
            json!({"index": 0, "delta": message, "finish_reason": null}),
        ),
        answer(
            "chat.completion.chunk",
            json!({"index": 0, "delta": {}, "finish_reason": stop}),
        ),
    ])
}

fn contents(path: &str, called: &[(String, &Call)]) -> Response {
    let mut parts: Vec<Value> = called
        .iter()
        .map(|(id, call)| {
            json!({"functionCall": {"id": id, "name": call.tool, "args": call.input}, "thoughtSignature": "c2ln"})
        })
        .collect();
    if parts.is_empty() {
        parts.push(json!({"text": LAST_WORD}));
    }
    let usage = json!({"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2});
    let content = json!({"role": "model", "parts": parts});
    let answer = json!({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage, "modelVersion": "obedient"});
    if path.ends_with("streamGenerateContent") {
        stream(&[answer])
    } else {
        axum::Json(answer).into_response()
    }
}

/// Server-sent events, which have a name where their type is one.
fn stream(events: &[Value]) -> Response {
    let event = |event: &Value| match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    let text: String = events.iter().map(event).collect();
    ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
}
