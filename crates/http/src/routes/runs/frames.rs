//! `GET /v1/runs/{runId}/recording/frames`: what a terminal showed during a run, as pictures ([`crate::film`]).

use std::{io, sync::Arc, time::Duration};

use axum::extract::State;
use tokio_util::sync::CancellationToken;

use countersign_domain::{Run, RunId, UnixMillis};
use countersign_wire::frames::FramesBody;

use crate::{
    caller::{AgentCaller, ReadOrAskedOrOwn},
    extract::{AtPath, Parameters, QueryForm, QueryOf},
    problem::Problem,
    reply::JsonReply,
    short_id,
    state::AppState,
};

/// Which pictures are wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct FramesQuery {
    /// Those after this moment of the run; `nextAfterMs` of the answer before.
    pub(crate) after_ms: Option<u64>,
}

impl QueryForm for FramesQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            after_ms: parameters.value("afterMs")?,
        })
    }
}

/// What a terminal showed during a run, picture by picture. Cells are text without control characters. Of a run that goes on it is
/// what there is so far.
#[utoipa::path(
    get, path = "/v1/runs/{runId}/recording/frames", tag = "runs", operation_id = "get_run_frames",
    params(("runId" = RunId, Path), FramesQuery),
    responses((status = OK, body = FramesBody)),
    security(("token" = ["read"]), ("token" = ["exec"]), ("token" = ["approve"])),
)]
pub(super) async fn frames(
    caller: AgentCaller<ReadOrAskedOrOwn>,
    AtPath(id): AtPath<RunId>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<FramesQuery>,
) -> Result<JsonReply<FramesBody>, Problem> {
    let id = short_id::run(&state, &caller, id).await?;
    let engine = state.engine();
    let run = engine.records().run(&caller, &id).await?;
    let run = run.ok_or_else(|| Problem::not_found("run"))?;
    let stored = engine.records().recording(&run).await?;
    let stored = stored.ok_or_else(|| Problem::not_found("run"))?;
    let length = length_of(&run, engine.clock().now());
    // It takes a processor for a while.
    let turn = state.drawing_turn().await;
    let gone = CancellationToken::new();
    let _until_answered = gone.clone().drop_guard();
    let films = Arc::clone(state.drawn());
    let of = id.clone();
    let drawn = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        films.draw(&of, stored, length, query.after_ms, gone)
    });
    let drawn = drawn.await.map_err(|_panicked| Problem::internal())?;
    drawn.map(JsonReply).map_err(|error: io::Error| {
        if error.kind() == io::ErrorKind::NotFound {
            return Problem::not_found("output: it was removed to make room");
        }
        tracing::error!(run.id = %id, %error, "output cannot be read");
        Problem::internal()
    })
}

fn length_of(run: &Run, now: UnixMillis) -> Duration {
    let end = run.ended_at.unwrap_or(now);
    run.started_at
        .map_or(Duration::ZERO, |started| end.since(started))
}
