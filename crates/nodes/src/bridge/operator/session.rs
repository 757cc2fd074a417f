//! One operator that is connected: what they may do, and the answer to everything that they ask.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    approvals, documents, invoke,
    method::{self, About, Method},
    news, nodes, pairing, refusal,
    scope::OperatorScope,
};
use countersign_config::approvals::broker::ApproverGuard;
use countersign_domain::{Principal, UnixMillis};
use countersign_ledger::auth::Key;
use countersign_protocol::{
    ByName,
    bridge::{Event, Protocol, Request, WireError},
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
    unanswered: Arc<Semaphore>,
    unanswered_bytes: Arc<Semaphore>,
    /// Held for as long as they are connected.
    _permit: QuotaPermit,
    /// Tells the engine that an approver is there, for as long as they are.
    approver: Option<ApproverGuard>,
}

/// What a method came to.
pub(super) type Answer = Result<Value, WireError>;

impl OperatorSession {
    /// Begins to serve an operator whose `hello-ok` is on its way: from now on they hear what happens.
    pub(in crate::bridge) fn begin(bridge: &Arc<Bridge>, grant: Grant, outbox: Outbox) -> Arc<Self> {
        let Grant {
            key,
            scopes,
            protocol,
            answers,
            permit,
        } = grant;
        let session = Arc::new(Self {
            approver: answers.then(|| bridge.engine().approver_connected()),
            bridge: Arc::clone(bridge),
            protocol,
            key,
            scopes,
            outbox,
            seq: AtomicI64::new(0),
            unanswered: Arc::new(Semaphore::new(MOST_UNANSWERED)),
            unanswered_bytes: Arc::new(Semaphore::new(MOST_UNANSWERED_BYTES)),
            _permit: permit,
        });
        news::begin(&session);
        session
    }

    /// Answers a question whose frame had so many bytes, now or when its answer comes. Never waits.
    pub(in crate::bridge) fn handle(self: &Arc<Self>, request: Request, bytes: usize) {
        let Request {
            id, method, params, ..
        } = request;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let place = Arc::clone(&self.unanswered).try_acquire_owned();
        let room = Arc::clone(&self.unanswered_bytes).try_acquire_many_owned(bytes);
        let (Ok(place), Ok(room)) = (place, room) else {
            let full = WireError::unavailable("too many requests are unanswered").retryable(None);
            self.respond(&id, Err(full));
            return;
        };
        let session = Arc::clone(self);
        self.bridge.spawn(async move {
            let answer = tokio::select! {
                // An operator who is gone waits for nothing any more.
                () = session.outbox.closed() => None,
                answer = session.answer(&id, &method, params) => Some(answer),
            };
            // Before the answer leaves, so that an operator who has it may ask again.
            drop((place, room));
            if let Some(answer) = answer {
                session.respond(&id, answer);
            }
        });
    }

    /// What does not count of the parameters is gone before anything is waited for.
    async fn answer(self: &Arc<Self>, id: &str, name: &str, params: Option<Value>) -> Answer {
        // A token may have been revoked since the last question.
        if !self.is_live() {
            self.end();
            return Err(WireError::invalid(
                "unauthorized: the token is not valid any more",
            ));
        }
        let Some(method) = Method::named(name) else {
            return Err(if method::is_of_nodes(name) {
                WireError::unauthorized_role("operator")
            } else {
                refusal::unknown_method(name)
            });
        };
        self.must(method.opens())?;
        if method.about() == About::NoAgent {
            self.must_reach_what_is_of_no_agent()?;
        }
        let params = Params {
            method,
            value: params,
        };
        match method {
            Method::Health => Ok(nodes::health(self).await),
            Method::Status => nodes::status(self).await,
            Method::NodeList => nodes::list(self).await,
            Method::NodeDescribe => nodes::describe(self, params.read()?).await,
            Method::NodeRename => nodes::rename(self, params.read()?).await,
            Method::NodeInvoke => invoke::invoke(self, params.read()?).await,
            Method::NodePairList => pairing::list_nodes(self).await,
            Method::NodePairApprove => pairing::approve_node(self, params.read()?).await,
            Method::NodePairReject => pairing::reject_node(self, params.read()?).await,
            Method::DevicePairList => pairing::list_devices(self).await,
            Method::DevicePairApprove => pairing::approve_device(self, params.read()?).await,
            Method::DevicePairReject => pairing::reject_device(self, params.read()?).await,
            Method::DevicePairRemove => pairing::remove(self, params.read()?).await,
            Method::DevicePairRename => pairing::rename(self, params.read()?).await,
            Method::DeviceTokenRotate => pairing::rotate_token(self, params.read()?).await,
            Method::DeviceTokenRevoke => pairing::revoke_token(self, params.read()?).await,
            Method::ApprovalsGet => documents::get(self),
            Method::ApprovalsSet => documents::set(self, params.read()?).await,
            Method::ApprovalsNodeGet => documents::node_get(self, params.read()?).await,
            Method::ApprovalsNodeSet => documents::node_set(self, params.read()?).await,
            Method::ApprovalRequest => approvals::request(self, id, params.read()?).await,
            Method::ApprovalWaitDecision => approvals::wait(self, params.read()?).await,
            Method::ApprovalResolve => approvals::resolve(self, params.read()?).await,
            Method::ApprovalGet => approvals::get(self, params.read()?).await,
            Method::ApprovalList => approvals::list(self).await,
        }
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

    fn respond(&self, id: &str, answer: Answer) {
        let request = Request::new(id, "", Value::Null);
        let response = match answer {
            Ok(payload) => request.succeed(payload),
            Err(error) => request.fail(error),
        };
        self.outbox.send(response.into());
    }
}

/// The parameters of a question, not yet read.
struct Params {
    method: Method,
    value: Option<Value>,
}

impl Params {
    /// Reads them. Members that this server does not know are the product's own matters and change nothing here.
    fn read<T: DeserializeOwned>(self) -> Result<T, WireError> {
        let Self { method, value } = self;
        let given = match value {
            None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
            Some(value) => value,
        };
        let read = serde_json::from_value(given).map(|ByName(members)| members);
        read.map_err(|error| refusal::params(method.as_str(), &error.to_string()))
    }
}
