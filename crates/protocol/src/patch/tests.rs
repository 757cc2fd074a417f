use proptest::prelude::*;

use super::{apply::Misfit, limits::MAX_FILE_LINES, *};

fn parsed(text: &str) -> Result<Patch, (usize, Fault)> {
    Patch::parse(text).map_err(|ParseError { line, fault }| (line, fault))
}

fn envelope(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

/// The text after the hunks of one update.
fn updated(old: &str, hunks: &str) -> Result<String, HunkError> {
    let patch = parsed(&envelope(&format!("*** Update File: f\n{hunks}"))).unwrap();
    let [Operation::Update { hunks, .. }] = patch.operations() else {
        panic!("one update");
    };
    apply(old, hunks)
}

#[test]
fn every_part_of_the_format_is_read() {
    let text = envelope(
        "*** Add File: a\n+one\n+\n*** Delete File: b\n\n*** Update File: c\n*** Move to: d\n@@ class X\n@@ fn y\n one\n\n\
         -two\n+three\n*** End of File\n@@\n-four\n",
    );
    let path = |text: &str| PatchPath::parse(text).unwrap();
    let keep = |text: &str| Line::Keep(text.to_owned());
    let remove = |text: &str| Line::Remove(text.to_owned());
    let expected = [
        Operation::Add {
            path: path("a"),
            content: "one\n\n".to_owned(),
        },
        Operation::Delete { path: path("b") },
        Operation::Update {
            path: path("c"),
            to: Some(path("d")),
            hunks: vec![
                Hunk {
                    contexts: vec!["class X".to_owned(), "fn y".to_owned()],
                    lines: vec![
                        keep("one"),
                        keep(""),
                        remove("two"),
                        Line::Insert("three".to_owned()),
                    ],
                    at_end: true,
                },
                Hunk {
                    contexts: vec![],
                    lines: vec![remove("four")],
                    at_end: false,
                },
            ],
        },
    ];
    let patch = parsed(&text).unwrap();
    assert_eq!(patch.operations(), expected);
    assert_eq!(patch.summary(), "1 added, 1 deleted, 1 moved");
    for wrapped in [
        format!("\n \n{text}\n\n"),
        format!("<<'EOF'\n{text}EOF\n"),
        format!("<<EOF\n{text}EOF"),
        text.replace('\n', "\r\n"),
        text.trim_end().to_owned(),
    ] {
        assert_eq!(parsed(&wrapped).unwrap().operations(), expected, "{wrapped:?}");
    }
}

#[test]
fn what_is_no_patch_is_refused_with_its_line() {
    #[track_caller]
    fn check(text: &str, line: usize, fault: Fault) {
        assert_eq!(parsed(text), Err((line, fault)), "{text:?}");
    }
    check("", 1, Fault::NoBegin);
    check("diff --git a b", 1, Fault::NoBegin);
    check(" *** Begin Patch\n*** End Patch", 1, Fault::NoBegin);
    check("*** Begin Patch", 1, Fault::NoEnd);
    check("*** Begin Patch\n*** Delete File: a\n", 2, Fault::NoEnd);
    check("*** Begin Patch\n*** End Patch\nmore", 3, Fault::NoEnd);
    check("<<'EOF'\n*** Begin Patch\n*** End Patch\n", 1, Fault::NoBegin);
    check(&envelope(""), 2, Fault::Empty);
    check(&envelope("hello\n"), 2, Fault::NoOperation);
    check(&envelope("*** Rename File: a\n"), 2, Fault::NoOperation);
    check(&envelope("*** Add File: a\nx\n"), 3, Fault::NoOperation);
    check(&envelope("*** Update File: a\n"), 2, Fault::NoHunks);
    check(&envelope("*** Update File: a\n@@\n"), 3, Fault::EmptyHunk);
    check(
        &envelope("*** Update File: a\n@@ x\n*** End of File\n"),
        3,
        Fault::EmptyHunk,
    );
    check(
        &envelope("*** Update File: a\n@@\n x\n!y\n"),
        5,
        Fault::NoHunkLine,
    );
    check(
        &envelope("*** Update File: a\n*** Move to: ../b\n"),
        3,
        Fault::Path(PathFault::Up),
    );
    check(&envelope("*** Add File: \n"), 2, Fault::Path(PathFault::Empty));
    check(
        &envelope("*** Delete File: .git/x\n"),
        2,
        Fault::Path(PathFault::Git),
    );
    let many = "*** Delete File: a\n".repeat(MAX_OPERATIONS + 1);
    check(&envelope(&many), MAX_OPERATIONS + 2, Fault::TooManyOperations);
}

#[test]
fn lines_that_stay_are_those_of_the_file() {
    // Found by its look alone, and not changed for that.
    assert_eq!(
        updated("  a \u{2013} b\t\nold\n", " a - b\n-old\n+new\n").unwrap(),
        "  a \u{2013} b\t\nnew\n"
    );
}

#[test]
fn endings_are_those_of_the_file() {
    #[track_caller]
    fn check(old: &str, hunks: &str, expected: &str) {
        assert_eq!(updated(old, hunks).unwrap(), expected, "{old:?}");
    }
    check("a\r\nb\r\n", " a\n-b\n+c\n+d\n", "a\r\nc\r\nd\r\n");
    check("a\nb", " a\n-b\n+c\n+d\n", "a\nc\nd");
    check("a\r\nb", "+c\n", "a\r\nb\r\nc");
    check("", "+c\n", "c\n");
    check("a", "+c\n", "a\nc");
    check("a", "-a\n", "");
    check("a\nb", "-b\n", "a");
    check("a\r\nb\nc\n", "@@ b\n+x\n", "a\r\nb\nx\nc\n");
    check("a\r\nb\nc\n", "@@ a\n+x\n", "a\r\nx\r\nb\nc\n");
    check("x\n", "@@\n+first\n x\n", "first\nx\n");
    check("x\r\n", "@@\n+first\n x\n", "first\r\nx\r\n");
}

#[test]
fn a_context_narrows_and_the_order_counts() {
    let old = "f\n x\ng\n x\nh\n";
    assert_eq!(updated(old, "@@ g\n- x\n+y\n").unwrap(), "f\n x\ng\ny\nh\n");
    assert_eq!(updated(old, "- x\n+y\n").unwrap(), "f\ny\ng\n x\nh\n");
    assert_eq!(updated(old, "@@ f\n@@ g\n+y\n").unwrap(), "f\n x\ng\ny\n x\nh\n");
    assert_eq!(updated(old, "-h\n*** End of File\n").unwrap(), "f\n x\ng\n x\n");
    assert_eq!(updated(old, "+end\n@@\n-f\n").unwrap(), " x\ng\n x\nh\nend\n");
    for (hunks, hunk, misfit) in [
        ("-g\n@@\n-f\n", 2, Misfit::Lines),
        ("-nothing\n", 1, Misfit::Lines),
        ("@@ h\n-g\n", 1, Misfit::Lines),
        ("@@ i\n-g\n", 1, Misfit::Context),
        ("@@ h\n@@ g\n-g\n", 1, Misfit::Context),
        ("-g\n*** End of File\n", 1, Misfit::NotAtEnd),
    ] {
        assert_eq!(updated(old, hunks), Err(HunkError { hunk, misfit }), "{hunks}");
    }
}

#[test]
fn files_with_too_many_lines_are_refused() {
    let old = "\n".repeat(MAX_FILE_LINES + 1);
    assert_eq!(updated(&old, "+x\n").unwrap_err().misfit, Misfit::TooLong);
}

/// A text of a few different lines, so that places are ambiguous, with endings of one kind.
fn text() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(
        prop_oneof!["[ab]", Just(String::new()), "[a-c ]{1,3}", Just("}".to_owned())],
        0..30,
    )
}

/// Hunks that make one text of another: everything in one, with all lines, which fits in one place only; or one for each
/// change, with the line number of the file told by context lines.
fn hunks_between(old: &[String], new: &[String]) -> Vec<Hunk> {
    let prefix = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let suffix = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(|(old, new)| old == new)
        .count();
    let keep = |lines: &[String]| lines.iter().cloned().map(Line::Keep).collect::<Vec<_>>();
    let mut lines = keep(&old[..prefix]);
    lines.extend(
        old_rest[..old_rest.len() - suffix]
            .iter()
            .cloned()
            .map(Line::Remove),
    );
    lines.extend(
        new_rest[..new_rest.len() - suffix]
            .iter()
            .cloned()
            .map(Line::Insert),
    );
    lines.extend(keep(&old_rest[old_rest.len() - suffix..]));
    vec![Hunk {
        contexts: vec![],
        lines,
        at_end: false,
    }]
}

fn whole(lines: &[String], ending: &str, is_open: bool) -> String {
    let mut text: String = lines.iter().flat_map(|line| [line.as_str(), ending]).collect();
    if is_open && !lines.is_empty() {
        text.truncate(text.len() - ending.len());
    }
    text
}

fn printed(hunks: &[Hunk]) -> String {
    let mut text = String::new();
    for hunk in hunks {
        text.push_str("@@\n");
        for context in &hunk.contexts {
            text.extend(["@@ ", context, "\n"]);
        }
        for line in &hunk.lines {
            let (mark, line) = match line {
                Line::Keep(line) => (" ", line.as_str()),
                Line::Remove(line) => ("-", line.as_str()),
                Line::Insert(line) => ("+", line.as_str()),
            };
            text.extend([mark, line, "\n"]);
        }
        if hunk.at_end {
            text.push_str("*** End of File\n");
        }
    }
    text
}

proptest! {
    #[test]
    fn a_difference_applied_is_the_other_text(
        old in text(),
        new in text(),
        crlf: bool,
        open: bool,
        through_text: bool,
    ) {
        let ending = if crlf { "\r\n" } else { "\n" };
        // A last line that is empty and has no ending is not there, and a file of nothing has no endings to take over.
        let open = open && old.last().is_some_and(|line| !line.is_empty());
        let ending = if old.is_empty() || (open && old.len() == 1) { "\n" } else { ending };
        let mut hunks = hunks_between(&old, &new);
        prop_assume!(!hunks[0].lines.is_empty());
        if through_text {
            let patch = Patch::parse(&envelope(&format!("*** Update File: f\n{}", printed(&hunks)))).unwrap();
            let Some(Operation::Update { hunks: read, .. }) = patch.operations().first() else {
                panic!("an update");
            };
            prop_assert_eq!(read, &hunks);
            hunks.clone_from(read);
        }
        let result = apply(&whole(&old, ending, open), &hunks).unwrap();
        prop_assert_eq!(result, whole(&new, ending, open));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\*\\*\\* (Begin Patch|End Patch|Add File: a|Update File: b|Delete File: c|Move to: d|End of File)\n|@@( x)?\n|[ +-]?[a-c]{0,2}\r?\n|\\PC{0,5}\n){0,20}") {
        drop(Patch::parse(&text));
        drop(Patch::parse(&envelope(&text)));
    }

    #[test]
    fn hunks_of_any_kind_apply_or_say_why(old in "([ab]?\r?\n){0,12}[ab]?", hunks in "((@@( [ab])?\n)|([ +-][ab]?\n)|(\\*\\*\\* End of File\n)){1,12}") {
        let Ok(patch) = Patch::parse(&envelope(&format!("*** Update File: f\n{hunks}"))) else {
            return Ok(());
        };
        let Some(Operation::Update { hunks, .. }) = patch.operations().first() else {
            panic!("an update");
        };
        if let Ok(new) = apply(&old, hunks) {
            let count = |wanted: fn(&Line) -> bool| hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| wanted(line)).count();
            let inserted = count(|line| matches!(line, Line::Insert(_)));
            let removed = count(|line| matches!(line, Line::Remove(_)));
            let lines = |text: &str| text.split_inclusive('\n').count();
            // An empty last line without an ending cannot be told from none.
            let expected = lines(&old) + inserted - removed;
            prop_assert!(lines(&new) == expected || lines(&new) + 1 == expected, "{old:?} {hunks:?} {new:?}");
        }
    }
}
