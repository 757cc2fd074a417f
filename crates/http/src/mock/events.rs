//! The events of a mock, in the forms of a server's.

use serde_json::{Map, Value, json};

use countersign_domain::{AgentId, RunId, RunStatus, SessionKey, UnixMillis};
use countersign_wire::{actor::ActorBody, run::duration_ms};

use super::{
    run::{PERSON, PlayedRun},
    script::Answer,
};
use crate::links::Links;

/// An event with what it is about.
#[derive(Debug, Clone)]
pub(super) struct PlayedEvent {
    pub(super) seq: u64,
    pub(super) kind: &'static str,
    pub(super) at: UnixMillis,
    pub(super) run: RunId,
    agent: AgentId,
    session: SessionKey,
    pub(super) data: Value,
}

/// Which events are wanted.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) types: Vec<String>,
    pub(super) agent: Option<AgentId>,
    pub(super) session: Option<SessionKey>,
    pub(super) run: Option<RunId>,
}

impl Wanted {
    pub(super) fn takes(&self, event: &PlayedEvent) -> bool {
        let Self {
            types,
            agent,
            session,
            run,
        } = self;
        (types.is_empty() || types.iter().any(|prefix| event.kind.starts_with(prefix.as_str())))
            && agent.as_ref().is_none_or(|agent| *agent == event.agent)
            && session.as_ref().is_none_or(|session| *session == event.session)
            && run.as_ref().is_none_or(|run| *run == event.run)
    }
}

/// What happened to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened {
    Requested,
    Asked,
    Answered,
    Denied,
    Started,
    Finished,
}

/// The event about a run as it is now.
pub(super) fn event(
    seq: u64,
    played: &PlayedRun,
    happened: Happened,
    (now, links): (UnixMillis, &Links),
) -> PlayedEvent {
    let run = &played.run;
    let command = run.command.to_short_text();
    let asker = ActorBody::from(run.requested_by.clone());
    let (kind, members) = match happened {
        Happened::Requested => {
            let verdict = run.decision.map_or("ask", |decision| decision.verdict.as_str());
            let members =
                json!({"command": command, "cwd": run.cwd, "requestedBy": asker, "verdict": verdict});
            ("exec.requested", members)
        }
        Happened::Asked => {
            let question = played.question.as_ref();
            let members = json!({
                "slug": question.map(|question| question.id.slug()),
                "approvalUrl": question.map(|question| links.approval(&question.id)),
                "statusUrl": links.run(&run.id),
                "command": command, "cwd": run.cwd, "security": run.security, "ask": run.ask,
                "createdAtMs": run.created_at,
                "expiresAtMs": question.map(|question| question.expires_at),
                "approvalsRequired": 1,
            });
            ("exec.approval.requested", members)
        }
        Happened::Answered => ("exec.approval.resolved", answered(played)),
        Happened::Denied => ("exec.denied", json!({"reason": run.reason, "detail": run.detail})),
        Happened::Started => (
            "exec.started",
            json!({"startedAtMs": run.started_at, "sessionId": run.session_id, "diverted": false}),
        ),
        Happened::Finished => {
            let members = json!({
                "status": run.status.api_name(), "exitCode": run.exit_code, "timedOut": run.timed_out,
                "durationMs": duration_ms(run).unwrap_or(0), "truncated": run.truncated,
                "outputBytes": run.output_bytes, "tail": run.tail, "reason": run.reason,
            });
            ("exec.finished", members)
        }
    };
    let mut data = Map::new();
    let common = json!({
        "seq": seq, "ts": now, "atMs": now, "type": kind, "runId": run.id, "approvalId": run.approval_id,
        "agentId": run.agent, "sessionKey": run.session, "host": run.host, "mock": true,
    });
    for members in [common, members] {
        if let Value::Object(members) = members {
            // A member without a value is left out.
            data.extend(members.into_iter().filter(|(_, value)| !value.is_null()));
        }
    }
    PlayedEvent {
        seq,
        kind,
        at: now,
        run: run.id.clone(),
        agent: run.agent.clone(),
        session: run.session.clone(),
        data: Value::Object(data),
    }
}

fn answered(played: &PlayedRun) -> Value {
    let person = ActorBody {
        kind: countersign_domain::ActorKind::Token.into(),
        id: "mock-person".to_owned(),
        name: PERSON.to_owned(),
    };
    let by_person = |status, decision| {
        json!({"status": status, "decision": decision, "resolvedBy": person,
            "reason": played.ruling.reason, "terminalReason": "user"})
    };
    match (played.run.status, played.run.reason) {
        (RunStatus::Cancelled, _) => json!({"status": "cancelled", "terminalReason": "run-aborted"}),
        (RunStatus::Denied, Some(countersign_domain::Reason::ApprovalTimeout)) => {
            json!({"status": "expired", "terminalReason": "timeout"})
        }
        (RunStatus::Denied, _) => by_person("denied", "deny"),
        _ => by_person("allowed", "allow-once"),
    }
}

/// What happens when a run begins.
pub(super) const fn beginning(answer: Answer) -> &'static [Happened] {
    match answer {
        Answer::Allow | Answer::Deny | Answer::Expire => &[Happened::Requested, Happened::Asked],
        Answer::Run | Answer::Lost => &[Happened::Requested],
        Answer::Refuse => &[Happened::Requested, Happened::Denied],
    }
}
