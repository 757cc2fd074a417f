//! An approvals document of the largest size.

use serde_json::{Value, json};

use super::{put, tag_of};
use crate::support::{TestServer, write_file};

const PATH: &str = "/v1/policy/document";
const ENTRIES: usize = 125_000;
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// So many entries of which one covers `date`, as a person would write them: without ids.
fn document(entries: usize) -> Value {
    let others = (1..entries).map(|number| json!({ "pattern": format!("/opt/tools/b{number:06}") }));
    let entries: Vec<Value> = others.chain([json!({ "pattern": "/**/date" })]).collect();
    json!({ "version": 1, "agents": { "main": { "allowlist": entries } } })
}

#[tokio::test]
async fn a_document_of_125_000_entries_is_read_sent_and_kept() {
    let document = document(ENTRIES);
    let bytes = document.to_string().len();
    assert!(bytes > 4_000_000, "{bytes}");
    let mut server = TestServer::allowlist_only().document(&document).start().await;
    let operator = server.operator();
    // Nothing runs before it is replaced: the use of an entry is noted in the document.
    server.agent().denied(json!({ "argv": ["/usr/bin/id"] })).await;

    // With an id for each entry the answer is larger, and what was read can be sent back.
    let answer = operator.get(PATH).await;
    let tag = answer.header("etag").expect("an ETag").to_owned();
    let mut whole = answer.expect(200);
    assert!(whole.to_string().len() > 8_000_000);
    let list = whole["agents"]["main"]["allowlist"]
        .as_array_mut()
        .expect("a list");
    assert_eq!(list.len(), ENTRIES);
    list.push(json!({ "pattern": "/**/id" }));
    put(&operator, PATH, Some(&tag), &whole).await.expect(200);
    server.agent().ran(json!({ "argv": ["/bin/date"] })).await;
    server.agent().ran(json!({ "argv": ["/usr/bin/id"] })).await;

    // What was accepted of it is kept whole over a restart.
    assert_eq!(server.stop().await, Some(0));
    server.start().await;
    let operator = server.operator();
    assert_eq!(operator.read("/readyz").await["checks"]["document"]["ok"], true);
    server.agent().ran(json!({ "argv": ["/usr/bin/id"] })).await;
    let written = std::fs::metadata(server.document_path())
        .expect("the document")
        .len();
    assert!(written > 8_000_000 && written < MAX_BYTES as u64, "{written}");
}

#[tokio::test]
async fn a_larger_document_is_refused_with_its_size_and_the_limit() {
    let server = TestServer::allowlist_only().document(&document(2)).start().await;
    let operator = server.operator();
    let tag = tag_of(&operator, PATH).await;
    let words = format!("too-large, {} bytes of at most {MAX_BYTES}", MAX_BYTES + 1);

    let mut long = document(2);
    long["x"] = json!("x".repeat(MAX_BYTES));
    let sent = put(&operator, PATH, Some(&tag), &long).await;
    let detail = sent.problem(413, "body-too-large");
    let bytes = long.to_string().len();
    assert_eq!(
        detail["detail"],
        format!("the body has {bytes} bytes, and at most {MAX_BYTES} are taken")
    );
    assert_has!(detail, { "limitBytes": MAX_BYTES, "sentBytes": bytes });

    let text = document(2).to_string();
    let padded = format!("{text}{}", " ".repeat(MAX_BYTES + 1 - text.len()));
    write_file(&server.document_path(), &padded);
    let refused = operator.get(PATH).await.problem(409, "document-refused");
    assert_eq!(refused["reason"], "too-large");
    assert!(
        refused["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains(&words)),
        "{refused}"
    );
    let denied = server.agent().exec(json!({ "argv": ["/bin/date"] })).await;
    assert_eq!(denied.problem(403, "exec-denied")["reason"], "document-refused");
}
