//! `exec.approval.*`: questions about commands that the asker starts by itself, and the answers.
//!
//! A question is an ordinary approval: the page and the command line show it, and it is answered anywhere. The asker
//! never answers it, over any connection, since an operator acts as their token.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use countersign_domain::{
    Approval, ApprovalDecision, ApprovalId, ApprovalStatus, Ask, Command, EnvSize, Host, Security,
};
use countersign_engine::{
    ask_only::{AskError, AskRequest, Route},
    reply::{Answer as PersonsAnswer, DecideError},
};
use countersign_ledger::{ApprovalFilter, Page};
use countersign_policy::command::{env_policy, question::PlainQuestion};
use countersign_protocol::bridge::{Protocol, WireError};

use super::{
    asking::MOST_WAITING,
    invoke, refusal,
    scope::OperatorScope,
    session::{Answer, OperatorSession},
    shape,
};

/// How long a person has when the asker does not say: the first generation's default, and the present one's.
const DEFAULT_TIMEOUT: [Duration; 2] = [Duration::from_mins(2), Duration::from_mins(30)];
/// Most questions in one list.
const MOST_LISTED: u32 = 500;
/// One list takes at most this part of what a connection may have waiting, and of the longest frame.
const PART_OF_BUFFER: usize = 4;
/// The longest text of a question besides its command and its environment.
const MAX_TEXT_BYTES: usize = 4096;
/// The method that asks.
const REQUEST: &str = "exec.approval.request";

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
    let id = request.id.clone();
    let approval = match ask(session, request).await? {
        Asked::Approval(approval) => approval,
        Asked::Refused => return Ok(shape::refused(id.as_ref(), session.now())),
    };
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

pub(super) async fn resolve(session: &Arc<OperatorSession>, params: ResolveParams) -> Answer {
    let decision = params
        .decision
        .as_str()
        .and_then(|word| word.parse::<ApprovalDecision>().ok());
    let decision = decision.ok_or_else(|| WireError::invalid("invalid decision"))?;
    let id = ApprovalId::parse(params.id).map_err(|_no_id| unknown(session.protocol))?;
    if decision != ApprovalDecision::Deny {
        expect_read(session, &id).await?;
    }
    let answer = PersonsAnswer {
        decision,
        reason: None,
        patterns: None,
        grant: None,
        refusal: None,
        shown_digest: None,
    };
    match session
        .bridge
        .engine()
        .approvals()
        .decide(session.principal(), &id, answer)
        .await
    {
        Ok(_decided) => Ok(json!({ "ok": true })),
        Err(error) => Err(of_decide(session.protocol, &error)),
    }
}

/// Refuses a yes to what nobody was shown whole here (`docs/spec/command-analysis.md#v3`).
async fn expect_read(session: &OperatorSession, id: &ApprovalId) -> Result<(), WireError> {
    let approval = session
        .bridge
        .engine()
        .records()
        .approval(session.principal(), id)
        .await;
    let approval = approval.map_err(refusal::storage)?;
    let is_open = |approval: &Approval| shape::is_open(approval, session.now());
    // Of what is not open the answer says why.
    match approval.filter(is_open) {
        Some(approval) if PlainQuestion::of(&approval.card).is_cut => {
            let detail = format!(
                "parts of the command were not shown here; read the whole of it and answer there: \
                 countersign approvals show {id}"
            );
            Err(of_decide(
                session.protocol,
                &DecideError::NotAllowed { detail, reason: None },
            ))
        }
        Some(_) | None => Ok(()),
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
        .records()
        .approvals(session.principal(), filter, Page::first(MOST_LISTED))
        .await
        .map_err(refusal::storage)?;
    let now = session.now();
    let seen = listing
        .items
        .iter()
        .filter(|approval| shape::is_open(approval, now) && may_see(session, approval));
    let mut room = room_for_list(session);
    let mut shown = Vec::new();
    for approval in seen {
        let one = shape::asked(session.protocol, approval);
        // One that is too large hides none of those that fit.
        if let Some(left) = room.checked_sub(one.to_string().len() + 1) {
            room = left;
            shown.push(one);
        }
    }
    Ok(Value::Array(shown))
}

/// How many bytes a list may have: one that is too long would end the connection of the approver who is to answer.
fn room_for_list(session: &OperatorSession) -> usize {
    let settings = session.bridge.engine().settings().current();
    let limits = &settings.server.bridge;
    limits.max_frame_bytes.min(limits.max_buffer_bytes) / PART_OF_BUFFER
}

/// What became of a question.
enum Asked {
    /// A person is asked, or nobody is there.
    Approval(Box<Approval>),
    /// The emergency stop is in effect, or the agent is muted: the answer is no.
    Refused,
}

/// Asks, even if the connection goes away meanwhile: a question takes a place of its asker for as long as it waits.
async fn ask(session: &OperatorSession, request: AskRequest) -> Result<Asked, WireError> {
    let bridge = &session.bridge;
    let Some(place) = bridge.askers.enter(&request.asked_by.actor) else {
        let full = format!("{MOST_WAITING} questions of this token wait for an answer already");
        return Err(WireError::unavailable(full).retryable(None));
    };
    let (engine, stopping) = (Arc::clone(bridge.engine()), bridge.stopping.clone());
    let (tell, told) = oneshot::channel();
    bridge.spawn(async move {
        let asked = engine.ask_only().ask(request).await;
        let waits = |approval: &&Approval| approval.state.status() == ApprovalStatus::Pending;
        let waiting = asked.as_ref().ok().filter(waits);
        let waiting = waiting.map(|approval| approval.id.clone());
        // The asker may have left.
        drop(tell.send(asked));
        if let Some(id) = waiting {
            tokio::select! {
                _ended = engine.approvals().answer_to(&id) => {}
                () = stopping.cancelled() => {}
            }
        }
        drop(place);
    });
    match told.await {
        Ok(Ok(approval)) => Ok(Asked::Approval(Box::new(approval))),
        Ok(Err(AskError::Stopped(_) | AskError::Denied(_))) => Ok(Asked::Refused),
        Ok(Err(error)) => Err(of_ask(&error)),
        Err(_dropped) => Err(of_ask(&AskError::ShuttingDown)),
    }
}

async fn until_ended(session: &OperatorSession, id: &ApprovalId) -> Result<Approval, WireError> {
    let ended = session
        .bridge
        .engine()
        .approvals()
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
        .records()
        .approval(session.principal(), &id)
        .await
        .map_err(refusal::storage)?;
    approval
        .filter(|approval| may_see(session, approval))
        .ok_or_else(nobody)
}

/// Of the questions that the engine shows them: who answers sees all, who only asks sees their own.
fn may_see(session: &OperatorSession, approval: &Approval) -> bool {
    session.has(OperatorScope::Approvals) || approval.requested_by.is_same_party(&session.principal().actor)
}

/// Refuses what is larger than any honest question: it is kept, and sent to everybody who answers.
fn check_size(session: &OperatorSession, params: &RequestParams) -> Result<(), WireError> {
    let texts = [
        ("cwd", &params.cwd),
        ("nodeId", &params.node_id),
        ("resolvedPath", &params.resolved_path),
    ];
    for (member, text) in texts {
        if text.as_ref().is_some_and(|text| text.len() > MAX_TEXT_BYTES) {
            let why = format!("at /{member}: longer than {MAX_TEXT_BYTES} bytes");
            return Err(refusal::params(REQUEST, &why));
        }
    }
    let command = params.command.iter().map(String::len);
    let argv = params.command_argv.iter().flatten().map(String::len);
    let env = params.env.iter().flatten();
    let env = env.map(|(name, value)| name.len() + value.len());
    let bytes: usize = command.chain(argv).chain(env).sum();
    let most = session
        .bridge
        .engine()
        .settings()
        .current()
        .server
        .limits
        .body_bytes;
    if bytes > most {
        let why = format!("longer than {most} bytes ([limits] body_bytes)");
        return Err(refusal::params(REQUEST, &why));
    }
    Ok(())
}

fn ask_request(session: &OperatorSession, params: RequestParams) -> Result<AskRequest, WireError> {
    check_size(session, &params)?;
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
    let wrong =
        |member: &str, why: &dyn std::fmt::Display| refusal::params(REQUEST, &format!("at /{member}: {why}"));
    // People name an approval by the beginning of its id: a short one of the asker's choice would be the beginning of
    // the id of another approval.
    let chosen = |id: String| {
        let id = ApprovalId::parse(id).ok().filter(ApprovalId::is_uuid);
        id.ok_or_else(|| wrong("id", &"expected a UUID in lower case"))
    };
    let id = id.filter(|id| !id.is_empty()).map(chosen).transpose()?;
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
    let (agent, key) = invoke::identity(REQUEST, agent_id, session_key)?;
    if !session.principal().may_act_for(&agent) {
        return Err(WireError::invalid("the token may not act for this agent"));
    }
    let env = env.unwrap_or_default();
    EnvSize::check(&env).map_err(|large| wrong("env", &large))?;
    let env = env_policy::check_overrides(&env).map_err(|_blocked| wrong("env", &"blocked override keys"))?;
    let default = match session.protocol {
        Protocol::Three => DEFAULT_TIMEOUT[0],
        Protocol::Four => DEFAULT_TIMEOUT[1],
    };
    let asked_by = session.principal().clone();
    Ok(AskRequest {
        id,
        session: key,
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
        // Nobody answers their own question, so the asker does not count as an approver who could be asked.
        route: Route::Needs {
            besides: session.own_approvers(),
        },
        detail: format!(
            "{} asks over the Bridge and starts the command itself",
            asked_by.actor.name
        ),
        asked_by,
    })
}

fn word<T: std::str::FromStr>(text: Option<String>) -> Result<Option<T>, T::Err> {
    text.filter(|text| !text.is_empty())
        .map(|text| text.parse())
        .transpose()
}

fn of_ask(error: &AskError) -> WireError {
    match error {
        AskError::IdTaken => WireError::invalid("approval id already pending"),
        AskError::SlugTaken => {
            WireError::invalid("another approval id begins with the same 8 characters; draw a new one")
        }
        AskError::TooMany(_) | AskError::ShuttingDown | AskError::Stopped(_) | AskError::Denied(_) => {
            WireError::unavailable(error.to_string()).retryable(None)
        }
        AskError::NotEvaluated(error) => WireError::invalid(error.to_string()),
        AskError::Storage(trouble) => refusal::storage(*trouble),
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
        // No answer over this wire has a grant.
        DecideError::TooWide { detail } | DecideError::NotAllowed { detail, reason: _ } => {
            WireError::invalid(format!("invalid decision: {detail}"))
                .with_details(json!({ "reason": "APPROVAL_DECISION_NOT_ALLOWED" }))
        }
        DecideError::OwnRequest => WireError::invalid("who asks cannot answer")
            .with_details(json!({ "reason": "APPROVAL_OWN_REQUEST" })),
        DecideError::NotEntitled { detail } => {
            WireError::invalid(detail.clone()).with_details(json!({ "reason": "APPROVAL_NOT_IN_GROUPS" }))
        }
        DecideError::Stopped(stop) => {
            WireError::invalid(stop.words()).with_details(json!({ "reason": "STOPPED" }))
        }
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
