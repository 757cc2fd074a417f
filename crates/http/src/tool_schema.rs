//! The schemas of bodies for tools that take the same: one source, the `OpenAPI` document.

use serde_json::{Map, Value};

use countersign_mcp::ToolArguments;

use crate::openapi;

/// Alternatives of the whole body. Some clients leave out a tool whose schema begins with them. What they say is in the
/// description, and the body is refused when it is neither.
const ALTERNATIVES: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// The JSON schemas of the bodies that tools take: as in the document, each in one piece and without alternatives at the top.
pub fn tool_arguments() -> ToolArguments {
    let document: Value = serde_json::from_str(openapi::document()).unwrap_or_default();
    let arguments = |name| {
        let mut schema = schema_in(&document, name);
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
        schema.retain(|member, _| !ALTERNATIVES.contains(&member.as_str()));
        schema
    };
    ToolArguments {
        exec: arguments("ExecRequest"),
        process: arguments("ProcessRequest"),
        patch: arguments("PatchRequest"),
        workdir: None,
    }
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
        let ToolArguments {
            exec,
            process,
            patch,
            workdir: _,
        } = tool_arguments();
        check("ExecRequest", "approvalWaitMs", &Value::Object(exec));
        check("ProcessRequest", "sessionId", &Value::Object(process));
        check("PatchRequest", "input", &Value::Object(patch));
    }

    fn check(schema: &str, member: &str, tool: &Value) {
        let document: Value = serde_json::from_str(openapi::document()).unwrap();
        let body = &document["components"]["schemas"][schema];
        let names = |schema: &Value| -> BTreeSet<String> {
            schema["properties"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect()
        };
        assert_eq!(names(tool), names(body));
        assert!(names(body).contains(member), "{body}");
        assert_eq!(tool["required"], body["required"]);
        assert_eq!(tool["type"], "object");
        assert_eq!(tool["additionalProperties"], false);
        for alternatives in ALTERNATIVES {
            assert!(tool.get(alternatives).is_none(), "{tool}");
        }
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
