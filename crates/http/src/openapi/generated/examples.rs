//! Examples of the operations that clients call most: what they send and what they get. Tests hold each against its
//! schema.

use serde_json::{Map, Value};

/// By operation: `request` or the status of an answer, media type, name of the example.
const EXAMPLES: &str = include_str!("examples.json");

/// Puts the examples where they belong.
pub(super) fn add(document: &mut Value) {
    let examples: Value = serde_json::from_str(EXAMPLES).unwrap_or_default();
    let items = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = items.into_iter().flat_map(Map::values_mut);
    for operation in items.filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        let name = operation
            .get("operationId")
            .and_then(Value::as_str)
            .unwrap_or_default();
        for (place, forms) in examples
            .get(name)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let holder = match place.as_str() {
                "request" => operation.get_mut("requestBody"),
                status => operation.pointer_mut(&format!("/responses/{status}")),
            };
            if let Some(content) = holder.and_then(|holder| holder.get_mut("content")) {
                put(content, forms);
            }
        }
    }
}

fn put(content: &mut Value, forms: &Value) {
    for (media_type, named) in forms.as_object().into_iter().flatten() {
        if let Some(form) = content.get_mut(media_type).and_then(Value::as_object_mut) {
            form.insert("examples".to_owned(), named.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi;

    #[test]
    fn every_example_has_its_place() {
        let contract: Value = serde_json::from_str(openapi::document()).unwrap();
        let items = contract["paths"].as_object().unwrap().values();
        let operations: Vec<&Value> = items
            .flat_map(|item| item.as_object().unwrap().values())
            .collect();
        let examples: Value = serde_json::from_str(EXAMPLES).unwrap();
        let examples = examples.as_object().unwrap();
        assert!(examples.len() >= 10);
        for (name, places) in examples {
            let operation = operations
                .iter()
                .find(|operation| operation["operationId"] == **name);
            let operation = operation.unwrap_or_else(|| panic!("no operation {name}"));
            for (place, forms) in places.as_object().unwrap() {
                let holder = if place == "request" {
                    &operation["requestBody"]
                } else {
                    &operation["responses"][place]
                };
                for (media_type, named) in forms.as_object().unwrap() {
                    assert_eq!(
                        holder["content"][media_type]["examples"], *named,
                        "{name} {place} {media_type}"
                    );
                }
            }
            let answers = places.as_object().unwrap().keys();
            assert!(
                answers.into_iter().any(|place| place.starts_with('2')),
                "{name} has no answer"
            );
        }
    }
}
