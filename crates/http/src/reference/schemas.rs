//! The objects of the contract, and how a type is told in one line.

use serde_json::Value;

use super::html::Html;

pub(super) fn section(contract: &Value, page: &mut Html) {
    page.raw("<section id=\"objects\">\n<h2>Objects</h2>\n");
    for (name, schema) in contract["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten()
    {
        page.anchored("article", &format!("object-{name}"), |article| {
            article.element("h3", |heading| heading.text(name));
            show(schema, article);
        });
    }
    page.raw("</section>\n");
}

fn show(schema: &Value, page: &mut Html) {
    if let Some(description) = schema["description"].as_str() {
        page.element("p", |p| p.prose(description));
    }
    let parts = schema["allOf"].as_array().map_or(&[][..], Vec::as_slice);
    let mut has_members = false;
    for part in parts.iter().chain([schema]) {
        if let Some(members) = part["properties"].as_object() {
            has_members = true;
            table(part, members, page);
        } else if part["$ref"].is_string() || (part != schema && part["oneOf"].is_array()) {
            page.element("p", |p| {
                p.text("All members of ");
                kind(part, p);
                p.text(", and:");
            });
        }
    }
    if !has_members {
        page.element("p", |p| kind(schema, p));
    }
}

fn table(schema: &Value, members: &serde_json::Map<String, Value>, page: &mut Html) {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    page.table(&["Member", "Type", "Meaning"], |rows| {
        for (name, member) in members {
            rows.element("tr", |row| {
                row.element("td", |cell| {
                    cell.code(name);
                    if !is_required(name) {
                        cell.raw(" <span class=\"optional\">optional</span>");
                    }
                });
                row.element("td", |cell| kind(member, cell));
                row.element("td", |cell| {
                    cell.prose(member["description"].as_str().unwrap_or_default());
                });
            });
        }
    });
}

/// A type in words, objects as links, limits behind it.
pub(super) fn kind(schema: &Value, page: &mut Html) {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|path| path.strip_prefix("#/components/schemas/"))
    {
        page.link(&format!("#object-{name}"), name);
        return;
    }
    if let Some(words) = schema["enum"].as_array() {
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                page.text(", ");
            }
            page.code(word.as_str().unwrap_or_default());
        }
        return;
    }
    // Null in a request means "not given", which is told by "optional".
    let is_null = |schema: &Value| schema["type"] == "null";
    for (member, joint) in [("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")] {
        if let Some(choices) = schema[member].as_array().filter(|_| schema["type"].is_null()) {
            for (index, choice) in choices.iter().filter(|choice| !is_null(choice)).enumerate() {
                if index > 0 {
                    page.text(joint);
                }
                kind(choice, page);
            }
            return;
        }
    }
    let names = schema["type"].as_array().into_iter().flatten();
    let name = names
        .chain([&schema["type"]])
        .find_map(|name| name.as_str().filter(|name| *name != "null"));
    match name {
        Some("array") if schema["items"].is_object() => {
            page.text("list of ");
            kind(&schema["items"], page);
        }
        Some("object") if schema["additionalProperties"].is_object() => {
            page.text("map of ");
            kind(&schema["additionalProperties"], page);
        }
        Some("array") => page.text("list"),
        Some(name) => page.text(name),
        None => page.text("anything"),
    }
    limits(schema, page);
}

fn limits(schema: &Value, page: &mut Html) {
    let number = |member: &str| schema[member].as_number().map(ToString::to_string);
    let bounds = [
        ("minimum", "at least "),
        ("maximum", "at most "),
        ("minLength", "characters: at least "),
        ("maxLength", "characters: at most "),
        ("minItems", "items: at least "),
        ("maxItems", "items: at most "),
        ("default", "unless given: "),
    ];
    for (member, words) in bounds {
        if let Some(bound) = number(member) {
            page.text(", ");
            page.text(words);
            page.text(&bound);
        }
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        page.text(", ");
        page.code(pattern);
    }
}
