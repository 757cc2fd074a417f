//! `exec.approval.*`: questions about commands that the asker starts by itself, and the answers.
//!
//! A question is an ordinary approval: the page and the command line show it, and it is answered anywhere. Whoever asked
//! never answers, by whichever connection, since an operator acts as their token.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    refusal,
    scope::OperatorScope,
    session::{Answer, OperatorSession},
    shape,
};
use crate::{
    command::env_policy,
    domain::{
        AgentId, Approval, ApprovalDecision, ApprovalId, ApprovalStatus, Ask, Command, Host, Security,
        SessionKey,
    },
    engine::{
        ask_only::{AskError, AskRequest, Route},
        reply::{Answer as PersonsAnswer, DecideError},
    },
    ledger::{ApprovalFilter, Page},
    protocol::bridge::{Protocol, WireError},
};

/// How long a person has when the asker does not say: the first generation's default, and the present one's.
const DEFAULT_TIMEOUT: [Duration; 2] = [Duration::from_mins(2), Duration::from_mins(30)];
/// Most questions in one list.
const MOST_LISTED: u32 = 500;

/// The parameters of `exec.approval.request`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestParams {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    command_argv: Option<Vec<String>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    node_id: Option<String>,
    #[serde(default)]
    security: Option<String>,
    #[serde(default)]
    ask: Option<String>,
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    session_key: Option<String>,
    #[serde(default)]
    resolved_path: Option<String>,
    #[serde(default)]
    timeout_ms: Option<f64>,
    #[serde(default)]
    two_phase: Option<bool>,
}

/// The parameters of a method about one question.
#[derive(Debug, Deserialize)]
pub(super) struct IdParams {
    id: String,
}

/// The parameters of `exec.approval.resolve`.
#[derive(Debug, Deserialize)]
pub(super) struct ResolveParams {
    id: String,
    #[serde(default)]
    decision: Value,
}

/// Asks a person, and waits for the answer.
pub(super) async fn request(
    session: &Arc<OperatorSession>,
    request_id: &str,
    params: RequestParams,
) -> Answer {
    let two_phase = params.two_phase == Some(true) && session.protocol == Protocol::Four;
    let request = ask_request(session, params)?;
    let engine = session.bridge.engine();
    let approval = engine.ask_for_other(request).await.map_err(of_ask)?;
    if approval.state.status() != ApprovalStatus::Pending {
        return Ok(shape::decision(&approval));
    }
    if two_phase {
        session.respond_early(request_id, shape::accepted(&approval));
    }
    let ended = until_ended(session, &approval.id).await?;
    Ok(shape::decision(&ended))
}

/// Waits for the answer to a question that was asked before.
pub(super) async fn wait(session: &Arc<OperatorSession>, params: IdParams) -> Answer {
    let approval = find(session, &params.id).await?;
    let ended = until_ended(session, &approval.id).await?;
    Ok(shape::awaited(&ended))
}

/// Answers a question.
pub(super) async fn resolve(session: &Arc<OperatorSession>, params: ResolveParams) -> Answer {
    let decision = params
        .decision
        .as_str()
        .and_then(|word| word.parse::<ApprovalDecision>().ok());
    let decision = decision.ok_or_else(|| WireError::invalid("invalid decision"))?;
    let id = ApprovalId::parse(params.id).map_err(|_no_id| unknown(session.protocol))?;
    let answer = PersonsAnswer {
        decision,
        reason: None,
        patterns: None,
    };
    match session
        .bridge
        .engine()
        .decide(session.principal(), &id, answer)
        .await
    {
        Ok(_decided) => Ok(json!({ "ok": true })),
        Err(error) => Err(of_decide(session.protocol, &error)),
    }
}

/// One question that is still open.
pub(super) async fn get(session: &Arc<OperatorSession>, params: IdParams) -> Answer {
    let approval = find(session, &params.id).await?;
    if shape::is_open(&approval, session.now()) {
        Ok(shape::brief(&approval))
    } else {
        Err(unknown(session.protocol))
    }
}

/// All open questions that the caller may see.
pub(super) async fn list(session: &Arc<OperatorSession>) -> Answer {
    let filter = ApprovalFilter {
        status: Some(ApprovalStatus::Pending),
        ..ApprovalFilter::default()
    };
    let listing = session
        .bridge
        .engine()
        .approvals(filter, Page::first(MOST_LISTED))
        .await
        .map_err(refusal::storage)?;
    let now = session.now();
    let shown: Vec<Value> = listing
        .items
        .iter()
        .filter(|approval| shape::is_open(approval, now) && may_see(session, approval))
        .map(|approval| shape::asked(session.protocol, approval))
        .collect();
    Ok(json!(shown))
}

async fn until_ended(session: &OperatorSession, id: &ApprovalId) -> Result<Approval, WireError> {
    let ended = session
        .bridge
        .engine()
        .answer_to(id)
        .await
        .map_err(refusal::storage)?;
    let ended = ended.ok_or_else(|| unknown(session.protocol))?;
    if ended.state.status() == ApprovalStatus::Pending {
        return Err(WireError::unavailable("the server is shutting down").retryable(None));
    }
    Ok(ended)
}

async fn find(session: &OperatorSession, id: &str) -> Result<Approval, WireError> {
    let nobody = || unknown(session.protocol);
    let id = ApprovalId::parse(id).map_err(|_no_id| nobody())?;
    let approval = session
        .bridge
        .engine()
        .approval(&id)
        .await
        .map_err(refusal::storage)?;
    approval
        .filter(|approval| may_see(session, approval))
        .ok_or_else(nobody)
}

/// Whoever answers sees every question; whoever only asks sees their own.
fn may_see(session: &OperatorSession, approval: &Approval) -> bool {
    session.has(OperatorScope::Approvals) || approval.requested_by.is_same_party(&session.principal().actor)
}

fn ask_request(session: &OperatorSession, params: RequestParams) -> Result<AskRequest, WireError> {
    let RequestParams {
        id,
        command,
        command_argv,
        cwd,
        env,
        host,
        node_id,
        security,
        ask,
        agent_id,
        session_key,
        resolved_path,
        timeout_ms,
        two_phase: _,
    } = params;
    let wrong = |member: &str, why: &dyn std::fmt::Display| {
        refusal::params("exec.approval.request", &format!("at /{member}: {why}"))
    };
    let id = id
        .filter(|id| !id.is_empty())
        .map(|id| ApprovalId::parse(id).map_err(|error| wrong("id", &error)))
        .transpose()?;
    let command = match command_argv.filter(|argv| !argv.is_empty()) {
        Some(argv) => Command::argv(argv),
        None => Command::shell(command.unwrap_or_default()),
    };
    let command = command.map_err(|invalid| wrong("command", &invalid))?;
    let host = match host.as_deref() {
        None => Host::Gateway,
        Some(word) => word.parse().map_err(|invalid| wrong("host", &invalid))?,
    };
    if host == Host::Node && node_id.is_none() && session.protocol == Protocol::Four {
        return Err(wrong("nodeId", &"required when host is node"));
    }
    let agent = match agent_id.filter(|agent| !agent.is_empty()) {
        None => None,
        Some(agent) => Some(AgentId::parse(agent).map_err(|error| wrong("agentId", &error))?),
    };
    let key = match session_key.filter(|key| !key.is_empty()) {
        None => None,
        Some(key) => Some(SessionKey::parse(key).map_err(|error| wrong("sessionKey", &error))?),
    };
    let told = key.as_ref().and_then(SessionKey::agent);
    let agent = agent.or(told).unwrap_or_else(AgentId::main);
    if !session.principal().may_act_for(&agent) {
        return Err(WireError::invalid("the token may not act for this agent"));
    }
    let env = env_policy::check_overrides(&env.unwrap_or_default())
        .map_err(|_blocked| wrong("env", &"blocked override keys"))?;
    let default = match session.protocol {
        Protocol::Three => DEFAULT_TIMEOUT[0],
        Protocol::Four => DEFAULT_TIMEOUT[1],
    };
    let asked_by = session.principal().actor.clone();
    Ok(AskRequest {
        id,
        session: key.unwrap_or_else(|| SessionKey::main_of(&agent)),
        agent,
        command,
        cwd,
        host,
        node_id,
        resolved_path,
        security: word::<Security>(security).map_err(|invalid| wrong("security", &invalid))?,
        ask: word::<Ask>(ask).map_err(|invalid| wrong("ask", &invalid))?,
        env,
        decisions: None,
        timeout: Some(
            timeout_ms
                .filter(|millis| millis.is_finite() && *millis >= 1.0)
                .map_or(default, |millis| {
                    Duration::from_secs_f64((millis / 1000.0).min(86_400.0))
                }),
        ),
        // Nobody answers their own question, so whoever asks is nobody who could be asked.
        route: Route::Needs {
            besides: session.own_approvers(),
        },
        detail: format!(
            "{} asks over the Bridge and starts the command itself",
            asked_by.name
        ),
        asked_by,
    })
}

fn word<T: std::str::FromStr>(text: Option<String>) -> Result<Option<T>, T::Err> {
    text.filter(|text| !text.is_empty())
        .map(|text| text.parse())
        .transpose()
}

fn of_ask(error: AskError) -> WireError {
    match error {
        AskError::IdTaken => WireError::invalid("approval id already pending"),
        AskError::TooManyPending | AskError::ShuttingDown => {
            WireError::unavailable(error.to_string()).retryable(None)
        }
        AskError::Storage(trouble) => refusal::storage(trouble),
    }
}

fn of_decide(protocol: Protocol, error: &DecideError) -> WireError {
    match error {
        DecideError::NotFound | DecideError::Expired(_) | DecideError::Cancelled(_) => unknown(protocol),
        DecideError::AlreadyResolved(_) => match protocol {
            // The first generation forgets a question as soon as it is answered.
            Protocol::Three => unknown(protocol),
            Protocol::Four => WireError::invalid("approval already resolved")
                .with_details(json!({ "reason": "APPROVAL_ALREADY_RESOLVED" })),
        },
        DecideError::NotAllowed { detail } => WireError::invalid(format!("invalid decision: {detail}"))
            .with_details(json!({ "reason": "APPROVAL_DECISION_NOT_ALLOWED" })),
        DecideError::OwnRequest => WireError::invalid("who asks cannot answer")
            .with_details(json!({ "reason": "APPROVAL_OWN_REQUEST" })),
        DecideError::Storage(trouble) => refusal::storage(*trouble),
    }
}

fn unknown(protocol: Protocol) -> WireError {
    match protocol {
        Protocol::Three => WireError::invalid("unknown approval id"),
        Protocol::Four => WireError::invalid("unknown or expired approval id").with_details(json!({
            "reason": "APPROVAL_NOT_FOUND",
            "remediation": "Ask again, or look at the request: countersign approvals list --status all",
        })),
    }
}
