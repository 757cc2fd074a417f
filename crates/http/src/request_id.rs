//! `X-Request-Id`: the name of a request in its answer, in our log and in the document of a fault.
//!
//! A caller may choose it, so only harmless text is kept: the log and the answer repeat it. Entry points: [`layers`]
//! and [`of`].

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Request},
};
use tower::util::MapRequestLayer;
use tower_http::request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};

use countersign_sys::clock::Ids;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id of a caller that is kept.
const LONGEST: usize = 128;

/// What gives a request its id and writes it on the answer.
pub(crate) type Layers = (
    MapRequestLayer<fn(Request<Body>) -> Request<Body>>,
    SetRequestIdLayer<NewIds>,
    PropagateRequestIdLayer,
);

/// Ids for requests that brought none.
#[derive(Debug, Clone)]
pub(crate) struct NewIds(Arc<dyn Ids>);

/// Keeps the id that a request brought when it is harmless, else makes one.
pub(crate) fn layers(ids: &Arc<dyn Ids>) -> Layers {
    (
        // First, since the next layer keeps what it finds.
        MapRequestLayer::new(without_odd_id),
        SetRequestIdLayer::new(REQUEST_ID, NewIds(Arc::clone(ids))),
        PropagateRequestIdLayer::new(REQUEST_ID),
    )
}

/// The id of a request that went through [`layers`].
pub(crate) fn of(request: &Request<Body>) -> HeaderValue {
    let id = request.extensions().get::<RequestId>();
    id.expect("the layers give every request an id")
        .header_value()
        .clone()
}

impl MakeRequestId for NewIds {
    fn make_request_id<B>(&mut self, _request: &Request<B>) -> Option<RequestId> {
        let id = self.0.random().to_string();
        let id = HeaderValue::try_from(id).expect("a UUID is printable ASCII");
        Some(RequestId::new(id))
    }
}

fn without_odd_id(mut request: Request<Body>) -> Request<Body> {
    let headers = request.headers_mut();
    if headers.get(REQUEST_ID).is_some_and(|id| !is_harmless(id)) {
        headers.remove(REQUEST_ID);
    }
    request
}

fn is_harmless(id: &HeaderValue) -> bool {
    let id = id.as_bytes();
    (1..=LONGEST).contains(&id.len())
        && id
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte))
}

#[cfg(test)]
mod tests {
    use axum::response::Response;
    use tower::{Layer as _, Service as _, service_fn};

    use super::*;
    use countersign_sys::clock::SystemIds;

    /// The id that a request gets, after its handler and its answer were found to agree about it.
    async fn given(brought: &[&str]) -> String {
        let mut request = Request::builder();
        for id in brought {
            request = request.header(REQUEST_ID, *id);
        }
        let ids: Arc<dyn Ids> = Arc::new(SystemIds);
        let handler = service_fn(async |request: Request<Body>| {
            let seen = of(&request).to_str().unwrap().to_owned();
            Ok::<_, std::convert::Infallible>(Response::new(seen))
        });
        let request = request.body(Body::empty()).unwrap();
        let Ok(answer) = layers(&ids).layer(handler).call(request).await;
        let told: Vec<_> = answer.headers().get_all(REQUEST_ID).iter().collect();
        assert_eq!(told, [answer.body()]);
        answer.into_body()
    }

    #[tokio::test]
    async fn a_harmless_id_is_kept_and_any_other_is_replaced() {
        let (longest, too_long) = ("x".repeat(LONGEST), "x".repeat(LONGEST + 1));
        for harmless in ["7", "req-7_a.b:c/d+e=", longest.as_str()] {
            assert_eq!(given(&[harmless]).await, harmless);
        }
        for odd in [
            &[][..],
            &[""],
            &["a b"],
            &["x\"y"],
            &["<script>"],
            &[too_long.as_str()],
            &["a b", "req-7"],
        ] {
            let made = given(odd).await;
            assert!(uuid::Uuid::parse_str(&made).is_ok(), "{odd:?}: {made}");
        }
        assert_eq!(given(&["req-7", "a b"]).await, "req-7", "the first counts");
        assert_ne!(given(&[]).await, given(&[]).await);
    }
}
