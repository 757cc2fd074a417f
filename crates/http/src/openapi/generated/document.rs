//! The document itself: the operations and schemas of the routes, the refusals of all operations, the credentials.

use std::sync::LazyLock;

use axum::http::StatusCode;
use utoipa::{
    OpenApi as _, PartialSchema as _,
    openapi::{
        ContentBuilder, OpenApi, PathItem, Ref, RefOr, Response, ResponseBuilder,
        path::Operation,
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use countersign_domain::{OutputStream, ProcessStatus};
use countersign_wire::{
    approval::ApprovalView,
    problem::{FieldError, NodeCandidate, ProblemBody},
    words::RunStatusName,
};

use super::{answers, examples, schemas};

use crate::{
    extract::{AgentScope, IfMatch, Moment, NodeName, PairingName, ProcessSessionName},
    problem::Code,
    routes,
    schema::ApprovalFilterName,
};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "countersign",
        description = "Decides where and whether an agent's command runs, asks a person when it must, runs it \
                       exactly once and keeps the record.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "/", description = "The server that answers with this document.")),
    tags(
        (name = "exec", description = "Running commands."),
        (name = "process", description = "What goes on in the background."),
        (name = "sessions", description = "What a session overrides, says in chat, and is told."),
        (name = "runs", description = "What was asked and what became of it."),
        (name = "approvals", description = "What a person is asked, and their answer."),
        (name = "policy", description = "The effective policy of each agent, and why."),
        (name = "allowlist", description = "What runs without asking."),
        (name = "nodes", description = "Other machines that run commands, and those that want to."),
        (name = "events", description = "What happens, as it happens."),
        (name = "stop", description = "Stopping everything at once, and letting it go on."),
        (name = "audit", description = "The record that nobody can quietly change."),
        (name = "tokens", description = "Who may do what."),
        (name = "pages", description = "The approvals page."),
        (name = "sign-in", description = "People with a browser."),
        (name = "probes", description = "For machines that watch, and tools that read contracts."),
    ),
    // Only parameters use these, and parameters register nothing.
    components(schemas(
        AgentScope,
        ApprovalFilterName,
        ApprovalView,
        IfMatch,
        Moment,
        NodeName,
        OutputStream,
        PairingName,
        ProcessSessionName,
        ProcessStatus,
        RunStatusName
    )),
)]
struct Contract;

/// A refusal of `POST /tools/invoke`.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "only describes what `Problem::render_for_tool` writes")]
pub(crate) struct ToolRefusal {
    /// Always false.
    ok: bool,
    error: ToolError,
}

/// Why a tool was not called. It has the members of the problem document besides.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "only describes what `Problem::render_for_tool` writes")]
pub(crate) struct ToolError {
    /// `tool_error`, `not_found` or `unauthorized`.
    r#type: String,
    message: String,
    code: String,
}

static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let api = routes::router().describe();
    let mut text = render(api);
    text.push('\n');
    text
});

/// The document as JSON text with a newline at its end.
pub fn document() -> &'static str {
    &DOCUMENT
}

fn render(routes: OpenApi) -> String {
    let mut api = Contract::openapi();
    api.merge(routes);
    let components = api.components.get_or_insert_default();
    let problem = <ProblemBody as utoipa::PartialSchema>::schema();
    components.schemas.insert("Problem".to_owned(), problem);
    components
        .schemas
        .insert("FieldError".to_owned(), FieldError::schema());
    for (name, schema) in [
        ("NodeCandidate", NodeCandidate::schema()),
        ("ToolRefusal", <ToolRefusal as utoipa::PartialSchema>::schema()),
        ("ToolError", <ToolError as utoipa::PartialSchema>::schema()),
    ] {
        components.schemas.insert(name.to_owned(), schema);
    }
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    for (name, scheme) in browser_schemes() {
        components.add_security_scheme(name, scheme);
    }
    for (path, item) in &mut api.paths.paths {
        for operation in operations(item) {
            add_refusals(path, operation);
        }
    }
    let mut document = serde_json::to_value(&api).unwrap_or_default();
    schemas::complete(&mut document);
    answers::complete(&mut document);
    examples::add(&mut document);
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

/// A browser that is signed in sends both with every request; together they stand for its token.
fn browser_schemes() -> [(&'static str, SecurityScheme); 2] {
    let cookie = ApiKeyValue::with_description(
        "countersign_session",
        "The cookie of a browser that is signed in. Together with `X-CSRF-Token` it opens what the token opens \
         that the browser stands for; alone it opens nothing.",
    );
    let second = ApiKeyValue::with_description("X-CSRF-Token", "The `csrfToken` of the login.");
    [
        ("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie))),
        ("csrf", SecurityScheme::ApiKey(ApiKey::Header(second))),
    ]
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ]
    .into_iter()
    .flatten()
}

/// Refusals that do not depend on what an operation does, and the body of those that do.
fn add_refusals(path: &str, operation: &mut Operation) {
    let mut statuses = vec![
        Code::MisdirectedRequest,
        Code::RateLimited,
        Code::Internal,
        Code::InvalidRequest,
    ];
    if operation.security.is_some() {
        statuses.extend([
            Code::Unauthorized,
            Code::Forbidden,
            Code::StorageUnavailable,
            Code::StorageFull,
            Code::NotAcceptable,
        ]);
    }
    if operation.request_body.is_some() {
        statuses.extend([Code::BodyTooLarge, Code::UnsupportedMediaType]);
    }
    if path.contains('{') {
        statuses.push(Code::NotFound);
    }
    let is_short = ["/v1/runs/{", "/v1/approvals/{", "/v1/tokens/{"]
        .iter()
        .any(|begin| path.starts_with(begin));
    if is_short || path.ends_with("/{entryId}") {
        statuses.push(Code::IdAmbiguous);
    }
    for code in statuses {
        let status = code.status().as_str().to_owned();
        let generic = || RefOr::T(Response::new(code.title()));
        operation
            .responses
            .responses
            .entry(status)
            .or_insert_with(generic);
    }
    for (status, response) in &mut operation.responses.responses {
        let status = status.parse().unwrap_or(StatusCode::OK);
        let is_refusal = status.is_client_error() || status.is_server_error();
        if let RefOr::T(response) = response
            && is_refusal
            && response.content.is_empty()
        {
            let (schema, media_type) = if path == routes::TOOLS_PATH {
                ("ToolRefusal", "application/json")
            } else {
                ("Problem", "application/problem+json")
            };
            let body = ContentBuilder::new()
                .schema(Some(Ref::from_schema_name(schema)))
                .build();
            let described = ResponseBuilder::new()
                .description(response.description.clone())
                .content(media_type, body);
            *response = described.build();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_checked_in_contract_is_current() {
        let checked_in = include_str!("../../../../../openapi/openapi.json");
        assert!(
            checked_in == document(),
            "stale: `cargo run --features test-hooks -- openapi > openapi/openapi.json`"
        );
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let contract: serde_json::Value = serde_json::from_str(document()).unwrap();
        let names = contract["components"]["schemas"].as_object().unwrap();
        for reference in document().split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(names.contains_key(name), "{name}");
        }
    }

    #[test]
    fn only_probes_are_open_and_every_operation_has_a_name_of_its_own() {
        let mut api = routes::router().describe();
        let mut names = BTreeSet::new();
        let mut open = Vec::new();
        for (path, item) in &mut api.paths.paths {
            for operation in operations(item) {
                let name = operation.operation_id.clone().unwrap();
                assert!(names.insert(name.clone()), "{name} is the name of two operations");
                if operation.security.is_none() {
                    open.push(path.clone());
                }
            }
        }
        assert_eq!(
            open,
            [
                "/auth/login",
                "/docs",
                "/healthz",
                "/openapi.json",
                "/readyz",
                "/v1/errors.json",
                "/v1/version",
            ]
        );
    }
}
