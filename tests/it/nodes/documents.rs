use serde_json::{Value, json};

use super::{DOCUMENT, operator_token, paired};
use crate::support::{OperatorClient, TestServer};

const HASH: &str = "36fe1921ebfdd773c249663d651cdbf53223b8948509c5aa870b12e31f81b4cb";

fn present() -> Value {
    json!({
        "path": "/home/user/.openclaw/exec-approvals.json",
        "exists": true,
        "hash": HASH,
        // A node that shows the token of its socket must not make us repeat it.
        "file": { "version": 1, "socket": { "path": "/x", "token": "secret" }, "agents": {} },
    })
}

#[tokio::test]
async fn the_document_of_a_node_is_fetched_from_it_and_set_on_it() {
    let server = TestServer::asking().start().await;
    let node = paired(&server, "build-box", DOCUMENT).await;
    let operator = server.operator();
    let path = format!("/v1/nodes/{}/policy/document", node.id());
    node.answers(|command, params| match command {
        "system.execApprovals.get" => Ok(present()),
        "system.execApprovals.set" if params["file"]["agents"].get("refused").is_some() => {
            Err(("INVALID_REQUEST", "Error: INVALID_REQUEST: not this one"))
        }
        "system.execApprovals.set" if params["baseHash"] == HASH => {
            let mut set = present();
            set["file"] = params["file"].clone();
            set["hash"] = json!("a".repeat(64));
            Ok(set)
        }
        _ => Err((
            "INVALID_REQUEST",
            "Error: INVALID_REQUEST: exec approvals changed; reload and retry",
        )),
    });
    let answer = operator.get(&path).await;
    let file = answer.expect(200);
    assert_eq!(
        file,
        json!({ "version": 1, "socket": { "path": "/x" }, "agents": {} })
    );
    assert_eq!(answer.header("etag"), Some(format!("\"{HASH}\"").as_str()));

    let next = json!({ "version": 1, "defaults": { "security": "deny" } });
    let put = async |tag: Option<&str>, body: &Value| {
        let request = operator.request(reqwest::Method::PUT, &path).json(body);
        let request = match tag {
            Some(tag) => request.header("If-Match", tag),
            None => request,
        };
        operator.send(request).await
    };
    assert_has!(put(None, &next).await.problem(428, "base-hash-required"), { "currentHash": HASH });
    let stale = put(Some(&format!("\"{}\"", "b".repeat(64))), &next).await;
    assert_eq!(stale.problem(412, "base-hash-mismatch")["currentHash"], HASH);
    // As here: the node may be a program that would take what it does not know.
    let wrong = [
        (json!([]), ""),
        (json!({ "version": 2 }), "/version"),
        (
            json!({ "version": 1, "defaults": { "security": "none" } }),
            "/defaults/security",
        ),
    ];
    for (body, pointer) in wrong {
        let problem = put(Some("*"), &body).await.problem(422, "invalid-document");
        assert_eq!(problem["pointer"], pointer, "{problem}");
    }
    let typo = json!({ "version": 1, "secuirty": "deny", "agents": { "main": { "x": 1 } } });
    let problem = put(Some("*"), &typo).await.problem(422, "unknown-field");
    let place = |at: usize| problem["fields"][at]["path"].clone();
    assert_eq!([place(0), place(1)], ["/secuirty", "/agents/main/x"], "{problem}");
    let refused = json!({ "version": 1, "agents": { "refused": {} } });
    let problem = put(Some("*"), &refused).await.problem(422, "invalid-document");
    assert_eq!(problem["pointer"], "");
    let answer = put(Some(&format!("\"{HASH}\"")), &next).await;
    assert_eq!(answer.expect(200), next);
    assert_eq!(
        answer.header("etag"),
        Some(format!("\"{}\"", "a".repeat(64)).as_str())
    );
}

#[tokio::test]
async fn a_node_that_is_not_there_or_answers_oddly_is_unavailable() {
    let server = TestServer::asking().start().await;
    let node = paired(&server, "build-box", DOCUMENT).await;
    let operator = server.operator();
    let path = format!("/v1/nodes/{}/policy/document", node.id());
    for odd in [
        json!(7),
        json!({}),
        json!({ "file": [], "hash": HASH }),
        json!({ "file": {}, "hash": "a\"\r\nb" }),
    ] {
        let answer = odd.clone();
        node.answers(move |_, _| Ok(answer.clone()));
        operator.get(&path).await.problem(503, "node-unavailable");
    }
    node.answers(|_, _| Err(("UNAVAILABLE", "no")));
    operator.get(&path).await.problem(503, "node-unavailable");
    drop(node);
    crate::support::eventually(
        "gone",
        || async { operator.get(&path).await.json()["detail"].clone() },
        |detail| detail == "the node is not connected",
    )
    .await;
    operator
        .get(&format!("/v1/nodes/{}/policy/document", "0".repeat(64)))
        .await
        .problem(404, "node-not-found");
}

#[tokio::test]
async fn operators_read_and_set_both_documents_by_the_hash_rules() {
    let server = TestServer::asking().start().await;
    let node = paired(&server, "build-box", DOCUMENT).await;
    node.answers(|command, params| match command {
        "system.execApprovals.get" => Ok(present()),
        _ if params["baseHash"] == HASH => Ok(present()),
        _ => Err((
            "INVALID_REQUEST",
            "Error: INVALID_REQUEST: exec approvals base hash required; reload and retry",
        )),
    });
    let id = node.id();
    let client = OperatorClient::new(&operator_token(&server), &["operator.admin"]);
    let mut present_generation = client.connect(&server).await;
    let mut first = client.first_generation().connect(&server).await;
    for operator in [&mut present_generation, &mut first] {
        let got = operator
            .call("exec.approvals.node.get", json!({ "nodeId": id }))
            .await;
        assert_eq!(got["hash"], HASH);
        let set = json!({ "nodeId": id, "baseHash": HASH, "file": { "version": 1 } });
        assert_has!(operator.call("exec.approvals.node.set", set).await, { "exists": true });
        let error = operator
            .fails("exec.approvals.node.set", json!({ "nodeId": id, "file": {} }))
            .await;
        assert_eq!(error["code"], "UNAVAILABLE");
        assert_eq!(error["details"]["nodeError"]["code"], "INVALID_REQUEST");

        let ours = operator.call("exec.approvals.get", json!({})).await;
        assert!(ours["hash"].is_string() && ours["file"]["version"] == 1, "{ours}");
        let file = json!({ "version": 1, "defaults": { "ask": "always" } });
        if ours["exists"] == true {
            let error = operator
                .fails("exec.approvals.set", json!({ "file": file }))
                .await;
            assert_eq!(
                error["message"],
                "INVALID_REQUEST: exec approvals base hash required; reload and retry"
            );
        }
        let stale = json!({ "file": file, "baseHash": "0".repeat(64) });
        let error = operator.fails("exec.approvals.set", stale).await;
        assert_has!(error, { "message": "INVALID_REQUEST: exec approvals changed; reload and retry" });
        let set = json!({ "file": file, "baseHash": ours["hash"] });
        let changed = operator.call("exec.approvals.set", set).await;
        assert_eq!(changed["file"]["defaults"]["ask"], "always");
        assert!(changed.pointer("/file/socket/token").is_none());
    }
    assert_eq!(server.document_on_disk()["defaults"]["ask"], "always");
}
