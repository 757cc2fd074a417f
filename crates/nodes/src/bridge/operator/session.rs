//! One operator that is connected: what they may do, and the way to tell them something.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use serde_json::Value;
use tokio::sync::Semaphore;

use countersign_config::approvals::broker::ApproverGuard;
use countersign_domain::{Principal, UnixMillis};
use countersign_ledger::auth::Key;
use countersign_protocol::bridge::{Event, Protocol, Request, WireError};

use super::{
    method::{self, Method},
    refusal,
    scope::OperatorScope,
};

use crate::bridge::{Bridge, Outbox, token_quota::QuotaPermit};

/// Questions of one connection that may be unanswered at once. Some wait for a person.
const MOST_UNANSWERED: usize = 64;
/// Bytes that these questions may have together.
const MOST_UNANSWERED_BYTES: usize = 8 * 1024 * 1024;

/// What a client that wants to be an operator proved.
#[derive(Debug)]
pub(in crate::bridge) struct Grant {
    pub(super) key: Arc<Key>,
    pub(super) scopes: BTreeSet<OperatorScope>,
    pub(super) protocol: Protocol,
    /// Whether people answer there.
    pub(super) answers: bool,
    /// Their permit among the operators.
    pub(super) permit: QuotaPermit,
}

impl Grant {
    /// The scopes for `hello-ok`.
    pub(in crate::bridge) fn scopes(&self) -> Vec<String> {
        self.scopes
            .iter()
            .map(|scope| scope.as_str().to_owned())
            .collect()
    }

    /// The methods for `hello-ok`.
    pub(in crate::bridge) fn methods() -> Vec<&'static str> {
        Method::ALL.iter().map(|method| method.as_str()).collect()
    }

    /// The events for `hello-ok`.
    pub(in crate::bridge) const fn events() -> &'static [&'static str] {
        method::EVENTS
    }
}

#[derive(Debug)]
pub(in crate::bridge) struct OperatorSession {
    pub(super) bridge: Arc<Bridge>,
    pub(super) protocol: Protocol,
    key: Arc<Key>,
    scopes: BTreeSet<OperatorScope>,
    outbox: Outbox,
    /// Number of the last broadcast.
    seq: AtomicI64,
    pub(super) unanswered: Arc<Semaphore>,
    pub(super) unanswered_bytes: Arc<Semaphore>,
    /// Held for as long as they are connected.
    _permit: QuotaPermit,
    /// Tells the engine that an approver is there, for as long as they are.
    approver: Option<ApproverGuard>,
}

/// What a method came to.
pub(super) type Answer = Result<Value, WireError>;

impl OperatorSession {
    /// An operator who is about to be served.
    pub(super) fn new(bridge: &Arc<Bridge>, grant: Grant, outbox: Outbox) -> Arc<Self> {
        let Grant {
            key,
            scopes,
            protocol,
            answers,
            permit,
        } = grant;
        Arc::new(Self {
            approver: answers.then(|| bridge.engine().approvers().connected()),
            bridge: Arc::clone(bridge),
            protocol,
            key,
            scopes,
            outbox,
            seq: AtomicI64::new(0),
            unanswered: Arc::new(Semaphore::new(MOST_UNANSWERED)),
            unanswered_bytes: Arc::new(Semaphore::new(MOST_UNANSWERED_BYTES)),
            _permit: permit,
        })
    }

    /// Refuses unless the caller's scopes open it.
    pub(super) fn must(&self, opens: method::Opens) -> Result<(), WireError> {
        match opens.missing(&self.scopes) {
            None => Ok(()),
            Some(missing) => Err(refusal::missing_scope(self.protocol, missing, opens)),
        }
    }

    /// Refuses a token that is bound to agents.
    pub(super) fn must_reach_what_is_of_no_agent(&self) -> Result<(), WireError> {
        if self.principal().may_touch_what_is_of_no_agent() {
            Ok(())
        } else {
            Err(refusal::bound_token(self.protocol))
        }
    }

    /// Whether the caller holds a scope.
    pub(super) fn has(&self, scope: OperatorScope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whose rights are used: the token's own, so that its holder is the same party at every entry point.
    pub(super) fn principal(&self) -> &Principal {
        self.key.principal()
    }

    /// How many of the present approvers are this connection.
    pub(super) const fn own_approvers(&self) -> usize {
        self.approver.is_some() as usize
    }

    pub(super) fn now(&self) -> UnixMillis {
        self.bridge.engine().clock().now()
    }

    /// Whether the token still opens anything.
    pub(super) fn is_live(&self) -> bool {
        self.key.is_live(self.now())
    }

    /// Ends the connection of a token that opens nothing any more.
    pub(super) fn end(&self) {
        self.outbox.close(
            countersign_protocol::bridge::AUTH_CHANGED,
            "token revoked or expired",
        );
    }

    /// Ends the connection of an operator who missed events: one who comes back lists what there is.
    pub(super) fn end_after_gap(&self) {
        self.outbox.close(
            countersign_protocol::bridge::POLICY,
            "slow consumer: events were missed",
        );
    }

    /// Completes when the connection has ended.
    pub(super) async fn closed(&self) {
        self.outbox.closed().await;
    }

    /// Sends an event with the next number; false when nobody is there any more.
    pub(super) fn tell(&self, event: &str, payload: Value) -> bool {
        let mut event = Event::new(event, payload);
        event.seq = Some(self.seq.fetch_add(1, Ordering::Relaxed) + 1);
        self.outbox.send(event.into())
    }

    /// Sends an answer before the final one.
    pub(super) fn respond_early(&self, id: &str, payload: Value) {
        let request = Request::new(id, "", Value::Null);
        self.outbox.send(request.succeed(payload).into());
    }

    /// Sends the answer to a question.
    pub(super) fn respond(&self, id: &str, answer: Answer) {
        let request = Request::new(id, "", Value::Null);
        let response = match answer {
            Ok(payload) => request.succeed(payload),
            Err(error) => request.fail(error),
        };
        self.outbox.send(response.into());
    }
}
