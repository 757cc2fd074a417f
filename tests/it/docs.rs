//! What the documents say is what the program does.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::support::{Members, Scratch, countersign, run_program};

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect(name)
}

#[test]
fn the_table_of_defaults_is_what_the_program_says() {
    let scratch = Scratch::new();
    let doctor = countersign()
        .args(&["doctor", "--json"])
        .env("OPENCLAW_STATE_DIR", scratch.path());
    let doctor = run_program(&doctor);
    let report: Value = serde_json::from_str(&doctor.stdout).expect("doctor prints JSON");
    let state = scratch.path().to_string_lossy().into_owned();
    let program: BTreeMap<String, String> = report
        .list("settings")
        .iter()
        .map(|setting| {
            let key = setting.text("key").to_owned();
            let later = if setting["effective"] == true {
                ""
            } else {
                " later"
            };
            let default = &setting["default"];
            let shown = if default.is_null() {
                "–".to_owned()
            } else {
                default.to_string().replace(&state, "{state}").replace(' ', "")
            };
            (key, format!("{shown}{later}"))
        })
        .collect();
    let document: BTreeMap<String, String> = read("docs/defaults.md")
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
            let key = cells.first()?.strip_suffix('`')?.to_owned();
            let default = cells.get(1)?.trim_matches('`').replace(' ', "");
            let later = if cells.iter().any(|cell| cell.ends_with("later")) {
                " later"
            } else {
                ""
            };
            Some((key, format!("{default}{later}")))
        })
        .collect();
    assert_eq!(
        document, program,
        "docs/defaults.md (left) and doctor --json (right)"
    );
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"]
        .iter()
        .map(|name| root.join(name))
        .collect();
    for folder in ["docs", "docs/agents"] {
        let folder = fs::read_dir(root.join(folder)).expect(folder);
        documents.extend(
            folder
                .map(|entry| entry.expect("an entry").path())
                .filter(|path| path.is_file()),
        );
    }
    let mut dead = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).expect("a document");
        // Links are relative to the document.
        let mut pieces = text.split("](");
        let mut prose = pieces.next().unwrap_or_default().to_owned();
        let folder = document.parent().expect("a folder");
        for piece in pieces {
            let (link, behind) = piece.split_once(')').unwrap_or((piece, ""));
            prose.push(' ');
            prose.push_str(behind);
            let link = link.split('#').next().unwrap_or_default();
            if !link.contains("://") && !folder.join(link).exists() {
                dead.push(format!("{}: {link}", document.display()));
            }
        }
        // In prose `docs/….md` and the documents at the top are named by their path from there.
        for word in prose.split(|c: char| c.is_whitespace() || "`()[],;:\"".contains(c)) {
            let word = word.trim_end_matches('.');
            let names_a_document = Path::new(word).extension().is_some_and(|kind| kind == "md")
                && !word.contains("://")
                && (word.starts_with("docs/") || !word.contains('/'));
            if names_a_document && !root.join(word).exists() {
                dead.push(format!("{}: {word}", document.display()));
            }
        }
    }
    assert_eq!(dead, Vec::<String>::new());
}

#[test]
fn the_glossary_names_what_the_code_has() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let glossary = fs::read_to_string(root.join("docs/glossary.md")).expect("docs/glossary.md");
    let code = [sources(&root.join("src")), sources(&root.join("crates"))].concat();
    let words: BTreeSet<&str> = code
        .iter()
        .flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect();
    let rows = glossary
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.rsplit_once(" | ").map(|(_, last)| last));
    let named: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 50, "{named:?}");
    let unknown: Vec<&&str> = named
        .iter()
        .filter(|path| !path.split("::").all(|part| words.contains(part)))
        .collect();
    assert_eq!(unknown, Vec::<&&str>::new());
}

/// The texts of all Rust files below a folder.
fn sources(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            texts.extend(sources(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            texts.push(fs::read_to_string(&path).expect("a source file"));
        }
    }
    texts
}
