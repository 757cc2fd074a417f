//! Cases in YAML: each document is a case or a list of them.

use std::fmt;

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_saphyr::{Budget, Options, Spanned};

use super::case::{Case, CaseText, InvalidCases};

/// Reads the cases of all documents. Aliases, depth and number of what is in them are bounded.
pub(super) fn parse(text: &str) -> Result<Vec<Case>, InvalidCases> {
    let documents: Vec<Spanned<Document>> = serde_saphyr::from_multiple_with_options(text, options())
        .map_err(|error| {
            let line = error.location().map_or(1, |location| location.line());
            InvalidCases::at(line, &error)
        })?;
    let mut cases = Vec::new();
    for document in documents {
        match document.value {
            Document::Case(case) => cases.push(case.into_case(document.referenced.line())?),
            Document::List(list) => {
                for case in list {
                    cases.push(case.value.into_case(case.referenced.line())?);
                }
            }
        }
    }
    Ok(cases)
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_documents: Budget::default().max_nodes },
        with_snippet: false,
        reject_unsupported_tags: true,
    }
}

/// A number or `true` is text wherever a case has text.
enum Document {
    Case(Box<CaseText<String>>),
    List(Vec<Spanned<CaseText<String>>>),
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Cases)
    }
}

struct Cases;

impl<'de> Visitor<'de> for Cases {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a case or a list of cases")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Document, A::Error> {
        let case = CaseText::deserialize(MapAccessDeserializer::new(members))?;
        Ok(Document::Case(Box::new(case)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Document, A::Error> {
        let mut list = Vec::new();
        while let Some(case) = elements.next_element()? {
            list.push(case);
        }
        Ok(Document::List(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let cases = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        cases.into_iter().map(|case| (case.id, case.command)).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|(id, command)| ((*id).to_owned(), (*command).to_owned()))
            .collect();
        assert_eq!(read(text), expected, "{text}");
    }

    #[test]
    fn lists_documents_and_both_styles_are_read_and_lines_are_counted() {
        check(
            "# cases\n- command: ls\n  expect: ask\n\n- {command: 'a b', expect: allow}\n- id: 007\n  command: true\n  expect: reject\n",
            &[("2", "ls"), ("5", "a b"), ("007", "true")],
        );
        check(
            "command: ls\nexpect: ask\n---\n- command: |\n    a\n    b\n  expect: ask\n- expect: ask\n  command: c\n...\n---\n",
            &[("1", "ls"), ("4", "a\nb\n"), ("8", "c")],
        );
        check("{command: ls, expect: ask}", &[("1", "ls")]);
        check("[\n{command: ls, expect: ask},\n]", &[("2", "ls")]);
        check("# nothing\n", &[]);
        check(
            "- &a {id: one, command: ls, expect: ask}\n- <<: *a\n  id: two\n",
            &[("one", "ls"), ("two", "ls")],
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_in_one() {
        for (text, expected) in [
            ("- command: ls\n", "line 1: missing field `expect`"),
            ("- command: ls\n  expect: run\n", "line 2: unknown variant `run`"),
            (
                "command: ls\nexpect: ask\ncwd: x\n",
                "line 1: cwd: expected an absolute path",
            ),
            ("cases: []\n", "line 1: unknown field `cases`"),
            ("hello", "line 1: "),
            ("- command: [ls\n", "line "),
            ("- command: !x ls\n  expect: ask\n", "line 1: "),
            ("- command: ls\n  command: id\n  expect: ask\n", "line 2: "),
        ] {
            let told = parse(text)
                .err()
                .unwrap_or_else(|| panic!("{text} reads"))
                .to_string();
            assert!(
                told.starts_with(expected) && !told.contains('\n'),
                "{text}: {told}"
            );
        }
    }

    #[test]
    fn aliases_and_depth_are_bounded() {
        let level = |level: usize| {
            format!(
                "  - &a{level} [{}]\n",
                vec![format!("*a{}", level - 1); 10].join(", ")
            )
        };
        let levels: String = (1..10).map(level).collect();
        let case = "command: ls\nexpect: ask\n";
        assert!(parse(&format!("{case}why:\n  - &a0 [x]\n{levels}")).is_err());
        assert!(
            parse(&format!(
                "{case}why: {}{}",
                "[".repeat(100_000),
                "]".repeat(100_000)
            ))
            .is_err()
        );
        assert!(parse(&format!("{case}why:\n  {}x\n", "- ".repeat(10_000))).is_err());
    }
}
