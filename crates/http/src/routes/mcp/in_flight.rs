//! The requests that are being worked on, so that a notification on another connection can take one back.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::session::Session;

/// Requests under way, by caller, session and request id. There are as many as connections at most.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<RequestName, CancellationToken>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RequestName {
    caller: String,
    session: Session,
    /// As JSON: the number 1 and the string "1" are two ids.
    id: String,
}

/// The permit of one request, held until it is answered.
#[derive(Debug)]
pub(super) struct InFlightPermit {
    in_flight: Arc<InFlight>,
    name: RequestName,
    cancelled: CancellationToken,
}

impl InFlight {
    pub(super) fn enter(self: &Arc<Self>, caller: &str, session: &Session, id: &Value) -> InFlightPermit {
        let name = RequestName::new(caller, session, id);
        let cancelled = CancellationToken::new();
        self.lock().insert(name.clone(), cancelled.clone());
        InFlightPermit {
            in_flight: Arc::clone(self),
            name,
            cancelled,
        }
    }

    /// Takes a request of the same caller and session back; nothing when there is none.
    pub(super) fn cancel(&self, caller: &str, session: &Session, id: &Value) {
        if let Some(cancelled) = self.lock().get(&RequestName::new(caller, session, id)) {
            cancelled.cancel();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RequestName, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestName {
    fn new(caller: &str, session: &Session, id: &Value) -> Self {
        Self {
            caller: caller.to_owned(),
            session: session.clone(),
            id: id.to_string(),
        }
    }
}

impl InFlightPermit {
    /// Ends when the request is taken back.
    pub(super) fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.in_flight.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_request_is_taken_back_by_its_own_caller_and_session_only() {
        let session = |number| Session::open(&Value::Null, Uuid::from_u128(number));
        let in_flight = Arc::new(InFlight::default());
        let permit = in_flight.enter("a", &session(1), &json!(1));
        for (caller, number, id) in [("b", 1, json!(1)), ("a", 2, json!(1)), ("a", 1, json!("1"))] {
            in_flight.cancel(caller, &session(number), &id);
            assert!(!permit.cancelled().is_cancelled(), "{caller} {number} {id}");
        }
        in_flight.cancel("a", &session(1), &json!(1));
        assert!(permit.cancelled().is_cancelled());
        drop(permit);
        assert!(in_flight.lock().is_empty());
    }
}
