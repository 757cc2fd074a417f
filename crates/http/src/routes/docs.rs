//! The readable reference: the contract, the error catalogue and the events as one static page.
//!
//! The build makes it (`build.rs`) from `openapi/openapi.json`, `docs/errors.md` and `reference/page.html`, and the tests
//! compare these with the program. Every text is escaped, the one script is a search of the page itself, and nothing is
//! fetched from elsewhere. The `type` of a problem document leads to an anchor here.

use std::sync::LazyLock;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};

use crate::{
    assets::takes_gzip,
    packed::unpack,
    route_table::{RouteTable, routes},
};

/// The page as gzip. It is the same for everybody, so that its length says nothing.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/reference.html.gz"));

/// The page for those who do not take gzip.
static PAGE: LazyLock<String> = LazyLock::new(|| unpack(PACKED));

pub(super) fn router() -> RouteTable {
    RouteTable::new().routes(routes!(docs))
}

/// This contract for people, with the error catalogue and the events.
#[utoipa::path(
    get, path = "/docs", tag = "probes", operation_id = "get_docs",
    responses((status = OK, description = "A page.", content_type = "text/html", body = String)),
)]
async fn docs(request: HeaderMap) -> Response {
    let is_packed = takes_gzip(&request);
    let body = if is_packed { PACKED } else { PAGE.as_bytes() };
    let mut response = Response::new(Body::from(Bytes::from_static(body)));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

#[cfg(test)]
#[path = "../../reference/render.rs"]
mod render;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use countersign_ledger::events::EventType;

    use super::*;
    use crate::{openapi, problem::Code};

    fn values_of<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
        let opening = format!(" {attribute}=\"");
        page.split(&opening)
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect()
    }

    #[test]
    fn every_code_operation_event_and_object_has_one_anchor() {
        let contract: Value = serde_json::from_str(openapi::document()).unwrap();
        let ids = values_of(&PAGE, "id");
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len(), "an id stands twice");
        for code in Code::ALL {
            assert!(unique.contains(code.as_str()), "{code}");
        }
        for event in EventType::ALL {
            assert!(unique.contains(format!("event-{event}").as_str()), "{event}");
        }
        let mut operations = 0;
        for item in contract["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                let name = operation["operationId"].as_str().unwrap();
                assert!(unique.contains(format!("op-{name}").as_str()), "{name}");
                operations += 1;
            }
        }
        assert!(operations > 20);
        let schemas = contract["components"]["schemas"].as_object().unwrap();
        // A page of a list is said in words.
        for name in schemas.keys().filter(|name| !name.starts_with("Page_")) {
            assert!(unique.contains(format!("object-{name}").as_str()), "{name}");
        }
    }

    #[test]
    fn every_link_leads_somewhere_on_this_server() {
        let ids: BTreeSet<&str> = values_of(&PAGE, "id").into_iter().collect();
        for link in values_of(&PAGE, "href") {
            match link.strip_prefix('#') {
                Some(anchor) => assert!(ids.contains(anchor), "{link} leads nowhere"),
                None => assert!(
                    [
                        "/openapi.json",
                        "/assets/docs.css",
                        "/assets/docs.js",
                        "/assets/icon.svg"
                    ]
                    .contains(&link),
                    "{link} leads away"
                ),
            }
        }
    }

    #[test]
    fn hostile_text_of_a_contract_stays_text() {
        let hostile = "</code><script>alert(1)</script>\" onload=\"x `<img src=x>`";
        let contract = json!({
            "info": {"description": hostile},
            "paths": {"/v1/<b>": {"get": {
                "operationId": "op\"x", "tags": [hostile], "summary": hostile, "description": hostile,
                "parameters": [{"name": hostile, "in": "query", "description": hostile,
                    "schema": {"type": "string", "enum": [hostile], "pattern": hostile}}],
                "responses": {"200": {"description": hostile}},
            }}},
            "components": {"schemas": {hostile: {"type": "object", "description": hostile,
                "properties": {hostile: {"type": "string", "description": hostile}}}}},
        });
        let page = render::render(contract, "").unwrap();
        for forbidden in ["<script>", "<img", "<b>", "onload=\""] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn nothing_stands_inline_that_the_policy_forbids() {
        let scripts: Vec<&str> = PAGE.split("<script").skip(1).collect();
        assert!(
            matches!(scripts[..], [script] if script.starts_with(" src=\"/assets/docs.js\" defer></script>"))
        );
        assert!(!PAGE.contains("<style") && !PAGE.contains(" style=\""));
        for attribute in ["src", "href", "action", "data"] {
            for address in values_of(&PAGE, attribute) {
                let is_here =
                    address.starts_with('#') || address.starts_with('/') && !address.starts_with("//");
                assert!(is_here, "an address elsewhere: {address}");
            }
        }
    }

    #[test]
    fn each_operation_stands_in_one_chapter_with_a_call() {
        let contract: Value = serde_json::from_str(openapi::document()).unwrap();
        let items = contract["paths"].as_object().unwrap().values();
        let operations = items.flat_map(|item| item.as_object().unwrap().values());
        let operations: BTreeSet<&str> = operations
            .map(|operation| operation["operationId"].as_str().unwrap())
            .collect();
        let named: Vec<&str> = render::CHAPTERS
            .iter()
            .flat_map(|chapter| chapter.operations)
            .copied()
            .collect();
        assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), operations);
        assert_eq!(named.len(), operations.len(), "an operation stands twice");
        for name in named {
            let article = PAGE.split(&format!("<article id=\"op-{name}\">")).nth(1).unwrap();
            let article = article.split("</article>").next().unwrap();
            assert!(
                article.contains("<pre class=\"call\" tabindex=\"0\"><code>api "),
                "{name} has no example"
            );
        }
    }

    #[test]
    fn what_a_client_needs_first_stands_first() {
        let place = |name: &str| PAGE.find(&format!("<article id=\"op-{name}\">")).unwrap();
        let order = [
            "get_me",
            "get_readiness",
            "exec",
            "get_run",
            "get_run_output",
            "list_approvals",
            "get_events",
            "mcp",
        ];
        assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])));
    }

    #[test]
    fn it_is_sent_in_less_than_sixty_kilobytes() {
        let bytes = PACKED.len();
        assert!(bytes < 60_000, "{bytes}");
    }
}
