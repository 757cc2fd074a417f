//! What the types of the routes cannot say of their schemas.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value that lacks a member gives null, and what is written to is an object"
)]

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{events, reference, unions};

/// Any JSON, in words that generators have a type for.
const ANY: &str = "JsonValue";

/// Completes the schemas: those of the document and those that stand in its operations.
pub(super) fn complete(document: &mut Value) {
    forget_null(document);
    for schema in named(document) {
        want_one_form(schema);
    }
    name_the_items_of_pages(document);
    type_the_parts_of_a_question(document);
    type_what_is_open(document);
    if let Some(schemas) = document
        .pointer_mut("/components/schemas")
        .and_then(Value::as_object_mut)
    {
        unions::complete(schemas);
        events::add(schemas);
        schemas.insert(ANY.to_owned(), any());
        open_the_parts(schemas);
        schemas.sort_keys();
    }
}

fn named(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let schemas = document.pointer_mut("/components/schemas");
    members(schemas).map(|(_name, schema)| schema)
}

fn members(object: Option<&mut Value>) -> impl Iterator<Item = (&String, &mut Value)> {
    object.and_then(Value::as_object_mut).into_iter().flatten()
}

/// Members of answers without a value are left out, never null, so no schema says that they could be. Bodies of
/// requests, which alone refuse unknown members, may say null for "not given", as many clients do.
fn forget_null(value: &mut Value) {
    match value {
        Value::Object(members) if members.get("additionalProperties") == Some(&Value::Bool(false)) => {}
        Value::Object(members) => {
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    members.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = members.get_mut("oneOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
                if let [only] = choices.as_slice() {
                    let only = only.clone();
                    members.remove("oneOf");
                    if let Value::Object(only) = only {
                        members.extend(only);
                    }
                }
            }
            members.values_mut().for_each(forget_null);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Members of request bodies of which exactly one is given, and what stands in both.
const EITHER_OR: [[&str; 2]; 2] = [["command", "argv"], ["code", "token"]];

/// Says of a request body that has two forms that exactly one is wanted, so that a type of one has no room for the
/// other.
fn want_one_form(schema: &mut Value) {
    let is_request = schema["additionalProperties"] == false;
    for forms in EITHER_OR {
        if !is_request || forms.iter().any(|form| schema["properties"][form].is_null()) {
            continue;
        }
        for form in forms {
            let member = &mut schema["properties"][form];
            if let Some(only) = member["type"].as_array().and_then(|names| names.first()).cloned() {
                member["type"] = only;
            }
        }
        let [one, other] = forms.map(|form| schema["properties"][form].clone());
        let form = |name: &str, member: Value, other: &str| json!({"type": "object", "required": [name], "properties": {name: member, other: false}});
        let [first, second] = forms;
        schema["oneOf"] = json!([form(first, one, second), form(second, other, first)]);
    }
}

/// The items of a page are objects that have a name, so they are called by it.
fn name_the_items_of_pages(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    for (page, schema) in members(document.pointer_mut("/components/schemas")) {
        let item = page.strip_prefix("Page_").filter(|item| !schemas[item].is_null());
        if let Some(item) = item {
            schema["properties"]["items"]["items"] = reference(item);
        }
    }
}

/// The segments of an approval are stored as they were found; an explanation finds the same.
fn type_the_parts_of_a_question(document: &mut Value) {
    if let Some(segments) = document.pointer_mut("/components/schemas/Approval/properties/segments") {
        segments["items"] = reference("Segment");
    }
}

/// What is JSON of any form has a type, and bytes are no list of numbers.
fn type_what_is_open(document: &mut Value) {
    named(document).for_each(close);
    for (_path, item) in members(document.get_mut("paths")) {
        for (_method, operation) in members(Some(item)) {
            let stream = operation["operationId"].as_str().and_then(events::stream);
            for (_status, answer) in members(operation.get_mut("responses")) {
                for (media_type, form) in members(answer.get_mut("content")) {
                    if let Some(stream) = stream.as_ref().filter(|_| media_type == "text/event-stream") {
                        form["schema"] = stream.clone();
                    }
                    if media_type == "application/octet-stream" {
                        form["schema"] = json!({"type": "string", "format": "binary"});
                    }
                    close(&mut form["schema"]);
                }
            }
        }
    }
}

fn close(schema: &mut Value) {
    let Some(own) = schema.as_object_mut() else {
        return;
    };
    // A member that is not given has no value, not the value null.
    if own.get("default").is_some_and(Value::is_null) {
        own.remove("default");
    }
    if own
        .keys()
        .all(|name| ["description", "default"].contains(&name.as_str()))
    {
        own.append(&mut as_members(reference(ANY)));
        return;
    }
    let is_object = own.get("type").is_some_and(|kind| {
        let names = kind
            .as_array()
            .map_or_else(|| std::slice::from_ref(kind), Vec::as_slice);
        names.iter().any(|name| name == "object")
    });
    let is_open = own.get("additionalProperties").is_some_and(|more| more == true)
        || !own.contains_key("additionalProperties") && !own.contains_key("properties");
    if is_object && is_open {
        own.insert("additionalProperties".to_owned(), reference(ANY));
    }
    for (name, inner) in own {
        match name.as_str() {
            "properties" => members(Some(inner)).for_each(|(_name, member)| close(member)),
            "items" | "additionalProperties" => close(inner),
            "oneOf" | "anyOf" | "allOf" => inner.as_array_mut().into_iter().flatten().for_each(close),
            _ => {}
        }
    }
}

/// Of an object that is made of parts each part is silent about the members of the others. Linters take silence for
/// "nothing besides".
fn open_the_parts(schemas: &mut Map<String, Value>) {
    let mut parts = BTreeSet::new();
    for schema in schemas.values_mut().filter(|schema| schema["allOf"].is_array()) {
        open(schema);
        for part in schema["allOf"].as_array_mut().into_iter().flatten() {
            let forms = part["oneOf"].as_array().cloned().unwrap_or_default();
            let named = forms
                .iter()
                .chain([&*part])
                .filter_map(|form| form["$ref"].as_str());
            parts.extend(
                named
                    .filter_map(|name| name.rsplit('/').next())
                    .map(str::to_owned),
            );
            if part["$ref"].is_null() {
                open(part);
            }
        }
    }
    for name in parts {
        open(&mut schemas[&name]);
    }
}

fn open(schema: &mut Value) {
    schema["unevaluatedProperties"] = true.into();
}

fn as_members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn any() -> Value {
    json!({
        "description": "Any JSON.",
        "anyOf": [
            {"type": ["string", "number", "boolean", "null"]},
            // A type that is an array of itself is more than TypeScript takes where this stands.
            {"type": "array", "items": {}},
            {"type": "object", "additionalProperties": reference(ANY)},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi;

    /// Every object of the document that says `type`, with the way to it.
    fn typed<'a>(value: &'a Value, at: &str, found: &mut Vec<(String, &'a Map<String, Value>)>) {
        for (name, inner) in value.as_object().into_iter().flatten() {
            typed(inner, &format!("{at}/{name}"), found);
        }
        for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
            typed(inner, &format!("{at}/{index}"), found);
        }
        let own = value.as_object();
        found.extend(
            own.filter(|own| own.contains_key("type"))
                .map(|own| (at.to_owned(), own)),
        );
    }

    #[test]
    fn nothing_is_of_an_unknown_form() {
        let contract: Value = serde_json::from_str(openapi::document()).unwrap();
        let mut found = Vec::new();
        typed(&contract, "", &mut found);
        assert!(found.len() > 500);
        for (at, schema) in found {
            let names = &schema["type"];
            let is = |name: &str| {
                *names == name || names.as_array().is_some_and(|names| names.contains(&name.into()))
            };
            if is("object") {
                let more = schema.get("additionalProperties");
                let is_typed = schema.contains_key("properties") || more.is_some_and(Value::is_object);
                assert!(is_typed && more.is_none_or(|more| more != true), "{at}");
            }
            if is("array") {
                let items = schema["items"].as_object();
                let is_any = at == format!("/components/schemas/{ANY}/anyOf/1");
                assert!(is_any || items.is_some_and(|items| !items.is_empty()), "{at}");
            }
            for (name, member) in schema
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                let says = member.as_object().into_iter().flat_map(Map::keys);
                let says_form = says.filter(|says| !["description", "default"].contains(&says.as_str()));
                assert!(*member == false || says_form.count() > 0, "{at}/{name}");
            }
        }
    }

    #[test]
    fn items_of_pages_have_their_name() {
        let contract: Value = serde_json::from_str(openapi::document()).unwrap();
        let schemas = contract["components"]["schemas"].as_object().unwrap();
        for (name, schema) in schemas {
            if let Some(item) = name.strip_prefix("Page_") {
                assert_eq!(schema["properties"]["items"]["items"], reference(item));
            }
        }
    }
}
