//! Holds a JSON value against a schema of the contract: the part of JSON Schema that the contract uses.

use regex::Regex;
use serde_json::Value;

/// Says where and why a value does not have the form of a schema; `contract` has the named ones.
pub(crate) fn check(contract: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    check_at(contract, schema, value, "")
}

fn check_at(contract: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{at}: {what}: {value}"));
    if *schema == false {
        return wrong("not to be given");
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference
            .strip_prefix('#')
            .expect("a reference into the contract");
        let named = contract
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{reference} leads nowhere"));
        check_at(contract, named, value, at)?;
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    if !names.is_empty() && !names.iter().any(|name| is_of_type(name, value)) {
        return wrong(&format!("expected {names:?}"));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|words| !words.contains(value))
    {
        return wrong(&format!("expected one of {}", schema["enum"]));
    }
    for (member, least, most) in [("oneOf", 1, 1), ("anyOf", 1, usize::MAX)] {
        if let Some(choices) = schema[member].as_array() {
            let fits = choices
                .iter()
                .filter(|choice| check_at(contract, choice, value, at).is_ok());
            if !(least..=most).contains(&fits.count()) {
                return wrong(&format!("does not fit {member} {choices:?}"));
            }
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check_at(contract, part, value, at)?;
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !Regex::new(pattern)
            .expect("a pattern of the contract")
            .is_match(text)
    {
        return wrong(&format!("does not match {pattern}"));
    }
    if let Some(number) = value.as_f64() {
        let below = schema["minimum"].as_f64().is_some_and(|least| number < least);
        let above = schema["maximum"].as_f64().is_some_and(|most| number > most);
        if below || above {
            return wrong("out of bounds");
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if !schema["items"].is_null() && schema["items"] != false {
            check_at(contract, &schema["items"], item, &format!("{at}/{index}"))?;
        }
    }
    let Some(object) = value.as_object() else {
        return Ok(());
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(name.as_str().expect("a name")) {
            return wrong(&format!("{name} is missing"));
        }
    }
    for (name, member) in object {
        let below = format!("{at}/{name}");
        match (schema["properties"].get(name), &schema["additionalProperties"]) {
            (Some(known), _) => check_at(contract, known, member, &below)?,
            (None, Value::Object(_)) => check_at(contract, &schema["additionalProperties"], member, &below)?,
            (None, Value::Bool(false)) => return wrong(&format!("{name} is not in the contract")),
            (None, _) => {}
        }
    }
    Ok(())
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type of JSON Schema: {other}"),
    }
}

#[test]
fn a_value_of_another_form_is_told_with_its_place() {
    use serde_json::json;
    let contract =
        json!({ "components": { "schemas": { "Id": { "type": "string", "pattern": "^[a-z]+$" } } } });
    let schema = json!({
        "type": "object", "required": ["id"], "additionalProperties": false,
        "properties": {
            "id": { "$ref": "#/components/schemas/Id" },
            "many": { "type": "array", "items": { "type": "integer", "minimum": 1 } },
            "kind": { "type": "string", "enum": ["a", "b"] },
        },
    });
    let told = |value: Value| check(&contract, &schema, &value).unwrap_err();
    assert_eq!(
        check(
            &contract,
            &schema,
            &json!({ "id": "x", "many": [1, 2], "kind": "b" })
        ),
        Ok(())
    );
    assert!(told(json!({})).contains("\"id\" is missing"));
    assert!(told(json!({ "id": "X" })).starts_with("/id: does not match"));
    assert!(told(json!({ "id": "x", "many": [1, 0] })).starts_with("/many/1: out of bounds"));
    assert!(told(json!({ "id": "x", "many": ["1"] })).starts_with("/many/0: expected"));
    assert!(told(json!({ "id": "x", "kind": "c" })).starts_with("/kind: expected one of"));
    assert!(told(json!({ "id": "x", "other": 1 })).contains("other is not in the contract"));
}
