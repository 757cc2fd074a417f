//! Approvals and their ends in the product's shapes
//! (`docs/spec/bridge.md#10-exec-approval-rpcs-operator-scope-operatorapprovals`).

use serde_json::{Value, json};

use countersign_domain::{
    Approval, ApprovalDecision, ApprovalId, ApprovalState, ApprovalStatus, Bound, Command, TerminalReason,
    UnixMillis,
};
use countersign_policy::command::{display, question::PlainQuestion};
use countersign_protocol::bridge::Protocol;

/// Arguments of more bytes are not repeated for machines: everybody who answers is sent them, and nobody binds to them.
const MAX_BOUND_BYTES: usize = 64 * 1024;

/// An approval as `exec.approval.requested` and `exec.approval.list` show it.
pub(super) fn asked(protocol: Protocol, approval: &Approval) -> Value {
    let mut shown = json!({
        "id": approval.id,
        "request": request(protocol, approval),
        "createdAtMs": approval.created_at,
        "expiresAtMs": approval.expires_at,
    });
    if protocol == Protocol::Four {
        put(&mut shown, "approvalKind", json!("exec"));
    }
    shown
}

/// `exec.approval.resolved`; `None` when the first generation is told nothing of such an end.
pub(super) fn resolved(protocol: Protocol, approval: &Approval) -> Option<Value> {
    let (by, at) = match &approval.state {
        ApprovalState::Pending => return None,
        ApprovalState::Allowed { by, at, .. } | ApprovalState::Denied { by, at, .. } => (Some(&by.name), *at),
        ApprovalState::Expired { at, .. } => {
            if protocol == Protocol::Three {
                return None;
            }
            (None, *at)
        }
        ApprovalState::Cancelled { at, .. } => (None, *at),
    };
    let mut shown = json!({
        "id": approval.id,
        "decision": approval.state.decision(),
        "resolvedBy": by,
        "ts": at,
    });
    if protocol == Protocol::Four {
        put(&mut shown, "request", request(protocol, approval));
    }
    Some(shown)
}

/// The same for a question that nobody is asked, while everything is stopped or the agent is muted.
pub(super) fn refused(id: Option<&ApprovalId>, now: UnixMillis) -> Value {
    json!({
        "id": id,
        "decision": ApprovalDecision::Deny,
        "createdAtMs": now,
        "expiresAtMs": now,
    })
}

/// The final answer of `exec.approval.request`.
pub(super) fn decision(approval: &Approval) -> Value {
    json!({
        "id": approval.id,
        "decision": persons(approval),
        "createdAtMs": approval.created_at,
        "expiresAtMs": approval.expires_at,
    })
}

/// The answer of `exec.approval.waitDecision`, which says besides why it ended.
pub(super) fn awaited(approval: &Approval) -> Value {
    let mut shown = decision(approval);
    if let Some(reason) = terminal_reason(&approval.state) {
        put(&mut shown, "terminalReason", json!(reason));
    }
    shown
}

/// The first answer of a `twoPhase` request.
pub(super) fn accepted(approval: &Approval) -> Value {
    json!({
        "status": "accepted",
        "id": approval.id,
        "deliveryRoute": "approval-client",
        "createdAtMs": approval.created_at,
        "expiresAtMs": approval.expires_at,
    })
}

/// The answer of `exec.approval.get`.
pub(super) fn brief(approval: &Approval) -> Value {
    let binding = &approval.card.binding;
    let question = PlainQuestion::of(&approval.card);
    json!({
        "id": approval.id,
        "commandText": question.text,
        "commandPreview": null,
        "allowedDecisions": question.decisions,
        "host": binding.host,
        "nodeId": binding.node_id.as_deref().map(display::visible),
        "agentId": binding.agent,
        "expiresAtMs": approval.expires_at,
    })
}

/// Whether there still is something to decide at `now`.
pub(super) fn is_open(approval: &Approval, now: UnixMillis) -> bool {
    approval.state.status() == ApprovalStatus::Pending && !approval.is_due(now)
}

/// What a person chose; `None` when none did, which is not the same as a no.
fn persons(approval: &Approval) -> Option<ApprovalDecision> {
    match &approval.state {
        ApprovalState::Allowed { decision, .. } => Some(*decision),
        ApprovalState::Denied { .. } => Some(ApprovalDecision::Deny),
        ApprovalState::Pending | ApprovalState::Expired { .. } | ApprovalState::Cancelled { .. } => None,
    }
}

fn terminal_reason(state: &ApprovalState) -> Option<TerminalReason> {
    match state {
        ApprovalState::Pending => None,
        ApprovalState::Allowed { .. } | ApprovalState::Denied { .. } => Some(TerminalReason::User),
        ApprovalState::Expired { why, .. } => Some(*why),
        ApprovalState::Cancelled { .. } => Some(TerminalReason::RunAborted),
    }
}

/// The question, every text of it as a person may see it. Exact is only what machines bind to.
fn request(protocol: Protocol, approval: &Approval) -> Value {
    let card = &approval.card;
    let binding = &card.binding;
    let question = PlainQuestion::of(card);
    let required = card.quorum.required;
    let several = (required > 1).then(|| format!("{required} different people have to allow this."));
    let cut = question.is_cut.then(|| {
        format!(
            "Parts of the command are not shown here, so it can only be denied here. To allow it, read the whole of it: \
             countersign approvals show {}",
            approval.id
        )
    });
    let warnings: Vec<String> = several.into_iter().chain(cut).collect();
    let warning = (!warnings.is_empty()).then(|| warnings.join(" "));
    let mut request = json!({
        "command": question.text,
        "cwd": display::visible(&binding.cwd),
        "host": binding.host,
        "security": card.security,
        "ask": card.ask,
        "agentId": binding.agent,
        "resolvedPath": card.resolved_path.as_deref().map(display::visible),
        "sessionKey": display::visible(binding.session.as_str()),
    });
    if protocol == Protocol::Three {
        return request;
    }
    let argv = match (&binding.bound, &binding.command) {
        (Bound::Exec { argv, .. }, _) | (_, Command::Argv(argv)) => Some(argv),
        _ => None,
    };
    let is_short = |argv: &&Vec<String>| argv.iter().map(String::len).sum::<usize>() <= MAX_BOUND_BYTES;
    let bound = argv.filter(is_short).map(|argv| {
        json!({
            "argv": argv,
            "cwd": binding.cwd,
            "agentId": binding.agent,
            "sessionKey": binding.session,
            "envHash": binding.env_hash,
        })
    });
    for (member, value) in [
        ("systemRunBinding", json!(bound)),
        // A plan is between the server and the node; the approver sees the command that it is of.
        ("systemRunPlan", Value::Null),
        ("nodeId", json!(binding.node_id.as_deref().map(display::visible))),
        ("warningText", json!(warning)),
        ("scope", Value::Null),
        ("allowedDecisions", json!(question.decisions)),
        ("sessionId", Value::Null),
        ("runId", json!(approval.run_id)),
        ("toolCallId", Value::Null),
    ] {
        put(&mut request, member, value);
    }
    request
}

fn put(object: &mut Value, member: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(member.to_owned(), value);
    }
}
