//! Approvals and their ends in the product's shapes (`bridge.md` 10).

use serde_json::{Value, json};

use crate::{
    domain::{
        Approval, ApprovalDecision, ApprovalState, ApprovalStatus, Bound, Command, TerminalReason, UnixMillis,
    },
    protocol::bridge::Protocol,
};

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
    json!({
        "id": approval.id,
        "commandText": binding.command.to_text(),
        "commandPreview": null,
        "allowedDecisions": approval.card.allowed_decisions,
        "host": binding.host,
        "nodeId": binding.node_id,
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

fn request(protocol: Protocol, approval: &Approval) -> Value {
    let card = &approval.card;
    let binding = &card.binding;
    let mut request = json!({
        "command": binding.command.to_text(),
        "cwd": binding.cwd,
        "host": binding.host,
        "security": card.security,
        "ask": card.ask,
        "agentId": binding.agent,
        "resolvedPath": card.resolved_path,
        "sessionKey": binding.session,
    });
    if protocol == Protocol::Three {
        return request;
    }
    let argv = match (&binding.bound, &binding.command) {
        (Bound::Exec { argv, .. }, _) | (_, Command::Argv(argv)) => Some(argv),
        _ => None,
    };
    let bound = argv.map(|argv| {
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
        // A plan is between the server and the node; whoever answers sees the command that it is of.
        ("systemRunPlan", Value::Null),
        ("nodeId", json!(binding.node_id)),
        ("warningText", Value::Null),
        ("scope", Value::Null),
        ("allowedDecisions", json!(card.allowed_decisions)),
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
