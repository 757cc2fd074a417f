//! The readable reference at `/docs`: the contract, the error catalogue and the events as one static page.
//!
//! Everything on it comes from the `OpenAPI` document and the vocabularies, so it cannot say anything else than
//! the contract does. Every text is escaped by [`html`], there is no script, and nothing is fetched from
//! elsewhere. The `type` of a problem document leads to an anchor here. Entry point: [`page`].

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value that lacks a member gives null, never a panic"
)]

mod events;
mod html;
mod operations;
mod problems;
mod schemas;

use std::sync::LazyLock;

use serde_json::Value;

use crate::openapi;
use html::Html;

static PAGE: LazyLock<String> = LazyLock::new(|| {
    // The document is our own; were it no JSON, the page would have no operations, and its test would say so.
    let contract: Value = serde_json::from_str(openapi::document()).unwrap_or_default();
    render(&contract)
});

/// The page as HTML text.
pub(crate) fn page() -> &'static str {
    &PAGE
}

fn render(contract: &Value) -> String {
    let mut page = Html::default();
    page.raw(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>countersign API reference</title>\n\
         <link rel=\"icon\" href=\"/assets/icon.svg\">\n\
         <link rel=\"stylesheet\" href=\"/assets/docs.css\">\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#content\">Skip to the reference</a>\n",
    );
    page.raw("<header>\n<p class=\"name\">countersign</p>\n<h1>API reference</h1>\n");
    page.element("p", |p| {
        p.prose(contract["info"]["description"].as_str().unwrap_or_default());
    });
    page.raw(
        "<p>The same as a document for tools: <a href=\"/openapi.json\">/openapi.json</a>.</p>\n</header>\n",
    );
    page.raw("<div class=\"columns\">\n");
    contents(contract, &mut page);
    page.raw("<main id=\"content\">\n");
    conventions(&mut page);
    operations::sections(contract, &mut page);
    problems::section(&mut page);
    events::section(&mut page);
    schemas::section(contract, &mut page);
    page.raw("</main>\n</div>\n</body>\n</html>\n");
    page.into_text()
}

fn contents(contract: &Value, page: &mut Html) {
    page.raw("<nav aria-label=\"Contents\">\n<ul>\n<li><a href=\"#conventions\">Conventions</a></li>\n");
    for (tag, operations) in operations::by_tag(contract) {
        page.raw("<li>");
        page.link(&format!("#tag-{tag}"), tag);
        page.raw("\n<ul>\n");
        for operation in operations {
            page.element("li", |item| item.link(&operation.anchor(), &operation.title()));
        }
        page.raw("</ul>\n</li>\n");
    }
    page.raw(
        "<li><a href=\"#errors\">Errors</a></li>\n<li><a href=\"#events\">Event types</a></li>\n\
         <li><a href=\"#objects\">Objects</a></li>\n</ul>\n</nav>\n",
    );
}

/// What is true of every operation and is written at no single one.
fn conventions(page: &mut Html) {
    page.raw("<section id=\"conventions\">\n<h2>Conventions</h2>\n<ul>\n");
    for text in [
        "JSON in and out, camelCase members, UTF-8. Members without a value are left out, never null.",
        "Times are Unix milliseconds in members that end in `AtMs` (and `ts`); durations end in `Ms`.",
        "Unknown members of a body and unknown query parameters are refused by name.",
        "Send `Authorization: Bearer` and a token. No scope implies another, and a token with `exec` can hold none of `approve`, `admin` and `relay`: an asker cannot answer.",
        "Lists take `limit` (1 to 500, 50 unless given) and `cursor`; the answer has `items` and, unless it is the last page, `nextCursor`.",
        "`Idempotency-Key` on an exec: the same key with the same body runs nothing a second time, for 24 hours.",
        "`X-Request-Id` is echoed or made; `traceparent` is continued. Name the request id when you report a fault.",
        "Checks run in this order: Host header, rate, credentials (401), scope (403), path, content type, body.",
    ] {
        page.element("li", |item| item.prose(text));
    }
    page.raw("</ul>\n</section>\n");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use countersign_ledger::events::EventType;

    use crate::problem::Code;

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
        let ids = values_of(page(), "id");
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
        let ids: BTreeSet<&str> = values_of(page(), "id").into_iter().collect();
        for link in values_of(page(), "href") {
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
        let page = render(&contract);
        for forbidden in ["<script", "<img", "<b>", "onload=\""] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn nothing_stands_inline_that_the_policy_forbids() {
        assert!(!page().contains("<script") && !page().contains("<style") && !page().contains(" style=\""));
        assert!(
            !page().contains("http://") && !page().contains("https://"),
            "an address elsewhere"
        );
    }
}
