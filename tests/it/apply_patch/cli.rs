use std::fs;

use serde_json::{Value, json};

use super::{envelope, read, workspace};
use crate::support::{Members, TestServer, write_file};

#[tokio::test]
async fn files_that_changed_are_listed_and_a_misfit_is_an_error() {
    let server = TestServer::full().start().await;
    let file = server.scratch().join("a.patch");
    write_file(&workspace(&server).join("old"), "1\n");
    write_file(
        &file,
        envelope("*** Add File: new\n+x\n*** Update File: old\n*** Move to: moved\n"),
    );
    let path = file.to_str().unwrap();
    let done = server.cli(&["apply-patch", path]).await;
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(0), "added    new\nmoved    moved (from old)\n"),
        "{done:?}"
    );
    let done = server.cli(&["apply-patch", path]).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stderr
            .starts_with("error[patch-failed]: new: there is something of this name already"),
        "{done:?}"
    );
    let nonsense = server.invocation(&["apply-patch", "-"]).input("hello");
    let done = TestServer::finish(nonsense).await;
    assert_eq!(done.code, Some(64), "{done:?}");
    let from_input = server
        .invocation(&["--json", "apply-patch"])
        .input(envelope("*** Delete File: new\n"));
    let done = TestServer::finish(from_input).await;
    let answer: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(answer["changed"], json!([{ "path": "new", "kind": "deleted" }]));
    let done = server.cli(&["apply-patch", "/nowhere/at/all"]).await;
    assert_eq!(done.code, Some(64), "{done:?}");
}

#[tokio::test]
async fn it_waits_for_the_decision_and_tells_it() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("a.patch");
    write_file(&file, envelope("*** Add File: new\n+x\n"));
    let path = file.to_str().unwrap();
    let done = server.cli(&["apply-patch", "--no-wait", path]).await;
    assert_eq!(done.code, Some(75), "{done:?}");
    let first = server.operator().pending().await;
    let first = first[0].text("id").to_owned();
    server.operator().decided(&first, "deny").await;
    for (decision, code) in [("deny", 77), ("allow-once", 0)] {
        let operator = server.operator();
        let arguments = ["apply-patch", path];
        let (done, ()) = tokio::join!(server.cli(&arguments), async {
            let pending = operator.waiting().await;
            let id = pending[0].text("id");
            operator.decided(id, decision).await;
        });
        assert_eq!(done.code, Some(code), "{decision}: {done:?}");
        assert_eq!(workspace(&server).join("new").exists(), code == 0);
    }
    assert_eq!(read(&server, "new"), "x\n");
    fs::remove_file(workspace(&server).join("new")).unwrap();
}
