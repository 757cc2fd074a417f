//! What happens, pushed to operators by scope: questions and their ends, pairing requests and theirs.
//!
//! The source is the feed of events that the page reads, too. A slow operator is caught up from the log; one that
//! reads nothing at all is closed by the bound on its send buffer. Nothing is passed over in silence: what cannot be read is
//! read again, and where events are missing the connection ends, so that the operator lists what there is.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use countersign_domain::ApprovalId;
use countersign_ledger::events::{EventFilter, EventType, PairingOutcome, Publication, Start, StreamItem};

use super::{pairing, scope::OperatorScope, session::OperatorSession, shape};

use crate::bridge::PairingKind;

/// How often it is looked whether the token still opens anything.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause before the log or the ledger is asked again when it could not be read.
const RETRY: Duration = Duration::from_secs(1);
/// How often that is tried for one event.
const TRIES: u32 = 60;

/// What of an event about a question is of interest here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApprovalData {
    approval_id: ApprovalId,
}

/// What of an event about a pairing is of interest here.
///
/// Its `decision` has other words than that of a question, so the two are read apart.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PairingData {
    ts: i64,
    #[serde(default)]
    request_id: Option<String>,
    #[serde(default)]
    node_id: Option<String>,
    #[serde(default)]
    kind: Option<PairingKind>,
    #[serde(default)]
    decision: Option<PairingOutcome>,
}

/// Begins to tell an operator what happens, until their connection or their token ends.
pub(super) fn begin(session: &Arc<OperatorSession>) {
    let filter = EventFilter {
        types: Some(vec![
            EventType::ApprovalRequested,
            EventType::ApprovalResolved,
            EventType::NodePairingRequested,
            EventType::NodePairingResolved,
        ]),
        authority: session.principal().authority.clone(),
        ..EventFilter::default()
    };
    // Here and not in the task: what happens from now on is told, however late the task begins.
    let mut subscription = session.bridge.engine().ledger().subscribe(filter, Start::Now);
    let session = Arc::clone(session);
    let bridge = Arc::clone(&session.bridge);
    bridge.spawn(async move {
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            let next = tokio::select! {
                () = session.closed() => return,
                _tick = look.tick() => {
                    if session.is_live() {
                        continue;
                    }
                    session.end();
                    return;
                }
                next = subscription.next() => next,
            };
            let told = match next {
                Ok(Some(StreamItem::Event(event))) => tell_when_read(&session, &event).await,
                Ok(Some(StreamItem::Gap { .. })) => {
                    session.end_after_gap();
                    return;
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(error = %error, "the event log cannot be read");
                    tokio::time::sleep(RETRY).await;
                    true
                }
            };
            if !told {
                return;
            }
        }
    });
}

/// What came of telling of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It was told, or is nothing to tell.
    Done,
    /// Nobody is there any more.
    NobodyThere,
    /// What it is about cannot be read now.
    Unread,
}

impl Told {
    const fn by(is_sent: bool) -> Self {
        if is_sent { Self::Done } else { Self::NobodyThere }
    }
}

/// Tells of an event, again while what it is about cannot be read; false when nobody is there any more. What can never be
/// read holds up the other news for a while, and then ends the connection.
async fn tell_when_read(session: &OperatorSession, event: &Publication) -> bool {
    for _ in 0..TRIES {
        // The next look ends the connection of a token that opens nothing any more.
        if !session.is_live() {
            return true;
        }
        match tell(session, event).await {
            Told::Done => return true,
            Told::NobodyThere => return false,
            Told::Unread => tokio::select! {
                () = session.closed() => return false,
                () = tokio::time::sleep(RETRY) => {}
            },
        }
    }
    session.end_after_gap();
    false
}

/// Tells of an event those who may know of it.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other case, a later one too, is treated alike"
)]
async fn tell(session: &OperatorSession, event: &Publication) -> Told {
    let scope = match event.event_type {
        EventType::ApprovalRequested | EventType::ApprovalResolved => OperatorScope::Approvals,
        _ => OperatorScope::Pairing,
    };
    if !session.has(scope) {
        return Told::Done;
    }
    match event.event_type {
        EventType::ApprovalRequested | EventType::ApprovalResolved => match read::<ApprovalData>(event) {
            Some(data) => tell_of_approval(session, event.event_type, data.approval_id).await,
            None => Told::Done,
        },
        event_type => match (read::<PairingData>(event), event_type) {
            (Some(data), EventType::NodePairingRequested) => tell_of_request(session, data.request_id).await,
            (Some(data), _) => Told::by(tell_of_decision(session, data)),
            (None, _) => Told::Done,
        },
    }
}

/// What an event says; `None` with a line in the log when it says it in another form.
fn read<T: DeserializeOwned>(event: &Publication) -> Option<T> {
    match serde_json::from_str(&event.data) {
        Ok(data) => Some(data),
        Err(error) => {
            tracing::error!(seq = event.seq, error = %error, "a stored event has another form");
            None
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other case, a later one too, is treated alike"
)]
async fn tell_of_approval(session: &OperatorSession, event_type: EventType, id: ApprovalId) -> Told {
    let approval = match session
        .bridge
        .engine()
        .records()
        .approval(session.principal(), &id)
        .await
    {
        Ok(Some(approval)) => approval,
        Ok(None) => return Told::Done,
        Err(error) => {
            tracing::error!(approval.id = %id, error = %error, "an approval cannot be read");
            return Told::Unread;
        }
    };
    Told::by(match event_type {
        EventType::ApprovalRequested => {
            // One that has ended in between is told of by its end alone.
            !shape::is_open(&approval, session.now())
                || session.tell(
                    "exec.approval.requested",
                    shape::asked(session.protocol, &approval),
                )
        }
        _ => match shape::resolved(session.protocol, &approval) {
            Some(resolved) => session.tell("exec.approval.resolved", resolved),
            None => true,
        },
    })
}

async fn tell_of_request(session: &OperatorSession, id: Option<String>) -> Told {
    let pairings = match session.bridge.pairings().await {
        Ok(pairings) => pairings,
        Err(error) => {
            tracing::error!(error = %error, "the pairing requests cannot be read");
            return Told::Unread;
        }
    };
    let request = pairings
        .iter()
        .find(|request| Some(&request.request_id) == id.as_ref());
    Told::by(match request {
        None => true,
        Some(request) => match request.kind {
            PairingKind::Device => session.tell("device.pair.requested", pairing::device_request(request)),
            PairingKind::Commands => session.tell("node.pair.requested", pairing::surface_request(request)),
        },
    })
}

/// False when nobody is there any more.
fn tell_of_decision(session: &OperatorSession, data: PairingData) -> bool {
    let PairingData {
        ts,
        request_id,
        node_id,
        kind,
        decision,
    } = data;
    let decision = match decision {
        Some(PairingOutcome::Approve) => "approved",
        Some(PairingOutcome::Reject) => "rejected",
        // Nobody asked for that; there is no such news on this wire.
        Some(PairingOutcome::Removed) | None => return true,
    };
    let (event, member) = match kind {
        Some(PairingKind::Commands) => ("node.pair.resolved", "nodeId"),
        Some(PairingKind::Device) | None => ("device.pair.resolved", "deviceId"),
    };
    let mut payload = json!({ "requestId": request_id, "decision": decision, "ts": ts });
    if let Value::Object(members) = &mut payload {
        members.insert(member.to_owned(), json!(node_id));
    }
    session.tell(event, payload)
}
