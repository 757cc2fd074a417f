//! `node.invoke`: an operator has a node do something.
//!
//! Running a program is an exec like any other, with `host=node`: it passes the gate. Anything that the caller says
//! about approvals (`approved`, `approvalDecision`, `runId`, `systemRunPlan`) is not read at all. A caller who may run
//! things may also ask a node what a program is called and what it would make of a command, as far as the same policy
//! lets them get there; of such a question the node gets what belongs to it and no more. Everything else goes straight
//! to the node, for those whom [`invoke_opens`] lets.
//!
//! A node judges what it gets by its own policy, and nothing in a forwarded call stands in for an answer of ours.
//! (`docs/spec/command-analysis.md#t3`)

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use countersign_domain::{
    AgentId, AgentNote, Command, EnvSize, ExecRequest, HostChoice, InvalidRequest, Joining, Reason,
    ReasonClass, Run, RunId, RunStatus, SessionKey, Stop,
};
use countersign_engine::{
    IdempotencyKey, OnDisconnect,
    explain::Outcome,
    hint::hint,
    reply::{Denial, EndedRun, ExecError, ExecReply},
};
use countersign_hosts::node::{InvokeFailure, InvokeRequest, InvokeResult, NodeError, answers};
use countersign_protocol::{
    ByName,
    bridge::{CappedStreams, Protocol, UNAVAILABLE, WireError},
};

use super::{
    method::invoke_opens,
    output,
    refusal::{self, Dispatched},
    scope::OperatorScope,
    session::{Answer, OperatorSession},
};

/// How long a person is waited for when the caller does not say how long it waits.
const TIMEOUT_FOR_PERSON: Duration = Duration::from_mins(10);
/// How long a command is waited for when the caller does not say: commands have time limits of their own.
const TIMEOUT_FOR_RUN: Duration = Duration::from_hours(24);
/// The longest wait that is taken at its word.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);
/// Longest key under which a call is carried out once.
const LONGEST_KEY: usize = 200;
/// Most names that a node is asked about at once, and the longest of them.
const MOST_NAMES: usize = 64;
const LONGEST_NAME: usize = 256;
/// Most that a node is sent of a question by a caller who only runs things, as JSON.
const MOST_OF_QUESTION: usize = 256 * 1024;

/// The parameters of `node.invoke`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InvokeParams {
    node_id: String,
    command: String,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    timeout_ms: Option<f64>,
    #[serde(default)]
    idempotency_key: Option<String>,
}

/// The parameters of `system.which`.
#[derive(Debug, Deserialize)]
struct WhichParams {
    #[serde(default)]
    bins: Option<Vec<String>>,
}

/// What of the parameters of `system.run` and `system.run.prepare` counts here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AskedRun {
    #[serde(default)]
    command: Value,
    #[serde(default)]
    raw_command: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    timeout_ms: Option<f64>,
    #[serde(default)]
    needs_screen_recording: Option<bool>,
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    session_key: Option<String>,
}

/// Has a node do something.
pub(super) async fn invoke(session: &Arc<OperatorSession>, call: InvokeParams) -> Answer {
    let InvokeParams {
        node_id,
        command,
        params,
        timeout_ms,
        idempotency_key,
    } = call;
    session.must(invoke_opens(&command))?;
    // A stop applies to every command: this server does not see what a node does with it.
    let switch = session.bridge.engine().stop_switch();
    switch
        .expect_going()
        .map_err(|stop| stopped(session.protocol, &stop))?;
    let asked_timeout = timeout_ms.and_then(positive);
    let timeout = asked_timeout.unwrap_or_else(|| default_timeout(session));
    let payload = match command.as_str() {
        "system.run" => run(session, &node_id, params, asked_timeout, idempotency_key).await?,
        "system.which" => which(session, &node_id, params, timeout).await?,
        "system.run.prepare" => prepare(session, &node_id, params, timeout).await?,
        _another => {
            session.must_reach_what_is_of_no_agent()?;
            let params = params.unwrap_or(Value::Null);
            let call = send(session, &node_id, &command, params, timeout);
            let sent = switch.begin_while_going(call).await;
            sent.map_err(|stop| stopped(session.protocol, &stop))??
        }
    };
    Ok(json!({
        "ok": true,
        "nodeId": node_id,
        "command": command,
        "payloadJSON": payload.to_string(),
        "payload": payload,
    }))
}

pub(super) fn default_timeout(session: &OperatorSession) -> Duration {
    let settings = session.bridge.engine().settings().current();
    settings.server.bridge.invoke_timeout
}

/// Sends a call to a node and waits for what it says.
pub(super) async fn send(
    session: &OperatorSession,
    node_id: &str,
    command: &str,
    params: Value,
    timeout: Duration,
) -> Result<Value, WireError> {
    let request = InvokeRequest {
        node_id: node_id.to_owned(),
        connection: None,
        id: session.bridge.engine().ids().random().to_string(),
        command: command.to_owned(),
        params,
        timeout: Some(timeout),
        token: session.principal().actor.token(),
    };
    match session.bridge.link().invoke(request).await {
        Ok(InvokeResult { outcome: Ok(payload) }) => Ok(payload),
        Ok(InvokeResult { outcome: Err(error) }) => {
            Err(refusal::of_node(session.protocol, &error, Dispatched::Yes))
        }
        Err(InvokeFailure::NotConnected) if !is_paired(session, node_id) => {
            Err(refusal::nobody(session.protocol))
        }
        Err(failure) => Err(refusal::of_invoke(
            session.protocol,
            &failure,
            command,
            Dispatched::Yes,
        )),
    }
}

fn is_paired(session: &OperatorSession, node_id: &str) -> bool {
    let nodes = session.bridge.link().nodes();
    nodes.iter().any(|node| node.node_id == node_id)
}

/// Asks a node where programs are.
async fn which(
    session: &OperatorSession,
    node_id: &str,
    params: Option<Value>,
    timeout: Duration,
) -> Result<Value, WireError> {
    let WhichParams { bins } = read("system.which", params.unwrap_or_else(|| json!({})))?;
    let sent = match bins {
        // The node has words of its own for that.
        None => json!({}),
        Some(bins) => {
            if bins.len() > MOST_NAMES || bins.iter().any(|name| name.len() > LONGEST_NAME) {
                let why = format!("at /bins: at most {MOST_NAMES} names of at most {LONGEST_NAME} bytes");
                return Err(refusal::params("system.which", &why));
            }
            json!({ "bins": bins })
        }
    };
    if !is_admin_of_nodes(session) {
        must_reach(session, node_id).await?;
    }
    send(session, node_id, "system.which", sent, timeout).await
}

/// Whether the caller may have a node do things that no agent asks for.
fn is_admin_of_nodes(session: &OperatorSession) -> bool {
    session.has(OperatorScope::Admin) && session.principal().may_touch_what_is_of_no_agent()
}

/// Refuses unless one of the agents that the caller acts for could run something on the node.
async fn must_reach(session: &OperatorSession, node_id: &str) -> Result<(), WireError> {
    let engine = session.bridge.engine();
    let agents: Vec<AgentId> = if let Some(bound) = session.principal().authority.agents() {
        bound.iter().cloned().collect()
    } else {
        let named = engine.settings().current().policy.agents();
        std::iter::once(AgentId::main()).chain(named).collect()
    };
    let mut first = None;
    for agent in agents {
        let any = AskedRun {
            command: json!(["true"]),
            agent_id: Some(agent.to_string()),
            ..AskedRun::default()
        };
        let request = request(session, node_id, any, None)?;
        let refused = match engine
            .explainer()
            .barred_from_node(session.principal(), &request)
            .await
        {
            Ok(None) => return Ok(()),
            Ok(Some(reason)) => refused(session.protocol, reason, Dispatched::No),
            Err(error) => of_error(session.protocol, &error),
        };
        first.get_or_insert(refused);
    }
    Err(first.unwrap_or_else(|| of_error(session.protocol, &ExecError::AgentNotAllowed)))
}

/// Asks a node what it would make of a command.
async fn prepare(
    session: &OperatorSession,
    node_id: &str,
    params: Option<Value>,
    timeout: Duration,
) -> Result<Value, WireError> {
    const METHOD: &str = "system.run.prepare";
    let params = params.unwrap_or_else(|| json!({}));
    if is_admin_of_nodes(session) {
        return send(session, node_id, METHOD, params, timeout).await;
    }
    if params.to_string().len() > MOST_OF_QUESTION {
        let why = format!("at most {MOST_OF_QUESTION} bytes");
        return Err(refusal::params(METHOD, &why));
    }
    let request = request(session, node_id, read(METHOD, params.clone())?, None)?;
    let sent = prepared(&params, &request);
    must_not_be_refused(session, request).await?;
    let mut answer = send(session, node_id, METHOD, sent, timeout).await?;
    // What a file holds is for a caller who may run the command; the plan that counts is the one that this server
    // asks for.
    if let Some(plan) = answer.get_mut("plan").and_then(Value::as_object_mut) {
        plan.remove("mutableFileOperand");
    }
    Ok(answer)
}

/// What a node is sent of a question about a command: what was judged, in the name of the agent that it was judged for.
fn prepared(given: &Value, request: &ExecRequest) -> Value {
    const SENT: [&str; 8] = [
        "command",
        "rawCommand",
        "cwd",
        "env",
        "sessionKey",
        "security",
        "ask",
        "strictInlineEval",
    ];
    let member = |name: &str| Some((name.to_owned(), given.get(name)?.clone()));
    let mut sent: Map<String, Value> = SENT.into_iter().filter_map(member).collect();
    sent.insert("agentId".to_owned(), json!(request.agent));
    Value::Object(sent)
}

/// Refuses what a call of the same command would be refused.
async fn must_not_be_refused(session: &OperatorSession, request: ExecRequest) -> Result<(), WireError> {
    let engine = session.bridge.engine();
    let protocol = session.protocol;
    let explained = Box::pin(engine.explainer().explain(session.principal(), request)).await;
    let explanation = explained.map_err(|error| of_error(protocol, &error))?;
    match explanation.outcome {
        Outcome::Run | Outcome::Ask(_) => Ok(()),
        Outcome::Deny(reason) => Err(refused(protocol, reason, Dispatched::No)),
        Outcome::BadCommand => Err(WireError::invalid("the command cannot be started")),
        Outcome::BlockedEnv => {
            let names = explanation.blocked_env;
            Err(of_error(protocol, &ExecError::BlockedEnv { names }))
        }
    }
}

fn read<T: DeserializeOwned>(method: &str, params: Value) -> Result<T, WireError> {
    let read = serde_json::from_value(params).map(|ByName(members)| members);
    read.map_err(|error| refusal::params(method, &error.to_string()))
}

async fn run(
    session: &OperatorSession,
    node_id: &str,
    params: Option<Value>,
    asked_timeout: Option<Duration>,
    key: Option<String>,
) -> Result<Value, WireError> {
    let params = params.unwrap_or_else(|| json!({}));
    let most = session
        .bridge
        .engine()
        .settings()
        .current()
        .server
        .limits
        .body_bytes;
    if params.to_string().len() > most {
        let why = format!("at most {most} bytes, as [limits] body_bytes says");
        return Err(refusal::params("system.run", &why));
    }
    let key = key
        .map(|key| idempotency_key(&key, node_id, &params))
        .transpose()?;
    let request = request(session, node_id, read("system.run", params)?, asked_timeout)?;
    let engine = session.bridge.engine();
    match engine.calls().exec(session.principal(), request, key).await {
        Ok(ExecReply::Ended(ended)) => of_ended(session, &ended).await,
        // Nothing may begin, or go on, that its caller has been told did not happen.
        Ok(ExecReply::Pending(pending)) => {
            withdraw(session, &pending.run).await;
            let denial = Denial {
                run_id: pending.run.id.clone(),
                reason: Reason::ApprovalTimeout,
                detail: None,
                hint: Some(hint(&["approver"])),
                rule: None,
            };
            Err(denied(session.protocol, &denial, Dispatched::No))
        }
        Ok(ExecReply::Running(running)) => {
            withdraw(session, &running.run).await;
            let sent = dispatched(session, &running.run.id).await;
            Err(refusal::of_invoke(
                session.protocol,
                &InvokeFailure::TimedOut,
                "system.run",
                sent,
            ))
        }
        Err(ExecError::Denied(denial)) => {
            let sent = dispatched(session, &denial.run_id).await;
            Err(denied(session.protocol, &denial, sent))
        }
        Err(error) => Err(of_error(session.protocol, &error)),
    }
}

/// Whether a run was launched on its node. From then on it may have been sent.
async fn dispatched(session: &OperatorSession, run: &RunId) -> Dispatched {
    match session.bridge.engine().ledger().node_launch(run).await {
        Ok(None) => Dispatched::No,
        Ok(Some(_)) | Err(_) => Dispatched::Yes,
    }
}

async fn withdraw(session: &OperatorSession, run: &Run) {
    if let Err(error) = session
        .bridge
        .engine()
        .cancels()
        .cancel(session.principal(), &run.id)
        .await
    {
        tracing::debug!(run.id = %run.id, %error, "a run that nobody waits for was not cancelled");
    }
}

fn request(
    session: &OperatorSession,
    node_id: &str,
    params: AskedRun,
    asked_timeout: Option<Duration>,
) -> Result<ExecRequest, WireError> {
    let AskedRun {
        command,
        raw_command,
        cwd,
        env,
        timeout_ms,
        needs_screen_recording,
        agent_id,
        session_key,
    } = params;
    let said = |code: &str, message: &str| {
        let error = NodeError::new(code, message);
        refusal::of_node(session.protocol, &error, Dispatched::No)
    };
    if needs_screen_recording == Some(true) {
        return Err(said("UNAVAILABLE", "PERMISSION_MISSING: screenRecording"));
    }
    let argv = serde_json::from_value::<Vec<String>>(command).unwrap_or_default();
    let command = Command::of_peer(argv.clone()).map_err(|invalid| match invalid {
        InvalidRequest::BlankCommand => said("INVALID_REQUEST", "command required"),
        InvalidRequest::Nul
        | InvalidRequest::TooLong
        | InvalidRequest::TooManyWords
        | InvalidRequest::TooManyBytes
        | InvalidRequest::PatchTooLong => said("INVALID_REQUEST", &invalid.to_string()),
    })?;
    if let Some(raw) = &raw_command {
        let formatted = Command::Argv(argv.clone()).to_text();
        check_raw(raw, &argv, &formatted)?;
    }
    let env = env.unwrap_or_default();
    EnvSize::check(&env).map_err(|large| said("INVALID_REQUEST", &format!("env: {large}")))?;
    let (agent, session_key) = identity("system.run", agent_id, session_key)?;
    Ok(ExecRequest {
        command,
        workdir: cwd.map(workdir).transpose()?,
        env,
        yield_after: Some(asked_timeout.unwrap_or(TIMEOUT_FOR_RUN)),
        background: false,
        timeout: timeout_ms.and_then(positive),
        pty: false,
        host: Some(HostChoice::Node),
        security: None,
        ask: None,
        node: Some(node_id.to_owned()),
        elevated: false,
        agent,
        session: session_key,
        approval_wait: asked_timeout.map_or(TIMEOUT_FOR_PERSON, |asked_timeout| {
            asked_timeout.min(TIMEOUT_FOR_PERSON)
        }),
        note: AgentNote::default(),
        joining: Joining::Never,
    })
}

/// The text beside the arguments is what other gateways show and judge; here it may only say the same.
fn check_raw(raw: &str, argv: &[String], formatted: &str) -> Result<(), WireError> {
    let inline = match argv {
        [shell, flag, text] if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc") => {
            Some(text.as_str())
        }
        [shell, rest @ .., text]
            if is_cmd(shell) && rest.iter().any(|flag| flag.eq_ignore_ascii_case("/c")) =>
        {
            Some(text.as_str())
        }
        _ => None,
    };
    let raw = raw.trim();
    if raw.is_empty() || raw == formatted || inline.is_some_and(|text| text.trim() == raw) {
        return Ok(());
    }
    Err(
        WireError::invalid("INVALID_REQUEST: rawCommand does not match command").with_details(json!({
            "code": "RAW_COMMAND_MISMATCH",
            "rawCommand": raw,
            "inferred": inline.unwrap_or(formatted),
            "formattedArgv": formatted,
        })),
    )
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "fish")
}

fn is_cmd(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.eq_ignore_ascii_case("cmd.exe") || name.eq_ignore_ascii_case("cmd")
}

/// For which agent and in which session something is asked; a session of another agent is an error.
pub(super) fn identity(
    method: &str,
    agent: Option<String>,
    key: Option<String>,
) -> Result<(AgentId, SessionKey), WireError> {
    let wrong = |member: &str, error: countersign_domain::InvalidId| {
        refusal::params(method, &format!("at /{member}: {error}"))
    };
    let blank = |text: &String| !text.trim().is_empty();
    let agent = agent
        .filter(blank)
        .map(|text| AgentId::parse(text).map_err(|error| wrong("agentId", error)))
        .transpose()?;
    let key = key
        .filter(blank)
        .map(|text| SessionKey::parse(text).map_err(|error| wrong("sessionKey", error)))
        .transpose()?;
    let told = key.as_ref().and_then(SessionKey::agent);
    if let (Some(agent), Some(told)) = (&agent, &told)
        && agent != told
    {
        return Err(refusal::params(
            method,
            "at /sessionKey: belongs to another agent",
        ));
    }
    let agent = agent.or(told).unwrap_or_else(AgentId::main);
    let key = key.unwrap_or_else(|| SessionKey::main_of(&agent));
    Ok((agent, key))
}

fn workdir(path: String) -> Result<String, WireError> {
    if path.contains('\0') || !(path.starts_with('/') || path.starts_with("~/")) {
        return Err(refusal::params(
            "system.run",
            "at /cwd: must be absolute or begin with ~/",
        ));
    }
    Ok(path)
}

/// A number of milliseconds that means something.
fn positive(millis: f64) -> Option<Duration> {
    if !(millis.is_finite() && millis >= 1.0) {
        return None;
    }
    let millis = millis.min(MAX_TIMEOUT.as_secs_f64() * 1000.0);
    Some(Duration::from_secs_f64(millis / 1000.0))
}

fn idempotency_key(key: &str, node_id: &str, params: &Value) -> Result<IdempotencyKey, WireError> {
    let is_key = (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_key {
        return Err(refusal::params(
            "node.invoke",
            "at /idempotencyKey: expected 1 to 200 printable characters",
        ));
    }
    let body = json!({ "nodeId": node_id, "params": params }).to_string();
    Ok(IdempotencyKey {
        // Apart from the keys of the HTTP API, which a caller chooses for other bodies.
        key: format!("node.invoke:{key}"),
        body_sha256: Sha256::digest(body.as_bytes()).into(),
        on_disconnect: OnDisconnect::Kill,
        is_named: true,
    })
}

/// What a run came to, as its node said it.
async fn of_ended(session: &OperatorSession, ended: &EndedRun) -> Result<Value, WireError> {
    let EndedRun { run, output, .. } = ended;
    let protocol = session.protocol;
    match run.status {
        // An answer without a result: nothing is known to have run.
        RunStatus::Failed if matches!(run.reason, Some(Reason::InvokeFailed | Reason::NotStarted)) => {
            return Err(not_run(protocol, run));
        }
        RunStatus::Completed | RunStatus::Failed => {}
        RunStatus::Lost => {
            return Err(refusal::of_invoke(
                protocol,
                &InvokeFailure::Disconnected,
                "system.run",
                Dispatched::Yes,
            ));
        }
        RunStatus::Cancelled => {
            let error = NodeError::new("CANCELLED", "the run was cancelled");
            let sent = dispatched(session, &run.id).await;
            return Err(refusal::of_node(protocol, &error, sent));
        }
        RunStatus::Denied
        | RunStatus::Requested
        | RunStatus::Asking
        | RunStatus::Launching
        | RunStatus::Running => {
            let denial = Denial {
                run_id: run.id.clone(),
                reason: run.reason.unwrap_or(Reason::NodeRefused),
                detail: run.detail.clone(),
                hint: None,
                rule: None,
            };
            let sent = dispatched(session, &run.id).await;
            return Err(denied(protocol, &denial, sent));
        }
    }
    let exit_code = match (run.exit_code, run.timed_out, protocol) {
        (Some(code), _, _) => Some(code),
        (None, true, Protocol::Four) => Some(124),
        (None, _, _) => None,
    };
    let streams = match output::of_run(session.bridge.engine(), run).await {
        Ok(streams) => streams,
        Err(error) => {
            tracing::error!(run.id = %run.id, %error, "the exact output of a run cannot be read; its text is answered");
            CappedStreams::of_whole(&output.stdout, &output.stderr)
        }
    };
    // A node names no error of a command that a signal ended.
    let error = run
        .detail
        .as_deref()
        .filter(|_| run.reason == Some(Reason::SpawnFailed))
        .map(|detail| answers::words_of(detail).unwrap_or(detail));
    let mut payload = json!({
        "timedOut": run.timed_out,
        "success": run.status == RunStatus::Completed,
        "stdout": streams.stdout,
        "stderr": streams.stderr,
        "error": error,
        "runId": run.id,
    });
    if let (Some(code), Some(members)) = (exit_code, payload.as_object_mut()) {
        members.insert("exitCode".to_owned(), code.into());
    }
    Ok(payload)
}

/// A run that was never sent, or that its node answered with an error or with nothing that can be read.
fn not_run(protocol: Protocol, run: &Run) -> WireError {
    let detail = run.detail.as_deref().unwrap_or("the run did not start");
    let said = answers::said(detail);
    let dispatched = if said.is_none() && run.reason == Some(Reason::NotStarted) {
        Dispatched::No
    } else {
        Dispatched::Yes
    };
    let error = said.unwrap_or_else(|| NodeError::new(UNAVAILABLE, detail));
    let refused = refusal::of_node(protocol, &error, dispatched);
    let refused = refusal::with_detail(refused, "reason", json!(run.reason));
    refusal::with_detail(refused, "runId", json!(run.id))
}

/// A refusal by decision of which there is a record: in the node's own words where it was the node's.
fn denied(protocol: Protocol, denial: &Denial, dispatched: Dispatched) -> WireError {
    let Denial {
        run_id,
        reason,
        detail,
        hint,
        rule: _,
    } = denial;
    let said = detail.as_deref().and_then(answers::said);
    // An event without a code has words for its reason alone, for which there are better ones.
    let said = said.filter(|error| !error.code.is_empty() || *reason == Reason::NodeRefused);
    let mut refused = match &said {
        Some(error) => {
            let refused = refusal::of_node(protocol, error, dispatched);
            refusal::with_detail(refused, "reason", json!(reason))
        }
        None => refused(protocol, *reason, dispatched),
    };
    refused = refusal::with_detail(refused, "runId", json!(run_id));
    if let (Some(detail), None) = (detail, said) {
        refused = refusal::with_detail(refused, "detail", json!(detail));
    }
    match hint {
        Some(hint) => refusal::with_detail(refused, "hint", json!(hint)),
        None => refused,
    }
}

/// A refusal by decision, in the words that a node has for it.
fn refused(protocol: Protocol, reason: Reason, dispatched: Dispatched) -> WireError {
    let message = match (reason.class(), reason) {
        (ReasonClass::Closed, _) => "SYSTEM_RUN_DISABLED: security=deny",
        (ReasonClass::Miss, Reason::AllowlistMiss) => "SYSTEM_RUN_DENIED: allowlist miss",
        (ReasonClass::Changed, _) => "SYSTEM_RUN_DENIED: execution plan mismatch",
        (ReasonClass::Person | ReasonClass::Unanswered, _) => "SYSTEM_RUN_DENIED: approval required",
        (
            ReasonClass::Rule
            | ReasonClass::Miss
            | ReasonClass::Refused
            | ReasonClass::Failed
            | ReasonClass::Lost
            | ReasonClass::Cancelled,
            _,
        ) => "SYSTEM_RUN_DENIED: denied by policy",
    };
    let code = match protocol {
        Protocol::Three => UNAVAILABLE,
        Protocol::Four => "SYSTEM_RUN_DENIED",
    };
    let error = NodeError::new(code, message);
    let refused = refusal::of_node(protocol, &error, dispatched);
    refusal::with_detail(refused, "reason", json!(reason))
}

/// What is refused while everything is stopped: to a client of the Bridge that is a person's no.
fn stopped(protocol: Protocol, stop: &Stop) -> WireError {
    let refused = refused(protocol, Reason::Stopped, Dispatched::No);
    refusal::with_detail(refused, "detail", json!(stop.words()))
}

/// Why nothing was begun.
fn of_error(protocol: Protocol, error: &ExecError) -> WireError {
    let said = |code: &str, message: String| {
        let error = NodeError::new(code, message);
        refusal::of_node(protocol, &error, Dispatched::No)
    };
    match error {
        ExecError::Denied(denial) => denied(protocol, denial, Dispatched::No),
        ExecError::BlockedEnv { names } => said(
            "INVALID_REQUEST",
            format!(
                "SYSTEM_RUN_DENIED: environment override rejected (blocked override keys: {})",
                names.join(", ")
            ),
        ),
        ExecError::NodeUnavailable { failure, detail } => {
            let refused = refusal::of_invoke(protocol, failure, "system.run", Dispatched::No);
            refusal::with_detail(refused, "detail", json!(detail))
        }
        ExecError::NodeNotFound { detail } => {
            refusal::with_detail(refusal::nobody(protocol), "detail", json!(detail))
        }
        ExecError::Storage(trouble) | ExecError::Unrecorded { trouble, .. } => refusal::storage(*trouble),
        ExecError::Stopped(stop) => stopped(protocol, stop),
        ExecError::NoPlace(full) => WireError::unavailable(format!("{error}: {full}")).retryable(None),
        ExecError::NoTurn(full) => WireError::unavailable(format!("{error}: {full}")).retryable(None),
        ExecError::TooManyQuestions(_)
        | ExecError::Overloaded
        | ExecError::ShuttingDown
        | ExecError::Blind(_)
        | ExecError::Machine(_) => WireError::unavailable(error.to_string()).retryable(None),
        ExecError::ToolDenied { detail, hint } => {
            let refused = said(
                "SYSTEM_RUN_DENIED",
                "SYSTEM_RUN_DENIED: denied by policy".to_owned(),
            );
            let refused = refusal::with_detail(refused, "detail", json!(detail));
            refusal::with_detail(refused, "hint", json!(hint))
        }
        ExecError::WorkdirUnavailable { detail } | ExecError::ConfigConflict { detail } => {
            WireError::invalid(format!("{error}: {detail}"))
        }
        ExecError::HostNotAllowed { detail, hint }
        | ExecError::SandboxUnavailable { detail, hint }
        | ExecError::PatchNotAllowed { detail, hint } => {
            WireError::invalid(format!("{error}: {detail}")).with_details(json!({ "hint": hint }))
        }
        ExecError::NodeAmbiguous { detail, candidates } => {
            let candidate = |(id, name): &(String, Option<String>)| match name {
                Some(name) => json!({ "nodeId": id, "displayName": name }),
                None => json!({ "nodeId": id }),
            };
            let candidates: Vec<Value> = candidates.iter().map(candidate).collect();
            WireError::invalid(format!("{error}: {detail}")).with_details(json!({ "candidates": candidates }))
        }
        ExecError::ElevatedUnavailable { gates } => {
            let words: Vec<String> = gates
                .iter()
                .map(|gate| format!("{} {}", gate.key, gate.why))
                .collect();
            let keys: Vec<&str> = gates.iter().map(|gate| gate.key.as_str()).collect();
            WireError::invalid(format!("{error}: {}", words.join("; ")))
                .with_details(json!({ "gates": keys }))
        }
        ExecError::PatchFailed(failure) => WireError::invalid(format!("{error}: {}", failure.detail)),
        ExecError::InvalidRequest { .. } | ExecError::AgentNotAllowed | ExecError::IdempotencyMismatch => {
            WireError::invalid(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_text_beside_the_arguments_says_the_same_or_nothing() {
        let check = |raw: &str, words: &[&str]| {
            let argv = argv(words);
            let formatted = Command::argv(argv.clone()).unwrap().to_text();
            check_raw(raw, &argv, &formatted).is_ok()
        };
        assert!(check("echo hi", &["echo", "hi"]));
        assert!(check("", &["echo", "hi"]));
        assert!(check("echo a; rm b", &["/bin/sh", "-lc", "echo a; rm b"]));
        assert!(check("dir", &["cmd.exe", "/d", "/s", "/c", "dir"]));
        assert!(!check("echo bye", &["echo", "hi"]));
        assert!(!check("echo a", &["/bin/sh", "-lc", "echo a; rm b"]));
        assert!(!check("echo a", &["/bin/echo", "-lc", "echo a"]));
    }

    #[test]
    fn times_that_mean_nothing_are_none() {
        for nothing in [0.0, -5.0, 0.4, f64::NAN, f64::INFINITY] {
            assert_eq!(positive(nothing), None, "{nothing}");
        }
        assert_eq!(positive(400.0), Some(Duration::from_millis(400)));
        assert_eq!(positive(1e18), Some(MAX_TIMEOUT));
    }

    #[test]
    fn a_session_names_its_agent_and_no_other() {
        let id = |agent: Option<&str>, key: Option<&str>| {
            identity("system.run", agent.map(str::to_owned), key.map(str::to_owned))
                .map(|(agent, key)| (agent.to_string(), key.to_string()))
        };
        let ok = |agent: &str, key: &str| Ok((agent.to_owned(), key.to_owned()));
        assert_eq!(id(None, None), ok("main", "agent:main:main"));
        assert_eq!(id(None, Some("agent:build:x")), ok("build", "agent:build:x"));
        assert_eq!(id(Some("build"), Some("node")), ok("build", "node"));
        assert!(id(Some("build"), Some("agent:main:x")).is_err());
        assert!(id(Some("../x"), None).is_err());
    }
}
