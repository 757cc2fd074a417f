//! Requests by route, status and duration.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::{
    extract::{MatchedPath, Request},
    http::StatusCode,
    middleware::Next,
    response::Response,
};
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};

/// Upper bounds of an answer, in seconds: from a probe to a call that waits for a command or a person.
const ANSWER_SECONDS: [f64; 14] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0,
];

/// What a request that no route took is counted as: its path is anybody's invention.
const NO_ROUTE: &str = "none";

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

type ByRoute = Family<[(&'static str, Arc<str>); 1], Histogram, fn() -> Histogram>;

/// The count of requests; cheap to clone, always the same count.
#[derive(Debug, Clone)]
pub(crate) struct Requests {
    pub(super) answered: Family<[(&'static str, Arc<str>); 2], Counter>,
    pub(super) seconds: ByRoute,
    pub(super) limited: Counter,
    /// The counters of routes that were asked for, so that counting takes one look and no allocation.
    routes: Arc<RwLock<HashMap<Arc<str>, Arc<Route>>>>,
}

#[derive(Debug)]
struct Route {
    classes: [Counter; CLASSES.len()],
    seconds: Histogram,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            answered: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(ANSWER_SECONDS)),
            limited: Counter::default(),
            routes: Arc::default(),
        }
    }
}

impl Requests {
    /// Counts an answer. `route` is the template that took the request; there are only so many.
    pub(crate) fn count(&self, route: Option<&MatchedPath>, status: StatusCode, took: Duration) {
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.limited.inc();
        }
        let route = self.route(route.map_or(NO_ROUTE, MatchedPath::as_str));
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = route.classes.get(class) {
            counter.inc();
        }
        route.seconds.observe(took.as_secs_f64());
    }

    fn route(&self, template: &str) -> Arc<Route> {
        let known = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = known.get(template) {
            return Arc::clone(route);
        }
        drop(known);
        let mut known = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        let name: Arc<str> = Arc::from(template);
        let route = known.entry(Arc::clone(&name)).or_insert_with(|| {
            Arc::new(Route {
                classes: CLASSES.map(|class| {
                    let labels = [("route", Arc::clone(&name)), ("status", Arc::from(class))];
                    self.answered.get_or_create_owned(&labels)
                }),
                seconds: self.seconds.get_or_create_owned(&[("route", Arc::clone(&name))]),
            })
        });
        Arc::clone(route)
    }
}

/// Notes on an answer which route made it, for the code that counts outside of the routes.
pub(crate) async fn note_route(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    if let Some(route) = route {
        response.extensions_mut().insert(route);
    }
    response
}
