//! The list of questions: never older than the last answer, and as `view=brief` short and masked.

use serde_json::{Value, json};

use super::{asked, id};
use crate::{
    approval_rules::ann_and_bob,
    support::{Api, Members, TestServer, eventually},
};

const TWO: &str = "[[approvals.rules]]\napprovals_required = 2\n";

async fn list(client: &Api, query: &str) -> Vec<Value> {
    let list = client.read(&format!("/v1/approvals?view=brief{query}")).await;
    list.list("items").clone()
}

#[tokio::test]
async fn a_brief_list_has_what_a_list_shows_and_nothing_else() {
    let server = TestServer::asking().start().await;
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let body =
        json!({ "argv": ["/bin/echo", format!("--token={secret}"), "a\nb"], "env": { "A_B": "value" } });
    let pending = asked(&server, body).await;
    let items = list(&server.operator(), "").await;
    let [brief] = items.as_slice() else {
        panic!("{items:?}")
    };
    let path = format!("/v1/approvals/{}", id(&pending, "approvalId"));
    let whole = server.operator().read(&path).await;
    for member in [
        "id",
        "runId",
        "status",
        "agentId",
        "sessionKey",
        "host",
        "createdAtMs",
        "expiresAtMs",
    ] {
        assert_eq!(brief[member], whole[member], "{member}");
    }
    assert_eq!(brief["bindingDigest"], whole["boundTo"]["digest"]);
    assert_eq!(brief["truncated"], false);
    assert_eq!(brief["votes"], 0);
    assert_eq!(brief["approvalsRequired"], 1);
    let line = brief.text("line");
    assert!(
        line.starts_with("/bin/echo ") && line.contains("\\u{A}"),
        "{line}"
    );
    assert!(!line.contains('\n') && !line.contains(secret), "{line}");
    assert_eq!(brief.as_object().expect("an object").len(), 13, "{brief}");
}

#[tokio::test]
async fn a_long_command_is_cut_after_its_secrets_are_masked() {
    let server = TestServer::asking().start().await;
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    for before in 150..200 {
        let argv = [
            "/bin/echo".to_owned(),
            "é".repeat(before),
            format!("--token={secret}"),
        ];
        asked(&server, json!({ "argv": argv })).await;
    }
    let items = list(&server.operator(), "&limit=500").await;
    assert_eq!(items.len(), 50);
    for brief in items {
        let line = brief.text("line");
        assert!(line.chars().count() <= 200 && !line.contains("ghp_"), "{line}");
        assert_eq!(brief["truncated"], !line.ends_with('⟩'), "{line}");
    }
}

#[tokio::test]
async fn a_brief_list_is_never_older_than_a_vote_an_answer_or_an_end() {
    let server = TestServer::asking_with(TWO).start().await;
    let [ann, bob] = ann_and_bob(&server).await;
    let first = id(
        &asked(&server, json!({ "argv": ["/bin/date", "1"] })).await,
        "approvalId",
    );
    let second = asked(&server, json!({ "argv": ["/bin/date", "2"] })).await;
    // Twice: what the first one read is kept for the second.
    for _ in 0..2 {
        assert_eq!(list(&ann, "&status=all").await.len(), 2);
    }
    let of = async |id: &str| {
        let items = list(&ann, &format!("&status=all&idPrefix={id}")).await;
        items.first().cloned().expect("it is on the list")
    };
    ann.decided(&first, "allow-once").await;
    assert_has!(of(&first).await, { "status": "pending", "votes": 1, "approvalsRequired": 2 });
    bob.decided(&first, "allow-once").await;
    assert_has!(of(&first).await, { "status": "allowed", "votes": 2 });
    server.agent().cancel(second.text("runId")).await;
    assert_has!(of(second.text("approvalId")).await, { "status": "cancelled" });
    assert_eq!(list(&ann, "").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_whole_list_says_of_each_what_it_says_alone_through_votes_an_answer_and_an_end() {
    let server = TestServer::asking_with(TWO).start().await;
    let [ann, bob] = ann_and_bob(&server).await;
    let decided = asked(&server, json!({ "argv": ["/bin/date", "1"] })).await;
    let cancelled = asked(
        &server,
        json!({ "command": "make all", "env": { "COMPILER_LABEL": "gcc" } }),
    )
    .await;
    let questions = [&cancelled, &decided].map(|pending| id(pending, "approvalId"));
    // Twice: what the first list made is kept for the second.
    let look = async || {
        let mut alone = Vec::new();
        for id in &questions {
            let mut approval = ann.read(&format!("/v1/approvals/{id}")).await;
            // Only an approval by itself says what its entries would have covered.
            let proposals = approval.get_mut("proposals").and_then(Value::as_array_mut);
            for proposal in proposals.into_iter().flatten() {
                proposal
                    .as_object_mut()
                    .expect("an object")
                    .remove("wouldHaveCovered");
            }
            alone.push(approval);
        }
        for _ in 0..2 {
            let listed = ann.read("/v1/approvals?status=all").await;
            assert_eq!(*listed.list("items"), alone);
        }
    };
    look().await;
    ann.decided(&questions[1], "allow-once").await;
    look().await;
    bob.decided(&questions[1], "allow-once").await;
    server.agent().finished(decided.text("runId")).await;
    look().await;
    server.agent().cancel(cancelled.text("runId")).await;
    look().await;
}

#[tokio::test]
async fn a_question_leaves_the_brief_list_when_it_expires() {
    let server = TestServer::asking_with("timeout_ms = 1000").start().await;
    let pending = asked(&server, json!({ "argv": ["/bin/date"] })).await;
    let operator = server.operator();
    let all = || list(&operator, "&status=all");
    let items = eventually("expired", all, |items| items[0]["status"] == "expired").await;
    assert_eq!(items[0]["id"], pending["approvalId"]);
    assert_eq!(list(&operator, "").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_bound_token_sees_its_agents_and_pages_follow_each_other() {
    let server = TestServer::asking().start().await;
    let bound = server.bound_token(&["read"], "main").await;
    for agent in ["main", "b", "main", "b", "main"] {
        let call = json!({ "argv": ["/bin/date"], "agentId": agent, "join": false });
        asked(&server, call).await;
    }
    let all = list(&bound, "").await;
    assert_eq!(all.len(), 3);
    let page = bound.read("/v1/approvals?view=brief&limit=2").await;
    let rest = bound
        .read(&format!(
            "/v1/approvals?view=brief&limit=2&cursor={}",
            page.text("nextCursor")
        ))
        .await;
    let pages: Vec<Value> = [page.list("items").clone(), rest.list("items").clone()].concat();
    assert_eq!(pages, all);
    server
        .operator()
        .get("/v1/approvals?view=short")
        .await
        .problem(400, "invalid-request");
}
