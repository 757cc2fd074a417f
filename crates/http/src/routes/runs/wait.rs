//! Waiting for a run in one request, for clients that read no stream.

use std::{str::FromStr, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::Instant;

use countersign_domain::{Principal, Run, RunId, RunStatus};
use countersign_ledger::events::{EventFilter, Start, Subscription};

use crate::{
    admission::RequestSource,
    caller::unauthorized,
    extract::{Parameters, QueryForm},
    problem::Problem,
    state::AppState,
};

/// Longest wait of one request.
const LONGEST_WAIT_MS: u64 = 60_000;

/// Pause before a log is asked again that could not be read.
const RETRY: Duration = Duration::from_secs(1);

/// How long to wait, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct WaitQuery {
    /// How long to wait in milliseconds; not at all unless given.
    #[param(maximum = 60_000)]
    wait_ms: Option<u64>,
    /// What to wait for: `ended` unless given.
    #[param(inline)]
    until: Option<Until>,
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, utoipa::ToSchema)]
#[schema(rename_all = "lowercase")]
enum Until {
    /// The run is final.
    Ended,
    /// No person is asked: it was answered, or nobody had to be.
    Decided,
}

/// There is nothing else to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected ended or decided")]
struct UnknownUntil;

impl FromStr for Until {
    type Err = UnknownUntil;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "ended" => Ok(Self::Ended),
            "decided" => Ok(Self::Decided),
            _ => Err(UnknownUntil),
        }
    }
}

impl Until {
    const fn is_reached_by(self, status: RunStatus) -> bool {
        match self {
            Self::Ended => status.is_final(),
            Self::Decided => !matches!(status, RunStatus::Asking),
        }
    }
}

impl WaitQuery {
    /// How long the caller waits.
    pub(crate) fn wait(self) -> Duration {
        Duration::from_millis(self.wait_ms.unwrap_or(0))
    }

    /// Whether a run is as the caller wants it.
    pub(crate) fn is_reached_by(self, status: RunStatus) -> bool {
        self.until.unwrap_or(Until::Ended).is_reached_by(status)
    }
}

impl QueryForm for WaitQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        let wait_ms = parameters.value("waitMs")?;
        if wait_ms.is_some_and(|wait| wait > LONGEST_WAIT_MS) {
            return Err(Problem::field(
                "waitMs",
                format!("expected a whole number of milliseconds, 0 to {LONGEST_WAIT_MS}"),
            ));
        }
        Ok(Self {
            wait_ms,
            until: parameters.value("until")?,
        })
    }
}

/// A run that the caller may see, when it is as they want it or their wait is over.
pub(super) async fn run(
    state: &AppState,
    (caller, origin): (&Principal, &RequestSource),
    id: &RunId,
    query: WaitQuery,
) -> Result<Run, Problem> {
    let now = visible(state, caller, id).await?;
    let wait = query.wait();
    if wait.is_zero() || query.is_reached_by(now.status) {
        return Ok(now);
    }
    let _place = state.take_stream_place(caller)?;
    let give_up = Instant::now() + wait;
    let filter = EventFilter {
        run_id: Some(id.clone()),
        ..EventFilter::default()
    };
    // Before the run is read again, so that no change falls between the two.
    let mut changes = state.engine().ledger().subscribe(filter, Start::Now);
    let stopping = state.stopping();
    loop {
        let run = visible(state, caller, id).await?;
        if query.is_reached_by(run.status) {
            // To revoke a token also ends what it asked, in one step of the ledger; its secret stops opening anything only after that.
            let is_over = origin.ended(&**state.engine().clock()).now_or_never().is_some()
                || is_revoked(state, caller).await?;
            return if is_over {
                Err(unauthorized("the token is not valid, or no longer"))
            } else {
                Ok(run)
            };
        }
        tokio::select! {
            biased;
            () = origin.ended(&**state.engine().clock()) => {
                return Err(unauthorized("the token is not valid, or no longer"));
            }
            () = stopping.cancelled() => return Ok(run),
            () = tokio::time::sleep_until(give_up) => return Ok(run),
            () = changed(&mut changes) => {}
        }
    }
}

/// Whether the record says that the caller's token was revoked.
async fn is_revoked(state: &AppState, caller: &Principal) -> Result<bool, Problem> {
    let Some(id) = caller.actor.token() else {
        return Ok(false);
    };
    let token = state.engine().ledger().token(&id).await?;
    Ok(token.is_none_or(|token| token.revoked_at.is_some()))
}

async fn visible(state: &AppState, caller: &Principal, id: &RunId) -> Result<Run, Problem> {
    let run = state.engine().records().run(caller, id).await?;
    run.ok_or_else(Problem::unknown_run)
}

/// Waits for the next event of the run.
async fn changed(changes: &mut Subscription) {
    match changes.next().await {
        Ok(Some(_)) => {}
        // The server stops.
        Ok(None) => std::future::pending().await,
        Err(error) => {
            tracing::warn!(%error, "a wait for a run looks again");
            tokio::time::sleep(RETRY).await;
        }
    }
}
