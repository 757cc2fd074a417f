//! The HTTP service: the outermost function, one request in, one finished answer out.
//!
//! Layers of `tower-http` give the request its id, mark its secrets, set headers of every answer and catch a panic of the
//! routes. Between them our own code asks [`super::admission`], calls the routes and writes refusals; `ARCHITECTURE.md`
//! says which other layers do not fit. Every run passes here, so the layers are laid around a borrowed function: a
//! finished service would be cloned for each request, and its future boxed. It must never answer without the admission.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::MatchedPath,
    http::{HeaderMap, HeaderValue, Method, Request, Uri, header},
    middleware,
    response::{IntoResponse, Response},
};
use tower::{Layer as _, Service as _, service_fn};
use tower_http::{
    catch_panic::CatchPanicLayer, sensitive_headers::SetSensitiveRequestHeadersLayer,
    set_header::SetResponseHeaderLayer,
};
use tracing::Instrument as _;

use countersign_sys::process::monotonic;

use crate::{
    admission::{AdmissionMiddleware, Notes, Pass, SECOND_SECRET},
    assets, compression, cors,
    metrics::{self, Connections, Requests},
    page_headers::protect_page,
    peer::Peer,
    problem::Problem,
    request_id, routes,
    state::AppState,
    trace::TRACEPARENT,
};

/// The layers around the admission, the outermost first.
type Layers = (
    request_id::Layers,
    SetSensitiveRequestHeadersLayer,
    SetResponseHeaderLayer<HeaderValue>,
    SetResponseHeaderLayer<HeaderValue>,
);

/// Answers requests; cheap to clone.
#[derive(Debug, Clone)]
pub struct HttpService {
    layers: Arc<Layers>,
    admission: Arc<AdmissionMiddleware>,
    routes: Router,
    requests: Requests,
    connections: Connections,
}

/// The routes of the whole API, which need nothing of a server. With their descriptions they take so long to make that a
/// server that starts makes them beside everything else.
#[derive(Debug)]
pub struct Routes(Router<AppState>);

impl Routes {
    /// Makes them: milliseconds of work.
    pub fn make() -> Self {
        let routes = routes::router().serve();
        Self(routes.method_not_allowed_fallback(routes::unknown_method))
    }
}

impl HttpService {
    /// The service of the whole API.
    pub fn new(state: &AppState, Routes(routes): Routes) -> Self {
        Self::counted(state, routes)
    }

    /// The service of the listener for metrics, which serves nothing else.
    pub fn of_metrics(state: &AppState) -> Self {
        let routes = routes::metrics_alone().method_not_allowed_fallback(routes::unknown_method);
        Self::counted(state, routes)
    }

    fn counted(state: &AppState, routes: Router<AppState>) -> Self {
        let routes = routes
            .route_layer(middleware::from_fn(metrics::note_route))
            .with_state(state.clone());
        Self {
            requests: state.metrics().requests(),
            connections: state.metrics().connections(),
            ..Self::over(state.admission(), routes)
        }
    }

    /// With counts of its own that nobody reads.
    pub(crate) fn over(admission: AdmissionMiddleware, routes: Router) -> Self {
        Self {
            layers: Arc::new(layers(&admission)),
            admission: Arc::new(admission),
            routes,
            requests: Requests::default(),
            connections: Connections::default(),
        }
    }

    /// Where its connections are counted.
    pub(crate) const fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Answers one request.
    ///
    /// # Cancel safety
    /// Dropping the future drops the handler: that is how a client that leaves ends its foreground run.
    pub(crate) async fn answer(&self, peer: Peer, request: Request<Body>) -> Response {
        let trace = self.admission.trace(request.headers());
        let passed =
            service_fn(move |request| async move { Ok::<_, Infallible>(self.pass(peer, request).await) });
        let work = self.layers.layer(passed).call(request);
        let Some(trace) = trace else {
            let Ok(response) = work.await;
            return response;
        };
        let Ok(mut response) = work.instrument(trace.span()).await;
        if let Some(value) = trace.header() {
            response.headers_mut().insert(TRACEPARENT, value);
        }
        response
    }

    async fn pass(&self, peer: Peer, mut request: Request<Body>) -> Response {
        let began = monotonic();
        let uri = request.uri().clone();
        let method = request.method().clone();
        let request_id = request_id::of(&request);
        let takes_gzip = assets::takes_gzip(request.headers());
        let mut notes = Notes::default();
        let response = match self.admission.admit(peer, &mut request, &mut notes).await {
            Ok(Pass::Route) => self.route(request, &request_id).await,
            Ok(Pass::Preflight) => cors::preflight(),
            Err(refused) => refused.into_response(),
        };
        let route = response.extensions().get::<MatchedPath>();
        let took = monotonic().saturating_sub(began);
        self.requests.count(route, response.status(), took);
        let response = finish(response, &uri, &request_id, notes);
        let response = if method == Method::GET {
            compression::of_list(response, takes_gzip).await
        } else {
            response
        };
        // No path and no query: they may carry what the caller searched for.
        tracing::debug!(%method, status = response.status().as_u16(), "answered");
        response
    }

    /// A panic is a bug, but it must not take the connection's other requests with it.
    async fn route(&self, request: Request<Body>, request_id: &HeaderValue) -> Response {
        let panicked = CatchPanicLayer::custom(|_cause| {
            tracing::error!(?request_id, "a handler panicked");
            Problem::internal().into_response()
        });
        let Ok(response) = panicked.layer(self.routes.clone()).call(request).await;
        response.map(Body::new)
    }
}

fn layers(admission: &AdmissionMiddleware) -> Layers {
    (
        request_id::layers(admission.ids()),
        SetSensitiveRequestHeadersLayer::new([header::AUTHORIZATION, header::COOKIE, SECOND_SECRET]),
        SetResponseHeaderLayer::overriding(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        SetResponseHeaderLayer::if_not_present(header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    )
}

fn is_page(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

fn finish(mut response: Response, uri: &Uri, request_id: &HeaderValue, notes: Notes) -> Response {
    if let Some(problem) = Problem::take(&mut response) {
        let request_id_text = request_id.to_str().unwrap_or_default();
        // The router added it to the refusal.
        let problem = problem.allowing(response.headers_mut().remove(header::ALLOW));
        response = if uri.path() == routes::TOOLS_PATH {
            problem.render_for_tool(request_id_text)
        } else {
            problem.render(uri.path(), request_id_text)
        };
    }
    let headers = response.headers_mut();
    notes.write(headers);
    // Here and not at each route, so that no page can leave without them.
    if is_page(headers) {
        protect_page(headers);
    }
    response
}
