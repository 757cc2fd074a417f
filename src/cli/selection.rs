//! `--json=MEMBERS`: no more than some members of what is printed.

use std::borrow::Cow;

use serde_json::Value;

/// These members of a document, or of each item of a list, as far as it has them; all of it where none are named. That they can be
/// there is checked before ([`super::members`]).
pub(crate) fn of_document<'a>(document: &'a Value, members: &[String]) -> Cow<'a, Value> {
    match document.get("items").and_then(Value::as_array) {
        Some(items) if !members.is_empty() => {
            let items = items.iter().map(|item| of_line(item, members).into_owned());
            let items = ("items".to_owned(), items.collect());
            let around = of_line(document, members).into_owned();
            let around = around.as_object().cloned().unwrap_or_default().into_iter();
            Cow::Owned(Value::Object(
                around
                    .filter(|(name, _)| name != "items")
                    .chain([items])
                    .collect(),
            ))
        }
        Some(_) | None => of_line(document, members),
    }
}

/// These members of a line of a stream, as far as it has them: not all lines are alike.
pub(crate) fn of_line<'a>(line: &'a Value, members: &[String]) -> Cow<'a, Value> {
    let Some(known) = line.as_object().filter(|_| !members.is_empty()) else {
        return Cow::Borrowed(line);
    };
    let member = |name: &String| Some((name.clone(), known.get(name)?.clone()));
    Cow::Owned(Value::Object(members.iter().filter_map(member).collect()))
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

    #[test]
    fn members_of_one_object_or_of_each_item_are_chosen() {
        let check = |document: &Value, members: &str, expect: &Value| {
            assert_eq!(&*of_document(document, &names(members)), expect);
        };
        check(&json!({"a": 1, "b": 2}), "b", &json!({"b": 2}));
        check(&json!({"a": 1, "b": 2}), "", &json!({"a": 1, "b": 2}));
        let list = json!({"items": [{"a": 1, "b": 2}, {"a": 3}], "more": true});
        check(&list, "b,a", &json!({"items": [{"b": 2, "a": 1}, {"a": 3}]}));
        check(&list, "", &list);
        check(
            &list,
            "a,more",
            &json!({"more": true, "items": [{"a": 1}, {"a": 3}]}),
        );
        check(&json!({"items": []}), "anything", &json!({"items": []}));
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
