//! The answer to everything that an operator asks: which method it is, who may use it, and what it comes to.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use countersign_protocol::{
    ByName,
    bridge::{Request, WireError},
};

use super::{
    approvals, documents, invoke,
    method::{self, About, Method},
    news, nodes, pairing, refusal,
    session::{Answer, Grant, OperatorSession},
};

use crate::bridge::{Bridge, Outbox};

impl OperatorSession {
    /// Begins to serve an operator whose `hello-ok` is on its way: from now on they hear what happens.
    pub(in crate::bridge) fn begin(bridge: &Arc<Bridge>, grant: Grant, outbox: Outbox) -> Arc<Self> {
        let session = Self::new(bridge, grant, outbox);
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
                () = session.closed() => None,
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
