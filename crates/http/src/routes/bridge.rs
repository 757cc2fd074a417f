//! The way from HTTP to the Bridge: the upgrade to a WebSocket. The admission has checked `Host` and `Origin` by now; who
//! connects is asked over the WebSocket.

use std::sync::Arc;

use axum::{
    Extension,
    body::Body,
    extract::{FromRef as _, State},
    http::{HeaderMap, Request, header},
    response::Response,
    routing::get,
};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::server::create_response;

use countersign_ledger::auth::Throttle;
use countersign_nodes::bridge::Caller;

use crate::{
    admission::RequestSource,
    listen::KeptPlace,
    problem::{Code, Problem},
    route_table::RouteTable,
    state::AppState,
};

/// Not part of the contract's document: what is spoken there is not HTTP.
pub(super) fn router() -> RouteTable {
    RouteTable::new().route("/bridge", get(connect))
}

/// Whether a request for the page is one for the Bridge.
pub(super) fn is_meant(state: &AppState, headers: &HeaderMap) -> bool {
    state.engine().settings().current().server.bridge.enabled && headers.contains_key(header::UPGRADE)
}

async fn connect(
    State(state): State<AppState>,
    Extension(origin): Extension<RequestSource>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    if !state.engine().settings().current().server.bridge.enabled {
        return Err(Problem::not_found("resource"));
    }
    upgrade(&state, &origin, request)
}

/// Answers with the upgrade; what comes after is the Bridge's.
pub(super) fn upgrade(
    state: &AppState,
    origin: &RequestSource,
    mut request: Request<Body>,
) -> Result<Response, Problem> {
    if state.bridge().is_stopping() {
        return Err(Problem::new(Code::ShuttingDown, "the server stops"));
    }
    let upgraded = hyper::upgrade::on(&mut request);
    let place = request.extensions_mut().remove::<KeptPlace>();
    let (parts, _body) = request.into_parts();
    let answer = create_response(&Request::from_parts(parts, ()))
        .map_err(|_refused| Problem::new(Code::InvalidRequest, "this resource expects a WebSocket"))?;
    let caller = Caller {
        address: origin.address,
        throttle: Arc::<Throttle>::from_ref(state),
        place: place.map(|place| Box::new(place) as _),
    };
    let bridge = Arc::clone(state.bridge());
    state.bridge().spawn(async move {
        match upgraded.await {
            Ok(stream) => bridge.serve(TokioIo::new(stream), caller).await,
            // A client that leaves before the answer was written is no fault.
            Err(error) => tracing::debug!(%error, "a connection ended before its upgrade"),
        }
    });
    Ok(answer.map(|()| Body::empty()))
}
