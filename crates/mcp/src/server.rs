//! The server: one call of a tool, from its request to its result.

use std::{
    future::ready,
    sync::{Arc, OnceLock},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ElicitRequest,
        ElicitRequestParams, Implementation, InputRequest, InputRequests, InputRequiredResult, JsonObject,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
        ServerRequest, Tool,
    },
    service::{NotificationContext, PeerRequestOptions, RequestContext},
};
use serde_json::Value;

use countersign_domain::UnixMillis;
use countersign_sys::clock::{Clock, Ids};

use super::{
    Backend, CallContext, ExecCall, KEY_META, Outcome, WaitPolicy, key,
    pending_calls::{Known, PendingCalls},
    present,
    progress::Progress,
    tools::{self, AskingTool, ToolArguments, ToolName},
};

const INSTRUCTIONS: &str = "Commands go through countersign: policy decides where and whether they run, and a person may be \
asked first. Nothing here can answer for that person.";

/// How long a result is held back for a link that is to be shown first.
const TO_SHOW: Duration = Duration::from_secs(1);

/// Serves the tools; cheap to clone.
#[derive(Debug, Clone)]
pub struct Server(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    backend: Arc<dyn Backend>,
    tools: Vec<Tool>,
    pending: PendingCalls,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

/// A call under way.
struct Conduct<'a> {
    server: &'a Shared,
    origin: &'a CallContext,
    context: &'a RequestContext<RoleServer>,
    progress: Progress,
    /// The run, once a person is asked about it.
    asked: OnceLock<String>,
}

/// Whether a call joins one of which only the key is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Yes,
    No,
}

/// How a client can be made to show a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Showing {
    /// By a request of ours beside the answer.
    Request,
    /// By an answer that asks for it and is followed by a retry.
    Round,
    /// Not at all: the text of the answer has it.
    Text,
}

impl Server {
    /// A server whose tools take these arguments and do calls by `backend`.
    pub fn new(
        backend: Arc<dyn Backend>,
        arguments: ToolArguments,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self(Arc::new(Shared {
            backend,
            tools: tools::list(arguments),
            pending: PendingCalls::default(),
            clock,
            ids,
        }))
    }

    /// A client took a request back, whose id this is as JSON. One that is being worked on hears of it by its context.
    pub fn taken_back(&self, scope: &str, request: &str) {
        let Shared { pending, clock, .. } = &*self.0;
        pending.taken_back(scope, request, clock.now());
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("countersign", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.0.tools.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        if let (Ok(origin), Some(request)) = (
            self.0.backend.origin(&context.extensions),
            notification.request_id,
        ) {
            self.taken_back(&origin.scope, &key::request_name(&request));
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = ToolName::parse(&request.name) else {
            return Err(ErrorData::invalid_params("there is no such tool", None));
        };
        let origin = self.0.backend.origin(&context.extensions)?;
        let conduct = Conduct {
            server: &self.0,
            origin: &origin,
            progress: Progress::of(&context),
            context: &context,
            asked: OnceLock::new(),
        };
        let work = async {
            match tool {
                ToolName::Asking(tool) => conduct.exec(tool, request).await,
                ToolName::Process => Ok(conduct.process(request).await),
                ToolName::Explain => Ok(conduct.explain(request).await),
            }
        };
        tokio::select! {
            biased;
            result = work => result,
            () = taken_back(&context, &origin) => {
                conduct.stop().await;
                Err(ErrorData::internal_error("the call was cancelled", None))
            }
        }
    }
}

/// Ends when the client takes the call back or is gone.
async fn taken_back(context: &RequestContext<RoleServer>, origin: &CallContext) {
    tokio::select! {
        () = context.ct.cancelled() => {}
        () = origin.cancelled.cancelled() => {}
    }
}

impl Conduct<'_> {
    async fn explain(&self, request: CallToolRequestParams) -> CallToolResponse {
        let arguments = request.arguments.unwrap_or_default();
        let outcome = self.origin.calls.explain(arguments).await;
        present::explanation(outcome).into()
    }

    async fn process(&self, request: CallToolRequestParams) -> CallToolResponse {
        let arguments = request.arguments.unwrap_or_default();
        let call = self.origin.calls.process(arguments);
        // A poll may wait.
        let outcome = self.progress.during(call, || ready("waiting".to_owned())).await;
        present::process(outcome).into()
    }

    async fn exec(
        &self,
        tool: AskingTool,
        request: CallToolRequestParams,
    ) -> Result<CallToolResponse, ErrorData> {
        let is_second_round = request.request_state.is_some();
        let (mut call, doubt) = self.call_of(tool, request)?;
        let wait = wait_of(&call.arguments);
        let mut outcome = self.exec_first(&call).await;
        if doubt == Doubt::Yes && outcome.was_cancelled() {
            // What was taken back has ended. This call wants it done.
            self.server.pending.forget(&self.origin.scope, &call.digest);
            call.key = self.new_key(&call.digest);
            outcome = self.exec_first(&call).await;
        }
        if let Some(answer) = outcome.pending().cloned() {
            self.note_asked(&answer);
            // Before anything is waited for: the client may take this call back and make it again.
            self.remember(&call, &outcome);
            let showing = self.showing();
            if showing == Showing::Round
                && !is_second_round
                && let Some(shown) = link_request(&answer)
            {
                let requests =
                    InputRequests::from([("approval".to_owned(), InputRequest::Elicitation(shown))]);
                return Ok(InputRequiredResult::new(Some(requests), Some(call.key)).into());
            }
            self.show_link(showing, &answer, wait).await;
            self.progress
                .report(present::waiting_line(&answer, self.now()))
                .await;
            if !wait.is_zero() {
                call.wait_policy = WaitPolicy::AsAsked;
                let is_joined = outcome.is_joined();
                outcome = self
                    .progress
                    .during(self.exec_once(&call), || self.describe(&answer))
                    .await;
                if is_joined {
                    outcome = outcome.joined();
                }
            }
        }
        self.remember(&call, &outcome);
        Ok(present::exec(outcome, self.now()).into())
    }

    fn call_of(
        &self,
        tool: AskingTool,
        request: CallToolRequestParams,
    ) -> Result<(ExecCall, Doubt), ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let digest = key::digest(&arguments);
        let bad_key = |error: key::BadKey| ErrorData::invalid_params(error.to_string(), None);
        let state = request.request_state.as_deref().map(key::check).transpose();
        let named = key::named(&self.context.meta);
        let named = named.map_err(bad_key)?;
        let is_named = named.is_some();
        let (key, doubt) = match (state.map_err(bad_key)?, named) {
            (Some(key), _) | (None, Some(key)) => (key, Doubt::No),
            (None, None) if asks_anew(&arguments) => (self.new_key(&digest), Doubt::No),
            (None, None) => self.key_of(&digest),
        };
        let call = ExecCall {
            tool,
            arguments,
            key,
            is_named,
            digest,
            wait_policy: WaitPolicy::None,
        };
        Ok((call, doubt))
    }

    fn key_of(&self, digest: &[u8; 32]) -> (String, Doubt) {
        let known = self
            .server
            .pending
            .call_of(&self.origin.scope, digest, self.now());
        match known {
            Some(Known::Waits(key)) => (key, Doubt::No),
            Some(Known::Doubtful(key)) => (key, Doubt::Yes),
            None => (self.new_key(digest), Doubt::No),
        }
    }

    fn new_key(&self, digest: &[u8; 32]) -> String {
        match &self.origin.session {
            Some(session) => key::of_request(session, &self.context.id, digest),
            None => format!("mcp-{}", self.server.ids.random().simple()),
        }
    }

    /// Makes the call; whether a person is asked about it shows only in the answer.
    async fn exec_first(&self, call: &ExecCall) -> Outcome {
        if self.origin.session.is_none() || self.context.meta.get(KEY_META).is_some() {
            // Without a session, others with the same token would join what one of them took back.
            return self
                .progress
                .during(self.exec_once(call), || ready("running".to_owned()))
                .await;
        }
        let taken_back = [self.context.ct.clone(), self.origin.cancelled.clone()];
        let identity = (call.digest, call.key.as_str());
        let pending = &self.server.pending;
        let unanswered = pending.begin(&self.origin.scope, identity, taken_back, self.now());
        let outcome = self
            .progress
            .during(self.exec_once(call), || ready("running".to_owned()))
            .await;
        unanswered.answered();
        outcome
    }

    async fn exec_once(&self, call: &ExecCall) -> Outcome {
        self.origin.calls.exec(call.clone()).await
    }

    fn remember(&self, call: &ExecCall, outcome: &Outcome) {
        if self.context.meta.get(KEY_META).is_some() {
            // A client that names the key remembers it.
            return;
        }
        let expires = outcome
            .pending()
            .and_then(|answer| answer.get("expiresAtMs")?.as_i64());
        let pending = &self.server.pending;
        if let Some(expires) = expires {
            let expires = UnixMillis::new(expires);
            pending.remember(&self.origin.scope, call.digest, &call.key, expires, self.now());
        } else {
            pending.forget(&self.origin.scope, &call.digest);
            self.note_answered(call);
        }
    }

    /// The client may have taken the call back by now, and then ignores its answer.
    fn note_answered(&self, call: &ExecCall) {
        let Self {
            server,
            origin,
            context,
            ..
        } = self;
        if origin.session.is_none() {
            return;
        }
        let request = key::request_name(&context.id);
        let identity = (call.digest, call.key.as_str());
        server
            .pending
            .answered(&origin.scope, identity, request.clone(), self.now());
        // From here on a notification finds it; one that came before ended one of these.
        if context.ct.is_cancelled() || origin.cancelled.is_cancelled() {
            server.pending.taken_back(&origin.scope, &request, self.now());
        }
    }

    fn note_asked(&self, answer: &Value) {
        if let Some(run_id) = answer.get("runId").and_then(Value::as_str) {
            self.asked.get_or_init(|| run_id.to_owned());
        }
    }

    /// How the call stands while the client waits for a person and then for the command.
    async fn describe(&self, answer: &Value) -> String {
        let run_id = self.asked.get().map(String::as_str).unwrap_or_default();
        let status = self.origin.calls.status(run_id).await;
        match status.as_deref() {
            Some("approval-pending") | None => present::waiting_line(answer, self.now()),
            Some(status) => format!("allowed; {status}"),
        }
    }

    fn showing(&self) -> Showing {
        let capabilities = self.context.client_capabilities();
        let shows_links =
            self.origin.shows_links || capabilities.and_then(|client| client.elicitation?.url).is_some();
        let is_stateless = self
            .context
            .protocol_version()
            .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (shows_links, is_stateless) {
            (true, true) => Showing::Round,
            (true, false) => Showing::Request,
            (false, _) => Showing::Text,
        }
    }

    /// Has the link shown. What the client answers is never read: it decides nothing.
    async fn show_link(&self, showing: Showing, answer: &Value, wait: Duration) {
        if showing != Showing::Request {
            return;
        }
        let Some(request) = link_request(answer) else {
            return;
        };
        let request = ServerRequest::ElicitRequest(request);
        let sent = self
            .context
            .peer
            .send_request_with_option(request, PeerRequestOptions::no_options())
            .await;
        match sent {
            // The result must not overtake the request, which it would end with the connection.
            Ok(shown) if wait.is_zero() => drop(tokio::time::timeout(TO_SHOW, shown.rx).await),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the link to an approval was not shown"),
        }
    }

    /// Ends what runs for a call that was taken back. A question stays: an approver may be reading it.
    async fn stop(&self) {
        let Some(run_id) = self.asked.get() else { return };
        let calls = &self.origin.calls;
        let status = calls.status(run_id).await;
        if matches!(status.as_deref(), Some("queued" | "running")) {
            calls.stop(run_id).await;
        }
    }

    fn now(&self) -> UnixMillis {
        self.server.clock.now()
    }
}

/// Whether a call wants a question of its own, and so does not mean the call that waits.
fn asks_anew(arguments: &JsonObject) -> bool {
    arguments.get("join") == Some(&Value::Bool(false))
}

/// How long a call may wait for a person; whether the number is acceptable is for the backend to say.
fn wait_of(arguments: &JsonObject) -> Duration {
    let millis = arguments.get("approvalWaitMs").and_then(Value::as_u64);
    Duration::from_millis(millis.unwrap_or(0))
}

fn link_request(answer: &Value) -> Option<ElicitRequest> {
    let url = answer.get("approvalUrl")?.as_str()?.to_owned();
    let id = answer.get("approvalId")?.as_str()?.to_owned();
    Some(ElicitRequest::new(ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message: present::request_to_person(answer),
        url,
        elicitation_id: id,
    }))
}
