//! The requirements of the two source documents and the tests that show them: every test that `docs/coverage.md` names
//! exists and is not switched off. That they also ran and passed is what `dev/coverage-ran` looks at.

use std::{collections::BTreeSet, fs, path::Path};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every test by its path: those of `tests/it` as the test program names them, unit tests behind the name of their crate,
/// other tests of a crate behind its name and that of their program.
fn tests() -> BTreeSet<String> {
    let mut found = tests_below(&root().join("tests/it"), "");
    found.extend(tests_below(&root().join("src"), "countersign::"));
    for entry in fs::read_dir(root().join("crates")).expect("the crates") {
        let folder = entry.expect("a crate").path();
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        found.extend(tests_below(&folder.join("src"), &format!("countersign_{name}::")));
        if folder.join("tests").is_dir() {
            found.extend(tests_below(
                &folder.join("tests"),
                &format!("countersign_{name}::"),
            ));
        }
    }
    found
}

fn tests_below(root: &Path, prefix: &str) -> BTreeSet<String> {
    let mut folders = vec![root.to_path_buf()];
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let module = module_of(path.strip_prefix(root).expect("below the root"));
                let text = fs::read_to_string(&path).expect("a source file");
                let names = names_of_tests(&text);
                found.extend(names.iter().map(|name| format!("{prefix}{module}{name}")));
            }
        }
    }
    found
}

/// `engine/process/mod.rs` is `engine::process::`. Tests in a module at the end of their file are counted to the file.
fn module_of(file: &Path) -> String {
    let mut parts: Vec<String> = file
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if parts
        .last()
        .is_some_and(|last| last == "mod" || last == "main" || last == "lib")
    {
        parts.pop();
    }
    parts.into_iter().map(|part| part + "::").collect()
}

/// The functions behind a test attribute that are not switched off.
fn names_of_tests(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut is_test, mut is_off) = (false, false);
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            is_off |= line.starts_with("#[ignore");
        } else if let Some((_before, declared)) = line.split_once("fn ") {
            let name = declared.split(['(', '<']).next();
            found.extend(name.filter(|_name| is_test && !is_off));
            (is_test, is_off) = (false, false);
        }
    }
    found
}

/// What stands between backticks in the second column of the tables, row by row.
fn rows() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(root().join("docs/coverage.md")).expect("docs/coverage.md");
    let (requirements, _decisions) = text.split_once("\n## Decisions\n").expect("the decisions");
    let rows = requirements.lines().filter_map(|line| {
        let (requirement, tests) = line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")?;
        let is_head = requirement == "requirement" || requirement.starts_with("---");
        let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned);
        (!is_head).then(|| (requirement.to_owned(), tests.collect()))
    });
    rows.collect()
}

/// What no test shows, and the page says so.
const OPEN: [&str; 2] = [
    "It is a launchd agent on macOS and a service on Windows",
    "The runner is what executes on macOS and Windows",
];

#[test]
fn what_is_open_says_so_and_why() {
    let text = fs::read_to_string(root().join("docs/coverage.md")).expect("docs/coverage.md");
    let open = text.lines().filter_map(|line| {
        let (requirement, why) = line.strip_prefix("| ")?.split_once(" | open: ")?;
        assert!(why.len() > 10, "{line}");
        Some(requirement)
    });
    assert_eq!(open.collect::<Vec<_>>(), OPEN);
}

#[test]
fn every_requirement_names_tests_that_exist() {
    let there = tests();
    let rows = rows();
    assert!(rows.len() > 150, "only {} rows were read", rows.len());
    let mut wrong = Vec::new();
    for (requirement, named) in rows
        .iter()
        .filter(|(requirement, _)| !OPEN.contains(&requirement.as_str()))
    {
        if named.is_empty() {
            wrong.push(format!("no test shows: {requirement}"));
        }
        let missing = named.iter().filter(|name| !there.contains(*name));
        wrong.extend(missing.map(|name| format!("there is no test {name} ({requirement})")));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn tests_are_found_by_their_attribute_unless_they_are_switched_off() {
    let text = "#[test]\nfn plain() {}\n#[tokio::test(start_paused = true)]\nasync fn later() {}\n#[test]\n\
                #[ignore = \"why\"]\nfn off() {}\n#[ignore = \"why\"]\n#[test]\nfn off_too() {}\nfn helper() {}\n\
                #[test]\n#[expect(\n    lint,\n    reason = \"why\"\n)]\n    fn expected(\n";
    assert_eq!(names_of_tests(text), ["plain", "later", "expected"]);
}

#[test]
fn modules_are_named_as_the_test_program_names_them() {
    for (file, module) in [
        ("seed.rs", "seed::"),
        ("engine/process/mod.rs", "engine::process::"),
        ("main.rs", ""),
        ("policy/allowlist/tests.rs", "policy::allowlist::tests::"),
    ] {
        assert_eq!(module_of(Path::new(file)), module, "{file}");
    }
}
