//! `--json=MEMBERS`: no more than some members of what is printed.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeSet};

use serde_json::{Map, Value};

use super::{failure::Failure, value};

/// These members of a document, or of each item of a list; all of it where none are named.
///
/// # Errors
/// A member that is not there, and that the contract of the API does not have there, with those that there are.
pub(crate) fn of_document<'a>(document: &'a Value, members: &[String]) -> Result<Cow<'a, Value>, Failure> {
    if members.is_empty() {
        return Ok(Cow::Borrowed(document));
    }
    let items = document.get("items").and_then(Value::as_array);
    let shown: Vec<&Value> = items.map_or_else(|| vec![document], |items| items.iter().collect());
    check(&shown, members)?;
    let mut selected = of_line(document, members).into_owned();
    if let Some(items) = items {
        let items = items.iter().map(|item| of_line(item, members).into_owned());
        selected = Value::Object(Map::from_iter([("items".to_owned(), items.collect())]));
    }
    Ok(Cow::Owned(selected))
}

/// These members of a line of a stream, as far as it has them: not all lines are alike.
pub(crate) fn of_line<'a>(line: &'a Value, members: &[String]) -> Cow<'a, Value> {
    let Some(known) = line.as_object().filter(|_| !members.is_empty()) else {
        return Cow::Borrowed(line);
    };
    let member = |name: &String| Some((name.clone(), known.get(name)?.clone()));
    Cow::Owned(Value::Object(members.iter().filter_map(member).collect()))
}

/// Whether each member is there, or may be: what a run has at its end is no mistake while it runs.
fn check(shown: &[&Value], members: &[String]) -> Result<(), Failure> {
    let objects = || shown.iter().filter_map(|value| value.as_object());
    let known: BTreeSet<&str> = objects().flat_map(Map::keys).map(String::as_str).collect();
    let is_absent = |name: &&String| !known.contains(name.as_str());
    // A list that is empty tells nothing of its items.
    if shown.is_empty() || !members.iter().any(|name| is_absent(&name)) {
        return Ok(());
    }
    let possible = possible(&known);
    let unknown = members
        .iter()
        .filter(is_absent)
        .find(|name| !possible.contains(name.as_str()));
    let Some(unknown) = unknown else {
        return Ok(());
    };
    let there_are: Vec<&str> = known
        .union(&possible.iter().map(String::as_str).collect())
        .copied()
        .collect();
    let text = format!(
        "there is no member {}; there are: {}",
        value::visible(unknown),
        there_are.join(", ")
    );
    Err(Failure::usage(text).advice("--json=MEMBER,MEMBER prints these members; --json prints all"))
}

/// The members that objects with the known ones may have, too, as the contract says: of the schema that has most of these, and little
/// else. Some objects have a member more than their schema, since this program added it. What no schema is like has no others.
fn possible(known: &BTreeSet<&str>) -> BTreeSet<String> {
    let contract: Value = serde_json::from_str(countersign_http::document()).unwrap_or_default();
    let Some(schemas) = contract.pointer("/components/schemas").and_then(Value::as_object) else {
        return BTreeSet::new();
    };
    let shared = |names: &BTreeSet<String>| known.iter().filter(|name| names.contains(**name)).count();
    let all = schemas.values().map(|schema| properties(schemas, schema, 0));
    let like = all.filter(|names| shared(names) * 4 >= known.len() * 3);
    like.max_by_key(|names| (shared(names), Reverse(names.len())))
        .unwrap_or_default()
}

/// Deeper than this no schema of ours is put together.
const DEEPEST: usize = 8;

fn properties(schemas: &Map<String, Value>, schema: &Value, depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if depth > DEEPEST {
        return names;
    }
    let own = schema.get("properties").and_then(Value::as_object);
    names.extend(own.into_iter().flat_map(Map::keys).cloned());
    let parts = schema.get("allOf").and_then(Value::as_array);
    for part in parts.into_iter().flatten() {
        names.append(&mut properties(schemas, part, depth + 1));
    }
    let named = schema.get("$ref").and_then(Value::as_str);
    let named = named.and_then(|path| path.rsplit('/').next());
    if let Some(schema) = named.and_then(|name| schemas.get(name)) {
        names.append(&mut properties(schemas, schema, depth + 1));
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[track_caller]
    fn check_selected(document: &Value, members: &str, expect: &Value) {
        let selected = of_document(document, &names(members)).unwrap();
        assert_eq!(&*selected, expect);
    }

    #[test]
    fn members_of_one_object_or_of_each_item_are_chosen() {
        check_selected(&json!({"a": 1, "b": 2}), "b", &json!({"b": 2}));
        check_selected(&json!({"a": 1, "b": 2}), "", &json!({"a": 1, "b": 2}));
        let list = json!({"items": [{"a": 1, "b": 2}, {"a": 3}], "more": true});
        check_selected(&list, "b,a", &json!({"items": [{"a": 1, "b": 2}, {"a": 3}]}));
        check_selected(&json!({"items": []}), "anything", &json!({"items": []}));
    }

    #[test]
    fn what_is_unknown_is_an_error_that_lists_what_there_is() {
        let error = of_document(&json!({"items": [{"a": 1}, {"b": 2}]}), &names("a,c")).unwrap_err();
        assert_eq!(error.exit, crate::cli::exit::ExitStatus::USAGE);
        let text = error.to_string();
        assert!(text.contains("no member c; there are: a, b"), "{text}");
        assert!(of_document(&json!({"a": 1}), &names("items")).is_err());
    }

    #[test]
    fn what_is_not_there_yet_is_no_mistake() {
        let mute = json!({"items": [{"agentId": "build", "id": "x", "untilMs": 1}]});
        check_selected(&mute, "agentId,reason", &json!({"items": [{"agentId": "build"}]}));
        let error = of_document(&mute, &names("raeson")).unwrap_err().to_string();
        assert!(error.contains("endWaits") && error.contains("reason"), "{error}");
    }

    #[test]
    fn a_line_has_what_it_has() {
        assert_eq!(
            *of_line(&json!({"seq": 1, "x": 2}), &names("seq,y")),
            json!({"seq": 1})
        );
        assert_eq!(*of_line(&json!(3), &names("seq")), json!(3));
    }

    proptest! {
        #[test]
        fn what_is_printed_was_there(keys in prop::collection::btree_map("[a-d]", 0..9_i32, 0..5), chosen in prop::collection::vec("[a-d]", 1..4)) {
            let document = json!(keys);
            let line = of_line(&document, &chosen).into_owned();
            for (name, value) in line.as_object().unwrap() {
                prop_assert!(chosen.contains(name) && document.get(name) == Some(value));
            }
            for name in &chosen {
                prop_assert_eq!(document.get(name), line.get(name));
            }
        }
    }
}
