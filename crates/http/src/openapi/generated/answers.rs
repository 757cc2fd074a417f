//! What is said of every operation and every answer, so that generators need not guess.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Completes the operations: parameters and answers without a description get that of their schema, and an operation
/// that needs no credentials says so.
pub(super) fn complete(document: &mut Value) {
    let schemas = descriptions(document);
    for operation in operations(document) {
        let Some(members) = operation.as_object_mut() else {
            continue;
        };
        members.entry("security").or_insert_with(|| json!([]));
        for parameter in members.get_mut("parameters").into_iter().flat_map(items) {
            describe(parameter, &schemas);
        }
        let answers = members.get_mut("responses").and_then(Value::as_object_mut);
        for (status, answer) in answers.into_iter().flatten() {
            describe(answer, &schemas);
            if status == "429" {
                put(answer, "headers", retry_after());
            }
        }
    }
}

fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document.get_mut("paths").into_iter().flat_map(values);
    paths.flat_map(values)
}

fn values(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    object
        .as_object_mut()
        .into_iter()
        .flat_map(serde_json::Map::values_mut)
}

fn items(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    list.as_array_mut().into_iter().flatten()
}

fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

fn retry_after() -> Value {
    json!({"Retry-After": {
        "description": "After how many seconds to try again.",
        "schema": {"type": "integer", "minimum": 1},
    }})
}

/// The first paragraph about each schema, by the reference that leads to it.
fn descriptions(document: &Value) -> BTreeMap<String, String> {
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    let described = schemas.into_iter().flatten().filter_map(|(name, schema)| {
        let text = schema.get("description")?.as_str()?;
        let paragraph = text.split("\n\n").next()?.replace('\n', " ");
        Some((format!("#/components/schemas/{name}"), paragraph))
    });
    described.collect()
}

/// Describes a parameter or an answer that is not described: by its schema, or that of its first form.
fn describe(described: &mut Value, schemas: &BTreeMap<String, String>) {
    let forms = described.get("content").and_then(Value::as_object);
    let first = forms.and_then(|forms| forms.values().next());
    let reference = first.unwrap_or(described).pointer("/schema/$ref");
    let known = reference
        .and_then(Value::as_str)
        .and_then(|name| schemas.get(name));
    let is_described = described.get("description").is_some_and(|text| text != "");
    if let Some(text) = known.filter(|_| !is_described) {
        put(described, "description", text.as_str().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi;

    #[test]
    fn every_answer_is_described_and_has_a_form() {
        let mut contract: Value = serde_json::from_str(openapi::document()).unwrap();
        let mut answers = 0;
        for operation in operations(&mut contract) {
            let name = operation["operationId"].clone();
            for member in ["operationId", "summary"] {
                assert!(
                    operation[member].as_str().is_some_and(|text| !text.is_empty()),
                    "{name}: {member}"
                );
            }
            assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{name}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["description"].is_string(), "{name} {parameter}");
            }
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let description = answer["description"].as_str().unwrap_or_default();
                assert!(!description.is_empty(), "{name} {status} is not described");
                let forms = answer["content"].as_object();
                let may_be_empty = ["202", "204", "303"].contains(&status.as_str());
                assert!(forms.is_some() || may_be_empty, "{name} {status} has no body");
                for (media_type, form) in forms.into_iter().flatten() {
                    let schema = form["schema"].as_object();
                    assert!(
                        schema.is_some_and(|schema| !schema.is_empty()),
                        "{name} {status} {media_type} has no form"
                    );
                }
                answers += 1;
            }
            assert!(
                ["429", "500"]
                    .iter()
                    .all(|status| operation["responses"][status].is_object()),
                "{name}"
            );
        }
        assert!(answers > 500, "{answers}");
    }

    #[test]
    fn every_operation_names_its_credentials_or_says_that_it_needs_none() {
        let mut contract: Value = serde_json::from_str(openapi::document()).unwrap();
        let schemes = contract["components"]["securitySchemes"].clone();
        for operation in operations(&mut contract) {
            let ways = operation["security"].as_array();
            let ways = ways.unwrap_or_else(|| panic!("{}", operation["operationId"]));
            for scheme in ways.iter().flat_map(|way| way.as_object().unwrap().keys()) {
                assert!(schemes[scheme].is_object(), "{scheme}");
            }
        }
    }
}
