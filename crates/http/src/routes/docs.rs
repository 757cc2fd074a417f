//! The readable reference: the contract, the error catalogue and the events as one static page.
//!
//! The build makes it (`build.rs`) from `openapi/openapi.json`, `docs/errors.md` and `reference/page.html`, and the tests
//! compare these with the program. Every text is escaped, there is no script, and nothing is fetched from elsewhere. The
//! `type` of a problem document leads to an anchor here.

use axum::response::Html;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::state::AppState;

const PAGE: &str = include_str!(concat!(env!("OUT_DIR"), "/reference.html"));

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(docs))
}

/// This contract for people, with the error catalogue and the events.
#[utoipa::path(
    get, path = "/docs", tag = "probes", operation_id = "get_docs",
    responses((status = OK, description = "A page.", content_type = "text/html", body = String)),
)]
async fn docs() -> Html<&'static str> {
    Html(PAGE)
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
        let ids = values_of(PAGE, "id");
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
        for name in contract["components"]["schemas"].as_object().unwrap().keys() {
            assert!(unique.contains(format!("object-{name}").as_str()), "{name}");
        }
    }

    #[test]
    fn every_link_leads_somewhere_on_this_server() {
        let ids: BTreeSet<&str> = values_of(PAGE, "id").into_iter().collect();
        for link in values_of(PAGE, "href") {
            match link.strip_prefix('#') {
                Some(anchor) => assert!(ids.contains(anchor), "{link} leads nowhere"),
                None => assert!(
                    ["/openapi.json", "/assets/docs.css", "/assets/icon.svg"].contains(&link),
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
        for forbidden in ["<script", "<img", "<b>", "onload=\""] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn nothing_stands_inline_that_the_policy_forbids() {
        assert!(!PAGE.contains("<script") && !PAGE.contains("<style") && !PAGE.contains(" style=\""));
        assert!(
            !PAGE.contains("http://") && !PAGE.contains("https://"),
            "an address elsewhere"
        );
    }
}
