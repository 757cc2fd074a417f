//! Figures of a stretch of time: what is asked, how fast it is answered, and what asks most.

use std::time::Duration;

use axum::extract::State;

use countersign_domain::{RunStatus, UnixMillis};
use countersign_engine::Load;
use countersign_ledger::overview::{AgentQuestions, AskingRule, Overview, Questions, Stretch};
use countersign_wire::overview::{
    AgentQuestionsBody, AskingRuleBody, NowBody, OverviewBody, QuestionsBody, ReasonCountBody, RunCountBody,
};

use crate::{
    caller::{Caller, Read},
    extract::{Moment, Parameters, QueryForm, QueryOf},
    problem::Problem,
    reply::JsonReply,
    route_table::{RouteTable, routes},
    state::AppState,
};

/// The stretch that is looked at unless the query says otherwise.
const DAY: Duration = Duration::from_hours(24);
const LONGEST: Duration = Duration::from_hours(30 * 24);

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(overview))
}

/// Which stretch is wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
struct OverviewQuery {
    /// It begins here, at most 30 days ago; a day ago unless given.
    since: Option<Moment>,
}

impl QueryForm for OverviewQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            since: parameters.value("since")?,
        })
    }
}

/// What was asked and answered in a stretch that ends now, by agent and time; what asks most, and what would stop that; how runs
/// ended, and what is going on. Of a stretch the newest 10,000 questions and 50,000 runs are counted.
#[utoipa::path(
    get, path = "/v1/overview", tag = "runs", operation_id = "get_overview",
    params(OverviewQuery),
    responses((status = OK, body = OverviewBody)),
    security(("token" = ["read"])),
)]
async fn overview(
    _caller: Caller<Read>,
    State(state): State<AppState>,
    QueryOf(OverviewQuery { since }): QueryOf<OverviewQuery>,
) -> Result<JsonReply<OverviewBody>, Problem> {
    let engine = state.engine();
    let until = engine.clock().now();
    let since = match since.map(UnixMillis::from) {
        None => UnixMillis::new(until.get().saturating_sub(millis(DAY))),
        Some(since) if since >= until || until.since(since) > LONGEST => {
            return Err(Problem::field("since", "expected a time within the last 30 days"));
        }
        Some(since) => since,
    };
    let stretch = Stretch::of(since, until);
    let (overview, would_stop) = engine.records().overview(stretch).await?;
    let waiting = engine.ledger().stats().pending.get();
    let now = now(engine.metrics().load(), waiting);
    Ok(JsonReply(body(
        (since, until),
        stretch,
        overview,
        would_stop,
        now,
    )))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn body(
    (since_ms, until_ms): (UnixMillis, UnixMillis),
    stretch: Stretch,
    overview: Overview,
    would_stop: Vec<Vec<String>>,
    now: NowBody,
) -> OverviewBody {
    let Overview {
        questions: all,
        agents,
        rules,
        runs,
        reasons,
        is_partial,
    } = overview;
    let agent = |AgentQuestions {
                     agent,
                     questions: counted,
                     parts,
                 }| AgentQuestionsBody {
        agent_id: agent,
        questions: questions(counted),
        parts,
    };
    let rule = |(rule, would_stop): (AskingRule, Vec<String>)| {
        let AskingRule {
            agent,
            program,
            why,
            questions: counted,
            latest,
        } = rule;
        AskingRuleBody {
            agent_id: agent,
            program,
            why,
            questions: questions(counted),
            approval_id: latest,
            would_stop,
        }
    };
    OverviewBody {
        since_ms,
        until_ms,
        part_ms: stretch.part_ms(),
        begins_ms: stretch.begins().collect(),
        questions: questions(all),
        agents: agents.into_iter().map(agent).collect(),
        rules: rules.into_iter().zip(would_stop).map(rule).collect(),
        runs: by_name(runs),
        reasons: reasons
            .into_iter()
            .map(|(reason, count)| ReasonCountBody {
                reason: reason.into(),
                count,
            })
            .collect(),
        now,
        partial: is_partial,
    }
}

/// Several states of the ledger share one word.
fn by_name(runs: Vec<(RunStatus, u64)>) -> Vec<RunCountBody> {
    let mut named: Vec<RunCountBody> = Vec::new();
    for (status, count) in runs {
        let name = status.api_name();
        match named.iter_mut().find(|known| known.status == name) {
            Some(known) => known.count += count,
            None => named.push(RunCountBody {
                status: name.into(),
                count,
            }),
        }
    }
    named.sort_by_key(|one| std::cmp::Reverse(one.count));
    named
}

fn questions(counted: Questions) -> QuestionsBody {
    let Questions {
        asked,
        allowed,
        denied,
        settled,
        expired,
        cancelled,
        waiting,
        median_answer_ms,
    } = counted;
    QuestionsBody {
        asked,
        allowed,
        denied,
        settled,
        expired,
        cancelled,
        waiting,
        median_answer_ms,
    }
}

fn now(load: Load, waiting: i64) -> NowBody {
    let Load {
        running,
        queued,
        approvers,
        ledger_queue,
        catch_ups: _,
        runner_restarts: _,
    } = load;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    NowBody {
        running: count(running),
        queued: count(queued),
        waiting: u64::try_from(waiting).unwrap_or(0),
        approvers: count(approvers),
        ledger_queue: count(ledger_queue),
    }
}
