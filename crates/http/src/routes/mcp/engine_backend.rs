//! The engine as the backend of MCP tools: the same entries, bodies and answers as `POST /v1/exec` and its kin.
//!
//! It must never do for a tool what the route of the API would refuse. The traits are [`Backend`] and [`Calls`].

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::http::request::Parts;
use futures_util::future::BoxFuture;
use rmcp::model::{ErrorData, Extensions, JsonObject};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use countersign_domain::{Principal, RunId};
use countersign_engine::{IdempotencyKey, OnDisconnect, Turn, reply::CancelError};
use countersign_mcp::{AskingTool, Backend, CallContext, Calls, ExecCall, Outcome, WaitPolicy};

use super::{in_flight::InFlightPermit, mount::EngineBackend, session::Session};

use crate::{
    extract,
    problem::Problem,
    routes::{
        exec::{ExecAnswer, ExecBody, explanation_body},
        patch::{PatchAnswer, PatchBody},
        process::{ProcessBody, process_answer},
    },
};

/// The path that problem documents name.
const INSTANCE: &str = "/mcp";

/// Who sent a request, noted on it for the tools.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    principal: Arc<Principal>,
    session: Option<Session>,
    cancelled: CancellationToken,
    /// Given back when the request has been answered.
    _permit: Option<Arc<InFlightPermit>>,
    turn: MessageTurn,
}

/// The turn of a caller to have a message taken apart, until the message has been.
#[derive(Debug, Clone)]
pub(super) struct MessageTurn(Arc<Mutex<Option<Turn>>>);

impl MessageTurn {
    pub(super) fn new(turn: Option<Turn>) -> Self {
        Self(Arc::new(Mutex::new(turn)))
    }

    #[cfg(feature = "test-hooks")]
    pub(super) fn is_held(&self) -> bool {
        self.turn().is_some()
    }

    /// Gives the turn on: what a tool waits for keeps no other message waiting.
    fn end(&self) {
        drop(self.turn().take());
    }

    fn turn(&self) -> MutexGuard<'_, Option<Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asker {
    pub(super) fn new(
        principal: &Principal,
        session: Option<Session>,
        cancelled: CancellationToken,
        permit: Option<Arc<InFlightPermit>>,
        turn: MessageTurn,
    ) -> Self {
        Self {
            principal: Arc::new(principal.clone()),
            session,
            cancelled,
            _permit: permit,
            turn,
        }
    }
}

/// Stands for a caller and a session.
pub(super) fn scope_of(caller: &Principal, session: Option<&Session>) -> String {
    let session = session.map(Session::to_text).unwrap_or_default();
    format!("{} {session}", caller.actor.id)
}

impl EngineBackend {
    /// Reads arguments exactly as the body of the HTTP operation is read, large ones when it is the caller's turn.
    async fn parsed<T: DeserializeOwned>(
        &self,
        caller: &Principal,
        arguments: &JsonObject,
    ) -> Result<T, Problem> {
        let text = serde_json::to_vec(arguments).map_err(|error| unwritable(&error))?;
        let _turn = self.body_limit.turn_for(&caller.actor, text.len()).await?;
        extract::parse(&text)
    }

    async fn run(&self, caller: &Principal, call: ExecCall) -> Result<Value, Problem> {
        let key = IdempotencyKey {
            key: call.key,
            body_sha256: call.digest,
            on_disconnect: OnDisconnect::Kill,
            is_named: call.is_named,
        };
        let wait = |wait| match call.wait_policy {
            WaitPolicy::None => Duration::ZERO,
            WaitPolicy::AsAsked => wait,
        };
        match call.tool {
            AskingTool::Exec => {
                let mut request = self
                    .parsed::<ExecBody>(caller, &call.arguments)
                    .await?
                    .into_request()?;
                request.approval_wait = wait(request.approval_wait);
                let reply = self.engine.calls().exec(caller, request, Some(key)).await;
                ExecAnswer::of_call(&self.engine, &self.links, reply)
                    .await?
                    .to_json()
            }
            AskingTool::ApplyPatch => {
                let mut request = self
                    .parsed::<PatchBody>(caller, &call.arguments)
                    .await?
                    .into_request()?;
                request.approval_wait = wait(request.approval_wait);
                let reply = self.engine.patches().apply(caller, request, Some(key)).await;
                PatchAnswer::of_patch(&self.engine, &self.links, reply)
                    .await?
                    .to_json()
            }
        }
    }

    async fn processed(&self, caller: &Principal, arguments: JsonObject) -> Result<Value, Problem> {
        let call = self
            .parsed::<ProcessBody>(caller, &arguments)
            .await?
            .into_call()?;
        let reply = self.engine.processes().call(caller, call).await?;
        json(&process_answer(reply))
    }

    async fn explanation(&self, caller: &Principal, arguments: JsonObject) -> Result<Value, Problem> {
        let request = self
            .parsed::<ExecBody>(caller, &arguments)
            .await?
            .into_explainable()?;
        let explanation = self.engine.explainer().explain(caller, request).await?;
        json(&explanation_body(explanation))
    }

    async fn status(&self, caller: &Principal, run_id: &str) -> Option<String> {
        let run_id = RunId::parse(run_id.to_owned()).ok()?;
        let run = self.engine.records().run(caller, &run_id).await.ok()??;
        Some(run.status.api_name().to_owned())
    }

    async fn stop(&self, caller: &Principal, run_id: &str) {
        let Ok(run_id) = RunId::parse(run_id.to_owned()) else {
            return;
        };
        if self.engine.calls().is_shared(&run_id) {
            // Other callers wait for its end.
            return;
        }
        match self.engine.cancels().cancel(caller, &run_id).await {
            Ok(_) | Err(CancelError::Ended(_)) => {}
            Err(error @ (CancelError::NotFound | CancelError::Storage(_))) => {
                tracing::warn!(run.id = %run_id, %error, "a run whose call was taken back was not stopped");
            }
        }
    }
}

impl Backend for EngineBackend {
    fn origin(&self, request: &Extensions) -> Result<CallContext, ErrorData> {
        let asker = request
            .get::<Parts>()
            .and_then(|parts| parts.extensions.get::<Asker>())
            .ok_or_else(|| ErrorData::internal_error("nobody is known to have sent this", None))?;
        asker.turn.end();
        Ok(CallContext {
            scope: scope_of(&asker.principal, asker.session.as_ref()),
            session: asker.session.as_ref().map(Session::to_text),
            shows_links: asker.session.as_ref().is_some_and(|session| session.shows_links),
            cancelled: asker.cancelled.clone(),
            calls: Arc::new(EngineCalls {
                backend: self.clone(),
                caller: Arc::clone(&asker.principal),
            }),
        })
    }
}

/// The calls of a caller.
#[derive(Debug)]
struct EngineCalls {
    backend: EngineBackend,
    caller: Arc<Principal>,
}

impl Calls for EngineCalls {
    fn exec(&self, call: ExecCall) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { outcome(self.backend.run(&self.caller, call).await) })
    }

    fn explain(&self, arguments: JsonObject) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { outcome(self.backend.explanation(&self.caller, arguments).await) })
    }

    fn process(&self, arguments: JsonObject) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { outcome(self.backend.processed(&self.caller, arguments).await) })
    }

    fn status<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(self.backend.status(&self.caller, run_id))
    }

    fn stop<'a>(&'a self, run_id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.backend.stop(&self.caller, run_id))
    }
}

fn outcome(result: Result<Value, Problem>) -> Outcome {
    match result {
        Ok(answer) => Outcome::Answered(answer),
        Err(problem) => Outcome::Refused(problem.to_json(INSTANCE, "")),
    }
}

fn json(value: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> Problem {
    tracing::error!(%error, "a tool's answer could not be written as JSON");
    Problem::internal()
}
