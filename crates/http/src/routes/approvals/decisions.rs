//! `POST /v1/approvals/decisions`: several answers in one request.
//!
//! Each is taken as one to `POST /v1/approvals/{id}/decision` is, and counts or not by itself. Nothing here holds them
//! together: a refused one changes nothing about the others.

use std::collections::BTreeSet;

use axum::{
    Extension,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt as _, stream};

use countersign_domain::Principal;
use countersign_engine::reply::Answer;
use countersign_ledger::auth::Limited;
use countersign_protocol::ByName;
use countersign_wire::decisions::{
    DecidedOnBody, DecisionOnBody, DecisionsBody, DecisionsResultBody, MAX_DECISIONS, PlainDecision,
};

use super::{check_reason, decided, grant};

use crate::{
    admission::RequestSource,
    caller::{AgentCaller, Approve},
    extract::{JsonBody, QueryOf},
    problem::Problem,
    rate_headers,
    reply::JsonReply,
    several::counted,
    state::AppState,
};

/// So many answers of one request are on their way at once, so that they share what is synced to disk and leave room for
/// the answers of others.
const AT_ONCE: usize = 8;

/// Answers up to 100 questions. Each answer counts by itself, as one to that question alone would, and each result says whether.
///
/// Every answer but `deny` needs the `bindingDigest` of what was shown. `allow-always` needs a `grant`, which says what is stored.
/// Each answer counts against the rate of the token; what is over it is `rate-limited`. If the connection breaks, the answers that
/// were taken stay.
#[utoipa::path(
    post, path = "/v1/approvals/decisions", tag = "approvals", operation_id = "decide_approvals",
    request_body = DecisionsBody,
    responses(
        (status = OK, body = DecisionsResultBody),
        (status = BAD_REQUEST, description = "invalid-request (also: an id twice, no answer or more than 100); nothing was answered"),
    ),
    security(("token" = ["approve"])),
)]
pub(super) async fn decide_several(
    caller: AgentCaller<Approve>,
    Extension(origin): Extension<RequestSource>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(body): JsonBody<DecisionsBody>,
) -> Result<Response, Problem> {
    let (counted, rate) = counted(checked(body)?, || origin.count_one_more(state.throttle()));
    let answers = counted
        .into_iter()
        .map(|(decision, limited)| Box::pin(result(&caller, &state, decision, limited)));
    let results = stream::iter(answers).buffered(AT_ONCE).collect().await;
    let mut response = JsonReply(DecisionsResultBody { results }).into_response();
    if let Some(rate) = rate {
        rate_headers::write(rate, response.headers_mut());
    }
    Ok(response)
}

/// The answers of a body that is right as a whole.
fn checked(DecisionsBody { decisions }: DecisionsBody) -> Result<Vec<DecisionOnBody>, Problem> {
    if decisions.is_empty() || decisions.len() > MAX_DECISIONS {
        let detail = format!(
            "expected 1 to {MAX_DECISIONS} answers, not {}; nothing was answered",
            decisions.len()
        );
        return Err(Problem::field("decisions", detail));
    }
    let mut ids = BTreeSet::new();
    for (index, ByName(decision)) in decisions.iter().enumerate() {
        let refuse = |member: &str, expected: &str| {
            let detail = format!("{expected}; nothing was answered");
            Err(Problem::field(format!("decisions[{index}].{member}"), detail))
        };
        if !ids.insert(&decision.id) {
            return refuse("id", "expected each id once");
        }
        if decision.decision != PlainDecision::Deny && decision.binding_digest.is_none() {
            return refuse(
                "bindingDigest",
                "expected boundTo.digest of what was shown, with every answer but deny",
            );
        }
        if decision.grant.is_some() != (decision.decision == PlainDecision::AllowAlways) {
            return refuse(
                "grant",
                "expected it with allow-always alone, which stores nothing else here",
            );
        }
        if !decision.binding_digest.as_deref().is_none_or(is_digest) {
            return refuse("bindingDigest", "expected 64 lower-case hexadecimal digits");
        }
        if let Err(expected) = check_reason(decision.reason.as_deref()) {
            return refuse("reason", expected);
        }
    }
    Ok(decisions.into_iter().map(|ByName(decision)| decision).collect())
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What an answer alone would have been answered.
async fn result(
    caller: &Principal,
    state: &AppState,
    decision: DecisionOnBody,
    limited: Option<Limited>,
) -> DecidedOnBody {
    let DecisionOnBody {
        id,
        decision,
        binding_digest,
        reason,
        grant,
    } = decision;
    let decision = decision.into();
    let grant = grant
        .map(|ByName(grant)| grant::chosen(decision, grant))
        .transpose();
    let answered = match (limited, grant) {
        (Some(limited), _) => Err(Problem::limited(limited)),
        (None, Err(problem)) => Err(problem),
        (None, Ok(grant)) => {
            let answer = Answer {
                decision,
                reason,
                patterns: None,
                grant,
                refusal: None,
                shown_digest: binding_digest,
            };
            decided(caller, state, &id, answer).await
        }
    };
    let answered = answered.map_err(|problem| problem.into_body(&format!("/v1/approvals/{id}/decision")));
    let (status, decided, problem) = match answered {
        Ok(decided) => (StatusCode::OK.as_u16(), Some(Box::new(decided)), None),
        Err(problem) => (problem.status, None, Some(Box::new(problem))),
    };
    DecidedOnBody {
        id,
        status,
        decided,
        problem,
    }
}
