//! Two processes that edit one approvals document lose nothing of each other.

use std::{convert::Infallible, path::Path, sync::Arc, time::Duration};

use countersign_config::approvals::{
    document::Entry,
    store::{Base, DocumentStore},
};
use countersign_sys::clock::{Ids, SystemClock, SystemIds};
use serde_json::Value;

use crate::support::{Invocation, Members, Scratch, own_variable, run_long_program, write_file_mode};

const ENTRIES: usize = 500;
/// Every entry is a file that is synced and renamed, and the disk may be busy with other things.
const A_THOUSAND_SYNCS: Duration = Duration::from_mins(4);
const DOCUMENT: &str = "COUNTERSIGN_TEST_DOCUMENT";
const WRITER: &str = "COUNTERSIGN_TEST_WRITER";

/// Started again by the test below as a process of its own; alone it adds its entries to a document of its own.
#[test]
fn one_process_adds_all_its_entries() {
    let scratch = Scratch::new();
    let own = scratch.join("exec-approvals.json").display().to_string();
    let path = own_variable(DOCUMENT).unwrap_or(own);
    let writer = own_variable(WRITER).unwrap_or_else(|| "alone".to_owned());
    add_entries(Path::new(&path), &writer);
    assert_eq!(
        patterns(Path::new(&path))
            .iter()
            .filter(|pattern| pattern.contains(&writer))
            .count(),
        ENTRIES
    );
}

#[test]
fn two_processes_adding_entries_lose_none() {
    let scratch = Scratch::new();
    let path = scratch.join("exec-approvals.json");
    let kept =
        r#"{ "version": 1, "x-other": [1.0, null], "agents": { "main": { "x-mine": { "a": 1e3 } } } }"#;
    write_file_mode(&path, kept, 0o600);
    let writers: Vec<_> = ["first", "second"]
        .into_iter()
        .map(|writer| {
            let invocation = Invocation::new(std::env::current_exe().expect("this test program"))
                .args(&[
                    "--exact",
                    "document_concurrency::one_process_adds_all_its_entries",
                ])
                .env(DOCUMENT, &path)
                .env(WRITER, writer);
            std::thread::spawn(move || run_long_program(&invocation, A_THOUSAND_SYNCS))
        })
        .collect();
    for writer in writers {
        let done = writer.join().unwrap();
        assert_eq!(done.code, Some(0), "{done:#?}");
    }
    let mut patterns = patterns(&path);
    patterns.sort_unstable();
    patterns.dedup();
    assert_eq!(patterns.len(), 2 * ENTRIES);
    let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(document["x-other"], serde_json::json!([1.0, null]));
    assert_eq!(
        document["agents"]["main"]["x-mine"],
        serde_json::json!({ "a": 1000.0 })
    );
    let left: Vec<_> = std::fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != "exec-approvals.json")
        .collect();
    assert!(
        left.is_empty(),
        "neither a lock nor a temporary file stays: {left:?}"
    );
}

fn add_entries(path: &Path, writer: &str) {
    let home = path.parent().expect("a directory").to_owned();
    let store = DocumentStore::open(path.to_owned(), home, Arc::new(SystemClock), Arc::new(SystemIds));
    for number in 0..ENTRIES {
        let id = SystemIds.entry_id();
        let entry = Entry {
            pattern: format!("/opt/{writer}/{number}"),
            ..Entry::default()
        };
        store
            .update(Base::Any, |document| {
                Ok::<_, Infallible>(document.add_entry("main", id.clone(), entry.clone()))
            })
            .unwrap_or_else(|error| panic!("{writer} {number}: {error:?}"));
    }
}

fn patterns(path: &Path) -> Vec<String> {
    let document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let entries = document["agents"]["main"]["allowlist"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    entries
        .iter()
        .map(|entry| entry.text("pattern").to_owned())
        .collect()
}
