//! A writer that does not know deny rules and grants drops them. That is noticed, and never forgotten by itself.

use serde_json::{Value, json};

use super::findings;
use crate::support::{Members, TestServer};

const ACCEPT: &str = "/v1/policy/document/accept";

fn document() -> Value {
    json!({ "version": 1, "agents": { "main": {
        "security": "allowlist", "ask": "off",
        "allowlist": [{ "id": "7B6B3C7E-0D0B-4C56-9C1E-2F7A3B0C9D11", "pattern": "/usr/bin/date",
            "argPattern": "^(-u)?$" }],
        "grants": [{ "pattern": "/usr/bin/id", "maxUses": 3 }],
        "denylist": [{ "pattern": "uname", "reason": "no" }, { "pattern": "dd", "argPattern": "of=" }],
    } } })
}

/// The document as the product's macOS app writes it again: its members alone, slashes escaped, spaces before colons.
fn rewritten_by_the_app() -> &'static str {
    r#"{
  "agents" : {
    "main" : {
      "allowlist" : [
        {
          "id" : "7B6B3C7E-0D0B-4C56-9C1E-2F7A3B0C9D11",
          "lastUsedAt" : 1737150000123.4561,
          "pattern" : "\/usr\/bin\/date"
        }
      ],
      "ask" : "off",
      "security" : "allowlist"
    }
  },
  "version" : 1
}
"#
}

async fn lost(server: &TestServer) -> Vec<Value> {
    findings(server, "document-lost-rules").await
}

#[tokio::test]
async fn rules_that_another_program_dropped_are_an_error_until_they_are_back() {
    let mut server = TestServer::allowlist_only().document(&document()).start().await;
    let explain = json!({ "argv": ["uname"] });
    let reason = async |server: &TestServer| {
        let explained = server.agent().explain(explain.clone()).await;
        explained["reason"].clone()
    };
    assert_eq!(reason(&server).await, "denylist");
    assert_eq!(lost(&server).await, Vec::<Value>::new());
    // No command ran, so the edit counts at once; the grants are gone with it, which allows nothing.
    server.edit_document(rewritten_by_the_app());
    assert_eq!(reason(&server).await, "allowlist-miss");
    for round in ["noticed", "after a restart"] {
        let found = lost(&server).await;
        assert_eq!(found.len(), 1, "{round}");
        assert_eq!(found[0]["severity"], "error");
        let explanation = found[0].text("explanation");
        assert!(
            explanation.contains(r#""uname", "dd" and 1 grants"#),
            "{explanation}"
        );
        assert!(
            explanation.contains(r#"the entry "/usr/bin/date" are gone"#),
            "{explanation}"
        );
        server.stop().await;
        server.start().await;
    }
    for rule in [
        json!({ "pattern": "uname" }),
        json!({ "pattern": "dd", "argPattern": "of=" }),
    ] {
        assert_eq!(lost(&server).await.len(), 1, "not all of them are back");
        server.operator().made("/v1/agents/main/denylist", rule).await;
    }
    let unbound = lost(&server).await;
    assert_eq!(unbound.len(), 1, "an entry still covers any arguments");
    let entry = "/v1/agents/main/allowlist/7B6B3C7E-0D0B-4C56-9C1E-2F7A3B0C9D11";
    assert_eq!(server.operator().delete(entry).await.status, 204);
    assert_eq!(lost(&server).await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_admin_can_say_that_nothing_is_missed() {
    let server = TestServer::allowlist_only().document(&document()).start().await;
    server.edit_document(rewritten_by_the_app());
    let effective = server.operator().read("/v1/policy/effective").await;
    assert_eq!(lost(&server).await.len(), 1);
    let hash = json!({ "hash": effective["document"]["hash"] });
    server.operator().posted(ACCEPT, hash).await;
    assert_eq!(lost(&server).await, Vec::<Value>::new());
}

#[tokio::test]
async fn after_a_command_ran_the_rules_hold_until_an_admin_accepts_their_loss() {
    let server = TestServer::allowlist_only().document(&document()).start().await;
    server.ran(json!({ "argv": ["/usr/bin/date"] })).await;
    server.edit_document(rewritten_by_the_app());
    let denied = server.agent().exec(json!({ "argv": ["uname"] })).await;
    assert_eq!(denied.problem(403, "exec-denied")["reason"], "denylist");
    assert_eq!(
        lost(&server).await.len(),
        1,
        "doctor does not wait for the acceptance"
    );
    let effective = server.operator().read("/v1/policy/effective").await;
    let hash = json!({ "hash": effective["document"]["held"]["hash"] });
    server.operator().posted(ACCEPT, hash).await;
    let denied = server.agent().exec(json!({ "argv": ["uname"] })).await;
    assert_eq!(denied.problem(403, "exec-denied")["reason"], "allowlist-miss");
    assert_eq!(lost(&server).await, Vec::<Value>::new());
}
