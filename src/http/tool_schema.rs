//! The schema of an exec call's body for tools that take the same: one source, the `OpenAPI` document.

use serde_json::{Map, Value};

use crate::http::openapi;

/// The JSON schema of an exec call's body, for tools that take the same: as in the document, in one piece.
pub fn exec_arguments() -> Map<String, Value> {
    let document: Value = serde_json::from_str(openapi::document()).unwrap_or_default();
    let mut schema = schema_in(&document, "ExecRequest");
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    schema
}

fn schema_in(document: &Value, name: &str) -> Map<String, Value> {
    let schema = document.pointer(&format!("/components/schemas/{name}"));
    let mut schema = schema.and_then(Value::as_object).cloned().unwrap_or_default();
    schema
        .values_mut()
        .for_each(|value| resolve_references(document, value));
    schema
}

fn resolve_references(document: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => {
            let reference = members.get("$ref").and_then(Value::as_str);
            if let Some(name) = reference.and_then(|path| path.strip_prefix("#/components/schemas/")) {
                let target = schema_in(document, name);
                members.remove("$ref");
                for (name, value) in target {
                    // What stands beside a reference is about this use of it.
                    members.entry(name).or_insert(value);
                }
            }
            members
                .values_mut()
                .for_each(|value| resolve_references(document, value));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|value| resolve_references(document, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tools_take_what_the_http_api_takes_member_by_member() {
        let document: Value = serde_json::from_str(openapi::document()).unwrap();
        let body = &document["components"]["schemas"]["ExecRequest"];
        let tool = Value::Object(exec_arguments());
        let names = |schema: &Value| -> BTreeSet<String> {
            schema["properties"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect()
        };
        assert_eq!(names(&tool), names(body));
        assert!(names(body).contains("approvalWaitMs"), "{body}");
        assert_eq!(tool["required"], body["required"]);
        assert_eq!(tool["type"], "object");
        assert_eq!(tool["additionalProperties"], false);
        for name in names(body) {
            let (ours, theirs) = (&tool["properties"][&name], &body["properties"][&name]);
            let resolved = match theirs["$ref"].as_str() {
                Some(path) => document.pointer(path.trim_start_matches('#')).unwrap(),
                None => theirs,
            };
            for member in ["type", "enum", "maximum", "minimum", "pattern"] {
                assert_eq!(ours[member], resolved[member], "{name}.{member}");
            }
        }
        assert!(!tool.to_string().contains("$ref"), "{tool}");
    }
}
