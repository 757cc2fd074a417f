//! Trials of a policy: cases with what is expected of it, and the runs of the record judged anew. Nothing runs, nobody is
//! asked and nothing is changed.
//!
//! Both are one at a time and bounded: a caller who asks for more waits for itself. What a case or a backtest says is
//! [`countersign_trials`], as for the command line.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use utoipa::ToSchema;

use countersign_config::settings::SettingsProblem;
use countersign_domain::{AgentId, Authority, Host, Principal, Run, Security, SessionKey, UnixMillis};
use countersign_engine::{
    candidate::Candidate,
    trials::{CandidateTexts, UnusableCandidate},
};
use countersign_ledger::{Page, RunFilter};
use countersign_trials::{
    cases::{self, Case, CaseResult, Notation, World},
    record::{self, Backtest},
};
use countersign_wire::{
    run::RunBody,
    trial::{BacktestBody, TestedBody},
};

use super::exec::{ExecBody, explanation_body};
use crate::{
    admission::RequestSource,
    caller::{AgentCaller, Caller, Read},
    extract::{JsonBody, Moment, QueryOf, not_null},
    problem::{Code, Problem},
    rate_headers,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    several::counted,
    state::AppState,
};

/// So many cases are tested in one request.
const MOST_CASES: usize = 100;
/// So many runs are judged unless told otherwise, and at most.
const USUAL_RUNS: u64 = 1_000;
const MOST_RUNS: u64 = 2_000;
/// How far back is looked, unless told otherwise.
const USUAL_AGE: Duration = Duration::from_hours(7 * 24);
/// Runs that are judged before the next are read.
const RUNS_AT_ONCE: u32 = 100;
/// Judging takes no longer than this; what is left then is not looked at.
const LONGEST: Duration = Duration::from_secs(30);
/// Commands that are told. The others are counted.
const MOST_TOLD: usize = 100;

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(test)).routes(routes!(backtest))
}

/// Cases to test.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = PolicyTest)]
struct TestBody {
    /// YAML or JSON, as `countersign policy test` reads it: cases such as `{"command": "git push", "expect": "ask"}`.
    cases: String,
}

/// Tests the policy against up to 100 cases: commands, each with what is expected (`allow`, `ask` or `reject`). Nothing runs and
/// nobody is asked.
///
/// A case with a world of its own is judged in that, with default settings; each other one is explained as `POST
/// /v1/exec/explain` would. Each counts against the rate of the token.
#[utoipa::path(
    post, path = "/v1/policy/tests", tag = "policy", operation_id = "test_policy",
    request_body = TestBody,
    responses(
        (status = OK, body = TestedBody),
        (status = BAD_REQUEST, description = "invalid-request: the text has no cases, more than 100, or one that cannot be read"),
        (status = FORBIDDEN, description = "forbidden (also: a case names an agent that the token is not for)"),
        (status = SERVICE_UNAVAILABLE, description = "shutting-down, sandbox-unavailable, node-unavailable, storage-unavailable"),
    ),
    security(("token" = ["read"])),
)]
async fn test(
    caller: AgentCaller<Read>,
    Extension(origin): Extension<RequestSource>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(TestBody { cases }): JsonBody<TestBody>,
) -> Result<Response, Problem> {
    let cases = cases::parse(&cases, Notation::Any)
        .map_err(|invalid| Problem::field("cases", invalid.to_string()))?;
    if cases.is_empty() || cases.len() > MOST_CASES {
        let detail = format!("expected 1 to {MOST_CASES} cases, not {}", cases.len());
        return Err(Problem::field("cases", detail));
    }
    let total = cases.len() as u64;
    let (counted, rate) = counted(cases, || origin.count_one_more(state.throttle()));
    let mut failed = Vec::new();
    for (case, limited) in counted {
        if let Some(limited) = limited {
            return Err(Problem::limited(limited));
        }
        let (case, result) = tested(&state, &caller, case).await?;
        failed.extend(result.failure(&case));
    }
    let tested = TestedBody {
        total,
        passed: total - failed.len() as u64,
        failed,
    };
    let mut response = JsonReply(tested).into_response();
    if let Some(rate) = rate {
        rate_headers::write(rate, response.headers_mut());
    }
    Ok(response)
}

/// What policy says about a case.
async fn tested(state: &AppState, caller: &Principal, case: Case) -> Result<(Case, CaseResult), Problem> {
    let agent = match &case.world {
        World::Server { agent } => agent,
        World::Own(_) => {
            let turn = state.trial_turn().await;
            let judged = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let result = match &case.world {
                    World::Own(world) => Some(cases::judge_in_own_world(&case, world)),
                    World::Server { .. } => None,
                };
                (case, result)
            });
            let (case, result) = judged.await.map_err(|_panicked| Problem::internal())?;
            return Ok((case, result.ok_or_else(Problem::internal)?));
        }
    };
    let main = AgentId::main();
    let call = json!({
        "command": case.command,
        "agentId": agent.as_ref().unwrap_or(&main),
        "pty": case.pty,
        "background": case.background,
    });
    let body: ExecBody = serde_json::from_value(call).map_err(|error| {
        let detail = format!("case {}: {error}", case.id);
        Problem::field("cases", detail)
    })?;
    let explained = match body.into_explainable() {
        Ok(request) => {
            let explained = state.engine().explainer().explain(caller, request).await;
            explained.map_err(Problem::from)
        }
        Err(problem) => Err(problem),
    };
    let result = match explained {
        Ok(explanation) => CaseResult::of_explanation(&explanation_body(explanation)),
        // The rules are not even asked, and nothing runs.
        Err(problem) if problem.code() == Code::BlankCommand => {
            CaseResult::refused("the command is blank".to_owned())
        }
        Err(problem) => return Err(problem),
    };
    Ok((case, result))
}

/// A policy to try on the runs of the record. A file that is not given is the one on the disk, with an edit that waits to be
/// accepted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = BacktestRequest)]
struct BacktestRequest {
    /// The text of an approvals document.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = String, required = false)]
    document: Option<String>,
    /// The text of an `openclaw.json`.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = String, required = false)]
    config: Option<String>,
    /// Only this agent's runs.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = AgentId, required = false)]
    agent_id: Option<AgentId>,
    /// Only runs from then on; 7 days ago unless given.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = Moment, required = false)]
    since_ms: Option<UnixMillis>,
    /// At most this many runs, the newest first; 1000 unless given.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = u64, minimum = 1, maximum = 2000, required = false)]
    limit: Option<u64>,
}

/// Says what another policy would have decided about the runs of the record, or, without a text, what accepting an edit that
/// waits would change. Nothing runs, nobody is asked and nothing is changed.
///
/// It ends after 2,000 runs or 30 seconds. What cannot be judged anew is counted in `skipped`, never guessed. The 100 newest
/// commands that differ are told.
#[utoipa::path(
    post, path = "/v1/policy/backtest", tag = "policy", operation_id = "backtest_policy",
    request_body = BacktestRequest,
    responses(
        (status = OK, body = BacktestBody),
        (status = BAD_REQUEST, description = "invalid-request: a text is no approvals document or configuration"),
        (status = SERVICE_UNAVAILABLE, description = "storage-unavailable"),
    ),
    security(("token" = ["read"])),
)]
async fn backtest(
    caller: Caller<Read>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
    JsonBody(body): JsonBody<BacktestRequest>,
) -> Result<JsonReply<BacktestBody>, Problem> {
    let BacktestRequest {
        document,
        config,
        agent_id,
        since_ms,
        limit,
    } = body;
    let limit = limit.unwrap_or(USUAL_RUNS);
    if !(1..=MOST_RUNS).contains(&limit) {
        return Err(Problem::field("limit", format!("expected 1 to {MOST_RUNS}")));
    }
    let engine = state.engine();
    let age = i64::try_from(USUAL_AGE.as_millis()).unwrap_or(i64::MAX);
    let usual = UnixMillis::new(engine.clock().now().get().saturating_sub(age));
    let filter = RunFilter {
        agent: agent_id,
        session: None,
        host: None,
        node_id: None,
        statuses: Vec::new(),
        since: Some(since_ms.unwrap_or(usual)),
        until: None,
        id_part: None,
        query: None,
        pty: None,
        // The engine narrows it to what the caller may see.
        owner: None,
        authority: Authority::EVERYTHING,
    };
    let mut turn = state.trial_turn().await;
    let texts = CandidateTexts { document, config };
    let candidate = engine.trials().candidate(&texts).map_err(unusable)?;
    let candidate = Arc::new(candidate);
    let (mut judged, mut fallbacks) = (Backtest::default(), Fallbacks::default());
    let (mut page, until) = (Page::first(RUNS_AT_ONCE), Instant::now() + LONGEST);
    while judged.counts().total() < limit && Instant::now() < until {
        let left = limit - judged.counts().total();
        page.limit = u32::try_from(left).unwrap_or(u32::MAX).min(RUNS_AT_ONCE);
        let found = engine.records().runs(&caller, filter.clone(), page).await?;
        fallbacks.learn(&state, &caller, &found.items).await;
        let (candidate, known) = (Arc::clone(&candidate), fallbacks.clone());
        let work = tokio::task::spawn_blocking(move || {
            for run in found.items {
                judge(&mut judged, &candidate, &known, run);
            }
            (judged, turn, found.next)
        });
        let next;
        (judged, turn, next) = work.await.map_err(|_panicked| Problem::internal())?;
        let Some(next) = next else { break };
        page = Page {
            limit: RUNS_AT_ONCE,
            cursor: Some(next),
        };
    }
    drop(turn);
    Ok(JsonReply(judged.body(MOST_TOLD)))
}

fn judge(judged: &mut Backtest, candidate: &Candidate, known: &Fallbacks, run: Run) {
    let agent = run.agent.clone();
    let compared = judged
        .compare(candidate, RunBody::from(run))
        .map(|compared| compared.beside(known.of(&agent)));
    judged.add(compared);
}

/// What the policy in effect lets run that nobody answers for, by agent.
#[derive(Debug, Clone, Default)]
struct Fallbacks(HashMap<AgentId, Security>);

impl Fallbacks {
    /// Looks once for each agent of these runs.
    async fn learn(&mut self, state: &AppState, caller: &Principal, runs: &[Run]) {
        for run in runs {
            let agent = &run.agent;
            if self.0.contains_key(agent) {
                continue;
            }
            // What the main session puts on top of the policy is no part of a candidate either.
            let Ok(session) = SessionKey::parse(format!("agent:{agent}:policy-backtest")) else {
                continue;
            };
            let policies = state.engine().effective_policies();
            let effective = policies
                .of(&caller.actor, agent, Some(Host::Gateway), &session)
                .await;
            let fallback = record::fallback_in_force(
                effective.security.value,
                effective.ask.value,
                effective.ask_fallback.value,
            );
            self.0.insert(agent.clone(), fallback);
        }
    }

    /// What is not known counts as the strictest, beside which anything is wider.
    fn of(&self, agent: &AgentId) -> Security {
        self.0.get(agent).copied().unwrap_or(Security::Deny)
    }
}

fn unusable(unusable: UnusableCandidate) -> Problem {
    match unusable {
        UnusableCandidate::Config(problems) => {
            let lines: Vec<String> = problems.iter().map(SettingsProblem::without_source).collect();
            Problem::field("config", lines.join("; "))
        }
        UnusableCandidate::Document(refusal) => Problem::field("document", refusal.to_string()),
    }
}
