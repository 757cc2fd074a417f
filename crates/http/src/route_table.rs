//! The table of all routes: what serves them, and what describes them.
//!
//! Both come from one line a path, so that the contract has what is served. Only builds for tests have the descriptions.

use axum::{
    Router,
    handler::Handler,
    routing::{MethodFilter, MethodRouter},
};
use utoipa::openapi::HttpMethod;
#[cfg(any(test, feature = "test-hooks"))]
use utoipa::openapi::OpenApi;
use utoipa_axum::PathItemExt as _;
#[cfg(any(test, feature = "test-hooks"))]
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::state::AppState;

/// The operations of one path. [`routes!`](crate::route_table::routes) makes it of their handlers.
pub(crate) struct Operations {
    pub(crate) path: fn() -> String,
    pub(crate) serve: fn() -> MethodRouter<AppState>,
    #[cfg(any(test, feature = "test-hooks"))]
    pub(crate) describe: fn() -> UtoipaMethodRouter<AppState>,
}

/// Handlers of one path, each with the notes of `utoipa::path` above it, as [`Operations`].
macro_rules! routes {
    ($first:ident $(:: $of_first:ident)* $(, $more:ident $(:: $of_more:ident)*)* $(,)?) => {
        $crate::route_table::Operations {
            path: || utoipa_axum::routes!(@path [path()] of $first $(:: $of_first)*),
            serve: || {
                let router = axum::routing::MethodRouter::new();
                let methods = utoipa_axum::routes!(@path [methods()] of $first $(:: $of_first)*);
                let router = router.on($crate::route_table::filter(&methods), $first $(:: $of_first)*);
                $(
                    let methods = utoipa_axum::routes!(@path [methods()] of $more $(:: $of_more)*);
                    let router = router.on($crate::route_table::filter(&methods), $more $(:: $of_more)*);
                )*
                router
            },
            #[cfg(any(test, feature = "test-hooks"))]
            describe: || utoipa_axum::routes!($first $(:: $of_first)* $(, $more $(:: $of_more)*)*),
        }
    };
}
pub(crate) use routes;

/// The methods that a handler answers.
///
/// # Panics
///
/// When there is none: `utoipa::path` takes no handler without one.
pub(crate) fn filter(methods: &[HttpMethod]) -> MethodFilter {
    let filters = methods.iter().map(HttpMethod::to_method_filter);
    filters.reduce(MethodFilter::or).expect("a handler has a method")
}

/// Routes with descriptions, and such that the contract does not have.
#[derive(Default)]
pub(crate) struct RouteTable {
    described: Vec<Operations>,
    others: Router<AppState>,
}

impl RouteTable {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds the operations of a path.
    pub(crate) fn routes(mut self, operations: Operations) -> Self {
        self.described.push(operations);
        self
    }

    /// Adds a path that the contract does not have.
    pub(crate) fn route(mut self, path: &str, methods: MethodRouter<AppState>) -> Self {
        self.others = self.others.route(path, methods);
        self
    }

    /// Adds what serves every path that has no route.
    pub(crate) fn fallback<T: 'static>(mut self, handler: impl Handler<T, AppState>) -> Self {
        self.others = self.others.fallback(handler);
        self
    }

    /// Adds all of another table.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.described.extend(other.described);
        self.others = self.others.merge(other.others);
        self
    }

    /// The paths that the contract has, in the form of axum.
    pub(crate) fn paths(&self) -> impl Iterator<Item = String> {
        self.described.iter().map(|operations| (operations.path)())
    }

    /// What serves the requests.
    pub(crate) fn serve(self) -> Router<AppState> {
        self.described
            .into_iter()
            .fold(self.others, |router, operations| {
                router.route(&(operations.path)(), (operations.serve)())
            })
    }

    /// What describes the requests: milliseconds of work.
    #[cfg(any(test, feature = "test-hooks"))]
    pub(crate) fn describe(self) -> OpenApi {
        let routes = self.described.into_iter();
        let described = routes.fold(OpenApiRouter::new(), |router, operations| {
            router.routes((operations.describe)())
        });
        described.into_openapi()
    }
}
